//! Distributions made of others.

use crate::argument::Param;
use crate::constraints::{self, Constraint};
use crate::distribution::{Distribution, Shapes, check_value, refuse_value, size};
use crate::families::Categorical;
use crate::formula::{Expr, e};
use crate::transforms::{AnyTransform, ComposeTransform, Transform};
use flambeau_autograd::{grad_mode, shorthand as s};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::{Error, Result, Tensor, ensure, ops};
use std::sync::Arc;

/// Another distribution, some of whose rightmost batch dimensions belong to the event.
///
/// ```
/// use torch::{ones, zeros};
/// use torch::distributions::{Distribution, Independent, Normal};
/// let normal = Normal::new(&zeros([2, 3]), &ones([2, 3]));
/// let d = Independent::new(normal, 1);
/// assert_eq!((d.batch_shape(), d.event_shape()), (&[2i64][..], &[3i64][..]));
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.Independent")]
pub struct Independent {
    shapes: Shapes,
    base: Arc<dyn Distribution>,
    reinterpreted_batch_ndims: usize,
}
object!(Independent);
/// Refuses to stand one more level above a distribution: what distributions in each other do recurses.
fn check_levels(base: &dyn Distribution) -> Result<()> {
    ensure!(base.levels() < 256, Runtime, "maximum recursion depth exceeded");
    Ok(())
}
impl Independent {
    /// Over so many of the base's batch dimensions.
    #[track_caller]
    pub fn new(base: impl Distribution, reinterpreted_batch_ndims: usize) -> Self {
        expect(Self::try_new(Arc::new(base), reinterpreted_batch_ndims, None))
    }
    /// Over so many of the base's batch dimensions.
    ///
    /// # Errors
    /// More than the base has.
    pub fn try_new(
        base: Arc<dyn Distribution>,
        reinterpreted_batch_ndims: usize,
        validate_args: Option<bool>,
    ) -> Result<Self> {
        check_levels(&*base)?;
        let batch = base.batch_shape().len();
        ensure!(
            reinterpreted_batch_ndims <= batch,
            Value,
            "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual \
             {reinterpreted_batch_ndims} vs {batch}"
        );
        let shape = base.shapes().extended(&[]);
        let (batch, event) = shape.split_at(batch - reinterpreted_batch_ndims);
        Ok(Independent { shapes: Shapes::new(batch, event, validate_args), base, reinterpreted_batch_ndims })
    }
    /// The distribution within.
    pub fn base(&self) -> &Arc<dyn Distribution> {
        &self.base
    }
    /// How many batch dimensions belong to the event.
    pub fn reinterpreted_batch_ndims(&self) -> usize {
        self.reinterpreted_batch_ndims
    }
}
impl Distribution for Independent {
    fn levels(&self) -> usize {
        self.base.levels() + 1
    }
    named!(Independent);
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        let wide = [batch, &self.event_shape()[..self.reinterpreted_batch_ndims]].concat();
        Ok(Arc::new(Independent {
            shapes: self.shapes.expanded(batch),
            base: self.base.try_expand(&wide)?,
            reinterpreted_batch_ndims: self.reinterpreted_batch_ndims,
        }))
    }
    fn has_rsample(&self) -> bool {
        self.base.has_rsample()
    }
    fn has_enumerate_support(&self) -> bool {
        self.reinterpreted_batch_ndims == 0 && self.base.has_enumerate_support()
    }
    fn try_support(&self) -> Result<Constraint> {
        let support = self.base.try_support()?;
        Ok(match self.reinterpreted_batch_ndims {
            0 => support,
            n => constraints::independent(support, n),
        })
    }
    fn try_mean(&self) -> Result<Tensor> {
        self.base.try_mean()
    }
    fn try_mode(&self) -> Result<Tensor> {
        self.base.try_mode()
    }
    fn try_variance(&self) -> Result<Tensor> {
        self.base.try_variance()
    }
    fn try_sample(&self, shape: &[i64]) -> Result<Tensor> {
        self.base.try_sample(shape)
    }
    fn try_rsample(&self, shape: &[i64]) -> Result<Tensor> {
        self.base.try_rsample(shape)
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        e(&self.base.try_log_prob(value)?).sum_rightmost(self.reinterpreted_batch_ndims).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        e(&self.base.try_entropy()?).sum_rightmost(self.reinterpreted_batch_ndims).0
    }
    fn try_enumerate_support(&self, expand: bool) -> Result<Tensor> {
        if self.reinterpreted_batch_ndims > 0 {
            return Err(Error::unsupported("Enumeration over cartesian product is not implemented"));
        }
        self.base.try_enumerate_support(expand)
    }
    fn to_text(&self) -> String {
        format!("Independent({}, {})", self.base.to_text(), self.reinterpreted_batch_ndims)
    }
}

