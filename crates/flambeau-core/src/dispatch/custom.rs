//! Operators of a program's own (`torch.library`): a schema, kernels by key, a fake rule, rules for gradients and vmap.
//!
//! ```
//! use torch::library as custom;
//! use torch::{Result, Tensor, library::Value, ops};
//! # fn main() -> Result<()> {
//! let scale = custom::custom_op("mylib::scale", "(Tensor x, float by=2.0) -> Tensor", |a: &[Value]| {
//!     let (x, by): (Tensor, f64) = (custom::arg(a, 0)?, custom::arg(a, 1)?);
//!     custom::one(ops::mul(&x, &torch::tensor(by))?)
//! })?;
//! let x = Tensor::from_vec(vec![1f32, 2.0], [2]);
//! let y = scale.call(&[(&x).into(), 2.0.into()], &[])?;
//! let y: Tensor = custom::arg(&y, 0)?;
//! assert_eq!(y.to_vec::<f32>(), [2.0, 4.0]);
//! # drop(scale);
//! # Ok(())
//! # }
//! ```
//!
//! Kernels are called with no lock held, so they may call operators, define and remove others. A definition ends with its
//! [`Library`] (or [`CustomOpDef`]); calls under way end with the kernel that they found.

pub use crate::dispatch::inferred::{SchemaFunction, SchemaType, infer_schema};

use crate::dispatch::definition;
use crate::dispatch::diverted::{self, BoxedKernel};
use crate::dispatch::op::{AnyOp, OpInfo};
use crate::dispatch::op::{Differentiability, no_kernel};
use crate::dispatch::registry::{self, DYNAMIC, Fallback};
use crate::dispatch::value::{IntoValue, Value};
use crate::types::deep;
use crate::types::error::{Error, Result};
use crate::types::keys::{ALL_KEYS, KEYS, Key, KeySet};
use crate::types::names::NameRule;
use crate::types::order;
use crate::types::order::RwLock;
use crate::types::thread_keys::{self, ExcludeGuard};
use crate::{DType, ensure};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

pub use crate::dispatch::value::arg;

/// The owner of operators that a program defined.
pub const OWNER: &str = "torch.library";

/// Results of a kernel with one.
pub fn one(v: impl IntoValue) -> Result<Vec<Value>> {
    Ok(vec![v.into_value()])
}

/// What stands at a key of an operator: a function from arguments to results as values, or [`fallthrough_kernel`].
#[derive(Clone)]
pub struct Kernel(Option<BoxedKernel>);
impl<F: Fn(&[Value]) -> Result<Vec<Value>> + Send + Sync + 'static> From<F> for Kernel {
    fn from(f: F) -> Kernel {
        Kernel(Some(Arc::new(move |args| {
            let results = f(args)?;
            deep::check(&results)?;
            Ok(results)
        })))
    }
}
/// Lets a call pass to the next key.
///
/// ```
/// use torch::library::{Library, LibraryKind, fallthrough_kernel};
/// let mut library = Library::new("doc", LibraryKind::Def)?;
/// library.define("plain(Tensor x) -> Tensor")?;
/// library.impl_("plain", fallthrough_kernel(), "Autograd")?;
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.library.fallthrough_kernel")]
pub fn fallthrough_kernel() -> Kernel {
    Kernel(None)
}

/// A vmap rule: arguments, and for each tensor among them the dimension that is mapped over; results with theirs.
pub type VmapRule =
    Arc<dyn Fn(&[Value], &[Option<i64>]) -> Result<(Vec<Value>, Vec<Option<i64>>)> + Send + Sync>;

