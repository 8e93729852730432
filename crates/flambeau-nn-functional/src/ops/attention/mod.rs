//! Attention.

pub mod backends;
pub(crate) mod dropout;
pub mod multi_head;
pub(crate) mod rounded;

use super::operands::{cast, cpp_type, done, number, plain, resolved, wide};
use crate::generated::args;
use crate::ops::attention::backends::SDPBackend;
use flambeau_autograd::forward_ad::{any_tangent, dual_active};
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::Access;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::{self, fmt_sizes};
use flambeau_core::{DType, Device, Error, Result, Scalar, Tensor, ensure, ops as core};
use flambeau_cpu::attention::erased as kernels;
use flambeau_cpu::attention::erased::HeadsAny;
use flambeau_cpu::attention::{AttentionShape, MAX_STEP};

/// Heads of keys and values, each repeated for its group of query heads.
fn repeated(t: &Tensor, heads: i64) -> Result<Tensor> {
    let s = t.sizes();
    let n = s.len();
    let own = s[n - 3];
    if own == heads || own == 0 {
        return Ok(t.clone());
    }
    let mut shape = s.to_vec();
    shape.insert(n - 2, heads / own);
    let wide = core::expand(&core::unsqueeze(t, -3)?, &shape, false)?;
    shape.remove(n - 2);
    shape[n - 3] = heads;
    core::reshape(&wide, &shape)
}

/// What PyTorch checks before it chooses an implementation.
fn check(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_mask: Option<&Tensor>,
    is_causal: bool,
) -> Result<()> {
    let name = |t: &Tensor| cpp_type(t.dtype());
    ensure!(
        query.dtype() == key.dtype() && query.dtype() == value.dtype(),
        Runtime,
        "Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: {} and value.dtype: {} instead.",
        name(query),
        name(key),
        name(value)
    );
    ensure!(
        query.dim() >= 2 && key.dim() >= 2 && value.dim() >= 2,
        Runtime,
        "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {} key.dim: {} and value.dim: {} instead.",
        query.dim(),
        key.dim(),
        value.dim()
    );
    if let Some(m) = attn_mask {
        ensure!(
            matches!(m.dtype(), DType::Bool | DType::F32) || m.dtype() == query.dtype(),
            Runtime,
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: {} and  query.dtype: {} instead.",
            name(m),
            name(query)
        );
        ensure!(
            !is_causal,
            Runtime,
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
        );
    }
    ensure!(
        query.dtype().is_floating() || query.is_complex(),
        Runtime,
        "expected scalar type Float but found {}",
        query.dtype().scalar_type_name()
    );
    Ok(())
}
/// Whether PyTorch's fused CPU kernel takes the call: it decides how halves are rounded, and what can run where the
/// other implementation is switched off.
fn flash_takes(all: [&Tensor; 3], mask: Option<&Tensor>, dropout_p: f64, gqa: bool) -> bool {
    let [q, k, v] = all.map(Tensor::sizes);
    let n = q.len();
    matches!(n, 3 | 4)
        && dropout_p <= 0.0
        && all[0].dtype().is_floating()
        && k.len() == n
        && v.len() == n
        && q[n - 1] == k[n - 1]
        && q[n - 1] == v[n - 1]
        && k[n - 2] == v[n - 2]
        && [k, v].iter().all(|s| s[0] == q[0] || (n == 3 && gqa))
        && [k, v].iter().all(|s| n == 3 || s[1] == q[1] || s[1] == 1 || gqa)
        && all.iter().all(|t| t.numel() > 0 && t.strides()[n - 1] == 1 && !t.is_conj() && !t.is_neg())
        && mask.is_none_or(|m| !m.requires_grad() && (m.dim() <= 2 || m.dim() == n))
}

