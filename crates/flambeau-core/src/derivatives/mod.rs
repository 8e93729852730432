//! Backward formulas of core's operators that are longer than a line, by family.

pub mod arithmetic;
pub mod blas;
pub mod histogram;
pub mod indexing;
pub mod joining;
pub mod linalg;
pub mod reduction;
pub mod scan;
pub mod shorthand;
pub mod softmax;
pub mod sorting;
pub mod special;
pub mod unary;
pub mod views;
