//! f32 planes of depthwise convolutions by vectors whose input is read where it lies: masks stand for the border, so that nothing
//! is copied. With stride 1 each row that is read goes to all results that see it, whose sums wait in registers.

use crate::blas::unpacked::available;
use crate::conv::shape::ConvShape;
use crate::engine::isa::level;
use crate::engine::simd::{Body, Vector, Vectored};

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
        f32::run(level(), Weight { p: self, x, gy, gw });
    }
    /// Whether the gradient for the input is computed here; with stride 1 it is a convolution.
    pub(super) fn has_input(&self) -> bool {
        self.stride == 2
    }
    /// One plane's gradient for the input, on top of `bias`.
    pub(super) fn input(&self, gy: &[f32], w: &[f32], bias: f32, gx: &mut [f32]) {
        self.check(gx, gy, w);
        f32::run(level(), Input { p: self, gy, w, bias, gx });
    }
    fn check(&self, x: &[f32], y: &[f32], w: &[f32]) {
        let [[h, width], [oh, ow]] = [self.input, self.output];
        assert!(x.len() == h * width && y.len() == oh * ow && w.len() == self.kernel * self.kernel);
    }
    /// The results of one plane.
    pub(super) fn run(&self, x: &[f32], w: &[f32], bias: f32, y: &mut [f32]) {
        self.check(x, y, w);
        f32::run(level(), Results { p: self, x, w, bias, y });
    }
}

/// The lanes `l` of a vector whose column `first + l` is one of `n`.
///
/// # Safety
/// The machine has the vectors; so for all that follow, and all lengths are those of the plan.
#[inline(always)]
unsafe fn inside<V: Vector<T = f32>>(first: isize, n: usize) -> V::Mask {
    // SAFETY: the caller's promise.
    unsafe { V::lanes(-first, n as isize - first) }
}
/// Each weight in all lanes of a vector.
///
/// # Safety
/// As [`inside`].
#[inline(always)]
unsafe fn taps<V: Vector<T = f32>, const K: usize>(w: &[f32]) -> [[V; K]; K] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut taps = [[V::splat(0.0); K]; K];
        for (t, w) in taps.as_flattened_mut().iter_mut().zip(w) {
            *t = V::splat(*w);
        }
        taps
    }
}

/// The results of one plane.
struct Results<'a> {
    p: &'a Plan,
    x: &'a [f32],
    w: &'a [f32],
    bias: f32,
    y: &'a mut [f32],
}
impl Body<f32> for Results<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector<T = f32>>(self) {
        let Results { p, x, w, bias, y } = self;
        macro_rules! by_kernel {
            ($f:ident) => {
                // SAFETY: the caller's promise, and the kernel is that of the plan.
                unsafe {
                    match p.kernel {
                        3 => $f::<V, 3>(p, x, w, bias, y),
                        5 => $f::<V, 5>(p, x, w, bias, y),
                        _ => $f::<V, 7>(p, x, w, bias, y),
                    }
                }
            };
        }
        if p.stride == 1 { by_kernel!(by_rows) } else { by_kernel!(by_results) }
    }
}