/// What the gradient engine does with an operator that has a gradient rule: filled in by flambeau-autograd.
pub type GradientFn = fn(&'static UserOp, &[Value]) -> Result<Vec<Value>>;
static GRADIENT: OnceLock<GradientFn> = OnceLock::new();
/// Fills in the engine's part; the first stays.
pub fn set_gradient(f: GradientFn) -> bool {
    GRADIENT.set(f).is_ok()
}

/// A call by name with arguments as Python binds them: filled in by flambeau-library.
pub type CallFn = fn(&str, &[Value], &super::object::Kwargs) -> Result<Vec<Value>>;
static CALL: OnceLock<CallFn> = OnceLock::new();
/// Fills in the binding of arguments; the first stays.
pub fn set_call(f: CallFn) -> bool {
    CALL.set(f).is_ok()
}

/// One registration: its number, and what it set.
type Slot<T> = Vec<(u64, T)>;
#[derive(Default)]
struct State {
    /// The library that defines it; none once that is gone.
    defined: Option<u64>,
    kernels: [Slot<Kernel>; KEYS],
    /// For every back end without a kernel of its own.
    backends: Slot<Kernel>,
    /// In place of all kernels, gradients included.
    composite: Slot<Kernel>,
    vmap: Slot<VmapRule>,
    gradient: Slot<Arc<dyn Any + Send + Sync>>,
    disabled: u32,
}

/// An operator defined at run time. Its description lives as long as the program; a later definition of the same name and
/// schema uses it again.
pub struct UserOp {
    pub(super) info: &'static OpInfo,
    state: RwLock<State>,
}

static NEXT: AtomicU64 = AtomicU64::new(1);
fn number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}
static GENERATION: AtomicU64 = AtomicU64::new(0);
/// Changes with every definition and removal.
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Acquire)
}
/// Every operator ever defined, by name and schema, and by its description's address.
#[derive(Default)]
struct Known {
    by_text: HashMap<String, &'static UserOp>,
    by_info: HashMap<usize, &'static UserOp>,
}
static KNOWN: RwLock<Option<Known>> = RwLock::new(None);

fn boxed_directly(_: &[Value]) -> Result<Vec<Value>> {
    Err(Error::runtime("an operator of torch.library is called by its description: `info.call(args)`"))
}
/// Calls a program's operator by its description.
pub(crate) fn call(info: &'static OpInfo, args: &[Value]) -> Result<Vec<Value>> {
    let op = {
        let known = KNOWN.read().unwrap_or_else(|e| e.into_inner());
        known.as_ref().and_then(|k| k.by_info.get(&(std::ptr::from_ref(info) as usize)).copied())
    };
    op.ok_or_else(|| Error::runtime(format!("{} is not defined", info.name)))?.call_boxed(args)
}

impl AnyOp for UserOp {
    fn info(&self) -> &'static OpInfo {
        self.info
    }
    fn has(&self, k: Key) -> bool {
        let s = self.state.read().unwrap_or_else(|e| e.into_inner());
        s.kernels[k as usize].last().is_some_and(|k| k.1.0.is_some()) || !s.composite.is_empty()
    }
    fn call_boxed(&self, args: &[Value]) -> Result<Vec<Value>> {
        deep::check(args)?;
        let call = || self.call_values(args);
        thread_keys::deeper(call).unwrap_or_else(|| Err(super::op::too_deep(self.info)))
    }
}

impl UserOp {
    fn call_values(&self, args: &[Value]) -> Result<Vec<Value>> {
        let given = args.iter().fold(KeySet::EMPTY, |ks, v| ks | v.key_set());
        let mut ks = thread_keys::effective(given);
        if ks.without(KeySet(!KeySet::BACKENDS.0)).0 == 0 {
            ks = ks | KeySet::of(Key::Cpu);
        }
        for k in ALL_KEYS.into_iter().rev().filter(|k| ks.has(*k)) {
            match self.at(k)? {
                Step::Kernel(f) => {
                    order::none_held("a program's kernel runs");
                    return if k == Key::Meta { in_fake(|| f(args)) } else { f(args) };
                }
                Step::Gradient(f, op) => return f(op, args),
                Step::Through => {}
                Step::Nothing => {
                    if let Some(f) = registry::user_fallback(k) {
                        return f(self.info, k, args);
                    }
                    match registry::fallback_kind(k) {
                        Fallback::Boxed if k == Key::Autocast && !self.info.seen_by_autocast() => {}
                        Fallback::Boxed => {
                            if let Some(f) = registry::fallback(k) {
                                return f(self.info, k, args.to_vec());
                            }
                        }
                        Fallback::Through => {}
                        // keys above the back ends concern an operator only if it says so
                        Fallback::None if k >= Key::Functionalize => {}
                        Fallback::None => return Err(self.missing(k)),
                    }
                }
            }
        }
        Err(no_kernel(self.info, Key::Cpu))
    }
}

