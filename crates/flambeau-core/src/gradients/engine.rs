//! Backward: works through the graph from its newest node to its oldest. A node's creation number is above those of
//! all nodes it sends gradients to, so when a node is the newest of those waiting, all its gradients have arrived.

use crate::api::into_arg::IntoArg;
use crate::backend::pointwise;
use crate::derivatives::shorthand;
use crate::dispatch::names::ignoring;
use crate::gradients::accumulate::{self, AccumulateGrad};
use crate::gradients::anomaly;
use crate::gradients::grad_mode;
use crate::gradients::hooks;
use crate::gradients::state;
use crate::gradients::work::WorkGuard;
pub use crate::gradients::work::current_node;
use crate::tensor::geometry::fmt_sizes;
use crate::tensor::graph::{self, Edge, Node, NodeHeader, OutputMeta, node_name};
use crate::tensor::wrapper::{batched, carrier, like};
use crate::{Error, Result, Tensor};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// What sees each node before it runs: its name, and the gradients that it gets.
pub type Watch = fn(&str, &[Option<Tensor>]);
static WATCH: OnceLock<Watch> = OnceLock::new();
static WATCHED: AtomicBool = AtomicBool::new(false);
/// Shows every node of every backward pass to `see`, or no longer. The first function that is given stays the one.
pub fn watch(see: Watch, on: bool) {
    WATCH.get_or_init(|| see);
    WATCHED.store(on, Ordering::Relaxed);
}

/// A node that waits for its turn, with the gradients that have arrived at its outputs.
struct Pending {
    seq: u64,
    node: Arc<dyn Node>,
    grads: SmallVec<[Option<Tensor>; 1]>,
}
impl Pending {
    #[inline]
    fn new(node: &Arc<dyn Node>, h: &NodeHeader) -> Pending {
        let grads = match h.outputs.len() {
            1 => SmallVec::from_buf([None]),
            n => SmallVec::from_elem(None, n),
        };
        Pending { seq: h.seq, node: node.clone(), grads }
    }
}

/// Above this length the sorted vector gives way to a tree.
const SMALL: usize = 64;

/// Waiting nodes by creation number. Mostly there are few, and new ones belong near the end.
#[derive(Default)]
struct Queue {
    /// Ascending.
    small: Vec<Pending>,
    /// All of them, once they were too many for `small`.
    tree: BTreeMap<u64, Pending>,
}
impl Queue {
    /// `h` is the node's header.
    #[inline]
    fn slot(&mut self, node: &Arc<dyn Node>, h: &NodeHeader) -> &mut Pending {
        let seq = h.seq;
        if self.tree.is_empty() {
            let mut i = self.small.len();
            while i > 0 && self.small[i - 1].seq > seq {
                i -= 1;
            }
            if i > 0 && self.small[i - 1].seq == seq {
                return &mut self.small[i - 1];
            }
            if self.small.len() < SMALL {
                self.small.insert(i, Pending::new(node, h));
                return &mut self.small[i];
            }
            self.tree.extend(self.small.drain(..).map(|p| (p.seq, p)));
        }
        self.tree.entry(seq).or_insert_with(|| Pending::new(node, h))
    }
    fn pop(&mut self) -> Option<Pending> {
        if self.tree.is_empty() { self.small.pop() } else { self.tree.pop_last().map(|(_, p)| p) }
    }
}

thread_local! {
    // the queue's memory, kept between runs; taken while a run uses it, so a run inside a hook gets a fresh one
    static SPARE: Cell<Vec<Pending>> = const { Cell::new(Vec::new()) };
    // the run at work, 0 outside of any
    static RUN: Cell<u64> = const { Cell::new(0) };
}

/// The number of the backward run that this thread is in, which no other run of the process has; none outside of one.
pub fn current_run() -> Option<u64> {
    Some(RUN.get()).filter(|r| *r > 0)
}
/// Restores the number of the run around this one.
struct RunGuard(u64);
impl RunGuard {
    fn new() -> RunGuard {
        static RUNS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let around = RunGuard(RUN.get());
        RUN.set(RUNS.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1);
        around
    }
}
impl Drop for RunGuard {
    fn drop(&mut self) {
        RUN.set(self.0);
    }
}

