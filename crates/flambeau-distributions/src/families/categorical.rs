//! Distributions over categories.

use super::enumerated;
use super::given::Odds;
use crate::constraints::{self, Constraint, one_hot, real_vector, simplex};
use crate::distribution::{Argument, Distribution, Held, Shapes, check_value, checked};
use crate::families::Binomial;
use crate::formula::{Expr, broadcast, e};
use flambeau_autograd::{grad_mode, shorthand as s};
use flambeau_core::{DType, Error, Result, Scalar, Tensor, Value, finfo, ops};
use flambeau_nn_functional::ops as nn;
use std::sync::Arc;

macro_rules! options {
    ($path:literal $options:ident $name:ident) => {
        #[flambeau_macros::class($path, build = $name)]
        pub struct $options {
            /// Probabilities along the last dimension; they are made to sum to 1.
            #[positional]
            pub probs: Option<Tensor>,
            /// Logarithms of probabilities that need not sum to 1.
            pub logits: Option<Tensor>,
            /// Whether arguments and values are checked.
            pub validate_args: Option<bool>,
        }
        impl $name {
            /// By probabilities.
            #[track_caller]
            pub fn by_probs(probs: impl flambeau_core::api::into_arg::IntoArg<Tensor>) -> Self {
                $options::new().probs(probs).build()
            }
            /// By logits.
            #[track_caller]
            pub fn by_logits(logits: impl flambeau_core::api::into_arg::IntoArg<Tensor>) -> Self {
                $options::new().logits(logits).build()
            }
        }
        object!($name);
    };
}
options!("torch.distributions.Categorical" CategoricalOptions Categorical);
/// The categorical distribution over 0, 1, .., K - 1.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::{Categorical, DistributionExt};
/// let d = Categorical::by_probs(&tensor([1.0, 1.0, 2.0]));
/// assert_eq!(d.log_prob(&tensor(2)).item::<f64>(), 0.5f32.ln() as f64);
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.Categorical")]
pub struct Categorical {
    shapes: Shapes,
    odds: Odds,
}
impl Categorical {
    fn from_options(o: CategoricalOptions) -> Result<Self> {
        let odds = Odds::categories(o.probs, o.logits)?;
        let sizes = odds.param()?.sizes();
        let shapes = Shapes::new(&sizes[..sizes.len() - 1], &[], o.validate_args);
        checked(Categorical { shapes, odds })
    }
    pub(crate) fn of(probs: Option<Tensor>, logits: Option<Tensor>) -> Result<Self> {
        Self::from_options(CategoricalOptions { probs, logits, validate_args: None })
    }
    pub(crate) fn expanded(&self, batch: &[i64]) -> Result<Self> {
        let odds = self.odds.expanded(&[batch, &[self.odds.events()?]].concat())?;
        Ok(Categorical { shapes: self.shapes.expanded(batch), odds })
    }
    pub(crate) fn odds(&self) -> &Odds {
        &self.odds
    }
    pub(crate) fn p(&self) -> Expr {
        Expr(self.odds.probs())
    }
    pub(crate) fn l(&self) -> Expr {
        Expr(self.odds.logits())
    }
}
impl Distribution for Categorical {
    named!(Categorical);
    fn arguments(&self) -> Result<Vec<Argument>> {
        Ok(self.odds.arguments(simplex(), real_vector()))
    }
    fn parameter(&self, name: &str) -> Result<Option<Tensor>> {
        self.odds.parameter(name)
    }
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        Ok(Arc::new(self.expanded(batch)?))
    }
    fn has_enumerate_support(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(constraints::integer_interval(0, self.odds.events()? - 1))
    }
    fn try_mean(&self) -> Result<Tensor> {
        super::constant(&self.odds.probs()?, self.batch_shape(), f64::NAN)
    }
    fn try_variance(&self) -> Result<Tensor> {
        self.try_mean()
    }
    fn try_mode(&self) -> Result<Tensor> {
        ops::argmax(&self.odds.probs()?, Some(-1), false)
    }
    fn try_sample(&self, shape: &[i64]) -> Result<Tensor> {
        grad_mode::no_grad(|| {
            let count = shape.iter().try_fold(1i64, |n, d| n.checked_mul(*d));
            let count = count.ok_or_else(|| Error::memory("too many samples"))?;
            let flat = self.p().reshape(&[-1, self.odds.events()?]).0?;
            let drawn = ops::multinomial(&flat, count, true, None)?;
            s::reshape(&s::transpose(&drawn, 0, 1)?, &self.shapes.extended(shape))
        })
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let (value, l) = broadcast(&e(value).to(DType::I64).unsqueeze(-1), &self.l());
        let at = value.slice(None, Some(1));
        l.with(&at, |l, i| ops::gather(l, -1, i, false)).squeeze(-1).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        let logits = self.odds.logits()?;
        let least = finfo(logits.dtype())?.min;
        (-(e(&logits).at_least(least) * self.p()).sum(-1)).0
    }
    fn try_enumerate_support(&self, expand: bool) -> Result<Tensor> {
        let device = Some(self.odds.param()?.device());
        let values = ops::arange(Scalar::Int(self.odds.events()?), Some(DType::I64), None, device, None)?;
        enumerated(values, self.batch_shape(), &[], expand)
    }
}

