//! Custom functions: a forward and a backward written by hand.

use crate::anomaly;
use crate::engine;
use crate::forward_ad;
use crate::grad_mode::{self, is_recording};
use crate::inplace;
use crate::node::{self, Backward, Cx, Edges, Grads};
use crate::saved::{Saved, check_saved};
use crate::shorthand;
use crate::state::{self, Creation};
use flambeau_core::api::ergonomic::{TensorOrList, expect};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::graph::{Edge, Node, NodeHeader, OutputMeta};
use flambeau_core::tensor::wrapper::{Batched, batched, innermost};
use flambeau_core::types::order::Mutex;
use flambeau_core::types::order::none_held;
use flambeau_core::{Error, Result, Tensor};
use smallvec::SmallVec;
use std::any::Any;
use std::borrow::Cow;
use std::cell::Cell;
use std::sync::{Arc, PoisonError};

/// An operation with its own gradient. Arguments that are not tensors are fields of the implementing type.
///
/// ```
/// use torch::autograd::{BackwardContext, Context, Function};
/// use torch::prelude::*;
/// use torch::{Result, ops};
///
/// struct Square;
/// impl Function for Square {
///     fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
///         ctx.save_for_backward(&[&inputs[0]]);
///         Ok(vec![ops::mul(&inputs[0], &inputs[0])?])
///     }
///     fn backward(&self, ctx: &BackwardContext, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
///         let x = &ctx.saved_tensors()?[0];
///         Ok(vec![grads[0].as_ref().map(|grad| 2 * x * grad)])
///     }
/// }
/// let x = torch::tensor([3.0]).requires_grad_(true);
/// let y = Square.apply(&x);           // of several tensors: `apply([&x, &w])`
/// y.backward();
/// assert_eq!(x.grad().unwrap().to_vec::<f32>(), [6.0]);
/// ```
#[doc(alias = "torch.autograd.Function")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no function with a gradient of its own",
    label = "no `autograd::Function`",
    note = "`impl torch::autograd::Function` needs `forward` and `backward`"
)]
pub trait Function: Send + Sync + 'static {
    #[doc(alias = "torch.autograd.function.once_differentiable")]
    /// True where `backward` uses something that cannot be differentiated again (`once_differentiable`).
    const ONCE_DIFFERENTIABLE: bool = false;
    /// Name of the node, without `Backward`. The type's name by default.
    fn name(&self) -> Cow<'static, str> {
        let full = std::any::type_name::<Self>();
        let plain = full.split('<').next().unwrap_or(full);
        Cow::Borrowed(plain.rsplit("::").next().unwrap_or(plain))
    }
    #[doc(alias = "torch.autograd.Function.forward")]
    /// The results. Runs without recording.
    ///
    /// # Errors
    /// Whatever it likes.
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>>;
    #[doc(alias = "torch.autograd.Function.backward")]
    /// Gradients of the results to gradients of the inputs, one per input. Recorded when a graph of the gradients is
    /// asked for, so built of operators it can be differentiated again.
    ///
    /// # Errors
    /// Whatever it likes.
    fn backward(&self, ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>>;
    /// The results for inputs of which vmap hides a dimension: its size, the place of the dimension in each input (`None` where
    /// it has none), and the inputs with the dimension shown. Gives results and the places of the dimension in them. By default
    /// `None`: the rule is made of `forward` and `backward`, which see tensors without the dimension.
    #[doc(alias = "torch.autograd.Function.vmap")]
    fn vmap(
        &self,
        batch_size: i64,
        in_dims: &[Option<usize>],
        inputs: &[Tensor],
    ) -> Option<Result<(Vec<Tensor>, Vec<Option<usize>>)>> {
        let _ = (batch_size, in_dims, inputs);
        None
    }
    /// Runs it on a tensor, or on several, and gives its result with a history. Panics with the text of an error, and where there
    /// is not one result alone: [`apply`] gives all of them, and errors.
    #[track_caller]
    #[doc(alias = "torch.autograd.Function.apply")]
    fn apply(self, inputs: impl TensorOrList) -> Tensor
    where
        Self: Sized,
    {
        expect(apply(self, &inputs.tensor_or_list()).and_then(one))
    }
    #[doc(alias = "torch.autograd.Function.jvp")]
    /// Tangents of the inputs to tangents of the results.
    ///
    /// # Errors
    /// By default: not implemented.
    fn jvp(&self, inputs: &[Tensor], tangents: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let _ = (inputs, tangents);
        Err(Error::unsupported(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD.",
        ))
    }
}

