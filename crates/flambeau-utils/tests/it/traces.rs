//! Chrome traces: by a schema of their format, and by what PyTorch itself reads them with where FLAMBEAU_PYTHON has one.

use flambeau_core::functions as torch;
use flambeau_utils::profiler::{ProfileOptions, RecordFunction, profile};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// What a value breaks of a schema: the words of JSON Schema that ours says, and no others.
fn breach(schema: &Value, v: &Value, at: &str) -> Option<String> {
    let says = |what: String| Some(format!("{at}: {what}, but it is {v}"));
    for (word, rule) in schema.as_object().expect("a schema is an object") {
        let found = match &word[..] {
            "description" => None,
            "type" => {
                let fits = match rule.as_str().unwrap() {
                    "object" => v.is_object(),
                    "array" => v.is_array(),
                    "string" => v.is_string(),
                    "number" => v.is_number(),
                    "integer" => v.is_i64() || v.is_u64(),
                    other => panic!("a type that is not checked: {other}"),
                };
                if fits { None } else { says(format!("should be of type {rule}")) }
            }
            "enum" if !rule.as_array().unwrap().contains(v) => says(format!("should be one of {rule}")),
            "enum" => None,
            "minimum" if v.as_f64().is_some_and(|n| n < rule.as_f64().unwrap()) => {
                says(format!("should be at least {rule}"))
            }
            "minimum" => None,
            "required" => {
                let missing = rule.as_array().unwrap().iter().find(|k| v.get(k.as_str().unwrap()).is_none());
                missing.and_then(|k| says(format!("should have {k}")))
            }
            "properties" => {
                let part = |(k, s): (&String, &Value)| breach(s, v.get(k)?, &format!("{at}.{k}"));
                rule.as_object().unwrap().iter().find_map(part)
            }
            "items" => {
                let mut all = v.as_array().into_iter().flatten().enumerate();
                all.find_map(|(i, x)| breach(rule, x, &format!("{at}[{i}]")))
            }
            "anyOf" => {
                let all: Vec<_> = rule.as_array().unwrap().iter().map(|s| breach(s, v, at)).collect();
                if all.contains(&None) { None } else { Some(format!("{all:?}")) }
            }
            other => panic!("a word that is not checked: {other}"),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}
fn schema() -> Value {
    serde_json::from_str(include_str!("trace_event.schema.json")).unwrap()
}
/// A trace with all that a trace can have.
fn written(path: &Path) -> Value {
    let o = ProfileOptions::new()
        .record_shapes(true)
        .profile_memory(true)
        .with_stack(true)
        .with_flops(true)
        .with_modules(true);
    let mut p = profile(o, |_| {
        let _label = RecordFunction::new("a \"label\"\n");
        let x = torch::ones([4, 4]).requires_grad_(true);
        let y = torch::matmul(&x, &x);
        torch::sum(&y).backward();
    });
    p.add_metadata("who", "a test");
    p.add_metadata_json("numbers", "[1, 2]").unwrap();
    p.export_chrome_trace(path).unwrap();
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn traces_keep_to_the_schema() {
    let folder = tempfile::tempdir().unwrap();
    let trace = written(&folder.path().join("trace.json"));
    assert_eq!(breach(&schema(), &trace, "trace"), None);
    // what lies on one thread lies within one another or apart: viewers leave out the rest
    let events: Vec<&Value> =
        trace["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X").collect();
    assert!(events.len() > 4);
    let span = |e: &Value| {
        let start = e["ts"].as_f64().unwrap();
        (start, start + e["dur"].as_f64().unwrap())
    };
    for (i, a) in events.iter().enumerate() {
        for b in events[i + 1..].iter().filter(|b| b["tid"] == a["tid"]) {
            let ((a0, a1), (b0, b1)) = (span(a), span(b));
            let within = (a0 <= b0 && b1 <= a1 + 1e-3) || (b0 <= a0 && a1 <= b1 + 1e-3);
            assert!(within || a1 <= b0 + 1e-3 || b1 <= a0 + 1e-3, "{a} and {b} overlap");
        }
    }
    let named = |n: &str| events.iter().find(|e| e["name"] == n).unwrap_or_else(|| panic!("no {n}"));
    assert_eq!(named("a \"label\"\n")["cat"], "user_annotation");
    assert_eq!(named("aten::mm")["args"]["Input Dims"], json!([[4, 4], [4, 4]]));
}

#[test]
fn the_schema_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let trace = written(&folder.path().join("trace.json"));
    let place = trace["traceEvents"].as_array().unwrap().iter().position(|e| e["ph"] == "X").unwrap();
    for (key, value) in [
        ("ph", json!("?")),
        ("ts", json!("1")),
        ("ts", json!(-1)),
        ("dur", json!(null)),
        ("pid", json!(1.5)),
        ("name", json!(3)),
        ("args", json!({"External id": 0})),
        ("args", json!({"External id": 1, "Input Dims": [["x"]]})),
    ] {
        let mut bad = trace.clone();
        bad["traceEvents"][place][key] = value;
        assert!(breach(&schema(), &bad, "trace").is_some(), "{key}");
    }
    let mut bad = trace.clone();
    bad["traceEvents"][place].as_object_mut().unwrap().remove("dur");
    assert!(breach(&schema(), &bad, "trace").is_some());
}

/// PyTorch's own rules for its traces, its reader of them that compares and joins profiles, and the one of the Python
/// traces with stacks: it has no other.
const READERS: &str = r#"
import sys, json
try:
    from torch.profiler._trace_validator import validate_trace
    from torch.profiler._utils import map_recorded_events_to_aten_ops_with_stack_trace as mapped
    from torch._inductor.analysis.profile_analysis import JsonProfile
except ImportError as e:
    print("absent:", e)
    sys.exit(0)
path = sys.argv[1]
passed, violations = validate_trace(path)
assert passed, [str(v) for v in violations]
p = JsonProfile(path, "ours", "float32")
p.augment_trace()
p.report()
joined = p.combine_with(JsonProfile(path, "again", "float32"))
ops = [e["name"] for e in p.events if e.get("cat") == "cpu_op"]
assert 2 * len(ops) == len([e for e in joined.data["traceEvents"] if e.get("cat") == "cpu_op"])
assert not mapped(json.load(open(path)))
print("read:", *ops)
"#;

#[test]
fn pytorch_reads_the_traces() {
    let Ok(python) = std::env::var("FLAMBEAU_PYTHON") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    written(&path);
    let run = Command::new(python).arg("-c").arg(READERS).arg(&path).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{out}{err}");
    if !out.starts_with("absent") {
        assert!(out.starts_with("read: ") && out.contains("aten::mm"), "{out}{err}");
    }
}
