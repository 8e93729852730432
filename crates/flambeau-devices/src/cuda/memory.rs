//! Memory of CUDA devices. Where none is there, nothing is allocated.

use super::runtime::{Block, Measured, Runtime, Segment, answer, of_runtime};
#[cfg(feature = "by-name")]
use crate::Ordinal;
use crate::Stats;
use std::fmt::Write as _;

/// A number of the current device's statistics; 0 where there is no device.
pub(crate) fn stat(name: &str) -> i64 {
    memory_stats().get(name).copied().unwrap_or(0)
}
fn on_current<R>(ask: impl FnOnce(&dyn Runtime, i64) -> R) -> flambeau_core::Result<R> {
    of_runtime(|r| Ok(ask(r, r.current_device()?)))
}
/// The statistics of PyTorch's table, in its order: what it is called, the statistic, and whether it counts bytes.
const ROWS: &[(&str, &str, bool)] = &[
    ("Allocated memory", "allocated_bytes", true),
    ("Active memory", "active_bytes", true),
    ("Requested memory", "requested_bytes", true),
    ("GPU reserved memory", "reserved_bytes", true),
    ("Non-releasable memory", "inactive_split_bytes", true),
    ("Allocations", "allocation", false),
    ("Active allocs", "active", false),
    ("GPU reserved segments", "segment", false),
    ("Non-releasable allocs", "inactive_split", false),
];
fn size(n: i64, bytes: bool) -> String {
    let units =
        if bytes { ["B  ", "KiB", "MiB", "GiB", "TiB", "PiB"] } else { ["  ", "K ", "M ", "B ", "T ", "Q "] };
    let step = if bytes { 1024 } else { 1000 };
    let (mut n, mut unit) = (n, 0);
    // PyTorch goes on to the next unit above three quarters of a thousand of this one
    while unit < 5 && n >= 768 * step {
        n /= step;
        unit += 1;
    }
    format!("{n:>7} {}", units[unit])
}
fn table(stats: &Stats, device: i64, abbreviated: bool) -> String {
    let line = format!("|{}|\n", "=".repeat(75));
    let mut out = format!(
        "{line}|                  PyTorch CUDA memory summary, device ID {device:<17}|\n|{}|\n",
        "-".repeat(75)
    );
    let get = |k: &str| stats.get(k).copied().unwrap_or(0);
    let _ = writeln!(
        out,
        "|            CUDA OOMs: {:<13}|        cudaMalloc retries: {:<10}|",
        get("num_ooms"),
        get("num_alloc_retries")
    );
    out += &line;
    out += "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n";
    let pools: &[(&str, &str)] = match abbreviated {
        true => &[("all", "")],
        false => {
            &[("all", ""), ("large_pool", "      from large pool"), ("small_pool", "      from small pool")]
        }
    };
    for (title, key, bytes) in ROWS {
        let _ = writeln!(out, "|{}|", "-".repeat(75));
        for (pool, name) in pools {
            let name = if name.is_empty() { title } else { name };
            let v = |what: &str| size(get(&format!("{key}.{pool}.{what}")), *bytes);
            let _ = writeln!(
                out,
                "| {name:<21} |{} |{} |{} |{} |",
                v("current"),
                v("peak"),
                v("allocated"),
                v("freed")
            );
        }
    }
    out + &line
}
fn processes(device: i64, all: &[(i64, i64)]) -> String {
    let mut lines = vec![format!("GPU:{device}")];
    if all.is_empty() {
        lines.push("no processes are running".into());
    }
    lines.extend(all.iter().map(|(pid, bytes)| {
        let mb = *bytes as f64 / (1024.0 * 1024.0);
        format!("process {pid:>10} uses {mb:>12.3} MB GPU memory")
    }));
    lines.join("\n")
}
fn shown(s: &Segment) -> Stats {
    let used = |f: fn(&Block) -> i64| s.blocks.iter().filter(|b| b.used).map(f).sum::<i64>();
    [
        ("device", s.device),
        ("address", s.address),
        ("total_size", s.total_size),
        ("allocated_size", used(|b| b.size)),
        ("active_size", used(|b| b.size)),
        ("requested_size", used(|b| b.asked)),
        ("stream", s.stream),
    ]
    .map(|(k, v)| (k.to_string(), v))
    .into()
}
use crate::table::answers;

