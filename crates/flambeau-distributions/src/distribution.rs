//! What all distributions have in common.

use crate::argument::formatted;
use crate::constraints::Constraint;
use crate::formula::{Expr, e};
use flambeau_autograd::grad_mode;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::settings::determinism::warn;
use flambeau_core::text::size_tuple;
use flambeau_core::{Error, ErrorKind, IntoDims, Result, Tensor, ensure};
use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

static VALIDATE: AtomicBool = AtomicBool::new(true);

/// Whether distributions made from here on check their arguments and values, where they are not told. It is on from the
/// start.
///
/// ```
/// use torch::distributions::{NormalOptions, set_default_validate_args};
/// assert!(NormalOptions::new(0.0, -1.0).try_build().is_err());
/// set_default_validate_args(false);
/// assert!(NormalOptions::new(0.0, -1.0).try_build().is_ok());
/// # set_default_validate_args(true);
/// ```
#[doc(alias = "torch.distributions.Distribution.set_default_validate_args")]
pub fn set_default_validate_args(on: bool) {
    VALIDATE.store(on, Ordering::Relaxed);
}

/// The shapes of a distribution, and whether it checks arguments and values.
///
/// ```
/// use torch::distributions::Shapes;
/// let shapes = Shapes::new(&[2], &[3], None);
/// assert_eq!((shapes.batch(), shapes.event()), (&[2i64][..], &[3i64][..]));
/// assert_eq!(shapes.extended(&[5]), [5, 2, 3]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shapes {
    batch: Vec<i64>,
    event: Vec<i64>,
    validate: bool,
}
impl Shapes {
    /// Shapes of a batch and of one event; `validate` of `None` means the default.
    pub fn new(batch: &[i64], event: &[i64], validate: Option<bool>) -> Shapes {
        let validate = validate.unwrap_or_else(|| VALIDATE.load(Ordering::Relaxed));
        Shapes { batch: batch.to_vec(), event: event.to_vec(), validate }
    }
    /// The same with another batch shape.
    pub fn expanded(&self, batch: &[i64]) -> Shapes {
        Shapes { batch: batch.to_vec(), ..self.clone() }
    }
    /// The shape of a batch.
    pub fn batch(&self) -> &[i64] {
        &self.batch
    }
    /// The shape of one event.
    pub fn event(&self) -> &[i64] {
        &self.event
    }
    /// Whether arguments and values are checked.
    pub fn validate(&self) -> bool {
        self.validate
    }
    /// The shape of samples of that shape: it, the batch and the event.
    pub fn extended(&self, sample: &[i64]) -> Vec<i64> {
        [sample, &self.batch, &self.event].concat()
    }
}

/// How a distribution has one of its arguments.
///
/// ```
/// use torch::distributions::{Chi2, Distribution, Held, Normal};
/// let held = |d: &dyn Distribution| d.arguments().unwrap().remove(0).held;
/// assert!(matches!(held(&Normal::new(0.0, 1.0)), Held::Here(_)));
/// // twice the concentration of a gamma distribution
/// assert!(matches!(held(&Chi2::new(3.0)), Held::Derived));
/// ```
#[derive(Clone, Debug)]
pub enum Held {
    /// It was given, or computed and kept: printing shows it.
    Here(Tensor),
    /// It follows from others at each question.
    Derived,
    /// It is computed when it is asked for, and then kept.
    Later,
}
/// One argument of a distribution.
///
/// ```
/// use torch::distributions::{Distribution, Normal};
/// let all = Normal::new(0.0, 1.0).arguments()?;
/// assert_eq!(all[1].name, "scale");
/// assert_eq!(all[1].constraint.to_string(), "GreaterThan(lower_bound=0.0)");
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Argument {
    /// Its documented name.
    pub name: &'static str,
    /// What its values must satisfy.
    pub constraint: Constraint,
    /// How it is held.
    pub held: Held,
}
impl Argument {
    pub(crate) fn new(name: &'static str, constraint: Constraint, held: Held) -> Argument {
        Argument { name, constraint, held }
    }
}

fn refused<T>() -> Result<T> {
    Err(Error::unsupported(""))
}

