//! `torch.ao.nn.quantized.functional`: functions of quantized tensors.
//!
//! ```
//! use torch::ao::nn::quantized::functional as f;
//! use torch::{DType, Tensor, dequantize, quantize_per_tensor};
//!
//! let x = quantize_per_tensor(&torch::tensor([[-1.0, 0.5, 2.0, 4.0]]), 0.5, 8, DType::QU8);
//! let values = |t: Tensor| dequantize(&t).to_vec::<f32>();
//! assert_eq!(values(f::clamp(&x, 0.0, 2.0)), [0.0, 0.5, 2.0, 2.0]);
//! assert_eq!(values(f::hardtanh(&x, -0.5, 1.0)), [-0.5, 0.5, 1.0, 1.0]);
//! assert_eq!(values(f::threshold(&x, 1.0, 0.0)), [0.0, 0.0, 2.0, 4.0]);
//! assert_eq!(values(f::leaky_relu(&x, 0.5, None)), [-0.5, 0.5, 2.0, 4.0]);
//! assert_eq!(values(f::elu(&x, 0.5, 8, 1.0))[2..], [2.0, 4.0]);
//! assert_eq!(values(f::celu(&x, 0.5, 8, 1.0))[2..], [2.0, 4.0]);
//! assert_eq!(values(f::hardswish(&x, 0.5, 8))[3], 4.0);
//! assert_eq!(values(f::hardsigmoid(&x))[3], 255.0 / 256.0);
//! let image = x.reshape([1, 1, 2, 2]);
//! assert_eq!(values(f::adaptive_avg_pool2d(&image, &[1, 1])), [1.5]);
//! assert_eq!(values(f::adaptive_avg_pool3d(&image.reshape([1, 1, 1, 2, 2]), &[1, 1, 1])), [1.5]);
//! assert_eq!(values(f::avg_pool2d(&image, &[2, 2], None, &[0, 0], false, true, None)), [1.5]);
//! assert_eq!(values(f::avg_pool3d(&image, &[1, 2, 2], None, &[0, 0, 0], false, true, None)), [1.5]);
//! assert_eq!(values(f::max_pool_of(2, &image, &[2, 2], None, &[0, 0], &[1, 1], false)), [4.0]);
//! assert_eq!(f::interpolate(&image, Some(&[4, 4]), None, "nearest", None).sizes(), &[1, 1, 4, 4]);
//! let w = quantize_per_tensor(&torch::ones([1, 4]), 1.0, 0, DType::QI8);
//! assert_eq!(values(f::linear(&x, &w, None, Some(0.5), Some(0))), [5.5]);
//! ```

use super::product::{Moves, Weight, conv, linear as linear_of};
use crate::kernels::{joined, max_pool, relu as relu_of, sigmoid as sigmoid_of, through};
use crate::ops::dequantize;
use crate::tensor::{affine, mapped, rounded, uniform, whole, wrap};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Result, Scalar, Tensor, ensure, ops};
use flambeau_nn_functional::ops as nn;

/// Scale and zero point of a result.
pub type Rule = (f64, i64);

