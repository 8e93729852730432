//! Hooks of modules: who registered what, and calls that run them.

mod backward;

use crate::module::Module;
use crate::state::{IncompatibleKeys, LoadReport, StateDict};
use flambeau_core::{Error, Result, Tensor};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock, Weak};

/// Runs before `forward`: may give other inputs.
pub type ForwardPreHook = dyn Fn(&dyn Module, &[Tensor]) -> Option<Vec<Tensor>> + Send + Sync;
/// Runs after `forward` with its inputs and outputs: may give other outputs. An `always_call` hook gets no outputs where
/// `forward` panicked.
pub type ForwardHook = dyn Fn(&dyn Module, &[Tensor], &[Tensor]) -> Option<Vec<Tensor>> + Send + Sync;
/// Runs when the gradients of a module's outputs are known, and may replace them. It gets the module's class name: a
/// backward pass runs when nobody need have the module any more.
pub type BackwardPreHook = dyn Fn(&str, &[Option<Tensor>]) -> Option<Vec<Option<Tensor>>> + Send + Sync;
/// Runs when the gradients of a module's inputs are known, with them and those of its outputs; may replace the former.
pub type BackwardHook =
    dyn Fn(&str, &[Option<Tensor>], &[Option<Tensor>]) -> Option<Vec<Option<Tensor>>> + Send + Sync;
/// Runs before a module's state is collected: module, prefix (`"block."`), whether tensors keep their history.
pub type StateDictPreHook = dyn Fn(&dyn Module, &str, bool) + Send + Sync;
/// Runs after a module's state was collected: module, everything so far, prefix. May change the dict.
pub type StateDictHook = dyn Fn(&dyn Module, &mut StateDict, &str) + Send + Sync;
/// Runs before a module takes its state: module, the dict that is loaded (its changes count), prefix, the report.
pub type LoadStateDictPreHook = dyn Fn(&dyn Module, &mut StateDict, &str, &mut LoadReport) + Send + Sync;
/// Runs after a module and all below it took their state; may change what is reported.
pub type LoadStateDictHook = dyn Fn(&dyn Module, &mut IncompatibleKeys) + Send + Sync;

/// How a hook is registered.
#[derive(Clone, Copy, Debug, Default)]
pub struct HookOptions {
    prepend: bool,
    always_call: bool,
}
impl HookOptions {
    /// The documented defaults: after those that are there, and only when `forward` gave outputs.
    pub fn new() -> Self {
        Self::default()
    }
    /// Whether the hook runs before those that are there.
    pub fn prepend(mut self, on: bool) -> Self {
        self.prepend = on;
        self
    }
    /// Whether a forward hook also runs when `forward`, or a hook before it, panicked.
    pub fn always_call(mut self, on: bool) -> Self {
        self.always_call = on;
        self
    }
}

struct Entry<F: ?Sized> {
    id: u64,
    f: Arc<F>,
    always: bool,
}
impl<F: ?Sized> Clone for Entry<F> {
    fn clone(&self) -> Self {
        Entry { id: self.id, f: self.f.clone(), always: self.always }
    }
}
struct List<F: ?Sized>(RwLock<Vec<Entry<F>>>);
impl<F: ?Sized> List<F> {
    const fn new() -> Self {
        List(RwLock::new(Vec::new()))
    }
    fn all(&self) -> Vec<Entry<F>> {
        self.0.read().unwrap_or_else(|e| e.into_inner()).clone()
    }
    fn is_empty(&self) -> bool {
        self.0.read().unwrap_or_else(|e| e.into_inner()).is_empty()
    }
    fn add(&self, id: u64, f: Arc<F>, o: HookOptions) {
        let entry = Entry { id, f, always: o.always_call };
        let mut all = self.0.write().unwrap_or_else(|e| e.into_inner());
        if o.prepend {
            all.insert(0, entry);
        } else {
            all.push(entry);
        }
    }
    fn remove(&self, id: u64) -> Option<Entry<F>> {
        let mut all = self.0.write().unwrap_or_else(|e| e.into_inner());
        all.iter().position(|e| e.id == id).map(|i| all.remove(i))
    }
}

