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
pub mod distance;
#[rustfmt::skip]
pub mod generated;
mod kernel;
pub mod ops;
pub mod sdp;

/// Functions of `torch.nn.functional`, as the documentation names them.
pub mod functional {
    pub use crate::distance::triplet_margin_with_distance_loss;
    pub use crate::generated::functional::*;
}
