//! f32 planes of depthwise convolutions with AVX-512 whose input is read where it lies: masks stand for the border, so that nothing
//! is copied. With stride 1 each row that is read goes to all results that see it, whose sums wait in registers.

use crate::blas::unpacked::available;
use crate::conv::shape::ConvShape;

/// Lanes of a vector.
const L: usize = 16;

/// Sizes of planes that are computed here.
pub(super) struct Plan {
    kernel: usize,
    stride: usize,
    /// Rows and columns.
    pad: [usize; 2],
    input: [usize; 2],
    output: [usize; 2],
}
impl Plan {
    /// `None` where planes are computed otherwise.
    pub(super) fn new(s: &ConvShape) -> Option<Self> {
        let [kd, kh, kw] = s.kernel;
        let flat = kd == 1 && s.input[0] == 1 && s.output[0] == 1 && s.pad[0] == 0;
        let square = kh == kw && matches!(kh, 3 | 5 | 7) && s.stride[1] == s.stride[2] && s.stride[1] <= 2;
        let near = s.dilation == [1; 3] && s.pad[1] < kh && s.pad[2] < kw;
        let two = |v: [usize; 3]| [v[1], v[2]];
        (available() && flat && square && near && s.in_plane() > 0).then(|| Plan {
            kernel: kh,
            stride: s.stride[1],
            pad: two(s.pad),
            input: two(s.input),
            output: two(s.output),
        })
    }
    /// The results of one plane.
    pub(super) fn run(&self, x: &[f32], w: &[f32], bias: f32, y: &mut [f32]) {
        let [[h, width], [oh, ow]] = [self.input, self.output];
        assert!(x.len() == h * width && y.len() == oh * ow && w.len() == self.kernel * self.kernel);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `new` has asked for AVX-512; the lengths were just checked.
        unsafe {
            x86::run(self, x, w, bias, y)
        };
        #[cfg(not(target_arch = "x86_64"))]
        let _ = bias;
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{L, Plan};
    use std::arch::x86_64::*;

    /// The lanes `l` of a vector whose column `first + l` is one of `n`.
    #[inline(always)]
    fn inside(first: isize, n: usize) -> __mmask16 {
        let lanes = |n: isize| ((1u32 << n.clamp(0, L as isize)) - 1) as __mmask16;
        lanes(n as isize - first) & !lanes(-first)
    }

    /// # Safety
    /// The machine has AVX-512; all lengths are those of the plan.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn run(p: &Plan, x: &[f32], w: &[f32], bias: f32, y: &mut [f32]) {
        macro_rules! by_kernel {
            ($f:ident) => {
                // SAFETY: the caller's promise, and the kernel is that of the plan.
                unsafe {
                    match p.kernel {
                        3 => $f::<3>(p, x, w, bias, y),
                        5 => $f::<5>(p, x, w, bias, y),
                        _ => $f::<7>(p, x, w, bias, y),
                    }
                }
            };
        }
        if p.stride == 1 { by_kernel!(by_rows) } else { by_kernel!(by_results) }
    }

