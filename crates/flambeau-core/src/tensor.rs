//! The tensor handle.

use crate::access::{Data, DataMut};
use crate::device::Device;
use crate::dispatch::{Key, KeySet};
use crate::error::{Error, Result};
use crate::geometry::{self, SizeVec};
use crate::graph::{self, Edge};
use crate::layout::{Layout, MemoryFormat};
use crate::storage::Storage;
use crate::{DType, Element};
use std::any::Any;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// A multi-dimensional array: a cheap handle, clones are the same tensor (Python's `y = x`). Element data is shared
/// between views and may be changed in place through any of them.
#[derive(Clone)]
#[doc(alias = "torch.Tensor")]
pub struct Tensor(Arc<TensorImpl>);

/// Whose memory a tensor reads.
enum Owner {
    Storage(Storage),
    /// A view keeps its root tensor: gradients of in-place writes through the view belong to it.
    Base(Tensor),
}

const CONJ: u8 = 1;
const NEG: u8 = 2;
const WRAPPED: u8 = 4;
const INFERENCE: u8 = 8;
const CONTIGUOUS: u8 = 16;

struct TensorImpl {
    owner: Owner,
    sizes: SizeVec,
    strides: SizeVec,
    offset: i64,
    numel: i64,
    keys: AtomicU32,
    dtype: DType,
    device: Device,
    layout: Layout,
    flags: u8,
    edge: OnceLock<Edge>,
    state: OnceLock<Box<dyn Any + Send + Sync>>,
}

/// Bits of a tensor that a view may set differently from its source.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct LazyBits {
    /// Elements read as their conjugates.
    pub conj: bool,
    /// Elements read as negated.
    pub neg: bool,
}

