//! The tests of flambeau-nested, in one binary.

mod gradients;
mod layouts;
mod refused;
