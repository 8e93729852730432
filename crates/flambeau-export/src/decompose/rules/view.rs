//! Views, and what puts tensors together.

use super::super::build::{Builder, Call, Item, op, wrapped};
use flambeau_core::{MemoryFormat, Result, Value};

/// A view with its dimensions in another order.
pub(super) fn permuted(b: &mut Builder, x: &Item, order: Vec<i64>) -> Result<Item> {
    Ok(op!(b, "permute.default", x, order))
}
/// Two dimensions exchanged.
pub(super) fn transposed(b: &mut Builder, x: &Item, i: i64, j: i64) -> Result<Item> {
    let rank = x.rank()?;
    if rank == 0 {
        return Ok(x.clone());
    }
    let (i, j) = (wrapped(i, rank)?, wrapped(j, rank)?);
    let mut order: Vec<i64> = (0..rank as i64).collect();
    order.swap(i, j);
    permuted(b, x, order)
}
/// A copy whose elements stand in order.
pub(super) fn contiguous(b: &mut Builder, x: &Item) -> Result<Item> {
    if x.tensor()?.is_contiguous() {
        return Ok(x.clone());
    }
    Ok(op!(b, "clone.default", x; memory_format = Value::MemoryFormat(MemoryFormat::Contiguous)))
}
/// Other sizes: a view where the memory allows it.
pub(super) fn reshaped(b: &mut Builder, x: &Item, sizes: Vec<i64>) -> Result<Item> {
    if x.sizes()? == sizes {
        return Ok(x.clone());
    }
    if let Ok(view) = b.op("view.default", vec![x.clone(), sizes.clone().into()], Vec::new()) {
        return Ok(view);
    }
    let x = contiguous(b, x)?;
    Ok(op!(b, "view.default", &x, sizes))
}
/// Sizes in which one may be -1.
pub(super) fn inferred(sizes: &[i64], numel: i64) -> Vec<i64> {
    let known: i64 = sizes.iter().filter(|n| **n >= 0).product();
    sizes.iter().map(|n| if *n < 0 { if known == 0 { 0 } else { numel / known } } else { *n }).collect()
}
/// A stretch of a dimension.
pub(super) fn sliced(b: &mut Builder, x: &Item, d: i64, from: i64, to: i64) -> Result<Item> {
    Ok(op!(b, "slice.Tensor", x, d, from, to))
}

