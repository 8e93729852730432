//! `torch.accelerator`: whatever accelerator the library was built with. There is none, unless a back end was registered: see
//! [`current_accelerator`].

use crate::table::{absent_class, answers};
use crate::{Ordinal, Stats};
use flambeau_core::{Device, Error, Result};

fn absent<T>() -> Result<T> {
    Err(Error::runtime("Cannot access accelerator device when none is available."))
}

/// The kind of accelerator: none. With `check_available`, one that is not there does not count.
pub fn current_accelerator() -> Option<Device> {
    None
}

answers! { "torch.accelerator", NAMES {
    /// Whether an accelerator can be used: no.
    fn is_available() -> bool { false }
    /// The number of accelerators: none.
    fn device_count() -> i64 { 0 }
    /// The current device.
    try try_current_device_index() -> i64 { absent() }
    /// The older name of [`current_device_index`].
    try try_current_device_idx() -> i64 { absent() }
    /// Makes a device the current one.
    try try_set_device_index(device: Ordinal) -> () { absent() }
    /// The older name of [`set_device_index`].
    try try_set_device_idx(device: Ordinal) -> () { absent() }
    /// The stream that work goes to.
    try try_current_stream(; device: Ordinal) -> () { absent() }
    /// Makes a stream the current one.
    try try_set_stream(stream: crate::Anything) -> () { absent() }
    /// Waits until all work of a device is done.
    try try_synchronize(; device: Ordinal) -> () { absent() }
    /// What a device can do.
    try try_get_device_capability(; device: Ordinal) -> Stats { absent() }
    /// Gives cached memory back: there is none.
    fn empty_cache() -> () {}
    /// Gives cached memory of the host back that devices reach: there is none.
    fn empty_host_cache() -> () {}
    /// Bytes of tensors.
    fn memory_allocated(; device_index: Ordinal) -> i64 { 0 }
    /// The most bytes of tensors so far.
    fn max_memory_allocated(; device_index: Ordinal) -> i64 { 0 }
    /// Bytes that the allocator holds.
    fn memory_reserved(; device_index: Ordinal) -> i64 { 0 }
    /// The most bytes that the allocator held so far.
    fn max_memory_reserved(; device_index: Ordinal) -> i64 { 0 }
    /// Statistics of the allocator: none.
    fn memory_stats(; device_index: Ordinal) -> Stats { Stats::new() }
    /// Begins to count anew: there is nothing to count.
    fn reset_peak_memory_stats(; device_index: Ordinal) -> () {}
    /// Begins to count anew: there is nothing to count.
    fn reset_accumulated_memory_stats(; device_index: Ordinal) -> () {}
    /// Free and all bytes of a device.
    try try_get_memory_info(; device_index: Ordinal) -> (i64, i64) { absent() }
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
#[track_caller]
pub fn device_index<R>(device: Option<i64>, f: impl FnOnce() -> R) -> R {
    flambeau_core::api::ergonomic::expect(exchange(device));
    f()
}
fn exchange(device: Option<i64>) -> Result<()> {
    if device.is_none() { Ok(()) } else { absent() }
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
            Ok(vec![crate::stream::context("device_index", move || exchange(d))])
        }),
    ]
};