/// A probability distribution (`torch.distributions.Distribution`): a batch of independent distributions of one family,
/// each over events of one shape.
///
/// Implement `name`, `shapes`, and what the distribution can do; what it cannot is an error. Methods that begin with
/// `try_` give errors, those of [`DistributionExt`] panic with the same text. [`register_kl`](crate::kl::register_kl)
/// makes a divergence known.
///
/// ```
/// use torch::distributions::{Distribution, DistributionExt, Normal};
/// let d = Normal::new(0.0, 2.0);
/// assert_eq!(d.variance().item::<f64>(), 4.0);
/// assert_eq!(d.sample_shape([3]).sizes(), &[3]);
/// assert_eq!(d.to_text(), "Normal(loc: 0.0, scale: 2.0)");
/// ```
#[doc(alias = "torch.distributions.Distribution")]
pub trait Distribution: Any + Send + Sync {
    /// The class's name.
    fn name(&self) -> &'static str;
    /// Shapes, and whether arguments and values are checked.
    fn shapes(&self) -> &Shapes;
    /// The arguments, with what their values must satisfy.
    ///
    /// # Errors
    /// When the bounds of one cannot be computed.
    #[doc(alias = "torch.distributions.Distribution.arg_constraints")]
    fn arguments(&self) -> Result<Vec<Argument>> {
        Ok(Vec::new())
    }
    /// The argument of that name, or `None` if there is none.
    ///
    /// # Errors
    /// When it has to be computed and cannot be.
    fn parameter(&self, name: &str) -> Result<Option<Tensor>> {
        held_here(self.arguments(), name)
    }
    /// The more general distribution that this one is a case of: it does what this one does not do itself, and divergences
    /// registered for it serve this one too.
    fn general(&self) -> Option<&dyn Distribution> {
        None
    }
    /// The parts of an exponential family, of members of one.
    fn family(&self) -> Option<&dyn ExponentialFamily> {
        self.general()?.family()
    }
    /// Shape over which parameters are batched.
    #[doc(alias = "torch.distributions.Distribution.batch_shape")]
    fn batch_shape(&self) -> &[i64] {
        self.shapes().batch()
    }
    /// Shape of one event.
    #[doc(alias = "torch.distributions.Distribution.event_shape")]
    fn event_shape(&self) -> &[i64] {
        self.shapes().event()
    }
    /// What values the distribution takes.
    ///
    /// # Errors
    /// Where it has none.
    fn try_support(&self) -> Result<Constraint> {
        self.general().map_or_else(refused, |g| g.try_support())
    }
    /// Whether `rsample` works: samples as differentiable functions of the parameters.
    fn has_rsample(&self) -> bool {
        self.general().is_some_and(|g| g.has_rsample())
    }
    /// Whether `enumerate_support` works.
    fn has_enumerate_support(&self) -> bool {
        self.general().is_some_and(|g| g.has_enumerate_support())
    }
    /// How many distributions stand in each other here, of those that have one within.
    #[doc(hidden)]
    fn levels(&self) -> usize {
        1
    }
    /// The same distribution over a larger batch.
    ///
    /// # Errors
    /// A shape to which parameters do not expand.
    fn try_expand(&self, batch_shape: &[i64]) -> Result<Arc<dyn Distribution>> {
        let _ = batch_shape;
        refused()
    }
    /// Mean, of shape `batch_shape + event_shape`.
    ///
    /// # Errors
    /// Where it is not known.
    fn try_mean(&self) -> Result<Tensor> {
        self.general().map_or_else(refused, |g| g.try_mean())
    }
    /// The likeliest value.
    ///
    /// # Errors
    /// Where it is not known.
    fn try_mode(&self) -> Result<Tensor> {
        let of_general = self.general().map(|g| g.try_mode());
        match of_general {
            Some(Err(e)) if e.kind() == ErrorKind::Unsupported => {}
            Some(other) => return other,
            None => {}
        }
        Err(no_mode(self.name()))
    }
    /// Variance.
    ///
    /// # Errors
    /// Where it is not known.
    fn try_variance(&self) -> Result<Tensor> {
        self.general().map_or_else(refused, |g| g.try_variance())
    }
    /// Standard deviation.
    ///
    /// # Errors
    /// Where it is not known.
    fn try_stddev(&self) -> Result<Tensor> {
        Expr(self.try_variance()).sqrt().0
    }
    /// Samples of shape `shape + batch_shape + event_shape`, without gradients.
    ///
    /// # Errors
    /// Where samples cannot be drawn.
    fn try_sample(&self, shape: &[i64]) -> Result<Tensor> {
        match self.general() {
            Some(g) => g.try_sample(shape),
            None => grad_mode::no_grad(|| self.try_rsample(shape)),
        }
    }
    /// Samples that are differentiable functions of the parameters.
    ///
    /// # Errors
    /// Where there is no such function.
    fn try_rsample(&self, shape: &[i64]) -> Result<Tensor> {
        self.general().map_or_else(refused, |g| g.try_rsample(shape))
    }
    /// Logarithm of the density or probability at `value`.
    ///
    /// # Errors
    /// A value outside the support, or of a shape that does not fit.
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        self.general().map_or_else(refused, |g| g.try_log_prob(value))
    }
    /// Cumulative distribution function at `value`.
    ///
    /// # Errors
    /// A value outside the support; where the function is not known.
    fn try_cdf(&self, value: &Tensor) -> Result<Tensor> {
        self.general().map_or_else(refused, |g| g.try_cdf(value))
    }
    /// Inverse of the cumulative distribution function: `value` holds probabilities.
    ///
    /// # Errors
    /// Where the function is not known.
    fn try_icdf(&self, value: &Tensor) -> Result<Tensor> {
        self.general().map_or_else(refused, |g| g.try_icdf(value))
    }
    /// All values of a discrete distribution along the first dimension, expanded over the batch or with sizes of 1.
    ///
    /// # Errors
    /// Where there are infinitely many.
    fn try_enumerate_support(&self, expand: bool) -> Result<Tensor> {
        self.general().map_or_else(refused, |g| g.try_enumerate_support(expand))
    }
    /// Entropy in nats, of shape `batch_shape`.
    ///
    /// # Errors
    /// Where it is not known.
    fn try_entropy(&self) -> Result<Tensor> {
        match (self.general(), self.family()) {
            (Some(g), _) => g.try_entropy(),
            (None, Some(f)) => entropy_of_family(f, self.batch_shape()),
            (None, None) => refused(),
        }
    }
    /// `exp(entropy)`.
    ///
    /// # Errors
    /// Where the entropy is not known.
    fn try_perplexity(&self) -> Result<Tensor> {
        Expr(self.try_entropy()).exp().0
    }
    /// PyTorch's text of the distribution.
    fn to_text(&self) -> String {
        text_of(self.name(), self.arguments())
    }
}
// Default methods are compiled for each distribution: what they do is here, once.

