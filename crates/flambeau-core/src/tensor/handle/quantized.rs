//! Handles of quantized tensors.

use crate::DType;
use crate::tensor::handle::{CPU, Owner, Rare, Tensor, fresh_flags};
use crate::tensor::quantized::{Memory, Quantized};
use crate::types::device::Device;
use crate::types::keys::{Key, KeySet};

impl Owner {
    /// The flag and the keys of a tensor of such memory on a device.
    #[inline(always)]
    pub(super) fn access(&self, device: Device) -> (u8, u32) {
        match self {
            Owner::Rare(r) => r.access(device),
            _ => (if device == Device::Cpu { CPU } else { 0 }, device.key_set().0),
        }
    }
}
impl Rare {
    #[cold]
    fn access(&self, device: Device) -> (u8, u32) {
        match self {
            Rare::Quantized(_) => (0, KeySet::of(Key::QuantizedCpu).0),
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
        let owner = Rare::Quantized(owner).into();
        Self::build(owner, sizes, strides, offset, dtype, Device::Cpu, fresh_flags())
    }
    #[inline]
    pub(crate) fn quantized(&self) -> Option<&Quantized> {
        match self.0.owner.rare()? {
            Rare::Quantized(q) => Some(q),
            _ => None,
        }
    }
    /// What a view of this tensor reads: its root's memory, by this tensor's rule.
    #[inline(always)]
    pub(super) fn view_owner(&self) -> Owner {
        match &self.0.owner {
            Owner::Storage(_) => Owner::Base(self.clone()),
            Owner::Base(root) => Owner::Base(root.clone()),
            Owner::Rare(_) => self.rare_view_owner(),
        }
    }
    #[cold]
    #[inline(never)]
    fn rare_view_owner(&self) -> Owner {
        let root = self.root().clone();
        match self.quantized() {
            Some(q) => Rare::Quantized(Quantized::new(Memory::Base(root), q.quantizer())).into(),
            None => Owner::Base(root),
        }
    }
    /// What another tensor over the same memory reads, which is no view.
    pub(super) fn alias_owner(&self) -> Owner {
        let storage = self.storage().clone();
        match self.quantized() {
            Some(q) => Rare::Quantized(Quantized::new(Memory::Storage(storage), q.quantizer())).into(),
            None => Owner::Storage(storage),
        }
    }
}
