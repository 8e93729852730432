//! The engine: how a view is cut into blocks, and how blocks are joined.

use crate::isa::{self, Isa, Job, Level};
use crate::parallel::{num_threads, parallel_chunks, parallel_for};
use std::marker::PhantomData;

/// Elements in a block that a fold sees at once.
pub const BLOCK: usize = 4096;
/// Elements of one row that one task takes.
const CHUNK: usize = 16 * BLOCK;
/// Columns in a tile.
const TILE: usize = 512;
/// Rows between two joins in a tile.
const TILE_ROWS: usize = 32;
/// Rows of a tile that one task takes.
const TILE_CHUNK: usize = 1024;
/// Elements below which a task is not worth a thread.
pub(crate) const GRAIN: usize = 32768;

/// A view of a slice as `[outer, n, inner]`: element `(o, k, i)` is at `o * os + k * ns + i * is`. Strides are counted in
/// elements and are not negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geo {
    /// Size of the dimensions before the reduced one.
    pub outer: usize,
    /// Size of the reduced dimension.
    pub n: usize,
    /// Size of the dimensions after the reduced one.
    pub inner: usize,
    /// Stride of `outer`.
    pub os: isize,
    /// Stride of `n`.
    pub ns: isize,
    /// Stride of `inner`.
    pub is: isize,
}

impl Geo {
    /// The geometry of a contiguous `[outer, n, inner]` tensor.
    pub fn contiguous(outer: usize, n: usize, inner: usize) -> Self {
        Geo { outer, n, inner, os: (n * inner) as isize, ns: inner as isize, is: 1 }
    }
    /// Number of results, `outer * inner`.
    #[inline]
    pub fn rows(&self) -> usize {
        self.outer * self.inner
    }
    /// Offset of the first element of result `row`.
    #[inline]
    pub fn base(&self, row: usize) -> usize {
        (row / self.inner) * self.os as usize + (row % self.inner) * self.is as usize
    }
    /// Panics unless every element lies in a slice of `len` elements and `out` has one place for each result.
    pub(crate) fn check(&self, len: usize, out: usize) {
        assert!(self.os >= 0 && self.ns >= 0 && self.is >= 0, "a reduction view has a negative stride");
        assert_eq!(out, self.rows(), "a reduction has a wrong number of results");
        if self.rows() > 0 && self.n > 0 {
            let last = (self.outer - 1) * self.os as usize
                + (self.n - 1) * self.ns as usize
                + (self.inner - 1) * self.is as usize;
            assert!(last < len, "a reduction view reaches beyond its slice");
        }
    }
    /// Rows that one task should take, so that it has enough to do.
    pub(crate) fn grain(&self) -> usize {
        (GRAIN / self.n.max(1)).max(1)
    }
}

/// A mutable slice that tasks write at disjoint places.
pub struct Ptr<'a, T>(*mut T, usize, PhantomData<&'a mut [T]>);
// SAFETY: tasks only use disjoint parts (the contract of `set` and `slice`), and `T` may be sent.
unsafe impl<T: Send> Sync for Ptr<'_, T> {}
// SAFETY: as for Sync.
unsafe impl<T: Send> Send for Ptr<'_, T> {}
impl<'a, T> Ptr<'a, T> {
    /// Wraps a slice.
    pub fn new(s: &'a mut [T]) -> Self {
        Ptr(s.as_mut_ptr(), s.len(), PhantomData)
    }
    /// The slice has no element.
    pub fn is_empty(&self) -> bool {
        self.1 == 0
    }
    /// Writes one element.
    ///
    /// # Safety
    /// No other task reads or writes place `i` meanwhile.
    #[inline(always)]
    pub unsafe fn set(&self, i: usize, v: T) {
        assert!(i < self.1);
        // SAFETY: `i` is in bounds; the caller promises that nobody else uses the place.
        unsafe { self.0.add(i).write(v) }
    }
    /// A part of the slice.
    ///
    /// # Safety
    /// No other task uses a place of `at..at + len` while the result lives.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn slice(&self, at: usize, len: usize) -> &mut [T] {
        assert!(at <= self.1 && len <= self.1 - at);
        // SAFETY: the range is in bounds; the caller promises that nobody else uses it.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(at), len) }
    }
}

