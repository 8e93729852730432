//! `native_batch_norm`, its two halves, and its other names.

use crate::ops::operands::torch_size;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::text::PyText;
use flambeau_core::{DType, Result, Tensor, bail, ensure};

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
        ensure!(
            input.numel() != 0,
            Runtime,
            "input tensor must have at least one element, but got input_sizes = {}",
            fmt_sizes(input.sizes())
        );
    }
    for (t, name) in [(running_mean, "running_mean"), (running_var, "running_var")] {
        ensure!(training || t.is_some(), Value, "{name} must be defined in evaluation mode");
    }
    for t in [running_mean, running_var].into_iter().flatten() {
        ensure!(t.dim() == 1, Runtime, "TensorAccessor expected 1 dims but tensor has {}", t.dim());
    }
    normalised(input, weight, bias, running_mean, running_var, training, momentum, eps)
}
pub(super) fn normalised(
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
/// Parameters are of the input's dtype, or all float32 where that is a half.
pub(super) fn check_mixed(input: &Tensor, parameters: &[Option<&Tensor>]) -> Result<()> {
    let given = || parameters.iter().copied().flatten();
    let x = input.dtype();
    if given().next().is_some_and(|p| p.dtype() != x) {
        ensure!(
            given().all(|p| p.dtype() == DType::F32),
            Runtime,
            "mixed dtype (CPU): expect parameter to have scalar type of Float"
        );
        ensure!(
            crate::ops::operands::wide(x) != x,
            Runtime,
            "mixed dtype (CPU): all inputs must share same datatype."
        );
    }
    Ok(())
}
/// Parameters of one dtype: what the kernel sees after [`check_mixed`].
pub(super) fn check_alike(input: &Tensor, parameters: &[Option<&Tensor>]) -> Result<()> {
    let mut given = parameters.iter().copied().flatten();
    let Some(first) = given.next().map(Tensor::dtype) else { return Ok(()) };
    if let (Some(other), true) = (given.find(|p| p.dtype() != first), input.dtype() == first) {
        bail!(
            Runtime,
            "expected scalar type {} but found {}",
            first.scalar_type_name(),
            other.dtype().scalar_type_name()
        );
    }
    Ok(())
}
/// Running statistics come in pairs.
pub(super) fn both_or_none(running_mean: Opt<'_>, running_var: Opt<'_>) -> Result<()> {
    ensure!(
        running_mean.is_some() == running_var.is_some(),
        Value,
        "running_mean and running_var must either both be None or neither be None"
    );
    Ok(())
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
/// `torch.nn.functional.batch_norm`
pub fn batch_norm(
    input: &Tensor,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<Tensor> {
    if training {
        let s = input.sizes();
        ensure!(!s.is_empty(), Index, "tuple index out of range");
        ensure!(
            s[0] * s[2.min(s.len())..].iter().product::<i64>() != 1,
            Value,
            "Expected more than 1 value per channel when training, got input size {}",
            torch_size(s)
        );
    }
    ensure!(
        !(training && eps <= 0.0),
        Value,
        "batch_norm eps must be positive during training, but got {}",
        eps.py_text()
    );
    ensure!(!(eps < 0.0), Value, "batch_norm eps must be non-negative, but got {}", eps.py_text());
    batch_norm_torch(input, weight, bias, running_mean, running_var, training, momentum, eps, true)
}
/// A tensor without channels has none, which PyTorch says of the first parameter that is given.
fn check_features(input: &Tensor, given: [Opt<'_>; 4], training: bool) -> Result<()> {
    if input.dim() > 1 {
        return Ok(());
    }
    for (t, name) in given.into_iter().zip(["running_mean", "running_var", "weight", "bias"]) {
        if let Some(t) = t {
            ensure!(t.numel() == 0, Runtime, "{name} should contain 0 elements not {}", t.numel());
        } else if name.starts_with("running") {
            ensure!(training, Runtime, "{name} must be defined in evaluation mode");
        }
    }
    Ok(())
}
/// `torch.batch_norm`
pub fn batch_norm_torch(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    training: bool,
    momentum: f64,
    eps: f64,
    _cudnn_enabled: bool,
) -> Result<Tensor> {
    if input.numel() == 0 {
        return super::local_response::unnormalised(input, weight, bias);
    }
    check_features(input, [running_mean, running_var, weight, bias], training)?;
    normalised(input, weight, bias, running_mean, running_var, training, momentum, eps).map(|r| r.0)
}