/// What `forward` tells the engine.
pub struct Context {
    needs: SmallVec<[bool; 4]>,
    save: Vec<Tensor>,
    dirty: Vec<Tensor>,
    non_differentiable: Vec<Tensor>,
    materialize: bool,
    data: Option<Box<dyn Any + Send + Sync>>,
    note: Option<Box<dyn Any + Send + Sync>>,
}
impl Context {
    fn new() -> Context {
        Context {
            needs: SmallVec::new(),
            save: Vec::new(),
            dirty: Vec::new(),
            non_differentiable: Vec::new(),
            materialize: true,
            data: None,
            note: None,
        }
    }
    /// Keeps tensors (inputs, results or others) for `backward`.
    #[doc(alias = "torch.autograd.function.FunctionCtx.save_for_backward")]
    pub fn save_for_backward(&mut self, ts: &[&Tensor]) {
        self.save = ts.iter().map(|t| (*t).clone()).collect();
    }
    /// Says that inputs were written in place. They must be among the results.
    #[doc(alias = "torch.autograd.function.FunctionCtx.mark_dirty")]
    pub fn mark_dirty(&mut self, ts: &[&Tensor]) {
        self.dirty = ts.iter().map(|t| (*t).clone()).collect();
    }
    /// Says that results have no gradient.
    #[doc(alias = "torch.autograd.function.FunctionCtx.mark_non_differentiable")]
    pub fn mark_non_differentiable(&mut self, ts: &[&Tensor]) {
        self.non_differentiable = ts.iter().map(|t| (*t).clone()).collect();
    }
    /// Whether missing gradients reach `backward` as zeros (the default) or as `None`.
    #[doc(alias = "torch.autograd.function.FunctionCtx.set_materialize_grads")]
    pub fn set_materialize_grads(&mut self, on: bool) {
        self.materialize = on;
    }
    /// Keeps a value of any type for `backward` (Python: attributes of `ctx`).
    pub fn store<T: Any + Send + Sync>(&mut self, value: T) {
        self.data = Some(Box::new(value));
    }
    /// Keeps a value for what runs around `backward` (autocast): not the function's own, which is [`Context::store`]'s.
    #[doc(hidden)]
    pub fn note(&mut self, value: Box<dyn Any + Send + Sync>) {
        self.note = Some(value);
    }
    /// Whether input `i` wants a gradient.
    #[doc(alias = "torch.autograd.function.FunctionCtx.needs_input_grad")]
    pub fn needs_input_grad(&self, i: usize) -> bool {
        self.needs.get(i).copied().unwrap_or(false)
    }
}

/// What was saved: in the node, or slices of it.
#[derive(Clone, Copy)]
enum Kept<'a> {
    Here(&'a [Saved]),
    Slices(&'a [Tensor]),
}
/// What `backward` gets back.
pub struct BackwardContext<'a> {
    cx: Cx<'a>,
    saved: Kept<'a>,
    data: Option<&'a (dyn Any + Send + Sync)>,
    note: Option<&'a (dyn Any + Send + Sync)>,
}
impl BackwardContext<'_> {
    /// The value of [`Context::note`].
    #[doc(hidden)]
    pub fn noted<T: Any>(&self) -> Option<&T> {
        self.note?.downcast_ref()
    }
    /// The saved tensors, in order.
    ///
    /// # Errors
    /// Written to since; freed by an earlier backward.
    #[doc(alias = "torch.autograd.function.FunctionCtx.saved_tensors")]
    pub fn saved_tensors(&self) -> Result<Vec<Tensor>> {
        match self.saved {
            Kept::Here(all) => all.iter().map(|s| s.unpack(&self.cx, "saved_tensors")).collect(),
            Kept::Slices(all) => Ok(all.to_vec()),
        }
    }
    /// The value of [`Context::store`].
    pub fn stored<T: Any>(&self) -> Option<&T> {
        self.data?.downcast_ref()
    }
    /// Whether input `i` wants a gradient.
    pub fn needs_input_grad(&self, i: usize) -> bool {
        self.cx.need(i)
    }
}

