//! Second derivatives by the four ways of taking them: forward mode through gradients meets formulas that a recorded gradient does not.

use flambeau_core::{Result, Scalar, Tensor, ops};
use flambeau_func::{jacfwd, jacrev};
use flambeau_linalg::generated::ops as la;
use flambeau_nn_functional::generated::ops as nn;

type F = fn(&Tensor) -> Result<Tensor>;
fn sum(t: &Tensor) -> Result<Tensor> {
    ops::sum(&ops::mul(t, &ops::mul(t, t)?)?, None, false, None)
}
fn rows(x: &Tensor) -> Result<Tensor> {
    ops::reshape(x, &[3, 3])
}
/// `x + 3`, on the diagonal: far from singular.
fn regular(x: &Tensor) -> Result<Tensor> {
    let d = ops::mul(&ops::eye(3, None, None, None, None)?, &Tensor::from_vec(vec![3.0f64], [1]))?;
    ops::add(&rows(x)?, &d, Scalar::Int(1))
}
const CASES: &[(&str, F)] = &[
    ("solve", |x| sum(&la::linalg_solve(&regular(x)?, &rows(x)?, true)?)),
    ("inv", |x| sum(&ops::linalg_inv(&regular(x)?)?)),
    ("det", |x| la::linalg_det(&regular(x)?)),
    ("qr", |x| sum(&la::linalg_qr(&regular(x)?, "reduced")?.1)),
    ("layer_norm", |x| sum(&nn::layer_norm(&rows(x)?, &[3], Some(&x.narrow(0, 0, 3)), None, 1e-2, false)?)),
    ("rms_norm", |x| sum(&nn::rms_norm(&rows(x)?, &[3], Some(&x.narrow(0, 0, 3)), Some(1e-2))?)),
    ("group_norm", |x| {
        sum(&nn::group_norm(&rows(x)?, 1, Some(&x.narrow(0, 0, 3)), Some(&x.narrow(0, 3, 3)), 1e-2, true)?)
    }),
    ("group_norm of batches", |x| {
        let all = ops::reshape(&ops::cat(&vec![x.clone(); 4], 0)?, &[3, 4, 3])?;
        sum(&nn::group_norm(&all, 2, None, None, 1e-2, true)?)
    }),
    ("instance_norm", |x| {
        let all = ops::reshape(&ops::cat(&vec![x.clone(); 2], 0)?, &[2, 3, 3])?;
        sum(&nn::instance_norm(&all, None, None, Some(&x.narrow(0, 0, 3)), None, true, 0.1, 1e-2)?)
    }),
    ("cholesky", |x| {
        let a = regular(x)?;
        sum(&la::linalg_cholesky(&ops::mm(&a, &ops::t(&a)?)?, false)?)
    }),
    ("batch_norm", |x| {
        let w = x.narrow(0, 0, 3);
        sum(&nn::batch_norm(&rows(x)?, None, None, Some(&w), None, true, 0.1, 1e-2)?)
    }),
    ("cross_entropy", |x| {
        let target = Tensor::from_vec(vec![0i64, 2, 1], [3]);
        sum(&nn::cross_entropy(&rows(x)?, &target, None, None, -100, None, "mean", 0.1)?)
    }),
];

#[test]
fn all_ways_agree() {
    let x = Tensor::from_vec((0..9).map(|i| f64::from(i * 7 % 9) / 5.0 - 0.7).collect::<Vec<f64>>(), [9]);
    for (name, f) in CASES {
        let f = |x: &Tensor| f(x).unwrap_or_else(|e| panic!("{name}: {e}"));
        let ways = [
            ("reverse over reverse", jacrev(jacrev(f))(&x)),
            ("forward over reverse", jacfwd(jacrev(f))(&x)),
            ("reverse over forward", jacrev(jacfwd(f))(&x)),
            ("forward over forward", jacfwd(jacfwd(f))(&x)),
        ];
        for (way, h) in &ways[1..] {
            let (a, b) = (ways[0].1.to_vec::<f64>(), h.to_vec::<f64>());
            let worst = a.iter().zip(&b).map(|(a, b)| (a - b).abs() / (1.0 + a.abs())).fold(0.0, f64::max);
            assert!(worst < 1e-8, "{name}, {way}: {worst}");
        }
    }
}
