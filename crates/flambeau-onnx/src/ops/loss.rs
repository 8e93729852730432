//! Losses, and distances between vectors.

use super::Table;
use super::activation::log_sigmoid;
use super::indexing::gather_elements;
use super::reduction::p_norm;
use crate::build::{Arg, Builder, Call, Var};
use flambeau_core::{DType, Error, Result};

pub(super) const TABLE: Table = &[
    ("aten.mse_loss", |b, c| {
        let d = gap(b, c)?;
        let l = b.mul(&d, &d)?;
        finish(b, c, &l, 2)
    }),
    ("aten.l1_loss", |b, c| {
        let d = gap(b, c)?;
        let l = b.unary("Abs", &d)?;
        finish(b, c, &l, 2)
    }),
    ("aten.smooth_l1_loss", |b, c| {
        let d = gap(b, c)?;
        let beta = c.float_or(3, "beta", 1.0)?;
        let a = b.unary("Abs", &d)?;
        if beta == 0.0 {
            return finish(b, c, &a, 2);
        }
        let sq = b.mul(&d, &d)?;
        let low = b.mul_number(&sq, 0.5 / beta)?;
        let high = b.add_number(&a, -0.5 * beta)?;
        let t = b.scalar(beta, d.dtype())?;
        let near = b.lt(&a, &t)?;
        let l = b.choose(&near, &low, &high)?;
        finish(b, c, &l, 2)
    }),
    ("aten.huber_loss", |b, c| {
        let d = gap(b, c)?;
        let delta = c.float_or(3, "delta", 1.0)?;
        let (a, sq) = (b.unary("Abs", &d)?, b.mul(&d, &d)?);
        let low = b.mul_number(&sq, 0.5)?;
        let high = b.add_number(&a, -0.5 * delta)?;
        let high = b.mul_number(&high, delta)?;
        let t = b.scalar(delta, d.dtype())?;
        let near = b.le(&a, &t)?;
        let l = b.choose(&near, &low, &high)?;
        finish(b, c, &l, 2)
    }),
    ("aten.soft_margin_loss", |b, c| {
        let (x, y) = (c.tensor(0, "self")?, c.tensor(1, "target")?);
        let y = b.cast(&y, x.dtype())?;
        let p = b.mul(&x, &y)?;
        let l = log_sigmoid(b, &p)?;
        let l = b.neg(&l)?;
        finish(b, c, &l, 2)
    }),
    ("aten.binary_cross_entropy", |b, c| {
        let (x, y) = (c.tensor(0, "self")?, c.tensor(1, "target")?);
        let d = x.dtype();
        let (one, floor) = (b.scalar(1.0, d)?, b.scalar(-100.0, d)?);
        let rest = b.sub(&one, &x)?;
        let (l, r) = (b.unary("Log", &x)?, b.unary("Log", &rest)?);
        let (l, r) = (b.max(&l, &floor)?, b.max(&r, &floor)?);
        let other = b.sub(&one, &y)?;
        let (p, q) = (b.mul(&y, &l)?, b.mul(&other, &r)?);
        let s = b.add(&p, &q)?;
        let l = b.neg(&s)?;
        let l = weighted(b, &l, c.optional(2, "weight")?)?;
        finish(b, c, &l, 3)
    }),
    ("aten.binary_cross_entropy_with_logits", |b, c| {
        let (x, y) = (c.tensor(0, "self")?, c.tensor(1, "target")?);
        let one = b.scalar(1.0, x.dtype())?;
        let n = b.neg(&x)?;
        let (lp, ln) = (log_sigmoid(b, &x)?, log_sigmoid(b, &n)?);
        let other = b.sub(&one, &y)?;
        let (mut p, q) = (b.mul(&y, &lp)?, b.mul(&other, &ln)?);
        if let Some(w) = c.optional(3, "pos_weight")? {
            p = b.mul(&p, &w)?;
        }
        let s = b.add(&p, &q)?;
        let l = b.neg(&s)?;
        let l = weighted(b, &l, c.optional(2, "weight")?)?;
        finish(b, c, &l, 4)
    }),
    ("aten.kl_div", |b, c| {
        let (x, y) = (c.tensor(0, "self")?, c.tensor(1, "target")?);
        let l = if c.bool_or(3, "log_target", false)? {
            let (e, d) = (b.unary("Exp", &y)?, b.sub(&y, &x)?);
            b.mul(&e, &d)?
        } else {
            let zero = b.scalar(0.0, y.dtype())?;
            let l = b.unary("Log", &y)?;
            let d = b.sub(&l, &x)?;
            let p = b.mul(&y, &d)?;
            let some = b.gt(&y, &zero)?;
            b.choose(&some, &p, &zero)?
        };
        finish(b, c, &l, 2)
    }),
    ("aten.poisson_nll_loss", |b, c| {
        let (x, y) = (c.tensor(0, "input")?, c.tensor(1, "target")?);
        let y = b.cast(&y, x.dtype())?;
        if c.bool_or(3, "full", false)? {
            return Err(Error::missing("poisson_nll_loss with Stirling's terms as ONNX"));
        }
        let l = if c.bool_or(2, "log_input", true)? {
            let (e, p) = (b.unary("Exp", &x)?, b.mul(&y, &x)?);
            b.sub(&e, &p)?
        } else {
            let shifted = b.add_number(&x, c.float_or(4, "eps", 1e-8)?)?;
            let l = b.unary("Log", &shifted)?;
            let p = b.mul(&y, &l)?;
            b.sub(&x, &p)?
        };
        finish(b, c, &l, 5)
    }),
    ("aten.hinge_embedding_loss", |b, c| {
        let (x, y) = (c.tensor(0, "self")?, c.tensor(1, "target")?);
        let (zero, one) = (b.scalar(0.0, x.dtype())?, b.scalar(1.0, x.dtype())?);
        let m = b.scalar(c.float_or(2, "margin", 1.0)?, x.dtype())?;
        let y = b.cast(&y, x.dtype())?;
        let short = b.sub(&m, &x)?;
        let short = b.max(&short, &zero)?;
        let pos = b.eq(&y, &one)?;
        let l = b.choose(&pos, &x, &short)?;
        finish(b, c, &l, 3)
    }),
    ("aten.margin_ranking_loss", |b, c| {
        let (x, z, y) = (c.tensor(0, "input1")?, c.tensor(1, "input2")?, c.tensor(2, "target")?);
        let zero = b.scalar(0.0, x.dtype())?;
        let (d, y) = (b.sub(&x, &z)?, b.cast(&y, x.dtype())?);
        let p = b.mul(&d, &y)?;
        let n = b.neg(&p)?;
        let l = b.add_number(&n, c.float_or(3, "margin", 0.0)?)?;
        let l = b.max(&l, &zero)?;
        finish(b, c, &l, 4)
    }),
    ("aten.cosine_embedding_loss", |b, c| {
        let (x, z, y) = (c.tensor(0, "input1")?, c.tensor(1, "input2")?, c.tensor(2, "target")?);
        let d = x.rank() as i64 - 1;
        let dims = [d];
        let (xy, xx, zz) = (b.mul(&x, &z)?, b.mul(&x, &x)?, b.mul(&z, &z)?);
        let mut sum = |v: &Var| b.reduce("ReduceSum", v, &dims, false);
        let (xy, xx, zz) = (sum(&xy)?, sum(&xx)?, sum(&zz)?);
        let (xx, zz) = (b.add_number(&xx, 1e-12)?, b.add_number(&zz, 1e-12)?);
        let p = b.mul(&xx, &zz)?;
        let p = b.unary("Sqrt", &p)?;
        let cos = b.div(&xy, &p)?;
        let (zero, one) = (b.scalar(0.0, x.dtype())?, b.scalar(1.0, x.dtype())?);
        let far = b.sub(&one, &cos)?;
        let near = b.add_number(&cos, -c.float_or(3, "margin", 0.0)?)?;
        let near = b.max(&near, &zero)?;
        let y = b.cast(&y, x.dtype())?;
        let pos = b.eq(&y, &one)?;
        let l = b.choose(&pos, &far, &near)?;
        finish(b, c, &l, 4)
    }),
    ("aten.triplet_margin_loss", |b, c| {
        let (a, p, n) = (c.tensor(0, "anchor")?, c.tensor(1, "positive")?, c.tensor(2, "negative")?);
        let (margin, power, eps) =
            (c.float_or(3, "margin", 1.0)?, c.float_or(4, "p", 2.0)?, c.float_or(5, "eps", 1e-6)?);
        let far = |b: &mut Builder, x: &Var, y: &Var| -> Result<Var> {
            let d = b.sub(x, y)?;
            let d = b.add_number(&d, eps)?;
            p_norm(b, &d, power, &[d.rank() as i64 - 1], false)
        };
        let dp = far(b, &a, &p)?;
        let mut dn = far(b, &a, &n)?;
        if c.bool_or(6, "swap", false)? {
            let other = far(b, &p, &n)?;
            dn = b.min(&dn, &other)?;
        }
        let l = b.sub(&dp, &dn)?;
        let l = b.add_number(&l, margin)?;
        let zero = b.scalar(0.0, l.dtype())?;
        let l = b.max(&l, &zero)?;
        finish(b, c, &l, 7)
    }),
    ("aten.nll_loss_nd", |b, c| Ok(nll(b, c)?.0.into())),
    ("aten.nll_loss", |b, c| Ok(nll(b, c)?.0.into())),
    ("aten.nll_loss2d", |b, c| Ok(nll(b, c)?.0.into())),
    ("aten.nll_loss_forward", |b, c| {
        let (l, w) = nll(b, c)?;
        Ok(vec![l, w].into())
    }),
    ("aten.nll_loss2d_forward", |b, c| {
        let (l, w) = nll(b, c)?;
        Ok(vec![l, w].into())
    }),
    ("aten.cross_entropy_loss", cross_entropy),
    ("aten.cosine_similarity", |b, c| {
        let (x, y) = (c.tensor(0, "x1")?, c.tensor(1, "x2")?);
        let d = c.result_dtype().unwrap_or(x.dtype());
        let (x, y) = (b.cast(&x, d)?, b.cast(&y, d)?);
        let rank = x.rank().max(y.rank());
        let dim = c.axis(2, "dim", Some(1), rank)?;
        let least = b.scalar(c.float_or(3, "eps", 1e-8)?, d)?;
        let mut unit = |v: &Var| -> Result<Var> {
            // counted from the end: the operands may have different ranks
            let at = dim - (rank - v.rank()) as i64;
            if at < 0 {
                let n = b.unary("Abs", v)?;
                let n = b.max(&n, &least)?;
                return b.div(v, &n);
            }
            let n = b.reduce("ReduceL2", v, &[at], true)?;
            let n = b.max(&n, &least)?;
            b.div(v, &n)
        };
        let (x, y) = (unit(&x)?, unit(&y)?);
        let p = b.mul(&x, &y)?;
        Ok(b.reduce("ReduceSum", &p, &[dim], false)?.into())
    }),
    ("aten.pairwise_distance", |b, c| {
        let (x, y) = (c.tensor(0, "x1")?, c.tensor(1, "x2")?);
        let d = b.sub(&x, &y)?;
        let d = b.add_number(&d, c.float_or(3, "eps", 1e-6)?)?;
        let last = d.rank() as i64 - 1;
        Ok(p_norm(b, &d, c.float_or(2, "p", 2.0)?, &[last], c.bool_or(4, "keepdim", false)?)?.into())
    }),
    ("aten.ctc_loss", |_, _| Err(Error::missing("ctc_loss as ONNX: it has no operator to make it of"))),
];