enum Step {
    Kernel(BoxedKernel),
    Gradient(GradientFn, &'static UserOp),
    Through,
    Nothing,
}

impl UserOp {
    /// What the operator does at a key. The lock ends here: user code runs without it.
    fn at(&self, k: Key) -> Result<Step> {
        let s = self.state.read().unwrap_or_else(|e| e.into_inner());
        ensure!(
            s.defined.is_some(),
            Runtime,
            "{} is not defined any more: its library is gone",
            self.info.name
        );
        if let Some((_, kernel)) = s.kernels[k as usize].last()
            && s.disabled & 1 << k as u8 == 0
        {
            return Ok(kernel.0.clone().map_or(Step::Through, Step::Kernel));
        }
        if let Some((_, Kernel(Some(f)))) = s.composite.last()
            && k <= Key::Autograd
            && k != Key::Functionalize
        {
            return Ok(Step::Kernel(f.clone()));
        }
        if k == Key::Autograd
            && let Some(f) = GRADIENT.get()
        {
            // the list of all operators is never asked for under the lock of one of them
            drop(s);
            return Ok(user_op(self.info).map_or(Step::Nothing, |op| Step::Gradient(*f, op)));
        }
        let backend = KeySet::BACKENDS.has(k) && k != Key::Meta;
        if let Some((_, Kernel(Some(f)))) = s.backends.last()
            && backend
        {
            return Ok(Step::Kernel(f.clone()));
        }
        Ok(Step::Nothing)
    }
    fn missing(&self, k: Key) -> Error {
        if k == Key::Meta {
            return Error::unsupported(format!(
                "{}: attempted to run this operator with Meta tensors, but there was no fake impl or Meta kernel \
                 registered for this operator. You may have run into this message while using an operator with \
                 torch.export; a fake impl is registered with register_fake",
                self.info.name
            ));
        }
        Error::unsupported(format!(
            "Could not run '{}' with arguments from the '{k:?}' backend: it has no kernel there",
            self.info.name
        ))
    }
    /// The gradient rule, as the engine that made it knows it.
    pub fn gradient(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        let s = self.state.read().unwrap_or_else(|e| e.into_inner());
        s.gradient.last().map(|g| g.1.clone())
    }
    /// The vmap rule.
    pub fn vmap_rule(&self) -> Option<VmapRule> {
        let s = self.state.read().unwrap_or_else(|e| e.into_inner());
        s.vmap.last().map(|g| g.1.clone())
    }
    /// Whether the operator is made of others whose gradients serve it, or says itself what the autograd key does.
    pub fn has_autograd(&self) -> bool {
        let s = self.state.read().unwrap_or_else(|e| e.into_inner());
        !s.gradient.is_empty() || !s.composite.is_empty() || !s.kernels[Key::Autograd as usize].is_empty()
    }
    fn change<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        f(&mut self.state.write().unwrap_or_else(|e| e.into_inner()))
    }
    /// Takes everything away that a library set.
    fn forget(&self, id: u64) {
        let mut kernels = Vec::new();
        let mut rules: Vec<Box<dyn Any>> = Vec::new();
        self.change(|s| {
            let all = s.kernels.iter_mut().chain([&mut s.backends, &mut s.composite]);
            all.for_each(|slot| kernels.extend(slot.extract_if(.., |k| k.0 == id)));
            rules.extend(s.vmap.extract_if(.., |k| k.0 == id).map(|r| Box::new(r.1) as Box<dyn Any>));
            rules.extend(s.gradient.extract_if(.., |k| k.0 == id).map(|r| Box::new(r.1) as Box<dyn Any>));
            if s.defined == Some(id) {
                s.defined = None;
            }
        });
        // what a program's closures hold is dropped without the lock
        order::none_held("a program's kernel is dropped");
        drop((kernels, rules));
    }
}

