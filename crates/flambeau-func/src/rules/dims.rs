//! Operators along dimensions, and those that work on the last ones and take the others as a batch.

use super::pointwise::padded;
use crate::call::{Call, holds_ints};
use flambeau_core::dispatch::value::Value;
use flambeau_core::types::schema::Ty;
use flambeau_core::{Error, Result, Tensor, ops};

/// Arguments that number dimensions.
const NAMES: [&str; 9] = ["dim", "dims", "dim0", "dim1", "dim2", "axis", "dimension", "axis0", "axis1"];

/// A dimension's number, counted from the front, with the hidden one before it.
pub(crate) fn shifted(dim: i64, rank: usize) -> Result<i64> {
    let n = (rank as i64).max(1);
    if !(-n..n).contains(&dim) {
        return Err(Error::index(format!(
            "Dimension out of range (expected to be in range of [{}, {}], but got {dim})",
            -n,
            n - 1
        )));
    }
    Ok(dim.rem_euclid(n) + 1)
}
/// All arguments with the dimension in front, dimensions' numbers shifted, and whether slices without dimensions got one.
fn prepared(c: &Call<'_>) -> Result<(Vec<Value>, bool)> {
    let rank = c.args.iter().find_map(|v| if let Value::Tensor(t) = v { Some(t.dim()) } else { None });
    let rank = rank.unwrap_or(0);
    let flat = rank == 0;
    let mut args = c.args.to_vec();
    for (v, a) in args.iter_mut().zip(c.info.schema.args) {
        if let Value::Tensor(t) = v {
            let t = c.whole(t)?;
            *v = Value::Tensor(if t.dim() == 1 { ops::unsqueeze(&t, 1)? } else { t });
            continue;
        }
        if !NAMES.contains(&a.name) || !holds_ints(a.ty) {
            continue;
        }
        let everything = || Value::List((1..=rank.max(1) as i64).map(Value::Int).collect());
        *v = match &*v {
            Value::Int(d) if matches!(a.ty, Ty::IntList(_) | Ty::OptIntList(_)) => {
                Value::List(vec![Value::Int(shifted(*d, rank)?)])
            }
            Value::Int(d) => Value::Int(shifted(*d, rank)?),
            Value::None if matches!(a.ty, Ty::OptIntList(_)) => everything(),
            Value::List(l) | Value::Tuple(l) if l.is_empty() && a.name != "dims" => everything(),
            Value::List(l) | Value::Tuple(l) => Value::List(
                l.iter()
                    .map(|v| match v {
                        Value::Int(d) => Ok(Value::Int(shifted(*d, rank)?)),
                        v => Ok(v.clone()),
                    })
                    .collect::<Result<Vec<_>>>()?,
            ),
            v => v.clone(),
        };
    }
    Ok((args, flat))
}
/// Slices without dimensions got one, which goes again.
fn unflat(v: Value, flat: bool) -> Result<Value> {
    Ok(match &v {
        Value::Tensor(t) if flat && t.dim() == 2 && t.sizes()[1] == 1 => Value::Tensor(ops::select(t, 1, 0)?),
        _ => v,
    })
}
/// Along dimensions: reductions, scans, sorts, softmax.
pub(crate) fn dims(c: &Call<'_>) -> Result<Vec<Value>> {
    c.check_written()?;
    let (args, flat) = prepared(c)?;
    if c.written().is_some() {
        return c.run(&args);
    }
    let results = c.info.call(&args)?;
    results.into_iter().map(|v| c.hide(unflat(v, flat)?)).collect()
}
/// Along one dimension, or over all elements where none is given.
pub(crate) fn dim_or_all(c: &Call<'_>) -> Result<Vec<Value>> {
    let at = c.position("dim").unwrap_or(1);
    if !matches!(c.args.get(at), Some(Value::None)) {
        return dims(c);
    }
    let rank = c.rank(0);
    let mut args = c.args.to_vec();
    args[0] = Value::Tensor(flattened(&c.whole_at(0)?)?);
    args[at] = Value::Int(1);
    let keep = c.position("keepdim");
    let kept = keep.is_some_and(|i| matches!(args[i], Value::Bool(true)));
    if let Some(i) = keep {
        args[i] = Value::Bool(false);
    }
    let results = c.info.call(&args)?;
    let shaped = |v: Value| match &v {
        Value::Tensor(t) if kept => {
            let mut sizes = vec![c.batch()];
            sizes.extend(std::iter::repeat_n(1, rank));
            ops::reshape(t, &sizes).map(Value::Tensor)
        }
        _ => Ok(v),
    };
    results.into_iter().map(|v| c.hide(shaped(v)?)).collect()
}
/// The hidden dimension, and one of all others.
pub(crate) fn flattened(t: &Tensor) -> Result<Tensor> {
    let n: i64 = t.sizes()[1..].iter().product();
    ops::reshape(t, &[t.sizes()[0], n])
}
fn all_but_first(c: &Call<'_>) -> Result<(Tensor, Vec<i64>)> {
    let t = c.whole_at(0)?;
    let t = if t.dim() == 1 { ops::unsqueeze(&t, 1)? } else { t };
    let dims = (1..t.dim() as i64).collect();
    Ok((t, dims))
}
/// The largest element.
pub(crate) fn max_all(c: &Call<'_>) -> Result<Vec<Value>> {
    let (t, dims) = all_but_first(c)?;
    c.one(&ops::amax(&t, &dims, false)?)
}
/// The smallest element.
pub(crate) fn min_all(c: &Call<'_>) -> Result<Vec<Value>> {
    let (t, dims) = all_but_first(c)?;
    c.one(&ops::amin(&t, &dims, false)?)
}
/// The product of all elements.
pub(crate) fn prod_all(c: &Call<'_>) -> Result<Vec<Value>> {
    let dtype = flambeau_core::dispatch::value::arg(c.args, 1)?;
    c.one(&ops::prod_dim(&flattened(&c.whole_at(0)?)?, 1, false, dtype)?)
}
/// Whether all elements are true.
pub(crate) fn all_all(c: &Call<'_>) -> Result<Vec<Value>> {
    c.one(&ops::all_dim(&flattened(&c.whole_at(0)?)?, 1, false)?)
}
/// Whether any element is true.
pub(crate) fn any_all(c: &Call<'_>) -> Result<Vec<Value>> {
    c.one(&ops::any_dim(&flattened(&c.whole_at(0)?)?, 1, false)?)
}

