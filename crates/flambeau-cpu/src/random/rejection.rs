//! Distributions by rejection, in float64: Poisson, binomial, gamma, Dirichlet.

use super::Generator;
use super::bulk::RandomFloat;
use crate::engine::room::room;

#[link(name = "m")]
unsafe extern "C" {
    safe fn lgamma(x: f64) -> f64;
}

/// A dtype that gamma variates exist in: float32 or float64.
pub trait GammaFloat: RandomFloat {
    /// Smallest positive normal value.
    const TINY: Self;
    /// Largest value below one.
    const BELOW_ONE: Self;
    /// `1 / alpha` in this precision.
    fn inverse(self) -> f64;
    /// `alpha + 1` in this precision.
    fn plus_one(self) -> Self;
    /// `alpha - 1/3` in this precision, with the float32 third.
    fn minus_third(self) -> f64;
}
macro_rules! gamma_float {
    ($($t:ident),*) => {$(impl GammaFloat for $t {
        const TINY: $t = $t::MIN_POSITIVE;
        const BELOW_ONE: $t = 1.0 - $t::EPSILON / 2.0;
        #[inline]
        fn inverse(self) -> f64 { (1.0 / self) as f64 }
        #[inline]
        fn plus_one(self) -> $t { self + 1.0 }
        #[inline]
        fn minus_third(self) -> f64 { (self - (1.0f32 / 3.0) as $t) as f64 }
    })*};
}
gamma_float!(f32, f64);

/// Correction to Stirling's formula at `k`.
fn stirling_tail(k: f64) -> f64 {
    const TABLE: [f64; 10] = [
        0.0810614667953272,
        0.0413406959554092,
        0.0276779256849983,
        0.02079067210376509,
        0.0166446911898211,
        0.0138761288230707,
        0.0118967099458917,
        0.0104112652619720,
        0.00925546218271273,
        0.00833056343336287,
    ];
    if k < 10.0 {
        return TABLE[k as usize];
    }
    let sq = (k + 1.0) * (k + 1.0);
    (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / sq) / sq) / (k + 1.0)
}

impl Generator {
    fn poisson_one(&mut self, lambda: f64) -> i64 {
        if lambda == 0.0 {
            return 0;
        }
        if lambda < 10.0 {
            // Multiplication of uniforms.
            let limit = (-lambda).exp();
            let (mut count, mut product) = (0, 1.0);
            loop {
                product *= self.uniform53();
                if product <= limit {
                    return count;
                }
                count += 1;
            }
        }
        // Transformed rejection (Hoermann 1993).
        let (root, log) = (lambda.sqrt(), lambda.ln());
        let b = 0.931 + 2.53 * root;
        let a = -0.059 + 0.02483 * b;
        let inv_alpha = 1.1239 + 1.1328 / (b - 3.4);
        let vr = 0.9277 - 3.6224 / (b - 2.0);
        loop {
            let u = self.uniform53() - 0.5;
            let v = self.uniform53();
            let us = 0.5 - u.abs();
            let k = ((2.0 * a / us + b) * u + lambda + 0.43).floor();
            if us >= 0.07 && v <= vr {
                return k as i64;
            }
            if k < 0.0 || (us < 0.013 && v > us) {
                continue;
            }
            let left = v.ln() + inv_alpha.ln() - (a / (us * us) + b).ln();
            if left <= -lambda + k * log - lgamma(k + 1.0) {
                return k as i64;
            }
        }
    }

    /// Poisson counts with the rates `lambda` (`poisson`). An error for a negative or NaN rate.
    pub fn poisson<T: RandomFloat>(&mut self, lambda: &[T], out: &mut [T]) -> Result<(), String> {
        for (o, l) in out.iter_mut().zip(lambda) {
            let l = l.to_f64();
            // NaN fails too.
            if l < 0.0 || l.is_nan() {
                return Err("invalid Poisson rate, expected rate to be non-negative".into());
            }
            // An infinite rate would never be accepted.
            *o = if l.is_infinite() { T::of_f64(l) } else { T::of_i64(self.poisson_one(l)) };
        }
        Ok(())
    }

    fn binomial_inversion(&mut self, count: f64, log_q: f64) -> f64 {
        let (mut sum, mut successes) = (0.0, 0.0);
        loop {
            sum += (self.uniform53().ln() / log_q).ceil();
            if sum > count {
                return successes;
            }
            successes += 1.0;
        }
    }

