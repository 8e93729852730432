//! The general convolution: patches of a tile that fits the second cache level, times the weight.

use super::shape::ConvShape;
use super::{by_position, depthwise, im2col, winograd};
use crate::Element;
use crate::blas::{Mat, MatmulScalar, RawMat, RawOut, WideScalar};
use crate::engine::accumulate::Sum;
use crate::engine::parallel::{num_threads, parallel_chunks, parallel_for};
use crate::engine::scratch::with_scratch;
use crate::engine::{SharedMut, span};
use crate::num::Arith;
use crate::num::stored::{Stored, down, up};
use half::{bf16, f16};
use num_complex::Complex;
use std::ops::Range;

/// An element type of convolutions.
pub trait ConvScalar: MatmulScalar {
    #[doc(hidden)]
    fn conv_forward(s: &ConvShape, x: &[Self], w: &[Self], bias: Option<&[Self]>, out: &mut [Self]);
    #[doc(hidden)]
    fn conv_backward_input(s: &ConvShape, gy: &[Self], w: &[Self], bias: Option<&[Self]>, gx: &mut [Self]);
    #[doc(hidden)]
    fn conv_backward_weight(s: &ConvShape, x: &[Self], gy: &[Self], gw: &mut [Self]);
}

macro_rules! native {
    ($($t:ty),*) => {$(
        impl ConvScalar for $t {
            fn conv_forward(s: &ConvShape, x: &[Self], w: &[Self], bias: Option<&[Self]>, out: &mut [Self]) {
                forward(s, x, w, bias, out);
            }
            fn conv_backward_input(s: &ConvShape, gy: &[Self], w: &[Self], bias: Option<&[Self]>, gx: &mut [Self]) {
                backward_input(s, gy, w, bias, gx);
            }
            fn conv_backward_weight(s: &ConvShape, x: &[Self], gy: &[Self], gw: &mut [Self]) {
                backward_weight(s, x, gy, gw);
            }
        }
    )*};
}
native!(f32, f64, Complex<f32>, Complex<f64>, u8, i8, i16, i32, i64);

/// Widened copies of the inputs, the wide kernel, one rounding.
fn through_wide<T: Stored>(
    inputs: [&[T]; 3],
    out: &mut [T],
    f: impl FnOnce([&[T::Compute]; 3], &mut [T::Compute]),
) {
    let [a, b, c] = inputs.map(<[T]>::len);
    with_scratch::<T::Compute, _>(a + b + c, |buf| {
        let (wa, rest) = buf.split_at_mut(a);
        let (wb, wc) = rest.split_at_mut(b);
        up(inputs[0], wa);
        up(inputs[1], wb);
        up(inputs[2], wc);
        with_scratch(out.len(), |wide| {
            f([wa, wb, wc], wide);
            down(wide, out);
        });
    });
}
macro_rules! halves {
    ($($t:ty),*) => {$(
        impl ConvScalar for $t {
            fn conv_forward(s: &ConvShape, x: &[Self], w: &[Self], bias: Option<&[Self]>, out: &mut [Self]) {
                let has = bias.is_some();
                through_wide([x, w, bias.unwrap_or(&[])], out, |[x, w, b], out| {
                    forward(s, x, w, has.then_some(b), out)
                });
            }
            fn conv_backward_input(s: &ConvShape, gy: &[Self], w: &[Self], bias: Option<&[Self]>, gx: &mut [Self]) {
                let has = bias.is_some();
                through_wide([gy, w, bias.unwrap_or(&[])], gx, |[gy, w, b], gx| {
                    backward_input(s, gy, w, has.then_some(b), gx)
                });
            }
            fn conv_backward_weight(s: &ConvShape, x: &[Self], gy: &[Self], gw: &mut [Self]) {
                through_wide([x, gy, &[]], gw, |[x, gy, _], gw| backward_weight(s, x, gy, gw));
            }
        }
    )*};
}
halves!(f16, bf16, Complex<f16>);

/// Bytes of a tile of patches.
const TILE_BYTES: usize = 1 << 20;

/// Cuts `len` output positions into equal tiles of at most `most`, at least `at_least` of them.
fn cut(len: usize, most: usize, at_least: usize) -> (usize, usize) {
    let count = len.div_ceil(most.max(16)).max(at_least.min(len.div_ceil(32))).max(1);
    let tile = len.div_ceil(count).next_multiple_of(16).min(len).max(1);
    (tile, len.div_ceil(tile))
}

