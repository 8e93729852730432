//! Fused operators written out with differentiable ones. Their gradients serve where a gradient is itself to be
//! differentiated.

use crate::ops;
use flambeau_autograd::functional::vjp;
use flambeau_autograd::shorthand::{
    add, add_scalar, div_scalar, eq, masked_not, mul, mul_scalar, neg, number, reshape, sub, sum_all,
    sum_dims,
};
use flambeau_core::{Error, Result, Tensor, ops as core};

/// Gradients of `f` at the given inputs, differentiable in turn; `None` for absent and unwanted ones.
pub fn gradients<const N: usize>(
    grad: &Tensor,
    inputs: [Option<&Tensor>; N],
    need: &[bool],
    f: impl Fn([Option<&Tensor>; N]) -> Result<Tensor>,
) -> Result<[Option<Tensor>; N]> {
    gradients_with(grad, inputs, need, true, f)
}
/// The same, differentiable in turn only where it is asked for.
pub fn gradients_with<const N: usize>(
    grad: &Tensor,
    inputs: [Option<&Tensor>; N],
    need: &[bool],
    create_graph: bool,
    f: impl Fn([Option<&Tensor>; N]) -> Result<Tensor>,
) -> Result<[Option<Tensor>; N]> {
    let wanted: Vec<usize> = (0..N).filter(|i| need[*i] && inputs[*i].is_some()).collect();
    let leaves: Vec<Tensor> = wanted.iter().filter_map(|i| inputs[*i].cloned()).collect();
    let run = |args: &[Tensor]| -> Result<Vec<Tensor>> {
        let mut all = inputs;
        for (k, i) in wanted.iter().enumerate() {
            all[*i] = args.get(k);
        }
        Ok(vec![f(all)?])
    };
    let (_, grads) = vjp(&run, &leaves, Some(std::slice::from_ref(grad)), create_graph)?;
    let mut out = [const { None }; N];
    for (i, g) in wanted.into_iter().zip(grads) {
        out[i] = Some(g);
    }
    Ok(out)
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
fn missing() -> Error {
    Error::runtime("normalisation: the input or its statistics are missing")
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

/// Cross-entropy with class indices.
pub fn cross_entropy(
    x: Option<&Tensor>,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    smoothing: f64,
) -> Result<Tensor> {
    let x = x.ok_or_else(missing)?;
    let dim = usize::from(x.dim() > 1);
    let logp = core::log_softmax(x, dim as i64, None)?;
    let (nll, total) = ops::fused_nll_loss(&logp, target, weight, reduction, ignore_index)?;
    if smoothing == 0.0 {
        return Ok(nll);
    }
    // the smoothed part spreads over all classes; ignored targets count for nothing
    let c = x.sizes()[dim];
    let mut shape = vec![1; x.dim()];
    shape[dim] = c;
    let spread = match weight {
        Some(w) => mul(&logp, &reshape(w, &shape)?)?,
        None => logp,
    };
    let each = neg(&sum_dims(&spread, &[dim as i64], false)?)?;
    let each = masked_not(&eq(target, &number(ignore_index)?)?, &each)?;
    let each = match reduction {
        crate::ops::loss::NONE => each,
        crate::ops::loss::SUM => sum_all(&each)?,
        _ => div_scalar(&sum_all(&each)?, total.try_item::<f64>()?)?,
    };
    add(&mul_scalar(&nll, 1.0 - smoothing)?, &mul_scalar(&each, smoothing / c as f64)?)
}
