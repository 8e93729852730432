//! Every operator as a fallible function: all arguments, nothing defaulted, never a panic on bad input. The functions
//! are generated from the tables in `ops/*.toml`; the modules hold what is written by hand for them, by family.

pub use crate::generated::ops::*;

pub(crate) mod arithmetic;
pub(crate) mod blas;
pub(crate) mod comparison;
pub(crate) mod copy;
pub(crate) mod creation;
pub(crate) mod differences;
pub(crate) mod distance;
pub(crate) mod einsum;
pub(crate) mod foreach;
pub(crate) mod histogram;
pub mod indexing;
pub(crate) mod joining;
pub mod linalg;
pub mod quantize;
pub mod random;
pub(crate) mod reduction;
pub(crate) mod scan;
pub(crate) mod softmax;
pub(crate) mod sorting;
pub(crate) mod special;
pub(crate) mod unary;
pub(crate) mod view_copies;
pub(crate) mod views;
pub(crate) mod windows;
