//! Slices of run-time type, and what the `erased` modules of the families share.

mod any;
mod dispatch;

pub use any::{Any, AnyMut, bits_of};
pub(crate) use dispatch::*;
pub use dispatch::{Typed, erased};
