//! Attention.

use crate::derivatives::unfused;
use crate::ops;
use flambeau_autograd::is_differentiated;
use flambeau_core::{Error, Result, Tensor};

/// `_fused_attention`
pub fn attention_grad(
    grad: &Tensor,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_mask: Option<&Tensor>,
    output: &Tensor,
    logsumexp: &Tensor,
    is_causal: bool,
    scale: f64,
    dropout_p: f64,
    states: Option<&Tensor>,
    need: &[bool],
) -> Result<[Option<Tensor>; 3]> {
    if is_differentiated() {
        let drop = |p: Tensor| match states {
            Some(states) => ops::attention::dropout::dropped(&p, states, dropout_p),
            None => Ok(p),
        };
        return written_out(grad, [query, key, value], attn_mask, &drop, is_causal, scale, need);
    }
    let (q, k, v) = ops::fused_attention_backward(
        grad, query, key, value, output, logsumexp, attn_mask, is_causal, scale, dropout_p, states,
    )?;
    let mut all = [Some(q), Some(k), Some(v)];
    all.iter_mut().zip(need).for_each(|(g, need)| *g = g.take().filter(|_| *need));
    Ok(all)
}

/// `_rounded_attention`
pub fn rounded_attention_grad(
    grad: &Tensor,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_mask: Option<&Tensor>,
    output: &Tensor,
    logsumexp: &Tensor,
    is_causal: bool,
    scale: f64,
    need: &[bool],
) -> Result<[Option<Tensor>; 3]> {
    if is_differentiated() {
        return written_out(grad, [query, key, value], attn_mask, &Ok, is_causal, scale, need);
    }
    let all = [query, key, value];
    let grads =
        ops::attention::rounded::backward(grad, all, attn_mask, [output, logsumexp], is_causal, scale)?;
    let mut grads = grads.map(Some);
    grads.iter_mut().zip(need).for_each(|(g, need)| *g = g.take().filter(|_| *need));
    Ok(grads)
}

/// Gradients that differentiate again.
fn written_out(
    grad: &Tensor,
    all: [&Tensor; 3],
    attn_mask: Option<&Tensor>,
    drop: &dyn Fn(Tensor) -> Result<Tensor>,
    is_causal: bool,
    scale: f64,
    need: &[bool],
) -> Result<[Option<Tensor>; 3]> {
    let missing = || Error::runtime("attention: an operand is missing");
    unfused::gradients(grad, all.map(Some), need, |[q, k, v]| {
        let (q, k, v) = (q.ok_or_else(missing)?, k.ok_or_else(missing)?, v.ok_or_else(missing)?);
        ops::attention::composed(q, k, v, attn_mask, drop, is_causal, scale)
    })
}
