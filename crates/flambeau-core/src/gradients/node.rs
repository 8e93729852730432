//! Nodes of the graph, and how one is made for the results of an operator.

use crate::gradients::anomaly;
use crate::gradients::grad_mode::is_recording;
use crate::gradients::state::{self, grad_edge, requires_grad};
use crate::gradients::work;
use crate::tensor::graph::Edge;
use crate::tensor::graph::{EdgeVec, Node, NodeHeader, OutputMeta};
use crate::types::keys::Key;
use crate::types::thread_keys;
use crate::{Error, Result, Tensor};
use flambeau_memory::{Begun, Headed};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Gradients of a node's inputs, one per edge.
pub type Grads = SmallVec<[Option<Tensor>; 2]>;

/// What a backward formula knows of its node.
pub struct Cx<'a> {
    /// The node itself: saved outputs get their history back from it.
    pub this: &'a Arc<dyn Node>,
}
impl Cx<'_> {
    /// Whether the gradient of differentiable input `i` is wanted.
    #[inline]
    pub fn need(&self, i: usize) -> bool {
        self.this.header().edges.get(i).is_some_and(Option::is_some) && work::wanted(i)
    }
    /// Whether any of these inputs' gradients is wanted.
    pub fn need_any(&self, r: Range<usize>) -> bool {
        r.into_iter().any(|i| self.need(i))
    }
    /// `need(i)` of all inputs.
    pub fn needs(&self) -> SmallVec<[bool; 8]> {
        (0..self.inputs()).map(|i| self.need(i)).collect()
    }
    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        self.this.header().edges.len()
    }
}

/// A backward formula with what it saved. One struct per differentiable operator, generated.
pub trait Backward: Send + Sync + 'static {
    /// `MulBackward0`
    const NAME: &'static str;
    /// The name of this node, where it is not always the same.
    fn name(&self) -> &'static str {
        Self::NAME
    }
    /// Gradients of the differentiable outputs (at least one is there) to those of the inputs, one per edge.
    fn apply(&self, cx: &Cx<'_>, grads: &[Option<Tensor>]) -> Result<Grads>;
    /// Frees saved tensors.
    fn release(&self) {}
}

/// A node around a generated body: header and saved values in one allocation.
pub type NodeImpl<B> = Headed<NodeHeader, B>;
impl<B: Backward> Node for NodeImpl<B> {
    #[inline]
    fn header(&self) -> &NodeHeader {
        &self.head
    }
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed(self.body.name())
    }
    fn apply(&self, this: &Arc<dyn Node>, grads: &mut [Option<Tensor>]) -> Result<Grads> {
        self.body.apply(&Cx { this }, grads)
    }
    fn release(&self) {
        self.body.release();
    }
}

/// `n` inputs without a gradient, where the node got none.
#[cold]
pub fn no_grads(cx: &Cx<'_>) -> Grads {
    SmallVec::from_elem(None, cx.inputs())
}

