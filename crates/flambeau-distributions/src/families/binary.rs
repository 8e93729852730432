//! Distributions of events that happen or not, and of counts of them.

use super::enumerated;
use super::given::{Kind, Odds, clamp_probs, either};
use crate::argument::{Param, broadcast_all, formatted};
use crate::constraints::{
    self, Constraint, boolean, half_open_interval, nonnegative_integer, real, unit_interval,
};
use crate::distribution::{Argument, Distribution, ExponentialFamily, Held, Shapes, check_value, checked};
use crate::families::{Gamma, uniform};
use crate::formula::{Expr, broadcast, cross_entropy, e};
use flambeau_autograd::{grad_mode, shorthand as s};
use flambeau_core::text::size_tuple;
use flambeau_core::{Error, Result, Tensor, ensure, finfo, ops};
use std::f64::consts::LN_2;
use std::sync::Arc;

/// A distribution with probabilities or logits: its options, and what such have in common.
macro_rules! odds {
    ($(#[$doc:meta])* $path:literal $name:ident $options:ident) => {
        #[flambeau_macros::class($path, build = $name)]
        pub struct $options {
            /// Probabilities.
            #[positional]
            pub probs: Option<Param>,
            /// Log-odds of the probabilities.
            pub logits: Option<Param>,
            /// Whether arguments and values are checked.
            pub validate_args: Option<bool>,
        }
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[doc(alias = $path)]
        pub struct $name {
            shapes: Shapes,
            odds: Odds,
        }
        object!($name);
        probabilities!($name, $options);
        impl $name {
            fn expanded(&self, batch: &[i64]) -> Result<Self> {
                let (shapes, odds) = (self.shapes.expanded(batch), self.odds.expanded(batch)?);
                Ok($name { shapes, odds })
            }
            pub(crate) fn p(&self) -> Expr {
                Expr(self.odds.probs())
            }
        }
    };
}
/// Constructors and questions of a distribution with probabilities or logits.
macro_rules! probabilities {
    ($name:ident, $options:ident $(, $first:ident: $ty:ty)?) => {
        impl $name {
            /// By probabilities.
            #[track_caller]
            pub fn by_probs(
                $($first: impl flambeau_core::api::into_arg::IntoArg<$ty>,)?
                probs: impl flambeau_core::api::into_arg::IntoArg<Param>,
            ) -> Self {
                $options::new($($first)?).probs(probs).build()
            }
            /// By logits.
            #[track_caller]
            pub fn by_logits(
                $($first: impl flambeau_core::api::into_arg::IntoArg<$ty>,)?
                logits: impl flambeau_core::api::into_arg::IntoArg<Param>,
            ) -> Self {
                $options::new($($first)?).logits(logits).build()
            }
            /// Probabilities, computed from the logits where those were given.
            ///
            /// # Errors
            /// When no memory is left.
            pub fn try_probs(&self) -> Result<Tensor> {
                self.odds.probs()
            }
            /// Log-odds, computed from the probabilities where those were given.
            ///
            /// # Errors
            /// When no memory is left.
            pub fn try_logits(&self) -> Result<Tensor> {
                self.odds.logits()
            }
            pub(crate) fn l(&self) -> Expr {
                Expr(self.odds.logits())
            }
        }
    };
}
fn one(kind: Kind, probs: Option<Param>, logits: Option<Param>) -> Result<Odds> {
    let (given, by_logits) = either(probs, logits)?;
    let [t] = broadcast_all([&given])?;
    Ok(Odds::new(kind, t, by_logits))
}
fn with_count(total_count: &Param, probs: Option<Param>, logits: Option<Param>) -> Result<(Tensor, Odds)> {
    let (given, by_logits) = either(probs, logits)?;
    let [count, t] = broadcast_all([total_count, &given])?;
    Ok((s::to_dtype(&count, t.dtype())?, Odds::new(Kind::Binary, t, by_logits)))
}

odds! {
    /// The Bernoulli distribution: 1 with probability `probs`, 0 else.
    ///
    /// ```
    /// use torch::distributions::{Bernoulli, DistributionExt};
    /// let d = Bernoulli::by_probs(0.25);
    /// assert_eq!(d.variance().item::<f64>(), 0.1875);
    /// ```
    "torch.distributions.Bernoulli" Bernoulli BernoulliOptions
}
impl Bernoulli {
    fn from_options(o: BernoulliOptions) -> Result<Self> {
        let odds = one(Kind::Binary, o.probs, o.logits)?;
        checked(Bernoulli { shapes: Shapes::new(odds.param()?.sizes(), &[], o.validate_args), odds })
    }
}
impl Distribution for Bernoulli {
    named!(Bernoulli);
    fn arguments(&self) -> Result<Vec<Argument>> {
        Ok(self.odds.arguments(unit_interval(), real()))
    }
    fn parameter(&self, name: &str) -> Result<Option<Tensor>> {
        self.odds.parameter(name)
    }
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        Ok(Arc::new(self.expanded(batch)?))
    }
    fn family(&self) -> Option<&dyn ExponentialFamily> {
        Some(self)
    }
    fn has_enumerate_support(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(boolean())
    }
    fn try_mean(&self) -> Result<Tensor> {
        self.odds.probs()
    }
    fn try_mode(&self) -> Result<Tensor> {
        let p = self.odds.probs()?;
        e(&p).ge(0.5).like(&p).fill(&e(&p).eq(0.5), f64::NAN).0
    }
    fn try_variance(&self) -> Result<Tensor> {
        (self.p() * (1.0 - self.p())).0
    }
    fn try_sample(&self, shape: &[i64]) -> Result<Tensor> {
        let shape = self.shapes.extended(shape);
        grad_mode::no_grad(|| self.p().expand(&shape).map(|p| ops::bernoulli(p, None)).0)
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let (logits, value) = broadcast(&self.l(), &e(value));
        (-cross_entropy(&logits, &value)).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        cross_entropy(&self.l(), &self.p()).0
    }
    fn try_enumerate_support(&self, expand: bool) -> Result<Tensor> {
        enumerated(super::count_to(2, self.odds.param()?)?, self.batch_shape(), &[], expand)
    }
}
impl ExponentialFamily for Bernoulli {
    fn natural_params(&self) -> Result<Vec<Tensor>> {
        Ok(vec![ops::logit(&self.odds.probs()?, None)?])
    }
    fn log_normalizer(&self, p: &[Tensor]) -> Result<Tensor> {
        e(&p[0]).exp().log1p().0
    }
    fn mean_carrier_measure(&self) -> Result<f64> {
        Ok(0.0)
    }
}

