//! `torch.xpu`: Intel's accelerators. The library is built without them.

use crate::table::{absent_class, answers, dummy, not_compiled};
use crate::{Ordinal, Stats};
use flambeau_core::{Error, Result, Tensor, ensure};

fn absent<T>() -> Result<T> {
    not_compiled("XPU")
}
/// What stands for a call through Intel's management library, which is not there either.
fn no_management<T>() -> Result<T> {
    Err(Error::runtime("pyzes is required; install it with 'pip install pyzes'."))
}

answers! { "torch.xpu", NAMES {
    /// Whether an XPU can be used: no.
    fn is_available() -> bool { false }
    /// Whether XPUs have been started: no.
    fn is_initialized() -> bool { false }
    /// The number of XPUs: none.
    fn device_count() -> i64 { 0 }
    /// Whether products in bfloat16 are possible: there is no device for them.
    fn is_bf16_supported(; including_emulation: bool) -> bool { false }
    /// Whether products in TensorFloat-32 are possible: there is no device for them.
    fn is_tf32_supported() -> bool { false }
    /// Architectures that kernels were built for: none.
    fn get_arch_list() -> Vec<String> { Vec::new() }
    /// The compiler's flags for them.
    fn get_gencode_flags() -> String { String::new() }
    /// Starts the devices.
    try try_init() -> () { absent() }
    /// The current device.
    try try_current_device() -> i64 { absent() }
    /// Makes a device the current one.
    try try_set_device(device: Ordinal) -> () { absent() }
    /// The name of a device.
    try try_get_device_name(; device: Ordinal) -> String { absent() }
    /// What a device can do, by name.
    try try_get_device_capability(; device: Ordinal) -> Stats { absent() }
    /// What a device is.
    try try_get_device_properties(; device: Ordinal) -> Stats { absent() }
    /// Whether one device reads the memory of another.
    try try_can_device_access_peer(device: Ordinal, peer: Ordinal) -> bool { absent() }
    /// Waits until all work of a device is done.
    try try_synchronize(; device: Ordinal) -> () { absent() }
    /// The stream that work goes to.
    try try_current_stream(; device: Ordinal) -> Stream { absent() }
    /// A stream that another library made.
    try try_get_stream_from_external(data_ptr: i64; device: Ordinal) -> Stream { absent() }
    /// Whether a graph records the current stream.
    try try_is_current_stream_capturing() -> bool { Err(dummy("_xpu_isCurrentStreamCapturing")) }
    /// A number that graphs share memory by.
    try try_graph_pool_handle() -> (i64, i64) { Err(dummy("_xpu_graph_pool_handle")) }
    /// Percent of the last second that kernels ran.
    try try_utilization(; device: Ordinal) -> f64 { no_management() }
    /// Degrees Celsius.
    try try_temperature(; device: Ordinal) -> f64 { no_management() }
    /// Watts.
    try try_power_draw(; device: Ordinal) -> f64 { no_management() }
    /// Hertz of the clock.
    try try_clock_rate(; device: Ordinal) -> f64 { no_management() }
    /// Percent of the last second that memory was read or written.
    try try_memory_usage(; device: Ordinal) -> f64 { no_management() }
    /// Bytes of the device that are used by whomsoever.
    try try_device_memory_used(; device: Ordinal) -> i64 { no_management() }
    /// Processes that use a device.
    try try_list_gpu_processes(; device: Ordinal) -> String { no_management() }
    /// Gives cached memory back: there is none.
    fn empty_cache() -> () {}
    /// Puts another allocator in place.
    try try_change_current_allocator(allocator: crate::Anything) -> () { absent() }
    /// Bytes of tensors.
    fn memory_allocated(; device: Ordinal) -> i64 { 0 }
    /// The most bytes of tensors so far.
    fn max_memory_allocated(; device: Ordinal) -> i64 { 0 }
    /// Bytes that the allocator holds.
    fn memory_reserved(; device: Ordinal) -> i64 { 0 }
    /// The most bytes that the allocator held so far.
    fn max_memory_reserved(; device: Ordinal) -> i64 { 0 }
    /// Statistics of the allocator: none.
    fn memory_stats(; device: Ordinal) -> Stats { Stats::new() }
    /// The same, by group: none.
    fn memory_stats_as_nested_dict(; device: Ordinal) -> Stats { Stats::new() }
    /// All segments of the allocator: none.
    fn memory_snapshot(; mempool_id: crate::Anything) -> Vec<Stats> { Vec::new() }
    /// Free and all bytes of a device.
    try try_mem_get_info(; device: Ordinal) -> (i64, i64) { absent() }
    /// The part of a device's memory that this process may use.
    try try_get_per_process_memory_fraction(; device: Ordinal) -> f64 { absent() }
    /// Limits the part of a device's memory that this process may use.
    try try_set_per_process_memory_fraction(fraction: f64; device: Ordinal) -> () { absent() }
    /// Begins to count anew.
    try try_reset_peak_memory_stats(; device: Ordinal) -> () { absent() }
    /// Begins to count anew.
    try try_reset_accumulated_memory_stats(; device: Ordinal) -> () { absent() }
    /// Seeds the current device's generator once there is one: there is nothing to seed.
    fn manual_seed(seed: i64) -> () {}
    /// Seeds the generators of all devices: there are none.
    fn manual_seed_all(seed: i64) -> () {}
    /// Seeds the current device's generator with a number that nobody chose: there is nothing to seed.
    fn seed() -> () {}
    /// Seeds the generators of all devices with a number that nobody chose: there are none.
    fn seed_all() -> () {}
    /// The seed of the current device's generator.
    try try_initial_seed() -> i64 { absent() }
    /// The state of a device's generator.
    try try_get_rng_state(; device: Ordinal) -> Tensor { absent() }
    /// The states of all devices' generators: there are none.
    fn get_rng_state_all() -> Vec<Tensor> { Vec::new() }
    /// Sets the state of a device's generator once there is one.
    fn set_rng_state(new_state: Tensor; device: Ordinal) -> () {}
    /// Sets the states of all devices' generators: there are none, so no state fits.
    try try_set_rng_state_all(new_states: Vec<Tensor>) -> () {
        if new_states.is_empty() { Ok(()) } else { absent() }
    }
    /// Makes a graph of calls of modules.
    try try_make_graphed_callables(callables: crate::Anything, sample_args: crate::Anything; num_warmup_iters: i64, allow_unused_input: bool) -> () { Err(dummy("XPUGraph")) }
} }

