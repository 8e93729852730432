//! Arithmetic: sums, products, quotients, remainders, powers, minima and maxima, mixtures.

use super::complex_math::{complex_pow, logaddexp_complex};
use super::{Pointwise, loops};
use crate::num::real::{Cx, Int, Real};
use crate::pointwise;

/// Whether any of `n` integer elements is zero; callers of integer `div_*`, `remainder` and `fmod` raise
/// "ZeroDivisionError" from it before the loop runs (the loops themselves give 0).
///
/// # Safety
/// `ptr` must be valid for `n` elements of an integer `dtype` at `stride` bytes.
pub unsafe fn has_zero(dtype: crate::DType, ptr: *const u8, stride: isize, n: usize) -> bool {
    let size = dtype.size();
    // SAFETY: the caller vouches for the run; an integer is zero when all its bytes are.
    (0..n as isize).any(|i| unsafe {
        let p = ptr.offset(i * stride);
        (0..size).all(|k| *p.add(k) == 0)
    })
}

/// Python's quotient rounded down, for floats: the remainder decides, so that `0.1` steps do not drift.
#[inline(always)]
fn div_floor<V: Real>(a: V, b: V) -> V {
    let m = a.fmod(b);
    let d = (a - m) / b;
    let d = V::pick(m != V::zero() && (b < V::zero()) != (m < V::zero()), d - V::one(), d);
    let f = d.floor();
    let f = V::pick(d - f > V::c(0.5), f + V::one(), f);
    let f = V::pick(d == V::zero(), V::zero().copysign(a / b), f);
    V::pick(b == V::zero(), a / b, f)
}
/// Python's remainder for floats: the sign of the divisor.
#[inline(always)]
fn remainder<V: Real>(a: V, b: V) -> V {
    let m = a.fmod(b);
    V::pick(m != V::zero() && (b < V::zero()) != (m < V::zero()), m + b, m)
}
/// `a + w (b - a)`, from the nearer end.
#[inline(always)]
fn lerp<V: Real>(a: V, b: V, w: V) -> V {
    let d = b - a;
    V::pick(w.abs() < V::c(0.5), w.fma(d, a), (w - V::one()).fma(d, b))
}
/// As [`lerp`] on complex numbers.
#[inline(always)]
fn lerp_complex<V: Real>(a: Cx<V>, b: Cx<V>, w: Cx<V>) -> Cx<V> {
    if w.abs() < V::c(0.5) { a + w * (b - a) } else { b - (b - a) * (Cx::c(1.0) - w) }
}

/// log(e^a + e^b) and its like in base 2.
#[inline(always)]
fn logaddexp<V: Real>(a: V, b: V, exp: impl Fn(V) -> V, log1p: impl Fn(V) -> V) -> V {
    let m = a.maximum(b);
    // Equal infinities would give inf - inf.
    V::pick(a.abs() == V::INF && a == b, a, m + log1p(exp(-(a - b).abs())))
}
/// `x y(log)`, 0 where x is 0 unless y is NaN.
#[inline(always)]
pub(super) fn xlog<V: Real>(x: V, y: V, log: V) -> V {
    V::pick(y.is_nan(), V::NAN, V::pick(x == V::zero(), V::zero(), x * log))
}

/// Greatest common divisor, not negative, but of numbers that have no absolute value: those stay as they are.
#[inline(always)]
fn gcd<V: Int>(a: V, b: V) -> V {
    let (mut a, mut b) = (a.abs(), b.abs());
    while a != V::ZERO {
        (a, b) = (b.rem_trunc(a), a);
    }
    b
}

