//! Of what sparse tensors are made of.

use crate::ops;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::sparse::Parts;
use flambeau_core::{Error, Layout, Result, Tensor};

/// The gradient as it is.
pub fn same(grad: &Tensor) -> Result<Tensor> {
    Ok(grad.clone())
}
/// Of the elements at places: what came back, at these places.
pub fn elements_at_grad(grad: &Tensor, indices: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    ops::sparse_coo_tensor_unsafe(indices, grad, sizes, None)
}
/// Of a compressed tensor for its values.
pub fn compressed_values_grad(
    grad: &Tensor,
    compressed: &Tensor,
    plain: &Tensor,
    values: &Tensor,
    size: &[i64],
    layout: Layout,
) -> Result<Tensor> {
    let like =
        ops::sparse_compressed_tensor_unsafe(compressed, plain, &values.alias_detached(), size, layout)?;
    ops::values(&ops::sparse_mask(
        &if grad.layout() == Layout::Strided { grad.clone() } else { ops::to_dense(grad, None, None)? },
        &like,
    )?)
}
/// Of the values for their tensor: the same indices with the gradient as values.
pub fn values_grad(grad: &Tensor, t: &Tensor) -> Result<Tensor> {
    match t.sparse_parts() {
        Some(Parts::Coo { indices, coalesced, .. }) => {
            ops::sparse_coo_tensor_unsafe(&indices, grad, t.sizes(), Some(coalesced))
        }
        Some(Parts::Compressed { compressed, plain, .. }) => {
            ops::sparse_compressed_tensor_unsafe(&compressed, &plain, grad, t.sizes(), t.layout())
        }
        None => Err(Error::runtime("values of a dense tensor")),
    }
}
