//! What stands in graphs for modules of a program's own: those that its functions exchange, and those that are graphs by themselves.

use super::custom_config::StandaloneModuleConfigEntry;
use flambeau_core::dispatch::object::{Kwargs, Object, no_attribute};
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_fx::{GraphModule, Node, Op};
use flambeau_nn::{Call as _, Layer, Module};
use std::any::Any;

trait Called: Send + Sync {
    fn module(&self) -> &dyn Module;
    fn called(&self, x: &Tensor) -> Result<Tensor>;
}
struct Of<M>(M);
impl<M: Layer + 'static> Called for Of<M> {
    fn module(&self) -> &dyn Module {
        &self.0
    }
    fn called(&self, x: &Tensor) -> Result<Tensor> {
        self.0.try_call(x)
    }
}
/// A module of a program's own, which the library knows as a layer alone.
pub(super) struct Own(Box<dyn Called>);
impl Own {
    pub(super) fn new(m: impl Layer + 'static) -> Own {
        Own(Box::new(Of(m)))
    }
    pub(super) fn module(&self) -> &dyn Module {
        self.0.module()
    }
}
impl Object for Own {
    fn type_name(&self) -> &'static str {
        "Module"
    }
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        match (args, kwargs) {
            ([Value::Tensor(x)], []) => Ok(vec![self.0.called(x)?.into()]),
            _ => Err(Error::type_(format!("{} takes one tensor", self.module().type_name()))),
        }
    }
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        match name {
            "forward" => self.call(args, kwargs),
            "train" | "eval" => {
                self.module().set_training(name == "train" && !matches!(args, [Value::Bool(false)]));
                Ok(Vec::new())
            }
            _ => Err(no_attribute("Module", name)),
        }
    }
    fn repr(&self) -> String {
        format!("{}()", self.module().type_name())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A module that is to be prepared by itself, as it was captured.
pub(super) struct Standalone {
    pub(super) graph: GraphModule,
    pub(super) class: String,
    pub(super) entry: StandaloneModuleConfigEntry,
}
impl Object for Standalone {
    fn type_name(&self) -> &'static str {
        "GraphModule"
    }
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        Object::call(&self.graph, args, kwargs)
    }
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        Object::method(&self.graph, name, args, kwargs)
    }
    fn repr(&self) -> String {
        Object::repr(&self.graph)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Looks at the object that a node calls, if it is of that kind.
pub(super) fn object<T: Object, R>(m: &GraphModule, n: Node, f: impl FnOnce(&T) -> R) -> Option<R> {
    let d = m.graph.node(n);
    if d.op != Op::CallModule {
        return None;
    }
    m.submodule(&d.target).ok()?.downcast::<T>().map(f)
}
