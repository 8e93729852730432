//! Elements by their numbers: gathers, scatters, masks.

use super::Table;
use super::views::{diagonal_scatter, select_scatter, slice_scatter};
use crate::build::{Arg, Builder, Call, Dim, Var};
use crate::types::Attribute;
use flambeau_core::{DType, Error, Result};

pub(super) const TABLE: Table = &[
    ("aten.gather", |b, c| {
        let (x, i) = (c.tensor(0, "self")?, c.tensor(2, "index")?);
        let d = c.axis(1, "dim", None, x.rank())?;
        Ok(gather_elements(b, &x, &i, d)?.into())
    }),
    ("aten.take_along_dim", |b, c| {
        let (x, i) = (c.tensor(0, "self")?, c.tensor(1, "indices")?);
        if c.arg(2, "dim").is_none() {
            let (x, i) = (b.reshape_to(&x, &[-1])?, b.reshape_to(&i, &[-1])?);
            return Ok(gather_elements(b, &x, &i, 0)?.into());
        }
        let d = c.axis(2, "dim", None, x.rank())?;
        let (mut xs, mut is) = (b.sizes(&x)?, b.sizes(&i)?);
        for k in 0..xs.len() {
            if k as i64 != d {
                match (&xs[k], &is[k]) {
                    (Dim::Int(1), _) => xs[k] = is[k].clone(),
                    _ => is[k] = xs[k].clone(),
                }
            }
        }
        let (x, i) = (b.expand(&x, &xs)?, b.expand(&i, &is)?);
        Ok(gather_elements(b, &x, &i, d)?.into())
    }),
    ("aten.take", |b, c| {
        let (x, i) = (c.tensor(0, "self")?, c.tensor(1, "index")?);
        let x = b.reshape_to(&x, &[-1])?;
        Ok(b.gather(&x, &i, 0)?.into())
    }),
    ("aten.index_select", |b, c| {
        let (x, i) = (c.tensor(0, "self")?, c.tensor(2, "index")?);
        if x.rank() == 0 {
            return Ok(x.into());
        }
        let d = c.axis(1, "dim", None, x.rank())?;
        let i = if i.rank() == 0 { b.unsqueeze(&i, &[0])? } else { i };
        Ok(b.gather(&x, &i, d)?.into())
    }),
    ("aten.embedding", |b, c| {
        let (w, i) = (c.tensor(0, "weight")?, c.tensor(1, "indices")?);
        Ok(b.gather(&w, &i, 0)?.into())
    }),
    ("aten.embedding_renorm", |_, _| {
        Err(Error::missing("embeddings with max_norm as ONNX: they change their weights"))
    }),
    ("aten.embedding_bag", embedding_bag),
    ("aten._embedding_bag", embedding_bag),
    ("aten._embedding_bag_forward_only", embedding_bag),
    ("aten.one_hot", one_hot),
    ("aten.index", index),
    ("aten._unsafe_index", index),
    ("aten.index_put", index_put),
    ("aten._unsafe_index_put", index_put),
    ("aten.index_copy", |b, c| by_dimension(b, c, 3, "source", "none")),
    ("aten.index_add", |b, c| by_dimension(b, c, 3, "source", "add")),
    ("aten.index_fill", |b, c| {
        let x = c.tensor(0, "self")?;
        let v = b.value(&c.arg(3, "value").clone(), x.dtype())?;
        along_index(b, c, &x, &v, "none")
    }),
    ("aten.index_reduce", |b, c| {
        let x = c.tensor(0, "self")?;
        let v = c.tensor(3, "source")?;
        let how = reduction_name(c.text_or(4, "reduce", "")?)?;
        let own = c.bool_or(usize::MAX, "include_self", true)?;
        if x.rank() == 0 {
            return along_index(b, c, &x, &v, how);
        }
        let (i, v, d) = spread(b, c, &x, &v)?;
        scattered(b, &x, &i, &v, d, how, own)
    }),
    ("aten.scatter", scatter),
    ("aten.scatter_add", |b, c| {
        let (x, i, v) = (c.tensor(0, "self")?, c.tensor(2, "index")?, c.tensor(3, "src")?);
        let d = c.axis(1, "dim", None, x.rank())?;
        Ok(scatter_elements(b, &x, &i, &v, d, "add")?.into())
    }),
    ("aten.scatter_reduce", scatter_reduce),
    ("aten.select_scatter", |b, c| {
        let (x, v) = (c.tensor(0, "self")?, c.tensor(1, "src")?);
        let d = c.axis(2, "dim", None, x.rank())?;
        let i = c.dim(3, "index")?;
        Ok(select_scatter(b, &x, &v, d, &i)?.into())
    }),
    ("aten.slice_scatter", |b, c| {
        let (x, v) = (c.tensor(0, "self")?, c.tensor(1, "src")?);
        let d = c.axis(2, "dim", Some(0), x.rank())?;
        let start = if c.arg(3, "start").is_none() { Dim::Int(0) } else { c.dim(3, "start")? };
        let end = if c.arg(4, "end").is_none() { Dim::Int(i64::MAX) } else { c.dim(4, "end")? };
        Ok(slice_scatter(b, &x, &v, d, &start, &end, c.int_or(5, "step", 1)?)?.into())
    }),
    ("aten.diagonal_scatter", |b, c| {
        let (x, v) = (c.tensor(0, "self")?, c.tensor(1, "src")?);
        // the arguments of `diagonal` come behind the source
        let mut call = c.clone();
        call.args.remove(1);
        Ok(diagonal_scatter(b, &call, &x, &v)?.into())
    }),
    ("aten.masked_scatter", masked_scatter),
    ("aten.masked_select", |b, c| {
        let (x, m) = (c.tensor(0, "self")?, c.tensor(1, "mask")?);
        let both = crate::build::broadcast(&x.shape, &m.shape);
        let (x, m) = if x.shape == m.shape && x.sizes().is_some() {
            (x, m)
        } else {
            broadcast_pair(b, &x, &m, &both)?
        };
        let (x, m) = (b.reshape_to(&x, &[-1])?, b.reshape_to(&m, &[-1])?);
        Ok(b.node("Compress", &[&x, &m], vec![Attribute::int("axis", 0)], x.dtype(), vec![None])?.into())
    }),
    ("aten.nonzero", |b, c| {
        let x = c.tensor(0, "self")?;
        Ok(nonzero(b, &x)?.into())
    }),
    ("aten.nonzero_numpy", |b, c| {
        let x = c.tensor(0, "self")?;
        let rows = nonzero(b, &x)?;
        columns(b, &rows, x.rank())
    }),
    ("aten.argwhere", |b, c| {
        let x = c.tensor(0, "self")?;
        Ok(nonzero(b, &x)?.into())
    }),
    ("aten.put", |b, c| {
        let (x, i, v) = (c.tensor(0, "self")?, c.tensor(1, "index")?, c.tensor(2, "source")?);
        let how = if c.bool_or(3, "accumulate", false)? { "add" } else { "none" };
        let to = b.sizes(&x)?;
        let (flat, i, v) = (b.reshape_to(&x, &[-1])?, b.reshape_to(&i, &[-1])?, b.reshape_to(&v, &[-1])?);
        let out = scatter_elements(b, &flat, &i, &v, 0, how)?;
        Ok(b.reshape(&out, &to)?.into())
    }),
];

