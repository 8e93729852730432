//! `torch.ops.quantized`: the operators that converted graphs call. A packed weight is a layer without a rule for its results.

use crate::nn::conv::{Conv, ConvShape};
use crate::nn::functional as f;
use crate::nn::linear::{Linear, LinearKind};
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Error, Result, Tensor, Value, ops};
use flambeau_library::slots::{Slots, one};
use flambeau_library::{NativeFn, register_function};
use flambeau_nn::internal::{ModuleObject, Run};
use flambeau_nn_functional::ops as nn;

/// A number, or a tensor of one.
fn float(v: &Value) -> Result<f64> {
    match v {
        Value::Tensor(t) => t.try_item::<f64>(),
        v => f64::from_value(v),
    }
}
fn whole(v: &Value) -> Result<i64> {
    match v {
        Value::Tensor(t) => t.try_item::<i64>(),
        v => i64::from_value(v),
    }
}
fn rule(s: &Slots<'_>, i: usize) -> Result<f::Rule> {
    // scales are float32 numbers in tensors, and so are those that programs write
    Ok((float(s.must(i)?)?, whole(s.must(i + 1)?)?))
}
fn tensor(s: &Slots<'_>, i: usize) -> Result<Tensor> {
    Tensor::from_value(s.must(i)?)
}
/// Looks at the layer that a packed weight is.
fn packed<T: Run, R>(v: &Value, f: impl FnOnce(&T) -> Result<R>) -> Result<R> {
    let o = match v {
        Value::Object(o) => o.downcast::<ModuleObject>(),
        _ => None,
    };
    let wrong = || Error::type_(format!("a packed weight is expected, not {}", v.type_name()));
    o.ok_or_else(wrong)?.with(|r| f(r.as_module().downcast_ref::<T>().ok_or_else(wrong)?))
}
fn linear(name: &'static str, relu: bool, a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new(name, &["X", "W_prepack", "Y_scale_i", "Y_zero_point_i"], a, k)?;
    let (x, rule) = (tensor(&s, 0)?, rule(&s, 2)?);
    one(packed(s.must(1)?, |l: &Linear| l.of_integers(&x, rule, relu))?)
}
fn linear_dynamic(name: &'static str, relu: bool, a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new(name, &["X", "W_prepack", "reduce_range"], a, k)?;
    let (x, reduce) = (tensor(&s, 0)?, s.get(2)?.unwrap_or(false));
    one(packed(s.must(1)?, |l: &Linear| l.of_numbers(&x, reduce, relu))?)
}
fn conv(name: &'static str, relu: bool, a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new(name, &["qx", "weight", "output_scale", "output_zero_point"], a, k)?;
    let (x, rule) = (tensor(&s, 0)?, rule(&s, 2)?);
    one(packed(s.must(1)?, |c: &Conv| c.of_integers(&x, rule, relu))?)
}
fn conv_dynamic(name: &'static str, a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new(name, &["qx", "weight", "reduce_range"], a, k)?;
    let (x, reduce) = (tensor(&s, 0)?, s.get(2)?.unwrap_or(false));
    one(packed(s.must(1)?, |c: &Conv| c.of_numbers(&x, reduce))?)
}
fn object(m: impl Run) -> Result<Vec<Value>> {
    Ok(vec![Value::Object(ModuleObject::make(m))])
}
fn linear_prepack(a: &[Value], k: &Kwargs, half: bool) -> Result<Vec<Value>> {
    let s = Slots::new("linear_prepack", &["W", "B"], a, k)?;
    let mut w = tensor(&s, 0)?;
    if half {
        w = crate::tensor::cast(&w, DType::F16)?;
    }
    object(Linear::of(w, s.get(1)?, (1.0, 0), LinearKind::Static, false))
}
fn conv_prepack(name: &'static str, dims: usize, a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new(name, &["weight", "bias", "stride", "padding", "dilation", "groups"], a, k)?;
    let (w, groups) = (tensor(&s, 0)?, i64::from_value(s.must(5)?)?);
    let list = |i: usize| -> Result<Vec<i64>> {
        let l = Vec::<i64>::from_value(s.must(i)?)?;
        Ok(if l.len() == 1 { vec![l[0]; dims] } else { l })
    };
    let sizes = w.sizes();
    if sizes.len() != dims + 2 {
        return Err(Error::runtime(format!("Weights are expected to have {} dimensions", dims + 2)));
    }
    let shape = ConvShape {
        in_channels: sizes[1].saturating_mul(groups),
        out_channels: sizes[0],
        kernel_size: sizes[2..].to_vec(),
        stride: list(2)?,
        padding: list(3)?,
        dilation: list(4)?,
        groups,
        output_padding: vec![0; dims],
        transposed: false,
    };
    object(Conv::of(shape, w, s.get(1)?, (1.0, 0), false))
}
type Binary = fn(&Tensor, &Tensor, f::Rule) -> Result<Tensor>;
type WithNumber = fn(&Tensor, f64) -> Result<Tensor>;
/// Of two tensors and a rule, or of a tensor and a number.
fn binary(
    name: &'static str,
    two: Binary,
    number: Option<WithNumber>,
    relu: bool,
    a: &[Value],
    k: &Kwargs,
) -> Result<Vec<Value>> {
    let s = Slots::new(name, &["qa", "qb", "scale", "zero_point"], a, k)?;
    let cut = |y: Tensor| if relu { f::relu(&y) } else { Ok(y) };
    let y = match (s.must(0)?, s.must(1)?, number) {
        (Value::Tensor(x), Value::Tensor(y), _) if y.quantizer().is_some() => two(x, y, rule(&s, 2)?)?,
        (Value::Tensor(x), v, Some(g)) => g(x, float(v)?)?,
        (v, Value::Tensor(x), Some(g)) => g(x, float(v)?)?,
        (a, b, _) => {
            return Err(Error::type_(format!("{name} of {} and {}", a.type_name(), b.type_name())));
        }
    };
    one(cut(y)?)
}
fn add(a: &Tensor, b: &Tensor, rule: f::Rule) -> Result<Tensor> {
    f::add(a, b, rule, false)
}
fn cat(name: &'static str, relu: bool, a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new(name, &["qx", "dim", "scale", "zero_point"], a, k)?;
    let all = Vec::<Tensor>::from_value(s.must(0)?)?;
    let own = match all.first() {
        Some(t) => crate::tensor::affine(t)?,
        None => return Err(Error::runtime("quantized::cat expects a list of tensors")),
    };
    let scale = s.values[2].filter(|v| !matches!(v, Value::None)).map_or(Ok(own.0), float)?;
    let zero = s.values[3].filter(|v| !matches!(v, Value::None)).map_or(Ok(own.1), whole)?;
    let y = f::cat(&all, i64::from_value(s.must(1)?)?, (scale, zero))?;
    one(if relu { f::relu(&y)? } else { y })
}
fn layer_norm(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    const P: &[&str] =
        &["input", "normalized_shape", "weight", "bias", "eps", "output_scale", "output_zero_point"];
    let s = Slots::new("layer_norm", P, a, k)?;
    let shape = Vec::<i64>::from_value(s.must(1)?)?;
    let (w, b): (Option<Tensor>, Option<Tensor>) = (s.get(2)?, s.get(3)?);
    let eps = s.get(4)?.unwrap_or(1e-5);
    one(crate::kernels::through(&tensor(&s, 0)?, rule(&s, 5)?, |x| {
        nn::layer_norm(x, &shape, w.as_ref(), b.as_ref(), eps, false)
    })?)
}
fn instance_norm(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    const P: &[&str] = &["input", "weight", "bias", "eps", "output_scale", "output_zero_point"];
    let s = Slots::new("instance_norm", P, a, k)?;
    let (w, b): (Option<Tensor>, Option<Tensor>) = (s.get(1)?, s.get(2)?);
    let eps = s.get(3)?.unwrap_or(1e-5);
    one(crate::kernels::through(&tensor(&s, 0)?, rule(&s, 4)?, |x| {
        nn::instance_norm(x, None, None, w.as_ref(), b.as_ref(), true, 0.1, eps)
    })?)
}
fn elu(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("elu", &["self", "output_scale", "output_zero_point", "alpha"], a, k)?;
    let (r, alpha) = (rule(&s, 1)?, s.values[3].map_or(Ok(1.0), float)?);
    one(f::try_elu(&tensor(&s, 0)?, r.0, r.1, alpha)?)
}
fn leaky_relu(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    const P: &[&str] = &["qx", "negative_slope", "inplace", "output_scale", "output_zero_point"];
    let s = Slots::new("leaky_relu", P, a, k)?;
    let slope = s.values[1].map_or(Ok(0.01), float)?;
    one(f::try_leaky_relu(&tensor(&s, 0)?, slope, Some(rule(&s, 3)?))?)
}
const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("linear", |a, k| linear("linear", false, a, k)),
    ("linear_relu", |a, k| linear("linear_relu", true, a, k)),
    ("linear_dynamic", |a, k| linear_dynamic("linear_dynamic", false, a, k)),
    ("linear_relu_dynamic", |a, k| linear_dynamic("linear_relu_dynamic", true, a, k)),
    ("linear_dynamic_fp16", |a, k| linear_dynamic("linear_dynamic_fp16", false, a, k)),
    ("linear_relu_dynamic_fp16", |a, k| linear_dynamic("linear_relu_dynamic_fp16", true, a, k)),
    ("linear_prepack", |a, k| linear_prepack(a, k, false)),
    ("linear_prepack_fp16", |a, k| linear_prepack(a, k, true)),
    ("conv1d", |a, k| conv("conv1d", false, a, k)),
    ("conv2d", |a, k| conv("conv2d", false, a, k)),
    ("conv3d", |a, k| conv("conv3d", false, a, k)),
    ("conv1d_relu", |a, k| conv("conv1d_relu", true, a, k)),
    ("conv2d_relu", |a, k| conv("conv2d_relu", true, a, k)),
    ("conv3d_relu", |a, k| conv("conv3d_relu", true, a, k)),
    ("conv1d_dynamic", |a, k| conv_dynamic("conv1d_dynamic", a, k)),
    ("conv2d_dynamic", |a, k| conv_dynamic("conv2d_dynamic", a, k)),
    ("conv3d_dynamic", |a, k| conv_dynamic("conv3d_dynamic", a, k)),
    ("conv1d_prepack", |a, k| conv_prepack("conv1d_prepack", 1, a, k)),
    ("conv2d_prepack", |a, k| conv_prepack("conv2d_prepack", 2, a, k)),
    ("conv3d_prepack", |a, k| conv_prepack("conv3d_prepack", 3, a, k)),
    ("add", |a, k| binary("add", add, Some(f::add_scalar), false, a, k)),
    ("add_relu", |a, k| binary("add_relu", add, Some(f::add_scalar), true, a, k)),
    ("mul", |a, k| binary("mul", f::mul, Some(f::mul_scalar), false, a, k)),
    ("mul_relu", |a, k| binary("mul_relu", f::mul, Some(f::mul_scalar), true, a, k)),
    ("matmul", |a, k| binary("matmul", f::matmul, None, false, a, k)),
    ("cat", |a, k| cat("cat", false, a, k)),
    ("cat_relu", |a, k| cat("cat_relu", true, a, k)),
    ("relu6", |a, k| {
        let s = Slots::new("relu6", &["qx", "inplace"], a, k)?;
        let six = flambeau_core::Scalar::Float(6.0);
        one(nn::hardtanh_raw(&tensor(&s, 0)?, flambeau_core::Scalar::Float(0.0), six)?)
    }),
    ("hardswish", |a, k| {
        let s = Slots::new("hardswish", &["input", "output_scale", "output_zero_point"], a, k)?;
        let r = rule(&s, 1)?;
        one(f::try_hardswish(&tensor(&s, 0)?, r.0, r.1)?)
    }),
    ("elu", elu),
    ("leaky_relu", leaky_relu),
    ("celu", |a, k| {
        let s = Slots::new("celu", &["self", "output_scale", "output_zero_point", "alpha"], a, k)?;
        let (r, alpha) = (rule(&s, 1)?, s.values[3].map_or(Ok(1.0), float)?);
        one(f::try_celu(&tensor(&s, 0)?, r.0, r.1, alpha)?)
    }),
    ("layer_norm", layer_norm),
    ("instance_norm", instance_norm),
    ("dropout", |a, k| {
        const P: &[&str] = &["self", "output_scale", "output_zero_point", "p", "training"];
        let s = Slots::new("dropout", P, a, k)?;
        // what drops nothing gives its input, whatever the rule
        one(match s.get::<bool>(4)?.unwrap_or(false) {
            false => tensor(&s, 0)?,
            true => return Err(Error::runtime("Quantized dropout does not support training")),
        })
    }),
    ("sigmoid", |a, k| {
        let s = Slots::new("sigmoid", &["qx", "output_scale", "output_zero_point"], a, k)?;
        one(f::sigmoid(&tensor(&s, 0)?, rule(&s, 1)?)?)
    }),
    ("softmax", |a, k| {
        let s = Slots::new("softmax", &["qx", "dim", "output_scale", "output_zero_point"], a, k)?;
        one(f::softmax(&tensor(&s, 0)?, i64::from_value(s.must(1)?)?, rule(&s, 2)?)?)
    }),
    ("add_scalar", |a, k| binary("add_scalar", add, Some(f::add_scalar), false, a, k)),
    ("mul_scalar", |a, k| binary("mul_scalar", f::mul, Some(f::mul_scalar), false, a, k)),
    ("clamp", |a, k| {
        let s = Slots::new("clamp", &["qx", "min", "max"], a, k)?;
        let n = |i: usize| s.values[i].filter(|v| !matches!(v, Value::None)).map(float).transpose();
        let number = |v: Option<f64>| v.map(flambeau_core::Scalar::Float);
        one(ops::clamp(&tensor(&s, 0)?, number(n(1)?), number(n(2)?))?)
    }),
];
pub(super) fn register() {
    for (name, g) in FUNCTIONS {
        register_function(&format!("torch.ops.quantized.{name}"), *g);
    }
}
