//! `cargo xtask memcheck`: tests of storage, views and iterator under the memory checkers that this machine has, with the
//! portable kernels and with a system allocation per block. Says which ran and which were skipped, and why.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The nightly toolchain's target for AddressSanitizer; std for it comes with the toolchain.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Package and test binaries whose subject is memory.
const SUITES: &[(&str, &[&str])] = &[
    ("flambeau-memory", &["lock", "pool", "deadlock"]),
    ("flambeau-core", &["smoke", "indexing", "pointwise_rows", "toy_key", "threads", "bad_input"]),
];

/// What Miri can interpret in minutes. The link-time list of operators does not exist there: core registers itself.
const MIRI_SUITES: &[(&str, &[&str])] =
    &[("flambeau-memory", &["lock", "pool"]), ("flambeau-core", &["smoke"])];

enum Outcome {
    Ran(Result<(), String>),
    Skipped(String),
}

fn cargo(root: &Path, toolchain: Option<&str>) -> Command {
    // the variable that `cargo xtask` sets names the stable binary itself; a toolchain is chosen through rustup's `cargo`
    let mut c = match toolchain {
        Some(_) => Command::new("cargo"),
        None => Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())),
    };
    if let Some(t) = toolchain {
        c.arg(format!("+{t}")).env_remove("RUSTUP_TOOLCHAIN").env_remove("RUSTC").env_remove("CARGO");
    }
    c.current_dir(root).env("FLAMBEAU_ISA", "portable").env("FLAMBEAU_POOL", "off");
    c
}

/// Whether a command starts and succeeds; its output is not shown.
fn works(c: &mut Command) -> bool {
    c.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

fn finish(mut c: Command, what: &str) -> Result<(), String> {
    match c.status() {
        Ok(s) if s.success() => Ok(()),
        Ok(s) => Err(format!("{what}: {s}")),
        Err(e) => Err(format!("{what}: {e}")),
    }
}

fn select(c: &mut Command, package: &str, tests: &[&str]) {
    c.args(["-p", package]);
    for t in tests {
        c.args(["--test", t]);
    }
}

fn target_dir(root: &Path, name: &str) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join(name)
}

fn address_sanitizer(root: &Path) -> Outcome {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Outcome::Skipped(format!("set up for {TARGET} only"));
    }
    if !works(cargo(root, Some("nightly")).arg("--version")) {
        return Outcome::Skipped("no nightly toolchain (rustup toolchain install nightly)".into());
    }
    for (package, tests) in SUITES {
        let mut c = cargo(root, Some("nightly"));
        c.args(["test", "--target", TARGET, "--target-dir"]).arg(target_dir(root, "asan"));
        select(&mut c, package, tests);
        c.env("RUSTFLAGS", "-Zsanitizer=address").env_remove("CARGO_ENCODED_RUSTFLAGS");
        // the registry and the thread-local pools live as long as the program, and a container may forbid the leak
        // checker's ptrace; errors of a failed huge allocation are what some tests ask for
        c.env("ASAN_OPTIONS", "detect_leaks=0:allocator_may_return_null=1");
        if let Err(e) = finish(c, package) {
            return Outcome::Ran(Err(e));
        }
    }
    Outcome::Ran(Ok(()))
}

/// The string value of `"key":` in one line of cargo's JSON messages.
fn json_text<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let rest = line.split_once(&format!("\"{key}\":\""))?.1;
    rest.split_once('"').map(|p| p.0)
}

/// Builds the test binaries and gives their paths.
fn binaries(root: &Path, package: &str, tests: &[&str]) -> Result<Vec<PathBuf>, String> {
    let mut c = cargo(root, None);
    c.args(["test", "--no-run", "--message-format", "json"]);
    select(&mut c, package, tests);
    let out = c.stderr(Stdio::inherit()).output().map_err(|e| e.to_string())?;
    if !out.status.success() {
        return Err(format!("{package} does not build"));
    }
    let text = String::from_utf8_lossy(&out.stdout);
    let found: Vec<PathBuf> =
        text.lines().filter_map(|l| json_text(l, "executable")).map(PathBuf::from).collect();
    if found.len() == tests.len() {
        Ok(found)
    } else {
        Err(format!("{package}: {} test binaries instead of {}", found.len(), tests.len()))
    }
}

