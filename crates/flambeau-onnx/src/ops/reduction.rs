//! Sums, means, extrema, norms: what takes dimensions away.

use super::Table;
use crate::build::{Arg, Builder, Call, Dim, Var};
use crate::types::Attribute;
use flambeau_core::{DType, Error, Result};

pub(super) const TABLE: Table = &[
    ("aten.sum", |b, c| summed(b, c, "ReduceSum")),
    ("aten.nansum", nansum),
    ("aten.mean", |b, c| summed(b, c, "ReduceMean")),
    ("aten.prod", |b, c| summed(b, c, "ReduceProd")),
    ("aten.amax", |b, c| extreme(b, c, "ReduceMax")),
    ("aten.amin", |b, c| extreme(b, c, "ReduceMin")),
    ("aten.aminmax", |b, c| {
        let x = c.tensor(0, "self")?;
        let dims = c.axes(usize::MAX, "dim", x.rank())?;
        let keep = c.bool_or(usize::MAX, "keepdim", false)?;
        Ok(vec![b.reduce("ReduceMin", &x, &dims, keep)?, b.reduce("ReduceMax", &x, &dims, keep)?].into())
    }),
    ("aten.max", |b, c| max_or_min(b, c, "Max")),
    ("aten.min", |b, c| max_or_min(b, c, "Min")),
    ("aten.argmax", |b, c| arg_extreme(b, c, "ArgMax")),
    ("aten.argmin", |b, c| arg_extreme(b, c, "ArgMin")),
    ("aten.any", |b, c| any_or_all(b, c, "ReduceMax")),
    ("aten.all", |b, c| any_or_all(b, c, "ReduceMin")),
    ("aten.var", |b, c| spread(b, c, false, false)),
    ("aten.std", |b, c| spread(b, c, true, false)),
    ("aten.var_mean", |b, c| spread(b, c, false, true)),
    ("aten.std_mean", |b, c| spread(b, c, true, true)),
    ("prims.var", |b, c| spread(b, c, false, false)),
    ("prims.sum", |b, c| summed(b, c, "ReduceSum")),
    ("aten.logsumexp", logsumexp),
    ("aten.norm", norm),
    ("aten.linalg_vector_norm", vector_norm),
    ("aten.frobenius_norm", |b, c| {
        let x = c.tensor(0, "self")?;
        let dims = c.axes(1, "dim", x.rank())?;
        Ok(p_norm(b, &x, 2.0, &dims, c.bool_or(2, "keepdim", false)?)?.into())
    }),
    ("aten.linalg_norm", linalg_norm),
    ("aten.linalg_matrix_norm", linalg_norm),
    ("aten.count_nonzero", |b, c| {
        let x = c.tensor(0, "self")?;
        let x = b.cast(&x, DType::Bool)?;
        let x = b.cast(&x, DType::I64)?;
        let dims = c.axes(1, "dim", x.rank())?;
        Ok(b.reduce("ReduceSum", &x, &dims, false)?.into())
    }),
    ("aten.trace", |b, c| {
        let x = c.tensor(0, "self")?;
        let d = c.result_dtype().unwrap_or(x.dtype());
        let call = Call {
            target: "aten.diagonal.default".into(),
            args: vec![x.into()],
            kwargs: Vec::new(),
            result: None,
        };
        let Arg::Var(v) =
            (super::find("aten.diagonal").ok_or_else(|| Error::runtime("no diagonal"))?)(b, &call)?
        else {
            return Err(Error::runtime("a diagonal that is no tensor"));
        };
        let v = b.cast(&v, d)?;
        Ok(b.reduce("ReduceSum", &v, &[0], false)?.into())
    }),
    ("aten.dist", |b, c| {
        let (x, y) = super::promoted(b, c)?;
        let p = c.float_or(2, "p", 2.0)?;
        let z = b.sub(&x, &y)?;
        let dims: Vec<i64> = (0..z.rank() as i64).collect();
        Ok(p_norm(b, &z, p, &dims, false)?.into())
    }),
    ("aten.renorm", |b, c| {
        let x = c.tensor(0, "self")?;
        let (p, d) = (c.float_or(1, "p", 2.0)?, c.axis(2, "dim", None, x.rank())?);
        let most = b.value(&c.arg(3, "maxnorm").clone(), x.dtype())?;
        let dims: Vec<i64> = (0..x.rank() as i64).filter(|i| *i != d).collect();
        let n = p_norm(b, &x, p, &dims, true)?;
        let eps = b.add_number(&n, 1e-7)?;
        let f = b.div(&most, &eps)?;
        let (one, over) = (b.scalar(1.0, x.dtype())?, b.gt(&n, &most)?);
        let f = b.choose(&over, &f, &one)?;
        Ok(b.mul(&x, &f)?.into())
    }),
    ("aten.median", |b, c| median(b, c, false)),
    ("aten.nanmedian", |b, c| median(b, c, true)),
];