/// A reduction, seen block by block. Mark the methods `#[inline(always)]`.
pub trait Fold<T: Copy>: Sync {
    /// What a block is reduced to.
    type Acc: Copy + Send + Sync;
    /// See [`Job::BEST`]: memory bounds reductions, so the widest set gains little.
    const BEST: Level = Level::V3;
    /// The result over no element.
    fn init(&self) -> Self::Acc;
    /// Joins the results of two neighbouring ranges, `a` before `b`.
    fn join(&self, a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// The result over a contiguous block whose first element has index `k0`.
    fn row<I: Isa>(&self, x: &[T], k0: usize) -> Self::Acc;
    /// Puts the result over `rows` rows (row `r`, column `j` at `r * stride + j`) of each column into `acc`.
    fn cols<I: Isa>(&self, x: &[T], rows: usize, stride: usize, k0: usize, acc: &mut [Self::Acc]);
}

/// A reduction by one step per element.
pub trait Step<T: Copy>: Sync {
    /// The running value.
    type Acc: Copy + Send + Sync;
    /// See [`Fold::BEST`].
    const BEST: Level = Level::V3;
    /// The start.
    fn init(&self) -> Self::Acc;
    /// Takes one element in.
    fn step(&self, a: Self::Acc, x: T) -> Self::Acc;
    /// Joins two running values.
    fn join(&self, a: Self::Acc, b: Self::Acc) -> Self::Acc;
}

/// Makes a [`Fold`] of a [`Step`], with independent lanes so that it vectorises.
pub struct Lanes<S>(pub S);
const L: usize = 64;
/// Steps of a lane before it is joined.
const STEPS: usize = 16;
impl<T: Copy, S: Step<T>> Fold<T> for Lanes<S> {
    type Acc = S::Acc;
    const BEST: Level = S::BEST;
    #[inline(always)]
    fn init(&self) -> S::Acc {
        self.0.init()
    }
    #[inline(always)]
    fn join(&self, a: S::Acc, b: S::Acc) -> S::Acc {
        self.0.join(a, b)
    }
    #[inline(always)]
    fn row<I: Isa>(&self, x: &[T], _: usize) -> S::Acc {
        let s = &self.0;
        if x.len() < L {
            return x.iter().fold(s.init(), |a, v| s.step(a, *v));
        }
        let mut l = [s.init(); L];
        let (blocks, rest) = x.as_chunks::<L>();
        let (first, more) = blocks.split_at(blocks.len().min(STEPS));
        for c in first {
            for j in 0..L {
                l[j] = s.step(l[j], c[j]);
            }
        }
        // Later groups start afresh, so that no lane adds a long chain one by one.
        for group in more.chunks(STEPS) {
            let mut m = [s.init(); L];
            for c in group {
                for j in 0..L {
                    m[j] = s.step(m[j], c[j]);
                }
            }
            for j in 0..L {
                l[j] = s.join(l[j], m[j]);
            }
        }
        for (j, v) in rest.iter().enumerate() {
            l[j] = s.step(l[j], *v);
        }
        let mut w = L / 2;
        while w > 0 {
            for j in 0..w {
                l[j] = s.join(l[j], l[j + w]);
            }
            w /= 2;
        }
        l[0]
    }
    #[inline(always)]
    fn cols<I: Isa>(&self, x: &[T], rows: usize, stride: usize, _: usize, acc: &mut [S::Acc]) {
        let s = &self.0;
        let w = acc.len();
        acc.fill(s.init());
        let mut r = 0;
        while r + 4 <= rows {
            let (a, b) = (&x[r * stride..][..w], &x[(r + 1) * stride..][..w]);
            let (c, d) = (&x[(r + 2) * stride..][..w], &x[(r + 3) * stride..][..w]);
            for j in 0..w {
                acc[j] = s.step(s.step(s.step(s.step(acc[j], a[j]), b[j]), c[j]), d[j]);
            }
            r += 4;
        }
        while r < rows {
            let a = &x[r * stride..][..w];
            for j in 0..w {
                acc[j] = s.step(acc[j], a[j]);
            }
            r += 1;
        }
    }
}

/// Joins results pairwise, in the manner of a binary counter. Not inlined: joins are rare, and their code is not small.
struct Tree<A> {
    stack: Vec<(A, u32)>,
}
impl<A: Copy> Tree<A> {
    fn new() -> Self {
        Tree { stack: Vec::new() }
    }
    #[inline(never)]
    fn push<T: Copy, F: Fold<T, Acc = A>>(&mut self, mut a: A, f: &F) {
        let mut rank = 0;
        while let Some((b, r)) = self.stack.last().copied() {
            if r != rank {
                break;
            }
            a = f.join(b, a);
            rank += 1;
            self.stack.pop();
        }
        self.stack.push((a, rank));
    }
    /// The result, and an empty tree; `None` if nothing was pushed.
    #[inline(always)]
    fn finish<T: Copy, F: Fold<T, Acc = A>>(&mut self, f: &F) -> Option<A> {
        if self.stack.is_empty() { None } else { self.finish_all(f) }
    }
    #[inline(never)]
    fn finish_all<T: Copy, F: Fold<T, Acc = A>>(&mut self, f: &F) -> Option<A> {
        let (mut a, _) = self.stack.pop()?;
        while let Some((b, _)) = self.stack.pop() {
            a = f.join(b, a);
        }
        Some(a)
    }
}

/// Elements `from..to` of the rows `first..`, one result each. It knows nothing of where results go and calls the block
/// function at one place: a body of that size, times dtypes and instruction sets, is most of this crate's machine code.
struct Rows<'a, T, F: Fold<T>>
where
    T: Copy,
{
    f: &'a F,
    x: &'a [T],
    g: Geo,
    first: usize,
    from: usize,
    to: usize,
    acc: &'a mut [F::Acc],
}
impl<T: Copy, F: Fold<T>> Job for Rows<'_, T, F> {
    type Out = ();
    const BEST: Level = F::BEST;
    #[inline(always)]
    fn run<I: Isa>(self) {
        let Rows { f, x, g, first, from, to, acc } = self;
        let (mut buf, mut tree) = (Vec::new(), Tree::new());
        let ns = g.ns as usize;
        for (i, acc) in acc.iter_mut().enumerate() {
            let x = if from == to { x } else { &x[g.base(first + i)..] };
            let mut k = from;
            while k < to {
                let end = (k + BLOCK).min(to);
                let block = if ns == 1 { &x[k..end] } else { gather(x, k..end, ns, &mut buf) };
                let a = f.row::<I>(block, k);
                if end - from <= BLOCK && end == to {
                    *acc = a;
                } else {
                    tree.push(a, f);
                }
                k = end;
            }
            if let Some(a) = tree.finish(f) {
                *acc = a;
            }
        }
    }
}

