//! What is noted of each call.

use super::flops::estimate;
use flambeau_core::dispatch::op::OpInfo;
use flambeau_core::dispatch::overrides::ModeGuard;
use flambeau_core::dispatch::watch::{Watcher, push_watcher};
use flambeau_core::settings::determinism::warn;
use flambeau_core::{Tensor, Value};
use flambeau_devices::cuda::activity::{self, Activity};
use flambeau_nn::modules::module::{register_module_forward_hook, register_module_forward_pre_hook};
use flambeau_nn::{HookHandle, HookOptions, Module};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// An operator's call, or a label's range.
///
/// ```
/// use torch::profiler::{Event, ProfileOptions, profile};
/// let p = profile(ProfileOptions::new().record_shapes(true), |_| {
///     let _ = torch::ones([2, 3]).exp();
/// });
/// let exp: &Event = p.events().iter().find(|e| e.name == "aten::exp").unwrap();
/// assert_eq!(exp.input_shapes, [[2, 3]]);
/// assert!(exp.parent.is_none() && exp.end >= exp.start);
/// ```
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
    /// Classes of the modules that ran, the outermost first: `Sequential.Linear`.
    pub module_hierarchy: String,
    /// The CUDA device that it ran on, of a kernel or a copy; none: the CPU.
    #[doc(alias = "torch.autograd.profiler_util.FunctionEvent.device_index")]
    pub device: Option<i64>,
    /// Kernels and copies that it queued itself.
    pub kernels: Vec<Kernel>,
    /// Microseconds of kernels that events within it queued.
    pub(super) children_device: f64,
    /// Bytes that were taken at the begin and at the end.
    pub(super) allocated: [i64; 2],
    /// Nanoseconds of the events within it.
    pub(super) children: u64,
    /// Bytes of the events within it.
    pub(super) children_memory: i64,
}
/// A kernel or a copy of a device, as the operator knows it that queued it.
#[doc(alias = "torch.autograd.profiler_util.Kernel")]
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel {
    /// The kernel's name, or where the copy goes from and to.
    pub name: String,
    /// The device's number.
    pub device: i64,
    /// Microseconds.
    pub duration: f64,
}
/// A piece of time, in microseconds from the begin of the recording.
///
/// ```
/// use torch::profiler::Interval;
/// assert_eq!(Interval { start: 2.0, end: 5.5 }.elapsed_us(), 3.5);
/// ```
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
    /// Microseconds; none of what ran on a device.
    pub fn cpu_time_total(&self) -> f64 {
        if self.device.is_some() { 0.0 } else { (self.end - self.start) as f64 / 1e3 }
    }
    /// Microseconds without the events within it.
    pub fn self_cpu_time(&self) -> f64 {
        if self.device.is_some() {
            0.0
        } else {
            (self.end - self.start).saturating_sub(self.children) as f64 / 1e3
        }
    }
    /// Microseconds of the kernels and copies that it queued, and of those of the events within it; of a kernel, its own.
    pub fn device_time_total(&self) -> f64 {
        self.self_device_time_total() + self.children_device
    }
    /// The same without the events within it.
    pub fn self_device_time_total(&self) -> f64 {
        match self.device {
            Some(_) => (self.end - self.start) as f64 / 1e3,
            None => self.kernels.iter().map(|k| k.duration).sum(),
        }
    }
    /// Bytes without those of the events within it.
    pub fn self_cpu_memory_usage(&self) -> i64 {
        self.cpu_memory_usage - self.children_memory
    }
}

