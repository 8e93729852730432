//! Transforms made of others.

use super::{AnyTransform, Transform, check_levels, inverse, levels_of, same, try_with_cache};
use crate::argument::Param;
use crate::constraints::{self, Constraint};
use crate::distribution::Distribution;
use crate::formula::{Expr, e};
use flambeau_autograd::shorthand as s;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::text::size_tuple;
use flambeau_core::{IntoDims, Result, Scalar, Tensor, ensure, ops};
use std::sync::Arc;

fn cached(parts: &[AnyTransform], on: bool) -> Vec<AnyTransform> {
    parts.iter().map(|t| try_with_cache(t, i64::from(on)).unwrap_or_else(|_| t.clone())).collect()
}

/// Several transforms, one after the other.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::transforms::{AffineTransform, ComposeTransform, PowerTransform, Transform};
/// let t = ComposeTransform::new([PowerTransform::new(2.0).into(), AffineTransform::new(1.0, 10.0).into()]);
/// assert_eq!(t.try_call(&tensor([3.0]))?.to_vec::<f32>(), [91.0]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.transforms.ComposeTransform")]
pub struct ComposeTransform {
    parts: Vec<AnyTransform>,
}
impl ComposeTransform {
    /// Of the parts, the first one applied first.
    #[track_caller]
    pub fn new(parts: impl IntoIterator<Item = AnyTransform>) -> Self {
        expect(Self::try_new(parts))
    }
    /// Of the parts, the first one applied first.
    ///
    /// # Errors
    /// Parts that are hundreds of levels deep.
    pub fn try_new(parts: impl IntoIterator<Item = AnyTransform>) -> Result<Self> {
        let parts: Vec<AnyTransform> = parts.into_iter().collect();
        check_levels(&parts)?;
        Ok(ComposeTransform { parts })
    }
    /// The parts.
    pub fn parts(&self) -> &[AnyTransform] {
        &self.parts
    }
    /// The end of the chain over events of as many dimensions as all parts together need.
    fn end(
        &self,
        own: Constraint,
        start: usize,
        steps: impl Iterator<Item = Result<(usize, usize)>>,
    ) -> Result<Constraint> {
        let mut dim = start;
        for step in steps {
            let (to, from) = step?;
            dim = (dim + to).saturating_sub(from).max(to);
        }
        let own_dim = own.try_event_dim()?;
        ensure!(dim >= own_dim, Assertion, "event_dim {dim} must be >= domain.event_dim {own_dim}");
        Ok(if dim > own_dim { constraints::independent(own, dim - own_dim) } else { own })
    }
}
fn dims(t: &AnyTransform) -> Result<(usize, usize)> {
    Ok((t.try_domain()?.try_event_dim()?, t.try_codomain()?.try_event_dim()?))
}
impl Transform for ComposeTransform {
    fn levels(&self) -> usize {
        levels_of(&self.parts)
    }
    fn name(&self) -> &'static str {
        "ComposeTransform"
    }
    fn try_domain(&self) -> Result<Constraint> {
        let (Some(first), Some(last)) = (self.parts.first(), self.parts.last()) else {
            return Ok(constraints::real());
        };
        self.end(first.try_domain()?, dims(last)?.1, self.parts.iter().rev().map(dims))
    }
    fn try_codomain(&self) -> Result<Constraint> {
        let (Some(first), Some(last)) = (self.parts.first(), self.parts.last()) else {
            return Ok(constraints::real());
        };
        let steps = self.parts.iter().map(|t| dims(t).map(|(x, y)| (y, x)));
        self.end(last.try_codomain()?, dims(first)?.0, steps)
    }
    fn try_call(&self, x: &Tensor) -> Result<Tensor> {
        self.parts.iter().try_fold(x.clone(), |x, t| t.try_call(&x))
    }
    fn try_inverse(&self, y: &Tensor) -> Result<Tensor> {
        self.parts.iter().rev().try_fold(y.clone(), |y, t| t.try_inverse(&y))
    }
    fn bijective(&self) -> bool {
        self.parts.iter().all(|t| t.bijective())
    }
    fn try_sign(&self) -> Result<Param> {
        let mut sign = Param::from(1);
        for t in &self.parts {
            sign = match (sign, t.try_sign()?) {
                (Param::Number(a), Param::Number(b)) => Param::Number(Scalar::Int(a.to_i64() * b.to_i64())),
                (a, b) => Param::Tensor(s::mul(&a.operand()?, &b.operand()?)?),
            };
        }
        Ok(sign)
    }
    fn try_log_abs_det_jacobian(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let Some((last, before)) = self.parts.split_last() else { return s::zeros_like(x) };
        let mut xs = vec![x.clone()];
        for t in before {
            xs.push(t.try_call(&xs[xs.len() - 1])?);
        }
        xs.push(y.clone());
        let mut dim = self.try_domain()?.try_event_dim()?;
        let mut total: Option<Expr> = None;
        for (i, t) in before.iter().chain([last]).enumerate() {
            let (from, to) = dims(t)?;
            let term = e(&t.try_log_abs_det_jacobian(&xs[i], &xs[i + 1])?).sum_rightmost(dim - from);
            total = Some(match total {
                None => term,
                Some(sum) => sum + term,
            });
            dim = dim + to - from;
        }
        total.map_or_else(|| s::zeros_like(x), |t| t.0)
    }
    fn try_forward_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        self.parts.iter().try_fold(shape.to_vec(), |shape, t| t.try_forward_shape(&shape))
    }
    fn try_inverse_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        self.parts.iter().rev().try_fold(shape.to_vec(), |shape, t| t.try_inverse_shape(&shape))
    }
    fn same(&self, other: &dyn Transform) -> bool {
        let Some(o) = other.downcast_ref::<ComposeTransform>() else { return false };
        same_list(&self.parts, &o.parts)
    }
    fn parts_cached(&self, on: bool) -> Option<AnyTransform> {
        Some(ComposeTransform { parts: cached(&self.parts, on) }.into())
    }
    fn own_inverse(&self) -> Option<AnyTransform> {
        Some(ComposeTransform { parts: self.parts.iter().rev().map(inverse).collect() }.into())
    }
    fn to_text(&self) -> String {
        let parts: Vec<_> = self.parts.iter().map(|t| t.to_text()).collect();
        format!("ComposeTransform(\n    {}\n)", parts.join(",\n    "))
    }
}
pub(crate) fn same_list(a: &[AnyTransform], b: &[AnyTransform]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(&**a, &**b))
}