/// `scaled_dot_product_attention`
pub fn scaled_dot_product_attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_mask: Option<&Tensor>,
    dropout_p: f64,
    is_causal: bool,
    scale: Option<f64>,
    enable_gqa: bool,
) -> Result<Tensor> {
    check(query, key, value, attn_mask, is_causal)?;
    let (mut k, mut v) = (key.clone(), value.clone());
    if enable_gqa {
        let heads = |t: &Tensor| geometry::wrap_dim(-3, t.dim()).map(|d| t.sizes()[d]);
        let wanted = heads(query)?;
        for t in [&k, &v] {
            let own = heads(t)?;
            ensure!(
                own > 0 && wanted % own == 0,
                Runtime,
                "Number of heads in key and value must divide the number of heads in query"
            );
        }
        (k, v) = (repeated(&k, wanted)?, repeated(&v, wanted)?);
    }
    let (flash, math) =
        (backends::is_enabled(SDPBackend::FlashAttention), backends::is_enabled(SDPBackend::Math));
    ensure!(
        flash || math,
        Runtime,
        "No viable backend for scaled_dot_product_attention was found. This is likely due to turning off both the math kernel and the fused kernels."
    );
    let as_flash = flash && flash_takes([query, key, value], attn_mask, dropout_p, enable_gqa);
    ensure!(as_flash || math, Runtime, "No available kernel.  Aborting execution.");
    if as_flash {
        ensure!(
            dropout_p == 0.0,
            Runtime,
            "scaled_dot_product_attention_flash_attention: Currently do not support dropout > 0"
        );
        if let Some(m) = attn_mask {
            geometry::wrap_dim(-2, m.dim())?;
        }
    }
    let scale = scale.unwrap_or(1.0 / (query.sizes()[query.dim() - 1] as f64).sqrt());
    let d = query.dtype();
    let tangents = || dual_active() && any_tangent(&[query, key, value]);
    // how the CPU's kernel rounds halves is its own; other devices' kernels take them as they are
    let own = query.device() != Device::Cpu && flash && fusable([query, &k, &v], attn_mask, dropout_p);
    if wide(d) != d && !own {
        if as_flash && fusable([query, &k, &v], attn_mask, dropout_p) {
            return fused([query, &k, &v], attn_mask, dropout_p, is_causal, scale);
        }
        if as_flash && !tangents() {
            return Ok(crate::ops::rounded_attention(query, &k, &v, attn_mask, is_causal, scale)?.0);
        }
        // halves are attended to in float32 and rounded once
        let up = |t: &Tensor| cast(t, wide(d));
        let mask = match attn_mask {
            Some(m) if m.dtype() != DType::Bool => Some(up(m)?),
            m => m.cloned(),
        };
        return cast(
            &unrounded([&up(query)?, &up(&k)?, &up(&v)?], mask.as_ref(), dropout_p, is_causal, scale, flash)?,
            d,
        );
    }
    unrounded([query, &k, &v], attn_mask, dropout_p, is_causal, scale, flash)
}
/// Attention in the operands' own dtype: by the kernel where it serves and may.
fn unrounded(
    [q, k, v]: [&Tensor; 3],
    mask: Option<&Tensor>,
    dropout_p: f64,
    is_causal: bool,
    scale: f64,
    flash: bool,
) -> Result<Tensor> {
    if flash && fusable([q, k, v], mask, dropout_p) {
        return fused([q, k, v], mask, dropout_p, is_causal, scale);
    }
    let drop = |p: Tensor| match dropout_p > 0.0 {
        true => super::dropout(&p, dropout_p, true, false),
        false => Ok(p),
    };
    composed(q, k, v, mask, &drop, is_causal, scale)
}

