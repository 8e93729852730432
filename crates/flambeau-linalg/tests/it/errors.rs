//! PyTorch's texts.

use crate::{error, sample};
use flambeau_core::{DType, functions as torch, ops as core};
use flambeau_linalg::ops;

#[test]
fn texts() {
    let d = DType::F64;
    let (a, v, wide) = (sample(&[3, 3], 1, d), sample(&[3], 2, d), sample(&[2, 3], 3, d));
    let none = torch::zeros([2, 3, 3]).to(d);
    assert_eq!(
        error(ops::linalg_solve(&none, &torch::zeros([2, 3, 1]).to(d), true)),
        "torch.linalg.solve: (Batch element 0): The solver failed because the input matrix is singular."
    );
    assert_eq!(
        error(ops::linalg_cholesky(&core::neg(&torch::eye(2)).unwrap(), false)),
        "linalg.cholesky: The factorization could not be completed because the input is not positive-definite (the leading \
         minor of order 1 is not positive-definite)."
    );
    assert_eq!(
        error(ops::linalg_solve(&a, &wide, true)),
        "linalg.solve: Incompatible shapes of A and B for the equation AX = B (3x3 and 2x3)"
    );
    assert_eq!(
        error(ops::linalg_det(&wide)),
        "linalg.det: A must be batches of square matrices, but they are 2 by 3 matrices"
    );
    assert_eq!(
        error(ops::linalg_qr(&v, "reduced")),
        "linalg.qr: The input tensor A must have at least 2 dimensions."
    );
    assert_eq!(
        error(ops::linalg_svd(&a, true, Some("gesvd"))),
        "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
    );
    // a tolerance of the dtype's own is asked for, though it is not used
    assert_eq!(
        error(ops::linalg_matrix_rank(&none.to(DType::I64), Some(1.0), None, false)),
        "This function doesn't handle types other than float and double"
    );
    let c = torch::ones(()).to(DType::C64);
    assert_eq!(
        error(ops::linalg_pinv_tensors(&torch::zeros([0, 0]), None, Some(&c), false)),
        "torch.linalg.pinv: rtol tensor of complex type is not supported. Got ComplexFloat"
    );
    assert_eq!(error(ops::linalg_eigh(&a, "X")), "Expected UPLO argument to be 'L' or 'U', but got X");
    assert_eq!(
        error(ops::linalg_lstsq(&a, &a, None, Some("nope"))),
        "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)"
    );
    let nan = core::full_like(&a, f64::NAN.into(), None, None, None, None, None).unwrap();
    assert_eq!(
        error(ops::linalg_svd(&nan, true, None)),
        "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values."
    );
    assert_eq!(
        error(ops::linalg_eig(&nan)),
        "torch.linalg.eig: input tensor should not contain infs or NaNs."
    );
    let pivots = torch::zeros([3]).to(DType::I32);
    assert!(
        error(ops::linalg_lu_solve(&a, &pivots, &a, true, false)).starts_with("Pivots given to lu_solve")
    );
    assert!(
        error(ops::lu_unpack(&a, &pivots, true, true))
            .starts_with("pivots passed to lu_unpack must be between")
    );
    assert!(
        error(ops::linalg_ldl_solve(&a, &pivots, &a, false)).starts_with("torch.linalg.ldl_solve: pivots")
    );
}
