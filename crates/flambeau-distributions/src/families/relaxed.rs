//! Continuous relaxations of discrete distributions (Maddison, Mnih and Teh, 2016; Jang, Gu and Poole, 2016).

use super::composed::TransformedDistribution;
use super::given::{Kind, Odds, clamp_probs, either};
use super::uniform;
use crate::argument::{Param, broadcast_all};
use crate::constraints::{Constraint, real, real_vector, simplex, unit_interval};
use crate::distribution::{Argument, Distribution, Shapes, check_value, checked};
use crate::families::Categorical;
use crate::formula::{Expr, broadcast, e};
use crate::transforms::{ExpTransform, SigmoidTransform};
use flambeau_core::{Result, Tensor};
use std::sync::Arc;

/// Options with a temperature and probabilities or logits of that type.
macro_rules! options {
    ($path:literal $options:ident $name:ident: $ty:ty) => {
        #[flambeau_macros::class($path, build = $name)]
        pub struct $options {
            /// Temperature: at 0 the discrete distribution, at large ones nearly uniform.
            pub temperature: Param,
            /// Probabilities.
            #[positional]
            pub probs: Option<$ty>,
            /// Log-odds, or logarithms of probabilities.
            pub logits: Option<$ty>,
            /// Whether arguments and values are checked.
            pub validate_args: Option<bool>,
        }
        object!($name);
        impl $name {
            /// By probabilities.
            #[track_caller]
            pub fn by_probs(
                temperature: impl flambeau_core::api::into_arg::IntoArg<Param>,
                probs: impl flambeau_core::api::into_arg::IntoArg<$ty>,
            ) -> Self {
                $options::new(temperature).probs(probs).build()
            }
            /// By logits.
            #[track_caller]
            pub fn by_logits(
                temperature: impl flambeau_core::api::into_arg::IntoArg<Param>,
                logits: impl flambeau_core::api::into_arg::IntoArg<$ty>,
            ) -> Self {
                $options::new(temperature).logits(logits).build()
            }
        }
    };
}
options!("torch.distributions.relaxed_bernoulli.LogitRelaxedBernoulli" LogitRelaxedBernoulliOptions LogitRelaxedBernoulli: Param);
/// The logit of a relaxed Bernoulli variable.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::{DistributionExt, LogitRelaxedBernoulli};
/// let d = LogitRelaxedBernoulli::by_probs(0.5, 0.5);
/// // the density there is a quarter of the temperature
/// assert!((d.log_prob(&tensor(0.0)).item::<f64>() - 0.125f64.ln()).abs() < 1e-6);
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.relaxed_bernoulli.LogitRelaxedBernoulli")]
pub struct LogitRelaxedBernoulli {
    shapes: Shapes,
    temperature: Tensor,
    odds: Odds,
}
impl LogitRelaxedBernoulli {
    fn from_options(o: LogitRelaxedBernoulliOptions) -> Result<Self> {
        let temperature = o.temperature.tensor()?;
        let (given, by_logits) = either(o.probs, o.logits)?;
        let [t] = broadcast_all([&given])?;
        let odds = Odds::new(Kind::Binary, t, by_logits);
        let shapes = Shapes::new(odds.param()?.sizes(), &[], o.validate_args);
        checked(LogitRelaxedBernoulli { shapes, temperature, odds })
    }
}
impl Distribution for LogitRelaxedBernoulli {
    named!(LogitRelaxedBernoulli);
    fn arguments(&self) -> Result<Vec<Argument>> {
        Ok(self.odds.arguments(unit_interval(), real()))
    }
    fn parameter(&self, name: &str) -> Result<Option<Tensor>> {
        if name == "temperature" { Ok(Some(self.temperature.clone())) } else { self.odds.parameter(name) }
    }
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        let (shapes, odds) = (self.shapes.expanded(batch), self.odds.expanded(batch)?);
        Ok(Arc::new(LogitRelaxedBernoulli { shapes, odds, temperature: self.temperature.clone() }))
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(real())
    }
    fn try_rsample(&self, shape: &[i64]) -> Result<Tensor> {
        let shape = self.shapes.extended(shape);
        let p = clamp_probs(&Expr(self.odds.probs()).expand(&shape));
        let u = clamp_probs(&Expr(uniform(&p.0.clone()?, &shape)));
        ((u.log() - (-&u).log1p() + p.log() - (-&p).log1p()) / e(&self.temperature)).0
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let (logits, value) = broadcast(&Expr(self.odds.logits()), &e(value));
        let diff = logits - value * e(&self.temperature);
        (e(&self.temperature).log() + &diff - 2.0 * diff.exp().log1p()).0
    }
}

