//! `multi_head_attention_forward`.

use crate::ops::operands::{number, torch_size};
use flambeau_core::text::PyText;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, bail, ensure, ops as core};

/// Whether the inputs have a batch dimension, after a check of all ranks.
fn is_batched(
    [query, key, value]: [&Tensor; 3],
    key_padding_mask: Option<&Tensor>,
    attn_mask: Option<&Tensor>,
    num_heads: i64,
) -> Result<bool> {
    let (word, n) = match query.dim() {
        3 => ("batched (3-D)", 3),
        2 => ("unbatched (2-D)", 2),
        n => bail!(
            Assertion,
            "query should be unbatched 2D or batched 3D tensor but received {n}-D query tensor"
        ),
    };
    ensure!(
        key.dim() == n && value.dim() == n,
        Assertion,
        "For {word} `query`, expected `key` and `value` to be {n}-D but found {}-D and {}-D tensors respectively",
        key.dim(),
        value.dim()
    );
    if let Some(m) = key_padding_mask {
        ensure!(
            m.dim() == n - 1,
            Assertion,
            "For {word} `query`, expected `key_padding_mask` to be `None` or {}-D but found {}-D tensor instead",
            n - 1,
            m.dim()
        );
    }
    if let Some(m) = attn_mask {
        ensure!(
            matches!(m.dim(), 2 | 3),
            Assertion,
            "For {word} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {}-D tensor instead",
            m.dim()
        );
        let want = [num_heads, query.sizes()[0], key.sizes()[0]];
        ensure!(
            n == 3 || m.dim() == 2 || m.sizes() == want,
            Assertion,
            "Expected `attn_mask` shape to be {} but got {}",
            want.to_vec().py_text(),
            torch_size(m.sizes())
        );
    }
    Ok(n == 3)
}

/// A mask as numbers that are added to the scores: minus infinity where a bool mask says `true`.
///
/// # Errors
/// Masks that are neither bool nor floating.
pub fn canonical_mask(mask: Option<&Tensor>, name: &str, dtype: DType) -> Result<Option<Tensor>> {
    let Some(m) = mask else { return Ok(None) };
    if m.dtype().is_floating() {
        return Ok(Some(m.clone()));
    }
    ensure!(m.dtype() == DType::Bool, Assertion, "only bool and floating types of {name} are supported");
    let zeros = core::zeros_like(m, Some(dtype), None, None, None, None)?;
    core::masked_fill(&zeros, m, Scalar::Float(f64::NEG_INFINITY)).map(Some)
}

/// Warns as PyTorch does where two masks have different dtypes.
pub fn warn_of_mismatch(mask: Option<&Tensor>, name: &str, other: Option<&Tensor>, other_name: &str) {
    if let (Some(m), Some(o)) = (mask, other)
        && m.dtype() != o.dtype()
    {
        flambeau_core::settings::determinism::warn(&format!(
            "Support for mismatched {name} and {other_name} is deprecated. Use same type for both instead."
        ));
    }
}

/// Query, key and value, each `[length, batch, features]`, after their projections.
fn packed(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    w: &Tensor,
    b: Option<&Tensor>,
) -> Result<[Tensor; 3]> {
    let e = query.sizes()[2];
    let rows = |start: i64, n: i64| -> Result<(Tensor, Option<Tensor>)> {
        let bias = b.map(|b| core::narrow(b, 0, start * e, n * e)).transpose()?;
        Ok((core::narrow(w, 0, start * e, n * e)?, bias))
    };
    // parts of one product, as views of it
    let split = |t: &Tensor, n: i64| -> Result<Vec<Tensor>> {
        (0..n).map(|i| core::narrow(t, 2, i * e, e)).collect()
    };
    let parts = if !key.is_same(value) {
        ensure!(
            w.sizes().first() == Some(&(3 * e)),
            Runtime,
            "expected in_proj_weight with {} rows, but got {}",
            3 * e,
            torch_size(w.sizes())
        );
        let mut all = Vec::new();
        for (i, t) in [query, key, value].into_iter().enumerate() {
            let (w, b) = rows(i as i64, 1)?;
            all.push(crate::ops::linear(t, &w, b.as_ref())?);
        }
        all
    } else if query.is_same(key) {
        split(&crate::ops::linear(query, w, b)?, 3)?
    } else {
        let ((wq, bq), (wkv, bkv)) = (rows(0, 1)?, rows(1, 2)?);
        let mut all = vec![crate::ops::linear(query, &wq, bq.as_ref())?];
        all.extend(split(&crate::ops::linear(key, &wkv, bkv.as_ref())?, 2)?);
        all
    };
    <[Tensor; 3]>::try_from(parts).map_err(|_| Error::runtime("attention: three projections"))
}

