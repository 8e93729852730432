//! Products with matrices by compressed rows.
//!
//! A row of the result is a sum of rows of the dense factor. It is computed in pieces of `WIDE` columns, whose sums stay in
//! registers, and all rows go through one piece before the next. So the part of the dense factor that a piece picks from stays
//! in the second-level cache, and a copy of it without gaps does so best.

use crate::engine::SharedMut;
use crate::engine::erase::erased;
use crate::engine::isa::{self, Isa, Job, Level};
use crate::engine::parallel::{num_threads, parallel_for};
use crate::engine::scratch::with_scratch;
use crate::num::field::Field;
use crate::{Any, AnyMut, DType};
use std::ops::Range;

/// Columns whose sums are kept in registers.
const WIDE: usize = 64;

/// A matrix by compressed rows: row `i` has the elements `starts[i]..starts[i + 1]`.
#[derive(Clone, Copy)]
pub struct Rows<'a, T> {
    /// One more than rows.
    pub starts: &'a [i64],
    /// The column of each element.
    pub columns: &'a [i64],
    /// The elements.
    pub values: &'a [T],
}
impl<'a, T> Rows<'a, T> {
    /// The elements of a row; none where the indices are none.
    #[inline(always)]
    fn row(&self, i: usize) -> (&'a [i64], &'a [T]) {
        let of = self.starts[i] as usize..self.starts[i + 1] as usize;
        (self.columns.get(of.clone()).unwrap_or(&[]), self.values.get(of).unwrap_or(&[]))
    }
}

/// Whether indices are those of a matrix: starts begin with 0, never descend and end with the number of elements, and every
/// column is one.
pub fn are_rows(starts: &[i64], columns: &[i64], width: usize) -> bool {
    starts.first() == Some(&0)
        && starts.last() == Some(&(columns.len() as i64))
        && starts.windows(2).all(|w| w[0] <= w[1])
        && columns.iter().all(|c| (0..width as i64).contains(c))
}

/// Some rows of a product.
struct Times<'a, T> {
    rows: Rows<'a, T>,
    dense: &'a [T],
    step: usize,
    n: usize,
    out: &'a SharedMut<'a, T>,
    of: Range<usize>,
    columns: Columns,
}
/// Which columns a task computes.
#[derive(Clone, Copy)]
enum Columns {
    /// [`WIDE`] of them from this one, out of a copy without gaps: rows of the dense factor that lie far apart share few places
    /// of the cache.
    Packed(usize),
    /// All from this one.
    From(usize),
}
impl<T: Field> Times<'_, T> {
    /// Columns `j..j + W` of the task's rows; `pick` gives the part of a row of the dense factor.
    #[inline(always)]
    fn piece<'d, I: Isa, const W: usize>(&self, j: usize, pick: impl Fn(i64) -> Option<&'d [T; W]>)
    where
        T: 'd,
    {
        for i in self.of.clone() {
            let (columns, values) = self.rows.row(i);
            // two sums for elements in turn, so that none waits for the one before
            let mut sums = [[T::ZERO; W]; 2];
            let (pairs, last) = columns.as_chunks::<2>();
            let (by, last_by) = values.as_chunks::<2>();
            for (c, v) in pairs.iter().zip(by) {
                let (Some(a), Some(b)) = (pick(c[0]), pick(c[1])) else { continue };
                for l in 0..W {
                    sums[0][l] = a[l].fma::<I>(v[0], sums[0][l]);
                }
                for l in 0..W {
                    sums[1][l] = b[l].fma::<I>(v[1], sums[1][l]);
                }
            }
            for (c, v) in last.iter().zip(last_by) {
                let Some(a) = pick(*c) else { continue };
                for l in 0..W {
                    sums[0][l] = a[l].fma::<I>(*v, sums[0][l]);
                }
            }
            // SAFETY: a place of the result belongs to one task.
            let out = unsafe { self.out.slice(i * self.n + j, W) };
            for l in 0..W {
                out[l] = sums[0][l] + sums[1][l];
            }
        }
    }
    /// The same out of the dense factor as it lies.
    #[inline(always)]
    fn strided<I: Isa, const W: usize>(&self, j: usize) {
        self.piece::<I, W>(j, |c| {
            let at = c as usize * self.step + j;
            self.dense.get(at..at + W).and_then(|r| r.try_into().ok())
        });
    }
}
impl<T: Field> Job for Times<'_, T> {
    type Out = ();
    const BEST: Level = if T::COMPLEX { Level::V3 } else { Level::V4 };
    #[inline(always)]
    fn run<I: Isa>(self) {
        match self.columns {
            Columns::Packed(j) => {
                let k = self.dense.len().div_ceil(self.step);
                with_scratch::<T, _>(k * WIDE, |copy| {
                    let (copy, _) = copy.as_chunks_mut::<WIDE>();
                    for (to, from) in copy.iter_mut().zip(self.dense.chunks(self.step)) {
                        if let Some(from) = from.get(j..j + WIDE) {
                            to.copy_from_slice(from);
                        }
                    }
                    let copy = &*copy;
                    self.piece::<I, WIDE>(j, |c| copy.get(c as usize));
                });
            }
            Columns::From(mut j) => {
                while j + WIDE <= self.n {
                    self.strided::<I, WIDE>(j);
                    j += WIDE;
                }
                while j + 16 <= self.n {
                    self.strided::<I, 16>(j);
                    j += 16;
                }
                while j + 4 <= self.n {
                    self.strided::<I, 4>(j);
                    j += 4;
                }
                while j < self.n {
                    self.strided::<I, 1>(j);
                    j += 1;
                }
            }
        }
    }
}