/// Two in the sizes that they have together.
fn broadcast_pair(b: &mut Builder, x: &Var, y: &Var, _both: &[Option<i64>]) -> Result<(Var, Var)> {
    let call = Call {
        target: "aten.broadcast_tensors.default".into(),
        args: vec![Arg::List(vec![x.clone().into(), y.clone().into()])],
        kwargs: Vec::new(),
        result: None,
    };
    let f = super::find("aten.broadcast_tensors").ok_or_else(|| Error::runtime("no broadcast"))?;
    match f(b, &call)? {
        Arg::List(l) => match &l[..] {
            [Arg::Var(x), Arg::Var(y)] => Ok((x.clone(), y.clone())),
            _ => Err(Error::runtime("a broadcast of two gives two")),
        },
        _ => Err(Error::runtime("a broadcast gives a list")),
    }
}
pub(super) fn gather_elements(b: &mut Builder, x: &Var, i: &Var, d: i64) -> Result<Var> {
    if x.rank() == 0 {
        if i.rank() == 0 {
            return Ok(x.clone());
        }
        let to = b.sizes(i)?;
        return b.expand(x, &to);
    }
    if i.rank() == 0 {
        let i1 = b.unsqueeze(i, &[0])?;
        let out = gather_elements(b, x, &i1, d)?;
        return b.squeeze(&out, &[0]);
    }
    b.node("GatherElements", &[x, i], vec![Attribute::int("axis", d)], x.dtype(), i.shape.clone())
}
/// Numbers of the elements that are not zero, a row each.
pub(super) fn nonzero(b: &mut Builder, x: &Var) -> Result<Var> {
    let rank = x.rank() as i64;
    if rank == 0 {
        let one = b.unsqueeze(x, &[0])?;
        let rows = nonzero(b, &one)?;
        return b.narrow(&rows, 1, 0, 0);
    }
    let n = b.node("NonZero", &[x], Vec::new(), DType::I64, vec![Some(rank), None])?;
    b.transpose(&n, &[1, 0])
}
pub(super) fn columns(b: &mut Builder, rows: &Var, n: usize) -> Result<Arg> {
    let mut out = Vec::new();
    for i in 0..n as i64 {
        let i = b.int(i)?;
        out.push(b.gather(rows, &i, 1)?);
    }
    Ok(out.into())
}
pub(super) fn scatter_elements(b: &mut Builder, x: &Var, i: &Var, v: &Var, d: i64, how: &str) -> Result<Var> {
    let v = b.cast(v, x.dtype())?;
    if x.rank() == 0 {
        let (x1, i1, v1) = (b.unsqueeze(x, &[0])?, b.reshape_to(i, &[-1])?, b.reshape_to(&v, &[-1])?);
        let out = scatter_elements(b, &x1, &i1, &v1, 0, how)?;
        return b.squeeze(&out, &[0]);
    }
    // only the source's elements that have a number count
    let i = if i.rank() == 0 { b.unsqueeze(i, &[0])? } else { i.clone() };
    let mut v = if v.rank() == 0 && i.rank() > 0 { b.unsqueeze(&v, &[0])? } else { v };
    for k in 0..v.rank() {
        if v.shape[k] != i.shape[k] || v.shape[k].is_none() {
            let n = b.size(&i, k as i64)?;
            v = b.slice(&v, k as i64, &Dim::Int(0), &n, 1)?;
        }
    }
    let attr = vec![Attribute::int("axis", d), Attribute::text("reduction", how)];
    b.node("ScatterElements", &[x, &i, &v], attr, x.dtype(), x.shape.clone())
}
fn reduction_name(name: &str) -> Result<&'static str> {
    Ok(match name {
        "sum" | "add" => "add",
        "prod" | "multiply" => "mul",
        "amax" => "max",
        "amin" => "min",
        "mean" => "mean",
        other => return Err(Error::value(format!("no reduction is called '{other}'"))),
    })
}
fn scatter(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (x, i) = (c.tensor(0, "self")?, c.tensor(2, "index")?);
    let d = c.axis(1, "dim", None, x.rank())?;
    let how = match c.arg(4, "reduce") {
        Arg::Str(s) => reduction_name(s)?,
        _ => "none",
    };
    let v = match c.arg(3, if c.arg(3, "src").is_none() { "value" } else { "src" }).clone() {
        Arg::Var(v) if v.rank() > 0 || i.rank() == 0 => v,
        number => {
            let v = b.value(&number, x.dtype())?;
            let to = b.sizes(&i)?;
            b.expand(&v, &to)?
        }
    };
    Ok(scatter_elements(b, &x, &i, &v, d, how)?.into())
}
fn scatter_reduce(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (x, i, v) = (c.tensor(0, "self")?, c.tensor(2, "index")?, c.tensor(3, "src")?);
    let d = c.axis(1, "dim", None, x.rank())?;
    let how = reduction_name(c.text_or(4, "reduce", "sum")?)?;
    let own = c.bool_or(5, "include_self", true)?;
    scattered(b, &x, &i, &v, d, how, own)
}
/// Elements put together with those at their places, or with each other alone.
fn scattered(b: &mut Builder, x: &Var, i: &Var, v: &Var, d: i64, how: &str, own: bool) -> Result<Arg> {
    let base = if own {
        x.clone()
    } else {
        // elements that get something begin with what changes nothing
        let start = match how {
            "mul" => 1.0,
            "max" if x.dtype().is_floating() => f64::NEG_INFINITY,
            "min" if x.dtype().is_floating() => f64::INFINITY,
            "max" => flambeau_core::iinfo(x.dtype())?.min as f64,
            "min" => flambeau_core::iinfo(x.dtype())?.max as f64,
            _ => 0.0,
        };
        let start = b.scalar(start, x.dtype())?;
        let to = b.sizes(i)?;
        let starts = b.expand(&start, &to)?;
        scatter_elements(b, x, i, &starts, d, "none")?
    };
    if how != "mean" {
        return Ok(scatter_elements(b, &base, i, v, d, how)?.into());
    }
    let sum = scatter_elements(b, &base, i, v, d, "add")?;
    let one = b.scalar(1.0, x.dtype())?;
    let (to, whole) = (b.sizes(i)?, b.sizes(x)?);
    let ones = b.expand(&one, &to)?;
    let zero = b.scalar(if own { 1.0 } else { 0.0 }, x.dtype())?;
    let counts = b.expand(&zero, &whole)?;
    let counts = scatter_elements(b, &counts, i, &ones, d, "add")?;
    let counts = b.max(&counts, &one)?;
    Ok(if x.dtype().is_floating() {
        b.div(&sum, &counts)?
    } else {
        super::arithmetic::floor_divide(b, &sum, &counts)?
    }
    .into())
}
/// `index_add` and its like: whole slices by their numbers.
fn by_dimension(b: &mut Builder, c: &Call, at: usize, name: &str, how: &str) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let v = c.tensor(at, name)?;
    let v = super::arithmetic::scaled(b, &v, c.arg(usize::MAX, "alpha"))?;
    along_index(b, c, &x, &v, how)
}
fn along_index(b: &mut Builder, c: &Call, x: &Var, v: &Var, how: &str) -> Result<Arg> {
    if x.rank() == 0 {
        let one = b.unsqueeze(x, &[0])?;
        let v = b.reshape_to(v, &[-1])?;
        let i = c.tensor(2, "index")?;
        let i = b.reshape_to(&i, &[-1])?;
        let out = scatter_elements(b, &one, &i, &v, 0, how)?;
        return Ok(b.squeeze(&out, &[0])?.into());
    }
    let (i, v, d) = spread(b, c, x, v)?;
    Ok(scatter_elements(b, x, &i, &v, d, how)?.into())
}
/// Numbers of slices as numbers of elements, with the elements and the dimension.
fn spread(b: &mut Builder, c: &Call, x: &Var, v: &Var) -> Result<(Var, Var, i64)> {
    let d = c.axis(1, "dim", None, x.rank())?;
    let i = c.tensor(2, "index")?;
    let i = b.reshape_to(&i, &[-1])?;
    let i = b.cast(&i, DType::I64)?;
    let mut to = b.sizes(x)?;
    to[d as usize] = b.size(&i, 0)?;
    let i = super::views::along(b, &i, x.rank(), d)?;
    let i = b.expand(&i, &to)?;
    let v = b.cast(v, x.dtype())?;
    let v = b.expand(&v, &to)?;
    Ok((i, v, d))
}
fn one_hot(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let n = match c.arg(1, "num_classes") {
        Arg::None | Arg::Int(-1) => {
            let dims: Vec<i64> = (0..x.rank() as i64).collect();
            let top = b.reduce("ReduceMax", &x, &dims, false)?;
            b.add_number(&top, 1.0)?
        }
        _ => {
            let n = c.dim(1, "num_classes")?;
            b.dim_scalar(&n)?
        }
    };
    let x = b.cast(&x, DType::I64)?;
    let values = b.ints(&[0, 1])?;
    let mut shape = x.shape.clone();
    shape.push(n.known_ints().map(|l| l[0]));
    Ok(b.node("OneHot", &[&x, &n, &values], vec![Attribute::int("axis", -1)], DType::I64, shape)?.into())
}
/// The numbers of the elements that an index takes, as one array, with the dimensions in front.
struct Places {
    /// The tensor with the indexed dimensions first, in order.
    order: Vec<i64>,
    /// Numbers, a last dimension over the indexed dimensions.
    numbers: Var,
    /// Sizes of the index.
    rank: usize,
    /// Where the indexed dimensions stand in the result.
    at: usize,
    /// How many dimensions are indexed.
    count: usize,
}
fn places(b: &mut Builder, x: &Var, l: &[Option<Var>]) -> Result<Option<Places>> {
    // a mask is as good as the numbers of its elements
    let mut all: Vec<(i64, Var)> = Vec::new();
    let mut d = 0i64;
    for v in l {
        match v {
            None => d += 1,
            Some(v) if matches!(v.dtype(), DType::Bool | DType::U8) => {
                let rank = v.rank();
                let rows = nonzero(b, v)?;
                let Arg::List(cols) = columns(b, &rows, rank)? else { continue };
                for c in cols {
                    if let Arg::Var(c) = c {
                        all.push((d, c));
                        d += 1;
                    }
                }
            }
            Some(v) => {
                all.push((d, b.cast(v, DType::I64)?));
                d += 1;
            }
        }
    }
    let Some(first) = all.first().map(|(d, _)| *d) else { return Ok(None) };
    let together = all.windows(2).all(|w| w[1].0 == w[0].0 + 1);
    let count = all.len();
    let mut order: Vec<i64> = all.iter().map(|(d, _)| *d).collect();
    order.extend((0..x.rank() as i64).filter(|d| !all.iter().any(|(i, _)| i == d)));
    // negative numbers count from the end; constants and masks have none, others are made positive by the runtime's own rule
    let mut shape: Vec<Option<i64>> = Vec::new();
    for (_, v) in &all {
        shape = crate::build::broadcast(&shape, &v.shape);
    }
    let numbers = if let [(_, v)] = &all[..] {
        let last = v.rank() as i64;
        b.unsqueeze(v, &[last])?
    } else {
        let mut cols = Vec::new();
        let spread = all.iter().any(|(_, v)| v.shape != shape) || shape.iter().any(Option::is_none);
        let to: Option<Vec<Dim>> = if spread {
            let mut sum = all[0].1.clone();
            for (_, v) in &all[1..] {
                sum = b.add(&sum, v)?;
            }
            Some(b.sizes(&sum)?)
        } else {
            None
        };
        for (_, v) in &all {
            let v = match &to {
                Some(to) => b.expand(v, to)?,
                None => v.clone(),
            };
            let last = shape.len() as i64;
            cols.push(b.unsqueeze(&v, &[last])?);
        }
        b.concat(&cols, shape.len() as i64)?
    };
    Ok(Some(Places {
        order,
        numbers,
        rank: shape.len(),
        at: if together { first as usize } else { 0 },
        count,
    }))
}
fn index(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let l = c.optional_tensors(1, "indices")?;
    let given: Vec<usize> = (0..l.len()).filter(|i| l[*i].is_some()).collect();
    if let [d] = given[..]
        && let Some(i) = l[d].as_ref().filter(|v| !matches!(v.dtype(), DType::Bool | DType::U8))
    {
        return Ok(b.gather(&x, i, d as i64)?.into());
    }
    let Some(p) = places(b, &x, &l)? else { return Ok(x.into()) };
    let moved = b.transpose(&x, &p.order)?;
    let mut shape = p.numbers.shape[..p.rank].to_vec();
    shape.extend(&moved.shape[p.count..]);
    let out = b.node("GatherND", &[&moved, &p.numbers], Vec::new(), x.dtype(), shape)?;
    Ok(back_in_place(b, &out, p.rank, p.at)?.into())
}
/// The index's dimensions, which come first, moved behind `at` others.
fn back_in_place(b: &mut Builder, v: &Var, rank: usize, at: usize) -> Result<Var> {
    let order: Vec<i64> =
        (rank..rank + at).chain(0..rank).chain(rank + at..v.rank()).map(|d| d as i64).collect();
    b.transpose(v, &order)
}
fn index_put(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (x, v) = (c.tensor(0, "self")?, c.tensor(2, "values")?);
    let l = c.optional_tensors(1, "indices")?;
    let add = c.bool_or(3, "accumulate", false)?;
    let v = b.cast(&v, x.dtype())?;
    // one mask and one value: a choice
    if let ([Some(m)], false) = (&l[..], add)
        && m.dtype() == DType::Bool
        && v.numel() == Some(1)
    {
        let v = b.reshape_to(&v, &[])?;
        let dims: Vec<i64> = (m.rank() as i64..x.rank() as i64).collect();
        let m = b.unsqueeze(m, &dims)?;
        return Ok(b.choose(&m, &v, &x)?.into());
    }
    let Some(p) = places(b, &x, &l)? else {
        let to = b.sizes(&x)?;
        return Ok(if add { b.add(&x, &v)? } else { b.expand(&v, &to)? }.into());
    };
    let moved = b.transpose(&x, &p.order)?;
    // values have the sizes of the result of `index`: index dimensions to the front, then whole sizes
    let front = b.sizes(&p.numbers)?;
    let rest = b.sizes(&moved)?;
    let rest = &rest[p.count..];
    let mut natural: Vec<Dim> = rest[..p.at].to_vec();
    natural.extend_from_slice(&front[..p.rank]);
    natural.extend_from_slice(&rest[p.at..]);
    let v = b.expand(&v, &natural)?;
    let order: Vec<i64> =
        (p.at..p.at + p.rank).chain(0..p.at).chain(p.at + p.rank..natural.len()).map(|d| d as i64).collect();
    let v = b.transpose(&v, &order)?;
    let attr = if add { vec![Attribute::text("reduction", "add")] } else { Vec::new() };
    let out = b.node("ScatterND", &[&moved, &p.numbers, &v], attr, x.dtype(), moved.shape.clone())?;
    let mut back = vec![0i64; p.order.len()];
    p.order.iter().enumerate().for_each(|(i, d)| back[*d as usize] = i as i64);
    Ok(b.transpose(&out, &back)?.into())
}
fn masked_scatter(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (x, m, v) = (c.tensor(0, "self")?, c.tensor(1, "mask")?, c.tensor(2, "source")?);
    let to = b.sizes(&x)?;
    let m = b.expand(&m, &to)?;
    let (flat, mask, v) = (b.reshape_to(&x, &[-1])?, b.reshape_to(&m, &[-1])?, b.reshape_to(&v, &[-1])?);
    let rows = nonzero(b, &mask)?;
    let n = b.size(&rows, 0)?;
    let v = b.slice(&v, 0, &Dim::Int(0), &n, 1)?;
    let out = b.node("ScatterND", &[&flat, &rows, &v], Vec::new(), x.dtype(), flat.shape.clone())?;
    Ok(b.reshape(&out, &to)?.into())
}
fn embedding_bag(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (w, i, offsets) = (c.tensor(0, "weight")?, c.tensor(1, "indices")?, c.tensor(2, "offsets")?);
    let mode = c.int_or(4, "mode", 0)?;
    let last = c.bool_or(7, "include_last_offset", false)?;
    let skip = c.int_or(8, "padding_idx", -1)?;
    let (i, offsets) = (b.cast(&i, DType::I64)?, b.cast(&offsets, DType::I64)?);
    let n = b.size(&i, 0)?;
    // bag k holds the numbers from offset k to before the next
    let (begin, end) = if last {
        (b.narrow(&offsets, 0, 0, -1)?, b.narrow(&offsets, 0, 1, i64::MAX)?)
    } else {
        let rest = b.narrow(&offsets, 0, 1, i64::MAX)?;
        let n = b.dims_vector(std::slice::from_ref(&n))?;
        (offsets.clone(), b.concat(&[rest, n], 0)?)
    };
    let at = b.range(&Dim::Int(0), &n)?;
    let (begin, end) = (b.unsqueeze(&begin, &[1])?, b.unsqueeze(&end, &[1])?);
    let (from, to) = (b.ge(&at, &begin)?, b.lt(&at, &end)?);
    let mut member = b.and(&from, &to)?;
    if skip >= 0 {
        let skip = b.int(skip)?;
        let pad = b.eq(&i, &skip)?;
        let real = b.not(&pad)?;
        member = b.and(&member, &real)?;
    }
    let rows = b.gather(&w, &i, 0)?;
    let rows = match c.optional(6, "per_sample_weights")? {
        Some(p) => {
            let p = b.cast(&p, w.dtype())?;
            let p = b.unsqueeze(&p, &[1])?;
            b.mul(&rows, &p)?
        }
        None => rows,
    };
    let weight = b.cast(&member, w.dtype())?;
    let counts = b.reduce("ReduceSum", &weight, &[1], true)?;
    let out = if mode == 2 {
        let inf = b.scalar(f64::NEG_INFINITY, w.dtype())?;
        let m = b.unsqueeze(&member, &[2])?;
        let all = b.choose(&m, &rows, &inf)?;
        let best = b.reduce("ReduceMax", &all, &[1], false)?;
        let zero = b.scalar(0.0, w.dtype())?;
        let empty = b.eq(&counts, &zero)?;
        b.choose(&empty, &zero, &best)?
    } else {
        let sum = b.matmul(&weight, &rows)?;
        if mode == 1 {
            let one = b.scalar(1.0, w.dtype())?;
            let counts = b.max(&counts, &one)?;
            b.div(&sum, &counts)?
        } else {
            sum
        }
    };
    Ok(Arg::List(vec![out.into(), Arg::None, Arg::None, Arg::None]))
}
