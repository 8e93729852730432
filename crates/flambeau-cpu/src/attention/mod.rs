//! Scaled dot product attention, one block of scores at a time: the matrix of all scores never exists. The forward pass
//! keeps the logarithm of each row's sum, from which the backward pass computes the scores again. Halves are computed in f32,
//! a head at a time, and rounded where PyTorch's CPU kernel rounds them: the weights, relative to the greatest score so far,
//! before they meet the values, the scores' gradient before it meets queries and keys, and results.

pub mod erased;

use crate::blas::prepared::{COLUMNS, Right, product};
use crate::blas::{MatmulScalar, PARALLEL_MACS, RawMat, RawOut, WideScalar};
use crate::engine::accumulate::fold;
use crate::engine::isa::{self, Isa, Job, Level, best_for};
use crate::engine::parallel::{num_threads, parallel_chunks, with_threads_for};
use crate::engine::scratch::with_scratch;
use crate::engine::{SharedMut, span};
use crate::num::stored::{Stored, Up};
use crate::num::{Arith as _, Compute, Order as _};
use std::any::TypeId;

/// A type in which attention is computed.
pub trait AttentionScalar: Compute + WideScalar + MatmulScalar {}
impl<T: Compute + WideScalar + MatmulScalar> AttentionScalar for T {}
/// An element of queries, keys and values.
pub trait AttentionElement: Stored<Compute: AttentionScalar> {}
impl<S: Stored<Compute: AttentionScalar>> AttentionElement for S {}

/// Sizes: query `[batch, heads, l, e]`, key `[batch, heads, s, e]`, value `[batch, heads, s, v]`.
#[derive(Clone, Copy, Debug)]
pub struct AttentionShape {
    /// Images or sentences.
    pub batch: usize,
    /// Heads.
    pub heads: usize,
    /// Queries.
    pub l: usize,
    /// Keys.
    pub s: usize,
    /// Features of queries and keys.
    pub e: usize,
    /// Features of values.
    pub v: usize,
    /// Query `i` sees the keys `0..=i` only.
    pub causal: bool,
    /// Factor of the scores.
    pub scale: f64,
}
impl AttentionShape {
    /// Multiply-adds of the forward pass over so many heads, about.
    fn products(&self, heads: usize) -> usize {
        let width = self.e.saturating_add(self.v);
        [self.l, self.s, width].into_iter().fold(heads, usize::saturating_mul)
            / if self.causal { 2 } else { 1 }
    }
    /// Keys that the queries before `end` see.
    pub fn seen(&self, end: usize) -> usize {
        if self.causal { self.s.min(end) } else { self.s }
    }
}

/// The longest step from row to row that [`Heads`] may have.
pub const MAX_STEP: usize = 1 << 23;

/// `[batch, heads, rows, columns]` with contiguous columns.
#[derive(Clone, Copy)]
pub struct Heads<'a, T> {
    /// Elements, from the first on.
    pub data: &'a [T],
    /// Steps of the batch, of the heads, of the rows, in elements.
    pub steps: [usize; 3],
}
impl<'a, T> Heads<'a, T> {
    /// Row-major memory.
    pub fn dense(data: &'a [T], heads: usize, rows: usize, columns: usize) -> Self {
        Heads { data, steps: [heads * rows * columns, rows * columns, columns] }
    }
    /// Head `i` of all, `[rows, columns]`.
    fn head(&self, s: &AttentionShape, i: usize) -> RawMat<T> {
        let [n, h, r] = self.steps;
        RawMat::rows(self.data.as_ptr().wrapping_add(i / s.heads * n + i % s.heads * h), r)
    }
    fn check(&self, s: &AttentionShape, rows: usize, columns: usize) {
        let [n, h, r] = self.steps;
        let dims = [(s.batch, n), (s.heads, h), (rows, r), (columns, 1)];
        assert!(span::fits(&dims, self.data.len()), "attention: a slice is too short");
        assert!(self.steps[2] <= MAX_STEP, "attention: rows are too far apart");
    }
}

