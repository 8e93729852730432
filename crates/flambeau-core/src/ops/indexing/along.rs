//! `gather`, `scatter` and their like: one index per element, along one dimension.

use super::{Checked, as_i64, done, element, indices, is_index, out_of_bounds};
use crate::backend::cpu::access::Access;
use crate::backend::out::{OutMeta, Update};
use crate::backend::transfer::{contiguous_raw, resolve_lazy};
use crate::generated::args;
use crate::ops::views::slice;
use crate::tensor::geometry::{SizeVec, fmt_sizes, wrap_dim};
use crate::tensor::handle::Tensor;
use crate::tensor::wrapped_number::wrapped_number;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
use crate::{DType, ensure};
use flambeau_cpu::indexing::{Along, Reduce, Rounding, erased};
use flambeau_cpu::{Any, AnyMut};

/// What an [`Along`] borrows.
struct Place {
    shape: Vec<usize>,
    strides: Vec<usize>,
    dim: usize,
    size: usize,
}
impl Place {
    fn new(data: &Tensor, index: &Tensor, dim: usize) -> Place {
        let usizes = |v: &[i64]| v.iter().map(|x| *x as usize).collect::<Vec<_>>();
        if data.dim() == 0 {
            return Place { shape: vec![index.numel() as usize], strides: vec![1], dim: 0, size: 1 };
        }
        let shape = if index.dim() == 0 { vec![1] } else { usizes(index.sizes()) };
        Place { shape, strides: usizes(data.strides()), dim, size: data.sizes()[dim] as usize }
    }
    fn along(&self) -> Along<'_> {
        Along { shape: &self.shape, strides: &self.strides, dim: self.dim, size: self.size }
    }
}
/// A zero-dim tensor counts as one of rank 1.
fn rank(t: &Tensor) -> usize {
    t.dim().max(1)
}
fn size(t: &Tensor, d: usize) -> i64 {
    if t.dim() == 0 { 1 } else { t.sizes()[d] }
}

/// `gather`
pub fn gather_shape(&args::Gather { self_, dim, index, .. }: &args::Gather) -> Result<OutMeta> {
    let d = wrap_dim(dim, self_.dim())?;
    if index.numel() != 0 {
        ensure!(is_index(index), Runtime, "gather(): Expected dtype int32/int64 for index");
        ensure!(
            rank(index) == rank(self_),
            Runtime,
            "Index tensor must have the same number of dimensions as input tensor"
        );
        for i in (0..rank(self_)).filter(|i| *i != d) {
            ensure!(
                size(index, i) <= size(self_, i),
                Runtime,
                "Size does not match at dimension {i} expected index {} to be no larger than self {} apart from \
                 dimension {d}",
                fmt_sizes(index.sizes()),
                fmt_sizes(self_.sizes())
            );
        }
    }
    Ok(OutMeta::of(index.sizes(), self_.dtype(), self_.device()))
}
/// `gather`
pub fn gather_cpu(&args::Gather { self_, dim, index, .. }: &args::Gather, out: &Tensor) -> Result<()> {
    if index.numel() == 0 {
        return Ok(());
    }
    let d = wrap_dim(dim, self_.dim())?;
    let (x, idx) = (resolve_lazy(self_)?, as_i64(index)?);
    let p = Place::new(&x, &idx, d);
    let a = Access::new(&[&x, &idx], &[out])?;
    let r = erased::gather(a.any(0)?, p.along(), indices(&a, 1)?, a.any_mut(0)?);
    done(r, "gather_out_cpu", x.dtype(), |e| Error::runtime(out_of_bounds(e, d)))
}

