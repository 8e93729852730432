//! LU decomposition with partial pivoting, recursive over columns, and what follows from it. Columns are contiguous.

use super::field::{Field, Real};
use super::lu_ahead;
use super::product::{Steps, Triangle, invert_lower_rows, product, solve_rows, transpose};
use super::vector::axpy;
use crate::engine::SharedMut;
use crate::engine::parallel::parallel_for;
use crate::engine::scratch::with_scratch;
use crate::num::Arith;

/// Columns that are eliminated one by one.
const LEAF: usize = 8;

/// Decomposes an `m x n` matrix in place; `pivots[k]` is the row (from 0) that row `k` was exchanged with. The first step
/// (from 1) whose pivot is zero, or 0.
pub fn factor<T: Field>(
    a: &mut [T],
    ld: usize,
    m: usize,
    n: usize,
    pivots: &mut [usize],
    pivot: bool,
) -> i32 {
    let k = m.min(n);
    if k == 0 {
        return 0;
    }
    if n <= LEAF {
        return leaf(a, ld, m, n, pivots, pivot);
    }
    if share_places::<T>(ld, m, n) {
        return apart(a, ld, m, n, |w, ld| factor(w, ld, m, n, pivots, pivot));
    }
    if lu_ahead::pays(m, n) {
        return lu_ahead::by_panels(a, ld, m, n, pivots, pivot);
    }
    let left = if m < n && m <= n / 2 { m } else { (k / 2).next_multiple_of(LEAF).clamp(1, n - 1) };
    let right = n - left;
    let below = left.min(m);
    let mut info = factor(a, ld, m, left, &mut pivots[..below], pivot);
    let (l, r) = a.split_at_mut(left * ld);
    update(l, ld, m, below, r, right, &pivots[..below]);
    if k > below {
        let later = factor(&mut r[below..], ld, m - below, right, &mut pivots[below..k], pivot);
        if info == 0 && later > 0 {
            info = later + below as i32;
        }
        exchange(&mut l[below..], ld, left, &pivots[below..k]);
        pivots[below..k].iter_mut().for_each(|p| *p += below);
    }
    info
}
/// Bytes of a page. Places of columns that lie so far apart share a few places of the caches.
const PAGE: usize = 4096;
/// Bytes of the largest matrix that is copied: a thread keeps no larger work memory.
const COPIED: usize = 32 << 20;

/// Whether columns of a matrix share their places of the caches, so that a copy with a line between columns is worth it: a fifth of
/// the time of a decomposition of 1024 columns, which exchanges rows and reads blocks across columns.
fn share_places<T>(ld: usize, m: usize, n: usize) -> bool {
    let size = size_of::<T>();
    m.min(n) >= 256 && (ld * size).is_multiple_of(PAGE) && (m * size + 128) * n <= COPIED
}
/// Calls `body` with a copy whose columns share fewer places, and how far they are apart there; what it leaves comes back.
fn apart<T: Field>(
    a: &mut [T],
    ld: usize,
    m: usize,
    n: usize,
    body: impl FnOnce(&mut [T], usize) -> i32,
) -> i32 {
    let line = 64 / size_of::<T>();
    let wide = m.next_multiple_of(line) + line;
    let grain = (1 << 16) / m;
    with_scratch::<T, _>(wide * n, |w| {
        let (from, to) = (&*a, SharedMut::new(&mut *w));
        parallel_for(n, grain, |columns| {
            for j in columns {
                // SAFETY: each column is one task's.
                unsafe { to.slice(j * wide, m) }.copy_from_slice(&from[j * ld..j * ld + m]);
            }
        });
        let info = body(w, wide);
        let (from, to) = (&*w, SharedMut::new(a));
        parallel_for(n, grain, |columns| {
            for j in columns {
                // SAFETY: as above.
                unsafe { to.slice(j * ld, m) }.copy_from_slice(&from[j * wide..j * wide + m]);
            }
        });
        info
    })
}

