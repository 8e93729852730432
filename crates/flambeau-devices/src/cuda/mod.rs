//! `torch.cuda`. Where a back end is linked (the facade's feature `cuda`) its [`runtime::Runtime`] answers; without one, what asks for a
//! device is told so, and the rest answers that there is none.

#[doc(hidden)]
pub mod activity;
pub mod comm;
#[doc(hidden)]
pub mod external;
pub mod gds;
#[doc(alias = "torch.cuda.graphs")]
pub mod graphs;
pub(crate) mod history;
pub(crate) mod host;
pub mod jiterator;
pub mod memory;
pub mod nvtx;
pub(crate) mod pluggable;
pub mod profiler;
#[doc(hidden)]
pub mod runtime;
#[doc(alias = "torch.cuda._sanitizer")]
pub mod sanitizer;
mod streams;
pub mod tunable;

use crate::Ordinal;
use crate::table::{answers, not_compiled};
use flambeau_core::{Error, Result, Tensor};

pub use graphs::{
    CUDAGraph, GraphOptions, Graphed, GraphedOptions, MemPool, export_dot, export_graph_data, graph,
    graph_pool_handle, graph_with, is_current_stream_capturing, make_graphed_callables, try_graph,
    try_make_graphed_callables, try_use_mem_pool, use_mem_pool,
};
pub use history::{HistoryOptions, dump_snapshot, record_memory_history, set_allocator_settings};
pub use host::*;
pub use memory::*;
pub use pluggable::{
    CUDAPluggableAllocator, caching_allocator_disabled, caching_allocator_enable, change_current_allocator,
    try_change_current_allocator,
};
pub use runtime::{CaptureMode, PoolId};
use runtime::{Measured, answer, of_runtime};
pub use streams::*;

pub(crate) fn absent<T>() -> Result<T> {
    not_compiled("CUDA")
}
/// What stands for a call through NVIDIA's management library, which is not there either.
fn no_nvml<T>() -> Result<T> {
    Err(Error::runtime("nvidia-ml-py does not seem to be installed or it can't be imported."))
}

/// A number that NVIDIA's management library measures on the current device.
fn measured(what: Measured) -> Result<i64> {
    match answer(|r| r.measured(r.current_device()?, what)) {
        Some(found) => found,
        None => no_nvml(),
    }
}
/// What happens at calls that wait for a device (`torch.cuda.set_sync_debug_mode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SyncDebugMode(u8);
impl SyncDebugMode {
    /// Nothing.
    pub const DEFAULT: SyncDebugMode = SyncDebugMode(0);
    /// A warning.
    pub const WARN: SyncDebugMode = SyncDebugMode(1);
    /// An error.
    pub const ERROR: SyncDebugMode = SyncDebugMode(2);
}
impl flambeau_core::dispatch::value::FromValue for SyncDebugMode {
    fn from_value(v: &flambeau_core::Value) -> Result<SyncDebugMode> {
        use flambeau_core::Value;
        match v {
            Value::Int(i @ 0..=2) => Ok(SyncDebugMode(*i as u8)),
            Value::Str(s) if s == "default" => Ok(SyncDebugMode::DEFAULT),
            Value::Str(s) if s == "warn" => Ok(SyncDebugMode::WARN),
            Value::Str(s) if s == "error" => Ok(SyncDebugMode::ERROR),
            Value::Str(_) => {
                Err(Error::runtime("invalid value of debug_mode, expected one of `default`, `warn`, `error`"))
            }
            Value::Int(_) => Err(Error::runtime("invalid value of debug_mode, expected one of 0,1,2")),
            v => Err(Error::type_(format!("debug_mode is a number or a word, not {}", v.type_name()))),
        }
    }
}

