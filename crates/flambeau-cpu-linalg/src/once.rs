//! Products with a matrix that read it once: its columns go by fours, which stay in the nearest cache for both of their uses.
//! Several threads share the columns, each with a sum of its own.

use super::field::Field;
use super::vector::{LANES, best, by_runs, dot_body, four_axpys, four_dots, totals};
use crate::engine::isa::{self, Isa, Job, Level};
use crate::engine::parallel::{num_threads, parallel_chunks};
use crate::engine::{SharedMut, scratch::with_scratch};

/// Columns that are read together.
const WIDE: usize = 4;
/// Bytes of a matrix that are worth a thread.
const SHARE: usize = 512 << 10;

/// Threads for a matrix of so many numbers.
fn parts<T>(numbers: usize) -> usize {
    (numbers * size_of::<T>() / SHARE).clamp(1, num_threads())
}
/// `y +=` what each part makes of zeros.
fn summed<T: Field>(parts: usize, y: &mut [T], of: impl Fn(usize, &mut [T]) + Sync) {
    if parts == 1 {
        return of(0, y);
    }
    let n = y.len();
    with_scratch::<T, _>((parts - 1) * n, |sums| {
        {
            let (sums, first) = (SharedMut::new(sums), SharedMut::new(&mut *y));
            parallel_chunks(parts, &|p| {
                // SAFETY: each part has a sum of its own.
                let own = unsafe { if p == 0 { first.slice(0, n) } else { sums.slice((p - 1) * n, n) } };
                if p > 0 {
                    own.fill(T::ZERO);
                }
                of(p, own);
            });
        }
        for sum in sums.chunks_exact(n) {
            y.iter_mut().zip(sum).for_each(|(y, s)| *y = *y + *s);
        }
    });
}

struct Hermitian<'a, T> {
    a: &'a [T],
    ld: usize,
    x: &'a [T],
    y: &'a mut [T],
    columns: std::ops::Range<usize>,
}
impl<T: Field> Job for Hermitian<'_, T> {
    type Out = ();
    const BEST: Level = best::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let Hermitian { a, ld, x, y, columns } = self;
        let n = x.len();
        let mut j = columns.start;
        while j < columns.end {
            let w = WIDE.min(columns.end - j);
            // the corner on the diagonal
            for c in j..j + w {
                y[c] = y[c] + T::real(a[c * ld + c].re()) * x[c];
                for r in c + 1..j + w {
                    let v = a[c * ld + r];
                    y[r] = y[r] + v * x[c];
                    y[c] = y[c] + v.conj() * x[r];
                }
            }
            let below = j + w;
            let of = |k: usize| &a[(j + k) * ld + below..(j + k) * ld + n];
            if w < WIDE {
                for k in 0..w {
                    let (mut s, xj) = (T::ZERO, x[j + k]);
                    for ((v, x), y) in of(k).iter().zip(&x[below..]).zip(&mut y[below..]) {
                        s = v.conj().fma::<I>(*x, s);
                        *y = v.fma::<I>(xj, *y);
                    }
                    y[j + k] = y[j + k] + s;
                }
                break;
            }
            let (top, rest) = y.split_at_mut(below);
            let four = [of(0), of(1), of(2), of(3)];
            let sums = both::<T, I>(four, &x[below..], [x[j], x[j + 1], x[j + 2], x[j + 3]], rest);
            for (y, s) in top[j..].iter_mut().zip(sums) {
                *y = *y + s;
            }
            j += WIDE;
        }
    }
}
/// [`both`] of `W` numbers.
#[inline(always)]
fn both_run<T: Field, I: Isa, const W: usize>(
    at: usize,
    a: [&[T]; WIDE],
    x: &[T],
    by: [T; WIDE],
    y: &mut [T],
    sums: &mut [[T; LANES]; WIDE],
) {
    let (x, y) = (&x[at..at + W], &mut y[at..at + W]);
    let mut own = [T::ZERO; W];
    own.copy_from_slice(y);
    for k in 0..WIDE {
        let a = &a[k][at..at + W];
        for l in 0..W {
            sums[k][l] = a[l].conj().fma::<I>(x[l], sums[k][l]);
            own[l] = a[l].fma::<I>(by[k], own[l]);
        }
    }
    y.copy_from_slice(&own);
}
/// [`four_dots`] with `x` and [`four_axpys`] by `by` in one loop.
#[inline(always)]
fn both<T: Field, I: Isa>(a: [&[T]; WIDE], x: &[T], by: [T; WIDE], y: &mut [T]) -> [T; WIDE] {
    let n = x.len();
    let a = a.map(|a| &a[..n]);
    let y = &mut y[..n];
    let mut sums = [[T::ZERO; LANES]; WIDE];
    by_runs!(n, both_run[T, I](a, x, by, y, &mut sums));
    totals(&sums)
}

