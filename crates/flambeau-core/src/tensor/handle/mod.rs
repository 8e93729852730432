//! The tensor handle.

mod alias;
mod data;
mod errors;
mod hollow;
pub(crate) mod lent;
mod names;
mod quantized;
mod sparse;
mod wrapper;

use crate::tensor::geometry::{self, Dims, Survey};
use crate::tensor::graph::{self, Edge};
use crate::tensor::quantized::{Memory, Quantized};
use crate::tensor::sparse::Sparse;
use crate::tensor::storage::{Apart, Storage};
use crate::tensor::wrapper::Wrapper;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::keys::{Key, KeySet};
use crate::types::layout::{Layout, MemoryFormat};
use crate::types::thread_keys;
use crate::{DType, Element};
use errors::{lengths_differ, out_of_bounds, span_overflows};
use flambeau_memory::Shared;
use std::any::Any;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

pub use wrapper::Shown;

/// A multi-dimensional array: a cheap handle, clones are the same tensor (Python's `y = x`). Element data is shared
/// between views and may be changed in place through any of them.
#[derive(Clone)]
#[doc(alias = "torch.Tensor")]
pub struct Tensor(Shared<TensorImpl>);

/// Whose memory a tensor reads.
enum Owner {
    Storage(Storage),
    /// A view keeps its root tensor: gradients of in-place writes through the view belong to it.
    Base(Tensor),
    /// All that is rare stands apart: what every call asks is a choice of two, and what drops these is out of line (so they
    /// are counted, not boxed).
    Rare(Arc<Rare>),
}
/// Tensors whose memory is not simply theirs or a root's.
enum Rare {
    /// No memory: tensors of indices and values.
    Sparse(Sparse),
    /// A stand-in: sizes, and a storage without a byte that only tells which stand-in it is. Every alias keeps it, and no
    /// flag of a fast path is set, so nothing reads what is not there, whatever its keys say.
    Hollow(Storage),
    /// Memory of other tensors whose writes through this one they do not count (`x.data()`).
    Apart(Arc<Apart>),
    /// No memory: tensors that a class of wrappers knows.
    Wrapper(Wrapper),
    /// Memory, own or a root's, and what its integers stand for. No flag of a fast path is set.
    Quantized(Quantized),
}
impl Rare {
    #[cold]
    fn memory(&self) -> &Storage {
        match self {
            Rare::Sparse(s) => &s.memory,
            Rare::Hollow(s) => s,
            Rare::Apart(a) => &a.storage,
            Rare::Wrapper(w) => &w.memory,
            Rare::Quantized(q) => match &q.memory {
                Memory::Storage(s) => s,
                Memory::Base(b) => b.storage(),
            },
        }
    }
    /// The root of a view.
    #[cold]
    fn base(&self) -> Option<&Tensor> {
        match self {
            Rare::Quantized(Quantized { memory: Memory::Base(b), .. }) => Some(b),
            _ => None,
        }
    }
}
impl Owner {
    fn rare(&self) -> Option<&Rare> {
        match self {
            Owner::Rare(r) => Some(r),
            _ => None,
        }
    }
}
impl From<Rare> for Owner {
    fn from(r: Rare) -> Owner {
        Owner::Rare(Arc::new(r))
    }
}

const CONJ: u8 = 1;
const NEG: u8 = 2;
const WRAPPED: u8 = 4;
const INFERENCE: u8 = 8;
const CONTIGUOUS: u8 = 16;
const CPU: u8 = 32;
const ROW_MAJOR: u8 = 64;
const PARAMETER: u8 = 128;
/// Keys that views have from their bases.
const OF_BASES: KeySet = KeySet(1 << Key::Autograd as u8 | 1 << Key::Apart as u8);

struct TensorImpl {
    owner: Owner,
    dims: Dims,
    offset: i64,
    numel: i64,
    keys: AtomicU32,
    dtype: DType,
    device: Device,
    layout: Layout,
    flags: u8,
    /// What the engine must know at every call, without a look at `state`.
    engine_bits: AtomicU8,
    /// The history of a tensor that got it before anybody else had a handle; else in `seldom`.
    made_by: Option<Edge>,
    /// One cell for all that few tensors have: each cell of its own would be made and dropped with every result.
    seldom: OnceLock<Box<Seldom>>,
}
#[derive(Default)]
struct Seldom {
    edge: OnceLock<Edge>,
    state: OnceLock<Box<dyn Any + Send + Sync>>,
    names: names::NameCell,
}
impl TensorImpl {
    fn seldom(&self) -> &Seldom {
        self.seldom.get_or_init(Box::default)
    }
}

