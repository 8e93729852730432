//! Operators as fallible functions, nothing defaulted: what a scaler of gradients is made of.

pub mod scaling;

pub use crate::generated::ops::*;
