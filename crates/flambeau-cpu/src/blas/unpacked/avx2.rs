//! The kernels of AVX2: tiles of 4 rows and 24 columns, whose sums, columns and one element of A fill the sixteen registers.

use super::{COLS, ROWS, Store, Tile};
use crate::engine::cache::prefetch;
use crate::engine::simd::{Vector, x86::F8};
use std::arch::asm;
use std::arch::x86_64::*;

/// Columns of a vector register, and of the widest block.
const LANES: usize = 8;
const WIDEST: usize = 3 * LANES;

/// The first `n` lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn mask(n: usize) -> __m256i {
    _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
}

/// One element of A times three vectors, onto three sums. The compiler, left to itself, loads the element for the next row before
/// it is done with this one's, and keeps a sum in memory for it: that takes twice as long.
macro_rules! row_of_three {
    ($row:expr, $at:expr, $v:expr, $sums:expr) => {{
        let (row, at, [v0, v1, v2], [s0, s1, s2]) = ($row, $at, $v, $sums);
        asm!(
            "vbroadcastss {a}, dword ptr [{row} + 4 * {at}]",
            "vfmadd231ps {s0}, {a}, {v0}",
            "vfmadd231ps {s1}, {a}, {v1}",
            "vfmadd231ps {s2}, {a}, {v2}",
            row = in(reg) row, at = in(reg) at, a = out(ymm_reg) _, v0 = in(ymm_reg) *v0, v1 = in(ymm_reg) *v1, v2 = in(ymm_reg) *v2,
            s0 = inout(ymm_reg) *s0, s1 = inout(ymm_reg) *s1, s2 = inout(ymm_reg) *s2,
            options(readonly, nostack, preserves_flags)
        )
    }};
}

/// The rows from `i` on and `n` columns from `j` on, of which `N` vectors are needed; with `WHOLE` they end with a lane. With `AHEAD`,
/// the lines of B that lie `ahead` elements behind are asked for.
///
/// # Safety
/// All places that the tile names are valid, and C is not used elsewhere meanwhile.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn block<const R: usize, const N: usize, const WHOLE: bool, const AHEAD: bool>(
    t: &Tile,
    (i, j, n): (usize, usize, usize),
    ahead: usize,
) {
    let last = mask(n - (N - 1) * LANES);
    let mut acc = [[_mm256_setzero_ps(); N]; R];
    let mut rows = [t.rows[0]; R];
    rows.copy_from_slice(&t.rows[i..i + R]);
    let (mut a, mut b) = (0, t.b.wrapping_add(j));
    for _ in 0..t.outer {
        for &(in_a, in_b) in t.inner {
            let (at, from) = (a + in_a as usize, b.wrapping_add(in_b as usize));
            if AHEAD {
                prefetch(from.wrapping_add(ahead).cast());
                if N > 2 {
                    prefetch(from.wrapping_add(ahead + 2 * LANES).cast());
                }
            }
            let mut v = [_mm256_setzero_ps(); N];
            for (j, v) in v.iter_mut().enumerate() {
                let from = from.wrapping_add(j * LANES);
                // SAFETY: the caller's promise; the mask ends at column n.
                *v = unsafe {
                    if WHOLE || j + 1 < N { _mm256_loadu_ps(from) } else { _mm256_maskload_ps(from, last) }
                };
            }
            for i in 0..R {
                // SAFETY: the caller's promise.
                unsafe {
                    if let ([v0, v1, v2], [s0, s1, s2]) = (&v[..], &mut acc[i][..]) {
                        row_of_three!(rows[i], at, [v0, v1, v2], [s0, s1, s2]);
                    } else {
                        let s = _mm256_broadcast_ss(&*rows[i].wrapping_add(at));
                        for j in 0..N {
                            acc[i][j] = _mm256_fmadd_ps(s, v[j], acc[i][j]);
                        }
                    }
                }
            }
        }
        a += t.a_step;
        b = b.wrapping_add(t.b_step);
    }
    for r in 0..R {
        if i + r < t.m {
            for v in 0..N {
                let to = t.c.wrapping_add((i + r) * t.ldc + j + v * LANES);
                let mut sum = acc[r][v];
                // SAFETY: the caller's promise; what is read and written ends at column n.
                unsafe {
                    if WHOLE || v + 1 < N {
                        if t.add {
                            sum = _mm256_add_ps(sum, _mm256_loadu_ps(to));
                        }
                        _mm256_storeu_ps(to, sum);
                    } else {
                        if t.add {
                            sum = _mm256_add_ps(sum, _mm256_maskload_ps(to, last));
                        }
                        F8::of(sum).store_first(to, n - v * LANES);
                    }
                }
            }
        }
    }
}

