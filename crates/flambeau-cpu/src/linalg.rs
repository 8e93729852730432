//! Inverses, determinants and singular values of small matrices: what the core operators need of linear algebra
//! (`matrix_power` with a negative exponent, the nuclear norm, `slogdet`). Everything is computed in f64, one matrix after
//! the other: the blocked, parallel decompositions come with the linear algebra crate.

use crate::{Any, AnyMut, DType};
use num_complex::Complex;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// The numbers that decompositions compute with: f64 and its complex numbers.
pub trait Field:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + PartialEq
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Complex conjugate.
    fn conj(self) -> Self;
    /// Times a real.
    fn scale(self, s: f64) -> Self;
    /// Magnitude.
    fn abs(self) -> f64;
    /// By what LAPACK picks pivots: the sum of the parts' magnitudes.
    fn weight(self) -> f64;
    /// Neither infinite nor NaN.
    fn finite(self) -> bool;
}
impl Field for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    fn conj(self) -> f64 {
        self
    }
    fn scale(self, s: f64) -> f64 {
        self * s
    }
    fn abs(self) -> f64 {
        f64::abs(self)
    }
    fn weight(self) -> f64 {
        f64::abs(self)
    }
    fn finite(self) -> bool {
        self.is_finite()
    }
}
impl Field for Complex<f64> {
    const ZERO: Self = Complex::new(0.0, 0.0);
    const ONE: Self = Complex::new(1.0, 0.0);
    fn conj(self) -> Self {
        Complex::conj(&self)
    }
    fn scale(self, s: f64) -> Self {
        Complex::new(self.re * s, self.im * s)
    }
    fn abs(self) -> f64 {
        self.re.hypot(self.im)
    }
    fn weight(self) -> f64 {
        self.re.abs() + self.im.abs()
    }
    fn finite(self) -> bool {
        self.re.is_finite() && self.im.is_finite()
    }
}

/// An element in memory, and the field that it is computed in.
trait InField: crate::Element {
    type Number: Field;
    fn load(self) -> Self::Number;
    fn store(v: Self::Number) -> Self;
}
macro_rules! stored {
    ($($t:ty, $f:ty, |$x:ident| $load:expr, |$v:ident| $store:expr;)*) => {$(
        impl InField for $t {
            type Number = $f;
            fn load(self) -> $f {
                let $x = self;
                $load
            }
            fn store($v: $f) -> $t {
                $store
            }
        }
    )*};
}
stored! {
    f32, f64, |x| x as f64, |v| v as f32;
    f64, f64, |x| x, |v| v;
    Complex<f32>, Complex<f64>, |x| Complex::new(x.re as f64, x.im as f64), |v| Complex::new(v.re as f32, v.im as f32);
    Complex<f64>, Complex<f64>, |x| x, |v| v;
}

/// An LU decomposition with partial pivoting, in place, by rows.
struct Lu<T> {
    n: usize,
    /// Unit lower triangle and upper triangle.
    a: Vec<T>,
    /// Row `i` was exchanged with row `swaps[i]` in step `i`.
    swaps: Vec<usize>,
    /// The first step whose pivot is zero, counted from 1; 0 if none is.
    zero: i32,
}
impl<T: Field> Lu<T> {
    fn of(a: Vec<T>, n: usize) -> Lu<T> {
        let mut f = Lu { n, a, swaps: Vec::with_capacity(n), zero: 0 };
        for k in 0..n {
            let mut best = k;
            for i in k + 1..n {
                if f.a[i * n + k].weight() > f.a[best * n + k].weight() {
                    best = i;
                }
            }
            f.swaps.push(best);
            if best != k {
                for j in 0..n {
                    f.a.swap(k * n + j, best * n + j);
                }
            }
            let pivot = f.a[k * n + k];
            if pivot == T::ZERO {
                if f.zero == 0 {
                    f.zero = k as i32 + 1;
                }
                continue;
            }
            for i in k + 1..n {
                let m = f.a[i * n + k] / pivot;
                f.a[i * n + k] = m;
                let (above, row) = f.a.split_at_mut(i * n);
                for (x, y) in row[k + 1..n].iter_mut().zip(&above[k * n + k + 1..(k + 1) * n]) {
                    *x = *x - m * *y;
                }
            }
        }
        f
    }
    /// The inverse, by rows.
    fn inverse(&self) -> Vec<T> {
        let n = self.n;
        let mut b = vec![T::ZERO; n * n];
        for i in 0..n {
            b[i * n + i] = T::ONE;
        }
        for (k, s) in self.swaps.iter().enumerate() {
            for j in 0..n {
                b.swap(k * n + j, s * n + j);
            }
        }
        let minus = |b: &mut [T], i: usize, k: usize, m: T| {
            for j in 0..n {
                b[i * n + j] = b[i * n + j] - m * b[k * n + j];
            }
        };
        for i in 0..n {
            for k in 0..i {
                minus(&mut b, i, k, self.a[i * n + k]);
            }
        }
        for i in (0..n).rev() {
            for k in i + 1..n {
                minus(&mut b, i, k, self.a[i * n + k]);
            }
            for x in &mut b[i * n..(i + 1) * n] {
                *x = *x / self.a[i * n + i];
            }
        }
        b
    }
    /// Sign (or direction) and log of the magnitude of the determinant.
    fn slogdet(&self) -> (T, f64) {
        let swapped = self.swaps.iter().enumerate().filter(|(k, s)| k != *s).count();
        let mut sign = if swapped % 2 == 0 { T::ONE } else { -T::ONE };
        let mut log = 0.0;
        for i in 0..self.n {
            let d = self.a[i * self.n + i];
            let m = d.abs();
            log += m.ln();
            // NaN has no direction, and PyTorch's sign of it is 0
            sign = if m > 0.0 && m.is_finite() { sign * d.scale(1.0 / m) } else { T::ZERO };
        }
        (sign, log)
    }
}

