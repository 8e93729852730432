//! Optimizers and schedules as objects of the by-name layer.

mod averages;

use crate::lr_scheduler::{
    self as lr, ChainedScheduler, LRScheduler, ReduceLROnPlateauOptions, Schedule, Scheduler, SequentialLR,
    Shared,
};
use crate::optimizer::algorithm::Algorithm;
use crate::optimizer::state_dict::{tree, value};
use crate::optimizer::{Optim, Optimizer, clear_grads};
use crate::swa_utils::SWALROptions;
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef, Parameter as Keyword, bind, no_attribute};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Error, Result, Tensor, Value, ensure};
use flambeau_nn::Parameter;
use flambeau_serialization::Tree;
use std::any::Any;
use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard};
use std::thread::ThreadId;

fn lock<T: ?Sized>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// The first argument, by position or keyword, and the others.
fn first<'a>(
    class: &str,
    name: &str,
    args: &'a [Value],
    kwargs: &'a Kwargs,
) -> Result<(&'a Value, &'a [Value], Vec<(String, Value)>)> {
    let rest: Vec<_> = kwargs.iter().filter(|(k, _)| k != name).cloned().collect();
    if let Some((v, args)) = args.split_first() {
        return Ok((v, args, rest));
    }
    let given = kwargs.iter().find(|(k, _)| k == name).map(|(_, v)| v);
    let v = given.ok_or_else(|| {
        Error::type_(format!("{class}.__init__() missing 1 required positional argument: '{name}'"))
    })?;
    Ok((v, &[], rest))
}

/// Python's name of a type with its module, as `torch.typename` gives it.
fn typename(v: &Value) -> String {
    match v {
        Value::Tensor(t) => t.typename(),
        other => other.type_name().into(),
    }
}
/// What an iteration over a dictionary gives are names.
fn names_alone() -> Error {
    Error::type_("optimizer can only optimize Tensors, but one of the params is str")
}
/// Parameters of a group: a tensor, tensors, or names with tensors.
fn parameters(v: &Value) -> Result<(Vec<Parameter>, Option<Vec<String>>)> {
    let list = match v {
        Value::Tensor(_) => std::slice::from_ref(v),
        Value::Dict(d) if !d.is_empty() => return Err(names_alone()),
        other => other
            .items()
            .ok_or_else(|| Error::type_(format!("'{}' object is not iterable", other.type_name())))?,
    };
    let (mut params, mut names) = (Vec::new(), Vec::new());
    for v in list {
        let tensor = match v {
            Value::Tuple(pair) => {
                if let Some(Value::Str(n)) = pair.first() {
                    names.push(n.clone());
                }
                pair.get(1).unwrap_or_else(|| Value::none())
            }
            other => other,
        };
        params.push(tensor);
    }
    ensure!(
        names.is_empty() || names.len() == params.len(),
        Value,
        "all optimizer params should be with/without names. Some param names are missing"
    );
    let tensor = |v: &&Value| match v {
        Value::Tensor(t) => Ok(Parameter::of_leaf(t.clone())),
        other => Err(Error::type_(format!(
            "optimizer can only optimize Tensors, but one of the params is {}",
            typename(other)
        ))),
    };
    Ok((params.iter().map(tensor).collect::<Result<_>>()?, (!names.is_empty()).then_some(names)))
}
/// Parameters, their names, and the other entries of a group's dictionary.
type GroupOfValues = (Vec<Parameter>, Option<Vec<String>>, Vec<(String, Value)>);
fn group(v: &Value) -> Result<GroupOfValues> {
    let Value::Dict(entries) = v else {
        let class = if matches!(v, Value::Tensor(_)) { "torch.Tensor" } else { v.type_name() };
        return Err(Error::type_(format!("param_group must be a dict, but got <class '{class}'>")));
    };
    let given = entries.iter().find(|(k, _)| k == "params").map(|(_, v)| v);
    let (params, names) = parameters(given.ok_or_else(|| Error::index("'params'"))?)?;
    Ok((params, names, entries.iter().filter(|(k, _)| k != "params").cloned().collect()))
}

