//! `flambeau-conformance [DIR] [flags]`: see [`USAGE`].

#![forbid(unsafe_code)]

use flambeau_conformance::{device, families, report, sample, worker};
use flambeau_library as library;
use flambeau_library::object;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask conformance [DIR] [flags]

Runs the recorded calls of DIR (default: the small copy in the repository) by name, and prints one line per family.

  --device NAME     run the calls on another device: vault, cuda (FLAMBEAU_CUDA=emulated runs its kernels on the CPU)
  --only TEXT       cases whose file, name or id contains TEXT
  --failures N      the first N failures with their reasons
  --list-missing    names that do not exist, by number of cases
  --list-failing    names with failing cases, by number of them
  --record          write the record of this set
  --check           compare with the record: a case that passed then and does not now is an error
  --names           print every name that can be called, and nothing else
  --signatures      print every operator's name and signatures, one a line
  --sample OUT      write a small copy of DIR to OUT";

struct Options {
    dir: Option<PathBuf>,
    only: Option<String>,
    device: Option<String>,
    failures: usize,
    missing: bool,
    failing: bool,
    record: bool,
    check: bool,
    sample: Option<PathBuf>,
    worker: bool,
    names: bool,
    signatures: bool,
}

fn parse() -> Result<Options, String> {
    let mut o = Options {
        dir: None,
        only: None,
        device: None,
        failures: 0,
        missing: false,
        failing: false,
        record: false,
        check: false,
        sample: None,
        worker: false,
        names: false,
        signatures: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{a} needs a value"));
        match a.as_str() {
            "--only" => o.only = Some(value()?),
            "--device" => o.device = Some(value()?),
            "--failures" => {
                o.failures = value()?.parse().map_err(|_| "--failures needs a number".to_string())?
            }
            "--list-missing" => o.missing = true,
            "--list-failing" => o.failing = true,
            "--record" => o.record = true,
            "--check" => o.check = true,
            "--sample" => o.sample = Some(value()?.into()),
            "--names" => o.names = true,
            "--signatures" => o.signatures = true,
            "--worker" => o.worker = true,
            "--help" | "-h" => return Err(USAGE.into()),
            f if f.starts_with('-') => return Err(format!("unknown flag {f}\n\n{USAGE}")),
            _ if o.dir.is_none() => o.dir = Some(a.into()),
            _ => return Err(format!("one folder only\n\n{USAGE}")),
        }
    }
    Ok(o)
}

/// Prints; a reader that went away (`| head`) is no error.
fn say(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

fn run() -> Result<bool, String> {
    let o = parse()?;
    if let Some(d) = &o.device {
        device::choose(d).map_err(|e| e.to_string())?;
    }
    if o.names {
        for n in library::names().into_iter().chain(object::class_names()).chain(library::constant_names()) {
            say(&format!("{n}\n"));
        }
        return Ok(true);
    }
    if o.signatures {
        for n in library::names() {
            for s in library::lookup(&n).map_or_else(Vec::new, |f| f.signatures()) {
                say(&format!("{n}\t{s}\n"));
            }
        }
        return Ok(true);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = o.dir.clone().unwrap_or_else(|| root.join("../../tests/golden"));
    let only = o.only.as_deref();
    if o.worker {
        worker::serve(&dir, only)?;
        return Ok(true);
    }
    let (seed, mark) = report::set_key(&dir)?;
    if let Some(out) = &o.sample {
        sample::write(&dir, out, seed)?;
        return Ok(true);
    }
    let files = families::files(&dir)?;
    let r = worker::run_all(&dir, &files, only, o.device.as_deref())?;
    say(&r.failures(o.failures));
    if o.missing {
        say(&r.missing());
    }
    if o.failing {
        say(&r.failing());
    }
    let path = report::record_path(root, seed, mark);
    if o.device.is_some() && (o.record || o.check) {
        return Err("records are of the CPU".into());
    }
    if o.record {
        if only.is_some() {
            return Err("a record is of all cases: leave --only out".into());
        }
        std::fs::create_dir_all(root.join("record")).map_err(|e| e.to_string())?;
        std::fs::write(&path, report::record_text(&r.record(seed))).map_err(|e| e.to_string())?;
    }
    let mut ok = true;
    if o.check {
        match std::fs::read(&path) {
            Err(_) => say(&format!("no record of seed {seed}: nothing to compare with\n")),
            Ok(text) => {
                let record = serde_json::from_slice(&text).map_err(|e| format!("{}: {e}", path.display()))?;
                let bad = r.regressions(&record);
                for l in &bad {
                    say(&format!(
                        "passed when the record was made: {} {} ({}): {:?}\n",
                        l.file, l.id, l.call, l.outcome
                    ));
                }
                ok = bad.is_empty();
            }
        }
    }
    say(&r.summary());
    Ok(ok)
}

fn main() -> ExitCode {
    // in the place of a job's launcher
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some((flag, rest)) = args.split_first()
        && flag == flambeau_conformance::distributed::elastic::LAUNCH
    {
        return ExitCode::from(flambeau_conformance::distributed::elastic::launch(rest.to_vec()));
    }
    // in a copy of this program that a case started, ends here
    torch::multiprocessing::freeze_support(&flambeau_conformance::distributed::local::FUNCTIONS);
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(2)
        }
    }
}