/// `U diag(s) V^H` with as many columns as the smaller side.
struct Svd<T> {
    u: Vec<T>,
    s: Vec<f64>,
    /// Adjoint of V, by rows.
    vh: Vec<T>,
}
/// Columns that turn, and those that record the turns.
struct Columns<T> {
    a: Vec<Vec<T>>,
    v: Vec<Vec<T>>,
}
fn dot<T: Field>(a: &[T], b: &[T]) -> T {
    a.iter().zip(b).fold(T::ZERO, |s, (a, b)| s + a.conj() * *b)
}
fn norm<T: Field>(a: &[T]) -> f64 {
    let m = a.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    if m == 0.0 { 0.0 } else { m * a.iter().map(|x| (x.abs() / m).powi(2)).sum::<f64>().sqrt() }
}
impl<T: Field> Columns<T> {
    /// Makes columns `i` and `j` orthogonal; whether they were not.
    fn turn(&mut self, i: usize, j: usize) -> bool {
        let g = dot(&self.a[i], &self.a[j]);
        let (ni, nj) = (norm(&self.a[i]), norm(&self.a[j]));
        let m = g.abs();
        if m <= 1e-15 * ni * nj || m < f64::MIN_POSITIVE {
            return false;
        }
        let phase = g.scale(1.0 / m).conj();
        let zeta = (nj - ni) * (nj + ni) / (2.0 * m);
        let t = 1f64.copysign(zeta) / (zeta.abs() + zeta.hypot(1.0));
        let c = 1.0 / t.hypot(1.0);
        for set in [&mut self.a, &mut self.v] {
            let (low, high) = set.split_at_mut(j);
            for (x, y) in low[i].iter_mut().zip(&mut high[0]) {
                let turned = *y * phase;
                (*x, *y) = (x.scale(c) - turned.scale(c * t), x.scale(c * t) + turned.scale(c));
            }
        }
        true
    }
}
/// Singular values of the `m x n` matrix with elements `at(i, j)`, by one-sided Jacobi turns of the columns of its higher
/// form: small singular values keep their digits.
fn svd<T: Field>(m: usize, n: usize, at: impl Fn(usize, usize) -> T) -> Svd<T> {
    let wide = m < n;
    let (rows, cols) = if wide { (n, m) } else { (m, n) };
    // Products of elements must neither overflow nor vanish; powers of two change no digit.
    let largest = (0..m * n).fold(0.0f64, |l, e| l.max(at(e / n, e % n).abs()));
    let exponent = if largest > 0.0 { largest.log2().floor().clamp(-1000.0, 1000.0) as i32 } else { 0 };
    let (down, up) = (2f64.powi(-exponent), 2f64.powi(exponent));
    let at = |i: usize, j: usize| at(i, j).scale(down);
    let element = |i: usize, j: usize| if wide { at(j, i).conj() } else { at(i, j) };
    let unit = |k: usize, len: usize| (0..len).map(|i| if i == k { T::ONE } else { T::ZERO }).collect();
    let mut c = Columns {
        a: (0..cols).map(|j| (0..rows).map(|i| element(i, j)).collect()).collect::<Vec<Vec<T>>>(),
        v: (0..cols).map(|j| unit(j, cols)).collect::<Vec<Vec<T>>>(),
    };
    // turns square the distance from a diagonal once it is small: a handful of sweeps
    for _ in 0..60 {
        let mut turned = false;
        for j in 1..cols {
            for i in 0..j {
                turned |= c.turn(i, j);
            }
        }
        if !turned {
            break;
        }
    }
    let size: Vec<f64> = c.a.iter().map(|a| norm(a)).collect();
    let mut order: Vec<usize> = (0..cols).collect();
    order.sort_by(|i, j| size[*j].total_cmp(&size[*i]));
    let least = size.iter().fold(0.0f64, |m, s| m.max(*s)) * f64::EPSILON * rows as f64;
    let mut left: Vec<Vec<T>> = Vec::with_capacity(cols);
    for k in &order {
        if size[*k] > least {
            left.push(c.a[*k].iter().map(|x| x.scale(1.0 / size[*k])).collect());
            continue;
        }
        // no direction of its own: a unit vector less what it shares with those before
        let free = (0..rows).map(|e| {
            let mut v: Vec<T> = unit(e, rows);
            for _ in 0..2 {
                for l in &left {
                    let s = dot(l, &v);
                    v.iter_mut().zip(l).for_each(|(v, l)| *v = *v - *l * s);
                }
            }
            let size = norm(&v);
            (size, v)
        });
        if let Some((size, v)) = free.max_by(|a, b| a.0.total_cmp(&b.0)) {
            left.push(v.iter().map(|x| x.scale(1.0 / size)).collect());
        }
    }
    let right: Vec<&Vec<T>> = order.iter().map(|k| &c.v[*k]).collect();
    // A = L S R^H; of the adjoint, R S L^H
    let by_rows = |set: &[&Vec<T>], len: usize| -> Vec<T> {
        (0..len).flat_map(|i| set.iter().map(move |col| col[i])).collect()
    };
    let adjoint =
        |set: &[&Vec<T>]| -> Vec<T> { set.iter().flat_map(|col| col.iter().map(|x| x.conj())).collect() };
    let left: Vec<&Vec<T>> = left.iter().collect();
    let (u, vh) =
        if wide { (by_rows(&right, cols), adjoint(&left)) } else { (by_rows(&left, rows), adjoint(&right)) };
    Svd { u, s: order.iter().map(|k| size[*k] * up).collect(), vh }
}

