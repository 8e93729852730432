//! `torch.nn.utils.parametrize`: weights that are functions of other tensors.
//!
//! ```
//! use torch::prelude::*;
//! use torch::nn;
//! use torch::nn::utils::parametrize;
//!
//! #[derive(Debug, Module)]
//! struct Symmetric {}
//! impl Forward<&Tensor> for Symmetric {
//!     type Output = Tensor;
//!     fn forward(&self, x: &Tensor) -> Tensor {
//!         x.triu(0) + x.triu(1).transpose(0, 1)
//!     }
//! }
//! let mut layer = nn::Linear::new(3, 3);
//! parametrize::register_parametrization(&mut layer, "weight", Box::new(Symmetric {}));
//! let w = layer.weight.value();
//! assert_eq!(w.to_vec::<f32>(), w.transpose(0, 1).to_vec::<f32>());
//! let names: Vec<String> = layer.state_dict().keys().map(str::to_owned).collect();
//! assert_eq!(names, ["bias", "parametrizations.weight.original"]);
//! ```

use super::slot::{self, Slot};
use crate::module::base::{Base, Cell, get, put};
use crate::module::deepcopy::{self, Copied, Memo};
use crate::module::forward::{Call, Layer};
use crate::module::repr;
use crate::module::{Module, Visitor, VisitorMut};
use crate::parameter::{Buffer, Parameter};
use flambeau_core::dispatch::stand_in::Source;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::types::order::RwLock;
use flambeau_core::{Error, ErrorKind, Result, Tensor, ensure};
use std::any::Any;
use std::borrow::Cow;
use std::cell::{Cell as Number, RefCell};
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Originals that give a value.
pub enum Inverse {
    /// The parametrisation has no inverse: what it is registered on stays as it is.
    Missing,
    /// One original.
    One(Tensor),
    /// Several.
    Many(Vec<Tensor>),
}

/// How a weight is computed. A boxed [`Layer`] is one; those of several originals, or with an inverse, implement it.
///
/// ```
/// use torch::nn::utils::parametrize::{self, Inverse, Parametrization};
/// use torch::prelude::*;
/// use torch::{Result, nn};
/// /// Positive weights.
/// #[derive(Debug, Module)]
/// struct Exp {}
/// impl Parametrization for Exp {
///     fn compute(&self, originals: &[Tensor]) -> Result<Tensor> {
///         Ok(originals[0].exp())
///     }
///     fn right_inverse(&self, value: &Tensor) -> Result<Inverse> {
///         Ok(Inverse::One(value.log()))
///     }
/// }
/// let mut layer = nn::Linear::new(1, 1);
/// nn::init::ones_(&layer.weight);
/// parametrize::register_parametrization(&mut layer, "weight", Exp {});
/// assert_eq!(layer.weight.value().item::<f64>(), 1.0);
/// let originals = parametrize::parametrizations(&layer, "weight").unwrap().originals();
/// assert_eq!(originals[0].item::<f64>(), 0.0);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say how a weight is computed",
    label = "no parametrisation",
    note = "a layer of one tensor to one tensor is given boxed: `Box::new(layer)`; others have `impl Parametrization`"
)]
pub trait Parametrization: Module {
    /// The weight of its originals: all of them for the first parametrisation of a weight, what came out before for the
    /// next ones.
    ///
    /// # Errors
    /// Originals that do not fit.
    fn compute(&self, originals: &[Tensor]) -> Result<Tensor>;
    /// Originals that give `value`, or nearly: used when it is registered on a weight that has a value, and by
    /// [`ParametrizationList::right_inverse`].
    ///
    /// # Errors
    /// Values that it cannot give; of kind `Unsupported` where it never can.
    fn right_inverse(&self, value: &Tensor) -> Result<Inverse> {
        let _ = value;
        Ok(Inverse::Missing)
    }
}
impl<L: Layer + ?Sized> Parametrization for Box<L> {
    fn compute(&self, originals: &[Tensor]) -> Result<Tensor> {
        match originals {
            [one] => self.try_call(one),
            _ => Err(Error::type_(format!(
                "{} takes one tensor and was given {}",
                self.type_name(),
                originals.len()
            ))),
        }
    }
}

