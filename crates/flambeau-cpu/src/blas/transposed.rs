//! f32 products with AVX-512 whose left operand is read where it lies and whose right operand
//! is stored transposed (`x W^T`, what linear layers compute). The gemm crate packs both operands, and takes a tenth longer for
//! it: of the right one here, panel by panel is turned, by shuffles of whole vectors.

use super::coming::Coming;
use super::unpacked::{COLS, ROWS, Tile, column_tiles, tile, turn};
use super::{RawMat, RawOut, upright};
use crate::engine::isa::{Level, level};
use crate::engine::scratch::with_scratch;

/// Terms of a sum that are taken at a time. Their part of the panel may come from the second cache level again and again: that
/// costs less than taking up the results more often.
const DEPTH: usize = 256;
/// Elements of a left operand that stay in the caches while the panels pass by. Each panel is turned again for the next ones.
const LEFT: usize = 1 << 20;

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
    let Some((m, n, a, b, c)) = upright(m, n, a, b, c) else { return false };
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
                    let (next_p, next_j, columns) =
                        if p + depth < k { (p + depth, j, n) } else { (0, j + n, COLS.min(width - j - n)) };
                    let next = [DEPTH.min(k - next_p), columns];
                    let mut coming = Coming::new(b.at(next_p, next_j), next, rows.div_ceil(ROWS));
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