fn inverse<T: InField>(a: &[T], n: usize, out: &mut [T], info: &mut [i32]) {
    for (b, info) in info.iter_mut().enumerate() {
        let at = b * n * n..(b + 1) * n * n;
        let f = Lu::of(a[at.clone()].iter().map(|x| x.load()).collect(), n);
        *info = f.zero;
        out[at].iter_mut().zip(f.inverse()).for_each(|(o, v)| *o = T::store(v));
    }
}
fn slogdet<T: InField>(a: &[T], n: usize, sign: &mut [T], mut log: impl FnMut(usize, f64)) {
    for (b, sign) in sign.iter_mut().enumerate() {
        let f = Lu::of(a[b * n * n..(b + 1) * n * n].iter().map(|x| x.load()).collect(), n);
        let (s, l) = f.slogdet();
        *sign = T::store(s);
        log(b, l);
    }
}
fn svd_all<T: InField>(
    a: &[T],
    (m, n): (usize, usize),
    u: &mut [T],
    vh: &mut [T],
    mut s: impl FnMut(usize, f64),
) -> bool {
    let k = m.min(n);
    if k == 0 {
        return true;
    }
    for (b, (u, vh)) in u.chunks_mut(m * k).zip(vh.chunks_mut(k * n)).enumerate() {
        let a = &a[b * m * n..(b + 1) * m * n];
        if !a.iter().all(|x| x.load().finite()) {
            return false;
        }
        let d = svd(m, n, |i, j| a[i * n + j].load());
        u.iter_mut().zip(d.u).for_each(|(o, v)| *o = T::store(v));
        vh.iter_mut().zip(d.vh).for_each(|(o, v)| *o = T::store(v));
        d.s.iter().enumerate().for_each(|(i, v)| s(b * k + i, *v));
    }
    true
}

/// Kernels over dense batches of run-time type; `None` for dtypes other than f32, f64 and their complex ones.
pub mod erased {
    use super::*;

    macro_rules! stored_as {
        ($d:expr, $T:ident => $body:expr) => {
            match $d {
                DType::F32 => {
                    type $T = f32;
                    Some($body)
                }
                DType::F64 => {
                    type $T = f64;
                    Some($body)
                }
                DType::C64 => {
                    type $T = Complex<f32>;
                    Some($body)
                }
                DType::C128 => {
                    type $T = Complex<f64>;
                    Some($body)
                }
                _ => None,
            }
        };
    }
    /// A slice of f32 or f64 that is written by index.
    fn reals(out: AnyMut<'_>) -> impl FnMut(usize, f64) {
        let (mut single, mut double) = match out.dtype() {
            DType::F32 => (Some(out.get::<f32>()), None),
            _ => (None, Some(out.get::<f64>())),
        };
        move |i, v| {
            if let Some(s) = &mut single {
                s[i] = v as f32;
            }
            if let Some(d) = &mut double {
                d[i] = v;
            }
        }
    }

