//! f32 planes of depthwise convolutions with AVX-512: several vectors, or several taps, side by side, since a sum alone
//! waits for each of its terms.

use crate::conv::packing::{L, Packing};
use crate::conv::shape::ConvShape;
use crate::engine::isa::{Level, level};
use crate::engine::room::room;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{ConvShape, L, Packing, SIDE_BY_SIDE, Vector, Vectors, start};
    use std::arch::x86_64::*;

    /// Lanes of a vector of which `n` are left.
    #[inline(always)]
    fn mask(n: usize) -> __mmask16 {
        (u32::MAX >> (32 - n.min(L))) as __mmask16
    }
    /// The first lanes of `x`, zeros behind them.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(x: &[f32], n: usize) -> __m512 {
        let x = &x[..n.min(L)];
        // SAFETY: the mask ends at the end of `x`.
        unsafe { _mm512_maskz_loadu_ps(mask(n), x.as_ptr()) }
    }

    /// `N` vectors of results, which share each tap's weight.
    ///
    /// # Safety
    /// From each vector's place on, all taps find a whole vector in `x`, and `y` has its results.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn vectors<const N: usize>(
        taps: &[usize],
        w: &[f32],
        bias: f32,
        places: &[Vector],
        x: *const f32,
        y: *mut f32,
    ) {
        let mut acc = [_mm512_set1_ps(bias); N];
        let from: [_; N] = std::array::from_fn(|n| x.wrapping_add(places[n].from));
        for (w, tap) in w.iter().zip(taps) {
            let w = _mm512_set1_ps(*w);
            for n in 0..N {
                // SAFETY: the caller's promise.
                let x = unsafe { _mm512_loadu_ps(from[n].add(*tap)) };
                acc[n] = _mm512_fmadd_ps(x, w, acc[n]);
            }
        }
        for (place, acc) in places.iter().zip(acc) {
            // SAFETY: the caller's promise; the mask ends at the last result.
            unsafe { _mm512_mask_storeu_ps(y.wrapping_add(place.to), mask(place.n), acc) };
        }
    }
    #[target_feature(enable = "avx512f")]
    pub(super) fn forward(
        s: &ConvShape,
        p: &Packing,
        vectors_of: &Vectors,
        x: &[f32],
        w: &[f32],
        bias: f32,
        y: &mut [f32],
    ) {
        if vectors_of.long {
            return long_rows(s, p, x, w, bias, y);
        }
        let furthest = p.taps.iter().max().map_or(0, |t| t + L);
        assert!(vectors_of.from + furthest <= x.len() && vectors_of.to <= y.len());
        let (x, y) = (x.as_ptr(), y.as_mut_ptr());
        let together = |v: &[Vector]| {
            // SAFETY: the furthest places were just checked.
            unsafe {
                match v.len() {
                    8 => vectors::<8>(&p.taps, w, bias, v, x, y),
                    7 => vectors::<7>(&p.taps, w, bias, v, x, y),
                    6 => vectors::<6>(&p.taps, w, bias, v, x, y),
                    5 => vectors::<5>(&p.taps, w, bias, v, x, y),
                    4 => vectors::<4>(&p.taps, w, bias, v, x, y),
                    3 => vectors::<3>(&p.taps, w, bias, v, x, y),
                    2 => vectors::<2>(&p.taps, w, bias, v, x, y),
                    _ => vectors::<1>(&p.taps, w, bias, v, x, y),
                }
            }
        };
        vectors_of.short.chunks(SIDE_BY_SIDE).for_each(together);
    }
    /// Neighbouring vectors of a long row have one address but for what is constant.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn neighbours<const N: usize>(taps: &[usize], w: &[f32], bias: f32, row: &[f32], y: &mut [f32]) {
        let mut acc = [_mm512_set1_ps(bias); N];
        for (w, tap) in w.iter().zip(taps) {
            let (x, w) = (&row[*tap..*tap + N * L], _mm512_set1_ps(*w));
            for n in 0..N {
                // SAFETY: `x` has N vectors.
                let x = unsafe { _mm512_loadu_ps(x.as_ptr().add(n * L)) };
                acc[n] = _mm512_fmadd_ps(x, w, acc[n]);
            }
        }
        for (y, acc) in y.chunks_mut(L).zip(acc) {
            // SAFETY: the mask ends at the end of `y`.
            unsafe { _mm512_mask_storeu_ps(y.as_mut_ptr(), mask(y.len()), acc) };
        }
    }
    #[target_feature(enable = "avx512f")]
    fn long_rows(s: &ConvShape, p: &Packing, x: &[f32], w: &[f32], bias: f32, y: &mut [f32]) {
        for (r, y) in y.chunks_exact_mut(s.output[2]).enumerate() {
            let row = &x[start(s, p, r)..];
            for (j, y) in y.chunks_mut(4 * L).enumerate() {
                let row = &row[j * 4 * L..];
                match y.len().div_ceil(L) {
                    1 => neighbours::<1>(&p.taps, w, bias, row, y),
                    2 => neighbours::<2>(&p.taps, w, bias, row, y),
                    3 => neighbours::<3>(&p.taps, w, bias, row, y),
                    _ => neighbours::<4>(&p.taps, w, bias, row, y),
                }
            }
        }
    }

    /// Adds the sums of `N` taps.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn sums<const N: usize>(
        s: &ConvShape,
        p: &Packing,
        taps: &[usize],
        x: &[f32],
        gy: &[f32],
        gw: &mut [f32],
    ) {
        let mut acc = [_mm512_setzero_ps(); N];
        let taps: [usize; N] = std::array::from_fn(|n| taps[n]);
        for (r, gy) in gy.chunks_exact(s.output[2]).enumerate() {
            let (d, h) = (r / s.output[1] * s.stride[0], r % s.output[1] * s.stride[1]);
            let row = &x[p.row(d, h)..];
            for j in (0..gy.len()).step_by(L) {
                let left = gy.len() - j;
                let g = load(&gy[j..], left);
                for n in 0..N {
                    // lanes behind the end are 0 on both sides: what lies there may be infinite
                    acc[n] = _mm512_fmadd_ps(g, load(&row[taps[n] + j..], left), acc[n]);
                }
            }
        }
        for (gw, acc) in gw.iter_mut().zip(acc) {
            *gw += _mm512_reduce_add_ps(acc);
        }
    }
    #[target_feature(enable = "avx512f")]
    pub(super) fn weight(s: &ConvShape, p: &Packing, x: &[f32], gy: &[f32], gw: &mut [f32]) {
        let mut at = 0;
        while at < gw.len() {
            let (taps, gw) = (&p.taps[at..], &mut gw[at..]);
            at += match taps.len() {
                9.. => {
                    sums::<9>(s, p, taps, x, gy, gw);
                    9
                }
                3.. => {
                    sums::<3>(s, p, taps, x, gy, gw);
                    3
                }
                _ => {
                    sums::<1>(s, p, taps, x, gy, gw);
                    1
                }
            };
        }
    }
}

