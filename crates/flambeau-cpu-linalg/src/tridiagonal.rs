//! Eigenvalues and vectors of Hermitian matrices: a tridiagonal matrix by reflectors, in blocks, and implicit QL or QR steps on
//! that, whichever end is the smaller (LAPACK's `steqr`).

use super::divide;
use super::field::{Field, Real};
use super::once::hermitian;
use super::product::{Steps, product, product_conj};
use super::qr::{generate, multiply, reflector};
use super::vector::{Turn, Turns, axpy, dot, gemv, gemv_h, givens};
use crate::engine::SharedMut;
use crate::engine::parallel::parallel_for;
use crate::engine::room::{collected, filled};
use crate::num::Arith;

/// Columns of a block.
const BLOCK: usize = 16;
/// Trailing matrices below this size are reduced column by column.
const SMALL: usize = 16;

/// Reduces the Hermitian `n x n` matrix whose lower half `a` holds, by columns, in place: diagonal `d`, below it `e`, reflectors
/// in the columns from the second place below the diagonal on, and their factors.
fn reduce<T: Field>(a: &mut [T], n: usize, d: &mut [T::Real], e: &mut [T::Real], tau: &mut [T]) {
    let mut start = 0;
    while n - start > SMALL {
        let (m, nb) = (n - start, BLOCK);
        panel(&mut a[start * n + start..], n, m, nb, &mut d[start..], &mut e[start..], &mut tau[start..]);
        start += nb;
    }
    let m = n - start;
    if m > 0 {
        let last = m - 1;
        panel(&mut a[start * n + start..], n, m, last, &mut d[start..], &mut e[start..], &mut tau[start..]);
        d[n - 1] = a[(n - 1) * n + n - 1].re();
    }
}
/// The first `nb` columns, and what they change in the others. The matrix as it becomes is `A - P Q^H`: columns `2 j` of P and
/// `2 j + 1` of Q are reflectors, with their ones, the others the vectors that the update is made of.
fn panel<T: Field>(
    a: &mut [T],
    ld: usize,
    m: usize,
    nb: usize,
    d: &mut [T::Real],
    e: &mut [T::Real],
    tau: &mut [T],
) {
    let mut p = filled(T::ZERO, 2 * m * nb);
    let mut q = filled(T::ZERO, 2 * m * nb);
    let mut small = filled(T::ZERO, 2 * nb);
    for j in 0..nb {
        let before = 2 * j;
        let small = &mut small[..before];
        let column = &mut a[j * ld + j..j * ld + m];
        (0..before).for_each(|k| small[k] = q[k * m + j].conj());
        gemv(&p[j..], m, -T::ONE, small, column);
        d[j] = column[0].re();
        column[0] = T::real(d[j]);
        let t = reflector(&mut column[1..]);
        e[j] = column[1].re();
        tau[j] = t;
        let (p_before, p_now) = p.split_at_mut(before * m);
        let (q_before, q_now) = q.split_at_mut(before * m);
        let v = &mut p_now[j + 1..m];
        v[0] = T::ONE;
        v[1..].copy_from_slice(&column[2..]);
        q_now[m + j + 1..2 * m].copy_from_slice(v);
        if t == T::ZERO {
            continue;
        }
        let w = &mut q_now[j + 1..m];
        // of the matrix before this block
        hermitian(&a[(j + 1) * ld + j + 1..], ld, v, w);
        if before > 0 {
            gemv_h(&q_before[j + 1..], m, v, small);
            gemv(&p_before[j + 1..], m, -T::ONE, small, w);
        }
        w.iter_mut().for_each(|x| *x = *x * t);
        let half = T::real(T::Real::of(-0.5)) * t * dot(w, v);
        axpy(half, v, w);
        p_now[m + j + 1..2 * m].copy_from_slice(w);
    }
    if nb > 0 && nb < m {
        let (rest, k, cols) = (m - nb, 2 * nb, Steps::columns(m));
        // the lower half, by columns of squares
        let squares = rest.div_ceil(SQUARE);
        let c = SharedMut::new(&mut a[nb * ld..]);
        let (p, q) = (&p[nb..], &q[nb..]);
        parallel_for(squares, 1 + (1 << 21) / (k * rest * SQUARE), |range| {
            for s in range {
                let from = s * SQUARE;
                let (rows, wide) = (rest - from, SQUARE.min(rest - from));
                let at = from * ld + nb + from;
                // SAFETY: each column is one task's.
                let c = unsafe { c.slice(at, (wide - 1) * ld + rows) };
                let (ps, qs) = ((&p[from..], cols), (&q[from..], cols));
                if T::COMPLEX {
                    // C^T -= conj(Q) P^T
                    let ps = (ps.0, cols.t());
                    product_conj([wide, rows, k], -T::ONE, qs, ps, T::ONE, (c, Steps::rows(ld)));
                } else {
                    let qs = (qs.0, cols.t());
                    product([rows, wide, k], -T::ONE, ps, qs, T::ONE, (c, Steps::columns(ld)));
                }
            }
        });
    }
}
/// Columns of the trailing matrix that are updated at a time.
const SQUARE: usize = 128;

