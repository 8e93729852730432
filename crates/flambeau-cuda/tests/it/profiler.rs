//! The profiler sees what devices do: kernels and copies with the operators that queued them, in the list, the table and the trace.

use crate::emulated::{agree, emulated, numbers, there};
use flambeau_core::{Device, ops};
use flambeau_devices::cuda;
use flambeau_utils::profiler::{
    ProfileOptions, ProfilerActivity, RecordFunction, TableOptions, profile, supported_activities,
};
use serde_json::Value;
use std::process::Command;

pub fn all() {
    if !supported_activities().contains(&ProfilerActivity::CUDA) {
        assert!(!emulated(), "the emulated device is watched");
        eprintln!("skipped: there is no CUPTI");
        return;
    }
    operators();
    devices_alone();
    the_cpu_alone();
    graphs();
    one_at_a_time();
}
fn operators() {
    let (t, u) = (numbers(&[33, 20]), numbers(&[20, 7]));
    let (x, y) = (there(&t), there(&u));
    ops::mm(&x, &y).unwrap();
    cuda::synchronize();
    let mut made = None;
    let p = profile(ProfileOptions::new(), |_| {
        let _label = RecordFunction::new("step");
        let z = ops::mm(&ops::exp(&x).unwrap(), &y).unwrap();
        made = Some(ops::add(&z, &z, 1.into()).unwrap());
        // a copy that waits for all of it
        made.as_ref().unwrap().try_to_vec::<f32>().unwrap();
    });
    let want = ops::mm(&ops::exp(&t).unwrap(), &u).unwrap();
    agree("profiled", &made.unwrap(), &ops::add(&want, &want, 1.into()).unwrap(), 1e-4);
    let kernels: Vec<_> = p.events().iter().filter(|e| e.device == Some(0)).collect();
    assert!(kernels.len() >= 4, "{kernels:?}");
    assert!(kernels.iter().all(|k| k.cpu_time_total() == 0.0 && k.end >= k.start));
    assert!(kernels.iter().any(|k| k.name.starts_with("Memcpy DtoH (Device -> ")), "{kernels:?}");
    let of = |name: &str| p.events().iter().find(|e| e.name == name).unwrap_or_else(|| panic!("no {name}"));
    for name in ["aten::exp", "aten::mm", "aten::add"] {
        let e = of(name);
        // libraries of products may take several
        assert!(!e.kernels.is_empty(), "{name}");
        assert!(e.kernels[0].device == 0 && e.self_device_time_total() > 0.0, "{name}");
        // a kernel begins after its operator
        let own = kernels.iter().find(|k| k.name == e.kernels[0].name).unwrap();
        assert!(own.end > e.start, "{name}");
    }
    let label = of("step");
    assert!(label.self_device_time_total() >= 0.0);
    assert!(
        label.device_time_total() >= of("aten::mm").device_time_total() + of("aten::exp").device_time_total()
    );
    let averages = p.key_averages(false);
    let row = |key: &str| averages.iter().find(|a| a.key == key).unwrap();
    assert!(row("aten::mm").self_device_time_total > 0.0 && row("aten::mm").device_time() > 0.0);
    let sum: f64 = kernels.iter().map(|k| k.self_device_time_total()).sum();
    assert!((averages.self_device_time_total() - sum).abs() < 1e-6);
    let table = averages.table(TableOptions::default().sort_by("cuda_time_total")).unwrap();
    for head in ["Self CUDA  ", "Self CUDA %", "CUDA total", "CUDA time avg", "Self CUDA time total: "] {
        assert!(table.contains(head), "{head}\n{table}");
    }
    trace(&p);
}
/// What PyTorch's readers find in the file.
fn trace(p: &flambeau_utils::profiler::Profile) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    p.export_chrome_trace(&path).unwrap();
    let all: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(all["deviceProperties"][0]["id"], 0);
    assert!(all["deviceProperties"][0]["numSms"].as_i64().unwrap() > 0);
    let events = all["traceEvents"].as_array().unwrap();
    let of = |cat: &str| events.iter().filter(|e| e["cat"] == cat).collect::<Vec<_>>();
    let kernels = of("kernel");
    assert!(kernels.len() >= 3 && !of("gpu_memcpy").is_empty());
    for k in &kernels {
        assert_eq!((&k["pid"], &k["args"]["device"]), (&0.into(), &0.into()));
        assert!(k["args"]["grid"][0].as_i64().unwrap() > 0 && k["args"]["block"][0].as_i64().unwrap() > 0);
        let id = &k["args"]["correlation"];
        // the call that queued it, the operator that made the call, and the arrow
        let calls = [of("cuda_driver"), of("cuda_runtime")].concat();
        let call = calls.iter().find(|c| c["args"]["correlation"] == *id).expect("a call");
        assert_eq!(call["args"]["External id"], k["args"]["External id"]);
        assert!(call["ts"].as_f64() <= k["ts"].as_f64());
        let operator =
            of("cpu_op").into_iter().find(|o| o["args"]["External id"] == k["args"]["External id"]);
        let operator = operator.expect("an operator");
        assert!(operator["ts"].as_f64() <= call["ts"].as_f64());
        let ends: Vec<_> = of("ac2g").into_iter().filter(|a| a["id"] == *id).collect();
        let end = |ph: &str| ends.iter().find(|e| e["ph"] == ph).unwrap_or_else(|| panic!("{ph}: {ends:?}"));
        assert_eq!((&end("s")["ts"], &end("f")["ts"]), (&call["ts"], &k["ts"]));
        assert_eq!((&end("f")["bp"], &end("f")["tid"]), (&"e".into(), &k["tid"]));
    }
    let Ok(python) = std::env::var("FLAMBEAU_PYTHON") else { return };
    let text = r#"
