//! Lines whose elements follow each other, with vectors along the line: as a matrix of as many columns as a vector has places.
//! The columns are transformed side by side, straight from memory, then squares of the matrix are turned, transposed in
//! registers, and their rows, which lie across the vectors by now, transformed on the way out. A line stays in the nearest cache,
//! and memory is read and written in its order.

use super::butterfly::{self, Pairs, Pass, Turned, eight, four, kind, load, run_as, scaled, store};
use super::lines::Raw;
use super::num_traits_like::Float;
use super::{Plan, Point, Shape, root};
use crate::engine::cache::{prefetch, stream_fence};
use crate::engine::isa::level;
use crate::engine::parallel::parallel_for;
use crate::engine::room::room;
use crate::engine::scratch::with_scratch;
use crate::engine::simd::{Body, C, Vector};
use num_complex::Complex;

/// Lengths from here on go as matrices of two long sides.
const MOST: usize = super::long::LEAST;

/// What is known in advance of lines of one length.
pub(super) struct Along<T> {
    /// Complex points of a line.
    len: usize,
    /// The passes of a column.
    passes: Vec<Pass<T>>,
    /// The turn of each row and column, rows in order: a vector of real and one of imaginary parts.
    turns: Table<T>,
    /// `exp(-2 pi i k / (2 len))` in the same way, where two real numbers are a point.
    halves: Table<T>,
    /// `exp(-2 pi i k / 16)`
    small: [Complex<T>; 16],
}

/// Numbers of which the first lies at the begin of a cache line.
struct Table<T> {
    numbers: Vec<T>,
    at: usize,
}
impl<T: Float> Table<T> {
    /// `exp(-2 pi i f(k) / n)` for each `k` below `count`, as vectors of `lanes`.
    fn new(count: usize, lanes: usize, n: usize, f: impl Fn(usize) -> usize) -> Self {
        let spare = 64 / size_of::<T>();
        let mut numbers: Vec<T> = room(2 * count + spare);
        let at = numbers.as_ptr().align_offset(64).min(spare);
        numbers.resize(at, T::default());
        for k in (0..count).step_by(lanes) {
            numbers.extend((k..k + lanes).map(|k| T::of(root(f(k), n).re)));
            numbers.extend((k..k + lanes).map(|k| T::of(root(f(k), n).im)));
        }
        Table { numbers, at }
    }
    fn start(&self) -> *const T {
        self.numbers[self.at..].as_ptr()
    }
}

impl<T: Point> Along<T> {
    /// Of `n` points, if whole squares of vectors make up a line.
    pub(super) fn new(n: usize, shape: Shape) -> Option<Self> {
        let (len, lanes) = (shape.length(n), T::lanes(level()));
        // real lines are packed by two
        let whole = len > 0 && len.is_multiple_of(lanes * lanes) && len < MOST;
        if !whole || (shape != Shape::Complex && len == n) {
            return None;
        }
        let passes = butterfly::passes(len / lanes)?;
        let halves = if len < n { len } else { 0 };
        Some(Along {
            len,
            passes,
            turns: Table::new(len, lanes, len, |k| (k / lanes) * (k % lanes)),
            halves: Table::new(halves, lanes, n, |k| k),
            small: std::array::from_fn(|k| {
                let w = root(k, 16);
                Complex::new(T::of(w.re), T::of(w.im))
            }),
        })
    }
    pub(super) fn bytes(&self) -> usize {
        (self.turns.numbers.len() + self.halves.numbers.len()) * size_of::<T>()
    }
}

/// Whether elements of lines follow each other.
pub(super) fn suits<T>(shape: Shape, raw: &Raw<T>) -> bool {
    let from = if shape.is_from_real() { 1 } else { 2 };
    let to = if shape == Shape::Real { 1 } else { 2 };
    raw.from.stride == from && raw.to.stride == to
}

/// Some lines of a call.
pub struct Stretch<'a, T> {
    along: &'a Along<T>,
    shape: Shape,
    raw: &'a Raw<T>,
    lines: std::ops::Range<usize>,
    /// Two buffers of a line and two vectors more, and one of two squares of vectors.
    a: *mut T,
    b: *mut T,
    square: *mut T,
}

/// Nanoseconds of work that pay for another thread.
const GRAIN: usize = 40_000;

