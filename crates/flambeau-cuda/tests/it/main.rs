//! The back end on an emulated device.
#![deny(unsafe_code)]

mod apart;
mod archive;
mod attention;
mod calls;
mod convolutions;
mod emulated;
mod external;
mod fallbacks;
mod graphs;
mod host;
mod images;
mod layers;
mod lists;
mod places;
mod products;
mod profiler;
mod random;
mod reductions;
mod runtime;
mod sorts;
mod steps;

use attention::halves;