impl Tensor {
    fn build(
        owner: Owner,
        sizes: SizeVec,
        numel: i64,
        strides: SizeVec,
        offset: i64,
        dtype: DType,
        device: Device,
        flags: u8,
    ) -> Tensor {
        let contiguous = geometry::is_contiguous(&sizes, &strides);
        Tensor(Arc::new(TensorImpl {
            owner,
            sizes,
            strides,
            offset,
            numel,
            keys: AtomicU32::new(device.key_set().0),
            dtype,
            device,
            layout: Layout::Strided,
            flags: flags | if contiguous { CONTIGUOUS } else { 0 },
            edge: OnceLock::new(),
            state: OnceLock::new(),
        }))
    }
    /// A fresh contiguous tensor whose sizes are known to be valid and fit in memory: the hot path of operators.
    #[inline]
    pub(crate) fn fresh_contiguous(
        sizes: &[i64],
        numel: i64,
        dtype: DType,
        device: Device,
    ) -> Result<Tensor> {
        let storage = Storage::empty(numel as usize * dtype.size(), device)?;
        let sizes = SizeVec::from_slice(sizes);
        let strides = geometry::contiguous_strides(&sizes);
        Ok(Tensor(Arc::new(TensorImpl {
            owner: Owner::Storage(storage),
            sizes,
            strides,
            offset: 0,
            numel,
            keys: AtomicU32::new(device.key_set().0),
            dtype,
            device,
            layout: Layout::Strided,
            flags: CONTIGUOUS,
            edge: OnceLock::new(),
            state: OnceLock::new(),
        })))
    }
    /// A fresh tensor with any bytes in it.
    ///
    /// # Errors
    /// Negative or absurd sizes, no memory.
    pub fn empty_strided_raw(sizes: &[i64], strides: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
        let n = geometry::checked_numel(sizes)?;
        if sizes.len() != strides.len() {
            return Err(Error::shape(format!(
                "dimensionality of sizes ({}) must match dimensionality of strides ({})",
                sizes.len(),
                strides.len()
            )));
        }
        let mut span: i64 = 1;
        for (&s, &st) in sizes.iter().zip(strides) {
            let steps = (s - 1).max(0).checked_mul(st).filter(|x| *x >= 0 && st >= 0);
            span = steps.and_then(|x| x.checked_add(span)).ok_or_else(|| span_overflows(sizes, strides))?;
        }
        let elements = if n == 0 { 0 } else { span };
        let bytes = (elements as usize)
            .checked_mul(dtype.size())
            .filter(|b| *b <= isize::MAX as usize)
            .ok_or_else(|| {
                Error::memory(format!(
                    "Storage size calculation overflowed with sizes={}",
                    geometry::fmt_sizes(sizes)
                ))
            })?;
        let storage = Storage::empty(bytes, device)?;
        Ok(Self::build(
            Owner::Storage(storage),
            SizeVec::from_slice(sizes),
            n,
            SizeVec::from_slice(strides),
            0,
            dtype,
            device,
            0,
        ))
    }
    /// A fresh contiguous tensor with any bytes in it.
    pub fn empty_raw(sizes: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
        let n = geometry::checked_numel(sizes)?;
        geometry::checked_bytes(sizes, dtype.size())?;
        Self::fresh_contiguous(sizes, n, dtype, device)
    }
    /// A fresh contiguous tensor of zero bytes.
    pub fn zeros_raw(sizes: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
        let bytes = geometry::checked_bytes(sizes, dtype.size())?;
        let storage = Storage::zeroed(bytes, device)?;
        let n = (bytes / dtype.size()) as i64;
        Ok(Self::on_storage(storage, sizes, n, &geometry::contiguous_strides(sizes), 0, dtype))
    }
    /// A fresh contiguous tensor on the CPU whose elements `f` writes. It calls no operator.
    ///
    /// # Errors
    /// Negative or absurd sizes, no memory.
    pub fn made_raw<T: Element>(sizes: &[i64], f: impl FnOnce(&mut [T])) -> Result<Tensor> {
        let t = Self::empty_raw(sizes, T::DTYPE, Device::Cpu)?;
        let a = crate::access::Access::new(&[], &[&t])?;
        f(a.slice_mut(0)?);
        drop(a);
        Ok(t)
    }
    fn on_storage(
        storage: Storage,
        sizes: &[i64],
        numel: i64,
        strides: &[i64],
        offset: i64,
        dtype: DType,
    ) -> Tensor {
        let device = storage.device();
        Self::build(
            Owner::Storage(storage),
            SizeVec::from_slice(sizes),
            numel,
            SizeVec::from_slice(strides),
            offset,
            dtype,
            device,
            0,
        )
    }
    /// A tensor over existing storage.
    ///
    /// # Errors
    /// When the geometry leaves the storage.
    pub fn from_storage(
        storage: &Storage,
        sizes: &[i64],
        strides: &[i64],
        offset: i64,
        dtype: DType,
    ) -> Result<Tensor> {
        let n = check_bounds(storage, sizes, strides, offset, dtype)?;
        Ok(Self::on_storage(storage.clone(), sizes, n, strides, offset, dtype))
    }
    /// A tensor that owns a vector's elements, without copying.
    ///
    /// # Errors
    /// When the number of elements does not match.
    pub fn from_vec_raw<T: Element>(v: Vec<T>, sizes: &[i64]) -> Result<Tensor> {
        let n = geometry::checked_numel(sizes)?;
        if n as usize != v.len() {
            return Err(Error::shape(format!(
                "shape '{}' is invalid for input of size {}",
                geometry::fmt_sizes(sizes),
                v.len()
            )));
        }
        let strides = geometry::contiguous_strides(sizes);
        Ok(Self::on_storage(Storage::from_vec(v), sizes, n, &strides, 0, T::DTYPE))
    }
    /// A zero-dim tensor of one element.
    pub fn scalar_raw<T: Element>(v: T) -> Result<Tensor> {
        let t = Self::fresh_contiguous(&[], 1, T::DTYPE, Device::Cpu)?;
        t.storage().with_bytes_mut(|b| b[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&v)))?;
        Ok(t)
    }

    /// Another geometry over the same memory: how every view is made. The result remembers its root tensor.
    ///
    /// # Errors
    /// When the geometry leaves the storage.
    #[inline]
    pub fn view_raw(&self, sizes: SizeVec, strides: SizeVec, offset: i64) -> Result<Tensor> {
        self.view_typed(sizes, strides, offset, self.0.dtype, self.lazy_bits())
    }
    /// The same, with another dtype or other lazy bits.
    pub fn view_typed(
        &self,
        sizes: SizeVec,
        strides: SizeVec,
        offset: i64,
        dtype: DType,
        bits: LazyBits,
    ) -> Result<Tensor> {
        let n = check_bounds(self.storage(), &sizes, &strides, offset, dtype)?;
        let flags =
            if bits.conj { CONJ } else { 0 } | if bits.neg { NEG } else { 0 } | self.0.flags & INFERENCE;
        let owner = Owner::Base(self.root().clone());
        Ok(Self::build(owner, sizes, n, strides, offset, dtype, self.0.device, flags))
    }
    /// The same memory and geometry as a tensor of its own: no view, no history (`detach`).
    pub fn alias_detached(&self) -> Tensor {
        let i = &*self.0;
        Self::build(
            Owner::Storage(self.storage().clone()),
            i.sizes.clone(),
            i.numel,
            i.strides.clone(),
            i.offset,
            i.dtype,
            i.device,
            i.flags & (CONJ | NEG),
        )
    }
    /// The same tensor counted as a Python number in type promotion.
    pub fn into_wrapped_number(self) -> Tensor {
        let i = &*self.0;
        Self::build(
            Owner::Storage(self.storage().clone()),
            i.sizes.clone(),
            i.numel,
            i.strides.clone(),
            i.offset,
            i.dtype,
            i.device,
            i.flags | WRAPPED,
        )
    }
    /// The root tensor that a view was made of, or the tensor itself.
    #[inline]
    pub fn root(&self) -> &Tensor {
        match &self.0.owner {
            Owner::Base(b) => b,
            Owner::Storage(_) => self,
        }
    }
    /// The tensor that this one is a view of (`_base`).
    #[inline]
    pub fn view_base(&self) -> Option<&Tensor> {
        match &self.0.owner {
            Owner::Base(b) => Some(b),
            Owner::Storage(_) => None,
        }
    }
    /// The memory.
    #[inline]
    pub fn storage(&self) -> &Storage {
        match &self.root().0.owner {
            Owner::Storage(s) => s,
            // a root is never a view itself: `view_typed` always takes the root
            Owner::Base(b) => b.storage(),
        }
    }

    /// Sizes of all dimensions (`shape`).
    #[inline]
    #[doc(alias = "torch.Tensor.shape")]
    pub fn sizes(&self) -> &[i64] {
        &self.0.sizes
    }
    /// Sizes of all dimensions.
    #[inline]
    #[doc(alias = "torch.Tensor.size")]
    pub fn shape(&self) -> &[i64] {
        &self.0.sizes
    }
    /// Strides of all dimensions, in elements.
    #[inline]
    #[doc(alias = "torch.Tensor.stride")]
    pub fn strides(&self) -> &[i64] {
        &self.0.strides
    }
    /// Offset of the first element in the storage, in elements.
    #[inline]
    #[doc(alias = "torch.Tensor.storage_offset")]
    pub fn storage_offset(&self) -> i64 {
        self.0.offset
    }
    /// Number of elements.
    #[inline]
    #[doc(alias = "torch.Tensor.numel")]
    #[doc(alias = "torch.Tensor.nelement")]
    pub fn numel(&self) -> i64 {
        self.0.numel
    }
    /// Number of dimensions.
    #[inline]
    #[doc(alias = "torch.Tensor.dim")]
    #[doc(alias = "torch.Tensor.ndim")]
    pub fn dim(&self) -> usize {
        self.0.sizes.len()
    }
    /// Element type.
    #[inline]
    #[doc(alias = "torch.Tensor.dtype")]
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }
    /// Device.
    #[inline]
    #[doc(alias = "torch.Tensor.device")]
    pub fn device(&self) -> Device {
        self.0.device
    }
    /// Layout.
    #[inline]
    #[doc(alias = "torch.Tensor.layout")]
    pub fn layout(&self) -> Layout {
        self.0.layout
    }
    /// Row-major without gaps.
    #[inline]
    #[doc(alias = "torch.Tensor.is_contiguous")]
    pub fn is_contiguous(&self) -> bool {
        self.0.flags & CONTIGUOUS != 0
    }
    /// Contiguous in the given memory format.
    pub fn is_contiguous_format(&self, format: MemoryFormat) -> bool {
        geometry::is_contiguous_format(self.sizes(), self.strides(), format)
    }
    /// The lazy conjugate bit.
    #[inline]
    #[doc(alias = "torch.Tensor.is_conj")]
    pub fn is_conj(&self) -> bool {
        self.0.flags & CONJ != 0
    }
    /// The lazy negative bit.
    #[inline]
    #[doc(alias = "torch.Tensor.is_neg")]
    pub fn is_neg(&self) -> bool {
        self.0.flags & NEG != 0
    }
    /// Both lazy bits.
    #[inline]
    pub fn lazy_bits(&self) -> LazyBits {
        LazyBits { conj: self.is_conj(), neg: self.is_neg() }
    }
    /// Made of a number, for type promotion.
    #[inline]
    pub fn is_wrapped_number(&self) -> bool {
        self.0.flags & WRAPPED != 0
    }
    /// Contiguous, no lazy bits, not a wrapped number: what fast paths ask for, in one test.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.0.flags & (CONTIGUOUS | CONJ | NEG | WRAPPED) == CONTIGUOUS
    }
    /// Bytes of one element.
    #[doc(alias = "torch.Tensor.element_size")]
    #[doc(alias = "torch.Tensor.itemsize")]
    pub fn element_size(&self) -> usize {
        self.0.dtype.size()
    }
    /// Identity of the handle's target: equal for clones.
    #[inline]
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
    /// Whether both handles are the same tensor (Python's `is`).
    #[inline]
    pub fn is_same(&self, o: &Tensor) -> bool {
        Arc::ptr_eq(&self.0, &o.0)
    }
    /// Number of handles on this tensor.
    pub fn handle_count(&self) -> usize {
        Arc::strong_count(&self.0)
    }
    /// Number of in-place writes to the storage so far (`_version`).
    pub fn version(&self) -> u32 {
        self.storage().version()
    }

    /// Dispatch keys.
    #[inline(always)]
    pub fn key_set(&self) -> KeySet {
        let own = KeySet(self.0.keys.load(Ordering::Relaxed));
        match &self.0.owner {
            Owner::Storage(_) => own,
            // an in-place write to the base may have made it, and so every view of it, part of a gradient graph
            Owner::Base(b) => own | KeySet(b.0.keys.load(Ordering::Relaxed) & KeySet::of(Key::Autograd).0),
        }
    }
    /// Sets or clears a key of this tensor. Every handle sees it.
    pub fn set_key(&self, k: Key, on: bool) {
        let bit = KeySet::of(k).0;
        if on {
            self.0.keys.fetch_or(bit, Ordering::AcqRel);
        } else {
            self.0.keys.fetch_and(!bit, Ordering::AcqRel);
        }
    }
    /// The gradient edge that the tensor was made with. In-place writes may have rewritten it: the engine knows.
    #[inline]
    pub fn first_edge(&self) -> Option<&Edge> {
        self.0.edge.get()
    }
    /// Gives a tensor its history. Only the first call counts.
    #[inline]
    pub fn set_first_edge(&self, e: Edge) -> bool {
        let fresh = self.0.edge.set(e).is_ok();
        self.set_key(Key::Autograd, true);
        fresh
    }
    /// The engine's data of this tensor.
    #[inline]
    pub fn autograd_state(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.0.state.get().map(|b| &**b)
    }
    /// The engine's data of this tensor, made by `init` at the first call.
    pub fn autograd_state_or_init(
        &self,
        init: impl FnOnce() -> Box<dyn Any + Send + Sync>,
    ) -> &(dyn Any + Send + Sync) {
        &**self.0.state.get_or_init(init)
    }

    /// Elements, borrowed. Keep it short: operators that write this tensor fail while it is alive.
    ///
    /// # Errors
    /// Another element type, not contiguous, or borrowed mutably.
    #[track_caller]
    pub fn try_data<T: Element>(&self) -> Result<Data<'_, T>> {
        Data::new(self, Location::caller())
    }
    /// Elements, borrowed mutably. Keep it short: operators that touch this tensor fail while it is alive.
    ///
    /// # Errors
    /// Another element type, not contiguous, or borrowed.
    #[track_caller]
    pub fn try_data_mut<T: Element>(&self) -> Result<DataMut<'_, T>> {
        DataMut::new(self, Location::caller())
    }
    /// [`Tensor::try_data`] that panics.
    #[track_caller]
    pub fn data<T: Element>(&self) -> Data<'_, T> {
        crate::ergonomic::expect(self.try_data())
    }
    /// [`Tensor::try_data_mut`] that panics.
    #[track_caller]
    pub fn data_mut<T: Element>(&self) -> DataMut<'_, T> {
        crate::ergonomic::expect(self.try_data_mut())
    }

    /// Part of a gradient graph: a leaf that requires a gradient, or computed from one.
    #[inline]
    #[doc(alias = "torch.Tensor.requires_grad")]
    pub fn requires_grad(&self) -> bool {
        // the key is also set for tensors with a tangent: those have a state but neither edge nor request
        self.key_set().has(Key::Autograd)
            && (self.0.edge.get().is_some() || graph::engine().is_ok_and(|e| (e.requires_grad)(self)))
    }
}

