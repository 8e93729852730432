//! Normalisations. Parameters of their own are applied after the normalisation of all slices together.

use super::{joined_at, split_out};
use crate::call::Call;
use crate::rules::linear::{joined, parted};
use flambeau_core::dispatch::value::{FromValue, Value, arg};
use flambeau_core::{Error, Result, Tensor, ops};

fn tensors(v: Vec<Value>) -> Result<Vec<Tensor>> {
    match v.first() {
        Some(Value::List(l)) => l.iter().map(Tensor::from_value).collect(),
        _ => v.iter().map(Tensor::from_value).collect(),
    }
}
/// Whether a result is wanted.
fn on(mask: &[bool], result: usize) -> bool {
    mask.get(result).copied().unwrap_or(false)
}
fn value(t: Option<Tensor>) -> Value {
    t.map_or(Value::None, Value::Tensor)
}
fn empty(like: &Tensor) -> Result<Value> {
    ops::empty(&[0], Some(like.dtype()), None, Some(like.device()), None, None).map(Value::Tensor)
}
/// A parameter of the last dimensions, one for each slice, against results of so many dimensions.
fn behind(t: &Tensor, rank: usize) -> Result<Tensor> {
    crate::rules::pointwise::padded(t, rank - 1)
}
fn sum_to_last(t: &Tensor, last: usize) -> Result<Tensor> {
    let dims: Vec<i64> = (1..t.dim() as i64 - last as i64).collect();
    if dims.is_empty() { Ok(t.clone()) } else { ops::sum(t, Some(&dims), false, None) }
}

/// `native_layer_norm` and `_fused_rms_norm`
pub(crate) fn rows(c: &Call<'_>) -> Result<Vec<Value>> {
    let has_bias = c.position("bias");
    let mut args = c.args.to_vec();
    args[0] = Value::Tensor(c.whole_at(0)?);
    let own = c.is_batched(2) || has_bias.is_some_and(|i| c.is_batched(i));
    if !own {
        return c.run(&args);
    }
    args[2] = Value::None;
    if let Some(i) = has_bias {
        args[i] = Value::None;
    }
    let mut all = tensors(c.info.call(&args)?)?;
    let rank = all[0].dim() as usize;
    if let Some(w) = c.whole_maybe(2)? {
        all[0] = ops::mul(&all[0], &behind(&w, rank)?)?;
    }
    if let Some(b) = has_bias.map_or(Ok(None), |i| c.whole_maybe(i))? {
        all[0] = ops::add(&all[0], &behind(&b, rank)?, 1.into())?;
    }
    all.iter().map(|t| c.hidden(t, 0)).collect()
}
/// `native_layer_norm_backward` and `_fused_rms_norm_backward`
pub(crate) fn rows_backward(c: &Call<'_>) -> Result<Vec<Value>> {
    let at = |n: &str| c.position(n).unwrap_or(0);
    let (mean, has_bias) = (c.position("mean"), c.position("bias"));
    let mask: Vec<bool> = arg(c.args, at("output_mask"))?;
    let last = c.ints(2)?.len();
    let (g, x, rstd) = (c.whole_at(0)?, c.whole_at(1)?, c.whole_at(at("rstd"))?);
    let mean = mean.map(|i| c.whole_at(i)).transpose()?;
    let w = c.whole_maybe(at("weight"))?;
    let rank = g.dim();
    let mut all = Vec::new();
    all.push(if on(&mask, 0) {
        let scaled = match &w {
            Some(w) => ops::mul(&g, &behind(w, rank)?)?,
            None => g.clone(),
        };
        let mut args = c.args.to_vec();
        args[0] = Value::Tensor(scaled);
        args[1] = Value::Tensor(x.clone());
        for (i, a) in c.info.schema.args.iter().enumerate() {
            match a.name {
                "mean" => args[i] = value(mean.clone()),
                "rstd" => args[i] = Value::Tensor(rstd.clone()),
                "weight" | "bias" => args[i] = Value::None,
                "output_mask" => {
                    args[i] = Value::List((0..mask.len()).map(|k| Value::Bool(k == 0)).collect());
                }
                _ => {}
            }
        }
        c.hidden(&tensors(c.info.call(&args)?)?[0], 0)?
    } else {
        empty(&g)?
    });
    all.push(if on(&mask, 1) {
        let x = match &mean {
            Some(m) => ops::sub(&x, m, 1.into())?,
            None => x,
        };
        c.hidden(&sum_to_last(&ops::mul(&g, &ops::mul(&x, &rstd)?)?, last)?, 0)?
    } else {
        empty(&g)?
    });
    if has_bias.is_some() {
        all.push(if on(&mask, 2) { c.hidden(&sum_to_last(&g, last)?, 0)? } else { empty(&g)? });
    }
    Ok(vec![Value::List(all)])
}

