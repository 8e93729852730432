//! Tests that need a process of their own, because they change what the whole process shares (the default dtype, hooks of
//! all modules, figures of the allocator) or count on it (the stream of the default generator).

use std::process::{Command, Output};

/// Names the test that makes the process its own.
const ALONE: &str = "FLAMBEAU_TEST_ALONE";

/// The name under which the test binary knows the `#[test]` function that this stands in.
#[macro_export]
macro_rules! here {
    () => {{
        fn here() {}
        $crate::process::test_name(::std::any::type_name_of_val(&here))
    }};
}

/// The first line of a test that must run in a process of its own: this process starts another one of the same binary
/// for that test, judges it by its end, and is done. Other tests of the binary do not run in it.
#[macro_export]
macro_rules! alone {
    () => {
        if $crate::process::ran_alone($crate::here!()) {
            return;
        }
    };
}

/// `settings::default_dtypes` of `it::settings::default_dtypes::here`.
pub fn test_name(path: &'static str) -> &'static str {
    let path = path.strip_suffix("::here").unwrap_or(path);
    path.split_once("::").map_or(path, |(_, within)| within)
}

/// The first line of a long test that is done in `of` parts at once, each in a process of its own: gives which part this
/// process does, from 0. Returns from the process that only starts and judges them.
#[macro_export]
macro_rules! part {
    ($of:expr) => {
        match $crate::process::part($crate::here!(), $of) {
            Some(part) => part,
            None => return,
        }
    };
}

/// Runs a test in a process of its own; `false` in that process, which has the test's body to run.
///
/// # Panics
/// When the test fails there.
pub fn ran_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some_and(|t| t == test) {
        return false;
    }
    judge(test, child(test).env(ALONE, test).output().expect("a child process"));
    true
}

/// Which part of a test this process does; `None` in the one that started a process for each part.
///
/// # Panics
/// When a part fails.
pub fn part(test: &str, of: usize) -> Option<usize> {
    if let Some(part) = std::env::var(ALONE).ok().as_deref().and_then(|t| t.strip_prefix(test)) {
        return Some(part.trim_start_matches(' ').parse().expect("the number of a part"));
    }
    let parts: Vec<_> = (0..of)
        .map(|i| {
            let mut c = child(test);
            c.env(ALONE, format!("{test} {i}"));
            std::thread::spawn(move || c.output().expect("a child process"))
        })
        .collect();
    for p in parts {
        judge(test, p.join().expect("a thread that waits"));
    }
    None
}

/// This binary with one test.
fn child(test: &str) -> Command {
    let mut child = Command::new(std::env::current_exe().expect("the test binary"));
    child.args([test, "--exact", "--nocapture", "--test-threads", "1"]);
    child
}

fn judge(test: &str, run: Output) {
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    // a name that no test has would pass with no test run
    let passed = run.status.success() && out.contains("1 passed");
    assert!(passed, "{test}, in a process of its own ({}):\n{out}\n{err}", run.status);
    print!("{out}");
    eprint!("{err}");
}
