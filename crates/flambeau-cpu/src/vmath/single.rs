//! f32 functions.

use super::{double, rare};
use crate::engine::isa::Isa;

const LN2_HI: f32 = 0.693_359_375;
const LN2_LO: f32 = -2.121_944_4e-4;
/// Adding it leaves the nearest integer in the low bits.
const ROUND: f32 = 12_582_912.0;

/// `x * scale` rounded to an integer, as float and as bits.
#[inline(always)]
fn nearest<I: Isa>(x: f32, scale: f32) -> (f32, i32) {
    let t = I::fma32(x, scale, ROUND);
    (t - ROUND, t.to_bits().wrapping_sub(ROUND.to_bits()) as i32)
}
#[inline(always)]
fn pow2i(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}
/// `(e^r - 1 - r) / r^2` for |r| <= ln(2) / 2.
#[inline(always)]
fn exp_tail<I: Isa>(r: f32) -> f32 {
    let p = I::fma32(1.9875691500e-4, r, 1.3981999507e-3);
    let p = I::fma32(p, r, 8.3334519073e-3);
    let p = I::fma32(p, r, 4.1665795894e-2);
    let p = I::fma32(p, r, 1.6666665459e-1);
    I::fma32(p, r, 5.0000001201e-1)
}
#[inline(always)]
fn scale2(v: f32, n: i32) -> f32 {
    let h = n >> 1;
    v * pow2i(h) * pow2i(n.wrapping_sub(h))
}
/// `[t, r, l]` of an x within -104..89: t leaves n, the integer nearest to x / ln 2, in its low bits, and
/// `x = n ln 2 + r + l` with |r| <= ln(2) / 2. Subtracting n times the rounded ln 2 makes no error: the difference is on the
/// grid of x.
#[inline(always)]
fn reduced<I: Isa>(x: f32, round: f32) -> [f32; 3] {
    const LN2_REST: f32 = (std::f64::consts::LN_2 - std::f32::consts::LN_2 as f64) as f32;
    let t = I::fma32(x, std::f32::consts::LOG2_E, round);
    let n = t - round;
    if I::FMA {
        return [t, I::fma32(n, -std::f32::consts::LN_2, x), n * -LN2_REST];
    }
    // without a fused product, a part of ln 2 whose products have no error first
    let (far, rest) = (x - n * LN2_HI, n * -LN2_LO);
    let r = far + rest;
    [t, r, (far - r) + rest]
}
/// e^(r + l) as `hi + low`, for |r| <= ln(2) / 2 and an l below half a unit in the last place of 1. `hi` is 1 + r + r^2 / 2, rounded; its
/// error and the higher terms are in `low`, so that the sum has hardly more than its own rounding error.
#[inline(always)]
fn exp_sum<I: Isa>(r: f32, l: f32) -> (f32, f32) {
    let h = 0.5 * r;
    let hi = 1.0 + I::fma32(r, h, r);
    // both differences are exact
    let low = I::fma32(r, h, r - (hi - 1.0));
    let p = I::fma32(3.982_650_5e-4, r, 2.787_088_3e-3);
    let p = I::fma32(p, r, 1.666_655_1e-2);
    let p = I::fma32(p, r, 8.333_291_8e-2);
    let p = I::fma32(p, r, 3.333_333_4e-1);
    let low = I::fma32(p * r, r * h, low);
    (hi, I::fma32(l, hi + low, low))
}
/// [`exp_sum`] with a term more, where differences of its result are taken.
#[inline(always)]
fn exp_sum_long<I: Isa>(r: f32, l: f32) -> (f32, f32) {
    let h = 0.5 * r;
    let hi = 1.0 + I::fma32(r, h, r);
    let low = I::fma32(r, h, r - (hi - 1.0));
    let p = I::fma32(4.960_317_5e-5, r, 3.968_254e-4);
    let p = I::fma32(p, r, 2.777_777_8e-3);
    let p = I::fma32(p, r, 1.666_666_7e-2);
    let p = I::fma32(p, r, 8.333_333_6e-2);
    let p = I::fma32(p, r, 3.333_333_4e-1);
    let low = I::fma32(p * r, r * h, low);
    (hi, I::fma32(l, hi + low, low))
}
/// At most 0.51 units in the last place.
#[inline(always)]
pub fn exp<I: Isa>(x: f32) -> f32 {
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.0 { -104.0 } else { x };
    // With this sum's low bits as its exponent, a number is half of 2^n.
    const HALF: f32 = ROUND + 126.0;
    let [t, r, l] = reduced::<I>(x, HALF);
    let (hi, low) = exp_sum::<I>(r, l);
    // 2^n may be too large or too small for a number of its own: two factors, and one rounding.
    let tiny = x < -86.0;
    let bits = t.to_bits().wrapping_add(if tiny { 64 } else { 0 }) << 23;
    let rest = if tiny { 1.084_202_2e-19 } else { 2.0 };
    (hi + low) * f32::from_bits(bits) * rest
}
#[inline(always)]
pub fn exp2<I: Isa>(x: f32) -> f32 {
    let x = if x > 129.0 { 129.0 } else { x };
    let x = if x < -151.0 { -151.0 } else { x };
    let (n, k) = nearest::<I>(x, 1.0);
    let r = (x - n) * std::f32::consts::LN_2;
    scale2(1.0 + I::fma32(exp_tail::<I>(r), r * r, r), k)
}
#[inline(always)]
pub fn expm1<I: Isa>(x: f32) -> f32 {
    let y = if x > 89.0 { 89.0 } else { x };
    let y = if y < -20.0 { -20.0 } else { y };
    let (n, k) = nearest::<I>(y, std::f32::consts::LOG2_E);
    let r = I::fma32(n, -LN2_LO, I::fma32(n, -LN2_HI, y));
    let p = I::fma32(exp_tail::<I>(r), r * r, r);
    // Half of the result, because 2^n itself may overflow.
    let t = pow2i(k.wrapping_sub(1));
    let v = 2.0 * I::fma32(t, p, t - 0.5);
    if x.abs() < 1e-9 { x } else { v }
}
/// The exponent k, `f = m - 1` and `log(m) - f` of `x = 2^k m`, m in sqrt(1/2)..sqrt(2).
#[inline(always)]
fn ln_parts<I: Isa>(x: f32) -> (f32, f32, f32) {
    let tiny = x < f32::MIN_POSITIVE;
    let x = if tiny { x * 8_388_608.0 } else { x };
    let bits = x.to_bits() as i32;
    let k = bits.wrapping_sub(0x3f35_04f3) >> 23;
    let f = f32::from_bits(bits.wrapping_sub(k << 23) as u32) - 1.0;
    let k = k as f32 - if tiny { 23.0 } else { 0.0 };
    let p = I::fma32(7.0376836292e-2, f, -1.1514610310e-1);
    let p = I::fma32(p, f, 1.1676998740e-1);
    let p = I::fma32(p, f, -1.2420140846e-1);
    let p = I::fma32(p, f, 1.4249322787e-1);
    let p = I::fma32(p, f, -1.6668057665e-1);
    let p = I::fma32(p, f, 2.0000714765e-1);
    let p = I::fma32(p, f, -2.4999993993e-1);
    let p = I::fma32(p, f, 3.3333331174e-1);
    let z = f * f;
    (k, f, I::fma32(p * f, z, -0.5 * z))
}
/// Infinity, zero, negative and NaN arguments of a logarithm.
#[inline(always)]
fn ln_edges(x: f32, v: f32) -> f32 {
    let v = if x == f32::INFINITY { x } else { v };
    let v = if x == 0.0 { f32::NEG_INFINITY } else { v };
    if x >= 0.0 { v } else { f32::NAN }
}
#[inline(always)]
pub fn ln<I: Isa>(x: f32) -> f32 {
    let (k, f, y) = ln_parts::<I>(x);
    ln_edges(x, I::fma32(k, LN2_HI, f + I::fma32(k, LN2_LO, y)))
}
#[inline(always)]
pub fn log1p<I: Isa>(x: f32) -> f32 {
    let u = 1.0 + x;
    let c = if x > 1.0 { 1.0 - (u - x) } else { x - (u - 1.0) };
    let (k, f, y) = ln_parts::<I>(u);
    let v = I::fma32(k, LN2_HI, f + I::fma32(k, LN2_LO, y + c / u));
    let v = ln_edges(u, v);
    if x.abs() < 1e-9 { x } else { v }
}
#[inline(always)]
pub fn log2<I: Isa>(x: f32) -> f32 {
    (double::ln::<I>(x as f64) * std::f64::consts::LOG2_E) as f32
}
#[inline(always)]
pub fn log10<I: Isa>(x: f32) -> f32 {
    (double::ln::<I>(x as f64) * std::f64::consts::LOG10_E) as f32
}
/// `(e - 1) / (e + 1)` with `e = e^(2 |x|)`, whose parts keep what they leave out; near 0 an odd polynomial. At most 0.522 units in
/// the last place.
#[inline(always)]
pub fn tanh<I: Isa>(x: f32) -> f32 {
    let a = x.abs();
    let a = if a > 10.0 { 10.0 } else { a };
    let [t, r, l] = reduced::<I>(2.0 * a, ROUND);
    let (big, small) = exp_sum_long::<I>(r, l);
    let hi = big + small;
    let low = small - (hi - big);
    let m = f32::from_bits(t.to_bits().wrapping_add(127) << 23);
    let (e, f) = (hi * m, low * m);
    let (n, d) = (e - 1.0, e + 1.0);
    // e is at least 1, so that both differences are exact
    let (n_rest, d_rest) = ((-1.0 - (n - e)) + f, (1.0 - (d - e)) + f);
    let inverse = 1.0 / d;
    let q = n * inverse;
    let far = I::fma32(I::fma32(-q, d, n) + I::fma32(-q, d_rest, n_rest), inverse, q);
    let s = a * a;
    let p = I::fma32(3.3e-3, s, -8.863_235_5e-3);
    let p = I::fma32(p, s, 2.186_948_9e-2);
    let p = I::fma32(p, s, -5.396_825_4e-2);
    let p = I::fma32(p, s, 1.333_333_3e-1);
    // a third has two parts
    let p = I::fma32(p, s, 9.934_107e-9) - 3.333_333_4e-1;
    let s_rest = if I::FMA { I::fma32(a, a, -s) } else { 0.0 };
    let near = I::fma32(a, I::fma32(s, p, s_rest * -3.333_333_4e-1), a);
    let v = if a < 0.22 { near } else { far };
    v.copysign(x)
}
#[inline(always)]
pub fn sigmoid<I: Isa>(x: f32) -> f32 {
    1.0 / (1.0 + exp::<I>(-x))
}
/// [`sigmoid`] with half the steps: the gate of a recurrent cell, whose argument is a sum with errors of its own. At most 3 units in
/// the last place; below -88 it is 0.
#[inline(always)]
pub fn sigmoid_gate<I: Isa>(x: f32) -> f32 {
    let y = if x > 80.0 { -80.0 } else { -x };
    let y = if y > 89.0 { 89.0 } else { y };
    let (n, k) = nearest::<I>(y, std::f32::consts::LOG2_E);
    let r = I::fma32(n, -LN2_LO, I::fma32(n, -LN2_HI, y));
    let e = I::fma32(exp_tail::<I>(r), r * r, r);
    let t = pow2i(k);
    1.0 / (1.0 + I::fma32(t, e, t))
}
/// [`tanh`] with half the steps, as [`sigmoid_gate`]: `e / (e + 2)` with `e = e^(2 |x|) - 1`. At most 4 units in the last place.
#[inline(always)]
pub fn tanh_gate<I: Isa>(x: f32) -> f32 {
    let a = x.abs();
    let a = if a > 10.0 { 10.0 } else { a };
    let y = a + a;
    let (n, k) = nearest::<I>(y, std::f32::consts::LOG2_E);
    let r = I::fma32(n, -LN2_LO, I::fma32(n, -LN2_HI, y));
    let p = I::fma32(exp_tail::<I>(r), r * r, r);
    let t = pow2i(k);
    let e = I::fma32(t, p, t - 1.0);
    (e / (e + 2.0)).copysign(x)
}
/// Near 0 an odd polynomial, else 1 - erfc with the logarithm of erfc as a polynomial around 1, where its own rounding errors are
/// small and those of the constant are known. At most 0.69 units in the last place.
#[inline(always)]
pub fn erf<I: Isa>(x: f32) -> f32 {
    let a = x.abs();
    let s = a * a;
    let mut p = -7.115_485_5e-4;
    for c in [
        5.155_693_739_652_634e-3,
        -0.02685089036822319,
        0.11283635348081589,
        -0.37612631916999817,
        0.12837916612625122,
    ] {
        p = I::fma32(p, s, c);
    }
    let near = I::fma32(p, a, a);
    let t = if a > 4.0 { 4.0 } else { a };
    let u = t - 1.0;
    let mut p = 1.364_600_3e-5;
    for c in [
        -2.592_030_6e-4,
        1.973_601_3e-3,
        -0.010028055788757302,
        0.041561203238666786,
        0.8431069141328805,
        2.6389674974222017,
    ] {
        p = I::fma32(p, u, c);
    }
    // the logarithm of erfc(1) and what it leaves out, and that of erfc(t) as such a sum
    const ONE: f32 = -1.849_605_6;
    let h = I::fma32(-u, p, ONE);
    let rest = I::fma32(-u, p, ONE - h) + 5.036_948_6e-8;
    let [b, r, l] = reduced::<I>(h, ROUND + 127.0);
    let (hi, low) = exp_sum::<I>(r, l + rest);
    let m = f32::from_bits(b.to_bits() << 23);
    let hi = hi * m;
    let v = 1.0 - hi;
    let far = v + I::fma32(-low, m, (1.0 - v) - hi);
    let v = if a < 0.7 { near } else { far };
    v.copysign(x)
}
/// `e^(-x^2) P((x-2)/(x+2)) / (x+2)` for positive x, each factor with what its rounding leaves out. At most 1.1 units in the last
/// place where products are fused.
#[inline(always)]
pub fn erfc<I: Isa>(x: f32) -> f32 {
    let a = x.abs();
    let a = if a > 10.6 { 10.6 } else { a };
    let (w, n) = (a + 2.0, a - 2.0);
    // one of the two differences is exact, and what the other leaves out is too
    let (w_rest, n_rest) = (a - (w - 2.0), (a - n) - 2.0);
    let d = 1.0 / w;
    let d_rest = I::fma32(-w_rest, d, I::fma32(-w, d, 1.0)) * d;
    let u = n * d;
    let u_rest = I::fma32(n, d, -u) + I::fma32(n, d_rest, n_rest * d);
    let mut r = 7.127_436e-5;
    for c in [
        5.026_639_7e-5,
        -5.927_518e-4,
        -8.351_102e-4,
        3.061_873_2e-3,
        6.476_817e-3,
        -2.150_545_8e-2,
        -3.644_189_3e-2,
        0.279_471_75,
    ] {
        r = I::fma32(r, u, c);
    }
    // the last two coefficients have two parts each
    const LINEAR: f64 = -0.687_160_693_453_308_3;
    const CONSTANT: f64 = 1.021_582_708_980_341;
    const LINEAR_REST: f32 = (LINEAR - (LINEAR as f32) as f64) as f32;
    const CONSTANT_REST: f32 = (CONSTANT - (CONSTANT as f32) as f64) as f32;
    let q = I::fma32(r, u, LINEAR as f32);
    let q_rest = I::fma32(r, u, LINEAR as f32 - q) + LINEAR_REST;
    let p = I::fma32(q, u, CONSTANT as f32);
    let slope = I::fma32(r, u, q);
    let p_rest =
        I::fma32(q, u, CONSTANT as f32 - p) + I::fma32(q_rest, u, I::fma32(slope, u_rest, CONSTANT_REST));
    let v = p * d;
    let v_rest = I::fma32(p, d, -v) + I::fma32(p, d_rest, p_rest * d);
    // The square in two parts, the first exact: its rounding error would be magnified by the exponential.
    let top = f32::from_bits(a.to_bits().wrapping_add(0x800) & 0xffff_f000);
    let [t, far, l] = reduced::<I>(-top * top, ROUND);
    let low = (top - a) * (top + a);
    let near = far + low;
    let (e, e_rest) = exp_sum::<I>(near, l + ((far - near) + low));
    let k = t.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    let tail = v * e;
    let rest = I::fma32(v, e, -tail) + I::fma32(v, e_rest, v_rest * e);
    let tail = scale2(tail + rest, k);
    if x < 0.0 { 2.0 - tail } else { tail }
}
/// The square of a polynomial in `|x|` below 0, and one less it above: 2 units in the last place of 1. Squaring leaves small values digits of
/// their own: the relative error is below 2e-4 down to -4, the absolute one below 1e-8 from there to -5.75. Exactly 0 and 1 beyond.
#[inline(always)]
pub fn normal_cdf<I: Isa>(x: f32) -> f32 {
    const END: f32 = 5.75;
    // No float's square is 1/2, but the product of the two neighbours of its root is, rounded. So the value at 0 is exact, and the slope of
    // gelu is; the constant coefficient is less by half of this.
    const NEXT: f32 = f32::EPSILON / 2.0;
    let a = x.abs();
    let s = I::fma32(a, 0.5, -0.875);
    // Four short chains instead of one long: the vector unit would wait for each term.
    let (s2, q) = (s * s, (s * s) * (s * s));
    let chain = |[c0, c1, c2]: [f32; 3]| I::fma32(I::fma32(c2, q, c1), q, c0);
    let p0 = chain([-0.125_200_585, -0.003_742_099_27, 1.308_207_72e-4]);
    let p1 = chain([0.028_193_526, 0.003_732_394_66, -8.136_267_75e-6]);
    let (p0, p1) = (I::fma32(p0, q, 0.200_147_822), I::fma32(p1, q, -0.431_068_152));
    let p2 = chain([0.290_161_639, 0.030_214_406_5, -1.280_043_36e-4]);
    let p3 = chain([0.032_224_379_5, -0.014_771_489_4, -4.831_211_7e-4]);
    let p = I::fma32(I::fma32(p3, s, p2), s2, I::fma32(p1, s, p0));
    let tail = p * (p + NEXT);
    let tail = if a > END { 0.0 } else { tail };
    if x < 0.0 { tail } else { 1.0 - tail }
}
#[inline(always)]
pub fn pow<I: Isa>(x: f32, y: f32) -> f32 {
    let a = (x as f64).abs();
    let v = double::exp::<I>(y as f64 * double::ln::<I>(a)) as f32;
    let whole = y.trunc() == y;
    let odd = whole && (y * 0.5).trunc() != y * 0.5 && y.abs() < 16_777_216.0;
    let v = if odd { v.copysign(x) } else { v };
    let v = if x < 0.0 && !whole && x.is_finite() { f32::NAN } else { v };
    // 1 to any power, anything to 0, and -1 to an infinite power.
    let one = x == 1.0 || y == 0.0 || (x == -1.0 && y.is_infinite());
    if one { 1.0 } else { v }
}
#[inline(always)]
pub fn hypot<I: Isa>(x: f32, y: f32) -> f32 {
    let (a, b) = (x as f64, y as f64);
    let v = I::fma64(a, a, b * b).sqrt() as f32;
    if x.is_infinite() || y.is_infinite() { f32::INFINITY } else { v }
}

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
    double::sinh::<I>(x as f64) as f32
}
#[inline(always)]
pub fn cosh<I: Isa>(x: f32) -> f32 {
    double::cosh::<I>(x as f64) as f32
}
#[inline(always)]
pub fn asinh<I: Isa>(x: f32) -> f32 {
    double::asinh::<I>(x as f64) as f32
}
#[inline(always)]
pub fn acosh<I: Isa>(x: f32) -> f32 {
    double::acosh::<I>(x as f64) as f32
}
#[inline(always)]
pub fn atanh<I: Isa>(x: f32) -> f32 {
    double::atanh::<I>(x as f64) as f32
}
#[inline(always)]
pub fn atan2<I: Isa>(x: f32, y: f32) -> f32 {
    x.atan2(y)
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
pub fn i0<I: Isa>(x: f32) -> f32 {
    rare::i0(x as f64) as f32
}
