//! `native_batch_norm`, its two halves, and its other names.

use super::norm::{batch_norm_meta, batch_normalised};
use flambeau_core::{DType, Result, Tensor};

type Opt<'a> = Option<&'a Tensor>;
type Three = (Tensor, Tensor, Tensor);
type Four = (Tensor, Tensor, Tensor, Tensor);

fn reserving((y, mean, invstd): Three) -> Result<Four> {
    let reserve = Tensor::empty_raw(&[0], DType::U8, y.device())?;
    Ok((y, mean, invstd, reserve))
}
/// `native_batch_norm`
pub fn native_batch_norm(
    input: &Tensor,
    weight: Opt<'_>,
    bias: Opt<'_>,
    running_mean: Opt<'_>,
    running_var: Opt<'_>,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<Three> {
    if training {
        both_or_none(running_mean, running_var)?;
        crate::ops::batch_norm_train(input, weight, bias, running_mean, running_var, momentum, eps)
    } else {
        crate::ops::batch_norm_eval(input, weight, bias, running_mean, running_var, eps)
    }
}
/// Running statistics come in pairs.
pub(super) fn both_or_none(running_mean: Opt<'_>, running_var: Opt<'_>) -> Result<()> {
    flambeau_core::ensure!(
        running_mean.is_some() == running_var.is_some(),
        Value,
        "running_mean and running_var must either both be None or neither be None"
    );
    Ok(())
}
/// `_batch_norm_train` on the meta device.
pub fn batch_norm_train_meta_fn(
    input: &Tensor,
    weight: Opt<'_>,
    bias: Opt<'_>,
    running_mean: Opt<'_>,
    running_var: Opt<'_>,
    _momentum: f64,
    _eps: f64,
) -> Result<Three> {
    batch_norm_meta(input, weight, bias, running_mean, running_var, true)
}
/// `_batch_norm_eval` on the meta device.
pub fn batch_norm_eval_meta_fn(
    input: &Tensor,
    weight: Opt<'_>,
    bias: Opt<'_>,
    running_mean: Opt<'_>,
    running_var: Opt<'_>,
    _eps: f64,
) -> Result<Three> {
    batch_norm_meta(input, weight, bias, running_mean, running_var, false)
}
/// `_batch_norm_train`
pub fn batch_norm_train(
    input: &Tensor,
    weight: Opt<'_>,
    bias: Opt<'_>,
    running_mean: Opt<'_>,
    running_var: Opt<'_>,
    momentum: f64,
    eps: f64,
) -> Result<Three> {
    batch_normalised(input, weight, bias, running_mean, running_var, Some(momentum), eps)
}
/// `_batch_norm_eval`
pub fn batch_norm_eval(
    input: &Tensor,
    weight: Opt<'_>,
    bias: Opt<'_>,
    running_mean: Opt<'_>,
    running_var: Opt<'_>,
    eps: f64,
) -> Result<Three> {
    batch_normalised(input, weight, bias, running_mean, running_var, None, eps)
}
/// `_native_batch_norm_legit`
pub fn native_batch_norm_legit(
    input: &Tensor,
    weight: Opt<'_>,
    bias: Opt<'_>,
    running_mean: &Tensor,
    running_var: &Tensor,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<Three> {
    let (mean, var) = (Some(running_mean), Some(running_var));
    crate::ops::native_batch_norm(input, weight, bias, mean, var, training, momentum, eps)
}
/// `_native_batch_norm_legit.no_stats`
pub fn native_batch_norm_legit_no_stats(
    input: &Tensor,
    weight: Opt<'_>,
    bias: Opt<'_>,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<Three> {
    crate::ops::native_batch_norm(input, weight, bias, None, None, training, momentum, eps)
}
/// `_native_batch_norm_legit_no_training`
pub fn native_batch_norm_legit_no_training(
    input: &Tensor,
    weight: Opt<'_>,
    bias: Opt<'_>,
    running_mean: &Tensor,
    running_var: &Tensor,
    momentum: f64,
    eps: f64,
) -> Result<Three> {
    native_batch_norm_legit(input, weight, bias, running_mean, running_var, false, momentum, eps)
}
/// `_batch_norm_with_update`
pub fn batch_norm_with_update(
    input: &Tensor,
    weight: Opt<'_>,
    bias: Opt<'_>,
    running_mean: &Tensor,
    running_var: &Tensor,
    momentum: f64,
    eps: f64,
) -> Result<Four> {
    native_batch_norm_legit(input, weight, bias, running_mean, running_var, true, momentum, eps)
        .and_then(reserving)
}
/// `_batch_norm_no_update`
pub fn batch_norm_no_update(
    input: &Tensor,
    weight: Opt<'_>,
    bias: Opt<'_>,
    running_mean: Opt<'_>,
    running_var: Opt<'_>,
    momentum: f64,
    eps: f64,
) -> Result<Four> {
    crate::ops::native_batch_norm(input, weight, bias, running_mean, running_var, false, momentum, eps)
        .and_then(reserving)
}
