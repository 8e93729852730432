//! Least squares.

use super::svd::pinv_backward;
use super::{add, matmul, mh, mul, neg, sub, sum_to, unsqueeze};
use crate::ops;
use flambeau_autograd::shorthand::mul_scalar;
use flambeau_core::{Error, Result, Tensor, ops as core};

/// Of `X = A^+ B` and of the residuals' squares.
pub fn lstsq_backward(
    grads: &[Option<Tensor>],
    a: &Tensor,
    b: &Tensor,
    x: &Tensor,
    need: &[bool],
) -> Result<[Option<Tensor>; 2]> {
    let vector = crate::ops::util::is_vector(a, b);
    let column = |t: &Tensor| if vector { unsqueeze(t, -1) } else { Ok(t.clone()) };
    let (b2, x2) = (column(b)?, column(x)?);
    let (mut ga, mut gb): (Option<Tensor>, Option<Tensor>) = (None, None);
    let plus = |sum: Option<Tensor>, t: Tensor| -> Result<Option<Tensor>> {
        Ok(Some(match sum {
            Some(s) => add(&s, &t)?,
            None => t,
        }))
    };
    if let Some(g) = &grads[0] {
        let g = column(g)?;
        let pinv = ops::linalg_pinv(a, None, None, false)?;
        if need.first() == Some(&true) {
            ga = plus(ga, pinv_backward(&matmul(&g, &mh(&b2)?)?, &pinv, a)?)?;
        }
        gb = plus(gb, matmul(&mh(&pinv)?, &g)?)?;
    }
    if let Some(g) = grads.get(1).and_then(Option::as_ref)
        && g.numel() > 0
    {
        let r = sub(&matmul(a, &x2)?, &b2)?;
        let r = mul_scalar(&mul(&r, &unsqueeze(g, -2)?)?, 2)?;
        if need.first() == Some(&true) {
            ga = plus(ga, sum_to(&matmul(&r, &mh(&x2)?)?, a.sizes())?)?;
        }
        gb = plus(gb, neg(&r)?)?;
    }
    let gb = match gb {
        Some(g) if need.get(1) == Some(&true) => {
            let g = if vector { core::squeeze_dim(&g, -1)? } else { g };
            Some(sum_to(&g, b.sizes())?)
        }
        _ => None,
    };
    Ok([ga, gb])
}
/// PyTorch has none either.
pub fn no_ldl_factor() -> Result<Tensor> {
    Err(unknown("linalg_ldl_factor_ex"))
}
/// PyTorch has none either.
pub fn no_ldl_solve() -> Result<[Option<Tensor>; 2]> {
    Err(unknown("linalg_ldl_solve"))
}
fn unknown(name: &str) -> Error {
    crate::ops::solve::unknown_derivative(name)
}
