//! Distributions that are transforms of others.

use super::composed::TransformedDistribution;
use crate::argument::{Param, broadcast_all};
use crate::constraints::{self, Constraint, nonnegative, positive, real, simplex, unit_interval};
use crate::distribution::{Argument, Distribution, Held, Shapes, check_value, checked};
use crate::families::{
    CauchyOptions, Exponential, Gamma, Independent, Normal, NormalOptions, UniformOptions,
};
use crate::formula::{Expr, e};
use crate::transforms::{
    AbsTransform, AffineTransform, AnyTransform, ExpTransform, PowerTransform, StickBreakingTransform,
    inverse,
};
use flambeau_autograd::shorthand as s;
use flambeau_core::{Result, Tensor, finfo};
use std::f64::consts::{LN_2, PI};
use std::sync::Arc;

/// Euler's constant.
pub(crate) const EULER: f64 = 0.577_215_664_901_532_9;

/// A distribution with arguments of its own and a base to which transforms are applied: its options, the struct and what
/// all such have in common. `held` arguments are kept, those of `derived` are the base's.
macro_rules! case {
    ($(#[$doc:meta])* $path:literal $name:ident $options:ident { $($(#[$attr:meta])* $field:ident: $constraint:expr,)+ }
     $held:ident) => {
        #[flambeau_macros::class($path, build = $name)]
        pub struct $options {
            $($(#[$attr])* pub $field: Param,)+
            /// Whether arguments and values are checked.
            pub validate_args: Option<bool>,
        }
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[doc(alias = $path)]
        pub struct $name {
            shapes: Shapes,
            plain: TransformedDistribution,
            $($field: Tensor,)+
        }
        object!($name);
        impl $name {
            fn of_plain(plain: TransformedDistribution, validate: Option<bool>, fields: [Tensor; [$(stringify!($field)),+].len()]) -> Result<Self> {
                let [$($field),+] = fields;
                checked($name { shapes: plain.shapes_with(validate), plain, $($field),+ })
            }
            $(
                #[doc = concat!("The argument `", stringify!($field), "`, over the batch.")]
                pub fn $field(&self) -> &Tensor {
                    &self.$field
                }
            )+
            fn held(&self) -> Vec<Argument> {
                vec![$(Argument::new(stringify!($field), $constraint, held!($held self.$field))),+]
            }
            fn own(&self, name: &str) -> Option<Tensor> {
                $(if name == stringify!($field) {
                    return Some(self.$field.clone());
                })+
                None
            }
        }
    };
}
macro_rules! held {
    (here $field:expr) => {
        Held::Here($field.clone())
    };
    (derived $field:expr) => {
        Held::Derived
    };
}
/// What such distributions have in common, within `impl Distribution`.
macro_rules! of_plain {
    ($name:ident, |$d:ident, $batch:ident| $expanded:expr) => {
        named!($name);
        fn arguments(&self) -> Result<Vec<Argument>> {
            Ok(self.held())
        }
        fn parameter(&self, name: &str) -> Result<Option<Tensor>> {
            Ok(self.own(name))
        }
        fn general(&self) -> Option<&dyn Distribution> {
            Some(&self.plain)
        }
        fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
            let ($d, $batch) = (self, batch);
            Ok(Arc::new($expanded))
        }
    };
}
/// Where `mask` holds the formula, infinity elsewhere.
fn or_infinity(mask: &Expr, formula: Expr) -> Expr {
    mask.choose(formula, f64::INFINITY)
}

case! {
    /// The half-normal distribution: of the absolute value of a normal variable with mean 0.
    ///
    /// ```
    /// use torch::distributions::{DistributionExt, HalfNormal};
    /// let d = HalfNormal::new(1.0);
    /// assert!((d.mean().item::<f64>() - (2.0 / std::f64::consts::PI).sqrt()).abs() < 1e-6);
    /// assert_eq!(d.mode().item::<f64>(), 0.0);
    /// ```
    "torch.distributions.HalfNormal" HalfNormal HalfNormalOptions {
        /// Standard deviation of the normal variable.
        #[doc(alias = "torch.distributions.HalfNormal.scale")]
        scale: positive(),
    } derived
}
impl HalfNormal {
    fn from_options(o: HalfNormalOptions) -> Result<Self> {
        let base = NormalOptions { loc: 0.into(), scale: o.scale, validate_args: Some(false) }.try_build()?;
        let scale = base.scale().clone();
        let plain = TransformedDistribution::unchecked(Arc::new(base), vec![AbsTransform.into()])?;
        Self::of_plain(plain, o.validate_args, [scale])
    }
    pub(crate) fn normal(&self) -> Option<&Normal> {
        self.plain.base().downcast_ref()
    }
}
impl Distribution for HalfNormal {
    of_plain!(HalfNormal, |d, b| HalfNormal {
        shapes: d.shapes.expanded(b),
        plain: d.plain.expanded(b)?,
        scale: s::expand(&d.scale, b)?,
    });
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(nonnegative())
    }
    fn try_mean(&self) -> Result<Tensor> {
        (e(&self.scale) * (2.0 / PI).sqrt()).0
    }
    fn try_mode(&self) -> Result<Tensor> {
        s::zeros_like(&self.scale)
    }
    fn try_variance(&self) -> Result<Tensor> {
        (e(&self.scale).pow(2.0) * (1.0 - 2.0 / PI)).0
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let p = e(&self.plain.base().try_log_prob(value)?) + LN_2;
        e(value).ge(0.0).choose(p, f64::NEG_INFINITY).0
    }
    fn try_cdf(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        (2.0 * e(&self.plain.base().try_cdf(value)?) - 1.0).0
    }
    fn try_icdf(&self, value: &Tensor) -> Result<Tensor> {
        self.plain.base().try_icdf(&((e(value) + 1.0) / 2.0).0?)
    }
    fn try_entropy(&self) -> Result<Tensor> {
        (e(&self.plain.base().try_entropy()?) - LN_2).0
    }
}

case! {
    /// The half-Cauchy distribution: of the absolute value of a Cauchy variable with mode 0.
    ///
    /// ```
    /// use torch::tensor;
    /// use torch::distributions::{DistributionExt, HalfCauchy};
    /// let d = HalfCauchy::new(1.0);
    /// assert_eq!(d.mean().item::<f64>(), f64::INFINITY);
    /// assert_eq!(d.cdf(&tensor(1.0)).item::<f64>(), 0.5);
    /// ```
    "torch.distributions.HalfCauchy" HalfCauchy HalfCauchyOptions {
        /// Scale of the Cauchy variable.
        #[doc(alias = "torch.distributions.HalfCauchy.scale")]
        scale: positive(),
    } derived
}
impl HalfCauchy {
    fn from_options(o: HalfCauchyOptions) -> Result<Self> {
        let base = CauchyOptions { loc: 0.into(), scale: o.scale, validate_args: Some(false) }.try_build()?;
        let scale = base.scale().clone();
        let plain = TransformedDistribution::unchecked(Arc::new(base), vec![AbsTransform.into()])?;
        Self::of_plain(plain, o.validate_args, [scale])
    }
}
impl Distribution for HalfCauchy {
    of_plain!(HalfCauchy, |d, b| HalfCauchy {
        shapes: d.shapes.expanded(b),
        plain: d.plain.expanded(b)?,
        scale: s::expand(&d.scale, b)?,
    });
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(nonnegative())
    }
    fn try_mean(&self) -> Result<Tensor> {
        super::constant(&self.scale, &self.shapes.extended(&[]), f64::INFINITY)
    }
    fn try_mode(&self) -> Result<Tensor> {
        s::zeros_like(&self.scale)
    }
    fn try_variance(&self) -> Result<Tensor> {
        self.plain.base().try_variance()
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let value = s::to_dtype(value, self.scale.dtype())?;
        let p = e(&self.plain.base().try_log_prob(&value)?) + LN_2;
        e(&value).ge(0.0).choose(p, f64::NEG_INFINITY).0
    }
    fn try_cdf(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        (2.0 * e(&self.plain.base().try_cdf(value)?) - 1.0).0
    }
    fn try_icdf(&self, value: &Tensor) -> Result<Tensor> {
        self.plain.base().try_icdf(&((e(value) + 1.0) / 2.0).0?)
    }
    fn try_entropy(&self) -> Result<Tensor> {
        (e(&self.plain.base().try_entropy()?) - LN_2).0
    }
}

