//! The tests of flambeau-masked, in one binary.

mod table;
mod tensors;
mod values;
