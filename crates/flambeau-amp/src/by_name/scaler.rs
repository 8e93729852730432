//! `torch.amp.GradScaler` as an object.

use crate::grad_scaler::{GradScaler, GradScalerOptions, ScalerState};
use flambeau_core::dispatch::object::{
    Constructor, Kwargs, Object, ObjectRef, Parameter, bind, no_attribute,
};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::settings::determinism::warn;
use flambeau_core::types::order::{Mutex, MutexGuard};
use flambeau_core::{Error, Result, Value, ensure};
use flambeau_library::slots::one;
use flambeau_optim::by_name::with;
use std::any::Any;

struct Scaler(Mutex<GradScaler>);
impl Scaler {
    fn lock(&self) -> MutexGuard<'_, GradScaler> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}
fn scaled(s: &mut GradScaler, v: &Value) -> Result<Value> {
    let mut all = |l: &[Value]| l.iter().map(|v| scaled(s, v)).collect::<Result<Vec<_>>>();
    Ok(match v {
        Value::List(l) => Value::List(all(l)?),
        Value::Tuple(l) => Value::Tuple(all(l)?),
        Value::Tensor(t) => Value::Tensor(s.try_scale(t)?),
        _ if !s.is_enabled() => v.clone(),
        _ => return Err(Error::value("outputs must be a Tensor or an iterable of Tensors")),
    })
}
fn optimizer(args: &[Value]) -> Result<&ObjectRef> {
    match args.first() {
        Some(Value::Object(o)) => Ok(o),
        Some(v) => Err(Error::type_(format!("{} is not an Optimizer", v.type_name()))),
        None => Err(Error::type_("missing 1 required positional argument: 'optimizer'")),
    }
}
fn state(s: Option<ScalerState>) -> Value {
    let Some(s) = s else { return Value::Dict(Vec::new()) };
    let entries = [
        ("scale", Value::Float(s.scale)),
        ("growth_factor", Value::Float(s.growth_factor)),
        ("backoff_factor", Value::Float(s.backoff_factor)),
        ("growth_interval", Value::Int(s.growth_interval)),
        ("_growth_tracker", Value::Int(s.growth_tracker)),
    ];
    Value::Dict(entries.into_iter().map(|(k, v)| (k.to_string(), v)).collect())
}
fn state_of(v: &Value) -> Result<Option<ScalerState>> {
    let Value::Dict(d) = v else {
        return Err(Error::type_(format!("a state dict is a dict, not {}", v.type_name())));
    };
    if d.is_empty() {
        return Ok(None);
    }
    let entry = |name: &str| {
        d.iter().find(|(k, _)| k == name).map(|(_, v)| v).ok_or_else(|| Error::index(format!("'{name}'")))
    };
    Ok(Some(ScalerState {
        scale: f64::from_value(entry("scale")?)?,
        growth_factor: f64::from_value(entry("growth_factor")?)?,
        backoff_factor: f64::from_value(entry("backoff_factor")?)?,
        growth_interval: i64::from_value(entry("growth_interval")?)?,
        growth_tracker: i64::from_value(entry("_growth_tracker")?)?,
    }))
}
impl Object for Scaler {
    fn type_name(&self) -> &'static str {
        "GradScaler"
    }
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        // hooks of steps run under no lock: the scaler is taken out, and put back
        let mut s = self.lock().clone();
        let result = called(&mut s, name, args, kwargs);
        *self.lock() = s;
        result
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
fn called(s: &mut GradScaler, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let keyword = |n: &str| kwargs.iter().find(|(k, _)| k == n).map(|(_, v)| v.clone());
    let given = |n: &str| args.first().cloned().or_else(|| keyword(n));
    let need = |n: &str| {
        given(n).ok_or_else(|| {
            Error::type_(format!("GradScaler.{name}() missing 1 required positional argument: '{n}'"))
        })
    };
    match name {
        "scale" => return Ok(vec![scaled(s, &need("outputs")?)?]),
        "unscale_" => with(optimizer(&[need("optimizer")?])?, |o| s.try_unscale_(o))?,
        "step" => {
            let o = need("optimizer")?;
            let o = optimizer(std::slice::from_ref(&o))?;
            if !s.is_enabled() {
                let rest: Vec<_> = kwargs.iter().filter(|(k, _)| k != "optimizer").cloned().collect();
                return o.method("step", args.get(1..).unwrap_or(&[]), &rest);
            }
            ensure!(
                keyword("closure").is_none(),
                Runtime,
                "Closure use is not currently supported if GradScaler is enabled."
            );
            ensure!(args.len() < 2, Missing, "GradScaler.step with arguments for the optimizer's step");
            with(o, |o| s.try_step(o))?;
        }
        "update" => match &given("new_scale") {
            None | Some(Value::None) => s.try_update()?,
            Some(Value::Tensor(t)) => s.try_update_from(t)?,
            Some(v) => s.try_update_to(f64::from_value(v)?)?,
        },
        "get_scale" => return one(s.try_get_scale()?),
        "get_growth_factor" => return one(s.get_growth_factor()),
        "get_backoff_factor" => return one(s.get_backoff_factor()),
        "get_growth_interval" => return one(s.get_growth_interval()),
        "set_growth_factor" => s.set_growth_factor(f64::from_value(&need("new_factor")?)?),
        "set_backoff_factor" => s.set_backoff_factor(f64::from_value(&need("new_factor")?)?),
        "set_growth_interval" => s.set_growth_interval(i64::from_value(&need("new_interval")?)?),
        "is_enabled" => return one(s.is_enabled()),
        "state_dict" => return Ok(vec![state(s.try_state_dict()?)]),
        "load_state_dict" => {
            if s.is_enabled() {
                s.load_state_dict(state_of(&need("state_dict")?)?)?;
            }
        }
        _ => return Err(no_attribute("GradScaler", name)),
    }
    Ok(vec![Value::None])
}

const PARAMETERS: [Parameter; 6] = {
    const fn p(name: &'static str) -> Parameter {
        Parameter { name, required: false }
    }
    [
        p("device"),
        p("init_scale"),
        p("growth_factor"),
        p("backoff_factor"),
        p("growth_interval"),
        p("enabled"),
    ]
};
fn made(device: Option<&str>, args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    // the older names have no device
    let skip = usize::from(device.is_some());
    let v = bind("GradScaler", &PARAMETERS[skip..], args, kwargs)?;
    let value = |i: usize| v.get(i).and_then(Option::as_ref);
    let mut o = GradScalerOptions::new();
    match (device, value(0)) {
        (Some(d), _) => o = o.device(d),
        (None, Some(d)) => o = o.device(String::from_value(d)?),
        (None, None) => {}
    }
    let number = |i: usize| value(i - skip).map(f64::from_value).transpose();
    if let Some(v) = number(1)? {
        o = o.init_scale(v);
    }
    if let Some(v) = number(2)? {
        o = o.growth_factor(v);
    }
    if let Some(v) = number(3)? {
        o = o.backoff_factor(v);
    }
    if let Some(v) = value(4 - skip) {
        o = o.growth_interval(i64::from_value(v)?);
    }
    if let Some(v) = value(5 - skip) {
        o = o.enabled(bool::from_value(v)?);
    }
    Ok(ObjectRef::new(Scaler(Mutex::new(o.try_build()?))))
}
fn old(device: &'static str, args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    warn(&format!(
        "`torch.{device}.amp.GradScaler(args...)` is deprecated. Please use `torch.amp.GradScaler('{device}', args...)` instead."
    ));
    made(Some(device), args, kwargs)
}

/// Documented names and constructors.
pub(super) const CLASSES: &[(&str, Constructor)] = &[
    ("torch.GradScaler", |a, k| made(None, a, k)),
    ("torch.amp.GradScaler", |a, k| made(None, a, k)),
    ("torch.amp.grad_scaler.GradScaler", |a, k| made(None, a, k)),
    ("torch.cpu.amp.GradScaler", |a, k| old("cpu", a, k)),
    ("torch.cpu.amp.grad_scaler.GradScaler", |a, k| old("cpu", a, k)),
    ("torch.cuda.amp.GradScaler", |a, k| old("cuda", a, k)),
    ("torch.cuda.amp.grad_scaler.GradScaler", |a, k| old("cuda", a, k)),
];