fn user_op(info: &'static OpInfo) -> Option<&'static UserOp> {
    let known = KNOWN.read().unwrap_or_else(|e| e.into_inner());
    known.as_ref()?.by_info.get(&(std::ptr::from_ref(info) as usize)).copied()
}
/// The program's operator of that name (`mylib::scale`, `torch.ops.mylib.scale`, with or without overload).
///
/// ```
/// use torch::library::{Value, arg, custom_op, find, one};
/// let op = custom_op("doc::same", "(Tensor x) -> Tensor", |a: &[Value]| one(arg::<torch::Tensor>(a, 0)?))?;
/// assert!(find("torch.ops.doc.same").is_some());
/// op.remove();
/// assert!(find("doc::same").is_none());
/// # Ok::<(), torch::Error>(())
/// ```
pub fn find(name: &str) -> Option<&'static UserOp> {
    let name = name.strip_prefix("torch.ops.").map_or_else(|| name.to_string(), |n| n.replacen('.', "::", 1));
    let name = name.strip_suffix(".default").unwrap_or(&name);
    // several texts may have been defined under one name, one after the other; they are asked without the list's lock
    let all: SmallVec<[&'static UserOp; 2]> = {
        let known = KNOWN.read().unwrap_or_else(|e| e.into_inner());
        known.as_ref()?.by_text.values().copied().filter(|o| o.info.name == name).collect()
    };
    all.into_iter().find(|o| o.state.read().unwrap_or_else(|e| e.into_inner()).defined.is_some())
}
pub(super) fn named(name: &str) -> Result<&'static UserOp> {
    find(name).ok_or_else(|| Error::runtime(format!("no operator '{name}' was defined in this program")))
}

/// What a [`Library`] is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LibraryKind {
    /// Owns the namespace: there is one.
    Def,
    /// Defines operators in a namespace that may have an owner.
    Fragment,
    /// Adds kernels only.
    Impl,
}
static NAMESPACES: RwLock<Vec<(String, u64)>> = RwLock::new(Vec::new());
const RESERVED: [&str; 2] = ["prim", "prims"];

