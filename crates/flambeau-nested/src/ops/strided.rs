//! Operators on nested tensors of the strided layout: on the buffer where elements are alike, else on the components.

use super::convert;
use super::{base, dim, ints_at, list, map_all, on_elements, one, place, tensors, written};
use crate::structure::{Part, Strided, packed, strided_of};
use flambeau_core::dispatch::op::OpInfo;
use flambeau_core::dispatch::value::{FromValue, arg, tensor_arg};
use flambeau_core::{Error, Result, Tensor, Value, bail, ensure, ops as core};
use flambeau_nn_functional::ops as nn;
use std::sync::Arc;

fn buffer(t: &Tensor) -> Result<Tensor> {
    Ok(strided_of(t).map_or_else(|| t.clone(), |s| s.buffer.clone()))
}
/// The call for each component, with `f` of its number in each tensor's place.
fn each(
    info: &'static OpInfo,
    args: &[Value],
    n: usize,
    f: &dyn Fn(&Tensor, usize) -> Result<Tensor>,
) -> Result<Vec<Vec<Value>>> {
    (0..n).map(|i| info.call(&map_all(args, &|t| f(t, i))?)).collect()
}
fn component(t: &Tensor, i: usize) -> Result<Tensor> {
    match strided_of(t) {
        Some(s) => s.component(i),
        None => Ok(t.clone()),
    }
}
/// Results of all components as nested results.
fn gather(rows: &[Vec<Value>], empty: &Strided) -> Result<Vec<Value>> {
    let results = rows.first().map_or(1, Vec::len);
    let column = |i: usize| {
        let all = rows.iter().map(|r| arg::<Tensor>(r, i)).collect::<Result<Vec<_>>>()?;
        pack(&all, empty).map(Value::Tensor)
    };
    (0..results).map(column).collect()
}
fn pack(all: &[Tensor], empty: &Strided) -> Result<Tensor> {
    let (rank, dtype) = all.first().map_or((empty.rank, empty.buffer.dtype()), |t| (t.dim(), t.dtype()));
    Strided::pack(all, rank, dtype)?.wrap()
}
fn same_parts(a: &Strided, b: &Strided) -> bool {
    a.parts.len() == b.parts.len() && a.parts.iter().zip(&*b.parts).all(|(p, q)| p.sizes == q.sizes)
}

pub(super) fn call(info: &'static OpInfo, args: &[Value], s: &Strided) -> Result<Option<Vec<Value>>> {
    let name = base(info);
    let writes = written(info);
    if info.pointwise && writes.is_none_or(|i| i == 0) {
        return pointwise(info, args, s).map(Some);
    }
    if on_elements(name) {
        let results = info.call(&map_all(args, &buffer)?)?;
        if writes.is_some() {
            return Ok(Some(vec![args[0].clone()]));
        }
        let over = |v: Value| match v.into_tensor() {
            Ok(t) => Ok(Value::Tensor(s.over(t)?)),
            Err(other) => Ok(other),
        };
        return results.into_iter().map(over).collect::<Result<Vec<_>>>().map(Some);
    }
    let first = args.first().and_then(|v| if let Value::Tensor(t) = v { Some(t) } else { None });
    match name {
        "copy_" => {
            let source = strided_of(tensor_arg(args, 1)?);
            let Some(source) = source.filter(|o| same_parts(s, o)) else {
                bail!(
                    Runtime,
                    "copy_ only supports tensors that are the same size for Nested implementations"
                );
            };
            let (mine, theirs) = (s.components()?, source.components()?);
            mine.iter().zip(&theirs).try_for_each(|(a, b)| core::copy_(a, b, false))?;
            return Ok(Some(vec![args[0].clone()]));
        }
        _ if writes.is_some() => return Ok(None),
        "cat" => return cat(args).and_then(one),
        "linear" => return linear(info, args, s).and_then(one),
        "embedding" => {
            let rows = info.call(&map_all(args, &buffer)?)?;
            let out = arg::<Tensor>(&rows, 0)?;
            let width = out.sizes().last().copied().unwrap_or(1);
            return wider(&core::reshape(&out, &[-1])?, s, |sizes| sizes.push(width)).and_then(one);
        }
        "matmul" | "bmm" => return matmul(info, args).map(Some),
        "layer_norm" => {
            let given = |i: usize| matches!(args.get(i), Some(Value::Tensor(_)));
            ensure!(given(2) && given(3), Value, "NestedTensor layer_norm requires weight and bias");
            return gather(&each(info, args, s.parts.len(), &component)?, s).map(Some);
        }
        "rms_norm" => return gather(&each(info, args, s.parts.len(), &component)?, s).map(Some),
        "scaled_dot_product_attention" => return attention(info, args, s).map(Some),
        _ => {}
    }
    if first.is_none_or(|t| strided_of(t).is_none()) {
        return Ok(None);
    }
    match views(name, args, s)? {
        Some(r) => Ok(Some(r)),
        None => along(name, info, args, s),
    }
}

