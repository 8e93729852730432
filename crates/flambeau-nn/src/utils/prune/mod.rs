//! `torch.nn.utils.prune`: masks over weights. A pruned `weight` is `weight_orig * weight_mask`, computed where it is used;
//! `weight_orig` is the parameter.
//!
//! ```
//! use torch::prelude::*;
//! use torch::nn;
//! use torch::nn::utils::prune;
//! let mut layer = nn::Linear::new(4, 2);
//! prune::l1_unstructured(&mut layer, "weight", 0.5, None);
//! let zeros = layer.weight.value().to_vec::<f32>().into_iter().filter(|w| *w == 0.0).count();
//! assert_eq!(zeros, 4);
//! let names: Vec<String> = layer.state_dict().keys().map(str::to_owned).collect();
//! assert_eq!(names, ["bias", "weight_orig", "weight_mask"]);
//! prune::remove(&mut layer, "weight");
//! assert!(!prune::is_pruned(&layer));
//! ```

mod methods;

use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::order::RwLock;
pub use methods::{
    Amount, CustomFromMask, Identity, L1Unstructured, LnStructured, Norm, PruningContainer, RandomStructured,
    RandomUnstructured,
};

use super::slot::{self, Slot};
use crate::module::Module;
use crate::module::base::{Cell, get};
use crate::module::traversal;
use crate::parameter::{Buffer, Parameter};
use flambeau_core::dispatch::stand_in::Source;
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::{DType, Error, MemoryFormat, Result, Tensor, ensure, ops};
use std::any::Any;
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

/// What a method sees of a tensor that was pruned before, and may prune further.
///
/// ```
/// use torch::nn::utils::prune::{BasePruningMethod, L1Unstructured, LnStructured, PruningType};
/// assert_eq!(L1Unstructured::new(0.5).pruning_type(), PruningType::Unstructured);
/// assert_eq!(LnStructured::new(1, 2, 0).pruning_type(), PruningType::Structured);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PruningType {
    /// The elements that are left.
    Unstructured,
    /// The slices along [`BasePruningMethod::dim`] that have elements left.
    Structured,
    /// Everything.
    Global,
}

/// A way to choose what is pruned.
///
/// ```
/// use torch::nn::utils::prune::{self, BasePruningMethod, PruningType};
/// use torch::{Result, Tensor, nn};
/// /// What lies below a bound.
/// #[derive(Debug)]
/// struct Below(f64);
/// impl BasePruningMethod for Below {
///     fn pruning_type(&self) -> PruningType {
///         PruningType::Unstructured
///     }
///     fn compute_mask(&self, t: &Tensor, default_mask: &Tensor) -> Result<Tensor> {
///         Ok(default_mask * t.abs().ge(self.0))
///     }
/// }
/// let mut layer = nn::LinearOptions::new(3, 1).bias(false).build();
/// let scores = torch::tensor([[0.1, -2.0, 0.3]]);
/// prune::apply(&mut layer, "weight", Below(0.2), Some(&scores));
/// assert!(layer.weight.value().ne(0.0).equal(&torch::tensor([[false, true, true]])));
/// ```
#[doc(alias = "torch.nn.utils.prune.BasePruningMethod")]
pub trait BasePruningMethod: Debug + Send + Sync + 'static {
    /// What it sees of a tensor that was pruned before.
    fn pruning_type(&self) -> PruningType;
    /// The dimension of the slices that a structured method prunes.
    fn dim(&self) -> Option<i64> {
        None
    }
    /// The mask: `default_mask` with further zeros, chosen by the importance `t`.
    ///
    /// # Errors
    /// An amount or dimension that does not fit.
    #[doc(alias = "torch.nn.utils.prune.BasePruningMethod.compute_mask")]
    fn compute_mask(&self, t: &Tensor, default_mask: &Tensor) -> Result<Tensor>;
    /// `t` pruned, without a module.
    ///
    /// # Errors
    /// As [`BasePruningMethod::compute_mask`]; scores of another shape.
    #[doc(alias = "torch.nn.utils.prune.BasePruningMethod.prune")]
    fn prune(
        &self,
        t: &Tensor,
        default_mask: Option<&Tensor>,
        importance_scores: Option<&Tensor>,
    ) -> Result<Tensor> {
        if let Some(s) = importance_scores {
            ensure!(
                s.sizes() == t.sizes(),
                Assertion,
                "importance_scores should have the same shape as tensor t, got torch.Size({}) vs torch.Size({})",
                fmt_sizes(s.sizes()),
                fmt_sizes(t.sizes())
            );
        }
        let ones = ones_like(t)?;
        ops::mul(t, &self.compute_mask(importance_scores.unwrap_or(t), default_mask.unwrap_or(&ones))?)
    }
}

