//! Every operator as a fallible function: all arguments, nothing defaulted, never a panic on bad input. The functions
//! are generated from the tables in `ops/*.toml`; the modules hold what is written by hand for them, by family.

pub use crate::generated::ops::*;

pub(crate) mod activation;
pub(crate) mod attention;
pub(crate) mod cells;
pub(crate) mod conv;
pub(crate) mod ctc;
pub(crate) mod dropout;
pub(crate) mod elementwise_loss;
pub(crate) mod embedding;
pub(crate) mod embedding_bag;
pub(crate) mod fractional;
pub(crate) mod linear;
pub mod linear_cross_entropy;
pub(crate) mod local_norm;
pub(crate) mod loss;
pub(crate) mod lp_pool;
pub mod multi_head;
pub(crate) mod norm;
pub(crate) mod norm_forms;
pub(crate) mod padding;
pub(crate) mod pool;
pub(crate) mod rnn;
pub(crate) mod rounded_attention;
pub(crate) mod unpool;
pub(crate) mod util;
pub(crate) mod vision;
