//! Reading and writing at computed places. All indices are checked before anything is written.

pub mod erased;

use crate::engine::cache::{copy_run, finish, prefetch, prefetch_row, streams};
use crate::engine::isa::{self, Isa, Job, Level};
use crate::engine::parallel::parallel_for;
use crate::engine::room::{collected, filled};
use crate::engine::{SharedMut, span};
use crate::num::{Arith, Num, Order};
use crate::reduction::fold::{GRAIN, Geo};
use flambeau_dtype::{DType, Element};
use std::sync::atomic::{AtomicBool, Ordering};

/// How many indices ahead memory is asked for.
const AHEAD: usize = 16;

/// Sizes and steps of each dimension.
type SmallDims = Vec<(usize, usize)>;

/// An index outside of `0..size` (or `-size..size` where negative ones count from the end).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexError {
    /// The offending index.
    pub index: i64,
    /// The size of the dimension.
    pub size: usize,
}
impl std::fmt::Display for IndexError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "index {} is out of bounds for dimension with size {}", self.index, self.size)
    }
}
impl std::error::Error for IndexError {}

/// Whether an index lies outside of `0..=last`.
struct Outside<'a> {
    idx: &'a [i64],
    last: i64,
}
impl Job for Outside<'_> {
    type Out = bool;
    const BEST: Level = Level::V3;
    #[inline(always)]
    fn run<I: Isa>(self) -> bool {
        // The sign of `i` or of what is left to the last index is set where one is bad: no comparison, which the oldest vector
        // instructions do not have for 64 bits, and no early exit.
        self.idx.iter().fold(0, |bad, i| bad | *i | self.last.wrapping_sub(*i)) < 0
    }
}

/// Checks that all indices are in `0..size`.
pub fn check(idx: &[i64], size: usize) -> Result<(), IndexError> {
    let last = (size as i64).wrapping_sub(1);
    let scan = |idx: &[i64]| isa::run(Outside { idx, last });
    let bad = if idx.len() <= 4 * GRAIN {
        scan(idx)
    } else {
        let bad = AtomicBool::new(false);
        parallel_for(idx.len(), GRAIN, |r| {
            if scan(&idx[r]) {
                bad.store(true, Ordering::Relaxed);
            }
        });
        bad.into_inner()
    };
    if bad {
        let bad = idx.iter().find(|i| **i as u64 >= size as u64).copied().unwrap_or(0);
        return Err(IndexError { index: bad, size });
    }
    Ok(())
}

/// `out[o, k, i] = x[o, idx[k], i]`: `x` is viewed by `g`, `out` is contiguous `[outer, idx.len(), inner]`. Negative
/// indices are errors. This is also the embedding lookup (`outer = 1`).
pub fn index_select<T: Copy + Send + Sync>(
    x: &[T],
    g: Geo,
    idx: &[i64],
    out: &mut [T],
) -> Result<(), IndexError> {
    check(idx, g.n)?;
    g.check(x.len(), g.rows());
    let m = idx.len();
    assert_eq!(out.len(), span::product([g.outer, g.inner, m]), "index_select: a wrong number of results");
    if out.is_empty() {
        return Ok(());
    }
    let row = if g.is == 1 { g.inner * size_of::<T>() } else { 0 };
    let stream = streams(out.as_ptr().cast(), row, 2 * size_of_val(out));
    let place = SharedMut::new(out);
    // Rows that lie anywhere are asked for ahead of time, as far as the machine does not follow them by itself.
    let ahead = row.clamp(1, 512);
    parallel_for(g.outer * m, (GRAIN / g.inner).max(1), |r| {
        let (mut o, mut k) = (r.start / m, r.start % m);
        for p in r {
            if let Some(later) = idx.get(k + AHEAD) {
                let row = x.as_ptr().wrapping_add(o * g.os as usize + *later as usize * g.ns as usize);
                (0..ahead).step_by(64).for_each(|at| prefetch(row.cast::<u8>().wrapping_add(at)));
            }
            // SAFETY: each position is handled by one task.
            let out = unsafe { place.slice(p * g.inner, g.inner) };
            let base = o * g.os as usize + idx[k] as usize * g.ns as usize;
            if g.inner == 1 {
                out[0] = x[base];
            } else if g.is == 1 {
                copy_run(out, &x[base..][..g.inner], stream);
            } else {
                out.iter_mut().enumerate().for_each(|(i, v)| *v = x[base + i * g.is as usize]);
            }
            k += 1;
            if k == m {
                (o, k) = (o + 1, 0);
            }
        }
        finish(stream);
    });
    Ok(())
}

