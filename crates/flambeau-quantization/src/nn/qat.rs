//! Layers of quantization-aware training: float layers that round their weights to what a quantized weight could hold
//! (`torch.ao.nn.qat`, `torch.ao.nn.intrinsic.qat`).

use super::linear::{forward_of, itself};
use crate::qconfig::{Made, QConfig};
use crate::stubs::{Fused, call};
use crate::tensor::number;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::{Error, Result, Scalar, Tensor, ops};
use flambeau_nn as nn;
use flambeau_nn::internal::{Copied, Memo, Padding, Run, sharing};
use flambeau_nn::{Base, Field as _, Forward, Module, Parameter, Visitor, VisitorMut};
use flambeau_nn_functional::ops as f;
use std::any::Any;
use std::borrow::Cow;

/// A linear map or a convolution whose weight is rounded as it will be, with the batch normalisation and the ReLU that follow it:
/// `Linear`, `Conv2d`, `LinearReLU`, `ConvBn2d`, `ConvBnReLU2d` and their like. Its parameters have the names of the float layer;
/// `bn` and `weight_fake_quant` stand beside them.
#[derive(Debug)]
#[doc(alias = "torch.ao.nn.qat.Linear")]
#[doc(alias = "torch.ao.nn.qat.Conv1d")]
#[doc(alias = "torch.ao.nn.qat.Conv2d")]
#[doc(alias = "torch.ao.nn.qat.Conv3d")]
#[doc(alias = "torch.ao.nn.qat.Embedding")]
#[doc(alias = "torch.ao.nn.qat.EmbeddingBag")]
#[doc(alias = "torch.ao.nn.intrinsic.qat.LinearReLU")]
#[doc(alias = "torch.ao.nn.intrinsic.qat.ConvReLU2d")]
#[doc(alias = "torch.ao.nn.intrinsic.qat.ConvReLU3d")]
#[doc(alias = "torch.ao.nn.intrinsic.qat.ConvBn1d")]
#[doc(alias = "torch.ao.nn.intrinsic.qat.ConvBn2d")]
#[doc(alias = "torch.ao.nn.intrinsic.qat.ConvBn3d")]
#[doc(alias = "torch.ao.nn.intrinsic.qat.ConvBnReLU1d")]
#[doc(alias = "torch.ao.nn.intrinsic.qat.ConvBnReLU2d")]
#[doc(alias = "torch.ao.nn.intrinsic.qat.ConvBnReLU3d")]
#[doc(alias = "torch.ao.nn.intrinsic.qat.LinearBn1d")]
pub struct Qat {
    base: Base,
    name: &'static str,
    body: Box<dyn Run>,
    norm: Option<Box<dyn Run>>,
    relu: bool,
    weight_fake_quant: Box<dyn Run>,
}
/// Weight and bias of the float layer.
fn parameters_of(m: &dyn Module) -> Result<(&Parameter, Option<&Parameter>)> {
    macro_rules! of {
        ($($t:ident),*) => {$(
            if let Some(l) = m.downcast_ref::<nn::$t>() {
                return Ok((&l.weight, l.bias.as_ref()));
            }
        )*};
    }
    of!(Linear, Conv1d, Conv2d, Conv3d);
    if let Some(e) = m.downcast_ref::<nn::Embedding>() {
        return Ok((&e.weight, None));
    }
    if let Some(e) = m.downcast_ref::<nn::EmbeddingBag>() {
        return Ok((&e.weight, None));
    }
    Err(Error::runtime("quantization-aware training is for linear maps, convolutions and embeddings"))
}
/// The float layer with another weight and bias.
fn applied(m: &dyn Module, x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    if m.is::<nn::Linear>() {
        return f::linear(x, w, bias);
    }
    macro_rules! of {
        ($($t:ident $conv:ident $by_name:ident),*) => {$(
            if let Some(c) = m.downcast_ref::<nn::$t>() {
                let o = &c.options;
                let (stride, dilation) = (&o.stride.0, &o.dilation.0);
                return match &o.padding {
                    Padding::Each(p) => {
                        f::$conv(x, w, bias, stride, p, dilation, o.groups, &o.padding_mode)
                    }
                    Padding::Name(p) => {
                        f::$by_name(x, w, bias, stride, p, dilation, o.groups, &o.padding_mode)
                    }
                };
            }
        )*};
    }
    of!(Conv1d conv1d conv1d_padding, Conv2d conv2d conv2d_padding, Conv3d conv3d conv3d_padding);
    if let Some(e) = m.downcast_ref::<nn::Embedding>() {
        let o = &e.options;
        let (limit, norm) = (o.max_norm.map(Scalar::to_f64), o.norm_type.to_f64());
        return f::embedding(x, w, o.padding_idx, limit, norm, o.scale_grad_by_freq, o.sparse);
    }
    if let Some(e) = m.downcast_ref::<nn::EmbeddingBag>() {
        return bags(e, w, x, None, None);
    }
    Err(Error::runtime("quantization-aware training is for linear maps, convolutions and embeddings"))
}
fn bags(
    e: &nn::EmbeddingBag,
    w: &Tensor,
    x: &Tensor,
    offsets: Option<&Tensor>,
    weights: Option<&Tensor>,
) -> Result<Tensor> {
    let o = &e.options;
    f::embedding_bag(
        x,
        w,
        offsets,
        o.max_norm.map(Scalar::to_f64),
        o.norm_type.to_f64(),
        o.scale_grad_by_freq,
        &o.mode,
        o.sparse,
        weights,
        o.include_last_offset,
        o.padding_idx,
    )
}
/// The scale, variance and eps of a batch normalisation.
fn norm_of(m: &dyn Module) -> Option<(Option<&Parameter>, &Tensor, f64)> {
    macro_rules! of {
        ($($t:ident),*) => {$(
            if let Some(b) = m.downcast_ref::<nn::$t>() {
                return Some((b.weight.as_ref(), b.running_var.as_ref()?.tensor(), b.options.eps));
            }
        )*};
    }
    of!(BatchNorm1d, BatchNorm2d, BatchNorm3d);
    None
}
impl Qat {
    /// The float layer, or several that were fused, with what its configuration says of weights. Parameters stay the same ones: what
    /// an optimizer holds goes on to be trained.
    pub(crate) fn new(name: &'static str, parts: &[&dyn Run], q: &QConfig) -> Result<Qat> {
        let mut parts = parts.iter();
        let body = parts.next().ok_or_else(|| Error::runtime("nothing to train"))?;
        let (mut norm, mut relu) = (None, false);
        for p in parts {
            if norm_of(p.as_module()).is_some() {
                norm = Some(sharing(*p)?);
            } else {
                relu = true;
            }
        }
        let weight_fake_quant: Box<dyn Run> = match q.weight.build()? {
            Made::Observer(o) => o,
            Made::FakeQuantize(f) => f,
            Made::Identity => Box::new(nn::Identity::new()),
        };
        Ok(Qat { base: Base::new(), name, body: sharing(*body)?, norm, relu, weight_fake_quant })
    }
    /// The same of a layer in a graph, where further classes have such a form.
    #[cfg(feature = "graphs")]
    pub(crate) fn of_graph(m: &dyn Module, q: &QConfig) -> Result<Option<Qat>> {
        if let Some(new) = Qat::of(m, q)? {
            return Ok(Some(new));
        }
        let run = |name| m.as_run().map(|r| Qat::new(name, &[r], q)).transpose();
        match m.downcast_ref::<Fused>() {
            Some(f) if f.name() == "ConvReLU1d" => {
                let parts: Vec<&dyn Run> = (0..2).filter_map(|i| f.part(i)).collect();
                Qat::new("ConvReLU1d", &parts, q).map(Some)
            }
            _ if m.is::<nn::Conv1d>() => run("Conv1d"),
            _ if m.is::<nn::Embedding>() => run("Embedding"),
            _ if m.is::<nn::EmbeddingBag>() => run("EmbeddingBag"),
            _ => Ok(None),
        }
    }
    /// Of a layer that has such a form, by the configuration that is noted about it.
    pub(crate) fn of(m: &dyn Module, q: &QConfig) -> Result<Option<Qat>> {
        let run = |m: &dyn Module, name| match m.as_run() {
            Some(r) => Qat::new(name, &[r], q).map(Some),
            None => Ok(None),
        };
        if m.is::<nn::Linear>() {
            return run(m, "Linear");
        }
        if m.is::<nn::Conv2d>() {
            return run(m, "Conv2d");
        }
        if m.is::<nn::Conv3d>() {
            return run(m, "Conv3d");
        }
        let Some(fused) = m.downcast_ref::<Fused>() else { return Ok(None) };
        const TRAINED: &[&str] = &[
            "LinearReLU",
            "LinearBn1d",
            "ConvReLU2d",
            "ConvReLU3d",
            "ConvBn1d",
            "ConvBn2d",
            "ConvBn3d",
            "ConvBnReLU1d",
            "ConvBnReLU2d",
            "ConvBnReLU3d",
        ];
        let name = fused.name();
        if !TRAINED.contains(&name) {
            return Ok(None);
        }
        let parts: Vec<&dyn Run> = (0..3).filter_map(|i| fused.part(i)).collect();
        Qat::new(name, &parts, q).map(Some)
    }
    /// The float layer.
    pub fn body(&self) -> &dyn Module {
        self.body.as_module()
    }
    /// The batch normalisation.
    pub fn bn(&self) -> Option<&dyn Module> {
        self.norm.as_ref().map(|n| n.as_module())
    }
    /// Whether a ReLU follows.
    pub fn relu(&self) -> bool {
        self.relu
    }
    /// What rounds the weight.
    pub fn weight_fake_quant(&self) -> &dyn Module {
        self.weight_fake_quant.as_module()
    }
    /// The weight as it is rounded, after a look at it.
    pub(crate) fn looked_at(&self, w: &Tensor) -> Result<Tensor> {
        call(&*self.weight_fake_quant, w)
    }
    fn compute(&self, x: &Tensor) -> Result<Tensor> {
        let (w, bias) = parameters_of(self.body())?;
        let (w, bias) = (w.tensor(), bias.map(Parameter::tensor));
        let y = match &self.norm {
            None => applied(self.body(), x, &self.looked_at(w)?, bias)?,
            Some(norm) => {
                // the weight is rounded as it will be with the batch normalisation in it
                let (scale, var, eps) =
                    norm_of(norm.as_module()).ok_or_else(|| Error::runtime("no batch normalisation"))?;
                let spread = ops::sqrt(&ops::add(var, &number(eps)?, Scalar::Int(1))?)?;
                let factor = match scale {
                    Some(s) => ops::div(s.tensor(), &spread)?,
                    None => ops::reciprocal(&spread)?,
                };
                let mut rows = vec![1; w.dim()];
                rows[0] = -1;
                let mut channels = vec![1; w.dim()];
                channels[1] = -1;
                let rounded = self.looked_at(&ops::mul(w, &ops::reshape(&factor, &rows)?)?)?;
                let y = applied(self.body(), x, &rounded, None)?;
                let y = ops::div(&y, &ops::reshape(&factor, &channels)?)?;
                let y = match bias {
                    Some(b) => ops::add(&y, &ops::reshape(b, &channels)?, Scalar::Int(1))?,
                    None => y,
                };
                call(&**norm, &y)?
            }
        };
        if self.relu { ops::relu(&y) } else { Ok(y) }
    }
}
forward_of!(Qat);
impl Module for Qat {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(self.name)
    }
    fn extra_repr(&self) -> String {
        self.body.extra_repr()
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        self.body.visit(v);
        if let Some(n) = &self.norm {
            n.visit_field("bn", v);
        }
        self.weight_fake_quant.visit_field("weight_fake_quant", v);
    }
    fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
        self.body.visit_mut(v)?;
        if let Some(n) = &mut self.norm {
            n.visit_field_mut("bn", v)?;
        }
        self.weight_fake_quant.visit_field_mut("weight_fake_quant", v)
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        Ok(Copied::new(Qat {
            base: self.base.copied(memo)?,
            name: self.name,
            body: self.body.copied_field(memo)?,
            norm: self.norm.as_ref().map(|n| n.copied_field(memo)).transpose()?,
            relu: self.relu,
            weight_fake_quant: self.weight_fake_quant.copied_field(memo)?,
        }))
    }
    itself!();
}
impl Run for Qat {
    fn class(&self) -> &'static str {
        self.name
    }
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        match inputs {
            [x] => Ok(vec![self.try_forward(x)?]),
            [x, offsets, weights @ ..] if weights.len() < 2 && self.body().is::<nn::EmbeddingBag>() => {
                let (w, _) = parameters_of(self.body())?;
                let w = self.looked_at(w.tensor())?;
                match self.body().downcast_ref::<nn::EmbeddingBag>() {
                    Some(e) => Ok(vec![bags(e, &w, x, Some(offsets), weights.first())?]),
                    None => Err(Error::type_("not a table of bags")),
                }
            }
            _ => Err(Error::type_(format!("{}.forward() takes one tensor", self.name))),
        }
    }
}
