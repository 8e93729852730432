//! `torch.nested` for Flambeau: batches of tensors whose sizes differ.
//!
//! | module | what |
//! |---|---|
//! | `structure` | how the two layouts are represented: components in one buffer with a geometry each (strided), or rows of one tensor with offsets (jagged) |
//! | [`functions`] | constructors and conversions, as `torch.nested` names them |
//! | `ops` | what operators do with nested tensors |
//!
//! A nested tensor is a [`Tensor`](flambeau_core::Tensor) made of another one (`flambeau_core::tensor::wrapper`): operators are
//! worked out on that tensor by operators that record themselves, so layers, gradients and autocast work on nested tensors.

#![forbid(unsafe_code)]

#[cfg(feature = "by-name")]
mod by_name;
pub mod functions;
mod ops;
mod structure;

pub use functions::TensorNestedExt;
pub use structure::is_nested;