#[inline(never)]
fn gather<'b, T: Copy>(x: &[T], at: std::ops::Range<usize>, ns: usize, buf: &'b mut Vec<T>) -> &'b [T] {
    buf.clear();
    buf.extend(at.map(|k| x[k * ns]));
    buf
}

/// Rows `from..to` of a tile of neighbouring columns.
struct Columns<'a, T, F: Fold<T>>
where
    T: Copy,
{
    f: &'a F,
    x: &'a [T],
    ns: usize,
    from: usize,
    to: usize,
    acc: &'a mut [F::Acc],
}
impl<T: Copy, F: Fold<T>> Job for Columns<'_, T, F> {
    type Out = ();
    const BEST: Level = F::BEST;
    #[inline(always)]
    fn run<I: Isa>(self) {
        let Columns { f, x, ns, from, to, acc } = self;
        let mut part = Vec::new();
        let mut k = from;
        while k < to {
            let end = (k + TILE_ROWS).min(to);
            if k > from && part.is_empty() {
                part.resize(acc.len(), f.init());
            }
            f.cols::<I>(&x[k * ns..], end - k, ns, k, if k == from { &mut *acc } else { &mut part });
            if k > from {
                for (a, b) in acc.iter_mut().zip(&part) {
                    *a = f.join(*a, *b);
                }
            }
            k = end;
        }
    }
}

/// Results that a task holds before it hands them out.
const BATCH: usize = 16;

/// Reduces each row of the view and calls `emit(row, result)` once per row, possibly from several threads.
pub fn fold<T: Copy + Sync, F: Fold<T>>(x: &[T], g: Geo, f: &F, emit: impl Fn(usize, F::Acc) + Sync) {
    fold_dyn(x, g, f, &emit);
}

// Not generic over `emit`, so that reductions which differ only in what they do with a result share one body.
#[inline(never)]
fn fold_dyn<T: Copy + Sync, F: Fold<T>>(x: &[T], g: Geo, f: &F, emit: &(dyn Fn(usize, F::Acc) + Sync)) {
    g.check(x.len(), g.rows());
    let rows = g.rows();
    if rows == 0 {
        return;
    }
    if g.n > 0 && g.inner > 1 && g.is == 1 && (g.ns != 1 || g.n == 1) {
        return fold_cols(x, g, f, emit);
    }
    if g.n > CHUNK && rows < 2 * num_threads() {
        return (0..rows).for_each(|row| emit(row, fold_long(x, g, f, row)));
    }
    parallel_for(rows, g.grain(), |range| fold_batches(x, g, f, range, emit));
}