/// The tensors whose gradients a run is for, where it is not for all leaves.
struct Targets {
    /// Node number to (output, place in the result).
    captures: HashMap<u64, SmallVec<[(u32, usize); 1]>>,
    /// Nodes on a path to a target, targets included.
    on_path: HashSet<u64>,
    /// Leaves whose own `.grad` is wanted.
    leaves: HashSet<u64>,
    results: Vec<Option<Tensor>>,
}

/// What a run is to do with the graph.
#[derive(Clone, Copy)]
pub struct Mode {
    pub keep_graph: bool,
    pub create_graph: bool,
}

impl Targets {
    /// `accumulate`: leaves get their gradient in `.grad` instead of in the result.
    fn new(roots: &[(Edge, Tensor)], inputs: &[Tensor], accumulate: bool) -> Result<Targets> {
        let mut captures: HashMap<u64, SmallVec<[(u32, usize); 1]>> = HashMap::new();
        let (mut on_path, mut leaves) = (HashSet::new(), HashSet::new());
        let mut oldest = u64::MAX;
        // held until the search is done: the only handle on a leaf's node may be this one
        let mut edges = Vec::new();
        for (i, t) in inputs.iter().enumerate() {
            let e = state::grad_edge(t)
                .ok_or_else(|| Error::autograd("One of the differentiated Tensors does not require grad"))?;
            let seq = e.node().header().seq;
            oldest = oldest.min(seq);
            on_path.insert(seq);
            if accumulate && is_accumulate(&**e.node()) {
                leaves.insert(seq);
            } else {
                captures.entry(seq).or_default().push((e.nr, i));
            }
            edges.push(e);
        }
        // every node reachable above the oldest target, then oldest first: a node is on a path if a child is
        let mut seen = HashSet::new();
        let mut found: Vec<&Arc<dyn Node>> = Vec::new();
        let mut stack: Vec<&Arc<dyn Node>> = roots.iter().map(|(e, _)| e.node()).collect();
        while let Some(n) = stack.pop() {
            let h = n.header();
            if h.seq < oldest || !seen.insert(h.seq) {
                continue;
            }
            found.push(n);
            stack.extend(h.edges.iter().flatten().map(Edge::node));
        }
        found.sort_unstable_by_key(|n| n.header().seq);
        for n in found {
            let h = n.header();
            if h.edges.iter().flatten().any(|e| on_path.contains(&e.node().header().seq)) {
                on_path.insert(h.seq);
            }
        }
        Ok(Targets { captures, on_path, leaves, results: vec![None; inputs.len()] })
    }
    fn wants(&self, e: &Edge) -> bool {
        self.on_path.contains(&e.node().header().seq)
    }
}

fn is_accumulate(n: &dyn Node) -> bool {
    (n as &dyn Any).is::<AccumulateGrad>()
}

/// Where a run begins: mostly at one tensor.
type Roots = SmallVec<[(Edge, Tensor); 1]>;

/// Sends gradients from the roots to all leaves, or to `inputs` alone; returns the captured ones.
fn run(roots: Roots, mode: Mode, inputs: Option<(&[Tensor], bool)>) -> Result<Vec<Option<Tensor>>> {
    if let Some(allowed) = ALLOWED.get() {
        allowed()?;
    }
    let mut targets = match inputs {
        Some((inputs, accumulate)) => Some(Targets::new(&roots, inputs, accumulate)?),
        None => None,
    };
    let _mode = grad_mode::ModeGuard::recording(mode.create_graph);
    let _run = RunGuard::new();
    let mut queue = Queue { small: SPARE.try_with(Cell::take).unwrap_or_default(), tree: BTreeMap::new() };
    // gradients have no names, and formulas look at none
    let result = ignoring(|| {
        for (e, g) in roots {
            if targets.as_ref().is_none_or(|t| t.wants(&e)) {
                send(&mut queue, &e, e.node().header(), g, mode)?;
            }
        }
        while let Some(p) = queue.pop() {
            step(&mut queue, p, mode, &mut targets)?;
        }
        Ok(())
    });
    queue.small.clear();
    let _ = SPARE.try_with(|s| s.set(std::mem::take(&mut queue.small)));
    result.map(|()| targets.map_or(Vec::new(), |t| t.results))
}

