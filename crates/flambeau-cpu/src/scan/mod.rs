//! Running sums, products and extremes along `n` of a `[outer, n, inner]` view. Each row is scanned in order, in the
//! accumulator type, so results do not depend on threads. Outputs are contiguous `[outer, n, inner]`.

pub mod erased;

use crate::engine::isa::{self, Isa, Job, Level, Portable};
use crate::engine::parallel::parallel_for;
use crate::engine::{SharedMut, span};
use crate::num::real::{Cx, Fl, Real};
use crate::num::{Arith, Compute, Float, Num, Order};
use crate::pointwise::logaddexp_complex;
use crate::reduction::fold::{GRAIN, Geo};
use num_complex::Complex;
use std::ops::Range;

/// Columns that are scanned side by side.
const W: usize = 64;
/// Rows that are: each step of a row waits for the one before, so that several take little longer than one.
const SIDE: usize = 4;

struct Scan<'a, T, A, O, S> {
    x: &'a [T],
    g: Geo,
    out: &'a SharedMut<'a, O>,
    init: A,
    step: &'a S,
    tiles: Range<usize>,
}
impl<T: Copy, A: Copy, O: Copy, S: Fn(A, T, usize) -> (A, O)> Job for Scan<'_, T, A, O, S> {
    type Out = ();
    /// A row is one chain of steps, which no set makes shorter, and columns wait for memory.
    const BEST: Level = Level::Portable;
    #[inline(always)]
    fn run<I: Isa>(self) {
        let Scan { x, g, out, init, step, mut tiles } = self;
        let per = g.inner.div_ceil(W);
        let (ns, is) = (g.ns as usize, g.is as usize);
        while g.inner == 1 && ns == 1 && tiles.len() >= SIDE {
            let first = tiles.start;
            tiles.start += SIDE;
            let row = |r: usize| &x[(first + r) * g.os as usize..][..g.n];
            // SAFETY: each row is handled by one task.
            let to = |r: usize| unsafe { &mut out.slice((first + r) * g.n, g.n)[..g.n] };
            let (rows, outs) = ([row(0), row(1), row(2), row(3)], [to(0), to(1), to(2), to(3)]);
            let mut a = [init; SIDE];
            for k in 0..g.n {
                // all are read before one is written: a row's place may look like another's to the machine
                let v = [rows[0][k], rows[1][k], rows[2][k], rows[3][k]];
                for r in 0..SIDE {
                    (a[r], outs[r][k]) = step(a[r], v[r], k);
                }
            }
        }
        for t in tiles {
            let (o, i) = (t / per, t % per * W);
            let w = W.min(g.inner - i);
            let x = &x[o * g.os as usize + i * is..];
            let at = o * g.n * g.inner + i;
            if w == 1 && g.inner == 1 {
                // SAFETY: each row is handled by one task.
                let out = unsafe { out.slice(at, g.n) };
                let mut a = init;
                for (k, out) in out.iter_mut().enumerate() {
                    (a, *out) = step(a, x[k * ns], k);
                }
                continue;
            }
            let mut a = [init; W];
            for k in 0..g.n {
                // SAFETY: tiles are disjoint, and each is handled by one task.
                let out = unsafe { out.slice(at + k * g.inner, w) };
                let x = &x[k * ns..];
                if is == 1 {
                    let x = &x[..w];
                    for j in 0..w {
                        (a[j], out[j]) = step(a[j], x[j], k);
                    }
                } else {
                    for j in 0..w {
                        (a[j], out[j]) = step(a[j], x[j * is], k);
                    }
                }
            }
        }
    }
}

/// Scans each row: `step(state, element, k)` gives the next state and the output at `k`. `out` is contiguous.
pub fn scan<T: Copy + Sync, A: Copy + Sync, O: Copy + Send>(
    x: &[T],
    g: Geo,
    out: &mut [O],
    init: A,
    step: impl Fn(A, T, usize) -> (A, O) + Sync,
) {
    g.check(x.len(), g.rows());
    assert_eq!(out.len(), span::product([g.outer, g.inner, g.n]), "a scan has a wrong number of results");
    if out.is_empty() {
        return;
    }
    let out = SharedMut::new(out);
    let tiles = g.outer * g.inner.div_ceil(W);
    parallel_for(tiles, (GRAIN / (g.n * g.inner.min(W))).max(1), |tiles| {
        isa::run(Scan { x, g, out: &out, init, step: &step, tiles })
    });
}

