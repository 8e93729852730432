//! Hooks: lists that can lose entries at any time, and what of them sits on nodes.

use crate::tensor::geometry::fmt_sizes;
pub use crate::tensor::graph::RemovableHandle;
use crate::tensor::graph::{Edge, Node, NodeHeader, Remove, TensorHook};
use crate::types::order::{Mutex, MutexGuard, none_held};
use crate::{Error, Result, Tensor};
use smallvec::SmallVec;
use std::any::Any;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Where a gradient is put: shared with the node that fills it when a tensor that is not a leaf retains its gradient.
pub type GradSlot = Mutex<Option<Tensor>>;

fn lock<T: ?Sized>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// Runs after a leaf's gradient was added to; gets the leaf.
pub type PostAccumulateHook = dyn Fn(&Tensor) -> Result<()> + Send + Sync;
/// Gradients that a hook gives in place of others, if it does.
pub type NewGrads = Option<Vec<Option<Tensor>>>;
/// Runs before a node: may replace the gradients of its outputs. An error ends the backward pass.
pub type NodePreHook = dyn Fn(&[Option<Tensor>]) -> Result<NewGrads> + Send + Sync;
/// Runs after a node with the gradients of its inputs and of its outputs: may replace the former. An error ends the
/// backward pass.
pub type NodeHook = dyn Fn(&[Option<Tensor>], &[Option<Tensor>]) -> Result<NewGrads> + Send + Sync;
type TensorHookFn = dyn Fn(&Tensor) -> Option<Tensor> + Send + Sync;

static NEXT: AtomicU64 = AtomicU64::new(1);

struct Entry<F: ?Sized> {
    f: Mutex<Option<Arc<F>>>,
}
impl<F: ?Sized + Send + Sync> Remove for Entry<F> {
    fn remove(&self) {
        // dropped after the lock is given back: it is the user's closure
        let f = lock(&self.f).take();
        drop(f);
    }
}

