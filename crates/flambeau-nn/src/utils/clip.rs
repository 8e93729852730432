//! Gradients cut to a length.

use flambeau_autograd::no_grad;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::text::PyText;
use flambeau_core::{Result, Tensor, TensorList, ensure, ops};
use std::borrow::Borrow;

/// Options of [`clip_grad_norm_with_`] and [`get_total_norm_with`].
#[derive(Clone, Copy, Debug)]
pub struct ClipGradOptions {
    norm_type: f64,
    error_if_nonfinite: bool,
}
impl Default for ClipGradOptions {
    fn default() -> Self {
        Self::new()
    }
}
impl ClipGradOptions {
    /// The documented defaults: the norm of order 2, and no error. PyTorch's `foreach` only chooses between two ways to the
    /// same result, of which the faster is taken here.
    pub fn new() -> Self {
        ClipGradOptions { norm_type: 2.0, error_if_nonfinite: false }
    }
    /// Order of the norm; infinity for the largest magnitude.
    pub fn norm_type(mut self, p: f64) -> Self {
        self.norm_type = p;
        self
    }
    /// Whether a norm that is infinite or NaN is an error.
    pub fn error_if_nonfinite(mut self, on: bool) -> Self {
        self.error_if_nonfinite = on;
        self
    }
}

fn total_norm(tensors: &[Tensor], o: ClipGradOptions) -> Result<Tensor> {
    no_grad(|| {
        let norm = |t: &Tensor| ops::linalg_vector_norm(t, o.norm_type.into(), None, false, None);
        let Some(first) = tensors.first() else { return Tensor::scalar_raw(0f32) };
        let norms: Vec<Tensor> =
            tensors.iter().map(|t| norm(t)?.try_to(first.device())).collect::<Result<_>>()?;
        // norms of several dtypes meet in the larger one
        let total = norm(&ops::stack(&same_dtype(norms)?, 0)?)?;
        if o.error_if_nonfinite {
            ensure!(
                total.try_item::<f64>()?.is_finite(),
                Runtime,
                "The total norm of order {} for gradients from `parameters` is non-finite, so it cannot be clipped. To \
                 disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`",
                o.norm_type.py_text()
            );
        }
        Ok(total)
    })
}
fn same_dtype(norms: Vec<Tensor>) -> Result<Vec<Tensor>> {
    let Some(mut dtype) = norms.first().map(Tensor::dtype) else { return Ok(norms) };
    for t in &norms {
        dtype = flambeau_core::iter::promotion::promote_types(dtype, t.dtype())?;
    }
    norms.iter().map(|t| t.try_to(dtype)).collect()
}
/// The norm of all elements of some tensors, as if they were one vector. Panics with the text of [`try_get_total_norm`]'s error.
#[track_caller]
#[doc(alias = "torch.nn.utils.get_total_norm")]
pub fn get_total_norm(tensors: impl TensorList) -> Tensor {
    expect(try_get_total_norm(tensors, ClipGradOptions::new()))
}
/// [`get_total_norm`] with its options.
#[track_caller]
pub fn get_total_norm_with(tensors: impl TensorList, options: ClipGradOptions) -> Tensor {
    expect(try_get_total_norm(tensors, options))
}
/// [`get_total_norm_with`] with an error instead of a panic.
///
/// # Errors
/// Tensors that have no norm; a norm that is not finite, if that was asked for.
pub fn try_get_total_norm(tensors: impl TensorList, options: ClipGradOptions) -> Result<Tensor> {
    total_norm(&tensors.tensor_list(), options)
}

