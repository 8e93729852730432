//! Pinned memory of the host, which devices read by themselves: copies from it to a device need not wait.

use super::elements::{self, Elements};
use crate::ops;
use crate::tensor::geometry;
use crate::tensor::handle::Tensor;
use crate::tensor::storage::Storage;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::layout::Layout;

/// The back end whose devices there are.
fn accelerator() -> Option<&'static dyn Elements> {
    crate::dispatch::registry::init();
    let there = |d: &Device| super::of(*d).is_ok();
    [Device::Cuda(0), Device::Private(0)].into_iter().filter(there).find_map(elements::of)
}
/// Whether there is a device that reads such memory.
pub fn available() -> bool {
    accelerator().is_some()
}
/// Whether a storage has memory that a device reads by itself.
pub fn is_storage(s: &Storage) -> bool {
    let marked = s.device() == Device::Cpu && s.mark().is_ok_and(|m| m.is_some());
    marked && accelerator().is_some_and(|a| a.is_pinned(s))
}
/// Whether a tensor has memory that a device reads by itself.
pub fn is(t: &Tensor) -> bool {
    t.layout() == Layout::Strided && t.device() == Device::Cpu && is_storage(t.storage())
}
/// A tensor of the host in pinned memory.
fn empty_like(t: &Tensor) -> Result<Tensor> {
    if t.device() != Device::Cpu || t.layout() != Layout::Strided {
        return Err(Error::runtime(format!(
            "cannot pin '{}' only dense CPU tensors can be pinned",
            type_name(t)
        )));
    }
    let accelerator = accelerator();
    let accelerator = accelerator
        .ok_or_else(|| Error::runtime("Cannot access accelerator device when none is available."))?;
    let strides = super::transfer::preserved_strides(t);
    let n = geometry::span(t.sizes(), &strides) as usize * t.dtype().size();
    let storage = Storage::of_host_memory(accelerator.pin(n)?);
    Tensor::from_storage(&storage, t.sizes(), &strides, 0, t.dtype())
}
fn type_name(t: &Tensor) -> String {
    let kind = if matches!(t.device(), Device::Cuda(_)) { "torch.cuda." } else { "torch." };
    format!("{kind}{}Tensor", t.dtype().scalar_type_name())
}
/// The tensor in pinned memory: itself where it is.
///
/// # Errors
/// There is no device, or no such memory; a tensor that is not dense or not on the CPU.
pub fn pin(t: &Tensor) -> Result<Tensor> {
    if is(t) {
        return Ok(t.clone());
    }
    let out = empty_like(t)?;
    ops::copy_(&out, t, false)?;
    Ok(out)
}
/// What a factory made, in pinned memory.
///
/// # Errors
/// As [`pin`].
pub fn made(t: Tensor) -> Result<Tensor> {
    pin(&t)
}
/// Asked before a copy that a program wants. `true` where it was made, or will be when the device gets there.
pub(crate) fn copied(dst: &Tensor, src: &Tensor, non_blocking: bool) -> Result<bool> {
    let (device, host) = match (dst.device(), src.device()) {
        (Device::Cpu | Device::Meta, Device::Cpu | Device::Meta) => return Ok(false),
        (d, Device::Cpu) => (d, src),
        (Device::Cpu, d) => (d, dst),
        _ => return Ok(false),
    };
    let Some(elements) = elements::of(device) else { return Ok(false) };
    let pinned = is(host);
    elements.may_copy(device, pinned)?;
    let same = dst.dtype() == src.dtype()
        && dst.lazy_bits() == src.lazy_bits()
        && dst.sizes() == src.sizes()
        && dst.strides() == src.strides()
        && geometry::is_non_overlapping_and_dense(dst.sizes(), dst.strides());
    if !pinned || !non_blocking || !same || src.device() != Device::Cpu || src.numel() == 0 {
        return Ok(false);
    }
    let done = elements.copy_pinned(dst, src)?;
    if done {
        dst.storage().bump_version();
    }
    Ok(done)
}
