//! `onnx/`, `models/onnx`: exported programs are written as ONNX models, and the set's own script judges them with onnxruntime.

use super::super::{Case, File, Outcome, text};
use crate::decode::Stop;
use std::cell::OnceCell;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;
use std::sync::OnceLock;

/// The versions of ONNX's operators that programs are judged at: the oldest and the newest that are written.
const OPSETS: [i64; 2] = [18, 23];

/// All cases of a file, at each version.
pub fn cases<'a>(f: &'a File) -> Vec<Case<'a>> {
    let mut all = Vec::new();
    for opset in OPSETS {
        // one model and one run of the script serve all cases
        let judged: Rc<OnceCell<Judged>> = Rc::default();
        for c in f.list("cases") {
            let (judged, id) = (judged.clone(), text(c, "id"));
            let run = move || Outcome::of(judged.get_or_init(|| judge(f, opset)).case(id));
            all.push(Case {
                id: format!("opset {opset} run {id}"),
                call: text(&f.json, "name").to_string(),
                core: false,
                run: Box::new(run),
            });
        }
    }
    all
}

/// What the script said of a model: the cases that fail, with its reasons; or why there is nothing to say.
#[derive(Debug, PartialEq)]
pub struct Judged(Result<Vec<(String, String)>, Stop>);
impl Judged {
    /// What became of a case.
    ///
    /// # Errors
    /// It failed, or could not be judged.
    pub fn case(&self, id: &str) -> Result<(), Stop> {
        let failed = self.0.as_ref().map_err(Clone::clone)?;
        match failed.iter().find(|(case, _)| case == id) {
            None => Ok(()),
            Some((_, why)) => Err(Stop::Failed(why.clone())),
        }
    }
    /// Reads the script's output for a program with so many cases.
    pub fn read(output: &str, name: &str, cases: usize) -> Judged {
        let start = format!("FAIL {name} ");
        let failed: Vec<(String, String)> = output
            .lines()
            .filter_map(|l| l.strip_prefix(&start)?.split_once(": "))
            .map(|(id, why)| (id.to_string(), why.to_string()))
            .collect();
        // the last line counts: a script that ended early has judged nothing
        let sum = format!(
            "{} cases passed, {} failed, 0 files missing",
            cases - failed.len().min(cases),
            failed.len()
        );
        match output.lines().last() {
            Some(l) if l.starts_with(&sum) => Judged(Ok(failed)),
            l => Judged(Err(Stop::Failed(format!("the script said '{}'", l.unwrap_or(""))))),
        }
    }
}

/// The Python that can run the script.
fn python() -> Option<&'static PathBuf> {
    static PYTHON: OnceLock<Option<PathBuf>> = OnceLock::new();
    PYTHON
        .get_or_init(|| {
            let python = std::env::var_os("FLAMBEAU_PYTHON").map_or_else(|| "python3".into(), PathBuf::from);
            let found = Command::new(&python).args(["-c", "import numpy, onnx, onnxruntime"]).output();
            found.is_ok_and(|o| o.status.success()).then_some(python)
        })
        .as_ref()
}

fn judge(f: &File, opset: i64) -> Judged {
    let name = text(&f.json, "name");
    match output(f, opset) {
        Ok(said) => Judged::read(&said, name, f.list("cases").len()),
        Err(e) => Judged(Err(e)),
    }
}
/// The script's output.
fn output(f: &File, opset: i64) -> Result<String, Stop> {
    let Some(python) = python() else {
        return Err(Stop::Missing("judging ONNX models without onnxruntime (FLAMBEAU_PYTHON)".into()));
    };
    let name = text(&f.json, "name");
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let options = flambeau_onnx::ExportOptions::new().opset_version(opset);
    let made = flambeau_export::load(f.folder.join(text(&f.json, "program")))
        .and_then(|p| flambeau_onnx::try_export(&p, options))
        .and_then(|m| m.save(folder.path().join(format!("{name}.onnx"))));
    match made {
        // where PyTorch has no model, none is demanded
        Err(e) if f.json["reference"].is_null() => {
            return Err(Stop::Missing(format!("{e} (PyTorch's exporter refuses the program too)")));
        }
        made => made?,
    }
    let mut script = Command::new(python);
    script.arg(f.folder.join("judge_onnx.py")).arg(folder.path()).arg(&f.folder).args(["--only", name]);
    let out = script.output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    // 1: some case failed
    match out.status.code() {
        Some(0 | 1) if !said.is_empty() => Ok(said),
        _ => {
            let why = String::from_utf8_lossy(&out.stderr);
            Err(Stop::Failed(format!("the script ended: {}", why.lines().last().unwrap_or(""))))
        }
    }
}
