//! What divide and conquer has in common for eigenvalues and singular values: the roots of a rational function between its
//! poles, vectors of them, and products with columns of two halves.

use super::field::Real;
use super::product::{Steps, product};
use super::vector::{LANES, by_runs, totals};
use crate::engine::SharedMut;
use crate::engine::isa::{self, Isa, Job, Level};
use crate::engine::parallel::parallel_for;
use crate::engine::room::{collected, filled, room};

/// Which half a column has numbers in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Top,
    Both,
    Bottom,
}

/// Columns that become others by a product.
pub struct Columns<'a, R> {
    /// They lie `ld` apart.
    pub q: &'a [R],
    pub ld: usize,
    /// Rows of the top half, where those of the bottom half begin, and where they end.
    pub top: usize,
    pub bottom: usize,
    pub end: usize,
}
impl<R: Real> Columns<'_, R> {
    /// Writes columns of `end` rows that the `k` columns of `vectors` make of these: `chosen` says which column stands for a
    /// row of them, and where it has numbers, so that zeros are not multiplied. Rows between the halves are left alone.
    pub fn joined(&self, chosen: &[(usize, Part)], vectors: &[R], k: usize, out: &mut [R]) {
        let height = vectors.len() / k;
        let mut rows: Vec<usize> = collected(0..chosen.len());
        rows.sort_unstable_by_key(|i| (chosen[*i].1, *i));
        let count = |p: Part| chosen.iter().filter(|c| c.1 == p).count();
        let (top, both) = (count(Part::Top), count(Part::Both));
        let n = rows.len();
        // rows of columns that have numbers in the same half follow each other
        let skip = height - n;
        let mut moved = filled(R::ZERO, n * k);
        {
            let moved = SharedMut::new(&mut moved);
            parallel_for(k, (20_000 / n.max(1)).max(1), |range| {
                for c in range {
                    // SAFETY: each column is one task's.
                    let to = unsafe { moved.slice(c * n, n) };
                    let v = &vectors[c * height + skip..(c + 1) * height];
                    rows.iter().zip(to).for_each(|(i, t)| *t = v[*i]);
                }
            });
        }
        let gather = |from: std::ops::Range<usize>, at: usize, height: usize| -> Vec<R> {
            let mut all = room(from.len() * height);
            for i in &rows[from] {
                all.extend_from_slice(&self.q[chosen[*i].0 * self.ld + at..][..height]);
            }
            all
        };
        let rest = self.end - self.bottom;
        let upper = gather(0..top + both, 0, self.top);
        let lower = gather(top..n, self.bottom, rest);
        product(
            [self.top, k, top + both],
            R::ONE,
            (&upper, Steps::columns(self.top)),
            (&moved, Steps::columns(n)),
            R::ZERO,
            (&mut *out, Steps::columns(self.end)),
        );
        product(
            [rest, k, n - top],
            R::ONE,
            (&lower, Steps::columns(rest)),
            (&moved[top.min(moved.len())..], Steps::columns(n)),
            R::ZERO,
            (&mut out[self.bottom..], Steps::columns(self.end)),
        );
    }
}
/// Turns two columns of `n` numbers.
pub fn turn<R: Real>(q: &mut [R], ld: usize, n: usize, (i, j): (usize, usize), c: R, s: R) {
    let (low, high) = q.split_at_mut(i.max(j) * ld);
    let (low, high) = (&mut low[i.min(j) * ld..][..n], &mut high[..n]);
    let (x, y) = if i < j { (low, high) } else { (high, low) };
    for (x, y) in x.iter_mut().zip(y) {
        (*x, *y) = (*x * c + *y * s, *y * c - *x * s);
    }
}
/// The turn of places `last` and `now` of the seam `z`, which becomes zero at `last`, if it leaves no more than `tolerance`
/// beside the diagonal; the values there are those that it leaves on the diagonal.
pub fn deflating(
    d: &mut [f64],
    z: &mut [f64],
    (last, now): (usize, usize),
    tolerance: f64,
) -> Option<(f64, f64)> {
    let (s, c) = (z[last], z[now]);
    let length = c.hypot(s);
    let (c, s) = (c / length, -s / length);
    let (a, b) = (d[last], d[now]);
    if ((b - a) * c * s).abs() > tolerance {
        return None;
    }
    (z[now], z[last]) = (length, 0.0);
    d[last] = a * c * c + b * s * s;
    d[now] = a * s * s + b * c * c;
    Some((c, s))
}

