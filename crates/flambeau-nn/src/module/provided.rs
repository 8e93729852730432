//! What the methods of [`Module`] do that no type writes itself: each compiled once, not once for every type of module.

use crate::module::state_dict::{
    self, AsStateDict, IncompatibleKeys, StateDict, StateDictOptions, ZeroGradOptions,
};
use crate::module::{Module, NamedOptions, hooks, traversal};
use crate::parameter::{Buffer, Parameter};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::{DType, Device, Error, MemoryFormat, Result, Tensor, TensorOptions};

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
pub fn named_parameters(m: &dyn Module) -> Vec<(String, Parameter)> {
    traversal::named_parameters(m, &NamedOptions::new())
}
pub fn named_parameters_with(m: &dyn Module, o: NamedOptions) -> Vec<(String, Parameter)> {
    traversal::named_parameters(m, &o)
}
pub fn named_buffers(m: &dyn Module) -> Vec<(String, Buffer)> {
    traversal::named_buffers(m, &NamedOptions::new())
}
pub fn named_buffers_with(m: &dyn Module, o: NamedOptions) -> Vec<(String, Buffer)> {
    traversal::named_buffers(m, &o)
}
pub fn named_modules(m: &dyn Module) -> Vec<(String, &dyn Module)> {
    traversal::named_modules(m, &NamedOptions::new())
}
pub fn named_modules_with(m: &dyn Module, o: NamedOptions) -> Vec<(String, &dyn Module)> {
    traversal::named_modules(m, &o)
}
pub fn state_dict(m: &dyn Module) -> StateDict {
    m.state_dict_with(StateDictOptions::new())
}
pub fn state_dict_with(m: &dyn Module, o: StateDictOptions) -> StateDict {
    let mut out = StateDict::new();
    state_dict::collect(m, &o, &mut out);
    out
}
pub fn state_dict_into(m: &dyn Module, destination: &mut StateDict, o: StateDictOptions) {
    state_dict::collect(m, &o, destination);
}
pub fn zero_grad(m: &dyn Module) {
    // forgetting cannot fail once the engine is linked, and this crate links it
    let _ = traversal::zero_grad(m, true);
}
#[track_caller]
pub fn zero_grad_with(m: &dyn Module, o: ZeroGradOptions) {
    expect(m.try_zero_grad(o));
}
#[track_caller]
pub fn to_memory_format(m: &mut dyn Module, format: MemoryFormat) {
    expect(m.try_to_memory_format(format));
}
#[track_caller]
pub fn to_empty(m: &mut dyn Module, device: Device) {
    expect(m.try_to_empty(device));
}
#[track_caller]
pub fn type_(m: &mut dyn Module, dtype: DType) {
    expect(m.try_type_(dtype));
}
#[track_caller]
pub fn cpu(m: &mut dyn Module) {
    expect(m.try_convert(Device::Cpu.into()));
}
pub fn cuda(m: &mut dyn Module, index: Option<u16>) -> Result<()> {
    m.try_convert(Device::cuda(index.unwrap_or(0)).into())
}
#[track_caller]
pub fn floating(m: &mut dyn Module, dtype: DType) {
    expect(m.try_convert_floating(dtype));
}
pub fn compile() -> Result<()> {
    let text = "Module.compile(): modules are compiled with the program, and there is no further compiler";
    Err(Error::missing(text))
}
pub fn set_extra_state() -> Result<()> {
    Err(Error::runtime("Reached a code path in Module.set_extra_state() that should never be called."))
}
#[cold]
pub fn no_base(m: &dyn Module) -> Error {
    traversal::no_base(&m.type_name())
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
pub fn try_to_empty(m: &mut dyn Module, device: Device) -> Result<()> {
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
