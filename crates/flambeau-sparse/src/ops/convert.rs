//! From dense to sparse and back, and between sparse layouts.

use crate::coo::{Coo, add_rows, index, product, rows, take, unflatten};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Layout, Result, Tensor, ensure, ops};

/// `_to_dense`
pub fn dense_copy(self_: &Tensor, _masked_grad: Option<bool>) -> Result<Tensor> {
    let coo = match self_.layout() {
        Layout::Strided => return Ok(self_.alias_detached()),
        Layout::SparseCoo => self_.clone(),
        _ => crate::compressed::to_coo(self_)?,
    };
    let c = Coo::of(&coo, "to_dense")?;
    let out = Tensor::zeros_raw(&c.sizes, c.values.dtype(), Device::Cpu)?;
    if out.numel() > 0 {
        add_rows(&rows(&out, c.sparse_dim())?, &c.flat()?, &c.values)?;
    }
    Ok(out)
}
/// `to_dense`
pub fn to_dense(self_: &Tensor, dtype: Option<DType>, masked_grad: Option<bool>) -> Result<Tensor> {
    if self_.layout() == Layout::Strided {
        return ops::to(self_, dtype, None, None, None, false, false, None);
    }
    ensure!(
        dtype.is_none_or(|d| d == self_.dtype()),
        Runtime,
        "dtype argument is not supported by sparse_to_dense"
    );
    super::dense_copy(self_, masked_grad)
}