    /// Stride 1.
    ///
    /// # Safety
    /// As [`run`], with a kernel of `K`.
    #[target_feature(enable = "avx512f")]
    unsafe fn by_rows<const K: usize>(p: &Plan, x: &[f32], w: &[f32], bias: f32, y: &mut [f32]) {
        let mut first = 0;
        while first < p.output[1] {
            let vectors = (p.output[1] - first).div_ceil(L);
            // SAFETY: the caller's promise.
            first += L * unsafe {
                match vectors {
                    1 => columns::<K, 1>(p, x, w, bias, first, y),
                    2 => columns::<K, 2>(p, x, w, bias, first, y),
                    3 if K < 7 => columns::<K, 3>(p, x, w, bias, first, y),
                    _ if K < 7 => columns::<K, 4>(p, x, w, bias, first, y),
                    _ => columns::<K, 2>(p, x, w, bias, first, y),
                }
            };
        }
    }
    /// `N` vectors of each row, from the column `first` on; gives N.
    ///
    /// # Safety
    /// As [`by_rows`].
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn columns<const K: usize, const N: usize>(
        p: &Plan,
        x: &[f32],
        w: &[f32],
        bias: f32,
        first: usize,
        y: &mut [f32],
    ) -> usize {
        let ([h, width], [oh, ow]) = (p.input, p.output);
        let start = first as isize - p.pad[1] as isize;
        let mut seen = [[0; N]; K];
        let mut stored = [0; N];
        for n in 0..N {
            for (k, seen) in seen.iter_mut().enumerate() {
                seen[n] = inside(start + (n * L + k) as isize, width);
            }
            stored[n] = inside((first + n * L) as isize, ow);
        }
        let mut taps = [[_mm512_setzero_ps(); K]; K];
        for (t, w) in taps.as_flattened_mut().iter_mut().zip(w) {
            *t = _mm512_set1_ps(*w);
        }
        let bias = _mm512_set1_ps(bias);
        // the sums of the results that see the present row, the oldest first
        let mut sums = [[bias; N]; K];
        let mut store = |o: isize, sums: &[__m512; N]| {
            if o >= 0 && (o as usize) < oh {
                let to = y.as_mut_ptr().wrapping_add(o as usize * ow + first);
                for n in 0..N {
                    // SAFETY: the mask ends at the end of row `o`.
                    unsafe { _mm512_mask_storeu_ps(to.wrapping_add(n * L), stored[n], sums[n]) };
                }
            }
        };
        let oldest = |r: usize| (r + p.pad[0]) as isize - (K - 1) as isize;
        for r in 0..h {
            let row = x.as_ptr().wrapping_add(r * width).wrapping_offset(start);
            for k in 0..K {
                for n in 0..N {
                    // SAFETY: the mask leaves columns of row `r`.
                    let v = unsafe { _mm512_maskz_loadu_ps(seen[k][n], row.wrapping_add(n * L + k)) };
                    for i in 0..K {
                        sums[i][n] = _mm512_fmadd_ps(v, taps[K - 1 - i][k], sums[i][n]);
                    }
                }
            }
            store(oldest(r), &sums[0]);
            for i in 1..K {
                sums[i - 1] = sums[i];
            }
            sums[K - 1] = [bias; N];
        }
        for (i, sums) in sums.iter().enumerate().take(K - 1) {
            store(oldest(h) + i as isize, sums);
        }
        N
    }

    /// Stride 2.
    ///
    /// # Safety
    /// As [`run`], with a kernel of `K`.
    #[target_feature(enable = "avx512f")]
    unsafe fn by_results<const K: usize>(p: &Plan, x: &[f32], w: &[f32], bias: f32, y: &mut [f32]) {
        let ([h, width], [oh, ow]) = (p.input, p.output);
        let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        let odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
        let mut taps = [[_mm512_setzero_ps(); K]; K];
        for (t, w) in taps.as_flattened_mut().iter_mut().zip(w) {
            *t = _mm512_set1_ps(*w);
        }
        for first in (0..ow).step_by(L) {
            let start = 2 * first as isize - p.pad[1] as isize;
            let stored = inside(first as isize, ow);
            // two vectors for each pair of taps
            let mut seen = [[0; 2]; K];
            for (k, seen) in seen.iter_mut().enumerate() {
                *seen = [0, L].map(|half| inside(start + (k + half) as isize, width));
            }
            for o in 0..oh {
                let mut sum = _mm512_set1_ps(bias);
                for (i, taps) in taps.iter().enumerate() {
                    let r = (2 * o + i).wrapping_sub(p.pad[0]);
                    if r >= h {
                        continue;
                    }
                    let row = x.as_ptr().wrapping_add(r * width).wrapping_offset(start);
                    for k in (0..K).step_by(2) {
                        let from = row.wrapping_add(k);
                        // SAFETY: the masks leave columns of row `r`.
                        let (a, b) = unsafe {
                            (
                                _mm512_maskz_loadu_ps(seen[k][0], from),
                                _mm512_maskz_loadu_ps(seen[k][1], from.wrapping_add(L)),
                            )
                        };
                        sum = _mm512_fmadd_ps(_mm512_permutex2var_ps(a, even, b), taps[k], sum);
                        if k + 1 < K {
                            sum = _mm512_fmadd_ps(_mm512_permutex2var_ps(a, odd, b), taps[k + 1], sum);
                        }
                    }
                }
                // SAFETY: the mask ends at the end of row `o`.
                unsafe { _mm512_mask_storeu_ps(y.as_mut_ptr().wrapping_add(o * ow + first), stored, sum) };
            }
        }
    }
}
