//! Eigenvalues and vectors of symmetric tridiagonal matrices by divide and conquer (Cuppen's, with Gu's and Eisenstat's vectors):
//! halves are solved apart, and what joins them is a change of rank one, whose eigenvalues are the roots of a rational
//! function between its poles. Nearly all work is products of matrices.

use super::field::Real;
use super::product::{Steps, product};
use super::tridiagonal::diagonalise;
use crate::engine::SharedMut;
use crate::engine::isa::{self, Isa, Job, Level};
use crate::engine::parallel::parallel_for;
use crate::engine::room::{collected, filled, room};

/// Below this size QL and QR steps are faster.
pub const LEAST: usize = 40;

/// Diagonalises the tridiagonal matrix of diagonal `d` and neighbours `e`: `d` becomes the eigenvalues, ascending, and the
/// columns of `q`, `ld` apart, their vectors. `q` holds zeros before. False if a part did not converge.
pub fn divide<R: Real>(d: &mut [f64], e: &mut [f64], q: &mut [R], ld: usize) -> bool {
    let n = d.len();
    if n <= LEAST {
        return whole(d, e, q, ld);
    }
    let half = n / 2;
    let joint = e[half - 1];
    d[half - 1] -= joint.abs();
    d[half] -= joint.abs();
    let (d1, d2) = d.split_at_mut(half);
    let (e1, e2) = e.split_at_mut(half);
    divide(d1, &mut e1[..half - 1], q, ld)
        && divide(d2, e2, &mut q[half * ld + half..], ld)
        && Merge { d, half, q, ld }.run(joint)
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

/// Which half a column has numbers in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Top,
    Both,
    Bottom,
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
                let (s, c) = (z[last], z[now]);
                let length = c.hypot(s);
                let (c, s) = (c / length, -s / length);
                if ((self.d[now] - self.d[last]) * c * s).abs() <= tolerance {
                    (z[now], z[last]) = (length, 0.0);
                    if parts[now] != parts[last] {
                        (parts[now], parts[last]) = (Part::Both, Part::Both);
                    }
                    self.turn(last, now, R::of(c), R::of(s));
                    let (a, b) = (self.d[last], self.d[now]);
                    self.d[last] = a * c * c + b * s * s;
                    self.d[now] = a * s * s + b * c * c;
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
    /// Turns two columns.
    fn turn(&mut self, i: usize, j: usize, c: R, s: R) {
        let (n, ld) = (self.d.len(), self.ld);
        let (low, high) = self.q.split_at_mut(i.max(j) * ld);
        let (low, high) = (&mut low[i.min(j) * ld..][..n], &mut high[..n]);
        let (x, y) = if i < j { (low, high) } else { (high, low) };
        for (x, y) in x.iter_mut().zip(y) {
            (*x, *y) = (*x * c + *y * s, *y * c - *x * s);
        }
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
            let Some((roots, mut vectors)) = solve::<R>(&poles, &seam, rho) else { return false };
            values.extend(roots);
            // rows by the half that their columns are in, so that zeros are not multiplied
            let mut rows: Vec<usize> = collected(0..k);
            rows.sort_unstable_by_key(|i| (parts[kept[*i]], *i));
            let count = |p: Part| rows.iter().filter(|i| parts[kept[**i]] == p).count();
            let (top, both) = (count(Part::Top), count(Part::Both));
            let mut row = filled(R::ZERO, k);
            for v in vectors.chunks_exact_mut(k) {
                rows.iter().zip(&mut row).for_each(|(i, r)| *r = v[*i]);
                v.copy_from_slice(&row);
            }
            let gather = |from: std::ops::Range<usize>, at: usize, height: usize| -> Vec<R> {
                collected(rows[from].iter().flat_map(|i| &self.q[kept[*i] * ld + at..][..height]).copied())
            };
            let upper = gather(0..top + both, 0, half);
            let lower = gather(top..k, half, n - half);
            let out = &mut columns[left.len() * n..];
            product(
                [half, k, top + both],
                R::ONE,
                (&upper, Steps::columns(half)),
                (&vectors, Steps::columns(k)),
                R::ZERO,
                (&mut *out, Steps::columns(n)),
            );
            product(
                [n - half, k, k - top],
                R::ONE,
                (&lower, Steps::columns(n - half)),
                (&vectors[top..], Steps::columns(k)),
                R::ZERO,
                (&mut out[half..], Steps::columns(n)),
            );
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

/// Sums of `weight / (far - tau)` and of their slopes.
struct Poles<'a> {
    far: &'a [f64],
    weight: &'a [f64],
    tau: f64,
}
impl Job for Poles<'_> {
    type Out = (f64, f64);
    const BEST: Level = Level::V4;
    #[inline(always)]
    fn run<I: Isa>(self) -> (f64, f64) {
        const LANES: usize = 16;
        let (mut sum, mut slope) = ([0.0; LANES], [0.0; LANES]);
        let whole = self.far.len() / LANES * LANES;
        let (far, weight) = (&self.far[..whole], &self.weight[..whole]);
        for (f, w) in far.chunks_exact(LANES).zip(weight.chunks_exact(LANES)) {
            for l in 0..LANES {
                let r = 1.0 / (f[l] - self.tau);
                let t = w[l] * r;
                sum[l] += t;
                slope[l] += t * r;
            }
        }
        let (mut s, mut d) = (sum.iter().sum::<f64>(), slope.iter().sum::<f64>());
        for (f, w) in self.far[whole..].iter().zip(&self.weight[whole..]) {
            let r = 1.0 / (f - self.tau);
            s += w * r;
            d += w * r * r;
        }
        (s, d)
    }
}

/// The function `1 / rho + sum of weight / (pole - x)`.
struct Secular<'a> {
    poles: &'a [f64],
    weight: &'a [f64],
    rho: f64,
    /// Of the matrices' numbers.
    eps: f64,
}
impl Secular<'_> {
    /// The root above pole `i`; `delta` becomes the distances of all poles from it, each to the last digits. `None` if it
    /// is not found.
    fn root(&self, i: usize, delta: &mut [f64]) -> Option<f64> {
        let (k, inverse) = (self.poles.len(), 1.0 / self.rho);
        let last = i + 1 == k;
        if k == 1 {
            let tau = self.rho * self.weight[0];
            delta[0] = -tau;
            return Some(self.poles[0] + tau);
        }
        // the two poles that count most, and where the others are parted
        let (a, b) = if last { (k - 2, k - 1) } else { (i, i + 1) };
        let width =
            if last { self.rho * self.weight.iter().sum::<f64>() } else { self.poles[i + 1] - self.poles[i] };
        let mut origin = i;
        let from = |origin: usize, far: &mut [f64]| {
            far.iter_mut().zip(self.poles).for_each(|(f, p)| *f = p - self.poles[origin]);
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
        Some(self.poles[origin] + tau)
    }
}

