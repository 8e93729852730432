//! Turns of neighbouring columns of single matrices: where the places of a vector need different numbers of steps, vectors of
//! each matrix are turned on their own, along its columns, which stay in the nearest cache.

use super::super::field::Real;
use super::{Marks, PLACES, SIDE, get};
use crate::engine::simd::Vector;

/// Numbers of the places.
pub(super) type Row<T> = [T; PLACES];

/// Rows of numbers, on lines of the cache.
#[repr(C, align(64))]
pub(super) struct Rows<T>(pub [Row<T>; SIDE]);

/// Turns of columns `(i, i + 1)`, by `i` and place, in the form in which one after the other takes three operations instead of
/// four: the column that goes on from turn to turn goes without its factor, the cosine of the turn before.
#[repr(C, align(64))]
pub(super) struct Turns<T> {
    /// The cosine, which is not 0.
    cos: [Row<T>; SIDE],
    sin: [Row<T>; SIDE],
    /// The cosine times that of the turn before.
    along: [Row<T>; SIDE],
    /// The sine times the cosine of the turn before, by the cosine.
    across: [Row<T>; SIDE],
}
impl<T: Real> Turns<T> {
    pub(super) fn none() -> Self {
        let [one, zero] = [T::ONE, T::ZERO].map(|x| [[x; PLACES]; SIDE]);
        Turns { cos: one, sin: zero, along: one, across: zero }
    }
    /// Writes turn `i` of all places; `before` is the cosine of the turn before, 1 of the first.
    ///
    /// # Safety
    /// The machine has the vector's instructions.
    #[inline(always)]
    pub(super) unsafe fn set<V: Vector<T = T>>(
        &mut self,
        i: usize,
        cos: &Wides<V>,
        sin: &Wides<V>,
        before: &Wides<V>,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let (mut cosine, mut along, mut across) = (*cos, *cos, *cos);
            for h in 0..wides::<V>() {
                let before = divisor(before[h]);
                cosine[h] = divisor(cos[h]);
                along[h] = cosine[h].mul(before);
                across[h] = sin[h].mul(before);
            }
            write_narrow::<V>(&cosine, &mut self.cos[i]);
            write_narrow::<V>(sin, &mut self.sin[i]);
            write_narrow::<V>(&along, &mut self.along[i]);
            write_narrow::<V>(&across, &mut self.across[i]);
            let (across, cos) = (self.across[i].as_mut_ptr(), self.cos[i].as_ptr());
            V::load(across).div(V::load(cos)).store(across);
        }
    }
}
/// The most vectors of f64 that have a number for each place of a vector.
pub(super) const WIDES: usize = 2;
/// Numbers in f64 for each place of `V`.
pub(super) type Wides<V> = [<V as Vector>::Wide; WIDES];

