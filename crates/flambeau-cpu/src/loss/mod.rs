//! Negative log likelihood and cross-entropy over contiguous `[N, C, L]` memory (`L` 1 without spatial dimensions),
//! with class weights, an ignored class and label smoothing; classes are dimension 1.

pub mod erased;

use crate::engine::accumulate::fold;
use crate::engine::isa::{self, Isa, Job, Level};
use crate::engine::parallel::parallel_for;
use crate::engine::room::filled;
use crate::engine::{SharedMut, span};
use crate::num::{Arith, Compute, Float};

/// How per-element losses are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// One loss per target.
    None,
    /// Weighted mean.
    Mean,
    /// Sum.
    Sum,
}

/// Sizes and options that all functions of this module share.
#[derive(Clone, Copy, Debug)]
pub struct LossShape {
    /// Batch.
    pub n: usize,
    /// Classes.
    pub c: usize,
    /// Positions.
    pub l: usize,
    /// Targets of this value count for nothing.
    pub ignore_index: i64,
    /// The reduction.
    pub reduction: Reduction,
}

impl LossShape {
    fn check(&self, target: &[i64]) -> Result<(), String> {
        assert!(target.len() == span::product([self.n, self.l]), "loss: target length");
        match target.iter().find(|t| **t != self.ignore_index && (**t < 0 || **t >= self.c as i64)) {
            Some(t) => Err(format!("Target {t} is out of bounds.")),
            None => Ok(()),
        }
    }
    /// The class of target `i`, if it counts.
    fn class(&self, target: &[i64], i: usize) -> Option<usize> {
        (target[i] != self.ignore_index).then_some(target[i] as usize)
    }
    fn at(&self, i: usize, class: usize) -> usize {
        (i / self.l * self.c + class) * self.l + i % self.l
    }
    fn total_weight<T: Float>(&self, target: &[i64], weight: Option<&[T]>) -> f64 {
        (0..target.len()).filter_map(|i| self.class(target, i)).map(|t| weight_of(weight, t)).sum()
    }
    fn out_len(&self) -> usize {
        if self.reduction == Reduction::None { self.n * self.l } else { 1 }
    }
    /// What the gradient of each target's loss is multiplied by, before the class weight.
    fn upstream<T: Float>(&self, grad: &[T], i: usize, total_weight: f64) -> f64 {
        match self.reduction {
            Reduction::None => grad[i].up().f64(),
            Reduction::Sum => grad[0].up().f64(),
            Reduction::Mean => grad[0].up().f64() / total_weight,
        }
    }
}

fn weight_of<T: Float>(weight: Option<&[T]>, class: usize) -> f64 {
    weight.map_or(1.0, |w| w[class].up().f64())
}
fn narrow<T: Float>(v: f64) -> T {
    T::down(T::Compute::of(v))
}

/// `-weight[t] * x[t]` for each target, reduced. `out` has one element per target without reduction, else one.
/// Returns the sum of the weights that counted (0 without reduction, as its gradient needs none).
///
/// # Errors
/// A text if a target is not a class.
///
/// # Panics
/// If a slice has not the length that the shape says: a bug of the caller.
pub fn nll_loss<T: Float>(
    s: &LossShape,
    x: &[T],
    target: &[i64],
    weight: Option<&[T]>,
    out: &mut [T],
) -> Result<f64, String> {
    s.check(target)?;
    assert!(
        x.len() == span::product([s.n, s.c, s.l])
            && out.len() == s.out_len()
            && weight.is_none_or(|w| w.len() == s.c)
    );
    let one = |i: usize| s.class(target, i).map_or(0.0, |t| -weight_of(weight, t) * x[s.at(i, t)].up().f64());
    if s.reduction == Reduction::None {
        out.iter_mut().enumerate().for_each(|(i, o)| *o = narrow(one(i)));
        return Ok(0.0);
    }
    let (total, sum) = (s.total_weight(target, weight), (0..target.len()).map(one).sum::<f64>());
    out[0] = narrow(if s.reduction == Reduction::Mean { sum / total } else { sum });
    Ok(total)
}

