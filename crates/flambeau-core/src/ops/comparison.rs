//! Comparisons that are made of others.

use crate::tensor::handle::Tensor;
use crate::tensor::number::wrapped_number;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
use crate::{DType, ensure, ops};

fn number(v: f64) -> Result<Tensor> {
    wrapped_number(Scalar::Float(v))
}
/// Whether every element of a bool tensor is true.
fn all_true(t: &Tensor) -> Result<bool> {
    if t.device() == crate::Device::Meta {
        return Err(Error::unsupported("Tensor.item() cannot be called on meta tensors"));
    }
    Ok(crate::backend::transfer::to_vec::<crate::B8>(t)?.iter().all(|b| b.get()))
}

/// `isposinf` is for real numbers.
pub fn isposinf_check(self_: &Tensor) -> Result<()> {
    ensure!(!self_.dtype().is_complex(), Type, "isposinf does not support complex inputs.");
    Ok(())
}
/// `isneginf` is for real numbers.
pub fn isneginf_check(self_: &Tensor) -> Result<()> {
    ensure!(!self_.dtype().is_complex(), Type, "isneginf does not support complex inputs.");
    Ok(())
}

/// `isreal`
pub fn isreal(self_: &Tensor) -> Result<Tensor> {
    if self_.dtype().is_complex() {
        return ops::eq(&ops::imag(self_)?, &wrapped_number(Scalar::Int(0))?);
    }
    ops::ones_like(self_, Some(DType::Bool), None, None, None, None)
}

/// `isclose`
pub fn isclose(self_: &Tensor, other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<Tensor> {
    ensure!(
        self_.dtype() == other.dtype(),
        Runtime,
        "{} did not match {}",
        self_.dtype().scalar_type_name(),
        other.dtype().scalar_type_name()
    );
    // written so that NaN is refused too
    ensure!(rtol >= 0.0, Runtime, "rtol must be greater than or equal to zero, but got {rtol}");
    ensure!(atol >= 0.0, Runtime, "atol must be greater than or equal to zero, but got {atol}");
    let inexact = self_.dtype().is_floating() || self_.dtype().is_complex();
    let mut close = ops::eq(self_, other)?;
    if equal_nan && inexact {
        let both = ops::logical_and(&ops::isnan(self_)?, &ops::isnan(other)?)?;
        close = ops::logical_or(&close, &both)?;
    }
    if rtol == 0.0 && atol == 0.0 {
        return Ok(close);
    }
    // integers are compared in the default float dtype
    let float = |t: &Tensor| -> Result<Tensor> {
        let d = crate::iter::promotion::default_dtype();
        if inexact { Ok(t.clone()) } else { ops::to(t, Some(d), None, None, None, false, false, None) }
    };
    let (a, b) = (float(self_)?, float(other)?);
    let one = Scalar::Int(1);
    let allowed = ops::add(&number(atol)?, &ops::abs(&ops::mul(&number(rtol)?, &b)?)?, one)?;
    let actual = ops::abs(&ops::sub(&a, &b, one)?)?;
    let within = ops::logical_and(&ops::isfinite(&actual)?, &ops::le(&actual, &allowed)?)?;
    ops::logical_or(&close, &within)
}

/// `allclose`
pub fn allclose(self_: &Tensor, other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<bool> {
    all_true(&ops::isclose(self_, other, rtol, atol, equal_nan)?)
}

/// `equal`
pub fn equal(self_: &Tensor, other: &Tensor) -> Result<bool> {
    ensure!(
        self_.device() == other.device(),
        Device,
        "Cannot compare two tensors on different devices. Got: {} and {}",
        self_.device(),
        other.device()
    );
    let common = crate::iter::promotion::promote_types(self_.dtype(), other.dtype())?;
    if common == crate::DType::C32 {
        return Err(crate::Error::not_implemented_for("equal_cpu", common));
    }
    if self_.sizes() != other.sizes() {
        return Ok(false);
    }
    all_true(&ops::eq(self_, other)?)
}
