//! Pooling over 1 to 3 spatial dimensions of contiguous `[planes, spatial...]` memory (`planes` is batch times
//! channels). Indices are flat positions in the input plane.

pub mod erased;
pub mod fractional;
pub mod planes;
mod vectors;
mod windows;

use crate::conv::{ConvScalar, LANES as L, Packing, by_stride, single, single_mut};
use crate::engine::accumulate::Sum;
use crate::engine::isa::{Isa, Job, Level, best_for, run};
use crate::engine::parallel::parallel_for;
use crate::engine::room::room;
use crate::engine::scratch::with_scratch;
use crate::engine::{SharedMut, span};
use crate::num::{Arith, Order, Stored};
use half::{bf16, f16};
use std::ops::Div;

/// An element type of pooling: windows are compared and summed in its type of computation.
pub trait PoolScalar:
    ConvScalar<Compute: Order + PartialOrd + Div<Output = <Self as Stored>::Compute>>
{
}
macro_rules! scalars { ($($t:ty),*) => {$(impl PoolScalar for $t {})*}; }
scalars!(f32, f64, f16, bf16, u8, i8, i16, i32, i64);

/// The sizes of a pooling with a fixed kernel; missing leading dimensions are 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// Batch times channels.
    pub(crate) planes: usize,
    /// Input extent.
    pub(crate) input: [usize; 3],
    /// Kernel extent.
    pub(crate) kernel: [usize; 3],
    /// Stride.
    pub(crate) stride: [usize; 3],
    /// Padding.
    pub(crate) pad: [usize; 3],
    /// Dilation (1 for averages).
    pub(crate) dilation: [usize; 3],
    /// Output extent.
    pub(crate) output: [usize; 3],
}

