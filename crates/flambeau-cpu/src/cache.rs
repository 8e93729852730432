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