fn text_of(name: &str, arguments: Result<Vec<Argument>>) -> String {
    let all = arguments.unwrap_or_default();
    let shown = all.iter().filter_map(|a| match &a.held {
        Held::Here(t) if t.numel() == 1 => Some(format!("{}: {}", a.name, formatted(t))),
        Held::Here(t) => Some(format!("{}: {}", a.name, size(t.sizes()))),
        Held::Derived | Held::Later => None,
    });
    format!("{name}({})", shown.collect::<Vec<_>>().join(", "))
}
fn held_here(arguments: Result<Vec<Argument>>, name: &str) -> Result<Option<Tensor>> {
    let found = arguments?.into_iter().find(|a| a.name == name);
    Ok(found.and_then(|a| match a.held {
        Held::Here(t) => Some(t),
        Held::Derived | Held::Later => None,
    }))
}
#[cold]
fn no_mode(name: &str) -> Error {
    let module = module_of(name);
    Error::unsupported(format!("<class 'torch.distributions.{module}.{name}'> does not implement mode"))
}
impl fmt::Debug for dyn Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}
impl fmt::Display for dyn Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}
macro_rules! displayed {
    ($($name:ident),*) => {$(
        impl fmt::Display for crate::$name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.to_text())
            }
        }
    )*};
}
displayed!(
    Bernoulli,
    Beta,
    Binomial,
    Categorical,
    Cauchy,
    Chi2,
    ContinuousBernoulli,
    Dirichlet,
    ExpRelaxedCategorical,
    Exponential,
    FisherSnedecor,
    Gamma,
    GeneralizedPareto,
    Geometric,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Independent,
    InverseGamma,
    Kumaraswamy,
    LKJCholesky,
    Laplace,
    LogNormal,
    LogisticNormal,
    LogitRelaxedBernoulli,
    LowRankMultivariateNormal,
    MixtureSameFamily,
    Multinomial,
    MultivariateNormal,
    NegativeBinomial,
    Normal,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    Pareto,
    Poisson,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
    StudentT,
    TransformedDistribution,
    Uniform,
    VonMises,
    Weibull,
    Wishart
);
impl dyn Distribution {
    /// The distribution as its own type.
    pub fn downcast_ref<D: Distribution>(&self) -> Option<&D> {
        (self as &dyn Any).downcast_ref()
    }
    /// As that type, or as one that it is a case of.
    pub fn as_case_of<D: Distribution>(&self) -> Option<&D> {
        self.downcast_ref().or_else(|| self.general()?.as_case_of())
    }
    /// Its type, and those that it is a case of.
    pub(crate) fn type_ids(&self) -> Vec<TypeId> {
        let mut all = vec![(self as &dyn Any).type_id()];
        all.extend(self.general().map(|g| g.type_ids()).unwrap_or_default());
        all
    }
}