answers! { "torch.cuda", NAMES {
    /// Gives cached memory back to the driver.
    fn empty_cache() -> () { let _ = answer(|r| r.empty_cache()); }
    /// Bytes of tensors.
    fn memory_allocated(; device: Ordinal) -> i64 { stat("allocated_bytes.all.current") }
    /// The most bytes of tensors so far.
    fn max_memory_allocated(; device: Ordinal) -> i64 { stat("allocated_bytes.all.peak") }
    /// Bytes that the allocator holds.
    fn memory_reserved(; device: Ordinal) -> i64 { stat("reserved_bytes.all.current") }
    /// The most bytes that the allocator held so far.
    fn max_memory_reserved(; device: Ordinal) -> i64 { stat("reserved_bytes.all.peak") }
    /// The older name of [`memory_reserved`].
    fn memory_cached(; device: Ordinal) -> i64 { stat("reserved_bytes.all.current") }
    /// The older name of [`max_memory_reserved`].
    fn max_memory_cached(; device: Ordinal) -> i64 { stat("reserved_bytes.all.peak") }
    /// Statistics of the allocator; none without a device.
    fn memory_stats(; device: Ordinal) -> Stats {
        answer(|r| r.current_device().map(|d| r.memory_stats(d)).unwrap_or_default()).unwrap_or_default()
    }
    /// The same, by group in Python.
    fn memory_stats_as_nested_dict(; device: Ordinal) -> Stats { memory_stats() }
    /// All segments of the allocators.
    fn memory_snapshot(; mempool_id: crate::Anything, include_traces: bool) -> Vec<Stats> {
        answer(|r| (0..r.device_count()).flat_map(|d| r.segments(d)).map(|s| shown(&s)).collect()).unwrap_or_default()
    }
    /// A table of the allocator's statistics.
    try try_memory_summary(; device: Ordinal, abbreviated: bool) -> String { on_current(|r, d| table(&r.memory_stats(d), d, false)) }
    /// Processes that use a device.
    fn list_gpu_processes(; device: Ordinal) -> String {
        let found = answer(|r| { let d = r.current_device()?; Ok::<_, flambeau_core::Error>((d, r.processes(d)?)) });
        match found {
            Some(Ok((device, all))) => processes(device, &all),
            _ => "pynvml module not found, please install nvidia-ml-py".into(),
        }
    }
    /// Free and all bytes of a device.
    try try_mem_get_info(; device: Ordinal) -> (i64, i64) { on_current(|r, d| r.mem_get_info(d))? }
    /// Percent of the last second that memory was read or written.
    try try_memory_usage(; device: Ordinal) -> i64 { super::measured(Measured::MemoryUsage) }
    /// Bytes of the device that are used by whomsoever.
    try try_device_memory_used(; device: Ordinal) -> i64 { super::measured(Measured::MemoryUsed) }
    /// The part of a device's memory that this process may use.
    try try_get_per_process_memory_fraction(; device: Ordinal) -> f64 { on_current(|r, d| r.memory_fraction(d)) }
    /// Limits the part of a device's memory that this process may use.
    try try_set_per_process_memory_fraction(fraction: f64; device: Ordinal) -> () { on_current(|r, d| r.set_memory_fraction(d, fraction))? }
    /// Takes memory by hand, for the current stream.
    try try_caching_allocator_alloc(size: i64; device: Ordinal, stream: super::streams::OnStream) -> i64 { on_current(|r, d| r.take(d, size))? }
    /// Gives it back.
    try try_caching_allocator_delete(mem_ptr: i64) -> () { of_runtime(|r| r.give(mem_ptr)) }
    /// Which allocator serves.
    try try_get_allocator_backend() -> String { of_runtime(|r| Ok(r.allocator_backend().into())) }
    /// Begins to count anew.
    try try_reset_peak_memory_stats(; device: Ordinal) -> () { on_current(|r, d| r.reset_peak_memory_stats(d)) }
    /// Begins to count anew.
    try try_reset_accumulated_memory_stats(; device: Ordinal) -> () { on_current(|r, d| r.reset_accumulated_memory_stats(d)) }
    /// The older name of [`reset_peak_memory_stats`].
    try try_reset_max_memory_allocated(; device: Ordinal) -> () { on_current(|r, d| r.reset_peak_memory_stats(d)) }
    /// The older name of [`reset_peak_memory_stats`].
    try try_reset_max_memory_cached(; device: Ordinal) -> () { on_current(|r, d| r.reset_peak_memory_stats(d)) }
} }
