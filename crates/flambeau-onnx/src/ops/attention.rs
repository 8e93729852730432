//! Attention.

use super::Table;
use crate::build::{Arg, Builder, Call, Dim, Var};
use flambeau_core::{DType, Error, Result};

pub(super) const TABLE: Table = &[
    ("aten.scaled_dot_product_attention", |b, c| {
        let mask = c.optional(3, "attn_mask")?;
        let causal = c.bool_or(5, "is_causal", false)?;
        drop_refused(c, 4)?;
        let shared = c.bool_or(7, "enable_gqa", false)?;
        Ok(attend(b, c, mask, causal, c.arg(6, "scale"), shared)?.into())
    }),
    ("aten._scaled_dot_product_flash_attention_for_cpu", |b, c| {
        let mask = c.optional(5, "attn_mask")?;
        let causal = c.bool_or(4, "is_causal", false)?;
        drop_refused(c, 3)?;
        let y = attend(b, c, mask, causal, c.arg(usize::MAX, "scale"), false)?;
        Ok(Arg::List(vec![y.into(), Arg::None]))
    }),
    ("aten._scaled_dot_product_flash_attention", |b, c| {
        let causal = c.bool_or(4, "is_causal", false)?;
        drop_refused(c, 3)?;
        let y = attend(b, c, None, causal, c.arg(usize::MAX, "scale"), false)?;
        Ok(Arg::List(vec![y.into()]))
    }),
    ("aten._scaled_dot_product_efficient_attention", |b, c| {
        let mask = c.optional(3, "attn_bias")?;
        let causal = c.bool_or(6, "is_causal", false)?;
        drop_refused(c, 5)?;
        let y = attend(b, c, mask, causal, c.arg(usize::MAX, "scale"), false)?;
        Ok(Arg::List(vec![y.into(), Arg::None, Arg::None, Arg::None]))
    }),
    ("aten._scaled_dot_product_attention_math", |b, c| {
        let mask = c.optional(3, "attn_mask")?;
        let causal = c.bool_or(5, "is_causal", false)?;
        drop_refused(c, 4)?;
        let y = attend(b, c, mask, causal, c.arg(usize::MAX, "scale"), false)?;
        Ok(Arg::List(vec![y.into(), Arg::None]))
    }),
];

fn drop_refused(c: &Call, at: usize) -> Result<()> {
    if c.float_or(at, "dropout_p", 0.0)? == 0.0 {
        return Ok(());
    }
    Err(Error::missing("attention with dropout as ONNX: export the module in evaluation mode"))
}
fn attend(
    b: &mut Builder,
    c: &Call,
    mask: Option<Var>,
    causal: bool,
    scale: &Arg,
    shared: bool,
) -> Result<Var> {
    let (q, mut k, mut v) = (c.tensor(0, "query")?, c.tensor(1, "key")?, c.tensor(2, "value")?);
    let d = q.dtype();
    let rank = q.rank() as i64;
    if shared {
        // heads of keys and values that several queries share
        let (hq, hk) = (b.size(&q, rank - 3)?, b.size(&k, rank - 3)?);
        let times = b.dim_div(&hq, &hk)?;
        let mut repeated = |x: &Var| -> Result<Var> {
            let to = b.sizes(x)?;
            let wide = b.unsqueeze(x, &[rank - 2])?;
            let mut wider = b.sizes(&wide)?;
            wider[rank as usize - 2] = times.clone();
            let wide = b.expand(&wide, &wider)?;
            let mut to = to;
            to[rank as usize - 3] = hq.clone();
            b.reshape(&wide, &to)
        };
        k = repeated(&k)?;
        v = repeated(&v)?;
    }
    // half of the scale on either side, so that halves do not overflow
    let root = match scale {
        Arg::Float(x) => b.scalar(x.abs().sqrt(), d)?,
        Arg::Int(n) => b.scalar((n.abs() as f64).sqrt(), d)?,
        _ => {
            let e = b.size(&q, rank - 1)?;
            match e {
                Dim::Int(n) => b.scalar((1.0 / (n as f64).sqrt()).sqrt(), d)?,
                Dim::Var(n) => {
                    let n = b.cast(&n, d)?;
                    let s = b.unary("Sqrt", &n)?;
                    let s = b.unary("Reciprocal", &s)?;
                    b.unary("Sqrt", &s)?
                }
            }
        }
    };
    let kt = b.swap(&k, rank - 2, rank - 1)?;
    let (qs, ks) = (b.mul(&q, &root)?, b.mul(&kt, &root)?);
    let mut scores = b.matmul(&qs, &ks)?;
    if matches!(scale, Arg::Float(x) if *x < 0.0) {
        scores = b.neg(&scores)?;
    }
    let minus = b.scalar(f64::NEG_INFINITY, d)?;
    let mut empties = false;
    if causal {
        let (l, s) = (b.size(&q, rank - 2)?, b.size(&k, rank - 2)?);
        let (rows, cols) = (b.range(&Dim::Int(0), &l)?, b.range(&Dim::Int(0), &s)?);
        let rows = b.unsqueeze(&rows, &[1])?;
        let seen = b.le(&cols, &rows)?;
        scores = b.choose(&seen, &scores, &minus)?;
    }
    if let Some(m) = mask {
        if m.dtype() == DType::Bool {
            scores = b.choose(&m, &scores, &minus)?;
        } else {
            let m = b.cast(&m, d)?;
            scores = b.add(&scores, &m)?;
        }
        empties = true;
    }
    let last = scores.rank() as i64 - 1;
    let mut p = b.softmax("Softmax", &scores, last)?;
    if empties {
        // a query that sees nothing gives zeros; NaN of the operands stays
        let best = b.reduce("ReduceMax", &scores, &[last], true)?;
        let (blind, zero) = (b.eq(&best, &minus)?, b.scalar(0.0, d)?);
        p = b.choose(&blind, &zero, &p)?;
    }
    b.matmul(&p, &v)
}
