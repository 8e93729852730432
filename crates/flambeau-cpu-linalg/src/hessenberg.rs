//! Eigenvalues and vectors of general matrices, in f64: balancing, Hessenberg form, shifted QR steps. Real matrices stay real, so
//! that their complex eigenvalues come in exact pairs.

use super::field::Field;
use super::qr::{generate, reflector};
use super::vector::{axpy, gemv, gemv_h, ger};
use crate::engine::room::{collected, filled};
use num_complex::Complex;

type C = Complex<f64>;

/// Scales rows and columns by powers of two until their sizes are alike; what column `i` was scaled by.
fn balance<T: Field<Real = f64>>(a: &mut [T], n: usize) -> Vec<f64> {
    let mut by = filled(1.0, n);
    for _ in 0..100 {
        let mut done = true;
        for i in 0..n {
            let (mut c, mut r) = (0.0, 0.0);
            for j in (0..n).filter(|j| *j != i) {
                c += a[i * n + j].weight();
                r += a[j * n + i].weight();
            }
            if c == 0.0 || r == 0.0 {
                continue;
            }
            let (mut f, s) = (1.0f64, c + r);
            let mut g = r / 2.0;
            while c < g && f < 1e150 {
                f *= 2.0;
                c *= 4.0;
            }
            g = r * 2.0;
            while c >= g && f > 1e-150 {
                f /= 2.0;
                c /= 4.0;
            }
            if (c + r) / f < 0.95 * s {
                done = false;
                by[i] *= f;
                for j in 0..n {
                    a[j * n + i] = a[j * n + i].scale(1.0 / f);
                    a[i * n + j] = a[i * n + j].scale(f);
                }
            }
        }
        if done {
            break;
        }
    }
    by
}
/// Hessenberg form in place, by columns; with `want` the product of the reflectors.
fn reduce<T: Field>(a: &mut [T], n: usize, want: bool) -> Vec<T> {
    let mut tau = filled(T::ZERO, n);
    let mut w = filled(T::ZERO, n);
    for k in 0..n.saturating_sub(2) {
        let t = reflector(&mut a[k * n + k + 1..(k + 1) * n]);
        tau[k] = t;
        if t == T::ZERO {
            continue;
        }
        let (left, right) = a.split_at_mut((k + 1) * n);
        let v = &mut left[k * n + k + 1..];
        let head = v[0];
        v[0] = T::ONE;
        // from the right, and the adjoint from the left
        w.fill(T::ZERO);
        gemv(right, n, T::ONE, v, &mut w);
        w.iter_mut().for_each(|x| *x = -(*x * t));
        let conj: Vec<T> = collected(v.iter().map(|x| x.conj()));
        ger(right, n, &w, &conj);
        let (y, rows) = (&mut w[..n - k - 1], &mut right[k + 1..]);
        gemv_h(rows, n, v, y);
        y.iter_mut().for_each(|x| *x = -(x.conj() * t.conj()));
        ger(rows, n, v, y);
        v[0] = head;
    }
    let mut q = Vec::new();
    if want {
        q = filled(T::ZERO, n * n);
        q[0] = T::ONE;
        if n > 1 {
            generate(&a[1..], n, n - 1, &tau[..n - 1], &mut q[n + 1..], n, n - 1);
        }
    }
    for j in 0..n {
        a[(j * n + j + 2).min((j + 1) * n)..(j + 1) * n].fill(T::ZERO);
    }
    q
}

