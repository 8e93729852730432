//! Operators on nested tensors of the jagged layout: on the tensor of all rows where the ragged dimension stays, on the components
//! where it does not.

use super::convert::from_padded;
use super::reduction;
use super::{base, dim, ints_at, list, map_all, on_elements, one, shape_text, tensors, written};
use crate::structure::{Jagged, from_components, jagged_of, size_text};
use flambeau_core::dispatch::op::OpInfo;
use flambeau_core::dispatch::value::{FromValue, arg, tensor_arg};
use flambeau_core::{Error, MemoryFormat, Result, Tensor, Value, bail, ensure, ops as core};
use flambeau_nn_functional::ops as nn;

/// The dimension of the values that a dimension of the nested tensor is; not the batch's, nor the ragged one.
fn inner(name: &str, d: i64, rank: usize, ragged: Option<usize>) -> Result<usize> {
    let d = dim(d, rank)?;
    ensure!(Some(d) != ragged, Runtime, "{name}(): not supported for NestedTensor on ragged dim");
    ensure!(d != 0, Runtime, "{name}(): not supported for NestedTensor on dim=0");
    Ok(d - 1)
}
fn values(t: &Tensor) -> Result<Tensor> {
    Ok(jagged_of(t).map_or_else(|| t.clone(), |j| j.values.clone()))
}
/// Results on values as nested tensors of the same structure.
fn rewrap(j: &Jagged, results: Vec<Value>) -> Result<Vec<Value>> {
    let all = |l: &mut Vec<Value>| rewrap(j, std::mem::take(l));
    let each = |mut v| {
        Ok(match &mut v {
            Value::Tensor(t) => Value::Tensor(j.over(t.clone())?),
            Value::List(l) => Value::List(all(l)?),
            Value::Tuple(l) => Value::Tuple(all(l)?),
            _ => v,
        })
    };
    results.into_iter().map(each).collect()
}
/// The first parts of the sizes, the ragged one included, are the same; -1 is any.
fn same_ragged(j: &Jagged, sizes: &[i64]) -> bool {
    let own = j.sizes();
    sizes.len() > j.ragged && own[..=j.ragged].iter().zip(sizes).all(|(a, b)| a == b || *b == -1)
}

pub(super) fn call(info: &'static OpInfo, args: &[Value], j: &Jagged) -> Result<Option<Vec<Value>>> {
    let name = base(info);
    let writes = written(info);
    if info.pointwise && writes.is_none_or(|i| i == 0) {
        return pointwise(info, args, j).map(Some);
    }
    if on_elements(name) {
        let results = info.call(&map_all(args, &values)?)?;
        if writes.is_some() {
            return Ok(Some(vec![args[0].clone()]));
        }
        return rewrap(j, results).map(Some);
    }
    if name == "copy_" {
        return copy(args, j).map(Some);
    }
    if writes.is_some() {
        return Ok(None);
    }
    match name {
        "cat" => return cat(args).map(Some),
        "linear" | "embedding" | "one_hot" => {
            ensure!(
                name != "linear" || j.ragged < j.rank() - 1,
                Runtime,
                "linear(): not supported for NestedTensor whose ragged dim is the last"
            );
            return rewrap(j, info.call(&map_all(args, &values)?)?).map(Some);
        }
        "matmul" | "bmm" => return matmul(name, tensor_arg(args, 0)?, tensor_arg(args, 1)?).and_then(one),
        "scaled_dot_product_attention" => return attention(args).and_then(one),
        "expand_as" => {
            let (t, other) = (tensor_arg(args, 0)?, tensor_arg(args, 1)?);
            return match (jagged_of(t), jagged_of(other)) {
                (None, Some(o)) => one(o.over(core::expand(t, o.values.sizes(), false)?)?),
                (Some(_), _) => Ok(Some(vec![Value::Tensor(core::expand(t, other.sizes(), false)?)])),
                _ => Ok(None),
            };
        }
        _ => {}
    }
    // what follows is about the first argument
    if args.first().is_none_or(|v| !matches!(v, Value::Tensor(t) if jagged_of(t).is_some())) {
        return Ok(None);
    }
    if let Some(r) = views(name, args, j)? {
        return Ok(Some(r));
    }
    match name {
        "clone" => rewrap(j, info.call(&map_all(args, &values)?)?).map(Some),
        "contiguous" => {
            one(if j.is_contiguous() { tensor_arg(args, 0)?.clone() } else { j.dense()?.wrap()? })
        }
        "values" => one(j.values.clone()),
        "_softmax" | "_log_softmax" => softmax(info, args, j).and_then(one),
        "layer_norm" => layer_norm(info, args, j).and_then(one),
        "rms_norm" => {
            let shape = Vec::<i64>::from_value(&args[1])?;
            ensure!(
                shape.len() < j.rank() - j.ragged,
                Value,
                "rms_norm(): Normalization over the ragged dim not supported for nested tensors"
            );
            rewrap(j, info.call(&map_all(args, &values)?)?).map(Some)
        }
        _ => reduction::jagged(info, args, j),
    }
}

