//! Kernels over dense batches of run-time type; `None` for dtypes other than f32, f64 and their complex ones. Matrices are by
//! columns unless it is said otherwise. Batches are shared out among threads, a large matrix by its products.

use super::bidiagonal::{self, Vectors};
use super::field::{Field, Real};
use super::product::{Steps, Triangle, solve_rows, transpose};
use super::{cholesky, hessenberg, ldl, lu, many, qr, tridiagonal};
use crate::engine::SharedMut;
use crate::engine::erase::erased;
use crate::engine::parallel::parallel_for;
use crate::engine::room::{collected, filled, room};
use crate::{Any, AnyMut, DType, Element};
use num_complex::Complex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Leaves the function with what `body` does for batches of small real matrices, if this is one.
macro_rules! side_by_side {
    ($batch:expr, $m:expr, $n:expr, $d:expr, $T:ident => $body:expr) => {
        if many::suits($batch, $m, $n) {
            match $d {
                DType::F32 => {
                    type $T = f32;
                    return Some($body);
                }
                DType::F64 => {
                    type $T = f64;
                    return Some($body);
                }
                _ => {}
            }
        }
    };
}

/// Parts of a slice, one for each matrix of a batch.
struct Parts<'a, T>(SharedMut<'a, T>, usize);
impl<'a, T> Parts<'a, T> {
    fn new(s: &'a mut [T], batch: usize) -> Self {
        let each = s.len() / batch.max(1);
        Parts(SharedMut::new(s), each)
    }
    /// The part of matrix `i`.
    #[allow(clippy::mut_from_ref)]
    fn of(&self, i: usize) -> &mut [T] {
        // SAFETY: `batched` gives each matrix to one task, which asks for its part once.
        unsafe { self.0.slice(i * self.1, self.1) }
    }
}
/// Calls `body` for each matrix; `work` is about how many operations one takes.
fn batched(batch: usize, work: usize, body: impl Fn(usize) + Sync) {
    parallel_for(batch, (50_000 / work.max(1)).max(1), |r| r.for_each(&body));
}

