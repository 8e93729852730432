//! Sums, norms and tests of all elements.

use crate::coo::{Coo, Groups, cast, scatter_add, take};
use flambeau_core::generated::reduction as r;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::wrap_dims;
use flambeau_core::types::keys::Key::SparseCpu;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, ensure, ops};

pub(super) fn fill() {
    r::SUM.register(SparseCpu, sum);
    r::ANY.register(SparseCpu, |t| ops::any(&all_values(t)?));
    r::LINALG_VECTOR_NORM.register(SparseCpu, norm);
}
/// Values, each place once.
fn all_values(t: &Tensor) -> Result<Tensor> {
    if t.is_sparse() {
        return Ok(Coo::of(t, "coalesce")?.coalesce()?.values);
    }
    t.sparse_parts().map(|p| p.values().clone()).ok_or_else(|| Error::runtime("expected a sparse tensor"))
}
fn norm(t: &Tensor, p: Scalar, dim: Option<&[i64]>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    ensure!(!keepdim, Runtime, "norm_sparse currently does not support keepdim=True");
    let full = dim.is_none_or(|d| d.is_empty() || d.len() == t.dim());
    ensure!(
        full,
        Runtime,
        "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all dimensions of the input"
    );
    ops::linalg_vector_norm(&all_values(t)?, p, None, false, dtype)
}
/// `sum`: dense where no sparse dimension is left.
fn sum(t: &Tensor, dim: Option<&[i64]>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    let integral = t.dtype().is_integral(true);
    let dtype = dtype.unwrap_or(if integral { DType::I64 } else { t.dtype() });
    if !t.is_sparse() {
        return crate::compressed::sum(t, dim, keepdim, dtype);
    }
    let Some(dims) = dim.filter(|d| !d.is_empty()) else {
        let all = ops::sum(&Coo::of(t, "sum")?.values, None, false, Some(dtype))?;
        return if keepdim { ops::view(&all, &vec![1; t.dim()]) } else { Ok(all) };
    };
    let dims = wrap_dims(dims, t.dim())?;
    let mut out = sum_dims(&Coo::of(t, "sum")?, &dims, dtype)?;
    if keepdim {
        let mut sorted = dims.to_vec();
        sorted.sort_unstable();
        for d in sorted {
            out = ops::unsqueeze(&out, d as i64)?;
        }
    }
    Ok(out)
}
/// `_sparse_sum`
pub(crate) fn sum_dims(c: &Coo, dims: &[usize], dtype: DType) -> Result<Tensor> {
    let s = c.sparse_dim();
    let of_values: Vec<i64> = dims.iter().filter(|d| **d >= s).map(|d| (d - s + 1) as i64).collect();
    let mut values = cast(&c.values, dtype)?;
    if !of_values.is_empty() {
        values = ops::sum(&values, Some(&of_values), false, Some(dtype))?;
    }
    let left: Vec<i64> = (0..s).filter(|d| !dims.contains(d)).map(|d| d as i64).collect();
    if left.is_empty() {
        return ops::sum(&values, Some(&[0]), false, Some(dtype));
    }
    let sizes: Vec<i64> = (0..c.sizes.len()).filter(|d| !dims.contains(d)).map(|d| c.sizes[d]).collect();
    let indices = take(&c.indices, 0, &left)?;
    let new = Coo { sizes, indices, values, coalesced: c.coalesced && left.len() == s };
    if new.coalesced {
        return new.build();
    }
    let g = Groups::of(&new.flat()?)?;
    let values = scatter_add(g.first.len() as i64, &g.of, &new.values)?;
    Coo { indices: take(&new.indices, 1, &g.first)?, values, sizes: new.sizes, coalesced: true }.build()
}
