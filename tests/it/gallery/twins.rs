//! One Python for all twins: to load PyTorch takes longer than most of them.

use flambeau_test_support::python::python;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex};

struct Twins {
    /// Ends when its input does, with the test.
    _python: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

fn start() -> Option<Mutex<Twins>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/flambeau/examples/twins.py");
    let mut python = Command::new(python()?)
        .arg(script)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (input, output) = (python.stdin.take().unwrap(), python.stdout.take().unwrap());
    Some(Mutex::new(Twins { _python: python, input, output: BufReader::new(output) }))
}

/// Runs a twin, which saves its losses; false where there is no PyTorch.
pub fn run(name: &str, flags: &[&str], losses: &Path) -> bool {
    static TWINS: LazyLock<Option<Mutex<Twins>>> = LazyLock::new(start);
    let Some(twins) = &*TWINS else { return false };
    let mut twins = twins.lock().unwrap_or_else(|e| e.into_inner());
    let line = [&[name], flags, &["--losses", &losses.to_string_lossy()]].concat().join("\t");
    writeln!(twins.input, "{line}").unwrap();
    let mut answer = String::new();
    twins.output.read_line(&mut answer).unwrap();
    assert_eq!(answer.trim(), "done", "the twin {name} ended with an error, which it has printed");
    true
}
