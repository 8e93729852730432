//! `torch.accelerator`: whatever accelerator there is, CUDA's where its back end is linked and finds a device.

use crate::cuda;
use crate::table::{absent_class, answers};
use crate::{Ordinal, Stats};
use flambeau_core::{Device, Error, Result};

/// What the accelerator answers: CUDA's where there is one.
fn cuda_or_absent<T>(ask: impl FnOnce() -> Result<T>) -> Result<T> {
    if is_available() { ask() } else { absent() }
}
fn absent<T>() -> Result<T> {
    Err(Error::runtime("Cannot access accelerator device when none is available."))
}

/// The kind of accelerator, if there is one. With `check_available`, one that is not there does not count.
///
/// ```
/// use torch::accelerator::{current_accelerator, is_available};
/// // the same program on machines with an accelerator and without
/// let device = current_accelerator().filter(|_| is_available()).unwrap_or(torch::Device::Cpu);
/// assert_eq!(torch::ones_with([2], device).device(), device);
/// ```
pub fn current_accelerator() -> Option<Device> {
    is_available().then_some(Device::Cuda(0))
}

answers! { "torch.accelerator", NAMES {
    /// Whether an accelerator can be used.
    fn is_available() -> bool { cuda::is_available() }
    /// The number of accelerators.
    fn device_count() -> i64 { cuda::device_count() }
    /// The current device.
    try try_current_device_index() -> i64 { cuda_or_absent(cuda::try_current_device) }
    /// The older name of [`current_device_index`].
    try try_current_device_idx() -> i64 { cuda_or_absent(cuda::try_current_device) }
    /// Makes a device the current one.
    try try_set_device_index(device: Ordinal) -> () { cuda_or_absent(|| cuda::try_set_device(device)) }
    /// The older name of [`set_device_index`].
    try try_set_device_idx(device: Ordinal) -> () { cuda_or_absent(|| cuda::try_set_device(device)) }
    /// The stream that work goes to.
    try try_current_stream(; device: Ordinal) -> cuda::Stream { cuda_or_absent(cuda::try_current_stream) }
    /// Makes a stream the current one.
    try try_set_stream(stream: crate::Anything) -> () { absent() }
    /// Waits until all work of a device is done.
    try try_synchronize(; device: Ordinal) -> () { cuda_or_absent(cuda::try_synchronize) }
    /// What a device can do.
    try try_get_device_capability(; device: Ordinal) -> Stats { absent() }
    /// Gives cached memory back to the driver.
    fn empty_cache() -> () { cuda::empty_cache() }
    /// Gives cached memory of the host back that devices reach.
    fn empty_host_cache() -> () { cuda::host::empty_host_cache() }
    /// Bytes of tensors.
    fn memory_allocated(; device_index: Ordinal) -> i64 { cuda::memory_allocated() }
    /// The most bytes of tensors so far.
    fn max_memory_allocated(; device_index: Ordinal) -> i64 { cuda::max_memory_allocated() }
    /// Bytes that the allocator holds.
    fn memory_reserved(; device_index: Ordinal) -> i64 { cuda::memory_reserved() }
    /// The most bytes that the allocator held so far.
    fn max_memory_reserved(; device_index: Ordinal) -> i64 { cuda::max_memory_reserved() }
    /// Statistics of the allocator; none without a device.
    fn memory_stats(; device_index: Ordinal) -> Stats { cuda::memory_stats() }
    /// Begins to count anew.
    fn reset_peak_memory_stats(; device_index: Ordinal) -> () { let _ = cuda::try_reset_peak_memory_stats(); }
    /// Begins to count anew.
    fn reset_accumulated_memory_stats(; device_index: Ordinal) -> () { let _ = cuda::try_reset_accumulated_memory_stats(); }
    /// Free and all bytes of a device.
    try try_get_memory_info(; device_index: Ordinal) -> (i64, i64) { cuda_or_absent(cuda::try_mem_get_info) }
} }

absent_class! { "torch.accelerator", GRAPH {
    /// Recorded work that runs again as a whole.
    Graph = Error::runtime("Cannot access accelerator device when none is available.");
    /// Begins to record.
    capture_begin() -> ();
    /// Ends recording.
    capture_end() -> ();
    /// Runs what was recorded.
    replay() -> ();
    /// Forgets it.
    reset() -> ();
    /// The number by which graphs share memory.
    pool() -> (i64, i64);
} }

/// Runs a closure with a device as the current one. Panics where the number is that of a device: none is there.
///
/// ```
/// use torch::accelerator::device_index;
/// assert_eq!(device_index(None, || torch::ones([2]).sum().item::<f32>()), 2.0);
/// ```
#[track_caller]
pub fn device_index<R>(device: Option<i64>, f: impl FnOnce() -> R) -> R {
    match device {
        Some(_) if !is_available() => flambeau_core::api::ergonomic::expect(absent()),
        Some(i) => cuda::device(i, f),
        None => f(),
    }
}

#[cfg(feature = "by-name")]
pub(crate) const BY_HAND: &[crate::by_name::Row] = {
    use crate::by_name::{Answer as _, Bound};
    &[
        ("torch.accelerator", "current_accelerator", |a, k| {
            Bound::new("current_accelerator", &["check_available"], a, k)?.optional::<bool>()?;
            current_accelerator().answer()
        }),
        ("torch.accelerator", "device_index", |a, k| {
            let d: Option<i64> = Bound::new("device_index", &["device"], a, k)?.required()?;
            match d {
                Some(i) if is_available() => Ok(vec![cuda::runtime::scoped("device_index", Ordinal(i))]),
                d => {
                    let enter = move || if d.is_none() { Ok(()) } else { absent() };
                    Ok(vec![crate::stream::context("device_index", enter)])
                }
            }
        }),
    ]
};
