//! How users reach elements: guards on storages, and slices that live as long as the guard.

use crate::tensor::geometry;
use crate::tensor::handle::Tensor;
use crate::tensor::storage::{Apart, Storage, busy};
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::{DType, Element, ensure};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::Arc;

/// First element and number of elements that the view spans; call under a hold.
pub(crate) fn extent<T: Element>(t: &Tensor) -> Result<(*mut T, usize)> {
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
    if t.numel() == 0 || t.device() != Device::Cpu {
        return no_bytes(t);
    }
    let size = t.dtype().size();
    let n = geometry::span(t.sizes(), t.strides()) as usize * size;
    let start = t.storage_offset() as usize * size;
    if start + n > t.storage().nbytes() {
        refuse_hollow(t)?;
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

/// Of a tensor without elements, or without memory that the host reaches.
#[cold]
fn no_bytes(t: &Tensor) -> Result<(*mut u8, usize)> {
    match t.device() {
        Device::Cpu | Device::Meta => Ok((std::ptr::null_mut(), 0)),
        other => Err(Error::device(format!("the memory is on {other}: copy it to the CPU first"))),
    }
}

/// Refuses a stand-in where memory is read directly.
pub(crate) fn refuse_hollow(t: &Tensor) -> Result<()> {
    ensure!(
        !t.is_hollow(),
        Runtime,
        "this weight is computed when an operator uses it and has no memory of its own: read `Parameter::value`"
    );
    Ok(())
}

fn user_view<T: Element>(t: &Tensor) -> Result<()> {
    if !t.is_contiguous() || t.is_conj() || t.is_neg() {
        return Err(Error::storage("elements() needs a contiguous tensor: call contiguous() first"));
    }
    if t.dtype() != T::DTYPE {
        return Err(Error::dtype(format!("elements() of a {} tensor was asked for {}", t.dtype(), T::DTYPE)));
    }
    Ok(())
}

/// A guard on a storage, without its elements.
pub(crate) struct Borrow<'a> {
    storage: &'a Storage,
    write: bool,
}
impl<'a> Borrow<'a> {
    pub(crate) fn shared(storage: &'a Storage, at: &'static Location<'static>) -> Result<Self> {
        // SAFETY: `drop` gives it back.
        unsafe { storage.lock().guard_read(at) }.map_err(busy)?;
        Ok(Borrow { storage, write: false })
    }
    pub(crate) fn exclusive(storage: &'a Storage, at: &'static Location<'static>) -> Result<Self> {
        // SAFETY: `drop` gives it back.
        unsafe { storage.lock().guard_write(at) }.map_err(busy)?;
        Ok(Borrow { storage, write: true })
    }
}
impl Drop for Borrow<'_> {
    fn drop(&mut self) {
        // SAFETY: exactly this guard was taken when it was made.
        unsafe {
            if self.write {
                self.storage.lock().unlock_guard_write(true)
            } else {
                self.storage.lock().unlock_guard_read()
            }
        }
    }
}

/// A user's shared borrow of a tensor's elements. Operators that write the tensor fail while it is alive.
pub struct Elements<'a, T: Element> {
    ptr: *const T,
    len: usize,
    storage: Storage,
    _life: PhantomData<(&'a T, *const ())>,
}
/// A user's exclusive borrow of a tensor's elements. Operators that touch the tensor fail while it is alive.
pub struct ElementsMut<'a, T: Element> {
    ptr: *mut T,
    len: usize,
    storage: Storage,
    apart: Option<Arc<Apart>>,
    _life: PhantomData<(&'a mut T, *const ())>,
}
impl<'a, T: Element> Elements<'a, T> {
    pub(crate) fn new(t: &'a Tensor, at: &'static Location<'static>) -> Result<Self> {
        user_view::<T>(t)?;
        let storage = t.storage().clone();
        // SAFETY: `drop` gives it back, and so does the error below.
        unsafe { storage.lock().guard_read(at) }.map_err(busy)?;
        match extent::<T>(t) {
            Ok((ptr, len)) => Ok(Elements { ptr, len, storage, _life: PhantomData }),
            Err(e) => {
                // SAFETY: the guard hold was taken just above.
                unsafe { storage.lock().unlock_guard_read() };
                Err(e)
            }
        }
    }
}
impl<'a, T: Element> ElementsMut<'a, T> {
    pub(crate) fn new(t: &'a Tensor, at: &'static Location<'static>) -> Result<Self> {
        user_view::<T>(t)?;
        let storage = t.storage().clone();
        // SAFETY: `drop` gives it back, and so does the error below.
        unsafe { storage.lock().guard_write(at) }.map_err(busy)?;
        match extent::<T>(t) {
            Ok((ptr, len)) => {
                let apart = t.apart().cloned();
                Ok(ElementsMut { ptr, len, storage, apart, _life: PhantomData })
            }
            Err(e) => {
                // SAFETY: the guard hold was taken just above.
                unsafe { storage.lock().unlock_guard_write(false) };
                Err(e)
            }
        }
    }
}
impl<T: Element> Drop for Elements<'_, T> {
    fn drop(&mut self) {
        // SAFETY: `new` took exactly this guard hold.
        unsafe { self.storage.lock().unlock_guard_read() }
    }
}
impl<T: Element> Drop for ElementsMut<'_, T> {
    fn drop(&mut self) {
        // SAFETY: `new` took exactly this guard hold.
        unsafe { self.storage.lock().unlock_guard_write(true) }
        if let Some(a) = &self.apart {
            a.wrote(1);
        }
    }
}
impl<T: Element> Deref for Elements<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the shared guard hold keeps writers out, and the storage alive.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }
}
impl<T: Element> Deref for ElementsMut<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the exclusive guard hold keeps everybody else out.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }
}
impl<T: Element> DerefMut for ElementsMut<'_, T> {
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

impl Storage {
    /// Runs `f` over all bytes, borrowed by a guard as [`Tensor::try_elements`](crate::Tensor::try_elements) borrows elements:
    /// operators that write the storage fail meanwhile, wherever they are called.
    ///
    /// # Errors
    /// Memory of another device; the storage is borrowed for writing.
    #[track_caller]
    pub fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> Result<R> {
        self.on_host()?;
        let _guard = Borrow::shared(self, Location::caller())?;
        let n = if self.device() == Device::Meta { 0 } else { self.nbytes() };
        if n == 0 {
            return Ok(f(&[]));
        }
        // SAFETY: shared guard; the memory is `nbytes` initialised bytes.
        Ok(f(unsafe { std::slice::from_raw_parts(self.ptr(), n) }))
    }
    /// Runs `f` over all bytes, borrowed exclusively by a guard: operators that touch the storage fail meanwhile.
    ///
    /// # Errors
    /// Memory of another device; the storage is borrowed.
    #[track_caller]
    pub fn with_bytes_mut<R>(&self, f: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        self.on_host()?;
        let _guard = Borrow::exclusive(self, Location::caller())?;
        let n = if self.device() == Device::Meta { 0 } else { self.nbytes() };
        if n == 0 {
            return Ok(f(&mut []));
        }
        // SAFETY: exclusive guard; the memory is `nbytes` initialised bytes.
        Ok(f(unsafe { std::slice::from_raw_parts_mut(self.ptr(), n) }))
    }
}
