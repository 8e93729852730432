//! f32 planes of depthwise convolutions with AVX-512: several vectors, or several taps, side by side, since a sum alone
//! waits for each of its terms.

use crate::blas::unpacked::available;
use crate::conv::packing::{L, Packing};
use crate::conv::shape::ConvShape;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{ConvShape, L, Packing};
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

    /// `N` vectors of neighbouring results.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn vectors<const N: usize>(taps: &[usize], w: &[f32], bias: f32, row: &[f32], y: &mut [f32]) {
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
    pub(super) fn forward(s: &ConvShape, p: &Packing, x: &[f32], w: &[f32], bias: f32, y: &mut [f32]) {
        for (r, y) in y.chunks_exact_mut(s.output[2]).enumerate() {
            let (d, h) = (r / s.output[1] * s.stride[0], r % s.output[1] * s.stride[1]);
            let row = &x[p.row(d, h)..];
            for (j, y) in y.chunks_mut(4 * L).enumerate() {
                let row = &row[j * 4 * L..];
                match y.len().div_ceil(L) {
                    1 => vectors::<1>(&p.taps, w, bias, row, y),
                    2 => vectors::<2>(&p.taps, w, bias, row, y),
                    3 => vectors::<3>(&p.taps, w, bias, row, y),
                    _ => vectors::<4>(&p.taps, w, bias, row, y),
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

/// The results of one plane from its packed copy; false if they have to be computed otherwise.
pub(super) fn forward(s: &ConvShape, p: &Packing, x: &[f32], w: &[f32], bias: f32, y: &mut [f32]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if available() {
        // SAFETY: the machine has AVX-512.
        unsafe { x86::forward(s, p, x, w, bias, y) };
        return true;
    }
    let _ = (s, p, x, w, bias, y);
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
