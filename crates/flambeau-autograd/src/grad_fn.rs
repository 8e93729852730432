//! Methods of `Tensor` that need the engine, and the table through which core's own methods reach it.

use crate::accumulate::AccumulateGrad;
use crate::engine;
use crate::forward_ad;
use crate::hooks::{self, NewGrads, RemovableHandle};
use crate::state;
use flambeau_core::api::ergonomic::{TensorOrList, expect};
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::dispatch::registry::CrateReg;
use flambeau_core::tensor::graph::{Edge, Node, TensorHook, node_name};
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result, Tensor};
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What this crate brings to core.
pub static REG: CrateReg = CrateReg {
    name: "flambeau-autograd",
    ops: &[],
    fills: &[
        crate::library::install,
        #[cfg(feature = "by-name")]
        crate::by_name::install,
    ],
};
#[linkme::distributed_slice(flambeau_core::dispatch::registry::CRATES)]
static LINKED: &CrateReg = &REG;

/// One step of the gradient graph, as `grad_fn` gives it.
///
/// ```
/// use torch::prelude::*;
/// let x = torch::tensor(2.0).requires_grad_(true).clone();
/// let step = (&x * &x).exp().grad_fn().unwrap();
/// assert_eq!(step.name(), "ExpBackward0");
/// let (before, _) = step.next_functions()[0].clone().unwrap();
/// assert_eq!(before.name(), "MulBackward0");
/// ```
#[derive(Clone)]
#[doc(alias = "torch.autograd.graph.Node")]
pub struct GradFn(Edge);
impl GradFn {
    #[doc(alias = "torch.autograd.graph.Node.name")]
    /// `AddBackward0`
    pub fn name(&self) -> Cow<'static, str> {
        node_name(&**self.0.node())
    }
    #[doc(alias = "torch.autograd.graph.Node.next_functions")]
    /// Steps that get this one's results, with the number of the output each result belongs to.
    pub fn next_functions(&self) -> Vec<Option<(GradFn, u32)>> {
        self.0.node().header().edges.iter().map(|e| e.as_ref().map(|e| (GradFn(e.clone()), e.nr))).collect()
    }
    /// Creation number.
    pub fn sequence_nr(&self) -> u64 {
        self.0.node().header().seq
    }
    /// The leaf of an `AccumulateGrad`.
    pub fn variable(&self) -> Option<Tensor> {
        self.0.node().leaf()
    }
    #[doc(alias = "torch.autograd.graph.Node.register_hook")]
    /// A hook that runs after the step with the gradients of its inputs and outputs, and may replace the former.
    pub fn register_hook(
        &self,
        f: impl Fn(&[Option<Tensor>], &[Option<Tensor>]) -> NewGrads + Send + Sync + 'static,
    ) -> RemovableHandle {
        self.register_fallible_hook(move |inputs, outputs| Ok(f(inputs, outputs)))
    }
    #[doc(alias = "torch.autograd.graph.Node.register_prehook")]
    /// A hook that runs before the step and may replace the gradients of its outputs.
    pub fn register_prehook(
        &self,
        f: impl Fn(&[Option<Tensor>]) -> NewGrads + Send + Sync + 'static,
    ) -> RemovableHandle {
        self.register_fallible_prehook(move |outputs| Ok(f(outputs)))
    }
    /// [`GradFn::register_hook`] with errors, which end the backward pass.
    pub fn register_fallible_hook(
        &self,
        f: impl Fn(&[Option<Tensor>], &[Option<Tensor>]) -> Result<NewGrads> + Send + Sync + 'static,
    ) -> RemovableHandle {
        hooks::add_post(&**self.0.node(), Arc::new(f))
    }
    /// [`GradFn::register_prehook`] with errors, which end the backward pass.
    pub fn register_fallible_prehook(
        &self,
        f: impl Fn(&[Option<Tensor>]) -> Result<NewGrads> + Send + Sync + 'static,
    ) -> RemovableHandle {
        hooks::add_pre(&**self.0.node(), Arc::new(f))
    }
    /// Whether both are the same step.
    pub fn is_same(&self, o: &GradFn) -> bool {
        Arc::ptr_eq(self.0.node(), o.0.node())
    }
}
impl std::fmt::Debug for GradFn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{}>", self.name())
    }
}