/// The product of a matrix by compressed rows with a dense one of `n` columns whose rows are `step` apart, into a row-major
/// result. The indices must be [`are_rows`].
///
/// # Panics
/// A result of another size.
pub fn times_dense<T: Field>(rows: Rows<'_, T>, dense: &[T], step: usize, n: usize, out: &mut [T]) {
    let m = rows.starts.len() - 1;
    assert_eq!(out.len(), m * n, "the result has another size");
    if out.is_empty() {
        return;
    }
    let step = step.max(1);
    let k = dense.len().div_ceil(step);
    let out = &SharedMut::new(out);
    let run = |of: Range<usize>, columns| isa::run(Times { rows, dense, step, n, out, of, columns });
    // copies pay off where each row of the dense factor is used a few times
    let pieces = if rows.values.len() > 4 * k && k * step > (1 << 15) { n / WIDE } else { 0 };
    if pieces > 0 {
        // threads share out pieces, and rows only where there are too few of those: each would copy for itself
        let parts = if num_threads() > pieces { num_threads().div_ceil(pieces) } else { 1 };
        let each = m.div_ceil(parts);
        parallel_for(pieces * parts, 1, |tasks| {
            for t in tasks {
                let from = (t % parts * each).min(m);
                run(from..(from + each).min(m), Columns::Packed(t / parts * WIDE));
            }
        });
    }
    let first = pieces * WIDE;
    if first < n {
        let work = (rows.values.len() / m + 1) * (n - first);
        parallel_for(m, (30_000 / work.max(1)).max(1), |of| run(of, Columns::From(first)));
    }
}

/// Products of rows of two matrices at the places of a third.
struct Sampled<'a, T> {
    starts: &'a [i64],
    columns: &'a [i64],
    a: &'a [T],
    b: &'a [T],
    k: usize,
    out: &'a SharedMut<'a, T>,
    of: Range<usize>,
}
impl<T: Field> Job for Sampled<'_, T> {
    type Out = ();
    const BEST: Level = if T::COMPLEX { Level::V3 } else { Level::V4 };
    #[inline(always)]
    fn run<I: Isa>(self) {
        const LANES: usize = 32;
        for i in self.of {
            let a = &self.a[i * self.k..(i + 1) * self.k];
            for e in self.starts[i] as usize..self.starts[i + 1] as usize {
                let at = self.columns[e] as usize * self.k;
                let b = &self.b[at..at + self.k];
                let mut sums = [T::ZERO; LANES];
                let (wa, ra) = a.split_at(self.k / LANES * LANES);
                let (wb, rb) = b.split_at(wa.len());
                for (x, y) in wa.chunks_exact(LANES).zip(wb.chunks_exact(LANES)) {
                    for l in 0..LANES {
                        sums[l] = x[l].fma::<I>(y[l], sums[l]);
                    }
                }
                let mut width = LANES / 2;
                while width > 0 {
                    for l in 0..width {
                        sums[l] = sums[l] + sums[l + width];
                    }
                    width /= 2;
                }
                let sum = ra.iter().zip(rb).fold(sums[0], |s, (x, y)| x.fma::<I>(*y, s));
                // SAFETY: each element belongs to one row, and each row to one task.
                unsafe { self.out.set(e, sum) };
            }
        }
    }
}

/// The products of row `i` of `a` and row `c` of `b`, rows of `k` elements without gaps, for every element `(i, c)` of a
/// matrix by compressed rows. The indices must be [`are_rows`].
///
/// # Panics
/// Rows that `a` or `b` does not have.
pub fn sampled<T: Field>(starts: &[i64], columns: &[i64], (a, b): (&[T], &[T]), k: usize, out: &mut [T]) {
    assert_eq!(out.len(), columns.len(), "one result for each element");
    let m = starts.len() - 1;
    let each = (columns.len() / m.max(1) + 1) * k;
    let out = SharedMut::new(out);
    parallel_for(m, (30_000 / each.max(1)).max(1), |of| {
        isa::run(Sampled { starts, columns, a, b, k, out: &out, of });
    });
}

/// The same over run-time types; `None` for dtypes other than f32, f64 and their complex ones.
pub mod erased {
    use super::*;

