//! f32 products with AVX2 of few rows or few columns, from packed panels: of the left operand a block that stays in the second cache
//! level, eight rows side by side, of the right one a panel that stays in the first. The gemm crate packs all of the large operand
//! before it begins, which is most of what there is to do: with 16 rows it takes twice as long.

use super::unpacked::avx2::{copy, turn};
use super::unpacked::{LINE, ROWS, Tile, tile};
use super::{RawMat, RawOut};
use crate::engine::cache::l2_bytes;
use crate::engine::isa::{Level, level};
use crate::engine::scratch::with_scratch;

/// Columns of a panel: as many as a tile takes at once.
const COLS: usize = 24;
/// Terms of a sum that are taken at a time, so that a panel stays in the first cache level.
const DEPTH: usize = 256;
/// Multiply-adds below which packing costs more than it gains.
const SMALL: usize = 1 << 17;
/// Rows or columns up to which they are few.
const FEW: usize = 48;

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
    if level() != Level::V3 {
        return false;
    }
    // Of a result whose columns are contiguous, the transposed one is computed.
    let (m, n, a, b, c) = match (c.cs, c.rs) {
        (1, _) => (m, n, a, b, c),
        (_, 1) => (n, m, b.t(), a.t(), c.t()),
        _ => return false,
    };
    let lies = |x: RawMat<f32>| x.rs == 1 || x.cs == 1;
    let few = m.min(n) <= FEW;
    if !few
        || m < ROWS
        || n < COLS
        || k < 32
        || m.saturating_mul(n).saturating_mul(k) < SMALL
        || !lies(a)
        || !lies(b)
    {
        return false;
    }
    let mut inner = [(0u32, 0u32); DEPTH];
    inner.iter_mut().enumerate().for_each(|(p, i)| *i = ((p * ROWS) as u32, (p * COLS) as u32));
    let parts = k.div_ceil(DEPTH);
    let depth = k.div_ceil(parts);
    // half of the second level, and blocks of nearly the same size
    let most = (l2_bytes() / 2 / (4 * depth)).max(ROWS);
    let rows = m.div_ceil(m.div_ceil(most)).next_multiple_of(ROWS);
    // eight rows of A, and a line, so that neighbours do not share few places of the first cache level
    let each = ROWS * depth + LINE;
    with_scratch::<f32, _>(rows / ROWS * each + COLS * depth, |buf| {
        let (left, panel) = buf.split_at_mut(rows / ROWS * each);
        for first in (0..m).step_by(rows) {
            let rows = rows.min(m - first);
            for p in (0..k).step_by(depth) {
                let depth = depth.min(k - p);
                // SAFETY: rows of A, and room for all of them.
                unsafe { pack_left(a.at(first, p), rows, depth, left, each) };
                for j in (0..n).step_by(COLS) {
                    let width = COLS.min(n - j);
                    // SAFETY: columns of B, and the panel.
                    unsafe { pack_right(b.at(p, j), width, depth, panel) };
                    for (i, left) in (0..rows).step_by(ROWS).zip(left.chunks_exact(each)) {
                        let t = Tile {
                            rows: std::array::from_fn(|r| left[r..].as_ptr()),
                            m: ROWS.min(rows - i),
                            b: panel.as_ptr(),
                            outer: 1,
                            a_step: 0,
                            b_step: 0,
                            inner: &inner[..depth],
                            n: width,
                            c: c.at(first + i, j).p,
                            ldc: c.rs,
                            add: add || p > 0,
                        };
                        // SAFETY: a tile of the caller's C and of both packed operands; the level is that of AVX2.
                        unsafe { tile(&t) };
                    }
                }
            }
        }
    });
    true
}

/// The left operand: the elements of eight rows side by side, of the next eight `each` behind them.
///
/// # Safety
/// The machine has AVX2, and the part of the matrix, one of whose steps is 1, is valid.
unsafe fn pack_left(a: RawMat<f32>, rows: usize, depth: usize, to: &mut [f32], each: usize) {
    assert!(each >= ROWS * depth && to.len() >= rows.div_ceil(ROWS) * each);
    let to = to.as_mut_ptr();
    // SAFETY: the caller's promise; the lengths were just checked.
    unsafe {
        if a.rs == 1 {
            // column by column, as they lie
            for p in 0..depth {
                for i in (0..rows).step_by(ROWS) {
                    let to = to.wrapping_add(i / ROWS * each + p * ROWS);
                    copy::<ROWS>(a.at(i, p).p, 0, ROWS.min(rows - i), 1, to);
                }
            }
        } else {
            for i in (0..rows).step_by(ROWS) {
                turn::<ROWS, ROWS>(
                    a.at(i, 0).p,
                    a.rs,
                    ROWS.min(rows - i),
                    depth,
                    to.wrapping_add(i / ROWS * each),
                );
            }
        }
    }
}
/// A panel: `depth` rows of `n` columns of the right operand.
///
/// # Safety
/// As [`pack_left`].
unsafe fn pack_right(b: RawMat<f32>, n: usize, depth: usize, to: &mut [f32]) {
    assert!(n <= COLS && to.len() >= depth * COLS);
    // SAFETY: the caller's promise; the length was just checked.
    unsafe {
        if b.cs == 1 {
            copy::<COLS>(b.p, b.rs, n, depth, to.as_mut_ptr());
        } else {
            turn::<COLS, 8>(b.p, b.cs, n, depth, to.as_mut_ptr());
        }
    }
}