enum Original {
    Parameter(Cell<Parameter>),
    Buffer(Cell<Buffer>),
}
impl Original {
    fn tensor(&self) -> Tensor {
        match self {
            Original::Parameter(c) => get(c).tensor().clone(),
            Original::Buffer(c) => get(c).tensor().clone(),
        }
    }
    fn slot(&self) -> Slot {
        match self {
            Original::Parameter(c) => Slot::Parameter(get(c)),
            Original::Buffer(c) => Slot::Buffer(get(c)),
        }
    }
    /// Another value; the parameter stays the same one where its geometry does.
    fn set(&self, value: &Tensor) -> Result<()> {
        let old = self.tensor();
        if old.is_same(value) {
            return Ok(());
        }
        if old.sizes() == value.sizes() {
            return slot::overwrite(&old, value);
        }
        match self {
            Original::Parameter(c) => {
                let old = get(c);
                old.mark_replaced();
                put(c, Parameter::try_new(value, old.requires_grad())?);
            }
            Original::Buffer(c) => {
                let persistent = get(c).is_persistent();
                put(c, Buffer::new(value.alias_detached()).persistent(persistent));
            }
        }
        Ok(())
    }
}

/// What a weight's place and its list share.
struct Shared {
    /// No other list ever had or will have it: an address would be another's after this one is dropped.
    number: u64,
    maps: RwLock<Vec<Arc<dyn Parametrization>>>,
    originals: Vec<Original>,
}
impl Shared {
    fn new(maps: Vec<Arc<dyn Parametrization>>, originals: Vec<Original>) -> Shared {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Shared { number, maps: RwLock::new(maps), originals }
    }
    fn compute(&self) -> Result<Tensor> {
        let maps = self.maps.read().unwrap_or_else(|e| e.into_inner()).clone();
        let mut now: Vec<Tensor> = self.originals.iter().map(Original::tensor).collect();
        for map in maps {
            now = vec![map.compute(&now)?];
        }
        now.pop().ok_or_else(|| Error::runtime("a parametrisation without originals"))
    }
}
thread_local! {
    static DEPTH: Number<usize> = const { Number::new(0) };
    static CACHE: RefCell<HashMap<u64, Tensor>> = RefCell::new(HashMap::new());
}
impl Source for Shared {
    fn value(&self) -> Result<Tensor> {
        if DEPTH.get() == 0 {
            return self.compute();
        }
        if let Some(t) = CACHE.try_with(|c| c.borrow().get(&self.number).cloned()).ok().flatten() {
            return Ok(t);
        }
        let t = self.compute()?;
        let before = CACHE.try_with(|c| c.borrow_mut().insert(self.number, t.clone()));
        drop(before);
        Ok(t)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Runs `f`; meanwhile every parametrised weight is computed once on this thread, and not at each use.
///
/// ```
/// use torch::nn;
/// use torch::nn::utils::{parametrizations, parametrize};
/// let mut layer = nn::Linear::new(3, 3);
/// parametrizations::orthogonal(&mut layer, "weight");
/// let same = || layer.weight.value().is_same(&layer.weight.value());
/// assert!(!same() && parametrize::cached(same));
/// ```
#[doc(alias = "torch.nn.utils.parametrize.cached")]
pub fn cached<R>(f: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get() - 1);
            if DEPTH.get() == 0 {
                let gone = CACHE.try_with(RefCell::take);
                drop(gone);
            }
        }
    }
    DEPTH.set(DEPTH.get() + 1);
    let _leave = Leave;
    f()
}

/// The parametrisations of one weight, one after the other, and the originals that the first is applied to. It stands in
/// the module as `parametrizations.NAME`.
///
/// ```
/// use torch::nn;
/// use torch::nn::utils::{parametrizations, parametrize};
/// let mut layer = nn::Linear::new(3, 3);
/// parametrizations::weight_norm(&mut layer, "weight");
/// let list = parametrize::parametrizations(&layer, "weight").unwrap();
/// // length and direction
/// assert_eq!((list.len(), list.originals().len()), (1, 2));
/// assert!(torch::allclose(&list.compute()?, &layer.weight.value()));
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.nn.utils.parametrize.ParametrizationList")]
pub struct ParametrizationList {
    base: Base,
    shared: Arc<Shared>,
    maps: Vec<Arc<dyn Parametrization>>,
    one: bool,
}
impl Debug for ParametrizationList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.repr())
    }
}
fn size(t: &Tensor) -> String {
    format!("torch.Size({})", fmt_sizes(t.sizes()))
}