/// Per channel: `(slices, channels)` with the dimensions of `(slices, n, channels, ...)`.
fn channels(t: &Tensor, rank: usize) -> Result<Tensor> {
    let mut t = ops::unsqueeze(t, 1)?;
    while (t.dim() as usize) < rank {
        t = ops::unsqueeze(&t, -1)?;
    }
    Ok(t)
}
fn sum_to_channels(t: &Tensor) -> Result<Tensor> {
    let dims: Vec<i64> = (1..t.dim() as i64).filter(|d| *d != 2).collect();
    ops::sum(t, Some(&dims), false, None)
}
/// `_fused_group_norm`
pub(crate) fn groups(c: &Call<'_>) -> Result<Vec<Value>> {
    let mut args = c.args.to_vec();
    let x = c.whole_at(0)?;
    args[0] = Value::Tensor(joined(&x)?);
    args[3] = Value::Int(c.times(c.int(3)?));
    let own = c.is_batched(1) || c.is_batched(2);
    if own {
        (args[1], args[2]) = (Value::None, Value::None);
    }
    let mut all = tensors(c.info.call(&args)?)?;
    for t in &mut all {
        *t = parted(c, t)?;
    }
    if own {
        let rank = all[0].dim() as usize;
        if let Some(w) = c.whole_maybe(1)? {
            all[0] = ops::mul(&all[0], &channels(&w, rank)?)?;
        }
        if let Some(b) = c.whole_maybe(2)? {
            all[0] = ops::add(&all[0], &channels(&b, rank)?, 1.into())?;
        }
    }
    all.iter().map(|t| c.hidden(t, 0)).collect()
}
/// `native_group_norm_backward`
pub(crate) fn groups_backward(c: &Call<'_>) -> Result<Vec<Value>> {
    let mask: Vec<bool> = arg(c.args, 9)?;
    let (g, x, mean, rstd) = (c.whole_at(0)?, c.whole_at(1)?, c.whole_at(2)?, c.whole_at(3)?);
    let w = c.whole_maybe(4)?;
    let rank = g.dim();
    let mut all = Vec::new();
    all.push(if on(&mask, 0) {
        let scaled = match &w {
            Some(w) => ops::mul(&g, &channels(w, rank)?)?,
            None => g.clone(),
        };
        let mut args = c.args.to_vec();
        for (i, t) in [&scaled, &x, &mean, &rstd].into_iter().enumerate() {
            args[i] = Value::Tensor(joined(t)?);
        }
        args[4] = Value::None;
        args[5] = Value::Int(c.times(c.int(5)?));
        args[9] = Value::List(vec![Value::Bool(true), Value::Bool(false), Value::Bool(false)]);
        c.hidden(&parted(c, &tensors(c.info.call(&args)?)?[0])?, 0)?
    } else {
        empty(&g)?
    });
    all.push(if on(&mask, 1) {
        let each = crate::batched::size(&x, 2)? / c.int(8)?.max(1);
        let wide = |t: &Tensor| -> Result<Tensor> {
            let mut t = ops::repeat_interleave_int(t, each, Some(2), None)?;
            while (t.dim() as usize) < rank {
                t = ops::unsqueeze(&t, -1)?;
            }
            Ok(t)
        };
        let normed = ops::mul(&ops::sub(&x, &wide(&mean)?, 1.into())?, &wide(&rstd)?)?;
        c.hidden(&sum_to_channels(&ops::mul(&g, &normed)?)?, 0)?
    } else {
        empty(&g)?
    });
    all.push(if on(&mask, 2) { c.hidden(&sum_to_channels(&g)?, 0)? } else { empty(&g)? });
    Ok(vec![Value::List(all)])
}

/// `_batch_norm_train`, `_batch_norm_eval` and their like: more channels.
pub(crate) fn batch_norm(c: &Call<'_>) -> Result<Vec<Value>> {
    let at = |n: &str| c.position(n);
    let train = c.position("momentum").is_some();
    let stats = [at("running_mean"), at("running_var")];
    if train
        && c.is_batched(0)
        && let Some(Value::Tensor(_)) = stats[0].map(|i| &c.args[i])
        && !stats.iter().flatten().any(|i| c.is_batched(*i))
    {
        return Err(Error::runtime(
            "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, were \
             not batched.\nIf you are using a module and do not need eval mode, please set `track_running_stats` to be False.If \
             you are using a prebuilt module and do not need eval mode, please see the functorch website for resources on how to \
             patch your module to work with vmap",
        ));
    }
    let mut args = c.args.to_vec();
    args[0] = Value::Tensor(joined_at(&c.whole_at(0)?, 1)?);
    let mut written = Vec::new();
    for name in ["weight", "bias", "running_mean", "running_var"] {
        let Some(i) = at(name) else { continue };
        if let Some(t) = c.whole_maybe(i)? {
            let mut flat = joined(&t)?;
            if name.starts_with("running") && train && c.is_batched(i) {
                flat = ops::clone(&flat, None)?;
                written.push((t, flat.clone()));
            }
            args[i] = Value::Tensor(flat);
        }
    }
    let all = tensors(c.info.call(&args)?)?;
    for (to, from) in written {
        ops::copy_(&to, &parted(c, &from)?, false)?;
    }
    all.iter()
        .map(|t| match t.dim() {
            1 => c.hidden(&parted(c, t)?, 0),
            _ => c.hidden(&split_out(t, 1, c.batch())?, 0),
        })
        .collect()
}
/// `native_batch_norm_backward`
pub(crate) fn batch_norm_backward(c: &Call<'_>) -> Result<Vec<Value>> {
    let mut args = c.args.to_vec();
    for i in 0..2 {
        args[i] = Value::Tensor(joined_at(&c.whole_at(i)?, 1)?);
    }
    for i in 2..7 {
        if let Some(t) = c.whole_maybe(i)? {
            args[i] = Value::Tensor(joined(&t)?);
        }
    }
    let mask: Vec<bool> = arg(c.args, 9)?;
    let all = tensors(c.info.call(&args)?)?;
    let mut out = Vec::new();
    for (t, wanted) in all.iter().zip(mask) {
        out.push(match (wanted, t.dim()) {
            (false, _) => Value::Tensor(t.clone()),
            (true, 1) => c.hidden(&parted(c, t)?, 0)?,
            (true, _) => c.hidden(&split_out(t, 1, c.batch())?, 0)?,
        });
    }
    Ok(vec![Value::List(out)])
}