    /// Inverses of as many `n x n` matrices as `info` has elements, each the first step (from 1) with a zero pivot, or 0.
    pub fn inverse(a: Any<'_>, n: usize, out: AnyMut<'_>, info: &mut [i32]) -> Option<()> {
        stored_as!(a.dtype(), T => super::inverse::<T>(a.get(), n, out.get(), info))
    }
    /// Signs and logs of the magnitudes (of the real dtype) of determinants of `n x n` matrices.
    pub fn slogdet(a: Any<'_>, n: usize, sign: AnyMut<'_>, log: AnyMut<'_>) -> Option<()> {
        stored_as!(a.dtype(), T => super::slogdet::<T>(a.get(), n, sign.get(), reals(log)))
    }
    /// Singular values (of the real dtype) and vectors of `m x n` matrices; false if one is not finite.
    pub fn svd(a: Any<'_>, m: usize, n: usize, u: AnyMut<'_>, s: AnyMut<'_>, vh: AnyMut<'_>) -> Option<bool> {
        stored_as!(a.dtype(), T => super::svd_all::<T>(a.get(), (m, n), u.get(), vh.get(), reals(s)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(m: usize, n: usize, seed: u64) -> Vec<Complex<f64>> {
        let mut s = seed;
        let mut next = || {
            s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (s >> 40) as f64 / (1u64 << 23) as f64 - 1.0
        };
        (0..m * n).map(|_| Complex::new(next(), next())).collect()
    }
    fn product(a: &[Complex<f64>], b: &[Complex<f64>], m: usize, k: usize, n: usize) -> Vec<Complex<f64>> {
        (0..m * n).map(|i| (0..k).map(|l| a[i / n * k + l] * b[l * n + i % n]).sum()).collect()
    }
    fn close(a: &[Complex<f64>], b: &[Complex<f64>]) {
        assert_eq!(a.len(), b.len());
        for (x, y) in a.iter().zip(b) {
            assert!((x - y).norm() < 1e-12, "{a:?} is not {b:?}");
        }
    }
    fn eye(n: usize) -> Vec<Complex<f64>> {
        (0..n * n).map(|i| Complex::new(f64::from(u8::from(i / n == i % n)), 0.0)).collect()
    }

    #[test]
    fn inverses_and_determinants() {
        for n in [0, 1, 2, 3, 7] {
            let a = sample(n, n, 3 + n as u64);
            let f = Lu::of(a.clone(), n);
            close(&product(&a, &f.inverse(), n, n, n), &eye(n));
            assert_eq!(f.zero, 0);
        }
        let f = Lu::of(vec![0.0, 2.0, 3.0, 4.0], 2);
        let (sign, log) = f.slogdet();
        assert!(sign == -1.0 && (log - 6f64.ln()).abs() < 1e-15);
        let f = Lu::of(vec![1.0, 2.0, 2.0, 4.0], 2);
        assert_eq!((f.zero, f.slogdet()), (2, (0.0, f64::NEG_INFINITY)));
    }

    #[test]
    fn singular_values_put_together_again() {
        let sizes = [(1, 1), (3, 3), (5, 2), (2, 5), (4, 7), (8, 8)];
        let large = svd(2, 2, |i, j| if i == j { 1e200 } else { 0.5e200 });
        assert!((large.s[0] / 1.5e200 - 1.0).abs() < 1e-14 && (large.s[1] / 0.5e200 - 1.0).abs() < 1e-14);
        for (m, n) in sizes {
            let mut a = sample(m, n, (m * 10 + n) as u64);
            for rank in [false, true] {
                if rank && m > 1 {
                    // two equal rows
                    for j in 0..n {
                        a[j] = a[(m - 1) * n + j];
                    }
                }
                let k = m.min(n);
                let d = svd(m, n, |i, j| a[i * n + j]);
                assert!(d.s.windows(2).all(|w| w[0] >= w[1]) && d.s.iter().all(|s| *s >= 0.0));
                let us: Vec<_> = d.u.iter().enumerate().map(|(i, u)| u * d.s[i % k]).collect();
                close(&product(&us, &d.vh, m, k, n), &a);
                let adjoint = |x: &[Complex<f64>], r: usize, c: usize| {
                    (0..r * c).map(|i| x[i % r * c + i / r].conj()).collect::<Vec<_>>()
                };
                close(&product(&adjoint(&d.u, m, k), &d.u, k, m, k), &eye(k));
                close(&product(&d.vh, &adjoint(&d.vh, k, n), k, n, k), &eye(k));
            }
        }
    }
}