impl ParametrizationList {
    fn new(map: Arc<dyn Parametrization>, original: &Slot, unsafe_: bool) -> Result<ParametrizationList> {
        let value = original.tensor();
        let inverse = flambeau_autograd::no_grad(|| match map.right_inverse(value) {
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(Inverse::Missing),
            r => r,
        })?;
        let base = Base::new();
        let register = |name: &str, s: Slot| match s {
            Slot::Parameter(p) => base.register_parameter(name, p),
            Slot::Buffer(b) => base.register_buffer(name, b),
        };
        let (one, names) = match &inverse {
            Inverse::Missing | Inverse::One(_) => (true, vec!["original".to_owned()]),
            Inverse::Many(l) => (false, (0..l.len()).map(|i| format!("original{i}")).collect()),
        };
        match &inverse {
            Inverse::Missing | Inverse::One(_) => register("original", original.clone())?,
            Inverse::Many(l) => {
                for (name, t) in names.iter().zip(l) {
                    let slot = match original {
                        Slot::Parameter(p) => Slot::Parameter(Parameter::try_new(t, p.requires_grad())?),
                        Slot::Buffer(b) => Slot::Buffer(Buffer::new(t.clone()).persistent(b.is_persistent())),
                    };
                    register(name, slot)?;
                }
            }
        }
        let cell = |name: &String| {
            let parameter = base.parameter_cell(name).map(Original::Parameter);
            parameter.or_else(|| base.buffer_cell(name).map(Original::Buffer))
        };
        let originals: Vec<Original> = names.iter().filter_map(cell).collect();
        if let Inverse::One(new) = &inverse {
            let differs = |what: &str, a: String, b: String| {
                Error::value(format!(
                    "When `right_inverse` outputs one tensor, it may not change the {what}.\noriginal.{what}: {a}\n\
                     right_inverse(original).{what}: {b}"
                ))
            };
            if new.dtype() != value.dtype() {
                let name = |t: &Tensor| format!("torch.{}", t.dtype().name());
                return Err(differs("dtype", name(value), name(new)));
            }
            if new.device() != value.device() {
                return Err(differs("device", value.device().to_string(), new.device().to_string()));
            }
        }
        let shared = Arc::new(Shared::new(vec![map.clone()], originals));
        let (dtype, shape) = (value.dtype(), size(value));
        if let (Inverse::One(new), Some(original)) = (&inverse, shared.originals.first()) {
            original.set(new)?;
        }
        let list = ParametrizationList { base, shared, maps: vec![map], one };
        if !unsafe_ {
            let z = list.compute()?;
            ensure!(
                z.dtype() == dtype,
                Value,
                "Registering a parametrization may not change the dtype of the tensor, unless `unsafe` flag is enabled.\n\
                 unparametrized dtype: torch.{}\nparametrized dtype: torch.{}",
                dtype.name(),
                z.dtype().name()
            );
            ensure!(
                size(&z) == shape,
                Value,
                "Registering a parametrization may not change the shape of the tensor, unless `unsafe` flag is enabled.\n\
                 unparametrized shape: {shape}\nparametrized shape: {}",
                size(&z)
            );
        }
        Ok(list)
    }
    /// The weight (PyTorch's `forward`).
    ///
    /// # Errors
    /// Those of the parametrisations.
    pub fn compute(&self) -> Result<Tensor> {
        self.shared.compute()
    }
    /// Gives the originals values that make the weight `value`.
    ///
    /// # Errors
    /// A parametrisation without an inverse; a value that it cannot give.
    #[doc(alias = "torch.nn.utils.parametrize.ParametrizationList.right_inverse")]
    pub fn right_inverse(&self, value: &Tensor) -> Result<()> {
        let mut now = vec![value.clone()];
        for map in self.maps.iter().rev() {
            let inverse = match now.as_slice() {
                [v] => flambeau_autograd::no_grad(|| map.right_inverse(v))?,
                _ => {
                    return Err(Error::value(
                        "'right_inverse' must return one tensor, but for the first parametrisation",
                    ));
                }
            };
            now = match inverse {
                Inverse::One(t) => vec![t],
                Inverse::Many(l) => l,
                Inverse::Missing => {
                    return Err(Error::runtime(format!(
                        "parametrization {} does not implement right_inverse.",
                        map.type_name()
                    )));
                }
            };
        }
        let originals = &self.shared.originals;
        ensure!(
            now.len() == originals.len(),
            Value,
            "'right_inverse' must return a sequence of tensors of length {}. Got a sequence of length {}.",
            originals.len(),
            now.len()
        );
        for (i, (o, t)) in originals.iter().zip(&now).enumerate() {
            let old = o.tensor();
            let (tensor, name) = if self.one {
                ("The tensor".to_owned(), "original".to_owned())
            } else {
                (format!("Tensor {i}"), format!("original{i}"))
            };
            ensure!(
                old.dtype() == t.dtype(),
                Value,
                "{tensor} returned by `right_inverse` has dtype torch.{} while `{name}` has dtype torch.{}",
                t.dtype().name(),
                old.dtype().name()
            );
            o.set(t)?;
        }
        Ok(())
    }
    /// The tensors that the weight is computed from.
    pub fn originals(&self) -> Vec<Tensor> {
        self.shared.originals.iter().map(Original::tensor).collect()
    }
    /// Number of parametrisations.
    pub fn len(&self) -> usize {
        self.maps.len()
    }
    /// Never: there is at least one.
    pub fn is_empty(&self) -> bool {
        self.maps.is_empty()
    }
    /// One of the parametrisations.
    pub fn get(&self, i: usize) -> Option<&dyn Parametrization> {
        self.maps.get(i).map(|m| &**m)
    }
    fn append(&mut self, map: Arc<dyn Parametrization>) {
        self.maps.push(map.clone());
        self.shared.maps.write().unwrap_or_else(|e| e.into_inner()).push(map);
    }
}
/// The methods of a module that holds others.
macro_rules! itself {
    ($name:literal) => {
        fn type_name(&self) -> Cow<'static, str> {
            Cow::Borrowed($name)
        }
        fn base(&self) -> Option<&Base> {
            Some(&self.base)
        }
        fn base_mut(&mut self) -> Option<&mut Base> {
            Some(&mut self.base)
        }
        crate::module::is_itself!();
    };
}
impl Module for ParametrizationList {
    itself!("ParametrizationList");
    fn copied(&self, _: &mut Memo) -> Result<Copied> {
        Err(deepcopy::computed("parameter"))
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        self.maps.iter().enumerate().for_each(|(i, m)| v.module(&i.to_string(), m.as_module()));
    }
    fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
        // the weight's place gives its handles back for the time being: what is shared cannot be changed
        let clear = |l: Vec<_>| *self.shared.maps.write().unwrap_or_else(|e| e.into_inner()) = l;
        clear(Vec::new());
        let mut result = Ok(());
        for (i, m) in self.maps.iter_mut().enumerate() {
            result = result.and_then(|()| match Arc::get_mut(m) {
                Some(m) => v.module(&i.to_string(), m.as_module_mut()),
                None => Err(Error::runtime(
                    "a parametrisation that several weights share cannot be moved or converted: do so before sharing it",
                )),
            });
        }
        clear(self.maps.clone());
        result
    }
    fn repr(&self) -> String {
        repr::list(self)
    }
}

