//! f32 products with AVX-512 or AVX2 that read both operands where they lie, for kernels whose matrices are small, used once, or
//! not matrices at all: packing them as the gemm crate does would cost a good part of the product.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;

use super::{RawMat, RawOut};
#[cfg(target_arch = "x86_64")]
use crate::engine::isa::{Level, level};

/// Rows of a register tile.
pub(crate) const ROWS: usize = 8;
/// Columns of the widest register tile.
pub(crate) const COLS: usize = 48;
/// Elements of a cache line.
pub(crate) const LINE: usize = 16;
/// Columns of a vector register.
const LANES: usize = 16;
/// Terms of a sum that are taken at a time, so that their rows of B stay in the first cache level.
const DEPTH: usize = 256;

/// One register tile: `C[i][j] (+)= sum A[i][s] B[s][j]`, where the terms `s` of the sums are walked in two loops.
pub(crate) struct Tile<'a> {
    /// Where the rows of A start. Rows beyond `m` are computed too, so their pointers repeat valid ones.
    pub rows: [*const f32; ROWS],
    /// Rows that are stored.
    pub m: usize,
    /// The first row of B.
    pub b: *const f32,
    /// Steps of the outer loop, and what each adds to the places in A and B.
    pub outer: usize,
    pub a_step: usize,
    pub b_step: usize,
    /// The inner loop: places in A and B, counted from those of the outer loop.
    pub inner: &'a [(u32, u32)],
    /// Columns, 1 to [`COLS`].
    pub n: usize,
    pub c: *mut f32,
    /// From one row of C to the next.
    pub ldc: usize,
    /// Adds to C; otherwise its old content is not read.
    pub add: bool,
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{COLS, LANES, ROWS, Tile};
    use crate::engine::cache::prefetch;
    use std::arch::x86_64::*;

    /// How far ahead the rows that are turned are asked for: 16 at a time are too many streams for the machine to follow by
    /// itself when they come from memory.
    const AHEAD: usize = 8 * LANES;

    /// `to[p * COLS + j] = from[j * step + p]` for `j < n` and `p < depth`, 16 x 16 at a time; columns up to the next
    /// multiple of 16 get zeros.
    ///
    /// # Safety
    /// The rows of `from` are valid for `depth` elements, `to` for `depth` rows of [`COLS`].
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn turn(from: *const f32, step: usize, n: usize, depth: usize, to: *mut f32) {
        for j in (0..n).step_by(LANES) {
            for p in (0..depth).step_by(LANES) {
                let mask = (u32::MAX >> (32 - (depth - p).min(LANES))) as __mmask16;
                let mut v = [_mm512_setzero_ps(); LANES];
                for (i, v) in v.iter_mut().enumerate().take(n - j) {
                    let from = from.wrapping_add((j + i) * step + p);
                    // SAFETY: row `j + i` is below n, and the mask ends at `depth`.
                    *v = unsafe { _mm512_maskz_loadu_ps(mask, from) };
                    if p + AHEAD < depth {
                        prefetch(from.wrapping_add(AHEAD).cast());
                    }
                }
                // Pairs of rows, then fours, within the quarters of the registers; then the quarters.
                let mut w = v;
                for i in (0..LANES).step_by(2) {
                    w[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
                    w[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
                }
                for i in (0..LANES).step_by(4) {
                    let d = |i: usize| _mm512_castps_pd(w[i]);
                    v[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(d(i), d(i + 2)));
                    v[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(d(i), d(i + 2)));
                    v[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(d(i + 1), d(i + 3)));
                    v[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(d(i + 1), d(i + 3)));
                }
                for i in 0..4 {
                    let a = _mm512_shuffle_f32x4::<0x88>(v[i], v[i + 4]);
                    let b = _mm512_shuffle_f32x4::<0xdd>(v[i], v[i + 4]);
                    let c = _mm512_shuffle_f32x4::<0x88>(v[i + 8], v[i + 12]);
                    let d = _mm512_shuffle_f32x4::<0xdd>(v[i + 8], v[i + 12]);
                    w[i] = _mm512_shuffle_f32x4::<0x88>(a, c);
                    w[i + 4] = _mm512_shuffle_f32x4::<0x88>(b, d);
                    w[i + 8] = _mm512_shuffle_f32x4::<0xdd>(a, c);
                    w[i + 12] = _mm512_shuffle_f32x4::<0xdd>(b, d);
                }
                for (i, w) in w.iter().enumerate().take(depth - p) {
                    // SAFETY: row `p + i` is below `depth`, and columns up to `j + 16` are below COLS.
                    unsafe { _mm512_storeu_ps(to.wrapping_add((p + i) * COLS + j), *w) };
                }
            }
        }
    }

    /// A tile of `N` vectors per row; with `AHEAD`, the lines of B that lie `ahead` elements behind are asked for.
    ///
    /// # Safety
    /// All places that the tile names are valid, and C is not used elsewhere meanwhile.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn tile<const N: usize, const AHEAD: bool>(t: &Tile, ahead: usize) {
        let last = (u32::MAX >> (32 - (t.n - (N - 1) * LANES))) as __mmask16;
        let mut acc = [[_mm512_setzero_ps(); N]; ROWS];
        let (rows, mut a, mut b) = (t.rows, 0, t.b);
        // The result's lines are on their way while the sums are computed: C may be far away.
        for i in 0..t.m {
            let row = t.c.wrapping_add(i * t.ldc);
            (0..N).for_each(|j| prefetch(row.wrapping_add(j * LANES).cast()));
            prefetch(row.wrapping_add(t.n - 1).cast());
        }
        for _ in 0..t.outer {
            for &(in_a, in_b) in t.inner {
                let (at, from) = (a + in_a as usize, b.wrapping_add(in_b as usize));
                let mut v = [_mm512_setzero_ps(); N];
                for (j, v) in v.iter_mut().enumerate() {
                    let from = from.wrapping_add(j * LANES);
                    if AHEAD {
                        prefetch(from.wrapping_add(ahead).cast());
                    }
                    // SAFETY: the caller's promise; the mask ends at column n.
                    *v = unsafe {
                        if j + 1 < N { _mm512_loadu_ps(from) } else { _mm512_maskz_loadu_ps(last, from) }
                    };
                }
                for i in 0..ROWS {
                    // SAFETY: the caller's promise.
                    let s = _mm512_set1_ps(unsafe { *rows[i].add(at) });
                    for j in 0..N {
                        acc[i][j] = _mm512_fmadd_ps(s, v[j], acc[i][j]);
                    }
                }
            }
            a += t.a_step;
            b = b.wrapping_add(t.b_step);
        }
        for i in 0..ROWS {
            if i < t.m {
                for j in 0..N {
                    let to = t.c.wrapping_add(i * t.ldc + j * LANES);
                    let mask = if j + 1 < N { u16::MAX } else { last };
                    // SAFETY: the caller's promise; the mask ends at column n.
                    unsafe {
                        if t.add {
                            acc[i][j] = _mm512_add_ps(acc[i][j], _mm512_maskz_loadu_ps(mask, to));
                        }
                        _mm512_mask_storeu_ps(to, mask, acc[i][j]);
                    }
                }
            }
        }
    }
}

