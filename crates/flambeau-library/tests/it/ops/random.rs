//! The stream of the default generator: which numbers are drawn, and in which order elements take them. It is the whole
//! process's, so these tests have one each.

use super::{call, floats, of};
use flambeau_core::functions as f;
use flambeau_core::tensor::generator;
use flambeau_core::{DType, Tensor, Value, ops};
use flambeau_test_support::alone;

/// The imaginary part of a conjugate: its memory holds the negated values.
fn negated(v: &[f32]) -> Tensor {
    let parts = floats(&v.iter().map(|x| -x).collect::<Vec<_>>());
    let z = ops::complex(&f::zeros([v.len()]), &parts).unwrap();
    let t = ops::imag(&ops::conj(&z).unwrap()).unwrap();
    assert!(t.is_neg());
    t
}

#[test]
fn negated_tensors_take_truth_values_and_draws() {
    alone!();
    let x = negated(&[1., -2., 3.]);
    call("torch.Tensor.eq_", &[of(&x), of(&floats(&[1., 2., 3.]))], &[]).unwrap();
    assert_eq!(x.to_vec::<f32>(), [1., 0., 1.]);
    // few enough for one order of draws: the view is not contiguous
    for name in ["torch.Tensor.exponential_", "torch.Tensor.normal_", "torch.Tensor.uniform_"] {
        let (plain, lazy) = (f::zeros([12]), negated(&[0.; 12]));
        for t in [&plain, &lazy] {
            generator::manual_seed(5);
            call(name, &[of(t)], &[]).unwrap();
        }
        assert_eq!(plain.to_vec::<f32>(), lazy.to_vec::<f32>(), "{name}");
    }
}

#[test]
fn ranges_of_random_floats_end_at_numbers_of_the_dtype() {
    alone!();
    generator::manual_seed(3);
    let args = [Value::Int(0), Value::Int(1 << 33), Value::Tuple(vec![Value::Int(3)])];
    let t = call("torch.randint", &args, &[("dtype", Value::DType(DType::F32))]).unwrap();
    assert_eq!(t.to_vec::<f32>(), [4617075712.0, 4835283968.0, 2546689536.0]);
    generator::manual_seed(3);
    let t = f::zeros([2]).to(DType::BF16);
    call("torch.Tensor.random_", &[of(&t), Value::Int(0), Value::Int(1 << 40)], &[]).unwrap();
    assert_eq!(t.to(DType::F32).to_vec::<f32>(), [69256347648.0, 162135015424.0]);
}

#[test]
fn draws_for_a_transposed_tensor_go_in_memory_order() {
    alone!();
    generator::manual_seed(7);
    let w = Tensor::from_slice(&[1f32, 2., 3., 4., 5., 6., 7., 8.], [4, 2]).t();
    let picked = call("torch.multinomial", &[of(&w), Value::Int(2)], &[]).unwrap();
    assert_eq!(picked.to_vec::<i64>(), [3, 0, 3, 0]);
}
