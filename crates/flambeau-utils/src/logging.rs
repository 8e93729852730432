//! What the library says of its work (`torch._logging`), over [`tracing`]: which parts speak, and how much.
//!
//! Nothing speaks unless [`set_logs`] or the environment variable `TORCH_LOGS` asks for it. A program without a subscriber of its own
//! gets one that writes to standard error, in PyTorch's format; one that has a subscriber sees the events there.
//!
//! `TORCH_LOGS` is a list of names, `autograd,+c10d`: with `+` details are said too, with `-` errors alone. `TORCH_CPP_LOG_LEVEL`
//! (`INFO`, `WARNING`, `ERROR`, `FATAL`, or 0 to 3) is for what the crates below say under their own names. Programs with names
//! (feature `by-name`) read both at their start, others by [`init`].
//!
//! ```
//! use torch::_logging::{LogLevel, set_logs};
//! use torch::prelude::*;
//! set_logs(&[("autograd", LogLevel::Debug)]);
//! // standard error: V1125 22:24:53.497536 4711 autograd:0] Executing: SumBackward0 with grad_outputs: [f32[]]
//! torch::ones([2]).requires_grad_(true).sum().backward();
//! set_logs(&[]);
//! ```

use flambeau_autograd::engine;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::types::order::RwLock;
use flambeau_core::{DType, Error, Result, Tensor, ensure};
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Once, PoisonError};
use std::time::SystemTime;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span;
use tracing::{Event, Level, Metadata, Subscriber};

/// How grave a message is, by the numbers of Python's `logging`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LogLevel {
    /// Details, for those who look for a mistake.
    Debug = 10,
    /// What goes as it should.
    Info = 20,
    /// What may be unwanted.
    Warning = 30,
    /// What failed.
    Error = 40,
    /// What ends the program.
    Critical = 50,
}
impl LogLevel {
    /// The level with Python's number.
    pub fn from_number(n: i64) -> Option<LogLevel> {
        use LogLevel::*;
        [Debug, Info, Warning, Error, Critical].into_iter().find(|l| *l as i64 == n)
    }
    fn filter(self) -> LevelFilter {
        match self {
            LogLevel::Debug => LevelFilter::DEBUG,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Warning => LevelFilter::WARN,
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Critical => LevelFilter::OFF,
        }
    }
}

/// PyTorch's names of parts, and whose messages they are.
const LOGS: &[(&str, &[&str])] = &[
    ("torch", &["torch", "flambeau"]),
    ("autograd", &["torch.autograd", "flambeau_autograd"]),
    ("distributed", &["torch.distributed", "flambeau_distributed"]),
    ("c10d", &["flambeau_distributed"]),
    ("ddp", &["flambeau_distributed::ddp", "flambeau_distributed::parallel"]),
    ("fsdp", &["flambeau_distributed::fsdp"]),
    ("dtensor", &["flambeau_distributed::tensor", "flambeau_distributed::dtensor"]),
    ("pp", &["flambeau_distributed::pipelining"]),
    ("onnx", &["torch.onnx", "flambeau_onnx"]),
    ("export", &["torch.export", "flambeau_export"]),
    ("dynamic", &["torch.fx", "flambeau_fx"]),
];
/// Names of PyTorch's compilers and of what they print of their programs: there are none whose work could be shown.
const COMPILERS: &[&str] = &[
    "async_compile",
    "cache",
    "dynamo",
    "fake_tensor",
    "aot",
    "inductor",
    "flex_gemm",
    "native_dsl",
    "bytecode",
    "aot_graphs",
    "aot_joint_graph",
    "ddp_graphs",
    "graph",
    "graph_code",
    "graph_code_verbose",
    "graph_breaks",
    "side_effects",
    "graph_sizes",
    "guards",
    "recompiles",
    "recompiles_verbose",
    "trace_source",
    "trace_call",
    "trace_bytecode",
    "output_code",
    "kernel_code",
    "schedule",
    "perf_hints",
    "pre_grad_graphs",
    "post_grad_graphs",
    "ir_pre_fusion",
    "ir_post_fusion",
    "onnx_diagnostics",
    "fusion",
    "overlap",
    "cudagraphs",
    "sym_node",
    "compiled_autograd",
    "compiled_autograd_verbose",
    "cudagraph_static_inputs",
    "benchmarking",
    "autotuning",
    "autotuning_inputs",
    "incremental",
    "graph_region_expansion",
    "inductor_metrics",
    "hierarchical_compile",
    "compute_dependencies",
    "caching",
    "partitioned_scatter",
    "verbose_guards",
];

