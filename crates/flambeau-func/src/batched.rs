//! Tensors with a dimension that vmap hides.

use crate::functionalize;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::wrapper::{Asked, Batched, Shown, Wrapped, batched};
use flambeau_core::{Error, Layout, Result, Tensor, ensure, ops};
use std::any::Any;
use std::sync::Arc;

/// A tensor of which one dimension is hidden.
pub(crate) struct Hidden {
    inner: Tensor,
    /// Place of the dimension in `inner`.
    dim: usize,
    level: u64,
}
impl Wrapped for Hidden {
    fn class(&self) -> &'static str {
        "BatchedTensor"
    }
    fn batched(&self) -> Option<&dyn Batched> {
        Some(self)
    }
    fn carrier(&self) -> Tensor {
        flambeau_core::tensor::wrapper::carrier(&self.inner)
    }
    fn around(&self, carrier: Tensor) -> Result<Arc<dyn Wrapped>> {
        let inner = flambeau_core::tensor::wrapper::like(&self.inner, carrier)?;
        Ok(Arc::new(Hidden { inner, dim: self.dim, level: self.level }))
    }
    fn text(&self, _: &Tensor) -> Result<String> {
        let inner = self.inner.to_string().replace('\n', "\n    ");
        Ok(format!("BatchedTensor(lvl={}, bdim={}, value=\n    {inner}\n)", self.level, self.dim))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
impl Batched for Hidden {
    fn inner(&self) -> &Tensor {
        &self.inner
    }
    fn place(&self) -> usize {
        self.dim
    }
    fn hidden(&self, t: &Tensor, place: usize) -> Result<Tensor> {
        hide(t, place, self.level)
    }
    fn level(&self) -> u64 {
        self.level
    }
    fn lowered(&self, t: &Tensor) -> Result<Tensor> {
        let (t, dim) = shown(t, self.level);
        match dim {
            Some(d) => moved(&t, d, self.dim),
            None => repeated(&t, self.dim, self.inner.sizes()[self.dim]),
        }
    }
    fn raised(&self, inner: &Tensor) -> Result<Tensor> {
        hide(inner, self.dim, self.level)
    }
    fn unreadable(&self, asked: Asked) -> Error {
        Error::runtime(match asked {
            Asked::Memory => "Cannot access data pointer of Tensor that doesn't have storage",
            Asked::Number => {
                "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a \
                 Tensor, please try to rewrite what you're doing with other operations. If error is occurring somewhere \
                 inside PyTorch internals, please file a bug report."
            }
            Asked::Truth => {
                "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't \
                 support that yet, please file an issue at https://github.com/pytorch/pytorch/issues ."
            }
        })
    }
}

/// The size of a dimension.
///
/// # Errors
/// There is none of that number.
pub(crate) fn size(t: &Tensor, dim: usize) -> Result<i64> {
    t.sizes().get(dim).copied().ok_or_else(|| {
        Error::index(format!(
            "Dimension out of range: a tensor of {} dimensions has none of number {dim}",
            t.dim()
        ))
    })
}
/// The tensor with one dimension moved; the others keep their order.
pub(crate) fn moved(t: &Tensor, from: usize, to: usize) -> Result<Tensor> {
    if from == to {
        return Ok(t.clone());
    }
    // a rule may be given fewer dimensions than its operator wants
    for d in [from, to] {
        size(t, d)?;
    }
    let mut order: Vec<i64> = (0..t.dim() as i64).filter(|d| *d != from as i64).collect();
    order.insert(to, from as i64);
    ops::permute(t, &order)
}
/// The tensor repeated along a new dimension, without a copy.
pub(crate) fn repeated(t: &Tensor, dim: usize, n: i64) -> Result<Tensor> {
    let t = ops::unsqueeze(t, dim as i64)?;
    let mut sizes = t.sizes().to_vec();
    sizes[dim] = n;
    ops::expand(&t, &sizes, false)
}

/// Hides a dimension for a vmap. Those that vmaps further inside hide stay outside of it.
pub(crate) fn hide(t: &Tensor, dim: usize, level: u64) -> Result<Tensor> {
    if let Some(b) = batched(t)
        && b.level() >= level
    {
        ensure!(b.level() > level, Runtime, "vmap: a dimension of this level is hidden already");
        let theirs = place(t);
        let dim = if dim >= theirs { dim + 1 } else { dim };
        let inner = hide(b.inner(), dim, level)?;
        return hide(&inner, if theirs > dim { theirs - 1 } else { theirs }, b.level());
    }
    ensure!(
        t.layout() == Layout::Strided
            && (!t.is_wrapper() || batched(t).is_some() || functionalize::is_functional(t)),
        Unsupported,
        "vmap over a tensor of layout torch.{}: only strided tensors can be sliced",
        t.layout().name()
    );
    let n = size(t, dim)?;
    let without = |all: &[i64]| {
        let mut v = all.to_vec();
        v.remove(dim);
        v
    };
    let (sizes, strides) = (without(t.sizes()), without(t.strides()));
    let (mut step, mut contiguous) = (1i64, true);
    for (n, s) in sizes.iter().zip(&strides).rev() {
        contiguous &= *n == 1 || *s == step;
        step = step.saturating_mul((*n).max(1));
    }
    // what has no slices may have any sizes
    let numel = sizes.iter().fold(1i64, |n, m| n.saturating_mul(*m));
    let numel = if sizes.contains(&0) { 0 } else { numel };
    let shown = Shown {
        sizes: &sizes,
        strides: &strides,
        numel,
        contiguous: contiguous || n == 0 || numel == 0,
        layout: Layout::Strided,
        dtype: t.dtype(),
        device: t.device(),
    };
    Tensor::wrap(&shown, Arc::new(Hidden { inner: t.clone(), dim, level }))
}
/// The place of the dimension that the outermost wrapper hides.
fn place(t: &Tensor) -> usize {
    batched(t).map_or(0, Batched::place)
}
/// The tensor with the dimension of a level shown, and its place; the tensor itself where it hides none.
pub(crate) fn shown(t: &Tensor, level: u64) -> (Tensor, Option<usize>) {
    let Some(b) = batched(t) else { return (t.clone(), None) };
    let theirs = place(t);
    if b.level() == level {
        return (b.inner().clone(), Some(theirs));
    }
    if b.level() > level
        && let (inner, Some(dim)) = shown(b.inner(), level)
    {
        let theirs = if theirs >= dim { theirs + 1 } else { theirs };
        if let Ok(t) = hide(&inner, theirs, b.level()) {
            return (t, Some(if dim > theirs { dim - 1 } else { dim }));
        }
    }
    (t.clone(), None)
}
/// Whether the tensor has a dimension of this level.
pub(crate) fn hides(t: &Tensor, level: u64) -> bool {
    let Some(b) = batched(t) else { return false };
    b.level() == level || b.level() > level && hides(b.inner(), level)
}
/// The highest level at which the tensor hides a dimension, 0 for none.
pub(crate) fn highest(t: &Tensor) -> u64 {
    batched(t).map_or(0, Batched::level)
}
/// The tensor with a hidden dimension at every vmap that is under way.
pub(crate) fn at_all_levels(t: &Tensor) -> Result<Tensor> {
    let mut t = t.clone();
    for l in crate::levels::visible() {
        if !hides(&t, l.id) {
            t = hide(&repeated(&t, 0, l.batch)?, 0, l.id)?;
        }
    }
    Ok(t)
}
