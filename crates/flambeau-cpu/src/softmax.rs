//! Softmax, layer norm and RMS norm, forward and backward, in one pass over cached rows. Halves compute in f32.

pub mod erased;

use crate::cache::{prefetch, prefetch_row};
use crate::isa::{self, Isa, Job, Level, best_for};
use crate::lanes::{fold, fold_two};
use crate::parallel::parallel_for;
use crate::reduce::fold::{GRAIN, Geo, Ptr};
use crate::reduce::num::{Arith, Float, FloatOp, Order};

type Op<T> = <T as Float>::Op;
/// Columns that a strided softmax handles together.
const W: usize = 64;

/// The larger one, where a NaN may get lost: what is computed with the maximum finds it again.
#[inline(always)]
fn max<O: PartialOrd>(a: O, b: O) -> O {
    if b > a { b } else { a }
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
        for (x, y) in self.x.chunks_exact(n).zip(self.y.chunks_exact_mut(n)) {
            let m = fold::<I, _, _, _>([x], Op::<T>::LOW, |[v]| v.op(), max);
            // what comes next is fetched while the exponentials keep the units busy
            let step = 256 / size_of::<T>();
            for (c, tmp) in tmp.chunks_mut(step).enumerate() {
                for line in 0..4 {
                    let at = c * 256 + line * 64;
                    prefetch(x.as_ptr().wrapping_add(n).cast::<u8>().wrapping_add(at));
                    prefetch(y.as_ptr().cast::<u8>().wrapping_add(at));
                }
                for (tmp, x) in tmp.iter_mut().zip(&x[c * step..]) {
                    *tmp = (x.op() - m).exp_::<I>();
                }
            }
            let s = fold::<I, _, _, _>([&*tmp], Op::<T>::ZERO, |[v]| v, |a, b| a + b);
            if LOG {
                let keep = |v: Op<T>| self.keep.map_or(v, |keep| Op::<T>::of(keep(v.f64())));
                let l = keep(keep(s).ln_());
                y.iter_mut().zip(x).for_each(|(y, x)| *y = T::from_op(x.op() - m - l));
            } else {
                let r = Op::<T>::ONE / s;
                y.iter_mut().zip(&*tmp).for_each(|(y, v)| *y = T::from_op(*v * r));
            }
        }
    }
}

