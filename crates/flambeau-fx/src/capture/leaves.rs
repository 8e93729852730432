//! Modules while they are called: which of them are nodes, and which are around a node.

use super::recorder::current;
use super::wrapped;
use crate::node::Op;
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_nn::internal::{Memo, Run, call_module, visit_all_mut};
use flambeau_nn::modules::module::{register_module_forward_hook, register_module_forward_pre_hook};
use flambeau_nn::{Buffer, HookHandle, HookOptions, Module, Parameter, VisitorMut};
use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::PoisonError;

/// Whether a module, at its path, is a node.
pub type Leaf = dyn Fn(&dyn Module, &str) -> bool;

/// Which object a module is.
fn identity(m: &dyn Module) -> (usize, TypeId) {
    (std::ptr::from_ref(m).cast::<()>() as usize, m.as_any().type_id())
}

/// What is watched on this thread.
struct Watched {
    paths: Vec<((usize, TypeId), String)>,
    leaf: Rc<Leaf>,
    /// Modules that are being called: the inputs of those that are leaves.
    open: RefCell<Vec<Option<Vec<Value>>>>,
    /// How often each module was called.
    calls: RefCell<HashMap<String, usize>>,
}
thread_local! {
    static WATCHED: RefCell<Option<Rc<Watched>>> = const { RefCell::new(None) };
}
fn watched() -> Option<Rc<Watched>> {
    WATCHED.try_with(|w| w.borrow().clone()).ok().flatten()
}

/// Watches the modules of one that is being captured on this thread, until it is dropped.
pub struct Leaves {
    old: Option<Rc<Watched>>,
}
/// How many captures watch on all threads, and the hooks that serve them: once for all, or a module would be seen once for each.
static HOOKS: Mutex<(usize, Option<[HookHandle; 2]>)> = Mutex::new((0, None));
impl Leaves {
    /// Of a module and those in it; `leaf` says which of them become a node as a whole.
    pub fn watch(root: &dyn Module, leaf: Rc<Leaf>) -> Leaves {
        let paths = root.named_modules().into_iter().map(|(p, m)| (identity(m), p)).collect();
        let new = Rc::new(Watched { paths, leaf, open: RefCell::default(), calls: RefCell::default() });
        let old = WATCHED.try_with(|w| w.replace(Some(new))).ok().flatten();
        let mut hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
        hooks.0 += 1;
        if hooks.1.is_none() {
            hooks.1 = Some([
                register_module_forward_pre_hook(before),
                register_module_forward_hook(after, HookOptions::new()),
            ]);
        }
        Leaves { old }
    }
}
impl Drop for Leaves {
    fn drop(&mut self) {
        let none = {
            let mut hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
            hooks.0 -= 1;
            if hooks.0 == 0 { hooks.1.take() } else { None }
        };
        none.iter().flatten().for_each(HookHandle::remove);
        let old = self.old.take();
        let gone = WATCHED.try_with(|w| w.replace(old)).ok();
        drop(gone);
    }
}
fn tensors(all: &[Value]) -> Vec<Tensor> {
    all.iter().filter_map(|v| if let Value::Tensor(t) = v { Some(t.clone()) } else { None }).collect()
}
fn before(m: &dyn Module, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
    let (w, recorder) = (watched()?, current()?);
    let mut r = recorder.borrow_mut();
    let id = identity(m);
    let path = w.paths.iter().find(|(i, _)| *i == id).map(|(_, p)| p.clone());
    let is_leaf = path.as_ref().is_some_and(|p| !p.is_empty() && r.quiet == 0 && (w.leaf)(m, p));
    if let Some(p) = &path {
        let mut calls = w.calls.borrow_mut();
        let number = calls.entry(p.clone()).or_insert(0);
        let key = if *number == 0 { format!("L__self__{p}") } else { format!("L__self__{p}@{number}") };
        *number += 1;
        r.stack.push((key, p.clone(), m.type_name().into_owned()));
    } else {
        r.stack.push((String::new(), String::new(), m.type_name().into_owned()));
    }
    let raw: Vec<Value> = inputs.iter().map(|t| wrapped::unwrapped(&Value::Tensor(t.clone()))).collect();
    let mut open = w.open.borrow_mut();
    if is_leaf {
        r.quiet += 1;
        let given = tensors(&raw);
        open.push(Some(raw));
        return Some(given);
    }
    open.push(None);
    None
}
fn after(m: &dyn Module, _: &[Tensor], outputs: &[Tensor]) -> Option<Vec<Tensor>> {
    let (w, recorder) = (watched()?, current()?);
    let opened = w.open.borrow_mut().pop()?;
    let mut r = recorder.borrow_mut();
    let top = r.stack.pop();
    let inputs = opened?;
    r.quiet = r.quiet.saturating_sub(1);
    let (_, path, _) = top?;
    let _ = m;
    let raw: Vec<Value> = outputs.iter().map(|t| wrapped::unwrapped(&Value::Tensor(t.clone()))).collect();
    r.call(Op::CallModule, &path, &inputs, &[], &raw);
    let mut out = Vec::new();
    for t in tensors(&raw) {
        match wrapped::wrap(&t) {
            Ok(t) => out.push(t),
            Err(e) => {
                r.error = Some(e);
                return None;
            }
        }
    }
    Some(out)
}