/// The last dimensions are a matrix, a signal or a plane: those before them are a batch anyway. Tensors of fewer dimensions
/// get some behind the hidden one.
pub(crate) fn batch(c: &Call<'_>) -> Result<Vec<Value>> {
    c.check_written()?;
    let tensors = c.args.iter().filter_map(|v| if let Value::Tensor(t) = v { Some(t) } else { None });
    let rank = tensors.map(|t| t.dim()).max().unwrap_or(0);
    with_ranks(c, &|_, _| rank)
}
/// The same where the arguments' last dimensions differ in number: `own` says how many are the argument's own.
fn with_own(c: &Call<'_>, own: &[usize]) -> Result<Vec<Value>> {
    let tensors = c.args.iter().filter_map(|v| if let Value::Tensor(t) = v { Some(t.dim()) } else { None });
    let outer = tensors.zip(own).map(|(r, o)| r.saturating_sub(*o)).max().unwrap_or(0);
    with_ranks(c, &|i, _| outer + own.get(i).copied().unwrap_or(0))
}
fn with_ranks(c: &Call<'_>, rank: &dyn Fn(usize, &Tensor) -> usize) -> Result<Vec<Value>> {
    let mut args = c.args.to_vec();
    let mut nr = 0;
    for v in &mut args {
        if let Value::Tensor(t) = v {
            let whole = padded(&c.whole(t)?, rank(nr, t))?;
            *v = Value::Tensor(whole);
            nr += 1;
        }
    }
    c.run(&args)
}
/// A matrix, a vector and so on: reflectors and their factors.
pub(crate) fn matrix_vector(c: &Call<'_>) -> Result<Vec<Value>> {
    with_own(c, &[2, 1])
}
/// A matrix, a vector, a matrix.
pub(crate) fn matrix_vector_matrix(c: &Call<'_>) -> Result<Vec<Value>> {
    with_own(c, &[2, 1, 2])
}
/// Systems whose right side may be vectors.
pub(crate) fn solve(c: &Call<'_>) -> Result<Vec<Value>> {
    let (a, b) = (c.rank(0), c.rank(1));
    let sizes = (c.tensor(0)?.sizes(), c.tensor(1)?.sizes());
    // vectors: a batch of as many as there are matrices, with their length
    let vectors = b == 1 || (b + 1 == a && sizes.1 == &sizes.0[..a - 1]);
    if !vectors {
        return batch(c);
    }
    let mut args = c.args.to_vec();
    args[0] = Value::Tensor(c.whole_at(0)?);
    let b = c.whole_at(1)?;
    let mut want = sizes.0[..a - 1].to_vec();
    want.insert(0, c.batch());
    args[1] = Value::Tensor(ops::expand(&padded(&b, a - 1)?, &want, false)?);
    c.run(&args)
}
