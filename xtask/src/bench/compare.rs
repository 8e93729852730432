//! Ratios of two sides' rows: table, geometric means, worst rows, rows that were not run, disagreeing checks.

use super::networks::is_service;
use super::results::{Results, Row};
use std::fmt::Write;

/// Relative difference of `check` values that counts as the same work.
const TOLERANCE: f64 = 2e-3;
const TOLERANCE_BF16: f64 = 2e-2;
/// Of checks that were computed in float64.
const TOLERANCE_EXACT: f64 = 1e-8;
/// Processor time of a sample below this is too coarse to use.
const CLOCK: f64 = 1e-3;
/// A row whose middle sample is so much slower than its fastest was disturbed.
const NOISY: f64 = 1.3;
/// How many rows the list of the worst has.
const WORST: usize = 15;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    Seconds(f64),
    Bytes(f64),
}
/// Seconds in a unit that fits.
pub fn seconds(v: f64) -> String {
    match v {
        v if v < 1e-6 => format!("{:.0} ns", v * 1e9),
        v if v < 1e-3 => format!("{:.1} us", v * 1e6),
        v if v < 1.0 => format!("{:.2} ms", v * 1e3),
        v => format!("{v:.2} s"),
    }
}
impl Figure {
    fn text(self) -> String {
        match self {
            Figure::Bytes(v) => format!("{:.1} MB", v / 1e6),
            Figure::Seconds(v) => seconds(v),
        }
    }
}

/// Whether processor time says nothing: of files, and of many threads.
fn by_wall(id: &str) -> bool {
    id.starts_with("io/") || is_service(id)
}

/// Processor time or wall time. With one thread and no files processor time is the wall time of a quiet machine, so it
/// stands more load. Both sides take the same clock.
fn figures(ours: Option<&Row>, theirs: Option<&Row>) -> [Option<Figure>; 2] {
    let both = [ours, theirs];
    let cpu = |r: &Row| {
        let c = r.cpu_s.filter(|_| r.threads == 1 && !by_wall(&r.id))?;
        (c * r.inner.unwrap_or(1.0) >= CLOCK).then_some(c)
    };
    let by_cpu = both.iter().flatten().filter(|r| r.min_s.is_some()).all(|r| cpu(r).is_some());
    both.map(|r| {
        let r = r.filter(|r| r.error.is_none())?;
        if let Some(v) = r.value {
            return Some(Figure::Bytes(v));
        }
        if by_cpu { cpu(r) } else { r.min_s }.map(Figure::Seconds)
    })
}

fn checks_agree(id: &str, exact: bool, a: f64, b: f64) -> bool {
    let tolerance = match exact {
        true => TOLERANCE_EXACT,
        false if id.contains("bf16") => TOLERANCE_BF16,
        false => TOLERANCE,
    };
    (a - b).abs() <= tolerance * a.abs().max(b.abs()).max(1e-12)
}

pub fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    (!ratios.is_empty()).then(|| (ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len() as f64).exp())
}

/// One row at one number of threads.
#[derive(Debug)]
struct Cell {
    ours: Option<Figure>,
    theirs: Option<Figure>,
}
impl Cell {
    fn ratio(&self) -> Option<f64> {
        match (self.ours?, self.theirs?) {
            (Figure::Seconds(a), Figure::Seconds(b)) | (Figure::Bytes(a), Figure::Bytes(b)) if b > 0.0 => {
                Some(a / b)
            }
            _ => None,
        }
    }
    /// The ratio of a timed row.
    fn time_ratio(&self) -> Option<f64> {
        self.ratio().filter(|_| matches!(self.ours, Some(Figure::Seconds(_))))
    }
}

struct Line {
    id: String,
    cells: Vec<Cell>,
    notes: Vec<String>,
}
impl Line {
    fn group(&self) -> &str {
        self.id.split('/').next().unwrap_or("")
    }
}

/// Both sides, row by row.
pub struct Comparison {
    names: [String; 2],
    threads: Vec<usize>,
    lines: Vec<Line>,
    /// Rows without figures of ours, and why.
    not_run: Vec<(String, String)>,
    /// Rows that went wrong.
    failed: Vec<(String, String)>,
    /// Rows whose results differ.
    mismatches: Vec<String>,
}

