//! Cache sizes of this machine.

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

/// Bytes of all operands together from which streaming stores pay off: what neither cache will hold until it is read again.
/// Half of what the last level could hold is left to others.
pub fn stream_threshold() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| (2 * l2_bytes()).max(l3_bytes() / 2).min(64 << 20))
}

/// Asks for a cache line, which need not exist.
#[inline(always)]
pub(crate) fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64, and a hint never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast())
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
/// Asks for the beginning of a row that is needed soon: the machine follows what comes behind it by itself.
#[inline(always)]
pub(crate) fn prefetch_row<T>(row: *const T, n: usize) {
    let row = row.cast::<u8>();
    for at in (0..(n * size_of::<T>()).min(4096)).step_by(64) {
        prefetch(row.wrapping_add(at));
    }
}
