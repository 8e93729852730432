//! Singular values and vectors of bidiagonal matrices by divide and conquer (Gu's and Eisenstat's): what lies above a row and
//! what lies below it are solved apart, and that row joins them, by the roots of a rational function between its poles. Nearly
//! all work is products of matrices.

use super::bidiagonal::diagonalise;
use super::field::Real;
use super::halves::{bottom_up, half};
use super::secular::{Columns, Part, deflating, solve, turn};
use super::vector::{Turn, Turns, givens};
use crate::engine::SharedMut;
use crate::engine::room::{collected, filled, room};
use std::ops::Range;

/// Matrices from this size on are divided.
pub const FROM: usize = 41;
/// Parts of at most this size are not divided further.
const LEAST: usize = 28;

/// Columns of a square, `ld` apart.
type Square<'a, R> = (&'a mut [R], usize);

/// Decomposes the upper bidiagonal matrix of diagonal `d` and neighbours `e`, of which the last row has one where there is a
/// column more than rows: `d` becomes the singular values, ascending, and the columns of `u` and `v` their vectors; a last one of
/// `v`, if there is one, has no value. Both hold zeros before. False if a part did not converge.
pub fn divide<R: Real>(d: &mut [f64], e: &[f64], (u, ldu): Square<R>, (v, ldv): Square<R>) -> bool {
    let (n, m) = (d.len(), e.len() + 1);
    if n == 0 {
        return whole(d, e, (u, ldu), (v, ldv));
    }
    let reach = |n: usize, ld: usize| (n - 1) * ld + n;
    assert!(
        u.len() >= reach(n, ldu) && ldu >= n && v.len() >= reach(m, ldv) && ldv >= m,
        "columns of vectors"
    );
    let (d, u, v) = (&SharedMut::new(d), &SharedMut::new(u), &SharedMut::new(v));
    // each has a column more than rows, but for the last, which has as many as the matrix
    let columns = |r: &Range<usize>| if r.end == n { m - r.start } else { r.len() + 1 };
    // SAFETY: no two ranges that are worked on at the same time have rows or columns in common.
    let of = |r: &Range<usize>| unsafe {
        let u = u.slice(r.start * (ldu + 1), reach(r.len(), ldu));
        (d.slice(r.start, r.len()), u, v.slice(r.start * (ldv + 1), reach(columns(r), ldv)))
    };
    let part = |r: Range<usize>| {
        let (d, u, v) = of(&r);
        whole(d, &e[r.start..r.start + columns(&r) - 1], (u, ldu), (v, ldv))
    };
    let join = |r: Range<usize>| {
        let (d, u, v) = of(&r);
        let (half, at) = (r.len() / 2, half(&r));
        let alpha = d[half];
        Merge { d, half, m: columns(&r), u, ldu, v, ldv }.run(alpha, e[at])
    };
    bottom_up(n, LEAST, 1, part, join)
}
/// Of a small matrix, without division.
fn whole<R: Real>(d: &mut [f64], e: &[f64], (u, ldu): Square<R>, (v, ldv): Square<R>) -> bool {
    let (n, m) = (d.len(), e.len() + 1);
    let identity = |n: usize| {
        let mut q = filled(0.0, n * n);
        q.iter_mut().step_by(n + 1).for_each(|v| *v = 1.0);
        q
    };
    let (mut left, mut right) = (identity(n), identity(m));
    let mut e: Vec<f64> = collected(e.iter().copied().chain([0.0]));
    if m > n && n > 0 {
        // the column too many is turned away, which moves the neighbours below the diagonal, and they are turned back
        let (mut at_right, mut at_left) = (Vec::new(), Vec::new());
        for i in 0..n {
            let (c, s, r) = givens(d[i], e[i]);
            (d[i], e[i]) = (r, 0.0);
            if i + 1 < n {
                (e[i], d[i + 1]) = (s * d[i + 1], c * d[i + 1]);
            }
            at_right.push(Turn { at: i, c, s });
        }
        for i in 0..n - 1 {
            let (c, s, r) = givens(d[i], e[i]);
            (d[i], e[i], d[i + 1]) = (r, s * d[i + 1], c * d[i + 1]);
            at_left.push(Turn { at: i, c, s });
        }
        Turns::apply(&mut right, m, m, &at_right);
        Turns::apply(&mut left, n, n, &at_left);
    }
    if n > 0 && !diagonalise::<f64>(d, &mut e[..n], Some(((&mut left, n), (&mut right, m)))) {
        return false;
    }
    let mut order: Vec<usize> = collected(0..n);
    order.sort_unstable_by(|i, j| d[*i].abs().total_cmp(&d[*j].abs()).then(i.cmp(j)));
    for (to, from) in order.iter().enumerate() {
        let sign = if d[*from] < 0.0 { -1.0 } else { 1.0 };
        let (x, y) = (&left[from * n..(from + 1) * n], &right[from * m..(from + 1) * m]);
        u[to * ldu..to * ldu + n].iter_mut().zip(x).for_each(|(u, x)| *u = R::of(*x));
        v[to * ldv..to * ldv + m].iter_mut().zip(y).for_each(|(v, y)| *v = R::of(sign * y));
    }
    if m > n {
        let last = &right[n * m..];
        v[n * ldv..n * ldv + m].iter_mut().zip(last).for_each(|(v, y)| *v = R::of(*y));
    }
    let sorted: Vec<f64> = collected(order.iter().map(|i| d[*i].abs()));
    d.copy_from_slice(&sorted);
    true
}

