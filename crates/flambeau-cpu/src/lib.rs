//! CPU kernels of Flambeau over raw slices, pointers and strides. This crate knows no `Tensor`; nearly all of the
//! project's `unsafe` lives here.
//!
//! | module | what |
//! |---|---|
//! | [`dtype`] | element types, [`DType`], dispatch macro |
//! | [`isa`] | instruction sets, chosen at run time |
//! | [`parallel`] | the only parallel-for that kernels use |
//! | [`matmul`] | matrix products, batched, strided; dot |
//! | [`conv`] | convolutions and their gradients |
//! | [`pool`] | max, average and adaptive pooling |
//! | [`batch_norm`] | batch and group normalisation |
//! | [`loss`] | negative log likelihood, cross-entropy |
//! | [`optim`] | steps of SGD, Adam, AdamW |

pub mod batch_norm;
pub mod conv;
pub mod dtype;
pub mod isa;
pub mod loss;
pub mod matmul;
pub mod optim;
pub mod parallel;
pub mod pool;
mod scratch;

pub use dtype::{B8, DType, Element};