pub(super) fn run<T: Point>(plan: &Plan<T>, along: &Along<T>, raw: &Raw<T>) {
    let level = level();
    let (lanes, len) = (T::lanes(level), along.len);
    assert!(len == plan.shape.length(plan.n) && len.is_multiple_of(lanes * lanes));
    let each = len * (len.ilog2() as usize + 8) / 16;
    let one = 2 * (len + lanes);
    parallel_for(raw.to.count(), GRAIN / each.max(1), |lines| {
        with_scratch::<T, _>(2 * one + 2 * lanes * lanes, |buffer| {
            let (a, rest) = buffer.split_at_mut(one);
            let (b, square) = rest.split_at_mut(one);
            let (a, b, square) = (a.as_mut_ptr(), b.as_mut_ptr(), square.as_mut_ptr());
            T::run(level, &Stretch { along, shape: plan.shape, raw, lines, a, b, square });
            if raw.stream {
                stream_fence();
            }
        });
    });
}

impl<T: Point> Body<T> for &Stretch<'_, T> {
    #[inline(always)]
    unsafe fn run<V: Vector<T = T>>(self) {
        // SAFETY: the caller's promise; the plan was made for the vectors of this machine.
        unsafe { stretch::<V>(self) }
    }
}

/// # Safety
/// The machine has the vector's instructions, and its places are those that the plan was made for.
#[inline(always)]
unsafe fn stretch<V: Vector<T: Point>>(g: &Stretch<V::T>) {
    let (raw, n) = (g.raw, V::N);
    let step = 2 * n;
    let rows = g.along.len / n;
    // backwards the parts are exchanged where a line is read and where it is written
    let back = !raw.forward;
    for i in g.lines.clone() {
        // SAFETY: `Raw::new` checked that all lines lie within their slices, and `suits` that their elements follow each other;
        // the buffers have room for a line; the caller has the instructions.
        unsafe {
            let (src, dst) = (raw.src.add(raw.from.start(i)), raw.dst.add(raw.to.start(i)));
            let mut from = src;
            let mut in_memory = true;
            if g.shape == Shape::Real {
                if raw.conj {
                    before_real::<V, true>(g.along, src, g.a);
                } else {
                    before_real::<V, false>(g.along, src, g.a);
                }
                (from, in_memory) = (g.a.cast_const(), false);
            } else if raw.conj {
                let minus = V::splat(-V::T::of(1.0));
                for e in 0..rows {
                    let (re, im) = V::apart(V::load(src.add(e * step)), V::load(src.add(e * step + n)));
                    let (re, im) = if back { (im.mul(minus), re) } else { (re, im.mul(minus)) };
                    store(C { re, im }, g.a.add(e * step), (0, n));
                }
                (from, in_memory) = (g.a.cast_const(), false);
            }
            let (mut to, mut other) = if in_memory { (g.a, g.b) } else { (g.b, g.a) };
            let (turns, end) = (g.along.turns.start(), g.along.passes.len() - 1);
            for (at, p) in g.along.passes.iter().enumerate() {
                let (pairs, turned) = (Pairs(to), Turned(to, turns));
                // a single pass from the buffer is a last one
                match (in_memory, at == end) {
                    (true, false) => run_as::<V, _, { kind::LINE }>(p, from, &pairs, back),
                    (true, true) => run_as::<V, _, { kind::LINE }>(p, from, &turned, back),
                    (false, false) if at == 0 => run_as::<V, _, { kind::FIRST }>(p, from, &pairs, false),
                    (false, false) => run_as::<V, _, { kind::MIDDLE }>(p, from, &pairs, false),
                    (false, true) => run_as::<V, _, { kind::LAST }>(p, from, &turned, false),
                }
                (from, in_memory) = (to.cast_const(), false);
                (to, other) = (other, to);
            }
            let _ = other;
            let next = (i + 1).min(g.lines.end - 1);
            let next_src = raw.src.wrapping_add(raw.from.start(next));
            let next_dst = raw.dst.wrapping_add(raw.to.start(next)).cast_const();
            let ahead = Ahead(next_src, (!raw.stream).then_some(next_dst));
            if g.shape.is_from_real() {
                last::<V, false>(g, from, Out::Planes(to), ahead);
                after_real::<V>(g, to, dst);
            } else if raw.forward {
                last::<V, false>(g, from, Out::Line(dst), ahead);
            } else {
                last::<V, true>(g, from, Out::Line(dst), ahead);
            }
        }
    }
}

/// Where a line's transform goes.
enum Out<T> {
    /// To memory, times the scale.
    Line(*mut T),
    /// To the buffer, all real parts before all imaginary ones.
    Planes(*mut T),
}