/// Gradient-related methods of `Tensor`.
///
/// ```
/// use torch::prelude::*;
/// let x = torch::tensor(2.0).requires_grad_(true).clone();
/// assert!(x.grad_fn().is_none());
/// // gradients cut to 1 on their way
/// x.try_register_hook(|g| Some(g.clamp(-1, 1)))?;
/// (&x * &x).backward();
/// assert_eq!(x.grad().unwrap().item::<f32>(), 1.0);
/// # Ok::<(), torch::Error>(())
/// ```
pub trait TensorAutogradExt {
    /// The step that computed the tensor; `None` for leaves.
    #[doc(alias = "torch.Tensor.grad_fn")]
    fn grad_fn(&self) -> Option<GradFn>;
    /// Which output of its `grad_fn` the tensor is.
    #[doc(alias = "torch.Tensor.output_nr")]
    fn output_nr(&self) -> u32;
    /// Whether `retain_grad` was called on a tensor that is not a leaf.
    #[doc(alias = "torch.Tensor.retains_grad")]
    fn retains_grad(&self) -> bool;
    /// A hook on the tensor's gradient, which may replace it, with a handle that removes it.
    ///
    /// # Errors
    /// The tensor does not require a gradient.
    #[doc(alias = "torch.Tensor.register_hook")]
    fn try_register_hook(
        &self,
        f: impl Fn(&Tensor) -> Option<Tensor> + Send + Sync + 'static,
    ) -> Result<RemovableHandle>;
    /// A hook that runs whenever a leaf's gradient has been added to.
    ///
    /// # Errors
    /// The tensor does not require a gradient, or is not a leaf.
    #[doc(alias = "torch.Tensor.register_post_accumulate_grad_hook")]
    fn register_post_accumulate_grad_hook(
        &self,
        f: impl Fn(&Tensor) + Send + Sync + 'static,
    ) -> Result<RemovableHandle>;
    /// [`register_post_accumulate_grad_hook`](TensorAutogradExt::register_post_accumulate_grad_hook) of a hook that may fail: its error
    /// is that of the backward pass.
    ///
    /// ```
    /// use torch::prelude::*;
    /// use torch::{Error, options::BackwardOptions};
    /// let x = torch::tensor(2.0).requires_grad_(true).clone();
    /// x.register_fallible_post_accumulate_grad_hook(|_| Err(Error::runtime("no place for it")))?;
    /// assert_eq!((&x * &x).try_backward(BackwardOptions::new()).unwrap_err().message(), "no place for it");
    /// # Ok::<(), torch::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor does not require a gradient, or is not a leaf.
    fn register_fallible_post_accumulate_grad_hook(
        &self,
        f: impl Fn(&Tensor) -> Result<()> + Send + Sync + 'static,
    ) -> Result<RemovableHandle>;
    /// The tangent of a dual tensor.
    fn tangent(&self) -> Option<Tensor>;
}
impl TensorAutogradExt for Tensor {
    fn grad_fn(&self) -> Option<GradFn> {
        state::history(self).map(GradFn)
    }
    fn output_nr(&self) -> u32 {
        state::history(self).map_or(0, |e| e.nr)
    }
    fn retains_grad(&self) -> bool {
        state::retains_grad(self)
    }
    fn try_register_hook(
        &self,
        f: impl Fn(&Tensor) -> Option<Tensor> + Send + Sync + 'static,
    ) -> Result<RemovableHandle> {
        state::register_hook(self, Arc::new(f) as TensorHook)
    }
    fn register_post_accumulate_grad_hook(
        &self,
        f: impl Fn(&Tensor) + Send + Sync + 'static,
    ) -> Result<RemovableHandle> {
        self.register_fallible_post_accumulate_grad_hook(move |t| {
            f(t);
            Ok(())
        })
    }
    fn register_fallible_post_accumulate_grad_hook(
        &self,
        f: impl Fn(&Tensor) -> Result<()> + Send + Sync + 'static,
    ) -> Result<RemovableHandle> {
        if !state::requires_grad(self) {
            return Err(Error::autograd("cannot register a hook on a tensor that doesn't require gradient"));
        }
        if !state::is_leaf(self) {
            return Err(Error::autograd(
                "post accumulate grad hooks cannot be registered on non-leaf tensors",
            ));
        }
        let handle = state::get_or_init(self).lock().post_accumulate.add(Arc::new(f));
        state::mark_hooked(self);
        Ok(handle)
    }
    fn tangent(&self) -> Option<Tensor> {
        forward_ad::tangent(self)
    }
}