/// Methods of distributions that panic where those of [`Distribution`] give errors, with the same text.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::{Distribution, DistributionExt, Exponential};
/// let d = Exponential::new(tensor([1.0, 2.0]));
/// assert_eq!(d.mean().to_vec::<f32>(), [1.0, 0.5]);
/// assert_eq!(d.sample_shape([5]).sizes(), &[5, 2]);
/// assert!(d.try_log_prob(&tensor(-1.0)).is_err());
/// ```
pub trait DistributionExt: Distribution {
    /// See [`Distribution::try_mean`].
    #[track_caller]
    #[doc(alias = "torch.distributions.Distribution.mean")]
    fn mean(&self) -> Tensor {
        expect(self.try_mean())
    }
    /// See [`Distribution::try_mode`].
    #[track_caller]
    fn mode(&self) -> Tensor {
        expect(self.try_mode())
    }
    /// See [`Distribution::try_variance`].
    #[track_caller]
    #[doc(alias = "torch.distributions.Distribution.variance")]
    fn variance(&self) -> Tensor {
        expect(self.try_variance())
    }
    /// See [`Distribution::try_stddev`].
    #[track_caller]
    #[doc(alias = "torch.distributions.Distribution.stddev")]
    fn stddev(&self) -> Tensor {
        expect(self.try_stddev())
    }
    /// See [`Distribution::try_support`].
    #[track_caller]
    #[doc(alias = "torch.distributions.Distribution.support")]
    fn support(&self) -> Constraint {
        expect(self.try_support())
    }
    /// One sample of each member, of shape `batch_shape + event_shape`, without gradients. For a shape: `m.sample_shape([3])`.
    #[track_caller]
    #[doc(alias = "torch.distributions.Distribution.sample")]
    fn sample(&self /* for a shape: m.sample_shape([3]) */) -> Tensor {
        expect(self.try_sample(&[]))
    }
    /// Samples of shape `sample_shape + batch_shape + event_shape`, without gradients: Python's `m.sample((3,))`.
    #[track_caller]
    fn sample_shape(&self, sample_shape: impl IntoDims) -> Tensor {
        expect(self.try_sample(&sample_shape.into_dims()))
    }
    /// One sample of each member, as a differentiable function of the parameters. For a shape: `m.rsample_shape([3])`.
    #[track_caller]
    #[doc(alias = "torch.distributions.Distribution.rsample")]
    fn rsample(&self /* for a shape: m.rsample_shape([3]) */) -> Tensor {
        expect(self.try_rsample(&[]))
    }
    /// Samples of shape `sample_shape + batch_shape + event_shape` that are differentiable functions of the parameters:
    /// Python's `m.rsample((3,))`.
    #[track_caller]
    fn rsample_shape(&self, sample_shape: impl IntoDims) -> Tensor {
        expect(self.try_rsample(&sample_shape.into_dims()))
    }
    /// `n` samples.
    #[track_caller]
    #[doc(alias = "torch.distributions.Distribution.sample_n")]
    fn sample_n(&self, n: i64) -> Tensor {
        expect(self.try_sample(&[n]))
    }
    /// See [`Distribution::try_log_prob`].
    #[track_caller]
    #[doc(alias = "torch.distributions.Distribution.log_prob")]
    fn log_prob(&self, value: &Tensor) -> Tensor {
        expect(self.try_log_prob(value))
    }
    /// See [`Distribution::try_cdf`].
    #[track_caller]
    #[doc(alias = "torch.distributions.Distribution.cdf")]
    fn cdf(&self, value: &Tensor) -> Tensor {
        expect(self.try_cdf(value))
    }
    /// See [`Distribution::try_icdf`].
    #[track_caller]
    #[doc(alias = "torch.distributions.Distribution.icdf")]
    fn icdf(&self, value: &Tensor) -> Tensor {
        expect(self.try_icdf(value))
    }
    /// See [`Distribution::try_entropy`].
    #[track_caller]
    #[doc(alias = "torch.distributions.Distribution.entropy")]
    fn entropy(&self) -> Tensor {
        expect(self.try_entropy())
    }
    /// See [`Distribution::try_perplexity`].
    #[track_caller]
    #[doc(alias = "torch.distributions.Distribution.perplexity")]
    fn perplexity(&self) -> Tensor {
        expect(self.try_perplexity())
    }
    /// See [`Distribution::try_enumerate_support`].
    #[track_caller]
    #[doc(alias = "torch.distributions.Distribution.enumerate_support")]
    fn enumerate_support(&self, expand: bool) -> Tensor {
        expect(self.try_enumerate_support(expand))
    }
    /// See [`Distribution::try_expand`].
    #[track_caller]
    #[doc(alias = "torch.distributions.Distribution.expand")]
    fn expand(&self, batch_shape: impl IntoDims) -> Arc<dyn Distribution> {
        expect(self.try_expand(&batch_shape.into_dims()))
    }
}
impl<D: Distribution + ?Sized> DistributionExt for D {}