/// Sums of `weight / (far - tau)` and of their slopes.
struct Poles<'a> {
    far: &'a [f64],
    weight: &'a [f64],
    tau: f64,
}
#[inline(always)]
fn poles_run<const W: usize>(at: usize, p: &Poles, sums: &mut [[f64; LANES]; 2]) {
    let (far, weight) = (&p.far[at..at + W], &p.weight[at..at + W]);
    for l in 0..W {
        let r = 1.0 / (far[l] - p.tau);
        let t = weight[l] * r;
        sums[0][l] += t;
        sums[1][l] += t * r;
    }
}
impl Job for Poles<'_> {
    type Out = (f64, f64);
    const BEST: Level = Level::V4;
    #[inline(always)]
    fn run<I: Isa>(self) -> (f64, f64) {
        let mut sums = [[0.0; LANES]; 2];
        by_runs!(self.far.len(), poles_run[](&self, &mut sums));
        let [sum, slope] = totals(&sums);
        (sum, slope)
    }
}

/// The function `1 / rho + sum of weight / (pole - x)`; with `SQUARES` poles and root stand for their squares.
struct Secular<'a, const SQUARES: bool> {
    poles: &'a [f64],
    weight: &'a [f64],
    rho: f64,
    /// Of the matrices' numbers.
    eps: f64,
}
/// `a - b`, or the difference of the squares, to the last digits.
#[inline(always)]
fn between<const SQUARES: bool>(a: f64, b: f64) -> f64 {
    if SQUARES { (a - b) * (a + b) } else { a - b }
}
impl<const SQUARES: bool> Secular<'_, SQUARES> {
    fn value(&self, origin: usize, tau: f64) -> f64 {
        let pole = self.poles[origin];
        if SQUARES { (pole * pole + tau).max(0.0).sqrt() } else { pole + tau }
    }
    /// The root above pole `i`; `delta` becomes the distances of all poles from it, each to the last digits. `None` if it
    /// is not found.
    fn root(&self, i: usize, delta: &mut [f64]) -> Option<f64> {
        let (k, inverse) = (self.poles.len(), 1.0 / self.rho);
        let last = i + 1 == k;
        if k == 1 {
            let tau = self.rho * self.weight[0];
            delta[0] = -tau;
            return Some(self.value(0, tau));
        }
        // the two poles that count most, and where the others are parted
        let (a, b) = if last { (k - 2, k - 1) } else { (i, i + 1) };
        let width = if last {
            self.rho * self.weight.iter().sum::<f64>()
        } else {
            between::<SQUARES>(self.poles[i + 1], self.poles[i])
        };
        let mut origin = i;
        let from = |origin: usize, far: &mut [f64]| {
            far.iter_mut().zip(self.poles).for_each(|(f, p)| *f = between::<SQUARES>(*p, self.poles[origin]));
        };
        from(origin, delta);
        let at = |far: &[f64], tau: f64| {
            let low = isa::run(Poles { far: &far[..=a], weight: &self.weight[..=a], tau });
            let high = isa::run(Poles { far: &far[b..], weight: &self.weight[b..], tau });
            (low, high)
        };
        // the half in which it lies, seen from the nearer pole
        let middle = width / 2.0;
        let (low, high) = at(delta, middle);
        let f = inverse + low.0 + high.0;
        let (wa, wb) = (self.weight[a], self.weight[b]);
        let rest = f - wa / (delta[a] - middle) - wb / (delta[b] - middle);
        let (mut least, mut most) = if f < 0.0 { (middle, width) } else { (0.0, middle) };
        if f < 0.0 && !last {
            origin = b;
            from(origin, delta);
            (least, most) = (-middle, 0.0);
        }
        // the root of the function with these two poles, the others as in the middle
        let (pa, pb) = (delta[a], delta[b]);
        let (q2, q1, q0) = (rest, -(rest * (pa + pb) + wa + wb), rest * pa * pb + wa * pb + wb * pa);
        let mut tau = (least + most) / 2.0;
        let square = (q1 * q1 - 4.0 * q2 * q0).max(0.0).sqrt();
        let t = -0.5 * (q1 + square.copysign(q1));
        if let Some(guess) = [q0 / t, t / q2].into_iter().find(|x| *x > least && *x < most) {
            tau = guess;
        }
        for step in 0..400 {
            let ((low, d_low), (high, d_high)) = at(delta, tau);
            let f = inverse + low + high;
            let slope = d_low + d_high;
            let bound = 8.0 * (low.abs() + high.abs()) + inverse + tau.abs() * slope;
            if !f.is_finite() {
                return None;
            }
            if f.abs() <= self.eps * bound {
                break;
            }
            if f < 0.0 {
                least = tau;
            } else {
                most = tau;
            }
            if most - least <= f64::EPSILON * tau.abs() {
                break;
            }
            let (da, db) = (delta[a] - tau, delta[b] - tau);
            let c = f - da * d_low - db * d_high;
            let (p, q) = ((da + db) * f - da * db * slope, da * db * f);
            let square = (p * p - 4.0 * q * c).max(0.0).sqrt();
            let eta = if last == (p >= 0.0) {
                let s = if last { p + square } else { p - square };
                s / (2.0 * c)
            } else {
                let s = if last { p - square } else { p + square };
                2.0 * q / s
            };
            let next = tau + eta;
            // a slow approach is cut short now and then
            tau = if next > least && next < most && step % 8 != 7 { next } else { (least + most) / 2.0 };
            if step == 399 {
                return None;
            }
        }
        delta.iter_mut().for_each(|f| *f -= tau);
        Some(self.value(origin, tau))
    }
}

