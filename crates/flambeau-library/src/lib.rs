//! Calls by name: every operator under its documented Python names (`torch.add`, `torch.Tensor.add_`,
//! `torch.nn.functional.softplus`) and its ATen name (`aten::add.Tensor`), with arguments bound as Python binds them.
//!
//! Methods are `torch.Tensor.NAME` with self as first argument, `out=` is a keyword, overloads are tried in declared order.
//! Names that are no operators (`torch.Tensor.size`, `torch.promote_types`) and classes are registered beside them:
//! [`register_function`], [`register_class`](object::register_class), and the link-time list of [`class`].
//!
//! What programs in Rust call has no need of any of it: a program without this crate has the same operators, modules and
//! optimizers, without their names. Crates that bring names do so under their feature `by-name`.

#![forbid(unsafe_code)]

mod aliases;
mod attributes;
mod bind;
mod builtins;
pub mod class;
#[rustfmt::skip]
mod generated;
mod inplace;
mod layers;
mod legacy;
mod names;
pub mod object;
pub mod observe;
pub mod overrides;
mod protocol;
mod python;
mod quasirandom;
mod routes;
mod settings;
pub mod signature;
pub mod slots;
mod storages;
mod symbolic;
pub mod tags;
mod types;
mod windows;

use flambeau_core::dispatch::convention::Habit;
use flambeau_core::dispatch::custom;
use flambeau_core::dispatch::object::{Kwargs, entering};
use flambeau_core::dispatch::op::{AnyOp, OpInfo};
use flambeau_core::dispatch::registry::{self, CrateReg, DYNAMIC};
use flambeau_core::dispatch::value::Value;
use flambeau_core::types::error::{Error, ErrorKind, Result};
use flambeau_core::types::order::RwLock;
use signature::Signature;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

pub use flambeau_core::text::repr;
pub use python::{attribute, call_value, collected, method};
pub use types::{constant, constant_names, register_constant};

/// A function that is no operator.
///
/// ```
/// use torch::library::object::Kwargs;
/// use torch::library::{NativeFn, Value, call_value, register_function};
/// let answer: NativeFn = |_: &[Value], _: &Kwargs| Ok(vec![Value::Int(42)]);
/// assert!(register_function("mylib.answer", answer));
/// assert!(matches!(call_value("mylib.answer", &[], &[])?, Value::Int(42)));
/// # Ok::<(), torch::Error>(())
/// ```
pub type NativeFn = fn(&[Value], &Kwargs) -> Result<Vec<Value>>;

/// A callable of that name.
///
/// ```
/// use torch::library::{Function, arg, lookup};
/// let f: Function = lookup("torch.exp").expect("it is documented");
/// let y = f.call(&[torch::zeros([2]).into()], &[])?;
/// assert_eq!(arg::<torch::Tensor>(&y, 0)?.to_vec::<f32>(), [1.0, 1.0]);
/// assert!(lookup("torch.expp").is_none());
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone)]
pub struct Function {
    /// The documented name it was found by.
    pub path: String,
    target: Target,
}
#[derive(Clone)]
enum Target {
    /// Overloads in declared order.
    Overloads(Arc<Vec<Signature>>),
    Native(NativeFn),
    /// Another function with the first two arguments swapped (`__rsub__`).
    Swapped(Arc<Function>),
    /// One function, or another where a flag is set: the flag, its position, both.
    Flagged(&'static str, usize, Arc<Function>, Arc<Function>),
    /// Another function whose arguments are put in order first: what Python parses by hand.
    Adapted(Adapt, Arc<Function>),
    /// Another function where the arguments ask for it.
    Either(Asks, Other, Arc<Function>),
    /// A loss under its name in ATen, with that order of arguments.
    Loss(&'static [&'static str], Arc<Function>),
}
/// Whether these arguments ask for the other function.
type Asks = fn(&[Value], &Kwargs) -> bool;
/// What is called in place of a function, which it may call.
type Other = fn(&Function, &[Value], &Kwargs) -> Result<Vec<Value>>;

/// Puts arguments in order.
type Adapt = fn(&[Value], &Kwargs) -> Result<(Vec<Value>, Vec<(String, Value)>)>;

