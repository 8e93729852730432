//! `cargo xtask bench --growth`: operators over five decades of sizes, their time for an element, drawn; cliffs, and sizes at
//! which the other side wins.

use super::chart::{self, Curve, Panel};
use super::limits::{Machine, Work};
use super::results::Results;
use super::sides::Sides;
use super::{Args, beside, results};
use serde::Deserialize;
use std::fmt::Write as _;
use std::path::Path;

/// A size whose time for a unit of work is so much more than at the size before is a cliff.
const CLIFF: f64 = 2.0;
/// The other side wins where it is so much faster.
const WIN: f64 = 1.05;

#[derive(Debug, Deserialize)]
struct List {
    sides: Vec<u64>,
    operators: Vec<Operator>,
}
#[derive(Debug, Deserialize)]
struct Operator {
    op: String,
    what: String,
    /// Bytes for an element; operations are `flops` times the elements to this power.
    bytes: f64,
    flops: f64,
    power: f64,
}
impl Operator {
    fn id(&self, elements: u64) -> String {
        format!("{}@{elements}", self.op)
    }
    /// What an ideal time is proportional to.
    fn units(&self, elements: u64) -> f64 {
        (elements as f64).powf(self.power)
    }
    fn work(&self, elements: u64) -> Work {
        let bytes = self.bytes * elements as f64;
        let flops = self.flops * self.units(elements);
        Work { br: bytes, ws: bytes, flops, base: 1.0, ..Work::default() }
    }
}

/// One operator at one size: seconds.
struct Point {
    elements: u64,
    ours: f64,
    theirs: Option<f64>,
    limit: Option<f64>,
}
impl Point {
    fn ratio(&self) -> Option<f64> {
        self.theirs.map(|t| self.ours / t)
    }
}

fn time(r: &Results, id: &str, threads: usize) -> Option<f64> {
    let r = r.get(id, threads)?;
    r.min_s.filter(|_| r.error.is_none())
}

fn points(o: &Operator, list: &List, t: usize, ours: &Results, theirs: &Results, m: &Machine) -> Vec<Point> {
    let of = |side: &u64| {
        let elements = side * side;
        let id = o.id(elements);
        let limit = m.limit(&o.work(elements)).map(|l| l.0);
        Some(Point { elements, ours: time(ours, &id, t)?, theirs: time(theirs, &id, t), limit })
    };
    list.sides.iter().filter_map(of).collect()
}

/// Sizes at which a unit of work takes much longer than at the size before, with both factors: ours and the other side's.
fn cliffs(o: &Operator, points: &[Point]) -> Vec<(u64, f64, Option<f64>)> {
    let step = |a: f64, b: f64, p: &[Point]| (b / o.units(p[1].elements)) / (a / o.units(p[0].elements));
    let of = |p: &[Point]| {
        let ours = step(p[0].ours, p[1].ours, p);
        let theirs = p[0].theirs.zip(p[1].theirs).map(|(a, b)| step(a, b, p));
        (p[1].elements, ours, theirs)
    };
    points.windows(2).map(of).filter(|c| c.1 > CLIFF).collect()
}

fn report(list: &List, all: &[Vec<Point>]) -> String {
    let mut s = format!(
        "{:<26} {:>12} {:>12} {:>12} {:>7}\n",
        "ns for an element", "ours", "other", "limit", "ratio"
    );
    let (mut fallen, mut lost) = (Vec::new(), Vec::new());
    for (o, points) in list.operators.iter().zip(all) {
        let _ = writeln!(s, "{}: {}", o.op, o.what);
        for p in points {
            let each =
                |v: Option<f64>| v.map_or("-".into(), |v| format!("{:.4}", v * 1e9 / p.elements as f64));
            let ratio = p.ratio().map_or("-".into(), |r| format!("{r:.2}"));
            let _ = writeln!(
                s,
                "{:<26} {:>12} {:>12} {:>12} {ratio:>7}",
                o.id(p.elements),
                each(Some(p.ours)),
                each(p.theirs),
                each(p.limit)
            );
            if let Some(r) = p.ratio().filter(|r| *r > WIN) {
                lost.push(format!("{} {r:.2}", o.id(p.elements)));
            }
        }
        fallen.extend(cliffs(o, points).into_iter().map(|(n, ours, theirs)| {
            let theirs = theirs.map_or(String::new(), |t| format!(" (other side: {t:.1})"));
            format!("{} {ours:.1}{theirs}", o.id(n))
        }));
    }
    let line = |what: &str, all: &[String]| match all {
        [] => format!("\n{what}: none\n"),
        _ => format!("\n{what}:\n  {}\n", all.join("\n  ")),
    };
    s.push_str(&line("cliffs, by how much a unit of work takes longer than at the size before", &fallen));
    s.push_str(&line("the other side wins, by ratio", &lost));
    s
}