/// The parts of an exponential family in its natural form (Nielsen and Nock, "Entropies and cross-entropies of
/// exponential families", 2010): entropies and divergences follow from the log normalizer's gradient.
///
/// ```
/// use torch::distributions::{Distribution, Exponential};
/// let d = Exponential::new(2.0);
/// let family = d.family().unwrap();
/// let natural = family.natural_params()?;
/// assert_eq!(natural[0].item::<f64>(), -2.0);
/// assert!((family.log_normalizer(&natural)?.item::<f64>() + 2f64.ln()).abs() < 1e-6);
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.distributions.ExponentialFamily")]
pub trait ExponentialFamily {
    /// The natural parameters.
    ///
    /// # Errors
    /// Those of the formulas.
    fn natural_params(&self) -> Result<Vec<Tensor>>;
    /// The log normalizer at natural parameters.
    ///
    /// # Errors
    /// Those of the formulas.
    fn log_normalizer(&self, natural: &[Tensor]) -> Result<Tensor>;
    /// The mean of the carrier measure.
    ///
    /// # Errors
    /// Where it is not known.
    fn mean_carrier_measure(&self) -> Result<f64> {
        refused()
    }
}
/// Natural parameters cut off from their history, the log normalizer there, and its gradients.
pub(crate) fn at_natural(f: &dyn ExponentialFamily) -> Result<(Vec<Tensor>, Tensor, Vec<Tensor>)> {
    use flambeau_autograd::engine::{self, GradOptions};
    grad_mode::enable_grad(|| {
        let fresh = |t: &Tensor| {
            let t = flambeau_core::ops::detach(t)?;
            t.try_requires_grad_(true)?;
            Ok(t)
        };
        let natural = f.natural_params()?.iter().map(fresh).collect::<Result<Vec<_>>>()?;
        let normalizer = f.log_normalizer(&natural)?;
        let total = flambeau_autograd::shorthand::sum_all(&normalizer)?;
        let grads = engine::grad(&[total], &natural, GradOptions::new().create_graph(true))?;
        let missing = || Error::autograd("the log normalizer does not depend on a natural parameter");
        let grads = grads.into_iter().map(|g| g.ok_or_else(missing)).collect::<Result<Vec<_>>>()?;
        Ok((natural, normalizer, grads))
    })
}
fn entropy_of_family(f: &dyn ExponentialFamily, batch: &[i64]) -> Result<Tensor> {
    let measure = f.mean_carrier_measure()?;
    let (natural, normalizer, grads) = at_natural(f)?;
    let mut out = e(&normalizer) + -measure;
    for (p, g) in natural.iter().zip(&grads) {
        out = out - (e(p) * e(g)).reshape(&[batch, &[-1]].concat()).sum(-1);
    }
    out.0
}

