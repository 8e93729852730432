//! Lines side by side, one per place of a vector.
//!
//! A group of lines is brought into a buffer in which an element is a vector of real and one of imaginary parts, goes through
//! the passes there, and is written back: through transposed squares where a line's elements follow each other, straight where
//! the lines do, and one by one where neither does.

use super::butterfly::{self, Parts, Pass, load, store};
use super::folded::{self, Ends, Folded, Write};
use super::lines::Raw;
use super::long::{FINE, Turns};
use super::{Plan, Point, Shape, num_traits_like::Float};
use crate::engine::Shared;
use crate::engine::cache::{prefetch, stream_fence};
use crate::engine::isa::level;
use crate::engine::parallel::parallel_for;
use crate::engine::scratch::with_scratch;
use crate::engine::simd::{Body, C, Vector};

/// The passes of a length with small factors.
pub struct Batch<T> {
    passes: Vec<Pass<T>>,
    /// As a matrix, where a group is larger than the nearest cache.
    folded: Option<Folded<T>>,
}
impl<T: Float> Batch<T> {
    /// Of `n` complex points, if its factors are at most 13.
    pub(super) fn new(n: usize) -> Option<Self> {
        let folded = if n >= 128 { Folded::new(n) } else { None };
        Some(Batch { passes: butterfly::passes(n)?, folded })
    }
}

/// Some lines of a call that are transformed together.
pub struct Group<'a, T> {
    plan: &'a Plan<T>,
    batch: &'a Batch<T>,
    raw: &'a Raw<T>,
    way: Way<'a, T>,
    /// The group's number.
    at: usize,
    /// First line and number of lines.
    first: usize,
    count: usize,
    /// Two buffers, and memory for a few of their rows.
    a: *mut T,
    b: *mut T,
    near: *mut T,
}

/// Where lines come from and go to. The two calls of a long line have a matrix between them, which lies as groups of columns
/// compute it, one after the other: for each group its rows, each a vector of real and one of imaginary parts. So neither
/// call reads or writes places far from each other there.
#[derive(Clone, Copy)]
pub(super) enum Way<'a, T> {
    /// From memory to memory.
    Lines,
    /// From memory to the matrix, of which lines are columns. Each element is turned.
    IntoMatrix(&'a Turns<T>, Shared<*mut T>),
    /// From the matrix, of which lines are rows, to memory.
    FromMatrix(Shared<*mut T>),
}

const GRAIN: usize = 40_000;

pub(super) fn run<T: Point>(plan: &Plan<T>, raw: &Raw<T>, way: Way<T>) {
    let Some(batch) = &plan.batch else { return };
    let level = level();
    let lanes = T::lanes(level);
    // a group does not go beyond a row of lines, unless rows are short
    let (rows, row) = match raw.to.inner {
        inner if inner >= lanes && raw.to.inner == raw.from.inner => (raw.to.outer, inner),
        _ => (1, raw.to.count()),
    };
    let per_row = row.div_ceil(lanes);
    let length = plan.n + 1;
    let each = length * (length.ilog2() as usize + 8) / 8 * lanes;
    let room = length * 2 * lanes;
    parallel_for(rows * per_row, GRAIN / each.max(1), |range| {
        let (near, spare) = batch.folded.as_ref().map_or((0, 0), |f| (f.near(), f.spare()));
        let (near, spare) = (near * 2 * lanes, spare * 2 * lanes);
        with_scratch::<T, _>(2 * room + spare + near, |buffer| {
            let (a, b) = buffer.split_at_mut(room);
            let (b, near) = b.split_at_mut(room + spare);
            let (a, b, near) = (a.as_mut_ptr(), b.as_mut_ptr(), near.as_mut_ptr());
            for g in range {
                let (r, at) = (g / per_row, g % per_row * lanes);
                let count = lanes.min(row - at);
                T::run(
                    level,
                    &Group { plan, batch, raw, way, at: g, first: r * row + at, count, a, b, near },
                );
            }
            if raw.stream {
                stream_fence();
            }
        });
    });
}

