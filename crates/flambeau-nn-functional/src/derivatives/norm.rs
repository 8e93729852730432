//! Normalisation: fused gradients, and for gradients of gradients the same by differentiable operators.

use crate::derivatives::composed;
use crate::ops;
use flambeau_autograd::node::is_recording;
use flambeau_core::{Result, Tensor};

/// The wanted ones of the fused operator's answers.
fn pick<const N: usize>(all: Vec<Tensor>, need: &[bool], given: [bool; N]) -> [Option<Tensor>; N] {
    let mut all = all.into_iter();
    let mut i = 0;
    [(); N].map(|()| {
        let g = all.next().filter(|_| need[i] && given[i]);
        i += 1;
        g
    })
}
fn mask<const N: usize>(need: &[bool], given: [bool; N]) -> [bool; N] {
    let mut m = given;
    (0..N).for_each(|i| m[i] &= need[i]);
    m
}

/// `native_batch_norm`
pub fn batch_norm_grad(
    grad: &Tensor,
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    save_mean: &Tensor,
    save_invstd: &Tensor,
    training: bool,
    eps: f64,
    need: &[bool],
) -> Result<[Option<Tensor>; 3]> {
    if is_recording() {
        return composed::gradients(grad, [Some(input), weight, bias], need, |[x, w, b]| {
            composed::batch_norm(x, w, b, running_mean, running_var, training, eps)
        });
    }
    let given = [true, weight.is_some(), bias.is_some()];
    let all = ops::native_batch_norm_backward(
        grad,
        input,
        weight,
        running_mean,
        running_var,
        Some(save_mean),
        Some(save_invstd),
        training,
        eps,
        &mask(need, given),
    )?;
    Ok(pick(all, need, given))
}
/// `native_layer_norm`
pub fn layer_norm_grad(
    grad: &Tensor,
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    mean: &Tensor,
    rstd: &Tensor,
    eps: f64,
    need: &[bool],
) -> Result<[Option<Tensor>; 3]> {
    if is_recording() {
        return composed::gradients(grad, [Some(input), weight, bias], need, |[x, w, b]| {
            composed::layer_norm(x, w, b, normalized_shape, eps)
        });
    }
    let given = [true, weight.is_some(), bias.is_some()];
    let all = ops::native_layer_norm_backward(
        grad,
        input,
        normalized_shape,
        mean,
        rstd,
        weight,
        bias,
        &mask(need, given),
    )?;
    Ok(pick(all, need, given))
}
/// `_fused_rms_norm`
pub fn rms_norm_grad(
    grad: &Tensor,
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    rstd: &Tensor,
    eps: f64,
    need: &[bool],
) -> Result<[Option<Tensor>; 2]> {
    if is_recording() {
        return composed::gradients(grad, [Some(input), weight], need, |[x, w]| {
            composed::rms_norm(x, w, normalized_shape, eps)
        });
    }
    let given = [true, weight.is_some()];
    let all = ops::fused_rms_norm_backward(grad, input, normalized_shape, rstd, weight, &mask(need, given))?;
    Ok(pick(all, need, given))
}
/// `native_group_norm`
pub fn group_norm_grad(
    grad: &Tensor,
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    mean: &Tensor,
    rstd: &Tensor,
    n: i64,
    c: i64,
    hxw: i64,
    group: i64,
    eps: f64,
    need: &[bool],
) -> Result<[Option<Tensor>; 3]> {
    if is_recording() {
        return composed::gradients(grad, [Some(input), weight, bias], need, |[x, w, b]| {
            composed::group_norm(x, w, b, [n, c, hxw], group, eps)
        });
    }
    let given = [true, weight.is_some(), bias.is_some()];
    let all = ops::native_group_norm_backward(
        grad,
        input,
        mean,
        rstd,
        weight,
        n,
        c,
        hxw,
        group,
        &mask(need, given),
    )?;
    Ok(pick(all, need, given))
}
