//! Cholesky decompositions.

use super::{add, half, matmul, mh, neg, sum_to, tril};
use crate::ops;
use flambeau_core::{Result, Tensor};

/// `dA = dL L^H + L dL^H`, with a gradient that is Hermitian but for what it says of the diagonal's phases, as PyTorch's.
pub fn cholesky_backward(grad: &Tensor, upper: bool, l: &Tensor) -> Result<Tensor> {
    let (l, g) = if upper { (mh(l)?, mh(grad)?) } else { (l.clone(), grad.clone()) };
    let phi = tril(&matmul(&mh(&l)?, &g)?, 0)?;
    let both = half(&add(&phi, &mh(&tril(&phi, -1)?)?)?)?;
    let left = ops::linalg_solve_triangular(&mh(&l)?, &both, true, true, false)?;
    ops::linalg_solve_triangular(&l, &left, false, false, false)
}

/// Of `(L L^H)^-1` or `(U^H U)^-1`. As in PyTorch, elements beyond the triangle have one too.
pub fn cholesky_inverse_backward(grad: &Tensor, l: &Tensor, upper: bool, inverse: &Tensor) -> Result<Tensor> {
    let both = add(grad, &mh(grad)?)?;
    let common = matmul(&matmul(inverse, &both)?, inverse)?;
    neg(&if upper { matmul(l, &common)? } else { matmul(&common, l)? })
}
/// Of solutions by a Cholesky factor. As in PyTorch, elements beyond the triangle have a gradient too.
pub fn cholesky_solve_backward(
    grad: &Tensor,
    l: &Tensor,
    x: &Tensor,
    b_sizes: &[i64],
    upper: bool,
    need: &[bool],
) -> Result<[Option<Tensor>; 2]> {
    let gb = ops::cholesky_solve(grad, l, upper)?;
    let mut out = [None, None];
    if need.get(1) == Some(&true) {
        let one = matmul(&gb, &mh(x)?)?;
        let both = add(&one, &mh(&one)?)?;
        let gl = neg(&if upper { matmul(l, &both)? } else { matmul(&both, l)? })?;
        out[1] = Some(sum_to(&gl, l.sizes())?);
    }
    if need.first() == Some(&true) {
        out[0] = Some(sum_to(&gb, b_sizes)?);
    }
    Ok(out)
}
