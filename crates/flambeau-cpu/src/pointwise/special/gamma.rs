//! Zeta, polygamma and incomplete gamma functions.

use std::f64::consts::PI;

/// `(2 k)! / B_2k` for k from 1: the Euler-Maclaurin terms.
const BERNOULLI: [f64; 12] = [
    12.0,
    -720.0,
    30240.0,
    -1209600.0,
    47900160.0,
    -1.307674368e12 / 691.0,
    7.47242496e10,
    -1.067062284288e16 / 3617.0,
    5.109094217170944e18 / 43867.0,
    -8.028576626982912e20 / 174611.0,
    1.5511210043330986e23 / 854513.0,
    -1.6938241367317436e27 / 236364091.0,
];

/// Hurwitz zeta function: the sum of `(q + k)^-s`.
pub fn zeta(s: f64, q: f64) -> f64 {
    if s == 1.0 {
        return f64::INFINITY;
    }
    if s < 1.0 {
        return f64::NAN;
    }
    if q <= 0.0 {
        if q == q.floor() {
            return f64::INFINITY;
        }
        if s != s.floor() {
            return f64::NAN;
        }
    }
    let mut sum = q.powf(-s);
    let (mut a, mut b, mut i) = (q, 0.0, 0);
    while i < 9 || a <= 9.0 {
        i += 1;
        a += 1.0;
        b = a.powf(-s);
        sum += b;
        if b.abs() < sum.abs() * f64::EPSILON * 0.5 {
            return sum;
        }
    }
    let w = a;
    sum += b * w / (s - 1.0) - 0.5 * b;
    let (mut factor, mut k) = (1.0, 0.0);
    for c in BERNOULLI {
        factor *= s + k;
        b /= w;
        let t = factor * b / c;
        sum += t;
        if t.abs() < sum.abs() * f64::EPSILON * 0.5 {
            return sum;
        }
        k += 1.0;
        factor *= s + k;
        b /= w;
        k += 1.0;
    }
    sum
}

/// The `n`th derivative of digamma.
pub fn polygamma(n: f64, x: f64) -> f64 {
    if n == 0.0 {
        return crate::vmath::double::digamma::<crate::engine::isa::Portable>(x);
    }
    // -1 asks for order 1 as single precision has it
    if n.abs() == 1.0 {
        if x < 0.5 {
            // the sine of the whole argument: finite at the poles, as PyTorch has it
            let turn = if n < 0.0 { f64::from(std::f32::consts::PI * x as f32) } else { PI * x };
            let s = PI / turn.sin();
            return if x == 0.0 { f64::INFINITY } else { s * s - zeta(2.0, 1.0 - x) };
        }
        return if x.is_infinite() { 0.0 } else { zeta(2.0, x) };
    }
    let sign = if n % 2.0 == 0.0 { -1.0 } else { 1.0 };
    sign * libm::tgamma(n + 1.0) * zeta(n + 1.0, x)
}

/// `x^a e^-x / gamma(a)`
fn density(a: f64, x: f64) -> f64 {
    (a * x.ln() - x - libm::lgamma(a)).exp()
}
/// Both functions for a large shape, by the normal distribution and one term of its correction: lower and upper.
fn large_shape(a: f64, x: f64) -> (f64, f64) {
    let mu = (x - a) / a;
    let eta = (2.0 * (mu - mu.ln_1p())).max(0.0).sqrt().copysign(mu);
    let c0 = if mu.abs() < 1e-4 { -1.0 / 3.0 + mu / 12.0 } else { 1.0 / mu - 1.0 / eta };
    let rest = (-0.5 * a * eta * eta).exp() / (2.0 * PI * a).sqrt() * c0;
    let t = eta * (0.5 * a).sqrt();
    (0.5 * libm::erfc(-t) - rest, 0.5 * libm::erfc(t) + rest)
}
/// The power series of the lower function.
fn lower_series(a: f64, x: f64) -> f64 {
    let (mut sum, mut term, mut n) = (1.0 / a, 1.0 / a, a);
    for _ in 0..20_000 {
        n += 1.0;
        term *= x / n;
        sum += term;
        if term < sum * 1e-17 {
            break;
        }
    }
    sum * density(a, x)
}
/// The continued fraction of the upper function, by Lentz's method.
fn upper_fraction(a: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / b;
    let mut h = d;
    for i in 1..20_000 {
        let i = f64::from(i);
        let an = -i * (i - a);
        b += 2.0;
        d = an * d + b;
        d = if d.abs() < TINY { TINY } else { d };
        c = b + an / c;
        c = if c.abs() < TINY { TINY } else { c };
        d = 1.0 / d;
        let step = d * c;
        h *= step;
        if (step - 1.0).abs() < 1e-16 {
            break;
        }
    }
    h * density(a, x)
}
/// Regularised lower incomplete gamma function.
pub fn igamma(a: f64, x: f64) -> f64 {
    match () {
        () if a < 0.0 || x < 0.0 => f64::NAN,
        () if a == 0.0 => {
            if x > 0.0 {
                1.0
            } else {
                f64::NAN
            }
        }
        () if x == 0.0 => 0.0,
        () if a.is_infinite() => {
            if x.is_infinite() {
                f64::NAN
            } else {
                0.0
            }
        }
        () if x.is_infinite() => 1.0,
        () if a > 1e6 => large_shape(a, x).0,
        () if x < a + 1.0 => lower_series(a, x),
        () => 1.0 - upper_fraction(a, x),
    }
}
/// Regularised upper incomplete gamma function.
pub fn igammac(a: f64, x: f64) -> f64 {
    match () {
        () if a < 0.0 || x < 0.0 => f64::NAN,
        () if a == 0.0 => {
            if x > 0.0 {
                0.0
            } else {
                f64::NAN
            }
        }
        () if x == 0.0 => 1.0,
        () if a.is_infinite() => {
            if x.is_infinite() {
                f64::NAN
            } else {
                1.0
            }
        }
        () if x.is_infinite() => 0.0,
        () if a > 1e6 => large_shape(a, x).1,
        () if x < a + 1.0 => 1.0 - lower_series(a, x),
        () => upper_fraction(a, x),
    }
}