/// Another transform whose `reinterpreted_batch_ndims` more rightmost dimensions belong to an event.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::transforms::{ExpTransform, IndependentTransform, Transform};
/// let t = IndependentTransform::new(ExpTransform, 1);
/// let x = tensor([1.0, 2.0]);
/// // one number for the whole vector
/// assert_eq!(t.try_log_abs_det_jacobian(&x, &t.try_call(&x)?)?.item::<f64>(), 3.0);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.transforms.IndependentTransform")]
pub struct IndependentTransform {
    base: AnyTransform,
    reinterpreted_batch_ndims: usize,
}
impl IndependentTransform {
    /// Of a base.
    #[track_caller]
    pub fn new(base: impl Into<AnyTransform>, reinterpreted_batch_ndims: usize) -> Self {
        let base = base.into();
        expect(check_levels([&base]));
        IndependentTransform { base, reinterpreted_batch_ndims }
    }
    fn enough(&self, t: &Tensor, c: Constraint) -> Result<()> {
        ensure!(t.dim() >= c.try_event_dim()?, Value, "Too few dimensions on input");
        Ok(())
    }
}
impl Transform for IndependentTransform {
    fn levels(&self) -> usize {
        levels_of([&self.base])
    }
    fn name(&self) -> &'static str {
        "IndependentTransform"
    }
    fn try_domain(&self) -> Result<Constraint> {
        Ok(constraints::independent(self.base.try_domain()?, self.reinterpreted_batch_ndims))
    }
    fn try_codomain(&self) -> Result<Constraint> {
        Ok(constraints::independent(self.base.try_codomain()?, self.reinterpreted_batch_ndims))
    }
    fn try_call(&self, x: &Tensor) -> Result<Tensor> {
        self.enough(x, self.try_domain()?)?;
        self.base.try_call(x)
    }
    fn try_inverse(&self, y: &Tensor) -> Result<Tensor> {
        self.enough(y, self.try_codomain()?)?;
        self.base.try_inverse(y)
    }
    fn bijective(&self) -> bool {
        self.base.bijective()
    }
    fn try_sign(&self) -> Result<Param> {
        self.base.try_sign()
    }
    fn try_log_abs_det_jacobian(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        e(&self.base.try_log_abs_det_jacobian(x, y)?).sum_rightmost(self.reinterpreted_batch_ndims).0
    }
    fn try_forward_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        self.base.try_forward_shape(shape)
    }
    fn try_inverse_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        self.base.try_inverse_shape(shape)
    }
    fn parts_cached(&self, on: bool) -> Option<AnyTransform> {
        let base = try_with_cache(&self.base, i64::from(on)).unwrap_or_else(|_| self.base.clone());
        Some(IndependentTransform { base, ..self.clone() }.into())
    }
    fn to_text(&self) -> String {
        format!("IndependentTransform({}, {})", self.base.to_text(), self.reinterpreted_batch_ndims)
    }
}

