//! Flambeau's gradient engine.
//!
//! | module | what |
//! |---|---|
//! | [`engine`] | [`backward`], [`grad()`] |
//! | [`grad_mode`] | [`no_grad`], [`enable_grad`], inference mode, as closures and guards |
//! | [`function`] | custom functions |
//! | [`forward_ad`] | forward mode |
//! | [`gradcheck`] | gradients against finite differences |
//! | [`functional`] | Jacobians, Hessians and products with them |
//! | [`library`] | gradients of a program's own operators, `opcheck` |
//! | [`control_flow`] | branches and loops as functions |
//! | [`graph`] | writes to saved tensors, versions |
//! | [`checkpoint`] | recomputation instead of storage |
//! | [`node`], [`shorthand`], [`derivatives`] | what generated gradient code is made of |

#![forbid(unsafe_code)]

#[cfg(feature = "by-name")]
mod by_name;
pub mod checkpoint;
pub mod control_flow;
pub mod function;
pub mod functional;
pub mod grad_fn;
pub mod gradcheck;
pub mod graph;
pub mod library;
#[cfg(feature = "by-name")]
pub mod opcheck;

pub use flambeau_core::derivatives::{self, shorthand};
use flambeau_core::gradients::{accumulate, hooks, inplace, state};
pub use flambeau_core::gradients::{anomaly, engine, forward_ad, grad_mode, runtime as node, saved};

pub use anomaly::{detect_anomaly, set_detect_anomaly_guard};
pub use engine::{GradOptions, backward, current_node, current_run, grad};
pub use flambeau_core::tensor::graph::next_number;
pub use function::Function;
pub use grad_fn::{GradFn, MultiGrad, TensorAutogradExt, get_gradient_edge, register_multi_grad_hook};
pub use grad_mode::{
    enable_grad, enable_grad_guard, inference_mode, inference_mode_guard, is_grad_enabled,
    is_inference_mode_enabled, no_grad, no_grad_guard, set_grad_enabled, set_grad_enabled_guard,
};
pub use hooks::{HookList, RemovableHandle};
pub use state::requires_grad;

/// Whether what is computed now is differentiated: recorded, or in forward mode. A gradient then needs operators that have
/// derivatives themselves, not a fused one or what a decomposition left behind.
pub fn is_differentiated() -> bool {
    is_grad_enabled() || forward_ad::dual_active()
}

/// What code that uses gradients imports.
pub mod prelude {
    pub use crate::grad_fn::TensorAutogradExt;
}