/// Beginnings of the names of messages, and what may be said of them; the longest that fits decides.
#[derive(Default)]
struct Levels(Vec<(String, LevelFilter)>);
impl Levels {
    fn add(&mut self, name: &str, level: LogLevel) -> Result<()> {
        let own = [name];
        let found = LOGS.iter().find(|l| l.0 == name).map(|l| l.1);
        ensure!(
            !COMPILERS.contains(&name),
            Missing,
            "the log {name} shows the work of PyTorch's compilers, which is done elsewhere here"
        );
        let targets = match found {
            Some(targets) => targets,
            None if name.contains("::") || name.starts_with("flambeau") || name.starts_with("torch.") => &own,
            None => {
                return Err(Error::value(format!(
                    "Unrecognized log or artifact name passed to set_logs: {name}"
                )));
            }
        };
        self.0.extend(targets.iter().map(|t| ((*t).to_string(), level.filter())));
        Ok(())
    }
    fn allows(&self, target: &str, level: Level) -> bool {
        let fits = self.0.iter().filter(|(t, _)| target.starts_with(t.as_str()));
        fits.max_by_key(|(t, _)| t.len()).is_some_and(|(_, most)| level <= *most)
    }
    /// Of a list as `TORCH_LOGS` has it.
    fn parse(text: &str) -> Result<Levels> {
        let invalid = || {
            let mut names: Vec<&str> = std::iter::once("all").chain(LOGS.iter().map(|l| l.0)).collect();
            names.sort_unstable();
            Error::value(format!(
                "\nInvalid log settings: {text}, must be a comma separated list of fully\nqualified module names, registered log \
                 names or registered artifact names.\nValid settings:\n{}\n",
                names.join(", ")
            ))
        };
        let mut all = Levels::default();
        for word in text.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            let (level, name) = match word.split_at_checked(1) {
                Some(("+", name)) => (LogLevel::Debug, name),
                Some(("-", name)) => (LogLevel::Error, name),
                _ => (LogLevel::Info, word),
            };
            let known = all.add(if name == "all" { "torch" } else { name }, level);
            known.map_err(|e| if e.kind() == flambeau_core::ErrorKind::Value { invalid() } else { e })?;
        }
        Ok(all)
    }
}

static ASKED: RwLock<Levels> = RwLock::new(Levels(Vec::new()));

/// The levels that the environment asks for.
fn environment() -> Result<Option<Levels>> {
    let Ok(text) = std::env::var("TORCH_LOGS") else { return Ok(None) };
    Levels::parse(&text).map(Some)
}
/// The level of what the crates below say, if the environment has one.
fn below() -> Option<LevelFilter> {
    let level = std::env::var("TORCH_CPP_LOG_LEVEL").ok()?;
    Some(match level.to_ascii_uppercase().as_str() {
        "INFO" | "0" => LevelFilter::INFO,
        "WARNING" | "WARN" | "1" => LevelFilter::WARN,
        "ERROR" | "2" => LevelFilter::ERROR,
        _ => LevelFilter::OFF,
    })
}
fn put(mut levels: Levels) {
    levels.0.extend(below().map(|l| ("flambeau".to_string(), l)));
    let speaks = !levels.0.is_empty();
    let nodes = levels.allows(AUTOGRAD, Level::DEBUG);
    *ASKED.write().unwrap_or_else(PoisonError::into_inner) = levels;
    if speaks {
        // a program that has a subscriber already keeps it
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let _ = tracing::subscriber::set_global_default(Writer);
        });
    }
    tracing::callsite::rebuild_interest_cache();
    engine::watch(node, nodes);
}

/// Reads `TORCH_LOGS` and `TORCH_CPP_LOG_LEVEL`. Programs with names need not call it.
///
/// ```
/// // nothing in the environment: nothing is said
/// torch::_logging::init()?;
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Names in `TORCH_LOGS` that are none.
#[doc(alias = "TORCH_LOGS")]
#[doc(alias = "TORCH_CPP_LOG_LEVEL")]
pub fn init() -> Result<()> {
    let asked = environment()?;
    if asked.is_some() || below().is_some() {
        put(asked.unwrap_or_default());
    }
    Ok(())
}
/// Which parts say how much; what is not named is silent. Names are PyTorch's (`autograd`, `distributed`, `all`) or the beginnings of
/// the targets of [`tracing`]'s events. Where `TORCH_LOGS` is set, that holds and this does nothing.
///
/// # Panics
/// Where [`try_set_logs`] gives an error.
#[doc(alias = "torch._logging.set_logs")]
#[track_caller]
pub fn set_logs(logs: &[(&str, LogLevel)]) {
    expect(try_set_logs(logs));
}
/// [`set_logs`] with an error instead of a panic.
///
/// # Errors
/// A name that is none; the logs of PyTorch's compilers.
pub fn try_set_logs(logs: &[(&str, LogLevel)]) -> Result<()> {
    let mut levels = Levels::default();
    for (name, level) in logs {
        levels.add(if *name == "all" { "torch" } else { name }, *level)?;
    }
    if std::env::var_os("TORCH_LOGS").is_none() {
        put(levels);
    }
    Ok(())
}

