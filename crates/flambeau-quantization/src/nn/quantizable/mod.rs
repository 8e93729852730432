//! Layers that are made of parts which can be observed and quantized one by one (`torch.ao.nn.quantizable`), and the same layers with
//! quantized parts (`torch.ao.nn.quantized.LSTM` and `MultiheadAttention`).

mod attention;
mod lstm;

pub use attention::{AttentionArgs, MultiheadAttention};
pub use lstm::{LSTM, LSTMCell, LstmShape};

use super::float_functional::Functional;
use super::linear::itself;
use crate::stubs::call;
use flambeau_core::{Error, Result, Tensor};
use flambeau_nn::internal::{Copied, Memo, Run};
use flambeau_nn::{Base, Field as _, Module, Visitor, VisitorMut};
use std::any::Any;
use std::borrow::Cow;

/// Parts by name, in the order in which they are shown. Each may be exchanged for its quantized form.
#[derive(Debug, Default)]
struct Parts(Vec<(String, Box<dyn Run>)>);
impl Parts {
    fn with(mut self, name: &str, m: impl Run) -> Parts {
        self.0.push((name.to_string(), Box::new(m)));
        self
    }
    fn get(&self, name: &str) -> Result<&dyn Run> {
        let found = self.0.iter().find(|(n, _)| n == name).map(|(_, m)| &**m);
        found.ok_or_else(|| Error::attribute(format!("no part named '{name}'")))
    }
    fn get_as<T: Module>(&self, name: &str) -> Result<&T> {
        let m = self.get(name)?;
        m.as_module()
            .downcast_ref()
            .ok_or_else(|| Error::type_(format!("the part '{name}' is a {}", m.type_name())))
    }
    fn call(&self, name: &str, x: &Tensor) -> Result<Tensor> {
        call(self.get(name)?, x)
    }
    fn functional(&self, name: &str) -> Result<&Functional> {
        self.get_as(name)
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        self.0.iter().for_each(|(k, m)| m.visit_field(k, v));
    }
    fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
        self.0.iter_mut().try_for_each(|(k, m)| m.visit_field_mut(k, v))
    }
    fn copied(&self, memo: &mut Memo) -> Result<Parts> {
        let copy = |(k, m): &(String, Box<dyn Run>)| Ok((k.clone(), m.copied_field(memo)?));
        Ok(Parts(self.0.iter().map(copy).collect::<Result<_>>()?))
    }
}
/// A module that only holds others: the layer around it calls them.
#[derive(Debug)]
struct Room {
    base: Base,
    class: &'static str,
    parts: Parts,
}
impl Room {
    fn new(class: &'static str, parts: Parts) -> Room {
        Room { base: Base::new(), class, parts }
    }
}
impl Module for Room {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(self.class)
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        self.parts.visit(v);
    }
    fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
        self.parts.visit_mut(v)
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        let (base, parts) = (self.base.copied(memo)?, self.parts.copied(memo)?);
        Ok(Copied::new(Room { base, class: self.class, parts }))
    }
    itself!();
}
impl Run for Room {
    fn class(&self) -> &'static str {
        self.class
    }
    fn run(&self, _: &[Tensor]) -> Result<Vec<Tensor>> {
        Err(Error::unsupported(format!("{} is called by the layer that it is part of", self.class)))
    }
}