/// All parametrised weights of a module, under their names: its child `parametrizations`.
///
/// ```
/// use torch::nn::utils::{parametrizations, parametrize::Parametrizations};
/// use torch::{nn, prelude::*};
/// let mut layer = nn::Linear::new(3, 3);
/// parametrizations::orthogonal(&mut layer, "weight");
/// let own = layer.named_children().into_iter().find(|(n, _)| n == "parametrizations").unwrap().1;
/// let all = own.downcast_ref::<Parametrizations>().unwrap();
/// assert_eq!(all.named_children()[0].0, "weight");
/// ```
pub struct Parametrizations {
    base: Base,
    items: Vec<(String, ParametrizationList)>,
}
impl Debug for Parametrizations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.repr())
    }
}
impl Module for Parametrizations {
    itself!("ModuleDict");
    fn copied(&self, _: &mut Memo) -> Result<Copied> {
        Err(deepcopy::computed("parameter"))
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        self.items.iter().for_each(|(n, l)| v.module(n, l));
    }
    fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
        self.items.iter_mut().try_for_each(|(n, l)| v.module(n, l))
    }
}
const NAME: &str = "parametrizations";
fn all(m: &dyn Module) -> Option<&Parametrizations> {
    m.base()?.module(NAME)?.as_any().downcast_ref()
}
fn all_mut(m: &mut dyn Module) -> Option<&mut Parametrizations> {
    let (_, p) = m.base_mut()?.modules_mut().iter_mut().find(|(n, _)| n == NAME)?;
    p.as_any_mut().downcast_mut()
}