impl Comparison {
    pub fn new(ids: &[String], threads: &[usize], ours: &Results, theirs: &Results) -> Comparison {
        let mut c = Comparison {
            names: [ours.name.clone(), theirs.name.clone()],
            threads: threads.to_vec(),
            lines: Vec::new(),
            not_run: Vec::new(),
            failed: Vec::new(),
            mismatches: Vec::new(),
        };
        for id in ids {
            c.add(id, ours, theirs);
        }
        c
    }

    fn add(&mut self, id: &str, ours: &Results, theirs: &Results) {
        let mut line = Line { id: id.to_string(), cells: Vec::new(), notes: Vec::new() };
        for &t in &self.threads {
            let (a, b) = (ours.get(id, t), theirs.get(id, t));
            let [x, y] = figures(a, b);
            line.cells.push(Cell { ours: x, theirs: y });
            match a {
                None if is_service(id) && t != self.threads[0] => {}
                None => self.not_run.push((id.to_string(), "no record".into())),
                Some(Row { error: Some(e), lacks: Some(l), .. }) => {
                    self.not_run.push((id.to_string(), format!("{e}: {l}")))
                }
                Some(Row { error: Some(e), .. }) => self.failed.push((id.to_string(), e.clone())),
                Some(_) => {}
            }
            if let Some(e) = b.and_then(|b| b.error.as_ref()) {
                line.notes.push(format!("other side: {e}"));
            }
            for (row, side) in [(a, "ours"), (b, "theirs")] {
                if row.is_some_and(|r| r.median_s > r.min_s.map(|m| NOISY * m)) {
                    line.notes.push(format!("noisy ({side}, {t}t)"));
                }
            }
            if let (Some(p), Some(q)) = (a.and_then(|a| a.check), b.and_then(|b| b.check))
                && !checks_agree(id, a.is_some_and(|a| a.deviation.is_some()), p, q)
            {
                line.notes.push(format!("CHECK {p:.6} is not {q:.6}"));
                self.mismatches.push(id.to_string());
            }
        }
        for list in [&mut self.not_run, &mut self.failed] {
            list.dedup();
        }
        self.mismatches.dedup();
        self.lines.push(line);
    }

    /// Nothing failed, and no results differ.
    pub fn sound(&self) -> bool {
        self.failed.is_empty() && self.mismatches.is_empty()
    }

    /// Ratios of timed rows of a group (of all for `None`) at the `k`-th number of threads.
    pub fn ratios(&self, group: Option<&str>, k: usize) -> Vec<f64> {
        let of_group = self.lines.iter().filter(|l| group.is_none_or(|g| l.group() == g));
        of_group.filter_map(|l| l.cells[k].time_ratio()).collect()
    }

    fn table(&self, s: &mut String) {
        let _ = write!(s, "{:<34}", "row");
        for t in &self.threads {
            let _ = write!(s, " {:>10} {:>10} {:>6}", format!("ours {t}t"), format!("other {t}t"), "ratio");
        }
        s.push('\n');
        for l in self.lines.iter().filter(|l| l.cells.iter().any(|c| c.ours.is_some() || c.theirs.is_some()))
        {
            let _ = write!(s, "{:<34}", l.id);
            for c in &l.cells {
                let text = |f: Option<Figure>| f.map_or("-".into(), Figure::text);
                let ratio = c.ratio().map_or("-".into(), |r| format!("{r:.2}"));
                let _ = write!(s, " {:>10} {:>10} {ratio:>6}", text(c.ours), text(c.theirs));
            }
            let _ = writeln!(s, "  {}", l.notes.join(", "));
        }
    }

