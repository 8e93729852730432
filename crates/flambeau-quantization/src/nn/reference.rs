//! Layers that compute with numbers and round their weights as quantized ones would: PyTorch's reference modules.

use super::linear::{forward_of, itself, weight_by};
use crate::fake_quantize::FakeQuantize;
use crate::observers::{Observer, ObserverSpec};
use crate::qconfig::{Made, Make};
use crate::stubs::call;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Error, Result, Tensor, Value};
use flambeau_nn::internal::{Copied, Memo, Run, call_module, visit_all_mut};
use flambeau_nn::{Base, Buffer, Forward, Module, Parameter, Visitor, VisitorMut};
use std::any::Any;
use std::borrow::Cow;

/// How a weight is rounded.
#[derive(Clone, Debug)]
pub(crate) struct Rounding {
    pub(crate) spec: ObserverSpec,
    pub(crate) scale: Tensor,
    pub(crate) zero_point: Tensor,
}
impl Rounding {
    /// As an observer or a fake quantization found, after a look at the weight.
    pub(crate) fn of(by: &dyn Run, w: &Tensor) -> Result<Rounding> {
        call(by, &w.alias_detached())?;
        let m = by.as_module();
        if let Some(o) = m.downcast_ref::<Observer>() {
            let found = o.spec.dtype.is_quantized().then(|| o.try_calculate_qparams()).transpose()?;
            let (scale, zero_point) = found.unwrap_or_else(none);
            return Ok(Rounding { spec: o.spec.clone(), scale, zero_point });
        }
        match m.downcast_ref::<FakeQuantize>() {
            Some(f) => {
                let (scale, zero_point) = f.try_calculate_qparams()?;
                Ok(Rounding { spec: f.spec.observer.clone(), scale, zero_point })
            }
            None => Err(Error::runtime("a weight that nothing rounds cannot be quantized")),
        }
    }
    /// As a configuration says.
    pub(crate) fn made(make: &Make, w: &Tensor) -> Result<Rounding> {
        match make.build()? {
            Made::Observer(o) => Rounding::of(&*o, w),
            Made::FakeQuantize(f) => Rounding::of(&*f, w),
            Made::Identity => Err(Error::runtime("a weight that nothing rounds cannot be quantized")),
        }
    }
    /// The weight as integers, or in float16.
    pub(crate) fn quantized(&self, w: &Tensor) -> Result<Tensor> {
        match self.spec.dtype {
            DType::F16 => crate::tensor::cast(&w.alias_detached(), DType::F16),
            _ => weight_by(w, &self.spec, &self.scale, &self.zero_point),
        }
    }
    fn rounded(&self, w: &Tensor) -> Result<Tensor> {
        match self.spec.dtype {
            DType::F16 => crate::tensor::cast(&self.quantized(w)?, DType::F32),
            _ => crate::ops::dequantize(&self.quantized(w)?),
        }
    }
}
/// What dtypes without a scale have in its place.
fn none() -> (Tensor, Tensor) {
    (Tensor::from_vec(vec![1f32], [0i64; 0]), Tensor::from_vec(vec![0i64], [0i64; 0]))
}

