//! The engine: how rows and columns are cut into blocks, and how blocks are joined.

use super::partition::{Kernel, MOST, reduce_rows};
use crate::engine::cache::{far, prefetch_far, prefetch_page};
use crate::engine::isa::{self, Isa, Job, Level};
use crate::engine::room::grow;
use crate::engine::span;

/// Elements in a block that a fold sees at once.
pub const BLOCK: usize = 4096;
/// Rows between two joins in a tile.
const TILE_ROWS: usize = 32;
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
        Geo { outer, n, inner, os: span::product([n, inner]) as isize, ns: inner as isize, is: 1 }
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
        assert_eq!(out, span::product([self.outer, self.inner]), "a reduction has a wrong number of results");
        let dims =
            [(self.outer, self.os as usize), (self.n, self.ns as usize), (self.inner, self.is as usize)];
        assert!(span::fits(&dims, len), "a reduction view reaches beyond its slice");
    }
    /// Rows that one task should take, so that it has enough to do.
    pub(crate) fn grain(&self) -> usize {
        (GRAIN / self.n.max(1)).max(1)
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
    /// The result does not depend on the order of the elements: a plain loop, which the compiler cuts into lanes.
    const ANY_ORDER: bool = false;
    /// The start.
    fn init(&self) -> Self::Acc;
    /// Takes one element in.
    fn step(&self, a: Self::Acc, x: T) -> Self::Acc;
    /// Joins two running values.
    fn join(&self, a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// The result over a run, where there is a faster way than step by step. Mark it `#[inline(always)]`.
    #[inline(always)]
    fn run<I: Isa>(&self, _: &[T]) -> Option<Self::Acc> {
        None
    }
}

/// Makes a [`Fold`] of a [`Step`], with independent lanes so that it vectorises. Each set compiles the loops over whole
/// blocks alone; the ends are left to bodies that all sets share.
pub struct Lanes<S>(pub S);
/// Steps of a lane before it is joined.
const STEPS: usize = 16;
impl<S> Lanes<S> {
    /// A block through twice `N` lanes. In two arrays, since the compiler keeps only small ones in registers.
    #[inline(always)]
    fn block<T: Copy, const N: usize>(&self, x: &[T]) -> S::Acc
    where
        S: Step<T>,
    {
        let s = &self.0;
        let (mut l, far) = ([[s.init(); N]; 2], far());
        let pairs = x.as_chunks::<N>().0.as_chunks::<2>().0;
        // Each group starts afresh, so that no lane adds a long chain one by one.
        for group in pairs.chunks(STEPS) {
            let (mut m, mut n) = ([s.init(); N], [s.init(); N]);
            if !far {
                prefetch_page(group.as_ptr().cast());
            }
            for [a, b] in group {
                if far {
                    prefetch_far(a.as_ptr().cast(), 2 * size_of_val(a));
                }
                for j in 0..N {
                    m[j] = s.step(m[j], a[j]);
                }
                for j in 0..N {
                    n[j] = s.step(n[j], b[j]);
                }
            }
            for j in 0..N {
                l[0][j] = s.join(l[0][j], m[j]);
            }
            for j in 0..N {
                l[1][j] = s.join(l[1][j], n[j]);
            }
        }
        self.finish(l.as_flattened_mut(), &x[pairs.len() * 2 * N..])
    }
    /// Takes the rest into the lanes and joins them, halves on halves.
    #[inline(never)]
    fn finish<T: Copy>(&self, l: &mut [S::Acc], rest: &[T]) -> S::Acc
    where
        S: Step<T>,
    {
        for c in rest.chunks(l.len()) {
            l.iter_mut().zip(c).for_each(|(l, v)| *l = self.0.step(*l, *v));
        }
        // By loops of constant length: short rows end here often.
        self.halve::<T, 32>(l);
        self.halve::<T, 16>(l);
        self.halve::<T, 8>(l);
        self.halve::<T, 4>(l);
        self.halve::<T, 2>(l);
        self.halve::<T, 1>(l);
        l[0]
    }
    /// Joins lanes `N..2 * N` into the first `N`, if there are that many.
    #[inline(always)]
    fn halve<T: Copy, const N: usize>(&self, l: &mut [S::Acc])
    where
        S: Step<T>,
    {
        if let Some((low, high)) = l.split_first_chunk_mut::<N>()
            && let Some(high) = high.first_chunk::<N>()
        {
            for j in 0..N {
                low[j] = self.0.join(low[j], high[j]);
            }
        }
    }
    /// Takes the rows from `whole` on into their columns.
    #[inline(never)]
    fn finish_cols<T: Copy>(&self, x: &[T], rows: usize, whole: usize, stride: usize, acc: &mut [S::Acc])
    where
        S: Step<T>,
    {
        for r in whole..rows {
            let x = &x[r * stride..];
            acc.iter_mut().zip(x).for_each(|(a, v)| *a = self.0.step(*a, *v));
        }
    }
}
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
        if let Some(all) = self.0.run::<I>(x) {
            return all;
        }
        if S::ANY_ORDER {
            return x.iter().fold(self.0.init(), |a, v| self.0.step(a, *v));
        }
        // Two times four registers of running values hide the latency of a step.
        let lanes = 4 * I::WIDTH / size_of::<S::Acc>();
        if x.len() < 32 {
            self.finish(&mut [self.0.init()], x)
        } else if lanes >= 32 {
            self.block::<T, 32>(x)
        } else if lanes >= 16 {
            self.block::<T, 16>(x)
        } else {
            self.block::<T, 8>(x)
        }
    }
    #[inline(always)]
    fn cols<I: Isa>(&self, x: &[T], rows: usize, stride: usize, _: usize, acc: &mut [S::Acc]) {
        let s = &self.0;
        let w = acc.len();
        acc.fill(s.init());
        let whole = rows / 4 * 4;
        for r in (0..whole).step_by(4) {
            let (a, b) = (&x[r * stride..][..w], &x[(r + 1) * stride..][..w]);
            let (c, d) = (&x[(r + 2) * stride..][..w], &x[(r + 3) * stride..][..w]);
            for j in 0..w {
                acc[j] = s.step(s.step(s.step(s.step(acc[j], a[j]), b[j]), c[j]), d[j]);
            }
        }
        self.finish_cols(x, rows, whole, stride, acc);
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
            let row = first + i;
            // the usual geometry needs no division
            let base = if g.inner == 1 { row * g.os as usize } else { g.base(row) };
            let x = if from == to { x } else { &x[base..] };
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
                grow(&mut part, acc.len(), f.init());
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

/// Reduces each row of the view and calls `emit(row, result)` once per row, possibly from several threads.
pub fn fold<T: Copy + Sync, F: Fold<T>>(x: &[T], g: Geo, f: &F, emit: impl Fn(usize, F::Acc) + Sync) {
    // Not generic over `emit`, so that reductions which differ only in what they do with a result share their code.
    g.check(x.len(), g.rows());
    let emit = |row: usize, all: &[F::Acc]| all.iter().enumerate().for_each(|(i, a)| emit(row + i, *a));
    reduce_rows(g, &Typed { x, g, f, emit: &emit });
}

struct Typed<'a, T: Copy, F: Fold<T>> {
    x: &'a [T],
    g: Geo,
    f: &'a F,
    /// Gets neighbouring results at once.
    emit: &'a (dyn Fn(usize, &[F::Acc]) + Sync),
}
impl<T: Copy + Sync, F: Fold<T>> Kernel for Typed<'_, T, F> {
    fn size(&self) -> usize {
        const { assert!(size_of::<F::Acc>() <= MOST && align_of::<F::Acc>() <= 16) };
        size_of::<F::Acc>()
    }
    unsafe fn fill(&self, acc: *mut u8, n: usize) {
        for i in 0..n {
            // SAFETY: the caller's promise.
            unsafe { acc.cast::<F::Acc>().add(i).write(self.f.init()) };
        }
    }
    unsafe fn rows(&self, first: usize, from: usize, to: usize, acc: *mut u8, n: usize) {
        // SAFETY: the caller's promise.
        let acc = unsafe { std::slice::from_raw_parts_mut(acc.cast(), n) };
        isa::run(Rows { f: self.f, x: self.x, g: self.g, first, from, to, acc });
    }
    unsafe fn columns(&self, at: usize, from: usize, to: usize, acc: *mut u8, n: usize) {
        // SAFETY: the caller's promise.
        let acc = unsafe { std::slice::from_raw_parts_mut(acc.cast(), n) };
        isa::run(Columns { f: self.f, x: &self.x[at..], ns: self.g.ns as usize, from, to, acc });
    }
    unsafe fn join(&self, a: *mut u8, b: *const u8, n: usize) {
        let (a, b) = (a.cast::<F::Acc>(), b.cast::<F::Acc>());
        for i in 0..n {
            // SAFETY: the caller's promise.
            unsafe { *a.add(i) = self.f.join(*a.add(i), *b.add(i)) };
        }
    }
    unsafe fn emit(&self, row: usize, acc: *const u8, n: usize) {
        // SAFETY: the caller's promise.
        (self.emit)(row, unsafe { std::slice::from_raw_parts(acc.cast(), n) });
    }
}