odds! {
    /// The geometric distribution: how often an event of probability `probs` fails to happen before it does.
    ///
    /// ```
    /// use torch::distributions::{DistributionExt, Geometric};
    /// let d = Geometric::by_probs(0.25);
    /// assert_eq!((d.mean().item::<f64>(), d.variance().item::<f64>()), (3.0, 12.0));
    /// ```
    "torch.distributions.Geometric" Geometric GeometricOptions
}
impl Geometric {
    fn from_options(o: GeometricOptions) -> Result<Self> {
        let odds = one(Kind::Binary, o.probs, o.logits)?;
        let d =
            checked(Geometric { shapes: Shapes::new(odds.param()?.sizes(), &[], o.validate_args), odds })?;
        if d.shapes.validate() && !d.odds.by_logits() {
            let p = d.odds.param()?;
            let valid = e(p).gt(0.0).0?;
            ensure!(
                ops::all(&valid)?.try_item::<bool>()?,
                Value,
                "Expected parameter probs (Tensor of shape {}) of distribution {} to be positive but found invalid \
                 values:\n{}",
                size_tuple(p.sizes()),
                d.to_text(),
                formatted(&ops::masked_select(&ops::detach(p)?, &ops::bitwise_not(&valid)?)?)
            );
        }
        Ok(d)
    }
}
impl Distribution for Geometric {
    named!(Geometric);
    fn arguments(&self) -> Result<Vec<Argument>> {
        Ok(self.odds.arguments(unit_interval(), real()))
    }
    fn parameter(&self, name: &str) -> Result<Option<Tensor>> {
        self.odds.parameter(name)
    }
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        Ok(Arc::new(self.expanded(batch)?))
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(nonnegative_integer())
    }
    fn try_mean(&self) -> Result<Tensor> {
        (1.0 / self.p() - 1.0).0
    }
    fn try_mode(&self) -> Result<Tensor> {
        self.p().zeros_like().0
    }
    fn try_variance(&self) -> Result<Tensor> {
        ((1.0 / self.p() - 1.0) / self.p()).0
    }
    fn try_sample(&self, shape: &[i64]) -> Result<Tensor> {
        let p = self.odds.probs()?;
        let tiny = finfo(p.dtype())?.tiny;
        grad_mode::no_grad(|| {
            let u = super::drawn(&p, &self.shapes.extended(shape), |t| ops::uniform_(t, tiny, 1.0, None))?;
            (e(&u).log() / (-e(&p)).log1p()).floor().0
        })
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let (value, p) = broadcast(&e(value), &self.p());
        let p = p.fill(&(p.eq(1.0) & value.eq(0.0)), 0.0);
        (value * (-p).log1p() + self.p().log()).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        (cross_entropy(&self.l(), &self.p()) / self.p()).0
    }
}