/// Definitions and kernels that end with it.
///
/// ```
/// use torch::library::{Kernel, Library, LibraryKind, Value, arg, call, exists, one};
/// let mut library = Library::new("doc", LibraryKind::Def)?;
/// library.define("double(Tensor x) -> Tensor")?;
/// let kernel: Kernel = (|a: &[Value]| one(arg::<torch::Tensor>(a, 0)? * 2.0)).into();
/// library.impl_("double", kernel, "CPU")?;
/// let y = call("doc::double", &[torch::ones([1]).into()], &[])?;
/// assert_eq!(arg::<torch::Tensor>(&y, 0)?.item::<f32>(), 2.0);
/// drop(library);
/// assert!(!exists("doc::double"));
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.library.Library")]
pub struct Library {
    namespace: String,
    kind: LibraryKind,
    id: u64,
    touched: Vec<&'static UserOp>,
    owns: bool,
}
impl Library {
    /// A library for a namespace (`mylib`, or `aten` for kernels of existing operators).
    ///
    /// # Errors
    /// A reserved namespace; a second owner.
    pub fn new(namespace: &str, kind: LibraryKind) -> Result<Library> {
        ensure!(
            !RESERVED.contains(&namespace),
            Value,
            "{namespace} is a reserved namespace. Please try creating a library with another name."
        );
        let id = number();
        if kind == LibraryKind::Def {
            let mut all = NAMESPACES.write().unwrap_or_else(|e| e.into_inner());
            ensure!(
                namespace != "aten" && all.iter().all(|n| n.0 != namespace),
                Runtime,
                "Only a single TORCH_LIBRARY can be used to register the namespace {namespace}; please put all of your \
                 definitions in a single TORCH_LIBRARY block (use a fragment to add to it)"
            );
            all.push((namespace.to_string(), id));
        }
        Ok(Library {
            namespace: namespace.to_string(),
            kind,
            id,
            touched: Vec::new(),
            owns: kind == LibraryKind::Def,
        })
    }
    /// Defines an operator by its schema and gives its full name.
    ///
    /// # Errors
    /// A text that is no schema; a name that is defined already; a library for kernels alone.
    #[doc(alias = "torch.library.Library.define")]
    #[doc(alias = "torch.library.define")]
    pub fn define(&mut self, schema: &str) -> Result<&'static UserOp> {
        ensure!(self.kind != LibraryKind::Impl, Runtime, "a library of kind Impl defines no operators");
        let d = definition::parse(schema)?;
        let text = format!("{}::{schema}", self.namespace);
        let name = format!("{}::{}", self.namespace, d.name);
        ensure!(
            find(&name).is_none() && (self.namespace != "aten" || registry::find(&name).is_none()),
            Runtime,
            "Tried to register an operator ({text}) with the same name and overload name multiple times."
        );
        let op = {
            let mut known = KNOWN.write().unwrap_or_else(|e| e.into_inner());
            let known = known.get_or_insert_default();
            match known.by_text.get(&text) {
                Some(op) => *op,
                None => {
                    let info: &'static OpInfo = Box::leak(Box::new(OpInfo {
                        name: Box::leak(name.into_boxed_str()),
                        owner: OWNER,
                        schema: d.schema,
                        python: &[],
                        aten: &[],
                        conventions: &[],
                        composite: false,
                        pointwise: false,
                        names: NameRule::Unsupported,
                        autocast: crate::types::autocast::Autocast::NONE,
                        boxed: boxed_directly,
                        doc: "",
                        grad: Differentiability::Formula,
                        functional: None,
                    }));
                    let op: &'static UserOp = Box::leak(Box::new(UserOp { info, state: RwLock::default() }));
                    known.by_text.insert(text, op);
                    known.by_info.insert(std::ptr::from_ref(info) as usize, op);
                    op
                }
            }
        };
        op.change(|s| s.defined = Some(self.id));
        DYNAMIC.write().unwrap_or_else(|e| e.into_inner()).push(op);
        GENERATION.fetch_add(1, Ordering::AcqRel);
        self.touched.push(op);
        Ok(op)
    }
    pub(super) fn full(&self, name: &str) -> String {
        if name.contains("::") { name.to_string() } else { format!("{}::{name}", self.namespace) }
    }
    /// A kernel of an operator at a key by PyTorch's name (`CPU`, `CUDA`, `Meta`, `Autograd`, ...), at all back ends
    /// (`CompositeExplicitAutograd`), or as a body over other operators (`CompositeImplicitAutograd`, the empty name).
    /// Existing operators (`aten::add.Tensor`) take kernels too; the latest counts.
    ///
    /// # Errors
    /// Unknown operators and keys.
    #[doc(alias = "torch.library.Library.impl")]
    #[doc(alias = "torch.library.impl")]
    pub fn impl_(&mut self, name: &str, kernel: impl Into<Kernel>, key: &str) -> Result<()> {
        let (name, kernel) = (self.full(name), kernel.into());
        let place = Place::parse(key)?;
        if let Some(op) = find(&name) {
            op.change(|s| {
                let slot = match place {
                    Place::Key(k) => &mut s.kernels[k as usize],
                    Place::Backends => &mut s.backends,
                    Place::Composite => &mut s.composite,
                };
                slot.push((self.id, kernel));
            });
            self.touched.push(op);
            return Ok(());
        }
        let op = registry::find(&name).ok_or_else(|| Error::runtime(format!("no operator '{name}'")))?;
        let (Place::Key(k), Some(f)) = (place, kernel.0) else {
            return Err(Error::missing(format!(
                "'{key}' kernels and fallthrough for the existing operator {name}"
            )));
        };
        diverted::divert(self.id, op, k, f)
    }
    /// A kernel for all operators that have none at the key.
    ///
    /// # Errors
    /// An unknown key; a back end, whose operators say themselves what they lack.
    #[doc(alias = "torch.library.Library.fallback")]
    pub fn fallback(
        &mut self,
        key: &str,
        f: impl Fn(&'static OpInfo, Key, &[Value]) -> Result<Vec<Value>> + Send + Sync + 'static,
    ) -> Result<()> {
        let Place::Key(k) = Place::parse(key)? else {
            return Err(Error::runtime(format!("'{key}' has no fallback")));
        };
        ensure!(
            k >= Key::Private && k != Key::Autograd,
            Runtime,
            "the {k:?} key has kernels for every operator: a fallback would never run"
        );
        let checked = move |info, k, args: &[Value]| {
            let results = f(info, k, args)?;
            deep::check(&results)?;
            Ok(results)
        };
        registry::add_user_fallback(self.id, k, Arc::new(checked));
        Ok(())
    }
    fn rule(&mut self, name: &str, set: impl FnOnce(&mut State, u64)) -> Result<&'static UserOp> {
        let op = named(&self.full(name))?;
        op.change(|s| set(s, self.id));
        self.touched.push(op);
        Ok(op)
    }
    /// The rule for tensors without data.
    ///
    /// # Errors
    /// Unknown operators.
    pub fn register_fake(&mut self, name: &str, f: impl Into<Kernel>) -> Result<()> {
        self.impl_(name, f, "Meta")
    }
    /// The vmap rule.
    ///
    /// # Errors
    /// Unknown operators.
    pub fn register_vmap(&mut self, name: &str, rule: VmapRule) -> Result<()> {
        let checked: VmapRule = Arc::new(move |args, dims| {
            let (results, places) = rule(args, dims)?;
            deep::check(&results)?;
            Ok((results, places))
        });
        self.rule(name, |s, id| s.vmap.push((id, checked))).map(drop)
    }
    /// The gradient rule in the engine's own form; flambeau-autograd's `library::register_autograd` makes it.
    ///
    /// # Errors
    /// Unknown operators; operators that write their arguments.
    pub fn set_gradient(&mut self, name: &str, rule: Arc<dyn Any + Send + Sync>) -> Result<()> {
        let op = self.rule(name, |_, _| ())?;
        ensure!(
            !op.info.schema.mutates(),
            Runtime,
            "Cannot register autograd formula for non-functional operator {}: it writes to its arguments",
            op.info.name
        );
        op.change(|s| s.gradient.push((self.id, rule)));
        Ok(())
    }
}
impl Drop for Library {
    fn drop(&mut self) {
        if self.owns {
            NAMESPACES.write().unwrap_or_else(|e| e.into_inner()).retain(|n| n.1 != self.id);
        }
        for op in &self.touched {
            let defined = op.change(|s| s.defined == Some(self.id));
            if defined {
                let mut all = DYNAMIC.write().unwrap_or_else(|e| e.into_inner());
                all.retain(|o| !std::ptr::eq(o.info(), op.info));
            }
            op.forget(self.id);
        }
        diverted::restore(self.id);
        registry::remove_user_fallback(self.id);
        GENERATION.fetch_add(1, Ordering::AcqRel);
    }
}

