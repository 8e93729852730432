//! Special functions.

use crate::derivatives::shorthand::{
    add, add_scalar, div, eq, masked, masked_not, mul, mul_scalar, neg, number, scalar_sub, sub, where_,
};
use crate::{Result, Tensor, ops};

/// The normal density at 0.
pub const NORMAL_DENSITY: f64 = 0.398_942_280_401_432_7;
/// Below this the derivatives of `i1` and `i1e` are those at 0.
const TINY: f64 = 2.220_446_049_250_313e-16;

fn near_zero(x: &Tensor) -> Result<Tensor> {
    ops::le(&ops::abs(x)?, &number(TINY)?)
}
/// `x`, and 1 where it is next to 0: a divisor that does not make NaNs in the branch not taken.
fn safe(x: &Tensor, tiny: &Tensor) -> Result<Tensor> {
    where_(tiny, &number(1)?, x)
}
/// `i1`: `i0(x) - i1(x) / x`.
pub fn i1_backward(grad: &Tensor, x: &Tensor, result: &Tensor) -> Result<Tensor> {
    let tiny = near_zero(x)?;
    let slope = sub(&ops::i0(x)?, &div(result, &safe(x, &tiny)?)?)?;
    mul(grad, &where_(&tiny, &number(0.5)?, &slope)?)
}
/// `i1e`: `i0e(x) - i1e(x) (sgn(x) + 1 / x)`.
pub fn i1e_backward(grad: &Tensor, x: &Tensor, result: &Tensor) -> Result<Tensor> {
    let tiny = near_zero(x)?;
    let factor = crate::derivatives::shorthand::add(&ops::sgn(x)?, &ops::reciprocal(&safe(x, &tiny)?)?)?;
    let slope = sub(&ops::special_i0e(x)?, &mul(result, &factor)?)?;
    mul(grad, &where_(&tiny, &number(0.5)?, &slope)?)
}
/// `logit`: 0 outside the range that `eps` leaves, NaN outside (0, 1) without one.
pub fn logit_backward(grad: &Tensor, x: &Tensor, eps: Option<f64>) -> Result<Tensor> {
    let g = div(grad, &mul(x, &scalar_sub(1, x)?)?)?;
    let (lo, hi) = eps.map_or((0.0, 1.0), |e| (e, 1.0 - e));
    let outside = ops::logical_or(&ops::lt(x, &number(lo)?)?, &ops::gt(x, &number(hi)?)?)?;
    match eps {
        Some(_) => {
            // NaN is in no range
            let inside = ops::logical_and(&ops::ge(x, &number(lo)?)?, &ops::le(x, &number(hi)?)?)?;
            masked(&inside, &g)
        }
        None => where_(&outside, &number(f64::NAN)?, &g),
    }
}
/// `entr`: `-log(x) - 1`.
pub fn entr_backward(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    mul(grad, &neg(&add_scalar(&ops::log(x)?, 1)?)?)
}
/// `log_ndtr`: the density over the distribution, as PyTorch computes it; far below 0 the sum cancels, and at -inf it is
/// NaN.
pub fn log_ndtr_backward(grad: &Tensor, x: &Tensor, result: &Tensor) -> Result<Tensor> {
    let power = add(result, &mul_scalar(&mul(x, x)?, 0.5)?)?;
    mul_scalar(&mul(grad, &ops::exp(&neg(&power)?)?)?, NORMAL_DENSITY)
}
/// `xlog1py` for the factor.
pub fn xlog1py_self(grad: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let flat = ops::logical_and(&eq(x, &number(0)?)?, &ops::le(y, &number(-1)?)?)?;
    mul(grad, &masked_not(&flat, &ops::log1p(y)?)?)
}
/// `igamma` for the second argument: the density of the gamma distribution.
pub fn igamma_backward(grad: &Tensor, a: &Tensor, x: &Tensor) -> Result<Tensor> {
    let log = sub(&sub(&mul(&add_scalar(a, -1)?, &ops::log(x)?)?, x)?, &ops::lgamma(a)?)?;
    mul(grad, &ops::exp(&log)?)
}
/// Bessel functions of order 1 whose derivative is `lower - result / x`, with the given slope at 0.
pub fn order_one(grad: &Tensor, x: &Tensor, lower: &Tensor, result: &Tensor, at_zero: f64) -> Result<Tensor> {
    let zero = eq(x, &number(0)?)?;
    let slope = sub(lower, &div(result, &safe(x, &zero)?)?)?;
    mul(grad, &where_(&zero, &number(at_zero)?, &slope)?)
}
