//! Softmax and log-softmax.

use super::reduction::dot_along;
pub use crate::derivatives::shorthand::to_dtype;
use crate::derivatives::shorthand::{exp, mul, neg, sub, sum_dims};
use crate::{DType, Result, Tensor, ops};

/// Gradient of softmax from its output `y`: `y (g - sum(g y))`, fused.
pub fn softmax_backward_data(grad: &Tensor, output: &Tensor, dim: i64, input_dtype: DType) -> Result<Tensor> {
    ops::softmax_backward_data(grad, output, dim, input_dtype)
}
/// Gradient of log-softmax from its output `y`: `g - exp(y) sum(g)`, fused.
pub fn log_softmax_backward_data(
    grad: &Tensor,
    output: &Tensor,
    dim: i64,
    input_dtype: DType,
) -> Result<Tensor> {
    ops::log_softmax_backward_data(grad, output, dim, input_dtype)
}
/// Tangent of softmax.
pub fn softmax_jvp(tangent: &Tensor, y: &Tensor, dim: i64) -> Result<Tensor> {
    mul(y, &sub(tangent, &dot_along(y, tangent, dim)?)?)
}
/// Tangent of log-softmax.
pub fn log_softmax_jvp(tangent: &Tensor, y: &Tensor, dim: i64) -> Result<Tensor> {
    sub(tangent, &dot_along(&exp(y)?, tangent, dim)?)
}
/// The gradient of `y (g - sum(g y))` for `y`.
pub fn softmax_double_backward(gg: &Tensor, grad_output: &Tensor, y: &Tensor, dim: i64) -> Result<Tensor> {
    // d/dy of <gg, y g - y sum(g y)> = gg g - gg sum(g y) - g sum(gg y)
    let a = sub(&mul(gg, grad_output)?, &mul(gg, &dot_along(grad_output, y, dim)?)?)?;
    sub(&a, &mul(grad_output, &dot_along(gg, y, dim)?)?)
}
/// The gradient of `g - exp(y) sum(g)` for `y`.
pub fn log_softmax_double_backward(
    gg: &Tensor,
    grad_output: &Tensor,
    y: &Tensor,
    dim: i64,
) -> Result<Tensor> {
    let s = sum_dims(grad_output, &[dim], true)?;
    neg(&mul(&mul(gg, &exp(y)?)?, &s)?)
}
/// `_safe_softmax`: of softmax from its output, in the input's dtype.
pub fn safe_softmax_backward(grad: &Tensor, y: &Tensor, dim: i64, dtype: DType) -> Result<Tensor> {
    to_dtype(&ops::softmax_backward_data(grad, y, dim, y.dtype())?, dtype)
}