/// Tensors whose gradients are meant.
fn grads<P: Borrow<Tensor>>(parameters: &[P]) -> Vec<Tensor> {
    parameters.iter().filter_map(|p| p.borrow().grad()).collect()
}
/// Multiplies all gradients by `max_norm / total_norm` where that is below one.
///
/// ```
/// use torch::nn::{Parameter, utils};
/// let w = Parameter::new(torch::zeros([2]));
/// w.set_grad(Some(torch::tensor([3.0, 4.0])));
/// // the norm may be known from elsewhere, or of several ranks
/// utils::clip_grads_with_norm_([w.value()], 1.0, &torch::tensor(5.0));
/// assert!(torch::allclose(&w.grad().unwrap(), &torch::tensor([0.6, 0.8])));
/// ```
///
/// # Errors
/// Gradients that cannot be written.
#[doc(alias = "torch.nn.utils.clip_grads_with_norm_")]
#[flambeau_macros::short]
pub fn try_clip_grads_with_norm_<P: Borrow<Tensor>>(
    parameters: impl AsRef<[P]>,
    max_norm: f64,
    total_norm: &Tensor,
) -> Result<()> {
    let grads = grads(parameters.as_ref());
    no_grad(|| {
        if grads.is_empty() {
            return Ok(());
        }
        let sum = ops::add(total_norm, &Tensor::wrapped_raw(1e-6)?, 1.into())?;
        let factor = ops::div(&Tensor::wrapped_raw(max_norm)?, &sum)?;
        let factor = ops::clamp(&factor, None, Some(1.0.into()))?;
        grads.iter().try_for_each(|g| ops::mul_(g, &factor.try_to(g.device())?))
    })
}
/// Scales the gradients of some parameters so that their norm, as that of one vector, is at most `max_norm`; gives the
/// norm that they had. Panics on gradients that cannot be written.
///
/// ```
/// use torch::prelude::*;
/// use torch::nn;
/// let layer = nn::Linear::new(2, 2);
/// (layer.forward(&Tensor::from_vec(vec![1f32, 2.], [1, 2])).sum() * 100.0).backward();
/// let before = nn::utils::clip_grad_norm_(layer.parameters(), 1.0).item::<f32>();
/// let after = nn::utils::get_total_norm([layer.weight.grad().unwrap(), layer.bias().grad().unwrap()]);
/// assert!(before > 100.0 && (after.item::<f32>() - 1.0).abs() < 1e-5);
/// ```
#[track_caller]
#[doc(alias = "torch.nn.utils.clip_grad_norm_")]
pub fn clip_grad_norm_<P: Borrow<Tensor>>(parameters: impl AsRef<[P]>, max_norm: f64) -> Tensor {
    expect(try_clip_grad_norm_(parameters, max_norm, ClipGradOptions::new()))
}
/// The older name of [`clip_grad_norm_`].
#[track_caller]
#[doc(alias = "torch.nn.utils.clip_grad_norm")]
pub fn clip_grad_norm<P: Borrow<Tensor>>(parameters: impl AsRef<[P]>, max_norm: f64) -> Tensor {
    clip_grad_norm_(parameters, max_norm)
}
/// [`clip_grad_norm_`] with its options.
#[track_caller]
pub fn clip_grad_norm_with_<P: Borrow<Tensor>>(
    parameters: impl AsRef<[P]>,
    max_norm: f64,
    options: ClipGradOptions,
) -> Tensor {
    expect(try_clip_grad_norm_(parameters, max_norm, options))
}
/// [`clip_grad_norm_with_`] with an error instead of a panic.
///
/// # Errors
/// A norm that is not finite, if that was asked for; gradients that cannot be written.
pub fn try_clip_grad_norm_<P: Borrow<Tensor>>(
    parameters: impl AsRef<[P]>,
    max_norm: f64,
    options: ClipGradOptions,
) -> Result<Tensor> {
    let parameters = parameters.as_ref();
    let total = total_norm(&grads(parameters), options)?;
    try_clip_grads_with_norm_(parameters, max_norm, &total)?;
    Ok(total)
}
/// Cuts every element of the gradients to between `-clip_value` and `clip_value`.
///
/// ```
/// use torch::nn::{Parameter, utils};
/// let w = Parameter::new(torch::zeros([2]));
/// w.set_grad(Some(torch::tensor([3.0, -0.5])));
/// utils::clip_grad_value_([w.value()], 1.0);
/// assert_eq!(w.grad().unwrap().to_vec::<f32>(), [1.0, -0.5]);
/// ```
///
/// # Errors
/// Gradients that cannot be written.
#[doc(alias = "torch.nn.utils.clip_grad_value_")]
#[flambeau_macros::short]
pub fn try_clip_grad_value_<P: Borrow<Tensor>>(parameters: impl AsRef<[P]>, clip_value: f64) -> Result<()> {
    let all = grads(parameters.as_ref());
    no_grad(|| {
        all.iter().try_for_each(|g| ops::clamp_(g, Some((-clip_value).into()), Some(clip_value.into())))
    })
}
