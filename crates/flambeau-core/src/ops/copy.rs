//! Copies and casts.

use crate::backend::pinned;
use crate::backend::transfer::{copy_into, preserved_strides};
use crate::iter::check_no_internal_overlap;
use crate::tensor::geometry::{self, SizeVec};
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::layout::{Layout, MemoryFormat};
use crate::{DType, ensure, ops};

/// `copy_`: broadcasts and casts.
pub fn copy_(self_: &Tensor, src: &Tensor, non_blocking: bool) -> Result<()> {
    geometry::expand_strides(src.sizes(), src.strides(), self_.sizes()).or_else(|_| {
        let shape = geometry::broadcast_shapes(self_.sizes(), src.sizes())?;
        Err(Error::shape(format!(
            "output with shape {} doesn't match the broadcast shape {}",
            geometry::fmt_sizes(self_.sizes()),
            geometry::fmt_sizes(&shape)
        )))
    })?;
    check_no_internal_overlap(self_)?;
    if pinned::copied(self_, src, non_blocking)? {
        return Ok(());
    }
    copy_into(self_, src)
}

/// Strides that `clone`, `to` and the `*_like` factories give their result.
pub fn format_like(t: &Tensor, format: Option<MemoryFormat>) -> Result<SizeVec> {
    match format.unwrap_or(MemoryFormat::Preserve) {
        MemoryFormat::Preserve => Ok(preserved_strides(t)),
        f => geometry::format_strides(t.sizes(), f),
    }
}

/// `clone`
pub fn clone(self_: &Tensor, memory_format: Option<MemoryFormat>) -> Result<Tensor> {
    let st = format_like(self_, memory_format)?;
    let out = Tensor::empty_strided_raw(self_.sizes(), &st, self_.dtype(), self_.device())?;
    copy_into(&out, self_)?;
    Ok(out)
}

/// `_to_copy`: a fresh tensor in another dtype, device or format.
pub fn to_copy(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    non_blocking: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    if layout.is_some_and(|l| l != self_.layout()) {
        return Err(Error::missing(format!("to(layout={})", layout.map_or("", Layout::name))));
    }
    // the call by the row's function moves it afterwards
    ensure!(pin_memory != Some(true), Missing, "pinned memory by a kernel");
    let st = format_like(self_, memory_format)?;
    let dtype = dtype.unwrap_or(self_.dtype());
    let device = device.unwrap_or(self_.device());
    if self_.device() == Device::Meta && device != Device::Meta {
        return Err(Error::unsupported("Cannot copy out of meta tensor; no data!"));
    }
    let out = Tensor::empty_strided_raw(self_.sizes(), &st, dtype, device)?;
    if !pinned::copied(&out, self_, non_blocking)? {
        copy_into(&out, self_)?;
    }
    Ok(out)
}

/// `contiguous`
pub fn contiguous(self_: &Tensor, memory_format: MemoryFormat) -> Result<Tensor> {
    if memory_format == MemoryFormat::Preserve {
        return Err(Error::runtime("preserve memory format is unsupported by the contiguous operator"));
    }
    if self_.is_contiguous_format(memory_format) {
        return Ok(self_.clone());
    }
    ops::clone(self_, Some(memory_format))
}

/// `to.dtype_layout`: the tensor itself when nothing changes.
pub fn to(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    non_blocking: bool,
    copy: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let same = dtype.is_none_or(|d| d == self_.dtype())
        && layout.is_none_or(|l| l == self_.layout())
        && device.is_none_or(|d| d == self_.device())
        && pin_memory != Some(true)
        && memory_format.is_none_or(|f| f == MemoryFormat::Preserve || self_.is_contiguous_format(f));
    if same && !copy {
        return Ok(self_.clone());
    }
    ops::to_copy(self_, dtype, layout, device, pin_memory, non_blocking, memory_format)
}

/// `resolve_conj`
pub fn resolve_conj(self_: &Tensor) -> Result<Tensor> {
    if self_.is_conj() { ops::clone(self_, None) } else { Ok(self_.clone()) }
}
/// `resolve_neg`
pub fn resolve_neg(self_: &Tensor) -> Result<Tensor> {
    if self_.is_neg() { ops::clone(self_, None) } else { Ok(self_.clone()) }
}

/// `_set_source`
pub fn set_source(source: &Tensor) -> Result<Tensor> {
    Tensor::from_storage(
        source.storage(),
        source.sizes(),
        source.strides(),
        source.storage_offset(),
        source.dtype(),
    )
}