/// A line's floats from memory into the buffer, or back.
pub(super) struct Move<'a, T> {
    /// Where each lane's line begins.
    pub(super) starts: &'a [usize],
    stride: usize,
    /// Floats of one element: 2 of complex lines.
    width: usize,
    /// Floats of a line.
    len: usize,
    /// From float to float of the line in vectors of the buffer: 2 where the imaginary parts have no place in memory.
    apart: usize,
    count: usize,
    /// Lanes follow each other.
    pub(super) beside: bool,
    /// The parts of numbers in memory stand exchanged in the buffer.
    exchange: bool,
    buffer: *mut T,
}

impl<T: Copy> Move<'_, T> {
    /// Offset of float `k` from the line's start.
    #[inline(always)]
    fn at(&self, k: usize) -> usize {
        k / self.width * self.stride + k % self.width
    }
    /// Whether whole squares or rows can go between memory and registers, for reading (missing lanes read the last line) or not.
    #[inline(always)]
    fn suits(&self, lanes: usize, reading: bool) -> bool {
        let whole = self.count == lanes;
        self.apart == 1 && if self.beside { whole } else { self.stride == self.width && (whole || reading) }
    }
    /// From element to element, where an element is a complex number in memory.
    #[inline(always)]
    pub(super) fn pairs(&self) -> Option<usize> {
        (self.width == 2).then_some(self.stride)
    }
    /// Element `e` of lines that follow each other, to a pair of vectors with its parts in their places.
    ///
    /// # Safety
    /// The lines lie in memory, `to` is valid for two vectors, and the machine has the instructions.
    #[inline(always)]
    pub(super) unsafe fn load_beside<V: Vector<T = T>>(
        &self,
        src: *const T,
        e: usize,
        to: *mut T,
        parts: Parts,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let src = src.add(self.starts[0]);
            let (re, im) = if self.width == 2 {
                let p = src.add(e * self.stride);
                V::apart(V::load(p), V::load(p.add(V::N)))
            } else {
                let p = src.add(2 * e * self.stride);
                (V::load(p), V::load(p.add(self.stride)))
            };
            store(C { re, im }, to, parts);
        }
    }
    /// Asks for the memory of element `e` of lines that follow each other, `groups` groups of lines later.
    #[inline(always)]
    pub(super) fn ask_beside<V: Vector<T = T>>(&self, at: *const T, e: usize, groups: usize) {
        const LINE: usize = 64;
        let at =
            at.wrapping_add(self.starts[0] + groups * V::N * self.width + 2 / self.width * e * self.stride);
        // of packed real lines an element is two places
        let (places, floats) = if self.width == 2 { (1, 2 * V::N) } else { (2, V::N) };
        for place in 0..places {
            for line in (0..floats).step_by(LINE / size_of::<T>()) {
                prefetch(at.wrapping_add(place * self.stride + line).cast());
            }
        }
    }
    /// A pair of vectors to element `e` of lines that follow each other.
    ///
    /// # Safety
    /// As [`Move::load_beside`], for memory that may be written.
    #[inline(always)]
    pub(super) unsafe fn store_beside<V: Vector<T = T>>(&self, x: C<V>, dst: *mut T, e: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let dst = dst.add(self.starts[0]);
            if self.width == 2 {
                let (p, (a, b)) = (dst.add(e * self.stride), V::together(x.re, x.im));
                a.store(p);
                b.store(p.add(V::N));
            } else {
                let p = dst.add(2 * e * self.stride);
                x.re.store(p);
                x.im.store(p.add(self.stride));
            }
        }
    }
    /// Where float `k` of the lines stands in the buffer.
    #[inline(always)]
    fn place(&self, k: usize, lanes: usize) -> *mut T {
        self.buffer.wrapping_add(((k * self.apart) ^ usize::from(self.exchange)) * lanes)
    }
    /// # Safety
    /// The lines lie in memory that may be read, the buffer has room for them, and the machine has the instructions.
    #[inline(always)]
    unsafe fn read<V: Vector<T = T>>(&self, src: *const T) {
        let n = V::N;
        // SAFETY: the caller's promise; missing lanes read the last line.
        unsafe {
            let to = |k: usize| self.place(k, n);
            if self.beside && self.count == n {
                let src = src.add(self.starts[0]);
                for e in 0..self.len / self.width {
                    let p = src.add(e * self.stride);
                    if self.width == 2 {
                        let (re, im) = V::apart(V::load(p), V::load(p.add(n)));
                        re.store(to(2 * e));
                        im.store(to(2 * e + 1));
                    } else {
                        V::load(p).store(to(e));
                    }
                }
                return;
            }
            let mut done = 0;
            if self.stride == self.width {
                while done + n <= self.len {
                    V::square(|l| src.add(self.starts[l] + done), |k| to(done + k), None);
                    done += n;
                }
            }
            for k in done..self.len {
                for (l, s) in self.starts[..n].iter().enumerate() {
                    *to(k).add(l) = *src.add(s + self.at(k));
                }
            }
        }
    }
    /// # Safety
    /// As [`Move::read`], for memory that may be written.
    #[inline(always)]
    unsafe fn write<V: Vector<T = T>>(&self, dst: *mut T, scale: T)
    where
        T: Float,
    {
        let n = V::N;
        // SAFETY: the caller's promise; missing lanes are not written.
        unsafe {
            let by = V::splat(scale);
            let from = |k: usize| self.place(k, n).cast_const();
            if self.beside && self.count == n {
                let dst = dst.add(self.starts[0]);
                for e in 0..self.len / self.width {
                    let p = dst.add(e * self.stride);
                    if self.width == 2 {
                        let (a, b) =
                            V::together(V::load(from(2 * e)).mul(by), V::load(from(2 * e + 1)).mul(by));
                        a.store(p);
                        b.store(p.add(n));
                    } else {
                        V::load(from(e)).mul(by).store(p);
                    }
                }
                return;
            }
            let mut done = 0;
            if self.stride == self.width && self.count == n {
                while done + n <= self.len {
                    V::square(|k| from(done + k), |l| dst.add(self.starts[l] + done), Some(by));
                    done += n;
                }
            }
            for k in done..self.len {
                for (l, s) in self.starts[..self.count].iter().enumerate() {
                    *dst.add(s + self.at(k)) = *from(k).add(l) * scale;
                }
            }
        }
    }
}

