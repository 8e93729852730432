//! What operators do with tensors that are made of others ([`tensor::wrapper`](crate::tensor::wrapper)): each class of them
//! brings one function for all operators, as a mode does, and may be asked by name for methods of its own.

use crate::dispatch::object::Kwargs;
use crate::dispatch::op::OpInfo;
use crate::dispatch::registry;
use crate::dispatch::value::Value;
use crate::tensor::handle::Tensor;
use crate::types::error::{Error, Result};
use crate::types::keys::Key;
use crate::types::order::RwLock;
use std::cell::Cell;
use std::sync::OnceLock;

/// A class of wrappers.
pub struct Class {
    /// As [`Wrapped::class`](crate::tensor::wrapper::Wrapped::class) says.
    pub name: &'static str,
    /// Works an operator out; `None` where the class has nothing for it. Composites that no class claims run their bodies.
    pub call: fn(&'static OpInfo, &[Value]) -> Result<Option<Vec<Value>>>,
    /// Whether a composite must come here as one call.
    pub claims: fn(&'static OpInfo) -> bool,
    /// What is said of an operator that the class has nothing for.
    pub refuses: fn(&'static OpInfo, &[Value]) -> Error,
    /// A method or attribute by Python's name, where the class has its own: the wrapper, and the other arguments.
    pub named: fn(&str, &Tensor, &[Value], &Kwargs) -> Option<Result<Value>>,
}

static CLASSES: RwLock<Vec<&'static Class>> = RwLock::new(Vec::new());

/// Makes a class known.
pub fn register(class: &'static Class) {
    let mut all = CLASSES.write().unwrap_or_else(|e| e.into_inner());
    if all.iter().all(|c| c.name != class.name) {
        all.push(class);
    }
}
fn classes() -> Vec<&'static Class> {
    CLASSES.read().unwrap_or_else(|e| e.into_inner()).clone()
}
/// The class of a wrapper.
pub fn class_of(t: &Tensor) -> Option<&'static Class> {
    let name = t.wrapped()?.class();
    registry::init();
    classes().into_iter().find(|c| c.name == name)
}
fn first_class(args: &[Value]) -> Option<&'static Class> {
    args.iter().find_map(|v| match v {
        Value::Tensor(t) => class_of(t),
        v => v.items().and_then(first_class),
    })
}

thread_local! {
    /// The composite whose next call on this thread runs its body.
    static BODY: Cell<*const OpInfo> = const { Cell::new(std::ptr::null()) };
}
fn with_body<R>(info: &'static OpInfo, call: impl FnOnce() -> R) -> R {
    BODY.set(info);
    let r = call();
    // where the slot was filled, nobody asked
    BODY.set(std::ptr::null());
    r
}
/// Whether this call of a composite, which found its slot empty, is to run the body.
pub(super) fn takes_body(info: &'static OpInfo) -> bool {
    let wanted = std::ptr::eq(BODY.get(), info);
    if wanted {
        BODY.set(std::ptr::null());
    }
    wanted
}

static BODIES: OnceLock<fn(&'static OpInfo) -> bool> = OnceLock::new();
/// Says which operators run their bodies where tensors are batched ([`Key::Batched`]); the others go to the key's fallback.
pub fn set_batched_bodies(bodies: fn(&'static OpInfo) -> bool) {
    let _ = BODIES.set(bodies);
}
/// Whether an operator's body is its rule for batched tensors.
pub(super) fn batched_body(info: &'static OpInfo) -> bool {
    BODIES.get().map_or(info.composite, |f| f(info))
}

/// Every operator that is given a wrapper.
fn through(info: &'static OpInfo, _: Key, args: Vec<Value>) -> Result<Vec<Value>> {
    let Some(class) = first_class(&args) else {
        return Err(Error::missing(format!("{} of a wrapper whose class is not linked", info.name)));
    };
    if info.composite && !(class.claims)(info) {
        // nobody puts the body into the slot: a class that comes with its first tensor later may claim the operator
        return with_body(info, || info.call(&args));
    }
    match (class.call)(info, &args)? {
        Some(results) => Ok(results),
        None => Err((class.refuses)(info, &args)),
    }
}

/// Part of what core registers.
pub(crate) fn install() {
    registry::set_fallback(Key::Wrapper, Some(through));
}
