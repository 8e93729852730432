//! `torch.signal.windows` with a length that is no whole number. The functions are Python in PyTorch, and ask `torch.linspace` for
//! as many points, whose complaint is theirs.

use crate::slots::{Slots, one};
use crate::{Asks, NativeFn, call};
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::{FromValue, Value};
use flambeau_core::iter::promotion;
use flambeau_core::types::error::{Error, Result};
use flambeau_core::{DType, Device, Layout, ensure, ops};

fn keyword<'a>(kwargs: &'a Kwargs, name: &str) -> Option<&'a Value> {
    kwargs.iter().find(|(k, _)| k == name).map(|(_, v)| v)
}
/// Whether the length is missing or has a fraction's type.
fn no_length(args: &[Value], kwargs: &Kwargs) -> bool {
    matches!(args.first().or_else(|| keyword(kwargs, "M")), None | Some(Value::Float(_)))
}
/// Whether that is so, or the coefficients are missing or no list.
fn no_list(args: &[Value], kwargs: &Kwargs) -> bool {
    no_length(args, kwargs) || matches!(keyword(kwargs, "a"), None | Some(Value::Float(_) | Value::Int(_)))
}

const PARAMETERS: &[&str] =
    &["M", "sym", "dtype", "layout", "device", "requires_grad", "a", "alpha", "beta", "center", "tau", "std"];

/// `checks` is the function that looks at the arguments first, `start` what the points begin with.
fn window(
    name: &'static str,
    checks: &str,
    start: fn(DType) -> Result<Value>,
    args: &[Value],
    kwargs: &Kwargs,
) -> Result<Vec<Value>> {
    let s = Slots::new(name, PARAMETERS, args, kwargs)?;
    let length = s.must(0)?;
    let coefficients = s.values[6];
    ensure!(
        name != "general_cosine" || coefficients.is_some(),
        Type,
        "{name}() missing 1 required keyword-only argument: 'a'"
    );
    let m = f64::from_value(length)?;
    let d = s.get::<DType>(2)?.unwrap_or_else(promotion::default_dtype);
    let layout = s.get::<Layout>(3)?.unwrap_or(Layout::Strided);
    ensure!(m >= 0.0, Value, "{checks} requires non-negative window length, got M={m:?}");
    ensure!(
        layout == Layout::Strided,
        Value,
        "{checks} is implemented for strided tensors only, got: torch.{}",
        layout.name()
    );
    ensure!(
        matches!(d, DType::F32 | DType::F64),
        Value,
        "{checks} expects float32 or float64 dtypes, got: {d}"
    );
    // lengths of which nothing is computed
    let alone = !matches!(name, "exponential" | "cosine" | "gaussian");
    if m == 0.0 || (m == 1.0 && alone) {
        return one(ops::ones(&[m as i64], Some(d), None, Some(Device::Cpu), None)?);
    }
    let list = coefficients.is_none_or(|a| matches!(a, Value::List(_) | Value::Tuple(_)));
    ensure!(list, Type, "Coefficients must be a list/tuple");
    let start = start(d)?;
    let end = if matches!(start, Value::Tensor(_)) { start.clone() } else { Value::Float(m) };
    // the last keyword first, as PyTorch's complaint lists them
    let device = s.values[4].cloned().unwrap_or(Value::None);
    let given = [
        ("requires_grad", s.values[5].cloned().unwrap_or(Value::Bool(false))),
        ("device", device),
        ("layout", Value::Layout(layout)),
        ("dtype", Value::DType(d)),
        ("steps", length.clone()),
        ("end", end),
        ("start", start),
    ];
    let types: String = given.iter().map(|(k, v)| format!("{k}={}, ", v.type_name())).collect();
    let given: Vec<_> = given.into_iter().map(|(k, v)| (k.to_string(), v)).collect();
    call("torch.linspace", &[], &given).map_err(|e| {
        let text = e.message();
        match (text.split_once("got ("), text.split_once("), but expected")) {
            (Some((before, _)), Some((_, after))) => {
                Error::new(e.kind(), format!("{before}got ({types}), but expected{after}"))
            }
            _ => e,
        }
    })
}

fn whole(_: DType) -> Result<Value> {
    Ok(Value::Int(0))
}
fn float(_: DType) -> Result<Value> {
    Ok(Value::Float(0.0))
}
fn tensor(d: DType) -> Result<Value> {
    Ok(Value::Tensor(ops::ones(&[], Some(d), None, Some(Device::Cpu), None)?))
}

macro_rules! windows {
    ($($name:literal $checks:literal $asks:ident $start:ident;)*) => {
        /// Path, question and answer.
        pub(crate) const EITHER: &[(&str, Asks, NativeFn)] = &[$(
            (concat!("torch.signal.windows.", $name), $asks, |a, k| window($name, $checks, $start, a, k)),
        )*];
    };
}
windows! {
    "bartlett" "bartlett" no_length whole;
    "blackman" "blackman" no_length whole;
    "cosine" "cosine" no_length float;
    "exponential" "exponential" no_length float;
    "gaussian" "gaussian" no_length float;
    "general_cosine" "general_cosine" no_list whole;
    "general_hamming" "general_cosine" no_length whole;
    "hamming" "general_cosine" no_length whole;
    "hann" "general_cosine" no_length whole;
    "kaiser" "kaiser" no_length tensor;
    "nuttall" "general_cosine" no_length whole;
}
