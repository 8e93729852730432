//! Files of what was recorded.

use super::recorder::Event;
use flambeau_core::{Error, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|e| Error::from(e).at_path(path))
}
/// The format of Chrome's tracing, which Perfetto reads too.
pub(super) fn chrome(events: &[Event], metadata: &[(String, String)], path: &Path) -> Result<()> {
    let pid = std::process::id();
    let mut all = vec![serde_json::json!({
        "ph": "M", "name": "process_name", "ts": 0.0, "pid": pid, "tid": 0, "args": {"name": "flambeau"}
    })];
    all.extend(events.iter().enumerate().map(|(i, e)| {
        let mut args = serde_json::Map::new();
        args.insert("External id".into(), (i + 1).into());
        if !e.input_shapes.is_empty() {
            args.insert("Input Dims".into(), e.input_shapes.clone().into());
        }
        if e.flops > 0 {
            args.insert("FLOPs".into(), e.flops.into());
        }
        if e.cpu_memory_usage != 0 {
            args.insert("Bytes".into(), e.cpu_memory_usage.into());
        }
        if !e.module_hierarchy.is_empty() {
            args.insert("Module Hierarchy".into(), e.module_hierarchy.clone().into());
        }
        if !e.stack.is_empty() {
            args.insert("Call stack".into(), e.stack.join(";").into());
        }
        serde_json::json!({
            "ph": "X", "cat": if e.is_user_annotation { "user_annotation" } else { "cpu_op" }, "name": e.name,
            "pid": pid, "tid": 1, "ts": e.start as f64 / 1e3, "dur": (e.end - e.start) as f64 / 1e3, "args": args,
        })
    }));
    let mut root = serde_json::Map::new();
    root.insert("schemaVersion".into(), 1.into());
    // PyTorch's reader of profiles wants to know of the devices
    root.insert("deviceProperties".into(), serde_json::Value::Array(Vec::new()));
    root.insert("displayTimeUnit".into(), "ms".into());
    root.insert("traceName".into(), path.display().to_string().into());
    for (k, v) in metadata {
        root.insert(k.clone(), serde_json::from_str(v).unwrap_or_else(|_| v.clone().into()));
    }
    root.insert("traceEvents".into(), all.into());
    write(path, &serde_json::Value::Object(root).to_string())
}
/// `outer;inner MICROSECONDS`, a line for each stack.
pub(super) fn stacks(events: &[Event], path: &Path) -> Result<()> {
    let mut all: BTreeMap<String, f64> = BTreeMap::new();
    for e in events.iter().filter(|e| !e.stack.is_empty()) {
        let mut frames: Vec<String> = e.stack.iter().rev().map(|f| f.replace([';', ' '], "_")).collect();
        frames.push(e.name.replace(' ', "_"));
        *all.entry(frames.join(";")).or_default() += e.self_cpu_time();
    }
    let mut text = String::new();
    for (stack, us) in all {
        if us as u64 > 0 {
            let _ = writeln!(text, "{stack} {}", us as u64);
        }
    }
    write(path, &text)
}
