//! Extremes with their places: the first occurrence, where the first NaN counts as the extreme.

use super::fold::{Fold, Geo, fold};
use crate::engine::SharedMut;
use crate::engine::isa::Isa;
use crate::num::Order;

struct Arg<const MAX: bool>;

#[inline(always)]
fn beats<T: Order, const MAX: bool>(a: T, b: T) -> bool {
    if MAX { a.beats_max(b) } else { a.beats_min(b) }
}

impl<T: Order, const MAX: bool> Fold<T> for Arg<MAX> {
    /// Value and index; the index -1 marks "nothing yet".
    type Acc = (T, i64);
    #[inline(always)]
    fn init(&self) -> (T, i64) {
        (if MAX { T::LOW } else { T::HIGH }, -1)
    }
    #[inline(always)]
    fn join(&self, a: (T, i64), b: (T, i64)) -> (T, i64) {
        if a.1 < 0 || (b.1 >= 0 && !a.0.nan() && beats::<T, MAX>(b.0, a.0)) { b } else { a }
    }
    #[inline(always)]
    fn row<I: Isa>(&self, x: &[T], k0: usize) -> (T, i64) {
        const L: usize = 64;
        // The extreme first, without places: that vectorises. Then its place.
        let start = if MAX { T::LOW } else { T::HIGH };
        let mut l = [start; L];
        let (blocks, rest) = x.as_chunks::<L>();
        for c in blocks {
            for j in 0..L {
                l[j] = if beats::<T, MAX>(c[j], l[j]) { c[j] } else { l[j] };
            }
        }
        let best = rest.iter().chain(&l).fold(start, |a, v| if beats::<T, MAX>(*v, a) { *v } else { a });
        let hit = |v: T| if best.nan() { v.nan() } else { v == best };
        let mut at = 0;
        for c in blocks {
            if c.iter().fold(false, |a, v| a | hit(*v)) {
                break;
            }
            at += L;
        }
        let at = at + x[at..].iter().position(|v| hit(*v)).unwrap_or(0);
        (x.get(at).copied().unwrap_or(start), (k0 + at) as i64)
    }
    #[inline(always)]
    fn cols<I: Isa>(&self, x: &[T], rows: usize, stride: usize, k0: usize, acc: &mut [(T, i64)]) {
        const W: usize = 64;
        let w = acc.len();
        let mut j0 = 0;
        while j0 < w {
            let c = W.min(w - j0);
            let mut v = [T::LOW; W];
            let mut at = [k0 as i64; W];
            v[..c].copy_from_slice(&x[j0..][..c]);
            for r in 1..rows {
                let a = &x[r * stride + j0..][..c];
                let k = (k0 + r) as i64;
                for j in 0..c {
                    let better = !v[j].nan() & beats::<T, MAX>(a[j], v[j]);
                    v[j] = if better { a[j] } else { v[j] };
                    at[j] = if better { k } else { at[j] };
                }
            }
            for j in 0..c {
                acc[j0 + j] = (v[j], at[j]);
            }
            j0 += c;
        }
    }
}

fn both<T: Order, const MAX: bool>(x: &[T], g: Geo, values: Option<&mut [T]>, indices: &mut [i64]) {
    g.check(x.len(), indices.len());
    let values = values.map(|v| {
        g.check(x.len(), v.len());
        SharedMut::new(v)
    });
    let indices = SharedMut::new(indices);
    fold(x, g, &Arg::<MAX>, |row, (v, at)| {
        if let Some(p) = &values {
            // SAFETY: `fold` emits each row once.
            unsafe { p.set(row, v) };
        }
        // SAFETY: as above.
        unsafe { indices.set(row, at) };
    });
}

/// Maximum and its first index of each (non-empty) row.
pub fn max_with_index<T: Order>(x: &[T], g: Geo, values: &mut [T], indices: &mut [i64]) {
    both::<T, true>(x, g, Some(values), indices);
}
/// Minimum and its first index of each (non-empty) row.
pub fn min_with_index<T: Order>(x: &[T], g: Geo, values: &mut [T], indices: &mut [i64]) {
    both::<T, false>(x, g, Some(values), indices);
}
/// First index of the maximum of each (non-empty) row.
pub fn argmax<T: Order>(x: &[T], g: Geo, indices: &mut [i64]) {
    both::<T, true>(x, g, None, indices);
}
/// First index of the minimum of each (non-empty) row.
pub fn argmin<T: Order>(x: &[T], g: Geo, indices: &mut [i64]) {
    both::<T, false>(x, g, None, indices);
}