impl PoolShape {
    /// Sizes for 1 to 3 spatial dimensions; with `ceil_mode` a last window that only starts inside counts too.
    ///
    /// # Errors
    /// A text if dimensions differ, a size is 0, the padding is more than half the kernel, or the output is empty.
    pub fn new(
        planes: usize,
        input: &[usize],
        kernel: &[usize],
        stride: &[usize],
        pad: &[usize],
        dilation: &[usize],
        ceil_mode: bool,
    ) -> Result<Self, String> {
        use crate::conv::three;
        let rank = input.len();
        if !(1..=3).contains(&rank) || [kernel, stride, pad, dilation].iter().any(|v| v.len() != rank) {
            return Err(format!(
                "pooling: expected 1 to 3 spatial dimensions, the same everywhere, got {rank}"
            ));
        }
        if [kernel, stride, dilation].iter().any(|v| v.contains(&0)) {
            return Err("pooling: kernel size, stride and dilation should be greater than zero".into());
        }
        let mut s = PoolShape {
            planes,
            input: three(input, 1),
            kernel: three(kernel, 1),
            stride: three(stride, 1),
            pad: three(pad, 0),
            dilation: three(dilation, 1),
            output: [0; 3],
        };
        for d in 0..3 {
            let extents = s.extents(d).ok_or("pooling: a size does not fit in 64 bits")?;
            let (reach, padded) = extents;
            if s.pad[d] > reach / 2 {
                return Err(format!(
                    "pad should be at most half of effective kernel size, but got pad={}, kernel_size={} and dilation={}",
                    s.pad[d], s.kernel[d], s.dilation[d]
                ));
            }
            let Some(room) = padded.checked_sub(reach) else {
                if ceil_mode && padded + s.stride[d] > reach {
                    s.output[d] = 1;
                    continue;
                }
                return Err(format!(
                    "pooling: output size of dimension {d} is too small (input {})",
                    s.input[d]
                ));
            };
            s.output[d] = (room + if ceil_mode { s.stride[d] - 1 } else { 0 }) / s.stride[d] + 1;
            if ceil_mode && (s.output[d] - 1) * s.stride[d] >= s.input[d] + s.pad[d] {
                s.output[d] -= 1;
            }
        }
        let ([i0, i1, i2], [o0, o1, o2]) = (s.input, s.output);
        let lens = [span::product_of(&[planes, i0, i1, i2]), span::product_of(&[planes, o0, o1, o2])];
        let planes = [span::product_of(&s.input), span::product_of(&s.output), span::product_of(&s.kernel)];
        if lens.contains(&None) || planes.contains(&None) {
            return Err("pooling: a size does not fit in 64 bits".into());
        }
        // The step to a second window that there is not: kernels lay their copies out by it.
        for d in 0..3 {
            s.stride[d] = s.stride[d].min(s.input[d] + 2 * s.pad[d]).max(1);
        }
        Ok(s)
    }
    /// Reach of the kernel and padded size, if they and a step beyond them fit.
    fn extents(&self, d: usize) -> Option<(usize, usize)> {
        let reach = self.dilation[d].checked_mul(self.kernel[d].checked_sub(1)?)?.checked_add(1)?;
        let padded = self.pad[d].checked_mul(2)?.checked_add(self.input[d])?;
        let beyond = padded.checked_add(self.stride[d])?.checked_add(reach)?;
        // places are signed numbers in the kernels
        (beyond <= isize::MAX as usize).then_some((reach, padded))
    }
    /// Elements of the input and of the output.
    pub fn lens(&self) -> (usize, usize) {
        (span::product([self.planes, self.in_plane()]), span::product([self.planes, self.out_plane()]))
    }
    /// Positions of one output plane.
    pub fn out_plane(&self) -> usize {
        span::product(self.output)
    }
    /// Positions of one input plane.
    pub fn in_plane(&self) -> usize {
        span::product(self.input)
    }
    /// Whether windows are in proportion to the plane: their taps are gone through one by one then, the border included.
    fn narrow(&self) -> bool {
        let moved = self.in_plane().saturating_add(self.out_plane());
        span::in_proportion(span::product_of(&self.kernel), moved)
    }
    fn grain(&self) -> usize {
        let taps = self.kernel.into_iter().fold(1, usize::saturating_mul);
        (65_536 / self.out_plane().saturating_mul(taps).max(1)).max(1)
    }
    /// The first position of window `o` in dimension `d` that is not padding.
    #[inline(always)]
    fn first(&self, o: usize, d: usize) -> usize {
        let start = o * self.stride[d];
        if start >= self.pad[d] {
            return start - self.pad[d];
        }
        (self.pad[d] - start).div_ceil(self.dilation[d]) * self.dilation[d] + start - self.pad[d]
    }
    /// Where the window `(d, h, w)` starts in the plane, the border counted as if the plane went on.
    #[inline(always)]
    fn start(&self, d: usize, h: usize, w: usize) -> i64 {
        let at = |o: usize, d: usize| (o * self.stride[d]) as i64 - self.pad[d] as i64;
        (at(d, 0) * self.input[1] as i64 + at(h, 1)) * self.input[2] as i64 + at(w, 2)
    }
    /// The first element of the window that is not in the border. Where the dilation leaps over the whole plane that is
    /// behind it, however far.
    fn first_of(&self, d: usize, h: usize, w: usize) -> i64 {
        let row = self.first(d, 0).wrapping_mul(self.input[1]).wrapping_add(self.first(h, 1));
        row.wrapping_mul(self.input[2]).wrapping_add(self.first(w, 2)) as i64
    }
    /// Calls `f(input row base, lo, hi, first input column)` for each tap of one output row, in memory order.
    #[inline(always)]
    fn taps(&self, out_row: usize, mut f: impl FnMut(usize, usize, usize, usize)) {
        let [id, ih, iw] = self.input;
        let (od, oh) = (out_row / self.output[1], out_row % self.output[1]);
        for kd in 0..self.kernel[0] {
            let d = (od * self.stride[0] + kd * self.dilation[0]).wrapping_sub(self.pad[0]);
            for kh in 0..self.kernel[1] {
                let h = (oh * self.stride[1] + kh * self.dilation[1]).wrapping_sub(self.pad[1]);
                if d >= id || h >= ih {
                    continue;
                }
                for kw in 0..self.kernel[2] {
                    let shift = kw * self.dilation[2];
                    let (lo, hi) =
                        crate::conv::valid_columns(self.output[2], iw, self.stride[2], self.pad[2], shift);
                    if lo < hi {
                        f((d * ih + h) * iw, lo, hi, lo * self.stride[2] + shift - self.pad[2]);
                    }
                }
            }
        }
    }
}

