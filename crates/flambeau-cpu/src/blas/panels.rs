//! Products of f32 and f64 with AVX2 from packed operands: of the left one a block that stays in the second cache level, six rows side by side, of
//! the right one a few panels beside it, which pass through the first level one by one. What is packed next is on its way meanwhile.
//! The gemm crate packs all of the right operand before it begins and reads it back from the last level: where the product is short
//! beside that (few rows, or an operand that comes from memory), it takes up to twice as long.

use super::coming::Coming;
use super::unpacked::avx2;
use super::{RawMat, RawOut, upright};
use crate::Element;
use crate::engine::cache::{l2_bytes, prefetch};
use crate::engine::isa::{Level, level};
use crate::engine::scratch::with_scratch;
use crate::engine::simd::{
    Vector,
    x86::{D4, F8},
};

/// Rows of a register tile, and its columns in vectors: twelve sums, two vectors of B, and elements of A in the sixteen registers.
const ROWS: usize = 6;
const VECTORS: usize = 2;
/// Bytes of a cache line.
const LINE: usize = 64;

/// A float that is multiplied here, with what packs its operands. Steps are between the rows that are read.
pub(super) trait Packed: Element {
    type V: Vector<T = Self>;
    const ZERO: Self;
    /// Bytes of a right operand that is large.
    const LARGE: usize;
    /// Smaller ones may come here too: the gemm crate packs f64 as fast.
    const SMALLER: bool;
    /// Columns of a register tile.
    const COLS: usize = VECTORS * Self::V::N;
    /// `to[p * ROWS + j] = from[p * step + j]` for `j < n` and `p < depth`; columns up to [`ROWS`] get any value.
    ///
    /// # Safety
    /// The rows of `from` are valid for `n` elements, `to` for `depth` rows and a vector more; the machine has AVX2.
    unsafe fn copy(from: *const Self, step: usize, n: usize, depth: usize, to: *mut Self);
    /// `to[p * ROWS + j] = from[j * step + p]`, otherwise as [`Packed::copy`]; `n` is not 0.
    ///
    /// # Safety
    /// The rows of `from` are valid for `depth` elements; otherwise as there.
    unsafe fn turn_rows(from: *const Self, step: usize, n: usize, depth: usize, to: *mut Self);
    /// `to[p * COLS + j] = from[j * step + p]` for `j < n` and `p < depth`; other columns get any value.
    ///
    /// # Safety
    /// The rows of `from` are valid for `depth` elements, `to` for `depth` rows; the machine has AVX2.
    unsafe fn turn(from: *const Self, step: usize, n: usize, depth: usize, to: *mut Self);
}
impl Packed for f32 {
    type V = F8;
    const ZERO: f32 = 0.0;
    const LARGE: usize = 1 << 21;
    const SMALLER: bool = true;
    #[inline(always)]
    unsafe fn copy(from: *const f32, step: usize, n: usize, depth: usize, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { avx2::copy::<ROWS>(from, step, n, depth, to) }
    }
    unsafe fn turn_rows(from: *const f32, step: usize, n: usize, depth: usize, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { avx2::turn_rows::<ROWS>(from, step, n, depth, to) }
    }
    unsafe fn turn(from: *const f32, step: usize, n: usize, depth: usize, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { avx2::turn::<{ VECTORS * F8::N }, { F8::N }>(from, step, n, depth, to) }
    }
}
impl Packed for f64 {
    type V = D4;
    const ZERO: f64 = 0.0;
    const LARGE: usize = 1 << 22;
    const SMALLER: bool = false;
    #[inline(always)]
    unsafe fn copy(from: *const f64, step: usize, n: usize, depth: usize, to: *mut f64) {
        // SAFETY: the caller's promise.
        unsafe { copied::<D4>(from, step, n, depth, to) }
    }
    unsafe fn turn_rows(from: *const f64, step: usize, n: usize, depth: usize, to: *mut f64) {
        // SAFETY: the caller's promise.
        unsafe { turned::<D4, ROWS>(from, step, n, depth, to) }
    }
    unsafe fn turn(from: *const f64, step: usize, n: usize, depth: usize, to: *mut f64) {
        // SAFETY: the caller's promise.
        unsafe { turned::<D4, { VECTORS * D4::N }>(from, step, n, depth, to) }
    }
}
/// Copies `n` elements, and zeros up to a whole vector.
///
/// # Safety
/// Both are valid for that; the machine has the instructions.
#[inline(always)]
unsafe fn some<V: Vector>(from: *const V::T, n: usize, to: *mut V::T) {
    // SAFETY: the caller's promise; the mask ends at `n`.
    unsafe {
        for j in (0..n).step_by(V::N) {
            let (from, to) = (from.wrapping_add(j), to.wrapping_add(j));
            let v = if n - j >= V::N {
                V::load(from)
            } else {
                V::load_where(V::lanes(0, (n - j) as isize), from)
            };
            v.store(to);
        }
    }
}
/// As [`Packed::copy`].
///
/// # Safety
/// As there.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn copied<V: Vector>(from: *const V::T, step: usize, n: usize, depth: usize, to: *mut V::T) {
    for p in 0..depth {
        // SAFETY: the caller's promise.
        unsafe { some::<V>(from.wrapping_add(p * step), n, to.wrapping_add(p * ROWS)) };
    }
}
/// `to[p * W + j] = from[j * step + p]` for `j < n` and `p < depth`, by squares of vectors; columns up to the next multiple of a
/// vector get any value, in rows of `W` or in those behind them.
///
/// # Safety
/// The rows of `from` are valid for `depth` elements, `to` for `depth` rows and a vector more; the machine has AVX2.
#[target_feature(enable = "avx2,fma")]
unsafe fn turned<V: Vector, const W: usize>(
    from: *const V::T,
    step: usize,
    n: usize,
    depth: usize,
    to: *mut V::T,
) {
    let row = |j: usize| from.wrapping_add(j.min(n - 1) * step);
    let whole = depth / V::N * V::N;
    for p in (0..whole).step_by(V::N) {
        // from the last columns on: what they write behind a row is written over
        for j in (0..n).step_by(V::N).rev() {
            // SAFETY: rows below n with a vector's elements left, and rows below `depth`, of which the last may be left by less
            // than a vector.
            unsafe { V::square(|k| row(j + k).wrapping_add(p), |k| to.wrapping_add((p + k) * W + j), None) };
        }
    }
    for p in whole..depth {
        for j in 0..n {
            // SAFETY: row `j` is below n, and `p` below `depth`.
            unsafe { *to.add(p * W + j) = *from.add(j * step + p) };
        }
    }
}