/// A tile of columns of a contiguous `[n, inner]` block; `y` may be written at the columns `at..at + w` only.
struct Cols<'a, T: Float, const LOG: bool> {
    x: &'a [T],
    y: &'a Ptr<'a, T>,
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
                m[j] = max(m[j], a[j].op());
            }
        }
        for k in 0..n {
            let a = &x[base + k * inner..][..w];
            for j in 0..w {
                s[j] = s[j] + (a[j].op() - m[j]).exp_::<I>();
            }
        }
        for j in 0..w {
            s[j] = if LOG { s[j].ln_() } else { Op::<T>::ONE / s[j] };
        }
        for k in 0..n {
            let a = &x[base + k * inner..][..w];
            // SAFETY: tiles are disjoint, and each is handled by one task.
            let o = unsafe { y.slice(base + k * inner, w) };
            for j in 0..w {
                let v = a[j].op() - m[j];
                o[j] = T::from_op(if LOG { v - s[j] } else { v.exp_::<I>() * s[j] });
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
    let len = outer * n * inner;
    assert!(x.len() == len && y.len() == len, "softmax: a slice has the wrong length");
    if len == 0 {
        return;
    }
    let y = Ptr::new(y);
    if inner == 1 {
        return parallel_for(outer, (GRAIN / 8 / n).max(1), |r| {
            let mut tmp = vec![Op::<T>::ZERO; n];
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
    dx: &'a Ptr<'a, T>,
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
                let term = |[d, v]: [T; 2]| if LOG { d.op() } else { d.op() * v.op() };
                let s = fold::<I, _, _, _>([dy, y], Op::<T>::ZERO, term, |a, b| a + b);
                for ((dx, d), v) in dx.iter_mut().zip(dy).zip(y) {
                    let (d, v) = (d.op(), v.op());
                    *dx = T::from_op(if LOG { d - v.exp_::<I>() * s } else { v * (d - s) });
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
                    s[j] = s[j] + if LOG { d[j].op() } else { d[j].op() * v[j].op() };
                }
            }
            for k in 0..n {
                let (d, v) = (&dy[base + k * inner..][..w], &y[base + k * inner..][..w]);
                // SAFETY: tiles are disjoint, and each is handled by one task.
                let o = unsafe { dx.slice(base + k * inner, w) };
                for j in 0..w {
                    let (d, v) = (d[j].op(), v[j].op());
                    o[j] = T::from_op(if LOG { d - v.exp_::<I>() * s[j] } else { v * (d - s[j]) });
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
    let len = outer * n * inner;
    assert!(dy.len() == len && y.len() == len && dx.len() == len, "softmax: a slice has the wrong length");
    if len == 0 {
        return;
    }
    let dx = Ptr::new(dx);
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

/// Scale and shift of a norm layer, one per column, or absent.
#[derive(Clone, Copy)]
pub struct Affine<'a, T> {
    /// Scale; 1 where absent.
    pub gamma: Option<&'a [T]>,
    /// Shift; 0 where absent.
    pub beta: Option<&'a [T]>,
}

struct Norm<'a, T: Float, const RMS: bool> {
    x: &'a [T],
    n: usize,
    a: Affine<'a, T>,
    eps: f64,
    y: &'a mut [T],
    mean: &'a mut [Op<T>],
    rstd: &'a mut [Op<T>],
}
impl<T: Float, const RMS: bool> Job for Norm<'_, T, RMS> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let n = self.n;
        let count = Op::<T>::of(n as f64);
        for (r, (x, y)) in self.x.chunks_exact(n).zip(self.y.chunks_exact_mut(n)).enumerate() {
            let m = if RMS {
                Op::<T>::ZERO
            } else {
                fold::<I, _, _, _>([x], Op::<T>::ZERO, |[v]| v.op(), |a, b| a + b) / count
            };
            let square = |[v]: [T; 1]| (v.op() - m) * (v.op() - m);
            let v = fold::<I, _, _, _>([x], Op::<T>::ZERO, square, |a, b| a + b) / count;
            let rstd = Op::<T>::ONE / (v + Op::<T>::of(self.eps)).sqrt_();
            if !RMS {
                self.mean[r] = m;
            }
            self.rstd[r] = rstd;
            match (self.a.gamma, self.a.beta) {
                (Some(g), Some(b)) => {
                    for (((y, x), g), b) in y.iter_mut().zip(x).zip(g).zip(b) {
                        *y = T::from_op((x.op() - m) * rstd * g.op() + b.op());
                    }
                }
                (Some(g), None) => {
                    for ((y, x), g) in y.iter_mut().zip(x).zip(g) {
                        *y = T::from_op((x.op() - m) * rstd * g.op());
                    }
                }
                (None, Some(b)) => {
                    for ((y, x), b) in y.iter_mut().zip(x).zip(b) {
                        *y = T::from_op((x.op() - m) * rstd + b.op());
                    }
                }
                (None, None) => {
                    for (y, x) in y.iter_mut().zip(x) {
                        *y = T::from_op((x.op() - m) * rstd + Op::<T>::ZERO);
                    }
                }
            }
        }
    }
}
fn norm<T: Float, const RMS: bool>(
    x: &[T],
    n: usize,
    a: Affine<T>,
    eps: f64,
    y: &mut [T],
    mean: &mut [Op<T>],
    rstd: &mut [Op<T>],
) {
    let rows = rstd.len();
    assert!(x.len() == rows * n && y.len() == x.len(), "norm: a slice has the wrong length");
    assert!(RMS || mean.len() == rows, "norm: a slice has the wrong length");
    assert!(
        [a.gamma, a.beta].iter().flatten().all(|s| s.len() == n),
        "norm: a parameter has the wrong length"
    );
    if n == 0 {
        mean.fill(Op::<T>::of(f64::NAN));
        rstd.fill(Op::<T>::of(f64::NAN));
        return;
    }
    let (y, mean, rstd) = (Ptr::new(y), Ptr::new(mean), Ptr::new(rstd));
    parallel_for(rows, (GRAIN / 4 / n).max(1), |r| {
        let (at, len) = (r.start, r.len());
        // SAFETY: ranges of rows are disjoint.
        let y = unsafe { y.slice(at * n, len * n) };
        // SAFETY: as above.
        let mean = unsafe { mean.slice(if RMS { 0 } else { at }, if RMS { 0 } else { len }) };
        // SAFETY: as above.
        let rstd = unsafe { rstd.slice(at, len) };
        isa::run(Norm::<T, RMS> { x: &x[at * n..][..len * n], n, a, eps, y, mean, rstd });
    });
}
/// Layer norm over rows of `n` elements: `(x - mean) * rstd * gamma + beta`, with `rstd = 1 / sqrt(var + eps)` and the
/// biased variance. `mean` and `rstd` get one value per row.
pub fn layer_norm<T: Float>(
    x: &[T],
    n: usize,
    a: Affine<T>,
    eps: f64,
    y: &mut [T],
    mean: &mut [Op<T>],
    rstd: &mut [Op<T>],
) {
    norm::<T, false>(x, n, a, eps, y, mean, rstd);
}
/// RMS norm over rows of `n` elements: `x * rstd * gamma`, with `rstd = 1 / sqrt(mean(x^2) + eps)`, one per row.
pub fn rms_norm<T: Float>(x: &[T], n: usize, gamma: Option<&[T]>, eps: f64, y: &mut [T], rstd: &mut [Op<T>]) {
    norm::<T, true>(x, n, Affine { gamma, beta: None }, eps, y, &mut [], rstd);
}

/// Columns of a row that [`NormBack`] takes at a time.
const PIECE: usize = 256;
struct NormBack<'a, T: Float, const RMS: bool> {
    dy: &'a [T],
    x: &'a [T],
    n: usize,
    gamma: Option<&'a [T]>,
    mean: &'a [Op<T>],
    rstd: &'a [Op<T>],
    dx: &'a mut [T],
    /// Sums of `dy * xhat` and `dy` per column over these rows; empty when not wanted.
    dgamma: &'a mut [Op<T>],
    dbeta: &'a mut [Op<T>],
}
impl<T: Float, const RMS: bool> Job for NormBack<'_, T, RMS> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let n = self.n;
        let count = Op::<T>::of(n as f64);
        let zero = Op::<T>::ZERO;
        let ones = vec![T::from_f64(1.0); if self.gamma.is_none() { n } else { 0 }];
        let g = &self.gamma.unwrap_or(&ones)[..n];
        for (r, dy) in self.dy.chunks_exact(n).enumerate() {
            let x = &self.x[r * n..][..n];
            let (m, rs) = (if RMS { zero } else { self.mean[r] }, self.rstd[r]);
            let hat = |v: T| (v.op() - m) * rs;
            let sums = if self.dx.is_empty() {
                [zero; 2]
            } else {
                let products = |[d, g, x]: [T; 3]| {
                    let up = d.op() * g.op();
                    [if RMS { zero } else { up }, up * hat(x)]
                };
                fold_two::<I, _, _, _>([dy, g, x], zero, products, |a, b| a + b)
            };
            let [a, b] = sums.map(|s| s / count);
            // The next row is asked for piece by piece: all at once would hold up this one.
            for from in (0..n).step_by(PIECE) {
                let at = from..(from + PIECE).min(n);
                let (dy, x, g) = (&dy[at.clone()], &x[at.clone()], &g[at.clone()]);
                prefetch_row(dy.as_ptr().wrapping_add(n), dy.len());
                prefetch_row(x.as_ptr().wrapping_add(n), x.len());
                if !self.dx.is_empty() {
                    let dx = &mut self.dx[r * n..][at.clone()];
                    prefetch_row(dx.as_ptr().wrapping_add(n), dx.len());
                    for (((dx, d), g), x) in dx.iter_mut().zip(dy).zip(g).zip(x) {
                        *dx = T::from_op((d.op() * g.op() - a - hat(*x) * b) * rs);
                    }
                }
                if !self.dgamma.is_empty() {
                    let d = &mut self.dgamma[at.clone()];
                    for ((sum, d), x) in d.iter_mut().zip(dy).zip(x) {
                        *sum = *sum + d.op() * hat(*x);
                    }
                }
                if !self.dbeta.is_empty() {
                    let d = &mut self.dbeta[at];
                    d.iter_mut().zip(dy).for_each(|(sum, d)| *sum = *sum + d.op());
                }
            }
        }
    }
}
fn norm_backward<T: Float, const RMS: bool>(
    dy: &[T],
    x: &[T],
    n: usize,
    gamma: Option<&[T]>,
    mean: &[Op<T>],
    rstd: &[Op<T>],
    dx: Option<&mut [T]>,
    dgamma: Option<&mut [T]>,
    dbeta: Option<&mut [T]>,
) {
    let rows = rstd.len();
    assert!(x.len() == rows * n && dy.len() == x.len(), "norm: a slice has the wrong length");
    assert!(RMS || mean.len() == rows, "norm: a slice has the wrong length");
    assert!(gamma.is_none_or(|g| g.len() == n), "norm: a parameter has the wrong length");
    assert!(dx.as_ref().is_none_or(|d| d.len() == x.len()), "norm: a gradient has the wrong length");
    assert!(
        [&dgamma, &dbeta].into_iter().flatten().all(|d| d.len() == n),
        "norm: a gradient has the wrong length"
    );
    if n == 0 {
        return;
    }
    // Fixed groups of rows, so that column sums do not depend on the number of threads.
    let per = rows.div_ceil(64).max((GRAIN / 4).div_ceil(n));
    let groups = rows.div_ceil(per);
    let zero = Op::<T>::ZERO;
    let mut gs = vec![zero; if dgamma.is_some() { groups * n } else { 0 }];
    let mut bs = vec![zero; if dbeta.is_some() { groups * n } else { 0 }];
    {
        let mut none = [];
        let dx = Ptr::new(dx.unwrap_or(&mut none));
        let (gp, bp) = (Ptr::new(&mut gs), Ptr::new(&mut bs));
        let (want_x, want_g, want_b) = (!dx.is_empty(), !gp.is_empty(), !bp.is_empty());
        parallel_for(groups, 1, |r| {
            for c in r {
                let at = c * per;
                let len = per.min(rows - at);
                // SAFETY: groups are disjoint, here and in the next two slices.
                let dx =
                    unsafe { dx.slice(if want_x { at * n } else { 0 }, if want_x { len * n } else { 0 }) };
                // SAFETY: as above.
                let dgamma = unsafe { gp.slice(if want_g { c * n } else { 0 }, if want_g { n } else { 0 }) };
                // SAFETY: as above.
                let dbeta = unsafe { bp.slice(if want_b { c * n } else { 0 }, if want_b { n } else { 0 }) };
                isa::run(NormBack::<T, RMS> {
                    dy: &dy[at * n..][..len * n],
                    x: &x[at * n..][..len * n],
                    n,
                    gamma,
                    mean: if RMS { &[] } else { &mean[at..][..len] },
                    rstd: &rstd[at..][..len],
                    dx,
                    dgamma,
                    dbeta,
                });
            }
        });
    }
    for (out, part) in [(dgamma, &gs), (dbeta, &bs)] {
        if let Some(out) = out {
            let mut sums = vec![zero; n];
            for part in part.chunks_exact(n) {
                sums.iter_mut().zip(part).for_each(|(sum, v)| *sum = *sum + *v);
            }
            out.iter_mut().zip(sums).for_each(|(o, sum)| *o = T::from_op(sum));
        }
    }
}
/// Gradients of [`layer_norm`] from its saved `mean` and `rstd`; those that are `None` are not computed.
pub fn layer_norm_backward<T: Float>(
    dy: &[T],
    x: &[T],
    n: usize,
    gamma: Option<&[T]>,
    mean: &[Op<T>],
    rstd: &[Op<T>],
    dx: Option<&mut [T]>,
    dgamma: Option<&mut [T]>,
    dbeta: Option<&mut [T]>,
) {
    norm_backward::<T, false>(dy, x, n, gamma, mean, rstd, dx, dgamma, dbeta);
}
/// Gradients of [`rms_norm`] from its saved `rstd`.
pub fn rms_norm_backward<T: Float>(
    dy: &[T],
    x: &[T],
    n: usize,
    gamma: Option<&[T]>,
    rstd: &[Op<T>],
    dx: Option<&mut [T]>,
    dgamma: Option<&mut [T]>,
) {
    norm_backward::<T, true>(dy, x, n, gamma, &[], rstd, dx, dgamma, None);
}

/// Checks that a view is what these kernels take: contiguous.
pub fn is_contiguous(g: Geo) -> bool {
    let c = Geo::contiguous(g.outer, g.n, g.inner);
    (g.outer <= 1 || g.os == c.os) && (g.n <= 1 || g.ns == c.ns) && (g.inner <= 1 || g.is == c.is)
}
