//! Products of float32 matrices whose factors may be rounded to bfloat16, since the machine multiplies those faster.

use super::{RawMat, RawOut, bf16 as narrow};
use crate::engine::SharedMut;
use crate::engine::parallel::parallel_for;
use crate::engine::scratch::with_scratch;
use half::bf16;
use std::sync::atomic::{AtomicBool, Ordering};

static ALLOWED: AtomicBool = AtomicBool::new(false);
/// Factors of an operand that are rounded at once.
const MOST: usize = 1 << 26;
/// Factors that a task rounds.
const GRAIN: usize = 1 << 14;

/// Whether factors of float32 products may be rounded to bfloat16 from now on, where that is faster
/// (`torch.set_float32_matmul_precision`).
pub fn allow_bf16_factors(on: bool) {
    ALLOWED.store(on, Ordering::Relaxed);
}

/// The rounded factors, dense, by columns where the matrix lies so.
///
/// # Safety
/// The matrix is valid for these sizes; `to` has a place for each element.
unsafe fn rounded(mat: RawMat<f32>, rows: usize, cols: usize, to: &mut [bf16]) -> RawMat<bf16> {
    assert!(to.len() == rows * cols, "rounded factors: a wrong number of places");
    let by_columns = mat.rs < mat.cs;
    let (from, lines, len) = if by_columns { (mat.t(), cols, rows) } else { (mat, rows, cols) };
    let out = SharedMut::new(to);
    parallel_for(lines, (GRAIN / len.max(1)).max(1), |r| {
        for i in r {
            for j in 0..len {
                // SAFETY: inside the matrix; lines of the copy are written by one task each.
                unsafe { out.set(i * len + j, bf16::from_f32(from.at(i, j).p.read())) };
            }
        }
    });
    let dense = RawMat::rows(out.ptr().cast_const(), len);
    if by_columns { dense.t() } else { dense }
}

/// `C = alpha A B + beta C` of rounded factors; false, with nothing done, where that is not allowed or not faster.
///
/// # Safety
/// The matrices are valid for these sizes and C overlaps neither A nor B.
pub(super) unsafe fn try_product(
    m: usize,
    n: usize,
    k: usize,
    alpha: f32,
    a: RawMat<f32>,
    b: RawMat<f32>,
    beta: f32,
    c: RawOut<f32>,
) -> bool {
    let allowed = ALLOWED.load(Ordering::Relaxed) && alpha != 0.0;
    if !allowed || !narrow::suits(m, n, k) || (m * k).max(k * n).max(m * n) > MOST {
        return false;
    }
    with_scratch::<bf16, _>(m * k, |left| {
        with_scratch::<bf16, _>(k * n, |right| {
            with_scratch::<f32, _>(m * n, |sums| {
                // SAFETY: the caller's promise; `suits` said yes.
                unsafe {
                    let (a, b) = (rounded(a, m, k, left), rounded(b, k, n, right));
                    narrow::product(m, n, k, a, b, sums);
                }
                let sums = RawMat::rows(sums.as_ptr(), n);
                parallel_for(m, (GRAIN / n).max(1), |r| {
                    for (i, j) in r.flat_map(|i| (0..n).map(move |j| (i, j))) {
                        // SAFETY: inside C, whose rows are written by one task each, and inside the sums.
                        unsafe {
                            let (to, v) = (c.at(i, j).p, alpha * sums.at(i, j).p.read());
                            *to = if beta == 0.0 { v } else { v + beta * *to };
                        }
                    }
                });
            })
        })
    });
    true
}

#[cfg(test)]
mod tests {
    use crate::blas::{Mat, allow_bf16_factors, gemm};
    use half::bf16;

    #[test]
    fn factors_are_rounded_where_it_is_allowed_alone() {
        let (m, n, k) = (64, 48, 96);
        let value = |i: usize| ((i * 7919) % 611) as f32 / 97.0 - 3.0;
        let (a, b): (Vec<f32>, Vec<f32>) = ((0..m * k).map(value).collect(), (0..k * n).map(value).collect());
        let multiply = || {
            let mut c = vec![1f32; m * n];
            let (a, b) = (Mat { data: &a[..], row: k, col: 1 }, Mat { data: &b[..], row: 1, col: k });
            gemm(m, n, k, 2.0, a, b, 3.0, Mat { data: &mut c[..], row: n, col: 1 });
            c
        };
        let expected = |of: fn(f32) -> f64| -> Vec<f64> {
            let sum = |i: usize, j: usize| (0..k).map(|p| of(a[i * k + p]) * of(b[j * k + p])).sum::<f64>();
            (0..m * n).map(|at| 2.0 * sum(at / n, at % n) + 3.0).collect()
        };
        let near =
            |c: &[f32], want: &[f64]| c.iter().zip(want).all(|(c, w)| (f64::from(*c) - w).abs() < 2e-3);
        let (exact, narrow) = (expected(f64::from), expected(|v| bf16::from_f32(v).to_f64()));
        assert!(near(&multiply(), &exact));
        allow_bf16_factors(true);
        let c = multiply();
        let can = super::narrow::suits(m, n, k);
        allow_bf16_factors(false);
        assert!(near(&c, if can { &narrow } else { &exact }));
        assert!(near(&multiply(), &exact));
    }
}