fn step(queue: &mut Queue, p: Pending, mode: Mode, targets: &mut Option<Targets>) -> Result<()> {
    let Pending { node, mut grads, seq } = p;
    let header = node.header();
    let extra = hooks::extra_in(header);
    if let Some(x) = extra {
        x.before_capture(&mut grads)?;
    }
    let edges = &header.edges;
    let mut mask = !0u64;
    if let Some(t) = targets {
        if let Some(list) = t.captures.get(&seq) {
            for &(nr, i) in list {
                let mut g = grads.get(nr as usize).cloned().flatten();
                if let (Some(g), Some(leaf)) = (&mut g, node.leaf()) {
                    accumulate::run_leaf_hooks(&leaf, g)?;
                }
                t.results[i] = g;
            }
        }
        mask = 0;
        let mut any = t.leaves.contains(&seq);
        for (i, e) in edges.iter().enumerate() {
            if e.as_ref().is_some_and(|e| t.wants(e)) {
                any = true;
                mask |= if i < 64 { 1 << i } else { 0 };
            }
        }
        if !any {
            return Ok(());
        }
    }
    if let Some(x) = extra {
        x.before_node(&mut grads)?;
    }
    if grads.iter().all(Option::is_none) {
        return Ok(());
    }
    let outputs: Option<SmallVec<[Option<Tensor>; 1]>> =
        extra.is_some_and(|x| x.has_post()).then(|| grads.clone());
    if WATCHED.load(Ordering::Relaxed)
        && let Some(see) = WATCH.get()
    {
        see(&node_name(&*node), &grads);
    }
    let applied = {
        let _work = WorkGuard::new(mask, !mode.keep_graph, seq);
        node.apply(&node, &mut grads)
    };
    let mut ins = applied.map_err(|e| located(e, &*node))?;
    drop(grads);
    if !mode.keep_graph {
        node.release();
    }
    if let Some(outputs) = outputs {
        hooks::extra_or_init(&*node).after_node(&mut ins, &outputs)?;
    }
    if ins.len() > edges.len() && ins[edges.len()..].iter().any(Option::is_some) {
        return Err(Error::autograd(format!(
            "function {} returned an incorrect number of gradients (expected {}, got {})",
            node_name(&*node),
            edges.len(),
            ins.len()
        )));
    }
    if anomaly::is_anomaly_check_nan_enabled() {
        check_nan(&*node, &ins)?;
    }
    for (i, (g, e)) in ins.into_iter().zip(edges).enumerate() {
        let (Some(g), Some(e)) = (g, e) else { continue };
        if targets.as_ref().is_some_and(|t| !t.wants(e)) {
            continue;
        }
        let h = e.node().header();
        let meta = &h.outputs[e.nr as usize];
        let g = if fits(meta, &g) { g } else { made_to_fit(&*node, i, meta, g)? };
        send(queue, e, h, g, mode)?;
    }
    Ok(())
}

