//! Operators as fallible functions, nothing defaulted.

pub mod convert;
pub mod parts;
pub mod product;

pub use crate::generated::ops::*;
pub(crate) use convert::to_layout;
