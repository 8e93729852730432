//! Special functions. The rarely used ones are computed one element at a time in f64, whatever the dtype in memory, so that
//! each costs one small loop per dtype and no copies per instruction set.

mod bessel;
mod gamma;
mod normal;
mod orthogonal;

use super::Pointwise;
use super::arithmetic::xlog;
use super::macros::one_by_one;
use crate::DType;
use crate::pointwise;

pointwise! {
    /// Error function.
    ERF = "erf"(x) cost 500 { float => x.erf() }
    /// Complementary error function.
    ERFC = "erfc"(x) cost 900 { float => x.erfc() }
    /// Inverse error function.
    ERFINV = "erfinv"(x) cost 40000 { float_scalar => x.erfinv() }
    /// log |gamma(x)|.
    LGAMMA = "lgamma"(x) cost 20000 { float_scalar => x.lgamma() }
    /// Derivative of lgamma.
    DIGAMMA = "digamma"(x) cost 20000 { float_scalar => x.digamma() }
    /// Modified Bessel function of the first kind, order 0.
    I0 = "i0"(x) cost 30000 { float_scalar => x.i0() }
    /// `x log1p(y)`, 0 where x is 0 unless y is NaN.
    XLOG1PY = "xlog1py"(x, y) cost 600 { float => xlog(x, y, y.log1p()) }
    /// log(x / (1 - x)), x clamped to [eps, 1 - eps] where eps is not negative.
    LOGIT = "logit"(x; eps) cost 900 {
        float => {
            let hi = V::one() - eps;
            let z = V::pick(eps < V::zero(), x, V::pick(x < eps, eps, V::pick(x > hi, hi, x)));
            (z / (V::one() - z)).ln()
        },
    }
    /// `-x log(x)`, 0 at 0 and minus infinity below.
    ENTR = "entr"(x) cost 400 {
        float => V::pick(x.is_nan(), x, V::pick(x > V::zero(), -x * x.ln(),
            V::pick(x == V::zero(), V::zero(), -V::INF))),
    }
    /// Normal distribution function.
    NDTR = "ndtr"(x) cost 900 { float => (x * V::c(-std::f64::consts::FRAC_1_SQRT_2)).erfc() * V::c(0.5) }
}