/// Adds to the gradient that waits at an edge; `h` is the header of its node.
#[inline]
fn send(queue: &mut Queue, e: &Edge, h: &NodeHeader, mut g: Tensor, mode: Mode) -> Result<()> {
    let slot = &mut queue.slot(e.node(), h).grads[e.nr as usize];
    match slot {
        None => {
            *slot = Some(g);
            return Ok(());
        }
        Some(sum) => {
            if !mode.create_graph && pointwise::add_unshared(sum, &mut g) {
                return Ok(());
            }
        }
    }
    *slot = Some(match slot.take() {
        None => g,
        Some(sum) if !mode.create_graph && can_add_in_place(&sum, &g) => {
            shorthand::add_(&sum, &g)?;
            sum
        }
        Some(sum) if !mode.create_graph && can_add_in_place(&g, &sum) => {
            shorthand::add_(&g, &sum)?;
            g
        }
        Some(sum) => shorthand::add_layouts(&sum, &g)?,
    });
    Ok(())
}
/// Nobody else sees the sum, and its elements do not overlap.
fn can_add_in_place(sum: &Tensor, g: &Tensor) -> bool {
    sum.dtype() == g.dtype()
        && !sum.is_wrapper()
        && !g.is_wrapper()
        && sum.is_contiguous()
        && !sum.is_conj()
        && !sum.is_neg()
        && accumulate::is_sole_owner(sum)
}

#[inline]
fn fits(meta: &OutputMeta, g: &Tensor) -> bool {
    g.sizes() == &meta.sizes[..] && g.dtype() == meta.dtype && g.device() == meta.device
}
/// Sums what was broadcast, casts what was promoted.
#[cold]
fn made_to_fit(node: &dyn Node, i: usize, meta: &OutputMeta, mut g: Tensor) -> Result<Tensor> {
    if g.sizes() != &meta.sizes[..] {
        if !shorthand::expands_to(&meta.sizes, g.sizes()) {
            return Err(located(
                Error::autograd(format!(
                    "Function {} returned an invalid gradient at index {i} - got {} but expected shape compatible with {}",
                    node_name(node),
                    fmt_sizes(g.sizes()),
                    fmt_sizes(&meta.sizes)
                )),
                node,
            ));
        }
        g = shorthand::sum_to(&g, &meta.sizes)?;
    }
    if g.device() != meta.device {
        if g.dim() != 0 {
            return Err(Error::autograd(format!(
                "Function {} returned an invalid gradient at index {i} - expected device {} but got {}",
                node_name(node),
                meta.device,
                g.device()
            )));
        }
        g = shorthand::to_device(&g, meta.device)?;
    }
    if g.dtype().is_complex() && !meta.dtype.is_complex() {
        g = shorthand::real(&g)?;
    }
    if g.dtype() != meta.dtype {
        g = shorthand::to_dtype(&g, meta.dtype)?;
    }
    Ok(g)
}
#[cold]
fn located(e: Error, node: &dyn Node) -> Error {
    let place = anomaly::place(node);
    if place.is_empty() || e.message().contains(&place) { e } else { e.context(place) }
}
#[cold]
fn check_nan(node: &dyn Node, ins: &[Option<Tensor>]) -> Result<()> {
    for (i, g) in ins.iter().enumerate() {
        if let Some(g) = g
            && grad_mode::no_grad(|| shorthand::has_nan(g))?
        {
            return Err(Error::autograd(format!(
                "Function '{}' returned nan values in its {i}th output.{}",
                node_name(node),
                anomaly::place(node)
            )));
        }
    }
    Ok(())
}

/// Whether `g` can be the gradient of output `i`, which is `t`.
fn check_gradient(i: usize, t: &Tensor, g: &Tensor) -> Result<()> {
    if g.sizes() != t.sizes() {
        return Err(Error::autograd(format!(
            "Mismatch in shape: grad_output[{i}] has a shape of torch.Size({}) and output[{i}] has a shape of \
             torch.Size({}).",
            fmt_sizes(g.sizes()),
            fmt_sizes(t.sizes())
        )));
    }
    if g.dtype().is_complex() != t.dtype().is_complex() {
        return Err(Error::autograd(format!(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in \
             dtype: grad_output[{i}] has a dtype of torch.{} and output[{i}] has a dtype of torch.{}.",
            g.dtype().name(),
            t.dtype().name()
        )));
    }
    Ok(())
}
/// Whether an output can go without a gradient of its own.
fn check_scalar(t: &Tensor) -> Result<()> {
    if t.numel() != 1 {
        return Err(Error::autograd("grad can be implicitly created only for scalar outputs"));
    }
    if !t.dtype().is_floating() {
        return Err(Error::autograd(format!(
            "grad can be implicitly created only for real scalar outputs but got torch.{}",
            t.dtype().name()
        )));
    }
    Ok(())
}

