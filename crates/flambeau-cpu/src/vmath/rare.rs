//! Functions that are computed one element at a time, in f64.

/// Inverse of the error function.
pub(super) fn erfinv(x: f64) -> f64 {
    let a = x.abs();
    if a.is_nan() || a > 1.0 {
        return f64::NAN;
    }
    if a == 1.0 {
        return f64::INFINITY.copysign(x);
    }
    if a < 1e-9 {
        return x * 0.886_226_925_452_758;
    }
    // Giles' single-precision approximation starts two Halley steps.
    let mut w = -((1.0 - a) * (1.0 + a)).ln();
    let horner = |w: f64, c: &[f64]| c.iter().fold(0.0, |s, c| s * w + c);
    let start = if w < 5.0 {
        w -= 2.5;
        horner(
            w,
            &[
                2.81022636e-08,
                3.43273939e-07,
                -3.5233877e-06,
                -4.39150654e-06,
                0.00021858087,
                -0.00125372503,
                -0.00417768164,
                0.246640727,
                1.50140941,
            ],
        )
    } else {
        w = w.sqrt() - 3.0;
        horner(
            w,
            &[
                -0.000200214257,
                0.000100950558,
                0.00134934322,
                -0.00367342844,
                0.00573950773,
                -0.0076224613,
                0.00943887047,
                1.00167406,
                2.83297682,
            ],
        )
    };
    let mut y = start * a;
    for _ in 0..2 {
        // The residual through erfc keeps its digits near 1.
        let err = if a > 0.5 { (1.0 - a) - libm::erfc(y) } else { libm::erf(y) - a };
        let u = err / (1.128_379_167_095_512_6 * (-y * y).exp());
        y -= u / (1.0 + y * u);
    }
    y.copysign(x)
}

/// Derivative of log gamma.
pub(super) fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    if x.is_infinite() {
        return if x > 0.0 { x } else { f64::NAN };
    }
    if x < 0.0 {
        if x == x.trunc() {
            return f64::NAN;
        }
        // Only the fraction goes into the tangent, so that large arguments keep their phase.
        let r = x - x.round();
        return digamma(1.0 - x) - std::f64::consts::PI / (std::f64::consts::PI * r).tan();
    }
    // The positive root, where the series below would cancel.
    let mut x = x;
    let mut sum = 0.0;
    let root = 1.461_632_144_968_362_3;
    if (x - root).abs() < 0.12 {
        let t = (x - root) - 9.549_995_429_965_697e-17;
        return DIGAMMA_ROOT.iter().rev().fold(0.0, |s, c| (s + c) * t);
    }
    while x < 12.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    let series = z
        * (1.0 / 12.0
            - z * (1.0 / 120.0
                - z * (1.0 / 252.0
                    - z * (1.0 / 240.0 - z * (1.0 / 132.0 - z * (691.0 / 32760.0 - z / 12.0))))));
    sum + x.ln() - 0.5 / x - series
}
/// Taylor coefficients of digamma at its root, from the first power.
const DIGAMMA_ROOT: [f64; 16] = [
    0.96767224544762117043,
    -0.44276316898359210609,
    0.25849976095565101062,
    -0.1639427054424065275,
    0.10782405069126236576,
    -0.072199561256454710926,
    0.048804288164143107225,
    -0.033161126474847359292,
    0.02259764823221810466,
    -0.015424765904948959139,
    0.010538791616612175388,
    -0.007204534386356868241,
    0.0049267813957298534464,
    -0.0033698016554393280828,
    0.0023051263267349278369,
    -0.0015769367714301972593,
];

/// Modified Bessel function of the first kind, order 0.
pub(super) fn i0(x: f64) -> f64 {
    let a = x.abs();
    if a < 30.0 {
        // The power series has positive terms only.
        let q = 0.25 * a * a;
        let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
        while term > sum * 1e-18 {
            term *= q / (k * k);
            sum += term;
            k += 1.0;
        }
        return sum;
    }
    // Asymptotic series; NaN passes through, infinity becomes it.
    let (mut term, mut sum, mut k) = (1.0f64, 1.0, 1.0);
    while k < 30.0 && term.abs() > 1e-18 {
        term *= (2.0 * k - 1.0) * (2.0 * k - 1.0) / (8.0 * a * k);
        sum += term;
        k += 1.0;
    }
    let half = (0.5 * a).exp();
    half * (sum / (std::f64::consts::TAU * a).sqrt()) * half
}
