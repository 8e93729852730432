//! What the profiler notes.

use flambeau_core::{Tensor, ops};
use flambeau_utils::profiler::*;

fn work() {
    let x = Tensor::from_vec(vec![1f32; 16], [4, 4]);
    let y = ops::matmul(&x, &x).unwrap();
    ops::add(&y, &x, 1.into()).unwrap();
    ops::add(&y, &x, 1.into()).unwrap();
}

#[test]
fn operators_stand_within_their_callers() {
    let o = ProfileOptions::new().record_shapes(true).profile_memory(true).with_flops(true);
    let p = profile(o, |_| {
        let _label = RecordFunction::new("label");
        work();
    });
    let all = p.events();
    let of = |n: &str| all.iter().position(|e| e.name == n).unwrap_or_else(|| panic!("{n}: {all:?}"));
    assert_eq!(all[of("aten::matmul")].parent, Some(of("label")));
    assert_eq!(all[of("aten::mm")].parent, Some(of("aten::matmul")));
    assert_eq!(all[of("aten::mm")].input_shapes, [[4, 4], [4, 4]]);
    assert_eq!(all[of("aten::mm")].flops, 128);
    assert!(all[of("aten::mm")].cpu_memory_usage > 0);
    let averages = p.key_averages(false);
    let add = averages.iter().find(|a| a.key == "aten::add").unwrap();
    assert_eq!(add.count, 2);
    let sum: f64 = averages.iter().map(|a| a.self_cpu_time_total).sum();
    assert!((sum - all[of("label")].cpu_time_total()).abs() < 1.0, "self times add up to the whole");
    assert!(all.iter().all(|e| e.self_cpu_time() <= e.cpu_time_total()));
}

#[test]
fn the_table_is_pytorchs() {
    let p = profile(ProfileOptions::new(), |_| work());
    let t = p.key_averages(false).table(TableOptions::default().sort_by("count").row_limit(2)).unwrap();
    let lines: Vec<&str> = t.lines().collect();
    assert_eq!(lines[0], lines[2]);
    assert_eq!(
        lines[1].split_whitespace().collect::<Vec<_>>().join(" "),
        "Name Self CPU % Self CPU CPU total % CPU total CPU time avg # of Calls"
    );
    assert!(lines[3].trim_start().starts_with("aten::add "), "{t}");
    assert_eq!(lines.len(), 7);
    assert!(lines[6].starts_with("Self CPU time total: "));
    let e = p.key_averages(false).table(TableOptions::default().sort_by("foo")).unwrap_err();
    assert_eq!(e.message(), "'FunctionEventAvg' object has no attribute 'foo'");
}

#[test]
fn schedules_choose_steps() {
    use ProfilerAction::*;
    let s = schedule(ScheduleOptions { wait: 1, warmup: 1, active: 2, repeat: 1, skip_first: 1 }).unwrap();
    let steps: Vec<_> = (0..8).map(s.clone()).collect();
    assert_eq!(steps, [NONE, NONE, WARMUP, RECORD, RECORD_AND_SAVE, NONE, NONE, NONE]);
    let e = schedule(ScheduleOptions { wait: -1, ..Default::default() }).map(|_| ()).unwrap_err();
    assert!(e.message().starts_with("Invalid profiler schedule arguments. Got wait=-1 (need >= 0)"));
    let saved = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let into = saved.clone();
    let o = ProfileOptions::new().schedule(s).on_trace_ready(move |p| {
        into.borrow_mut().push(p.events().iter().filter(|e| e.name == "aten::add").count());
    });
    profile(o, |p| {
        for _ in 0..8 {
            work();
            p.step();
        }
    });
    assert_eq!(*saved.borrow(), [4]);
}

#[test]
fn traces_are_json() {
    let mut p = profile(ProfileOptions::new().with_stack(true), |_| work());
    p.add_metadata("who", "a \"test\"");
    p.add_metadata_json("numbers", "[1, 2]").unwrap();
    assert!(p.add_metadata_json("bad", "[1,").is_err());
    let path = std::env::temp_dir().join(format!("flambeau-trace-{}.json", std::process::id()));
    p.export_chrome_trace(&path).unwrap();
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(json["who"], "a \"test\"");
    let events = json["traceEvents"].as_array().unwrap();
    assert!(events.iter().any(|e| e["ph"] == "X" && e["name"] == "aten::mm" && e["cat"] == "cpu_op"));
    p.export_stacks(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let bare = profile(ProfileOptions::new(), |_| work());
    assert!(bare.export_stacks(&path).is_err());
}

#[test]
fn nothing_is_noted_without_a_profiler() {
    let p = profile(ProfileOptions::new(), |_| ());
    work();
    drop(RecordFunction::new("unheard"));
    assert!(p.events().is_empty());
    assert_eq!(p.total_average().count, 0);
    let _spans = spans();
    work();
}

#[test]
fn execution_trace_names_operators_within_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let mut o = ExecutionTraceObserver::new();
    o.start();
    o.register_callback(&path).unwrap();
    assert!(o.is_registered());
    o.start();
    work();
    o.stop();
    work();
    o.unregister_callback().unwrap();
    let trace: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let nodes = trace["nodes"].as_array().unwrap();
    let all = |n: &str| nodes.iter().filter(|x| x["name"] == n).collect::<Vec<_>>();
    assert_eq!((all("aten::matmul").len(), all("aten::add").len()), (1, 2));
    let (whole, part) = (all("aten::matmul")[0], all("aten::mm")[0]);
    assert_eq!(part["ctrl_deps"], whole["id"]);
    assert_eq!(part["inputs"]["shapes"], serde_json::json!([[4, 4], [4, 4]]));
    // the sum takes what the product gave
    assert_eq!(whole["outputs"]["values"][0], all("aten::add")[0]["inputs"]["values"][0]);
}
#[test]
fn memory_timeline_shows_what_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let p = profile(ProfileOptions::new().profile_memory(true), |_| work());
    let path = folder.path().join("t.json");
    p.export_memory_timeline(&path).unwrap();
    let t: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let (times, sizes) = (t[0].as_array().unwrap(), t[1].as_array().unwrap());
    assert!(times.len() == sizes.len() && times.len() > 1);
    assert!(times.windows(2).all(|w| w[0].as_u64() <= w[1].as_u64()));
    p.export_memory_timeline(folder.path().join("t.html")).unwrap();
    assert!(p.export_memory_timeline(folder.path().join("t.raw.json.gz")).is_err());
    assert!(profile(ProfileOptions::new(), |_| work()).export_memory_timeline(&path).is_err());
}

