//! `cargo xtask memcheck`: tests of storage, views, indexing and iterator, and models of what threads do at once, under the checkers that
//! this machine has, with the portable kernels and with a system allocation per block. Says which ran and which were skipped, and why.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// AddressSanitizer needs an explicit target, so that build scripts and macros are built without it.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Package and modules of its tests (`tests/it`) whose subject is memory.
const SUITES: &[(&str, &[&str])] = &[
    ("flambeau-memory", &["lock::", "pool::", "deadlock::"]),
    ("flambeau-core", &["memory::", "ops::indexing::", "basics::", "threads::"]),
];

/// Kernels over raw pointers, by their tests and with the instructions that this machine has: what the portable runs
/// do not see.
const KERNELS: (&[&str], &[&str]) = (
    &["flambeau-cpu", "flambeau-cpu-fft", "flambeau-cpu-linalg"],
    // left out are those of the engine, which count on nothing but itself, and those that print times
    &["--skip", "engine::", "--skip", "speed"],
);

/// What several threads do at once: locks and blocks of memory, and tensors over them. The standard library is built with the
/// sanitizer as well, since it would see races in the locks otherwise.
const THREADS: &[(&str, &[&str])] =
    &[("flambeau-memory", &["lock::", "pool::", "shared::"]), ("flambeau-core", &["threads::"])];

/// What Miri can interpret in minutes. The link-time list of operators does not exist there: core registers itself.
const MIRI_SUITES: &[(&str, &[&str])] =
    &[("flambeau-memory", &["lock::", "pool::"]), ("flambeau-core", &["basics::"])];

/// A tool that watches a program's memory.
struct Checker {
    name: &'static str,
    /// Why it cannot run here, if so.
    missing: fn(&Path) -> Option<String>,
    /// Runs the tests under it.
    ///
    /// # Errors
    /// What it found.
    run: fn(&Path) -> Result<(), String>,
}

const CHECKERS: &[Checker] = &[
    Checker { name: "asan", missing: no_address_sanitizer, run: address_sanitizer },
    Checker { name: "tsan", missing: no_thread_sanitizer, run: thread_sanitizer },
    Checker { name: "valgrind", missing: no_valgrind, run: valgrind },
    Checker { name: "miri", missing: no_miri, run: miri },
    Checker { name: "loom", missing: |_| None, run: loom },
];

/// Cargo of this toolchain, or of another one, with the environment that all checkers share.
fn cargo(root: &Path, toolchain: Option<&str>) -> Command {
    let own = || std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // `CARGO` names the binary of this toolchain; another one is chosen through rustup's
    let mut c = Command::new(if toolchain.is_some() { "cargo".into() } else { own() });
    if let Some(t) = toolchain {
        c.arg(format!("+{t}")).env_remove("RUSTUP_TOOLCHAIN").env_remove("RUSTC").env_remove("CARGO");
    }
    c.current_dir(root).env("FLAMBEAU_ISA", "portable").env("FLAMBEAU_POOL", "off");
    // findings name lines
    c.env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only").env("CARGO_PROFILE_TEST_STRIP", "none");
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

/// The test binary of a package.
fn select(c: &mut Command, package: &str) {
    c.args(["-p", package, "--test", "it"]);
}

fn target_dir(root: &Path, name: &str) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join(name)
}

fn no_address_sanitizer(_: &Path) -> Option<String> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Some(format!("set up for {TARGET} only"));
    }
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = Command::new(rustc).args(["--print", "sysroot"]).output().ok()?;
    let lib = Path::new(String::from_utf8_lossy(&sysroot.stdout).trim())
        .join("lib/rustlib")
        .join(TARGET)
        .join("lib");
    let has = std::fs::read_dir(&lib)
        .is_ok_and(|d| d.flatten().any(|f| f.file_name().to_string_lossy().contains("rt.asan")));
    (!has).then(|| format!("the toolchain has no AddressSanitizer runtime in {}", lib.display()))
}

fn address_sanitizer(root: &Path) -> Result<(), String> {
    let sanitized = || {
        let mut c = cargo(root, None);
        c.args(["test", "--quiet", "--target", TARGET, "--target-dir"]).arg(target_dir(root, "asan"));
        // the flag is not stable, the sanitizer itself is part of the stable toolchain
        c.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address");
        c.env_remove("CARGO_ENCODED_RUSTFLAGS");
        // the registry and the threads' pools live as long as the program, and a container may forbid the leak checker's
        // ptrace; a huge allocation that fails is what some tests ask for
        c.env("ASAN_OPTIONS", "detect_leaks=0:allocator_may_return_null=1");
        c
    };
    for (package, tests) in SUITES {
        let mut c = sanitized();
        select(&mut c, package);
        c.arg("--").args(*tests);
        finish(c, package)?;
    }
    let (packages, but) = KERNELS;
    for package in packages {
        let mut c = sanitized();
        c.args(["-p", package, "--"]).args(but).env_remove("FLAMBEAU_ISA");
        finish(c, package)?;
    }
    Ok(())
}