/// Running sum: halves through f32, integers and bool into wrapping i64.
pub fn cumsum<T: Num>(x: &[T], g: Geo, out: &mut [T::Sum]) {
    scan(
        x,
        g,
        out,
        T::Acc::ZERO,
        #[inline(always)]
        |a, v, _| {
            let a = a.plus(v.wide());
            (a, T::to_sum(a))
        },
    );
}
/// Running product: halves through f32, integers and bool into wrapping i64.
pub fn cumprod<T: Num>(x: &[T], g: Geo, out: &mut [T::Sum]) {
    scan(
        x,
        g,
        out,
        T::Acc::ONE,
        #[inline(always)]
        |a, v, _| {
            let a = a.times(v.wide());
            (a, T::to_sum(a))
        },
    );
}
fn extreme<T: Order>(
    x: &[T],
    g: Geo,
    values: &mut [T],
    indices: &mut [i64],
    replaces: impl Fn(T, T) -> bool + Sync,
) {
    // Two scans, each with one output; the state carries both.
    let step = |a: (T, i64), v: T, k: usize| {
        // Later elements replace equal ones, as in PyTorch.
        if k == 0 || v.nan() || (!a.0.nan() && (replaces(v, a.0) || v == a.0)) { (v, k as i64) } else { a }
    };
    scan(
        x,
        g,
        values,
        (T::LOW, 0),
        #[inline(always)]
        |a, v, k| {
            let a = step(a, v, k);
            (a, a.0)
        },
    );
    scan(
        x,
        g,
        indices,
        (T::LOW, 0),
        #[inline(always)]
        |a, v, k| {
            let a = step(a, v, k);
            (a, a.1)
        },
    );
}
/// Running maximum and the last index where it occurs; once NaN, always NaN.
pub fn cummax<T: Order>(x: &[T], g: Geo, values: &mut [T], indices: &mut [i64]) {
    extreme(
        x,
        g,
        values,
        indices,
        #[inline(always)]
        |a, b| a.beats_max(b),
    );
}
/// Running minimum and the last index where it occurs; once NaN, always NaN.
pub fn cummin<T: Order>(x: &[T], g: Geo, values: &mut [T], indices: &mut [i64]) {
    extreme(
        x,
        g,
        values,
        indices,
        #[inline(always)]
        |a, b| a.beats_min(b),
    );
}
/// `ln` of the running sum of `exp(x)`, without overflow.
pub fn logcumsumexp<T: Float>(x: &[T], g: Geo, out: &mut [T]) {
    scan(x, g, out, T::Compute::LOW, |a, v, _| {
        let v = v.up();
        let (lo, hi) = if a.beats_min(v) { (a, v) } else { (v, a) };
        // Equal infinities would give inf - inf.
        let r = if lo == hi && (hi == T::Compute::LOW || hi == T::Compute::HIGH) || Order::nan(hi) {
            hi
        } else if Order::nan(lo) {
            lo
        } else {
            hi + (lo - hi).exp::<Portable>().log_1p()
        };
        (r, T::down(r))
    });
}
/// [`logcumsumexp`] of complex numbers, in complex128.
pub fn logcumsumexp_complex<T: Copy + Sync + Send + Into<f64>>(
    x: &[Complex<T>],
    g: Geo,
    out: &mut [Complex<T>],
    round: impl Fn(f64) -> T + Sync,
) {
    type V = Fl<f64, Portable>;
    let start = Complex::new(f64::NEG_INFINITY, 0.0);
    scan(x, g, out, start, |a, v, k| {
        let v = Complex::new(v.re.into(), v.im.into());
        let cx = |z: Complex<f64>| Cx::<V> { re: Real::wrap(z.re), im: Real::wrap(z.im) };
        let a = if k == 0 { cx(v) } else { logaddexp_complex(cx(a), cx(v)) };
        let a = Complex::new(a.re.raw(), a.im.raw());
        (a, Complex::new(round(a.re), round(a.im)))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows side by side give what each gives alone, whatever their number and the room between them.
    #[test]
    fn rows_side_by_side() {
        let n = 37;
        for (rows, room) in [(1, 37), (3, 40), (4, 37), (9, 37), (11, 41)] {
            let x: Vec<f32> = (0..rows * room).map(|i| ((i * 7919) % 101) as f32 * 0.37 - 18.0).collect();
            let g = Geo { outer: rows, n, inner: 1, os: room as isize, ns: 1, is: 1 };
            let mut sums = vec![0.0; rows * n];
            cumsum(&x, g, &mut sums);
            let (mut tops, mut at) = (vec![0.0; rows * n], vec![0; rows * n]);
            cummax(&x, g, &mut tops, &mut at);
            for r in 0..rows {
                let (mut sum, mut top) = (0.0f32, (f32::NEG_INFINITY, 0));
                for k in 0..n {
                    let v = x[r * room + k];
                    sum += v;
                    top = if v >= top.0 { (v, k as i64) } else { top };
                    assert_eq!(sums[r * n + k], sum, "{rows} {r} {k}");
                    assert_eq!((tops[r * n + k], at[r * n + k]), top, "{rows} {r} {k}");
                }
            }
        }
    }
}