/// An empty list with room for `n` tensors.
///
/// # Errors
/// When the system has no memory for as many tensors, which are made one by one later.
pub(crate) fn tensor_list(n: i64) -> Result<Vec<Tensor>> {
    geometry::room::<[TensorImpl; 1]>(n)?;
    geometry::room(n)
}
/// Checks that a geometry stays inside a storage, and counts its elements.
fn check_bounds(s: &Storage, sizes: &[i64], strides: &[i64], offset: i64, dtype: DType) -> Result<i64> {
    let size = dtype.size() as i128;
    let mut last: i128 = offset as i128;
    let mut empty = false;
    let mut bad = offset < 0 || sizes.len() != strides.len();
    for (&n, &st) in sizes.iter().zip(strides) {
        bad |= n < 0 || st < 0;
        empty |= n == 0;
        last = last.saturating_add((n as i128 - 1) * st as i128);
    }
    let need = last.saturating_add(1).saturating_mul(size);
    if bad || (!empty && need > s.nbytes() as i128) {
        return Err(out_of_bounds(s, sizes, strides, offset, dtype, need));
    }
    geometry::view_numel(sizes)
}
#[cold]
fn span_overflows(sizes: &[i64], strides: &[i64]) -> Error {
    Error::memory(format!(
        "Storage size calculation overflowed with sizes={} and strides={}",
        geometry::fmt_sizes(sizes),
        geometry::fmt_sizes(strides)
    ))
}
#[cold]
fn out_of_bounds(
    s: &Storage,
    sizes: &[i64],
    strides: &[i64],
    offset: i64,
    dtype: DType,
    need: i128,
) -> Error {
    let (n, st) = (geometry::fmt_sizes(sizes), geometry::fmt_sizes(strides));
    if sizes.len() != strides.len() {
        return Error::shape("mismatch in length of strides and shape");
    }
    if offset < 0 {
        return Error::storage(format!("Tensor: invalid storage offset {offset}"));
    }
    if strides.iter().any(|s| *s < 0) {
        return Error::shape(format!(
            "as_strided: Negative strides are not supported at the moment, got strides: {st}"
        ));
    }
    // PyTorch takes a negative size for a huge one
    if need > i64::MAX as i128 || sizes.iter().any(|s| *s < 0) {
        return span_overflows(sizes, strides);
    }
    Error::storage(format!(
        "setStorage: sizes {n}, strides {st}, storage offset {offset}, and itemsize {} requiring a storage size of {need} \
         are out of bounds for storage of size {}",
        dtype.size(),
        s.nbytes()
    ))
}