/// Root edges with their gradients, checked and, for scalars, made.
fn roots(tensors: &[Tensor], grads: &[Option<Tensor>]) -> Result<Roots> {
    let mut out = Roots::with_capacity(tensors.len());
    for (i, t) in tensors.iter().enumerate() {
        let given = grads.get(i).cloned().flatten();
        if let Some(g) = &given {
            check_gradient(i, t, g)?;
        } else if state::requires_grad(t) {
            check_scalar(t)?;
        }
        let e = state::grad_edge(t).ok_or_else(|| {
            Error::autograd(format!(
                "element {i} of tensors does not require grad and does not have a grad_fn"
            ))
        })?;
        let mut g = match given {
            Some(g) if g.has_names() => g.unnamed_alias()?,
            Some(g) => g,
            None => ignoring(|| shorthand::ones_like(t))?,
        };
        let meta = &e.node().header().outputs[e.nr as usize];
        if !fits(meta, &g) {
            g = made_to_fit(&**e.node(), i, meta, g)?;
        }
        out.push((e, g));
    }
    Ok(out)
}

/// Accumulates the gradients of `tensors` into the leaves of their graph, or into `inputs` alone.
///
/// `grads` are the gradients of the tensors themselves; an empty slice, or `None` for a one-element tensor, means 1.
///
/// # Errors
/// A tensor that is not part of a graph; gradients of wrong shapes; a graph that was freed; saved tensors that were
/// written to; errors of formulas.
pub fn backward(
    tensors: &[Tensor],
    grads: &[Option<Tensor>],
    retain_graph: Option<bool>,
    create_graph: bool,
    inputs: Option<&[Tensor]>,
) -> Result<()> {
    if transforming() {
        return Err(Error::autograd(
            "backward() called inside a functorch transform. This is not supported, please use functorch.grad or functorch.vjp \
             instead or call backward() outside of functorch transforms.",
        ));
    }
    if inputs.is_some_and(<[_]>::is_empty) {
        return Err(Error::autograd("`inputs` argument to `backward()` cannot be empty."));
    }
    check_grad_count(tensors, grads)?;
    if has_wrapper(tensors) || has_wrapper(inputs.unwrap_or(&[])) {
        let (tensors, grads) = lowered(tensors, grads)?;
        let inputs = inputs.map(carriers);
        return backward(&tensors, &grads, retain_graph, create_graph, inputs.as_deref());
    }
    let mode = Mode { keep_graph: retain_graph.unwrap_or(create_graph), create_graph };
    let roots = roots(tensors, grads)?;
    let Some(inputs) = inputs else {
        return run(roots, mode, None).map(drop);
    };
    let captured = run(roots, mode, Some((inputs, true)))?;
    for (t, g) in inputs.iter().zip(captured) {
        if let Some(g) = g
            && !state::retains_grad(t)
        {
            let _mode = grad_mode::ModeGuard::recording(create_graph);
            accumulate::accumulate(t, g)?;
        }
    }
    Ok(())
}
fn has_wrapper(all: &[Tensor]) -> bool {
    all.iter().any(|t| t.is_wrapper())
}
/// Outputs and their gradients without the dimensions that vmap hides: sizes of the gradients follow those of the tensors
/// that have the histories.
fn lowered(outputs: &[Tensor], grads: &[Option<Tensor>]) -> Result<(Vec<Tensor>, Vec<Option<Tensor>>)> {
    let (mut outs, mut gs) = (outputs.to_vec(), grads.to_vec());
    gs.resize(outs.len(), None);
    for (i, (out, g)) in outs.iter_mut().zip(&mut gs).enumerate() {
        if batched(out).is_some() && g.is_none() && state::requires_grad(&carrier(out)) {
            check_scalar(out)?;
            *g = Some(ignoring(|| shorthand::ones_like(out))?);
        }
        while let Some(b) = batched(out) {
            if let Some(given) = g {
                check_gradient(i, out, given)?;
                *g = Some(b.lowered(given)?);
            }
            let inner = b.inner().clone();
            *out = inner;
        }
        if out.is_wrapper() {
            *g = g.as_ref().map(carrier);
            *out = carrier(out);
        }
    }
    Ok((outs, gs))
}
/// The tensors that have the histories.
fn carriers(all: &[Tensor]) -> Vec<Tensor> {
    all.iter().map(carrier).collect()
}
fn check_grad_count(tensors: &[Tensor], grads: &[Option<Tensor>]) -> Result<()> {
    if !grads.is_empty() && grads.len() != tensors.len() {
        return Err(Error::autograd(format!("got {} tensors and {} gradients", tensors.len(), grads.len())));
    }
    Ok(())
}

