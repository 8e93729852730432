//! Numbers that the program finds out: sizes, and arithmetic on them.

use super::Table;
use super::arithmetic::{floor_divide, remainder, trunc};
use crate::build::{Arg, Builder, Call, Var};
use flambeau_core::{DType, Error, Result};

pub(super) const TABLE: Table = &[
    ("aten.sym_size", |b, c| {
        let x = c.tensor(0, "self")?;
        let d = c.axis(1, "dim", None, x.rank())?;
        Ok(b.size(&x, d)?.into())
    }),
    ("aten.size", |b, c| {
        let x = c.tensor(0, "self")?;
        let d = c.axis(1, "dim", None, x.rank())?;
        Ok(b.size(&x, d)?.into())
    }),
    ("aten.sym_numel", |b, c| {
        let x = c.tensor(0, "self")?;
        Ok(b.numel(&x)?.into())
    }),
    ("aten.numel", |b, c| {
        let x = c.tensor(0, "self")?;
        Ok(b.numel(&x)?.into())
    }),
    ("aten.sym_stride", |b, c| {
        // of a tensor whose elements lie row by row
        let x = c.tensor(0, "self")?;
        let d = c.axis(1, "dim", None, x.rank())?;
        let inner: Vec<i64> = (d + 1..x.rank() as i64).collect();
        Ok(b.count(&x, &inner)?.into())
    }),
    ("aten.sym_storage_offset", |_, _| Ok(Arg::Int(0))),
    ("aten.item", item),
    ("aten._local_scalar_dense", item),
    ("operator.add", |b, c| pair(b, c, |x, y| x.checked_add(y), |b, x, y| b.add(x, y))),
    ("operator.sub", |b, c| pair(b, c, |x, y| x.checked_sub(y), |b, x, y| b.sub(x, y))),
    ("operator.mul", |b, c| pair(b, c, |x, y| x.checked_mul(y), |b, x, y| b.mul(x, y))),
    ("operator.floordiv", |b, c| pair(b, c, flambeau_fx::symbolic::floor_div, floor_divide)),
    ("operator.mod", |b, c| {
        let m = |x: i64, y: i64| {
            flambeau_fx::symbolic::floor_div(x, y).and_then(|q| x.checked_sub(q.checked_mul(y)?))
        };
        pair(b, c, m, remainder)
    }),
    ("operator.truediv", |b, c| {
        let (x, y) = (number(b, c.arg(0, ""), Some(DType::F64))?, number(b, c.arg(1, ""), Some(DType::F64))?);
        let q = b.div(&x, &y)?;
        Ok(marked(q))
    }),
    ("torch.sym_sum", |b, c| {
        let Arg::List(l) = c.arg(0, "") else { return Err(Error::type_("a list of numbers was expected")) };
        let mut total = number(b, &Arg::Int(0), None)?;
        for a in l {
            let v = number(b, a, None)?;
            total = b.add(&total, &v)?;
        }
        Ok(marked(total))
    }),
    ("operator.pow", |b, c| pair(b, c, |x, y| x.checked_pow(u32::try_from(y).ok()?), |b, x, y| b.pow(x, y))),
    ("operator.neg", |b, c| match c.arg(0, "") {
        Arg::Int(n) => Ok(Arg::Int(-n)),
        a => {
            let v = number(b, a, None)?;
            Ok(marked(b.neg(&v)?))
        }
    }),
    ("operator.abs", |b, c| {
        let v = number(b, c.arg(0, ""), None)?;
        Ok(marked(b.unary("Abs", &v)?))
    }),
    ("operator.eq", |b, c| compare(b, c, |x, y| x == y, "Equal", false)),
    ("operator.ne", |b, c| compare(b, c, |x, y| x != y, "Equal", true)),
    ("operator.gt", |b, c| compare(b, c, |x, y| x > y, "Greater", false)),
    ("operator.ge", |b, c| compare(b, c, |x, y| x >= y, "GreaterOrEqual", false)),
    ("operator.lt", |b, c| compare(b, c, |x, y| x < y, "Less", false)),
    ("operator.le", |b, c| compare(b, c, |x, y| x <= y, "LessOrEqual", false)),
    ("operator.and_", |b, c| logical(b, c, "And")),
    ("operator.or_", |b, c| logical(b, c, "Or")),
    ("operator.xor", |b, c| logical(b, c, "Xor")),
    ("operator.not_", not),
    ("operator.invert", not),
    ("torch.sym_not", not),
    ("torch.sym_max", |b, c| pair(b, c, |x, y| Some(x.max(y)), |b, x, y| b.max(x, y))),
    ("torch.sym_min", |b, c| pair(b, c, |x, y| Some(x.min(y)), |b, x, y| b.min(x, y))),
    ("builtins.max", |b, c| pair(b, c, |x, y| Some(x.max(y)), |b, x, y| b.max(x, y))),
    ("builtins.min", |b, c| pair(b, c, |x, y| Some(x.min(y)), |b, x, y| b.min(x, y))),
    ("torch.sym_float", |b, c| {
        let v = number(b, c.arg(0, ""), Some(DType::F64))?;
        Ok(marked(v))
    }),
    ("torch.sym_int", |b, c| {
        let v = number(b, c.arg(0, ""), None)?;
        let v = trunc(b, &v)?;
        Ok(marked(b.cast(&v, DType::I64)?))
    }),
    ("torch.sym_ite", |b, c| {
        let cond = number(b, c.arg(0, ""), Some(DType::Bool))?;
        let (x, y) = (number(b, c.arg(1, ""), None)?, number(b, c.arg(2, ""), None)?);
        Ok(marked(b.choose(&cond, &x, &y)?))
    }),
    ("math.ceil", |b, c| whole(b, c, "Ceil")),
    ("math.floor", |b, c| whole(b, c, "Floor")),
    ("builtins.round", |b, c| whole(b, c, "Round")),
    ("math.trunc", |b, c| {
        let v = number(b, c.arg(0, ""), None)?;
        let v = trunc(b, &v)?;
        Ok(marked(b.cast(&v, DType::I64)?))
    }),
    ("torch.sym_sqrt", root),
    ("torch._sym_sqrt", root),
    ("math.sqrt", root),
];

