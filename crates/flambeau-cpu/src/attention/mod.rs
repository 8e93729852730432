//! Scaled dot product attention, one block of scores at a time: the matrix of all scores never exists. The forward pass
//! keeps the logarithm of each row's sum, from which the backward pass computes the scores again.

pub mod erased;

use crate::blas::prepared::{COLUMNS, Right, product};
use crate::blas::{MatmulScalar, RawMat, RawOut, WideScalar};
use crate::engine::accumulate::fold;
use crate::engine::isa::{self, Isa, Job, Level, best_for};
use crate::engine::parallel::{num_threads, parallel_chunks};
use crate::engine::scratch::with_scratch;
use crate::engine::{SharedMut, span};
use crate::num::Compute;

/// A type in which attention is computed.
pub trait AttentionScalar: Compute + WideScalar + MatmulScalar {}
impl<T: Compute + WideScalar + MatmulScalar> AttentionScalar for T {}

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
    /// Keys that the queries before `end` see.
    fn seen(&self, end: usize) -> usize {
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
const _: () = assert!(KEYS.is_multiple_of(COLUMNS) && KEYS_BACK.is_multiple_of(COLUMNS));

/// Turns scores into weights without their common divisor, in the running form: `max` and `sum` are those of the blocks
/// so far, and what was summed up in `out` is brought to the new maximum.
struct Weigh<'a, T> {
    shape: &'a AttentionShape,
    /// `[rows, keys]`.
    scores: &'a mut [T],
    /// The first query and the first key.
    at: (usize, usize),
    keys: usize,
    max: &'a mut [T],
    sum: &'a mut [T],
    /// `[rows, v]`.
    out: &'a mut [T],
}
/// The keys of a block that query `i` sees.
#[inline(always)]
fn visible(causal: bool, i: usize, (first, keys): (usize, usize)) -> usize {
    if causal { (i + 1).saturating_sub(first).min(keys) } else { keys }
}
impl<T: AttentionScalar> Job for Weigh<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let scale = T::of(self.shape.scale);
        for (r, row) in self.scores.chunks_exact_mut(self.keys).enumerate() {
            let n = visible(self.shape.causal, self.at.0 + r, (self.at.1, self.keys));
            let (row, rest) = row.split_at_mut(n);
            rest.fill(T::ZERO);
            for x in row.iter_mut() {
                *x = *x * scale;
            }
            let old = self.max[r];
            let max = fold::<I, _, _, _>([&*row], old, |[v]| v, |a, b| if b > a { b } else { a });
            self.max[r] = max;
            // a row of nothing but -inf has weights of 0 so far
            let base = if max == T::LOW { T::ZERO } else { max };
            for x in row.iter_mut() {
                *x = (*x - base).exp::<I>();
            }
            let sum = fold::<I, _, _, _>([&*row], T::ZERO, |[v]| v, |a, b| a + b);
            if self.at.1 == 0 {
                self.sum[r] = sum;
            } else if old == max {
                self.sum[r] = self.sum[r] + sum;
            } else {
                let shrink = (old - base).exp::<I>();
                self.sum[r] = self.sum[r] * shrink + sum;
                for o in &mut self.out[r * self.shape.v..(r + 1) * self.shape.v] {
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
}
impl<T: AttentionScalar> Job for Finish<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for (r, lse) in self.lse.iter_mut().enumerate() {
            let by = T::ONE / self.sum[r];
            for o in &mut self.out[r * self.v..(r + 1) * self.v] {
                *o = *o * by;
            }
            *lse = self.max[r] + self.sum[r].ln::<I>();
        }
    }
}