options!("torch.distributions.OneHotCategorical" OneHotCategoricalOptions OneHotCategorical);
/// The categorical distribution over one-hot vectors.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::{DistributionExt, OneHotCategorical};
/// let d = OneHotCategorical::by_probs(&tensor([1.0, 1.0, 2.0]));
/// assert_eq!(d.mean().to_vec::<f32>(), [0.25, 0.25, 0.5]);
/// assert_eq!(d.log_prob(&tensor([0.0, 0.0, 1.0])).item::<f64>(), 0.5f32.ln() as f64);
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.OneHotCategorical")]
pub struct OneHotCategorical {
    shapes: Shapes,
    categorical: Categorical,
}
/// The arguments of what a categorical distribution within has: they are computed, not held.
pub(super) fn derived_arguments() -> Vec<Argument> {
    vec![
        Argument::new("probs", simplex(), Held::Derived),
        Argument::new("logits", real_vector(), Held::Derived),
    ]
}
impl OneHotCategorical {
    fn from_options(o: OneHotCategoricalOptions) -> Result<Self> {
        let categorical = Categorical::of(o.probs, o.logits)?;
        let events = [categorical.odds.events()?];
        let shapes = Shapes::new(categorical.batch_shape(), &events, o.validate_args);
        checked(OneHotCategorical { shapes, categorical })
    }
    fn expanded(&self, batch: &[i64]) -> Result<Self> {
        let shapes = self.shapes.expanded(batch);
        Ok(OneHotCategorical { shapes, categorical: self.categorical.expanded(batch)? })
    }
    pub(crate) fn categorical(&self) -> &Categorical {
        &self.categorical
    }
    fn hot(&self, at: &Tensor) -> Result<Tensor> {
        let dtype = self.categorical.odds.probs()?.dtype();
        s::to_dtype(&nn::one_hot(at, self.categorical.odds.events()?)?, dtype)
    }
}
impl Distribution for OneHotCategorical {
    named!(OneHotCategorical);
    fn arguments(&self) -> Result<Vec<Argument>> {
        Ok(derived_arguments())
    }
    fn parameter(&self, name: &str) -> Result<Option<Tensor>> {
        self.categorical.parameter(name)
    }
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        Ok(Arc::new(self.expanded(batch)?))
    }
    fn has_enumerate_support(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(one_hot())
    }
    fn try_mean(&self) -> Result<Tensor> {
        self.categorical.odds.probs()
    }
    fn try_mode(&self) -> Result<Tensor> {
        self.hot(&self.categorical.try_mode()?)
    }
    fn try_variance(&self) -> Result<Tensor> {
        let p = self.categorical.p();
        (&p * (1.0 - &p)).0
    }
    fn try_sample(&self, shape: &[i64]) -> Result<Tensor> {
        grad_mode::no_grad(|| self.hot(&self.categorical.try_sample(shape)?))
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        self.categorical.try_log_prob(&ops::max_dim(value, -1, false)?.1)
    }
    fn try_entropy(&self) -> Result<Tensor> {
        self.categorical.try_entropy()
    }
    fn try_enumerate_support(&self, expand: bool) -> Result<Tensor> {
        let (n, like) = (self.categorical.odds.events()?, self.categorical.odds.param()?);
        let eye = ops::eye(n, Some(like.dtype()), None, Some(like.device()), None)?;
        let batch = self.batch_shape();
        let ones = vec![1; batch.len()];
        let values = e(&eye).reshape(&[&[n][..], &ones, &[n]].concat());
        if expand { values.expand(&[&[n][..], batch, &[n]].concat()).0 } else { values.0 }
    }
}