/// An optimizer as an object.
struct OptimizerObject {
    name: &'static str,
    defaults: Vec<(String, Value)>,
    inner: Mutex<Box<dyn Optimizer>>,
    /// The thread whose step runs a closure of the user's now, while `inner` is held.
    stepping: Mutex<Option<ThreadId>>,
}
impl OptimizerObject {
    fn object(name: &'static str, defaults: Vec<(String, Value)>, inner: Box<dyn Optimizer>) -> ObjectRef {
        ObjectRef::new(OptimizerObject {
            name,
            defaults,
            inner: Mutex::new(inner),
            stepping: Mutex::default(),
        })
    }
    /// The optimizer; what the closure of a step asks of it during that step is an error, and no wait without end.
    fn inner(&self) -> Result<MutexGuard<'_, Box<dyn Optimizer>>> {
        ensure!(
            *lock(&self.stepping) != Some(std::thread::current().id()),
            Runtime,
            "{} is in a step, whose closure may read and clear gradients only",
            self.name
        );
        Ok(lock(&self.inner))
    }
    fn step_with(&self, closure: &ObjectRef) -> Result<Tensor> {
        let mut o = self.inner()?;
        let params: Vec<Parameter> = (0..o.group_count()).flat_map(|g| o.group_params(g).to_vec()).collect();
        let _stepping = Stepping::start(self, params);
        o.try_step_closure(&mut || loss_of(closure))
    }
}
thread_local! {
    // Optimizers (by address) whose steps run closures on this thread, and their parameters, for `zero_grad` within.
    static STEPPED: RefCell<Vec<(usize, Vec<Parameter>)>> = const { RefCell::new(Vec::new()) };
}
/// A step with a closure, until it is dropped.
struct Stepping<'a>(&'a OptimizerObject);
impl<'a> Stepping<'a> {
    fn start(o: &'a OptimizerObject, params: Vec<Parameter>) -> Self {
        *lock(&o.stepping) = Some(std::thread::current().id());
        let mut entry = Some((std::ptr::from_ref(o).addr(), params));
        let _ = STEPPED.try_with(|s| s.borrow_mut().extend(entry.take()));
        Stepping(o)
    }
}
impl Drop for Stepping<'_> {
    fn drop(&mut self) {
        *lock(&self.0.stepping) = None;
        let own = std::ptr::from_ref(self.0).addr();
        let params = STEPPED.try_with(|s| {
            let mut s = s.borrow_mut();
            s.iter().rposition(|(o, _)| *o == own).map(|i| s.remove(i))
        });
        drop(params);
    }
}

/// A value as the tree of a state dict: parameters are numbered there.
fn state_tree(v: &Value) -> Tree<Tensor> {
    let Value::Dict(all) = v else { return tree(v) };
    let numbered = |v: &Value| match v {
        Value::Dict(l) => {
            let key = |k: &String| k.parse().map_or_else(|_| Tree::Str(k.clone()), Tree::Int);
            Tree::Dict(l.iter().map(|(k, v)| (key(k), tree(v))).collect())
        }
        other => tree(other),
    };
    let entry =
        |(k, v): &(String, Value)| (Tree::Str(k.clone()), if k == "state" { numbered(v) } else { tree(v) });
    Tree::Dict(all.iter().map(entry).collect())
}
/// The loss that a closure object gave.
fn loss_of(closure: &ObjectRef) -> Result<Tensor> {
    match closure.call(&[], &[])?.first() {
        Some(Value::Tensor(t)) => Ok(t.clone()),
        Some(v) if v.as_scalar().is_some() => Tensor::scalar_raw(f64::from_value(v)?),
        _ => Err(Error::type_("float() argument must be a string or a real number, not 'NoneType'")),
    }
}

