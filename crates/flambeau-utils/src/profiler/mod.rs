//! `torch.profiler`: which operators ran, how long, how often, on what shapes, and how much memory they took.
//!
//! Two modes see the calls of the thread: one as they are made (`linear`), one what they are made of (`addmm`), so an operator
//! stands within the one that called it, backward passes included. While no profiler records, none of this exists and a call
//! costs what it costs.
//!
//! ```
//! use torch::profiler::{ProfileOptions, RecordFunction, profile};
//! let p = profile(ProfileOptions::new().record_shapes(true), |_| {
//!     let _label = RecordFunction::new("my step");
//!     let x = torch::ones([8, 8]);
//!     let _ = x.matmul(&x).sum();
//! });
//! let averages = p.key_averages(false);
//! assert!(averages.iter().any(|a| a.key == "aten::matmul" && a.count == 1));
//! assert!(averages.table(Default::default()).unwrap().contains("Self CPU time total"));
//! ```

mod averages;
mod execution_trace;
mod flops;
mod memory_timeline;
mod recorder;
mod trace;

pub use averages::{Averages, FunctionEventAvg, TableOptions};
pub use execution_trace::ExecutionTraceObserver;
pub use recorder::{Event, Interval, Kernel, RecordFunction};

use flambeau_core::dispatch::overrides::{OperatorCall, push_function_mode};
use flambeau_core::{Result, ensure};
use flambeau_devices::cuda::activity::{self, Activity};
use recorder::{Recorder, Recording};
use std::path::{Path, PathBuf};

/// What is watched. XPUs and MTIA devices can be asked for and bring nothing, as in a PyTorch without them; so do CUDA devices where there
/// are none. NVIDIA's devices are watched by CUPTI (libcupti), which is loaded at run time; where it is not there a warning says so, and
/// the CPU's side is recorded alone.
///
/// ```
/// use torch::profiler::{ProfileOptions, ProfilerActivity, profile};
/// let options = ProfileOptions::new().activities([ProfilerActivity::CPU]);
/// let p = profile(options, |_| drop(torch::ones([2]).exp()));
/// assert!(p.events().iter().any(|e| e.name == "aten::exp"));
/// ```
#[doc(alias = "torch.profiler.ProfilerActivity")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ProfilerActivity {
    /// Operators and labels on the CPU.
    #[doc(alias = "torch.profiler.ProfilerActivity.CPU")]
    CPU,
    /// Kernels of XPUs.
    XPU,
    /// Kernels of CUDA devices.
    #[doc(alias = "torch.profiler.ProfilerActivity.CUDA")]
    CUDA,
    /// Kernels of MTIA devices.
    MTIA,
}
/// What can be watched here: the CPU, and CUDA devices where there is one with what its driver is asked by.
///
/// ```
/// use torch::profiler::{ProfilerActivity, supported_activities};
/// assert!(supported_activities().contains(&ProfilerActivity::CPU));
/// ```
#[doc(alias = "torch.profiler.supported_activities")]
pub fn supported_activities() -> Vec<ProfilerActivity> {
    let mut all = vec![ProfilerActivity::CPU];
    if activity::supported() {
        all.push(ProfilerActivity::CUDA);
    }
    all
}
/// What a profiler does in a step.
#[doc(alias = "torch.profiler.ProfilerAction")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(non_camel_case_types)]
pub enum ProfilerAction {
    /// Nothing.
    #[doc(alias = "torch.profiler.ProfilerAction.NONE")]
    NONE,
    /// Gets ready.
    #[doc(alias = "torch.profiler.ProfilerAction.WARMUP")]
    WARMUP,
    /// Records.
    #[doc(alias = "torch.profiler.ProfilerAction.RECORD")]
    RECORD,
    /// Records, and hands over what was recorded at the end of the step.
    #[doc(alias = "torch.profiler.ProfilerAction.RECORD_AND_SAVE")]
    RECORD_AND_SAVE,
}
type Schedule = Box<dyn Fn(i64) -> ProfilerAction>;

