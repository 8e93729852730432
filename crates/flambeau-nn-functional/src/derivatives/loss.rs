//! Losses over classes.

use crate::derivatives::unfused::gradients;
use crate::ops;
use flambeau_autograd::is_differentiated;
use flambeau_autograd::shorthand::{
    add, div_scalar, eq, masked_not, mul, mul_scalar, neg, number, reshape, sum_all, sum_dims,
};
use flambeau_core::{Error, Result, Tensor, ops as core};

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
    if is_differentiated() {
        let [g] = gradients(grad, [Some(x)], &[true], |[x]| {
            cross_entropy_written_out(x, target, weight, reduction, ignore_index, label_smoothing)
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

/// Cross-entropy with class indices, by differentiable operators.
fn cross_entropy_written_out(
    x: Option<&Tensor>,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    smoothing: f64,
) -> Result<Tensor> {
    let x = x.ok_or_else(|| Error::runtime("cross_entropy: the input is missing"))?;
    let dim = usize::from(x.dim() > 1);
    let logp = core::log_softmax(x, dim as i64, None)?;
    let (nll, total) = ops::fused_nll_loss(&logp, target, weight, reduction, ignore_index)?;
    if smoothing == 0.0 {
        return Ok(nll);
    }
    // the smoothed part spreads over all classes; ignored targets count for nothing
    let c = x.sizes()[dim];
    let mut shape = vec![1; x.dim()];
    shape[dim] = c;
    let spread = match weight {
        Some(w) => mul(&logp, &reshape(w, &shape)?)?,
        None => logp,
    };
    let each = neg(&sum_dims(&spread, &[dim as i64], false)?)?;
    let each = masked_not(&eq(target, &number(ignore_index)?)?, &each)?;
    let each = match reduction {
        crate::ops::loss::NONE => each,
        crate::ops::loss::SUM => sum_all(&each)?,
        _ => div_scalar(&sum_all(&each)?, total.try_item::<f64>()?)?,
    };
    add(&mul_scalar(&nll, 1.0 - smoothing)?, &mul_scalar(&each, smoothing / c as f64)?)
}
