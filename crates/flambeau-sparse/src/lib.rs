//! Sparse tensors: `torch.sparse` and what `torch.Tensor` has for sparse layouts.
//!
//! | module | what |
//! |---|---|
//! | [`functions`] | `torch.sparse_coo_tensor` and its like |
//! | [`sparse`] | `torch.sparse` |
//! | [`ops`] | every operator as a fallible function, nothing defaulted |
//! | [`TensorSparseExt`], [`TensorSparseResizeExt`] | methods of `Tensor` |
//!
//! How a sparse tensor is represented stands in `flambeau_core::tensor::sparse`. Linking this crate also gives core's operators
//! their kernels for sparse layouts.

#![forbid(unsafe_code)]

#[cfg(feature = "by-name")]
mod by_name;
mod compressed;
mod construct;
mod coo;
pub mod derivatives;
#[rustfmt::skip]
pub mod generated;
mod install;
mod invariants;
mod kernels;
pub mod ops;
mod resize;
mod semi_structured;
#[cfg(feature = "by-name")]
mod typed;

pub use construct::{
    SparseOptions, check_sparse_tensor_invariants, functions, is_checking_invariants, set_check_invariants,
};
pub use generated::methods::TensorSparseExt;
pub use resize::TensorSparseResizeExt;

/// Functions of `torch.sparse`.
pub mod sparse {
    pub use crate::generated::sparse::*;
    pub use crate::semi_structured::{
        SparseSemiStructuredTensor, to_sparse_semi_structured, try_to_sparse_semi_structured,
    };
    pub use crate::{check_sparse_tensor_invariants, is_checking_invariants, set_check_invariants};
}
