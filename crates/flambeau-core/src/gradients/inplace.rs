//! In-place operations and views: what is refused, and how histories are rewritten.

use crate::derivatives::shorthand;
use crate::gradients::anomaly;
use crate::gradients::grad_mode::{is_inference_mode_enabled, is_recording};
use crate::gradients::node::{self, Backward, Cx, Edges, Grads, NodeImpl, short_name};
use crate::gradients::state::{self, Creation, History};
use crate::tensor::geometry::SizeVec;
use crate::tensor::graph::{Edge, EdgeVec, Node, NodeHeader, OutputMeta, node_name};
use crate::tensor::wrapper::zeros_among;
use crate::{Error, Result, Tensor, ops};
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use std::sync::Arc;

/// Refuses an in-place operation that cannot be recorded. Called when a call is being recorded.
///
/// # Errors
/// `t` is a leaf that requires a gradient, a view of one, or a view whose making forbids it.
#[inline]
pub fn check_inplace(t: &Tensor) -> Result<()> {
    if let Some(base) = t.view_base() {
        let c = state::creation(t);
        if c != Creation::Ordinary {
            return Err(forbidden_view(t, c, "is being"));
        }
        if state::requires_grad(t) && state::requires_grad(base) && state::is_leaf(base) {
            return Err(Error::autograd(
                "a view of a leaf Variable that requires grad is being used in an in-place operation.",
            ));
        }
    }
    if state::requires_grad(t) && state::is_leaf(t) {
        return Err(Error::autograd(
            "a leaf Variable that requires grad is being used in an in-place operation.",
        ));
    }
    Ok(())
}

/// [`check_inplace`] where grad mode is on.
///
/// # Errors
/// As there.
pub fn check_changed(t: &Tensor) -> Result<()> {
    if is_recording() { check_inplace(t) } else { Ok(()) }
}

#[cold]
fn forbidden_view(t: &Tensor, c: Creation, what: &str) -> Error {
    let edge = t.first_edge();
    let (made, now, block) = match c {
        Creation::Inference(_) => ("inference mode", "in normal mode", "inference_mode"),
        _ => ("no_grad mode", "with grad mode enabled", "no_grad"),
    };
    let mut msg = match (edge, c) {
        (Some(e), Creation::NoGrad(_) | Creation::Inference(_)) => format!(
            "Output {} of {} is a view of a view which was created in {made} and {what} modified inplace {now}.",
            e.nr,
            short_name(&node_name(&**e.node()))
        ),
        (None, _) => format!("A view was created in {made} and {what} modified inplace {now}."),
        (Some(e), _) => {
            format!(
                "Output {} of {} is a view and {what} modified inplace.",
                e.nr,
                short_name(&node_name(&**e.node()))
            )
        }
    };
    let why = match c {
        Creation::MultiOutput => {
            " This view is the output of a function that returns multiple views. Such functions do not allow the output \
             views to be modified inplace. You should replace the inplace operation by an out-of-place one."
        }
        Creation::NoGrad(_) | Creation::Inference(_) => {
            return Error::autograd(format!(
                "{msg} Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by \
                 moving both the view and the inplace either both inside the {block} block (if you don't want the \
                 inplace to be tracked) or both outside (if you want the inplace to be tracked)."
            ));
        }
        Creation::CustomFunction => {
            " This view was created inside a custom Function (or because an input was returned as-is) and the autograd \
             logic to handle view+inplace would override the custom backward associated with the custom Function, \
             leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of the \
             custom Function."
        }
        Creation::Ordinary => "",
    };
    msg.push_str(why);
    Error::autograd(msg)
}

/// Refuses `out=` where gradients would be lost.
///
/// # Errors
/// Gradient mode is on and an argument requires a gradient.
pub fn check_out(name: &str, inputs: &[&Tensor], outs: &[&Tensor]) -> Result<()> {
    if recorded(inputs, outs) {
        return Err(Error::autograd(format!(
            "{name}(): functions with out=... arguments don't support automatic differentiation, but one of the \
             arguments requires grad."
        )));
    }
    Ok(())
}

