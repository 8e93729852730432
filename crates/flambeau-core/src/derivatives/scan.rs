//! Running sums, products and extremes.

use super::reduction::reverse_cumsum;
use crate::derivatives::shorthand::{conj, div, exp, mul, neg, sub, zeros};
use crate::tensor::geometry::wrap_dim;
use crate::types::type_info::finfo;
use crate::{Result, Scalar, Tensor, ops};

/// `cumsum`
pub fn cumsum_backward(grad: &Tensor, dim: i64) -> Result<Tensor> {
    reverse_cumsum(grad, dim)
}

/// `cumprod`: `sum_{j >= i} g_j prod_{k <= j, k != i} x_k`.
pub fn cumprod_backward(grad: &Tensor, self_: &Tensor, dim: i64, result: &Tensor) -> Result<Tensor> {
    if self_.dim() == 0 || self_.numel() <= 1 {
        return Ok(grad.clone());
    }
    let d = wrap_dim(dim, self_.dim())? as i64;
    let zero = crate::derivatives::shorthand::number(0)?;
    let zeros_at = ops::eq(&ops::detach(self_)?, &zero)?;
    if !ops::any(&zeros_at)?.try_item::<bool>()? {
        let weighted = mul(grad, &conj(result)?)?;
        return div(&reverse_cumsum(&weighted, d)?, &conj(self_)?);
    }
    // with zeros: for each i the running product with element i replaced by 1, and nothing before i
    let n = self_.sizes()[d as usize];
    let mut parts = Vec::with_capacity(n as usize);
    for i in 0..n {
        let tail_len = n - i - 1;
        let before = if i == 0 {
            ops::ones_like(&ops::narrow(self_, d, 0, 1)?, None, None, None, None, None)?
        } else {
            ops::prod_dim(&ops::narrow(self_, d, 0, i)?, d, true, None)?
        };
        let products = if tail_len == 0 {
            before
        } else {
            let tail = ops::cumprod(&ops::narrow(self_, d, i + 1, tail_len)?, d, None)?;
            let one = ops::ones_like(&before, None, None, None, None, None)?;
            mul(&before, &ops::cat(&[one, tail], d)?)?
        };
        let g = ops::narrow(grad, d, i, n - i)?;
        parts.push(ops::sum(&mul(&g, &conj(&products)?)?, Some(&[d]), true, None)?);
    }
    ops::cat(&parts, d)
}

/// `cummax`, `cummin`: every result's gradient goes to the element that it was taken from.
pub fn cumulative_select_backward(
    grad: &Tensor,
    sizes: &[i64],
    dim: i64,
    indices: &Tensor,
) -> Result<Tensor> {
    if sizes.is_empty() {
        return Ok(grad.clone());
    }
    ops::scatter_add(&zeros(sizes, grad)?, dim, indices, grad)
}
/// The tangent of an operator that takes elements along a dimension.
pub fn take_along_jvp(tangent: &Tensor, dim: i64, indices: &Tensor) -> Result<Tensor> {
    if tangent.dim() == 0 {
        return Ok(tangent.clone());
    }
    ops::gather(tangent, dim, indices, false)
}

/// `logcumsumexp`: in logarithms, apart for positive and negative gradients, so that nothing overflows.
pub fn logcumsumexp_backward(grad: &Tensor, self_: &Tensor, result: &Tensor, dim: i64) -> Result<Tensor> {
    if grad.dim() == 0 || grad.numel() == 0 {
        return Ok(grad.clone());
    }
    let reverse = |x: &Tensor| -> Result<Tensor> {
        ops::flip(&ops::logcumsumexp(&ops::flip(x, &[dim])?, dim)?, &[dim])
    };
    if grad.is_complex() {
        let log_grad = ops::log(grad)?;
        let s = reverse(&sub(&log_grad, &conj(result)?)?)?;
        return exp(&crate::derivatives::shorthand::add(&s, &conj(self_)?)?);
    }
    let g = ops::detach(grad)?;
    let zero = crate::derivatives::shorthand::number(0)?;
    // not -inf: its difference to itself is NaN in the gradient's own gradient
    let floor = Scalar::Float(finfo(grad.dtype())?.min);
    let part = |mask: &Tensor, magnitude: &Tensor| -> Result<Tensor> {
        let log = ops::log(magnitude)?;
        let none = ops::full_like(&log, floor, None, None, None, None, None)?;
        let log = ops::where_(mask, &log, &none)?;
        let s = reverse(&sub(&log, result)?)?;
        exp(&crate::derivatives::shorthand::add(&s, self_)?)
    };
    let pos = part(&ops::gt(&g, &zero)?, grad)?;
    let neg_part = part(&ops::lt(&g, &zero)?, &neg(grad)?)?;
    let out = sub(&pos, &neg_part)?;
    Ok(out)
}
