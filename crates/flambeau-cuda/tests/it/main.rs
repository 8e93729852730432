//! The back end on an emulated device.
#![forbid(unsafe_code)]

mod emulated;
mod products;
mod reductions;