/// Numbers of a schedule: see [`schedule`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ScheduleOptions {
    /// Steps of each cycle in which nothing happens.
    pub wait: i64,
    /// Steps of each cycle in which the profiler gets ready.
    pub warmup: i64,
    /// Steps of each cycle that are recorded.
    pub active: i64,
    /// How many cycles there are; 0 for no end.
    pub repeat: i64,
    /// Steps before the first cycle.
    pub skip_first: i64,
}
/// What to do in each step: after `skip_first` steps, cycles of `wait`, `warmup` and `active` ones.
///
/// ```
/// use torch::profiler::{ProfilerAction::*, ScheduleOptions, schedule};
/// let s = schedule(ScheduleOptions { wait: 1, warmup: 1, active: 2, repeat: 1, skip_first: 1 }).unwrap();
/// assert_eq!((0..6).map(s).collect::<Vec<_>>(), [NONE, NONE, WARMUP, RECORD, RECORD_AND_SAVE, NONE]);
/// ```
///
/// # Errors
/// Negative numbers, and no active step.
#[doc(alias = "torch.profiler.schedule")]
pub fn schedule(o: ScheduleOptions) -> Result<impl Fn(i64) -> ProfilerAction + Clone + 'static> {
    let ScheduleOptions { wait, warmup, active, repeat, skip_first } = o;
    ensure!(
        wait >= 0 && warmup >= 0 && active > 0 && repeat >= 0 && skip_first >= 0,
        Assertion,
        "Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), active={active} (need > 0), \
         repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
    );
    Ok(move |step: i64| {
        let Some(step) = step.checked_sub(skip_first).filter(|s| *s >= 0) else {
            return ProfilerAction::NONE;
        };
        let quiet = wait.saturating_add(warmup);
        let cycle = quiet.saturating_add(active);
        if repeat > 0 && step / cycle >= repeat {
            return ProfilerAction::NONE;
        }
        match step % cycle {
            s if s < wait => ProfilerAction::NONE,
            s if s < quiet => ProfilerAction::WARMUP,
            s if s < cycle - 1 => ProfilerAction::RECORD,
            _ => ProfilerAction::RECORD_AND_SAVE,
        }
    })
}

#[cfg(feature = "by-name")]
mod by_name {
    use super::ScheduleOptions;
    use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef};
    use flambeau_core::dispatch::value::FromValue;
    use flambeau_core::{Result, Value};
    use flambeau_library::slots::Slots;
    use std::any::Any;

    /// What is done in each step, as a function: `ProfilerAction`s by their numbers.
    struct Steps(Box<dyn Fn(i64) -> super::ProfilerAction + Send + Sync>);
    impl Object for Steps {
        fn type_name(&self) -> &'static str {
            "function"
        }
        fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
            let s = Slots::new("schedule_fn", &["step"], args, kwargs)?;
            Ok(vec![Value::Int((self.0)(i64::from_value(s.must(0)?)?) as i64)])
        }
        fn as_any(&self) -> &dyn Any {
            self
        }
    }
    pub(super) fn schedule(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        let names: &[&str] = &["wait", "warmup", "active", "repeat", "skip_first"];
        let s = Slots::new("schedule", names, args, kwargs)?;
        let required = |i: usize| i64::from_value(s.must(i)?);
        let o = ScheduleOptions {
            wait: required(0)?,
            warmup: required(1)?,
            active: required(2)?,
            repeat: s.get(3)?.unwrap_or(0),
            skip_first: s.get(4)?.unwrap_or(0),
        };
        Ok(vec![Value::Object(ObjectRef::new(Steps(Box::new(super::schedule(o)?))))])
    }
}

/// What a profiler does.
#[derive(Default)]
pub struct ProfileOptions {
    schedule: Option<Schedule>,
    ready: Option<Box<dyn FnMut(&Profile)>>,
    record_shapes: bool,
    profile_memory: bool,
    with_stack: bool,
    with_flops: bool,
    with_modules: bool,
    activities: Option<Vec<ProfilerActivity>>,
}
impl ProfileOptions {
    /// Records all, from begin to end.
    pub fn new() -> Self {
        Self::default()
    }
    /// What is watched; all that can be, unless this is said. Without [`ProfilerActivity::CPU`] operators are not recorded, without
    /// [`ProfilerActivity::CUDA`] kernels are not.
    pub fn activities(mut self, of: impl IntoIterator<Item = ProfilerActivity>) -> Self {
        self.activities = Some(of.into_iter().collect());
        self
    }
    /// Notes within which modules operators run: [`Event::module_hierarchy`], and `Module Hierarchy` of the trace.
    pub fn with_modules(mut self, on: bool) -> Self {
        self.with_modules = on;
        self
    }
    /// What is done in which step: see [`schedule`]. Without one every step is recorded.
    pub fn schedule(mut self, f: impl Fn(i64) -> ProfilerAction + 'static) -> Self {
        self.schedule = Some(Box::new(f));
        self
    }
    /// Is called with what was recorded, whenever a cycle is complete, and at the end.
    pub fn on_trace_ready(mut self, f: impl FnMut(&Profile) + 'static) -> Self {
        self.ready = Some(Box::new(f));
        self
    }
    /// Notes the sizes of tensors.
    pub fn record_shapes(mut self, on: bool) -> Self {
        self.record_shapes = on;
        self
    }
    /// Notes how much memory is taken and given back.
    pub fn profile_memory(mut self, on: bool) -> Self {
        self.profile_memory = on;
        self
    }
    /// Notes the stack of functions that called.
    pub fn with_stack(mut self, on: bool) -> Self {
        self.with_stack = on;
        self
    }
    /// Estimates operations of products and sums, from shapes.
    pub fn with_flops(mut self, on: bool) -> Self {
        self.with_flops = on;
        self
    }
}