/// `(larger magnitude, other, c, s)` of `[[a, b], [b, c]]` (LAPACK's `laev2`).
fn two_by_two<R: Real>(a: R, b: R, c: R) -> (R, R, R, R) {
    let two = R::of(2.0);
    let (sm, df) = (a + c, a - c);
    let (adf, tb) = (df.magnitude(), b + b);
    let ab = tb.magnitude();
    let (acmx, acmn) = if a.magnitude() > c.magnitude() { (a, c) } else { (c, a) };
    let rt = if adf > ab {
        adf * (R::ONE + (ab / adf) * (ab / adf)).root()
    } else if adf < ab {
        ab * (R::ONE + (adf / ab) * (adf / ab)).root()
    } else {
        ab * two.root()
    };
    let half = R::of(0.5);
    let (rt1, rt2, sgn1) = if sm < R::ZERO {
        let rt1 = half * (sm - rt);
        (rt1, (acmx / rt1) * acmn - (b / rt1) * b, -R::ONE)
    } else if sm > R::ZERO {
        let rt1 = half * (sm + rt);
        (rt1, (acmx / rt1) * acmn - (b / rt1) * b, R::ONE)
    } else {
        (half * rt, -half * rt, R::ONE)
    };
    let (cs, sgn2) = if df >= R::ZERO { (df + rt, R::ONE) } else { (df - rt, -R::ONE) };
    let (cs1, sn1) = if cs.magnitude() > ab {
        let ct = -tb / cs;
        let sn1 = R::ONE / (R::ONE + ct * ct).root();
        (ct * sn1, sn1)
    } else if ab == R::ZERO {
        (R::ONE, R::ZERO)
    } else {
        let tn = -cs / tb;
        let cs1 = R::ONE / (R::ONE + tn * tn).root();
        (cs1, tn * cs1)
    };
    if sgn1 == sgn2 { (rt1, rt2, -sn1, cs1) } else { (rt1, rt2, cs1, sn1) }
}

