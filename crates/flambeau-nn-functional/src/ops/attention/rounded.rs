//! Attention of halves, rounded where PyTorch's CPU kernel rounds: keys come in blocks, the weights of a block are
//! relative to the greatest score so far, and they are rounded to the halves before they are multiplied with the values.
//! Written with operators, for batches that broadcast: `_fused_attention` serves the others.

use crate::ops::attention::{added, causal_mask};
use crate::ops::operands::{cast, number, wide};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::{self, fmt_sizes};
use flambeau_core::{DType, Result, Scalar, Tensor, ensure, ops as core};

/// Keys that are worked on at a time: PyTorch's number, since it decides what the weights are relative to.
const BLOCK: i64 = 512;

/// The operands in float32, without their gradients.
struct Operands {
    query: Tensor,
    key: Tensor,
    value: Tensor,
    /// What is added to the scores.
    mask: Option<Tensor>,
    /// What the scores are rounded to.
    dtype: DType,
    scale: f64,
}
/// Keys of a block with all that belongs to them.
struct Block {
    key: Tensor,
    value: Tensor,
    mask: Option<Tensor>,
}
impl Operands {
    fn new(
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        attn_mask: Option<&Tensor>,
        is_causal: bool,
        scale: f64,
    ) -> Result<Self> {
        let up = |t: &Tensor| cast(&t.alias_detached(), wide(t.dtype()));
        let (l, s) = (query.sizes()[query.dim() - 2], key.sizes()[key.dim() - 2]);
        let causal = is_causal.then(|| causal_mask(l, s, query.device())).transpose()?;
        let mask = causal.as_ref().or(attn_mask).map(|m| added(m, wide(query.dtype()))).transpose()?;
        let (q, k, v) = (up(query)?, up(key)?, up(value)?);
        Ok(Operands { query: q, key: k, value: v, mask, dtype: query.dtype(), scale })
    }
    fn blocks(&self) -> Result<Vec<Block>> {
        let s = self.key.sizes()[self.key.dim() - 2];
        let part = |start: i64| {
            let n = BLOCK.min(s - start);
            let mask = self.mask.as_ref().map(|m| match m.sizes().last() {
                // one column for all keys
                Some(1) => Ok(m.clone()),
                _ => core::narrow(m, -1, start, n),
            });
            Ok(Block {
                key: core::narrow(&self.key, -2, start, n)?,
                value: core::narrow(&self.value, -2, start, n)?,
                mask: mask.transpose()?,
            })
        };
        (0..s).step_by(BLOCK as usize).map(part).collect()
    }
    fn scores(&self, b: &Block) -> Result<Tensor> {
        let scores = core::matmul(&self.query, &core::transpose(&b.key, -2, -1)?)?;
        let scores = core::mul(&scores, &number(self.scale)?)?;
        match &b.mask {
            Some(m) => core::add(&scores, m, Scalar::Int(1)),
            None => Ok(scores),
        }
    }
    fn rounded(&self, t: &Tensor) -> Result<Tensor> {
        cast(&cast(t, self.dtype)?, t.dtype())
    }
}
/// `t`, and 0 where it is minus infinity.
fn or_zero(t: &Tensor) -> Result<Tensor> {
    core::masked_fill(t, &core::eq(t, &number(f64::NEG_INFINITY)?)?, Scalar::Int(0))
}

