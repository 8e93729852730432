//! Rounding to what quantized numbers can hold, with numbers that stay floats.

use crate::tensor::geometry::SizeVec;
use crate::tensor::handle::Tensor;
use crate::tensor::quantized::Quantizer;
use crate::tensor::wrapped_number::wrapped_number;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
use crate::{DType, ensure, ops};

/// The elements of a dtype that has several in a byte, one in each byte, as an ordinary tensor of uint8.
pub fn unpacked(t: &Tensor) -> Result<Tensor> {
    let per = t.dtype().per_byte();
    let bytes = t.integers()?;
    if per == 1 {
        return Ok(bytes);
    }
    let n = t.numel() as usize;
    let (bits, packed) = (8 / per, bytes.try_to_vec::<u8>()?);
    let mask = ((1u16 << bits) - 1) as u8;
    let one = |i: usize| packed.get(i / per).map_or(0, |b| b >> (i % per * bits) & mask);
    Tensor::from_vec_raw((0..n).map(one).collect::<Vec<u8>>(), t.sizes())
}
/// The numbers that a quantized tensor stands for, in float32.
///
/// # Errors
/// The tensor is not quantized.
pub fn dequantized(t: &Tensor) -> Result<Tensor> {
    let Some(q) = t.quantizer() else {
        return Err(Error::runtime("the tensor is not quantized"));
    };
    let cast = |t: &Tensor, d| ops::to(t, Some(d), None, None, None, false, false, None);
    let whole = cast(&unpacked(t)?, DType::I32)?;
    match &*q {
        Quantizer::PerTensor { scale, zero_point } => {
            let x = cast(
                &ops::sub(&whole, &wrapped_number(Scalar::Int(*zero_point))?, Scalar::Int(1))?,
                DType::F32,
            )?;
            ops::mul(&x, &number(f64::from(*scale as f32))?)
        }
        Quantizer::PerChannel { scales, zero_points, axis } => {
            let mut shape = SizeVec::from_elem(1, t.dim());
            ensure!(
                usize::try_from(*axis).is_ok_and(|a| a < t.dim()),
                Runtime,
                "Channel axis out of range in per channel affine dequantization. Got: {axis}Expected: [0, {})",
                t.dim()
            );
            shape[*axis as usize] = -1;
            let along = |t: &Tensor| ops::reshape(t, &shape);
            let scales = along(&cast(scales, DType::F32)?)?;
            if zero_points.dtype().is_floating() {
                let x = ops::sub(&cast(&whole, DType::F32)?, &along(zero_points)?, Scalar::Int(1))?;
                return ops::mul(&x, &scales);
            }
            let zero = along(&cast(zero_points, DType::I32)?)?;
            ops::mul(&cast(&ops::sub(&whole, &zero, Scalar::Int(1))?, DType::F32)?, &scales)
        }
    }
}

fn number(v: f64) -> Result<Tensor> {
    wrapped_number(Scalar::Float(v))
}
fn check_range(quant_min: i64, quant_max: i64) -> Result<()> {
    ensure!(
        quant_min <= quant_max,
        Runtime,
        "`quant_min` should be less than or         equal to `quant_max`."
    );
    Ok(())
}
const ZERO_POINT: &str = "`zero_point` must be between `quant_min` and `quant_max`.";

/// Halves are computed with in float32.
fn wide(x: &Tensor) -> Result<Tensor> {
    let d = if matches!(x.dtype(), DType::F16 | DType::BF16) { DType::F32 } else { x.dtype() };
    ops::to(x, Some(d), None, None, None, false, false, None)
}
/// Integers as floats, back to numbers, and which integers were in the range; those that are no number become the least.
fn rounded(
    x: &Tensor,
    q: &Tensor,
    scale: &Tensor,
    zero: &Tensor,
    low: i64,
    high: i64,
) -> Result<(Tensor, Tensor)> {
    let (a, b) = (number(low as f64)?, number(high as f64)?);
    let mask = ops::logical_and(&ops::ge(q, &a)?, &ops::le(q, &b)?)?;
    let (a, b) = (Scalar::Float(low as f64), Scalar::Float(high as f64));
    let kept = ops::clamp(&ops::where_(&ops::isnan(q)?, &number(low as f64)?, q)?, Some(a), Some(b))?;
    let y = ops::mul(&ops::sub(&kept, zero, Scalar::Int(1))?, scale)?;
    Ok((ops::to(&y, Some(x.dtype()), None, None, None, false, false, None)?, mask))
}