const AUTOGRAD: &str = "torch.autograd";
/// Short names of dtypes, as PyTorch's messages have them.
fn short(d: DType) -> String {
    let name = d.name();
    let digits = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let letter = match &name[..digits] {
        "bfloat" => "bf",
        "bool" => "b8",
        word => &word[..1],
    };
    format!("{letter}{}", &name[digits..])
}
/// Says which node of a backward pass is about to run.
fn node(name: &str, grads: &[Option<Tensor>]) {
    let one = |g: &Option<Tensor>| match g {
        None => "None".to_string(),
        Some(t) => {
            let sizes: Vec<String> = t.sizes().iter().map(i64::to_string).collect();
            format!("{}[{}]", short(t.dtype()), sizes.join(", "))
        }
    };
    let grads: Vec<String> = grads.iter().map(one).collect();
    tracing::debug!(target: AUTOGRAD, "Executing: {name} with grad_outputs: [{}]", grads.join(","));
}

/// Writes messages to standard error.
struct Writer;
impl Subscriber for Writer {
    fn enabled(&self, m: &Metadata<'_>) -> bool {
        let asked = ASKED.read().unwrap_or_else(PoisonError::into_inner);
        m.is_event() && asked.allows(m.target(), *m.level())
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, e: &Event<'_>) {
        let mut text = Text::default();
        e.record(&mut text);
        let _ = std::io::stderr().lock().write_all(line(e.metadata(), &text.0, SystemTime::now()).as_bytes());
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
/// The message of an event, and its other fields behind it.
#[derive(Default)]
struct Text(String);
impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
/// As PyTorch's formatter has it, each line with its prefix: `I1125 22:24:53.497536 4711 autograd:12] text`.
fn line(m: &Metadata<'_>, text: &str, now: SystemTime) -> String {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (month, day) = month_and_day(since.as_secs() / 86400);
    let s = since.as_secs() % 86400;
    let letter = match *m.level() {
        Level::ERROR => 'E',
        Level::WARN => 'W',
        Level::INFO => 'I',
        _ => 'V',
    };
    let prefix = format!(
        "{letter}{month:02}{day:02} {:02}:{:02}:{:02}.{:06} {} {}:{}]",
        s / 3600,
        s / 60 % 60,
        s % 60,
        since.subsec_micros(),
        std::process::id(),
        m.target().trim_start_matches("torch."),
        if m.target().starts_with("torch.") { 0 } else { m.line().unwrap_or(0) },
    );
    text.lines().fold(String::new(), |all, l| format!("{all}{prefix} {l}\n"))
}
/// The month and the day of a day since 1970, in the Gregorian calendar.
fn month_and_day(days: u64) -> (u64, u64) {
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let (mut year, mut left) = (1970, days);
    while left >= 365 + u64::from(leap(year)) {
        left -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    for (month, n) in (1..).zip(lengths) {
        if left < n {
            return (month, left + 1);
        }
        left -= n;
    }
    (12, 31)
}

#[cfg(feature = "by-name")]
pub(crate) mod by_name {
    use super::*;
    use flambeau_core::dispatch::object::Kwargs;
    use flambeau_core::dispatch::value::{FromValue, Value};

    pub(crate) const NAMES: &[(&str, flambeau_library::NativeFn)] = &[("torch._logging.set_logs", set)];

    fn set(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        ensure!(
            args.is_empty(),
            Type,
            "set_logs() takes 0 positional arguments but {} {} given",
            args.len(),
            if args.len() == 1 { "was" } else { "were" }
        );
        let mut all: Vec<(&str, LogLevel)> = Vec::new();
        let level = |name: &str, v: &Value| -> Result<Option<LogLevel>> {
            Ok(match v {
                Value::None | Value::Bool(false) => None,
                // what the compilers print is asked for by a truth value, and refused by name
                Value::Bool(true) => Some(LogLevel::Debug),
                v => Some(i64::from_value(v).ok().and_then(LogLevel::from_number).ok_or_else(|| {
                    Error::value(format!(
                        "Unrecognized log level for log {name}: {}, valid level values are: 50,40,30,20,10,0",
                        match v {
                            Value::Int(i) => i.to_string(),
                            Value::Str(text) => text.clone(),
                            other => other.type_name().to_string(),
                        }
                    ))
                })?),
            })
        };
        for (name, v) in kwargs.iter() {
            let entries = match v {
                Value::Dict(d) if name == "modules" => d.iter().map(|(n, v)| (n.as_str(), v)).collect(),
                v => vec![(name.as_str(), v)],
            };
            for (name, v) in entries {
                if name != "modules" {
                    all.extend(level(name, v)?.map(|l| (name, l)));
                }
            }
        }
        try_set_logs(&all).map(|()| vec![])
    }
}
