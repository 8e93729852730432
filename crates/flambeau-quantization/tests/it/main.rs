//! The tests of flambeau-quantization, in one binary.

mod flows;
mod table;
mod tensors;
