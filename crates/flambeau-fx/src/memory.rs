//! The memory that a captured program takes, told before it runs.

use crate::graph::Graph;
use crate::meta::Val;
use crate::module::GraphModule;
use crate::node::{Node, Op};
use std::collections::HashMap;
use std::fmt::Write as _;

/// The memory of a program's tensors over its steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryReport {
    /// Bytes of inputs and weights, which are there all the time.
    pub resident: usize,
    /// The most bytes at once, those of inputs and weights included.
    pub peak: usize,
    /// The step at which that is.
    pub at: Option<String>,
    /// What is there then beside inputs and weights: the step that made it, and its bytes, the largest first.
    pub alive: Vec<(String, usize)>,
    /// Bytes at each step, in order: before the step's arguments are dropped.
    pub steps: Vec<(String, usize)>,
}

/// A block of memory: its number where the capture knows it, and its bytes.
fn block(g: &Graph, n: Node) -> Option<((bool, usize), usize)> {
    let d = g.node(n);
    if let Some((id, bytes)) = d.meta.storage {
        return Some(((true, id), bytes));
    }
    match &d.meta.val {
        Some(Val::Tensor(t)) => {
            let mut count = 1i64;
            for s in &t.shape {
                count = count.checked_mul(s.as_int()?)?;
            }
            let bytes = usize::try_from(count).ok()?.checked_mul(t.dtype.size())?;
            Some(((false, n.index as usize), bytes))
        }
        _ => None,
    }
}

/// The memory that the program's tensors take, step by step: of a captured graph whose sizes are numbers. Views share the memory of
/// what they are views of. A tensor is there until its last use, and where the capture ran on memory as long as the program held it.
///
/// What an operator makes for itself counts at its step where the capture ran on memory; on the meta device it does not.
///
/// ```
/// use torch::{Tensor, fx};
///
/// let x = torch::zeros([1000]);
/// let m = fx::make_fx(|x: &[Tensor]| (x[0].exp() + &x[0]).relu().sum())(&[&x]);
/// let report = fx::memory(&m);
/// // the input, two results of 4,000 bytes, of which Rust keeps the first until the statement ends, and the sum
/// assert_eq!((report.resident, report.peak), (4000, 12004));
/// ```
pub fn memory(m: &GraphModule) -> MemoryReport {
    let g = &m.graph;
    let nodes: Vec<Node> = g.nodes().collect();
    let place: HashMap<Node, usize> = nodes.iter().enumerate().map(|(i, n)| (*n, i)).collect();
    let mut blocks: HashMap<(bool, usize), (usize, usize, usize, bool, Node)> = HashMap::new();
    for (i, n) in nodes.iter().enumerate() {
        let Some((key, bytes)) = block(g, *n) else { continue };
        let uses = g.node(*n).users().iter().chain(&g.node(*n).meta.held_until);
        let last = uses.filter_map(|u| place.get(u)).max().copied().unwrap_or(i).max(i);
        let stays = matches!(g.node(*n).op, Op::Placeholder | Op::GetAttr);
        let b = blocks.entry(key).or_insert((i, last, bytes, stays, *n));
        b.1 = b.1.max(last);
        b.3 |= stays;
    }
    let resident: usize = blocks.values().filter(|b| b.3).map(|b| b.2).sum();
    let mut change = vec![0i64; nodes.len() + 2];
    let mut fresh = vec![0usize; nodes.len()];
    for (first, last, bytes, stays, _) in blocks.values() {
        if !stays {
            change[*first] += *bytes as i64;
            fresh[*first] += *bytes;
            change[last + 1] -= *bytes as i64;
        }
    }
    for (i, n) in nodes.iter().enumerate() {
        for (bytes, until) in &g.node(*n).meta.unused {
            let last = until.and_then(|u| place.get(&u).copied()).unwrap_or(i).max(i);
            change[i] += *bytes as i64;
            fresh[i] += *bytes;
            change[last + 1] -= *bytes as i64;
        }
    }
    let mut report = MemoryReport { resident, peak: resident, ..MemoryReport::default() };
    let (mut now, mut top) = (resident as i64, None);
    for (i, n) in nodes.iter().enumerate() {
        now += change[i];
        // what the call made for itself is there beside its results, or in their place before they are
        let own = g.node(*n).meta.made.saturating_sub(fresh[i]);
        let bytes = usize::try_from(now).unwrap_or(0).saturating_add(own);
        report.steps.push((g.node(*n).name.clone(), bytes));
        if bytes > report.peak {
            report.peak = bytes;
            top = Some(i);
        }
    }
    if let Some(i) = top {
        report.at = Some(report.steps[i].0.clone());
        let mut alive: Vec<(usize, String, usize)> = blocks
            .values()
            .filter(|(first, last, _, stays, _)| !stays && *first <= i && i <= *last)
            .map(|(first, _, bytes, _, n)| (*first, g.node(*n).name.clone(), *bytes))
            .collect();
        for (at, n) in nodes.iter().enumerate().take(i + 1) {
            let d = g.node(*n);
            let there =
                d.meta.unused.iter().filter(|(_, until)| {
                    until.and_then(|u| place.get(&u).copied()).unwrap_or(at).max(at) >= i
                });
            alive.extend(there.map(|(bytes, _)| (at, d.name.clone(), *bytes)));
        }
        alive.sort_by_key(|(first, _, bytes)| (std::cmp::Reverse(*bytes), *first));
        report.alive = alive.into_iter().map(|(_, name, bytes)| (name, bytes)).collect();
    }
    report
}
impl MemoryReport {
    /// A picture of the bytes over the steps.
    pub fn svg(&self) -> String {
        let (width, height) = (800.0, 240.0);
        let (n, top) = (self.steps.len().max(1) as f64, self.peak.max(1) as f64);
        let mut points = String::from("0,240");
        for (i, (_, bytes)) in self.steps.iter().enumerate() {
            let y = height - height * *bytes as f64 / top;
            let _ = write!(
                points,
                " {:.1},{y:.1} {:.1},{y:.1}",
                width * i as f64 / n,
                width * (i as f64 + 1.0) / n
            );
        }
        let floor = height - height * self.resident as f64 / top;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\"><polygon fill=\"#7aa6c2\" \
             points=\"{points} 800,240\"/><line x1=\"0\" x2=\"{width}\" y1=\"{floor:.1}\" y2=\"{floor:.1}\" stroke=\"#333\"/>\
             <text x=\"4\" y=\"14\" font-size=\"12\">peak {} bytes at {}</text></svg>",
            self.peak,
            self.at.as_deref().unwrap_or("the start")
        )
    }
}