fn gap(b: &mut Builder, c: &Call) -> Result<Var> {
    let (x, y) = (c.tensor(0, "self")?, c.tensor(1, "target")?);
    let d = c.result_dtype().unwrap_or(x.dtype());
    let (x, y) = (b.cast(&x, d)?, b.cast(&y, d)?);
    b.sub(&x, &y)
}
fn weighted(b: &mut Builder, l: &Var, w: Option<Var>) -> Result<Var> {
    match w {
        Some(w) => {
            let w = b.cast(&w, l.dtype())?;
            b.mul(l, &w)
        }
        None => Ok(l.clone()),
    }
}
fn all(v: &Var) -> Vec<i64> {
    (0..v.rank() as i64).collect()
}
/// Mean, sum, or neither, by the number of `reduction`.
fn finish(b: &mut Builder, c: &Call, l: &Var, at: usize) -> Result<Arg> {
    Ok(match c.int_or(at, "reduction", 1)? {
        0 => l.clone(),
        2 => b.reduce("ReduceSum", l, &all(l), false)?,
        _ => b.reduce("ReduceMean", l, &all(l), false)?,
    }
    .into())
}
/// Classes' dimension of scores.
fn classes(x: &Var) -> i64 {
    i64::from(x.rank() > 1)
}
/// The weight of each target, zero for those that are ignored, and the targets with 0 in place of these.
fn targets(b: &mut Builder, x: &Var, y: &Var, w: Option<&Var>, ignore: i64) -> Result<(Var, Var)> {
    let y = b.cast(y, DType::I64)?;
    let (ignore, zero) = (b.int(ignore)?, b.int(0)?);
    let out = b.eq(&y, &ignore)?;
    let counted = b.not(&out)?;
    let safe = b.choose(&counted, &y, &zero)?;
    let mut weight = b.cast(&counted, x.dtype())?;
    if let Some(w) = w {
        let own = b.gather(w, &safe, 0)?;
        weight = b.mul(&weight, &own)?;
    }
    Ok((weight, safe))
}
fn picked(b: &mut Builder, x: &Var, at: &Var) -> Result<Var> {
    let d = classes(x);
    let i = b.unsqueeze(at, &[d])?;
    let v = gather_elements(b, x, &i, d)?;
    let v = b.squeeze(&v, &[d])?;
    b.neg(&v)
}
fn reduced(b: &mut Builder, l: &Var, weight: &Var, reduction: i64) -> Result<(Var, Var)> {
    let total = b.reduce("ReduceSum", weight, &all(weight), false)?;
    Ok(match reduction {
        0 => (l.clone(), total),
        2 => (b.reduce("ReduceSum", l, &all(l), false)?, total),
        _ => {
            let s = b.reduce("ReduceSum", l, &all(l), false)?;
            (b.div(&s, &total)?, total)
        }
    })
}
fn nll(b: &mut Builder, c: &Call) -> Result<(Var, Var)> {
    let (x, y) = (c.tensor(0, "self")?, c.tensor(1, "target")?);
    let w = c.optional(2, "weight")?;
    let (reduction, ignore) = (c.int_or(3, "reduction", 1)?, c.int_or(4, "ignore_index", -100)?);
    let (weight, safe) = targets(b, &x, &y, w.as_ref(), ignore)?;
    let l = picked(b, &x, &safe)?;
    let l = b.mul(&l, &weight)?;
    reduced(b, &l, &weight, reduction)
}
fn cross_entropy(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (x, y) = (c.tensor(0, "self")?, c.tensor(1, "target")?);
    let w = c.optional(2, "weight")?;
    let (reduction, ignore) = (c.int_or(3, "reduction", 1)?, c.int_or(4, "ignore_index", -100)?);
    let smooth = c.float_or(5, "label_smoothing", 0.0)?;
    let d = classes(&x);
    let lp = b.softmax("LogSoftmax", &x, d)?;
    let own = match &w {
        Some(w) if x.rank() > 1 => Some(super::views::along(b, w, x.rank(), 1)?),
        other => other.clone(),
    };
    let n = b.size(&x, d)?;
    let n = b.dim_scalar(&n)?;
    let n = b.cast(&n, x.dtype())?;
    let each = |b: &mut Builder, v: &Var| -> Result<Var> {
        let v = match &own {
            Some(w) => b.mul(v, w)?,
            None => v.clone(),
        };
        let s = b.reduce("ReduceSum", &v, &[d], false)?;
        b.neg(&s)
    };
    if y.dtype().is_floating() {
        let y = if smooth > 0.0 {
            let y = b.mul_number(&y, 1.0 - smooth)?;
            let rest = b.scalar(smooth, x.dtype())?;
            let rest = b.div(&rest, &n)?;
            b.add(&y, &rest)?
        } else {
            y
        };
        let p = b.mul(&lp, &y)?;
        let l = each(b, &p)?;
        return Ok(match reduction {
            0 => l,
            2 => b.reduce("ReduceSum", &l, &all(&l), false)?,
            _ => b.reduce("ReduceMean", &l, &all(&l), false)?,
        }
        .into());
    }
    let (weight, safe) = targets(b, &x, &y, w.as_ref(), ignore)?;
    let l = picked(b, &lp, &safe)?;
    let mut l = b.mul(&l, &weight)?;
    if smooth > 0.0 {
        let s = each(b, &lp)?;
        let (counted, _) = targets(b, &x, &y, None, ignore)?;
        let s = b.mul(&s, &counted)?;
        let s = b.mul_number(&s, smooth)?;
        let s = b.div(&s, &n)?;
        let first = b.mul_number(&l, 1.0 - smooth)?;
        l = b.add(&first, &s)?;
    }
    Ok(reduced(b, &l, &weight, reduction)?.0.into())
}
