//! Unary arithmetic, rounding and elementary functions.

pub mod frexp;
mod trig;

pub use trig::{COS, SIN};

use super::complex_math as s;
use crate::num::real::Cx;
use crate::pointwise;

pointwise! {
    /// `-x`.
    NEG = "neg"(x) cost 50 { float => -x, int => -x, complex_hot => -x }
    /// Absolute value; of a complex number its magnitude, real.
    ABS = "abs"(x) cost 50 { float => x.abs(), int => x.abs(), boolean => x, complex_real => x.abs() }
    /// -1, 0 or 1; 0 for NaN.
    SIGN = "sign"(x) cost 60 {
        float => V::pick(x > V::zero(), V::one(), V::pick(x < V::zero(), V::c(-1.0), V::zero())),
        int => if x > V::ZERO { V::ONE } else if x < V::ZERO { -V::ONE } else { V::ZERO },
        boolean => x,
    }
    /// As `sign`; of a complex number `x / |x|`, 0 at 0.
    SGN = "sgn"(x) cost 60 {
        float => V::pick(x > V::zero(), V::one(), V::pick(x < V::zero(), V::c(-1.0), V::zero())),
        int => if x > V::ZERO { V::ONE } else if x < V::ZERO { -V::ONE } else { V::ZERO },
        boolean => x,
        complex => if x.is_zero() { Cx::c(0.0) } else { let a = x.abs(); Cx::new(x.re / a, x.im / a) },
    }
    /// `x`.
    POSITIVE = "positive"(x) cost 50 { float => x, int => x, complex_hot => x }
    /// `1 / x`.
    RECIPROCAL = "reciprocal"(x) cost 90 { float => x.recip(), complex => Cx::c(1.0) / x }
    /// Square root.
    SQRT = "sqrt"(x) cost 300 { float => x.sqrt(), complex => s::complex_sqrt(x) }
    /// `1 / sqrt(x)`.
    RSQRT = "rsqrt"(x) cost 400 { float => x.sqrt().recip(), complex => Cx::c(1.0) / s::complex_sqrt(x) }
    /// `x * x`.
    SQUARE = "square"(x) cost 50 { float => x * x, int => x * x, complex_hot => x * x }
    /// e^x.
    EXP = "exp"(x) cost 300 { float_exp => x.exp(), complex => s::complex_exp(x) }
    /// 2^x.
    EXP2 = "exp2"(x) cost 300 { float => x.exp2(), complex => s::complex_exp(x.scale(V::c(std::f64::consts::LN_2))) }
    /// e^x - 1.
    EXPM1 = "expm1"(x) cost 500 { float => x.expm1(), complex => s::complex_expm1(x) }
    /// Natural logarithm.
    LOG = "log"(x) cost 350 { float => x.ln(), complex => s::complex_ln(x) }
    /// Base 2 logarithm.
    LOG2 = "log2"(x) cost 400 { float => x.log2(), complex_hot => s::complex_log(x, std::f64::consts::LN_2) }
    /// Base 10 logarithm.
    LOG10 = "log10"(x) cost 400 { float => x.log10(), complex_hot => s::complex_log(x, std::f64::consts::LN_10) }
    /// log(1 + x).
    LOG1P = "log1p"(x) cost 450 { float => x.log1p(), complex => s::complex_log1p(x) }
    /// Tangent.
    TAN = "tan"(x) cost 4000 { float_scalar => x.tan(), complex => s::complex_tanh(x.mul_i()).mul_neg_i() }
    /// Arc sine.
    ASIN = "asin"(x) cost 1500 { float_scalar => x.asin(), complex => s::complex_asin(x) }
    /// Arc cosine.
    ACOS = "acos"(x) cost 1500 { float_scalar => x.acos(), complex => s::complex_acos(x) }
    /// Arc tangent.
    ATAN = "atan"(x) cost 1500 { float_scalar => x.atan(), complex => s::complex_atanh(x.mul_i()).mul_neg_i() }
    /// Hyperbolic sine.
    SINH = "sinh"(x) cost 1500 { float_wide => x.sinh(), complex => s::complex_sinh(x) }
    /// Hyperbolic cosine.
    COSH = "cosh"(x) cost 1500 { float_wide => x.cosh(), complex => s::complex_cosh(x) }
    /// Hyperbolic tangent.
    TANH = "tanh"(x) cost 400 { float_tanh => x.tanh(), complex => s::complex_tanh(x) }
    /// Inverse hyperbolic sine.
    ASINH = "asinh"(x) cost 2000 { float_wide => x.asinh(), complex => s::complex_asin(x.mul_i()).mul_neg_i() }
    /// Inverse hyperbolic cosine.
    ACOSH = "acosh"(x) cost 2000 { float_wide => x.acosh(), complex => s::complex_acosh(x) }
    /// Inverse hyperbolic tangent.
    ATANH = "atanh"(x) cost 2000 { float_wide => x.atanh(), complex => s::complex_atanh(x) }
    /// Rounds down.
    FLOOR = "floor"(x) cost 60 { float => x.floor(), int => x }
    /// Rounds up.
    CEIL = "ceil"(x) cost 60 { float => x.ceil(), int => x }
    /// Rounds to nearest, halves to even.
    ROUND = "round"(x) cost 60 { float => x.round_even(), int => x }
    /// Rounds to the decimal place that the power of ten `scale` says: `round(x * scale) / scale`.
    ROUND_DECIMALS = "round_decimals"(x; scale) cost 120 { float => (x * scale).round_even() / scale }
    /// As `round_decimals` left of the point: `round(x / scale) * scale`.
    ROUND_DECIMALS_NEG = "round_decimals_neg"(x; scale) cost 120 { float => (x / scale).round_even() * scale }
    /// Rounds to zero.
    TRUNC = "trunc"(x) cost 60 { float => x.trunc(), int => x }
    /// `x - trunc(x)`.
    FRAC = "frac"(x) cost 60 { float => x - x.trunc() }
    /// Degrees to radians.
    DEG2RAD = "deg2rad"(x) cost 50 { float => x * V::c(std::f64::consts::PI / 180.0) }
    /// Radians to degrees.
    RAD2DEG = "rad2deg"(x) cost 50 { float => x * V::c(180.0 / std::f64::consts::PI) }
    /// NaN and infinities replaced by `nan`, `posinf`, `neginf`.
    NAN_TO_NUM = "nan_to_num"(x; nan, posinf, neginf) cost 90 {
        float => V::pick(x.is_nan(), nan, V::pick(x == V::INF, posinf, V::pick(x == -V::INF, neginf, x))),
        int => x,
        boolean => x,
        complex => {
            let f = |x: V| V::pick(x.is_nan(), nan.re, V::pick(x == V::INF, posinf.re, V::pick(x == -V::INF, neginf.re, x)));
            Cx::new(f(x.re), f(x.im))
        },
    }
    /// Angle: pi for negative numbers, NaN for NaN; of a complex number its argument, real.
    ANGLE = "angle"(x) cost 90 {
        float => V::pick(x.is_nan(), x, V::pick(x < V::zero(), V::c(std::f64::consts::PI), V::zero())),
        complex_real => x.arg(),
    }
    /// Complex conjugate.
    CONJ = "conj"(x) cost 60 { complex_hot => x.conj() }
    /// A complex number of real and imaginary parts.
    COMPLEX = "complex"(re, im) cost 90 { real_complex => Cx::new(re, im) }
    /// A complex number of magnitude and angle.
    POLAR = "polar"(r, t) cost 1500 { real_complex => Cx::polar(r, t) }
    /// `sin(pi x) / (pi x)`, 1 at 0.
    SINC = "sinc"(x) cost 800 {
        float_scalar => { let p = x * V::c(std::f64::consts::PI); V::pick(x == V::zero(), V::one(), p.sin() / p) },
        complex => {
            let p = x.scale(V::c(std::f64::consts::PI));
            if x.is_zero() { Cx::c(1.0) } else { s::complex_sinh(p.mul_i()).mul_neg_i() / p }
        },
    }
}