/// The gradient of [`nll_loss`]; `grad` is that of its output. Overwrites `grad_x`.
///
/// # Errors
/// As [`nll_loss`].
///
/// # Panics
/// As [`nll_loss`].
pub fn nll_loss_backward<T: Float>(
    s: &LossShape,
    grad: &[T],
    target: &[i64],
    weight: Option<&[T]>,
    total_weight: f64,
    grad_x: &mut [T],
) -> Result<(), String> {
    s.check(target)?;
    assert!(
        grad_x.len() == span::product([s.n, s.c, s.l])
            && grad.len() == s.out_len()
            && weight.is_none_or(|w| w.len() == s.c)
    );
    grad_x.fill(T::down(T::Compute::ZERO));
    for i in 0..target.len() {
        if let Some(t) = s.class(target, i) {
            grad_x[s.at(i, t)] = narrow(-weight_of(weight, t) * s.upstream(grad, i, total_weight));
        }
    }
    Ok(())
}

/// The greatest of a target's values that lie side by side, -inf beside NaN alone.
struct Top<'a, T>(&'a [T]);
impl<T: Float> Job for Top<'_, T> {
    type Out = f64;
    const BEST: Level = Level::V4;
    #[inline(always)]
    fn run<I: Isa>(self) -> f64 {
        let least = f64::NEG_INFINITY;
        fold::<I, _, _, _>([self.0], least, |[v]| v.up().f64(), |a, b| if b > a { b } else { a })
    }
}
/// `sum(exp(x - top))` of the same.
struct Sum<'a, T>(&'a [T], f64);
impl<T: Float> Job for Sum<'_, T> {
    type Out = f64;
    const BEST: Level = Level::V4;
    #[inline(always)]
    fn run<I: Isa>(self) -> f64 {
        let Sum(row, top) = self;
        fold::<I, _, _, _>([row], 0.0, |[v]| Compute::exp::<I>(v.up().f64() - top), |a, b| a + b)
    }
}
/// `exp(x - lse) * by` of the same.
struct Slope<'a, T> {
    row: &'a [T],
    lse: f64,
    by: f64,
    to: &'a mut [T],
}
impl<T: Float> Job for Slope<'_, T> {
    type Out = ();
    const BEST: Level = Level::V4;
    #[inline(always)]
    fn run<I: Isa>(self) {
        for (to, x) in self.to.iter_mut().zip(self.row) {
            *to = narrow(Compute::exp::<I>(x.up().f64() - self.lse) * self.by);
        }
    }
}

/// `log(sum(exp(x)))` over the classes of one target, and the class sum of `weight * x`.
fn log_sum<T: Float>(s: &LossShape, x: &[T], i: usize, weight: Option<&[T]>, smooth: bool) -> (f64, f64) {
    let value = |c: usize| x[s.at(i, c)].up().f64();
    let row = (s.l == 1).then(|| &x[i * s.c..(i + 1) * s.c]);
    let greatest =
        || (0..s.c).map(value).fold(f64::NEG_INFINITY, |a, v| if v > a || v.is_nan() { v } else { a });
    let top = row.map_or_else(greatest, |r| isa::run(Top(r)));
    if top.is_infinite() {
        // All classes impossible, or an infinite one: the difference below is NaN, as in separate operations.
        return (f64::NAN, f64::NAN);
    }
    let one_by_one = || (0..s.c).map(|c| (value(c) - top).exp()).sum();
    let sum: f64 = row.map_or_else(one_by_one, |r| isa::run(Sum(r, top)));
    let weighted = if smooth { (0..s.c).map(|c| weight_of(weight, c) * value(c)).sum() } else { 0.0 };
    (top + sum.ln(), weighted)
}