    fn means(&self, s: &mut String) {
        let mut groups: Vec<&str> = Vec::new();
        for l in &self.lines {
            if !groups.contains(&l.group()) {
                groups.push(l.group());
            }
        }
        let _ = write!(s, "\n{:<14}", "group");
        for t in &self.threads {
            let _ = write!(s, " {:>11} {:>9} {:>6}", format!("geomean {t}t"), "won", "worst");
        }
        s.push('\n');
        for g in groups.into_iter().map(Some).chain([None]) {
            let all: Vec<Vec<f64>> = (0..self.threads.len()).map(|k| self.ratios(g, k)).collect();
            if all.iter().all(Vec::is_empty) {
                continue;
            }
            let _ = write!(s, "{:<14}", g.unwrap_or("all"));
            for v in all {
                let mean = geometric_mean(&v).map_or("-".into(), |m| format!("{m:.2}"));
                let won = format!("{}/{}", v.iter().filter(|r| **r < 1.0).count(), v.len());
                let worst = v.iter().copied().reduce(f64::max).map_or("-".into(), |w| format!("{w:.2}"));
                let _ = write!(s, " {mean:>11} {won:>9} {worst:>6}");
            }
            s.push('\n');
        }
    }

    fn worst(&self, s: &mut String) {
        for (k, t) in self.threads.iter().enumerate() {
            let mut slow: Vec<(f64, &str)> = Vec::new();
            slow.extend(
                self.lines.iter().filter_map(|l| Some((l.cells[k].ratio().filter(|r| *r > 1.0)?, &*l.id))),
            );
            slow.sort_by(|a, b| b.0.total_cmp(&a.0));
            if slow.is_empty() {
                continue;
            }
            let shown: Vec<String> = slow.iter().take(WORST).map(|(r, id)| format!("{id} {r:.2}")).collect();
            let _ = writeln!(s, "\nslowest beside the other side, {t} thread(s): {}", shown.join(", "));
        }
    }