/// Whether elements are computed as they lie.
fn as_they_lie<S: Stored>() -> bool {
    TypeId::of::<S>() == TypeId::of::<S::Compute>()
}
/// Elements of work memory for `n` elements in the type of computation.
fn room<S: Stored>(n: usize) -> usize {
    if as_they_lie::<S>() { 0 } else { n }
}
/// The matrix in the type of computation: itself, or in `room`, of which the rest comes back.
///
/// # Safety
/// The matrix is valid, with contiguous rows.
unsafe fn widened<S: Stored>(
    m: RawMat<S>,
    [rows, columns]: [usize; 2],
    room: &mut [S::Compute],
) -> (RawMat<S::Compute>, &mut [S::Compute]) {
    if as_they_lie::<S>() {
        return (m.cast(), room);
    }
    let (to, rest) = room.split_at_mut(rows * columns);
    for (r, to) in to.chunks_exact_mut(columns.max(1)).enumerate() {
        // SAFETY: a row of the matrix.
        isa::run(Up(unsafe { std::slice::from_raw_parts(m.at(r, 0).p, columns) }, to));
    }
    (RawMat::rows(to.as_ptr(), columns), rest)
}
/// Where results of `to` are computed: there, or in `room`, of which the rest comes back.
fn place<'a, S: AttentionElement>(
    to: &'a mut [S],
    room: &'a mut [S::Compute],
) -> (&'a mut [S::Compute], &'a mut [S::Compute]) {
    if as_they_lie::<S>() { (bytemuck::cast_slice_mut(to), room) } else { room.split_at_mut(to.len()) }
}

/// `y (+)= x B`: a row of `k` elements times `[k, n]`.
///
/// # Safety
/// The operands are valid and overlap not, and nobody uses `y` meanwhile.
unsafe fn vector<T: AttentionScalar>([n, k]: [usize; 2], x: *const T, b: RawMat<T>, add: bool, y: *mut T) {
    let beta = if add { T::ONE } else { T::ZERO };
    let (x, y) = (RawMat::rows(x, k), RawOut::rows(y, n));
    // SAFETY: the caller's promise.
    unsafe { T::product(1, n, k, T::ONE, x, b, beta, y) }
}

/// Queries of a block, and keys of a block in each direction.
const QUERIES: usize = 64;
const KEYS: usize = 480;
const KEYS_BACK: usize = 240;
/// Keys of a block of halves: PyTorch's number, since it decides what the weights are relative to when they are rounded.
const KEYS_HALVES: usize = 512;
const _: () = assert!(KEYS_BACK.is_multiple_of(COLUMNS));

/// The keys of a block that query `i` sees.
#[inline(always)]
fn visible(causal: bool, i: usize, (first, keys): (usize, usize)) -> usize {
    if causal { (i + 1).saturating_sub(first).min(keys) } else { keys }
}
/// Scores of a block of queries and keys.
struct Block<'a, T> {
    shape: &'a AttentionShape,
    /// What is added to this block's scores.
    mask: Option<RawMat<T>>,
    /// The first query and the first key.
    at: (usize, usize),
    keys: usize,
}
impl<T: AttentionScalar> Block<'_, T> {
    /// The products of row `r` that its query sees become scores, the others zeros.
    #[inline(always)]
    fn scores<'a>(&self, r: usize, row: &'a mut [T]) -> &'a mut [T] {
        let n = visible(self.shape.causal, self.at.0 + r, (self.at.1, self.keys));
        let (row, rest) = row.split_at_mut(n);
        rest.fill(T::ZERO);
        let scale = T::of(self.shape.scale);
        match self.mask {
            None => row.iter_mut().for_each(|x| *x = *x * scale),
            Some(m) => {
                // SAFETY: a row of the mask, which has a place for each key.
                let mask = unsafe { std::slice::from_raw_parts(m.at(r, 0).p, n) };
                row.iter_mut().zip(mask).for_each(|(x, m)| *x = *x * scale + *m);
            }
        }
        row
    }
}

