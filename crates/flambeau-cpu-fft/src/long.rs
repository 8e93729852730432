//! Long lines as matrices: transforms of all columns, a turn of each element, transforms of all rows. Columns and rows run side
//! by side, so a line of millions of points has the caches and threads that many short ones have.

use super::batch::{self, Way};
use super::lines::{Lines, Raw};
use super::single::Single;
use super::{Plan, Point, Shape, root};
use crate::engine::Shared;
use crate::engine::cache::stream_threshold;
use crate::engine::isa::level;
use crate::engine::room::room;
use num_complex::Complex;

/// Lengths below this go better in one piece, if vectors go along them.
pub(super) const LEAST: usize = 1 << 15;
/// Others go as matrices from here on.
const LEAST_OF_ALL: usize = 256;
/// Rows that share the coarse part of a turn.
pub(super) const FINE: usize = 32;

/// The turns `exp(-2 pi i j k / n)` of a group of columns `j` in row `k`: a coarse one for each [`FINE`] rows times a fine one.
pub struct Turns<T> {
    /// For each group of columns the fine turns, then the coarse ones, each a vector of real and one of imaginary parts.
    table: Vec<T>,
    /// Elements of a group.
    pub(super) each: usize,
}
impl<T: Point> Turns<T> {
    fn new(n: usize, rows: usize, columns: usize) -> Self {
        let lanes = T::lanes(level());
        let count = FINE + rows.div_ceil(FINE);
        let mut table = room(columns.next_multiple_of(lanes) * count * 2);
        for group in (0..columns).step_by(lanes) {
            for i in 0..count {
                let k = if i < FINE { i } else { (i - FINE) * FINE };
                let turn = |l: usize| root((group + l) * k % n, n);
                table.extend((0..lanes).map(|l| T::of(turn(l).re)));
                table.extend((0..lanes).map(|l| T::of(turn(l).im)));
            }
        }
        Turns { table, each: count * 2 * lanes }
    }
    /// The turns of group `g`.
    pub(super) fn group(&self, g: usize) -> &[T] {
        &self.table[g * self.each..][..self.each]
    }
}

/// A long line's two lengths.
pub struct Long<T> {
    rows: usize,
    columns: usize,
    down: Box<Plan<T>>,
    across: Box<Plan<T>>,
    turns: Turns<T>,
}
impl<T: Point> Long<T> {
    /// Of `n` points, if it is long and a product of two lengths that run side by side.
    pub(super) fn new(n: usize) -> Option<Self> {
        let lanes = T::lanes(level());
        if n < LEAST_OF_ALL {
            return None;
        }
        // sides of few vectors cost as much as whole ones
        let least = if n < LEAST { lanes } else { 4 * lanes };
        let fits = |m: usize| {
            m >= least
                && m * lanes * 2 * size_of::<T>() <= super::MOST_BYTES
                && super::butterfly::has_passes(m)
        };
        // the pair nearest to a square
        let rows = (1..=n.isqrt()).rev().find(|r| n.is_multiple_of(*r) && fits(*r) && fits(n / r))?;
        let columns = n / rows;
        let plan = |n| Box::new(Plan::new(n, Shape::Complex));
        Some(Long {
            rows,
            columns,
            down: plan(rows),
            across: plan(columns),
            turns: Turns::new(n, rows, columns),
        })
    }
    /// Numbers of the matrix between.
    fn between(&self) -> usize {
        self.rows * self.columns.next_multiple_of(T::lanes(level()))
    }
    /// From `src` by way of `through` to `dst`.
    fn run(&self, forward: bool, src: *const T, through: &mut [Complex<T>], dst: *mut T) {
        let (rows, columns) = (self.rows, self.columns);
        assert!(through.len() >= self.between());
        // SAFETY: groups of columns write parts of their own, and rows are read once all of them have ended.
        let through = unsafe { Shared::new(through.as_mut_ptr().cast::<T>()) };
        let lines = |inner, inner_step: usize, stride: usize| Lines {
            outer: 1,
            outer_step: 0,
            inner,
            inner_step: 2 * inner_step,
            stride: 2 * stride,
        };
        let raw = |src, from, dst, to| Raw {
            src,
            from,
            dst,
            to,
            conj: false,
            forward,
            scale: T::of(1.0),
            unscaled: true,
            stream: false,
        };
        let columns_of = lines(columns, 1, columns);
        let into = Way::IntoMatrix(&self.turns, through);
        batch::run(&self.down, &raw(src, columns_of, dst, columns_of), into);
        let (from, to) = (lines(rows, columns, 1), lines(rows, 1, rows));
        let bytes = 2 * rows * columns * size_of::<Complex<T>>();
        let stream = bytes > stream_threshold() && to.of_whole_cache_lines(dst, 2);
        let rows_of = Raw { stream, ..raw(src, from, dst, to) };
        batch::run(&self.across, &rows_of, Way::FromMatrix(through));
    }
}

/// A long line in one direction.
pub(super) struct Directed<'a, T> {
    pub long: &'a Long<T>,
    pub forward: bool,
}
impl<T: Point> Single<T> for Directed<'_, T> {
    fn scratch(&self) -> usize {
        self.long.between()
    }
    fn run(&self, line: &mut [Complex<T>], scratch: &mut [Complex<T>]) {
        assert_eq!(line.len(), self.long.rows * self.long.columns);
        let p = line.as_mut_ptr().cast::<T>();
        self.long.run(self.forward, p.cast_const(), scratch, p);
    }
    fn run_from(&self, src: &[Complex<T>], line: &mut [Complex<T>], scratch: &mut [Complex<T>]) {
        assert!(line.len() == self.long.rows * self.long.columns && src.len() == line.len());
        self.long.run(self.forward, src.as_ptr().cast(), scratch, line.as_mut_ptr().cast());
    }
}
