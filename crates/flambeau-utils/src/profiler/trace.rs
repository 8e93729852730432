//! Files of what was recorded.

use super::recorder::Event;
use flambeau_core::{Error, Result};
use flambeau_devices::cuda::activity::{Activity, What};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|e| Error::from(e).at_path(path))
}
/// The format of Chrome's tracing, which Perfetto reads too.
pub(super) fn chrome(
    events: &[Event],
    devices: &[Activity],
    metadata: &[(String, String)],
    path: &Path,
) -> Result<()> {
    let pid = std::process::id();
    let mut all = vec![serde_json::json!({
        "ph": "M", "name": "process_name", "ts": 0.0, "pid": pid, "tid": 0, "args": {"name": "flambeau"}
    })];
    all.extend(events.iter().enumerate().filter(|(_, e)| e.device.is_none()).map(|(i, e)| {
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
    all.extend(devices.iter().flat_map(|a| on_device(a, pid)));
    let mut used: Vec<i64> = devices.iter().filter(|a| !a.is_call()).map(|a| a.device).collect();
    used.sort_unstable();
    used.dedup();
    for d in &used {
        all.push(serde_json::json!({
            "ph": "M", "name": "process_name", "ts": 0.0, "pid": d, "tid": 0, "args": {"name": "flambeau"}
        }));
        all.push(serde_json::json!({
            "ph": "M", "name": "process_labels", "ts": 0.0, "pid": d, "tid": 0, "args": {"labels": format!("GPU {d}")}
        }));
    }
    let mut root = serde_json::Map::new();
    root.insert("schemaVersion".into(), 1.into());
    // PyTorch's reader of profiles wants to know of the devices
    root.insert("deviceProperties".into(), used.iter().filter_map(|d| properties(*d)).collect());
    root.insert("displayTimeUnit".into(), "ms".into());
    root.insert("traceName".into(), path.display().to_string().into());
    for (k, v) in metadata {
        root.insert(k.clone(), serde_json::from_str(v).unwrap_or_else(|_| v.clone().into()));
    }
    root.insert("traceEvents".into(), all.into());
    write(path, &serde_json::Value::Object(root).to_string())
}
/// A call of the driver, or what it queued, and its end of the arrow between them.
fn on_device(a: &Activity, pid: u32) -> Vec<Json> {
    let us = |ns: u64| ns as f64 / 1e3;
    let duration = us(a.end.saturating_sub(a.start));
    let mut args = serde_json::Map::new();
    if let Some(o) = a.operator {
        args.insert("External id".into(), (o + 1).into());
    }
    args.insert("correlation".into(), a.correlation.into());
    let is_call = a.is_call();
    if !is_call {
        args.insert("device".into(), a.device.into());
        args.insert("stream".into(), a.stream.into());
    }
    let cat = match a.what {
        What::Kernel { grid, block, registers, shared } => {
            if registers > 0 {
                args.insert("registers per thread".into(), registers.into());
            }
            args.insert("shared memory".into(), shared.into());
            args.insert("grid".into(), grid.to_vec().into());
            args.insert("block".into(), block.to_vec().into());
            "kernel"
        }
        What::Copy(bytes) | What::Fill(bytes) => {
            args.insert("bytes".into(), bytes.into());
            if duration > 0.0 {
                args.insert("memory bandwidth (GB/s)".into(), (bytes as f64 / duration / 1e3).into());
            }
            if matches!(a.what, What::Copy(_)) { "gpu_memcpy" } else { "gpu_memset" }
        }
        What::Call if a.name.starts_with("cuda") => "cuda_runtime",
        What::Call => "cuda_driver",
    };
    // what an operator calls stands on its thread's line
    let place = |operator: bool| if operator { 1 } else { a.thread };
    let (pid, tid) = if is_call {
        (i64::from(pid), place(a.operator.is_some() || a.thread == 0))
    } else {
        (a.device, a.stream)
    };
    let own = serde_json::json!({
        "ph": "X", "cat": cat, "name": a.name, "pid": pid, "tid": tid, "ts": us(a.start), "dur": duration, "args": args,
    });
    let mut arrow = serde_json::json!({
        "ph": if is_call { "s" } else { "f" }, "id": a.correlation, "pid": pid, "tid": tid, "ts": us(a.start),
        "cat": "ac2g", "name": "ac2g",
    });
    if !is_call && let Some(o) = arrow.as_object_mut() {
        o.insert("bp".into(), "e".into());
    }
    vec![own, arrow]
}
/// A device, as the files of PyTorch have it.
fn properties(device: i64) -> Option<Json> {
    let p = flambeau_devices::cuda::activity::properties(device)?;
    Some(serde_json::json!({
        "id": device, "name": p.name, "totalGlobalMem": p.total_memory, "computeMajor": p.major, "computeMinor": p.minor,
        "maxThreadsPerMultiprocessor": p.max_threads_per_multi_processor, "warpSize": p.warp_size,
        "numSms": p.multi_processor_count,
    }))
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
