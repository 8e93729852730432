//! Numbers: what kernels compute with, and how elements in memory become it.

mod compute;
pub mod field;
pub mod float8;
pub mod half;
mod order;
pub mod real;
pub mod stored;

pub use compute::{Arith, Compute};
pub use order::{Order, Truth};
pub use stored::{Float, Num, Stored};
