//! A live PyTorch, where there is one.

use std::io::Write;
use std::process::{Command, Stdio};

/// The Python that has torch (`FLAMBEAU_PYTHON` or python3); without one, says so and gives `None`.
pub fn python() -> Option<String> {
    python_with("torch")
}

/// The same with the modules that are `needs`: a list with commas.
pub fn python_with(needs: &str) -> Option<String> {
    let python = std::env::var("FLAMBEAU_PYTHON").unwrap_or_else(|_| "python3".into());
    let found = Command::new(&python).args(["-c", &format!("import {needs}")]).output();
    if found.is_ok_and(|o| o.status.success()) {
        return Some(python);
    }
    println!("skipped: {python} has no {needs} (set FLAMBEAU_PYTHON)");
    None
}

/// Runs a command to its end, with `input` to read, and gives what it printed.
pub fn output(command: &mut Command, input: &str) -> String {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let run = std::thread::scope(|s| {
        // a child that ends without reading all of it is judged by its status
        s.spawn(move || drop(stdin.write_all(input.as_bytes())));
        child.wait_with_output().unwrap()
    });
    assert!(run.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8_lossy(&run.stdout).into_owned()
}
