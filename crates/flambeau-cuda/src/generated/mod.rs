//! What `cargo xtask kernels` writes.
pub(crate) mod pointwise;
