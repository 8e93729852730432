//! Short names for derivative formulas: operators with the usual defaults, numbers where tensors are meant.

use crate::api::ergonomic::wrapped_number;
use crate::tensor::geometry::{self, SizeVec};
use crate::tensor::wrapper::zeros_among;
use crate::{DType, Device, Error, Result, Scalar, Tensor, ops};

const ONE: Scalar = Scalar::Int(1);

/// `a + b`
pub fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::add(a, b, ONE)
}
/// `a + b` where either may be sparse: the sum is dense unless both are.
pub fn add_layouts(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if a.is_sparse_any() && !b.is_sparse_any() { add(b, a) } else { add(a, b) }
}
/// `a - b`
pub fn sub(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::sub(a, b, ONE)
}
/// `a * b`
pub fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::mul(a, b)
}
/// `a * conj(b)`, the gradient of products.
pub fn mul_conj(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if b.dtype().is_complex() { ops::mul(a, &ops::conj(b)?) } else { ops::mul(a, b) }
}
/// `a / b`
pub fn div(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::div(a, b)
}
/// `-a`
pub fn neg(a: &Tensor) -> Result<Tensor> {
    ops::neg(a)
}
/// `exp(a)`
pub fn exp(a: &Tensor) -> Result<Tensor> {
    ops::exp(a)
}
/// A number as a tensor that type promotion treats as a number.
pub fn number(s: impl Into<Scalar>) -> Result<Tensor> {
    wrapped_number(s.into())
}
/// `a + s`
pub fn add_scalar(a: &Tensor, s: impl Into<Scalar>) -> Result<Tensor> {
    ops::add(a, &wrapped_number(s.into())?, ONE)
}
/// `a - s`
pub fn sub_scalar(a: &Tensor, s: impl Into<Scalar>) -> Result<Tensor> {
    ops::sub(a, &wrapped_number(s.into())?, ONE)
}
/// `s - a`
pub fn scalar_sub(s: impl Into<Scalar>, a: &Tensor) -> Result<Tensor> {
    ops::sub(&wrapped_number(s.into())?, a, ONE)
}
/// `a * s`
pub fn mul_scalar(a: &Tensor, s: impl Into<Scalar>) -> Result<Tensor> {
    let s = s.into();
    if s.equals(1.0) { Ok(a.clone()) } else { ops::mul(a, &wrapped_number(s)?) }
}
/// `a / s`
pub fn div_scalar(a: &Tensor, s: impl Into<Scalar>) -> Result<Tensor> {
    ops::div(a, &wrapped_number(s.into())?)
}
/// `s / a`
pub fn scalar_div(s: impl Into<Scalar>, a: &Tensor) -> Result<Tensor> {
    ops::div(&wrapped_number(s.into())?, a)
}
/// `a += b`
pub fn add_(a: &Tensor, b: &Tensor) -> Result<()> {
    ops::add_(a, b, ONE)
}
/// Complex conjugate; real tensors as they are.
pub fn conj(a: &Tensor) -> Result<Tensor> {
    if a.dtype().is_complex() { ops::conj(a) } else { Ok(a.clone()) }
}
/// Real part; real tensors as they are.
pub fn real(a: &Tensor) -> Result<Tensor> {
    if !a.dtype().is_complex() {
        return Ok(a.clone());
    }
    ops::select(&ops::view_as_real(&ops::resolve_conj(a)?)?, -1, 0)
}
/// Imaginary part; zeros for real tensors.
pub fn imag(a: &Tensor) -> Result<Tensor> {
    if !a.dtype().is_complex() {
        return ops::zeros_like(a, None, None, None, None, None);
    }
    ops::select(&ops::view_as_real(&ops::resolve_conj(a)?)?, -1, 1)
}
/// Elementwise equality.
pub fn eq(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::eq(a, b)
}
/// `a` where `mask`, else `b`.
pub fn where_(mask: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::where_(mask, a, b)
}
/// `a` where `mask`, else 0.
pub fn masked(mask: &Tensor, a: &Tensor) -> Result<Tensor> {
    ops::where_(mask, a, &number(0)?)
}
/// `a` where not `mask`, else 0.
pub fn masked_not(mask: &Tensor, a: &Tensor) -> Result<Tensor> {
    ops::where_(mask, &number(0)?, a)
}