/// Diagonalises the tridiagonal matrix: `d` becomes the eigenvalues, in no order, and the columns of `z` are turned along. The
/// number of places off the diagonal that did not vanish.
pub fn diagonalise<T: Field>(
    d: &mut [T::Real],
    e: &mut [T::Real],
    mut z: Option<(&mut [T], usize, usize)>,
) -> usize {
    type R<T> = <T as Field>::Real;
    let n = d.len();
    if n == 0 {
        return 0;
    }
    let (eps, safe, zero, one) = (R::<T>::EPS, R::<T>::SAFE, R::<T>::ZERO, R::<T>::ONE);
    let two = R::<T>::of(2.0);
    let eps2 = eps * eps;
    let mut left = 30 * n;
    let mut turns: Vec<Turn<R<T>>> = Vec::new();
    let want = z.is_some();
    let mut flush = |turns: &mut Vec<Turn<R<T>>>, all: bool| {
        if let Some((z, ld, rows)) = &mut z
            && (all || turns.len() > 2048)
        {
            Turns::apply(z, *ld, *rows, turns);
            turns.clear();
        }
    };
    let mut first = 0;
    while first < n {
        // one block that does not fall apart
        let mut m = first;
        while m + 1 < n {
            let t = e[m].magnitude();
            if t == zero {
                break;
            }
            if t <= d[m].magnitude().root() * d[m + 1].magnitude().root() * eps {
                e[m] = zero;
                break;
            }
            m += 1;
        }
        let (low, high) = (first, m);
        first = m + 1;
        if low == high {
            continue;
        }
        if d[high].magnitude() >= d[low].magnitude() {
            // QL: from the top
            let mut l = low;
            while l <= high {
                let mut m = l;
                while m < high {
                    let t = e[m].magnitude();
                    if t * t <= eps2 * d[m].magnitude() * d[m + 1].magnitude() + safe {
                        break;
                    }
                    m += 1;
                }
                if m < high {
                    e[m] = zero;
                }
                if m == l {
                    l += 1;
                    continue;
                }
                if m == l + 1 {
                    let (a, b, c, s) = two_by_two(d[l], e[l], d[l + 1]);
                    if want {
                        turns.push(Turn { at: l, c, s });
                    }
                    (d[l], d[l + 1], e[l]) = (a, b, zero);
                    l += 2;
                    continue;
                }
                if left == 0 {
                    break;
                }
                left -= 1;
                let p0 = d[l];
                let mut g = (d[l + 1] - p0) / (two * e[l]);
                let r = g.hypot(one);
                g = d[m] - p0 + e[l] / (g + r.with_sign(g));
                let (mut s, mut c, mut p) = (one, one, zero);
                for i in (l..m).rev() {
                    let (f, b) = (s * e[i], c * e[i]);
                    let r;
                    (c, s, r) = givens(g, f);
                    if i + 1 != m {
                        e[i + 1] = r;
                    }
                    g = d[i + 1] - p;
                    let r = (d[i] - g) * s + two * c * b;
                    p = s * r;
                    d[i + 1] = g + p;
                    g = c * r - b;
                    if want {
                        turns.push(Turn { at: i, c, s: -s });
                    }
                }
                d[l] = d[l] - p;
                e[l] = g;
                flush(&mut turns, false);
            }
        } else {
            // QR: from the bottom; `l` is one more than the place
            let mut l = high + 1;
            while l > low {
                let at = l - 1;
                let mut m = at;
                while m > low {
                    let t = e[m - 1].magnitude();
                    if t * t <= eps2 * d[m].magnitude() * d[m - 1].magnitude() + safe {
                        break;
                    }
                    m -= 1;
                }
                if m > low {
                    e[m - 1] = zero;
                }
                if m == at {
                    l -= 1;
                    continue;
                }
                if m + 1 == at {
                    let (a, b, c, s) = two_by_two(d[at - 1], e[at - 1], d[at]);
                    if want {
                        turns.push(Turn { at: m, c, s });
                    }
                    (d[at - 1], d[at], e[at - 1]) = (a, b, zero);
                    l -= 2;
                    continue;
                }
                if left == 0 {
                    break;
                }
                left -= 1;
                let p0 = d[at];
                let mut g = (d[at - 1] - p0) / (two * e[at - 1]);
                let r = g.hypot(one);
                g = d[m] - p0 + e[at - 1] / (g + r.with_sign(g));
                let (mut s, mut c, mut p) = (one, one, zero);
                for i in m..at {
                    let (f, b) = (s * e[i], c * e[i]);
                    let r;
                    (c, s, r) = givens(g, f);
                    if i != m {
                        e[i - 1] = r;
                    }
                    g = d[i] - p;
                    let r = (d[i + 1] - g) * s + two * c * b;
                    p = s * r;
                    d[i] = g + p;
                    g = c * r - b;
                    if want {
                        turns.push(Turn { at: i, c, s });
                    }
                }
                d[at] = d[at] - p;
                e[at - 1] = g;
                flush(&mut turns, false);
            }
        }
    }
    flush(&mut turns, true);
    e[..n - 1].iter().filter(|v| **v != zero).count()
}

