//! Padding.

use crate::ops;
use flambeau_core::{Result, Scalar, Tensor};

/// Constant padding: what was added is cropped, what was cropped is zero.
pub fn constant_pad_grad(grad: &Tensor, pad: &[i64]) -> Result<Tensor> {
    let back: Vec<i64> = pad.iter().map(|p| -p).collect();
    ops::constant_pad_nd(grad, &back, Scalar::Int(0))
}