fn pointwise(info: &'static OpInfo, args: &[Value], s: &Strided) -> Result<Vec<Value>> {
    let all = tensors(args);
    let name = base(info).trim_end_matches('_');
    let mut dense = s.is_contiguous();
    for (i, t) in all.iter().enumerate() {
        match strided_of(t) {
            Some(o) => {
                ensure!(
                    same_parts(s, o),
                    Runtime,
                    "{name} does not support broadcasting when given a NestedTensor"
                );
                dense &= o.is_contiguous();
            }
            None => {
                let (a, b) = if i == 0 { ("non-nested", "nested") } else { ("nested", "non-nested") };
                ensure!(
                    t.numel() == 1,
                    Runtime,
                    "Expected both self and other to be nested, but got a {a} self and {b} other"
                );
            }
        }
    }
    let flat = |t: &Tensor| match strided_of(t) {
        Some(o) => Ok(o.buffer.clone()),
        None => core::reshape(t, &[]),
    };
    let in_place = written(info).is_some();
    // buffers of the same parts agree element by element, gaps included
    let same = all
        .iter()
        .filter_map(|t| strided_of(t))
        .all(|o| o.parts == s.parts && o.buffer.numel() == s.buffer.numel());
    if dense || same {
        let results = info.call(&map_all(args, &flat)?)?;
        if in_place {
            return Ok(vec![args[0].clone()]);
        }
        let over = |v: Value| match v.into_tensor() {
            Ok(t) => Ok(Value::Tensor(s.over(t)?)),
            Err(other) => Ok(other),
        };
        return results.into_iter().map(over).collect();
    }
    let rows = each(info, args, s.parts.len(), &|t, i| match strided_of(t) {
        Some(o) => o.component(i),
        None => core::reshape(t, &[]),
    })?;
    if in_place { Ok(vec![args[0].clone()]) } else { gather(&rows, s) }
}
fn cat(args: &[Value]) -> Result<Tensor> {
    let all = Vec::<Tensor>::from_value(&args[0])?;
    let nested: Vec<&Strided> = all.iter().filter_map(strided_of).collect();
    ensure!(nested.len() == all.len(), Runtime, "Expected each tensor in given list to be nested.");
    let first = nested[0];
    ensure!(
        nested.iter().all(|o| o.rank == first.rank),
        Runtime,
        "cat: expected all nested tensors to have the same number of dimensions"
    );
    let d = dim(arg(args, 1)?, first.rank + 1)?;
    let parts = nested.iter().map(|o| o.components()).collect::<Result<Vec<_>>>()?;
    if d == 0 {
        return pack(&parts.concat(), first);
    }
    ensure!(
        nested.iter().all(|o| o.parts.len() == first.parts.len()),
        Runtime,
        "cat: expected all nested tensors to have the same number of components"
    );
    let row = |i: usize| {
        let row: Vec<Tensor> = parts.iter().map(|p| p[i].clone()).collect();
        core::cat(&row, d as i64 - 1)
    };
    pack(&(0..first.parts.len()).map(row).collect::<Result<Vec<_>>>()?, first)
}
/// A packed buffer whose components have other sizes than those of `s`.
fn wider(flat: &Tensor, s: &Strided, edit: impl Fn(&mut Vec<i64>)) -> Result<Tensor> {
    let mut at = 0;
    let mut parts = Vec::with_capacity(s.parts.len());
    for p in &*s.parts {
        let mut sizes = p.sizes.clone();
        edit(&mut sizes);
        let part: Part = packed(&sizes, at);
        at += part.numel();
        parts.push(part);
    }
    let rank = parts.first().map_or(s.rank, |p| p.sizes.len());
    Strided { buffer: flat.clone(), parts: Arc::new(parts), rank }.wrap()
}
/// One product for all rows.
fn linear(info: &'static OpInfo, args: &[Value], s: &Strided) -> Result<Tensor> {
    let width = tensor_arg(args, 1)?.sizes().last().copied().unwrap_or(0);
    let fits = s.rank > 0 && s.parts.iter().all(|p| p.sizes.last() == Some(&width));
    ensure!(
        fits || s.parts.is_empty(),
        Runtime,
        "Nested tensor's last dimension must be {width}, the number of input features of the weight"
    );
    let packed = if s.is_contiguous() {
        s.clone()
    } else {
        Strided::pack(&s.components()?, s.rank, s.buffer.dtype())?
    };
    let mut a = args.to_vec();
    a[0] = Value::Tensor(core::view(&packed.buffer, &[-1, width])?);
    let out = arg::<Tensor>(&info.call(&a)?, 0)?;
    let features = out.sizes()[1];
    wider(&core::reshape(&out, &[-1])?, s, |sizes| {
        if let Some(last) = sizes.last_mut() {
            *last = features;
        }
    })
}
fn matmul(info: &'static OpInfo, args: &[Value]) -> Result<Vec<Value>> {
    let (a, b) = (tensor_arg(args, 0)?, tensor_arg(args, 1)?);
    let is = |t: &Tensor| if strided_of(t).is_some() { "nested" } else { "non-nested" };
    let whole = base(info) == "bmm";
    let n = match (strided_of(a), strided_of(b)) {
        (Some(x), Some(y)) => {
            ensure!(
                x.parts.len() == y.parts.len(),
                Runtime,
                "Expected size for the 1st dimension of 2nd input tensor to be: {} but got: {}.",
                x.parts.len(),
                y.parts.len()
            );
            x.parts.len()
        }
        (Some(x), None) if whole && b.dim() == 3 && b.sizes()[0] == x.parts.len() as i64 => x.parts.len(),
        (None, Some(y)) if whole && a.dim() == 3 && a.sizes()[0] == y.parts.len() as i64 => y.parts.len(),
        _ => bail!(Runtime, "Expected both to be nested, but got a {} self and {} other", is(a), is(b)),
    };
    let part = |t: &Tensor, i: usize| match strided_of(t) {
        Some(s) => s.component(i),
        None => core::select(t, 0, i as i64),
    };
    let row = |i: usize| core::matmul(&part(a, i)?, &part(b, i)?);
    let all = (0..n).map(row).collect::<Result<Vec<_>>>()?;
    let like = strided_of(a).or_else(|| strided_of(b));
    let Some(like) = like else { bail!(Runtime, "a product of nested tensors") };
    Ok(vec![Value::Tensor(pack(&all, like)?)])
}
fn attention(info: &'static OpInfo, args: &[Value], s: &Strided) -> Result<Vec<Value>> {
    let nested = (0..3).map(|i| Ok(strided_of(tensor_arg(args, i)?))).collect::<Result<Vec<_>>>()?;
    let all: Vec<&Strided> = nested.into_iter().flatten().collect();
    ensure!(
        all.len() == 3,
        Runtime,
        "scaled_dot_product_attention: Query, key and value must be nested tensors or none of them"
    );
    ensure!(
        all.iter().all(|o| o.is_contiguous()),
        Runtime,
        "scaled_dot_product_attention: If inputs are nested tensors they must be contiguous"
    );
    ensure!(
        matches!(args.get(3), None | Some(Value::None)),
        Runtime,
        "scaled_dot_product_attention: Nested tensors for query / key / value are not supported when an explicit attn_mask is \
         set"
    );
    let _ = info;
    let (dropout, causal) = (arg::<f64>(args, 4)?, arg::<bool>(args, 5)?);
    let (scale, gqa) = (arg::<Option<f64>>(args, 6)?, arg::<bool>(args, 7)?);
    let mut out = Vec::new();
    for i in 0..s.parts.len() {
        let part = |o: &Strided| core::unsqueeze(&o.component(i)?, 0);
        let (q, k, v) = (part(all[0])?, part(all[1])?, part(all[2])?);
        let y = nn::scaled_dot_product_attention(&q, &k, &v, None, dropout, causal, scale, gqa)?;
        out.push(core::squeeze_dim(&y, 0)?);
    }
    Ok(vec![Value::Tensor(pack(&out, s)?)])
}

