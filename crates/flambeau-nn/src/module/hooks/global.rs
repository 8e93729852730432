//! `torch.nn.modules.module`: hooks that run for every module of the program. Meant for debugging and profiling.

use crate::module::Module;
use crate::module::hooks::{GLOBAL, HookHandle, HookOptions, next_id};
use crate::module::keywords::Keyword;
use crate::parameter::{Buffer, Parameter};
use flambeau_core::types::order::RwLock;
use flambeau_core::{Result, Tensor};
use std::sync::Arc;

type Grads = Option<Vec<Option<Tensor>>>;

/// A hook that runs before `forward` of every module that is called, before the module's own; may give other inputs.
///
/// ```
/// use torch::nn::{self, modules::module::register_module_forward_pre_hook};
/// use torch::prelude::*;
/// let layer = nn::Linear::new(2, 1);
/// let handle = register_module_forward_pre_hook(|_, x| Some(vec![&x[0] * 0.0]));
/// assert_eq!(layer.call(&torch::ones([1, 2])).item::<f32>(), layer.bias().item::<f32>());
/// handle.remove();
/// ```
#[doc(alias = "torch.nn.modules.module.register_module_forward_pre_hook")]
pub fn register_module_forward_pre_hook(
    f: impl Fn(&dyn Module, &[Tensor]) -> Option<Vec<Tensor>> + Send + Sync + 'static,
) -> HookHandle {
    HookHandle::global(GLOBAL.add_pre(Arc::new(f), HookOptions::new()))
}
/// A hook that runs after `forward` of every module that is called, before the module's own; may give other outputs.
///
/// ```
/// use std::sync::Mutex;
/// use torch::nn::{self, HookOptions, modules::module::register_module_forward_hook};
/// use torch::prelude::*;
/// static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// let model = nn::Sequential::new((nn::Linear::new(2, 1), nn::ReLU::new()));
/// let note = |m: &dyn Module, _: &[Tensor], _: &[Tensor]| {
///     SEEN.lock().unwrap().push(m.type_name().to_string());
///     None
/// };
/// let handle = register_module_forward_hook(note, HookOptions::new());
/// model.call(&torch::ones([1, 2]));
/// handle.remove();
/// assert_eq!(*SEEN.lock().unwrap(), ["Linear", "ReLU", "Sequential"]);
/// ```
#[doc(alias = "torch.nn.modules.module.register_module_forward_hook")]
pub fn register_module_forward_hook(
    f: impl Fn(&dyn Module, &[Tensor], &[Tensor]) -> Option<Vec<Tensor>> + Send + Sync + 'static,
    options: HookOptions,
) -> HookHandle {
    HookHandle::global(GLOBAL.add_post(Arc::new(f), options))
}
/// [`register_module_forward_hook`] for a hook that sees the keywords too (`with_kwargs=True`).
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use torch::nn::{self, HookOptions, modules::module::register_module_forward_hook_with_kwargs};
/// use torch::prelude::*;
/// static CALLS: AtomicUsize = AtomicUsize::new(0);
/// let count = |_: &dyn Module, _: &[Tensor], keywords: &[nn::Keyword], _: &[Tensor]| {
///     CALLS.fetch_add(1 + keywords.len(), Ordering::Relaxed);
///     Ok(None)
/// };
/// let handle = register_module_forward_hook_with_kwargs(count, HookOptions::new());
/// nn::ReLU::new().call(&torch::ones([1]));
/// handle.remove();
/// assert_eq!(CALLS.load(Ordering::Relaxed), 1);
/// ```
pub fn register_module_forward_hook_with_kwargs(
    f: impl Fn(&dyn Module, &[Tensor], &[Keyword], &[Tensor]) -> Result<Option<Vec<Tensor>>>
    + Send
    + Sync
    + 'static,
    options: HookOptions,
) -> HookHandle {
    HookHandle::global(GLOBAL.add_post_with_kwargs(Arc::new(f), options))
}
/// A hook that sees the gradients of every module's outputs before they go through it, and may replace them.
///
/// ```
/// use torch::nn::{self, modules::module::register_module_full_backward_pre_hook};
/// use torch::prelude::*;
/// let layer = nn::Linear::new(2, 1);
/// let handle = register_module_full_backward_pre_hook(|_, g| Some(g.iter().map(|g| Some(g.as_ref()? * 10.0)).collect()));
/// layer.call(&torch::ones([1, 2])).sum().backward();
/// handle.remove();
/// assert_eq!(layer.weight.grad().unwrap().to_vec::<f32>(), [10.0, 10.0]);
/// ```
#[doc(alias = "torch.nn.modules.module.register_module_full_backward_pre_hook")]
pub fn register_module_full_backward_pre_hook(
    f: impl Fn(&str, &[Option<Tensor>]) -> Grads + Send + Sync + 'static,
) -> HookHandle {
    HookHandle::global(GLOBAL.add_backward_pre(Arc::new(f), HookOptions::new()))
}
/// A hook that sees the gradients of every module's inputs and outputs, and may replace the former.
///
/// ```
/// use torch::nn::{self, modules::module::register_module_full_backward_hook};
/// use torch::prelude::*;
/// let layer = nn::Linear::new(2, 1);
/// let x = torch::ones([1, 2]).requires_grad_(true).clone();
/// let handle = register_module_full_backward_hook(|_, g, _| Some(g.iter().map(|g| Some(g.as_ref()? * 0.0)).collect()))?;
/// layer.call(&x).sum().backward();
/// handle.remove();
/// assert_eq!(x.grad().unwrap().to_vec::<f32>(), [0.0, 0.0]);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// There are global hooks of the other kind.
#[doc(alias = "torch.nn.modules.module.register_module_full_backward_hook")]
pub fn register_module_full_backward_hook(
    f: impl Fn(&str, &[Option<Tensor>], &[Option<Tensor>]) -> Grads + Send + Sync + 'static,
) -> Result<HookHandle> {
    let id = GLOBAL.add_backward(Arc::new(f), true, HookOptions::new(), "as a global Module hook")?;
    Ok(HookHandle::global(id))
}
/// A hook on the last step of every module.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use torch::nn::{self, modules::module::register_module_backward_hook};
/// use torch::prelude::*;
/// static RUNS: AtomicUsize = AtomicUsize::new(0);
/// let handle = register_module_backward_hook(|_, _, _| {
///     RUNS.fetch_add(1, Ordering::Relaxed);
///     None
/// })?;
/// nn::Linear::new(2, 1).call(&torch::ones([1, 2])).sum().backward();
/// handle.remove();
/// assert_eq!(RUNS.load(Ordering::Relaxed), 1);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// There are global hooks of the other kind.
#[doc(alias = "torch.nn.modules.module.register_module_backward_hook")]
pub fn register_module_backward_hook(
    f: impl Fn(&str, &[Option<Tensor>], &[Option<Tensor>]) -> Grads + Send + Sync + 'static,
) -> Result<HookHandle> {
    let id = GLOBAL.add_backward(Arc::new(f), false, HookOptions::new(), "as a global Module hook")?;
    Ok(HookHandle::global(id))
}

