//! Eigenvalues and vectors of symmetric tridiagonal matrices by divide and conquer (Cuppen's, with Gu's and Eisenstat's vectors):
//! halves are solved apart, and what joins them is a change of rank one, whose eigenvalues are the roots of a rational
//! function between its poles. Nearly all work is products of matrices.

use super::field::Real;
use super::halves::{bottom_up, half};
use super::secular::{Columns, Part, deflating, solve, turn};
use super::tridiagonal::diagonalise;
use crate::engine::SharedMut;
use crate::engine::room::{collected, filled, room};
use std::ops::Range;

/// Matrices from this size on are divided: below QL and QR steps are faster.
pub const FROM: usize = 65;
/// Parts of at most this size are not divided further.
const LEAST: usize = 40;

/// Diagonalises the tridiagonal matrix of diagonal `d` and neighbours `e`: `d` becomes the eigenvalues, ascending, and the
/// columns of `q`, `ld` apart, their vectors. `q` holds zeros before. False if a part did not converge.
pub fn divide<R: Real>(d: &mut [f64], e: &[f64], q: &mut [R], ld: usize) -> bool {
    let n = d.len();
    assert!(e.len() + 1 >= n && q.len() + ld >= n * ld + n && ld >= n, "columns of vectors");
    tear(d, e);
    let (d, q) = (&SharedMut::new(d), &SharedMut::new(q));
    // SAFETY: no two ranges that are worked on at the same time have places, and so columns, in common.
    let of = |r: &Range<usize>| unsafe {
        let n = r.len();
        (d.slice(r.start, n), q.slice(r.start * (ld + 1), (n - 1) * ld + n))
    };
    let part = |r: Range<usize>| {
        let (d, q) = of(&r);
        whole(d, &e[r.start..r.end - 1], q, ld)
    };
    let join = |r: Range<usize>| {
        let (d, q) = of(&r);
        Merge { d, half: r.len() / 2, q, ld }.run(e[half(&r) - 1])
    };
    n == 0 || bottom_up(n, LEAST, 0, part, join)
}
/// Takes what joins halves off the diagonal.
fn tear(d: &mut [f64], e: &[f64]) {
    if d.len() > LEAST {
        let half = d.len() / 2;
        let joint = e[half - 1].abs();
        d[half - 1] -= joint;
        d[half] -= joint;
        let (d1, d2) = d.split_at_mut(half);
        tear(d1, &e[..half - 1]);
        tear(d2, &e[half..]);
    }
}
/// Of a small matrix, without division.
fn whole<R: Real>(d: &mut [f64], e: &[f64], q: &mut [R], ld: usize) -> bool {
    let n = d.len();
    let mut z = filled(0.0, n * n);
    z.iter_mut().step_by(n + 1).for_each(|v| *v = 1.0);
    let mut e: Vec<f64> = collected(e.iter().copied().chain([0.0]));
    if diagonalise::<f64>(d, &mut e, Some((&mut z, n, n))) > 0 {
        return false;
    }
    let mut order: Vec<usize> = collected(0..n);
    order.sort_unstable_by(|i, j| d[*i].total_cmp(&d[*j]).then(i.cmp(j)));
    let sorted: Vec<f64> = collected(order.iter().map(|i| d[*i]));
    d.copy_from_slice(&sorted);
    for (to, from) in order.iter().enumerate() {
        let column = &z[from * n..(from + 1) * n];
        q[to * ld..to * ld + n].iter_mut().zip(column).for_each(|(q, z)| *q = R::of(*z));
    }
    true
}

/// Two halves that become one.
struct Merge<'a, R> {
    d: &'a mut [f64],
    half: usize,
    q: &'a mut [R],
    ld: usize,
}
impl<R: Real> Merge<'_, R> {
    fn column(&mut self, c: usize) -> &mut [R] {
        let n = self.d.len();
        &mut self.q[c * self.ld..c * self.ld + n]
    }
    /// The rows where the halves meet, as one vector of length 1.
    fn seam(&self, joint: f64) -> Vec<f64> {
        let scale = std::f64::consts::FRAC_1_SQRT_2;
        let sign = if joint < 0.0 { -scale } else { scale };
        let top = (0..self.half).map(|c| self.q[c * self.ld + self.half - 1].wide() * scale);
        let bottom = (self.half..self.d.len()).map(|c| self.q[c * self.ld + self.half].wide() * sign);
        collected(top.chain(bottom))
    }
    /// Columns that take part, ascending, and those whose eigenvalues stay: since the seam has next to nothing there, or
    /// after a turn with a neighbour of nearly the same eigenvalue.
    fn deflate(&mut self, z: &mut [f64], rho: f64, parts: &mut [Part]) -> (Vec<usize>, Vec<usize>) {
        let n = self.d.len();
        let most = |v: &[f64]| v.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
        let tolerance = 8.0 * R::EPS.wide() * most(self.d).max(most(z));
        let mut order: Vec<usize> = collected(0..n);
        order.sort_unstable_by(|i, j| self.d[*i].total_cmp(&self.d[*j]).then(i.cmp(j)));
        let (mut kept, mut left) = (room(n), Vec::new());
        let mut before: Option<usize> = None;
        for now in order {
            if rho * z[now].abs() <= tolerance {
                left.push(now);
                continue;
            }
            if let Some(last) = before {
                if let Some((c, s)) = deflating(self.d, z, (last, now), tolerance) {
                    if parts[now] != parts[last] {
                        (parts[now], parts[last]) = (Part::Both, Part::Both);
                    }
                    turn(self.q, self.ld, n, (last, now), R::of(c), R::of(s));
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
    fn run(mut self, joint: f64) -> bool {
        let (n, half, ld) = (self.d.len(), self.half, self.ld);
        let mut z = self.seam(joint);
        let rho = 2.0 * joint.abs();
        let mut parts = filled(Part::Top, half);
        parts.resize(n, Part::Bottom);
        let (kept, left) = self.deflate(&mut z, rho, &mut parts);
        let k = kept.len();
        // values, and where their columns will stand: those that stay, then those of the products
        let mut values: Vec<f64> = collected(left.iter().map(|c| self.d[*c]));
        let mut columns: Vec<R> = room(n * n);
        for c in &left {
            columns.extend_from_slice(self.column(*c));
        }
        columns.resize(n * n, R::ZERO);
        if k > 0 {
            let poles: Vec<f64> = collected(kept.iter().map(|c| self.d[*c]));
            let seam: Vec<f64> = collected(kept.iter().map(|c| z[*c]));
            let Some(solved) = solve::<R, false>(&poles, &seam, rho) else { return false };
            values.extend(solved.values);
            let chosen: Vec<(usize, Part)> = collected(kept.iter().map(|c| (*c, parts[*c])));
            let halves = Columns { q: self.q, ld, top: half, bottom: half, end: n };
            halves.joined(&chosen, &solved.vectors, k, &mut columns[left.len() * n..]);
        }
        let mut order: Vec<usize> = collected(0..n);
        order.sort_unstable_by(|i, j| values[*i].total_cmp(&values[*j]).then(i.cmp(j)));
        for (to, from) in order.into_iter().enumerate() {
            self.d[to] = values[from];
            self.column(to).copy_from_slice(&columns[from * n..(from + 1) * n]);
        }
        true
    }
}
