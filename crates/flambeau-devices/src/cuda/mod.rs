//! `torch.cuda`. The library is built without CUDA: what asks for a device is told so, the rest answers that there is none.

pub mod comm;
pub mod gds;
pub mod jiterator;
pub mod memory;
pub mod nvtx;
pub mod profiler;
pub mod tunable;

use crate::Ordinal;
use crate::table::{absent_class, answers, dummy, not_compiled};
use flambeau_core::{Error, Result, Tensor, ensure};
use std::sync::atomic::{AtomicBool, Ordering};

pub use memory::*;

pub(crate) fn absent<T>() -> Result<T> {
    not_compiled("CUDA")
}
/// What stands for a call through NVIDIA's management library, which is not there either.
fn no_nvml<T>() -> Result<T> {
    Err(Error::runtime("nvidia-ml-py does not seem to be installed or it can't be imported."))
}

static SANITIZER: AtomicBool = AtomicBool::new(false);

answers! { "torch.cuda", NAMES {
    /// Whether a CUDA device can be used: no.
    fn is_available() -> bool { false }
    /// Whether CUDA has been started: no.
    fn is_initialized() -> bool { false }
    /// The number of CUDA devices: none.
    fn device_count() -> i64 { 0 }
    /// Whether products in bfloat16 are possible: there is no device for them.
    fn is_bf16_supported(; including_emulation: bool) -> bool { false }
    /// Whether products in TensorFloat-32 are possible: there is no device for them.
    fn is_tf32_supported() -> bool { false }
    /// Architectures that kernels were built for: none.
    fn get_arch_list() -> Vec<String> { Vec::new() }
    /// The compiler's flags for them.
    fn get_gencode_flags() -> String { String::new() }
    /// Starts CUDA.
    try try_init() -> () { absent() }
    /// The current device.
    try try_current_device() -> i64 { absent() }
    /// Makes a device the current one.
    try try_set_device(device: Ordinal) -> () {
        if device.0 < 0 { Ok(()) } else { absent() }
    }
    /// The name of a device.
    try try_get_device_name(; device: Ordinal) -> String { absent() }
    /// Version of the compute capability of a device.
    try try_get_device_capability(; device: Ordinal) -> (i64, i64) { absent() }
    /// What a device can do.
    try try_get_device_properties(; device: Ordinal) -> DeviceProperties { absent() }
    /// Whether one device reads the memory of another.
    try try_can_device_access_peer(device: Ordinal, peer_device: Ordinal) -> bool { absent() }
    /// Waits until all work of a device is done.
    try try_synchronize(; device: Ordinal) -> () { absent() }
    /// The stream that work goes to.
    try try_current_stream(; device: Ordinal) -> Stream { absent() }
    /// The stream that work goes to unless another was chosen.
    try try_default_stream(; device: Ordinal) -> Stream { absent() }
    /// A stream that another library made.
    try try_get_stream_from_external(data_ptr: i64; device: Ordinal) -> Stream { absent() }
    /// The handle of cuBLAS.
    try try_current_blas_handle() -> i64 { absent() }
    /// The handle of cuSOLVER.
    try try_current_solver_handle() -> i64 { absent() }
    /// CUDA's runtime library.
    try try_cudart() -> () { absent() }
    /// Gives back memory that other processes shared.
    try try_ipc_collect() -> () { absent() }
    /// Whether a graph records the current stream: nothing does.
    fn is_current_stream_capturing() -> bool { false }
    /// What happens at calls that wait for the device.
    try try_get_sync_debug_mode() -> i64 { absent() }
    /// Says what happens at calls that wait for the device.
    try try_set_sync_debug_mode(debug_mode: crate::Anything) -> () { absent() }
    /// Percent of the last second that kernels ran.
    try try_utilization(; device: Ordinal) -> i64 { no_nvml() }
    /// Degrees Celsius.
    try try_temperature(; device: Ordinal) -> i64 { no_nvml() }
    /// Milliwatts.
    try try_power_draw(; device: Ordinal) -> i64 { no_nvml() }
    /// Hertz of the clock.
    try try_clock_rate(; device: Ordinal) -> i64 { no_nvml() }
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
    try try_make_graphed_callables(callables: crate::Anything, sample_args: crate::Anything; num_warmup_iters: i64, allow_unused_input: bool) -> () { absent() }
} }