/// [`check_out`] of a form that resizes its output whatever the size.
///
/// # Errors
/// As `check_out`, in the words of a resize.
pub fn check_resized(inputs: &[&Tensor], outs: &[&Tensor]) -> Result<()> {
    if recorded(inputs, outs) {
        return Err(Error::autograd("cannot resize variables that require grad"));
    }
    Ok(())
}
fn recorded(inputs: &[&Tensor], outs: &[&Tensor]) -> bool {
    is_recording() && inputs.iter().chain(outs).any(|t| state::requires_grad(t))
}

/// Gives a tensor that was written in place its new history. A view hands it on to its base, and gets its own from there.
#[inline]
pub fn rebase<B: Backward>(t: &Tensor, edges: Edges, body: B) {
    if let Some(begun) = node::begin_one(NodeImpl::<B>::WORDS, edges, t) {
        made(t, begun.with(body));
    }
}
#[inline(never)]
fn made(t: &Tensor, node: Arc<dyn Node>) {
    anomaly::made(&node);
    rebase_on(t, Edge::new(node, 0));
}

/// [`rebase`] for an edge that exists.
pub fn rebase_on(t: &Tensor, e: Edge) {
    let Some(base) = t.view_base() else {
        state::set_history(t, e);
        return;
    };
    let inner = e.node().clone();
    let mut edges: EdgeVec = smallvec![state::grad_edge(base)];
    edges.extend(inner.header().edges.iter().skip(1).cloned());
    let node: Arc<dyn Node> = Arc::new(CopySlices {
        header: NodeHeader::new(edges, smallvec![OutputMeta::of(base)]),
        inner,
        nr: e.nr,
        base: Geometry::of(base),
        view: Geometry::of(t),
    });
    anomaly::made(&node);
    state::set_history(base, Edge::new(node, 0));
    // the view's own edge is older than its base's now: the next look at it makes a new one (see `state::history`)
    t.set_key(crate::types::keys::Key::Autograd, true);
}

/// For in-place operators without a formula (comparisons): the result does not depend on the old value in a
/// differentiable way, so the old value gets zeros.
///
/// # Errors
/// None at present; the generated code passes errors on.
pub fn rebase_none(t: &Tensor) -> Result<()> {
    if is_recording() && node::differentiable(t) && state::requires_grad(t) {
        rebase(t, Edges::new().tensor(t), Overwritten);
    }
    Ok(())
}
struct Overwritten;
impl Backward for Overwritten {
    const NAME: &'static str = "ZerosBackward0";
    fn apply(&self, _cx: &Cx<'_>, grads: &[Option<Tensor>]) -> Result<Grads> {
        Ok(smallvec![grads[0].as_ref().map(shorthand::zeros_like).transpose()?])
    }
}

