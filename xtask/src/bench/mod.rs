//! `cargo xtask bench`: builds the benchmark, runs it, runs PyTorch beside it where Python and torch are found, and compares.

mod compare;
mod device;
mod results;

use compare::Comparison;
use results::Results;
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str = "usage: cargo xtask bench [--threads 1,2] [--only TEXT[,TEXT]] [--min-time SECONDS] \
    [--python PATH] [--compare FILE] [--out FILE] [--device cuda]";

struct Args {
    threads: Vec<usize>,
    /// Handed on to both programs.
    passed: Vec<String>,
    only: Vec<String>,
    python: Option<PathBuf>,
    compare: Option<PathBuf>,
    out: Option<PathBuf>,
    device: Option<String>,
}

fn arguments(args: &[String]) -> Result<Args, String> {
    let (passed, only) = (Vec::new(), Vec::new());
    let mut a =
        Args { threads: vec![1, 2], passed, only, python: None, compare: None, out: None, device: None };
    let mut given = args.iter();
    while let Some(flag) = given.next() {
        let value =
            given.next().ok_or_else(|| format!("{flag}: no such flag, or its value is missing\n{USAGE}"))?;
        match flag.as_str() {
            "--threads" => {
                let all: Option<Vec<usize>> =
                    value.split(',').map(|n| n.parse().ok().filter(|n| *n > 0)).collect();
                a.threads = all.ok_or("--threads wants numbers from 1, with commas")?;
            }
            "--only" => a.only = value.split(',').filter(|s| !s.is_empty()).map(str::to_string).collect(),
            "--min-time" => a.passed.extend([flag.clone(), value.clone()]),
            "--python" => a.python = Some(value.into()),
            "--compare" => a.compare = Some(value.into()),
            "--out" => a.out = Some(value.into()),
            "--device" => a.device = Some(value.clone()),
            _ => return Err(format!("{flag}: no such flag\n{USAGE}")),
        }
    }
    if a.python.is_some() && a.compare.is_some() {
        return Err("--python runs the other side, --compare reads it: one of them".into());
    }
    Ok(a)
}

/// Builds in release form; gives the folder of the programs.
fn build(root: &Path) -> Result<PathBuf, String> {
    let cargo = || Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    let manifest = root.join("Cargo.toml");
    // the example is the program whose size an installation has
    for what in [
        ["--package", "flambeau-bench", "--bin", "flambeau-bench"],
        ["--package", "flambeau", "--example", "digits"],
    ] {
        let mut c = cargo();
        c.args(["build", "--quiet", "--release", "--manifest-path"]).arg(&manifest).args(what);
        if !c.status().is_ok_and(|s| s.success()) {
            return Err(format!("{} {} does not build", what[2], what[3]));
        }
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release"))
}

/// The Python that was asked for, or one with torch.
fn python(asked: Option<&Path>) -> Option<PathBuf> {
    let asked =
        asked.map(Path::to_path_buf).or_else(|| std::env::var_os("FLAMBEAU_PYTHON").map(PathBuf::from));
    let python = asked.unwrap_or_else(|| "python3".into());
    let found = Command::new(&python).args(["-c", "import torch"]).output();
    found.is_ok_and(|o| o.status.success()).then_some(python)
}

/// The rows of each group: stretches of ids with the same start.
fn groups(ids: &[String]) -> impl Iterator<Item = &[String]> {
    ids.chunk_by(|a, b| a.split('/').next() == b.split('/').next())
}

/// Runs one side for one number of threads; its results.
fn measure(
    mut program: Command,
    threads: usize,
    ids: &[impl AsRef<str>],
    passed: &[String],
    out: &Path,
) -> Result<Results, String> {
    let _ = std::fs::remove_file(out);
    let only: Vec<&str> = ids.iter().map(AsRef::as_ref).collect();
    program
        .args(["--threads", &threads.to_string(), "--only", &only.join(","), "--out"])
        .arg(out)
        .args(passed);
    let status = program.status().map_err(|e| e.to_string())?;
    if !status.success() {
        return Err(format!("{} failed ({status})", program.get_program().display()));
    }
    results::read(out)
}

/// Where the other side's results go: `a/b.json` gives `a/b-pytorch.json`.
fn beside(out: &Path) -> PathBuf {
    let stem = out.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    out.with_file_name(format!("{stem}-pytorch.json"))
}

pub fn run(root: &Path, args: &[String]) -> Result<bool, String> {
    let a = arguments(args)?;
    if let Some(d) = &a.device {
        return device::run(root, d, &a.only, python(a.python.as_deref()).as_deref(), a.out.as_deref());
    }
    let data = root.join("benches");
    let list: Vec<String> = results::ids(&data.join("rows.json"))?;
    let list =
        list.into_iter().filter(|id| a.only.is_empty() || a.only.iter().any(|s| id.contains(s.as_str())));
    let list: Vec<String> = list.collect();
    if list.is_empty() {
        return Err("--only selects no row".into());
    }
    let programs = build(root)?;
    let out = a.out.clone().unwrap_or_else(|| programs.with_file_name("bench").join("flambeau.json"));
    let folder = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let exe = |name: &str| programs.join(name).with_extension(std::env::consts::EXE_EXTENSION);
    let python = if a.compare.is_some() { None } else { python(a.python.as_deref()) };
    let mut theirs = match &a.compare {
        Some(path) => Some(results::read(path)?),
        None => python.is_some().then(Results::default),
    };
    let mut ours = Results::default();
    let part = out.with_extension("part.json");
    for threads in &a.threads {
        // group by group, so that both sides meet the same load
        for ids in groups(&list) {
            eprintln!("-- flambeau, threads: {threads}");
            let mut c = Command::new(exe("flambeau-bench"));
            c.arg("--program").arg(exe("examples/digits"));
            let measured = measure(c, *threads, ids, &a.passed, &part)?;
            let ids: Vec<&str> =
                ids.iter().map(String::as_str).filter(|id| measured.runs(id, *threads)).collect();
            ours.merge(measured);
            ours.write(&out)?;
            if let (Some(python), Some(theirs), false) = (&python, &mut theirs, ids.is_empty()) {
                eprintln!("-- PyTorch, threads: {threads}");
                let mut c = Command::new(python);
                c.arg(data.join("pytorch.py"));
                theirs.merge(measure(c, *threads, &ids, &a.passed, &part)?);
                theirs.write(&beside(&out))?;
            }
        }
    }
    let _ = std::fs::remove_file(&part);
    if theirs.is_none() {
        println!("nothing to compare with: no Python with torch (--python, FLAMBEAU_PYTHON), no --compare");
    }
    let comparison = Comparison::new(&list, &a.threads, &ours, &theirs.unwrap_or_default());
    print!("{}", comparison.report());
    println!("\nresults: {}", out.display());
    Ok(comparison.sound())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags() {
        let of = |s: &str| arguments(&s.split(' ').map(str::to_string).collect::<Vec<_>>());
        let a = of("--threads 1,2 --only add,view --min-time 0.1 --out x.json").unwrap();
        assert_eq!((a.threads.as_slice(), a.passed.len(), a.only.len()), (&[1, 2][..], 2, 2));
        assert!(of("--threads 0").is_err() && of("--fast yes").is_err() && of("--only").is_err());
        assert!(of("--python p --compare f").is_err());
        let ids = ["a/x", "a/y", "b/x"].map(String::from);
        assert_eq!(groups(&ids).map(<[String]>::len).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(beside(Path::new("a/b.json")), Path::new("a/b-pytorch.json"));
    }
}