/// Whether the kernel serves: floats, the same batch on all sides, nothing empty, and no tangents, which the kernel does not carry.
/// Dropout is for other devices than the CPU; masks have no gradient and broadcast to the scores.
fn fusable(all: [&Tensor; 3], mask: Option<&Tensor>, dropout_p: f64) -> bool {
    let [q, k, v] = all.map(Tensor::sizes);
    let n = q.len();
    mask.is_none_or(|m| mask_fits(m, all))
        && (dropout_p == 0.0
            || (q.len() > 2 && dropout_p > 0.0 && dropout_p <= 1.0 && all[0].device() != Device::Cpu))
        && all[0].dtype().is_floating()
        && !all.iter().any(|t| t.is_conj() || t.is_neg())
        && k.len() == n
        && v.len() == n
        && q[..n - 2] == k[..n - 2]
        && q[..n - 2] == v[..n - 2]
        && q[n - 1] == k[n - 1]
        && k[n - 2] == v[n - 2]
        && all.iter().all(|t| t.numel() > 0)
        && !(dual_active() && any_tangent(&all))
}
/// Sizes of the scores of queries and keys of the same batch.
fn scores_sizes(q: &Tensor, k: &Tensor) -> Vec<i64> {
    let (mut sizes, n) = (q.sizes().to_vec(), q.dim());
    sizes[n - 1] = k.sizes()[n - 2];
    sizes
}
fn mask_fits(mask: &Tensor, [q, k, _]: [&Tensor; 3]) -> bool {
    let known = matches!(mask.dtype(), DType::Bool | DType::F32) || mask.dtype() == q.dtype();
    let fits = |(own, whole): (&i64, &i64)| own == whole || *own == 1;
    mask.device() == q.device()
        && known
        && !mask.requires_grad()
        && !mask.is_neg()
        && q.dim() == k.dim()
        && mask.dim() <= q.dim()
        && mask.sizes().iter().rev().zip(scores_sizes(q, k).iter().rev()).all(fits)
}
/// The mask as what is added to the scores.
pub(crate) fn added(mask: &Tensor, dtype: DType) -> Result<Tensor> {
    let m = mask.alias_detached();
    if m.dtype() == DType::Bool {
        let least = number(f64::NEG_INFINITY)?;
        return cast(&core::where_(&m, &number(0)?, &least)?, dtype);
    }
    cast(&m, dtype)
}
/// [`super::fused_attention`] with any number of batch dimensions.
fn fused(
    [q, k, v]: [&Tensor; 3],
    mask: Option<&Tensor>,
    dropout_p: f64,
    is_causal: bool,
    scale: f64,
) -> Result<Tensor> {
    // the CPU's kernel adds what is no more than the mask before it repeats
    let mask = match mask {
        Some(m) if q.device() == Device::Cpu => Some(added(m, wide(q.dtype()))?),
        m => m.cloned(),
    };
    let mask = mask.map(|m| core::expand(&m, &scores_sizes(q, k), false)).transpose()?;
    let attend = |q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>| {
        let states = (dropout_p > 0.0).then(|| dropout::states(q)).transpose()?;
        Ok(super::fused_attention(q, k, v, mask, is_causal, scale, dropout_p, states.as_ref())?.0)
    };
    if q.dim() == 4 {
        return attend(q, k, v, mask.as_ref());
    }
    let lead = &q.sizes()[..q.dim() - 2];
    let four = |t: &Tensor| {
        let s = t.sizes();
        core::reshape(t, &[1, lead.iter().product(), s[s.len() - 2], s[s.len() - 1]])
    };
    let mask = mask.as_ref().map(four).transpose()?;
    let out = attend(&four(q)?, &four(k)?, &four(v)?, mask.as_ref())?;
    let mut sizes = q.sizes().to_vec();
    sizes[lead.len() + 1] = v.sizes()[lead.len() + 1];
    core::reshape(&out, &sizes)
}