/// Eight points or four, whose real and imaginary parts are rows of two squares.
#[inline(always)]
unsafe fn rows<V: Vector<T: Float>>(re: *const V::T, im: *const V::T) -> [C<V>; 8] {
    // SAFETY: the caller has squares of `V::N` vectors, and the instructions.
    unsafe {
        // no closure: it would not have the instructions
        macro_rules! x {
            ($l:expr) => {
                C { re: V::load(re.add($l * V::N)), im: V::load(im.add($l * V::N)) }
            };
        }
        let mut y = [x!(0); 8];
        if V::N == 4 {
            y[..4].copy_from_slice(&four([x!(0), x!(1), x!(2), x!(3)]));
        } else {
            y = eight([x!(0), x!(1), x!(2), x!(3), x!(4), x!(5), x!(6), x!(7)]);
        }
        y
    }
}

/// What is read and written next, asked for little by little. A line that begins a page, or whose elements are taken with steps
/// between, comes too late by itself, and all at once would hold up what is read meanwhile. What is streamed is not asked for.
#[derive(Clone, Copy)]
struct Ahead<T>(*const T, Option<*const T>);
impl<T> Ahead<T> {
    /// Asks for the lines of memory in `count` vectors of `n` elements, from vector `at` on.
    #[inline(always)]
    fn ask(self, n: usize, at: usize, count: usize) {
        for line in (0..count * n).step_by(64 / size_of::<T>()) {
            prefetch(self.0.wrapping_add(at * n + line).cast());
            if let Some(to) = self.1 {
                prefetch(to.wrapping_add(at * n + line).cast());
            }
        }
    }
}

/// Transposes and transforms the rows of the matrix at `from`, which are turned already, and asks for what comes next meanwhile.
///
/// # Safety
/// `from` holds a line, so does what is written; the machine has the instructions.
#[inline(always)]
unsafe fn last<V: Vector<T: Point>, const BACK: bool>(
    g: &Stretch<V::T>,
    from: *const V::T,
    out: Out<V::T>,
    next: Ahead<V::T>,
) {
    let (n, step, len) = (V::N, 2 * V::N, g.along.len);
    let m = len / n;
    // SAFETY: the caller's promise; the squares have room for `n * n` numbers each.
    unsafe {
        let (re, im) = (g.square, g.square.add(n * n));
        let stream = g.raw.stream;
        let by = if g.raw.unscaled { None } else { Some(V::splat(g.raw.scale)) };
        for k in (0..m).step_by(n) {
            if n == 16 {
                last_of_sixteen::<V, BACK>(g, from.add(k * step), k, &out, next);
                continue;
            }
            next.ask(n, 2 * k, 2 * n);
            V::square(|i| from.add((k + i) * step), |l| re.add(l * n), None);
            V::square(|i| from.add((k + i) * step + n), |l| im.add(l * n), None);
            let y = rows::<V>(re, im);
            for (l, y) in y[..n].iter().enumerate() {
                out.put::<V, BACK>(*y, k + m * l, len + n, by, stream);
            }
        }
    }
}
impl<T> Out<T> {
    /// Writes a vector of results, the first of which is point `at`: times `by` to memory, past the caches if so asked, or with
    /// imaginary parts `plane` behind real ones.
    ///
    /// # Safety
    /// The place is valid, one that is streamed to a whole cache line's, and the machine has the instructions.
    #[inline(always)]
    unsafe fn put<V: Vector<T = T>, const BACK: bool>(
        &self,
        y: C<V>,
        at: usize,
        plane: usize,
        by: Option<V>,
        stream: bool,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            match *self {
                Out::Line(dst) => {
                    let y = scaled(y, by);
                    let y = if BACK { C { re: y.im, im: y.re } } else { y };
                    put(y, dst.add(2 * at), stream);
                }
                Out::Planes(to) => {
                    y.re.store(to.add(at));
                    y.im.store(to.add(plane + at));
                }
            }
        }
    }
}