struct FunctionNode<F> {
    header: NodeHeader,
    f: F,
    saved: Vec<Saved>,
    data: Option<Box<dyn Any + Send + Sync>>,
    note: Option<Box<dyn Any + Send + Sync>>,
    materialize: bool,
}
impl<F: Function> Node for FunctionNode<F> {
    fn header(&self) -> &NodeHeader {
        &self.header
    }
    fn name(&self) -> Cow<'static, str> {
        Cow::Owned(format!("{}Backward", self.f.name()))
    }
    fn apply(&self, this: &Arc<dyn Node>, grads: &mut [Option<Tensor>]) -> Result<Grads> {
        if self.materialize {
            for (g, meta) in grads.iter_mut().zip(&self.header.outputs) {
                if g.is_none() {
                    *g = Some(Tensor::zeros_raw(&meta.sizes, meta.dtype, meta.device)?);
                }
            }
        }
        let cx = BackwardContext {
            cx: Cx { this },
            saved: Kept::Here(&self.saved),
            data: self.data.as_deref(),
            note: self.note.as_deref(),
        };
        none_held("the backward of a program's function runs");
        let out = if F::ONCE_DIFFERENTIABLE {
            let mut out = grad_mode::no_grad(|| self.f.backward(&cx, grads))?;
            if is_recording() && grads.iter().flatten().any(state::requires_grad) {
                for g in out.iter_mut().flatten() {
                    let mut t = shorthand::detached(g.clone()).alias_detached();
                    let mut edges = Edges::new();
                    for g in grads.iter().flatten() {
                        edges = edges.tensor(g);
                    }
                    node::record(&mut t, edges, Once);
                    *g = t;
                }
            }
            out
        } else {
            self.f.backward(&cx, grads)?
        };
        if out.len() != self.header.edges.len() {
            return Err(Error::autograd(format!(
                "function {} returned an incorrect number of gradients (expected {}, got {})",
                self.name(),
                self.header.edges.len(),
                out.len()
            )));
        }
        Ok(out.into_iter().collect())
    }
    fn release(&self) {
        self.saved.iter().for_each(Saved::release);
    }
}
struct Once;
impl Backward for Once {
    const NAME: &'static str = "Error";
    fn apply(&self, _cx: &Cx<'_>, _grads: &[Option<Tensor>]) -> Result<Grads> {
        Err(Error::autograd(
            "trying to differentiate twice a function that was marked with @once_differentiable",
        ))
    }
}

/// The only result.
fn one(mut all: Vec<Tensor>) -> Result<Tensor> {
    match (all.pop(), all.len()) {
        (Some(result), 0) => Ok(result),
        (last, before) => Err(Error::runtime(format!(
            "the function gave {} results: `autograd::function::apply` gives them as a list",
            before + usize::from(last.is_some())
        ))),
    }
}
/// Runs a custom function and gives its results their history: [`Function::apply`] with all results, and errors.
///
/// # Errors
/// Those of `forward`; leaves that require a gradient marked dirty; dirty inputs that are not returned.
#[doc(alias = "torch.autograd.Function.apply")]
pub fn apply<F: Function>(f: F, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    if let Some(b) = innermost(inputs) {
        return apply_batched(Arc::new(f) as Arc<dyn Erased>, b, inputs);
    }
    apply_plain(f, inputs)
}

/// Whether vmap hides a dimension of one of them.
#[cfg(feature = "by-name")]
pub(crate) fn is_batched(inputs: &[Tensor]) -> bool {
    innermost(inputs).is_some()
}

/// A function without its type: that of slices of slices has no type of its own.
trait Erased: Send + Sync {
    fn name(&self) -> Cow<'static, str>;
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>>;
    fn backward(&self, ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>>;
    fn jvp(&self, inputs: &[Tensor], tangents: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>>;
    fn vmap(
        &self,
        batch_size: i64,
        in_dims: &[Option<usize>],
        inputs: &[Tensor],
    ) -> Option<Result<(Vec<Tensor>, Vec<Option<usize>>)>>;
}
impl<F: Function> Erased for F {
    fn name(&self) -> Cow<'static, str> {
        Function::name(self)
    }
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Function::forward(self, ctx, inputs)
    }
    fn backward(&self, ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        Function::backward(self, ctx, grads)
    }
    fn jvp(&self, inputs: &[Tensor], tangents: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        Function::jvp(self, inputs, tangents)
    }
    fn vmap(
        &self,
        batch_size: i64,
        in_dims: &[Option<usize>],
        inputs: &[Tensor],
    ) -> Option<Result<(Vec<Tensor>, Vec<Option<usize>>)>> {
        Function::vmap(self, batch_size, in_dims, inputs)
    }
}

