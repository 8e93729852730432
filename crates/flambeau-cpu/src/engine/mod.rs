//! What kernels run on: instruction sets, threads, caches, work memory, slices of run-time type.

pub(crate) mod accumulate;
pub mod cache;
pub mod erase;
pub mod isa;
pub mod parallel;
pub mod room;
pub mod scratch;
mod shared;
pub mod simd;
pub mod span;
pub mod subnormal;

pub use shared::{Shared, SharedMut};
