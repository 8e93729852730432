//! Copies of a tensor with a part replaced, and copies of a part.

use crate::backend::transfer::copy_into;
use crate::ops::views;
use crate::tensor::geometry::{self, SizeVec, fmt_sizes};
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::Result;
use crate::types::scalar::Scalar;
use crate::{ensure, ops};

/// A copy with a part replaced.
fn replaced(self_: &Tensor, src: &Tensor, part: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let out = ops::clone(self_, None)?;
    let p = part(&out)?;
    ensure!(
        p.sizes() == src.sizes(),
        Runtime,
        "expected src to have a size equal to the slice of self. src size = {}, slice size = {}",
        fmt_sizes(src.sizes()),
        fmt_sizes(p.sizes())
    );
    copy_into(&p, src)?;
    Ok(out)
}
/// `select_scatter`
pub fn select_scatter(self_: &Tensor, src: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    replaced(self_, src, |x| views::select(x, dim, index))
}
/// `slice_scatter`
pub fn slice_scatter(
    self_: &Tensor,
    src: &Tensor,
    dim: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<Tensor> {
    replaced(self_, src, |x| views::slice(x, dim, start, end, step))
}
/// `diagonal_scatter`
pub fn diagonal_scatter(self_: &Tensor, src: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    replaced(self_, src, |x| views::diagonal(x, offset, dim1, dim2))
}
/// `narrow_copy`
pub fn narrow_copy(self_: &Tensor, dim: i64, start: i64, length: i64) -> Result<Tensor> {
    crate::ensure!(self_.dim() > 0, Runtime, "narrow() cannot be applied to a 0-dim tensor.");
    crate::ensure!(
        dim < self_.dim() as i64,
        Runtime,
        "Expected dim < static_cast<int64_t>(self_sizes.size()) to be true, but got false.  (Could this error message be \
         improved?  If so, please report an enhancement request to PyTorch.)"
    );
    let d = crate::tensor::geometry::wrap_dim(dim, self_.dim())?;
    crate::ensure!(
        length >= 0,
        Runtime,
        "start ({start}) + length ({length}) exceeds dimension size ({}).",
        self_.sizes()[d]
    );
    crate::ops::clone(&crate::ops::narrow(self_, dim, start, length)?, Some(crate::MemoryFormat::Contiguous))
}

/// `fill_diagonal_`
pub fn fill_diagonal_(self_: &Tensor, fill_value: Scalar, wrap: bool) -> Result<()> {
    let n = self_.dim();
    ensure!(n >= 2, Runtime, "dimensions must larger than 1");
    let (rows, columns) = (self_.sizes()[0], self_.sizes()[1]);
    ensure!(
        n == 2 || self_.sizes().iter().all(|s| *s == rows),
        Runtime,
        "all dimensions of input must be of equal length"
    );
    let step = |i: usize| self_.strides()[i];
    let length = rows.min(columns);
    let all: i64 = (0..n).map(step).sum();
    let fill = |length: i64, from: i64, step: i64| -> Result<()> {
        let diagonal = self_.view_raw([length], [step], self_.storage_offset() + from)?;
        ops::fill_(&diagonal, fill_value)
    };
    fill(length, 0, all)?;
    if wrap && n == 2 && rows > columns + 1 {
        // one row is left out below each square; the next diagonal begins after it
        let mut top = columns + 1;
        while top < rows {
            fill((rows - top).min(columns), top * step(0), all)?;
            top += columns + 1;
        }
    }
    Ok(())
}

/// `as_strided_scatter`
pub fn as_strided_scatter(
    self_: &Tensor,
    src: &Tensor,
    size: &[i64],
    stride: &[i64],
    storage_offset: Option<i64>,
) -> Result<Tensor> {
    // what does not lie in the memory is reported before the sizes
    let out = same_layout(self_)?;
    let slice = ops::as_strided(&out, size, stride, storage_offset)?;
    ensure!(
        src.sizes() == size,
        Runtime,
        "expected src to have a size equal to the slice of self. src size = {}, slice size = {}",
        fmt_sizes(src.sizes()),
        fmt_sizes(size)
    );
    ops::copy_(&slice, src, false)?;
    Ok(out)
}

/// A copy of a tensor's whole memory, with the tensor's place in it.
fn same_layout(t: &Tensor) -> Result<Tensor> {
    if geometry::has_internal_overlap(t.sizes(), t.strides()) {
        return ops::clone(t, None);
    }
    if t.device() == Device::Meta {
        return Tensor::empty_strided_raw(t.sizes(), t.strides(), t.dtype(), Device::Meta);
    }
    let n = (t.storage().nbytes() / t.element_size()) as i64;
    let all = Tensor::from_storage(t.storage(), &[n], &[1], 0, t.dtype())?;
    let (sizes, strides) = (SizeVec::from_slice(t.sizes()), SizeVec::from_slice(t.strides()));
    ops::clone(&all, None)?.view_typed(sizes, strides, t.storage_offset(), t.dtype(), t.lazy_bits())
}