/// Operands as values of one structure.
fn pointwise(info: &'static OpInfo, args: &[Value], j: &Jagged) -> Result<Vec<Value>> {
    let all = tensors(args);
    let mismatch = || {
        let full =
            if info.name.contains('.') { info.name.to_string() } else { format!("{}.default", info.name) };
        let (a, b) = (
            all.first().map_or(String::new(), |t| shape_text(t)),
            all.get(1).map_or(String::new(), |t| shape_text(t)),
        );
        Error::runtime(format!(
            "cannot call binary pointwise function {full} with inputs of shapes {a} and {b}"
        ))
    };
    let operand = |t: &Tensor| -> Result<Tensor> {
        if let Some(o) = jagged_of(t) {
            return if same_ragged(j, &o.sizes()) { Ok(o.values.clone()) } else { Err(mismatch()) };
        }
        let rank = j.rank();
        if t.dim() > rank {
            return Err(Error::unsupported("NYI: broadcasting NT with T with larger dim"));
        }
        let ones = t.sizes().iter().take_while(|n| **n == 1).count();
        if t.dim() - ones + 2 <= rank {
            // leading dimensions of size 1 stand for the batch and the ragged one
            return if ones == 0 { Ok(t.clone()) } else { core::reshape(t, &t.sizes()[ones..]) };
        }
        if t.dim() != rank || t.sizes()[0] != j.batch() {
            return Err(mismatch());
        }
        let mut wide = t.sizes().to_vec();
        wide[j.ragged] = j.bounds()?.iter().map(|b| b.1).max().unwrap_or(0).max(wide[j.ragged]);
        from_padded(&core::expand(t, &wide, false)?, j)
    };
    let results = info.call(&map_all(args, &operand)?)?;
    if written(info).is_some() {
        return Ok(vec![args[0].clone()]);
    }
    rewrap(j, results)
}
fn copy(args: &[Value], j: &Jagged) -> Result<Vec<Value>> {
    let (to, from) = (tensor_arg(args, 0)?, tensor_arg(args, 1)?);
    let Some(source) = jagged_of(from) else {
        bail!(Runtime, "copy_(): expected a jagged layout NestedTensor")
    };
    if to.sizes() == from.sizes() {
        core::copy_(&j.values, &source.values, false)?;
        return Ok(vec![args[0].clone()]);
    }
    let (mine, theirs) = (j.components()?, source.components()?);
    ensure!(
        mine.len() == theirs.len() && mine.iter().zip(&theirs).all(|(a, b)| a.sizes() == b.sizes()),
        Runtime,
        "copy_(): expected compatible input and src shapes, but got: {} and {}",
        size_text(to.sizes()),
        size_text(from.sizes())
    );
    mine.iter().zip(&theirs).try_for_each(|(a, b)| core::copy_(a, b, false))?;
    Ok(vec![args[0].clone()])
}
fn cat(args: &[Value]) -> Result<Vec<Value>> {
    let all = Vec::<Tensor>::from_value(&args[0])?;
    let Some(first) = all.iter().find_map(jagged_of) else {
        bail!(Assertion, "At least one tensor must be nested")
    };
    let part = |t: &Tensor| match jagged_of(t) {
        Some(o) => {
            ensure!(
                same_ragged(first, &o.sizes()),
                Runtime,
                "cat(): expected all nested tensors to have the same nested structure"
            );
            Ok(o.values.clone())
        }
        None => core::expand(t, first.values.sizes(), false),
    };
    let parts = all.iter().map(part).collect::<Result<Vec<_>>>()?;
    let d = inner("cat", arg(args, 1)?, first.rank(), Some(first.ragged))?;
    Ok(vec![Value::Tensor(first.over(core::cat(&parts, d as i64)?)?)])
}

