//! Singular values and vectors: a bidiagonal matrix by reflectors, and implicit QR steps on that, of which those without shift
//! keep the digits of small values (LAPACK's `bdsqr`).

use super::field::{Field, Real};
use super::qr;
use super::vector::{Turn, Turns, gemv, ger, givens};
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
    let mut w = filled(T::ZERO, m.max(n));
    for i in 0..n {
        let t = qr::reflector(&mut a[i * m + i..(i + 1) * m]);
        (d[i], tau_q[i]) = (a[i * m + i].re(), t);
        if i + 1 == n {
            break;
        }
        let (left, right) = a.split_at_mut((i + 1) * m);
        if t != T::ZERO {
            let v = &mut left[i * m + i..(i + 1) * m];
            let head = v[0];
            v[0] = T::ONE;
            qr::reflect(v, t.conj(), &mut right[i..], m, n - i - 1);
            v[0] = head;
        }
        // the row, conjugated
        let row = &mut p[i * n + i + 1..(i + 1) * n];
        for (j, x) in row.iter_mut().enumerate() {
            *x = right[j * m + i].conj();
        }
        let t = qr::reflector(row);
        (e[i], tau_p[i]) = (row[0].re(), t);
        if t != T::ZERO && i + 1 < m {
            let head = row[0];
            row[0] = T::ONE;
            let w = &mut w[..m - i - 1];
            w.fill(T::ZERO);
            gemv(&right[i + 1..], m, T::ONE, row, w);
            w.iter_mut().for_each(|x| *x = -(*x * t));
            let conj: Vec<T> = collected(row.iter().map(|x| x.conj()));
            ger(&mut right[i + 1..], m, w, &conj);
            row[0] = head;
        }
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
type Sides<'a, T> = ((&'a mut [T], usize), (&'a mut [T], usize));

/// Makes the upper bidiagonal matrix diagonal; columns of vectors are turned along. Whether it converged.
fn diagonalise<T: Field>(d: &mut [T::Real], e: &mut [T::Real], mut sides: Option<Sides<'_, T>>) -> bool {
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