/// Stride 1.
///
/// # Safety
/// As [`inside`], with a kernel of `K`.
#[inline(always)]
unsafe fn by_rows<V: Vector<T = f32>, const K: usize>(
    p: &Plan,
    x: &[f32],
    w: &[f32],
    bias: f32,
    y: &mut [f32],
) {
    // the sums of so many vectors side by side stay in the registers, which there are twice as many of where they are longest
    let most = match (V::N >= 16, K) {
        (true, 3 | 5) => 4,
        (true, _) | (false, 3 | 5) => 2,
        (false, _) => 1,
    };
    let mut first = 0;
    while first < p.output[1] {
        let vectors = (p.output[1] - first).div_ceil(V::N).min(most);
        // no vector that is read leaves the row
        let start = first.checked_sub(p.pad[1]);
        let within = start.is_some_and(|s| s + vectors * V::N + K - 1 <= p.input[1]);
        let whole = V::N < 16 && within && first + vectors * V::N <= p.output[1];
        // SAFETY: the caller's promise.
        unsafe {
            match (vectors, whole) {
                (1, false) => columns::<V, K, 1, false>(p, x, w, bias, first, y),
                (1, true) => columns::<V, K, 1, true>(p, x, w, bias, first, y),
                (2, false) => columns::<V, K, 2, false>(p, x, w, bias, first, y),
                (2, true) => columns::<V, K, 2, true>(p, x, w, bias, first, y),
                (3, _) => columns::<V, K, 3, false>(p, x, w, bias, first, y),
                _ => columns::<V, K, 4, false>(p, x, w, bias, first, y),
            }
        }
        first += V::N * vectors;
    }
}
/// `N` vectors of each row, from the column `first` on; with `WHOLE` none of them meets the border.
///
/// # Safety
/// As [`by_rows`].
#[inline(always)]
unsafe fn columns<V: Vector<T = f32>, const K: usize, const N: usize, const WHOLE: bool>(
    p: &Plan,
    x: &[f32],
    w: &[f32],
    bias: f32,
    first: usize,
    y: &mut [f32],
) {
    let ([h, width], [oh, ow]) = (p.input, p.output);
    let start = first as isize - p.pad[1] as isize;
    // SAFETY: the caller's promise; the masks leave columns of the row `r`, and stores end at the end of the row `o`.
    unsafe {
        let mut seen = [[V::lanes(0, 0); N]; K];
        for n in 0..N {
            for (k, seen) in seen.iter_mut().enumerate() {
                seen[n] = inside::<V>(start + (n * V::N + k) as isize, width);
            }
        }
        let taps = taps::<V, K>(w);
        let bias = V::splat(bias);
        // the sums of the results that see the present row, the oldest first
        let mut sums = [[bias; N]; K];
        let mut store = |o: isize, sums: &[V; N]| {
            if o >= 0 && (o as usize) < oh {
                let to = y.as_mut_ptr().wrapping_add(o as usize * ow + first);
                for n in 0..N {
                    let to = to.wrapping_add(n * V::N);
                    if WHOLE {
                        sums[n].store(to);
                    } else {
                        sums[n].store_first(to, (ow - first).saturating_sub(n * V::N));
                    }
                }
            }
        };
        let oldest = |r: usize| (r + p.pad[0]) as isize - (K - 1) as isize;
        for r in 0..h {
            let row = x.as_ptr().wrapping_add(r * width).wrapping_offset(start);
            for k in 0..K {
                for n in 0..N {
                    let from = row.wrapping_add(n * V::N + k);
                    let v = if WHOLE { V::load(from) } else { V::load_where(seen[k][n], from) };
                    for i in 0..K {
                        sums[i][n] = v.fma(taps[K - 1 - i][k], sums[i][n]);
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
    }
}

/// Even and odd columns of two vectors from `from` on, of which those are read that `seen` names.
///
/// # Safety
/// As [`inside`]; the places are valid.
#[inline(always)]
unsafe fn pair<V: Vector<T = f32>>(seen: [V::Mask; 2], from: *const f32) -> (V, V) {
    // SAFETY: the caller's promise.
    unsafe { V::apart(V::load_where(seen[0], from), V::load_where(seen[1], from.wrapping_add(V::N))) }
}
/// What of two vectors is inside a row, for each pair of taps from the column `start` on.
///
/// # Safety
/// As [`inside`].
#[inline(always)]
unsafe fn pairs_seen<V: Vector<T = f32>, const K: usize>(start: isize, width: usize) -> [[V::Mask; 2]; K] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut seen = [[V::lanes(0, 0); 2]; K];
        for (k, seen) in seen.iter_mut().enumerate() {
            for (half, seen) in seen.iter_mut().enumerate() {
                *seen = inside::<V>(start + (k + half * V::N) as isize, width);
            }
        }
        seen
    }
}

/// Stride 2.
///
/// # Safety
/// As [`inside`], with a kernel of `K`.
#[inline(always)]
unsafe fn by_results<V: Vector<T = f32>, const K: usize>(
    p: &Plan,
    x: &[f32],
    w: &[f32],
    bias: f32,
    y: &mut [f32],
) {
    let ([h, width], [oh, ow]) = (p.input, p.output);
    // SAFETY: the caller's promise; the masks leave columns of the row `r`, and stores end at the end of the row `o`.
    unsafe {
        let taps = taps::<V, K>(w);
        for first in (0..ow).step_by(V::N) {
            let start = 2 * first as isize - p.pad[1] as isize;
            let seen = pairs_seen::<V, K>(start, width);
            for o in 0..oh {
                let mut sum = V::splat(bias);
                for (i, taps) in taps.iter().enumerate() {
                    let r = (2 * o + i).wrapping_sub(p.pad[0]);
                    if r >= h {
                        continue;
                    }
                    let row = x.as_ptr().wrapping_add(r * width).wrapping_offset(start);
                    for k in (0..K).step_by(2) {
                        let (even, odd) = pair::<V>(seen[k], row.wrapping_add(k));
                        sum = even.fma(taps[k], sum);
                        if k + 1 < K {
                            sum = odd.fma(taps[k + 1], sum);
                        }
                    }
                }
                sum.store_first(y.as_mut_ptr().wrapping_add(o * ow + first), ow - first);
            }
        }
    }
}

/// One plane's gradient of the weight; the kernel is 3 or 5.
struct Weight<'a> {
    p: &'a Plan,
    x: &'a [f32],
    gy: &'a [f32],
    gw: &'a mut [f32],
}
impl Body<f32> for Weight<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector<T = f32>>(self) {
        let Weight { p, x, gy, gw } = self;
        // SAFETY: the caller's promise.
        unsafe {
            match (p.kernel, p.stride) {
                (3, 1) => weight_by_rows::<V, 3>(p, x, gy, gw),
                (_, 1) => weight_by_rows::<V, 5>(p, x, gy, gw),
                (3, _) => weight_by_results::<V, 3>(p, x, gy, gw),
                _ => weight_by_results::<V, 5>(p, x, gy, gw),
            }
        }
    }
}
/// Stride 1: what is read of a row meets the gradients of all results that see it. Row by row, as planes lie in memory, so that the
/// machine reads ahead.
///
/// # Safety
/// As [`inside`], with a kernel of `K`.
#[inline(always)]
unsafe fn weight_by_rows<V: Vector<T = f32>, const K: usize>(
    p: &Plan,
    x: &[f32],
    gy: &[f32],
    gw: &mut [f32],
) {
    let ([h, width], [oh, ow]) = (p.input, p.output);
    // SAFETY: the caller's promise; the masks leave columns of the row `r` and results of the row `o`, and without them there are all.
    unsafe {
        let mut sums = [[V::splat(0.0); K]; K];
        for r in 0..h {
            let row = x.as_ptr().wrapping_add(r * width).wrapping_sub(p.pad[1]);
            // of the results that see this row, the oldest
            let oldest = (r + p.pad[0]) as isize - (K - 1) as isize;
            let results = gy.as_ptr().wrapping_offset(oldest * ow as isize);
            let there: [bool; K] = std::array::from_fn(|i| (0..oh as isize).contains(&(oldest + i as isize)));
            for first in (0..ow).step_by(V::N) {
                let start = first as isize - p.pad[1] as isize;
                if start >= 0 && first + V::N <= ow && start as usize + V::N + K - 1 <= width {
                    for k in 0..K {
                        let v = V::load(row.wrapping_add(first + k));
                        // where there is no result, what is read meets nothing, infinite or not
                        for i in 0..K {
                            if there[i] {
                                let g = V::load(results.wrapping_add(i * ow + first));
                                sums[K - 1 - i][k] = v.fma(g, sums[K - 1 - i][k]);
                            }
                        }
                    }
                    continue;
                }
                let known = inside::<V>(first as isize, ow);
                for k in 0..K {
                    // nothing meets what lies behind the last result, infinite or not
                    let (from, end) = (start + k as isize, (ow - first) as isize);
                    let seen = V::lanes(-from, end.min(width as isize - from));
                    let v = V::load_where(seen, row.wrapping_add(first + k));
                    for i in 0..K {
                        if there[i] {
                            let g = V::load_where(known, results.wrapping_add(i * ow + first));
                            sums[K - 1 - i][k] = v.fma(g, sums[K - 1 - i][k]);
                        }
                    }
                }
            }
        }
        for (gw, sum) in gw.iter_mut().zip(sums.as_flattened()) {
            *gw += sum.sum();
        }
    }
}
/// Stride 2.
///
/// # Safety
/// As [`inside`], with a kernel of `K`.
#[inline(always)]
unsafe fn weight_by_results<V: Vector<T = f32>, const K: usize>(
    p: &Plan,
    x: &[f32],
    gy: &[f32],
    gw: &mut [f32],
) {
    let ([h, width], [oh, ow]) = (p.input, p.output);
    // SAFETY: the caller's promise; the masks leave columns of the row `r` and results of the row `o`.
    unsafe {
        let mut sums = [[V::splat(0.0); K]; K];
        for first in (0..ow).step_by(V::N) {
            let start = 2 * first as isize - p.pad[1] as isize;
            let known = inside::<V>(first as isize, ow);
            let seen = pairs_seen::<V, K>(start, width);
            for o in 0..oh {
                let g = V::load_where(known, gy.as_ptr().wrapping_add(o * ow + first));
                for (i, sums) in sums.iter_mut().enumerate() {
                    let r = (2 * o + i).wrapping_sub(p.pad[0]);
                    if r >= h {
                        continue;
                    }
                    let row = x.as_ptr().wrapping_add(r * width).wrapping_offset(start);
                    for k in (0..K).step_by(2) {
                        let (even, odd) = pair::<V>(seen[k], row.wrapping_add(k));
                        // what lies behind the last result meets nothing, infinite or not
                        sums[k] = V::choose(known, even.fma(g, sums[k]), sums[k]);
                        if k + 1 < K {
                            sums[k + 1] = V::choose(known, odd.fma(g, sums[k + 1]), sums[k + 1]);
                        }
                    }
                }
            }
        }
        for (gw, sum) in gw.iter_mut().zip(sums.as_flattened()) {
            *gw += sum.sum();
        }
    }
}