/// Sizes of the fused kernels, whose operands have four dimensions.
fn shape([q, k, v]: [&Tensor; 3], mask: Option<&Tensor>, causal: bool, scale: f64) -> Result<AttentionShape> {
    let (a, b, c) = (q.sizes(), k.sizes(), v.sizes());
    ensure!(
        a.len() == 4
            && b.len() == 4
            && c.len() == 4
            && a[..2] == b[..2]
            && a[..2] == c[..2]
            && a[3] == b[3]
            && b[2] == c[2]
            && b[2] > 0,
        Shape,
        "_fused_attention: sizes {}, {} and {} do not fit",
        fmt_sizes(a),
        fmt_sizes(b),
        fmt_sizes(c)
    );
    ensure!(
        q.dtype() == k.dtype() && q.dtype() == v.dtype(),
        Runtime,
        "_fused_attention: query, key and value must have the same dtype"
    );
    if !q.dtype().is_floating() {
        return Err(Error::not_implemented_for("_fused_attention", q.dtype()));
    }
    ensure!(
        mask.is_none_or(|m| m.sizes() == [a[0], a[1], a[2], b[2]]),
        Shape,
        "_fused_attention: the mask is not like the scores"
    );
    let [batch, heads, l, e] = [0, 1, 2, 3].map(|d| a[d] as usize);
    Ok(AttentionShape { batch, heads, l, s: b[2] as usize, e, v: c[3] as usize, causal, scale })
}
/// The tensor as it lies if its rows are contiguous, else a copy.
fn by_rows(t: &Tensor) -> Result<Tensor> {
    let t = resolved(t)?;
    let s = t.strides();
    let near = s[..3].iter().all(|s| *s >= 0) && s[2] <= MAX_STEP as i64;
    if near && (s[3] == 1 || t.sizes()[3] == 1) { Ok(t) } else { plain(&t) }
}
fn heads<'a>(a: &'a Access<'_>, i: usize, t: &Tensor) -> Result<HeadsAny<'a>> {
    let s = t.strides();
    Ok(HeadsAny { data: a.any(i)?, steps: [0, 1, 2].map(|d| s[d] as usize) })
}
/// `_fused_attention`
pub fn fused_attention_shape(
    &args::FusedAttention { query, key, value, attn_mask, is_causal, scale, dropout_p, states }: &args::FusedAttention,
) -> Result<[OutMeta; 2]> {
    shape([query, key, value], attn_mask, is_causal, scale)?;
    dropout::check(dropout_p, states, query)?;
    let (q, v) = (query.sizes(), value.sizes());
    Ok([
        OutMeta::of(&[q[0], q[1], q[2], v[3]], query.dtype(), query.device()),
        OutMeta::of(&q[..3], wide(query.dtype()), query.device()),
    ])
}
fn undropped(dropout_p: f64) -> Result<()> {
    if dropout_p == 0.0 { Ok(()) } else { Err(Error::missing("_fused_attention with dropout on the CPU")) }
}
/// The mask as the kernel takes it: what is added to the scores, with rows as it lies.
fn mask_by_rows(mask: Option<&Tensor>, query: &Tensor) -> Result<Option<Tensor>> {
    mask.map(|m| by_rows(&added(m, wide(query.dtype()))?)).transpose()
}
/// `_fused_attention`
pub fn fused_attention_cpu(
    &args::FusedAttention { query, key, value, attn_mask, is_causal, scale, dropout_p, .. }: &args::FusedAttention,
    [out, lse]: [&Tensor; 2],
) -> Result<()> {
    undropped(dropout_p)?;
    let s = shape([query, key, value], attn_mask, is_causal, scale)?;
    let (q, k, v) = (by_rows(query)?, by_rows(key)?, by_rows(value)?);
    let mask = mask_by_rows(attn_mask, query)?;
    let mut read = vec![&q, &k, &v];
    read.extend(&mask);
    let a = Access::new(&read, &[out, lse])?;
    let operands = [heads(&a, 0, &q)?, heads(&a, 1, &k)?, heads(&a, 2, &v)?];
    let mask = mask.as_ref().map(|m| heads(&a, 3, m)).transpose()?;
    let r = kernels::forward(&s, operands, mask, a.any_mut(0)?, a.any_mut(1)?);
    done(r, "_fused_attention", q.dtype())
}
/// `_fused_attention_backward`
pub fn fused_attention_backward_shape(a: &args::FusedAttentionBackward) -> Result<[OutMeta; 3]> {
    shape([a.query, a.key, a.value], a.attn_mask, a.is_causal, a.scale)?;
    dropout::check(a.dropout_p, a.states, a.query)?;
    let (z, w, d) = (a.query.sizes(), a.value.sizes(), a.query.dtype());
    ensure!(
        a.grad_output.sizes() == [z[0], z[1], z[2], w[3]]
            && a.output.sizes() == a.grad_output.sizes()
            && a.logsumexp.sizes() == &z[..3]
            && a.grad_output.dtype() == d
            && a.output.dtype() == d
            && a.logsumexp.dtype() == wide(d),
        Shape,
        "_fused_attention_backward: the gradient or a saved result is not like the result"
    );
    Ok([a.query, a.key, a.value].map(|t| OutMeta::of(t.sizes(), t.dtype(), t.device())))
}
/// `_fused_attention_backward`
pub fn fused_attention_backward_cpu(
    given: &args::FusedAttentionBackward,
    [gq, gk, gv]: [&Tensor; 3],
) -> Result<()> {
    undropped(given.dropout_p)?;
    let s = shape([given.query, given.key, given.value], given.attn_mask, given.is_causal, given.scale)?;
    let (q, k, v) = (by_rows(given.query)?, by_rows(given.key)?, by_rows(given.value)?);
    let g = by_rows(given.grad_output)?;
    let (out, lse) = (plain(given.output)?, plain(given.logsumexp)?);
    let mask = mask_by_rows(given.attn_mask, given.query)?;
    let mut read = vec![&q, &k, &v, &g, &out, &lse];
    read.extend(&mask);
    let a = Access::new(&read, &[gq, gk, gv])?;
    let operands = [heads(&a, 0, &q)?, heads(&a, 1, &k)?, heads(&a, 2, &v)?, heads(&a, 3, &g)?];
    let grads = [a.any_mut(0)?, a.any_mut(1)?, a.any_mut(2)?];
    let mask = mask.as_ref().map(|m| heads(&a, 6, m)).transpose()?;
    let r = kernels::backward(&s, operands, mask, a.any(4)?, a.any(5)?, grads);
    done(r, "_fused_attention_backward", q.dtype())
}