/// How a view reads the memory of its base.
#[derive(Clone, Copy, PartialEq)]
enum Reads {
    /// As the base does.
    Alike,
    /// The parts of complex numbers (`view_as_real`, `real`, `imag`).
    Reals,
    /// Pairs of real numbers as complex ones (`view_as_complex`).
    Complex,
    /// In a way that has no gradient.
    Otherwise,
}
/// Sizes, strides and offset of a tensor, and how it reads its base.
#[derive(Clone)]
pub struct Geometry {
    sizes: SizeVec,
    strides: SizeVec,
    offset: i64,
    reads: Reads,
    conj: bool,
    neg: bool,
}
impl Geometry {
    pub fn of(t: &Tensor) -> Geometry {
        let base = t.view_base().unwrap_or(t);
        let (of, by) = (base.dtype(), t.dtype());
        Geometry {
            sizes: SizeVec::from_slice(t.sizes()),
            strides: SizeVec::from_slice(t.strides()),
            offset: t.storage_offset(),
            reads: match () {
                () if of == by => Reads::Alike,
                // the bits of the base would have to be told from those of the view
                () if base.is_conj() || base.is_neg() => Reads::Otherwise,
                () if of.is_complex() && of.to_real() == by => Reads::Reals,
                () if by.is_complex() && by.to_real() == of => Reads::Complex,
                () => Reads::Otherwise,
            },
            conj: t.is_conj() != base.is_conj(),
            neg: t.is_neg() != base.is_neg(),
        }
    }
    /// The elements of this view in memory that is laid out from the base's first element on.
    fn part(&self, memory: &Tensor, base: &Geometry) -> Result<Tensor> {
        let (memory, first) = match self.reads {
            Reads::Alike => (memory.clone(), base.offset),
            Reads::Reals => (shorthand::view_as_real(memory)?, 2 * base.offset),
            Reads::Complex => {
                let pairs = shorthand::as_strided(memory, &[memory.numel() / 2, 2], &[2, 1], 0)?;
                (shorthand::view_as_complex(&pairs)?, base.offset / 2)
            }
            Reads::Otherwise => return Err(unreadable()),
        };
        let part = shorthand::as_strided(&memory, &self.sizes, &self.strides, self.offset - first)?;
        let part = if self.conj { ops::conj(&part)? } else { part };
        if self.neg { ops::neg_view(&part) } else { Ok(part) }
    }
    /// The gradient of the base from that of this view, where the view is all that was made of it.
    fn spread(&self, grad: &Tensor, base: &Geometry) -> Result<Tensor> {
        let grad = if self.conj { shorthand::conj(grad)? } else { grad.clone() };
        let grad = if self.neg { shorthand::neg(&grad)? } else { grad };
        let own = |g: &Geometry| (g.sizes.clone(), g.strides.clone(), g.offset);
        let (grad, from, to) = match self.reads {
            Reads::Alike => (grad, own(base), own(self)),
            Reads::Reals => (grad, base.in_reals(), own(self)),
            Reads::Complex => {
                (shorthand::view_as_real(&ops::resolve_conj(&grad)?)?, own(base), self.in_reals())
            }
            Reads::Otherwise => return Err(unreadable()),
        };
        let g = crate::derivatives::views::as_strided_grad(
            &grad,
            (&from.0, &from.1, from.2),
            (&to.0, &to.1, to.2),
        )?;
        if self.reads == Reads::Reals { shorthand::view_as_complex(&g) } else { Ok(g) }
    }
    /// The same elements as pairs of real numbers.
    fn in_reals(&self) -> (SizeVec, SizeVec, i64) {
        let sizes = self.sizes.iter().copied().chain([2]).collect();
        (sizes, self.strides.iter().map(|s| 2 * s).chain([1]).collect(), 2 * self.offset)
    }
}
fn unreadable() -> Error {
    Error::missing("gradients through a view of another dtype that are no parts of complex numbers")
}

/// History of a base that was written through a view: the operator's formula on the written part, the identity
/// elsewhere.
struct CopySlices {
    header: NodeHeader,
    inner: Arc<dyn Node>,
    nr: u32,
    base: Geometry,
    view: Geometry,
}
impl Node for CopySlices {
    fn header(&self) -> &NodeHeader {
        &self.header
    }
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("CopySlices")
    }
    fn apply(&self, _this: &Arc<dyn Node>, grads: &mut [Option<Tensor>]) -> Result<Grads> {
        let n = self.header.edges.len();
        let mut out: Grads = SmallVec::from_elem(None, n);
        let Some(grad) = grads.first_mut().and_then(Option::take) else { return Ok(out) };
        // the gradient of the whole, laid out as the base is, so that the view's geometry names the written part of it
        let span = [(span_of(&self.base) + 1) / 2 * 2];
        let memory = zeros_among(&span, grad.dtype(), grad.device(), [&grad])?;
        let whole = shorthand::as_strided(&memory, &self.base.sizes, &self.base.strides, 0)?;
        shorthand::copy_(&whole, &grad)?;
        let part = self.view.part(&memory, &self.base)?;
        let mut inner_grads: SmallVec<[Option<Tensor>; 2]> =
            SmallVec::from_elem(None, self.inner.header().outputs.len());
        inner_grads[self.nr as usize] = Some(shorthand::clone(&part)?);
        let results = self.inner.apply(&self.inner, &mut inner_grads)?;
        for (i, r) in results.into_iter().enumerate() {
            if i == 0 {
                match r {
                    Some(r) => shorthand::copy_(&part, &r)?,
                    None => shorthand::zero_(&part)?,
                }
            } else if i < n {
                out[i] = r;
            }
        }
        if n > 0 {
            out[0] = Some(whole);
        }
        Ok(out)
    }
    fn release(&self) {
        self.inner.release();
    }
}
fn span_of(g: &Geometry) -> i64 {
    crate::tensor::geometry::span(&g.sizes, &g.strides)
}

