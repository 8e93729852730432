//! Rarely used special functions: computed one element at a time in f64, whatever the dtype in memory, so that each costs
//! one small loop per dtype and no copies per instruction set. And the integer functions that need a loop per element.

mod bessel;
mod gamma;
mod normal;
mod orthogonal;

use half::{bf16, f16};

use super::{Loop, LoopFn, Param, Pointwise};
use crate::DType;
use crate::isa::Level;
use crate::pointwise;
use crate::real::{Int, Real};

/// A function of `N` numbers and scalar arguments.
trait Rare<const N: usize>: 'static {
    fn f(x: [f64; N], p: &[Param]) -> f64;
}
/// A float in memory.
trait Stored: Copy {
    fn get(self) -> f64;
    fn put(v: f64) -> Self;
}
macro_rules! stored {
    ($($t:ty: |$x:ident| $get:expr, |$v:ident| $put:expr;)*) => {$(
        impl Stored for $t {
            #[inline(always)]
            fn get(self) -> f64 {
                let $x = self;
                $get
            }
            #[inline(always)]
            fn put($v: f64) -> Self {
                $put
            }
        }
    )*};
}
stored! {
    f64: |x| x, |v| v;
    f32: |x| f64::from(x), |v| v as f32;
    f16: |x| x.to_f64(), |v| f16::from_f32(v as f32);
    bf16: |x| x.to_f64(), |v| bf16::from_f32(v as f32);
}

/// The loop of a function over elements of `T`; the contract is that of [`LoopFn`].
unsafe fn run<Op: Rare<N>, T: Stored, const N: usize, const P: usize>(
    ptrs: *const *mut u8,
    strides: *const isize,
    n: usize,
    params: *const Param,
    _: u32,
) {
    // SAFETY: the caller passes P parameters, and 1 + N pointers and strides with n elements of T behind each.
    unsafe {
        let p = if P == 0 { &[] } else { std::slice::from_raw_parts(params, P) };
        for i in 0..n as isize {
            let x = std::array::from_fn(|k| {
                let from = *ptrs.add(1 + k);
                from.offset(i * *strides.add(1 + k)).cast::<T>().read().get()
            });
            (*ptrs).offset(i * *strides).cast::<T>().write(T::put(Op::f(x, p)));
        }
    }
}
/// The loops of a function.
fn rare<Op: Rare<N>, const N: usize, const P: usize>(d: DType, halves: bool) -> Option<Loop> {
    let run: LoopFn = match d {
        DType::F32 => run::<Op, f32, N, P>,
        DType::F64 => run::<Op, f64, N, P>,
        DType::F16 if halves => run::<Op, f16, N, P>,
        DType::BF16 if halves => run::<Op, bf16, N, P>,
        _ => return None,
    };
    Some(Loop { run, out: d, ins: [d; 3] })
}