/// What is known by name.
#[derive(Default)]
struct Index {
    functions: HashMap<String, Target>,
    /// Numbers of crates, run-time operators and native functions when it was built.
    stamp: (usize, u64, usize),
}
static INDEX: RwLock<Option<Arc<Index>>> = RwLock::new(None);
static NATIVE: RwLock<Vec<(String, NativeFn)>> = RwLock::new(Vec::new());

/// Makes a function that is no operator known by name. The first registration stays; later ones return `false`.
pub fn register_function(path: &str, f: NativeFn) -> bool {
    let mut all = NATIVE.write().unwrap_or_else(|e| e.into_inner());
    if all.iter().any(|(p, _)| p == path) {
        return false;
    }
    all.push((path.to_string(), f));
    true
}

fn index() -> Arc<Index> {
    let crates = registry::crates();
    // read before the list: a change in between makes the index stale, not wrong
    let generation = custom::generation();
    let dynamic = DYNAMIC.read().unwrap_or_else(|e| e.into_inner()).clone();
    let stamp = (crates.len(), generation, NATIVE.read().unwrap_or_else(|e| e.into_inner()).len());
    if let Some(i) = &*INDEX.read().unwrap_or_else(|e| e.into_inner())
        && i.stamp == stamp
    {
        return i.clone();
    }
    let ops = crates.iter().flat_map(|c| c.ops.iter().copied()).chain(dynamic);
    let built = Arc::new(build(ops, stamp));
    *INDEX.write().unwrap_or_else(|e| e.into_inner()) = Some(built.clone());
    built
}

/// The base of an operator name: `add` of `add.Tensor`.
fn base(info: &OpInfo) -> &'static str {
    info.name.split('.').next().unwrap_or(info.name)
}

