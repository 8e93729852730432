//! What checkpoints would save: parts of the forward pass that are dropped, and computed again when the backward pass needs them.

use crate::memory::{Life, Lives, MemoryReport};
use crate::module::GraphModule;
use crate::node::Op;
use flambeau_core::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A submodule, and what it would save if [`checkpoint`](flambeau_autograd::checkpoint::checkpoint) ran it.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckpointBlock {
    /// Its place in the module; empty for the module itself.
    pub path: String,
    /// Its class.
    pub class: String,
    /// The most bytes of the step at once if this block alone were checkpointed.
    pub peak: usize,
    /// Bytes that the peak falls by.
    pub saved: usize,
    /// Calls of operators that are made again.
    pub operators: usize,
    /// Operations of products that are made again, as
    /// [`FlopCounterMode`](flambeau_utils::flop_counter::FlopCounterMode) counts them.
    pub flops: i64,
    /// Whether it writes to what it did not make itself, as batch normalisation does to its running statistics: made again, it does
    /// so twice.
    pub writes: bool,
}
/// Blocks that are checkpointed together.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckpointChoice {
    /// Their paths, in the order in which they run.
    pub paths: Vec<String>,
    /// The most bytes of the step at once.
    pub peak: usize,
    /// Calls of operators that are made again.
    pub operators: usize,
    /// Operations of products that are made again.
    pub flops: i64,
}

/// One call of a block.
struct Region {
    /// Steps of the forward pass, in order.
    forward: Vec<usize>,
    /// Steps of the backward pass.
    backward: BTreeSet<usize>,
    /// The step before which the block runs again.
    at: usize,
    /// The last step that needs what it made.
    end: usize,
}
/// What checkpointing which blocks of a captured training step would save. [`checkpoints`](fn@checkpoints) makes it.
pub struct Checkpoints {
    program: GraphModule,
    lives: Lives,
    /// The first step of a backward pass.
    turn: usize,
    report: MemoryReport,
    blocks: Vec<CheckpointBlock>,
    regions: Vec<Vec<Region>>,
}

/// What checkpointing which blocks of a training step would save, and what it would cost, told before the step runs: the program is
/// one that [`make_fx_of`](crate::make_fx_of) captured with its backward pass. A block is a submodule; where it is called several
/// times, each call is checkpointed.
///
/// Told is what [`checkpoint`](flambeau_autograd::checkpoint::checkpoint) does: what a block saved for the backward pass is dropped when
/// the block is done, its inputs are kept, and it runs again when the backward pass first needs something of it. Blocks for which
/// the backward pass needs nothing are left out.
///
/// ```
/// use torch::{Tensor, fx, nn, prelude::*};
///
/// let block = || nn::Sequential::new((nn::Linear::new(8, 64), nn::Tanh::new(), nn::Linear::new(64, 8)));
/// let net = nn::Sequential::new((block(), block(), block()));
/// let step = fx::make_fx_of(&net, |x: &[Tensor]| {
///     let loss = net.call(&x[0]).sum();
///     loss.backward();
///     loss.detach()
/// })(&[&torch::ones([100, 8])]);
/// let told: fx::Checkpoints = fx::checkpoints(&step);
/// let first: &fx::CheckpointBlock = told.blocks().iter().find(|b| b.path == "0").unwrap();
/// // a hidden layer of 100 times 64 numbers is not kept; both products of the block are made again
/// assert_eq!((first.saved, first.flops), (25_600, 2 * 100 * 8 * 64 * 2));
/// let choice: fx::CheckpointChoice = told.within(told.peak() - 20_000).unwrap();
/// assert!(choice.peak <= told.peak() - 20_000);
/// ```
pub fn checkpoints(m: &GraphModule) -> Checkpoints {
    let program = m.clone();
    let g = &program.graph;
    let lives = Lives::of(g);
    let steps: Vec<usize> = (0..lives.nodes.len()).collect();
    let report = lives.report(g, &lives.all, &steps);
    let back = |n| g.node(n).meta.fwd_nn_module_stack.as_ref();
    let turn = lives.nodes.iter().position(|n| back(*n).is_some()).unwrap_or(lives.nodes.len());
    // by path and call: the class, the steps forward, the steps back
    type Calls = BTreeMap<String, (Vec<usize>, BTreeSet<usize>)>;
    let (mut found, mut order): (BTreeMap<String, (String, Calls)>, Vec<String>) = Default::default();
    for (i, n) in lives.nodes.iter().enumerate() {
        let d = g.node(*n);
        let known = |s: &&(String, String, String)| !s.0.is_empty();
        match back(*n) {
            Some(stack) => {
                for (key, path, _) in stack.iter().filter(known) {
                    if let Some(c) = found.get_mut(path).and_then(|f| f.1.get_mut(key)) {
                        c.1.insert(i);
                    }
                }
            }
            None if matches!(d.op, Op::Placeholder | Op::GetAttr | Op::Output) => {}
            None => {
                for (key, path, class) in d.meta.nn_module_stack.iter().filter(known) {
                    let f = found.entry(path.clone()).or_insert_with(|| {
                        order.push(path.clone());
                        (class.clone(), Calls::new())
                    });
                    f.1.entry(key.clone()).or_default().0.push(i);
                }
            }
        }
    }
    let mut all = Checkpoints { program, lives, turn, report, blocks: Vec::new(), regions: Vec::new() };
    for path in order {
        let Some((class, calls)) = found.remove(&path) else { continue };
        let regions: Vec<Region> = calls.into_values().filter_map(|(f, b)| all.region(f, b)).collect();
        if !regions.is_empty() {
            all.add(path, class, regions);
        }
    }
    all
}