/// Sizes of `unflatten`, whose error names the nested tensor's dimension.
pub(super) fn check_unflatten(sizes: &[i64], d: usize, n: i64) -> Result<()> {
    let known: i64 = sizes.iter().filter(|s| **s >= 0).product();
    let open = sizes.iter().filter(|s| **s < 0).count();
    let fits = if open == 0 { known == n } else { open == 1 && known > 0 && n % known == 0 };
    ensure!(
        fits,
        Runtime,
        "unflatten: Provided sizes [{}] don't multiply up to the size of dim {d} ({n}) in the input tensor",
        sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
    );
    Ok(())
}
fn views(name: &str, args: &[Value], s: &Strided) -> Result<Option<Vec<Value>>> {
    let rank = s.rank + 1;
    let int = |i: usize| arg::<i64>(args, i);
    let this = || Ok::<_, Error>(tensor_arg(args, 0)?.clone());
    // views of each component over the same buffer
    let viewed = |rank: usize, f: &dyn Fn(&Tensor) -> Result<Tensor>| {
        let all = s.components()?.iter().map(f).collect::<Result<Vec<_>>>()?;
        s.viewed(&all, rank)
    };
    let no_batch = |name: &str, verb: &str| {
        Error::runtime(format!(
            "{name}(): For nested tensors, {verb} dimension 0 is not supported at the moment if you need this feature, please \
             open an issue on github describing your use case."
        ))
    };
    one(match name {
        "unbind" => {
            ensure!(
                dim(int(1)?, rank)? == 0,
                Runtime,
                "NestedTensor can only be unbound along dimension 0 got dimension {} instead.",
                int(1)?
            );
            return list(s.components()?);
        }
        "select" => {
            let d = dim(int(1)?, rank)?;
            let i = int(2)?;
            if d == 0 {
                let n = s.parts.len() as i64;
                ensure!(-n <= i && i < n, Index, "index {i} is out of bounds for dimension 0 with size {n}");
                return one(s.component(if i < 0 { i + n } else { i } as usize)?);
            }
            viewed(s.rank - 1, &|t| core::select(t, d as i64 - 1, i))?
        }
        "slice" => {
            let d = dim(int(1)?, rank)?;
            let (start, end, step) = (arg::<Option<i64>>(args, 2)?, arg::<Option<i64>>(args, 3)?, int(4)?);
            if d == 0 {
                let order: Vec<i64> = (0..s.parts.len() as i64).collect();
                return one(rows(s, &sliced(&order, start, end, step)?)?);
            }
            viewed(s.rank, &|t| core::slice(t, d as i64 - 1, start, end, step))?
        }
        "narrow" => {
            let d = dim(int(1)?, rank)?;
            ensure!(
                d == 0,
                Runtime,
                "narrow(): only dim=0 supported for nested tensors, but got: {}",
                int(1)?
            );
            let (start, n) = (int(2)?, s.parts.len() as i64);
            let (start, length) = (if start < 0 { start + n } else { start }, int(3)?);
            ensure!(
                start >= 0 && length >= 0 && start + length <= n,
                Runtime,
                "start ({start}) + length ({length}) exceeds dimension size ({n})."
            );
            rows(s, &(start..start + length).collect::<Vec<_>>())?
        }
        "transpose" => {
            let (a, b) = (dim(int(1)?, rank)?, dim(int(2)?, rank)?);
            if a == b {
                return one(this()?);
            }
            ensure!(a != 0 && b != 0, Runtime, "Nested tensor dimension 0 cannot be transposed");
            viewed(s.rank, &|t| core::transpose(t, a as i64 - 1, b as i64 - 1))?
        }
        "permute" => {
            let dims = Vec::<i64>::from_value(&args[1])?;
            let dims = dims.iter().map(|d| dim(*d, rank)).collect::<Result<Vec<_>>>()?;
            if dims.first() != Some(&0) {
                return Ok(None);
            }
            let within: Vec<i64> = dims[1..].iter().map(|d| *d as i64 - 1).collect();
            viewed(s.rank, &|t| core::permute(t, &within))?
        }
        "unsqueeze" => {
            let d = dim(int(1)?, rank + 1)?;
            if d == 0 {
                return Err(no_batch("unsqueeze", "unsqueezing"));
            }
            viewed(s.rank + 1, &|t| core::unsqueeze(t, d as i64 - 1))?
        }
        "squeeze" => {
            let Some(dims) = ints_at(args, 1)? else {
                bail!(
                    Runtime,
                    "squeeze(): For nested tensors, squeeze without the dim argument is not supported at the moment, however \
                     you can use squeeze(Tensor self, int dim) instead if you need this feature, please open an issue on \
                     github describing your use case."
                );
            };
            let dims = dims.iter().map(|d| dim(*d, rank)).collect::<Result<Vec<_>>>()?;
            if dims.contains(&0) {
                return Err(no_batch("squeeze", "squeezing"));
            }
            // a dimension goes where it has size 1 in all components
            let goes = |d: &&usize| s.parts.iter().all(|p| p.sizes[**d - 1] == 1);
            let within: Vec<i64> = dims.iter().filter(goes).map(|d| *d as i64 - 1).collect();
            viewed(s.rank - within.len(), &|t| core::squeeze_dims(t, &within))?
        }
        "view" | "reshape" => {
            let size = Vec::<i64>::from_value(&args[1])?;
            ensure!(
                size.len() > 1 && size[0] == s.parts.len() as i64,
                Runtime,
                "{name}: For now nested {name} cannot change or infer the implicit batch dimension"
            );
            let open = size[1..].iter().filter(|n| **n == -1).count();
            let wanted = |t: &Tensor| -> Vec<i64> {
                let keep = |(d, n): (usize, &i64)| {
                    if open > 1 && *n == -1 { t.sizes().get(d).copied().unwrap_or(-1) } else { *n }
                };
                size[1..].iter().enumerate().map(keep).collect()
            };
            if name == "reshape" && !s.is_contiguous() {
                let all = s
                    .components()?
                    .iter()
                    .map(|t| core::reshape(t, &wanted(t)))
                    .collect::<Result<Vec<_>>>()?;
                return one(pack(&all, s)?);
            }
            viewed(size.len() - 1, &|t| core::view(t, &wanted(t)))?
        }
        "flatten" => {
            let (start, end) = (dim(int(1)?, rank)?, dim(int(2)?, rank)?);
            ensure!(
                start > 0,
                Runtime,
                "flatten: For now nested flatten cannot change or infer the implicit batch dimension"
            );
            let all = s.components()?;
            let all = all.iter().map(|t| core::flatten(t, start as i64 - 1, end as i64 - 1));
            pack(&all.collect::<Result<Vec<_>>>()?, s)?
        }
        "unflatten" => {
            let (d, sizes) = (dim(int(1)?, rank)?, Vec::<i64>::from_value(&args[2])?);
            ensure!(
                d > 0,
                Runtime,
                "unflatten: For now nested unflatten cannot change or infer the implicit batch dimension"
            );
            s.parts.iter().try_for_each(|p| check_unflatten(&sizes, d, p.sizes[d - 1]))?;
            viewed(s.rank + sizes.len() - 1, &|t| core::unflatten(t, d as i64 - 1, &sizes))?
        }
        "chunk" | "unsafe_chunk" | "split" | "split_with_sizes" => {
            let d = dim(int(2)?, rank)?;
            ensure!(
                d == rank - 1 && d > 0,
                Runtime,
                "{} for nested tensors is currently only supported for the last dimension.",
                if name.ends_with("chunk") { "Chunk" } else { "split" }
            );
            let at = d as i64 - 1;
            let parts = s.components()?;
            let pieces = parts
                .iter()
                .map(|t| match &args[1] {
                    Value::Int(n) if name.ends_with("chunk") => core::chunk(t, *n, at),
                    Value::Int(n) => core::split(t, *n, at),
                    sizes => core::split_with_sizes(t, &Vec::<i64>::from_value(sizes)?, at),
                })
                .collect::<Result<Vec<_>>>()?;
            let n = pieces.first().map_or(0, Vec::len);
            ensure!(
                pieces.iter().all(|p| p.len() == n),
                Runtime,
                "components of a nested tensor that split into different numbers of parts"
            );
            let column = |i: usize| {
                let all: Vec<Tensor> = pieces.iter().map(|p| p[i].clone()).collect();
                s.viewed(&all, s.rank)
            };
            return list((0..n).map(column).collect::<Result<Vec<_>>>()?);
        }
        "clone" => s.over(core::clone(&s.buffer, None)?)?,
        "contiguous" if s.is_contiguous() => this()?,
        "contiguous" => pack(&s.components()?, s)?,
        "values" => s.buffer.clone(),
        _ => return Ok(None),
    })
}
fn sliced(order: &[i64], start: Option<i64>, end: Option<i64>, step: i64) -> Result<Vec<i64>> {
    ensure!(step > 0, Value, "slice step must be positive");
    let n = order.len() as i64;
    let clamp = |v: i64| (if v < 0 { v + n } else { v }).clamp(0, n) as usize;
    let (a, b) = (clamp(start.unwrap_or(0)), clamp(end.unwrap_or(n)));
    Ok(order[a.min(b)..b].iter().step_by(step as usize).copied().collect())
}
/// Some of the components, over the same buffer.
fn rows(s: &Strided, which: &[i64]) -> Result<Tensor> {
    let parts: Vec<Part> = which.iter().filter_map(|i| s.parts.get(*i as usize).cloned()).collect();
    Strided { buffer: s.buffer.clone(), parts: Arc::new(parts), rank: s.rank }.wrap()
}

