//! Attention.

use super::util::{cast, number};
use flambeau_core::{B8, DType, Result, Scalar, Tensor, ensure, ops as core};

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
    ensure!(
        query.dtype() == key.dtype() && query.dtype() == value.dtype(),
        Runtime,
        "Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: {} and value.dtype: {} instead.",
        query.dtype().scalar_type_name(),
        key.dtype().scalar_type_name(),
        value.dtype().scalar_type_name()
    );
    ensure!(
        query.dim() >= 2 && key.dim() >= 2 && value.dim() >= 2,
        Runtime,
        "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {} key.dim: {} and value.dim: {} instead.",
        query.dim(),
        key.dim(),
        value.dim()
    );
    ensure!(
        !(is_causal && attn_mask.is_some()),
        Runtime,
        "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
    );
    let (mut k, mut v) = (key.clone(), value.clone());
    if enable_gqa {
        ensure!(
            query.dim() >= 3 && k.dim() >= 3 && v.dim() >= 3,
            Runtime,
            "enable_gqa: expected a dimension of heads"
        );
        let heads = query.sizes()[query.dim() - 3];
        for t in [&k, &v] {
            let own = t.sizes()[t.dim() - 3];
            ensure!(
                own > 0 && heads % own == 0,
                Runtime,
                "Number of heads in key and value must divide the number of heads in query"
            );
        }
        (k, v) = (repeated(&k, heads)?, repeated(&v, heads)?);
    }
    let e = query.sizes()[query.dim() - 1];
    let scale = scale.unwrap_or(1.0 / (e as f64).sqrt());

    // each side takes the root, so that the products of halves do not overflow
    let root = number(scale.abs().sqrt())?;
    let q = core::mul(query, &if scale < 0.0 { number(-scale.abs().sqrt())? } else { root.clone() })?;
    let kt = core::mul(&core::transpose(&k, -2, -1)?, &root)?;
    let mut scores = core::matmul(&q, &kt)?;
    let (l, s) = (scores.sizes()[scores.dim() - 2], scores.sizes()[scores.dim() - 1]);
    let causal = if is_causal {
        let m: Vec<B8> = (0..l).flat_map(|i| (0..s).map(move |j| B8::from(j <= i))).collect();
        Some(Tensor::from_vec_raw(m, &[l, s])?)
    } else {
        None
    };
    let mask = attn_mask.or(causal.as_ref());
    let mut alive = None;
    if let Some(m) = mask {
        if m.dtype() == DType::Bool {
            scores = core::where_(m, &scores, &number(f64::NEG_INFINITY)?)?;
            alive = Some(m.clone());
        } else {
            ensure!(
                m.dtype() == query.dtype() || m.dtype() == DType::F32,
                Runtime,
                "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: {} and  query.dtype: {} instead.",
                m.dtype().scalar_type_name(),
                query.dtype().scalar_type_name()
            );
            scores = core::add(&scores, &cast(m, scores.dtype())?, Scalar::Int(1))?;
        }
    }
    let mut p = core::softmax(&scores, -1, None)?;
    if let Some(m) = alive {
        // a row without any key gives zeros, not NaN
        p = core::where_(&m, &p, &number(0)?)?;
    }
    if dropout_p > 0.0 {
        p = super::dropout(&p, dropout_p, true, false)?;
    }

    core::matmul(&p, &v)
}