absent_class! { "torch.xpu", STREAM {
    /// A queue of work of a XPU.
    Stream = dummy("Stream");
    /// Whether all work is done.
    query() -> bool;
    /// Waits until all work is done.
    synchronize() -> ();
    /// Notes this point in the queue.
    record_event(event: Option<Event>) -> Event;
    /// Lets what comes later wait for an event.
    wait_event(event: &Event) -> ();
    /// Lets what comes later wait for all that is in another queue.
    wait_stream(stream: &Stream) -> ();
} }
absent_class! { "torch.xpu", EVENT {
    /// A point in the work of a XPU.
    Event = dummy("Event");
    /// Milliseconds from this event to another.
    elapsed_time(end_event: &Event) -> f64;
    /// Whether all work before it is done.
    query() -> bool;
    /// Puts it behind the work of a stream.
    record(stream: Option<&Stream>) -> ();
    /// Waits until all work before it is done.
    synchronize() -> ();
    /// Lets what comes later in a stream wait for it.
    wait(stream: Option<&Stream>) -> ();
} }
absent_class! { "torch.xpu", GRAPH {
    /// Recorded work that runs again as a whole.
    XPUGraph = dummy("XPUGraph");
    /// Begins to record.
    capture_begin() -> ();
    /// Ends recording.
    capture_end() -> ();
    /// Runs what was recorded.
    replay() -> ();
    /// Forgets what was recorded.
    reset() -> ();
} }
absent_class! { "torch.xpu", POOL {
    /// A pool of memory of its own.
    MemPool = dummy("MemPool");
    /// Its number.
    id() -> (i64, i64);
    /// How many allocations use it.
    use_count() -> i64;
} }

