//! The back end on an emulated device.
#![forbid(unsafe_code)]

mod emulated;
mod places;
mod products;
mod random;
mod reductions;
mod sorts;
