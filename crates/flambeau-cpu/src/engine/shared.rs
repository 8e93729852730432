//! Memory that tasks of one kernel share.

use std::marker::PhantomData;

/// A mutable slice that tasks use at disjoint places.
pub struct SharedMut<'a, T>(*mut T, usize, PhantomData<&'a mut [T]>);
// SAFETY: tasks only use disjoint parts (the contract of `set` and `slice`), and `T` may be sent.
unsafe impl<T: Send> Sync for SharedMut<'_, T> {}
// SAFETY: as for Sync.
unsafe impl<T: Send> Send for SharedMut<'_, T> {}

impl<'a, T> SharedMut<'a, T> {
    /// Shares a slice.
    pub fn new(s: &'a mut [T]) -> Self {
        SharedMut(s.as_mut_ptr(), s.len(), PhantomData)
    }
    /// The address of the first element.
    #[inline(always)]
    pub fn ptr(&self) -> *mut T {
        self.0
    }
    /// The slice has no element.
    pub fn is_empty(&self) -> bool {
        self.1 == 0
    }
    /// Writes one element.
    ///
    /// # Safety
    /// No other task reads or writes place `i` meanwhile.
    #[inline(always)]
    pub unsafe fn set(&self, i: usize, v: T) {
        assert!(i < self.1);
        // SAFETY: `i` is in bounds; the caller promises that nobody else uses the place.
        unsafe { self.0.add(i).write(v) }
    }
    /// The elements `at..at + len`, for one task.
    ///
    /// # Safety
    /// No other live reference covers any of these elements.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn slice(&self, at: usize, len: usize) -> &mut [T] {
        assert!(at <= self.1 && len <= self.1 - at);
        // SAFETY: the range is in bounds; the caller promises that nobody else uses it.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(at), len) }
    }
}

/// Pointers, or what holds some, that tasks share by value.
#[derive(Clone, Copy)]
pub struct Shared<P>(P);
// SAFETY: it is made by an unsafe function, whose caller promises that tasks use what is behind it as threads may.
unsafe impl<P> Send for Shared<P> {}
// SAFETY: as for Send.
unsafe impl<P> Sync for Shared<P> {}
impl<P: Copy> Shared<P> {
    /// Shares pointers.
    ///
    /// # Safety
    /// Threads that get them at the same time use disjoint memory behind them, or only read it; and what is behind them
    /// may be sent to other threads.
    #[inline(always)]
    pub unsafe fn new(p: P) -> Self {
        Shared(p)
    }
    /// The pointers.
    #[inline(always)]
    pub fn get(&self) -> P {
        self.0
    }
}
