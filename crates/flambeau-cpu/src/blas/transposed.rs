//! f32 products with AVX-512 whose left operand is read where it lies and whose right operand
//! is stored transposed (`x W^T`, what linear layers compute). The gemm crate packs both operands, and takes a tenth longer for
//! it: of the right one here, panel by panel is turned, by shuffles of whole vectors.

use super::unpacked::{COLS, LINE, ROWS, Tile, column_tiles, tile, turn};
use super::{RawMat, RawOut};
use crate::engine::cache::prefetch_later;
use crate::engine::isa::{Level, level};
use crate::engine::scratch::with_scratch;

/// Terms of a sum that are taken at a time. Their part of the panel may come from the second cache level again and again: that
/// costs less than taking up the results more often.
const DEPTH: usize = 256;
/// Elements of a left operand that stay in the caches while the panels pass by. Each panel is turned again for the next ones.
const LEFT: usize = 1 << 20;

/// What is turned next. Its lines are on their way while the tiles before it are computed: the columns of a weight that comes
/// from memory are too many streams for the machine to follow by itself.
struct Coming {
    from: RawMat<f32>,
    /// Lines of a column, and of all of them.
    each: usize,
    lines: usize,
    /// Lines that were asked for, and what is asked for at a time.
    asked: usize,
    step: usize,
}
impl Coming {
    /// Behind the columns `j..j + n` of `width`, and the terms `p..p + depth` of `k`; shared out over `tiles`.
    fn after(
        b: RawMat<f32>,
        (j, n, width): (usize, usize, usize),
        (p, depth, k): (usize, usize, usize),
        tiles: usize,
    ) -> Self {
        let (j, n, p) = if p + depth < k { (j, n, p + depth) } else { (j + n, COLS.min(width - j - n), 0) };
        let each = DEPTH.min(k - p).div_ceil(LINE);
        let lines = n * each;
        Coming { from: b.at(p, j), each, lines, asked: 0, step: lines.div_ceil(tiles) }
    }
    #[inline(always)]
    fn ask(&mut self) {
        let end = (self.asked + self.step).min(self.lines);
        for line in self.asked..end {
            prefetch_later(self.from.at(line % self.each * LINE, line / self.each).p.cast());
        }
        self.asked = end;
    }
}

/// `C (+)= A B`; false if the product has to be computed otherwise.
///
/// # Safety
/// The matrices are valid for these sizes and C overlaps neither A nor B.
pub(super) unsafe fn try_product(
    m: usize,
    n: usize,
    k: usize,
    a: RawMat<f32>,
    b: RawMat<f32>,
    add: bool,
    c: RawOut<f32>,
) -> bool {
    if level() != Level::V4 || k == 0 {
        return false;
    }
    // Of a result whose columns are contiguous, the transposed one is computed.
    let (m, n, a, b, c) = match (c.cs, c.rs) {
        (1, _) => (m, n, a, b, c),
        (_, 1) => (n, m, b.t(), a.t(), c.t()),
        _ => return false,
    };
    if m < ROWS || n < COLS / 3 || a.cs != 1 {
        return false;
    }
    if b.rs != 1 || k < 96 {
        return false;
    }
    let mut inner = [(0u32, 0u32); DEPTH];
    inner.iter_mut().enumerate().for_each(|(p, i)| *i = (p as u32, (p * COLS) as u32));
    let most = (LEFT / k).next_multiple_of(ROWS).max(32 * ROWS);
    with_scratch::<f32, _>(DEPTH * COLS, |panel| {
        for first in (0..m).step_by(most) {
            let rows = most.min(m - first);
            let width = n;
            column_tiles(n, |j, n| {
                for p in (0..k).step_by(DEPTH) {
                    let depth = DEPTH.min(k - p);
                    let from = b.at(p, j).p;
                    // SAFETY: part of B, and the panel has DEPTH rows.
                    unsafe { turn(from, b.cs, n, depth, panel.as_mut_ptr()) };
                    let mut coming = Coming::after(b, (j, n, width), (p, depth, k), rows.div_ceil(ROWS));
                    for i in (0..rows).step_by(ROWS) {
                        coming.ask();
                        let row = |r: usize| a.at(first + (i + r).min(rows - 1), p).p;
                        let t = Tile {
                            rows: std::array::from_fn(row),
                            m: ROWS.min(rows - i),
                            b: panel.as_ptr(),
                            outer: 1,
                            a_step: 0,
                            b_step: 0,
                            inner: &inner[..depth],
                            n,
                            c: c.at(first + i, j).p,
                            ldc: c.rs,
                            add: add || p > 0,
                        };
                        // SAFETY: a tile of the caller's matrices and of the panel just written.
                        unsafe { tile(&t) };
                    }
                }
            });
        }
    });
    true
}