/// LU decompositions in place of `m x n` matrices; rows of `pivots` (from 1) for each, and the first zero pivot.
pub fn lu_factor(
    a: AnyMut<'_>,
    m: usize,
    n: usize,
    pivots: &mut [i32],
    info: &mut [i32],
    pivot: bool,
) -> Option<()> {
    if pivot {
        side_by_side!(info.len(), m, n, a.dtype(), T => many::lu_factor(a.get::<T>(), m, n, pivots, info));
    }
    erased!(a, T in [FLOAT, COMPLEX] => {
        let batch = info.len();
        let (a, p, info) = (Parts::new(a.get::<T>(), batch), Parts::new(pivots, batch), Parts::new(info, batch));
        batched(batch, m * n * m.min(n), |i| {
            let mut rows = filled(0, m.min(n));
            info.of(i)[0] = lu::factor(a.of(i), m.max(1), m, n, &mut rows, pivot);
            p.of(i).iter_mut().zip(rows).for_each(|(p, r)| *p = r as i32 + 1);
        });
    })
}
/// Pivots from 1 as rows from 0; `None` if one lies outside.
fn rows_of(pivots: &[i32], n: usize) -> Option<Vec<usize>> {
    let mut rows = room(pivots.len());
    for p in pivots {
        rows.push(usize::try_from(*p).ok()?.checked_sub(1).filter(|p| *p < n)?);
    }
    Some(rows)
}
/// How a matrix is taken in a solution.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Turned {
    /// As it is.
    No,
    /// Transposed.
    Transposed,
    /// Conjugated and transposed.
    Adjoint,
    /// Conjugated.
    Conjugated,
}
/// Solves by LU decompositions, in place: `B` has `n` rows of `k` elements each. False if a pivot lies outside its matrix.
pub fn lu_solve(
    lu_: Any<'_>,
    n: usize,
    pivots: &[i32],
    b: AnyMut<'_>,
    k: usize,
    batch: usize,
    turned: Turned,
) -> Option<bool> {
    if k > 0 && pivots.iter().all(|p| (1..=n as i32).contains(p)) {
        side_by_side!(batch, n, n, lu_.dtype(), T => {
            many::lu_solve(lu_.get::<T>(), n, pivots, b.get::<T>(), k, batch, turned);
            true
        });
    }
    erased!(lu_, T in [FLOAT, COMPLEX] => {
        let (a, b) = (lu_.get::<T>(), Parts::new(b.get::<T>(), batch));
        let fine = AtomicBool::new(true);
        batched(batch, n * n * k, |i| {
            let Some(rows) = rows_of(&pivots[i * n..(i + 1) * n], n) else {
                fine.store(false, Ordering::Relaxed);
                return;
            };
            let t = turned != Turned::No;
            lu::solve(&a[i * n * n..(i + 1) * n * n], n, n, &rows, b.of(i), k, t, turned == Turned::Adjoint);
        });
        fine.into_inner()
    })
}
/// Solves `A X = B` for batches of small real matrices: those of A by rows or by columns, `n` rows of `k` elements in each B. Gives
/// decompositions by columns with their pivots and `info` as [`lu_factor`] does, and solutions by columns. `None` for all others.
pub fn solve(
    a: Any<'_>,
    by_rows: bool,
    n: usize,
    (b, k): (Any<'_>, usize),
    (lu, pivots, info): (AnyMut<'_>, &mut [i32], &mut [i32]),
    x: AnyMut<'_>,
) -> Option<()> {
    if (1..=many::SOLVED).contains(&k) {
        side_by_side!(info.len(), n, n, a.dtype(), T => {
            let to = many::Solved { lu: lu.get::<T>(), pivots, info, x: x.get::<T>() };
            many::solve(a.get::<T>(), by_rows, n, b.get::<T>(), k, to);
        });
    }
    None
}
/// Cholesky decompositions by columns of batches of small real matrices, by rows or by columns, whose lower half counts; zeros
/// above, `info` as [`cholesky`] gives it. `None` for all others.
pub fn cholesky_of(a: Any<'_>, by_rows: bool, n: usize, l: AnyMut<'_>, info: &mut [i32]) -> Option<()> {
    side_by_side!(info.len(), n, n, a.dtype(), T => many::cholesky_of(a.get::<T>(), by_rows, n, l.get::<T>(), info));
    None
}
/// Reduced QR decompositions, by columns, of batches of small real `m x n` matrices by rows or by columns. `None` for all others.
pub fn reduced_qr(
    a: Any<'_>,
    by_rows: bool,
    [m, n]: [usize; 2],
    q: AnyMut<'_>,
    r: AnyMut<'_>,
    batch: usize,
) -> Option<()> {
    side_by_side!(batch, m, n, a.dtype(), T => {
        many::qr(a.get::<T>(), by_rows, (m, n), q.get::<T>(), r.get::<T>(), batch);
    });
    None
}
/// Signs (or directions) and logarithms of the magnitudes (of the real dtype) of determinants, by LU decompositions.
pub fn lu_slogdet(lu_: Any<'_>, n: usize, pivots: &[i32], sign: AnyMut<'_>, log: AnyMut<'_>) -> Option<()> {
    fn each<T: Field>(a: &[T], n: usize, pivots: &[i32], sign: &mut [T], log: &mut [T::Real]) {
        for i in 0..sign.len() {
            let rows = collected(pivots[i * n..(i + 1) * n].iter().map(|p| (*p - 1).max(0) as usize));
            (sign[i], log[i]) = lu::slogdet(&a[i * n * n..(i + 1) * n * n], n, &rows);
        }
    }
    erased!(lu_, T in [FLOAT, COMPLEX] => each::<T>(lu_.get(), n, pivots, sign.get(), log.get()))
}
/// Determinants, by LU decompositions.
pub fn lu_det(lu_: Any<'_>, n: usize, pivots: &[i32], out: AnyMut<'_>) -> Option<()> {
    erased!(lu_, T in [FLOAT, COMPLEX] => {
        let (a, out) = (lu_.get::<T>(), out.get::<T>());
        for (i, out) in out.iter_mut().enumerate() {
            let swapped = pivots[i * n..(i + 1) * n].iter().enumerate().filter(|(k, p)| *k as i32 + 1 != **p).count();
            let mut d = <T as crate::num::Arith>::ONE;
            for k in 0..n {
                d *= a[i * n * n + k * n + k];
            }
            *out = if swapped % 2 == 1 { -d } else { d };
        }
    })
}
/// Inverses, by columns, of the matrices `a`, which are used up; the first zero pivot of each, or 0.
pub fn inverse(a: AnyMut<'_>, n: usize, out: AnyMut<'_>, info: &mut [i32]) -> Option<()> {
    side_by_side!(info.len(), n, n, a.dtype(), T => many::inverse(a.get::<T>(), n, out.get::<T>(), info));
    erased!(a, T in [FLOAT, COMPLEX] => {
        let batch = info.len();
        let (a, out, info) = (Parts::new(a.get::<T>(), batch), Parts::new(out.get::<T>(), batch), Parts::new(info, batch));
        batched(batch, 2 * n * n * n, |i| {
            let (a, out) = (a.of(i), out.of(i));
            let mut rows = filled(0, n);
            info.of(i)[0] = lu::factor(a, n.max(1), n, n, &mut rows, true);
            lu::inverse(a, n, &rows, out);
        });
    })
}

/// Cholesky decompositions in place of matrices whose upper half counts by rows (so by columns the lower one); the other half
/// becomes zeros. 0, or the order of the leading minor that is not positive-definite.
pub fn cholesky(a: AnyMut<'_>, n: usize, info: &mut [i32]) -> Option<()> {
    side_by_side!(info.len(), n, n, a.dtype(), T => many::cholesky(a.get::<T>(), n, info));
    erased!(a, T in [FLOAT, COMPLEX] => {
        let batch = info.len();
        let (a, info) = (Parts::new(a.get::<T>(), batch), Parts::new(info, batch));
        batched(batch, n * n * n / 3, |i| info.of(i)[0] = cholesky::whole(a.of(i), n));
    })
}

/// Solves `A X = B` in place with triangular A: both by rows, `n` rows of `k` elements in B.
pub fn solve_triangular(
    a: Any<'_>,
    n: usize,
    b: AnyMut<'_>,
    k: usize,
    batch: usize,
    upper: bool,
    unit: bool,
    turned: Turned,
) -> Option<()> {
    erased!(a, T in [FLOAT, COMPLEX] => {
        let (a, b) = (a.get::<T>(), Parts::new(b.get::<T>(), batch));
        let flip = matches!(turned, Turned::Transposed | Turned::Adjoint);
        let conj = matches!(turned, Turned::Adjoint | Turned::Conjugated);
        let steps = Steps::rows(n);
        let steps = if flip { steps.t() } else { steps };
        batched(batch, n * n * k, |i| {
            let t = Triangle { a: &a[i * n * n..(i + 1) * n * n], steps, upper: upper != flip, conj, unit };
            solve_rows(t, n, b.of(i), k, k);
        });
    })
}

/// QR decompositions in place of `m x n` matrices, reflectors below R; their factors.
pub fn geqrf(a: AnyMut<'_>, m: usize, n: usize, tau: AnyMut<'_>, batch: usize) -> Option<()> {
    side_by_side!(batch, m, n, a.dtype(), T => many::geqrf(a.get::<T>(), m, n, tau.get::<T>(), batch));
    erased!(a, T in [FLOAT, COMPLEX] => {
        let (a, tau) = (Parts::new(a.get::<T>(), batch), Parts::new(tau.get::<T>(), batch));
        batched(batch, 2 * m * n * m.min(n), |i| qr::factor(a.of(i), m.max(1), m, n, tau.of(i)));
    })
}
/// The first `n` columns of products of reflectors: `a` has `m` rows and `columns` columns, `k` of which hold reflectors.
pub fn orgqr(
    a: Any<'_>,
    [m, columns, k, n]: [usize; 4],
    tau: Any<'_>,
    out: AnyMut<'_>,
    batch: usize,
) -> Option<()> {
    if n > 0 && k <= n {
        side_by_side!(batch, m, columns.max(n), a.dtype(), T => {
            many::orgqr(a.get::<T>(), [m, columns, k, n], tau.get::<T>(), out.get::<T>(), batch);
        });
    }
    erased!(a, T in [FLOAT, COMPLEX] => {
        let (a, tau, out) = (a.get::<T>(), tau.get::<T>(), Parts::new(out.get::<T>(), batch));
        batched(batch, 2 * m * n * k, |i| {
            let (a, tau) = (&a[i * m * columns..(i + 1) * m * columns], &tau[i * k..(i + 1) * k]);
            qr::generate(a, m.max(1), m, tau, out.of(i), m.max(1), n);
        });
    })
}
/// Products of reflectors (or their adjoints) times the `n` columns of `c`, in place.
pub fn ormqr(
    a: Any<'_>,
    [m, columns, k, n]: [usize; 4],
    tau: Any<'_>,
    c: AnyMut<'_>,
    adjoint: bool,
    batch: usize,
) -> Option<()> {
    erased!(a, T in [FLOAT, COMPLEX] => {
        let (a, tau, c) = (a.get::<T>(), tau.get::<T>(), Parts::new(c.get::<T>(), batch));
        batched(batch, 2 * m * n * k, |i| {
            let (a, tau) = (&a[i * m * columns..(i + 1) * m * columns], &tau[i * k..(i + 1) * k]);
            qr::multiply(a, m.max(1), m, tau, c.of(i), m.max(1), n, adjoint);
        });
    })
}

/// LDL decompositions in place of the lower halves; LAPACK's pivots, and the first zero of each diagonal.
pub fn ldl_factor(
    a: AnyMut<'_>,
    n: usize,
    pivots: &mut [i32],
    info: &mut [i32],
    hermitian: bool,
) -> Option<()> {
    erased!(a, T in [FLOAT, COMPLEX] => {
        let batch = info.len();
        let (a, p, info) = (Parts::new(a.get::<T>(), batch), Parts::new(pivots, batch), Parts::new(info, batch));
        batched(batch, n * n * n / 3, |i| info.of(i)[0] = ldl::factor(a.of(i), n, p.of(i), hermitian));
    })
}
/// Solves by LDL decompositions in place: `B` has `n` rows of `k` elements. False if a pivot lies outside its matrix.
pub fn ldl_solve(
    a: Any<'_>,
    n: usize,
    pivots: &[i32],
    b: AnyMut<'_>,
    k: usize,
    batch: usize,
    hermitian: bool,
) -> Option<bool> {
    erased!(a, T in [FLOAT, COMPLEX] => {
        let (a, b) = (a.get::<T>(), Parts::new(b.get::<T>(), batch));
        let fine = AtomicBool::new(true);
        batched(batch, n * n * k, |i| {
            if !ldl::solve(&a[i * n * n..(i + 1) * n * n], n, &pivots[i * n..(i + 1) * n], b.of(i), k, hermitian) {
                fine.store(false, Ordering::Relaxed);
            }
        });
        fine.into_inner()
    })
}

/// Eigenvalues (of the real dtype), ascending, of Hermitian matrices by their lower halves, and with `vectors` eigenvectors in
/// their place. 0 for each, or how many did not converge.
pub fn eigh(a: AnyMut<'_>, n: usize, values: AnyMut<'_>, info: &mut [i32], vectors: bool) -> Option<()> {
    fn each<T: Field>(a: &mut [T], n: usize, values: &mut [T::Real], info: &mut [i32], vectors: bool) {
        let batch = info.len();
        let (a, v, info) = (Parts::new(a, batch), Parts::new(values, batch), Parts::new(info, batch));
        batched(batch, 9 * n * n * n, |i| info.of(i)[0] = tridiagonal::eigh(a.of(i), n, v.of(i), vectors));
    }
    side_by_side!(info.len(), n, n, a.dtype(), T => many::eigh(a.get::<T>(), n, values.get::<T>(), info, vectors));
    erased!(a, T in [FLOAT, COMPLEX] => each::<T>(a.get(), n, values.get(), info, vectors))
}

/// The largest side of matrices in batches whose columns are turned in pairs.
const TURNED: usize = 32;

/// What [`svd`] says of a matrix with a NaN: LAPACK's number of the argument that holds it.
pub const UNDEFINED: i32 = -4;

/// Singular values (of the real dtype), descending, of `m x n` matrices by columns, which are used up, and vectors: U by
/// columns, and the adjoint of V by columns. For each 0, [`UNDEFINED`] if it has a NaN, 1 if it did not converge.
pub fn svd(
    a: AnyMut<'_>,
    [m, n]: [usize; 2],
    u: Option<AnyMut<'_>>,
    s: AnyMut<'_>,
    vh: Option<AnyMut<'_>>,
    want: Vectors,
    info: &mut [i32],
) -> Option<()> {
    fn one<T: Field>(
        a: &mut [T],
        [m, n]: [usize; 2],
        u: &mut [T],
        s: &mut [T::Real],
        vh: &mut [T],
        want: Vectors,
    ) -> i32 {
        if !a.iter().all(|x| x.finite()) {
            if a.iter().any(|x| x.re() != x.re() || x.im() != x.im()) {
                return UNDEFINED;
            }
            // of infinities LAPACK makes NaN
            let nan = T::Real::of(f64::NAN);
            s.fill(nan);
            u.fill(T::real(nan));
            vh.fill(T::real(nan));
            return 0;
        }
        if m >= n {
            let Some(d) = bidiagonal::svd(a, m, n, want) else { return 1 };
            s.copy_from_slice(&d.s);
            if want != Vectors::None {
                u.copy_from_slice(&d.u);
                transpose(&d.v, n.max(1), n, n, vh, n);
                vh.iter_mut().for_each(|x| *x = x.conj());
            }
            return 0;
        }
        // of the adjoint, sides exchanged
        let mut t = filled(T::ZERO, m * n);
        transpose(a, m.max(1), m, n, &mut t, n);
        t.iter_mut().for_each(|x| *x = x.conj());
        let Some(d) = bidiagonal::svd(&mut t, n, m, want) else { return 1 };
        s.copy_from_slice(&d.s);
        if want != Vectors::None {
            u.copy_from_slice(&d.v);
            let k = if want == Vectors::Full { n } else { m };
            transpose(&d.u, n.max(1), n, k, vh, k);
            vh.iter_mut().for_each(|x| *x = x.conj());
        }
        0
    }
    fn each<T: Field>(
        a: &mut [T],
        sizes: [usize; 2],
        u: &mut [T],
        s: &mut [T::Real],
        vh: &mut [T],
        want: Vectors,
        info: &mut [i32],
        left: bool,
    ) {
        let batch = info.len();
        let (a, u, vh) = (Parts::new(a, batch), Parts::new(u, batch), Parts::new(vh, batch));
        let (s, info) = (Parts::new(s, batch), Parts::new(info, batch));
        batched(batch, 20 * sizes[0] * sizes[1] * sizes[0].min(sizes[1]), |i| {
            let info = info.of(i);
            if !left || info[0] != 0 {
                info[0] = one(a.of(i), sizes, u.of(i), s.of(i), vh.of(i), want);
            }
        });
    }
    if want != Vectors::Full || m == n {
        side_by_side!(info.len(), m, n, a.dtype(), T => {
            let u = u.map_or(&mut [][..], |u| u.get::<T>());
            let vh = vh.map_or(&mut [][..], |v| v.get::<T>());
            let (a, s) = (a.get::<T>(), s.get::<T>());
            let kernel = if m.max(n) <= TURNED { many::svd } else { many::svd_of_large };
            if m >= n {
                kernel(&*a, (m, n), u, s, vh, want != Vectors::None, info);
            } else {
                // of the transposes, sides exchanged
                let flipped = |from: &[T], rows, columns, to: &mut [T]| {
                    for (x, y) in from.chunks_exact(rows * columns).zip(to.chunks_exact_mut(rows * columns)) {
                        transpose(x, rows, rows, columns, y, columns);
                    }
                };
                let mut t = filled(T::default(), a.len());
                flipped(a, m, n, &mut t);
                let (mut left, mut right) = (filled(T::default(), vh.len()), filled(T::default(), u.len()));
                kernel(&t, (n, m), &mut left, s, &mut right, want != Vectors::None, info);
                flipped(&right, m, m, u);
                flipped(&left, n, m, vh);
            }
            each::<T>(a, [m, n], u, s, vh, want, info, true)
        });
    }
    erased!(a, T in [FLOAT, COMPLEX] => {
        let u = u.map_or(&mut [][..], |u| u.get::<T>());
        let vh = vh.map_or(&mut [][..], |v| v.get::<T>());
        each::<T>(a.get(), [m, n], u, s.get(), vh, want, info, false)
    })
}

/// Eigenvalues and, if asked for, eigenvectors by columns (both of the complex dtype) of general matrices by columns. For each
/// 0, or 1 if it did not converge.
pub fn eig(
    a: Any<'_>,
    n: usize,
    values: AnyMut<'_>,
    vectors: Option<AnyMut<'_>>,
    info: &mut [i32],
) -> Option<()> {
    fn each<T: Field>(
        a: &[T],
        n: usize,
        values: &mut [Complex<T::Real>],
        vectors: Option<&mut [Complex<T::Real>]>,
        info: &mut [i32],
    ) where
        Complex<T::Real>: Element,
    {
        let batch = info.len();
        let want = vectors.is_some();
        let (values, info) = (Parts::new(values, batch), Parts::new(info, batch));
        let vectors = Parts::new(vectors.unwrap_or(&mut []), batch);
        let narrow = |z: Complex<f64>| Complex::new(T::Real::of(z.re), T::Real::of(z.im));
        batched(batch, 25 * n * n * n, |i| {
            let a = &a[i * n * n..(i + 1) * n * n];
            let r = if T::COMPLEX {
                let mut a = collected(a.iter().map(|z| Complex::new(z.re().wide(), z.im().wide())));
                hessenberg::complex(&mut a, n, want)
            } else {
                let mut a = collected(a.iter().map(|z| z.re().wide()));
                hessenberg::real(&mut a, n, want)
            };
            let Some((w, v)) = r else {
                info.of(i)[0] = 1;
                return;
            };
            info.of(i)[0] = 0;
            values.of(i).iter_mut().zip(w).for_each(|(o, z)| *o = narrow(z));
            if want {
                vectors.of(i).iter_mut().zip(v).for_each(|(o, z)| *o = narrow(z));
            }
        });
    }
    erased!(a, T in [FLOAT, COMPLEX] => each::<T>(a.get(), n, values.get(), vectors.map(|v| v.get()), info))
}