fn no_thread_sanitizer(_: &Path) -> Option<String> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Some(format!("set up for {TARGET} only"));
    }
    let rustup = Command::new("rustup").args(["which", "--toolchain", "nightly", "rustc"]).output();
    let Some(rustc) = rustup.ok().filter(|o| o.status.success()) else {
        return Some("rustup has no nightly toolchain, which builds the standard library anew".into());
    };
    let rustc = PathBuf::from(String::from_utf8_lossy(&rustc.stdout).trim());
    let lib = rustc.parent().and_then(Path::parent).unwrap_or(Path::new("/")).join("lib/rustlib");
    let has = std::fs::read_dir(lib.join(TARGET).join("lib"))
        .is_ok_and(|d| d.flatten().any(|f| f.file_name().to_string_lossy().contains("rt.tsan")));
    if !has {
        return Some(format!("the nightly toolchain has no ThreadSanitizer runtime in {}", lib.display()));
    }
    let source = lib.join("src/rust/library/std").is_dir();
    (!source).then(|| {
        "the nightly toolchain has no source of the standard library (rustup +nightly component add rust-src)".into()
    })
}

fn thread_sanitizer(root: &Path) -> Result<(), String> {
    for (package, tests) in THREADS {
        let mut c = cargo(root, Some("nightly"));
        c.args(["test", "--quiet", "-Zbuild-std", "--target", TARGET, "--target-dir"]);
        c.arg(target_dir(root, "tsan")).env("RUSTFLAGS", "-Zsanitizer=thread");
        c.env_remove("CARGO_ENCODED_RUSTFLAGS");
        select(&mut c, package);
        c.arg("--").args(*tests);
        finish(c, package)?;
    }
    Ok(())
}

/// The string value of `"key":` in one line of cargo's JSON messages.
fn json_text<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let rest = line.split_once(&format!("\"{key}\":\""))?.1;
    rest.split_once('"').map(|p| p.0)
}

/// Builds a package's test binary and gives its path.
fn binary(root: &Path, package: &str) -> Result<PathBuf, String> {
    let mut c = cargo(root, None);
    c.args(["test", "--no-run", "--message-format", "json"]);
    select(&mut c, package);
    let out = c.stderr(Stdio::inherit()).output().map_err(|e| e.to_string())?;
    if !out.status.success() {
        return Err(format!("{package} does not build"));
    }
    let text = String::from_utf8_lossy(&out.stdout);
    let mut found = text.lines().filter_map(|l| json_text(l, "executable")).map(PathBuf::from);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (one, _) => {
            Err(format!("{package}: {} test binary", if one.is_some() { "more than one" } else { "no" }))
        }
    }
}

fn no_valgrind(_: &Path) -> Option<String> {
    (!works(Command::new("valgrind").arg("--version"))).then(|| "valgrind is not on PATH".into())
}

fn valgrind(root: &Path) -> Result<(), String> {
    for (package, tests) in SUITES {
        let binary = binary(root, package)?;
        println!("valgrind: {package} {}", binary.display());
        let mut c = Command::new("valgrind");
        c.args(["--quiet", "--error-exitcode=9", "--leak-check=no", "--fair-sched=yes"]).arg(&binary);
        c.args(["--test-threads", "1"]).args(*tests);
        // some tests read files beside the manifest
        c.current_dir(root.join("crates").join(package));
        c.env("FLAMBEAU_ISA", "portable").env("FLAMBEAU_POOL", "off");
        finish(c, &binary.display().to_string())?;
    }
    Ok(())
}

/// The toolchain that has Miri: this one (a nightly) or rustup's nightly.
fn miri_toolchain(root: &Path) -> Option<Option<&'static str>> {
    [None, Some("nightly")].into_iter().find(|t| works(cargo(root, *t).args(["miri", "--version"])))
}

fn no_miri(root: &Path) -> Option<String> {
    miri_toolchain(root)
        .is_none()
        .then(|| "neither `cargo miri` nor `cargo +nightly miri` (rustup +nightly component add miri)".into())
}

fn miri(root: &Path) -> Result<(), String> {
    let toolchain = miri_toolchain(root).ok_or("Miri is gone")?;
    for (package, tests) in MIRI_SUITES {
        let mut c = cargo(root, toolchain);
        c.args(["miri", "test", "--target-dir"]).arg(target_dir(root, "miri"));
        select(&mut c, package);
        c.arg("--").args(*tests);
        c.env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-ignore-leaks");
        finish(c, package)?;
    }
    Ok(())
}

