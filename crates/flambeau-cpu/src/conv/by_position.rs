//! f32 convolutions by vectors without a matrix of patches. Images are copied once, with their zero border and sorted by
//! the remainders of the stride; the values that one tap contributes to neighbouring results are then neighbours in memory,
//! and so are those of the rows below but for a few columns that are computed in vain.

use super::by_patches::mirrored_lead;
use super::shape::ConvShape;
use crate::blas::unpacked::{COLS, LINE, ROWS, Store, Tile, available, column_tiles, near, store, tile};
use crate::copy::transpose::transpose_copy;
use crate::engine::SharedMut;
use crate::engine::cache::prefetch_later;
use crate::engine::isa::{Level, level};
use crate::engine::parallel::{num_threads, parallel_chunks};
use crate::engine::room::room;
use crate::engine::scratch::with_scratch;
use crate::engine::span::{in_proportion, product_of};

/// Terms of a sum that are taken at a time, so that what they read stays in the first cache level.
const DEPTH: usize = 320;
/// Elements of a weight that stays in the second cache level beside all else.
const WEIGHT: usize = 262_144;
/// Running sums that stay in the second cache level beside the part of the weight they need.
const SUMS: usize = 65_536;

/// Elements from channel to channel, at least `len`. What a tile reads of each channel would share few places of the first cache level
/// where channels are whole ways of it apart, or halves, or nearly so.
fn spread(len: usize) -> usize {
    const HALF_WAY: usize = 2048 / size_of::<f32>();
    const READ: usize = 96;
    let over = len % HALF_WAY;
    match len < HALF_WAY {
        true => len,
        false if over < READ => len - over + READ,
        false if HALF_WAY - over < READ => len - over + HALF_WAY + READ,
        false => len,
    }
}

/// How a channel lies in its copy: `[remainder; 3]` planes of `[size; 3]`.
pub(super) struct Grid {
    /// Remainders per dimension.
    phases: [usize; 3],
    /// Extent of each plane.
    size: [usize; 3],
    /// Zeros before the image.
    lead: [usize; 3],
    /// Elements of a channel.
    pub(super) len: usize,
}
impl Grid {
    /// `None` where the copy is out of proportion to the `moved` elements that are read and written.
    pub(super) fn new(phases: [usize; 3], size: [usize; 3], lead: [usize; 3], moved: usize) -> Option<Self> {
        let len = phases.iter().chain(&size).try_fold(1usize, |a, b| a.checked_mul(*b));
        if !in_proportion(len, moved) {
            return None;
        }
        let len = spread(len.filter(|n| u32::try_from(*n).is_ok())?);
        Some(Grid { phases, size, lead, len })
    }
    /// The copy of a convolution's input.
    fn input(s: &ConvShape) -> Option<Self> {
        let size = [0, 1, 2].map(|d| (s.input[d] + 2 * s.pad[d]).div_ceil(s.stride[d]));
        Self::new(s.stride, size, s.pad, s.moved())
    }
    /// Where in a plane of a remainder.
    pub(super) fn at(&self, p: [usize; 3]) -> usize {
        (p[0] * self.size[1] + p[1]) * self.size[2] + p[2]
    }
    /// Where among the planes' starts.
    pub(super) fn phase(&self, r: [usize; 3]) -> usize {
        ((r[0] * self.phases[1] + r[1]) * self.phases[2] + r[2]) * self.size.iter().product::<usize>()
    }
    /// Copies one channel of extent `from`.
    pub(super) fn pack(&self, from: [usize; 3], x: &[f32], to: &mut [f32]) {
        to.fill(0.0);
        for (r, row) in x.chunks_exact(from[2]).enumerate() {
            let p = [r / from[1] + self.lead[0], r % from[1] + self.lead[1]];
            let [d, h] = [0, 1].map(|i| (p[i] % self.phases[i], p[i] / self.phases[i]));
            let step = self.phases[2];
            for phase in 0..step.min(from[2]) {
                // the first column that lands in this plane, and its place there
                let column = phase + self.lead[2];
                let at = self.phase([d.0, h.0, column % step]) + self.at([d.1, h.1, column / step]);
                let count = (from[2] - phase).div_ceil(step);
                let to = &mut to[at..at + count];
                match step {
                    1 => to.copy_from_slice(row),
                    2 => to.iter_mut().zip(row[phase..].iter().step_by(2)).for_each(|(t, v)| *t = *v),
                    _ => to.iter_mut().zip(row[phase..].iter().step_by(step)).for_each(|(t, v)| *t = *v),
                }
            }
        }
    }
}

