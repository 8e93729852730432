//! Gradients. They are made of differentiable operators.

pub mod cholesky;
pub mod eigen;
pub mod least_squares;
pub mod lu;
pub mod qr;
pub mod solve;
pub mod svd;

use flambeau_autograd::shorthand as s;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Error, Result, Tensor, ops as core};

pub(crate) use crate::ops::util::mh;
pub(crate) use s::{add, conj, div, mul, neg, real, sub, sum_to, unsqueeze};

pub(crate) fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    core::matmul(a, b)
}
pub(crate) fn tril(a: &Tensor, k: i64) -> Result<Tensor> {
    core::tril(a, k)
}
pub(crate) fn triu(a: &Tensor, k: i64) -> Result<Tensor> {
    core::triu(a, k)
}
pub(crate) fn diagonal(a: &Tensor) -> Result<Tensor> {
    core::diagonal(a, 0, -2, -1)
}
pub(crate) fn diag_embed(a: &Tensor) -> Result<Tensor> {
    core::diag_embed(a, 0, -2, -1)
}
pub(crate) fn half(a: &Tensor) -> Result<Tensor> {
    s::mul_scalar(a, 0.5)
}
pub(crate) fn narrow(a: &Tensor, dim: i64, from: i64, n: i64) -> Result<Tensor> {
    core::narrow(a, dim, from, n)
}
/// Rows and columns.
pub(crate) use flambeau_core::backend::matrices::sides;

/// The gradient of an input that may be real where the formula is complex.
pub(crate) fn as_input(g: Tensor, d: DType) -> Result<Tensor> {
    if g.is_complex() && !d.is_complex() { real(&g) } else { Ok(g) }
}
/// Identity matrices like the last two dimensions of a square tensor.
pub(crate) fn eye_like(a: &Tensor, d: DType) -> Result<Tensor> {
    core::eye(sides(a).1, Some(d), None, Some(a.device()), None)
}
/// The diagonal replaced.
pub(crate) fn with_diagonal(a: &Tensor, d: &Tensor) -> Result<Tensor> {
    let off = sub(a, &diag_embed(&diagonal(a)?)?)?;
    add(&off, &diag_embed(d)?)
}
/// Whether what a gradient says of the vectors' phases is more than rounding; PyTorch's bound.
pub(crate) fn depends_on_phase(turn: &Tensor) -> Result<bool> {
    if !turn.is_complex() || turn.device() != flambeau_core::Device::Cpu {
        return Ok(false);
    }
    let t = turn.alias_detached();
    let im = s::imag(&diagonal(&t)?)?;
    let none = s::zeros_like(&im)?;
    Ok(!core::allclose(&im, &none, 1e-2, 1e-2, false)?)
}
pub(crate) fn ill_defined(name: &str, what: &str, quantity: &str) -> Error {
    Error::runtime(format!(
        "{name}: The {what} in the complex case are specified up to multiplication by e^{{i phi}}. The specified loss \
         function depends on this {quantity}"
    ))
}