options!("torch.distributions.OneHotCategoricalStraightThrough"
    OneHotCategoricalStraightThroughOptions OneHotCategoricalStraightThrough);
/// The same with samples through which gradients flow as if they were the probabilities (Bengio, Leonard and Courville,
/// 2013).
///
/// ```
/// use torch::tensor;
/// use torch::distributions::{DistributionExt, OneHotCategoricalStraightThrough};
/// let probs = tensor([0.25, 0.75]).requires_grad_(true).clone();
/// OneHotCategoricalStraightThrough::by_probs(&probs).rsample().select(0, 1).backward();
/// // of `probs[1] / probs.sum()`
/// assert_eq!(probs.grad().unwrap().to_vec::<f32>(), [-0.75, 0.25]);
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.OneHotCategoricalStraightThrough")]
pub struct OneHotCategoricalStraightThrough {
    plain: OneHotCategorical,
}
impl OneHotCategoricalStraightThrough {
    fn from_options(o: OneHotCategoricalStraightThroughOptions) -> Result<Self> {
        let (probs, logits, validate_args) = (o.probs, o.logits, o.validate_args);
        let plain =
            OneHotCategorical::from_options(OneHotCategoricalOptions { probs, logits, validate_args })?;
        Ok(OneHotCategoricalStraightThrough { plain })
    }
}
impl Distribution for OneHotCategoricalStraightThrough {
    fn name(&self) -> &'static str {
        "OneHotCategoricalStraightThrough"
    }
    fn shapes(&self) -> &Shapes {
        &self.plain.shapes
    }
    fn arguments(&self) -> Result<Vec<Argument>> {
        self.plain.arguments()
    }
    fn parameter(&self, name: &str) -> Result<Option<Tensor>> {
        self.plain.parameter(name)
    }
    fn general(&self) -> Option<&dyn Distribution> {
        Some(&self.plain)
    }
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        Ok(Arc::new(OneHotCategoricalStraightThrough { plain: self.plain.expanded(batch)? }))
    }
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_rsample(&self, shape: &[i64]) -> Result<Tensor> {
        let sample = self.try_sample(shape)?;
        let p = self.plain.categorical.p();
        (e(&sample) + (&p - p.detach())).0
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        self.plain.try_log_prob(value)
    }
}