/// Where the gradients of an operator's differentiable inputs go, collected in their order.
#[derive(Default)]
pub struct Edges(pub EdgeVec);
impl Edges {
    /// None yet.
    #[inline]
    pub fn new() -> Self {
        Edges(SmallVec::new())
    }
    /// Those of at most three tensors, which may be absent.
    #[inline(always)]
    pub fn of<const N: usize>(ts: [Option<&Tensor>; N]) -> Self {
        const { assert!(N <= 3) };
        let at = |i: usize| if i < N { ts[i].and_then(grad_edge) } else { None };
        Edges(EdgeVec::from_buf_and_len([at(0), at(1), at(2)], N))
    }
    /// Adds a tensor.
    #[inline]
    pub fn tensor(mut self, t: &Tensor) -> Self {
        self.0.push(grad_edge(t));
        self
    }
    /// Adds a tensor that may be absent.
    #[inline]
    pub fn opt(mut self, t: Option<&Tensor>) -> Self {
        self.0.push(t.and_then(grad_edge));
        self
    }
    /// Adds a list, one edge per element.
    pub fn list(mut self, ts: &[Tensor]) -> Self {
        self.0.extend(ts.iter().map(grad_edge));
        self
    }
    /// Adds a list with gaps, one edge per element.
    pub fn opt_list(mut self, ts: &[Option<Tensor>]) -> Self {
        self.0.extend(ts.iter().map(|t| t.as_ref().and_then(grad_edge)));
        self
    }
    /// Whether input `i` wants a gradient.
    #[inline]
    pub fn wants(&self, i: usize) -> bool {
        self.0.get(i).is_some_and(Option::is_some)
    }
    /// Whether any of these inputs wants a gradient.
    pub fn wants_any(&self, r: Range<usize>) -> bool {
        r.into_iter().any(|i| self.wants(i))
    }
    /// Number of inputs so far.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// None collected.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether a call with these inputs is to be recorded: gradient mode is on and one of them is part of a graph.
#[inline]
pub fn recording(inputs: &[&Tensor]) -> bool {
    is_recording() && inputs.iter().any(|t| requires_grad(t))
}
/// [`recording`] for inputs that may be absent.
pub fn recording_opt(inputs: &[Option<&Tensor>]) -> bool {
    is_recording() && inputs.iter().flatten().any(|t| requires_grad(t))
}
/// [`recording`] for a list.
pub fn recording_list(inputs: &[Tensor]) -> bool {
    is_recording() && inputs.iter().any(requires_grad)
}
/// [`recording`] for a list with gaps.
pub fn recording_opt_list(inputs: &[Option<Tensor>]) -> bool {
    is_recording() && inputs.iter().flatten().any(requires_grad)
}

/// Calls on below the autograd key.
#[inline(always)]
pub fn below<R>(f: impl FnOnce() -> R) -> R {
    thread_keys::below(Key::Autograd, f)
}
/// Calls of this thread go below the autograd key until it is dropped: [`below`] for generated wrappers, which drop it at the
/// end of the call's statement.
#[doc(hidden)]
#[must_use = "calls go below the autograd key until it is dropped"]
pub struct Below(#[allow(dead_code, reason = "restores on drop")] thread_keys::ExcludeGuard);
impl Below {
    /// From now on.
    #[expect(clippy::new_without_default, reason = "a guard")]
    #[inline(always)]
    pub fn new() -> Below {
        Below(thread_keys::ExcludeGuard::from_up(Key::Autograd))
    }
}

// Nodes are made in three parts, so that there is little code per body: memory and header, the body, the history.

/// Memory and header of a node of so many words. Never unwinds, so that what goes into the body may wait in registers.
#[inline(never)]
#[allow(improper_ctypes_definitions, reason = "called from Rust only; `extern` is what rules unwinding out")]
extern "C" fn begin(words: usize, edges: Edges, outputs: SmallVec<[OutputMeta; 1]>) -> Begun<NodeHeader> {
    Begun::new(words, || NodeHeader::new(edges.0, outputs))
}
/// [`begin`] for one output; none where that cannot have a gradient.
#[inline(never)]
#[allow(improper_ctypes_definitions, reason = "as above")]
pub(crate) extern "C" fn begin_one(words: usize, edges: Edges, out: &Tensor) -> Option<Begun<NodeHeader>> {
    differentiable(out)
        .then(|| Begun::new(words, || NodeHeader::new(edges.0, SmallVec::from_buf([OutputMeta::of(out)]))))
}

/// Makes the node of a body.
pub fn node<B: Backward>(edges: Edges, outputs: SmallVec<[OutputMeta; 1]>, body: B) -> Arc<dyn Node> {
    let node: Arc<dyn Node> = begin(NodeImpl::<B>::WORDS, edges, outputs).with(body);
    anomaly::made(&node);
    node
}

/// Whether tensors of this dtype can have a gradient.
#[inline]
pub fn differentiable(t: &Tensor) -> bool {
    t.dtype().is_floating() || t.dtype().is_complex()
}

/// Gives the one differentiable output its history.
#[inline(always)]
pub fn record<B: Backward>(out: &mut Tensor, edges: Edges, body: B) {
    if let Some(begun) = begin_one(NodeImpl::<B>::WORDS, edges, out) {
        made(out, begun.with(body));
    }
}
#[inline(never)]
fn made(out: &mut Tensor, node: Arc<dyn Node>) {
    anomaly::made(&node);
    state::set_history_of_new(out, Edge::new(node, 0));
}

/// Gives several differentiable outputs their history.
pub fn record_multi<B: Backward>(outs: &[&Tensor], edges: Edges, body: B) {
    made_multi(outs, begin_multi(NodeImpl::<B>::WORDS, edges, outs).with(body));
}
#[inline(never)]
fn begin_multi(words: usize, edges: Edges, outs: &[&Tensor]) -> Begun<NodeHeader> {
    begin(words, edges, outs.iter().map(|t| OutputMeta::of(t)).collect())
}
#[inline(never)]
fn made_multi(outs: &[&Tensor], node: Arc<dyn Node>) {
    anomaly::made(&node);
    for (i, t) in outs.iter().enumerate() {
        if differentiable(t) {
            state::set_history(t, Edge::new(node.clone(), i as u32));
        }
    }
}

/// Gives the tensors of a list result their history.
pub fn record_list<B: Backward>(outs: &[Tensor], edges: Edges, body: B) {
    let refs: SmallVec<[&Tensor; 8]> = outs.iter().collect();
    record_multi(&refs, edges, body);
}

/// Refuses a gradient for an argument that has no formula.
///
/// # Errors
/// When `t` requires a gradient and gradient mode is on.
#[inline]
pub fn not_differentiable(op: &str, arg: &str, t: &Tensor) -> Result<()> {
    if is_recording() && requires_grad(t) {
        return Err(Error::autograd(format!(
            "The function '{op}' is not differentiable with respect to argument '{arg}'. This input cannot have \
             requires_grad True."
        )));
    }
    Ok(())
}

/// `AddBackward0` as `Add`.
pub fn short_name(name: &str) -> &str {
    match name.find("Backward") {
        Some(i) if name[i + 8..].bytes().all(|b| b.is_ascii_digit()) => &name[..i],
        _ => name,
    }
}
