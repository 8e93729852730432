//! Tensors that belong to a module.

mod arithmetic;
mod uninitialized;

use flambeau_core::api::ergonomic::{Operand, TensorItem, TensorOrList, expect};
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::dispatch::stand_in::{self, Source, StandIn};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Error, Result, Tensor};
use std::borrow::{Borrow, Cow};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use uninitialized::Lazy;

struct Inner {
    data: Lazy,
    replaced: AtomicBool,
    /// What computes it, where it is computed.
    stand_in: Option<StandIn>,
}

/// A tensor that a module learns: a leaf that requires a gradient. A handle; clones are the same parameter. It derefs
/// to its tensor.
///
/// ```
/// use torch::nn::Parameter;
/// let w = Parameter::new(torch::tensor([1.0, 2.0]));
/// (w.pow(2.0)).sum().backward();
/// assert_eq!(w.grad().unwrap().to_vec::<f32>(), [2.0, 4.0]);
/// assert!(w.clone().requires_grad());
/// ```
#[derive(Clone)]
#[doc(alias = "torch.nn.Parameter")]
#[doc(alias = "torch.nn.parameter.Parameter")]
pub struct Parameter(Arc<Inner>);

impl Parameter {
    /// A parameter over the tensor's memory. Panics for dtypes that have no gradient.
    #[track_caller]
    pub fn new(data: impl Borrow<Tensor>) -> Parameter {
        expect(Self::try_new(data.borrow(), true))
    }
    /// A parameter over the tensor's memory that requires a gradient, or does not.
    ///
    /// # Errors
    /// A gradient was asked for and the dtype is neither floating nor complex.
    pub fn try_new(data: &Tensor, requires_grad: bool) -> Result<Parameter> {
        // of a computed weight the value of now, as PyTorch reads it here
        let leaf = stand_in::resolved(data)?.alias_parameter();
        if requires_grad {
            if !data.dtype().is_floating() && !data.is_complex() {
                let text = "Only Tensors of floating point and complex dtype can require gradients";
                return Err(Error::autograd(text));
            }
            leaf.try_requires_grad_(true)?;
        }
        Ok(Self::of_leaf(leaf))
    }
    /// The tensor itself as a parameter: for optimizers, which take any leaf.
    pub fn of_leaf(data: Tensor) -> Parameter {
        Self::of_lazy(data.into())
    }
    pub(crate) fn of_lazy(data: Lazy) -> Parameter {
        Parameter(Arc::new(Inner { data, replaced: AtomicBool::new(false), stand_in: None }))
    }
    /// A place for a parameter whose value is computed wherever it is used: a reparametrised weight. It is no parameter of
    /// its module.
    pub(crate) fn computed(s: StandIn) -> Parameter {
        let data = s.tensor().clone().into();
        Parameter(Arc::new(Inner { data, replaced: AtomicBool::new(false), stand_in: Some(s) }))
    }
    /// Whether the value is computed from other parameters (`torch.nn.utils.parametrize`, pruning, weight norm). Operators
    /// take it like any parameter; its elements are read by [`Parameter::value`].
    pub fn is_computed(&self) -> bool {
        self.0.stand_in.is_some()
    }
    /// The tensor, computed now where it is computed.
    #[track_caller]
    pub fn value(&self) -> Tensor {
        expect(self.try_value())
    }
    /// [`Parameter::value`] with a result.
    ///
    /// # Errors
    /// Those of the computation.
    pub fn try_value(&self) -> Result<Tensor> {
        stand_in::resolved(self)
    }
    pub(crate) fn source(&self) -> Option<&Arc<dyn Source>> {
        self.0.stand_in.as_ref().map(StandIn::source)
    }
    /// The same computation with a result of another dtype or device.
    pub(crate) fn retargeted(&self, dtype: DType, device: Device) -> Result<Parameter> {
        match &self.0.stand_in {
            Some(s) => Ok(Self::computed(like(s, dtype, device)?)),
            None => Ok(self.clone()),
        }
    }
    pub(crate) fn lazy(&self) -> &Lazy {
        &self.0.data
    }
    /// The tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.0.data
    }
    /// Whether a conversion of the module (`to`, `half` ...) has put another parameter in this one's place.
    pub fn is_replaced(&self) -> bool {
        self.0.replaced.load(Ordering::Acquire)
    }
    /// What loading and [`Module::to`](crate::Module::to) do to a parameter that they put another in place of.
    pub(crate) fn mark_replaced(&self) {
        self.0.replaced.store(true, Ordering::Release);
    }
}
impl Deref for Parameter {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &self.0.data
    }
}
impl AsRef<Tensor> for Parameter {
    fn as_ref(&self) -> &Tensor {
        self
    }
}
impl Borrow<Tensor> for Parameter {
    fn borrow(&self) -> &Tensor {
        self
    }
}
macro_rules! among_tensors {
    ($($t:ty)*) => {$(
        impl TensorItem for $t {
            fn item_tensor(&self) -> &Tensor {
                self
            }
        }
        impl TensorOrList for $t {
            fn tensor_or_list(&self) -> Cow<'_, [Tensor]> {
                (**self).tensor_or_list()
            }
        }
        impl TensorOrList for &$t {
            fn tensor_or_list(&self) -> Cow<'_, [Tensor]> {
                (***self).tensor_or_list()
            }
        }
    )*};
}
among_tensors!(Parameter Buffer);
impl Operand for Parameter {
    fn operand(&self) -> Result<Cow<'_, Tensor>> {
        Ok(Cow::Borrowed(self))
    }
}
impl From<Tensor> for Parameter {
    fn from(t: Tensor) -> Parameter {
        Self::of_leaf(t)
    }
}
impl From<&Tensor> for Parameter {
    fn from(t: &Tensor) -> Parameter {
        Self::of_leaf(t.clone())
    }
}
impl From<&Parameter> for Parameter {
    fn from(p: &Parameter) -> Parameter {
        p.clone()
    }
}
impl fmt::Debug for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_uninitialized() {
            return f.write_str("<UninitializedParameter>");
        }
        if self.is_computed() {
            return match self.try_value() {
                Ok(t) => write!(f, "{t:?}"),
                Err(e) => write!(f, "<computed parameter: {e}>"),
            };
        }
        // a leaf that was taken as it is prints as a plain tensor
        let prefix = if self.is_parameter() { "" } else { "Parameter containing:\n" };
        write!(f, "{prefix}{:?}", self.tensor())
    }
}

