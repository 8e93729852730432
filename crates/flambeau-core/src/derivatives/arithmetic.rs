//! Elementwise operators.

use crate::derivatives::shorthand::{
    add, conj, div, eq, masked, masked_not, mul, mul_scalar, neg, number, real, sub_scalar, where_,
    zeros_like,
};
use crate::{Result, Scalar, Tensor, ops};

/// The part of `where`'s gradient that goes to the branch taken where the condition is `on`.
pub fn where_grad(grad: &Tensor, condition: &Tensor, on: bool) -> Result<Tensor> {
    if on { masked(condition, grad) } else { masked_not(condition, grad) }
}

/// `grad` times the conjugate of a slope: the derivative of a function with that complex derivative.
pub fn chain(grad: &Tensor, slope: Result<Tensor>) -> Result<Tensor> {
    mul(grad, &conj(&slope?)?)
}
fn zero() -> Result<Tensor> {
    number(0)
}

/// `div.Tensor_mode` for the dividend: rounded quotients are flat.
pub fn div_mode_self(grad: &Tensor, other: &Tensor, mode: Option<&str>) -> Result<Tensor> {
    if mode.is_some() { zeros_like(grad) } else { div(grad, &conj(other)?) }
}
/// `div.Tensor_mode` for the divisor.
pub fn div_mode_other(grad: &Tensor, x: &Tensor, other: &Tensor, mode: Option<&str>) -> Result<Tensor> {
    if mode.is_some() {
        return zeros_like(grad);
    }
    neg(&chain(grad, div(&div(x, other)?, other))?)
}

/// `pow` for the base: 0 where the exponent is 0, even at base 0.
pub fn pow_self(grad: &Tensor, x: &Tensor, exponent: &Tensor) -> Result<Tensor> {
    if exponent.is_wrapped_number() {
        let e: Scalar = exponent.try_item()?;
        if e.equals(0.0) {
            return zeros_like(grad);
        }
        let less = match e {
            Scalar::Int(i) => Scalar::Int(i.wrapping_sub(1)),
            Scalar::Float(f) => Scalar::Float(f - 1.0),
            other => Scalar::Complex(other.to_complex() - 1.0),
        };
        return chain(grad, mul_scalar(&ops::pow(x, &number(less)?)?, e));
    }
    let slope = mul(exponent, &ops::pow(x, &sub_scalar(exponent, 1)?)?)?;
    masked_not(&ops::eq(exponent, &zero()?)?, &chain(grad, Ok(slope))?)
}
/// `pow` for the exponent: 0 at base 0 where the power is finite.
pub fn pow_exponent(grad: &Tensor, x: &Tensor, exponent: &Tensor, result: &Tensor) -> Result<Tensor> {
    let real_exponent = real(exponent)?;
    let flat = ops::logical_and(&ops::eq(x, &zero()?)?, &ops::ge(&real_exponent, &zero()?)?)?;
    // the logarithm of a number is a number: an operator would give it in the default dtype, and lose digits of float64
    let log = match x.is_wrapped_number() {
        true => number(match x.try_item()? {
            Scalar::Complex(base) => Scalar::Complex(base.ln()),
            base => Scalar::Float(base.to_f64().ln()),
        })?,
        false => ops::log(x)?,
    };
    masked_not(&flat, &chain(grad, mul(result, &log))?)
}

/// `maximum` and `minimum` for one operand: half where both are equal.
fn extreme(grad: &Tensor, a: &Tensor, b: &Tensor, larger: bool) -> Result<Tensor> {
    let half = where_(&eq(a, b)?, &mul_scalar(grad, 0.5)?, grad)?;
    let lost = if larger { ops::lt(a, b)? } else { ops::gt(a, b)? };
    masked_not(&lost, &half)
}
/// `maximum` and `minimum` for the first operand.
pub fn extreme_self(grad: &Tensor, a: &Tensor, b: &Tensor, larger: bool) -> Result<Tensor> {
    extreme(grad, a, b, larger)
}
/// `maximum` and `minimum` for the second operand.
pub fn extreme_other(grad: &Tensor, a: &Tensor, b: &Tensor, larger: bool) -> Result<Tensor> {
    extreme(grad, b, a, larger)
}
/// `fmax` and `fmin`: to the operand that was taken, half where both are equal.
pub fn fextreme(grad: &Tensor, a: &Tensor, b: &Tensor, larger: bool, second: bool) -> Result<Tensor> {
    let wins = if larger { ops::gt(a, b)? } else { ops::lt(a, b)? };
    let first = ops::logical_or(&wins, &ops::isnan(b)?)?;
    let g = if second { masked_not(&first, grad)? } else { masked(&first, grad)? };
    where_(&eq(a, b)?, &mul_scalar(grad, 0.5)?, &g)
}

