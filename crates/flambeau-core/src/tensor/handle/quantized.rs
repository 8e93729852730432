//! Handles of quantized tensors.

use crate::DType;
use crate::tensor::handle::{CPU, Owner, Tensor, fresh_flags};
use crate::tensor::quantized::{Memory, Quantized};
use crate::types::device::Device;
use crate::types::keys::{Key, KeySet};

impl Owner {
    /// The flag and the keys of a tensor of such memory on a device.
    #[inline(always)]
    pub(super) fn access(&self, device: Device) -> (u8, u32) {
        match self {
            Owner::Quantized(_) => (0, KeySet::of(Key::QuantizedCpu).0),
            _ => (if device == Device::Cpu { CPU } else { 0 }, device.key_set().0),
        }
    }
}

impl Tensor {
    /// A quantized tensor; its memory is known to hold the geometry.
    pub(crate) fn quantized_raw(
        sizes: &[i64],
        strides: &[i64],
        offset: i64,
        dtype: DType,
        owner: Quantized,
    ) -> Tensor {
        let owner = Owner::Quantized(Box::new(owner));
        Self::build(owner, sizes, strides, offset, dtype, Device::Cpu, fresh_flags())
    }
    pub(crate) fn quantized(&self) -> Option<&Quantized> {
        match &self.0.owner {
            Owner::Quantized(q) => Some(q),
            _ => None,
        }
    }
    /// What a view of this tensor reads: its root's memory, by this tensor's rule.
    #[inline]
    pub(super) fn view_owner(&self) -> Owner {
        let root = self.root().clone();
        match &self.0.owner {
            Owner::Quantized(q) => {
                Owner::Quantized(Box::new(Quantized::new(Memory::Base(root), q.quantizer())))
            }
            _ => Owner::Base(root),
        }
    }
    /// What another tensor over the same memory reads, which is no view.
    pub(super) fn alias_owner(&self) -> Owner {
        let storage = self.storage().clone();
        match &self.0.owner {
            Owner::Quantized(q) => {
                Owner::Quantized(Box::new(Quantized::new(Memory::Storage(storage), q.quantizer())))
            }
            _ => Owner::Storage(storage),
        }
    }
}
