//! What pointwise rows need beside their formulas: checks.

use crate::error::Result;
use crate::ops;
use crate::scalar::Scalar;
use crate::tensor::Tensor;
use crate::{DType, ensure};

/// `sub` refuses bools.
pub fn no_bool_sub(self_: &Tensor, other: &Tensor, _alpha: Scalar) -> Result<()> {
    let (a, b) = (self_.dtype() == DType::Bool, other.dtype() == DType::Bool);
    ensure!(
        !(a && b),
        Runtime,
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator \
         instead."
    );
    ensure!(
        !(a || b),
        Runtime,
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the \
         `~` or `logical_not()` operator instead."
    );
    Ok(())
}

/// `where` wants a mask.
pub fn where_condition(condition: &Tensor, _self: &Tensor, _other: &Tensor) -> Result<()> {
    ensure!(
        matches!(condition.dtype(), DType::Bool | DType::U8),
        Runtime,
        "where expected condition to be a boolean tensor, but got a tensor with dtype {}",
        condition.dtype().scalar_type_name()
    );
    Ok(())
}

/// `div.Tensor_mode`
pub fn div_mode(self_: &Tensor, other: &Tensor, rounding_mode: Option<&str>) -> Result<Tensor> {
    ensure!(
        matches!(rounding_mode, None | Some("trunc" | "floor")),
        Runtime,
        "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{}'",
        rounding_mode.unwrap_or("")
    );
    ops::div(self_, other)
}

/// `neg` refuses bools.
pub fn no_bool_neg(self_: &Tensor) -> Result<()> {
    ensure!(
        self_.dtype() != DType::Bool,
        Runtime,
        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or \
         `logical_not()` operator instead."
    );
    Ok(())
}
