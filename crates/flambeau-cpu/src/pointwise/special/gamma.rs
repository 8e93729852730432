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
    if q < -1000.0 {
        // One by one there would be as many terms as `-q`. Those below zero are the first ones of the sum from `1 - fraction`, turned
        // round.
        let fraction = q - q.floor();
        let below = zeta_sum(s, 1.0 - fraction) - zeta_sum(s, 1.0 - q);
        return zeta_sum(s, fraction) + if s % 2.0 == 0.0 { below } else { -below };
    }
    zeta_sum(s, q)
}

/// Terms up to 9, and what follows by Euler and Maclaurin.
fn zeta_sum(s: f64, q: f64) -> f64 {
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
/// Shapes from here on go by [`large_shape`], whose cost does not grow with them; the steps of the others grow with the root.
const LARGE_SHAPE: f64 = 1e4;

/// `x - ln(1 + x)` without cancellation.
fn minus_log1p(x: f64) -> f64 {
    if x.abs() > 0.5 {
        return x - x.ln_1p();
    }
    let r = x / (2.0 + x);
    let r2 = r * r;
    let series = (1..15).rev().fold(0.0, |s, k| s * r2 + 1.0 / f64::from(2 * k + 1));
    x * x / (2.0 + x) - 2.0 * r * r2 * series
}
/// Both functions for a large shape, lower and upper: the normal distribution and the uniform expansion of what is left
/// (Temme 1979), in powers of `1 / a` with coefficients in powers of `eta`.
fn large_shape(a: f64, x: f64) -> (f64, f64) {
    const C: [&[f64]; 3] = [
        &[
            -0.33333333333333333,
            0.083333333333333333,
            -0.014814814814814815,
            0.0011574074074074074,
            0.0003527336860670194,
            -0.00017875514403292181,
            0.39192631785224378e-4,
            -0.21854485106799922e-5,
            -0.185406221071516e-5,
            0.8296711340953086e-6,
            -0.17665952736826079e-6,
            0.67078535434014986e-8,
            0.10261809784240308e-7,
            -0.43820360184533532e-8,
            0.91476995822367902e-9,
        ],
        &[
            -0.0018518518518518519,
            -0.0034722222222222222,
            0.0026455026455026455,
            -0.00099022633744855967,
            0.00020576131687242798,
            -0.40187757201646091e-6,
            -0.18098550334489978e-4,
            0.76491609160811101e-5,
            -0.16120900894563446e-5,
        ],
        &[
            0.0041335978835978836,
            -0.0026813271604938272,
            0.00077160493827160494,
            0.20093878600823045e-5,
            -0.00010736653226365161,
        ],
    ];
    let mu = (x - a) / a;
    let half = minus_log1p(mu).max(0.0);
    let eta = (2.0 * half).sqrt().copysign(mu);
    if eta.abs() > 1.0 {
        // exp(-a / 2) is below all numbers
        return if mu < 0.0 { (0.0, 1.0) } else { (1.0, 0.0) };
    }
    let at = |c: &[f64]| c.iter().rev().fold(0.0, |s, c| s * eta + c);
    let series = C.iter().rev().fold(0.0, |s, c| s / a + at(c));
    let rest = (-a * half).exp() / (2.0 * PI * a).sqrt() * series;
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
        () if a > LARGE_SHAPE => large_shape(a, x).0,
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
        () if a > LARGE_SHAPE => large_shape(a, x).1,
        () if x < a + 1.0 => 1.0 - lower_series(a, x),
        () => upper_fraction(a, x),
    }
}

#[cfg(test)]
mod tests {
    use super::{igamma, igammac, zeta, zeta_sum};

    /// Values of arbitrary precision (mpmath).
    #[test]
    fn large_shapes() {
        for (a, sigmas, want) in LARGE {
            let got = igammac(a, a + sigmas * a.sqrt());
            assert!((got - want).abs() <= 4e-13 * want.abs(), "{a} {sigmas}: {got} instead of {want}");
            let low = igamma(a, a + sigmas * a.sqrt());
            assert!((low - (1.0 - want)).abs() <= 1e-15, "{a} {sigmas}: {low}");
        }
    }

    /// No argument takes more steps than a few thousand: the worst of all magnitudes, several times over, in a moment.
    #[test]
    fn zeta_far_below_zero() {
        for s in [2.0, 3.0, 6.0, 7.0] {
            for q in [-1000.25, -1234.5, -4321.875] {
                let (got, want) = (zeta(s, q), zeta_sum(s, q));
                assert!((got - want).abs() <= 1e-14 * want.abs().max(1.0), "{s} {q}: {got} {want}");
            }
            // term by term this would take years
            assert!(zeta(s, 0.5 - 2f64.powi(51)).is_finite());
        }
        assert_eq!(zeta(2.0, -2f64.powi(60)), f64::INFINITY);
        assert!(zeta(2.5, -1234.5).is_nan());
    }

    #[test]
    fn steps_are_bounded() {
        let begun = std::time::Instant::now();
        for exponent in -10..300 {
            let a = 10f64.powi(exponent);
            for near in [0.5, 0.9, 0.999, 1.0 - 1e-6, 1.0, 1.0 + 1e-6, 1.001, 1.1, 2.0] {
                for _ in 0..4 {
                    let (lower, upper) = (igamma(a, a * near), igammac(a, a * near));
                    assert!((lower + upper - 1.0).abs() < 1e-9, "{a} {near}: {lower} and {upper}");
                }
            }
        }
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }

    const LARGE: [(f64, f64, f64); 32] = [
        (10001.0, -6.0, 0.99999999953512922),
        (10001.0, -1.0, 0.84134880739884522),
        (10001.0, -0.1, 0.53851763981489125),
        (10001.0, 0.0, 0.49867025814554927),
        (10001.0, 0.001, 0.49827132125039242),
        (10001.0, 1.0, 0.15865124995180734),
        (10001.0, 6.0, 1.9621279266258742e-9),
        (10001.0, 20.0, 3.3238381250886978e-79),
        (25000.0, -6.0, 0.99999999938201078),
        (25000.0, -1.0, 0.84134636649595441),
        (25000.0, -0.1, 0.53899922862207687),
        (25000.0, 0.0, 0.49915895563911126),
        (25000.0, 0.001, 0.49876001601656288),
        (25000.0, 1.0, 0.15865364801442643),
        (25000.0, 6.0, 1.5346907597325448e-9),
        (25000.0, 20.0, 1.3586546880414258e-82),
        (100000.0, -6.0, 0.99999999921651235),
        (100000.0, -1.0, 0.84134515026209188),
        (100000.0, -0.1, 0.53941356490298081),
        (100000.0, 0.0, 0.49957947788963482),
        (100000.0, 0.001, 0.49918053663895779),
        (100000.0, 1.0, 0.15865485155167504),
        (100000.0, 6.0, 1.2343088093960284e-9),
        (100000.0, 20.0, 8.6449246384286542e-86),
        (900000.0, -6.0, 0.99999999908570359),
        (900000.0, -1.0, 0.84134479091155805),
        (900000.0, -0.1, 0.53968975357599996),
        (900000.0, 0.0, 0.49985982597013361),
        (900000.0, 0.001, 0.4994608840034115),
        (900000.0, 1.0, 0.15865520915561817),
        (900000.0, 6.0, 1.0638283978636749e-9),
        (900000.0, 20.0, 4.3819166076694677e-88),
    ];
}