/// Checks what all scatters check, and gives the dimension.
fn check(self_: &Tensor, dim: i64, index: &Tensor, src: Option<&Tensor>) -> Result<usize> {
    let d = wrap_dim(dim, self_.dim())?;
    ensure!(
        index.numel() == 0 || is_index(index),
        Runtime,
        "scatter(): Expected dtype int32/int64 for index"
    );
    if let Some(s) = src {
        ensure!(
            s.dtype() == self_.dtype(),
            Runtime,
            "scatter(): Expected self.dtype to be equal to src.dtype"
        );
    }
    if index.numel() == 0 {
        return Ok(d);
    }
    ensure!(
        rank(index) == rank(self_),
        Runtime,
        "Index tensor must have the same number of dimensions as self tensor"
    );
    let mut fits = (0..rank(self_)).all(|i| i == d || size(index, i) <= size(self_, i));
    if let Some(s) = src {
        for i in 0..rank(self_) {
            if !fits {
                break;
            }
            // asked for even where the source has fewer dimensions
            let n = if s.dim() == 0 { 1 } else { s.sizes()[wrap_dim(i as i64, s.dim())?] };
            fits = size(index, i) <= n;
        }
        ensure!(
            rank(index) == rank(s),
            Runtime,
            "Index tensor must have the same number of dimensions as src tensor"
        );
        ensure!(
            fits,
            Runtime,
            "Expected index {} to be no larger than self {} apart from dimension {d} and to be no larger size than src {}",
            fmt_sizes(index.sizes()),
            fmt_sizes(self_.sizes()),
            fmt_sizes(s.sizes())
        );
    }
    ensure!(
        fits,
        Runtime,
        "Expected index {} to be no larger than self {} apart from dimension {d}",
        fmt_sizes(index.sizes()),
        fmt_sizes(self_.sizes())
    );
    Ok(d)
}

/// The part of `src` that the index covers, contiguous.
fn covered(src: &Tensor, index: &Tensor) -> Result<Tensor> {
    let mut s = resolve_lazy(src)?;
    if s.dim() > 0 {
        for i in 0..s.dim() {
            s = slice(&s, i as i64, Some(0), Some(size(index, i)), 1)?;
        }
    }
    contiguous_raw(&s)
}

/// All scatters with a source tensor, into `out`.
fn scatter_by(
    out: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    label: &str,
    kernel: impl FnOnce(AnyMut, Along, &[i64], Any) -> Checked,
) -> Result<()> {
    if index.numel() == 0 {
        return Ok(());
    }
    let d = wrap_dim(dim, out.dim())?;
    no_place(out, d, index)?;
    let (idx, src) = (as_i64(index)?, covered(src, index)?);
    let p = Place::new(out, &idx, d);
    let a = Access::new(&[&idx, &src], &[out])?;
    let r = kernel(a.any_mut(0)?, p.along(), indices(&a, 0)?, a.any(1)?);
    done(r, label, out.dtype(), |e| Error::runtime(out_of_bounds(e, d)))
}
/// Where there are no elements, every index is out of bounds.
fn no_place(out: &Tensor, d: usize, index: &Tensor) -> Result<()> {
    if out.numel() > 0 {
        return Ok(());
    }
    let all = crate::backend::transfer::to_vec::<i64>(&as_i64(index)?)?;
    let index = all.first().copied().unwrap_or(0);
    Err(Error::runtime(out_of_bounds(flambeau_cpu::indexing::IndexError { index, size: 0 }, d)))
}
/// A number spread over the index's shape.
fn spread(out: &Tensor, index: &Tensor, value: Scalar) -> Result<Tensor> {
    let v = element(value, out.dtype())?;
    v.view_raw(SizeVec::from_slice(index.sizes()), SizeVec::from_elem(0, index.dim()), 0)
}