/// Whether this machine has the instructions.
fn available() -> bool {
    cfg!(target_arch = "x86_64") && level() >= Level::V4
}

/// Vectors of short rows that are computed side by side: enough to hide the latency of a multiply-add.
const SIDE_BY_SIDE: usize = 8;
/// Columns of a row that is long enough to hide it by itself.
const LONG: usize = 3 * L + 1;

/// A vector of neighbouring results: its place in the packed copy and in the plane, and how many there are.
#[derive(Clone, Copy)]
struct Vector {
    from: usize,
    to: usize,
    n: usize,
}
/// Where the first window of output row `r` starts in the packed copy.
#[inline(always)]
fn start(s: &ConvShape, p: &Packing, r: usize) -> usize {
    p.row(r / s.output[1] * s.stride[0], r % s.output[1] * s.stride[1])
}

/// The vectors of a plane of short rows, or that its rows are long; and the furthest place and result of those.
pub(super) struct Vectors {
    short: Vec<Vector>,
    long: bool,
    from: usize,
    to: usize,
}
impl Vectors {
    pub(super) fn new(s: &ConvShape, p: &Packing) -> Self {
        let [od, oh, width] = s.output;
        let long = width >= LONG;
        let rows = if available() && !long { od * oh } else { 0 };
        let mut short = room(rows * width.div_ceil(L));
        for r in 0..rows {
            let from = start(s, p, r);
            let each = |j: usize| Vector { from: from + j, to: r * width + j, n: L.min(width - j) };
            short.extend((0..width).step_by(L).map(each));
        }
        let last = rows.checked_sub(1).map_or(0, |r| start(s, p, r));
        let from = last + width.saturating_sub(1) / L * L;
        Vectors { short, long, from, to: rows * width }
    }
}

/// The results of one plane from its packed copy; false if they have to be computed otherwise.
pub(super) fn forward(
    s: &ConvShape,
    p: &Packing,
    v: &Vectors,
    x: &[f32],
    w: &[f32],
    bias: f32,
    y: &mut [f32],
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if available() {
        // SAFETY: the machine has AVX-512.
        unsafe { x86::forward(s, p, v, x, w, bias, y) };
        return true;
    }
    let _ = (s, p, v.long, v.from, v.to, &v.short, x, w, bias, y);
    false
}

/// Adds one plane's gradient of the weight; false if it has to be computed otherwise.
pub(super) fn weight(s: &ConvShape, p: &Packing, x: &[f32], gy: &[f32], gw: &mut [f32]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if available() {
        // SAFETY: the machine has AVX-512.
        unsafe { x86::weight(s, p, x, gy, gw) };
        return true;
    }
    let _ = (s, p, x, gy, gw);
    false
}
