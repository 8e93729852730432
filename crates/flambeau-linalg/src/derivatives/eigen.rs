//! Eigenvalues and eigenvectors.

use super::{
    add, as_input, conj, depends_on_phase, diag_embed, diagonal, div, eye_like, ill_defined, matmul, mh, mul,
    real, sub, unsqueeze, with_diagonal,
};
use crate::ops;
use crate::ops::util::cast;
use flambeau_core::{DType, Result, Tensor, ops as core};

/// Differences of eigenvalues, `E_ij = l_j - l_i`, with ones on the diagonal.
fn gaps(l: &Tensor) -> Result<Tensor> {
    let e = sub(&unsqueeze(l, -2)?, &unsqueeze(l, -1)?)?;
    add(&e, &eye_like(&e, l.dtype())?)
}
/// Of Hermitian matrices.
pub fn eigh_backward(grads: &[Option<Tensor>], l: &Tensor, v: &Tensor) -> Result<Tensor> {
    let (gl, gv) = (grads[0].as_ref(), grads[1].as_ref());
    let h = mh(v)?;
    let Some(gv) = gv else {
        let Some(gl) = gl else { return flambeau_autograd::shorthand::zeros_like(v) };
        return matmul(&mul(v, &unsqueeze(gl, -2)?)?, &h);
    };
    let turn = matmul(&h, gv)?;
    if depends_on_phase(&turn)? {
        return Err(ill_defined("linalg_eigh_backward", "eigenvectors", "quantity, so it is ill-defined."));
    }
    let none = flambeau_autograd::shorthand::zeros_like(&diagonal(&turn)?)?;
    let inner = div(&with_diagonal(&turn, &none)?, &gaps(l)?)?;
    let inner = match gl {
        Some(gl) => add(&inner, &cast(&diag_embed(gl)?, v.dtype())?)?,
        None => inner,
    };
    let g = matmul(&matmul(v, &inner)?, &h)?;
    // of the Hermitian matrices alone
    super::half(&add(&g, &mh(&g)?)?)
}
/// Of eigenvalues alone: the vectors are computed only now.
pub fn eigvalsh_backward(grad: &Tensor, a: &Tensor, uplo: &str) -> Result<Tensor> {
    let (_, v) = ops::linalg_eigh(a, uplo)?;
    matmul(&mul(&v, &unsqueeze(grad, -2)?)?, &mh(&v)?)
}
/// Of general matrices.
pub fn eig_backward(grads: &[Option<Tensor>], input: DType, l: &Tensor, v: &Tensor) -> Result<Tensor> {
    let (gl, gv) = (grads[0].as_ref(), grads[1].as_ref());
    let h = mh(v)?;
    let inner = match gv {
        None => {
            let Some(gl) = gl else {
                return as_input(flambeau_autograd::shorthand::zeros_like(v)?, input);
            };
            diag_embed(gl)?
        }
        Some(gv) => {
            let turn = matmul(&h, gv)?;
            if depends_on_phase(&turn)? {
                return Err(ill_defined(
                    "linalg_eig_backward",
                    "eigenvectors",
                    "quantity, so it is ill-defined.",
                ));
            }
            // vectors have length 1
            let along = cast(&real(&diagonal(&turn)?)?, v.dtype())?;
            let rest = sub(&turn, &mul(&matmul(&h, v)?, &unsqueeze(&along, -2)?)?)?;
            let none = flambeau_autograd::shorthand::zeros_like(&diagonal(&rest)?)?;
            let inner = div(&with_diagonal(&rest, &none)?, &conj(&gaps(l)?)?)?;
            match gl {
                Some(gl) => add(&inner, &diag_embed(gl)?)?,
                None => inner,
            }
        }
    };
    let (g, _) = ops::linalg_solve_ex(&h, &matmul(&inner, &h)?, true, false)?;
    as_input(g, input)
}
/// Of eigenvalues alone.
pub fn eigvals_backward(grad: &Tensor, a: &Tensor) -> Result<Tensor> {
    let (l, v) = ops::linalg_eig(a)?;
    eig_backward(&[Some(grad.clone()), None], a.dtype(), &l, &v)
}
/// Of square roots: `X dX + dX X = dA` in the basis of eigenvectors.
pub fn matrix_sqrth_backward(grad: &Tensor, a: &Tensor) -> Result<Tensor> {
    let (l, q) = ops::linalg_eigh(a, "L")?;
    let x = core::sqrt(&core::clamp(&l, Some(0.into()), None)?)?;
    let sums = add(&unsqueeze(&x, -2)?, &unsqueeze(&x, -1)?)?;
    let h = mh(&q)?;
    let inner = div(&matmul(&matmul(&h, grad)?, &q)?, &sums)?;
    let g = matmul(&matmul(&q, &inner)?, &h)?;
    super::half(&add(&g, &mh(&g)?)?)
}
