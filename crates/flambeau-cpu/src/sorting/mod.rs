//! Sorting and what rests on it. Rows are sorted as packed (key, index) integers: such pairs are all different, so every
//! method gives the stable order. Long rows go through a radix sort.

pub mod erased;
#[cfg(test)]
mod tests;

use crate::engine::cache::prefetch;
use crate::engine::parallel::{num_threads, parallel_chunks, parallel_for};
use crate::engine::room::{collected, filled, reserve, room};
use crate::engine::scratch::with_scratch;
use crate::engine::{SharedMut, span};
use crate::num::{Compute, Float, Num, Order, Truth};
use crate::reduction::fold::{GRAIN, Geo};
use flambeau_dtype::Element;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A sort key with the index in its low 32 bits.
trait Packed: Copy + Ord + Default + Send + Sync + bytemuck::Pod {
    fn pack(key: u64, index: u32) -> Self;
    fn index(self) -> u32;
    fn key(self) -> u64;
    /// Bits `at..` of the key, low ones first.
    fn digit(self, at: u32, mask: usize) -> usize;
}
impl Packed for u64 {
    #[inline(always)]
    fn pack(key: u64, index: u32) -> u64 {
        key << 32 | index as u64
    }
    #[inline(always)]
    fn index(self) -> u32 {
        self as u32
    }
    #[inline(always)]
    fn key(self) -> u64 {
        self >> 32
    }
    #[inline(always)]
    fn digit(self, at: u32, mask: usize) -> usize {
        (self >> (32 + at)) as usize & mask
    }
}
impl Packed for u128 {
    #[inline(always)]
    fn pack(key: u64, index: u32) -> u128 {
        (key as u128) << 32 | index as u128
    }
    #[inline(always)]
    fn index(self) -> u32 {
        self as u32
    }
    #[inline(always)]
    fn key(self) -> u64 {
        (self >> 32) as u64
    }
    #[inline(always)]
    fn digit(self, at: u32, mask: usize) -> usize {
        ((self >> 32) as u64 >> at) as usize & mask
    }
}

/// The smallest key of a row, which is taken off before packing, and the bits that its keys differ in: sorting costs one
/// pass per few bits.
#[derive(Clone, Copy)]
struct Span {
    low: u64,
    bits: u32,
}
impl Span {
    fn of(keys: impl Iterator<Item = u64>) -> Span {
        Self::between(keys.fold((u64::MAX, 0), |(a, b), k| (a.min(k), b.max(k))))
    }
    fn between((low, high): (u64, u64)) -> Span {
        Span { low, bits: 64 - high.saturating_sub(low).leading_zeros() }
    }
    /// Of a long slice, on several threads.
    fn of_slice<T: Order>(x: &[T], descending: bool) -> Span {
        let (low, high) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        parallel_for(x.len(), GRAIN, |r| {
            let (a, b) = x[r]
                .iter()
                .map(|v| key(*v, descending))
                .fold((u64::MAX, 0), |(a, b), k| (a.min(k), b.max(k)));
            low.fetch_min(a, Ordering::Relaxed);
            high.fetch_max(b, Ordering::Relaxed);
        });
        Self::between((low.into_inner(), high.into_inner()))
    }
}

/// Pairs from which the passes of a radix sort are cut between threads.
const LONG: usize = 1 << 16;