answers! { "torch.cuda", NAMES {
    /// Whether a CUDA device can be used.
    fn is_available() -> bool { device_count() > 0 }
    /// Whether CUDA has been started.
    fn is_initialized() -> bool { answer(|r| r.is_initialized()).unwrap_or(false) }
    /// The number of CUDA devices.
    fn device_count() -> i64 { answer(|r| r.device_count()).unwrap_or(0) }
    /// Whether products in bfloat16 are possible.
    fn is_bf16_supported(; including_emulation: bool) -> bool { is_available() }
    /// Whether products in TensorFloat-32 are possible: there is no device for them.
    fn is_tf32_supported() -> bool { false }
    /// Architectures that kernels were built for: of the devices that there are, since kernels are built at first use.
    fn get_arch_list() -> Vec<String> {
        let mut all: Vec<String> = answer(|r| (0..r.device_count()).filter_map(|d| r.properties(d).ok()).map(|p| format!("sm_{}{}", p.major, p.minor)).collect()).unwrap_or_default();
        all.dedup();
        all
    }
    /// The compiler's flags for them.
    fn get_gencode_flags() -> String { String::new() }
    /// Starts CUDA.
    try try_init() -> () { of_runtime(|r| r.init()) }
    /// The current device.
    try try_current_device() -> i64 { of_runtime(|r| r.current_device()) }
    /// Makes a device the current one.
    try try_set_device(device: Ordinal) -> () {
        if device.0 < 0 { Ok(()) } else { of_runtime(|r| r.set_device(device.0)) }
    }
    /// The name of a device.
    try try_get_device_name(; device: Ordinal) -> String { try_get_device_properties().map(|p| p.name().to_string()) }
    /// Version of the compute capability of a device.
    try try_get_device_capability(; device: Ordinal) -> (i64, i64) { try_get_device_properties().map(|p| (p.0.major, p.0.minor)) }
    /// What a device can do.
    try try_get_device_properties(; device: Ordinal) -> DeviceProperties { of_runtime(|r| r.properties(r.current_device()?).map(DeviceProperties)) }
    /// Whether one device reads the memory of another.
    try try_can_device_access_peer(device: Ordinal, peer_device: Ordinal) -> bool { of_runtime(|r| r.can_access_peer(device.0, peer_device.0)) }
    /// Waits until all work of a device is done.
    try try_synchronize(; device: Ordinal) -> () { of_runtime(|r| r.synchronize(r.current_device()?)) }
    /// The stream that work goes to.
    try try_current_stream(; device: Ordinal) -> Stream { of_runtime(|r| { let d = r.current_device()?; Ok(Stream::of(d, r.current_stream(d)?)) }) }
    /// The stream that work goes to unless another was chosen.
    try try_default_stream(; device: Ordinal) -> Stream { of_runtime(|r| Ok(Stream::of(r.current_device()?, 0))) }
    /// A stream that another library made.
    try try_get_stream_from_external(data_ptr: i64; device: Ordinal) -> Stream { streams::adopt(data_ptr) }
    /// The handle of cuBLAS.
    try try_current_blas_handle() -> i64 { absent() }
    /// The handle of cuSOLVER.
    try try_current_solver_handle() -> i64 { absent() }
    /// CUDA's runtime library.
    try try_cudart() -> () { absent() }
    /// Lets memory go that was sent to other processes and that none of them has any more.
    try try_ipc_collect() -> () { of_runtime(|r| { r.ipc_collect(); Ok(()) }) }
    /// What happens at calls that wait for the device.
    try try_get_sync_debug_mode() -> i64 { of_runtime(|_| Ok(i64::from(runtime::sync_debug_mode()))) }
    /// Says what happens at calls that wait for the device.
    try try_set_sync_debug_mode(debug_mode: SyncDebugMode) -> () { of_runtime(|_| { runtime::set_sync_debug_mode(debug_mode.0); Ok(()) }) }
    /// Percent of the last second that kernels ran.
    try try_utilization(; device: Ordinal) -> i64 { measured(Measured::Utilization) }
    /// Degrees Celsius.
    try try_temperature(; device: Ordinal) -> i64 { measured(Measured::Temperature) }
    /// Milliwatts.
    try try_power_draw(; device: Ordinal) -> i64 { measured(Measured::PowerDraw) }
    /// Hertz of the clock.
    try try_clock_rate(; device: Ordinal) -> i64 { measured(Measured::ClockRate) }
    /// Seeds the current device's generator; without a device there is nothing to seed.
    fn manual_seed(seed: i64) -> () { seed_devices(false, seed) }
    /// Seeds the generators of all devices.
    fn manual_seed_all(seed: i64) -> () { seed_devices(true, seed) }
    /// Seeds the current device's generator with a number that nobody chose.
    fn seed() -> () { seed_devices(false, unchosen()) }
    /// Seeds the generators of all devices with one number that nobody chose.
    fn seed_all() -> () { seed_devices(true, unchosen()) }
    /// The seed of the current device's generator.
    try try_initial_seed() -> i64 { of_runtime(|r| Ok(r.initial_seed(r.current_device()?))) }
    /// The state of a device's generator: seed and offset, 8 bytes each.
    try try_get_rng_state(; device: Ordinal) -> Tensor { of_runtime(|r| Ok(state_tensor(&r.rng_state(r.current_device()?)))) }
    /// The states of all devices' generators.
    fn get_rng_state_all() -> Vec<Tensor> {
        answer(|r| (0..r.device_count()).map(|d| state_tensor(&r.rng_state(d))).collect()).unwrap_or_default()
    }
    /// Sets the state of a device's generator once there is one.
    fn set_rng_state(new_state: Tensor; device: Ordinal) -> () {
        let _ = answer(|r| r.set_rng_state(r.current_device()?, &new_state.try_to_vec::<u8>()?));
    }
    /// Sets the states of all devices' generators.
    try try_set_rng_state_all(new_states: Vec<Tensor>) -> () {
        if new_states.is_empty() { return Ok(()) }
        of_runtime(|r| new_states.iter().enumerate().try_for_each(|(d, s)| r.set_rng_state(d as i64, &s.try_to_vec::<u8>()?)))
    }
} }

