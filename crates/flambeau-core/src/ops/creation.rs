//! Factories.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::geometry::{self, SizeVec};
use crate::iter::{self, PointwiseSpec, Promote};
use crate::layout::{Layout, MemoryFormat};
use crate::ops;
use crate::ops::copy::format_like;
use crate::promotion;
use crate::scalar::Scalar;
use crate::tensor::Tensor;
use crate::{DType, ensure};

/// Checks the options that every factory has, and fills in the defaults.
pub(crate) fn factory(
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<(DType, Device)> {
    if let Some(l) = layout.filter(|l| *l != Layout::Strided) {
        return Err(Error::missing(format!("factories with layout torch.{}", l.name())));
    }
    ensure!(pin_memory != Some(true), Missing, "pinned memory");
    Ok((dtype.unwrap_or_else(promotion::default_dtype), device.unwrap_or(Device::Cpu)))
}

/// `empty.memory_format`
pub fn empty(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let (dtype, device) = factory(dtype, layout, device, pin_memory)?;
    match memory_format {
        None | Some(MemoryFormat::Contiguous) => Tensor::empty_raw(size, dtype, device),
        Some(MemoryFormat::Preserve) => {
            Err(Error::runtime("empty(): the preserve memory format is only meaningful for empty_like"))
        }
        Some(f) => Tensor::empty_strided_raw(size, &geometry::format_strides(size, f)?, dtype, device),
    }
}

/// `empty_strided`
pub fn empty_strided(
    size: &[i64],
    stride: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let (dtype, device) = factory(dtype, layout, device, pin_memory)?;
    Tensor::empty_strided_raw(size, stride, dtype, device)
}

/// `zeros`
pub fn zeros(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let (dtype, device) = factory(dtype, layout, device, pin_memory)?;
    Tensor::zeros_raw(size, dtype, device)
}

/// `full`: the dtype follows the value unless given.
pub fn full(
    size: &[i64],
    fill_value: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let inferred = dtype.unwrap_or_else(|| promotion::scalar_default_dtype(fill_value));
    let (dtype, device) = factory(Some(inferred), layout, device, pin_memory)?;
    if fill_value.equals(0.0) && !matches!(fill_value, Scalar::Float(f) if f.is_sign_negative()) {
        return Tensor::zeros_raw(size, dtype, device);
    }
    let out = Tensor::empty_raw(size, dtype, device)?;
    fill_scalar_(&out, fill_value)?;
    Ok(out)
}
/// `ones`
pub fn ones(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    full(
        size,
        Scalar::Int(1),
        Some(dtype.unwrap_or_else(promotion::default_dtype)),
        layout,
        device,
        pin_memory,
    )
}

/// `empty_like`
pub fn empty_like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let (dtype, device) = like(self_, dtype, layout, device, pin_memory)?;
    let st: SizeVec = format_like(self_, memory_format)?;
    Tensor::empty_strided_raw(self_.sizes(), &st, dtype, device)
}
fn like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<(DType, Device)> {
    factory(Some(dtype.unwrap_or(self_.dtype())), layout, Some(device.unwrap_or(self_.device())), pin_memory)
}
/// `full_like`
pub fn full_like(
    self_: &Tensor,
    fill_value: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let out = empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
    fill_scalar_(&out, fill_value)?;
    Ok(out)
}
/// `zeros_like`
pub fn zeros_like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    full_like(self_, Scalar::Int(0), dtype, layout, device, pin_memory, memory_format)
}
/// `ones_like`
pub fn ones_like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    full_like(self_, Scalar::Int(1), dtype, layout, device, pin_memory, memory_format)
}

static FILL: PointwiseSpec = PointwiseSpec {
    name: "fill_",
    label: "fill_cpu",
    kernel: &flambeau_cpu::pointwise::FILL,
    promote: Promote::First,
};

/// Writes one number to every element. No dispatch.
pub(crate) fn fill_scalar_(self_: &Tensor, value: Scalar) -> Result<()> {
    if self_.dtype().is_integral(false) || self_.dtype() == DType::Bool || !value.is_complex() {
        iter::fill(&FILL, self_, value.param())
    } else {
        ensure!(
            self_.is_complex(),
            Runtime,
            "value cannot be converted to type {} without overflow",
            self_.dtype().scalar_type_name().to_lowercase()
        );
        iter::fill(&FILL, self_, value.param())
    }
}
/// `fill_.Scalar`
pub fn fill_(self_: &Tensor, value: Scalar) -> Result<()> {
    iter::check_no_internal_overlap(self_)?;
    fill_scalar_(self_, value)
}
/// `fill_.Tensor`
pub fn fill_tensor_(self_: &Tensor, value: &Tensor) -> Result<()> {
    ensure!(
        value.dim() == 0,
        Runtime,
        "fill_ only supports 0-dimension value tensor but got tensor with {} dimensions.",
        value.dim()
    );
    ops::copy_(self_, value, false)
}
/// `zero_`
pub fn zero_(self_: &Tensor) -> Result<()> {
    fill_(self_, Scalar::Int(0))
}
