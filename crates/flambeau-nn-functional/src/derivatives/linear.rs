//! Linear layers: the gradients are linear layers with the roles exchanged.

use crate::ops;
use flambeau_autograd::shorthand::{add, conj, mul, reshape, transpose, unsqueeze};
use flambeau_core::{Result, Tensor};

/// For the input: `grad @ weight`.
pub fn linear_input_grad(grad: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let w = conj(weight)?;
    if w.dim() == 1 {
        return mul(&unsqueeze(grad, -1)?, &w);
    }
    ops::linear(grad, &transpose(&w, 0, 1)?, None)
}
fn rows(t: &Tensor, last: i64) -> Result<Tensor> {
    let lead = if last == 0 { t.sizes()[..t.dim() - 1].iter().product() } else { t.numel() / last };
    reshape(t, &[lead, last])
}
/// For the weight: `grad.T @ input`.
pub fn linear_weight_grad(grad: &Tensor, input: &Tensor, weight_sizes: &[i64]) -> Result<Tensor> {
    let x = conj(input)?;
    let x = rows(&x, *weight_sizes.last().unwrap_or(&1))?;
    if weight_sizes.len() == 1 {
        let g = reshape(grad, &[1, grad.numel()])?;
        let w = ops::linear(&g, &transpose(&x, 0, 1)?, None)?;
        return reshape(&w, weight_sizes);
    }
    let g = rows(grad, weight_sizes[0])?;
    ops::linear(&transpose(&g, 0, 1)?, &transpose(&x, 0, 1)?, None)
}
/// Forward mode.
pub fn linear_jvp(
    x: &Tensor,
    x_t: &Tensor,
    w: &Tensor,
    w_t: &Tensor,
    bias_t: Option<&Tensor>,
) -> Result<Tensor> {
    add(&ops::linear(x_t, w, bias_t)?, &ops::linear(x, w_t, None)?)
}
