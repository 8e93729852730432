//! Distributions over positive numbers, and counts of events.

use super::drawn;
use crate::argument::Param;
use crate::constraints::{Constraint, nonnegative, nonnegative_integer, positive};
use crate::distribution::{Argument, Distribution, ExponentialFamily, Held, Shapes, check_value, checked};
use crate::formula::e;
use flambeau_autograd::{grad_mode, shorthand as s};
use flambeau_core::{Result, Scalar, Tensor, finfo, ops};
use std::sync::Arc;

family! {
    /// The exponential distribution with density `rate exp(-rate x)`.
    ///
    /// ```
    /// use torch::tensor;
    /// use torch::distributions::{DistributionExt, Exponential};
    /// let d = Exponential::new(4.0);
    /// assert_eq!(d.mean().item::<f64>(), 0.25);
    /// let median = d.icdf(&tensor(0.5));
    /// assert!((d.cdf(&median).item::<f64>() - 0.5).abs() < 1e-6);
    /// ```
    "torch.distributions.Exponential" Exponential ExponentialOptions {
        /// Inverse scale.
        rate: |_d| positive(),
    }
}
impl Exponential {
    /// Of a tensor of rates.
    pub(crate) fn of(rate: &Tensor, validate: Option<bool>) -> Result<Self> {
        Self::from_options(ExponentialOptions { rate: rate.into(), validate_args: validate })
    }
}
impl Distribution for Exponential {
    common!(Exponential);
    fn family(&self) -> Option<&dyn ExponentialFamily> {
        Some(self)
    }
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(nonnegative())
    }
    fn try_mean(&self) -> Result<Tensor> {
        e(&self.rate).reciprocal().0
    }
    fn try_mode(&self) -> Result<Tensor> {
        s::zeros_like(&self.rate)
    }
    fn try_stddev(&self) -> Result<Tensor> {
        e(&self.rate).reciprocal().0
    }
    fn try_variance(&self) -> Result<Tensor> {
        e(&self.rate).pow(-2.0).0
    }
    fn try_rsample(&self, shape: &[i64]) -> Result<Tensor> {
        let x = drawn(&self.rate, &self.shapes.extended(shape), |t| ops::exponential_(t, 1.0, None))?;
        (e(&x) / e(&self.rate)).0
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        (e(&self.rate).log() - e(&self.rate) * e(value)).0
    }
    fn try_cdf(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        (1.0 - (-e(&self.rate) * e(value)).exp()).0
    }
    fn try_icdf(&self, value: &Tensor) -> Result<Tensor> {
        (-(-e(value)).log1p() / e(&self.rate)).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        (1.0 - e(&self.rate).log()).0
    }
}
impl ExponentialFamily for Exponential {
    fn natural_params(&self) -> Result<Vec<Tensor>> {
        Ok(vec![s::neg(&self.rate)?])
    }
    fn log_normalizer(&self, p: &[Tensor]) -> Result<Tensor> {
        (-(-e(&p[0])).log()).0
    }
    fn mean_carrier_measure(&self) -> Result<f64> {
        Ok(0.0)
    }
}

family! {
    /// The gamma distribution with density `rate^c x^(c-1) exp(-rate x) / Gamma(c)`, c the concentration. Samples are
    /// differentiable by implicit reparameterization (Figurnov, Mohamed and Mnih, 2018).
    ///
    /// ```
    /// use torch::distributions::{DistributionExt, Gamma};
    /// let d = Gamma::new(3.0, 2.0);
    /// let moments = [d.mean(), d.mode(), d.variance()].map(|t| t.item::<f64>());
    /// assert_eq!(moments, [1.5, 1.0, 0.75]);
    /// ```
    "torch.distributions.Gamma" Gamma GammaOptions {
        /// Shape.
        concentration: |_d| positive(),
        /// Inverse scale.
        rate: |_d| positive(),
    }
}
impl Gamma {
    /// Of tensors or numbers.
    pub(crate) fn of(concentration: Param, rate: Param, validate: Option<bool>) -> Result<Self> {
        Self::from_options(GammaOptions { concentration, rate, validate_args: validate })
    }
}
impl Distribution for Gamma {
    common!(Gamma);
    fn family(&self) -> Option<&dyn ExponentialFamily> {
        Some(self)
    }
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(nonnegative())
    }
    fn try_mean(&self) -> Result<Tensor> {
        (e(&self.concentration) / e(&self.rate)).0
    }
    fn try_mode(&self) -> Result<Tensor> {
        ((e(&self.concentration) - 1.0) / e(&self.rate)).at_least(0.0).0
    }
    fn try_variance(&self) -> Result<Tensor> {
        (e(&self.concentration) / e(&self.rate).pow(2.0)).0
    }
    fn try_rsample(&self, shape: &[i64]) -> Result<Tensor> {
        let shape = self.shapes.extended(shape);
        let drawn = e(&self.concentration).expand(&shape).map(|c| ops::standard_gamma(c, None));
        let value = drawn / e(&self.rate).expand(&shape);
        let tiny = finfo(self.rate.dtype())?.tiny;
        let low = value.detach().lt(tiny);
        if low.map(ops::any).0?.try_item::<bool>()? {
            // kept above 0, without a part in the gradient
            let up = low.choose(tiny - value.detach(), 0.0);
            return (value + up).0;
        }
        value.0
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        let value = s::to_dtype(value, self.rate.dtype())?;
        check_value(self, &value)?;
        let (c, r, x) = (e(&self.concentration), e(&self.rate), e(&value));
        (c.xlogy(&r) + (&c - 1.0).xlogy(&x) - &r * &x - c.lgamma()).0
    }
    fn try_cdf(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        e(&self.concentration).with(&(e(&self.rate) * e(value)), ops::igamma).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        let c = e(&self.concentration);
        (&c - e(&self.rate).log() + c.lgamma() + (1.0 - &c) * c.digamma()).0
    }
}
impl ExponentialFamily for Gamma {
    fn natural_params(&self) -> Result<Vec<Tensor>> {
        Ok(vec![(e(&self.concentration) - 1.0).0?, s::neg(&self.rate)?])
    }
    fn log_normalizer(&self, p: &[Tensor]) -> Result<Tensor> {
        let (x, y) = (e(&p[0]) + 1.0, e(&p[1]));
        (x.lgamma() + &x * (-y.reciprocal()).log()).0
    }
    fn mean_carrier_measure(&self) -> Result<f64> {
        Ok(0.0)
    }
}

