//! Sorting and what rests on it. Rows are sorted as packed (key, index) integers: such pairs are all different, so every
//! method gives the stable order. Long rows go through a radix sort.

pub mod erased;

use crate::dtype::Element;
use crate::parallel::{parallel_chunks, parallel_for};
use crate::reduce::fold::{GRAIN, Geo, Ptr};
use crate::reduce::num::{Float, FloatOp, Num, Order, Truth};

/// A sort key with the index in its low 32 bits.
trait Packed: Copy + Ord + Default + Send + Sync {
    fn pack(key: u64, index: u32) -> Self;
    fn index(self) -> u32;
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
    fn digit(self, at: u32, mask: usize) -> usize {
        ((self >> 32) as u64 >> at) as usize & mask
    }
}

/// Sorts pairs by key; they must come in index order.
fn sort_packed<P: Packed>(p: &mut Vec<P>, tmp: &mut Vec<P>, bits: u32) {
    let n = p.len();
    if n < 256 {
        return p.sort_unstable();
    }
    let width = if n < 16384 || bits <= 8 { 8 } else { 11 };
    let (size, mask) = (1usize << width, (1usize << width) - 1);
    let passes = bits.div_ceil(width);
    let mut counts = vec![0u32; size * passes as usize];
    for v in p.iter() {
        for d in 0..passes {
            counts[d as usize * size + v.digit(d * width, mask)] += 1;
        }
    }
    tmp.clear();
    tmp.resize(n, P::default());
    for d in 0..passes {
        let count = &mut counts[d as usize * size..][..size];
        if count[p[0].digit(d * width, mask)] as usize == n {
            continue;
        }
        let mut at = 0;
        for c in count.iter_mut() {
            at += std::mem::replace(c, at);
        }
        for v in p.iter() {
            let c = &mut count[v.digit(d * width, mask)];
            tmp[*c as usize] = *v;
            *c += 1;
        }
        std::mem::swap(p, tmp);
    }
}

#[inline(always)]
fn key<T: Order>(v: T, descending: bool) -> u64 {
    if descending { v.key() ^ (u64::MAX >> (64 - T::KEY_BITS)) } else { v.key() }
}