/// All hooks of one module, or those of all modules.
pub(crate) struct Hooks {
    /// Whether a call has to look at the lists at all.
    calls: AtomicBool,
    pre: List<ForwardPreHook>,
    post: List<ForwardHook>,
    backward_pre: List<BackwardPreHook>,
    full: List<BackwardHook>,
    regular: List<BackwardHook>,
    state_pre: List<StateDictPreHook>,
    state: List<StateDictHook>,
    load_pre: List<LoadStateDictPreHook>,
    load: List<LoadStateDictHook>,
}
static NEXT: AtomicU64 = AtomicU64::new(1);
/// Those of all modules.
pub(crate) static GLOBAL: Hooks = Hooks::new();

impl Default for Hooks {
    fn default() -> Self {
        Self::new()
    }
}
macro_rules! add {
    ($($name:ident: $list:ident, $t:ty, $calls:literal;)*) => {$(
        pub(crate) fn $name(&self, f: Arc<$t>, o: HookOptions) -> u64 {
            let id = NEXT.fetch_add(1, Ordering::Relaxed);
            self.$list.add(id, f, o);
            if $calls {
                self.calls.store(true, Ordering::Release);
            }
            id
        }
    )*};
}
impl Hooks {
    const fn new() -> Self {
        Hooks {
            calls: AtomicBool::new(false),
            pre: List::new(),
            post: List::new(),
            backward_pre: List::new(),
            full: List::new(),
            regular: List::new(),
            state_pre: List::new(),
            state: List::new(),
            load_pre: List::new(),
            load: List::new(),
        }
    }
    add! {
        add_pre: pre, ForwardPreHook, true;
        add_post: post, ForwardHook, true;
        add_backward_pre: backward_pre, BackwardPreHook, true;
        add_state_pre: state_pre, StateDictPreHook, false;
        add_state: state, StateDictHook, false;
        add_load_pre: load_pre, LoadStateDictPreHook, false;
        add_load: load, LoadStateDictHook, false;
    }
    /// A backward hook of either kind; `whose` ends the error text.
    pub(crate) fn add_backward(
        &self,
        f: Arc<BackwardHook>,
        full: bool,
        o: HookOptions,
        whose: &str,
    ) -> Result<u64> {
        let (list, other) = if full { (&self.full, &self.regular) } else { (&self.regular, &self.full) };
        if !other.is_empty() {
            return Err(Error::runtime(format!(
                "Cannot use both regular backward hooks and full backward hooks {whose}. Please use only one of them."
            )));
        }
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        list.add(id, f, o);
        self.calls.store(true, Ordering::Release);
        Ok(id)
    }
    fn remove(&self, id: u64) {
        // the lists' locks are given back before the user's closures are dropped
        drop(self.pre.remove(id));
        drop(self.post.remove(id));
        drop(self.backward_pre.remove(id));
        drop((self.full.remove(id), self.regular.remove(id)));
        drop((self.state_pre.remove(id), self.state.remove(id)));
        drop((self.load_pre.remove(id), self.load.remove(id)));
    }
    /// Whether calls of the module have hooks to run.
    #[inline]
    pub(crate) fn on_calls(&self) -> bool {
        self.calls.load(Ordering::Acquire)
    }
    pub(crate) fn run_state_pre(&self, m: &dyn Module, prefix: &str, keep_vars: bool) {
        self.state_pre.all().into_iter().for_each(|e| (e.f)(m, prefix, keep_vars));
    }
    pub(crate) fn run_state(&self, m: &dyn Module, state: &mut StateDict, prefix: &str) {
        self.state.all().into_iter().for_each(|e| (e.f)(m, state, prefix));
    }
    pub(crate) fn run_load_pre(&self, m: &dyn Module, s: &mut StateDict, prefix: &str, r: &mut LoadReport) {
        self.load_pre.all().into_iter().for_each(|e| (e.f)(m, s, prefix, r));
    }
    pub(crate) fn run_load(&self, m: &dyn Module, keys: &mut IncompatibleKeys) {
        self.load.all().into_iter().for_each(|e| (e.f)(m, keys));
    }
}

