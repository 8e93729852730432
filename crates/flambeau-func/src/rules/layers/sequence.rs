//! Layers and losses over sequences, bags and classes: the slices become more rows of one batch. Where each slice has weights of its
//! own there is no such batch, and they are called one by one.

use super::super::index::numbers;
use super::super::linear::{joined, parted};
use super::super::looped::looped;
use super::super::mul_scalar;
use crate::batched::{moved, repeated};
use crate::call::Call;
use flambeau_core::dispatch::value::{Value, arg};
use flambeau_core::{Result, Tensor, ops};
use flambeau_nn_functional::generated::ops as nn;

/// Rows of all slices beside each other: row `r` of slice `s` is row `r * slices + s`, so that the rows of a step stay together and
/// sequences keep their order by length.
fn woven(c: &Call<'_>, t: &Tensor) -> Result<Tensor> {
    let t = c.whole(t)?;
    joined(&moved(&t, 0, 1)?)
}
/// The other way, hidden again; what has no rows is the same for all slices.
fn unwoven(c: &Call<'_>, t: &Tensor) -> Result<Value> {
    if t.dim() < 2 {
        return c.hidden(&repeated(t, 0, c.batch())?, 0);
    }
    let mut sizes = t.sizes().to_vec();
    sizes[0] /= c.batch().max(1);
    sizes.insert(1, c.batch());
    c.hidden(&ops::reshape(t, &sizes)?, 1)
}
/// `_recurrent_layer` and its gradient: steps of so many times the rows.
pub(crate) fn recurrent(c: &Call<'_>) -> Result<Vec<Value>> {
    let weights = ["w_ih", "w_hh", "b_ih", "b_hh", "w_hr"];
    let own = weights.iter().any(|n| c.position(n).is_some_and(|i| c.is_batched(i)));
    if own || c.batch() == 0 {
        return looped(c);
    }
    let mut args = c.args.to_vec();
    for (i, a) in c.info.schema.args.iter().enumerate() {
        if a.name == "batch_sizes" {
            let sizes = c.ints(i)?;
            args[i] = super::super::create::ints(sizes.iter().map(|n| c.times(*n)).collect());
        } else if let Some(t) = c.maybe(i)
            && !weights.contains(&a.name)
        {
            args[i] = Value::Tensor(match t.dim() {
                // what this kind of layer has not
                0 | 1 => ops::select(&c.whole(t)?, 0, 0)?,
                _ => woven(c, t)?,
            });
        }
    }
    let results = c.info.call(&args)?;
    results
        .iter()
        .map(|v| match v {
            Value::Tensor(t) => unwoven(c, t),
            v => Ok(v.clone()),
        })
        .collect()
}