/// Events of one shape into another of as many elements.
///
/// ```
/// use torch::zeros;
/// use torch::distributions::transforms::{ReshapeTransform, Transform};
/// let t = ReshapeTransform::new([4], [2, 2]);
/// assert_eq!(t.try_call(&zeros([3, 4]))?.sizes(), &[3, 2, 2]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.transforms.ReshapeTransform")]
pub struct ReshapeTransform {
    in_shape: Vec<i64>,
    out_shape: Vec<i64>,
}
impl ReshapeTransform {
    /// From one shape into another.
    #[track_caller]
    pub fn new(in_shape: impl IntoDims, out_shape: impl IntoDims) -> Self {
        expect(Self::try_new(&in_shape.into_dims(), &out_shape.into_dims()))
    }
    /// From one shape into another.
    ///
    /// # Errors
    /// Different numbers of elements.
    pub fn try_new(in_shape: &[i64], out_shape: &[i64]) -> Result<Self> {
        let count = |s: &[i64]| s.iter().try_fold(1i64, |n, d| n.checked_mul(*d));
        ensure!(
            count(in_shape).is_some() && count(in_shape) == count(out_shape),
            Value,
            "in_shape, out_shape have different numbers of elements"
        );
        Ok(ReshapeTransform { in_shape: in_shape.to_vec(), out_shape: out_shape.to_vec() })
    }
}
fn replaced(shape: &[i64], from: &[i64], to: &[i64]) -> Result<Vec<i64>> {
    ensure!(shape.len() >= from.len(), Value, "Too few dimensions on input");
    let (batch, event) = shape.split_at(shape.len() - from.len());
    ensure!(
        event == from,
        Value,
        "Shape mismatch: expected {} but got {}",
        size_tuple(event),
        crate::distribution::size(from)
    );
    Ok([batch, to].concat())
}
fn batch_of<'a>(t: &'a Tensor, event: &[i64]) -> &'a [i64] {
    &t.sizes()[..t.dim().saturating_sub(event.len())]
}
impl Transform for ReshapeTransform {
    fn name(&self) -> &'static str {
        "ReshapeTransform"
    }
    fn try_domain(&self) -> Result<Constraint> {
        Ok(constraints::independent(constraints::real(), self.in_shape.len()))
    }
    fn try_codomain(&self) -> Result<Constraint> {
        Ok(constraints::independent(constraints::real(), self.out_shape.len()))
    }
    fn try_call(&self, x: &Tensor) -> Result<Tensor> {
        s::reshape(x, &[batch_of(x, &self.in_shape), &self.out_shape].concat())
    }
    fn try_inverse(&self, y: &Tensor) -> Result<Tensor> {
        s::reshape(y, &[batch_of(y, &self.out_shape), &self.in_shape].concat())
    }
    fn bijective(&self) -> bool {
        true
    }
    fn try_log_abs_det_jacobian(&self, x: &Tensor, _y: &Tensor) -> Result<Tensor> {
        s::zeros(batch_of(x, &self.in_shape), x)
    }
    fn try_forward_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        replaced(shape, &self.in_shape, &self.out_shape)
    }
    fn try_inverse_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        replaced(shape, &self.out_shape, &self.in_shape)
    }
}