/// Rows of a range, a batch at a time.
#[inline(never)]
fn fold_batches<T: Copy + Sync, F: Fold<T>>(
    x: &[T],
    g: Geo,
    f: &F,
    range: std::ops::Range<usize>,
    emit: &(dyn Fn(usize, F::Acc) + Sync),
) {
    let mut acc = [f.init(); BATCH];
    for first in range.clone().step_by(BATCH) {
        let acc = &mut acc[..BATCH.min(range.end - first)];
        acc.fill(f.init());
        isa::run(Rows { f, x, g, first, from: 0, to: g.n, acc });
        acc.iter().enumerate().for_each(|(i, a)| emit(first + i, *a));
    }
}

/// One long row, cut among threads.
#[inline(never)]
fn fold_long<T: Copy + Sync, F: Fold<T>>(x: &[T], g: Geo, f: &F, row: usize) -> F::Acc {
    let chunks = g.n.div_ceil(CHUNK);
    let mut part = vec![f.init(); chunks];
    let place = Ptr::new(&mut part);
    parallel_chunks(chunks, &|c| {
        let to = ((c + 1) * CHUNK).min(g.n);
        // SAFETY: each chunk has its own place.
        let acc = unsafe { place.slice(c, 1) };
        isa::run(Rows { f, x, g, first: row, from: c * CHUNK, to, acc });
    });
    let mut tree = Tree::new();
    part.iter().for_each(|a| tree.push(*a, f));
    tree.finish(f).unwrap_or_else(|| f.init())
}

// Called at two places.
#[inline(never)]
fn columns<T: Copy, F: Fold<T>>(job: Columns<'_, T, F>) {
    isa::run(job)
}

#[inline(never)]
fn fold_cols<T: Copy + Sync, F: Fold<T>>(x: &[T], g: Geo, f: &F, emit: &(dyn Fn(usize, F::Acc) + Sync)) {
    let tiles = g.inner.div_ceil(TILE);
    let chunks = g.n.div_ceil(TILE_CHUNK);
    let ns = g.ns as usize;
    let at = |t: usize| {
        let (o, i) = (t / tiles, (t % tiles) * TILE);
        (o, i, TILE.min(g.inner - i))
    };
    let tile = |t: usize, c: usize, acc: &mut [F::Acc]| {
        let (o, i, _) = at(t);
        let (from, to) = (c * TILE_CHUNK, ((c + 1) * TILE_CHUNK).min(g.n));
        columns(Columns { f, x: &x[o * g.os as usize + i..], ns, from, to, acc });
    };
    if chunks == 1 {
        let grain = (GRAIN / (g.n * g.inner.min(TILE))).max(1);
        return parallel_for(g.outer * tiles, grain, |r| {
            let mut acc = [f.init(); TILE];
            for t in r {
                let (o, i, w) = at(t);
                tile(t, 0, &mut acc[..w]);
                acc[..w].iter().enumerate().for_each(|(j, a)| emit(o * g.inner + i + j, *a));
            }
        });
    }
    // Groups of outer indices, so that the partial results stay small.
    let group = (4 * num_threads()).div_ceil(tiles * chunks).max(1);
    for o0 in (0..g.outer).step_by(group) {
        let outer = group.min(g.outer - o0);
        let mut part = vec![f.init(); outer * tiles * chunks * TILE];
        let place = Ptr::new(&mut part);
        // Neighbouring tiles of the same rows come one after the other, in memory order.
        parallel_for(outer * chunks * tiles, (GRAIN / (TILE_CHUNK * g.inner.min(TILE))).max(1), |r| {
            for u in r {
                let (t, c) = (u / (chunks * tiles) * tiles + u % tiles, u / tiles % chunks);
                let w = at(t).2;
                // SAFETY: each (tile, chunk) has its own part.
                let acc = unsafe { place.slice((t * chunks + c) * TILE, w) };
                tile(o0 * tiles + t, c, acc);
            }
        });
        for t in 0..outer * tiles {
            let (o, i, w) = at(o0 * tiles + t);
            for j in 0..w {
                let mut tree = Tree::new();
                (0..chunks).for_each(|c| tree.push(part[(t * chunks + c) * TILE + j], f));
                emit(o * g.inner + i + j, tree.finish(f).unwrap_or_else(|| f.init()));
            }
        }
    }
}
