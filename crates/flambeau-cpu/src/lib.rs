//! CPU kernels of Flambeau over raw slices, pointers and strides. This crate knows no `Tensor`; nearly all of the
//! project's `unsafe` lives here.
//!
//! | module | what |
//! |---|---|
//! | [`dtype`] | element types, [`DType`], dispatch macro |
//! | [`isa`] | instruction sets, chosen at run time |
//! | [`parallel`] | the only parallel-for that kernels use |

pub mod batch_norm;
pub mod conv;
pub mod dtype;
pub mod isa;
pub mod matmul;
pub mod parallel;
pub mod pool;
mod scratch;

pub use dtype::{B8, DType, Element};