/// Whether an `out=` form belongs to an overload already; several may share a name.
fn is_taken(taken: &[&'static OpInfo], op: &dyn AnyOp) -> bool {
    taken.iter().any(|t| std::ptr::eq(*t, op.info()))
}

fn build(ops: impl Iterator<Item = &'static dyn AnyOp>, stamp: (usize, u64, usize)) -> Index {
    let mut by_path: HashMap<String, Vec<&'static dyn AnyOp>> = HashMap::new();
    for op in ops {
        let info = op.info();
        for p in info.python {
            by_path.entry((*p).to_string()).or_default().push(op);
        }
        if info.owner == custom::OWNER || info.name.contains("::") {
            // the name has its namespace
            if info.name.contains('.') {
                by_path.entry(info.name.to_string()).or_default().push(op);
            }
            by_path.entry(base(info).to_string()).or_default().push(op);
            continue;
        }
        let aten = format!("aten::{}", base(info));
        if info.name.contains('.') {
            by_path.entry(format!("aten::{}", info.name)).or_default().push(op);
        }
        by_path.entry(aten).or_default().push(op);
        for name in info.aten {
            by_path.entry(format!("aten::{name}")).or_default().push(op);
        }
    }
    let mut functions = HashMap::new();
    let mut habits: Vec<(String, Habit)> = Vec::new();
    for (path, ops) in by_path {
        let mut all: Vec<Signature> = Vec::new();
        let exact = path.contains("::");
        for habit in ops.iter().filter(|_| !exact).flat_map(|o| o.info().habits(&path)) {
            let said = habits.iter().rev().take_while(|h| h.0 == path).any(|h| h.1 == habit);
            if !said {
                habits.push((path.clone(), habit));
            }
        }
        let mut taken: Vec<&'static OpInfo> = Vec::new();
        for &op in &ops {
            let info = op.info();
            if signature::is_out(&info.schema) && !exact {
                continue;
            }
            let out = ops
                .iter()
                .copied()
                .find(|o| signature::is_out_of(&o.info().schema, &info.schema) && !is_taken(&taken, *o));
            taken.extend(out.map(|o| o.info()));
            all.extend(Signature::of(op, out, &path));
        }
        for &op in &ops {
            if signature::is_out(&op.info().schema) && !exact && !is_taken(&taken, op) {
                all.extend(Signature::of(op, Some(op), &path));
            }
        }
        functions.insert(path, Target::Overloads(Arc::new(all)));
    }
    builtins::add(&mut functions, &habits);
    routes::add(&mut functions, &habits);
    aliases::add(&mut functions, &habits);
    inplace::add(&mut functions);
    for (path, f) in NATIVE.read().unwrap_or_else(|e| e.into_inner()).iter() {
        functions.entry(path.clone()).or_insert(Target::Native(*f));
    }
    Index { functions, stamp }
}

/// The other names under which a name may be registered.
fn candidates(path: &str) -> Vec<String> {
    let mut all = vec![path.to_string()];
    if let Some(aten) = path.strip_prefix("torch.ops.aten.") {
        all.push(format!("aten::{aten}"));
        all.push(format!("aten::{}", aten.strip_suffix(".default").unwrap_or(aten)));
    } else if let Some((ns, name)) = path.strip_prefix("torch.ops.").and_then(|p| p.split_once('.')) {
        all.push(format!("{ns}::{}", name.strip_suffix(".default").unwrap_or(name)));
    } else if let Some(name) = path.strip_prefix("torch.Tensor.") {
        // methods of the base class
        all.push(format!("torch._C.TensorBase.{name}"));
    }
    all
}

/// The function of a documented or ATen name.
pub fn lookup(path: &str) -> Option<Function> {
    let index = index();
    let known = |p: &str| {
        let target = index.functions.get(p)?.clone();
        Some(Function { path: p.to_string(), target })
    };
    candidates(path).iter().find_map(|p| known(p)).or_else(|| aliases::find(path, &known))
}

/// Whether something of that name can be called: a function or a class.
pub fn exists(path: &str) -> bool {
    lookup(path).is_some() || object::class(path).is_some()
}

/// All names, sorted.
///
/// ```
/// use torch::library::{exists, names};
/// assert!(names().iter().any(|n| n == "torch.Tensor.add_"));
/// assert!(exists("torch.Tensor.add_") && !exists("torch.Tensor.plus_"));
/// ```
pub fn names() -> Vec<String> {
    let mut v: Vec<String> = index().functions.keys().cloned().collect();
    v.sort();
    v
}

/// Calls a function by its documented name with Python-style arguments, and returns its results. In-place forms return
/// the tensors that they wrote.
///
/// # Errors
/// `Missing` for an unknown name; type errors with PyTorch's wording for arguments that no overload takes; the errors of
/// the operator.
pub fn call(path: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    entering(args, kwargs)?;
    match lookup(path) {
        Some(f) => f.called(args, kwargs),
        // calling a class makes an object of it
        None => match object::class(path) {
            Some(make) => Ok(vec![Value::Object(make(args, kwargs)?)]),
            None => Err(Error::missing(format!("no operator named '{path}'"))),
        },
    }
}

/// What error texts call the function: `special_zeta` for `torch.special.zeta`.
fn short_name(path: &str) -> String {
    if let Some((_, p)) = path.split_once("::") {
        return p.to_string();
    }
    for (prefix, to) in [
        ("torch.Tensor.", ""),
        ("torch.nn.functional.", ""),
        ("torch.special.", "special_"),
        ("torch.linalg.", "linalg_"),
        ("torch.fft.", "fft_"),
    ] {
        if let Some(name) = path.strip_prefix(prefix) {
            return format!("{to}{name}");
        }
    }
    path.rsplit('.').next().unwrap_or(path).to_string()
}

impl Function {
    /// Calls it.
    ///
    /// # Errors
    /// As [`call`].
    pub fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        entering(args, kwargs)?;
        self.called(args, kwargs)
    }
    fn called(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        Ok(self.invoke(&plain(args), kwargs)?.0)
    }
    /// The results, and the operator that gave them, if it is one.
    fn invoke(&self, args: &[Value], kwargs: &Kwargs) -> Result<Invoked> {
        match &self.target {
            Target::Native(f) => Ok((f(args, kwargs)?, None)),
            Target::Adapted(adapt, f) => {
                let (args, kwargs) = adapt(args, kwargs)?;
                f.invoke(&args, &kwargs)
            }
            Target::Either(asks, other, plain) => {
                if asks(args, kwargs) {
                    Ok((other(plain, args, kwargs)?, None))
                } else {
                    plain.invoke(args, kwargs)
                }
            }
            Target::Loss(names, f) => {
                let named = aliases::loss(&short_name(&self.path), names, args, kwargs)?;
                f.invoke(&[], &named)
            }
            Target::Flagged(flag, position, plain, set) => {
                let (on, args, kwargs) = routes::take_flag(flag, *position, args, kwargs);
                let out = kwargs.iter().any(|(k, v)| k == "out" && !matches!(v, Value::None));
                if on && out {
                    let name = short_name(&self.path);
                    return Err(Error::runtime(format!(
                        "{name} does not support the out kwarg when {flag} is True"
                    )));
                }
                if on { set.invoke(&args, &kwargs) } else { plain.invoke(&args, &kwargs) }
            }
            Target::Swapped(f) => {
                let named = routes::in_order(&["self", "other"], args, kwargs);
                let (args, kwargs) = (&named.0[..], &named.1[..]);
                let [a, b, rest @ ..] = args else {
                    return Err(Error::type_(format!(
                        "expected 1 argument, got {}",
                        args.len().saturating_sub(1)
                    )));
                };
                // called as a plain function, Python's bodies of some of them take a number in self's place
                let name = short_name(&self.path);
                let body = matches!(
                    name.as_str(),
                    "__rpow__" | "__rmod__" | "__rfloordiv__" | "__rlshift__" | "__rrshift__" | "__rmatmul__"
                );
                if !matches!(a, Value::Tensor(_)) && !body {
                    return Err(Error::type_(format!(
                        "descriptor '{}' for 'torch._C.TensorBase' objects doesn't apply to a '{}' object",
                        name,
                        a.type_name()
                    )));
                }
                // an operator's right-hand form: a number on the left counts as a tensor
                let left = match b.as_scalar() {
                    Some(s) => Value::Tensor(flambeau_core::api::ergonomic::wrapped_number(s)?),
                    None => b.clone(),
                };
                let mut swapped = vec![left, a.clone()];
                swapped.extend_from_slice(rest);
                f.invoke(&swapped, kwargs)
            }
            Target::Overloads(all) => run(self.choose(all, args, kwargs)?),
        }
    }
    fn choose(&self, all: &[Signature], args: &[Value], kwargs: &Kwargs) -> Result<bind::Bound> {
        let name = short_name(&self.path);
        let single = all.len() == 1 && !signature::has_hidden_overload(&self.path, all);
        for s in all {
            match bind::bind(&name, s, args, kwargs, single) {
                Ok(b) => return Ok(b),
                Err(Some(e)) => return Err(e),
                Err(None) => {}
            }
        }
        let skip = usize::from(all.first().is_some_and(|s| s.self_index.is_some()));
        let given = args.len().saturating_sub(skip) + kwargs.len();
        let plausible: Vec<&Signature> =
            all.iter().filter(|s| (s.min_args()..=s.max_args()).contains(&given)).collect();
        if let [s] = plausible[..]
            && let Err(Some(e)) = bind::bind(&name, s, args, kwargs, true)
        {
            return Err(e);
        }
        Err(bind::invalid_combination(&name, &all.iter().collect::<Vec<_>>(), args, kwargs))
    }
    /// The operator that the arguments choose, and its arguments in the schema's order with their defaults.
    ///
    /// # Errors
    /// Arguments that no overload takes; names that are no operators.
    pub fn bound(&self, args: &[Value], kwargs: &Kwargs) -> Result<(&'static dyn AnyOp, Vec<Value>)> {
        entering(args, kwargs)?;
        let Target::Overloads(all) = &self.target else {
            return Err(Error::type_(format!("{} is no operator", self.path)));
        };
        let b = self.choose(all, args, kwargs)?;
        Ok((b.op, b.args))
    }
    /// The operators behind the name; empty for functions that are none.
    pub fn operators(&self) -> Vec<&'static dyn AnyOp> {
        match &self.target {
            Target::Overloads(all) => {
                let mut v: Vec<&'static dyn AnyOp> = Vec::new();
                for s in all.iter() {
                    if v.iter().all(|o| !std::ptr::eq(o.info(), s.op.info())) {
                        v.push(s.op);
                    }
                }
                v
            }
            Target::Swapped(f)
            | Target::Adapted(_, f)
            | Target::Either(_, _, f)
            | Target::Loss(_, f)
            | Target::Flagged(_, _, f, _) => f.operators(),
            Target::Native(_) => Vec::new(),
        }
    }
    /// The schemas of all overloads as text.
    pub fn schemas(&self) -> Vec<String> {
        self.operators().iter().map(|o| signature::schema_text(o.info().name, &o.info().schema)).collect()
    }
    /// The signatures of all overloads as Python's error texts print them.
    pub fn signatures(&self) -> Vec<String> {
        match &self.target {
            Target::Overloads(all) => all.iter().map(Signature::text).collect(),
            Target::Swapped(f)
            | Target::Adapted(_, f)
            | Target::Either(_, _, f)
            | Target::Loss(_, f)
            | Target::Flagged(_, _, f, _) => f.signatures(),
            Target::Native(_) => Vec::new(),
        }
    }
}

