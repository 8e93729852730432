//! What sparse tensors are made of.

use crate::coo::{Coo, flatten, gather, layout_name, take};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::sparse::Parts;
use flambeau_core::{DType, Device, Error, Layout, Result, Tensor, bail, ensure};

/// `_sparse_coo_tensor_unsafe`
pub fn sparse_coo_tensor_unsafe(
    indices: &Tensor,
    values: &Tensor,
    size: &[i64],
    is_coalesced: Option<bool>,
) -> Result<Tensor> {
    let parts = Parts::Coo {
        indices: indices.clone(),
        values: values.alias_detached(),
        coalesced: is_coalesced.unwrap_or(false),
    };
    Tensor::from_sparse_parts(size, Layout::SparseCoo, parts)
}
/// `_sparse_compressed_tensor_unsafe`
pub fn sparse_compressed_tensor_unsafe(
    compressed_indices: &Tensor,
    plain_indices: &Tensor,
    values: &Tensor,
    size: &[i64],
    layout: Layout,
) -> Result<Tensor> {
    let parts = Parts::Compressed {
        compressed: compressed_indices.clone(),
        plain: plain_indices.clone(),
        values: values.alias_detached(),
    };
    Tensor::from_sparse_parts(size, layout, parts)
}

/// `_elements_at`
pub fn elements_at(self_: &Tensor, indices: &Tensor) -> Result<Tensor> {
    ensure!(
        indices.dim() == 2 && indices.dtype() == DType::I64 && indices.sizes()[0] as usize <= self_.dim(),
        Shape,
        "indices must be sparse_dim x nnz, of int64"
    );
    let s = indices.sizes()[0] as usize;
    let at = |values: Tensor| Coo {
        sizes: self_.sizes().to_vec(),
        indices: indices.clone(),
        values,
        coalesced: false,
    };
    if self_.layout() == Layout::Strided {
        return gather(self_, &at(Tensor::empty_raw(&[0], self_.dtype(), Device::Cpu)?));
    }
    let coo = if self_.is_sparse() { self_.clone() } else { crate::compressed::to_coo(self_)? };
    let c = Coo::of(&coo, "elements_at")?.coalesce()?;
    ensure!(
        c.sparse_dim() == s,
        Runtime,
        "elements of a tensor with {} sparse dimensions at {s} indices",
        c.sparse_dim()
    );
    let places: std::collections::HashMap<i64, i64> = c.flat()?.into_iter().zip(0..).collect();
    let wanted = flatten(indices, c.sparse_sizes())?;
    let found: Vec<i64> = wanted.iter().map(|f| places.get(f).copied().unwrap_or(c.nnz())).collect();
    take(&crate::kernels::arith::with_zero_row(&c.values)?, 0, &found)
}

fn no_kernel(name: &str) -> Error {
    Error::unsupported(format!("Could not run 'aten::{name}' with arguments from the 'CPU' backend."))
}
/// `_indices`
pub fn indices_unchecked(self_: &Tensor) -> Result<Tensor> {
    match self_.sparse_parts() {
        Some(Parts::Coo { indices, .. }) => Ok(indices.alias_detached()),
        _ => Err(no_kernel("_indices")),
    }
}
/// `_values`
pub fn values_unchecked(self_: &Tensor) -> Result<Tensor> {
    match self_.sparse_parts() {
        Some(Parts::Coo { values, .. }) => Ok(values.alias_detached()),
        _ => Err(no_kernel("_values")),
    }
}
fn coalesced(t: &Tensor, what: &str) -> Result<Coo> {
    let c = Coo::of(t, what)?;
    ensure!(
        c.coalesced,
        Runtime,
        "Cannot get {what} on an uncoalesced tensor, please call .coalesce() first"
    );
    Ok(c)
}
/// `indices`
pub fn indices(self_: &Tensor) -> Result<Tensor> {
    Ok(coalesced(self_, "indices")?.indices.alias_detached())
}
/// `values`
pub fn values(self_: &Tensor) -> Result<Tensor> {
    match self_.sparse_parts() {
        None => {
            bail!(Runtime, "values expected sparse tensor layout but got {}", layout_name(self_.layout()))
        }
        Some(Parts::Compressed { values, .. }) => Ok(values.alias_detached()),
        Some(_) => Ok(coalesced(self_, "values")?.values.alias_detached()),
    }
}
fn compressed(t: &Tensor, name: &str, layouts: [Layout; 2], which: &str) -> Result<(Tensor, Tensor)> {
    match t.sparse_parts() {
        Some(Parts::Compressed { compressed, plain, .. }) if layouts.contains(&t.layout()) => {
            Ok((compressed, plain))
        }
        _ => Err(Error::runtime(format!(
            "{name} expected sparse {which} compressed tensor layout but got {}",
            layout_name(t.layout())
        ))),
    }
}
const ROWS: [Layout; 2] = [Layout::SparseCsr, Layout::SparseBsr];
const COLUMNS: [Layout; 2] = [Layout::SparseCsc, Layout::SparseBsc];
/// `crow_indices`
pub fn crow_indices(self_: &Tensor) -> Result<Tensor> {
    Ok(compressed(self_, "crow_indices", ROWS, "row")?.0.alias_detached())
}
/// `col_indices`
pub fn col_indices(self_: &Tensor) -> Result<Tensor> {
    Ok(compressed(self_, "col_indices", ROWS, "row")?.1.alias_detached())
}
/// `ccol_indices`
pub fn ccol_indices(self_: &Tensor) -> Result<Tensor> {
    Ok(compressed(self_, "ccol_indices", COLUMNS, "column")?.0.alias_detached())
}
/// `row_indices`
pub fn row_indices(self_: &Tensor) -> Result<Tensor> {
    Ok(compressed(self_, "row_indices", COLUMNS, "column")?.1.alias_detached())
}
/// `_nnz`
pub fn nnz(self_: &Tensor) -> Result<i64> {
    self_.sparse_parts().map(|p| p.nnz()).ok_or_else(|| no_kernel("_nnz"))
}
/// `is_coalesced`
pub fn is_coalesced(self_: &Tensor) -> Result<bool> {
    Ok(Coo::of(self_, "is_coalesced")?.coalesced)
}
/// `sparse_dim`
pub fn sparse_dim(self_: &Tensor) -> Result<i64> {
    Ok(match self_.sparse_parts() {
        None => 0,
        Some(Parts::Coo { indices, .. }) => indices.sizes()[0],
        Some(Parts::Compressed { .. }) => 2,
    })
}
/// `dense_dim`
pub fn dense_dim(self_: &Tensor) -> Result<i64> {
    Ok(match self_.sparse_parts() {
        None => self_.dim() as i64,
        Some(Parts::Coo { values, .. }) => values.dim() as i64 - 1,
        Some(Parts::Compressed { plain, .. }) => self_.dim() as i64 - 1 - plain.dim() as i64,
    })
}
/// `_coalesce`
pub fn coalesced_copy(self_: &Tensor) -> Result<Tensor> {
    Coo::of(self_, "coalesce")?.coalesce()?.build()
}
/// `coalesce`
pub fn coalesce(self_: &Tensor) -> Result<Tensor> {
    if Coo::of(self_, "coalesce")?.coalesced { Ok(self_.clone()) } else { super::coalesced_copy(self_) }
}
