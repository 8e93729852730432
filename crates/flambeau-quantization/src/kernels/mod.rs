//! What other crates' operators do with quantized tensors: kernels at the key `QuantizedCpu`. An operator without one refuses
//! them in PyTorch's words.

mod activation;
mod comparison;
mod copies;
mod pooling;
mod reduction;
mod refused;
mod views;

pub(crate) use activation::{kept, relu, sigmoid, through};
pub(crate) use copies::joined;
pub(crate) use pooling::max_pool;

/// Fills the slots.
pub(crate) fn fill() {
    views::fill();
    copies::fill();
    activation::fill();
    comparison::fill();
    reduction::fill();
    pooling::fill();
    refused::fill();
}