/// Two parts, and the row between them, that become one.
struct Merge<'a, R> {
    d: &'a mut [f64],
    /// The row between.
    half: usize,
    /// Columns.
    m: usize,
    u: &'a mut [R],
    ldu: usize,
    v: &'a mut [R],
    ldv: usize,
}
impl<R: Real> Merge<'_, R> {
    /// The row between, in the parts' right vectors; the two of these that have no value become one, in its place.
    fn seam(&mut self, alpha: f64, beta: f64) -> Vec<f64> {
        let (n, half, m, ldv) = (self.d.len(), self.half, self.m, self.ldv);
        let top = (0..=half).map(|c| alpha * self.v[c * ldv + half].wide());
        let bottom = (half + 1..m).map(|c| beta * self.v[c * ldv + half + 1].wide());
        let mut z: Vec<f64> = collected(top.chain(bottom));
        if m > n {
            let (x, y) = (z[half], z[n]);
            let r = x.hypot(y);
            if r > 0.0 {
                turn(self.v, ldv, m, (half, n), R::of(x / r), R::of(y / r));
                z[half] = r;
            }
            z.truncate(n);
        }
        z
    }
    /// Columns that take part, ascending, and those whose values stay: since the seam has next to nothing there, or after a turn
    /// with a neighbour of nearly the same value.
    fn deflate(&mut self, z: &mut [f64], tolerance: f64, parts: &mut [Part]) -> (Vec<usize>, Vec<usize>) {
        let (n, m, half) = (self.d.len(), self.m, self.half);
        let mut order: Vec<usize> = collected((0..n).filter(|i| *i != half));
        order.sort_unstable_by(|i, j| self.d[*i].total_cmp(&self.d[*j]).then(i.cmp(j)));
        let (mut kept, mut left) = (room(n), Vec::new());
        let mut before: Option<usize> = None;
        for now in order {
            if z[now].abs() <= tolerance {
                left.push(now);
                continue;
            }
            if let Some(last) = before {
                if let Some((c, s)) = deflating(self.d, z, (last, now), tolerance) {
                    if parts[now] != parts[last] {
                        (parts[now], parts[last]) = (Part::Both, Part::Both);
                    }
                    turn(self.u, self.ldu, n, (last, now), R::of(c), R::of(s));
                    turn(self.v, self.ldv, m, (last, now), R::of(c), R::of(s));
                    left.push(last);
                } else {
                    kept.push(last);
                }
            }
            before = Some(now);
        }
        kept.extend(before);
        (kept, left)
    }
    fn run(mut self, alpha: f64, beta: f64) -> bool {
        let (n, m, half, ldu, ldv) = (self.d.len(), self.m, self.half, self.ldu, self.ldv);
        let mut z = self.seam(alpha, beta);
        self.d[half] = 0.0;
        let most = self.d.iter().fold(alpha.abs().max(beta.abs()), |m, x| m.max(*x));
        let tolerance = 8.0 * R::EPS.wide() * most;
        let mut parts = filled(Part::Top, half + 1);
        parts.resize(n, Part::Bottom);
        let (kept, left) = self.deflate(&mut z, tolerance, &mut parts);
        let k = kept.len() + 1;
        // values, and where their columns will stand: those that stay, then those of the products
        let mut values: Vec<f64> = collected(left.iter().map(|c| self.d[*c]));
        let (mut us, mut vs): (Vec<R>, Vec<R>) = (room(n * n), room(m * n));
        for c in &left {
            us.extend_from_slice(&self.u[c * ldu..c * ldu + n]);
            vs.extend_from_slice(&self.v[c * ldv..c * ldv + m]);
        }
        us.resize(n * n, R::ZERO);
        vs.resize(m * n, R::ZERO);
        if most == 0.0 {
            // nothing but zeros: the vectors of before will do
            values.push(0.0);
            us[(n - 1) * n + half] = R::ONE;
            vs[(n - 1) * m..].copy_from_slice(&self.v[half * ldv..half * ldv + m]);
        } else {
            // the seam's own pole is zero; no other one is so near that they could not be told apart
            z[half] = z[half].abs().max(tolerance).copysign(z[half]);
            let mut poles: Vec<f64> = collected([0.0].into_iter().chain(kept.iter().map(|c| self.d[*c])));
            if let Some(p) = poles.get_mut(1) {
                *p = p.max(tolerance / 2.0);
            }
            let seam: Vec<f64> = collected([z[half]].into_iter().chain(kept.iter().map(|c| z[*c])));
            let Some(solved) = solve::<R, true>(&poles, &seam, 1.0) else { return false };
            values.extend(solved.values);
            let others = kept.iter().map(|c| (*c, parts[*c]));
            let own = (half, if m > n { Part::Both } else { Part::Top });
            let chosen: Vec<(usize, Part)> = collected([own].into_iter().chain(others.clone()));
            let right = Columns { q: self.v, ld: ldv, top: half + 1, bottom: half + 1, end: m };
            right.joined(&chosen, &solved.vectors, k, &mut vs[left.len() * m..]);
            let chosen: Vec<(usize, Part)> = collected(others);
            let sides = Columns { q: self.u, ld: ldu, top: half, bottom: half + 1, end: n };
            let us = &mut us[left.len() * n..];
            sides.joined(&chosen, &solved.left, k, us);
            for (u, l) in us.chunks_exact_mut(n).zip(solved.left.chunks_exact(k)) {
                u[half] = l[0];
            }
        }
        let mut order: Vec<usize> = collected(0..n);
        order.sort_unstable_by(|i, j| values[*i].total_cmp(&values[*j]).then(i.cmp(j)));
        for (to, from) in order.into_iter().enumerate() {
            self.d[to] = values[from];
            self.u[to * ldu..to * ldu + n].copy_from_slice(&us[from * n..(from + 1) * n]);
            self.v[to * ldv..to * ldv + m].copy_from_slice(&vs[from * m..(from + 1) * m]);
        }
        true
    }
}
