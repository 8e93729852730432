//! Units in the last place against f64 (for f32) and against libm or compensated identities (for f64), on every
//! instruction set of the machine, with the edges of the range.

use super::{double, single};
use crate::engine::isa::{Isa, Job, Portable, run};

/// Distance in units of the last place of f32 to an exact value.
fn ulp32(got: f32, want: f64) -> f64 {
    let near = want as f32;
    if got.to_bits() == near.to_bits() || (got.is_nan() && near.is_nan()) {
        return 0.0;
    }
    if !got.is_finite() || got.is_nan() != near.is_nan() || (got == 0.0 && near == 0.0) {
        return if near.is_finite() && near.abs() == f32::MAX { 1.0 } else { f64::INFINITY };
    }
    let e = (want.abs().max(1.2e-38).log2().floor() as i32).clamp(-126, 127) - 23;
    ((got as f64 - want) / (2f64).powi(e)).abs()
}
fn ulp64(got: f64, want: f64) -> f64 {
    if got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()) {
        return 0.0;
    }
    if !got.is_finite() || !want.is_finite() || (got == 0.0 && want == 0.0) {
        return f64::INFINITY;
    }
    (got.to_bits() as i64).abs_diff(want.to_bits() as i64) as f64
}
fn edges() -> Vec<f64> {
    let mut v = vec![
        0.0,
        1.0,
        0.5,
        2.0,
        1e-45,
        1e-40,
        1.2e-38,
        1e-30,
        1e-10,
        1e-4,
        0.95,
        0.9999,
        1.0001,
        9.0,
        10.5,
        50.0,
        87.3,
        88.7,
        88.73,
        89.5,
        103.9,
        104.5,
        127.9,
        149.5,
        151.0,
        709.7,
        1e5,
        1e30,
        3.4e38,
        f64::INFINITY,
        f64::NAN,
    ];
    v.extend(v.clone().iter().map(|x| -x));
    v
}
fn inputs(lo: f64, hi: f64) -> impl Iterator<Item = f64> {
    edges().into_iter().chain((0..200_000).map(move |i| lo + (hi - lo) * (i as f64 + 0.37) / 200_000.0))
}

