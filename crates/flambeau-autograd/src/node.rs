//! What generated wrappers and backward structs are made of.
//!
//! The shape of generated code (see also `saved.rs`, `inplace.rs`, `forward_ad.rs`, all re-exported here):
//!
//! ```text
//! pub struct MulBackward { self_: Saved, other: Saved }
//! impl Backward for MulBackward {
//!     const NAME: &'static str = "MulBackward0";
//!     fn apply(&self, cx: &Cx<'_>, grads: &[Option<Tensor>]) -> Result<Grads> {
//!         // one Some per differentiable output that has a gradient; at least one is Some
//!         let Some(grad) = &grads[0] else { return Ok(rt::no_grads(cx)) };
//!         let g0 = if cx.need(0) {
//!             let other = &self.other.unpack_last(cx, "other")?;   // `unpack` where a later formula needs it too
//!             Some(mul(grad, &conj(other)?)?)
//!         } else {
//!             None
//!         };
//!         let g1 = ..;
//!         Ok(Grads::from_buf([g0, g1]))                      // one per edge, in order
//!     }
//!     fn release(&self) { self.self_.release(); self.other.release(); }
//! }
//! fn mul_autograd(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
//!     let rec = rt::recording(&[self_, other]);
//!     let mut out = rt::below(|| ops::mul(self_, other))?;
//!     if rec {
//!         let edges = Edges::of([Some(self_), Some(other)]);
//!         let body = MulBackward {
//!             self_: Saved::input_if(edges.wants(1), self_),   // only what a wanted formula uses
//!             other: Saved::input_if(edges.wants(0), other),
//!         };
//!         rt::check_saved()?;                                  // where something was saved
//!         rt::record(&mut out, edges, body);
//!     }
//!     if rt::dual_active() && rt::any_tangent(&[self_, other]) {
//!         let t = rt::jvp(|| { ... Result<Option<Tensor>> ... })?;    // forward mode is off inside
//!         rt::set_tangent(&out, t)?;
//!     }
//!     Ok(out)
//! }
//! ```
//! - Saved outputs: `Saved::output(&out, nr)` (nr among the differentiable outputs), made before `record`.
//! - Fallible saving (pack hooks may fail): `Saved::input(..)` and all the others return the value itself; a failing
//!   hook's error is kept and comes out of `unpack`.
//! - Optional tensors: `SavedOpt::input(weight)` (`Option<&Tensor>`), `Edges::of([Some(input), weight])`; more than three:
//!   `Edges::new().tensor(input).opt(weight)`; lists:
//!   `SavedList::input(tensors)`, `Edges::list(tensors)`; `cx.need_any(a..b)`; `cx.needs()` gives all as a slice-like vector.
//! - Several differentiable outputs: `rt::record_multi(&[&a, &b], edges, body)`; a `Vec<Tensor>` result:
//!   `rt::record_list(&outs, edges, body)`.
//! - Views: `rt::record_view(self_, &mut out, edges, body)`; `Vec<Tensor>` of views: `rt::record_views(self_, &outs, edges, body)`;
//!   and when not recording `rt::view_unrecorded(self_, &out)` / `rt::views_unrecorded(self_, &outs)`.
//! - In-place (`NAME_` rows; the result is `()`):
//! ```text
//!     let rec = rt::recording(&[self_, other]);
//!     if rec { rt::check_inplace(self_)?; }
//!     let before = if rec { Some((Edges::new().tensor(self_).tensor(other), /* saved inputs; self by Saved::copy_of(self_)? */)) } else { None };
//!     rt::below(|| ops::mul_(self_, other))?;
//!     if let Some((edges, saved...)) = before { rt::rebase(self_, edges, MulBackward { .. })?; }   // Saved::output(self_, 0) here
//!     if rt::dual_active() && rt::any_tangent(&[self_, other]) { rt::set_tangent_inplace(self_, rt::jvp(..)?)?; }
//! ```
//!   A formula of forward mode that needs `self_` as it was before the call clones it first, under `dual_active()`.
//!   Rows with grad = "none": `rt::check_inplace(self_)` when recording, call, and `rt::rebase_none(self_)`.
//! - `out=`: `rt::check_out("add", &[self_, other], &[out])?` first, then the call below.
//! - Arguments that have no formula: `rt::not_differentiable("name", "arg", t)?` (float tensors that require a gradient).
//! - Forward mode: `rt::tangent(t) -> Option<Tensor>`, `rt::tangent_or_zeros(t) -> Result<Tensor>`,
//!   `rt::sum_tangents([Option<Tensor>; N]) -> Result<Option<Tensor>>`. `auto_linear`: the operator on the tangents.
//!   `auto_elementwise`: per input with a tangent `conj(formula with grad = conj(tangent))`, then `sum_tangents`;
//!   `rt::elementwise_jvp(tangent, |grad| formula)` does the conjugations. Rows without a rule: `rt::transposed(inputs, call)`
//!   makes the tangents from the backward formulas.

use crate::anomaly;
pub use crate::forward_ad::{
    Inputs, any_tangent, dual_active, elementwise_jvp, jvp, set_tangent, set_tangent_inplace, sum_tangents,
    tangent, tangent_or_zeros, transposed,
};
pub use crate::grad_mode::is_recording;
pub use crate::inplace::{
    check_inplace, check_out, rebase, rebase_none, record_view, record_views, view_unrecorded,
    views_unrecorded,
};
pub use crate::saved::{Saved, SavedList, SavedOpt, check_saved};
use crate::state;
pub use crate::state::{grad_edge, requires_grad};
use flambeau_core::internal;
use flambeau_core::tensor::graph::Edge;
use flambeau_core::tensor::graph::{EdgeVec, Node, NodeHeader, OutputMeta, arc_with};
use flambeau_core::types::keys::Key;
use flambeau_core::{Error, Result, Tensor};
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
        self.this.header().edges.get(i).is_some_and(Option::is_some) && crate::engine::wanted(i)
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
pub struct NodeImpl<B> {
    header: NodeHeader,
    body: B,
}
impl<B: Backward> Node for NodeImpl<B> {
    #[inline]
    fn header(&self) -> &NodeHeader {
        &self.header
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
pub struct Edges(pub(crate) EdgeVec);
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
    internal::below(Key::Autograd, f)
}

/// Makes the node of a body.
#[inline(always)]
pub(crate) fn node<B: Backward>(edges: Edges, outputs: SmallVec<[OutputMeta; 1]>, body: B) -> Arc<dyn Node> {
    let node: Arc<dyn Node> = arc_with(|| NodeImpl { header: NodeHeader::new(edges.0, outputs), body });
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
    if !differentiable(out) {
        return;
    }
    let node = node(edges, SmallVec::from_buf([OutputMeta::of(out)]), body);
    state::set_history_of_new(out, Edge::new(node, 0));
}

/// Gives several differentiable outputs their history.
pub fn record_multi<B: Backward>(outs: &[&Tensor], edges: Edges, body: B) {
    let node = node(edges, outs.iter().map(|t| OutputMeta::of(t)).collect(), body);
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