impl Object for OptimizerObject {
    fn type_name(&self) -> &'static str {
        self.name
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        let o = self.inner()?;
        match name {
            "param_groups" => {
                let mut groups = value(o.state_dict().get("param_groups").unwrap_or(&Tree::None))?;
                if let Value::List(l) = &mut groups {
                    for (g, v) in l.iter_mut().enumerate() {
                        let Value::Dict(entries) = v else { continue };
                        let params = o.group_params(g).iter().map(|p| Value::Tensor(p.tensor().clone()));
                        entries.retain(|(k, _)| k != "params");
                        entries.insert(0, ("params".into(), Value::List(params.collect())));
                    }
                }
                Ok(groups)
            }
            "defaults" => Ok(Value::Dict(self.defaults.clone())),
            _ => Err(no_attribute(self.name, name)),
        }
    }
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        let keyword = |n: &str| kwargs.iter().find(|(k, _)| k == n).map(|(_, v)| v.clone());
        match (name, args) {
            ("step", []) if keyword("closure").is_none() => self.inner()?.try_step().map(|()| Vec::new()),
            ("step", [] | [_]) => match &args.first().cloned().or_else(|| keyword("closure")) {
                Some(Value::Object(closure)) => Ok(vec![Value::Tensor(self.step_with(closure)?)]),
                Some(Value::None) | None => self.inner()?.try_step().map(|()| Vec::new()),
                Some(other) => Err(Error::type_(format!("'{}' object is not callable", other.type_name()))),
            },
            ("zero_grad", _) => {
                let to_none = args.first().cloned().or_else(|| keyword("set_to_none"));
                let to_none = to_none.map_or(Ok(true), |v| bool::from_value(&v))?;
                if *lock(&self.stepping) == Some(std::thread::current().id()) {
                    let own = std::ptr::from_ref(self).addr();
                    let found = STEPPED.try_with(|s| s.borrow().iter().find(|(o, _)| *o == own).cloned());
                    let found = found.ok().flatten();
                    let params = found.map_or_else(Vec::new, |(_, p)| p);
                    return clear_grads(params.iter(), to_none).map(|()| Vec::new());
                }
                self.inner()?
                    .try_zero_grad(flambeau_nn::ZeroGradOptions::new().set_to_none(to_none))
                    .map(|()| Vec::new())
            }
            ("state_dict", []) => Ok(vec![value(&self.inner()?.state_dict())?]),
            ("load_state_dict", [v]) => self.inner()?.load_state_dict(&state_tree(v)).map(|()| Vec::new()),
            ("add_param_group", [v]) => {
                let (params, names, given) = group(v)?;
                self.inner()?.add_group_of_values(params, names, &given).map(|()| Vec::new())
            }
            _ => Err(no_attribute(self.name, name)),
        }
    }
    fn repr(&self) -> String {
        self.inner().map_or_else(|_| format!("<{}>", self.name), |o| format!("{o:?}"))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Makes an optimizer of `params` (tensors, or dictionaries with `params` and options) and keywords.
///
/// # Errors
/// Arguments that do not bind or do not fit.
pub fn optimizer<A: Algorithm>(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let (params, args, kwargs) = first(A::NAME, "params", args, kwargs)?;
    let most = A::POSITIONAL.min(A::parameters().len());
    ensure!(
        args.len() <= most,
        Type,
        "{}.__init__() takes from 2 to {} positional arguments but {} were given",
        A::NAME,
        most + 2,
        args.len() + 2
    );
    let mut defaults = A::of_values(&bind(A::NAME, A::parameters(), args, &kwargs)?)?;
    defaults.complete();
    defaults.check()?;
    let list = match params {
        Value::Tensor(_) => {
            return Err(Error::type_(format!(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got {}",
                typename(params)
            )));
        }
        Value::Dict(d) if !d.is_empty() => return Err(names_alone()),
        other => other
            .items()
            .ok_or_else(|| Error::type_(format!("'{}' object is not iterable", other.type_name())))?,
    };
    ensure!(!list.is_empty(), Value, "optimizer got an empty parameter list");
    let groups: Vec<GroupOfValues> = if matches!(list[0], Value::Dict(_)) {
        list.iter().map(group).collect::<Result<_>>()?
    } else {
        let (params, names) = parameters(params)?;
        vec![(params, names, vec![])]
    };
    let groups = groups.into_iter().map(|(p, n, given)| (p, n, defaults.clone(), given)).collect();
    let mut values: Vec<(String, Value)> =
        defaults.options().into_iter().map(|(n, v)| (n.to_owned(), v)).collect();
    values.extend(A::fixed().iter().map(|(n, v)| ((*n).to_owned(), v.clone())));
    Ok(OptimizerObject::object(A::NAME, values, Box::new(Optim::with_all(groups, defaults)?)))
}

/// A schedule as an object, with its optimizer.
struct SchedulerObject {
    name: &'static str,
    optimizer: ObjectRef,
    inner: Mutex<Shared>,
}
fn of_object(o: &ObjectRef) -> Result<&OptimizerObject> {
    o.downcast().ok_or_else(|| Error::type_(format!("{} is not an Optimizer", o.type_name())))
}
/// Runs `f` on the optimizer that an object is.
///
/// # Errors
/// Those of `f`; an object that is none; within a step of it.
pub fn with<R>(o: &ObjectRef, f: impl FnOnce(&mut dyn Optimizer) -> Result<R>) -> Result<R> {
    f(&mut **of_object(o)?.inner()?)
}
fn list(l: &[f64]) -> Value {
    Value::List(l.iter().map(|v| Value::Float(*v)).collect())
}
fn number(v: &Value) -> Result<f64> {
    f64::from_value(v).map_err(|_| {
        Error::type_(format!("float() argument must be a string or a real number, not '{}'", v.type_name()))
    })
}
impl Object for SchedulerObject {
    fn type_name(&self) -> &'static str {
        self.name
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        let state = value(&lock(&self.inner).state_dict())?;
        let Ok(l) = state.into_entries() else { return Err(no_attribute(self.name, name)) };
        match l.into_iter().find(|(k, _)| k == name) {
            Some((_, v)) => Ok(v),
            None if name == "optimizer" => Ok(Value::Object(self.optimizer.clone())),
            None => Err(no_attribute(self.name, name)),
        }
    }
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        let mut o = of_object(&self.optimizer)?.inner()?;
        // a handle on the same schedule, so that its functions run under no lock; a call from within them is an error
        let mut s = lock(&self.inner).clone();
        let keyword = |n: &str| kwargs.iter().find(|(k, _)| k == n).map(|(_, v)| v.clone());
        let r = match (name, args) {
            ("step", [] | [_]) => {
                let metric = s.wants_metric();
                let names = if metric { "metrics" } else { "epoch" };
                match args.first().cloned().or_else(|| keyword(names)) {
                    Some(v) if metric => s.try_step_metric(&mut **o, number(&v)?)?,
                    None | Some(Value::None) => s.try_step(&mut **o)?,
                    Some(v) => s.try_step_to(&mut **o, number(&v)?)?,
                }
                Ok(Vec::new())
            }
            ("get_last_lr", []) => Ok(vec![list(&s.with(|s| s.get_last_lr().to_vec())?)]),
            ("get_lr", []) => Ok(vec![list(&s.get_lr(&**o)?)]),
            ("state_dict", []) => Ok(vec![value(&s.state_dict())?]),
            ("load_state_dict", [v]) => s.load_state_dict(&tree(v)).map(|()| Vec::new()),
            _ => Err(no_attribute(self.name, name)),
        };
        // it knows the learning rates of its last step
        *lock(&self.inner) = s;
        r
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A schedule's options that stand in the list of classes.
pub trait Named: Sized {
    /// The rule.
    type Rule: Schedule + 'static;
    /// The documented name.
    const NAME: &'static str;
    /// The documented keywords, in order.
    const KEYWORDS: &'static [Keyword];
    /// From values, one or none per keyword.
    ///
    /// # Errors
    /// A value of the wrong type.
    fn rule(values: &[Option<Value>]) -> Result<Self::Rule>;
}
macro_rules! named {
    ($($options:ty, $name:literal, $rule:ty;)*) => {$(
        impl Named for $options {
            type Rule = $rule;
            const NAME: &'static str = $name;
            const KEYWORDS: &'static [Keyword] = &Self::PARAMETERS;
            fn rule(values: &[Option<Value>]) -> Result<$rule> {
                Self::from_values(values).map(Into::into)
            }
        }
    )*};
}
named! {
    lr::StepLROptions, "StepLR", lr::StepLROptions;
    lr::MultiStepLROptions, "MultiStepLR", lr::MultiStepLROptions;
    lr::ConstantLROptions, "ConstantLR", lr::ConstantLROptions;
    lr::LinearLROptions, "LinearLR", lr::LinearLROptions;
    lr::ExponentialLROptions, "ExponentialLR", lr::ExponentialLROptions;
    lr::PolynomialLROptions, "PolynomialLR", lr::PolynomialLROptions;
    lr::CosineAnnealingLROptions, "CosineAnnealingLR", lr::CosineAnnealingLROptions;
    lr::CosineAnnealingWarmRestartsOptions, "CosineAnnealingWarmRestarts", lr::Restarts;
    lr::OneCycleLROptions, "OneCycleLR", lr::Cycle;
    lr::CyclicLROptions, "CyclicLR", lr::Cyclic;
    lr::LambdaLROptions, "LambdaLR", lr::LambdaLROptions;
    lr::MultiplicativeLROptions, "MultiplicativeLR", lr::MultiplicativeLROptions;
    SWALROptions, "SWALR", SWALROptions;
}

fn object(name: &'static str, optimizer: &ObjectRef, s: Box<dyn LRScheduler>) -> ObjectRef {
    let inner = Mutex::new(Shared::new(s));
    ObjectRef::new(SchedulerObject { name, optimizer: optimizer.clone(), inner })
}
fn optimizer_of(v: &Value) -> Result<&ObjectRef> {
    match v {
        Value::Object(o) if o.downcast::<OptimizerObject>().is_some() => Ok(o),
        other => Err(Error::type_(format!("{} is not an Optimizer", other.type_name()))),
    }
}

/// Makes a schedule of an optimizer and keywords.
///
/// # Errors
/// Arguments that do not bind or do not fit.
pub fn scheduler<N: Named>(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let (o, args, kwargs) = first(N::NAME, "optimizer", args, kwargs)?;
    let values = bind(N::NAME, N::KEYWORDS, args, &kwargs)?;
    let o = optimizer_of(o)?;
    let made = Scheduler::of(&mut **of_object(o)?.inner()?, N::rule(&values)?)?;
    Ok(object(N::NAME, o, Box::new(made)))
}
/// Makes a schedule that follows a measure.
///
/// # Errors
/// Arguments that do not bind or do not fit.
pub fn plateau(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let name = "ReduceLROnPlateau";
    let (o, args, kwargs) = first(name, "optimizer", args, kwargs)?;
    let values = bind(name, &ReduceLROnPlateauOptions::PARAMETERS, args, &kwargs)?;
    let options = ReduceLROnPlateauOptions::from_values(&values)?;
    let o = optimizer_of(o)?;
    let made = options.try_build(&mut **of_object(o)?.inner()?)?;
    Ok(object(name, o, Box::new(made)))
}

/// Handles on the schedules of a list, which must all be of one optimizer.
fn parts(
    class: &str,
    v: &Value,
    optimizer: Option<&ObjectRef>,
) -> Result<(Vec<Box<dyn LRScheduler>>, Option<ObjectRef>)> {
    let mut optimizer = optimizer.cloned();
    let mut out: Vec<Box<dyn LRScheduler>> = Vec::new();
    for (i, v) in lr::list_of(v)?.iter().enumerate() {
        let made = match v {
            Value::Object(s) => s.downcast::<SchedulerObject>(),
            _ => None,
        };
        let made = made.ok_or_else(|| {
            Error::type_(format!("{class} at index {i} should have `optimizer` as its attribute."))
        })?;
        let of = optimizer.get_or_insert_with(|| made.optimizer.clone());
        // the same object, not an equal one
        let same = std::ptr::eq(of_object(of)?, of_object(&made.optimizer)?);
        ensure!(
            same || made.name == "ReduceLROnPlateau",
            Value,
            "{class} expects all schedulers to belong to the same optimizer, but got scheduler {} at index {i} has {}, \
             which is different from {}.",
            made.name,
            made.optimizer.repr(),
            of.type_name()
        );
        out.push(Box::new(lock(&made.inner).clone()));
    }
    Ok((out, optimizer))
}
macro_rules! combined {
    ($entry:ident $make:ident, $name:literal, [$($keyword:literal $required:literal),*], |$values:ident| $body:expr) => {
        #[doc = concat!("Makes a `", $name, "` of schedules.")]
        ///
        /// # Errors
        /// Arguments that do not bind or do not fit.
        pub fn $make(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
            let $values = bind($name, &$entry, args, kwargs)?;
            $body
        }
        const $entry: [Keyword; [$($keyword),*].len()] = [$(Keyword { name: $keyword, required: $required }),*];
        const _: () = {
            #[flambeau_library::class::linkme::distributed_slice(flambeau_library::class::CLASSES)]
            #[linkme(crate = flambeau_library::class::linkme)]
            static CLASS: flambeau_library::class::ClassInfo = flambeau_library::class::ClassInfo {
                path: concat!("torch.optim.lr_scheduler.", $name),
                parameters: &$entry,
                make: $make,
            };
        };
    };
}
combined!(CHAINED chained, "ChainedScheduler", ["schedulers" true, "optimizer" false], |values| {
    let given = values[1].as_ref().filter(|v| !matches!(v, Value::None)).map(optimizer_of).transpose()?;
    let (parts, optimizer) = parts("ChainedScheduler", values[0].as_ref().unwrap_or(&Value::None), given)?;
    let none = || {
        Error::value("ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.")
    };
    let o = optimizer.filter(|_| !parts.is_empty()).ok_or_else(none)?;
    let made = ChainedScheduler::try_new(&mut **of_object(&o)?.inner()?, parts)?;
    Ok(object("ChainedScheduler", &o, Box::new(made)))
});
combined!(
    SEQUENTIAL sequential,
    "SequentialLR",
    ["optimizer" true, "schedulers" true, "milestones" true, "last_epoch" false],
    |values| {
        let get = |i: usize| values[i].as_ref().unwrap_or_else(|| Value::none());
        let o = optimizer_of(get(0))?;
        let (parts, _) = parts("SequentialLR", get(1), Some(o))?;
        let last = values[3].as_ref().map_or(Ok(-1), i64::from_value)?;
        let milestones = Vec::from_value(get(2))?;
        let made = SequentialLR::try_new(&mut **of_object(o)?.inner()?, parts, milestones, last)?;
        Ok(object("SequentialLR", o, Box::new(made)))
    }
);
