//! Views: the gradient of a part, put in its place in the whole.

use crate::derivatives::shorthand::{
    add_, as_strided, clone, copy_, div, permute, reshape, select, slice, sum_dims, unsqueeze, zeros,
};
use crate::tensor::geometry::{self, SizeVec};
use crate::tensor::wrapper::zeros_among;
use crate::{DType, Error, Result, Tensor, ops};

/// Sizes, strides and offset, as formulas save them of a tensor (`self_geometry`).
#[derive(Clone, Debug)]
pub struct Geometry {
    /// Sizes.
    pub sizes: SizeVec,
    /// Strides.
    pub strides: SizeVec,
    /// Offset of the first element in the storage.
    pub offset: i64,
}
impl Geometry {
    /// Of a tensor.
    pub fn of(t: &Tensor) -> Geometry {
        Geometry {
            sizes: SizeVec::from_slice(t.sizes()),
            strides: SizeVec::from_slice(t.strides()),
            offset: t.storage_offset(),
        }
    }
}

/// `permute`: the inverse order.
pub fn permute_backward(grad: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let n = dims.len();
    let mut inverse = SizeVec::from_elem(0, n);
    for (i, &d) in dims.iter().enumerate() {
        inverse[geometry::wrap_dim(d, n)?] = i as i64;
    }
    permute(grad, &inverse)
}

