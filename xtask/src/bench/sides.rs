//! The two programs that measure: ours, and PyTorch's in Python.

use super::results::{self, Results};
use super::{Args, build, python};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Both programs, ready to run, and where results go.
pub struct Sides {
    programs: PathBuf,
    python: Option<PathBuf>,
    data: PathBuf,
    passed: Vec<String>,
    pub out: PathBuf,
}
impl Sides {
    /// Builds ours, and looks for Python unless the other side is a file.
    pub fn new(root: &Path, a: &Args, file: &str) -> Result<Sides, String> {
        let programs = build(root)?;
        let out = a.out.clone().unwrap_or_else(|| programs.with_file_name("bench").join(file));
        let folder = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let python = if a.compare.is_some() { None } else { python(a.python.as_deref()) };
        let (data, passed) = (root.join("benches"), a.passed.clone());
        Ok(Sides { programs, python, data, passed, out })
    }
    pub fn has_python(&self) -> bool {
        self.python.is_some()
    }
    fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name).with_extension(std::env::consts::EXE_EXTENSION)
    }
    /// Runs one side for one number of threads; its results.
    fn measure(
        &self,
        mut program: Command,
        threads: usize,
        ids: &[impl AsRef<str>],
        flags: &[&str],
    ) -> Result<Results, String> {
        let part = self.out.with_extension("part.json");
        let _ = std::fs::remove_file(&part);
        let only: Vec<&str> = ids.iter().map(AsRef::as_ref).collect();
        program.args(["--threads", &threads.to_string(), "--only", &only.join(","), "--out"]).arg(&part);
        let status = program.args(flags).args(&self.passed).status().map_err(|e| e.to_string())?;
        if !status.success() {
            return Err(format!("{} failed ({status})", program.get_program().display()));
        }
        let results = results::read(&part);
        let _ = std::fs::remove_file(&part);
        results
    }
    /// Our rows of a set.
    pub fn ours(
        &self,
        set: &str,
        threads: usize,
        ids: &[impl AsRef<str>],
        flags: &[&str],
    ) -> Result<Results, String> {
        eprintln!("-- flambeau, threads: {threads}");
        let mut c = Command::new(self.program("flambeau-bench"));
        c.args(["--set", set, "--program"]).arg(self.program("examples/digits"));
        self.measure(c, threads, ids, flags)
    }
    /// The same of PyTorch's side by a script; none without Python.
    pub fn theirs(
        &self,
        script: &str,
        threads: usize,
        ids: &[impl AsRef<str>],
        flags: &[&str],
    ) -> Result<Option<Results>, String> {
        let Some(python) = &self.python else { return Ok(None) };
        eprintln!("-- PyTorch, threads: {threads}");
        let mut c = Command::new(python);
        c.arg(self.data.join(script));
        self.measure(c, threads, ids, flags).map(Some)
    }
    /// What the machine can do with that many threads.
    pub fn machine(&self, threads: usize) -> Result<String, String> {
        eprintln!("-- the machine, threads: {threads}");
        let mut c = Command::new(self.program("flambeau-bench"));
        let out =
            c.args(["--machine", "--threads", &threads.to_string()]).output().map_err(|e| e.to_string())?;
        if !out.status.success() {
            return Err(String::from_utf8_lossy(&out.stderr).into_owned());
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }
}
