//! What gradients refuse, and those of singular matrices.

use crate::{error, sample};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Result, Tensor, functions as torch, ops as core};
use flambeau_linalg::ops;

fn backward(f: impl Fn(&Tensor) -> Result<Tensor>, a: &Tensor) -> Result<Tensor> {
    let a = a.alias_detached().requires_grad_(true);
    let y = core::sum(&f(&a)?, None, false, None)?;
    let y = if y.is_complex() { core::abs(&y)? } else { y };
    y.try_backward(&flambeau_core::BackwardOptions::new())?;
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
