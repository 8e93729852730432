//! Singular values and vectors: a bidiagonal matrix by reflectors, in blocks, and implicit QR steps on that, of which those without
//! shift keep the digits of small values (LAPACK's `bdsqr`); vectors of large matrices by divide and conquer.

use super::divide_sides;
use super::field::{Field, Real};
use super::once::{Ways, there_and_back};
use super::product::{Steps, product_conj};
use super::qr;
use super::vector::{Turn, Turns, gemv, gemv_h, givens};
use crate::engine::room::{collected, filled};
use crate::num::Arith;

/// What [`svd`] gives of a matrix with no fewer rows than columns.
pub struct Svd<T: Field> {
    /// Left vectors, by columns of `m`; as many as asked for.
    pub u: Vec<T>,
    /// Values, descending.
    pub s: Vec<T::Real>,
    /// Right vectors, by columns of `n`.
    pub v: Vec<T>,
}

/// Which vectors are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Vectors {
    /// None.
    None,
    /// As many as there are values.
    Reduced,
    /// All of both sides.
    Full,
}

/// Decomposes `a` (`m x n` by columns, `m >= n`), which is used up. `None` if it does not converge.
pub fn svd<T: Field>(a: &mut [T], m: usize, n: usize, want: Vectors) -> Option<Svd<T>> {
    type R<T> = <T as Field>::Real;
    let columns = if want == Vectors::Full { m } else { n };
    if n == 0 {
        let mut u = filled(T::ZERO, if want == Vectors::Full { m * m } else { 0 });
        for i in 0..u.len().min(m) {
            u[i * m + i] = T::ONE;
        }
        return Some(Svd { u, s: Vec::new(), v: Vec::new() });
    }
    let most = a.iter().fold(R::<T>::ZERO, |s, v| s.larger(v.weight()));
    let (tiny, huge) = (R::<T>::of(1e-12), R::<T>::of(1e12));
    let exponent = super::field::exponent(most);
    let scaled = most > R::<T>::ZERO && (most < tiny || most > huge);
    if scaled {
        let down = R::<T>::of(2f64.powi(-exponent));
        a.iter_mut().for_each(|v| *v = v.scale(down));
    }
    let mut out = if m > n + n / 2 && m > 8 {
        // first R, which is square
        let mut tau = filled(T::ZERO, n);
        qr::factor(a, m, m, n, &mut tau);
        let mut r = filled(T::ZERO, n * n);
        for j in 0..n {
            r[j * n..j * n + j + 1].copy_from_slice(&a[j * m..j * m + j + 1]);
        }
        let inner =
            square_or_tall(&mut r, n, n, if want == Vectors::None { want } else { Vectors::Reduced })?;
        let mut u = Vec::new();
        if want != Vectors::None {
            u = filled(T::ZERO, m * columns);
            for j in 0..n {
                u[j * m..j * m + n].copy_from_slice(&inner.u[j * n..(j + 1) * n]);
            }
            for j in n..columns {
                u[j * m + j] = T::ONE;
            }
            qr::multiply(a, m, m, &tau, &mut u, m, columns, false);
        }
        Svd { u, ..inner }
    } else {
        square_or_tall(a, m, n, want)?
    };
    if scaled {
        let up = R::<T>::of(2f64.powi(exponent));
        out.s.iter_mut().for_each(|v| *v = *v * up);
    }
    Some(out)
}

