//! Distributions over all numbers, by location and scale, and the uniform one.

use super::{constant, drawn, standard_normal, uniform};
use crate::argument::Param;
use crate::constraints::{self, Constraint, positive, real};
use crate::distribution::{Argument, Distribution, ExponentialFamily, Held, Shapes, check_value, checked};
use crate::families::Chi2;
use crate::formula::{Expr, e};
use flambeau_autograd::{grad_mode, shorthand as s};
use flambeau_core::{Result, Tensor, finfo, ops};
use std::f64::consts::{PI, SQRT_2};
use std::sync::Arc;

family! {
    /// The normal (Gaussian) distribution with density `exp(-((x - loc) / scale)^2 / 2) / (scale sqrt(2 pi))`.
    ///
    /// ```
    /// use torch::distributions::{DistributionExt, Normal};
    /// let d = Normal::new(0.0, 1.0);
    /// assert!((d.entropy().item::<f64>() - 1.418_938_5).abs() < 1e-6);
    /// ```
    "torch.distributions.Normal" Normal NormalOptions {
        /// Mean.
        loc: |_d| real(),
        /// Standard deviation.
        scale: |_d| positive(),
    }
}
impl Distribution for Normal {
    common!(Normal);
    fn family(&self) -> Option<&dyn ExponentialFamily> {
        Some(self)
    }
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(real())
    }
    fn try_mean(&self) -> Result<Tensor> {
        Ok(self.loc.clone())
    }
    fn try_mode(&self) -> Result<Tensor> {
        Ok(self.loc.clone())
    }
    fn try_stddev(&self) -> Result<Tensor> {
        Ok(self.scale.clone())
    }
    fn try_variance(&self) -> Result<Tensor> {
        e(&self.scale).pow(2.0).0
    }
    fn try_sample(&self, shape: &[i64]) -> Result<Tensor> {
        let shape = self.shapes.extended(shape);
        grad_mode::no_grad(|| {
            ops::normal_tensor_tensor(&s::expand(&self.loc, &shape)?, &s::expand(&self.scale, &shape)?, None)
        })
    }
    fn try_rsample(&self, shape: &[i64]) -> Result<Tensor> {
        let eps = standard_normal(&self.loc, &self.shapes.extended(shape))?;
        (e(&self.loc) + e(&eps) * e(&self.scale)).0
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let var = e(&self.scale).pow(2.0);
        let square = (e(value) - e(&self.loc)).pow(2.0);
        (-square / (2.0 * var) - e(&self.scale).log() - (2.0 * PI).sqrt().ln()).0
    }
    fn try_cdf(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let z = (e(value) - e(&self.loc)) * e(&self.scale).reciprocal() / SQRT_2;
        (0.5 * (1.0 + z.erf())).0
    }
    fn try_icdf(&self, value: &Tensor) -> Result<Tensor> {
        (e(&self.loc) + e(&self.scale) * (2.0 * e(value) - 1.0).erfinv() * SQRT_2).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        (0.5 + 0.5 * (2.0 * PI).ln() + e(&self.scale).log()).0
    }
}
impl ExponentialFamily for Normal {
    fn natural_params(&self) -> Result<Vec<Tensor>> {
        let var = e(&self.scale).pow(2.0);
        Ok(vec![(e(&self.loc) / &var).0?, (-0.5 * var.reciprocal()).0?])
    }
    fn log_normalizer(&self, p: &[Tensor]) -> Result<Tensor> {
        let (x, y) = (e(&p[0]), e(&p[1]));
        (-0.25 * x.pow(2.0) / &y + 0.5 * (-PI / &y).log()).0
    }
    fn mean_carrier_measure(&self) -> Result<f64> {
        Ok(0.0)
    }
}

