//! Handles of wrappers.

use crate::DType;
use crate::tensor::geometry::Dims;
use crate::tensor::handle::{CONTIGUOUS, INFERENCE, PARAMETER, Rare, Tensor, TensorImpl};
use crate::tensor::storage::Storage;
use crate::tensor::wrapper::{Wrapped, Wrapper};
use crate::types::device::Device;
use crate::types::error::Result;
use crate::types::keys::{Key, KeySet};
use crate::types::layout::Layout;
use flambeau_memory::Shared;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32};

/// What a wrapper shows of itself without its class.
pub struct Shown<'a> {
    /// Sizes; a class may put numbers of its own, which are below zero, where a dimension has no one size.
    pub sizes: &'a [i64],
    /// Strides, as many.
    pub strides: &'a [i64],
    /// Number of elements.
    pub numel: i64,
    /// Row-major without gaps.
    pub contiguous: bool,
    /// Layout.
    pub layout: Layout,
    /// Element type.
    pub dtype: DType,
    /// Device.
    pub device: Device,
}

impl Tensor {
    /// A tensor that is made of others. It has the key of its class alone, and no flag that a fast path asks for.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn wrap(shown: &Shown<'_>, inner: Arc<dyn Wrapped>) -> Result<Tensor> {
        let memory = Storage::empty(0, Device::Cpu)?;
        Ok(Self::wrapper_of(shown, 0, Wrapper { memory, inner }))
    }
    fn wrapper_of(shown: &Shown<'_>, flags: u8, of: Wrapper) -> Tensor {
        let key = if of.inner.batched().is_some() { Key::Batched } else { Key::Wrapper };
        Tensor(Shared::with(|| TensorImpl {
            owner: Rare::Wrapper(of).into(),
            dims: Dims::new(shown.sizes, shown.strides),
            offset: 0,
            numel: shown.numel,
            keys: AtomicU32::new(KeySet::of(key).0),
            dtype: shown.dtype,
            device: shown.device,
            layout: shown.layout,
            flags: flags & (INFERENCE | PARAMETER) | if shown.contiguous { CONTIGUOUS } else { 0 },
            engine_bits: AtomicU8::new(0),
            made_by: None,
            seldom: OnceLock::new(),
        }))
    }
    /// The same around a carrier without history.
    pub(super) fn wrapper_alias(&self, w: &Wrapper, flags: u8) -> Tensor {
        let carrier = w.inner.carrier();
        let cut = if flags & PARAMETER != 0 { carrier.alias_parameter() } else { carrier.alias_detached() };
        let inner = match w.inner.around(cut) {
            Ok(inner) => inner,
            // a carrier of the same sizes always fits
            Err(_) => w.inner.clone(),
        };
        let shown = Shown {
            sizes: self.sizes(),
            strides: self.strides(),
            numel: self.numel(),
            contiguous: self.is_contiguous(),
            layout: self.layout(),
            dtype: self.dtype(),
            device: self.device(),
        };
        Self::wrapper_of(&shown, flags, Wrapper { memory: w.memory.clone(), inner })
    }
    /// The same wrapper around a tensor of its carrier's sizes.
    ///
    /// # Errors
    /// Strided and sparse tensors; other sizes.
    pub(crate) fn rewrapped(&self, carrier: Tensor) -> Result<Tensor> {
        match self.wrapped() {
            Some(inner) => {
                let shown = Shown {
                    sizes: self.sizes(),
                    strides: self.strides(),
                    numel: self.numel(),
                    contiguous: self.is_contiguous(),
                    layout: self.layout(),
                    dtype: carrier.dtype(),
                    device: carrier.device(),
                };
                Self::wrap(&shown, inner.around(carrier)?)
            }
            None => Ok(carrier),
        }
    }
    /// What it is made of, if it is a wrapper.
    pub(crate) fn wrapped(&self) -> Option<&Arc<dyn Wrapped>> {
        match self.0.owner.rare()? {
            Rare::Wrapper(w) => Some(&w.inner),
            _ => None,
        }
    }
    /// Made of other tensors, which have the memory and the gradients.
    #[inline]
    pub(crate) fn is_wrapper(&self) -> bool {
        self.wrapped().is_some()
    }
}
