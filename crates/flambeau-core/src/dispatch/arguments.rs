//! Dispatch keys of arguments that are not single tensors.

use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::keys::KeySet;

/// Keys of an optional tensor.
#[inline]
pub fn opt_keys(t: Option<&Tensor>) -> KeySet {
    t.map_or(KeySet::EMPTY, Tensor::key_set)
}
/// Keys of a list of tensors.
#[inline]
pub fn list_keys(l: &[Tensor]) -> KeySet {
    l.iter().fold(KeySet::EMPTY, |k, t| k | t.key_set())
}
/// Keys of a list of optional tensors.
#[inline]
pub fn opt_list_keys(l: &[Option<Tensor>]) -> KeySet {
    l.iter().fold(KeySet::EMPTY, |k, t| k | opt_keys(t.as_ref()))
}
/// Keys of a factory: those of the requested device.
#[inline]
pub fn device_keys(d: Option<Device>) -> KeySet {
    d.unwrap_or(Device::Cpu).key_set()
}
