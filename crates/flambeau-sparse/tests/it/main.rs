//! The tests of flambeau-sparse, in one binary.

mod forged;
mod gradients;
mod layouts;
mod operators;
mod properties;

use flambeau_core::{Result, Tensor};
use flambeau_sparse::TensorSparseExt;
use flambeau_sparse::functions::*;

pub fn i64s(v: &[i64], sizes: [i64; 2]) -> Tensor {
    Tensor::from_slice(v, sizes)
}
/// 2 x 3 with a place that occurs twice.
pub fn uncoalesced() -> Tensor {
    let at = i64s(&[0, 1, 1, 0, 2, 0, 2, 2], [2, 4]);
    sparse_coo_tensor(&at, &Tensor::from_slice(&[3f32, 4.0, 5.0, 7.0], 4), [2, 3])
}
pub fn other() -> Tensor {
    let at = i64s(&[1, 0, 1, 1, 2, 2, 2, 1], [2, 4]);
    sparse_coo_tensor(&at, &Tensor::from_slice(&[10f32, 20.0, 30.0, 1.0], 4), [2, 3])
}
#[track_caller]
pub fn assert_coo(t: &Tensor, indices: &[i64], values: &[f32], coalesced: bool) {
    assert_eq!(t._indices().to_vec::<i64>(), indices);
    assert_eq!(t._values().to_vec::<f32>(), values);
    assert_eq!(t.is_coalesced(), coalesced);
}
#[track_caller]
pub fn error<T: std::fmt::Debug>(r: Result<T>) -> String {
    r.unwrap_err().message().to_string()
}
