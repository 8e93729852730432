//! f32 functions.

use super::rare;
use crate::isa::Isa;

#[inline(always)]
pub fn abs<I: Isa>(x: f32) -> f32 {
    x.abs()
}
#[inline(always)]
pub fn copysign<I: Isa>(x: f32, y: f32) -> f32 {
    x.copysign(y)
}
#[inline(always)]
pub fn floor<I: Isa>(x: f32) -> f32 {
    x.floor()
}
#[inline(always)]
pub fn ceil<I: Isa>(x: f32) -> f32 {
    x.ceil()
}
#[inline(always)]
pub fn trunc<I: Isa>(x: f32) -> f32 {
    x.trunc()
}
#[inline(always)]
pub fn round_even<I: Isa>(x: f32) -> f32 {
    x.round_ties_even()
}
#[inline(always)]
pub fn sqrt<I: Isa>(x: f32) -> f32 {
    x.sqrt()
}
#[inline(always)]
pub fn fmod<I: Isa>(x: f32, y: f32) -> f32 {
    x % y
}
#[inline(always)]
pub fn nextafter<I: Isa>(x: f32, y: f32) -> f32 {
    libm::nextafterf(x, y)
}
#[inline(always)]
pub fn exp<I: Isa>(x: f32) -> f32 {
    x.exp()
}
#[inline(always)]
pub fn exp2<I: Isa>(x: f32) -> f32 {
    x.exp2()
}
#[inline(always)]
pub fn expm1<I: Isa>(x: f32) -> f32 {
    x.exp_m1()
}
#[inline(always)]
pub fn ln<I: Isa>(x: f32) -> f32 {
    x.ln()
}
#[inline(always)]
pub fn log2<I: Isa>(x: f32) -> f32 {
    x.log2()
}
#[inline(always)]
pub fn log10<I: Isa>(x: f32) -> f32 {
    x.log10()
}
#[inline(always)]
pub fn log1p<I: Isa>(x: f32) -> f32 {
    x.ln_1p()
}
#[inline(always)]
pub fn sin<I: Isa>(x: f32) -> f32 {
    x.sin()
}
#[inline(always)]
pub fn cos<I: Isa>(x: f32) -> f32 {
    x.cos()
}
#[inline(always)]
pub fn tan<I: Isa>(x: f32) -> f32 {
    x.tan()
}
#[inline(always)]
pub fn asin<I: Isa>(x: f32) -> f32 {
    x.asin()
}
#[inline(always)]
pub fn acos<I: Isa>(x: f32) -> f32 {
    x.acos()
}
#[inline(always)]
pub fn atan<I: Isa>(x: f32) -> f32 {
    x.atan()
}
#[inline(always)]
pub fn sinh<I: Isa>(x: f32) -> f32 {
    x.sinh()
}
#[inline(always)]
pub fn cosh<I: Isa>(x: f32) -> f32 {
    x.cosh()
}
#[inline(always)]
pub fn tanh<I: Isa>(x: f32) -> f32 {
    x.tanh()
}
#[inline(always)]
pub fn asinh<I: Isa>(x: f32) -> f32 {
    libm::asinhf(x)
}
#[inline(always)]
pub fn acosh<I: Isa>(x: f32) -> f32 {
    libm::acoshf(x)
}
#[inline(always)]
pub fn atanh<I: Isa>(x: f32) -> f32 {
    libm::atanhf(x)
}
#[inline(always)]
pub fn atan2<I: Isa>(x: f32, y: f32) -> f32 {
    x.atan2(y)
}
#[inline(always)]
pub fn erf<I: Isa>(x: f32) -> f32 {
    libm::erff(x)
}
#[inline(always)]
pub fn erfc<I: Isa>(x: f32) -> f32 {
    libm::erfcf(x)
}
#[inline(always)]
pub fn erfinv<I: Isa>(x: f32) -> f32 {
    rare::erfinv(x as f64) as f32
}
#[inline(always)]
pub fn lgamma<I: Isa>(x: f32) -> f32 {
    libm::lgamma(x as f64) as f32
}
#[inline(always)]
pub fn digamma<I: Isa>(x: f32) -> f32 {
    rare::digamma(x as f64) as f32
}
#[inline(always)]
pub fn sigmoid<I: Isa>(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}
#[inline(always)]
pub fn pow<I: Isa>(x: f32, y: f32) -> f32 {
    x.powf(y)
}
#[inline(always)]
pub fn hypot<I: Isa>(x: f32, y: f32) -> f32 {
    x.hypot(y)
}
#[inline(always)]
pub fn i0<I: Isa>(x: f32) -> f32 {
    rare::i0(x as f64) as f32
}
