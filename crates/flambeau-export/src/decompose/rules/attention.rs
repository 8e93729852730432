//! Attention.

use super::super::build::{Builder, Call, Item, op};
use super::creation::{filled, scalar_like};
use super::pointwise::triangle;
use super::product::matmul;
use super::view::{contiguous, permuted, transposed};
use flambeau_core::{DType, MemoryFormat, Result, Value};

/// Each head of four dimensions several times, one after the other.
fn repeated(b: &mut Builder, x: &Item, times: i64) -> Result<Item> {
    if times == 1 {
        return Ok(x.clone());
    }
    let sizes = x.sizes()?;
    let wide = op!(b, "unsqueeze.default", x, 2);
    let wide = op!(b, "expand.default", &wide, vec![sizes[0], sizes[1], times, sizes[2], sizes[3]]);
    let wide = contiguous(b, &wide)?;
    Ok(op!(b, "view.default", &wide, vec![sizes[0], sizes[1] * times, sizes[2], sizes[3]]))
}
pub(super) fn rule(b: &mut Builder, c: &Call) -> Result<Option<Item>> {
    if c.name != "scaled_dot_product_attention.default" {
        return Ok(None);
    }
    let (q, k, v) = (c.need(0, "query")?, c.need(1, "key")?, c.need(2, "value")?);
    let rank = q.rank()?;
    let masked = c.get(3, "attn_mask").is_some() || c.flag(5, "is_causal", false);
    if c.float(4, "dropout_p", 0.0) != 0.0 || rank < 3 || rank != 4 && masked {
        return Ok(None);
    }
    let heads = (q.size(-3)?, k.size(-3)?, v.size(-3)?);
    let grouped = c.flag(7, "enable_gqa", false);
    if grouped && (rank != 4 || heads.1 == 0 || heads.2 == 0) {
        return Ok(None);
    }
    // the scale of sizes that are no numbers is no number either
    if c.get(6, "scale").is_none() && b.symbolic.last() == Some(&true) {
        return Ok(None);
    }
    if rank == 3 {
        let [q, k, v] = [q, k, v].map(|t| b.op("unsqueeze.default", vec![t, 0.into()], Vec::new()));
        let inner = Call { name: c.name.clone(), args: vec![q?, k?, v?], kwargs: c.kwargs.clone() };
        let Some(out) = rule(b, &inner)? else { return Ok(None) };
        return Ok(Some(op!(b, "squeeze.dims", &out, vec![0])));
    }
    let scale = match c.get(6, "scale") {
        Some(_) => c.float(6, "scale", 1.0),
        None => 1.0 / (q.size(-1)? as f64).sqrt(),
    };
    // half of the scale for each side, so that neither grows too large
    let root = scale.sqrt();
    let q = op!(b, "mul.Scalar", &q, root);
    let mask = match (c.get(3, "attn_mask"), c.flag(5, "is_causal", false)) {
        (_, true) => {
            let all = filled(b, vec![q.size(-2)?, k.size(-2)?], true.into(), Some(DType::Bool))?;
            Some(triangle(b, &all, 0, false)?)
        }
        (mask, false) => mask,
    };
    let mask = match mask {
        Some(m) if m.dtype()? == DType::Bool => {
            let lowest = scalar_like(b, &Item::from(f64::NEG_INFINITY), &q)?;
            let zero = scalar_like(b, &Item::from(0.0), &q)?;
            Some(op!(b, "where.self", &m, &zero, &lowest))
        }
        m => m,
    };
    let (k, v) = match grouped {
        true => (repeated(b, &k, heads.0 / heads.1)?, repeated(b, &v, heads.0 / heads.2)?),
        false => (k, v),
    };
    let kt = transposed(b, &k, -2, -1)?;
    let kt = op!(b, "mul.Scalar", &kt, root);
    let mut score = matmul(b, &q, &kt)?;
    if let Some(m) = &mask {
        score = op!(b, "add.Tensor", &score, m);
    }
    let soft = op!(b, "_softmax.default", &score, -1, false);
    // rows in which nothing is allowed are zero
    let lowest = op!(b, "eq.Scalar", &score, f64::NEG_INFINITY);
    let not = op!(b, "logical_not.default", &lowest);
    let any = op!(b, "any.dim", &not, -1, true);
    let none = op!(b, "logical_not.default", &any);
    let zeros = op!(b, "full_like.default", &soft, 0; pin_memory = false, memory_format = Value::MemoryFormat(MemoryFormat::Preserve));
    let soft = op!(b, "where.self", &none, &zeros, &soft);
    let out = matmul(b, &soft, &v)?;
    if rank != 4 {
        return Ok(Some(out));
    }
    let out = permuted(b, &out, vec![2, 0, 1, 3])?;
    let out = op!(b, "clone.default", &out; memory_format = Value::MemoryFormat(MemoryFormat::Contiguous));
    permuted(b, &out, vec![1, 2, 0, 3]).map(Some)
}