    pub fn report(&self) -> String {
        let mut s = String::new();
        if self.names[1].is_empty() {
            let _ = writeln!(s, "{}", self.names[0]);
        } else {
            let _ = writeln!(
                s,
                "{} / {}: below 1 is faster. One thread: processor time; else least wall time.\n",
                self.names[0], self.names[1]
            );
        }
        self.table(&mut s);
        self.means(&mut s);
        self.worst(&mut s);
        for (title, list) in [("not run", &self.not_run), ("failed", &self.failed)] {
            if !list.is_empty() {
                let _ = writeln!(s, "\n{title} ({}):", list.len());
                list.iter().for_each(|(id, why)| {
                    let _ = writeln!(s, "  {id} ({why})");
                });
            }
        }
        if !self.mismatches.is_empty() {
            let _ = writeln!(
                s,
                "\nCHECKS DISAGREE, the times of these rows do not count: {}",
                self.mismatches.join(", ")
            );
        }
        s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(name: &str, rows: &str) -> Results {
        Results::parse(&format!(r#"{{"meta": {{"impl": "{name}", "version": "1"}}, "rows": [{rows}]}}"#))
            .unwrap()
    }
    fn compare(ours: &str, theirs: &str, threads: &[usize]) -> Comparison {
        let ids = ["a/x", "a/y", "b/bf16", "io/z"].map(String::from);
        Comparison::new(&ids, threads, &side("we", ours), &side("they", theirs))
    }
    fn row(id: &str, threads: usize, min: f64, cpu: f64, inner: usize, check: f64) -> String {
        format!(
            r#"{{"id": "{id}", "threads": {threads}, "median_s": {min}, "min_s": {min}, "cpu_s": {cpu}, "inner": {inner}, "check": {check}}}"#
        )
    }

    #[test]
    fn one_thread_by_processor_time_several_by_wall_time() {
        let ours = [row("a/x", 1, 9.0, 2.0, 1, 1.0), row("a/x", 2, 3.0, 6.0, 1, 1.0)].join(",");
        let theirs = [row("a/x", 1, 5.0, 4.0, 1, 1.0), row("a/x", 2, 2.0, 4.0, 1, 1.0)].join(",");
        let c = compare(&ours, &theirs, &[1, 2]);
        assert_eq!(c.lines[0].cells[0].ratio(), Some(0.5));
        assert_eq!(c.lines[0].cells[1].ratio(), Some(1.5));
    }

    #[test]
    fn coarse_processor_time_and_files_go_by_wall_time_on_both_sides() {
        // 2e-6 s x 100 calls: a sample of 0.2 ms, below the clock's grain
        let c = compare(&row("a/x", 1, 4e-6, 2e-6, 100, 1.0), &row("a/x", 1, 2e-6, 2e-6, 1000, 1.0), &[1]);
        assert_eq!(c.lines[0].cells[0].ratio(), Some(2.0));
        let c = compare(&row("io/z", 1, 3.0, 1.0, 1, 1.0), &row("io/z", 1, 2.0, 2.0, 1, 1.0), &[1]);
        assert_eq!(c.lines[3].cells[0].ratio(), Some(1.5));
    }

    #[test]
    fn geometric_means_by_group_and_over_all() {
        let ours = [
            row("a/x", 1, 2.0, 2.0, 1, 1.0),
            row("a/y", 1, 1.0, 1.0, 1, 1.0),
            row("b/bf16", 1, 8.0, 8.0, 1, 1.0),
        ];
        let theirs = ["a/x", "a/y", "b/bf16"].map(|id| row(id, 1, 1.0, 1.0, 1, 1.0));
        let c = compare(&ours.join(","), &theirs.join(","), &[1]);
        let mean = |g| geometric_mean(&c.ratios(g, 0)).unwrap();
        assert!((mean(Some("a")) - 2f64.sqrt()).abs() < 1e-12);
        assert!((mean(None) - 16f64.cbrt()).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
        let report = c.report();
        assert!(
            report.contains("slowest beside the other side, 1 thread(s): b/bf16 8.00, a/x 2.00\n"),
            "{report}"
        );
    }

    #[test]
    fn sizes_have_ratios_and_stay_out_of_the_means() {
        let size = |n: f64| format!(r#"{{"id": "io/z", "threads": 1, "value": {n}, "unit": "bytes"}}"#);
        let c = compare(&size(5e6), &size(2e7), &[1]);
        assert_eq!(c.lines[3].cells[0].ratio(), Some(0.25));
        assert!(c.ratios(None, 0).is_empty() && c.report().contains("5.0 MB"));
    }

    #[test]
    fn checks() {
        let c = |p, q| compare(&row("a/x", 1, 1.0, 1.0, 1, p), &row("a/x", 1, 1.0, 1.0, 1, q), &[1]);
        assert!(c(1.0, 1.0019).sound() && !c(1.0, 1.0021).sound() && !c(1.0, 1e30).sound());
        assert!(c(0.0, 0.0).sound());
        assert!(checks_agree("b/bf16", false, 1.0, 1.019) && !checks_agree("b/bf16", false, 1.0, 1.03));
        assert!(checks_agree("a/x", true, 1.0, 1.0 + 1e-9) && !checks_agree("a/x", true, 1.0, 1.0 + 1e-7));
        assert!(!checks_agree("a/x", false, f64::NAN, 1.0));
        assert!(c(1.0, 2.0).report().contains("CHECKS DISAGREE, the times of these rows do not count: a/x"));
    }

    #[test]
    fn missing_rows_are_named_and_failures_are_not_sound() {
        let lacks = r#"{"id": "a/x", "threads": 1, "error": "not implemented", "lacks": "torch.x"}"#;
        let others = ["a/y", "b/bf16", "io/z"].map(|id| row(id, 1, 1.0, 1.0, 1, 1.0)).join(",");
        let c = compare(&format!("{lacks},{others}"), "", &[1]);
        assert!(
            c.sound() && c.report().contains("not run (1):\n  a/x (not implemented: torch.x)"),
            "{}",
            c.report()
        );
        let failed = lacks.replace(r#", "lacks": "torch.x""#, "").replace("not implemented", "a panic");
        let c = compare(&format!("{failed},{others}"), "", &[1]);
        assert!(!c.sound() && c.report().contains("failed (1):\n  a/x (a panic)"));
    }

    #[test]
    fn the_row_list_is_complete() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/rows.json");
        let ids = super::super::results::ids(&path).unwrap();
        let different: std::collections::BTreeSet<&String> = ids.iter().collect();
        assert_eq!((ids.len(), different.len()), (188, 188));
    }
}
