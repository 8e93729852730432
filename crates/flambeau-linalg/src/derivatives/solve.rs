//! Solutions of linear equations, and determinants.

use super::{conj, diag_embed, matmul, mh, mul, neg, sum_to, tril, triu, unsqueeze};
use crate::ops;
use flambeau_autograd::is_differentiated;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Result, Tensor, ops as core};

/// Of `A X = B`: `dB -> A^-H dX`, `dA -> -dB X^H`.
pub fn solve_backward(
    grad: &Tensor,
    a: &Tensor,
    x: &Tensor,
    lu: &Tensor,
    pivots: &Tensor,
    b_sizes: &[i64],
    left: bool,
    need: &[bool],
) -> Result<[Option<Tensor>; 2]> {
    let vector = b_sizes.len() == 1 || (a.dim() == b_sizes.len() + 1 && b_sizes == &a.sizes()[..a.dim() - 1]);
    let column = |t: &Tensor| if vector { unsqueeze(t, -1) } else { Ok(t.clone()) };
    let (g, x) = (column(grad)?, column(x)?);
    let gb = if is_differentiated() {
        // of A itself, so that it is differentiated again
        let (gb, _) = ops::linalg_solve_ex(&mh(a)?, &g, left, false)?;
        gb
    } else {
        ops::linalg_lu_solve(lu, pivots, &g, left, true)?
    };
    let mut out = [None, None];
    if need.first() == Some(&true) {
        let ga = neg(&if left { matmul(&gb, &mh(&x)?)? } else { matmul(&mh(&x)?, &gb)? })?;
        out[0] = Some(sum_to(&ga, a.sizes())?);
    }
    if need.get(1) == Some(&true) {
        let gb = if vector { core::squeeze_dim(&gb, -1)? } else { gb };
        out[1] = Some(sum_to(&gb, b_sizes)?);
    }
    Ok(out)
}

/// Of a triangular solution; what is not read has none.
pub fn solve_triangular_backward(
    grad: &Tensor,
    a: &Tensor,
    x: &Tensor,
    b_sizes: &[i64],
    upper: bool,
    left: bool,
    unitriangular: bool,
    need: &[bool],
) -> Result<[Option<Tensor>; 2]> {
    let gb = ops::linalg_solve_triangular(&mh(a)?, grad, !upper, left, unitriangular)?;
    let mut out = [None, None];
    if need.first() == Some(&true) {
        let ga = neg(&if left { matmul(&gb, &mh(x)?)? } else { matmul(&mh(x)?, &gb)? })?;
        let k = i64::from(unitriangular);
        let ga = if upper { triu(&ga, k)? } else { tril(&ga, -k)? };
        out[0] = Some(sum_to(&ga, a.sizes())?);
    }
    if need.get(1) == Some(&true) {
        out[1] = Some(sum_to(&gb, b_sizes)?);
    }
    Ok(out)
}

/// Of determinants: the conjugate of the adjugate. As in PyTorch, that of a singular matrix counts as zero, unless the
/// gradient itself is to be differentiated.
pub fn det_backward(grad: &Tensor, a: &Tensor, det: &Tensor) -> Result<Tensor> {
    if a.numel() == 0 {
        return flambeau_autograd::shorthand::zeros_like(a);
    }
    let d = mul(grad, &conj(det)?)?;
    let column = |t: &Tensor| unsqueeze(&unsqueeze(t, -1)?, -1);
    let eye = super::eye_like(a, a.dtype())?;
    let right = mul(&column(&d)?, &eye)?;
    let eps = if a.dtype().to_real() == DType::F32 { f32::EPSILON as f64 } else { f64::EPSILON };
    let bound = flambeau_autograd::shorthand::number(100.0 * eps)?;
    if !is_differentiated() {
        let (lu, pivots, _) = ops::linalg_lu_factor_ex(a, true, false)?;
        let zero = core::eq(&super::diagonal(&lu)?, &flambeau_autograd::shorthand::number(0)?)?;
        let more = flambeau_autograd::shorthand::mul_scalar(&crate::ops::util::cast(&zero, a.dtype())?, eps)?;
        return ops::linalg_lu_solve(
            &core::add(&lu, &diag_embed(&more)?, 1.into())?,
            &pivots,
            &right,
            true,
            true,
        );
    }
    let singular = core::any(&core::lt(&core::abs(&det.alias_detached())?, &bound)?)?;
    if !singular.try_item::<bool>()? {
        return ops::linalg_solve(&mh(a)?, &right, true);
    }
    // products of all singular values but one
    let (u, s, vh) = core::linalg_svd_reduced(a)?;
    let n = s.sizes()[s.dim() - 1];
    let phase = conj(&mul(&ops::linalg_det(&u)?, &ops::linalg_det(&vh)?)?)?;
    let one = flambeau_autograd::shorthand::ones_like(&core::narrow(&s, -1, 0, 1)?)?;
    let shifted = |t: &Tensor| -> Result<Tensor> {
        core::cumprod(&core::cat(&[one.clone(), core::narrow(t, -1, 0, n - 1)?], -1)?, -1, None)
    };
    let before = shifted(&s)?;
    let after = core::flip(&shifted(&core::flip(&s, &[-1])?)?, &[-1])?;
    let factor = unsqueeze(&mul(grad, &phase)?, -1)?;
    // the conjugates of U and V turn what the gradient of the determinant of A is
    let middle = mul(&mul(&before, &after)?, &factor)?;
    matmul(&mul(&u, &unsqueeze(&middle, -2)?)?, &vh)
}