/// Views.
fn views(name: &str, args: &[Value], j: &Jagged) -> Result<Option<Vec<Value>>> {
    let (rank, r, v) = (j.rank(), j.ragged, &j.values);
    let int = |i: usize| arg::<i64>(args, i);
    one(match name {
        "unbind" => {
            ensure!(dim(int(1)?, rank)? == 0, Runtime, "unbind(): only supported for NestedTensor on dim=0");
            return list(j.components()?);
        }
        "select" => {
            let d = dim(int(1)?, rank)?;
            if d == 0 {
                let (i, all) = (int(2)?, j.components()?);
                let at = if i < 0 { i + all.len() as i64 } else { i };
                let found = usize::try_from(at).ok().and_then(|at| all.get(at));
                let found = found.ok_or_else(|| Error::index("tuple index out of range"))?;
                return one(found.clone());
            }
            let at = inner(name, d as i64, rank, Some(r))?;
            ensure!(
                j.lengths.is_none(),
                Value,
                "select(): not yet supported on dim != 0 for non-contiguous nested tensor with holes"
            );
            j.over_at(core::select(v, at as i64, int(2)?)?, r - usize::from(at < r - 1))?
        }
        "slice" => {
            let at = inner(name, int(1)?, rank, Some(r))? as i64;
            j.over(core::slice(v, at, arg(args, 2)?, arg(args, 3)?, int(4)?)?)?
        }
        "narrow" => {
            let at = inner(name, int(1)?, rank, Some(r))? as i64;
            j.over(core::narrow(v, at, int(2)?, int(3)?)?)?
        }
        "split" | "split_with_sizes" | "unsafe_chunk" | "chunk" => return split(name, args, j),
        "transpose" => {
            let (a, b) = (dim(int(1)?, rank)?, dim(int(2)?, rank)?);
            if a == r || b == r {
                ensure!(
                    a != 0 && b != 0,
                    Value,
                    "Transpose is not supported on the batch dimension for jagged NT"
                );
                let to = if a == r { b } else { a };
                return one(j.over_at(core::transpose(v, a as i64 - 1, b as i64 - 1)?, to)?);
            }
            let (a, b) = (inner(name, a as i64, rank, Some(r))?, inner(name, b as i64, rank, Some(r))?);
            j.over(core::transpose(v, a as i64, b as i64)?)?
        }
        "permute" => {
            let dims = Vec::<i64>::from_value(&args[1])?;
            ensure!(
                dims.len() == rank,
                Value,
                "permute(): number of dimensions in the tensor input ({rank}) does not match the length of the desired \
                 ordering of dimensions ({}).",
                dims.len()
            );
            let dims = dims.iter().map(|d| dim(*d, rank)).collect::<Result<Vec<_>>>()?;
            let mut sorted = dims.clone();
            sorted.sort_unstable();
            ensure!(
                sorted.iter().enumerate().all(|(i, d)| i == *d),
                Value,
                "permute(): duplicate dims are not allowed."
            );
            ensure!(
                j.lengths.is_none(),
                Value,
                "permute(): not supported on jagged layout nested tensor with holes"
            );
            ensure!(dims[0] == 0, Value, "Permute is not supported on the batch dimension for jagged NT");
            let to = dims.iter().position(|d| *d == r).unwrap_or(r);
            let within: Vec<i64> = dims[1..].iter().map(|d| *d as i64 - 1).collect();
            j.over_at(core::permute(v, &within)?, to)?
        }
        "unsqueeze" => {
            let d = dim(int(1)?, rank + 1)?;
            ensure!(d != 0, Runtime, "unsqueeze(): not supported for NestedTensor on dim=0");
            j.over_at(core::unsqueeze(v, d as i64 - 1)?, r + usize::from(d <= r))?
        }
        "squeeze" => {
            let dims = match args.get(1) {
                None => {
                    (1..rank as i64).filter(|d| *d as usize != r && v.sizes()[*d as usize - 1] == 1).collect()
                }
                Some(_) => ints_at(args, 1)?.unwrap_or_default(),
            };
            let mut within =
                dims.iter().map(|d| inner(name, *d, rank, Some(r))).collect::<Result<Vec<_>>>()?;
            within.retain(|d| v.sizes()[*d] == 1);
            let before = within.iter().filter(|d| **d < r - 1).count();
            let within: Vec<i64> = within.iter().map(|d| *d as i64).collect();
            j.over_at(core::squeeze_dims(v, &within)?, r - before)?
        }
        "expand" => {
            let size = Vec::<i64>::from_value(&args[1])?;
            ensure!(
                size.len() == rank && same_ragged(j, &size),
                Runtime,
                "expand(): cannot expand shape {} -> [{}]",
                size_text(&j.sizes()),
                plain_list(&size)
            );
            let within: Vec<i64> = (1..rank).map(|d| if d == r { -1 } else { size[d] }).collect();
            j.over(core::expand(v, &within, false)?)?
        }
        "view" | "reshape" => {
            let size = Vec::<i64>::from_value(&args[1])?;
            if size == j.sizes() {
                return one(tensor_arg(args, 0)?.clone());
            }
            let refused = || {
                Error::runtime(format!(
                    "view(): cannot view shape {} as [{}]",
                    size_text(&j.sizes()),
                    plain_list(&size)
                ))
            };
            ensure!(
                r == 1,
                Runtime,
                "view(): does not support ragged_idx != 1 except when inp._size == size. inp._size is ({}) and size is ([{}]).",
                size_text(&j.sizes()),
                plain_list(&size)
            );
            if size.len() < 3 || !same_ragged(j, &size) {
                return Err(refused());
            }
            let mut within = size[1..].to_vec();
            within[r - 1] = v.sizes()[r - 1];
            let reshaped = if name == "view" { core::view(v, &within) } else { core::reshape(v, &within) };
            j.over(reshaped?)?
        }
        "flatten" => {
            let start = inner(name, int(1)?, rank, Some(r))? as i64;
            let end = inner(name, int(2)?, rank, Some(r))? as i64;
            if start == end {
                return one(tensor_arg(args, 0)?.clone());
            }
            let over = (start as usize..=end as usize).contains(&(r - 1));
            ensure!(!over, Runtime, "flatten(): not supported for NestedTensor on ragged dim");
            let less = if (start as usize) < r - 1 { (end - start) as usize } else { 0 };
            j.over_at(core::flatten(v, start, end)?, r - less)?
        }
        "unflatten" => {
            let sizes = Vec::<i64>::from_value(&args[2])?;
            let d = dim(int(1)?, rank)?;
            let at = inner(name, d as i64, rank, Some(r))?;
            super::strided::check_unflatten(&sizes, d, v.sizes()[at])?;
            let more = if at < r - 1 { sizes.len() - 1 } else { 0 };
            j.over_at(core::unflatten(v, at as i64, &sizes)?, r + more)?
        }
        _ => return Ok(None),
    })
}
fn plain_list(sizes: &[i64]) -> String {
    sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}
