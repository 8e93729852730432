//! Comparisons, logic on bools and bits, choices.

use super::arithmetic::signbit;
use super::{Table, operands};
use crate::build::{Arg, Builder, Call, Var, result_type};
use flambeau_core::{DType, Result};

pub(super) const TABLE: Table = &[
    ("aten.eq", |b, c| compare(b, c, "Equal", false)),
    ("aten.ne", |b, c| compare(b, c, "Equal", true)),
    ("aten.not_equal", |b, c| compare(b, c, "Equal", true)),
    ("aten.gt", |b, c| compare(b, c, "Greater", false)),
    ("aten.greater", |b, c| compare(b, c, "Greater", false)),
    ("aten.lt", |b, c| compare(b, c, "Less", false)),
    ("aten.less", |b, c| compare(b, c, "Less", false)),
    ("aten.ge", |b, c| compare(b, c, "GreaterOrEqual", false)),
    ("aten.greater_equal", |b, c| compare(b, c, "GreaterOrEqual", false)),
    ("aten.le", |b, c| compare(b, c, "LessOrEqual", false)),
    ("aten.less_equal", |b, c| compare(b, c, "LessOrEqual", false)),
    ("aten.logical_and", |b, c| logical(b, c, "And")),
    ("aten.logical_or", |b, c| logical(b, c, "Or")),
    ("aten.logical_xor", |b, c| logical(b, c, "Xor")),
    ("aten.logical_not", |b, c| {
        let x = c.tensor(0, "self")?;
        let x = b.cast(&x, DType::Bool)?;
        Ok(b.not(&x)?.into())
    }),
    ("aten.bitwise_and", |b, c| bits(b, c, "And", "BitwiseAnd")),
    ("aten.__and__", |b, c| bits(b, c, "And", "BitwiseAnd")),
    ("aten.bitwise_or", |b, c| bits(b, c, "Or", "BitwiseOr")),
    ("aten.__or__", |b, c| bits(b, c, "Or", "BitwiseOr")),
    ("aten.bitwise_xor", |b, c| bits(b, c, "Xor", "BitwiseXor")),
    ("aten.__xor__", |b, c| bits(b, c, "Xor", "BitwiseXor")),
    ("aten.bitwise_not", |b, c| {
        let x = c.tensor(0, "self")?;
        let op = if x.dtype() == DType::Bool { "Not" } else { "BitwiseNot" };
        Ok(b.unary(op, &x)?.into())
    }),
    ("aten.isnan", |b, c| {
        let x = c.tensor(0, "self")?;
        Ok(float_only(b, &x, "IsNaN")?.into())
    }),
    ("aten.isinf", |b, c| {
        let x = c.tensor(0, "self")?;
        Ok(float_only(b, &x, "IsInf")?.into())
    }),
    ("aten.isfinite", |b, c| {
        let x = c.tensor(0, "self")?;
        let (nan, inf) = (float_only(b, &x, "IsNaN")?, float_only(b, &x, "IsInf")?);
        let neither = b.or(&nan, &inf)?;
        Ok(b.not(&neither)?.into())
    }),
    ("aten.isposinf", |b, c| is_infinite(b, c, f64::INFINITY)),
    ("aten.isneginf", |b, c| is_infinite(b, c, f64::NEG_INFINITY)),
    ("aten.signbit", |b, c| {
        let x = c.tensor(0, "self")?;
        if x.dtype() == DType::Bool {
            let no = b.not(&x)?;
            return Ok(b.and(&x, &no)?.into());
        }
        Ok(signbit(b, &x)?.into())
    }),
    ("aten.isclose", |b, c| Ok(isclose(b, c)?.into())),
    ("aten.allclose", |b, c| {
        let x = isclose(b, c)?;
        Ok(super::reduction::every(b, &x, None, false, "ReduceMin")?.into())
    }),
    ("aten.equal", |b, c| {
        let (x, y) = (c.tensor(0, "self")?, c.tensor(1, "other")?);
        let e = b.eq(&x, &y)?;
        Ok(super::reduction::every(b, &e, None, false, "ReduceMin")?.into())
    }),
    ("aten.where", choose),
    ("aten.masked_fill", masked_fill),
    ("aten.isin", isin),
];

