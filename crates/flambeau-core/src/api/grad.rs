//! Gradient methods of `Tensor`, over the table that flambeau-autograd fills. Without the engine each of them says so.

use crate::api::ergonomic::{TensorOrList, expect};
use crate::tensor::graph::{RemovableHandle, engine};
use crate::tensor::handle::Tensor;
use crate::tensor::wrapper::{carrier, like};
use crate::types::error::Result;
use std::sync::Arc;

/// Arguments of [`Tensor::backward_with`].
#[derive(Clone, Debug, Default)]
pub struct BackwardOptions {
    gradient: Option<Tensor>,
    retain_graph: Option<bool>,
    create_graph: bool,
    inputs: Option<Vec<Tensor>>,
}
impl BackwardOptions {
    /// The documented defaults.
    pub fn new() -> Self {
        Self::default()
    }
    /// Gradient of the tensor itself; needed unless it has one element.
    pub fn gradient(mut self, g: &Tensor) -> Self {
        self.gradient = Some(g.clone());
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

impl Tensor {
    /// Asks for a gradient, or no longer does (leaves only). Returns the same tensor.
    #[track_caller]
    #[doc(alias = "torch.Tensor.requires_grad_")]
    pub fn requires_grad_(&self, on: bool) -> Tensor {
        expect(self.try_requires_grad_(on));
        self.clone()
    }
    /// [`Tensor::requires_grad_`] with a result.
    ///
    /// # Errors
    /// Not a floating or complex dtype; turning it off on a computed tensor; no engine linked.
    pub fn try_requires_grad_(&self, on: bool) -> Result<()> {
        (engine()?.set_requires_grad)(self, on)
    }
    /// Not computed from anything that requires a gradient.
    #[doc(alias = "torch.Tensor.is_leaf")]
    pub fn is_leaf(&self) -> bool {
        !self.requires_grad() || engine().is_ok_and(|e| (e.rebased_edge)(&carrier(self)).is_none())
    }
    /// Accumulates the gradients of this one-element tensor into the leaves that it was computed from.
    #[track_caller]
    #[doc(alias = "torch.Tensor.backward")]
    pub fn backward(&self) {
        expect(self.try_backward(BackwardOptions::default()));
    }
    /// [`Tensor::backward`] with all arguments.
    #[track_caller]
    pub fn backward_with(&self, o: BackwardOptions) {
        expect(self.try_backward(o));
    }
    /// [`Tensor::backward_with`] with a result.
    ///
    /// # Errors
    /// No graph, a graph that was freed, wrong sizes of `gradient`, saved tensors that were written to.
    pub fn try_backward(&self, o: BackwardOptions) -> Result<()> {
        (engine()?.backward)(self, o.gradient.as_ref(), o.retain_graph, o.create_graph, o.inputs.as_deref())
    }
    /// The accumulated gradient.
    #[doc(alias = "torch.Tensor.grad")]
    pub fn grad(&self) -> Option<Tensor> {
        if self.is_wrapper() {
            return like(self, carrier(self).grad()?).ok();
        }
        self.autograd_state()?;
        engine().ok().and_then(|e| (e.grad)(self))
    }
    /// Assigns the gradient; `None` clears it.
    #[track_caller]
    pub fn set_grad(&self, grad: Option<Tensor>) {
        expect(self.try_set_grad(grad));
    }
    /// [`Tensor::set_grad`] with a result.
    ///
    /// # Errors
    /// Another size, dtype or device.
    pub fn try_set_grad(&self, grad: Option<Tensor>) -> Result<()> {
        (engine()?.set_grad)(self, grad)
    }
    /// Keeps the gradient of a computed tensor in `grad()`.
    #[track_caller]
    #[doc(alias = "torch.Tensor.retain_grad")]
    pub fn retain_grad(&self) -> &Self {
        expect(self.try_retain_grad());
        self
    }
    /// [`Tensor::retain_grad`] with a result.
    ///
    /// # Errors
    /// The tensor does not require a gradient.
    pub fn try_retain_grad(&self) -> Result<()> {
        (engine()?.retain_grad)(self)
    }
    /// A hook on the tensor's gradient, which may replace it. The handle's `remove()` takes it out; without that it stays.
    ///
    /// ```
    /// let x = torch::tensor([1.0, 2.0]).requires_grad_(true);
    /// let handle = x.register_hook(|g| Some(g * 10));
    /// x.sum().backward();
    /// handle.remove();
    /// assert_eq!(x.grad().unwrap().to_vec::<f32>(), [10.0, 10.0]);
    /// ```
    #[track_caller]
    #[doc(alias = "torch.Tensor.register_hook")]
    pub fn register_hook(
        &self,
        f: impl Fn(&Tensor) -> Option<Tensor> + Send + Sync + 'static,
    ) -> RemovableHandle {
        expect(engine().and_then(|e| (e.register_hook)(self, Arc::new(f))))
    }
    /// Cuts the tensor out of its graph: it is a leaf from now on.
    #[track_caller]
    #[doc(alias = "torch.Tensor.detach_")]
    pub fn detach_(&self) -> &Self {
        expect(self.try_detach_());
        self
    }
    /// [`Tensor::detach_`] with a result.
    ///
    /// # Errors
    /// Views cannot be detached in place.
    pub fn try_detach_(&self) -> Result<()> {
        (engine()?.detach_)(self)
    }
}
