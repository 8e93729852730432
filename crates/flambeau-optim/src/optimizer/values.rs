//! What the methods of [`Optimizer`](super::Optimizer) make of an optimizer's values: each compiled once, not for every optimizer.

use crate::options::number_or_tensor::Number;
use crate::step::fused;
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::{Result, Tensor, Value};

pub(super) fn is_true(v: Option<Value>) -> bool {
    matches!(v, Some(Value::Bool(true)))
}
pub(super) fn number(v: Option<Value>) -> Option<f64> {
    Number::from_value(&v?).ok().map(|n| n.value())
}
pub(super) fn first_number(v: Option<Value>) -> Option<f64> {
    number(v?.items()?.first().cloned())
}
/// The option that a momentum is: the first of two decay rates, or one of its own.
pub(super) fn momentum(betas: Option<Value>, v: Value) -> (&'static str, Value) {
    match betas.as_ref().and_then(Value::items) {
        Some([_, rest @ ..]) => {
            ("betas", Value::Tuple(std::iter::once(v).chain(rest.iter().cloned()).collect()))
        }
        _ => ("momentum", v),
    }
}
/// A step of scaled gradients, unless some of them were infinite.
pub(super) fn scaled(
    grad_scale: Option<&Tensor>,
    found_inf: &Tensor,
    step: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    // counts of steps stand still too, so the call itself is left out
    if found_inf.try_item::<f32>()? != 0.0 {
        return Ok(());
    }
    fused::scaled(grad_scale, step)
}
