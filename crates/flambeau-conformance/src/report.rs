//! Totals, the work list, and the committed record.

use crate::distributed::SECTIONS;
use crate::families::{FAMILIES, Outcome};
use serde_json::{Map, Value as J, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// One case's result.
#[derive(Clone, Debug)]
pub struct Line {
    /// `ops/add`
    pub file: String,
    /// Position in the file.
    pub number: usize,
    /// Its id.
    pub id: String,
    /// The name that it is about.
    pub call: String,
    /// Belongs to the core operators.
    pub core: bool,
    /// What became of it.
    pub outcome: Outcome,
}

/// All results.
#[derive(Default)]
pub struct Report {
    /// In the order of files and cases.
    pub lines: Vec<Line>,
}

/// Numbers of cases.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// As recorded.
    pub passed: usize,
    /// Not as recorded.
    pub failed: usize,
    /// No such name.
    pub missing: usize,
    /// Not as recorded, where the record is no firm expectation.
    pub apart: usize,
}
impl Counts {
    fn add(&mut self, o: &Outcome) {
        match o {
            Outcome::Passed => self.passed += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Missing(_) => self.missing += 1,
            Outcome::Apart(_) => self.apart += 1,
        }
    }
    /// `N passed, N failed, N not implemented`
    pub fn text(&self) -> String {
        format!("{} passed, {} failed, {} not implemented", self.passed, self.failed, self.missing)
    }
    fn line(&self, name: &str) -> String {
        let ran = self.passed + self.failed;
        let mut s = format!("{name}: {}", self.text());
        if ran > 0 {
            let _ = write!(s, " ({:.2} % of what is implemented)", 100.0 * self.passed as f64 / ran as f64);
        }
        if self.apart > 0 {
            let _ = write!(s, ", {} unstable ones differ", self.apart);
        }
        s
    }
}

