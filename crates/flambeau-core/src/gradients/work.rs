//! What a node at work asks of the run that it is part of.

use std::cell::Cell;

thread_local! {
    // which of the first 64 inputs of the node at work want a gradient in this run
    static WANTED: Cell<u64> = const { Cell::new(!0) };
    // whether the run at work frees what the nodes saved
    static FREES: Cell<bool> = const { Cell::new(false) };
    // the creation number of the node at work, and one; 0 where there is none
    static NODE: Cell<u64> = const { Cell::new(0) };
}

/// The creation number of the node at work on this thread.
pub fn current_node() -> Option<u64> {
    NODE.get().checked_sub(1)
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
pub(super) struct WorkGuard(u64, bool, u64);
impl WorkGuard {
    #[inline]
    pub(super) fn new(wanted: u64, frees: bool, node: u64) -> Self {
        let before = WorkGuard(WANTED.get(), FREES.get(), NODE.get());
        WANTED.set(wanted);
        FREES.set(frees);
        NODE.set(node + 1);
        before
    }
}
impl Drop for WorkGuard {
    #[inline]
    fn drop(&mut self) {
        WANTED.set(self.0);
        FREES.set(self.1);
        NODE.set(self.2);
    }
}