family! {
    /// The Laplace distribution with density `exp(-|x - loc| / scale) / (2 scale)`.
    ///
    /// ```
    /// use torch::tensor;
    /// use torch::distributions::{DistributionExt, Laplace};
    /// let d = Laplace::new(0.0, 3.0);
    /// assert_eq!(d.variance().item::<f64>(), 18.0);
    /// assert_eq!(d.cdf(&tensor(0.0)).item::<f64>(), 0.5);
    /// ```
    "torch.distributions.Laplace" Laplace LaplaceOptions {
        /// Mean.
        loc: |_d| real(),
        /// Scale.
        scale: |_d| positive(),
    }
}
impl Distribution for Laplace {
    common!(Laplace);
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(real())
    }
    fn try_mean(&self) -> Result<Tensor> {
        Ok(self.loc.clone())
    }
    fn try_mode(&self) -> Result<Tensor> {
        Ok(self.loc.clone())
    }
    fn try_variance(&self) -> Result<Tensor> {
        (2.0 * e(&self.scale).pow(2.0)).0
    }
    fn try_stddev(&self) -> Result<Tensor> {
        (SQRT_2 * e(&self.scale)).0
    }
    fn try_rsample(&self, shape: &[i64]) -> Result<Tensor> {
        let eps = finfo(self.loc.dtype())?.eps;
        let u = drawn(&self.loc, &self.shapes.extended(shape), |t| ops::uniform_(t, eps - 1.0, 1.0, None))?;
        let u = e(&u);
        (e(&self.loc) - e(&self.scale) * u.sign() * (-u.abs()).log1p()).0
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        (-(2.0 * e(&self.scale)).log() - (e(value) - e(&self.loc)).abs() / e(&self.scale)).0
    }
    fn try_cdf(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let d = e(value) - e(&self.loc);
        (0.5 - 0.5 * d.sign() * (-d.abs() / e(&self.scale)).expm1()).0
    }
    fn try_icdf(&self, value: &Tensor) -> Result<Tensor> {
        let term = e(value) - 0.5;
        (e(&self.loc) - e(&self.scale) * term.sign() * (-2.0 * term.abs()).log1p()).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        (1.0 + (2.0 * e(&self.scale)).log()).0
    }
}

family! {
    /// The Cauchy (Lorentz) distribution: of the ratio of two independent normal variables, without mean or variance.
    ///
    /// ```
    /// use torch::tensor;
    /// use torch::distributions::{Cauchy, DistributionExt};
    /// let d = Cauchy::new(2.0, 1.0);
    /// assert!(d.mean().item::<f64>().is_nan());
    /// assert_eq!(d.cdf(&tensor([2.0, 3.0])).to_vec::<f32>(), [0.5, 0.75]);
    /// ```
    "torch.distributions.Cauchy" Cauchy CauchyOptions {
        /// Mode, or median.
        loc: |_d| real(),
        /// Half width at half maximum.
        scale: |_d| positive(),
    }
}
impl Distribution for Cauchy {
    common!(Cauchy);
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(real())
    }
    fn try_mean(&self) -> Result<Tensor> {
        constant(&self.loc, &self.shapes.extended(&[]), f64::NAN)
    }
    fn try_mode(&self) -> Result<Tensor> {
        Ok(self.loc.clone())
    }
    fn try_variance(&self) -> Result<Tensor> {
        constant(&self.loc, &self.shapes.extended(&[]), f64::INFINITY)
    }
    fn try_rsample(&self, shape: &[i64]) -> Result<Tensor> {
        let eps = drawn(&self.loc, &self.shapes.extended(shape), |t| ops::cauchy_(t, 0.0, 1.0, None))?;
        (e(&self.loc) + e(&eps) * e(&self.scale)).0
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let z = (e(value) - e(&self.loc)) / e(&self.scale);
        (-PI.ln() - e(&self.scale).log() - z.pow(2.0).log1p()).0
    }
    fn try_cdf(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        (((e(value) - e(&self.loc)) / e(&self.scale)).atan() / PI + 0.5).0
    }
    fn try_icdf(&self, value: &Tensor) -> Result<Tensor> {
        ((PI * (e(value) - 0.5)).tan() * e(&self.scale) + e(&self.loc)).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        ((4.0 * PI).ln() + e(&self.scale).log()).0
    }
}

family! {
    /// The uniform distribution over the half-open interval from `low` to `high`.
    ///
    /// ```
    /// use torch::tensor;
    /// use torch::distributions::{DistributionExt, Uniform};
    /// let d = Uniform::new(1.0, 5.0);
    /// assert_eq!(d.mean().item::<f64>(), 3.0);
    /// assert_eq!(d.cdf(&tensor([1.0, 2.0, 4.0])).to_vec::<f32>(), [0.0, 0.25, 0.75]);
    /// ```
    "torch.distributions.Uniform" Uniform UniformOptions {
        /// Lower end, included.
        low: |d| constraints::less_than(&d.high),
        /// Upper end, left out.
        high: |d| constraints::greater_than(&d.low),
    }
}
impl Distribution for Uniform {
    common!(Uniform);
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(constraints::interval(&self.low, &self.high))
    }
    fn try_mean(&self) -> Result<Tensor> {
        ((e(&self.high) + e(&self.low)) / 2.0).0
    }
    fn try_mode(&self) -> Result<Tensor> {
        (f64::NAN * e(&self.high)).0
    }
    fn try_stddev(&self) -> Result<Tensor> {
        ((e(&self.high) - e(&self.low)) / 12f64.sqrt()).0
    }
    fn try_variance(&self) -> Result<Tensor> {
        ((e(&self.high) - e(&self.low)).pow(2.0) / 12.0).0
    }
    fn try_rsample(&self, shape: &[i64]) -> Result<Tensor> {
        let u = uniform(&self.low, &self.shapes.extended(shape))?;
        (e(&self.low) + e(&u) * (e(&self.high) - e(&self.low))).0
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let (low, high) = (e(&self.low), e(&self.high));
        let (above, below) = (low.le(e(value)).like(&self.low), high.gt(e(value)).like(&self.low));
        ((above * below).log() - (high - low).log()).0
    }
    fn try_cdf(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        ((e(value) - e(&self.low)) / (e(&self.high) - e(&self.low))).clamp(Some(0.0), Some(1.0)).0
    }
    fn try_icdf(&self, value: &Tensor) -> Result<Tensor> {
        (e(value) * (e(&self.high) - e(&self.low)) + e(&self.low)).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        (e(&self.high) - e(&self.low)).log().0
    }
}