/// Sorts pairs by their keys of so many bits; they must come in index order. Each pass counts the digits of each part,
/// and then every part knows the places of its elements: the order does not depend on the number of parts. They end in one of
/// the two pieces of memory.
fn sort_packed<'a, P: Packed>(mut p: &'a mut [P], mut tmp: &'a mut [P], bits: u32) -> &'a mut [P] {
    let n = p.len();
    assert_eq!(tmp.len(), n, "memory of a sort");
    if n < 256 {
        p.sort_unstable();
        return p;
    }
    if bits == 0 {
        return p;
    }
    let passes = bits.div_ceil(if n < 16384 { 8 } else { 11 });
    let width = bits.div_ceil(passes);
    let (size, mask) = (1usize << width, (1usize << width) - 1);
    let parts = if n < LONG { 1 } else { num_threads().min(16) };
    let range = |c: usize| c * n / parts..(c + 1) * n / parts;
    // one part has the same digits in whatever order: those of all passes are counted at once
    let mut counts = filled(0u32, if parts == 1 { passes as usize } else { parts } * size);
    if parts == 1 {
        for v in &*p {
            for (d, count) in (0..passes).zip(counts.chunks_exact_mut(size)) {
                count[v.digit(d * width, mask)] += 1;
            }
        }
    }
    for pass in 0..passes {
        let d = pass * width;
        let counts = if parts == 1 { &mut counts[pass as usize * size..][..size] } else { &mut counts[..] };
        if parts > 1 {
            let place = SharedMut::new(counts);
            parallel_chunks(parts, &|c| {
                // SAFETY: each part has its own counts.
                let count = unsafe { place.slice(c * size, size) };
                count.fill(0);
                p[range(c)].iter().for_each(|v| count[v.digit(d, mask)] += 1);
            });
        }
        let one = p[0].digit(d, mask);
        if (0..parts).map(|c| counts[c * size + one] as usize).sum::<usize>() == n {
            continue;
        }
        let mut at = 0;
        for k in 0..size {
            for c in 0..parts {
                at += std::mem::replace(&mut counts[c * size + k], at);
            }
        }
        let (place, to) = (SharedMut::new(counts), SharedMut::new(&mut *tmp));
        parallel_chunks(parts, &|c| {
            // SAFETY: each part has its own counts.
            let count = unsafe { place.slice(c * size, size) };
            for v in &p[range(c)] {
                let at = &mut count[v.digit(d, mask)];
                // SAFETY: the counts of all parts and digits add up to `n`, so that each element has its own place.
                unsafe { to.set(*at as usize, *v) };
                *at += 1;
            }
        });
        std::mem::swap(&mut p, &mut tmp);
    }
    p
}

#[inline(always)]
fn key<T: Order>(v: T, descending: bool) -> u64 {
    if descending { v.key() ^ (u64::MAX >> (64 - T::KEY_BITS)) } else { v.key() }
}

/// What [`key`] was made of, where keys are numbers in another order of their own.
#[inline(always)]
fn unkey<T: Order>(key: u64, descending: bool) -> Option<T> {
    T::of_key(if descending { key ^ (u64::MAX >> (64 - T::KEY_BITS)) } else { key })
}

/// Packs each row of the view, lets `body(row, pairs, as much memory, their span)` order it.
fn rows<T: Order, P: Packed>(
    x: &[T],
    g: Geo,
    descending: bool,
    body: impl Fn(usize, &mut [P], &mut [P], Span) + Sync,
) {
    if g.n == 0 {
        return;
    }
    let words = g.n * (size_of::<P>() / size_of::<u64>());
    parallel_for(g.rows(), (GRAIN / 16 / g.n).max(1), |r| {
        with_scratch::<u64, _>(2 * words, |memory| {
            let (p, tmp) = memory.split_at_mut(words);
            let (p, tmp): (&mut [P], &mut [P]) = (bytemuck::cast_slice_mut(p), bytemuck::cast_slice_mut(tmp));
            for row in r {
                let x = &x[g.base(row)..];
                let span = if g.ns == 1 {
                    let x = &x[..g.n];
                    let span = if g.n < LONG {
                        Span::of(x.iter().map(|v| key(*v, descending)))
                    } else {
                        Span::of_slice(x, descending)
                    };
                    let place = SharedMut::new(&mut *p);
                    parallel_for(g.n, GRAIN, |r| {
                        // SAFETY: ranges are disjoint.
                        let p = unsafe { place.slice(r.start, r.len()) };
                        for ((k, v), p) in r.clone().zip(&x[r]).zip(p) {
                            *p = P::pack(key(*v, descending) - span.low, k as u32);
                        }
                    });
                    span
                } else {
                    let keys = (0..g.n).map(|k| key(x[k * g.ns as usize], descending));
                    let span = Span::of(keys.clone());
                    for ((k, v), p) in keys.enumerate().zip(&mut *p) {
                        *p = P::pack(v - span.low, k as u32);
                    }
                    span
                };
                body(row, p, tmp, span);
            }
        });
    });
}