/// `sum`, `mean`, `prod`, with `dim` or without.
fn summed(b: &mut Builder, c: &Call, op: &str) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let d = c.result_dtype().unwrap_or(x.dtype());
    let x = b.cast(&x, d)?;
    let whole = c.overload() == "default";
    let (dims, keep) = if whole {
        ((0..x.rank() as i64).collect(), false)
    } else {
        (c.axes(1, "dim", x.rank())?, c.bool_or(2, "keepdim", false)?)
    };
    Ok(b.reduce(op, &x, &dims, keep)?.into())
}
fn nansum(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let d = c.result_dtype().unwrap_or(x.dtype());
    let x = b.cast(&x, d)?;
    let x = if d.is_floating() {
        let (nan, zero) = (b.unary_bool("IsNaN", &x)?, b.scalar(0.0, d)?);
        b.choose(&nan, &zero, &x)?
    } else {
        x
    };
    let dims = c.axes(1, "dim", x.rank())?;
    Ok(b.reduce("ReduceSum", &x, &dims, c.bool_or(2, "keepdim", false)?)?.into())
}
fn reduced_of_bools(b: &mut Builder, op: &str, x: &Var, dims: &[i64], keep: bool) -> Result<Var> {
    if x.dtype() != DType::Bool {
        return b.reduce(op, x, dims, keep);
    }
    let i = b.cast(x, DType::I32)?;
    let r = b.reduce(op, &i, dims, keep)?;
    b.cast(&r, DType::Bool)
}
fn extreme(b: &mut Builder, c: &Call, op: &str) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let dims = c.axes(1, "dim", x.rank())?;
    Ok(reduced_of_bools(b, op, &x, &dims, c.bool_or(2, "keepdim", false)?)?.into())
}
fn max_or_min(b: &mut Builder, c: &Call, op: &str) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    match c.overload() {
        "other" => {
            let (x, y) = super::promoted(b, c)?;
            let op = match (x.dtype(), op) {
                (DType::Bool, "Max") => "Or",
                (DType::Bool, _) => "And",
                _ => op,
            };
            Ok(b.pair(op, &x, &y)?.into())
        }
        "dim" | "names_dim" => {
            let d = c.axis(1, "dim", None, x.rank())?;
            let keep = c.bool_or(2, "keepdim", false)?;
            let values = reduced_of_bools(b, &format!("Reduce{op}"), &x, &[d], keep)?;
            let index = arg_of(b, &format!("Arg{op}"), &x, d, keep)?;
            Ok(vec![values, index].into())
        }
        _ => {
            let all: Vec<i64> = (0..x.rank() as i64).collect();
            Ok(reduced_of_bools(b, &format!("Reduce{op}"), &x, &all, false)?.into())
        }
    }
}
fn arg_of(b: &mut Builder, op: &str, x: &Var, d: i64, keep: bool) -> Result<Var> {
    let x = if x.dtype() == DType::Bool { b.cast(x, DType::I32)? } else { x.clone() };
    if x.rank() == 0 {
        return b.int(0);
    }
    let shape = Builder::reduced(&x, &[d], keep);
    let attr = vec![Attribute::int("axis", d), Attribute::int("keepdims", i64::from(keep))];
    b.node(op, &[&x], attr, DType::I64, shape)
}
fn arg_extreme(b: &mut Builder, c: &Call, op: &str) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let keep = c.bool_or(2, "keepdim", false)?;
    if c.arg(1, "dim").is_none() {
        let flat = b.reshape_to(&x, &[-1])?;
        let i = arg_of(b, op, &flat, 0, false)?;
        let ones = if keep { vec![1; x.rank()] } else { Vec::new() };
        return Ok(b.reshape_to(&i, &ones)?.into());
    }
    let d = c.axis(1, "dim", None, x.rank())?;
    Ok(arg_of(b, op, &x, d, keep)?.into())
}
/// Whether all (`ReduceMin`) or any (`ReduceMax`) are not zero.
pub(super) fn every(b: &mut Builder, x: &Var, dims: Option<&[i64]>, keep: bool, op: &str) -> Result<Var> {
    let x = b.cast(x, DType::Bool)?;
    let x = b.cast(&x, DType::I32)?;
    let all: Vec<i64> = (0..x.rank() as i64).collect();
    let dims = dims.unwrap_or(&all);
    // by sums: of no elements too
    let r = if op == "ReduceMax" {
        let s = b.reduce("ReduceSum", &x, dims, keep)?;
        let zero = b.scalar(0.0, DType::I32)?;
        return b.gt(&s, &zero);
    } else {
        let one = b.scalar(1.0, DType::I32)?;
        let no = b.sub(&one, &x)?;
        b.reduce("ReduceSum", &no, dims, keep)?
    };
    let zero = b.scalar(0.0, DType::I32)?;
    b.eq(&r, &zero)
}
fn any_or_all(b: &mut Builder, c: &Call, op: &str) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let d = c.result_dtype().unwrap_or(DType::Bool);
    let dims = c.axes(1, "dim", x.rank())?;
    let keep = c.bool_or(2, "keepdim", false)?;
    let out = every(b, &x, Some(&dims), keep, op)?;
    Ok(b.cast(&out, d)?.into())
}
fn spread(b: &mut Builder, c: &Call, root: bool, with_mean: bool) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let rank = x.rank();
    let (dims, correction, keep) = match c.overload() {
        // (unbiased)
        "default" if !c.target().starts_with("prims.") => (
            (0..rank as i64).collect::<Vec<_>>(),
            f64::from(u8::from(c.bool_or(1, "unbiased", true)?)),
            false,
        ),
        // (dim, unbiased, keepdim)
        "dim" => (
            c.axes(1, "dim", rank)?,
            f64::from(u8::from(c.bool_or(2, "unbiased", true)?)),
            c.bool_or(3, "keepdim", false)?,
        ),
        _ => {
            let name = if c.target().starts_with("prims.") { "dims" } else { "dim" };
            (
                c.axes(1, name, rank)?,
                c.float_or(usize::MAX, "correction", 1.0)?,
                c.bool_or(usize::MAX, "keepdim", false)?,
            )
        }
    };
    let (v, m) = variance(b, &x, &dims, correction, keep)?;
    let v = if root { b.unary("Sqrt", &v)? } else { v };
    Ok(if with_mean { vec![v, m].into() } else { v.into() })
}
/// Variance and mean.
pub(super) fn variance(
    b: &mut Builder,
    x: &Var,
    dims: &[i64],
    correction: f64,
    keep: bool,
) -> Result<(Var, Var)> {
    let mean = b.reduce("ReduceMean", x, dims, true)?;
    let gap = b.sub(x, &mean)?;
    let sq = b.mul(&gap, &gap)?;
    let m = if keep { mean } else { b.squeeze(&mean, if x.rank() == 0 { &[] } else { dims })? };
    if correction == 0.0 {
        return Ok((b.reduce("ReduceMean", &sq, dims, keep)?, m));
    }
    let sum = b.reduce("ReduceSum", &sq, dims, keep)?;
    let n = if x.rank() == 0 { Dim::Int(1) } else { b.count(x, dims)? };
    let n = match n {
        Dim::Int(n) => b.scalar((n as f64 - correction).max(0.0), x.dtype())?,
        Dim::Var(v) => {
            let n = b.cast(&v, x.dtype())?;
            let n = b.add_number(&n, -correction)?;
            let zero = b.scalar(0.0, x.dtype())?;
            b.max(&n, &zero)?
        }
    };
    Ok((b.div(&sum, &n)?, m))
}
fn logsumexp(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let d = c.result_dtype().unwrap_or(DType::F32);
    let x = b.cast(&x, d)?;
    let dims = c.axes(1, "dim", x.rank())?;
    let keep = c.bool_or(2, "keepdim", false)?;
    if x.rank() == 0 {
        return Ok(x.into());
    }
    Ok(b.reduce("ReduceLogSumExp", &x, &dims, keep)?.into())
}
/// The p-norm over dimensions.
pub(super) fn p_norm(b: &mut Builder, x: &Var, p: f64, dims: &[i64], keep: bool) -> Result<Var> {
    let x = &if x.dtype().is_complex() { b.complex_abs(x)? } else { x.clone() };
    if p == 1.0 {
        return b.reduce("ReduceL1", x, dims, keep);
    }
    if p == 2.0 {
        return b.reduce("ReduceL2", x, dims, keep);
    }
    let a = b.unary("Abs", x)?;
    if p == f64::INFINITY {
        return b.reduce("ReduceMax", &a, dims, keep);
    }
    if p == f64::NEG_INFINITY {
        return b.reduce("ReduceMin", &a, dims, keep);
    }
    if p == 0.0 {
        let some = b.cast(&a, DType::Bool)?;
        let some = b.cast(&some, x.dtype())?;
        return b.reduce("ReduceSum", &some, dims, keep);
    }
    let q = b.pow_number(&a, p)?;
    let s = b.reduce("ReduceSum", &q, dims, keep)?;
    b.pow_number(&s, 1.0 / p)
}
fn floating(b: &mut Builder, c: &Call) -> Result<Var> {
    let x = c.tensor(0, "self")?;
    match c.result_dtype() {
        Some(d) if !x.dtype().is_complex() => b.cast(&x, d),
        _ => Ok(x),
    }
}
fn vector_norm(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = floating(b, c)?;
    let p = c.float_or(1, "ord", 2.0)?;
    let dims = c.axes(2, "dim", x.rank())?;
    Ok(p_norm(b, &x, p, &dims, c.bool_or(3, "keepdim", false)?)?.into())
}
fn norm(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = floating(b, c)?;
    let p = match c.arg(1, "p") {
        Arg::Str(s) if s == "fro" => 2.0,
        _ => c.float_or(1, "p", 2.0)?,
    };
    let by_dim = matches!(c.overload(), "ScalarOpt_dim" | "ScalarOpt_dim_dtype" | "names_ScalarOpt_dim");
    let dims = if by_dim { c.axes(2, "dim", x.rank())? } else { (0..x.rank() as i64).collect() };
    let keep = by_dim && c.bool_or(3, "keepdim", false)?;
    Ok(p_norm(b, &x, p, &dims, keep)?.into())
}
fn linalg_norm(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = floating(b, c)?;
    let keep = c.bool_or(3, "keepdim", false)?;
    let matrix = c.target().contains("matrix_norm");
    let dims = if matrix && c.arg(2, "dim").is_none() {
        vec![x.rank() as i64 - 2, x.rank() as i64 - 1]
    } else {
        c.axes(2, "dim", x.rank())?
    };
    let ord = c.arg(1, "ord").clone();
    if let (Arg::None, false) = (&ord, matrix) {
        return Ok(p_norm(b, &x, 2.0, &dims, keep)?.into());
    }
    if dims.len() == 1 {
        let p = c.float_or(1, "ord", 2.0)?;
        return Ok(p_norm(b, &x, p, &dims, keep)?.into());
    }
    match ord {
        Arg::None => Ok(p_norm(b, &x, 2.0, &dims, keep)?.into()),
        Arg::Str(s) if s == "fro" => Ok(p_norm(b, &x, 2.0, &dims, keep)?.into()),
        _ => {
            let p = c.float_or(1, "ord", 2.0)?;
            // sums of columns or rows, and their extremum
            let (sum, pick) = match p {
                p if p.abs() == 1.0 => (dims[0], dims[1]),
                p if p.is_infinite() => (dims[1], dims[0]),
                _ => {
                    return Err(Error::missing(
                        "matrix norms by singular values as ONNX: it has no operator for them",
                    ));
                }
            };
            let a = b.reduce("ReduceL1", &x, &[sum], true)?;
            let op = if p > 0.0 { "ReduceMax" } else { "ReduceMin" };
            let out = b.reduce(op, &a, &[pick], true)?;
            Ok(if keep { out } else { b.squeeze(&out, &dims)? }.into())
        }
    }
}
/// The lower of the middle elements, by sorting.
fn median(b: &mut Builder, c: &Call, skip: bool) -> Result<Arg> {
    if skip {
        return Err(Error::missing("nanmedian as ONNX"));
    }
    let x = c.tensor(0, "self")?;
    let whole = c.overload() == "default";
    let (x, d, keep) = if whole {
        (b.reshape_to(&x, &[-1])?, 0, false)
    } else {
        let d = c.axis(1, "dim", None, x.rank())?;
        let keep = c.bool_or(2, "keepdim", false)?;
        if x.rank() == 0 {
            let i = b.int(0)?;
            return Ok(vec![x, i].into());
        }
        (x, d, keep)
    };
    let (values, index) = super::sorting::sorted(b, &x, d, false)?;
    let n = b.size(&x, d)?;
    let n = b.dim_sub(&n, &Dim::Int(1))?;
    let at = b.dim_div(&n, &Dim::Int(2))?;
    let at = b.dim_scalar(&at)?;
    let (v, i) = (b.gather(&values, &at, d)?, b.gather(&index, &at, d)?);
    if whole {
        return Ok(v.into());
    }
    Ok(if keep { vec![b.unsqueeze(&v, &[d])?, b.unsqueeze(&i, &[d])?] } else { vec![v, i] }.into())
}