/// Eigenvalues of a real matrix by columns, which is used up, and with `want` eigenvectors by columns, each of length 1.
/// `None` if it does not converge.
pub fn real(a: &mut [f64], n: usize, want: bool) -> Option<(Vec<C>, Vec<C>)> {
    if n == 0 {
        return Some((Vec::new(), Vec::new()));
    }
    let by = balance(a, n);
    let mut q = reduce(a, n, want);
    let (wr, wi) = schur_real(a, n, want.then_some(&mut q[..]))?;
    let values: Vec<C> = collected((0..n).map(|i| C::new(wr[i], wi[i])));
    if !want {
        return Some((values, Vec::new()));
    }
    vectors_real(a, &mut q, n, &wr, &wi);
    let mut v = filled(C::new(0.0, 0.0), n * n);
    let mut j = 0;
    while j < n {
        let pair = wi[j] != 0.0 && j + 1 < n;
        for i in 0..n {
            let im = if pair { q[(j + 1) * n + i] } else { 0.0 };
            v[j * n + i] = C::new(q[j * n + i], im).scale(by[i]);
        }
        unit(&mut v[j * n..(j + 1) * n]);
        if pair {
            let (x, y) = v[j * n..].split_at_mut(n);
            x.iter().zip(y).for_each(|(x, y)| *y = x.conj());
            j += 1;
        }
        j += 1;
    }
    Some((values, v))
}
/// Scales to length 1; of a complex vector the largest element becomes real.
fn unit(v: &mut [C]) {
    let norm = super::vector::norm(v);
    if norm == 0.0 || !norm.is_finite() {
        return;
    }
    v.iter_mut().for_each(|x| *x /= norm);
    if v.iter().all(|x| x.im == 0.0) {
        return;
    }
    let largest = v.iter().enumerate().fold((0, -1.0), |m, (i, x)| {
        let s = x.norm_sqr();
        if s > m.1 { (i, s) } else { m }
    });
    let turn = v[largest.0].conj() / v[largest.0].norm();
    v.iter_mut().for_each(|x| *x *= turn);
    v[largest.0].im = 0.0;
}

