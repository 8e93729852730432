//! What is noted of each call.

use super::flops::estimate;
use flambeau_core::Value;
use flambeau_core::dispatch::overrides::{ModeGuard, OperatorCall, push_dispatch_mode, push_function_mode};
use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

/// An operator's call, or a label's range.
#[doc(alias = "torch.autograd.profiler.FunctionEvent")]
#[derive(Clone, Debug)]
pub struct Event {
    /// `aten::add`, or the label.
    pub name: Cow<'static, str>,
    /// Nanoseconds from the begin of the recording.
    pub start: u64,
    /// Nanoseconds from the begin of the recording.
    pub end: u64,
    /// The event within which it ran, by its place in the list.
    pub parent: Option<usize>,
    /// A label rather than an operator.
    pub is_user_annotation: bool,
    /// Sizes of the arguments; none for what is no tensor.
    pub input_shapes: Vec<Vec<i64>>,
    /// Bytes taken less bytes given back.
    pub cpu_memory_usage: i64,
    /// Estimated operations.
    pub flops: u64,
    /// Functions that called, the innermost first.
    pub stack: Vec<String>,
    /// Bytes that were taken at the begin and at the end.
    pub(super) allocated: [i64; 2],
    /// Nanoseconds of the events within it.
    pub(super) children: u64,
    /// Bytes of the events within it.
    pub(super) children_memory: i64,
}
/// A piece of time, in microseconds from the begin of the recording.
#[doc(alias = "torch.autograd.profiler_util.Interval")]
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// Its begin.
    pub start: f64,
    /// Its end.
    pub end: f64,
}
impl Interval {
    /// How long it is.
    pub fn elapsed_us(&self) -> f64 {
        self.end - self.start
    }
}
impl Event {
    /// When it ran.
    pub fn time_range(&self) -> Interval {
        Interval { start: self.start as f64 / 1e3, end: self.end as f64 / 1e3 }
    }
    /// Microseconds.
    pub fn cpu_time_total(&self) -> f64 {
        (self.end - self.start) as f64 / 1e3
    }
    /// Microseconds without the events within it.
    pub fn self_cpu_time(&self) -> f64 {
        (self.end - self.start).saturating_sub(self.children) as f64 / 1e3
    }
    /// Bytes without those of the events within it.
    pub fn self_cpu_memory_usage(&self) -> i64 {
        self.cpu_memory_usage - self.children_memory
    }
}

/// What is noted, and what was.
#[derive(Default)]
pub(super) struct Recorder {
    pub(super) shapes: bool,
    pub(super) memory: bool,
    pub(super) stack: bool,
    pub(super) flops: bool,
    pub(super) began: Option<Instant>,
    pub(super) events: Vec<Event>,
    /// Those that are running: the event, and the bytes at its begin.
    pub(super) open: Vec<(usize, i64)>,
}
fn allocated() -> i64 {
    flambeau_memory::pool::stats().allocated as i64
}
impl Recorder {
    fn now(&self) -> u64 {
        self.began.map_or(0, |t| t.elapsed().as_nanos() as u64)
    }
    fn begin(&mut self, name: Cow<'static, str>, args: Option<&[Value]>) -> usize {
        let i = self.events.len();
        let shapes = match args {
            Some(a) if self.shapes => a.iter().map(sizes).collect(),
            _ => Vec::new(),
        };
        let flops = if self.flops { args.map_or(0, |a| estimate(&name, &shapes, a)) } else { 0 };
        let stack = if self.stack { frames() } else { Vec::new() };
        self.events.push(Event {
            is_user_annotation: args.is_none(),
            name,
            start: 0,
            end: 0,
            parent: self.open.last().map(|o| o.0),
            input_shapes: shapes,
            cpu_memory_usage: 0,
            flops,
            stack,
            allocated: [0; 2],
            children: 0,
            children_memory: 0,
        });
        let before = if self.memory { allocated() } else { 0 };
        self.events[i].allocated[0] = before;
        self.open.push((i, before));
        // last, so that what was noted does not count
        let now = self.now();
        self.events[i].start = now;
        self.events[i].end = now;
        i
    }
    fn end(&mut self, i: usize) {
        let now = self.now();
        if !self.open.iter().any(|o| o.0 == i) {
            return;
        }
        // guards may end in any order: what is still open above ends with it
        while let Some((k, before)) = self.open.pop() {
            let bytes = if self.memory { allocated() - before } else { 0 };
            let e = &mut self.events[k];
            e.end = now;
            e.cpu_memory_usage = bytes;
            e.allocated[1] = before + bytes;
            let (took, parent) = (now - e.start, e.parent);
            if let Some(p) = parent {
                self.events[p].children += took;
                self.events[p].children_memory += bytes;
            }
            if k == i {
                break;
            }
        }
    }
    /// The operator that runs, if nothing was noted within it yet.
    fn is_just_begun(&self, name: &str) -> bool {
        self.open.last().is_some_and(|(i, _)| *i + 1 == self.events.len() && self.events[*i].name == name)
    }
}
fn sizes(v: &Value) -> Vec<i64> {
    match v {
        Value::Tensor(t) => t.sizes().to_vec(),
        _ => Vec::new(),
    }
}
fn frames() -> Vec<String> {
    let text = std::backtrace::Backtrace::force_capture().to_string();
    let mut all: Vec<String> = Vec::new();
    let mut name = "";
    for line in text.lines().map(str::trim) {
        match line.strip_prefix("at ") {
            Some(place) => all.push(format!("{place}: {name}")),
            None => name = line.split_once(": ").map_or(line, |p| p.1),
        }
    }
    // the program's own frames: not the library's, nor Rust's
    let own = |f: &String| !["/flambeau-", "/rustc/", "/.cargo/"].iter().any(|p| f.contains(p));
    let kept: Vec<String> = all.iter().filter(|f| own(f)).cloned().collect();
    if kept.is_empty() { all } else { kept }
}
thread_local! {
    /// Recordings of this thread, the innermost last.
    static CURRENT: RefCell<Vec<Rc<RefCell<Recorder>>>> = const { RefCell::new(Vec::new()) };
}
fn current() -> Option<Rc<RefCell<Recorder>>> {
    CURRENT.try_with(|c| c.borrow().last().cloned()).ok().flatten()
}