macro_rules! on_isas {
    ($T:ident, $m:ident, $f:ident, $x:expr) => {{
        struct J($T);
        impl Job for J {
            type Out = $T;
            #[inline(always)]
            fn run<I: Isa>(self) -> $T {
                $m::$f::<I>(self.0)
            }
        }
        [run(J($x)), $m::$f::<Portable>($x)]
    }};
}
macro_rules! check32 {
    ($($f:ident($lo:expr, $hi:expr) < $tol:literal: |$x:ident| $want:expr;)*) => {$(
        #[test]
        fn $f() {
            let mut worst = (0.0, 0.0f32, 0.0f32);
            for x in inputs($lo, $hi) {
                let x = x as f32;
                let $x = x as f64;
                let want: f64 = $want;
                for got in on_isas!(f32, single, $f, x) {
                    let e = ulp32(got, want);
                    if e > worst.0 || e.is_nan() { worst = (e, x, got); }
                }
            }
            println!("{:8} {:.2} ulp at {:e}", stringify!($f), worst.0, worst.1);
            assert!(worst.0 < $tol, "{:?}", worst);
        }
    )*};
}
mod f32_functions {
    use super::*;
    check32! {
        exp(-105.0, 90.0) < 1.0: |x| x.exp();
        exp2(-151.0, 129.0) < 1.8: |x| x.exp2();
        expm1(-20.0, 89.0) < 2.0: |x| x.exp_m1();
        ln(1e-3, 20.0) < 1.5: |x| x.ln();
        log2(1e-3, 20.0) < 1.0: |x| x.log2();
        log10(1e-3, 20.0) < 1.0: |x| x.log10();
        log1p(-1.0, 3.0) < 2.0: |x| x.ln_1p();
        tanh(-10.0, 10.0) < 2.5: |x| x.tanh();
        sinh(-89.0, 89.0) < 1.0: |x| x.sinh();
        cosh(-89.0, 89.0) < 1.0: |x| x.cosh();
        asinh(-10.0, 10.0) < 1.0: |x| libm::asinh(x);
        acosh(1.0, 10.0) < 1.0: |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) };
        atanh(-1.0, 1.0) < 1.0: |x| libm::atanh(x);
        erf(-4.5, 4.5) < 0.9: |x| libm::erf(x);
        erfc(-4.0, 10.5) < 3.0: |x| libm::erfc(x);
        sigmoid(-88.0, 20.0) < 3.0: |x| if x < -88.7 { if x < -88.73 { 0.0 } else { single::sigmoid::<Portable>(x as f32) as f64 } } else { 1.0 / (1.0 + (-x).exp()) };
        sigmoid_gate(-80.0, 20.0) < 3.5: |x| if x < -88.0 { single::sigmoid_gate::<Portable>(x as f32) as f64 } else { 1.0 / (1.0 + (-x).exp()) };
        tanh_gate(-10.0, 10.0) < 4.0: |x| x.tanh();
        sin(-100.0, 100.0) < 1.0: |x| x.sin();
        cos(-100.0, 100.0) < 1.0: |x| x.cos();
        tan(-100.0, 100.0) < 1.5: |x| x.tan();
        asin(-1.0, 1.0) < 1.5: |x| x.asin();
        acos(-1.0, 1.0) < 1.5: |x| x.acos();
        atan(-9.0, 9.0) < 1.5: |x| x.atan();
        lgamma(0.1, 30.0) < 1.0: |x| libm::lgamma(x);
    }
}
/// Of e^x hardly a result is not the nearest number, where products are fused.
#[test]
fn exp_is_nearly_always_the_nearest() {
    if crate::engine::isa::level() == crate::engine::isa::Level::Portable {
        return;
    }
    let (mut all, mut off, mut worst) = (0, 0, 0.0f64);
    for x in (0..400_000).map(|i| (-87.3 + 176.0 * (i as f64 + 0.37) / 400_000.0) as f32) {
        let [got, _] = on_isas!(f32, single, exp, x);
        let e = ulp32(got, (x as f64).exp());
        all += 1;
        off += usize::from(e > 0.5);
        worst = worst.max(e);
    }
    assert!(worst < 0.52 && off * 100 < all, "{worst} {off} of {all}");
}
/// The rests of the factors of erfc are those of fused products.
#[test]
fn erfc_with_fused_products() {
    if crate::engine::isa::level() == crate::engine::isa::Level::Portable {
        return;
    }
    for x in inputs(-4.0, 9.0).filter(|x| x.abs() < 9.0) {
        let [got, _] = on_isas!(f32, single, erfc, x as f32);
        let e = ulp32(got, libm::erfc((x as f32) as f64));
        assert!(e < 1.2, "{x:e}: {got} {e}");
    }
}
#[test]
fn normal_distribution() {
    let want = |x: f64| 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
    for x in inputs(-6.0, 6.0) {
        let x = x as f32;
        for got in on_isas!(f32, single, normal_cdf, x) {
            let e = (got as f64 - want(x as f64)).abs();
            assert!(e < 1.6e-7 || (x.is_nan() && got.is_nan()), "{x}: {got}");
            // small values have digits of their own
            assert!(!(-4.0..0.0).contains(&x) || e < 2e-4 * want(x as f64), "{x}: {got}");
            assert!(!(-5.75..-4.0).contains(&x) || e < 1e-8, "{x}: {got}");
            assert!(x.is_nan() || x.abs() <= 5.75 || got == if x > 0.0 { 1.0 } else { 0.0 }, "{x}: {got}");
        }
        for got in on_isas!(f64, double, normal_cdf, x as f64) {
            assert!((got - want(x as f64)).abs() <= 1e-15 * got || x.is_nan(), "{x}: {got}");
        }
    }
    // the slope of gelu at 0
    for x in [0.0, -0.0, f32::MIN_POSITIVE, -1e-20] {
        assert_eq!(on_isas!(f32, single, normal_cdf, x), [0.5; 2], "{x}");
    }
    for x in [8.0, 1e4, f32::MAX, f32::INFINITY] {
        for (got, negative) in
            on_isas!(f32, single, normal_cdf, x).into_iter().zip(on_isas!(f32, single, normal_cdf, -x))
        {
            assert_eq!((got, negative), (1.0, 0.0), "{x}");
        }
    }
}
macro_rules! check64 {
    ($($f:ident($lo:expr, $hi:expr) < $tol:literal: |$x:ident| $want:expr;)*) => {$(
        #[test]
        fn $f() {
            let mut worst = (0.0, 0.0f64, 0.0f64);
            for x in inputs($lo, $hi).chain([1e-310, 5e-324, 1e300, -746.5, 1.7e308, 710.2, 1e-200]) {
                let $x = x;
                let want: f64 = $want;
                for got in on_isas!(f64, double, $f, x) {
                    let e = ulp64(got, want);
                    if e > worst.0 || e.is_nan() { worst = (e, x, got); }
                }
            }
            println!("{:8} {:.2} ulp at {:e}", stringify!($f), worst.0, worst.1);
            assert!(worst.0 <= $tol, "{:?}", worst);
        }
    )*};
}
mod f64_functions {
    use super::*;
    check64! {
        exp(-745.0, 709.8) < 2.0: |x| x.exp();
        exp2(-1074.0, 1024.0) < 2.0: |x| x.exp2();
        expm1(-40.0, 709.0) < 3.0: |x| x.exp_m1();
        ln(1e-3, 20.0) < 2.0: |x| x.ln();
        log1p(-1.0, 3.0) < 3.0: |x| x.ln_1p();
        tanh(-22.0, 22.0) < 4.0: |x| x.tanh();
        sinh(-709.0, 709.0) < 4.0: |x| x.sinh();
        cosh(-709.0, 709.0) < 4.0: |x| x.cosh();
        asinh(-10.0, 10.0) < 4.0: |x| libm::asinh(x);
        acosh(1.0, 10.0) < 4.0: |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) };
        atanh(-1.0, 1.0) < 4.0: |x| libm::atanh(x);
    }
}