/// A module of any type as an object.
struct LeafModule(Box<dyn Run>);
impl Object for LeafModule {
    fn type_name(&self) -> &'static str {
        self.0.class()
    }
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        call_module(&*self.0, args, kwargs)
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        let parameter = self.0.get_parameter(name).map(|p| Tensor::clone(&p));
        let found = parameter.or_else(|_| self.0.get_buffer(name).map(|b| Tensor::clone(b.as_ref())));
        match (found, name) {
            (Ok(t), _) => Ok(Value::Tensor(t)),
            (_, "training") => Ok(Value::Bool(self.0.is_training())),
            _ => Err(no_attribute(self.0.class(), name)),
        }
    }
    fn method(&self, name: &str, args: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        match (name, args) {
            ("train", [Value::Bool(on)]) => {
                self.0.set_training(*on);
                Ok(Vec::new())
            }
            _ => Err(no_attribute(self.0.class(), name)),
        }
    }
    fn repr(&self) -> String {
        self.0.repr()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
/// Puts the original's tensors into a copy.
struct Share<'a>(&'a dyn Module, String);
impl Share<'_> {
    fn at(&self, name: &str) -> String {
        if self.1.is_empty() { name.to_string() } else { format!("{}.{name}", self.1) }
    }
}
impl VisitorMut for Share<'_> {
    fn parameter(&mut self, name: &str, p: &mut Parameter) -> Result<()> {
        *p = self.0.get_parameter(&self.at(name))?;
        Ok(())
    }
    fn buffer(&mut self, name: &str, b: &mut Buffer) -> Result<()> {
        *b = self.0.get_buffer(&self.at(name))?;
        Ok(())
    }
    fn module(&mut self, name: &str, m: &mut dyn Module) -> Result<()> {
        let path = self.at(name);
        visit_all_mut(m, &mut Share(self.0, path))
    }
}
/// A module as an object that has the module's own parameters and buffers.
///
/// # Errors
/// A module that cannot be copied, or called without knowing its type.
pub fn object(m: &dyn Module) -> Result<ObjectRef> {
    let Some(run) = m.as_run() else {
        return Err(Error::missing(format!(
            "{} as a node: it takes or gives what is no tensor",
            m.type_name()
        )));
    };
    let mut copy = run.boxed_copy(&mut Memo::default())?;
    visit_all_mut(copy.as_module_mut(), &mut Share(m, String::new()))?;
    Ok(ObjectRef::new(LeafModule(copy)))
}
