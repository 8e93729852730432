//! Fake quantisation.

use super::near;
use flambeau_core::{Tensor, ops};

#[test]
fn fake_quantization() {
    let x: Vec<f32> = vec![-3.0, -0.26, 0.24, 0.25, 0.35, 5.0, f32::NAN, f32::INFINITY];
    let x = Tensor::from_slice(&x, 8);
    let (y, mask) = ops::fake_quantize_per_tensor_affine_cachemask(&x, 0.1, 3, -8, 7).unwrap();
    near(&y, &[-1.1, -0.3, 0.2, 0.2, 0.4, 0.4, -1.1, 0.4].map(|v: f64| v));
    assert_eq!(mask.to_vec::<i64>(), [0, 1, 1, 1, 1, 0, 0, 0]);
    assert!(ops::fake_quantize_per_tensor_affine(&x, 0.1, 30, -8, 7).is_err());
}