/// Gradients of (the sum of) `outputs` with respect to `inputs`; `.grad` of no tensor changes. Panics with the error's text.
///
/// ```
/// use torch::prelude::*;
/// let x = torch::tensor([1.0, 2.0]).requires_grad_(true);
/// let y = (&x * &x).sum();
/// assert_eq!(torch::autograd::grad(&y, &x)[0].to_vec::<f32>(), [2.0, 4.0]);
/// ```
#[track_caller]
#[doc(alias = "torch.autograd.grad")]
pub fn grad(outputs: impl TensorOrList, inputs: impl TensorOrList) -> Vec<Tensor> {
    let all = expect(try_grad(outputs, inputs, engine::GradOptions::new()));
    all.into_iter().map(|g| expect(g.ok_or_else(|| Error::autograd("a gradient is missing")))).collect()
}
/// [`grad`] with its options, which may allow that there is no gradient of an input.
///
/// ```
/// use torch::autograd::{GradOptions, grad, grad_with};
/// use torch::prelude::*;
/// let x = torch::tensor([1.0, 2.0]).requires_grad_(true);
/// let y = (&x * &x * &x).sum();
/// let first = grad_with(&y, &x, GradOptions::new().create_graph(true)).remove(0).unwrap();
/// assert_eq!(grad(&first.sum(), &x)[0].to_vec::<f32>(), [6.0, 12.0]);
/// ```
#[track_caller]
pub fn grad_with(
    outputs: impl TensorOrList,
    inputs: impl TensorOrList,
    options: engine::GradOptions,
) -> Vec<Option<Tensor>> {
    expect(try_grad(outputs, inputs, options))
}
/// [`grad_with`] with an error instead of a panic.
///
/// # Errors
/// As [`try_backward`]; an input that the outputs do not depend on, unless `allow_unused`.
pub fn try_grad(
    outputs: impl TensorOrList,
    inputs: impl TensorOrList,
    options: engine::GradOptions,
) -> Result<Vec<Option<Tensor>>> {
    engine::grad(&outputs.tensor_or_list(), &inputs.tensor_or_list(), options)
}