/// Results, and the operator that gave them.
type Invoked = (Vec<Value>, Option<&'static OpInfo>);

/// Arguments with sizes and several results of an operator (`x.shape`, `torch.return_types.max`) as plain tuples. What a class of
/// another kind holds, such as a packed sequence, stays one thing.
fn plain(args: &[Value]) -> Cow<'_, [Value]> {
    let is_tuple = |v: &Value| matches!(v, Value::Named(t) if t.class.starts_with("torch."));
    if !args.iter().any(is_tuple) {
        return Cow::Borrowed(args);
    }
    let all = args.iter().map(|v| match v {
        Value::Named(t) if is_tuple(v) => Value::Tuple(t.items.clone()),
        v => v.clone(),
    });
    Cow::Owned(all.collect())
}

fn run(b: bind::Bound) -> Result<Invoked> {
    let r = b.op.call_boxed(&b.args)?;
    if observe::is_on() {
        observe::saw(&b, &r);
    }
    if let Some(n) = b.names {
        names::give(&r, n)?;
    }
    if b.requires_grad {
        let takes = |v: &Value| !matches!(v, Value::Tensor(t) if !t.is_floating_point() && !t.is_complex());
        if !r.iter().all(takes) {
            return Err(Error::runtime(
                "Only Tensors of floating point and complex dtype can require gradients",
            ));
        }
        let engine = flambeau_core::tensor::graph::engine()?;
        for v in &r {
            if let Value::Tensor(t) = v {
                (engine.set_requires_grad)(t, true)?;
            }
        }
    }
    Ok((r, Some(b.op.info())))
}

