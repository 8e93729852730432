//! f64 functions.

use super::rare;
use crate::engine::isa::Isa;

const LN2_HI: f64 = 6.931_471_803_691_238_164_90e-1;
const LN2_LO: f64 = 1.908_214_929_270_587_700_02e-10;
/// Adding it leaves the nearest integer in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// `x * scale` rounded to an integer, as float and as bits.
#[inline(always)]
fn nearest<I: Isa>(x: f64, scale: f64) -> (f64, i64) {
    let t = I::fma64(x, scale, ROUND);
    (t - ROUND, t.to_bits().wrapping_sub(ROUND.to_bits()) as i64)
}
#[inline(always)]
fn pow2i(n: i64) -> f64 {
    f64::from_bits((n.wrapping_add(1023) as u64) << 52)
}
/// `(e^r - 1 - r) / r^2` for |r| <= ln(2) / 2.
#[inline(always)]
fn exp_tail<I: Isa>(r: f64) -> f64 {
    const C: [f64; 12] = [
        1.0 / 6227020800.0,
        1.0 / 479001600.0,
        1.0 / 39916800.0,
        1.0 / 3628800.0,
        1.0 / 362880.0,
        1.0 / 40320.0,
        1.0 / 5040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
    ];
    let mut p = C[0];
    for c in &C[1..] {
        p = I::fma64(p, r, *c);
    }
    p
}
/// Twice a power of two that may lie outside the normal range.
#[inline(always)]
fn scale2(v: f64, n: i64) -> f64 {
    // Half of n, rounded down, without an arithmetic shift (missing before AVX-512).
    let h = ((n.wrapping_add(4096) as u64 >> 1) as i64).wrapping_sub(2048);
    v * pow2i(h) * pow2i(n.wrapping_sub(h))
}
#[inline(always)]
pub fn exp<I: Isa>(x: f64) -> f64 {
    let x = if x > 710.0 { 710.0 } else { x };
    let x = if x < -746.0 { -746.0 } else { x };
    let (n, k) = nearest::<I>(x, std::f64::consts::LOG2_E);
    let r = I::fma64(n, -LN2_LO, I::fma64(n, -LN2_HI, x));
    scale2(1.0 + I::fma64(exp_tail::<I>(r), r * r, r), k)
}
#[inline(always)]
pub fn exp2<I: Isa>(x: f64) -> f64 {
    let x = if x > 1025.0 { 1025.0 } else { x };
    let x = if x < -1080.0 { -1080.0 } else { x };
    let (n, k) = nearest::<I>(x, 1.0);
    let r = (x - n) * std::f64::consts::LN_2;
    scale2(1.0 + I::fma64(exp_tail::<I>(r), r * r, r), k)
}
#[inline(always)]
pub fn expm1<I: Isa>(x: f64) -> f64 {
    let y = if x > 710.0 { 710.0 } else { x };
    let y = if y < -50.0 { -50.0 } else { y };
    let (n, k) = nearest::<I>(y, std::f64::consts::LOG2_E);
    let r = I::fma64(n, -LN2_LO, I::fma64(n, -LN2_HI, y));
    let p = I::fma64(exp_tail::<I>(r), r * r, r);
    // Half of the result, because 2^n itself may overflow.
    let t = pow2i(k.wrapping_sub(1));
    let v = 2.0 * I::fma64(t, p, t - 0.5);
    if x.abs() < 1e-18 { x } else { v }
}
/// The exponent k and `log(m)`'s parts of a positive normal `x = 2^k m`, m in sqrt(1/2)..sqrt(2): (k, f, s (f^2/2 + R), f^2/2).
#[inline(always)]
fn ln_parts<I: Isa>(x: f64) -> (f64, f64, f64, f64) {
    let tiny = x < f64::MIN_POSITIVE;
    let x = if tiny { x * 18_014_398_509_481_984.0 } else { x };
    let bits = x.to_bits();
    let off = bits.wrapping_sub(0x3fe6_a09e_667f_3bcd);
    let k = off.wrapping_add(1024 << 52) >> 52;
    let m = f64::from_bits(bits.wrapping_sub(k.wrapping_sub(1024) << 52));
    let k = f64::from_bits(k.wrapping_add(ROUND.to_bits())) - (ROUND + 1024.0);
    let k = if tiny { k - 54.0 } else { k };
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let a = I::fma64(
        w,
        I::fma64(w, 1.531383769920937332e-01, 2.222219843214978396e-01),
        3.999999999940941908e-01,
    ) * w;
    let b = I::fma64(
        w,
        I::fma64(
            w,
            I::fma64(w, 1.479819860511658591e-01, 1.818357216161805012e-01),
            2.857142874366239149e-01,
        ),
        6.666666666666735130e-01,
    ) * z;
    let h = 0.5 * f * f;
    (k, f, s * (h + (a + b)), h)
}
/// Infinity, zero, negative and NaN arguments of a logarithm.
#[inline(always)]
fn ln_edges(x: f64, v: f64) -> f64 {
    let v = if x == f64::INFINITY { x } else { v };
    let v = if x == 0.0 { f64::NEG_INFINITY } else { v };
    if x >= 0.0 { v } else { f64::NAN }
}
#[inline(always)]
pub fn ln<I: Isa>(x: f64) -> f64 {
    let (k, f, t, h) = ln_parts::<I>(x);
    ln_edges(x, I::fma64(k, LN2_HI, (I::fma64(k, LN2_LO, t) - h) + f))
}
#[inline(always)]
pub fn log1p<I: Isa>(x: f64) -> f64 {
    let u = 1.0 + x;
    let c = if x > 1.0 { 1.0 - (u - x) } else { x - (u - 1.0) };
    let (k, f, t, h) = ln_parts::<I>(u);
    let v = I::fma64(k, LN2_HI, (I::fma64(k, LN2_LO, t + c / u) - h) + f);
    let v = ln_edges(u, v);
    if x.abs() < 1e-18 { x } else { v }
}
#[inline(always)]
pub fn tanh<I: Isa>(x: f64) -> f64 {
    let a = x.abs();
    let a = if a > 22.0 { 22.0 } else { a };
    let q = expm1::<I>(2.0 * a);
    (q / (q + 2.0)).copysign(x)
}
#[inline(always)]
pub fn sinh<I: Isa>(x: f64) -> f64 {
    let a = x.abs();
    let big = a > 709.0;
    // e^a overflows before sinh does, so a large one is the square of e^(a/2), halved.
    let e = expm1::<I>(if big { 0.5 * a } else { a });
    let v = if big { (0.5 * e) * e } else { 0.5 * (e + e / (e + 1.0)) };
    v.copysign(x)
}
#[inline(always)]
pub fn cosh<I: Isa>(x: f64) -> f64 {
    let a = x.abs();
    let big = a > 709.0;
    let e = exp::<I>(if big { 0.5 * a } else { a });
    if big { (0.5 * e) * e } else { 0.5 * e + 0.5 / e }
}
#[inline(always)]
pub fn asinh<I: Isa>(x: f64) -> f64 {
    let a = x.abs();
    let big = a > 1e9;
    let v = log1p::<I>(if big { a - 1.0 } else { a + a * a / (1.0 + I::fma64(a, a, 1.0).sqrt()) });
    (if big { ln::<I>(a) + std::f64::consts::LN_2 } else { v }).copysign(x)
}
#[inline(always)]
pub fn acosh<I: Isa>(x: f64) -> f64 {
    let t = x - 1.0;
    let v = log1p::<I>(t + I::fma64(t, t, 2.0 * t).sqrt());
    let v = if x > 1e9 { ln::<I>(x) + std::f64::consts::LN_2 } else { v };
    if x >= 1.0 { v } else { f64::NAN }
}
#[inline(always)]
pub fn atanh<I: Isa>(x: f64) -> f64 {
    let a = x.abs();
    (0.5 * log1p::<I>(2.0 * a / (1.0 - a))).copysign(x)
}
#[inline(always)]
pub fn sigmoid<I: Isa>(x: f64) -> f64 {
    1.0 / (1.0 + exp::<I>(-x))
}

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
pub fn log2<I: Isa>(x: f64) -> f64 {
    x.log2()
}
#[inline(always)]
pub fn log10<I: Isa>(x: f64) -> f64 {
    x.log10()
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
pub fn normal_cdf<I: Isa>(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}
#[inline(always)]
pub fn erfinv<I: Isa>(x: f64) -> f64 {
    rare::erfinv(x)
}
#[inline(always)]
pub fn lgamma<I: Isa>(x: f64) -> f64 {
    libm::lgamma(x)
}
#[inline(always)]
pub fn digamma<I: Isa>(x: f64) -> f64 {
    rare::digamma(x)
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
    rare::i0(x)
}