/// A profiler of this thread's operators, and what it recorded.
///
/// ```
/// use torch::profiler::{Profile, ProfileOptions};
/// let mut p = Profile::new(ProfileOptions::new());
/// p.start();
/// let _ = torch::ones([2]).exp();
/// p.stop();
/// let _ = torch::ones([2]).sin();
/// let seen = |name: &str| p.events().iter().any(|e| e.name == name);
/// assert!(seen("aten::exp") && !seen("aten::sin"));
/// ```
#[doc(alias = "torch.profiler.profile")]
#[doc(alias = "torch.profiler._KinetoProfile")]
#[doc(alias = "torch.autograd.profiler.profile")]
pub struct Profile {
    options: ProfileOptions,
    recording: Option<Recording>,
    events: Vec<Event>,
    /// What devices did, calls of their driver too.
    devices: Vec<Activity>,
    metadata: Vec<(String, String)>,
    step: i64,
}
impl Profile {
    /// One that does nothing yet.
    pub fn new(options: ProfileOptions) -> Profile {
        Profile {
            options,
            recording: None,
            events: Vec::new(),
            devices: Vec::new(),
            metadata: Vec::new(),
            step: 0,
        }
    }
    fn action(&self) -> ProfilerAction {
        self.options.schedule.as_ref().map_or(ProfilerAction::RECORD, |f| f(self.step))
    }
    fn begin(&mut self) {
        if matches!(self.action(), ProfilerAction::RECORD | ProfilerAction::RECORD_AND_SAVE)
            && self.recording.is_none()
        {
            let o = &self.options;
            let asked = |what| o.activities.as_ref().map(|all| all.contains(&what));
            let cpu = asked(ProfilerActivity::CPU).unwrap_or(true);
            // who asks by name is told what is missing
            let devices = match asked(ProfilerActivity::CUDA) {
                Some(true) => flambeau_devices::cuda::is_available(),
                Some(false) => false,
                None => activity::supported(),
            };
            if !cpu && !devices {
                return;
            }
            let what = Recorder {
                shapes: o.record_shapes || o.with_flops,
                memory: o.profile_memory,
                stack: o.with_stack,
                flops: o.with_flops,
                modules: o.with_modules,
                cpu,
                devices,
                ..Recorder::default()
            };
            self.recording = Some(Recording::new(what));
        }
    }
    fn end(&mut self) {
        let Some(r) = self.recording.take() else { return };
        (self.events, self.devices) = r.finish();
        // the function sees the profiler, so it is out of it meanwhile
        if let Some(mut f) = self.options.ready.take() {
            f(self);
            self.options.ready = Some(f);
        }
    }
    /// Begins.
    pub fn start(&mut self) {
        self.begin();
    }
    /// Ends, and hands over what was recorded.
    pub fn stop(&mut self) {
        self.end();
    }
    /// Says that the next step begins.
    #[doc(alias = "torch.profiler.profile.step")]
    pub fn step(&mut self) {
        if self.action() == ProfilerAction::RECORD_AND_SAVE {
            self.end();
        }
        self.step += 1;
        match self.action() {
            ProfilerAction::NONE | ProfilerAction::WARMUP => self.end(),
            _ => self.begin(),
        }
        if let Some(r) = &self.recording {
            r.mark(format!("ProfilerStep#{}", self.step));
        }
    }
    /// The number of the step.
    pub fn step_num(&self) -> i64 {
        self.step
    }
    /// What was recorded, in the order of the calls.
    #[doc(alias = "torch.profiler._KinetoProfile.events")]
    pub fn events(&self) -> &[Event] {
        &self.events
    }
    /// What was recorded, by operator; with `group_by_input_shape`, by sizes as well.
    #[doc(alias = "torch.profiler._KinetoProfile.key_averages")]
    #[doc(alias = "torch.autograd.profiler.profile.key_averages")]
    pub fn key_averages(&self, group_by_input_shape: bool) -> Averages {
        Averages::new(&self.events, group_by_input_shape, &self.options_shown())
    }
    fn options_shown(&self) -> averages::Shown {
        averages::Shown {
            memory: self.options.profile_memory,
            flops: self.options.with_flops,
            stack: self.options.with_stack,
        }
    }
    /// All events as one.
    #[doc(alias = "torch.autograd.profiler.profile.total_average")]
    pub fn total_average(&self) -> FunctionEventAvg {
        averages::total(&self.events)
    }
    /// Microseconds that all operators took without those within them.
    #[doc(alias = "torch.autograd.profiler.profile.self_cpu_time_total")]
    pub fn self_cpu_time_total(&self) -> f64 {
        self.events.iter().map(Event::self_cpu_time).sum()
    }
    /// The table of all events, one a row.
    ///
    /// # Errors
    /// A column to sort by that there is none of.
    #[doc(alias = "torch.autograd.profiler.profile.table")]
    pub fn table(&self, o: TableOptions) -> Result<String> {
        Averages::single(&self.events, &self.options_shown()).table(o)
    }
    /// Adds a text to the trace's file.
    #[doc(alias = "torch.profiler.profile.add_metadata")]
    #[doc(alias = "torch.profiler._KinetoProfile.add_metadata")]
    pub fn add_metadata(&mut self, key: &str, value: &str) {
        self.metadata.push((key.into(), serde_json::Value::from(value).to_string()));
    }
    /// Adds a value that is written as JSON already.
    ///
    /// # Errors
    /// What is no JSON.
    #[doc(alias = "torch.profiler.profile.add_metadata_json")]
    #[doc(alias = "torch.profiler._KinetoProfile.add_metadata_json")]
    pub fn add_metadata_json(&mut self, key: &str, value: &str) -> Result<()> {
        let parsed: serde_json::Value =
            serde_json::from_str(value).map_err(|e| flambeau_core::Error::value(format!("{key}: {e}")))?;
        self.metadata.push((key.into(), parsed.to_string()));
        Ok(())
    }
    /// Writes what was recorded in the format that Chrome and Perfetto open.
    ///
    /// # Errors
    /// Those of the system.
    #[doc(alias = "torch.profiler.profile.export_chrome_trace")]
    #[doc(alias = "torch.profiler._KinetoProfile.export_chrome_trace")]
    #[doc(alias = "torch.autograd.profiler.profile.export_chrome_trace")]
    pub fn export_chrome_trace(&self, path: impl AsRef<Path>) -> Result<()> {
        trace::chrome(&self.events, &self.devices, &self.metadata, path.as_ref())
    }
    /// Writes how many bytes were taken over time: by the end of the name a picture (`.html`), or points `[times, [sizes]]` (`.json`) with
    /// PyTorch's columns, all of it in the last, of what is not known.
    ///
    /// # Errors
    /// Those of the system; memory was not noted; other kinds of files (`Missing`).
    #[doc(alias = "torch.profiler._KinetoProfile.export_memory_timeline")]
    pub fn export_memory_timeline(&self, path: impl AsRef<Path>) -> Result<()> {
        ensure!(self.options.profile_memory, Assertion, "profile_memory=True required for memory profiling.");
        memory_timeline::write(&self.events, path.as_ref())
    }
    /// Writes stacks and the microseconds that were spent in them, a line each, as tools for flame graphs read them.
    ///
    /// # Errors
    /// Those of the system; no stacks were noted.
    #[doc(alias = "torch.profiler._KinetoProfile.export_stacks")]
    pub fn export_stacks(&self, path: impl AsRef<Path>) -> Result<()> {
        ensure!(self.options.with_stack, Assertion, "export_stacks() requires with_stack=True");
        trace::stacks(&self.events, path.as_ref())
    }
}

