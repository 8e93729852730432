//! bfloat16 products by the machine's own instructions for them: by tiles ([`amx`]), or by vectors (AVX512-BF16), where pairs
//! of neighbours in the sum are multiplied and added to float32, on AMD's cores twice as many in a cycle as float32 multiplies.
//! Subnormal factors count as zero in both.

mod amx;

use super::RawMat;
use crate::engine::SharedMut;
#[cfg(target_arch = "x86_64")]
use crate::engine::cache::prefetch;
use crate::engine::isa::{self, Isa, Job};
use crate::engine::scratch::with_scratch;
use half::bf16;

/// Rows and columns of the tile that stays in registers.
const ROWS: usize = 8;
const COLS: usize = 48;
/// Terms of a sum taken at a time. A panel of the right operand comes from the second cache level again and again, which costs
/// less than taking up the results more often.
const DEPTH: usize = 512;
/// Rows of the left operand whose panels stay in the second cache level.
const LEFT: usize = 192;
/// Columns of the right operand whose panels are made at a time.
const RIGHT: usize = 1536;
/// Products below which making panels costs more than it saves.
const LEAST: usize = 1 << 15;

/// Whether [`product`] can run here and is worth it.
pub(super) fn suits(m: usize, n: usize, k: usize) -> bool {
    m >= 4 && n >= 4 && k >= 8 && m * n * k >= LEAST && (vectors() || amx::available())
}

/// Whether the vector instruction is there and faster than float32: Intel's cores take two cycles for it, and have two units
/// for float32.
fn vectors() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        isa::level() == isa::Level::V4 && std::arch::is_x86_feature_detected!("avx512bf16") && isa::amd()
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}

/// `out = A B` in float32, row-major and dense.
///
/// # Safety
/// [`suits`] said yes, and the matrices are valid for these sizes.
pub(super) unsafe fn product(
    m: usize,
    n: usize,
    k: usize,
    a: RawMat<bf16>,
    b: RawMat<bf16>,
    out: &mut [f32],
) {
    assert!(out.len() == m * n, "bf16 product: a wrong number of results");
    if !vectors() {
        // SAFETY: the caller's promise; `suits` says yes for the tiles where it does not for vectors.
        return unsafe { amx::product(m, n, k, a, b, out) };
    }
    let c = SharedMut::new(out);
    super::tiles(m, n, k, &|i0, rows, j0, cols| {
        with_scratch::<u32, _>(DEPTH / 2 * RIGHT.min(cols).next_multiple_of(COLS), |right| {
            with_scratch::<u32, _>(DEPTH / 2 * LEFT.min(rows).next_multiple_of(ROWS), |left| {
                for j in (j0..j0 + cols).step_by(RIGHT) {
                    let nj = RIGHT.min(j0 + cols - j);
                    for p in (0..k).step_by(DEPTH) {
                        let depth = DEPTH.min(k - p);
                        // SAFETY: a part of B.
                        unsafe { panels::<COLS>(depth, depth.div_ceil(2), nj, b.at(p, j), right) };
                        for i in (i0..i0 + rows).step_by(LEFT) {
                            let ni = LEFT.min(i0 + rows - i);
                            // SAFETY: a part of A, read by columns.
                            unsafe { panels::<ROWS>(depth, depth.div_ceil(2), ni, a.at(i, p).t(), left) };
                            // SAFETY: `suits` knows the machine; tiles of different tasks and their rows are disjoint parts
                            // of C, and panels were made for these sizes.
                            unsafe {
                                block(
                                    depth.div_ceil(2),
                                    ni,
                                    nj,
                                    left,
                                    right,
                                    c.ptr().wrapping_add(i * n + j),
                                    n,
                                    p > 0,
                                )
                            };
                        }
                    }
                }
            })
        })
    });
}

