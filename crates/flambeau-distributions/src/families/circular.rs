//! Distributions over angles.

use super::uniform;
use crate::constraints::{Constraint, positive, real};
use crate::distribution::{Distribution, check_value};
use crate::formula::{Expr, e};
use flambeau_autograd::grad_mode;
use flambeau_core::{DType, Result, Scalar, Tensor, ensure, ops};
use std::f64::consts::PI;

family! {
    /// The von Mises distribution over angles in radians, with density in proportion to `exp(concentration cos(x - loc))`.
    ///
    /// ```
    /// use torch::tensor;
    /// use torch::distributions::{DistributionExt, VonMises};
    /// let d = VonMises::new(0.0, 1.0);
    /// // the density at the mean is e^2 times that on the other side of the circle
    /// let logs = d.log_prob(&tensor([0.0, std::f32::consts::PI])).to_vec::<f32>();
    /// assert!((logs[0] - logs[1] - 2.0).abs() < 1e-6);
    /// ```
    "torch.distributions.VonMises" VonMises VonMisesOptions {
        /// Mean angle.
        loc: |_d| real(),
        /// How narrow it is.
        concentration: |_d| positive(),
    }
}
// Abramowitz and Stegun, Handbook of Mathematical Functions, 9.8.1 to 9.8.4
const I0_SMALL: [f64; 7] =
    [1.0, 3.515_622_9, 3.089_942_4, 1.206_749_2, 0.265_973_2, 0.036_076_8, 0.004_581_3];
const I0_LARGE: [f64; 9] = [
    0.398_942_28,
    0.013_285_92,
    0.002_253_19,
    -0.001_575_65,
    0.009_162_81,
    -0.020_577_06,
    0.026_355_37,
    -0.016_476_33,
    0.003_923_77,
];
const I1_SMALL: [f64; 7] =
    [0.5, 0.878_905_94, 0.514_988_69, 0.150_849_34, 0.026_587_33, 0.003_015_32, 0.000_324_11];
const I1_LARGE: [f64; 9] = [
    0.398_942_28,
    -0.039_880_24,
    -0.003_620_18,
    0.001_638_01,
    -0.010_315_55,
    0.022_829_67,
    -0.028_953_12,
    0.017_876_54,
    -0.004_200_59,
];
fn polynomial(y: &Expr, coefficients: &[f64]) -> Expr {
    let (last, before) = coefficients.split_last().unwrap_or((&0.0, &[]));
    match before.split_last() {
        None => y.full(*last),
        Some((next, before)) => {
            let first = *next + y * *last;
            before.iter().rev().fold(first, |sum, c| *c + y * sum)
        }
    }
}
/// Logarithm of the modified Bessel function of the first kind and order 0 or 1.
fn log_bessel(x: &Expr, one: bool) -> Expr {
    let (small, large) = if one { (&I1_SMALL, &I1_LARGE) } else { (&I0_SMALL, &I0_LARGE) };
    let y = x / 3.75;
    let mut near = polynomial(&(&y * &y), small);
    if one {
        near = x.abs() * near;
    }
    let far = x - 0.5 * x.log() + polynomial(&(3.75 / x), large).log();
    x.lt(3.75).choose(near.log(), far)
}
impl Distribution for VonMises {
    common!(VonMises);
    fn try_support(&self) -> Result<Constraint> {
        Ok(real())
    }
    fn try_mean(&self) -> Result<Tensor> {
        Ok(self.loc.clone())
    }
    fn try_mode(&self) -> Result<Tensor> {
        Ok(self.loc.clone())
    }
    /// The circular variance.
    fn try_variance(&self) -> Result<Tensor> {
        let k = e(&self.concentration);
        grad_mode::enable_grad(|| 1.0 - (log_bessel(&k, true) - log_bessel(&k, false)).exp()).0
    }
    /// By rejection (Best and Fisher, "Efficient simulation of the von Mises distribution", 1979).
    fn try_sample(&self, shape: &[i64]) -> Result<Tensor> {
        grad_mode::no_grad(|| {
            let (loc, k) = (e(&self.loc).to(DType::F64), e(&self.concentration).to(DType::F64));
            let tau = 1.0 + (1.0 + 4.0 * k.pow(2.0)).sqrt();
            let rho = (&tau - (2.0 * &tau).sqrt()) / (2.0 * &k);
            let r = k.lt(1e-5).choose(1.0 / &k + &k, (1.0 + rho.pow(2.0)) / (2.0 * &rho));
            let shape = self.shapes.extended(shape);
            let wide = loc.0.clone()?;
            let mut x = super::constant(&wide, &shape, 0.0)?;
            let mut done = ops::zeros_like(&x, Some(DType::Bool), None, None, None, None)?;
            // two of three are accepted each time; where parameters that nobody checked let none in, this ends
            for round in 0.. {
                if ops::all(&done)?.try_item::<bool>()? {
                    break;
                }
                ensure!(round < 1000, Runtime, "VonMises: no sample of these parameters is accepted");
                let u = uniform(&wide, &[&[3], &shape[..]].concat())?;
                let (u1, u2, u3) = (e(&u).select(0, 0), e(&u).select(0, 1), e(&u).select(0, 2));
                let z = (PI * u1).cos();
                let f = (1.0 + &r * &z) / (&r + &z);
                let c = &k * (&r - &f);
                let near = (&c * (2.0 - &c) - &u2).gt(0.0);
                let lost = c.map(ops::isnan);
                let accept = near | ((&c / &u2).log() + 1.0 - &c).ge(0.0) | lost;
                x = accept.choose((u3 - 0.5).sign() * f.acos(), e(&x)).0?;
                done = (e(&done) | accept).0?;
            }
            let turned = e(&x) + PI + loc;
            let around = turned
                .map(|t| ops::remainder(t, &flambeau_autograd::shorthand::number(Scalar::Float(2.0 * PI))?));
            (around - PI).like(&self.loc).0
        })
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let k = e(&self.concentration);
        let angle = &k * (e(value) - e(&self.loc)).cos();
        (angle - (2.0 * PI).ln() - log_bessel(&k, false)).0
    }
}