static ALLOWED: OnceLock<fn() -> Result<()>> = OnceLock::new();
/// Says who knows whether gradients may be asked for: programs that are captured above the gradients would not hold them.
pub fn set_allowed(f: fn() -> Result<()>) {
    let _ = ALLOWED.set(f);
}
static TRANSFORMING: OnceLock<fn() -> bool> = OnceLock::new();
/// Says who knows whether a function is being differentiated by a transform of `torch.func`.
pub fn set_transforming(f: fn() -> bool) {
    let _ = TRANSFORMING.set(f);
}
/// Whether a function is being differentiated by a transform: it may not ask for gradients on its own.
pub fn transforming() -> bool {
    TRANSFORMING.get().is_some_and(|f| f())
}
/// One call of `f` for all slices of the tensors along their first dimension; a result has the same dimension first.
/// flambeau-func's vmap.
pub type Mapped =
    fn(&dyn Fn(&[Tensor]) -> Result<Vec<Option<Tensor>>>, &[Tensor]) -> Result<Vec<Option<Tensor>>>;
static MAPPED: OnceLock<Mapped> = OnceLock::new();
/// Says who maps a function over the first dimension; what was said first stays.
pub fn set_mapped(f: Mapped) {
    let _ = MAPPED.set(f);
}
/// Calls `f` for all slices of the tensors along their first dimension at once.
///
/// # Errors
/// Those of `f`; flambeau-func is not linked.
pub fn mapped(
    f: &dyn Fn(&[Tensor]) -> Result<Vec<Option<Tensor>>>,
    over: &[Tensor],
) -> Result<Vec<Option<Tensor>>> {
    graph::engine()?;
    match MAPPED.get() {
        Some(m) => m(f, over),
        None => Err(Error::missing(
            "a function over batches: vmap (flambeau-func) is not linked into this program",
        )),
    }
}
fn grad_of_batches(outputs: &[Tensor], inputs: &[Tensor], o: GradOptions) -> Result<Vec<Option<Tensor>>> {
    let o = GradOptions { is_grads_batched: false, ..o };
    check_grad_count(outputs, &o.grad_outputs)?;
    let given: Vec<Tensor> = o.grad_outputs.iter().flatten().cloned().collect();
    for (i, (t, g)) in outputs.iter().zip(&o.grad_outputs).enumerate() {
        if let Some(g) = g
            && g.sizes().get(1..) != Some(t.sizes())
        {
            return Err(Error::autograd(format!(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. The \
                 sizes of the remaining dimensions are expected to match the shape of corresponding output, but a mismatch was \
                 detected: grad_output[{i}] has a shape of torch.Size({}) and output[{i}] has a shape of torch.Size({}). If you \
                 only want some tensors in `grad_output` to be considered batched, consider using vmap.",
                fmt_sizes(g.sizes().get(2..).unwrap_or(&[])),
                fmt_sizes(t.sizes())
            )));
        }
    }
    mapped(
        &|slices| {
            let mut slices = slices.iter();
            let grads = o.grad_outputs.iter().map(|g| g.as_ref().and_then(|_| slices.next().cloned()));
            grad(outputs, inputs, GradOptions { grad_outputs: grads.collect(), ..o.clone() })
        },
        &given,
    )
}

