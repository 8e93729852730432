//! Attention whose scores and masks closures compute (`torch.nn.attention.flex_attention`).
//!
//! The closures get all pairs at once instead of one at a time: a batch index `(B, 1, 1, 1)`, a head `(1, H, 1, 1)`, a
//! query position `(1, 1, L, 1)` and a key position `(1, 1, 1, S)`, as int64 tensors that broadcast, and scores
//! `(B, H, L, S)`. What is written for one pair works for all: `q.ge(kv)`, `score + bias.i((h, q, kv))`.
//!
//! ```
//! use torch::Tensor;
//! use torch::nn::attention::flex_attention::*;
//!
//! let (q, k, v) = (torch::randn([1, 2, 8, 4]), torch::randn([1, 2, 8, 4]), torch::randn([1, 2, 8, 4]));
//! let causal = |_b: &Tensor, _h: &Tensor, q: &Tensor, kv: &Tensor| q.ge(kv);
//! let mask = create_block_mask_with(causal, None, None, 8, 8, BlockMaskOptions::new().block_size((4, 4)));
//! assert_eq!(mask.sparsity(), 25.0);
//! let options = FlexAttentionOptions::new().block_mask(&mask).score_mod(|s, _, _, q, kv| s - &(q - kv) * 0.5);
//! assert_eq!(flex_attention_with(&q, &k, &v, options).sizes(), [1, 2, 8, 4]);
//! ```

mod block_mask;

pub use block_mask::{
    BlockMask, BlockMaskOptions, create_block_mask, create_block_mask_with, create_mask,
    try_create_block_mask, try_create_mask,
};

use flambeau_core::api::ergonomic::{expect, wrapped_number};
use flambeau_core::{DType, Device, Result, Scalar, Tensor, ensure, ops};
use std::fmt;
use std::sync::Arc;

/// What a closure of scores or masks gives: a tensor, or a result with one, whose error is that of the attention.
///
/// ```
/// use torch::nn::attention::flex_attention::create_mask;
/// use torch::{Tensor, ops};
/// let causal = |_: &Tensor, _: &Tensor, q: &Tensor, kv: &Tensor| q.ge(kv);
/// let fallible = |_: &Tensor, _: &Tensor, q: &Tensor, kv: &Tensor| ops::ge(q, kv);
/// assert!(torch::equal(&create_mask(causal, None, None, 3, 3), &create_mask(fallible, None, None, 3, 3)));
/// ```
pub trait Computed {
    /// As a result.
    ///
    /// # Errors
    /// The closure's.
    fn computed(self) -> Result<Tensor>;
}
impl Computed for Tensor {
    fn computed(self) -> Result<Tensor> {
        Ok(self)
    }
}
impl Computed for Result<Tensor> {
    fn computed(self) -> Result<Tensor> {
        self
    }
}

/// Of batch, head, query and key positions: which pairs take part, as bool.
pub(crate) type MaskMod = Arc<dyn Fn(&Tensor, &Tensor, &Tensor, &Tensor) -> Result<Tensor> + Send + Sync>;
/// Of scores, batch, head, query and key positions: the scores that are used.
pub(crate) type ScoreMod =
    Arc<dyn Fn(&Tensor, &Tensor, &Tensor, &Tensor, &Tensor) -> Result<Tensor> + Send + Sync>;
fn mask_mod<R: Computed>(
    f: impl Fn(&Tensor, &Tensor, &Tensor, &Tensor) -> R + Send + Sync + 'static,
) -> MaskMod {
    Arc::new(move |n, h, q, kv| f(n, h, q, kv).computed())
}