/// Calls an operator below a key: what a kernel at that key goes on with.
pub fn call_below(k: Key, info: &'static OpInfo, args: &[Value]) -> Result<Vec<Value>> {
    let _guard = ExcludeGuard::from_up(k);
    info.call(args)
}

enum Place {
    Key(Key),
    Backends,
    Composite,
}
impl Place {
    fn parse(name: &str) -> Result<Place> {
        Ok(Place::Key(match name {
            "" | "CompositeImplicitAutograd" => return Ok(Place::Composite),
            "CompositeExplicitAutograd" | "default" => return Ok(Place::Backends),
            "CPU" | "cpu" => Key::Cpu,
            "CUDA" | "cuda" => Key::Cuda,
            "Meta" | "meta" => Key::Meta,
            "SparseCPU" => Key::SparseCpu,
            "QuantizedCPU" => Key::QuantizedCpu,
            "NestedTensorCPU" => Key::Wrapper,
            "PrivateUse1" => Key::Private,
            "Functionalize" => Key::Functionalize,
            "Python" => Key::Dispatch,
            "Autograd" | "AutogradCPU" => Key::Autograd,
            "AutocastCPU" | "Autocast" => Key::Autocast,
            "FuncTorchBatched" => Key::Batched,
            "Tracer" => Key::Tracer,
            other => return Err(Error::runtime(format!("could not parse dispatch key '{other}'"))),
        }))
    }
}

