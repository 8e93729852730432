//! Looks for races between streams (`torch.cuda._sanitizer`): accesses of kernels to the same tensor from two streams that no event
//! or wait orders. Calls of operators are seen below the gradients; the back end says what happens to memory, events and streams.
//!
//! A race is printed to the standard error output, with where both kernels were called and where the memory was taken, and the
//! call that made it is an error. As in PyTorch, accesses are those of one address: parts of a tensor that begin elsewhere are
//! others.

use super::runtime::answer;
use flambeau_core::dispatch::overrides::{self, OperatorCall, OperatorMode};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Device, Error, Result, Tensor, Value};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, PoisonError};

/// A stream by its device and its number there; an event likewise.
type Place = (i64, u64);
/// How far each stream had got: the number of its last kernel.
type Progress = HashMap<Place, u64>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
}
/// What one kernel does with one tensor.
#[derive(Clone)]
struct Access {
    kind: Kind,
    number: u64,
    stream: Place,
    operator: Arc<str>,
    arguments: Vec<&'static str>,
    is_output: bool,
    trace: Arc<Backtrace>,
}
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.kind == Kind::Read { "reading from" } else { "writing to" };
        write!(f, "{}\n{kind}", self.operator)?;
        if !self.arguments.is_empty() {
            write!(f, " argument(s) {}", self.arguments.join(", "))?;
            if self.is_output {
                f.write_str(", and to")?;
            }
        }
        if self.is_output {
            f.write_str(" the output")?;
        }
        writeln!(f, "\nWith stack trace:\n{}", self.trace)
    }
}
/// What is known of a tensor's memory.
#[derive(Default)]
struct Known {
    taken: Option<Arc<Backtrace>>,
    /// Since the last write.
    reads: Vec<Access>,
    write: Option<Access>,
}

/// Which work of which streams is known to come before what a stream does next.
#[derive(Default)]
struct Orders {
    streams: HashMap<Place, Progress>,
    events: HashMap<Place, Progress>,
    /// What the host has waited for.
    host: Progress,
}
fn join(into: &mut Progress, other: &Progress) {
    for (stream, number) in other {
        let own = into.entry(*stream).or_insert(*number);
        *own = (*own).max(*number);
    }
}
impl Orders {
    fn stream(&mut self, stream: Place) -> &mut Progress {
        let host = &mut self.host;
        self.streams.entry(stream).or_insert_with(|| {
            host.insert(stream, 0);
            host.clone()
        })
    }
    fn recorded(&mut self, event: Place, stream: Place) {
        let now = self.stream(stream).clone();
        self.events.insert(event, now);
    }
    fn wait(&mut self, stream: Place, event: Place) {
        let passed = self.events.get(&event).cloned().unwrap_or_default();
        join(self.stream(stream), &passed);
    }
    /// The host waited: whatever anybody does next comes after it.
    fn all_wait(&mut self, passed: &Progress) {
        self.streams.values_mut().for_each(|s| join(s, passed));
        join(&mut self.host, passed);
    }
    fn all_wait_for_device(&mut self, device: i64) {
        let done: Progress = self
            .streams
            .iter()
            .filter(|(s, _)| s.0 == device)
            .filter_map(|(s, progress)| Some((*s, *progress.get(s)?)))
            .collect();
        self.all_wait(&done);
    }
    fn is_after(&mut self, stream: Place, before: &Access) -> bool {
        self.stream(stream).get(&before.stream).is_some_and(|n| before.number <= *n)
    }
}

