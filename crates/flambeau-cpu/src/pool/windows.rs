//! Pooling window by window, for windows that are mostly border: only their positions inside the plane are gone through, so
//! that neither time nor memory follow the padding.

use super::{AvgDivisor, PoolScalar, PoolShape};
use crate::engine::SharedMut;
use crate::engine::parallel::parallel_for;
use crate::engine::scratch::with_scratch;
use crate::num::{Arith, Order};
use std::ops::Range;

/// The input positions of window `o` in dimension `d`: the first, and how many follow at the distance of the dilation.
fn inside(s: &PoolShape, o: usize, d: usize) -> impl Iterator<Item = usize> + Clone {
    let (start, step) = (o * s.stride[d], s.dilation[d]);
    let first = s.pad[d].saturating_sub(start).div_ceil(step);
    let end = (s.input[d] + s.pad[d]).saturating_sub(start).div_ceil(step).min(s.kernel[d]);
    let pad = s.pad[d];
    (first..end.max(first)).map(move |k| start + k * step - pad)
}

/// Calls `f(output position, output row, output column, input positions)` for each window of a plane.
fn each(s: &PoolShape, mut f: impl FnMut(usize, usize, usize, &mut dyn Iterator<Item = usize>)) {
    let ([_, ih, iw], [od, oh, ow]) = (s.input, s.output);
    for (r, (d, h)) in (0..od).flat_map(|d| (0..oh).map(move |h| (d, h))).enumerate() {
        for w in 0..ow {
            let (rows, columns) = (inside(s, h, 1), inside(s, w, 2));
            let mut places = inside(s, d, 0).flat_map(|d| {
                let columns = columns.clone();
                rows.clone().flat_map(move |h| columns.clone().map(move |w| (d * ih + h) * iw + w))
            });
            f(r * ow + w, r, w, &mut places);
        }
    }
}

/// Calls `f` with ranges of planes.
fn planes(s: &PoolShape, f: impl Fn(Range<usize>) + Sync) {
    parallel_for(s.planes, (65_536 / s.in_plane().saturating_add(s.out_plane()).max(1)).max(1), f);
}

/// As [`super::max_pool`].
#[allow(clippy::eq_op)]
pub(super) fn max<T: PoolScalar>(s: &PoolShape, x: &[T], y: &mut [T], index: &mut [i64]) {
    let (ip, op) = (s.in_plane(), s.out_plane());
    let (y, index) = (SharedMut::new(y), SharedMut::new(index));
    planes(s, |r| {
        for p in r {
            let x = &x[p * ip..(p + 1) * ip];
            // SAFETY: plane `p` of both outputs is this index's own.
            let (y, index) = unsafe { (y.slice(p * op, op), index.slice(p * op, op)) };
            each(s, |o, row, w, places| {
                let mut best = T::Compute::LOW;
                let mut place = None;
                for i in places {
                    let v = x[i].up();
                    if v > best || v != v {
                        (best, place) = (v, Some(i as i64));
                    }
                }
                y[o] = T::down(best);
                index[o] = place.unwrap_or_else(|| s.first_of(row / s.output[1], row % s.output[1], w));
            });
        }
    });
}

/// As [`super::avg_pool`].
pub(super) fn average<T: PoolScalar>(s: &PoolShape, div: AvgDivisor, x: &[T], y: &mut [T]) {
    let (ip, op) = (s.in_plane(), s.out_plane());
    let y = SharedMut::new(y);
    planes(s, |r| {
        for p in r {
            let x = &x[p * ip..(p + 1) * ip];
            // SAFETY: plane `p` is this index's own.
            let y = unsafe { y.slice(p * op, op) };
            each(s, |o, row, w, places| {
                let sum = places.fold(T::Compute::ZERO, |a, i| a.plus(x[i].up()));
                y[o] = T::down(sum / T::Compute::count(div.of(s, div.rows(s, row), w)));
            });
        }
    });
}

/// As [`super::avg_pool_backward`].
pub(super) fn average_back<T: PoolScalar>(s: &PoolShape, div: AvgDivisor, grad_y: &[T], grad_x: &mut [T]) {
    let (ip, op) = (s.in_plane(), s.out_plane());
    let out = SharedMut::new(grad_x);
    planes(s, |r| {
        with_scratch::<T::Compute, _>(ip, |acc| {
            for p in r {
                acc.fill(T::Compute::ZERO);
                each(s, |o, row, w, places| {
                    let g = grad_y[p * op + o].up() / T::Compute::count(div.of(s, div.rows(s, row), w));
                    places.for_each(|i| acc[i] = acc[i].plus(g));
                });
                // SAFETY: plane `p` is this index's own.
                let gx = unsafe { out.slice(p * ip, ip) };
                gx.iter_mut().zip(&*acc).for_each(|(g, a)| *g = T::down(*a));
            }
        })
    });
}