impl Checkpoints {
    /// The most bytes of the step at once without checkpoints, those of inputs and weights included.
    pub fn peak(&self) -> usize {
        self.report.peak
    }
    /// The blocks, in the order in which they run.
    pub fn blocks(&self) -> &[CheckpointBlock] {
        &self.blocks
    }
    /// What the step takes over time if these blocks, none of which is in another, are checkpointed.
    ///
    /// # Errors
    /// A path that is no block's, blocks within others.
    pub fn memory(&self, paths: &[&str]) -> Result<MemoryReport> {
        Ok(self.with(&self.find(paths)?).0)
    }
    /// What these blocks, none of which is in another, save together.
    ///
    /// # Errors
    /// As of [`Checkpoints::memory`].
    pub fn choice(&self, paths: &[&str]) -> Result<CheckpointChoice> {
        Ok(self.chosen(&self.find(paths)?))
    }
    /// The cheapest blocks that were found with which the step takes no more than `bytes`; none where no blocks were found that do.
    ///
    /// Blocks are taken one after the other, first what frees most at the peak for its cost, and those are left out in the end
    /// that are not needed. That is done with the blocks of each depth alone and with all, and the cheapest outcome is given: good,
    /// and not always the best that there is. Blocks that write to what is not their own are not taken.
    pub fn within(&self, bytes: usize) -> Option<CheckpointChoice> {
        let depth = |b: &CheckpointBlock| if b.path.is_empty() { 0 } else { b.path.matches('.').count() + 1 };
        let depths: BTreeSet<usize> = self.blocks.iter().map(depth).collect();
        let fit = |i: &usize| !self.blocks[*i].writes;
        let each = |d: Option<usize>| {
            let all = 0..self.blocks.len();
            all.filter(fit).filter(|i| d.is_none_or(|d| depth(&self.blocks[*i]) == d)).collect::<Vec<_>>()
        };
        let tries = depths.into_iter().map(Some).chain([None]);
        let found = tries.filter_map(|d| self.greedy(each(d), bytes));
        found.min_by_key(|c| (c.flops, c.operators, c.paths.len()))
    }

