//! LU, Cholesky and QR, and solutions with them.

use super::super::erased::Turned;
use super::super::field::Real;
use super::super::{cholesky as one_cholesky, lu, qr};
use super::Group;
use super::{
    Marks, PANEL, PLACES, Pivots, SIDE, Wide, both, bring, clear, exchange, get, groups, head, job,
    mark_wild, places, product, put_back, reflect, reflect_twice, set, subtract, subtract_all, subtract_rows,
    suits,
};
use crate::engine::SharedMut;
use crate::engine::simd::Vector;
use crate::num::Arith;

/// LU decompositions of `m x n` matrices by columns, a few columns at a time from all those before them.
#[inline(always)]
pub(super) unsafe fn decompose<V: Vector<T: Real>>(
    a: *mut V::T,
    m: usize,
    n: usize,
    pivots: &mut Pivots,
    care: &mut Marks,
) {
    // SAFETY: the caller's promise: the buffer has `m * n` elements, and pivots are rows.
    unsafe {
        for from in (0..n).step_by(PANEL) {
            let wide = PANEL.min(n - from);
            let (panel, steps) = (a.add(from * m * V::N), from.min(m));
            for (k, rows) in pivots[..steps].iter().enumerate() {
                exchange::<V>(panel, m, wide, k, rows, 1);
            }
            for i in (0..steps).step_by(PANEL) {
                let rows = PANEL.min(steps - i);
                let at = panel.add(i * V::N);
                subtract_all::<V>(at, (rows, wide, m), (a.add(i * V::N), m), panel, i);
                for q in i..i + rows {
                    for r in q + 1..i + rows {
                        let l = get::<V>(a, q * m + r);
                        for c in 0..wide {
                            set(panel, c * m + r, l.fnma(get(panel, c * m + q), get(panel, c * m + r)));
                        }
                    }
                }
            }
            if from >= m {
                continue;
            }
            let below = panel.add(steps * V::N);
            subtract_all::<V>(below, (m - steps, wide, m), (a.add(steps * V::N), m), panel, steps);
            for j in from..from + wide {
                let (column, end) = (a.add(j * m * V::N), j.min(m));
                for q in from..end {
                    for r in q + 1..end {
                        let l = get::<V>(a, q * m + r);
                        set(column, r, l.fnma(get(column, q), get(column, r)));
                    }
                }
                if j >= m {
                    continue;
                }
                let x = (column.add(from * V::N).cast_const(), 1);
                subtract::<V>(column.add(j * V::N), m - j, (a.add((from * m + j) * V::N), m), x, j - from);
                let mut most = places::<V>(column, j).map(|v| v.magnitude());
                let mut best = [j as u8; PLACES];
                for i in j + 1..m {
                    let row = places::<V>(column, i);
                    for l in 0..V::N {
                        let more = row[l].magnitude() > most[l];
                        most[l] = if more { row[l].magnitude() } else { most[l] };
                        best[l] = if more { i as u8 } else { best[l] };
                    }
                }
                for l in 0..V::N {
                    // NaN is no pivot either
                    let fine = most[l] >= V::T::SAFE;
                    care[l] |= !fine;
                }
                pivots[j] = best;
                exchange::<V>(a, m, from + wide, j, &best, 1);
                let by = V::splat(V::T::ONE).div(get(column, j));
                for i in j + 1..m {
                    set(column, i, get::<V>(column, i).mul(by));
                }
            }
        }
        mark_wild::<V>(a, m * n, care);
    }
}
/// The inverse without the exchange of columns, from a decomposition: both by columns.
#[inline(always)]
unsafe fn invert<V: Vector<T: Real>>(lu: *const V::T, n: usize, w: *mut V::T) {
    const BLOCK: usize = 8;
    // SAFETY: the caller's promise: both have `n * n` elements.
    unsafe {
        // of U
        for j in 0..n {
            let column = w.add(j * n * V::N);
            for i in 0..n {
                set(column, i, V::splat(V::T::ZERO));
            }
            let by = V::splat(V::T::ONE).div(get(lu, j * n + j));
            for i in (0..j).step_by(BLOCK) {
                let x = (lu.add((j * n + i) * V::N), 1);
                subtract::<V>(
                    column.add(i * V::N),
                    BLOCK.min(j - i),
                    (w.add((i * n + i) * V::N), n),
                    x,
                    j - i,
                );
            }
            for i in 0..j {
                set(column, i, get::<V>(column, i).mul(by));
            }
            set(column, j, by);
        }
        // times that of L from the right
        for j in (0..n).rev() {
            let x = (lu.add((j * n + j + 1) * V::N), 1);
            subtract::<V>(w.add(j * n * V::N), n, (w.add((j + 1) * n * V::N), n), x, n - 1 - j);
        }
    }
}
/// Solves with a triangle in place: `n` rows of `k` elements in `y`. Its element `(i, q)` stands at `i * row + q * column`.
#[inline(always)]
pub(super) unsafe fn substitute<V: Vector>(
    a: *const V::T,
    (row, column): (usize, usize),
    (upper, unit): (bool, bool),
    y: *mut V::T,
    (n, k): (usize, usize),
) {
    // SAFETY: the caller's promise.
    unsafe {
        for step in 0..n {
            let i = if upper { n - 1 - step } else { step };
            let (from, count) = if upper { (i + 1, n - 1 - i) } else { (0, i) };
            let x = (a.add((i * row + from * column) * V::N), column);
            subtract::<V>(y.add(i * k * V::N), k, (y.add(from * k * V::N), k), x, count);
            if !unit {
                let d = get::<V>(a, i * (row + column));
                for c in i * k..(i + 1) * k {
                    set(y, c, get::<V>(y, c).div(d));
                }
            }
        }
    }
}
/// Cholesky decompositions L by columns, zeros above; a few columns at a time from all those before them.
#[inline(always)]
pub(super) unsafe fn lower<V: Vector<T: Real>>(a: *mut V::T, n: usize, care: &mut Marks) {
    // SAFETY: the caller's promise: the buffer has `n * n` elements.
    unsafe {
        for from in (0..n).step_by(PANEL) {
            let wide = PANEL.min(n - from);
            let panel = a.add((from * n + from) * V::N);
            // what the columns take off each other stands in rows of those before
            let left = a.add(from * V::N);
            subtract_rows::<V>(panel, (n - from, wide, n), (left, n), left, from);
            for i in from..from + wide {
                let column = a.add(i * n * V::N);
                let l = a.add((from * n + i) * V::N);
                subtract::<V>(column.add(i * V::N), n - i, (l, n), (l, n), i - from);
                let d = places::<V>(column, i);
                for l in 0..V::N {
                    let positive = d[l] > V::T::ZERO;
                    care[l] |= !positive;
                }
                let root = get::<V>(column, i).sqrt();
                let by = V::splat(V::T::ONE).div(root);
                set(column, i, root);
                for j in i + 1..n {
                    set(column, j, get::<V>(column, j).mul(by));
                }
            }
        }
        for i in 1..n {
            clear::<V>(a.add(i * n * V::N), i);
        }
        mark_wild::<V>(a, n * n, care);
    }
}
/// QR decompositions of `m x n` matrices by columns: R above, reflectors below, their factors in `tau`. A few columns at a time
/// from all those before them.
#[inline(always)]
pub(super) unsafe fn reflectors<V: Vector<T: Wide>>(
    a: *mut V::T,
    m: usize,
    n: usize,
    tau: *mut V::T,
    care: &mut Marks,
) {
    // SAFETY: the caller's promise: `a` has `m * n` elements, `tau` the smaller side's number.
    unsafe {
        let (k, zero) = (m.min(n), V::splat(V::T::ZERO));
        // of R what stands in the way of reflectors that go two by two: the diagonal, and what is above it in the second
        let (mut diagonal, mut above) = ([zero; SIDE], [zero; SIDE / 2]);
        let mut products = [zero; SIDE / 2];
        let pair = |j: usize| (a.add((j * m + j) * V::N), a.add(((j + 1) * m + j) * V::N));
        for from in (0..n).step_by(PANEL) {
            let wide = PANEL.min(n - from);
            let panel = a.add(from * m * V::N);
            for j in (0..from.min(k)).step_by(2) {
                let rows = panel.add(j * V::N);
                let ((v, u), t) = (pair(j), get::<V>(tau, j));
                if j + 1 == k {
                    reflect::<V>(v, t, rows, m, wide, m - j);
                } else {
                    let pair = [(v.cast_const(), t), (u.cast_const(), get(tau, j + 1))];
                    reflect_twice::<V>(pair, products[j / 2], rows, m, wide, m - j);
                }
            }
            let end = (from + wide).min(k);
            for j in (from..end).step_by(2) {
                let (column, rest, left) = (a.add((j * m + j) * V::N), m - j, from + wide - j - 1);
                let (t, beta) = head::<V>(column, rest, care);
                set(tau, j, t);
                diagonal[j] = beta;
                let next = column.add(m * V::N);
                if j + 1 == k {
                    reflect::<V>(column, t, next, m, left, rest);
                    continue;
                }
                reflect::<V>(column, t, next, m, 1, rest);
                let (s, gamma) = head::<V>(next.add(V::N), rest - 1, care);
                set(tau, j + 1, s);
                (diagonal[j + 1], above[j / 2]) = (gamma, get(next, 0));
                set(next, 0, zero);
                let pair = [(column.cast_const(), t), (next.cast_const(), s)];
                products[j / 2] = both::<V>(pair, rest);
                reflect_twice::<V>(pair, products[j / 2], next.add(m * V::N), m, left - 1, rest);
            }
        }
        for j in 0..k {
            set(a, j * m + j, diagonal[j]);
            if j % 2 == 1 {
                set(a, j * m + j - 1, above[j / 2]);
            }
        }
        mark_wild::<V>(a, m * n, care);
    }
}