/// Results of a tile on their way to their places.
pub(crate) struct Store<'a> {
    /// Rows of sums, [`COLS`] apart; `n` of each are stored, from the `first` on.
    pub from: &'a [f32],
    pub first: usize,
    pub n: usize,
    /// What is added to each row; 0 where it ends.
    pub bias: &'a [f32],
    /// Where the first row begins, the step to the next one, and that between its elements.
    pub to: *mut f32,
    pub row: usize,
    pub step: usize,
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn store_v4(s: &Store) {
    use std::arch::x86_64::*;
    let mask = |i: usize| (u32::MAX >> (32 - (s.n - i).min(LANES))) as __mmask16;
    for (r, from) in s.from.chunks_exact(COLS).enumerate() {
        let bias = _mm512_set1_ps(s.bias.get(r).copied().unwrap_or(0.0));
        let to = s.to.wrapping_add(r * s.row);
        for i in (0..s.n).step_by(LANES) {
            // SAFETY: the mask ends at the end of the row's sums; `to` has as many places (the caller of `store`).
            unsafe {
                let v = _mm512_maskz_loadu_ps(mask(i), from.as_ptr().add(s.first + i));
                _mm512_mask_storeu_ps(to.add(i), mask(i), _mm512_add_ps(v, bias));
            }
        }
    }
}
/// Stores `n` results of each row.
///
/// # Safety
/// [`available`] said yes; all places are valid, and nobody uses them meanwhile.
#[inline]
pub(crate) unsafe fn store(s: &Store) {
    assert!(s.first + s.n <= COLS);
    #[cfg(target_arch = "x86_64")]
    if s.step == 1 {
        // SAFETY: the caller's promise; there is AVX2 where there is no more.
        return unsafe { if wide() { store_v4(s) } else { avx2::store(s) } };
    }
    for (r, from) in s.from.chunks_exact(COLS).enumerate() {
        let bias = s.bias.get(r).copied().unwrap_or(0.0);
        for (i, v) in from[s.first..s.first + s.n].iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { *s.to.add(r * s.row + i * s.step) = v + bias };
        }
    }
}

