//! Modules while they are called: which of them are nodes, and which are around a node.

use super::deferred;
use super::recorder::current;
use super::wrapped;
use crate::node::Op;
use flambeau_core::dispatch::object::ObjectRef;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_library as library;
use flambeau_nn::internal::{ModuleObject, sharing};
use flambeau_nn::modules::module::{register_module_forward_hook, register_module_forward_pre_hook};
use flambeau_nn::{HookHandle, HookOptions, Module};
use std::any::TypeId;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::PoisonError;

/// Whether a module, at its path, is a node.
pub type Leaf = dyn Fn(&dyn Module, &str) -> bool;

/// Which object a module is, behind whatever points to it.
fn identity(m: &dyn Module) -> (usize, TypeId) {
    let m = m.as_module();
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
/// A layer of this library that holds no others, or that Python's tracer takes as a leaf.
pub(super) fn is_layer(m: &dyn Module) -> bool {
    let class = m.type_name();
    let container = matches!(&*class, "Sequential" | "ModuleList" | "ModuleDict");
    !container && m.as_run().is_some() && library::exists(&format!("torch.nn.{class}"))
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
    r.moved();
    if !is_leaf {
        w.open.borrow_mut().push(None);
        return None;
    }
    let raw: Vec<Value> = inputs.iter().map(|t| wrapped::unwrapped(&Value::Tensor(t.clone()))).collect();
    let given = tensors(&raw);
    r.quiet += 1;
    w.open.borrow_mut().push(Some(raw));
    // layers of numbers call operators and read nothing; others may read what they are given: masks, places, and whatever they like
    if is_layer(m) && matches!(inputs, [x] if x.dtype().is_floating()) {
        return None;
    }
    drop(r);
    if let Err(e) = deferred::settle(&recorder) {
        recorder.borrow_mut().error.get_or_insert(e);
    }
    Some(given)
}
fn after(m: &dyn Module, _: &[Tensor], outputs: &[Tensor]) -> Option<Vec<Tensor>> {
    let (w, recorder) = (watched()?, current()?);
    let opened = w.open.borrow_mut().pop()?;
    let mut r = recorder.borrow_mut();
    let top = r.stack.pop();
    r.moved();
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
    Ok(ModuleObject::of(sharing(run)?))
}
