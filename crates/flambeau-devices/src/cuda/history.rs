//! The history of the allocator, and pictures of its memory in the form that PyTorch's viewer opens
//! (<https://pytorch.org/memory_viz>).

use super::runtime::{Entry, Noting, Segment, answer, of_runtime};
#[cfg(feature = "by-name")]
use flambeau_core::ensure;
use flambeau_core::{Error, Result, Value};
use flambeau_serialization::pickle::{self, Graph, Id};
use std::backtrace::Backtrace;
use std::path::Path;

/// What [`record_memory_history`] notes.
#[derive(Clone, Debug)]
pub struct HistoryOptions {
    how: Noting,
}
impl Default for HistoryOptions {
    fn default() -> HistoryOptions {
        let (blocks, events, context, most) = (true, true, "all", usize::MAX);
        HistoryOptions { how: Noting { blocks, events, context, most, skip: Vec::new(), clear: false } }
    }
}
impl HistoryOptions {
    /// The documented defaults: blocks and all events, with their callers.
    pub fn new() -> HistoryOptions {
        HistoryOptions::default()
    }
    /// `all`: blocks and events; `state`: blocks alone; nothing: ends it.
    ///
    /// # Errors
    /// Another word.
    pub fn enabled(mut self, enabled: Option<&str>) -> Result<HistoryOptions> {
        (self.how.blocks, self.how.events) = match enabled {
            None => (false, false),
            Some("state") => (true, false),
            Some("all") => (true, true),
            Some(_) => return Err(Error::runtime("expected enabled to be 'state' or 'all'")),
        };
        Ok(self)
    }
    /// Whose callers are noted: of `all` events, of allocations (`alloc`), of those whose blocks are alive (`state`), or nobody's.
    ///
    /// # Errors
    /// Another word.
    pub fn context(mut self, context: Option<&str>) -> Result<HistoryOptions> {
        self.how.context = match context {
            None => "",
            Some("all") => "all",
            Some("alloc") => "alloc",
            Some("state") => "state",
            Some(_) => return Err(Error::runtime("expected context to be 'state', 'alloc', or 'all'")),
        };
        Ok(self)
    }
    /// The most events that are kept: the last ones.
    pub fn max_entries(mut self, n: usize) -> HistoryOptions {
        self.how.most = n;
        self
    }
    /// Whether what was noted so far is forgotten.
    pub fn clear_history(mut self, on: bool) -> HistoryOptions {
        self.how.clear = on;
        self
    }
    /// Events that are left out, by their names.
    pub fn skip_actions(mut self, actions: &[&str]) -> HistoryOptions {
        self.how.skip = actions.iter().map(|a| (*a).to_string()).collect();
        self
    }
}
/// Notes from here on what the allocators of all devices do.
///
/// # Errors
/// There is no device.
#[doc(alias = "torch.cuda.memory._record_memory_history")]
pub fn record_memory_history(options: &HistoryOptions) -> Result<()> {
    of_runtime(|r| (0..r.device_count()).try_for_each(|d| r.record_history(d, options.how.clone())))
}

