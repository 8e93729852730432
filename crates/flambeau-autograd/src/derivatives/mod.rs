//! Backward formulas of core's operators that are longer than a line, by family.

pub mod copy;
pub mod creation;
pub mod pointwise;
pub mod reduction;
pub mod unary;
pub mod views;
