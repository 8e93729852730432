//! Backward formulas that are longer than a line, by family.

pub mod activation;
pub mod attention;
pub mod conv;
pub mod dropout;
pub mod embedding;
pub mod linear;
pub mod linear_cross_entropy;
pub mod loss;
pub mod norm;
pub mod padding;
pub mod pool;
pub mod rnn;
pub mod unfused;
pub mod vision;
