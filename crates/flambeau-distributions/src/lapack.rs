//! The decompositions that distributions of matrices need, with the options that they need.

use flambeau_core::{Result, Tensor};
use flambeau_linalg::ops;

/// Lower-triangular factor of positive definite matrices.
pub fn cholesky(a: &Tensor) -> Result<Tensor> {
    ops::linalg_cholesky(a, false)
}
/// 0 where the factorization succeeds.
pub fn cholesky_info(a: &Tensor) -> Result<Tensor> {
    Ok(ops::linalg_cholesky_ex(a, false, false)?.1)
}
/// Inverse of `l l^T`.
pub fn cholesky_inverse(l: &Tensor) -> Result<Tensor> {
    ops::cholesky_inverse(l, false)
}
/// Solves `l l^T x = b`.
pub fn cholesky_solve(b: &Tensor, l: &Tensor) -> Result<Tensor> {
    ops::cholesky_solve(b, l, false)
}
/// Eigenvalues of symmetric matrices.
pub fn eigvalsh(a: &Tensor) -> Result<Tensor> {
    ops::linalg_eigvalsh(a, "L")
}
/// Solves `l x = b` with a lower-triangular `l`.
pub fn solve_lower(l: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::linalg_solve_triangular(l, b, false, true, false)
}
/// Logarithms of absolute determinants.
pub fn logabsdet(a: &Tensor) -> Result<Tensor> {
    Ok(flambeau_core::ops::linalg_slogdet(a)?.1)
}
