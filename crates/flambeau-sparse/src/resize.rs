//! Sparse tensors of other sizes, in place of a handle.

use crate::coo::Coo;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::tensor::sparse::checked_numel;
use flambeau_core::{Error, IntoDims, Result, Tensor, ensure, ops};

fn check(t: &Tensor, size: &[i64], sparse: i64, dense: i64, name: &str) -> Result<Coo> {
    ensure!(
        t.is_sparse(),
        Unsupported,
        "Could not run 'aten::{name}' with arguments from the 'CPU' backend."
    );
    ensure!(
        !t.requires_grad(),
        Runtime,
        "a leaf Variable that requires grad is being used in an in-place operation."
    );
    ensure!(
        sparse >= 0 && dense >= 0 && sparse.saturating_add(dense) == size.len() as i64,
        Runtime,
        "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {}, sparse_dim = {sparse}, dense_dim = \
         {dense}",
        size.len()
    );
    checked_numel(size)?;
    Coo::of(t, name)
}
/// Gives a COO tensor other sizes; what is specified stays.
pub(crate) fn resize(t: &mut Tensor, size: &[i64], sparse: i64, dense: i64) -> Result<()> {
    let c = check(t, size, sparse, dense, "sparse_resize_")?;
    let (s, d) = (sparse as usize, c.dense_dim());
    if c.nnz() == 0 {
        let empty = Coo::empty(size, s, t.dtype())?;
        *t = Coo { coalesced: c.coalesced, ..empty }.build()?;
        return Ok(());
    }
    const HINT: &str = "on a non-empty sparse tensor is not supported.";
    let change = |what: &str, from: usize, to: i64| {
        Error::runtime(format!("changing the number of {what} dimensions (from {from} to {to}) {HINT}"))
    };
    if s != c.sparse_dim() {
        return Err(change("sparse", c.sparse_dim(), sparse));
    }
    if dense as usize != d {
        return Err(change("dense", d, dense));
    }
    let shrinks = |old: &[i64], new: &[i64]| old.iter().zip(new).any(|(o, n)| n < o);
    for (what, old, new) in [("sparse", c.sparse_sizes(), &size[..s]), ("dense", c.dense_sizes(), &size[s..])]
    {
        ensure!(
            !shrinks(old, new),
            Runtime,
            "shrinking the size of {what} dimensions (from {} to {}) {HINT}",
            fmt_sizes(old),
            fmt_sizes(new)
        );
    }
    let mut values = c.values.clone();
    for (k, (old, new)) in c.dense_sizes().iter().zip(&size[s..]).enumerate() {
        if old != new {
            let mut more = values.sizes().to_vec();
            more[k + 1] = new - old;
            let zeros = Tensor::zeros_raw(&more, values.dtype(), values.device())?;
            values = ops::cat(&[values, zeros], k as i64 + 1)?;
        }
    }
    *t = Coo { sizes: size.to_vec(), values, ..c }.build()?;
    Ok(())
}
/// Gives a COO tensor other sizes and specifies nothing.
pub(crate) fn resize_and_clear(t: &mut Tensor, size: &[i64], sparse: i64, dense: i64) -> Result<()> {
    check(t, size, sparse, dense, "sparse_resize_and_clear_")?;
    *t = Coo::empty(size, sparse as usize, t.dtype())?.build()?;
    Ok(())
}

/// Methods that give the handle's tensor other sizes.
///
/// ```
/// use torch::prelude::*;
/// let mut x = torch::eye(2).to_sparse();
/// x.sparse_resize_([3, 4], 2, 0);
/// assert_eq!((x.sizes(), x.values().sizes()), (&[3, 4][..], &[2][..]));
/// ```
pub trait TensorSparseResizeExt {
    /// Other sizes for a COO tensor: larger ones, or any if nothing is specified.
    #[doc(alias = "torch.Tensor.sparse_resize_")]
    #[track_caller]
    fn sparse_resize_(&mut self, size: impl IntoDims, sparse_dim: i64, dense_dim: i64) -> &mut Self;
    /// Other sizes for a COO tensor, of which nothing stays specified.
    #[doc(alias = "torch.Tensor.sparse_resize_and_clear_")]
    #[track_caller]
    fn sparse_resize_and_clear_(&mut self, size: impl IntoDims, sparse_dim: i64, dense_dim: i64)
    -> &mut Self;
}
impl TensorSparseResizeExt for Tensor {
    #[track_caller]
    fn sparse_resize_(&mut self, size: impl IntoDims, sparse_dim: i64, dense_dim: i64) -> &mut Self {
        expect(resize(self, &size.into_dims(), sparse_dim, dense_dim));
        self
    }
    #[track_caller]
    fn sparse_resize_and_clear_(
        &mut self,
        size: impl IntoDims,
        sparse_dim: i64,
        dense_dim: i64,
    ) -> &mut Self {
        expect(resize_and_clear(self, &size.into_dims(), sparse_dim, dense_dim));
        self
    }
}
