//! Distributions that transform one 53-bit uniform (or one normal) per element, whatever the dtype.

use super::Generator;
use super::bulk::{RandomFloat, RandomValue};

impl Generator {
    fn each<T: RandomValue>(&mut self, out: &mut [T], f: impl Fn(f64) -> f64) {
        for o in out {
            *o = T::of_f64(f(self.uniform53()));
        }
    }
    /// Exponential with rate `lambda` (`exponential_`).
    pub fn exponential<T: RandomFloat>(&mut self, out: &mut [T], lambda: f64) {
        let scale = -1.0 / lambda;
        self.each(out, |u| scale * (-u).ln_1p());
    }
    /// Number of trials up to the first success, each with probability `p` (`geometric_`).
    pub fn geometric<T: RandomValue>(&mut self, out: &mut [T], p: f64) {
        let d = (-p).ln_1p();
        self.each(out, |u| (u.ln() / d).ceil());
    }
    /// Cauchy (`cauchy_`).
    pub fn cauchy<T: RandomFloat>(&mut self, out: &mut [T], median: f64, sigma: f64) {
        self.each(out, |u| sigma.mul_add((std::f64::consts::PI * (u - 0.5)).tan(), median));
    }
    /// The exponential of a normal with `mean` and `std` (`log_normal_`). Shares the cached normal with
    /// [`Generator::normal_serial`].
    pub fn log_normal<T: RandomFloat>(&mut self, out: &mut [T], mean: f64, std: f64) {
        for o in out {
            *o = T::of_f64(self.standard_normal().mul_add(std, mean).exp());
        }
    }
}