/// A function of slices as one of tensors that have the dimension in front: the first `n` of the results and then what was
/// saved are mapped over.
struct Mapped {
    f: Arc<dyn Erased>,
    /// Which inputs have the dimension.
    sliced: Vec<bool>,
    data: Mutex<Option<Box<dyn Any + Send + Sync>>>,
}
impl Mapped {
    /// Inputs of one call, of slices of some of them.
    fn whole(&self, inputs: &[Tensor], slices: &[Tensor]) -> Vec<Tensor> {
        let mut slices = slices.iter();
        let one = |(t, on): (&Tensor, &bool)| if *on { slices.next() } else { None }.unwrap_or(t).clone();
        inputs.iter().zip(&self.sliced).map(one).collect()
    }
    fn over(&self, inputs: &[Tensor]) -> Vec<Tensor> {
        inputs.iter().zip(&self.sliced).filter(|(_, on)| **on).map(|(t, _)| t.clone()).collect()
    }
}
impl Function for Mapped {
    fn name(&self) -> Cow<'static, str> {
        self.f.name()
    }
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let count = Cell::new(0);
        let made = Mutex::new(None);
        let all = engine::mapped(
            &|slices| {
                let mut inner = Context { needs: ctx.needs.clone(), ..Context::new() };
                let outs = self.f.forward(&mut inner, &self.whole(inputs, slices))?;
                if !inner.dirty.is_empty() {
                    return Err(Error::missing("vmap of a custom function that writes its inputs in place"));
                }
                count.set(outs.len());
                let all = outs.iter().chain(&inner.save).cloned().map(Some).collect();
                let hidden: Vec<bool> =
                    outs.iter().map(|o| inner.non_differentiable.iter().any(|t| t.is_same(o))).collect();
                *made.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some((inner.data.take(), inner.materialize, hidden));
                Ok(all)
            },
            &self.over(inputs),
        )?;
        let mut all: Vec<Tensor> = all.into_iter().flatten().collect();
        ctx.save = all.split_off(count.get().min(all.len()));
        if let Some((data, materialize, hidden)) = made.into_inner().unwrap_or_else(PoisonError::into_inner) {
            *self.data.lock().unwrap_or_else(PoisonError::into_inner) = data;
            ctx.materialize = materialize;
            ctx.non_differentiable =
                all.iter().zip(hidden).filter(|(_, h)| *h).map(|(t, _)| t.clone()).collect();
        }
        Ok(all)
    }
    fn backward(&self, ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let saved = ctx.saved_tensors()?;
        let mut over: Vec<Tensor> = grads.iter().flatten().cloned().collect();
        let given = over.len();
        over.extend(saved);
        let data = self.data.lock().unwrap_or_else(PoisonError::into_inner);
        let found = engine::mapped(
            &|slices| {
                let (gs, saved) = slices.split_at(given);
                let mut gs = gs.iter();
                let grads: Vec<Option<Tensor>> =
                    grads.iter().map(|g| g.as_ref().and_then(|_| gs.next().cloned())).collect();
                let inner = BackwardContext {
                    cx: Cx { this: ctx.cx.this },
                    saved: Kept::Slices(saved),
                    data: data.as_deref(),
                    note: None,
                };
                self.f.backward(&inner, &grads)
            },
            &over,
        )?;
        // an input that all slices share gets the sum
        found
            .into_iter()
            .zip(&self.sliced)
            .map(|(g, on)| match g {
                Some(g) if !on => flambeau_core::ops::sum(&g, Some(&[0]), false, None).map(Some),
                g => Ok(g),
            })
            .collect()
    }
    fn jvp(&self, inputs: &[Tensor], tangents: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let mut over = self.over(inputs);
        let given = over.len();
        for (t, on) in tangents.iter().zip(&self.sliced) {
            if let Some(t) = t
                && *on
            {
                over.push(t.clone());
            }
        }
        engine::mapped(
            &|slices| {
                let (xs, ts) = slices.split_at(given);
                let mut ts = ts.iter();
                let tangents: Vec<Option<Tensor>> = tangents
                    .iter()
                    .zip(&self.sliced)
                    .map(|(t, on)| {
                        t.as_ref().and_then(|t| if *on { ts.next().cloned() } else { Some(t.clone()) })
                    })
                    .collect();
                self.f.jvp(&self.whole(inputs, xs), &tangents)
            },
            &over,
        )
    }
}
fn apply_batched(f: Arc<dyn Erased>, b: &dyn Batched, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let level = b.level();
    let sliced: Vec<bool> = inputs.iter().map(|t| batched(t).is_some_and(|o| o.level() == level)).collect();
    // the dimension in front
    let front = |t: &Tensor, on: bool| -> Result<Tensor> {
        match batched(t) {
            Some(o) if on => {
                let (inner, at) = (o.inner(), o.place());
                let mut order: Vec<i64> = (0..inner.dim() as i64).filter(|d| *d != at as i64).collect();
                order.insert(0, at as i64);
                flambeau_core::ops::permute(inner, &order)
            }
            _ => Ok(t.clone()),
        }
    };
    let batch_size = b.inner().sizes()[b.place()];
    let hide = |t: &Tensor, at: Option<usize>| match at {
        Some(at) => b.hidden(t, at),
        None => Ok(t.clone()),
    };
    let plain = inputs.iter().zip(&sliced).map(|(t, on)| front(t, *on)).collect::<Result<Vec<_>>>()?;
    let places = inputs.iter().zip(&sliced).map(|(t, on)| batched(t).filter(|_| *on).map(Batched::place));
    let shown: Vec<Tensor> = inputs
        .iter()
        .zip(&sliced)
        .map(|(t, on)| batched(t).filter(|_| *on).map_or_else(|| t.clone(), |o| o.inner().clone()))
        .collect();
    if let Some(own) = f.vmap(batch_size, &places.collect::<Vec<_>>(), &shown) {
        let (outs, at) = own?;
        return outs.iter().zip(at).map(|(t, at)| hide(t, at)).collect();
    }
    let mapped = Mapped { f, sliced, data: Mutex::default() };
    let outs = match innermost(&plain) {
        Some(b) => apply_batched(Arc::new(mapped), b, &plain)?,
        None => apply_plain(mapped, &plain)?,
    };
    outs.iter().map(|t| hide(t, Some(0))).collect()
}

