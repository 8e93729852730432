//! An allocator that refuses large requests where a test says so. What runs out of memory on a machine of any size can be tried
//! with it in a moment: `#[global_allocator] static SCARCE: Scarce = Scarce;` in the test's binary, and `FLAMBEAU_POOL=off` in the
//! environment, so that the pool asks the allocator too.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, but for what [`refuse`] says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scarce;

/// Requests of so many bytes may be refused.
static LARGE: AtomicUsize = AtomicUsize::new(usize::MAX);
/// So many large ones are served before.
static SERVED: AtomicUsize = AtomicUsize::new(0);
static REFUSED: AtomicUsize = AtomicUsize::new(0);
thread_local! {
    /// So many bytes the thread asked for and gave back: what kernels do before they call a library that would end the process
    /// without them. The library's own requests are served.
    static ASKED: Cell<usize> = const { Cell::new(0) };
}
/// Such a request is refused at any rate: what it would be for takes too long.
const HUGE: usize = 64 << 20;

/// From now on requests of at least `large` bytes, of any thread, are refused, but for the first `served` ones.
pub fn refuse(large: usize, served: usize) {
    let _ = ASKED.try_with(|a| a.set(0));
    REFUSED.store(0, Ordering::SeqCst);
    SERVED.store(served, Ordering::SeqCst);
    LARGE.store(large, Ordering::SeqCst);
}
/// From now on nothing is refused; how many requests were since [`refuse`].
pub fn serve() -> usize {
    LARGE.store(usize::MAX, Ordering::SeqCst);
    REFUSED.load(Ordering::SeqCst)
}
#[inline]
fn refused(bytes: usize) -> bool {
    bytes >= LARGE.load(Ordering::Relaxed) && counted(bytes)
}
#[cold]
fn counted(bytes: usize) -> bool {
    let one_less = |n: usize| n.checked_sub(1);
    let less = |n: usize| n.checked_sub(bytes);
    if ASKED.try_with(|a| less(a.get()).map(|n| a.set(n)).is_some()).unwrap_or(false) {
        return false;
    }
    if bytes < HUGE && SERVED.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
        return false;
    }
    REFUSED.fetch_add(1, Ordering::SeqCst);
    true
}

// SAFETY: all memory is the system's; a null pointer says that there is none, which every caller must expect.
unsafe impl GlobalAlloc for Scarce {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        if refused(layout.size()) { null_mut() } else { unsafe { System.alloc(layout) } }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        if refused(layout.size()) { null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        if refused(bytes) { null_mut() } else { unsafe { System.realloc(at, layout, bytes) } }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // blocks of bytes are what is asked for so
        if layout.align() == 1 && layout.size() >= LARGE.load(Ordering::Relaxed) {
            let _ = ASKED.try_with(|a| a.set(a.get().saturating_add(layout.size())));
        }
        // SAFETY: the caller's promise; the memory is the system's.
        unsafe { System.dealloc(at, layout) }
    }
}