#[test]
fn pow_special_cases_are_those_of_libm() {
    let v = [
        0.0f32,
        -0.0,
        1.0,
        -1.0,
        2.0,
        -2.0,
        3.0,
        -3.0,
        0.5,
        -0.5,
        1e30,
        1e-30,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        2.5,
        -1e8,
    ];
    for x in v {
        for y in v {
            let (got, want) = (single::pow::<Portable>(x, y), x.powf(y));
            assert!(
                got == want && got.is_sign_negative() == want.is_sign_negative()
                    || got.is_nan() && want.is_nan()
                    || (got - want).abs() <= want.abs() * 1e-7,
                "{x}^{y} = {got}, not {want}"
            );
        }
    }
}

/// Expected values by 40-digit arithmetic.
#[test]
fn rare_functions() {
    use super::rare::*;
    for (got, want) in [
        (erfinv(0.5), 0.476936276204469873381418353643),
        (erfinv(0.999999), 3.4589107372754987775),
        (erfinv(-1e-5), -8.862269254759594528e-6),
        (digamma(1.0), -0.577215664901532860607),
        (digamma(-0.5), 0.03648997397857652055902),
        (digamma(1.47), 0.0080664890113648684423),
        (digamma(20.25), 2.9832602639753078147),
        (i0(1.0), 1.26606587775200833560),
        (i0(40.0), 14894774793419899.924),
    ] {
        assert!(((got - want) / want).abs() < 1e-13, "{got} {want}");
    }
}