/// Calls `f(number, shift)` for each tap.
fn each_tap(s: &ConvShape, mut f: impl FnMut(usize, [usize; 3])) {
    let [kd, kh, kw] = s.kernel;
    for t in 0..kd * kh * kw {
        let k = [t / (kh * kw), t / kw % kh, t % kw];
        f(t, [0, 1, 2].map(|d| k[d] * s.dilation[d]));
    }
}

/// Results that one set of taps serves: position `q` of the copy's grid is the result at `q * step + off`, if that is
/// inside `limit`.
pub(super) struct Sweep {
    /// Places in the weight and in a channel's copy.
    pub(super) taps: Vec<(u32, u32)>,
    pub(super) positions: usize,
    pub(super) step: [usize; 3],
    off: [isize; 3],
}

/// A convolution as sums over source channels and taps.
pub(super) struct Plan<'a> {
    pub(super) grid: Grid,
    pub(super) sweeps: Vec<Sweep>,
    /// Extents of a source channel and of a result channel.
    pub(super) from: [usize; 3],
    pub(super) limit: [usize; 3],
    /// Channels of the source and of the result, per group.
    pub(super) channels: usize,
    pub(super) rows: usize,
    /// Taps of the weight.
    pub(super) taps: usize,
    /// Steps in the weight: from group to group, result channel to result channel, source channel to source channel.
    pub(super) weight: [usize; 3],
    pub(super) bias: Option<&'a [f32]>,
}
impl<'a> Plan<'a> {
    fn forward(s: &ConvShape, bias: Option<&'a [f32]>) -> Option<Self> {
        let grid = Grid::input(s)?;
        let (cg, og, count) = (s.c / s.groups, s.o / s.groups, s.taps());
        let mut taps = room(count);
        each_tap(s, |t, shift| {
            let r = [0, 1, 2].map(|d| shift[d] % s.stride[d]);
            let q = [0, 1, 2].map(|d| shift[d] / s.stride[d]);
            taps.push((t as u32, (grid.phase(r) + grid.at(q)) as u32));
        });
        let positions = grid.at(s.output.map(|o| o - 1)) + 1;
        let sweeps = vec![Sweep { taps, positions, step: [1; 3], off: [0; 3] }];
        let weight = [og * cg * count, cg * count, count];
        Some(Plan {
            grid,
            sweeps,
            from: s.input,
            limit: s.output,
            channels: cg,
            rows: og,
            taps: count,
            weight,
            bias,
        })
    }
    /// The gradient for the input: the results of each remainder of the stride have their own taps.
    fn backward(s: &ConvShape, bias: Option<&'a [f32]>) -> Option<Self> {
        let lead = [0, 1, 2].map(|d| mirrored_lead(s, d));
        let most = [0, 1, 2].map(|d| (s.input[d] - 1 + s.pad[d]) / s.stride[d] + 1);
        let size = [0, 1, 2].map(|d| lead[d] + most[d].max(s.output[d]));
        let grid = Grid::new([1; 3], size, lead, s.moved())?;
        // one sweep for each remainder of the stride
        if !in_proportion(product_of(&s.stride), s.moved()) {
            return None;
        }
        let (cg, og, count) = (s.c / s.groups, s.o / s.groups, s.taps());
        let mut sweeps = Vec::new();
        let [sd, sh, sw] = s.stride;
        for i in 0..sd * sh * sw {
            let r = [i / (sh * sw), i / sw % sh, i % sw];
            let inside = |d: usize| (s.input[d] - 1 + s.pad[d]).checked_sub(r[d]).map(|n| n / s.stride[d]);
            let (Some(a), Some(b), Some(c)) = (inside(0), inside(1), inside(2)) else { continue };
            let mut taps = Vec::new();
            each_tap(s, |t, shift| {
                if (0..3).all(|d| shift[d] % s.stride[d] == r[d]) {
                    let q = [0, 1, 2].map(|d| lead[d] - shift[d] / s.stride[d]);
                    taps.push((t as u32, grid.at(q) as u32));
                }
            });
            let off = [0, 1, 2].map(|d| r[d] as isize - s.pad[d] as isize);
            sweeps.push(Sweep { taps, positions: grid.at([a, b, c]) + 1, step: s.stride, off });
        }
        let weight = [og * cg * count, count, cg * count];
        Some(Plan {
            grid,
            sweeps,
            from: s.output,
            limit: s.input,
            channels: og,
            rows: cg,
            taps: count,
            weight,
            bias,
        })
    }
    /// Whether little is computed in vain.
    fn pays(&self) -> bool {
        let (all, rows): (usize, usize) =
            (self.sweeps.iter().map(|s| s.positions).sum(), self.rows.next_multiple_of(ROWS));
        let useful = self.limit.iter().product::<usize>() * self.rows;
        all as f64 * rows as f64 <= 1.7 * useful as f64
    }
    /// Results of one image and group at some positions of a sweep.
    fn run(&self, sweep: &Sweep, src: &[f32], w: &[f32], bias: &[f32], range: (usize, usize), out: *mut f32) {
        let plane = self.limit.iter().product::<usize>();
        let [_, row_step, channel_step] = self.weight;
        // Equal blocks. One that is a little too large costs less than sums that are read again.
        let (terms, depth) = (self.channels * sweep.taps.len(), near(DEPTH));
        let blocks = if terms <= depth * 5 / 4 { 1 } else { terms.div_ceil(depth) };
        let block = self.channels.div_ceil(blocks).max(1);
        let mut tiles = room((range.1 - range.0).div_ceil(COLS));
        let mut pieces = room(COLS);
        column_tiles(range.1 - range.0, |p, n| {
            self.pieces(sweep, range.0 + p, n, &mut pieces);
            if !pieces.is_empty() {
                tiles.push((range.0 + p, n));
            }
        });
        // A weight that does not stay in the cache by itself: that of some channels serves several tiles in a row.
        let large = self.rows * self.channels * sweep.taps.len() > WEIGHT;
        let group = if large { (SUMS / (self.rows * COLS)).clamp(1, tiles.len().max(1)) } else { 1 };
        with_scratch::<f32, _>(self.rows * COLS * group, |acc| {
            for tiles in tiles.chunks(group) {
                // one tile's results are on their way while its sums are computed: channels are so far apart that each has lines
                // of its own, of which the machine knows nothing before the first is stored
                let ask = match tiles {
                    [(p, n)] if sweep.step[2] == 1 => {
                        self.pieces(sweep, *p, *n, &mut pieces);
                        true
                    }
                    _ => false,
                };
                for c in (0..self.channels).step_by(block) {
                    for i in (0..self.rows).step_by(ROWS) {
                        if ask && c + block >= self.channels {
                            for (_, n, to) in &pieces {
                                for r in i..self.rows.min(i + ROWS) {
                                    let row = out.wrapping_add(to + r * plane);
                                    (0..*n)
                                        .step_by(LINE)
                                        .for_each(|e| prefetch_later(row.wrapping_add(e).cast()));
                                    prefetch_later(row.wrapping_add(n - 1).cast());
                                }
                            }
                        }
                        let row =
                            |r: usize| w[(i + r).min(self.rows - 1) * row_step + c * channel_step..].as_ptr();
                        let rows = std::array::from_fn(row);
                        for (&(p, n), acc) in tiles.iter().zip(acc.chunks_exact_mut(self.rows * COLS)) {
                            let t = Tile {
                                rows,
                                m: ROWS.min(self.rows - i),
                                b: src[c * self.grid.len + p..].as_ptr(),
                                outer: block.min(self.channels - c),
                                a_step: channel_step,
                                b_step: self.grid.len,
                                inner: &sweep.taps,
                                n,
                                c: acc[i * COLS..].as_mut_ptr(),
                                ldc: COLS,
                                add: c > 0,
                            };
                            // SAFETY: taps stay inside the weight's and the copy's channels; `acc` has a row per
                            // result channel.
                            unsafe { tile(&t) };
                        }
                    }
                }
                for (&(p, n), acc) in tiles.iter().zip(acc.chunks_exact(self.rows * COLS)) {
                    self.pieces(sweep, p, n, &mut pieces);
                    for &(first, n, to) in &pieces {
                        let to = out.wrapping_add(to);
                        let s = Store { from: acc, first, n, bias, to, row: plane, step: sweep.step[2] };
                        // SAFETY: these results are inside the plane, and this chunk's own.
                        unsafe { store(&s) };
                    }
                }
            }
        });
    }
    /// The runs of results among `n` positions: first position, number, place in the plane.
    pub(super) fn pieces(&self, sweep: &Sweep, first: usize, n: usize, to: &mut Vec<(usize, usize, usize)>) {
        to.clear();
        let [_, h, w] = self.grid.size;
        let mut p = first;
        while p < first + n {
            let q = [p / (w * h), p / w % h, p % w];
            let end = (p - q[2] + w).min(first + n);
            let place = |d: usize, q: usize| {
                let i = (q * sweep.step[d]).checked_add_signed(sweep.off[d]);
                i.filter(|i| *i < self.limit[d])
            };
            if let (Some(a), Some(b)) = (place(0, q[0]), place(1, q[1])) {
                // columns before the first and behind the last result
                let from = (0..end - p).find(|j| place(2, q[2] + j).is_some());
                if let Some(from) = from {
                    let c = place(2, q[2] + from).unwrap_or(0);
                    let count = (end - p - from).min((self.limit[2] - c).div_ceil(sweep.step[2]));
                    to.push((p + from - first, count, (a * self.limit[1] + b) * self.limit[2] + c));
                }
            }
            p = end;
        }
    }
    /// All images in the way that costs least; false if that is none of those here.
    fn start(&self, n: usize, groups: usize, x: &[f32], w: &[f32], out: &mut [f32]) -> bool {
        if self.turning_pays(n) {
            self.all_turned(n, groups, x, w, out);
        } else if self.pays() {
            self.all(n, groups, x, w, out);
        } else {
            return false;
        }
        true
    }
    /// All images; `x` and `out` hold them one after the other.
    fn all(&self, n: usize, groups: usize, x: &[f32], w: &[f32], out: &mut [f32]) {
        let (from, to) = (self.from.iter().product::<usize>(), self.limit.iter().product::<usize>());
        let (len, units, threads) = (self.grid.len, n * groups, num_threads());
        let shared = SharedMut::new(out);
        let source = |unit: usize| &x[unit * self.channels * from..][..self.channels * from];
        let part = |unit: usize, sweep: &Sweep, src: &[f32], range: (usize, usize)| {
            let g = unit % groups;
            let bias = self.bias.map_or(&[][..], |b| &b[g * self.rows..(g + 1) * self.rows]);
            let out = shared.ptr().wrapping_add(unit * self.rows * to);
            self.run(sweep, src, &w[g * self.weight[0]..], bias, range, out);
        };
        if threads == 1 || units >= 4 * threads || units % threads == 0 {
            return parallel_chunks(units, &|unit| {
                with_scratch::<f32, _>(self.channels * len, |src| {
                    let channels = source(unit).chunks_exact(from).zip(src.chunks_exact_mut(len));
                    channels.for_each(|(x, to)| self.grid.pack(self.from, x, to));
                    self.sweeps.iter().for_each(|s| part(unit, s, src, (0, s.positions)));
                });
            });
        }
        for unit in 0..units {
            with_scratch::<f32, _>(self.channels * len, |src| {
                let whole = SharedMut::new(src);
                let many = self.channels.min(4 * threads);
                parallel_chunks(many, &|i| {
                    for c in i * self.channels / many..(i + 1) * self.channels / many {
                        // SAFETY: channel `c` is this chunk's own.
                        let to = unsafe { whole.slice(c * len, len) };
                        self.grid.pack(self.from, &source(unit)[c * from..(c + 1) * from], to);
                    }
                });
                for s in &self.sweeps {
                    let tiles = s.positions.div_ceil(COLS);
                    let many = tiles.min(4 * threads);
                    parallel_chunks(many, &|i| {
                        let at = |i: usize| (i * tiles / many * COLS).min(s.positions);
                        part(unit, s, src, (at(i), at(i + 1)));
                    });
                }
            });
        }
    }
}