/// The same with a weight for each.
fn separate(inputs: [&Tensor; 3], weights: [&Tensor; 3], bias: Option<&Tensor>) -> Result<[Tensor; 3]> {
    let sizes = inputs.map(|t| t.sizes()[t.dim() - 1]);
    let biases = match bias {
        Some(b) => core::chunk(b, 3, 0)?.into_iter().map(Some).collect(),
        None => vec![None; 3],
    };
    for ((w, n), what) in weights.iter().zip(sizes).zip(["query", "key", "value"]) {
        let want = [sizes[0], n];
        ensure!(
            w.sizes() == want,
            Assertion,
            "expecting {what} weights shape of {}, but got {}",
            want.to_vec().py_text(),
            torch_size(w.sizes())
        );
    }
    for (b, what) in biases.iter().zip(["query", "key", "value"]) {
        let Some(b) = b else { continue };
        ensure!(
            b.sizes() == [sizes[0]],
            Assertion,
            "expecting {what} bias shape of {}, but got {}",
            vec![sizes[0]].py_text(),
            torch_size(b.sizes())
        );
    }
    let mut out = inputs.map(Tensor::clone);
    for (i, b) in biases.iter().enumerate().take(3) {
        out[i] = crate::ops::linear(inputs[i], weights[i], b.as_ref())?;
    }
    Ok(out)
}

/// `[length, batch, heads * width]` as `[batch, heads, length, width]`.
fn by_heads(t: &Tensor, length: i64, batch: i64, heads: i64, width: i64) -> Result<Tensor> {
    ensure!(
        t.numel() == length * batch * heads * width,
        Runtime,
        "shape '[{length}, {}, {width}]' is invalid for input of size {}",
        batch * heads,
        t.numel()
    );
    let t = core::reshape(t, &[length, batch, heads, width])?;
    core::permute(&t, &[1, 2, 0, 3])
}
/// Keys or values that were computed before, `[batch * heads, length, width]`.
fn fixed(t: &Tensor, what: &str, batch: i64, heads: i64, width: i64) -> Result<Tensor> {
    for (d, want) in [(0, batch * heads), (2, width)] {
        let got = t.size(d);
        ensure!(got == want, Assertion, "expecting {what}.size({d}) of {want}, but got {got}");
    }
    core::reshape(t, &[batch, heads, t.size(1), width])
}

/// Masks and keys that grow by one position at a time.
struct Keys {
    attn_mask: Option<Tensor>,
    padding: Option<Tensor>,
}
impl Keys {
    /// One more position, which every query sees.
    fn grow(&mut self) -> Result<()> {
        for m in [&mut self.attn_mask, &mut self.padding] {
            *m = m.as_ref().map(|m| crate::ops::pad(m, &[0, 1], "constant", None)).transpose()?;
        }
        Ok(())
    }
    /// Both masks in one that broadcasts over `[batch, heads, queries, keys]`.
    fn merged(&self, batch: i64, heads: i64, keys: i64) -> Result<Option<Tensor>> {
        let own = match &self.attn_mask {
            Some(m) if m.dim() == 3 => Some(core::reshape(m, &[batch, heads, m.size(1), m.size(2)])?),
            m => m.clone(),
        };
        let Some(p) = &self.padding else { return Ok(own) };
        for (d, want) in [(0, batch), (1, keys)] {
            let got = p.size(d);
            ensure!(
                got == want,
                Assertion,
                "Expected key_padded_mask.shape[{d}] to be {want}, but got {got}"
            );
        }
        let p = core::reshape(p, &[batch, 1, 1, keys])?;
        match own {
            Some(m) => core::add(&m, &p, Scalar::Int(1)).map(Some),
            None => Ok(Some(p)),
        }
    }
}

