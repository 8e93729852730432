//! Backward formulas of core's operators that are longer than a line, by family.

pub mod blas;
pub mod composed;
pub mod copy;
pub mod creation;
pub mod einsum;
pub mod indexing;
pub mod joining;
pub mod linalg;
pub mod numeric;
pub mod pointwise;
pub mod quantize;
pub mod random;
pub mod reduction;
pub mod scan;
pub mod softmax;
pub mod sorting;
pub mod special;
pub mod unary;
pub mod view_copies;
pub mod views;
pub mod windows;