case! {
    /// The log-normal distribution: of the exponential of a normal variable.
    ///
    /// ```
    /// use torch::tensor;
    /// use torch::distributions::{DistributionExt, LogNormal};
    /// let d = LogNormal::new(0.0, 1.0);
    /// assert!((d.mean().item::<f64>() - 0.5f64.exp()).abs() < 1e-6);
    /// assert_eq!(d.cdf(&tensor(1.0)).item::<f64>(), 0.5);
    /// ```
    "torch.distributions.LogNormal" LogNormal LogNormalOptions {
        /// Mean of the logarithm.
        #[doc(alias = "torch.distributions.LogNormal.loc")]
        loc: real(),
        /// Standard deviation of the logarithm.
        #[doc(alias = "torch.distributions.LogNormal.scale")]
        scale: positive(),
    } derived
}
impl LogNormal {
    fn from_options(o: LogNormalOptions) -> Result<Self> {
        let validate_args = o.validate_args;
        let base = NormalOptions { loc: o.loc, scale: o.scale, validate_args }.try_build()?;
        let fields = [base.loc().clone(), base.scale().clone()];
        let plain = TransformedDistribution::unchecked(Arc::new(base), vec![ExpTransform.into()])?;
        Self::of_plain(plain, validate_args, fields)
    }
}
impl Distribution for LogNormal {
    of_plain!(LogNormal, |d, b| LogNormal {
        shapes: d.shapes.expanded(b),
        plain: d.plain.expanded(b)?,
        loc: s::expand(&d.loc, b)?,
        scale: s::expand(&d.scale, b)?,
    });
    checked_values!();
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(positive())
    }
    fn try_mean(&self) -> Result<Tensor> {
        (e(&self.loc) + e(&self.scale).pow(2.0) / 2.0).exp().0
    }
    fn try_mode(&self) -> Result<Tensor> {
        (e(&self.loc) - e(&self.scale).square()).exp().0
    }
    fn try_variance(&self) -> Result<Tensor> {
        let square = e(&self.scale).pow(2.0);
        (square.expm1() * (2.0 * e(&self.loc) + &square).exp()).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        (e(&self.plain.base().try_entropy()?) + e(&self.loc)).0
    }
}

