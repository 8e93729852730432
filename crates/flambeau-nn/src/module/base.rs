//! What every library module has: the training flag, hooks, and what was added at run time.

use crate::module::Module;
use crate::module::hooks::{
    BackwardHook, BackwardPreHook, ForwardHook, ForwardHookWithKwargs, ForwardPreHook,
    ForwardPreHookWithKwargs, HookHandle, HookOptions, Hooks, LoadStateDictHook, LoadStateDictPreHook,
    NewInputs, StateDictHook, StateDictPreHook,
};
use crate::module::keywords::Keyword;
use crate::parameter::{Buffer, Parameter};
use flambeau_core::types::order::RwLock;
use flambeau_core::{Error, ErrorKind, Result, ensure};
use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A parameter or buffer that was added at run time. What computes a weight of it holds the same cell, and so follows
/// conversions of the module.
pub(crate) type Cell<T> = Arc<RwLock<T>>;
/// What stands in a cell.
pub(crate) fn get<T: Clone>(c: &RwLock<T>) -> T {
    c.read().unwrap_or_else(|e| e.into_inner()).clone()
}
/// Puts something into it.
pub(crate) fn put<T>(c: &RwLock<T>, v: T) {
    let old = std::mem::replace(&mut *c.write().unwrap_or_else(|e| e.into_inner()), v);
    drop(old);
}

/// Named things in the order in which they were added; `None` where a name stands for nothing.
type Extras<T> = RwLock<Vec<(String, Cell<T>)>>;
fn list<T>(e: &Extras<T>) -> Vec<(String, Cell<T>)> {
    e.read().unwrap_or_else(|e| e.into_inner()).clone()
}
fn set<T>(e: &Extras<T>, name: &str, v: T) {
    let mut all = e.write().unwrap_or_else(|e| e.into_inner());
    match all.iter().find(|(n, _)| n == name) {
        Some((_, c)) => put(c, v),
        None => all.push((name.to_owned(), Arc::new(RwLock::new(v)))),
    }
}
fn remove<T: Clone>(e: &Extras<T>, name: &str) -> Option<T> {
    let mut all = e.write().unwrap_or_else(|e| e.into_inner());
    let i = all.iter().position(|(n, _)| n == name)?;
    Some(get(&all.remove(i).1))
}
fn find<T>(e: &Extras<T>, name: &str) -> Option<Cell<T>> {
    let all = e.read().unwrap_or_else(|e| e.into_inner());
    all.iter().find(|(n, _)| n == name).map(|(_, c)| c.clone())
}

