//! Views and what writes through them: expanded tensors, copies of views that do not exist.

use super::{call, floats, of};
use flambeau_core::functions as f;
use flambeau_core::{DType, Tensor, Value};
use flambeau_library as library;

/// A column seen as a 3 x 4 matrix.
fn expanded() -> (Tensor, Tensor) {
    let column = Tensor::from_slice(&[1f32, 2., 3.], [3, 1]);
    let wide = column.expand([3, 4]);
    (column, wide)
}

#[test]
fn expanded_tensors_take_what_writes_one_value() {
    let (column, wide) = expanded();
    wide.fill_(7);
    assert_eq!(column.to_vec::<f32>(), [7., 7., 7.]);
    wide.zero_();
    assert_eq!(column.to_vec::<f32>(), [0., 0., 0.]);
    let index = Value::Tuple(vec![Value::Int(1)]);
    library::call("torch.Tensor.__setitem__", &[of(&wide), index, Value::Int(5)], &[]).unwrap();
    assert_eq!(column.to_vec::<f32>(), [0., 5., 0.]);
    let mask = f::zeros([3, 4]).to(DType::Bool);
    mask.select(0, 2).select(0, 3).fill_(1);
    call("torch.Tensor.masked_fill_", &[of(&wide), of(&mask), Value::Int(9)], &[]).unwrap();
    assert_eq!(column.to_vec::<f32>(), [0., 5., 9.]);
    let at = Value::Tuple(vec![of(&Tensor::from_slice(&[0i64], [1])), of(&Tensor::from_slice(&[2i64], [1]))]);
    call("torch.Tensor.index_put_", &[of(&wide), at, of(&floats(&[4.]))], &[]).unwrap();
    assert_eq!(column.to_vec::<f32>(), [4., 5., 9.]);
    // what computes per element still refuses
    let e = call("torch.Tensor.add_", &[of(&wide), Value::Int(1)], &[]).unwrap_err();
    assert!(e.message().contains("more than one element of the written-to tensor"), "{e}");
}

#[test]
fn view_copy_of_what_has_no_such_view() {
    let x = Tensor::from_slice(&[0f32, 1., 2., 3., 4., 5.], [2, 3]).t();
    let flat = call("torch.view_copy", &[of(&x), Value::Tuple(vec![Value::Int(6)])], &[]).unwrap();
    assert_eq!(flat.to_vec::<f32>(), [0., 3., 1., 4., 2., 5.]);
}
