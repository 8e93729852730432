//! What this process takes of the memory, as the system counts it.

/// A figure of the process in bytes; none where the system does not tell.
fn status(key: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':'))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|k| k * 1024)
}

/// The largest resident set so far.
pub fn peak() -> Option<u64> {
    status("VmHWM")
}

/// Lets [`peak`] begin anew, and gives the present resident set.
pub fn forget_peak() -> Option<u64> {
    // where the system refuses, the peak is that of the process
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    status("VmRSS")
}
