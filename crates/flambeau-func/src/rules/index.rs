//! Elements by their indices.

use super::dims::{dims, flattened, shifted};
use super::looped::looped;
use super::pointwise::padded;
use super::{mul_scalar, number};
use crate::batched::moved;
use crate::call::Call;
use flambeau_core::dispatch::value::{Value, arg};
use flambeau_core::{DType, Error, Result, Tensor, ops};

/// Numbers of the slices, with so many dimensions of size 1 behind.
pub(crate) fn numbers(c: &Call<'_>, like: &Tensor, behind: usize) -> Result<Tensor> {
    let t = ops::arange(c.batch().into(), Some(DType::I64), None, Some(like.device()), None)?;
    let mut sizes = vec![c.batch()];
    sizes.extend(std::iter::repeat_n(1, behind));
    ops::view(&t, &sizes)
}
/// Indices from the end as such from the start.
fn from_start(index: &Tensor, n: i64) -> Result<Tensor> {
    let negative = ops::lt(index, &number(0)?)?;
    ops::where_(&negative, &ops::add(index, &number(n)?, 1.into())?, index)
}

/// The indices of a call of `index` or `index_put`, boolean ones as numbers.
struct Indices {
    all: Vec<Option<Tensor>>,
    /// Dimensions of what they broadcast to, in a slice.
    rank: usize,
    batched: bool,
    /// Where the first stands, if all stand beside each other.
    together: Option<usize>,
}
fn indices(c: &Call<'_>) -> Result<Indices> {
    let given: Vec<Option<Tensor>> = arg(c.args, 1)?;
    let mut all = Vec::new();
    let mut batched = false;
    for t in given {
        let Some(t) = t else {
            all.push(None);
            continue;
        };
        let (front, has) = c.front(&t)?;
        if matches!(t.dtype(), DType::Bool | DType::U8) {
            if has {
                return Err(Error::runtime(
                    "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over \
                     indexing with a boolean mask.",
                ));
            }
            all.extend(ops::unbind(&ops::nonzero(&t)?, 1)?.into_iter().map(|i| Some((i, false))));
            continue;
        }
        batched |= has;
        all.push(Some((front, has)));
    }
    let own = |(t, has): &(Tensor, bool)| t.dim() - usize::from(*has);
    let rank = all.iter().flatten().map(own).max().unwrap_or(0);
    let first = all.iter().position(Option::is_some).unwrap_or(0);
    let last = all.iter().rposition(Option::is_some).unwrap_or(0);
    let between = all.get(first..=last.max(first)).unwrap_or(&[]);
    let together = between.iter().all(Option::is_some).then_some(first);
    let all = all
        .into_iter()
        .map(|v| match v {
            Some((t, true)) => padded(&t, rank).map(Some),
            Some((t, false)) => Ok(Some(t)),
            None => Ok(None),
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Indices { all, rank, batched, together })
}
/// `index`
pub(crate) fn index(c: &Call<'_>) -> Result<Vec<Value>> {
    let ix = indices(c)?;
    let (t, has) = c.front(c.tensor(0)?)?;
    let with = |first: Option<Tensor>| {
        let mut all = vec![first];
        all.extend(ix.all.iter().cloned());
        all
    };
    if !has {
        let out = ops::index(&t, &ix.all)?;
        return Ok(vec![c.hidden(&out, ix.together.unwrap_or(0))?]);
    }
    if !ix.batched {
        let out = ops::index(&t, &with(None))?;
        let at = if ix.together.is_some() { 0 } else { ix.rank };
        return Ok(vec![c.hidden(&out, at)?]);
    }
    let out = ops::index(&t, &with(Some(numbers(c, &t, ix.rank)?)))?;
    // the indexed dimensions came to the front together with the slices: back to where they are in a slice
    match ix.together {
        Some(p) if p > 0 => c.one(&regrouped(&out, 1, ix.rank, p)?),
        _ => c.one(&out),
    }
}
/// Moves `n` dimensions that begin at `at` behind the `by` that follow.
fn regrouped(t: &Tensor, at: usize, n: usize, by: usize) -> Result<Tensor> {
    let mut order: Vec<i64> = (0..t.dim() as i64).collect();
    order[at..at + n + by].rotate_left(n);
    ops::permute(t, &order)
}
/// `index_put`, in place too.
pub(crate) fn index_put(c: &Call<'_>) -> Result<Vec<Value>> {
    c.check_written()?;
    let ix = indices(c)?;
    let t = c.whole_at(0)?;
    let mut all = vec![Some(numbers(c, &t, ix.rank)?)];
    all.extend(ix.all.iter().cloned());
    let (values, has) = c.front(c.tensor(2)?)?;
    let p = ix.together.unwrap_or(0);
    // what the indices give in a slice
    let shapes: Vec<&[i64]> = ix
        .all
        .iter()
        .flatten()
        .map(|t| if t.dim() > ix.rank { &t.sizes()[1..] } else { t.sizes() })
        .collect();
    let mut found: Vec<i64> = vec![1; ix.rank];
    for s in shapes {
        for (k, n) in s.iter().rev().enumerate() {
            let at = ix.rank - 1 - k;
            if *n != 1 {
                found[at] = *n;
            }
        }
    }
    let kept: Vec<i64> = (0..c.rank(0))
        .filter(|d| ix.all.get(*d).is_none_or(Option::is_none))
        .map(|d| t.sizes()[d + 1])
        .collect();
    let mut want = vec![c.batch()];
    want.extend(&kept[..p.min(kept.len())]);
    want.extend(&found);
    want.extend(&kept[p.min(kept.len())..]);
    let values = if has { padded(&values, want.len() - 1)? } else { values };
    let mut values = ops::expand(&values, &want, false)?;
    if p > 0 {
        values = regrouped(&values, 1, p, ix.rank)?;
    }
    let list = Value::List(all.into_iter().map(|t| t.map_or(Value::None, Value::Tensor)).collect());
    c.run(&[Value::Tensor(t), list, Value::Tensor(values), c.args[3].clone()])
}
/// `gather`
pub(crate) fn gather(c: &Call<'_>) -> Result<Vec<Value>> {
    if c.rank(0) > 0 && c.rank(2) > 0 {
        return dims(c);
    }
    let one = |t: Tensor| if t.dim() == 1 { ops::unsqueeze(&t, 1) } else { Ok(t) };
    let t = one(c.whole_at(0)?)?;
    let index = one(c.whole_at(2)?)?;
    let dim = shifted(c.int(1)?, c.rank(0))?;
    let out = ops::gather(&t, dim, &index, false)?;
    c.one(&if c.rank(2) == 0 { ops::select(&out, 1, 0)? } else { out })
}
/// `index_select`
pub(crate) fn index_select(c: &Call<'_>) -> Result<Vec<Value>> {
    let rank = c.rank(0);
    let dim = shifted(c.int(1)?, rank)?;
    let t = c.whole_at(0)?;
    let t = if rank == 0 { ops::unsqueeze(&t, 1)? } else { t };
    let (index, has) = c.front(c.tensor(2)?)?;
    let out = if has {
        let index = if index.dim() == 1 { ops::unsqueeze(&index, 1)? } else { index };
        let index = from_start(&index, t.sizes()[dim as usize])?;
        let mut sizes = vec![1; t.dim() as usize];
        (sizes[0], sizes[dim as usize]) = (index.sizes()[0], index.sizes()[1]);
        let index = ops::reshape(&index, &sizes)?;
        let mut sizes = t.sizes().to_vec();
        sizes[dim as usize] = index.sizes()[dim as usize];
        ops::gather(&t, dim, &ops::expand(&index, &sizes, false)?, false)?
    } else {
        ops::index_select(&t, dim, &index)?
    };
    c.one(&if rank == 0 { ops::select(&out, 1, 0)? } else { out })
}
/// `index_add` and its like: the rows of all slices are rows of one tensor, where the indices differ.
pub(crate) fn index_rows(c: &Call<'_>) -> Result<Vec<Value>> {
    c.check_written()?;
    let at = c.position("index").unwrap_or(2);
    let source = (at + 1..c.args.len()).find(|i| c.maybe(*i).is_some());
    let rank = c.rank(0);
    let values = source.filter(|i| c.info.schema.args[*i].name == "source");
    if rank == 0 || (source.is_some() && values.is_none() && c.is_batched(source.unwrap_or(0))) {
        return looped(c);
    }
    let dim = shifted(c.int(1)?, rank)? as usize;
    let t = c.whole_at(0)?;
    let mut args = c.args.to_vec();
    if !c.is_batched(at) {
        args[0] = Value::Tensor(t);
        args[1] = Value::Int(dim as i64);
        if let Some(i) = values {
            let v = c.whole_at(i)?;
            args[i] = Value::Tensor(if v.dim() == 1 { ops::unsqueeze(&v, 1)? } else { v });
        }
        return c.run(&args);
    }
    let n = t.sizes()[dim];
    let rows = |t: &Tensor, d: usize| -> Result<Tensor> {
        let t = moved(t, d, 1)?;
        let mut sizes = t.sizes()[1..].to_vec();
        sizes[0] *= c.batch();
        ops::reshape(&t, &sizes)
    };
    let index = c.whole_at(at)?;
    let index = if index.dim() == 1 { ops::unsqueeze(&index, 1)? } else { index };
    let index = ops::to_copy(&index, Some(DType::I64), None, None, None, false, None)?;
    let offset = mul_scalar(&numbers(c, &t, 1)?, n.into())?;
    let index = ops::add(&from_start(&index, n)?, &offset, 1.into())?;
    let flat = rows(&t, dim)?;
    let flat = if c.written().is_some() { ops::clone(&flat, None)? } else { flat };
    args[0] = Value::Tensor(flat.clone());
    args[1] = Value::Int(0);
    args[at] = Value::Tensor(ops::reshape(&index, &[-1])?);
    if let Some(i) = values {
        let v = c.whole_at(i)?;
        let v = if v.dim() == 1 { ops::unsqueeze(&v, 1)? } else { v };
        args[i] = Value::Tensor(rows(&v, dim.min(v.dim() as usize - 1))?);
    }
    let mut results = c.info.call(&args)?;
    let out = match (c.written(), results.pop().map(Value::into_tensor)) {
        (None, Some(Ok(out))) => out,
        _ => flat,
    };
    let mut sizes = out.sizes().to_vec();
    sizes[0] = n;
    sizes.insert(0, c.batch());
    let out = moved(&ops::reshape(&out, &sizes)?, 1, dim)?;
    if c.written().is_some() {
        ops::copy_(&t, &out, false)?;
        return Ok(vec![c.args[0].clone()]);
    }
    c.one(&out)
}
/// `take`
pub(crate) fn take(c: &Call<'_>) -> Result<Vec<Value>> {
    let (t, has) = c.front(c.tensor(0)?)?;
    if !has {
        let (index, at) = c.parts(c.tensor(1)?);
        return Ok(vec![c.hidden(&ops::take(&t, &index)?, at.unwrap_or(0))?]);
    }
    let flat = flattened(&t)?;
    let index = c.whole_at(1)?;
    c.one(&ops::take(&flat, &in_slices(c, &flat, &index)?)?)
}
/// Indices into the elements of slices as such into the elements of all.
fn in_slices(c: &Call<'_>, flat: &Tensor, index: &Tensor) -> Result<Tensor> {
    let n = flat.sizes()[1];
    let offset = mul_scalar(&numbers(c, flat, index.dim() - 1)?, n.into())?;
    ops::add(&from_start(index, n)?, &offset, 1.into())
}
/// `put`, in place too.
pub(crate) fn put(c: &Call<'_>) -> Result<Vec<Value>> {
    c.check_written()?;
    let t = c.whole_at(0)?;
    let index = in_slices(c, &flattened(&t)?, &c.whole_at(1)?)?;
    c.run(&[Value::Tensor(t), Value::Tensor(index), Value::Tensor(c.whole_at(2)?), c.args[3].clone()])
}
/// `searchsorted` and `bucketize`: values in rows, one row of bounds for each slice.
pub(crate) fn search(c: &Call<'_>) -> Result<Vec<Value>> {
    let (values, bounds) = if c.info.schema.args[1].name == "boundaries" { (0, 1) } else { (1, 0) };
    if c.maybe(values).is_none() {
        return looped(c);
    }
    let sorter = c.position("sorter");
    if !c.is_batched(bounds) && c.rank(bounds) == 1 && !sorter.is_some_and(|i| c.is_batched(i)) {
        return super::pointwise::unary_at(c, values);
    }
    let t = c.whole_at(values)?;
    let mut args = c.args.to_vec();
    if c.rank(bounds) > 1 {
        for i in 0..args.len() {
            if c.maybe(i).is_some() {
                args[i] = Value::Tensor(c.whole_at(i)?);
            }
        }
        return c.run(&args);
    }
    let flat = if t.dim() == 1 { ops::unsqueeze(&t, 1)? } else { flattened(&t)? };
    let side = |name: &str| c.position(name).map_or(Ok(false), |i| c.flag(i));
    let text: Option<String> = c.position("side").map_or(Ok(None), |i| arg(c.args, i))?;
    let sorter = sorter.map_or(Ok(None), |i| c.whole_maybe(i))?;
    let (out_int32, right) = (side("out_int32")?, side("right")?);
    let found =
        ops::searchsorted(&c.whole_at(bounds)?, &flat, out_int32, right, text.as_deref(), sorter.as_ref())?;
    c.one(&ops::reshape(&found, t.sizes())?)
}
