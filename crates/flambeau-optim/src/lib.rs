//! Optimizers and learning rate schedules.
//!
//! ```
//! use torch::Tensor;
//! use torch::nn::Parameter;
//! use torch::optim::{Optimizer, SGDOptions};
//!
//! let w = Parameter::new(Tensor::from_slice(&[1f32, -2.0], 2));
//! let mut optimizer = SGDOptions::new().lr(0.1).momentum(0.9).build([&w]);
//! w.set_grad(Some(Tensor::from_slice(&[1f32, 1.0], 2)));
//! optimizer.step();
//! optimizer.zero_grad();
//! assert_eq!(w.to_vec::<f32>(), [0.9, -2.1]);
//! assert!(w.grad().is_none());
//! ```
//!
//! Parameters of a group are updated by one fused operator ([`ops`]) in one pass over their memory, in f16, bf16 (computed in f32), f32, f64 and complex
//! dtypes; with `differentiable(true)` the step is a chain of operators that gradients go through. Options are numbers or
//! tensors of one element ([`Number`]), checked with PyTorch's texts. State dicts interchange with PyTorch's.
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod algorithms;
#[cfg(feature = "by-name")]
#[doc(hidden)]
pub mod by_name;
#[rustfmt::skip]
pub mod generated;
#[doc(alias = "torch.optim.lr_scheduler")]
pub mod lr_scheduler;
pub mod ops;
mod optimizer;
mod options;
mod step;
#[doc(alias = "torch.optim.swa_utils")]
pub mod swa_utils;

pub use algorithms::*;
pub use optimizer::algorithm::{Algorithm, Closure};
pub use optimizer::group::{Entry, Kept, ParamGroup, State};
pub use optimizer::hooks::{
    Hooks, LoadHook, StateDictHook, StateDictPreHook, StepArgs, StepHook, register_optimizer_step_post_hook,
    register_optimizer_step_post_hook_with_args, register_optimizer_step_pre_hook,
    register_optimizer_step_pre_hook_with_args,
};
pub use optimizer::parameters::IntoParameters;
pub use optimizer::{Optim, Optimizer};
pub use options::number_or_tensor::{Number, Pair, PerGroup};
