//! The operators.

mod mask;
pub mod normalization;
pub mod reduction;

pub use crate::generated::ops::*;
