//! Pooling.

use crate::ops;
use flambeau_core::{Result, Tensor};

/// Of max pooling: each gradient goes to the position that was picked.
pub fn plane_scatter(grad: &Tensor, indices: &Tensor, sizes: &[i64], spatial: usize) -> Result<Tensor> {
    ops::plane_scatter(grad, indices, sizes, spatial as i64)
}
