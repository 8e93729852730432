//! Inverses, determinants, singular values.

use crate::derivatives::shorthand::{
    add, conj, div, imag, mul, neg, real, sub, transpose, unsqueeze, zeros_like,
};
use crate::{Result, Tensor, ops};

fn adjoint(m: &Tensor) -> Result<Tensor> {
    transpose(&conj(m)?, -2, -1)
}
/// `dA^-1 = -A^-1 dA A^-1`.
pub fn inverse_backward(grad: &Tensor, inverse: &Tensor) -> Result<Tensor> {
    let h = adjoint(inverse)?;
    neg(&ops::matmul(&h, &ops::matmul(grad, &h)?)?)
}
/// `d log det A = tr(A^-1 dA)`; its real part is the logarithm's, its imaginary part turns the sign.
pub fn slogdet_backward(grads: &[Option<Tensor>], a: &Tensor, sign: &Tensor) -> Result<Tensor> {
    let mut factor = match &grads[1] {
        Some(g) => g.clone(),
        None => zeros_like(&real(sign)?)?,
    };
    if let (Some(g), true) = (&grads[0], a.is_complex()) {
        let turn = imag(&mul(g, &conj(sign)?)?)?;
        factor = ops::complex(&factor, &turn)?;
    }
    let (inverse, _) = ops::linalg_inv_ex(a, false)?;
    mul(&unsqueeze(&unsqueeze(&factor, -1)?, -1)?, &adjoint(&inverse)?)
}

/// Of `A = U diag(S) Vh`. Singular vectors count up to their common phase, so a gradient that depends on it has none.
pub fn svd_backward(grads: &[Option<Tensor>], u: &Tensor, s: &Tensor, vh: &Tensor) -> Result<Tensor> {
    let diagonal = |d: &Tensor| ops::diag_embed(d, 0, -2, -1);
    let mut inner = match &grads[1] {
        Some(g) => diagonal(g)?,
        None => diagonal(&zeros_like(s)?)?,
    };
    if grads[0].is_none() && grads[2].is_none() {
        return ops::matmul(u, &ops::matmul(&as_dtype(&inner, u)?, vh)?);
    }
    // products of both sides with what the vectors span, made skew
    let skew = |m: &Tensor| sub(m, &adjoint(m)?);
    let (row, col) = (unsqueeze(s, -2)?, unsqueeze(s, -1)?);
    let (square, square_t) = (mul(&row, &row)?, mul(&col, &col)?);
    let one = ops::eye(s.sizes()[s.dim() - 1], Some(s.dtype()), None, Some(s.device()), None)?;
    // differences of squares, ones on the diagonal, where the numerator is zero
    let gaps = add(&sub(&square, &square_t)?, &one)?;
    let turned_u = grads[0].as_ref().map(|g| skew(&ops::matmul(&adjoint(u)?, g)?)).transpose()?;
    let turned_v = grads[2].as_ref().map(|g| skew(&ops::matmul(vh, &adjoint(g)?)?)).transpose()?;
    if let Some(t) = &turned_u {
        inner = add(&inner, &mul(&div(t, &gaps)?, &row)?)?;
        if u.is_complex() {
            // the phase between a pair of vectors
            inner = add(
                &inner,
                &div(&mul(t, &one)?, &ops::mul(&row, &crate::derivatives::shorthand::number(2)?)?)?,
            )?;
        }
    }
    if let Some(t) = &turned_v {
        inner = add(&inner, &mul(&col, &div(t, &gaps)?)?)?;
    }
    let mut sum = ops::matmul(u, &ops::matmul(&as_dtype(&inner, u)?, vh)?)?;
    // what leaves the spaces that the vectors span
    let (m, n, k) = (u.sizes()[u.dim() - 2], vh.sizes()[vh.dim() - 1], s.sizes()[s.dim() - 1]);
    if let (Some(g), true) = (&grads[0], m > k) {
        let outside = sub(g, &ops::matmul(u, &ops::matmul(&adjoint(u)?, g)?)?)?;
        sum = add(&sum, &ops::matmul(&div(&outside, &row)?, vh)?)?;
    }
    if let (Some(g), true) = (&grads[2], n > k) {
        let outside = sub(g, &ops::matmul(&ops::matmul(g, &adjoint(vh)?)?, vh)?)?;
        sum = add(&sum, &ops::matmul(u, &div(&outside, &col)?)?)?;
    }
    Ok(sum)
}
fn as_dtype(t: &Tensor, like: &Tensor) -> Result<Tensor> {
    crate::derivatives::shorthand::to_dtype(t, like.dtype())
}
