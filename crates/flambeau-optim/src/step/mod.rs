//! Steps: over the memory of many parameters at once, and as operators that gradients go through.

pub(crate) mod differentiable;
pub(crate) mod elsewhere;
pub(crate) mod fused;