/// How a contiguous index tensor addresses one dimension of a data tensor of the same rank.
#[derive(Clone, Copy, Debug)]
pub struct Along<'a> {
    /// Shape of the index tensor; in other dimensions than `dim` it does not exceed the data's.
    pub shape: &'a [usize],
    /// Strides of the data tensor, in elements.
    pub strides: &'a [usize],
    /// The dimension that the indices address.
    pub dim: usize,
    /// The data's size in that dimension.
    pub size: usize,
}
impl Along<'_> {
    /// Calls `f(position in the index tensor, offset in the data)` for positions of a range, in order.
    #[inline(always)]
    fn each(&self, idx: &[i64], range: std::ops::Range<usize>, mut f: impl FnMut(usize, usize)) {
        let nd = self.shape.len();
        if nd == 0 {
            return range.for_each(|p| f(p, 0));
        }
        let step = if self.dim == nd - 1 { 0 } else { self.strides[nd - 1] };
        let along = self.strides[self.dim];
        self.runs(range, &mut |p, mut at, run| {
            for (j, i) in idx[p..p + run].iter().enumerate() {
                f(p + j, at + *i as usize * along);
                at += step;
            }
        });
    }
    /// Calls `f(first position, its offset without the index, positions)` for the runs of a range in the last dimension.
    /// The one body for all types and uses of [`Along::each`].
    #[inline(never)]
    fn runs(&self, range: std::ops::Range<usize>, f: &mut dyn FnMut(usize, usize, usize)) {
        let nd = self.shape.len();
        let last = self.shape[nd - 1];
        let step = if self.dim == nd - 1 { 0 } else { self.strides[nd - 1] };
        let mut p = range.start;
        while p < range.end {
            let (mut rest, j0) = (p / last, p % last);
            let mut base = 0;
            for d in (0..nd - 1).rev() {
                if d != self.dim {
                    base += rest % self.shape[d] * self.strides[d];
                }
                rest /= self.shape[d];
            }
            let run = (last - j0).min(range.end - p);
            f(p, base + j0 * step, run);
            p += run;
        }
    }
    /// `data[.., idx[p], ..] = f(data[..], p)`, in order of `p` for each place. Threads take different coordinates in a
    /// dimension that is not indexed, and so different places.
    fn update<T: Copy + Send + Sync>(
        &self,
        data: &mut [T],
        idx: &[i64],
        f: impl Fn(T, usize) -> T + Copy + Sync,
    ) -> Result<(), IndexError> {
        self.check_geometry(idx, data.len());
        check(idx, self.size)?;
        let nd = self.shape.len();
        if nd == 0 {
            data[0] = f(data[0], 0);
            return Ok(());
        }
        let place = SharedMut::new(data);
        let (step, along) =
            (if self.dim == nd - 1 { 0 } else { self.strides[nd - 1] }, self.strides[self.dim]);
        let part = |range: std::ops::Range<usize>| {
            self.runs(range, &mut |p, at, run| {
                // what a closure holds by reference would be read again after every write
                let (start, step, along, f) = (place.ptr(), step, along, f);
                for (j, i) in idx[p..p + run].iter().enumerate() {
                    // SAFETY: the indices were checked, and `check_geometry` has checked that all places that the shape
                    // and such indices address lie in `data`; tasks have disjoint places.
                    let d = unsafe { &mut *start.add(at + j * step + *i as usize * along) };
                    *d = f(*d, p + j);
                }
            })
        };
        self.parts(idx.len(), &part);
        Ok(())
    }
    /// Calls `part` on ranges of the `n` positions, in parallel where different threads would have different places.
    #[inline(never)]
    fn parts(&self, n: usize, part: &(dyn Fn(std::ops::Range<usize>) + Sync)) {
        let nd = self.shape.len();
        let last = self.shape[nd - 1];
        if nd == 1 || n < GRAIN / 2 || !self.apart() {
            part(0..n);
        } else if self.dim > 0 {
            let rest = n / self.shape[0];
            parallel_for(self.shape[0], (GRAIN / 4).div_ceil(rest), |r| part(r.start * rest..r.end * rest));
        } else {
            let rows = n / last;
            parallel_for(last, (GRAIN / 4).div_ceil(rows).max(64), |r| {
                (0..rows).for_each(|row| part(row * last + r.start..row * last + r.end))
            });
        }
    }
    /// Different coordinates are different places.
    fn apart(&self) -> bool {
        let size = |d: usize| if d == self.dim { self.size } else { self.shape[d] };
        let mut order: Vec<usize> = collected((0..self.shape.len()).filter(|d| size(*d) > 1));
        order.sort_by_key(|d| self.strides[*d]);
        let mut reach = 0;
        order.into_iter().all(|d| {
            let apart = self.strides[d] > reach;
            reach += (size(d) - 1) * self.strides[d];
            apart
        })
    }
    /// Checks that every place that indices below `size` address lies in the data.
    fn check_geometry(&self, idx: &[i64], data: usize) {
        assert_eq!(Some(idx.len()), span::product_of(self.shape), "the index tensor has another shape");
        assert_eq!(self.shape.len(), self.strides.len(), "index and data have different ranks");
        assert!(self.shape.is_empty() || self.dim < self.shape.len(), "there is no such dimension");
        if !idx.is_empty() && !self.shape.is_empty() && self.size > 0 {
            let size = |d: usize| if d == self.dim { self.size } else { self.shape[d] };
            let dims: SmallDims = (0..self.shape.len()).map(|d| (size(d), self.strides[d])).collect();
            assert!(span::fits(&dims, data), "indexing reaches beyond its slice");
        }
    }
}