/// Profiles a closure, which may say where steps begin.
pub fn profile(options: ProfileOptions, f: impl FnOnce(&mut Profile)) -> Profile {
    let mut p = Profile::new(options);
    p.start();
    f(&mut p);
    p.stop();
    p
}

/// A function for [`ProfileOptions::on_trace_ready`] that writes traces into a folder as TensorBoard expects them:
/// `WORKER.TIME.pt.trace.json`.
///
/// ```
/// use torch::profiler::{ProfileOptions, ScheduleOptions, profile, schedule, tensorboard_trace_handler};
/// let folder = std::env::temp_dir().join(format!("traces_{}", std::process::id()));
/// let steps = schedule(ScheduleOptions { wait: 0, warmup: 0, active: 1, repeat: 1, skip_first: 0 })?;
/// let handler = tensorboard_trace_handler(&folder, Some("me"))?;
/// profile(ProfileOptions::new().schedule(steps).on_trace_ready(handler), |p| {
///     let _ = torch::ones([2]).exp();
///     p.step();
/// });
/// assert_eq!(std::fs::read_dir(&folder)?.count(), 1);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The folder cannot be made.
#[doc(alias = "torch.profiler.tensorboard_trace_handler")]
pub fn tensorboard_trace_handler(
    folder: impl AsRef<Path>,
    worker_name: Option<&str>,
) -> Result<impl FnMut(&Profile) + 'static> {
    let folder: PathBuf = folder.as_ref().into();
    std::fs::create_dir_all(&folder).map_err(|e| flambeau_core::Error::from(e).at_path(&folder))?;
    let worker = worker_name.map_or_else(|| format!("host_{}", std::process::id()), str::to_string);
    Ok(move |p: &Profile| {
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let path = folder.join(format!("{worker}.{now}.pt.trace.json"));
        if let Err(e) = p.export_chrome_trace(&path) {
            eprintln!("{}: {}", path.display(), e.message());
        }
    })
}

