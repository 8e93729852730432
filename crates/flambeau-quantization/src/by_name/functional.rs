//! `torch.ao.nn.quantized.functional` by name, in all the namespaces that PyTorch shows it in.

use crate::nn::functional as f;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::{Result, Tensor, Value, ensure};
use flambeau_library::slots::{Slots, one};
use flambeau_library::{NativeFn, register_function};

/// A list, or a number as one of them.
fn ints(s: &Slots<'_>, i: usize, n: usize, default: i64) -> Result<Vec<i64>> {
    Ok(list(s, i, n)?.unwrap_or_else(|| vec![default; n]))
}
fn list(s: &Slots<'_>, i: usize, n: usize) -> Result<Option<Vec<i64>>> {
    match s.values[i] {
        None | Some(Value::None) => Ok(None),
        Some(Value::Int(v)) => Ok(Some(vec![*v; n])),
        Some(v) => Vec::<i64>::from_value(v).map(Some),
    }
}
fn opt(s: &Slots<'_>, i: usize) -> Result<Option<Tensor>> {
    s.get(i)
}
fn or<T: FromValue>(s: &Slots<'_>, i: usize, default: T) -> Result<T> {
    Ok(s.get(i)?.unwrap_or(default))
}
fn sizes(s: &Slots<'_>, i: usize, n: usize) -> Result<Vec<i64>> {
    s.must(i)?;
    ints(s, i, n, 1)
}
fn linear(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("linear", &["input", "weight", "bias", "scale", "zero_point"], a, k)?;
    let x = s.tensor()?;
    one(f::try_linear(&x, &Tensor::from_value(s.must(1)?)?, opt(&s, 2)?.as_ref(), s.get(3)?, s.get(4)?)?)
}
fn conv(name: &'static str, n: usize, a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    const P: &[&str] = &[
        "input",
        "weight",
        "bias",
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "scale",
        "zero_point",
        "dtype",
    ];
    let s = Slots::new(name, P, a, k)?;
    let mode = or(&s, 7, "zeros".to_string())?;
    ensure!(mode == "zeros", Unsupported, "Only zero-padding is supported!");
    let o = f::ConvOptions {
        stride: ints(&s, 3, n, 1)?,
        padding: ints(&s, 4, n, 0)?,
        dilation: ints(&s, 5, n, 1)?,
        groups: or(&s, 6, 1)?,
        scale: or(&s, 8, 1.0)?,
        zero_point: or(&s, 9, 0)?,
    };
    one(f::try_convolution(&s.tensor()?, &Tensor::from_value(s.must(1)?)?, opt(&s, 2)?.as_ref(), o)?)
}
const AVG: &[&str] =
    &["input", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"];
type Avg = fn(&Tensor, &[i64], Option<&[i64]>, &[i64], bool, bool, Option<i64>) -> Result<Tensor>;
fn avg(name: &'static str, n: usize, pool: Avg, a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new(name, AVG, a, k)?;
    one(pool(
        &s.tensor()?,
        &sizes(&s, 1, n)?,
        list(&s, 2, n)?.as_deref(),
        &ints(&s, 3, n, 0)?,
        or(&s, 4, false)?,
        or(&s, 5, true)?,
        s.get(6)?,
    )?)
}
fn max_pool(name: &'static str, n: usize, a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    const P: &[&str] =
        &["input", "kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices"];
    let s = Slots::new(name, P, a, k)?;
    ensure!(!or(&s, 6, false)?, Unsupported, "return_indices is not yet implemented!");
    let stride = list(&s, 2, n)?.filter(|l| !l.is_empty());
    let (kernel, pad, dil) = (sizes(&s, 1, n)?, ints(&s, 3, n, 0)?, ints(&s, 4, n, 1)?);
    one(f::try_max_pool_of(n, &s.tensor()?, &kernel, stride.as_deref(), &pad, &dil, or(&s, 5, false)?)?)
}
fn resized(
    name: &'static str,
    mode: &'static str,
    align: bool,
    a: &[Value],
    k: &Kwargs,
) -> Result<Vec<Value>> {
    let s = Slots::new(name, &["input", "size", "scale_factor", "mode", "align_corners"], a, k)?;
    let mode = or(&s, 3, mode.to_string())?;
    let factors = match s.values[2] {
        Some(Value::Int(v)) => Some(vec![*v as f64]),
        Some(Value::Float(v)) => Some(vec![*v]),
        _ => s.get::<Vec<f64>>(2)?,
    };
    let corners = s.get(4)?.or((mode != "nearest").then_some(align));
    one(f::try_interpolate(&s.tensor()?, list(&s, 1, 1)?.as_deref(), factors.as_deref(), &mode, corners)?)
}
fn with_rule(
    name: &'static str,
    g: fn(&Tensor, f64, i64, f64) -> Result<Tensor>,
    a: &[Value],
    k: &Kwargs,
) -> Result<Vec<Value>> {
    let s = Slots::new(name, &["input", "scale", "zero_point", "alpha"], a, k)?;
    one(g(&s.tensor()?, f64::from_value(s.must(1)?)?, i64::from_value(s.must(2)?)?, or(&s, 3, 1.0)?)?)
}

const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("linear", linear),
    ("conv1d", |a, k| conv("conv1d", 1, a, k)),
    ("conv2d", |a, k| conv("conv2d", 2, a, k)),
    ("conv3d", |a, k| conv("conv3d", 3, a, k)),
    ("avg_pool2d", |a, k| avg("avg_pool2d", 2, f::try_avg_pool2d, a, k)),
    ("avg_pool3d", |a, k| avg("avg_pool3d", 3, f::try_avg_pool3d, a, k)),
    ("adaptive_avg_pool2d", |a, k| {
        let s = Slots::new("adaptive_avg_pool2d", &["input", "output_size"], a, k)?;
        one(f::try_adaptive_avg_pool2d(&s.tensor()?, &sizes(&s, 1, 2)?)?)
    }),
    ("adaptive_avg_pool3d", |a, k| {
        let s = Slots::new("adaptive_avg_pool3d", &["input", "output_size"], a, k)?;
        one(f::try_adaptive_avg_pool3d(&s.tensor()?, &sizes(&s, 1, 3)?)?)
    }),
    ("max_pool1d", |a, k| max_pool("max_pool1d", 1, a, k)),
    ("max_pool2d", |a, k| max_pool("max_pool2d", 2, a, k)),
    ("celu", |a, k| with_rule("celu", f::try_celu, a, k)),
    ("elu", |a, k| with_rule("elu", f::try_elu, a, k)),
    ("leaky_relu", |a, k| {
        const P: &[&str] = &["input", "negative_slope", "inplace", "scale", "zero_point"];
        let s = Slots::new("leaky_relu", P, a, k)?;
        let rule = s.get(3)?.zip(s.get(4)?);
        one(f::try_leaky_relu(&s.tensor()?, or(&s, 1, 0.01)?, rule)?)
    }),
    ("hardtanh", |a, k| {
        let s = Slots::new("hardtanh", &["input", "min_val", "max_val", "inplace"], a, k)?;
        one(f::try_hardtanh(&s.tensor()?, or(&s, 1, -1.0)?, or(&s, 2, 1.0)?)?)
    }),
    ("hardswish", |a, k| {
        let s = Slots::new("hardswish", &["input", "scale", "zero_point"], a, k)?;
        one(f::try_hardswish(&s.tensor()?, f64::from_value(s.must(1)?)?, i64::from_value(s.must(2)?)?)?)
    }),
    ("threshold", |a, k| {
        let s = Slots::new("threshold", &["input", "threshold", "value"], a, k)?;
        one(f::try_threshold(&s.tensor()?, f64::from_value(s.must(1)?)?, f64::from_value(s.must(2)?)?)?)
    }),
    ("hardsigmoid", |a, k| {
        one(f::try_hardsigmoid(&Slots::new("hardsigmoid", &["input", "inplace"], a, k)?.tensor()?)?)
    }),
    ("clamp", |a, k| {
        let s = Slots::new("clamp", &["input", "min_", "max_"], a, k)?;
        one(f::try_clamp(&s.tensor()?, f64::from_value(s.must(1)?)?, f64::from_value(s.must(2)?)?)?)
    }),
    ("interpolate", |a, k| resized("interpolate", "nearest", false, a, k)),
    ("upsample", |a, k| resized("upsample", "nearest", false, a, k)),
    ("upsample_bilinear", |a, k| resized("upsample_bilinear", "bilinear", true, a, k)),
    ("upsample_nearest", |a, k| resized("upsample_nearest", "nearest", false, a, k)),
];
pub(super) fn register() {
    for (name, g) in FUNCTIONS {
        for module in ["torch.ao.nn.quantized.functional", "torch.nn.quantized.functional"] {
            register_function(&format!("{module}.{name}"), *g);
        }
    }
}