/// Brings the `right` columns `r` up to date with the `below` columns before them, which are decomposed: their rows are exchanged, the first
/// `below` of them solved, the others reduced.
pub(super) fn update<T: Field>(
    l: &[T],
    ld: usize,
    m: usize,
    below: usize,
    r: &mut [T],
    right: usize,
    pivots: &[usize],
) {
    exchange(r, ld, right, pivots);
    with_scratch::<T, _>(below * right, |w| {
        // rows of the upper right part side by side
        for i0 in (0..below).step_by(16) {
            for j in 0..right {
                for i in i0..(i0 + 16).min(below) {
                    w[i * right + j] = r[j * ld + i];
                }
            }
        }
        let t = Triangle { a: l, steps: Steps::columns(ld), upper: false, conj: false, unit: true };
        solve_rows(t, below, w, right, right);
        transpose(w, right, right, below, r, ld);
        if m > below {
            product(
                [m - below, right, below],
                -T::ONE,
                (&l[below..], Steps::columns(ld)),
                (w, Steps::rows(right)),
                T::ONE,
                (&mut r[below..], Steps::columns(ld)),
            );
        }
    });
}
/// Exchanges rows `k` and `pivots[k]` of `n` columns, in order.
pub(super) fn exchange<T: Copy>(a: &mut [T], ld: usize, n: usize, pivots: &[usize]) {
    for j in 0..n {
        let c = &mut a[j * ld..];
        for (k, p) in pivots.iter().enumerate() {
            c.swap(k, *p);
        }
    }
}
fn leaf<T: Field>(a: &mut [T], ld: usize, m: usize, n: usize, pivots: &mut [usize], pivot: bool) -> i32 {
    let mut info = 0;
    for k in 0..m.min(n) {
        let column = &a[k * ld..k * ld + m];
        let mut best = k;
        if pivot {
            let mut most = column[k].weight();
            for (i, v) in column.iter().enumerate().skip(k + 1) {
                let w = v.weight();
                if w > most {
                    (best, most) = (i, w);
                }
            }
        }
        pivots[k] = best;
        let p = column[best];
        if p == T::ZERO {
            if info == 0 {
                info = k as i32 + 1;
            }
        } else {
            if best != k {
                for j in 0..n {
                    a.swap(j * ld + k, j * ld + best);
                }
            }
            let column = &mut a[k * ld + k + 1..k * ld + m];
            if p.size() >= T::Real::SAFE {
                let r = T::ONE.over(p);
                column.iter_mut().for_each(|v| *v = *v * r);
            } else {
                column.iter_mut().for_each(|v| *v = v.over(p));
            }
        }
        if k + 1 < m {
            for j in k + 1..n {
                let (low, high) = a.split_at_mut(j * ld);
                let f = high[k];
                if f != T::ZERO {
                    axpy(-f, &low[k * ld + k + 1..k * ld + m], &mut high[k + 1..m]);
                }
            }
        }
    }
    info
}

/// Solves with a decomposition: `B` has `n` rows of `k` elements. `transposed`: with `A^T`; `conj` besides: with `A^H`.
pub fn solve<T: Field>(
    lu: &[T],
    ld: usize,
    n: usize,
    pivots: &[usize],
    b: &mut [T],
    k: usize,
    transposed: bool,
    conj: bool,
) {
    let swap = |b: &mut [T], i: usize, p: usize| {
        if i != p {
            let (low, high) = b.split_at_mut(i.max(p) * k);
            low[i.min(p) * k..][..k].swap_with_slice(&mut high[..k]);
        }
    };
    let steps = Steps::columns(ld);
    let lower = Triangle { a: lu, steps, upper: false, conj, unit: true };
    let upper = Triangle { a: lu, steps, upper: true, conj, unit: false };
    if transposed {
        solve_rows(Triangle { steps: steps.t(), upper: false, ..upper }, n, b, k, k);
        solve_rows(Triangle { steps: steps.t(), upper: true, ..lower }, n, b, k, k);
        for (i, p) in pivots.iter().enumerate().rev() {
            swap(b, i, *p);
        }
        return;
    }
    for (i, p) in pivots.iter().enumerate() {
        swap(b, i, *p);
    }
    solve_rows(Triangle { conj: false, ..lower }, n, b, k, k);
    solve_rows(Triangle { conj: false, ..upper }, n, b, k, k);
}

/// The inverse by columns, from a decomposition by columns.
pub fn inverse<T: Field>(lu: &[T], n: usize, pivots: &[usize], out: &mut [T]) {
    // by rows, the solution of `A^T X = 1` is the inverse by columns
    out.fill(T::ZERO);
    for i in 0..n {
        out[i * n + i] = T::ONE;
    }
    let steps = Steps::columns(n).t();
    let first = Triangle { a: lu, steps, upper: false, conj: false, unit: false };
    invert_lower_rows(first, n, out, n);
    solve_rows(Triangle { upper: true, unit: true, ..first }, n, out, n, n);
    for (i, p) in pivots.iter().enumerate().rev() {
        if i != *p {
            let (low, high) = out.split_at_mut(i.max(*p) * n);
            low[i.min(*p) * n..][..n].swap_with_slice(&mut high[..n]);
        }
    }
}

/// Sign (or direction) and logarithm of the magnitude of the determinant.
pub fn slogdet<T: Field>(lu: &[T], n: usize, pivots: &[usize]) -> (T, T::Real) {
    let swapped = pivots.iter().enumerate().filter(|(k, s)| k != *s).count();
    let (mut sign, mut log) = (T::ONE, 0.0);
    for i in 0..n {
        let d = lu[i * n + i];
        let m = d.size();
        log += m.wide().ln();
        // NaN has no direction, and PyTorch's sign of it is 0
        sign = if !T::COMPLEX && m > T::Real::ZERO {
            sign.scale(T::Real::ONE.with_sign(d.re()))
        } else if m > T::Real::ZERO && m.finite_real() {
            sign * d.scale(T::Real::ONE / m)
        } else {
            T::ZERO
        };
    }
    // a product, which leaves no negative zeros
    (if swapped % 2 == 0 { sign } else { sign * T::real(-T::Real::ONE) }, T::Real::of(log))
}
