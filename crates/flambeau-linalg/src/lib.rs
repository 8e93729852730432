//! Linear algebra: `torch.linalg`, and what `torch` and `torch.Tensor` document of decompositions and solutions.
//!
//! | module | what |
//! |---|---|
//! | [`linalg`] | `torch.linalg`, with what of it stands in `flambeau-core` |
//! | [`functions`] | functions of `torch` |
//! | [`legacy`] | names that PyTorch has given up: `gesv`, `potrf`, `symeig` and their like |
//! | [`ops`] | every operator as a fallible function, nothing defaulted |
//! | [`TensorLinalgExt`] | methods of `Tensor` |
//!
//! Kernels stand in `flambeau_cpu_linalg`. Results lie column by column, as PyTorch's do.

#![forbid(unsafe_code)]

#[cfg(feature = "by-name")]
mod by_name;
pub mod derivatives;
#[rustfmt::skip]
pub mod generated;
pub mod legacy;
mod lobpcg;
mod low_rank;
pub mod ops;

pub use generated::methods::TensorLinalgExt;
pub use lobpcg::LobpcgOptions;
pub use low_rank::{PcaLowrankOptions, SvdLowrankOptions};
pub use ops::lu::LuOptions;

/// Functions of `torch`.
pub mod functions {
    pub use crate::generated::functions::*;
    pub use crate::lobpcg::{lobpcg, lobpcg_with, try_lobpcg};
    pub use crate::low_rank::{
        pca_lowrank, pca_lowrank_with, svd_lowrank, svd_lowrank_with, try_pca_lowrank, try_svd_lowrank,
    };
    pub use crate::ops::lu::{lu, lu_with, try_lu};
}

/// Functions of `torch.linalg`.
#[doc(alias = "torch.linalg")]
pub mod linalg {
    pub use crate::generated::linalg::*;
    pub use flambeau_core::generated::linalg::*;
}
