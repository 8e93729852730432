//! Matrix products.

use crate::derivatives::shorthand::{add, conj, mul_scalar, transpose};
use crate::{Result, Scalar, Tensor, ops};

fn adjoint(m: &Tensor) -> Result<Tensor> {
    transpose(&conj(m)?, -2, -1)
}
/// The gradient of a product for its left matrix.
pub fn mm_left(grad: &Tensor, right: &Tensor) -> Result<Tensor> {
    ops::mm(grad, &adjoint(right)?)
}
/// The gradient of a product for its right matrix.
pub fn mm_right(grad: &Tensor, left: &Tensor) -> Result<Tensor> {
    ops::mm(&adjoint(left)?, grad)
}
/// The same for batches.
pub fn bmm_left(grad: &Tensor, right: &Tensor) -> Result<Tensor> {
    ops::bmm(grad, &adjoint(right)?)
}
/// The same for batches.
pub fn bmm_right(grad: &Tensor, left: &Tensor) -> Result<Tensor> {
    ops::bmm(&adjoint(left)?, grad)
}
/// The tangent of a product.
pub fn mm_jvp(left_t: &Tensor, left: &Tensor, right_t: &Tensor, right: &Tensor) -> Result<Tensor> {
    add(&ops::mm(left_t, right)?, &ops::mm(left, right_t)?)
}
/// The gradient of `alpha` times an outer product for its left vector; the vectors may be of another dtype than their product.
pub fn addr_vector(grad: &Tensor, other: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let other = ops::to(&conj(other)?, Some(grad.dtype()), None, None, None, false, false, None)?;
    mul_scalar(&ops::mv(grad, &other)?, alpha.conj())
}
