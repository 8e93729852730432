//! `cargo xtask instructions`: what a call costs beside its arithmetic, in instructions, which other load does not change;
//! benches/instructions.tsv keeps them. Then what a process costs: its start, and the memory of a small training.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// By how much a count may be above the kept one.
const TOLERANCE: f64 = 0.02;
/// Calls of the two runs whose difference is counted.
const CALLS: [u64; 2] = [2000, 4000];
/// What a process should cost at most: seconds of its start, bytes of `io/peak_rss_mlp`.
const START: f64 = 3e-3;
const PEAK: f64 = 35e6;

/// A row of the kept file: the name, what was counted before core's redesign, and what is kept.
#[derive(Debug, PartialEq)]
struct Kept {
    row: String,
    before: u64,
    kept: u64,
}
/// The file's comments, and its rows.
fn kept(text: &str) -> Result<(String, Vec<Kept>), String> {
    let (mut comments, mut rows) = (String::new(), Vec::new());
    for line in text.lines() {
        if line.starts_with('#') || line.starts_with("row\t") {
            comments.push_str(line);
            comments.push('\n');
            continue;
        }
        let parts: Vec<&str> = line.split('\t').collect();
        let [row, before, kept] = parts[..] else { return Err(format!("not a row: {line}")) };
        let count = |t: &str| t.parse().map_err(|e| format!("{line}: {e}"));
        rows.push(Kept { row: row.into(), before: count(before)?, kept: count(kept)? });
    }
    Ok((comments, rows))
}

/// The count in what callgrind says.
fn collected(said: &str) -> Option<u64> {
    said.lines().find_map(|l| l.split("Collected :").nth(1))?.trim().parse().ok()
}

fn run_counted(program: &Path, row: &str, calls: u64) -> Result<u64, String> {
    // callgrind replaces the file that it writes, /dev/null too where it may
    let profile = program.with_extension("callgrind");
    let out = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(program)
        .args([row, &calls.to_string()])
        .output()
        .map_err(|e| format!("valgrind: {e}"))?;
    let _ = std::fs::remove_file(&profile);
    let said = String::from_utf8_lossy(&out.stderr);
    collected(&said).ok_or_else(|| format!("valgrind counted nothing:\n{said}"))
}
/// Instructions of a call of `dispatch_cost`'s row.
fn count(program: &Path, row: &str) -> Result<u64, String> {
    let [few, many] = CALLS;
    let (a, b) = (run_counted(program, row, few)?, run_counted(program, row, many)?);
    Ok((b.saturating_sub(a) + (many - few) / 2) / (many - few))
}

fn build(root: &Path, what: [&str; 4]) -> Result<(), String> {
    let mut c = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    c.args(["build", "--quiet", "--release", "--manifest-path"]).arg(root.join("Cargo.toml")).args(what);
    // a program with its own features is counted, even where the workspace's are built together otherwise
    c.env("CARGO_RESOLVER_FEATURE_UNIFICATION", "selected");
    if c.status().is_ok_and(|s| s.success()) { Ok(()) } else { Err(format!("{} does not build", what[3])) }
}

/// Start of a process, the shortest of many; memory of 200 training steps.
fn process(bench: &Path) -> Result<(f64, f64), String> {
    let child = |name: &str| {
        let mut c = Command::new(bench);
        c.args(["--child", name, "--threads", "1"]);
        c
    };
    let mut start = f64::INFINITY;
    for _ in 0..20 {
        let t = Instant::now();
        if !child("startup").status().is_ok_and(|s| s.success()) {
            return Err("the process did not start".into());
        }
        start = start.min(t.elapsed().as_secs_f64());
    }
    let out = child("peak-rss").output().map_err(|e| e.to_string())?;
    let peak = String::from_utf8_lossy(&out.stdout).trim().parse();
    Ok((start, peak.map_err(|_| "no figure of the memory on this system")?))
}

/// `--check` fails where a count is more than 2 % above the kept one; `--write` keeps what was counted.
pub fn run(root: &Path, args: &[String]) -> Result<bool, String> {
    let (check, write) = match args {
        [] => (false, false),
        [flag] if flag == "--check" => (true, false),
        [flag] if flag == "--write" => (false, true),
        _ => return Err("usage: cargo xtask instructions [--check | --write]".into()),
    };
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("instructions: left out, there is no valgrind");
        return Ok(true);
    }
    build(root, ["--package", "flambeau", "--example", "dispatch_cost"])?;
    build(root, ["--package", "flambeau-bench", "--bin", "flambeau-bench"])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let exe = |name: &str| target.join("release").join(name).with_extension(std::env::consts::EXE_EXTENSION);
    let path = root.join("benches/instructions.tsv");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let (mut out, rows) = kept(&text)?;
    let mut good = true;
    println!("{:<14} {:>10} {:>10} {:>10} {:>8}", "row", "before", "kept", "now", "change");
    for k in &rows {
        let now = count(&exe("examples/dispatch_cost"), &k.row)?;
        let change = now as f64 / k.kept as f64 - 1.0;
        let above = change > TOLERANCE;
        good &= !above;
        let note = if above { "  above the kept count" } else { "" };
        println!("{:<14} {:>10} {:>10} {now:>10} {:>7.1}%{note}", k.row, k.before, k.kept, change * 100.0);
        let _ = writeln!(out, "{}\t{}\t{now}", k.row, k.before);
    }
    if write {
        std::fs::write(&path, out).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let (start, peak) = process(&exe("flambeau-bench"))?;
    let word = |good: bool| if good { "met" } else { "MISSED" };
    println!(
        "start of a process: {:.2} ms (at most {:.0}: {})",
        start * 1e3,
        START * 1e3,
        word(start <= START)
    );
    println!(
        "peak memory of 200 steps of an MLP: {:.1} MB (at most {:.0}: {})",
        peak / 1e6,
        PEAK / 1e6,
        word(peak <= PEAK)
    );
    Ok(good || !check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_file_is_read() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/instructions.tsv");
        let (comments, rows) = kept(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert!(comments.ends_with("row\tbefore\tafter\n"));
        assert!(rows.len() >= 4 && rows.iter().all(|r| r.before > 0 && r.kept > 0), "{rows:?}");
        assert!(kept("add_1\t7").is_err() && kept("add_1\tx\t7").is_err());
    }

    #[test]
    fn counts_are_found() {
        assert_eq!(collected("==1== Events    : Ir\n==1== Collected : 123456\n"), Some(123456));
        assert_eq!(collected("nothing"), None);
    }
}
