//! f32 products with AVX2 from packed operands: of the left one a block that stays in the second cache level, six rows side by side, of
//! the right one a few panels beside it, which pass through the first level one by one. What is packed next is on its way meanwhile.
//! The gemm crate packs all of the right operand before it begins and reads it back from the last level: where the product is short
//! beside that (few rows, or an operand that comes from memory), it takes up to twice as long.

use super::coming::Coming;
use super::unpacked::avx2::{copy, turn, turn_rows};
use super::{RawMat, RawOut, upright};
use crate::engine::cache::{l2_bytes, prefetch};
use crate::engine::isa::{Level, level};
use crate::engine::scratch::with_scratch;
use crate::engine::simd::{Vector, x86::F8};

/// Rows and columns of a register tile: twelve sums, two vectors of B, and elements of A in the sixteen registers.
const ROWS: usize = 6;
const COLS: usize = 16;
/// Elements of a vector.
const LANES: usize = 8;
/// Elements of a cache line.
const LINE: usize = 16;
/// Terms of a sum that are taken at a time, so that a panel and six rows stay in the first cache level.
const DEPTH: usize = 256;
/// Panels at a time: rows that are a power of two apart share few places of the caches, so each is read as far as may be at once.
const PANELS: usize = 3;
/// Multiply-adds below which packing costs more than it gains.
const SMALL: usize = 1 << 17;
/// Rows or columns up to which they are few.
const FEW: usize = 48;
/// Rows from which what is packed next is asked for meanwhile.
const MANY: usize = 48;
/// Multiply-adds from which a right operand that has to be turned is turned here, and elements from which one that need not be comes
/// here: below, the gemm crate's packing is faster, since it reads what it has packed more often.
const TURNED: usize = 1 << 20;
const LARGE: usize = 1 << 19;

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
    let Some((m, n, a, b, c)) = upright(m, n, a, b, c) else { return false };
    let lies = |x: RawMat<f32>| x.rs == 1 || x.cs == 1;
    let macs = m.saturating_mul(n).saturating_mul(k);
    let pays = if m.min(n) <= FEW {
        m >= 8 && n >= 24 && macs >= SMALL
    } else if b.cs == 1 {
        k.saturating_mul(n) >= LARGE
    } else {
        macs >= TURNED
    };
    if !pays || k < 32 || !lies(a) || !lies(b) {
        return false;
    }
    let depth = k.div_ceil(k.div_ceil(DEPTH));
    // half of the second level, and blocks of nearly the same size
    let most = (l2_bytes() / 2 / (4 * depth)).max(ROWS);
    let rows = m.div_ceil(m.div_ceil(most));
    let panels = (l2_bytes() / 4 / (4 * depth * COLS)).clamp(1, PANELS);
    // six rows of A, and a line, so that neighbours do not share few places of the first cache level
    let each = ROWS * depth + LINE;
    let tiles = rows.div_ceil(ROWS);
    with_scratch::<f32, _>(panels * COLS * depth + tiles * each, |buf| {
        let (right, left) = buf.split_at_mut(panels * COLS * depth);
        for first in (0..m).step_by(rows) {
            let rows = rows.min(m - first);
            for p in (0..k).step_by(depth) {
                let terms = depth.min(k - p);
                // SAFETY: rows of A, and room for all of them.
                unsafe { pack_left(a.at(first, p), rows, terms, left, each) };
                for j in (0..n).step_by(panels * COLS) {
                    let width = (panels * COLS).min(n - j);
                    // SAFETY: columns of B, and their panels.
                    unsafe { pack_right(b.at(p, j), width, terms, right) };
                    let (next_p, next_j) = if j + width < n { (p, j + width) } else { (p + terms, 0) };
                    let next = [depth.min(k - next_p), (panels * COLS).min(n - next_j)];
                    // too many at a time hold up the sums
                    let next = if rows < MANY { [0, 0] } else { next };
                    let calls = rows.div_ceil(ROWS) * width.div_ceil(COLS);
                    let mut coming = Coming::new(b.at(next_p, next_j), next, calls);
                    for (q, panel) in right.chunks(COLS * terms).take(width.div_ceil(COLS)).enumerate() {
                        let columns = COLS.min(width - q * COLS);
                        for ((i, some), left) in row_tiles(rows).zip(left.chunks(each)) {
                            coming.ask();
                            let c = c.at(first + i, j + q * COLS);
                            // SAFETY: a tile of the caller's C, of packed rows and of a panel; the level is that of AVX2.
                            unsafe { tile([some, columns, terms], left, panel, add || p > 0, c.p, c.rs) };
                        }
                    }
                }
            }
        }
    });
    true
}