/// Arguments of [`backward_with`].
#[derive(Clone, Debug, Default)]
pub struct BackwardOptions {
    grad_tensors: Vec<Option<Tensor>>,
    retain_graph: Option<bool>,
    create_graph: bool,
    inputs: Option<Vec<Tensor>>,
}
impl BackwardOptions {
    /// The documented defaults.
    pub fn new() -> Self {
        Self::default()
    }
    /// Gradients of the tensors, a list of tensors; `None` stands for 1 where the tensor has one element.
    pub fn grad_tensors(mut self, g: impl IntoIterator<Item: IntoArg<Option<Tensor>>>) -> Self {
        self.grad_tensors = g.into_iter().map(IntoArg::into_arg).collect();
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
    /// Accumulates into these tensors alone.
    pub fn inputs(mut self, inputs: impl TensorOrList) -> Self {
        self.inputs = Some(inputs.tensor_or_list().into_owned());
        self
    }
}
/// Accumulates the gradients of `tensors` into the leaves that they were computed from. Panics with the error's text.
///
/// ```
/// use torch::prelude::*;
/// let x = torch::tensor([1.0, 2.0]).requires_grad_(true);
/// torch::autograd::backward([x.sum(), (&x * &x).sum()]);
/// assert_eq!(x.grad().unwrap().to_vec::<f32>(), [3.0, 5.0]);
/// ```
#[track_caller]
#[doc(alias = "torch.autograd.backward")]
pub fn backward(tensors: impl TensorOrList) {
    expect(try_backward(tensors, BackwardOptions::new()));
}
/// [`backward`] with its options.
#[track_caller]
pub fn backward_with(tensors: impl TensorOrList, options: BackwardOptions) {
    expect(try_backward(tensors, options));
}
/// [`backward_with`] with an error instead of a panic.
///
/// # Errors
/// A tensor that is not part of a graph; gradients of wrong shapes; a graph that was freed; saved tensors that were
/// written to; errors of formulas.
pub fn try_backward(tensors: impl TensorOrList, o: BackwardOptions) -> Result<()> {
    let tensors = tensors.tensor_or_list();
    engine::backward(&tensors, &o.grad_tensors, o.retain_graph, o.create_graph, o.inputs.as_deref())
}

/// The edge that the gradient of `t` goes to, its accumulation node for leaves.
///
/// ```
/// use torch::autograd::get_gradient_edge;
/// let x = torch::tensor(2.0).requires_grad_(true).clone();
/// let (step, nr) = get_gradient_edge(&x)?;
/// assert_eq!((step.name().as_ref(), nr), ("AccumulateGrad", 0));
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// The tensor does not require a gradient.
#[doc(alias = "torch.autograd.graph.get_gradient_edge")]
#[doc(alias = "torch.autograd.graph.GradientEdge")]
pub fn get_gradient_edge(t: &Tensor) -> Result<(GradFn, u32)> {
    let e = state::grad_edge(t).ok_or_else(|| {
        Error::autograd(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients",
        )
    })?;
    let nr = e.nr;
    Ok((GradFn(e), nr))
}

/// When a hook over several tensors runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MultiGrad {
    /// Once per backward, with all gradients, when the last has come.
    All,
    /// Once per backward, with the first gradient that comes.
    Any,
}
/// A hook over the gradients of several tensors. With [`MultiGrad::All`] it gets one entry per tensor (`None` for a
/// tensor that does not require a gradient) once every one that does has its gradient; with [`MultiGrad::Any`] one entry,
/// the first that comes, until the handle is removed.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use torch::autograd::MultiGrad;
/// use torch::autograd::register_multi_grad_hook;
/// static SEEN: AtomicUsize = AtomicUsize::new(0);
/// let [a, b] = [1.0, 2.0].map(|v| torch::tensor(v).requires_grad_(true).clone());
/// let count = |grads: &[Option<torch::Tensor>]| SEEN.store(grads.len(), Ordering::Relaxed);
/// let handle = register_multi_grad_hook(&[a.clone(), b.clone()], count, MultiGrad::All)?;
/// (&a * &b).backward();
/// assert_eq!(SEEN.load(Ordering::Relaxed), 2);
/// handle.remove();
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// None of the tensors requires a gradient.
#[doc(alias = "torch.autograd.graph.register_multi_grad_hook")]
pub fn register_multi_grad_hook(
    tensors: &[Tensor],
    f: impl Fn(&[Option<Tensor>]) + Send + Sync + 'static,
    mode: MultiGrad,
) -> Result<RemovableHandle> {
    struct Shared<F> {
        f: F,
        got: Mutex<Vec<Option<Tensor>>>,
        count: AtomicUsize,
        ran: AtomicBool,
    }
    let total = tensors.iter().filter(|t| state::requires_grad(t)).count();
    if total == 0 {
        return Err(Error::autograd(
            "register_multi_grad_hook expects at least one tensor that requires grad",
        ));
    }
    let shared = Arc::new(Shared {
        f,
        got: Mutex::new(vec![None; tensors.len()]),
        count: AtomicUsize::new(0),
        ran: AtomicBool::new(false),
    });
    let mut handles = Vec::new();
    for (i, t) in tensors.iter().enumerate() {
        if !state::requires_grad(t) {
            continue;
        }
        let s = shared.clone();
        handles.push(t.try_register_hook(move |g| {
            match mode {
                MultiGrad::Any => {
                    if !s.ran.swap(true, Ordering::AcqRel) {
                        (s.f)(&[Some(g.clone())]);
                    }
                }
                MultiGrad::All => {
                    s.got.lock().unwrap_or_else(|e| e.into_inner())[i] = Some(g.clone());
                    if s.count.fetch_add(1, Ordering::AcqRel) + 1 == total {
                        s.count.store(0, Ordering::Release);
                        let n = s.got.lock().unwrap_or_else(|e| e.into_inner()).len();
                        let all = std::mem::replace(
                            &mut *s.got.lock().unwrap_or_else(|e| e.into_inner()),
                            vec![None; n],
                        );
                        (s.f)(&all);
                    }
                }
            }
            None
        })?);
    }
    Ok(RemovableHandle::merge(handles))
}

/// Whether a step adds to a leaf's gradient.
pub fn is_accumulate_grad(f: &GradFn) -> bool {
    (&**f.0.node() as &dyn Node as &dyn Any).is::<AccumulateGrad>()
}