/// Functions along one dimension of the components.
fn along(name: &str, info: &'static OpInfo, args: &[Value], s: &Strided) -> Result<Option<Vec<Value>>> {
    let rank = s.rank + 1;
    match name {
        "_softmax" | "_log_softmax" => {
            let d = dim(arg(args, 1)?, rank)?;
            ensure!(d != 0, Runtime, "Cannot apply softmax across nested dimension 0");
            within(info, args, s, 1, d).map(Some)
        }
        "sum" | "mean" | "amax" | "amin" | "prod" | "all" | "any" | "argmax" | "argmin" | "max" | "min"
        | "var" | "std" | "logsumexp" | "cumsum" | "cumprod" | "sort" | "topk" => {
            let Some(at) = place(info, "dim") else { return Ok(None) };
            let Some(dims) = ints_at(args, at)?.filter(|d| !d.is_empty()) else { return Ok(None) };
            let dims = dims.iter().map(|d| dim(*d, rank)).collect::<Result<Vec<_>>>()?;
            if name == "sum" {
                ensure!(
                    dims.len() == 1,
                    Runtime,
                    "NestedTensor only allows reduction of a single dimension for now."
                );
                ensure!(
                    dims[0] == rank - 1,
                    Runtime,
                    "NestedTensor can only be reduced across the last dimension for now got dimension {} instead.",
                    dims[0]
                );
                let keep = place(info, "keepdim").map_or(Ok(false), |i| arg::<bool>(args, i))?;
                ensure!(keep, Runtime, "NestedTensor always requires keepdim=True for now.");
            }
            ensure!(
                name != "all" || !dims.contains(&0),
                Runtime,
                "Cannot apply all across nested dimension 0"
            );
            match dims[..] {
                [d] if d > 0 => within(info, args, s, at, d).map(Some),
                _ => Ok(None),
            }
        }
        "masked_select" => {
            let all = s.components()?;
            let mask = tensor_arg(args, 1)?;
            let Some(m) = strided_of(mask).filter(|m| same_parts(s, m)) else { return Ok(None) };
            let marks = m.components()?;
            let chosen = all.iter().zip(&marks).map(|(t, m)| core::masked_select(t, m));
            one(pack(&chosen.collect::<Result<Vec<_>>>()?, s)?)
        }
        "to_padded_tensor" => one(convert::to_padded_tensor(tensor_arg(args, 0)?, arg(args, 1)?, None)?),
        _ => Ok(None),
    }
}
/// The call on each component, with its own dimension.
fn within(info: &'static OpInfo, args: &[Value], s: &Strided, at: usize, d: usize) -> Result<Vec<Value>> {
    let mut a = args.to_vec();
    a[at] = match &args[at] {
        Value::Int(_) => Value::Int(d as i64 - 1),
        _ => Value::List(vec![Value::Int(d as i64 - 1)]),
    };
    gather(&each(info, &a, s.parts.len(), &component)?, s)
}
