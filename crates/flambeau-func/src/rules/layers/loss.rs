//! Losses over classes. Where a slice's loss is one number, the losses of its elements are added up here.

use crate::call::Call;
use crate::rules::linear::joined;
use crate::rules::{mul_scalar, number};
use flambeau_core::dispatch::value::{Value, arg};
use flambeau_core::tensor::wrapper::batched;
use flambeau_core::{DType, Result, Scalar, Tensor, ops};
use flambeau_nn_functional::generated::ops as nn;

/// Scores as `(slices, n, classes, ...)` and targets as `(slices, n, ...)`: one sample alone has no dimension `n`.
struct Operands {
    scores: Tensor,
    target: Tensor,
    weight: Option<Tensor>,
    single: bool,
    reduction: i64,
    ignore: i64,
}
impl Operands {
    fn new(c: &Call<'_>, scores: Tensor, target: usize) -> Result<Operands> {
        let single = scores.dim() == 2;
        let one = |t: Tensor| if single { ops::unsqueeze(&t, 1) } else { Ok(t) };
        let at = |name: &str| c.position(name).unwrap_or(0);
        Ok(Operands {
            scores: one(scores)?,
            target: one(c.whole_at(target)?)?,
            weight: c.maybe(at("weight")).map(|w| c.whole(w)).transpose()?,
            single,
            reduction: c.int(at("reduction"))?,
            ignore: c.int(at("ignore_index"))?,
        })
    }
    /// Whether an element counts.
    fn counts(&self) -> Result<Tensor> {
        ops::ne(&self.target, &number(self.ignore)?)
    }
    /// Targets as numbers of classes that exist.
    fn classes(&self) -> Result<Tensor> {
        let t = ops::to_copy(&self.target, Some(DType::I64), None, None, None, false, None)?;
        ops::masked_fill(&t, &ops::logical_not(&self.counts()?)?, 0.into())
    }
    /// The weight of each element's class, 0 where it does not count.
    fn weights(&self) -> Result<Tensor> {
        let counts = self.counts()?;
        let dtype = self.scores.dtype();
        match &self.weight {
            None => ops::to_copy(&counts, Some(dtype), None, None, None, false, None),
            Some(w) => {
                let classes = self.classes()?;
                let flat = super::super::dims::flattened(&classes)?;
                let found = ops::reshape(&ops::gather(w, 1, &flat, false)?, classes.sizes())?;
                ops::masked_fill(&found, &ops::logical_not(&counts)?, 0.into())
            }
        }
    }
    /// The weights with the dimensions of the scores.
    fn by_class(&self) -> Result<Tensor> {
        let n = self.scores.dim();
        match &self.weight {
            None => ops::ones(&[1], Some(self.scores.dtype()), None, Some(self.scores.device()), None),
            Some(w) => {
                let mut w = ops::unsqueeze(w, 1)?;
                for _ in 3..n {
                    w = ops::unsqueeze(&w, -1)?;
                }
                Ok(w)
            }
        }
    }
    /// Losses of the elements as what the slice gives, and the sum of weights.
    fn reduced(&self, losses: &Tensor) -> Result<(Tensor, Tensor)> {
        let total = sum_slices(&self.weights()?)?;
        let out = match self.reduction {
            0 if self.single => ops::select(losses, 1, 0)?,
            0 => losses.clone(),
            1 => ops::div(&sum_slices(losses)?, &total)?,
            _ => sum_slices(losses)?,
        };
        Ok((out, ops::to_copy(&total, Some(DType::F64), None, None, None, false, None)?))
    }
    /// Gradients of the slice's result as gradients of its elements.
    fn spread(&self, grad: &Tensor, total: Option<&Tensor>) -> Result<Tensor> {
        let mut g = match (self.reduction, total) {
            (1, Some(t)) => {
                let t = ops::to_copy(t, Some(grad.dtype()), None, None, None, false, None)?;
                ops::div(&ops::reshape(grad, t.sizes())?, &t)?
            }
            _ => grad.clone(),
        };
        if self.reduction == 0 {
            return ops::reshape(&g, self.target.sizes());
        }
        while g.dim() < self.target.dim() {
            g = ops::unsqueeze(&g, -1)?;
        }
        ops::expand(&g, self.target.sizes(), false)
    }
}
fn sum_slices(t: &Tensor) -> Result<Tensor> {
    let dims: Vec<i64> = (1..t.dim() as i64).collect();
    if dims.is_empty() { Ok(t.clone()) } else { ops::sum(t, Some(&dims), false, None) }
}
fn both(c: &Call<'_>, out: &Tensor, more: &[&Tensor]) -> Result<Vec<Value>> {
    let mut all = vec![c.hidden(out, 0)?];
    for t in more {
        all.push(c.hidden(t, 0)?);
    }
    Ok(all)
}
/// Losses of all elements, with the sign and weight of each.
fn picked(o: &Operands, logs: &Tensor) -> Result<Tensor> {
    let at = ops::unsqueeze(&o.classes()?, 2)?;
    let found = ops::squeeze_dim(&ops::gather(logs, 2, &at, false)?, 2)?;
    ops::neg(&ops::mul(&found, &o.weights()?)?)
}
/// `_nll_loss`
pub(crate) fn nll(c: &Call<'_>) -> Result<Vec<Value>> {
    let o = Operands::new(c, c.whole_at(0)?, 1)?;
    checked(c, &o)?;
    let losses = picked(&o, &o.scores)?;
    let (out, total) = o.reduced(&losses)?;
    // what is not reduced has no total
    let total = if o.reduction == 0 { ops::zeros_like(&total, None, None, None, None, None)? } else { total };
    both(c, &out, &[&total])
}
/// Targets that are no class are errors, as they are in a slice.
fn checked(c: &Call<'_>, o: &Operands) -> Result<()> {
    if batched(&o.target).is_none() && c.batch() > 0 && o.scores.numel() > 0 {
        let scores = joined(&ops::detach(&o.scores)?)?;
        nn::fused_nll_loss(&scores, &joined(&o.target)?, None, 0, o.ignore)?;
    }
    Ok(())
}
/// `_nll_loss_backward`
pub(crate) fn nll_backward(c: &Call<'_>) -> Result<Vec<Value>> {
    let sizes = c.ints(1)?;
    let grad = c.whole_at(0)?;
    let like = ops::expand(
        &ops::reshape(&ops::select(&super::super::dims::flattened(&ops::unsqueeze(&grad, -1)?)?, 1, 0)?, &{
            let mut v = vec![1; sizes.len() + 1];
            v[0] = c.batch();
            v
        })?,
        &[&[c.batch()][..], &sizes].concat(),
        false,
    )?;
    let o = Operands::new(c, like, 2)?;
    let g = ops::mul(&o.spread(&grad, c.whole_maybe(6)?.as_ref())?, &ops::neg(&o.weights()?)?)?;
    let out = ops::scatter(
        &ops::zeros_like(&o.scores, None, None, None, None, None)?,
        2,
        &ops::unsqueeze(&o.classes()?, 2)?,
        &ops::unsqueeze(&g, 2)?,
    )?;
    c.one(&if o.single { ops::select(&out, 1, 0)? } else { out })
}
/// `_cross_entropy`
pub(crate) fn cross_entropy(c: &Call<'_>) -> Result<Vec<Value>> {
    let o = Operands::new(c, c.whole_at(0)?, 1)?;
    checked(c, &o)?;
    let smoothing: f64 = arg(c.args, 5)?;
    let lse = ops::logsumexp(&o.scores, &[2], true)?;
    let logs = ops::sub(&o.scores, &lse, 1.into())?;
    let mut losses = picked(&o, &logs)?;
    if smoothing > 0.0 {
        let n = crate::batched::size(&o.scores, 2)?.max(1) as f64;
        let all = ops::neg(&ops::sum(&ops::mul(&logs, &o.by_class()?)?, Some(&[2]), false, None)?)?;
        let all = ops::masked_fill(&all, &ops::logical_not(&o.counts()?)?, 0.into())?;
        losses = ops::add(
            &mul_scalar(&losses, Scalar::Float(1.0 - smoothing))?,
            &all,
            Scalar::Float(smoothing / n),
        )?;
    }
    let (out, total) = o.reduced(&losses)?;
    let lse = ops::squeeze_dim(&lse, 2)?;
    let lse = ops::to_copy(&lse, Some(DType::F64), None, None, None, false, None)?;
    let lse = if o.single { ops::select(&lse, 1, 0)? } else { lse };
    both(c, &out, &[&lse, &total])
}
/// `_cross_entropy_backward`
pub(crate) fn cross_entropy_backward(c: &Call<'_>) -> Result<Vec<Value>> {
    let o = Operands::new(c, c.whole_at(1)?, 2)?;
    let smoothing: f64 = arg(c.args, 6)?;
    let g = ops::unsqueeze(&o.spread(&c.whole_at(0)?, c.whole_maybe(8)?.as_ref())?, 2)?;
    let zeros = ops::zeros_like(&o.scores, None, None, None, None, None)?;
    let own = ops::unsqueeze(&mul_scalar(&o.weights()?, Scalar::Float(1.0 - smoothing))?, 2)?;
    let mut share = ops::scatter(&zeros, 2, &ops::unsqueeze(&o.classes()?, 2)?, &own)?;
    if smoothing > 0.0 {
        let n = crate::batched::size(&o.scores, 2)?.max(1) as f64;
        let all = mul_scalar(&o.by_class()?, Scalar::Float(smoothing / n))?;
        let all = ops::expand(&all, o.scores.sizes(), false)?;
        let hidden = ops::unsqueeze(&ops::logical_not(&o.counts()?)?, 2)?;
        share = ops::add(&share, &ops::masked_fill(&all, &hidden, 0.into())?, 1.into())?;
    }
    let p = ops::softmax(&o.scores, 2, None)?;
    let whole = ops::sum(&share, Some(&[2]), true, None)?;
    let out = ops::mul(&g, &ops::sub(&ops::mul(&p, &whole)?, &share, 1.into())?)?;
    c.one(&if o.single { ops::select(&out, 1, 0)? } else { out })
}
