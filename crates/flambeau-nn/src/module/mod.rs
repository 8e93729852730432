//! The `Module` trait.

pub(crate) mod base;
mod closures;
pub(crate) mod deepcopy;
pub(crate) mod depth;
mod dynamic;
pub(crate) mod field;
pub(crate) mod forward;
pub(crate) mod hooks;
pub(crate) mod keywords;
mod provided;
pub(crate) mod repr;
pub(crate) mod state_dict;
#[cfg(feature = "serde")]
mod state_dict_serde;
pub(crate) mod tensors;
pub(crate) mod traversal;

use crate::by_name::Run;
use crate::module::base::Base;
use crate::module::deepcopy::{Copied, Memo};
use crate::module::state_dict::{
    AsStateDict, IncompatibleKeys, LoadStateDictOptions, StateDict, StateDictOptions, ZeroGradOptions,
};
use crate::parameter::{Buffer, Parameter};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::{DType, Device, MemoryFormat, Result, Tensor, TensorOptions};
use std::any::Any;
use std::borrow::Cow;
use std::fmt::Debug;

pub use closures::ModuleExt;

/// Sees the parameters, buffers and children that a module has itself, in the order of its fields.
///
/// ```
/// use torch::nn::{self, Buffer, Parameter, Visitor};
/// use torch::prelude::*;
/// #[derive(Default)]
/// struct Children(Vec<String>);
/// impl<'a> Visitor<'a> for Children {
///     fn parameter(&mut self, _: &str, _: &'a Parameter) {}
///     fn buffer(&mut self, _: &str, _: &Buffer) {}
///     fn module(&mut self, name: &str, m: &'a dyn Module) {
///         self.0.push(format!("{name}: {}", m.type_name()));
///     }
/// }
/// let mut seen = Children::default();
/// nn::Sequential::new((nn::Linear::new(2, 2), nn::ReLU::new())).visit(&mut seen);
/// assert_eq!(seen.0, ["0: Linear", "1: ReLU"]);
/// ```
pub trait Visitor<'a> {
    /// A parameter.
    fn parameter(&mut self, name: &str, p: &'a Parameter);
    /// A buffer.
    fn buffer(&mut self, name: &str, b: &Buffer);
    /// A child.
    fn module(&mut self, name: &str, m: &'a dyn Module);
}
/// The same, and may replace them.
///
/// ```
/// use torch::nn::{self, Buffer, Parameter, VisitorMut};
/// use torch::prelude::*;
/// use torch::Result;
/// /// Fresh parameters of ones.
/// struct Ones;
/// impl VisitorMut for Ones {
///     fn parameter(&mut self, _: &str, p: &mut Parameter) -> Result<()> {
///         *p = Parameter::new(torch::ones_like(&*p));
///         Ok(())
///     }
///     fn buffer(&mut self, _: &str, _: &mut Buffer) -> Result<()> {
///         Ok(())
///     }
///     fn module(&mut self, _: &str, m: &mut dyn Module) -> Result<()> {
///         m.visit_mut(self)
///     }
/// }
/// let mut m = nn::Sequential::new((nn::Linear::new(1, 1), nn::Linear::new(1, 1)));
/// m.visit_mut(&mut Ones)?;
/// assert_eq!(m.call(&torch::tensor([[1.0]])).item::<f32>(), 3.0);
/// # Ok::<(), torch::Error>(())
/// ```
pub trait VisitorMut {
    /// A parameter.
    fn parameter(&mut self, name: &str, p: &mut Parameter) -> Result<()>;
    /// A buffer.
    fn buffer(&mut self, name: &str, b: &mut Buffer) -> Result<()>;
    /// A child.
    fn module(&mut self, name: &str, m: &mut dyn Module) -> Result<()>;
    /// What holds a child, before the child itself: a handle takes another module by `exchange`.
    ///
    /// # Errors
    /// Those of the visitor.
    #[doc(hidden)]
    fn slot(&mut self, name: &str, holder: &mut dyn Module) -> Result<()> {
        let _ = (name, holder);
        Ok(())
    }
}

/// The methods of a module that stands for itself, in implementations by hand.
macro_rules! is_itself {
    () => {
        fn as_module(&self) -> &dyn crate::module::Module {
            self
        }
        fn as_module_mut(&mut self) -> &mut dyn crate::module::Module {
            self
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
        fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
            self
        }
    };
}
pub(crate) use is_itself;

/// A part of a network: parameters, buffers and further modules, under names. Derive it with `#[derive(Module)]`.
///
/// Methods that change only flags, hooks or elements take `&self`, so that a module can be shared; those that put
/// other parameters in place of the present ones (`to`, `half` ...) take `&mut self`, and optimizers are built after
/// them.
#[doc(alias = "torch.nn.Module")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no module",
    label = "no module",
    note = "put `#[derive(Debug, Module)]` on the struct"
)]
pub trait Module: Debug + Send + Sync + Any {
    /// The name that is printed.
    fn type_name(&self) -> Cow<'static, str>;
    /// Flags and hooks, if the module has them.
    fn base(&self) -> Option<&Base> {
        None
    }
    /// The same, to add modules at run time.
    fn base_mut(&mut self) -> Option<&mut Base> {
        None
    }
    /// The arguments that are printed.
    #[doc(alias = "torch.nn.Module.extra_repr")]
    fn extra_repr(&self) -> String {
        String::new()
    }
    /// Version of the saved form, kept in the state dict's metadata.
    fn version(&self) -> i64 {
        1
    }
    /// Whether a checkpoint of that version may lack this entry.
    #[doc(hidden)]
    fn may_lack(&self, _name: &str, _version: Option<i64>) -> bool {
        false
    }
    /// What is saved in addition to parameters and buffers, as a tensor, which every file format can keep (of bytes, for
    /// other data). It stands in the state dict as `_extra_state`.
    #[doc(alias = "torch.nn.Module.get_extra_state")]
    fn get_extra_state(&self) -> Option<Tensor> {
        None
    }
    /// Takes back what [`Module::get_extra_state`] gave.
    ///
    /// # Errors
    /// State that does not fit.
    #[doc(alias = "torch.nn.Module.set_extra_state")]
    fn set_extra_state(&self, state: &Tensor) -> Result<()> {
        let _ = state;
        provided::set_extra_state()
    }
    /// Takes over everything of another module of the same type, or gives it back.
    #[doc(hidden)]
    fn replace_with(&mut self, new: Box<dyn Module>) -> std::result::Result<(), Box<dyn Module>> {
        Err(new)
    }
    /// What [`Module::try_deepcopy`] gives, as `Copied` and with a record of what was copied.
    #[doc(hidden)]
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        let _ = memo;
        Err(deepcopy::by_hand(self.as_module()))
    }
    /// Shows the module's own parameters, buffers and children.
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>);
    /// Shows them for replacement.
    fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()>;
    /// The module as one that is called without knowing its type, if it can be.
    #[doc(hidden)]
    fn as_run(&self) -> Option<&dyn Run> {
        None
    }
    /// Of a handle that holds a module of any type: puts another one into it, or gives it back.
    #[doc(hidden)]
    fn exchange(&mut self, new: Box<dyn Run>) -> std::result::Result<(), Box<dyn Run>> {
        Err(new)
    }
    /// Itself, without its type.
    fn as_module(&self) -> &dyn Module;
    /// Itself, without its type.
    fn as_module_mut(&mut self) -> &mut dyn Module;
    /// For downcasts.
    fn as_any(&self) -> &dyn Any;
    /// For downcasts.
    fn as_any_mut(&mut self) -> &mut dyn Any;

    /// All parameters with their dotted names, each once.
    #[doc(alias = "torch.nn.Module.named_parameters")]
    fn named_parameters(&self) -> Vec<(String, Parameter)> {
        provided::named_parameters(self.as_module())
    }
    /// [`Module::named_parameters`] with a prefix, of this module alone, or under all names.
    fn named_parameters_with(&self, options: NamedOptions) -> Vec<(String, Parameter)> {
        provided::named_parameters_with(self.as_module(), options)
    }
    /// All parameters, each once.
    #[doc(alias = "torch.nn.Module.parameters")]
    fn parameters(&self) -> Vec<Parameter> {
        provided::parameters(self.as_module())
    }
    /// All buffers with their dotted names, each once.
    #[doc(alias = "torch.nn.Module.named_buffers")]
    fn named_buffers(&self) -> Vec<(String, Buffer)> {
        provided::named_buffers(self.as_module())
    }
    /// [`Module::named_buffers`] with a prefix, of this module alone, or under all names.
    fn named_buffers_with(&self, options: NamedOptions) -> Vec<(String, Buffer)> {
        provided::named_buffers_with(self.as_module(), options)
    }
    /// All buffers, each once.
    #[doc(alias = "torch.nn.Module.buffers")]
    fn buffers(&self) -> Vec<Buffer> {
        provided::buffers(self.as_module())
    }
    /// Direct children with their names, each once.
    #[doc(alias = "torch.nn.Module.named_children")]
    fn named_children(&self) -> Vec<(String, &dyn Module)> {
        traversal::named_children(self.as_module())
    }
    /// Direct children, each once.
    #[doc(alias = "torch.nn.Module.children")]
    fn children(&self) -> Vec<&dyn Module> {
        provided::children(self.as_module())
    }
    /// The module itself (under the empty name) and all modules below it with their dotted names, each once.
    #[doc(alias = "torch.nn.Module.named_modules")]
    fn named_modules(&self) -> Vec<(String, &dyn Module)> {
        provided::named_modules(self.as_module())
    }
    /// [`Module::named_modules`] with a prefix, or under all names.
    fn named_modules_with(&self, options: NamedOptions) -> Vec<(String, &dyn Module)> {
        provided::named_modules_with(self.as_module(), options)
    }
    /// The module itself and all modules below it, each once.
    #[doc(alias = "torch.nn.Module.modules")]
    fn modules(&self) -> Vec<&dyn Module> {
        provided::modules(self.as_module())
    }
    /// The module at a dotted path.
    ///
    /// # Errors
    /// No such module.
    #[doc(alias = "torch.nn.Module.get_submodule")]
    fn get_submodule(&self, path: &str) -> Result<&dyn Module> {
        traversal::submodule(self.as_module(), path)
    }
    /// Puts a module in the place of the one at a dotted path: of the same type where it is a field, of any type where it
    /// was added at run time. Where there is none it is added, unless `strict`.
    ///
    /// # Errors
    /// No such module, a field of another type.
    #[doc(alias = "torch.nn.Module.set_submodule")]
    fn set_submodule(&mut self, path: &str, module: Box<dyn Module>, strict: bool) -> Result<()> {
        traversal::set_submodule(self.as_module_mut(), path, module, strict)
    }
    /// The parameter at a dotted path.
    ///
    /// # Errors
    /// No such parameter.
    #[doc(alias = "torch.nn.Module.get_parameter")]
    fn get_parameter(&self, path: &str) -> Result<Parameter> {
        traversal::parameter(self.as_module(), path)
    }
    /// The buffer at a dotted path.
    ///
    /// # Errors
    /// No such buffer.
    #[doc(alias = "torch.nn.Module.get_buffer")]
    fn get_buffer(&self, path: &str) -> Result<Buffer> {
        traversal::buffer(self.as_module(), path)
    }
    /// All parameters and persistent buffers under PyTorch's names, in PyTorch's order. The tensors share the module's
    /// memory and record no gradients.
    #[doc(alias = "torch.nn.Module.state_dict")]
    fn state_dict(&self) -> StateDict {
        provided::state_dict(self.as_module())
    }
    /// [`Module::state_dict`] with a prefix, or with the parameters themselves.
    fn state_dict_with(&self, options: StateDictOptions) -> StateDict {
        provided::state_dict_with(self.as_module(), options)
    }
    /// The same, added to a dict (PyTorch's `destination`).
    fn state_dict_into(&self, destination: &mut StateDict, options: StateDictOptions) {
        provided::state_dict_into(self.as_module(), destination, options);
    }
    /// Copies a state dict, or what `torch::load` gives, into the parameters and buffers; every name must match.
    ///
    /// # Errors
    /// A value that is no state dict; missing or unexpected names, other sizes: PyTorch's report.
    #[doc(alias = "torch.nn.Module.load_state_dict")]
    fn load_state_dict(&self, state: &dyn AsStateDict) -> Result<IncompatibleKeys> {
        provided::load_state_dict(self.as_module(), state, true)
    }
    /// [`Module::load_state_dict`] with its options: names that may differ.
    ///
    /// # Errors
    /// As for [`Module::load_state_dict`].
    fn load_state_dict_with(
        &self,
        state: &dyn AsStateDict,
        options: LoadStateDictOptions,
    ) -> Result<IncompatibleKeys> {
        provided::load_state_dict(self.as_module(), state, options.strict)
    }
    /// Puts the dict's tensors in the place of the module's own, instead of copying them
    /// (`load_state_dict(..., assign=True)`): dtypes and devices become those of the dict. Build optimizers after it.
    ///
    /// # Errors
    /// As for [`Module::load_state_dict`].
    fn assign_state_dict(
        &mut self,
        state: &dyn AsStateDict,
        options: LoadStateDictOptions,
    ) -> Result<IncompatibleKeys> {
        provided::assign_state_dict(self.as_module_mut(), state, options.strict)
    }
    /// Sets training mode here and below.
    #[doc(alias = "torch.nn.Module.train")]
    fn train(&self) {
        self.set_training(true);
    }
    /// Sets evaluation mode here and below.
    #[doc(alias = "torch.nn.Module.eval")]
    fn eval(&self) {
        self.set_training(false);
    }
    /// Sets the mode here and below (PyTorch's `train(mode)`).
    fn set_training(&self, mode: bool) {
        provided::set_training(self.as_module(), mode);
    }
    /// Whether the module is in training mode. A module without a `base` says what its first child says.
    #[doc(alias = "torch.nn.Module.training")]
    fn is_training(&self) -> bool {
        provided::is_training(self.as_module())
    }
    /// Forgets all gradients.
    #[doc(alias = "torch.nn.Module.zero_grad")]
    fn zero_grad(&self) {
        provided::zero_grad(self.as_module());
    }
    /// [`Module::zero_grad`] with its keywords.
    #[track_caller]
    fn zero_grad_with(&self, options: ZeroGradOptions) {
        provided::zero_grad_with(self.as_module(), options);
    }
    /// [`Module::zero_grad_with`] with a result.
    ///
    /// # Errors
    /// A gradient that is borrowed.
    fn try_zero_grad(&self, options: ZeroGradOptions) -> Result<()> {
        traversal::zero_grad(self.as_module(), options.set_to_none)
    }
    /// Asks all parameters for gradients, or stops asking.
    #[track_caller]
    #[doc(alias = "torch.nn.Module.requires_grad_")]
    fn requires_grad_(&self, on: bool) {
        traversal::requires_grad_(self.as_module(), on);
    }
    /// A module like this one with parameters, buffers and children of its own (PyTorch's `copy.deepcopy`). What is shared
    /// between its parts stays shared between theirs; modes and hooks are the same; gradients are not copied. Fields
    /// that are no state are cloned. Panics where [`Module::try_deepcopy`] is an error.
    ///
    /// ```
    /// use torch::prelude::*;
    /// use torch::nn;
    ///
    /// let net = nn::Sequential::new((nn::Linear::new(2, 3), nn::ReLU::new()));
    /// let target = net.deepcopy();
    /// assert_eq!(target.repr(), net.repr());
    /// assert!(!target.parameters()[0].is_same(&net.parameters()[0]));
    /// ```
    #[track_caller]
    #[doc(alias = "copy.deepcopy")]
    fn deepcopy(&self) -> Self
    where
        Self: Sized,
    {
        expect(self.try_deepcopy())
    }
    /// [`Module::deepcopy`] with a result.
    ///
    /// # Errors
    /// Weights that are computed from others; a field that is neither state nor `Clone`; a module that does not derive
    /// `Module`, or stands behind a handle of a trait of the program's own; tensors that are no leaves.
    fn try_deepcopy(&self) -> Result<Self>
    where
        Self: Sized,
    {
        deepcopy::own(self, &mut Memo::default())
    }
    /// PyTorch's text of the module.
    #[doc(alias = "printing:module")]
    #[track_caller]
    fn repr(&self) -> String {
        repr::module(self.as_module())
    }
    /// Puts converted parameters and buffers in place of the present ones: floating and complex ones get the dtype, all
    /// get the device, those of four or five dimensions the memory format. A parameter that stands in two places is replaced by one.
    /// Those that fit stay as they are.
    ///
    /// # Errors
    /// A dtype that is neither floating nor complex, a device without memory, a module behind a shared `Arc`.
    fn try_convert(&mut self, target: TensorOptions) -> Result<()> {
        provided::convert(self.as_module_mut(), target)
    }
    /// Converts floating parameters and buffers, and no complex ones.
    ///
    /// # Errors
    /// A module behind a shared `Arc`.
    fn try_convert_floating(&mut self, dtype: DType) -> Result<()> {
        provided::convert_floating(self.as_module_mut(), dtype)
    }
    /// `model.to(bf16)`, `model.to(Device::cuda(0))`, or both. Build optimizers after it: it puts new parameters in
    /// place of the present ones.
    #[track_caller]
    #[doc(alias = "torch.nn.Module.to")]
    fn to(&mut self, target: impl Into<TensorOptions>) -> &mut Self
    where
        Self: Sized,
    {
        expect(self.try_convert(target.into()));
        self
    }
    /// The layout of tensors with four or five dimensions (PyTorch's `to(memory_format=...)`).
    #[track_caller]
    fn to_memory_format(&mut self, format: MemoryFormat) {
        provided::to_memory_format(self.as_module_mut(), format);
    }
    /// [`Module::to_memory_format`] with a result.
    ///
    /// # Errors
    /// A format that is not for these dimensions; a module behind a shared `Arc`.
    fn try_to_memory_format(&mut self, format: MemoryFormat) -> Result<()> {
        traversal::convert_format(self.as_module_mut(), format)
    }
    /// Parameters and buffers of the same geometry on another device, with any contents: for modules that were built on
    /// the meta device and are loaded next.
    #[track_caller]
    #[doc(alias = "torch.nn.Module.to_empty")]
    fn to_empty(&mut self, device: Device) {
        provided::to_empty(self.as_module_mut(), device);
    }
    /// [`Module::to_empty`] with a result.
    ///
    /// # Errors
    /// A device without memory; a module behind a shared `Arc`.
    fn try_to_empty(&mut self, device: Device) -> Result<()> {
        provided::try_to_empty(self.as_module_mut(), device)
    }
    /// All parameters and buffers in that dtype, integers too.
    #[track_caller]
    #[doc(alias = "torch.nn.Module.type")]
    fn type_(&mut self, dtype: DType) {
        provided::type_(self.as_module_mut(), dtype);
    }
    /// [`Module::type_`] with a result.
    ///
    /// # Errors
    /// Parameters that want gradients in a dtype that has none; a module behind a shared `Arc`.
    fn try_type_(&mut self, dtype: DType) -> Result<()> {
        provided::convert_all(self.as_module_mut(), dtype)
    }
    /// Moves everything to the CPU.
    #[track_caller]
    #[doc(alias = "torch.nn.Module.cpu")]
    fn cpu(&mut self) {
        provided::cpu(self.as_module_mut());
    }
    /// Moves everything to a CUDA device, the first for `None`.
    ///
    /// # Errors
    /// There is no such device.
    #[doc(alias = "torch.nn.Module.cuda")]
    fn cuda(&mut self, index: Option<u16>) -> Result<()> {
        provided::cuda(self.as_module_mut(), index)
    }
    /// Nothing is left to do: the tensors of a module are shared among threads as they are.
    ///
    /// # Errors
    /// Never; memory between processes is what PyTorch needs it for.
    #[doc(alias = "torch.nn.Module.share_memory")]
    fn share_memory(&self) -> &dyn Module {
        self.as_module()
    }
    /// Would compile `forward`.
    ///
    /// # Errors
    /// Always: there is no compiler. Modules are compiled with the program.
    fn compile(&self) -> Result<()> {
        provided::compile()
    }
    /// Floating parameters and buffers as float16.
    #[track_caller]
    #[doc(alias = "torch.nn.Module.half")]
    fn half(&mut self) {
        provided::floating(self.as_module_mut(), DType::F16);
    }
    /// Floating parameters and buffers as bfloat16.
    #[track_caller]
    #[doc(alias = "torch.nn.Module.bfloat16")]
    fn bfloat16(&mut self) {
        provided::floating(self.as_module_mut(), DType::BF16);
    }
    /// Floating parameters and buffers as float32.
    #[track_caller]
    #[doc(alias = "torch.nn.Module.float")]
    fn float(&mut self) {
        provided::floating(self.as_module_mut(), DType::F32);
    }
    /// Floating parameters and buffers as float64.
    #[track_caller]
    #[doc(alias = "torch.nn.Module.double")]
    fn double(&mut self) {
        provided::floating(self.as_module_mut(), DType::F64);
    }
    /// The base, or the error that hooks and buffers need one.
    ///
    /// # Errors
    /// The struct has no field `base: nn::Base`.
    fn try_base(&self) -> Result<&Base> {
        match self.base() {
            Some(base) => Ok(base),
            None => Err(provided::no_base(self.as_module())),
        }
    }
    /// Adds a buffer at run time.
    ///
    /// # Errors
    /// A name that is empty, has a dot or is taken; a module without a base.
    #[doc(alias = "torch.nn.Module.register_buffer")]
    fn register_buffer(&self, name: &str, buffer: Buffer) -> Result<()> {
        provided::register_buffer(self.as_module(), name, buffer)
    }
    /// Adds a parameter at run time; `base.parameter(name)` gives it.
    ///
    /// # Errors
    /// A name that is empty, has a dot or is taken; a module without a base.
    #[doc(alias = "torch.nn.Module.register_parameter")]
    fn register_parameter(&self, name: &str, parameter: Parameter) -> Result<()> {
        provided::register_parameter(self.as_module(), name, parameter)
    }
    /// Adds a module at run time; `base.module(name)` gives it.
    ///
    /// # Errors
    /// A name that is empty, has a dot or is taken; a module without a base.
    #[doc(alias = "torch.nn.Module.add_module")]
    #[doc(alias = "torch.nn.Module.register_module")]
    fn register_module(&mut self, name: &str, module: Box<dyn Module>) -> Result<()> {
        provided::register_module(self.as_module_mut(), name, module)
    }
}

/// Which members `named_parameters_with` and its like give, and under what names.
#[derive(Clone, Debug)]
pub struct NamedOptions {
    pub(crate) prefix: String,
    pub(crate) recurse: bool,
    pub(crate) remove_duplicate: bool,
}
impl Default for NamedOptions {
    fn default() -> Self {
        Self::new()
    }
}
impl NamedOptions {
    /// The documented defaults: no prefix, children too, each member once.
    pub fn new() -> Self {
        NamedOptions { prefix: String::new(), recurse: true, remove_duplicate: true }
    }
    /// The path of the module itself, without a dot at its end.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }
    /// Whether the members of children are given too.
    pub fn recurse(mut self, on: bool) -> Self {
        self.recurse = on;
        self
    }
    /// Whether what stands in several places is given once only.
    pub fn remove_duplicate(mut self, on: bool) -> Self {
        self.remove_duplicate = on;
        self
    }
}