import sys
try:
    from torch.profiler._trace_validator import validate_trace
    from torch._inductor.analysis.profile_analysis import JsonProfile
except ImportError:
    sys.exit(0)
passed, violations = validate_trace(sys.argv[1])
assert passed, [str(v) for v in violations]
p = JsonProfile(sys.argv[1], "ours", "float32")
p.augment_trace()
assert p._devices, "no devices"
print(p.report())
"#;
    let out = Command::new(python).args(["-c", text]).arg(&path).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}
fn devices_alone() {
    let x = there(&numbers(&[50]));
    let p = profile(ProfileOptions::new().activities([ProfilerActivity::CUDA]), |_| {
        ops::neg(&x).unwrap();
    });
    assert_eq!(p.events().len(), 1, "{:?}", p.events());
    assert_eq!((p.events()[0].device, p.self_cpu_time_total()), (Some(0), 0.0));
}
fn the_cpu_alone() {
    let x = there(&numbers(&[50]));
    let p = profile(ProfileOptions::new().activities([ProfilerActivity::CPU]), |_| {
        ops::neg(&x).unwrap();
    });
    assert!(p.events().iter().all(|e| e.device.is_none() && e.kernels.is_empty()));
    assert!(!p.key_averages(false).table(TableOptions::default()).unwrap().contains("CUDA"));
}
/// Kernels of a graph are those of its launch.
fn graphs() {
    let x = ops::empty(&[64], None, None, Some(Device::cuda(0)), None, None).unwrap();
    let g = cuda::CUDAGraph::new();
    cuda::graph(&g, || {
        ops::neg_(&x).unwrap();
        ops::exp_(&x).unwrap();
    });
    let p = profile(ProfileOptions::new(), |_| {
        let _label = RecordFunction::new("replay");
        g.replay();
    });
    let kernels = p.events().iter().filter(|e| e.device == Some(0)).count();
    assert_eq!(kernels, 2, "{:?}", p.events());
    let label = p.events().iter().find(|e| e.name == "replay").unwrap();
    assert_eq!(label.kernels.len(), 2);
}
/// A recording within another one has the CPU's side alone, and a warning says so.
fn one_at_a_time() {
    let x = there(&numbers(&[50]));
    let mut inner = None;
    let outer = profile(ProfileOptions::new(), |_| {
        inner = Some(profile(ProfileOptions::new(), |_| drop(ops::neg(&x).unwrap())));
    });
    assert!(inner.unwrap().events().iter().all(|e| e.device.is_none()));
    assert_eq!(outer.events().iter().filter(|e| e.device == Some(0)).count(), 1);
}