/// First row and number of rows of the tiles that cover `rows`, which are nearly equal: none has one or two where there are many.
#[inline(always)]
fn row_tiles(rows: usize) -> impl Iterator<Item = (usize, usize)> {
    let tiles = rows.div_ceil(ROWS);
    let (each, longer) = (rows / tiles.max(1), rows % tiles.max(1));
    (0..tiles).map(move |t| (t * each + t.min(longer), each + usize::from(t < longer)))
}

/// The left operand: the elements of a tile's rows side by side, of the next tile `each` behind them.
///
/// # Safety
/// The machine has AVX2, and the part of the matrix, one of whose steps is 1, is valid.
unsafe fn pack_left(a: RawMat<f32>, rows: usize, depth: usize, to: &mut [f32], each: usize) {
    // A whole vector is written for each six elements, the last one beyond them.
    assert!(each >= ROWS * depth + LANES - ROWS && to.len() >= rows.div_ceil(ROWS) * each);
    // SAFETY: the caller's promise; the lengths were just checked.
    unsafe {
        if a.rs == 1 {
            // column by column, as they lie
            for p in 0..depth {
                for ((i, n), to) in row_tiles(rows).zip(to.chunks_mut(each)) {
                    copy::<ROWS>(a.at(i, p).p, 0, n, 1, to[p * ROWS..].as_mut_ptr());
                }
            }
        } else {
            for ((i, n), to) in row_tiles(rows).zip(to.chunks_mut(each)) {
                turn_rows::<ROWS>(a.at(i, 0).p, a.rs, n, depth, to.as_mut_ptr());
            }
        }
    }
}
/// Panels of `depth` rows each for `n` columns of the right operand.
///
/// # Safety
/// As [`pack_left`].
unsafe fn pack_right(b: RawMat<f32>, n: usize, depth: usize, to: &mut [f32]) {
    assert!(to.len() >= depth * n.next_multiple_of(COLS));
    // SAFETY: the caller's promise; the length was just checked.
    unsafe {
        if b.cs == 1 {
            rows_to_panels(b.p, b.rs, n, depth, to.as_mut_ptr());
        } else {
            for (j, to) in (0..n).step_by(COLS).zip(to.chunks_mut(COLS * depth)) {
                turn::<COLS, LANES>(b.at(0, j).p, b.cs, COLS.min(n - j), depth, to.as_mut_ptr());
            }
        }
    }
}

/// [`pack_right`] of a matrix with contiguous rows, `step` apart, which are read from end to end.
///
/// # Safety
/// As there; `to` has panels of `depth` rows for all columns.
#[target_feature(enable = "avx2,fma")]
unsafe fn rows_to_panels(from: *const f32, step: usize, n: usize, depth: usize, to: *mut f32) {
    /// How many rows ahead is asked for: the machine does not follow rows that are far apart.
    const SOON: usize = 12;
    let whole = n / COLS * COLS;
    for p in 0..depth {
        let (from, to) = (from.wrapping_add(p * step), to.wrapping_add(p * COLS));
        let soon = from.wrapping_add(SOON * step);
        // SAFETY: the caller's promise.
        unsafe {
            for j in (0..whole).step_by(COLS) {
                prefetch(soon.wrapping_add(j).cast());
                let to = to.wrapping_add(j * depth);
                F8::load(from.add(j)).store(to);
                F8::load(from.add(j + LANES)).store(to.add(LANES));
            }
            if whole < n {
                prefetch(soon.wrapping_add(whole).cast());
                copy::<COLS>(from.add(whole), 0, n - whole, 1, to.wrapping_add(whole * depth));
            }
        }
    }
}

