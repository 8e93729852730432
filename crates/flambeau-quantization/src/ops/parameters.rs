//! What the integers of a tensor stand for: scale, zero point, scheme.

use super::conversion::backend;
use crate::tensor::{could_not_run, expected};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::quantized::{QScheme, Quantizer};
use flambeau_core::{Result, Tensor};
use std::sync::Arc;

fn rule(t: &Tensor, name: &str) -> Result<Arc<Quantizer>> {
    t.quantizer().ok_or_else(|| could_not_run(name, backend(t)))
}
fn one(t: &Tensor, name: &str) -> Result<(f64, i64)> {
    match &*rule(t, name)? {
        Quantizer::PerTensor { scale, zero_point } => Ok((*scale, *zero_point)),
        Quantizer::PerChannel { .. } => Err(expected("quantizer->qscheme() == kPerTensorAffine")),
    }
}
fn many(t: &Tensor, name: &str) -> Result<(Tensor, Tensor, i64)> {
    match &*rule(t, name)? {
        Quantizer::PerChannel { scales, zero_points, axis } => {
            Ok((scales.clone(), zero_points.clone(), *axis))
        }
        Quantizer::PerTensor { .. } => Err(expected(
            "quantizer->qscheme() == kPerChannelAffine || quantizer->qscheme() == kPerChannelAffineFloatQParams",
        )),
    }
}
/// `torch.Tensor.q_scale`
pub fn q_scale(self_: &Tensor) -> Result<f64> {
    Ok(one(self_, "q_scale")?.0)
}
/// `torch.Tensor.q_zero_point`
pub fn q_zero_point(self_: &Tensor) -> Result<i64> {
    Ok(one(self_, "q_zero_point")?.1)
}
/// `torch.Tensor.q_per_channel_scales`
pub fn q_per_channel_scales(self_: &Tensor) -> Result<Tensor> {
    Ok(many(self_, "q_per_channel_scales")?.0)
}
/// `torch.Tensor.q_per_channel_zero_points`
pub fn q_per_channel_zero_points(self_: &Tensor) -> Result<Tensor> {
    Ok(many(self_, "q_per_channel_zero_points")?.1)
}
/// `torch.Tensor.q_per_channel_axis`
pub fn q_per_channel_axis(self_: &Tensor) -> Result<i64> {
    Ok(many(self_, "q_per_channel_axis")?.2)
}
/// `torch.Tensor.qscheme`
///
/// # Errors
/// Tensors that are not quantized.
pub fn qscheme(t: &Tensor) -> Result<QScheme> {
    Ok(rule(t, "qscheme")?.scheme())
}
