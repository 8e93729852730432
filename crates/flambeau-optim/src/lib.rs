//! Optimizers and learning rate schedules.
//!
//! ```
//! use flambeau_core::Tensor;
//! use flambeau_nn::Parameter;
//! use flambeau_optim::{Optimizer, SGDOptions};
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
//! Parameters of a group are updated in one pass over their memory, in f16, bf16 (computed in f32), f32, f64 and complex
//! dtypes; with `differentiable(true)` the step is a chain of operators that gradients go through. Options are numbers or
//! tensors of one element ([`Number`]), checked with PyTorch's texts. State dicts interchange with PyTorch's.
#![forbid(unsafe_code)]

mod adadelta;
mod adafactor;
mod adagrad;
mod adam;
mod adamax;
mod algorithm;
mod asgd;
pub mod by_name;
mod group;
mod hooks;
mod kernel;
mod lbfgs;
mod line_search;
#[doc(alias = "torch.optim.lr_scheduler")]
pub mod lr_scheduler;
mod muon;
mod nadam;
mod number;
mod optimizer;
mod radam;
mod record;
mod rmsprop;
mod rprop;
mod saved;
mod sgd;
mod sparse_adam;
#[doc(alias = "torch.optim.swa_utils")]
pub mod swa_utils;

pub use adadelta::{Adadelta, AdadeltaOptions};
pub use adafactor::{Adafactor, AdafactorEps, AdafactorOptions};
pub use adagrad::{Adagrad, AdagradOptions};
pub use adam::{Adam, AdamOptions, AdamW, AdamWOptions};
pub use adamax::{Adamax, AdamaxOptions};
pub use algorithm::{Algorithm, Closure};
pub use asgd::{ASGD, ASGDOptions};
pub use group::{Entry, Kept, ParamGroup, State};
pub use hooks::{
    Hooks, LoadHook, StateDictHook, StateDictPreHook, StepArgs, StepHook, register_optimizer_step_post_hook,
    register_optimizer_step_post_hook_with_args, register_optimizer_step_pre_hook,
    register_optimizer_step_pre_hook_with_args,
};
pub use lbfgs::{LBFGS, LBFGSOptions};
pub use muon::{Coefficients, Muon, MuonOptions};
pub use nadam::{NAdam, NAdamOptions};
pub use number::{Number, Pair, PerGroup};
pub use optimizer::{Optim, Optimizer};
pub use radam::{RAdam, RAdamOptions};
pub use rmsprop::{RMSprop, RMSpropOptions};
pub use rprop::{Rprop, RpropOptions};
pub use sgd::{SGD, SGDOptions};
pub use sparse_adam::{SparseAdam, SparseAdamOptions};
