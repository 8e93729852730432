//! Short forms of functions that are no operators: they panic with the error's text at the caller's line.

use crate::DType;
use crate::tensor::handle::Tensor;
use crate::types::error::expect;
use crate::types::type_info::{self, FInfo, IInfo};

/// The smallest dtype that holds both.
///
/// ```
/// assert_eq!(torch::promote_types(torch::int64, torch::float16), torch::float16);
/// ```
#[track_caller]
#[doc(alias = "torch.promote_types")]
pub fn promote_types(a: DType, b: DType) -> DType {
    expect(crate::iter::promotion::promote_types(a, b))
}
/// Sets the dtype of new floating tensors.
///
/// ```
/// torch::set_default_dtype(torch::float64);
/// assert_eq!(torch::ones([2]).dtype(), torch::float64);
/// assert_eq!(torch::get_default_dtype(), torch::float64);
/// ```
#[track_caller]
#[doc(alias = "torch.set_default_dtype")]
pub fn set_default_dtype(d: DType) {
    expect(crate::iter::promotion::set_default_dtype(d));
}
/// The sizes that any number of shapes broadcast to.
///
/// ```
/// assert_eq!(torch::broadcast_shapes(&[&[2, 1], &[3]]), [2, 3]);
/// ```
#[track_caller]
#[doc(alias = "torch.broadcast_shapes")]
pub fn broadcast_shapes(shapes: &[&[i64]]) -> Vec<i64> {
    expect(crate::tensor::geometry::broadcast_all(shapes))
}
/// The default generator's state, as a uint8 tensor.
///
/// ```
/// let state = torch::get_rng_state();
/// let first = torch::rand([2]);
/// torch::set_rng_state(&state);
/// assert!(torch::equal(&torch::rand([2]), &first));
/// ```
#[track_caller]
#[doc(alias = "torch.get_rng_state")]
pub fn get_rng_state() -> Tensor {
    expect(crate::tensor::generator::get_rng_state())
}
/// Sets the default generator's state.
#[track_caller]
#[doc(alias = "torch.set_rng_state")]
pub fn set_rng_state(state: &Tensor) {
    expect(crate::tensor::generator::set_rng_state(state));
}
/// Limits of a floating or complex dtype.
///
/// ```
/// assert_eq!(torch::finfo(torch::float32).eps, f64::from(f32::EPSILON));
/// ```
#[track_caller]
#[doc(alias = "torch.finfo")]
pub fn finfo(dtype: DType) -> FInfo {
    expect(type_info::finfo(dtype))
}
/// Limits of an integer dtype.
///
/// ```
/// assert_eq!(torch::iinfo(torch::int8).max, 127);
/// ```
#[track_caller]
#[doc(alias = "torch.iinfo")]
pub fn iinfo(dtype: DType) -> IInfo {
    expect(type_info::iinfo(dtype))
}
