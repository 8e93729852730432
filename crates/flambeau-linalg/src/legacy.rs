//! Names that PyTorch documented once and has given up, as thin functions over those that took their place. Results are those
//! that the old documentation says.

use crate::ops;
use crate::ops::util::{mh, number};
use flambeau_core::backend::matrices::{batch, sides, sized};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry;
use flambeau_core::{DType, Result, Tensor, ensure, ops as core};

/// X with `A X = B`, and the LU decomposition of A (`torch.solve`).
///
/// ```
/// use torch::tensor;
/// let (x, _) = torch::legacy::solve(&tensor([[2.0], [8.0]]), &tensor([[2.0, 0.0], [0.0, 4.0]]));
/// assert_eq!(x.to_vec::<f32>(), [1.0, 2.0]);
/// ```
///
/// # Errors
/// Shapes that do not fit; a singular matrix.
#[doc(alias = "torch.solve")]
#[flambeau_macros::short]
pub fn try_solve(b: &Tensor, a: &Tensor) -> Result<(Tensor, Tensor)> {
    let x = ops::linalg_solve(a, b, true)?;
    Ok((x, ops::linalg_lu_factor_ex(a, true, false)?.0))
}
/// [`solve`] under LAPACK's name (`torch.gesv`).
///
/// # Errors
/// As [`solve`].
#[deprecated = "use `linalg::solve`"]
#[doc(alias = "torch.gesv")]
#[flambeau_macros::short]
pub fn try_gesv(b: &Tensor, a: &Tensor) -> Result<(Tensor, Tensor)> {
    try_solve(b, a)
}
/// Least squares of full rank (`torch.gels`): `max(m, n)` rows, of which the first n are the solution and the squares of the
/// others sum to the residuals, and the QR decomposition in compact form.
///
/// # Errors
/// Operands that are no matrices of fitting sizes.
#[deprecated = "use `linalg::lstsq`"]
#[doc(alias = "torch.gels")]
#[flambeau_macros::short]
pub fn try_gels(b: &Tensor, a: &Tensor) -> Result<(Tensor, Tensor)> {
    try_lstsq(b, a)
}
/// As `gels` (`torch.lstsq`).
///
/// ```
/// use torch::tensor;
/// let (x, _) = torch::legacy::lstsq(&tensor([[2.0], [2.0]]), &tensor([[1.0], [1.0]]));
/// assert!((x.to_vec::<f32>()[0] - 2.0).abs() < 1e-5);
/// ```
///
/// # Errors
/// Operands that are no matrices of fitting sizes.
#[doc(alias = "torch.lstsq")]
#[flambeau_macros::short]
pub fn try_lstsq(b: &Tensor, a: &Tensor) -> Result<(Tensor, Tensor)> {
    ensure!(a.dim() == 2 && b.dim() == 2, Runtime, "A and B should have 2 dimensions");
    let ((m, n), (rows, _)) = (sides(a), sides(b));
    ensure!(
        rows == m,
        Runtime,
        "Expected A and b to have same size at dim 0, but A has {m} rows and B has {rows} rows"
    );
    if m < n {
        let (lq, _) = ops::geqrf(&mh(a)?)?;
        return Ok((ops::linalg_lstsq(a, b, None, Some("gels"))?.0, mh(&lq)?));
    }
    let (qr, tau) = ops::geqrf(a)?;
    // all of Q^H B: solved above, left over below
    let turned = ops::ormqr(&qr, &tau, b, true, true)?;
    let r = core::triu(&core::narrow(&qr, 0, 0, n)?, 0)?;
    let x = ops::linalg_solve_triangular(&r, &core::narrow(&turned, 0, 0, n)?, true, true, false)?;
    Ok((core::cat(&[x, core::narrow(&turned, 0, n, m - n)?], 0)?, qr))
}
/// Cholesky decomposition, upper unless asked otherwise (`torch.potrf`).
///
/// # Errors
/// A matrix that is not positive-definite.
#[deprecated = "use `linalg::cholesky`"]
#[doc(alias = "torch.potrf")]
#[flambeau_macros::short]
pub fn try_potrf(a: &Tensor, upper: bool) -> Result<Tensor> {
    ops::linalg_cholesky(a, upper)
}
/// Solution by a Cholesky factor (`torch.potrs`).
///
/// # Errors
/// Shapes that do not fit.
#[deprecated = "use `cholesky_solve`"]
#[doc(alias = "torch.potrs")]
#[flambeau_macros::short]
pub fn try_potrs(b: &Tensor, u: &Tensor, upper: bool) -> Result<Tensor> {
    ops::cholesky_solve(b, u, upper)
}
/// Inverse by a Cholesky factor (`torch.potri`).
///
/// # Errors
/// Shapes that do not fit; a zero on the diagonal.
#[deprecated = "use `cholesky_inverse`"]
#[doc(alias = "torch.potri")]
#[flambeau_macros::short]
pub fn try_potri(u: &Tensor, upper: bool) -> Result<Tensor> {
    ops::cholesky_inverse(u, upper)
}
/// Cholesky decomposition with pivots (`torch.pstrf`): `a = p^T u^T u p`, and the pivots from 0 as int32. Elimination ends where
/// no diagonal element is above `tol`, or without one above the rounding of the largest.
///
/// # Errors
/// An operand that is no square matrix of float32 or float64.
#[deprecated = "use `linalg::cholesky`"]
#[doc(alias = "torch.pstrf")]
#[flambeau_macros::short]
pub fn try_pstrf(a: &Tensor, upper: bool, tol: f64) -> Result<(Tensor, Tensor)> {
    ensure!(a.dim() == 2 && sides(a).0 == sides(a).1, Runtime, "pstrf: A must be a square matrix");
    ensure!(matches!(a.dtype(), DType::F32 | DType::F64), Runtime, "pstrf: A must be float32 or float64");
    let n = sides(a).0 as usize;
    let wide = core::to_copy(a, Some(DType::F64), None, None, None, false, None)?;
    // by rows the upper half counts, or of the transpose the lower one
    let wide = if upper { wide } else { mh(&wide)? };
    let mut m = core::reshape(&wide, &[-1])?.try_to_vec::<f64>()?;
    for i in 0..n {
        for j in 0..i {
            m[i * n + j] = m[j * n + i];
        }
    }
    let mut order: Vec<i32> = geometry::listed(0..n as i32)?;
    let largest = (0..n).map(|i| m[i * n + i]).fold(0.0f64, f64::max);
    let eps = if a.dtype() == DType::F32 { f64::from(f32::EPSILON) / 2.0 } else { f64::EPSILON / 2.0 };
    let least = if tol < 0.0 { n as f64 * eps * largest } else { tol };
    let mut u = geometry::filled(0.0f64, geometry::size_mul(n as i64, n as i64)?)?;
    for k in 0..n {
        let best = (k..n).max_by(|i, j| m[i * n + i].total_cmp(&m[j * n + j])).unwrap_or(k);
        if m[best * n + best] <= least {
            break;
        }
        if best != k {
            order.swap(k, best);
            for j in 0..n {
                m.swap(k * n + j, best * n + j);
            }
            for i in 0..n {
                m.swap(i * n + k, i * n + best);
                u.swap(i * n + k, i * n + best);
            }
        }
        let d = m[k * n + k].sqrt();
        u[k * n + k] = d;
        for j in k + 1..n {
            u[k * n + j] = m[k * n + j] / d;
        }
        for i in k + 1..n {
            for j in k + 1..n {
                m[i * n + j] -= u[k * n + i] * u[k * n + j];
            }
        }
    }
    let u = Tensor::from_vec_raw(u, &[n as i64, n as i64])?;
    let u = core::to_copy(&u, Some(a.dtype()), None, None, None, false, None)?;
    let pivots = Tensor::from_vec_raw(order, &[n as i64])?;
    Ok((if upper { u } else { mh(&u)? }, pivots))
}
/// LU decompositions of a batch in compact form, and pivots (`torch.btrifact`).
///
/// # Errors
/// An operand that is no batch of matrices.
#[deprecated = "use `linalg::lu_factor`"]
#[doc(alias = "torch.btrifact")]
#[flambeau_macros::short]
pub fn try_btrifact(a: &Tensor, pivot: bool) -> Result<(Tensor, Tensor)> {
    let (lu, pivots, _) = ops::linalg_lu_factor_ex(a, pivot, false)?;
    Ok((lu, pivots))
}
/// [`btrifact`](#) with the place of each zero pivot (`torch.btrifact_with_info`).
///
/// # Errors
/// An operand that is no batch of matrices.
#[deprecated = "use `linalg::lu_factor_ex`"]
#[doc(alias = "torch.btrifact_with_info")]
#[flambeau_macros::short]
pub fn try_btrifact_with_info(a: &Tensor, pivot: bool) -> Result<(Tensor, Tensor, Tensor)> {
    ops::linalg_lu_factor_ex(a, pivot, false)
}
/// Solutions by LU decompositions, one right side (a vector) or several for each matrix (`torch.btrisolve`).
///
/// # Errors
/// Shapes that do not fit.
#[deprecated = "use `linalg::lu_solve`"]
#[doc(alias = "torch.btrisolve")]
#[flambeau_macros::short]
pub fn try_btrisolve(b: &Tensor, lu: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    if b.dim() + 1 == lu.dim() {
        let x = ops::linalg_lu_solve(lu, pivots, &core::unsqueeze(b, -1)?, true, false)?;
        return core::squeeze_dim(&x, -1);
    }
    ops::linalg_lu_solve(lu, pivots, b, true, false)
}
/// P, L and U of an LU decomposition in compact form (`torch.btriunpack`).
///
/// # Errors
/// Shapes that do not fit.
#[deprecated = "use `lu_unpack`"]
#[doc(alias = "torch.btriunpack")]
#[flambeau_macros::short]
pub fn try_btriunpack(
    lu: &Tensor,
    pivots: &Tensor,
    unpack_data: bool,
    unpack_pivots: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    ops::lu_unpack(lu, pivots, unpack_data, unpack_pivots)
}
/// Solution with a triangular matrix, and a copy of it (`torch.trtrs`).
///
/// # Errors
/// Shapes that do not fit.
#[deprecated = "use `linalg::solve_triangular`"]
#[doc(alias = "torch.trtrs")]
#[flambeau_macros::short]
pub fn try_trtrs(
    b: &Tensor,
    a: &Tensor,
    upper: bool,
    transpose: bool,
    unitriangular: bool,
) -> Result<(Tensor, Tensor)> {
    ops::triangular_solve(b, a, upper, transpose, unitriangular)
}
/// Eigenvalues, ascending, of symmetric matrices, and vectors or zeros (`torch.symeig`).
///
/// ```
/// let (values, _) = torch::legacy::symeig(&torch::tensor([[5.0, 0.0], [0.0, 2.0]]), false, true);
/// assert_eq!(values.to_vec::<f32>(), [2.0, 5.0]);
/// ```
///
/// # Errors
/// Matrices that are not square.
#[doc(alias = "torch.symeig")]
#[flambeau_macros::short]
pub fn try_symeig(a: &Tensor, eigenvectors: bool, upper: bool) -> Result<(Tensor, Tensor)> {
    let uplo = if upper { "U" } else { "L" };
    if eigenvectors {
        return ops::linalg_eigh(a, uplo);
    }
    let values = ops::linalg_eigvalsh(a, uplo)?;
    Ok((values, Tensor::zeros_raw(a.sizes(), a.dtype(), a.device())?))
}
/// Eigenvalues of a real square matrix as rows of real and imaginary parts, and vectors (or an empty tensor): of a pair of
/// complex ones, the real and the imaginary part of the first (`torch.eig`).
///
/// ```
/// let (values, _) = torch::legacy::eig(&torch::tensor([[3.0]]), false);
/// assert_eq!(values.to_vec2::<f32>(), [[3.0, 0.0]]);
/// ```
///
/// # Errors
/// An operand that is no real square matrix.
#[doc(alias = "torch.eig")]
#[flambeau_macros::short]
pub fn try_eig(a: &Tensor, eigenvectors: bool) -> Result<(Tensor, Tensor)> {
    ensure!(!a.is_complex(), Runtime, "eig: expected a real matrix");
    let (l, v) = if eigenvectors {
        let (l, v) = ops::linalg_eig(a)?;
        (l, Some(v))
    } else {
        (ops::linalg_eigvals(a)?, None)
    };
    let values = core::clone(&core::view_as_real(&l)?, None)?;
    let Some(v) = v else { return Ok((values, Tensor::zeros_raw(&[0], a.dtype(), a.device())?)) };
    // the second of a pair gives its imaginary part, turned to the first's
    let parts = core::view_as_real(&core::resolve_conj(&v)?)?;
    let (re, im) = (core::select(&parts, -1, 0)?, core::select(&parts, -1, 1)?);
    let negative = core::lt(&core::select(&values, -1, 1)?, &number(0)?)?;
    let vectors = core::where_(&core::unsqueeze(&negative, -2)?, &core::neg(&im)?, &re)?;
    debug_assert_eq!(vectors.sizes(), &sized(batch(a), &[sides(a).0, sides(a).1])[..]);
    Ok((values, vectors))
}
/// The numerical rank of a matrix (`torch.matrix_rank`).
///
/// ```
/// assert_eq!(torch::legacy::matrix_rank(&torch::ones([3, 3]), None, false).item::<i64>(), 1);
/// ```
///
/// # Errors
/// An operand that is no matrix.
#[doc(alias = "torch.matrix_rank")]
#[flambeau_macros::short]
pub fn try_matrix_rank(a: &Tensor, tol: Option<f64>, symmetric: bool) -> Result<Tensor> {
    match tol {
        Some(tol) => ops::linalg_matrix_rank_tol(a, tol, symmetric),
        None => ops::linalg_matrix_rank(a, None, None, symmetric),
    }
}