/// A mixture: a categorical distribution chooses among components of one family, along their last batch dimension.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::{Categorical, DistributionExt, MixtureSameFamily, Normal};
/// let components = Normal::new(tensor([0.0, 4.0]), tensor([1.0, 1.0]));
/// let d = MixtureSameFamily::new(Categorical::by_probs(tensor([0.25, 0.75])), components);
/// assert_eq!((d.mean().item::<f64>(), d.variance().item::<f64>()), (3.0, 4.0));
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.MixtureSameFamily")]
pub struct MixtureSameFamily {
    shapes: Shapes,
    mixture: Categorical,
    components: Arc<dyn Distribution>,
    count: i64,
}
object!(MixtureSameFamily);
impl MixtureSameFamily {
    /// Of a choice and its components.
    #[track_caller]
    pub fn new(mixture: Categorical, components: impl Distribution) -> Self {
        expect(Self::try_new(mixture, Arc::new(components), None))
    }
    /// Of a choice and its components.
    ///
    /// # Errors
    /// Batch shapes that do not fit, or as many categories as there are no components.
    pub fn try_new(
        mixture: Categorical,
        components: Arc<dyn Distribution>,
        validate_args: Option<bool>,
    ) -> Result<Self> {
        check_levels(&*components)?;
        let Some((&last, batch)) = components.batch_shape().split_last() else {
            return Err(Error::index("tuple index out of range"));
        };
        let own = mixture.batch_shape();
        let mut pairs = own.iter().rev().zip(batch.iter().rev());
        ensure!(
            pairs.all(|(a, b)| *a == 1 || *b == 1 || a == b),
            Value,
            "`mixture_distribution.batch_shape` ({}) is not compatible with `component_distribution.batch_shape`({})",
            size(own),
            size(batch)
        );
        // PyTorch counts the logits, which are kept from then on
        let count = mixture.odds().logits()?.sizes().last().copied().unwrap_or(0);
        ensure!(
            count == last,
            Value,
            "`mixture_distribution component` ({count}) does not equal `component_distribution.batch_shape[-1]` ({last})"
        );
        let shapes = Shapes::new(batch, components.event_shape(), validate_args);
        Ok(MixtureSameFamily { shapes, mixture, components, count })
    }
    fn events(&self) -> i64 {
        self.event_shape().len() as i64
    }
    fn pad(&self, x: &Tensor) -> Expr {
        e(x).unsqueeze(-1 - self.events())
    }
    fn padded_probs(&self) -> Result<Expr> {
        let p = self.mixture.odds().probs()?;
        let (own, all) = (self.mixture.batch_shape().len(), self.batch_shape().len());
        let more = if own == 1 { 0 } else { all.saturating_sub(own) };
        let (batch, last) = p.sizes().split_at(p.dim() - 1);
        let sizes = [batch, &vec![1; more], last, &vec![1; self.event_shape().len()]].concat();
        Ok(e(&p).reshape(&sizes))
    }
    fn mixed(&self, each: &Expr) -> Result<Expr> {
        Ok((self.padded_probs()? * each).sum(-1 - self.events()))
    }
}
impl Distribution for MixtureSameFamily {
    fn levels(&self) -> usize {
        self.components.levels() + 1
    }
    named!(MixtureSameFamily);
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        Ok(Arc::new(MixtureSameFamily {
            shapes: self.shapes.expanded(batch),
            mixture: self.mixture.expanded(batch)?,
            components: self.components.try_expand(&[batch, &[self.count]].concat())?,
            count: self.count,
        }))
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(Constraint::MixtureSameFamily(Box::new(self.components.try_support()?)))
    }
    fn try_mean(&self) -> Result<Tensor> {
        self.mixed(&e(&self.components.try_mean()?))?.0
    }
    fn try_variance(&self) -> Result<Tensor> {
        let within = self.mixed(&e(&self.components.try_variance()?))?;
        let off = e(&self.components.try_mean()?) - self.pad(&self.try_mean()?);
        (within + self.mixed(&off.pow(2.0))?).0
    }
    fn try_cdf(&self, value: &Tensor) -> Result<Tensor> {
        let each = e(&self.components.try_cdf(&self.pad(value).0?)?);
        (each * self.mixture.p()).sum(-1).0
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let each = e(&self.components.try_log_prob(&self.pad(value).0?)?);
        let choice = self.mixture.l().map(|l| ops::log_softmax(l, -1, None));
        (each + choice).map(|t| ops::logsumexp(t, &[-1], false)).0
    }
    fn try_sample(&self, shape: &[i64]) -> Result<Tensor> {
        grad_mode::no_grad(|| {
            let at = shape.len() + self.batch_shape().len();
            let choice = self.mixture.try_sample(shape)?;
            let all = self.components.try_sample(shape)?;
            let event = self.event_shape();
            let ones = vec![1; event.len() + 1];
            let index = s::reshape(&choice, &[choice.sizes(), &ones].concat())?;
            let repeats = [&vec![1; choice.dim()][..], &[1], event].concat();
            let index = ops::repeat(&index, &repeats)?;
            s::squeeze_dim(&ops::gather(&all, at as i64, &index, false)?, at as i64)
        })
    }
    fn to_text(&self) -> String {
        format!("MixtureSameFamily(\n  {},\n  {})", self.mixture.to_text(), self.components.to_text())
    }
}