fn seed_devices(all: bool, seed: i64) {
    let _ = answer(|r| match all {
        true => (0..r.device_count()).for_each(|d| r.manual_seed(d, seed)),
        false => r.manual_seed(r.current_device().unwrap_or(0), seed),
    });
}
/// A number from the operating system, without touching the CPU's own stream.
fn unchosen() -> i64 {
    flambeau_core::types::generator::Generator::new().seed() as i64
}
fn state_tensor(state: &[u8]) -> Tensor {
    Tensor::from_slice(state, [state.len() as i64])
}

/// What a device can do.
#[derive(Clone, Debug)]
pub struct DeviceProperties(pub(crate) runtime::Properties);
impl DeviceProperties {
    /// The name.
    pub fn name(&self) -> &str {
        &self.0.name
    }
    /// Bytes of memory.
    pub fn total_memory(&self) -> i64 {
        self.0.total_memory
    }
    /// Number of multiprocessors.
    pub fn multi_processor_count(&self) -> i64 {
        self.0.multi_processor_count
    }
    /// First number of the compute capability.
    pub fn major(&self) -> i64 {
        self.0.major
    }
    /// Second number of the compute capability.
    pub fn minor(&self) -> i64 {
        self.0.minor
    }
}
impl std::fmt::Display for DeviceProperties {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let p = &self.0;
        write!(
            f,
            "_CudaDeviceProperties(name='{}', major={}, minor={}, total_memory={}MB, multi_processor_count={})",
            p.name,
            p.major,
            p.minor,
            p.total_memory / (1024 * 1024),
            p.multi_processor_count
        )
    }
}

/// Runs a closure with a device as the current one.
///
/// Panics where the number is that of a device that is not there. A negative number changes nothing, as in PyTorch.
#[track_caller]
pub fn device<R>(device: impl Into<Ordinal>, f: impl FnOnce() -> R) -> R {
    let _on = flambeau_core::api::ergonomic::expect(runtime::on(device.into()));
    f()
}
/// Runs a closure with the device of a tensor as the current one; tensors that lie on no CUDA device change nothing.
#[track_caller]
pub fn device_of<R>(tensor: &Tensor, f: impl FnOnce() -> R) -> R {
    let on = match tensor.device() {
        flambeau_core::Device::Cuda(i) => i64::from(i),
        _ => -1,
    };
    device(Ordinal(on), f)
}

/// CUDA's errors as PyTorch names them (`torch.cuda.AcceleratorError`, `torch.cuda.OutOfMemoryError`) are kinds of [`Error`] here.
#[doc(alias = "torch.cuda.AcceleratorError")]
#[doc(alias = "torch.AcceleratorError")]
pub type AcceleratorError = Error;

#[cfg(feature = "by-name")]
pub(crate) const BY_HAND: &[crate::by_name::Row] = {
    use crate::by_name::{Answer as _, Bound};
    use flambeau_core::Value;
    &[
        ("torch.cuda", "device", |a, k| {
            let mut b = Bound::new("device", &["device"], a, k)?;
            let d = b.required::<Ordinal>()?;
            Ok(vec![runtime::scoped("device", d)])
        }),
        ("torch.cuda", "device_of", |a, k| {
            let mut b = Bound::new("device_of", &["obj"], a, k)?;
            let t = b.required::<Tensor>()?;
            let d = Ordinal::from(t.device());
            let d = if matches!(t.device(), flambeau_core::Device::Cuda(_)) { d } else { Ordinal(-1) };
            Ok(vec![runtime::scoped("device_of", d)])
        }),
        ("torch.cuda", "stream", streams::by_name::context),
        ("torch.cuda", "StreamContext", streams::by_name::context),
        ("torch.cuda", "set_stream", streams::by_name::set),
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
impl crate::by_name::Shown for DeviceProperties {
    const CLASS: &'static str = "_CudaDeviceProperties";
    fn attribute(&self, name: &str) -> Option<flambeau_core::Value> {
        let p = &self.0;
        Some(match name {
            "name" => p.name.clone().into(),
            "total_memory" => p.total_memory.into(),
            "multi_processor_count" => p.multi_processor_count.into(),
            "major" => p.major.into(),
            "minor" => p.minor.into(),
            "warp_size" => p.warp_size.into(),
            "max_threads_per_multi_processor" => p.max_threads_per_multi_processor.into(),
            _ => return None,
        })
    }
    fn method(&self, _: &str, _: &[flambeau_core::Value]) -> Option<Result<Vec<flambeau_core::Value>>> {
        None
    }
    fn repr(&self) -> String {
        self.to_string()
    }
}
#[cfg(feature = "by-name")]
impl crate::by_name::Answer for DeviceProperties {
    fn answer(self) -> Result<Vec<flambeau_core::Value>> {
        Ok(vec![crate::by_name::object(self)])
    }
}
