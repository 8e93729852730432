//! Places where a model's numbers become integers and back, and float layers that belong together.
//!
//! ```
//! use torch::ao::quantization::Stub;
//! use torch::{nn, prelude::*};
//!
//! let model = nn::Sequential::new((Stub::quant(), nn::Linear::new(2, 2), Stub::dequant()));
//! let names: Vec<String> = model.children().iter().map(|m| m.type_name().into_owned()).collect();
//! assert_eq!(names, ["QuantStub", "Linear", "DeQuantStub"]);
//! ```

use crate::nn::linear::{forward_of, itself};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::dispatch::value::FromValue as _;
use flambeau_core::types::deep::{self, Deep};
use flambeau_core::{Result, Tensor, Value};
use flambeau_nn::internal::{Copied, Memo, Run, call_module};
use flambeau_nn::{Base, Field as _, Forward, Module, Visitor, VisitorMut};
use std::any::Any;
use std::borrow::Cow;

/// `QuantStub` and `DeQuantStub`: give their input until they are converted.
#[derive(Debug)]
#[doc(alias = "torch.ao.quantization.QuantStub")]
#[doc(alias = "torch.ao.quantization.DeQuantStub")]
pub struct Stub {
    base: Base,
    /// Numbers become integers here; else integers numbers.
    pub quantize: bool,
}
impl Stub {
    /// `QuantStub()`
    pub fn quant() -> Stub {
        Stub { base: Base::new(), quantize: true }
    }
    /// `DeQuantStub()`
    pub fn dequant() -> Stub {
        Stub { base: Base::new(), quantize: false }
    }
    fn compute(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.clone())
    }
}
forward_of!(Stub);
impl Module for Stub {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(if self.quantize { "QuantStub" } else { "DeQuantStub" })
    }
    fn visit<'a>(&'a self, _: &mut dyn Visitor<'a>) {}
    fn visit_mut(&mut self, _: &mut dyn VisitorMut) -> Result<()> {
        Ok(())
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        Ok(Copied::new(Stub { base: self.base.copied(memo)?, quantize: self.quantize }))
    }
    itself!();
}

/// Runs a module and its hooks on one tensor.
pub(crate) fn call(m: &dyn Run, x: &Tensor) -> Result<Tensor> {
    let out = deep::call(|| call_module(m, &[Value::Tensor(x.clone())], &[]))?;
    Tensor::from_value(out.first().unwrap_or(&Value::None))
}
/// A float module that runs its parts one after the other: `ConvReLU2d(conv, relu)` and its like.
#[derive(Debug)]
#[doc(alias = "torch.ao.nn.intrinsic.ConvReLU2d")]
#[doc(alias = "torch.ao.nn.intrinsic.LinearReLU")]
#[doc(alias = "torch.ao.nn.intrinsic.LinearLeakyReLU")]
#[doc(alias = "torch.ao.nn.intrinsic.LinearTanh")]
pub struct Fused {
    base: Base,
    name: &'static str,
    items: Vec<(String, Box<dyn Run>)>,
}
impl Fused {
    /// Of parts, under a class's name.
    pub(crate) fn new(name: &'static str, parts: Vec<Box<dyn Run>>) -> Fused {
        let items = parts.into_iter().enumerate().map(|(i, m)| (i.to_string(), m)).collect();
        Fused { base: Base::new(), name, items }
    }
    /// The class's name.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }
    /// The parts.
    pub(crate) fn part(&self, i: usize) -> Option<&dyn Run> {
        self.items.get(i).map(|(_, m)| &**m)
    }
    fn compute(&self, x: &Tensor) -> Result<Tensor> {
        self.items.iter().try_fold(x.clone(), |x, (_, m)| call(&**m, &x))
    }
}
forward_of!(Fused);
impl Module for Fused {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(self.name)
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        self.items.iter().for_each(|(k, m)| m.visit_field(k, v));
    }
    fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
        self.items.iter_mut().try_for_each(|(k, m)| m.visit_field_mut(k, v))
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        let copy = |(k, m): &(String, Box<dyn Run>)| Ok((k.clone(), m.copied_field(memo)?));
        let items = self.items.iter().map(copy).collect::<Result<_>>()?;
        Ok(Copied::new(Fused { base: self.base.copied(memo)?, name: self.name, items }))
    }
    itself!();
}
/// A module between a `QuantStub` and a `DeQuantStub`.
///
/// ```
/// use torch::ao::quantization::QuantWrapper;
/// use torch::{nn, prelude::*};
/// let linear = nn::Linear::new(2, 2);
/// let m = QuantWrapper::new(Box::new(linear));
/// let names: Vec<String> = m.named_children().into_iter().map(|(n, _)| n).collect();
/// assert_eq!(names, ["quant", "dequant", "module"]);
/// ```
#[derive(Debug)]
#[doc(alias = "torch.ao.quantization.QuantWrapper")]
pub struct QuantWrapper {
    base: Base,
    quant: Box<dyn Run>,
    dequant: Box<dyn Run>,
    /// May be such a wrapper again, without end.
    module: Deep<Box<dyn Run>>,
}
impl QuantWrapper {
    /// Wraps.
    pub fn new(module: Box<dyn Run>) -> QuantWrapper {
        let base = Base::new();
        if let Some(q) = module.base().and_then(|b| b.note::<Value>("qconfig")) {
            base.set_note("qconfig", q);
        }
        base.set_training(module.is_training());
        QuantWrapper {
            base,
            quant: Box::new(Stub::quant()),
            dequant: Box::new(Stub::dequant()),
            module: module.into(),
        }
    }
    fn compute(&self, x: &Tensor) -> Result<Tensor> {
        call(&*self.dequant, &call(&**self.module, &call(&*self.quant, x)?)?)
    }
}
forward_of!(QuantWrapper);
impl Module for QuantWrapper {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed("QuantWrapper")
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        self.quant.visit_field("quant", v);
        self.dequant.visit_field("dequant", v);
        self.module.visit_field("module", v);
    }
    fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
        self.quant.visit_field_mut("quant", v)?;
        self.dequant.visit_field_mut("dequant", v)?;
        self.module.visit_field_mut("module", v)
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        Ok(Copied::new(QuantWrapper {
            base: self.base.copied(memo)?,
            quant: self.quant.copied_field(memo)?,
            dequant: self.dequant.copied_field(memo)?,
            module: Deep::new(self.module.copied_field(memo)?),
        }))
    }
    itself!();
}
