//! How modules are called in a program that is being captured, for those that shall keep it.

use crate::graph_signature::ArgumentSpec;
use crate::program::ModuleCallSignature;
use crate::specs;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_fx::pytree::TreeSpec;
use flambeau_fx::{Argument, GraphModule};
use flambeau_nn::modules::module::register_module_forward_hook;
use flambeau_nn::{HookHandle, HookOptions, Module};
use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::thread::{self, ThreadId};

/// A call: its name (`block`, `block@1`), and the tensors that went in and came out.
pub(crate) struct Call {
    fqn: String,
    pub inputs: Vec<Tensor>,
    pub outputs: Vec<Tensor>,
}
/// Watches the calls of some modules on this thread, until it is dropped.
pub(crate) struct Calls {
    seen: Arc<Mutex<Vec<Call>>>,
    hook: Option<HookHandle>,
}
/// Which object a module is.
fn identity(m: &dyn Module) -> (usize, TypeId) {
    (std::ptr::from_ref(m).cast::<()>().addr(), m.as_any().type_id())
}
impl Calls {
    /// # Errors
    /// A path at which no module stands.
    pub fn watch(root: &dyn Module, paths: &[String]) -> Result<Calls> {
        let seen: Arc<Mutex<Vec<Call>>> = Arc::default();
        if paths.is_empty() {
            return Ok(Calls { seen, hook: None });
        }
        let mut known: HashMap<(usize, TypeId), String> = HashMap::new();
        let all = root.named_modules();
        for path in paths {
            let Some((_, m)) = all.iter().find(|(p, _)| p == path && !p.is_empty()) else {
                return Err(Error::attribute(format!("{} has no module `{path}`", root.type_name())));
            };
            known.insert(identity(*m), path.clone());
        }
        let (notes, here): (_, ThreadId) = (seen.clone(), thread::current().id());
        let hook = move |m: &dyn Module, inputs: &[Tensor], outputs: &[Tensor]| {
            if let Some(path) = known.get(&identity(m)).filter(|_| thread::current().id() == here) {
                let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
                let before = notes.iter().filter(|c| c.fqn.split('@').next() == Some(path)).count();
                let fqn = if before == 0 { path.clone() } else { format!("{path}@{before}") };
                notes.push(Call { fqn, inputs: inputs.to_vec(), outputs: outputs.to_vec() });
            }
            None
        };
        Ok(Calls { seen, hook: Some(register_module_forward_hook(hook, HookOptions::new())) })
    }
    /// The calls, in order of their ends.
    pub fn seen(self) -> Vec<Call> {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
impl Drop for Calls {
    fn drop(&mut self) {
        self.hook.iter().for_each(HookHandle::remove);
    }
}

/// A call in terms of a captured graph.
pub(crate) struct Preserved {
    pub fqn: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    in_spec: TreeSpec,
    out_spec: TreeSpec,
}
impl Call {
    /// The call, whose tensors are these nodes.
    ///
    /// # Errors
    /// Tensors that are no nodes of the graph.
    pub fn preserved(&self, m: &GraphModule, inputs: &[Argument], outputs: &[Argument]) -> Result<Preserved> {
        let names = |l: &[Argument]| {
            l.iter()
                .map(|a| match a {
                    Argument::Node(n) if m.graph.has(*n) => Ok(m.graph.node(*n).name.clone()),
                    _ => Err(Error::missing(format!(
                        "a tensor of a call of `{}` that the graph does not have",
                        self.fqn
                    ))),
                })
                .collect::<Result<Vec<_>>>()
        };
        let tuple = |l: &[Tensor]| Value::Tuple(l.iter().cloned().map(Value::Tensor).collect());
        let given = Value::Tuple(vec![tuple(&self.inputs), Value::Dict(Vec::new())]);
        let gives = match &self.outputs[..] {
            [one] => Value::Tensor(one.clone()),
            all => tuple(all),
        };
        Ok(Preserved {
            fqn: self.fqn.clone(),
            inputs: names(inputs)?,
            outputs: names(outputs)?,
            in_spec: TreeSpec::flatten(&given, &mut Vec::new()),
            out_spec: TreeSpec::flatten(&gives, &mut Vec::new()),
        })
    }
}
impl Preserved {
    /// The signature in the program that was made of the captures.
    ///
    /// # Errors
    /// A tensor that the program has under another name: a constant that became an input.
    pub fn signature(&self, m: &GraphModule) -> Result<ModuleCallSignature> {
        let all = |l: &[String]| {
            l.iter()
                .map(|name| match m.graph.named(name) {
                    Some(_) => Ok(ArgumentSpec::Tensor(name.clone())),
                    None => {
                        Err(Error::missing(format!("a constant as a tensor of a call of `{}`", self.fqn)))
                    }
                })
                .collect::<Result<Vec<_>>>()
        };
        Ok(ModuleCallSignature {
            inputs: all(&self.inputs)?,
            outputs: all(&self.outputs)?,
            in_spec: self.in_spec.clone(),
            out_spec: self.out_spec.clone(),
            forward_arg_names: None,
            texts: (specs::text(&self.in_spec), specs::text(&self.out_spec)),
        })
    }
}
