//! `torch.signal.windows` with a length that is no whole number. The functions are Python in PyTorch, and ask `torch.linspace` for
//! as many points, whose complaint is theirs.

use crate::slots::{Slots, one};
use crate::{Asks, NativeFn, call};
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::{FromValue, Value};
use flambeau_core::iter::promotion;
use flambeau_core::types::error::Result;
use flambeau_core::{DType, Device, Layout, ensure, ops};

/// Whether the length has a fraction's type, or the coefficients are no list.
fn asks(args: &[Value], kwargs: &Kwargs) -> bool {
    let of = |name: &str| kwargs.iter().find(|(k, _)| k == name).map(|(_, v)| v);
    let length = args.first().or_else(|| of("M"));
    matches!(length, Some(Value::Float(_))) || matches!(of("a"), Some(Value::Float(_) | Value::Int(_)))
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
    let m = f64::from_value(s.must(0)?)?;
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
    let list = s.values[6].is_none_or(|a| matches!(a, Value::List(_) | Value::Tuple(_)));
    ensure!(list, Type, "Coefficients must be a list/tuple");
    let start = start(d)?;
    let end = if matches!(start, Value::Tensor(_)) { start.clone() } else { Value::Float(m) };
    let device = s.values[4].cloned().unwrap_or(Value::None);
    let given = [
        ("start", start),
        ("end", end),
        ("steps", s.must(0)?.clone()),
        ("dtype", Value::DType(d)),
        ("layout", Value::Layout(layout)),
        ("device", device),
        ("requires_grad", s.values[5].cloned().unwrap_or(Value::Bool(false))),
    ];
    let given: Vec<_> = given.into_iter().map(|(k, v)| (k.to_string(), v)).collect();
    call("torch.linspace", &[], &given)
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
    ($($name:literal $checks:literal $start:ident;)*) => {
        /// Path, question and answer.
        pub(crate) const EITHER: &[(&str, Asks, NativeFn)] = &[$(
            (concat!("torch.signal.windows.", $name), asks, |a, k| window($name, $checks, $start, a, k)),
        )*];
    };
}
windows! {
    "bartlett" "bartlett" whole;
    "blackman" "blackman" whole;
    "cosine" "cosine" float;
    "exponential" "exponential" float;
    "gaussian" "gaussian" float;
    "general_cosine" "general_cosine" whole;
    "general_hamming" "general_cosine" whole;
    "hamming" "general_cosine" whole;
    "hann" "general_cosine" whole;
    "kaiser" "kaiser" tensor;
    "nuttall" "general_cosine" whole;
}
