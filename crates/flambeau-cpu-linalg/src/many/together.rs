//! Decompositions with what follows from them, from one order of matrices in memory to another: a group stays in its buffer.

use super::super::{cholesky as one_cholesky, lu, product::transpose, qr as one_qr};
use super::factor::{decompose, lower, reflectors, substitute};
use super::{
    Group, Marks, Order, PLACES, Pivots, SIDE, Wide, bring, bring_in, clear, exchange, groups, job,
    mark_wild, product, put_back, put_in, suits, turned,
};
use crate::engine::SharedMut;
use crate::engine::room::{collected, filled};
use crate::engine::simd::Vector;

/// One matrix by columns, from one that lies by rows or by columns.
fn by_columns<T: Wide>(a: &[T], by_rows: bool, m: usize, n: usize, to: &mut [T]) {
    if by_rows { transpose(a, n, n, m, to, m) } else { to.copy_from_slice(a) }
}

/// What [`solve`] writes.
pub(in super::super) struct Solved<'a, T> {
    /// Decompositions by columns.
    pub lu: &'a mut [T],
    /// Rows that were exchanged, from 1.
    pub pivots: &'a mut [i32],
    /// The first zero pivot of each, or 0.
    pub info: &'a mut [i32],
    /// Solutions by columns.
    pub x: &'a mut [T],
}
/// The most right-hand sides that [`solve`] takes.
pub(in super::super) const SOLVED: usize = SIDE;

/// Solves `A X = B`, `n` rows of `k` elements in each B, and gives the decompositions too.
pub(in super::super) fn solve<T: Wide>(a: &[T], by_rows: bool, n: usize, b: &[T], k: usize, to: Solved<T>) {
    let (batch, each, some) = (to.info.len(), n * n, n * k);
    assert!(suits(batch, n, n) && (1..=SOLVED).contains(&k));
    assert!(a.len() == batch * each && b.len() == batch * some && to.lu.len() == a.len());
    assert!(to.x.len() == b.len() && to.pivots.len() == batch * n);
    let orders = (by_rows.then(|| turned(n, n)), turned(k, n));
    let order_a = orders.0.as_deref().map(|places| Order { places, row: n });
    let order_x = Some(Order { places: &orders.1, row: n });
    let (lu_, pivots) = (SharedMut::new(to.lu), SharedMut::new(to.pivots));
    let (info, x) = (SharedMut::new(to.info), SharedMut::new(to.x));
    groups::<T>(batch, each * n + 2 * n * some, each + some, |g, buffer| {
        let (mut rows, mut care): (Pivots, Marks) = ([[0; PLACES]; SIDE], [false; PLACES]);
        let mut late = care;
        let (from, right, buffer) = (a.as_ptr(), b.as_ptr(), buffer.as_mut_ptr());
        let (lu_to, x_to) = (lu_.ptr(), x.ptr());
        let (rows_of, care_of, late_of) = (&mut rows, &mut care, &mut late);
        job!(g.level, T, V, (from: *const T, right: *const T, buffer: *mut T, lu_to: *mut T, x_to: *mut T, g: Group, n: usize, k: usize, order_a: Option<Order<'a>>, order_x: Option<Order<'a>>, rows_of: &'a mut Pivots, care_of: &'a mut Marks, late_of: &'a mut Marks) {
            let y = buffer.add(n * n * V::N);
            bring_in::<V>(from, n * n, g, order_a, buffer);
            decompose::<V>(buffer, n, n, rows_of, care_of);
            put_back::<V>(buffer, lu_to, n * n, g, care_of);
            bring::<V>(right, n * k, g, y);
            for (i, rows) in rows_of[..n].iter().enumerate() {
                exchange::<V>(y, 1, k, i, rows, k);
            }
            substitute::<V>(buffer, (1, n), (false, true), y, (n, k));
            substitute::<V>(buffer, (1, n), (true, false), y, (n, k));
            *late_of = *care_of;
            mark_wild::<V>(y, n * k, late_of);
            put_in::<V>(y, x_to, n * k, g, order_x, late_of);
        });
        for l in 0..g.count {
            let i = g.at(l);
            // SAFETY: each matrix is in one group, so its parts are one task's.
            let (lu_, x) = unsafe { (lu_.slice(i * each, each), x.slice(i * some, some)) };
            // SAFETY: as above.
            let (p, info) = unsafe { (pivots.slice(i * n, n), info.slice(i, 1)) };
            let mut order: [usize; SIDE] = [0; SIDE];
            let order = &mut order[..n];
            info[0] = 0;
            if care[l] {
                by_columns(&a[i * each..][..each], by_rows, n, n, lu_);
                info[0] = lu::factor(lu_, n, n, n, order, true);
            } else {
                order.iter_mut().zip(&rows).for_each(|(o, r)| *o = r[l] as usize);
            }
            p.iter_mut().zip(&*order).for_each(|(p, o)| *p = *o as i32 + 1);
            if late[l] {
                let mut y = collected(b[i * some..][..some].iter().copied());
                lu::solve(lu_, n, n, order, &mut y, k, false, false);
                by_columns(&y, true, n, k, x);
            }
        }
    });
}