case! {
    /// The Gumbel distribution, of the largest of many values.
    ///
    /// ```
    /// use torch::tensor;
    /// use torch::distributions::{DistributionExt, Gumbel};
    /// let d = Gumbel::new(0.0, 1.0);
    /// assert_eq!(d.mode().item::<f64>(), 0.0);
    /// // exp(-exp(-x))
    /// assert!((d.cdf(&tensor(0.0)).item::<f64>() - (-1f64).exp()).abs() < 1e-6);
    /// ```
    "torch.distributions.Gumbel" Gumbel GumbelOptions {
        /// Mode.
        loc: real(),
        /// Scale.
        scale: positive(),
    } here
}
impl Gumbel {
    fn plain(loc: &Tensor, scale: &Tensor, validate: Option<bool>) -> Result<TransformedDistribution> {
        let info = finfo(loc.dtype())?;
        let (low, high) = (e(loc).full(info.tiny).0?, e(loc).full(1.0 - info.eps).0?);
        let base =
            UniformOptions { low: low.into(), high: high.into(), validate_args: validate }.try_build()?;
        let log = inverse(&ExpTransform.into());
        let minus = (-e(scale).ones_like()).0?;
        let transforms: Vec<AnyTransform> = vec![
            log.clone(),
            AffineTransform::new(0, minus).into(),
            log,
            AffineTransform::new(loc, s::neg(scale)?).into(),
        ];
        TransformedDistribution::unchecked(Arc::new(base), transforms)
    }
    fn from_options(o: GumbelOptions) -> Result<Self> {
        let [loc, scale] = broadcast_all([&o.loc, &o.scale])?;
        Self::of_plain(Self::plain(&loc, &scale, o.validate_args)?, o.validate_args, [loc, scale])
    }
}
impl Distribution for Gumbel {
    of_plain!(Gumbel, |d, b| Gumbel {
        shapes: d.shapes.expanded(b),
        plain: d.plain.expanded(b)?,
        loc: s::expand(&d.loc, b)?,
        scale: s::expand(&d.scale, b)?,
    });
    fn try_support(&self) -> Result<Constraint> {
        Ok(real())
    }
    fn try_mean(&self) -> Result<Tensor> {
        (e(&self.loc) + e(&self.scale) * EULER).0
    }
    fn try_mode(&self) -> Result<Tensor> {
        Ok(self.loc.clone())
    }
    fn try_stddev(&self) -> Result<Tensor> {
        (PI / 6f64.sqrt() * e(&self.scale)).0
    }
    fn try_variance(&self) -> Result<Tensor> {
        Expr(self.try_stddev()).pow(2.0).0
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let y = (e(&self.loc) - e(value)) / e(&self.scale);
        (&y - y.exp() - e(&self.scale).log()).0
    }
    fn try_cdf(&self, value: &Tensor) -> Result<Tensor> {
        self.plain.cdf_with(value, self.shapes.validate())
    }
    fn try_entropy(&self) -> Result<Tensor> {
        (e(&self.scale).log() + (1.0 + EULER)).0
    }
}

