//! Bessel and Airy functions.

use std::f64::consts::{FRAC_PI_4, LN_2, PI, TAU};

const EULER: f64 = 0.577_215_664_901_532_9;

/// Modified Bessel function of the first kind times `exp(-|x|)`, order 0 or 1.
pub fn i_scaled(x: f64, order: i32) -> f64 {
    let a = x.abs();
    if a < 30.0 {
        return i_series(x, order) * (-a).exp();
    }
    i_large(x, order)
}
/// Modified Bessel function of the first kind, order 0 or 1.
pub fn i(x: f64, order: i32) -> f64 {
    let a = x.abs();
    if a < 30.0 {
        return i_series(x, order);
    }
    // infinity gives NaN by inf * 0, as PyTorch has it
    // in two steps, so that the result alone overflows
    let half = (0.5 * a).exp();
    i_large(x, order) * half * half
}
/// The power series: all terms have one sign. Terms and sum carry what their rounding leaves out, since the function magnifies
/// an error of `x^2` by x.
fn i_series(x: f64, order: i32) -> f64 {
    let square = x * x;
    let (q, q_low) = (0.25 * square, 0.25 * x.mul_add(x, -square));
    let v = f64::from(order);
    let (mut term, mut term_low, mut sum, mut sum_low, mut k) = (1.0f64, 0.0, 1.0f64, 0.0, 1.0);
    while term > sum * 1e-18 {
        let divisor = k * (k + v);
        let product = term * q;
        let rest = term.mul_add(q, -product) + term.mul_add(q_low, term_low * q);
        term = product / divisor;
        term_low = (rest - term.mul_add(divisor, -product)) / divisor;
        let next = sum + term;
        let part = next - sum;
        sum_low += (sum - (next - part)) + (term - part) + term_low;
        sum = next;
        k += 1.0;
    }
    let sum = sum + sum_low;
    if order == 0 { sum } else { sum * 0.5 * x }
}
/// The asymptotic series, scaled.
fn i_large(x: f64, order: i32) -> f64 {
    let a = x.abs();
    if a.is_infinite() {
        return 0.0;
    }
    let v4 = 4.0 * f64::from(order * order);
    let (mut term, mut sum, mut k) = (1.0f64, 1.0, 1.0);
    while k < 30.0 && term.abs() > 1e-18 {
        term *= ((2.0 * k - 1.0) * (2.0 * k - 1.0) - v4) / (8.0 * a * k);
        sum += term;
        k += 1.0;
    }
    let r = sum / (TAU.sqrt() * a.sqrt());
    if order == 1 && x < 0.0 { -r } else { r }
}

/// `exp(x) K_v(x)` by the trapezoidal rule on `exp(-x (cosh t - 1)) cosh(v t)`, which converges exponentially; x from about
/// one on.
fn k_integral(x: f64, v: f64) -> f64 {
    // fine enough for the width of exp(-x t^2 / 2), and short, so that all its multiples are exact
    let h = f64::from(0.125f64.min(0.6 / x.sqrt()) as f32);
    let (mut sum, mut sum_low, mut t) = (0.5f64, 0.0, h);
    loop {
        let s = (0.5 * t).sinh();
        let e = -2.0 * x * s * s;
        // the end of the tail; NaN where x is beyond all numbers
        if e < -45.0 || e.is_nan() {
            return (sum + sum_low) * h;
        }
        let term = e.exp() * (v * t).cosh();
        let next = sum + term;
        let part = next - sum;
        sum_low += (sum - (next - part)) + (term - part);
        sum = next;
        t += h;
    }
}
/// Modified Bessel function of the second kind times `exp(x)`, order 0 or 1.
pub fn k_scaled(x: f64, order: i32) -> f64 {
    match x {
        _ if x == 0.0 => f64::INFINITY,
        _ if x < 0.0 || x.is_nan() => f64::NAN,
        _ if x <= 1.5 => k_series(x, order) * x.exp(),
        _ if x > 1e6 => (0.5 * PI / x).sqrt() * (1.0 + (4.0 * f64::from(order * order) - 1.0) / (8.0 * x)),
        _ => k_integral(x, f64::from(order)),
    }
}
/// Modified Bessel function of the second kind, order 0 or 1.
pub fn k(x: f64, order: i32) -> f64 {
    if x > 0.0 && x <= 1.5 { k_series(x, order) } else { k_scaled(x, order) * (-x).exp() }
}
/// The series with a logarithm, for small arguments.
fn k_series(x: f64, order: i32) -> f64 {
    let q = 0.25 * x * x;
    let log = x.ln() - LN_2;
    // psi(k + 1), and q^k / (k! (k + order)!)
    let (mut psi, mut term, mut sum, mut k) = (-EULER, 1.0, 0.0, 0.0);
    if order == 0 {
        while term > 1e-20 {
            sum += term * psi;
            k += 1.0;
            psi += 1.0 / k;
            term *= q / (k * k);
        }
        return sum - log * i_series(x, 0);
    }
    while term > 1e-20 {
        sum += term * (2.0 * psi + 1.0 / (k + 1.0));
        k += 1.0;
        psi += 1.0 / k;
        term *= q / (k * (k + 1.0));
    }
    1.0 / x + log * i_series(x, 1) - 0.25 * x * sum
}