/// Turns products into weights without their common divisor, in the running form: `max` and `sum` are those of the blocks
/// so far, and what was summed up in `out` is brought to the new maximum.
struct Weigh<'a, S: Stored> {
    block: Block<'a, S::Compute>,
    /// `[rows, keys]`.
    scores: &'a mut [S::Compute],
    max: &'a mut [S::Compute],
    sum: &'a mut [S::Compute],
    /// `[rows, v]`.
    out: &'a mut [S::Compute],
}
impl<S: AttentionElement> Job for Weigh<'_, S> {
    type Out = ();
    const BEST: Level = best_for::<S::Compute>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let zero = S::Compute::ZERO;
        let v = self.block.shape.v;
        let exp = S::Compute::exp_vectors();
        for (r, row) in self.scores.chunks_exact_mut(self.block.keys).enumerate() {
            let row = self.block.scores(r, row);
            let old = self.max[r];
            let max = fold::<I, _, _, _>([&*row], old, |[v]| v, |a, b| if b > a { b } else { a });
            self.max[r] = max;
            // a row of nothing but -inf has weights of 0 so far
            let base = if max == S::Compute::LOW { zero } else { max };
            if let Some(exp) = exp {
                row.iter_mut().for_each(|x| *x = *x - base);
                exp(row);
            } else {
                row.iter_mut().for_each(|x| *x = (*x - base).exp::<I>());
            }
            let sum = fold::<I, _, _, _>([&*row], zero, |[v]| v, |a, b| a + b);
            for x in row.iter_mut() {
                *x = S::down(*x).up();
            }
            if self.block.at.1 == 0 {
                self.sum[r] = sum;
            } else if old == max {
                self.sum[r] = self.sum[r] + sum;
            } else {
                let shrink = (old - base).exp::<I>();
                self.sum[r] = self.sum[r] * shrink + sum;
                for o in &mut self.out[r * v..(r + 1) * v] {
                    *o = *o * shrink;
                }
            }
        }
    }
}
/// Divides by the sums and stores their logarithms.
struct Finish<'a, T> {
    max: &'a [T],
    sum: &'a [T],
    out: &'a mut [T],
    v: usize,
    lse: &'a mut [T],
    /// Whether a row without any weight is zero, and not undefined.
    empty: bool,
}
impl<T: AttentionScalar> Job for Finish<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for (r, lse) in self.lse.iter_mut().enumerate() {
            let out = &mut self.out[r * self.v..(r + 1) * self.v];
            if self.empty && self.sum[r] == T::ZERO {
                out.fill(T::ZERO);
                *lse = T::ZERO;
                continue;
            }
            let by = T::ONE / self.sum[r];
            for o in out {
                *o = *o * by;
            }
            *lse = self.max[r] + self.sum[r].ln::<I>();
        }
    }
}