/// What comes of a seam.
pub struct Solved<R> {
    /// Values, ascending.
    pub values: Vec<f64>,
    /// Vectors of the values, by columns; of singular values the right ones.
    pub vectors: Vec<R>,
    /// Of singular values the left ones.
    pub left: Vec<R>,
}
/// Eigenvalues and vectors of `diag(poles) + rho z z^T`, poles ascending and apart; with `SQUARES` singular values and vectors of
/// the matrix whose first row is `z` and whose others are those of `diag(poles)`, of which the first is zero; `rho` is 1 then.
pub fn solve<R: Real, const SQUARES: bool>(poles: &[f64], z: &[f64], rho: f64) -> Option<Solved<R>> {
    let k = poles.len();
    let weight: Vec<f64> = collected(z.iter().map(|z| z * z));
    let eps = (R::EPS.wide() * 0.02).max(f64::EPSILON / 2.0);
    let secular = Secular::<SQUARES> { poles, weight: &weight, rho, eps };
    let (mut values, mut delta) = (filled(f64::NAN, k), filled(0.0, k * k));
    {
        let (roots, delta) = (SharedMut::new(&mut values), SharedMut::new(&mut delta));
        parallel_for(k, (20_000 / (k + 20)).max(1), |range| {
            for i in range {
                // SAFETY: each root is one task's.
                let (root, delta) = unsafe { (roots.slice(i, 1), delta.slice(i * k, k)) };
                root[0] = secular.root(i, delta).unwrap_or(f64::NAN);
            }
        });
    }
    if values.iter().any(|r| r.is_nan()) {
        return None;
    }
    // the seam for which these roots are exact, so that vectors are orthogonal
    let mut exact: Vec<f64> = filled(1.0, k);
    {
        let exact = SharedMut::new(&mut exact);
        parallel_for(k, (25_000 / k).max(1), |range| {
            // SAFETY: each place is one task's.
            let exact = unsafe { exact.slice(range.start, range.len()) };
            for (at, delta) in delta.chunks_exact(k).enumerate() {
                let pole = poles[at];
                // its own distance is not divided by anything
                let own =
                    range.contains(&at).then(|| (at - range.start, exact[at - range.start] * delta[at]));
                let (delta, poles) = (&delta[range.clone()], &poles[range.clone()]);
                isa::run(Ratios::<SQUARES> { exact: &mut *exact, delta, poles, pole });
                if let Some((at, value)) = own {
                    exact[at] = value;
                }
            }
        });
    }
    for (e, z) in exact.iter_mut().zip(z) {
        *e = e.abs().sqrt().copysign(*z);
    }
    let mut vectors = filled(R::ZERO, k * k);
    let mut left = filled(R::ZERO, if SQUARES { k * k } else { 0 });
    {
        let (out, left) = (SharedMut::new(&mut vectors), SharedMut::new(&mut left));
        parallel_for(k, (40_000 / k).max(1), |range| {
            for i in range {
                let delta = &delta[i * k..][..k];
                // SAFETY: each column is one task's.
                let column = unsafe { out.slice(i * k, k) };
                isa::run(Column { exact: &exact, delta, column });
                if SQUARES {
                    // SAFETY: as above.
                    let column = unsafe { left.slice(i * k, k) };
                    isa::run(LeftColumn { exact: &exact, delta, poles, column });
                }
            }
        });
    }
    Some(Solved { values, vectors, left })
}
/// Multiplies by the quotients of distances from a root and from its pole.
struct Ratios<'a, const SQUARES: bool> {
    exact: &'a mut [f64],
    delta: &'a [f64],
    poles: &'a [f64],
    pole: f64,
}
impl<const SQUARES: bool> Job for Ratios<'_, SQUARES> {
    type Out = ();
    const BEST: Level = Level::V4;
    #[inline(always)]
    fn run<I: Isa>(self) {
        for ((e, d), p) in self.exact.iter_mut().zip(self.delta).zip(self.poles) {
            *e *= d / between::<SQUARES>(*p, self.pole);
        }
    }
}
/// `sums += (p e / d)^2`, of `W` numbers.
#[inline(always)]
fn squares_run<const W: usize>(
    at: usize,
    e: &[f64],
    d: &[f64],
    p: Option<&[f64]>,
    sums: &mut [[f64; LANES]; 1],
) {
    let (e, d) = (&e[at..at + W], &d[at..at + W]);
    let mut v = [0.0; W];
    v.copy_from_slice(e);
    if let Some(p) = p {
        let p = &p[at..at + W];
        for l in 0..W {
            v[l] *= p[l];
        }
    }
    for l in 0..W {
        let v = v[l] / d[l];
        sums[0][l] += v * v;
    }
}
/// One vector, of length 1.
struct Column<'a, R> {
    exact: &'a [f64],
    delta: &'a [f64],
    column: &'a mut [R],
}
impl<R: Real> Job for Column<'_, R> {
    type Out = ();
    const BEST: Level = Level::V4;
    #[inline(always)]
    fn run<I: Isa>(self) {
        let mut sums = [[0.0; LANES]];
        by_runs!(self.exact.len(), squares_run[](self.exact, self.delta, None, &mut sums));
        let by = 1.0 / totals(&sums)[0].sqrt();
        for ((c, e), d) in self.column.iter_mut().zip(self.exact).zip(self.delta) {
            *c = R::of(e / d * by);
        }
    }
}
/// One left vector, of length 1: the first row of the matrix, then the others, with the right vector.
struct LeftColumn<'a, R> {
    exact: &'a [f64],
    delta: &'a [f64],
    poles: &'a [f64],
    column: &'a mut [R],
}
impl<R: Real> Job for LeftColumn<'_, R> {
    type Out = ();
    const BEST: Level = Level::V4;
    #[inline(always)]
    fn run<I: Isa>(self) {
        let LeftColumn { exact, delta, poles, column } = self;
        let (exact, delta, poles) = (&exact[1..], &delta[1..], &poles[1..]);
        let mut sums = [[0.0; LANES]];
        by_runs!(exact.len(), squares_run[](exact, delta, Some(poles), &mut sums));
        let by = 1.0 / (1.0 + totals(&sums)[0]).sqrt();
        column[0] = R::of(-by);
        for (((c, e), d), p) in column[1..].iter_mut().zip(exact).zip(delta).zip(poles) {
            *c = R::of(p * e / d * by);
        }
    }
}