fn square_or_tall<T: Field>(a: &mut [T], m: usize, n: usize, want: Vectors) -> Option<Svd<T>> {
    type R<T> = <T as Field>::Real;
    let columns = if want == Vectors::Full { m } else { n };
    let mut d = filled(R::<T>::ZERO, n);
    let mut e = filled(R::<T>::ZERO, n);
    let mut tau_q = filled(T::ZERO, n);
    let mut tau_p = filled(T::ZERO, n);
    // reflectors of rows, by columns
    let mut p = filled(T::ZERO, n * n);
    reduce(a, m, n, Factors { d: &mut d, e: &mut e, tau_q: &mut tau_q, tau_p: &mut tau_p, p: &mut p });
    if want != Vectors::None
        && n >= divide_sides::FROM
        && let Some(found) = divided(a, m, columns, (&d, &e), (&tau_q, &tau_p, &p))
    {
        return Some(found);
    }
    let (mut u, mut v) = (Vec::new(), Vec::new());
    if want != Vectors::None {
        u = filled(T::ZERO, m * columns);
        qr::generate(a, m, m, &tau_q, &mut u, m, columns);
        v = filled(T::ZERO, n * n);
        v[0] = T::ONE;
        if n > 1 {
            qr::generate(&p[1..], n, n - 1, &tau_p[..n - 1], &mut v[n + 1..], n, n - 1);
        }
    }
    let vectors = (want != Vectors::None).then_some(((&mut u[..], m), (&mut v[..], n)));
    if !diagonalise::<T>(&mut d, &mut e, vectors) {
        return None;
    }
    for i in 0..n {
        // -0 too
        if d[i] < R::<T>::ZERO || (d[i] == R::<T>::ZERO && R::<T>::ONE.with_sign(d[i]) < R::<T>::ZERO) {
            d[i] = -d[i];
            if want != Vectors::None {
                v[i * n..(i + 1) * n].iter_mut().for_each(|x| *x = -*x);
            }
        }
    }
    let mut order: Vec<usize> = collected(0..n);
    order.sort_unstable_by(|i, j| d[*j].wide().total_cmp(&d[*i].wide()).then(i.cmp(j)));
    let s = collected(order.iter().map(|i| d[*i]));
    if want != Vectors::None && order.iter().enumerate().any(|(i, o)| i != *o) {
        let sorted = |x: &[T], rows: usize| -> Vec<T> {
            collected(order.iter().flat_map(|o| x[o * rows..(o + 1) * rows].iter().copied()))
        };
        let moved = sorted(&u, m);
        u[..m * n].copy_from_slice(&moved);
        v = sorted(&v, n);
    }
    Some(Svd { u, s, v })
}

/// The decomposition of what [`reduce`] has been through, by divide and conquer; `None` if it was not found.
fn divided<T: Field>(
    a: &[T],
    m: usize,
    columns: usize,
    (d, e): (&[T::Real], &[T::Real]),
    (tau_q, tau_p, p): (&[T], &[T], &[T]),
) -> Option<Svd<T>> {
    let n = d.len();
    let mut values: Vec<f64> = collected(d.iter().map(|v| v.wide()));
    let e: Vec<f64> = collected(e[..n - 1].iter().map(|v| v.wide()));
    let (mut left, mut right) = (filled(T::Real::ZERO, n * n), filled(T::Real::ZERO, n * n));
    if !divide_sides::divide(&mut values, &e, (&mut left, n), (&mut right, n)) {
        return None;
    }
    let (mut u, mut v) = (filled(T::ZERO, m * columns), filled(T::ZERO, n * n));
    for j in 0..n {
        // they ascend
        let from = (n - 1 - j) * n;
        u[j * m..j * m + n].iter_mut().zip(&left[from..]).for_each(|(u, x)| *u = T::real(*x));
        v[j * n..(j + 1) * n].iter_mut().zip(&right[from..]).for_each(|(v, x)| *v = T::real(*x));
    }
    for j in n..columns {
        u[j * m + j] = T::ONE;
    }
    qr::multiply(a, m, m, tau_q, &mut u, m, columns, false);
    qr::multiply(&p[1..], n, n - 1, &tau_p[..n - 1], &mut v[1..], n, n, false);
    let s = collected(values.iter().rev().map(|v| T::Real::of(*v)));
    Some(Svd { u, s, v })
}

/// What [`reduce`] makes beside the reflectors of columns.
struct Factors<'a, T: Field> {
    d: &'a mut [T::Real],
    e: &'a mut [T::Real],
    tau_q: &'a mut [T],
    tau_p: &'a mut [T],
    /// Reflectors of rows, by columns of as many numbers as there are columns.
    p: &'a mut [T],
}
/// Makes the `m x n` matrix `a` upper bidiagonal: diagonal `d`, neighbours `e`, reflectors in the columns below the diagonal and
/// in `p`, and their factors.
fn reduce<T: Field>(a: &mut [T], m: usize, n: usize, f: Factors<T>) {
    let Factors { d, e, tau_q, tau_p, p } = f;
    let mut start = 0;
    while start < n {
        let rest = n - start;
        let nb = if rest <= SMALL { rest } else { BLOCK };
        let f = Factors {
            d: &mut d[start..],
            e: &mut e[start..],
            tau_q: &mut tau_q[start..],
            tau_p: &mut tau_p[start..],
            p: &mut p[start * n + start..],
        };
        panel(&mut a[start * m + start..], (m, n), (m - start, rest), nb, f);
        start += nb;
    }
}
/// Columns and rows of a block.
const BLOCK: usize = 16;
/// Matrices of at most so many columns are one block.
const SMALL: usize = 16;