/// Rounding of steps on the way, for functions whose results hang on the precision or the range of the dtype in memory.
fn single(v: f64) -> f64 {
    f64::from(v as f32)
}
/// No rounding.
fn double(v: f64) -> f64 {
    v
}
/// An operator with a formula of its own for float32.
macro_rules! by_precision {
    ($($(#[$m:meta])* $S:ident = $single:ident, $double:ident;)*) => {$(
        $(#[$m])*
        pub static $S: Pointwise = Pointwise {
            lookup: |d, l| ((if d == DType::F32 { &$single } else { &$double }).lookup)(d, l),
            ..$double
        };
    )*};
}
by_precision! {
    /// Airy function.
    AIRY_AI = AIRY_AI_SINGLE, AIRY_AI_DOUBLE;
    /// Logarithm of the normal distribution function.
    LOG_NDTR = LOG_NDTR_SINGLE, LOG_NDTR_DOUBLE;
    /// Laguerre polynomial.
    LAGUERRE_L = LAGUERRE_SINGLE, LAGUERRE_DOUBLE;
}
one_by_one! {
    /// Exponentially scaled modified Bessel function of the first kind, order 0.
    I0E = "i0e" (x) true cost 30000 => |x| bessel::i_scaled(x, 0);
    /// Modified Bessel function of the first kind, order 1.
    I1 = "i1" (x) true cost 30000 => |x| bessel::i(x, 1);
    /// Exponentially scaled modified Bessel function of the first kind, order 1.
    I1E = "i1e" (x) true cost 30000 => |x| bessel::i_scaled(x, 1);
    /// Bessel function of the first kind, order 0.
    BESSEL_J0 = "bessel_j0" (x) false cost 30000 => |x| bessel::finite(libm::j0, x);
    /// Bessel function of the first kind, order 1.
    BESSEL_J1 = "bessel_j1" (x) false cost 30000 => |x| bessel::finite(libm::j1, x);
    /// Bessel function of the second kind, order 0.
    BESSEL_Y0 = "bessel_y0" (x) false cost 30000 => |x| bessel::finite(libm::y0, x);
    /// Bessel function of the second kind, order 1.
    BESSEL_Y1 = "bessel_y1" (x) false cost 30000 => |x| bessel::finite(libm::y1, x);
    /// Modified Bessel function of the first kind, order 0.
    MODIFIED_BESSEL_I0 = "modified_bessel_i0" (x) false cost 30000 => |x| bessel::i(x, 0);
    /// Modified Bessel function of the first kind, order 1.
    MODIFIED_BESSEL_I1 = "modified_bessel_i1" (x) false cost 30000 => |x| bessel::i(x, 1);
    /// Modified Bessel function of the second kind, order 0.
    MODIFIED_BESSEL_K0 = "modified_bessel_k0" (x) false cost 200000 => |x| bessel::k(x, 0);
    /// Modified Bessel function of the second kind, order 1.
    MODIFIED_BESSEL_K1 = "modified_bessel_k1" (x) false cost 200000 => |x| bessel::k(x, 1);
    /// Exponentially scaled modified Bessel function of the second kind, order 0.
    SCALED_MODIFIED_BESSEL_K0 = "scaled_modified_bessel_k0" (x) false cost 200000 => |x| bessel::k_scaled(x, 0);
    /// Exponentially scaled modified Bessel function of the second kind, order 1.
    SCALED_MODIFIED_BESSEL_K1 = "scaled_modified_bessel_k1" (x) false cost 200000 => |x| bessel::k_scaled(x, 1);
    /// Spherical Bessel function of the first kind, order 0.
    SPHERICAL_BESSEL_J0 = "spherical_bessel_j0" (x) false cost 30000 => |x| bessel::spherical_j0(x);
    AIRY_AI_SINGLE = "airy_ai" (x) false cost 200000 => |x| bessel::airy_ai(x, single);
    AIRY_AI_DOUBLE = "airy_ai" (x) false cost 200000 => |x| bessel::airy_ai(x, double);
    /// Scaled complementary error function, `exp(x^2) erfc(x)`.
    ERFCX = "erfcx" (x) false cost 50000 => |x| normal::erfcx(x);
    /// Inverse of the normal distribution function.
    NDTRI = "ndtri" (x) false cost 100000 => |x| normal::ndtri(x);
    LOG_NDTR_SINGLE = "log_ndtr" (x) false cost 50000 => |x| normal::log_ndtr(x, single);
    LOG_NDTR_DOUBLE = "log_ndtr" (x) false cost 50000 => |x| normal::log_ndtr(x, double);
    /// Hurwitz zeta function.
    ZETA = "zeta" (s, q) false cost 300000 => |s, q| gamma::zeta(s, q);
    /// The `n`th derivative of digamma.
    POLYGAMMA = "polygamma" (x; n) true cost 300000 => |x, n| gamma::polygamma(n, x);
    /// Regularised lower incomplete gamma function.
    IGAMMA = "igamma" (a, x) true cost 300000 => |a, x| gamma::igamma(a, x);
    /// Regularised upper incomplete gamma function.
    IGAMMAC = "igammac" (a, x) true cost 300000 => |a, x| gamma::igammac(a, x);
    /// Chebyshev polynomial of the first kind.
    CHEBYSHEV_T = "chebyshev_polynomial_t" (x, n) false cost 60000 => |x, n| orthogonal::chebyshev_t(x, n);
    /// Chebyshev polynomial of the second kind.
    CHEBYSHEV_U = "chebyshev_polynomial_u" (x, n) false cost 60000 => |x, n| orthogonal::chebyshev_u(x, n);
    /// Chebyshev polynomial of the third kind.
    CHEBYSHEV_V = "chebyshev_polynomial_v" (x, n) false cost 60000 => |x, n| orthogonal::chebyshev_v(x, n);
    /// Chebyshev polynomial of the fourth kind.
    CHEBYSHEV_W = "chebyshev_polynomial_w" (x, n) false cost 60000 => |x, n| orthogonal::chebyshev_w(x, n);
    /// Chebyshev polynomial of the first kind of `2 x - 1`.
    SHIFTED_T = "shifted_chebyshev_polynomial_t" (x, n) false cost 60000 => |x, n| orthogonal::chebyshev_t(2.0 * x - 1.0, n);
    /// Chebyshev polynomial of the second kind of `2 x - 1`.
    SHIFTED_U = "shifted_chebyshev_polynomial_u" (x, n) false cost 60000 => |x, n| orthogonal::chebyshev_u(2.0 * x - 1.0, n);
    /// Chebyshev polynomial of the third kind of `2 x - 1`.
    SHIFTED_V = "shifted_chebyshev_polynomial_v" (x, n) false cost 60000 => |x, n| orthogonal::chebyshev_v(2.0 * x - 1.0, n);
    /// Chebyshev polynomial of the fourth kind of `2 x - 1`.
    SHIFTED_W = "shifted_chebyshev_polynomial_w" (x, n) false cost 60000 => |x, n| orthogonal::chebyshev_w(2.0 * x - 1.0, n);
    /// Physicist's Hermite polynomial.
    HERMITE_H = "hermite_polynomial_h" (x, n) false cost 60000 => |x, n| orthogonal::hermite_h(x, n);
    /// Probabilist's Hermite polynomial.
    HERMITE_HE = "hermite_polynomial_he" (x, n) false cost 60000 => |x, n| orthogonal::hermite_he(x, n);
    LAGUERRE_SINGLE = "laguerre_polynomial_l" (x, n) false cost 60000 => |x, n| orthogonal::laguerre_l(x, n, single);
    LAGUERRE_DOUBLE = "laguerre_polynomial_l" (x, n) false cost 60000 => |x, n| orthogonal::laguerre_l(x, n, double);
    /// Legendre polynomial.
    LEGENDRE_P = "legendre_polynomial_p" (x, n) false cost 60000 => |x, n| orthogonal::legendre_p(x, n);
}