/// How many of the vectors of [`Wides`] count.
#[inline(always)]
pub(super) const fn wides<V: Vector>() -> usize {
    V::N / <V::Wide as Vector>::N
}
/// # Safety
/// The machine has the vector's instructions; so for what follows.
#[inline(always)]
pub(super) unsafe fn read<V: Vector>(row: &Row<f64>) -> Wides<V> {
    // SAFETY: the caller's promise, and a row has as many numbers.
    unsafe {
        let mut all = [V::Wide::splat(0.0); WIDES];
        for h in 0..wides::<V>() {
            all[h] = V::Wide::load(row.as_ptr().add(h * V::Wide::N));
        }
        all
    }
}
#[inline(always)]
pub(super) unsafe fn write<V: Vector>(all: &Wides<V>, row: &mut Row<f64>) {
    for h in 0..wides::<V>() {
        // SAFETY: as above.
        unsafe { all[h].store(row.as_mut_ptr().add(h * V::Wide::N)) };
    }
}
#[inline(always)]
pub(super) unsafe fn write_narrow<V: Vector<T: Real>>(all: &Wides<V>, row: &mut Row<V::T>) {
    let mut wide = [0.0; PLACES];
    // SAFETY: the caller's promise.
    unsafe { write::<V>(all, &mut wide) };
    for k in 0..V::N {
        row[k] = V::T::of(wide[k]);
    }
}
/// A hypotenuse, and both legs' parts of it; `(0, 1, 0)` of nothing.
#[inline(always)]
pub(super) unsafe fn split<W: Vector<T = f64>>(x: W, y: W) -> (W, W, W) {
    // SAFETY: the caller's promise.
    unsafe {
        let (zero, one) = (W::splat(0.0), W::splat(1.0));
        let square = x.fma(x, y.mul(y));
        let (r, some) = (square.sqrt(), zero.less(square));
        let by = one.div(r);
        (r, W::choose(some, x.mul(by), one), W::choose(some, y.mul(by), zero))
    }
}
/// What is new where a place is in its block, neither ahead of it nor beyond.
#[inline(always)]
pub(super) unsafe fn kept<W: Vector>((ahead, within): (W::Mask, W::Mask), new: W, old: W) -> W {
    // SAFETY: the caller's promise.
    unsafe { W::choose(ahead, old, W::choose(within, new, old)) }
}
/// A cosine, or instead of one near 0 a number far below a last digit and far above what has no reciprocal.
#[inline(always)]
unsafe fn divisor<W: Vector<T = f64>>(x: W) -> W {
    // SAFETY: the caller's promise.
    unsafe {
        let (least, negative) = (W::splat(1e-18), W::splat(-1e-18));
        let small = W::choose(x.less(W::splat(0.0)), negative, least);
        W::choose(least.less(magnitude(x)), x, small)
    }
}
/// Magnitudes.
#[inline(always)]
pub(super) unsafe fn magnitude<W: Vector<T = f64>>(x: W) -> W {
    // SAFETY: the caller's promise.
    unsafe { W::choose(x.less(W::splat(0.0)), W::splat(0.0).sub(x), x) }
}
/// Matrices of a group apart: `columns` columns each, `ld` numbers from one to the next, a multiple of a vector's.
#[derive(Clone, Copy)]
pub(super) struct Apart<T> {
    at: *mut T,
    columns: usize,
    ld: usize,
}
impl<T: Copy> Apart<T> {
    /// Vectors of room for matrices of so many rows and columns.
    pub(super) fn room(rows: usize, columns: usize) -> usize {
        rows.next_multiple_of(PLACES) * columns
    }
    /// In a buffer with [`Apart::room`].
    pub(super) fn new<V: Vector<T = T>>(at: *mut T, rows: usize, columns: usize) -> Self {
        Apart { at, columns, ld: rows.next_multiple_of(V::N) }
    }
    /// Column `c` of the matrix in a place.
    ///
    /// # Safety
    /// There are such a matrix and column.
    #[inline(always)]
    pub(super) unsafe fn column(&self, place: usize, c: usize) -> *mut T {
        // SAFETY: the caller's promise.
        unsafe { self.at.add((place * self.columns + c) * self.ld) }
    }
    /// Takes them out of a buffer of vectors, by columns of `rows` elements, behind which stands as much as a vector's places more.
    ///
    /// # Safety
    /// The machine has the vector's instructions, and the buffers are as long as that.
    #[inline(always)]
    pub(super) unsafe fn take<V: Vector<T = T>>(&self, buffer: *const T, rows: usize) {
        let n = V::N;
        for c in 0..self.columns {
            for r in (0..rows).step_by(n) {
                let from = (c * rows + r) * n;
                // SAFETY: the caller's promise; rows beyond the last are filled with what stands there.
                unsafe {
                    V::square(|k| buffer.add(from + k * n), |l| self.column(l, c).add(r), None);
                }
            }
        }
    }
    /// Turns columns `first` to `last` of the matrix in a place: pairs from the first on, `(x, y) -> (c x + s y, c y - s x)`, or with
    /// `DOWN` from the last on, `(x, y) -> (c x - s y, c y + s x)`.
    ///
    /// # Safety
    /// As [`Apart::take`]; there are such columns.
    #[inline(always)]
    pub(super) unsafe fn turn<V: Vector<T = T>, const DOWN: bool>(
        &self,
        place: usize,
        (first, last): (usize, usize),
        turns: &Turns<T>,
    ) {
        let mut r = 0;
        // SAFETY: the caller's promise; the rows are whole vectors.
        unsafe {
            while r + 4 * V::N <= self.ld {
                self.turn_rows::<V, 4, DOWN>(place, r, (first, last), turns);
                r += 4 * V::N;
            }
            while r < self.ld {
                self.turn_rows::<V, 1, DOWN>(place, r, (first, last), turns);
                r += V::N;
            }
        }
    }
    /// [`Apart::turn`] of `W` vectors of rows: a column between two turns stays in registers.
    #[inline(always)]
    unsafe fn turn_rows<V: Vector<T = T>, const W: usize, const DOWN: bool>(
        &self,
        place: usize,
        r: usize,
        (first, last): (usize, usize),
        turns: &Turns<T>,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let base = self.column(place, 0).add(r);
            let column = |c: usize| base.add(c * self.ld);
            let start = column(if DOWN { last } else { first });
            let mut kept = [get::<V>(start, 0); W];
            for w in 1..W {
                kept[w] = get::<V>(start, w);
            }
            for step in 0..last - first {
                let i = if DOWN { last - 1 - step } else { first + step };
                let sin = V::splat(turns.sin[i][place]);
                let (along, across) = (V::splat(turns.along[i][place]), V::splat(turns.across[i][place]));
                let (other, done) =
                    if DOWN { (column(i), column(i + 1)) } else { (column(i + 1), column(i)) };
                for w in 0..W {
                    let x = get::<V>(other, w);
                    x.fma(sin, kept[w].mul(along)).store(done.add(w * V::N));
                    kept[w] = kept[w].fnma(across, x);
                }
            }
            let cos = V::splat(turns.cos[if DOWN { first } else { last - 1 }][place]);
            let end = column(if DOWN { first } else { last });
            for w in 0..W {
                kept[w].mul(cos).store(end.add(w * V::N));
            }
        }
    }
}
impl<T: Real> Apart<T> {
    /// By what a column is to be multiplied for its length to be 1: the cosines and sines of many turns are rounded ones.
    ///
    /// # Safety
    /// As [`Apart::column`].
    #[inline(always)]
    pub(super) unsafe fn length<V: Vector<T = T>>(&self, place: usize, c: usize, rows: usize) -> T {
        // SAFETY: the caller's promise; whole vectors of rows, then the others.
        unsafe {
            let (column, mut sums) = (self.column(place, c), [V::splat(T::ZERO); PLACES / 4]);
            // the same sums with vectors of any length
            let (whole, each) = (rows / PLACES * PLACES, PLACES / V::N);
            for r in (0..whole).step_by(PLACES) {
                for w in 0..each {
                    let x = V::load(column.add(r + w * V::N));
                    sums[w] = x.fma(x, sums[w]);
                }
            }
            let mut parts = [T::ZERO; PLACES];
            for w in 0..each {
                sums[w].store(parts.as_mut_ptr().add(w * V::N));
            }
            let all = parts.iter().fold(0.0, |s, x| s + x.wide());
            let rest = (whole..rows).map(|r| (*column.add(r)).wide());
            T::of(1.0 / rest.fold(all, |s, x| s + x * x).sqrt())
        }
    }
}
/// The places that are not marked.
pub(super) fn unmarked(count: usize, care: &Marks) -> impl Iterator<Item = usize> + '_ {
    (0..count).filter(|l| !care[*l])
}
