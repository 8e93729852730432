//! Sorting, the largest elements, unique elements.

use super::Table;
use crate::build::{Arg, Builder, Call, Dim, Var};
use crate::types::Attribute;
use flambeau_core::{DType, Error, Result};

pub(super) const TABLE: Table = &[
    ("aten.sort", sort),
    ("aten.argsort", |b, c| {
        let x = c.tensor(0, "self")?;
        let (dim, down) = direction(c);
        let d = c.axis(dim, "dim", Some(-1), x.rank())?;
        let down = c.bool_or(down, "descending", false)?;
        Ok(sorted(b, &x, d, down)?.1.into())
    }),
    ("aten.msort", |b, c| {
        let x = c.tensor(0, "self")?;
        Ok(sorted(b, &x, 0, false)?.0.into())
    }),
    ("aten.topk", |b, c| {
        let x = c.tensor(0, "self")?;
        let k = c.dim(1, "k")?;
        let d = c.axis(2, "dim", Some(-1), x.rank())?;
        let (v, i) = topk(b, &x, &k, d, c.bool_or(3, "largest", true)?)?;
        Ok(vec![v, i].into())
    }),
    ("aten.kthvalue", |b, c| {
        let x = c.tensor(0, "self")?;
        let k = c.dim(1, "k")?;
        let d = c.axis(2, "dim", Some(-1), x.rank())?;
        let keep = c.bool_or(3, "keepdim", false)?;
        let (v, i) = topk(b, &x, &k, d, false)?;
        let last = b.dim_sub(&k, &Dim::Int(1))?;
        let at = b.dims_vector(&[last])?;
        let (v, i) = (b.gather(&v, &at, d)?, b.gather(&i, &at, d)?);
        Ok(if keep { vec![v, i] } else { vec![b.squeeze(&v, &[d])?, b.squeeze(&i, &[d])?] }.into())
    }),
    ("aten._unique2", |b, c| unique(b, c, true)),
    ("aten._unique", |b, c| unique(b, c, false)),
    ("aten.unique_dim", unique_dim),
    ("aten.searchsorted", |b, c| {
        let (sorted, x) = (c.tensor(0, "sorted_sequence")?, c.arg(1, "self").clone());
        let right = c.bool_or(3, "right", false)? || c.text_or(4, "side", "left")? == "right";
        let d = crate::build::result_type(&[&Arg::Var(sorted.clone()), &x])?;
        let (sorted, x) = (b.cast(&sorted, d)?, b.value(&x, d)?);
        search(b, c, &sorted, &x, right)
    }),
    ("aten.bucketize", |b, c| {
        let (x, sorted) = (c.arg(0, "self").clone(), c.tensor(1, "boundaries")?);
        let right = c.bool_or(3, "right", false)?;
        let d = crate::build::result_type(&[&Arg::Var(sorted.clone()), &x])?;
        let (sorted, x) = (b.cast(&sorted, d)?, b.value(&x, d)?);
        search(b, c, &sorted, &x, right)
    }),
    ("aten.bincount", bincount),
    ("aten.quantile", |b, c| quantile(b, c)),
];