/// Which keys each query sees: those up to its own position.
pub(crate) fn causal_mask(l: i64, s: i64, device: Device) -> Result<Tensor> {
    geometry::checked_numel(&[l, s])?;
    core::tril(&core::ones(&[l, s], Some(DType::Bool), None, Some(device), None)?, 0)
}

/// Attention by differentiable operators; `drop` is what becomes of the weights before they meet the values.
pub(crate) fn composed(
    query: &Tensor,
    k: &Tensor,
    v: &Tensor,
    attn_mask: Option<&Tensor>,
    drop: &dyn Fn(Tensor) -> Result<Tensor>,
    is_causal: bool,
    scale: f64,
) -> Result<Tensor> {
    // each side takes the root, so that the products of halves do not overflow
    let root = number(scale.abs().sqrt())?;
    let q = core::mul(query, &if scale < 0.0 { number(-scale.abs().sqrt())? } else { root.clone() })?;
    let kt = core::mul(&core::transpose(k, -2, -1)?, &root)?;
    let mut scores = core::matmul(&q, &kt)?;
    let (l, s) = (scores.sizes()[scores.dim() - 2], scores.sizes()[scores.dim() - 1]);
    let causal = is_causal.then(|| causal_mask(l, s, query.device())).transpose()?;
    let mask = attn_mask.or(causal.as_ref());
    let (mut alive, mut added) = (None, false);
    if let Some(m) = mask {
        if m.dtype() == DType::Bool {
            scores = core::where_(m, &scores, &number(f64::NEG_INFINITY)?)?;
            // no mask of `is_causal` hides all keys
            alive = attn_mask.cloned();
        } else {
            scores = core::add(&scores, &cast(m, scores.dtype())?, Scalar::Int(1))?;
            added = true;
        }
    }
    // a row without any key gives zeros, not NaN
    let mut p =
        if added { core::safe_softmax(&scores, -1, None)? } else { core::softmax(&scores, -1, None)? };
    if let Some(m) = alive {
        p = core::where_(&m, &p, &number(0)?)?;
    }
    core::matmul(&drop(p)?, v)
}