/// The parametrisations of a weight of the module.
pub fn parametrizations<'a>(m: &'a (impl Module + ?Sized), name: &str) -> Option<&'a ParametrizationList> {
    all(m.as_module())?.items.iter().find(|(n, _)| n == name).map(|(_, l)| l)
}
/// Whether a weight of the module is parametrised; any, for `None`.
///
/// ```
/// use torch::nn;
/// use torch::nn::utils::{parametrizations, parametrize};
/// let mut layer = nn::Linear::new(3, 3);
/// parametrizations::orthogonal(&mut layer, "weight");
/// assert!(parametrize::is_parametrized(&layer, Some("weight")));
/// assert!(!parametrize::is_parametrized(&layer, Some("bias")));
/// assert_eq!(parametrize::type_before_parametrizations(&layer), "Linear");
/// ```
#[doc(alias = "torch.nn.utils.parametrize.is_parametrized")]
pub fn is_parametrized(m: &(impl Module + ?Sized), name: Option<&str>) -> bool {
    let items = all(m.as_module()).map_or(&[][..], |p| &p.items);
    name.map_or(!items.is_empty(), |name| items.iter().any(|(n, _)| n == name))
}
/// The class of a module as it was before it had parametrisations.
#[doc(alias = "torch.nn.utils.parametrize.type_before_parametrizations")]
pub fn type_before_parametrizations(m: &(impl Module + ?Sized)) -> Cow<'static, str> {
    m.type_name()
}

/// Makes a weight (or buffer) of a module a function of what it was. Several may be registered, one after the other. The
/// field keeps its place: operators that use it get the computed tensor, `value()` gives it, and the original becomes the
/// parameter `parametrizations.NAME.original`, the same one for optimizers.
///
/// # Errors
/// No such tensor; a struct without a `base`; a parametrisation that changes shape or dtype.
#[doc(alias = "torch.nn.utils.parametrize.register_parametrization")]
#[flambeau_macros::short]
pub fn try_register_parametrization(
    m: &mut (impl Module + ?Sized),
    name: &str,
    parametrization: impl Parametrization,
) -> Result<()> {
    register(m.as_module_mut(), name, Arc::new(parametrization), false)
}
/// The same without the check that shape and dtype stay: the caller knows (PyTorch's `unsafe=True`; no Rust `unsafe`).
///
/// ```
/// use torch::{nn, prelude::*};
/// use torch::nn::utils::parametrize;
/// let mut layer = nn::Linear::new(4, 2);
/// // one vector instead of a matrix
/// let flat: Box<dyn nn::Layer> = Box::new(nn::FlattenOptions::new().start_dim(0).build());
/// parametrize::register_parametrization_unchecked(&mut layer, "weight", flat);
/// assert_eq!(layer.weight.value().sizes(), &[8]);
/// ```
///
/// # Errors
/// No such tensor; a struct without a `base`.
#[flambeau_macros::short]
pub fn try_register_parametrization_unchecked(
    m: &mut (impl Module + ?Sized),
    name: &str,
    parametrization: impl Parametrization,
) -> Result<()> {
    register(m.as_module_mut(), name, Arc::new(parametrization), true)
}