#[derive(Default)]
struct State {
    orders: Orders,
    tensors: HashMap<u64, Known>,
    kernels: u64,
}
static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);
static ENABLED: AtomicBool = AtomicBool::new(false);
thread_local! {
    /// Whether this thread's calls are seen.
    static SEEN: Cell<bool> = const { Cell::new(false) };
}
fn state<R>(f: impl FnOnce(&mut State) -> R) -> R {
    f(&mut STATE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// What a back end does besides kernels.
#[derive(Clone, Copy, Debug)]
pub enum Happening {
    /// Memory was taken at an address.
    Taken(u64),
    /// So many bytes from an address on went back.
    Given(u64, u64),
    /// An event was put behind the work of a stream.
    Recorded {
        /// The event.
        event: u64,
        /// The stream.
        stream: u64,
    },
    /// A stream waits for an event.
    Ordered {
        /// The stream.
        stream: u64,
        /// The event.
        event: u64,
    },
    /// Nobody asks for an event any more.
    Forgotten(u64),
    /// The host waited for an event.
    WaitedForEvent(u64),
    /// The host waited for a stream.
    WaitedForStream(u64),
    /// The host waited for the device.
    WaitedForAll,
}
/// Told by the back end, of one of its devices.
#[inline]
pub fn happened(device: i64, what: Happening) {
    if ENABLED.load(Ordering::Relaxed) {
        note(device, what);
    }
}
#[cold]
fn note(device: i64, what: Happening) {
    see_this_thread();
    let at = |n: u64| (device, n);
    state(|s| match what {
        Happening::Taken(address) => {
            let taken = Some(Arc::new(Backtrace::force_capture()));
            s.tensors.insert(address, Known { taken, ..Known::default() });
        }
        Happening::Given(address, n) => s.tensors.retain(|a, _| !(address..address + n.max(1)).contains(a)),
        Happening::Recorded { event, stream } => s.orders.recorded(at(event), at(stream)),
        Happening::Ordered { stream, event } => s.orders.wait(at(stream), at(event)),
        Happening::Forgotten(event) => {
            s.orders.events.remove(&at(event));
        }
        Happening::WaitedForEvent(event) => {
            let passed = s.orders.events.get(&at(event)).cloned().unwrap_or_default();
            s.orders.all_wait(&passed);
        }
        Happening::WaitedForStream(stream) => {
            let passed = s.orders.stream(at(stream)).clone();
            s.orders.all_wait(&passed);
        }
        Happening::WaitedForAll => s.orders.all_wait_for_device(device),
    });
}

/// Told by the back end of a copy between the host and a device's memory that no operator's call shows.
///
/// # Errors
/// It is not ordered after what another stream did with that memory.
#[inline]
pub fn copied(device: i64, stream: u64, address: u64, to_device: bool) -> Result<()> {
    if ENABLED.load(Ordering::Relaxed) { copy(device, stream, address, to_device) } else { Ok(()) }
}
#[cold]
fn copy(device: i64, stream: u64, address: u64, to_device: bool) -> Result<()> {
    see_this_thread();
    let mut all = Accesses::default();
    all.names.insert(address, vec![if to_device { "self" } else { "src" }]);
    if to_device { &mut all.written } else { &mut all.read }.insert(address);
    report(state(|s| s.launched((device, stream), &all, &"aten::copy_".into())))
}

/// Two accesses that nothing orders.
struct Race {
    address: u64,
    taken: Option<Arc<Backtrace>>,
    current: Access,
    previous: Access,
}
impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let handle = |s: Place| answer(|r| r.stream_handle(s.0, s.1)).and_then(Result::ok).unwrap_or(s.1);
        writeln!(f, "============================")?;
        writeln!(f, "CSAN detected a possible data race on tensor with data pointer {}", self.address)?;
        let (now, before) = (handle(self.current.stream), handle(self.previous.stream));
        write!(f, "Access by stream {now} during kernel:\n{}", self.current)?;
        write!(f, "Previous access by stream {before} during kernel:\n{}", self.previous)?;
        match &self.taken {
            Some(trace) => write!(f, "Tensor was allocated with stack trace:\n{trace}"),
            None => f.write_str("Trace for tensor allocation not found."),
        }
    }
}
impl State {
    /// A kernel's accesses: the races that they make.
    fn launched(&mut self, stream: Place, all: &Accesses, operator: &Arc<str>) -> Vec<Race> {
        self.kernels += 1;
        let number = self.kernels;
        self.orders.stream(stream).insert(stream, number);
        let trace = Arc::new(Backtrace::force_capture());
        let mut races = Vec::new();
        let mut one = |this: &mut State, address: u64, kind: Kind| {
            let current = Access {
                kind,
                number,
                stream,
                operator: operator.clone(),
                arguments: all.names.get(&address).cloned().unwrap_or_default(),
                is_output: all.outputs.contains(&address),
                trace: trace.clone(),
            };
            let known = this.tensors.entry(address).or_default();
            let before: Vec<&Access> = match kind {
                Kind::Write if !known.reads.is_empty() => known.reads.iter().collect(),
                _ => known.write.iter().collect(),
            };
            for previous in before {
                if !this.orders.is_after(stream, previous) {
                    races.push(Race {
                        address,
                        taken: known.taken.clone(),
                        current: current.clone(),
                        previous: previous.clone(),
                    });
                }
            }
            match kind {
                Kind::Read => known.reads.push(current),
                Kind::Write => {
                    known.reads.clear();
                    known.write = Some(current);
                }
            }
        };
        for address in all.read.difference(&all.written) {
            one(self, *address, Kind::Read);
        }
        for address in &all.written {
            one(self, *address, Kind::Write);
        }
        races
    }
}

