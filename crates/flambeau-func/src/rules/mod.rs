//! Rules for tensors with a hidden dimension. A row's key `vmap` names one of the functions that [`by`] lists.

pub(crate) mod create;
pub(crate) mod dims;
pub(crate) mod index;
pub(crate) mod layers;
pub(crate) mod linear;
pub(crate) mod looped;
pub(crate) mod pointwise;
pub(crate) mod random;
pub(crate) mod refused;
pub(crate) mod views;

use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Result, Scalar, Tensor, ops};

/// A number as an operand.
fn number(v: i64) -> Result<Tensor> {
    Tensor::wrapped_raw::<i64>(v)
}
fn mul_scalar(t: &Tensor, by: Scalar) -> Result<Tensor> {
    let by = match by {
        Scalar::Float(v) => Tensor::wrapped_raw::<f64>(v)?,
        v => number(v.to_i64())?,
    };
    ops::mul(t, &by)
}

/// What the tables name.
pub(crate) mod by {
    pub(crate) use super::create::*;
    pub(crate) use super::dims::*;
    pub(crate) use super::index::*;
    pub(crate) use super::layers::*;
    pub(crate) use super::linear::*;
    pub(crate) use super::pointwise::*;
    pub(crate) use super::refused::*;
    pub(crate) use super::views::*;
}