/// A recording of this thread.
pub(super) struct Recording {
    recorder: Rc<RefCell<Recorder>>,
    _modes: [ModeGuard; 2],
}
/// Ends its event when dropped, also where the call panics.
struct Open(Rc<RefCell<Recorder>>, usize);
impl Drop for Open {
    fn drop(&mut self) {
        self.0.borrow_mut().end(self.1);
    }
}
fn name(call: &OperatorCall<'_>) -> Cow<'static, str> {
    let full = call.name();
    let base = full.split('.').next().unwrap_or(full);
    if base.contains("::") { base.into() } else { format!("aten::{base}").into() }
}
impl Recording {
    pub(super) fn new(mut what: Recorder) -> Recording {
        what.began = Some(Instant::now());
        let recorder = Rc::new(RefCell::new(what));
        // while the thread ends labels find no recorder
        let _ = CURRENT.try_with(|c| c.borrow_mut().push(recorder.clone()));
        let (calls, parts) = (recorder.clone(), recorder.clone());
        let whole = push_function_mode(move |c: &OperatorCall<'_>| {
            let i = calls.borrow_mut().begin(name(c), Some(c.args()));
            let _open = Open(calls.clone(), i);
            c.call_on()
        });
        let inner = push_dispatch_mode(move |c: &OperatorCall<'_>| {
            let n = name(c);
            if parts.borrow().is_just_begun(&n) {
                // the same call, below the gradients
                return c.call_on();
            }
            let i = parts.borrow_mut().begin(n, Some(c.args()));
            let _open = Open(parts.clone(), i);
            c.call_on()
        });
        Recording { recorder, _modes: [whole, inner] }
    }
    /// Marks the begin of a step.
    pub(super) fn mark(&self, label: String) {
        let mut r = self.recorder.borrow_mut();
        let i = r.begin(label.into(), None);
        r.end(i);
    }
    pub(super) fn finish(self) -> Vec<Event> {
        let mut r = self.recorder.borrow_mut();
        if let Some((first, _)) = r.open.first().copied() {
            r.end(first);
        }
        std::mem::take(&mut r.events)
    }
}
impl Drop for Recording {
    fn drop(&mut self) {
        let _ = CURRENT.try_with(|c| c.borrow_mut().retain(|r| !Rc::ptr_eq(r, &self.recorder)));
    }
}

/// A label around what runs until it is dropped; without a profiler it does nothing.
#[doc(alias = "torch.autograd.profiler.record_function")]
#[doc(alias = "torch.profiler.record_function")]
pub struct RecordFunction {
    _open: Option<Open>,
}
impl RecordFunction {
    /// Begins the range of a label.
    pub fn new(label: impl Into<Cow<'static, str>>) -> RecordFunction {
        let open = current().map(|r| {
            let i = r.borrow_mut().begin(label.into(), None);
            Open(r, i)
        });
        RecordFunction { _open: open }
    }
}