/// Sizes of the sums of rows, to which the width of the values comes for the result.
fn sizes(query: &Tensor, key: &Tensor, value: &Tensor) -> Result<Vec<i64>> {
    let (q, k, v) = (query.sizes(), key.sizes(), value.sizes());
    let n = q.len();
    ensure!(
        n >= 2 && k.len() == n && v.len() == n && q[n - 1] == k[n - 1] && k[n - 2] == v[n - 2],
        Shape,
        "_rounded_attention: sizes {}, {} and {} do not fit",
        fmt_sizes(q),
        fmt_sizes(k),
        fmt_sizes(v)
    );
    let mut sizes = geometry::broadcast_shapes(&q[..n - 2], &k[..n - 2])?.to_vec();
    sizes.push(q[n - 2]);
    Ok(sizes)
}
/// `_rounded_attention`
pub fn rounded_attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_mask: Option<&Tensor>,
    is_causal: bool,
    scale: f64,
) -> Result<(Tensor, Tensor)> {
    let mut sizes = sizes(query, key, value)?;
    let o = Operands::new(query, key, value, attn_mask, is_causal, scale)?;
    // greatest score, sum of weights and weighted values so far
    let mut state: Option<[Tensor; 3]> = None;
    for b in o.blocks()? {
        let scores = o.scores(&b)?;
        let top = core::amax(&scores, &[-1], true)?;
        let top = match &state {
            Some([before, ..]) => core::maximum(before, &top)?,
            None => top,
        };
        // a row that has seen no key yet weighs nothing
        let p = core::exp(&core::sub(&scores, &or_zero(&top)?, Scalar::Int(1))?)?;
        let mut sum = core::sum(&p, Some(&[-1]), true, None)?;
        let mut values = core::matmul(&o.rounded(&p)?, &b.value)?;
        if let Some([before, s, y]) = &state {
            let fade = core::exp(&core::sub(before, &or_zero(&top)?, Scalar::Int(1))?)?;
            sum = core::add(&sum, &core::mul(s, &fade)?, Scalar::Int(1))?;
            values = core::add(&values, &core::mul(y, &fade)?, Scalar::Int(1))?;
        }
        state = Some([top, sum, values]);
    }
    let Some([top, sum, values]) = state else {
        let sums = Tensor::zeros_raw(&sizes, wide(query.dtype()), query.device())?;
        sizes.push(value.sizes()[value.dim() - 1]);
        return Ok((Tensor::zeros_raw(&sizes, query.dtype(), query.device())?, sums));
    };
    let empty = core::eq(&sum, &number(0)?)?;
    let out = core::masked_fill(&core::div(&values, &sum)?, &empty, Scalar::Int(0))?;
    let sums = core::add(&or_zero(&top)?, &core::log(&sum)?, Scalar::Int(1))?;
    let sums = core::masked_fill(&sums, &empty, Scalar::Int(0))?;
    Ok((cast(&out, query.dtype())?, core::squeeze_dim(&sums, -1)?))
}

/// The gradients for query, key and value.
pub(crate) fn backward(
    grad: &Tensor,
    [query, key, value]: [&Tensor; 3],
    attn_mask: Option<&Tensor>,
    [output, logsumexp]: [&Tensor; 2],
    is_causal: bool,
    scale: f64,
) -> Result<[Tensor; 3]> {
    let o = Operands::new(query, key, value, attn_mask, is_causal, scale)?;
    let w = wide(query.dtype());
    let (grad, output) = (cast(&grad.alias_detached(), w)?, cast(&output.alias_detached(), w)?);
    let dot = core::sum(&core::mul(&grad, &output)?, Some(&[-1]), true, None)?;
    let sums = core::unsqueeze(&logsumexp.alias_detached(), -1)?;
    let (mut for_query, mut for_keys, mut for_values) = (None, Vec::new(), Vec::new());
    for b in o.blocks()? {
        let p = core::exp(&core::sub(&o.scores(&b)?, &sums, Scalar::Int(1))?)?;
        for_values.push(core::matmul(&core::transpose(&o.rounded(&p)?, -2, -1)?, &grad)?);
        let slope = core::matmul(&grad, &core::transpose(&b.value, -2, -1)?)?;
        let slope = core::mul(&p, &core::sub(&slope, &dot, Scalar::Int(1))?)?;
        let slope = core::mul(&o.rounded(&slope)?, &number(scale)?)?;
        let q = core::matmul(&slope, &b.key)?;
        for_query = Some(match for_query {
            Some(before) => core::add(&before, &q, Scalar::Int(1))?,
            None => q,
        });
        for_keys.push(core::matmul(&core::transpose(&slope, -2, -1)?, &o.query)?);
    }
    let finish = |t: &Tensor, like: &Tensor| cast(&core::sum_to_size(t, like.sizes())?, like.dtype());
    let zeros = |like: &Tensor| core::zeros_like(like, None, None, None, None, None);
    Ok([
        for_query.map_or_else(|| zeros(query), |t| finish(&t, query))?,
        if for_keys.is_empty() { zeros(key)? } else { finish(&core::cat(&for_keys, -2)?, key)? },
        if for_values.is_empty() { zeros(value)? } else { finish(&core::cat(&for_values, -2)?, value)? },
    ])
}
