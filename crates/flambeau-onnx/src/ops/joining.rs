//! Joins, repetitions, reversals, rotations.

use super::Table;
use crate::build::{Arg, Builder, Call, Dim, Var, result_type};
use crate::types::Attribute;
use flambeau_core::{Error, Result, Tensor};

pub(super) const TABLE: Table = &[
    ("aten.combinations", combinations),
    ("aten.cat", |b, c| {
        let d = c.int_or(1, "dim", 0)?;
        cat(b, c, d)
    }),
    ("aten.concat", |b, c| {
        let d = c.int_or(1, "dim", 0)?;
        cat(b, c, d)
    }),
    ("aten.concatenate", |b, c| {
        let d = c.int_or(1, "dim", 0)?;
        cat(b, c, d)
    }),
    ("aten.stack", |b, c| {
        let all = values(b, c)?;
        let rank = all.first().map_or(0, Var::rank) + 1;
        let d = c.axis(1, "dim", Some(0), rank)?;
        stack(b, &all, d)
    }),
    ("aten.hstack", |b, c| {
        let one_dim = c.tensors(0, "tensors")?.first().is_none_or(|v| v.rank() <= 1);
        cat(b, c, if one_dim { 0 } else { 1 })
    }),
    ("aten.vstack", |b, c| rows(b, c, 2, 0)),
    ("aten.row_stack", |b, c| rows(b, c, 2, 0)),
    ("aten.dstack", |b, c| rows(b, c, 3, 2)),
    ("aten.column_stack", |b, c| {
        let all = values(b, c)?;
        let all = all
            .iter()
            .map(|v| match v.rank() {
                0 => b.unsqueeze(v, &[0, 1]),
                1 => b.unsqueeze(v, &[1]),
                _ => Ok(v.clone()),
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(b.concat(&all, 1)?.into())
    }),
    ("aten.block_diag", block_diag),
    ("aten.repeat", |b, c| {
        let times = c.dims(1, "repeats")?;
        repeat(b, c, times)
    }),
    ("aten.tile", |b, c| {
        let times = c.dims(1, "dims")?;
        repeat(b, c, times)
    }),
    ("aten.repeat_interleave", repeat_interleave),
    ("aten.flip", |b, c| {
        let x = c.tensor(0, "self")?;
        flip(b, &x, &c.ints(1, "dims")?)
    }),
    ("aten.fliplr", |b, c| {
        let x = c.tensor(0, "self")?;
        flip(b, &x, &[1])
    }),
    ("aten.flipud", |b, c| {
        let x = c.tensor(0, "self")?;
        flip(b, &x, &[0])
    }),
    ("aten.roll", roll),
    ("aten.rot90", rot90),
    ("aten.cartesian_prod", cartesian_prod),
    ("aten.meshgrid", meshgrid),
];

/// The tensors of the first argument in one element type; vectors without elements count for nothing beside others.
fn values(b: &mut Builder, c: &Call) -> Result<Vec<Var>> {
    let all = c.tensors(0, "tensors")?;
    let d = match c.result_dtype() {
        Some(d) => d,
        None => {
            let args: Vec<Arg> = all.iter().cloned().map(Arg::Var).collect();
            result_type(&args.iter().collect::<Vec<_>>())?
        }
    };
    let rank = all.iter().map(Var::rank).max().unwrap_or(0);
    let kept = all.iter().filter(|v| !(v.rank() == 1 && rank > 1 && v.shape[0] == Some(0)));
    kept.map(|v| b.cast(v, d)).collect()
}
fn cat(b: &mut Builder, c: &Call, d: i64) -> Result<Arg> {
    let all = values(b, c)?;
    let all = all
        .iter()
        .map(|v| if v.rank() == 0 { b.unsqueeze(v, &[0]) } else { Ok(v.clone()) })
        .collect::<Result<Vec<_>>>()?;
    let d = crate::build::call::normal(d, all.first().map_or(1, Var::rank))?;
    Ok(b.concat(&all, d)?.into())
}
fn stack(b: &mut Builder, all: &[Var], d: i64) -> Result<Arg> {
    let all = all.iter().map(|v| b.unsqueeze(v, &[d])).collect::<Result<Vec<_>>>()?;
    Ok(b.concat(&all, d)?.into())
}
fn rows(b: &mut Builder, c: &Call, rank: usize, d: i64) -> Result<Arg> {
    let all = values(b, c)?;
    let all = all
        .iter()
        .map(|v| {
            let dims: &[i64] = match (rank, v.rank()) {
                (2, 0) => &[0, 1],
                (2, 1) => &[0],
                (3, 0) => &[0, 1, 2],
                (3, 1) => &[0, 2],
                (3, 2) => &[2],
                _ => &[],
            };
            b.unsqueeze(v, dims)
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(b.concat(&all, d)?.into())
}
fn block_diag(b: &mut Builder, c: &Call) -> Result<Arg> {
    let all = values(b, c)?;
    let all = all
        .iter()
        .map(|v| {
            let dims: &[i64] = match v.rank() {
                0 => &[0, 1],
                1 => &[0],
                _ => &[],
            };
            b.unsqueeze(v, dims)
        })
        .collect::<Result<Vec<_>>>()?;
    let widths = all.iter().map(|v| b.size(v, 1)).collect::<Result<Vec<_>>>()?;
    let mut out = Vec::new();
    for (i, v) in all.iter().enumerate() {
        let (mut left, mut right) = (Dim::Int(0), Dim::Int(0));
        for (j, w) in widths.iter().enumerate() {
            match j.cmp(&i) {
                std::cmp::Ordering::Less => left = b.dim_add(&left, w)?,
                std::cmp::Ordering::Greater => right = b.dim_add(&right, w)?,
                std::cmp::Ordering::Equal => {}
            }
        }
        let zero = b.scalar(0.0, v.dtype())?;
        out.push(b.pad(v, &[(Dim::Int(0), Dim::Int(0)), (left, right)], "constant", &zero)?);
    }
    Ok(b.concat(&out, 0)?.into())
}
fn repeat(b: &mut Builder, c: &Call, times: Vec<Dim>) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let front = times.len().saturating_sub(x.rank());
    let x = b.unsqueeze(&x, &(0..front as i64).collect::<Vec<_>>())?;
    let mut times = times;
    while times.len() < x.rank() {
        times.insert(0, Dim::Int(1));
    }
    if times.iter().all(|t| matches!(t, Dim::Int(1))) {
        return Ok(x.into());
    }
    let shape = x.shape.iter().zip(&times).map(|(n, t)| Some((*n)? * t.known()?)).collect();
    if x.dtype().is_complex() {
        times.push(Dim::Int(1));
    }
    let times = b.dims_vector(&times)?;
    Ok(b.node("Tile", &[&x, &times], Vec::new(), x.dtype(), shape)?.into())
}
fn repeat_interleave(b: &mut Builder, c: &Call) -> Result<Arg> {
    if c.overload() == "Tensor" {
        return Err(Error::missing("repeat_interleave of counts alone as ONNX"));
    }
    let x = c.tensor(0, "self")?;
    let (x, d) = if c.arg(2, "dim").is_none() {
        (b.reshape_to(&x, &[-1])?, 0)
    } else {
        let d = c.axis(2, "dim", None, x.rank())?;
        (x, d)
    };
    match c.arg(1, "repeats").clone() {
        Arg::Var(v) if !v.number => {
            // element i stands where the running sums pass it
            let n = b.size(&x, d)?;
            let counts = b.cast(&v, flambeau_core::DType::I64)?;
            let to = [n];
            let counts = if counts.rank() == 0 { b.unsqueeze(&counts, &[0])? } else { counts };
            let counts = b.expand(&counts, &to)?;
            let zero = b.int(0)?;
            let ends =
                b.node("CumSum", &[&counts, &zero], Vec::new(), counts.dtype(), counts.shape.clone())?;
            let total = b.reduce("ReduceSum", &counts, &[0], false)?;
            let at = b.range(&Dim::Int(0), &Dim::Var(total))?;
            let at = b.unsqueeze(&at, &[1])?;
            let passed = b.ge(&at, &ends)?;
            let passed = b.cast(&passed, flambeau_core::DType::I64)?;
            let index = b.reduce("ReduceSum", &passed, &[1], false)?;
            Ok(b.gather(&x, &index, d)?.into())
        }
        _ => {
            let times = c.dim(1, "repeats")?;
            let wide = b.unsqueeze(&x, &[d + 1])?;
            let mut to = b.sizes(&wide)?;
            to[d as usize + 1] = times.clone();
            let wide = b.expand(&wide, &to)?;
            let mut to = b.sizes(&x)?;
            to[d as usize] = b.dim_mul(&to[d as usize].clone(), &times)?;
            Ok(b.reshape(&wide, &to)?.into())
        }
    }
}
fn flip(b: &mut Builder, x: &Var, dims: &[i64]) -> Result<Arg> {
    let mut x = x.clone();
    for d in dims {
        let d = crate::build::call::normal(*d, x.rank())?;
        if x.rank() > 0 {
            x = b.flip(&x, d)?;
        }
    }
    Ok(x.into())
}
fn roll(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let shifts = c.dims(1, "shifts")?;
    let dims = c.ints(2, "dims")?;
    if x.rank() == 0 {
        return Ok(x.into());
    }
    if dims.is_empty() {
        let to = b.sizes(&x)?;
        let flat = b.reshape_to(&x, &[-1])?;
        let out = rolled(b, &flat, &shifts[0], 0)?;
        return Ok(b.reshape(&out, &to)?.into());
    }
    let mut x = x;
    for (s, d) in shifts.iter().zip(dims) {
        let d = crate::build::call::normal(d, x.rank())?;
        x = rolled(b, &x, s, d)?;
    }
    Ok(x.into())
}
fn rolled(b: &mut Builder, x: &Var, by: &Dim, d: i64) -> Result<Var> {
    let n = x.shape[d as usize];
    // elements from there on come first
    let at = match (by.known(), n) {
        (Some(_), Some(0)) => return Ok(x.clone()),
        (Some(s), Some(n)) => Dim::Int((-s).rem_euclid(n)),
        _ => {
            let size = b.size(x, d)?;
            let (s, size) = (b.dim_scalar(by)?, b.dim_scalar(&size)?);
            let s = b.neg(&s)?;
            Dim::Var(b.pair("Mod", &s, &size)?)
        }
    };
    if let Dim::Int(0) = at {
        return Ok(x.clone());
    }
    let (first, second) = (b.slice(x, d, &at, &Dim::Int(i64::MAX), 1)?, b.slice(x, d, &Dim::Int(0), &at, 1)?);
    let mut out = b.concat(&[first, second], d)?;
    out.shape = x.shape.clone();
    Ok(out)
}
fn rot90(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let k = c.int_or(1, "k", 1)?.rem_euclid(4);
    let dims = c.ints(2, "dims")?;
    let dims = if dims.is_empty() { vec![0, 1] } else { dims };
    let (p, q) =
        (crate::build::call::normal(dims[0], x.rank())?, crate::build::call::normal(dims[1], x.rank())?);
    Ok(match k {
        1 => {
            let x = b.flip(&x, q)?;
            b.swap(&x, p, q)?
        }
        2 => {
            let x = b.flip(&x, p)?;
            b.flip(&x, q)?
        }
        3 => {
            let x = b.flip(&x, p)?;
            b.swap(&x, p, q)?
        }
        _ => x,
    }
    .into())
}
fn grids(b: &mut Builder, all: &[Var]) -> Result<Vec<Var>> {
    let sizes = all.iter().map(|v| b.numel(v)).collect::<Result<Vec<_>>>()?;
    let mut out = Vec::new();
    for (i, v) in all.iter().enumerate() {
        let flat = if v.rank() == 0 { b.unsqueeze(v, &[0])? } else { v.clone() };
        let wide = super::views::along(b, &flat, all.len(), i as i64)?;
        out.push(b.expand(&wide, &sizes)?);
    }
    Ok(out)
}
fn meshgrid(b: &mut Builder, c: &Call) -> Result<Arg> {
    let all = c.tensors(0, "tensors")?;
    let swap = c.text_or(1, "indexing", "ij")? == "xy" && all.len() > 1;
    let mut all = all;
    if swap {
        all.swap(0, 1);
    }
    let mut out = grids(b, &all)?;
    if swap {
        out.swap(0, 1);
    }
    Ok(out.into())
}
fn cartesian_prod(b: &mut Builder, c: &Call) -> Result<Arg> {
    let all = c.tensors(0, "tensors")?;
    if let [one] = &all[..] {
        return Ok(one.clone().into());
    }
    let all = grids(b, &all)?;
    let all = all.iter().map(|v| b.reshape_to(v, &[-1])).collect::<Result<Vec<_>>>()?;
    stack(b, &all, 1)
}
/// Choices of elements of a vector whose size is a number.
fn combinations(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let (r, again) = (c.int_or(1, "r", 2)?, c.bool_or(2, "with_replacement", false)?);
    let (&[Some(n)], 1..) = (&x.shape[..], r) else {
        return Err(Error::missing("combinations of a vector whose size is no number, as ONNX"));
    };
    let mut rows: Vec<Vec<i64>> = vec![Vec::new()];
    for _ in 0..r {
        if n.saturating_mul(rows.len() as i64) > 10_000_000 {
            return Err(Error::missing("more than ten million combinations as ONNX"));
        }
        let next = |row: &Vec<i64>| row.last().map_or(0, |l| if again { *l } else { l + 1 });
        let longer =
            |row: &Vec<i64>| (next(row)..n).map(|i| [row.clone(), vec![i]].concat()).collect::<Vec<_>>();
        rows = rows.iter().flat_map(longer).collect();
    }
    let count = rows.len() as i64;
    let places = b.constant(&Tensor::from_vec(rows.concat(), [count, r]))?;
    let attr = vec![Attribute::int("axis", 0)];
    Ok(b.node("Gather", &[&x, &places], attr, x.dtype(), vec![Some(count), Some(r)])?.into())
}
