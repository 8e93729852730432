//! `torch.func` for Flambeau: functions that make functions of functions.
//!
//! | module | what |
//! |---|---|
//! | [`vmap`](fn@vmap) | one call for all slices of tensors along a dimension |
//! | [`grad`], [`vjp`], [`jvp`], [`jacrev`], [`jacfwd`], [`hessian`], [`linearize`] | derivatives |
//! | [`functionalize`] | the same function without writes in place |
//! | [`Tree`] | what such functions take and give: a tensor, tuples, vectors, maps of them |
//! | `rules` | what each operator does with a tensor of which vmap hides a dimension |
//!
//! A tensor in a vmap shows the sizes of one slice. Its key stands above the gradients, so an operator is worked out on the
//! tensors with the dimension, which record themselves, and transforms go with each other to any depth.

#![forbid(unsafe_code)]

mod batched;
#[cfg(feature = "by-name")]
mod by_name;
mod call;
mod functionalize;
mod generated;
mod gradients;
mod levels;
mod mapping;
mod modules;
#[cfg(feature = "by-name")]
pub mod pytree;
mod rearrange;
mod rules;
#[cfg(feature = "by-name")]
mod spec;
mod transforms;
mod tree;

pub use functionalize::{FunctionalizeOptions, Remove, functionalize, functionalize_with, try_functionalize};
pub use levels::Randomness;
pub use modules::{
    replace_all_batch_norm_modules_, stack_module_state, try_replace_all_batch_norm_modules_,
    try_stack_module_state,
};
pub use rearrange::{rearrange, try_rearrange};
pub use transforms::*;
pub use tree::Tree;

use flambeau_core::dispatch::registry::{CRATES, CrateReg};

static KEYS: CrateReg = CrateReg { name: "flambeau-func", ops: &[], fills: &[install] };
#[linkme::distributed_slice(CRATES)]
static LINKED: &CrateReg = &KEYS;

fn install() {
    call::install();
    flambeau_autograd::engine::set_mapped(mapping::over_first);
    flambeau_autograd::engine::set_transforming(gradients::inside);
}
