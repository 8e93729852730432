//! f32 convolutions of 3 x 3 taps by vectors and Winograd's way: squares of 2 x 2 results come from 16 products for each pair of
//! channels instead of 36. Input, weight and results are transformed by sums and halves alone, and sums over the channels
//! are products of matrices, 16 of them.
//!
//! The rounding errors of a large number spread over its square here, and so does one that is not finite. So images with a number
//! far beyond the others, and results that are not finite, are left to the caller, who computes them otherwise.

use super::by_position::Grid;
use super::shape::ConvShape;
use crate::blas::unpacked::{COLS, ROWS, Tile, available, column_tiles, tile_ahead, turn};
use crate::engine::SharedMut;
use crate::engine::accumulate::fold;
use crate::engine::cache::prefetch;
use crate::engine::isa::{self, Isa, Job};
use crate::engine::parallel::{num_threads, parallel_chunks};
use crate::engine::scratch::with_scratch;
use crate::engine::simd::{Body, Vector, Vectored};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Places of a transformed square.
const PLACES: usize = 16;
/// Lanes of the longest vector: what is computed together comes in multiples of it.
const LANES: usize = 16;
/// Taps.
const TAPS: usize = 9;
/// Channels whose terms are added at a time: sums of sums have smaller errors.
const DEPTH: usize = 64;
/// Channels by which their terms are asked for before they are added.
const AHEAD: usize = 8;
/// Squares that are transformed and multiplied together, about.
const SQUARES: usize = 128;
/// Bytes of transformed input that stay in the second cache level.
const NEAR: usize = 1 << 20;

/// How many times the root mean square of an image a number of it may be: the error that it brings to its neighbours then is that
/// of a sum of as many terms.
const BEYOND: f64 = 256.0;

/// Sum of squares and largest size of a run.
struct Extent<'a>(&'a [f32]);
impl Job for Extent<'_> {
    type Out = [f32; 2];
    #[inline(always)]
    fn run<I: Isa>(self) -> [f32; 2] {
        let squares = fold::<I, _, _, _>([self.0], 0.0, |[v]| v * v, |a, b| a + b);
        [
            squares,
            fold::<I, _, _, _>([self.0], 0.0, |[v]: [f32; 1]| v.abs(), |a, b| if b > a { b } else { a }),
        ]
    }
}

/// Transforms the weights `[9][COLS]` of up to [`COLS`] channels to the 16 places, `step` apart: `to` is valid for `n` elements at
/// each.
struct Transform<'a> {
    taps: &'a [f32; TAPS * COLS],
    flip: bool,
    n: usize,
    to: *mut f32,
    step: usize,
}
impl Body<f32> for Transform<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector<T = f32>>(self) {
        // SAFETY: the machine has the vectors; `j + N` is at most COLS, and stores end at the channel n.
        unsafe {
            let half = V::splat(0.5);
            for j in (0..self.n).step_by(V::N) {
                let mut g = [[half; 3]; 3];
                for t in 0..TAPS {
                    let from = if self.flip { TAPS - 1 - t } else { t };
                    g[t / 3][t % 3] = V::load(self.taps.as_ptr().add(from * COLS + j));
                }
                let mut rows = [[half; 3]; 4];
                for c in 0..3 {
                    let outer = g[0][c].add(g[2][c]);
                    rows[0][c] = g[0][c];
                    rows[1][c] = outer.add(g[1][c]).mul(half);
                    rows[2][c] = outer.sub(g[1][c]).mul(half);
                    rows[3][c] = g[2][c];
                }
                for (r, [a, b, c]) in rows.into_iter().enumerate() {
                    let outer = a.add(c);
                    let all = [a, outer.add(b).mul(half), outer.sub(b).mul(half), c];
                    for (k, v) in all.into_iter().enumerate() {
                        v.store_first(self.to.wrapping_add((r * 4 + k) * self.step + j), self.n - j);
                    }
                }
            }
        }
    }
}

