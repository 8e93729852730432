//! What a node at work asks of the run that it is part of.

use std::cell::Cell;

thread_local! {
    // which of the first 64 inputs of the node at work want a gradient in this run
    static WANTED: Cell<u64> = const { Cell::new(!0) };
    // whether the run at work frees what the nodes saved
    static FREES: Cell<bool> = const { Cell::new(false) };
}

/// Whether what the node at work saved is freed after it.
#[inline]
pub fn frees_graph() -> bool {
    FREES.get()
}

/// Whether this run wants the gradient of input `i` of the node at work.
#[inline]
pub fn wanted(i: usize) -> bool {
    i >= 64 || WANTED.get() >> i & 1 == 1
}

/// While it lives a node is at work.
pub(super) struct WorkGuard(u64, bool);
impl WorkGuard {
    #[inline]
    pub(super) fn new(wanted: u64, frees: bool) -> Self {
        let before = WorkGuard(WANTED.get(), FREES.get());
        WANTED.set(wanted);
        FREES.set(frees);
        before
    }
}
impl Drop for WorkGuard {
    #[inline]
    fn drop(&mut self) {
        WANTED.set(self.0);
        FREES.set(self.1);
    }
}