/// `out[p] = x[.., idx[p], ..]`. `out` is contiguous with the shape of the indices. Negative indices are errors.
pub fn gather<T: Copy + Send + Sync>(
    x: &[T],
    a: Along,
    idx: &[i64],
    out: &mut [T],
) -> Result<(), IndexError> {
    a.check_geometry(idx, x.len());
    assert_eq!(out.len(), idx.len(), "gather: a wrong number of results");
    if a.shape.is_empty() {
        check(idx, a.size)?;
        out[0] = x[0];
        return Ok(());
    }
    // Indices are read once: each run is checked right before it is used. The first bad one is looked for afterwards.
    let (place, bad) = (SharedMut::new(out), AtomicBool::new(false));
    let (along, last) = (a.strides[a.dim], a.shape.len() - 1);
    let step = if a.dim == last { 0 } else { a.strides[last] };
    // A run that uses most lines of its row asks for the next row, which usually comes next in memory.
    let row = if a.dim == last && along == 1 { a.size } else { 0 };
    let next = if row * size_of::<T>() <= a.shape[last] * 64 { row } else { 0 };
    parallel_for(idx.len(), GRAIN / 4, |r| {
        a.runs(r, &mut |p, at, run| {
            prefetch_row(x.as_ptr().wrapping_add(at + next), next);
            let idx = &idx[p..p + run];
            if check(idx, a.size).is_err() {
                return bad.store(true, Ordering::Relaxed);
            }
            // SAFETY: ranges are disjoint.
            let out = unsafe { place.slice(p, run) };
            let pairs = out.iter_mut().zip(idx);
            // SAFETY: the index has just been checked, and `check_geometry` has checked that all places that the
            // shape and such indices address lie in `x`.
            let get = |at: usize| unsafe { *x.get_unchecked(at) };
            if step == 0 && along == 1 {
                pairs.for_each(|(o, i)| *o = get(at + *i as usize));
            } else {
                pairs.enumerate().for_each(|(j, (o, i))| *o = get(at + j * step + *i as usize * along));
            }
        });
    });
    if bad.into_inner() { check(idx, a.size) } else { Ok(()) }
}
/// `data[.., idx[p], ..] = f(data[..], src[p])`, in order of `p`. `src` is contiguous with the shape of the indices.
pub fn scatter_with<T: Copy + Send + Sync, S: Copy + Sync>(
    data: &mut [T],
    a: Along,
    idx: &[i64],
    src: &[S],
    f: impl Fn(T, S) -> T + Copy + Sync,
) -> Result<(), IndexError> {
    assert_eq!(src.len(), idx.len(), "scatter: source and index differ in shape");
    a.update(data, idx, move |v, p| {
        // SAFETY: `update` gives positions in the index tensor, which is as long as `src`.
        f(v, unsafe { *src.get_unchecked(p) })
    })
}
/// Sets elements; of several sources for one place the last one stays.
pub fn scatter<T: Copy + Send + Sync>(
    data: &mut [T],
    a: Along,
    idx: &[i64],
    src: &[T],
) -> Result<(), IndexError> {
    scatter_with(data, a, idx, src, |_, s| s)
}
/// Sets elements to one value.
pub fn scatter_value<T: Copy + Send + Sync>(
    data: &mut [T],
    a: Along,
    idx: &[i64],
    value: T,
) -> Result<(), IndexError> {
    a.update(data, idx, move |_, _| value)
}
#[inline(always)]
fn plus<T: Num>(a: T, b: T) -> T {
    T::narrow(a.wide().plus(b.wide()))
}
/// Joins elements in the type that they are computed in.
fn scatter_joined<T: Num>(
    data: &mut [T],
    a: Along,
    idx: &[i64],
    src: &[T],
    rounding: Rounding,
    f: impl Fn(T::Acc, T::Acc) -> T::Acc + Copy + Sync,
) -> Result<(), IndexError> {
    let step = move |x: T::Acc, y: T| f(x, y.wide());
    if rounding == Rounding::Once && is_half::<T>() {
        return widened(data, |data| scatter_with(data, a, idx, src, step));
    }
    scatter_with(data, a, idx, src, move |x: T, y| T::narrow(step(x.wide(), y)))
}
fn is_half<T: Num>() -> bool {
    matches!(T::DTYPE, DType::F16 | DType::BF16)
}
/// Changes data as the type that it is computed in.
fn widened<T: Num>(
    data: &mut [T],
    f: impl FnOnce(&mut [T::Acc]) -> Result<(), IndexError>,
) -> Result<(), IndexError> {
    let mut wide: Vec<T::Acc> = collected(data.iter().map(|x| x.wide()));
    f(&mut wide)?;
    data.iter_mut().zip(wide).for_each(|(d, w)| *d = T::narrow(w));
    Ok(())
}
/// Adds to elements.
pub fn scatter_add<T: Num>(data: &mut [T], a: Along, idx: &[i64], src: &[T]) -> Result<(), IndexError> {
    scatter_joined(data, a, idx, src, Rounding::Once, |x, y| x.plus(y))
}
/// How [`scatter_reduce`] joins the elements of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// Sum.
    Sum,
    /// Product.
    Prod,
    /// Mean; integers round down.
    Mean,
    /// Maximum; NaN wins.
    Amax,
    /// Minimum; NaN wins.
    Amin,
}
/// Joins elements with what is there, or, without `include_self`, only with each other. Untouched places stay.
pub fn scatter_reduce<T: Num + Order>(
    data: &mut [T],
    a: Along,
    idx: &[i64],
    src: &[T],
    op: Reduce,
    include_self: bool,
    rounding: Rounding,
) -> Result<(), IndexError> {
    if !include_self {
        let start = match op {
            Reduce::Sum | Reduce::Mean => T::narrow(T::Acc::ZERO),
            Reduce::Prod => T::narrow(T::Acc::ONE),
            Reduce::Amax => T::LOW,
            Reduce::Amin => T::HIGH,
        };
        scatter_value(data, a, idx, start)?;
    }
    match op {
        Reduce::Sum => scatter_joined(data, a, idx, src, rounding, |x, y| x.plus(y)),
        Reduce::Prod => scatter_joined(data, a, idx, src, rounding, |x, y| x.times(y)),
        Reduce::Amax => {
            scatter_with(data, a, idx, src, |x, y| if !x.nan() && y.beats_max(x) { y } else { x })
        }
        Reduce::Amin => {
            scatter_with(data, a, idx, src, |x, y| if !x.nan() && y.beats_min(x) { y } else { x })
        }
        Reduce::Mean => {
            scatter_joined(data, a, idx, src, rounding, |x, y| x.plus(y))?;
            let mut counts = filled(include_self as u32, data.len());
            a.each(idx, 0..idx.len(), |_, at| counts[at] += 1);
            for (v, c) in data.iter_mut().zip(counts) {
                if c > include_self as u32 {
                    *v = if T::DTYPE.is_integral(true) {
                        // Division that rounds down: the remainder's sign tells whether truncation went up.
                        let (w, c) = (*v, c as usize);
                        let q = w.wide().div_count(c);
                        let back = (0..c).fold(T::Acc::ZERO, |s, _| s.plus(q));
                        let down = w.parts().0 < 0.0 && back != w.wide();
                        T::narrow(if down { q.minus(T::Acc::ONE) } else { q })
                    } else {
                        T::narrow(v.wide().div_count(c as usize))
                    };
                }
            }
            Ok(())
        }
    }
}