/// One plane's gradient for the input with stride 2: even and odd columns have taps of their own.
struct Input<'a> {
    p: &'a Plan,
    gy: &'a [f32],
    w: &'a [f32],
    bias: f32,
    gx: &'a mut [f32],
}
impl Body<f32> for Input<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector<T = f32>>(self) {
        let Input { p, gy, w, bias, gx } = self;
        let ([h, width], [oh, ow], k) = (p.input, p.output, p.kernel);
        // SAFETY: the caller's promise; the masks leave results of the row `o`, and stores end at the end of the row `r`.
        unsafe {
            for first in (0..width.div_ceil(2)).step_by(V::N) {
                // where the results lie that column `2 * first` and the one behind it meet by each tap
                let mut taps = [(0isize, V::lanes(0, 0), false); 7];
                for (j, tap) in taps.iter_mut().enumerate().take(k) {
                    let odd = !(p.pad[1] + j).is_multiple_of(2);
                    let column = first as isize + (p.pad[1] as isize + isize::from(odd) - j as isize) / 2;
                    *tap = (column, inside::<V>(column, ow), odd);
                }
                for r in 0..h {
                    let mut sums = [V::splat(bias); 2];
                    for i in (0..k).filter(|i| (r + p.pad[0] + i).is_multiple_of(2)) {
                        let Some(o) = (r + p.pad[0]).checked_sub(i).map(|o| o / 2).filter(|o| *o < oh) else {
                            continue;
                        };
                        for (j, (column, known, odd)) in taps.iter().enumerate().take(k) {
                            let from = gy.as_ptr().wrapping_add(o * ow).wrapping_offset(*column);
                            let g = V::load_where(*known, from);
                            let sum = &mut sums[usize::from(*odd)];
                            *sum = V::choose(*known, g.fma(V::splat(w[i * k + j]), *sum), *sum);
                        }
                    }
                    let to = gx.as_mut_ptr().wrapping_add(r * width + 2 * first);
                    let (low, high) = V::together(sums[0], sums[1]);
                    low.store_first(to, width - 2 * first);
                    high.store_first(to.wrapping_add(V::N), (width - 2 * first).saturating_sub(V::N));
                }
            }
        }
    }
}
