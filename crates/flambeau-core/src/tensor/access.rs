//! How kernels and users reach elements: holds on storages, and slices that live as long as the hold.

use crate::tensor::geometry;
use crate::tensor::handle::Tensor;
use crate::tensor::storage::{Storage, busy};
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::{DType, Element, with_dtype};
use flambeau_cpu::{Any, AnyMut};
use flambeau_memory::Holds;
use smallvec::SmallVec;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::Location;

/// A kernel's hold on all storages that it touches, and the typed slices behind them. No operator may be called, and
/// no user code run, while one is alive.
pub struct Access<'a> {
    ins: SmallVec<[&'a Tensor; 6]>,
    outs: SmallVec<[&'a Tensor; 4]>,
    taken: Cell<u32>,
    _holds: Holds<'a>,
}
impl<'a> Access<'a> {
    /// Takes holds: shared ones for `ins`, exclusive ones for `outs`.
    ///
    /// # Errors
    /// When an output shares its storage with another operand (the caller works through a temporary then), when a
    /// user's guard is in the way, or off the CPU.
    pub fn new(ins: &[&'a Tensor], outs: &[&'a Tensor]) -> Result<Access<'a>> {
        let mut locks: SmallVec<[_; 8]> = SmallVec::new();
        for (i, o) in outs.iter().enumerate() {
            let same = |t: &&&Tensor| t.storage().same(o.storage());
            if ins.iter().any(|t| same(&t)) || outs[..i].iter().any(|t| same(&t)) {
                return Err(Error::storage(
                    "an output of this kernel shares its storage with another operand",
                ));
            }
            locks.push((o.storage().lock(), true));
        }
        locks.extend(ins.iter().map(|t| (t.storage().lock(), false)));
        for t in ins.iter().chain(outs) {
            if t.device() != Device::Cpu {
                return Err(Error::device(format!("a CPU kernel was given a tensor on {}", t.device())));
            }
        }
        let holds = Holds::of(&locks).map_err(busy)?;
        Ok(Access {
            ins: SmallVec::from_slice(ins),
            outs: SmallVec::from_slice(outs),
            taken: Cell::new(0),
            _holds: holds,
        })
    }
    /// Elements of input `i`, from its first to the last that its strides reach.
    pub fn slice<T: Element>(&self, i: usize) -> Result<&[T]> {
        let t = self.ins[i];
        let (ptr, n) = extent::<T>(t)?;
        // SAFETY: a shared hold is alive for `&self`; no exclusive slice of this storage exists (checked in `new`);
        // `extent` checked type and bounds, and every bit pattern is a valid `T`.
        Ok(unsafe { std::slice::from_raw_parts(ptr, n) })
    }
    /// Elements of input `i` without their type.
    pub fn any(&self, i: usize) -> Result<Any<'_>> {
        let d = self.ins[i].dtype();
        with_dtype!(d, T in [BOOL, INT, UINT, HALF, FLOAT, COMPLEX, C32, BC32, FP8, QUANT] => Ok(Any::new(self.slice::<T>(i)?)),
            else Err(Error::not_implemented_for("kernel", d)))
    }
    /// Elements of output `i` without their type. Each output is given out once.
    pub fn any_mut(&self, i: usize) -> Result<AnyMut<'_>> {
        let d = self.outs[i].dtype();
        with_dtype!(d, T in [BOOL, INT, UINT, HALF, FLOAT, COMPLEX, C32, BC32, FP8, QUANT] => Ok(AnyMut::new(self.slice_mut::<T>(i)?)),
            else Err(Error::not_implemented_for("kernel", d)))
    }
    /// Elements of output `i`, likewise. Each output is given out once.
    #[allow(clippy::mut_from_ref)]
    pub fn slice_mut<T: Element>(&self, i: usize) -> Result<&mut [T]> {
        if self.taken.get() & (1 << i) != 0 {
            return Err(Error::storage("a kernel took one output twice"));
        }
        let t = self.outs[i];
        let (ptr, n) = extent::<T>(t)?;
        self.taken.set(self.taken.get() | 1 << i);
        // SAFETY: an exclusive hold is alive for `&self`, no other operand shares the storage, the slice is given out
        // once; `extent` checked type and bounds.
        Ok(unsafe { std::slice::from_raw_parts_mut(ptr, n) })
    }
}

/// First element and number of elements that the view spans; call under a hold.
fn extent<T: Element>(t: &Tensor) -> Result<(*mut T, usize)> {
    if t.dtype() != T::DTYPE {
        return Err(Error::dtype(format!(
            "expected scalar type {} but found {}",
            T::DTYPE.scalar_type_name(),
            t.dtype().scalar_type_name()
        )));
    }
    let (first, bytes) = byte_extent(t)?;
    if bytes == 0 {
        return Ok((std::ptr::NonNull::dangling().as_ptr(), 0));
    }
    if !(first as usize).is_multiple_of(align_of::<T>()) {
        return Err(Error::storage("the view is not aligned for its element type"));
    }
    Ok((first as *mut T, bytes / size_of::<T>()))
}