/// Leaves the `m` least of the keys that come, in no order. What is not below the `m`-th least so far is passed over, so
/// that few keys of many are packed at all.
fn least<P: Packed>(p: &mut Vec<P>, keys: impl Iterator<Item = u64>, m: usize) {
    let full = (4 * m).max(256);
    p.clear();
    reserve(p, full);
    let mut limit = None;
    for (k, key) in keys.enumerate() {
        // of equal keys the earlier is the lesser
        if limit.is_none_or(|l| key < l) {
            p.push(P::pack(key, k as u32));
            if p.len() == full {
                limit = Some(p.select_nth_unstable(m - 1).1.key());
                p.truncate(m);
            }
        }
    }
    if p.len() > m {
        p.select_nth_unstable(m - 1);
        p.truncate(m);
    }
}

fn top<T: Order, P: Packed>(
    x: &[T],
    g: Geo,
    descending: bool,
    m: usize,
    sorted: bool,
    values: &mut [T],
    indices: &mut [i64],
) {
    let (values, indices) = (SharedMut::new(values), SharedMut::new(indices));
    if m == 0 {
        return;
    }
    let put = |row: usize, p: &[P], low: u64| {
        let base = g.base(row);
        let at = row / g.inner * m * g.inner + row % g.inner;
        parallel_for(m, GRAIN, |r| {
            if T::of_key(0).is_some() {
                for (k, v) in r.clone().zip(&p[r]) {
                    if let Some(value) = unkey(v.key() + low, descending) {
                        // SAFETY: the places of a row are written by one task.
                        unsafe { values.set(at + k * g.inner, value) };
                    }
                    // SAFETY: as above.
                    unsafe { indices.set(at + k * g.inner, v.index() as i64) };
                }
                return;
            }
            for (k, v) in r.clone().zip(&p[r]) {
                // values lie anywhere: those needed soon are asked for
                if let Some(later) = p.get(k + 16) {
                    prefetch(x.as_ptr().wrapping_add(base + later.index() as usize * g.ns as usize).cast());
                }
                let i = v.index() as usize;
                // SAFETY: the places of a row are written by one task.
                unsafe { values.set(at + k * g.inner, x[base + i * g.ns as usize]) };
                // SAFETY: as above.
                unsafe { indices.set(at + k * g.inner, i as i64) };
            }
        });
    };
    if m < g.n {
        return parallel_for(g.rows(), (GRAIN / 4 / g.n).max(1), |r| {
            let mut p = Vec::new();
            for row in r {
                let x = &x[g.base(row)..];
                if g.ns == 1 {
                    least(&mut p, x[..g.n].iter().map(|v| key(*v, descending)), m);
                } else {
                    least(&mut p, (0..g.n).map(|k| key(x[k * g.ns as usize], descending)), m);
                }
                if sorted {
                    p.sort_unstable();
                }
                put(row, &p, 0);
            }
        });
    }
    rows::<T, P>(x, g, descending, |row, p, tmp, span| {
        put(row, sort_packed(p, tmp, span.bits), span.low);
    });
}

