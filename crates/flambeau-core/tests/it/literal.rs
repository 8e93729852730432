//! Tensors from Rust values and back.

use flambeau_core::api::literal::{as_tensor, scalar_tensor, tensor, tensor_with, try_tensor};
use flambeau_core::{DType, Tensor, TensorOptions, Value};
use num_complex::Complex;

#[test]
fn kinds_and_shapes() {
    let x = tensor([[1., 2.], [3., 4.]]);
    assert_eq!((x.sizes(), x.dtype()), (&[2, 2][..], DType::F32));
    assert_eq!(tensor(1u8).dtype(), DType::I64);
    assert_eq!(tensor(vec![true, false]).dtype(), DType::Bool);
    assert_eq!(tensor([Complex::new(1f64, 2.)]).dtype(), DType::C64);
    assert_eq!(tensor(vec![vec![1i32; 3]; 2]).sizes(), [2, 3]);
    assert_eq!(tensor(&[[1, 2, 3], [4, 5, 6]][..]).to_vec::<i64>(), [1, 2, 3, 4, 5, 6]);
    let none: Vec<f32> = vec![];
    assert_eq!((tensor(&none).sizes(), tensor(&none).dtype()), (&[0][..], DType::F32));
    assert_eq!(tensor(vec![none.clone(), none]).sizes(), [2, 0]);
    assert_eq!(tensor_with([1, 2], DType::F64).to_string(), "tensor([1., 2.], dtype=torch.float64)");
    assert_eq!(scalar_tensor(3, TensorOptions::new()).dtype(), DType::F32);
}
/// A literal on the left has one type that fits, so the result's type is known: its methods can be called at once.
#[test]
fn literals_on_the_left() {
    let x = tensor([4.0, 1.0]);
    assert_eq!((0.5 * &x).neg().to_vec::<f32>(), [-2.0, -0.5]);
    assert_eq!((1 - &x).square().to_vec::<f32>(), [9.0, 0.0]);
    assert_eq!((2.0 / x.clone()).sum().item::<f32>(), 2.5);
    assert_eq!((7 % &x).to_vec::<f32>(), [3.0, 0.0]);
    let a = 0.25;
    assert_eq!((a * &x + (1.0 - a) * &x).to_vec::<f32>(), [4.0, 1.0]);
    assert_eq!((3 * tensor([1, 2])).dtype(), DType::I64);
}
#[test]
fn ragged_is_an_error() {
    let e = try_tensor(vec![vec![1, 2], vec![3]], TensorOptions::new()).unwrap_err();
    assert_eq!(e.message(), "expected sequence of length 2 at dim 1 (got 1)");
    let e = try_tensor(vec![vec![], vec![3]], TensorOptions::new()).unwrap_err();
    assert_eq!(e.message(), "expected sequence of length 0 at dim 1 (got 1)");
}
#[test]
fn shared_or_copied() {
    let x = tensor([1., 2.]);
    assert!(as_tensor(&x, DType::F32).is_same(&x));
    assert_eq!(as_tensor(&x, DType::I64).dtype(), DType::I64);
    assert_eq!(as_tensor([1, 2], TensorOptions::new()).dtype(), DType::I64);
}
#[test]
fn back_to_rust() {
    let x = tensor([[1, 2, 3], [4, 5, 6]]);
    assert_eq!(x.to_vec2::<f32>(), [[1., 2., 3.], [4., 5., 6.]]);
    assert_eq!(x.unsqueeze(0).to_vec3::<i64>(), [[[1, 2, 3], [4, 5, 6]]]);
    assert!(x.try_to_nested::<Vec<i64>>().is_err());
    assert_eq!(x.tolist().to_string(), "[[1, 2, 3], [4, 5, 6]]");
    assert_eq!(tensor([[0.5], [2.0]]).tolist().to_string(), "[[0.5], [2.0]]");
    let rows = x.tolist().into_items().expect("a list");
    assert!(matches!(&rows[1], Value::List(r) if matches!(r[2], Value::Int(6))));
    assert!(matches!(tensor(true).tolist(), Value::Bool(true)));
    let z = Tensor::from_vec(Vec::<f32>::new(), [2, 0]);
    assert_eq!(z.to_vec2::<f32>(), vec![Vec::<f32>::new(); 2]);
}
