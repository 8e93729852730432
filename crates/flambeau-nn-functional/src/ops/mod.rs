//! Every operator as a fallible function: all arguments, nothing defaulted, never a panic on bad input. The functions
//! are generated from the tables in `ops/*.toml`; the modules hold what is written by hand for them, by family.

pub use crate::generated::ops::*;
pub use vision::{resample_backward_table, resample_table};

pub(crate) mod activation;
pub mod attention;
pub(crate) mod cells;
pub(crate) mod conv;
pub(crate) mod dropout;
pub(crate) mod elementwise_loss;
pub(crate) mod embedding;
pub(crate) mod linear;
pub mod linear_cross_entropy;
pub mod loss;
pub(crate) mod norm;
pub(crate) mod operands;
pub(crate) mod padding;
pub(crate) mod pool;
pub(crate) mod rnn;
pub(crate) mod vision;