fn ones_like(t: &Tensor) -> Result<Tensor> {
    ops::ones_like(t, None, None, None, None, None)
}
fn copy(t: &Tensor) -> Result<Tensor> {
    ops::clone(&t.alias_detached(), Some(MemoryFormat::Contiguous))
}

/// A pruned weight.
struct Pruned {
    orig: Cell<Parameter>,
    mask: Cell<Buffer>,
    methods: RwLock<PruningContainer>,
}
impl Source for Pruned {
    fn value(&self) -> Result<Tensor> {
        let (orig, mask) = (get(&self.orig), get(&self.mask));
        ops::mul(&mask.try_to(orig.dtype())?, &orig)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Prunes a parameter of a module by a method, further if it is pruned already. `importance_scores`, of the parameter's
/// shape, take the place of its own elements where the method compares them.
///
/// # Errors
/// No such parameter; scores of another shape; what the method refuses; a struct without a `base`.
#[doc(alias = "torch.nn.utils.prune.BasePruningMethod.apply")]
#[flambeau_macros::short]
pub fn try_apply(
    m: &mut (impl Module + ?Sized),
    name: &str,
    method: impl BasePruningMethod,
    importance_scores: Option<&Tensor>,
) -> Result<()> {
    apply_to(m.as_module_mut(), name, Arc::new(method), importance_scores)
}
fn apply_to(
    m: &mut dyn Module,
    name: &str,
    method: Arc<dyn BasePruningMethod>,
    scores: Option<&Tensor>,
) -> Result<()> {
    let Some(Slot::Parameter(parameter)) = slot::get(m, name)? else {
        return Err(Error::attribute(format!("'{}' object has no attribute '{name}'", m.type_name())));
    };
    let value = parameter.try_value()?;
    if let Some(s) = scores {
        ensure!(
            s.sizes() == value.sizes(),
            Assertion,
            "importance_scores should have the same shape as parameter {name} of {}, got torch.Size({}) vs torch.Size({})",
            m.repr(),
            fmt_sizes(s.sizes()),
            fmt_sizes(value.sizes())
        );
    }
    let scores = scores.unwrap_or(&value);
    let found = Slot::Parameter(parameter.clone());
    let again = slot::source::<Pruned, _>(&found, |p| -> Result<()> {
        let mut all = p.methods.read().unwrap_or_else(|e| e.into_inner()).clone();
        all.add(method.clone());
        let mask = flambeau_autograd::no_grad(|| all.compute_mask(scores, &copy(get(&p.mask).tensor())?))?;
        slot::base(m)?.register_buffer(&format!("{name}_mask"), Buffer::new(mask))?;
        *p.methods.write().unwrap_or_else(|e| e.into_inner()) = all;
        Ok(())
    });
    if let Some(done) = again {
        return done;
    }
    ensure!(
        !parameter.is_computed(),
        Type,
        "the weight {name} of {} is computed already: prune it first, or remove what computes it",
        m.type_name()
    );
    let mask =
        flambeau_autograd::no_grad(|| method.compute_mask(scores, &ones_like(&value.alias_detached())?))?;
    let base = slot::base(m)?;
    let (orig, masked) = (format!("{name}_orig"), format!("{name}_mask"));
    base.register_parameter(&orig, parameter)?;
    base.register_buffer(&masked, Buffer::new(mask))?;
    let (Some(orig), Some(mask)) = (base.parameter_cell(&orig), base.buffer_cell(&masked)) else {
        return Ok(());
    };
    let mut methods = PruningContainer::new();
    methods.add(method);
    let source = Arc::new(Pruned { orig, mask, methods: RwLock::new(methods) });
    slot::set(m, name, found.computed(&value, source)?)
}

/// Makes a parameter ready for pruning without pruning anything.
///
/// ```
/// use torch::nn;
/// use torch::nn::utils::prune;
/// let mut layer = nn::Linear::new(3, 1);
/// prune::identity(&mut layer, "weight");
/// assert!(prune::is_pruned(&layer) && layer.weight.value().ne(0.0).all().item::<bool>());
/// ```
///
/// # Errors
/// As [`apply()`].
#[doc(alias = "torch.nn.utils.prune.identity")]
#[flambeau_macros::short]
pub fn try_identity(m: &mut (impl Module + ?Sized), name: &str) -> Result<()> {
    try_apply(m, name, Identity, None)
}
/// Prunes elements at random.
///
/// ```
/// use torch::nn;
/// use torch::nn::utils::prune;
/// let mut layer = nn::Linear::new(3, 2);
/// prune::random_unstructured(&mut layer, "weight", 4);
/// assert_eq!(layer.weight.value().eq(0.0).sum().item::<i64>(), 4);
/// ```
///
/// # Errors
/// As [`apply()`]; an amount that does not fit.
#[doc(alias = "torch.nn.utils.prune.random_unstructured")]
#[flambeau_macros::short]
pub fn try_random_unstructured(
    m: &mut (impl Module + ?Sized),
    name: &str,
    amount: impl Into<Amount>,
) -> Result<()> {
    try_apply(m, name, RandomUnstructured::try_new(amount)?, None)
}
/// Prunes the elements of smallest magnitude.
///
/// # Errors
/// As [`apply()`]; an amount that does not fit.
#[doc(alias = "torch.nn.utils.prune.l1_unstructured")]
#[flambeau_macros::short]
pub fn try_l1_unstructured(
    m: &mut (impl Module + ?Sized),
    name: &str,
    amount: impl Into<Amount>,
    importance_scores: Option<&Tensor>,
) -> Result<()> {
    try_apply(m, name, L1Unstructured::try_new(amount)?, importance_scores)
}
/// Prunes slices along `dim` at random.
///
/// ```
/// use torch::nn;
/// use torch::nn::utils::prune;
/// let mut layer = nn::Linear::new(3, 4);
/// // half of the outputs
/// prune::random_structured(&mut layer, "weight", 0.5, 0);
/// let rows = layer.weight.value().ne(0.0).sum_dim(1, false).to_vec::<i64>();
/// assert_eq!(rows.iter().filter(|n| **n == 0).count(), 2);
/// ```
///
/// # Errors
/// As [`apply()`]; an amount or dimension that does not fit.
#[doc(alias = "torch.nn.utils.prune.random_structured")]
#[flambeau_macros::short]
pub fn try_random_structured(
    m: &mut (impl Module + ?Sized),
    name: &str,
    amount: impl Into<Amount>,
    dim: i64,
) -> Result<()> {
    try_apply(m, name, RandomStructured::try_new(amount, dim)?, None)
}
/// Prunes the slices along `dim` of smallest norm.
///
/// ```
/// use torch::nn;
/// use torch::nn::utils::prune;
/// let mut layer = nn::Linear::new(2, 2);
/// let scores = torch::tensor([[1.0, 2.0], [3.0, 0.0]]);
/// // the column with the smaller sum of squares
/// prune::ln_structured(&mut layer, "weight", 1, 2, 1, Some(&scores));
/// assert_eq!(layer.weight.value().ne(0.0).to_vec2::<bool>(), [[true, false], [true, false]]);
/// ```
///
/// # Errors
/// As [`apply()`]; an amount or dimension that does not fit.
#[doc(alias = "torch.nn.utils.prune.ln_structured")]
#[flambeau_macros::short]
pub fn try_ln_structured(
    m: &mut (impl Module + ?Sized),
    name: &str,
    amount: impl Into<Amount>,
    n: impl Into<Norm>,
    dim: i64,
    importance_scores: Option<&Tensor>,
) -> Result<()> {
    try_apply(m, name, LnStructured::try_new(amount, n, dim)?, importance_scores)
}
/// Prunes by a mask of the parameter's shape.
///
/// ```
/// use torch::nn;
/// use torch::nn::utils::prune;
/// let mut layer = nn::Linear::new(3, 1);
/// prune::custom_from_mask(&mut layer, "weight", &torch::tensor([[1.0, 0.0, 1.0]]));
/// assert!(layer.weight.value().ne(0.0).equal(&torch::tensor([[true, false, true]])));
/// ```
///
/// # Errors
/// As [`apply()`]; a mask of another shape.
#[doc(alias = "torch.nn.utils.prune.custom_from_mask")]
#[flambeau_macros::short]
pub fn try_custom_from_mask(m: &mut (impl Module + ?Sized), name: &str, mask: &Tensor) -> Result<()> {
    try_apply(m, name, CustomFromMask::new(mask), None)
}

/// Prunes several parameters of a model together: the method compares all their elements at once. Parameters are given by
/// their dotted names (`"conv1.weight"`), scores under the same names.
///
/// ```
/// use torch::{nn, prelude::*};
/// use torch::nn::utils::prune::{self, L1Unstructured};
/// let (large, small) = (nn::Linear::new(2, 2), nn::Linear::new(2, 2));
/// nn::init::constant_(&large.weight, 2.0);
/// nn::init::constant_(&small.weight, 1.0);
/// let mut model = nn::Sequential::new((large, small));
/// prune::global_unstructured(&mut model, &["0.weight", "1.weight"], L1Unstructured::new(0.5), None);
/// let zeros = model.named_modules().into_iter().map(|(_, m)| prune::pruning_methods(m, "weight").is_some());
/// assert_eq!(zeros.collect::<Vec<_>>(), [false, true, true]);
/// ```
///
/// # Errors
/// As [`apply()`]; a method that is not unstructured.
#[doc(alias = "torch.nn.utils.prune.global_unstructured")]
#[flambeau_macros::short]
pub fn try_global_unstructured(
    root: &mut (impl Module + ?Sized),
    parameters: &[&str],
    method: impl BasePruningMethod,
    importance_scores: Option<&HashMap<String, Tensor>>,
) -> Result<()> {
    ensure!(
        method.pruning_type() == PruningType::Unstructured,
        Type,
        "Only \"unstructured\" PRUNING_TYPE supported for the `pruning_method`. Found method {method:?} of type {:?}",
        method.pruning_type()
    );
    let root = root.as_module_mut();
    let mut values = Vec::new();
    let mut masks = Vec::new();
    let mut sizes = Vec::new();
    for path in parameters {
        let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
        let m = traversal::submodule(root, parent)?;
        let found = slot::fields(m).into_iter().find(|(n, _)| n == name);
        let Some((_, p)) = found else {
            return Err(Error::attribute(format!("'{}' object has no attribute '{name}'", m.type_name())));
        };
        let value = p.try_value()?.alias_detached();
        let mask = match m.base().and_then(|b| b.buffer(&format!("{name}_mask"))) {
            Some(mask) => mask.tensor().clone(),
            None => ones_like(&value)?,
        };
        sizes.push(value.sizes().to_vec());
        values.push(importance_scores.and_then(|s| s.get(*path)).cloned().unwrap_or(value));
        masks.push(mask);
    }
    let scores = super::try_parameters_to_vector(&values)?;
    let mut all = PruningContainer::new();
    all.add(Arc::new(method));
    let mask =
        flambeau_autograd::no_grad(|| all.compute_mask(&scores, &super::try_parameters_to_vector(&masks)?))?;
    let mut at = 0;
    for (path, sizes) in parameters.iter().zip(sizes) {
        let n: i64 = sizes.iter().product();
        let part = ops::reshape(&ops::narrow(&mask, 0, at, n)?, &sizes)?;
        let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
        let steps: Vec<&str> = if parent.is_empty() { vec![] } else { parent.split('.').collect() };
        traversal::at_mut(root, &steps, &mut |m| {
            apply_to(m, name, Arc::new(CustomFromMask::new(&part)), None)
        })?;
        at += n;
    }
    Ok(())
}

/// Makes a pruned parameter a plain one again, with zeros where it was pruned. The parameter stays the same one.
///
/// # Errors
/// It is not pruned.
#[doc(alias = "torch.nn.utils.prune.remove")]
#[flambeau_macros::short]
pub fn try_remove(m: &mut (impl Module + ?Sized), name: &str) -> Result<()> {
    let m = m.as_module_mut();
    let found = slot::get(m, name)?;
    let orig = found.and_then(|s| {
        slot::source::<Pruned, _>(&s, |p| -> Result<Parameter> {
            let value = flambeau_autograd::no_grad(|| p.value())?;
            let orig = get(&p.orig);
            slot::overwrite(&orig, &value)?;
            Ok(orig)
        })
    });
    let orig = orig.ok_or_else(|| {
        Error::value(format!(
            "Parameter '{name}' of module {} has to be pruned before pruning can be removed",
            m.repr()
        ))
    })??;
    let base = slot::base(m)?;
    base.remove_parameter(&format!("{name}_orig"));
    base.remove_buffer(&format!("{name}_mask"));
    slot::set(m, name, Slot::Parameter(orig))
}

/// Whether a parameter of the module, or of one below it, is pruned.
#[doc(alias = "torch.nn.utils.prune.is_pruned")]
pub fn is_pruned(m: &(impl Module + ?Sized)) -> bool {
    m.modules().into_iter().any(|m| {
        slot::fields(m)
            .into_iter()
            .any(|(_, p)| slot::source::<Pruned, _>(&Slot::Parameter(p), |_| ()).is_some())
    })
}
/// The methods that a parameter was pruned by, in order; none if it is not pruned.
///
/// ```
/// use torch::nn;
/// use torch::nn::utils::prune;
/// let mut layer = nn::Linear::new(4, 2);
/// assert!(prune::pruning_methods(&layer, "weight").is_none());
/// prune::random_unstructured(&mut layer, "weight", 0.25);
/// prune::l1_unstructured(&mut layer, "weight", 0.25, None);
/// assert_eq!(prune::pruning_methods(&layer, "weight").unwrap().len(), 2);
/// ```
pub fn pruning_methods(m: &(impl Module + ?Sized), name: &str) -> Option<PruningContainer> {
    let (_, p) = slot::fields(m.as_module()).into_iter().find(|(n, _)| n == name)?;
    slot::source::<Pruned, _>(&Slot::Parameter(p), |p| {
        p.methods.read().unwrap_or_else(|e| e.into_inner()).clone()
    })
}

/// Ones and zeros of a mask as booleans.
fn kept(mask: &Tensor) -> Result<Tensor> {
    ops::ne(mask, &Tensor::zeros_raw(&[], DType::I64, mask.device())?)
}
