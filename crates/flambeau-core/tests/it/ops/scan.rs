//! Running sums.

use flambeau_core::{Tensor, ops};

#[test]
fn running_complex_logsumexp() {
    let z: Vec<num_complex::Complex<f64>> = [(0.0, 0.5), (1.0, -2.0), (f64::NEG_INFINITY, 0.0)]
        .map(|(a, b)| num_complex::Complex::new(a, b))
        .to_vec();
    let got = ops::logcumsumexp(&Tensor::from_slice(&z, 3), 0).unwrap().to_vec::<num_complex::Complex<f64>>();
    let mut sum = num_complex::Complex::new(0.0, 0.0);
    for (g, v) in got.iter().zip(&z) {
        sum += v.exp();
        assert!((g - sum.ln()).norm() < 1e-12, "{got:?}");
    }
}