/// `data[o, idx[k], i] = f(data[..], src[o, k, i])`, in order of `k`: `data` is viewed by `g`, `src` is contiguous
/// `[outer, idx.len(), inner]`.
pub fn index_with<T: Copy, S: Copy>(
    data: &mut [T],
    g: Geo,
    idx: &[i64],
    src: &[S],
    f: impl Fn(T, S) -> T,
) -> Result<(), IndexError> {
    check(idx, g.n)?;
    g.check(data.len(), g.rows());
    assert_eq!(
        src.len(),
        span::product([g.outer, g.inner, idx.len()]),
        "the source has a wrong number of elements"
    );
    if src.is_empty() {
        return Ok(());
    }
    for (p, s) in src.chunks_exact(g.inner).enumerate() {
        let base = p / idx.len() * g.os as usize + idx[p % idx.len()] as usize * g.ns as usize;
        if g.is == 1 {
            data[base..][..g.inner].iter_mut().zip(s).for_each(|(d, s)| *d = f(*d, *s));
        } else {
            s.iter().enumerate().for_each(|(i, s)| {
                let d = &mut data[base + i * g.is as usize];
                *d = f(*d, *s);
            });
        }
    }
    Ok(())
}
/// Where halves that meet in one place are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Once for each place.
    Once,
    /// After each source.
    Sums,
    /// After each source, and the factor and its product as well.
    Steps,
}
/// Adds `alpha * src` at the indices.
pub fn index_add<T: Num>(
    data: &mut [T],
    g: Geo,
    idx: &[i64],
    src: &[T],
    alpha: T::Acc,
    rounding: Rounding,
) -> Result<(), IndexError> {
    let one = alpha == T::Acc::ONE;
    let term = move |s: T| if one { s.wide() } else { s.wide().times(alpha) };
    match rounding {
        Rounding::Once if is_half::<T>() => {
            widened(data, |data| index_with(data, g, idx, src, |d, s: T| d.plus(term(s))))
        }
        Rounding::Steps => {
            let alpha = T::narrow(alpha).wide();
            index_with(data, g, idx, src, |d: T, s: T| {
                let s = if one { s } else { T::narrow(s.wide().times(alpha)) };
                T::narrow(d.wide().plus(s.wide()))
            })
        }
        _ => index_with(data, g, idx, src, |d: T, s: T| T::narrow(d.wide().plus(term(s)))),
    }
}
/// Sets elements at the indices.
pub fn index_copy<T: Copy>(data: &mut [T], g: Geo, idx: &[i64], src: &[T]) -> Result<(), IndexError> {
    index_with(data, g, idx, src, |_, s| s)
}
/// Sets elements at the indices to one value. Negative indices count from the end.
pub fn index_fill<T: Copy>(data: &mut [T], g: Geo, idx: &[i64], value: T) -> Result<(), IndexError> {
    g.check(data.len(), g.rows());
    let at = offsets(&[(idx, g.n, g.ns as usize)], idx.len())?;
    for o in 0..g.outer {
        for k in &at {
            (0..g.inner).for_each(|i| data[o * g.os as usize + k + i * g.is as usize] = value);
        }
    }
    Ok(())
}

