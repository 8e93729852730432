//! The tests of flambeau-quantization, in one binary.

mod table;
mod tensors;