/// [`last`] of sixteen rows of vectors of sixteen, in three steps, each of which shuffles and multiplies fewer vectors than there
/// are registers: shuffles have one unit, and only what stands near them keeps the others busy. The halves of the transposition
/// go before and into the first of two passes of four.
///
/// # Safety
/// As [`last`].
#[inline(always)]
unsafe fn last_of_sixteen<V: Vector<T: Point>, const BACK: bool>(
    g: &Stretch<V::T>,
    from: *const V::T,
    k: usize,
    out: &Out<V::T>,
    next: Ahead<V::T>,
) {
    const N: usize = 16;
    const STEP: usize = 2 * N;
    let (len, w, square) = (g.along.len, &g.along.small, g.square);
    let m = len / N;
    // SAFETY: the caller's promise; the squares are one buffer of sixteen pairs of vectors.
    unsafe {
        // no closure: it would not have the instructions
        macro_rules! four_of {
            ($p:expr, $from:expr, $step:expr) => {
                [
                    V::load($p.add($from)),
                    V::load($p.add($from + $step)),
                    V::load($p.add($from + 2 * $step)),
                    V::load($p.add($from + 3 * $step)),
                ]
            };
        }
        for i in 0..4 {
            next.ask(N, 2 * k + 4 * i, 4);
            let at = 4 * i * STEP;
            let re = V::columns_of_quarters(four_of!(from, at, STEP));
            let im = V::columns_of_quarters(four_of!(from, at + N, STEP));
            for c in 0..4 {
                re[c].store(square.add((4 * i + c) * STEP));
                im[c].store(square.add((4 * i + c) * STEP + N));
            }
        }
        for b in 0..4 {
            next.ask(N, 2 * k + 16 + 4 * b, 4);
            let re = V::quarters_of_columns(four_of!(square, b * STEP, 4 * STEP));
            let im = V::quarters_of_columns(four_of!(square, b * STEP + N, 4 * STEP));
            let mut u = four([
                C { re: re[0], im: im[0] },
                C { re: re[1], im: im[1] },
                C { re: re[2], im: im[2] },
                C { re: re[3], im: im[3] },
            ]);
            for p in 0..4 {
                if b * p > 0 {
                    let w = w[b * p];
                    u[p] = u[p].times(C { re: V::splat(w.re), im: V::splat(w.im) });
                }
                store(u[p], square.add((4 * p + b) * STEP), (0, N));
            }
        }
        let by = if g.raw.unscaled { None } else { Some(V::splat(g.raw.scale)) };
        for p in 0..4 {
            let re = four_of!(square, 4 * p * STEP, STEP);
            let im = four_of!(square, 4 * p * STEP + N, STEP);
            let y = four([
                C { re: re[0], im: im[0] },
                C { re: re[1], im: im[1] },
                C { re: re[2], im: im[2] },
                C { re: re[3], im: im[3] },
            ]);
            for r in 0..4 {
                out.put::<V, BACK>(y[r], k + m * (p + 4 * r), len + N, by, g.raw.stream);
            }
        }
    }
}

/// From half a spectrum to the points, two real numbers each, of which it is the transform, with parts exchanged, as that is a
/// backward one. A place and the one that mirrors it are made of the same two numbers, and so in one go.
///
/// # Safety
/// `src` holds `len + 1` complex numbers, `to` has room for a line and a pair of vectors, and the machine has the instructions.
#[inline(always)]
unsafe fn before_real<V: Vector<T: Point>, const CONJ: bool>(
    along: &Along<V::T>,
    src: *const V::T,
    to: *mut V::T,
) {
    let (n, step, len) = (V::N, 2 * V::N, along.len);
    let halves = along.halves.start();
    // SAFETY: the caller's promise; `n` divides half of `len`.
    unsafe {
        let minus = V::splat(-V::T::of(1.0));
        for k in (0..len / 2).step_by(n) {
            let (p, q) = (src.add(2 * k), src.add(2 * (len - k + 1 - n)));
            let (xr, xi) = V::apart(V::load(p), V::load(p.add(n)));
            let (yr, yi) = V::apart(V::load(q), V::load(q.add(n)));
            let (yr, yi) = (yr.reverse(), yi.reverse());
            let (xi, yi) = if CONJ { (xi.mul(minus), yi.mul(minus)) } else { (xi, yi) };
            let w = load::<V>(halves.add(2 * k), (0, n));
            let d = C { re: xr.sub(yr), im: xi.add(yi) };
            // times the turn's conjugate
            let o = C { re: d.im.fma(w.im, d.re.mul(w.re)), im: d.re.fnma(w.im, d.im.mul(w.re)) };
            let e = C { re: xr.add(yr), im: xi.sub(yi) };
            let exchanged = C { re: e.im.add(o.re), im: e.re.sub(o.im) };
            store(exchanged, to.add(k / n * step), (0, n));
            // The mirrored places begin one behind a vector's first: what goes beyond a vector's end is the next one's first,
            // and what is written there instead meanwhile is overwritten in turn.
            let (block, next) = (to.add((len - k - n) / n * step), to.add((len - k) / n * step));
            o.re.sub(e.im).reverse().store(block.add(1));
            let im = *block.add(n);
            e.re.add(o.im).reverse().store(block.add(n + 1));
            let re = *next;
            (*next, *next.add(n)) = (im, re);
        }
        // the place that mirrors itself
        let (p, middle) = (src.add(len), to.add(len / 2 / n * step));
        let im = if CONJ { *p.add(1) } else { -*p.add(1) };
        (*middle, *middle.add(n)) = (im + im, *p + *p);
        // the ends are real, whatever stands there
        let (first, last) = (*src, *src.add(2 * len));
        (*to, *to.add(n)) = (first - last, first + last);
    }
}