/// `out = softmax(q k^T scale) v` `[batch, heads, l, v]`, and the logarithms of the rows' sums `[batch, heads, l]`.
///
/// # Panics
/// If a slice is too short, or there is no key: a bug of the caller.
pub fn forward<T: AttentionScalar>(
    s: &AttentionShape,
    q: Heads<T>,
    k: Heads<T>,
    v: Heads<T>,
    out: &mut [T],
    lse: &mut [T],
) {
    let heads = span::product([s.batch, s.heads]);
    q.check(s, s.l, s.e);
    k.check(s, s.s, s.e);
    v.check(s, s.s, s.v);
    let (results, sums) = (span::product([heads, s.l, s.v]), span::product([heads, s.l]));
    assert!(out.len() == results && lse.len() == sums, "attention: lengths of the results");
    assert!(s.s > 0, "attention: no keys");
    if heads * s.l == 0 {
        return;
    }
    // Few heads are cut, though each part turns the keys again.
    let blocks = s.l.div_ceil(QUERIES);
    let parts = if heads >= num_threads() { 1 } else { (2 * num_threads()).div_ceil(heads).min(blocks) };
    let (shared, shared_lse) = (SharedMut::new(out), SharedMut::new(lse));
    parallel_chunks(heads * parts, &|chunk| {
        let (head, part) = (chunk / parts, chunk % parts);
        let (q, k, v) = (q.head(s, head), k.head(s, head), v.head(s, head));
        let range = part * blocks / parts..(part + 1) * blocks / parts;
        let most = s.seen(range.end * QUERIES);
        // A single query takes the keys as they lie: turning them is more work than its scores.
        let one = s.l == 1;
        let room = if one { 0 } else { Right::<T>::room(s.e, most) };
        with_scratch::<T, _>(room + QUERIES * (KEYS + 2), |buf| {
            let (turned, buf) = buf.split_at_mut(room);
            let (scores, buf) = buf.split_at_mut(QUERIES * KEYS);
            let (max, sum) = buf.split_at_mut(QUERIES);
            // SAFETY: the keys of this head.
            let turned = (!one).then(|| unsafe { Right::of_columns(k.t(), s.e, most, turned) });
            for i in range.map(|b| b * QUERIES) {
                let rows = QUERIES.min(s.l - i);
                // SAFETY: these rows are this chunk's own.
                let (out, lse) = unsafe {
                    (shared.slice((head * s.l + i) * s.v, rows * s.v), shared_lse.slice(head * s.l + i, rows))
                };
                max.fill(T::LOW);
                let seen = s.seen(i + rows);
                for j in (0..seen).step_by(KEYS) {
                    let keys = KEYS.min(seen - j);
                    let scores = &mut scores[..rows * keys];
                    let row = q.at(i, 0);
                    let to = RawOut::rows(scores.as_mut_ptr(), keys);
                    // SAFETY: queries [rows, e], turned keys [e, keys], and the buffer.
                    unsafe {
                        match &turned {
                            Some(t) => t.product(rows, (j, keys), row, false, to),
                            None => vector([keys, s.e], row.p, k.at(j, 0).t(), false, to.p),
                        }
                    }
                    let scores = &mut scores[..];
                    isa::run(Weigh { shape: s, scores, at: (i, j), keys, max, sum, out });
                    let values = v.at(j, 0);
                    // SAFETY: weights [rows, keys], values [keys, v], and this chunk's own rows.
                    unsafe {
                        if one {
                            vector([s.v, keys], scores.as_ptr(), values, j > 0, out.as_mut_ptr());
                        } else {
                            let weights = RawMat::rows(scores.as_ptr(), keys);
                            product(
                                [rows, s.v, keys],
                                weights,
                                values,
                                j > 0,
                                RawOut::rows(out.as_mut_ptr(), s.v),
                            );
                        }
                    }
                }
                isa::run(Finish { max, sum, out, v: s.v, lse });
            }
        });
    });
}

/// From scores and the weights' gradient: the weights, and the scores' gradient.
struct Slope<'a, T> {
    shape: &'a AttentionShape,
    /// `[rows, keys]`: scores in, weights out.
    scores: &'a mut [T],
    /// `[rows, keys]`: the weights' gradient in, the scores' gradient out.
    grad: &'a mut [T],
    at: (usize, usize),
    keys: usize,
    lse: &'a [T],
    /// Each row's product of gradient and result.
    dots: &'a [T],
}
impl<T: AttentionScalar> Job for Slope<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let scale = T::of(self.shape.scale);
        let rows = self.scores.chunks_exact_mut(self.keys).zip(self.grad.chunks_exact_mut(self.keys));
        for (r, (p, g)) in rows.enumerate() {
            let n = visible(self.shape.causal, self.at.0 + r, (self.at.1, self.keys));
            p[n..].fill(T::ZERO);
            g[n..].fill(T::ZERO);
            let (lse, dot) = (self.lse[r], self.dots[r]);
            for (p, g) in p[..n].iter_mut().zip(&mut g[..n]) {
                *p = (*p * scale - lse).exp::<I>();
                *g = *p * (*g - dot) * scale;
            }
        }
    }
}
/// The product of gradient and result of each row.
struct Dots<'a, T> {
    grad: RawMat<T>,
    out: &'a [T],
    v: usize,
    dots: &'a mut [T],
}
impl<T: AttentionScalar> Job for Dots<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for (r, dot) in self.dots.iter_mut().enumerate() {
            let row = self.grad.at(r, 0).p;
            // SAFETY: a row of the gradient.
            let grad = unsafe { std::slice::from_raw_parts(row, self.v) };
            let out = &self.out[r * self.v..(r + 1) * self.v];
            *dot = fold::<I, _, _, _>([grad, out], T::ZERO, |[g, o]| g * o, |a, b| a + b);
        }
    }
}