fn dict(of: Vec<(&str, Value)>) -> Value {
    Value::Dict(of.into_iter().map(|(k, v)| (k.to_string(), v)).collect())
}
fn pair(p: (u64, u64)) -> Value {
    Value::Tuple(vec![Value::Int(p.0 as i64), Value::Int(p.1 as i64)])
}
/// The callers of an event: name, file and line of each.
fn frames(of: Option<&Backtrace>) -> Value {
    let Some(trace) = of else { return Value::List(Vec::new()) };
    let text = trace.to_string();
    let frame = |file: &str, line: i64, name: &str| {
        dict(vec![("filename", file.into()), ("line", Value::Int(line)), ("name", name.into())])
    };
    let mut out = Vec::new();
    let mut waiting: Option<&str> = None;
    for line in text.lines().map(str::trim) {
        match line.strip_prefix("at ") {
            Some(place) => {
                let mut parts = place.rsplitn(3, ':');
                let (_, line, file) = (parts.next(), parts.next(), parts.next());
                let line = line.and_then(|l| l.parse().ok()).unwrap_or(0);
                out.push(frame(file.unwrap_or(place), line, waiting.take().unwrap_or_default()));
            }
            None => {
                // code without line numbers has a name alone
                out.extend(waiting.take().map(|name| frame("", 0, name)));
                waiting = Some(line.split_once(": ").map_or(line, |(_, n)| n));
            }
        }
    }
    out.extend(waiting.map(|name| frame("", 0, name)));
    Value::List(out)
}
/// A segment as PyTorch's viewer reads it.
pub(crate) fn segment(s: &Segment) -> Value {
    let used = |f: fn(&super::runtime::Block) -> i64| {
        Value::Int(s.blocks.iter().filter(|b| b.used).map(f).sum::<i64>())
    };
    let blocks = s.blocks.iter().map(|b| {
        dict(vec![
            ("address", Value::Int(b.address)),
            ("size", Value::Int(b.size)),
            ("requested_size", Value::Int(b.asked)),
            ("state", if b.used { "active_allocated" } else { "inactive" }.into()),
            ("frames", frames(b.frames.as_deref())),
        ])
    });
    dict(vec![
        ("device", Value::Int(s.device)),
        ("address", Value::Int(s.address)),
        ("total_size", Value::Int(s.total_size)),
        ("allocated_size", used(|b| b.size)),
        ("active_size", used(|b| b.size)),
        ("requested_size", used(|b| b.asked)),
        ("stream", Value::Int(s.stream)),
        ("segment_type", if s.small { "small" } else { "large" }.into()),
        ("segment_pool_id", pair(s.pool)),
        ("is_expandable", Value::Bool(s.expandable)),
        ("frames", Value::List(Vec::new())),
        ("blocks", Value::List(blocks.collect())),
    ])
}
fn entry(e: &Entry) -> Value {
    let place = if e.action == "oom" { "device_free" } else { "addr" };
    dict(vec![
        ("action", e.action.into()),
        (place, Value::Int(e.address)),
        ("size", Value::Int(e.size)),
        ("stream", Value::Int(e.stream)),
        ("time_us", Value::Int(e.time_us)),
        ("pool_id", pair(e.pool)),
        ("frames", frames(e.frames.as_deref())),
    ])
}
/// The memory of all devices, and what was noted of it.
pub(crate) fn state() -> Value {
    let all = answer(|r| {
        let devices = 0..r.device_count();
        let segments: Vec<Value> = devices.clone().flat_map(|d| r.segments(d)).map(|s| segment(&s)).collect();
        let traces = devices.map(|d| Value::List(r.history(d).iter().map(entry).collect()));
        (segments, traces.collect())
    });
    let (segments, traces) = all.unwrap_or_default();
    dict(vec![
        ("segments", Value::List(segments)),
        ("device_traces", Value::List(traces)),
        ("allocator_settings", answer(|r| r.allocator_settings()).unwrap_or_else(|| dict(Vec::new()))),
        ("external_annotations", Value::List(Vec::new())),
        ("host_segments", Value::List(Vec::new())),
        ("host_traces", Value::List(Vec::new())),
    ])
}
fn told(e: flambeau_serialization::Error) -> Error {
    Error::runtime(e.to_string())
}
fn pickled(v: &Value, g: &mut Graph) -> Result<Id> {
    let own = match v {
        Value::None => pickle::Value::None,
        Value::Bool(b) => pickle::Value::Bool(*b),
        Value::Int(i) => pickle::Value::Int(*i),
        Value::Float(f) => pickle::Value::Float(*f),
        Value::Str(s) => return g.intern(s).map_err(told),
        Value::List(l) => pickle::Value::List(l.iter().map(|v| pickled(v, g)).collect::<Result<_>>()?),
        Value::Tuple(l) => pickle::Value::Tuple(l.iter().map(|v| pickled(v, g)).collect::<Result<_>>()?),
        Value::Dict(d) => pickle::Value::Dict(
            d.iter().map(|(k, v)| Ok((g.intern(k).map_err(told)?, pickled(v, g)?))).collect::<Result<_>>()?,
        ),
        v => return Err(Error::type_(format!("a snapshot holds no {}", v.type_name()))),
    };
    g.add(own).map_err(told)
}
/// Writes a picture of the memory of all devices, with what was noted of it, for PyTorch's viewer.
///
/// # Errors
/// There is no device; of the disk.
#[doc(alias = "torch.cuda.memory._dump_snapshot")]
pub fn dump_snapshot(path: &Path) -> Result<()> {
    of_runtime(|_| Ok(()))?;
    let mut g = Graph::new();
    let root = pickled(&state(), &mut g)?;
    let bytes = pickle::dump(&g, root).map_err(told)?;
    std::fs::write(path, bytes).map_err(|e| Error::runtime(format!("{}: {e}", path.display())))
}
/// Puts other settings of the allocator in force, as `PYTORCH_ALLOC_CONF` gives them. What is there already stays as it is.
///
/// # Errors
/// There is no device; settings that are none, with PyTorch's texts.
#[doc(alias = "torch.cuda.memory._set_allocator_settings")]
pub fn set_allocator_settings(settings: &str) -> Result<()> {
    of_runtime(|r| r.set_allocator_settings(settings))
}