fn forward<T: WideScalar + MatmulScalar>(s: &ConvShape, x: &[T], w: &[T], bias: Option<&[T]>, out: &mut [T]) {
    if out.is_empty() {
        return;
    }
    if rowwise::<T>(s)
        && let Some(packing) = depthwise::packing(s)
    {
        return depthwise::forward(s, packing, x, w, bias, out);
    }
    let product = |dense: &ConvShape, x: &[T]| {
        by_patches(dense, x, Mat { data: w, row: s.c / s.groups, col: 1 }, bias, &mut *out);
    };
    if thinned(s, x, product) {
        return;
    }
    if let Some(out) = single_mut(out) {
        let (x, w, bias) = (single(x), single(w), bias.map(single));
        if winograd::forward(s, x, w, bias, out) || by_position::forward(s, x, w, bias, out) {
            return;
        }
    }
    by_patches(s, x, Mat { data: w, row: s.c / s.groups * s.taps(), col: 1 }, bias, out);
}

/// Elements that are worth a thread when they are moved.
const MOVED: usize = 16_384;

/// Calls `f` with the elements of `x` that results see, where the kernel has one tap, and with the plain product over them.
fn thinned<T: WideScalar>(s: &ConvShape, x: &[T], f: impl FnOnce(&ConvShape, &[T])) -> bool {
    let Some(dense) = s.thinned() else { return false };
    let (from, len) = (s.in_plane(), dense.in_plane());
    with_scratch::<T, _>(dense.x_len(), |seen| {
        let shared = SharedMut::new(seen);
        parallel_for(s.n * s.c, MOVED.div_ceil(len), |planes| {
            // SAFETY: these planes are this range's own.
            let to = unsafe { shared.slice(planes.start * len, planes.len() * len) };
            im2col::fill(s, &x[planes.start * from..planes.end * from], 0..len, to);
        });
        f(&dense, seen);
    });
    true
}

/// [`backward_input`] of one tap with a stride: the gradient of what results see, and the bias between it.
fn spread<T: WideScalar + MatmulScalar>(
    s: &ConvShape,
    dense: &ConvShape,
    gy: &[T],
    w: &[T],
    bias: Option<&[T]>,
    gx: &mut [T],
) {
    let (to, len) = (s.in_plane(), dense.in_plane());
    with_scratch::<T, _>(dense.x_len(), |seen| {
        backward_input(dense, gy, w, None, seen);
        let shared = SharedMut::new(gx);
        parallel_for(s.n * s.c, MOVED.div_ceil(to), |planes| {
            for p in planes {
                // SAFETY: plane `p` is this range's own.
                let gx = unsafe { shared.slice(p * to, to) };
                gx.fill(bias.map_or(T::ZERO, |b| b[p % s.c]));
                im2col::spread(s, gx, 0..len, &seen[p * len..(p + 1) * len]);
            }
        });
    });
}

/// Goes to [`depthwise`]. Only floats do: other types would double its code for convolutions that few people run.
fn rowwise<T: WideScalar>(s: &ConvShape) -> bool {
    T::DTYPE.is_floating() && s.depthwise()
}

