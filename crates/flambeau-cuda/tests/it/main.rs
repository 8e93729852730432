//! The back end on an emulated device.
#![forbid(unsafe_code)]

mod apart;
mod attention;
mod calls;
mod convolutions;
mod emulated;
mod graphs;
mod host;
mod images;
mod layers;
mod lists;
mod places;
mod products;
mod random;
mod reductions;
mod runtime;
mod sorts;
mod steps;

use attention::halves;