thread_local! {
    static FAKE: Cell<usize> = const { Cell::new(0) };
}
fn in_fake<R>(f: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            FAKE.set(FAKE.get() - 1);
        }
    }
    FAKE.set(FAKE.get() + 1);
    let _leave = Leave;
    f()
}
/// What a fake rule may ask for.
pub struct FakeContext(());
impl FakeContext {
    /// A size that depends on data.
    ///
    /// # Errors
    /// Always, as PyTorch's without symbolic sizes: nobody knows the size on the meta device.
    pub fn new_dynamic_size(&self) -> Result<i64> {
        Err(Error::unsupported(
            "the operator's output size depends on data, which has no answer without symbolic sizes",
        ))
    }
}
/// The context of the fake rule that is running.
///
/// ```
/// use torch::library::{FakeContext, Value, arg, custom_op, get_ctx, one};
/// let mut op = custom_op("doc::found", "(Tensor x) -> Tensor", |a: &[Value]| one(arg::<torch::Tensor>(a, 0)?))?;
/// // how many there are nobody knows without data
/// op.register_fake(|_: &[Value]| {
///     let context: FakeContext = get_ctx()?;
///     one(torch::empty([context.new_dynamic_size()?]))
/// })?;
/// let shapes = op.call(&[torch::ones_with([2], torch::Device::Meta).into()], &[]);
/// assert!(shapes.unwrap_err().message().contains("depends on data"));
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Outside fake rules.
#[doc(alias = "torch.library.get_ctx")]
pub fn get_ctx() -> Result<FakeContext> {
    ensure!(FAKE.get() > 0, Runtime, "get_ctx() can only be called inside of a fake impl");
    Ok(FakeContext(()))
}