/// `out = softmax(q k^T scale + mask) v` `[batch, heads, l, v]`, and the logarithms of the rows' sums `[batch, heads, l]`.
/// Steps of the mask `[batch, heads, l, s]` may be 0; a row that it hides whole is zero, as is its logarithm.
///
/// # Panics
/// If a slice is too short, or there is no key: a bug of the caller.
pub fn forward<S: AttentionElement>(
    s: &AttentionShape,
    [q, k, v]: [Heads<S>; 3],
    mask: Option<Heads<S::Compute>>,
    out: &mut [S],
    lse: &mut [S::Compute],
) {
    let heads = span::product([s.batch, s.heads]);
    q.check(s, s.l, s.e);
    k.check(s, s.s, s.e);
    v.check(s, s.s, s.v);
    if let Some(m) = mask {
        m.check(s, s.l, s.s);
    }
    let (results, sums) = (span::product([heads, s.l, s.v]), span::product([heads, s.l]));
    assert!(out.len() == results && lse.len() == sums, "attention: lengths of the results");
    assert!(s.s > 0, "attention: no keys");
    if heads * s.l == 0 {
        return;
    }
    with_threads_for(s.products(heads), PARALLEL_MACS, || {
        // Few heads are cut, though each part turns the keys again.
        let blocks = s.l.div_ceil(QUERIES);
        let parts = if heads >= num_threads() { 1 } else { (2 * num_threads()).div_ceil(heads).min(blocks) };
        let (shared, shared_lse) = (SharedMut::new(out), SharedMut::new(lse));
        parallel_chunks(heads * parts, &|chunk| {
            let (head, part) = (chunk / parts, chunk % parts);
            let range = part * blocks / parts..(part + 1) * blocks / parts;
            let mine = range.start * QUERIES..s.l.min(range.end * QUERIES);
            // SAFETY: these rows are this chunk's own.
            let (out, lse) = unsafe {
                (
                    shared.slice((head * s.l + mine.start) * s.v, mine.len() * s.v),
                    shared_lse.slice(head * s.l + mine.start, mine.len()),
                )
            };
            let mask = mask.map(|m| m.head(s, head));
            some_queries::<S>(s, [q.head(s, head), k.head(s, head), v.head(s, head)], mask, mine, out, lse);
        });
    });
}
/// The queries `mine` of one head.
fn some_queries<S: AttentionElement>(
    s: &AttentionShape,
    [q, k, v]: [RawMat<S>; 3],
    mask: Option<RawMat<S::Compute>>,
    mine: std::ops::Range<usize>,
    out: &mut [S],
    lse: &mut [S::Compute],
) {
    let most = s.seen(mine.end);
    let block = most.min(if as_they_lie::<S>() { KEYS } else { KEYS_HALVES });
    // A single query takes the keys as they lie: turning them is more work than its scores.
    let one = s.l == 1;
    let panel = if one { 0 } else { Right::<S::Compute>::room(s.e, block) };
    let wide = room::<S>(most * (s.e + s.v) + QUERIES * (s.e + s.v));
    let len = wide + panel * most.div_ceil(block) + QUERIES * (block + 2);
    with_scratch::<S::Compute, _>(len, |buf| {
        let (panels, buf) = buf.split_at_mut(panel * most.div_ceil(block));
        let (scores, buf) = buf.split_at_mut(QUERIES * block);
        let (max, buf) = buf.split_at_mut(QUERIES);
        let (sum, buf) = buf.split_at_mut(QUERIES);
        // SAFETY: keys and values of this head.
        let (k, buf) = unsafe { widened(k, [most, s.e], buf) };
        // SAFETY: as above.
        let (v, buf) = unsafe { widened(v, [most, s.v], buf) };
        let mut turned = Vec::new();
        let mut rest = panels;
        for j in (0..if one { 0 } else { most }).step_by(block) {
            let (to, others) = rest.split_at_mut(panel);
            // SAFETY: keys of this head.
            turned.push(unsafe { Right::of_columns(k.at(j, 0).t(), s.e, block.min(most - j), to) });
            rest = others;
        }
        for i in mine.clone().step_by(QUERIES) {
            let rows = QUERIES.min(mine.end - i);
            let at = i - mine.start;
            let to = &mut out[at * s.v..(at + rows) * s.v];
            // SAFETY: queries of this head.
            let (q, buf) = unsafe { widened(q.at(i, 0), [rows, s.e], buf) };
            let (sums, _) = place(to, buf);
            max.fill(S::Compute::LOW);
            let seen = s.seen(i + rows);
            for (b, j) in (0..seen).step_by(block).enumerate() {
                let keys = block.min(seen - j);
                let scores = &mut scores[..rows * keys];
                let to = RawOut::rows(scores.as_mut_ptr(), keys);
                // SAFETY: queries [rows, e], turned keys [e, keys], and the buffer.
                unsafe {
                    match turned.get(b) {
                        Some(t) => t.product(rows, (0, keys), q, false, to),
                        None => vector([keys, s.e], q.p, k.at(j, 0).t(), false, to.p),
                    }
                }
                let of = Block { shape: s, mask: mask.map(|m| m.at(i, j)), at: (i, j), keys };
                isa::run(Weigh::<S> { block: of, scores, max, sum, out: sums });
                let (values, y) = (v.at(j, 0), RawOut::rows(sums.as_mut_ptr(), s.v));
                // SAFETY: weights [rows, keys], values [keys, v], and this chunk's own rows.
                unsafe {
                    if one {
                        vector([s.v, keys], scores.as_ptr(), values, j > 0, y.p);
                    } else {
                        let weights = RawMat::rows(scores.as_ptr(), keys);
                        product([rows, s.v, keys], weights, values, j > 0, y);
                    }
                }
            }
            let empty = mask.is_some() || !as_they_lie::<S>();
            isa::run(Finish { max, sum, out: sums, v: s.v, lse: &mut lse[at..at + rows], empty });
            if !as_they_lie::<S>() {
                let (sums, _) = buf.split_at(rows * s.v);
                S::down_slice(sums, to);
            }
        }
    });
}