fn quantized(x: &Tensor, name: &str) -> Result<()> {
    ensure!(x.quantizer().is_some(), Value, "Input to 'quantized.{name}' must be quantized!");
    Ok(())
}
/// The input's own rule where none is given.
fn rule_or(x: &Tensor, scale: Option<f64>, zero: Option<i64>) -> Result<Rule> {
    let (s, z) = match (scale, zero) {
        (Some(s), Some(z)) => return Ok((s, z)),
        _ => affine(x)?,
    };
    Ok((scale.unwrap_or(s), zero.unwrap_or(z)))
}
/// `x W^T + b` of a quint8 input and a qint8 weight.
///
/// # Errors
/// Tensors that are not quantized, sizes that do not fit.
#[doc(alias = "torch.ao.nn.quantized.functional.linear")]
#[flambeau_macros::short]
pub fn try_linear(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    scale: Option<f64>,
    zero_point: Option<i64>,
) -> Result<Tensor> {
    let rule = rule_or(input, scale, zero_point)?;
    linear_of(input, &Weight::new(weight, 1)?, bias, rule, false)
}
/// A convolution's arguments beside its tensors; the documented defaults are those of [`ConvOptions::new`].
#[derive(Clone, Debug)]
pub struct ConvOptions {
    /// Step of the window.
    pub stride: Vec<i64>,
    /// Places added on both sides.
    pub padding: Vec<i64>,
    /// Step between taps.
    pub dilation: Vec<i64>,
    /// Groups of channels.
    pub groups: i64,
    /// Scale of the results.
    pub scale: f64,
    /// Zero point of the results.
    pub zero_point: i64,
}
impl ConvOptions {
    /// Steps of one, no padding, one group, scale 1 and zero point 0.
    pub fn new(dims: usize) -> ConvOptions {
        ConvOptions {
            stride: vec![1; dims],
            padding: vec![0; dims],
            dilation: vec![1; dims],
            groups: 1,
            scale: 1.0,
            zero_point: 0,
        }
    }
    pub(crate) fn moves(&self) -> Moves {
        Moves {
            stride: self.stride.clone(),
            padding: self.padding.clone(),
            dilation: self.dilation.clone(),
            groups: self.groups,
        }
    }
}
/// A convolution of one to three dimensions, as the options say.
///
/// # Errors
/// Tensors of other dtypes, sizes that do not fit.
#[doc(alias = "torch.ao.nn.quantized.functional.conv1d")]
#[doc(alias = "torch.ao.nn.quantized.functional.conv2d")]
#[doc(alias = "torch.ao.nn.quantized.functional.conv3d")]
#[flambeau_macros::short]
pub fn try_convolution(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    o: ConvOptions,
) -> Result<Tensor> {
    ensure!(
        input.dtype() == DType::QU8,
        Unsupported,
        "Only torch.quint8 is supported for activation tensor!"
    );
    ensure!(weight.dtype() == DType::QI8, Unsupported, "Only torch.qint8 is supported for weight tensor!");
    let w = Weight::new(weight, o.groups)?;
    conv(input, (&w, weight.sizes()), bias, &o.moves(), (o.scale, o.zero_point), false)
}
/// Averages of windows.
///
/// # Errors
/// Tensors that are not quantized, windows that do not fit.
#[allow(clippy::too_many_arguments)]
#[doc(alias = "torch.ao.nn.quantized.functional.avg_pool2d")]
#[flambeau_macros::short]
pub fn try_avg_pool2d(
    input: &Tensor,
    kernel: &[i64],
    stride: Option<&[i64]>,
    padding: &[i64],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<Tensor> {
    quantized(input, "avg_pool2d")?;
    nn::avg_pool2d(input, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
}
/// Averages of windows; the result lies channels last.
///
/// # Errors
/// Tensors that are not quantized, windows that do not fit.
#[allow(clippy::too_many_arguments)]
#[doc(alias = "torch.ao.nn.quantized.functional.avg_pool3d")]
#[flambeau_macros::short]
pub fn try_avg_pool3d(
    input: &Tensor,
    kernel: &[i64],
    stride: Option<&[i64]>,
    padding: &[i64],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<Tensor> {
    quantized(input, "avg_pool3d")?;
    nn::avg_pool3d(input, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
}
/// Averages to given sizes.
///
/// # Errors
/// Tensors that are not quantized.
#[doc(alias = "torch.ao.nn.quantized.functional.adaptive_avg_pool2d")]
#[flambeau_macros::short]
pub fn try_adaptive_avg_pool2d(input: &Tensor, size: &[i64]) -> Result<Tensor> {
    quantized(input, "functional.adaptive_avg_pool2d")?;
    nn::adaptive_avg_pool2d(input, size)
}
/// Averages to given sizes.
///
/// # Errors
/// Tensors that are not quantized.
#[doc(alias = "torch.ao.nn.quantized.functional.adaptive_avg_pool3d")]
#[flambeau_macros::short]
pub fn try_adaptive_avg_pool3d(input: &Tensor, size: &[i64]) -> Result<Tensor> {
    quantized(input, "functional.adaptive_avg_pool3d")?;
    nn::adaptive_avg_pool3d(input, size)
}
/// The greatest of each window, of one or two dimensions.
///
/// # Errors
/// Windows that do not fit.
#[allow(clippy::too_many_arguments)]
#[doc(alias = "torch.ao.nn.quantized.functional.max_pool1d")]
#[doc(alias = "torch.ao.nn.quantized.functional.max_pool2d")]
#[flambeau_macros::short]
pub fn try_max_pool_of(
    dims: usize,
    input: &Tensor,
    kernel: &[i64],
    stride: Option<&[i64]>,
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<Tensor> {
    max_pool(input, dims, (kernel, stride, padding, dilation), ceil_mode)
}
/// CELU, by a rule.
///
/// # Errors
/// Tensors that are not quantized.
#[doc(alias = "torch.ao.nn.quantized.functional.celu")]
#[flambeau_macros::short]
pub fn try_celu(input: &Tensor, scale: f64, zero_point: i64, alpha: f64) -> Result<Tensor> {
    quantized(input, "celu")?;
    through(input, (scale, zero_point), |x| nn::celu_raw(x, Scalar::Float(alpha)))
}
/// ELU, by a rule.
///
/// # Errors
/// Tensors that are not quantized.
#[doc(alias = "torch.ao.nn.quantized.functional.elu")]
#[flambeau_macros::short]
pub fn try_elu(input: &Tensor, scale: f64, zero_point: i64, alpha: f64) -> Result<Tensor> {
    quantized(input, "elu")?;
    let one = Scalar::Float(1.0);
    through(input, (scale, zero_point), |x| nn::elu_raw(x, Scalar::Float(alpha), one, one))
}
/// Leaky ReLU, by a rule or the input's own; of numbers as they are.
///
/// # Errors
/// Numbers where a rule is given.
#[doc(alias = "torch.ao.nn.quantized.functional.leaky_relu")]
#[flambeau_macros::short]
pub fn try_leaky_relu(input: &Tensor, slope: f64, rule: Option<Rule>) -> Result<Tensor> {
    let f = |x: &Tensor| nn::leaky_relu_raw(x, Scalar::Float(slope));
    match rule {
        Some(rule) => {
            let y = f(&if input.quantizer().is_some() { dequantize(input)? } else { input.clone() })?;
            wrap(&rounded(&y, DType::QU8, rule.0, rule.1)?, DType::QU8, &uniform(rule.0, rule.1))
        }
        None => f(input),
    }
}
/// Cut to a range.
///
/// # Errors
/// Tensors that are not quantized.
#[doc(alias = "torch.ao.nn.quantized.functional.hardtanh")]
#[flambeau_macros::short]
pub fn try_hardtanh(input: &Tensor, min: f64, max: f64) -> Result<Tensor> {
    quantized(input, "hardtanh")?;
    nn::hardtanh_raw(input, Scalar::Float(min), Scalar::Float(max))
}
/// Hard swish, by a rule.
///
/// # Errors
/// Tensors that are not quantized.
#[doc(alias = "torch.ao.nn.quantized.functional.hardswish")]
#[flambeau_macros::short]
pub fn try_hardswish(input: &Tensor, scale: f64, zero_point: i64) -> Result<Tensor> {
    quantized(input, "hardswish")?;
    through(input, (scale, zero_point), nn::hardswish_raw)
}
/// The value where the input is not above the threshold.
///
/// # Errors
/// Tensors that are not quantized.
#[doc(alias = "torch.ao.nn.quantized.functional.threshold")]
#[flambeau_macros::short]
pub fn try_threshold(input: &Tensor, at: f64, value: f64) -> Result<Tensor> {
    quantized(input, "threshold")?;
    nn::threshold_raw(input, Scalar::Float(at), Scalar::Float(value))
}
/// Hard sigmoid.
///
/// # Errors
/// Tensors that are not quantized.
#[doc(alias = "torch.ao.nn.quantized.functional.hardsigmoid")]
#[flambeau_macros::short]
pub fn try_hardsigmoid(input: &Tensor) -> Result<Tensor> {
    quantized(input, "hardsigmoid")?;
    nn::hardsigmoid_raw(input)
}
/// Cut to a range.
///
/// # Errors
/// Tensors that are not quantized.
#[doc(alias = "torch.ao.nn.quantized.functional.clamp")]
#[flambeau_macros::short]
pub fn try_clamp(input: &Tensor, min: f64, max: f64) -> Result<Tensor> {
    quantized(input, "clamp")?;
    ops::clamp(input, Some(Scalar::Float(min)), Some(Scalar::Float(max)))
}
/// Other sizes.
///
/// # Errors
/// Tensors that are not quantized, modes that there are none of.
#[doc(alias = "torch.ao.nn.quantized.functional.interpolate")]
#[doc(alias = "torch.ao.nn.quantized.functional.upsample")]
#[doc(alias = "torch.ao.nn.quantized.functional.upsample_bilinear")]
#[doc(alias = "torch.ao.nn.quantized.functional.upsample_nearest")]
#[flambeau_macros::short]
pub fn try_interpolate(
    input: &Tensor,
    size: Option<&[i64]>,
    scale_factor: Option<&[f64]>,
    mode: &str,
    align_corners: Option<bool>,
) -> Result<Tensor> {
    quantized(input, "interpolate")?;
    let size =
        size.map(|s| if s.len() == 1 { vec![s[0]; input.dim().saturating_sub(2)] } else { s.to_vec() });
    let factors = scale_factor
        .map(|s| if s.len() == 1 { vec![s[0]; input.dim().saturating_sub(2)] } else { s.to_vec() });
    nn::interpolate(input, size.as_deref(), factors.as_deref(), mode, align_corners, None, false)
}

// What torch.ops.quantized has beside them: operators of which modules are made.

/// The sum of two, by a rule.
pub(crate) fn add(a: &Tensor, b: &Tensor, (s, z): Rule, relu: bool) -> Result<Tensor> {
    affine(b)?;
    let y = through(a, (s, z), |x| ops::add(x, &dequantize(b)?, Scalar::Int(1)))?;
    if relu { relu_of(&y) } else { Ok(y) }
}
/// The product of two, by a rule.
pub(crate) fn mul(a: &Tensor, b: &Tensor, rule: Rule) -> Result<Tensor> {
    affine(b)?;
    through(a, rule, |x| ops::mul(x, &dequantize(b)?))
}
/// The matrix product of two, by a rule.
pub(crate) fn matmul(a: &Tensor, b: &Tensor, rule: Rule) -> Result<Tensor> {
    affine(b)?;
    through(a, rule, |x| ops::matmul(x, &dequantize(b)?))
}
/// A number more: the integers stay where the zero point can move instead.
pub(crate) fn add_scalar(a: &Tensor, v: f64) -> Result<Tensor> {
    let (s, z) = affine(a)?;
    let (low, high) = a.dtype().quantized_range().unwrap_or((0, 255));
    let moved = z.saturating_sub((v / s).round_ties_even() as i64);
    let width = (high - low) as f64;
    let rule = if moved < low {
        ((high as f64 - moved as f64) / width * s, low)
    } else if moved > high {
        ((moved as f64 - low as f64) / width * s, high)
    } else {
        return wrap(&ops::clone(&a.integers()?, None)?, a.dtype(), &uniform(s, moved));
    };
    through(a, rule, |x| ops::add(x, &crate::tensor::number(v)?, Scalar::Int(1)))
}
/// A multiple: the scale changes, and the order of the integers where the number is negative.
pub(crate) fn mul_scalar(a: &Tensor, v: f64) -> Result<Tensor> {
    let (s, z) = affine(a)?;
    let (low, high) = a.dtype().quantized_range().unwrap_or((0, 255));
    if v == 0.0 {
        let zeros = ops::zeros_like(&a.integers()?, None, None, None, None, None)?;
        return wrap(&zeros, a.dtype(), &uniform(1.0, 0));
    }
    if v > 0.0 {
        return wrap(&ops::clone(&a.integers()?, None)?, a.dtype(), &uniform(s * v, z));
    }
    let turned = mapped(a, |q| {
        let turned = ops::sub(&whole(high + low)?, &crate::tensor::cast(q, DType::I64)?, Scalar::Int(1))?;
        crate::tensor::cast(&turned, q.dtype())
    })?;
    wrap(&turned.integers()?, a.dtype(), &uniform(s * -v, high + low - z))
}
/// Tensors one after the other, by a rule.
pub(crate) fn cat(tensors: &[Tensor], dim: i64, rule: Rule) -> Result<Tensor> {
    let d = tensors.first().map_or(DType::QU8, Tensor::dtype);
    joined(tensors, dim, Some(rule), d)
}
/// Sigmoid, by a rule.
pub(crate) fn sigmoid(x: &Tensor, rule: Rule) -> Result<Tensor> {
    sigmoid_of(x)?;
    through(x, rule, ops::sigmoid)
}
/// Softmax, by a rule.
pub(crate) fn softmax(x: &Tensor, dim: i64, rule: Rule) -> Result<Tensor> {
    through(x, rule, |x| ops::softmax(x, dim, None))
}
/// Batch normalisation by given statistics, which lies channels last.
pub(crate) fn batch_norm(
    x: &Tensor,
    (weight, bias): (Option<&Tensor>, Option<&Tensor>),
    (mean, var): (&Tensor, &Tensor),
    eps: f64,
    rule: Rule,
) -> Result<Tensor> {
    let y = through(x, rule, |x| nn::batch_norm(x, Some(mean), Some(var), weight, bias, false, 0.1, eps))?;
    let format = match y.dim() {
        4 => flambeau_core::MemoryFormat::ChannelsLast,
        5 => flambeau_core::MemoryFormat::ChannelsLast3d,
        _ => return Ok(y),
    };
    mapped(&y, |q| ops::contiguous(q, format))
}
/// What lets pass what is at least zero.
pub(crate) fn relu(x: &Tensor) -> Result<Tensor> {
    if x.quantizer().is_some() { relu_of(x) } else { ops::relu(x) }
}