/// Eigenvalues and vectors of a large matrix that [`reduce`] has been through, in its place; `None` if they were not found.
fn joined<T: Field>(a: &mut [T], n: usize, values: &mut [T::Real], e: &[T::Real], tau: &[T]) -> Option<()> {
    let mut d: Vec<f64> = collected(values.iter().map(|v| v.wide()));
    let e: Vec<f64> = collected(e[..n - 1].iter().map(|v| v.wide()));
    let mut z = filled(T::Real::ZERO, n * n);
    if !divide::divide(&mut d, &e, &mut z, n) {
        return None;
    }
    values.iter_mut().zip(d).for_each(|(v, d)| *v = T::Real::of(d));
    let mut q: Vec<T> = collected(z.into_iter().map(T::real));
    multiply(&a[1..], n, n - 1, &tau[..n - 1], &mut q[1..], n, n, false);
    a.copy_from_slice(&q);
    Some(())
}

/// Eigenvalues, ascending, of the Hermitian matrix whose lower half `a` holds by columns, and, with `vectors`, eigenvectors in
/// its place. 0, or how many places did not converge.
pub fn eigh<T: Field>(a: &mut [T], n: usize, values: &mut [T::Real], vectors: bool) -> i32 {
    type R<T> = <T as Field>::Real;
    if n == 0 {
        return 0;
    }
    let mut most = R::<T>::ZERO;
    for j in 0..n {
        a[j * n + j] = T::real(a[j * n + j].re());
        for i in j..n {
            let v = a[j * n + i];
            if !v.finite() {
                // LAPACK does not converge on NaN, and makes NaN of infinities
                let undefined = a.iter().any(|v| v.re() != v.re() || v.im() != v.im());
                let nan = R::<T>::of(f64::NAN);
                values.fill(nan);
                a.fill(T::ZERO);
                a.iter_mut().step_by(n + 1).for_each(|v| *v = T::ONE);
                return if !undefined {
                    0
                } else if vectors {
                    (n as i32 - 1).max(1)
                } else {
                    1
                };
            }
            most = most.larger(v.weight());
        }
    }
    // neither squares may overflow nor small ones vanish; powers of two change no digit
    let (tiny, huge) = (R::<T>::of(1e-12), R::<T>::of(1e12));
    let scale = if most > R::<T>::ZERO && (most < tiny || most > huge) {
        R::<T>::of(2f64.powi(-super::field::exponent(most)))
    } else {
        R::<T>::ONE
    };
    if scale != R::<T>::ONE {
        a.iter_mut().for_each(|v| *v = v.scale(scale));
    }
    let mut e = filled(R::<T>::ZERO, n);
    let mut tau = filled(T::ZERO, n);
    reduce(a, n, values, &mut e, &mut tau);
    let info = if vectors && n >= divide::FROM && joined(a, n, values, &e, &tau).is_some() {
        0
    } else if vectors {
        let mut q = filled(T::ZERO, n * n);
        q[0] = T::ONE;
        if n > 1 {
            generate(&a[1..], n, n - 1, &tau[..n - 1], &mut q[n + 1..], n, n - 1);
        }
        let info = diagonalise(values, &mut e, Some((&mut q[..], n, n)));
        let mut order: Vec<usize> = collected(0..n);
        order.sort_unstable_by(|i, j| values[*i].wide().total_cmp(&values[*j].wide()).then(i.cmp(j)));
        let sorted: Vec<_> = collected(order.iter().map(|i| values[*i]));
        values.copy_from_slice(&sorted);
        for (to, from) in order.iter().enumerate() {
            a[to * n..(to + 1) * n].copy_from_slice(&q[from * n..(from + 1) * n]);
        }
        info
    } else {
        let info = diagonalise::<T>(values, &mut e, None);
        values.sort_unstable_by(|x, y| x.wide().total_cmp(&y.wide()));
        info
    };
    if scale != R::<T>::ONE {
        values.iter_mut().for_each(|v| *v = *v / scale);
    }
    info as i32
}