    /// Intermediate products of count and prob are rounded to the dtype by `r1`, as the parameters are.
    fn binomial_btrs(&mut self, count: f64, prob: f64, r1: fn(f64) -> f64) -> f64 {
        let q = r1(1.0 - prob);
        let stddev = r1(r1(r1(count * prob) * q).sqrt());
        let b = 1.15 + 2.53 * stddev;
        let a = -0.0873 + 0.0248 * b + 0.01 * prob;
        let c = r1(count * prob) + 0.5;
        let v_r = 0.92 - 4.2 / b;
        let r = r1(prob / q);
        let alpha = (2.83 + 5.1 / b) * stddev;
        let m = r1(r1(count + 1.0) * prob).floor();
        loop {
            let u = self.uniform53() - 0.5;
            let v = self.uniform53();
            let us = 0.5 - u.abs();
            let k = r1(((2.0 * a / us + b) * u + c).floor());
            if k < 0.0 || k > count {
                continue;
            }
            if us >= 0.07 && v <= v_r {
                return k;
            }
            let v = (v * alpha / (a / (us * us) + b)).ln();
            let bound = (m + 0.5) * ((m + 1.0) / (r * (count - m + 1.0))).ln()
                + r1(count + 1.0) * ((count - m + 1.0) / r1(r1(count - k) + 1.0)).ln()
                + (k + 0.5) * (r * r1(r1(count - k) + 1.0) / r1(k + 1.0)).ln()
                + stirling_tail(m)
                + stirling_tail(count - m)
                - stirling_tail(k)
                - stirling_tail(r1(count - k));
            if v <= bound {
                return k;
            }
        }
    }

    /// Binomial counts of `count` trials with success probability `prob`, element by element (`binomial`).
    pub fn binomial<T: RandomFloat>(&mut self, count: &[T], prob: &[T], out: &mut [T]) {
        let round = |v: f64| T::of_f64(v).to_f64();
        for ((o, n), p) in out.iter_mut().zip(count).zip(prob) {
            *o = T::of_f64(self.binomial_one(n.to_f64(), p.to_f64(), T::WIDE, round));
        }
    }
    fn binomial_one(&mut self, n: f64, p: f64, wide: bool, r1: fn(f64) -> f64) -> f64 {
        let mut half = |p: f64| {
            if r1(n * p) >= 10.0 {
                self.binomial_btrs(n, p, r1)
            } else {
                let log_q = if wide { (-p).ln_1p() } else { f64::from((-p as f32).ln_1p()) };
                self.binomial_inversion(n, log_q)
            }
        };
        if n.is_nan() {
            f64::NAN
        } else if n <= 0.0 || p <= 0.0 {
            0.0
        } else if p >= 1.0 || n.is_infinite() {
            n
        } else if p <= 0.5 {
            half(p)
        } else if p > 0.5 {
            n - half(r1(1.0 - p))
        } else {
            f64::NAN
        }
    }

    /// Marsaglia and Tsang (2000), with the boost for `alpha < 1`.
    fn gamma_one<T: GammaFloat>(&mut self, alpha: T) -> f64 {
        let (mut alpha, mut scale) = (alpha, 1.0);
        if alpha.to_f64() < 1.0 {
            if alpha.to_f64() == 0.0 {
                return 0.0;
            }
            scale = (1.0 - self.uniform53()).powf(alpha.inverse());
            alpha = alpha.plus_one();
        }
        let d = alpha.minus_third();
        if !d.is_finite() {
            return d;
        }
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let (x, y) = loop {
                let x = self.standard_normal();
                let y = 1.0 + c * x;
                // with a negative concentration `c` is no number, nor is the sample
                if y > 0.0 || y.is_nan() {
                    break (x, y);
                }
            };
            let v = y * y * y;
            let u = 1.0 - self.uniform53();
            let xx = x * x;
            if u < 1.0 - f64::from(0.0331f32) * xx * xx || u.ln() < 0.5 * xx + d * (1.0 - v + v.ln()) {
                return scale * d * v;
            }
        }
    }

    /// Gamma variates with shape `alpha` and rate 1 (`_standard_gamma`). Never below the smallest normal number.
    pub fn standard_gamma<T: GammaFloat>(&mut self, alpha: &[T], out: &mut [T]) {
        for (o, a) in out.iter_mut().zip(alpha) {
            let v = T::of_f64(self.gamma_one(*a));
            *o = if v.to_f64() < T::TINY.to_f64() { T::TINY } else { v };
        }
    }

    /// Dirichlet samples: each row of `width` values has its own concentrations and sums to one (`_sample_dirichlet`).
    pub fn dirichlet<T: GammaFloat>(&mut self, alpha: &[T], out: &mut [T], width: usize) {
        let mut gamma: Vec<f64> = room(alpha.len());
        for a in alpha {
            gamma.push(self.gamma_one(a.to_f64()).max(f64::MIN_POSITIVE));
        }
        for (o, g) in out.chunks_mut(width.max(1)).zip(gamma.chunks(width.max(1))) {
            let sum: f64 = g.iter().sum();
            for (o, g) in o.iter_mut().zip(g) {
                let v = T::of_f64(g / sum);
                let v = if v.to_f64() < T::TINY.to_f64() { T::TINY } else { v };
                *o = if v.to_f64() > T::BELOW_ONE.to_f64() { T::BELOW_ONE } else { v };
            }
        }
    }
}
