//! The operators.

pub mod helper;
pub mod legacy;
pub mod many;
pub mod one;
pub mod short_time;
pub mod transform;
mod util;

pub use crate::generated::ops::*;