impl<T: Point> Body<T> for &Group<'_, T> {
    #[inline(always)]
    unsafe fn run<V: Vector<T = T>>(self) {
        // SAFETY: the caller's promise.
        unsafe { group::<V>(self) }
    }
}

/// # Safety
/// The machine has the vector's instructions.
#[inline(always)]
unsafe fn group<V: Vector<T: Point>>(g: &Group<V::T>) {
    let (plan, raw, n, lanes) = (g.plan, g.raw, g.plan.n, V::N);
    let length = plan.shape.length(n);
    let packed = length < n;
    let mut starts = [0usize; 16];
    let starts_of = |starts: &mut [usize; 16], lines: &super::Lines| {
        for (l, s) in starts[..lanes].iter_mut().enumerate() {
            *s = lines.start(g.first + l.min(g.count - 1));
        }
    };
    // lanes of one row
    let row = raw.to.inner == raw.from.inner && raw.to.inner >= lanes;
    let from_real = plan.shape.is_from_real();
    let (a, b) = (g.a, g.b);
    // SAFETY: `Raw::new` checked that all lines lie within their slices; the buffers have room for a line and one more element
    // of each lane; the caller has the instructions.
    unsafe {
        starts_of(&mut starts, &raw.from);
        let width = if from_real { 1 } else { 2 };
        let read = Move {
            starts: &starts,
            stride: raw.from.stride,
            width,
            len: plan.shape.reads(n) * width,
            apart: if from_real && !packed { 2 } else { 1 },
            count: g.count,
            beside: row && raw.from.inner_step == width && g.count == lanes,
            exchange: !raw.forward,
            buffer: a,
        };
        let step = 2 * lanes;
        // backwards the parts are exchanged where lines are read and where they are written
        let parts: Parts = if raw.forward { (0, lanes) } else { (lanes, 0) };
        // straight into the first pass where nothing else comes before it
        let folded = g.batch.folded.as_ref();
        let of_matrix = matches!(g.way, Way::FromMatrix(_));
        let straight = !of_matrix
            && folded.is_some()
            && plan.shape != Shape::Real
            && !raw.conj
            && read.suits(lanes, true);
        if let Way::FromMatrix(matrix) = g.way {
            rows_of_matrix::<V>(g, matrix.get().cast_const());
        } else if !straight {
            read.read::<V>(raw.src);
            if raw.conj {
                let minus = V::splat(-V::T::of(1.0));
                for k in 0..plan.shape.reads(n) {
                    let p = a.add(k * step + parts.1);
                    V::load(p).mul(minus).store(p);
                }
            }
            let zero = V::splat(V::T::default());
            match plan.shape {
                Shape::Half | Shape::Whole if !packed => {
                    (0..n).for_each(|k| zero.store(a.add(k * step + lanes)));
                }
                Shape::Real => before_real::<V>(plan, a, length, packed, parts),
                _ => {}
            }
        }
        let mut ends_at = [0usize; 16];
        starts_of(&mut ends_at, &raw.to);
        let width = if plan.shape == Shape::Real { 1 } else { 2 };
        let mut write = Move {
            starts: &ends_at,
            stride: raw.to.stride,
            width,
            len: plan.shape.writes(n) * width,
            apart: if plan.shape == Shape::Real && !packed { 2 } else { 1 },
            count: g.count,
            beside: row && raw.to.inner_step == width && g.count == lanes,
            exchange: !raw.forward,
            buffer: a,
        };
        let x = match folded {
            Some(f) => {
                let to = match g.way {
                    Way::IntoMatrix(turns, matrix) if f.turns() => {
                        Write::Turned(turns.group(g.at), matrix.get().add(g.at * length * step))
                    }
                    Way::Lines | Way::FromMatrix(_) if !from_real && write.suits(lanes, false) => {
                        Write::Memory(&write, raw.dst, (!raw.unscaled).then_some(raw.scale))
                    }
                    _ => Write::Buffer,
                };
                let read = straight.then_some((&read, raw.src));
                let ends = Ends { read, write: to, a, b, near: g.near, stream: raw.stream };
                folded::run::<V>(f, &ends, parts);
                if !matches!(to, Write::Buffer) {
                    return;
                }
                a
            }
            None => {
                let (mut x, mut y) = (a, b);
                for p in &g.batch.passes {
                    butterfly::run::<V>(p, x, y);
                    (x, y) = (y, x);
                }
                x
            }
        };
        if let Way::IntoMatrix(turns, matrix) = g.way {
            let to = matrix.get().add(g.at * length * step);
            return turn::<V>(x, to, length, turns.group(g.at));
        }
        if from_real {
            after_real::<V>(plan, x, length, packed);
        }
        write.buffer = x;
        write.write::<V>(raw.dst, raw.scale);
    }
}