/// Defines operators from functions of f64; `halves` says whether float16 and bfloat16 have loops too.
macro_rules! rare {
    ($($(#[$m:meta])* $S:ident = $name:literal [$($x:ident),+] [$($p:ident),*] $halves:literal cost $cost:literal => $body:expr;)*) => {$(
        $(#[$m])*
        pub static $S: Pointwise = {
            struct Op;
            const N: usize = [$(stringify!($x)),+].len();
            const P: usize = { const NAMES: &[&str] = &[$(stringify!($p)),*]; NAMES.len() };
            impl Rare<N> for Op {
                #[inline(always)]
                fn f([$($x),+]: [f64; N], p: &[Param]) -> f64 {
                    let mut _p = p.iter();
                    $(let $p = _p.next().map_or(0.0, |p| p.re);)*
                    $body
                }
            }
            fn lookup(d: DType, _: Level) -> Option<Loop> {
                rare::<Op, N, P>(d, $halves)
            }
            Pointwise { name: $name, inputs: N, params: P, cost: $cost, lookup }
        };
    )*};
}
rare! {
    /// Exponentially scaled modified Bessel function of the first kind, order 0.
    I0E = "i0e" [x] [] true cost 30000 => bessel::i_scaled(x, 0);
    /// Modified Bessel function of the first kind, order 1.
    I1 = "i1" [x] [] true cost 30000 => bessel::i(x, 1);
    /// Exponentially scaled modified Bessel function of the first kind, order 1.
    I1E = "i1e" [x] [] true cost 30000 => bessel::i_scaled(x, 1);
    /// Bessel function of the first kind, order 0.
    BESSEL_J0 = "bessel_j0" [x] [] false cost 30000 => libm::j0(x);
    /// Bessel function of the first kind, order 1.
    BESSEL_J1 = "bessel_j1" [x] [] false cost 30000 => libm::j1(x);
    /// Bessel function of the second kind, order 0.
    BESSEL_Y0 = "bessel_y0" [x] [] false cost 30000 => libm::y0(x);
    /// Bessel function of the second kind, order 1.
    BESSEL_Y1 = "bessel_y1" [x] [] false cost 30000 => libm::y1(x);
    /// Modified Bessel function of the first kind, order 0.
    MODIFIED_BESSEL_I0 = "modified_bessel_i0" [x] [] false cost 30000 => bessel::i(x, 0);
    /// Modified Bessel function of the first kind, order 1.
    MODIFIED_BESSEL_I1 = "modified_bessel_i1" [x] [] false cost 30000 => bessel::i(x, 1);
    /// Modified Bessel function of the second kind, order 0.
    MODIFIED_BESSEL_K0 = "modified_bessel_k0" [x] [] false cost 200000 => bessel::k(x, 0);
    /// Modified Bessel function of the second kind, order 1.
    MODIFIED_BESSEL_K1 = "modified_bessel_k1" [x] [] false cost 200000 => bessel::k(x, 1);
    /// Exponentially scaled modified Bessel function of the second kind, order 0.
    SCALED_MODIFIED_BESSEL_K0 = "scaled_modified_bessel_k0" [x] [] false cost 200000 => bessel::k_scaled(x, 0);
    /// Exponentially scaled modified Bessel function of the second kind, order 1.
    SCALED_MODIFIED_BESSEL_K1 = "scaled_modified_bessel_k1" [x] [] false cost 200000 => bessel::k_scaled(x, 1);
    /// Spherical Bessel function of the first kind, order 0.
    SPHERICAL_BESSEL_J0 = "spherical_bessel_j0" [x] [] false cost 30000 => bessel::spherical_j0(x);
    /// Airy function.
    AIRY_AI = "airy_ai" [x] [] false cost 200000 => bessel::airy_ai(x);
    /// Scaled complementary error function, `exp(x^2) erfc(x)`.
    ERFCX = "erfcx" [x] [] false cost 50000 => normal::erfcx(x);
    /// Inverse of the normal distribution function.
    NDTRI = "ndtri" [x] [] false cost 100000 => normal::ndtri(x);
    /// Logarithm of the normal distribution function.
    LOG_NDTR = "log_ndtr" [x] [] false cost 50000 => normal::log_ndtr(x);
    /// Hurwitz zeta function.
    ZETA = "zeta" [s, q] [] false cost 300000 => gamma::zeta(s, q);
    /// The `n`th derivative of digamma.
    POLYGAMMA = "polygamma" [x] [n] true cost 300000 => gamma::polygamma(n, x);
    /// Regularised lower incomplete gamma function.
    IGAMMA = "igamma" [a, x] [] true cost 300000 => gamma::igamma(a, x);
    /// Regularised upper incomplete gamma function.
    IGAMMAC = "igammac" [a, x] [] true cost 300000 => gamma::igammac(a, x);
    /// Chebyshev polynomial of the first kind.
    CHEBYSHEV_T = "chebyshev_polynomial_t" [x, n] [] false cost 60000 => orthogonal::chebyshev_t(x, n);
    /// Chebyshev polynomial of the second kind.
    CHEBYSHEV_U = "chebyshev_polynomial_u" [x, n] [] false cost 60000 => orthogonal::chebyshev_u(x, n);
    /// Chebyshev polynomial of the third kind.
    CHEBYSHEV_V = "chebyshev_polynomial_v" [x, n] [] false cost 60000 => orthogonal::chebyshev_v(x, n);
    /// Chebyshev polynomial of the fourth kind.
    CHEBYSHEV_W = "chebyshev_polynomial_w" [x, n] [] false cost 60000 => orthogonal::chebyshev_w(x, n);
    /// Chebyshev polynomial of the first kind of `2 x - 1`.
    SHIFTED_T = "shifted_chebyshev_polynomial_t" [x, n] [] false cost 60000 => orthogonal::chebyshev_t(2.0 * x - 1.0, n);
    /// Chebyshev polynomial of the second kind of `2 x - 1`.
    SHIFTED_U = "shifted_chebyshev_polynomial_u" [x, n] [] false cost 60000 => orthogonal::chebyshev_u(2.0 * x - 1.0, n);
    /// Chebyshev polynomial of the third kind of `2 x - 1`.
    SHIFTED_V = "shifted_chebyshev_polynomial_v" [x, n] [] false cost 60000 => orthogonal::chebyshev_v(2.0 * x - 1.0, n);
    /// Chebyshev polynomial of the fourth kind of `2 x - 1`.
    SHIFTED_W = "shifted_chebyshev_polynomial_w" [x, n] [] false cost 60000 => orthogonal::chebyshev_w(2.0 * x - 1.0, n);
    /// Physicist's Hermite polynomial.
    HERMITE_H = "hermite_polynomial_h" [x, n] [] false cost 60000 => orthogonal::hermite_h(x, n);
    /// Probabilist's Hermite polynomial.
    HERMITE_HE = "hermite_polynomial_he" [x, n] [] false cost 60000 => orthogonal::hermite_he(x, n);
    /// Laguerre polynomial.
    LAGUERRE_L = "laguerre_polynomial_l" [x, n] [] false cost 60000 => orthogonal::laguerre_l(x, n);
    /// Legendre polynomial.
    LEGENDRE_P = "legendre_polynomial_p" [x, n] [] false cost 60000 => orthogonal::legendre_p(x, n);
}

/// Greatest common divisor, not negative.
#[inline(always)]
fn gcd<V: Int>(a: V, b: V) -> V {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != V::ZERO {
        (a, b) = (b, a.rem_trunc(b));
    }
    a
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
