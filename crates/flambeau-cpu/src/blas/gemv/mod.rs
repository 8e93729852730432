//! Matrix times vector, and dot products: one pass over memory, so no packing.

mod vectors;

use super::{MatmulScalar, RawMat, RawOut};
use crate::engine::SharedMut;
use crate::engine::isa::{Isa, Job, Level, best_for, run};
use crate::engine::parallel::{num_threads, parallel_for};
use crate::engine::scratch::with_scratch;
use crate::num::{Arith, Compute, Float};

/// Matrix elements below which a hand-over costs more than it saves; these kernels wait for memory, not arithmetic.
const PARALLEL_ELEMENTS: usize = 100_000;

/// How often a column that is repeated may be, and a vector be copied for it.
const REPEATED: usize = 1 << 20;

/// Sums of `R` rows times one vector; `rows[r]` and `x` have the same length.
#[inline(always)]
fn dots<I: Isa, T: Float, const R: usize>(rows: [&[T]; R], x: &[T::Compute]) -> [T::Compute; R] {
    const L: usize = 32;
    const S: usize = 16;
    let n = x.len();
    let zero = T::Compute::ZERO;
    let mut sum = [zero; R];
    let mut p = 0;
    if n >= L {
        let mut acc = [[zero; L]; R];
        while p + L <= n {
            let xv: &[T::Compute] = &x[p..p + L];
            for r in 0..R {
                let row = &rows[r][p..p + L];
                for l in 0..L {
                    acc[r][l] = row[l].up().fma::<I>(xv[l], acc[r][l]);
                }
            }
            p += L;
        }
        for r in 0..R {
            sum[r] = fold(&acc[r]);
        }
    }
    if p + S <= n {
        for r in 0..R {
            let (row, xv) = (&rows[r][p..p + S], &x[p..p + S]);
            let mut acc = [zero; S];
            for l in 0..S {
                acc[l] = row[l].up() * xv[l];
            }
            sum[r] = sum[r] + fold(&acc);
        }
        p += S;
    }
    for r in 0..R {
        for q in p..n {
            sum[r] = rows[r][q].up().fma::<I>(x[q], sum[r]);
        }
    }
    sum
}

#[inline(always)]
fn fold<A: Compute>(v: &[A]) -> A {
    // Halving keeps the adds independent, and the rounding errors small.
    let mut buf = [A::ZERO; 32];
    buf[..v.len()].copy_from_slice(v);
    let mut half = v.len() / 2;
    while half > 0 {
        for i in 0..half {
            buf[i] = buf[i] + buf[i + half];
        }
        half /= 2;
    }
    buf[0]
}

/// `y[i] = rows i0+i of M . x`, where rows are contiguous.
struct ByRows<'a, T: Float> {
    m: RawMat<T>,
    i0: usize,
    x: &'a [T::Compute],
    y: &'a mut [T::Compute],
}
impl<T: Float> Job for ByRows<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let k = self.x.len();
        // SAFETY: rows of a valid matrix with column stride 1 are `k` contiguous elements.
        let row = |i: usize| unsafe { std::slice::from_raw_parts(self.m.at(self.i0 + i, 0).p, k) };
        let n = self.y.len();
        let mut i = 0;
        while i + 4 <= n {
            let s = dots::<I, T, 4>([row(i), row(i + 1), row(i + 2), row(i + 3)], self.x);
            self.y[i..i + 4].copy_from_slice(&s);
            i += 4;
        }
        while i < n {
            self.y[i] = dots::<I, T, 1>([row(i)], self.x)[0];
            i += 1;
        }
    }
}

