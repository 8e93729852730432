//! Transforms are linear: their gradients are the transforms back.

pub use crate::ops;
use flambeau_autograd::shorthand::{mul, real};
use flambeau_core::tensor::geometry::wrap_dim;
use flambeau_core::{Result, Scalar, Tensor, ops as core};
use flambeau_nn_functional::ops::constant_pad_nd;

fn last(dim: &[i64], rank: usize) -> Result<usize> {
    wrap_dim(dim.last().copied().unwrap_or(-1), rank)
}
/// `_fft_r2c`: the half that was left out had no gradient.
pub fn r2c_backward(
    grad: &Tensor,
    dim: &[i64],
    normalization: i64,
    onesided: bool,
    sizes: &[i64],
) -> Result<Tensor> {
    let mut whole = grad.clone();
    if onesided {
        let d = last(dim, sizes.len())?;
        let mut pad = vec![0; 2 * (sizes.len() - d)];
        if let Some(p) = pad.last_mut() {
            *p = sizes[d] - grad.sizes()[d];
        }
        whole = constant_pad_nd(grad, &pad, Scalar::Int(0))?;
    }
    real(&ops::fft_c2c(&whole, dim, normalization, false)?)
}
/// `_fft_c2r`: what stands for two values, itself and its mirror image, counts twice.
pub fn c2r_backward(grad: &Tensor, dim: &[i64], normalization: i64) -> Result<Tensor> {
    let half = ops::fft_r2c(grad, dim, normalization, true)?;
    let d = last(dim, grad.dim())?;
    let twice = grad.sizes()[d] - half.sizes()[d];
    if twice <= 0 {
        return Ok(half);
    }
    let n = half.sizes()[d];
    let device = Some(grad.device());
    let counts = core::full(&[n], Scalar::Int(1), Some(grad.dtype()), None, device, None)?;
    core::fill_(&core::slice(&counts, 0, Some(1), Some(1 + twice), 1)?, Scalar::Int(2))?;
    let mut sizes = vec![1; grad.dim()];
    sizes[d] = n;
    mul(&half, &core::view(&counts, &sizes)?)
}