/// Writes complex numbers, past the caches if so asked.
///
/// # Safety
/// `to` is valid for two vectors, a multiple of a cache line's bytes if they are streamed, and the machine has the instructions.
#[inline(always)]
pub(super) unsafe fn put<V: Vector>(v: C<V>, to: *mut V::T, stream: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        let (p, q) = V::together(v.re, v.im);
        if stream {
            p.stream(to);
            return q.stream(to.add(V::N));
        }
        p.store(to);
        q.store(to.add(V::N));
    }
}

/// From the transform of a real line, packed in pairs, to its spectrum; in pairs of places as in [`before_real`].
///
/// # Safety
/// `z` holds planes of `len + n` numbers, of which the last `n` may be anything, `dst` has room for the spectrum, and the machine
/// has the instructions.
#[inline(always)]
unsafe fn after_real<V: Vector<T: Point>>(g: &Stretch<V::T>, z: *mut V::T, dst: *mut V::T) {
    let (n, len, scale) = (V::N, g.along.len, g.raw.scale);
    let halves = g.along.halves.start();
    let whole = g.shape == Shape::Whole;
    // SAFETY: the caller's promise; `n` divides half of `len`.
    unsafe {
        let (re, im) = (z, z.add(len + n));
        // once round
        (*re.add(len), *im.add(len)) = (*re, *im);
        let (by, minus) = (V::splat(scale * V::T::of(0.5)), V::splat(scale * V::T::of(-0.5)));
        for k in (0..len / 2).step_by(n) {
            let at = len - k + 1 - n;
            let (xr, xi) = (V::load(re.add(k)), V::load(im.add(k)));
            let (yr, yi) = (V::load(re.add(at)).reverse(), V::load(im.add(at)).reverse());
            let w = load::<V>(halves.add(2 * k), (0, n));
            let d = C { re: xr.sub(yr), im: xi.add(yi) };
            // minus i times the turn
            let o = C { re: d.re.fma(w.im, d.im.mul(w.re)), im: d.re.fnma(w.re, d.im.mul(w.im)) };
            let e = C { re: xr.add(yr).mul(by), im: xi.sub(yi) };
            let first = C { re: o.re.fma(by, e.re), im: o.im.fma(by, e.im.mul(by)) };
            // conjugated
            let second = C { re: o.re.fnma(by, e.re), im: o.im.fma(by, e.im.mul(minus)) };
            put(first, dst.add(2 * k), false);
            put(C { re: second.re.reverse(), im: second.im.reverse() }, dst.add(2 * at), false);
            if whole {
                let minus = V::splat(-V::T::of(1.0));
                put(C { re: second.re, im: second.im.mul(minus) }, dst.add(2 * (len + k)), false);
                if k > 0 {
                    let mirrored = C { re: first.re.reverse(), im: first.im.mul(minus).reverse() };
                    put(mirrored, dst.add(2 * (2 * len - k + 1 - n)), false);
                }
            }
        }
        let set = |at: usize, re: V::T, im: V::T| (*dst.add(2 * at), *dst.add(2 * at + 1)) = (re, im);
        // the place that mirrors itself
        let (a, b) = (*re.add(len / 2) * scale, *im.add(len / 2) * scale);
        set(len / 2, a, -b);
        if whole {
            set(len + len / 2, a, b);
            for k in 1..n {
                set(2 * len - k, *dst.add(2 * k), -*dst.add(2 * k + 1));
            }
        }
        let (a, b) = (*re, *im);
        let zero = V::T::default();
        set(0, (a + b) * scale, zero);
        set(len, (a - b) * scale, zero);
    }
}
