//! Functions of one operand.

pub use crate::derivatives::arithmetic::chain;
use crate::derivatives::shorthand::{
    add, add_scalar, conj, div, eq, masked_not, mul, mul_scalar, number, ones_like, real, sub, zeros_like,
};
use crate::{Result, Scalar, Tensor, ops};
use num_complex::Complex;

fn is_zero(x: &Tensor) -> Result<Tensor> {
    eq(x, &number(0)?)
}
fn imaginary(im: f64) -> Scalar {
    Scalar::Complex(Complex::new(0.0, im))
}

/// `sgn`: flat for real numbers; for complex ones what changes the angle alone.
pub fn sgn_backward(grad: &Tensor, x: &Tensor, sgn: &Tensor) -> Result<Tensor> {
    if !x.dtype().is_complex() {
        return zeros_like(grad);
    }
    let abs = ops::abs(x)?;
    let along = mul(&real(&div(grad, sgn)?)?, sgn)?;
    masked_not(&is_zero(&abs)?, &div(&sub(grad, &along)?, &abs)?)
}
/// The tangent of `sgn`: what changes the angle is its own transpose.
pub fn sgn_jvp(tangent: &Tensor, x: &Tensor, sgn: &Tensor) -> Result<Tensor> {
    sgn_backward(tangent, x, sgn)
}
/// `acosh`; the two roots apart, so that complex branches are right.
pub fn acosh_backward(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_complex() {
        let roots = mul(&ops::rsqrt(&add_scalar(x, 1)?)?, &ops::rsqrt(&add_scalar(x, -1)?)?)?;
        return chain(grad, Ok(roots));
    }
    chain(grad, ops::rsqrt(&add_scalar(&ops::square(x)?, -1)?))
}
/// `angle`: flat for real numbers.
pub fn angle_backward(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    if !x.dtype().is_complex() {
        return zeros_like(grad);
    }
    let abs = ops::abs(x)?;
    let turned = mul_scalar(&div(x, &ops::square(&abs)?)?, imaginary(1.0))?;
    masked_not(&is_zero(x)?, &mul(grad, &turned)?)
}
/// `polar` for the angle.
pub fn polar_angle_backward(grad: &Tensor, result: &Tensor) -> Result<Tensor> {
    real(&mul(&conj(grad)?, &mul_scalar(result, imaginary(1.0))?)?)
}
/// The tangent of `polar`.
pub fn polar_jvp(abs_t: &Tensor, angle_t: &Tensor, angle: &Tensor, result: &Tensor) -> Result<Tensor> {
    let turned = mul(&mul_scalar(result, imaginary(1.0))?, angle_t)?;
    add(&mul(abs_t, &ops::polar(&ones_like(angle)?, angle)?)?, &turned)
}
/// `sinc`: 0 at 0.
pub fn sinc_backward(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    let pi = std::f64::consts::PI;
    let px = mul_scalar(x, pi)?;
    let below = mul_scalar(&ops::square(x)?, pi)?;
    let slope = div(&sub(&mul(&px, &ops::cos(&px)?)?, &ops::sin(&px)?)?, &below)?;
    masked_not(&is_zero(&below)?, &chain(grad, Ok(slope))?)
}
/// Real part of a gradient.
pub fn real_part(grad: &Tensor) -> Result<Tensor> {
    real(grad)
}
/// Imaginary part of a gradient, 0 of a real one.
pub fn imag_part(grad: &Tensor) -> Result<Tensor> {
    if grad.dtype().is_complex() { ops::imag(grad) } else { zeros_like(grad) }
}
