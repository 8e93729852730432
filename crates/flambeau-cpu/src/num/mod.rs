//! Numbers: the types that kernels compute with.

pub mod real;