/// `clamp` by numbers: nothing at the bounds and beyond.
pub fn clamp_self(grad: &Tensor, x: &Tensor, min: Option<Scalar>, max: Option<Scalar>) -> Result<Tensor> {
    let mut g = grad.clone();
    if let Some(lo) = min {
        g = masked(&ops::gt(x, &number(lo)?)?, &g)?;
    }
    if let Some(hi) = max {
        g = masked(&ops::lt(x, &number(hi)?)?, &g)?;
    }
    Ok(g)
}
/// Half of `grad` where both are equal and the bounds leave a range.
fn shared(grad: &Tensor, a: &Tensor, b: &Tensor, range: Option<&Tensor>, other: &Tensor) -> Result<Tensor> {
    let mut tie = eq(a, b)?;
    if let Some(r) = range {
        tie = ops::logical_and(&tie, r)?;
    }
    where_(&tie, &mul_scalar(grad, 0.5)?, other)
}
/// Where the lower bound is below the upper one.
fn range(min: Option<&Tensor>, max: Option<&Tensor>) -> Result<Option<Tensor>> {
    min.zip(max).map(|(lo, hi)| ops::lt(lo, hi)).transpose()
}
/// `clamp` by tensors, for the input: half at a bound.
pub fn clamp_tensor_self(
    grad: &Tensor,
    x: &Tensor,
    min: Option<&Tensor>,
    max: Option<&Tensor>,
) -> Result<Tensor> {
    let range = range(min, max)?;
    let mut g = grad.clone();
    if let Some(lo) = min {
        g = masked_not(&ops::lt(x, lo)?, &shared(&g, x, lo, range.as_ref(), &g)?)?;
    }
    if let Some(hi) = max {
        g = masked_not(&ops::gt(x, hi)?, &shared(&g, x, hi, range.as_ref(), &g)?)?;
    }
    Ok(g)
}
/// `clamp` by tensors, for the lower bound.
pub fn clamp_tensor_min(
    grad: &Tensor,
    x: &Tensor,
    min: Option<&Tensor>,
    max: Option<&Tensor>,
) -> Result<Tensor> {
    let Some(lo) = min else { return zeros_like(grad) };
    let mut taken = ops::lt(x, lo)?;
    if let Some(hi) = max {
        taken = ops::logical_and(&taken, &ops::le(lo, hi)?)?;
    }
    shared(grad, x, lo, range(min, max)?.as_ref(), &masked(&taken, grad)?)
}
/// `clamp` by tensors, for the upper bound, which wins over a larger lower one.
pub fn clamp_tensor_max(
    grad: &Tensor,
    x: &Tensor,
    min: Option<&Tensor>,
    max: Option<&Tensor>,
) -> Result<Tensor> {
    let Some(hi) = max else { return zeros_like(grad) };
    let mut taken = ops::gt(x, hi)?;
    if let Some(lo) = min {
        taken = ops::logical_or(&taken, &ops::lt(hi, lo)?)?;
    }
    shared(grad, x, hi, range(min, max)?.as_ref(), &masked(&taken, grad)?)
}
/// `nextafter` for the first operand: 1 but where both are equal.
pub fn nextafter_self(grad: &Tensor, x: &Tensor, other: &Tensor) -> Result<Tensor> {
    masked_not(&eq(x, other)?, grad)
}

/// `lerp` by a number, for the start.
pub fn lerp_self(grad: &Tensor, weight: Scalar) -> Result<Tensor> {
    let rest = match weight {
        Scalar::Complex(w) => Scalar::Complex((num_complex::Complex::new(1.0, 0.0) - w).conj()),
        w => Scalar::Float(1.0 - w.to_f64()),
    };
    mul_scalar(grad, rest)
}

/// `atan2`: 0 at the origin.
pub fn atan2_backward(grad: &Tensor, y: &Tensor, x: &Tensor, for_y: bool) -> Result<Tensor> {
    let square = add(&mul(y, y)?, &mul(x, x)?)?;
    let scaled = masked_not(&eq(&square, &zero()?)?, &div(grad, &square)?)?;
    if for_y { mul(&scaled, x) } else { neg(&mul(&scaled, y)?) }
}
/// `copysign` for the magnitude: 0 at 0.
pub fn copysign_self(grad: &Tensor, x: &Tensor, result: &Tensor) -> Result<Tensor> {
    let ratio = masked_not(&eq(x, &zero()?)?, &div(result, x)?)?;
    mul(grad, &ratio)
}
/// `xlogy` for the factor.
pub fn xlogy_self(grad: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let flat = ops::logical_and(&eq(x, &zero()?)?, &ops::le(y, &zero()?)?)?;
    mul(grad, &masked_not(&flat, &ops::log(y)?)?)
}
