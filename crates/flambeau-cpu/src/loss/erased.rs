//! Losses of f16, bf16, f32 and f64 slices of run-time type. `None` means that the dtypes are not supported; data and
//! class weights share one dtype.

use super::LossShape;
use crate::engine::erase::erased;
use crate::{Any, AnyMut};

/// [`super::nll_loss`].
pub fn nll_loss(
    s: &LossShape,
    x: Any,
    target: &[i64],
    weight: Option<Any>,
    out: AnyMut,
) -> Option<Result<f64, String>> {
    erased!(x, T in [HALF, FLOAT], same(weight, out) => {
        super::nll_loss::<T>(s, x.get(), target, weight.map(|w| w.get()), out.get())
    })
}
/// [`super::nll_loss_backward`].
pub fn nll_loss_backward(
    s: &LossShape,
    grad: Any,
    target: &[i64],
    weight: Option<Any>,
    total_weight: f64,
    grad_x: AnyMut,
) -> Option<Result<(), String>> {
    erased!(grad, T in [HALF, FLOAT], same(weight, grad_x) => {
        super::nll_loss_backward::<T>(s, grad.get(), target, weight.map(|w| w.get()), total_weight, grad_x.get())
    })
}
/// [`super::cross_entropy`].
pub fn cross_entropy(
    s: &LossShape,
    x: Any,
    target: &[i64],
    weight: Option<Any>,
    label_smoothing: f64,
    out: AnyMut,
    lse: &mut [f64],
) -> Option<Result<f64, String>> {
    erased!(x, T in [HALF, FLOAT], same(weight, out) => super::cross_entropy::<T>(
        s, x.get(), target, weight.map(|w| w.get()), label_smoothing, out.get(), lse,
    ))
}
/// [`super::cross_entropy_backward`].
pub fn cross_entropy_backward(
    s: &LossShape,
    grad: Any,
    x: Any,
    target: &[i64],
    weight: Option<Any>,
    label_smoothing: f64,
    lse: &[f64],
    total_weight: f64,
    grad_x: AnyMut,
) -> Option<Result<(), String>> {
    erased!(x, T in [HALF, FLOAT], same(grad, weight, grad_x) => super::cross_entropy_backward::<T>(
        s, grad.get(), x.get(), target, weight.map(|w| w.get()), label_smoothing, lse, total_weight, grad_x.get(),
    ))
}
