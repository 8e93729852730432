//! Which modules run (`torch.utils.module_tracker`).

use flambeau_autograd::{MultiGrad, RemovableHandle, register_multi_grad_hook};
use flambeau_core::Tensor;
use flambeau_core::types::order::Mutex;
use flambeau_nn::modules::module::{register_module_forward_hook, register_module_forward_pre_hook};
use flambeau_nn::{HookHandle, HookOptions, Module};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError};
use std::thread::ThreadId;

/// The name of what is in no module.
const GLOBAL: &str = "Global";

/// Knows by name which modules run, or which ones' backward passes, on the thread that made it, until it is dropped.
///
/// A module that is called on its own is named as its class, one within it by its place: `Sequential.0`.
///
/// ```
/// use torch::nn;
/// use torch::prelude::*;
/// use torch::utils::module_tracker::ModuleTracker;
/// let tracker = ModuleTracker::new();
/// nn::Linear::new(2, 2).call(&torch::ones([1, 2]));
/// assert_eq!(tracker.parents(), ["Global"]);
/// ```
#[doc(alias = "torch.utils.module_tracker.ModuleTracker")]
pub struct ModuleTracker {
    state: Arc<State>,
    hooks: [HookHandle; 2],
}
struct State {
    thread: ThreadId,
    inner: Mutex<Inner>,
}
#[derive(Default)]
struct Inner {
    parents: BTreeSet<String>,
    /// Names by the module's address.
    known: HashMap<usize, String>,
    /// The backward run that `parents` speaks of.
    run: Option<u64>,
    on_gradients: Vec<RemovableHandle>,
}
impl Inner {
    /// A backward run that is over leaves nothing.
    fn fresh(&mut self) {
        if self.run.is_some() && self.run != flambeau_autograd::current_run() {
            self.parents.clear();
            self.run = None;
        }
    }
    fn name(&mut self, m: &dyn Module) -> String {
        let id = address(m);
        let name = self.known.get(&id).cloned().unwrap_or_else(|| m.type_name().into_owned());
        self.known.insert(id, name.clone());
        for (child, sub) in m.named_children() {
            self.known.entry(address(sub)).or_insert_with(|| format!("{name}.{child}"));
        }
        name
    }
}
fn address(m: &dyn Module) -> usize {
    std::ptr::from_ref(m).cast::<()>() as usize
}
impl State {
    fn with<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.fresh();
        f(&mut inner)
    }
    fn here(&self) -> bool {
        std::thread::current().id() == self.thread
    }
    fn on_gradients(self: &Arc<Self>, tensors: &[Tensor], name: String, enter: bool) {
        let state = self.clone();
        let hook = register_multi_grad_hook(
            tensors,
            move |_| {
                let run = flambeau_autograd::current_run();
                state.with(|i| {
                    i.run = run;
                    if enter { i.parents.insert(name.clone()) } else { i.parents.remove(&name) }
                });
            },
            MultiGrad::All,
        );
        if let Ok(h) = hook {
            self.with(|i| i.on_gradients.push(h));
        }
    }
}
fn with_gradients(tensors: &[Tensor]) -> Vec<Tensor> {
    tensors.iter().filter(|t| t.requires_grad()).cloned().collect()
}
impl Default for ModuleTracker {
    fn default() -> Self {
        Self::new()
    }
}
impl ModuleTracker {
    /// Begins.
    pub fn new() -> ModuleTracker {
        let state = Arc::new(State { thread: std::thread::current().id(), inner: Mutex::default() });
        let (before, after) = (state.clone(), state.clone());
        let pre = register_module_forward_pre_hook(move |m: &dyn Module, inputs: &[Tensor]| {
            if before.here() {
                let name = before.with(|i| {
                    let name = i.name(m);
                    i.parents.insert(name.clone());
                    name
                });
                let wanted = with_gradients(inputs);
                if !wanted.is_empty() {
                    before.on_gradients(&wanted, name, false);
                }
            }
            None
        });
        let hook = move |m: &dyn Module, _: &[Tensor], outputs: &[Tensor]| {
            if after.here() {
                let name = after.with(|i| {
                    let name = i.name(m);
                    i.parents.remove(&name);
                    name
                });
                let wanted = with_gradients(outputs);
                if !wanted.is_empty() {
                    after.on_gradients(&wanted, name, true);
                }
            }
            None
        };
        let post = register_module_forward_hook(hook, HookOptions::new());
        ModuleTracker { state, hooks: [pre, post] }
    }
    /// The modules that run, and `Global`.
    pub fn parents(&self) -> Vec<String> {
        let inner = self.state.with(|i| i.parents.clone());
        std::iter::once(GLOBAL.to_string()).chain(inner).collect()
    }
    /// Whether this thread is in a backward pass.
    pub fn is_bw(&self) -> bool {
        flambeau_autograd::current_run().is_some()
    }
}
impl Drop for ModuleTracker {
    fn drop(&mut self) {
        self.hooks.iter().for_each(HookHandle::remove);
        // what the hooks hold may do anything when it is dropped
        let hooks = self.state.with(|i| std::mem::take(&mut i.on_gradients));
        hooks.iter().for_each(RemovableHandle::remove);
    }
}
