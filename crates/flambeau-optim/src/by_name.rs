//! Optimizers and schedules as objects of the by-name layer.

use crate::lr_scheduler::{
    ConstantLROptions, CosineAnnealingLROptions, CosineAnnealingWarmRestartsOptions, ExponentialLROptions,
    LRScheduler, LambdaSchedule, LinearLROptions, MultiStepLROptions, MultiplicativeSchedule,
    OneCycleLROptions, PolynomialLROptions, ReduceLROnPlateau, ReduceLROnPlateauOptions, Schedule, Scheduler,
    StepLROptions,
};
use crate::optimizer::{Algorithm, Optim, Optimizer};
use crate::saved::value;
use flambeau_core::class::{self, Parameter as Keyword};
use flambeau_core::library::object::{Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::{Error, Result, Tensor, Value, ensure};
use flambeau_nn::Parameter;
use flambeau_serialization::Tree;
use std::any::Any;
use std::sync::{Mutex, MutexGuard};

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

fn parameters(v: &Value) -> Result<Vec<Parameter>> {
    let tensor = |v: &Value| match v {
        Value::Tensor(t) => Ok(Parameter::of_leaf(t.clone())),
        other => Err(Error::type_(format!(
            "optimizer can only optimize Tensors, but one of the params is {}",
            other.type_name()
        ))),
    };
    match v {
        Value::List(l) | Value::Tuple(l) => l.iter().map(tensor).collect(),
        Value::Tensor(_) => Ok(vec![tensor(v)?]),
        other => Err(Error::type_(format!(
            "params argument given to the optimizer should be an iterable of Tensors or dicts, but got torch.{}",
            other.type_name()
        ))),
    }
}

/// An optimizer as an object.
struct OptimizerObject {
    name: &'static str,
    inner: Mutex<Box<dyn Optimizer>>,
}

fn as_value(t: &Tree<Tensor>) -> Result<Value> {
    Ok(match t {
        Tree::Tensor(t) => Value::Tensor(t.clone()),
        Tree::List(l) => Value::List(l.iter().map(as_value).collect::<Result<_>>()?),
        Tree::Dict(entries) => {
            let entry = |(k, v): &(Tree<Tensor>, Tree<Tensor>)| {
                let k = match k {
                    Tree::Str(s) => s.clone(),
                    Tree::Int(i) => i.to_string(),
                    _ => String::new(),
                };
                Ok((k, as_value(v)?))
            };
            Value::Dict(entries.iter().map(entry).collect::<Result<_>>()?)
        }
        other => value(other)?,
    })
}

impl Object for OptimizerObject {
    fn type_name(&self) -> &'static str {
        self.name
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        let o = lock(&self.inner);
        match (name, o.state_dict().get("param_groups")) {
            ("param_groups", Some(groups)) => as_value(groups),
            _ => Err(no_attribute(self.name, name)),
        }
    }
    fn method(&self, name: &str, args: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        match (name, args) {
            ("step", []) => lock(&self.inner).try_step().map(|()| Vec::new()),
            ("step", [Value::Object(closure)]) => {
                let _grad = flambeau_autograd::enable_grad_guard();
                let loss = closure.call(&[], &[])?;
                lock(&self.inner).try_step()?;
                Ok(loss)
            }
            ("zero_grad", _) => lock(&self.inner).try_zero_grad(true).map(|()| Vec::new()),
            ("state_dict", []) => Ok(vec![as_value(&lock(&self.inner).state_dict())?]),
            _ => Err(no_attribute(self.name, name)),
        }
    }
    fn repr(&self) -> String {
        format!("{:?}", lock(&self.inner))
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
    let defaults = A::of_values(&class::bind(A::NAME, A::parameters(), args, &kwargs)?)?;
    defaults.check()?;
    let groups = match params {
        Value::List(l) | Value::Tuple(l) if matches!(l.first(), Some(Value::Dict(_))) => {
            let mut groups = Vec::new();
            for g in l {
                let Value::Dict(entries) = g else {
                    return Err(Error::type_(format!(
                        "param_group must be a dict, but got {}",
                        g.type_name()
                    )));
                };
                let (mut params, mut options) = (Vec::new(), defaults.clone());
                for (k, v) in entries {
                    if k == "params" {
                        params = parameters(v)?;
                    } else {
                        ensure!(options.set_option(k, v)?, Type, "{} has no option {k}", A::NAME);
                    }
                }
                groups.push((params, options));
            }
            groups
        }
        other => vec![(parameters(other)?, defaults.clone())],
    };
    ensure!(groups.iter().any(|(p, _)| !p.is_empty()), Value, "optimizer got an empty parameter list");
    let inner = Mutex::new(Box::new(Optim::with_groups(groups, defaults)?) as Box<dyn Optimizer>);
    Ok(ObjectRef::new(OptimizerObject { name: A::NAME, inner }))
}

enum Inner {
    Counting(Box<dyn LRScheduler>),
    Measuring(ReduceLROnPlateau),
}
/// A schedule as an object, with its optimizer.
struct SchedulerObject {
    name: &'static str,
    optimizer: ObjectRef,
    inner: Mutex<Inner>,
}
fn of_object(o: &ObjectRef) -> Result<&OptimizerObject> {
    o.downcast().ok_or_else(|| Error::type_(format!("{} is not an Optimizer", o.type_name())))
}
impl Object for SchedulerObject {
    fn type_name(&self) -> &'static str {
        self.name
    }
    fn method(&self, name: &str, args: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        let mut o = lock(&of_object(&self.optimizer)?.inner);
        match (name, &mut *lock(&self.inner), args) {
            ("step", Inner::Counting(s), []) => s.try_step(&mut **o)?,
            ("step", Inner::Measuring(s), [metric]) => {
                let metric = match metric {
                    Value::Tensor(t) => t.try_item()?,
                    other => other.as_scalar().map_or(f64::NAN, |s| s.to_f64()),
                };
                s.step(metric, &mut **o);
            }
            ("get_last_lr", inner, []) => {
                let lrs = match inner {
                    Inner::Counting(s) => s.get_last_lr().to_vec(),
                    Inner::Measuring(s) => s.get_last_lr().to_vec(),
                };
                return Ok(vec![Value::List(lrs.into_iter().map(Value::Float).collect())]);
            }
            _ => return Err(no_attribute(self.name, name)),
        }
        Ok(Vec::new())
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
    ($($options:ident $name:literal $rule:ty, |$o:ident| $e:expr;)*) => {$(
        impl Named for $options {
            type Rule = $rule;
            const NAME: &'static str = $name;
            const KEYWORDS: &'static [Keyword] = &Self::PARAMETERS;
            fn rule(values: &[Option<Value>]) -> Result<$rule> {
                let $o = Self::from_values(values)?;
                Ok($e)
            }
        }
    )*};
}
named! {
    StepLROptions "StepLR" StepLROptions, |o| o;
    MultiStepLROptions "MultiStepLR" MultiStepLROptions, |o| o;
    ConstantLROptions "ConstantLR" ConstantLROptions, |o| o;
    LinearLROptions "LinearLR" LinearLROptions, |o| o;
    ExponentialLROptions "ExponentialLR" ExponentialLROptions, |o| o;
    PolynomialLROptions "PolynomialLR" PolynomialLROptions, |o| o;
    CosineAnnealingLROptions "CosineAnnealingLR" CosineAnnealingLROptions, |o| o;
    CosineAnnealingWarmRestartsOptions "CosineAnnealingWarmRestarts" CosineAnnealingWarmRestartsOptions, |o| o;
    OneCycleLROptions "OneCycleLR" crate::lr_scheduler::Cycle, |o| o.into();
}

fn counting(name: &'static str, optimizer: &ObjectRef, rule: impl Schedule + 'static) -> Result<ObjectRef> {
    let mut o = lock(&of_object(optimizer)?.inner);
    let inner = Inner::Counting(Box::new(Scheduler::of(&mut **o, rule)?));
    drop(o);
    Ok(ObjectRef::new(SchedulerObject { name, optimizer: optimizer.clone(), inner: Mutex::new(inner) }))
}
fn optimizer_of(v: &Value) -> Result<&ObjectRef> {
    match v {
        Value::Object(o) => Ok(o),
        other => Err(Error::type_(format!("{} is not an Optimizer", other.type_name()))),
    }
}

/// Makes a schedule of an optimizer and keywords.
///
/// # Errors
/// Arguments that do not bind or do not fit.
pub fn scheduler<N: Named>(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let (o, args, kwargs) = first(N::NAME, "optimizer", args, kwargs)?;
    counting(N::NAME, optimizer_of(o)?, N::rule(&class::bind(N::NAME, N::KEYWORDS, args, &kwargs)?)?)
}
/// Makes a schedule that follows a measure.
///
/// # Errors
/// Arguments that do not bind or do not fit.
pub fn plateau(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let name = "ReduceLROnPlateau";
    let (o, args, mut kwargs) = first(name, "optimizer", args, kwargs)?;
    // the one keyword that may be a list
    let list = kwargs.iter().position(|(k, v)| k == "min_lr" && v.items().is_some());
    let list = list.map(|i| kwargs.remove(i).1);
    let options = ReduceLROnPlateauOptions::from_values(&class::bind(
        name,
        &ReduceLROnPlateauOptions::PARAMETERS,
        args,
        &kwargs,
    )?)?;
    let object = optimizer_of(o)?;
    let mut made = options.try_build(&mut **lock(&of_object(object)?.inner))?;
    if let Some(l) = list {
        made = made.min_lrs(&flambeau_core::value::FromValue::from_value(&l).map(|v: Vec<f64>| v)?)?;
    }
    let inner = Mutex::new(Inner::Measuring(made));
    Ok(ObjectRef::new(SchedulerObject { name, optimizer: object.clone(), inner }))
}

type Factor = Box<dyn Fn(i64) -> f64 + Send>;
/// Functions of the step that come as objects.
fn lambdas(v: &Value) -> Result<Vec<Factor>> {
    let one = |v: &Value| -> Result<Factor> {
        let Value::Object(f) = v else {
            return Err(Error::type_(format!("lr_lambda must be callable, not {}", v.type_name())));
        };
        let f = f.clone();
        // a function that fails or gives no number gives NaN, which shows in the learning rates
        Ok(Box::new(move |epoch| {
            let got = f.call(&[Value::Int(epoch)], &[]).ok();
            got.and_then(|l| l.first().and_then(Value::as_scalar)).map_or(f64::NAN, |s| s.to_f64())
        }))
    };
    match v.items() {
        Some(l) => l.iter().map(one).collect(),
        None => Ok(vec![one(v)?]),
    }
}
static LAMBDA: [Keyword; 1] = [Keyword { name: "lr_lambda", required: true }];
macro_rules! by_lambda {
    ($entry:ident, $name:literal, $rule:ident) => {
        #[class::linkme::distributed_slice(class::CLASSES)]
        #[linkme(crate = flambeau_core::class::linkme)]
        static $entry: class::ClassInfo = class::ClassInfo {
            path: concat!("torch.optim.lr_scheduler.", $name),
            parameters: &LAMBDA,
            make: |args, kwargs| {
                let (o, args, kwargs) = first($name, "optimizer", args, kwargs)?;
                let values = class::bind($name, &LAMBDA, args, &kwargs)?;
                let f = lambdas(values[0].as_ref().unwrap_or(&Value::None))?;
                counting($name, optimizer_of(o)?, $rule::of(f))
            },
        };
    };
}
by_lambda!(LAMBDA_LR, "LambdaLR", LambdaSchedule);
by_lambda!(MULTIPLICATIVE_LR, "MultiplicativeLR", MultiplicativeSchedule);
