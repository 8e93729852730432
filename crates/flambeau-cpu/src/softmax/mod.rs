//! Softmax, forward and backward, in one pass over cached rows. Halves compute in f32.

pub mod erased;

use crate::engine::accumulate::fold;
use crate::engine::cache::prefetch;
use crate::engine::isa::{self, Isa, Job, Level, best_for};
use crate::engine::parallel::{num_threads, parallel_for};
use crate::engine::room::filled;
use crate::engine::{SharedMut, span};
use crate::num::{Arith, Compute, Float, Order, Stored};
use crate::reduction::fold::GRAIN;
use std::ops::Range;

type Op<T> = <T as Stored>::Compute;
/// Elements of a row that are computed together.
const LANES: usize = 16;
/// Most columns that a strided softmax handles together.
const W: usize = 1024;
/// The fewest that are cut off for another thread.
const LEAST: usize = 64;

/// Columns that are handled together. Wide tiles pass along whole rows, as the machine reads ahead; narrow ones of rows that are a
/// power of two long would find nothing in the caches that the pass before left there. The results do not depend on it.
fn width(outer: usize, inner: usize) -> usize {
    let parts = num_threads().div_ceil(outer);
    inner.div_ceil(parts).next_multiple_of(LANES).clamp(LEAST, W).min(inner)
}

/// The larger one, where a NaN may get lost: what is computed with the maximum finds it again.
#[inline(always)]
fn max<O: PartialOrd>(a: O, b: O) -> O {
    if b > a { b } else { a }
}

/// `exp(x - m)` of as many elements as a vector may have.
#[inline(always)]
fn together<I: Isa, T: Float>(x: &[T; LANES], m: Op<T>, to: &mut [Op<T>; LANES]) {
    for (to, x) in to.iter_mut().zip(x) {
        *to = (x.up() - m).exp::<I>();
    }
}

/// How a row's sum and its logarithm are rounded: of halves that were widened, PyTorch keeps halves.
pub type Keep = Option<fn(f64) -> f64>;

struct Row<'a, T: Float, const LOG: bool> {
    x: &'a [T],
    y: &'a mut [T],
    n: usize,
    tmp: &'a mut [Op<T>],
    keep: Keep,
}
impl<T: Float, const LOG: bool> Job for Row<'_, T, LOG> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let n = self.n;
        let tmp = &mut self.tmp[..n];
        let exp = Op::<T>::exp_vectors();
        for (x, y) in self.x.chunks_exact(n).zip(self.y.chunks_exact_mut(n)) {
            let m = fold::<I, _, _, _>([x], Op::<T>::LOW, |[v]| v.up(), max);
            // what comes next is fetched while the exponentials keep the units busy
            let step = 256 / size_of::<T>();
            for (c, tmp) in tmp.chunks_mut(step).enumerate() {
                for line in 0..4 {
                    let at = c * 256 + line * 64;
                    prefetch(x.as_ptr().wrapping_add(n).cast::<u8>().wrapping_add(at));
                    prefetch(y.as_ptr().cast::<u8>().wrapping_add(at));
                }
                if let Some(exp) = exp {
                    tmp.iter_mut().zip(&x[c * step..]).for_each(|(to, x)| *to = x.up() - m);
                    exp(tmp);
                    continue;
                }
                let (to, _) = tmp.as_chunks_mut::<LANES>();
                for (to, x) in to.iter_mut().zip(x[c * step..].as_chunks().0) {
                    together::<I, T>(x, m, to);
                }
            }
            // one by one, what is left would cost as much as many vectors: some are computed twice instead
            match (x.last_chunk(), tmp.last_chunk_mut()) {
                _ if exp.is_some() => {}
                (Some(x), Some(to)) if !n.is_multiple_of(LANES) => together::<I, T>(x, m, to),
                (Some(_), Some(_)) => {}
                _ => tmp.iter_mut().zip(x).for_each(|(to, x)| *to = (x.up() - m).exp::<I>()),
            }
            let s = fold::<I, _, _, _>([&*tmp], Op::<T>::ZERO, |[v]| v, |a, b| a + b);
            if LOG {
                let keep = |v: Op<T>| self.keep.map_or(v, |keep| Op::<T>::of(keep(v.f64())));
                let l = keep(keep(s).log());
                y.iter_mut().zip(x).for_each(|(y, x)| *y = T::down(x.up() - m - l));
            } else {
                let r = Op::<T>::ONE / s;
                y.iter_mut().zip(&*tmp).for_each(|(y, v)| *y = T::down(*v * r));
            }
        }
    }
}

