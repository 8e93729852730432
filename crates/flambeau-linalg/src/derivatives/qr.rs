//! QR decompositions and products of Householder reflectors.

use super::{
    add, conj, diag_embed, diagonal, matmul, mh, mul, narrow, neg, real, sides, sub, tril, triu, unsqueeze,
};
use crate::ops;
use flambeau_autograd::functional::{FunctionalOptions, try_vjp};
use flambeau_autograd::is_differentiated;
use flambeau_autograd::shorthand::zeros_like;
use flambeau_core::{Error, ErrorKind, Result, Tensor, ensure, ops as core};

/// Of `A = Q R`.
pub fn qr_backward(grads: &[Option<Tensor>], q: &Tensor, r: &Tensor, mode: &str) -> Result<Tensor> {
    ensure!(
        mode != "r",
        Runtime,
        "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, \
         mode='reduced') if you are going to differentiate through linalg.qr."
    );
    let ((m, _), (_, n)) = (sides(q), sides(r));
    ensure!(
        mode != "complete" || m <= n,
        Runtime,
        "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
    );
    let (gq, gr) = (grads[0].as_ref(), grads[1].as_ref());
    if m >= n {
        return square(gq, gr, q, r);
    }
    // A = Q [R1 R2]: R2 = Q^H A2 is a function of Q and of A2
    let (r1, r2) = (narrow(r, -1, 0, m)?, narrow(r, -1, m, n - m)?);
    let Some(gr) = gr else {
        let first = square(gq, None, q, &r1)?;
        return core::cat(&[first, zeros_like(&r2)?], -1);
    };
    let (g1, g2) = (narrow(gr, -1, 0, m)?, narrow(gr, -1, m, n - m)?);
    let turned = matmul(&matmul(q, &r2)?, &mh(&g2)?)?;
    let gq = match gq {
        Some(g) => add(g, &turned)?,
        None => turned,
    };
    let first = square(Some(&gq), Some(&g1), q, &r1)?;
    core::cat(&[first, matmul(q, &g2)?], -1)
}
/// Where R is square.
fn square(gq: Option<&Tensor>, gr: Option<&Tensor>, q: &Tensor, r: &Tensor) -> Result<Tensor> {
    let from_q = gq.map(|g| matmul(&mh(q)?, g)).transpose()?;
    let from_r = gr.map(|g| matmul(g, &mh(r)?)).transpose()?;
    let inner = match (from_r, from_q) {
        (Some(r), Some(q)) => sub(&r, &q)?,
        (Some(r), None) => r,
        (None, Some(q)) => neg(&q)?,
        (None, None) => return core::matmul(q, &zeros_like(r)?),
    };
    let up = triu(&inner, 0)?;
    let both = sub(
        &add(&up, &mh(&up)?)?,
        &crate::ops::util::cast(&diag_embed(&real(&diagonal(&up)?)?)?, up.dtype())?,
    )?;
    let mut g = matmul(q, &both)?;
    if let Some(gq) = gq {
        g = add(&g, gq)?;
    }
    ops::linalg_solve_triangular(&mh(r)?, &g, false, false, false)
}

/// PyTorch has none either.
pub fn no_geqrf() -> Result<Tensor> {
    Err(Error::new(ErrorKind::Unsupported, "the derivative for 'geqrf' is not implemented."))
}

/// Reflectors one after the other, as operators that differentiate.
fn reflected(a: &Tensor, tau: &Tensor, c: &Tensor, left: bool, adjoint: bool) -> Result<Tensor> {
    let (m, n) = sides(a);
    let k = tau.sizes()[tau.dim() - 1];
    let eye = core::eye_m(m, n, Some(a.dtype()), None, Some(a.device()), None)?;
    let v = add(&tril(a, -1)?, &eye)?;
    let mut c = c.clone();
    for step in 0..k {
        // the last one first where they act from the left in order
        let i = if left != adjoint { k - 1 - step } else { step };
        let v = narrow(&v, -1, i, 1)?;
        let t = unsqueeze(&narrow(tau, -1, i, 1)?, -1)?;
        let t = if adjoint { conj(&t)? } else { t };
        let less = if left {
            matmul(&mul(&v, &t)?, &matmul(&mh(&v)?, &c)?)?
        } else {
            matmul(&matmul(&c, &v)?, &mul(&mh(&v)?, &t)?)?
        };
        c = sub(&c, &less)?;
    }
    Ok(c)
}
fn wanted<const N: usize>(g: Vec<Tensor>, need: &[bool]) -> [Option<Tensor>; N] {
    let mut g = g.into_iter();
    std::array::from_fn(|i| g.next().filter(|_| need.get(i) == Some(&true)))
}
/// Of the first columns of the product.
pub fn householder_backward(
    grad: &Tensor,
    a: &Tensor,
    tau: &Tensor,
    need: &[bool],
) -> Result<[Option<Tensor>; 2]> {
    if a.numel() == 0 || tau.numel() == 0 {
        // without reflectors the result depends on nothing
        return Ok([None, None]);
    }
    let f = |x: &[Tensor]| {
        let (m, n) = sides(&x[0]);
        let eye = core::eye_m(m, n, Some(x[0].dtype()), None, Some(x[0].device()), None)?;
        let eye = core::expand(&eye, x[0].sizes(), false)?;
        Ok(vec![reflected(&x[0], &x[1], &eye, true, false)?])
    };
    let recorded = FunctionalOptions::new().create_graph(is_differentiated());
    let (_, g) = try_vjp(f, &[a.clone(), tau.clone()], Some(&[grad.clone()]), recorded)?;
    Ok(wanted(g, need))
}
/// Of products with a matrix.
pub fn ormqr_backward(
    grad: &Tensor,
    a: &Tensor,
    tau: &Tensor,
    c: &Tensor,
    left: bool,
    transpose: bool,
    need: &[bool],
) -> Result<[Option<Tensor>; 3]> {
    let f = |x: &[Tensor]| Ok(vec![reflected(&x[0], &x[1], &x[2], left, transpose)?]);
    let inputs = [a.clone(), tau.clone(), c.clone()];
    let recorded = FunctionalOptions::new().create_graph(is_differentiated());
    let (_, g) = try_vjp(f, &inputs, Some(&[grad.clone()]), recorded)?;
    let [of_a, of_tau, of_c] = wanted(g, need);
    // reflections that are none have no gradient, as those of `householder_product`
    Ok(if a.numel() == 0 || tau.numel() == 0 { [None, None, of_c] } else { [of_a, of_tau, of_c] })
}
