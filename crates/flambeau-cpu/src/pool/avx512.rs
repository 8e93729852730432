//! Max pooling of f32 planes with AVX-512: neighbouring windows side by side.

use super::PoolShape;
pub(super) use crate::blas::unpacked::available;
use crate::conv::Packing;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Packing, PoolShape};
    use crate::conv::LANES as L;
    use std::arch::x86_64::*;

    /// No element was above the lowest value.
    const NONE: i32 = i32::MAX;

    #[target_feature(enable = "avx512f")]
    pub(super) fn max(
        s: &PoolShape,
        p: &Packing,
        x: &[f32],
        places: &[i32],
        y: &mut [f32],
        index: &mut [i64],
    ) {
        let ow = s.output[2];
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let steps = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(s.stride[2] as i32));
        for (r, (y, index)) in y.chunks_exact_mut(ow).zip(index.chunks_exact_mut(ow)).enumerate() {
            let (d, h) = (r / s.output[1], r % s.output[1]);
            let row = &x[p.row(d * s.stride[0], h * s.stride[1])..];
            for (j, (y, index)) in y.chunks_mut(L).zip(index.chunks_mut(L)).enumerate() {
                let mut best = _mm512_set1_ps(f32::NEG_INFINITY);
                let mut place = _mm512_set1_epi32(NONE);
                for (tap, at) in p.taps.iter().zip(places) {
                    let x = &row[j * L + tap..j * L + tap + L];
                    // SAFETY: `x` has L elements.
                    let x = unsafe { _mm512_loadu_ps(x.as_ptr()) };
                    let above = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(x, best);
                    let take = above | _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
                    best = _mm512_mask_mov_ps(best, take, x);
                    place = _mm512_mask_mov_epi32(place, take, _mm512_set1_epi32(*at));
                }
                let mask = (u32::MAX >> (32 - y.len())) as __mmask16;
                let none = _mm512_cmpeq_epi32_mask(place, _mm512_set1_epi32(NONE)) & mask;
                let start = _mm512_set1_epi64(s.start(d, h, j * L));
                let place = [
                    (_mm512_castsi512_si256(place), _mm512_castsi512_si256(steps)),
                    (_mm512_extracti64x4_epi64::<1>(place), _mm512_extracti64x4_epi64::<1>(steps)),
                ];
                let place = place.map(|(p, s)| (_mm512_cvtepi32_epi64(p), _mm512_cvtepi32_epi64(s)));
                // SAFETY: the masks end at the ends of the slices.
                unsafe {
                    _mm512_mask_storeu_ps(y.as_mut_ptr(), mask, best);
                    let [a, b] = [place[0], place[1]];
                    let a = _mm512_add_epi64(_mm512_add_epi64(a.0, a.1), start);
                    let b = _mm512_add_epi64(_mm512_add_epi64(b.0, b.1), start);
                    _mm512_mask_storeu_epi64(index.as_mut_ptr(), mask as __mmask8, a);
                    let to = index.as_mut_ptr().wrapping_add(L / 2);
                    _mm512_mask_storeu_epi64(to, (mask >> (L / 2)) as __mmask8, b);
                }
                if none != 0 {
                    for (l, index) in index.iter_mut().enumerate().filter(|(l, _)| none >> l & 1 != 0) {
                        *index = s.first_of(d, h, j * L + l);
                    }
                }
            }
        }
    }
}

/// Results and indices of one plane from its packed copy.
pub(super) fn max(s: &PoolShape, p: &Packing, x: &[f32], places: &[i32], y: &mut [f32], index: &mut [i64]) {
    assert!(available(), "max pooling: no AVX-512");
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the machine has AVX-512.
    unsafe {
        x86::max(s, p, x, places, y, index);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (s, p, x, places, y, index);
}
