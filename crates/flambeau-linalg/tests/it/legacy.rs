//! Examples of the old documentation.

#![allow(deprecated)]

use crate::{close, definite, sample};
use flambeau_core::{DType, Tensor, ops as core};
use flambeau_linalg::legacy;

#[test]
fn gels() {
    let a = Tensor::from_slice(&[1f64, 1., 1., 2., 3., 4., 3., 5., 2., 4., 2., 5., 5., 4., 3.], [5, 3]);
    let b = Tensor::from_slice(&[-10f64, -3., 12., 14., 14., 12., 16., 16., 18., 16.], [5, 2]);
    let (x, _) = legacy::gels(&b, &a);
    let top = core::narrow(&x, 0, 0, 3).unwrap();
    close(&top, &Tensor::from_slice(&[2f64, 1., 1., 1., 1., 2.], [3, 2]));
    let rest = x.to_vec::<f64>();
    let want = [10.9635, 4.8501, 8.9332, 5.2418];
    assert!(rest[6..].iter().zip(want).all(|(a, b)| (a.abs() - b).abs() < 1e-3), "{rest:?}");
}
#[test]
fn pivoted_cholesky() {
    let a = definite(&[4, 4], 3, DType::F64);
    for upper in [true, false] {
        let (u, pivots) = legacy::pstrf(&a, upper, -1.0);
        let u = if upper { u } else { core::transpose(&u, 0, 1).unwrap() };
        let at = core::to_copy(&pivots, Some(DType::I64), None, None, None, false, None).unwrap();
        let moved = core::index_select(&core::index_select(&a, 0, &at).unwrap(), 1, &at).unwrap();
        close(&core::mm(&core::transpose(&u, 0, 1).unwrap(), &u).unwrap(), &moved);
    }
}
#[test]
fn the_others() {
    let (a, b) = (definite(&[3, 3], 1, DType::F64), sample(&[3, 2], 2, DType::F64));
    close(&core::mm(&a, &legacy::gesv(&b, &a).0).unwrap(), &b);
    let u = legacy::potrf(&a, true);
    close(&core::mm(&a, &legacy::potrs(&b, &u, true)).unwrap(), &b);
    close(&core::mm(&a, &legacy::potri(&u, true)).unwrap(), &flambeau_core::functions::eye(3).to(DType::F64));
    let (values, vectors) = legacy::symeig(&a, true, true);
    let back =
        core::matmul(&core::mul(&vectors, &values).unwrap(), &core::transpose(&vectors, 0, 1).unwrap());
    close(&back.unwrap(), &a);
    // of a rotation
    let turn = Tensor::from_slice(&[0f64, -1., 1., 0.], [2, 2]);
    let (e, v) = legacy::eig(&turn, true);
    assert_eq!(e.to_vec::<f64>().iter().map(|x| x.round()).collect::<Vec<_>>(), [0., 1., 0., -1.]);
    assert_eq!(v.sizes(), [2, 2]);
    assert_eq!(legacy::matrix_rank(&a, None, true).item::<i64>(), 3);
    let many = definite(&[2, 3, 3], 4, DType::F64);
    let (lu, pivots) = legacy::btrifact(&many, true);
    let x = legacy::btrisolve(&sample(&[2, 3], 5, DType::F64), &lu, &pivots);
    assert_eq!(x.sizes(), [2, 3]);
}