#[flambeau_macros::class("torch.distributions.Chi2", build = Chi2)]
pub struct Chi2Options {
    /// Degrees of freedom.
    pub df: Param,
    /// Whether arguments and values are checked.
    pub validate_args: Option<bool>,
}
/// The chi-squared distribution: the gamma distribution with concentration `df / 2` and rate 1/2.
///
/// ```
/// use torch::distributions::{Chi2, DistributionExt};
/// let d = Chi2::new(3.0);
/// assert_eq!((d.mean().item::<f64>(), d.variance().item::<f64>()), (3.0, 6.0));
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.Chi2")]
pub struct Chi2 {
    gamma: Gamma,
}
object!(Chi2);
impl Chi2 {
    fn from_options(o: Chi2Options) -> Result<Self> {
        let concentration = match &o.df {
            Param::Number(n) => Param::Number(Scalar::Float(0.5 * n.to_f64())),
            Param::Tensor(t) => Param::Tensor((0.5 * e(t)).0?),
        };
        let gamma = Gamma::of(concentration, 0.5.into(), Some(false))?;
        let shapes = Shapes::new(gamma.batch_shape(), &[], o.validate_args);
        checked(Chi2 { gamma: Gamma { shapes, ..gamma } })
    }
    pub(crate) fn of(df: &Tensor, validate: Option<bool>) -> Result<Self> {
        Self::from_options(Chi2Options { df: df.into(), validate_args: validate })
    }
    pub(crate) fn expanded(&self, batch: &[i64]) -> Result<Self> {
        Ok(Chi2 { gamma: self.gamma.expanded(batch)? })
    }
    /// Degrees of freedom.
    ///
    /// # Errors
    /// When no memory is left.
    pub fn try_df(&self) -> Result<Tensor> {
        (e(&self.gamma.concentration) * 2.0).0
    }
}
impl Distribution for Chi2 {
    fn name(&self) -> &'static str {
        "Chi2"
    }
    fn shapes(&self) -> &Shapes {
        &self.gamma.shapes
    }
    fn arguments(&self) -> Result<Vec<Argument>> {
        Ok(vec![Argument::new("df", positive(), Held::Derived)])
    }
    fn parameter(&self, name: &str) -> Result<Option<Tensor>> {
        if name == "df" { self.try_df().map(Some) } else { self.gamma.parameter(name) }
    }
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        Ok(Arc::new(self.expanded(batch)?))
    }
    fn general(&self) -> Option<&dyn Distribution> {
        Some(&self.gamma)
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        let value = s::to_dtype(value, self.gamma.rate.dtype())?;
        check_value(self, &value)?;
        self.gamma.try_log_prob(&value)
    }
    fn try_cdf(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        self.gamma.try_cdf(value)
    }
}