pub(super) fn register(
    m: &mut dyn Module,
    name: &str,
    map: Arc<dyn Parametrization>,
    unsafe_: bool,
) -> Result<()> {
    map.set_training(m.is_training());
    if is_parametrized(m, Some(name)) {
        return register_next(m, name, map, unsafe_);
    }
    let original = slot::get(m, name)?.filter(|s| !s.is_computed()).ok_or_else(|| {
        Error::value(format!(
            "Module '{}' does not have a parameter, a buffer, or a parametrized element with name '{name}'",
            m.repr()
        ))
    })?;
    slot::base(m)?;
    let list = ParametrizationList::new(map, &original, unsafe_)?;
    let like =
        if unsafe_ { flambeau_autograd::no_grad(|| list.compute())? } else { original.tensor().clone() };
    let source: Arc<dyn Source> = list.shared.clone();
    slot::set(m, name, original.computed(&like, source)?)?;
    match all_mut(m) {
        Some(p) => p.items.push((name.to_owned(), list)),
        None => {
            let items = vec![(name.to_owned(), list)];
            if let Some(b) = m.base_mut() {
                b.add_module(NAME, Box::new(Parametrizations { base: Base::new(), items }))?;
            }
        }
    }
    Ok(())
}
fn register_next(m: &mut dyn Module, name: &str, map: Arc<dyn Parametrization>, unsafe_: bool) -> Result<()> {
    let Some(list) = parametrizations(m, name) else { return Ok(()) };
    let y = list.compute()?;
    let x = map.compute(std::slice::from_ref(&y))?;
    if !unsafe_ {
        let same = |a: &Tensor, what: &str, of: &str| -> Result<()> {
            let (dtype, shape) = (a.dtype() == y.dtype(), a.sizes() == y.sizes());
            let text = |which: &str, left: String, right: String| {
                if what.is_empty() {
                    Error::value(format!(
                        "Registering a parametrization may not change the {which} of the tensor, unless the `unsafe` flag \
                         is enabled.\nmodule.{name}.{which}: {left}\nparametrization(module.{name}).{which}: {right}"
                    ))
                } else {
                    Error::value(format!(
                        "The tensor returned by parametrization.right_inverse must have the same {which} as module.{name}, \
                         unless the `unsafe` flag is enabled.\nmodule.{name}.{which}: {left}\n{of} {which}: {right}"
                    ))
                }
            };
            if !dtype {
                let name = |t: &Tensor| format!("torch.{}", t.dtype().name());
                return Err(text("dtype", name(&y), name(a)));
            }
            if !shape {
                return Err(text("shape", size(&y), size(a)));
            }
            Ok(())
        };
        same(&x, "", "")?;
        match map.right_inverse(&x) {
            Err(e) if e.kind() == ErrorKind::Unsupported => {}
            Err(e) => return Err(e),
            Ok(Inverse::Missing) => {}
            Ok(Inverse::One(z)) => same(&z, "inverse", "returned")?,
            Ok(Inverse::Many(_)) => {
                return Err(Error::value("parametrization.right_inverse must return a tensor. Got: tuple"));
            }
        }
    }
    if let Some(p) = all_mut(m)
        && let Some((_, list)) = p.items.iter_mut().find(|(n, _)| n == name)
    {
        list.append(map);
    }
    if let Some(slot) = slot::get(m, name)?
        && (slot.tensor().sizes() != x.sizes() || slot.tensor().dtype() != x.dtype())
        && let Some(list) = parametrizations(m, name)
    {
        let source: Arc<dyn Source> = list.shared.clone();
        slot::set(m, name, slot.computed(&x, source)?)?;
    }
    Ok(())
}

/// Gives a parametrised weight another value: its originals become what gives it (PyTorch's `module.weight = value`).
///
/// ```
/// use torch::nn;
/// use torch::nn::utils::{parametrizations, parametrize};
/// let mut layer = nn::Linear::new(2, 1);
/// parametrizations::weight_norm(&mut layer, "weight");
/// parametrize::assign(&layer, "weight", &torch::tensor([[3.0, 4.0]]));
/// let originals = parametrize::parametrizations(&layer, "weight").unwrap().originals();
/// assert_eq!(originals[0].item::<f64>(), 5.0);
/// ```
///
/// # Errors
/// As [`ParametrizationList::right_inverse`].
#[flambeau_macros::short]
pub fn try_assign(m: &(impl Module + ?Sized), name: &str, value: &Tensor) -> Result<()> {
    match parametrizations(m, name) {
        Some(l) => l.right_inverse(value),
        None => Err(not_parametrized(m.as_module(), name)),
    }
}
fn not_parametrized(m: &dyn Module, name: &str) -> Error {
    Error::value(format!("Module {} does not have a parametrization on {name}", m.repr()))
}

