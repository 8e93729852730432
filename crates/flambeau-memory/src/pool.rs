//! The caching allocator of CPU memory. Fresh pages cost more than most kernels, so memory stays warm here.
//!
//! - Up to 1 MB: power-of-two classes from 64 bytes, a stack per class and thread (at most 64 blocks or 1 MB), and a
//!   global list per class behind it. A block may be freed on any thread.
//! - Above: mappings aligned to 2 MB with huge pages advised, and one global list with best fit. A block that is more than
//!   12.5 % too large is cut, and free neighbours grow together.
//! - What the global lists keep is bounded by half of the highest use so far, at least 256 MB, at most a quarter of the
//!   memory of the machine (or of its control group). What was not needed for some seconds goes back to the system, as
//!   does everything when the system refuses memory, or on [`empty_cache`]. The decay has no thread of its own: it
//!   runs when the global lists are used.
//!
//! All memory handed out is initialised in Rust's sense: zeroed by the system at first, arbitrary bytes of an earlier
//! user later.

mod big;
mod small;
mod system;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Every block starts at a multiple of this.
pub const ALIGN: usize = 64;

const MIN_LOG: u32 = 6;
const CLASSES: usize = 15;
/// The largest size that the classes serve.
const SMALL_MAX: usize = 1 << (MIN_LOG as usize + CLASSES - 1);
/// As a block's `kind`: an own system allocation of exactly `len` bytes.
const PLAIN: usize = CLASSES;

/// Memory from the pool, 64-byte aligned and initialised; given back on drop, on any thread.
#[derive(Debug)]
pub struct Block {
    ptr: NonNull<u8>,
    len: usize,
    /// A class below [`CLASSES`], [`PLAIN`], or the capacity in bytes of a mapping (more than [`SMALL_MAX`]).
    kind: usize,
}

// SAFETY: a block owns its memory and has no tie to the thread that made it.
unsafe impl Send for Block {}
// SAFETY: `&Block` gives out a raw pointer and a length only.
unsafe impl Sync for Block {}

impl Block {
    /// The first byte. Valid for reads and writes of [`Block::len`] bytes while the block lives.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// The bytes asked for.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for a block of 0 bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes that may be used without another allocation, at least [`Block::len`]. All are initialised.
    #[inline]
    pub fn capacity(&self) -> usize {
        match self.kind {
            k if k < CLASSES => class_size(k),
            PLAIN => self.len,
            bytes => bytes,
        }
    }
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        if self.kind < CLASSES {
            small::free(self.ptr, self.kind);
        } else {
            free_slow(self.ptr, self.len, self.kind);
        }
    }
}

#[inline]
pub(crate) const fn class_of(bytes: usize) -> usize {
    (usize::BITS - (bytes.wrapping_sub(1) | 63).leading_zeros() - MIN_LOG) as usize
}

#[inline]
fn class_size(class: usize) -> usize {
    1 << (class + MIN_LOG as usize)
}

/// A block of `bytes` bytes with arbitrary (initialised) content; `None` when the system has no such memory.
#[inline]
pub fn alloc(bytes: usize) -> Option<Block> {
    if bytes <= SMALL_MAX {
        let class = if bytes == 0 { 0 } else { class_of(bytes) };
        if let Some(ptr) = small::pop(class) {
            return Some(Block { ptr, len: bytes, kind: class });
        }
    }
    alloc_slow(bytes).map(|(b, _)| b)
}

/// As [`alloc`], with every byte zero. Memory that comes fresh from the system is not written again.
#[inline]
pub fn alloc_zeroed(bytes: usize) -> Option<Block> {
    if bytes <= SMALL_MAX {
        let class = if bytes == 0 { 0 } else { class_of(bytes) };
        if let Some(ptr) = small::pop(class) {
            // SAFETY: the class is at least `bytes` long and the block is ours.
            unsafe { ptr.as_ptr().write_bytes(0, bytes) };
            return Some(Block { ptr, len: bytes, kind: class });
        }
    }
    let (b, fresh) = alloc_slow(bytes)?;
    if !fresh {
        // SAFETY: the block is ours and `bytes` long.
        unsafe { b.as_ptr().write_bytes(0, bytes) };
    }
    Some(b)
}