/// Zeros of the same sizes, dtype and device.
pub fn zeros_like(a: &Tensor) -> Result<Tensor> {
    ops::zeros_like(a, None, None, None, None, None)
}
/// Ones of the same sizes, dtype and device.
pub fn ones_like(a: &Tensor) -> Result<Tensor> {
    if a.dim() == 0 && a.device() == Device::Cpu {
        match a.dtype() {
            DType::F32 => return Tensor::scalar_raw(1f32),
            DType::F64 => return Tensor::scalar_raw(1f64),
            _ => {}
        }
    }
    ops::ones_like(a, None, None, None, None, None)
}
/// Zeros of given sizes with the dtype and device of `like`.
pub fn zeros(sizes: &[i64], like: &Tensor) -> Result<Tensor> {
    if like.is_wrapper() {
        return zeros_among(sizes, like.dtype(), like.device(), [like]);
    }
    // by an operator, so that a capture sees where they come from
    ops::zeros(sizes, Some(like.dtype()), None, Some(like.device()), None)
}
/// A copy.
pub fn clone(a: &Tensor) -> Result<Tensor> {
    ops::clone(a, None)
}
/// A fresh tensor of these sizes and strides, otherwise as `a` is.
pub fn new_empty_strided(a: &Tensor, sizes: &[i64], strides: &[i64]) -> Result<Tensor> {
    ops::new_empty_strided(a, sizes, strides, None, None, None, None)
}
/// Writes `b` into `a`.
pub fn copy_(a: &Tensor, b: &Tensor) -> Result<()> {
    ops::copy_(a, b, false)
}
/// Writes zeros.
pub fn zero_(a: &Tensor) -> Result<()> {
    ops::zero_(a)
}
/// Another dtype.
pub fn to_dtype(a: &Tensor, dtype: DType) -> Result<Tensor> {
    if a.dtype() == dtype {
        Ok(a.clone())
    } else {
        ops::to_copy(a, Some(dtype), None, None, None, false, None)
    }
}
/// Another device.
pub fn to_device(a: &Tensor, device: Device) -> Result<Tensor> {
    if a.device() == device {
        Ok(a.clone())
    } else {
        ops::to_copy(a, None, None, Some(device), None, false, None)
    }
}
/// The same elements without history.
pub fn detached(a: Tensor) -> Tensor {
    if a.autograd_state().is_none() && a.first_edge().is_none() { a } else { a.alias_detached() }
}
/// The same elements as a view.
pub fn alias(a: &Tensor) -> Result<Tensor> {
    ops::alias(a)
}