/// What runs: an operator, whose name is spelt out once the recording has ended, or a label.
enum What {
    Operator(&'static OpInfo),
    Label(Cow<'static, str>),
}
/// What only some recordings want to know.
#[derive(Default)]
struct More {
    input_shapes: Vec<Vec<i64>>,
    flops: u64,
    stack: Vec<String>,
    modules: String,
    allocated: [i64; 2],
}
/// An event while it is recorded: as little as will do, since noting it takes time from what is measured.
pub(super) struct Noted {
    what: What,
    start: Instant,
    end: Instant,
    parent: Option<usize>,
    more: Option<Box<More>>,
}

/// What is noted, and what was.
#[derive(Default)]
pub(super) struct Recorder {
    pub(super) shapes: bool,
    pub(super) memory: bool,
    pub(super) stack: bool,
    pub(super) flops: bool,
    pub(super) modules: bool,
    /// Whether the CPU's events are of interest, and what devices do.
    pub(super) cpu: bool,
    pub(super) devices: bool,
    pub(super) began: Option<Instant>,
    pub(super) noted: Vec<Noted>,
    /// Those that are running.
    pub(super) open: Vec<usize>,
    /// Modules that are running: addresses and classes.
    pub(super) running: Vec<(usize, String)>,
}
fn allocated() -> i64 {
    flambeau_memory::pool::stats().allocated as i64
}
impl Recorder {
    /// Nanoseconds from the begin on.
    fn since(&self, t: Instant) -> u64 {
        let d = self.began.map_or(Duration::ZERO, |b| t.saturating_duration_since(b));
        d.as_secs() * 1_000_000_000 + u64::from(d.subsec_nanos())
    }
    #[cold]
    fn more(&self, what: &What, args: Option<&dyn Fn() -> Vec<Value>>) -> Box<More> {
        let args = args.filter(|_| self.shapes || self.flops).map_or(Vec::new(), |values| values());
        let input_shapes = if self.shapes { args.iter().map(sizes).collect() } else { Vec::new() };
        let counted = self.flops && matches!(what, What::Operator(_));
        let flops = if counted { estimate(&name(what), &input_shapes, &args) } else { 0 };
        let stack = if self.stack { frames() } else { Vec::new() };
        let before = if self.memory { allocated() } else { 0 };
        let names: Vec<&str> = self.running.iter().map(|m| m.1.as_str()).collect();
        Box::new(More { input_shapes, flops, stack, modules: names.join("."), allocated: [before; 2] })
    }
    fn begin(&mut self, what: What, args: Option<&dyn Fn() -> Vec<Value>>) -> usize {
        let i = self.noted.len();
        let wanted = self.shapes || self.memory || self.stack || self.flops || !self.running.is_empty();
        let more = wanted.then(|| self.more(&what, args));
        let parent = self.open.last().copied();
        self.open.push(i);
        if self.devices {
            activity::enter(i as u64);
        }
        // the clock is asked last, so that what is noted does not count
        self.noted.reserve(1);
        let now = Instant::now();
        self.noted.push(Noted { what, start: now, end: now, parent, more });
        i
    }
    fn end(&mut self, i: usize) {
        let now = Instant::now();
        if self.open.last() != Some(&i) && !self.open.contains(&i) {
            return;
        }
        // guards may end in any order: what is still open above ends with it
        while let Some(k) = self.open.pop() {
            if self.devices {
                activity::leave();
            }
            let e = &mut self.noted[k];
            e.end = now;
            if let Some(m) = &mut e.more
                && self.memory
            {
                m.allocated[1] = allocated();
            }
            if k == i {
                break;
            }
        }
    }
    /// The operator that runs, if nothing was noted within it yet.
    fn is_just_begun(&self, info: &'static OpInfo) -> bool {
        self.open.last().is_some_and(|i| {
            *i + 1 == self.noted.len()
                && matches!(self.noted[*i].what, What::Operator(o) if std::ptr::eq(o, info))
        })
    }
    /// What was noted, written out.
    fn events(&mut self) -> Vec<Event> {
        let mut names = HashMap::new();
        let mut all: Vec<Event> = Vec::with_capacity(self.noted.len());
        for n in std::mem::take(&mut self.noted) {
            let name = match &n.what {
                What::Operator(o) => {
                    names.entry(std::ptr::from_ref(*o)).or_insert_with(|| name(&n.what)).clone()
                }
                What::Label(l) => l.clone(),
            };
            let more = n.more.map(|m| *m).unwrap_or_default();
            let bytes = more.allocated[1] - more.allocated[0];
            let (start, end) = (self.since(n.start), self.since(n.end));
            if let Some(p) = n.parent {
                all[p].children += end - start;
                all[p].children_memory += bytes;
            }
            all.push(Event {
                name,
                start,
                end,
                parent: n.parent,
                is_user_annotation: matches!(n.what, What::Label(_)),
                input_shapes: more.input_shapes,
                cpu_memory_usage: bytes,
                flops: more.flops,
                stack: more.stack,
                module_hierarchy: more.modules,
                device: None,
                kernels: Vec::new(),
                children_device: 0.0,
                allocated: more.allocated,
                children: 0,
                children_memory: 0,
            });
        }
        all
    }
}
/// Adds what devices did: to the operators that queued it, and as events of its own behind them.
fn with_devices(events: &mut Vec<Event>, all: &[Activity]) {
    let operators = events.len();
    for a in all.iter().filter(|a| !a.is_call()) {
        let duration = a.end.saturating_sub(a.start) as f64 / 1e3;
        let by = a.operator.and_then(|o| usize::try_from(o).ok()).filter(|o| *o < operators);
        if let Some(by) = by {
            events[by].kernels.push(Kernel { name: a.name.clone(), device: a.device, duration });
            let mut above = events[by].parent;
            while let Some(p) = above {
                events[p].children_device += duration;
                above = events[p].parent;
            }
        }
        events.push(Event {
            name: a.name.clone().into(),
            start: a.start,
            end: a.end.max(a.start),
            parent: None,
            is_user_annotation: false,
            input_shapes: Vec::new(),
            cpu_memory_usage: 0,
            flops: 0,
            stack: Vec::new(),
            module_hierarchy: String::new(),
            device: Some(a.device),
            kernels: Vec::new(),
            children_device: 0.0,
            allocated: [0; 2],
            children: 0,
            children_memory: 0,
        });
    }
}
/// As PyTorch shows it: `aten::add`.
fn name(what: &What) -> Cow<'static, str> {
    match what {
        What::Label(l) => l.clone(),
        What::Operator(o) => {
            let base = o.name.split('.').next().unwrap_or(o.name);
            if base.contains("::") { base.into() } else { format!("aten::{base}").into() }
        }
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

/// Notes which modules run on threads whose recording wants to know.
fn module_hooks() -> Vec<HookHandle> {
    let of = |m: &dyn Module| std::ptr::from_ref(m).cast::<()>() as usize;
    let wanted = || current().filter(|r| r.borrow().modules);
    let before = register_module_forward_pre_hook(move |m: &dyn Module, _: &[Tensor]| {
        if let Some(r) = wanted() {
            r.borrow_mut().running.push((of(m), m.type_name().into_owned()));
        }
        None
    });
    let ended = move |m: &dyn Module, _: &[Tensor], _: &[Tensor]| {
        if let Some(r) = wanted() {
            // those above it ended by errors
            let running = &mut r.borrow_mut().running;
            let at = running.iter().rposition(|n| n.0 == of(m));
            running.truncate(at.unwrap_or(running.len()));
        }
        None
    };
    vec![before, register_module_forward_hook(ended, HookOptions::new())]
}

/// A recording of this thread.
pub(super) struct Recording {
    recorder: Rc<RefCell<Recorder>>,
    _modes: [ModeGuard; 2],
    hooks: Vec<HookHandle>,
}
/// Ends a label's event when dropped.
struct Open(Rc<RefCell<Recorder>>, usize);
impl Drop for Open {
    fn drop(&mut self) {
        self.0.borrow_mut().end(self.1);
    }
}
struct Noting(Rc<RefCell<Recorder>>);
impl Watcher for Noting {
    fn begin(&self, info: &'static OpInfo, inner: bool, args: &dyn Fn() -> Vec<Value>) -> Option<usize> {
        let mut r = self.0.borrow_mut();
        // below the gradients the same call comes again
        let again = inner && r.is_just_begun(info);
        (!again).then(|| r.begin(What::Operator(info), Some(args)))
    }
    fn end(&self, call: usize) {
        self.0.borrow_mut().end(call);
    }
}
impl Recording {
    pub(super) fn new(mut what: Recorder) -> Recording {
        let began = Instant::now();
        what.began = Some(began);
        if what.devices
            && let Err(e) = activity::begin(began)
        {
            what.devices = false;
            warn(&format!("what CUDA devices do is not recorded: {}", e.message()));
        }
        let recorder = Rc::new(RefCell::new(what));
        // while the thread ends labels find no recorder
        let _ = CURRENT.try_with(|c| c.borrow_mut().push(recorder.clone()));
        let hooks = if recorder.borrow().modules { module_hooks() } else { Vec::new() };
        let _modes = push_watcher(Rc::new(Noting(recorder.clone())));
        Recording { recorder, _modes, hooks }
    }
    /// Marks the begin of a step.
    pub(super) fn mark(&self, label: String) {
        let mut r = self.recorder.borrow_mut();
        let i = r.begin(What::Label(label.into()), None);
        r.end(i);
    }
    /// The events, and what devices did.
    pub(super) fn finish(self) -> (Vec<Event>, Vec<Activity>) {
        let mut r = self.recorder.borrow_mut();
        if let Some(first) = r.open.first().copied() {
            r.end(first);
        }
        let mut events = r.events();
        let mut all = Vec::new();
        if std::mem::take(&mut r.devices) {
            all = activity::end().unwrap_or_else(|e| {
                warn(&format!("what CUDA devices did was lost: {}", e.message()));
                Vec::new()
            });
        }
        if !r.cpu {
            events.clear();
            all.iter_mut().for_each(|a| a.operator = None);
        }
        with_devices(&mut events, &all);
        (events, all)
    }
}
impl Drop for Recording {
    fn drop(&mut self) {
        self.hooks.iter().for_each(HookHandle::remove);
        let _ = CURRENT.try_with(|c| c.borrow_mut().retain(|r| !Rc::ptr_eq(r, &self.recorder)));
        // a recording that nobody finished
        if self.recorder.try_borrow().is_ok_and(|r| r.devices) {
            let _ = activity::end();
        }
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
            let i = r.borrow_mut().begin(What::Label(label.into()), None);
            Open(r, i)
        });
        RecordFunction { _open: open }
    }
}