/// An operator made by [`custom_op`]. It stays when this handle is dropped, as Python's does; [`CustomOpDef::remove`] ends it.
#[doc(alias = "torch.library.CustomOpDef")]
pub struct CustomOpDef {
    op: &'static UserOp,
    library: std::mem::ManuallyDrop<Library>,
}
/// Defines an operator with one kernel for all devices: its name with namespace, its schema without the name, and the
/// kernel. [`infer_schema`] writes the schema from Rust types.
///
/// # Errors
/// A name without namespace or defined already; a text that is no schema.
#[doc(alias = "torch.library.custom_op")]
pub fn custom_op(name: &str, schema: &str, kernel: impl Into<Kernel>) -> Result<CustomOpDef> {
    let mut c = undefined_op(name, schema)?;
    c.library.impl_(name, kernel, "CompositeExplicitAutograd")?;
    Ok(c)
}
/// The same for some device types (`cpu`, `cuda`).
///
/// ```
/// use torch::library::{CustomOpDef, Value, arg, custom_op_on, one};
/// let kernel = |a: &[Value]| one(arg::<torch::Tensor>(a, 0)? + 1.0);
/// let op: CustomOpDef = custom_op_on("doc::next", "(Tensor x) -> Tensor", &["cpu"], kernel)?;
/// let y = op.call(&[torch::ones([1]).into()], &[])?;
/// assert_eq!(arg::<torch::Tensor>(&y, 0)?.item::<f32>(), 2.0);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// As [`custom_op`].
pub fn custom_op_on(
    name: &str,
    schema: &str,
    device_types: &[&str],
    kernel: impl Into<Kernel>,
) -> Result<CustomOpDef> {
    let mut c = undefined_op(name, schema)?;
    c.register_kernel(device_types, kernel)?;
    Ok(c)
}
fn undefined_op(name: &str, schema: &str) -> Result<CustomOpDef> {
    let (ns, plain) = name.split_once("::").ok_or_else(|| {
        Error::value(format!(
            "Expected `name` to be of the form `{{namespace}}::{{name}}`, got {name} (was there more than one ::?)"
        ))
    })?;
    let mut library = Library::new(ns, LibraryKind::Fragment)?;
    let op = library.define(&format!("{plain}{schema}"))?;
    Ok(CustomOpDef { op, library: std::mem::ManuallyDrop::new(library) })
}
impl CustomOpDef {
    /// Ends the operator: its name is free again.
    pub fn remove(self) {
        drop(std::mem::ManuallyDrop::into_inner(self.library));
    }
    /// Its full name.
    pub fn name(&self) -> &'static str {
        self.op.info.name
    }
    /// The operator.
    pub fn op(&self) -> &'static UserOp {
        self.op
    }
    /// The library that its rules belong to.
    pub fn library(&mut self) -> &mut Library {
        &mut self.library
    }
    /// Calls it with arguments as Python binds them.
    ///
    /// # Errors
    /// Those of the kernel, and arguments that do not fit.
    pub fn call(&self, args: &[Value], kwargs: &super::object::Kwargs) -> Result<Vec<Value>> {
        super::registry::init();
        let bound = CALL.get().ok_or_else(|| {
            Error::missing(
                "calls with arguments as Python binds them are not linked into this program: add `use flambeau_library as _;` \
                 (the `torch` facade does it for you with its feature `by-name`)",
            )
        })?;
        bound(self.op.info.name, args, kwargs)
    }
    /// A kernel for some device types.
    ///
    /// # Errors
    /// Unknown device types.
    #[doc(alias = "torch.library.register_kernel")]
    pub fn register_kernel(&mut self, device_types: &[&str], kernel: impl Into<Kernel>) -> Result<()> {
        let kernel = kernel.into();
        device_types.iter().try_for_each(|d| self.library.impl_(self.op.info.name, kernel.clone(), d))
    }
    /// The rule for tensors without data.
    ///
    /// # Errors
    /// Never for an operator that is defined.
    #[doc(alias = "torch.library.register_fake")]
    #[doc(alias = "torch.library.impl_abstract")]
    pub fn register_fake(&mut self, f: impl Into<Kernel>) -> Result<()> {
        self.library.register_fake(self.op.info.name, f)
    }
    /// The vmap rule.
    ///
    /// # Errors
    /// Never for an operator that is defined.
    #[doc(alias = "torch.library.register_vmap")]
    pub fn register_vmap(
        &mut self,
        f: impl Fn(&[Value], &[Option<i64>]) -> Result<(Vec<Value>, Vec<Option<i64>>)> + Send + Sync + 'static,
    ) -> Result<()> {
        self.library.register_vmap(self.op.info.name, Arc::new(f))
    }
    /// The dtype of its tensors under autocast.
    ///
    /// # Errors
    /// Devices without autocast.
    #[doc(alias = "torch.library.register_autocast")]
    pub fn register_autocast(&mut self, device_type: &str, cast_inputs: DType) -> Result<()> {
        self.library.register_autocast(self.op.info.name, device_type, cast_inputs)
    }
    /// What a dispatch mode's calls of this operator do in place of the mode: a kernel at the key where modes stand.
    ///
    /// # Errors
    /// Never for an operator that is defined.
    #[doc(alias = "torch.library.register_torch_dispatch")]
    pub fn register_torch_dispatch(&mut self, f: impl Into<Kernel>) -> Result<()> {
        self.library.impl_(self.op.info.name, f, "Python")
    }
    /// Turns a device's kernel off, so that the one for all devices runs, or on again; gives what it was.
    ///
    /// # Errors
    /// Unknown device types.
    #[doc(alias = "torch.library.CustomOpDef.set_kernel_enabled")]
    pub fn set_kernel_enabled(&mut self, device_type: &str, enabled: bool) -> Result<bool> {
        let Place::Key(k) = Place::parse(device_type)? else {
            return Err(Error::value(format!("'{device_type}' is no device type")));
        };
        let bit = 1 << k as u8;
        Ok(self.op.change(|s| {
            let was = s.disabled & bit == 0;
            s.disabled = if enabled { s.disabled & !bit } else { s.disabled | bit };
            was
        }))
    }
}