fn every_pair(device: Device) -> Result<Tensor> {
    ops::ones(&[], Some(DType::Bool), None, Some(device), None)
}
/// The mask by which every pair takes part.
///
/// ```
/// use torch::nn::attention::flex_attention::{create_mask, noop_mask};
/// assert!(create_mask(noop_mask, None, None, 2, 3).all().item::<bool>());
/// ```
#[doc(alias = "torch.nn.attention.flex_attention.noop_mask")]
#[track_caller]
pub fn noop_mask(batch: &Tensor, _head: &Tensor, _token_q: &Tensor, _token_kv: &Tensor) -> Tensor {
    expect(every_pair(batch.device()))
}
/// Pairs that both masks let take part; nest it for more.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::attention::flex_attention::{and_masks, create_mask};
/// let causal = |_: &Tensor, _: &Tensor, q: &Tensor, kv: &Tensor| q.ge(kv);
/// let near = |_: &Tensor, _: &Tensor, q: &Tensor, kv: &Tensor| (q - kv).lt(2);
/// // each query sees itself and the one before
/// assert_eq!(create_mask(and_masks(causal, near), None, None, 4, 4).sum().item::<i64>(), 7);
/// ```
#[doc(alias = "torch.nn.attention.flex_attention.and_masks")]
pub fn and_masks<A: Computed, B: Computed>(
    a: impl Fn(&Tensor, &Tensor, &Tensor, &Tensor) -> A + Send + Sync + 'static,
    b: impl Fn(&Tensor, &Tensor, &Tensor, &Tensor) -> B + Send + Sync + 'static,
) -> impl Fn(&Tensor, &Tensor, &Tensor, &Tensor) -> Result<Tensor> + Send + Sync + 'static {
    move |n, h, q, kv| ops::bitwise_and(&a(n, h, q, kv).computed()?, &b(n, h, q, kv).computed()?)
}
/// Pairs that one of the masks lets take part; nest it for more.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::attention::flex_attention::{create_mask, or_masks};
/// let causal = |_: &Tensor, _: &Tensor, q: &Tensor, kv: &Tensor| q.ge(kv);
/// let prefix = |_: &Tensor, _: &Tensor, _: &Tensor, kv: &Tensor| kv.lt(2);
/// let mask = create_mask(or_masks(causal, prefix), None, None, 3, 3);
/// assert_eq!(mask.squeeze().to_vec2::<bool>(), [[true, true, false], [true, true, false], [true, true, true]]);
/// ```
#[doc(alias = "torch.nn.attention.flex_attention.or_masks")]
pub fn or_masks<A: Computed, B: Computed>(
    a: impl Fn(&Tensor, &Tensor, &Tensor, &Tensor) -> A + Send + Sync + 'static,
    b: impl Fn(&Tensor, &Tensor, &Tensor, &Tensor) -> B + Send + Sync + 'static,
) -> impl Fn(&Tensor, &Tensor, &Tensor, &Tensor) -> Result<Tensor> + Send + Sync + 'static {
    move |n, h, q, kv| ops::bitwise_or(&a(n, h, q, kv).computed()?, &b(n, h, q, kv).computed()?)
}

/// Which further results [`flex_attention_aux`] gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "torch.nn.attention.flex_attention.AuxRequest")]
pub struct AuxRequest {
    /// The logarithms of the sums of each query's exponentials, `(B, H, L)`.
    pub lse: bool,
    /// Each query's greatest score, `(B, H, L)`.
    pub max_scores: bool,
}
/// The further results that were asked for.
#[derive(Clone, Debug, Default)]
#[doc(alias = "torch.nn.attention.flex_attention.AuxOutput")]
pub struct AuxOutput {
    /// See [`AuxRequest::lse`]; minus infinity for a query that sees no key.
    pub lse: Option<Tensor>,
    /// See [`AuxRequest::max_scores`].
    pub max_scores: Option<Tensor>,
}

/// Options of [`flex_attention_with`].
#[derive(Clone, Default)]
pub struct FlexAttentionOptions {
    score_mod: Option<ScoreMod>,
    block_mask: Option<BlockMask>,
    scale: Option<f64>,
    enable_gqa: bool,
}
impl FlexAttentionOptions {
    /// The documented defaults.
    pub fn new() -> Self {
        Self::default()
    }
    /// Changes scores: of scores, batch, head, query and key positions.
    pub fn score_mod<R: Computed>(
        mut self,
        f: impl Fn(&Tensor, &Tensor, &Tensor, &Tensor, &Tensor) -> R + Send + Sync + 'static,
    ) -> Self {
        self.score_mod = Some(Arc::new(move |s, n, h, q, kv| f(s, n, h, q, kv).computed()));
        self
    }
    /// Which pairs take part.
    pub fn block_mask(mut self, mask: &BlockMask) -> Self {
        self.block_mask = Some(mask.clone());
        self
    }
    /// Factor of the scores, `1 / sqrt(E)` if it is not given.
    pub fn scale(mut self, scale: f64) -> Self {
        self.scale = Some(scale);
        self
    }
    /// Whether fewer heads of keys and values serve several of queries.
    pub fn enable_gqa(mut self, on: bool) -> Self {
        self.enable_gqa = on;
        self
    }
}
impl fmt::Debug for FlexAttentionOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlexAttentionOptions")
            .field("score_mod", &self.score_mod.as_ref().map(|_| "<function>"))
            .field("block_mask", &self.block_mask)
            .field("scale", &self.scale)
            .field("enable_gqa", &self.enable_gqa)
            .finish()
    }
}