/// `y = M x` for rows `i0..`, where columns are contiguous.
struct ByColumns<'a, T: Float> {
    m: RawMat<T>,
    i0: usize,
    x: &'a [T::Compute],
    y: &'a mut [T::Compute],
}
impl<T: Float> Job for ByColumns<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        const BLOCK: usize = 1024;
        for (b, y) in self.y.chunks_mut(BLOCK).enumerate() {
            let i = self.i0 + b * BLOCK;
            y.fill(T::Compute::ZERO);
            let len = y.len();
            // SAFETY: a column piece of a valid matrix with row stride 1 is contiguous.
            let col = |j: usize| unsafe { std::slice::from_raw_parts(self.m.at(i, j).p, len) };
            let mut j = 0;
            while j + 4 <= self.x.len() {
                let (c0, c1, c2, c3) = (col(j), col(j + 1), col(j + 2), col(j + 3));
                let x = &self.x[j..j + 4];
                let (x0, x1, x2, x3) = (x[0], x[1], x[2], x[3]);
                for (l, y) in y.iter_mut().enumerate() {
                    let s = c0[l].up().fma::<I>(x0, *y);
                    let s = c1[l].up().fma::<I>(x1, s);
                    let s = c2[l].up().fma::<I>(x2, s);
                    *y = c3[l].up().fma::<I>(x3, s);
                }
                j += 4;
            }
            while j < self.x.len() {
                let (c, x) = (col(j), self.x[j]);
                for (l, y) in y.iter_mut().enumerate() {
                    *y = c[l].up().fma::<I>(x, *y);
                }
                j += 1;
            }
        }
    }
}

/// Does the product if one side is a vector and the matrix has a unit stride; returns whether it did.
///
/// # Safety
/// As `WideScalar::tile`.
pub(super) unsafe fn try_matvec<T>(
    m: usize,
    n: usize,
    k: usize,
    alpha: T::Compute,
    a: RawMat<T>,
    b: RawMat<T>,
    beta: T::Compute,
    c: RawOut<T>,
) -> bool
where
    T: Float + MatmulScalar,
{
    if (n != 1 && m != 1) || k == 0 || alpha == T::Compute::ZERO {
        return false;
    }
    // y = M x, whichever side the vector was on.
    let (rows, mat, vec, step, out, out_step) =
        if n == 1 { (m, a, b.p, b.rs, c.p, c.rs) } else { (n, b.t(), a.p, a.cs, c.p, c.cs) };
    let by_rows = mat.cs == 1 || k == 1;
    if !by_rows && mat.rs != 1 {
        return false;
    }
    // the copy of the vector is as long as the matrix is deep; only one column, repeated, has memory for less than that
    if mat.cs == 0 && k > REPEATED {
        return false;
    }
    let out = RawOut::rows(out, out_step);
    with_scratch::<T::Compute, _>(k + rows, |buf| {
        let (x, y) = buf.split_at_mut(k);
        for (p, x) in x.iter_mut().enumerate() {
            // SAFETY: inside the vector.
            *x = unsafe { *vec.add(p * step) }.up();
        }
        let x = &*x;
        let y = SharedMut::new(y);
        let body = |r: std::ops::Range<usize>| {
            // SAFETY: ranges of rows are disjoint.
            let y = unsafe { y.slice(r.start, r.len()) };
            let step = if by_rows { mat.rs } else { mat.cs };
            // SAFETY: the caller vouches for the matrix, whose rows `r` these are.
            let done = unsafe { vectors::matvec(mat.at(r.start, 0).p, step, by_rows, x, y) };
            if done {
            } else if by_rows {
                run(ByRows { m: mat, i0: r.start, x, y: &mut *y });
            } else {
                run(ByColumns { m: mat, i0: r.start, x, y: &mut *y });
            }
            let one = T::Compute::ONE;
            for (i, &s) in r.zip(y.iter()) {
                // SAFETY: inside C, and row `i` is this range's own.
                unsafe {
                    let p = out.at(i, 0).p;
                    let s = if alpha == one { s } else { alpha * s };
                    *p = T::down(if beta == T::Compute::ZERO { s } else { s + beta * (*p).up() });
                }
            }
        };
        if num_threads() == 1 || rows * k < PARALLEL_ELEMENTS {
            body(0..rows);
        } else {
            parallel_for(rows, (PARALLEL_ELEMENTS / 2).div_ceil(k).max(16), body);
        }
    });
    true
}

/// `sum(x[i * x_step] * y[i * y_step])` over `n` elements; halves are summed in f32 and rounded once, integers wrap.
///
/// # Panics
/// If a slice is too short for its stride.
pub fn dot<T: MatmulScalar>(n: usize, x: &[T], x_step: usize, y: &[T], y_step: usize) -> T {
    use super::{Mat, MatMut, gemm};
    let mut out = [<T as bytemuck::Zeroable>::zeroed()];
    gemm(
        1,
        1,
        n,
        T::Compute::ONE,
        Mat { data: x, row: 0, col: x_step },
        Mat { data: y, row: y_step, col: 0 },
        T::Compute::ZERO,
        MatMut { data: &mut out, row: 1, col: 1 },
    );
    out[0]
}
