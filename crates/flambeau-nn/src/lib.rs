//! Neural network modules: parameters, the [`Module`] trait and its derive, the documented layers, initialisation.
//!
//! A module is a struct whose fields are [`Parameter`]s, [`Buffer`]s, other modules and plain data.
//! `#[derive(Debug, Module)]` walks the fields; [`Forward`] is what the module computes. Names in state dicts, printed
//! text and initial values are PyTorch's.
//!
//! ```
//! use flambeau_nn::prelude::*;
//! use flambeau_nn as nn;
//!
//! #[derive(Debug, Module)]
//! struct Net {
//!     fc1: nn::Linear,
//!     fc2: nn::Linear,
//! }
//! impl Forward<&Tensor> for Net {
//!     type Output = Tensor;
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

pub mod args;
#[doc(alias = "torch.nn.attention")]
pub mod attention;
mod base;
mod deepcopy;
mod field;
pub mod files;
mod forward;
mod hooks;
#[doc(alias = "torch.nn.init")]
pub mod init;
mod keywords;
mod late;
// `modules::module` has the documented global hooks
#[allow(hidden_glob_reexports)]
mod module;
#[doc(alias = "torch.nn.modules")]
pub mod modules;
mod native;
pub mod object;
mod parameter;
mod repr;
mod state;
#[doc(alias = "torch.nn.utils")]
pub mod utils;
mod walk;

pub use base::Base;
pub use field::Field;
pub use flambeau_macros::Module;
pub use forward::{Call, Forward, HookOutput, Layer};
pub use hooks::{
    BackwardHook, BackwardPreHook, ForwardHook, ForwardHookWithKwargs, ForwardPreHook,
    ForwardPreHookWithKwargs, HookHandle, HookOptions, LoadStateDictHook, LoadStateDictPreHook, NewInputs,
    StateDictHook, StateDictPreHook,
};
pub use keywords::{Keyword, Keywords};
pub use module::{Module, NamedOptions, Visitor, VisitorMut};
pub use modules::*;
pub use parameter::{Buffer, Parameter};
pub use state::{IncompatibleKeys, LoadReport, LoadStateDictOptions, StateDict, StateDictOptions};

/// What code that defines and runs modules imports.
pub mod prelude {
    pub use crate::{Call, Forward, Module, Parameter};
    pub use flambeau_core::Tensor;
}

/// What the derive's code names.
#[doc(hidden)]
pub mod __private {
    pub use crate::deepcopy::{Copied, CopyData, CopyField, CopyNothing, Memo, ProbeCopy};
    pub use crate::field::{
        Field, Probe, ProbeField, ProbeFieldMut, ProbeMut, ProbeOther, ProbeOtherMut, take_as,
    };
    pub use flambeau_core::Result;
}
