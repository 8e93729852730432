//! The tests of flambeau-quantization, in one binary. No walk over the rows: they take quantized tensors, which the walk
//! does not make, and have no gradients.

mod flows;
mod graphs;
mod layers;
mod suite;
mod tables;
mod tensors;
