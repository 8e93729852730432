//! Handles of stand-ins.

use crate::DType;
use crate::tensor::geometry;
use crate::tensor::handle::{CPU, ROW_MAJOR, Rare, Tensor, lengths_differ, span_overflows};
use crate::tensor::storage::Storage;
use crate::types::device::Device;
use crate::types::error::Result;
use crate::types::keys::Key;
use flambeau_memory::Shared;

impl Tensor {
    /// Sizes, strides, dtype and device without memory, for a [`StandIn`](crate::dispatch::stand_in::StandIn): reading it is an error.
    pub(crate) fn hollow(sizes: &[i64], strides: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
        geometry::checked_numel(sizes)?;
        if sizes.len() != strides.len() {
            return Err(lengths_differ());
        }
        let span = geometry::checked_span(sizes, strides).ok_or_else(|| span_overflows(sizes, strides))?;
        geometry::checked_bytes(&[span], dtype.size())?;
        Ok(Self::hollow_on(Storage::empty(0, device)?, sizes, strides, dtype, device, 0))
    }
    pub(super) fn hollow_on(
        storage: Storage,
        sizes: &[i64],
        strides: &[i64],
        dtype: DType,
        device: Device,
        flags: u8,
    ) -> Tensor {
        let flags = flags & !(CPU | ROW_MAJOR);
        let mut t = Self::build(Rare::Hollow(storage).into(), sizes, strides, 0, dtype, device, flags);
        if let Some(i) = Shared::get_mut(&mut t.0) {
            i.flags &= !(CPU | ROW_MAJOR);
        }
        t.set_key(Key::StandIn, true);
        t
    }
    /// Whether it is a stand-in, whatever its keys say.
    pub(crate) fn is_hollow(&self) -> bool {
        matches!(self.root().0.owner.rare(), Some(Rare::Hollow(_)))
    }
}
