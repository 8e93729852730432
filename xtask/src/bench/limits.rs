//! `cargo xtask bench --limits`: what the machine can do, and how far each measured row is from that: benches/README.md.

use super::compare::seconds;
use super::results::{self, Results, Row};
use super::sides::Sides;
use super::{Args, beside};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// How many of the rows farthest from their limits are explained.
const FARTHEST: usize = 20;

/// What the machine can do with some threads.
#[derive(Clone, Debug, Deserialize)]
pub struct Machine {
    pub threads: usize,
    /// Bytes of a working set, and bytes per second.
    bandwidth: Vec<(f64, f64)>,
    /// Operations per second, by dtype.
    peak: BTreeMap<String, f64>,
    /// Calls per second, by function.
    function: BTreeMap<String, f64>,
    /// Seconds for a page that is new to the process.
    page_s: f64,
    /// Seconds for the least that an operator does.
    operation_s: f64,
}
impl Machine {
    pub fn measure(sides: &Sides, threads: usize) -> Result<Machine, String> {
        serde_json::from_str(&sides.machine(threads)?).map_err(|e| format!("figures of the machine: {e}"))
    }
    /// Bytes per second at a working set: between two that were measured on a line over the logarithm of the bytes.
    fn bandwidth(&self, bytes: f64) -> Option<f64> {
        let (first, last) = (self.bandwidth.first()?, self.bandwidth.last()?);
        let bytes = bytes.clamp(first.0, last.0);
        let at = self.bandwidth.windows(2).find(|w| bytes <= w[1].0);
        let Some([a, b]) = at else { return Some(last.1) };
        let part = (bytes / a.0).ln() / (b.0 / a.0).ln();
        Some(a.1 + part * (b.1 - a.1))
    }
    /// Seconds that work takes at least, and by what.
    pub fn limit(&self, w: &Work) -> Option<(f64, &'static str)> {
        let moved = w.br + w.bw;
        // what no loop was written for is computed in float32
        let peak = self.peak.get(&w.peak).or_else(|| self.peak.get("f32"))?;
        let function = w.function.as_ref().and_then(|f| self.function.get(f));
        let all = [
            (moved / self.bandwidth(if w.ws > 0.0 { w.ws } else { moved })?, "memory"),
            (w.flops / peak, "arithmetic"),
            (function.map_or(0.0, |rate| w.tel / rate), "functions"),
            (w.base * self.operation_s, "calls"),
        ];
        all.into_iter().filter(|(s, _)| *s > 0.0).max_by(|a, b| a.0.total_cmp(&b.0))
    }
}

/// What a row moves and computes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Work {
    pub id: String,
    /// Bytes that are read and written at least, and of the working set.
    pub br: f64,
    pub bw: f64,
    pub ws: f64,
    /// Operations, and the dtype whose peak bounds them.
    pub flops: f64,
    pub peak: String,
    /// Calls of a function.
    pub tel: f64,
    #[serde(rename = "fn")]
    pub function: Option<String>,
    /// Calls of operators.
    pub base: f64,
}
fn works(path: &Path) -> Result<Vec<Work>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
}

/// Seconds of a call: processor time of one thread, else the least wall time.
fn time(r: &Row) -> Option<f64> {
    let cpu = r.cpu_s.filter(|c| r.threads == 1 && c * r.inner.unwrap_or(1.0) >= 1e-3);
    cpu.or(r.min_s).filter(|_| r.error.is_none())
}

struct Line {
    id: String,
    threads: usize,
    limit: f64,
    by: &'static str,
    /// As multiples of the limit.
    ours: f64,
    theirs: Option<f64>,
}

/// Rows with a limit and a time of ours.
fn lines(works: &[Work], machines: &[Machine], ours: &Results, theirs: &Results) -> Vec<Line> {
    let mut all = Vec::new();
    for w in works {
        for m in machines {
            let Some((limit, by)) = m.limit(w) else { continue };
            let Some(t) = ours.get(&w.id, m.threads).and_then(time) else { continue };
            let theirs = theirs.get(&w.id, m.threads).and_then(time).map(|t| t / limit);
            all.push(Line { id: w.id.clone(), threads: m.threads, limit, by, ours: t / limit, theirs });
        }
    }
    all
}

/// Explanations by id, from lines `` - `id`: text ``; a `*` in an id stands for anything.
fn explanation<'a>(kept: &'a str, id: &str) -> Option<&'a str> {
    kept.lines().find_map(|l| {
        let (name, text) = l.strip_prefix("- `")?.split_once("`: ")?;
        let fits = match name.split_once('*') {
            None => name == id,
            Some((start, end)) => id.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
        };
        fits.then_some(text)
    })
}

