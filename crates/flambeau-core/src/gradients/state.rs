//! What the engine keeps of a tensor beyond its first edge, made only where it is needed: the request for a gradient
//! and the gradient of a leaf, a history that in-place operations rewrote, hooks, the tangent of forward mode.

use crate::gradients::accumulate::AccumulateGrad;
use crate::gradients::grad_mode::is_inference_mode_enabled;
use crate::gradients::hooks::{self, GradSlot, HookList, PostAccumulateHook};
use crate::gradients::inplace;
use crate::tensor::geometry::fmt_sizes;
use crate::tensor::graph::{Edge, Node, Slot, TensorHook, arc_with};
use crate::types::deep::Deep;
use crate::types::keys::Key;
use crate::types::order::{Mutex, MutexGuard};
use crate::{Error, Result, Tensor};
use std::sync::{Arc, Weak};

/// How a view came about, where that restricts in-place operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Creation {
    #[default]
    Ordinary,
    /// With gradient mode off; the number is that of the base's history then.
    NoGrad(u64),
    /// In inference mode, likewise.
    Inference(u64),
    /// One of several views of a multi-output operator.
    MultiOutput,
    /// In, or returned as it was by, a custom function.
    CustomFunction,
}

/// The history of a tensor where it is not simply its first edge.
#[derive(Clone, Default)]
pub enum History {
    /// The first edge, if any.
    #[default]
    First,
    /// Rewritten by an in-place operation.
    Rebased(Edge),
    /// Cut by `detach_`.
    Cut,
}

/// A tensor's bits: a leaf that requires a gradient.
const REQUIRES: u8 = 1;
/// A tensor's bits: `history` or `creation` of its state is not the default. The fast paths look at the bits alone.
const SPECIAL: u8 = 2;

/// A tensor's bits: hooks were put on the tensor itself.
const HOOKED: u8 = 4;

/// Whether hooks were put on the tensor itself, rather than on its node.
#[inline(always)]
pub fn is_hooked(t: &Tensor) -> bool {
    t.engine_bits() & HOOKED != 0
}
/// Says that hooks were put on the tensor itself, once they are there.
pub fn mark_hooked(t: &Tensor) {
    t.set_engine_bits(HOOKED, true);
}
#[inline(always)]
fn requires(t: &Tensor) -> bool {
    t.engine_bits() & REQUIRES != 0
}
#[inline(always)]
fn is_special(t: &Tensor) -> bool {
    t.engine_bits() & SPECIAL != 0
}

#[derive(Default)]
pub struct State {
    /// Gradients may have gradients, and hooks hold tensors with hooks, without end.
    inner: Deep<Mutex<Inner>>,
    /// Apart from `inner`, since every recorded call on a leaf asks for it.
    accumulate: Slot<Option<Weak<AccumulateGrad>>>,
}
#[derive(Default)]
pub struct Inner {
    pub grad: Option<Tensor>,
    /// Set by `retain_grad`: then it has the place of `grad`.
    pub retained: Option<Arc<GradSlot>>,
    pub history: History,
    pub creation: Creation,
    /// With the level it belongs to.
    pub tangent: Option<(u64, Tensor)>,
    pub hooks: HookList<dyn Fn(&Tensor) -> Option<Tensor> + Send + Sync>,
    pub post_accumulate: HookList<PostAccumulateHook>,
}