/// Same elements, other sizes.
pub fn reshape(a: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    if a.sizes() == sizes { Ok(a.clone()) } else { ops::reshape(a, sizes) }
}
/// Broadcast to `sizes`.
pub fn expand(a: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    if a.sizes() == sizes { Ok(a.clone()) } else { ops::expand(a, sizes, false) }
}
/// Contiguous in row-major order.
pub fn contiguous(a: &Tensor) -> Result<Tensor> {
    ops::contiguous(a, crate::MemoryFormat::Contiguous)
}
/// Without the lazy conjugate bit.
pub fn resolve_conj(a: &Tensor) -> Result<Tensor> {
    ops::resolve_conj(a)
}
/// Complex as pairs of reals.
pub fn view_as_real(a: &Tensor) -> Result<Tensor> {
    ops::view_as_real(a)
}
/// Pairs of reals as complex.
pub fn view_as_complex(a: &Tensor) -> Result<Tensor> {
    ops::view_as_complex(a)
}
/// Two dimensions exchanged.
pub fn transpose(a: &Tensor, d0: i64, d1: i64) -> Result<Tensor> {
    ops::transpose(a, d0, d1)
}
/// Dimensions in another order.
pub fn permute(a: &Tensor, dims: &[i64]) -> Result<Tensor> {
    ops::permute(a, dims)
}
/// A dimension of size 1 put in.
pub fn unsqueeze(a: &Tensor, dim: i64) -> Result<Tensor> {
    ops::unsqueeze(a, dim)
}
/// A dimension of size 1 taken out.
pub fn squeeze_dim(a: &Tensor, dim: i64) -> Result<Tensor> {
    ops::squeeze_dim(a, dim)
}
/// Part of a dimension.
pub fn slice(a: &Tensor, dim: i64, start: i64, end: i64, step: i64) -> Result<Tensor> {
    ops::slice(a, dim, Some(start), Some(end), step)
}
/// One place of a dimension.
pub fn select(a: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    ops::select(a, dim, index)
}
/// Explicit geometry.
pub fn as_strided(a: &Tensor, sizes: &[i64], strides: &[i64], offset: i64) -> Result<Tensor> {
    ops::as_strided(a, sizes, strides, Some(offset))
}

/// Sum over all elements.
pub fn sum_all(a: &Tensor) -> Result<Tensor> {
    ops::sum(a, None, false, None)
}
/// Sum over dims.
pub fn sum_dims(a: &Tensor, dims: &[i64], keepdim: bool) -> Result<Tensor> {
    ops::sum(a, Some(dims), keepdim, None)
}
/// Whether a tensor of sizes `from` broadcasts to `to`.
pub fn expands_to(from: &[i64], to: &[i64]) -> bool {
    from.len() <= to.len() && from.iter().rev().zip(to.iter().rev()).all(|(f, t)| f == t || *f == 1)
}
/// Sums what was broadcast from `sizes`.
pub fn sum_to(a: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    if a.sizes() == sizes {
        return Ok(a.clone());
    }
    let extra = a.dim().saturating_sub(sizes.len());
    let dims: SizeVec = (0..a.dim())
        .filter(|&d| d < extra || (sizes[d - extra] == 1 && a.sizes()[d] != 1))
        .map(|d| d as i64)
        .collect();
    let s = if dims.is_empty() { a.clone() } else { sum_dims(a, &dims, true)? };
    reshape(&s, sizes)
}
/// [`sum_to`] under PyTorch's name.
pub fn sum_to_size(a: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    sum_to(a, sizes)
}
/// The gradient of an operator that has none in PyTorch either, but whose results are part of the graph: an error when
/// backward comes to it, never a gradient lost in silence.
pub fn no_derivative(op: &str) -> Result<Tensor> {
    Err(Error::unsupported(format!("derivative for {op} is not implemented")))
}
/// The same for one argument of an operator that has gradients for others.
pub fn no_derivative_for(argument: &str) -> Result<Tensor> {
    Err(Error::unsupported(format!("the derivative for '{argument}' is not implemented.")))
}
/// A gradient that PyTorch has and Flambeau has not.
pub fn missing_derivative(op: &str) -> Result<Tensor> {
    Err(Error::missing(format!("the derivative for '{op}' is not implemented.")))
}
/// Whether any element is NaN.
pub fn has_nan(a: &Tensor) -> Result<bool> {
    let equal: i64 = sum_all(&eq(a, a)?)?.try_item()?;
    Ok(equal != a.numel())
}
/// Undoes a reduction's loss of dimensions: `grad` with ones where `dim` were.
pub fn unreduce(grad: &Tensor, sizes: &[i64], dim: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    let dims = match dim {
        Some(d) if !d.is_empty() => geometry::wrap_dims(d, sizes.len())?,
        _ => (0..sizes.len()).collect(),
    };
    if keepdim || sizes.is_empty() {
        return Ok(grad.clone());
    }
    let shape: SizeVec = (0..sizes.len()).map(|i| if dims.contains(&i) { 1 } else { sizes[i] }).collect();
    reshape(grad, &shape)
}