#[flambeau_macros::class("torch.distributions.StudentT", build = StudentT)]
pub struct StudentTOptions {
    /// Degrees of freedom.
    pub df: Param,
    /// Location.
    #[default(0.0)]
    pub loc: Param,
    /// Scale.
    #[default(1.0)]
    pub scale: Param,
    /// Whether arguments and values are checked.
    pub validate_args: Option<bool>,
}
/// Student's t distribution: of `loc + scale x / sqrt(y / df)` with standard normal x and chi-squared y.
///
/// ```
/// use torch::distributions::{DistributionExt, StudentT, StudentTOptions};
/// assert_eq!(StudentT::new(4.0).variance().item::<f64>(), 2.0);
/// let d = StudentTOptions::new(4.0).loc(1.0).scale(3.0).build();
/// assert_eq!((d.mean().item::<f64>(), d.variance().item::<f64>()), (1.0, 18.0));
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.StudentT")]
pub struct StudentT {
    shapes: Shapes,
    df: Tensor,
    loc: Tensor,
    scale: Tensor,
    chi2: Chi2,
}
object!(StudentT);
impl StudentT {
    fn from_options(o: StudentTOptions) -> Result<Self> {
        let [df, loc, scale] = crate::argument::broadcast_all([&o.df, &o.loc, &o.scale])?;
        let chi2 = Chi2::of(&df, None)?;
        let shapes = Shapes::new(df.sizes(), &[], o.validate_args);
        checked(StudentT { shapes, df, loc, scale, chi2 })
    }
    /// Degrees of freedom, over the batch.
    pub fn df(&self) -> &Tensor {
        &self.df
    }
    /// Location, over the batch.
    pub fn loc(&self) -> &Tensor {
        &self.loc
    }
    /// Scale, over the batch.
    pub fn scale(&self) -> &Tensor {
        &self.scale
    }
}
impl Distribution for StudentT {
    named!(StudentT);
    fn arguments(&self) -> Result<Vec<Argument>> {
        Ok(vec![
            Argument::new("df", positive(), Held::Here(self.df.clone())),
            Argument::new("loc", real(), Held::Here(self.loc.clone())),
            Argument::new("scale", positive(), Held::Here(self.scale.clone())),
        ])
    }
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        Ok(Arc::new(StudentT {
            shapes: self.shapes.expanded(batch),
            df: s::expand(&self.df, batch)?,
            loc: s::expand(&self.loc, batch)?,
            scale: s::expand(&self.scale, batch)?,
            chi2: self.chi2.expanded(batch)?,
        }))
    }
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(real())
    }
    fn try_mean(&self) -> Result<Tensor> {
        e(&self.loc).fill(&e(&self.df).le(1.0), f64::NAN).0
    }
    fn try_mode(&self) -> Result<Tensor> {
        Ok(self.loc.clone())
    }
    fn try_variance(&self) -> Result<Tensor> {
        let df = e(&self.df);
        let known = df.gt(2.0);
        // a safe divisor where the formula does not hold, so that gradients there stay finite
        let safe = known.choose(&df, 3.0);
        let variance = known.choose(e(&self.scale).pow(2.0) * &safe / (&safe - 2.0), f64::INFINITY);
        variance.fill(&df.le(1.0), f64::NAN).like(&self.df).0
    }
    fn try_rsample(&self, shape: &[i64]) -> Result<Tensor> {
        let x = standard_normal(&self.df, &self.shapes.extended(shape))?;
        let z = self.chi2.try_rsample(shape)?;
        let y = e(&x) * (e(&z) / e(&self.df)).rsqrt();
        (e(&self.loc) + e(&self.scale) * y).0
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let df = e(&self.df);
        let y = (e(value) - e(&self.loc)) / e(&self.scale);
        let z = e(&self.scale).log() + 0.5 * df.log() + 0.5 * PI.ln() + (0.5 * &df).lgamma()
            - (0.5 * (&df + 1.0)).lgamma();
        (-0.5 * (&df + 1.0) * (y.pow(2.0) / &df).log1p() - z).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        let df = e(&self.df);
        let (half, more) = (0.5 * &df, 0.5 * (&df + 1.0));
        // lgamma(1/2) = log(pi) / 2
        let lbeta = half.lgamma() + 0.5 * PI.ln() - more.lgamma();
        (e(&self.scale).log()
            + 0.5 * (&df + 1.0) * (more.digamma() - half.digamma())
            + 0.5 * df.log()
            + lbeta)
            .0
    }
}

