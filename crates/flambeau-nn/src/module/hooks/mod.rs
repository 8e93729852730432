//! Hooks of modules: who registered what, and calls that run them.

mod backward;
pub(crate) mod global;

use crate::module::Module;
use crate::module::keywords::Keyword;
use crate::module::state_dict::{IncompatibleKeys, LoadReport, StateDict};
use flambeau_core::types::order::RwLock;
use flambeau_core::types::order::none_held;
use flambeau_core::{Error, Result, Tensor};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// What `forward` is called with, as hooks see it.
pub(crate) struct Inputs {
    pub tensors: Vec<Tensor>,
    pub keywords: Vec<Keyword>,
}
/// Inputs that a hook gives in place of others: tensors and keywords.
///
/// ```
/// use torch::nn::{self, NewInputs};
/// use torch::prelude::*;
/// let layer = nn::Linear::new(2, 1);
/// layer.register_forward_pre_hook_with_kwargs(|_, x, keywords| {
///     let doubled: NewInputs = (vec![&x[0] * 2.0], keywords.to_vec());
///     Ok(Some(doubled))
/// });
/// let x = torch::ones([1, 2]);
/// assert!(torch::allclose(&layer.call(&x), &layer.forward(&(&x * 2.0))));
/// ```
pub type NewInputs = (Vec<Tensor>, Vec<Keyword>);
/// Runs before `forward` with its tensors and keywords (`with_kwargs=True`): may give others.
pub type ForwardPreHookWithKwargs =
    dyn Fn(&dyn Module, &[Tensor], &[Keyword]) -> Result<Option<NewInputs>> + Send + Sync;
/// Runs after `forward` with its tensors and keywords and with its outputs (`with_kwargs=True`): may give other outputs.
pub type ForwardHookWithKwargs =
    dyn Fn(&dyn Module, &[Tensor], &[Keyword], &[Tensor]) -> Result<Option<Vec<Tensor>>> + Send + Sync;
/// Runs before `forward`: may give other inputs.
pub type ForwardPreHook = dyn Fn(&dyn Module, &[Tensor]) -> Option<Vec<Tensor>> + Send + Sync;
/// Runs after `forward` with its inputs and outputs: may give other outputs. An `always_call` hook gets no outputs where
/// `forward` failed.
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
    /// Whether a forward hook also runs when `forward`, or a hook before it, failed.
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
    /// Those that are there now: they run without the lock.
    fn all(&self) -> Vec<Entry<F>> {
        self.0.read().unwrap_or_else(|e| e.into_inner()).clone()
    }
    /// Another list of the same hooks.
    fn same(&self) -> Self {
        List(RwLock::new(self.all()))
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
    pre: List<ForwardPreHookWithKwargs>,
    post: List<ForwardHookWithKwargs>,
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
        add_pre_with_kwargs: pre, ForwardPreHookWithKwargs, true;
        add_post_with_kwargs: post, ForwardHookWithKwargs, true;
        add_backward_pre: backward_pre, BackwardPreHook, true;
        add_state_pre: state_pre, StateDictPreHook, false;
        add_state: state, StateDictHook, false;
        add_load_pre: load_pre, LoadStateDictPreHook, false;
        add_load: load, LoadStateDictHook, false;
    }
    /// A hook that sees no keywords; they stay as they are.
    pub(crate) fn add_pre(&self, f: Arc<ForwardPreHook>, o: HookOptions) -> u64 {
        let f = move |m: &dyn Module, x: &[Tensor], k: &[Keyword]| Ok(f(m, x).map(|new| (new, k.to_vec())));
        self.add_pre_with_kwargs(Arc::new(f), o)
    }
    /// A hook that sees no keywords.
    pub(crate) fn add_post(&self, f: Arc<ForwardHook>, o: HookOptions) -> u64 {
        let f = move |m: &dyn Module, x: &[Tensor], _: &[Keyword], y: &[Tensor]| Ok(f(m, x, y));
        self.add_post_with_kwargs(Arc::new(f), o)
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
    /// The same hooks, for a copy of the module. Handles remove those of the module that they were made for.
    pub(crate) fn same(&self) -> Hooks {
        Hooks {
            calls: AtomicBool::new(self.on_calls()),
            pre: self.pre.same(),
            post: self.post.same(),
            backward_pre: self.backward_pre.same(),
            full: self.full.same(),
            regular: self.regular.same(),
            state_pre: self.state_pre.same(),
            state: self.state.same(),
            load_pre: self.load_pre.same(),
            load: self.load.same(),
        }
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
///
/// ```
/// use torch::nn::{self, HookHandle};
/// use torch::prelude::*;
/// let layer = nn::Linear::new(2, 1);
/// let handle: HookHandle = layer.register_forward_hook(|_, _, y| Some(vec![torch::zeros_like(&y[0])]));
/// let x = torch::ones([1, 2]);
/// assert_eq!(layer.call(&x).item::<f32>(), 0.0);
/// handle.remove();
/// assert!(torch::equal(&layer.call(&x), &layer.forward(&x)));
/// ```
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
                crate::module::hooks::global::remove_registration_hook(self.id);
            }
        }
    }
}

