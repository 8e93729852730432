//! Composites with a gradient of their own.

use crate::shorthand::zeros_like;
use flambeau_core::{MemoryFormat, Result, Tensor, ops};

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
