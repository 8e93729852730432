//! The decompositions that distributions of matrices need.

use flambeau_core::{Error, Result, Tensor};

fn missing<T>(name: &str) -> Result<T> {
    Err(Error::missing(format!("torch.linalg.{name}")))
}
/// Lower-triangular factor of positive definite matrices.
pub fn cholesky(_a: &Tensor) -> Result<Tensor> {
    missing("cholesky")
}
/// 0 where the factorization succeeds.
pub fn cholesky_info(_a: &Tensor) -> Result<Tensor> {
    missing("cholesky_ex")
}
/// Inverse of `l l^T`.
pub fn cholesky_inverse(_l: &Tensor) -> Result<Tensor> {
    missing("cholesky_inverse")
}
/// Solves `l l^T x = b`.
pub fn cholesky_solve(_b: &Tensor, _l: &Tensor) -> Result<Tensor> {
    missing("cholesky_solve")
}
/// Eigenvalues of symmetric matrices.
pub fn eigvalsh(_a: &Tensor) -> Result<Tensor> {
    missing("eigvalsh")
}
/// Solves `l x = b` with a lower-triangular `l`.
pub fn solve_lower(_l: &Tensor, _b: &Tensor) -> Result<Tensor> {
    missing("solve_triangular")
}
/// Logarithms of absolute determinants.
pub fn logabsdet(a: &Tensor) -> Result<Tensor> {
    Ok(flambeau_core::ops::linalg_slogdet(a)?.1)
}