/// `_scaled_dot_product_flash_attention_for_cpu`
pub fn scaled_dot_product_flash_attention_for_cpu(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    dropout_p: f64,
    is_causal: bool,
    attn_mask: Option<&Tensor>,
    scale: Option<f64>,
) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "scaled_dot_product_attention_flash_attention";
    let d = query.dtype();
    ensure!(
        d.is_floating(),
        Runtime,
        "{NAME}: Expected data type in FP32, FP64, BF16, FP16, but got {} instead.",
        d.scalar_type_name()
    );
    ensure!(
        query.dim() == 4 && key.dim() == 4 && value.dim() == 4,
        Runtime,
        "{NAME}: Accept only 4 dims inputs shape of {{B, H, T, K}}"
    );
    ensure!(dropout_p == 0.0, Runtime, "{NAME}: Currently do not support dropout > 0");
    let width = query.sizes()[3];
    ensure!(
        key.sizes()[3] == width && value.sizes()[3] == width,
        Runtime,
        "{NAME}: Q/K/V should have the same head size"
    );
    for t in [key, value] {
        ensure!(
            t.dtype() == d,
            Runtime,
            "expected scalar type {} but found {}",
            d.scalar_type_name(),
            t.dtype().scalar_type_name()
        );
    }
    if let Some(m) = attn_mask {
        ensure!(m.dtype() == d, Runtime, "{NAME}: Attention mask is the same data type as query");
        ensure!(m.dim() == 2 || m.dim() == 4, Runtime, "{NAME}: Attention mask dim in {{2, 4}}");
    }
    // halves are attended to in float32 and rounded once
    let up = |t: &Tensor| cast(t, wide(d));
    let (q, k, v) = (up(query)?, up(key)?, up(value)?);
    let scale = scale.unwrap_or(1.0 / (width as f64).sqrt());
    if attn_mask.is_none() && fusable([&q, &k, &v], None, dropout_p) {
        let (y, sums) = super::fused_attention(&q, &k, &v, None, is_causal, scale, 0.0, None)?;
        return Ok((cast(&y, d)?, sums.alias_detached()));
    }
    let (l, s) = (q.sizes()[2], k.sizes()[2]);
    let least = number(f64::NEG_INFINITY)?;
    let mut mask = attn_mask.map(up).transpose()?;
    if is_causal {
        let later = core::where_(&causal_mask(l, s, q.device())?, &number(0)?, &least)?;
        let later = cast(&later, q.dtype())?;
        mask = Some(match mask {
            Some(m) => core::add(&m, &later, Scalar::Int(1))?,
            None => later,
        });
    }
    let kt = core::mul(&core::transpose(&k, -2, -1)?, &number(scale)?)?;
    let mut scores = core::matmul(&q, &kt)?;
    if let Some(m) = mask {
        scores = core::add(&scores, &m, Scalar::Int(1))?;
    }
    let y = core::matmul(&core::safe_softmax(&scores, -1, None)?, &v)?;
    // rows that attend to nothing have no sum
    let sums = core::logsumexp(&scores.alias_detached(), &[-1], false)?;
    let sums = core::masked_fill(&sums, &core::eq(&sums, &least)?, Scalar::Int(0))?;
    Ok((cast(&y, d)?, sums))
}
pub use crate::ops::attention::dropout::{
    attention_dropout_mask_cpu, attention_dropout_mask_shape, philox_states_cpu, philox_states_shape,
};
pub use crate::ops::attention::multi_head::multi_head_attention_forward;
pub use crate::ops::attention::rounded::rounded_attention;