/// Positions while they are compared; narrow ones fill vectors better.
trait Position: Arith + PartialEq {
    /// No position.
    const NONE: usize;
    fn at(p: usize) -> Self;
    fn long(self) -> i64;
}
impl Position for i32 {
    const NONE: usize = i32::MAX as usize;
    #[inline(always)]
    fn at(p: usize) -> Self {
        p as i32
    }
    #[inline(always)]
    fn long(self) -> i64 {
        self as i64
    }
}
impl Position for i64 {
    const NONE: usize = i64::MAX as usize;
    #[inline(always)]
    fn at(p: usize) -> Self {
        p as i64
    }
    #[inline(always)]
    fn long(self) -> i64 {
        self
    }
}

struct MaxPlane<'a, T: PoolScalar, P> {
    s: &'a PoolShape,
    packing: &'a Packing,
    x: &'a [T],
    /// For the plane with a border, which has the lowest value: no window takes that.
    padded: &'a mut [T::Compute],
    /// Positions of the taps in the plane, from the window's own place on.
    places: &'a [P],
    y: &'a mut [T],
    index: &'a mut [i64],
}
impl<T: PoolScalar, P: Position> Job for MaxPlane<'_, T, P> {
    type Out = ();
    /// Planes of 2^30 elements wait for memory.
    const BEST: Level = if size_of::<P>() > 4 { Level::Portable } else { best_for::<T>() };
    #[inline(always)]
    #[allow(clippy::eq_op)]
    fn run<I: Isa>(self) {
        let s = self.s;
        self.packing.pack(self.x, self.padded, T::up);
        let ow = s.output[2];
        for (r, (y, index)) in self.y.chunks_exact_mut(ow).zip(self.index.chunks_exact_mut(ow)).enumerate() {
            let (od, oh) = (r / s.output[1], r % s.output[1]);
            let row = &self.padded[self.packing.row(od * s.stride[0], oh * s.stride[1])..];
            for (j, (y, index)) in y.chunks_mut(L).zip(index.chunks_mut(L)).enumerate() {
                let mut best = [T::Compute::LOW; L];
                let none = P::at(P::NONE);
                let mut place = [none; L];
                for (tap, at) in self.packing.taps.iter().zip(self.places) {
                    let x = &row[j * L + tap..j * L + tap + L];
                    for l in 0..L {
                        let take = (x[l] > best[l]) | (x[l] != x[l]);
                        best[l] = if take { x[l] } else { best[l] };
                        place[l] = if take { *at } else { place[l] };
                    }
                }
                for (y, b) in y.iter_mut().zip(&best) {
                    *y = T::down(*b);
                }
                let start = s.start(od, oh, j * L);
                for (l, index) in index.iter_mut().enumerate() {
                    *index = (start + (l * s.stride[2]) as i64).wrapping_add(place[l].long());
                }
                if place.contains(&none) {
                    // nothing above the lowest value: the first element
                    for (l, index) in index.iter_mut().enumerate().filter(|(l, _)| place[*l] == none) {
                        *index = s.first_of(od, oh, j * L + l);
                    }
                }
            }
        }
    }
}

fn max_planes<T: PoolScalar, P: Position>(s: &PoolShape, x: &[T], y: &mut [T], index: &mut [i64]) {
    let (ip, op) = (s.in_plane(), s.out_plane());
    let Some(packing) = Packing::new(s.input, s.output, s.kernel, s.stride, s.pad, s.dilation) else {
        return windows::max(s, x, y, index);
    };
    let mut places = room(packing.taps.len());
    let [_, ih, iw] = s.input;
    for i in 0..packing.taps.len() {
        let [_, h, w] = s.kernel;
        let [d, h, w] = [i / (h * w), i / w % h, i % w];
        places.push(P::at((d * s.dilation[0] * ih + h * s.dilation[1]) * iw + w * s.dilation[2]));
    }
    let (y, index) = (SharedMut::new(y), SharedMut::new(index));
    parallel_for(s.planes, s.grain(), |r| {
        with_scratch::<T::Compute, _>(packing.len, |buf| {
            buf.fill(T::Compute::LOW);
            for p in r {
                // SAFETY: plane `p` of both outputs is this index's own.
                let (y, index) = unsafe { (y.slice(p * op, op), index.slice(p * op, op)) };
                let (x, padded) = (&x[p * ip..(p + 1) * ip], &mut *buf);
                if let (Some(y), Ok(places)) =
                    (single_mut(&mut *y), bytemuck::try_cast_slice::<P, i32>(&places))
                    && size_of::<P>() == 4
                    && vectors::available()
                {
                    packing.pack(x, padded, T::up);
                    vectors::max(s, &packing, single(padded), places, y, index);
                    continue;
                }
                run(MaxPlane::<T, P> { s, packing: &packing, x, padded, places: &places, y, index });
            }
        })
    });
}