/// Memory of a whole class with arbitrary content, for a value that fits; without memory the process ends, as with `Box`.
/// It never unwinds, so that values may wait in registers for their memory.
#[inline(always)]
pub(crate) fn take(class: usize) -> NonNull<u8> {
    match small::pop(class) {
        Some(ptr) => ptr,
        None => take_slow(class),
    }
}

#[cold]
#[inline(never)]
extern "C" fn take_slow(class: usize) -> NonNull<u8> {
    match alloc_slow(class_size(class)) {
        Some((b, _)) => std::mem::ManuallyDrop::new(b).ptr,
        None => std::alloc::handle_alloc_error(std::alloc::Layout::new::<u8>()),
    }
}

/// Takes a block back.
///
/// # Safety
/// `ptr` came from [`take`] with the same class and is not used again.
#[inline(always)]
pub(crate) unsafe fn give(ptr: NonNull<u8>, class: usize) {
    if system::plain() {
        return free_slow(ptr, class_size(class), PLAIN);
    }
    small::free(ptr, class);
}

/// The second value says that the memory is zero.
#[cold]
#[inline(never)]
fn alloc_slow(bytes: usize) -> Option<(Block, bool)> {
    if bytes > isize::MAX as usize - (4 << 20) {
        return None;
    }
    if system::plain() {
        let ptr = system::alloc(bytes.max(1))?;
        reserve(bytes.max(1));
        small::count_miss();
        return Some((Block { ptr, len: bytes, kind: PLAIN }, true));
    }
    if bytes <= SMALL_MAX {
        let class = if bytes == 0 { 0 } else { class_of(bytes) };
        let (ptr, fresh) = small::refill(class)?;
        return Some((Block { ptr, len: bytes, kind: class }, fresh));
    }
    let (ptr, capacity, fresh) = big::alloc(bytes)?;
    Some((Block { ptr, len: bytes, kind: capacity }, fresh))
}

#[cold]
#[inline(never)]
fn free_slow(ptr: NonNull<u8>, len: usize, kind: usize) {
    if kind == PLAIN {
        unreserve(len.max(1));
        // SAFETY: `alloc_slow` made the block with this size.
        unsafe { system::free(ptr, len.max(1)) };
    } else {
        big::free(ptr, kind);
    }
}

/// Bytes held from the system, in use or cached.
static RESERVED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// Bytes in the global lists.
static CACHED: AtomicUsize = AtomicUsize::new(0);

fn reserve(bytes: usize) {
    let now = RESERVED.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

fn unreserve(bytes: usize) {
    RESERVED.fetch_sub(bytes, Ordering::Relaxed);
}

/// The most bytes that the global lists keep now.
fn bound() -> usize {
    let half = PEAK.load(Ordering::Relaxed) / 2;
    half.max(256 << 20).min(system::memory() / 4)
}

/// Figures of the pool, in bytes and counts since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Bytes in live blocks, rounded to their classes.
    pub allocated: usize,
    /// Bytes held from the system: live blocks and cached ones.
    pub reserved: usize,
    /// The highest `reserved` so far.
    pub peak: usize,
    /// Allocations served from the cache.
    pub hits: u64,
    /// Allocations that went to the system.
    pub misses: u64,
    /// Bytes in the global lists (`reserved - allocated - cached` is in threads' own stacks).
    pub cached: usize,
}

/// The pool's figures. They are read one after the other, so while other threads allocate they may not add up exactly.
pub fn stats() -> PoolStats {
    let (small_allocated, small_hits, misses) = small::totals();
    let (big_allocated, big_hits, big_misses) = big::totals();
    let plain = if system::plain() { RESERVED.load(Ordering::Relaxed) } else { 0 };
    PoolStats {
        allocated: small_allocated + big_allocated + plain,
        reserved: RESERVED.load(Ordering::Relaxed),
        peak: PEAK.load(Ordering::Relaxed),
        hits: small_hits + big_hits,
        misses: misses + big_misses,
        cached: CACHED.load(Ordering::Relaxed),
    }
}

/// Gives all cached memory back to the system, but for the stacks of other threads (at most 1 MB per class and thread).
pub fn empty_cache() {
    small::empty();
    big::empty();
}