case! {
    /// The inverse gamma distribution: of the reciprocal of a gamma variable.
    ///
    /// ```
    /// use torch::distributions::{DistributionExt, InverseGamma};
    /// let d = InverseGamma::new(3.0, 2.0);
    /// assert_eq!((d.mean().item::<f64>(), d.mode().item::<f64>()), (1.0, 0.5));
    /// ```
    "torch.distributions.InverseGamma" InverseGamma InverseGammaOptions {
        /// Shape.
        concentration: positive(),
        /// Rate of the gamma variable.
        rate: positive(),
    } derived
}
impl InverseGamma {
    fn from_options(o: InverseGammaOptions) -> Result<Self> {
        let base = Gamma::of(o.concentration, o.rate, o.validate_args)?;
        let fields = [base.concentration().clone(), base.rate().clone()];
        let minus = super::constant(&fields[1], &[], -1.0)?;
        let power = PowerTransform::try_new(&minus.into())?;
        let plain = TransformedDistribution::unchecked(Arc::new(base), vec![power.into()])?;
        Self::of_plain(plain, o.validate_args, fields)
    }
}
impl Distribution for InverseGamma {
    of_plain!(InverseGamma, |d, b| InverseGamma {
        shapes: d.shapes.expanded(b),
        plain: d.plain.expanded(b)?,
        concentration: s::expand(&d.concentration, b)?,
        rate: s::expand(&d.rate, b)?,
    });
    checked_values!();
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(positive())
    }
    fn try_mean(&self) -> Result<Tensor> {
        let c = e(&self.concentration);
        or_infinity(&c.gt(1.0), e(&self.rate) / (&c - 1.0)).0
    }
    fn try_mode(&self) -> Result<Tensor> {
        (e(&self.rate) / (e(&self.concentration) + 1.0)).0
    }
    fn try_variance(&self) -> Result<Tensor> {
        let c = e(&self.concentration);
        or_infinity(&c.gt(2.0), e(&self.rate).square() / ((&c - 1.0).square() * (&c - 2.0))).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        let c = e(&self.concentration);
        (&c + e(&self.rate).log() + c.lgamma() - (1.0 + &c) * c.digamma()).0
    }
}