/// Terms of a sum that are taken at a time, so that a panel and six rows stay in the first cache level. (Half as many of f64, whose block
/// then has twice the rows, is a few percent slower.)
const DEPTH: usize = 256;
/// Panels at a time: rows that are a power of two apart share few places of the caches, so each is read as far as may be at once.
const PANELS: usize = 3;
/// Multiply-adds below which packing costs more than it gains.
const SMALL: usize = 1 << 17;
/// Rows or columns up to which they are few.
const FEW: usize = 48;
/// Rows from which what is packed next is asked for meanwhile.
const MANY: usize = 48;
/// Multiply-adds from which a right operand that has to be turned is turned here. One that need not be comes here from
/// [`Packed::LARGE`] bytes on: below, the gemm crate's packing is faster, since it reads what it has packed more often.
const TURNED: usize = 1 << 20;

/// `C (+)= A B`; false if the product has to be computed otherwise.
///
/// # Safety
/// The matrices are valid for these sizes and C overlaps neither A nor B.
pub(super) unsafe fn try_product<T: Packed>(
    m: usize,
    n: usize,
    k: usize,
    a: RawMat<T>,
    b: RawMat<T>,
    add: bool,
    c: RawOut<T>,
) -> bool {
    if level() != Level::V3 {
        return false;
    }
    let Some((m, n, a, b, c)) = upright(m, n, a, b, c) else { return false };
    let (size, cols) = (size_of::<T>(), T::COLS);
    let lies = |x: RawMat<T>| x.rs == 1 || x.cs == 1;
    let macs = m.saturating_mul(n).saturating_mul(k);
    let large = k.saturating_mul(n).saturating_mul(size) >= T::LARGE;
    let pays = if m.min(n) <= FEW {
        m >= 8 && n >= 24 && macs >= SMALL && (T::SMALLER || large)
    } else {
        large || T::SMALLER && b.cs != 1 && macs >= TURNED
    };
    if !pays || k < 32 || !lies(a) || !lies(b) {
        return false;
    }
    let depth = k.div_ceil(k.div_ceil(DEPTH));
    // half of the second level, and blocks of nearly the same size
    let most = (l2_bytes() / 2 / (size * depth)).max(ROWS);
    let rows = m.div_ceil(m.div_ceil(most));
    let panels = (l2_bytes() / 4 / (size * depth * cols)).clamp(1, PANELS);
    // six rows of A, and a line, so that neighbours do not share few places of the first cache level
    let each = ROWS * depth + LINE / size;
    let tiles = rows.div_ceil(ROWS);
    with_scratch::<T, _>(panels * cols * depth + tiles * each, |buf| {
        let (right, left) = buf.split_at_mut(panels * cols * depth);
        for first in (0..m).step_by(rows) {
            let rows = rows.min(m - first);
            for p in (0..k).step_by(depth) {
                let terms = depth.min(k - p);
                // SAFETY: rows of A, and room for all of them.
                unsafe { pack_left(a.at(first, p), rows, terms, left, each) };
                for j in (0..n).step_by(panels * cols) {
                    let width = (panels * cols).min(n - j);
                    // SAFETY: columns of B, and their panels.
                    unsafe { pack_right(b.at(p, j), width, terms, right) };
                    let (next_p, next_j) = if j + width < n { (p, j + width) } else { (p + terms, 0) };
                    let next = [depth.min(k - next_p), (panels * cols).min(n - next_j)];
                    // too many at a time hold up the sums
                    let next = if rows < MANY { [0, 0] } else { next };
                    let calls = rows.div_ceil(ROWS) * width.div_ceil(cols);
                    let mut coming = Coming::new(b.at(next_p, next_j), next, calls);
                    for (q, panel) in right.chunks(cols * terms).take(width.div_ceil(cols)).enumerate() {
                        let columns = cols.min(width - q * cols);
                        for ((i, some), left) in row_tiles(rows).zip(left.chunks(each)) {
                            coming.ask();
                            let c = c.at(first + i, j + q * cols);
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
unsafe fn pack_left<T: Packed>(a: RawMat<T>, rows: usize, depth: usize, to: &mut [T], each: usize) {
    // Whole vectors are written for each six elements, the last one beyond them.
    assert!(each >= ROWS * depth + T::V::N && to.len() >= rows.div_ceil(ROWS) * each);
    // SAFETY: the caller's promise; the lengths were just checked.
    unsafe {
        if a.rs == 1 {
            // column by column, as they lie
            for p in 0..depth {
                for ((i, n), to) in row_tiles(rows).zip(to.chunks_mut(each)) {
                    T::copy(a.at(i, p).p, 0, n, 1, to[p * ROWS..].as_mut_ptr());
                }
            }
        } else {
            for ((i, n), to) in row_tiles(rows).zip(to.chunks_mut(each)) {
                T::turn_rows(a.at(i, 0).p, a.rs, n, depth, to.as_mut_ptr());
            }
        }
    }
}
/// Panels of `depth` rows each for `n` columns of the right operand.
///
/// # Safety
/// As [`pack_left`].
unsafe fn pack_right<T: Packed>(b: RawMat<T>, n: usize, depth: usize, to: &mut [T]) {
    assert!(to.len() >= depth * n.next_multiple_of(T::COLS));
    // SAFETY: the caller's promise; the length was just checked.
    unsafe {
        if b.cs == 1 {
            rows_to_panels::<T::V>(b.p, b.rs, n, depth, to.as_mut_ptr());
        } else {
            for (j, to) in (0..n).step_by(T::COLS).zip(to.chunks_mut(T::COLS * depth)) {
                T::turn(b.at(0, j).p, b.cs, T::COLS.min(n - j), depth, to.as_mut_ptr());
            }
        }
    }
}

/// [`pack_right`] of a matrix with contiguous rows, `step` apart, which are read from end to end.
///
/// # Safety
/// As there; `to` has panels of `depth` rows for all columns.
#[target_feature(enable = "avx2,fma")]
unsafe fn rows_to_panels<V: Vector>(from: *const V::T, step: usize, n: usize, depth: usize, to: *mut V::T) {
    /// How many rows ahead is asked for: the machine does not follow rows that are far apart.
    const SOON: usize = 12;
    let cols = VECTORS * V::N;
    let whole = n / cols * cols;
    for p in 0..depth {
        let (from, to) = (from.wrapping_add(p * step), to.wrapping_add(p * cols));
        let soon = from.wrapping_add(SOON * step);
        // SAFETY: the caller's promise.
        unsafe {
            for j in (0..whole).step_by(cols) {
                prefetch(soon.wrapping_add(j).cast());
                let to = to.wrapping_add(j * depth);
                V::load(from.add(j)).store(to);
                V::load(from.add(j + V::N)).store(to.add(V::N));
            }
            if whole < n {
                prefetch(soon.wrapping_add(whole).cast());
                some::<V>(from.add(whole), n - whole, to.wrapping_add(whole * depth));
            }
        }
    }
}

/// `C (+)= A B` for a tile of `[rows, columns, terms]`: [`ROWS`] and [`Packed::COLS`] of them at most.
///
/// # Safety
/// The machine has AVX2, C has these rows and columns and nobody else uses it, rows are `ldc` apart.
unsafe fn tile<T: Packed>([m, n, k]: [usize; 3], a: &[T], b: &[T], add: bool, c: *mut T, ldc: usize) {
    assert!(a.len() >= k * ROWS && b.len() >= k * T::COLS && n <= T::COLS);
    macro_rules! by_rows {
        ($($rows:literal)*) => {
            match m {
                // SAFETY: the caller's promise; the lengths were just checked.
                $($rows => unsafe {
                    if n > T::V::N {
                        sums::<T, $rows, 2>(k, a.as_ptr(), b.as_ptr(), n, add, c, ldc)
                    } else {
                        sums::<T, $rows, 1>(k, a.as_ptr(), b.as_ptr(), n, add, c, ldc)
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
/// As [`tile`]; the operands have `k` times [`ROWS`] and [`Packed::COLS`] elements.
#[target_feature(enable = "avx2,fma")]
unsafe fn sums<T: Packed, const R: usize, const N: usize>(
    k: usize,
    mut a: *const T,
    mut b: *const T,
    n: usize,
    add: bool,
    c: *mut T,
    ldc: usize,
) {
    /// Bytes of A that are asked for ahead.
    const AHEAD: usize = 512;
    let (lanes, cols) = (T::V::N, T::COLS);
    // The result's lines are on their way while the sums are computed: C may be far away.
    for i in 0..R {
        prefetch(c.wrapping_add(i * ldc).cast());
        prefetch(c.wrapping_add(i * ldc + n - 1).cast());
    }
    // SAFETY: the machine has AVX2, and all places are the caller's promise; what is read and written of C ends at column n.
    unsafe {
        // Rows are written out, and not looped over: debug builds, which unroll nothing, keep the sums in registers so.
        let mut sums = [[T::V::splat(T::ZERO); VECTORS]; ROWS];
        macro_rules! rows {
            (|$i:ident| $row:expr) => { rows!(@ $i $row; 0 1 2 3 4 5) };
            (@ $i:ident $row:expr; $($n:literal)*) => {$(
                if $n < R {
                    let $i = $n;
                    $row
                }
            )*};
        }
        macro_rules! term {
            ($at:expr) => {{
                let v = T::V::load(b.add($at * cols));
                let w = if N > 1 { T::V::load(b.add($at * cols + lanes)) } else { v };
                rows!(|i| {
                    let s = T::V::splat(*a.add($at * ROWS + i));
                    sums[i][0] = s.fma(v, sums[i][0]);
                    if N > 1 {
                        sums[i][1] = s.fma(w, sums[i][1]);
                    }
                });
            }};
        }
        for _ in 0..k / 4 {
            prefetch(a.cast::<u8>().wrapping_add(AHEAD).cast());
            term!(0);
            term!(1);
            prefetch(a.cast::<u8>().wrapping_add(AHEAD + LINE).cast());
            term!(2);
            term!(3);
            (a, b) = (a.add(4 * ROWS), b.add(4 * cols));
        }
        for _ in 0..k % 4 {
            term!(0);
            (a, b) = (a.add(ROWS), b.add(cols));
        }
        let put = |mut sum: T::V, to: *mut T, left: usize| {
            if add {
                let old = if left >= lanes {
                    T::V::load(to)
                } else {
                    T::V::load_where(T::V::lanes(0, left as isize), to)
                };
                sum = sum.add(old);
            }
            sum.store_first(to, left.min(lanes));
        };
        rows!(|i| {
            let to = c.add(i * ldc);
            put(sums[i][0], to, n);
            if N > 1 {
                put(sums[i][1], to.add(lanes), n - lanes);
            }
        });
    }
}
