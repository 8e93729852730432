//! Elementwise operators.

use crate::formula::{masked, masked_not};
use flambeau_core::{Result, Tensor};

/// The part of `where`'s gradient that goes to the branch taken where the condition is `on`.
pub fn where_grad(grad: &Tensor, condition: &Tensor, on: bool) -> Result<Tensor> {
    if on { masked(condition, grad) } else { masked_not(condition, grad) }
}