case! {
    /// The Kumaraswamy distribution over numbers from 0 to 1, with density `a b x^(a-1) (1 - x^a)^(b-1)`.
    ///
    /// ```
    /// use torch::tensor;
    /// use torch::distributions::{DistributionExt, Kumaraswamy};
    /// let d = Kumaraswamy::new(2.0, 1.0);
    /// assert!((d.mean().item::<f64>() - 2.0 / 3.0).abs() < 1e-6);
    /// assert!((d.cdf(&tensor(0.5)).item::<f64>() - 0.25).abs() < 1e-6);
    /// ```
    "torch.distributions.Kumaraswamy" Kumaraswamy KumaraswamyOptions {
        /// First concentration, a.
        concentration1: positive(),
        /// Second concentration, b.
        concentration0: positive(),
    } here
}
impl Kumaraswamy {
    fn from_options(o: KumaraswamyOptions) -> Result<Self> {
        let [a, b] = broadcast_all([&o.concentration1, &o.concentration0])?;
        let (low, high) = (e(&b).full(0.0).0?, e(&b).full(1.0).0?);
        let validate_args = o.validate_args;
        let base = UniformOptions { low: low.into(), high: high.into(), validate_args }.try_build()?;
        let power = |t: &Tensor| PowerTransform::try_new(&e(t).reciprocal().0?.into());
        let transforms: Vec<AnyTransform> =
            vec![power(&b)?.into(), AffineTransform::new(1.0, -1.0).into(), power(&a)?.into()];
        let plain = TransformedDistribution::unchecked(Arc::new(base), transforms)?;
        Self::of_plain(plain, validate_args, [a, b])
    }
    fn moment(&self, n: f64) -> Expr {
        let (a, b) = (e(&self.concentration1), e(&self.concentration0));
        let arg = 1.0 + n / a;
        let log = arg.lgamma() + b.lgamma() - (&arg + &b).lgamma();
        b * log.exp()
    }
}
impl Distribution for Kumaraswamy {
    of_plain!(Kumaraswamy, |d, b| Kumaraswamy {
        shapes: d.shapes.expanded(b),
        plain: d.plain.expanded(b)?,
        concentration1: s::expand(&d.concentration1, b)?,
        concentration0: s::expand(&d.concentration0, b)?,
    });
    checked_values!();
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(unit_interval())
    }
    fn try_mean(&self) -> Result<Tensor> {
        self.moment(1.0).0
    }
    fn try_mode(&self) -> Result<Tensor> {
        let (a, b) = (e(&self.concentration1), e(&self.concentration0));
        let log = b.reciprocal() * (-&b).log1p() - (-&b * &a).log1p();
        log.fill(&(b.lt(1.0) | a.lt(1.0)), f64::NAN).exp().0
    }
    fn try_variance(&self) -> Result<Tensor> {
        (self.moment(2.0) - self.moment(1.0).pow(2.0)).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        let (a, b) = (e(&self.concentration1), e(&self.concentration0));
        let (t1, t0) = (1.0 - a.reciprocal(), 1.0 - b.reciprocal());
        let h0 = (&b + 1.0).digamma() + EULER;
        (t0 + t1 * h0 - a.log() - b.log()).0
    }
}