#[flambeau_macros::class("torch.distributions.FisherSnedecor", build = FisherSnedecor)]
pub struct FisherSnedecorOptions {
    /// First degrees of freedom.
    pub df1: Param,
    /// Second degrees of freedom.
    pub df2: Param,
    /// Whether arguments and values are checked.
    pub validate_args: Option<bool>,
}
/// The F distribution: of the ratio of two chi-squared variables, each divided by its degrees of freedom.
///
/// ```
/// use torch::distributions::{DistributionExt, FisherSnedecor};
/// let d = FisherSnedecor::new(2.0, 6.0);
/// assert_eq!((d.mean().item::<f64>(), d.variance().item::<f64>()), (1.5, 6.75));
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.FisherSnedecor")]
pub struct FisherSnedecor {
    shapes: Shapes,
    df1: Tensor,
    df2: Tensor,
    gamma1: Gamma,
    gamma2: Gamma,
}
object!(FisherSnedecor);
impl FisherSnedecor {
    fn from_options(o: FisherSnedecorOptions) -> Result<Self> {
        let [df1, df2] = crate::argument::broadcast_all([&o.df1, &o.df2])?;
        let gamma = |df: &Tensor| Gamma::of((e(df) * 0.5).0?.into(), df.into(), None);
        let (gamma1, gamma2) = (gamma(&df1)?, gamma(&df2)?);
        let shapes = Shapes::new(df1.sizes(), &[], o.validate_args);
        checked(FisherSnedecor { shapes, df1, df2, gamma1, gamma2 })
    }
    /// First degrees of freedom, over the batch.
    pub fn df1(&self) -> &Tensor {
        &self.df1
    }
    /// Second degrees of freedom, over the batch.
    pub fn df2(&self) -> &Tensor {
        &self.df2
    }
}
impl Distribution for FisherSnedecor {
    named!(FisherSnedecor);
    fn arguments(&self) -> Result<Vec<Argument>> {
        Ok(vec![
            Argument::new("df1", positive(), Held::Here(self.df1.clone())),
            Argument::new("df2", positive(), Held::Here(self.df2.clone())),
        ])
    }
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        Ok(Arc::new(FisherSnedecor {
            shapes: self.shapes.expanded(batch),
            df1: s::expand(&self.df1, batch)?,
            df2: s::expand(&self.df2, batch)?,
            gamma1: self.gamma1.expanded(batch)?,
            gamma2: self.gamma2.expanded(batch)?,
        }))
    }
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(positive())
    }
    fn try_mean(&self) -> Result<Tensor> {
        let df2 = e(&self.df2);
        let df2 = df2.fill(&df2.le(2.0), f64::NAN);
        (&df2 / (&df2 - 2.0)).0
    }
    fn try_mode(&self) -> Result<Tensor> {
        let (df1, df2) = (e(&self.df1), e(&self.df2));
        let mode = (&df1 - 2.0) / &df1 * &df2 / (&df2 + 2.0);
        mode.fill(&df1.le(2.0), f64::NAN).0
    }
    fn try_variance(&self) -> Result<Tensor> {
        let (df1, df2) = (e(&self.df1), e(&self.df2));
        let df2 = df2.fill(&df2.le(4.0), f64::NAN);
        let below = &df1 * (&df2 - 2.0).pow(2.0) * (&df2 - 4.0);
        (2.0 * df2.pow(2.0) * (&df1 + &df2 - 2.0) / below).0
    }
    fn try_rsample(&self, shape: &[i64]) -> Result<Tensor> {
        let x1 = self.gamma1.try_rsample(shape)?;
        let x2 = self.gamma2.try_rsample(shape)?;
        let tiny = finfo(x2.dtype())?.tiny;
        (e(&x1) / e(&x2).at_least(tiny)).at_least(tiny).0
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let (a, b, x) = (e(&self.df1) * 0.5, e(&self.df2) * 0.5, e(value));
        let ratio = e(&self.df1) / e(&self.df2);
        let t1 = (&a + &b).lgamma() - a.lgamma() - b.lgamma();
        let t2 = &a * ratio.log() + (&a - 1.0) * x.log();
        let t3 = (&a + &b) * (&ratio * &x).log1p();
        (t1 + t2 - t3).0
    }
}

family! {
    /// The Poisson distribution with probabilities `rate^k exp(-rate) / k!`.
    ///
    /// ```
    /// use torch::tensor;
    /// use torch::distributions::{DistributionExt, Poisson};
    /// let d = Poisson::new(2.5);
    /// assert_eq!((d.mean().item::<f64>(), d.mode().item::<f64>()), (2.5, 2.0));
    /// assert_eq!(d.log_prob(&tensor(0.0)).item::<f64>(), -2.5);
    /// ```
    "torch.distributions.Poisson" Poisson PoissonOptions {
        /// Rate.
        rate: |_d| nonnegative(),
    }
}
impl Distribution for Poisson {
    common!(Poisson);
    fn family(&self) -> Option<&dyn ExponentialFamily> {
        Some(self)
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(nonnegative_integer())
    }
    fn try_mean(&self) -> Result<Tensor> {
        Ok(self.rate.clone())
    }
    fn try_mode(&self) -> Result<Tensor> {
        e(&self.rate).floor().0
    }
    fn try_variance(&self) -> Result<Tensor> {
        Ok(self.rate.clone())
    }
    fn try_sample(&self, shape: &[i64]) -> Result<Tensor> {
        let shape = self.shapes.extended(shape);
        grad_mode::no_grad(|| e(&self.rate).expand(&shape).map(|r| ops::poisson(r, None)).0)
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let (rate, value) = crate::formula::broadcast(&e(&self.rate), &e(value));
        (value.xlogy(&rate) - rate - (value + 1.0).lgamma()).0
    }
}
impl ExponentialFamily for Poisson {
    fn natural_params(&self) -> Result<Vec<Tensor>> {
        Ok(vec![e(&self.rate).log().0?])
    }
    fn log_normalizer(&self, p: &[Tensor]) -> Result<Tensor> {
        e(&p[0]).exp().0
    }
}