/// A function as an object: what a callable argument (`activation=torch.nn.functional.gelu`) becomes.
///
/// ```
/// use torch::library::{NamedFunction, Value, arg, object::Object};
/// let relu = NamedFunction("torch.nn.functional.relu".into());
/// let y = relu.call(&[torch::tensor([-1.0, 2.0]).into()], &[])?;
/// assert_eq!(arg::<torch::Tensor>(&y, 0)?.to_vec::<f32>(), [0.0, 2.0]);
/// assert_eq!(relu.repr(), "<built-in method relu>");
/// # Ok::<(), torch::Error>(())
/// ```
pub struct NamedFunction(pub String);
impl object::Object for NamedFunction {
    fn type_name(&self) -> &'static str {
        "builtin_function_or_method"
    }
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        call(&self.0, args, kwargs)
    }
    fn documented_name(&self) -> Option<&str> {
        Some(&self.0)
    }
    fn repr(&self) -> String {
        format!("<built-in method {}>", short_name(&self.0))
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// Whether the error says that something does not exist yet, as against a mistake of the caller.
///
/// ```
/// use torch::library::{call_value, is_missing};
/// assert!(is_missing(&call_value("torch.no_such_function", &[], &[]).unwrap_err()));
/// assert!(!is_missing(&call_value("torch.sin", &["a text".into()], &[]).unwrap_err()));
/// ```
pub fn is_missing(e: &Error) -> bool {
    e.kind() == ErrorKind::Missing
}

/// Part of the registry's start: what core's own calls of run-time operators need.
fn install() {
    custom::set_call(call);
    tags::register();
}
static REG: CrateReg = CrateReg { name: "flambeau-library", ops: &[], fills: &[install] };
#[linkme::distributed_slice(registry::CRATES)]
static LINKED: &CrateReg = &REG;