pub(super) fn rule(b: &mut Builder, c: &Call) -> Result<Option<Item>> {
    let x = c.args.first().cloned().unwrap_or_else(Item::none);
    Ok(Some(match c.name.as_str() {
        "transpose.int" | "swapaxes.default" | "swapdims.default" => {
            transposed(b, &x, c.int(1, "dim0", 0), c.int(2, "dim1", 1))?
        }
        "t.default" | "numpy_T.default" if x.rank()? <= 2 => {
            if x.rank()? < 2 {
                x
            } else {
                transposed(b, &x, 0, 1)?
            }
        }
        "numpy_T.default" => {
            let order = (0..x.rank()? as i64).rev().collect();
            permuted(b, &x, order)?
        }
        "mT.default" => transposed(b, &x, -2, -1)?,
        "movedim.int" | "moveaxis.int" | "movedim.intlist" | "moveaxis.intlist" => {
            let rank = x.rank()?;
            let ends = |at, name| -> Result<Vec<usize>> {
                c.ints(at, name).unwrap_or_default().into_iter().map(|d| wrapped(d, rank)).collect()
            };
            let (from, to) = (ends(1, "source")?, ends(2, "destination")?);
            let mut order: Vec<Option<usize>> = vec![None; rank];
            for (f, t) in from.iter().zip(&to) {
                order[*t] = Some(*f);
            }
            let mut rest = (0..rank).filter(|d| !from.contains(d));
            let order =
                order.into_iter().filter_map(|o| o.or_else(|| rest.next())).map(|d| d as i64).collect();
            permuted(b, &x, order)?
        }
        "flatten.using_ints" => {
            let (sizes, rank) = (x.sizes()?, x.rank()?);
            if rank == 0 {
                return reshaped(b, &x, vec![1]).map(Some);
            }
            let from = wrapped(c.int(1, "start_dim", 0), rank)?;
            let to = wrapped(c.int(2, "end_dim", -1), rank)?;
            let mut new = sizes[..from].to_vec();
            new.push(sizes[from..=to.max(from)].iter().product());
            new.extend(&sizes[to.max(from) + 1..]);
            reshaped(b, &x, new)?
        }
        "reshape.default" | "_unsafe_view.default" => {
            let wish = c.ints(1, "shape").unwrap_or_default();
            let numel = x.tensor()?.numel();
            // sizes that are numbers of the program stay these
            let given = c.need(1, "shape")?;
            let known = wish.iter().all(|n| *n >= 0);
            if known && x.sizes()? != wish {
                if let Ok(view) = b.op("view.default", vec![x.clone(), given.clone()], Vec::new()) {
                    return Ok(Some(view));
                }
                let x = contiguous(b, &x)?;
                return Ok(Some(op!(b, "view.default", &x, given)));
            }
            reshaped(b, &x, inferred(&wish, numel))?
        }
        "view_as.default" | "reshape_as.default" => {
            let sizes = c.need(1, "other")?.sizes()?;
            reshaped(b, &x, sizes)?
        }
        "unflatten.int" => {
            let d = wrapped(c.int(1, "dim", 0), x.rank()?)?;
            let sizes = x.sizes()?;
            let parts = inferred(&c.ints(2, "sizes").unwrap_or_default(), sizes[d]);
            let new = [&sizes[..d], &parts[..], &sizes[d + 1..]].concat();
            op!(b, "view.default", &x, new)
        }
        "squeeze.dim" => op!(b, "squeeze.dims", &x, vec![c.int(1, "dim", 0)]),
        "squeeze.default" => {
            let ones =
                x.sizes()?.iter().enumerate().filter(|(_, n)| **n == 1).map(|(i, _)| i as i64).collect();
            op!(b, "squeeze.dims", &x, Vec::<i64>::clone(&ones))
        }
        "expand_as.default" => {
            let sizes = c.need(1, "other")?.sizes()?;
            op!(b, "expand.default", &x, sizes)
        }
        "broadcast_to.default" => op!(b, "expand.default", &x, c.need(1, "size")?),
        "broadcast_tensors.default" => {
            let all = x.items();
            let mut sizes: Vec<i64> = Vec::new();
            for i in &all {
                let own = i.sizes()?;
                while sizes.len() < own.len() {
                    sizes.insert(0, 1);
                }
                let shift = sizes.len() - own.len();
                for (d, n) in own.iter().enumerate() {
                    if *n != 1 {
                        sizes[shift + d] = *n;
                    }
                }
            }
            let mut out = Vec::new();
            for i in all {
                out.push(if i.sizes()? == sizes { i } else { op!(b, "expand.default", &i, &sizes[..]) });
            }
            out.into()
        }
        "contiguous.default" => contiguous(b, &x)?,
        "narrow.default" => {
            let (from, n) = (c.need(2, "start")?, c.need(3, "length")?);
            let sum = from.int().unwrap_or(0) + n.int().unwrap_or(0);
            // what data says is no expression of sizes, and stays a node
            let to = match (b.is_unbacked(&from), b.is_unbacked(&n)) {
                (false, false) => sum.into(),
                (false, true) if from.int() == Some(0) => n,
                _ => b.node("operator.add", &[from.clone(), n], &[], Value::Int(sum)),
            };
            let from = if b.is_unbacked(&from) { from } else { from.int().unwrap_or(0).into() };
            op!(b, "slice.Tensor", &x, c.int(1, "dim", 0), from, to)
        }
        "unbind.int" => {
            let d = wrapped(c.int(1, "dim", 0), x.rank()?)? as i64;
            let mut out = Vec::new();
            for i in 0..x.size(d)? {
                let part = sliced(b, &x, d, i, i + 1)?;
                out.push(op!(b, "squeeze.dims", &part, vec![d]));
            }
            out.into()
        }
        "split.Tensor" | "chunk.default" => {
            let d = wrapped(c.int(2, "dim", 0), x.rank()?)? as i64;
            let n = x.size(d)?;
            let mut each = c.int(1, "chunks", 1).max(1);
            if c.name.starts_with("chunk") {
                each = ((n + each - 1) / each).max(1);
            }
            let mut sizes = vec![each; (n / each) as usize];
            if n % each != 0 || n == 0 {
                sizes.push(n % each);
            }
            op!(b, "split_with_sizes.default", &x, sizes, d)
        }
        "stack.default" => {
            let all = x.items();
            let Some(first) = all.first().cloned() else { return Ok(None) };
            let d = wrapped(c.int(1, "dim", 0), first.rank()? + 1)?;
            if d < first.rank()? {
                let mut sizes = first.sizes()?;
                sizes.insert(d, all.len() as i64);
                let joined = op!(b, "cat.default", &x, d as i64);
                op!(b, "view.default", &joined, sizes)
            } else {
                let mut parts = Vec::new();
                for i in &all {
                    parts.push(op!(b, "unsqueeze.default", i, d as i64));
                }
                op!(b, "cat.default", parts, d as i64)
            }
        }
        "hstack.default" | "vstack.default" => {
            let all = x.items();
            let across =
                c.name.starts_with('h') && all.first().is_some_and(|i| i.rank().is_ok_and(|r| r > 1));
            op!(b, "cat.default", &x, i64::from(across))
        }
        "tile.default" => {
            let mut times = c.ints(1, "dims").unwrap_or_default();
            while times.len() < x.rank()? {
                times.insert(0, 1);
            }
            op!(b, "repeat.default", &x, times)
        }
        "diff.default" => {
            let d = c.int(2, "dim", -1);
            let mut parts = Vec::new();
            parts.extend(c.get(3, "prepend"));
            parts.push(x.clone());
            parts.extend(c.get(4, "append"));
            let mut x = if parts.len() > 1 { op!(b, "cat.default", parts, d) } else { x };
            for _ in 0..c.int(1, "n", 1) {
                let n = x.size(d)?;
                let front = sliced(b, &x, d, 0, n - 1)?;
                let back = sliced(b, &x, d, 1, n)?;
                x = op!(b, "sub.Tensor", &back, &front);
            }
            x
        }
        "pixel_shuffle.default" => {
            let r = c.int(1, "upscale_factor", 1);
            let sizes = x.sizes()?;
            let [front @ .., ch, h, w] = &sizes[..] else { return Ok(None) };
            let k = front.len() as i64;
            let parts = [front, &[ch / (r * r), r, r, *h, *w]].concat();
            let view = op!(b, "view.default", &x, parts);
            let order = (0..k).chain([k, k + 3, k + 1, k + 4, k + 2]).collect();
            let view = permuted(b, &view, order)?;
            let copy = contiguous(b, &view)?;
            let new = [front, &[ch / (r * r), h * r, w * r]].concat();
            let out = op!(b, "view.default", &copy, new);
            op!(b, "clone.default", &out; memory_format = Value::MemoryFormat(MemoryFormat::Contiguous))
        }
        "pixel_unshuffle.default" => {
            let r = c.int(1, "downscale_factor", 1).max(1);
            let sizes = x.sizes()?;
            let [front @ .., ch, h, w] = &sizes[..] else { return Ok(None) };
            let k = front.len() as i64;
            let parts = [front, &[*ch, h / r, r, w / r, r]].concat();
            let view = op!(b, "view.default", &x, parts);
            let order = (0..k).chain([k, k + 2, k + 4, k + 1, k + 3]).collect();
            let view = permuted(b, &view, order)?;
            let copy = contiguous(b, &view)?;
            let new = [front, &[ch * r * r, h / r, w / r]].concat();
            let out = op!(b, "view.default", &copy, new);
            op!(b, "clone.default", &out; memory_format = Value::MemoryFormat(MemoryFormat::Contiguous))
        }
        "channel_shuffle.default" => {
            let groups = c.int(1, "groups", 1).max(1);
            let sizes = x.sizes()?;
            let [n, ch, rest @ ..] = &sizes[..] else { return Ok(None) };
            let parts = [&[*n, groups, ch / groups], rest].concat();
            let order = [0, 2, 1].into_iter().chain(3..parts.len() as i64).collect();
            let view = op!(b, "view.default", &x, parts);
            let view = permuted(b, &view, order)?;
            let copy = contiguous(b, &view)?;
            op!(b, "view.default", &copy, sizes)
        }
        "real.default" | "imag.default" if x.dtype()?.is_complex() => {
            let parts = op!(b, "view_as_real.default", &x);
            op!(b, "select.int", &parts, x.rank()? as i64, i64::from(c.name.starts_with('i')))
        }
        "conj.default" => {
            if x.dtype()?.is_complex() {
                op!(b, "_conj.default", &x)
            } else {
                x
            }
        }
        "detach.default" => op!(b, "alias.default", &x),
        "detach_.default" => x,
        _ => return Ok(None),
    }))
}