fn machine_table(machines: &[Machine]) -> String {
    let mut s = String::from("| what |");
    machines.iter().for_each(|m| {
        let _ = write!(s, " {} thread(s) |", m.threads);
    });
    s.push_str("\n|---|");
    machines.iter().for_each(|_| s.push_str("---:|"));
    s.push('\n');
    let mut row = |what: &str, show: &dyn Fn(&Machine) -> String| {
        let cells: Vec<String> = machines.iter().map(show).collect();
        let _ = writeln!(s, "| {what} | {} |", cells.join(" | "));
    };
    let Some(first) = machines.first() else { return s };
    for (i, (bytes, _)) in first.bandwidth.iter().enumerate() {
        let what = match *bytes / 1024.0 {
            k if k < 1024.0 => format!("bandwidth, working set of {k:.0} KiB"),
            k => format!("bandwidth, working set of {:.0} MiB", k / 1024.0),
        };
        row(&what, &|m| m.bandwidth.get(i).map_or("-".into(), |b| format!("{:.1} GB/s", b.1 / 1e9)));
    }
    for dtype in first.peak.keys() {
        row(&format!("multiply-adds of {dtype}, two operations each"), &|m| {
            m.peak.get(dtype).map_or("-".into(), |p| format!("{:.1} GFLOP/s", p / 1e9))
        });
    }
    for f in first.function.keys() {
        row(&format!("`{f}` of float32"), &|m| {
            m.function.get(f).map_or("-".into(), |r| format!("{:.2} G/s", r / 1e9))
        });
    }
    row("a page of 4 KiB that is new to the process", &|m| seconds(m.page_s));
    row("the least of an operator: a result's memory, one addition", &|m| {
        format!("{:.1} ns", m.operation_s * 1e9)
    });
    s
}

fn page(machines: &[Machine], lines: &[Line], kept: &str) -> String {
    let mut s = String::from(
        "# Limits\n\nWritten by `cargo xtask bench --limits`, after `cargo xtask bench` and `cargo xtask bench --networks`, whose \
results it takes; explanations come from [limits.md](limits.md). \
A row's limit is the longest of: its bytes at the machine's bandwidth for its working set (each byte counted once), its operations \
at the machine's rate of multiply-adds, its functions at the rate of a short polynomial in the nearest cache, its operators at the \
cost of the least that one does. Rows declare these numbers once, in rows.json and networks.json. Columns \"ours\" and \"PyTorch\" \
are multiples of the limit: 1 is the best that can be. A convolution can go below 1 by algorithms with fewer operations; \
decompositions count nominal operations, which none reaches.\n\n## The machine\n\n",
    );
    s.push_str(&machine_table(machines));
    let shown = |v: Option<f64>| match v {
        None => "-".into(),
        Some(v) if v < 100.0 => format!("{v:.2}"),
        Some(v) => format!("{v:.0}"),
    };
    let mut far: Vec<&Line> = lines.iter().collect();
    far.sort_by(|a, b| b.ours.total_cmp(&a.ours));
    let mut seen: Vec<&str> = Vec::new();
    far.retain(|l| {
        let new = !seen.contains(&l.id.as_str());
        seen.push(&l.id);
        new
    });
    let _ = write!(
        s,
        "\n## The {FARTHEST} rows farthest from their limits\n\n| row | threads | limit | by | ours | PyTorch | why |\n"
    );
    s.push_str("|---|---:|---:|---|---:|---:|---|\n");
    for l in far.iter().take(FARTHEST) {
        let why = explanation(kept, &l.id).unwrap_or("(not explained)");
        let (ours, theirs) = (shown(Some(l.ours)), shown(l.theirs));
        let _ = writeln!(
            s,
            "| {} | {} | {} | {} | {ours} | {theirs} | {why} |",
            l.id,
            l.threads,
            seconds(l.limit),
            l.by
        );
    }
    s.push_str("\n## All rows\n\n| row |");
    for m in machines {
        let _ = write!(s, " limit {0}t | by | ours | PyTorch |", m.threads);
    }
    s.push_str("\n|---|");
    machines.iter().for_each(|_| s.push_str("---:|---|---:|---:|"));
    s.push('\n');
    for of_id in lines.chunk_by(|a, b| a.id == b.id) {
        let Some(first) = of_id.first() else { continue };
        let _ = write!(s, "| {} |", first.id);
        for m in machines {
            match of_id.iter().find(|l| l.threads == m.threads) {
                Some(l) => {
                    let (ours, theirs) = (shown(Some(l.ours)), shown(l.theirs));
                    let _ = write!(s, " {} | {} | {ours} | {theirs} |", seconds(l.limit), l.by);
                }
                None => s.push_str(" - | - | - | - |"),
            }
        }
        s.push('\n');
    }
    s
}

