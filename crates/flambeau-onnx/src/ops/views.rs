//! Views: the same elements in other sizes, in another order, or some of them; and how a change of a view changes its tensor.

use super::Table;
use crate::build::call::normal;
use crate::build::{Arg, Builder, Call, Dim, Var};
use flambeau_core::{DType, Error, Result};

pub(super) const TABLE: Table = &[
    ("aten.view", view),
    ("aten.reshape", view),
    ("aten._unsafe_view", view),
    ("aten.view_copy", view),
    ("aten._reshape_copy", view),
    ("aten._reshape_alias", view),
    ("aten.view_as", view_as),
    ("aten.reshape_as", view_as),
    ("aten.flatten", flatten),
    ("aten.ravel", |b, c| {
        let x = c.tensor(0, "self")?;
        Ok(b.reshape_to(&x, &[-1])?.into())
    }),
    ("aten.unflatten", unflatten),
    ("aten.unsqueeze", unsqueeze),
    ("aten.unsqueeze_copy", unsqueeze),
    ("aten.squeeze", squeeze),
    ("aten.squeeze_copy", squeeze),
    ("aten.transpose", reorder),
    ("aten.transpose_copy", reorder),
    ("aten.swapaxes", reorder),
    ("aten.swapdims", reorder),
    ("aten.t", reorder),
    ("aten.t_copy", reorder),
    ("aten.numpy_T", reorder),
    ("aten.mT", reorder),
    ("aten.mH", reorder),
    ("aten.adjoint", reorder),
    ("aten.matrix_H", reorder),
    ("aten.permute", reorder),
    ("aten.permute_copy", reorder),
    ("aten.movedim", reorder),
    ("aten.moveaxis", reorder),
    ("aten.select", select),
    ("aten.select_copy", select),
    ("aten.slice", slice),
    ("aten.slice_copy", slice),
    ("aten.narrow", narrow),
    ("aten.narrow_copy", narrow),
    ("aten.split", split),
    ("aten.split_copy", split),
    ("aten.unsafe_split", split),
    ("aten.split_with_sizes", split),
    ("aten.split_with_sizes_copy", split),
    ("aten.unsafe_split_with_sizes", split),
    ("aten.chunk", chunk),
    ("aten.unsafe_chunk", chunk),
    ("aten.tensor_split", tensor_split),
    ("aten.hsplit", |b, c| split_along(b, c, 1)),
    ("aten.vsplit", |b, c| split_along(b, c, 0)),
    ("aten.dsplit", |b, c| split_along(b, c, 2)),
    ("aten.unbind", unbind),
    ("aten.unbind_copy", unbind),
    ("aten.expand", expand),
    ("aten.expand_copy", expand),
    ("aten.broadcast_to", expand),
    ("aten.expand_as", |b, c| {
        let (x, like) = (c.tensor(0, "self")?, c.tensor(1, "other")?);
        let to = b.sizes(&like)?;
        Ok(b.expand(&x, &to)?.into())
    }),
    ("aten.broadcast_tensors", broadcast_tensors),
    ("aten.diagonal", diagonal),
    ("aten.diagonal_copy", diagonal),
    ("aten.linalg_diagonal", diagonal),
    ("aten.unfold", unfold),
    ("aten.unfold_copy", unfold),
    ("aten.alias", same),
    ("aten.alias_copy", same),
    ("aten.detach", same),
    ("aten.detach_copy", same),
    ("aten.contiguous", same),
    ("aten.clone", same),
    ("aten.lift", same),
    ("aten.lift_fresh", same),
    ("aten.lift_fresh_copy", same),
    ("aten.resolve_conj", same),
    ("aten.resolve_neg", same),
    ("aten.to", convert),
    ("aten._to_copy", convert),
    ("aten.type_as", convert),
    ("aten.float", convert),
    ("aten.double", convert),
    ("aten.half", convert),
    ("aten.bfloat16", convert),
    ("aten.int", convert),
    ("aten.long", convert),
    ("aten.bool", convert),
    ("aten.atleast_1d", at_least),
    ("aten.atleast_2d", at_least),
    ("aten.atleast_3d", at_least),
    ("prims.broadcast_in_dim", broadcast_in_dim),
    ("prims.transpose", reorder),
    ("prims.view_of", same),
];

