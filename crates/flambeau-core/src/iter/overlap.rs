//! What a tensor must satisfy that an operator writes, and whether memory is shared.

use crate::DType;
use crate::iter::promotion;
use crate::tensor::geometry::{self, fmt_sizes};
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result};

/// What any written-to tensor must satisfy. Sizes come before dtypes, as PyTorch's iterator asks them.
pub fn check_written(out: &Tensor, shape: &[i64], dtype: DType, device: Device) -> Result<()> {
    if out.sizes() != shape {
        return Err(Error::shape(format!(
            "output with shape {} doesn't match the broadcast shape {}",
            fmt_sizes(out.sizes()),
            fmt_sizes(shape)
        )));
    }
    if !promotion::can_cast(dtype, out.dtype()) {
        return Err(Error::dtype(format!(
            "result type {} can't be cast to the desired output type {}",
            dtype.scalar_type_name(),
            out.dtype().scalar_type_name()
        )));
    }
    if out.device() != device {
        return Err(Error::device(format!(
            "Expected all tensors to be on the same device, but found at least two devices, {device} and {}!",
            out.device()
        )));
    }
    check_no_internal_overlap(out)
}
/// Refuses to write where several elements share one place.
pub fn check_no_internal_overlap(out: &Tensor) -> Result<()> {
    if geometry::has_internal_overlap(out.sizes(), out.strides()) {
        return Err(Error::storage(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. \
             Please clone() the tensor before performing the operation.",
        ));
    }
    Ok(())
}

/// `false`: disjoint or the very same elements. `true`: they may share some, so the input must be copied first.
///
/// # Errors
/// When both are dense and overlap in part: PyTorch refuses that.
pub(crate) fn overlaps_partially(out: &Tensor, input: &Tensor) -> Result<bool> {
    if !memory_meets(out, input) {
        return Ok(false);
    }
    if out.storage_offset() == input.storage_offset()
        && out.sizes() == input.sizes()
        && out.strides() == input.strides()
        && out.dtype() == input.dtype()
    {
        return Ok(false);
    }
    let dense = |t: &Tensor| geometry::is_non_overlapping_and_dense(t.sizes(), t.strides());
    if dense(out) && dense(input) {
        return Err(shared_memory());
    }
    Ok(true)
}
/// Outputs that share memory with an input.
#[cold]
pub fn shared_memory() -> Error {
    Error::storage(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory \
         location. Please clone() the tensor before performing the operation.",
    )
}
/// Whether the bytes between two tensors' first and last elements meet.
pub fn memory_meets(a: &Tensor, b: &Tensor) -> bool {
    if !a.storage().same(b.storage()) || a.numel() == 0 || b.numel() == 0 {
        return false;
    }
    let range = |t: &Tensor| {
        // sizes of what has no memory, as sparse tensors, may be any
        let size = t.dtype().size() as i64;
        let s = t.storage_offset().saturating_mul(size);
        (s, s.saturating_add(geometry::span(t.sizes(), t.strides()).saturating_mul(size)))
    };
    let ((a0, a1), (b0, b1)) = (range(a), range(b));
    a0 < b1 && b0 < a1
}