/// Real Schur form of a Hessenberg matrix by Francis steps (EISPACK's `hqr2`); the columns of `v` are turned along.
fn schur_real(h: &mut [f64], nn: usize, mut v: Option<&mut [f64]>) -> Option<(Vec<f64>, Vec<f64>)> {
    let at = |i: usize, j: usize| j * nn + i;
    let (mut d, mut e) = (filled(0.0, nn), filled(0.0, nn));
    let mut norm = 0.0;
    for i in 0..nn {
        for j in i.saturating_sub(1)..nn {
            norm += h[at(i, j)].abs();
        }
    }
    let eps = f64::EPSILON;
    let whole = v.is_some();
    let (mut exshift, mut iter) = (0.0, 0);
    let mut n = nn as isize - 1;
    while n >= 0 {
        let nu = n as usize;
        let mut l = nu;
        while l > 0 {
            let mut s = h[at(l - 1, l - 1)].abs() + h[at(l, l)].abs();
            if s == 0.0 {
                s = norm;
            }
            if h[at(l, l - 1)].abs() <= eps * s {
                break;
            }
            l -= 1;
        }
        if l == nu {
            h[at(nu, nu)] += exshift;
            d[nu] = h[at(nu, nu)];
            e[nu] = 0.0;
            if nu > 0 {
                h[at(nu, nu - 1)] = 0.0;
            }
            n -= 1;
            iter = 0;
            continue;
        }
        if l + 1 == nu {
            let w = h[at(nu, nu - 1)] * h[at(nu - 1, nu)];
            let p = (h[at(nu - 1, nu - 1)] - h[at(nu, nu)]) / 2.0;
            let q = p * p + w;
            let z = q.abs().sqrt();
            h[at(nu, nu)] += exshift;
            h[at(nu - 1, nu - 1)] += exshift;
            let x = h[at(nu, nu)];
            if q >= 0.0 {
                let z = if p >= 0.0 { p + z } else { p - z };
                d[nu - 1] = x + z;
                d[nu] = d[nu - 1];
                if z != 0.0 {
                    d[nu] = x - w / z;
                }
                (e[nu - 1], e[nu]) = (0.0, 0.0);
                let x = h[at(nu, nu - 1)];
                let s = x.abs() + z.abs();
                let (p, q) = (x / s, z / s);
                let r = p.hypot(q);
                let (p, q) = (p / r, q / r);
                for j in nu - 1..nn {
                    let z = h[at(nu - 1, j)];
                    h[at(nu - 1, j)] = q * z + p * h[at(nu, j)];
                    h[at(nu, j)] = q * h[at(nu, j)] - p * z;
                }
                for i in 0..=nu {
                    let z = h[at(i, nu - 1)];
                    h[at(i, nu - 1)] = q * z + p * h[at(i, nu)];
                    h[at(i, nu)] = q * h[at(i, nu)] - p * z;
                }
                if let Some(v) = &mut v {
                    for i in 0..nn {
                        let z = v[at(i, nu - 1)];
                        v[at(i, nu - 1)] = q * z + p * v[at(i, nu)];
                        v[at(i, nu)] = q * v[at(i, nu)] - p * z;
                    }
                }
                h[at(nu, nu - 1)] = 0.0;
            } else {
                (d[nu - 1], d[nu]) = (x + p, x + p);
                (e[nu - 1], e[nu]) = (z, -z);
            }
            if nu >= 2 {
                h[at(nu - 1, nu - 2)] = 0.0;
            }
            n -= 2;
            iter = 0;
            continue;
        }
        // the shift
        let mut x = h[at(nu, nu)];
        let mut y = h[at(nu - 1, nu - 1)];
        let mut w = h[at(nu, nu - 1)] * h[at(nu - 1, nu)];
        if iter == 10 {
            exshift += x;
            for i in 0..=nu {
                h[at(i, i)] -= x;
            }
            let s = h[at(nu, nu - 1)].abs() + h[at(nu - 1, nu - 2)].abs();
            x = 0.75 * s;
            y = x;
            w = -0.4375 * s * s;
        }
        if iter == 30 {
            let mut s = (y - x) / 2.0;
            s = s * s + w;
            if s > 0.0 {
                s = s.sqrt();
                if y < x {
                    s = -s;
                }
                s = x - w / ((y - x) / 2.0 + s);
                for i in 0..=nu {
                    h[at(i, i)] -= s;
                }
                exshift += s;
                x = 0.964;
                y = x;
                w = x;
            }
        }
        iter += 1;
        if iter > 300 {
            return None;
        }
        let (mut p, mut q, mut r);
        let mut m = nu - 2;
        loop {
            let z = h[at(m, m)];
            let (rr, ss) = (x - z, y - z);
            p = (rr * ss - w) / h[at(m + 1, m)] + h[at(m, m + 1)];
            q = h[at(m + 1, m + 1)] - z - rr - ss;
            r = h[at(m + 2, m + 1)];
            let s = p.abs() + q.abs() + r.abs();
            (p, q, r) = (p / s, q / s, r / s);
            if m == l {
                break;
            }
            let small = h[at(m, m - 1)].abs() * (q.abs() + r.abs());
            let around = p.abs() * (h[at(m - 1, m - 1)].abs() + z.abs() + h[at(m + 1, m + 1)].abs());
            if small < eps * around {
                break;
            }
            m -= 1;
        }
        for i in m + 2..=nu {
            h[at(i, i - 2)] = 0.0;
            if i > m + 2 {
                h[at(i, i - 3)] = 0.0;
            }
        }
        for k in m..nu {
            let last = k + 1 == nu;
            if k != m {
                p = h[at(k, k - 1)];
                q = h[at(k + 1, k - 1)];
                r = if last { 0.0 } else { h[at(k + 2, k - 1)] };
                x = p.abs() + q.abs() + r.abs();
                if x == 0.0 {
                    continue;
                }
                (p, q, r) = (p / x, q / x, r / x);
            }
            let mut s = (p * p + q * q + r * r).sqrt();
            if p < 0.0 {
                s = -s;
            }
            if s == 0.0 {
                continue;
            }
            if k != m {
                h[at(k, k - 1)] = -s * x;
            } else if l != m {
                h[at(k, k - 1)] = -h[at(k, k - 1)];
            }
            p += s;
            x = p / s;
            y = q / s;
            let z = r / s;
            q /= p;
            r /= p;
            // without vectors only the active block counts
            let (to, from) = if whole { (nn, 0) } else { (nu + 1, l) };
            for j in k..to {
                let c = &mut h[j * nn + k..];
                let mut p = c[0] + q * c[1];
                if !last {
                    p += r * c[2];
                    c[2] -= p * z;
                }
                c[0] -= p * x;
                c[1] -= p * y;
            }
            let bottom = nu.min(k + 3);
            turn_three(h, nn, k, from..bottom + 1, [x, y, z], [q, r], last);
            if let Some(v) = &mut v {
                turn_three(v, nn, k, 0..nn, [x, y, z], [q, r], last);
            }
        }
    }
    Some((d, e))
}
/// Reflects columns `k`, `k + 1` and, unless they are the `last`, `k + 2`.
fn turn_three(
    a: &mut [f64],
    ld: usize,
    k: usize,
    rows: std::ops::Range<usize>,
    [x, y, z]: [f64; 3],
    [q, r]: [f64; 2],
    last: bool,
) {
    let (c0, rest) = a[k * ld..].split_at_mut(ld);
    let (c1, c2) = rest.split_at_mut(ld);
    let (c0, c1) = (&mut c0[rows.clone()], &mut c1[rows.clone()]);
    if last {
        for (a, b) in c0.iter_mut().zip(c1) {
            let p = x * *a + y * *b;
            *a -= p;
            *b -= p * q;
        }
        return;
    }
    for ((a, b), c) in c0.iter_mut().zip(c1).zip(&mut c2[rows]) {
        let p = x * *a + y * *b + z * *c;
        *a -= p;
        *b -= p * q;
        *c -= p * r;
    }
}
/// Vectors of the real Schur form by back substitution, times the turns.
fn vectors_real(h: &mut [f64], v: &mut [f64], nn: usize, d: &[f64], e: &[f64]) {
    let at = |i: usize, j: usize| j * nn + i;
    let eps = f64::EPSILON;
    let mut norm = 0.0;
    for i in 0..nn {
        for j in i.saturating_sub(1)..nn {
            norm += h[at(i, j)].abs();
        }
    }
    if norm == 0.0 {
        return;
    }
    for n in (0..nn).rev() {
        let (p, q) = (d[n], e[n]);
        let (mut z, mut r, mut s) = (0.0, 0.0, 0.0);
        if q == 0.0 {
            let mut l = n;
            h[at(n, n)] = 1.0;
            for i in (0..n).rev() {
                let w = h[at(i, i)] - p;
                r = 0.0;
                for j in l..=n {
                    r += h[at(i, j)] * h[at(j, n)];
                }
                if e[i] < 0.0 {
                    (z, s) = (w, r);
                    continue;
                }
                l = i;
                if e[i] == 0.0 {
                    h[at(i, n)] = if w != 0.0 { -r / w } else { -r / (eps * norm) };
                } else {
                    let (x, y) = (h[at(i, i + 1)], h[at(i + 1, i)]);
                    let q = (d[i] - p) * (d[i] - p) + e[i] * e[i];
                    let t = (x * s - z * r) / q;
                    h[at(i, n)] = t;
                    h[at(i + 1, n)] = if x.abs() > z.abs() { (-r - w * t) / x } else { (-s - y * t) / z };
                }
                let t = h[at(i, n)].abs();
                if (eps * t) * t > 1.0 {
                    for j in i..=n {
                        h[at(j, n)] /= t;
                    }
                }
            }
        } else if q < 0.0 {
            let mut l = n - 1;
            let over = |a: f64, b: f64, c: f64, d: f64| C::new(a, b).over(C::new(c, d));
            if h[at(n, n - 1)].abs() > h[at(n - 1, n)].abs() {
                h[at(n - 1, n - 1)] = q / h[at(n, n - 1)];
                h[at(n - 1, n)] = -(h[at(n, n)] - p) / h[at(n, n - 1)];
            } else {
                let c = over(0.0, -h[at(n - 1, n)], h[at(n - 1, n - 1)] - p, q);
                h[at(n - 1, n - 1)] = c.re;
                h[at(n - 1, n)] = c.im;
            }
            h[at(n, n - 1)] = 0.0;
            h[at(n, n)] = 1.0;
            for i in (0..n - 1).rev() {
                let (mut ra, mut sa) = (0.0, 0.0);
                for j in l..=n {
                    ra += h[at(i, j)] * h[at(j, n - 1)];
                    sa += h[at(i, j)] * h[at(j, n)];
                }
                let w = h[at(i, i)] - p;
                if e[i] < 0.0 {
                    (z, r, s) = (w, ra, sa);
                    continue;
                }
                l = i;
                if e[i] == 0.0 {
                    let c = over(-ra, -sa, w, q);
                    h[at(i, n - 1)] = c.re;
                    h[at(i, n)] = c.im;
                } else {
                    let (x, y) = (h[at(i, i + 1)], h[at(i + 1, i)]);
                    let mut vr = (d[i] - p) * (d[i] - p) + e[i] * e[i] - q * q;
                    let vi = (d[i] - p) * 2.0 * q;
                    if vr == 0.0 && vi == 0.0 {
                        vr = eps * norm * (w.abs() + q.abs() + x.abs() + y.abs() + z.abs());
                    }
                    let c = over(x * r - z * ra + q * sa, x * s - z * sa - q * ra, vr, vi);
                    h[at(i, n - 1)] = c.re;
                    h[at(i, n)] = c.im;
                    if x.abs() > z.abs() + q.abs() {
                        h[at(i + 1, n - 1)] = (-ra - w * h[at(i, n - 1)] + q * h[at(i, n)]) / x;
                        h[at(i + 1, n)] = (-sa - w * h[at(i, n)] - q * h[at(i, n - 1)]) / x;
                    } else {
                        let c = over(-r - y * h[at(i, n - 1)], -s - y * h[at(i, n)], z, q);
                        h[at(i + 1, n - 1)] = c.re;
                        h[at(i + 1, n)] = c.im;
                    }
                }
                let t = h[at(i, n - 1)].abs().max(h[at(i, n)].abs());
                if (eps * t) * t > 1.0 {
                    for j in i..=n {
                        h[at(j, n - 1)] /= t;
                        h[at(j, n)] /= t;
                    }
                }
            }
        }
    }
    let mut w = filled(0.0, nn);
    for j in (0..nn).rev() {
        w.fill(0.0);
        gemv(v, nn, 1.0, &h[j * nn..j * nn + j + 1], &mut w);
        v[j * nn..(j + 1) * nn].copy_from_slice(&w);
    }
}

