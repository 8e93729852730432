//! Of conversions between layouts.

use crate::ops;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Layout, Result, Tensor};

fn dense(t: &Tensor) -> Result<Tensor> {
    if t.layout() == Layout::Strided { Ok(t.clone()) } else { ops::to_dense(t, None, None) }
}
/// Of `to_dense`: the places of the sparse tensor, or all.
pub fn to_dense_grad(grad: &Tensor, t: &Tensor, masked: Option<bool>) -> Result<Tensor> {
    if t.layout() == Layout::Strided {
        return Ok(grad.clone());
    }
    if masked.unwrap_or(true) {
        let mask = t.alias_detached();
        let mask = if mask.is_sparse() { ops::coalesce(&mask)? } else { mask };
        return ops::sparse_mask(grad, &mask);
    }
    if t.is_sparse() { ops::to_sparse_dim(&dense(grad)?, ops::sparse_dim(t)?) } else { to_layout_of(grad, t) }
}
/// The gradient in the layout of the tensor.
pub fn to_layout_of(grad: &Tensor, t: &Tensor) -> Result<Tensor> {
    match t.layout() {
        l if l == grad.layout() => Ok(grad.clone()),
        Layout::Strided => dense(grad),
        l => ops::to_sparse(&dense(grad)?, Some(l), None, None),
    }
}
/// Of `sparse_mask`.
pub fn sparse_mask_grad(grad: &Tensor, t: &Tensor, mask: &Tensor) -> Result<Tensor> {
    if t.layout() == Layout::Strided {
        // only the places of the mask were read, and the gradient may be dense
        return dense(&ops::sparse_mask(grad, &mask.alias_detached())?);
    }
    ops::sparse_mask(grad, &ops::coalesce(&t.alias_detached())?)
}
