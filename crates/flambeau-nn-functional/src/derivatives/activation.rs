//! Activations: derivatives of their gradient operators, by operators that differentiate again.

use crate::ops;
use flambeau_autograd::no_grad;
use flambeau_autograd::shorthand::{
    add, add_scalar, div, eq, exp, masked, masked_not, mul, mul_scalar, neg, number, scalar_sub, sub, where_,
};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Result, Scalar, Tensor, ops as core};

use core::{sigmoid, tanh};

fn times(grad: &Tensor, upstream: &Tensor, second: &Tensor) -> Result<Tensor> {
    mul(&mul(grad, upstream)?, second)
}

/// Below 0: `alpha * scale * input_scale^2 * exp(input_scale x)`.
pub fn elu_second(
    grad: &Tensor,
    upstream: &Tensor,
    x: &Tensor,
    alpha: Scalar,
    scale: Scalar,
    input_scale: Scalar,
) -> Result<Tensor> {
    let (a, s, i) = (alpha.to_f64(), scale.to_f64(), input_scale.to_f64());
    let below = below_zero(x)?;
    let e = exp(&mul_scalar(&masked(&below, x)?, i)?)?;
    times(grad, upstream, &masked(&below, &mul_scalar(&e, a * s * i * i)?)?)
}
/// Where `x <= 0`.
pub fn below_zero(x: &Tensor) -> Result<Tensor> {
    core::eq(&crate::ops::threshold_raw(&x.alias_detached(), Scalar::Int(0), Scalar::Int(0))?, &number(0)?)
}
/// `pdf(x) (2 - x^2)`.
pub fn gelu_second(grad: &Tensor, upstream: &Tensor, x: &Tensor) -> Result<Tensor> {
    let square = mul(x, x)?;
    let pdf = mul_scalar(&exp(&mul_scalar(&square, -0.5)?)?, 0.3989422804014327)?;
    times(grad, upstream, &mul(&pdf, &scalar_sub(2, &square)?)?)
}
/// Of the approximation by a tanh: with `u = k (x + c x^3)`, `t = tanh u`, `s = 1 - t^2`:
/// `s u' + x (s u'' / 2 - t s u'^2)`.
pub fn gelu_tanh_second(grad: &Tensor, upstream: &Tensor, x: &Tensor) -> Result<Tensor> {
    const K: f64 = 0.7978845608028654;
    const C: f64 = 0.044715;
    let square = mul(x, x)?;
    let u = mul(&mul_scalar(x, K)?, &add_scalar(&mul_scalar(&square, C)?, 1)?)?;
    let t = tanh(&u)?;
    let s = scalar_sub(1, &mul(&t, &t)?)?;
    let d1 = mul_scalar(&add_scalar(&mul_scalar(&square, 3.0 * C)?, 1)?, K)?;
    let d2 = mul_scalar(x, 6.0 * C * K)?;
    let inner = sub(&mul_scalar(&mul(&s, &d2)?, 0.5)?, &mul(&mul(&t, &s)?, &mul(&d1, &d1)?)?)?;
    times(grad, upstream, &add(&mul(&s, &d1)?, &mul(x, &inner)?)?)
}
/// With `s = sigmoid x`: `s (1 - s) (2 + x (1 - 2 s))`.
pub fn silu_second(grad: &Tensor, upstream: &Tensor, x: &Tensor) -> Result<Tensor> {
    let s = sigmoid(x)?;
    let slope = mul(&s, &scalar_sub(1, &s)?)?;
    let inner = add_scalar(&mul(x, &scalar_sub(1, &mul_scalar(&s, 2)?)?)?, 2)?;
    times(grad, upstream, &mul(&slope, &inner)?)
}
/// With `s = sigmoid x`, `t = tanh(softplus x)`, `q = 1 - t^2`: `q s (2 + x (1 - s) - 2 x s t)`.
pub fn mish_second(grad: &Tensor, upstream: &Tensor, x: &Tensor) -> Result<Tensor> {
    let s = sigmoid(x)?;
    let t = tanh(&ops::softplus(x, Scalar::Int(1), Scalar::Int(20))?)?;
    let q = scalar_sub(1, &mul(&t, &t)?)?;
    let a = mul(x, &scalar_sub(1, &s)?)?;
    let b = mul_scalar(&mul(&mul(x, &s)?, &t)?, 2)?;
    let inner = add_scalar(&sub(&a, &b)?, 2)?;
    times(grad, upstream, &mul(&mul(&q, &s)?, &inner)?)
}
/// 1/3 within -3..3, else 0.
pub fn hardswish_second(grad: &Tensor, upstream: &Tensor, x: &Tensor) -> Result<Tensor> {
    let x = x.alias_detached();
    let one = core::ones_like(&x, None, None, None, None, None)?;
    let inside = crate::ops::hardtanh_backward(&one, &x, Scalar::Int(-3), Scalar::Int(3))?;
    times(grad, upstream, &mul_scalar(&inside, 1.0 / 3.0)?)
}
/// `-sigmoid(x) (1 - sigmoid(x))`.
pub fn log_sigmoid_second(grad: &Tensor, upstream: &Tensor, x: &Tensor) -> Result<Tensor> {
    let s = sigmoid(x)?;
    let slope = mul(&s, &scalar_sub(1, &s)?)?;
    neg(&times(grad, upstream, &slope)?)
}

/// `celu` is an elu with its scales.
pub fn celu_grad(grad: &Tensor, x: &Tensor, alpha: Scalar) -> Result<Tensor> {
    crate::ops::elu_backward(grad, x, alpha, Scalar::Int(1), Scalar::Float(1.0 / alpha.to_f64()))
}
/// `selu` likewise.
pub fn selu_grad(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    use crate::ops::activation::{SELU_ALPHA, SELU_SCALE};
    crate::ops::elu_backward(grad, x, SELU_ALPHA.into(), SELU_SCALE.into(), Scalar::Int(1))
}

/// `softplus`: sigmoid(beta x), and 1 where the function returns its argument, above the threshold at the latest. The
/// exponential is not taken there, so nothing overflows, and the formula differentiates again.
pub fn softplus_backward(grad: &Tensor, x: &Tensor, beta: Scalar, threshold: Scalar) -> Result<Tensor> {
    let bx = mul_scalar(x, beta)?;
    let linear = no_grad(|| eq(&ops::softplus(x, beta, threshold)?, x))?;
    let z = exp(&masked_not(&linear, &bx)?)?;
    let sigmoid = div(&z, &add_scalar(&z, 1)?)?;
    let slope = where_(&linear, &number(1)?, &sigmoid)?;
    mul(grad, &slope)
}
