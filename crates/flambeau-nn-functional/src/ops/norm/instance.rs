//! Instance norm: batch norm of every sample's own channels.

use super::check_channels;
use super::forms::both_or_none;
use crate::ops::operands::{number, torch_size};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Result, Tensor, ensure, ops as core_ops};

/// `torch.nn.functional.instance_norm`
pub fn instance_norm(
    input: &Tensor,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    use_input_stats: bool,
    momentum: f64,
    eps: f64,
) -> Result<Tensor> {
    if use_input_stats {
        ensure!(
            input.sizes().iter().skip(2).product::<i64>() != 1,
            Value,
            "Expected more than 1 spatial element when training, got input size {}",
            torch_size(input.sizes())
        );
    }
    instance_norm_torch(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, true)
}
/// `torch.instance_norm`
pub fn instance_norm_torch(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    use_input_stats: bool,
    momentum: f64,
    eps: f64,
    _cudnn_enabled: bool,
) -> Result<Tensor> {
    ensure!(
        use_input_stats || (running_mean.is_some() && running_var.is_some()),
        Runtime,
        "Expected running_mean and running_var to be defined when use_input_stats is false"
    );
    let all =
        [(running_mean, "running_mean"), (running_var, "running_var"), (weight, "weight"), (bias, "bias")];
    ensure!(
        all.iter().all(|(t, _)| t.is_none_or(|t| t.dim() <= 1)),
        Runtime,
        "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
    );
    if input.numel() > 0 {
        both_or_none(running_mean, running_var)?;
    }
    let c = check_channels(input, &all)?;
    let n = input.sizes()[0];
    // every sample's channels are channels of one sample, so that the batch's statistics are the instances'
    let mut sizes = input.sizes().to_vec();
    (sizes[0], sizes[1]) = (1, n * c);
    let x = core_ops::reshape(input, &sizes)?;
    let repeat = |t: Option<&Tensor>| -> Result<Option<Tensor>> {
        t.map(|t| core_ops::reshape(&core_ops::expand(t, &[n, c], false)?, &[n * c])).transpose()
    };
    // the moved statistics are copies: the given ones get their mean over the batch
    let own = |t: Option<&Tensor>| -> Result<Option<Tensor>> {
        repeat(t)?.map(|t| core_ops::clone(&t.alias_detached(), None)).transpose()
    };
    let (w, b) = (repeat(weight)?, repeat(bias)?);
    let (rm, rv) = (own(running_mean)?, own(running_var)?);
    let (w, b, mean, var) = (w.as_ref(), b.as_ref(), rm.as_ref(), rv.as_ref());
    let y = if input.numel() == 0 {
        super::local_response::unnormalised(&x, w, b)?
    } else {
        super::forms::normalised(&x, w, b, mean, var, use_input_stats, momentum, eps)?.0
    };
    // of no sample the mean is NaN, as in PyTorch
    if use_input_stats {
        for (given, moved) in [(running_mean, &rm), (running_var, &rv)] {
            if let (Some(given), Some(moved)) = (given, moved) {
                let sum = core_ops::sum(&core_ops::view(moved, &[n, c])?, Some(&[0]), false, None)?;
                let mean = core_ops::div(&sum, &number(n)?)?;
                flambeau_autograd::no_grad(|| core_ops::copy_(given, &mean, false))?;
            }
        }
    }
    core_ops::reshape(&y, input.sizes())
}