/// Bessel functions of libm; NaN at infinity.
pub fn finite(f: fn(f64) -> f64, x: f64) -> f64 {
    if x.is_infinite() { f64::NAN } else { f(x) }
}

/// `sin(x) / x`
pub fn spherical_j0(x: f64) -> f64 {
    if x.is_infinite() {
        return 0.0;
    }
    if x.abs() < 0.5 {
        let z = x * x;
        let s = -1.0 / 6227020800.0;
        return 1.0
            + z * (-1.0 / 6.0
                + z * (1.0 / 120.0
                    + z * (-1.0 / 5040.0 + z * (1.0 / 362880.0 + z * (-1.0 / 39916800.0 - z * s)))));
    }
    x.sin() / x
}

/// Airy function. `round` gives the nearest number of the dtype in memory.
pub fn airy_ai(x: f64, round: impl Fn(f64) -> f64) -> f64 {
    if x.is_nan() || x.is_infinite() {
        return f64::NAN;
    }
    if x > 103.892 {
        return 0.0; // below the smallest number
    }
    let zeta = 2.0 / 3.0 * x.abs() * x.abs().sqrt();
    if x > 2.0 {
        return (x / 3.0).sqrt() / PI * k_integral(zeta, 1.0 / 3.0) * (-zeta).exp();
    }
    if x < -7.0 {
        return airy_negative(-x, round);
    }
    // f and g of the Maclaurin series
    let cube = x * x * x;
    let (mut f, mut g, mut sf, mut sg, mut k) = (1.0, x, 1.0, x, 0.0);
    while f64::abs(f) > 1e-20 || f64::abs(g) > 1e-20 {
        f *= cube / ((k + 2.0) * (k + 3.0));
        g *= cube / ((k + 3.0) * (k + 4.0));
        sf += f;
        sg += g;
        k += 3.0;
    }
    0.355_028_053_887_817_24 * sf - 0.258_819_403_792_806_8 * sg
}
/// The oscillating side's asymptotic series, `x` being the magnitude. The phase is as good as the dtype's rounding of it,
/// as PyTorch's is: far out, that decides the value.
fn airy_negative(x: f64, round: impl Fn(f64) -> f64) -> f64 {
    let zeta = round(round(2.0 * x * round(x.sqrt())) / 3.0);
    // u_k / zeta^k, their signs going + + - - in pairs
    let (mut term, mut even, mut odd, mut k) = (1.0f64, 1.0, 0.0, 1.0);
    loop {
        let next =
            term * (6.0 * k - 5.0) * (6.0 * k - 3.0) * (6.0 * k - 1.0) / (216.0 * k * (2.0 * k - 1.0) * zeta);
        if next.abs() >= term.abs() || next.abs() < 1e-18 {
            break;
        }
        term = next;
        let sign = if (k as i64 / 2) % 2 == 0 { 1.0 } else { -1.0 };
        if k as i64 % 2 == 0 {
            even += sign * term;
        } else {
            odd += sign * term;
        }
        k += 1.0;
    }
    let phase = round(zeta + round(FRAC_PI_4));
    (phase.sin() * even - phase.cos() * odd) / (PI.sqrt() * x.sqrt().sqrt())
}
