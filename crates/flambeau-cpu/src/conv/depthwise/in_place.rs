//! f32 planes of depthwise convolutions with AVX-512 whose input is read where it lies: masks stand for the border, so that nothing
//! is copied. With stride 1 each row that is read goes to all results that see it, whose sums wait in registers.

use crate::blas::unpacked::available;
use crate::conv::shape::ConvShape;

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
    /// Whether the gradients are computed here too: of large kernels there are too many sums.
    pub(super) fn has_weight(&self) -> bool {
        self.kernel <= 5
    }
    /// Adds one plane's gradient of the weight.
    pub(super) fn weight(&self, x: &[f32], gy: &[f32], gw: &mut [f32]) {
        self.check(x, gy, gw);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `new` has asked for AVX-512; the lengths were just checked.
        unsafe {
            x86::weight(self, x, gy, gw)
        };
    }
    /// Whether the gradient for the input is computed here; with stride 1 it is a convolution.
    pub(super) fn has_input(&self) -> bool {
        self.stride == 2
    }
    /// One plane's gradient for the input, on top of `bias`.
    pub(super) fn input(&self, gy: &[f32], w: &[f32], bias: f32, gx: &mut [f32]) {
        self.check(gx, gy, w);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `new` has asked for AVX-512; the lengths were just checked.
        unsafe {
            x86::input(self, gy, w, bias, gx)
        };
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (bias, self.pad);
    }
    fn check(&self, x: &[f32], y: &[f32], w: &[f32]) {
        let [[h, width], [oh, ow]] = [self.input, self.output];
        assert!(x.len() == h * width && y.len() == oh * ow && w.len() == self.kernel * self.kernel);
    }
    /// The results of one plane.
    pub(super) fn run(&self, x: &[f32], w: &[f32], bias: f32, y: &mut [f32]) {
        self.check(x, y, w);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `new` has asked for AVX-512; the lengths were just checked.
        unsafe {
            x86::run(self, x, w, bias, y)
        };
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (bias, self.pad);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Plan;
    use std::arch::x86_64::*;

    /// Lanes of a vector.
    const L: usize = 16;

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

    /// # Safety
    /// As [`run`]; the kernel is 3 or 5.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn weight(p: &Plan, x: &[f32], gy: &[f32], gw: &mut [f32]) {
        // SAFETY: the caller's promise.
        unsafe {
            match (p.kernel, p.stride) {
                (3, 1) => weight_by_rows::<3>(p, x, gy, gw),
                (_, 1) => weight_by_rows::<5>(p, x, gy, gw),
                (3, _) => weight_by_results::<3>(p, x, gy, gw),
                _ => weight_by_results::<5>(p, x, gy, gw),
            }
        }
    }
    /// Stride 1: each row that is read meets the gradients of all results that see it.
    ///
    /// # Safety
    /// As [`weight`], with a kernel of `K`.
    #[target_feature(enable = "avx512f")]
    unsafe fn weight_by_rows<const K: usize>(p: &Plan, x: &[f32], gy: &[f32], gw: &mut [f32]) {
        let ([h, width], [oh, ow]) = (p.input, p.output);
        let mut sums = [[_mm512_setzero_ps(); K]; K];
        for first in (0..ow).step_by(L) {
            let start = first as isize - p.pad[1] as isize;
            let known = inside(first as isize, ow);
            let mut seen = [0; K];
            for (k, seen) in seen.iter_mut().enumerate() {
                // nothing meets what lies behind the last result, infinite or not
                *seen = inside(start + k as isize, width) & known;
            }
            let gradient = |o: isize| {
                if o < 0 || o as usize >= oh {
                    return _mm512_setzero_ps();
                }
                // SAFETY: the mask ends at the end of row `o`.
                unsafe { _mm512_maskz_loadu_ps(known, gy.as_ptr().wrapping_add(o as usize * ow + first)) }
            };
            // of the results that see the present row, the oldest first
            let oldest = |r: usize| (r + p.pad[0]) as isize - (K - 1) as isize;
            let mut g = [_mm512_setzero_ps(); K];
            for (i, g) in g.iter_mut().enumerate().skip(1) {
                *g = gradient(oldest(0) + i as isize - 1);
            }
            for r in 0..h {
                for i in 1..K {
                    g[i - 1] = g[i];
                }
                g[K - 1] = gradient((r + p.pad[0]) as isize);
                let whole = oldest(r) >= 0 && r + p.pad[0] < oh;
                let row = x.as_ptr().wrapping_add(r * width).wrapping_offset(start);
                for k in 0..K {
                    // SAFETY: the mask leaves columns of row `r`.
                    let v = unsafe { _mm512_maskz_loadu_ps(seen[k], row.wrapping_add(k)) };
                    if whole {
                        for i in 0..K {
                            sums[K - 1 - i][k] = _mm512_fmadd_ps(v, g[i], sums[K - 1 - i][k]);
                        }
                    } else {
                        // where there is no result, what is read meets nothing, infinite or not
                        for i in 0..K {
                            if (0..oh as isize).contains(&(oldest(r) + i as isize)) {
                                sums[K - 1 - i][k] = _mm512_fmadd_ps(v, g[i], sums[K - 1 - i][k]);
                            }
                        }
                    }
                }
            }
        }
        for (gw, sum) in gw.iter_mut().zip(sums.as_flattened()) {
            *gw += _mm512_reduce_add_ps(*sum);
        }
    }
    /// Stride 2.
    ///
    /// # Safety
    /// As [`weight`], with a kernel of `K`.
    #[target_feature(enable = "avx512f")]
    unsafe fn weight_by_results<const K: usize>(p: &Plan, x: &[f32], gy: &[f32], gw: &mut [f32]) {
        let ([h, width], [oh, ow]) = (p.input, p.output);
        let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        let odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
        let mut sums = [[_mm512_setzero_ps(); K]; K];
        for first in (0..ow).step_by(L) {
            let start = 2 * first as isize - p.pad[1] as isize;
            let known = inside(first as isize, ow);
            let mut seen = [[0; 2]; K];
            for (k, seen) in seen.iter_mut().enumerate() {
                *seen = [0, L].map(|half| inside(start + (k + half) as isize, width));
            }
            for o in 0..oh {
                // SAFETY: the mask ends at the end of row `o`.
                let g = unsafe { _mm512_maskz_loadu_ps(known, gy.as_ptr().wrapping_add(o * ow + first)) };
                for (i, sums) in sums.iter_mut().enumerate() {
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
                        // what lies behind the last result meets nothing, infinite or not
                        let v = _mm512_permutex2var_ps(a, even, b);
                        sums[k] = _mm512_mask3_fmadd_ps(v, g, sums[k], known);
                        if k + 1 < K {
                            let v = _mm512_permutex2var_ps(a, odd, b);
                            sums[k + 1] = _mm512_mask3_fmadd_ps(v, g, sums[k + 1], known);
                        }
                    }
                }
            }
        }
        for (gw, sum) in gw.iter_mut().zip(sums.as_flattened()) {
            *gw += _mm512_reduce_add_ps(*sum);
        }
    }

    /// The gradient for the input with stride 2: even and odd columns have taps of their own.
    ///
    /// # Safety
    /// As [`run`].
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn input(p: &Plan, gy: &[f32], w: &[f32], bias: f32, gx: &mut [f32]) {
        let ([h, width], [oh, ow], k) = (p.input, p.output, p.kernel);
        let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        let high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
        for first in (0..width.div_ceil(2)).step_by(L) {
            // where the results lie that column `2 * first` and the one behind it meet by each tap
            let mut taps = [(0isize, 0u16, false); 7];
            for (j, tap) in taps.iter_mut().enumerate().take(k) {
                let odd = !(p.pad[1] + j).is_multiple_of(2);
                let column = first as isize + (p.pad[1] as isize + isize::from(odd) - j as isize) / 2;
                *tap = (column, inside(column, ow), odd);
            }
            let stored = [0, L].map(|half| inside((2 * first + half) as isize, width));
            for r in 0..h {
                let mut sums = [_mm512_set1_ps(bias); 2];
                for i in (0..k).filter(|i| (r + p.pad[0] + i).is_multiple_of(2)) {
                    let Some(o) = (r + p.pad[0]).checked_sub(i).map(|o| o / 2).filter(|o| *o < oh) else {
                        continue;
                    };
                    for (j, (column, known, odd)) in taps.iter().enumerate().take(k) {
                        let from = gy.as_ptr().wrapping_add(o * ow).wrapping_offset(*column);
                        // SAFETY: the mask leaves results of row `o`.
                        let g = unsafe { _mm512_maskz_loadu_ps(*known, from) };
                        let sum = &mut sums[usize::from(*odd)];
                        *sum = _mm512_mask3_fmadd_ps(g, _mm512_set1_ps(w[i * k + j]), *sum, *known);
                    }
                }
                let to = gx.as_mut_ptr().wrapping_add(r * width + 2 * first);
                // SAFETY: the masks end at the end of row `r`.
                unsafe {
                    _mm512_mask_storeu_ps(to, stored[0], _mm512_permutex2var_ps(sums[0], low, sums[1]));
                    let to = to.wrapping_add(L);
                    _mm512_mask_storeu_ps(to, stored[1], _mm512_permutex2var_ps(sums[0], high, sums[1]));
                }
            }
        }
    }
}
