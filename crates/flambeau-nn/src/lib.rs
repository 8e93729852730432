//! Neural network modules: parameters, the [`Module`] trait and its derive, the documented layers, initialisation.
//!
//! A module is a struct whose fields are [`Parameter`]s, [`Buffer`]s, other modules and plain data.
//! `#[derive(Debug, Module)]` walks the fields; `forward`, under [`#[nn::forward]`](macro@forward), is what the module computes. Names in state dicts, printed
//! text and initial values are PyTorch's.
//!
//! ```
//! use torch::prelude::*;
//! use torch::nn;
//!
//! #[derive(Debug, Module)]
//! struct Net {
//!     fc1: nn::Linear,
//!     fc2: nn::Linear,
//! }
//! #[nn::forward]
//! impl Net {
//!     fn forward(&self, x: &Tensor) -> Tensor {
//!         self.fc2.call(&self.fc1.call(x))
//!     }
//! }
//! let net = Net { fc1: nn::Linear::new(4, 8), fc2: nn::LinearOptions::new(8, 2).bias(false).build() };
//! let names: Vec<String> = net.named_parameters().into_iter().map(|(name, _)| name).collect();
//! assert_eq!(names, ["fc1.weight", "fc1.bias", "fc2.weight"]);
//! ```
#![forbid(unsafe_code)]

extern crate self as flambeau_nn;

mod args;
#[doc(alias = "torch.nn.attention")]
pub mod attention;
mod by_name;
pub mod files;
#[doc(alias = "torch.nn.init")]
pub mod init;
mod module;
#[doc(alias = "torch.nn.modules")]
pub mod modules;
mod parameter;
#[doc(alias = "torch.nn.utils")]
pub mod utils;

pub use flambeau_macros::{Module, Tensors, forward};
pub use module::base::Base;
pub use module::field::{Field, Key, Plain};
pub use module::forward::{Call, Forward, Layer};
pub use module::hooks::{
    BackwardHook, BackwardPreHook, ForwardHook, ForwardHookWithKwargs, ForwardPreHook,
    ForwardPreHookWithKwargs, HookHandle, HookOptions, LoadStateDictHook, LoadStateDictPreHook, NewInputs,
    StateDictHook, StateDictPreHook,
};
pub use module::keywords::{Keyword, Keywords};
pub use module::state_dict::{
    AsStateDict, IncompatibleKeys, LoadReport, LoadStateDictOptions, StateDict, StateDictOptions,
    ZeroGradOptions,
};
pub use module::tensors::{Inputs, Tensors};
pub use module::{Module, ModuleExt, NamedOptions, Visitor, VisitorMut};
pub use modules::all::*;
pub use parameter::{Buffer, Parameter};

/// What code that defines and runs modules imports.
pub mod prelude {
    pub use crate::{Call, Forward, Module, ModuleExt, Parameter};
    pub use flambeau_core::Tensor;
}

/// What the other crates of the library need beside the documented names: types of arguments, and modules as objects.
#[doc(hidden)]
pub mod internal {
    pub use crate::args::*;
    #[cfg(feature = "by-name")]
    pub use crate::by_name::ModuleObject;
    pub use crate::by_name::{ForwardArgs, Run, call_module};
    pub use crate::module::deepcopy::{Copied, CopyRun, Memo, sharing};
    pub use crate::module::traversal::visit_all_mut;
}

/// What the derive's code names.
#[doc(hidden)]
pub mod __private {
    pub use crate::by_name::Run;
    pub use crate::by_name::probe::{NotRun, ProbeRun, RunItself};
    pub use crate::module::deepcopy::{Copied, CopyData, CopyField, CopyNothing, Memo, ProbeCopy};
    pub use crate::module::field::{
        Field, Probe, ProbeCopyable, ProbeField, ProbeFieldMut, ProbeMut, ProbeOther, ProbeOtherMut, put_as,
    };
    pub use crate::module::forward::{call, try_call};
    pub use crate::module::repr::display;
    pub use flambeau_core::{Result, Tensor, api::ergonomic::expect};
}