fn valgrind(root: &Path) -> Outcome {
    if !works(Command::new("valgrind").arg("--version")) {
        return Outcome::Skipped("valgrind is not on PATH".into());
    }
    for (package, tests) in SUITES {
        let found = match binaries(root, package, tests) {
            Ok(f) => f,
            Err(e) => return Outcome::Ran(Err(e)),
        };
        for (name, binary) in tests.iter().zip(found) {
            println!("valgrind: {package} {}", binary.display());
            let mut c = Command::new("valgrind");
            c.args(["--quiet", "--error-exitcode=9", "--leak-check=no", "--fair-sched=yes"]).arg(&binary);
            c.args(["--test-threads", "1"]);
            // some tests read files beside the manifest
            c.current_dir(root.join("crates").join(package));
            c.env("FLAMBEAU_ISA", "portable").env("FLAMBEAU_POOL", "off");
            if let Err(e) = finish(c, &format!("{package} {name}")) {
                return Outcome::Ran(Err(e));
            }
        }
    }
    Outcome::Ran(Ok(()))
}

fn miri(root: &Path) -> Outcome {
    if !works(cargo(root, Some("nightly")).args(["miri", "--version"])) {
        return Outcome::Skipped("no `cargo +nightly miri` (rustup +nightly component add miri)".into());
    }
    for (package, tests) in MIRI_SUITES {
        let mut c = cargo(root, Some("nightly"));
        c.args(["miri", "test", "--target-dir"]).arg(target_dir(root, "miri"));
        select(&mut c, package, tests);
        c.env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-ignore-leaks");
        if let Err(e) = finish(c, package) {
            return Outcome::Ran(Err(e));
        }
    }
    Outcome::Ran(Ok(()))
}

/// A checker's name and what runs it.
type Checker = (&'static str, fn(&Path) -> Outcome);
const CHECKERS: &[Checker] = &[("asan", address_sanitizer), ("valgrind", valgrind), ("miri", miri)];

/// Runs the checkers named in `args`, or all.
pub fn run(root: &Path, args: &[String]) -> Result<bool, String> {
    if let Some(unknown) = args.iter().find(|a| !CHECKERS.iter().any(|c| c.0 == *a)) {
        let names: Vec<_> = CHECKERS.iter().map(|c| c.0).collect();
        return Err(format!("no checker '{unknown}'; there are {}", names.join(", ")));
    }
    let (mut lines, mut good, mut ran) = (Vec::new(), true, 0);
    for (name, check) in CHECKERS {
        if !args.is_empty() && !args.iter().any(|a| a == name) {
            lines.push(format!("{name}: skipped: not asked for"));
            continue;
        }
        let begin = Instant::now();
        lines.push(match check(root) {
            Outcome::Ran(Ok(())) => {
                ran += 1;
                format!("{name}: ran, no error found ({:.0} s)", begin.elapsed().as_secs_f64())
            }
            Outcome::Ran(Err(e)) => {
                (ran, good) = (ran + 1, false);
                format!("{name}: FAILED: {e}")
            }
            Outcome::Skipped(why) => format!("{name}: skipped: {why}"),
        });
    }
    println!("{}", lines.join("\n"));
    println!("memcheck: {ran} of {} checkers ran", CHECKERS.len());
    Ok(good && ran > 0)
}

#[cfg(test)]
mod tests {
    use super::json_text;

    #[test]
    fn executables_are_read_from_messages() {
        let line = r#"{"reason":"compiler-artifact","executable":"/t/debug/deps/lock-1","fresh":true}"#;
        assert_eq!(json_text(line, "executable"), Some("/t/debug/deps/lock-1"));
        assert_eq!(json_text(r#"{"executable":null}"#, "executable"), None);
    }
}