/// Packs each row of the view, lets `body(row, pairs, spare)` order it.
fn rows<T: Order, P: Packed>(
    x: &[T],
    g: Geo,
    descending: bool,
    body: impl Fn(usize, &mut Vec<P>, &mut Vec<P>) + Sync,
) {
    g.check(x.len(), g.rows());
    assert!(g.n <= u32::MAX as usize, "a row has too many elements to sort");
    if g.n == 0 {
        return;
    }
    parallel_for(g.rows(), (GRAIN / 16 / g.n).max(1), |r| {
        let (mut p, mut tmp) = (Vec::with_capacity(g.n), Vec::new());
        for row in r {
            p.clear();
            if g.ns == 1 {
                let x = &x[g.base(row)..][..g.n];
                p.extend(x.iter().enumerate().map(|(k, v)| P::pack(key(*v, descending), k as u32)));
            } else {
                let x = &x[g.base(row)..];
                p.extend((0..g.n).map(|k| P::pack(key(x[k * g.ns as usize], descending), k as u32)));
            }
            body(row, &mut p, &mut tmp);
        }
    });
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
    assert!(m <= g.n, "more elements wanted than there are");
    assert!(
        values.len() == g.rows() * m && indices.len() == values.len(),
        "a sort has a wrong number of results"
    );
    let (values, indices) = (Ptr::new(values), Ptr::new(indices));
    if m == 0 {
        return;
    }
    rows::<T, P>(x, g, descending, |row, p, tmp| {
        if m < g.n {
            p.select_nth_unstable(m - 1);
            p.truncate(m);
            if sorted {
                p.sort_unstable();
            }
        } else {
            sort_packed(p, tmp, T::KEY_BITS);
        }
        let base = g.base(row);
        let at = row / g.inner * m * g.inner + row % g.inner;
        for (k, v) in p.iter().enumerate() {
            let i = v.index() as usize;
            // SAFETY: the places of a row are written by one task.
            unsafe { values.set(at + k * g.inner, x[base + i * g.ns as usize]) };
            // SAFETY: as above.
            unsafe { indices.set(at + k * g.inner, i as i64) };
        }
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
    if T::KEY_BITS <= 32 {
        top::<T, u64>(x, g, largest, k, sorted, values, indices);
    } else {
        top::<T, u128>(x, g, largest, k, sorted, values, indices);
    }
}
/// The permutation that [`sort`] applies to a contiguous row.
pub fn argsort<T: Order>(x: &[T], descending: bool) -> Vec<u32> {
    fn go<T: Order, P: Packed>(x: &[T], descending: bool) -> Vec<u32> {
        let pack = |(k, v): (usize, &T)| P::pack(key(*v, descending), k as u32);
        let mut p: Vec<P> = x.iter().enumerate().map(pack).collect();
        sort_packed(&mut p, &mut Vec::new(), T::KEY_BITS);
        p.into_iter().map(P::index).collect()
    }
    assert!(x.len() <= u32::MAX as usize, "too many elements to sort");
    if T::KEY_BITS <= 32 { go::<T, u64>(x, descending) } else { go::<T, u128>(x, descending) }
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
) -> Result<(), crate::index::IndexError> {
    assert_eq!(values.len(), out.len(), "searchsorted: a wrong number of results");
    if let Some(s) = sorter {
        assert_eq!(s.len(), boundaries.len(), "searchsorted: the sorter has the wrong length");
        crate::index::check(s, n)?;
    }
    let one = boundaries.len() == n;
    assert!(one || (m > 0 && boundaries.len() == values.len() / m * n), "searchsorted: rows do not match");
    let place = Ptr::new(out);
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
#[derive(Clone, Debug, PartialEq)]
pub struct Unique<T> {
    /// The different values.
    pub values: Vec<T>,
    /// For each element, the index of its value.
    pub inverse: Vec<i64>,
    /// How often each value occurs.
    pub counts: Vec<i64>,
}
/// Different values of a contiguous slice in ascending order. Each NaN is a value of its own.
pub fn unique<T: Order>(x: &[T]) -> Unique<T> {
    let mut u = Unique { values: vec![], inverse: vec![0; x.len()], counts: vec![] };
    let mut last = None;
    for i in argsort(x, false) {
        let v = x[i as usize];
        if last == Some(v.key()) && !v.nan() {
            if let Some(c) = u.counts.last_mut() {
                *c += 1;
            }
        } else {
            u.values.push(v);
            u.counts.push(1);
            last = Some(v.key());
        }
        u.inverse[i as usize] = u.values.len() as i64 - 1;
    }
    u
}
/// Values of a contiguous slice without consecutive repetitions.
pub fn unique_consecutive<T: Element>(x: &[T]) -> Unique<T> {
    let mut u = Unique { values: vec![], inverse: Vec::with_capacity(x.len()), counts: vec![] };
    for (i, v) in x.iter().enumerate() {
        match u.counts.last_mut() {
            Some(c) if x[i - 1] == *v => *c += 1,
            _ => {
                u.values.push(*v);
                u.counts.push(1);
            }
        }
        u.inverse.push(u.values.len() as i64 - 1);
    }
    u
}

const PART: usize = 16384;
/// Calls `write(first place, element range)` for fixed parts of a mask, where the places count the true elements before.
fn compact<M: Truth>(
    mask: &[M],
    alloc: impl FnOnce(usize),
    write: impl Fn(usize, std::ops::Range<usize>) + Sync,
) {
    let parts = mask.len().div_ceil(PART);
    let range = |c: usize| c * PART..((c + 1) * PART).min(mask.len());
    let mut counts = vec![0usize; parts];
    let place = Ptr::new(&mut counts);
    parallel_chunks(parts, &|c| {
        let n = mask[range(c)].iter().fold(0u32, |a, v| a + v.truth() as u32);
        // SAFETY: each part has its own place.
        unsafe { place.set(c, n as usize) }
    });
    let mut total = 0;
    for c in counts.iter_mut() {
        total += std::mem::replace(c, total);
    }
    alloc(total);
    parallel_chunks(parts, &|c| write(counts[c], range(c)));
}
/// Coordinates of the true elements of a contiguous tensor of that shape, `[count, shape.len()]` in one vector, in
/// memory order.
pub fn nonzero<M: Truth>(mask: &[M], shape: &[usize]) -> Vec<i64> {
    let nd = shape.len();
    assert_eq!(mask.len(), shape.iter().product::<usize>(), "nonzero: the shape does not fit");
    let total = mask_count(mask);
    let mut out = vec![0i64; total * nd];
    let place = Ptr::new(&mut out);
    compact(
        mask,
        |n| assert_eq!(n, total),
        |first, r| {
            for (at, i) in (first..).zip(r.filter(|i| mask[*i].truth())) {
                // SAFETY: each true element has its own places.
                let c = unsafe { place.slice(at * nd, nd) };
                let mut rest = i;
                for d in (0..nd).rev() {
                    c[d] = if d == 0 { rest } else { rest % shape[d] } as i64;
                    rest /= shape[d];
                }
            }
        },
    );
    out
}
/// The number of true elements.
pub fn mask_count<M: Truth>(mask: &[M]) -> usize {
    let mut n = 0;
    compact(mask, |c| n = c, |_, _| ());
    n
}
/// The elements of `x` where the mask is true. Both are contiguous and of the same length.
pub fn masked_select<T: Element, M: Truth>(x: &[T], mask: &[M]) -> Vec<T> {
    assert_eq!(x.len(), mask.len(), "masked_select: the lengths differ");
    let mut out = vec![T::zeroed(); mask_count(mask)];
    let place = Ptr::new(&mut out);
    compact(
        mask,
        |_| (),
        |first, r| {
            let mut at = first;
            for i in r {
                if mask[i].truth() {
                    // SAFETY: each true element has its own place.
                    unsafe { place.set(at, x[i]) };
                    at += 1;
                }
            }
        },
    );
    out
}

/// How often each number occurs, for numbers `0..max(minlength, largest + 1)`. A negative one is an error.
pub fn bincount(x: &[i64], minlength: usize) -> Result<Vec<i64>, crate::index::IndexError> {
    Ok(bincount_weighted::<i64>(x, None, minlength)?.into_iter().map(|v| v as i64).collect())
}
/// As [`bincount`], where element `i` counts `weights[i]` (1 without weights).
pub fn bincount_weighted<T: Num>(
    x: &[i64],
    weights: Option<&[T]>,
    minlength: usize,
) -> Result<Vec<f64>, crate::index::IndexError> {
    assert!(weights.is_none_or(|w| w.len() == x.len()), "bincount: the lengths differ");
    let size = x.iter().max().map_or(0, |m| (m + 1).max(0) as usize).max(minlength);
    crate::index::check(x, size)?;
    let mut out = vec![0.0; size];
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
        lo = x.iter().map(|v| v.op().f64()).fold(f64::INFINITY, f64::min);
        hi = x.iter().map(|v| v.op().f64()).fold(f64::NEG_INFINITY, f64::max);
    }
    if lo == hi {
        lo -= 1.0;
        hi += 1.0;
    }
    let mut counts = vec![0u64; bins];
    for v in x.iter().map(|v| v.op().f64()).filter(|v| (lo..=hi).contains(v)) {
        // in the precision of the input, as PyTorch computes it
        let one = |v: f64| T::Op::from_f64(v);
        let b = ((one(v) - one(lo)) * one(bins as f64) / (one(hi) - one(lo))).f64() as usize;
        if bins > 0 {
            counts[b.min(bins - 1)] += 1;
        }
    }
    counts.into_iter().map(|c| T::from_f64(c as f64)).collect()
}