/// LU decompositions in place of `m x n` matrices by columns; rows of `pivots` (from 1) for each, and the first zero pivot.
pub(in super::super) fn lu_factor<T: Wide>(
    a: &mut [T],
    m: usize,
    n: usize,
    pivots: &mut [i32],
    info: &mut [i32],
) {
    let (batch, k, each) = (info.len(), m.min(n), m * n);
    assert!(suits(batch, m, n) && a.len() == batch * each && pivots.len() == batch * k);
    let (a, pivots, info) = (SharedMut::new(a), SharedMut::new(pivots), SharedMut::new(info));
    groups::<T>(batch, m * n * k, each, |g, buffer| {
        let (mut rows, mut care): (Pivots, Marks) = ([[0; PLACES]; SIDE], [false; PLACES]);
        let (all, buffer) = (a.ptr(), buffer.as_mut_ptr());
        let (rows_of, care_of) = (&mut rows, &mut care);
        job!(g.level, T, V, (all: *mut T, buffer: *mut T, g: Group, m: usize, n: usize, rows_of: &'a mut Pivots, care_of: &'a mut Marks) {
            bring::<V>(all, m * n, g, buffer);
            decompose::<V>(buffer, m, n, rows_of, care_of);
            put_back::<V>(buffer, all, m * n, g, care_of);
        });
        for l in 0..g.count {
            let i = g.at(l);
            // SAFETY: each matrix is in one group, so its parts are one task's.
            let (a, p, info) = unsafe { (a.slice(i * each, each), pivots.slice(i * k, k), info.slice(i, 1)) };
            if care[l] {
                let mut rows = [0; SIDE];
                info[0] = lu::factor(a, m, m, n, &mut rows[..k], true);
                p.iter_mut().zip(rows).for_each(|(p, r)| *p = r as i32 + 1);
            } else {
                info[0] = 0;
                p.iter_mut().zip(&rows).for_each(|(p, r)| *p = i32::from(r[l]) + 1);
            }
        }
    });
}
/// Inverses, by columns, of the matrices `a`, which are used up; the first zero pivot of each, or 0.
pub(in super::super) fn inverse<T: Wide>(a: &mut [T], n: usize, out: &mut [T], info: &mut [i32]) {
    let (batch, each) = (info.len(), n * n);
    assert!(suits(batch, n, n) && a.len() == batch * each && out.len() == batch * each);
    let (a, out, info) = (SharedMut::new(a), SharedMut::new(out), SharedMut::new(info));
    groups::<T>(batch, 2 * n * n * n, 2 * each, |g, buffer| {
        let (mut rows, mut care): (Pivots, Marks) = ([[0; PLACES]; SIDE], [false; PLACES]);
        let (from, to, buffer) = (a.ptr(), out.ptr(), buffer.as_mut_ptr());
        let (rows_of, care_of) = (&mut rows, &mut care);
        job!(g.level, T, V, (from: *mut T, to: *mut T, buffer: *mut T, g: Group, n: usize, rows_of: &'a mut Pivots, care_of: &'a mut Marks) {
            let w = buffer.add(n * n * V::N);
            bring::<V>(from, n * n, g, buffer);
            decompose::<V>(buffer, n, n, rows_of, care_of);
            invert::<V>(buffer, n, w);
            mark_wild::<V>(w, n * n, care_of);
            put_back::<V>(w, to, n * n, g, care_of);
        });
        for l in 0..g.count {
            let i = g.at(l);
            // SAFETY: as in `lu_factor`.
            let (a, out, info) =
                unsafe { (a.slice(i * each, each), out.slice(i * each, each), info.slice(i, 1)) };
            if care[l] {
                let mut rows = [0; SIDE];
                info[0] = lu::factor(a, n, n, n, &mut rows[..n], true);
                lu::inverse(a, n, &rows[..n], out);
                continue;
            }
            info[0] = 0;
            for (j, row) in rows[..n].iter().enumerate().rev() {
                let row = row[l] as usize;
                if row != j {
                    let (low, high) = out.split_at_mut(row * n);
                    low[j * n..][..n].swap_with_slice(&mut high[..n]);
                }
            }
        }
    });
}
/// Solves by LU decompositions, in place: `B` has `n` rows of `k` elements each. Pivots are rows from 1.
pub(in super::super) fn lu_solve<T: Wide>(
    lu: &[T],
    n: usize,
    pivots: &[i32],
    b: &mut [T],
    k: usize,
    batch: usize,
    turned: Turned,
) {
    let each = n * n;
    assert!(suits(batch, n, n) && lu.len() == batch * each && b.len() == batch * n * k);
    assert!(pivots.len() == batch * n && pivots.iter().all(|p| (1..=n as i32).contains(p)));
    let b = SharedMut::new(b);
    let transposed = matches!(turned, Turned::Transposed | Turned::Adjoint);
    groups::<T>(batch, 2 * n * n * k, each + n * k, |g, buffer| {
        let mut rows: Pivots = [[0; PLACES]; SIDE];
        for l in 0..PLACES {
            let p = &pivots[g.at(l) * n..][..n];
            rows.iter_mut().zip(p).for_each(|(r, p)| r[l] = (*p - 1) as u8);
        }
        let mut care = [false; PLACES];
        let (from, to, buffer) = (lu.as_ptr(), b.ptr(), buffer.as_mut_ptr());
        let (rows_of, care_of) = (&rows, &mut care);
        job!(g.level, T, V, (from: *const T, to: *mut T, buffer: *mut T, g: Group, n: usize, k: usize, transposed: bool, rows_of: &'a Pivots, care_of: &'a mut Marks) {
            let y = buffer.add(n * n * V::N);
            bring::<V>(from, n * n, g, buffer);
            bring::<V>(to, n * k, g, y);
            if transposed {
                substitute::<V>(buffer, (n, 1), (false, false), y, (n, k));
                substitute::<V>(buffer, (n, 1), (true, true), y, (n, k));
                for (i, rows) in rows_of[..n].iter().enumerate().rev() {
                    exchange::<V>(y, 1, k, i, rows, k);
                }
            } else {
                for (i, rows) in rows_of[..n].iter().enumerate() {
                    exchange::<V>(y, 1, k, i, rows, k);
                }
                substitute::<V>(buffer, (1, n), (false, true), y, (n, k));
                substitute::<V>(buffer, (1, n), (true, false), y, (n, k));
            }
            mark_wild::<V>(y, n * k, care_of);
            put_back::<V>(y, to, n * k, g, care_of);
        });
        for l in (0..g.count).filter(|l| care[*l]) {
            let i = g.at(l);
            let mut order = [0; SIDE];
            order.iter_mut().zip(&rows).for_each(|(o, r)| *o = r[l] as usize);
            // SAFETY: as in `lu_factor`.
            let b = unsafe { b.slice(i * n * k, n * k) };
            lu::solve(&lu[i * each..][..each], n, n, &order[..n], b, k, transposed, false);
        }
    });
}
/// Cholesky decompositions as in [`super::erased::cholesky`].
pub(in super::super) fn cholesky<T: Wide>(a: &mut [T], n: usize, info: &mut [i32]) {
    let (batch, each) = (info.len(), n * n);
    assert!(suits(batch, n, n) && a.len() == batch * each);
    let (a, info) = (SharedMut::new(a), SharedMut::new(info));
    groups::<T>(batch, n * n * n / 3, each, |g, buffer| {
        let mut care = [false; PLACES];
        let (all, buffer, care_of) = (a.ptr(), buffer.as_mut_ptr(), &mut care);
        job!(g.level, T, V, (all: *mut T, buffer: *mut T, g: Group, n: usize, care_of: &'a mut Marks) {
            bring::<V>(all, n * n, g, buffer);
            lower::<V>(buffer, n, care_of);
            put_back::<V>(buffer, all, n * n, g, care_of);
        });
        for l in 0..g.count {
            let i = g.at(l);
            // SAFETY: as in `lu_factor`.
            let (a, info) = unsafe { (a.slice(i * each, each), info.slice(i, 1)) };
            info[0] = if care[l] { one_cholesky::whole(a, n) } else { 0 };
        }
    });
}
/// QR decompositions in place of `m x n` matrices by columns, reflectors below R; their factors.
pub(in super::super) fn geqrf<T: Wide>(a: &mut [T], m: usize, n: usize, tau: &mut [T], batch: usize) {
    let (each, k) = (m * n, m.min(n));
    assert!(suits(batch, m, n) && a.len() == batch * each && tau.len() == batch * k);
    let (a, tau) = (SharedMut::new(a), SharedMut::new(tau));
    groups::<T>(batch, 2 * m * n * k, each + k, |g, buffer| {
        let mut care = [false; PLACES];
        let (all, factors, buffer, care_of) = (a.ptr(), tau.ptr(), buffer.as_mut_ptr(), &mut care);
        job!(g.level, T, V, (all: *mut T, factors: *mut T, buffer: *mut T, g: Group, m: usize, n: usize, care_of: &'a mut Marks) {
            let t = buffer.add(m * n * V::N);
            bring::<V>(all, m * n, g, buffer);
            reflectors::<V>(buffer, m, n, t, care_of);
            put_back::<V>(buffer, all, m * n, g, care_of);
            put_back::<V>(t, factors, m.min(n), g, care_of);
        });
        for l in (0..g.count).filter(|l| care[*l]) {
            let i = g.at(l);
            // SAFETY: as in `lu_factor`.
            let (a, tau) = unsafe { (a.slice(i * each, each), tau.slice(i * k, k)) };
            qr::factor(a, m, m, n, tau);
        }
    });
}
/// The first `n` columns of products of reflectors: `a` has `m` rows and `columns` columns, `k` of which hold reflectors.
pub(in super::super) fn orgqr<T: Wide>(
    a: &[T],
    [m, columns, k, n]: [usize; 4],
    tau: &[T],
    out: &mut [T],
    batch: usize,
) {
    let each = m * columns;
    assert!(suits(batch, m, columns.max(n)) && k <= columns.min(n).min(m));
    assert!(a.len() == batch * each && tau.len() == batch * k && out.len() == batch * m * n);
    let out = SharedMut::new(out);
    groups::<T>(batch, 2 * m * n * k, each + k + m * n, |g, buffer| {
        let (from, factors, to, buffer) = (a.as_ptr(), tau.as_ptr(), out.ptr(), buffer.as_mut_ptr());
        let sizes = [m, columns, k, n];
        job!(g.level, T, V, (from: *const T, factors: *const T, to: *mut T, buffer: *mut T, g: Group, sizes: [usize; 4]) {
            let [m, columns, k, n] = sizes;
            let t = buffer.add(m * columns * V::N);
            let q = t.add(k * V::N);
            bring::<V>(from, m * columns, g, buffer);
            bring::<V>(factors, k, g, t);
            clear::<V>(q, m * n);
            product::<V>((buffer, m), t, [m, k, n], (q, m));
            put_back::<V>(q, to, m * n, g, &[false; PLACES]);
        });
    });
}