/// What becomes of another distribution's values when transforms are applied to them, one after the other.
///
/// ```
/// use torch::distributions::transforms::ExpTransform;
/// use torch::distributions::{Distribution, DistributionExt, Normal, TransformedDistribution};
/// let d = TransformedDistribution::new(Normal::new(0.0, 1.0), [ExpTransform.into()]);
/// assert_eq!(d.support().to_string(), "GreaterThan(lower_bound=0.0)");
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.TransformedDistribution")]
pub struct TransformedDistribution {
    shapes: Shapes,
    base: Arc<dyn Distribution>,
    transforms: Vec<AnyTransform>,
}
object!(TransformedDistribution);
impl TransformedDistribution {
    /// Of a base and transforms, the first one applied first.
    #[track_caller]
    pub fn new(base: impl Distribution, transforms: impl IntoIterator<Item = AnyTransform>) -> Self {
        expect(Self::try_new(Arc::new(base), transforms.into_iter().collect(), None))
    }
    /// Of a base and transforms, the first one applied first.
    ///
    /// # Errors
    /// A base with fewer dimensions than the transforms need.
    pub fn try_new(
        mut base: Arc<dyn Distribution>,
        transforms: Vec<AnyTransform>,
        validate_args: Option<bool>,
    ) -> Result<Self> {
        check_levels(&*base)?;
        let shape = base.shapes().extended(&[]);
        let base_event = base.event_shape().len();
        let all = ComposeTransform::try_new(transforms.iter().cloned())?;
        let domain = all.try_domain()?.try_event_dim()?;
        let codomain = all.try_codomain()?.try_event_dim()?;
        ensure!(
            shape.len() >= domain,
            Value,
            "base_distribution needs to have shape with size at least {domain}, but got {}.",
            size(&shape)
        );
        let forward = all.try_forward_shape(&shape)?;
        let wide = all.try_inverse_shape(&forward)?;
        if wide != shape {
            base = base.try_expand(&wide[..wide.len() - base_event])?;
        }
        if domain > base_event {
            base = Arc::new(Independent::try_new(base, domain - base_event, None)?);
        }
        let event = codomain.max((base_event + codomain).saturating_sub(domain));
        ensure!(
            forward.len() >= event,
            Assertion,
            "forward_shape length {} must be >= event_dim {event}",
            forward.len()
        );
        let (batch, event) = forward.split_at(forward.len() - event);
        Ok(TransformedDistribution { shapes: Shapes::new(batch, event, validate_args), base, transforms })
    }
    /// For cases that check their values themselves.
    pub(crate) fn unchecked(base: Arc<dyn Distribution>, transforms: Vec<AnyTransform>) -> Result<Self> {
        Self::try_new(base, transforms, Some(false))
    }
    /// The shapes with another answer to whether values are checked.
    pub(crate) fn shapes_with(&self, validate: Option<bool>) -> Shapes {
        Shapes::new(self.batch_shape(), self.event_shape(), validate)
    }
    pub(crate) fn expanded(&self, batch: &[i64]) -> Result<Self> {
        let mut shape = [batch, self.event_shape()].concat();
        for t in self.transforms.iter().rev() {
            shape = t.try_inverse_shape(&shape)?;
        }
        shape.truncate(shape.len().saturating_sub(self.base.event_shape().len()));
        Ok(TransformedDistribution {
            shapes: self.shapes.expanded(batch),
            base: self.base.try_expand(&shape)?,
            transforms: self.transforms.clone(),
        })
    }
    /// The distribution whose values are transformed.
    pub fn base(&self) -> &Arc<dyn Distribution> {
        &self.base
    }
    /// The transforms, the first one applied first.
    pub fn transforms(&self) -> &[AnyTransform] {
        &self.transforms
    }
    /// The cumulative distribution function; PyTorch checks the value that the base gets.
    pub(crate) fn cdf_with(&self, value: &Tensor, validate: bool) -> Result<Tensor> {
        let mut x = value.clone();
        for t in self.transforms.iter().rev() {
            x = t.try_inverse(&x)?;
        }
        if validate {
            refuse_value(&*self.base, &x)?;
        }
        self.monotone(self.base.try_cdf(&x)?)
    }
    fn forward(&self, x: Tensor) -> Result<Tensor> {
        self.transforms.iter().try_fold(x, |x, t| t.try_call(&x))
    }
    /// Probabilities turned around where the transforms together fall.
    fn monotone(&self, value: Tensor) -> Result<Tensor> {
        match ComposeTransform::new(self.transforms.iter().cloned()).try_sign()? {
            Param::Number(n) if n.to_i64() == 1 => Ok(value),
            sign => (Expr(sign.operand()) * (e(&value) - 0.5) + 0.5).0,
        }
    }
}
impl Distribution for TransformedDistribution {
    fn levels(&self) -> usize {
        self.base.levels() + 1
    }
    named!(TransformedDistribution);
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        Ok(Arc::new(self.expanded(batch)?))
    }
    fn has_rsample(&self) -> bool {
        self.base.has_rsample()
    }
    fn try_support(&self) -> Result<Constraint> {
        let Some(last) = self.transforms.last() else { return self.base.try_support() };
        let support = last.try_codomain()?;
        let (own, all) = (support.try_event_dim()?, self.event_shape().len());
        Ok(if all > own { constraints::independent(support, all - own) } else { support })
    }
    fn try_sample(&self, shape: &[i64]) -> Result<Tensor> {
        grad_mode::no_grad(|| self.forward(self.base.try_sample(shape)?))
    }
    fn try_rsample(&self, shape: &[i64]) -> Result<Tensor> {
        self.forward(self.base.try_rsample(shape)?)
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let mut dim = self.event_shape().len();
        let mut total: Option<Expr> = None;
        let mut y = value.clone();
        for t in self.transforms.iter().rev() {
            let x = t.try_inverse(&y)?;
            let (from, to) = (t.try_domain()?.try_event_dim()?, t.try_codomain()?.try_event_dim()?);
            dim = (dim + from).saturating_sub(to);
            let jacobian = e(&t.try_log_abs_det_jacobian(&x, &y)?).sum_rightmost(dim - from);
            total = Some(match total {
                None => -jacobian,
                Some(sum) => sum - jacobian,
            });
            y = x;
        }
        let base = e(&self.base.try_log_prob(&y)?).sum_rightmost(dim - self.base.event_shape().len());
        match total {
            None => base.0,
            Some(sum) => (sum + base).0,
        }
    }
    fn try_cdf(&self, value: &Tensor) -> Result<Tensor> {
        self.cdf_with(value, self.shapes.validate())
    }
    fn try_icdf(&self, value: &Tensor) -> Result<Tensor> {
        self.forward(self.base.try_icdf(&self.monotone(value.clone())?)?)
    }
}
