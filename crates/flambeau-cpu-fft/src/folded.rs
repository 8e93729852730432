//! Groups of lines whose buffer is larger than the first-level cache, as matrices: columns of a few elements come from memory, are
//! transformed and turned there, and rows go back the same way. So each element goes to the second-level cache and back once.

use super::batch::Move;
use super::butterfly::{
    self, Apart, Numbers, Pairs, Parts, Pass, Results, TurnedAlike, kind, load, run_apart, scaled, store,
};
use super::long::FINE;
use super::num_traits_like::Float;
use super::root;
use crate::engine::room::collected;
use crate::engine::simd::{C, Vector};
use num_complex::Complex;

/// Rows and columns are whole multiples of the most elements that a transposed square has side by side.
const WHOLE: usize = 8;

/// A length as a product.
pub(super) struct Folded<T> {
    rows: usize,
    columns: usize,
    down: Vec<Pass<T>>,
    across: Vec<Pass<T>>,
    /// `exp(-2 pi i j k / n)` for each column `j`, row `k`.
    turns: Vec<Complex<T>>,
    /// First and last passes go from memory and to it by themselves.
    direct: bool,
}
impl<T: Float> Folded<T> {
    pub(super) fn new(n: usize) -> Option<Self> {
        let fits = |m: usize| m.is_multiple_of(WHOLE) && butterfly::has_passes(m);
        let rows = (WHOLE..=n.isqrt()).rev().find(|r| n.is_multiple_of(*r) && fits(*r) && fits(n / r))?;
        let columns = n / rows;
        let turn = |(j, k): (usize, usize)| {
            let w = root(j * k % n, n);
            Complex::new(T::of(w.re), T::of(w.im))
        };
        let turns = collected((0..columns).flat_map(|j| (0..rows).map(move |k| (j, k))).map(turn));
        let (down, across) = (butterfly::passes(rows)?, butterfly::passes(columns)?);
        let direct = butterfly::may_be_apart(&down) && butterfly::may_be_apart(&across);
        Some(Folded { rows, columns, down, across, turns, direct })
    }
    /// Elements of the buffer between columns and rows, more than a line has.
    pub(super) fn spare(&self) -> usize {
        self.rows
    }
    /// Whether results may be turned and go into a matrix by themselves.
    pub(super) fn turns(&self) -> bool {
        self.direct
    }
    /// Elements of near memory that [`run`] needs.
    pub(super) fn near(&self) -> usize {
        (WHOLE + 2) * self.rows.max(self.columns)
    }
}

/// Through all passes from `src` by way of `between` into `to`; no two of them may be the same.
#[inline(always)]
unsafe fn through<V: Vector<T: Float>>(
    passes: &[Pass<V::T>],
    src: *const V::T,
    between: *mut V::T,
    to: *mut V::T,
) {
    let mut x = src;
    for (i, p) in passes.iter().enumerate() {
        let y = if (passes.len() - i) % 2 == 1 { to } else { between };
        // SAFETY: the caller's promise: all hold as many elements as the passes transform.
        unsafe { butterfly::run::<V>(p, x, y) };
        x = y.cast_const();
    }
}

/// Columns or rows between one that is transformed and one whose memory is asked for. Places of lines that lie side by side are far
/// from each other, so the machine does not see what comes next. More of them would push each other out: steps are often
/// powers of two, whose places share few places of the caches.
const AHEAD: usize = 3;

/// Where a group's elements come from and go to.
pub(super) struct Ends<'a, T> {
    /// Lines in memory, or else the buffer `a`.
    pub read: Option<(&'a Move<'a, T>, *const T)>,
    pub write: Write<'a, T>,
    /// The buffers, and memory for a few columns or rows. `b` has [`Folded::spare`] elements more than a line.
    pub a: *mut T,
    pub b: *mut T,
    pub near: *mut T,
    /// Complex results go past the caches where they can.
    pub stream: bool,
}
/// Where results go.
#[derive(Clone, Copy)]
pub(super) enum Write<'a, T> {
    /// To the buffer `a`.
    Buffer,
    /// To memory, times a scale if there is one.
    Memory(&'a Move<'a, T>, *mut T, Option<T>),
    /// To a place for a line of each lane, turned by the products of fine and coarse numbers ([`super::long::Turns`]).
    Turned(&'a [T], *mut T),
}
/// Pairs of vectors with `1` elements between, from the `0`th on, each turned by the product of a fine and a coarse number.
struct TurnedTwice<'a, T>(usize, usize, &'a [T], *mut T);
impl<V: Vector> Results<V> for TurnedTwice<'_, V::T> {
    #[inline(always)]
    unsafe fn put(&self, y: C<V>, e: usize) {
        let (at, step, natural) = (self.0 + e * self.1, 2 * V::N, (0, V::N));
        // SAFETY: the caller's promise; the table has as many numbers as results need.
        unsafe {
            let fine = load::<V>(self.2.as_ptr().add(at % FINE * step), natural);
            let coarse = load::<V>(self.2.as_ptr().add((FINE + at / FINE) * step), natural);
            store(y.times(fine.times(coarse)), self.3.add(at * step), natural);
        }
    }
}