/// Sorts each row; `values` and `indices` are contiguous `[outer, n, inner]`. Equal elements keep their order (also when
/// descending), and NaN is greater than everything.
pub fn sort<T: Order>(x: &[T], g: Geo, descending: bool, values: &mut [T], indices: &mut [i64]) {
    topk(x, g, g.n, descending, true, values, indices);
}
/// The `k` largest (or smallest) elements of each row into contiguous `[outer, k, inner]`, ordered if `sorted`. Among
/// equals the one with the lower index is taken; NaN is greater than everything.
pub fn topk<T: Order>(
    x: &[T],
    g: Geo,
    k: usize,
    largest: bool,
    sorted: bool,
    values: &mut [T],
    indices: &mut [i64],
) {
    g.check(x.len(), g.rows());
    assert!(g.n <= u32::MAX as usize, "a row has too many elements to sort");
    assert!(k <= g.n, "more elements wanted than there are");
    assert!(
        values.len() == span::product([g.outer, g.inner, k]) && indices.len() == values.len(),
        "a sort has a wrong number of results"
    );
    // wide keys of which all lie close together fit a word with the index
    if T::KEY_BITS <= 32 || k == g.n && Span::of_slice(x, largest).bits <= 32 {
        top::<T, u64>(x, g, largest, k, sorted, values, indices);
    } else {
        top::<T, u128>(x, g, largest, k, sorted, values, indices);
    }
}
/// The permutation that [`sort`] applies to a contiguous row.
pub fn argsort<T: Order>(x: &[T], descending: bool) -> Vec<u32> {
    fn go<T: Order, P: Packed>(x: &[T], descending: bool) -> Vec<u32> {
        let mut order = Vec::new();
        let out = Mutex::new(&mut order);
        rows::<T, P>(x, Geo::contiguous(1, x.len(), 1), descending, |_, p, tmp, span| {
            let p = sort_packed(p, tmp, span.bits);
            if let Ok(mut out) = out.lock() {
                **out = collected(p.iter().map(|p| p.index()));
            }
        });
        order
    }
    assert!(x.len() <= u32::MAX as usize, "too many elements to sort");
    if T::KEY_BITS <= 32 || Span::of_slice(x, descending).bits <= 32 {
        go::<T, u64>(x, descending)
    } else {
        go::<T, u128>(x, descending)
    }
}

/// Where values belong in sorted rows: `boundaries` has rows of `n`, `values` has rows of `m` (with one boundary row
/// for all where `boundaries.len() == n`). `right` puts a value after equal boundaries. `sorter` orders the boundaries.
pub fn searchsorted<T: Order>(
    boundaries: &[T],
    n: usize,
    sorter: Option<&[i64]>,
    values: &[T],
    m: usize,
    right: bool,
    out: &mut [i64],
) -> Result<(), crate::indexing::IndexError> {
    assert_eq!(values.len(), out.len(), "searchsorted: a wrong number of results");
    if let Some(s) = sorter {
        assert_eq!(s.len(), boundaries.len(), "searchsorted: the sorter has the wrong length");
        crate::indexing::check(s, n)?;
    }
    let one = boundaries.len() == n;
    assert!(
        one || (m > 0 && Some(boundaries.len()) == (values.len() / m).checked_mul(n)),
        "searchsorted: rows do not match"
    );
    let place = SharedMut::new(out);
    parallel_for(values.len(), 2048, |r| {
        for i in r {
            let base = if one { 0 } else { i / m * n };
            let v = values[i];
            let vk = v.key();
            let (mut lo, mut hi) = (0, n);
            while lo < hi {
                let mid = (lo + hi) / 2;
                let b = boundaries[base + sorter.map_or(mid, |s| s[base + mid] as usize)];
                let ordered = !b.nan() && !v.nan();
                if ordered && (if right { b.key() > vk } else { b.key() >= vk }) {
                    hi = mid;
                } else {
                    lo = mid + 1;
                }
            }
            // SAFETY: ranges are disjoint.
            unsafe { place.set(i, lo as i64) };
        }
    });
    Ok(())
}