/// Closures that can be removed at any time, by their handles.
pub struct HookList<F: ?Sized>(Vec<Arc<Entry<F>>>);
impl<F: ?Sized> Default for HookList<F> {
    fn default() -> Self {
        HookList(Vec::new())
    }
}
impl<F: ?Sized + Send + Sync + 'static> HookList<F> {
    /// Adds a closure behind the others.
    pub fn add(&mut self, f: Arc<F>) -> RemovableHandle {
        self.insert(self.0.len(), f)
    }
    /// Adds a closure before the others.
    pub fn add_first(&mut self, f: Arc<F>) -> RemovableHandle {
        self.insert(0, f)
    }
    fn insert(&mut self, at: usize, f: Arc<F>) -> RemovableHandle {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let e = Arc::new(Entry { f: Mutex::new(Some(f)) });
        let weak: Weak<dyn Remove> = Arc::downgrade(&(e.clone() as Arc<dyn Remove>));
        self.0.insert(at, e);
        RemovableHandle::new(id, weak)
    }
    /// The hooks that are still there, in their order.
    pub fn live(&mut self) -> SmallVec<[Arc<F>; 2]> {
        let mut out = SmallVec::new();
        self.0.retain(|e| match &*lock(&e.f) {
            Some(f) => {
                out.push(f.clone());
                true
            }
            None => false,
        });
        out
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What a node has beyond its formula.
#[derive(Default)]
pub struct NodeExtra {
    hooks: Mutex<NodeHooks>,
    /// Where the forward call was made, in anomaly mode.
    pub made: OnceLock<Made>,
}
/// The place of a forward call.
pub struct Made {
    pub location: Option<&'static Location<'static>>,
    pub backtrace: String,
}
#[derive(Default)]
struct NodeHooks {
    tensor: Vec<(u32, HookList<TensorHookFn>)>,
    retain: Vec<(u32, Weak<GradSlot>)>,
    pre: HookList<NodePreHook>,
    post: HookList<NodeHook>,
}

pub fn extra(node: &dyn Node) -> Option<&NodeExtra> {
    extra_in(node.header())
}
#[inline]
pub fn extra_in(h: &NodeHeader) -> Option<&NodeExtra> {
    h.extra.get()?.downcast_ref()
}
pub fn extra_or_init(node: &dyn Node) -> &NodeExtra {
    let any: &(dyn Any + Send + Sync) = &**node.header().extra.get_or_init(|| Box::new(NodeExtra::default()));
    any.downcast_ref().unwrap_or_else(|| unreachable!("only this crate fills a node's extra data"))
}

pub fn on_node(e: &Edge, hook: TensorHook) -> RemovableHandle {
    let mut hooks = lock(&extra_or_init(&**e.node()).hooks);
    let i = match hooks.tensor.iter().position(|(nr, _)| *nr == e.nr) {
        Some(i) => i,
        None => {
            hooks.tensor.push((e.nr, HookList::default()));
            hooks.tensor.len() - 1
        }
    };
    hooks.tensor[i].1.add(hook)
}
/// Puts the gradient that arrives at an edge into `slot`, after all other hooks.
pub fn retain(e: &Edge, slot: &Arc<GradSlot>) {
    lock(&extra_or_init(&**e.node()).hooks).retain.push((e.nr, Arc::downgrade(slot)));
}
/// Takes that back.
pub fn unretain(e: &Edge, slot: &Arc<GradSlot>) {
    if let Some(x) = extra(&**e.node()) {
        lock(&x.hooks).retain.retain(|(_, w)| !std::ptr::eq(w.as_ptr(), Arc::as_ptr(slot)));
    }
}
pub fn add_pre(node: &dyn Node, f: Arc<NodePreHook>) -> RemovableHandle {
    lock(&extra_or_init(node).hooks).pre.add(f)
}
pub fn add_post(node: &dyn Node, f: Arc<NodeHook>) -> RemovableHandle {
    lock(&extra_or_init(node).hooks).post.add(f)
}

/// Lets a list of hooks change one gradient.
pub fn run_tensor_hooks(hooks: &[Arc<TensorHookFn>], g: &mut Tensor) -> Result<()> {
    for h in hooks {
        none_held("a hook of a tensor runs");
        if let Some(new) = h(g) {
            check_replacement(g, &new)?;
            *g = new;
        }
    }
    Ok(())
}
fn check_replacement(old: &Tensor, new: &Tensor) -> Result<()> {
    if old.sizes() != new.sizes() {
        return Err(Error::autograd(format!(
            "hook has changed the size of value: {} instead of {}",
            fmt_sizes(new.sizes()),
            fmt_sizes(old.sizes())
        )));
    }
    if old.dtype() != new.dtype() {
        return Err(Error::autograd(format!(
            "hook has changed the type of value (was {} got {})",
            old.dtype().name(),
            new.dtype().name()
        )));
    }
    if old.device() != new.device() {
        return Err(Error::autograd("hook has changed the device of value"));
    }
    Ok(())
}

impl NodeExtra {
    /// Hooks of tensors, then retained gradients.
    pub fn before_capture(&self, grads: &mut [Option<Tensor>]) -> Result<()> {
        let (tensor, retain) = {
            let mut h = lock(&self.hooks);
            if h.tensor.is_empty() && h.retain.is_empty() {
                return Ok(());
            }
            let t: SmallVec<[(u32, SmallVec<[_; 2]>); 2]> =
                h.tensor.iter_mut().map(|(nr, list)| (*nr, list.live())).collect();
            h.retain.retain(|(_, w)| w.strong_count() > 0);
            (t, h.retain.clone())
        };
        for (nr, list) in &tensor {
            if let Some(Some(g)) = grads.get_mut(*nr as usize) {
                run_tensor_hooks(list, g)?;
            }
        }
        for (nr, slot) in retain {
            if let (Some(Some(g)), Some(slot)) = (grads.get(nr as usize), slot.upgrade()) {
                loop {
                    // a second backward adds, as for leaves; without the lock, since modes see the addition
                    let before = lock(&slot).clone();
                    let new = match &before {
                        Some(sum) => crate::derivatives::shorthand::add(sum, g)?,
                        None => g.clone(),
                    };
                    let mut now = lock(&slot);
                    let unchanged = match (&*now, &before) {
                        (None, None) => true,
                        (Some(a), Some(b)) => a.is_same(b),
                        _ => false,
                    };
                    if unchanged {
                        let old = now.replace(new);
                        drop(now);
                        drop(old);
                        break;
                    }
                }
            }
        }
        Ok(())
    }
    /// Hooks that run before the node itself.
    pub fn before_node(&self, grads: &mut [Option<Tensor>]) -> Result<()> {
        let pre = {
            let mut h = lock(&self.hooks);
            if h.pre.is_empty() {
                return Ok(());
            }
            h.pre.live()
        };
        for f in pre {
            none_held("a hook of a node runs");
            if let Some(new) = f(grads)? {
                replace_all(grads, new)?;
            }
        }
        Ok(())
    }
    pub fn has_post(&self) -> bool {
        !lock(&self.hooks).post.is_empty()
    }
    pub fn after_node(&self, inputs: &mut [Option<Tensor>], outputs: &[Option<Tensor>]) -> Result<()> {
        let post = lock(&self.hooks).post.live();
        for f in post {
            none_held("a hook of a node runs");
            if let Some(new) = f(inputs, outputs)? {
                replace_all(inputs, new)?;
            }
        }
        Ok(())
    }
}
fn replace_all(old: &mut [Option<Tensor>], new: Vec<Option<Tensor>>) -> Result<()> {
    if old.len() != new.len() {
        return Err(Error::autograd(format!(
            "hook has returned an incorrect number of values (got {}, but expected {})",
            new.len(),
            old.len()
        )));
    }
    for (o, n) in old.iter_mut().zip(new) {
        if let (Some(o), Some(n)) = (&*o, &n) {
            check_replacement(o, n)?;
        }
        *o = n;
    }
    Ok(())
}