/// As [`real`], of a complex matrix.
pub fn complex(a: &mut [C], n: usize, want: bool) -> Option<(Vec<C>, Vec<C>)> {
    if n == 0 {
        return Some((Vec::new(), Vec::new()));
    }
    let by = balance(a, n);
    let mut q = reduce(a, n, want);
    schur_complex(a, n, want.then_some(&mut q[..]))?;
    let values: Vec<C> = collected((0..n).map(|i| a[i * n + i]));
    if !want {
        return Some((values, Vec::new()));
    }
    let norm = a.iter().fold(0.0f64, |m, x| m.max(x.norm()));
    let least = (f64::EPSILON * norm).max(f64::MIN_POSITIVE);
    let mut v = filled(C::new(0.0, 0.0), n * n);
    let mut x = filled(C::new(0.0, 0.0), n);
    for k in 0..n {
        x[..k].copy_from_slice(&a[k * n..k * n + k]);
        x[..k].iter_mut().for_each(|x| *x = -*x);
        x[k] = C::new(1.0, 0.0);
        for i in (0..k).rev() {
            let mut d = a[i * n + i] - values[k];
            if d.norm() < least {
                d = C::new(least, 0.0);
            }
            x[i] = x[i].over(d);
            let size = x[i].norm();
            if size > 1e100 {
                x[..=k].iter_mut().for_each(|x| *x /= size);
            }
            let f = -x[i];
            axpy(f, &a[i * n..i * n + i], &mut x[..i]);
        }
        let w = &mut v[k * n..(k + 1) * n];
        gemv(&q, n, C::new(1.0, 0.0), &x[..=k], w);
        w.iter_mut().zip(&by).for_each(|(w, b)| *w *= *b);
        unit(w);
    }
    Some((values, v))
}
/// Schur form of a complex Hessenberg matrix: single shifts, one column after the other.
fn schur_complex(h: &mut [C], n: usize, mut q: Option<&mut [C]>) -> Option<()> {
    let at = |i: usize, j: usize| j * n + i;
    let zero = C::new(0.0, 0.0);
    let norm = h.iter().fold(0.0f64, |m, x| m.max(x.norm()));
    let whole = q.is_some();
    let mut high = n;
    let mut iter = 0;
    let mut turns: Vec<(f64, C)> = filled((1.0, zero), n);
    while high > 1 {
        let last = high - 1;
        let mut low = last;
        while low > 0 {
            let mut s = h[at(low - 1, low - 1)].l1_norm() + h[at(low, low)].l1_norm();
            if s == 0.0 {
                s = norm;
            }
            if h[at(low, low - 1)].l1_norm() <= f64::EPSILON * s {
                h[at(low, low - 1)] = zero;
                break;
            }
            low -= 1;
        }
        if low == last {
            high -= 1;
            iter = 0;
            continue;
        }
        iter += 1;
        if iter > 300 {
            return None;
        }
        let shift = if iter % 10 == 0 {
            C::new(h[at(last, last - 1)].l1_norm() + h[at(last - 1, last - 1)].re, 0.0)
        } else {
            // the eigenvalue of the last two rows that is nearer to the last element
            let (a, b) = (h[at(last - 1, last - 1)], h[at(last - 1, last)]);
            let (c, d) = (h[at(last, last - 1)], h[at(last, last)]);
            let half = (a - d) / 2.0;
            let root = (half * half + b * c).sqrt();
            let sum = if (half.conj() * root).re < 0.0 { half - root } else { half + root };
            if sum == zero { d } else { d - (b * c).over(sum) }
        };
        for i in low..high {
            h[at(i, i)] -= shift;
        }
        let right_end = if whole { n } else { high };
        let top = if whole { 0 } else { low };
        for k in low..last {
            // the rows
            let (f, g) = (h[at(k, k)], h[at(k + 1, k)]);
            let r = f.norm().hypot(g.norm());
            let (c, s) = if r == 0.0 {
                (1.0, zero)
            } else if f == zero {
                (0.0, g.conj() / g.norm())
            } else {
                let c = f.norm() / r;
                (c, (f / f.norm()) * g.conj() / r)
            };
            turns[k] = (c, s);
            for j in k..right_end {
                let (x, y) = (h[at(k, j)], h[at(k + 1, j)]);
                h[at(k, j)] = x * c + s * y;
                h[at(k + 1, j)] = y * c - s.conj() * x;
            }
            h[at(k + 1, k)] = zero;
        }
        for k in low..last {
            let (c, s) = turns[k];
            let columns = |a: &mut [C], from: usize, to: usize| {
                let (x, y) = a[k * n..].split_at_mut(n);
                for (x, y) in x[from..to].iter_mut().zip(&mut y[from..to]) {
                    let (p, q) = (*x, *y);
                    *x = p * c + s.conj() * q;
                    *y = q * c - s * p;
                }
            };
            columns(h, top, (k + 2).min(high));
            if let Some(q) = &mut q {
                columns(q, 0, n);
            }
        }
        for i in low..high {
            h[at(i, i)] += shift;
        }
    }
    Some(())
}