/// A float layer whose weights are rounded at every call.
#[derive(Debug)]
#[doc(alias = "torch.ao.nn.quantized.reference.Linear")]
#[doc(alias = "torch.ao.nn.quantized.reference.Conv1d")]
#[doc(alias = "torch.ao.nn.quantized.reference.Conv2d")]
#[doc(alias = "torch.ao.nn.quantized.reference.Conv3d")]
#[doc(alias = "torch.ao.nn.quantized.reference.ConvTranspose1d")]
#[doc(alias = "torch.ao.nn.quantized.reference.ConvTranspose2d")]
#[doc(alias = "torch.ao.nn.quantized.reference.ConvTranspose3d")]
#[doc(alias = "torch.ao.nn.quantized.reference.Embedding")]
#[doc(alias = "torch.ao.nn.quantized.reference.EmbeddingBag")]
#[doc(alias = "torch.ao.nn.quantized.reference.GRUCell")]
#[doc(alias = "torch.ao.nn.quantized.reference.LSTMCell")]
#[doc(alias = "torch.ao.nn.quantized.reference.RNNCell")]
#[doc(alias = "torch.ao.nn.quantized.reference.LSTM")]
#[doc(alias = "torch.ao.nn.quantized.reference.GRU")]
pub struct Reference {
    base: Base,
    float: Box<dyn Run>,
    /// By the names of weights.
    weights: Vec<(String, Rounding)>,
}
/// Changes the weights that have a rounding.
struct Round<'a>(&'a [(String, Rounding)]);
impl VisitorMut for Round<'_> {
    fn parameter(&mut self, name: &str, p: &mut Parameter) -> Result<()> {
        if let Some((_, r)) = self.0.iter().find(|(n, _)| n == name) {
            *p = Parameter::try_new(&r.rounded(p.tensor())?, false)?;
        }
        Ok(())
    }
    fn buffer(&mut self, _: &str, _: &mut Buffer) -> Result<()> {
        Ok(())
    }
    fn module(&mut self, _: &str, _: &mut dyn Module) -> Result<()> {
        Ok(())
    }
}
impl Reference {
    /// Of a float layer, as the configuration of weights says. Nothing where the layer has no weight.
    pub(crate) fn of(float: Box<dyn Run>, by: &Make) -> Result<Option<Reference>> {
        let mut weights = Vec::new();
        for (name, p) in float.named_parameters() {
            if name.starts_with("weight") {
                weights.push((name, Rounding::made(by, p.tensor())?));
            }
        }
        Ok((!weights.is_empty()).then(|| Reference::with(float, weights)))
    }
    /// Of a float layer with one weight, that a module rounded in training.
    pub(crate) fn trained(float: Box<dyn Run>, by: &dyn Run) -> Result<Reference> {
        let w = float.get_parameter("weight")?;
        let rounding = Rounding::of(by, w.tensor())?;
        Ok(Reference::with(float, vec![("weight".into(), rounding)]))
    }
    fn with(float: Box<dyn Run>, weights: Vec<(String, Rounding)>) -> Reference {
        let base = Base::new();
        base.set_training(float.is_training());
        Reference { base, float, weights }
    }
    /// The float layer.
    pub fn float(&self) -> &dyn Module {
        self.float.as_module()
    }
    /// How its one weight is rounded.
    pub(crate) fn rounding(&self) -> Option<&Rounding> {
        match &self.weights[..] {
            [(_, r)] => Some(r),
            _ => None,
        }
    }
    /// What its weights are rounded by.
    pub(crate) fn spec(&self) -> Option<&ObserverSpec> {
        self.weights.first().map(|(_, r)| &r.spec)
    }
    /// The float layer with its weights as they are rounded.
    fn rounded(&self) -> Result<Box<dyn Run>> {
        let mut copy = self.float.boxed_copy(&mut Memo::default())?;
        visit_all_mut(copy.as_module_mut(), &mut Round(&self.weights))?;
        Ok(copy)
    }
    fn compute(&self, x: &Tensor) -> Result<Tensor> {
        call(&*self.rounded()?, x)
    }
}
forward_of!(Reference);
impl Module for Reference {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Owned(format!("Quantized{}(Reference)", self.float.class()))
    }
    fn extra_repr(&self) -> String {
        self.float.extra_repr()
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        self.float.visit(v);
        for (name, r) in &self.weights {
            v.buffer(&format!("{name}_scale"), &Buffer::new(r.scale.clone()));
            v.buffer(&format!("{name}_zero_point"), &Buffer::new(r.zero_point.clone()));
        }
    }
    fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
        self.float.visit_mut(v)
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        Ok(Copied::new(Reference {
            base: self.base.copied(memo)?,
            float: self.float.boxed_copy(memo)?,
            weights: self.weights.clone(),
        }))
    }
    itself!();
}
impl Run for Reference {
    fn class(&self) -> &'static str {
        self.float.class()
    }
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        self.rounded()?.run(inputs)
    }
    fn run_by_name(
        &self,
        args: &[Value],
        kwargs: &flambeau_core::dispatch::object::Kwargs,
    ) -> Result<Vec<Value>> {
        call_module(&*self.rounded()?, args, kwargs)
    }
}