    /// Whether there are loops for a dtype.
    pub fn suits(d: DType) -> bool {
        matches!(d, DType::F32 | DType::F64 | DType::C64 | DType::C128)
    }
    /// [`super::times_dense`] with the indices, the values, the dense factor with the step between its rows and its columns,
    /// and the result.
    pub fn times_dense(
        (starts, columns): (&[i64], &[i64]),
        values: Any<'_>,
        (dense, step, n): (Any<'_>, usize, usize),
        out: AnyMut<'_>,
    ) -> Option<()> {
        erased!(values, T in [FLOAT, COMPLEX] => {
            let rows = Rows { starts, columns, values: values.get::<T>() };
            super::times_dense::<T>(rows, dense.get::<T>(), step, n, out.get::<T>());
        })
    }
    /// [`super::sampled`].
    pub fn sampled(
        (starts, columns): (&[i64], &[i64]),
        (a, b): (Any<'_>, Any<'_>),
        k: usize,
        out: AnyMut<'_>,
    ) -> Option<()> {
        erased!(a, T in [FLOAT, COMPLEX] => {
            super::sampled::<T>(starts, columns, (a.get::<T>(), b.get::<T>()), k, out.get::<T>());
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elements at every third place of a matrix, some rows empty.
    fn matrix(m: usize, k: usize) -> (Vec<i64>, Vec<i64>, Vec<f32>) {
        let (mut starts, mut columns) = (vec![0i64], Vec::new());
        for i in 0..m {
            if i % 4 != 3 {
                columns.extend((0..k).filter(|j| (i * 7 + j * 5) % 3 == 0).map(|j| j as i64));
            }
            starts.push(columns.len() as i64);
        }
        let values = (0..columns.len()).map(|i| (i % 11) as f32 - 5.0).collect();
        (starts, columns, values)
    }

    #[test]
    fn products_of_all_widths() {
        for (m, k, n) in [
            (1, 1, 1),
            (5, 7, 3),
            (9, 13, 20),
            (33, 40, 64),
            (17, 30, 149),
            (200, 300, 130),
            (0, 3, 4),
            (3, 0, 4),
        ] {
            let (starts, columns, values) = matrix(m, k);
            assert!(are_rows(&starts, &columns, k));
            let step = n + 3;
            let dense: Vec<f32> = (0..k * step).map(|i| (i % 17) as f32 - 8.0).collect();
            let mut out = vec![f32::NAN; m * n];
            let rows = Rows { starts: &starts, columns: &columns, values: &values };
            times_dense(rows, &dense, step, n, &mut out);
            for i in 0..m {
                for j in 0..n {
                    let of = starts[i] as usize..starts[i + 1] as usize;
                    let want: f32 = of.map(|e| values[e] * dense[columns[e] as usize * step + j]).sum();
                    assert_eq!(out[i * n + j], want, "{m} {k} {n} at {i} {j}");
                }
            }
        }
    }

    #[test]
    fn products_at_places() {
        let (m, n, k) = (9, 14, 70);
        let (starts, columns, _) = matrix(m, n);
        let a: Vec<f64> = (0..m * k).map(|i| (i % 13) as f64 - 6.0).collect();
        let b: Vec<f64> = (0..n * k).map(|i| (i % 7) as f64 - 3.0).collect();
        let mut out = vec![f64::NAN; columns.len()];
        sampled(&starts, &columns, (&a, &b), k, &mut out);
        for i in 0..m {
            for e in starts[i] as usize..starts[i + 1] as usize {
                let c = columns[e] as usize;
                let want: f64 = (0..k).map(|x| a[i * k + x] * b[c * k + x]).sum();
                assert_eq!(out[e], want);
            }
        }
    }

    #[test]
    fn forged_indices_are_none() {
        assert!(are_rows(&[0], &[], 3) && are_rows(&[0, 1, 2], &[2, 0], 3));
        for (starts, columns) in [
            (&[][..], &[][..]),
            (&[1, 2], &[0, 1]),
            (&[0, 3], &[0, 1]),
            (&[0, 2, 1, 2], &[0, 1]),
            (&[0, 2], &[0, 3]),
            (&[0, 2], &[-1, 0]),
        ] {
            assert!(!are_rows(starts, columns, 3), "{starts:?} {columns:?}");
        }
    }

    #[test]
    #[ignore = "measures"]
    fn speed() {
        let (m, k, n) = (4096, 4096, 256);
        let (mut starts, mut columns) = (vec![0i64], Vec::new());
        let mut h = 1u32;
        for _ in 0..m {
            for j in 0..k as i64 {
                h = h.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if h >> 8 < (1 << 24) / 100 {
                    columns.push(j);
                }
            }
            starts.push(columns.len() as i64);
        }
        let values = vec![0.5f32; columns.len()];
        let dense = vec![0.25f32; k * n];
        let mut out = vec![0f32; m * n];
        for threads in [1, 2] {
            crate::engine::parallel::set_num_threads(threads);
            let mut best = f64::INFINITY;
            for _ in 0..50 {
                let start = std::time::Instant::now();
                assert!(are_rows(&starts, &columns, k));
                let rows = Rows { starts: &starts, columns: &columns, values: &values };
                times_dense(rows, &dense, n, n, &mut out);
                best = best.min(start.elapsed().as_secs_f64());
            }
            println!("{threads} threads: {:.2} ms, {} elements", best * 1e3, columns.len());
        }
        crate::engine::parallel::set_num_threads(1);
    }
}