/// `scatter.src`
pub fn scatter_shape(&args::Scatter { self_, dim, index, src }: &args::Scatter) -> Result<Update> {
    check(self_, dim, index, Some(src))?;
    Ok(Update::contiguous(self_))
}
/// `scatter.src`
pub fn scatter_cpu(&args::Scatter { dim, index, src, .. }: &args::Scatter, out: &Tensor) -> Result<()> {
    scatter_by(out, dim, index, src, "scatter", erased::scatter)
}
/// `scatter.value`
pub fn scatter_value_shape(
    &args::ScatterValue { self_, dim, index, value }: &args::ScatterValue,
) -> Result<Update> {
    check(self_, dim, index, None)?;
    value.check_fits(self_.dtype())?;
    Ok(Update::contiguous(self_))
}
/// `scatter.value`
pub fn scatter_value_cpu(
    &args::ScatterValue { dim, index, value, .. }: &args::ScatterValue,
    out: &Tensor,
) -> Result<()> {
    if index.numel() == 0 {
        return Ok(());
    }
    let d = wrap_dim(dim, out.dim())?;
    no_place(out, d, index)?;
    let (v, idx) = (element(value, out.dtype())?, as_i64(index)?);
    let p = Place::new(out, &idx, d);
    let a = Access::new(&[&idx, &v], &[out])?;
    let r = erased::scatter_value(a.any_mut(0)?, p.along(), indices(&a, 0)?, a.any(1)?);
    done(r, "scatter", out.dtype(), |e| Error::runtime(out_of_bounds(e, d)))
}
fn old_reduce(reduce: &str) -> Result<Reduce> {
    match reduce {
        "add" => Ok(Reduce::Sum),
        "multiply" => Ok(Reduce::Prod),
        _ => Err(Error::runtime("reduce argument must be either add or multiply.")),
    }
}
/// `scatter.reduce`
pub fn scatter_src_reduce_shape(
    &args::ScatterSrcReduce { self_, dim, index, src, reduce }: &args::ScatterSrcReduce,
) -> Result<Update> {
    check(self_, dim, index, Some(src))?;
    old_reduce(reduce)?;
    Ok(Update::contiguous(self_))
}
/// `scatter.reduce`
pub fn scatter_src_reduce_cpu(
    &args::ScatterSrcReduce { dim, index, src, reduce, .. }: &args::ScatterSrcReduce,
    out: &Tensor,
) -> Result<()> {
    reduced(out, dim, index, src, old_reduce(reduce)?, true, Rounding::Once)
}
/// `scatter.value_reduce`
pub fn scatter_value_reduce_shape(
    &args::ScatterValueReduce { self_, dim, index, value, reduce }: &args::ScatterValueReduce,
) -> Result<Update> {
    check(self_, dim, index, None)?;
    old_reduce(reduce)?;
    value.check_fits(self_.dtype())?;
    Ok(Update::contiguous(self_))
}
/// `scatter.value_reduce`
pub fn scatter_value_reduce_cpu(
    &args::ScatterValueReduce { dim, index, value, reduce, .. }: &args::ScatterValueReduce,
    out: &Tensor,
) -> Result<()> {
    reduced(out, dim, index, &spread(out, index, value)?, old_reduce(reduce)?, true, Rounding::Once)
}
/// `scatter_add`
pub fn scatter_add_shape(&args::ScatterAdd { self_, dim, index, src }: &args::ScatterAdd) -> Result<Update> {
    check(self_, dim, index, Some(src))?;
    Ok(Update::contiguous(self_))
}
/// `scatter_add`
pub fn scatter_add_cpu(
    &args::ScatterAdd { dim, index, src, .. }: &args::ScatterAdd,
    out: &Tensor,
) -> Result<()> {
    reduced(out, dim, index, src, Reduce::Sum, true, Rounding::Once)
}
/// Joins elements of `src` with those of `out`.
pub(super) fn reduced(
    out: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    op: Reduce,
    include_self: bool,
    rounding: Rounding,
) -> Result<()> {
    if op == Reduce::Sum && include_self && rounding == Rounding::Once {
        return scatter_by(out, dim, index, src, "scatter_add_", erased::scatter_add);
    }
    let label = match op {
        Reduce::Sum => "scatter_gather_tensor_cpu_reduce_sum",
        Reduce::Prod => "scatter_gather_tensor_cpu_reduce_prod",
        Reduce::Mean => "scatter_gather_tensor_cpu_reduce_mean",
        Reduce::Amax => "scatter_gather_tensor_cpu_reduce_amax",
        Reduce::Amin => "scatter_gather_tensor_cpu_reduce_amin",
    };
    if out.dtype() == DType::Bool && op == Reduce::Mean {
        return Err(Error::not_implemented_for(label, DType::Bool));
    }
    scatter_by(out, dim, index, src, label, |data, along, idx, src| {
        erased::scatter_reduce(data, along, idx, src, op, include_self, rounding)
    })
}
/// How `scatter_reduce` and `index_reduce` name their reductions.
pub(super) fn reduction(name: &str) -> Option<Reduce> {
    Some(match name {
        "sum" => Reduce::Sum,
        "prod" => Reduce::Prod,
        "mean" => Reduce::Mean,
        "amax" => Reduce::Amax,
        "amin" => Reduce::Amin,
        _ => return None,
    })
}
fn new_reduce(name: &str) -> Result<Reduce> {
    reduction(name).ok_or_else(|| {
        Error::runtime(format!("reduce argument must be either sum, prod, mean, amax or amin, got {name}"))
    })
}
/// `scatter_reduce.two`
pub fn scatter_reduce_shape(
    &args::ScatterReduce { self_, dim, index, src, reduce, .. }: &args::ScatterReduce,
) -> Result<Update> {
    check(self_, dim, index, Some(src))?;
    new_reduce(reduce)?;
    Ok(Update::contiguous(self_))
}
/// `scatter_reduce.two`
pub fn scatter_reduce_cpu(
    &args::ScatterReduce { dim, index, src, reduce, include_self, .. }: &args::ScatterReduce,
    out: &Tensor,
) -> Result<()> {
    reduced(out, dim, index, src, new_reduce(reduce)?, include_self, Rounding::Once)
}

