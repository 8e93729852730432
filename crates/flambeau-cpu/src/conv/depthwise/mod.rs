//! One input channel per output channel: no sum over channels, so rows are combined directly.

mod avx512;
mod in_place;

use super::by_patches::{single, single_mut};
use super::by_stride;
use super::im2col::valid;
use super::packing::{L, Packing};
use super::shape::ConvShape;
use crate::DType;
use crate::blas::WideScalar;
use crate::engine::SharedMut;
use crate::engine::cache::prefetch_plane;
use crate::engine::isa::{Isa, Job, Level, best_for, run};
use crate::engine::parallel::parallel_for;
use crate::engine::scratch::with_scratch;

/// Calls `f(tap, output row, input row, lo, hi, first input column)` for each pair of rows that a tap joins.
#[inline(always)]
fn pairs(s: &ConvShape, out_row: usize, mut f: impl FnMut(usize, usize, usize, usize, usize)) {
    let [id, ih, iw] = s.input;
    let (od, oh) = (out_row / s.output[1], out_row % s.output[1]);
    let mut tap = 0;
    for kd in 0..s.kernel[0] {
        let d = (od * s.stride[0] + kd * s.dilation[0]).wrapping_sub(s.pad[0]);
        for kh in 0..s.kernel[1] {
            let h = (oh * s.stride[1] + kh * s.dilation[1]).wrapping_sub(s.pad[1]);
            for kw in 0..s.kernel[2] {
                if d < id && h < ih {
                    let shift = kw * s.dilation[2];
                    let (lo, hi) = valid(s.output[2], iw, s.stride[2], s.pad[2], shift);
                    if lo < hi {
                        f(tap, (d * ih + h) * iw, lo, hi, lo * s.stride[2] + shift - s.pad[2]);
                    }
                }
                tap += 1;
            }
        }
    }
}

struct Plane<'a, T> {
    s: &'a ConvShape,
    packing: &'a Packing,
    x: &'a [T],
    w: &'a [T],
    bias: T,
    y: &'a mut [T],
}
impl<T: WideScalar> Job for Plane<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let (s, p) = (self.s, self.packing);
        for (r, y) in self.y.chunks_exact_mut(s.output[2]).enumerate() {
            let (d, h) = (r / s.output[1] * s.stride[0], r % s.output[1] * s.stride[1]);
            let row = &self.x[p.row(d, h)..];
            for (j, y) in y.chunks_mut(L).enumerate() {
                let x = &row[j * L..];
                let mut acc = [self.bias; L];
                for (w, tap) in self.w.iter().zip(&p.taps) {
                    let x = &x[*tap..*tap + L];
                    for l in 0..L {
                        acc[l] = w.fma::<I>(x[l], acc[l]);
                    }
                }
                if y.len() == L {
                    y.copy_from_slice(&acc);
                } else {
                    y.copy_from_slice(&acc[..y.len()]);
                }
            }
        }
    }
}

struct PlaneBack<'a, T> {
    s: &'a ConvShape,
    gy: &'a [T],
    w: &'a [T],
    gx: &'a mut [T],
}
impl<T: WideScalar> Job for PlaneBack<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    #[allow(non_snake_case)]
    fn run<I: Isa>(self) {
        let gx = self.gx;
        for (r, gy) in self.gy.chunks_exact(self.s.output[2]).enumerate() {
            pairs(self.s, r, |tap, row, lo, hi, first| {
                let (w, gy, gx) = (self.w[tap], &gy[lo..hi], &mut gx[row + first..]);
                by_stride!(self.s.stride[2], S => {
                    let gx = &mut gx[..(gy.len() - 1) * S + 1];
                    for i in 0..gy.len() {
                        gx[i * S] = gx[i * S].plus(w.times(gy[i]));
                    }
                });
            });
        }
    }
}

struct PlaneWeight<'a, T> {
    s: &'a ConvShape,
    packing: &'a Packing,
    x: &'a [T],
    /// The gradient, its rows filled up to whole vectors.
    gy: &'a [T],
    gw: &'a mut [T],
}
impl<T: WideScalar> Job for PlaneWeight<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let (s, p) = (self.s, self.packing);
        let (width, tail) = (s.output[2].next_multiple_of(L), s.output[2] % L);
        for (w, tap) in self.gw.iter_mut().zip(&p.taps) {
            let mut acc = [T::ZERO; L];
            for (r, gy) in self.gy.chunks_exact(width).enumerate() {
                let (d, h) = (r / s.output[1] * s.stride[0], r % s.output[1] * s.stride[1]);
                let row = &self.x[p.row(d, h) + tap..][..width];
                let last = if tail == 0 { 0 } else { L };
                for j in (0..width - last).step_by(L) {
                    let (gy, x) = (&gy[j..j + L], &row[j..j + L]);
                    for l in 0..L {
                        acc[l] = gy[l].fma::<I>(x[l], acc[l]);
                    }
                }
                if last > 0 {
                    let (gy, x) = (&gy[width - L..], &row[width - L..]);
                    for l in 0..L {
                        // not a product with 0: what lies there may be infinite
                        acc[l] = if l < tail { gy[l].fma::<I>(x[l], acc[l]) } else { acc[l] };
                    }
                }
            }
            let mut half = L / 2;
            while half > 0 {
                for l in 0..half {
                    acc[l] = acc[l].plus(acc[l + half]);
                }
                half /= 2;
            }
            *w = w.plus(acc[0]);
        }
    }
}

fn grain(s: &ConvShape) -> usize {
    (262_144 / s.out_plane().saturating_mul(s.taps()).max(1)).max(1)
}