/// The history of a view whose base was written to after the view was made: `as_strided` of the base's new history.
pub fn regenerate(t: &Tensor, base: &Tensor, own: Option<Edge>) -> Edge {
    let c = state::creation(t);
    let body_edges = Edges::new().tensor(base);
    let outputs = smallvec![OutputMeta::of(t)];
    let (view, base_geometry) = (Geometry::of(t), Geometry::of(base));
    let node = if c != Creation::Ordinary {
        node::node(
            body_edges,
            outputs,
            Refused(forbidden_view(t, c, "its base or another view of its base has been")),
        )
    } else {
        node::node(body_edges, outputs, AsStridedOfBase { view, base: base_geometry })
    };
    drop(own);
    let e = Edge::new(node, 0);
    state::rewrite_history(t, History::Rebased(e.clone()));
    e
}
struct Refused(Error);
impl Backward for Refused {
    const NAME: &'static str = "AsStridedBackward0";
    fn apply(&self, _cx: &Cx<'_>, _grads: &[Option<Tensor>]) -> Result<Grads> {
        Err(self.0.clone())
    }
}
struct AsStridedOfBase {
    view: Geometry,
    base: Geometry,
}
impl Backward for AsStridedOfBase {
    const NAME: &'static str = "AsStridedBackward0";
    fn apply(&self, _cx: &Cx<'_>, grads: &[Option<Tensor>]) -> Result<Grads> {
        let Some(grad) = &grads[0] else { return Ok(smallvec![None]) };
        let g = self.view.spread(grad, &self.base)?;
        Ok(smallvec![Some(g)])
    }
}

/// Gives a view of `base` its history.
#[inline]
pub fn record_view<B: Backward>(base: &Tensor, out: &mut Tensor, edges: Edges, body: B) {
    node::record(out, edges, body);
    inherit_creation(base, out);
}
/// Gives the views of a multi-output operator their history.
pub fn record_views<B: Backward>(_base: &Tensor, outs: &[Tensor], edges: Edges, body: B) {
    node::record_list(outs, edges, body);
    for t in outs {
        if t.view_base().is_some() {
            state::set_creation(t, Creation::MultiOutput);
        }
    }
}
/// A view of a view that forbids in-place operations forbids them too.
#[inline]
fn inherit_creation(base: &Tensor, out: &Tensor) {
    let c = state::creation(base);
    if c != Creation::Ordinary && out.view_base().is_some() {
        state::set_creation(out, c);
    }
}
/// A view that was not recorded: where the tensor viewed is part of a graph, in-place operations on the view are
/// ambiguous from now on, and the view is a leaf that requires a gradient of its own, as in PyTorch.
#[inline]
pub fn view_unrecorded(base: &Tensor, out: &Tensor) {
    if !is_recording() && out.view_base().is_some() && state::requires_grad(base) {
        let root = base.root();
        let seq = state::history(root).map_or(0, |e| e.node().header().seq);
        let c = if is_inference_mode_enabled() { Creation::Inference(seq) } else { Creation::NoGrad(seq) };
        state::set_creation(out, c);
        state::make_leaf(out);
    }
}
/// [`view_unrecorded`] for a list.
pub fn views_unrecorded(base: &Tensor, outs: &[Tensor]) {
    for t in outs {
        view_unrecorded(base, t);
    }
}
