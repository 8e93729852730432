//! Indexing: the gradient of elements read is put where they were read, that of elements written is read there.

use crate::backend::transfer::to_device;
use crate::derivatives::shorthand::{
    add, div, eq, masked, mul, number, ones_like, reshape, slice, sum_all, to_dtype, where_, zeros,
    zeros_like,
};
use crate::dispatch::registry;
use crate::dispatch::value::{IntoValue, Value, arg};
use crate::tensor::geometry::{SizeVec, broadcast_shapes, numel, wrap_dim};
use crate::{DType, Error, MemoryFormat, Result, Scalar, Tensor, ops};

const ZERO: Scalar = Scalar::Int(0);

/// `index.Tensor`
pub fn index(x: &Tensor, indices: &[Option<Tensor>]) -> Result<Tensor> {
    ops::index(x, indices)
}
/// `index`
pub fn index_backward(grad: &Tensor, sizes: &[i64], indices: &[Option<Tensor>]) -> Result<Tensor> {
    ops::index_put(&zeros(sizes, grad)?, indices, grad, true)
}
/// `index_put`
pub fn index_put_self(grad: &Tensor, indices: &[Option<Tensor>], accumulate: bool) -> Result<Tensor> {
    if accumulate { Ok(grad.clone()) } else { ops::index_put(grad, indices, &zeros(&[], grad)?, false) }
}
/// `gather`
pub fn gather_backward(grad: &Tensor, sizes: &[i64], dim: i64, index: &Tensor) -> Result<Tensor> {
    ops::scatter_add(&zeros(sizes, grad)?, dim, index, grad)
}
/// `gather`
pub fn gather_grad(grad: &Tensor, sizes: &[i64], dim: i64, index: &Tensor, sparse: bool) -> Result<Tensor> {
    if sparse {
        return gather_sparse(grad, sizes, dim, index);
    }
    gather_backward(grad, sizes, dim, index)
}
/// One element for each that was read, where it was read.
fn gather_sparse(grad: &Tensor, sizes: &[i64], dim: i64, index: &Tensor) -> Result<Tensor> {
    if sizes.is_empty() {
        // one element, read any number of times
        return sum_all(grad);
    }
    let d = wrap_dim(dim, sizes.len())? as i64;
    let n = index.numel();
    let at = |k: usize| -> Result<Tensor> {
        if k as i64 == d {
            return to_dtype(&reshape(index, &[n])?, DType::I64);
        }
        let mut shape: SizeVec = sizes.iter().map(|_| 1).collect();
        shape[k] = index.sizes()[k];
        let along = (0..index.sizes()[k]).collect::<Vec<i64>>();
        let along = to_device(Tensor::from_vec_raw(along, &shape)?, index.device())?;
        reshape(&ops::expand(&along, index.sizes(), false)?, &[n])
    };
    let indices = ops::stack(&(0..sizes.len()).map(at).collect::<Result<Vec<_>>>()?, 0)?;
    // flambeau-sparse stands above this crate
    let op = registry::find("aten::_sparse_coo_tensor_unsafe")
        .ok_or_else(|| Error::missing("no operator named 'torch._sparse_coo_tensor_unsafe'"))?;
    let values = reshape(grad, &[n])?;
    arg(&op.call_boxed(&[indices.into_value(), values.into_value(), sizes.into_value(), Value::None])?, 0)
}
/// The gradient without what was overwritten.
pub fn scatter_zero(grad: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    ops::scatter_value(grad, dim, index, ZERO)
}
/// The gradient of a source whose part under the index was scattered.
pub fn gathered(grad: &Tensor, dim: i64, index: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let g = ops::gather(grad, dim, index, false)?;
    if g.sizes() == sizes {
        return Ok(g);
    }
    let whole = zeros(sizes, grad)?;
    let mut part = whole.clone();
    for (d, n) in g.sizes().iter().enumerate() {
        part = slice(&part, d as i64, 0, *n, 1)?;
    }
    ops::copy_(&part, &g, false)?;
    Ok(whole)
}
/// `index_select`
pub fn index_select_backward(grad: &Tensor, sizes: &[i64], dim: i64, index: &Tensor) -> Result<Tensor> {
    ops::index_add(&zeros(sizes, grad)?, dim, index, grad, Scalar::Int(1))
}
/// The slices at an index.
pub fn selected_any(grad: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    ops::index_select(grad, dim, index)
}
/// The slices at an index, in the sizes of the source that was written there.
pub fn selected(grad: &Tensor, dim: i64, index: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let g = selected_any(grad, dim, index)?;
    if g.sizes() == sizes { Ok(g) } else { reshape(&g, sizes) }
}
/// The gradient without the slices that were overwritten.
pub fn index_zero(grad: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    ops::index_fill(grad, dim, index, ZERO)
}
/// `index_fill`: for the value. An index that occurs twice fills once.
pub fn index_fill_value(grad: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    let none = ops::zeros_like(grad, Some(DType::Bool), None, None, None, None)?;
    let filled = ops::index_fill(&none, dim, index, Scalar::Bool(true))?;
    sum_all(&masked(&filled, grad)?)
}
/// `masked_select`
pub fn masked_select_backward(grad: &Tensor, sizes: &[i64], mask: &Tensor) -> Result<Tensor> {
    ops::masked_scatter(&zeros(&broadcast_shapes(sizes, mask.sizes())?, grad)?, mask, grad)
}
/// `masked_scatter`: the source's elements that were used come first.
pub fn masked_scatter_source(grad: &Tensor, mask: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let used = ops::masked_select(grad, mask)?;
    let n = numel(sizes);
    let whole = zeros(&[n], grad)?;
    ops::copy_(&slice(&whole, 0, 0, used.numel(), 1)?, &used, false)?;
    reshape(&whole, sizes)
}
/// `take`
pub fn take(x: &Tensor, index: &Tensor) -> Result<Tensor> {
    ops::take(x, index)
}
/// `take`
pub fn take_backward(grad: &Tensor, sizes: &[i64], index: &Tensor) -> Result<Tensor> {
    ops::put(&zeros(sizes, grad)?, index, grad, true)
}
/// `put`
pub fn put_self(grad: &Tensor, index: &Tensor, accumulate: bool) -> Result<Tensor> {
    if accumulate { Ok(grad.clone()) } else { ops::put(grad, index, &zeros(index.sizes(), grad)?, false) }
}
/// `select_scatter`
pub fn select_scatter_self(grad: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    ops::select_scatter(grad, &zeros_like(&ops::select(grad, dim, index)?)?, dim, index)
}
/// `slice_scatter`
pub fn slice_scatter_self(
    grad: &Tensor,
    dim: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<Tensor> {
    let part = zeros_like(&ops::slice(grad, dim, start, end, step)?)?;
    ops::slice_scatter(grad, &part, dim, start, end, step)
}
/// `diagonal_scatter`
pub fn diagonal_scatter_self(grad: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    let part = zeros_like(&ops::diagonal(grad, offset, dim1, dim2)?)?;
    ops::diagonal_scatter(grad, &part, offset, dim1, dim2)
}

/// `scatter_reduce`. Elements that tie for an extreme share its gradient.
#[allow(clippy::too_many_arguments)]
pub fn scatter_reduce_backward(
    grad: &Tensor,
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
    include_self: bool,
    result: &Tensor,
) -> Result<[Option<Tensor>; 2]> {
    if index.numel() == 0 {
        return Ok([Some(grad.clone()), Some(zeros_like(src)?)]);
    }
    let covered = |t: &Tensor| -> Result<Tensor> {
        let mut t = t.clone();
        for (d, n) in index.sizes().iter().enumerate() {
            t = slice(&t, d as i64, 0, *n, 1)?;
        }
        Ok(t)
    };
    let full = |g: Tensor| -> Result<Tensor> {
        if g.sizes() == src.sizes() {
            return Ok(g);
        }
        let whole = zeros(src.sizes(), grad)?;
        ops::copy_(&covered(&whole)?, &g, false)?;
        Ok(whole)
    };
    let gather = |t: &Tensor| ops::gather(t, dim, index, false);
    let add_at = |t: &Tensor, s: &Tensor| ops::scatter_add(t, dim, index, s);
    let s = covered(src)?;
    let is = |a: &Tensor, b: &Tensor| -> Result<Tensor> { to_dtype(&eq(a, b)?, grad.dtype()) };
    let (gx, gs) = match reduce {
        "sum" => (grad.clone(), gather(grad)?),
        "mean" => {
            let start = if include_self { ones_like(grad)? } else { zeros_like(grad)? };
            let n = add_at(&start, &ones_like(&s)?)?;
            let n = add(&n, &is(&n, &number(0)?)?)?;
            let share = div(grad, &n)?;
            (share.clone(), gather(&share)?)
        }
        "amax" | "amin" => {
            let x_is = is(x, result)?;
            let x_is = if include_self { x_is } else { scatter_zero(&x_is, dim, index)? };
            let s_is = is(&s, &gather(result)?)?;
            let n = add_at(&x_is, &s_is)?;
            let share = div(grad, &add(&n, &is(&n, &number(0)?)?)?)?;
            (mul(&x_is, &share)?, mul(&s_is, &gather(&share)?)?)
        }
        _ => {
            let one = number(1)?;
            let zero_x = eq(x, &number(0)?)?;
            let safe_x = where_(&zero_x, &one, x)?;
            let with_x = ops::scatter_reduce(&safe_x, dim, index, src, reduce, include_self)?;
            let gx = div(&mul(grad, &with_x)?, &safe_x)?;
            let zero_s = eq(&s, &number(0)?)?;
            let zeros_at = gather(&add_at(&zeros_like(grad)?, &to_dtype(&zero_s, grad.dtype())?)?)?;
            let single = where_(&zero_s, &to_dtype(&eq(&zeros_at, &one)?, grad.dtype())?, &number(0)?)?;
            let single = eq(&single, &one)?;
            let without =
                ops::scatter_reduce(x, dim, index, &where_(&single, &one, &s)?, reduce, include_self)?;
            let usual = div(&gather(&mul(grad, result)?)?, &where_(&zero_s, &one, &s)?)?;
            (gx, where_(&single, &gather(&mul(grad, &without)?)?, &usual)?)
        }
    };
    let gx = if include_self { gx } else { scatter_zero(&gx, dim, index)? };
    Ok([Some(gx), Some(full(gs)?)])
}
/// `index_reduce`
#[allow(clippy::too_many_arguments)]
pub fn index_reduce_backward(
    grad: &Tensor,
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
    include_self: bool,
    result: &Tensor,
) -> Result<[Option<Tensor>; 2]> {
    let mut shape = SizeVec::from_elem(1, source.dim());
    if source.dim() > 0 {
        shape[wrap_dim(dim, source.dim())?] = index.numel();
    }
    let spread = ops::expand(&reshape(index, &shape)?, source.sizes(), false)?;
    scatter_reduce_backward(grad, x, dim, &spread, source, reduce, include_self, result)
}

/// `fill_diagonal_`: nothing comes from what was overwritten.
pub fn fill_diagonal_backward(grad: &Tensor, wrap: bool) -> Result<Tensor> {
    let g = ops::clone(grad, None)?;
    ops::fill_diagonal_(&g, ZERO, wrap)?;
    Ok(g)
}

/// `as_strided_scatter` for the input, as PyTorch defines it: the gradient of the elements that are replaced.
pub fn as_strided_scatter_self(
    grad: &Tensor,
    size: &[i64],
    stride: &[i64],
    storage_offset: Option<i64>,
) -> Result<Tensor> {
    let g = ops::contiguous(grad, MemoryFormat::Contiguous)?;
    let part = ops::as_strided(&g, size, stride, storage_offset)?;
    ops::as_strided_scatter(&zeros_like(&g)?, &part, size, stride, storage_offset)
}