/// Cross-entropy of logits `x` and class targets, with `label_smoothing` in 0..=1. Writes the loss to `out` and
/// `log(sum(exp(x)))` of each target to `lse`, which the gradient takes. Returns the sum of the weights that counted.
///
/// # Errors
/// A text if a target is not a class, or the smoothing is out of range.
///
/// # Panics
/// If a slice has not the length that the shape says: a bug of the caller.
pub fn cross_entropy<T: Float>(
    s: &LossShape,
    x: &[T],
    target: &[i64],
    weight: Option<&[T]>,
    label_smoothing: f64,
    out: &mut [T],
    lse: &mut [f64],
) -> Result<f64, String> {
    check_smoothing(label_smoothing)?;
    s.check(target)?;
    assert!(
        x.len() == span::product([s.n, s.c, s.l]) && out.len() == s.out_len() && lse.len() == target.len()
    );
    assert!(weight.is_none_or(|w| w.len() == s.c));
    let mut losses = filled(0.0f64, target.len());
    let all: f64 = (0..s.c).map(|c| weight_of(weight, c)).sum();
    {
        let (losses, lse) = (SharedMut::new(&mut losses), SharedMut::new(lse));
        parallel_for(target.len(), (4096 / s.c.max(1)).max(1), |r| {
            for i in r {
                let (log, weighted) = log_sum(s, x, i, weight, label_smoothing > 0.0);
                // SAFETY: element `i` of both is this index's own.
                let (loss, cell) = unsafe { (losses.slice(i, 1), lse.slice(i, 1)) };
                cell[0] = log;
                if let Some(t) = s.class(target, i) {
                    let hard = weight_of(weight, t) * (log - x[s.at(i, t)].up().f64());
                    loss[0] = if label_smoothing > 0.0 {
                        (1.0 - label_smoothing) * hard + label_smoothing / s.c as f64 * (all * log - weighted)
                    } else {
                        hard
                    };
                }
            }
        });
    }
    let total = s.total_weight(target, weight);
    match s.reduction {
        Reduction::None => out.iter_mut().zip(&losses).for_each(|(o, v)| *o = narrow(*v)),
        Reduction::Sum => out[0] = narrow(losses.iter().sum()),
        Reduction::Mean => out[0] = narrow(losses.iter().sum::<f64>() / total),
    }
    Ok(total)
}

fn check_smoothing(v: f64) -> Result<(), String> {
    if (0.0..=1.0).contains(&v) {
        Ok(())
    } else {
        Err(format!("label_smoothing must be between 0.0 and 1.0. Got: {v}"))
    }
}