pointwise! {
    /// `a + alpha b`.
    ADD = "add"(a, b; alpha) cost 60 {
        float_hot => b.fma(alpha, a), int => a + b * alpha, boolean => a | (b & alpha), complex_hot => a + alpha * b,
    }
    /// `a - alpha b`.
    SUB = "sub"(a, b; alpha) cost 60 { float_hot => (-alpha).fma(b, a), int => a - b * alpha, complex_hot => a - alpha * b }
    /// `b - alpha a`.
    RSUB = "rsub"(a, b; alpha) cost 60 { float_hot => (-alpha).fma(a, b), int => b - a * alpha, complex_hot => b - alpha * a }
    /// `a * b`.
    MUL = "mul"(a, b) cost 60 { float_hot => a * b, int => a * b, boolean => a & b, complex_hot => a * b }
    /// `a / b`.
    DIV = "div"(a, b) cost 90 { float_hot => a / b, complex_hot => a / b }
    /// Quotient rounded down, as Python's `//`.
    DIV_FLOOR = "div_floor"(a, b) cost 3000 { float_scalar => div_floor(a, b), int => a.div_floor(b) }
    /// Quotient rounded to zero.
    DIV_TRUNC = "div_trunc"(a, b) cost 100 { float => (a / b).trunc(), int => a.div_trunc(b) }
    /// Remainder with the sign of the divisor, as Python's `%`.
    REMAINDER = "remainder"(a, b) cost 3000 { float_scalar => remainder(a, b), int => a.rem_floor(b) }
    /// C's `fmod`: remainder with the sign of the dividend.
    FMOD = "fmod"(a, b) cost 3000 { float_scalar => a.fmod(b), int => a.rem_trunc(b) }
    /// `a` to the power `b`.
    POW = "pow"(a, b) cost 4000 {
        float_hot => a.pow(b), int => a.pow(b), complex => complex_pow(a, b),
    }
    /// x squared.
    POW_2 = "pow_2"(x) cost 60 { float => x * x, int => x * x, complex_hot => x * x }
    /// x cubed.
    POW_3 = "pow_3"(x) cost 60 { float => x * x * x, int => x * x * x, complex => x * x * x }
    /// `1 / x^2`.
    POW_NEG_2 = "pow_neg_2"(x) cost 100 { float => (x * x).recip() }
    /// The larger; NaN if either is.
    MAXIMUM = "maximum"(a, b) cost 60 { float_hot => a.maximum(b), int => a.max(b), boolean => a | b }
    /// The smaller; NaN if either is.
    MINIMUM = "minimum"(a, b) cost 60 { float_hot => a.minimum(b), int => a.min(b), boolean => a & b }
    /// The larger; a NaN only if both are.
    FMAX = "fmax"(a, b) cost 60 { float => V::pick(a >= b || b.is_nan(), a, b), int => a.max(b), boolean => a | b }
    /// The smaller; a NaN only if both are.
    FMIN = "fmin"(a, b) cost 60 { float => V::pick(a <= b || b.is_nan(), a, b), int => a.min(b), boolean => a & b }
    /// `min(max(x, lo), hi)`; NaN stays, and a NaN bound gives NaN.
    CLAMP = "clamp"(x; lo, hi) cost 60 { float => x.maximum(lo).minimum(hi), int => x.max(lo).min(hi) }
    /// `max(x, lo)`.
    CLAMP_MIN = "clamp_min"(x; lo) cost 60 { float => x.maximum(lo), int => x.max(lo) }
    /// `min(x, hi)`.
    CLAMP_MAX = "clamp_max"(x; hi) cost 60 { float => x.minimum(hi), int => x.min(hi) }
    /// `min(max(x, lo), hi)` with tensor bounds.
    CLAMP_TENSOR = "clamp_tensor"(x, lo, hi) cost 90 {
        float => x.maximum(lo).minimum(hi), int => x.max(lo).min(hi),
    }
    /// `a + w (b - a)` with a scalar weight.
    LERP_SCALAR = "lerp_scalar"(a, b; w) cost 90 { float => lerp(a, b, w), complex => lerp_complex(a, b, w) }
    /// `a + w (b - a)` with a tensor weight.
    LERP_TENSOR = "lerp_tensor"(a, b, w) cost 120 { float => lerp(a, b, w), complex => lerp_complex(a, b, w) }
    /// `x + value a b`.
    ADDCMUL = "addcmul"(x, a, b; value) cost 120 {
        float => (value * a).fma(b, x), int => x + value * a * b, complex => x + value * a * b,
    }
    /// `x + value a / b`.
    ADDCDIV = "addcdiv"(x, a, b; value) cost 150 { float => x + value * a / b, complex => x + value * a / b }
    /// Angle of the point (b, a).
    ATAN2 = "atan2"(a, b) cost 2000 { float_scalar => a.atan2(b) }
    /// `sqrt(a^2 + b^2)` without overflow.
    HYPOT = "hypot"(a, b) cost 1000 { float => a.hypot(b) }
    /// Magnitude of a, sign of b.
    COPYSIGN = "copysign"(a, b) cost 60 { float => a.copysign(b) }
    /// The float next to a towards b.
    NEXTAFTER_WIDE = "nextafter"(a, b) cost 2000 { float => a.nextafter(b) }
    /// 0 below 0, 1 above, b at 0.
    HEAVISIDE = "heaviside"(a, b) cost 60 {
        float => V::pick(a == V::zero(), b, V::pick(a > V::zero(), V::one(), V::zero())),
        int => if a == V::ZERO { b } else if a < V::ZERO { V::ZERO } else { V::ONE },
        boolean => a | b,
    }
    /// log(e^a + e^b).
    LOGADDEXP = "logaddexp"(a, b) cost 900 {
        float => logaddexp(a, b, |v| v.exp(), |v| v.log1p()),
        complex => logaddexp_complex(a, b),
    }
    /// log2(2^a + 2^b).
    LOGADDEXP2 = "logaddexp2"(a, b) cost 900 {
        float => logaddexp(a, b, |v| v.exp2(), |v| v.log1p() * V::c(std::f64::consts::LOG2_E)),
    }
    /// `x log(y)`, 0 where x is 0 unless y is NaN.
    XLOGY = "xlogy"(x, y) cost 500 { float => xlog(x, y, y.ln()) }
    /// Greatest common divisor.
    GCD = "gcd"(a, b) cost 20000 { int => gcd(a, b) }
    /// Least common multiple.
    LCM = "lcm"(a, b) cost 20000 { int => { let g = gcd(a, b); if g == V::ZERO { g } else { (a.div_trunc(g) * b).abs() } } }
}

/// The float next to a towards b, in the float's own precision.
pub static NEXTAFTER: Pointwise =
    Pointwise { name: "nextafter", inputs: 2, params: 0, cost: 2000, lookup: loops::nextafter_loop };
/// `cond ? a : b`; inputs bool, T, T.
pub static WHERE: Pointwise =
    Pointwise { name: "where", inputs: 3, params: 0, cost: 90, lookup: loops::where_loop };
/// The scalar argument everywhere; no inputs.
pub static FILL: Pointwise =
    Pointwise { name: "fill", inputs: 0, params: 1, cost: 30, lookup: loops::fill_loop };