/// `multi_head_attention_forward`
pub fn multi_head_attention_forward(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    embed_dim_to_check: i64,
    num_heads: i64,
    in_proj_weight: Option<&Tensor>,
    in_proj_bias: Option<&Tensor>,
    bias_k: Option<&Tensor>,
    bias_v: Option<&Tensor>,
    add_zero_attn: bool,
    dropout_p: f64,
    out_proj_weight: &Tensor,
    out_proj_bias: Option<&Tensor>,
    training: bool,
    key_padding_mask: Option<&Tensor>,
    need_weights: bool,
    attn_mask: Option<&Tensor>,
    use_separate_proj_weight: bool,
    q_proj_weight: Option<&Tensor>,
    k_proj_weight: Option<&Tensor>,
    v_proj_weight: Option<&Tensor>,
    static_k: Option<&Tensor>,
    static_v: Option<&Tensor>,
    average_attn_weights: bool,
    mut is_causal: bool,
) -> Result<(Tensor, Option<Tensor>)> {
    let batched = is_batched([query, key, value], key_padding_mask, attn_mask, num_heads)?;
    let with_batch = |t: &Tensor| if batched { Ok(t.clone()) } else { core::unsqueeze(t, 1) };
    let q = with_batch(query)?;
    let k = if key.is_same(query) { q.clone() } else { with_batch(key)? };
    let v = if value.is_same(key) { k.clone() } else { with_batch(value)? };
    let padding = match key_padding_mask {
        Some(m) if !batched => Some(core::unsqueeze(m, 0)?),
        m => m.cloned(),
    };
    let (tgt_len, bsz, embed_dim) = (q.size(0), q.size(1), q.size(2));
    let src_len = k.size(0);

    warn_of_mismatch(padding.as_ref(), "key_padding_mask", attn_mask, "attn_mask");
    let padding = canonical_mask(padding.as_ref(), "key_padding_mask", q.dtype())?;
    ensure!(
        !is_causal || attn_mask.is_some(),
        Runtime,
        "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method `generate_square_subsequent_mask` to create this mask."
    );
    let attn_mask = if is_causal && padding.is_none() && !need_weights {
        // the kernel knows this mask
        None
    } else {
        is_causal &= padding.is_none();
        canonical_mask(attn_mask, "attn_mask", q.dtype())?
    };

    ensure!(
        embed_dim == embed_dim_to_check,
        Assertion,
        "was expecting embedding dimension of {embed_dim_to_check}, but got {embed_dim}"
    );
    ensure!(num_heads != 0, Runtime, "integer division or modulo by zero");
    let width = embed_dim / num_heads;
    ensure!(
        width * num_heads == embed_dim,
        Assertion,
        "embed_dim {embed_dim} not divisible by num_heads {num_heads}"
    );
    let required = |w: Option<&Tensor>, name: &str| {
        w.cloned().ok_or_else(|| {
            let separate = if use_separate_proj_weight { "True" } else { "False" };
            Error::assertion(format!("use_separate_proj_weight is {separate} but {name} is None"))
        })
    };
    let [q, mut k, mut v] = if use_separate_proj_weight {
        ensure!(
            k.sizes()[..2] == v.sizes()[..2],
            Assertion,
            "key's sequence and batch dims {} do not match value's {}",
            torch_size(&k.sizes()[..2]),
            torch_size(&v.sizes()[..2])
        );
        let weights = [
            required(q_proj_weight, "q_proj_weight")?,
            required(k_proj_weight, "k_proj_weight")?,
            required(v_proj_weight, "v_proj_weight")?,
        ];
        separate([&q, &k, &v], weights.each_ref(), in_proj_bias)?
    } else {
        ensure!(
            k.sizes() == v.sizes(),
            Assertion,
            "key shape {} does not match value shape {}",
            torch_size(k.sizes()),
            torch_size(v.sizes())
        );
        packed(&q, &k, &v, &required(in_proj_weight, "in_proj_weight")?, in_proj_bias)?
    };

    if let Some(m) = &attn_mask {
        let want = match m.dim() {
            2 => vec![tgt_len, src_len],
            3 => vec![bsz * num_heads, tgt_len, src_len],
            n => bail!(Runtime, "attn_mask's dimension {n} is not supported"),
        };
        ensure!(
            m.sizes() == want,
            Runtime,
            "The shape of the {}D attn_mask is {}, but should be {}.",
            m.dim(),
            torch_size(m.sizes()),
            want.py_text()
        );
    }
    let mut keys = Keys { attn_mask, padding };
    match (bias_k, bias_v) {
        (Some(bk), Some(bv)) => {
            ensure!(static_k.is_none(), Assertion, "bias cannot be added to static key.");
            ensure!(static_v.is_none(), Assertion, "bias cannot be added to static value.");
            k = core::cat(&[k, core::repeat(bk, &[1, bsz, 1])?], 0)?;
            v = core::cat(&[v, core::repeat(bv, &[1, bsz, 1])?], 0)?;
            keys.grow()?;
        }
        (Some(_), None) => bail!(Assertion, "bias_k is set but bias_v is None"),
        (None, Some(_)) => bail!(Assertion, "bias_v is set but bias_k is None"),
        (None, None) => {}
    }
    let q = by_heads(&q, tgt_len, bsz, num_heads, width)?;
    let mut k = match static_k {
        Some(t) => fixed(t, "static_k", bsz, num_heads, width)?,
        None => by_heads(&k, k.size(0), bsz, num_heads, width)?,
    };
    let mut v = match static_v {
        Some(t) => fixed(t, "static_v", bsz, num_heads, width)?,
        None => by_heads(&v, v.size(0), bsz, num_heads, width)?,
    };
    if add_zero_attn {
        for t in [&mut k, &mut v] {
            let zero =
                core::zeros(&[bsz, num_heads, 1, width], Some(t.dtype()), None, Some(t.device()), None)?;
            *t = core::cat(&[t.clone(), zero], 2)?;
        }
        keys.grow()?;
    }
    let src_len = k.size(2);
    let mask = keys.merged(bsz, num_heads, src_len)?;
    let dropout_p = if training { dropout_p } else { 0.0 };

    let (attended, weights) = if need_weights {
        ensure!(
            !(is_causal && mask.is_none()),
            Assertion,
            "FIXME: is_causal not implemented for need_weights"
        );
        let scaled = core::mul(&q, &number((1.0 / width as f64).sqrt())?)?;
        let mut scores = core::matmul(&scaled, &core::transpose(&k, -2, -1)?)?;
        if let Some(m) = &mask {
            scores = core::add(&scores, m, Scalar::Int(1))?;
        }
        let mut p = core::softmax(&scores, -1, None)?;
        if dropout_p > 0.0 {
            p = crate::ops::dropout(&p, dropout_p, true, false)?;
        }
        (core::matmul(&p, &v)?, Some(p))
    } else {
        (
            crate::ops::scaled_dot_product_attention(
                &q,
                &k,
                &v,
                mask.as_ref(),
                dropout_p,
                is_causal,
                None,
                false,
            )?,
            None,
        )
    };
    let out = core::reshape(&core::permute(&attended, &[2, 0, 1, 3])?, &[tgt_len * bsz, embed_dim])?;
    let out = crate::ops::linear(&out, out_proj_weight, out_proj_bias)?;
    let mut out = core::view(&out, &[tgt_len, bsz, out.size(1)])?;
    let mut weights = match weights {
        Some(p) if average_attn_weights => Some(core::mean(&p, Some(&[1]), false, None)?),
        p => p,
    };
    if !batched {
        out = core::squeeze_dim(&out, 1)?;
        weights = weights.map(|w| core::squeeze_dim(&w, 0)).transpose()?;
    }
    Ok((out, weights))
}
