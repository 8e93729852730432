//! Elementwise operators.

use crate::formula::{add_scalar, div, eq, exp, masked, masked_not, mul, mul_scalar, number, where_};
use crate::grad_mode::no_grad;
use flambeau_core::{Result, Scalar, Tensor, ops};

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

/// The part of `where`'s gradient that goes to the branch taken where the condition is `on`.
pub fn where_grad(grad: &Tensor, condition: &Tensor, on: bool) -> Result<Tensor> {
    if on { masked(condition, grad) } else { masked_not(condition, grad) }
}