/// [`forward`] by a product with the patches; the weight's `[o, k]` comes with its steps.
fn by_patches<T: WideScalar + MatmulScalar>(
    s: &ConvShape,
    x: &[T],
    w: Mat<&[T]>,
    bias: Option<&[T]>,
    out: &mut [T],
) {
    let (cg, og, taps) = (s.c / s.groups, s.o / s.groups, s.taps());
    let (k, len, ip) = (cg * taps, s.out_plane(), s.in_plane());
    let images = s.n * s.groups;
    let at_least = if images < num_threads() { num_threads() } else { 1 };
    let (tile, count) = cut(len, TILE_BYTES / size_of::<T>() / k.max(1), at_least);
    let shared = SharedMut::new(out);
    let body = |t: usize| {
        let (image, p0) = (t / count, t % count * tile);
        let (n, g) = (image / s.groups, image % s.groups);
        let cols = p0..(p0 + tile).min(len);
        let width = cols.len();
        let first = (n * s.o + g * og) * len + p0;
        let mut beta = T::ZERO;
        if let Some(bias) = bias {
            for o in 0..og {
                // SAFETY: this tile of this output channel is this chunk's own.
                unsafe { shared.slice(first + o * len, width) }.fill(bias[g * og + o]);
            }
            beta = T::ONE;
        }
        let x = &x[(n * s.c + g * cg) * ip..(n * s.c + (g + 1) * cg) * ip];
        let weight = RawMat::new(w.data[g * og * k..].as_ptr(), w.row, w.col);
        let c = RawOut::rows(shared.ptr().wrapping_add(first), len);
        if s.pointwise() {
            let b = RawMat::rows(x.as_ptr().wrapping_add(p0), len);
            // SAFETY: weight [og, k], the columns of x, and this chunk's own tile of out.
            return unsafe { T::tile(og, width, k, T::ONE, weight, b, beta, c) };
        }
        with_scratch::<T, _>(k * width, |buf| {
            im2col::fill(s, x, cols, buf);
            // SAFETY: as above, with the patches of this tile.
            unsafe { T::tile(og, width, k, T::ONE, weight, RawMat::rows(buf.as_ptr(), width), beta, c) }
        });
    };
    parallel_chunks(images * count, &body);
}

/// The same slice where T is f32.
pub(crate) fn single_mut<T: Element>(x: &mut [T]) -> Option<&mut [f32]> {
    if T::DTYPE == crate::DType::F32 { bytemuck::try_cast_slice_mut(x).ok() } else { None }
}
/// The same slice, of f32 as [`single_mut`] said.
pub(crate) fn single<T: Element>(x: &[T]) -> &[f32] {
    bytemuck::cast_slice(x)
}

/// The most places that a tap of dimension `d` leads back from a result of the input gradient.
pub(super) fn mirrored_lead(s: &ConvShape, d: usize) -> usize {
    s.dilation[d] * (s.kernel[d] - 1) / s.stride[d]
}

/// The convolution that computes the input gradient of a convolution of stride 1 whose results are all that its input has
/// room for: otherwise the mirrored one would have more results than its own input has.
fn mirrored(s: &ConvShape) -> Option<ConvShape> {
    if s.stride != [1; 3] {
        return None;
    }
    let mut pad = [0; 3];
    for d in 0..3 {
        let reach = s.dilation[d] * (s.kernel[d] - 1);
        if s.output[d] + reach != s.input[d] + 2 * s.pad[d] {
            return None;
        }
        pad[d] = reach.checked_sub(s.pad[d]).filter(|p| *p < isize::MAX as usize / 4)?;
    }
    Some(ConvShape { c: s.o, o: s.c, input: s.output, output: s.input, pad, ..s.clone() })
}

