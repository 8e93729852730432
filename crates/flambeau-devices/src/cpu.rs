//! `torch.cpu`: the names that programs for any device ask for, on the CPU, where all work is done when a call returns.

use crate::Ordinal;
use crate::table::answers;

answers! { "torch.cpu", NAMES {
    /// Whether the CPU can be used: yes.
    fn is_available() -> bool { true }
    /// Whether it has been started: yes.
    fn is_initialized() -> bool { true }
    /// The number of CPUs, as devices: one.
    fn device_count() -> i64 { 1 }
    /// The current device.
    fn current_device() -> &'static str { "cpu" }
    /// Changes nothing: there is one CPU.
    fn set_device(device: Ordinal) -> () {}
    /// Waits until all work is done: it is, when a call returns.
    fn synchronize(; device: Ordinal) -> () {}
} }

/// The stream of the CPU: work is done in the order of the calls, so there is one, and all waiting is over at once.
///
/// ```
/// use torch::cpu::{Stream, current_stream, stream};
/// let other = Stream::new();
/// let x = stream(&other, || torch::ones([2]).exp());
/// current_stream().wait_stream(&other);
/// assert_eq!(x.sizes(), &[2]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stream(());
impl Stream {
    /// The one stream.
    pub fn new() -> Stream {
        Stream(())
    }
    /// Nothing is under way.
    pub fn record_event(&self) {}
    /// Nothing is under way.
    pub fn wait_event(&self, _event: &Event) {}
    /// Nothing is under way.
    pub fn wait_stream(&self, _stream: &Stream) {}
}
/// A point in the work of the CPU, which has been passed when anybody asks.
///
/// ```
/// use torch::cpu::Event;
/// let done = Event::new();
/// done.record();
/// assert!(done.query());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Event(());
impl Event {
    /// An event.
    pub fn new() -> Event {
        Event(())
    }
    /// Whether the work before it is done: yes.
    pub fn query(&self) -> bool {
        true
    }
    /// Nothing is under way.
    pub fn record(&self) {}
    /// Nothing is under way.
    pub fn synchronize(&self) {}
    /// Nothing is under way.
    pub fn wait(&self) {}
}
/// The stream that work goes to.
pub fn current_stream() -> Stream {
    Stream::new()
}
/// Runs a closure with a stream as the current one: there is one.
#[doc(alias = "torch.cpu.StreamContext")]
pub fn stream<R>(_stream: &Stream, f: impl FnOnce() -> R) -> R {
    f()
}
/// What the processor can do, by the names of PyTorch's table.
///
/// ```
/// let can = torch::cpu::get_capabilities();
/// assert!(can.contains_key("architecture"));
/// ```
pub fn get_capabilities() -> std::collections::BTreeMap<&'static str, String> {
    let mut all = std::collections::BTreeMap::new();
    all.insert("architecture", std::env::consts::ARCH.to_string());
    #[cfg(target_arch = "x86_64")]
    {
        macro_rules! ask {
            ($($name:literal $feature:tt),*) => {$(
                all.insert($name, std::arch::is_x86_feature_detected!($feature).to_string());
            )*};
        }
        ask! {
            "sse" "sse", "sse2" "sse2", "sse3" "sse3", "ssse3" "ssse3", "sse4_1" "sse4.1", "sse4_2" "sse4.2", "avx" "avx",
            "avx2" "avx2", "fma3" "fma", "f16c" "f16c", "bmi" "bmi1", "bmi2" "bmi2", "popcnt" "popcnt", "lzcnt" "lzcnt",
            "aes" "aes", "sha" "sha", "avx512_f" "avx512f", "avx512_bw" "avx512bw", "avx512_dq" "avx512dq",
            "avx512_vl" "avx512vl", "avx512_cd" "avx512cd", "avx512_vnni" "avx512vnni", "avx512_bf16" "avx512bf16",
            "avx512_fp16" "avx512fp16", "avx512_vbmi" "avx512vbmi", "avx512_vbmi2" "avx512vbmi2"
        }
    }
    all
}

#[cfg(feature = "by-name")]
pub(crate) const BY_HAND: &[crate::by_name::Row] = {
    use crate::by_name::{Bound, object};
    use crate::stream::context;
    use flambeau_core::Value;
    &[
        ("torch.cpu", "Stream", |a, k| {
            Bound::new("Stream", &["priority"], a, k)?.optional::<i64>()?;
            Ok(vec![object(Stream::new())])
        }),
        ("torch.cpu", "Event", |_, _| Ok(vec![object(Event::new())])),
        ("torch.cpu", "current_stream", |a, k| {
            Bound::new("current_stream", &["device"], a, k)?.optional::<Ordinal>()?;
            Ok(vec![object(current_stream())])
        }),
        ("torch.cpu", "stream", |a, k| {
            Bound::new("stream", &["stream"], a, k)?.required::<crate::Anything>()?;
            Ok(vec![context("StreamContext", || Ok(()))])
        }),
        ("torch.cpu", "StreamContext", |a, k| {
            Bound::new("StreamContext", &["stream"], a, k)?.required::<crate::Anything>()?;
            Ok(vec![context("StreamContext", || Ok(()))])
        }),
        ("torch.cpu", "get_capabilities", |_, _| {
            let shown = |s: String| s.parse().map_or(Value::Str(s), Value::Bool);
            Ok(vec![Value::Dict(
                get_capabilities().into_iter().map(|(k, v)| (k.to_string(), shown(v))).collect(),
            )])
        }),
    ]
};
#[cfg(feature = "by-name")]
mod objects {
    use super::{Event, Stream};
    use crate::by_name::Shown;
    use flambeau_core::{Result, Value};

    impl Shown for Stream {
        const CLASS: &'static str = "Stream";
        fn attribute(&self, _: &str) -> Option<Value> {
            None
        }
        fn method(&self, name: &str, _: &[Value]) -> Option<Result<Vec<Value>>> {
            matches!(name, "record_event" | "wait_event" | "wait_stream").then(|| Ok(vec![Value::None]))
        }
        fn repr(&self) -> String {
            "<torch.cpu.Stream object>".into()
        }
    }
    impl Shown for Event {
        const CLASS: &'static str = "Event";
        fn attribute(&self, _: &str) -> Option<Value> {
            None
        }
        fn method(&self, name: &str, _: &[Value]) -> Option<Result<Vec<Value>>> {
            match name {
                "query" => Some(Ok(vec![Value::Bool(true)])),
                "record" | "synchronize" | "wait" => Some(Ok(vec![Value::None])),
                _ => None,
            }
        }
        fn repr(&self) -> String {
            "<torch.cpu.Event object>".into()
        }
    }
}