fn split(name: &str, args: &[Value], j: &Jagged) -> Result<Option<Vec<Value>>> {
    let d = dim(arg(args, 2)?, j.rank())?;
    let chunks = name.ends_with("chunk");
    if d == 0 && chunks {
        let n = arg::<i64>(args, 1)?;
        ensure!(n > 0, Runtime, "chunk expects `chunks` to be greater than 0, got: {n}");
        let all = j.components()?;
        let each = all.len().div_ceil(n as usize).max(1);
        let groups = all.chunks(each).map(|g| from_components(g, j.ragged)?.wrap());
        return list(groups.collect::<Result<Vec<_>>>()?);
    }
    let at = inner(if chunks { "chunk" } else { "split" }, d as i64, j.rank(), Some(j.ragged))? as i64;
    let parts = match (&args[1], chunks) {
        (Value::Int(n), true) => core::chunk(&j.values, *n, at)?,
        (Value::Int(n), false) => core::split(&j.values, *n, at)?,
        (sizes, _) => core::split_with_sizes(&j.values, &Vec::<i64>::from_value(sizes)?, at)?,
    };
    list(parts.into_iter().map(|t| j.over(t)).collect::<Result<Vec<_>>>()?)
}

fn softmax(info: &'static OpInfo, args: &[Value], j: &Jagged) -> Result<Tensor> {
    let name = base(info).trim_start_matches('_');
    let d = dim(arg(args, 1)?, j.rank())?;
    ensure!(
        d != 0,
        Runtime,
        "{name}(): not supported when reducing across the batch dimension for NestedTensor"
    );
    let of = |t: &Tensor| {
        let mut a = args.to_vec();
        a[0] = Value::Tensor(t.clone());
        a[1] = Value::Int(d as i64 - 1);
        info.call(&a).and_then(|r| arg::<Tensor>(&r, 0))
    };
    if d != j.ragged {
        return j.over(of(&j.values)?);
    }
    // each component by itself; rows that belong to none stay as they are
    let j = if j.lengths.is_some() { j.dense()? } else { j.clone() };
    let all = j.components()?.iter().map(of).collect::<Result<Vec<_>>>()?;
    j.over(core::cat(&all, d as i64 - 1)?)
}
fn layer_norm(info: &'static OpInfo, args: &[Value], j: &Jagged) -> Result<Tensor> {
    ensure!(
        j.rank() > 2,
        Runtime,
        "layer_norm(): not supported for NestedTensor objects with 2 or fewer dimensions"
    );
    let shape = Vec::<i64>::from_value(&args[1])?;
    ensure!(
        shape.len() < j.rank(),
        Runtime,
        "layer_norm(): not supported when normalizing over the batch dimension for NestedTensor"
    );
    let of = |t: &Tensor, shape: &[i64]| {
        let mut a = args.to_vec();
        a[0] = Value::Tensor(t.clone());
        a[1] = Value::List(shape.iter().map(|n| Value::Int(*n)).collect());
        info.call(&a).and_then(|r| arg::<Tensor>(&r, 0))
    };
    if shape.iter().all(|n| *n >= 0) {
        return j.over(of(&j.values, &shape)?);
    }
    ensure!(
        j.lengths.is_none(),
        Runtime,
        "layer_norm(): not supported where lengths is not None if operating on the ragged dimension for NestedTensor"
    );
    let all = j.components()?;
    let all = all.iter().map(|t| of(t, &t.sizes()[t.dim() - shape.len()..])).collect::<Result<Vec<_>>>()?;
    j.over(core::cat(&all, j.ragged as i64 - 1)?)
}

