//! Tensors in chunks, joined chunk by chunk.

use crate::tensor::geometry::{self, SizeVec, wrap_dim};
use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use crate::{bail, ensure, ops};

/// `_chunk_cat`
pub fn chunk_cat(tensors: &[Tensor], dim: i64, num_chunks: i64) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        bail!(Runtime, "_chunk_cat expects a non-empty input tensor list");
    };
    for t in tensors {
        ensure!(t.numel() > 0, Runtime, "_chunk_cat expects non-empty tensor");
        ensure!(
            t.dtype() == first.dtype(),
            Runtime,
            "_chunk_cat expects all input tensors with the same dtype"
        );
    }
    let d = if tensors.iter().all(|t| t.dim() == first.dim()) {
        wrap_dim(dim, first.dim())?
    } else {
        ensure!(
            dim >= 0,
            Runtime,
            "_chunk_cat expects non-negative dim when input tensors have different ndims"
        );
        dim as usize
    };
    ensure!(
        tensors.iter().all(|t| d < t.dim()),
        Runtime,
        "_chunk_cat expects dim < ndim for all input tensors"
    );
    ensure!(
        tensors.iter().all(|t| t.sizes()[..d] == first.sizes()[..d]),
        Runtime,
        "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors"
    );
    ensure!(num_chunks >= 1, Runtime, "_chunk_cat expects positive num_chunks");
    let at = d as i64;
    let parts = tensors.iter().map(|t| {
        let n = t.sizes()[d];
        let chunk = n / num_chunks + i64::from(n % num_chunks != 0);
        let missing = geometry::size_mul(chunk, num_chunks)? - n;
        let mut whole = t.clone();
        if missing > 0 {
            let mut sizes = SizeVec::from_slice(t.sizes());
            sizes[d] = missing;
            whole =
                ops::cat(&[whole, ops::zeros(&sizes, Some(t.dtype()), None, Some(t.device()), None)?], at)?;
        }
        let mut sizes = SizeVec::from_slice(&t.sizes()[..d]);
        sizes.extend_from_slice(&[num_chunks, -1]);
        ops::reshape(&whole, &sizes)
    });
    ops::cat(&parts.collect::<Result<Vec<_>>>()?, at + 1)
}
