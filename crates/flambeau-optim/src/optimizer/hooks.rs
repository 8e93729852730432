//! Hooks of optimizers: around steps, state dicts and loading, of one optimizer or of all.

use crate::optimizer::Optimizer;
use flambeau_autograd::{HookList, RemovableHandle};
use flambeau_core::types::order::Mutex;
use flambeau_core::{Result, Tensor};
use flambeau_serialization::Tree;
use std::fmt;
use std::sync::Arc;

/// Runs after loading.
pub type LoadHook = dyn Fn(&mut dyn Optimizer) + Send + Sync;
/// The arguments of a step.
#[derive(Default)]
pub struct StepArgs<'a> {
    /// What computes the loss, where the step was given it. A hook before the step may put another in its place.
    pub closure: Option<Box<dyn FnMut() -> Result<Tensor> + 'a>>,
}
impl fmt::Debug for StepArgs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepArgs").field("closure", &self.closure.as_ref().map(|_| "<function>")).finish()
    }
}
/// Runs before or after a step. An error ends the step.
pub type StepHook = dyn Fn(&mut dyn Optimizer, &mut StepArgs<'_>) -> Result<()> + Send + Sync;
/// Runs before a state dict is made.
pub type StateDictPreHook = dyn Fn(&dyn Optimizer) + Send + Sync;
/// Sees a state dict that was made or is to be loaded, and may give another in its place.
pub type StateDictHook = dyn Fn(&dyn Optimizer, &Tree<Tensor>) -> Option<Tree<Tensor>> + Send + Sync;

type List<F> = Mutex<HookList<F>>;

fn live<F: ?Sized + Send + Sync + 'static>(l: &List<F>) -> Vec<Arc<F>> {
    l.lock().unwrap_or_else(|e| e.into_inner()).live().into_iter().collect()
}
fn add<F: ?Sized + Send + Sync + 'static>(l: &List<F>, f: Arc<F>, prepend: bool) -> RemovableHandle {
    let mut l = l.lock().unwrap_or_else(|e| e.into_inner());
    if prepend { l.add_first(f) } else { l.add(f) }
}

#[derive(Default)]
struct Lists {
    step_pre: List<StepHook>,
    step_post: List<StepHook>,
    state_dict_pre: List<StateDictPreHook>,
    state_dict_post: List<StateDictHook>,
    load_pre: List<StateDictHook>,
    load_post: List<LoadHook>,
}

/// The hooks of one optimizer; clones are the same hooks.
#[derive(Clone, Default)]
pub struct Hooks(Arc<Lists>);
impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooks")
    }
}
macro_rules! lists {
    ($($register:ident, $get:ident, $list:ident: $f:ty;)*) => {$(
        pub(crate) fn $register(&self, f: Arc<$f>, prepend: bool) -> RemovableHandle {
            add(&self.0.$list, f, prepend)
        }
        pub(crate) fn $get(&self) -> Vec<Arc<$f>> {
            live(&self.0.$list)
        }
    )*};
}
impl Hooks {
    /// Which optimizer they are of: the same number wherever it is moved.
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
    lists! {
        add_step_pre, step_pre, step_pre: StepHook;
        add_step_post, step_post, step_post: StepHook;
        add_state_dict_pre, state_dict_pre, state_dict_pre: StateDictPreHook;
        add_state_dict_post, state_dict_post, state_dict_post: StateDictHook;
        add_load_pre, load_pre, load_pre: StateDictHook;
        add_load_post, load_post, load_post: LoadHook;
    }
}

fn global() -> &'static Lists {
    static GLOBAL: std::sync::OnceLock<Lists> = std::sync::OnceLock::new();
    GLOBAL.get_or_init(Lists::default)
}
pub(crate) fn global_step_pre() -> Vec<Arc<StepHook>> {
    live(&global().step_pre)
}
pub(crate) fn global_step_post() -> Vec<Arc<StepHook>> {
    live(&global().step_post)
}

/// A hook that does not look at the step's arguments.
pub(crate) fn without_args(hook: impl Fn(&mut dyn Optimizer) + Send + Sync + 'static) -> Arc<StepHook> {
    Arc::new(move |o, _| {
        hook(o);
        Ok(())
    })
}

/// A hook that runs before each step of any optimizer, ahead of the optimizer's own.
#[doc(alias = "torch.optim.optimizer.register_optimizer_step_pre_hook")]
pub fn register_optimizer_step_pre_hook(
    hook: impl Fn(&mut dyn Optimizer) + Send + Sync + 'static,
) -> RemovableHandle {
    add(&global().step_pre, without_args(hook), false)
}
/// A hook that runs after each step of any optimizer, behind the optimizer's own.
#[doc(alias = "torch.optim.optimizer.register_optimizer_step_post_hook")]
pub fn register_optimizer_step_post_hook(
    hook: impl Fn(&mut dyn Optimizer) + Send + Sync + 'static,
) -> RemovableHandle {
    add(&global().step_post, without_args(hook), false)
}
/// [`register_optimizer_step_pre_hook`] for a hook that sees the step's arguments and may change them.
pub fn register_optimizer_step_pre_hook_with_args(
    hook: impl Fn(&mut dyn Optimizer, &mut StepArgs<'_>) -> Result<()> + Send + Sync + 'static,
) -> RemovableHandle {
    add(&global().step_pre, Arc::new(hook), false)
}
/// [`register_optimizer_step_post_hook`] for a hook that sees the step's arguments.
pub fn register_optimizer_step_post_hook_with_args(
    hook: impl Fn(&mut dyn Optimizer, &mut StepArgs<'_>) -> Result<()> + Send + Sync + 'static,
) -> RemovableHandle {
    add(&global().step_post, Arc::new(hook), false)
}
