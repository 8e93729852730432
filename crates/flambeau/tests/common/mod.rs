//! A live PyTorch, where there is one.

use std::process::Command;

/// The Python that has torch (`FLAMBEAU_PYTHON` or python3); without one, says so and gives `None`.
pub fn python() -> Option<String> {
    let python = std::env::var("FLAMBEAU_PYTHON").unwrap_or_else(|_| "python3".into());
    let found = Command::new(&python).args(["-c", "import torch"]).output();
    if found.is_ok_and(|o| o.status.success()) {
        return Some(python);
    }
    println!("skipped: {python} has no torch (set FLAMBEAU_PYTHON)");
    None
}

/// Runs a command to its end and gives what it printed.
pub fn output(command: &mut Command) -> String {
    let run = command.output().unwrap();
    assert!(run.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8_lossy(&run.stdout).into_owned()
}
