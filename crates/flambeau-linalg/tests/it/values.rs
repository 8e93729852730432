//! Decompositions put together again: of every dtype, of batches, of no matrix at all.

use crate::{FLOATS, close, definite, mh, sample};
use flambeau_core::{DType, Tensor, functions as torch, ops as core};
use flambeau_linalg::{LobpcgOptions, PcaLowrankOptions, SvdLowrankOptions, functions, linalg, ops};

fn mm(a: &Tensor, b: &Tensor) -> Tensor {
    core::matmul(a, b).unwrap()
}
fn scaled(u: &Tensor, s: &Tensor) -> Tensor {
    core::mul(u, &core::unsqueeze(s, -2).unwrap()).unwrap()
}
fn eye_like(a: &Tensor) -> Tensor {
    let n = a.sizes()[a.dim() - 1];
    core::expand(&torch::eye(n).to(a.dtype()), a.sizes(), false).unwrap()
}
const SHAPES: [[i64; 3]; 6] = [[2, 3, 3], [1, 5, 2], [3, 2, 4], [0, 3, 3], [2, 0, 0], [1, 40, 33]];

#[test]
fn lu_and_qr() {
    for d in FLOATS {
        for shape in SHAPES {
            let a = sample(&shape, 3, d);
            let (p, l, u) = ops::linalg_lu(&a, true).unwrap();
            close(&mm(&p, &mm(&l, &u)), &a);
            let (q, r) = ops::linalg_qr(&a, "reduced").unwrap();
            close(&mm(&q, &r), &a);
            close(&mm(&mh(&q), &q), &eye_like(&mm(&mh(&q), &q)));
            let (q, r) = ops::linalg_qr(&a, "complete").unwrap();
            close(&mm(&q, &r), &a);
            assert_eq!(q.sizes()[1], shape[1]);
            let (lu, tau) = ops::geqrf(&a).unwrap();
            if shape[1] >= shape[2] && shape[1] > 0 {
                let (reduced, _) = ops::linalg_qr(&a, "reduced").unwrap();
                close(&ops::linalg_householder_product(&lu, &tau).unwrap(), &reduced);
            }
        }
    }
    let r = ops::linalg_qr(&sample(&[3, 2], 1, DType::F64), "r").unwrap();
    assert_eq!((r.0.sizes(), r.1.sizes()), (&[0][..], &[2, 2][..]));
}
#[test]
fn results_lie_by_columns() {
    let a = definite(&[2, 4, 4], 5, DType::F32);
    for t in [
        ops::linalg_cholesky(&a, false).unwrap(),
        ops::linalg_cholesky(&a, true).unwrap(),
        ops::linalg_lu_factor(&a, true).unwrap().0,
        ops::linalg_eigh(&a, "L").unwrap().1,
        ops::linalg_qr(&a, "reduced").unwrap().0,
        ops::linalg_solve(&a, &a, true).unwrap(),
        core::linalg_inv(&a).unwrap(),
    ] {
        assert_eq!(t.strides(), [16, 1, 4]);
    }
}
#[test]
fn cholesky_and_solutions() {
    for d in FLOATS {
        for shape in [[2, 3, 3], [0, 3, 3], [2, 0, 0], [1, 40, 40]] {
            let a = definite(&shape, 4, d);
            let l = ops::linalg_cholesky(&a, false).unwrap();
            let u = ops::linalg_cholesky(&a, true).unwrap();
            close(&mm(&l, &mh(&l)), &a);
            close(&mh(&u), &l);
            let b = sample(&[shape[1], 2], 9, d);
            let x = ops::cholesky_solve(&b, &l, false).unwrap();
            let want = core::expand(&b, &[shape[0], shape[1], 2], false).unwrap();
            close(&mm(&a, &x), &want);
            close(&mm(&a, &ops::cholesky_solve(&b, &u, true).unwrap()), &want);
            close(&mm(&a, &ops::linalg_solve(&a, &want, true).unwrap()), &want);
            let right = ops::linalg_solve(&a, &mh(&want), false).unwrap();
            close(&mm(&right, &a), &mh(&want));
            close(&mm(&a, &core::linalg_inv(&a).unwrap()), &eye_like(&a));
            close(&ops::cholesky_inverse(&l, false).unwrap(), &core::linalg_inv(&a).unwrap());
            let (lu, pivots) = ops::linalg_lu_factor(&a, true).unwrap();
            let back = ops::linalg_lu_solve(&lu, &pivots, &want, true, true).unwrap();
            close(&mm(&mh(&a), &back), &want);
            let back = ops::linalg_lu_solve(&lu, &pivots, &mh(&want), false, true).unwrap();
            close(&mm(&back, &mh(&a)), &mh(&want));
            let (ld, pivots) = ops::linalg_ldl_factor(&a, true).unwrap();
            close(&mm(&a, &ops::linalg_ldl_solve(&ld, &pivots, &want, true).unwrap()), &want);
        }
    }
}
#[test]
fn values_and_vectors() {
    for d in FLOATS {
        for shape in SHAPES {
            let a = sample(&shape, 6, d);
            for full in [false, true] {
                let (u, s, vh) = ops::linalg_svd(&a, full, None).unwrap();
                let k = s.sizes()[1];
                let cut = core::narrow(&u, -1, 0, k).unwrap();
                close(&mm(&scaled(&cut, &s), &core::narrow(&vh, -2, 0, k).unwrap()), &a);
                close(&mm(&mh(&u), &u), &eye_like(&mm(&mh(&u), &u)));
                close(&mm(&vh, &mh(&vh)), &eye_like(&mm(&vh, &mh(&vh))));
                close(&ops::linalg_svdvals(&a, None).unwrap(), &s);
            }
            let p = ops::linalg_pinv(&a, None, None, false).unwrap();
            close(&mm(&mm(&a, &p), &a), &a);
            if shape[1] >= shape[2] {
                let (u, h) = ops::linalg_polar(&a).unwrap();
                close(&mm(&u, &h), &a);
            }
            if shape[1] != shape[2] {
                continue;
            }
            let h = core::add(&a, &mh(&a), 1.into()).unwrap();
            for uplo in ["L", "U"] {
                let (l, v) = ops::linalg_eigh(&h, uplo).unwrap();
                close(&mm(&scaled(&v, &l), &mh(&v)), &h);
                close(&ops::linalg_eigvalsh(&h, uplo).unwrap(), &l);
            }
            let (l, v) = ops::linalg_eig(&a).unwrap();
            close(&mm(&a.to(v.dtype()), &v), &scaled(&v, &l));
            let sum = |t: &Tensor| core::sum(t, Some(&[-1]), false, None).unwrap();
            close(&sum(&ops::linalg_eigvals(&a).unwrap()), &sum(&l));
        }
    }
}
#[test]
fn determinants_and_norms() {
    let a = Tensor::from_slice(&[2f64, 1.0, 0.5, 3.0], [2, 2]);
    assert!((linalg::det(&a).item::<f64>() - 5.5).abs() < 1e-12);
    let s = ops::linalg_svdvals(&a, None).unwrap().to_vec::<f64>();
    let cond = ops::linalg_cond(&a, None).unwrap().item::<f64>();
    assert!((cond - s[0] / s[1]).abs() < 1e-12);
    assert_eq!(linalg::matrix_rank(&torch::ones([3, 3])).item::<i64>(), 1);
    let norms = |p: f64| ops::linalg_matrix_norm(&a, p.into(), &[-2, -1], false, None).unwrap().item::<f64>();
    assert_eq!(
        (norms(1.0), norms(-1.0), norms(f64::INFINITY), norms(f64::NEG_INFINITY)),
        (4.0, 2.5, 3.5, 3.0)
    );
    let s = ops::linalg_svdvals(&a, None).unwrap().to_vec::<f64>();
    assert!((norms(2.0) - s[0]).abs() < 1e-12 && (norms(-2.0) - s[1]).abs() < 1e-12);
    let nan = Tensor::from_slice(&[f64::NAN, 1.0, 1.0, 1.0], [2, 2]);
    assert!(core::linalg_inv_ex(&nan, false).is_ok());
}
#[test]
fn least_squares_by_every_driver() {
    for (m, n) in [(5, 3), (3, 5), (4, 4)] {
        let (a, b) = (sample(&[2, m, n], 1, DType::F64), sample(&[2, m, 2], 2, DType::F64));
        let want = mm(&ops::linalg_pinv(&a, None, None, false).unwrap(), &b);
        for driver in ["gels", "gelsy", "gelsd", "gelss"] {
            let (x, residuals, rank, s) = ops::linalg_lstsq(&a, &b, None, Some(driver)).unwrap();
            close(&x, &want);
            assert_eq!(residuals.numel() > 0, m > n && driver != "gelsy", "{driver}");
            assert_eq!(rank.numel() > 0, driver != "gels");
            assert_eq!(s.numel() > 0, driver == "gelsd" || driver == "gelss");
        }
    }
}
#[test]
fn of_low_rank() {
    let c = sample(&[8, 2], 3, DType::F64);
    let a = mm(&c, &mh(&sample(&[6, 2], 4, DType::F64)));
    let (u, s, v) = functions::svd_lowrank_with(&a, SvdLowrankOptions::new().q(3));
    close(&mm(&scaled(&u, &s), &mh(&v)), &a);
    let (u, s, v) = functions::pca_lowrank_with(&a, PcaLowrankOptions::new().q(3).center(false));
    close(&mm(&scaled(&u, &s), &mh(&v)), &a);
    let h = definite(&[9, 9], 7, DType::F64);
    let all = ops::linalg_eigvalsh(&h, "L").unwrap().to_vec::<f64>();
    for largest in [true, false] {
        let o = LobpcgOptions::new().k(2).largest(largest).tol(1e-9);
        let (e, x) = functions::lobpcg_with(&h, o);
        let want = if largest { [all[8], all[7]] } else { [all[0], all[1]] };
        for (a, b) in e.to_vec::<f64>().iter().zip(want) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
        assert!(core::allclose(&mm(&h, &x), &scaled(&x, &e), 1e-5, 1e-5, false).unwrap());
    }
}