/// Max pooling: the largest value of each window and its position. NaN counts as the largest.
///
/// # Panics
/// If a slice has not the length that the shape says: a bug of the caller.
pub fn max_pool<T: PoolScalar>(s: &PoolShape, x: &[T], y: &mut [T], index: &mut [i64]) {
    assert!(
        x.len() == span::product([s.planes, s.in_plane()])
            && y.len() == span::product([s.planes, s.out_plane()])
            && index.len() == y.len()
    );
    if y.is_empty() {
        return;
    }
    // places of taps in the border may lie outside the plane
    if s.in_plane() < i32::MAX as usize / 32 {
        max_planes::<T, i32>(s, x, y, index);
    } else {
        max_planes::<T, i64>(s, x, y, index);
    }
}

/// Adds each output gradient to the input position it came from; serves max pooling, fixed and adaptive. Overwrites
/// `grad_x` (`planes` of `in_plane`).
///
/// # Errors
/// A text if an index is outside its input plane.
///
/// # Panics
/// If slice lengths differ from the sizes: a bug of the caller.
pub fn max_pool_backward<T: PoolScalar>(
    planes: usize,
    in_plane: usize,
    grad_y: &[T],
    index: &[i64],
    grad_x: &mut [T],
) -> Result<(), String> {
    assert!(grad_x.len() == span::product([planes, in_plane]) && grad_y.len() == index.len());
    if planes == 0 {
        return Ok(());
    }
    let op = grad_y.len() / planes;
    if let Some(i) = index.iter().find(|i| **i < 0 || **i as usize >= in_plane) {
        return Err(format!(
            "max pooling backward: found an invalid max index: {i} (input plane of {in_plane})"
        ));
    }
    let out = SharedMut::new(grad_x);
    parallel_for(planes, (32_768 / in_plane.max(1)).max(1), |r| {
        with_scratch::<T::Compute, _>(in_plane, |acc| {
            for p in r {
                acc.fill(T::Compute::ZERO);
                for (g, i) in grad_y[p * op..(p + 1) * op].iter().zip(&index[p * op..(p + 1) * op]) {
                    let a = &mut acc[*i as usize];
                    *a = a.plus(g.up());
                }
                // SAFETY: plane `p` is this index's own.
                let gx = unsafe { out.slice(p * in_plane, in_plane) };
                gx.iter_mut().zip(&*acc).for_each(|(g, a)| *g = T::down(*a));
            }
        })
    });
    Ok(())
}

/// What a window sum is divided by.
#[derive(Clone, Copy, Debug)]
pub struct AvgDivisor {
    /// Count padded positions too.
    pub count_include_pad: bool,
    /// This number instead of any count.
    pub divisor_override: Option<i64>,
}
impl AvgDivisor {
    /// Extent of window `o` in dimension `d` as it counts.
    #[inline(always)]
    fn extent(self, s: &PoolShape, o: usize, d: usize) -> i64 {
        let start = (o * s.stride[d]) as i64 - s.pad[d] as i64;
        let end = (start + s.kernel[d] as i64).min((s.input[d] + s.pad[d]) as i64);
        if self.count_include_pad { end - start } else { end.min(s.input[d] as i64) - start.max(0) }
    }
    /// What the sum of the window `(d, h, w)` is divided by.
    #[inline(always)]
    fn of(self, s: &PoolShape, rows: i64, w: usize) -> i64 {
        let n = self.divisor_override.unwrap_or_else(|| rows.wrapping_mul(self.extent(s, w, 2)));
        // A window without any position has the sum 0; the divisor must not make that NaN.
        if n == 0 { 1 } else { n }
    }
    /// The positions of the windows of one output row, but for their width.
    #[inline(always)]
    fn rows(self, s: &PoolShape, r: usize) -> i64 {
        self.extent(s, r / s.output[1], 0).wrapping_mul(self.extent(s, r % s.output[1], 1))
    }
    /// The divisors of one output row; inlined, so that it is compiled for the instruction set of the loops around it.
    #[inline(always)]
    fn row<W: Arith>(self, s: &PoolShape, r: usize, out: &mut [W]) {
        let rows = self.rows(s, r);
        for (o, d) in out.iter_mut().enumerate() {
            *d = W::count(self.of(s, rows, o));
        }
    }
}

