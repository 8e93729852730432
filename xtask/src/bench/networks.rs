//! `cargo xtask bench --networks`: whole networks, each in a process of its own.

use super::compare::{Comparison, geometric_mean, seconds};
use super::results::{self, Results, Row};
use super::sides::Sides;
use super::{Args, beside};
use serde::Deserialize;
use std::fmt::Write as _;
use std::path::Path;

/// What the ratios should be at most: their geometric mean, and each of them.
const MEAN: f64 = 0.6;
const EACH: f64 = 0.95;

#[derive(Deserialize)]
struct Entry {
    id: String,
    #[serde(default)]
    quick: bool,
}

/// Networks without a choice of threads: theirs run with one thread each.
pub fn is_service(id: &str) -> bool {
    id.starts_with("service/")
}

pub fn run(root: &Path, a: &Args, quick: bool) -> Result<bool, String> {
    let path = root.join("benches/networks.json");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let all: Vec<Entry> = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    let list: Vec<String> =
        all.into_iter().filter(|e| (e.quick || !quick) && a.wants(&e.id)).map(|e| e.id).collect();
    if list.is_empty() {
        return Err("--only selects no network".into());
    }
    let sides = Sides::new(root, a, "networks.json")?;
    let (mut ours, mut theirs) = match &a.compare {
        Some(path) => (Results::default(), results::read(path)?),
        None => (Results::default(), Results::default()),
    };
    for (k, &threads) in a.threads.iter().enumerate() {
        // errors do not depend on the number of threads
        let flags: &[&str] = if k == 0 { &["--exact"] } else { &[] };
        for id in list.iter().filter(|id| k == 0 || !is_service(id)) {
            ours.merge(sides.ours("networks", threads, &[id], flags)?);
            ours.write(&sides.out)?;
            if let Some(measured) = sides.theirs("networks.py", threads, &[id], flags)? {
                theirs.merge(measured);
                theirs.write(&beside(&sides.out))?;
            }
        }
    }
    let comparison = Comparison::new(&list, &a.threads, &ours, &theirs);
    print!("{}", comparison.report());
    print!("{}", details(&list, &a.threads, &ours, &theirs));
    print!("{}", bars(&comparison, &a.threads));
    println!("\nresults: {}", sides.out.display());
    Ok(comparison.sound())
}

/// First calls, memory, errors.
fn details(ids: &[String], threads: &[usize], ours: &Results, theirs: &Results) -> String {
    let mut s = format!(
        "\n{:<34} {:>3} | {:>10} {:>6} {:>10} {:>6} | {:>10} {:>10} {:>6} | {:>9} {:>9}\n",
        "first call, memory, error",
        "",
        "ours",
        "later",
        "other",
        "later",
        "ours",
        "other",
        "ratio",
        "ours",
        "other"
    );
    for id in ids {
        for &t in threads {
            let (a, b) = (ours.get(id, t), theirs.get(id, t));
            if a.is_none() && b.is_none() {
                continue;
            }
            let _ = write!(s, "{id:<34} {:>3} |", format!("{t}t"));
            let show = |v: Option<String>| v.unwrap_or("-".into());
            for r in [a, b] {
                let first = r.and_then(|r| r.first_s);
                let later = r.and_then(Row::first_beside_later).map(|v| format!("{v:.2}"));
                let _ = write!(s, " {:>10} {:>6}", show(first.map(seconds)), show(later));
            }
            let [m, n] = [a, b].map(|r| r.and_then(|r| r.memory));
            let megabytes = |v: Option<f64>| show(v.map(|v| format!("{:.1} MB", v / 1e6)));
            let ratio = m.zip(n).map(|(m, n)| format!("{:.2}", m / n));
            let _ = write!(s, " | {:>10} {:>10} {:>6} |", megabytes(m), megabytes(n), show(ratio));
            for r in [a, b] {
                let _ = write!(s, " {:>9}", show(r.and_then(|r| r.deviation).map(|d| format!("{d:.1e}"))));
            }
            s.push('\n');
        }
    }
    s
}

/// Whether the ratios are as low as they should be.
fn bars(c: &Comparison, threads: &[usize]) -> String {
    let mut s = String::new();
    for (k, t) in threads.iter().enumerate() {
        let ratios = c.ratios(None, k);
        let (Some(mean), Some(worst)) = (geometric_mean(&ratios), ratios.iter().copied().reduce(f64::max))
        else {
            continue;
        };
        let word = |good: bool| if good { "met" } else { "MISSED" };
        let _ = writeln!(
            s,
            "\n{t} thread(s): geometric mean {mean:.3} (at most {MEAN}: {}), largest ratio {worst:.2} (at most {EACH}: {})",
            word(mean <= MEAN),
            word(worst <= EACH)
        );
    }
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(name: &str, time: f64, memory: f64) -> Results {
        Results::parse(&format!(
            r#"{{"meta": {{"impl": "{name}"}}, "rows": [{{"id": "net/x", "threads": 1, "median_s": {time}, "min_s": {time},
            "cpu_s": {time}, "first_s": 3.0, "memory": {memory}, "deviation": 2e-7, "check": 1.0}}]}}"#
        ))
        .unwrap()
    }

    #[test]
    fn tables() {
        let ids = ["net/x".to_string(), "service/y".to_string()];
        let (ours, theirs) = (side("we", 1.0, 4e6), side("they", 2.0, 8e6));
        let d = details(&ids, &[1], &ours, &theirs);
        let line = d.lines().find(|l| l.starts_with("net/x")).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[2..7], ["|", "3.00", "s", "3.00", "3.00"], "{line}");
        assert!(line.contains("4.0 MB") && line.contains("0.50") && line.ends_with("2.0e-7"), "{line}");
        let c = Comparison::new(&ids[..1], &[1], &ours, &theirs);
        assert!(bars(&c, &[1]).contains("0.500 (at most 0.6: met), largest ratio 0.50"));
        let c = Comparison::new(&ids[..1], &[1], &theirs, &ours);
        assert!(bars(&c, &[1]).contains("2.000 (at most 0.6: MISSED)"));
    }
}
