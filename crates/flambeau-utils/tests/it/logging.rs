//! What the library says of its work.

use flambeau_core::{ErrorKind, functions as torch};
use flambeau_test_support::alone;
use flambeau_utils::logging::{LogLevel, set_logs, try_set_logs};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};

/// Keeps messages: a program's own subscriber.
struct Keep(Arc<Mutex<Vec<String>>>);
struct Message(String);
impl Visit for Message {
    fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
        self.0 = format!("{value:?}");
    }
}
impl tracing::Subscriber for Keep {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, e: &tracing::Event<'_>) {
        let mut m = Message(String::new());
        e.record(&mut m);
        self.0.lock().unwrap().push(format!("{} {}", e.metadata().target(), m.0));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn backward() {
    let x = torch::ones([2]);
    x.requires_grad_(true);
    (&x * 2.0).sum().backward();
}

#[test]
fn nodes_of_backward_passes_are_said() {
    alone!();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = Keep(seen.clone());
    tracing::subscriber::with_default(into, || {
        backward();
        assert!(seen.lock().unwrap().is_empty());
        set_logs(&[("autograd", LogLevel::Debug)]);
        backward();
        set_logs(&[("autograd", LogLevel::Info)]);
        backward();
    });
    let seen = seen.lock().unwrap();
    assert_eq!(
        seen[..2],
        [
            "torch.autograd Executing: SumBackward0 with grad_outputs: [f32[]]",
            "torch.autograd Executing: MulBackward0 with grad_outputs: [f32[2]]"
        ]
    );
    assert_eq!(seen.len(), 3, "{seen:?}");
}

#[test]
fn names_that_are_none() {
    let e = try_set_logs(&[("nope", LogLevel::Info)]).unwrap_err();
    assert_eq!(e.message(), "Unrecognized log or artifact name passed to set_logs: nope");
    assert_eq!(try_set_logs(&[("dynamo", LogLevel::Info)]).unwrap_err().kind(), ErrorKind::Missing);
}

#[test]
fn standard_error_has_pytorchs_format() {
    // the variable is read at the start of a program that has names
    let me = std::env::current_exe().unwrap();
    let run = |logs: &str| {
        let mut c = std::process::Command::new(&me);
        c.args(["logging::says_something", "--exact", "--ignored", "--nocapture"]).env("TORCH_LOGS", logs);
        String::from_utf8(c.output().unwrap().stderr).unwrap()
    };
    let said = run("+autograd");
    let line = said.lines().find(|l| l.contains("SumBackward0")).unwrap_or_else(|| panic!("{said}"));
    let words: Vec<&str> = line.split(' ').collect();
    assert!(words[0].starts_with('V') && words[0].len() == 5, "{line}");
    assert_eq!(words[1].len(), "22:24:53.497536".len(), "{line}");
    assert_eq!(words[3..].join(" "), "autograd:0] Executing: SumBackward0 with grad_outputs: [f32[]]");
    assert!(!run("-autograd").contains("SumBackward0"));
    assert!(run("nonsense").contains("Invalid log settings: nonsense"));
}
#[test]
#[ignore = "started by another test"]
fn says_something() {
    flambeau_core::dispatch::registry::init();
    backward();
}
