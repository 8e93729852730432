//! Reductions of jagged tensors.

use super::{base, dim, ints_at, one, place, written};
use crate::structure::{Jagged, ints};
use flambeau_core::dispatch::op::OpInfo;
use flambeau_core::dispatch::value::arg;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Result, Scalar, Tensor, Value, ensure, finfo, iinfo, ops as core};

fn is_reduction(name: &str) -> bool {
    matches!(
        name,
        "sum"
            | "nansum"
            | "mean"
            | "prod"
            | "amax"
            | "amin"
            | "max"
            | "min"
            | "argmax"
            | "argmin"
            | "all"
            | "any"
            | "var"
            | "std"
            | "logsumexp"
            | "linalg_vector_norm"
            | "count_nonzero"
            | "aminmax"
            | "median"
            | "nanmedian"
    )
}
/// The call with another first argument, and other dimensions where it has any.
fn with(info: &'static OpInfo, args: &[Value], t: &Tensor, dims: Option<&[i64]>) -> Result<Vec<Value>> {
    let mut a = args.to_vec();
    a[0] = Value::Tensor(t.clone());
    if let (Some(i), Some(dims)) = (place(info, "dim"), dims) {
        a[i] = match (&args[i], dims) {
            (Value::Int(_), [d]) => Value::Int(*d),
            _ => Value::List(dims.iter().map(|d| Value::Int(*d)).collect()),
        };
    }
    info.call(&a)
}

/// Dimensions but the ragged one and the batch's reduce the values; the ragged one is reduced in each component, and the result
/// is an ordinary tensor; both together reduce all rows.
pub(super) fn jagged(info: &'static OpInfo, args: &[Value], j: &Jagged) -> Result<Option<Vec<Value>>> {
    let name = base(info);
    if !is_reduction(name) || written(info).is_some() {
        return Ok(None);
    }
    let given = place(info, "dim").map_or(Ok(None), |i| ints_at(args, i))?.filter(|d| !d.is_empty());
    let keep = place(info, "keepdim").map_or(Ok(false), |i| arg::<bool>(args, i))?;
    let Some(given) = given else {
        let j = if j.lengths.is_some() { j.dense()? } else { j.clone() };
        return with(info, args, &j.values, None).map(Some);
    };
    let (rank, r) = (j.rank(), j.ragged);
    let dims = given.iter().map(|d| dim(*d, rank)).collect::<Result<Vec<_>>>()?;
    let (batch, ragged) = (dims.contains(&0), dims.contains(&r));
    let others = dims.iter().any(|d| *d != 0 && *d != r);
    let mut within: Vec<i64> = Vec::new();
    for d in &dims {
        let at = if *d == 0 { r as i64 - 1 } else { *d as i64 - 1 };
        if !within.contains(&at) {
            within.push(at);
        }
    }
    ensure!(
        !ragged || j.lengths.is_none(),
        Runtime,
        "{name}(): reducing across the ragged dimension is not supported for non-contiguous nested tensors with holes"
    );
    if !ragged {
        ensure!(
            !batch,
            Runtime,
            "{name}(): reducing along the batch dimension but not the ragged dimension is not supported for nested tensors"
        );
        let before = if keep { 0 } else { within.iter().filter(|d| (**d as usize) < r - 1).count() };
        let made = with(info, args, &j.values, Some(&within))?;
        let wrap = |v: Value| match v.into_tensor() {
            Ok(t) => Ok(Value::Tensor(j.over_at(t, r - before)?)),
            Err(other) => Ok(other),
        };
        return made.into_iter().map(wrap).collect::<Result<Vec<_>>>().map(Some);
    }
    if batch {
        let made = with(info, args, &j.values, Some(&within))?;
        let lift = |v: Value| match &v {
            Value::Tensor(t) if keep => Ok(Value::Tensor(core::unsqueeze(t, 0)?)),
            _ => Ok(v),
        };
        return made.into_iter().map(lift).collect::<Result<Vec<_>>>().map(Some);
    }
    ensure!(
        !others,
        Runtime,
        "{name}(): reducing along a ragged and non-batch dimension is not supported for nested tensors"
    );
    if name == "mean" {
        return mean(args, info, j, keep).and_then(one);
    }
    // each component by itself, an empty one as one row of what does not change the result
    let mut rows: Vec<Vec<Value>> = Vec::new();
    for t in j.components()? {
        let t = if t.sizes()[r - 1] == 0 { filled(name, &t, r - 1)? } else { t };
        rows.push(with(info, args, &t, Some(&[r as i64 - 1]))?);
    }
    let results = rows.first().map_or(0, Vec::len);
    let column = |i: usize| {
        let all = rows.iter().map(|row| arg::<Tensor>(row, i)).collect::<Result<Vec<_>>>()?;
        core::stack(&all, 0).map(Value::Tensor)
    };
    (0..results).map(column).collect::<Result<Vec<_>>>().map(Some)
}
fn mean(args: &[Value], info: &'static OpInfo, j: &Jagged, keep: bool) -> Result<Tensor> {
    let dtype = place(info, "dtype").map_or(Ok(None), |i| arg::<Option<DType>>(args, i))?;
    let sum = |t: &Tensor| core::sum(t, Some(&[j.ragged as i64 - 1]), keep, dtype);
    let sums = j.components()?.iter().map(sum).collect::<Result<Vec<_>>>()?;
    let sums = core::stack(&sums, 0)?;
    let ends = ints(&j.offsets)?;
    let lengths: Vec<i64> = ends.windows(2).map(|w| w[1] - w[0]).collect();
    let mut sizes = vec![1; sums.dim()];
    sizes[0] = lengths.len() as i64;
    core::div(&sums, &Tensor::from_vec_raw(lengths, &sizes)?)
}
/// One row that leaves the result of a reduction of nothing.
fn filled(name: &str, like: &Tensor, dim: usize) -> Result<Tensor> {
    let d = like.dtype();
    let bound = |least: bool| -> Result<Scalar> {
        if d.is_floating() {
            let info = finfo(d)?;
            return Ok(Scalar::Float(if least { info.min } else { info.max }));
        }
        let info = iinfo(d)?;
        Ok(Scalar::Int(if least { info.min as i64 } else { info.max as i64 }))
    };
    let value = match name {
        "amax" | "max" | "argmax" if d != DType::Bool => bound(true)?,
        "amin" | "min" | "argmin" if d != DType::Bool => bound(false)?,
        "prod" | "all" => Scalar::Int(1),
        _ => return Ok(like.clone()),
    };
    let mut sizes = like.sizes().to_vec();
    sizes[dim] = 1;
    core::full(&sizes, value, Some(d), None, Some(like.device()), None)
}