/// Turns each element by the product of a coarse and a fine turn.
///
/// # Safety
/// `buffer` and `to` hold `rows` elements, and the machine has the instructions.
#[inline(always)]
unsafe fn turn<V: Vector<T: Point>>(buffer: *const V::T, to: *mut V::T, rows: usize, turns: &[V::T]) {
    let (lanes, step) = (V::N, 2 * V::N);
    let parts: Parts = (0, lanes);
    assert!(turns.len() >= (FINE + rows.div_ceil(FINE)) * step);
    // SAFETY: the caller's promise, and the table's length.
    unsafe {
        for (i, from) in (0..rows).step_by(FINE).enumerate() {
            let coarse = load::<V>(turns.as_ptr().add((FINE + i) * step), parts);
            for k in 0..FINE.min(rows - from) {
                let fine = load::<V>(turns.as_ptr().add(k * step), parts);
                let at = (from + k) * step;
                store(load::<V>(buffer.add(at), parts).times(fine.times(coarse)), to.add(at), parts);
            }
        }
    }
}

/// Brings the rows of a group from the matrix into the buffer.
///
/// # Safety
/// The matrix has as many groups of columns as a row has vectors, and as many rows as there are lines; the machine has the
/// instructions.
#[inline(always)]
unsafe fn rows_of_matrix<V: Vector<T: Point>>(g: &Group<V::T>, matrix: *const V::T) {
    let (n, lanes, step, rows) = (g.plan.n, V::N, 2 * V::N, g.raw.to.count());
    // SAFETY: the caller's promise; missing lanes read the last line, and columns beyond the last stay out of the buffer.
    unsafe {
        for first in (0..n).step_by(lanes) {
            let row = |l: usize| matrix.add((first / lanes * rows + g.first + l.min(g.count - 1)) * step);
            // what a line has no place for goes where its last element will be
            let to = |i: usize| g.a.add((first + i).min(n) * step);
            V::square(row, to, None);
            V::square(|l| row(l).add(lanes), |i| to(i).add(lanes), None);
        }
    }
}

