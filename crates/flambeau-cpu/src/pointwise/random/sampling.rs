//! Derivatives of samples for the parameters of the distribution they were drawn from: for a sample `x` with the
//! distribution function `F(x; a)` and the density `f`, it is `-(dF/da) / f`. In regions as in PyTorch: a series where `x`
//! is small, an expansion at the saddle point where the parameters are large, and a fitted quotient of polynomials between.

fn digamma(x: f64) -> f64 {
    crate::vmath::double::digamma::<crate::engine::isa::Portable>(x)
}

fn horner(c: &[f64], x: f64) -> f64 {
    c.iter().rev().fold(0.0, |sum, c| sum * x + c)
}
fn or_zero(x: f64) -> f64 {
    if x.is_nan() { 0.0 } else { x }
}

/// Of a standard gamma variate `x` of shape `a`, for `a`.
pub fn gamma(a: f64, x: f64) -> f64 {
    if x < 0.8 {
        // F = x^a sum of (-x)^i / (i! (a + i)), term by term
        let mut term = 1.0;
        let (mut first, mut second) = (1.0 / a, 1.0 / (a * a));
        for i in 1..=5 {
            term *= -x / f64::from(i);
            let d = a + f64::from(i);
            first += term / d;
            second += term / (d * d);
        }
        let power = x.powf(a);
        let density = x.powf(a - 1.0) * (-x).exp();
        let slope = (x.ln() - digamma(a)) * (power * first) - power * second;
        return or_zero(-slope / density);
    }
    if a > 8.0 {
        if 0.9 * a <= x && x <= 1.1 * a {
            // both terms below have a pole at `x = a`: their difference as a polynomial
            let p = 1.0 + 24.0 * a * (1.0 + 12.0 * a);
            let q =
                1440.0 * a * a + 6.0 * x * (53.0 - 120.0 * x) - 65.0 * x * x / a + a * (107.0 + 3600.0 * x);
            return p * q / (1_244_160.0 * (a * a) * (a * a));
        }
        let root = (8.0 * a).sqrt();
        let log = (x / a).ln();
        let pole = root / (a - x);
        let tail = (x - a - a * log).powf(-1.5);
        let both = if x < a { pole - tail } else { pole + tail };
        let slope = log * both - (2.0 / a).sqrt() * (a + x) / ((a - x) * (a - x));
        let stirling = 1.0 + 1.0 / (12.0 * a) * (1.0 + 1.0 / (24.0 * a));
        return -stirling * x * slope / root;
    }
    const FIT: [[f64; 8]; 3] = [
        [0.16009398, -0.094634809, 0.025146376, -0.0030648343, 1.0, 0.32668115, 0.10406089, 0.0014179084],
        [
            0.53487893,
            0.1298071,
            0.065735949,
            -0.0015649758,
            0.16639465,
            0.020070113,
            -0.0035938915,
            -0.00058392623,
        ],
        [
            0.040121004,
            -0.0065914022,
            -0.0026286047,
            -0.0013441777,
            0.017050642,
            -0.0021309326,
            0.00085092367,
            -1.5247877e-07,
        ],
    ];
    let (u, v) = ((x / a).ln(), a.ln());
    let c: [f64; 8] = std::array::from_fn(|i| FIT[0][i] + u * (FIT[1][i] + u * FIT[2][i]));
    (horner(&c[..4], v) / horner(&c[4..], v)).exp()
}

