//! `torch.sym_*`: what Python's functions do to numbers that may be symbols. Sizes are plain numbers here.

use crate::NativeFn;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::Value;
use flambeau_core::ensure;
use flambeau_core::types::error::{Error, Result};

fn number(name: &str, args: &[Value], i: usize) -> Result<Value> {
    match args.get(i) {
        Some(v @ (Value::Int(_) | Value::Float(_) | Value::Bool(_))) => Ok(v.clone()),
        Some(v) => Err(Error::type_(format!("{name}(): expected a number, not {}", v.type_name()))),
        None => {
            Err(Error::type_(format!("{name}() missing {} required positional argument", i + 1 - args.len())))
        }
    }
}
fn float(v: &Value) -> f64 {
    v.as_scalar().map_or(f64::NAN, flambeau_core::Scalar::to_f64)
}
fn int(v: &Value) -> i64 {
    v.as_scalar().map_or(0, flambeau_core::Scalar::to_i64)
}
/// The larger of two numbers, or the smaller: a float where one of them is.
fn extreme(name: &str, a: &[Value], larger: bool) -> Result<Vec<Value>> {
    let (x, y) = (number(name, a, 0)?, number(name, a, 1)?);
    // Python's max and min keep the first of equal numbers
    let second = if larger { float(&y) > float(&x) } else { float(&y) < float(&x) };
    let any_float = matches!(x, Value::Float(_)) || matches!(y, Value::Float(_));
    let v = if second { y } else { x };
    Ok(vec![if any_float { Value::Float(float(&v)) } else { v }])
}
fn to_int(a: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
    let v = number("sym_int", a, 0)?;
    if let Value::Float(f) = v {
        ensure!(!f.is_nan(), Value, "cannot convert float NaN to integer");
        ensure!(f.is_finite(), Runtime, "cannot convert float infinity to integer");
        return Ok(vec![Value::Int(f.trunc() as i64)]);
    }
    Ok(vec![Value::Int(int(&v))])
}
fn sum(a: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
    let Some(items) = a.first().and_then(Value::items) else {
        return Err(Error::type_("sym_sum(): a list of numbers expected"));
    };
    let all: Vec<Value> = (0..items.len()).map(|i| number("sym_sum", items, i)).collect::<Result<_>>()?;
    if all.iter().any(|v| matches!(v, Value::Float(_))) {
        return Ok(vec![Value::Float(all.iter().map(float).sum())]);
    }
    let total = all.iter().try_fold(0i64, |s, v| s.checked_add(int(v)));
    Ok(vec![Value::Int(total.ok_or_else(|| Error::runtime("sym_sum(): the sum does not fit int64"))?)])
}
fn constrain(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let bound =
        |n: &str| k.iter().find(|(name, _)| name == n).map(|(_, v)| v).filter(|v| !matches!(v, Value::None));
    let size = float(&number("sym_constrain_range", a, 0)?);
    let low = bound("min").map_or(f64::NEG_INFINITY, float);
    let high = bound("max").map_or(f64::INFINITY, float);
    ensure!(low <= high, Runtime, "max must be greater than or equal to min, got min={low} and max={high}");
    ensure!((low..=high).contains(&size), Runtime, "Invalid value range for {size} between [{low}, {high}].");
    Ok(vec![Value::None])
}

/// The number, as one that a tensor gave: floats are rounded to the default dtype.
fn fresh_size(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let given = a.first().or_else(|| k.iter().find(|(name, _)| name == "expr").map(|(_, v)| v));
    let Some(v) = given else {
        return Err(Error::type_("sym_fresh_size() missing 1 required positional argument: 'expr'"));
    };
    let t = crate::call_value("torch.tensor", std::slice::from_ref(v), &[])?;
    Ok(vec![crate::method(&t, "item", &[], &[])?])
}

/// Name and body.
pub(crate) const NATIVE: &[(&str, NativeFn)] = &[
    ("torch.sym_int", to_int),
    ("torch.sym_float", |a, _| Ok(vec![Value::Float(float(&number("sym_float", a, 0)?))])),
    ("torch.sym_max", |a, _| extreme("sym_max", a, true)),
    ("torch.sym_min", |a, _| extreme("sym_min", a, false)),
    ("torch.sym_sqrt", |a, _| {
        let x = float(&number("sym_sqrt", a, 0)?);
        ensure!(x >= 0.0, Value, "math domain error");
        Ok(vec![Value::Float(x.sqrt())])
    }),
    ("torch.sym_not", |a, _| Ok(vec![Value::Bool(float(&number("sym_not", a, 0)?) == 0.0)])),
    ("torch.sym_sum", sum),
    ("torch.sym_ite", |a, _| match a {
        [Value::Bool(b), x, y] => Ok(vec![if *b { x.clone() } else { y.clone() }]),
        _ => Err(Error::type_("sym_ite(): a bool and two values expected")),
    }),
    ("torch.sym_constrain_range", constrain),
    ("torch.sym_fresh_size", fresh_size),
];
