//! The operators.

mod mask;
pub mod normalization;
pub mod reduction;
mod sparse;
pub(crate) mod wrapped;

pub use crate::generated::ops::*;
