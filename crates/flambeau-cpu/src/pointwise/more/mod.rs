//! Rarely used special functions: computed one element at a time in f64, whatever the dtype in memory, so that each costs
//! one small loop per dtype and no copies per instruction set. And the integer functions that need a loop per element.

mod bessel;
mod gamma;
mod normal;
mod orthogonal;
mod sampling;

use super::{Loop, Pointwise};
use crate::DType;
use crate::isa::Level;
use crate::pointwise;
use crate::real::Int;

/// Defines operators from functions of f64. `false` before the cost: there are no loops for float16 and bfloat16.
macro_rules! rare {
    ($($(#[$m:meta])* $S:ident = $name:literal $args:tt $halves:literal cost $cost:literal => |$($x:ident),+| $body:expr;)*) => {$(
        $(#[$m])*
        pub static $S: Pointwise = {
            struct Op;
            pointwise!(@class float_scalar Op $args { $(let $x = $x.to_f64();)+ V::c($body) });
            fn lookup(d: DType, l: Level) -> Option<Loop> {
                if !$halves && !matches!(d, DType::F32 | DType::F64) {
                    return None;
                }
                super::float_scalar::<Op>(d, l)
            }
            Pointwise {
                name: $name,
                inputs: pointwise!(@inputs $args),
                params: pointwise!(@params $args),
                cost: $cost,
                lookup,
            }
        };
    )*};
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
    /// Laguerre polynomial.
    LAGUERRE_L = LAGUERRE_SINGLE, LAGUERRE_DOUBLE;
}
rare! {
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
    /// Logarithm of the normal distribution function.
    LOG_NDTR = "log_ndtr" (x) false cost 50000 => |x| normal::log_ndtr(x);
    /// Hurwitz zeta function.
    ZETA = "zeta" (s, q) false cost 300000 => |s, q| gamma::zeta(s, q);
    /// The `n`th derivative of digamma.
    POLYGAMMA = "polygamma" (x; n) true cost 300000 => |x, n| gamma::polygamma(n, x);
    /// Regularised lower incomplete gamma function.
    IGAMMA = "igamma" (a, x) true cost 300000 => |a, x| gamma::igamma(a, x);
    /// Regularised upper incomplete gamma function.
    IGAMMAC = "igammac" (a, x) true cost 300000 => |a, x| gamma::igammac(a, x);
    /// Derivative of a gamma variate `x` for its shape.
    STANDARD_GAMMA_GRAD = "_standard_gamma_grad" (a, x) false cost 300000 => |a, x| sampling::gamma(a, x);
    /// Derivative of a component `x` of a Dirichlet variate for its concentration.
    DIRICHLET_GRAD = "_dirichlet_grad" (x, a, total) false cost 300000 => |x, a, total| sampling::dirichlet(x, a, total);
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
    /// Greatest common divisor.
    GCD = "gcd"(a, b) cost 20000 { int => gcd(a, b) }
    /// Least common multiple.
    LCM = "lcm"(a, b) cost 20000 { int => { let g = gcd(a, b); if g == V::ZERO { g } else { (a.div_trunc(g) * b).abs() } } }
    /// `-x log(x)`, 0 at 0 and minus infinity below.
    ENTR = "entr"(x) cost 400 {
        float => V::pick(x.is_nan(), x, V::pick(x > V::zero(), -x * x.ln(),
            V::pick(x == V::zero(), V::zero(), -V::INF))),
    }
    /// Normal distribution function.
    NDTR = "ndtr"(x) cost 900 { float => (x * V::c(-std::f64::consts::FRAC_1_SQRT_2)).erfc() * V::c(0.5) }
}