/// Places of `dim` and `descending`: overloads with `stable` have it first.
fn direction(c: &Call) -> (usize, usize) {
    if c.overload() == "stable" { (usize::MAX, usize::MAX) } else { (1, 2) }
}
fn sort(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let (dim, down) = direction(c);
    let d = c.axis(dim, "dim", Some(-1), x.rank())?;
    let (v, i) = sorted(b, &x, d, c.bool_or(down, "descending", false)?)?;
    Ok(vec![v, i].into())
}
pub(super) fn sorted(b: &mut Builder, x: &Var, d: i64, down: bool) -> Result<(Var, Var)> {
    if x.rank() == 0 {
        return Ok((x.clone(), b.int(0)?));
    }
    let n = b.size(x, d)?;
    topk(b, x, &n, d, down)
}
fn topk(b: &mut Builder, x: &Var, k: &Dim, d: i64, largest: bool) -> Result<(Var, Var)> {
    if x.rank() == 0 {
        return Ok((x.clone(), b.int(0)?));
    }
    let of = x.dtype();
    let x = if of == DType::Bool { b.cast(x, DType::I32)? } else { x.clone() };
    let mut shape = x.shape.clone();
    shape[d as usize] = k.known();
    let k = b.dims_vector(std::slice::from_ref(k))?;
    let attr = vec![
        Attribute::int("axis", d),
        Attribute::int("largest", i64::from(largest)),
        Attribute::int("sorted", 1),
    ];
    let out = b.nodes("TopK", &[&x, &k], attr, &[(x.dtype(), shape.clone()), (DType::I64, shape)])?;
    let [v, i] = <[Var; 2]>::try_from(out).map_err(|_| Error::runtime("TopK has two results"))?;
    Ok((b.cast(&v, of)?, i))
}
fn unique_node(b: &mut Builder, x: &Var, axis: Option<i64>) -> Result<Vec<Var>> {
    let of = x.dtype();
    let x = match of {
        DType::F64 | DType::F32 | DType::F16 | DType::I64 | DType::I8 => x.clone(),
        DType::BF16 => b.cast(x, DType::F32)?,
        _ => b.cast(x, DType::I64)?,
    };
    let mut attr = vec![Attribute::int("sorted", 1)];
    let mut shape = vec![None];
    if let Some(a) = axis {
        attr.push(Attribute::int("axis", a));
        shape = x.shape.clone();
        shape[a as usize] = None;
    }
    let index = (DType::I64, vec![None]);
    let mut out =
        b.nodes("Unique", &[&x], attr, &[(x.dtype(), shape), index.clone(), index.clone(), index])?;
    out[0] = b.cast(&out[0].clone(), of)?;
    Ok(out)
}
fn unique(b: &mut Builder, c: &Call, counts: bool) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let out = unique_node(b, &x, None)?;
    let to = b.sizes(&x)?;
    let back = b.reshape(&out[2], &to)?;
    let mut all = vec![out[0].clone(), back];
    if counts {
        all.push(out[3].clone());
    }
    Ok(all.into())
}
fn unique_dim(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let d = c.axis(1, "dim", None, x.rank())?;
    let out = unique_node(b, &x, Some(d))?;
    Ok(vec![out[0].clone(), out[2].clone(), out[3].clone()].into())
}
/// How many of the sorted elements come before each value.
fn search(b: &mut Builder, c: &Call, sorted: &Var, x: &Var, right: bool) -> Result<Arg> {
    let d = c.result_dtype().unwrap_or(DType::I64);
    // values along a new last dimension against the sequence
    let last = x.rank() as i64;
    let wide = b.unsqueeze(x, &[last])?;
    let seq = if sorted.rank() > 1 {
        let at = sorted.rank() as i64 - 1;
        b.unsqueeze(sorted, &[at])?
    } else {
        sorted.clone()
    };
    let before = if right { b.le(&seq, &wide)? } else { b.lt(&seq, &wide)? };
    let before = b.cast(&before, DType::I64)?;
    let at = before.rank() as i64 - 1;
    let n = b.reduce("ReduceSum", &before, &[at], false)?;
    Ok(b.cast(&n, d)?.into())
}
fn bincount(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let x = b.cast(&x, DType::I64)?;
    let least = b.int(c.int_or(2, "minlength", 0)?)?;
    let minus = b.ints(&[-1])?;
    let padded = b.concat(&[x.clone(), minus], 0)?;
    let top = b.reduce("ReduceMax", &padded, &[0], false)?;
    let n = b.add_number(&top, 1.0)?;
    let n = b.max(&n, &least)?;
    let all = b.range(&Dim::Int(0), &Dim::Var(n))?;
    let rows = b.unsqueeze(&all, &[1])?;
    let hit = b.eq(&rows, &x)?;
    let d = c.result_dtype().unwrap_or(DType::I64);
    let hit = b.cast(&hit, d)?;
    let hit = match c.optional(1, "weights")? {
        Some(w) => {
            let w = b.cast(&w, d)?;
            b.mul(&hit, &w)?
        }
        None => hit,
    };
    Ok(b.reduce("ReduceSum", &hit, &[1], false)?.into())
}
fn quantile(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let q = b.value(&c.arg(1, "q").clone(), x.dtype())?;
    let way = c.text_or(usize::MAX, "interpolation", "linear")?.to_string();
    let keep = c.bool_or(3, "keepdim", false)?;
    let (flat, d) = if c.arg(2, "dim").is_none() {
        (b.reshape_to(&x, &[-1])?, 0)
    } else {
        let d = c.axis(2, "dim", None, x.rank())?;
        (x.clone(), d)
    };
    let last = flat.rank() as i64 - 1;
    let mut order: Vec<i64> = (0..=last).filter(|i| *i != d).collect();
    order.push(d);
    let moved = b.transpose(&flat, &order)?;
    let (values, _) = sorted(b, &moved, last, false)?;
    let n = b.size(&values, last)?;
    let n = b.dim_sub(&n, &Dim::Int(1))?;
    let n = b.dim_scalar(&n)?;
    let n = b.cast(&n, x.dtype())?;
    let flat_q = b.reshape_to(&q, &[-1])?;
    let at = b.mul(&flat_q, &n)?;
    let (low, high) = (b.unary("Floor", &at)?, b.unary("Ceil", &at)?);
    let (li, hi) = (b.cast(&low, DType::I64)?, b.cast(&high, DType::I64)?);
    let (lv, hv) = (b.gather(&values, &li, last)?, b.gather(&values, &hi, last)?);
    let out = match way.as_str() {
        "lower" => lv,
        "higher" => hv,
        "midpoint" => {
            let s = b.add(&lv, &hv)?;
            b.mul_number(&s, 0.5)?
        }
        "nearest" => {
            let r = b.unary("Round", &at)?;
            let i = b.cast(&r, DType::I64)?;
            b.gather(&values, &i, last)?
        }
        _ => {
            let (w, gap) = (b.sub(&at, &low)?, b.sub(&hv, &lv)?);
            let part = b.mul(&gap, &w)?;
            b.add(&lv, &part)?
        }
    };
    // quantiles first, then the dimensions that stayed
    let mut order = vec![last];
    order.extend(0..last);
    let mut out = b.transpose(&out, &order)?;
    if keep {
        let dims: Vec<i64> =
            if c.arg(2, "dim").is_none() { (1..=x.rank() as i64).collect() } else { vec![d + 1] };
        out = b.unsqueeze(&out, &dims)?;
    }
    Ok(if q.rank() == 0 { b.squeeze(&out, &[0])? } else { out }.into())
}
