//! Cache sizes of this machine.

use std::sync::OnceLock;

/// Bytes of the second-level cache of one core; 1 MiB where the system does not tell.
pub fn l2_bytes() -> usize {
    static L2: OnceLock<usize> = OnceLock::new();
    *L2.get_or_init(|| read_l2().unwrap_or(1 << 20))
}

fn read_l2() -> Option<usize> {
    if cfg!(miri) {
        return None;
    }
    let text = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index2/size").ok()?;
    let kib: usize = text.trim().strip_suffix('K')?.parse().ok()?;
    Some(kib << 10)
}

/// Bytes of all operands together from which streaming stores pay off: twice the second-level cache (measured: they
/// lose below, and win 20 % at three times that size and more above).
pub fn stream_threshold() -> usize {
    2 * l2_bytes()
}
