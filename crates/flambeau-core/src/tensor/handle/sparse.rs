//! Handles of sparse tensors.

use crate::DType;
use crate::tensor::geometry::Dims;
use crate::tensor::handle::{INFERENCE, PARAMETER, Rare, Tensor, TensorImpl, fresh_flags};
use crate::tensor::sparse::Sparse;
use crate::types::device::Device;
use crate::types::error::Result;
use crate::types::keys::{Key, KeySet};
use crate::types::layout::Layout;
use flambeau_memory::Shared;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32};

impl Tensor {
    /// A sparse tensor; its parts are known to agree with the sizes. None of the flags that fast paths ask for is set.
    pub(crate) fn sparse_raw(sizes: &[i64], layout: Layout, dtype: DType, parts: Sparse) -> Result<Tensor> {
        let numel = crate::tensor::sparse::checked_numel(sizes)?;
        let flags = fresh_flags();
        Ok(Self::sparse_of(Dims::contiguous(sizes), numel, layout, dtype, flags, parts))
    }
    pub(super) fn sparse_of(
        dims: Dims,
        numel: i64,
        layout: Layout,
        dtype: DType,
        flags: u8,
        parts: Sparse,
    ) -> Tensor {
        Tensor(Shared::with(|| TensorImpl {
            owner: Rare::Sparse(parts).into(),
            dims,
            offset: 0,
            numel,
            keys: AtomicU32::new(KeySet::of(Key::SparseCpu).0),
            dtype,
            device: Device::Cpu,
            layout,
            flags: flags & (INFERENCE | PARAMETER),
            engine_bits: AtomicU8::new(0),
            made_by: None,
            seldom: OnceLock::new(),
        }))
    }
    pub(crate) fn sparse(&self) -> Option<&Sparse> {
        match self.0.owner.rare()? {
            Rare::Sparse(s) => Some(s),
            _ => None,
        }
    }
}