/// `C (+)= A B` for a tile of `[rows, columns, terms]`: 6 and 16 of them at most.
///
/// # Safety
/// The machine has AVX2, C has these rows and columns and nobody else uses it, rows are `ldc` apart.
unsafe fn tile([m, n, k]: [usize; 3], a: &[f32], b: &[f32], add: bool, c: *mut f32, ldc: usize) {
    assert!(a.len() >= k * ROWS && b.len() >= k * COLS && n <= COLS);
    macro_rules! by_rows {
        ($($rows:literal)*) => {
            match m {
                // SAFETY: the caller's promise; the lengths were just checked.
                $($rows => unsafe {
                    if n > LANES {
                        sums::<$rows, 2>(k, a.as_ptr(), b.as_ptr(), n, add, c, ldc)
                    } else {
                        sums::<$rows, 1>(k, a.as_ptr(), b.as_ptr(), n, add, c, ldc)
                    }
                },)*
                _ => unreachable!("a tile has 1 to 6 rows"),
            }
        };
    }
    by_rows!(1 2 3 4 5 6);
}

/// [`tile`] of `R` rows and `N` vectors, the last of which ends at column `n`.
///
/// # Safety
/// As [`tile`]; the operands have `k` times [`ROWS`] and [`COLS`] elements.
#[target_feature(enable = "avx2,fma")]
unsafe fn sums<const R: usize, const N: usize>(
    k: usize,
    mut a: *const f32,
    mut b: *const f32,
    n: usize,
    add: bool,
    c: *mut f32,
    ldc: usize,
) {
    /// Elements of A that are asked for ahead.
    const AHEAD: usize = 128;
    // The result's lines are on their way while the sums are computed: C may be far away.
    for i in 0..R {
        prefetch(c.wrapping_add(i * ldc).cast());
        prefetch(c.wrapping_add(i * ldc + n - 1).cast());
    }
    // SAFETY: the machine has AVX2, and all places are the caller's promise; what is read and written of C ends at column n.
    unsafe {
        let mut sums = [[F8::splat(0.0); N]; R];
        macro_rules! term {
            ($at:expr) => {{
                let mut v = [F8::splat(0.0); N];
                for (j, v) in v.iter_mut().enumerate() {
                    *v = F8::load(b.add($at * COLS + j * LANES));
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let s = F8::splat(*a.add($at * ROWS + i));
                    for (sum, v) in sums.iter_mut().zip(v) {
                        *sum = s.fma(v, *sum);
                    }
                }
            }};
        }
        for _ in 0..k / 4 {
            prefetch(a.wrapping_add(AHEAD).cast());
            term!(0);
            term!(1);
            prefetch(a.wrapping_add(AHEAD + LINE).cast());
            term!(2);
            term!(3);
            (a, b) = (a.add(4 * ROWS), b.add(4 * COLS));
        }
        for _ in 0..k % 4 {
            term!(0);
            (a, b) = (a.add(ROWS), b.add(COLS));
        }
        for (i, sums) in sums.into_iter().enumerate() {
            for (j, mut sum) in sums.into_iter().enumerate() {
                let (to, left) = (c.add(i * ldc + j * LANES), n - j * LANES);
                if add {
                    let old = if left >= LANES {
                        F8::load(to)
                    } else {
                        F8::load_where(F8::lanes(0, left as isize), to)
                    };
                    sum = sum.add(old);
                }
                sum.store_first(to, left.min(LANES));
            }
        }
    }
}