/// Attention of query `(B, Hq, L, E)`, key `(B, Hkv, S, E)` and value `(B, Hkv, S, V)`: `(B, Hq, L, V)`.
#[track_caller]
#[doc(alias = "torch.nn.attention.flex_attention.flex_attention")]
pub fn flex_attention(query: &Tensor, key: &Tensor, value: &Tensor) -> Tensor {
    flex_attention_with(query, key, value, FlexAttentionOptions::new())
}
/// [`flex_attention`] with scores and masks from closures.
#[track_caller]
pub fn flex_attention_with(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    options: FlexAttentionOptions,
) -> Tensor {
    expect(try_flex_attention(query, key, value, options, AuxRequest::default())).0
}
/// [`flex_attention_with`] with further results: PyTorch's `return_lse` and `return_aux`.
///
/// ```
/// use torch::nn::attention::flex_attention::{AuxOutput, AuxRequest, FlexAttentionOptions, flex_attention_aux};
/// let x = torch::randn([1, 2, 4, 8]);
/// let request = AuxRequest { lse: true, max_scores: false };
/// let (out, aux): (_, AuxOutput) = flex_attention_aux(&x, &x, &x, FlexAttentionOptions::new(), request);
/// assert_eq!((out.sizes(), aux.lse.unwrap().sizes()), (&[1, 2, 4, 8][..], &[1, 2, 4][..]));
/// assert!(aux.max_scores.is_none());
/// ```
#[track_caller]
pub fn flex_attention_aux(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    options: FlexAttentionOptions,
    aux: AuxRequest,
) -> (Tensor, AuxOutput) {
    expect(try_flex_attention(query, key, value, options, aux))
}

fn check(query: &Tensor, key: &Tensor, value: &Tensor, o: &FlexAttentionOptions) -> Result<()> {
    let size = |t: &Tensor, d: i64| -> Result<i64> {
        Ok(t.sizes()[flambeau_core::tensor::geometry::wrap_dim(d, t.dim())?])
    };
    ensure!(
        query.dim() >= 2 && key.dim() >= 2 && value.dim() >= 2,
        Value,
        "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {}, key.dim: {} and value.dim: {} instead.",
        query.dim(),
        key.dim(),
        value.dim()
    );
    let (eq, ek) = (size(query, -1)?, size(key, -1)?);
    ensure!(
        eq == ek,
        Value,
        "Expect query and key/value to have the same embedding dimension but got E={eq} and E={ek}."
    );
    ensure!(
        query.dim() == 4 && key.dim() == 4 && value.dim() == 4,
        Unsupported,
        "NYI: query, key, and value must be 4D tensors"
    );
    let (hq, hkv) = (query.size(1), key.size(1));
    ensure!(
        o.enable_gqa || hq == hkv,
        Value,
        "Expect query and key/value to have the same number of heads but got Hq={hq} and Hkv={hkv}. Try setting enable_gqa=True for GQA."
    );
    ensure!(
        hkv > 0 && hq % hkv == 0,
        Value,
        "Expect number of query heads to be a multiple of kv heads for GQA but got Hq={hq} and Hkv={hkv}."
    );
    let (bq, bkv) = (query.size(0), key.size(0));
    if bq != bkv {
        let Some(m) = &o.block_mask else {
            flambeau_core::bail!(
                Value,
                "Expect query and key/value to have the same batch size, or non-none block_mask, but got block_mask=None, Bq={bq}, and Bkv={bkv}."
            );
        };
        let bm = m.kv_num_blocks.sizes().first().copied().unwrap_or(0);
        ensure!(
            bm == bq,
            Value,
            "Expect query and key/value to have the same batch size, or block_mask and query to have the same batch size, but got Bq={bq}, Bkv={bkv}, B_block_mask={bm}."
        );
        ensure!(bkv == 1, Runtime, "Bq and Bkv must broadcast. Got Bq={bq} and Bkv={bkv}");
    }
    if let Some(m) = &o.block_mask {
        m.check_lengths(query.size(2), key.size(2))?;
    }
    Ok(())
}