/// A tile, by blocks.
///
/// # Safety
/// As [`block`].
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn tile<const AHEAD: bool>(t: &Tile, ahead: usize) {
    // The result's lines are on their way while the sums are computed: C may be far away.
    for i in 0..t.m {
        let row = t.c.wrapping_add(i * t.ldc);
        (0..t.n).step_by(2 * LANES).for_each(|j| prefetch(row.wrapping_add(j).cast()));
        prefetch(row.wrapping_add(t.n - 1).cast());
    }
    let blocks = t.n.div_ceil(WIDEST);
    let vectors = t.n.div_ceil(LANES);
    for k in 0..blocks {
        let j = k * vectors / blocks * LANES;
        let n = ((k + 1) * vectors / blocks * LANES).min(t.n) - j;
        let whole = n.is_multiple_of(LANES);
        macro_rules! rows_of_four {
            ($n:literal, $whole:literal) => {{
                block::<4, $n, $whole, AHEAD>(t, (0, j, n), ahead);
                if t.m > 4 {
                    block::<4, $n, $whole, false>(t, (4, j, n), ahead);
                }
            }};
        }
        // SAFETY: the caller's promise.
        unsafe {
            match (n.div_ceil(LANES), whole) {
                (1, true) => block::<ROWS, 1, true, AHEAD>(t, (0, j, n), ahead),
                (1, false) => block::<ROWS, 1, false, AHEAD>(t, (0, j, n), ahead),
                (2, true) => rows_of_four!(2, true),
                (2, false) => rows_of_four!(2, false),
                (_, true) => rows_of_four!(3, true),
                (_, false) => rows_of_four!(3, false),
            }
        }
    }
}

/// `to[p * W + j] = from[j * step + p]` for `j < n` and `p < depth`, 8 x 8 at a time; columns up to the next multiple of `FULL` get
/// zeros.
///
/// # Safety
/// The rows of `from` are valid for `depth` elements, `to` for `depth` rows of `W`, of which `n` up to a multiple of `FULL` is no more.
#[target_feature(enable = "avx2,fma")]
pub(in crate::blas) unsafe fn turn<const W: usize, const FULL: usize>(
    from: *const f32,
    step: usize,
    n: usize,
    depth: usize,
    to: *mut f32,
) {
    /// How far ahead the rows that are turned are asked for: 8 at a time are many streams to follow when they come from memory.
    const SOON: usize = 16 * LANES;
    let none = [0.0f32; LANES];
    let mut past = [0.0f32; LANES];
    let past = past.as_mut_ptr();
    // eight rows from end to end, not all of them at once: rows that are a power of two apart share few places of the caches
    for j in (0..n.next_multiple_of(FULL)).step_by(LANES) {
        for p in (0..depth).step_by(LANES) {
            let left = depth - p;
            let row = |k: usize| from.wrapping_add((j + k) * step + p);
            let to = to.wrapping_add(p * W + j);
            if left >= LANES && j + LANES <= n {
                if p.is_multiple_of(2 * LANES) && p + SOON < depth {
                    (0..LANES).for_each(|k| prefetch(row(k).wrapping_add(SOON).cast()));
                }
                // SAFETY: rows below n with 8 elements left; rows below `depth`.
                unsafe { F8::square(row, |k| to.wrapping_add(k * W), None) };
                continue;
            }
            let mut short = [[0.0f32; LANES]; LANES];
            let last = mask(left.min(LANES));
            for (k, short) in short.iter_mut().enumerate().take(n.saturating_sub(j)) {
                // SAFETY: row `j + k` is below n, and the mask ends at `depth`.
                unsafe { _mm256_storeu_ps(short.as_mut_ptr(), _mm256_maskload_ps(row(k), last)) };
            }
            let read = |k: usize| short.get(k).unwrap_or(&none).as_ptr();
            let write = |k: usize| if k < left { to.wrapping_add(k * W) } else { past };
            // SAFETY: rows of this function; rows below `depth`, whose columns up to `j + 8` there are.
            unsafe { F8::square(read, write, None) };
        }
    }
}