impl Report {
    /// Counts of the lines that a condition holds for.
    pub fn count(&self, f: impl Fn(&Line) -> bool) -> Counts {
        let mut c = Counts::default();
        self.lines.iter().filter(|l| f(l)).for_each(|l| c.add(&l.outcome));
        c
    }
    /// One line per family, the core operators' share, the total.
    pub fn summary(&self) -> String {
        let mut s = String::new();
        let family = |l: &Line, f: &str| l.file.rsplit_once('/').is_some_and(|(folder, _)| folder == f);
        for f in FAMILIES.into_iter().chain(SECTIONS) {
            if self.lines.iter().any(|l| family(l, f)) {
                let _ = writeln!(s, "{}", self.count(|l| family(l, f)).line(f));
            }
        }
        for f in FAMILIES {
            if self.lines.iter().any(|l| l.core && family(l, f)) {
                let _ = writeln!(s, "{}", self.count(|l| l.core && family(l, f)).line(&format!("core {f}")));
            }
        }
        let _ = writeln!(s, "{}", self.count(|l| l.core).line("core"));
        let total = self.count(|_| true);
        if total.apart > 0 {
            let _ = writeln!(s, "counted apart (the record is no firm expectation): {} differ", total.apart);
        }
        let _ = writeln!(s, "total: {}", total.text());
        s
    }
    /// The first failures with their reasons.
    pub fn failures(&self, n: usize) -> String {
        let mut s = String::new();
        let failed = self.lines.iter().filter_map(|l| match &l.outcome {
            Outcome::Failed(e) => Some((l, e, "")),
            Outcome::Apart(e) => Some((l, e, " (unstable)")),
            _ => None,
        });
        for (l, e, note) in failed.take(n) {
            let _ = writeln!(s, "{} {} {}{note}: {e}", l.file, l.id, l.call);
        }
        s
    }
    /// Names that do not exist, by number of cases, with the first cases.
    pub fn missing(&self) -> String {
        let mut names: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for l in &self.lines {
            if let Outcome::Missing(n) = &l.outcome {
                names.entry(n).or_default().push(format!("{} {}", l.file, l.id));
            }
        }
        let mut v: Vec<(&str, Vec<String>)> = names.into_iter().collect();
        v.sort_by_key(|(name, cases)| (std::cmp::Reverse(cases.len()), *name));
        v.iter().fold(String::new(), |mut s, (name, cases)| {
            let first = cases.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
            let _ = writeln!(s, "{:>6} {name} ({first})", cases.len());
            s
        })
    }
    /// Failures by name, by number of cases.
    pub fn failing(&self) -> String {
        let mut names: HashMap<&str, (usize, usize)> = HashMap::new();
        for l in &self.lines {
            let e = names.entry(&l.call).or_default();
            e.0 += usize::from(matches!(l.outcome, Outcome::Failed(_)));
            e.1 += 1;
        }
        let mut v: Vec<_> = names.into_iter().filter(|(_, c)| c.0 > 0).collect();
        v.sort_by_key(|(name, c)| (std::cmp::Reverse(c.0), *name));
        v.iter().fold(String::new(), |mut s, (name, (bad, all))| {
            let _ = writeln!(s, "{bad:>6} of {all:<6} {name}");
            s
        })
    }
    fn by_file(&self) -> BTreeMap<&str, Vec<&Line>> {
        let mut m: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
        for l in &self.lines {
            m.entry(&l.file).or_default().push(l);
        }
        m
    }
    /// The record: per file the counts and the ids that do not pass.
    pub fn record(&self, seed: i64) -> J {
        let mut files = Map::new();
        for (file, lines) in self.by_file() {
            let mut c = Counts::default();
            lines.iter().for_each(|l| c.add(&l.outcome));
            let not: Vec<&str> =
                lines.iter().filter(|l| l.outcome != Outcome::Passed).map(|l| l.id.as_str()).collect();
            let not = if c.passed == 0 { json!("all") } else { json!(not) };
            files.insert(
                file.into(),
                json!({"passed": c.passed, "failed": c.failed, "not_implemented": c.missing, "apart": c.apart, "not_passed": not}),
            );
        }
        let total = self.count(|_| true);
        json!({"seed": seed, "total": total.text(), "files": files})
    }
    /// Cases that passed when the record was made and do not now. Files that the record lacks are not compared.
    pub fn regressions(&self, record: &J) -> Vec<&Line> {
        let mut bad = Vec::new();
        for (file, lines) in self.by_file() {
            let r = &record["files"][file];
            if r.is_null() || r["not_passed"] == json!("all") {
                continue;
            }
            let not: HashSet<&str> =
                r["not_passed"].as_array().into_iter().flatten().filter_map(J::as_str).collect();
            bad.extend(
                lines.into_iter().filter(|l| l.outcome != Outcome::Passed && !not.contains(l.id.as_str())),
            );
        }
        bad
    }
}

/// Seed of a set, from its manifest, and the mark of its record: the small copy in the repository and the second kind of
/// set, of programs, have their own, as have distributed jobs.
///
/// # Errors
/// Without a manifest.
pub fn set_key(dir: &Path) -> Result<(i64, &'static str), String> {
    let path = dir.join("manifest.json");
    let text = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let m: J = serde_json::from_slice(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    let mark = match (m["sample"] == J::Bool(true), m.get("families").is_some()) {
        (true, _) => "sample-",
        (false, true) => "second-",
        (false, false) if SECTIONS.iter().any(|s| dir.join(s).is_dir()) => "distributed-",
        (false, false) => "",
    };
    Ok((m["seed"].as_i64().unwrap_or(-1), mark))
}
/// Where the record of a set is kept.
pub fn record_path(root: &Path, seed: i64, mark: &str) -> PathBuf {
    root.join("record").join(format!("{mark}seed-{seed}.json"))
}
/// One file per line, so that changes show as such.
pub fn record_text(r: &J) -> String {
    let mut s = format!("{{\"seed\": {}, \"total\": {},\n\"files\": {{\n", r["seed"], r["total"]);
    let files: Vec<String> =
        r["files"].as_object().into_iter().flatten().map(|(k, v)| format!("{}: {v}", json!(k))).collect();
    s.push_str(&files.join(",\n"));
    s.push_str("\n}}\n");
    s
}
