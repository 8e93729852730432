//! Reductions.

use crate::formula::{eq, expand, masked, unreduce, unsqueeze};
use flambeau_core::geometry::{SizeVec, wrap_dim};
use flambeau_core::{Result, Tensor};

/// `sum`
pub fn sum_backward(grad: &Tensor, sizes: &[i64], dim: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    expand(&unreduce(grad, sizes, dim, keepdim)?, sizes)
}

/// Reductions that pick one element per row (`max`, `min`, `median` ...): the gradient goes to the one picked.
pub fn value_selecting_backward(
    grad: &Tensor,
    dim: i64,
    indices: &Tensor,
    sizes: &[i64],
    keepdim: bool,
) -> Result<Tensor> {
    if sizes.is_empty() {
        return Ok(grad.clone());
    }
    let d = wrap_dim(dim, sizes.len())?;
    let (grad, indices) = if keepdim {
        (grad.clone(), indices.clone())
    } else {
        (unsqueeze(grad, d as i64)?, unsqueeze(indices, d as i64)?)
    };
    let mut shape = SizeVec::from_elem(1, sizes.len());
    shape[d] = sizes[d];
    let places = Tensor::from_vec_raw((0..sizes[d]).collect::<Vec<i64>>(), &shape)?;
    masked(&eq(&indices, &places)?, &grad)
}
