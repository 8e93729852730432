//! Eigenvalues and vectors of Hermitian matrices: a tridiagonal matrix by reflectors, in blocks, and implicit QL or QR steps on
//! that, whichever end is the smaller (LAPACK's `steqr`).

use super::divide;
use super::field::{Field, Real};
use super::product::{Steps, product, product_conj};
use super::qr::{generate, multiply, reflector};
use super::vector::{Turn, Turns, axpy, dot, gemv, gemv_h, givens};
use crate::engine::room::{collected, filled};
use crate::num::Arith;

/// Columns of a block.
const BLOCK: usize = 32;
/// Trailing matrices below this size are reduced column by column.
const SMALL: usize = 48;

/// Reduces the Hermitian `n x n` matrix `a` (both halves, by columns) in place: diagonal `d`, below it `e`, reflectors in the
/// columns from the second place below the diagonal on, and their factors.
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
/// The first `nb` columns, and what they change in the others.
fn panel<T: Field>(
    a: &mut [T],
    ld: usize,
    m: usize,
    nb: usize,
    d: &mut [T::Real],
    e: &mut [T::Real],
    tau: &mut [T],
) {
    // reflectors with their ones, and the vectors that the update is made of
    let mut v = filled(T::ZERO, m * nb);
    let mut w = filled(T::ZERO, m * nb);
    let mut x = filled(T::ZERO, m);
    let mut small = filled(T::ZERO, nb);
    for j in 0..nb {
        let column = &mut a[j * ld + j..j * ld + m];
        if j > 0 {
            // less V w^H + W v^H of the columns before
            for i in 0..j {
                small[i] = w[i * m + j].conj();
            }
            gemv(&v[j..], m, -T::ONE, &small[..j], column);
            for i in 0..j {
                small[i] = v[i * m + j].conj();
            }
            gemv(&w[j..], m, -T::ONE, &small[..j], column);
        }
        d[j] = column[0].re();
        column[0] = T::real(d[j]);
        let t = reflector(&mut column[1..]);
        e[j] = column[1].re();
        tau[j] = t;
        let v_at = j * m + j + 1;
        v[v_at] = T::ONE;
        v[v_at + 1..(j + 1) * m].copy_from_slice(&column[2..]);
        if t == T::ZERO {
            continue;
        }
        let rest = m - j - 1;
        let (v_before, v_now) = v.split_at_mut(j * m);
        let v_now = &v_now[j + 1..m];
        let (w_before, w_now) = w.split_at_mut(j * m);
        let w_now = &mut w_now[j + 1..m];
        // of the matrix before this block
        gemv_h(&a[(j + 1) * ld + j + 1..], ld, v_now, w_now);
        if j > 0 {
            let y = &mut x[..j];
            gemv_h(&w_before[j + 1..], m, v_now, y);
            gemv(&v_before[j + 1..], m, -T::ONE, y, w_now);
            gemv_h(&v_before[j + 1..], m, v_now, y);
            gemv(&w_before[j + 1..], m, -T::ONE, y, w_now);
        }
        w_now.iter_mut().for_each(|x| *x = *x * t);
        let half = T::real(T::Real::of(-0.5)) * t * dot(w_now, v_now);
        axpy(half, v_now, w_now);
        debug_assert_eq!(w_now.len(), rest);
    }
    if nb < m {
        let rest = m - nb;
        let c = &mut a[nb * ld + nb..];
        let (vs, ws) = (&v[nb..], &w[nb..]);
        let cols = Steps::columns(m);
        if T::COMPLEX {
            // C^T -= conj(W) V^T + conj(V) W^T
            let out = Steps::rows(ld);
            product_conj([rest, rest, nb], -T::ONE, (ws, cols), (vs, cols.t()), T::ONE, (&mut *c, out));
            product_conj([rest, rest, nb], -T::ONE, (vs, cols), (ws, cols.t()), T::ONE, (c, out));
        } else {
            let out = Steps::columns(ld);
            product([rest, rest, nb], -T::ONE, (vs, cols), (ws, cols.t()), T::ONE, (&mut *c, out));
            product([rest, rest, nb], -T::ONE, (ws, cols), (vs, cols.t()), T::ONE, (c, out));
        }
    }
}

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
    let mut e: Vec<f64> = collected(e[..n - 1].iter().map(|v| v.wide()));
    let mut z = filled(T::Real::ZERO, n * n);
    if !divide::divide(&mut d, &mut e, &mut z, n) {
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
            a[i * n + j] = v.conj();
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
    let info = if vectors && n > divide::LEAST && joined(a, n, values, &e, &tau).is_some() {
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
