//! Convolutions of integers.

use super::linear::{PackedParams, forward_of, itself, loaded_rule, rule_buffers};
use super::product::{Moves, conv};
use crate::kernels::through;
use crate::ops::dequantize;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::text::size_tuple;
use flambeau_core::types::order::Mutex;
use flambeau_core::{DType, Result, Tensor, ensure, ops};
use flambeau_nn::internal::{Copied, Memo, Run};
use flambeau_nn::{Base, Buffer, Forward, Module, Visitor, VisitorMut};
use flambeau_nn_functional::ops as nn;
use std::any::Any;
use std::borrow::Cow;

/// The arguments of a convolution: lists have one number per dimension.
#[derive(Clone, Debug)]
pub struct ConvShape {
    /// Channels of the input.
    pub in_channels: i64,
    /// Channels of the results.
    pub out_channels: i64,
    /// Size of the window.
    pub kernel_size: Vec<i64>,
    /// Its step.
    pub stride: Vec<i64>,
    /// Places added on both sides.
    pub padding: Vec<i64>,
    /// Step between taps.
    pub dilation: Vec<i64>,
    /// Groups of channels.
    pub groups: i64,
    /// Of transposed convolutions: places added on one side of the results.
    pub output_padding: Vec<i64>,
    /// Transposed.
    pub transposed: bool,
}
/// `torch.ao.nn.quantized.Conv1d`, `Conv2d`, `Conv3d`, those with a ReLU, and the transposed ones.
#[derive(Debug)]
#[doc(alias = "torch.ao.nn.quantized.Conv1d")]
#[doc(alias = "torch.ao.nn.quantized.Conv2d")]
#[doc(alias = "torch.ao.nn.quantized.Conv3d")]
#[doc(alias = "torch.ao.nn.intrinsic.quantized.ConvReLU2d")]
#[doc(alias = "torch.ao.nn.quantized.dynamic.Conv1d")]
#[doc(alias = "torch.ao.nn.quantized.dynamic.Conv2d")]
#[doc(alias = "torch.ao.nn.quantized.dynamic.Conv3d")]
#[doc(alias = "torch.ao.nn.quantized.dynamic.ConvTranspose1d")]
#[doc(alias = "torch.ao.nn.quantized.dynamic.ConvTranspose2d")]
#[doc(alias = "torch.ao.nn.quantized.dynamic.ConvTranspose3d")]
pub struct Conv {
    base: Base,
    /// The arguments.
    pub shape: ConvShape,
    /// Whether a ReLU follows.
    pub relu: bool,
    /// Of numbers, whose integers are found at every call: the dynamic layers.
    pub dynamic: bool,
    rule: Mutex<(f64, i64)>,
    packed: PackedParams,
}
impl Conv {
    /// With a weight of zeros.
    ///
    /// # Errors
    /// Channels that the groups do not divide.
    pub fn new(shape: ConvShape, bias: bool, relu: bool) -> Result<Conv> {
        ensure!(shape.groups > 0, Value, "groups must be a positive integer");
        ensure!(shape.in_channels % shape.groups == 0, Value, "in_channels must be divisible by groups");
        ensure!(shape.out_channels % shape.groups == 0, Value, "out_channels must be divisible by groups");
        let mut size = if shape.transposed {
            vec![shape.in_channels, shape.out_channels / shape.groups]
        } else {
            vec![shape.out_channels, shape.in_channels / shape.groups]
        };
        size.extend(&shape.kernel_size);
        let zeros = |n: &[i64]| ops::zeros(n, Some(DType::F32), None, None, None);
        let w = crate::ops::quantize_per_tensor(&zeros(&size)?, 1.0, 0, DType::QI8)?;
        let b = bias.then(|| zeros(&[shape.out_channels])).transpose()?;
        Ok(Self::of(shape, w, b, (1.0, 0), relu))
    }
    /// Of a quantized weight and a bias.
    pub(crate) fn of(
        shape: ConvShape,
        w: Tensor,
        bias: Option<Tensor>,
        rule: (f64, i64),
        relu: bool,
    ) -> Conv {
        let base = Base::new();
        base.register_load_state_dict_pre_hook(|m, state, prefix, _| {
            let Some(c) = m.downcast_ref::<Conv>() else { return };
            if let Some((s, z)) = loaded_rule(state, prefix) {
                c.set_rule(s, z);
            }
            if let Some(w) = state.get(&format!("{prefix}weight")) {
                let bias = state.get(&format!("{prefix}bias")).map(|b| ops::clone(b, None)).transpose();
                if let (Ok(w), Ok(b)) = (ops::clone(w, None), bias) {
                    c.packed.set(w, b);
                }
            }
        });
        base.set_training(false);
        let packed = PackedParams::new(w, bias.map(|b| b.alias_detached()), DType::QI8);
        Conv { base, shape, relu, dynamic: false, rule: Mutex::new(rule), packed }
    }
    /// The weight.
    pub fn weight(&self) -> Tensor {
        self.packed.get().0
    }
    /// The bias.
    pub fn bias(&self) -> Option<Tensor> {
        self.packed.get().1
    }
    /// Exchanges weight and bias.
    pub fn set_weight_bias(&self, weight: &Tensor, bias: Option<&Tensor>) {
        self.packed.set(weight.alias_detached(), bias.map(|b| b.alias_detached()));
    }
    /// Scale and zero point of the results.
    pub fn rule(&self) -> (f64, i64) {
        *self.rule.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// Sets them.
    pub fn set_rule(&self, scale: f64, zero_point: i64) {
        *self.rule.lock().unwrap_or_else(|e| e.into_inner()) = (scale, zero_point);
    }
    fn dims(&self) -> usize {
        self.shape.kernel_size.len()
    }
    /// The same layer for inputs that are numbers.
    pub fn into_dynamic(mut self) -> Conv {
        self.dynamic = true;
        self
    }
    fn compute(&self, x: &Tensor) -> Result<Tensor> {
        if self.dynamic { self.of_numbers(x, true) } else { self.of_integers(x, self.rule(), self.relu) }
    }
    /// Integers of numbers that are found for this call, in 7 bits or in 8. Results are rounded by the rule of the input, as PyTorch's
    /// are.
    ///
    /// # Errors
    /// Inputs that are no float32 numbers, and sizes that do not fit.
    pub fn of_numbers(&self, x: &Tensor, reduce_range: bool) -> Result<Tensor> {
        let q = crate::ops::quantize_per_tensor_dynamic(&x.alias_detached(), DType::QU8, reduce_range)?;
        dequantize(&self.of_integers(&q, crate::tensor::affine(&q)?, self.relu)?)
    }
    /// Of a quantized input, by a rule for the results.
    pub(crate) fn of_integers(&self, x: &Tensor, rule: (f64, i64), relu: bool) -> Result<Tensor> {
        let s = &self.shape;
        let (w, bias) = self.packed.get();
        ensure!(
            x.dim() == self.dims() + 2,
            Value,
            "Input shape must be `(N, C, {})`!",
            ["L", "H, W", "D, H, W"][self.dims().clamp(1, 3) - 1]
        );
        if s.transposed {
            let y = through(x, rule, |x| {
                nn::convolution(
                    x,
                    &dequantize(&w)?,
                    bias.as_ref(),
                    &s.stride,
                    &s.padding,
                    &s.dilation,
                    true,
                    &s.output_padding,
                    s.groups,
                )
            })?;
            let format = match self.dims() {
                2 => flambeau_core::MemoryFormat::ChannelsLast,
                3 => flambeau_core::MemoryFormat::ChannelsLast3d,
                _ => return Ok(y),
            };
            return crate::tensor::mapped(&y, |q| ops::contiguous(q, format));
        }
        let moves = Moves {
            stride: s.stride.clone(),
            padding: s.padding.clone(),
            dilation: s.dilation.clone(),
            groups: s.groups,
        };
        let packed = self.packed.packed(s.groups)?;
        conv(x, (&packed, w.sizes()), bias.as_ref(), &moves, rule, relu)
    }
}
forward_of!(Conv);
impl Module for Conv {
    fn type_name(&self) -> Cow<'static, str> {
        let name = match (self.dims(), self.relu, self.shape.transposed) {
            (1, _, true) => "QuantizedConvTranspose1d",
            (2, _, true) => "QuantizedConvTranspose2d",
            (_, _, true) => "QuantizedConvTranspose3d",
            (1, false, _) => "QuantizedConv1d",
            (2, false, _) => "QuantizedConv2d",
            (_, false, _) => "QuantizedConv3d",
            (1, true, _) => "QuantizedConvReLU1d",
            (2, true, _) => "QuantizedConvReLU2d",
            (_, true, _) => "QuantizedConvReLU3d",
        };
        if self.dynamic { Cow::Owned(format!("Dynamic{name}")) } else { Cow::Borrowed(name) }
    }
    fn extra_repr(&self) -> String {
        let s = &self.shape;
        let (scale, zero) = self.rule();
        let scale = flambeau_core::text::PyText::py_text(&scale);
        let mut t = format!(
            "{}, {}, kernel_size={}, stride={}, scale={scale}, zero_point={zero}",
            s.in_channels,
            s.out_channels,
            size_tuple(&s.kernel_size),
            size_tuple(&s.stride)
        );
        if s.padding.iter().any(|p| *p != 0) {
            t += &format!(", padding={}", size_tuple(&s.padding));
        }
        if s.dilation.iter().any(|p| *p != 1) {
            t += &format!(", dilation={}", size_tuple(&s.dilation));
        }
        if s.output_padding.iter().any(|p| *p != 0) {
            t += &format!(", output_padding={}", size_tuple(&s.output_padding));
        }
        if s.groups != 1 {
            t += &format!(", groups={}", s.groups);
        }
        if self.bias().is_none() {
            t += ", bias=False";
        }
        t
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        let (w, b) = self.packed.get();
        v.buffer("weight", &Buffer::new(w));
        if let Some(b) = b {
            v.buffer("bias", &Buffer::new(b));
        }
        for (n, b) in rule_buffers(self.rule()) {
            v.buffer(n, &b);
        }
    }
    fn visit_mut(&mut self, _: &mut dyn VisitorMut) -> Result<()> {
        Ok(())
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        let (w, b) = self.packed.get();
        let own = |t: &Tensor| ops::clone(&t.alias_detached(), None);
        let mut new =
            Conv::of(self.shape.clone(), own(&w)?, b.as_ref().map(own).transpose()?, self.rule(), self.relu);
        new.dynamic = self.dynamic;
        new.base = self.base.copied(memo)?;
        Ok(Copied::new(new))
    }
    itself!();
}