fn panels(list: &List, all: &[Vec<Point>]) -> Vec<Panel> {
    let panel = |(o, points): (&Operator, &Vec<Point>)| {
        let curve = |name: &'static str, f: &dyn Fn(&Point) -> Option<f64>| Curve {
            name,
            points: points
                .iter()
                .filter_map(|p| Some((p.elements as f64, f(p)? * 1e9 / p.elements as f64)))
                .collect(),
        };
        let curves =
            [curve("ours", &|p| Some(p.ours)), curve("PyTorch", &|p| p.theirs), curve("limit", &|p| p.limit)];
        Panel { title: o.op.clone(), curves: curves.into() }
    };
    list.operators.iter().zip(all).map(panel).collect()
}

pub fn run(root: &Path, a: &Args) -> Result<bool, String> {
    let path = root.join("benches/growth.json");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut list: List = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    list.operators.retain(|o| a.wants(&o.op));
    if list.operators.is_empty() {
        return Err("--only selects no operator".into());
    }
    let sides = Sides::new(root, a, "growth.json")?;
    let (mut ours, mut theirs) = (Results::default(), Results::default());
    if let Some(path) = &a.compare {
        theirs = results::read(path)?;
    }
    // many short rows: a shorter time for each than the rows of the benchmark have
    let given = a.passed.iter().any(|f| f == "--min-time");
    let short: &[&str] = if given { &[] } else { &["--min-time", "0.05"] };
    for &threads in &a.threads {
        let machine = Machine::measure(&sides, threads)?;
        for o in &list.operators {
            let ids: Vec<String> = list.sides.iter().map(|s| o.id(s * s)).collect();
            ours.merge(sides.ours("growth", threads, &ids, short)?);
            ours.write(&sides.out)?;
            if let Some(measured) = sides.theirs("growth.py", threads, &ids, short)? {
                theirs.merge(measured);
                theirs.write(&beside(&sides.out))?;
            }
        }
        let all: Vec<Vec<Point>> =
            list.operators.iter().map(|o| points(o, &list, threads, &ours, &theirs, &machine)).collect();
        println!("\n{threads} thread(s)\n{}", report(&list, &all));
        let picture = sides.out.with_file_name(format!("growth-{threads}.svg"));
        chart::draw(&picture, "nanoseconds for an element over elements", &panels(&list, &all))?;
        println!("drawn: {}", picture.display());
    }
    println!("results: {}", sides.out.display());
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(power: f64) -> Operator {
        Operator { op: "f".into(), what: "f(x)".into(), bytes: 4.0, flops: 1.0, power }
    }
    fn point(elements: u64, ours: f64, theirs: f64) -> Point {
        Point { elements, ours, theirs: Some(theirs), limit: None }
    }

    #[test]
    fn cliffs_are_steps_of_a_unit_of_work() {
        let p = [point(100, 1.0, 1.0), point(400, 4.1, 4.0), point(1600, 40.0, 16.0)];
        let found = cliffs(&operator(1.0), &p);
        assert_eq!(found.len(), 1);
        assert!(found[0].0 == 1600 && (found[0].1 - 2.44).abs() < 0.01 && found[0].2 == Some(1.0));
        // a product's work grows faster than its elements
        let p = [point(100, 1.0, 1.0), point(400, 8.0, 8.0), point(1600, 64.0, 64.0)];
        assert!(cliffs(&operator(1.5), &p).is_empty());
    }

    #[test]
    fn losses_are_named() {
        let list = List { sides: vec![10], operators: vec![operator(1.0)] };
        let r = report(&list, &[vec![point(100, 1.0, 1.0), point(400, 2.0, 1.9)]]);
        assert!(r.contains("the other side wins, by ratio:\n  f@400 1.05\n"), "{r}");
        assert!(r.contains("size before: none"), "{r}");
    }
}