/// Transforms one after the other along `dim`, each over as many entries as `lengths` say.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::transforms::{AffineTransform, CatTransform, ExpTransform, Transform};
/// let parts = vec![ExpTransform.into(), AffineTransform::new(0.0, 2.0).into()];
/// let t = CatTransform::try_new(parts, 0, Some(vec![1, 2]))?;
/// assert_eq!(t.try_call(&tensor([0.0, 1.0, 2.0]))?.to_vec::<f32>(), [1.0, 2.0, 4.0]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.transforms.CatTransform")]
pub struct CatTransform {
    parts: Vec<AnyTransform>,
    dim: i64,
    lengths: Vec<i64>,
}
impl CatTransform {
    /// Of the parts; lengths of `None` are one each.
    ///
    /// # Errors
    /// Not as many lengths as parts.
    pub fn try_new(parts: Vec<AnyTransform>, dim: i64, lengths: Option<Vec<i64>>) -> Result<Self> {
        let lengths = lengths.unwrap_or_else(|| vec![1; parts.len()]);
        ensure!(
            lengths.len() == parts.len(),
            Assertion,
            "lengths ({}) must match transforms ({})",
            lengths.len(),
            parts.len()
        );
        check_levels(&parts)?;
        Ok(CatTransform { parts, dim, lengths })
    }
    fn check(&self, t: &Tensor, what: &str, name: &str) -> Result<()> {
        along(t, self.dim, what)?;
        let total: i64 = self.lengths.iter().sum();
        let size = size_along(t, self.dim);
        ensure!(size == total, Assertion, "{name}.size({}) = {size} must equal length {total}", self.dim);
        Ok(())
    }
    fn each(&self, f: impl Fn(&AnyTransform, i64, i64) -> Result<Tensor>) -> Result<Vec<Tensor>> {
        let mut start = 0;
        let mut all = Vec::new();
        for (t, n) in self.parts.iter().zip(&self.lengths) {
            all.push(f(t, start, *n)?);
            start += n;
        }
        Ok(all)
    }
}
/// PyTorch asserts that the dimension is there.
fn along(t: &Tensor, dim: i64, what: &str) -> Result<()> {
    let n = t.dim() as i64;
    ensure!(-n <= dim && dim < n, Assertion, "dim {dim} out of range for {what} with {n} dimensions");
    Ok(())
}
fn size_along(t: &Tensor, dim: i64) -> i64 {
    let n = t.dim() as i64;
    t.sizes()[(if dim < 0 { dim + n } else { dim }) as usize]
}
impl Transform for CatTransform {
    fn levels(&self) -> usize {
        levels_of(&self.parts)
    }
    fn name(&self) -> &'static str {
        "CatTransform"
    }
    fn try_domain(&self) -> Result<Constraint> {
        let all = self.parts.iter().map(|t| t.try_domain()).collect::<Result<_>>()?;
        constraints::try_cat(all, self.dim, Some(self.lengths.clone()))
    }
    fn try_codomain(&self) -> Result<Constraint> {
        let all = self.parts.iter().map(|t| t.try_codomain()).collect::<Result<_>>()?;
        constraints::try_cat(all, self.dim, Some(self.lengths.clone()))
    }
    fn try_event_dim(&self) -> Result<usize> {
        self.parts.iter().try_fold(0, |n, t| Ok(n.max(t.try_event_dim()?)))
    }
    fn try_call(&self, x: &Tensor) -> Result<Tensor> {
        self.check(x, "tensor", "x")?;
        let all = self.each(|t, start, n| t.try_call(&ops::narrow(x, self.dim, start, n)?))?;
        ops::cat(&all, self.dim)
    }
    fn try_inverse(&self, y: &Tensor) -> Result<Tensor> {
        self.check(y, "tensor", "y")?;
        let all = self.each(|t, start, n| t.try_inverse(&ops::narrow(y, self.dim, start, n)?))?;
        ops::cat(&all, self.dim)
    }
    fn bijective(&self) -> bool {
        self.parts.iter().all(|t| t.bijective())
    }
    fn try_log_abs_det_jacobian(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        self.check(x, "x", "x")?;
        self.check(y, "y", "y")?;
        let event = self.try_event_dim()?;
        let all = self.each(|t, start, n| {
            let part = |v: &Tensor| ops::narrow(v, self.dim, start, n);
            let term = t.try_log_abs_det_jacobian(&part(x)?, &part(y)?)?;
            e(&term).sum_rightmost(event - t.try_event_dim()?).0
        })?;
        let dim = if self.dim >= 0 { self.dim - x.dim() as i64 } else { self.dim } + event as i64;
        if dim < 0 {
            return ops::cat(&all, dim);
        }
        let mut terms = all.iter();
        let first = terms.next().cloned().map_or_else(|| s::zeros_like(x), Ok)?;
        terms.try_fold(first, |sum, t| s::add(&sum, t))
    }
    fn parts_cached(&self, on: bool) -> Option<AnyTransform> {
        Some(CatTransform { parts: cached(&self.parts, on), ..self.clone() }.into())
    }
}

