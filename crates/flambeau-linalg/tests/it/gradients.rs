//! What gradients refuse, and those of singular matrices.

use crate::{definite, error, mh, sample};
use flambeau_autograd::gradcheck::{GradcheckOptions, try_gradcheck, try_gradgradcheck};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Result, Tensor, functions as torch, ops as core};
use flambeau_linalg::ops;

fn backward(f: impl Fn(&Tensor) -> Result<Tensor>, a: &Tensor) -> Result<Tensor> {
    let a = a.alias_detached().requires_grad_(true);
    let y = core::sum(&f(&a)?, None, false, None)?;
    let y = if y.is_complex() { core::abs(&y)? } else { y };
    y.try_backward(flambeau_core::BackwardOptions::new())?;
    Ok(a.grad().unwrap())
}
#[test]
fn refusals() {
    let (a, c) = (sample(&[4, 3], 1, DType::F64), sample(&[3, 3], 2, DType::C128));
    assert!(
        error(backward(|a| Ok(ops::linalg_qr(a, "r")?.1), &a))
            .starts_with("The derivative of linalg.qr depends")
    );
    assert_eq!(
        error(backward(|a| Ok(ops::linalg_qr(a, "complete")?.0), &a)),
        "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
    );
    assert_eq!(
        error(backward(|a| Ok(ops::geqrf(a)?.0), &a)),
        "the derivative for 'geqrf' is not implemented."
    );
    for (name, e) in [
        ("svd_backward", error(backward(|a| Ok(ops::linalg_svd(a, true, None)?.0), &c))),
        ("linalg_eigh_backward", error(backward(|a| Ok(ops::linalg_eigh(a, "L")?.1), &c))),
        ("linalg_eig_backward", error(backward(|a| Ok(ops::linalg_eig(a)?.1), &c))),
    ] {
        assert!(e.starts_with(name) && e.contains("ill-defined"), "{e}");
    }
}
#[test]
fn of_singular_determinants() {
    let ones = torch::ones([2, 2]).to(DType::F64);
    assert_eq!(backward(ops::linalg_det, &ones).unwrap().to_vec::<f64>(), [0.0; 4]);
}

/// Rows that read one half, of matrices of which both are the same; vectors, but for their phases.
#[test]
fn of_hermitian_matrices() {
    let whole = |a: &Tensor| core::add(a, &mh(a), 1.into());
    let projections = |v: &Tensor| {
        let v = core::narrow(v, -1, 0, 1)?;
        core::matmul(&v, &mh(&v))
    };
    let check = |f: &dyn Fn(&Tensor) -> Result<Tensor>| {
        for d in [DType::F64, DType::C128] {
            let a = definite(&[3, 3], 5, d).requires_grad_(true);
            let f = |x: &[Tensor]| Ok(vec![f(&whole(&x[0])?)?]);
            let o = GradcheckOptions::new();
            try_gradcheck(f, &[a.clone()], o.clone()).unwrap();
            try_gradgradcheck(f, &[a], None, o.clone()).unwrap();
        }
    };
    check(&|a| ops::linalg_cholesky(a, false));
    check(&|a| ops::linalg_cholesky(a, true));
    check(&|a| ops::linalg_eigvalsh(a, "L"));
    check(&|a| ops::linalg_eigvalsh(a, "U"));
    check(&|a| ops::linalg_matrix_sqrth(a));
    check(&|a| projections(&ops::linalg_eigh(a, "L")?.1));
    check(&|a| Ok(ops::linalg_eig(a)?.0).and_then(|l| core::sum(&core::mul(&l, &l)?, None, false, None)));
    check(&|a| core::abs(&ops::linalg_eig(a)?.1));
    check(&|a| ops::cholesky_inverse(&ops::linalg_cholesky(a, false)?, false));
    check(&|a| ops::cholesky_solve(a, &ops::linalg_cholesky(a, true)?, true));
}