#[flambeau_macros::class("torch.distributions.Multinomial", build = Multinomial)]
pub struct MultinomialOptions {
    /// How many events there are; the same for all members of a batch.
    #[default(1)]
    #[positional]
    pub total_count: Count,
    /// Probabilities along the last dimension; they are made to sum to 1.
    #[positional]
    pub probs: Option<Tensor>,
    /// Logarithms of probabilities that need not sum to 1.
    pub logits: Option<Tensor>,
    /// Whether arguments and values are checked.
    pub validate_args: Option<bool>,
}
/// How many events a multinomial distribution counts.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::MultinomialOptions;
/// let d = MultinomialOptions::new().total_count(4).probs(tensor([0.5, 0.5])).build();
/// assert_eq!(d.total_count(), 4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(i64);
impl flambeau_core::api::into_arg::IntoArg<Count> for i64 {
    fn into_arg(self) -> Count {
        Count(self)
    }
}
impl flambeau_core::api::into_arg::IntoArg<Count> for i32 {
    fn into_arg(self) -> Count {
        Count(self.into())
    }
}
impl flambeau_core::api::into_arg::IntoArg<Count> for Count {
    fn into_arg(self) -> Count {
        self
    }
}
impl flambeau_core::dispatch::value::FromValue for Count {
    fn from_value(v: &Value) -> Result<Self> {
        match v {
            Value::Int(n) => Ok(Count(*n)),
            _ => Err(Error::unsupported("inhomogeneous total_count is not supported")),
        }
    }
}
/// The multinomial distribution: how often each category comes up in `total_count` draws.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::{DistributionExt, Multinomial};
/// let d = Multinomial::by_probs(4, &tensor([1.0, 3.0]));
/// assert_eq!(d.mean().to_vec::<f32>(), [1.0, 3.0]);
/// assert_eq!(d.sample().sum().item::<f64>(), 4.0);
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.Multinomial")]
pub struct Multinomial {
    shapes: Shapes,
    total_count: i64,
    categorical: Categorical,
    binomial: Binomial,
}
object!(Multinomial);
impl Multinomial {
    fn from_options(o: MultinomialOptions) -> Result<Self> {
        let categorical = Categorical::of(o.probs, o.logits)?;
        let binomial = Binomial::of(o.total_count.0, &categorical.odds.probs()?)?;
        let events = [categorical.odds.events()?];
        let shapes = Shapes::new(categorical.batch_shape(), &events, o.validate_args);
        checked(Multinomial { shapes, total_count: o.total_count.0, categorical, binomial })
    }
    /// By probabilities.
    #[track_caller]
    pub fn by_probs(total_count: i64, probs: &Tensor) -> Self {
        MultinomialOptions::new().total_count(total_count).probs(probs).build()
    }
    /// By logits.
    #[track_caller]
    pub fn by_logits(total_count: i64, logits: &Tensor) -> Self {
        MultinomialOptions::new().total_count(total_count).logits(logits).build()
    }
    /// How many draws there are.
    pub fn total_count(&self) -> i64 {
        self.total_count
    }
}
impl Distribution for Multinomial {
    named!(Multinomial);
    fn arguments(&self) -> Result<Vec<Argument>> {
        Ok(derived_arguments())
    }
    fn parameter(&self, name: &str) -> Result<Option<Tensor>> {
        self.categorical.parameter(name)
    }
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        Ok(Arc::new(Multinomial {
            shapes: self.shapes.expanded(batch),
            total_count: self.total_count,
            categorical: self.categorical.expanded(batch)?,
            binomial: self.binomial.expanded(&[batch, self.event_shape()].concat())?,
        }))
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(constraints::multinomial(self.total_count))
    }
    fn try_mean(&self) -> Result<Tensor> {
        (self.categorical.p() * self.total_count as f64).0
    }
    fn try_variance(&self) -> Result<Tensor> {
        let p = self.categorical.p();
        (self.total_count as f64 * &p * (1.0 - &p)).0
    }
    fn try_sample(&self, shape: &[i64]) -> Result<Tensor> {
        grad_mode::no_grad(|| {
            let draws = self.categorical.try_sample(&[&[self.total_count], shape].concat())?;
            let mut order: Vec<i64> = (1..draws.dim() as i64).collect();
            order.push(0);
            let draws = s::permute(&draws, &order)?;
            let counts = ops::new_zeros(&draws, &self.shapes.extended(shape), None, None, None, None)?;
            ops::scatter_add_(&counts, -1, &draws, &s::ones_like(&draws)?)?;
            s::to_dtype(&counts, self.categorical.odds.probs()?.dtype())
        })
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let (logits, value) = broadcast(&self.categorical.l(), &e(value));
        let sum = (value.sum(-1) + 1.0).lgamma();
        let each = (&value + 1.0).lgamma().sum(-1);
        let logits = logits.fill(&(value.eq(0.0) & logits.eq(f64::NEG_INFINITY)), 0.0);
        (sum - each + (logits * value).sum(-1)).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        let n = super::constant(&self.categorical.odds.probs()?, &[], self.total_count as f64)?;
        let first = e(&n) * e(&self.categorical.try_entropy()?) - (e(&n) + 1.0).lgamma();
        let support = self.binomial.try_enumerate_support(false)?;
        let support = ops::slice(&support, 0, Some(1), None, 1)?;
        let p = e(&self.binomial.try_log_prob(&support)?).exp();
        let second = (p * (e(&support) + 1.0).lgamma()).map(|t| s::sum_dims(t, &[0, -1], false));
        (first + second).0
    }
}