impl State {
    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[inline]
pub fn get(t: &Tensor) -> Option<&State> {
    t.autograd_state()?.downcast_ref()
}
pub fn get_or_init(t: &Tensor) -> &State {
    let any = t.autograd_state_or_init(|| Box::new(State::default()));
    any.downcast_ref().unwrap_or_else(|| unreachable!("only this crate makes autograd states"))
}

/// The state where history or creation is not the default.
#[inline(always)]
fn special_state(t: &Tensor) -> Option<&State> {
    if is_special(t) { get(t) } else { None }
}

/// Calls `f` with the tensor's own history edge, leaving aside what its base went through.
#[inline]
fn with_own_edge<R>(t: &Tensor, f: impl FnOnce(Option<&Edge>) -> R) -> R {
    match special_state(t) {
        Some(s) => {
            let inner = s.lock();
            match &inner.history {
                History::First => f(t.first_edge()),
                History::Rebased(e) => f(Some(e)),
                History::Cut => f(None),
            }
        }
        None => f(t.first_edge()),
    }
}

/// The number of the base's history if it is newer than the view's own: then the view's history is stale. Numbers are
/// given out in creation order, so comparing them replaces any list of a base's views.
#[inline]
fn newer_base(t: &Tensor, base: &Tensor, own: Option<u64>) -> bool {
    if !base.key_set().has(Key::Autograd) {
        return false;
    }
    let Some(theirs) = with_own_edge(base, |e| e.map(|e| e.node().header().seq)) else { return false };
    match own {
        Some(n) => theirs > n,
        None => match creation(t) {
            Creation::NoGrad(n) | Creation::Inference(n) => theirs > n,
            _ => special_state(t).is_none_or(|s| !matches!(s.lock().history, History::Cut)),
        },
    }
}

pub fn creation(t: &Tensor) -> Creation {
    special_state(t).map_or(Creation::Ordinary, |s| s.lock().creation)
}
pub fn set_creation(t: &Tensor, c: Creation) {
    let s = get_or_init(t);
    s.lock().creation = c;
    t.set_engine_bits(SPECIAL, true);
}

/// The edge of a computed tensor (`grad_fn` and `output_nr`); `None` for leaves.
#[inline]
pub fn history(t: &Tensor) -> Option<Edge> {
    if !t.key_set().has(Key::Autograd) {
        return None;
    }
    match t.view_base() {
        None => with_own_edge(t, |e| e.cloned()),
        Some(base) => {
            let own = with_own_edge(t, |e| e.cloned());
            if newer_base(t, base, own.as_ref().map(|e| e.node().header().seq)) {
                Some(inplace::regenerate(t, base, own))
            } else {
                own
            }
        }
    }
}
/// Whether the tensor was computed from something that requires a gradient.
#[inline]
fn has_history(t: &Tensor) -> bool {
    match t.view_base() {
        None => with_own_edge(t, |e| e.is_some()),
        Some(base) => with_own_edge(t, |e| e.is_some()) || newer_base(t, base, None),
    }
}

/// Part of a graph: a leaf that requires a gradient, or computed from one.
#[inline]
pub fn requires_grad(t: &Tensor) -> bool {
    t.key_set().has(Key::Autograd) && (requires(t) || has_history(t))
}

/// Where the gradient of `t` goes: its history, or the accumulation node of a leaf that requires a gradient.
#[inline]
pub fn grad_edge(t: &Tensor) -> Option<Edge> {
    if !t.key_set().has(Key::Autograd) {
        return None;
    }
    if let Some(e) = history(t) {
        return Some(e);
    }
    if !requires(t) {
        return None;
    }
    Some(Edge::new(accumulate_node(t, get(t)?), 0))
}

/// The node that adds to a leaf's gradient. The node holds the leaf, so the leaf holds the node weakly: it lives as long
/// as some graph uses it.
pub fn accumulate_node(t: &Tensor, s: &State) -> Arc<dyn Node> {
    if let Some(n) = s.accumulate.with(|w| w.as_ref().and_then(Weak::upgrade)) {
        return n;
    }
    let new = arc_with(|| AccumulateGrad::new(t.clone()));
    let (n, _unused) = s.accumulate.with(|w| match w.as_ref().and_then(Weak::upgrade) {
        // another thread was faster
        Some(n) => (n, Some(new)),
        None => {
            *w = Some(Arc::downgrade(&new));
            (new, None)
        }
    });
    n
}

/// [`set_history`] of a tensor that an operator has just made: mostly nobody else has a handle.
#[inline]
pub fn set_history_of_new(t: &mut Tensor, e: Edge) {
    if let Some(e) = t.set_edge_of_new(e) {
        set_history(t, e);
    }
}

/// Gives `t` a history, its first or a new one.
#[inline]
pub fn set_history(t: &Tensor, e: Edge) {
    if t.first_edge().is_none() && !is_special(t) {
        t.set_first_edge(e);
        return;
    }
    rewrite_history(t, History::Rebased(e));
    t.set_key(Key::Autograd, true);
}

#[cold]
pub fn rewrite_history(t: &Tensor, h: History) {
    let s = get_or_init(t);
    let (old, moved) = {
        let mut inner = s.lock();
        let old = std::mem::replace(&mut inner.history, h);
        let moved = match (&inner.retained, &inner.history) {
            (Some(slot), History::Rebased(e)) => Some((slot.clone(), e.clone())),
            _ => None,
        };
        (old, moved)
    };
    t.set_engine_bits(SPECIAL, true);
    // retaining follows the tensor to its new history
    if let Some((slot, e)) = moved {
        let before = match &old {
            History::First => t.first_edge(),
            History::Rebased(e) => Some(e),
            History::Cut => None,
        };
        if let Some(before) = before {
            hooks::unretain(before, &slot);
        }
        hooks::retain(&e, &slot);
    }
    // the old history may be the last handle on a long graph: never dropped under the lock
    drop(old);
}

// --- what the methods of Tensor do -------------------------------------------------------------------------------

pub fn is_leaf(t: &Tensor) -> bool {
    !t.key_set().has(Key::Autograd) || !has_history(t)
}

pub fn set_requires_grad(t: &Tensor, on: bool) -> Result<()> {
    if !is_leaf(t) {
        if on {
            return Ok(());
        }
        return Err(Error::autograd(
            "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a \
             subgraph that doesn't require differentiation use var_no_grad = var.detach().",
        ));
    }
    if on && !t.dtype().is_floating() && !t.dtype().is_complex() {
        return Err(Error::autograd("only Tensors of floating point dtype can require gradients"));
    }
    if !on && get(t).is_none() {
        return Ok(());
    }
    if on && t.is_inference() && !is_inference_mode_enabled() {
        return Err(Error::runtime(
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.",
        ));
    }
    let s = get_or_init(t);
    t.set_engine_bits(REQUIRES, on);
    let keep = on || s.lock().tangent.is_some();
    t.set_key(Key::Autograd, keep);
    Ok(())
}

/// Lets a tensor without history require a gradient, if its dtype can.
pub fn make_leaf(t: &Tensor) {
    if crate::gradients::node::differentiable(t) {
        get_or_init(t);
        t.set_engine_bits(REQUIRES, true);
        t.set_key(Key::Autograd, true);
    }
}

pub fn grad(t: &Tensor) -> Option<Tensor> {
    let inner = get(t)?.lock();
    match &inner.retained {
        Some(slot) => slot.lock().unwrap_or_else(|e| e.into_inner()).clone(),
        None => inner.grad.clone(),
    }
}

pub fn put_grad(t: &Tensor, g: Option<Tensor>) {
    let s = get_or_init(t);
    let mut inner = s.lock();
    let old = match inner.retained.clone() {
        Some(slot) => std::mem::replace(&mut *slot.lock().unwrap_or_else(|e| e.into_inner()), g),
        None => std::mem::replace(&mut inner.grad, g),
    };
    drop(inner);
    drop(old);
}

/// Puts a gradient in the place of the one that was there before, unless another one is there by now: then it comes back.
pub fn exchange_grad(t: &Tensor, before: Option<&Tensor>, new: Tensor) -> Result<(), Tensor> {
    let s = get_or_init(t);
    let mut inner = s.lock();
    let slot = inner.retained.clone();
    let mut held = slot.as_ref().map(|s| s.lock().unwrap_or_else(|e| e.into_inner()));
    let place = held.as_deref_mut().unwrap_or(&mut inner.grad);
    let unchanged = match (&*place, before) {
        (None, None) => true,
        (Some(a), Some(b)) => a.is_same(b),
        _ => false,
    };
    if !unchanged {
        return Err(new);
    }
    let old = place.replace(new);
    drop(held);
    drop(inner);
    drop(old);
    Ok(())
}

pub fn set_grad(t: &Tensor, g: Option<Tensor>) -> Result<()> {
    if let Some(g) = &g {
        if g.is_same(t) {
            return Err(Error::runtime("can't assign Variable as its own grad"));
        }
        if g.dtype() != t.dtype() {
            return Err(Error::autograd(format!(
                "attempting to assign a gradient with dtype '{}' to a tensor with grad_dtype '{}'. The gradient must \
                 match the tensor's grad_dtype (defaults to the tensor's dtype).",
                g.dtype().scalar_type_name(),
                t.dtype().scalar_type_name()
            )));
        }
        if g.device() != t.device() {
            return Err(Error::device(format!(
                "attempting to assign a gradient with device type '{}' to a tensor with device type '{}'. Please \
                 ensure that the gradient and the tensor are on the same device",
                g.device(),
                t.device()
            )));
        }
        if g.sizes() != t.sizes() {
            return Err(Error::shape(format!(
                "attempting to assign a gradient of size '{}' to a tensor of size '{}'. Please ensure that the \
                 gradient and the tensor are the same size",
                fmt_sizes(g.sizes()),
                fmt_sizes(t.sizes())
            )));
        }
    }
    if g.is_none() && get(t).is_none() {
        return Ok(());
    }
    put_grad(t, g);
    Ok(())
}

pub fn retain_grad(t: &Tensor) -> Result<()> {
    if !requires_grad(t) {
        return Err(Error::autograd("can't retain_grad on Tensor that has requires_grad=False"));
    }
    let Some(e) = history(t) else { return Ok(()) };
    let s = get_or_init(t);
    let slot = {
        let mut inner = s.lock();
        if inner.retained.is_some() {
            return Ok(());
        }
        let slot = Arc::new(Mutex::new(inner.grad.take()));
        inner.retained = Some(slot.clone());
        slot
    };
    hooks::retain(&e, &slot);
    Ok(())
}

pub fn retains_grad(t: &Tensor) -> bool {
    !is_leaf(t) && get(t).is_some_and(|s| s.lock().retained.is_some())
}

pub fn detach_(t: &Tensor) -> Result<()> {
    if t.view_base().is_some() {
        return Err(Error::autograd(
            "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for \
             training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence detach_() \
             cannot be called on these gradients. To fix this error, please refer to the Optimizer.zero_grad() function in \
             torch/optim/optimizer.py as the solution.",
        ));
    }
    if !t.key_set().has(Key::Autograd) {
        return Ok(());
    }
    let s = get_or_init(t);
    t.set_engine_bits(REQUIRES, false);
    rewrite_history(t, History::Cut);
    let keep = s.lock().tangent.is_some();
    t.set_key(Key::Autograd, keep);
    Ok(())
}

pub fn register_hook(t: &Tensor, hook: TensorHook) -> Result<hooks::RemovableHandle> {
    if !requires_grad(t) {
        return Err(Error::autograd("cannot register a hook on a tensor that doesn't require gradient"));
    }
    Ok(match history(t) {
        Some(e) => hooks::on_node(&e, hook),
        None => {
            let handle = get_or_init(t).lock().hooks.add(hook);
            mark_hooked(t);
            handle
        }
    })
}