/// What [`forward`] got and gave, and the gradient of its result.
pub struct Saved<'a, T> {
    /// Queries.
    pub q: Heads<'a, T>,
    /// Keys.
    pub k: Heads<'a, T>,
    /// Values.
    pub v: Heads<'a, T>,
    /// The result, dense.
    pub out: &'a [T],
    /// The logarithms, dense.
    pub lse: &'a [T],
    /// The gradient of the result.
    pub grad: Heads<'a, T>,
}

/// The gradients for queries, keys and values, row-major and overwritten. Heads are independent, and each is summed in one
/// order, so that the result does not depend on the number of threads.
///
/// # Panics
/// If a slice is too short: a bug of the caller.
pub fn backward<T: AttentionScalar>(
    s: &AttentionShape,
    x: &Saved<T>,
    gq: &mut [T],
    gk: &mut [T],
    gv: &mut [T],
) {
    let heads = span::product([s.batch, s.heads]);
    x.q.check(s, s.l, s.e);
    x.k.check(s, s.s, s.e);
    x.v.check(s, s.s, s.v);
    x.grad.check(s, s.l, s.v);
    let (results, sums) = (span::product([heads, s.l, s.v]), span::product([heads, s.l]));
    assert!(x.out.len() == results && x.lse.len() == sums, "attention: saved lengths");
    let sizes = [[s.l, s.e], [s.s, s.e], [s.s, s.v]].map(span::product);
    assert!(
        [gq.len(), gk.len(), gv.len()] == sizes.map(|n| span::product([heads, n])),
        "attention: lengths of the gradients"
    );
    let out = [gq, gk, gv].map(SharedMut::new);
    parallel_chunks(heads, &|head| {
        // SAFETY: this head is this chunk's own.
        let grads = [0, 1, 2].map(|i| unsafe { out[i].slice(head * sizes[i], sizes[i]) });
        one_head(s, x, head, grads);
    });
}

fn one_head<T: AttentionScalar>(s: &AttentionShape, x: &Saved<T>, head: usize, [gq, gk, gv]: [&mut [T]; 3]) {
    gq.fill(T::ZERO);
    gk.fill(T::ZERO);
    gv.fill(T::ZERO);
    let (q, k, v, grad) = (x.q.head(s, head), x.k.head(s, head), x.v.head(s, head), x.grad.head(s, head));
    let most = s.seen(s.l);
    let room = [s.e, s.v].map(|width| Right::<T>::room(width, most));
    with_scratch::<T, _>(room[0] + room[1] + QUERIES * (2 * KEYS_BACK + 1), |buf| {
        let (keys_t, buf) = buf.split_at_mut(room[0]);
        let (values_t, buf) = buf.split_at_mut(room[1]);
        let (scores, buf) = buf.split_at_mut(QUERIES * KEYS_BACK);
        let (slopes, dots) = buf.split_at_mut(QUERIES * KEYS_BACK);
        // SAFETY: keys and values of this head.
        let (keys_t, values_t) = unsafe {
            (Right::of_columns(k.t(), s.e, most, keys_t), Right::of_columns(v.t(), s.v, most, values_t))
        };
        for i in (0..s.l).step_by(QUERIES) {
            let rows = QUERIES.min(s.l - i);
            let lse = &x.lse[head * s.l + i..][..rows];
            let out = &x.out[(head * s.l + i) * s.v..][..rows * s.v];
            let (query, grad) = (q.at(i, 0), grad.at(i, 0));
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
                isa::run(Slope { shape: s, scores: p, grad: g, at: (i, j), keys, lse, dots });
                let (p, g) = (RawMat::rows(p.as_ptr(), keys), RawMat::rows(g.as_ptr(), keys));
                let own_keys = k.at(j, 0);
                let own = |t: &mut [T], row: usize, width: usize| {
                    RawOut::rows(t[row * width..].as_mut_ptr(), width)
                };
                // SAFETY: [keys, rows] [rows, v], [keys, rows] [rows, e] and [rows, keys] [keys, e] into this head's
                // gradients.
                unsafe {
                    product([keys, s.v, rows], p.t(), grad, true, own(gv, j, s.v));
                    product([keys, s.e, rows], g.t(), query, true, own(gk, j, s.e));
                    product([rows, s.e, keys], g, own_keys, true, own(gq, i, s.e));
                }
            }
        }
    });
}

#[cfg(test)]
mod tests;