#[cfg(feature = "by-name")]
pub(crate) const ROWS: &[crate::by_name::Row] = &[
    ("torch.cuda.memory", "_snapshot", |a, k| {
        let mut b = crate::by_name::Bound::new("_snapshot", &["device", "augment_with_fx_traces"], a, k)?;
        b.optional::<crate::Ordinal>()?;
        ensure!(b.optional::<bool>()? != Some(true), Missing, "snapshots with traces of fx");
        Ok(vec![state()])
    }),
    ("torch.cuda.memory", "_record_memory_history", by_name::record),
    ("torch.cuda.memory", "_dump_snapshot", |a, k| {
        let names: &[&str] = &["filename", "augment_with_fx_traces"];
        let mut b = crate::by_name::Bound::new("_dump_snapshot", names, a, k)?;
        let path = b.optional::<String>()?.unwrap_or_else(|| "dump_snapshot.pickle".into());
        ensure!(b.optional::<bool>()? != Some(true), Missing, "snapshots with traces of fx");
        dump_snapshot(Path::new(&path))?;
        Ok(vec![Value::None])
    }),
    ("torch.cuda.memory", "_set_allocator_settings", |a, k| {
        let text: String =
            crate::by_name::Bound::new("_set_allocator_settings", &["env"], a, k)?.required()?;
        set_allocator_settings(&text)?;
        Ok(vec![Value::None])
    }),
];
#[cfg(feature = "by-name")]
mod by_name {
    use super::{HistoryOptions, record_memory_history};
    use crate::by_name::Bound;
    use flambeau_core::dispatch::object::Kwargs;
    use flambeau_core::{Error, Result, Value, ensure};

    fn word(v: Option<crate::Anything>) -> Result<Option<Option<String>>> {
        match v.map(|v| v.0) {
            None => Ok(None),
            Some(Value::None) => Ok(Some(None)),
            Some(Value::Str(ref s)) => Ok(Some(Some(s.clone()))),
            Some(v) => Err(Error::missing(format!(
                "_record_memory_history with a {}: its newer form takes words",
                v.type_name()
            ))),
        }
    }
    pub(super) fn record(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
        const NAMES: &[&str] = &[
            "enabled",
            "context",
            "stacks",
            "max_entries",
            "device",
            "clear_history",
            "compile_context",
            "global_record_annotations",
            "skip_actions",
            "record_pinned_host_memory",
            "record_cuda",
        ];
        super::of_runtime(|_| Ok(()))?;
        // a call with nothing notes everything, and None ends it
        let given = |name: &str, place: usize| {
            a.get(place).or_else(|| k.iter().find(|(n, _)| n == name).map(|(_, v)| v)).cloned()
        };
        let said = |name, place| word(given(name, place).map(crate::Anything));
        let mut b = Bound::new("_record_memory_history", NAMES, a, k)?;
        for _ in 0..2 {
            b.optional::<crate::Anything>()?;
        }
        let enabled = said("enabled", 0)?.unwrap_or_else(|| Some("all".into()));
        let context = said("context", 1)?.unwrap_or_else(|| Some("all".into()));
        let stacks = b.optional::<String>()?;
        let most = b.optional::<i64>()?;
        b.optional::<crate::Ordinal>()?;
        let clear = b.optional::<bool>()?.unwrap_or(false);
        for name in ["compile_context", "global_record_annotations"] {
            ensure!(b.optional::<bool>()? != Some(true), Missing, "_record_memory_history with {name}");
        }
        let skip = b.optional::<crate::Anything>()?;
        let skip: Vec<String> = match skip.as_ref().map(|v| &v.0) {
            Some(Value::List(l) | Value::Tuple(l)) => {
                l.iter().filter_map(|v| if let Value::Str(s) = v { Some(s.clone()) } else { None }).collect()
            }
            _ => Vec::new(),
        };
        ensure!(b.optional::<bool>()? != Some(true), Missing, "the history of pinned memory");
        let cuda = b.optional::<bool>()?.unwrap_or(true);
        // stacks of Python's functions alone: there are none
        let context = if stacks.as_deref() == Some("python") { None } else { context };
        let options = HistoryOptions::new()
            .enabled(enabled.as_deref().filter(|_| cuda))?
            .context(context.as_deref())?
            .max_entries(most.map_or(usize::MAX, |n| n.max(0) as usize))
            .clear_history(clear)
            .skip_actions(&skip.iter().map(String::as_str).collect::<Vec<_>>());
        record_memory_history(&options)?;
        Ok(vec![Value::None])
    }
}