/// `take_along_dim`: `gather` with broadcasting, and negative indices that count from the end.
pub fn take_along_dim(self_: &Tensor, indices: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    ensure!(
        dim.is_none() || self_.dim() == indices.dim(),
        Runtime,
        "torch.take_along_dim(): input and indices should have the same number of dimensions, but got {} dimensions for \
         input, and {} dimensions for indices",
        self_.dim(),
        indices.dim()
    );
    ensure!(
        dim.is_none() || indices.dtype() == DType::I64,
        Runtime,
        "torch.take_along_dim(): dtype of indices should be Long but got {}",
        indices.dtype().scalar_type_name()
    );
    let wrapped = |n: i64| -> Result<Tensor> {
        let from_the_end = crate::ops::add(indices, &wrapped_number(Scalar::Int(n))?, Scalar::Int(1))?;
        let negative = crate::ops::lt(indices, &wrapped_number(Scalar::Int(0))?)?;
        crate::ops::where_(&negative, &from_the_end, indices)
    };
    let Some(dim) = dim else {
        let flat = crate::ops::reshape(self_, &[-1])?;
        let idx = crate::ops::reshape(indices, &[-1])?;
        return crate::ops::gather(&flat, 0, &idx, false);
    };
    let d = wrap_dim(dim, self_.dim())?;
    if self_.dim() == 0 {
        return crate::ops::gather(self_, 0, indices, false);
    }
    let mut one = [SizeVec::from_slice(self_.sizes()), SizeVec::from_slice(indices.sizes())];
    let (n, m) = (one[0][d], one[1][d]);
    one[0][d] = 1;
    one[1][d] = 1;
    let mut shape = crate::tensor::geometry::broadcast_shapes(&one[0], &one[1])?;
    shape[d] = n;
    let x = crate::ops::expand(self_, &shape, false)?;
    shape[d] = m;
    let idx = crate::ops::expand(&wrapped(n)?, &shape, false)?;
    crate::ops::gather(&x, d as i64, &idx, false)
}