/// Multiplies panels: `c (+)= left right` for `m` rows, `ldc` apart.
///
/// # Safety
/// As [`product`]; `c` is valid for these rows and used by nobody else.
unsafe fn block(
    pairs: usize,
    m: usize,
    n: usize,
    left: &[u32],
    right: &[u32],
    c: *mut f32,
    ldc: usize,
    add: bool,
) {
    for (j, b) in (0..n).step_by(COLS).zip(right.chunks_exact(pairs * COLS)) {
        for (i, a) in (0..m).step_by(ROWS).zip(left.chunks_exact(pairs * ROWS)) {
            let (to, rows, cols) = (c.wrapping_add(i * ldc + j), ROWS.min(m - i), COLS.min(n - j));
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the caller's promise; the tile is cut to the block.
            unsafe {
                match cols.div_ceil(16) {
                    1 => tile::<1>(a, b, rows, cols, to, ldc, add),
                    2 => tile::<2>(a, b, rows, cols, to, ldc, add),
                    _ => tile::<3>(a, b, rows, cols, to, ldc, add),
                }
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = (a, b, to, rows, cols, add);
        }
    }
}

/// Two rows as one of pairs.
struct Pairs<'a> {
    low: &'a [bf16],
    high: &'a [bf16],
    to: &'a mut [u32],
}
impl Job for Pairs<'_> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for ((to, low), high) in self.to.iter_mut().zip(self.low).zip(self.high) {
            *to = u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16;
        }
    }
}
/// Panels of `W` columns: for each pair of rows, the pairs of neighbours in all columns. What is missing to `pairs` and to whole
/// panels is zero.
///
/// # Safety
/// `mat` is valid for `k` x `n`.
unsafe fn panels<const W: usize>(k: usize, pairs: usize, n: usize, mat: RawMat<bf16>, to: &mut [u32]) {
    debug_assert!(pairs >= k.div_ceil(2));
    for (j, panel) in (0..n).step_by(W).zip(to.chunks_exact_mut(pairs * W)) {
        let (m, w) = (mat.at(0, j), W.min(n - j));
        if w < W {
            panel.fill(0);
        } else {
            panel[k.div_ceil(2) * W..].fill(0);
        }
        // SAFETY: inside the matrix.
        let at = |p: usize, j: usize| unsafe { m.at(p, j).p.read() };
        let whole = k / 2;
        if m.rs == 1 && m.p.addr().is_multiple_of(4) && m.cs.is_multiple_of(2) {
            let (to, from) = (panel.as_mut_ptr().cast(), m.p.cast());
            // SAFETY: `whole` aligned pairs in each of `w` columns; the panel has `W` places for each.
            unsafe {
                crate::copy::transpose::transpose_copy(
                    to,
                    4 * W as isize,
                    from,
                    2 * m.cs as isize,
                    whole,
                    w,
                    4,
                )
            };
        } else if m.cs == 1 {
            for (p, to) in (0..whole).zip(panel.chunks_exact_mut(W)) {
                let row = |p: usize| m.at(p, 0).p;
                // SAFETY: `w` contiguous elements of two rows.
                let (low, high) = unsafe {
                    (std::slice::from_raw_parts(row(2 * p), w), std::slice::from_raw_parts(row(2 * p + 1), w))
                };
                isa::run(Pairs { low, high, to });
            }
        } else {
            for (p, to) in (0..whole).zip(panel.chunks_exact_mut(W)) {
                for (j, to) in to.iter_mut().enumerate().take(w) {
                    *to = u32::from(at(2 * p, j).to_bits()) | u32::from(at(2 * p + 1, j).to_bits()) << 16;
                }
            }
        }
        if k % 2 == 1 {
            let last = &mut panel[whole * W..][..w];
            last.iter_mut().enumerate().for_each(|(j, to)| *to = u32::from(at(k - 1, j).to_bits()));
        }
    }
}

