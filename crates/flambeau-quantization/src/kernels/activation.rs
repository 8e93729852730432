//! Functions of single numbers. Those that only cut work on the integers, the others by way of the numbers.

use super::copies::one_integer;
use crate::ops::dequantize;
use crate::tensor::{affine, cast, mapped, number, rounded, uniform, whole, wrap};
use flambeau_core::generated::{arithmetic as a, unary as u};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key::QuantizedCpu;
use flambeau_core::{DType, Result, Scalar, Tensor, ops};
use flambeau_nn_functional::generated::activation as f;
use flambeau_nn_functional::ops as nn;

/// `f` of the numbers, by a rule.
pub(crate) fn through(
    t: &Tensor,
    rule: (f64, i64),
    f: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    by_rule(t, rule, f(&dequantize(t)?))
}
fn by_rule(t: &Tensor, (scale, zero): (f64, i64), y: Result<Tensor>) -> Result<Tensor> {
    wrap(&rounded(&y?, t.dtype(), scale, zero)?, t.dtype(), &uniform(scale, zero))
}
/// `f` of the numbers, by the tensor's own rule.
pub(crate) fn kept(t: &Tensor, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    through(t, affine(t)?, f)
}
/// `f` of the integers less what stands for zero, as numbers, and rounded again: means of windows, of which ties go to the even
/// integer, and mixtures of neighbours.
pub(crate) fn in_steps(t: &Tensor, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    of_steps(t, f(&steps_of(t)?))
}
fn steps_of(t: &Tensor) -> Result<Tensor> {
    let (_, zero) = affine(t)?;
    let integers = cast(&t.integers()?, DType::I64)?;
    cast(&ops::sub(&integers, &whole(zero)?, Scalar::Int(1))?, DType::F32)
}
fn of_steps(t: &Tensor, y: Result<Tensor>) -> Result<Tensor> {
    let y = rounded(&y?, t.dtype(), 1.0, affine(t)?.1)?;
    mapped(t, |_| Ok(y))
}
fn into(t: &Tensor, result: &Tensor) -> Result<()> {
    ops::copy_(&t.integers()?, &result.integers()?, false)
}
pub(crate) fn relu(t: &Tensor) -> Result<Tensor> {
    let (_, zero) = affine(t)?;
    let zero = cast(&whole(zero)?, t.dtype().integers().unwrap_or(DType::I32))?;
    mapped(t, |q| ops::maximum(q, &zero))
}
pub(crate) fn clamp(t: &Tensor, min: Option<f64>, max: Option<f64>) -> Result<Tensor> {
    let low = min.map(|v| one_integer(t, v)).transpose()?;
    let high = max.map(|v| one_integer(t, v)).transpose()?;
    mapped(t, |q| ops::clamp_tensor(q, low.as_ref(), high.as_ref()))
}
/// The rule of results between 0 and 1.
fn of_0_to_1(d: DType) -> (f64, i64) {
    match d {
        DType::QI32 => (2.3283064365386963e-10, 0),
        DType::QI8 => (0.00390625, -128),
        _ => (0.00390625, 0),
    }
}
/// The rule of results between -1 and 1.
fn of_minus_1_to_1(d: DType) -> (f64, i64) {
    match d {
        DType::QI32 => (4.656612873077393e-10, 0),
        DType::QI8 => (0.0078125, 0),
        _ => (0.0078125, 128),
    }
}
pub(crate) fn sigmoid(t: &Tensor) -> Result<Tensor> {
    affine(t)?;
    through(t, of_0_to_1(t.dtype()), ops::sigmoid)
}
pub(crate) fn tanh(t: &Tensor) -> Result<Tensor> {
    affine(t)?;
    through(t, of_minus_1_to_1(t.dtype()), ops::tanh)
}
pub(crate) fn hardsigmoid(t: &Tensor) -> Result<Tensor> {
    affine(t)?;
    through(t, of_0_to_1(t.dtype()), nn::hardsigmoid_raw)
}
pub(crate) fn leaky_relu(t: &Tensor, slope: f64) -> Result<Tensor> {
    kept(t, |x| nn::leaky_relu_raw(x, Scalar::Float(slope)))
}
pub(crate) fn threshold(t: &Tensor, threshold: f64, value: f64) -> Result<Tensor> {
    kept(t, |x| ops::where_(&ops::gt(x, &number(threshold)?)?, x, &cast(&number(value)?, DType::F32)?))
}
fn gelu(t: &Tensor) -> Result<Tensor> {
    let (scale, zero) = affine(t)?;
    through(t, (f64::from(scale as f32), zero), nn::gelu_erf)
}
fn n(v: Option<Scalar>) -> Option<f64> {
    v.map(|s| s.to_f64())
}

pub(super) fn fill() {
    u::RELU.register(QuantizedCpu, relu);
    u::RELU_.register(QuantizedCpu, |t| into(t, &relu(t)?));
    u::SIGMOID.register(QuantizedCpu, sigmoid);
    u::TANH.register(QuantizedCpu, tanh);
    a::CLAMP.register(QuantizedCpu, |t, a, b| clamp(t, n(a), n(b)));
    a::CLAMP_.register(QuantizedCpu, |t, a, b| into(t, &clamp(t, n(a), n(b))?));
    f::HARDTANH_RAW.register(QuantizedCpu, |t, a, b| clamp(t, Some(a.to_f64()), Some(b.to_f64())));
    f::HARDTANH_RAW_
        .register(QuantizedCpu, |t, a, b| into(t, &clamp(t, Some(a.to_f64()), Some(b.to_f64()))?));
    f::LEAKY_RELU_RAW.register(QuantizedCpu, |t, s| leaky_relu(t, s.to_f64()));
    f::LEAKY_RELU_RAW_.register(QuantizedCpu, |t, s| into(t, &leaky_relu(t, s.to_f64())?));
    f::HARDSIGMOID_RAW.register(QuantizedCpu, hardsigmoid);
    f::THRESHOLD_RAW.register(QuantizedCpu, |t, a, b| threshold(t, a.to_f64(), b.to_f64()));
    f::GELU_ERF.register(QuantizedCpu, gelu);
}
