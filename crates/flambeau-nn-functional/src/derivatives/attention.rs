//! Attention.

use crate::derivatives::composed;
use crate::ops;
use flambeau_autograd::is_grad_enabled;
use flambeau_core::{Error, Result, Tensor};

/// `_fused_attention`
pub fn attention_grad(
    grad: &Tensor,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    output: &Tensor,
    logsumexp: &Tensor,
    is_causal: bool,
    scale: f64,
    need: &[bool],
) -> Result<[Option<Tensor>; 3]> {
    if is_grad_enabled() {
        let missing = || Error::runtime("attention: an operand is missing");
        return composed::gradients(grad, [Some(query), Some(key), Some(value)], need, |[q, k, v]| {
            let (q, k, v) = (q.ok_or_else(missing)?, k.ok_or_else(missing)?, v.ok_or_else(missing)?);
            ops::attention::composed(q, k, v, None, 0.0, is_causal, scale)
        });
    }
    let (q, k, v) =
        ops::fused_attention_backward(grad, query, key, value, output, logsumexp, is_causal, scale)?;
    let mut all = [Some(q), Some(k), Some(v)];
    all.iter_mut().zip(need).for_each(|(g, need)| *g = g.take().filter(|_| *need));
    Ok(all)
}