/// One tile of `N` vectors a row in registers.
///
/// # Safety
/// The machine has AVX512-BF16; `c` is valid for `m` rows of `n` elements, `m` up to [`ROWS`] and `n` up to [`COLS`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn tile<const N: usize>(a: &[u32], b: &[u32], m: usize, n: usize, c: *mut f32, ldc: usize, add: bool) {
    use std::arch::x86_64::*;
    let mut sum = [[_mm512_setzero_ps(); N]; ROWS];
    // the result's lines are on their way while the sums are computed
    for i in 0..m {
        (0..N).for_each(|q| prefetch(c.wrapping_add(i * ldc + 16 * q).cast()));
    }
    for (a, b) in a.chunks_exact(ROWS).zip(b.chunks_exact(COLS)) {
        let b: [__m512bh; N] = std::array::from_fn(|q| {
            // SAFETY: 16 of the chunk's elements; both types are 512 bits of anything.
            unsafe { std::mem::transmute(_mm512_loadu_si512(b.as_ptr().add(16 * q).cast())) }
        });
        for (sum, a) in sum.iter_mut().zip(a) {
            // SAFETY: both types are 512 bits of anything.
            let a: __m512bh = unsafe { std::mem::transmute(_mm512_set1_epi32(*a as i32)) };
            for (sum, b) in sum.iter_mut().zip(b) {
                *sum = _mm512_dpbf16_ps(*sum, a, b);
            }
        }
    }
    for (i, sum) in sum.iter().enumerate().take(m) {
        for (q, sum) in sum.iter().enumerate() {
            let mask = match n.saturating_sub(16 * q) {
                16.. => !0,
                few => (1u16 << few) - 1,
            };
            let to = c.wrapping_add(i * ldc + 16 * q);
            // SAFETY: the mask leaves the elements of the caller's tile.
            unsafe {
                let sum = if add { _mm512_add_ps(*sum, _mm512_maskz_loadu_ps(mask, to)) } else { *sum };
                _mm512_mask_storeu_ps(to, mask, sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_all_sizes_and_layouts() {
        let value = |i: usize| bf16::from_f32(((i * 7919) % 61) as f32 / 8.0 - 3.5);
        let data: Vec<bf16> = (0..200_000).map(value).collect();
        for (m, n, k) in
            [(8, 48, 64), (37, 51, 33), (200, 100, 391), (4, 1600, 9), (65, 49, 770), (9, 80, 1030)]
        {
            if !suits(m, n, k) {
                continue;
            }
            for (at, a_by_rows, b_by_rows) in
                [(0, true, true), (1, false, true), (2, true, false), (3, false, false)]
            {
                let mat = |rows: usize, cols: usize, by_rows: bool| {
                    let (rs, cs) = if by_rows { (cols + at, 1) } else { (1, rows + at) };
                    RawMat::new(data[at..].as_ptr(), rs, cs)
                };
                let (a, b) = (mat(m, k, a_by_rows), mat(k, n, b_by_rows));
                let mut out = vec![f32::NAN; m * n];
                // SAFETY: both matrices lie in `data`.
                unsafe { product(m, n, k, a, b, &mut out) };
                for (i, j) in [(0, 0), (m - 1, n - 1), (m / 2, n / 3), (m - 1, 0), (0, n - 1)] {
                    let term = |p: usize| {
                        let (x, y) = (a.at(i, p).p.addr(), b.at(p, j).p.addr());
                        let at = |addr: usize| data[(addr - data.as_ptr().addr()) / 2].to_f64();
                        at(x) * at(y)
                    };
                    // sums of eighths squared below 2^24 are exact in float32
                    assert_eq!(f64::from(out[i * n + j]), (0..k).map(term).sum::<f64>(), "{m} {n} {k} {at}");
                }
            }
        }
    }

    #[test]
    fn nothing_of_operands_with_an_alpha_of_zero() {
        let x = vec![bf16::INFINITY; 64 * 64];
        let mut y = vec![bf16::from_f32(3.0); 64 * 64];
        let mat = |data| crate::blas::Mat { data, row: 64, col: 1 };
        let out = crate::blas::MatMut { data: &mut y[..], row: 64, col: 1 };
        crate::blas::gemm(64, 64, 64, 0.0, mat(&x[..]), mat(&x[..]), 2.0, out);
        assert!(y.iter().all(|v| v.to_f32() == 6.0));
    }
}
