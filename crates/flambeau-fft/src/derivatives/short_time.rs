//! Frames.

use flambeau_core::{Result, Tensor, ops as core};

/// `_overlap_add`: each frame gets the gradient of where it was added.
pub fn frames_of(grad: &Tensor, sizes: &[i64], step: i64) -> Result<Tensor> {
    core::unfold(grad, -1, sizes[sizes.len() - 1], step)
}