/// Attention with everything.
///
/// # Errors
/// Sizes that do not fit each other or the mask.
pub fn try_flex_attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    options: FlexAttentionOptions,
    aux: AuxRequest,
) -> Result<(Tensor, AuxOutput)> {
    check(query, key, value, &options)?;
    let (b, hq, l, s) = (query.size(0), query.size(1), query.size(2), key.size(2));
    let scale = options.scale.unwrap_or(1.0 / (query.size(3) as f64).sqrt());
    let working = if query.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let cast = |t: &Tensor, d: DType| if t.dtype() == d { Ok(t.clone()) } else { t.try_to(d) };
    let heads = |t: &Tensor| {
        let n = hq / t.size(1).max(1);
        if n == 1 { Ok(t.clone()) } else { ops::repeat_interleave_int(t, n, Some(1), None) }
    };
    let q = ops::mul(&cast(query, working)?, &wrapped_number(Scalar::Float(scale))?)?;
    let k = ops::transpose(&cast(&heads(key)?, working)?, -2, -1)?;
    let v = cast(&heads(value)?, query.dtype())?;
    let least = wrapped_number(Scalar::Float(f64::NEG_INFINITY))?;
    let device = query.device();
    let (batch, head) = (positions(0, b, 0, device)?, positions(0, hq, 1, device)?);

    // rows of blocks one after the other, over the keys that any of them sees
    let mut parts: [Vec<Tensor>; 3] = [Vec::new(), Vec::new(), Vec::new()];
    let strips = match &options.block_mask {
        Some(m) => m.strips()?,
        None => vec![block_mask::Strip { queries: (0, l), keys: (0, s) }],
    };
    for strip in strips {
        let ((q0, ln), (k0, sn)) = (strip.queries, strip.keys);
        let scores = ops::matmul(&ops::narrow(&q, 2, q0, ln)?, &ops::narrow(&k, 3, k0, sn)?)?;
        let (at_q, at_k) = (positions(q0, ln, 2, device)?, positions(k0, sn, 3, device)?);
        let mut scores = match &options.score_mod {
            Some(f) => cast(&f(&scores, &batch, &head, &at_q, &at_k)?, working)?,
            None => scores,
        };
        if let Some(m) = &options.block_mask {
            let seen = m.seen(&strip, &batch, &head, &at_q, &at_k)?;
            scores = ops::where_(&seen, &scores, &least)?;
        }
        scores = ops::expand(&scores, &[b, hq, ln, sn], false)?;
        let p = ops::safe_softmax(&scores, -1, None)?;
        parts[0].push(ops::matmul(&cast(&p, query.dtype())?, &ops::narrow(&v, 2, k0, sn)?)?);
        if aux.lse {
            parts[1].push(if sn == 0 {
                full(&[b, hq, ln], f64::NEG_INFINITY, working, device)?
            } else {
                ops::logsumexp(&scores, &[-1], false)?
            });
        }
        if aux.max_scores {
            parts[2].push(if sn == 0 {
                full(&[b, hq, ln], f64::NEG_INFINITY, working, device)?
            } else {
                ops::amax(&scores, &[-1], false)?
            });
        }
    }
    let joined = |l: &[Tensor]| match l {
        [one] => Ok(one.clone()),
        many => ops::cat(many, 2),
    };
    let out = if parts[0].is_empty() {
        full(&[b, hq, l, v.size(3)], 0.0, query.dtype(), device)?
    } else {
        joined(&parts[0])?
    };
    let extra = |on: bool, l: &[Tensor]| (on && !l.is_empty()).then(|| joined(l)).transpose();
    Ok((out, AuxOutput { lse: extra(aux.lse, &parts[1])?, max_scores: extra(aux.max_scores, &parts[2])? }))
}
fn full(sizes: &[i64], v: f64, dtype: DType, device: Device) -> Result<Tensor> {
    ops::full(sizes, Scalar::Float(v), Some(dtype), None, Some(device), None)
}
/// `start..start + n` along one of four dimensions.
pub(crate) fn positions(start: i64, n: i64, dim: usize, device: Device) -> Result<Tensor> {
    let all = ops::arange(Scalar::Int(start + n), Some(DType::I64), None, Some(device), None)?;
    let mut sizes = [1; 4];
    sizes[dim] = n;
    ops::view(&ops::narrow(&all, 0, start, n)?, &sizes)
}
