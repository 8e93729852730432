//! What of these jobs is a function or an object.

use super::Done;
use crate::distributed::shared::same_error;
use crate::families::text;
use flambeau_core::{Error, Result};
use serde_json::{Value as J, json};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use torch::distributed::elastic::agent::{WorkerSpec, WorkerSpecOptions, WorkerState, assign_worker_ranks};
use torch::distributed::elastic::failures::ProcessFailure;
use torch::distributed::elastic::metrics::{ConsoleMetricHandler, MetricData, MetricHandler};
use torch::distributed::elastic::processes::{Std, Stds};
use torch::distributed::elastic::rendezvous::{RendezvousParameters, get_rendezvous_handler};
use torch::distributed::elastic::timer::{TimerClient, TimerRequest, TimerServer};
use torch::distributed::elastic::{self, events, metrics, timer};
use torch::distributed::{HashStore, Store};

fn ended(got: Result<J>, want: &J) -> Done {
    match (got, want.get("error")) {
        (Err(e), Some(w)) => same_error(&e, w),
        (Ok(j), None) if j == want["returns"] => Ok(()),
        (other, _) => Err(format!("{other:?} instead of {want}")),
    }
}
fn same(what: &str, got: J, want: &J) -> Done {
    if got == *want { Ok(()) } else { Err(format!("{what}: {got} instead of {want}")) }
}
fn spec(n: i64, interval: Duration, program: &[&str]) -> Result<WorkerSpec> {
    let p = RendezvousParameters::new("static", "localhost:0", "r", 1, 1, vec![("rank".into(), "0".into())])?;
    let program: Vec<String> = program.iter().map(|s| (*s).to_owned()).collect();
    let o = WorkerSpecOptions::new().monitor_interval(interval);
    WorkerSpec::new("r", n, &program, get_rendezvous_handler(&p)?, o)
}
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<J>>>);
impl MetricHandler for Kept {
    fn emit(&self, m: &MetricData) {
        let one = json!([m.group_name, m.name, m.value]);
        self.0.lock().unwrap_or_else(|e| e.into_inner()).push(one);
    }
}
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<(String, f64)>>>);
impl TimerClient for Told {
    fn acquire(&self, scope_id: &str, expiration_time: f64) -> Result<()> {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).push((scope_id.to_owned(), expiration_time));
        Ok(())
    }
    fn release(&self, scope_id: &str) -> Result<()> {
        self.acquire(scope_id, -1.0)
    }
}