/// Cholesky decompositions by columns of matrices whose lower half counts, zeros above; as in [`super::super::erased::cholesky`].
pub(in super::super) fn cholesky_of<T: Wide>(
    a: &[T],
    by_rows: bool,
    n: usize,
    l: &mut [T],
    info: &mut [i32],
) {
    let (batch, each) = (info.len(), n * n);
    assert!(suits(batch, n, n) && a.len() == batch * each && l.len() == a.len());
    let order = by_rows.then(|| turned(n, n));
    let order = order.as_deref().map(|places| Order { places, row: n });
    let (to, info) = (SharedMut::new(l), SharedMut::new(info));
    groups::<T>(batch, n * n * n / 3, each, |g, buffer| {
        let mut care = [false; PLACES];
        let (from, all, buffer, care_of) = (a.as_ptr(), to.ptr(), buffer.as_mut_ptr(), &mut care);
        job!(g.level, T, V, (from: *const T, all: *mut T, buffer: *mut T, g: Group, n: usize, order: Option<Order<'a>>, care_of: &'a mut Marks) {
            bring_in::<V>(from, n * n, g, order, buffer);
            lower::<V>(buffer, n, care_of);
            put_back::<V>(buffer, all, n * n, g, care_of);
        });
        for l in 0..g.count {
            let i = g.at(l);
            // SAFETY: as in `solve`.
            let (to, info) = unsafe { (to.slice(i * each, each), info.slice(i, 1)) };
            info[0] = 0;
            if care[l] {
                by_columns(&a[i * each..][..each], by_rows, n, n, to);
                info[0] = one_cholesky::whole(to, n);
            }
        }
    });
}

/// The first columns of Q, as many as the shorter side, and as many rows of R, both by columns, of `m x n` matrices.
pub(in super::super) fn qr<T: Wide>(
    a: &[T],
    by_rows: bool,
    (m, n): (usize, usize),
    q: &mut [T],
    r: &mut [T],
    batch: usize,
) {
    let (each, k) = (m * n, m.min(n));
    let (left, right) = (m * k, k * n);
    assert!(suits(batch, m, n) && a.len() == batch * each);
    assert!(q.len() == batch * left && r.len() == batch * right);
    let order = by_rows.then(|| turned(m, n));
    let order = order.as_deref().map(|places| Order { places, row: n });
    // below the diagonal stands a zero that all share
    let zero = each + k;
    let upper = collected(
        (0..n).flat_map(|c| (0..k).map(move |r| if r <= c { (c * m + r) as u16 } else { zero as u16 })),
    );
    let upper = Some(Order { places: &upper, row: k * n });
    let (q, r) = (SharedMut::new(q), SharedMut::new(r));
    groups::<T>(batch, 4 * each * k, zero + 1 + left, |g, buffer| {
        let mut care = [false; PLACES];
        let (from, q_to, r_to) = (a.as_ptr(), q.ptr(), r.ptr());
        let (sizes, buffer, care_of) = ([m, n, k], buffer.as_mut_ptr(), &mut care);
        job!(g.level, T, V, (from: *const T, q_to: *mut T, r_to: *mut T, buffer: *mut T, g: Group, sizes: [usize; 3], order: Option<Order<'a>>, upper: Option<Order<'a>>, care_of: &'a mut Marks) {
            let [m, n, k] = sizes;
            let t = buffer.add(m * n * V::N);
            let zero = t.add(k * V::N);
            let q = zero.add(V::N);
            bring_in::<V>(from, m * n, g, order, buffer);
            reflectors::<V>(buffer, m, n, t, care_of);
            clear::<V>(zero, 1 + m * k);
            put_in::<V>(buffer, r_to, k * n, g, upper, care_of);
            product::<V>((buffer, m), t, [m, k, k], (q, m));
            put_back::<V>(q, q_to, m * k, g, care_of);
        });
        for l in (0..g.count).filter(|l| care[*l]) {
            let i = g.at(l);
            // SAFETY: as in `solve`.
            let (q, r) = unsafe { (q.slice(i * left, left), r.slice(i * right, right)) };
            let (mut one, mut tau) = (filled(T::ZERO, each), filled(T::ZERO, k));
            by_columns(&a[i * each..][..each], by_rows, m, n, &mut one);
            one_qr::factor(&mut one, m, m, n, &mut tau);
            for (c, to) in r.chunks_exact_mut(k).enumerate() {
                let above = (c + 1).min(k);
                to[..above].copy_from_slice(&one[c * m..][..above]);
                to[above..].fill(T::ZERO);
            }
            one_qr::generate(&one, m, m, &tau, q, m, k);
        }
    });
}
