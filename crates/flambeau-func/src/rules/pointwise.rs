//! Operators that work element by element and broadcast.

use crate::call::Call;
use flambeau_core::dispatch::value::Value;
use flambeau_core::iter::promotion::promote_types;
use flambeau_core::{DType, Result, Tensor, ops};

/// A tensor whose dimension is in front gets as many dimensions behind it as the others have.
pub(crate) fn padded(t: &Tensor, rank: usize) -> Result<Tensor> {
    let missing = rank.saturating_sub(t.dim() - 1);
    if missing == 0 {
        return Ok(t.clone());
    }
    let mut sizes = t.sizes().to_vec();
    sizes.splice(1..1, std::iter::repeat_n(1, missing));
    // the ones may be anywhere in strides: no copy
    let mut t = t.clone();
    for _ in 0..missing {
        t = ops::unsqueeze(&t, 1)?;
    }
    debug_assert_eq!(t.sizes(), sizes);
    Ok(t)
}
fn category(d: DType) -> u8 {
    match d {
        DType::Bool => 0,
        d if d.is_complex() => 3,
        d if d.is_floating() => 2,
        _ => 1,
    }
}

/// Broadcasting does it: the dimension goes in front, dimensions of size 1 behind it.
pub(crate) fn pointwise(c: &Call<'_>) -> Result<Vec<Value>> {
    let tensors = || c.args.iter().filter_map(|v| if let Value::Tensor(t) = v { Some(t) } else { None });
    let rank = tensors().map(|t| t.dim()).max().unwrap_or(0);
    // a slice without dimensions takes part in promotion as such a tensor does
    let ranked =
        tensors().filter(|t| t.dim() > 0).map(Tensor::dtype).reduce(|a, b| promote_types(a, b).unwrap_or(a));
    let mut args = c.args.to_vec();
    for v in &mut args {
        let Value::Tensor(t) = v else { continue };
        let (mut front, batched) = c.front(t)?;
        if batched {
            if let Some(d) = ranked
                && t.dim() == 0
                && d != t.dtype()
                && t.dtype() != DType::Bool
                && category(t.dtype()) <= category(d)
                && c.written().is_none()
            {
                front = ops::to_copy(&front, Some(d), None, None, None, false, None)?;
            }
            front = padded(&front, rank)?;
        }
        *v = Value::Tensor(front);
    }
    c.run(&args)
}
/// As [`pointwise`], where tensors do not broadcast against each other: all get the dimension.
pub(crate) fn elements(c: &Call<'_>) -> Result<Vec<Value>> {
    c.check_written()?;
    let mut args = c.args.to_vec();
    for v in &mut args {
        if let Value::Tensor(t) = v {
            *v = Value::Tensor(c.whole(t)?);
        }
    }
    c.run(&args)
}
/// One tensor, of which only the elements matter: the dimension stays where it is.
pub(crate) fn unary(c: &Call<'_>) -> Result<Vec<Value>> {
    let mut args = c.args.to_vec();
    let Value::Tensor(t) = &args[0] else { return pointwise(c) };
    let (t, Some(d)) = c.parts(t) else { return pointwise(c) };
    args[0] = Value::Tensor(t);
    let results = c.info.call(&args)?;
    if c.written().is_some() {
        return Ok(vec![c.args[0].clone()]);
    }
    results
        .into_iter()
        .map(|v| match &v {
            Value::Tensor(t) => c.hidden(t, d),
            _ => Ok(v),
        })
        .collect()
}
/// Copies elements into a tensor, with broadcasting.
pub(crate) fn copy(c: &Call<'_>) -> Result<Vec<Value>> {
    c.check_written()?;
    pointwise(c)
}
/// Of several arguments one tensor alone has the dimension, which stays where it is.
pub(crate) fn unary_at(c: &Call<'_>, i: usize) -> Result<Vec<Value>> {
    let mut args = c.args.to_vec();
    let (t, at) = c.parts(c.tensor(i)?);
    args[i] = Value::Tensor(t);
    let results = c.info.call(&args)?;
    results
        .into_iter()
        .map(|v| match &v {
            Value::Tensor(t) => c.hidden(t, at.unwrap_or(0)),
            _ => Ok(v),
        })
        .collect()
}

/// `masked_fill` with a tensor of no dimensions: one number for each slice.
pub(crate) fn masked_fill(c: &Call<'_>) -> Result<Vec<Value>> {
    if !c.is_batched(2) {
        return pointwise(c);
    }
    c.check_written()?;
    let rank = c.rank(0).max(c.rank(1));
    let (t, mask, value) =
        (padded(&c.whole_at(0)?, rank)?, padded(&c.whole_at(1)?, rank)?, padded(&c.whole_at(2)?, rank)?);
    let value = ops::to_copy(&value, Some(t.dtype()), None, None, None, false, None)?;
    let out = ops::where_(&mask, &value, &t)?;
    if c.written().is_some() {
        ops::copy_(&t, &out, false)?;
        return Ok(vec![c.args[0].clone()]);
    }
    c.one(&out)
}