/// Of a beta variate near 0, for its first parameter.
fn beta_low(x: f64, a: f64, b: f64) -> f64 {
    let log = digamma(a) - digamma(a + b) - x.ln();
    let mut term = 1.0;
    let mut sum = 1.0 / a * (log + 1.0 / a);
    for i in (1..=10).map(f64::from) {
        term *= (i - b) * x / i;
        let d = a + i;
        sum += term / d * (log + 1.0 / d);
    }
    or_zero(x * (1.0 - x).powf(-b) * sum)
}
/// Of a beta variate near 0, for its second parameter.
fn beta_low_second(x: f64, a: f64, b: f64) -> f64 {
    let log = digamma(a + b) - digamma(b);
    // `falling` is (b - 1) .. (b - i), and `slope` its derivative
    let (mut term, mut falling, mut slope) = (1.0, 1.0, 0.0);
    let mut sum = log / a;
    for i in (1..=8).map(f64::from) {
        term *= -x / i;
        slope = slope * (b - i) + falling;
        falling *= b - i;
        sum += term / (a + i) * (slope + log * falling);
    }
    or_zero(-(1.0 - x).powf(1.0 - b) * sum)
}
/// Of a beta variate with two large parameters, for the first.
fn beta_large(x: f64, a: f64, b: f64) -> f64 {
    let total = a + b;
    let mean = a / total;
    let std = (a * b / (total + 1.0)).sqrt() / total;
    if (mean - 0.1 * std..=mean + 0.1 * std).contains(&x) {
        // the general expression has a pole at the mean
        let b2 = b * b;
        let poly = 47.0 * x * b2 * b2
            + a * ((43.0 + 20.0 * (16.0 + 27.0 * b) * x) * b2 * b
                + a * (3.0 * (59.0 + 180.0 * b - 90.0 * x) * b2
                    + a * ((453.0 + 1620.0 * b * (1.0 - x) - 455.0 * x) * b
                        + a * (8.0 * (1.0 - x) * (135.0 * b - 11.0)))));
        let up = (1.0 + 12.0 * a) * (1.0 + 12.0 * b) / (total * total);
        let down = 12_960.0 * a * a * a * b2 * (1.0 + 12.0 * total);
        return up / (1.0 - x) * poly / down;
    }
    let front = -x / (2.0 * a * b / total).sqrt();
    let stirling = |n: f64| 1.0 + 1.0 / (12.0 * n) + 1.0 / (288.0 * n * n);
    let distance = a * (x - 1.0) + b * x;
    let t1 = (2.0 * a * a * (x - 1.0) + a * b * (x - 1.0) - x * b * b)
        / ((2.0 * a / b).sqrt() * total.powf(1.5) * distance * distance);
    let t2 = 0.5 * (a / (total * x)).ln();
    let t3 = (8.0 * a * b / total).sqrt() / distance;
    let t4 = (b * (b / (total * (1.0 - x))).ln() + a * (a / (total * x)).ln()).powf(-1.5);
    let sum = t1 + t2 * (t3 + if x < mean { t4 } else { -t4 });
    stirling(a) * stirling(b) / stirling(total) * front * sum
}

/// Of a component `x` of a Dirichlet variate, for its concentration `a`, where all concentrations sum to `total`; divided
/// by `1 - x`.
pub fn dirichlet(x: f64, a: f64, total: f64) -> f64 {
    let b = total - a;
    let edge = total * x * (1.0 - x);
    if x <= 0.5 && edge < 2.5 {
        return beta_low(x, a, b);
    }
    if x >= 0.5 && edge < 0.75 {
        return -beta_low_second(1.0 - x, b, a);
    }
    if a > 6.0 && b > 6.0 {
        return beta_large(x, a, b);
    }
    #[rustfmt::skip]
    const FIT: [[[[f64; 4]; 3]; 3]; 2] = [
        [
            [[1.003668233, -0.01061107488, -0.0657888334, 0.01201642863],
             [0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033],
             [-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013]],
            [[0.221950385, -0.3187676331, 0.01799915743, 0.01074823814],
             [-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057],
             [0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05]],
            [[-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565],
             [0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181],
             [0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05]],
        ],
        [
            [[1.0, -0.02924021934, -0.04438342661, 0.007285809825],
             [0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521],
             [-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149]],
            [[0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273],
             [0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956],
             [-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05]],
            [[0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05],
             [0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05],
             [-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06]],
        ],
    ];
    let u = x.ln();
    let v = a.ln() - u;
    let w = total.ln() - v;
    let fit = |c: &[[[f64; 4]; 3]; 3]| horner(&c.map(|rows| horner(&rows.map(|row| horner(&row, w)), v)), u);
    fit(&FIT[0]) / fit(&FIT[1]) * (x * (digamma(total) - digamma(a)) / b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, want: f64) {
        assert!((got - want).abs() <= 1e-9 * want.abs(), "{got} instead of {want}");
    }

    /// PyTorch's values, one for each region.
    #[test]
    fn every_region() {
        near(gamma(0.5, 0.1), 0.5097655670711938);
        near(gamma(2.0, 0.79), 0.6558421892370813);
        near(gamma(9.0, 9.3), 1.0354431147252137);
        near(gamma(20.0, 9.0), 0.6587138804481225);
        near(gamma(20.0, 30.0), 1.2265978621587852);
        near(gamma(2.0, 5.0), 1.657925300445375);
        near(gamma(0.7, 1.0), 1.4880764633361767);
        near(dirichlet(0.1, 1.0, 3.5), 0.20031080740524165);
        near(dirichlet(0.99, 0.7, 3.7), 0.7926159132538197);
        near(dirichlet(0.4, 10.0, 30.0), 0.03751072238701682);
        near(dirichlet(0.3333333333333333, 10.0, 30.0), 0.034265371716938546);
        near(dirichlet(0.5, 3.0, 8.0), 0.15909432579778984);
        near(dirichlet(0.75, 5.0, 7.0), 0.15898039069751657);
        near(dirichlet(0.95, 9.0, 10.0), 0.10828584370708405);
    }
}
