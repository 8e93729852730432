//! Slices whose element type is known at run time. Every kernel family has an `erased` module over them, so that its
//! generic kernels are compiled here, once, and not in the crates that call them.

use crate::{DType, Element};
use std::marker::PhantomData;

/// The dtype that stands for any other with the same bits where elements are only moved: the unsigned integer of that
/// size. Complex dtypes stand for themselves, since their alignment is smaller than their size.
pub const fn bits_of(d: DType) -> DType {
    if d.is_complex() {
        return d;
    }
    match d.size() {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::U64,
    }
}

/// A shared slice of some element type.
#[derive(Clone, Copy)]
pub struct Any<'a> {
    ptr: *const u8,
    len: usize,
    dtype: DType,
    _life: PhantomData<&'a [u8]>,
}
// SAFETY: it is a shared slice of elements, which are all `Sync`.
unsafe impl Send for Any<'_> {}
// SAFETY: as for Send.
unsafe impl Sync for Any<'_> {}

impl<'a> Any<'a> {
    /// Forgets the type.
    pub fn new<T: Element>(s: &'a [T]) -> Self {
        Any { ptr: s.as_ptr().cast(), len: s.len(), dtype: T::DTYPE, _life: PhantomData }
    }
    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// The same elements under the dtype of [`bits_of`].
    pub fn as_bits(self) -> Self {
        // Same size and alignment, and every bit pattern is valid in all element types.
        Any { dtype: bits_of(self.dtype), ..self }
    }
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }
    /// No elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The typed slice. Panics for another type: callers match on [`Any::dtype`] first.
    pub fn get<T: Element>(&self) -> &'a [T] {
        assert!(T::DTYPE == self.dtype, "slice of {} taken as {}", self.dtype, T::DTYPE);
        // SAFETY: made of a `&'a [T]` of this type (types and dtypes correspond one to one).
        unsafe { std::slice::from_raw_parts(self.ptr.cast(), self.len) }
    }
}

/// An exclusive slice of some element type.
pub struct AnyMut<'a> {
    ptr: *mut u8,
    len: usize,
    dtype: DType,
    _life: PhantomData<&'a mut [u8]>,
}
// SAFETY: it is an exclusive slice of elements, which are all `Send`.
unsafe impl Send for AnyMut<'_> {}

impl<'a> AnyMut<'a> {
    /// Forgets the type.
    pub fn new<T: Element>(s: &'a mut [T]) -> Self {
        AnyMut { ptr: s.as_mut_ptr().cast(), len: s.len(), dtype: T::DTYPE, _life: PhantomData }
    }
    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// The same elements under the dtype of [`bits_of`].
    pub fn as_bits(self) -> Self {
        // Same size and alignment, and every bit pattern is valid in all element types.
        AnyMut { dtype: bits_of(self.dtype), ..self }
    }
    /// Bytes taken as truth values or truth values as bytes; other dtypes stay.
    pub(crate) fn byte_as(self, d: DType) -> Self {
        use DType::{Bool, U8};
        match (self.dtype, d) {
            (U8 | Bool, U8 | Bool) => AnyMut { dtype: d, ..self },
            _ => self,
        }
    }
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }
    /// No elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The typed slice. Panics for another type: callers match on [`AnyMut::dtype`] first.
    pub fn get<T: Element>(self) -> &'a mut [T] {
        assert!(T::DTYPE == self.dtype, "slice of {} taken as {}", self.dtype, T::DTYPE);
        // SAFETY: made of a `&'a mut [T]` of this type, and given up here.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.cast(), self.len) }
    }
    /// The elements, shared for the time of the borrow.
    pub fn shared(&self) -> Any<'_> {
        Any { ptr: self.ptr, len: self.len, dtype: self.dtype, _life: PhantomData }
    }
    /// A shorter borrow.
    pub fn reborrow(&mut self) -> AnyMut<'_> {
        AnyMut { ptr: self.ptr, len: self.len, dtype: self.dtype, _life: PhantomData }
    }
}