struct AvgPlane<'a, T: PoolScalar> {
    s: &'a PoolShape,
    div: AvgDivisor,
    x: &'a [T],
    y: &'a mut [T],
    sum: &'a mut [T::Compute],
    by: &'a mut [T::Compute],
}
impl<T: PoolScalar> Job for AvgPlane<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    #[allow(non_snake_case)]
    fn run<I: Isa>(self) {
        let (s, sum, by) = (self.s, self.sum, self.by);
        for (r, y) in self.y.chunks_exact_mut(s.output[2]).enumerate() {
            sum.fill(T::Compute::ZERO);
            s.taps(r, |row, lo, hi, first| {
                let (sum, x) = (&mut sum[lo..hi], &self.x[row + first..]);
                by_stride!(s.stride[2], S => {
                    let x = &x[..(sum.len() - 1) * S + 1];
                    for i in 0..sum.len() {
                        sum[i] = sum[i].plus(x[i * S].up());
                    }
                });
            });
            self.div.row(s, r, by);
            for ((y, s), b) in y.iter_mut().zip(&*sum).zip(&*by) {
                *y = T::down(*s / *b);
            }
        }
    }
}

struct AvgBack<'a, T: PoolScalar> {
    s: &'a PoolShape,
    div: AvgDivisor,
    gy: &'a [T],
    acc: &'a mut [T::Compute],
    by: &'a mut [T::Compute],
}
impl<T: PoolScalar> Job for AvgBack<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    #[allow(non_snake_case)]
    fn run<I: Isa>(self) {
        let (s, acc, by) = (self.s, self.acc, self.by);
        for (r, gy) in self.gy.chunks_exact(s.output[2]).enumerate() {
            self.div.row(s, r, by);
            for (b, g) in by.iter_mut().zip(gy) {
                *b = g.up() / *b;
            }
            s.taps(r, |row, lo, hi, first| {
                let (by, acc) = (&by[lo..hi], &mut acc[row + first..]);
                by_stride!(s.stride[2], S => {
                    let acc = &mut acc[..(by.len() - 1) * S + 1];
                    for i in 0..by.len() {
                        acc[i * S] = acc[i * S].plus(by[i]);
                    }
                });
            });
        }
    }
}

fn check_divisor(div: AvgDivisor) -> Result<(), String> {
    if div.divisor_override == Some(0) { Err("divisor must be not zero".into()) } else { Ok(()) }
}

/// Average pooling; the shape's dilation must be 1. Halves are summed in f32.
///
/// # Errors
/// A text if the divisor is 0.
///
/// # Panics
/// If a slice has not the length that the shape says: a bug of the caller.
pub fn avg_pool<T: PoolScalar>(s: &PoolShape, div: AvgDivisor, x: &[T], y: &mut [T]) -> Result<(), String> {
    check_divisor(div)?;
    let (ip, op, ow) = (s.in_plane(), s.out_plane(), s.output[2]);
    assert!(
        x.len() == span::product([s.planes, ip])
            && y.len() == span::product([s.planes, op])
            && s.dilation == [1; 3]
    );
    if !s.narrow() {
        windows::average(s, div, x, y);
        return Ok(());
    }
    let y = SharedMut::new(y);
    parallel_for(s.planes, s.grain(), |r| {
        with_scratch::<T::Compute, _>(2 * ow, |buf| {
            let (sum, by) = buf.split_at_mut(ow);
            for p in r {
                // SAFETY: plane `p` is this index's own.
                let y = unsafe { y.slice(p * op, op) };
                run(AvgPlane { s, div, x: &x[p * ip..(p + 1) * ip], y, sum: &mut *sum, by: &mut *by });
            }
        })
    });
    Ok(())
}