#[test]
fn only_what_is_asked_for_is_watched() {
    let o = || ProfileOptions::new();
    assert!(profile(o().activities([ProfilerActivity::CUDA]), |_| work()).events().is_empty());
    let both = [ProfilerActivity::CPU, ProfilerActivity::CUDA];
    assert!(!profile(o().activities(both), |_| work()).events().is_empty());
}
#[test]
fn modules_around_operators() {
    use flambeau_nn::{Linear, Sequential};
    let m = Sequential::new((Sequential::new((Linear::new(4, 4),)),));
    let x = Tensor::from_vec(vec![1f32; 4], [1, 4]);
    let p = profile(ProfileOptions::new().with_modules(true), |_| {
        m.call(&x);
        work();
    });
    let within = |n: &str| p.events().iter().find(|e| e.name == n).map(|e| e.module_hierarchy.as_str());
    assert_eq!(within("aten::linear"), Some("Sequential.Sequential.Linear"));
    assert_eq!(within("aten::matmul"), Some(""));
    let p = profile(ProfileOptions::new(), |_| drop(m.call(&x)));
    assert!(p.events().iter().all(|e| e.module_hierarchy.is_empty()));
}

/// A watcher among modes: each sees what it should, in its place.
#[test]
fn modes_beside_a_profiler() {
    use flambeau_core::dispatch::overrides::{OperatorCall, push_dispatch_mode, push_function_mode};
    use std::{cell::RefCell, rc::Rc};
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = |to: &Rc<RefCell<Vec<String>>>, level: &'static str| {
        let to = to.clone();
        move |c: &OperatorCall<'_>| {
            to.borrow_mut().push(format!("{level} {}", c.name()));
            c.call_on()
        }
    };
    let names = |p: &Profile| p.events().iter().map(|e| e.name.to_string()).collect::<Vec<_>>();
    let want = ["aten::matmul", "aten::mm", "aten::add", "aten::add"];
    let shown = [
        "whole matmul",
        "inner mm",
        "whole add.Tensor",
        "inner add.Tensor",
        "whole add.Tensor",
        "inner add.Tensor",
    ];
    // modes below the profiler
    let modes = (push_function_mode(log(&seen, "whole")), push_dispatch_mode(log(&seen, "inner")));
    assert_eq!(names(&profile(ProfileOptions::new(), |_| work())), want);
    drop(modes);
    assert_eq!(*seen.borrow(), shown);
    seen.borrow_mut().clear();
    // and above it
    let p = profile(ProfileOptions::new(), |_| {
        let _modes = (push_function_mode(log(&seen, "whole")), push_dispatch_mode(log(&seen, "inner")));
        work();
    });
    assert_eq!(names(&p), want);
    assert_eq!(*seen.borrow(), shown);
}
#[test]
fn errors_and_gradients_are_noted() {
    let p = profile(ProfileOptions::new(), |_| {
        let x = Tensor::from_vec(vec![1f32; 6], [2, 3]);
        assert!(ops::mm(&x, &x).is_err());
        let x = x.requires_grad_(true);
        ops::sum(&ops::mul(&x, &x).unwrap(), None, false, None).unwrap().backward();
    });
    let names: Vec<&str> = p.events().iter().map(|e| &*e.name).collect();
    assert!(
        names.contains(&"aten::mm") && names.iter().filter(|n| **n == "aten::mul").count() >= 2,
        "{names:?}"
    );
    assert!(p.events().iter().all(|e| e.end >= e.start));
}

/// What an operator costs more while it is recorded, in nanoseconds; the release build counts.
#[test]
#[ignore = "measures, asserts nothing"]
fn speed() {
    let x = Tensor::from_vec(vec![1f32], [1]);
    let calls = 20_000;
    let time = || {
        let t = std::time::Instant::now();
        (0..calls).for_each(|_| drop(ops::add(&x, &x, 1.into()).unwrap()));
        t.elapsed().as_nanos() as f64 / calls as f64
    };
    let (mut off, mut on) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..20 {
        off = off.min(time());
        let mut seen = f64::INFINITY;
        profile(ProfileOptions::new(), |_| seen = time());
        on = on.min(seen);
    }
    println!("add: {off:.0} ns, recorded {on:.0} ns");
}