pub(super) fn run(case: &J) -> Done {
    let id = text(case, "id");
    let result = &case["result"];
    let (family, rest) = id.split_once('.').unwrap_or((id, ""));
    let rest = if rest == "empty" { "" } else { rest };
    match (family, rest) {
        ("worker_state", name) => {
            let Some(s) = WorkerState::ALL.into_iter().find(|s| s.name() == name) else {
                return Err(format!("no state {name}"));
            };
            same("value", json!(s.name()), &case["value"])?;
            same("is_running", json!(s.is_running()), &case["is_running"])?;
            same("failed", json!(s == WorkerState::Failed), &case["failed"])
        }
        ("std", "to_map") => {
            let each = |s: &Stds, n: i64| -> J {
                (0..n)
                    .map(|i| (i.to_string(), json!(s.of(i).name())))
                    .collect::<serde_json::Map<_, _>>()
                    .into()
            };
            let map = "0:1".parse::<Stds>().map_err(|e| e.to_string())?;
            same("map", each(&map, 3), &result["returns"])?;
            same("single", each(&Stds::All(Std::Err), 2), &case["single"]["returns"])
        }
        ("std", t) => ended(t.parse::<Stds>().map(|s| json!(s.to_string())), result),
        ("nnodes", t) => ended(elastic::parse_min_max_nnodes(t).map(|(a, b)| json!([a, b])), result),
        ("nproc", t) => {
            let got = elastic::determine_local_world_size(t);
            let counted = result["returns"].is_string();
            ended(got.map(|n| if counted && n > 0 { result["returns"].clone() } else { json!(n) }), result)
        }
        ("assign_ranks", _) => ranks(case),
        ("macros", _) => {
            let got = elastic::substitute(&["--rank".into(), "${local_rank}".into()], "3");
            same("macros", json!(got), &result["returns"])
        }
        ("entrypoint_name", _) => {
            let name = |p: &str| spec(1, Duration::from_millis(1), &[p]).map(|s| s.get_entrypoint_name());
            let said = |e: Error| e.to_string();
            let got = [name("print").map_err(said)?, name("some/where/script.py").map_err(said)?];
            same("names", json!(got), result)
        }
        ("worker_spec", "errors") => {
            ended(spec(0, Duration::from_millis(1), &["x"]).map(|_| J::Null), &case["zero"])?;
            ended(spec(1, Duration::ZERO, &["x"]).map(|_| J::Null), &case["interval"])
        }
        ("worker_spec", _) => {
            let shown = format!("{:?}", WorkerSpecOptions::new());
            let has = shown.contains("max_restarts: 3") && shown.contains("monitor_interval: 100ms");
            if has { Ok(()) } else { Err(shown) }
        }
        ("rendezvous_parameters", _) => {
            let a = &case["args"];
            let n = |k: &str| a[k].as_i64().unwrap_or(0);
            let more = vec![("x".to_owned(), "7".to_owned()), ("y".to_owned(), "true".to_owned())];
            let (backend, endpoint, run) = (text(a, "backend"), text(a, "endpoint"), text(a, "run_id"));
            let p = RendezvousParameters::new(backend, endpoint, run, n("min_nodes"), n("max_nodes"), more);
            let got = p.and_then(|p| {
                Ok(json!({"backend": p.backend, "get": p.get_as_int("x")?, "flag": p.get_as_bool("y")?}))
            });
            ended(got, result)
        }
        ("endpoint", e) => {
            ended(elastic::parse_rendezvous_endpoint(e, 29400).map(|(h, p)| json!([h, p])), result)
        }
        ("rdzv_conf", c) => {
            let got = elastic::parse_rendezvous_config(c)
                .map(|l| l.into_iter().map(|(k, v)| (k, json!(v))).collect::<serde_json::Map<_, _>>().into());
            ended(got, result)
        }
        ("metrics", "console") => {
            let m = MetricData { timestamp: 12, group_name: "c".into(), name: "n".into(), value: 1 };
            same("line", json!(ConsoleMetricHandler::line(&m).replace("12", "<SECONDS>")), &case["pattern"])
        }
        ("metrics", _) => {
            let kept = Kept::default();
            metrics::configure(kept.clone(), Some("g"));
            metrics::put_metric("n", 1, "g");
            let _ = metrics::prof("run.<locals>.work", "g", || Ok(()));
            let bad: Result<()> = metrics::prof("run.<locals>.bad", "g", || Err(Error::value("x")));
            let got = kept.0.lock().unwrap_or_else(|e| e.into_inner()).clone();
            if bad.is_ok() {
                return Err("no error".into());
            }
            let plain = |l: &[J]| -> Vec<J> {
                // how long they took is free
                l.iter()
                    .map(|m| if text_at(m, 1).ends_with(".ms") { json!([m[0], m[1]]) } else { m.clone() })
                    .collect()
            };
            let want = case["emitted"].as_array().cloned().unwrap_or_default();
            same("emitted", json!(plain(&got)), &json!(plain(&want)))
        }
        ("events", _) => {
            use events::{Event, EventMetadataValue as V, EventSource};
            let e = Event::new("name", EventSource::Agent)
                .with("k", V::Str("v".into()))
                .with("n", V::Int(1))
                .with("f", V::Float(0.5));
            same("str", json!(e.to_string()), &case["str"])?;
            same("json", json!(e.serialize()), &case["json"])?;
            let back = Event::deserialize(&e.serialize()).map_err(|e| e.to_string())?;
            let same_again = back.metadata.len() == 3 && back.metadata.iter().all(|m| e.metadata.contains(m));
            same("round_trip", json!(same_again), &case["round_trip"])?;
            same("handler", json!(events::get_logging_handler("null").name()), &case["handler"])
        }
        ("timer", "not_configured") => {
            ended(timer::expires(Duration::from_secs(1), None, || Ok(())).map(|()| J::Null), result)
        }
        ("timer", "requests") => {
            let told = Told::default();
            told.acquire("block", 12.0).map_err(|e| e.to_string())?;
            told.release("block").map_err(|e| e.to_string())?;
            let l = told.0.lock().unwrap_or_else(|e| e.into_inner()).clone();
            same("acquired", json!([[l[0].0, l[0].1 > 0.0]]), &case["acquired"])?;
            same("released", json!([[l[1].0, l[1].1 as i64]]), &case["released"])
        }
        ("timer", _) => {
            let mut s = timer::LocalTimerServer::new(&timer::TimerQueue::default());
            let one = |worker_id, scope: &str, at| TimerRequest {
                worker_id,
                scope_id: scope.into(),
                expiration_time: at,
            };
            s.register_timers(&[one(1, "a", 10.0), one(1, "b", 1e12), one(2, "a", 10.0)]);
            let got: serde_json::Map<String, J> = s
                .get_expired_timers(100.0)
                .into_iter()
                .map(|(k, v)| (k.to_string(), json!(v.iter().map(|r| &r.scope_id).collect::<Vec<_>>())))
                .collect();
            same("expired", J::Object(got), &case["expired"])?;
            s.clear_timers(&[1]);
            same("left", json!(s.len()), &case["left_after_clear"]["returns"])
        }
        ("process_failure", kind) => failure(kind, case),
        (other, _) => Err(format!("no runner of {other}")),
    }
}
fn text_at(j: &J, i: usize) -> &str {
    j[i].as_str().unwrap_or("")
}
fn ranks(case: &J) -> Done {
    let store = Arc::new(HashStore::new());
    store.set_timeout(Duration::from_secs(5));
    let agents = case["agents"].as_array().cloned().unwrap_or_default();
    let n = agents.len() as i64;
    let made: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = agents
            .iter()
            .enumerate()
            .map(|(i, a)| {
                let store = store.clone();
                let (role, local) = (text(a, "role").to_owned(), a["local_world_size"].as_i64().unwrap_or(1));
                scope.spawn(move || assign_worker_ranks(&*store, i as i64, n, &role, local))
            })
            .collect();
        all.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(Error::runtime("a panic")))).collect()
    });
    let mut got = Vec::new();
    for m in made {
        let workers = m.map_err(|e| format!("{e:?}"))?;
        let one = |w: &torch::distributed::elastic::agent::Worker| {
            json!({"local_rank": w.local_rank, "global_rank": w.global_rank, "role_rank": w.role_rank,
                "world_size": w.world_size, "role_world_size": w.role_world_size})
        };
        got.push(workers.iter().map(one).collect::<Vec<_>>());
    }
    same("workers", json!(got), &case["workers"])?;
    let keys = store.num_keys().map_err(|e| e.to_string())?;
    same("keys", json!(keys), &case["store_keys"])
}
fn failure(kind: &str, case: &J) -> Done {
    let dir = std::env::temp_dir().join(format!("flambeau-failure-{}", std::process::id()));
    let f = match kind {
        "file" => {
            let page = json!({"message": case["message"]});
            std::fs::write(&dir, page.to_string()).map_err(|e| e.to_string())?;
            let f = ProcessFailure::new(0, 7, 1, &dir);
            let _ = std::fs::remove_file(&dir);
            same("timestamp", json!(f.timestamp), &case["timestamp"])?;
            f
        }
        "signal" => ProcessFailure::new(0, 7, -9, Path::new("/nowhere")),
        _ => ProcessFailure::new(0, 7, 1, Path::new("/nowhere")),
    };
    let message = match &f.message {
        J::String(s) => json!(s.replace("PID 7", "PID <PID>")),
        other => other.clone(),
    };
    same("message", message, &case["message"])?;
    same("signal", json!(f.signal_name()), &case["signal"])
}