family! {
    /// The generalized Pareto distribution, of what exceeds a high threshold `loc`.
    ///
    /// ```
    /// use torch::tensor;
    /// use torch::distributions::{DistributionExt, GeneralizedPareto};
    /// let d = GeneralizedPareto::new(1.0, 1.0, 0.5);
    /// assert_eq!(d.mean().item::<f64>(), 3.0);
    /// assert_eq!(d.cdf(&tensor(1.0)).item::<f64>(), 0.0);
    /// ```
    "torch.distributions.GeneralizedPareto" GeneralizedPareto GeneralizedParetoOptions {
        /// Threshold.
        loc: |_d| real(),
        /// Scale.
        scale: |_d| positive(),
        /// Shape of the tail.
        concentration: |_d| real(),
    }
}
impl GeneralizedPareto {
    fn z(&self, value: &Tensor) -> Expr {
        (e(value) - e(&self.loc)) / e(&self.scale)
    }
    /// Where the shape is 0 (the exponential tail), and the shape with 1 in those places.
    fn tail(&self) -> (Expr, Expr) {
        let c = e(&self.concentration);
        let zero = c.map(|c| ops::isclose(c, &s::zeros_like(c)?, 1e-5, 1e-8, false));
        let safe = zero.choose(c.ones_like(), &c);
        (zero, safe)
    }
    /// `log P(X > value)`
    fn log_survival(&self, value: &Tensor) -> Result<Expr> {
        check_value(self, value)?;
        let (zero, safe) = self.tail();
        let z = self.z(value);
        Ok(zero.choose(-&z, -(&safe * &z).log1p() / &safe))
    }
}
impl Distribution for GeneralizedPareto {
    common!(GeneralizedPareto);
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        let (low, c) = (e(&self.loc), e(&self.concentration));
        let high = c.lt(0.0).choose(&low - e(&self.scale) / &c, f64::INFINITY);
        Ok(constraints::interval(&self.loc, high.0?))
    }
    fn try_mean(&self) -> Result<Tensor> {
        let c = e(&self.concentration);
        let known = c.lt(1.0);
        let safe = known.choose(&c, 0.5);
        known.choose(e(&self.loc) + e(&self.scale) / (1.0 - safe), f64::NAN).0
    }
    fn try_mode(&self) -> Result<Tensor> {
        Ok(self.loc.clone())
    }
    fn try_variance(&self) -> Result<Tensor> {
        let c = e(&self.concentration);
        let known = c.lt(0.5);
        let safe = known.choose(&c, 0.25);
        let variance = e(&self.scale).pow(2.0) / ((1.0 - &safe).pow(2.0) * (1.0 - 2.0 * &safe));
        known.choose(variance, f64::NAN).0
    }
    fn try_rsample(&self, shape: &[i64]) -> Result<Tensor> {
        self.try_icdf(&uniform(&self.loc, &self.shapes.extended(shape))?)
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let (zero, safe) = self.tail();
        let z = self.z(value);
        let y = 1.0 / &safe + z.ones_like();
        let power = y.eq(0.0).choose(&y, &y * (&safe * &z).log1p());
        (-e(&self.scale).log() - zero.choose(&z, power)).0
    }
    fn try_cdf(&self, value: &Tensor) -> Result<Tensor> {
        (-self.log_survival(value)?.exp()).log1p().exp().0
    }
    fn try_icdf(&self, value: &Tensor) -> Result<Tensor> {
        let (zero, safe) = self.tail();
        let log_u = (-e(value)).log1p();
        let tail = e(&self.loc) + e(&self.scale) / &safe * (-&safe * &log_u).expm1();
        zero.choose(e(&self.loc) - e(&self.scale) * &log_u, tail).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        let h = e(&self.scale).log() + e(&self.concentration) + 1.0;
        h.map(|h| ops::broadcast_to(h, self.shapes.batch())).0
    }
}