/// `fake_quantize_per_tensor_affine_cachemask`
pub fn fake_quantize_per_tensor_affine_cachemask(
    self_: &Tensor,
    scale: f64,
    zero_point: i64,
    quant_min: i64,
    quant_max: i64,
) -> Result<(Tensor, Tensor)> {
    check_range(quant_min, quant_max)?;
    ensure!((quant_min..=quant_max).contains(&zero_point), Runtime, "{ZERO_POINT}");
    if !self_.dtype().is_floating() {
        return Err(Error::not_implemented_for(
            "fake_quantize_tensor_cachemask_kernel_type_handling",
            self_.dtype(),
        ));
    }
    let x = wide(&self_.alias_detached())?;
    // scale and its inverse are numbers of float32
    let scale = scale as f32;
    let zero = number(zero_point as f64)?;
    let q = ops::round(&ops::mul(&x, &number(f64::from(1.0 / scale))?)?)?;
    let q = ops::add(&q, &zero, Scalar::Int(1))?;
    rounded(self_, &q, &number(f64::from(scale))?, &zero, quant_min, quant_max)
}
/// `fake_quantize_per_tensor_affine`
pub fn fake_quantize_per_tensor_affine(
    self_: &Tensor,
    scale: f64,
    zero_point: i64,
    quant_min: i64,
    quant_max: i64,
) -> Result<Tensor> {
    Ok(ops::fake_quantize_per_tensor_affine_cachemask(self_, scale, zero_point, quant_min, quant_max)?.0)
}
/// `fake_quantize_per_tensor_affine.tensor_qparams`
pub fn fake_quantize_per_tensor_affine_by(
    self_: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    quant_min: i64,
    quant_max: i64,
) -> Result<Tensor> {
    let (scale, zero) = (scale.alias_detached(), zero_point.alias_detached());
    ops::fake_quantize_per_tensor_affine(self_, scale.try_item()?, zero.try_item()?, quant_min, quant_max)
}

/// `fake_quantize_per_channel_affine_cachemask`
pub fn fake_quantize_per_channel_affine_cachemask(
    self_: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    axis: i64,
    quant_min: i64,
    quant_max: i64,
) -> Result<(Tensor, Tensor)> {
    let rank = self_.dim() as i64;
    ensure!(
        matches!(scale.dtype(), DType::F32 | DType::BF16),
        Runtime,
        "Scale must be Float or BFloat16, found {}",
        scale.dtype().scalar_type_name()
    );
    ensure!(
        matches!(zero_point.dtype(), DType::I32 | DType::F32 | DType::F16),
        Runtime,
        "Zero-point must be Int32, Float or Half, found {}",
        zero_point.dtype().scalar_type_name()
    );
    ensure!(scale.dim() == 1, Runtime, "scale should be a 1-D tensor");
    ensure!(zero_point.dim() == 1, Runtime, "zero point should be a 1-D tensor");
    ensure!(
        scale.numel() == zero_point.numel(),
        Runtime,
        "scale and zero-point need to have the same dimensions"
    );
    let d = crate::tensor::geometry::wrap_dim_strict(axis, self_.dim())?;
    ensure!(
        scale.numel() == self_.sizes()[d],
        Runtime,
        "dimensions of scale and zero-point are not consistent with input tensor"
    );
    check_range(quant_min, quant_max)?;
    let zero = zero_point.alias_detached();
    let inside = zero.try_to_vec::<f64>()?.iter().all(|z| (quant_min as f64..=quant_max as f64).contains(z));
    ensure!(inside || zero_point.dtype() != DType::I32, Runtime, "{ZERO_POINT}");
    ensure!(
        (0..=rank).contains(&axis),
        Runtime,
        "`axis` must be between 0 and number of dimensions of input"
    );
    if !self_.dtype().is_floating() {
        return Err(Error::not_implemented_for(
            "fake_quantize_channel_cachemask_cpu_type_handling",
            self_.dtype(),
        ));
    }
    let mut shape = SizeVec::from_elem(1, self_.dim());
    shape[d] = -1;
    let along = |t: &Tensor| {
        let t = ops::to(t, Some(DType::F32), None, None, None, false, false, None)?;
        ops::reshape(&t, &shape)
    };
    let whole = zero.dtype() == DType::I32;
    let (scale, zero) = (along(&scale.alias_detached())?, along(&zero)?);
    let x = ops::mul(&wide(&self_.alias_detached())?, &ops::reciprocal(&scale)?)?;
    // fractional zero points are added before rounding, whole ones after
    let q = if whole {
        ops::add(&ops::round(&x)?, &zero, Scalar::Int(1))?
    } else {
        ops::round(&ops::add(&x, &zero, Scalar::Int(1))?)?
    };
    rounded(self_, &q, &scale, &zero, quant_min, quant_max)
}
/// `fake_quantize_per_channel_affine`
pub fn fake_quantize_per_channel_affine(
    self_: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    axis: i64,
    quant_min: i64,
    quant_max: i64,
) -> Result<Tensor> {
    let (scale, zero) = (scale.alias_detached(), zero_point.alias_detached());
    Ok(ops::fake_quantize_per_channel_affine_cachemask(self_, &scale, &zero, axis, quant_min, quant_max)?.0)
}
