//! Singular values, polar decompositions, pseudo-inverses.

use super::{add, depends_on_phase, div, ill_defined, matmul, mh, mul, narrow, neg, sides, sub, unsqueeze};
use crate::ops::util::cast;
use flambeau_autograd::derivatives::linalg as core_svd;
use flambeau_core::{Result, Tensor, ops as core};

/// Of vectors beyond those of singular values there is none.
pub fn svd_backward(grads: &[Option<Tensor>], u: &Tensor, s: &Tensor, vh: &Tensor) -> Result<Tensor> {
    let k = s.sizes()[s.dim() - 1];
    let first = |t: &Tensor, dim: i64| {
        let n = t.sizes()[(t.dim() as i64 + dim) as usize];
        if n == k { Ok(t.clone()) } else { narrow(t, dim, 0, k) }
    };
    let (u, vh) = (first(u, -1)?, first(vh, -2)?);
    let gu = grads[0].as_ref().map(|g| first(g, -1)).transpose()?;
    let gv = grads[2].as_ref().map(|g| first(g, -2)).transpose()?;
    if u.is_complex() && (gu.is_some() || gv.is_some()) {
        // what both sides say of the phases must cancel
        let left = gu.as_ref().map(|g| matmul(&mh(&u)?, g)).transpose()?;
        let right = gv.as_ref().map(|g| matmul(&vh, &mh(g)?)).transpose()?;
        let turn = match (left, right) {
            (Some(l), Some(r)) => add(&l, &r)?,
            (Some(t), None) | (None, Some(t)) => t,
            (None, None) => u.clone(),
        };
        if depends_on_phase(&turn)? {
            let text = "phase term, making it ill-defined.";
            return Err(ill_defined("svd_backward", "singular vectors", text));
        }
    }
    core_svd::svd_backward(&[gu, grads[1].clone(), gv], &u, s, &vh)
}
/// Of singular values alone: the vectors are computed only now.
pub fn svdvals_backward(grad: &Tensor, a: &Tensor) -> Result<Tensor> {
    let (u, _, vh) = core::linalg_svd_reduced(a)?;
    matmul(&mul(&u, &unsqueeze(grad, -2)?)?, &vh)
}

/// Of `A = U H`, in the bases of singular vectors: nothing is divided but by sums of singular values.
pub fn polar_backward(grads: &[Option<Tensor>], a: &Tensor) -> Result<Tensor> {
    let (p, s, vh) = core::linalg_svd_reduced(a)?;
    let (ph, v) = (mh(&p)?, mh(&vh)?);
    let (row, column) = (unsqueeze(&s, -2)?, unsqueeze(&s, -1)?);
    let sums = add(&row, &column)?;
    let mut inner = flambeau_autograd::shorthand::zeros_like(&matmul(&vh, &v)?)?;
    if let Some(g) = &grads[0] {
        let turned = div(&matmul(&matmul(&ph, g)?, &v)?, &sums)?;
        inner = add(&inner, &sub(&turned, &mh(&turned)?)?)?;
    }
    if let Some(g) = &grads[1] {
        let turned = div(&matmul(&matmul(&vh, g)?, &v)?, &sums)?;
        inner = add(&inner, &add(&mul(&column, &turned)?, &mh(&mul(&turned, &row)?)?)?)?;
    }
    let mut sum = matmul(&matmul(&p, &inner)?, &vh)?;
    let (m, n) = sides(a);
    if let (Some(g), true) = (&grads[0], m > n) {
        let outside = sub(g, &matmul(&p, &matmul(&ph, g)?)?)?;
        sum = add(&sum, &matmul(&div(&matmul(&outside, &v)?, &cast(&row, s.dtype())?)?, &vh)?)?;
    }
    Ok(sum)
}

/// Of pseudo-inverses of constant rank.
pub fn pinv_backward(grad: &Tensor, pinv: &Tensor, a: &Tensor) -> Result<Tensor> {
    let (m, n) = sides(a);
    let (ph, gh) = (mh(pinv)?, mh(grad)?);
    let g = if m <= n {
        let k = matmul(&gh, pinv)?;
        let kp = matmul(&k, &ph)?;
        let first = add(&neg(&mh(&matmul(pinv, &k)?)?)?, &kp)?;
        let second = sub(&first, &matmul(&matmul(a, pinv)?, &kp)?)?;
        add(&second, &matmul(&matmul(&ph, pinv)?, &sub(&gh, &matmul(&k, a)?)?)?)?
    } else {
        let k = matmul(pinv, &gh)?;
        let pk = matmul(&ph, &k)?;
        let first = neg(&mh(&matmul(&k, pinv)?)?)?;
        let second = add(&first, &matmul(&matmul(&sub(&gh, &matmul(a, &k)?)?, pinv)?, &ph)?)?;
        sub(&add(&second, &pk)?, &matmul(&matmul(&pk, pinv)?, a)?)?
    };
    flambeau_autograd::shorthand::sum_to(&g, a.sizes())
}