case! {
    /// The Pareto distribution (of type 1), with density `alpha scale^alpha / x^(alpha + 1)` from `scale` on.
    ///
    /// ```
    /// use torch::tensor;
    /// use torch::distributions::{DistributionExt, Pareto};
    /// let d = Pareto::new(1.0, 3.0);
    /// assert_eq!((d.mean().item::<f64>(), d.mode().item::<f64>()), (1.5, 1.0));
    /// // one in eight is larger than twice the smallest
    /// assert!((d.cdf(&tensor(2.0)).item::<f64>() - 7.0 / 8.0).abs() < 1e-6);
    /// ```
    "torch.distributions.Pareto" Pareto ParetoOptions {
        /// Least value.
        scale: positive(),
        /// Shape of the tail.
        alpha: positive(),
    } here
}
impl Pareto {
    fn from_options(o: ParetoOptions) -> Result<Self> {
        let [scale, alpha] = broadcast_all([&o.scale, &o.alpha])?;
        let base = Exponential::of(&alpha, o.validate_args)?;
        let transforms: Vec<AnyTransform> = vec![ExpTransform.into(), AffineTransform::new(0, &scale).into()];
        let plain = TransformedDistribution::unchecked(Arc::new(base), transforms)?;
        Self::of_plain(plain, o.validate_args, [scale, alpha])
    }
}
impl Distribution for Pareto {
    named!(Pareto);
    // PyTorch names the tail first
    fn arguments(&self) -> Result<Vec<Argument>> {
        let mut all = self.held();
        all.reverse();
        Ok(all)
    }
    fn parameter(&self, name: &str) -> Result<Option<Tensor>> {
        Ok(self.own(name))
    }
    fn general(&self) -> Option<&dyn Distribution> {
        Some(&self.plain)
    }
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        Ok(Arc::new(Pareto {
            shapes: self.shapes.expanded(batch),
            plain: self.plain.expanded(batch)?,
            scale: s::expand(&self.scale, batch)?,
            alpha: s::expand(&self.alpha, batch)?,
        }))
    }
    checked_values!();
    fn try_support(&self) -> Result<Constraint> {
        Ok(constraints::greater_than_eq(&self.scale))
    }
    fn try_mean(&self) -> Result<Tensor> {
        let a = e(&self.alpha).at_least(1.0);
        (&a * e(&self.scale) / (&a - 1.0)).0
    }
    fn try_mode(&self) -> Result<Tensor> {
        Ok(self.scale.clone())
    }
    fn try_variance(&self) -> Result<Tensor> {
        let a = e(&self.alpha).at_least(2.0);
        (e(&self.scale).pow(2.0) * &a / ((&a - 1.0).pow(2.0) * (&a - 2.0))).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        ((e(&self.scale) / e(&self.alpha)).log() + (1.0 + e(&self.alpha).reciprocal())).0
    }
}

