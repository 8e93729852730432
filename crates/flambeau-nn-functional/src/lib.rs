//! `torch.nn.functional` for Flambeau: convolutions, pooling, normalisation, losses, activations, dropout, embeddings,
//! padding, resampling, attention.
//!
//! | module | what |
//! |---|---|
//! | [`functional`] | the ergonomic functions, as the documentation names them |
//! | [`ops`] | every operator as a fallible function, nothing defaulted |
//!
//! Operators that `torch.*` or `torch.Tensor` document are in `flambeau-core`, except for convolutions, pooling and
//! normalisation.

#![forbid(unsafe_code)]

pub mod derivatives;
#[rustfmt::skip]
pub mod generated;
pub mod ops;

/// Functions of `torch.nn.functional`, as the documentation names them.
pub mod functional {
    pub use crate::generated::functional::*;
    pub use crate::ops::loss::triplet_distance::triplet_margin_with_distance_loss;
}