/// The results of [`unique`] and [`unique_consecutive`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unique {
    /// For each different value, the position of the first element that has it.
    pub first: Vec<i64>,
    /// For each element, the index of its value; empty if not wanted.
    pub inverse: Vec<i64>,
    /// How often each value occurs.
    pub counts: Vec<i64>,
}
impl Unique {
    fn start(&mut self, i: usize) {
        reserve(&mut self.first, 1);
        self.first.push(i as i64);
        reserve(&mut self.counts, 1);
        self.counts.push(0);
    }
    /// Counts an element of the last value.
    fn more(&mut self) -> i64 {
        if let Some(c) = self.counts.last_mut() {
            *c += 1;
        }
        self.first.len() as i64 - 1
    }
}
/// Different values of a contiguous slice in ascending order. Each NaN is a value of its own.
pub fn unique<T: Order>(x: &[T], inverse: bool) -> Unique {
    let span = Span::of_slice(x, false);
    if T::DTYPE.is_integral(true) && span.bits < 32 && 1usize << span.bits <= (4 * x.len()).max(1 << 12) {
        return unique_by_table(x, span, inverse);
    }
    let mut u = Unique { inverse: filled(0, if inverse { x.len() } else { 0 }), ..Unique::default() };
    let mut last = None;
    for i in argsort(x, false) {
        let v = x[i as usize];
        if last != Some(v.key()) || v.nan() {
            u.start(i as usize);
            last = Some(v.key());
        }
        let k = u.more();
        if inverse {
            u.inverse[i as usize] = k;
        }
    }
    u
}
/// [`unique`] of integers that lie close together: one place of a table for each possible value.
fn unique_by_table<T: Order>(x: &[T], span: Span, inverse: bool) -> Unique {
    let mut table = filled((0u32, 0u32), 1 << span.bits);
    for (i, v) in x.iter().enumerate() {
        let t = &mut table[(v.key() - span.low) as usize];
        if t.1 == 0 {
            t.0 = i as u32;
        }
        t.1 += 1;
    }
    let mut u = Unique::default();
    for t in table.iter_mut().filter(|t| t.1 > 0) {
        u.first.push(t.0 as i64);
        u.counts.push(t.1 as i64);
        t.0 = u.first.len() as u32 - 1;
    }
    if inverse {
        u.inverse = collected(x.iter().map(|v| table[(v.key() - span.low) as usize].0 as i64));
    }
    u
}
/// Values of a contiguous slice without consecutive repetitions.
pub fn unique_consecutive<T: Element>(x: &[T]) -> Unique {
    let mut u = Unique { inverse: room(x.len()), ..Unique::default() };
    for (i, v) in x.iter().enumerate() {
        if i == 0 || x[i - 1] != *v {
            u.start(i);
        }
        let k = u.more();
        u.inverse.push(k);
    }
    u
}

const PART: usize = 16384;
/// Fixed parts of a mask, and how many elements are true before each.
struct Parts<'a, M> {
    mask: &'a [M],
    before: Vec<usize>,
    total: usize,
}
impl<'a, M: Truth> Parts<'a, M> {
    fn of(mask: &'a [M]) -> Self {
        let mut before = filled(0usize, mask.len().div_ceil(PART));
        let place = SharedMut::new(&mut before);
        parallel_chunks(mask.len().div_ceil(PART), &|c| {
            let part = &mask[c * PART..((c + 1) * PART).min(mask.len())];
            let n = part.iter().fold(0u32, |a, v| a + v.truth() as u32);
            // SAFETY: each part has its own place.
            unsafe { place.set(c, n as usize) }
        });
        let mut total = 0;
        for c in before.iter_mut() {
            total += std::mem::replace(c, total);
        }
        Parts { mask, before, total }
    }
    /// Calls `write(place of the first, positions of true elements)` for pieces of the mask. No branch depends on the
    /// mask: half of the guesses of one that does fail.
    fn each(&self, write: impl Fn(usize, &[usize]) + Sync) {
        parallel_chunks(self.before.len(), &|c| {
            let mut at = self.before[c];
            let mut found = [0usize; 128];
            let start = c * PART;
            let part = &self.mask[start..(start + PART).min(self.mask.len())];
            for (first, piece) in (start..).step_by(64).zip(part.chunks(64)) {
                let mut n = 0;
                for (i, v) in (first..).zip(piece) {
                    found[n & 127] = i;
                    n += v.truth() as usize;
                }
                write(at, &found[..n]);
                at += n;
            }
        });
    }
}
/// Coordinates of the true elements of a contiguous tensor of that shape, `[count, shape.len()]` in one vector, in
/// memory order.
pub fn nonzero<M: Truth>(mask: &[M], shape: &[usize]) -> Vec<i64> {
    let nd = shape.len();
    assert_eq!(Some(mask.len()), span::product_of(shape), "nonzero: the shape does not fit");
    let parts = Parts::of(mask);
    let mut out = filled(0i64, parts.total * nd);
    let place = SharedMut::new(&mut out);
    parts.each(|at, found| {
        // SAFETY: each true element has its own places.
        let out = unsafe { place.slice(at * nd, found.len() * nd) };
        if nd == 1 {
            out.iter_mut().zip(found).for_each(|(o, i)| *o = *i as i64);
            return;
        }
        // neighbours mostly share a row, whose coordinates are worked out once
        let last = shape.last().copied().unwrap_or(1);
        let mut row = 0..0;
        for (k, i) in found.iter().enumerate() {
            let at = k * nd;
            if row.contains(i) {
                out.copy_within(at - nd..at - 1, at);
            } else {
                let mut rest = i / last;
                row = rest * last..(rest + 1) * last;
                for d in (0..nd.saturating_sub(1)).rev() {
                    out[at + d] = if d == 0 { rest } else { rest % shape[d] } as i64;
                    rest /= shape[d];
                }
            }
            if nd > 0 {
                out[at + nd - 1] = (i - row.start) as i64;
            }
        }
    });
    out
}
/// The number of true elements.
pub fn mask_count<M: Truth>(mask: &[M]) -> usize {
    Parts::of(mask).total
}
/// The elements of `x` where the mask is true. Both are contiguous and of the same length.
pub fn masked_select<T: Element, M: Truth>(x: &[T], mask: &[M]) -> Vec<T> {
    assert_eq!(x.len(), mask.len(), "masked_select: the lengths differ");
    let parts = Parts::of(mask);
    let mut out = filled(T::zeroed(), parts.total);
    let place = SharedMut::new(&mut out);
    parts.each(|at, found| {
        // SAFETY: each true element has its own place.
        let out = unsafe { place.slice(at, found.len()) };
        out.iter_mut().zip(found).for_each(|(o, i)| *o = x[*i]);
    });
    out
}

