//! Layer norm and RMS norm, forward and backward, in one pass over cached rows. Halves compute in f32.

use crate::engine::accumulate::{fold, fold_two};
use crate::engine::cache::prefetch_row;
use crate::engine::isa::{self, Isa, Job, Level, best_for};
use crate::engine::parallel::parallel_for;
use crate::engine::room::filled;
use crate::engine::{SharedMut, span};
use crate::num::{Arith, Compute, Float, Stored};
use crate::reduction::fold::GRAIN;

type Op<T> = <T as Stored>::Compute;

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
                fold::<I, _, _, _>([x], Op::<T>::ZERO, |[v]| v.up(), |a, b| a + b) / count
            };
            let square = |[v]: [T; 1]| (v.up() - m) * (v.up() - m);
            let v = fold::<I, _, _, _>([x], Op::<T>::ZERO, square, |a, b| a + b) / count;
            let rstd = Op::<T>::ONE / (v + Op::<T>::of(self.eps)).sqrt();
            if !RMS {
                self.mean[r] = m;
            }
            self.rstd[r] = rstd;
            // the next row is on its way while this one's results wait for their places
            prefetch_row(x.as_ptr().wrapping_add(n), n);
            match (self.a.gamma, self.a.beta) {
                (Some(g), Some(b)) => {
                    for (((y, x), g), b) in y.iter_mut().zip(x).zip(g).zip(b) {
                        *y = T::down((x.up() - m) * rstd * g.up() + b.up());
                    }
                }
                (Some(g), None) => {
                    for ((y, x), g) in y.iter_mut().zip(x).zip(g) {
                        *y = T::down((x.up() - m) * rstd * g.up());
                    }
                }
                (None, Some(b)) => {
                    for ((y, x), b) in y.iter_mut().zip(x).zip(b) {
                        *y = T::down((x.up() - m) * rstd + b.up());
                    }
                }
                (None, None) => {
                    for (y, x) in y.iter_mut().zip(x) {
                        *y = T::down((x.up() - m) * rstd + Op::<T>::ZERO);
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
    assert!(x.len() == span::product([rows, n]) && y.len() == x.len(), "norm: a slice has the wrong length");
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
    let (y, mean, rstd) = (SharedMut::new(y), SharedMut::new(mean), SharedMut::new(rstd));
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
        let ones = filled(T::from_f64(1.0), if self.gamma.is_none() { n } else { 0 });
        let g = &self.gamma.unwrap_or(&ones)[..n];
        for (r, dy) in self.dy.chunks_exact(n).enumerate() {
            let x = &self.x[r * n..][..n];
            let (m, rs) = (if RMS { zero } else { self.mean[r] }, self.rstd[r]);
            let hat = |v: T| (v.up() - m) * rs;
            let sums = if self.dx.is_empty() {
                [zero; 2]
            } else {
                let products = |[d, g, x]: [T; 3]| {
                    let up = d.up() * g.up();
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
                        *dx = T::down((d.up() * g.up() - a - hat(*x) * b) * rs);
                    }
                }
                if !self.dgamma.is_empty() {
                    let d = &mut self.dgamma[at.clone()];
                    for ((sum, d), x) in d.iter_mut().zip(dy).zip(x) {
                        *sum = *sum + d.up() * hat(*x);
                    }
                }
                if !self.dbeta.is_empty() {
                    let d = &mut self.dbeta[at];
                    d.iter_mut().zip(dy).for_each(|(sum, d)| *sum = *sum + d.up());
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
    assert!(x.len() == span::product([rows, n]) && dy.len() == x.len(), "norm: a slice has the wrong length");
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
    let mut gs = filled(zero, if dgamma.is_some() { groups * n } else { 0 });
    let mut bs = filled(zero, if dbeta.is_some() { groups * n } else { 0 });
    {
        let mut none = [];
        let dx = SharedMut::new(dx.unwrap_or(&mut none));
        let (gp, bp) = (SharedMut::new(&mut gs), SharedMut::new(&mut bs));
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
            let mut sums = filled(zero, n);
            for part in part.chunks_exact(n) {
                sums.iter_mut().zip(part).for_each(|(sum, v)| *sum = *sum + *v);
            }
            out.iter_mut().zip(sums).for_each(|(o, sum)| *o = T::down(sum));
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