/// From half a spectrum to the numbers whose backward transform is the real line: packed in pairs, or a whole spectrum.
///
/// # Safety
/// The buffer holds `n + 1` elements, and the machine has the instructions.
#[inline(always)]
unsafe fn before_real<V: Vector<T: Point>>(
    plan: &Plan<V::T>,
    buffer: *mut V::T,
    len: usize,
    packed: bool,
    parts: Parts,
) {
    let step = 2 * V::N;
    // SAFETY: the caller's promise.
    unsafe {
        let zero = V::splat(V::T::default());
        if !packed {
            zero.store(buffer.add(parts.1));
            for k in 1..plan.n / 2 + 1 {
                let v = load::<V>(buffer.add(k * step), parts);
                store(C { re: v.re, im: zero.sub(v.im) }, buffer.add((plan.n - k) * step), parts);
            }
            return;
        }
        let (first, last) = (V::load(buffer.add(parts.0)), V::load(buffer.add(len * step + parts.0)));
        store(C { re: first.add(last), im: first.sub(last) }, buffer, parts);
        for k in 1..=len / 2 {
            let (p, q) = (buffer.add(k * step), buffer.add((len - k) * step));
            let (x, y) = (load::<V>(p, parts), load::<V>(q, parts));
            let w = plan.turns[k];
            let w = C { re: V::splat(w.re), im: V::splat(-w.im) };
            let e = C { re: x.re.add(y.re), im: x.im.sub(y.im) };
            let o = C { re: x.re.sub(y.re), im: x.im.add(y.im) }.times(w);
            store(C { re: e.re.add(o.im), im: o.re.sub(e.im) }, q, parts);
            store(C { re: e.re.sub(o.im), im: e.im.add(o.re) }, p, parts);
        }
    }
}
/// From the transform of a real line, packed in pairs or not, to its spectrum.
///
/// # Safety
/// As [`before_real`].
#[inline(always)]
unsafe fn after_real<V: Vector<T: Point>>(plan: &Plan<V::T>, buffer: *mut V::T, len: usize, packed: bool) {
    let (lanes, step, n) = (V::N, 2 * V::N, plan.n);
    let parts: Parts = (0, lanes);
    // SAFETY: the caller's promise.
    unsafe {
        let zero = V::splat(V::T::default());
        if packed {
            let z = load::<V>(buffer, parts);
            store(C { re: z.re.add(z.im), im: zero }, buffer, parts);
            store(C { re: z.re.sub(z.im), im: zero }, buffer.add(len * step), parts);
            let half = V::splat(V::T::of(0.5));
            for k in 1..=len / 2 {
                let (p, q) = (buffer.add(k * step), buffer.add((len - k) * step));
                let (x, y) = (load::<V>(p, parts), load::<V>(q, parts));
                let w = plan.turns[k];
                let w = C { re: V::splat(w.re), im: V::splat(w.im) };
                let e = C { re: x.re.add(y.re).mul(half), im: x.im.sub(y.im).mul(half) };
                let d = C { re: x.re.sub(y.re).mul(half), im: x.im.add(y.im).mul(half) };
                let o = C { re: d.im, im: zero.sub(d.re) }.times(w);
                store(C { re: e.re.sub(o.re), im: o.im.sub(e.im) }, q, parts);
                store(e.add(o), p, parts);
            }
        } else {
            zero.store(buffer.add(lanes));
        }
        if plan.shape == Shape::Whole {
            for k in 1..n.div_ceil(2) {
                let v = load::<V>(buffer.add(k * step), parts);
                store(C { re: v.re, im: zero.sub(v.im) }, buffer.add((n - k) * step), parts);
            }
        }
    }
}
