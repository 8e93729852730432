//! Cholesky decompositions.

use super::{add, diag_embed, diagonal, half, matmul, mh, sub, tril};
use crate::ops;
use flambeau_core::{Result, Tensor};

/// `dA = dL L^H + L dL^H`, with a Hermitian gradient.
pub fn cholesky_backward(grad: &Tensor, upper: bool, l: &Tensor) -> Result<Tensor> {
    let (l, g) = if upper { (mh(l)?, mh(grad)?) } else { (l.clone(), grad.clone()) };
    let phi = tril(&matmul(&mh(&l)?, &g)?, 0)?;
    let phi = sub(&phi, &half(&diag_embed(&diagonal(&phi)?)?)?)?;
    let both = half(&add(&phi, &mh(&phi)?)?)?;
    let left = ops::linalg_solve_triangular(&mh(&l)?, &both, true, true, false)?;
    ops::linalg_solve_triangular(&l, &left, false, false, false)
}