/// Log-probabilities `(slices, steps, n, classes)` as those of one batch.
fn one_batch(c: &Call<'_>, t: &Tensor) -> Result<Tensor> {
    let t = moved(&c.whole(t)?, 0, 1)?;
    let s = t.sizes();
    ops::reshape(&t, &[s[0], s[1] * s[2], s[3]])
}
/// `_ctc_loss` and its gradient.
pub(crate) fn ctc_rows(c: &Call<'_>) -> Result<Vec<Value>> {
    let log_probs = c.position("log_probs").unwrap_or(0);
    if c.rank(log_probs) != 3 || c.batch() == 0 {
        return looped(c);
    }
    let mut args = c.args.to_vec();
    for (i, a) in c.info.schema.args.iter().enumerate() {
        if i == log_probs {
            args[i] = Value::Tensor(one_batch(c, c.tensor(i)?)?);
        } else if let Some(t) = c.maybe(i) {
            args[i] = Value::Tensor(joined(&c.whole(t)?)?);
        } else if a.name.ends_with("_lengths") {
            args[i] = super::super::create::ints(c.ints(i)?.repeat(c.batch() as usize));
        }
    }
    let results = c.info.call(&args)?;
    results
        .iter()
        .map(|v| match v {
            // the gradient is like the log-probabilities
            Value::Tensor(t) if results.len() == 1 => {
                let s = t.sizes();
                let t = ops::reshape(t, &[s[0], c.batch(), s[1] / c.batch(), s[2]])?;
                c.hidden(&t, 1)
            }
            Value::Tensor(t) => c.hidden(&parted(c, t)?, 0),
            v => Ok(v.clone()),
        })
        .collect()
}
/// `ctc_loss`: lengths may be those of a slice, since all are those of one batch then.
pub(crate) fn ctc(c: &Call<'_>) -> Result<Vec<Value>> {
    if c.rank(0) != 3 || c.batch() == 0 {
        return looped(c);
    }
    let [targets, input, target] = [1, 2, 3].map(|i| c.whole_at(i).and_then(|t| joined(&t)));
    let (targets, input, target) = (targets?, input?, target?);
    let p = one_batch(c, c.tensor(0)?)?;
    let (blank, reduction): (i64, String) = (c.int(4)?, arg(c.args, 5)?);
    let wanted = reduction.as_str();
    if !matches!(wanted, "none" | "mean" | "sum") {
        return looped(c);
    }
    let mut loss = nn::ctc_loss(&p, &targets, &input, &target, blank, "none", c.flag(6)?)?;
    if wanted == "mean" {
        let lengths = ops::clamp(&target, Some(1.into()), None)?;
        loss = ops::div(&loss, &ops::to_copy(&lengths, Some(loss.dtype()), None, None, None, false, None)?)?;
    }
    c.one(&reduced(&parted(c, &loss)?, wanted)?)
}
/// Losses `(slices, n)` as those of the slices.
fn reduced(losses: &Tensor, reduction: &str) -> Result<Tensor> {
    match reduction {
        "mean" => ops::mean(losses, Some(&[1]), false, None),
        "sum" => ops::sum(losses, Some(&[1]), false, None),
        _ => Ok(losses.clone()),
    }
}
/// Losses over classes whose kernels take `(n, classes)` or one row: all rows at once, by `f`, which does not reduce them.
fn by_rows(
    c: &Call<'_>,
    reduction: usize,
    f: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Vec<Value>> {
    let legacy = [reduction - 2, reduction - 1].iter().any(|i| !matches!(c.args[*i], Value::None));
    let wanted: String = arg(c.args, reduction)?;
    let rank = c.rank(0);
    if legacy
        || !(1..=2).contains(&rank)
        || c.batch() == 0
        || !matches!(wanted.as_str(), "none" | "mean" | "sum")
    {
        return looped(c);
    }
    let (x, t) = (c.whole_at(0)?, c.whole_at(1)?);
    let flat = |t: &Tensor| if rank == 2 { joined(t) } else { Ok(t.clone()) };
    if rank == 1 {
        // a slice is one row
        let losses = f(&x, &if c.rank(1) == 1 && x.sizes() != t.sizes() { joined(&t)? } else { t.clone() })?;
        let like = if wanted == "none" && x.sizes() != t.sizes() { t.sizes() } else { &t.sizes()[..1] };
        return c.one(&ops::reshape(&losses, like)?);
    }
    c.one(&reduced(&parted(c, &f(&flat(&x)?, &flat(&t)?)?)?, &wanted)?)
}
/// `multi_margin_loss`
pub(crate) fn multi_margin(c: &Call<'_>) -> Result<Vec<Value>> {
    if c.is_batched(4) {
        return looped(c);
    }
    let (p, margin): (i64, f64) = (c.int(2)?, arg(c.args, 3)?);
    let weight = c.maybe(4).map(|t| c.parts(t).0);
    by_rows(c, 7, |x, t| nn::multi_margin_loss(x, t, p, margin, weight.as_ref(), None, None, "none"))
}
/// `multilabel_margin_loss`
pub(crate) fn multilabel_margin(c: &Call<'_>) -> Result<Vec<Value>> {
    by_rows(c, 4, |x, t| nn::multilabel_margin_loss(x, t, None, None, "none"))
}
/// Integers of all slices, more by `step` from one slice to the next.
fn shifted(c: &Call<'_>, t: &Tensor, step: i64) -> Result<Tensor> {
    let shift = mul_scalar(&numbers(c, t, t.dim() - 1)?, step.into())?;
    ops::add(t, &ops::to_copy(&shift, Some(t.dtype()), None, None, None, false, None)?, 1.into())
}

/// `embedding_bag`: bags of all slices; rows of a weight of its own for each slice are rows of one.
pub(crate) fn bags(c: &Call<'_>) -> Result<Vec<Value>> {
    let a = c.args;
    let (max_norm, padding): (Option<f64>, Option<i64>) = (arg(a, 3)?, arg(a, 10)?);
    let (by_count, last_offset) = (c.flag(5)?, c.flag(9)?);
    let own = c.is_batched(1);
    let alone = if own { max_norm.is_some() || padding.is_some() } else { by_count };
    if alone || last_offset || c.batch() == 0 || c.rank(0) > 2 || c.rank(1) != 2 {
        return looped(c);
    }
    let mut input = c.whole_at(0)?;
    let each: i64 = input.sizes()[1..].iter().product();
    let mut weight = c.parts(c.tensor(1)?).0;
    if own {
        weight = c.whole_at(1)?;
        let rows = crate::batched::size(&weight, 1)?;
        input = shifted(c, &input, rows)?;
        weight = joined(&weight)?;
    }
    let offsets = c.whole_maybe(2)?.map(|o| joined(&shifted(c, &o, each)?));
    let per_sample = c.whole_maybe(8)?.map(|t| joined(&t)).transpose()?;
    let (norm_type, mode): (f64, String) = (arg(a, 4)?, arg(a, 6)?);
    let out = nn::embedding_bag(
        &joined(&input)?,
        &weight,
        offsets.transpose()?.as_ref(),
        max_norm,
        norm_type,
        by_count,
        &mode,
        c.flag(7)?,
        per_sample.as_ref(),
        false,
        padding,
    )?;
    c.one(&parted(c, &out)?)
}
/// `bag_sums`: bags of all slices, one after the other.
pub(crate) fn bag_sums(c: &Call<'_>) -> Result<Vec<Value>> {
    let own = c.is_batched(0);
    if c.batch() == 0 || !own && c.flag(4)? {
        return looped(c);
    }
    let (mut indices, starts) = (c.whole_at(1)?, c.whole_at(2)?);
    let (each, bags) = (crate::batched::size(&indices, 1)?, crate::batched::size(&starts, 1)? - 1);
    let mut weight = c.parts(c.tensor(0)?).0;
    if own {
        weight = c.whole_at(0)?;
        indices = shifted(c, &indices, crate::batched::size(&weight, 1)?)?;
        weight = joined(&weight)?;
    }
    let starts = shifted(c, &starts, each)?;
    // where a slice's last bag ends, the next one's first begins
    let last = ops::narrow(&ops::select(&starts, 0, c.batch() - 1)?, 0, bags, 1)?;
    let starts = ops::cat(&[joined(&ops::narrow(&starts, 1, 0, bags)?)?, last], 0)?;
    let factors = c.whole_maybe(3)?.map(|t| joined(&t)).transpose()?;
    let (by_count, sparse) = (c.flag(4)?, c.flag(5)?);
    let out = nn::bag_sums(&weight, &joined(&indices)?, &starts, factors.as_ref(), by_count, sparse)?;
    c.one(&parted(c, &out)?)
}
