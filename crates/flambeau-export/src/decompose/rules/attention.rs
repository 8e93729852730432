//! Attention.

use super::super::build::{Builder, Call, Item, op};
use super::creation::{filled, scalar_like};
use super::pointwise::triangle;
use super::product::matmul;
use super::view::{permuted, transposed};
use flambeau_core::{DType, MemoryFormat, Result, Value};

pub(super) fn rule(b: &mut Builder, c: &Call) -> Result<Option<Item>> {
    if c.name != "scaled_dot_product_attention.default" {
        return Ok(None);
    }
    let (q, k, v) = (c.need(0, "query")?, c.need(1, "key")?, c.need(2, "value")?);
    if q.rank()? != 4 || c.float(4, "dropout_p", 0.0) != 0.0 || c.flag(8, "enable_gqa", false) {
        return Ok(None);
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
    let out = permuted(b, &out, vec![2, 0, 1, 3])?;
    let out = op!(b, "clone.default", &out; memory_format = Value::MemoryFormat(MemoryFormat::Contiguous));
    permuted(b, &out, vec![1, 2, 0, 3]).map(Some)
}
