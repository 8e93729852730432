//! Padding.

use super::Table;
use crate::build::{Arg, Builder, Call, Dim, Var};
use flambeau_core::{DType, Error, Result};

pub(super) const TABLE: Table = &[
    ("aten.pad", |b, c| {
        let mode = c.text_or(2, "mode", "constant")?.to_string();
        let fill = c.arg(3, "value").clone();
        padded(b, c, &mode, &fill)
    }),
    ("aten.constant_pad_nd", |b, c| {
        let fill = c.arg(2, "value").clone();
        padded(b, c, "constant", &fill)
    }),
    ("aten.reflection_pad1d", |b, c| padded(b, c, "reflect", &Arg::None)),
    ("aten.reflection_pad2d", |b, c| padded(b, c, "reflect", &Arg::None)),
    ("aten.reflection_pad3d", |b, c| padded(b, c, "reflect", &Arg::None)),
    ("aten.replication_pad1d", |b, c| padded(b, c, "replicate", &Arg::None)),
    ("aten.replication_pad2d", |b, c| padded(b, c, "replicate", &Arg::None)),
    ("aten.replication_pad3d", |b, c| padded(b, c, "replicate", &Arg::None)),
    ("aten._pad_circular", |b, c| padded(b, c, "circular", &Arg::None)),
];

fn padded(b: &mut Builder, c: &Call, mode: &str, fill: &Arg) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let name = if c.arg(1, "pad").is_none() { "padding" } else { "pad" };
    // pairs from the last dimension on
    let l = c.dims(1, name)?;
    let n = l.len() / 2;
    let mut pairs = vec![(Dim::Int(0), Dim::Int(0)); x.rank()];
    for i in 0..n {
        let at = x.rank().checked_sub(i + 1).ok_or_else(|| Error::value("more padding than dimensions"))?;
        pairs[at] = (l[2 * i].clone(), l[2 * i + 1].clone());
    }
    if pairs.iter().all(|p| matches!(p, (Dim::Int(0), Dim::Int(0)))) {
        return Ok(x.into());
    }
    if mode == "circular" {
        return Ok(circular(b, &x, &pairs)?.into());
    }
    // negative ends take elements away
    let mut x = x;
    for (d, (from, to)) in pairs.iter_mut().enumerate() {
        let cut = |d: &Dim| d.known().filter(|n| *n < 0);
        let (left, right) = (cut(from), cut(to));
        if left.is_none() && right.is_none() {
            continue;
        }
        let start = Dim::Int(-left.unwrap_or(0));
        let end = match right {
            Some(r) => Dim::Int(r),
            None => Dim::Int(i64::MAX),
        };
        x = b.slice(&x, d as i64, &start, &end, 1)?;
        if left.is_some() {
            *from = Dim::Int(0);
        }
        if right.is_some() {
            *to = Dim::Int(0);
        }
    }
    let mode = match mode {
        "replicate" => "edge",
        m => m,
    };
    let of = x.dtype();
    let y = if of == DType::Bool { b.cast(&x, DType::I32)? } else { x };
    let fill = match fill {
        _ if mode != "constant" => Var::none(),
        Arg::None => b.scalar(0.0, y.dtype())?,
        v => b.value(v, y.dtype())?,
    };
    let fill = if fill.rank() > 0 { b.reshape_to(&fill, &[])? } else { fill };
    let out = b.pad(&y, &pairs, mode, &fill)?;
    Ok(b.cast(&out, of)?.into())
}
fn circular(b: &mut Builder, x: &Var, pairs: &[(Dim, Dim)]) -> Result<Var> {
    let mut x = x.clone();
    for (d, (from, to)) in pairs.iter().enumerate() {
        let d = d as i64;
        let mut parts = Vec::new();
        if !matches!(from, Dim::Int(0)) {
            let start = b.dim_sub(&Dim::Int(0), from)?;
            parts.push(b.slice(&x, d, &start, &Dim::Int(i64::MAX), 1)?);
        }
        parts.push(x.clone());
        if !matches!(to, Dim::Int(0)) {
            parts.push(b.slice(&x, d, &Dim::Int(0), to, 1)?);
        }
        x = b.concat(&parts, d)?;
    }
    Ok(x)
}
