//! Tests that need a process of their own, because they change what the whole process shares (the default dtype, hooks of
//! all modules, figures of the allocator) or count on it (the stream of the default generator).

use std::process::Command;

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

/// Runs a test in a process of its own; `false` in that process, which has the test's body to run.
///
/// # Panics
/// When the test fails there.
pub fn ran_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some_and(|t| t == test) {
        return false;
    }
    let mut child = Command::new(std::env::current_exe().expect("the test binary"));
    child.args([test, "--exact", "--nocapture", "--test-threads", "1"]).env(ALONE, test);
    let run = child.output().expect("a child process");
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    // a name that no test has would pass with no test run
    let passed = run.status.success() && out.contains("1 passed");
    assert!(passed, "{test}, in a process of its own ({}):\n{out}\n{err}", run.status);
    print!("{out}");
    eprint!("{err}");
    true
}
