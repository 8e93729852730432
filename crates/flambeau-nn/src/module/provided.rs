//! What the methods of [`Module`] do that no type writes itself: each compiled once, not once for every type of module.

use crate::module::state_dict::{self, AsStateDict, IncompatibleKeys, StateDict, StateDictOptions};
use crate::module::{Module, hooks, traversal};
use crate::parameter::{Buffer, Parameter};
use flambeau_core::{DType, Device, Error, Result, Tensor, TensorOptions};

fn values<T>(named: Vec<(String, T)>) -> Vec<T> {
    named.into_iter().map(|(_, v)| v).collect()
}
pub fn parameters(m: &dyn Module) -> Vec<Parameter> {
    values(m.named_parameters())
}
pub fn buffers(m: &dyn Module) -> Vec<Buffer> {
    values(m.named_buffers())
}
pub fn children(m: &dyn Module) -> Vec<&dyn Module> {
    values(m.named_children())
}
pub fn modules(m: &dyn Module) -> Vec<&dyn Module> {
    values(m.named_modules())
}
pub fn state_dict(m: &dyn Module, o: &StateDictOptions) -> StateDict {
    let mut out = StateDict::new();
    state_dict::collect(m, o, &mut out);
    out
}
pub fn load_state_dict(m: &dyn Module, state: &dyn AsStateDict, strict: bool) -> Result<IncompatibleKeys> {
    state_dict::load(m, &*state.as_state_dict()?, strict)
}
pub fn assign_state_dict(
    m: &mut dyn Module,
    state: &dyn AsStateDict,
    strict: bool,
) -> Result<IncompatibleKeys> {
    state_dict::assign(m, &*state.as_state_dict()?, strict)
}
pub fn set_training(m: &dyn Module, mode: bool) {
    traversal::apply(m, &mut |m| {
        if let Some(b) = m.base() {
            b.set_training(mode);
        }
    });
}
pub fn is_training(m: &dyn Module) -> bool {
    match m.base() {
        Some(b) => b.is_training(),
        None => m.children().first().is_none_or(|c| c.is_training()),
    }
}
pub fn convert(m: &mut dyn Module, target: TensorOptions) -> Result<()> {
    if let Some(d) = target.dtype.filter(|d| !d.is_floating() && !d.is_complex()) {
        return Err(Error::type_(format!(
            "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch.{}",
            d.name()
        )));
    }
    traversal::convert(m, &|t: &Tensor| {
        let mut o = target;
        if !(t.is_floating_point() || t.is_complex()) {
            o.dtype = None;
        }
        // a format is for images and volumes; what else a model has stays as it is
        if !matches!(t.dim(), 4 | 5) {
            o.memory_format = None;
        }
        t.try_to(o)
    })
}
pub fn convert_floating(m: &mut dyn Module, dtype: DType) -> Result<()> {
    traversal::convert(m, &|t: &Tensor| {
        if t.is_floating_point() { t.try_to(dtype) } else { Ok(t.clone()) }
    })
}
pub fn convert_all(m: &mut dyn Module, dtype: DType) -> Result<()> {
    traversal::convert(m, &|t: &Tensor| t.try_to(dtype))
}
pub fn to_empty(m: &mut dyn Module, device: Device) -> Result<()> {
    traversal::convert(m, &|t: &Tensor| traversal::empty_like(t, device))
}
pub fn register_buffer(m: &dyn Module, name: &str, buffer: Buffer) -> Result<()> {
    let base = m.try_base()?;
    traversal::check_free(m, name, base.buffer(name).is_some())?;
    base.register_buffer(name, hooks::global::registered_buffer(m, name, buffer))
}
pub fn register_parameter(m: &dyn Module, name: &str, parameter: Parameter) -> Result<()> {
    let base = m.try_base()?;
    traversal::check_free(m, name, base.parameter(name).is_some())?;
    base.register_parameter(name, hooks::global::registered_parameter(m, name, parameter))
}
pub fn register_module(m: &mut dyn Module, name: &str, module: Box<dyn Module>) -> Result<()> {
    let again = m.try_base()?.module(name).is_some();
    traversal::check_free(m, name, again)?;
    let module = hooks::global::registered_module(m, name, module);
    match m.base_mut() {
        Some(b) => b.add_module(name, module),
        None => Err(traversal::no_base(&m.type_name())),
    }
}