/// Products with dense matrices and with each other.
fn matmul(name: &str, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if name == "bmm" {
        ensure!(a.dim() == 3, Value, "bmm(): input must be 3D");
        ensure!(b.dim() == 3, Value, "bmm(): mat2 must be 3D");
    }
    let refused = || {
        let second = b.sizes().iter().map(|n| if *n < -1 { format!("j{}", -n - 2) } else { n.to_string() });
        Error::runtime(format!(
            "matmul(): not supported between inputs of shapes {} and torch.Size([{}])",
            size_text(a.sizes()),
            second.collect::<Vec<_>>().join(", ")
        ))
    };
    // one product for each component
    let rows = |j: &Jagged, f: &dyn Fn(usize, &Tensor) -> Result<Tensor>| {
        let all = j.components()?;
        let all = all.iter().enumerate().map(|(i, t)| f(i, t)).collect::<Result<Vec<_>>>()?;
        if j.lengths.is_some() {
            return from_components(&all, j.ragged)?.wrap();
        }
        j.over(core::cat(&all, j.ragged as i64 - 1)?)
    };
    match (jagged_of(a), jagged_of(b)) {
        (Some(j), None) if j.ragged < j.rank() - 1 => {
            if j.rank() >= 3 && j.rank() == b.dim() {
                ensure!(b.sizes()[0] == j.batch(), Runtime, "{}", refused().message());
                return rows(j, &|i, t| core::matmul(t, &core::select(b, 0, i as i64)?));
            }
            if b.dim() == 2 && j.rank() > 2 {
                return j.over(core::matmul(&j.values, b)?);
            }
            Err(refused())
        }
        (None, Some(j)) if j.ragged >= 2 => {
            if j.rank() >= 3 && j.rank() == a.dim() {
                ensure!(a.sizes()[0] == j.batch(), Runtime, "{}", refused().message());
                return rows(j, &|i, t| core::matmul(&core::select(a, 0, i as i64)?, t));
            }
            if a.dim() == 2 && j.rank() > 2 {
                return j.over(core::matmul(a, &j.values)?);
            }
            Err(refused())
        }
        (Some(x), Some(y)) => {
            if x.rank() > 3 && y.rank() > 3 && x.ragged < x.rank() - 2 && same_ragged(x, &y.sizes()) {
                return x.over(core::matmul(&x.values, &y.values)?);
            }
            let same = x.identity.number == y.identity.number && x.batch() == y.batch();
            if x.rank() == 3 && y.rank() == 3 && x.ragged == 2 && y.ragged == 1 && same {
                let (p, q) = (x.components()?, y.components()?);
                let all = p.iter().zip(&q).map(|(p, q)| core::matmul(p, q)).collect::<Result<Vec<_>>>()?;
                return core::stack(&all, 0);
            }
            Err(refused())
        }
        _ => Err(refused()),
    }
}