/// The first `nb` columns and rows, and what they change in the others. The matrix as it becomes is `A - P Q^H`: column `2 i` of P
/// is the reflector of column `i`, column `2 i + 1` of Q that of row `i`.
fn panel<T: Field>(a: &mut [T], (ld, ldp): (usize, usize), (m, n): (usize, usize), nb: usize, f: Factors<T>) {
    let mut p = filled(T::ZERO, m * 2 * nb);
    let mut q = filled(T::ZERO, n * 2 * nb);
    let mut small = filled(T::ZERO, 2 * nb);
    let mut product = filled(T::ZERO, m.max(n));
    for i in 0..nb {
        let (before, between) = (2 * i, 2 * i + 1);
        let small = &mut small[..between];
        let column = &mut a[i * ld + i..i * ld + m];
        (0..before).for_each(|k| small[k] = q[k * n + i].conj());
        gemv(&p[i..], m, -T::ONE, &small[..before], column);
        let t = qr::reflector(column);
        (f.d[i], f.tau_q[i]) = (column[0].re(), t);
        let (rows, rest) = (m - i, n - i - 1);
        p[before * m + i] = T::ONE;
        p[before * m + i + 1..(before + 1) * m].copy_from_slice(&column[1..]);
        if rest == 0 {
            break;
        }
        let (p_before, p_now) = p.split_at_mut(before * m);
        let v = &p_now[i..m];
        // what comes off the column of Q: t Q (P^H v) of the columns before
        let (q_before, q_now) = q.split_at_mut(before * n);
        let y = &mut q_now[i + 1..n];
        gemv_h(&p_before[before.min(1) * i..], m, v, &mut small[..before]);
        gemv(&q_before[before.min(1) * (i + 1)..], n, t, &small[..before], y);
        // what comes to the row, conjugated
        let row = &mut f.p[i * ldp + i + 1..i * ldp + n];
        (0..before).for_each(|k| small[k] = p_before[k * m + i].conj());
        gemv(&q_before[before.min(1) * (i + 1)..], n, -T::ONE, &small[..before], row);
        let trailing = &a[(i + 1) * ld + i..];
        let out = &mut product[..rows];
        there_and_back(trailing, ld, Ways { x: v, factor: t, y, row: &mut *row, out });
        let first = row[0];
        let t = qr::reflector(row);
        (f.e[i], f.tau_p[i]) = (row[0].re(), t);
        q_now[n + i + 1] = T::ONE;
        q_now[n + i + 2..2 * n].copy_from_slice(&row[1..]);
        if t == T::ZERO || rows == 1 {
            continue;
        }
        // A u, from A times the row before it became u
        let u = &q_now[n + i + 1..2 * n];
        let by = first - row[0];
        let x = &mut p_now[m + i + 1..2 * m];
        if by.size() > T::Real::SAFE / T::Real::EPS {
            let by = T::ONE.over(by);
            for ((x, w), a) in x.iter_mut().zip(&out[1..]).zip(&trailing[1..]) {
                *x = (*w - row[0] * *a) * by;
            }
        } else {
            gemv(&trailing[1..], ld, T::ONE, u, x);
        }
        gemv_h(&q[i + 1..], n, &q[between * n + i + 1..(between + 1) * n], small);
        let (p_before, p_now) = p.split_at_mut(between * m);
        let x = &mut p_now[i + 1..m];
        gemv(&p_before[i + 1..], m, -T::ONE, small, x);
        x.iter_mut().for_each(|x| *x = *x * t);
    }
    if nb < n {
        let (rows, rest, k) = (m - nb, n - nb, 2 * nb);
        let c = &mut a[nb * ld + nb..];
        let (ps, qs) = ((&p[nb..], Steps::columns(m)), (&q[nb..], Steps::columns(n)));
        if T::COMPLEX {
            // C^T -= conj(Q) P^T
            let ps = (ps.0, ps.1.t());
            product_conj([rest, rows, k], -T::ONE, qs, ps, T::ONE, (c, Steps::rows(ld)));
        } else {
            let qs = (qs.0, qs.1.t());
            super::product::product([rows, rest, k], -T::ONE, ps, qs, T::ONE, (c, Steps::columns(ld)));
        }
    }
}