pub fn run(root: &Path, a: &Args) -> Result<bool, String> {
    let sides = Sides::new(root, a, "flambeau.json")?;
    let data = root.join("benches");
    let (mut all, mut ours, mut theirs) = (Vec::new(), Results::default(), Results::default());
    for (list, file) in
        [("rows.json", sides.out.clone()), ("networks.json", sides.out.with_file_name("networks.json"))]
    {
        all.extend(works(&data.join(list))?);
        match results::read(&file) {
            Ok(r) => ours.merge(r),
            Err(e) => println!("limits: without the results of {list} ({e})"),
        }
        if let Ok(r) = results::read(&beside(&file)) {
            theirs.merge(r);
        }
    }
    let machines: Vec<Machine> =
        a.threads.iter().map(|t| Machine::measure(&sides, *t)).collect::<Result<_, _>>()?;
    let lines = lines(&all, &machines, &ours, &theirs);
    if lines.is_empty() {
        return Err("no results: run cargo xtask bench first".into());
    }
    let kept = std::fs::read_to_string(data.join("limits.md")).unwrap_or_default();
    let path = data.join("README.md");
    std::fs::write(&path, page(&machines, &lines, &kept)).map_err(|e| format!("{}: {e}", path.display()))?;
    print!("{}", machine_table(&machines));
    println!("{} rows with limits; {} written", lines.len(), path.display());
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        serde_json::from_str(
            r#"{"threads": 1, "bandwidth": [[1024, 100.0], [4096, 50.0]], "peak": {"f32": 10.0},
            "function": {"exp": 2.0}, "page_s": 1e-7, "operation_s": 0.5}"#,
        )
        .unwrap()
    }

    #[test]
    fn bandwidth_lies_between_its_neighbours() {
        let m = machine();
        let at = |bytes| m.bandwidth(bytes).unwrap();
        assert_eq!((at(1.0), at(1024.0), at(1e9)), (100.0, 100.0, 50.0));
        assert!((at(2048.0) - 75.0).abs() < 1e-9);
    }

    #[test]
    fn the_longest_part_is_the_limit() {
        let m = machine();
        let of = |w: Work| m.limit(&w);
        assert_eq!(of(Work { br: 100.0, bw: 100.0, ws: 512.0, ..Work::default() }), Some((2.0, "memory")));
        assert_eq!(of(Work { br: 100.0, flops: 70.0, ..Work::default() }), Some((7.0, "arithmetic")));
        let function = Some("exp".to_string());
        assert_eq!(of(Work { tel: 8.0, function, ..Work::default() }), Some((4.0, "functions")));
        assert_eq!(of(Work { base: 3.0, ..Work::default() }), Some((1.5, "calls")));
        assert_eq!(of(Work::default()), None);
    }

    #[test]
    fn explanations() {
        let kept = "Words.\n- `a/x`: it sorts.\n- `b/*@9`: few.\n- `b/*`: small calls.\n";
        assert_eq!(explanation(kept, "a/x"), Some("it sorts."));
        assert_eq!(explanation(kept, "b/y@1"), Some("small calls."));
        assert_eq!(explanation(kept, "b/y@9"), Some("few."));
        assert_eq!(explanation(kept, "b"), None);
        assert_eq!(explanation(kept, "a/xy"), None);
    }

    #[test]
    fn a_page() {
        let works = [Work { id: "a/x".into(), flops: 10.0, ..Work::default() }];
        let side = |t: f64| {
            let row = format!(r#"{{"id": "a/x", "threads": 1, "min_s": {t}, "cpu_s": {t}, "inner": 1}}"#);
            Results::parse(&format!(r#"{{"meta": {{}}, "rows": [{row}]}}"#)).unwrap()
        };
        let lines = lines(&works, &[machine()], &side(3.0), &side(4.0));
        let p = page(&[machine()], &lines, "- `a/x`: because.\n");
        assert!(p.contains("| a/x | 1 | 1.00 s | arithmetic | 3.00 | 4.00 | because. |"), "{p}");
        assert!(p.contains("| a/x | 1.00 s | arithmetic | 3.00 | 4.00 |"), "{p}");
        assert!(p.contains("| bandwidth, working set of 1 KiB | 0.0 GB/s |"), "{p}");
    }

    #[test]
    fn every_row_and_network_declares_its_work() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches");
        let m = machine();
        // the start of a process and its size have no limit of their own
        for list in ["rows.json", "networks.json"] {
            for w in works(&data.join(list)).unwrap() {
                let free = ["io/startup", "io/install_size"].contains(&w.id.as_str());
                assert_eq!(m.limit(&w).is_none(), free, "{}", w.id);
            }
        }
    }
}