/// `to[p * W + j] = from[j * step + p]` for `j < n` and `p < depth`, where `n` and `W` are at most 8; columns up to `W` get any value.
///
/// # Safety
/// The rows of `from` are valid for `depth` elements, `to` for `depth` rows of `W` and `8 - W` elements more; `n` is not 0.
#[target_feature(enable = "avx2,fma")]
pub(in crate::blas) unsafe fn turn_rows<const W: usize>(
    from: *const f32,
    step: usize,
    n: usize,
    depth: usize,
    to: *mut f32,
) {
    /// As in [`turn`].
    const SOON: usize = 16 * LANES;
    let row = |k: usize| from.wrapping_add(k.min(n - 1) * step);
    let whole = depth / LANES * LANES;
    for p in (0..whole).step_by(LANES) {
        if p.is_multiple_of(2 * LANES) && p + SOON < depth {
            (0..n).for_each(|k| prefetch(row(k).wrapping_add(p + SOON).cast()));
        }
        // SAFETY: rows below n with 8 elements left; each row of `to` is written before the next one, whose first elements it
        // may overwrite, and the last one ends `8 - W` elements beyond.
        unsafe { F8::square(|k| row(k).wrapping_add(p), |k| to.wrapping_add((p + k) * W), None) };
    }
    for p in whole..depth {
        for j in 0..n {
            // SAFETY: row `j` is below n, and `p` below `depth`.
            unsafe { *to.add(p * W + j) = *from.add(j * step + p) };
        }
    }
}

/// `to[p * W + j] = from[p * step + j]` for `j < n` and `p < depth`; columns up to the next multiple of 8 get zeros.
///
/// # Safety
/// The rows of `from` are valid for `n` elements, `to` for `depth` rows of `W`, of which `n` up to a multiple of 8 is no more.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(in crate::blas) unsafe fn copy<const W: usize>(
    from: *const f32,
    step: usize,
    n: usize,
    depth: usize,
    to: *mut f32,
) {
    const SOON: usize = 16;
    let (whole, last) = (n / LANES * LANES, mask(n % LANES));
    for p in 0..depth {
        let (from, to) = (from.wrapping_add(p * step), to.wrapping_add(p * W));
        // the machine does not follow rows that are far apart
        prefetch(from.wrapping_add(SOON * step).cast());
        prefetch(from.wrapping_add(SOON * step + n - 1).cast());
        // SAFETY: the caller's promise; the mask ends at n.
        unsafe {
            for j in (0..whole).step_by(LANES) {
                _mm256_storeu_ps(to.add(j), _mm256_loadu_ps(from.add(j)));
            }
            if whole < n {
                _mm256_storeu_ps(to.add(whole), _mm256_maskload_ps(from.add(whole), last));
            }
        }
    }
}

/// See [`super::store`].
///
/// # Safety
/// As there; the step is 1.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn store(s: &Store) {
    for (r, from) in s.from.chunks_exact(COLS).enumerate() {
        let bias = _mm256_set1_ps(s.bias.get(r).copied().unwrap_or(0.0));
        let (from, to) = (from[s.first..s.first + s.n].as_ptr(), s.to.wrapping_add(r * s.row));
        let whole = s.n / LANES * LANES;
        // SAFETY: `from` and `to` have `n` places (the caller of `store`).
        unsafe {
            for i in (0..whole).step_by(LANES) {
                _mm256_storeu_ps(to.add(i), _mm256_add_ps(_mm256_loadu_ps(from.add(i)), bias));
            }
            if whole < s.n {
                let v = _mm256_maskload_ps(from.add(whole), mask(s.n - whole));
                F8::of(_mm256_add_ps(v, bias)).store_first(to.add(whole), s.n - whole);
            }
        }
    }
}
