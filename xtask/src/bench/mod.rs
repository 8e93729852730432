//! `cargo xtask bench`: builds the benchmark, runs it, runs PyTorch beside it where Python and torch are found, and compares.

mod chart;
mod compare;
mod device;
mod growth;
mod limits;
mod networks;
mod results;
mod sides;

use compare::Comparison;
use results::Results;
use sides::Sides;
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str = "usage: cargo xtask bench [--threads 1,2] [--only TEXT[,TEXT]] [--min-time SECONDS] \
    [--python PATH] [--compare FILE] [--out FILE] [--networks [--quick] | --growth | --limits | --device cuda | --ranks N]";

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
enum What {
    /// `rows.json`, an operator or a step each.
    Rows,
    /// `networks.json`; only the quick ones if that is set.
    Networks { quick: bool },
    /// `growth.json`, operators over sizes.
    Growth,
    /// The machine, and how far rows and networks measured before are from what it can do.
    Limits,
    /// Rows of a device.
    Device(String),
    /// Collectives and training steps of as many processes.
    Ranks(usize),
}

struct Args {
    what: What,
    threads: Vec<usize>,
    /// Handed on to both programs.
    passed: Vec<String>,
    only: Vec<String>,
    python: Option<PathBuf>,
    compare: Option<PathBuf>,
    out: Option<PathBuf>,
}
impl Args {
    fn wants(&self, id: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|s| id.contains(s.as_str()))
    }
    /// A flag with a value.
    fn set(&mut self, flag: &str, value: &str) -> Result<(), String> {
        match flag {
            "--threads" => {
                let all: Option<Vec<usize>> =
                    value.split(',').map(|n| n.parse().ok().filter(|n| *n > 0)).collect();
                self.threads = all.ok_or("--threads wants numbers from 1, with commas")?;
            }
            "--only" => self.only = value.split(',').filter(|s| !s.is_empty()).map(str::to_string).collect(),
            "--min-time" => self.passed.extend([flag.to_string(), value.to_string()]),
            "--python" => self.python = Some(value.into()),
            "--compare" => self.compare = Some(value.into()),
            "--out" => self.out = Some(value.into()),
            "--device" => self.what = What::Device(value.into()),
            "--ranks" => {
                let n = value.parse().ok().filter(|n| *n > 1);
                self.what = What::Ranks(n.ok_or("--ranks wants a number from 2")?);
            }
            _ => return Err(format!("{flag}: no such flag\n{USAGE}")),
        }
        Ok(())
    }
}

fn arguments(args: &[String]) -> Result<Args, String> {
    let mut a = Args {
        what: What::Rows,
        threads: vec![1, 2],
        passed: Vec::new(),
        only: Vec::new(),
        python: None,
        compare: None,
        out: None,
    };
    let mut quick = false;
    let mut given = args.iter();
    while let Some(flag) = given.next() {
        match flag.as_str() {
            "--networks" => a.what = What::Networks { quick: false },
            "--growth" => a.what = What::Growth,
            "--limits" => a.what = What::Limits,
            "--quick" => quick = true,
            _ => {
                let value = given.next();
                let value =
                    value.ok_or_else(|| format!("{flag}: no such flag, or its value is missing\n{USAGE}"))?;
                a.set(flag, value)?;
            }
        }
    }
    match &mut a.what {
        What::Networks { quick: q } => *q = quick,
        _ if quick => return Err("--quick is for --networks".into()),
        _ => {}
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

/// Where the other side's results go: `a/b.json` gives `a/b-pytorch.json`.
fn beside(out: &Path) -> PathBuf {
    let stem = out.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    out.with_file_name(format!("{stem}-pytorch.json"))
}

pub fn run(root: &Path, args: &[String]) -> Result<bool, String> {
    let a = arguments(args)?;
    match &a.what {
        What::Rows => rows(root, &a),
        What::Networks { quick } => networks::run(root, &a, *quick),
        What::Growth => growth::run(root, &a),
        What::Limits => limits::run(root, &a),
        What::Device(d) => {
            device::run(root, d, &a.only, python(a.python.as_deref()).as_deref(), a.out.as_deref())
        }
        What::Ranks(n) => ranks(root, &a, *n),
    }
}

/// Processes of `benches/src/bin/ranks.rs`, in turns with PyTorch's.
fn ranks(root: &Path, a: &Args, n: usize) -> Result<bool, String> {
    let mut c = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    c.args(["run", "--quiet", "--release", "--package", "flambeau-bench", "--bin", "flambeau-bench-ranks"]);
    c.arg("--manifest-path").arg(root.join("Cargo.toml")).args(["--", "--ranks", &n.to_string()]);
    if let [only, ..] = &a.only[..] {
        c.args(["--only", only]);
    }
    match python(a.python.as_deref()) {
        Some(p) => drop(c.arg("--python").arg(p)),
        None => println!("nothing to compare with: no Python with torch (--python, FLAMBEAU_PYTHON)"),
    }
    let done = c.status().map_err(|e| format!("flambeau-bench-ranks: {e}"))?;
    Ok(done.success())
}

fn rows(root: &Path, a: &Args) -> Result<bool, String> {
    let list: Vec<String> =
        results::ids(&root.join("benches/rows.json"))?.into_iter().filter(|id| a.wants(id)).collect();
    if list.is_empty() {
        return Err("--only selects no row".into());
    }
    let sides = Sides::new(root, a, "flambeau.json")?;
    let mut theirs = match &a.compare {
        Some(path) => Some(results::read(path)?),
        None => sides.has_python().then(Results::default),
    };
    let mut ours = Results::default();
    for threads in &a.threads {
        // group by group, so that both sides meet the same load
        for ids in groups(&list) {
            let measured = sides.ours("rows", *threads, ids, &[])?;
            let ids: Vec<&str> =
                ids.iter().map(String::as_str).filter(|id| measured.runs(id, *threads)).collect();
            ours.merge(measured);
            ours.write(&sides.out)?;
            if let (Some(theirs), false) = (&mut theirs, ids.is_empty())
                && let Some(measured) = sides.theirs("pytorch.py", *threads, &ids, &[])?
            {
                theirs.merge(measured);
                theirs.write(&beside(&sides.out))?;
            }
        }
    }
    if theirs.is_none() {
        println!("nothing to compare with: no Python with torch (--python, FLAMBEAU_PYTHON), no --compare");
    }
    let comparison = Comparison::new(&list, &a.threads, &ours, &theirs.unwrap_or_default());
    print!("{}", comparison.report());
    println!("\nresults: {}", sides.out.display());
    Ok(comparison.sound())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags() {
        let of = |s: &str| arguments(&s.split(' ').map(str::to_string).collect::<Vec<_>>());
        let a = of("--threads 1,2 --only add,view --min-time 0.1 --out x.json").unwrap();
        assert_eq!(a.what, What::Rows);
        assert_eq!((a.threads.as_slice(), a.passed.len(), a.only.len()), (&[1, 2][..], 2, 2));
        assert!(of("--threads 0").is_err() && of("--fast yes").is_err() && of("--only").is_err());
        assert!(of("--python p --compare f").is_err() && of("--quick").is_err());
        assert_eq!(of("--networks --quick --threads 1").unwrap().what, What::Networks { quick: true });
        let ids = ["a/x", "a/y", "b/x"].map(String::from);
        assert_eq!(groups(&ids).map(<[String]>::len).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(beside(Path::new("a/b.json")), Path::new("a/b-pytorch.json"));
    }
}
