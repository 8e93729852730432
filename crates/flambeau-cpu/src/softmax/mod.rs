//! Softmax, forward and backward, in one pass over cached rows. Halves compute in f32.

pub mod erased;

use crate::engine::accumulate::fold;
use crate::engine::cache::prefetch;
use crate::engine::isa::{self, Isa, Job, Level, best_for};
use crate::engine::parallel::parallel_for;
use crate::engine::room::filled;
use crate::engine::{SharedMut, span};
use crate::num::{Arith, Compute, Float, Order, Stored};
use crate::reduction::fold::GRAIN;

type Op<T> = <T as Stored>::Compute;
/// Elements of a row that are computed together.
const LANES: usize = 16;
/// Columns that a strided softmax handles together.
const W: usize = 64;

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

/// A tile of columns of a contiguous `[n, inner]` block; `y` may be written at the columns `at..at + w` only.
struct Cols<'a, T: Float, const LOG: bool> {
    x: &'a [T],
    y: &'a SharedMut<'a, T>,
    base: usize,
    n: usize,
    inner: usize,
    w: usize,
}
impl<T: Float, const LOG: bool> Job for Cols<'_, T, LOG> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let Cols { x, y, base, n, inner, w } = self;
        let (mut m, mut s) = ([Op::<T>::LOW; W], [Op::<T>::ZERO; W]);
        for k in 0..n {
            let a = &x[base + k * inner..][..w];
            for j in 0..w {
                m[j] = max(m[j], a[j].up());
            }
        }
        let exp = Op::<T>::exp_vectors();
        for k in 0..n {
            let a = &x[base + k * inner..][..w];
            if let Some(exp) = exp {
                let mut e = [Op::<T>::ZERO; W];
                (0..w).for_each(|j| e[j] = a[j].up() - m[j]);
                exp(&mut e[..w]);
                (0..w).for_each(|j| s[j] = s[j] + e[j]);
                continue;
            }
            for j in 0..w {
                s[j] = s[j] + (a[j].up() - m[j]).exp::<I>();
            }
        }
        for j in 0..w {
            s[j] = if LOG { s[j].log() } else { Op::<T>::ONE / s[j] };
        }
        for k in 0..n {
            let a = &x[base + k * inner..][..w];
            // SAFETY: tiles are disjoint, and each is handled by one task.
            let o = unsafe { y.slice(base + k * inner, w) };
            if let (false, Some(exp)) = (LOG, exp) {
                let mut e = [Op::<T>::ZERO; W];
                (0..w).for_each(|j| e[j] = a[j].up() - m[j]);
                exp(&mut e[..w]);
                (0..w).for_each(|j| o[j] = T::down(e[j] * s[j]));
                continue;
            }
            for j in 0..w {
                let v = a[j].up() - m[j];
                o[j] = T::down(if LOG { v - s[j] } else { v.exp::<I>() * s[j] });
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
    let tiles = inner.div_ceil(W);
    parallel_for(outer * tiles, (GRAIN / 8 / (n * inner.min(W))).max(1), |r| {
        for t in r {
            let i = t % tiles * W;
            let base = t / tiles * n * inner + i;
            isa::run(Cols::<T, LOG> { x, y: &y, base, n, inner, w: W.min(inner - i) });
        }
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
    tiles: std::ops::Range<usize>,
}
impl<T: Float, const LOG: bool> Job for Back<'_, T, LOG> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let Back { dy, y, dx, n, inner, tiles } = self;
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
        let per = inner.div_ceil(W);
        for t in tiles {
            let i = t % per * W;
            let w = W.min(inner - i);
            let base = t / per * n * inner + i;
            let mut s = [Op::<T>::ZERO; W];
            for k in 0..n {
                let (d, v) = (&dy[base + k * inner..][..w], &y[base + k * inner..][..w]);
                for j in 0..w {
                    s[j] = s[j] + if LOG { d[j].up() } else { d[j].up() * v[j].up() };
                }
            }
            for k in 0..n {
                let (d, v) = (&dy[base + k * inner..][..w], &y[base + k * inner..][..w]);
                // SAFETY: tiles are disjoint, and each is handled by one task.
                let o = unsafe { dx.slice(base + k * inner, w) };
                for j in 0..w {
                    let (d, v) = (d[j].up(), v[j].up());
                    o[j] = T::down(if LOG { d - v.exp::<I>() * s[j] } else { v * (d - s[j]) });
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
    let tiles = outer * inner.div_ceil(W);
    parallel_for(tiles, (GRAIN / 4 / (n * inner.min(W))).max(1), |tiles| {
        isa::run(Back::<T, LOG> { dy, y, dx: &dx, n, inner, tiles })
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