/// Training flag, hooks, and parameters, buffers and modules that were added at run time. All but modules are added
/// through `&self`.
///
/// ```
/// use torch::nn::{self, Base, Buffer};
/// use torch::prelude::*;
/// #[derive(Debug, Module)]
/// struct Counted {
///     base: Base,
///     linear: nn::Linear,
/// }
/// let m = Counted { base: Base::new(), linear: nn::Linear::new(2, 1) };
/// m.base.register_buffer("calls", Buffer::new(torch::zeros(())))?;
/// m.linear.register_forward_hook(|_, _, _| None);
/// assert!(m.state_dict().contains_key("calls"));
/// # Ok::<(), torch::Error>(())
/// ```
pub struct Base {
    training: AtomicBool,
    hooks: OnceLock<Arc<Hooks>>,
    parameters: Extras<Parameter>,
    buffers: Extras<Buffer>,
    modules: Vec<(String, Box<dyn Module>)>,
    notes: OnceLock<RwLock<Vec<Note>>>,
}
/// A value of any type under a name.
type Note = (&'static str, Arc<dyn Any + Send + Sync>);
impl Default for Base {
    fn default() -> Self {
        Self::new()
    }
}
/// A method that adds a hook of each kind.
macro_rules! register {
    ($($(#[$doc:meta])* $name:ident, $with:ident, $add:ident, $t:ty, [$($f:tt)*];)*) => {$(
        $(#[$doc])*
        pub fn $name(&self, f: impl $($f)* + Send + Sync + 'static) -> HookHandle {
            self.$with(f, HookOptions::new())
        }
        #[doc = concat!("[`Base::", stringify!($name), "`] with its options.")]
        pub fn $with(&self, f: impl $($f)* + Send + Sync + 'static, options: HookOptions) -> HookHandle {
            let hooks = self.hooks.get_or_init(Arc::default);
            let f: Arc<$t> = Arc::new(f);
            HookHandle::of(hooks.$add(f, options), hooks)
        }
    )*};
}
use flambeau_core::Tensor;
type Grads = Option<Vec<Option<Tensor>>>;
impl Base {
    /// In training mode, without hooks.
    pub fn new() -> Base {
        Base {
            training: AtomicBool::new(true),
            hooks: OnceLock::new(),
            parameters: RwLock::default(),
            buffers: RwLock::default(),
            modules: Vec::new(),
            notes: OnceLock::new(),
        }
    }
    /// In the same mode, with the same hooks, and without what was added.
    pub(crate) fn with_same_hooks(&self) -> Base {
        let new = Base::new();
        new.set_training(self.is_training());
        if let Some(h) = self.hooks() {
            new.hooks.get_or_init(|| Arc::new(h.same()));
        }
        new
    }
    /// Whether the module is in training mode.
    pub fn is_training(&self) -> bool {
        self.training.load(Ordering::Relaxed)
    }
    /// Sets the mode of this module alone; [`Module::train`] sets its children's too.
    pub fn set_training(&self, on: bool) {
        self.training.store(on, Ordering::Relaxed);
    }
    /// All hooks, if there ever was one.
    pub(crate) fn hooks(&self) -> Option<&Hooks> {
        self.hooks.get().map(|h| &**h)
    }
    register! {
        /// Adds a hook that runs before `forward` and may give other inputs.
        register_forward_pre_hook, register_forward_pre_hook_with, add_pre, ForwardPreHook,
            [Fn(&dyn Module, &[Tensor]) -> Option<Vec<Tensor>>];
        /// Adds a hook that runs after `forward` and may give other outputs.
        register_forward_hook, register_forward_hook_with, add_post, ForwardHook,
            [Fn(&dyn Module, &[Tensor], &[Tensor]) -> Option<Vec<Tensor>>];
        /// Adds a hook that runs before `forward` with its tensors and keywords, and may give others
        /// (`with_kwargs=True`). Keywords are the fields of argument structs like [`MultiheadAttentionArgs`](crate::MultiheadAttentionArgs)
        /// that differ from their defaults. An error is the call's.
        register_forward_pre_hook_with_kwargs, register_forward_pre_hook_with_kwargs_with, add_pre_with_kwargs,
            ForwardPreHookWithKwargs, [Fn(&dyn Module, &[Tensor], &[Keyword]) -> Result<Option<NewInputs>>];
        /// Adds a hook that runs after `forward` with its tensors, keywords and outputs, and may give other outputs
        /// (`with_kwargs=True`). An error is the call's.
        register_forward_hook_with_kwargs, register_forward_hook_with_kwargs_with, add_post_with_kwargs,
            ForwardHookWithKwargs,
            [Fn(&dyn Module, &[Tensor], &[Keyword], &[Tensor]) -> Result<Option<Vec<Tensor>>>];
        /// Adds a hook that sees the gradients of the outputs before they go through the module, and may replace them.
        register_full_backward_pre_hook, register_full_backward_pre_hook_with, add_backward_pre, BackwardPreHook,
            [Fn(&str, &[Option<Tensor>]) -> Grads];
        /// Adds a hook that runs before the state is collected.
        register_state_dict_pre_hook, register_state_dict_pre_hook_with, add_state_pre, StateDictPreHook,
            [Fn(&dyn Module, &str, bool)];
        /// Adds a hook that runs when the state was collected, and may change it.
        register_state_dict_post_hook, register_state_dict_post_hook_with, add_state, StateDictHook,
            [Fn(&dyn Module, &mut crate::StateDict, &str)];
        /// Adds a hook that runs before the module takes its state, and may change what is loaded.
        register_load_state_dict_pre_hook, register_load_state_dict_pre_hook_with, add_load_pre, LoadStateDictPreHook,
            [Fn(&dyn Module, &mut crate::StateDict, &str, &mut crate::LoadReport)];
        /// Adds a hook that runs after module and children took their state, and may change what is reported.
        register_load_state_dict_post_hook, register_load_state_dict_post_hook_with, add_load, LoadStateDictHook,
            [Fn(&dyn Module, &mut crate::IncompatibleKeys)];
    }
    fn backward_hook(&self, f: Arc<BackwardHook>, full: bool, o: HookOptions) -> Result<HookHandle> {
        let hooks = self.hooks.get_or_init(Arc::default);
        Ok(HookHandle::of(hooks.add_backward(f, full, o, "on a single Module")?, hooks))
    }
    /// Adds a hook that sees the gradients of inputs and outputs and may replace the former.
    ///
    /// # Errors
    /// The module has hooks of the other kind.
    pub fn register_full_backward_hook(
        &self,
        f: impl Fn(&str, &[Option<Tensor>], &[Option<Tensor>]) -> Grads + Send + Sync + 'static,
        options: HookOptions,
    ) -> Result<HookHandle> {
        self.backward_hook(Arc::new(f), true, options)
    }
    /// Adds a hook to the last step of the module: it sees that step's gradients, which are those of the inputs only if it
    /// is the only one. [`Base::register_full_backward_hook`] always sees the inputs'.
    ///
    /// # Errors
    /// The module has hooks of the other kind.
    pub fn register_backward_hook(
        &self,
        f: impl Fn(&str, &[Option<Tensor>], &[Option<Tensor>]) -> Grads + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        self.backward_hook(Arc::new(f), false, HookOptions::new())
    }

    /// What somebody noted about the module under a name: no part of its state, but of copies of it.
    #[doc(hidden)]
    pub fn note<T: Clone + 'static>(&self, name: &str) -> Option<T> {
        let all = self.notes.get()?.read().unwrap_or_else(|e| e.into_inner());
        all.iter().find(|(n, _)| *n == name)?.1.downcast_ref().cloned()
    }
    /// Notes a value, in the place of the one of that name.
    #[doc(hidden)]
    pub fn set_note(&self, name: &'static str, v: impl Any + Send + Sync) {
        let mut all = self.notes.get_or_init(RwLock::default).write().unwrap_or_else(|e| e.into_inner());
        let old = all.iter().position(|(n, _)| *n == name).map(|i| all.swap_remove(i));
        all.push((name, Arc::new(v)));
        drop(all);
        drop(old);
    }
    /// Takes a note away.
    #[doc(hidden)]
    pub fn remove_note(&self, name: &str) {
        if let Some(all) = self.notes.get() {
            let mut all = all.write().unwrap_or_else(|e| e.into_inner());
            let old = all.iter().position(|(n, _)| *n == name).map(|i| all.swap_remove(i));
            drop(all);
            drop(old);
        }
    }
    /// Notes what another module has noted.
    pub(crate) fn take_notes(&self, of: &Base) {
        if let Some(all) = of.notes.get() {
            let all = all.read().unwrap_or_else(|e| e.into_inner()).clone();
            *self.notes.get_or_init(RwLock::default).write().unwrap_or_else(|e| e.into_inner()) = all;
        }
    }
    /// Buffers that were added at run time, in order.
    pub fn extra_buffers(&self) -> Vec<(String, Buffer)> {
        list(&self.buffers).into_iter().map(|(n, c)| (n, get(&c))).collect()
    }
    /// Parameters that were added at run time, in order.
    pub fn extra_parameters(&self) -> Vec<(String, Parameter)> {
        list(&self.parameters).into_iter().map(|(n, c)| (n, get(&c))).collect()
    }
    /// Modules that were added at run time, in order.
    pub fn extra_modules(&self) -> impl Iterator<Item = (&str, &dyn Module)> {
        self.modules.iter().map(|(n, m)| (n.as_str(), m.as_module()))
    }
    /// A parameter that was added at run time.
    pub fn parameter(&self, name: &str) -> Option<Parameter> {
        find(&self.parameters, name).map(|c| get(&c))
    }
    /// A buffer that was added at run time.
    pub fn buffer(&self, name: &str) -> Option<Buffer> {
        find(&self.buffers, name).map(|c| get(&c))
    }
    /// A module that was added at run time.
    pub fn module(&self, name: &str) -> Option<&dyn Module> {
        self.modules.iter().find(|(n, _)| n == name).map(|(_, m)| m.as_module())
    }
    pub(crate) fn parameter_cell(&self, name: &str) -> Option<Cell<Parameter>> {
        find(&self.parameters, name)
    }
    pub(crate) fn buffer_cell(&self, name: &str) -> Option<Cell<Buffer>> {
        find(&self.buffers, name)
    }
    pub(crate) fn modules_mut(&mut self) -> &mut Vec<(String, Box<dyn Module>)> {
        &mut self.modules
    }
    /// Adds a buffer under a name, or puts another in its place.
    ///
    /// # Errors
    /// Names that are empty or contain a dot.
    pub fn register_buffer(&self, name: &str, buffer: Buffer) -> Result<()> {
        check_name("buffer", name)?;
        set(&self.buffers, name, buffer);
        Ok(())
    }
    /// Adds a parameter under a name, or puts another in its place.
    ///
    /// # Errors
    /// Names that are empty or contain a dot; a tensor that is computed from others.
    pub fn register_parameter(&self, name: &str, parameter: Parameter) -> Result<()> {
        check_name("parameter", name)?;
        ensure!(
            parameter.tensor().is_leaf(),
            Value,
            "Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To express \
             '{name}' as a function of another Tensor, compute the value in the forward() method."
        );
        set(&self.parameters, name, parameter);
        Ok(())
    }
    /// Takes a buffer out again.
    pub fn remove_buffer(&self, name: &str) -> Option<Buffer> {
        remove(&self.buffers, name)
    }
    /// Takes a parameter out again.
    pub fn remove_parameter(&self, name: &str) -> Option<Parameter> {
        remove(&self.parameters, name)
    }
    /// Adds a module under a name, or puts it in the place of the one of that name.
    ///
    /// # Errors
    /// Names that are empty or contain a dot.
    pub fn add_module(&mut self, name: &str, module: Box<dyn Module>) -> Result<()> {
        if name.contains('.') {
            let text = format!("module name can't contain \".\", got: {name}");
            return Err(Error::new(ErrorKind::Index, text));
        }
        check_name("module", name)?;
        match self.modules.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = module,
            None => self.modules.push((name.to_owned(), module)),
        }
        Ok(())
    }
    /// Takes a module out again.
    pub fn remove_module(&mut self, name: &str) -> Option<Box<dyn Module>> {
        let i = self.modules.iter().position(|(n, _)| n == name)?;
        Some(self.modules.remove(i).1)
    }
    pub(crate) fn parameter_cells(&self) -> Vec<(String, Cell<Parameter>)> {
        list(&self.parameters)
    }
    pub(crate) fn buffer_cells(&self) -> Vec<(String, Cell<Buffer>)> {
        list(&self.buffers)
    }
}
fn check_name(what: &str, name: &str) -> Result<()> {
    let bad = if name.contains('.') {
        Some(format!("{what} name can't contain \".\""))
    } else if name.is_empty() {
        Some(format!("{what} name can't be empty string \"\""))
    } else {
        None
    };
    bad.map_or(Ok(()), |text| Err(Error::new(ErrorKind::Index, text)))
}
impl fmt::Debug for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Base").field("training", &self.is_training()).finish_non_exhaustive()
    }
}
