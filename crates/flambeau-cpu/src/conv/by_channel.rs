//! f32 convolutions by vectors whose vectors run along the result's channels. Positions are the rows of a product, each
//! with its own place in the copied image, so none is computed in vain, and taps that see nothing but the border are left
//! out. The price is turning the weight and the results, which pays for small images and large batches.

use super::by_position::{Plan, Sweep};
use crate::blas::unpacked::{COLS, ROWS, Store, Tile, column_tiles, near, store, tile, turn};
use crate::engine::SharedMut;
use crate::engine::parallel::{num_threads, parallel_chunks};
use crate::engine::room::{collected, filled, room};
use crate::engine::scratch::with_scratch;

/// Terms of a sum that are taken at a time, so that their part of the turned weight stays in the first cache level.
const DEPTH: usize = 192;
/// Positions whose running sums stay in the second cache level.
const POSITIONS: usize = 960;
/// Multiply-adds that take as long as turning an element of the weight, or of the result.
const TURN: usize = 24;
/// Positions of an image, times taps, that are looked through for borders.
const LOOK: usize = 40_000;

/// Positions that need the same taps.
struct Class {
    /// Places in a channel's copy and in a channel's turned weight.
    taps: Vec<(u32, u32)>,
    /// Place in an image's copy and place in the result, from the start of image and group, for all images.
    at: Vec<(usize, usize)>,
}

/// The classes of one sweep over `images`, whose copies and results lie `steps` apart. What does not fill a register tile
/// is collected in a class with all taps: the copy's border is zero.
fn classes(plan: &Plan, sweep: &Sweep, images: usize, steps: (usize, usize)) -> Vec<Class> {
    let mut real = filled(0.0, plan.grid.len);
    plan.grid.pack(plan.from, &filled(1.0, plan.from.iter().product()), &mut real);
    let mut found: Vec<(u64, Vec<(usize, usize)>)> = Vec::new();
    let mut pieces = Vec::new();
    plan.pieces(sweep, 0, sweep.positions, &mut pieces);
    for &(first, count, place) in &pieces {
        for i in 0..count {
            let at = first + i;
            let sees = |(bit, tap): (usize, &(u32, u32))| ((real[at + tap.1 as usize] != 0.0) as u64) << bit;
            let key = sweep.taps.iter().enumerate().map(sees).sum();
            let here = (at, place + i * sweep.step[2]);
            match found.iter_mut().find(|(k, _)| *k == key) {
                Some((_, places)) => places.push(here),
                None => found.push((key, vec![here])),
            }
        }
    }
    let taps = |key: u64| -> Vec<(u32, u32)> {
        let all = sweep.taps.iter().enumerate().filter(|(bit, _)| key >> bit & 1 != 0);
        all.map(|(_, &(weight, copy))| (copy, weight * COLS as u32)).collect()
    };
    let mut rest = Class { taps: taps(u64::MAX), at: Vec::new() };
    let mut all = room(found.len() + 1);
    for (key, places) in found {
        let image = |i: usize| places.iter().map(move |p| (p.0 + i * steps.0, p.1 + i * steps.1));
        let mut at: Vec<_> = collected((0..images).flat_map(image));
        rest.at.extend(at.split_off(at.len() / ROWS * ROWS));
        all.push(Class { taps: taps(key), at });
    }
    all.push(rest);
    all.retain(|c| !c.at.is_empty());
    all
}

