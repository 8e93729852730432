//! Normalisation: fused gradients, and for gradients of gradients the same by differentiable operators.

use crate::derivatives::unfused::gradients;
use crate::ops;
use flambeau_autograd::is_differentiated;
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
    if is_differentiated() {
        return gradients(grad, [Some(input), weight, bias], need, |[x, w, b]| {
            written_out::batch_norm(x, w, b, running_mean, running_var, training, eps)
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
    if is_differentiated() {
        return gradients(grad, [Some(input), weight, bias], need, |[x, w, b]| {
            written_out::layer_norm(x, w, b, normalized_shape, eps)
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
    if is_differentiated() {
        return gradients(grad, [Some(input), weight], need, |[x, w]| {
            written_out::rms_norm(x, w, normalized_shape, eps)
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
    if is_differentiated() {
        return gradients(grad, [Some(input), weight, bias], need, |[x, w, b]| {
            written_out::group_norm(x, w, b, [n, c, hxw], group, eps)
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

/// The same by differentiable operators.
mod written_out {
    use flambeau_autograd::shorthand::{add, add_scalar, div_scalar, mul, reshape, sub, sum_dims};
    use flambeau_core::{Error, Result, Tensor, ops as core};

    fn missing() -> Error {
        Error::runtime("normalisation: the input or its statistics are missing")
    }

    fn mean(x: &Tensor, dims: &[i64]) -> Result<Tensor> {
        let n: i64 = dims.iter().map(|d| x.sizes()[*d as usize]).product();
        div_scalar(&sum_dims(x, dims, true)?, n)
    }
    /// `(x - mean) / sqrt(var + eps)` over `dims`.
    fn standard(x: &Tensor, dims: &[i64], eps: f64) -> Result<Tensor> {
        let d = sub(x, &mean(x, dims)?)?;
        let var = mean(&mul(&d, &d)?, dims)?;
        mul(&d, &core::rsqrt(&add_scalar(&var, eps)?)?)
    }
    fn affine(y: Tensor, w: Option<&Tensor>, b: Option<&Tensor>, shape: Option<&[i64]>) -> Result<Tensor> {
        let fit = |t: &Tensor| shape.map_or_else(|| Ok(t.clone()), |s| reshape(t, s));
        let y = match w {
            Some(w) => mul(&y, &fit(w)?)?,
            None => y,
        };
        match b {
            Some(b) => add(&y, &fit(b)?),
            None => Ok(y),
        }
    }
    /// `batch_norm`
    pub fn batch_norm(
        x: Option<&Tensor>,
        w: Option<&Tensor>,
        b: Option<&Tensor>,
        running_mean: Option<&Tensor>,
        running_var: Option<&Tensor>,
        training: bool,
        eps: f64,
    ) -> Result<Tensor> {
        let x = x.ok_or_else(missing)?;
        let mut shape = vec![1; x.dim()];
        shape[1] = x.sizes()[1];
        let y = if training {
            let dims: Vec<i64> = (0..x.dim() as i64).filter(|d| *d != 1).collect();
            standard(x, &dims, eps)?
        } else {
            let (m, v) = (running_mean.ok_or_else(missing)?, running_var.ok_or_else(missing)?);
            let d = sub(x, &reshape(m, &shape)?)?;
            mul(&d, &core::rsqrt(&add_scalar(&reshape(v, &shape)?, eps)?)?)?
        };
        affine(y, w, b, Some(&shape))
    }
    fn last_dims(x: &Tensor, n: usize) -> Vec<i64> {
        (x.dim() - n..x.dim()).map(|d| d as i64).collect()
    }
    /// `layer_norm`
    pub fn layer_norm(
        x: Option<&Tensor>,
        w: Option<&Tensor>,
        b: Option<&Tensor>,
        normalized: &[i64],
        eps: f64,
    ) -> Result<Tensor> {
        let x = x.ok_or_else(missing)?;
        affine(standard(x, &last_dims(x, normalized.len()), eps)?, w, b, None)
    }
    /// `rms_norm`
    pub fn rms_norm(x: Option<&Tensor>, w: Option<&Tensor>, normalized: &[i64], eps: f64) -> Result<Tensor> {
        let x = x.ok_or_else(missing)?;
        let square = mean(&mul(x, x)?, &last_dims(x, normalized.len()))?;
        affine(mul(x, &core::rsqrt(&add_scalar(&square, eps)?)?)?, w, None, None)
    }
    /// `group_norm`
    pub fn group_norm(
        x: Option<&Tensor>,
        w: Option<&Tensor>,
        b: Option<&Tensor>,
        [n, c, l]: [i64; 3],
        group: i64,
        eps: f64,
    ) -> Result<Tensor> {
        let x = x.ok_or_else(missing)?;
        let y = standard(&reshape(x, &[n, group, c / group * l])?, &[2], eps)?;
        let y = affine(reshape(&y, &[n, c, l])?, w, b, Some(&[1, c, 1]))?;
        reshape(&y, x.sizes())
    }
}