pub(crate) fn exchange(d: Ordinal) -> Result<()> {
    ensure!(d.0 < 0, Runtime, "PyTorch was compiled without XPU support");
    Ok(())
}
/// Runs a closure with a device as the current one.
///
/// Panics where the number is that of a device: none is there. A negative number changes nothing, as in PyTorch.
#[track_caller]
pub fn device<R>(device: impl Into<Ordinal>, f: impl FnOnce() -> R) -> R {
    flambeau_core::api::ergonomic::expect(exchange(device.into()));
    f()
}
/// Runs a closure with the device of a tensor as the current one: no tensor lies on an XPU, so nothing changes.
pub fn device_of<R>(_tensor: &Tensor, f: impl FnOnce() -> R) -> R {
    f()
}
/// Runs a closure with a stream as the current one; without a stream it just runs it.
pub fn stream<R>(stream: Option<&Stream>, f: impl FnOnce() -> R) -> R {
    if let Some(s) = stream {
        match s.0 {}
    }
    f()
}
/// Makes a stream the current one; without a stream nothing changes.
pub fn set_stream(stream: Option<&Stream>) {
    if let Some(s) = stream {
        match s.0 {}
    }
}

#[cfg(feature = "by-name")]
impl crate::by_name::Answer for Stream {
    fn answer(self) -> Result<Vec<flambeau_core::Value>> {
        match self.0 {}
    }
}
absent_class! { "torch.xpu", ALLOCATOR {
    /// An allocator from a shared library.
    XPUPluggableAllocator = Error::assertion("Torch not compiled with XPU enabled");
} }
/// Runs a closure whose allocations come from a pool.
pub fn use_mem_pool<R>(pool: &MemPool, _f: impl FnOnce() -> R) -> R {
    match pool.0 {}
}

#[cfg(feature = "by-name")]
pub(crate) const BY_HAND: &[crate::by_name::Row] = {
    use crate::by_name::{Answer as _, Bound};
    use crate::stream::context;
    &[
        ("torch.xpu", "device", |a, k| {
            let d: Ordinal = Bound::new("device", &["device"], a, k)?.required()?;
            Ok(vec![context("device", move || exchange(d))])
        }),
        ("torch.xpu", "device_of", |a, k| {
            Bound::new("device_of", &["obj"], a, k)?.required::<Tensor>()?;
            Ok(vec![context("device_of", || Ok(()))])
        }),
        ("torch.xpu", "stream", no_stream),
        ("torch.xpu", "StreamContext", no_stream),
        ("torch.xpu", "graph", |_, _| Err(dummy("Stream"))),
        ("torch.xpu", "use_mem_pool", |a, k| {
            let mut b = Bound::new("use_mem_pool", &["pool", "device"], a, k)?;
            b.required::<crate::Anything>()?;
            b.optional::<Ordinal>()?;
            Ok(vec![context("use_mem_pool", absent)])
        }),
        ("torch.xpu", "set_stream", |a, k| {
            Bound::new("set_stream", &["stream"], a, k)?.required::<Option<i64>>()?;
            ().answer()
        }),
    ]
};

/// Streams of devices that are not there: only the argument is checked.
#[cfg(feature = "by-name")]
fn no_stream(
    a: &[flambeau_core::Value],
    k: &flambeau_core::dispatch::object::Kwargs,
) -> flambeau_core::Result<Vec<flambeau_core::Value>> {
    crate::by_name::Bound::new("stream", &["stream"], a, k)?.required::<Option<i64>>()?;
    Ok(vec![crate::stream::context("StreamContext", || Ok(()))])
}