/// Transforms `n` neighbouring squares of a channel, whose 16 elements lie `from` on, each beside that of the next square.
///
/// # Safety
/// All 16 places are valid for `n` elements, and so is each of `to`, `step` apart; the machine has the vectors.
#[inline(always)]
unsafe fn input<V: Vector<T = f32>>(
    from: *const f32,
    at: &[usize; PLACES],
    n: usize,
    to: *mut f32,
    step: usize,
) {
    // SAFETY: the caller's promise; loads and stores end at the square n.
    unsafe {
        let whole = n >= V::N;
        let mask = V::lanes(0, n as isize);
        let mut d = [[V::splat(0.0); 4]; 4];
        for i in 0..PLACES {
            let from = from.wrapping_add(at[i]);
            d[i / 4][i % 4] = if whole { V::load(from) } else { V::load_where(mask, from) };
        }
        let mut t = d;
        for c in 0..4 {
            t[0][c] = d[0][c].sub(d[2][c]);
            t[1][c] = d[1][c].add(d[2][c]);
            t[2][c] = d[2][c].sub(d[1][c]);
            t[3][c] = d[1][c].sub(d[3][c]);
        }
        for (r, [a, b, c, d]) in t.into_iter().enumerate() {
            let all = [a.sub(c), b.add(c), c.sub(b), b.sub(d)];
            for (k, v) in all.into_iter().enumerate() {
                v.store_first(to.wrapping_add((r * 4 + k) * step), n);
            }
        }
    }
}

/// Two rows of results of `n` neighbouring squares, of `width` columns: `rows` may be one, at the lower border. Gives whether all
/// are finite.
///
/// # Safety
/// `from` is valid for `n` elements at each of the 16 places, `step` apart; both rows for `width` elements; the machine has the
/// vectors.
#[inline(always)]
unsafe fn output<V: Vector<T = f32>>(
    from: *const f32,
    step: usize,
    n: usize,
    bias: f32,
    rows: &[*mut f32],
    width: usize,
) -> bool {
    // SAFETY: the caller's promise; loads end at the square n, stores at the column `width`.
    unsafe {
        let whole = n >= V::N;
        let mask = V::lanes(0, n as isize);
        let zero = V::splat(0.0);
        let mut s = [[zero; 4]; 2];
        for c in 0..4 {
            let place = |r: usize| {
                let from = from.wrapping_add((4 * r + c) * step);
                if whole { V::load(from) } else { V::load_where(mask, from) }
            };
            let (b, c2) = (place(1), place(2));
            let (plus, minus) = (b.add(c2), b.sub(c2));
            s[0][c] = place(0).add(plus);
            s[1][c] = minus.sub(place(3));
        }
        let bias = V::splat(bias);
        let mut bad = zero;
        for (to, [a, b, c, d]) in rows.iter().zip(s) {
            let (plus, minus) = (b.add(c), b.sub(c));
            let even = a.add(plus).add(bias);
            let odd = minus.sub(d).add(bias);
            // 0 times what is not finite is NaN, and stays
            bad = odd.fma(zero, even.fma(zero, bad));
            let (low, high) = V::together(even, odd);
            low.store_first(*to, width);
            if width > V::N {
                high.store_first(to.wrapping_add(V::N), width - V::N);
            }
        }
        !bad.has_nan()
    }
}

/// From place to place of so many transformed weights: places a power of two apart share few places of the first cache level.
fn apart(weights: usize) -> usize {
    (weights.div_ceil(LANES) | 1) * LANES
}

/// The weights for [`Plan::results`].
#[derive(Clone, Copy)]
enum Weights<'a> {
    /// Transformed, all of them.
    Ready(&'a [f32]),
    /// As they came.
    Raw(&'a [f32]),
}

/// Sizes and steps of one convolution.
struct Plan<'a> {
    /// Source channels, result channels, images.
    channels: usize,
    rows: usize,
    images: usize,
    /// Extents of a source and of a result.
    from: [usize; 3],
    to: [usize; 3],
    /// Squares of a result, down and across.
    high: usize,
    wide: usize,
    /// How a source channel lies in its copy, by the remainders of its rows and columns by 2.
    grid: Grid,
    /// Steps in the weight from result channel to result channel and from source channel to source channel; whether its taps
    /// are read backwards.
    steps: (usize, usize),
    flip: bool,
    bias: Option<&'a [f32]>,
}