enum Of {
    Module(Weak<Hooks>),
    All,
}
/// Removes a module's hook when asked to; dropping the handle leaves the hook in place.
#[doc(alias = "torch.utils.hooks.RemovableHandle")]
pub struct HookHandle {
    id: u64,
    of: Of,
}
impl HookHandle {
    pub(crate) fn of(id: u64, hooks: &Arc<Hooks>) -> HookHandle {
        HookHandle { id, of: Of::Module(Arc::downgrade(hooks)) }
    }
    pub(crate) fn global(id: u64) -> HookHandle {
        HookHandle { id, of: Of::All }
    }
    /// Removes the hook. Doing so twice does nothing.
    pub fn remove(&self) {
        match &self.of {
            Of::Module(hooks) => {
                if let Some(h) = hooks.upgrade() {
                    h.remove(self.id);
                }
            }
            Of::All => {
                GLOBAL.remove(self.id);
                crate::modules::module::remove_registration_hook(self.id);
            }
        }
    }
}

/// The next number of a hook.
pub(crate) fn next_id() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn wrong(what: &str, m: &dyn Module) -> ! {
    panic!("a hook of {} gave another number of {what} than the module has", m.type_name())
}

/// A call with hooks: those of all modules before the module's own. `forward` computes outputs of inputs, `tensors` and
/// `of` are the outputs' two forms.
#[cold]
#[track_caller]
pub(crate) fn call<O>(
    m: &dyn Module,
    own: Option<&Hooks>,
    inputs: Vec<Tensor>,
    forward: &dyn Fn(&[Tensor]) -> O,
    tensors: fn(&O) -> Vec<Tensor>,
    of: fn(Vec<Tensor>) -> Option<O>,
) -> O {
    let lists: Vec<&Hooks> = std::iter::once(&GLOBAL).chain(own).collect();
    let post: Vec<Entry<ForwardHook>> = lists.iter().flat_map(|h| h.post.all()).collect();
    let mut called = Vec::new();
    let mut seen = inputs.clone();
    let inner = |called: &mut Vec<u64>| {
        let mut inputs = inputs;
        for e in lists.iter().flat_map(|h| h.pre.all()) {
            if let Some(new) = (e.f)(m, &inputs) {
                inputs = new;
            }
        }
        let backward = backward::Setup::of(m, &lists);
        let mut link = backward.as_ref().and_then(|b| b.inputs(&mut inputs));
        seen.clone_from(&inputs);
        let mut out = forward(&inputs);
        for e in &post {
            if e.always {
                called.push(e.id);
            }
            if let Some(new) = (e.f)(m, &inputs, &tensors(&out)) {
                out = of(new).unwrap_or_else(|| wrong("outputs", m));
            }
        }
        if let Some(b) = &backward {
            let mut all = tensors(&out);
            if b.outputs(&mut all, &mut link) {
                out = of(all).unwrap_or_else(|| wrong("outputs", m));
            }
        }
        out
    };
    if !post.iter().any(|e| e.always) {
        return inner(&mut called);
    }
    match catch_unwind(AssertUnwindSafe(|| inner(&mut called))) {
        Ok(out) => out,
        Err(panic) => {
            for e in post.iter().filter(|e| e.always && !called.contains(&e.id)) {
                // a second panic would hide the one that is under way
                let _ = catch_unwind(AssertUnwindSafe(|| (e.f)(m, &seen, &[])));
            }
            resume_unwind(panic)
        }
    }
}