/// The gradient of [`avg_pool`]. Overwrites `grad_x`.
///
/// # Errors
/// A text if the divisor is 0.
///
/// # Panics
/// As [`avg_pool`].
pub fn avg_pool_backward<T: PoolScalar>(
    s: &PoolShape,
    div: AvgDivisor,
    grad_y: &[T],
    grad_x: &mut [T],
) -> Result<(), String> {
    check_divisor(div)?;
    let (ip, op, ow) = (s.in_plane(), s.out_plane(), s.output[2]);
    assert!(
        grad_x.len() == span::product([s.planes, ip])
            && grad_y.len() == span::product([s.planes, op])
            && s.dilation == [1; 3]
    );
    if !s.narrow() {
        windows::average_back(s, div, grad_y, grad_x);
        return Ok(());
    }
    let out = SharedMut::new(grad_x);
    parallel_for(s.planes, s.grain(), |r| {
        with_scratch::<T::Compute, _>(ip + ow, |buf| {
            let (acc, by) = buf.split_at_mut(ip);
            for p in r {
                acc.fill(T::Compute::ZERO);
                run(AvgBack { s, div, gy: &grad_y[p * op..(p + 1) * op], acc: &mut *acc, by: &mut *by });
                // SAFETY: plane `p` is this index's own.
                let gx = unsafe { out.slice(p * ip, ip) };
                gx.iter_mut().zip(&*acc).for_each(|(g, a)| *g = T::down(*a));
            }
        })
    });
    Ok(())
}

/// The sizes of an adaptive pooling: windows that split the input evenly. Missing leading dimensions are 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdaptiveShape {
    /// Batch times channels.
    pub(crate) planes: usize,
    /// Input extent.
    pub(crate) input: [usize; 3],
    /// Output extent.
    pub(crate) output: [usize; 3],
}
impl AdaptiveShape {
    /// Sizes for 1 to 3 spatial dimensions.
    ///
    /// # Errors
    /// A text if dimensions differ or an input extent is 0.
    pub fn new(planes: usize, input: &[usize], output: &[usize]) -> Result<Self, String> {
        use crate::conv::three;
        if !(1..=3).contains(&input.len()) || input.len() != output.len() {
            return Err(
                "adaptive pooling: expected 1 to 3 spatial dimensions, the same in input and output".into()
            );
        }
        if input.contains(&0) {
            return Err("adaptive pooling: expected non-zero size for non-batch dimensions".into());
        }
        let s = AdaptiveShape { planes, input: three(input, 1), output: three(output, 1) };
        // a window's ends are products of both extents
        let ends = (0..3).all(|d| (s.output[d].saturating_add(1)).checked_mul(s.input[d]).is_some());
        let ([i0, i1, i2], [o0, o1, o2]) = (s.input, s.output);
        let lens = [span::product_of(&[planes, i0, i1, i2]), span::product_of(&[planes, o0, o1, o2])];
        let planes = [span::product_of(&s.input), span::product_of(&s.output)];
        if !ends || lens.contains(&None) || planes.contains(&None) {
            return Err("adaptive pooling: a size does not fit in 64 bits".into());
        }
        Ok(s)
    }
    /// Elements of the input and of the output.
    pub fn lens(&self) -> (usize, usize) {
        let (ip, op) = self.sizes();
        (span::product([self.planes, ip]), span::product([self.planes, op]))
    }
    fn sizes(&self) -> (usize, usize) {
        (span::product(self.input), span::product(self.output))
    }
    fn window(&self, o: usize, d: usize) -> std::ops::Range<usize> {
        let (i, n) = (self.input[d], self.output[d]);
        o * i / n..((o + 1) * i).div_ceil(n)
    }
    /// Calls `f(output position, the input rows of its window)`; a row is a range of the input plane.
    fn windows(&self, mut f: impl FnMut(usize, &mut dyn Iterator<Item = std::ops::Range<usize>>, usize)) {
        // no window at all, however large the other sizes are
        if self.output.contains(&0) {
            return;
        }
        let [_, ih, iw] = self.input;
        let mut o = 0;
        for od in 0..self.output[0] {
            for oh in 0..self.output[1] {
                for ow in 0..self.output[2] {
                    let (d, h, w) = (self.window(od, 0), self.window(oh, 1), self.window(ow, 2));
                    let count = d.len() * h.len() * w.len();
                    let mut rows = d.flat_map(|d| {
                        let w = w.clone();
                        h.clone().map(move |h| (d * ih + h) * iw + w.start..(d * ih + h) * iw + w.end)
                    });
                    f(o, &mut rows, count);
                    o += 1;
                }
            }
        }
    }
    fn grain(&self) -> usize {
        (32_768 / self.sizes().0.max(self.sizes().1).max(1)).max(1)
    }
}