/// Models of the lock's word and of registrations: every order in which a few threads can take their steps.
fn loom(root: &Path) -> Result<(), String> {
    let mut c = cargo(root, None);
    c.args(["test", "--quiet", "--release", "--target-dir"]).arg(target_dir(root, "loom"));
    c.env("RUSTFLAGS", "--cfg loom").env_remove("CARGO_ENCODED_RUSTFLAGS");
    select(&mut c, "flambeau-memory");
    c.arg("loom::");
    finish(c, "flambeau-memory")
}

/// Runs the checkers named in `args`, or all.
pub fn run(root: &Path, args: &[String]) -> Result<bool, String> {
    let (lines, good) = check(CHECKERS, root, args)?;
    println!("{}", lines.join("\n"));
    Ok(good)
}

/// One line per checker and one in all; whether at least one ran and none found anything.
fn check(checkers: &[Checker], root: &Path, asked: &[String]) -> Result<(Vec<String>, bool), String> {
    if let Some(unknown) = asked.iter().find(|a| !checkers.iter().any(|c| c.name == *a)) {
        let names: Vec<_> = checkers.iter().map(|c| c.name).collect();
        return Err(format!("no checker '{unknown}'; there are {}", names.join(", ")));
    }
    let (mut lines, mut found, mut ran) = (Vec::new(), 0, 0);
    for c in checkers {
        if !asked.is_empty() && !asked.iter().any(|a| a == c.name) {
            lines.push(format!("{}: skipped: not asked for", c.name));
            continue;
        }
        if let Some(why) = (c.missing)(root) {
            lines.push(format!("{}: skipped: {why}", c.name));
            continue;
        }
        ran += 1;
        let begin = Instant::now();
        lines.push(match (c.run)(root) {
            Ok(()) => format!("{}: ran, no error found ({:.0} s)", c.name, begin.elapsed().as_secs_f64()),
            Err(e) => {
                found += 1;
                format!("{}: FAILED: {e}", c.name)
            }
        });
    }
    lines.push(format!("memcheck: {ran} of {} checkers ran, {found} found errors", checkers.len()));
    Ok((lines, found == 0 && ran > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yes(_: &Path) -> Option<String> {
        None
    }
    fn no(_: &Path) -> Option<String> {
        Some("not on this machine".into())
    }
    fn fine(_: &Path) -> Result<(), String> {
        Ok(())
    }
    fn bad(_: &Path) -> Result<(), String> {
        Err("smoke: exit status: 9".into())
    }
    fn lines(checkers: &[Checker], asked: &[&str]) -> (String, bool) {
        let asked: Vec<String> = asked.iter().map(|s| s.to_string()).collect();
        let (l, good) = check(checkers, Path::new("."), &asked).expect("known names");
        (l.join("\n"), good)
    }

    #[test]
    fn says_what_ran_and_what_was_skipped() {
        let all = [
            Checker { name: "a", missing: yes, run: fine },
            Checker { name: "b", missing: no, run: bad },
            Checker { name: "c", missing: yes, run: bad },
        ];
        let (text, good) = lines(&all[..2], &[]);
        assert!(good, "{text}");
        assert!(text.contains("a: ran, no error found") && text.contains("b: skipped: not on this machine"));
        assert!(text.ends_with("memcheck: 1 of 2 checkers ran, 0 found errors"), "{text}");
        let (text, good) = lines(&all, &[]);
        assert!(!good && text.contains("c: FAILED: smoke: exit status: 9"), "{text}");
        let (text, good) = lines(&all, &["a"]);
        assert!(good && text.contains("c: skipped: not asked for"), "{text}");
        // nothing checked is no success
        assert!(!lines(&all, &["b"]).1);
        let e = check(&all, Path::new("."), &["d".to_string()]).unwrap_err();
        assert_eq!(e, "no checker 'd'; there are a, b, c");
    }

    #[test]
    fn suites_name_tests_that_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
        for (package, tests) in SUITES.iter().chain(MIRI_SUITES).chain(THREADS) {
            for t in *tests {
                let file = t.trim_end_matches("::").replace("::", "/");
                let file = root.join("crates").join(package).join("tests/it").join(file + ".rs");
                assert!(file.is_file(), "{}", file.display());
            }
        }
    }

    #[test]
    fn executables_are_read_from_messages() {
        let line = r#"{"reason":"compiler-artifact","executable":"/t/debug/deps/lock-1","fresh":true}"#;
        assert_eq!(json_text(line, "executable"), Some("/t/debug/deps/lock-1"));
        assert_eq!(json_text(r#"{"executable":null}"#, "executable"), None);
    }
}