/// Multiply-adds below which preparing costs more than it gains.
const SMALL: usize = 20_000;
fn serves(s: &ConvShape) -> bool {
    let macs = [s.c / s.groups, s.o, s.taps(), s.out_plane()].into_iter().fold(1, usize::saturating_mul);
    available() && macs >= SMALL && s.in_plane() > 0
}

/// The convolution; false if it has to be computed otherwise.
pub(super) fn forward(s: &ConvShape, x: &[f32], w: &[f32], bias: Option<&[f32]>, out: &mut [f32]) -> bool {
    if !serves(s) || s.pointwise() {
        return false;
    }
    Plan::forward(s, bias).is_some_and(|p| p.start(s.n, s.groups, x, w, out))
}
/// Whether the forward pass takes the way of [`super::turned`].
#[cfg(test)]
pub(super) fn turns(s: &ConvShape) -> bool {
    Plan::forward(s, None).is_some_and(|p| p.turning_pays(s.n))
}
/// The gradient for the input; false if it has to be computed otherwise.
pub(super) fn backward_input(
    s: &ConvShape,
    gy: &[f32],
    w: &[f32],
    bias: Option<&[f32]>,
    gx: &mut [f32],
) -> bool {
    if !serves(s) || s.pointwise() {
        return false;
    }
    Plan::backward(s, bias).is_some_and(|p| p.start(s.n, s.groups, gy, w, gx))
}