/// Offsets of `m` positions: for each indexed dimension its indices (`m` of them, or 1 for all), size and stride.
/// Negative indices count from the end.
pub fn offsets(dims: &[(&[i64], usize, usize)], m: usize) -> Result<Vec<usize>, IndexError> {
    let mut out = filled(0, m);
    for (idx, size, stride) in dims {
        assert!(idx.len() == m || idx.len() == 1, "index tensors differ in length");
        let wrap = |i: i64| {
            let w = if i < 0 { i.wrapping_add(*size as i64) } else { i };
            if w as u64 >= *size as u64 {
                Err(IndexError { index: i, size: *size })
            } else {
                Ok(w as usize * stride)
            }
        };
        if idx.len() == 1 && m != 1 {
            if m > 0 {
                let w = wrap(idx[0])?;
                out.iter_mut().for_each(|o| *o += w);
            }
        } else {
            for (o, i) in out.iter_mut().zip(*idx) {
                *o += wrap(*i)?;
            }
        }
    }
    Ok(out)
}
/// What lies behind each position of an advanced index.
#[derive(Clone, Copy, Debug)]
pub enum Inner<'a> {
    /// That many neighbouring elements.
    Contiguous(usize),
    /// Elements at these offsets.
    Offsets(&'a [usize]),
}
impl Inner<'_> {
    fn len(&self) -> usize {
        match self {
            Inner::Contiguous(n) => *n,
            Inner::Offsets(o) => o.len(),
        }
    }
}
/// Advanced indexing: `out[p, i] = x[at[p] + inner(i)]`, with `at` from [`offsets`].
pub fn index<T: Copy + Send + Sync>(x: &[T], at: &[usize], inner: Inner, out: &mut [T]) {
    let n = inner.len();
    assert_eq!(out.len(), span::product([at.len(), n]), "index: a wrong number of results");
    let place = SharedMut::new(out);
    parallel_for(at.len(), (GRAIN / 4 / n.max(1)).max(1), |r| {
        // SAFETY: ranges are disjoint.
        let out = unsafe { place.slice(r.start * n, r.len() * n) };
        match inner {
            Inner::Contiguous(0) => {}
            Inner::Contiguous(1) => out.iter_mut().zip(&at[r]).for_each(|(o, a)| *o = x[*a]),
            Inner::Contiguous(_) => {
                out.chunks_exact_mut(n).zip(&at[r]).for_each(|(o, a)| o.copy_from_slice(&x[*a..][..n]))
            }
            Inner::Offsets([]) => {}
            Inner::Offsets(offs) => out.chunks_exact_mut(n).zip(&at[r]).for_each(|(o, a)| {
                o.iter_mut().zip(offs).for_each(|(o, i)| *o = x[*a + *i]);
            }),
        }
    });
}
/// Advanced assignment, in order: `data[at[p] + inner(i)] = f(data[..], src[p, i])`. Pass `|_, s| s` to set.
pub fn index_put_with<T: Copy>(data: &mut [T], at: &[usize], inner: Inner, src: &[T], f: impl Fn(T, T) -> T) {
    let n = inner.len();
    assert_eq!(src.len(), span::product([at.len(), n]), "index_put: a wrong number of sources");
    if n == 0 {
        return;
    }
    for (s, a) in src.chunks_exact(n).zip(at) {
        for (i, s) in s.iter().enumerate() {
            let d = &mut data[match inner {
                Inner::Contiguous(_) => *a + i,
                Inner::Offsets(o) => *a + o[i],
            }];
            *d = f(*d, *s);
        }
    }
}
/// Advanced assignment: sets elements (of several sources the last stays).
pub fn index_put<T: Copy>(data: &mut [T], at: &[usize], inner: Inner, src: &[T]) {
    index_put_with(data, at, inner, src, |_, s| s);
}
/// Advanced assignment that adds (`accumulate = true`).
pub fn index_put_add<T: Num>(data: &mut [T], at: &[usize], inner: Inner, src: &[T]) {
    index_put_with(data, at, inner, src, plus);
}
/// `out[p] = x[idx[p]]` in a contiguous tensor seen as one row. Negative indices count from the end.
pub fn take<T: Copy + Send + Sync>(x: &[T], idx: &[i64], out: &mut [T]) -> Result<(), IndexError> {
    index(x, &offsets(&[(idx, x.len(), 1)], idx.len())?, Inner::Contiguous(1), out);
    Ok(())
}
/// `data[idx[p]] = src[p]` in a contiguous tensor seen as one row. Negative indices count from the end.
pub fn put<T: Copy>(data: &mut [T], idx: &[i64], src: &[T]) -> Result<(), IndexError> {
    let at = offsets(&[(idx, data.len(), 1)], idx.len())?;
    index_put(data, &at, Inner::Contiguous(1), src);
    Ok(())
}
/// As [`put`], adding.
pub fn put_add<T: Num>(data: &mut [T], idx: &[i64], src: &[T]) -> Result<(), IndexError> {
    let at = offsets(&[(idx, data.len(), 1)], idx.len())?;
    index_put_add(data, &at, Inner::Contiguous(1), src);
    Ok(())
}