fn backward_input<T: WideScalar + MatmulScalar>(
    s: &ConvShape,
    gy: &[T],
    w: &[T],
    bias: Option<&[T]>,
    gx: &mut [T],
) {
    if gx.is_empty() {
        return;
    }
    if !rowwise::<T>(s)
        && let Some(dense) = s.thinned()
        && !gy.is_empty()
    {
        return spread(s, &dense, gy, w, bias, gx);
    }
    let mirrored = mirrored(s);
    if !rowwise::<T>(s)
        && let Some(gx) = single_mut(gx)
    {
        let (gy, w, bias) = (single(gy), single(w), bias.map(single));
        let squares = |m| winograd::backward_input(m, gy, w, bias, gx);
        if mirrored.as_ref().is_some_and(squares) || by_position::backward_input(s, gy, w, bias, gx) {
            return;
        }
    }
    let (cg, og, taps) = (s.c / s.groups, s.o / s.groups, s.taps());
    if let Some(m) = mirrored {
        if s.pointwise() && !rowwise::<T>(s) {
            return by_patches(&m, gy, Mat { data: w, row: 1, col: cg }, bias, gx);
        }
        return with_scratch::<T, _>(w.len(), |flipped| {
            for g in 0..s.groups {
                for o in 0..og {
                    for c in 0..cg {
                        let src = &w[((g * og + o) * cg + c) * taps..][..taps];
                        let dst = &mut flipped[((g * cg + c) * og + o) * taps..][..taps];
                        dst.iter_mut().zip(src.iter().rev()).for_each(|(d, s)| *d = *s);
                    }
                }
            }
            forward(&m, gy, flipped, bias, gx);
        });
    }
    if rowwise::<T>(s) {
        return depthwise::backward_input(s, gy, w, bias, gx);
    }
    let (len, ip) = (s.out_plane(), s.in_plane());
    // Channels per chunk: each chunk owns whole input planes, so that adding patches back needs no lock.
    let want = (num_threads() * 2).div_ceil(s.n * s.groups);
    let block = (cg.div_ceil(want)).min(512usize.div_ceil(taps)).max(1);
    let blocks = cg.div_ceil(block);
    let (tile, _) = cut(len, TILE_BYTES / size_of::<T>() / (block * taps), 1);
    let shared = SharedMut::new(gx);
    let body = |t: usize| {
        let (image, b) = (t / blocks, t % blocks);
        let (n, g) = (image / s.groups, image % s.groups);
        let channels = b * block..((b + 1) * block).min(cg);
        let rows = channels.len() * taps;
        // SAFETY: these channels of this image are this chunk's own.
        let gx = unsafe { shared.slice((n * s.c + g * cg + channels.start) * ip, channels.len() * ip) };
        for (c, plane) in channels.clone().zip(gx.chunks_exact_mut(ip)) {
            plane.fill(bias.map_or(T::ZERO, |b| b[g * cg + c]));
        }
        let weight = w[g * og * cg * taps + channels.start * taps..].as_ptr();
        with_scratch::<T, _>(rows * tile, |buf| {
            for p0 in (0..len).step_by(tile) {
                let cols = p0..(p0 + tile).min(len);
                let width = cols.len();
                let buf = &mut buf[..rows * width];
                let y = gy[(n * s.o + g * og) * len + p0..].as_ptr();
                // SAFETY: weight^T [rows, og], gradient [og, width], and the buffer [rows, width].
                unsafe {
                    let (a, b) = (RawMat::new(weight, 1, cg * taps), RawMat::rows(y, len));
                    T::tile(rows, width, og, T::ONE, a, b, T::ZERO, RawOut::rows(buf.as_mut_ptr(), width));
                }
                im2col::spread(s, gx, cols, buf);
            }
        });
    };
    if len == 0 || og == 0 {
        // Nothing reaches the input; the body would only index past the ends.
        for (p, plane) in gx.chunks_exact_mut(ip).enumerate() {
            plane.fill(bias.map_or(T::ZERO, |b| b[p % s.c]));
        }
        return;
    }
    parallel_chunks(s.n * s.groups * blocks, &body);
}

/// Adds the weight gradient of one image and channel block to `dst`, `[og, rows]`.
///
/// # Safety
/// `dst` is valid and not used elsewhere meanwhile.
unsafe fn weight_of_image<T: WideScalar>(
    s: &ConvShape,
    x: &[T],
    gy: &[T],
    (n, g): (usize, usize),
    channels: &Range<usize>,
    positions: Range<usize>,
    tile: usize,
    dst: RawOut<T>,
) {
    let (cg, og, taps) = (s.c / s.groups, s.o / s.groups, s.taps());
    let (len, ip) = (s.out_plane(), s.in_plane());
    let rows = channels.len() * taps;
    let base = n * s.c + g * cg;
    let x = &x[(base + channels.start) * ip..(base + channels.end) * ip];
    let gy = &gy[(n * s.o + g * og) * len..];
    if s.pointwise() {
        let first = |p: &[T]| p.as_ptr().wrapping_add(positions.start);
        let (a, b) = (RawMat::rows(first(gy), len), RawMat::new(first(x), 1, len));
        // SAFETY: gradient [og, positions], input^T [positions, rows]; `dst` is the caller's promise.
        return unsafe { T::tile(og, rows, positions.len(), T::ONE, a, b, T::ONE, dst) };
    }
    with_scratch::<T, _>(rows * tile, |buf| {
        for p0 in positions.clone().step_by(tile) {
            let cols = p0..(p0 + tile).min(positions.end);
            let width = cols.len();
            let buf = &mut buf[..rows * width];
            im2col::fill(s, x, cols, buf);
            let (a, b) = (RawMat::rows(gy[p0..].as_ptr(), len), RawMat::new(buf.as_ptr(), 1, width));
            // SAFETY: gradient [og, width], patches^T [width, rows]; `dst` is the caller's promise.
            unsafe { T::tile(og, rows, width, T::ONE, a, b, T::ONE, dst) };
        }
    });
}

