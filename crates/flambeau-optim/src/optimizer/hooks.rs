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
///
/// ```
/// use torch::optim::register_optimizer_step_pre_hook_with_args;
/// use torch::{nn, optim, prelude::*};
///
/// let w = nn::Parameter::new(torch::tensor([1.0]));
/// let mut optimizer = optim::SGD::new([&w], 0.1);
/// // a hook that puts another loss in the place of what the program gave
/// let handle = register_optimizer_step_pre_hook_with_args(|_, args| {
///     args.closure = Some(Box::new(|| Ok(torch::tensor(7.0))));
///     Ok(())
/// });
/// assert_eq!(optimizer.step_closure(&mut || torch::tensor(1.0)).item::<f64>(), 7.0);
/// handle.remove();
/// assert_eq!(optimizer.step_closure(&mut || torch::tensor(1.0)).item::<f64>(), 1.0);
/// ```
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
///
/// ```
/// use torch::{nn, optim, prelude::*};
///
/// let optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.1);
/// let id = optimizer.hooks().id();
/// assert_eq!(Box::new(optimizer).hooks().id(), id);
/// ```
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
///
/// ```
/// use torch::optim::register_optimizer_step_pre_hook;
/// use torch::{nn, optim, prelude::*};
///
/// let mut optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.1);
/// let handle = register_optimizer_step_pre_hook(|o| o.set_lr(0, 0.5));
/// optimizer.step();
/// assert_eq!(optimizer.lr(0), 0.5);
/// handle.remove();
/// ```
#[doc(alias = "torch.optim.optimizer.register_optimizer_step_pre_hook")]
pub fn register_optimizer_step_pre_hook(
    hook: impl Fn(&mut dyn Optimizer) + Send + Sync + 'static,
) -> RemovableHandle {
    add(&global().step_pre, without_args(hook), false)
}
/// A hook that runs after each step of any optimizer, behind the optimizer's own.
///
/// ```
/// use torch::optim::register_optimizer_step_post_hook;
/// use torch::{nn, optim, prelude::*};
///
/// let w = nn::Parameter::new(torch::tensor([1.0]));
/// let mut optimizer = optim::SGD::new([&w], 0.1);
/// // no gradient outlives its step
/// let handle = register_optimizer_step_post_hook(|o| o.zero_grad());
/// w.set_grad(Some(torch::ones([1])));
/// optimizer.step();
/// assert!(w.grad().is_none());
/// handle.remove();
/// ```
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
///
/// ```
/// use torch::optim::register_optimizer_step_post_hook_with_args;
/// use torch::{nn, optim, prelude::*};
/// let mut optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.1);
/// let handle = register_optimizer_step_post_hook_with_args(|o, args| {
///     o.set_lr(0, if args.closure.is_some() { 0.5 } else { 0.25 });
///     Ok(())
/// });
/// optimizer.step();
/// assert_eq!(optimizer.lr(0), 0.25);
/// handle.remove();
/// ```
pub fn register_optimizer_step_post_hook_with_args(
    hook: impl Fn(&mut dyn Optimizer, &mut StepArgs<'_>) -> Result<()> + Send + Sync + 'static,
) -> RemovableHandle {
    add(&global().step_post, Arc::new(hook), false)
}
