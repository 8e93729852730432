//! Running sums, products and extrema; differences.

use super::Table;
use crate::build::{Arg, Builder, Call, Dim, Var};
use crate::types::Attribute;
use flambeau_core::{DType, Result};

pub(super) const TABLE: Table = &[
    ("aten.cumsum", |b, c| {
        let (x, d) = operand(b, c)?;
        Ok(cumsum(b, &x, d)?.into())
    }),
    ("aten.cumprod", |b, c| {
        let (x, d) = operand(b, c)?;
        if x.rank() == 0 {
            return Ok(x.into());
        }
        let one = b.scalar(1.0, x.dtype())?;
        let rows = prefixes(b, &x, d, &one)?;
        let last = rows.rank() as i64 - 1;
        let out = b.reduce("ReduceProd", &rows, &[last], false)?;
        Ok(from_last(b, &out, d)?.into())
    }),
    ("aten.logcumsumexp", |b, c| {
        let (x, d) = operand(b, c)?;
        if x.rank() == 0 {
            return Ok(x.into());
        }
        let none = b.scalar(f64::NEG_INFINITY, x.dtype())?;
        let rows = prefixes(b, &x, d, &none)?;
        let last = rows.rank() as i64 - 1;
        let out = b.reduce("ReduceLogSumExp", &rows, &[last], false)?;
        Ok(from_last(b, &out, d)?.into())
    }),
    ("aten.cummax", |b, c| running(b, c, true)),
    ("aten.cummin", |b, c| running(b, c, false)),
    ("aten.diff", diff),
    ("aten.trapezoid", |b, c| trapezoid(b, c)),
    ("aten.trapz", |b, c| trapezoid(b, c)),
];

fn operand(b: &mut Builder, c: &Call) -> Result<(Var, i64)> {
    let x = c.tensor(0, "self")?;
    let d = c.axis(1, "dim", None, x.rank())?;
    let to = c.result_dtype().unwrap_or(x.dtype());
    Ok((b.cast(&x, to)?, d))
}
pub(super) fn cumsum(b: &mut Builder, x: &Var, d: i64) -> Result<Var> {
    if x.rank() == 0 {
        return Ok(x.clone());
    }
    let d = b.int(d)?;
    b.node("CumSum", &[x, &d], Vec::new(), x.dtype(), x.shape.clone())
}
/// The dimension last, and before it a new one: row `i` holds the first `i + 1` elements, and `fill` behind them.
fn prefixes(b: &mut Builder, x: &Var, d: i64, fill: &Var) -> Result<Var> {
    let last = x.rank() as i64 - 1;
    let mut order: Vec<i64> = (0..=last).filter(|i| *i != d).collect();
    order.push(d);
    let x = b.transpose(x, &order)?;
    let n = b.size(&x, last)?;
    let all = b.range(&Dim::Int(0), &n)?;
    let rows = b.unsqueeze(&all, &[1])?;
    let within = b.le(&all, &rows)?;
    let x = b.unsqueeze(&x, &[last])?;
    b.choose(&within, &x, fill)
}
/// The last dimension back at its place.
fn from_last(b: &mut Builder, x: &Var, d: i64) -> Result<Var> {
    let last = x.rank() as i64 - 1;
    let mut order: Vec<i64> = (0..last).collect();
    order.insert(d as usize, last);
    b.transpose(x, &order)
}
fn running(b: &mut Builder, c: &Call, max: bool) -> Result<Arg> {
    let (x, d) = operand(b, c)?;
    if x.rank() == 0 {
        let i = b.int(0)?;
        return Ok(vec![x, i].into());
    }
    let of = x.dtype();
    let x = if of == DType::Bool { b.cast(&x, DType::I32)? } else { x };
    let end = if x.dtype().is_floating() {
        if max { f64::NEG_INFINITY } else { f64::INFINITY }
    } else {
        let info = flambeau_core::iinfo(x.dtype())?;
        if max { info.min as f64 } else { info.max as f64 }
    };
    let fill = b.scalar(end, x.dtype())?;
    let rows = prefixes(b, &x, d, &fill)?;
    let last = rows.rank() as i64 - 1;
    let op = if max { "ReduceMax" } else { "ReduceMin" };
    let best = b.reduce(op, &rows, &[last], true)?;
    // the last of equal elements, but none behind the row's end
    let hit = b.eq(&rows, &best)?;
    let n = b.size(&rows, last)?;
    let all = b.range(&Dim::Int(0), &n)?;
    let ends = b.unsqueeze(&all, &[1])?;
    let within = b.le(&all, &ends)?;
    let hit = b.and(&hit, &within)?;
    let hit = b.cast(&hit, DType::I32)?;
    let attr = vec![
        Attribute::int("axis", last),
        Attribute::int("keepdims", 0),
        Attribute::int("select_last_index", 1),
    ];
    let shape = Builder::reduced(&rows, &[last], false);
    let index = b.node("ArgMax", &[&hit], attr, DType::I64, shape)?;
    let best = b.squeeze(&best, &[last])?;
    let best = b.cast(&best, of)?;
    Ok(vec![from_last(b, &best, d)?, from_last(b, &index, d)?].into())
}
fn diff(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let n = c.int_or(1, "n", 1)?;
    let d = c.axis(2, "dim", Some(-1), x.rank())?;
    let mut parts = Vec::new();
    parts.extend(c.optional(3, "prepend")?);
    parts.push(x.clone());
    parts.extend(c.optional(4, "append")?);
    let mut x = b.concat(&parts, d)?;
    for _ in 0..n {
        let (after, before) = (b.narrow(&x, d, 1, i64::MAX)?, b.narrow(&x, d, 0, -1)?);
        x = if x.dtype() == DType::Bool { b.xor(&after, &before)? } else { b.sub(&after, &before)? };
    }
    Ok(x.into())
}
fn trapezoid(b: &mut Builder, c: &Call) -> Result<Arg> {
    let y = c.tensor(0, "y")?;
    let y = b.cast(&y, c.result_dtype().unwrap_or(y.dtype()))?;
    let d = c.axis(2, "dim", Some(-1), y.rank())?;
    let (after, before) = (b.narrow(&y, d, 1, i64::MAX)?, b.narrow(&y, d, 0, -1)?);
    let both = b.add(&after, &before)?;
    let scaled = match c.optional(1, "x")? {
        Some(x) => {
            let x = b.cast(&x, y.dtype())?;
            let xd = if x.rank() == 1 { 0 } else { d };
            let (p, q) = (b.narrow(&x, xd, 1, i64::MAX)?, b.narrow(&x, xd, 0, -1)?);
            let w = b.sub(&p, &q)?;
            let w = if x.rank() == 1 { super::views::along(b, &w, y.rank(), d)? } else { w };
            b.mul(&both, &w)?
        }
        None => b.mul_number(&both, c.float_or(usize::MAX, "dx", 1.0)?)?,
    };
    let half = b.mul_number(&scaled, 0.5)?;
    Ok(b.reduce("ReduceSum", &half, &[d], false)?.into())
}