impl<'a> Plan<'a> {
    /// `None` where another way is faster.
    fn new(s: &ConvShape, flip: bool, bias: Option<&'a [f32]>) -> Option<Self> {
        let flat = s.kernel == [1, 3, 3] && s.stride == [1; 3] && s.dilation == [1; 3] && s.pad[0] == 0;
        // Behind a wider border some results see few terms, and would have the errors of their neighbours' many.
        let flat = flat && s.pad[1] <= 1 && s.pad[2] <= 1;
        if !available()
            || !flat
            || s.groups != 1
            || s.input[0] != 1
            || s.c < 32
            || s.o < 32
            || s.in_plane() == 0
        {
            return None;
        }
        let (high, wide) = (s.output[1].div_ceil(2), s.output[2].div_ceil(2));
        // In cycles, about: what is multiplied here and directly, and what the transforms take.
        let vectors = |n: usize| n.div_ceil(LANES) as f64;
        let (pairs, channels) = (s.c as f64 * s.o as f64, (s.c + s.o) as f64);
        let multiplied = PLACES as f64 * vectors(s.n * high * wide) * pairs;
        let transformed = 80.0 * vectors(wide) * (s.n * high) as f64 * channels + 16.0 * pairs;
        let direct = TAPS as f64 * vectors(s.n * s.out_plane()) * pairs;
        if (multiplied + transformed) * 1.2 > direct {
            return None;
        }
        let grid = Grid::new([1, 2, 2], [1, high + 1, wide + 1], s.pad, s.moved())?;
        let steps = if flip { (TAPS, s.o * TAPS) } else { (s.c * TAPS, TAPS) };
        Some(Plan {
            channels: s.c,
            rows: s.o,
            images: s.n,
            from: s.input,
            to: s.output,
            high,
            wide,
            grid,
            steps,
            flip,
            bias,
        })
    }
    /// Rows of squares that are computed together: few enough for the caches, and as many as fill vectors.
    fn rows_at_once(&self) -> usize {
        let most = (NEAR / (4 * PLACES * self.channels)).clamp(LANES, SQUARES).div_ceil(self.wide);
        let most = most.min(self.images * self.high).max(1);
        let lost = |rows: &usize| {
            let n = rows * self.wide;
            (n.next_multiple_of(LANES) - n) * 1000 / n
        };
        (most.div_ceil(2)..=most).rev().min_by_key(lost).unwrap_or(most)
    }
    /// The whole convolution; false if it has to be computed otherwise.
    fn run(&self, x: &[f32], w: &[f32], out: &mut [f32]) -> bool {
        let (len, plane) = (self.grid.len, self.from.iter().product::<usize>());
        let planes = self.images * self.channels;
        let (once, total) = (self.rows_at_once(), self.images * self.high);
        let chunks = total.div_ceil(once);
        // Weights that serve one chunk alone are transformed where they are needed: all of them would go through the memory.
        let size = if chunks > 1 { apart(self.rows * self.channels) } else { 0 };
        with_scratch::<f32, _>(planes * (len + 2) + PLACES * size, |buf| {
            let (copies, rest) = buf.split_at_mut(planes * len);
            let (extents, weights) = rest.split_at_mut(2 * planes);
            let (copied, all) = (SharedMut::new(copies), SharedMut::new(weights));
            let sizes = SharedMut::new(extents);
            let parts = 4 * num_threads();
            parallel_chunks(parts, &|i| {
                for p in i * planes / parts..(i + 1) * planes / parts {
                    // SAFETY: plane `p` is this chunk's own.
                    let (to, extent) = unsafe { (copied.slice(p * len, len), sizes.slice(2 * p, 2)) };
                    let x = &x[p * plane..][..plane];
                    extent.copy_from_slice(&isa::run(Extent(x)));
                    self.grid.pack(self.from, x, to);
                }
                let rows = if chunks > 1 { self.rows } else { 0 };
                for r in i * rows / parts..(i + 1) * rows / parts {
                    // SAFETY: the weights of result channel `r`, at all places, are this chunk's own.
                    unsafe { self.weights_of(w, r, all.ptr().wrapping_add(r * self.channels), size) };
                }
            });
            let (copies, weights) =
                (&*copies, if chunks > 1 { Weights::Ready(weights) } else { Weights::Raw(w) });
            let even = |image: &[f32]| {
                let planes = image.as_chunks::<2>().0;
                let squares = planes.iter().map(|e| f64::from(e[0])).sum::<f64>();
                let most = planes.iter().fold(0.0, |a, e| e[1].max(a));
                let mean = squares / (self.channels * plane) as f64;
                squares.is_finite() && f64::from(most) <= BEYOND * mean.sqrt()
            };
            if !extents.chunks_exact(2 * self.channels).all(even) {
                return false;
            }
            let blocks = self.rows.div_ceil(ROWS);
            // result channels are shared out where there are few squares
            let parts = if chunks >= 2 * num_threads() { 1 } else { num_threads().min(blocks) };
            let (results, finite) = (SharedMut::new(out), AtomicBool::new(true));
            parallel_chunks(chunks * parts, &|i| {
                let (chunk, part) = (i / parts, i % parts);
                let squares = chunk * once..((chunk + 1) * once).min(total);
                let blocks = part * blocks / parts..(part + 1) * blocks / parts;
                // SAFETY: these results are this chunk's own.
                if !unsafe { self.results(copies, weights, squares, blocks, results.ptr()) } {
                    finite.store(false, Ordering::Relaxed);
                }
            });
            finite.into_inner()
        })
    }
    /// The transformed weights of result channel `r`, `size` from place to place.
    ///
    /// # Safety
    /// `to` is valid for them, and nobody uses them meanwhile.
    unsafe fn weights_of(&self, w: &[f32], r: usize, to: *mut f32, size: usize) {
        let (row, channel) = self.steps;
        let mut taps = [0.0; TAPS * COLS];
        for c in (0..self.channels).step_by(COLS) {
            let n = COLS.min(self.channels - c);
            let from = &w[r * row + c * channel..];
            assert!(from.len() >= (n - 1) * channel + TAPS);
            // The taps of a few channels lie in each line: the machine takes that for no stream.
            for i in 2 * COLS..3 * COLS {
                prefetch(from.as_ptr().wrapping_add(i * channel).cast());
            }
            // SAFETY: the weight's length was just checked; there is room for the taps.
            unsafe { turn(from.as_ptr(), channel, n, TAPS, taps.as_mut_ptr()) };
            f32::run(
                isa::level(),
                Transform { taps: &taps, flip: self.flip, n, to: to.wrapping_add(c), step: size },
            );
        }
    }
    /// The results of some rows of squares in some blocks of channels; false if one is not finite.
    ///
    /// # Safety
    /// `out` is valid for all results, and nobody uses these meanwhile.
    unsafe fn results(
        &self,
        copies: &[f32],
        weights: Weights,
        squares: Range<usize>,
        blocks: Range<usize>,
        out: *mut f32,
    ) -> bool {
        let (wide, c) = (self.wide, self.channels);
        let n = squares.len() * wide;
        // an odd number of vectors, so that the rows of a matrix do not share few places of the first cache level
        let step = (n.div_ceil(LANES) | 1) * LANES;
        let own = if matches!(weights, Weights::Raw(_)) { apart(ROWS * c) } else { 0 };
        let each = apart(c * step);
        // Where a square's 16 elements lie, from its own place in the copy on.
        let offsets: [usize; PLACES] = std::array::from_fn(|k| {
            let (a, b) = (k / 4, k % 4);
            self.grid.phase([0, a % 2, b % 2]) + self.grid.at([0, a / 2, b / 2])
        });
        let furthest = offsets.into_iter().max().unwrap_or(0);
        with_scratch::<f32, _>(PLACES * (each + ROWS * step + own), |buf| {
            let (moved, buf) = buf.split_at_mut(PLACES * each);
            let (products, own_weights) = buf.split_at_mut(PLACES * ROWS * step);
            f32::run(
                isa::level(),
                Inputs {
                    plan: self,
                    copies,
                    squares: squares.clone(),
                    offsets: &offsets,
                    furthest,
                    moved,
                    step,
                    each,
                },
            );
            let mut terms = [(0u32, 0u32); DEPTH];
            terms.iter_mut().enumerate().for_each(|(k, t)| *t = (k as u32, (k * step) as u32));
            let mut finite = true;
            for r in blocks.clone().map(|b| b * ROWS) {
                let m = ROWS.min(self.rows - r);
                let (all, size) = match weights {
                    Weights::Ready(all) => (&all[r * c..], apart(self.rows * c)),
                    Weights::Raw(w) => {
                        for i in 0..m {
                            // SAFETY: the weights of a result channel, at all places, in this call's own memory.
                            unsafe { self.weights_of(w, r + i, own_weights[i * c..].as_mut_ptr(), own) };
                        }
                        (&*own_weights, own)
                    }
                };
                for place in 0..PLACES {
                    let (left, right) = (&all[place * size..], &moved[place * each..]);
                    for k in (0..c).step_by(DEPTH) {
                        column_tiles(n, |j, n| {
                            let t = Tile {
                                rows: std::array::from_fn(|i| left[i.min(m - 1) * c + k..].as_ptr()),
                                m,
                                b: right[k * step + j..].as_ptr(),
                                outer: 1,
                                a_step: 0,
                                b_step: 0,
                                inner: &terms[..DEPTH.min(c - k)],
                                n,
                                c: products[place * ROWS * step + j..].as_mut_ptr(),
                                ldc: step,
                                add: k > 0,
                            };
                            // SAFETY: a tile of both transforms; `products` has ROWS rows for each place.
                            unsafe { tile_ahead(&t, AHEAD * step) };
                        });
                    }
                }
                let products = &*products;
                f32::run(
                    isa::level(),
                    Outputs {
                        plan: self,
                        products,
                        step,
                        squares: squares.clone(),
                        first: r,
                        m,
                        out,
                        finite: &mut finite,
                    },
                );
            }
            finite
        })
    }
}

