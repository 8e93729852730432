//! Fake quantization whose parameters are learned.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Result, Scalar, Tensor, ensure, ops};

fn one_element(t: &Tensor, what: &str) -> Result<f32> {
    ensure!(t.numel() == 1, Runtime, "{what} must have one element, not {}", t.numel());
    t.alias_detached().try_item()
}
/// `_fake_quantize_learnable_per_tensor_affine`
pub fn _fake_quantize_learnable_per_tensor_affine(
    self_: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    quant_min: i64,
    quant_max: i64,
    _: f64,
) -> Result<Tensor> {
    ensure!(quant_min <= quant_max, Runtime, "`quant_min` should be less than or equal to `quant_max`.");
    let (scale, zero) = (one_element(scale, "scale")?, one_element(zero_point, "zero_point")?);
    let zero = zero.round_ties_even().clamp(quant_min as f32, quant_max as f32) as i64;
    ops::fake_quantize_per_tensor_affine(
        &self_.alias_detached(),
        f64::from(scale),
        zero,
        quant_min,
        quant_max,
    )
}
/// `_fake_quantize_learnable_per_channel_affine`
pub fn _fake_quantize_learnable_per_channel_affine(
    self_: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    axis: i64,
    quant_min: i64,
    quant_max: i64,
    _: f64,
) -> Result<Tensor> {
    ensure!(quant_min <= quant_max, Runtime, "`quant_min` should be less than or equal to `quant_max`.");
    let bound = |v: i64| Some(Scalar::Float(v as f64));
    let whole = ops::round(&zero_point.alias_detached())?;
    let zero = crate::tensor::cast(&ops::clamp(&whole, bound(quant_min), bound(quant_max))?, DType::I32)?;
    let (x, scale) = (self_.alias_detached(), scale.alias_detached());
    ops::fake_quantize_per_channel_affine(&x, &scale, &zero, axis, quant_min, quant_max)
}