/// Tiles of columns of a contiguous `[outer, n, inner]` tensor, each `w` wide or what is left of a row.
struct Cols<'a, T: Float, const LOG: bool> {
    x: &'a [T],
    y: &'a SharedMut<'a, T>,
    n: usize,
    inner: usize,
    w: usize,
    /// Those of one task.
    tiles: Range<usize>,
}
impl<T: Float, const LOG: bool> Job for Cols<'_, T, LOG> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let Cols { x, y, n, inner, w, tiles } = self;
        let exp = Op::<T>::exp_vectors();
        let (mut m, mut s, mut e) = ([Op::<T>::ZERO; W], [Op::<T>::ZERO; W], [Op::<T>::ZERO; W]);
        for t in tiles {
            let i = t % inner.div_ceil(w) * w;
            let base = t / inner.div_ceil(w) * n * inner + i;
            let w = w.min(inner - i);
            let (m, s, e) = (&mut m[..w], &mut s[..w], &mut e[..w]);
            m.fill(Op::<T>::LOW);
            s.fill(Op::<T>::ZERO);
            for k in 0..n {
                let a = &x[base + k * inner..][..w];
                m.iter_mut().zip(a).for_each(|(m, a)| *m = max(*m, a.up()));
            }
            for k in 0..n {
                let a = &x[base + k * inner..][..w];
                if let Some(exp) = exp {
                    e.iter_mut().zip(a).zip(&*m).for_each(|((e, a), m)| *e = a.up() - *m);
                    exp(e);
                    s.iter_mut().zip(&*e).for_each(|(s, e)| *s = *s + *e);
                } else {
                    s.iter_mut().zip(a).zip(&*m).for_each(|((s, a), m)| *s = *s + (a.up() - *m).exp::<I>());
                }
            }
            for s in s.iter_mut() {
                *s = if LOG { s.log() } else { Op::<T>::ONE / *s };
            }
            for k in 0..n {
                let a = &x[base + k * inner..][..w];
                // SAFETY: tiles are disjoint, and each is handled by one task.
                let o = unsafe { y.slice(base + k * inner, w) };
                if let (false, Some(exp)) = (LOG, exp) {
                    e.iter_mut().zip(a).zip(&*m).for_each(|((e, a), m)| *e = a.up() - *m);
                    exp(e);
                    o.iter_mut().zip(&*e).zip(&*s).for_each(|((o, e), s)| *o = T::down(*e * *s));
                } else {
                    for (((o, a), m), s) in o.iter_mut().zip(a).zip(&*m).zip(&*s) {
                        let v = a.up() - *m;
                        *o = T::down(if LOG { v - *s } else { v.exp::<I>() * *s });
                    }
                }
            }
        }
    }
}

fn forward<T: Float, const LOG: bool>(
    x: &[T],
    outer: usize,
    n: usize,
    inner: usize,
    y: &mut [T],
    keep: Keep,
) {
    let len = span::product([outer, n, inner]);
    assert!(x.len() == len && y.len() == len, "softmax: a slice has the wrong length");
    if len == 0 {
        return;
    }
    let y = SharedMut::new(y);
    if inner == 1 {
        return parallel_for(outer, (GRAIN / 8 / n).max(1), |r| {
            let mut tmp = filled(Op::<T>::ZERO, n);
            // SAFETY: ranges of rows are disjoint.
            let y = unsafe { y.slice(r.start * n, r.len() * n) };
            isa::run(Row::<T, LOG> { x: &x[r.start * n..r.end * n], y, n, tmp: &mut tmp, keep });
        });
    }
    let w = width(outer, inner);
    parallel_for(outer * inner.div_ceil(w), (GRAIN / 8 / (n * w)).max(1), |tiles| {
        isa::run(Cols::<T, LOG> { x, y: &y, n, inner, w, tiles });
    });
}