/// A tensor that a module keeps but does not learn (running statistics, masks). It derefs to its tensor.
///
/// ```
/// use torch::nn::{self, Buffer};
/// use torch::prelude::*;
/// #[derive(Debug, Module)]
/// struct Scaled {
///     scale: Buffer,
///     last: Buffer,
/// }
/// let m = Scaled { scale: Buffer::new(torch::ones([2])), last: Buffer::new(torch::zeros([2])).persistent(false) };
/// assert!(m.parameters().is_empty() && !m.scale.requires_grad());
/// assert_eq!(m.state_dict().keys().collect::<Vec<_>>(), ["scale"]);
/// ```
#[derive(Clone)]
#[doc(alias = "torch.nn.Buffer")]
#[doc(alias = "torch.nn.parameter.Buffer")]
pub struct Buffer {
    data: Lazy,
    persistent: bool,
    stand_in: Option<Arc<StandIn>>,
}
fn like(s: &StandIn, dtype: DType, device: Device) -> Result<StandIn> {
    let t = s.tensor();
    StandIn::new(t.sizes(), t.strides(), dtype, device, s.source().clone())
}
impl Buffer {
    /// A buffer that is part of the state dict.
    pub fn new(data: Tensor) -> Buffer {
        Self::of_lazy(data.into())
    }
    pub(crate) fn of_lazy(data: Lazy) -> Buffer {
        Buffer { data, persistent: true, stand_in: None }
    }
    /// As [`Parameter::computed`].
    pub(crate) fn computed(s: StandIn) -> Buffer {
        Buffer { data: s.tensor().clone().into(), persistent: true, stand_in: Some(Arc::new(s)) }
    }
    /// Whether the value is computed wherever it is used.
    pub fn is_computed(&self) -> bool {
        self.stand_in.is_some()
    }
    /// The tensor, computed now where it is computed.
    #[track_caller]
    pub fn value(&self) -> Tensor {
        expect(stand_in::resolved(self))
    }
    pub(crate) fn source(&self) -> Option<&Arc<dyn Source>> {
        self.stand_in.as_ref().map(|s| s.source())
    }
    pub(crate) fn retargeted(&self, dtype: DType, device: Device) -> Result<Buffer> {
        match &self.stand_in {
            Some(s) => Ok(Buffer { persistent: self.persistent, ..Self::computed(like(s, dtype, device)?) }),
            None => Ok(self.clone()),
        }
    }
    pub(crate) fn lazy(&self) -> &Lazy {
        &self.data
    }
    /// Whether the buffer is part of the state dict.
    pub fn persistent(mut self, on: bool) -> Buffer {
        self.persistent = on;
        self
    }
    /// Part of the state dict.
    pub fn is_persistent(&self) -> bool {
        self.persistent
    }
    /// The tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.data
    }
    pub(crate) fn set(&mut self, data: Tensor) {
        self.data = data.into();
    }
}
impl Deref for Buffer {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &self.data
    }
}
impl AsRef<Tensor> for Buffer {
    fn as_ref(&self) -> &Tensor {
        self
    }
}
/// Constructors and setters that take a tensor take parameters and buffers too.
macro_rules! as_argument {
    ($($t:ty),*) => {$(
        impl<A> IntoArg<A> for &$t
        where
            for<'a> &'a Tensor: IntoArg<A>,
        {
            fn into_arg(self) -> A {
                let t: &Tensor = self;
                t.into_arg()
            }
        }
    )*};
}
as_argument!(Parameter, Buffer);
impl Operand for Buffer {
    fn operand(&self) -> Result<Cow<'_, Tensor>> {
        Ok(Cow::Borrowed(self))
    }
}
impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_uninitialized() {
            return f.write_str("<UninitializedBuffer>");
        }
        match stand_in::resolved(self) {
            Ok(t) => write!(f, "Buffer containing: {t:?}"),
            Err(e) => write!(f, "<computed buffer: {e}>"),
        }
    }
}