/// Adaptive average pooling. Halves are summed in f32.
///
/// # Panics
/// If a slice has not the length that the shape says: a bug of the caller.
pub fn adaptive_avg_pool<T: PoolScalar>(s: &AdaptiveShape, x: &[T], y: &mut [T]) {
    let (ip, op) = s.sizes();
    assert!(x.len() == span::product([s.planes, ip]) && y.len() == span::product([s.planes, op]));
    let y = SharedMut::new(y);
    parallel_for(s.planes, s.grain(), |r| {
        for p in r {
            let x = &x[p * ip..(p + 1) * ip];
            // SAFETY: plane `p` is this index's own.
            let y = unsafe { y.slice(p * op, op) };
            if op == 1 {
                // one window: a sum that does not wait for each of its terms
                y[0] = T::down(run(Sum(x)) / T::Compute::count(ip as i64));
                continue;
            }
            s.windows(|o, rows, count| {
                let sum = rows.flat_map(|r| &x[r]).fold(T::Compute::ZERO, |a, v| a.plus(v.up()));
                y[o] = T::down(sum / T::Compute::count(count as i64));
            });
        }
    });
}

/// The gradient of [`adaptive_avg_pool`]. Overwrites `grad_x`.
///
/// # Panics
/// As [`adaptive_avg_pool`].
pub fn adaptive_avg_pool_backward<T: PoolScalar>(s: &AdaptiveShape, grad_y: &[T], grad_x: &mut [T]) {
    let (ip, op) = s.sizes();
    assert!(grad_x.len() == span::product([s.planes, ip]) && grad_y.len() == span::product([s.planes, op]));
    let out = SharedMut::new(grad_x);
    parallel_for(s.planes, s.grain(), |r| {
        with_scratch::<T::Compute, _>(ip, |acc| {
            for p in r {
                acc.fill(T::Compute::ZERO);
                s.windows(|o, rows, count| {
                    let g = grad_y[p * op + o].up() / T::Compute::count(count as i64);
                    rows.flatten().for_each(|i| acc[i] = acc[i].plus(g));
                });
                // SAFETY: plane `p` is this index's own.
                let gx = unsafe { out.slice(p * ip, ip) };
                gx.iter_mut().zip(&*acc).for_each(|(g, a)| *g = T::down(*a));
            }
        })
    });
}

/// Adaptive max pooling with the position of each maximum; NaN counts as the largest. Its gradient is
/// [`max_pool_backward`].
///
/// # Panics
/// As [`adaptive_avg_pool`].
#[allow(clippy::eq_op)]
pub fn adaptive_max_pool<T: PoolScalar>(s: &AdaptiveShape, x: &[T], y: &mut [T], index: &mut [i64]) {
    let (ip, op) = s.sizes();
    assert!(
        x.len() == span::product([s.planes, ip])
            && y.len() == span::product([s.planes, op])
            && index.len() == y.len()
    );
    let (y, index) = (SharedMut::new(y), SharedMut::new(index));
    parallel_for(s.planes, s.grain(), |r| {
        for p in r {
            let x = &x[p * ip..(p + 1) * ip];
            // SAFETY: plane `p` of both outputs is this index's own.
            let (y, index) = unsafe { (y.slice(p * op, op), index.slice(p * op, op)) };
            s.windows(|o, rows, _| {
                let mut best: Option<(T::Compute, usize)> = None;
                for i in rows.flatten() {
                    let v = x[i].up();
                    if best.is_none_or(|(b, _)| v > b || v != v) {
                        best = Some((v, i));
                    }
                }
                // Windows hold at least one position: ends are rounded up, and no input extent is 0.
                if let Some((v, i)) = best {
                    y[o] = T::down(v);
                    index[o] = i as i64;
                }
            });
        }
    });
}

#[cfg(test)]
mod tests;