/// The tensors of a call by their addresses.
#[derive(Default)]
struct Accesses {
    read: BTreeSet<u64>,
    written: BTreeSet<u64>,
    outputs: BTreeSet<u64>,
    names: HashMap<u64, Vec<&'static str>>,
}
fn each_tensor(v: &Value, f: &mut dyn FnMut(&Tensor)) {
    let mut open = vec![v];
    while let Some(v) = open.pop() {
        match v {
            Value::Tensor(t) => f(t),
            other => open.extend(other.items().unwrap_or(&[])),
        }
    }
}
/// The address of a tensor on a device that has elements; others have no memory to race for.
fn address(t: &Tensor) -> Option<u64> {
    match t.device() {
        Device::Cuda(_) => answer(|r| r.address(t)).flatten(),
        _ => None,
    }
}
impl Accesses {
    fn of(call: &OperatorCall<'_>, results: &[Value]) -> Accesses {
        let mut out = Accesses::default();
        let name = call.name();
        // such functions read nothing of their tensors but sizes and dtype
        let base = name.split('.').next().unwrap_or(name);
        let factory = base.starts_with("new_") || base.ends_with("_like");
        let mut made = Vec::new();
        results.iter().for_each(|v| each_tensor(v, &mut |t| made.push(t.clone())));
        let mut shown = BTreeSet::new();
        for (argument, value) in call.schema().args.iter().zip(call.args()) {
            each_tensor(value, &mut |t| {
                let Some(at) = address(t) else { return };
                // a result in the memory of an argument that is not written: a view, which touches nothing
                let viewed = !argument.mutated && made.iter().any(|r| r.storage().same(t.storage()));
                if argument.mutated {
                    out.written.insert(at);
                } else if !factory && !viewed {
                    out.read.insert(at);
                }
                if viewed {
                    shown.insert(at);
                }
                out.names.entry(at).or_default().push(argument.name);
            });
        }
        let viewed = !shown.is_empty();
        for at in made.iter().filter_map(address) {
            out.outputs.insert(at);
            if !factory && !viewed {
                out.written.insert(at);
            }
        }
        out
    }
}
struct Looking;
impl OperatorMode for Looking {
    fn call(&self, call: &OperatorCall<'_>) -> Result<Vec<Value>> {
        let results = call.call_on()?;
        let stream = answer(|r| {
            let device = r.current_device()?;
            Ok::<_, Error>((device, r.current_stream(device)?))
        });
        let Some(Ok(stream)) = stream else { return Ok(results) };
        let all = Accesses::of(call, &results);
        report(state(|s| s.launched(stream, &all, &schema(call).into())))?;
        Ok(results)
    }
}
/// Prints races, which are an error.
fn report(races: Vec<Race>) -> Result<()> {
    if races.is_empty() {
        return Ok(());
    }
    let mut text = String::new();
    for r in &races {
        let _ = writeln!(text, "{r}");
    }
    eprint!("{text}");
    Err(Error::runtime(format!("detected {} errors", races.len())))
}
fn schema(call: &OperatorCall<'_>) -> String {
    let name = format!("aten::{}", call.name());
    #[cfg(feature = "by-name")]
    return flambeau_library::signature::schema_text(&name, call.schema());
    #[cfg(not(feature = "by-name"))]
    name
}
fn see_this_thread() {
    if !SEEN.get() {
        SEEN.set(true);
        // as long as the thread: nobody turns the search off
        std::mem::forget(overrides::push_dispatch_mode(Looking));
    }
}

/// Turns the search on, for the calling thread and for all that touch a device from here on. `TORCH_CUDA_SANITIZER` in the environment does
/// so at the start. Without a device there is nothing to find.
///
/// ```no_run
/// torch::cuda::sanitizer::enable_cuda_sanitizer();
/// let x = torch::rand([10_000]).to(torch::Device::cuda(0));
/// let side = torch::cuda::Stream::new();
/// // nothing lets the other stream wait for the copy
/// let y = torch::cuda::stream(Some(&side), || torch::ops::mul(&x, &x));
/// assert_eq!(y.unwrap_err().message(), "detected 1 errors");
/// ```
pub fn enable_cuda_sanitizer() {
    ENABLED.store(true, Ordering::Relaxed);
    see_this_thread();
}
/// Whether it was turned on.
pub fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}
/// Reads `TORCH_CUDA_SANITIZER`; the back end calls it when it starts.
#[doc(hidden)]
pub fn read_environment() {
    if std::env::var_os("TORCH_CUDA_SANITIZER").is_some() {
        ENABLED.store(true, Ordering::Relaxed);
    }
}
