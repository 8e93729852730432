//! Operators as fallible functions, and their bodies by family.

pub mod cholesky;
pub mod eigen;
pub mod least_squares;
pub mod lu;
pub mod norms;
pub mod qr;
pub mod solve;
pub mod svd;
pub(crate) mod util;

pub use crate::generated::ops::*;
