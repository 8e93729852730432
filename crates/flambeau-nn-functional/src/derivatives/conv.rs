//! Convolutions: the gradients of the three bilinear operators, each by the others.

use crate::ops;
use flambeau_autograd::shorthand::{add, conj, sum_dims};
use flambeau_core::{Result, Tensor, ops as core};

const NONE: [i64; 3] = [0; 3];

/// Plain convolution without bias.
pub fn conv(
    x: &Tensor,
    w: &Tensor,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    groups: i64,
) -> Result<Tensor> {
    ops::convolution(x, w, None, stride, padding, dilation, false, &NONE[..stride.len()], groups)
}
/// The weight gradient's own gradient for the input.
pub fn input_grad(
    grad: &Tensor,
    w: &Tensor,
    sizes: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    groups: i64,
) -> Result<Tensor> {
    ops::convolution_input_grad(&conj(grad)?, w, sizes, stride, padding, dilation, groups)
}
/// The input gradient's own gradient for the weight.
pub fn weight_grad(
    grad: &Tensor,
    x: &Tensor,
    sizes: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    groups: i64,
) -> Result<Tensor> {
    ops::convolution_weight_grad(&conj(grad)?, x, sizes, stride, padding, dilation, groups)
}

/// One entry per spatial dimension.
fn full(v: &[i64], sizes: &[i64]) -> Vec<i64> {
    if v.len() == 1 { vec![v[0]; sizes.len() - 2] } else { v.to_vec() }
}

/// `convolution`: for the input.
pub fn conv_input_grad(
    grad: &Tensor,
    w: &Tensor,
    sizes: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    groups: i64,
) -> Result<Tensor> {
    let (stride, padding, dilation) = (full(stride, sizes), full(padding, sizes), full(dilation, sizes));
    if !transposed {
        return ops::convolution_input_grad(grad, &conj(w)?, sizes, &stride, &padding, &dilation, groups);
    }
    let mut g = conv(grad, &conj(w)?, &stride, &padding, &dilation, groups)?;
    // an output padding beyond the stride gives positions that no input stands for
    for d in 2..sizes.len() {
        if g.sizes()[d] > sizes[d] {
            g = core::slice(&g, d as i64, Some(0), Some(sizes[d]), 1)?;
        }
    }
    Ok(g)
}
/// `convolution`: for the weight.
pub fn conv_weight_grad(
    grad: &Tensor,
    x: &Tensor,
    sizes: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    groups: i64,
) -> Result<Tensor> {
    let (stride, padding, dilation) = (full(stride, sizes), full(padding, sizes), full(dilation, sizes));
    if !transposed {
        return ops::convolution_weight_grad(grad, &conj(x)?, sizes, &stride, &padding, &dilation, groups);
    }
    // an output padding beyond the stride reaches into the padding on the right, or beyond all weights: then the result is
    // cut and padded to what the weights meet
    let mut around = Vec::new();
    let mut beyond = false;
    for d in (2..sizes.len()).rev() {
        let (s, p) = (stride[d - 2], padding[d - 2]);
        let reach = dilation[d - 2] * (sizes[d] - 1) + 1;
        let met = (x.sizes()[d] - 1) * s + reach;
        beyond |= grad.sizes()[d] + 2 * p > met + s - 1;
        around.extend([p, met - p - grad.sizes()[d]]);
    }
    if !beyond {
        return ops::convolution_weight_grad(&conj(x)?, grad, sizes, &stride, &padding, &dilation, groups);
    }
    let g = ops::constant_pad_nd(grad, &around, flambeau_core::Scalar::Int(0))?;
    ops::convolution_weight_grad(&conj(x)?, &g, sizes, &stride, &NONE[..stride.len()], &dilation, groups)
}
/// `convolution`: for the bias.
pub fn conv_bias_grad(grad: &Tensor) -> Result<Tensor> {
    let dims: Vec<i64> = (0..grad.dim() as i64).filter(|d| *d != 1).collect();
    sum_dims(grad, &dims, false)
}

/// `convolution`, forward mode: linear in each of its three tensors.
pub fn conv_jvp(
    x: &Tensor,
    x_t: &Tensor,
    w: &Tensor,
    w_t: &Tensor,
    bias_t: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
) -> Result<Tensor> {
    let run = |x: &Tensor, w: &Tensor, b: Option<&Tensor>| {
        ops::convolution(x, w, b, stride, padding, dilation, transposed, output_padding, groups)
    };
    add(&run(x_t, w, bias_t)?, &run(x, w_t, None)?)
}