#[flambeau_macros::class("torch.distributions.ContinuousBernoulli", build = ContinuousBernoulli)]
pub struct ContinuousBernoulliOptions {
    /// Probabilities.
    #[positional]
    pub probs: Option<Param>,
    /// Log-odds of the probabilities.
    pub logits: Option<Param>,
    /// Between these probabilities a Taylor series takes the place of formulas that are unstable at 1/2.
    #[default((0.499, 0.501))]
    pub lims: (f64, f64),
    /// Whether arguments and values are checked.
    pub validate_args: Option<bool>,
}
/// The continuous Bernoulli distribution over numbers from 0 to 1, with density in proportion to `p^x (1-p)^(1-x)`
/// (Loaiza-Ganem and Cunningham, "The continuous Bernoulli", 2019).
///
/// ```
/// use torch::tensor;
/// use torch::distributions::{ContinuousBernoulli, DistributionExt};
/// // at 1/2 it is the uniform distribution
/// let d = ContinuousBernoulli::by_probs(0.5);
/// assert_eq!(d.mean().item::<f64>(), 0.5);
/// assert!(d.log_prob(&tensor(0.3)).item::<f64>().abs() < 1e-6);
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.ContinuousBernoulli")]
pub struct ContinuousBernoulli {
    shapes: Shapes,
    odds: Odds,
    lims: (f64, f64),
}
object!(ContinuousBernoulli);
probabilities!(ContinuousBernoulli, ContinuousBernoulliOptions);
impl ContinuousBernoulli {
    pub(crate) fn p(&self) -> Expr {
        Expr(self.odds.probs())
    }
    fn from_options(o: ContinuousBernoulliOptions) -> Result<Self> {
        let (given, by_logits) = either(o.probs, o.logits)?;
        let [mut t] = broadcast_all([&given])?;
        if !by_logits {
            if o.validate_args.is_some() {
                let valid = ops::all(&unit_interval().try_check(&t)?)?.try_item::<bool>()?;
                ensure!(valid, Value, "The parameter probs has invalid values");
            }
            t = clamp_probs(&e(&t)).0?;
        }
        let odds = Odds::new(Kind::Clamped, t, by_logits);
        let shapes = Shapes::new(odds.param()?.sizes(), &[], o.validate_args);
        checked(ContinuousBernoulli { shapes, odds, lims: o.lims })
    }
    fn outside(&self) -> Expr {
        self.p().le(self.lims.0) | self.p().gt(self.lims.1)
    }
    /// The probabilities, with the lower limit where the formulas are unstable.
    fn cut(&self) -> Expr {
        self.outside().choose(self.p(), self.lims.0 * self.p().ones_like())
    }
    /// Logarithm of the normalising constant.
    pub(crate) fn log_norm(&self) -> Expr {
        let cut = self.cut();
        let (below, above) = (cut.le(0.5), cut.ge(0.5));
        let low = below.choose(&cut, cut.zeros_like());
        let high = above.choose(&cut, cut.ones_like());
        let width = ((-&cut).log1p() - cut.log()).abs().log();
        let norm = width - below.choose((-2.0 * low).log1p(), (2.0 * high - 1.0).log());
        let x = (self.p() - 0.5).pow(2.0);
        let taylor = LN_2 + (4.0 / 3.0 + 104.0 / 45.0 * &x) * &x;
        self.outside().choose(norm, taylor)
    }
}
impl Distribution for ContinuousBernoulli {
    named!(ContinuousBernoulli);
    fn arguments(&self) -> Result<Vec<Argument>> {
        Ok(self.odds.arguments(unit_interval(), real()))
    }
    fn parameter(&self, name: &str) -> Result<Option<Tensor>> {
        self.odds.parameter(name)
    }
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        let (shapes, odds) = (self.shapes.expanded(batch), self.odds.expanded(batch)?);
        Ok(Arc::new(ContinuousBernoulli { shapes, odds, lims: self.lims }))
    }
    fn family(&self) -> Option<&dyn ExponentialFamily> {
        Some(self)
    }
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(unit_interval())
    }
    fn try_mean(&self) -> Result<Tensor> {
        let cut = self.cut();
        let mean = &cut / (2.0 * &cut - 1.0) + 1.0 / ((-&cut).log1p() - cut.log());
        let x = self.p() - 0.5;
        let taylor = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2.0)) * &x;
        self.outside().choose(mean, taylor).0
    }
    fn try_variance(&self) -> Result<Tensor> {
        let cut = self.cut();
        let width = (-&cut).log1p() - cut.log();
        let variance = &cut * (&cut - 1.0) / (1.0 - 2.0 * &cut).pow(2.0) + 1.0 / width.pow(2.0);
        let x = (self.p() - 0.5).pow(2.0);
        let taylor = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * &x) * &x;
        self.outside().choose(variance, taylor).0
    }
    fn try_sample(&self, shape: &[i64]) -> Result<Tensor> {
        grad_mode::no_grad(|| self.try_rsample(shape))
    }
    fn try_rsample(&self, shape: &[i64]) -> Result<Tensor> {
        self.try_icdf(&uniform(&self.odds.probs()?, &self.shapes.extended(shape))?)
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let (logits, value) = broadcast(&self.l(), &e(value));
        (-cross_entropy(&logits, &value) + self.log_norm()).0
    }
    fn try_cdf(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let (cut, x) = (self.cut(), e(value));
        let cdf = (cut.pow(&x) * (1.0 - &cut).pow(1.0 - &x) + &cut - 1.0) / (2.0 * &cut - 1.0);
        let inner = self.outside().choose(cdf, &x);
        x.le(0.0).choose(x.zeros_like(), x.ge(1.0).choose(x.ones_like(), inner)).0
    }
    fn try_icdf(&self, value: &Tensor) -> Result<Tensor> {
        let (cut, x) = (self.cut(), e(value));
        let above = (-&cut + &x * (2.0 * &cut - 1.0)).log1p() - (-&cut).log1p();
        self.outside().choose(above / (cut.log() - (-&cut).log1p()), &x).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        let (low, high) = ((-self.p()).log1p(), self.p().log());
        (Expr(self.try_mean()) * (&low - high) - self.log_norm() - low).0
    }
}
impl ExponentialFamily for ContinuousBernoulli {
    fn natural_params(&self) -> Result<Vec<Tensor>> {
        Ok(vec![self.odds.logits()?])
    }
    fn log_normalizer(&self, p: &[Tensor]) -> Result<Tensor> {
        let x = e(&p[0]);
        let outside = x.le(self.lims.0 - 0.5) | x.gt(self.lims.1 - 0.5);
        let cut = outside.choose(&x, (self.lims.0 - 0.5) * x.ones_like());
        let norm = cut.expm1().abs().log() - cut.abs().log();
        let taylor = 0.5 * &x + x.pow(2.0) / 24.0 - x.pow(4.0) / 2880.0;
        outside.choose(norm, taylor).0
    }
    fn mean_carrier_measure(&self) -> Result<f64> {
        Ok(0.0)
    }
}