/// How often each number occurs, for numbers `0..max(minlength, largest + 1)`. A negative one is an error.
pub fn bincount(x: &[i64], minlength: usize) -> Result<Vec<i64>, crate::indexing::IndexError> {
    Ok(collected(bincount_weighted::<i64>(x, None, minlength)?.into_iter().map(|v| v as i64)))
}
/// As [`bincount`], where element `i` counts `weights[i]` (1 without weights).
pub fn bincount_weighted<T: Num>(
    x: &[i64],
    weights: Option<&[T]>,
    minlength: usize,
) -> Result<Vec<f64>, crate::indexing::IndexError> {
    assert!(weights.is_none_or(|w| w.len() == x.len()), "bincount: the lengths differ");
    let size = x.iter().max().map_or(0, |m| (m + 1).max(0) as usize).max(minlength);
    crate::indexing::check(x, size)?;
    let mut out = filled(0.0, size);
    for (i, v) in x.iter().enumerate() {
        out[*v as usize] += weights.map_or(1.0, |w| w[i].parts().0);
    }
    Ok(out)
}
/// Histogram with `bins` equal bins over `[min, max]`; elements outside, and NaN, are not counted. With `min == max` the
/// range is that of the data.
pub fn histc<T: Float>(x: &[T], bins: usize, min: f64, max: f64) -> Vec<T> {
    let (mut lo, mut hi) = (min, max);
    if lo == hi && !x.is_empty() {
        lo = x.iter().map(|v| v.up().f64()).fold(f64::INFINITY, f64::min);
        hi = x.iter().map(|v| v.up().f64()).fold(f64::NEG_INFINITY, f64::max);
    }
    if lo == hi {
        lo -= 1.0;
        hi += 1.0;
    }
    let mut counts = filled(0u64, bins);
    for v in x.iter().map(|v| v.up().f64()).filter(|v| (lo..=hi).contains(v)) {
        // in the precision of the input, as PyTorch computes it
        let one = |v: f64| T::Compute::from_f64(v);
        let b = ((one(v) - one(lo)) * one(bins as f64) / (one(hi) - one(lo))).f64() as usize;
        if bins > 0 {
            counts[b.min(bins - 1)] += 1;
        }
    }
    collected(counts.into_iter().map(|c| T::from_f64(c as f64)))
}
