//! The normal distribution's tails.

use std::f64::consts::{FRAC_1_SQRT_2, PI, SQRT_2, TAU};

/// `exp(x^2) erfc(x)`
pub fn erfcx(x: f64) -> f64 {
    if x < 0.0 {
        return if x < -26.7 { f64::INFINITY } else { 2.0 * exp_square(x) - erfcx(-x) };
    }
    if x < 20.0 || x.is_nan() {
        return exp_square(x) * libm::erfc(x);
    }
    if x > 5e7 {
        return 1.0 / (x * PI.sqrt());
    }
    let (z, mut term, mut sum, mut k) = (0.5 / (x * x), 1.0f64, 1.0, 1.0);
    while term.abs() > 1e-17 {
        term *= -(2.0 * k - 1.0) * z;
        sum += term;
        k += 1.0;
    }
    sum / (x * PI.sqrt())
}
/// `exp(x^2)` with the rounding of the square put back.
fn exp_square(x: f64) -> f64 {
    let s = x * x;
    let rest = x.mul_add(x, -s);
    let e = s.exp();
    if e.is_infinite() { e } else { e + e * rest }
}
/// Logarithm of the normal distribution function. Every step is rounded to the dtype, as PyTorch's are: far below 0 the gradient
/// takes the difference of this and `-x^2 / 2`, and is what the rounding leaves.
pub fn log_ndtr(x: f64, round: impl Fn(f64) -> f64) -> f64 {
    let t = round(x * round(FRAC_1_SQRT_2));
    if x < -1.0 {
        round(round((0.5 * round(erfcx(-t))).ln()) - round(t * t))
    } else {
        round((-0.5 * libm::erfc(t)).ln_1p())
    }
}
/// Inverse of the normal distribution function.
pub fn ndtri(p: f64) -> f64 {
    match p {
        _ if p == 0.0 => return f64::NEG_INFINITY,
        _ if p == 1.0 => return f64::INFINITY,
        _ if !(p > 0.0 && p < 1.0) => return f64::NAN,
        _ if p > 0.9 => return -lower_tail(1.0 - p),
        _ if p < 0.1 => return lower_tail(p),
        _ => {}
    }
    SQRT_2 * crate::vmath::double::erfinv::<crate::engine::isa::Portable>(2.0 * p - 1.0)
}
/// Newton's method on the logarithm, from the leading terms of the tail.
fn lower_tail(p: f64) -> f64 {
    let target = p.ln();
    let r = (-2.0 * target).sqrt();
    let mut x = -(r - (r.ln() + 0.5 * TAU.ln()) / r).max(0.5);
    for _ in 0..30 {
        let have = log_ndtr(x, |v| v);
        let slope = (-0.5 * x * x - 0.5 * TAU.ln() - have).exp();
        let step = (have - target) / slope;
        x -= step;
        if step.abs() < 1e-15 * x.abs() {
            break;
        }
    }
    x
}