/// What a device can do: there is none to ask.
#[derive(Debug)]
pub struct DeviceProperties(crate::table::Never);
impl DeviceProperties {
    /// The name.
    pub fn name(&self) -> &str {
        match self.0 {}
    }
    /// Bytes of memory.
    pub fn total_memory(&self) -> i64 {
        match self.0 {}
    }
    /// Number of multiprocessors.
    pub fn multi_processor_count(&self) -> i64 {
        match self.0 {}
    }
}

absent_class! { "torch.cuda", STREAM {
    /// A queue of work of a CUDA device.
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
absent_class! { "torch.cuda", EXTERNAL_STREAM {
    /// A stream that another library made.
    ExternalStream = dummy("ExternalStream");
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
absent_class! { "torch.cuda", EVENT {
    /// A point in the work of a CUDA device.
    Event = dummy("Event");
    /// Milliseconds from this event to another.
    elapsed_time(end_event: &Event) -> f64;
    /// An event that another process shares.
    from_ipc_handle(device: Ordinal, handle: &[u8]) -> Event;
    /// What another process gets at this event by.
    ipc_handle() -> Vec<u8>;
    /// Whether all work before it is done.
    query() -> bool;
    /// Puts it behind the work of a stream.
    record(stream: Option<&Stream>) -> ();
    /// Waits until all work before it is done.
    synchronize() -> ();
    /// Lets what comes later in a stream wait for it.
    wait(stream: Option<&Stream>) -> ();
} }
absent_class! { "torch.cuda", GRAPH {
    /// Recorded work that runs again as a whole.
    CUDAGraph = dummy("CUDAGraph");
    /// Begins to record.
    capture_begin() -> ();
    /// Ends recording.
    capture_end() -> ();
    /// Runs what was recorded.
    replay() -> ();
    /// Forgets what was recorded.
    reset() -> ();
} }

/// Runs a closure with a device as the current one.
///
/// Panics where the number is that of a device: none is there. A negative number changes nothing, as in PyTorch.
#[track_caller]
pub fn device<R>(device: impl Into<Ordinal>, f: impl FnOnce() -> R) -> R {
    flambeau_core::api::ergonomic::expect(exchange(device.into()));
    f()
}
/// Runs a closure with the device of a tensor as the current one; tensors that lie on no CUDA device change nothing.
#[track_caller]
pub fn device_of<R>(tensor: &Tensor, f: impl FnOnce() -> R) -> R {
    device(Ordinal(if matches!(tensor.device(), flambeau_core::Device::Cuda(_)) { 0 } else { -1 }), f)
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
pub(crate) fn exchange(d: Ordinal) -> Result<()> {
    ensure!(d.0 < 0, Runtime, "PyTorch was compiled without CUDA support");
    Ok(())
}

/// CUDA's errors as PyTorch names them (`torch.cuda.AcceleratorError`, `torch.cuda.OutOfMemoryError`) are kinds of [`Error`] here.
#[doc(alias = "torch.cuda.AcceleratorError")]
#[doc(alias = "torch.AcceleratorError")]
pub type AcceleratorError = Error;

/// Looks for races between streams (`torch.cuda._sanitizer`): a switch that a CUDA build reads.
#[doc(alias = "torch.cuda._sanitizer")]
pub mod sanitizer {
    use super::{Ordering, SANITIZER};

    /// Turns the search on. Without a device there is nothing to find.
    pub fn enable_cuda_sanitizer() {
        SANITIZER.store(true, Ordering::Relaxed);
    }
    /// Whether it was turned on.
    pub fn is_enabled() -> bool {
        SANITIZER.load(Ordering::Relaxed)
    }
}

/// A function for the end of a recording that writes the graph as a picture in Graphviz' language: none is ever recorded here.
#[doc(alias = "torch.cuda.export_dot")]
pub fn export_dot(_path: &str, _verbose: bool) -> impl Fn(&CUDAGraph) + Clone + 'static {
    |graph| match graph.0 {}
}
/// A function for the end of a recording that writes the graph as data: none is ever recorded here.
#[doc(alias = "torch.cuda.export_graph_data")]
pub fn export_graph_data(_path: &str) -> impl Fn(&CUDAGraph) + Clone + 'static {
    |graph| match graph.0 {}
}

/// Recorded work (`torch.cuda.graphs`).
pub mod graphs {
    pub use super::{CUDAGraph, export_dot, export_graph_data, is_current_stream_capturing};
}

#[cfg(feature = "by-name")]
pub(crate) const BY_HAND: &[crate::by_name::Row] = {
    use crate::by_name::{Answer as _, Bound};
    use crate::stream::context;
    use flambeau_core::Value;
    &[
        ("torch.cuda", "device", |a, k| {
            let mut b = Bound::new("device", &["device"], a, k)?;
            let d = b.required::<Ordinal>()?;
            Ok(vec![context("device", move || exchange(d))])
        }),
        ("torch.cuda", "device_of", |a, k| {
            let mut b = Bound::new("device_of", &["obj"], a, k)?;
            let t = b.required::<Tensor>()?;
            let d = Ordinal::from(t.device());
            Ok(vec![context("device_of", move || exchange(d))])
        }),
        ("torch.cuda", "stream", no_stream),
        ("torch.cuda", "StreamContext", no_stream),
        ("torch.cuda", "set_stream", |a, k| {
            Bound::new("set_stream", &["stream"], a, k)?.required::<Option<i64>>()?;
            ().answer()
        }),
        ("torch.cuda.graphs", "graph", |_, _| Err(dummy("CUDAGraph"))),
        ("torch.cuda", "graph", |_, _| Err(dummy("CUDAGraph"))),
        ("torch.cuda.graphs", "CUDAGraph", |_, _| Err(dummy("CUDAGraph"))),
        ("torch.cuda._sanitizer", "enable_cuda_sanitizer", |_, _| {
            sanitizer::enable_cuda_sanitizer();
            ().answer()
        }),
        ("torch.cuda.jiterator", "_create_jit_fn", jiterator::by_name::create),
        ("torch.cuda.jiterator", "_create_multi_output_jit_fn", jiterator::by_name::create_multiple),
        ("torch.cuda", "AcceleratorError", |a, _| match a.first() {
            Some(Value::Str(s)) => Err(Error::runtime(s.clone())),
            _ => Err(Error::runtime("AcceleratorError")),
        }),
        ("torch.cuda", "OutOfMemoryError", |a, _| {
            let text = if let Some(Value::Str(s)) = a.first() { s.as_str() } else { "OutOfMemoryError" };
            Err(Error::new(flambeau_core::ErrorKind::OutOfMemory, text))
        }),
    ]
};
#[cfg(feature = "by-name")]
pub(crate) fn no_stream(
    a: &[flambeau_core::Value],
    k: &flambeau_core::dispatch::object::Kwargs,
) -> Result<Vec<flambeau_core::Value>> {
    crate::by_name::Bound::new("stream", &["stream"], a, k)?.required::<Option<i64>>()?;
    Ok(vec![crate::stream::context("StreamContext", || Ok(()))])
}
#[cfg(feature = "by-name")]
impl crate::by_name::Answer for DeviceProperties {
    fn answer(self) -> Result<Vec<flambeau_core::Value>> {
        match self.0 {}
    }
}
#[cfg(feature = "by-name")]
impl crate::by_name::Answer for Stream {
    fn answer(self) -> Result<Vec<flambeau_core::Value>> {
        match self.0 {}
    }
}
