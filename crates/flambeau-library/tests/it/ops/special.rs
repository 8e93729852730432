//! Special functions at the ends of their ranges.

use super::{call, of};
use flambeau_core::{DType, Tensor, Value};

#[test]
fn special_functions_at_their_ends() {
    let huge = Tensor::from_slice(&[1e308f64, 200.0], [2]);
    let a = call("torch.special.airy_ai", &[of(&huge)], &[]).unwrap().to_vec::<f64>();
    assert_eq!(a[1], 0.0);
    // the poles of trigamma as single precision has them
    let x = Tensor::from_slice(&[-1i64, -2], [2]).to(DType::I8);
    let p = call("torch.polygamma", &[Value::Int(1), of(&x)], &[]).unwrap().to_vec::<f32>();
    for (got, want) in p.iter().zip([1291369695936512.0f32, 322842423984128.0]) {
        assert!((got - want).abs() <= 1e-5 * want, "{got} is not {want}");
    }
}