fn compare(b: &mut Builder, c: &Call, op: &str, opposite: bool) -> Result<Arg> {
    let (x, y) = operands(c);
    let d = result_type(&[&x, &y])?;
    let (x, y) = (b.value(&x, d)?, b.value(&y, d)?);
    let e = b.compare(op, &x, &y)?;
    Ok(if opposite { b.not(&e)? } else { e }.into())
}
fn logical(b: &mut Builder, c: &Call, op: &str) -> Result<Arg> {
    let (x, y) = operands(c);
    let (x, y) = (b.value(&x, DType::Bool)?, b.value(&y, DType::Bool)?);
    Ok(b.pair(op, &x, &y)?.into())
}
fn bits(b: &mut Builder, c: &Call, bools: &str, ints: &str) -> Result<Arg> {
    let (x, y) = operands(c);
    let d = result_type(&[&x, &y])?;
    let (x, y) = (b.value(&x, d)?, b.value(&y, d)?);
    Ok(b.pair(if d == DType::Bool { bools } else { ints }, &x, &y)?.into())
}
fn float_only(b: &mut Builder, x: &Var, op: &str) -> Result<Var> {
    if x.dtype().is_floating() {
        return b.unary_bool(op, x);
    }
    let t = b.cast(x, DType::F32)?;
    b.unary_bool(op, &t)
}
fn is_infinite(b: &mut Builder, c: &Call, at: f64) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let x = if x.dtype().is_floating() { x } else { b.cast(&x, DType::F32)? };
    let inf = b.scalar(at, x.dtype())?;
    Ok(b.eq(&x, &inf)?.into())
}
fn isclose(b: &mut Builder, c: &Call) -> Result<Var> {
    let (x, y) = operands(c);
    let d = result_type(&[&x, &y])?;
    let (x, y) = (b.value(&x, d)?, b.value(&y, d)?);
    let wide = if d.is_floating() { d } else { DType::F64 };
    let (xf, yf) = (b.cast(&x, wide)?, b.cast(&y, wide)?);
    let (rtol, atol) = (c.float_or(2, "rtol", 1e-5)?, c.float_or(3, "atol", 1e-8)?);
    let gap = b.sub(&xf, &yf)?;
    let gap = b.unary("Abs", &gap)?;
    let size = b.unary("Abs", &yf)?;
    let most = b.mul_number(&size, rtol)?;
    let most = b.add_number(&most, atol)?;
    let near = b.le(&gap, &most)?;
    let inf = b.scalar(f64::INFINITY, wide)?;
    let finite = b.lt(&gap, &inf)?;
    let near = b.and(&near, &finite)?;
    let same = b.eq(&xf, &yf)?;
    let mut out = b.or(&near, &same)?;
    if c.bool_or(4, "equal_nan", false)? {
        let (a, z) = (b.unary_bool("IsNaN", &xf)?, b.unary_bool("IsNaN", &yf)?);
        let both = b.and(&a, &z)?;
        out = b.or(&out, &both)?;
    }
    Ok(out)
}
fn choose(b: &mut Builder, c: &Call) -> Result<Arg> {
    let cond = c.tensor(0, "condition")?;
    if c.args.len() + c.kwargs.len() == 1 {
        let rows = super::indexing::nonzero(b, &cond)?;
        return super::indexing::columns(b, &rows, cond.rank());
    }
    let (x, y) = (c.arg(1, "self").clone(), c.arg(2, "other").clone());
    let d = match c.result_dtype() {
        Some(d) => d,
        None => result_type(&[&x, &y])?,
    };
    let (x, y) = (b.value(&x, d)?, b.value(&y, d)?);
    Ok(b.choose(&cond, &x, &y)?.into())
}
fn masked_fill(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (x, mask) = (c.tensor(0, "self")?, c.tensor(1, "mask")?);
    let d = c.result_dtype().unwrap_or(x.dtype());
    let (x, v) = (b.cast(&x, d)?, b.value(c.arg(2, "value"), d)?);
    Ok(b.choose(&mask, &v, &x)?.into())
}
fn isin(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (x, set) = (c.arg(0, "elements").clone(), c.arg(1, "test_elements").clone());
    let d = result_type(&[&x, &set])?;
    let (x, set) = (b.value(&x, d)?, b.value(&set, d)?);
    let flat = b.reshape_to(&set, &[-1])?;
    let last = x.rank() as i64;
    let each = b.unsqueeze(&x, &[last])?;
    let e = b.eq(&each, &flat)?;
    let any = super::reduction::every(b, &e, Some(&[last]), false, "ReduceMax")?;
    Ok(if c.bool_or(3, "invert", false)? { b.not(&any)? } else { any }.into())
}