case! {
    /// The Weibull distribution with density `c / scale (x / scale)^(c-1) exp(-(x / scale)^c)`, c the concentration.
    ///
    /// ```
    /// use torch::tensor;
    /// use torch::distributions::{DistributionExt, Weibull};
    /// let d = Weibull::new(2.0, 3.0);
    /// // as many are below the scale for every concentration
    /// assert!((d.cdf(&tensor(2.0)).item::<f64>() - (1.0 - (-1f64).exp())).abs() < 1e-6);
    /// ```
    "torch.distributions.Weibull" Weibull WeibullOptions {
        /// Scale.
        scale: positive(),
        /// Shape.
        concentration: positive(),
    } here
}
impl Weibull {
    fn plain(
        scale: &Tensor,
        concentration: &Tensor,
        base: Arc<dyn Distribution>,
    ) -> Result<TransformedDistribution> {
        let power = PowerTransform::try_new(&e(concentration).reciprocal().0?.into())?;
        let transforms: Vec<AnyTransform> = vec![power.into(), AffineTransform::new(0, scale).into()];
        TransformedDistribution::unchecked(base, transforms)
    }
    fn from_options(o: WeibullOptions) -> Result<Self> {
        let [scale, concentration] = broadcast_all([&o.scale, &o.concentration])?;
        let base = Exponential::of(&s::ones_like(&scale)?, o.validate_args)?;
        let plain = Self::plain(&scale, &concentration, Arc::new(base))?;
        Self::of_plain(plain, o.validate_args, [scale, concentration])
    }
    fn inverse(&self) -> Expr {
        e(&self.concentration).reciprocal()
    }
}
impl Distribution for Weibull {
    of_plain!(Weibull, |d, b| {
        let (scale, concentration) = (s::expand(&d.scale, b)?, s::expand(&d.concentration, b)?);
        let plain = Self::plain(&scale, &concentration, d.plain.base().try_expand(b)?)?;
        Weibull { shapes: d.shapes.expanded(b), plain, scale, concentration }
    });
    checked_values!();
    fn try_support(&self) -> Result<Constraint> {
        Ok(positive())
    }
    fn try_mean(&self) -> Result<Tensor> {
        (e(&self.scale) * (1.0 + self.inverse()).lgamma().exp()).0
    }
    fn try_mode(&self) -> Result<Tensor> {
        let c = e(&self.concentration);
        (e(&self.scale) * ((&c - 1.0) / &c).pow(self.inverse())).0
    }
    fn try_variance(&self) -> Result<Tensor> {
        let r = self.inverse();
        let second = (1.0 + 2.0 * &r).lgamma().exp();
        (e(&self.scale).pow(2.0) * (second - (2.0 * (1.0 + &r).lgamma()).exp())).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        let r = self.inverse();
        (EULER * (1.0 - &r) + (e(&self.scale) * &r).log() + 1.0).0
    }
}

case! {
    /// The logistic-normal distribution over the simplex: a normal variable through
    /// [`StickBreakingTransform`].
    ///
    /// ```
    /// use torch::{ones, zeros};
    /// use torch::distributions::{DistributionExt, LogisticNormal};
    /// // two normal variables make points of a simplex with three corners
    /// let x = LogisticNormal::new(zeros([2]), ones([2])).sample_shape([5]);
    /// assert_eq!(x.sizes(), &[5, 3]);
    /// assert!(torch::allclose(&x.sum_dim(-1, false), &ones([5])));
    /// ```
    "torch.distributions.LogisticNormal" LogisticNormal LogisticNormalOptions {
        /// Mean of the normal variable.
        loc: real(),
        /// Standard deviation of the normal variable.
        scale: positive(),
    } derived
}
impl LogisticNormal {
    fn of(base: Arc<dyn Distribution>, validate: Option<bool>) -> Result<Self> {
        let plain = TransformedDistribution::unchecked(base, vec![StickBreakingTransform.into()])?;
        Self::of_transformed(plain, validate)
    }
    fn of_transformed(plain: TransformedDistribution, validate: Option<bool>) -> Result<Self> {
        let within =
            plain.base().downcast_ref::<Independent>().and_then(|i| i.base().downcast_ref::<Normal>());
        let missing = || flambeau_core::Error::assertion("the base of a logistic-normal variable is normal");
        let normal = within.ok_or_else(missing)?;
        let fields = [normal.loc().clone(), normal.scale().clone()];
        Self::of_plain(plain, validate, fields)
    }
    fn from_options(o: LogisticNormalOptions) -> Result<Self> {
        let validate_args = o.validate_args;
        let base = NormalOptions { loc: o.loc, scale: o.scale, validate_args }.try_build()?;
        let base: Arc<dyn Distribution> =
            if base.batch_shape().is_empty() { base.try_expand(&[1])? } else { Arc::new(base) };
        Self::of(base, validate_args)
    }
}
impl Distribution for LogisticNormal {
    of_plain!(LogisticNormal, |d, b| {
        let made = Self::of_transformed(d.plain.expanded(b)?, Some(false))?;
        LogisticNormal { shapes: d.shapes.expanded(b), ..made }
    });
    checked_values!();
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(simplex())
    }
}
