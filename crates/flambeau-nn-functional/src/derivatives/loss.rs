//! Losses over classes.

use crate::derivatives::composed;
use crate::ops;
use flambeau_autograd::node::is_recording;
use flambeau_core::{Result, Tensor};

/// The gradient of the gradient of negative log likelihood, which is linear.
pub fn nll_double_backward(
    grad: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
) -> Result<Tensor> {
    ops::fused_nll_loss(grad, target, weight, reduction, ignore_index).map(|r| r.0)
}

/// `_cross_entropy`
pub fn cross_entropy_grad(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    label_smoothing: f64,
    lse: &Tensor,
    total_weight: &Tensor,
) -> Result<Tensor> {
    if is_recording() {
        let [g] = composed::gradients(grad, [Some(x)], &[true], |[x]| {
            composed::cross_entropy(x, target, weight, reduction, ignore_index, label_smoothing)
        })?;
        if let Some(g) = g {
            return Ok(g);
        }
    }
    ops::fused_cross_entropy_backward(
        grad,
        x,
        target,
        weight,
        reduction,
        ignore_index,
        label_smoothing,
        lse,
        total_weight,
    )
}