/// Eigenvalues, ascending, and vectors by columns of `diag(poles) + rho z z^T`, poles ascending and apart.
fn solve<R: Real>(poles: &[f64], z: &[f64], rho: f64) -> Option<(Vec<f64>, Vec<R>)> {
    let k = poles.len();
    let weight: Vec<f64> = collected(z.iter().map(|z| z * z));
    let eps = (R::EPS.wide() * 0.02).max(f64::EPSILON / 2.0);
    let secular = Secular { poles, weight: &weight, rho, eps };
    let (mut roots, mut delta) = (filled(f64::NAN, k), filled(0.0, k * k));
    {
        let (roots, delta) = (SharedMut::new(&mut roots), SharedMut::new(&mut delta));
        parallel_for(k, (20_000 / (k + 20)).max(1), |range| {
            for i in range {
                // SAFETY: each root is one task's.
                let (root, delta) = unsafe { (roots.slice(i, 1), delta.slice(i * k, k)) };
                root[0] = secular.root(i, delta).unwrap_or(f64::NAN);
            }
        });
    }
    if roots.iter().any(|r| r.is_nan()) {
        return None;
    }
    // the seam for which these roots are exact, so that vectors are orthogonal
    let mut exact: Vec<f64> = filled(1.0, k);
    for (i, delta) in delta.chunks_exact(k).enumerate() {
        isa::run(Ratios { exact: &mut exact, delta, poles, at: i });
    }
    for (e, z) in exact.iter_mut().zip(z) {
        *e = e.abs().sqrt().copysign(*z);
    }
    let mut vectors = filled(R::ZERO, k * k);
    {
        let out = SharedMut::new(&mut vectors);
        parallel_for(k, (40_000 / k).max(1), |range| {
            for i in range {
                // SAFETY: each column is one task's.
                let column = unsafe { out.slice(i * k, k) };
                isa::run(Column { exact: &exact, delta: &delta[i * k..][..k], column });
            }
        });
    }
    Some((roots, vectors))
}
/// Multiplies by the quotients of distances from root `at` and from pole `at`.
struct Ratios<'a> {
    exact: &'a mut [f64],
    delta: &'a [f64],
    poles: &'a [f64],
    at: usize,
}
impl Job for Ratios<'_> {
    type Out = ();
    const BEST: Level = Level::V4;
    #[inline(always)]
    fn run<I: Isa>(self) {
        let pole = self.poles[self.at];
        let own = self.exact[self.at] * self.delta[self.at];
        for ((e, d), p) in self.exact.iter_mut().zip(self.delta).zip(self.poles) {
            *e *= d / (p - pole);
        }
        self.exact[self.at] = own;
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
        const LANES: usize = 16;
        let mut sum = [0.0; LANES];
        for (e, d) in self.exact.chunks(LANES).zip(self.delta.chunks(LANES)) {
            for l in 0..e.len() {
                let v = e[l] / d[l];
                sum[l] += v * v;
            }
        }
        let by = 1.0 / sum.iter().sum::<f64>().sqrt();
        for ((c, e), d) in self.column.iter_mut().zip(self.exact).zip(self.delta) {
            *c = R::of(e / d * by);
        }
    }
}
