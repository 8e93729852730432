//! Tensors whose sizes are not known yet: parameters and buffers of lazy modules.

use crate::parameter::{Buffer, Parameter};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::iter::promotion;
use flambeau_core::settings::get_default_device;
use flambeau_core::{DType, Device, Result, Tensor, ensure};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// A tensor, or a place for one that comes later, with an empty tensor of its dtype and device until then.
#[derive(Clone)]
pub(crate) struct Lazy {
    now: Tensor,
    later: Option<Arc<OnceLock<Tensor>>>,
}
impl Lazy {
    fn new(now: Tensor) -> Lazy {
        Lazy { now, later: Some(Arc::default()) }
    }
    pub(crate) fn is_open(&self) -> bool {
        self.later.as_ref().is_some_and(|l| l.get().is_none())
    }
    /// Makes the tensor: of these sizes, not filled. A place that was filled meanwhile stays as it is.
    fn fill(&self, sizes: &[i64]) -> Result<()> {
        let Some(later) = &self.later else { return Ok(()) };
        let fresh = Tensor::empty_raw(sizes, self.now.dtype(), self.now.device())?;
        let fresh = if self.now.is_parameter() { fresh.alias_parameter() } else { fresh };
        if self.now.requires_grad() {
            fresh.try_requires_grad_(true)?;
        }
        let _ = later.set(fresh);
        Ok(())
    }
}
impl Deref for Lazy {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        self.later.as_ref().and_then(|l| l.get()).unwrap_or(&self.now)
    }
}
impl From<Tensor> for Lazy {
    fn from(now: Tensor) -> Lazy {
        Lazy { now, later: None }
    }
}

fn nothing(dtype: Option<DType>, device: Option<Device>) -> Result<Tensor> {
    Tensor::empty_raw(
        &[0],
        dtype.unwrap_or_else(promotion::default_dtype),
        device.unwrap_or_else(get_default_device),
    )
}

impl Parameter {
    /// A parameter whose sizes come later, by [`Parameter::materialize`]. Until then its tensor is empty. Clones are the
    /// same parameter, so an optimizer may be built before.
    ///
    /// # Errors
    /// A dtype without gradients.
    #[doc(alias = "torch.nn.UninitializedParameter")]
    #[doc(alias = "torch.nn.parameter.UninitializedParameter")]
    pub fn uninitialized(
        requires_grad: bool,
        dtype: Option<DType>,
        device: Option<Device>,
    ) -> Result<Parameter> {
        let leaf = nothing(dtype, device)?.alias_parameter();
        if requires_grad {
            leaf.try_requires_grad_(true)?;
        }
        Ok(Parameter::of_lazy(Lazy::new(leaf)))
    }
    /// Whether the parameter has no sizes yet.
    #[doc(alias = "torch.nn.parameter.is_lazy")]
    pub fn is_uninitialized(&self) -> bool {
        self.lazy().is_open()
    }
    /// Gives the parameter its sizes; its elements are not set.
    ///
    /// # Errors
    /// A parameter that has its sizes; sizes that do not fit into memory.
    #[doc(alias = "torch.nn.parameter.UninitializedParameter.materialize")]
    pub fn materialize(&self, sizes: &[i64]) -> Result<()> {
        ensure!(self.is_uninitialized(), Attribute, "'Parameter' object has no attribute 'materialize'");
        self.lazy().fill(sizes)
    }
    /// Such a parameter with the dtype and device of another tensor.
    pub(crate) fn uninitialized_like(&self, t: &Tensor) -> Result<Parameter> {
        Parameter::uninitialized(self.requires_grad(), Some(t.dtype()), Some(t.device()))
    }
}
impl Buffer {
    /// A buffer whose sizes come later, by [`Buffer::materialize`]. Until then its tensor is empty.
    ///
    /// # Errors
    /// A device without memory.
    #[doc(alias = "torch.nn.UninitializedBuffer")]
    #[doc(alias = "torch.nn.parameter.UninitializedBuffer")]
    pub fn uninitialized(dtype: Option<DType>, device: Option<Device>) -> Result<Buffer> {
        Ok(Buffer::of_lazy(Lazy::new(nothing(dtype, device)?)))
    }
    /// Whether the buffer has no sizes yet.
    pub fn is_uninitialized(&self) -> bool {
        self.lazy().is_open()
    }
    /// Gives the buffer its sizes; its elements are not set.
    ///
    /// # Errors
    /// A buffer that has its sizes; sizes that do not fit into memory.
    pub fn materialize(&self, sizes: &[i64]) -> Result<()> {
        ensure!(self.is_uninitialized(), Attribute, "'Tensor' object has no attribute 'materialize'");
        self.lazy().fill(sizes)
    }
}