    /// A call of a block; none where the backward pass needs nothing of it.
    fn region(&self, forward: Vec<usize>, backward: BTreeSet<usize>) -> Option<Region> {
        let mut needs = BTreeSet::new();
        for l in self.lives.all.iter().filter(|l| l.first < self.turn) {
            needs.extend(l.uses.iter().filter(|u| backward.contains(u)));
        }
        let (at, mut end) = (*needs.first()?, *needs.last()?);
        let last = *backward.last()?;
        let mut r = Region { forward, backward, at, end };
        for l in self.lives.all.iter().filter(|l| r.saves(l) && l.last <= last) {
            end = end.max(l.last);
        }
        r.end = end;
        Some(r)
    }
    fn add(&mut self, path: String, class: String, regions: Vec<Region>) {
        let g = &self.program.graph;
        let node = |i: &usize| g.node(self.lives.nodes[*i]);
        let again = || regions.iter().flat_map(|r| &r.forward);
        let flops = again().fold(0i64, |n, i| n.saturating_add(node(i).meta.flops));
        let operators = again().filter(|i| node(i).target != "operator.getitem").count();
        let writes = regions.iter().any(|r| {
            let outside = |n| self.lives.place.get(n).is_some_and(|p| r.forward.binary_search(p).is_err());
            r.forward.iter().any(|i| node(i).meta.writes.iter().any(outside))
        });
        let i = self.blocks.len();
        self.blocks.push(CheckpointBlock { path, class, peak: 0, saved: 0, operators, flops, writes });
        self.regions.push(regions);
        let peak = self.with(&[i]).0.peak;
        (self.blocks[i].peak, self.blocks[i].saved) = (peak, self.report.peak.saturating_sub(peak));
    }
    fn find(&self, paths: &[&str]) -> Result<Vec<usize>> {
        let mut chosen = Vec::new();
        for p in paths {
            let Some(i) = self.blocks.iter().position(|b| b.path == *p) else {
                return Err(Error::value(format!("'{p}' is no block that can be checkpointed")));
            };
            if let Some(o) = chosen.iter().find(|o| self.overlap(i, **o)) {
                let other = &self.blocks[*o].path;
                return Err(Error::value(format!("the blocks '{p}' and '{other}' have calls in common")));
            }
            chosen.push(i);
        }
        Ok(chosen)
    }
    fn overlap(&self, a: usize, b: usize) -> bool {
        let within = |r: &Region, i: &usize| r.forward.binary_search(i).is_ok();
        let any = |r: &Region| {
            self.regions[b].iter().any(|o| o.forward.first().is_some_and(|i| within(r, i)))
                || self.regions[b].iter().any(|o| r.forward.first().is_some_and(|i| within(o, i)))
        };
        self.regions[a].iter().any(any)
    }
    fn chosen(&self, blocks: &[usize]) -> CheckpointChoice {
        let mut blocks = blocks.to_vec();
        blocks.sort_unstable();
        let of = || blocks.iter().map(|i| &self.blocks[*i]);
        CheckpointChoice {
            paths: of().map(|b| b.path.clone()).collect(),
            peak: self.with(&blocks).0.peak,
            operators: of().map(|b| b.operators).sum(),
            flops: of().fold(0, |n, b| n.saturating_add(b.flops)),
        }
    }
    /// The memory over time with blocks checkpointed, and the step of the program at which it is most.
    fn with(&self, blocks: &[usize]) -> (MemoryReport, usize) {
        let regions: Vec<&Region> = blocks.iter().flat_map(|b| &self.regions[*b]).collect();
        let n = self.lives.nodes.len();
        let (mut steps, mut place) = (Vec::new(), vec![0; n]);
        // where a block's steps are made again
        let mut again = vec![0; regions.len()];
        for (i, place) in place.iter_mut().enumerate() {
            for (k, r) in regions.iter().enumerate().filter(|(_, r)| r.at == i) {
                again[k] = steps.len();
                steps.extend(&r.forward);
            }
            *place = steps.len();
            steps.push(i);
        }
        let mut lives = Vec::new();
        for l in &self.lives.all {
            let (mut last, made) = (l.last, regions.iter().position(|r| r.makes(l)));
            if let Some(k) = made {
                let r = regions[k];
                let copy = |i: usize| again[k] + r.forward.partition_point(|f| *f <= i).saturating_sub(1);
                if r.drops(l, self.turn) {
                    let forward = l.uses.iter().filter(|u| **u < self.turn).max().copied();
                    last = forward.unwrap_or(l.first).max(l.first);
                }
                let until = if r.saves(l) { place[l.last.clamp(r.at, r.end)] } else { copy(l.last) };
                lives.push(Life { first: copy(l.first), last: until, uses: Vec::new(), ..l.clone() });
            }
            for (k, r) in regions.iter().enumerate() {
                // what a block is given is kept for the second run
                if made != Some(k) && !l.stays && l.uses.iter().any(|u| r.forward.binary_search(u).is_ok()) {
                    last = last.max(r.end);
                }
            }
            lives.push(Life { first: place[l.first], last: place[last], uses: Vec::new(), ..l.clone() });
        }
        let report = self.lives.report(&self.program.graph, &lives, &steps);
        let top = report.steps.iter().enumerate().max_by_key(|(i, s)| (s.1, std::cmp::Reverse(*i)));
        let at = top.map_or(0, |(p, _)| place.partition_point(|q| *q < p));
        (report, at.min(n.saturating_sub(1)))
    }
    /// Bytes that a block would not hold at a step.
    fn freed(&self, block: usize, at: usize) -> usize {
        let mut bytes = 0;
        for r in &self.regions[block] {
            let before = at > *r.forward.last().unwrap_or(&0) && at < r.at;
            let gone = |l: &&Life| before && r.makes(l) && l.last >= at && r.drops(l, self.turn);
            bytes += self.lives.all.iter().filter(gone).map(|l| l.bytes).sum::<usize>();
        }
        bytes
    }
    fn greedy(&self, mut left: Vec<usize>, bytes: usize) -> Option<CheckpointChoice> {
        let mut taken: Vec<usize> = Vec::new();
        let (mut peak, mut at) = {
            let (report, at) = self.with(&[]);
            (report.peak, at)
        };
        while peak > bytes {
            let worth = |i: usize| {
                let b = &self.blocks[i];
                self.freed(i, at) as f64 / (b.flops as f64 + b.operators as f64)
            };
            let rated = left.iter().map(|i| (*i, worth(*i))).filter(|(_, w)| *w > 0.0);
            let (best, _) = rated.max_by(|a, b| a.1.total_cmp(&b.1))?;
            left.retain(|i| *i != best);
            taken.push(best);
            let (report, place) = self.with(&taken);
            if report.peak > peak {
                taken.pop();
                continue;
            }
            left.retain(|i| !self.overlap(*i, best));
            (peak, at) = (report.peak, place);
        }
        // the dearest first
        let mut dear = taken.clone();
        dear.sort_by_key(|i| std::cmp::Reverse((self.blocks[*i].flops, self.blocks[*i].operators)));
        for i in dear {
            let fewer: Vec<usize> = taken.iter().copied().filter(|t| *t != i).collect();
            if self.with(&fewer).0.peak <= bytes {
                taken = fewer;
            }
        }
        Some(self.chosen(&taken))
    }
}
impl Region {
    fn makes(&self, l: &Life) -> bool {
        !l.stays && self.forward.binary_search(&l.first).is_ok()
    }
    /// Whether it makes what its backward pass uses.
    fn saves(&self, l: &Life) -> bool {
        self.makes(l) && l.uses.iter().any(|u| self.backward.contains(u))
    }
    /// Whether it alone keeps it for the backward pass, which begins at step `turn`.
    fn drops(&self, l: &Life, turn: usize) -> bool {
        let own = |u: &usize| *u < turn || self.backward.contains(u);
        self.saves(l) && l.uses.iter().all(own) && self.backward.last().is_some_and(|b| l.last <= *b)
    }
}
/// A table of the blocks.
impl fmt::Display for Checkpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<32} {:>14} {:>14} {:>10} {:>16}", "block", "peak", "saved", "operators", "flops")?;
        writeln!(f, "{:<32} {:>14} {:>14} {:>10} {:>16}", "(none)", self.peak(), 0, 0, 0)?;
        for b in &self.blocks {
            let name = format!("{} {}", if b.path.is_empty() { "(all)" } else { &b.path }, b.class);
            let note = if b.writes { " writes" } else { "" };
            let (peak, saved) = (b.peak, b.saved);
            writeln!(f, "{name:<32} {peak:>14} {saved:>14} {:>10} {:>16}{note}", b.operators, b.flops)?;
        }
        Ok(())
    }
}
