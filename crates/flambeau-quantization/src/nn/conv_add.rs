//! A convolution and the sum with a second input, as one layer: `ConvAdd2d`, `ConvAddReLU2d`, and their quantized forms.

use super::conv::Conv;
use super::linear::itself;
use crate::kernels::through;
use crate::ops::dequantize;
use crate::stubs::call;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Error, Result, Scalar, Tensor, ensure, ops};
use flambeau_nn as nn;
use flambeau_nn::internal::{Copied, Memo, Run};
use flambeau_nn::{Base, Field as _, Module, Visitor, VisitorMut};
use flambeau_nn_functional::ops as f;
use std::any::Any;
use std::borrow::Cow;

/// `conv(x) + y`, with a ReLU behind it or without: of numbers, or of quantized tensors by the convolution's rule.
///
/// ```
/// use torch::ao::nn::intrinsic::ConvAdd2d;
/// use torch::nn;
/// let m = ConvAdd2d::new(nn::Conv2d::new(1, 2, 1));
/// let y = m.forward(&torch::randn([1, 1, 3, 3]), &torch::randn([1, 2, 3, 3]));
/// assert_eq!(y.sizes(), [1, 2, 3, 3]);
/// ```
#[derive(Debug)]
#[doc(alias = "torch.ao.nn.intrinsic.ConvAdd2d")]
#[doc(alias = "torch.ao.nn.intrinsic.ConvAddReLU2d")]
#[doc(alias = "torch.ao.nn.intrinsic.quantized.ConvAdd2d")]
#[doc(alias = "torch.ao.nn.intrinsic.quantized.ConvAddReLU2d")]
pub struct ConvAdd2d {
    base: Base,
    conv: Box<dyn Run>,
    relu: Option<nn::ReLU>,
}
impl ConvAdd2d {
    /// Of a convolution.
    pub fn new(conv: nn::Conv2d) -> ConvAdd2d {
        ConvAdd2d::of(Box::new(conv), false)
    }
    /// With a ReLU behind the sum: `ConvAddReLU2d`.
    pub fn with_relu(conv: nn::Conv2d) -> ConvAdd2d {
        ConvAdd2d::of(Box::new(conv), true)
    }
    pub(crate) fn of(conv: Box<dyn Run>, relu: bool) -> ConvAdd2d {
        let base = Base::new();
        base.set_training(conv.is_training());
        ConvAdd2d { base, conv, relu: relu.then(nn::ReLU::new) }
    }
    /// The convolution.
    pub fn conv(&self) -> &dyn Module {
        self.conv.as_module()
    }
    /// Whether a ReLU follows.
    pub fn relu(&self) -> bool {
        self.relu.is_some()
    }
    /// Of an input and what is added.
    ///
    /// # Panics
    /// As [`try_forward`](ConvAdd2d::try_forward).
    #[track_caller]
    pub fn forward(&self, x: &Tensor, extra: &Tensor) -> Tensor {
        expect(self.try_forward(x, extra))
    }
    /// Of an input and what is added.
    ///
    /// # Errors
    /// Sizes that do not fit; of the quantized layer inputs that are no quantized tensors.
    pub fn try_forward(&self, x: &Tensor, extra: &Tensor) -> Result<Tensor> {
        let cut = |y: Tensor| if self.relu() { ops::relu(&y) } else { Ok(y) };
        let Some(conv) = self.conv().downcast_ref::<Conv>() else {
            return cut(ops::add(&call(&*self.conv, x)?, extra, Scalar::Int(1))?);
        };
        ensure!(x.dim() == 4, Value, "Input shape must be `(N, C, H, W)`!");
        ensure!(extra.quantizer().is_some(), Runtime, "what is added must be quantized");
        let (s, w) = (&conv.shape, dequantize(&conv.weight())?);
        let added = dequantize(extra)?;
        // the sum is rounded once
        through(x, conv.rule(), |x| {
            let none = vec![0; s.padding.len()];
            let bias = conv.bias();
            let y = f::convolution(
                x,
                &w,
                bias.as_ref(),
                &s.stride,
                &s.padding,
                &s.dilation,
                false,
                &none,
                s.groups,
            )?;
            cut(ops::add(&y, &added, Scalar::Int(1))?)
        })
    }
    /// The quantized form, by what a configuration says of weights and by a rule for the results.
    pub(crate) fn quantized(&self, w: &Tensor, rule: (f64, i64)) -> Result<ConvAdd2d> {
        let found = crate::forms::conv_of(self.conv());
        let (shape, _, bias) =
            found.ok_or_else(|| Error::missing("quantized convolutions with padding by name"))?;
        Ok(ConvAdd2d::of(Box::new(Conv::of(shape, w.clone(), bias, rule, false)), self.relu()))
    }
}
impl Module for ConvAdd2d {
    fn type_name(&self) -> Cow<'static, str> {
        let quantized = self.conv().is::<Conv>();
        Cow::Borrowed(match (quantized, self.relu()) {
            (false, false) => "ConvAdd2d",
            (false, true) => "ConvAddReLU2d",
            (true, false) => "QuantizedConvAdd2d",
            (true, true) => "QuantizedConvAddReLU2d",
        })
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        if self.conv().is::<Conv>() {
            return self.conv.visit(v);
        }
        self.conv.visit_field("0", v);
        if let Some(r) = &self.relu {
            v.module("relu", r);
        }
    }
    fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
        if self.conv().is::<Conv>() {
            return self.conv.visit_mut(v);
        }
        self.conv.visit_field_mut("0", v)
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        let mut new = ConvAdd2d::of(self.conv.copied_field(memo)?, self.relu());
        new.base = self.base.copied(memo)?;
        Ok(Copied::new(new))
    }
    itself!();
}
impl Run for ConvAdd2d {
    fn class(&self) -> &'static str {
        if self.relu() { "ConvAddReLU2d" } else { "ConvAdd2d" }
    }
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        match inputs {
            [x, extra] => Ok(vec![self.try_forward(x, extra)?]),
            _ => Err(Error::type_(format!("{}.forward() takes an input and what is added", self.class()))),
        }
    }
}
