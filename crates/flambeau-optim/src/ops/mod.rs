//! Operators as fallible functions, nothing defaulted: fused steps over lists of tensors.

mod elsewhere;
mod lists;
pub mod optim;

pub use crate::generated::ops::*;