/// The vectors of AVX-512: their bounds, the ends of the range, and the same results at every place and of every length.
#[cfg(target_arch = "x86_64")]
#[test]
fn by_vectors() {
    use super::wide;
    if !wide::available() {
        return;
    }
    type All = unsafe fn(*mut f32, *const f32, usize);
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let gelu =
        move |x: f64| x * sigmoid(2.0 * std::f64::consts::FRAC_2_PI.sqrt() * (x + 0.044_715 * x * x * x));
    let silu = move |x: f64| x * sigmoid(x);
    let cases: [(&str, All, &dyn Fn(f64) -> f64, f64, (f64, f64)); 5] = [
        ("exp", wide::exp, &f64::exp, 0.53, (-87.3, 88.8)),
        ("tanh", wide::tanh, &f64::tanh, 0.52, (-10.0, 10.0)),
        ("sigmoid", wide::sigmoid, &sigmoid, 3.0, (-87.3, 20.0)),
        ("silu", wide::silu, &silu, 3.5, (-80.0, 20.0)),
        // the rounding of the exponent counts as many times as it is large
        ("gelu_tanh", wide::gelu_tanh, &gelu, 24.0, (-4.0, 20.0)),
    ];
    for (name, all, want, bound, (low, high)) in cases {
        let x: Vec<f32> = inputs(low, high).map(|x| x as f32).collect();
        let mut y = vec![0.0f32; x.len()];
        // SAFETY: they are available, and both have as many numbers.
        unsafe { all(y.as_mut_ptr(), x.as_ptr(), x.len()) };
        let mut worst = (0.0, 0.0);
        for (x, y) in x.iter().zip(&y).filter(|(x, _)| (low..=high).contains(&f64::from(**x))) {
            let e = ulp32(*y, want(f64::from(*x)));
            worst = if e > worst.0 || e.is_nan() { (e, *x) } else { worst };
        }
        assert!(worst.0 < bound, "{name}: {worst:?}");
        // every length and every place, in place as well
        for n in 0..70 {
            let mut some = x[n..2 * n].to_vec();
            let at = some.as_mut_ptr();
            // SAFETY: they are available; one place.
            unsafe { all(at, at, n) };
            let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&some), bits(&y[n..2 * n]), "{name} {n}");
        }
    }
    let ends =
        [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-45, -1e-45, 3e38, -3e38, 89.0, -104.5];
    let of = |all: All| {
        let mut y = ends;
        // SAFETY: as above.
        unsafe { all(y.as_mut_ptr(), ends.as_ptr(), ends.len()) };
        y.map(|y| if y.is_nan() { "NaN".to_string() } else { format!("{y:e}") }).join(" ")
    };
    assert_eq!(of(wide::exp), "1e0 1e0 inf 0e0 NaN 1e0 1e0 inf 0e0 inf 0e0");
    assert_eq!(of(wide::tanh), "0e0 -0e0 1e0 -1e0 NaN 1e-45 -1e-45 1e0 -1e0 1e0 -1e0");
    assert_eq!(of(wide::sigmoid), "5e-1 5e-1 1e0 0e0 NaN 5e-1 5e-1 1e0 0e0 1e0 0e0");
    assert_eq!(of(wide::silu), "0e0 -0e0 inf NaN NaN 0e0 -0e0 3e38 -0e0 8.9e1 -0e0");
    // infinity times 0 is NaN, as in the formula
    assert_eq!(of(wide::gelu), "0e0 -0e0 inf NaN NaN 0e0 -0e0 3e38 -0e0 8.9e1 -0e0");
    let x: Vec<f32> = inputs(-7.0, 7.0).map(|x| x as f32).filter(|x| x.is_finite()).collect();
    let mut y = vec![0.0f32; x.len()];
    // SAFETY: they are available, and both have as many numbers.
    unsafe { wide::gelu(y.as_mut_ptr(), x.as_ptr(), x.len()) };
    for (x, y) in x.iter().map(|x| f64::from(*x)).zip(&y) {
        let want = 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
        let e = (f64::from(*y) - want).abs();
        assert!(e <= 6e-8 * x.abs() + 1.2e-7 * want.abs() + 1e-45, "{x}: {y} {want}");
    }
    assert_eq!(of(wide::gelu_tanh), "0e0 -0e0 inf NaN NaN 0e0 -0e0 3e38 -0e0 8.9e1 -0e0");
}
