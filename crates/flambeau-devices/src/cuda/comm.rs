//! `torch.cuda.comm`: tensors to and from several devices.

use super::absent;
use crate::table::answers;
use flambeau_core::{Error, Result, Tensor};

fn on_the_cpu(tensors: &[Tensor]) -> Option<usize> {
    tensors.iter().position(|t| !matches!(t.device(), flambeau_core::Device::Cuda(_)))
}
fn added<T>(inputs: &[Tensor]) -> Result<T> {
    match on_the_cpu(inputs) {
        Some(i) => Err(Error::assertion(format!(
            "reduce_add expects all inputs to be on GPUs, but input {i} is on CPU"
        ))),
        None => absent(),
    }
}

answers! { "torch.cuda.comm", NAMES {
    /// Copies a tensor to several devices.
    try try_broadcast(tensor: Tensor; devices: crate::Anything, out: crate::Anything) -> Vec<Tensor> { absent() }
    /// Copies tensors to several devices, small ones together.
    try try_broadcast_coalesced(tensors: Vec<Tensor>, devices: crate::Anything; buffer_size: i64) -> Vec<Tensor> { absent() }
    /// Cuts a tensor and gives each device a piece.
    try try_scatter(tensor: Tensor; devices: crate::Anything, chunk_sizes: crate::Anything, dim: i64, streams: crate::Anything, out: crate::Anything) -> Vec<Tensor> { absent() }
    /// Puts the pieces of several devices together.
    try try_gather(tensors: Vec<Tensor>; dim: i64, destination: crate::Anything, out: crate::Anything) -> Tensor {
        match on_the_cpu(&tensors) {
            Some(i) => Err(Error::runtime(format!(
                "Expected all input tensors to be CUDA tensors, but tensor at index {i} has device {}",
                tensors[i].device()
            ))),
            None => absent(),
        }
    }
    /// The sum of tensors of several devices.
    try try_reduce_add(inputs: Vec<Tensor>; destination: crate::Anything) -> Tensor { added(&inputs) }
    /// Sums of tensors of several devices, small ones together.
    try try_reduce_add_coalesced(inputs: Vec<Tensor>; destination: crate::Anything, buffer_size: i64) -> Vec<Tensor> { added(&inputs) }
} }