fn backward_weight<T: WideScalar + MatmulScalar>(s: &ConvShape, x: &[T], gy: &[T], gw: &mut [T]) {
    gw.fill(T::ZERO);
    if gw.is_empty() || gy.is_empty() {
        return;
    }
    if rowwise::<T>(s)
        && let Some(packing) = depthwise::packing(s)
    {
        return depthwise::backward_weight(s, packing, x, gy, gw);
    }
    if thinned(s, x, |dense, x| backward_weight(dense, x, gy, &mut *gw)) {
        return;
    }
    if let Some(gw) = single_mut(gw)
        && by_position::backward_weight(s, single(x), single(gy), gw)
    {
        return;
    }
    let (cg, og, taps, len) = (s.c / s.groups, s.o / s.groups, s.taps(), s.out_plane());
    let threads = num_threads();
    let want = threads.div_ceil(s.groups);
    let block = cg.div_ceil(want).min(1024usize.div_ceil(taps)).max(1);
    let blocks = cg.div_ceil(block);
    let (tile, tiles) = cut(len, TILE_BYTES / size_of::<T>() / (block * taps), 1);
    let k = cg * taps;
    if threads > 1 && block * taps < 128 && s.groups * s.n * tiles > 1 && gw.len() * threads < (1 << 22) {
        // Few input channels: cut the positions instead, and add the threads' sums.
        let (tile, tiles) = cut(len, TILE_BYTES / size_of::<T>() / k, threads.div_ceil(s.n));
        let jobs = s.n * tiles;
        let parts = threads.min(jobs);
        let size = gw.len();
        return with_scratch::<T, _>(size * parts, |sums| {
            let shared = SharedMut::new(sums);
            parallel_chunks(parts, &|part| {
                // SAFETY: this part's own sums.
                let mine = unsafe { shared.slice(part * size, size) };
                mine.fill(T::ZERO);
                for j in part * jobs / parts..(part + 1) * jobs / parts {
                    let (n, p0) = (j / tiles, j % tiles * tile);
                    for g in 0..s.groups {
                        let dst = RawOut::rows(mine[g * og * k..].as_mut_ptr(), k);
                        let positions = p0..(p0 + tile).min(len);
                        // SAFETY: `dst` is inside this part's own sums.
                        unsafe { weight_of_image(s, x, gy, (n, g), &(0..cg), positions, tile, dst) };
                    }
                }
            });
            for part in sums.chunks_exact(size) {
                gw.iter_mut().zip(part).for_each(|(g, p)| *g = g.plus(*p));
            }
        });
    }
    let shared = SharedMut::new(gw);
    parallel_chunks(s.groups * blocks, &|t| {
        let (g, b) = (t / blocks, t % blocks);
        let channels = b * block..((b + 1) * block).min(cg);
        let dst = RawOut::rows(shared.ptr().wrapping_add(g * og * k + channels.start * taps), k);
        for n in 0..s.n {
            // SAFETY: these columns of this group's weight are this chunk's own.
            unsafe { weight_of_image(s, x, gy, (n, g), &channels, 0..len, tile, dst) };
        }
    });
}

/// The gradient for the bias: the sum of `grad_y` `[n, o, plane]` over batch and positions.
///
/// # Panics
/// If a slice has not the length that the sizes say: a bug of the caller.
pub fn backward_bias<T: ConvScalar>(n: usize, o: usize, plane: usize, grad_y: &[T], grad_b: &mut [T]) {
    assert!(grad_y.len() == span::product([n, o, plane]) && grad_b.len() == o, "conv: slice lengths");
    let out = SharedMut::new(grad_b);
    parallel_for(o, (32_768 / (n * plane).max(1)).max(1), |r| {
        for c in r {
            let mut total = T::Compute::ZERO;
            for i in 0..n {
                let row = &grad_y[(i * o + c) * plane..(i * o + c + 1) * plane];
                total = total.plus(crate::engine::isa::run(Sum(row)));
            }
            // SAFETY: element `c` is this index's own.
            let cell = unsafe { out.slice(c, 1) };
            cell[0] = T::down(total);
        }
    });
}