impl Plan<'_> {
    /// Whether turning costs less than what is computed in vain otherwise.
    pub(super) fn turning_pays(&self, n: usize) -> bool {
        let plane = self.limit.iter().product::<usize>();
        let few = |s: &Sweep| s.taps.len() <= 64 && s.positions * s.taps.len() <= LOOK;
        if self.rows < 16 || !self.sweeps.iter().all(few) {
            return false;
        }
        let padded = |n: usize, to: usize| n.next_multiple_of(to);
        let [mut plain, mut turned] =
            [0, TURN * (self.rows * self.channels * self.taps + n * plane * self.rows)];
        for s in &self.sweeps {
            let positions: usize = {
                let mut pieces = Vec::new();
                self.pieces(s, 0, s.positions, &mut pieces);
                pieces.iter().map(|p| p.1).sum()
            };
            let terms = s.taps.len() * self.channels;
            plain += n * terms * padded(s.positions, 16) * padded(self.rows, ROWS);
            turned += terms * padded(n * positions, ROWS) * padded(self.rows, 16);
        }
        turned * 20 < plain * 19
    }
    /// All images: as [`Plan::all`].
    pub(super) fn all_turned(&self, n: usize, groups: usize, x: &[f32], w: &[f32], out: &mut [f32]) {
        let (from, to) = (self.from.iter().product::<usize>(), self.limit.iter().product::<usize>());
        let (len, threads) = (self.grid.len, num_threads());
        let shared = SharedMut::new(out);
        let image = self.channels * len;
        with_scratch::<f32, _>(n * image, |copies| {
            for g in 0..groups {
                let whole = SharedMut::new(copies);
                let many = (n * self.channels).min(4 * threads);
                parallel_chunks(many, &|i| {
                    for c in i * n * self.channels / many..(i + 1) * n * self.channels / many {
                        let (image, channel) = (c / self.channels, c % self.channels);
                        let x = &x[((image * groups + g) * self.channels + channel) * from..][..from];
                        // SAFETY: channel `c` is this chunk's own.
                        let to = unsafe { whole.slice(c * len, len) };
                        self.grid.pack(self.from, x, to);
                    }
                });
                let (src, w) = (&*copies, &w[g * self.weight[0]..]);
                let bias = self.bias.map_or(&[][..], |b| &b[g * self.rows..(g + 1) * self.rows]);
                let results = shared.ptr().wrapping_add(g * self.rows * to);
                for sweep in &self.sweeps {
                    let steps = (image, groups * self.rows * to);
                    let classes = classes(self, sweep, n, steps);
                    let mut columns = Vec::new();
                    column_tiles(self.rows, |j, n| columns.push((j, n)));
                    // Positions are split as well where the channels are too few for the threads.
                    let parts = if threads == 1 { 1 } else { (2 * threads).div_ceil(columns.len()) };
                    let out = SharedPtr(results);
                    parallel_chunks(columns.len() * parts, &|i| {
                        let (j, n) = columns[i / parts];
                        self.turned(
                            &classes,
                            (i % parts, parts),
                            src,
                            w,
                            (j, n),
                            bias,
                            out.get().wrapping_add(j * to),
                        );
                    });
                }
            }
        });
    }
    /// Results of some channels, at one part of the positions.
    fn turned(
        &self,
        classes: &[Class],
        (part, parts): (usize, usize),
        src: &[f32],
        w: &[f32],
        (first, n): (usize, usize),
        bias: &[f32],
        out: *mut f32,
    ) {
        let plane = self.limit.iter().product::<usize>();
        let [_, row_step, channel_step] = self.weight;
        let depth = self.channels * self.taps;
        let block = (near(DEPTH) / self.taps).max(1);
        with_scratch::<f32, _>(depth * COLS + POSITIONS * COLS + COLS * COLS, |buf| {
            let (panel, rest) = buf.split_at_mut(depth * COLS);
            let (acc, square) = rest.split_at_mut(POSITIONS * COLS);
            let w = &w[first * row_step..];
            // The weight's terms lie behind each other, or channel by channel.
            let (pieces, long) =
                if channel_step == self.taps { (1, depth) } else { (self.channels, self.taps) };
            assert!(w.len() >= (pieces - 1) * channel_step + (n - 1) * row_step + long);
            for (c, to) in (0..pieces).zip(panel.chunks_exact_mut(long * COLS)) {
                // SAFETY: the weight's length was just checked; `to` has `long` rows.
                unsafe { turn(w[c * channel_step..].as_ptr(), row_step, n, long, to.as_mut_ptr()) };
            }
            for class in classes {
                let tiles = class.at.len().div_ceil(ROWS);
                let range =
                    part * tiles / parts * ROWS..((part + 1) * tiles / parts * ROWS).min(class.at.len());
                for at in class.at[range].chunks(POSITIONS) {
                    for c in (0..self.channels).step_by(block) {
                        for (at, acc) in at.chunks(ROWS).zip(acc.chunks_mut(ROWS * COLS)) {
                            let row =
                                |r: usize| src[at[r.min(at.len() - 1)].0 + c * self.grid.len..].as_ptr();
                            let t = Tile {
                                rows: std::array::from_fn(row),
                                m: at.len(),
                                b: panel[c * self.taps * COLS..].as_ptr(),
                                outer: block.min(self.channels - c),
                                a_step: self.grid.len,
                                b_step: self.taps * COLS,
                                inner: &class.taps,
                                n,
                                c: acc.as_mut_ptr(),
                                ldc: COLS,
                                add: c > 0,
                            };
                            // SAFETY: taps stay inside the copy's channels and the turned weight; `acc` has a row per
                            // position.
                            unsafe { tile(&t) };
                        }
                    }
                    for (at, acc) in at.chunks(COLS).zip(acc.chunks(COLS * COLS)) {
                        // SAFETY: `acc` has a row per position, and `square` COLS rows.
                        unsafe { turn(acc.as_ptr(), COLS, at.len(), n, square.as_mut_ptr()) };
                        let (from, bias) = (&square[..n * COLS], bias.get(first..).unwrap_or(&[]));
                        runs(at, |first, n, to| {
                            let to = out.wrapping_add(to);
                            let s = Store { from, first, n, bias, to, row: plane, step: 1 };
                            // SAFETY: these results are inside the plane, and this chunk's own.
                            unsafe { store(&s) };
                        });
                    }
                }
            }
        });
    }
}

/// Calls `f(first, count, place)` for runs of results that are neighbours.
#[inline(always)]
fn runs(at: &[(usize, usize)], mut f: impl FnMut(usize, usize, usize)) {
    let mut first = 0;
    for i in 1..=at.len() {
        if i == at.len() || at[i].1 != at[i - 1].1 + 1 {
            f(first, i - first, at[first].1);
            first = i;
        }
    }
}

/// The start of the results, for the chunks.
struct SharedPtr(*mut f32);
// SAFETY: chunks write different channels or positions.
unsafe impl Sync for SharedPtr {}
impl SharedPtr {
    fn get(&self) -> *mut f32 {
        self.0
    }
}
