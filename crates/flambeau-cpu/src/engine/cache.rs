//! Cache sizes of this machine, and stores that go past them.

#[cfg(target_arch = "x86_64")]
use crate::engine::isa::{Level, level};
use std::sync::OnceLock;

/// Bytes of the second-level cache of one core; 1 MiB where the system does not tell.
pub fn l2_bytes() -> usize {
    static L2: OnceLock<usize> = OnceLock::new();
    *L2.get_or_init(|| read(2).unwrap_or(1 << 20))
}

/// Bytes of the last-level cache, which other cores share; 8 MiB where the system does not tell.
pub fn l3_bytes() -> usize {
    static L3: OnceLock<usize> = OnceLock::new();
    *L3.get_or_init(|| read(3).unwrap_or(8 << 20))
}

fn read(level: u32) -> Option<usize> {
    if cfg!(miri) {
        return None;
    }
    let text =
        std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{level}/size")).ok()?;
    let kib: usize = text.trim().strip_suffix('K')?.parse().ok()?;
    Some(kib << 10)
}

/// A last level larger than this is that of a whole socket, of dozens of cores: no chip gives so much to a few.
const SOCKET: usize = 100 << 20;

/// Bytes of all operands together from which streaming stores pay off: what neither cache will hold until it is read again.
/// Half as much again as the last level of a chip holds: up to there what stays in it, and what is written late, is worth more
/// than the lines that need not be read (16 MB from 16 MB take 2.7 ms streamed and 2.1 ms otherwise beside 32 MB). Of a whole
/// socket's a core has little, and it is slow: there a copy from 8 MB to 8 MB that is read afterwards takes less time in all when it is streamed, and one of 4 MB more.
pub fn stream_threshold() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| threshold(l2_bytes(), l3_bytes()))
}
fn threshold(l2: usize, l3: usize) -> usize {
    if l3 > SOCKET {
        return (6 * l2).max(12 << 20);
    }
    (2 * l2).max(l3 / 2 * 3).min(64 << 20)
}

/// Asks for a cache line, which need not exist.
#[inline(always)]
pub fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64, and a hint never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast())
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
/// As [`prefetch`], into the second level alone: for what is needed later than what the first level holds.
#[inline(always)]
pub(crate) fn prefetch_later(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(at.cast())
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
/// Asks for a plane that is needed once the present one is done, into the second level: what is read by columns is no stream that the
/// machine follows by itself. Large planes are followed by their rows.
#[inline]
pub(crate) fn prefetch_plane<T>(planes: &[T], number: usize, len: usize) {
    const MOST: usize = 64 << 10;
    if let Some(plane) = number.checked_mul(len).and_then(|at| planes.get(at..at + len)) {
        let plane = &plane[..len.min(MOST / size_of::<T>())];
        plane.iter().step_by(64 / size_of::<T>()).for_each(|line| prefetch_later((&raw const *line).cast()));
    }
}
/// Asks for the first lines of the next page but one quarter: the machine follows a stream by itself within a page, but some do
/// not across its end. More would hold up the stream.
#[inline(always)]
pub(crate) fn prefetch_page(at: *const u8) {
    const PAGE: usize = 4096;
    const SOON: usize = PAGE / 4;
    let next = at.wrapping_add(SOON + (at.addr() + SOON).wrapping_neg() % PAGE);
    (0..4).for_each(|line| prefetch(next.wrapping_add(64 * line)));
}
/// Whether streams are asked for line by line, [`prefetch_far`]: AMD's machines read less far ahead by themselves than their last
/// level is away, others are held up by more than [`prefetch_page`].
#[inline]
pub(crate) fn far() -> bool {
    crate::engine::isa::amd()
}
/// Asks for the lines of `bytes` that are needed a page later.
#[inline(always)]
pub(crate) fn prefetch_far(at: *const u8, bytes: usize) {
    const PAGE: usize = 4096;
    (0..bytes).step_by(64).for_each(|b| prefetch(at.wrapping_add(PAGE + b)));
}
/// Asks for the beginning of a row that is needed soon: the machine follows what comes behind it by itself.
#[inline(always)]
pub(crate) fn prefetch_row<T>(row: *const T, n: usize) {
    let row = row.cast::<u8>();
    for at in (0..(n * size_of::<T>()).min(4096)).step_by(64) {
        prefetch(row.wrapping_add(at));
    }
}

/// Copies `bytes` (a multiple of 64, except at the end of a run) past the caches; [`stream_fence`] comes after the last.
///
/// # Safety
/// Both pointers must be valid for `bytes`, in distinct runs; `to` must be 64-byte aligned.
pub(crate) unsafe fn stream_copy(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    let done = bytes / 64 * 64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: `to` is aligned, and both are valid for `done` bytes; the level tells what the machine has.
    unsafe {
        if level() == Level::V4 { stream_lines_512(from, to, done) } else { stream_lines(from, to, done) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    // SAFETY: the rest of both runs.
    unsafe { std::ptr::copy_nonoverlapping(from.add(done), to.add(done), bytes - done) }
}
/// # Safety
/// As [`stream_copy`], for whole lines.
#[cfg(target_arch = "x86_64")]
unsafe fn stream_lines(from: *const u8, to: *mut u8, bytes: usize) {
    use std::arch::x86_64::*;
    for i in (0..bytes).step_by(16) {
        // SAFETY: SSE2 is part of x86-64; the caller's promise.
        unsafe { _mm_stream_si128(to.add(i).cast(), _mm_loadu_si128(from.add(i).cast())) }
    }
}
/// # Safety
/// As [`stream_copy`], for whole lines.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn stream_lines_512(from: *const u8, to: *mut u8, bytes: usize) {
    use std::arch::x86_64::*;
    for i in (0..bytes).step_by(64) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_stream_si512(to.add(i).cast(), _mm512_loadu_si512(from.add(i).cast())) }
    }
}
/// Whether runs of so many bytes can be streamed to where `to` begins, run after run, and all bytes together are worth it.
pub(crate) fn streams(to: *const u8, run: usize, all: usize) -> bool {
    run > 0 && run.is_multiple_of(64) && to.addr().is_multiple_of(64) && all > stream_threshold()
}
/// Orders streamed stores before whatever publishes the output.
pub fn stream_fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    }
}
/// Copies a run, past the caches where [`streams`] has allowed it for all runs of these places; [`finish`] comes after the
/// last.
///
/// # Panics
/// When the runs differ in length.
#[inline(always)]
pub(crate) fn copy_run<T: Copy>(to: &mut [T], from: &[T], stream: bool) {
    if !stream {
        return to.copy_from_slice(from);
    }
    assert_eq!(to.len(), from.len());
    assert!(to.as_ptr().addr().is_multiple_of(64));
    // SAFETY: both slices are valid for these bytes, they are distinct, and the place is aligned.
    unsafe { stream_copy(from.as_ptr().cast(), to.as_mut_ptr().cast(), size_of_val(from)) }
}
/// Ends a task's runs of [`copy_run`].
pub(crate) fn finish(stream: bool) {
    if stream {
        stream_fence();
    }
}

#[cfg(test)]
mod tests {
    use super::threshold;

    #[test]
    fn a_sockets_cache_is_not_a_cores() {
        const MIB: usize = 1 << 20;
        // two cores' own, a chip's, a socket's
        assert_eq!(threshold(MIB, MIB), 2 * MIB);
        assert_eq!(threshold(MIB, 32 * MIB), 48 * MIB);
        assert_eq!(threshold(MIB, 96 * MIB), 64 * MIB);
        assert_eq!(threshold(2 * MIB, 260 * MIB), 12 * MIB);
    }
}