/// Makes a parametrised weight a plain parameter again: with the computed value, or with that of the original.
///
/// ```
/// use torch::nn;
/// use torch::nn::utils::{parametrizations, parametrize};
/// let mut layer = nn::Linear::new(3, 3);
/// parametrizations::orthogonal(&mut layer, "weight");
/// let before = layer.weight.value();
/// parametrize::remove_parametrizations(&mut layer, "weight", true);
/// assert!(!parametrize::is_parametrized(&layer, None));
/// assert_eq!(layer.weight.to_vec::<f32>(), before.to_vec::<f32>());
/// ```
///
/// # Errors
/// The weight is not parametrised; it has several originals and shall keep them.
#[doc(alias = "torch.nn.utils.parametrize.remove_parametrizations")]
#[flambeau_macros::short]
pub fn try_remove_parametrizations(
    m: &mut (impl Module + ?Sized),
    name: &str,
    leave_parametrized: bool,
) -> Result<()> {
    let m = m.as_module_mut();
    let Some(list) = parametrizations(m, name) else { return Err(not_parametrized(m, name)) };
    let new = if list.one {
        let Some(original) = list.shared.originals.first() else { return Err(not_parametrized(m, name)) };
        if leave_parametrized {
            let value = flambeau_autograd::no_grad(|| list.compute())?;
            original.set(&value)?;
        }
        original.slot()
    } else {
        ensure!(
            leave_parametrized,
            Value,
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a sequence \
             of tensors."
        );
        let value = list.compute()?;
        match slot::get(m, name)? {
            Some(Slot::Buffer(b)) => {
                Slot::Buffer(Buffer::new(value.alias_detached()).persistent(b.is_persistent()))
            }
            _ => Slot::Parameter(Parameter::try_new(&value, value.requires_grad())?),
        }
    };
    slot::set(m, name, new)?;
    let mut empty = false;
    if let Some(p) = all_mut(m) {
        p.items.retain(|(n, _)| n != name);
        empty = p.items.is_empty();
    }
    if empty && let Some(b) = m.base_mut() {
        b.remove_module(NAME);
    }
    Ok(())
}

/// Registers the parametrisations of `from` on `to`, all or those of one tensor, over the same originals. A tensor that
/// `to` does not have becomes a parameter of it. The parametrisations are then shared, and the modules cannot be converted.
///
/// ```
/// use torch::nn;
/// use torch::nn::utils::{parametrizations, parametrize};
/// let (mut from, mut to) = (nn::Linear::new(3, 3), nn::Linear::new(3, 3));
/// parametrizations::orthogonal(&mut from, "weight");
/// parametrize::transfer_parametrizations_and_params(&from, &mut to, None);
/// assert_eq!(to.weight.value().to_vec::<f32>(), from.weight.value().to_vec::<f32>());
/// ```
///
/// # Errors
/// Those of registration.
#[doc(alias = "torch.nn.utils.parametrize.transfer_parametrizations_and_params")]
#[flambeau_macros::short]
pub fn try_transfer_parametrizations_and_params(
    from: &(impl Module + ?Sized),
    to: &mut (impl Module + ?Sized),
    name: Option<&str>,
) -> Result<()> {
    let Some(lists) = all(from.as_module()) else { return Ok(()) };
    let to = to.as_module_mut();
    for (n, list) in lists.items.iter().filter(|(n, _)| name.is_none_or(|w| w == n)) {
        if slot::get(to, n)?.is_none() {
            let value = flambeau_autograd::no_grad(|| list.compute())?;
            to.register_parameter(n, Parameter::try_new(&value, true)?)?;
        }
        for map in &list.maps {
            register(to, n, map.clone(), false)?;
        }
        let Some(there) = parametrizations(to, n) else { continue };
        for (a, b) in there.shared.originals.iter().zip(&list.shared.originals) {
            match (a, b) {
                (Original::Parameter(a), Original::Parameter(b)) => put(a, get(b)),
                (Original::Buffer(a), Original::Buffer(b)) => put(a, get(b)),
                _ => a.set(&b.tensor())?,
            }
        }
    }
    Ok(())
}