/// Singular values of `[[f, g], [0, h]]`, smaller first (LAPACK's `las2`).
fn values_of_two<R: Real>(f: R, g: R, h: R) -> (R, R) {
    let (fa, ga, ha) = (f.magnitude(), g.magnitude(), h.magnitude());
    let (low, high) = (fa.smaller(ha), fa.larger(ha));
    let one = R::ONE;
    if low == R::ZERO {
        if high == R::ZERO {
            return (low, ga);
        }
        let (a, b) = (high.larger(ga), high.smaller(ga));
        return (low, a * (one + (b / a) * (b / a)).root());
    }
    let two = R::of(2.0);
    if ga < high {
        let (s, t, u) = (one + low / high, (high - low) / high, (ga / high) * (ga / high));
        let c = two / ((s * s + u).root() + (t * t + u).root());
        return (low * c, high / c);
    }
    let u = high / ga;
    if u == R::ZERO {
        return ((low * high) / ga, ga);
    }
    let (s, t) = (one + low / high, (high - low) / high);
    let c = one / ((one + (s * u) * (s * u)).root() + (one + (t * u) * (t * u)).root());
    ((low * c) * u * two, ga / (c + c))
}

struct Two<R> {
    least: R,
    most: R,
    right: (R, R),
    left: (R, R),
}
/// Decomposition of `[[f, g], [0, h]]` (LAPACK's `lasv2`).
fn two<R: Real>(f: R, g: R, h: R) -> Two<R> {
    let (zero, one) = (R::ZERO, R::ONE);
    let sign = |v: R| one.with_sign(v);
    let swap = h.magnitude() > f.magnitude();
    let (ft, ht) = if swap { (h, f) } else { (f, h) };
    let (fa, ha, ga) = (ft.magnitude(), ht.magnitude(), g.magnitude());
    let mut pmax = if swap { 3 } else { 1 };
    let (mut least, mut most) = (ha, fa);
    let (mut clt, mut crt, mut slt, mut srt) = (one, one, zero, zero);
    if ga != zero {
        let mut small = true;
        if ga > fa {
            pmax = 2;
            if fa / ga < R::EPS {
                small = false;
                most = ga;
                least = if ha > one { fa / (ga / ha) } else { (fa / ga) * ha };
                (clt, slt, srt, crt) = (one, ht / g, one, ft / g);
            }
        }
        if small {
            let d = fa - ha;
            let mut l = if d == fa { one } else { d / fa };
            let m = g / ft;
            let mut t = R::of(2.0) - l;
            let (mm, tt) = (m * m, t * t);
            let s = (tt + mm).root();
            let r = if l == zero { m.magnitude() } else { (l * l + mm).root() };
            let a = R::of(0.5) * (s + r);
            least = ha / a;
            most = fa * a;
            if mm == zero {
                t = if l == zero { R::of(2.0).with_sign(ft) * sign(g) } else { g / d.with_sign(ft) + m / t };
            } else {
                t = (m / (s + t) + m / (r + l)) * (one + a);
            }
            l = (t * t + R::of(4.0)).root();
            crt = R::of(2.0) / l;
            srt = t / l;
            clt = (crt + srt * m) / a;
            slt = (ht / ft) * srt / a;
        }
    }
    let (csl, snl, csr, snr) = if swap { (srt, crt, slt, clt) } else { (clt, slt, crt, srt) };
    let tsign = match pmax {
        1 => sign(csr) * sign(csl) * sign(f),
        2 => sign(snr) * sign(csl) * sign(g),
        _ => sign(snr) * sign(snl) * sign(h),
    };
    Two {
        least: least.with_sign(tsign * sign(f) * sign(h)),
        most: most.with_sign(tsign),
        right: (csr, snr),
        left: (csl, snl),
    }
}

