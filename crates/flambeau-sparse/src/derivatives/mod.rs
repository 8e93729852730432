//! Gradients of sparse operators. They are made of differentiable operators.

pub mod convert;
pub mod parts;