/// Transforms some rows of squares of all channels.
struct Inputs<'a> {
    plan: &'a Plan<'a>,
    copies: &'a [f32],
    squares: Range<usize>,
    /// Where a square's elements lie, from its own place in the copy on, and the furthest of these places.
    offsets: &'a [usize; PLACES],
    furthest: usize,
    moved: &'a mut [f32],
    /// From channel to channel and from place to place of what is transformed.
    step: usize,
    each: usize,
}
impl Body<f32> for Inputs<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector<T = f32>>(self) {
        let Inputs { plan, copies, squares, offsets, furthest, moved, step, each } = self;
        let (wide, c, len) = (plan.wide, plan.channels, plan.grid.len);
        for channel in 0..c {
            for (i, row) in squares.clone().enumerate() {
                let (image, high) = (row / plan.high, row % plan.high);
                let plane = &copies[(image * c + channel) * len..][..len];
                let row = plan.grid.at([0, high, 0]);
                assert!(row + wide + furthest <= plane.len());
                let to = &mut moved[channel * step + i * wide..];
                assert!(to.len() >= (PLACES - 1) * each + wide);
                for first in (0..wide).step_by(V::N) {
                    let (from, to) = (plane[row + first..].as_ptr(), to[first..].as_mut_ptr());
                    // SAFETY: squares of this row, in the copy and in the transformed input, as just checked.
                    unsafe { input::<V>(from, offsets, V::N.min(wide - first), to, each) };
                }
            }
        }
    }
}