/// What the relaxed distributions have in common: a base of which a transform is taken.
macro_rules! relaxed {
    ($(#[$doc:meta])* $name:ident, $base:ident, $support:expr, $probs:expr, $logits:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            shapes: Shapes,
            plain: TransformedDistribution,
        }
        impl $name {
            fn base(&self) -> Option<&$base> {
                self.plain.base().downcast_ref()
            }
        }
        impl Distribution for $name {
            named!($name);
            fn arguments(&self) -> Result<Vec<Argument>> {
                use crate::distribution::Held::Derived;
                Ok(vec![Argument::new("probs", $probs, Derived), Argument::new("logits", $logits, Derived)])
            }
            fn parameter(&self, name: &str) -> Result<Option<Tensor>> {
                self.base().map_or(Ok(None), |b| b.parameter(name))
            }
            fn general(&self) -> Option<&dyn Distribution> {
                Some(&self.plain)
            }
            fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
                Ok(Arc::new($name { shapes: self.shapes.expanded(batch), plain: self.plain.expanded(batch)? }))
            }
            fn has_rsample(&self) -> bool {
                true
            }
            fn try_support(&self) -> Result<Constraint> {
                Ok($support)
            }
            checked_values!();
        }
    };
}
options!("torch.distributions.RelaxedBernoulli" RelaxedBernoulliOptions RelaxedBernoulli: Param);
relaxed!(
    /// The relaxed Bernoulli distribution, over numbers from 0 to 1, with differentiable samples.
    ///
    /// ```
    /// use torch::tensor;
    /// use torch::distributions::{DistributionExt, RelaxedBernoulli};
    /// let probs = tensor(0.25).requires_grad_(true).clone();
    /// let x = RelaxedBernoulli::by_probs(0.5, &probs).rsample();
    /// assert!((0.0..=1.0).contains(&x.item::<f64>()));
    /// x.backward();
    /// assert!(probs.grad().is_some());
    /// ```
    #[doc(alias = "torch.distributions.RelaxedBernoulli")]
    RelaxedBernoulli, LogitRelaxedBernoulli, unit_interval(), unit_interval(), real()
);
impl RelaxedBernoulli {
    fn from_options(o: RelaxedBernoulliOptions) -> Result<Self> {
        let (temperature, probs, logits) = (o.temperature, o.probs, o.logits);
        let base = LogitRelaxedBernoulliOptions { temperature, probs, logits, validate_args: None };
        let base = Arc::new(LogitRelaxedBernoulli::from_options(base)?);
        let plain = TransformedDistribution::unchecked(base, vec![SigmoidTransform.into()])?;
        let shapes = plain.shapes_with(o.validate_args);
        checked(RelaxedBernoulli { shapes, plain })
    }
}

