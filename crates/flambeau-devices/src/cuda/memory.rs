//! Memory of CUDA devices: none is there, and nothing is allocated.

use super::absent;
#[cfg(feature = "by-name")]
use crate::Ordinal;
use crate::Stats;
use crate::table::{absent_class, answers};

answers! { "torch.cuda", NAMES {
    /// Gives cached memory back: there is none.
    fn empty_cache() -> () {}
    /// Bytes of tensors.
    fn memory_allocated(; device: Ordinal) -> i64 { 0 }
    /// The most bytes of tensors so far.
    fn max_memory_allocated(; device: Ordinal) -> i64 { 0 }
    /// Bytes that the allocator holds.
    fn memory_reserved(; device: Ordinal) -> i64 { 0 }
    /// The most bytes that the allocator held so far.
    fn max_memory_reserved(; device: Ordinal) -> i64 { 0 }
    /// The older name of [`memory_reserved`].
    fn memory_cached(; device: Ordinal) -> i64 { 0 }
    /// The older name of [`max_memory_reserved`].
    fn max_memory_cached(; device: Ordinal) -> i64 { 0 }
    /// Statistics of the allocator: none.
    fn memory_stats(; device: Ordinal) -> Stats { Stats::new() }
    /// The same, by group: none.
    fn memory_stats_as_nested_dict(; device: Ordinal) -> Stats { Stats::new() }
    /// Statistics of memory of the host that devices reach: none.
    fn host_memory_stats() -> Stats { Stats::new() }
    /// The same, by group: none.
    fn host_memory_stats_as_nested_dict() -> Stats { Stats::new() }
    /// All segments of the allocator: none.
    fn memory_snapshot(; mempool_id: crate::Anything, include_traces: bool) -> Vec<Stats> { Vec::new() }
    /// A table of the allocator's statistics.
    try try_memory_summary(; device: Ordinal, abbreviated: bool) -> String { absent() }
    /// Processes that use a device.
    fn list_gpu_processes(; device: Ordinal) -> String {
        "pynvml module not found, please install nvidia-ml-py".into()
    }
    /// Free and all bytes of a device.
    try try_mem_get_info(; device: Ordinal) -> (i64, i64) { absent() }
    /// Percent of the last second that memory was read or written.
    try try_memory_usage(; device: Ordinal) -> i64 { super::no_nvml() }
    /// Bytes of the device that are used by whomsoever.
    try try_device_memory_used(; device: Ordinal) -> i64 { super::no_nvml() }
    /// The part of a device's memory that this process may use.
    try try_get_per_process_memory_fraction(; device: Ordinal) -> f64 { absent() }
    /// Limits the part of a device's memory that this process may use.
    try try_set_per_process_memory_fraction(fraction: f64; device: Ordinal) -> () { absent() }
    /// Takes memory by hand.
    try try_caching_allocator_alloc(size: i64; device: Ordinal, stream: crate::Anything) -> i64 { absent() }
    /// Gives it back.
    try try_caching_allocator_delete(mem_ptr: i64) -> () { absent() }
    /// Turns the allocator's cache on or off, once there is a device.
    fn caching_allocator_enable(; value: bool) -> () {}
    /// Which allocator serves.
    try try_get_allocator_backend() -> String { absent() }
    /// Puts another allocator in place.
    try try_change_current_allocator(allocator: crate::Anything) -> () { absent() }
    /// A number that graphs share memory by.
    fn graph_pool_handle() -> (i64, i64) { (0, 1) }
    /// Begins to count anew.
    try try_reset_peak_memory_stats(; device: Ordinal) -> () { absent() }
    /// Begins to count anew.
    try try_reset_accumulated_memory_stats(; device: Ordinal) -> () { absent() }
    /// Begins to count anew.
    try try_reset_peak_host_memory_stats() -> () { absent() }
    /// Begins to count anew.
    try try_reset_accumulated_host_memory_stats() -> () { absent() }
    /// The older name of [`reset_peak_memory_stats`].
    try try_reset_max_memory_allocated(; device: Ordinal) -> () { absent() }
    /// The older name of [`reset_peak_memory_stats`].
    try try_reset_max_memory_cached(; device: Ordinal) -> () { absent() }
    /// Lets allocations come from a pool.
    try try_use_mem_pool(pool: crate::Anything; device: Ordinal) -> () { absent() }
} }

/// Runs a closure without the allocator's cache, once there is a device.
pub fn caching_allocator_disabled<R>(f: impl FnOnce() -> R) -> R {
    f()
}
#[cfg(feature = "by-name")]
pub(crate) const BY_HAND: &[crate::by_name::Row] = &[("torch.cuda", "caching_allocator_disabled", |a, k| {
    crate::by_name::Bound::new("caching_allocator_disabled", &[], a, k)?.end();
    Ok(vec![crate::stream::context("caching_allocator_disabled", || Ok(()))])
})];

absent_class! { "torch.cuda", POOL {
    /// A pool of memory of its own.
    MemPool = flambeau_core::Error::assertion("Torch not compiled with CUDA enabled");
    /// Its number.
    id() -> (i64, i64);
    /// How many allocations use it.
    use_count() -> i64;
    /// Its segments.
    snapshot() -> Vec<Stats>;
} }
absent_class! { "torch.cuda", ALLOCATOR {
    /// An allocator from a shared library.
    CUDAPluggableAllocator = flambeau_core::Error::assertion("Torch not compiled with CUDA enabled");
} }

/// What the allocator's history consists of: nothing without a device.
#[cfg(feature = "by-name")]
pub(crate) const UNDERSCORED: &[crate::by_name::Row] = {
    use flambeau_core::Value;
    &[
        ("torch.cuda.memory", "_snapshot", |_, _| {
            let nothing = |k: &str| (k.to_string(), Value::List(Vec::new()));
            Ok(vec![Value::Dict(vec![nothing("segments"), nothing("device_traces")])])
        }),
        ("torch.cuda.memory", "_record_memory_history", |_, _| absent()),
        ("torch.cuda.memory", "_dump_snapshot", |_, _| absent()),
        ("torch.cuda.memory", "MemPool", |_, _| absent()),
    ]
};