/// Attention of each component's queries to its own keys.
fn attention(args: &[Value]) -> Result<Tensor> {
    let (q, k, v) = (tensor_arg(args, 0)?, tensor_arg(args, 1)?, tensor_arg(args, 2)?);
    let (Some(jq), Some(jk), Some(jv)) = (jagged_of(q), jagged_of(k), jagged_of(v)) else {
        let is = |t: &Tensor| if jagged_of(t).is_some() { "True" } else { "False" };
        bail!(
            Value,
            "Expected query, key, and value to be nested tensors, but got query.is_nested: {}, key.is_nested: {}, and \
             value.is_nested: {} instead.",
            is(q),
            is(k),
            is(v)
        );
    };
    ensure!(
        q.dtype() == k.dtype() && q.dtype() == v.dtype(),
        Value,
        "Expected query, key, and value to have the same dtype, but got query.dtype: {}, key.dtype: {}, and value.dtype: {} \
         instead.",
        q.dtype(),
        k.dtype(),
        v.dtype()
    );
    ensure!(
        jq.rank() >= 3 && jk.rank() >= 3 && jv.rank() >= 3,
        Value,
        "Expected query, key, and value to all be  at least 3 dimensional, but got query.dim: {}, key.dim: {} and value.dim: \
         {} instead.",
        jq.rank(),
        jk.rank(),
        jv.rank()
    );
    ensure!(
        jq.ragged == jk.ragged && jk.ragged == jv.ragged,
        Value,
        "Expected query, key, and value to all be ragged on the same dimension, but got ragged dims {}, {}, and {}, \
         respectively.",
        jq.ragged,
        jk.ragged,
        jv.ragged
    );
    ensure!(matches!(args.get(3), None | Some(Value::None)), Value, "Masks are not yet supported!");
    ensure!(
        jq.batch() == jk.batch() && jk.batch() == jv.batch(),
        Value,
        "Expected query, key, and value to have as many components each"
    );
    let (dropout, causal) = (arg::<f64>(args, 4)?, arg::<bool>(args, 5)?);
    let (scale, gqa) = (arg::<Option<f64>>(args, 6)?, arg::<bool>(args, 7)?);
    let (q, k, v) = (jq.components()?, jk.components()?, jv.components()?);
    let mut all = Vec::with_capacity(q.len());
    for i in 0..q.len() {
        let row = |t: &Tensor| core::unsqueeze(&core::contiguous(t, MemoryFormat::Contiguous)?, 0);
        let out = nn::scaled_dot_product_attention(
            &row(&q[i])?,
            &row(&k[i])?,
            &row(&v[i])?,
            None,
            dropout,
            causal,
            scale,
            gqa,
        )?;
        all.push(core::squeeze_dim(&out, 0)?);
    }
    let values = core::cat(&all, jq.ragged as i64 - 1)?;
    if jq.lengths.is_some() { from_components(&all, jq.ragged)?.wrap() } else { jq.over(values) }
}
