//! The tests of flambeau-nn-functional, in one binary.

mod bad_input;
mod gradients;
mod pytorch_values;
mod table;