/// `torch.Size([2, 3])`
pub(crate) fn size(sizes: &[i64]) -> String {
    let all: Vec<_> = sizes.iter().map(i64::to_string).collect();
    format!("torch.Size([{}])", all.join(", "))
}
/// The module in which PyTorch has a class, as its texts name it.
pub(crate) fn module_of(class: &str) -> String {
    match class {
        "RelaxedOneHotCategorical" | "ExpRelaxedCategorical" => return "relaxed_categorical".into(),
        "LogitRelaxedBernoulli" => return "relaxed_bernoulli".into(),
        "OneHotCategoricalStraightThrough" => return "one_hot_categorical".into(),
        "StudentT" => return "studentT".into(),
        "FisherSnedecor" => return "fishersnedecor".into(),
        "LowRankMultivariateNormal" => return "lowrank_multivariate_normal".into(),
        _ => {}
    }
    let letters: Vec<char> = class.chars().collect();
    let mut out = String::new();
    for (i, c) in letters.iter().enumerate() {
        let after_lower = i > 0 && letters[i - 1].is_lowercase();
        let before_lower = i > 0 && letters.get(i + 1).is_some_and(|n| n.is_lowercase());
        if c.is_uppercase() && (after_lower || before_lower) {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

fn all_true(mask: &Tensor) -> Result<bool> {
    flambeau_core::ops::all(mask)?.try_item::<bool>()
}
/// A new distribution, once its arguments have passed their constraints.
pub(crate) fn checked<D: Distribution>(d: D) -> Result<D> {
    check_arguments(&d)?;
    Ok(d)
}
fn check_arguments(d: &dyn Distribution) -> Result<()> {
    if !d.shapes().validate() {
        return Ok(());
    }
    for a in d.arguments()? {
        if a.constraint.is_dependent() {
            continue;
        }
        let value = match a.held {
            Held::Later => continue,
            Held::Here(t) => t,
            Held::Derived => match d.parameter(a.name)? {
                Some(t) => t,
                None => continue,
            },
        };
        ensure!(
            all_true(&a.constraint.try_check(&value)?)?,
            Value,
            "Expected parameter {} (Tensor of shape {}) of distribution {} to satisfy the constraint {}, but found \
             invalid values:\n{}",
            a.name,
            size_tuple(value.sizes()),
            d.to_text(),
            a.constraint,
            formatted(&value)
        );
    }
    Ok(())
}
/// Refuses values that do not fit the distribution, if it checks values.
pub(crate) fn check_value(d: &dyn Distribution, value: &Tensor) -> Result<()> {
    if d.shapes().validate() { refuse_value(d, value) } else { Ok(()) }
}
/// Refuses values that do not fit the distribution.
pub(crate) fn refuse_value(d: &dyn Distribution, value: &Tensor) -> Result<()> {
    let (event, sizes) = (d.event_shape(), value.sizes());
    ensure!(
        sizes.ends_with(event),
        Value,
        "The right-most size of value must match event_shape: {} vs {}.",
        size(sizes),
        size(event)
    );
    let expected = d.shapes().extended(&[]);
    let mut pairs = sizes.iter().rev().zip(expected.iter().rev());
    ensure!(
        pairs.all(|(a, b)| *a == 1 || *b == 1 || a == b),
        Value,
        "Value is not broadcastable with batch_shape+event_shape: {} vs {}.",
        size(sizes),
        size(&expected)
    );
    let support = match d.try_support() {
        Err(e) if e.kind() == ErrorKind::Unsupported => {
            warn(&format!(
                "<class 'torch.distributions.{}.{}'> does not define `support` to enable sample validation. Please \
                 initialize the distribution with `validate_args=False` to turn off validation.",
                module_of(d.name()),
                d.name()
            ));
            return Ok(());
        }
        other => other?,
    };
    ensure!(
        all_true(&support.try_check(value)?)?,
        Value,
        "Expected value argument (Tensor of shape {}) to be within the support ({support}) of the distribution {}, but \
         found invalid values:\n{}",
        size_tuple(sizes),
        d.to_text(),
        formatted(value)
    );
    Ok(())
}
