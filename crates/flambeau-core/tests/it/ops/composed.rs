//! Differences, combinations, covariances, products, distances, and strided scatters.

use super::{near, t};
use flambeau_core::{Tensor, ops};

#[test]
fn differences_and_combinations() {
    let x = t(&[1.0, 3.0, 2.0, 7.0], &[4]);
    near(&ops::diff(&x, 1, -1, None, None).unwrap(), &[2.0, -1.0, 5.0]);
    near(&ops::diff(&x, 2, 0, None, Some(&x)).unwrap(), &[-3.0, 6.0, -11.0, 8.0, -3.0, 6.0]);
    assert_eq!(ops::diff(&x, 9, 0, None, None).unwrap().numel(), 0);
    let c = ops::combinations(&x, 2, false).unwrap();
    assert_eq!(c.sizes(), [6, 2]);
    near(&c, &[1.0, 3.0, 1.0, 2.0, 1.0, 7.0, 3.0, 2.0, 3.0, 7.0, 2.0, 7.0]);
    assert_eq!(ops::combinations(&x, 3, true).unwrap().sizes(), [20, 3]);
    assert_eq!(ops::combinations(&x, 5, false).unwrap().sizes(), [0, 5]);
}

#[test]
fn covariance() {
    let x = t(&[0.0, 1.0, 2.0, 2.0, 1.0, 0.0], &[2, 3]);
    near(&ops::cov(&x, 1, None, None).unwrap(), &[1.0, -1.0, -1.0, 1.0]);
    near(&ops::corrcoef(&x).unwrap(), &[1.0, -1.0, -1.0, 1.0]);
    let f = Tensor::from_slice(&[1i64, 2, 1], 3);
    near(&ops::cov(&t(&[0.0, 1.0, 5.0], &[3]), 0, Some(&f), None).unwrap(), &[3.6875]);
    let e = ops::cov(&x, 1, Some(&t(&[1.0; 3], &[3])), None).unwrap_err();
    assert_eq!(
        e.message(),
        "cov(): expected fweights to have integral dtype but got fweights with Double dtype"
    );
}

#[test]
fn products_and_distances() {
    let (a, b) = (t(&[1.0, 0.0, 0.0], &[3]), t(&[0.0, 1.0, 0.0], &[3]));
    near(&ops::cross(&a, &b, None).unwrap(), &[0.0, 0.0, 1.0]);
    near(&ops::linalg_vecdot(&t(&[1.0, 2.0], &[2]), &t(&[3.0, 4.0], &[2]), -1).unwrap(), &[11.0]);
    let (x, y) = (t(&[0.0, 0.0, 3.0, 4.0], &[2, 2]), t(&[0.0, 0.0], &[1, 2]));
    near(&ops::cdist(&x, &y, 2.0, None).unwrap(), &[0.0, 5.0]);
    near(&ops::cdist(&x, &y, f64::INFINITY, None).unwrap(), &[0.0, 4.0]);
    near(&ops::pdist(&x, 1.0).unwrap(), &[7.0]);
    near(&ops::vander(&t(&[2.0, 3.0], &[2]), Some(3), false).unwrap(), &[4.0, 2.0, 1.0, 9.0, 3.0, 1.0]);
    near(
        &ops::renorm(&t(&[3.0, 4.0, 0.3, 0.4], &[2, 2]), 2.into(), 0, 1.into()).unwrap(),
        &[0.6, 0.8, 0.3, 0.4],
    );
    let r = ops::linalg_multi_dot(&[t(&[1.0, 2.0], &[2]), x.clone(), t(&[1.0, 1.0], &[2])]).unwrap();
    assert_eq!((r.dim(), r.to_vec::<f64>()), (0, vec![14.0]));
}