/// Matrices without elements are decomposed whatever their dtype is: no kernel is asked.
#[test]
fn nothing_of_any_dtype() {
    for d in [DType::F16, DType::BF16, DType::I64] {
        for shape in [[0, 0, 0], [2, 0, 0], [0, 3, 3]] {
            let a = torch::zeros(shape).to(d);
            let (l, v) = ops::linalg_eigh(&a, "L").unwrap();
            assert_eq!((l.sizes(), v.dtype()), (&shape[..2], d));
            assert_eq!(ops::linalg_eigvalsh(&a, "L").unwrap().dtype(), d);
            let (lu, _, info) = ops::linalg_lu_factor_ex(&a, true, true).unwrap();
            assert_eq!((lu.sizes(), info.sizes()), (&shape[..], &shape[..1]));
            assert!(info.to_vec::<i32>().iter().all(|i| *i == 0));
            assert_eq!(ops::linalg_lu(&a, true).unwrap().0.sizes(), shape);
            if d == DType::I64 {
                continue;
            }
            let (l, info) = ops::linalg_cholesky_ex(&a, false, true).unwrap();
            assert_eq!((l.sizes(), info.sizes()), (&shape[..], &shape[..1]));
            assert_eq!(ops::linalg_ldl_factor(&a, false).unwrap().0.sizes(), shape);
            assert_eq!(ops::linalg_svdvals(&a, None).unwrap().sizes(), &shape[..2]);
            assert_eq!(ops::linalg_solve(&a, &a, true).unwrap().sizes(), shape);
            let det = ops::linalg_det(&a).unwrap();
            assert_eq!((det.sizes(), det.dtype()), (&shape[..1], d));
            assert!(det.to(DType::F32).to_vec::<f32>().iter().all(|v| *v == 1.0));
        }
        if d != DType::I64 {
            let (u, s, vh) = ops::linalg_svd(&torch::zeros([3, 0]).to(d), true, None).unwrap();
            assert_eq!((s.sizes(), vh.sizes()), (&[0i64][..], &[0i64, 0][..]));
            assert_eq!(u.to(DType::F32).to_vec::<f32>(), torch::eye(3).to_vec::<f32>());
        }
        let (p, l, _) = ops::linalg_lu(&torch::zeros([3, 0]).to(d), true).unwrap();
        assert_eq!((p.sizes(), l.sizes()), (&[3i64, 3][..], &[3i64, 0][..]));
    }
}