fn same(_: &mut Builder, c: &Call) -> Result<Arg> {
    Ok(c.tensor(0, "self")?.into())
}
fn convert(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let said = c.args.iter().chain(c.kwargs.iter().map(|(_, a)| a)).find_map(|a| match a {
        Arg::DType(d) => Some(*d),
        _ => None,
    });
    let d = c.result_dtype().or(said).unwrap_or(x.dtype());
    Ok(b.cast(&x, d)?.into())
}
fn view(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    if let Arg::DType(d) = c.arg(1, "dtype") {
        if *d == x.dtype() {
            return Ok(x.into());
        }
        return Err(Error::missing("views of memory in another dtype as ONNX: it has no operator for them"));
    }
    let name = if c.arg(1, "size").is_none() { "shape" } else { "size" };
    let to = c.dims(1, name)?;
    Ok(b.reshape(&x, &to)?.into())
}
fn view_as(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (x, like) = (c.tensor(0, "self")?, c.tensor(1, "other")?);
    let to = b.sizes(&like)?;
    Ok(b.reshape(&x, &to)?.into())
}
fn flatten(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    if x.rank() == 0 {
        return Ok(b.reshape_to(&x, &[1])?.into());
    }
    let first = c.axis(1, "start_dim", Some(0), x.rank())?;
    let last = c.axis(2, "end_dim", Some(-1), x.rank())?;
    let all = b.sizes(&x)?;
    let mut to: Vec<Dim> = all[..first as usize].to_vec();
    let inner = all.get(first as usize..=last as usize).unwrap_or(&[]);
    let rest_known = all
        .iter()
        .enumerate()
        .all(|(i, d)| (first..=last).contains(&(i as i64)) || matches!(d, Dim::Int(n) if *n != 0));
    // one open size spares the product
    let inner_known = inner.iter().all(|d| d.known().is_some());
    to.push(if rest_known && !inner_known { Dim::Int(-1) } else { b.dim_product(inner)? });
    to.extend_from_slice(&all[last as usize + 1..]);
    Ok(b.reshape(&x, &to)?.into())
}
fn unflatten(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let d = c.axis(1, "dim", None, x.rank())? as usize;
    let parts = c.dims(2, "sizes")?;
    let all = b.sizes(&x)?;
    let mut to = all[..d].to_vec();
    to.extend(parts);
    to.extend_from_slice(&all[d + 1..]);
    Ok(b.reshape(&x, &to)?.into())
}
fn unsqueeze(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let d = c.axis(1, "dim", None, x.rank() + 1)?;
    Ok(b.unsqueeze(&x, &[d])?.into())
}
fn squeeze(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let dims = if c.arg(1, "dim").is_none() {
        (0..x.rank() as i64).filter(|d| x.shape[*d as usize] == Some(1)).collect()
    } else {
        let asked = c.axes(1, "dim", x.rank())?;
        // a size that is not known is none that goes, unless the program says so
        let gone = c.result_shape().map(|s| x.rank() - s.len());
        let known: Vec<i64> =
            asked.iter().copied().filter(|d| x.shape.get(*d as usize) == Some(&Some(1))).collect();
        if gone == Some(asked.len()) && x.rank() > 0 { asked } else { known }
    };
    Ok(b.squeeze(&x, &dims)?.into())
}
/// The order of dimensions that an operator makes.
fn order(c: &Call, rank: usize) -> Result<Vec<i64>> {
    let n = rank as i64;
    let mut all: Vec<i64> = (0..n).collect();
    let base = c.target().rsplit_once('.').map_or(c.target(), |(base, _)| base);
    let name = base.rsplit('.').next().unwrap_or(base);
    match name.trim_end_matches("_copy") {
        "permute" => return c.ints(1, "dims")?.into_iter().map(|d| normal(d, rank)).collect(),
        "transpose" if base.starts_with("prims.") => return c.ints(1, "permutation"),
        "numpy_T" => all.reverse(),
        "t" | "matrix_H" if rank < 2 => {}
        "t" | "mT" | "mH" | "adjoint" | "matrix_H" => all.swap(rank - 2, rank - 1),
        "movedim" | "moveaxis" => {
            let from: Vec<i64> = c.axes(1, "source", rank)?;
            let to: Vec<i64> = c.axes(2, "destination", rank)?;
            let mut rest = all.iter().copied().filter(|d| !from.contains(d));
            return (0..n)
                .map(|i| match to.iter().position(|t| *t == i) {
                    Some(k) => Ok(from[k]),
                    None => rest.next().ok_or_else(|| Error::runtime("dimensions that do not fit")),
                })
                .collect();
        }
        _ if rank > 0 => {
            let (a, z) = (c.axis(1, "dim0", None, rank)?, c.axis(2, "dim1", None, rank)?);
            all.swap(a as usize, z as usize);
        }
        _ => {}
    }
    Ok(all)
}
fn reorder(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let to = order(c, x.rank())?;
    let out = b.transpose(&x, &to)?;
    let conj = ["mH", "adjoint", "matrix_H"].iter().any(|n| c.target().starts_with(&format!("aten.{n}")));
    Ok(if conj && x.dtype().is_complex() { b.complex_conj(&out)? } else { out }.into())
}
fn select(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let d = c.axis(1, "dim", None, x.rank())?;
    let i = c.dim(2, "index")?;
    let i = b.dim_scalar(&i)?;
    Ok(b.gather(&x, &i, d)?.into())
}
/// Dimension, start, end and step of a slice.
fn bounds(b: &mut Builder, c: &Call, x: &Var) -> Result<(i64, Dim, Dim, i64)> {
    let d = c.axis(1, "dim", Some(0), x.rank())?;
    let or = |at: usize, name: &str, default: i64| -> Result<Dim> {
        if c.arg(at, name).is_none() { Ok(Dim::Int(default)) } else { c.dim(at, name) }
    };
    if c.target().starts_with("aten.narrow") {
        let (start, len) = (c.dim(2, "start")?, c.dim(3, "length")?);
        let start = match (&start, x.shape[d as usize]) {
            (Dim::Int(s), Some(n)) if *s < 0 => Dim::Int(s + n),
            _ => start,
        };
        let end = b.dim_add(&start, &len)?;
        return Ok((d, start, end, 1));
    }
    Ok((d, or(2, "start", 0)?, or(3, "end", i64::MAX)?, c.int_or(4, "step", 1)?))
}
fn slice(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let (d, start, end, step) = bounds(b, c, &x)?;
    Ok(b.slice(&x, d, &start, &end, step)?.into())
}
fn narrow(b: &mut Builder, c: &Call) -> Result<Arg> {
    slice(b, c)
}
fn split(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let d = c.axis(2, "dim", Some(0), x.rank())?;
    let parts = match c.arg(1, "split_size") {
        Arg::List(_) => c.dims(1, "split_sizes")?,
        _ => {
            let name = if c.arg(1, "split_sizes").is_none() { "split_size" } else { "split_sizes" };
            if let Arg::List(_) = c.arg(1, name) {
                c.dims(1, name)?
            } else {
                let size = c.dim(1, name)?;
                equal_parts(b, c, &x, d, &size)?
            }
        }
    };
    Ok(b.split(&x, &parts, d)?.into())
}
/// Parts of one size, the last of which may be smaller; how many there are, the program says where sizes are not known.
fn equal_parts(b: &mut Builder, c: &Call, x: &Var, d: i64, size: &Dim) -> Result<Vec<Dim>> {
    let whole = b.size(x, d)?;
    if let (Some(n), Some(s)) = (whole.known(), size.known()) {
        if s <= 0 {
            return Ok(vec![Dim::Int(n)]);
        }
        let count = ((n + s - 1) / s).max(1);
        return Ok((0..count).map(|i| Dim::Int((n - i * s).min(s))).collect());
    }
    let Some(flambeau_fx::Val::List(l)) = &c.result else {
        return Err(Error::missing("a split into a number of parts that depends on sizes"));
    };
    let mut parts = Vec::new();
    let mut left = whole;
    for i in 0..l.len() {
        let part = if i + 1 == l.len() { left.clone() } else { size.clone() };
        left = b.dim_sub(&left, &part)?;
        parts.push(part);
    }
    Ok(parts)
}
fn chunk(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let n = c.int(1, "chunks")?;
    let d = c.axis(2, "dim", Some(0), x.rank())?;
    let whole = b.size(&x, d)?;
    let up = b.dim_add(&whole, &Dim::Int(n - 1))?;
    let size = b.dim_div(&up, &Dim::Int(n))?;
    let parts = equal_parts(b, c, &x, d, &size)?;
    Ok(b.split(&x, &parts, d)?.into())
}
fn tensor_split(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let d = c.axis(2, "dim", Some(0), x.rank())?;
    split_at(b, c, &x, d)
}
fn split_along(b: &mut Builder, c: &Call, d: i64) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let d = d.min(x.rank() as i64 - 1);
    split_at(b, c, &x, d)
}
fn split_at(b: &mut Builder, c: &Call, x: &Var, d: i64) -> Result<Arg> {
    let at = c.arg(1, "indices").clone();
    let whole = b.size(x, d)?;
    if let Arg::List(_) = at {
        let mut out = Vec::new();
        let mut from = Dim::Int(0);
        let mut ends = c.dims(1, "indices")?;
        ends.push(Dim::Int(i64::MAX));
        for end in ends {
            out.push(b.slice(x, d, &from, &end, 1)?);
            from = end;
        }
        return Ok(out.into());
    }
    let name = if c.arg(1, "sections").is_none() { "indices" } else { "sections" };
    let n = c.int(1, name)?;
    let Some(len) = whole.known() else {
        return Err(Error::missing("tensor_split of a size that is not known into equal parts"));
    };
    let parts: Vec<Dim> = (0..n).map(|i| Dim::Int(len / n + i64::from(i < len % n))).collect();
    Ok(b.split(x, &parts, d)?.into())
}
fn unbind(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let d = c.axis(1, "dim", Some(0), x.rank())?;
    let n = match (x.shape[d as usize], &c.result) {
        (Some(n), _) => n,
        (None, Some(flambeau_fx::Val::List(l))) => l.len() as i64,
        _ => return Err(Error::missing("unbind of a size that is not known")),
    };
    let mut out = Vec::new();
    for i in 0..n {
        let i = b.int(i)?;
        out.push(b.gather(&x, &i, d)?);
    }
    Ok(out.into())
}
fn expand(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let mut to = c.dims(1, "size")?;
    let front = to.len().saturating_sub(x.rank());
    for (i, d) in to.iter_mut().enumerate() {
        if let (Dim::Int(-1), Some(at)) = (&*d, i.checked_sub(front)) {
            *d = match x.shape[at] {
                Some(n) => Dim::Int(n),
                // a size of 1 leaves what is there
                None => Dim::Int(1),
            };
        }
    }
    let mut out = b.expand(&x, &to)?;
    if let Some(s) = c.result_shape() {
        out.shape = s;
    }
    Ok(out.into())
}
fn broadcast_in_dim(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "a")?;
    let (to, at) = (c.dims(1, "shape")?, c.ints(2, "broadcast_dimensions")?);
    let more: Vec<i64> = (0..to.len() as i64).filter(|d| !at.contains(d)).collect();
    let x = b.unsqueeze(&x, &more)?;
    Ok(b.expand(&x, &to)?.into())
}
fn broadcast_tensors(b: &mut Builder, c: &Call) -> Result<Arg> {
    let all = c.tensors(0, "tensors")?;
    let mut shape: Vec<Option<i64>> = Vec::new();
    for v in &all {
        shape = crate::build::broadcast(&shape, &v.shape);
    }
    let mut out = Vec::new();
    if let Some(to) = shape.iter().copied().collect::<Option<Vec<i64>>>() {
        let to: Vec<Dim> = to.into_iter().map(Dim::Int).collect();
        for v in &all {
            out.push(b.expand(v, &to)?);
        }
        return Ok(out.into());
    }
    // the sizes of a sum of all
    let mut sum: Option<Var> = None;
    for v in &all {
        let v = b.cast(v, DType::F32)?;
        sum = Some(match sum {
            None => v,
            Some(s) => b.add(&s, &v)?,
        });
    }
    let to = match sum {
        Some(s) => b.sizes(&s)?,
        None => Vec::new(),
    };
    for v in &all {
        out.push(b.expand(v, &to)?);
    }
    Ok(out.into())
}
/// The tensor with two dimensions last, and the numbers of a diagonal's elements among theirs.
fn diagonal_index(b: &mut Builder, c: &Call, x: &Var) -> Result<(Vec<i64>, Var)> {
    let (default1, default2) = if c.target().starts_with("aten.linalg") { (-2, -1) } else { (0, 1) };
    let k = c.int_or(1, "offset", 0)?;
    let d1 = c.axis(2, "dim1", Some(default1), x.rank())?;
    let d2 = c.axis(3, "dim2", Some(default2), x.rank())?;
    let mut to: Vec<i64> = (0..x.rank() as i64).filter(|d| *d != d1 && *d != d2).collect();
    to.extend([d1, d2]);
    let (n, m) = (b.size(x, d1)?, b.size(x, d2)?);
    let (down, right) = ((-k).max(0), k.max(0));
    let (rows, cols) = (b.dim_sub(&n, &Dim::Int(down))?, b.dim_sub(&m, &Dim::Int(right))?);
    let len = b.dim_min(&rows, &cols)?;
    let len = b.dim_max(&len, &Dim::Int(0))?;
    let step = b.dim_add(&m, &Dim::Int(1))?;
    let at = b.dim_mul(&m, &Dim::Int(down))?;
    let at = b.dim_add(&at, &Dim::Int(right))?;
    let (i, step, at) = (b.range(&Dim::Int(0), &len)?, b.dim_scalar(&step)?, b.dim_scalar(&at)?);
    let i = b.mul(&i, &step)?;
    Ok((to, b.add(&i, &at)?))
}
fn diagonal(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let (to, index) = diagonal_index(b, c, &x)?;
    let x = b.transpose(&x, &to)?;
    let flat = last_two_as_one(b, &x)?;
    let d = flat.rank() as i64 - 1;
    Ok(b.gather(&flat, &index, d)?.into())
}
fn last_two_as_one(b: &mut Builder, x: &Var) -> Result<Var> {
    let all = b.sizes(x)?;
    let n = all.len();
    let last = b.dim_mul(&all[n - 2], &all[n - 1])?;
    let mut to = all[..n - 2].to_vec();
    to.push(last);
    b.reshape(x, &to)
}
fn unfold(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let d = c.axis(1, "dimension", None, x.rank())?;
    let (size, step) = (c.int(2, "size")?, c.int(3, "step")?);
    let x = if x.rank() == 0 { b.unsqueeze(&x, &[0])? } else { x };
    let n = b.size(&x, d)?;
    let n = b.dim_sub(&n, &Dim::Int(size))?;
    let n = b.dim_div(&n, &Dim::Int(step))?;
    let n = b.dim_add(&n, &Dim::Int(1))?;
    let (starts, step) = (b.range(&Dim::Int(0), &n)?, b.int(step)?);
    let starts = b.mul(&starts, &step)?;
    let starts = b.unsqueeze(&starts, &[1])?;
    let within = b.ints(&(0..size).collect::<Vec<_>>())?;
    let index = b.add(&starts, &within)?;
    let out = b.gather(&x, &index, d)?;
    let mut to: Vec<i64> = (0..out.rank() as i64).filter(|i| *i != d + 1).collect();
    to.push(d + 1);
    Ok(b.transpose(&out, &to)?.into())
}
fn at_least(b: &mut Builder, c: &Call) -> Result<Arg> {
    let n = usize::from(c.target().as_bytes().get("aten.atleast_".len()).map_or(0, |d| d - b'0'));
    let mut one = |x: &Var| -> Result<Var> {
        let dims: &[i64] = match (n, x.rank()) {
            (1, 0) => &[0],
            (2, 0) => &[0, 1],
            (2, 1) => &[0],
            (3, 0) => &[0, 1, 2],
            (3, 1) => &[0, 2],
            (3, 2) => &[2],
            _ => &[],
        };
        b.unsqueeze(x, dims)
    };
    match c.arg(0, "self") {
        Arg::List(_) => Ok(c.tensors(0, "tensors")?.iter().map(one).collect::<Result<Vec<_>>>()?.into()),
        _ => Ok(one(&c.tensor(0, "self")?)?.into()),
    }
}

