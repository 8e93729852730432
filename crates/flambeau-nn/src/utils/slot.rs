//! The places of a module's tensors: fields, and what was added at run time.

use crate::module::base::Base;
use crate::module::traversal;
use crate::module::{Module, VisitorMut};
use crate::parameter::{Buffer, Parameter};
use flambeau_core::dispatch::stand_in::{Source, StandIn};
use flambeau_core::{Result, Tensor};
use std::sync::Arc;

/// What stands in such a place.
#[derive(Clone)]
pub(super) enum Slot {
    Parameter(Parameter),
    Buffer(Buffer),
}
impl Slot {
    pub fn tensor(&self) -> &Tensor {
        match self {
            Slot::Parameter(p) => p,
            Slot::Buffer(b) => b,
        }
    }
    pub fn is_computed(&self) -> bool {
        match self {
            Slot::Parameter(p) => p.is_computed(),
            Slot::Buffer(b) => b.is_computed(),
        }
    }
    /// A place of the same kind for what `source` computes, with the geometry of `like`.
    pub fn computed(&self, like: &Tensor, source: Arc<dyn Source>) -> Result<Slot> {
        let s = StandIn::new(like.sizes(), like.strides(), like.dtype(), like.device(), source)?;
        Ok(match self {
            Slot::Parameter(_) => Slot::Parameter(Parameter::computed(s)),
            Slot::Buffer(b) => Slot::Buffer(Buffer::computed(s).persistent(b.is_persistent())),
        })
    }
}

struct Find<'a> {
    name: &'a str,
    found: Option<Slot>,
    put: Option<Slot>,
}
impl VisitorMut for Find<'_> {
    fn parameter(&mut self, name: &str, p: &mut Parameter) -> Result<()> {
        if name == self.name {
            self.found = Some(Slot::Parameter(p.clone()));
            if let Some(Slot::Parameter(new)) = self.put.take() {
                *p = new;
            }
        }
        Ok(())
    }
    fn buffer(&mut self, name: &str, b: &mut Buffer) -> Result<()> {
        if name == self.name {
            self.found = Some(Slot::Buffer(b.clone()));
            if let Some(Slot::Buffer(new)) = self.put.take() {
                *b = new;
            }
        }
        Ok(())
    }
    fn module(&mut self, _: &str, _: &mut dyn Module) -> Result<()> {
        Ok(())
    }
}

/// What stands under a name of the module itself.
pub(super) fn get(m: &mut dyn Module, name: &str) -> Result<Option<Slot>> {
    let mut v = Find { name, found: None, put: None };
    traversal::visit_all_mut(m, &mut v)?;
    Ok(v.found)
}
/// Puts something of the same kind there.
pub(super) fn set(m: &mut dyn Module, name: &str, new: Slot) -> Result<()> {
    traversal::visit_all_mut(m, &mut Find { name, found: None, put: Some(new) })
}
/// The base, for what a computed weight is made of.
pub(super) fn base(m: &dyn Module) -> Result<&Base> {
    m.base().ok_or_else(|| traversal::no_base(&m.type_name()))
}
/// The source of a weight that is computed by one of type `S`, with `f` applied to it.
pub(super) fn source<S: Source + 'static, R>(slot: &Slot, f: impl FnOnce(&S) -> R) -> Option<R> {
    let source = match slot {
        Slot::Parameter(p) => p.source()?,
        Slot::Buffer(b) => b.source()?,
    };
    source.as_any().downcast_ref::<S>().map(f)
}
/// The same without the right to change the module: `name` is a field or was added at run time.
pub(super) fn fields(m: &dyn Module) -> Vec<(String, Parameter)> {
    struct All(Vec<(String, Parameter)>);
    impl<'a> crate::module::Visitor<'a> for All {
        fn parameter(&mut self, name: &str, p: &'a Parameter) {
            self.0.push((name.to_owned(), p.clone()));
        }
        fn buffer(&mut self, _: &str, _: &Buffer) {}
        fn module(&mut self, _: &str, _: &'a dyn Module) {}
    }
    let mut all = All(Vec::new());
    m.visit(&mut all);
    all.0.extend(m.base().map(Base::extra_parameters).unwrap_or_default());
    all.0
}
/// Copies values into a parameter without a record.
pub(super) fn overwrite(p: &Tensor, value: &Tensor) -> Result<()> {
    flambeau_autograd::no_grad(|| flambeau_core::ops::copy_(p, value, false))
}