/// One transform for each entry along `dim`.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::transforms::{AffineTransform, ExpTransform, StackTransform, Transform};
/// let t = StackTransform::new([ExpTransform.into(), AffineTransform::new(0.0, 2.0).into()], 0);
/// assert_eq!(t.try_call(&tensor([0.0, 1.0]))?.to_vec::<f32>(), [1.0, 2.0]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.transforms.StackTransform")]
pub struct StackTransform {
    parts: Vec<AnyTransform>,
    dim: i64,
}
impl StackTransform {
    /// Of the parts.
    #[track_caller]
    pub fn new(parts: impl IntoIterator<Item = AnyTransform>, dim: i64) -> Self {
        let parts: Vec<AnyTransform> = parts.into_iter().collect();
        expect(check_levels(&parts));
        StackTransform { parts, dim }
    }
    fn check(&self, t: &Tensor, what: &str, name: &str) -> Result<()> {
        along(t, self.dim, what)?;
        let (size, n) = (size_along(t, self.dim), self.parts.len());
        ensure!(
            size == n as i64,
            Assertion,
            "{name}.size({}) = {size} must equal len(transforms) {n}",
            self.dim
        );
        Ok(())
    }
    fn each(&self, f: impl Fn(&AnyTransform, i64) -> Result<Tensor>) -> Result<Tensor> {
        let all = self.parts.iter().zip(0..).map(|(t, i)| f(t, i)).collect::<Result<Vec<_>>>()?;
        ops::stack(&all, self.dim)
    }
}
impl Transform for StackTransform {
    fn levels(&self) -> usize {
        levels_of(&self.parts)
    }
    fn name(&self) -> &'static str {
        "StackTransform"
    }
    fn try_domain(&self) -> Result<Constraint> {
        let all = self.parts.iter().map(|t| t.try_domain()).collect::<Result<_>>()?;
        Ok(constraints::stack(all, self.dim))
    }
    fn try_codomain(&self) -> Result<Constraint> {
        let all = self.parts.iter().map(|t| t.try_codomain()).collect::<Result<_>>()?;
        Ok(constraints::stack(all, self.dim))
    }
    fn try_call(&self, x: &Tensor) -> Result<Tensor> {
        self.check(x, "tensor", "x")?;
        self.each(|t, i| t.try_call(&s::select(x, self.dim, i)?))
    }
    fn try_inverse(&self, y: &Tensor) -> Result<Tensor> {
        self.check(y, "tensor", "y")?;
        self.each(|t, i| t.try_inverse(&s::select(y, self.dim, i)?))
    }
    fn bijective(&self) -> bool {
        self.parts.iter().all(|t| t.bijective())
    }
    fn try_log_abs_det_jacobian(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        self.check(x, "x", "x")?;
        self.check(y, "y", "y")?;
        self.each(|t, i| t.try_log_abs_det_jacobian(&s::select(x, self.dim, i)?, &s::select(y, self.dim, i)?))
    }
    fn parts_cached(&self, on: bool) -> Option<AnyTransform> {
        Some(StackTransform { parts: cached(&self.parts, on), ..self.clone() }.into())
    }
}

/// A distribution's cumulative distribution function: onto uniform numbers.
///
/// ```
/// use std::sync::Arc;
/// use torch::tensor;
/// use torch::distributions::Normal;
/// use torch::distributions::transforms::{CumulativeDistributionTransform, Transform};
/// let t = CumulativeDistributionTransform::new(Arc::new(Normal::new(0.0, 1.0)));
/// assert_eq!(t.try_call(&tensor(0.0))?.item::<f64>(), 0.5);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.transforms.CumulativeDistributionTransform")]
pub struct CumulativeDistributionTransform {
    distribution: Arc<dyn Distribution>,
}
impl CumulativeDistributionTransform {
    /// Of a distribution with `cdf` and `icdf`.
    pub fn new(distribution: Arc<dyn Distribution>) -> Self {
        CumulativeDistributionTransform { distribution }
    }
}
impl Transform for CumulativeDistributionTransform {
    fn name(&self) -> &'static str {
        "CumulativeDistributionTransform"
    }
    fn try_domain(&self) -> Result<Constraint> {
        self.distribution.try_support()
    }
    fn try_codomain(&self) -> Result<Constraint> {
        Ok(constraints::unit_interval())
    }
    fn try_call(&self, x: &Tensor) -> Result<Tensor> {
        self.distribution.try_cdf(x)
    }
    fn try_inverse(&self, y: &Tensor) -> Result<Tensor> {
        self.distribution.try_icdf(y)
    }
    fn bijective(&self) -> bool {
        true
    }
    fn try_sign(&self) -> Result<Param> {
        Ok(1.into())
    }
    fn try_log_abs_det_jacobian(&self, x: &Tensor, _y: &Tensor) -> Result<Tensor> {
        self.distribution.try_log_prob(x)
    }
}