/// First byte and number of bytes that a view spans, checked against its storage; call under a hold.
pub(crate) fn byte_extent(t: &Tensor) -> Result<(*mut u8, usize)> {
    crate::tensor::sparse::check_memory(t)?;
    if t.numel() == 0 || t.device() == Device::Meta {
        return Ok((std::ptr::null_mut(), 0));
    }
    let size = t.dtype().size();
    let n = geometry::span(t.sizes(), t.strides()) as usize * size;
    let start = t.storage_offset() as usize * size;
    if start + n > t.storage().nbytes() {
        return Err(Error::storage(format!(
            "setStorage: sizes {}, strides {}, storage offset {}, and itemsize {size} requiring a storage size of {} \
             are out of bounds for storage of size {}",
            geometry::fmt_sizes(t.sizes()),
            geometry::fmt_sizes(t.strides()),
            t.storage_offset(),
            start + n,
            t.storage().nbytes()
        )));
    }
    // SAFETY: in bounds, just checked; the caller holds the storage.
    Ok((unsafe { t.storage().ptr().add(start) }, n))
}

fn user_view<T: Element>(t: &Tensor) -> Result<()> {
    if !t.is_contiguous() || t.is_conj() || t.is_neg() {
        return Err(Error::storage("data() needs a contiguous tensor: call contiguous() first"));
    }
    if t.dtype() != T::DTYPE {
        return Err(Error::dtype(format!("data() of a {} tensor was asked for {}", t.dtype(), T::DTYPE)));
    }
    Ok(())
}

/// A user's shared borrow of a tensor's elements. Operators that write the tensor fail while it is alive.
pub struct Data<'a, T: Element> {
    ptr: *const T,
    len: usize,
    storage: Storage,
    _life: PhantomData<(&'a T, *const ())>,
}
/// A user's exclusive borrow of a tensor's elements. Operators that touch the tensor fail while it is alive.
pub struct DataMut<'a, T: Element> {
    ptr: *mut T,
    len: usize,
    storage: Storage,
    _life: PhantomData<(&'a mut T, *const ())>,
}
impl<'a, T: Element> Data<'a, T> {
    pub(crate) fn new(t: &'a Tensor, at: &'static Location<'static>) -> Result<Self> {
        user_view::<T>(t)?;
        let storage = t.storage().clone();
        storage.lock().guard_read(at).map_err(busy)?;
        match extent::<T>(t) {
            Ok((ptr, len)) => Ok(Data { ptr, len, storage, _life: PhantomData }),
            Err(e) => {
                // SAFETY: the guard hold was taken just above.
                unsafe { storage.lock().unlock_guard_read() };
                Err(e)
            }
        }
    }
}
impl<'a, T: Element> DataMut<'a, T> {
    pub(crate) fn new(t: &'a Tensor, at: &'static Location<'static>) -> Result<Self> {
        user_view::<T>(t)?;
        let storage = t.storage().clone();
        storage.lock().guard_write(at).map_err(busy)?;
        match extent::<T>(t) {
            Ok((ptr, len)) => Ok(DataMut { ptr, len, storage, _life: PhantomData }),
            Err(e) => {
                // SAFETY: the guard hold was taken just above.
                unsafe { storage.lock().unlock_guard_write(false) };
                Err(e)
            }
        }
    }
}
impl<T: Element> Drop for Data<'_, T> {
    fn drop(&mut self) {
        // SAFETY: `new` took exactly this guard hold.
        unsafe { self.storage.lock().unlock_guard_read() }
    }
}
impl<T: Element> Drop for DataMut<'_, T> {
    fn drop(&mut self) {
        // SAFETY: `new` took exactly this guard hold.
        unsafe { self.storage.lock().unlock_guard_write(true) }
    }
}
impl<T: Element> Deref for Data<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the shared guard hold keeps writers out, and the storage alive.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }
}
impl<T: Element> Deref for DataMut<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the exclusive guard hold keeps everybody else out.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }
}
impl<T: Element> DerefMut for DataMut<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the exclusive guard hold keeps everybody else out.
        unsafe { std::slice::from_raw_parts_mut(self.ptr, self.len) }
    }
}

/// Checks that a tensor's dtype is the one wanted, for kernels that take exactly one.
pub fn expect_dtype(t: &Tensor, want: DType) -> Result<()> {
    if t.dtype() != want {
        return Err(Error::dtype(format!(
            "expected scalar type {} but found {}",
            want.scalar_type_name(),
            t.dtype().scalar_type_name()
        )));
    }
    Ok(())
}