/// Adds the gradient of an embedding lookup to `dw` (`[rows, dim]`): row `idx[p]` gets `dy[p]`, divided by how often the
/// row was looked up with `scale_grad_by_freq`. Lookups of `padding_idx` give nothing.
pub fn embedding_backward<T: Num + Element>(
    dy: &[T],
    idx: &[i64],
    dim: usize,
    padding_idx: Option<usize>,
    scale_grad_by_freq: bool,
    dw: &mut [T],
) -> Result<(), IndexError> {
    let rows = dw.len().checked_div(dim).unwrap_or(0);
    assert_eq!(dy.len(), span::product([idx.len(), dim]), "embedding: a gradient has the wrong length");
    if dim == 0 {
        return Ok(());
    }
    check(idx, rows)?;
    let mut freq = filled(0u32, if scale_grad_by_freq { rows } else { 0 });
    if scale_grad_by_freq {
        idx.iter().for_each(|i| freq[*i as usize] += 1);
    }
    for (dy, i) in dy.chunks_exact(dim).zip(idx) {
        let i = *i as usize;
        if Some(i) == padding_idx {
            continue;
        }
        let w = &mut dw[i * dim..][..dim];
        if scale_grad_by_freq {
            w.iter_mut().zip(dy).for_each(|(w, d)| {
                *w = T::narrow(w.wide().plus(d.wide().div_count(freq[i] as usize)));
            });
        } else {
            w.iter_mut().zip(dy).for_each(|(w, d)| *w = plus(*w, *d));
        }
    }
    Ok(())
}