/// Whether the operator's result shares its first argument's memory.
pub(crate) fn is_view(target: &str) -> bool {
    let base = target.strip_prefix("aten.").unwrap_or("");
    let base = base.rsplit_once('.').map_or(base, |(b, _)| b);
    matches!(
        base,
        "view"
            | "reshape"
            | "_unsafe_view"
            | "_reshape_alias"
            | "view_as"
            | "reshape_as"
            | "flatten"
            | "ravel"
            | "unflatten"
            | "unsqueeze"
            | "squeeze"
            | "transpose"
            | "swapaxes"
            | "swapdims"
            | "t"
            | "numpy_T"
            | "mT"
            | "mH"
            | "adjoint"
            | "permute"
            | "movedim"
            | "moveaxis"
            | "select"
            | "slice"
            | "narrow"
            | "split"
            | "split_with_sizes"
            | "chunk"
            | "unbind"
            | "expand"
            | "expand_as"
            | "diagonal"
            | "alias"
            | "detach"
            | "contiguous"
            | "detach_"
            | "real"
            | "imag"
            | "view_as_real"
            | "view_as_complex"
            | "to"
            | "tensor_split"
    )
}
/// The tensor after a view of it became `new`: `c` is the call that made the view, with the tensor as first argument.
pub(crate) fn write_back(b: &mut Builder, c: &Call, new: &Arg) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let base = c.target().strip_prefix("aten.").unwrap_or("");
    let base = base.rsplit_once('.').map_or(base, |(b, _)| b);
    let one = || match new {
        Arg::Var(v) => Ok(v.clone()),
        other => Err(Error::runtime(format!("a view that is {}", other.kind()))),
    };
    let out = match base {
        "alias" | "detach" | "contiguous" | "detach_" => one()?,
        "to" => b.cast(&one()?, x.dtype())?,
        "view" | "reshape" | "_unsafe_view" | "_reshape_alias" | "view_as" | "reshape_as" | "flatten"
        | "ravel" | "unflatten" | "unsqueeze" | "squeeze" => {
            let to = b.sizes(&x)?;
            b.reshape(&one()?, &to)?
        }
        "transpose" | "swapaxes" | "swapdims" | "t" | "numpy_T" | "mT" | "permute" | "movedim"
        | "moveaxis" => {
            let to = order(c, x.rank())?;
            let mut back = vec![0i64; to.len()];
            to.iter().enumerate().for_each(|(i, d)| back[*d as usize] = i as i64);
            b.transpose(&one()?, &back)?
        }
        "select" => {
            let d = c.axis(1, "dim", None, x.rank())?;
            let i = c.dim(2, "index")?;
            select_scatter(b, &x, &one()?, d, &i)?
        }
        "slice" | "narrow" => {
            let (d, start, end, step) = bounds(b, c, &x)?;
            slice_scatter(b, &x, &one()?, d, &start, &end, step)?
        }
        "diagonal" => diagonal_scatter(b, c, &x, &one()?)?,
        "split" | "split_with_sizes" | "chunk" | "tensor_split" | "unbind" => {
            let Arg::List(l) = new else { return Err(Error::runtime("a view that is no list")) };
            let parts: Vec<Var> = l.iter().filter_map(Arg::var).cloned().collect();
            let at = if base == "unbind" { 1 } else { 2 };
            let d = c.axis(at, "dim", Some(0), x.rank())?;
            let parts = if base == "unbind" {
                parts.iter().map(|p| b.unsqueeze(p, &[d])).collect::<Result<Vec<_>>>()?
            } else {
                parts
            };
            b.concat(&parts, d)?
        }
        other => return Err(Error::missing(format!("a write through {other} as ONNX"))),
    };
    Ok(out.into())
}
/// A tensor with part of it replaced at one place of a dimension.
pub(super) fn select_scatter(b: &mut Builder, x: &Var, part: &Var, d: i64, at: &Dim) -> Result<Var> {
    let part = b.cast(part, x.dtype())?;
    let part = b.unsqueeze(&part, &[d])?;
    let n = b.size(x, d)?;
    let at = match at {
        Dim::Int(i) if *i < 0 => b.dim_add(&n, at)?,
        _ => at.clone(),
    };
    let (all, at) = (b.range(&Dim::Int(0), &n)?, b.dim_scalar(&at)?);
    let here = b.eq(&all, &at)?;
    let here = along(b, &here, x.rank(), d)?;
    b.choose(&here, &part, x)
}
/// A vector along one dimension of several.
pub(super) fn along(b: &mut Builder, v: &Var, rank: usize, d: i64) -> Result<Var> {
    let more: Vec<i64> = (0..rank as i64).filter(|i| *i != d).collect();
    b.unsqueeze(v, &more)
}
/// A tensor with a slice of it replaced.
pub(super) fn slice_scatter(
    b: &mut Builder,
    x: &Var,
    part: &Var,
    d: i64,
    start: &Dim,
    end: &Dim,
    step: i64,
) -> Result<Var> {
    let part = b.cast(part, x.dtype())?;
    let n = b.size(x, d)?;
    // the numbers of the elements that go, by slicing all numbers
    let all = b.range(&Dim::Int(0), &n)?;
    let index = b.slice(&all, 0, start, end, step)?;
    let to = {
        let mut s = b.sizes(x)?;
        s[d as usize] = b.size(&index, 0)?;
        s
    };
    let part = b.expand(&part, &to)?;
    let index = along(b, &index, x.rank(), d)?;
    let index = b.expand(&index, &to)?;
    let attr = vec![crate::types::Attribute::int("axis", d)];
    b.node("ScatterElements", &[x, &index, &part], attr, x.dtype(), x.shape.clone())
}
/// A tensor with a diagonal replaced.
pub(super) fn diagonal_scatter(b: &mut Builder, c: &Call, x: &Var, part: &Var) -> Result<Var> {
    let (to, index) = diagonal_index(b, c, x)?;
    let part = b.cast(part, x.dtype())?;
    let t = b.transpose(x, &to)?;
    let flat = last_two_as_one(b, &t)?;
    let d = flat.rank() as i64 - 1;
    let sizes = b.sizes(&part)?;
    let part = b.expand(&part, &sizes)?;
    let index = b.expand(&index, &sizes)?;
    let attr = vec![crate::types::Attribute::int("axis", d)];
    let out = b.node("ScatterElements", &[&flat, &index, &part], attr, x.dtype(), flat.shape.clone())?;
    let sizes = b.sizes(&t)?;
    let out = b.reshape(&out, &sizes)?;
    let mut back = vec![0i64; to.len()];
    to.iter().enumerate().for_each(|(i, d)| back[*d as usize] = i as i64);
    b.transpose(&out, &back)
}