fn marked(mut v: Var) -> Arg {
    v.number = true;
    v.into()
}
/// An argument as a scalar: of integers int64, of floats double precision.
fn number(b: &mut Builder, a: &Arg, dtype: Option<DType>) -> Result<Var> {
    let own = match a {
        Arg::Float(_) => DType::F64,
        Arg::Bool(_) => DType::Bool,
        Arg::Var(v) => v.dtype(),
        _ => DType::I64,
    };
    b.value(a, dtype.unwrap_or(own))
}
fn both(b: &mut Builder, c: &Call) -> Result<(Var, Var)> {
    let (x, y) = (number(b, c.arg(0, ""), None)?, number(b, c.arg(1, ""), None)?);
    let d = if x.dtype().is_floating() || y.dtype().is_floating() { DType::F64 } else { DType::I64 };
    Ok((b.cast(&x, d)?, b.cast(&y, d)?))
}
fn pair(
    b: &mut Builder,
    c: &Call,
    known: impl Fn(i64, i64) -> Option<i64>,
    make: impl Fn(&mut Builder, &Var, &Var) -> Result<Var>,
) -> Result<Arg> {
    if let (Arg::Int(x), Arg::Int(y)) = (c.arg(0, ""), c.arg(1, ""))
        && let Some(n) = known(*x, *y)
    {
        return Ok(Arg::Int(n));
    }
    let (x, y) = both(b, c)?;
    Ok(marked(make(b, &x, &y)?))
}
fn compare(b: &mut Builder, c: &Call, known: fn(i64, i64) -> bool, op: &str, opposite: bool) -> Result<Arg> {
    if let (Arg::Int(x), Arg::Int(y)) = (c.arg(0, ""), c.arg(1, "")) {
        return Ok(Arg::Bool(known(*x, *y)));
    }
    let (x, y) = both(b, c)?;
    let e = b.compare(op, &x, &y)?;
    Ok(marked(if opposite { b.not(&e)? } else { e }))
}
fn logical(b: &mut Builder, c: &Call, op: &str) -> Result<Arg> {
    let (x, y) = (number(b, c.arg(0, ""), Some(DType::Bool))?, number(b, c.arg(1, ""), Some(DType::Bool))?);
    Ok(marked(b.pair(op, &x, &y)?))
}
fn not(b: &mut Builder, c: &Call) -> Result<Arg> {
    if let Arg::Bool(v) = c.arg(0, "") {
        return Ok(Arg::Bool(!v));
    }
    let v = number(b, c.arg(0, ""), Some(DType::Bool))?;
    Ok(marked(b.not(&v)?))
}
fn whole(b: &mut Builder, c: &Call, op: &str) -> Result<Arg> {
    let v = number(b, c.arg(0, ""), Some(DType::F64))?;
    let v = b.unary(op, &v)?;
    Ok(marked(b.cast(&v, DType::I64)?))
}
fn root(b: &mut Builder, c: &Call) -> Result<Arg> {
    let v = number(b, c.arg(0, ""), Some(DType::F64))?;
    Ok(marked(b.unary("Sqrt", &v)?))
}
fn item(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let x = if x.rank() == 0 { x } else { b.reshape_to(&x, &[])? };
    let d = if x.dtype().is_floating() {
        DType::F64
    } else if x.dtype() == DType::Bool {
        DType::Bool
    } else {
        DType::I64
    };
    Ok(marked(b.cast(&x, d)?))
}
