//! `flambeau-bench [--set rows|networks|growth] --threads N --out FILE [--only TEXT[,TEXT]] [--min-time SECONDS] [--exact]
//! [--program PATH] [--list]`: times the rows of `rows.json`, the networks of `networks.json` or the operators of `growth.json`,
//! and writes one JSON file, again after each row. `--exact` computes networks in float64 too. `--machine` writes what the
//! machine can do instead. `--profile` prints the operators of ten calls of each row, by their own time.
//!
//! `cargo xtask bench` builds it, runs it, runs PyTorch beside it, and compares.
#![forbid(unsafe_code)]

mod groups;
mod growth;
mod input;
mod machine;
mod measure;
mod memory;
mod models;
mod networks;
mod row;

use groups::{MISSING, Setting};
use measure::Timing;
use row::{Failure, Row, Rows, Work};
use serde_json::{Map, Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The lists, in order.
const ROWS: &str = include_str!("../rows.json");
const NETWORKS: &str = include_str!("../networks.json");

fn ids(list: &str) -> Result<Vec<String>, String> {
    let all: Vec<Value> = serde_json::from_str(list).map_err(|e| format!("the list of rows: {e}"))?;
    let id =
        |r: &Value| r["id"].as_str().map(str::to_string).ok_or("the list of rows: one has no id".to_string());
    all.iter().map(id).collect()
}

/// Those that were asked for, by a whole id or by a part of ids; all if nothing was.
fn chosen(ids: Vec<String>, only: &[String]) -> Vec<String> {
    let (whole, parts): (Vec<&String>, Vec<&String>) = only.iter().partition(|s| ids.contains(s));
    let wanted =
        |id: &String| only.is_empty() || whole.contains(&id) || parts.iter().any(|s| id.contains(s.as_str()));
    ids.iter().filter(|id| wanted(id)).cloned().collect()
}

/// What is measured.
#[derive(Clone, Copy, PartialEq)]
enum Set {
    Rows,
    Networks,
    Growth,
}

struct Args {
    set: Set,
    threads: usize,
    out: Option<PathBuf>,
    only: Vec<String>,
    min_time: f64,
    program: Option<PathBuf>,
    child: Option<String>,
    list: bool,
    exact: bool,
    machine: bool,
    profile: bool,
}
impl Default for Args {
    fn default() -> Self {
        Args {
            set: Set::Rows,
            threads: 1,
            out: None,
            only: Vec::new(),
            min_time: 0.5,
            program: None,
            child: None,
            list: false,
            exact: false,
            machine: false,
            profile: false,
        }
    }
}

fn arguments() -> Result<Args, String> {
    let mut a = Args::default();
    let mut given = std::env::args().skip(1);
    while let Some(flag) = given.next() {
        let mut value = || given.next().ok_or(format!("{flag} wants a value"));
        match flag.as_str() {
            "--threads" => {
                let n: Option<usize> = value()?.parse().ok().filter(|n| *n > 0);
                a.threads = n.ok_or("--threads wants a number from 1")?;
            }
            "--out" => a.out = Some(value()?.into()),
            "--only" => a.only = value()?.split(',').filter(|s| !s.is_empty()).map(str::to_string).collect(),
            "--min-time" => a.min_time = value()?.parse().map_err(|_| "--min-time wants seconds")?,
            "--program" => a.program = Some(value()?.into()),
            "--child" => a.child = Some(value()?),
            "--set" => {
                a.set = match value()?.as_str() {
                    "rows" => Set::Rows,
                    "networks" => Set::Networks,
                    "growth" => Set::Growth,
                    other => return Err(format!("--set {other}: rows, networks or growth")),
                }
            }
            "--list" => a.list = true,
            "--exact" => a.exact = true,
            "--machine" => a.machine = true,
            "--profile" => a.profile = true,
            other => return Err(format!("unknown argument {other}")),
        }
    }
    Ok(a)
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
    text.unwrap_or("a panic without text".into()).chars().take(200).collect()
}

fn timing(t: &Timing, record: &mut Map<String, Value>) {
    record.insert("median_s".into(), json!(t.median));
    record.insert("min_s".into(), json!(t.min));
    if let Some(c) = t.cpu {
        record.insert("cpu_s".into(), json!(c));
    }
    record.insert("repeats".into(), json!(t.repeats));
    record.insert("inner".into(), json!(t.inner));
    record.insert("reruns".into(), json!(t.reruns));
}

fn network(id: &str, a: &Args, record: &mut Map<String, Value>) -> Result<(), Failure> {
    let make = networks::NETWORKS.iter().find(|n| n.0 == id);
    let make = make.ok_or_else(|| Failure::Error("this program does not know the network".into()))?.1;
    let r = networks::measure(make, a.min_time, a.threads, a.exact);
    timing(&r.timing, record);
    record.insert("first_s".into(), json!(r.first));
    if let Some(m) = r.memory {
        record.insert("memory".into(), json!(m));
    }
    if let Some(e) = r.exact {
        record.insert("deviation".into(), json!(e.deviation));
        record.insert("check".into(), json!(e.check));
    }
    Ok(())
}

/// Measures one row; what goes wrong is part of the record.
fn measure(row: &Row, a: &Args, record: &mut Map<String, Value>) -> Result<(), Failure> {
    let _mode = (!row.grad).then(torch::no_grad_guard);
    match (row.make)()? {
        Work::Bytes(n) => {
            record.insert("value".into(), json!(n));
            record.insert("unit".into(), json!("bytes"));
        }
        Work::Time(mut body) => {
            let check = body.once().filter(|_| row.check);
            if a.profile {
                return profile(&mut *body);
            }
            let t = measure::measure(&mut *body, a.min_time, a.threads);
            timing(&t, record);
            if let Some(c) = check {
                record.insert("check".into(), json!(c));
            }
        }
    }
    Ok(())
}

/// Prints what the operators of a row take of its time.
fn profile(body: &mut dyn row::Body) -> Result<(), Failure> {
    use torch::profiler::{ProfileOptions, TableOptions};
    body.repeat(3);
    let p = torch::profiler::profile(ProfileOptions::new(), |_| body.repeat(10));
    let o = TableOptions::default().sort_by("self_cpu_time_total").row_limit(40);
    let table = p.key_averages(false).table(o).map_err(|e| Failure::Error(e.to_string()))?;
    println!("{table}");
    Ok(())
}

fn record(id: &str, rows: &Rows, a: &Args) -> Value {
    let mut r = Map::new();
    r.insert("id".into(), json!(id));
    r.insert("threads".into(), json!(a.threads));
    let measured = AssertUnwindSafe(|| match (a.set, rows.get(id), MISSING.iter().find(|m| m.0 == id)) {
        (Set::Networks, ..) => network(id, a, &mut r),
        (_, Some(row), _) => measure(row, a, &mut r),
        (_, None, Some((_, name))) => Err(Failure::NotImplemented(name.to_string())),
        (_, None, None) => Err(Failure::Error("this program does not know the row".into())),
    });
    match catch_unwind(measured).unwrap_or_else(|p| Err(Failure::Error(text_of(&*p)))) {
        Ok(()) => {}
        Err(Failure::NotImplemented(name)) => {
            r.insert("error".into(), json!("not implemented"));
            r.insert("lacks".into(), json!(name));
        }
        Err(Failure::Error(e)) => {
            r.insert("error".into(), json!(e));
        }
    }
    r.into()
}

/// One row a line. The file appears complete or not at all.
fn write(path: &Path, threads: usize, rows: &[Value]) -> Result<(), String> {
    let meta = json!({
        "impl": "flambeau-rust", "version": env!("CARGO_PKG_VERSION"), "threads": threads, "schema": 1,
        "format": "io rows: torch.save's .pt",
    });
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    let text = format!("{{\"meta\": {meta}, \"rows\": [\n{}\n]}}\n", lines.join(",\n"));
    let part = path.with_extension("part");
    std::fs::write(&part, text)
        .and_then(|()| std::fs::rename(&part, path))
        .map_err(|e| format!("{}: {e}", path.display()))
}

fn run() -> Result<(), String> {
    let a = arguments()?;
    torch::set_num_threads(a.threads);
    if let Some(name) = &a.child {
        let child = groups::io::CHILDREN.iter().find(|c| c.0 == name);
        child.ok_or(format!("no child {name}"))?.1();
        return Ok(());
    }
    let executable = std::env::current_exe().map_err(|e| e.to_string())?;
    let installed = a.program.clone().unwrap_or_else(|| executable.clone());
    if a.machine {
        let text = format!("{}\n", machine::measure(a.threads));
        return match &a.out {
            Some(path) => std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display())),
            None => {
                print!("{text}");
                Ok(())
            }
        };
    }
    let (rows, ids) = match a.set {
        Set::Rows => (groups::rows(&Setting { threads: a.threads, executable, installed }), ids(ROWS)?),
        Set::Networks => (Rows::default(), ids(NETWORKS)?),
        Set::Growth => {
            let rows = growth::rows()?;
            let ids = rows.0.iter().map(|r| r.id.clone()).collect();
            (rows, ids)
        }
    };
    let ids = chosen(ids, &a.only);
    if a.list {
        println!("{}", ids.join("\n"));
        return Ok(());
    }
    // a row that panics says so in its record
    std::panic::set_hook(Box::new(|_| {}));
    let mut done = Vec::new();
    for id in &ids {
        let r = record(id, &rows, &a);
        match (r["min_s"].as_f64(), r["error"].as_str(), &r["value"]) {
            (Some(s), ..) => eprintln!("{id:<36} {:>14.2} us", s * 1e6),
            (_, Some(e), _) => eprintln!("{id:<36} {e}"),
            (_, _, v) => eprintln!("{id:<36} {v:>14}"),
        }
        done.push(r);
        if let Some(out) = &a.out {
            write(out, a.threads, &done)?;
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("flambeau-bench: {e}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn all_rows() -> Rows {
        groups::rows(&Setting { threads: 1, executable: "x".into(), installed: "x".into() })
    }

    #[test]
    fn every_row_of_the_list_is_measured_or_missing_for_a_reason() {
        let ids = ids(ROWS).unwrap();
        let rows = all_rows();
        let here: BTreeSet<&str> = rows.0.iter().map(|r| r.id.as_str()).collect();
        assert_eq!(here.len(), rows.0.len(), "an id twice");
        let missing: BTreeSet<&str> = MISSING.iter().map(|m| m.0).collect();
        assert!(here.is_disjoint(&missing), "measured and missing at once");
        let listed: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
        let known: BTreeSet<&str> = here.union(&missing).copied().collect();
        assert_eq!(listed, known);
    }

    #[test]
    fn every_network_of_the_list_is_here() {
        let here: Vec<&str> = networks::NETWORKS.iter().map(|n| n.0).collect();
        assert_eq!(ids(NETWORKS).unwrap(), here);
    }

    #[test]
    fn a_whole_id_chooses_that_row_alone() {
        let ids = ["net/a_b1", "net/a_b16", "net/c"].map(String::from).to_vec();
        let of = |only: &[&str]| chosen(ids.clone(), &only.iter().map(|s| s.to_string()).collect::<Vec<_>>());
        assert_eq!(of(&["net/a_b1"]), ["net/a_b1"]);
        assert_eq!(of(&["a_b1"]), ["net/a_b1", "net/a_b16"]);
        assert_eq!(of(&[]).len(), 3);
    }

    #[test]
    fn what_is_listed_as_missing_is_missing() {
        for (id, name) in MISSING {
            assert!(!torch::library::exists(name), "{id} can be written: the library has {name}");
        }
    }

    #[test]
    fn records() {
        let a = Args { min_time: 0.0, ..Args::default() };
        let mut rows = Rows::default();
        rows.add("a/sum", || || torch::ones(4).sum());
        rows.add("a/panics", || || -> torch::Tensor { panic!("as planned") });
        rows.by_name("a/absent", "torch.no_such_thing", Vec::new);
        let r = record("a/sum", &rows, &a);
        assert_eq!(r["check"], json!(4.0));
        assert!(r["min_s"].as_f64() <= r["median_s"].as_f64() && r["repeats"].as_u64() >= Some(7), "{r}");
        assert_eq!(record("a/panics", &rows, &a)["error"], json!("as planned"));
        let r = record("a/absent", &rows, &a);
        assert_eq!((&r["error"], &r["lacks"]), (&json!("not implemented"), &json!("torch.no_such_thing")));
        if let Some((id, lacks)) = MISSING.first() {
            assert_eq!(record(id, &rows, &a)["lacks"], json!(lacks));
        }
    }
}
