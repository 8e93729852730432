//! What a thread says while code of others runs under its holds.

use super::Busy;
use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    static OPEN: Cell<u32> = const { Cell::new(0) };
}

/// While one lives, its thread has handed elements to code that might call operators: a hold for which the thread would
/// have to wait is refused with [`Busy::Inside`] instead, since it may be waiting for itself.
#[must_use = "it ends when it is dropped"]
pub struct Open(PhantomData<*const ()>);

impl Open {
    /// From now on.
    #[inline]
    #[allow(clippy::new_without_default, reason = "it changes the thread")]
    pub fn new() -> Open {
        OPEN.set(OPEN.get() + 1);
        Open(PhantomData)
    }
}

impl Drop for Open {
    #[inline]
    fn drop(&mut self) {
        OPEN.set(OPEN.get() - 1);
    }
}

pub(super) fn inside() -> Option<Busy> {
    (OPEN.get() > 0).then_some(Busy::Inside)
}
