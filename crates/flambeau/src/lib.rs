//! PyTorch's documented API, native in Rust.
#![forbid(unsafe_code)]

extern crate self as torch;

pub use flambeau_nn as nn;
pub use flambeau_optim as optim;
#[doc(hidden)]
pub use flambeau_core as __core;