/// The layout of the planes' copies, if that is in proportion.
pub(super) fn packing(s: &ConvShape) -> Option<Packing> {
    Packing::new(s.input, s.output, s.kernel, s.stride, s.pad, s.dilation)
}

pub(super) fn forward<T: WideScalar>(
    s: &ConvShape,
    packing: Packing,
    x: &[T],
    w: &[T],
    bias: Option<&[T]>,
    out: &mut [T],
) {
    let (ip, op, taps) = (s.in_plane(), s.out_plane(), s.taps());
    let out = SharedMut::new(out);
    if T::DTYPE == DType::F32
        && let Some(plan) = in_place::Plan::new(s)
    {
        return parallel_for(s.n * s.c, grain(s), |planes| {
            for p in planes {
                prefetch_plane(x, p + 1, ip);
                let (c, x) = (p % s.c, single(&x[p * ip..(p + 1) * ip]));
                let bias = bias.map_or(0.0, |b| single(b)[c]);
                // SAFETY: plane `p` is this index's own.
                let y = unsafe { out.slice(p * op, op) };
                if let Some(y) = single_mut(y) {
                    plan.run(x, single(&w[c * taps..(c + 1) * taps]), bias, y);
                }
            }
        });
    }
    let vectors = avx512::Vectors::new(s, &packing);
    parallel_for(s.n * s.c, grain(s), |r| {
        with_scratch::<T, _>(packing.len, |buf| {
            buf.fill(T::ZERO);
            for p in r {
                let c = p % s.c;
                packing.pack(&x[p * ip..(p + 1) * ip], buf, |v| v);
                // SAFETY: plane `p` is this index's own.
                let y = unsafe { out.slice(p * op, op) };
                let (w, bias) = (&w[c * taps..(c + 1) * taps], bias.map_or(T::ZERO, |b| b[c]));
                if let Some(y) = single_mut(&mut *y)
                    && avx512::forward(s, &packing, &vectors, single(buf), single(w), single(&[bias])[0], y)
                {
                    continue;
                }
                run(Plane { s, packing: &packing, x: buf, w, bias, y });
            }
        });
    });
}

pub(super) fn backward_input<T: WideScalar>(
    s: &ConvShape,
    gy: &[T],
    w: &[T],
    bias: Option<&[T]>,
    gx: &mut [T],
) {
    let (ip, op, taps) = (s.in_plane(), s.out_plane(), s.taps());
    let out = SharedMut::new(gx);
    let plan = in_place::Plan::new(s).filter(in_place::Plan::has_input);
    parallel_for(s.n * s.c, grain(s), |r| {
        for p in r {
            let c = p % s.c;
            // SAFETY: plane `p` is this index's own.
            let gx = unsafe { out.slice(p * ip, ip) };
            if let (Some(plan), Some(gx)) = (&plan, single_mut(&mut *gx)) {
                prefetch_plane(gy, p + 1, op);
                let (gy, w) = (&gy[p * op..(p + 1) * op], &w[c * taps..(c + 1) * taps]);
                plan.input(single(gy), single(w), bias.map_or(0.0, |b| single(b)[c]), gx);
                continue;
            }
            gx.fill(bias.map_or(T::ZERO, |b| b[c]));
            if op == 0 {
                continue;
            }
            run(PlaneBack { s, gy: &gy[p * op..(p + 1) * op], w: &w[c * taps..(c + 1) * taps], gx });
        }
    });
}

pub(super) fn backward_weight<T: WideScalar>(
    s: &ConvShape,
    packing: Packing,
    x: &[T],
    gy: &[T],
    gw: &mut [T],
) {
    let (ip, op, taps) = (s.in_plane(), s.out_plane(), s.taps());
    let (ow, width) = (s.output[2], s.output[2].next_multiple_of(L));
    let out = SharedMut::new(gw);
    let plan = in_place::Plan::new(s).filter(in_place::Plan::has_weight);
    parallel_for(s.c, (grain(s) / s.n.max(1)).max(1), |r| {
        with_scratch::<T, _>(packing.len + op / ow * width, |buf| {
            buf.fill(T::ZERO);
            let (buf, rows) = buf.split_at_mut(packing.len);
            // SAFETY: the channels of a range are its own.
            unsafe { out.slice(r.start * taps, r.len() * taps) }.fill(T::ZERO);
            // image by image, as they lie in memory
            for (n, c) in (0..s.n).flat_map(|n| r.clone().map(move |c| (n, c))) {
                // SAFETY: channel `c` is this index's own.
                let gw = unsafe { out.slice(c * taps, taps) };
                let p = n * s.c + c;
                if let (Some(plan), Some(gw)) = (&plan, single_mut(&mut *gw)) {
                    prefetch_plane(x, p + 1, ip);
                    prefetch_plane(gy, p + 1, op);
                    plan.weight(single(&x[p * ip..(p + 1) * ip]), single(&gy[p * op..(p + 1) * op]), gw);
                    continue;
                }
                packing.pack(&x[p * ip..(p + 1) * ip], buf, |v| v);
                let gy = &gy[p * op..(p + 1) * op];
                if let Some(gw) = single_mut(&mut *gw)
                    && avx512::weight(s, &packing, single(buf), single(gy), gw)
                {
                    continue;
                }
                let gy = gy.chunks_exact(ow);
                gy.zip(rows.chunks_exact_mut(width)).for_each(|(g, row)| row[..ow].copy_from_slice(g));
                run(PlaneWeight { s, packing: &packing, x: buf, gy: rows, gw: &mut *gw });
            }
        });
    });
}