/// Shows each operator call of this thread to the subscriber of [`tracing`] as a span `operator` with its name, until the guard is
/// dropped: one line for a service that has a subscriber already.
///
/// ```
/// let _spans = torch::profiler::spans();
/// let _ = torch::ones([2]).exp();
/// ```
pub fn spans() -> flambeau_core::dispatch::overrides::ModeGuard {
    push_function_mode(|c: &OperatorCall<'_>| {
        let span = tracing::trace_span!(target: "flambeau", "operator", name = c.name());
        let _in = span.enter();
        c.call_on()
    })
}

/// Runs a closure whose operators are ranges for Intel's VTune, where `enabled`.
///
/// ```
/// use torch::profiler::emit_itt;
/// assert_eq!(emit_itt(false, || 1)?, 1);
/// assert!(emit_itt(true, || 1).is_err());
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// VTune's library is not here, unless it is not `enabled`.
#[doc(alias = "torch.autograd.profiler.emit_itt")]
pub fn emit_itt<R>(enabled: bool, f: impl FnOnce() -> R) -> Result<R> {
    if enabled {
        itt::try_range_push("")?;
    }
    Ok(f())
}
/// Runs a closure whose operators are ranges for NVIDIA's Nsight, where `enabled`.
///
/// ```
/// use torch::profiler::emit_nvtx;
/// assert_eq!(emit_nvtx(false, || 1)?, 1);
/// assert!(emit_nvtx(true, || 1).is_err());
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// NVIDIA's library is not here, unless it is not `enabled`.
#[doc(alias = "torch.autograd.profiler.emit_nvtx")]
pub fn emit_nvtx<R>(enabled: bool, f: impl FnOnce() -> R) -> Result<R> {
    ensure!(!enabled, Runtime, "NVTX functions not installed. Are you sure you have a CUDA build?");
    Ok(f())
}

/// Ranges for Intel's VTune (`torch.profiler.itt`): its library is not here.
pub mod itt {
    use flambeau_core::{Error, Result};

    fn absent<T>() -> Result<T> {
        Err(Error::runtime("ITT functions not installed. Are you sure you have a ITT build?"))
    }
    /// Whether VTune's library is there: no.
    ///
    /// ```
    /// use torch::profiler::itt;
    /// assert!(!itt::is_available());
    /// assert!(itt::try_mark("here").is_err() && itt::try_range_push("step").is_err() && itt::try_range_pop().is_err());
    /// ```
    pub fn is_available() -> bool {
        false
    }
    /// Marks a moment.
    ///
    /// # Errors
    /// Always.
    pub fn try_mark(_text: &str) -> Result<()> {
        absent()
    }
    /// Begins a range.
    ///
    /// # Errors
    /// Always.
    pub fn try_range_push(_text: &str) -> Result<()> {
        absent()
    }
    /// Ends the innermost range.
    ///
    /// # Errors
    /// Always.
    pub fn try_range_pop() -> Result<()> {
        absent()
    }
}

#[cfg(feature = "by-name")]
pub(crate) const NAMES: &[(&str, flambeau_library::NativeFn)] = &[
    ("torch.profiler.schedule", by_name::schedule),
    ("torch.profiler.itt.is_available", |_, _| Ok(vec![itt::is_available().into()])),
    ("torch.profiler.itt.mark", |_, _| itt::try_mark("").map(|()| vec![])),
    ("torch.profiler.itt.range_push", |_, _| itt::try_range_push("").map(|()| vec![])),
    ("torch.profiler.itt.range_pop", |_, _| itt::try_range_pop().map(|()| vec![])),
];