/// The gradient of [`cross_entropy`] for the logits. Overwrites `grad_x`.
///
/// # Errors
/// As [`cross_entropy`].
///
/// # Panics
/// As [`cross_entropy`].
pub fn cross_entropy_backward<T: Float>(
    s: &LossShape,
    grad: &[T],
    x: &[T],
    target: &[i64],
    weight: Option<&[T]>,
    label_smoothing: f64,
    lse: &[f64],
    total_weight: f64,
    grad_x: &mut [T],
) -> Result<(), String> {
    check_smoothing(label_smoothing)?;
    s.check(target)?;
    assert!(
        x.len() == span::product([s.n, s.c, s.l]) && grad_x.len() == x.len() && lse.len() == target.len()
    );
    assert!(grad.len() == s.out_len() && weight.is_none_or(|w| w.len() == s.c));
    let all: f64 = (0..s.c).map(|c| weight_of(weight, c)).sum();
    let out = SharedMut::new(grad_x);
    let smooth = label_smoothing / s.c.max(1) as f64;
    parallel_for(target.len(), (4096 / s.c.max(1)).max(1), |r| {
        for i in r {
            let class = s.class(target, i);
            let up = class.map_or(0.0, |_| s.upstream(grad, i, total_weight));
            let hard = class.map_or(0.0, |t| (1.0 - label_smoothing) * weight_of(weight, t));
            if let (1, Some(t), true) = (s.l, class, smooth == 0.0) {
                // SAFETY: the classes of target `i` are this index's own.
                let to = unsafe { out.slice(i * s.c, s.c) };
                let row = &x[i * s.c..(i + 1) * s.c];
                isa::run(Slope { row, lse: lse[i], by: hard * up, to });
                to[t] = narrow(((row[t].up().f64() - lse[i]).exp() - 1.0) * hard * up);
                continue;
            }
            for c in 0..s.c {
                let at = s.at(i, c);
                let mut g = 0.0;
                if class.is_some() {
                    g = (x[at].up().f64() - lse[i]).exp() * (hard + smooth * all);
                    if smooth > 0.0 {
                        g -= smooth * weight_of(weight, c);
                    }
                    if class == Some(c) {
                        g -= hard;
                    }
                    g *= up;
                }
                // SAFETY: the classes of target `i` are this index's own.
                let cell = unsafe { out.slice(at, 1) };
                cell[0] = narrow(g);
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(n: usize, c: usize, l: usize, reduction: Reduction) -> LossShape {
        LossShape { n, c, l, ignore_index: -100, reduction }
    }
    fn logits(n: usize) -> Vec<f64> {
        (0..n).map(|i| ((i * 37 % 19) as f64 - 9.0) / 4.0).collect()
    }

    #[test]
    fn nll() {
        let x = [-1f32, -2.0, -3.0, -4.0, -5.0, -6.0];
        let w = [1f32, 2.0, 0.5];
        let s = shape(2, 3, 1, Reduction::Mean);
        let mut out = [0.0];
        let total = nll_loss(&s, &x, &[1, 2], Some(&w), &mut out).unwrap();
        assert_eq!((out[0], total), ((4.0 + 3.0) / 2.5, 2.5));
        let mut g = [9f32; 6];
        nll_loss_backward(&s, &[5.0], &[1, 2], Some(&w), total, &mut g).unwrap();
        assert_eq!(g, [0.0, -4.0, 0.0, 0.0, 0.0, -1.0]);
        assert!(nll_loss(&s, &x, &[1, 3], None, &mut out).is_err());
        assert!(nll_loss(&s, &x, &[-1, 0], None, &mut out).is_err());
        nll_loss(&s, &x, &[-100, -100], None, &mut out).unwrap();
        assert!(out[0].is_nan());
        let s = shape(1, 3, 2, Reduction::None);
        let mut out = [0.0; 2];
        nll_loss(&s, &x, &[2, -100], None, &mut out).unwrap();
        assert_eq!(out, [5.0, 0.0]);
    }

    #[test]
    fn gradient_is_the_slope_of_the_loss() {
        for reduction in [Reduction::Mean, Reduction::Sum, Reduction::None] {
            for (smoothing, c, l) in [(0.0, 4, 2), (0.3, 4, 2), (0.0, 37, 1), (0.3, 37, 1)] {
                let s = shape(6 / l, c, l, reduction);
                let w: Vec<f64> = (0..c).map(|c| [0.5, 1.0, 2.0, 0.25][c % 4]).collect();
                let mut x = logits(6 * c);
                let target = [0, 3, -100, 1, 2, 2];
                let outs = s.out_len();
                let up: Vec<f64> = (0..outs).map(|i| 1.0 + i as f64).collect();
                let mut lse = [0.0; 6];
                let mut loss = |x: &[f64]| {
                    let mut out = vec![0.0; outs];
                    let total =
                        cross_entropy(&s, x, &target, Some(&w), smoothing, &mut out, &mut lse).unwrap();
                    (out.iter().zip(&up).map(|(o, u)| o * u).sum::<f64>(), total)
                };
                let total = loss(&x).1;
                let mut slopes = vec![];
                for i in 0..x.len() {
                    let old = x[i];
                    x[i] = old + 1e-5;
                    let above = loss(&x).0;
                    x[i] = old - 1e-5;
                    let below = loss(&x).0;
                    x[i] = old;
                    slopes.push((above - below) / 2e-5);
                }
                loss(&x);
                let mut g = vec![9.0; x.len()];
                cross_entropy_backward(&s, &up, &x, &target, Some(&w), smoothing, &lse, total, &mut g)
                    .unwrap();
                for (i, (g, want)) in g.iter().zip(&slopes).enumerate() {
                    assert!((g - want).abs() < 1e-8, "{reduction:?} {smoothing} {i}: {g} {want}");
                }
            }
        }
    }

    #[test]
    fn cross_entropy_is_nll_of_log_softmax() {
        let s = shape(2, 5, 3, Reduction::Mean);
        let x = logits(30);
        let target = [0, 4, 2, 1, -100, 3];
        let mut log = x.clone();
        for i in 0..6 {
            let sum: f64 = (0..5).map(|c| x[s.at(i, c)].exp()).sum();
            (0..5).for_each(|c| log[s.at(i, c)] -= sum.ln());
        }
        let (mut want, mut got, mut lse) = ([0.0], [0.0], [0.0; 6]);
        nll_loss(&s, &log, &target, None, &mut want).unwrap();
        cross_entropy(&s, &x, &target, None, 0.0, &mut got, &mut lse).unwrap();
        assert!((want[0] - got[0]).abs() < 1e-12);
        assert!(cross_entropy(&s, &x, &target, None, 1.5, &mut got, &mut lse).is_err());
    }
}