/// Left and right vectors by columns, with the rows of each.
pub type Sides<'a, T> = ((&'a mut [T], usize), (&'a mut [T], usize));

/// Makes the upper bidiagonal matrix diagonal; columns of vectors are turned along. Whether it converged.
pub fn diagonalise<T: Field>(d: &mut [T::Real], e: &mut [T::Real], mut sides: Option<Sides<'_, T>>) -> bool {
    type R<T> = <T as Field>::Real;
    let n = d.len();
    let (zero, one, eps) = (R::<T>::ZERO, R::<T>::ONE, R::<T>::EPS);
    let want = sides.is_some();
    let (mut left, mut right): (Vec<Turn<R<T>>>, Vec<Turn<R<T>>>) = (Vec::new(), Vec::new());
    let mut flush = |l: &mut Vec<Turn<R<T>>>, r: &mut Vec<Turn<R<T>>>, all: bool| {
        if let Some(((u, m), (v, n))) = &mut sides
            && (all || l.len() > 2048)
        {
            Turns::apply(u, *m, *m, l);
            Turns::apply(v, *n, *n, r);
            l.clear();
            r.clear();
        }
    };
    let tol = R::<T>::of(eps.wide().powf(-0.125).clamp(10.0, 100.0) * eps.wide());
    // the smallest value is at least this
    let mut mu = d[0].magnitude();
    let mut smallest = mu;
    for i in 1..n {
        if smallest == zero {
            break;
        }
        mu = d[i].magnitude() * (mu / (mu + e[i - 1].magnitude()));
        smallest = smallest.smaller(mu);
    }
    let smallest = smallest / R::<T>::of((n as f64).sqrt());
    let threshold = (tol * smallest).larger(R::<T>::of(6.0 * (n * n) as f64) * R::<T>::SAFE);
    let mut budget = 6 * n * n + 60;
    let (mut old_low, mut old_high) = (usize::MAX, usize::MAX);
    let mut down = true;
    // the last place of the part that is not diagonal yet
    let mut high = n - 1;
    'blocks: while high > 0 {
        if budget == 0 {
            return false;
        }
        let mut most = d[high].magnitude();
        let mut low = high;
        while low > 0 {
            let abse = e[low - 1].magnitude();
            if abse <= threshold {
                e[low - 1] = zero;
                break;
            }
            most = most.larger(d[low - 1].magnitude()).larger(abse);
            low -= 1;
        }
        if low == high {
            high -= 1;
            continue;
        }
        if low + 1 == high {
            let t = two(d[low], e[low], d[high]);
            (d[low], e[low], d[high]) = (t.most, zero, t.least);
            if want {
                right.push(Turn { at: low, c: t.right.0, s: t.right.1 });
                left.push(Turn { at: low, c: t.left.0, s: t.left.1 });
            }
            if low == 0 {
                break;
            }
            high = low - 1;
            continue;
        }
        if old_high == usize::MAX || low > old_high || high < old_low {
            down = d[low].magnitude() >= d[high].magnitude();
        }
        // places that may count as zero
        let mut least;
        if down {
            if e[high - 1].magnitude() <= tol * d[high].magnitude() {
                e[high - 1] = zero;
                continue;
            }
            let mut mu = d[low].magnitude();
            least = mu;
            for i in low..high {
                if e[i].magnitude() <= tol * mu {
                    e[i] = zero;
                    continue 'blocks;
                }
                mu = d[i + 1].magnitude() * (mu / (mu + e[i].magnitude()));
                least = least.smaller(mu);
            }
        } else {
            if e[low].magnitude() <= tol * d[low].magnitude() {
                e[low] = zero;
                continue;
            }
            let mut mu = d[high].magnitude();
            least = mu;
            for i in (low..high).rev() {
                if e[i].magnitude() <= tol * mu {
                    e[i] = zero;
                    continue 'blocks;
                }
                mu = d[i].magnitude() * (mu / (mu + e[i].magnitude()));
                least = least.smaller(mu);
            }
        }
        (old_low, old_high) = (low, high);
        let mut shift = zero;
        if R::<T>::of(n as f64) * tol * (least / most) > eps.larger(R::<T>::of(0.01) * tol) {
            let end;
            (end, shift) = if down {
                (d[low].magnitude(), values_of_two(d[high - 1], e[high - 1], d[high]).0)
            } else {
                (d[high].magnitude(), values_of_two(d[low], e[low], d[low + 1]).0)
            };
            if end > zero && (shift / end) * (shift / end) < eps {
                shift = zero;
            }
        }
        budget = budget.saturating_sub(high - low);
        match (shift == zero, down) {
            (true, true) => {
                let (mut cs, mut old_cs, mut old_sn) = (one, one, zero);
                for i in low..high {
                    let (c, sn, r) = givens(d[i] * cs, e[i]);
                    cs = c;
                    if i > low {
                        e[i - 1] = old_sn * r;
                    }
                    (old_cs, old_sn, d[i]) = givens(old_cs * r, d[i + 1] * sn);
                    if want {
                        right.push(Turn { at: i, c: cs, s: sn });
                        left.push(Turn { at: i, c: old_cs, s: old_sn });
                    }
                }
                let h = d[high] * cs;
                d[high] = h * old_cs;
                e[high - 1] = h * old_sn;
            }
            (true, false) => {
                let (mut cs, mut old_cs, mut old_sn) = (one, one, zero);
                for i in (low + 1..=high).rev() {
                    let (c, sn, r) = givens(d[i] * cs, e[i - 1]);
                    cs = c;
                    if i < high {
                        e[i] = old_sn * r;
                    }
                    (old_cs, old_sn, d[i]) = givens(old_cs * r, d[i - 1] * sn);
                    if want {
                        left.push(Turn { at: i - 1, c: cs, s: -sn });
                        right.push(Turn { at: i - 1, c: old_cs, s: -old_sn });
                    }
                }
                let h = d[low] * cs;
                d[low] = h * old_cs;
                e[low] = h * old_sn;
            }
            (false, true) => {
                let mut f = (d[low].magnitude() - shift) * (one.with_sign(d[low]) + shift / d[low]);
                let mut g = e[low];
                for i in low..high {
                    let (cr, sr, r) = givens(f, g);
                    if i > low {
                        e[i - 1] = r;
                    }
                    f = cr * d[i] + sr * e[i];
                    e[i] = cr * e[i] - sr * d[i];
                    g = sr * d[i + 1];
                    d[i + 1] = cr * d[i + 1];
                    let (cl, sl, r) = givens(f, g);
                    d[i] = r;
                    f = cl * e[i] + sl * d[i + 1];
                    d[i + 1] = cl * d[i + 1] - sl * e[i];
                    if i + 1 < high {
                        g = sl * e[i + 1];
                        e[i + 1] = cl * e[i + 1];
                    }
                    if want {
                        right.push(Turn { at: i, c: cr, s: sr });
                        left.push(Turn { at: i, c: cl, s: sl });
                    }
                }
                e[high - 1] = f;
            }
            (false, false) => {
                let mut f = (d[high].magnitude() - shift) * (one.with_sign(d[high]) + shift / d[high]);
                let mut g = e[high - 1];
                for i in (low + 1..=high).rev() {
                    let (cr, sr, r) = givens(f, g);
                    if i < high {
                        e[i] = r;
                    }
                    f = cr * d[i] + sr * e[i - 1];
                    e[i - 1] = cr * e[i - 1] - sr * d[i];
                    g = sr * d[i - 1];
                    d[i - 1] = cr * d[i - 1];
                    let (cl, sl, r) = givens(f, g);
                    d[i] = r;
                    f = cl * e[i - 1] + sl * d[i - 1];
                    d[i - 1] = cl * d[i - 1] - sl * e[i - 1];
                    if i > low + 1 {
                        g = sl * e[i - 2];
                        e[i - 2] = cl * e[i - 2];
                    }
                    if want {
                        left.push(Turn { at: i - 1, c: cr, s: -sr });
                        right.push(Turn { at: i - 1, c: cl, s: -sl });
                    }
                }
                e[low] = f;
            }
        }
        let end = if down { high - 1 } else { low };
        if e[end].magnitude() <= threshold {
            e[end] = zero;
        }
        flush(&mut left, &mut right, false);
    }
    flush(&mut left, &mut right, true);
    true
}