/// `exp(x) / sum(exp(x))` along `n` of a contiguous `[outer, n, inner]` tensor. A row of -inf gives NaN.
pub fn softmax<T: Float>(x: &[T], outer: usize, n: usize, inner: usize, y: &mut [T]) {
    forward::<T, false>(x, outer, n, inner, y, None);
}
/// The logarithm of [`softmax`], computed without it.
pub fn log_softmax<T: Float>(x: &[T], outer: usize, n: usize, inner: usize, y: &mut [T]) {
    log_softmax_keeping(x, outer, n, inner, y, None);
}
/// [`log_softmax`] with the sums along the last dimension rounded.
pub fn log_softmax_keeping<T: Float>(x: &[T], outer: usize, n: usize, inner: usize, y: &mut [T], keep: Keep) {
    forward::<T, true>(x, outer, n, inner, y, keep);
}

struct Back<'a, T: Float, const LOG: bool> {
    dy: &'a [T],
    y: &'a [T],
    dx: &'a SharedMut<'a, T>,
    n: usize,
    inner: usize,
    /// The width of a tile of columns; 1 of rows.
    w: usize,
    tiles: Range<usize>,
}
impl<T: Float, const LOG: bool> Job for Back<'_, T, LOG> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let Back { dy, y, dx, n, inner, w, tiles } = self;
        if inner == 1 {
            for row in tiles {
                let (dy, y) = (&dy[row * n..][..n], &y[row * n..][..n]);
                // SAFETY: each row is handled by one task.
                let dx = unsafe { dx.slice(row * n, n) };
                let term = |[d, v]: [T; 2]| if LOG { d.up() } else { d.up() * v.up() };
                let s = fold::<I, _, _, _>([dy, y], Op::<T>::ZERO, term, |a, b| a + b);
                for ((dx, d), v) in dx.iter_mut().zip(dy).zip(y) {
                    let (d, v) = (d.up(), v.up());
                    *dx = T::down(if LOG { d - v.exp::<I>() * s } else { v * (d - s) });
                }
            }
            return;
        }
        let mut s = [Op::<T>::ZERO; W];
        for t in tiles {
            let i = t % inner.div_ceil(w) * w;
            let base = t / inner.div_ceil(w) * n * inner + i;
            let w = w.min(inner - i);
            let s = &mut s[..w];
            s.fill(Op::<T>::ZERO);
            for k in 0..n {
                let (d, v) = (&dy[base + k * inner..][..w], &y[base + k * inner..][..w]);
                for ((s, d), v) in s.iter_mut().zip(d).zip(v) {
                    *s = *s + if LOG { d.up() } else { d.up() * v.up() };
                }
            }
            for k in 0..n {
                let (d, v) = (&dy[base + k * inner..][..w], &y[base + k * inner..][..w]);
                // SAFETY: tiles are disjoint, and each is handled by one task.
                let o = unsafe { dx.slice(base + k * inner, w) };
                for (((o, d), v), s) in o.iter_mut().zip(d).zip(v).zip(&*s) {
                    let (d, v) = (d.up(), v.up());
                    *o = T::down(if LOG { d - v.exp::<I>() * *s } else { v * (d - *s) });
                }
            }
        }
    }
}
fn backward<T: Float, const LOG: bool>(
    dy: &[T],
    y: &[T],
    outer: usize,
    n: usize,
    inner: usize,
    dx: &mut [T],
) {
    let len = span::product([outer, n, inner]);
    assert!(dy.len() == len && y.len() == len && dx.len() == len, "softmax: a slice has the wrong length");
    if len == 0 {
        return;
    }
    let dx = SharedMut::new(dx);
    let w = width(outer, inner);
    parallel_for(outer * inner.div_ceil(w), (GRAIN / 4 / (n * w)).max(1), |tiles| {
        isa::run(Back::<T, LOG> { dy, y, dx: &dx, n, inner, w, tiles })
    });
}
/// Gradient of [`softmax`] from its result `y`.
pub fn softmax_backward<T: Float>(dy: &[T], y: &[T], outer: usize, n: usize, inner: usize, dx: &mut [T]) {
    backward::<T, false>(dy, y, outer, n, inner, dx);
}
/// Gradient of [`log_softmax`] from its result `y`.
pub fn log_softmax_backward<T: Float>(dy: &[T], y: &[T], outer: usize, n: usize, inner: usize, dx: &mut [T]) {
    backward::<T, true>(dy, y, outer, n, inner, dx);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: &[f32], want: &[f64], what: &str) {
        for (i, (g, w)) in got.iter().zip(want).enumerate() {
            assert!((f64::from(*g) - w).abs() <= 1e-6 * w.abs().max(0.3), "{what} at {i}: {g} {w}");
        }
    }

    /// Rows and columns of all lengths, by vectors and without, against the definition in f64.
    #[test]
    fn agrees_with_the_definition() {
        for (outer, n, inner) in
            [(1, 37, 1), (5, 10, 1), (3, 300, 1), (2, 5, 7), (1, 9, 1030), (1, 4, 2500), (40, 3, 65)]
        {
            let len = outer * n * inner;
            let x: Vec<f32> = (0..len).map(|i| ((i * 7919) % 1013) as f32 * 0.011 - 5.0).collect();
            let up: Vec<f32> = (0..len).map(|i| ((i * 31) % 17) as f32 * 0.1 - 0.7).collect();
            let (mut soft, mut log) = (vec![0.0f64; len], vec![0.0f64; len]);
            let (mut soft_back, mut log_back) = (soft.clone(), soft.clone());
            for o in 0..outer {
                for i in 0..inner {
                    let at = |k: usize| (o * n + k) * inner + i;
                    let sum: f64 = (0..n).map(|k| f64::from(x[at(k)]).exp()).sum();
                    for k in 0..n {
                        log[at(k)] = f64::from(x[at(k)]) - sum.ln();
                        soft[at(k)] = log[at(k)].exp();
                    }
                    let dot: f64 = (0..n).map(|k| f64::from(up[at(k)]) * soft[at(k)]).sum();
                    let all: f64 = (0..n).map(|k| f64::from(up[at(k)])).sum();
                    for k in 0..n {
                        soft_back[at(k)] = soft[at(k)] * (f64::from(up[at(k)]) - dot);
                        log_back[at(k)] = f64::from(up[at(k)]) - soft[at(k)] * all;
                    }
                }
            }
            let (mut y, mut l, mut d) = (vec![0.0f32; len], vec![0.0f32; len], vec![0.0f32; len]);
            softmax(&x, outer, n, inner, &mut y);
            close(&y, &soft, "softmax");
            log_softmax(&x, outer, n, inner, &mut l);
            close(&l, &log, "log_softmax");
            softmax_backward(&up, &y, outer, n, inner, &mut d);
            close(&d, &soft_back, "softmax backward");
            log_softmax_backward(&up, &l, outer, n, inner, &mut d);
            close(&d, &log_back, "log_softmax backward");
            let wide: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
            let mut y = vec![0.0; len];
            softmax(&wide, outer, n, inner, &mut y);
            assert!(y.iter().zip(&soft).all(|(y, s)| (y - s).abs() < 1e-14), "{outer} {n} {inner}");
        }
        // a row of -inf is undefined, one with some is not
        let (low, mut y) = ([f32::NEG_INFINITY; 3], [0.0f32; 3]);
        softmax(&low, 1, 3, 1, &mut y);
        assert!(y.iter().all(|y| y.is_nan()));
        softmax(&[f32::NEG_INFINITY, 1.0, 1.0], 1, 3, 1, &mut y);
        assert_eq!(y, [0.0, 0.5, 0.5]);
    }
}
