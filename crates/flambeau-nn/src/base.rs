//! What every library module has: the training flag, hooks, and buffers that were added at run time.

use crate::module::Module;
use crate::parameter::Buffer;
use flambeau_core::{Error, Result, Tensor, ensure};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock, Weak};

/// Runs before `forward`: may give other inputs.
pub type ForwardPreHook = dyn Fn(&dyn Module, &[Tensor]) -> Option<Vec<Tensor>> + Send + Sync;
/// Runs after `forward` with its inputs and outputs: may give other outputs.
pub type ForwardHook = dyn Fn(&dyn Module, &[Tensor], &[Tensor]) -> Option<Vec<Tensor>> + Send + Sync;

#[derive(Default)]
struct Hooks {
    any: AtomicBool,
    pre: RwLock<Vec<(u64, Arc<ForwardPreHook>)>>,
    post: RwLock<Vec<(u64, Arc<ForwardHook>)>>,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

fn read<T: Clone>(l: &RwLock<Vec<T>>) -> Vec<T> {
    l.read().unwrap_or_else(|e| e.into_inner()).clone()
}
fn with<T, R>(l: &RwLock<Vec<T>>, f: impl FnOnce(&mut Vec<T>) -> R) -> R {
    f(&mut l.write().unwrap_or_else(|e| e.into_inner()))
}

/// Removes a module's hook when asked to; dropping the handle leaves the hook in place.
#[doc(alias = "torch.utils.hooks.RemovableHandle")]
pub struct HookHandle {
    id: u64,
    hooks: Weak<Hooks>,
}
impl HookHandle {
    /// Removes the hook. Doing so twice does nothing.
    pub fn remove(&self) {
        if let Some(h) = self.hooks.upgrade() {
            // dropped after the locks are given back: they are the user's closures
            let pre = with(&h.pre, |l| l.iter().position(|e| e.0 == self.id).map(|i| l.remove(i)));
            let post = with(&h.post, |l| l.iter().position(|e| e.0 == self.id).map(|i| l.remove(i)));
            drop((pre, post));
        }
    }
}

/// Training flag, hooks and extra buffers of a module; changed through `&self`.
pub struct Base {
    training: AtomicBool,
    hooks: Arc<Hooks>,
    buffers: RwLock<Vec<(String, Buffer)>>,
}
impl Default for Base {
    fn default() -> Self {
        Self::new()
    }
}
impl Base {
    /// In training mode, without hooks.
    pub fn new() -> Base {
        Base { training: AtomicBool::new(true), hooks: Arc::default(), buffers: RwLock::default() }
    }
    /// Whether the module is in training mode.
    pub fn is_training(&self) -> bool {
        self.training.load(Ordering::Relaxed)
    }
    /// Sets the mode of this module alone; [`Module::train`] sets its children's too.
    pub fn set_training(&self, on: bool) {
        self.training.store(on, Ordering::Relaxed);
    }
    /// Whether any hook was ever registered: what the fast path asks.
    pub(crate) fn has_hooks(&self) -> bool {
        self.hooks.any.load(Ordering::Acquire)
    }
    pub(crate) fn pre_hooks(&self) -> Vec<(u64, Arc<ForwardPreHook>)> {
        read(&self.hooks.pre)
    }
    pub(crate) fn post_hooks(&self) -> Vec<(u64, Arc<ForwardHook>)> {
        read(&self.hooks.post)
    }
    /// Adds a hook that runs before `forward`.
    pub fn register_forward_pre_hook(
        &self,
        f: impl Fn(&dyn Module, &[Tensor]) -> Option<Vec<Tensor>> + Send + Sync + 'static,
    ) -> HookHandle {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        with(&self.hooks.pre, |l| l.push((id, Arc::new(f))));
        self.hooks.any.store(true, Ordering::Release);
        HookHandle { id, hooks: Arc::downgrade(&self.hooks) }
    }
    /// Adds a hook that runs after `forward`.
    pub fn register_forward_hook(
        &self,
        f: impl Fn(&dyn Module, &[Tensor], &[Tensor]) -> Option<Vec<Tensor>> + Send + Sync + 'static,
    ) -> HookHandle {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        with(&self.hooks.post, |l| l.push((id, Arc::new(f))));
        self.hooks.any.store(true, Ordering::Release);
        HookHandle { id, hooks: Arc::downgrade(&self.hooks) }
    }
    /// Buffers that were added at run time, in order.
    pub fn extra_buffers(&self) -> Vec<(String, Buffer)> {
        read(&self.buffers)
    }
    /// Adds a buffer under a name, or puts another in its place.
    ///
    /// # Errors
    /// Names that are empty or contain a dot.
    pub fn register_buffer(&self, name: &str, buffer: Buffer) -> Result<()> {
        if name.contains('.') {
            return Err(Error::new(flambeau_core::ErrorKind::Index, "buffer name can't contain \".\""));
        }
        ensure!(!name.is_empty(), Index, "buffer name can't be empty string \"\"");
        with(&self.buffers, |l| match l.iter_mut().find(|(n, _)| n == name) {
            Some((_, b)) => *b = buffer,
            None => l.push((name.to_owned(), buffer)),
        });
        Ok(())
    }
    /// Gives every extra buffer another tensor. `f` may run operators: no lock is held meanwhile.
    pub(crate) fn convert_buffers(&self, f: &mut dyn FnMut(&mut Buffer) -> Result<()>) -> Result<()> {
        for (name, mut b) in self.extra_buffers() {
            f(&mut b)?;
            self.register_buffer(&name, b)?;
        }
        Ok(())
    }
}
impl fmt::Debug for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Base").field("training", &self.is_training()).finish_non_exhaustive()
    }
}
