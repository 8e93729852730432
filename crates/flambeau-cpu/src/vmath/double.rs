//! f64 functions.

use super::rare;
use crate::isa::Isa;

#[inline(always)]
pub fn abs<I: Isa>(x: f64) -> f64 {
    x.abs()
}
#[inline(always)]
pub fn copysign<I: Isa>(x: f64, y: f64) -> f64 {
    x.copysign(y)
}
#[inline(always)]
pub fn floor<I: Isa>(x: f64) -> f64 {
    x.floor()
}
#[inline(always)]
pub fn ceil<I: Isa>(x: f64) -> f64 {
    x.ceil()
}
#[inline(always)]
pub fn trunc<I: Isa>(x: f64) -> f64 {
    x.trunc()
}
#[inline(always)]
pub fn round_even<I: Isa>(x: f64) -> f64 {
    x.round_ties_even()
}
#[inline(always)]
pub fn sqrt<I: Isa>(x: f64) -> f64 {
    x.sqrt()
}
#[inline(always)]
pub fn fmod<I: Isa>(x: f64, y: f64) -> f64 {
    x % y
}
#[inline(always)]
pub fn nextafter<I: Isa>(x: f64, y: f64) -> f64 {
    libm::nextafter(x, y)
}
#[inline(always)]
pub fn exp<I: Isa>(x: f64) -> f64 {
    x.exp()
}
#[inline(always)]
pub fn exp2<I: Isa>(x: f64) -> f64 {
    x.exp2()
}
#[inline(always)]
pub fn expm1<I: Isa>(x: f64) -> f64 {
    x.exp_m1()
}
#[inline(always)]
pub fn ln<I: Isa>(x: f64) -> f64 {
    x.ln()
}
#[inline(always)]
pub fn log2<I: Isa>(x: f64) -> f64 {
    x.log2()
}
#[inline(always)]
pub fn log10<I: Isa>(x: f64) -> f64 {
    x.log10()
}
#[inline(always)]
pub fn log1p<I: Isa>(x: f64) -> f64 {
    x.ln_1p()
}
#[inline(always)]
pub fn sin<I: Isa>(x: f64) -> f64 {
    x.sin()
}
#[inline(always)]
pub fn cos<I: Isa>(x: f64) -> f64 {
    x.cos()
}
#[inline(always)]
pub fn tan<I: Isa>(x: f64) -> f64 {
    x.tan()
}
#[inline(always)]
pub fn asin<I: Isa>(x: f64) -> f64 {
    x.asin()
}
#[inline(always)]
pub fn acos<I: Isa>(x: f64) -> f64 {
    x.acos()
}
#[inline(always)]
pub fn atan<I: Isa>(x: f64) -> f64 {
    x.atan()
}
#[inline(always)]
pub fn sinh<I: Isa>(x: f64) -> f64 {
    x.sinh()
}
#[inline(always)]
pub fn cosh<I: Isa>(x: f64) -> f64 {
    x.cosh()
}
#[inline(always)]
pub fn tanh<I: Isa>(x: f64) -> f64 {
    x.tanh()
}
#[inline(always)]
pub fn asinh<I: Isa>(x: f64) -> f64 {
    libm::asinh(x)
}
#[inline(always)]
pub fn acosh<I: Isa>(x: f64) -> f64 {
    libm::acosh(x)
}
#[inline(always)]
pub fn atanh<I: Isa>(x: f64) -> f64 {
    libm::atanh(x)
}
#[inline(always)]
pub fn atan2<I: Isa>(x: f64, y: f64) -> f64 {
    x.atan2(y)
}
#[inline(always)]
pub fn erf<I: Isa>(x: f64) -> f64 {
    libm::erf(x)
}
#[inline(always)]
pub fn erfc<I: Isa>(x: f64) -> f64 {
    libm::erfc(x)
}
#[inline(always)]
pub fn erfinv<I: Isa>(x: f64) -> f64 {
    rare::erfinv(x as f64) as f64
}
#[inline(always)]
pub fn lgamma<I: Isa>(x: f64) -> f64 {
    libm::lgamma(x as f64) as f64
}
#[inline(always)]
pub fn digamma<I: Isa>(x: f64) -> f64 {
    rare::digamma(x as f64) as f64
}
#[inline(always)]
pub fn sigmoid<I: Isa>(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}
#[inline(always)]
pub fn pow<I: Isa>(x: f64, y: f64) -> f64 {
    x.powf(y)
}
#[inline(always)]
pub fn hypot<I: Isa>(x: f64, y: f64) -> f64 {
    x.hypot(y)
}
#[inline(always)]
pub fn i0<I: Isa>(x: f64) -> f64 {
    rare::i0(x as f64) as f64
}