/// A scale in all places of a vector. No closure: it would not have the instructions.
///
/// # Safety
/// The machine has the instructions.
#[inline(always)]
#[allow(clippy::manual_map)]
unsafe fn splat_some<V: Vector>(scale: Option<V::T>) -> Option<V> {
    match scale {
        // SAFETY: the caller's promise.
        Some(s) => Some(unsafe { V::splat(s) }),
        None => None,
    }
}

/// Transforms a group. `parts` says where parts of numbers in memory stand in pairs of the buffers.
///
/// # Safety
/// The ends' lines lie in memory and suit ([`Move::suits`]), the buffers hold a line of each lane, `near` holds
/// [`Folded::near`] elements, and the machine has the instructions.
#[inline(always)]
pub(super) unsafe fn run<V: Vector<T: Float>>(f: &Folded<V::T>, ends: &Ends<V::T>, parts: Parts) {
    let wide = V::N / 2;
    // SAFETY: the caller's promise; rows and columns are multiples of `wide`.
    unsafe {
        for j in (0..f.columns).step_by(wide) {
            columns::<V>(f, ends, j, parts);
        }
        for k in (0..f.rows).step_by(wide) {
            rows::<V>(f, ends, k, parts);
        }
    }
}
/// Half as many columns as a vector has places, from column `first` on, to the buffer `b`, whose rows are one element longer than
/// they need to be: rows a power of two apart would share their places of the caches.
///
/// # Safety
/// As [`run`].
#[inline(always)]
unsafe fn columns<V: Vector<T: Float>>(f: &Folded<V::T>, ends: &Ends<V::T>, first: usize, parts: Parts) {
    let (step, natural) = (2 * V::N, (0, V::N));
    let (rows, columns, wide) = (f.rows, f.columns, V::N / 2);
    let longest = rows.max(columns);
    let ld = (columns + 1) * step;
    // SAFETY: the caller's promise; all places are below rows * columns, or within `near`.
    unsafe {
        let (u, v) = (ends.near, ends.near.add(longest * step));
        let block = ends.near.add(2 * longest * step);
        // elements that follow each other come by squares
        if let Some((m, src)) = ends.read.filter(|(m, _)| !m.beside) {
            for k in 0..rows {
                let at = 2 * (k * columns + first);
                let part = |i: usize| if i.is_multiple_of(2) { parts.0 } else { parts.1 };
                let to = |i: usize| block.add(((i / 2) * rows + k) * step + part(i));
                V::square(|l| src.add(m.starts[l] + at), to, None);
            }
        }
        for c in 0..wide {
            let (j, column) = (first + c, block.add(c * rows * step));
            let turns = f.turns.as_ptr().add(j * rows);
            let to = TurnedAlike(ends.b.add(j * step), ld, turns);
            // the column as pairs of vectors, or in memory
            let (mut src, mut apart) = (column, step);
            let mut line = None;
            match ends.read {
                Some((m, src)) if m.beside => {
                    // the first columns of the next group come after the last ones
                    let (next, group) = ((j + AHEAD) % columns, (j + AHEAD) / columns);
                    for k in 0..rows {
                        m.ask_beside::<V>(src, k * columns + next, group);
                    }
                    match m.pairs() {
                        Some(stride) if f.direct => {
                            line = Some((src.add(m.starts[0] + j * stride), columns * stride));
                        }
                        _ => {
                            for k in 0..rows {
                                m.load_beside::<V>(src, k * columns + j, column.add(k * step), parts);
                            }
                        }
                    }
                }
                Some(_) => {}
                None if f.direct => (src, apart) = (ends.a.add(j * step), columns * step),
                None => {
                    for k in 0..rows {
                        let x = load::<V>(ends.a.add((k * columns + j) * step), natural);
                        store(x, column.add(k * step), natural);
                    }
                }
            }
            if f.direct {
                let (first, u) = (&f.down[0], Pairs(u));
                match line {
                    Some((src, apart)) => {
                        run_apart::<V, _, { kind::LINE }>(first, src, apart, &u, parts.0 != 0);
                    }
                    None => {
                        run_apart::<V, _, { kind::FIRST }>(first, src.cast_const(), apart, &u, false);
                    }
                }
                run_apart::<V, _, { kind::LAST }>(&f.down[1], u.0.cast_const(), step, &to, false);
                continue;
            }
            through::<V>(&f.down, column, u, v);
            for k in 0..rows {
                to.put(load::<V>(v.add(k * step), natural), k);
            }
        }
    }
}
/// Half as many rows as a vector has places, from row `first` on, from the buffer `b` to where the results go.
///
/// # Safety
/// As [`run`].
#[inline(always)]
unsafe fn rows<V: Vector<T: Float>>(f: &Folded<V::T>, ends: &Ends<V::T>, first: usize, parts: Parts) {
    let (step, natural) = (2 * V::N, (0, V::N));
    let (rows, columns, wide) = (f.rows, f.columns, V::N / 2);
    let longest = rows.max(columns);
    let ld = (columns + 1) * step;
    // SAFETY: the caller's promise; all places are below rows * columns, or within `near`.
    unsafe {
        let u = ends.near;
        let block = ends.near.add(2 * longest * step);
        for c in 0..wide {
            let k = first + c;
            let (row, result) = (ends.b.add(k * ld).cast_const(), block.add(c * columns * step));
            if let Write::Memory(m, dst, _) = ends.write
                && m.beside
                && k + AHEAD < rows
                && !(ends.stream && f.direct && m.pairs().is_some())
            {
                for j in 0..columns {
                    m.ask_beside::<V>(dst.cast_const(), k + AHEAD + j * rows, 0);
                }
            }
            if f.direct {
                run_apart::<V, _, { kind::FIRST }>(&f.across[0], row, step, &Pairs(u), false);
                let (end, u) = (&f.across[1], u.cast_const());
                // where the row goes as pairs of vectors
                let (mut to, mut apart) = (result, step);
                match ends.write {
                    Write::Turned(turns, to) => {
                        let to = TurnedTwice(k, rows, turns, to);
                        run_apart::<V, _, { kind::LAST }>(end, u, step, &to, false);
                        continue;
                    }
                    Write::Memory(m, dst, scale) if m.beside => {
                        if let Some(stride) = m.pairs() {
                            let by = splat_some::<V>(scale);
                            let to = dst.add(m.starts[0] + k * stride);
                            let exchange = parts.0 != 0;
                            let to = Numbers { to, step: rows * stride, by, exchange, stream: ends.stream };
                            run_apart::<V, _, { kind::LAST }>(end, u, step, &to, false);
                            continue;
                        }
                    }
                    Write::Buffer => (to, apart) = (ends.a.add(k * step), rows * step),
                    Write::Memory(..) => {}
                }
                run_apart::<V, _, { kind::LAST }>(end, u, step, &Apart(to, apart), false);
            } else {
                through::<V>(&f.across, row, u, result);
            }
            match ends.write {
                Write::Memory(m, dst, scale) if m.beside => {
                    let by = splat_some::<V>(scale);
                    for j in 0..columns {
                        let x = load::<V>(result.add(j * step), parts);
                        m.store_beside(scaled(x, by), dst, k + j * rows);
                    }
                }
                Write::Buffer if !f.direct => {
                    for j in 0..columns {
                        let x = load::<V>(result.add(j * step), natural);
                        store(x, ends.a.add((k + j * rows) * step), natural);
                    }
                }
                _ => {}
            }
        }
        if let Write::Memory(m, dst, scale) = ends.write
            && !m.beside
        {
            let by = splat_some::<V>(scale);
            for j in 0..columns {
                let at = 2 * (first + j * rows);
                let part = |i: usize| if i.is_multiple_of(2) { parts.0 } else { parts.1 };
                let from = |i: usize| block.add(((i / 2) * columns + j) * step + part(i)).cast_const();
                V::square(from, |l| dst.add(m.starts[l] + at), by);
            }
        }
    }
}
