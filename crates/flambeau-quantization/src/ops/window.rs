//! Windows over quantized tensors, and normalisation of them.

use crate::kernels::max_pool;
use crate::nn::functional;
use flambeau_core::{Result, Tensor};

/// `torch.quantized_max_pool1d`
pub fn quantized_max_pool1d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: Option<&[i64]>,
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<Tensor> {
    max_pool(self_, 1, (kernel_size, stride, padding, dilation), ceil_mode)
}
/// `torch.quantized_max_pool2d`
pub fn quantized_max_pool2d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: Option<&[i64]>,
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<Tensor> {
    max_pool(self_, 2, (kernel_size, stride, padding, dilation), ceil_mode)
}
/// `torch.quantized_batch_norm`
#[allow(clippy::too_many_arguments)]
pub fn quantized_batch_norm(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    mean: &Tensor,
    var: &Tensor,
    eps: f64,
    output_scale: f64,
    output_zero_point: i64,
) -> Result<Tensor> {
    functional::batch_norm(input, (weight, bias), (mean, var), eps, (output_scale, output_zero_point))
}
