//! f32 products with AVX-512 whose left operand is read where it lies and whose right operand
//! is stored transposed (`x W^T`, what linear layers compute). Packing both operands, as the gemm crate does, pays when both
//! are used often; of a weight that a few hundred rows use, turning it is a good part of the work.

use super::unpacked::{COLS, ROWS, Tile, available, column_tiles, tile, turn};
use crate::engine::scratch::with_scratch;

/// Terms of a sum that are taken at a time, so that their part of the panel stays in the first cache level.
const DEPTH: usize = 192;
/// Elements of a left operand that stay in the second cache level while the panels pass by.
const LEFT: usize = 300_000;

type Operand = (*const f32, usize, usize);

/// `C (+)= A B`; false if the product has to be computed otherwise.
///
/// # Safety
/// The matrices are valid for these sizes and C overlaps neither A nor B.
pub(super) unsafe fn try_product(
    m: usize,
    n: usize,
    k: usize,
    a: Operand,
    b: Operand,
    add: bool,
    c: (*mut f32, usize, usize),
) -> bool {
    if !available() || k == 0 {
        return false;
    }
    // Of a result whose columns are contiguous, the transposed one is computed.
    let (m, n, a, b, c) = match (c.2, c.1) {
        (1, _) => (m, n, a, b, (c.0, c.1)),
        (_, 1) => (n, m, (b.0, b.2, b.1), (a.0, a.2, a.1), (c.0, c.2)),
        _ => return false,
    };
    if m < ROWS || n < COLS / 3 || a.2 != 1 {
        return false;
    }
    if b.1 != 1 || m * k > LEFT || k < 96 {
        return false;
    }
    let mut inner = [(0u32, 0u32); DEPTH];
    inner.iter_mut().enumerate().for_each(|(p, i)| *i = (p as u32, (p * COLS) as u32));
    with_scratch::<f32, _>(DEPTH * COLS, |panel| {
        column_tiles(n, |j, n| {
            for p in (0..k).step_by(DEPTH) {
                let depth = DEPTH.min(k - p);
                let from = b.0.wrapping_add(j * b.2 + p);
                // SAFETY: part of B, and the panel has DEPTH rows.
                unsafe { turn(from, b.2, n, depth, panel.as_mut_ptr()) };
                for i in (0..m).step_by(ROWS) {
                    let row = |r: usize| a.0.wrapping_add((i + r).min(m - 1) * a.1 + p);
                    let t = Tile {
                        rows: std::array::from_fn(row),
                        m: ROWS.min(m - i),
                        b: panel.as_ptr(),
                        outer: 1,
                        a_step: 0,
                        b_step: 0,
                        inner: &inner[..depth],
                        n,
                        c: c.0.wrapping_add(i * c.1 + j),
                        ldc: c.1,
                        add: add || p > 0,
                    };
                    // SAFETY: a tile of the caller's matrices and of the panel just written.
                    unsafe { tile(&t) };
                }
            }
        });
    });
    true
}