/// From products and the weights' gradient: the weights, and the scores' gradient.
struct Slope<'a, S: Stored> {
    block: Block<'a, S::Compute>,
    /// `[rows, keys]`: products in, weights out.
    scores: &'a mut [S::Compute],
    /// `[rows, keys]`: the weights' gradient in, the scores' gradient out.
    grad: &'a mut [S::Compute],
    lse: &'a [S::Compute],
    /// Each row's product of gradient and result.
    dots: &'a [S::Compute],
}
impl<S: AttentionElement> Job for Slope<'_, S> {
    type Out = ();
    const BEST: Level = best_for::<S::Compute>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let scale = S::Compute::of(self.block.shape.scale);
        let keys = self.block.keys;
        let exp = S::Compute::exp_vectors();
        let rows = self.scores.chunks_exact_mut(keys).zip(self.grad.chunks_exact_mut(keys));
        for (r, (p, g)) in rows.enumerate() {
            let p = self.block.scores(r, p);
            g[p.len()..].fill(S::Compute::ZERO);
            let (lse, dot) = (self.lse[r], self.dots[r]);
            if let Some(exp) = exp {
                p.iter_mut().for_each(|p| *p = *p - lse);
                exp(p);
            } else {
                p.iter_mut().for_each(|p| *p = (*p - lse).exp::<I>());
            }
            for (p, g) in p.iter_mut().zip(g) {
                let weight = *p;
                *p = S::down(weight).up();
                *g = S::down(weight * (*g - dot)).up() * scale;
            }
        }
    }
}
/// The product of gradient and result of each row.
struct Dots<'a, T> {
    grad: RawMat<T>,
    out: RawMat<T>,
    v: usize,
    dots: &'a mut [T],
}
impl<T: AttentionScalar> Job for Dots<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for (r, dot) in self.dots.iter_mut().enumerate() {
            // SAFETY: rows of the gradient and of the result.
            let [grad, out] =
                [self.grad, self.out].map(|m| unsafe { std::slice::from_raw_parts(m.at(r, 0).p, self.v) });
            *dot = fold::<I, _, _, _>([grad, out], T::ZERO, |[g, o]| g * o, |a, b| a + b);
        }
    }
}

/// What [`forward`] got and gave, and the gradient of its result.
pub struct Saved<'a, S: Stored> {
    /// Queries.
    pub q: Heads<'a, S>,
    /// Keys.
    pub k: Heads<'a, S>,
    /// Values.
    pub v: Heads<'a, S>,
    /// What was added to the scores.
    pub mask: Option<Heads<'a, S::Compute>>,
    /// The result, dense.
    pub out: &'a [S],
    /// The logarithms, dense.
    pub lse: &'a [S::Compute],
    /// The gradient of the result.
    pub grad: Heads<'a, S>,
}

/// The gradients for queries, keys and values, row-major and overwritten. Heads are independent, and each is summed in one
/// order, so that the result does not depend on the number of threads.
///
/// # Panics
/// If a slice is too short: a bug of the caller.
pub fn backward<S: AttentionElement>(
    s: &AttentionShape,
    x: &Saved<S>,
    gq: &mut [S],
    gk: &mut [S],
    gv: &mut [S],
) {
    let heads = span::product([s.batch, s.heads]);
    x.q.check(s, s.l, s.e);
    x.k.check(s, s.s, s.e);
    x.v.check(s, s.s, s.v);
    x.grad.check(s, s.l, s.v);
    if let Some(m) = x.mask {
        m.check(s, s.l, s.s);
    }
    let (results, sums) = (span::product([heads, s.l, s.v]), span::product([heads, s.l]));
    assert!(x.out.len() == results && x.lse.len() == sums, "attention: saved lengths");
    let sizes = [[s.l, s.e], [s.s, s.e], [s.s, s.v]].map(span::product);
    assert!(
        [gq.len(), gk.len(), gv.len()] == sizes.map(|n| span::product([heads, n])),
        "attention: lengths of the gradients"
    );
    let out = [gq, gk, gv].map(SharedMut::new);
    with_threads_for(s.products(heads), PARALLEL_MACS, || {
        parallel_chunks(heads, &|head| {
            // SAFETY: this head is this chunk's own.
            let grads = [0, 1, 2].map(|i| unsafe { out[i].slice(head * sizes[i], sizes[i]) });
            one_head(s, x, head, grads);
        });
    });
}

