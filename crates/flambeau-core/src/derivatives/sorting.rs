//! Sorting and top-k.

pub use super::scan::take_along_jvp;
use crate::derivatives::shorthand::zeros;
use crate::{Result, Tensor, ops};

/// The gradient of elements taken along a dimension, each at most once: put back where they came from.
pub fn gather_backward(grad: &Tensor, sizes: &[i64], dim: i64, indices: &Tensor) -> Result<Tensor> {
    if sizes.is_empty() {
        return Ok(grad.clone());
    }
    ops::scatter_add(&zeros(sizes, grad)?, dim, indices, grad)
}
