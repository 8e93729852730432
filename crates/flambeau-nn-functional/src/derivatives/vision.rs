//! Blocks of images.

use crate::ops;
use flambeau_core::{Result, Tensor};

/// `im2col`
pub fn im2col_grad(
    grad: &Tensor,
    sizes: &[i64],
    kernel_size: &[i64],
    dilation: &[i64],
    padding: &[i64],
    stride: &[i64],
) -> Result<Tensor> {
    let hw = &sizes[sizes.len() - 2..];
    ops::col2im(grad, hw, kernel_size, dilation, padding, stride)
}