/// The gradient for the weight; false if it has to be computed otherwise.
pub(super) fn backward_weight(s: &ConvShape, x: &[f32], gy: &[f32], gw: &mut [f32]) -> bool {
    let (cg, og, count) = (s.c / s.groups, s.o / s.groups, s.taps());
    let [od, oh, ow] = s.output;
    let wasted = og.next_multiple_of(16) as f64 > 1.6 * og as f64;
    // With AVX2 tiles are small beside what is turned for them: few rows, or few terms, are too few to make up for that.
    let positions = s.n.saturating_mul(s.out_plane());
    // tests see the seams of small ones too
    let short = !cfg!(test) && level() < Level::V4 && (cg * count < 3 * ROWS || positions < 512);
    if !serves(s) || s.pointwise() || wasted || short || cg * count < ROWS || og > 1 << 16 {
        return false;
    }
    let Some(grid) = Grid::input(s) else { return false };
    let mut offsets = room(count);
    each_tap(s, |_, shift| {
        let r = [0, 1, 2].map(|d| shift[d] % s.stride[d]);
        offsets.push(grid.phase(r) + grid.at([0, 1, 2].map(|d| shift[d] / s.stride[d])));
    });
    let (len, ip, k) = (s.out_plane(), s.in_plane(), cg * count);
    let depth = near(DEPTH);
    let width = ow.min(depth);
    let height = (depth / ow).clamp(1, oh);
    let parts = (4 * num_threads()).div_ceil(s.groups).min(cg);
    let parts = if num_threads() == 1 { 1 } else { parts };
    let shared = SharedMut::new(gw);
    with_scratch::<f32, _>(gy.len(), |turned| {
        let all = SharedMut::new(turned);
        parallel_chunks(s.n * s.groups, &|i| {
            // SAFETY: this image's and group's own part.
            let to = unsafe { all.slice(i * og * len, og * len) };
            // A panel for each tile of columns: rows of all of them would lie a power of two apart, often, and share few places of
            // the first cache level.
            column_tiles(og, |j, n| {
                let (to, from) = (&mut to[j * len..][..n * len], &gy[(i * og + j) * len..][..n * len]);
                // SAFETY: `[n, len]` becomes `[len, n]`.
                unsafe {
                    let (to, from) = (to.as_mut_ptr().cast(), from.as_ptr().cast());
                    transpose_copy(to, n as isize * 4, from, len as isize * 4, len, n, 4);
                }
            });
        });
        parallel_chunks(s.groups * parts, &|chunk| {
            let (g, part) = (chunk / parts, chunk % parts);
            let channels = part * cg / parts..(part + 1) * cg / parts;
            let rows = channels.len() * count;
            with_scratch::<f32, _>(channels.len() * grid.len + rows * og, |buf| {
                let (src, acc) = buf.split_at_mut(channels.len() * grid.len);
                let mut inner = [(0u32, 0u32); DEPTH];
                acc.fill(0.0);
                for n in 0..s.n {
                    let x = &x[(n * s.c + g * cg + channels.start) * ip..][..channels.len() * ip];
                    let each = x.chunks_exact(ip).zip(src.chunks_exact_mut(grid.len));
                    each.for_each(|(x, to)| grid.pack(s.input, x, to));
                    let gy = &turned[(n * s.groups + g) * og * len..][..og * len];
                    let mut block = |[d, h, c]: [usize; 3], outer: usize, across: usize| {
                        column_tiles(og, |j, n| {
                            for (i, term) in inner.iter_mut().enumerate().take(across) {
                                *term = (i as u32, (i * n) as u32);
                            }
                            for i in (0..rows).step_by(ROWS) {
                                let row = |r: usize| {
                                    let r = (i + r).min(rows - 1);
                                    let at = r / count * grid.len + offsets[r % count];
                                    src[at + grid.at([d, h, c])..].as_ptr()
                                };
                                let t = Tile {
                                    rows: std::array::from_fn(row),
                                    m: ROWS.min(rows - i),
                                    b: gy[j * len + ((d * oh + h) * ow + c) * n..].as_ptr(),
                                    outer,
                                    a_step: grid.size[2],
                                    b_step: ow * n,
                                    inner: &inner[..across],
                                    n,
                                    c: acc[i * og + j..].as_mut_ptr(),
                                    ldc: og,
                                    add: true,
                                };
                                // SAFETY: results' positions shifted by a tap are inside the copy, and `acc` has a
                                // row per channel and tap.
                                unsafe { tile(&t) };
                            }
                        });
                    };
                    for d in 0..od {
                        for h in (0..oh).step_by(height) {
                            for c in (0..ow).step_by(width) {
                                block([d, h, c], height.min(oh - h), width.min(ow - c));
                            }
                        }
                    }
                }
                let to = shared.ptr().wrapping_add(g * og * k + channels.start * count).cast();
                // SAFETY: `[rows, og]` becomes `[og, rows]`, these channels' own columns of the group's weight.
                unsafe {
                    transpose_copy(to, k as isize * 4, acc.as_ptr().cast(), og as isize * 4, og, rows, 4)
                };
            });
        });
    });
    true
}
