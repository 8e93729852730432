//! The section `local`: what needs no group of processes (futures, processes, monitor, sampler).

mod futures;
mod monitor;
#[allow(unsafe_code)]
mod processes;
mod sampler;

pub use processes::FUNCTIONS;

use crate::families::{File, Outcome, text};
use serde_json::{Value as J, json};
use torch::Error;

/// What a runner finds: nothing where all is as recorded, or what is not.
type Found = Result<(), String>;

/// Runs a case.
pub fn run(f: &File, case: &J) -> Outcome {
    let found = match text(&f.json, "job") {
        "futures" => futures::run(f, case),
        "multiprocessing" => processes::run(f, case),
        "monitor" => monitor::run(case),
        "sampler" => sampler::run(case),
        other => return Outcome::Missing(format!("a runner of {other}")),
    };
    match found {
        None => Outcome::Missing(format!("a runner of {}", text(case, "id"))),
        Some(Ok(())) => Outcome::Passed,
        Some(Err(e)) => Outcome::Failed(e),
    }
}

/// An error as it is recorded.
fn error(e: &Error) -> J {
    json!({"error": {"type": e.kind().class_name(), "message": e.message()}})
}
/// How a call ended, as it is recorded.
fn ended<T: Into<J>>(r: Result<T, Error>) -> J {
    match r {
        Ok(v) => json!({"returns": v.into()}),
        Err(e) => error(&e),
    }
}
/// Compares; of an error's text, parts in angle brackets stand for anything, and a stack of Python's for nothing.
fn same(got: &J, want: &J) -> Found {
    let (g, w) = (&got["error"], &want["error"]);
    let fits = match (g["message"].as_str(), w["message"].as_str()) {
        (Some(text), Some(recorded)) => g["type"] == w["type"] && holds(text, recorded),
        _ => numbers(got, want),
    };
    if fits { Ok(()) } else { Err(format!("{got} is not {want}")) }
}
/// Equal, where 1 is 1.0.
fn numbers(a: &J, b: &J) -> bool {
    match (a, b) {
        (J::Number(a), J::Number(b)) => a.as_f64() == b.as_f64(),
        (J::Array(a), J::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| numbers(a, b)),
        (J::Object(a), J::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|w| numbers(v, w)))
        }
        _ => a == b,
    }
}
fn holds(text: &str, recorded: &str) -> bool {
    let recorded = recorded.split("\n\nAt:\n").next().unwrap_or("");
    let mut rest = text;
    for part in recorded.split('<').flat_map(|p| p.split_once('>').map_or(Some(p), |(_, after)| Some(after)))
    {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}
