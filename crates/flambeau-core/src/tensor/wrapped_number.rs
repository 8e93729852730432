//! Numbers as tensors.

use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use crate::types::scalar::Scalar;

/// A zero-dim tensor that type promotion treats as a Python number.
pub fn wrapped_number(s: Scalar) -> Result<Tensor> {
    match s {
        Scalar::Bool(b) => Tensor::wrapped_raw(crate::B8::from(b)),
        Scalar::Int(i) => Tensor::wrapped_raw(i),
        Scalar::UInt(u) => Tensor::wrapped_raw(u),
        Scalar::Float(f) => Tensor::wrapped_raw(f),
        Scalar::Complex(c) => Tensor::wrapped_raw(c),
    }
}