/// Whether this machine can run [`tile`].
#[inline]
pub(crate) fn available() -> bool {
    #[cfg(target_arch = "x86_64")]
    return level() >= Level::V3;
    #[cfg(not(target_arch = "x86_64"))]
    false
}
/// Whether the kernels are those of AVX-512.
#[cfg(target_arch = "x86_64")]
#[inline]
fn wide() -> bool {
    level() >= Level::V4
}

/// How many of `most` terms of a sum are taken at a time, so that what they need of B stays near: with AVX2 a tile passes over it
/// twice, and the first cache level has room for half as much beside A.
pub(crate) fn near(most: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    if !wide() {
        return most.min(DEPTH / 2);
    }
    most
}

/// Computes a tile.
///
/// # Safety
/// [`available`] said yes, all places that the tile names are valid, and C is not used elsewhere meanwhile.
#[inline]
pub(crate) unsafe fn tile(t: &Tile) {
    debug_assert!(t.n >= 1 && t.n <= COLS);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise; there is AVX2 where there is no more.
    unsafe {
        if !wide() {
            return avx2::tile::<false>(t, 0);
        }
        match t.n.div_ceil(LANES) {
            1 => x86::tile::<1, false>(t, 0),
            2 => x86::tile::<2, false>(t, 0),
            _ => x86::tile::<3, false>(t, 0),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = t;
}
/// [`tile`] where B comes from the second cache level by rows that are far apart: each step asks for what lies `ahead` elements
/// behind.
///
/// # Safety
/// As [`tile`].
#[inline]
pub(crate) unsafe fn tile_ahead(t: &Tile, ahead: usize) {
    debug_assert!(t.n >= 1 && t.n <= COLS);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise; there is AVX2 where there is no more.
    unsafe {
        if !wide() {
            return avx2::tile::<true>(t, ahead);
        }
        match t.n.div_ceil(LANES) {
            1 => x86::tile::<1, true>(t, ahead),
            2 => x86::tile::<2, true>(t, ahead),
            _ => x86::tile::<3, true>(t, ahead),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (t, ahead);
}

/// `to[p * COLS + j] = from[j * step + p]` for `j < n` and `p < depth`: the panel of a matrix that is stored transposed.
///
/// # Safety
/// [`available`] said yes; `n` is at most [`COLS`], the rows of `from` are valid for `depth` elements and `to` for `depth`
/// rows of [`COLS`].
#[inline]
pub(crate) unsafe fn turn(from: *const f32, step: usize, n: usize, depth: usize, to: *mut f32) {
    debug_assert!(n <= COLS);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise; there is AVX2 where there is no more.
    unsafe {
        if wide() {
            x86::turn(from, step, n, depth, to)
        } else {
            avx2::turn::<COLS, LANES>(from, step, n, depth, to)
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (from, step, n, depth, to);
}

/// Calls `f(first, columns)` for tiles of nearly equal numbers of vectors that cover `n` columns.
#[inline(always)]
pub(crate) fn column_tiles(n: usize, mut f: impl FnMut(usize, usize)) {
    let vectors = n.div_ceil(LANES);
    let count = n.div_ceil(COLS);
    for t in 0..count {
        let (from, to) = (t * vectors / count * LANES, ((t + 1) * vectors / count * LANES).min(n));
        f(from, to - from);
    }
}

/// `C (+)= A B`: A `[m, k]` with both strides, B `[k, n]` and C `[m, n]` with contiguous rows.
///
/// # Safety
/// [`available`] said yes, the matrices are valid and overlap not, nobody uses C meanwhile, and the steps that the sums
/// take (of A's columns, of B's rows) are at most 2^23.
pub(crate) unsafe fn product(
    m: usize,
    n: usize,
    k: usize,
    a: RawMat<f32>,
    b: RawMat<f32>,
    add: bool,
    c: RawOut<f32>,
) {
    let mut inner = [(0u32, 0u32); DEPTH];
    for (p, i) in inner.iter_mut().enumerate().take(k) {
        *i = ((p * a.cs) as u32, (p * b.rs) as u32);
    }
    let depth = near(DEPTH);
    for p in (0..k.max(1)).step_by(depth) {
        let inner = &inner[..depth.min(k - p)];
        column_tiles(n, |j, n| {
            for i in (0..m).step_by(ROWS) {
                let row = |r: usize| a.at((i + r).min(m - 1), p).p;
                let t = Tile {
                    rows: std::array::from_fn(row),
                    m: ROWS.min(m - i),
                    b: b.at(p, j).p,
                    outer: 1,
                    a_step: 0,
                    b_step: 0,
                    inner,
                    n,
                    c: c.at(i, j).p,
                    ldc: c.rs,
                    add: add || p > 0,
                };
                // SAFETY: a tile of the caller's matrices.
                unsafe { tile(&t) };
            }
        });
    }
}