/// Bits of a tensor that a view may set differently from its source.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct LazyBits {
    /// Elements read as their conjugates.
    pub conj: bool,
    /// Elements read as negated.
    pub neg: bool,
}

impl Survey {
    #[inline(always)]
    fn flags(self) -> u8 {
        (if self.contiguous { CONTIGUOUS } else { 0 }) | if self.row_major { ROW_MAJOR } else { 0 }
    }
}

impl Tensor {
    fn build(
        owner: Owner,
        sizes: &[i64],
        strides: &[i64],
        offset: i64,
        dtype: DType,
        device: Device,
        flags: u8,
    ) -> Tensor {
        let facts = geometry::survey(sizes, strides).unwrap_or_else(|| Survey {
            numel: geometry::numel(sizes),
            contiguous: geometry::is_contiguous(sizes, strides),
            row_major: false,
            last: 0,
        });
        Self::surveyed(owner, Dims::new(sizes, strides), facts, offset, dtype, device, flags)
    }
    #[inline(always)]
    fn surveyed(
        owner: Owner,
        dims: Dims,
        facts: Survey,
        offset: i64,
        dtype: DType,
        device: Device,
        flags: u8,
    ) -> Tensor {
        let (cpu, keys) = owner.access(device);
        let contiguous = facts.flags();
        Tensor(Shared::with(|| TensorImpl {
            owner,
            dims,
            offset,
            numel: facts.numel,
            keys: AtomicU32::new(keys),
            dtype,
            device,
            layout: Layout::Strided,
            flags: flags | contiguous | cpu,
            engine_bits: AtomicU8::new(0),
            made_by: None,
            seldom: OnceLock::new(),
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
        if lent::asked(device)
            && let Some(t) = lent::lent(sizes, None, dtype)
        {
            return Ok(t);
        }
        let storage = Storage::empty(numel as usize * dtype.size(), device)?;
        let facts = Survey::row_major(numel);
        Ok(Self::surveyed(
            Owner::Storage(storage),
            Dims::contiguous(sizes),
            facts,
            0,
            dtype,
            device,
            fresh_flags(),
        ))
    }
    /// A fresh contiguous tensor of the same sizes, on the CPU.
    #[inline]
    pub(crate) fn fresh_like(&self, dtype: DType) -> Result<Tensor> {
        let numel = self.0.numel;
        if lent::asked(Device::Cpu)
            && let Some(t) = lent::lent(self.sizes(), None, dtype)
        {
            return Ok(t);
        }
        let storage = Storage::empty(numel as usize * dtype.size(), Device::Cpu)?;
        let facts = Survey::row_major(numel);
        let owner = Owner::Storage(storage);
        if self.0.flags & ROW_MAJOR != 0
            && let Some(dims) = self.0.dims.short()
        {
            return Ok(Self::surveyed(owner, dims, facts, 0, dtype, Device::Cpu, fresh_flags()));
        }
        let dims = Dims::contiguous(self.sizes());
        Ok(Self::surveyed(owner, dims, facts, 0, dtype, Device::Cpu, fresh_flags()))
    }
    /// A fresh tensor with any bytes in it.
    ///
    /// # Errors
    /// Negative or absurd sizes, no memory.
    pub(crate) fn empty_strided_raw(
        sizes: &[i64],
        strides: &[i64],
        dtype: DType,
        device: Device,
    ) -> Result<Tensor> {
        let n = geometry::checked_numel(sizes)?;
        if sizes.len() != strides.len() {
            return Err(Error::shape(format!(
                "dimensionality of sizes ({}) must match dimensionality of strides ({})",
                sizes.len(),
                strides.len()
            )));
        }
        let span = geometry::checked_span(sizes, strides).ok_or_else(|| span_overflows(sizes, strides))?;
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
        if lent::asked(device)
            && let Some(t) = lent::lent(sizes, Some(strides), dtype)
        {
            return Ok(t);
        }
        let storage = Storage::empty(bytes, device)?;
        Ok(Self::build(Owner::Storage(storage), sizes, strides, 0, dtype, device, fresh_flags()))
    }
    /// A fresh contiguous tensor with any bytes in it.
    pub(crate) fn empty_raw(sizes: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
        let n = geometry::checked_numel(sizes)?;
        geometry::checked_bytes(sizes, dtype.size())?;
        Self::fresh_contiguous(sizes, n, dtype, device)
    }
    /// A fresh contiguous tensor of zero bytes.
    pub(crate) fn zeros_raw(sizes: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
        let bytes = geometry::checked_bytes(sizes, dtype.size())?;
        if lent::asked(device)
            && let Some(t) = lent::lent(sizes, None, dtype)
        {
            t.storage().with_bytes_mut(|b| b[..bytes].fill(0))?;
            return Ok(t);
        }
        let storage = Storage::zeroed(bytes, device)?;
        Ok(Self::on_storage(storage, sizes, &geometry::contiguous_strides(sizes), 0, dtype))
    }
    fn on_storage(storage: Storage, sizes: &[i64], strides: &[i64], offset: i64, dtype: DType) -> Tensor {
        let device = storage.device();
        Self::build(Owner::Storage(storage), sizes, strides, offset, dtype, device, fresh_flags())
    }
    /// A tensor over existing storage.
    ///
    /// # Errors
    /// When the geometry leaves the storage.
    pub(crate) fn from_storage(
        storage: &Storage,
        sizes: &[i64],
        strides: &[i64],
        offset: i64,
        dtype: DType,
    ) -> Result<Tensor> {
        if sizes.len() != strides.len() {
            return Err(lengths_differ());
        }
        check_bounds(storage, sizes, strides, offset, dtype)?;
        Ok(Self::on_storage(storage.clone(), sizes, strides, offset, dtype))
    }
    /// A tensor that owns a vector's elements, without copying.
    ///
    /// # Errors
    /// When the number of elements does not match.
    pub(crate) fn from_vec_raw<T: Element>(v: Vec<T>, sizes: &[i64]) -> Result<Tensor> {
        let n = geometry::checked_numel(sizes)?;
        if n as usize != v.len() {
            return Err(Error::shape(format!(
                "shape '{}' is invalid for input of size {}",
                geometry::fmt_sizes(sizes),
                v.len()
            )));
        }
        let strides = geometry::contiguous_strides(sizes);
        Ok(Self::on_storage(Storage::from_vec(v), sizes, &strides, 0, T::DTYPE))
    }
    /// A zero-dim tensor of one element.
    pub(crate) fn scalar_raw<T: Element>(v: T) -> Result<Tensor> {
        Self::number(v, 0)
    }
    /// The same, counted as a Python number in type promotion.
    pub(crate) fn wrapped_raw<T: Element>(v: T) -> Result<Tensor> {
        Self::number(v, WRAPPED)
    }
    #[inline]
    fn number<T: Element>(v: T, flags: u8) -> Result<Tensor> {
        let storage = Storage::of_bytes(bytemuck::bytes_of(&v))?;
        let facts = Survey::row_major(1);
        Ok(Self::surveyed(
            Owner::Storage(storage),
            Dims::contiguous(&[]),
            facts,
            0,
            T::DTYPE,
            Device::Cpu,
            flags | fresh_flags(),
        ))
    }

    /// Another geometry over the same memory: how every view is made. The result remembers its root tensor.
    ///
    /// # Errors
    /// When the geometry leaves the storage.
    #[inline]
    pub(crate) fn view_raw(
        &self,
        sizes: impl AsRef<[i64]>,
        strides: impl AsRef<[i64]>,
        offset: i64,
    ) -> Result<Tensor> {
        self.view_typed(sizes, strides, offset, self.0.dtype, self.lazy_bits())
    }
    /// The same, with another dtype or other lazy bits.
    #[inline]
    pub(crate) fn view_typed(
        &self,
        sizes: impl AsRef<[i64]>,
        strides: impl AsRef<[i64]>,
        offset: i64,
        dtype: DType,
        bits: LazyBits,
    ) -> Result<Tensor> {
        self.view_of(sizes.as_ref(), strides.as_ref(), offset, dtype, bits)
    }
    fn view_of(
        &self,
        sizes: &[i64],
        strides: &[i64],
        offset: i64,
        dtype: DType,
        bits: LazyBits,
    ) -> Result<Tensor> {
        if sizes.len() != strides.len() {
            return Err(lengths_differ());
        }
        let root = self.root();
        let facts = check_bounds(root.storage(), sizes, strides, offset, dtype)?;
        let flags =
            if bits.conj { CONJ } else { 0 } | if bits.neg { NEG } else { 0 } | self.0.flags & INFERENCE;
        let (owner, dims) = (self.view_owner(), Dims::new(sizes, strides));
        Ok(Self::surveyed(owner, dims, facts, offset, dtype, self.0.device, flags))
    }
    /// A view whose sizes and strides are this tensor's after `edit`, which keeps their number.
    ///
    /// # Errors
    /// When the geometry leaves the storage.
    #[inline]
    pub(crate) fn view_edited(
        &self,
        offset: i64,
        edit: impl FnOnce(&mut [i64], &mut [i64]),
    ) -> Result<Tensor> {
        let i = &*self.0;
        let (owner, flags) = (self.view_owner(), i.flags & (CONJ | NEG | INFERENCE));
        let unknown = Survey { numel: 0, contiguous: false, row_major: false, last: 0 };
        let mut t = match i.dims.short() {
            Some(dims) => Self::surveyed(owner, dims, unknown, offset, i.dtype, i.device, flags),
            None => {
                let dims = Dims::new(self.sizes(), self.strides());
                Self::surveyed(owner, dims, unknown, offset, i.dtype, i.device, flags)
            }
        };
        // edited where it lies: changed on the stack and then copied, it would be waited for
        if let Some(new) = Shared::get_mut(&mut t.0) {
            let (sizes, strides) = new.dims.parts_mut();
            edit(sizes, strides);
            let facts = check_bounds(self.storage(), sizes, strides, offset, i.dtype)?;
            new.numel = facts.numel;
            new.flags |= facts.flags();
        }
        Ok(t)
    }
    /// A view with other sizes where both geometries are row-major and have the same number of elements: the most frequent
    /// view, which needs no search for strides and cannot leave the storage.
    #[inline]
    pub(crate) fn view_row_major(&self, sizes: &[i64]) -> Option<Tensor> {
        let i = &*self.0;
        let mut n = 1i64;
        for &s in sizes {
            n = if s > 0 { n.checked_mul(s)? } else { return None };
        }
        if n != i.numel || i.flags & ROW_MAJOR == 0 {
            return None;
        }
        let facts = Survey::row_major(n);
        let owner = self.view_owner();
        let flags = i.flags & (CONJ | NEG | INFERENCE);
        Some(Self::surveyed(owner, Dims::contiguous(sizes), facts, i.offset, i.dtype, i.device, flags))
    }
    /// The root tensor that a view was made of, or the tensor itself.
    #[inline]
    pub(crate) fn root(&self) -> &Tensor {
        match &self.0.owner {
            Owner::Base(b) => b,
            Owner::Storage(_) => self,
            Owner::Rare(r) => r.base().unwrap_or(self),
        }
    }
    /// The tensor that this one is a view of (`_base`).
    #[inline]
    pub(crate) fn view_base(&self) -> Option<&Tensor> {
        match &self.0.owner {
            Owner::Base(b) => Some(b),
            Owner::Storage(_) => None,
            Owner::Rare(r) => r.base(),
        }
    }
    /// The memory.
    #[inline(always)]
    pub(crate) fn storage(&self) -> &Storage {
        match &self.root().0.owner {
            Owner::Storage(s) => s,
            // a root is never a view itself: `view_typed` always takes the root
            Owner::Base(b) => b.storage(),
            Owner::Rare(r) => r.memory(),
        }
    }

    /// Sizes of all dimensions (`shape`).
    #[inline]
    #[doc(alias = "torch.Tensor.shape")]
    pub fn sizes(&self) -> &[i64] {
        self.0.dims.sizes()
    }
    /// Sizes of all dimensions.
    #[inline]
    #[doc(alias = "torch.Tensor.size")]
    pub fn shape(&self) -> &[i64] {
        self.0.dims.sizes()
    }
    /// Strides of all dimensions, in elements.
    #[inline]
    #[doc(alias = "torch.Tensor.stride")]
    pub fn strides(&self) -> &[i64] {
        self.0.dims.strides()
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
        self.0.dims.rank()
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
    /// `torch.FloatTensor`: what `torch.typename` and old error texts call a tensor.
    pub fn typename(&self) -> String {
        format!("torch.{}Tensor", self.dtype().scalar_type_name())
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
    pub(crate) fn lazy_bits(&self) -> LazyBits {
        LazyBits { conj: self.is_conj(), neg: self.is_neg() }
    }
    /// Made of a number, for type promotion.
    #[inline]
    pub(crate) fn is_wrapped_number(&self) -> bool {
        self.0.flags & WRAPPED != 0
    }
    /// Contiguous, on the CPU, no lazy bits, not a wrapped number: what fast paths ask for, in one test.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.0.flags & (CONTIGUOUS | CPU | CONJ | NEG | WRAPPED) == CONTIGUOUS | CPU
    }
    /// A number on the CPU, in one test. Lazy bits and views do not occur with numbers.
    #[inline(always)]
    pub(crate) fn is_plain_number(&self) -> bool {
        self.0.flags & (CONTIGUOUS | CPU | CONJ | NEG | WRAPPED) == CONTIGUOUS | CPU | WRAPPED
            && self.0.numel == 1
    }
    /// Equal sizes.
    #[inline(always)]
    pub(crate) fn same_sizes(&self, o: &Tensor) -> bool {
        self.0.dims.same_sizes(&o.0.dims)
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
        Shared::as_ptr(&self.0) as usize
    }
    /// Whether both handles are the same tensor (Python's `is`).
    #[inline]
    pub fn is_same(&self, o: &Tensor) -> bool {
        Shared::same(&self.0, &o.0)
    }
    /// Number of handles on this tensor.
    pub(crate) fn handle_count(&self) -> usize {
        Shared::count(&self.0)
    }
    /// Whether nobody else has a handle on this tensor or on its memory, and dispatch has nothing to do but call the CPU's
    /// kernel: then no lock is needed, and no other thread can get in between while the handle is borrowed.
    #[inline]
    pub(crate) fn is_unshared(&mut self) -> bool {
        self.is_plain()
            && match Shared::get_mut(&mut self.0) {
                Some(i) => match &mut i.owner {
                    Owner::Storage(s) => s.is_unshared(),
                    _ => false,
                },
                None => false,
            }
    }
    /// Made in inference mode: it can never be part of a graph.
    #[inline(always)]
    #[doc(alias = "torch.is_inference")]
    #[doc(alias = "torch.Tensor.is_inference")]
    pub fn is_inference(&self) -> bool {
        self.0.flags & INFERENCE != 0
    }
    /// `_version` as Python sees it.
    ///
    /// # Errors
    /// Inference tensors have none.
    pub(crate) fn try_version(&self) -> Result<u32> {
        if self.is_inference() {
            return Err(Error::runtime("Inference tensors do not track version counter."));
        }
        Ok(self.version())
    }
    /// Number of in-place writes to the storage so far (`_version`).
    #[inline]
    pub(crate) fn version(&self) -> u32 {
        match &self.0.owner {
            Owner::Storage(s) => s.tracked_version(),
            Owner::Base(b) => match &b.0.owner {
                Owner::Storage(s) => s.tracked_version(),
                _ => b.rare_version(),
            },
            Owner::Rare(_) => self.rare_version(),
        }
    }
    #[cold]
    fn rare_version(&self) -> u32 {
        match self.apart() {
            Some(a) => a.version(),
            None => self.storage().tracked_version(),
        }
    }
    /// Whether its elements lie in memory of its own or of a root, as nearly everybody's do.
    #[inline(always)]
    pub(crate) fn is_common(&self) -> bool {
        !matches!(self.0.owner, Owner::Rare(_))
    }

    /// Dispatch keys.
    #[inline(always)]
    pub(crate) fn key_set(&self) -> KeySet {
        let own = KeySet(self.0.keys.load(Ordering::Relaxed));
        match &self.0.owner {
            // an in-place write to the base may have made it, and so every view of it, part of a gradient graph
            Owner::Base(b) => own | KeySet(b.0.keys.load(Ordering::Relaxed) & OF_BASES.0),
            _ => own,
        }
    }
    /// Sets or clears a key of this tensor. Every handle sees it.
    pub(crate) fn set_key(&self, k: Key, on: bool) {
        let bit = KeySet::of(k).0;
        if on {
            self.0.keys.fetch_or(bit, Ordering::AcqRel);
        } else {
            self.0.keys.fetch_and(!bit, Ordering::AcqRel);
        }
    }
    /// The gradient edge that the tensor was made with. In-place writes may have rewritten it: the engine knows.
    #[inline]
    pub(crate) fn first_edge(&self) -> Option<&Edge> {
        self.0.made_by.as_ref().or_else(|| self.0.seldom.get()?.edge.get())
    }
    /// Gives a tensor its history. Only the first call counts.
    #[inline]
    pub(crate) fn set_first_edge(&self, e: Edge) -> bool {
        let fresh = self.0.made_by.is_none() && self.0.seldom().edge.set(e).is_ok();
        self.set_key(Key::Autograd, true);
        fresh
    }
    /// As [`Tensor::set_first_edge`] without synchronisation, for a tensor that has just been made; gives the edge back
    /// if there are other handles, or the engine already keeps data of this tensor.
    #[inline]
    pub(crate) fn set_edge_of_new(&mut self, e: Edge) -> Option<Edge> {
        match Shared::get_mut(&mut self.0) {
            Some(i) if i.made_by.is_none() && i.seldom.get().is_none() => {
                i.made_by = Some(e);
                *i.keys.get_mut() |= KeySet::of(Key::Autograd).0;
                None
            }
            _ => Some(e),
        }
    }
    /// Bits that belong to the engine.
    #[inline(always)]
    pub(crate) fn engine_bits(&self) -> u8 {
        self.0.engine_bits.load(Ordering::Acquire)
    }
    /// Sets or clears bits of the engine.
    pub(crate) fn set_engine_bits(&self, bits: u8, on: bool) {
        if on {
            self.0.engine_bits.fetch_or(bits, Ordering::AcqRel);
        } else {
            self.0.engine_bits.fetch_and(!bits, Ordering::AcqRel);
        }
    }
    /// The engine's data of this tensor.
    #[inline]
    pub(crate) fn autograd_state(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.0.seldom.get()?.state.get().map(|b| &**b)
    }
    /// The engine's data of this tensor, made by `init` at the first call.
    pub(crate) fn autograd_state_or_init(
        &self,
        init: impl FnOnce() -> Box<dyn Any + Send + Sync>,
    ) -> &(dyn Any + Send + Sync) {
        &**self.0.seldom().state.get_or_init(init)
    }

    /// Part of a gradient graph: a leaf that requires a gradient, or computed from one.
    #[inline]
    #[doc(alias = "torch.Tensor.requires_grad")]
    pub fn requires_grad(&self) -> bool {
        if let Some(inner) = self.wrapped() {
            return inner.carrier().requires_grad();
        }
        // the key is also set for tensors with a tangent: those have a state but neither edge nor request
        self.key_set().has(Key::Autograd)
            && (self.first_edge().is_some() || graph::engine().is_ok_and(|e| (e.requires_grad)(self)))
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
/// Flags of a tensor over memory of its own.
#[inline(always)]
fn fresh_flags() -> u8 {
    if thread_keys::inference() { INFERENCE } else { 0 }
}

/// What the geometry is, if it stays inside a storage.
#[inline(always)]
fn check_bounds(s: &Storage, sizes: &[i64], strides: &[i64], offset: i64, dtype: DType) -> Result<Survey> {
    if let Some(facts) = geometry::survey(sizes, strides)
        && (0..i64::MAX).contains(&offset)
        && let Some(elements) = facts.last.checked_add(offset + 1)
        && let Some(bytes) = elements.checked_mul(dtype.size() as i64)
        && (facts.numel == 0 || bytes as u64 <= s.nbytes() as u64)
    {
        return Ok(facts);
    }
    check_slow(s, sizes, strides, offset, dtype)
}
/// In numbers that hold any geometry: what does not fit, or was refused because a number overflowed.
#[cold]
#[inline(never)]
fn check_slow(s: &Storage, sizes: &[i64], strides: &[i64], offset: i64, dtype: DType) -> Result<Survey> {
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
    let numel = geometry::view_numel(sizes)?;
    let contiguous = geometry::is_contiguous(sizes, strides);
    Ok(Survey { numel, contiguous, row_major: false, last: last as i64 })
}
