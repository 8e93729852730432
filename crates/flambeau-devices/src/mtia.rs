//! `torch.mtia`: Meta's accelerators. The library is built without them.

use crate::table::{absent_class, answers, without};
use crate::{Ordinal, Stats};
use flambeau_core::{Error, Result, Tensor};

fn absent<T>(function: &str) -> Result<T> {
    without(function, "MTIA")
}
/// What waits for the first use says.
fn not_compiled<T>() -> Result<T> {
    Err(Error::assertion(
        "Torch not compiled with MTIA enabled. Ensure you have `import mtia.host_runtime.torch_mtia.dynamic_library` in your python \
         src file and include `//mtia/host_runtime/torch_mtia:torch_mtia` as your target dependency!",
    ))
}

answers! { "torch.mtia", NAMES {
    /// Whether a device can be used: no.
    fn is_available() -> bool { false }
    /// Whether devices have been started: no.
    fn is_initialized() -> bool { false }
    /// The number of devices: none.
    fn device_count() -> i64 { 0 }
    /// Whether the kind of device computes in bfloat16: it does.
    fn is_bf16_supported(; including_emulation: bool) -> bool { true }
    /// Whether a graph records the current stream: nothing does.
    fn is_current_stream_capturing() -> bool { false }
    /// Starts the devices.
    try try_init() -> () { not_compiled() }
    /// The current device.
    try try_current_device() -> i64 { absent("getCurrentDevice") }
    /// Makes a device the current one.
    try try_set_device(device: Ordinal) -> () {
        if device.0 < 0 { Ok(()) } else { absent("setCurrentDevice") }
    }
    /// Waits until all work of a device is done.
    try try_synchronize(; device: Ordinal) -> () { absent("getCurrentDevice") }
    /// The stream that work goes to.
    try try_current_stream(; device: Ordinal) -> () { absent("getCurrentDevice") }
    /// The stream that work goes to unless another was chosen.
    try try_default_stream(; device: Ordinal) -> () { absent("getCurrentDevice") }
    /// Makes a stream the current one.
    try try_set_stream(stream: crate::Anything) -> () { absent("setCurrentStream") }
    /// Lets work go to a stream.
    try try_stream(stream: crate::Anything) -> () { absent("getCurrentDevice") }
    /// Version of what a device can do.
    try try_get_device_capability(; device: Ordinal) -> (i64, i64) { absent("getCurrentDevice") }
    /// What a device is.
    try try_get_device_properties(; device: Ordinal) -> Stats { absent("getCurrentDevice") }
    /// Gives cached memory back.
    try try_empty_cache() -> () { absent("emptyCache") }
    /// Bytes of tensors.
    fn memory_allocated(; device: Ordinal) -> i64 { 0 }
    /// The most bytes of tensors so far.
    fn max_memory_allocated(; device: Ordinal) -> i64 { 0 }
    /// Statistics of the allocator: none.
    fn memory_stats(; device: Ordinal) -> Stats { Stats::new() }
    /// Begins to count anew: there is nothing to count.
    fn reset_peak_memory_stats(; device: Ordinal) -> () {}
    /// Notes what is allocated where: nothing.
    fn record_memory_history(; enabled: String, stacks: String, max_entries: i64) -> () {}
    /// What was noted.
    try try_snapshot() -> Stats { absent("memorySnapshot") }
    /// Is told when memory runs out.
    try try_attach_out_of_memory_observer(observer: crate::Anything) -> () { absent("attachOutOfMemoryObserver") }
    /// A number that graphs share memory by.
    try try_graph_pool_handle() -> (i64, i64) { absent("graphPoolHandle") }
    /// Seeds the current device's generator once there is one: there is nothing to seed.
    fn manual_seed(seed: i64) -> () {}
    /// Seeds the generators of all devices: there are none.
    fn manual_seed_all(seed: i64) -> () {}
    /// Seeds the current device's generator with a number that nobody chose: there is nothing to seed.
    fn seed() -> () {}
    /// Seeds the generators of all devices with a number that nobody chose: there are none.
    fn seed_all() -> () {}
    /// The seed of the current device's generator.
    try try_initial_seed() -> i64 { not_compiled() }
    /// The state of a device's generator.
    try try_get_rng_state(; device: Ordinal) -> Tensor { not_compiled() }
    /// The states of all devices' generators: there are none.
    fn get_rng_state_all() -> Vec<Tensor> { Vec::new() }
    /// Sets the state of a device's generator.
    try try_set_rng_state(new_state: Tensor; device: Ordinal) -> () { absent("getCurrentDevice") }
    /// Sets the states of all devices' generators: there are none, so no state fits.
    try try_set_rng_state_all(new_states: Vec<Tensor>) -> () {
        if new_states.is_empty() { Ok(()) } else { absent("getCurrentDevice") }
    }
} }
absent_class! { "torch.mtia", GRAPH {
    /// Recorded work that runs again as a whole.
    MTIAGraph = Error::runtime("Cannot execute mtiagraphCreate() without MTIA backend.");
    /// Begins to record.
    capture_begin() -> ();
    /// Ends recording.
    capture_end() -> ();
    /// Runs what was recorded.
    replay() -> ();
} }
/// Records the work of a closure, which runs again as a whole.
///
/// # Errors
/// Always: there is no stream to record.
pub fn try_graph<R>(graph: &MTIAGraph, _f: impl FnOnce() -> R) -> Result<R> {
    match graph.0 {}
}
/// As [`try_graph`]; panics with the text of its error.
#[track_caller]
#[doc(alias = "torch.mtia.graph")]
pub fn graph<R>(graph: &MTIAGraph, f: impl FnOnce() -> R) -> R {
    flambeau_core::api::ergonomic::expect(try_graph(graph, f))
}
/// Runs a closure with a device as the current one.
///
/// Panics where the number is that of a device: none is there. A negative number changes nothing, as in PyTorch.
#[track_caller]
pub fn device<R>(device: impl Into<Ordinal>, f: impl FnOnce() -> R) -> R {
    flambeau_core::api::ergonomic::expect(exchange(device.into()));
    f()
}
fn exchange(d: Ordinal) -> Result<()> {
    if d.0 < 0 { Ok(()) } else { absent("exchangeDevice") }
}
/// Streams and events of devices of any kind serve these devices too.
pub use crate::stream::{Event, Stream};
/// Statistics of memory (`torch.mtia.memory`).
pub mod memory {
    pub use super::{max_memory_allocated, memory_allocated, memory_stats, reset_peak_memory_stats};
}

#[cfg(feature = "by-name")]
pub(crate) const BY_HAND: &[crate::by_name::Row] = {
    use crate::by_name::{Answer as _, Bound};
    &[
        ("torch.mtia", "device", |a, k| {
            let d: Ordinal = Bound::new("device", &["device"], a, k)?.required()?;
            Ok(vec![crate::stream::context("device", move || exchange(d))])
        }),
        ("torch.mtia", "StreamContext", |_, _| absent("getCurrentDevice")),
        ("torch.mtia", "Stream", |_, _| absent("getCurrentDevice")),
        ("torch.mtia", "Event", |_, _| absent("getCurrentDevice")),
        ("torch.mtia", "DeferredMtiaCallError", |_, _| not_compiled()),
        ("torch.mtia.memory", "memory_stats", |_, _| memory_stats().answer()),
        ("torch.mtia.memory", "memory_allocated", |_, _| memory_allocated().answer()),
        ("torch.mtia.memory", "max_memory_allocated", |_, _| max_memory_allocated().answer()),
        ("torch.mtia.memory", "reset_peak_memory_stats", |_, _| {
            reset_peak_memory_stats();
            ().answer()
        }),
    ]
};
