//! Comparisons that are made of others.

use crate::tensor::handle::Tensor;
use crate::tensor::wrapped_number::wrapped_number;
use crate::types::device::Device;
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
    ensure!(
        rtol >= 0.0,
        Runtime,
        "rtol must be greater than or equal to zero, but got {}",
        crate::types::type_info::c_number(rtol)
    );
    ensure!(
        atol >= 0.0,
        Runtime,
        "atol must be greater than or equal to zero, but got {}",
        crate::types::type_info::c_number(atol)
    );
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

/// `isin.Tensor_Tensor`
pub fn isin(elements: &Tensor, test_elements: &Tensor, _assume_unique: bool, invert: bool) -> Result<Tensor> {
    isin_takes(elements.dtype())?;
    isin_takes(test_elements.dtype())?;
    let d = crate::iter::promotion::result_type(&[elements, test_elements])?;
    if d.is_complex() || d.is_wide_unsigned() || matches!(d, DType::F8E4M3 | DType::F8E5M2) {
        return Err(Error::not_implemented_for("isin_default_cpu", d));
    }
    found_among(elements, test_elements, invert)
}

fn isin_takes(d: DType) -> Result<()> {
    ensure!(
        !matches!(d, DType::Bool | DType::C64 | DType::C128),
        Unsupported,
        "Unsupported input type encountered for isin(): {}",
        d.scalar_type_name()
    );
    Ok(())
}

fn found_among(elements: &Tensor, test_elements: &Tensor, invert: bool) -> Result<Tensor> {
    let found = if test_elements.dim() == 0 {
        ops::eq(elements, test_elements)?
    } else if elements.numel().saturating_mul(test_elements.numel()) > 1 << 16
        && elements.dtype() == test_elements.dtype()
    {
        // every pair would be too much: the place where each element belongs among the sorted ones
        let sorted = ops::sort(&ops::flatten(test_elements, 0, -1)?, 0, false)?.0;
        let at = ops::searchsorted(&sorted, elements, false, false, None, None)?;
        let last = Scalar::Int(sorted.numel() - 1);
        ops::eq(&ops::take(&sorted, &ops::clamp(&at, None, Some(last))?)?, elements)?
    } else {
        let pairs = ops::eq(&ops::unsqueeze(elements, -1)?, &ops::flatten(test_elements, 0, -1)?)?;
        ops::any_dim(&pairs, -1, false)?
    };
    if invert { ops::logical_not(&found) } else { Ok(found) }
}

/// `isin.Tensor_Scalar`
pub fn isin_number(elements: &Tensor, test_element: Scalar, _unique: bool, invert: bool) -> Result<Tensor> {
    isin_takes(elements.dtype())?;
    match test_element {
        Scalar::Bool(_) => isin_takes(DType::Bool)?,
        Scalar::Complex(_) => isin_takes(DType::C128)?,
        _ => {}
    }
    let one = ops::eq(elements, &crate::tensor::wrapped_number::wrapped_number(test_element)?)?;
    if invert { ops::logical_not(&one) } else { Ok(one) }
}

/// `isin.Scalar_Tensor`
pub fn number_isin(element: Scalar, test_elements: &Tensor, unique: bool, invert: bool) -> Result<Tensor> {
    let element = wrapped_number(element)?;
    let element = match test_elements.device() {
        Device::Meta => Tensor::empty_raw(&[], element.dtype(), Device::Meta)?,
        _ => element,
    };
    isin(&element, test_elements, unique, invert)
}