/// Arguments of [`grad`].
#[derive(Clone, Debug, Default)]
pub struct GradOptions {
    grad_outputs: Vec<Option<Tensor>>,
    retain_graph: Option<bool>,
    create_graph: bool,
    allow_unused: Option<bool>,
    is_grads_batched: bool,
    materialize_grads: bool,
}
impl GradOptions {
    /// The documented defaults.
    pub fn new() -> Self {
        Self::default()
    }
    /// Gradients of the outputs, a list of tensors; `None` stands for 1 where the output is a scalar.
    pub fn grad_outputs(mut self, g: impl IntoIterator<Item: IntoArg<Option<Tensor>>>) -> Self {
        self.grad_outputs = g.into_iter().map(IntoArg::into_arg).collect();
        self
    }
    /// Keeps saved tensors, so that the graph can be used again. Default: as `create_graph`.
    pub fn retain_graph(mut self, on: bool) -> Self {
        self.retain_graph = Some(on);
        self
    }
    /// Makes the gradients differentiable.
    pub fn create_graph(mut self, on: bool) -> Self {
        self.create_graph = on;
        self
    }
    /// Gives `None` for inputs that the outputs do not depend on, instead of an error.
    pub fn allow_unused(mut self, on: bool) -> Self {
        self.allow_unused = Some(on);
        self
    }
    /// Gradients of outputs with a leading batch dimension.
    pub fn is_grads_batched(mut self, on: bool) -> Self {
        self.is_grads_batched = on;
        self
    }
    /// Gives zeros for inputs that the outputs do not depend on.
    pub fn materialize_grads(mut self, on: bool) -> Self {
        self.materialize_grads = on;
        self
    }
}

/// Gradients of (the sum of) `outputs` with respect to `inputs`; `.grad` of no tensor changes.
///
/// # Errors
/// As [`backward`]; an input that the outputs do not depend on, unless `allow_unused`.
pub fn grad(outputs: &[Tensor], inputs: &[Tensor], o: GradOptions) -> Result<Vec<Option<Tensor>>> {
    if inputs.is_empty() {
        return Err(Error::autograd("`inputs` argument to `grad()` cannot be empty."));
    }
    if o.is_grads_batched {
        return grad_of_batches(outputs, inputs, o);
    }
    if o.materialize_grads && o.allow_unused == Some(false) {
        return Err(Error::value(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False.",
        ));
    }
    check_grad_count(outputs, &o.grad_outputs)?;
    if has_wrapper(outputs) || has_wrapper(inputs) {
        let (outputs, grad_outputs) = lowered(outputs, &o.grad_outputs)?;
        let found = grad(&outputs, &carriers(inputs), GradOptions { grad_outputs, ..o })?;
        return inputs.iter().zip(found).map(|(t, g)| g.map(|g| like(t, g)).transpose()).collect();
    }
    let mode = Mode { keep_graph: o.retain_graph.unwrap_or(o.create_graph), create_graph: o.create_graph };
    let mut result = run(roots(outputs, &o.grad_outputs)?, mode, Some((inputs, false)))?;
    for (i, (g, t)) in result.iter_mut().zip(inputs).enumerate() {
        if g.is_none() {
            if o.materialize_grads {
                *g = Some(shorthand::zeros_like(t)?);
            } else if !o.allow_unused.unwrap_or(false) {
                return Err(Error::autograd(format!(
                    "The differentiated Tensor at index {i} appears to not have been used in the graph. Set \
                     allow_unused=True if this is the desired behavior."
                )));
            }
        }
    }
    Ok(result)
}
