//! Every operator as a fallible function: all arguments, nothing defaulted, never a panic on bad input. The functions
//! are generated from the tables in `ops/*.toml`; the modules hold what is written by hand for them, by family.

pub use crate::generated::ops::*;

pub(crate) mod comparison;
pub(crate) mod copy;
pub(crate) mod creation;
pub(crate) mod pointwise;
pub(crate) mod reduction;
pub(crate) mod unary;
pub(crate) mod views;
