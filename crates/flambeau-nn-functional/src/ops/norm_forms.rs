//! `native_batch_norm` under its other names.

use flambeau_core::{DType, Result, Tensor};

type Opt<'a> = Option<&'a Tensor>;
type Three = (Tensor, Tensor, Tensor);
type Four = (Tensor, Tensor, Tensor, Tensor);

fn reserving((y, mean, invstd): Three) -> Result<Four> {
    let reserve = Tensor::empty_raw(&[0], DType::U8, y.device())?;
    Ok((y, mean, invstd, reserve))
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