/// The results of some rows of squares in `m` channels from the `first` on, from their products. All results are valid in `out`, and
/// nobody uses these meanwhile.
struct Outputs<'a> {
    plan: &'a Plan<'a>,
    products: &'a [f32],
    step: usize,
    squares: Range<usize>,
    first: usize,
    m: usize,
    out: *mut f32,
    finite: &'a mut bool,
}
impl Body<f32> for Outputs<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector<T = f32>>(self) {
        let (plan, step) = (self.plan, self.step);
        let ([_, h, w], wide) = (plan.to, plan.wide);
        for i in 0..self.m {
            let bias = plan.bias.map_or(0.0, |b| b[self.first + i]);
            for (k, row) in self.squares.clone().enumerate() {
                let (image, high) = (row / plan.high, row % plan.high);
                let first = ((image * plan.rows + self.first + i) * h + 2 * high) * w;
                let count = if 2 * high + 1 < h { 2 } else { 1 };
                let from = &self.products[i * step + k * wide..];
                assert!(from.len() >= (PLACES - 1) * ROWS * step + wide);
                for j in (0..wide).step_by(V::N) {
                    let to = self.out.wrapping_add(first + 2 * j);
                    let rows = [to, to.wrapping_add(w)];
                    let (n, width) = (V::N.min(wide - j), (w - 2 * j).min(2 * V::N));
                    // SAFETY: `from` has these places, as just checked; the results are valid.
                    *self.finite &= unsafe {
                        output::<V>(from[j..].as_ptr(), ROWS * step, n, bias, &rows[..count], width)
                    };
                }
            }
        }
    }
}

/// Whether the convolution is computed here.
#[cfg(test)]
pub(super) fn serves(s: &ConvShape) -> bool {
    Plan::new(s, false, None).is_some()
}
/// The convolution; false if it has to be computed otherwise.
pub(super) fn forward(s: &ConvShape, x: &[f32], w: &[f32], bias: Option<&[f32]>, out: &mut [f32]) -> bool {
    Plan::new(s, false, bias).is_some_and(|p| p.run(x, w, out))
}
/// The gradient for the input, where `mirrored` is the convolution that computes it from that of the results with the same
/// weight, transposed and read backwards; false if it has to be computed otherwise.
pub(super) fn backward_input(
    mirrored: &ConvShape,
    gy: &[f32],
    w: &[f32],
    bias: Option<&[f32]>,
    gx: &mut [f32],
) -> bool {
    Plan::new(mirrored, true, bias).is_some_and(|p| p.run(gy, w, gx))
}
