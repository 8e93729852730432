//! LU decompositions.

use super::{add, matmul, mh, narrow, neg, sides, sub, sum_to, tril, triu};
use crate::ops;
use flambeau_core::{Result, Tensor, ops as core};

/// Of the compact form: gradients of both triangles lie in one matrix.
pub fn lu_factor_backward(grad: &Tensor, lu: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    let (m, n) = sides(lu);
    let k = m.min(n);
    let (p, l, u) = ops::lu_unpack(lu, pivots, true, true)?;
    let gl = narrow(grad, -1, 0, k)?;
    let gu = narrow(grad, -2, 0, k)?;
    let lower_solve = |l: &Tensor, x: &Tensor| ops::linalg_solve_triangular(&mh(l)?, x, true, true, true);
    let upper_solve = |u: &Tensor, x: &Tensor| ops::linalg_solve_triangular(&mh(u)?, x, false, false, false);
    if m == n {
        let phi = add(&tril(&matmul(&mh(&l)?, &gl)?, -1)?, &triu(&matmul(&gu, &mh(&u)?)?, 0)?)?;
        return matmul(&p, &lower_solve(&l, &upper_solve(&u, &phi)?)?);
    }
    if m < n {
        let (u1, u2) = (narrow(&u, -1, 0, k)?, narrow(&u, -1, k, n - k)?);
        let (g1, g2) = (narrow(&gu, -1, 0, k)?, triu(&narrow(&gu, -1, k, n - k)?, -k)?);
        let low = sub(&matmul(&mh(&l)?, &tril(&gl, -1)?)?, &matmul(&g2, &mh(&u2)?)?)?;
        let phi = add(&tril(&low, -1)?, &triu(&matmul(&triu(&g1, 0)?, &mh(&u1)?)?, 0)?)?;
        let first = upper_solve(&u1, &phi)?;
        return matmul(&p, &lower_solve(&l, &core::cat(&[first, g2], -1)?)?);
    }
    let (l1, l2) = (narrow(&l, -2, 0, k)?, narrow(&l, -2, k, m - k)?);
    let (g1, g2) = (narrow(&gl, -2, 0, k)?, narrow(&gl, -2, k, m - k)?);
    let high = sub(&matmul(&triu(&gu, 0)?, &mh(&u)?)?, &matmul(&mh(&l2)?, &g2)?)?;
    let phi = add(&tril(&matmul(&mh(&l1)?, &tril(&g1, -1)?)?, -1)?, &triu(&high, 0)?)?;
    let first = lower_solve(&l1, &phi)?;
    matmul(&p, &upper_solve(&u, &core::cat(&[first, g2], -2)?)?)
}

/// Of a solution by an LU decomposition: `X` with `P L U X = B` and its variants.
pub fn lu_solve_backward(
    grad: &Tensor,
    lu: &Tensor,
    pivots: &Tensor,
    x: &Tensor,
    b_sizes: &[i64],
    left: bool,
    adjoint: bool,
    need: &[bool],
) -> Result<[Option<Tensor>; 2]> {
    // what the adjoint of the solution makes of the gradient
    let gb = ops::linalg_lu_solve(lu, pivots, grad, left, !adjoint)?;
    let mut out = [None, None];
    if need.first() == Some(&true) {
        let (p, l, u) = ops::lu_unpack(lu, pivots, true, true)?;
        // gradient of A = P L U (of A^H where that is solved with)
        let ga = neg(&if left { matmul(&gb, &mh(x)?)? } else { matmul(&mh(x)?, &gb)? })?;
        let ga = if adjoint { mh(&ga)? } else { ga };
        // dA = P (dL U + L dU)
        let inner = matmul(&mh(&p)?, &ga)?;
        let gl = tril(&matmul(&inner, &mh(&u)?)?, -1)?;
        let gu = triu(&matmul(&mh(&l)?, &inner)?, 0)?;
        out[0] = Some(sum_to(&add(&gl, &gu)?, lu.sizes())?);
    }
    if need.get(1) == Some(&true) {
        out[1] = Some(sum_to(&gb, b_sizes)?);
    }
    Ok(out)
}