/// The next number of a hook.
pub(crate) fn next_id() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The error of a hook that gave another number of outputs than the module has.
pub(crate) fn wrong_outputs(m: &dyn Module) -> Error {
    let text = "a hook gave another number of outputs than the module has";
    Error::type_(format!("{}.forward(): {text}", m.type_name()))
}

/// A call with hooks: those of all modules before the module's own. `forward` computes the tensors among the outputs of
/// inputs; those that hooks put in their place come back, if any did.
#[cold]
pub(crate) fn call(
    m: &dyn Module,
    own: Option<&Hooks>,
    mut inputs: Inputs,
    forward: &mut dyn FnMut(&Inputs) -> Result<Vec<Tensor>>,
) -> Result<Option<Vec<Tensor>>> {
    let lists: Vec<&Hooks> = std::iter::once(&GLOBAL).chain(own).collect();
    let post: Vec<_> = lists.iter().flat_map(|h| h.post.all()).collect();
    let mut called = Vec::new();
    let mut inner = || -> Result<Option<Vec<Tensor>>> {
        for e in lists.iter().flat_map(|h| h.pre.all()) {
            none_held("a hook of a module runs");
            if let Some(new) = (e.f)(m, &inputs.tensors, &inputs.keywords)? {
                (inputs.tensors, inputs.keywords) = new;
            }
        }
        let backward = backward::Setup::of(m, &lists);
        let mut link = match &backward {
            Some(b) => b.inputs(&mut inputs.tensors)?,
            None => None,
        };
        let mut out = forward(&inputs)?;
        let (count, mut changed) = (out.len(), false);
        for e in &post {
            if e.always {
                called.push(e.id);
            }
            none_held("a hook of a module runs");
            if let Some(new) = (e.f)(m, &inputs.tensors, &inputs.keywords, &out)? {
                if new.len() != count {
                    return Err(wrong_outputs(m));
                }
                (out, changed) = (new, true);
            }
        }
        if let Some(b) = &backward {
            changed |= b.outputs(&mut out, &mut link)?;
        }
        Ok(changed.then_some(out))
    };
    if !post.iter().any(|e| e.always) {
        return inner();
    }
    let result = catch_unwind(AssertUnwindSafe(&mut inner));
    if !matches!(result, Ok(Ok(_))) {
        for e in post.iter().filter(|e| e.always && !called.contains(&e.id)) {
            // a second failure would hide the one that is under way
            let _ = catch_unwind(AssertUnwindSafe(|| (e.f)(m, &inputs.tensors, &inputs.keywords, &[])));
        }
    }
    result.unwrap_or_else(|panic| resume_unwind(panic))
}
