//! The other layers of quantized tensors: functions of one tensor, most with a scale and a zero point for their results.

use super::functional as f;
use super::linear::{forward_of, itself};
use crate::kernels::through;
use crate::tensor::cast;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::text::{PyText as _, size_tuple};
use flambeau_core::types::order::Mutex;
use flambeau_core::{DType, Result, Scalar, Tensor};
use flambeau_nn::internal::{Copied, Memo, Run};
use flambeau_nn::{Base, Buffer, Forward, Module, Visitor, VisitorMut};
use flambeau_nn_functional::ops as nn;
use std::any::Any;
use std::borrow::Cow;

/// A layer and its arguments.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum LayerKind {
    #[doc(alias = "torch.ao.nn.quantized.ReLU6")]
    ReLU6,
    #[doc(alias = "torch.ao.nn.quantized.Hardswish")]
    Hardswish,
    #[doc(alias = "torch.ao.nn.quantized.ELU")]
    Elu { alpha: f64 },
    #[doc(alias = "torch.ao.nn.quantized.LeakyReLU")]
    LeakyReLU { slope: f64 },
    #[doc(alias = "torch.ao.nn.quantized.Sigmoid")]
    Sigmoid,
    #[doc(alias = "torch.ao.nn.quantized.Softmax")]
    Softmax { dim: i64 },
    #[doc(alias = "torch.ao.nn.quantized.Dropout")]
    Dropout { p: f64 },
    #[doc(alias = "torch.ao.nn.quantized.PReLU")]
    PReLU { weight: Tensor },
    #[doc(alias = "torch.ao.nn.quantized.LayerNorm")]
    LayerNorm { shape: Vec<i64>, weight: Option<Tensor>, bias: Option<Tensor>, eps: f64 },
    #[doc(alias = "torch.ao.nn.quantized.GroupNorm")]
    GroupNorm { groups: i64, channels: i64, weight: Option<Tensor>, bias: Option<Tensor>, eps: f64 },
    #[doc(alias = "torch.ao.nn.quantized.InstanceNorm1d")]
    #[doc(alias = "torch.ao.nn.quantized.InstanceNorm2d")]
    #[doc(alias = "torch.ao.nn.quantized.InstanceNorm3d")]
    InstanceNorm { dims: usize, channels: i64, weight: Option<Tensor>, bias: Option<Tensor>, eps: f64 },
    #[doc(alias = "torch.ao.nn.quantized.BatchNorm2d")]
    #[doc(alias = "torch.ao.nn.quantized.BatchNorm3d")]
    BatchNorm { dims: usize, weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor, eps: f64, relu: bool },
    #[doc(alias = "torch.ao.nn.quantized.Quantize")]
    Quantize { dtype: DType },
    #[doc(alias = "torch.ao.nn.quantized.DeQuantize")]
    DeQuantize,
}
/// One of them.
#[derive(Debug)]
pub struct Layer {
    base: Base,
    /// Which.
    pub kind: LayerKind,
    /// Scale and zero point of the results.
    rule: Mutex<(f64, i64)>,
}
impl Layer {
    /// With a scale and a zero point for the results, where they have one of their own.
    pub fn new(kind: LayerKind, scale: f64, zero_point: i64) -> Layer {
        let base = Base::new();
        base.register_load_state_dict_pre_hook(|m, state, prefix, _| {
            let Some(l) = m.downcast_ref::<Layer>() else { return };
            let scale = state.get(&format!("{prefix}scale")).and_then(|t| t.try_item::<f32>().ok());
            let zero = state.get(&format!("{prefix}zero_point")).and_then(|t| t.try_item::<i64>().ok());
            if let (Some(s), Some(z)) = (scale, zero) {
                l.set_rule(f64::from(s), z);
            }
        });
        let layer = Layer { base, kind, rule: Mutex::new((0.0, 0)) };
        layer.set_rule(scale, zero_point);
        layer
    }
    /// Scale and zero point of the results.
    pub fn rule(&self) -> (f64, i64) {
        *self.rule.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// Sets them. Those that stand in a state are float32 numbers.
    pub fn set_rule(&self, scale: f64, zero_point: i64) {
        let scale = if self.is_state() { f64::from(scale as f32) } else { scale };
        *self.rule.lock().unwrap_or_else(|e| e.into_inner()) = (scale, zero_point);
    }
    /// Whether scale and zero point are buffers.
    pub(crate) fn is_state(&self) -> bool {
        use LayerKind::*;
        matches!(
            self.kind,
            Hardswish
                | LeakyReLU { .. }
                | LayerNorm { .. }
                | GroupNorm { .. }
                | InstanceNorm { .. }
                | BatchNorm { .. }
                | Quantize { .. }
        )
    }
    fn compute(&self, x: &Tensor) -> Result<Tensor> {
        let rule = self.rule();
        match &self.kind {
            LayerKind::ReLU6 => nn::hardtanh_raw(x, Scalar::Float(0.0), Scalar::Float(6.0)),
            LayerKind::Hardswish => f::try_hardswish(x, rule.0, rule.1),
            LayerKind::Elu { alpha } => f::try_elu(x, rule.0, rule.1, *alpha),
            LayerKind::LeakyReLU { slope } => f::try_leaky_relu(x, *slope, Some(rule)),
            LayerKind::Sigmoid => f::sigmoid(x, rule),
            LayerKind::Softmax { dim } => f::softmax(x, *dim, rule),
            LayerKind::Dropout { .. } => Ok(x.clone()),
            LayerKind::PReLU { weight } => {
                through(x, rule, |x| nn::prelu(x, &crate::ops::dequantize(weight)?))
            }
            LayerKind::LayerNorm { shape, weight, bias, eps } => {
                through(x, rule, |x| nn::layer_norm(x, shape, weight.as_ref(), bias.as_ref(), *eps, false))
            }
            LayerKind::GroupNorm { groups, weight, bias, eps, .. } => {
                through(x, rule, |x| nn::group_norm(x, *groups, weight.as_ref(), bias.as_ref(), *eps, false))
            }
            LayerKind::InstanceNorm { weight, bias, eps, .. } => through(x, rule, |x| {
                nn::instance_norm(x, None, None, weight.as_ref(), bias.as_ref(), true, 0.1, *eps)
            }),
            LayerKind::BatchNorm { weight, bias, mean, var, eps, relu, .. } => {
                let y = f::batch_norm(x, (Some(weight), Some(bias)), (mean, var), *eps, rule)?;
                if *relu { f::relu(&y) } else { Ok(y) }
            }
            LayerKind::Quantize { dtype } => crate::ops::quantize_per_tensor(x, rule.0, rule.1, *dtype),
            LayerKind::DeQuantize => crate::ops::dequantize(x),
        }
    }
    /// A tensor of the kind by its name in a state.
    pub(crate) fn tensor(&self, name: &str) -> Option<Tensor> {
        use LayerKind::*;
        match (&self.kind, name) {
            (BatchNorm { weight, .. }, "weight") | (PReLU { weight }, "weight") => Some(weight.clone()),
            (BatchNorm { bias, .. }, "bias") => Some(bias.clone()),
            (BatchNorm { mean, .. }, "running_mean") => Some(mean.clone()),
            (BatchNorm { var, .. }, "running_var") => Some(var.clone()),
            (LayerNorm { weight, .. } | GroupNorm { weight, .. } | InstanceNorm { weight, .. }, "weight") => {
                weight.clone()
            }
            (LayerNorm { bias, .. } | GroupNorm { bias, .. } | InstanceNorm { bias, .. }, "bias") => {
                bias.clone()
            }
            _ => None,
        }
    }
    fn rule_tensors(&self) -> (Tensor, Tensor) {
        let (s, z) = self.rule();
        let sizes: &[i64] = if matches!(self.kind, LayerKind::Quantize { .. }) { &[1] } else { &[] };
        (Tensor::from_vec(vec![s as f32], sizes), Tensor::from_vec(vec![z], sizes))
    }
}
forward_of!(Layer);
fn eps_of(v: f64) -> String {
    v.py_text()
}
impl Module for Layer {
    fn type_name(&self) -> Cow<'static, str> {
        use LayerKind::*;
        Cow::Borrowed(match &self.kind {
            ReLU6 => "QuantizedReLU6",
            Hardswish => "QuantizedHardswish",
            Elu { .. } => "QuantizedELU",
            LeakyReLU { .. } => "QuantizedLeakyReLU",
            Sigmoid => "Sigmoid",
            Softmax { .. } => "QuantizedSoftmax",
            Dropout { .. } => "QuantizedDropout",
            PReLU { .. } => "QuantizedPReLU",
            LayerNorm { .. } => "QuantizedLayerNorm",
            GroupNorm { .. } => "QuantizedGroupNorm",
            InstanceNorm { dims: 1, .. } => "QuantizedInstanceNorm1d",
            InstanceNorm { dims: 2, .. } => "QuantizedInstanceNorm2d",
            InstanceNorm { .. } => "QuantizedInstanceNorm3d",
            BatchNorm { dims: 2, relu: false, .. } => "QuantizedBatchNorm2d",
            BatchNorm { relu: false, .. } => "QuantizedBatchNorm3d",
            BatchNorm { dims: 2, .. } => "QuantizedBNReLU2d",
            BatchNorm { .. } => "QuantizedBNReLU3d",
            Quantize { .. } => "Quantize",
            DeQuantize => "DeQuantize",
        })
    }
    fn extra_repr(&self) -> String {
        use LayerKind::*;
        match &self.kind {
            Elu { alpha } => format!("alpha={}", alpha.py_text()),
            LeakyReLU { slope } => format!("negative_slope={}", slope.py_text()),
            Softmax { dim } => format!("dim={dim}"),
            Dropout { p } => format!("p={}, inplace=False", p.py_text()),
            LayerNorm { shape, eps, .. } => {
                format!("{}, eps={}, elementwise_affine=True, bias=True", size_tuple(shape), eps_of(*eps))
            }
            GroupNorm { groups, channels, eps, .. } => {
                format!("{groups}, {channels}, eps={}, affine=True, bias=True", eps_of(*eps))
            }
            InstanceNorm { channels, eps, .. } => format!(
                "{channels}, eps={}, momentum=0.1, affine=False, bias=True, track_running_stats=False",
                eps_of(*eps)
            ),
            BatchNorm { weight, eps, .. } => format!(
                "{}, eps={}, momentum=0.1, affine=True, bias=True, track_running_stats=True",
                weight.numel(),
                eps_of(*eps)
            ),
            Quantize { dtype } => {
                let (s, z) = self.rule_tensors();
                format!("scale={s}, zero_point={z}, dtype={dtype}")
            }
            _ => String::new(),
        }
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        for name in ["weight", "bias", "running_mean", "running_var"] {
            if let Some(t) = self.tensor(name) {
                v.buffer(name, &Buffer::new(t));
            }
        }
        if self.is_state() {
            let (s, z) = self.rule_tensors();
            v.buffer("scale", &Buffer::new(s));
            v.buffer("zero_point", &Buffer::new(z));
        }
    }
    fn visit_mut(&mut self, _: &mut dyn VisitorMut) -> Result<()> {
        Ok(())
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        let (s, z) = self.rule();
        let mut new = Layer::new(self.kind.clone(), s, z);
        new.base = self.base.copied(memo)?;
        Ok(Copied::new(new))
    }
    itself!();
}
/// The scale and zero point that an observer computes, as numbers.
pub(crate) fn rule_of((scale, zero): (Tensor, Tensor)) -> Result<(f64, i64)> {
    Ok((f64::from(cast(&scale, DType::F32)?.try_to_vec::<f32>()?[0]), zero.try_to_vec::<i64>()?[0]))
}