/// Options of a count of events, which begin with how many could happen.
macro_rules! counted {
    ($(#[$doc:meta])* $path:literal $name:ident $options:ident { $(#[$count:meta])* }) => {
        #[flambeau_macros::class($path, build = $name)]
        pub struct $options {
            $(#[$count])*
            pub total_count: Param,
            /// Probabilities.
            #[positional]
            pub probs: Option<Param>,
            /// Log-odds of the probabilities.
            pub logits: Option<Param>,
            /// Whether arguments and values are checked.
            pub validate_args: Option<bool>,
        }
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[doc(alias = $path)]
        pub struct $name {
            shapes: Shapes,
            total_count: Tensor,
            odds: Odds,
        }
        object!($name);
        impl $name {
            fn from_options(o: $options) -> Result<Self> {
                let (total_count, odds) = with_count(&o.total_count, o.probs, o.logits)?;
                let shapes = Shapes::new(odds.param()?.sizes(), &[], o.validate_args);
                checked($name { shapes, total_count, odds })
            }
            pub(crate) fn expanded(&self, batch: &[i64]) -> Result<Self> {
                Ok($name {
                    shapes: self.shapes.expanded(batch),
                    total_count: s::expand(&self.total_count, batch)?,
                    odds: self.odds.expanded(batch)?,
                })
            }
            /// How many there are, over the batch.
            pub fn total_count(&self) -> &Tensor {
                &self.total_count
            }
            fn held(&self, count: Constraint, probs: Constraint) -> Vec<Argument> {
                let mut all = vec![Argument::new("total_count", count, Held::Here(self.total_count.clone()))];
                all.extend(self.odds.arguments(probs, real()));
                all
            }
        }
    };
}
counted! {
    /// The binomial distribution: how many of `total_count` independent events of probability `probs` happen.
    ///
    /// ```
    /// use torch::tensor;
    /// use torch::distributions::{Binomial, DistributionExt};
    /// let d = Binomial::by_probs(4, 0.5);
    /// assert_eq!(d.mean().item::<f64>(), 2.0);
    /// assert!((d.log_prob(&tensor(2.0)).exp().item::<f64>() - 6.0 / 16.0).abs() < 1e-6);
    /// ```
    "torch.distributions.Binomial" Binomial BinomialOptions {
        /// How many could happen.
        #[default(1)]
        #[positional]
    }
}
impl Binomial {
    /// By probabilities.
    #[track_caller]
    pub fn by_probs(
        total_count: impl flambeau_core::api::into_arg::IntoArg<Param>,
        probs: impl flambeau_core::api::into_arg::IntoArg<Param>,
    ) -> Self {
        BinomialOptions::new().total_count(total_count).probs(probs).build()
    }
    /// By logits.
    #[track_caller]
    pub fn by_logits(
        total_count: impl flambeau_core::api::into_arg::IntoArg<Param>,
        logits: impl flambeau_core::api::into_arg::IntoArg<Param>,
    ) -> Self {
        BinomialOptions::new().total_count(total_count).logits(logits).build()
    }
    pub(crate) fn of(total_count: i64, probs: &Tensor) -> Result<Self> {
        BinomialOptions::new().total_count(total_count).probs(probs).try_build()
    }
    pub(crate) fn p(&self) -> Expr {
        Expr(self.odds.probs())
    }
    pub(crate) fn l(&self) -> Expr {
        Expr(self.odds.logits())
    }
    /// The one count of all members of the batch.
    fn count(&self, what: &str) -> Result<i64> {
        let most = ops::max(&self.total_count)?.try_item::<f64>()?;
        let least = ops::min(&self.total_count)?.try_item::<f64>()?;
        if most != least {
            return Err(Error::unsupported(format!("Inhomogeneous total count not supported by `{what}`.")));
        }
        Ok(most as i64)
    }
}
impl Distribution for Binomial {
    named!(Binomial);
    fn arguments(&self) -> Result<Vec<Argument>> {
        Ok(self.held(nonnegative_integer(), unit_interval()))
    }
    fn parameter(&self, name: &str) -> Result<Option<Tensor>> {
        if name == "total_count" { Ok(Some(self.total_count.clone())) } else { self.odds.parameter(name) }
    }
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        Ok(Arc::new(self.expanded(batch)?))
    }
    fn has_enumerate_support(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(constraints::integer_interval(0, &self.total_count))
    }
    fn try_mean(&self) -> Result<Tensor> {
        (e(&self.total_count) * self.p()).0
    }
    fn try_mode(&self) -> Result<Tensor> {
        let mode = ((e(&self.total_count) + 1.0) * self.p()).floor();
        mode.map(|m| ops::clamp_tensor(m, None, Some(&self.total_count))).0
    }
    fn try_variance(&self) -> Result<Tensor> {
        (e(&self.total_count) * self.p() * (1.0 - self.p())).0
    }
    fn try_sample(&self, shape: &[i64]) -> Result<Tensor> {
        let shape = self.shapes.extended(shape);
        grad_mode::no_grad(|| {
            let count = e(&self.total_count).expand(&shape);
            count.with(&self.p().expand(&shape), |n, p| ops::binomial(n, p, None)).0
        })
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let (n, k, l) = (e(&self.total_count), e(value), self.l());
        // max(l, 0), with half of the gradient at 0
        let positive = (l.at_least(0.0) + &l - l.clamp(None, Some(0.0))) / 2.0;
        let norm = &n * positive + &n * (-l.abs()).exp().log1p() - (&n + 1.0).lgamma();
        (&k * &l - (&k + 1.0).lgamma() - (&n - &k + 1.0).lgamma() - norm).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        self.count("entropy")?;
        let p = e(&self.try_log_prob(&self.try_enumerate_support(false)?)?);
        (-(p.exp() * &p).sum(0)).0
    }
    fn try_enumerate_support(&self, expand: bool) -> Result<Tensor> {
        let n = self.count("enumerate_support")?;
        enumerated(super::count_to(n + 1, self.odds.param()?)?, self.batch_shape(), &[], expand)
    }
}

counted! {
    /// The negative binomial distribution: how many events of probability `probs` happen before `total_count` fail to.
    ///
    /// ```
    /// use torch::distributions::{DistributionExt, NegativeBinomial};
    /// let d = NegativeBinomial::by_probs(3.0, 0.5);
    /// assert_eq!((d.mean().item::<f64>(), d.variance().item::<f64>()), (3.0, 6.0));
    /// ```
    "torch.distributions.NegativeBinomial" NegativeBinomial NegativeBinomialOptions {
        /// How many fail before it ends; any number from 0 on.
    }
}
probabilities!(NegativeBinomial, NegativeBinomialOptions, total_count: Param);
impl Distribution for NegativeBinomial {
    named!(NegativeBinomial);
    fn arguments(&self) -> Result<Vec<Argument>> {
        Ok(self.held(constraints::greater_than_eq(0), half_open_interval(0.0, 1.0)))
    }
    fn parameter(&self, name: &str) -> Result<Option<Tensor>> {
        if name == "total_count" { Ok(Some(self.total_count.clone())) } else { self.odds.parameter(name) }
    }
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        Ok(Arc::new(self.expanded(batch)?))
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(nonnegative_integer())
    }
    fn try_mean(&self) -> Result<Tensor> {
        (e(&self.total_count) * self.l().exp()).0
    }
    fn try_mode(&self) -> Result<Tensor> {
        ((e(&self.total_count) - 1.0) * self.l().exp()).floor().at_least(0.0).0
    }
    fn try_variance(&self) -> Result<Tensor> {
        (Expr(self.try_mean()) / (-self.l()).sigmoid()).0
    }
    fn try_sample(&self, shape: &[i64]) -> Result<Tensor> {
        grad_mode::no_grad(|| {
            let rate = (-self.l()).exp().0?;
            let gamma = Gamma::of((&self.total_count).into(), rate.into(), Some(false))?;
            ops::poisson(&gamma.try_sample(shape)?, None)
        })
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let (n, k, l) = (e(&self.total_count), e(value), self.l());
        let plain = &n * (-&l).logsigmoid() + &k * l.logsigmoid();
        let norm = -(&n + &k).lgamma() + (1.0 + &k).lgamma() + n.lgamma();
        (plain - norm.fill(&(&n + &k).eq(0.0), 0.0)).0
    }
}
