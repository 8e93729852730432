//! Between an image and the matrix of the patches that its output positions see.

use super::shape::ConvShape;
use crate::blas::WideScalar;
use crate::engine::isa::{Isa, Job, Level, best_for, run};
use std::ops::Range;

/// The output columns `lo..hi` of one row that see inside the image for the tap at `shift`, and the first input column.
#[inline(always)]
pub(crate) fn valid(out: usize, input: usize, stride: usize, pad: usize, shift: usize) -> (usize, usize) {
    // input index = o * stride + shift - pad, in 0..input
    let lo = pad.saturating_sub(shift).div_ceil(stride);
    let hi = (input + pad).saturating_sub(shift).div_ceil(stride);
    (lo.min(out), hi.clamp(lo.min(out), out))
}

/// `dst[i] = src[i * stride]`, with the usual strides as constants so that they become vector shuffles.
#[inline(always)]
fn gather<T: Copy>(dst: &mut [T], src: &[T], stride: usize) {
    match stride {
        1 => dst.copy_from_slice(&src[..dst.len()]),
        2 => {
            let src = &src[..dst.len() * 2 - 1];
            let n = dst.len() - 1;
            for (d, s) in dst[..n].iter_mut().zip(src.chunks_exact(2)) {
                *d = s[0];
            }
            dst[n] = src[2 * n];
        }
        _ => {
            for (d, s) in dst.iter_mut().zip(src.iter().step_by(stride)) {
                *d = *s;
            }
        }
    }
}

/// `dst[i * stride] += src[i]`.
#[inline(always)]
fn scatter_add<T: WideScalar>(dst: &mut [T], src: &[T], stride: usize) {
    if stride == 1 {
        for (d, s) in dst.iter_mut().zip(src) {
            *d = d.plus(*s);
        }
    } else {
        for (d, s) in dst.iter_mut().step_by(stride).zip(src) {
            *d = d.plus(*s);
        }
    }
}

/// Calls `seg(offset in the tile, od, oh, columns)` for each piece of an output row in `cols`.
#[inline(always)]
fn segments(s: &ConvShape, cols: &Range<usize>, mut seg: impl FnMut(usize, usize, usize, Range<usize>)) {
    let [_, oh, ow] = s.output;
    let mut p = cols.start;
    while p < cols.end {
        let (row, w0) = (p / ow, p % ow);
        let w1 = ow.min(w0 + cols.end - p);
        seg(p - cols.start, row / oh, row % oh, w0..w1);
        p += w1 - w0;
    }
}

/// The input position of an output row and tap, if it is inside.
#[inline(always)]
fn inside(o: usize, stride: usize, shift: usize, pad: usize, input: usize) -> Option<usize> {
    (o * stride + shift).checked_sub(pad).filter(|i| *i < input)
}

pub(super) struct Fill<'a, T> {
    pub s: &'a ConvShape,
    /// The channels of the block, whole planes.
    pub x: &'a [T],
    /// Output positions.
    pub cols: Range<usize>,
    /// `[channels * taps, cols]`.
    pub buf: &'a mut [T],
}
impl<T: WideScalar> Job for Fill<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let (s, n) = (self.s, self.cols.len());
        let [id, ih, iw] = s.input;
        let [_, kh, kw] = s.kernel;
        let taps = s.taps();
        for (r, dst) in self.buf.chunks_exact_mut(n).enumerate() {
            let (c, tap) = (r / taps, r % taps);
            let (td, th, tw) =
                (tap / (kh * kw) * s.dilation[0], tap / kw % kh * s.dilation[1], tap % kw * s.dilation[2]);
            let plane = &self.x[c * id * ih * iw..(c + 1) * id * ih * iw];
            let (lo, hi) = valid(s.output[2], iw, s.stride[2], s.pad[2], tw);
            segments(s, &self.cols, |at, od, oh, w| {
                let dst = &mut dst[at..at + w.len()];
                let d = inside(od, s.stride[0], td, s.pad[0], id);
                let h = inside(oh, s.stride[1], th, s.pad[1], ih);
                let (Some(d), Some(h)) = (d, h) else {
                    return dst.fill(T::ZERO);
                };
                let row = &plane[(d * ih + h) * iw..(d * ih + h + 1) * iw];
                let (a, b) = (lo.clamp(w.start, w.end), hi.clamp(w.start, w.end));
                if a >= b {
                    return dst.fill(T::ZERO);
                }
                dst[..a - w.start].fill(T::ZERO);
                dst[b - w.start..].fill(T::ZERO);
                gather(
                    &mut dst[a - w.start..b - w.start],
                    &row[a * s.stride[2] + tw - s.pad[2]..],
                    s.stride[2],
                );
            });
        }
    }
}

/// The transpose of [`Fill`]: adds each patch entry to its place in the image.
pub(super) struct Spread<'a, T> {
    pub s: &'a ConvShape,
    pub x: &'a mut [T],
    pub cols: Range<usize>,
    pub buf: &'a [T],
}
impl<T: WideScalar> Job for Spread<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let (s, n, x) = (self.s, self.cols.len(), self.x);
        let [id, ih, iw] = s.input;
        let [_, kh, kw] = s.kernel;
        let taps = s.taps();
        for (r, src) in self.buf.chunks_exact(n).enumerate() {
            let (c, tap) = (r / taps, r % taps);
            let (td, th, tw) =
                (tap / (kh * kw) * s.dilation[0], tap / kw % kh * s.dilation[1], tap % kw * s.dilation[2]);
            let plane = &mut x[c * id * ih * iw..(c + 1) * id * ih * iw];
            let (lo, hi) = valid(s.output[2], iw, s.stride[2], s.pad[2], tw);
            segments(s, &self.cols, |at, od, oh, w| {
                let d = inside(od, s.stride[0], td, s.pad[0], id);
                let h = inside(oh, s.stride[1], th, s.pad[1], ih);
                let (Some(d), Some(h)) = (d, h) else { return };
                let row = &mut plane[(d * ih + h) * iw..(d * ih + h + 1) * iw];
                let (a, b) = (lo.clamp(w.start, w.end), hi.clamp(w.start, w.end));
                if a < b {
                    let src = &src[at + a - w.start..at + b - w.start];
                    scatter_add(&mut row[a * s.stride[2] + tw - s.pad[2]..], src, s.stride[2]);
                }
            });
        }
    }
}

/// Patches of the channels in `x` at the output positions `cols`.
pub(super) fn fill<T: WideScalar>(s: &ConvShape, x: &[T], cols: Range<usize>, buf: &mut [T]) {
    run(Fill { s, x, cols, buf });
}
/// Adds patches back to the image.
pub(super) fn spread<T: WideScalar>(s: &ConvShape, x: &mut [T], cols: Range<usize>, buf: &[T]) {
    run(Spread { s, x, cols, buf });
}
