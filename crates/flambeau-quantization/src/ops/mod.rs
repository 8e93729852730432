//! Operators as fallible functions, nothing defaulted.

pub mod conversion;
pub mod learnable;
pub mod parameters;
pub mod window;

pub use crate::generated::ops::*;
