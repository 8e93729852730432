//! Memory from the operating system.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::OnceLock;

use super::ALIGN;

/// True when each block is a system allocation of its own, so that memory checkers see every bound.
#[inline]
pub(super) fn plain() -> bool {
    static OFF: OnceLock<bool> = OnceLock::new();
    cfg!(miri) || *OFF.get_or_init(|| std::env::var_os("FLAMBEAU_POOL").is_some_and(|v| v == "off"))
}

/// Zeroed memory, aligned to [`ALIGN`]; `bytes` is not 0.
pub(super) fn alloc(bytes: usize) -> Option<NonNull<u8>> {
    let layout = Layout::from_size_align(bytes, ALIGN).ok()?;
    // SAFETY: the callers never ask for 0 bytes.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
}

/// # Safety
/// `ptr` came from [`alloc`] with the same `bytes` and is not used again.
pub(super) unsafe fn free(ptr: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise; `alloc` accepted the same layout.
    unsafe { std::alloc::dealloc(ptr.as_ptr(), Layout::from_size_align_unchecked(bytes, ALIGN)) }
}

/// Zeroed memory of its own mapping, aligned to 2 MB.
#[cfg(target_os = "linux")]
pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
    const HUGE: usize = 2 << 20;
    let whole = bytes.checked_add(HUGE)?;
    // SAFETY: a new anonymous mapping touches no memory of ours; the parts unmapped and advised lie inside it.
    unsafe {
        let at = libc::mmap(
            std::ptr::null_mut(),
            whole,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if at == libc::MAP_FAILED {
            return None;
        }
        let at: *mut u8 = at.cast();
        let head = at.addr().next_multiple_of(HUGE) - at.addr();
        let start = at.add(head);
        if head > 0 {
            libc::munmap(at.cast(), head);
        }
        if HUGE - head > 0 {
            libc::munmap(start.add(bytes).cast(), HUGE - head);
        }
        // Only advice: a kernel without huge pages serves small ones.
        libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE);
        NonNull::new(start)
    }
}

/// # Safety
/// The bytes are of blocks that came from [`map`], one beside the other, and are not used again.
#[cfg(target_os = "linux")]
pub(super) unsafe fn unmap(ptr: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(ptr.as_ptr().cast(), bytes) };
}

#[cfg(not(target_os = "linux"))]
pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
    alloc(bytes)
}

/// # Safety
/// As for [`free`].
#[cfg(not(target_os = "linux"))]
pub(super) unsafe fn unmap(ptr: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { free(ptr, bytes) }
}

/// Bytes of memory that this process may expect to use: the machine's, or its control group's if that is less.
pub(super) fn memory() -> usize {
    static MEMORY: OnceLock<usize> = OnceLock::new();
    *MEMORY.get_or_init(|| {
        let group = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
            .iter()
            .filter_map(|f| std::fs::read_to_string(f).ok()?.trim().parse::<usize>().ok())
            .min()
            .unwrap_or(usize::MAX);
        group.min(physical())
    })
}

#[cfg(target_os = "linux")]
fn physical() -> usize {
    // SAFETY: sysconf only reads.
    let (pages, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    if pages > 0 && size > 0 { (pages as usize).saturating_mul(size as usize) } else { 4 << 30 }
}

#[cfg(not(target_os = "linux"))]
fn physical() -> usize {
    4 << 30
}
