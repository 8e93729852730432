//! Tensors that stand for others: wherever an operator is given one, it works with the tensor that is computed for it at
//! that moment. Reparametrised weights are such tensors, and `functional_call` lets a module's own tensors stand for
//! others for the length of a call.
//!
//! A stand-in has sizes, dtype and device and no memory. [`Key::StandIn`] is above all other keys, so gradients, modes and
//! everything else see only what it stands for.

use crate::dispatch::op::OpInfo;
use crate::dispatch::registry;
use crate::dispatch::value::Value;
use crate::tensor::handle::Tensor;
use crate::types::deep;
use crate::types::error::{Error, Result};
use crate::types::keys::{Key, KeySet};
use crate::types::order;
use crate::types::order::RwLock;
use crate::types::thread_keys::{self, ExcludeGuard, IncludeGuard};
use crate::{DType, Device};
use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Computes the tensor that a stand-in stands for.
pub trait Source: Send + Sync {
    /// The tensor, at each use.
    ///
    /// # Errors
    /// Those of the computation; the operator that needs the tensor returns them.
    fn value(&self) -> Result<Tensor>;
    /// For those who know the type.
    fn as_any(&self) -> &dyn Any;
}

/// By the storage without bytes, which every alias of a stand-in keeps: while one lives, no other stand-in has its number.
static SOURCES: RwLock<Option<HashMap<usize, Weak<dyn Source>>>> = RwLock::new(None);

/// A tensor that stands for what its source computes, until this is dropped.
pub struct StandIn {
    tensor: Tensor,
    source: Arc<dyn Source>,
}
impl StandIn {
    /// A stand-in for tensors of that geometry.
    ///
    /// # Errors
    /// A device without memory.
    pub fn new(
        sizes: &[i64],
        strides: &[i64],
        dtype: DType,
        device: Device,
        source: Arc<dyn Source>,
    ) -> Result<StandIn> {
        let tensor = Tensor::hollow(sizes, strides, dtype, device)?;
        let gone = {
            let mut all = SOURCES.write().unwrap_or_else(|e| e.into_inner());
            all.get_or_insert_default().insert(tensor.storage().id(), Arc::downgrade(&source))
        };
        drop(gone);
        Ok(StandIn { tensor, source })
    }
    /// What operators are given.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }
    /// What computes its value.
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }
}
impl Drop for StandIn {
    fn drop(&mut self) {
        let gone = {
            let mut all = SOURCES.write().unwrap_or_else(|e| e.into_inner());
            all.as_mut().and_then(|m| m.remove(&self.tensor.storage().id()))
        };
        drop(gone);
    }
}

/// Whether a tensor stands for another one.
#[inline]
pub fn is_stand_in(t: &Tensor) -> bool {
    t.key_set().has(Key::StandIn)
}

/// The tensor that `t` stands for, or `t` itself.
///
/// # Errors
/// Those of its computation; a stand-in whose module is gone.
pub fn resolved(t: &Tensor) -> Result<Tensor> {
    let mut at = substitute(t).unwrap_or_else(|| t.clone());
    // what is computed may itself be a stand-in: weights that are tied, parametrisations of parametrised modules
    for _ in 0..64 {
        if !is_stand_in(&at) {
            return Ok(at);
        }
        let source = {
            let all = SOURCES.read().unwrap_or_else(|e| e.into_inner());
            all.as_ref().and_then(|m| m.get(&at.storage().id())).and_then(Weak::upgrade)
        };
        let source = source.ok_or_else(|| {
            Error::runtime(
                "this tensor stands for a computed weight, and the module that computes it is gone",
            )
        })?;
        let next = {
            let _computing = Computing::of(&at)?;
            order::none_held("a weight is computed");
            source.value()?
        };
        at = substitute(&next).unwrap_or(next);
    }
    Err(Error::runtime("a computed weight stands for itself"))
}

thread_local! {
    static SUBSTITUTES: RefCell<Vec<HashMap<usize, Tensor>>> = const { RefCell::new(Vec::new()) };
    /// The stand-ins that are being computed on this thread.
    static COMPUTING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}
fn substitute(t: &Tensor) -> Option<Tensor> {
    let find = |all: &RefCell<Vec<HashMap<usize, Tensor>>>| {
        all.borrow().iter().rev().find_map(|m| m.get(&t.id()).cloned())
    };
    SUBSTITUTES.try_with(find).ok().flatten()
}

/// While a stand-in is computed on this thread: a computation that needs its own result has none.
struct Computing(usize);
impl Computing {
    fn of(t: &Tensor) -> Result<Computing> {
        let id = t.storage().id();
        let begun = COMPUTING.try_with(|all| {
            let mut all = all.borrow_mut();
            let fresh = !all.contains(&id) && all.len() < DEEPEST;
            if fresh {
                all.push(id);
            }
            fresh
        });
        match begun {
            Ok(true) => Ok(Computing(id)),
            Ok(false) => Err(Error::runtime("a computed weight stands for itself")),
            Err(_) => Err(Error::runtime("a computed weight was used while its thread ended")),
        }
    }
}
impl Drop for Computing {
    fn drop(&mut self) {
        let _ = COMPUTING.try_with(|all| {
            let mut all = all.borrow_mut();
            if let Some(i) = all.iter().rposition(|id| *id == self.0) {
                all.remove(i);
            }
        });
    }
}
/// How many computed weights may need one another in turn.
const DEEPEST: usize = 64;

/// Runs `f`; meanwhile every operator call of this thread that is given the first tensor of a pair gets the second.
pub fn substituting<R>(pairs: &[(Tensor, Tensor)], f: impl FnOnce() -> R) -> R {
    struct Pop;
    impl Drop for Pop {
        fn drop(&mut self) {
            let gone = SUBSTITUTES.try_with(|all| all.borrow_mut().pop());
            drop(gone);
        }
    }
    let map: HashMap<usize, Tensor> = pairs.iter().map(|(from, to)| (from.id(), to.clone())).collect();
    let mut map = Some(map);
    let _ = SUBSTITUTES.try_with(|all| all.borrow_mut().extend(map.take()));
    let _pop = Pop;
    let _on = IncludeGuard::new(KeySet::of(Key::StandIn));
    f()
}

fn resolve(mut v: Value) -> Result<Value> {
    deep::leaves_mut(&mut v, |leaf| {
        if let Value::Tensor(t) = leaf {
            *t = resolved(t)?;
        }
        Ok(())
    })?;
    Ok(v)
}

/// Every operator, called with what its arguments stand for.
fn through(info: &'static OpInfo, _: Key, args: Vec<Value>) -> Result<Vec<Value>> {
    let args = args.into_iter().map(resolve).collect::<Result<Vec<_>>>()?;
    // within `substituting` the key stands on the thread, and every call would come back here
    let _below = ExcludeGuard::new(KeySet::of(Key::StandIn));
    info.call(&args)
}

/// Part of what core registers.
pub(crate) fn install() {
    registry::set_fallback(Key::StandIn, Some(through));
}
/// Whether this thread substitutes tensors.
pub fn is_substituting() -> bool {
    thread_keys::effective(KeySet::EMPTY).has(Key::StandIn)
}
