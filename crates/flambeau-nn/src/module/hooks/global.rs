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
#[doc(alias = "torch.nn.modules.module.register_module_forward_pre_hook")]
pub fn register_module_forward_pre_hook(
    f: impl Fn(&dyn Module, &[Tensor]) -> Option<Vec<Tensor>> + Send + Sync + 'static,
) -> HookHandle {
    HookHandle::global(GLOBAL.add_pre(Arc::new(f), HookOptions::new()))
}
/// A hook that runs after `forward` of every module that is called, before the module's own; may give other outputs.
#[doc(alias = "torch.nn.modules.module.register_module_forward_hook")]
pub fn register_module_forward_hook(
    f: impl Fn(&dyn Module, &[Tensor], &[Tensor]) -> Option<Vec<Tensor>> + Send + Sync + 'static,
    options: HookOptions,
) -> HookHandle {
    HookHandle::global(GLOBAL.add_post(Arc::new(f), options))
}
/// [`register_module_forward_hook`] for a hook that sees the keywords too (`with_kwargs=True`).
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
#[doc(alias = "torch.nn.modules.module.register_module_full_backward_pre_hook")]
pub fn register_module_full_backward_pre_hook(
    f: impl Fn(&str, &[Option<Tensor>]) -> Grads + Send + Sync + 'static,
) -> HookHandle {
    HookHandle::global(GLOBAL.add_backward_pre(Arc::new(f), HookOptions::new()))
}
/// A hook that sees the gradients of every module's inputs and outputs, and may replace the former.
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
#[doc(alias = "torch.nn.modules.module.register_module_parameter_registration_hook")]
pub fn register_module_parameter_registration_hook(
    f: impl Fn(&dyn Module, &str, &Parameter) -> Option<Parameter> + Send + Sync + 'static,
) -> HookHandle {
    let f: Arc<OnParameter> = Arc::new(f);
    add(&PARAMETERS, f)
}
/// A hook that sees every buffer registered at run time (`register_buffer`), and may put another in its place.
#[doc(alias = "torch.nn.modules.module.register_module_buffer_registration_hook")]
pub fn register_module_buffer_registration_hook(
    f: impl Fn(&dyn Module, &str, &Buffer) -> Option<Buffer> + Send + Sync + 'static,
) -> HookHandle {
    let f: Arc<OnBuffer> = Arc::new(f);
    add(&BUFFERS, f)
}
/// A hook that sees every module registered at run time (`add_module`, `set_submodule`), and may put another in its place.
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