options!("torch.distributions.relaxed_categorical.ExpRelaxedCategorical" ExpRelaxedCategoricalOptions ExpRelaxedCategorical: Tensor);
/// The logarithm of a relaxed one-hot variable.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::{DistributionExt, ExpRelaxedCategorical};
/// let d = ExpRelaxedCategorical::by_probs(1.0, tensor([0.5, 0.5]));
/// let middle = tensor([0.5, 0.5]).log();
/// assert!((d.log_prob(&middle).item::<f64>() - 0.25f64.ln()).abs() < 1e-6);
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.relaxed_categorical.ExpRelaxedCategorical")]
pub struct ExpRelaxedCategorical {
    shapes: Shapes,
    temperature: Tensor,
    categorical: Categorical,
}
impl ExpRelaxedCategorical {
    fn from_options(o: ExpRelaxedCategoricalOptions) -> Result<Self> {
        let categorical = Categorical::of(o.probs, o.logits)?;
        let temperature = o.temperature.tensor()?;
        let events = [categorical.odds().events()?];
        let shapes = Shapes::new(categorical.batch_shape(), &events, o.validate_args);
        checked(ExpRelaxedCategorical { shapes, temperature, categorical })
    }
}
impl Distribution for ExpRelaxedCategorical {
    named!(ExpRelaxedCategorical);
    fn arguments(&self) -> Result<Vec<Argument>> {
        Ok(super::categorical::derived_arguments())
    }
    fn parameter(&self, name: &str) -> Result<Option<Tensor>> {
        if name == "temperature" {
            Ok(Some(self.temperature.clone()))
        } else {
            self.categorical.parameter(name)
        }
    }
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        let (shapes, categorical) = (self.shapes.expanded(batch), self.categorical.expanded(batch)?);
        Ok(Arc::new(ExpRelaxedCategorical { shapes, categorical, temperature: self.temperature.clone() }))
    }
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(real_vector())
    }
    fn try_rsample(&self, shape: &[i64]) -> Result<Tensor> {
        let logits = self.categorical.odds().logits()?;
        let u = clamp_probs(&Expr(uniform(&logits, &self.shapes.extended(shape))));
        let gumbel = -(-u.log()).log();
        let scores = (e(&logits) + gumbel) / e(&self.temperature);
        (&scores - scores.logsumexp_keep()).0
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let k = self.categorical.odds().events()? as f64;
        let (logits, value) = broadcast(&self.categorical.l(), &e(value));
        let t = e(&self.temperature);
        let scale = t.full(k).lgamma() - t.log() * -(k - 1.0);
        let score = logits - value * &t;
        ((&score - score.logsumexp_keep()).sum(-1) + scale).0
    }
}
options!("torch.distributions.RelaxedOneHotCategorical" RelaxedOneHotCategoricalOptions RelaxedOneHotCategorical: Tensor);
relaxed!(
    /// The relaxed one-hot categorical distribution, over the simplex, with differentiable samples.
    ///
    /// ```
    /// use torch::tensor;
    /// use torch::distributions::{DistributionExt, RelaxedOneHotCategorical};
    /// let d = RelaxedOneHotCategorical::by_probs(0.5, tensor([0.1, 0.2, 0.7]));
    /// let x = d.rsample();
    /// assert!((x.sum().item::<f64>() - 1.0).abs() < 1e-6);
    /// assert_eq!(d.support().to_string(), "Simplex()");
    /// ```
    #[doc(alias = "torch.distributions.RelaxedOneHotCategorical")]
    RelaxedOneHotCategorical, ExpRelaxedCategorical, simplex(), simplex(), real_vector()
);
impl RelaxedOneHotCategorical {
    fn from_options(o: RelaxedOneHotCategoricalOptions) -> Result<Self> {
        let validate = o.validate_args;
        let (temperature, probs, logits) = (o.temperature, o.probs, o.logits);
        let base = ExpRelaxedCategoricalOptions { temperature, probs, logits, validate_args: validate };
        let base = Arc::new(ExpRelaxedCategorical::from_options(base)?);
        let plain = TransformedDistribution::unchecked(base, vec![ExpTransform.into()])?;
        let shapes = plain.shapes_with(validate);
        checked(RelaxedOneHotCategorical { shapes, plain })
    }
}