type OnParameter = dyn Fn(&dyn Module, &str, &Parameter) -> Option<Parameter> + Send + Sync;
type OnBuffer = dyn Fn(&dyn Module, &str, &Buffer) -> Option<Buffer> + Send + Sync;
type OnModule = dyn Fn(&dyn Module, &str, &dyn Module) -> Option<Box<dyn Module>> + Send + Sync;
type Hooks<F> = RwLock<Vec<(u64, Arc<F>)>>;
static PARAMETERS: Hooks<OnParameter> = RwLock::new(Vec::new());
static BUFFERS: Hooks<OnBuffer> = RwLock::new(Vec::new());
static MODULES: Hooks<OnModule> = RwLock::new(Vec::new());

fn all<F: ?Sized>(l: &Hooks<F>) -> Vec<(u64, Arc<F>)> {
    l.read().unwrap_or_else(|e| e.into_inner()).clone()
}
fn add<F: ?Sized>(l: &Hooks<F>, f: Arc<F>) -> HookHandle {
    let id = next_id();
    l.write().unwrap_or_else(|e| e.into_inner()).push((id, f));
    HookHandle::global(id)
}
fn remove<F: ?Sized>(l: &Hooks<F>, id: u64) {
    let gone = {
        let mut l = l.write().unwrap_or_else(|e| e.into_inner());
        l.iter().position(|e| e.0 == id).map(|i| l.remove(i))
    };
    drop(gone);
}
pub(crate) fn remove_registration_hook(id: u64) {
    remove(&PARAMETERS, id);
    remove(&BUFFERS, id);
    remove(&MODULES, id);
}

