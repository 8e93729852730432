//! The back end on an emulated device.
#![forbid(unsafe_code)]

mod emulated;
mod graphs;
mod images;
mod layers;
mod places;
mod products;
mod random;
mod reductions;
mod sorts;
mod steps;