/// Zeros of `sizes` with `grad` written into the view that `part` takes of them.
fn placed(grad: &Tensor, sizes: &[i64], part: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let whole = zeros(sizes, grad)?;
    copy_(&part(&whole)?, grad)?;
    Ok(whole)
}
/// `select`
pub fn select_backward(grad: &Tensor, sizes: &[i64], dim: i64, index: i64) -> Result<Tensor> {
    placed(grad, sizes, |w| select(w, dim, index))
}
/// `slice`
pub fn slice_backward(
    grad: &Tensor,
    sizes: &[i64],
    dim: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<Tensor> {
    placed(grad, sizes, |w| ops::slice(w, dim, start, end, step))
}
/// `diagonal`
pub fn diagonal_backward(grad: &Tensor, sizes: &[i64], offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    placed(grad, sizes, |w| ops::diagonal(w, offset, dim1, dim2))
}
/// `unfold`: windows may overlap, places within a window never do, so one strided addition per place.
pub fn unfold_backward(grad: &Tensor, sizes: &[i64], dim: i64, size: i64, step: i64) -> Result<Tensor> {
    let whole = zeros(sizes, grad)?;
    if sizes.is_empty() {
        let whole = unsqueeze(&whole, 0)?;
        for k in 0..size.min(1) {
            add_(&whole, &reshape(&select(grad, -1, k)?, &[1])?)?;
        }
        return reshape(&whole, &[]);
    }
    let d = geometry::wrap_dim(dim, sizes.len())?;
    let windows = grad.sizes()[d];
    for k in 0..size {
        let places = slice(&whole, d as i64, k, k + (windows - 1) * step + 1, step)?;
        add_(&places, &select(grad, -1, k)?)?;
    }
    Ok(whole)
}
/// `unbind`
pub fn unbind_backward(grads: &[Option<Tensor>], sizes: &[i64], dtype: DType, dim: i64) -> Result<Tensor> {
    let d = geometry::wrap_dim(dim, sizes.len())? as i64;
    gathered(grads, sizes, dtype, |w, i| select(w, d, i as i64))
}
/// `split`
pub fn split_backward(
    grads: &[Option<Tensor>],
    sizes: &[i64],
    dtype: DType,
    size: i64,
    dim: i64,
) -> Result<Tensor> {
    let d = geometry::wrap_dim(dim, sizes.len())?;
    gathered(grads, sizes, dtype, |w, i| {
        let start = size * i as i64;
        slice(w, d as i64, start, (start + size).min(sizes[d]), 1)
    })
}
/// `split_with_sizes`
pub fn split_with_sizes_backward(
    grads: &[Option<Tensor>],
    sizes: &[i64],
    dtype: DType,
    parts: &[i64],
    dim: i64,
) -> Result<Tensor> {
    let d = geometry::wrap_dim(dim, sizes.len())? as i64;
    gathered(grads, sizes, dtype, |w, i| {
        let start: i64 = parts[..i].iter().sum();
        slice(w, d, start, start + parts[i], 1)
    })
}
fn gathered(
    grads: &[Option<Tensor>],
    sizes: &[i64],
    dtype: DType,
    part: impl Fn(&Tensor, usize) -> Result<Tensor>,
) -> Result<Tensor> {
    let device = grads.iter().flatten().next().map_or(crate::Device::Cpu, Tensor::device);
    let whole = zeros_among(sizes, dtype, device, grads.iter().flatten())?;
    for (i, g) in grads.iter().enumerate() {
        if let Some(g) = g {
            copy_(&part(&whole, i)?, g)?;
        }
    }
    Ok(whole)
}

/// Elements of a geometry may share memory.
fn may_overlap(sizes: &[i64], strides: &[i64]) -> bool {
    let mut dims: SizeVec = (0..sizes.len() as i64).filter(|&d| sizes[d as usize] > 1).collect();
    dims.sort_by_key(|&d| strides[d as usize]);
    let mut reach = 0;
    for d in dims {
        let (n, s) = (sizes[d as usize], strides[d as usize]);
        if s <= reach {
            return true;
        }
        reach += (n - 1) * s;
    }
    false
}

/// `as_strided`
pub fn as_strided_backward(
    grad: &Tensor,
    source: &Geometry,
    sizes: &[i64],
    strides: &[i64],
    offset: Option<i64>,
) -> Result<Tensor> {
    let source = (&source.sizes[..], &source.strides[..], source.offset);
    as_strided_grad(grad, source, (sizes, strides, offset.unwrap_or(source.2)))
}
/// The gradient of a source of which a view was taken: both geometries are (sizes, strides, offset) in the same storage. Elements that a view reads twice get
/// the sum; where the source itself reads memory twice, each reading gets its share.
pub fn as_strided_grad(
    grad: &Tensor,
    source: (&[i64], &[i64], i64),
    view: (&[i64], &[i64], i64),
) -> Result<Tensor> {
    let first = source.2.min(view.2);
    let span = |g: (&[i64], &[i64], i64)| geometry::span(g.0, g.1) + g.2 - first;
    let n = span(source).max(span(view));
    let memory = zeros(&[n], grad)?;
    if grad.numel() > 0 {
        add_strided(&memory, grad, view.0, view.1, view.2 - first)?;
    }
    let out = as_strided(&memory, source.0, source.1, source.2 - first)?;
    if !may_overlap(source.0, source.1) {
        return Ok(out);
    }
    let count = zeros(&[n], grad)?;
    let ones = ops::ones_like(&clone(&out)?, None, None, None, None, None)?;
    add_strided(&count, &ones, source.0, source.1, source.2 - first)?;
    div(&out, &as_strided(&count, source.0, source.1, source.2 - first)?)
}
/// Adds `g` to the places of a geometry; overlapping geometries are taken apart, dimension by dimension.
fn add_strided(memory: &Tensor, g: &Tensor, sizes: &[i64], strides: &[i64], offset: i64) -> Result<()> {
    if !may_overlap(sizes, strides) {
        return add_(&as_strided(memory, sizes, strides, offset)?, g);
    }
    let dims = || (0..sizes.len()).filter(|&d| sizes[d] > 1);
    let without = |v: &[i64], d: usize| -> SizeVec {
        v.iter().enumerate().filter(|(i, _)| *i != d).map(|(_, x)| *x).collect()
    };
    if let Some(d) = dims().find(|&d| strides[d] == 0) {
        let g = sum_dims(g, &[d as i64], false)?;
        return add_strided(memory, &g, &without(sizes, d), &without(strides, d), offset);
    }
    let d = dims().min_by_key(|&d| sizes[d]).ok_or_else(|| Error::assertion("no dimension overlaps"))?;
    for i in 0..sizes[d] {
        let part = select(g, d as i64, i)?;
        add_strided(memory, &part, &without(sizes, d), &without(strides, d), offset + i * strides[d])?;
    }
    Ok(())
}