/// A hook that sees every parameter registered at run time (`register_parameter`), and may put another in its place.
/// Fields of a struct are not registered, and it does not see them.
///
/// ```
/// use torch::nn::{self, Parameter, modules::module::register_module_parameter_registration_hook};
/// use torch::prelude::*;
/// let layer = nn::Linear::new(2, 1);
/// let handle = register_module_parameter_registration_hook(|_, name, p| {
///     (name == "scale").then(|| Parameter::new(&**p * 3.0))
/// });
/// layer.register_parameter("scale", Parameter::new(torch::ones([1])));
/// handle.remove();
/// assert_eq!(layer.state_dict()["scale"].item::<f32>(), 3.0);
/// ```
#[doc(alias = "torch.nn.modules.module.register_module_parameter_registration_hook")]
pub fn register_module_parameter_registration_hook(
    f: impl Fn(&dyn Module, &str, &Parameter) -> Option<Parameter> + Send + Sync + 'static,
) -> HookHandle {
    let f: Arc<OnParameter> = Arc::new(f);
    add(&PARAMETERS, f)
}
/// A hook that sees every buffer registered at run time (`register_buffer`), and may put another in its place.
///
/// ```
/// use torch::nn::{self, Buffer, modules::module::register_module_buffer_registration_hook};
/// use torch::prelude::*;
/// let layer = nn::Linear::new(2, 1);
/// let handle = register_module_buffer_registration_hook(|_, _, b| Some(Buffer::new(&**b + 1.0)));
/// layer.register_buffer("count", Buffer::new(torch::zeros([1])));
/// handle.remove();
/// assert_eq!(layer.state_dict()["count"].item::<f32>(), 1.0);
/// ```
#[doc(alias = "torch.nn.modules.module.register_module_buffer_registration_hook")]
pub fn register_module_buffer_registration_hook(
    f: impl Fn(&dyn Module, &str, &Buffer) -> Option<Buffer> + Send + Sync + 'static,
) -> HookHandle {
    let f: Arc<OnBuffer> = Arc::new(f);
    add(&BUFFERS, f)
}
/// A hook that sees every module registered at run time (`add_module`, `set_submodule`), and may put another in its place.
///
/// ```
/// use torch::nn::{self, modules::module::register_module_module_registration_hook};
/// use torch::prelude::*;
/// let mut model = nn::Linear::new(2, 1);
/// let handle = register_module_module_registration_hook(|_, _, _| Some(Box::new(nn::Tanh::new())));
/// model.register_module("activation", Box::new(nn::ReLU::new()))?;
/// handle.remove();
/// let names: Vec<String> = model.named_children().into_iter().map(|(_, m)| m.type_name().to_string()).collect();
/// assert_eq!(names, ["Tanh"]);
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.nn.modules.module.register_module_module_registration_hook")]
pub fn register_module_module_registration_hook(
    f: impl Fn(&dyn Module, &str, &dyn Module) -> Option<Box<dyn Module>> + Send + Sync + 'static,
) -> HookHandle {
    let f: Arc<OnModule> = Arc::new(f);
    add(&MODULES, f)
}

pub(crate) fn registered_parameter(m: &dyn Module, name: &str, p: Parameter) -> Parameter {
    all(&PARAMETERS).into_iter().fold(p, |p, (_, f)| f(m, name, &p).unwrap_or(p))
}
pub(crate) fn registered_buffer(m: &dyn Module, name: &str, b: Buffer) -> Buffer {
    all(&BUFFERS).into_iter().fold(b, |b, (_, f)| f(m, name, &b).unwrap_or(b))
}
pub(crate) fn registered_module(m: &dyn Module, name: &str, c: Box<dyn Module>) -> Box<dyn Module> {
    all(&MODULES).into_iter().fold(c, |c, (_, f)| f(m, name, c.as_module()).unwrap_or(c))
}