fn one_head<S: AttentionElement>(s: &AttentionShape, x: &Saved<S>, head: usize, grads: [&mut [S]; 3]) {
    let most = s.seen(s.l);
    let panels = [s.e, s.v].map(|width| Right::<S::Compute>::room(width, most));
    let [gq, gk, gv] = grads;
    let sums = room::<S>(gq.len() + gk.len() + gv.len());
    let wide = room::<S>(s.l * (s.e + 2 * s.v) + most * (s.e + s.v));
    let len = sums + wide + panels[0] + panels[1] + QUERIES * (2 * KEYS_BACK + 1);
    with_scratch::<S::Compute, _>(len, |buf| {
        let (all_sums, buf) = buf.split_at_mut(sums);
        let (keys_t, buf) = buf.split_at_mut(panels[0]);
        let (values_t, buf) = buf.split_at_mut(panels[1]);
        let (scores, buf) = buf.split_at_mut(QUERIES * KEYS_BACK);
        let (slopes, buf) = buf.split_at_mut(QUERIES * KEYS_BACK);
        let (dots, buf) = buf.split_at_mut(QUERIES);
        let out = RawMat::rows(x.out[head * s.l * s.v..].as_ptr(), s.v);
        // SAFETY: operands of this head, of which the keys that no query sees are left out.
        let (q, k, v, grad, out) = unsafe {
            let (q, buf) = widened(x.q.head(s, head), [s.l, s.e], buf);
            let (k, buf) = widened(x.k.head(s, head), [most, s.e], buf);
            let (v, buf) = widened(x.v.head(s, head), [most, s.v], buf);
            let (grad, buf) = widened(x.grad.head(s, head), [s.l, s.v], buf);
            (q, k, v, grad, widened(out, [s.l, s.v], buf).0)
        };
        // SAFETY: keys and values of this head.
        let (keys_t, values_t) = unsafe {
            (Right::of_columns(k.t(), s.e, most, keys_t), Right::of_columns(v.t(), s.v, most, values_t))
        };
        let (to_q, sums) = place(gq, all_sums);
        let (to_k, sums) = place(gk, sums);
        let (to_v, _) = place(gv, sums);
        to_q.fill(S::Compute::ZERO);
        to_k.fill(S::Compute::ZERO);
        to_v.fill(S::Compute::ZERO);
        for i in (0..s.l).step_by(QUERIES) {
            let rows = QUERIES.min(s.l - i);
            let lse = &x.lse[head * s.l + i..][..rows];
            let (query, grad, out) = (q.at(i, 0), grad.at(i, 0), out.at(i, 0));
            let dots = &mut dots[..rows];
            isa::run(Dots { grad, out, v: s.v, dots });
            let seen = s.seen(i + rows);
            for j in (0..seen).step_by(KEYS_BACK) {
                let keys = KEYS_BACK.min(seen - j);
                let (p, g) = (&mut scores[..rows * keys], &mut slopes[..rows * keys]);
                // SAFETY: [rows, e] [e, keys] and [rows, v] [v, keys] into the buffers.
                unsafe {
                    let to = RawOut::rows(p.as_mut_ptr(), keys);
                    keys_t.product(rows, (j, keys), query, false, to);
                    let to = RawOut::rows(g.as_mut_ptr(), keys);
                    values_t.product(rows, (j, keys), grad, false, to);
                }
                let mask = x.mask.map(|m| m.head(s, head).at(i, j));
                let block = Block { shape: s, mask, at: (i, j), keys };
                isa::run(Slope::<S> { block, scores: p, grad: g, lse, dots });
                let (p, g) = (RawMat::rows(p.as_ptr(), keys), RawMat::rows(g.as_ptr(), keys));
                let own_keys = k.at(j, 0);
                let own = |t: &mut [S::Compute], row: usize, width: usize| {
                    RawOut::rows(t[row * width..].as_mut_ptr(), width)
                };
                // SAFETY: [keys, rows] [rows, v], [keys, rows] [rows, e] and [rows, keys] [keys, e] into this head's
                // gradients.
                unsafe {
                    product([keys, s.v, rows], p.t(), grad, true, own(to_v, j, s.v));
                    product([keys, s.e, rows], g.t(), query, true, own(to_k, j, s.e));
                    product([rows, s.e, keys], g, own_keys, true, own(to_q, i, s.e));
                }
            }
        }
        if !as_they_lie::<S>() {
            let mut sums = &*all_sums;
            for to in [gq, gk, gv] {
                let (from, rest) = sums.split_at(to.len());
                S::down_slice(from, to);
                sums = rest;
            }
        }
    });
}
