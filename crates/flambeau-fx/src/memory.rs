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
/// let report: fx::MemoryReport = fx::memory(&m);
/// // the input, two results of 4,000 bytes, of which Rust keeps the first until the statement ends, and the sum
/// assert_eq!((report.resident, report.peak), (4000, 12004));
/// ```
pub fn memory(m: &GraphModule) -> MemoryReport {
    let lives = Lives::of(&m.graph);
    let steps: Vec<usize> = (0..lives.nodes.len()).collect();
    lives.report(&m.graph, &lives.all, &steps)
}
/// When a block of memory is there: from the step that makes it to the last that needs it.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub node: Node,
    pub first: usize,
    pub last: usize,
    pub bytes: usize,
    /// Inputs and weights.
    pub stays: bool,
    /// The steps that use it, or one of its views.
    pub uses: Vec<usize>,
}
/// The memory of a program.
pub(crate) struct Lives {
    /// The program's steps.
    pub nodes: Vec<Node>,
    pub place: HashMap<Node, usize>,
    pub all: Vec<Life>,
    /// What a step makes for itself, by step: it is there beside its results, or in their place before they are.
    pub own: Vec<usize>,
}
impl Lives {
    pub fn of(g: &Graph) -> Lives {
        let nodes: Vec<Node> = g.nodes().collect();
        let place: HashMap<Node, usize> = nodes.iter().enumerate().map(|(i, n)| (*n, i)).collect();
        let (mut all, mut blocks): (Vec<Life>, HashMap<(bool, usize), usize>) = (Vec::new(), HashMap::new());
        let mut fresh = vec![0usize; nodes.len()];
        for (i, n) in nodes.iter().enumerate() {
            let d = g.node(*n);
            if let Some((key, bytes)) = block(g, *n) {
                let at = *blocks.entry(key).or_insert_with(|| {
                    let life = Life { node: *n, first: i, last: i, bytes, stays: false, uses: Vec::new() };
                    all.push(life);
                    all.len() - 1
                });
                let life = &mut all[at];
                let users = d.users().iter().filter_map(|u| place.get(u)).copied();
                let held = d.meta.held_until.and_then(|u| place.get(&u).copied());
                life.uses.extend(users.clone());
                life.last = users.chain(held).max().unwrap_or(i).max(i).max(life.last);
                life.stays |= matches!(d.op, Op::Placeholder | Op::GetAttr);
                fresh[i] += if life.first == i && !life.stays { bytes } else { 0 };
            }
            for (bytes, until) in &d.meta.unused {
                let last = until.and_then(|u| place.get(&u).copied()).unwrap_or(i).max(i);
                fresh[i] += bytes;
                all.push(Life { node: *n, first: i, last, bytes: *bytes, stays: false, uses: Vec::new() });
            }
        }
        all.iter_mut().for_each(|l| l.uses.sort_unstable());
        let own = nodes.iter().zip(fresh).map(|(n, f)| g.node(*n).meta.made.saturating_sub(f)).collect();
        Lives { nodes, place, all, own }
    }
    /// What is there over time: at each of `steps`, which are places in the program, of memory whose lives are places in `steps`.
    pub fn report(&self, g: &Graph, lives: &[Life], steps: &[usize]) -> MemoryReport {
        let resident: usize = lives.iter().filter(|l| l.stays).map(|l| l.bytes).sum();
        let mut change = vec![0i64; steps.len() + 2];
        for l in lives.iter().filter(|l| !l.stays) {
            change[l.first] += l.bytes as i64;
            change[l.last + 1] -= l.bytes as i64;
        }
        let mut report = MemoryReport { resident, peak: resident, ..MemoryReport::default() };
        let (mut now, mut top) = (resident as i64, None);
        for (i, step) in steps.iter().enumerate() {
            now += change[i];
            let bytes = usize::try_from(now).unwrap_or(0).saturating_add(self.own[*step]);
            report.steps.push((g.node(self.nodes[*step]).name.clone(), bytes));
            if bytes > report.peak {
                report.peak = bytes;
                top = Some(i);
            }
        }
        if let Some(i) = top {
            report.at = Some(report.steps[i].0.clone());
            let mut alive: Vec<&Life> =
                lives.iter().filter(|l| !l.stays && l.first <= i && i <= l.last).collect();
            alive.sort_by_key(|l| (std::cmp::Reverse(l.bytes), l.first));
            report.alive = alive.iter().map(|l| (g.node(l.node).name.clone(), l.bytes)).collect();
        }
        report
    }
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