fn apply_plain<F: Function>(f: F, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let recording = node::recording_list(inputs);
    let mut edges = Edges::new();
    if recording {
        edges = edges.list(inputs);
    }
    let mut ctx = Context { needs: (0..inputs.len()).map(|i| edges.wants(i)).collect(), ..Context::new() };
    let tangents: Option<Vec<Option<Tensor>>> = forward_ad::dual_active()
        .then(|| inputs.iter().map(forward_ad::tangent).collect::<Vec<_>>())
        .filter(|t| t.iter().any(Option::is_some));
    none_held("the forward of a program's function runs");
    let mut outs = forward_ad::jvp(|| grad_mode::no_grad(|| f.forward(&mut ctx, inputs)))?;
    let among = |list: &[Tensor], t: &Tensor| list.iter().any(|x| x.is_same(t));
    if ctx.dirty.iter().any(|d| !among(&outs, d)) {
        return Err(Error::autograd(
            "Some elements marked as dirty during the forward method were not returned as output. The inputs that are \
             modified inplace must all be outputs of the Function.",
        ));
    }
    for o in &mut outs {
        // an input handed through is a tensor of its own for the graph
        if among(inputs, o) && !among(&ctx.dirty, o) {
            *o = grad_mode::no_grad(|| forward_ad::jvp(|| shorthand::alias(o)))?;
        }
    }
    let out_tangents = match &tangents {
        Some(t) => Some(forward_ad::jvp(|| f.jvp(inputs, t))?),
        None => None,
    };
    if recording {
        for d in &ctx.dirty {
            if state::requires_grad(d) && state::is_leaf(d) {
                return Err(Error::autograd(
                    "a leaf Variable that requires grad has been used in an in-place operation.",
                ));
            }
            inplace::check_inplace(d)?;
        }
        finish(f, ctx, edges, inputs, &outs)?;
    }
    for (o, t) in outs.iter().zip(out_tangents.into_iter().flatten()) {
        forward_ad::set_tangent(o, Ok(t))?;
    }
    Ok(outs)
}

fn finish<F: Function>(f: F, ctx: Context, edges: Edges, inputs: &[Tensor], outs: &[Tensor]) -> Result<()> {
    let saved = ctx
        .save
        .iter()
        .map(|t| match outs.iter().position(|o| o.is_same(t)) {
            Some(nr) => Saved::output(t, nr as u32),
            None => Saved::input(t),
        })
        .collect();
    check_saved()?;
    let outputs: SmallVec<[OutputMeta; 1]> = outs.iter().map(OutputMeta::of).collect();
    let node: Arc<dyn Node> = Arc::new(FunctionNode {
        header: NodeHeader::new(edges.0, outputs),
        f,
        saved,
        data: ctx.data,
        note: ctx.note,
        materialize: ctx.materialize,
    });
    anomaly::made(&node);
    let same = |list: &[Tensor], t: &Tensor| list.iter().any(|x| x.is_same(t));
    for (i, o) in outs.iter().enumerate() {
        if !node::differentiable(o) || same(&ctx.non_differentiable, o) {
            continue;
        }
        let e = Edge::new(node.clone(), i as u32);
        if same(&ctx.dirty, o) {
            inplace::rebase_on(o, e);
            continue;
        }
        let view_of_input = o.view_base().is_some() && inputs.iter().any(|x| x.root().is_same(o.root()));
        state::set_history(o, e);
        if view_of_input {
            state::set_creation(o, Creation::CustomFunction);
        }
    }
    Ok(())
}
