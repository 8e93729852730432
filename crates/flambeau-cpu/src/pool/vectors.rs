//! Max pooling of f32 planes with AVX-512 or AVX2: neighbouring windows side by side.

use super::PoolShape;
use crate::conv::Packing;
use crate::engine::isa::{Level, level};

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

    /// [`max`] with AVX2, eight windows side by side.
    #[target_feature(enable = "avx2")]
    pub(super) fn max_avx2(
        s: &PoolShape,
        p: &Packing,
        x: &[f32],
        places: &[i32],
        y: &mut [f32],
        index: &mut [i64],
    ) {
        const N: usize = 8;
        let ow = s.output[2];
        let steps = _mm256_mullo_epi32(
            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
            _mm256_set1_epi32(s.stride[2] as i32),
        );
        for (r, (y, index)) in y.chunks_exact_mut(ow).zip(index.chunks_exact_mut(ow)).enumerate() {
            let (d, h) = (r / s.output[1], r % s.output[1]);
            let row = &x[p.row(d * s.stride[0], h * s.stride[1])..];
            for (j, (y, index)) in y.chunks_mut(N).zip(index.chunks_mut(N)).enumerate() {
                let mut best = _mm256_set1_ps(f32::NEG_INFINITY);
                let mut place = _mm256_castsi256_ps(_mm256_set1_epi32(NONE));
                for (tap, at) in p.taps.iter().zip(places) {
                    let x = &row[j * N + tap..j * N + tap + N];
                    // SAFETY: `x` has N elements.
                    let x = unsafe { _mm256_loadu_ps(x.as_ptr()) };
                    let unordered = _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x);
                    let take = _mm256_or_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(x, best), unordered);
                    best = _mm256_blendv_ps(best, x, take);
                    place = _mm256_blendv_ps(place, _mm256_castsi256_ps(_mm256_set1_epi32(*at)), take);
                }
                let place = _mm256_castps_si256(place);
                let none = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(
                    place,
                    _mm256_set1_epi32(NONE),
                )));
                let start = _mm256_set1_epi64x(s.start(d, h, j * N));
                let (mut values, mut at) = ([0.0f32; N], [0i64; N]);
                let halves = [
                    (_mm256_castsi256_si128(place), _mm256_castsi256_si128(steps)),
                    (_mm256_extracti128_si256::<1>(place), _mm256_extracti128_si256::<1>(steps)),
                ];
                for (at, (place, step)) in at.chunks_exact_mut(4).zip(halves) {
                    let all = _mm256_add_epi64(_mm256_cvtepi32_epi64(place), _mm256_cvtepi32_epi64(step));
                    // SAFETY: four integers.
                    unsafe { _mm256_storeu_si256(at.as_mut_ptr().cast(), _mm256_add_epi64(all, start)) };
                }
                // SAFETY: N values.
                unsafe { _mm256_storeu_ps(values.as_mut_ptr(), best) };
                y.copy_from_slice(&values[..y.len()]);
                index.copy_from_slice(&at[..index.len()]);
                if none != 0 {
                    for (l, index) in index.iter_mut().enumerate().filter(|(l, _)| none >> l & 1 != 0) {
                        *index = s.first_of(d, h, j * N + l);
                    }
                }
            }
        }
    }
}

/// Whether this machine has the instructions.
pub(super) fn available() -> bool {
    cfg!(target_arch = "x86_64") && level() >= Level::V3
}

/// Results and indices of one plane from its packed copy.
pub(super) fn max(s: &PoolShape, p: &Packing, x: &[f32], places: &[i32], y: &mut [f32], index: &mut [i64]) {
    assert!(available(), "max pooling: no vectors");
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the machine has AVX2 at least.
    unsafe {
        if level() >= Level::V4 {
            x86::max(s, p, x, places, y, index);
        } else {
            x86::max_avx2(s, p, x, places, y, index);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (s, p, x, places, y, index);
}