/// `y = A x` of a Hermitian matrix whose lower half `a` holds, columns `ld` apart.
pub fn hermitian<T: Field>(a: &[T], ld: usize, x: &[T], y: &mut [T]) {
    let n = x.len();
    y.fill(T::ZERO);
    let parts = parts::<T>(n * n / 2);
    // shares of the same area: what is left of `p` of them is a smaller triangle
    let from = |p: usize| {
        let left = 1.0 - p as f64 / parts as f64;
        if p == parts { n } else { (n - (n as f64 * left.sqrt()) as usize) / WIDE * WIDE }
    };
    summed(parts, y, |p, y| {
        isa::run(Hermitian { a, ld, x, y, columns: from(p)..from(p + 1) });
    });
}

/// What [`there_and_back`] reads beside the matrix, and writes.
pub struct Ways<'a, T> {
    /// `v`
    pub x: &'a [T],
    /// A factor of the first product, and what is taken off it then.
    pub factor: T,
    /// As long as a row; becomes `factor * A^H x - y`.
    pub y: &'a mut [T],
    /// As long as a row; the matrix's first row, conjugated, less the new `y` comes to it.
    pub row: &'a mut [T],
    /// As long as a column; becomes `A row` of the new `row`.
    pub out: &'a mut [T],
}
struct Back<'a, T> {
    a: &'a [T],
    ld: usize,
    x: &'a [T],
    factor: T,
    y: &'a mut [T],
    row: &'a mut [T],
    out: &'a mut [T],
}
impl<T: Field> Job for Back<'_, T> {
    type Out = ();
    const BEST: Level = best::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let Back { a, ld, x, factor, y, row, out } = self;
        let (m, n) = (x.len(), row.len());
        let of = |j: usize| &a[j * ld..j * ld + m];
        let mut j = 0;
        while j + WIDE <= n {
            let four = [of(j), of(j + 1), of(j + 2), of(j + 3)];
            let sums = four_dots::<T, I>(four, x);
            let mut by = [T::ZERO; WIDE];
            for k in 0..WIDE {
                y[j + k] = factor * sums[k] - y[j + k];
                row[j + k] = row[j + k] + four[k][0].conj() - y[j + k];
                by[k] = row[j + k];
            }
            four_axpys::<T, I>(four, by, out);
            j += WIDE;
        }
        for j in j..n {
            y[j] = factor * dot_body::<T, I>(of(j), x) - y[j];
            row[j] = row[j] + of(j)[0].conj() - y[j];
            let by = row[j];
            out.iter_mut().zip(of(j)).for_each(|(o, a)| *o = a.fma::<I>(by, *o));
        }
    }
}
/// A product with the adjoint of a matrix, columns `ld` apart, and one with the matrix of what comes of that: see [`Ways`].
pub fn there_and_back<T: Field>(a: &[T], ld: usize, ways: Ways<T>) {
    let Ways { x, factor, y, row, out } = ways;
    let (m, n) = (x.len(), row.len());
    assert!(y.len() == n && out.len() == m);
    out.fill(T::ZERO);
    let parts = parts::<T>(m * n);
    let each = n.div_ceil(parts).next_multiple_of(WIDE);
    let (y, row) = (SharedMut::new(y), SharedMut::new(row));
    summed(parts, out, |p, out| {
        let (from, to) = ((p * each).min(n), ((p + 1) * each).min(n));
        // SAFETY: each part has columns of its own.
        let (y, row) = unsafe { (y.slice(from, to - from), row.slice(from, to - from)) };
        if from < to {
            isa::run(Back { a: &a[from * ld..], ld, x, factor, y, row, out });
        }
    });
}