/// `_to_sparse.sparse_dim`
pub fn sparse_copy_dim(self_: &Tensor, sparse_dim: i64) -> Result<Tensor> {
    let n = self_.dim() as i64;
    ensure!(
        sparse_dim != 0 || n == 0,
        Runtime,
        "dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0"
    );
    ensure!(
        (0..=n).contains(&sparse_dim),
        Runtime,
        "dense_to_sparse: sparse_dim argument must be in [0,{n}] range, but {sparse_dim} is given"
    );
    let s = sparse_dim as usize;
    let flat = rows(self_, s)?;
    let zero = flambeau_autograd::shorthand::number(0)?;
    let mut set = ops::ne(&flat, &zero)?;
    if set.dim() > 1 {
        let dense: Vec<i64> = (1..set.dim() as i64).collect();
        set = ops::any_dims(&set, Some(&dense), false)?;
    }
    let places = ops::nonzero(&set)?.try_to_vec::<i64>()?;
    let indices = unflatten(&places, &self_.sizes()[..s])?;
    Coo { sizes: self_.sizes().to_vec(), indices, values: take(&flat, 0, &places)?, coalesced: true }.build()
}
/// `_to_sparse`
pub fn sparse_copy(
    self_: &Tensor,
    layout: Layout,
    blocksize: Option<&[i64]>,
    dense_dim: Option<i64>,
) -> Result<Tensor> {
    let blocks = matches!(layout, Layout::SparseBsr | Layout::SparseBsc);
    ensure!(
        blocksize.is_none() || blocks,
        Runtime,
        "to_sparse for {} to {} conversion does not use specified blocksize",
        crate::coo::layout_name(self_.layout()),
        crate::coo::layout_name(layout)
    );
    match (self_.layout(), layout) {
        (Layout::Strided, Layout::SparseCoo) => {
            sparse_copy_dim(self_, (self_.dim() as i64).saturating_sub(dense_dim.unwrap_or(0)))
        }
        (Layout::Strided, l) => crate::compressed::from_dense(self_, l, blocksize, dense_dim.unwrap_or(0)),
        (_, Layout::Strided) => dense_copy(self_, None),
        (Layout::SparseCoo, Layout::SparseCoo) => Ok(self_.alias_detached()),
        (Layout::SparseCoo, l) => crate::compressed::from_coo(self_, l, blocksize),
        (_, Layout::SparseCoo) => crate::compressed::to_coo(self_),
        (from, to) if from == to && blocksize.is_none() => Ok(self_.alias_detached()),
        (_, l) => crate::compressed::relayout(self_, l, blocksize),
    }
}
/// A tensor in any layout, where the layout alone says how.
pub(crate) fn to_layout(t: &Tensor, layout: Layout) -> Result<Tensor> {
    if t.layout() == layout {
        return Ok(t.clone());
    }
    if layout == Layout::Strided {
        super::to_dense(t, None, None)
    } else {
        super::sparse_copy(t, layout, None, None)
    }
}
/// `to_sparse`
pub fn to_sparse(
    self_: &Tensor,
    layout: Option<Layout>,
    blocksize: Option<&[i64]>,
    dense_dim: Option<i64>,
) -> Result<Tensor> {
    let layout = layout.unwrap_or(if blocksize.is_some() { Layout::SparseBsr } else { Layout::SparseCoo });
    if self_.layout() == layout && blocksize.is_none() {
        return Ok(self_.clone());
    }
    if layout == Layout::Strided {
        return super::to_dense(self_, None, None);
    }
    super::sparse_copy(self_, layout, blocksize, dense_dim)
}
/// `to_sparse.sparse_dim`
pub fn to_sparse_dim(self_: &Tensor, sparse_dim: i64) -> Result<Tensor> {
    if !self_.is_sparse_any() {
        return super::sparse_copy_dim(self_, sparse_dim);
    }
    ensure!(
        self_.is_sparse() && super::sparse_dim(self_)? == sparse_dim,
        Runtime,
        "to_sparse: conversion from {} to Sparse with sparse_dim argument !=self.sparse_dim() is not supported",
        crate::coo::layout_name(self_.layout())
    );
    Ok(self_.clone())
}
/// `to_sparse_coo`
pub fn to_sparse_coo(self_: &Tensor) -> Result<Tensor> {
    to_sparse(self_, Some(Layout::SparseCoo), None, None)
}
/// `to_sparse_csr`
pub fn to_sparse_csr(self_: &Tensor, dense_dim: Option<i64>) -> Result<Tensor> {
    to_sparse(self_, Some(Layout::SparseCsr), None, dense_dim)
}
/// `to_sparse_csc`
pub fn to_sparse_csc(self_: &Tensor, dense_dim: Option<i64>) -> Result<Tensor> {
    to_sparse(self_, Some(Layout::SparseCsc), None, dense_dim)
}
/// `to_sparse_bsr`
pub fn to_sparse_bsr(self_: &Tensor, blocksize: &[i64], dense_dim: Option<i64>) -> Result<Tensor> {
    to_sparse(self_, Some(Layout::SparseBsr), Some(blocksize), dense_dim)
}
/// `to_sparse_bsc`
pub fn to_sparse_bsc(self_: &Tensor, blocksize: &[i64], dense_dim: Option<i64>) -> Result<Tensor> {
    to_sparse(self_, Some(Layout::SparseBsc), Some(blocksize), dense_dim)
}

/// `sparse_mask`
pub fn sparse_mask(self_: &Tensor, mask: &Tensor) -> Result<Tensor> {
    ensure!(
        mask.is_sparse_any(),
        Unsupported,
        "Could not run 'aten::sparse_mask' with arguments from the 'CPU' backend."
    );
    ensure!(
        self_.sizes() == mask.sizes(),
        Runtime,
        "sparse_mask(): operands have incompatible sizes; self has size {} but mask has size {}",
        flambeau_core::tensor::geometry::fmt_sizes(self_.sizes()),
        flambeau_core::tensor::geometry::fmt_sizes(mask.sizes())
    );
    if !mask.is_sparse() {
        return crate::compressed::mask(self_, mask);
    }
    let m = Coo::of(mask, "sparse_mask")?;
    let dense = if self_.is_sparse_any() && super::sparse_dim(self_)? as usize != m.sparse_dim() {
        dense_copy(self_, None)?
    } else {
        self_.clone()
    };
    m.with_values(super::elements_at(&dense, &m.indices)?).build()
}

/// A list of numbers as a tensor of other sizes.
pub(crate) fn index_of(v: &[i64], sizes: &[i64], dtype: DType) -> Result<Tensor> {
    ensure!(product(sizes)? == v.len() as i64, Shape, "as many indices as the sizes say");
    crate::coo::cast(&ops::view(&index(v)?, sizes)?, dtype)
}
