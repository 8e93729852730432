//! `torch.mps`: Apple's graphics processors. The library is built without them.

pub mod profiler;

#[cfg(feature = "by-name")]
use crate::Ordinal;
use crate::table::{absent_class, answers, without};
use flambeau_core::{Error, Result, Tensor};

pub(crate) fn absent<T>(function: &str) -> Result<T> {
    without(function, "MPS")
}
fn unavailable<T>() -> Result<T> {
    Err(Error::runtime("MPS is not available"))
}

answers! { "torch.mps", NAMES {
    /// Whether a device can be used: no.
    fn is_available() -> bool { false }
    /// The number of devices: none.
    fn device_count() -> i64 { 0 }
    /// Waits until all work is done.
    try try_synchronize() -> () { absent("deviceSynchronize") }
    /// The state of the generator.
    try try_get_rng_state(; device: Ordinal) -> Tensor { absent("getDefaultGenerator") }
    /// Sets it.
    try try_set_rng_state(new_state: Tensor; device: Ordinal) -> () { absent("getDefaultGenerator") }
    /// Seeds the generator once there is one: there is nothing to seed.
    fn manual_seed(seed: i64) -> () {}
    /// Seeds the generator with a number that nobody chose.
    try try_seed() -> () { absent("getDefaultGenerator") }
    /// Gives cached memory back.
    try try_empty_cache() -> () { absent("emptyCache") }
    /// Limits the memory that this process may use.
    try try_set_per_process_memory_fraction(fraction: f64) -> () { absent("setMemoryFraction") }
    /// Bytes of tensors.
    try try_current_allocated_memory() -> i64 { absent("getCurrentAllocatedMemory") }
    /// Bytes that the driver holds.
    try try_driver_allocated_memory() -> i64 { absent("getDriverAllocatedMemory") }
    /// Bytes that a program had better not pass.
    try try_recommended_max_memory() -> i64 { absent("getRecommendedMaxMemory") }
    /// The stream that work goes to.
    try try_current_stream() -> () { absent("getCurrentStream") }
    /// The stream that work goes to unless another was chosen.
    try try_default_stream() -> () { absent("getDefaultStream") }
    /// Compiles kernels in Metal's language.
    try try_compile_shader(source: String) -> () { unavailable() }
    /// Loads compiled kernels.
    try try_load_metallib(source: crate::Anything) -> () { unavailable() }
} }
absent_class! { "torch.mps.event", EVENT {
    /// A point in the work of the device.
    Event = Error::runtime("Cannot execute acquireEvent() without MPS backend.");
    /// Milliseconds from this event to another.
    elapsed_time(end_event: &Event) -> f64;
    /// Whether all work before it is done.
    query() -> bool;
    /// Puts it behind the work so far.
    record() -> ();
    /// Waits until all work before it is done.
    synchronize() -> ();
    /// Lets what comes later wait for it.
    wait() -> ();
} }
absent_class! { "torch.mps", STREAM {
    /// A queue of work of the device.
    Stream = crate::table::dummy("Stream");
    /// Its number.
    stream_id() -> i64;
    /// Waits until all work is done.
    synchronize() -> ();
} }
/// Makes a stream the current one; without a stream nothing changes.
pub fn set_stream(stream: Option<&Stream>) {
    if let Some(s) = stream {
        match s.0 {}
    }
}
/// Runs a closure with a stream as the current one.
///
/// # Errors
/// Always: the current stream cannot be asked for.
pub fn try_stream<R>(stream: Option<&Stream>, f: impl FnOnce() -> R) -> Result<R> {
    set_stream(stream);
    absent::<()>("getCurrentStream")?;
    Ok(f())
}
/// As [`try_stream`]; panics with the text of its error.
#[track_caller]
pub fn stream<R>(stream: Option<&Stream>, f: impl FnOnce() -> R) -> R {
    flambeau_core::api::ergonomic::expect(try_stream(stream, f))
}
#[cfg(feature = "by-name")]
pub(crate) const BY_HAND: &[crate::by_name::Row] = {
    use crate::by_name::{Answer as _, Bound};
    use flambeau_core::Value;
    &[
        ("torch.mps", "Event", |_, _| Event::try_new().map(|_| vec![])),
        ("torch.mps", "set_stream", |a, k| {
            match Bound::new("set_stream", &["stream"], a, k)?.required::<crate::Anything>()?.0 {
                Value::None => ().answer(),
                v => Err(Error::type_(format!("set_stream(): expected a Stream, not {}", v.type_name()))),
            }
        }),
        ("torch.mps", "stream", |a, k| {
            Bound::new("stream", &["stream"], a, k)?.required::<crate::Anything>()?;
            Ok(vec![crate::stream::context("stream", || absent("getCurrentStream"))])
        }),
    ]
};
/// Events (`torch.mps.event`).
pub mod event {
    pub use super::Event;
}
