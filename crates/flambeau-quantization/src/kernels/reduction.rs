//! Extremes and orders of the integers, means and deviations of the numbers.

use super::activation::kept;
use crate::tensor::{affine, mapped, wrap};
use flambeau_core::generated::{reduction as r, sorting as s};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key::QuantizedCpu;
use flambeau_core::{Result, Scalar, Tensor, ops};

/// Integers and places, the integers by the tensor's rule. A negative scale turns the order round, which PyTorch does not see.
fn with_places(t: &Tensor, f: impl FnOnce(&Tensor) -> Result<(Tensor, Tensor)>) -> Result<(Tensor, Tensor)> {
    affine(t)?;
    let q = crate::tensor::rule(t, "sort")?;
    let (values, places) = f(&t.integers()?)?;
    Ok((wrap(&values, t.dtype(), &q)?, places))
}
fn mean(t: &Tensor, dims: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    kept(t, |x| ops::mean(x, dims, keepdim, None))
}

pub(super) fn fill() {
    r::MAX.register(QuantizedCpu, |t| {
        affine(t)?;
        mapped(t, ops::max)
    });
    r::MIN.register(QuantizedCpu, |t| {
        affine(t)?;
        mapped(t, ops::min)
    });
    r::MAX_DIM.register(QuantizedCpu, |t, d, k| with_places(t, |q| ops::max_dim(q, d, k)));
    r::MIN_DIM.register(QuantizedCpu, |t, d, k| with_places(t, |q| ops::min_dim(q, d, k)));
    r::MEAN.register(QuantizedCpu, |t, d, k, _| mean(t, d, k));
    r::STD.register(QuantizedCpu, |t, d, c: Option<Scalar>, k| kept(t, |x| ops::std(x, d, c, k)));
    s::SORT_STABLE.register(QuantizedCpu, |t, stable, d, down| {
        with_places(t, |q| ops::sort_stable(q, stable, d, down))
    });
    s::TOPK.register(QuantizedCpu, |t, k, d, largest, sorted| {
        with_places(t, |q| ops::topk(q, k, d, largest, sorted))
    });
}
