//! Quantized tensors from integers and back: what the kernels of this crate are made of.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::quantized::{QScheme, Quantizer};
use flambeau_core::tensor::wrapped_number::wrapped_number;
use flambeau_core::{DType, Device, Error, MemoryFormat, Result, Scalar, Tensor, ensure, ops};
use flambeau_cpu::quantize as cpu;
use std::sync::Arc;

/// "Could not run 'aten::NAME' with arguments from the 'CPU' backend."
#[cold]
pub(crate) fn could_not_run(name: &str, backend: &str) -> Error {
    Error::unsupported(format!(
        "Could not run 'aten::{name}' with arguments from the '{backend}' backend. This could be because the operator doesn't \
         exist for this backend, or was omitted during the selective/custom build process."
    ))
}
/// What PyTorch says of a check without words of its own.
#[cold]
pub(crate) fn expected(what: &str) -> Error {
    Error::runtime(format!(
        "Expected {what} to be true, but got false.  (Could this error message be improved?  If so, please report an \
         enhancement request to PyTorch.)"
    ))
}
/// The rule of a tensor that must be quantized for an operator of that name.
pub(crate) fn rule(t: &Tensor, name: &str) -> Result<Arc<Quantizer>> {
    t.quantizer().ok_or_else(|| could_not_run(name, if t.device() == Device::Cpu { "CPU" } else { "Meta" }))
}
/// Scale and zero point of a tensor with one of each.
///
/// # Errors
/// Tensors that are not quantized, or by channel.
pub(crate) fn affine(t: &Tensor) -> Result<(f64, i64)> {
    match &*rule(t, "q_scale")? {
        Quantizer::PerTensor { scale, zero_point } => Ok((*scale, *zero_point)),
        Quantizer::PerChannel { .. } => Err(expected("quantizer->qscheme() == kPerTensorAffine")),
    }
}
/// One scale and zero point for a whole tensor.
pub(crate) fn uniform(scale: f64, zero_point: i64) -> Arc<Quantizer> {
    Arc::new(Quantizer::PerTensor { scale, zero_point })
}
/// The dtype cast.
pub(crate) fn cast(t: &Tensor, d: DType) -> Result<Tensor> {
    ops::to(t, Some(d), None, None, None, false, false, None)
}
/// A number as an operand.
pub(crate) fn number(v: f64) -> Result<Tensor> {
    wrapped_number(Scalar::Float(v))
}
/// A whole number as an operand.
pub(crate) fn whole(v: i64) -> Result<Tensor> {
    wrapped_number(Scalar::Int(v))
}
/// Row-major or channels last without gaps, as the tensor itself suggests.
pub(crate) fn dense(t: &Tensor) -> Result<Tensor> {
    ops::contiguous(t, suggested(t))
}
/// Channels last where the strides say so.
pub(crate) fn suggested(t: &Tensor) -> MemoryFormat {
    let last = [MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d];
    let rank = [4, 5];
    let found = last
        .iter()
        .zip(rank)
        .find(|(f, r)| t.dim() == *r && !t.is_contiguous() && t.is_contiguous_format(**f));
    found.map_or(MemoryFormat::Contiguous, |(f, _)| *f)
}
/// The quantized tensor of these integers, which it shares, by a rule.
pub(crate) fn wrap(integers: &Tensor, dtype: DType, rule: &Arc<Quantizer>) -> Result<Tensor> {
    Tensor::from_integers(integers, integers.sizes(), dtype, rule.clone())
}
/// A tensor of what `f` makes of a quantized one's integers, by the same rule.
pub(crate) fn mapped(t: &Tensor, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    rewrapped(t, f(&integers_of(t)?))
}
fn integers_of(t: &Tensor) -> Result<Tensor> {
    if t.quantizer().is_none() {
        return Err(could_not_run("int_repr", "CPU"));
    }
    t.integers()
}
fn rewrapped(t: &Tensor, integers: Result<Tensor>) -> Result<Tensor> {
    let integers = integers?;
    let Some(q) = t.quantizer() else { return Err(could_not_run("int_repr", "CPU")) };
    wrap(&integers, t.dtype(), &q)
}
/// Only one scale will do.
pub(crate) fn uniform_only(t: &Tensor, name: &str) -> Result<()> {
    let one = t.quantizer().is_none_or(|q| q.scheme() == QScheme::PerTensorAffine);
    ensure!(one, Runtime, "Only per-tensor quantization is supported in '{name}'!");
    Ok(())
}

fn float_input(t: &Tensor) -> Result<()> {
    ensure!(
        t.dtype() == DType::F32,
        Runtime,
        "Quantize only works on Float Tensor, got {}",
        t.dtype().scalar_type_name()
    );
    Ok(())
}
fn range(d: DType) -> Result<(i64, i64)> {
    d.quantized_range().ok_or_else(|| {
        Error::runtime(format!("ScalarType {} is not supported in new_qtensor.", d.scalar_type_name()))
    })
}
fn check_zero(name: &str, zero: i64, (low, high): (i64, i64)) -> Result<()> {
    ensure!(zero <= high, Runtime, "{name} zero_point {zero} is above upper bound.");
    ensure!(zero >= low, Runtime, "{name} zero_point {zero} is below lower bound.");
    Ok(())
}
/// The elements of a dense tensor in the order of its memory, as one dimension.
fn in_memory_order(t: &Tensor) -> Result<Tensor> {
    Tensor::from_storage(t.storage(), &[t.numel()], &[1], t.storage_offset(), t.dtype())
}
/// The integers of numbers, one rule for all: in the memory order of `x`.
pub(crate) fn rounded(x: &Tensor, d: DType, scale: f64, zero: i64) -> Result<Tensor> {
    let x = dense(&x.alias_detached())?;
    let (low, high) = range(d)?;
    let scale = scale as f32;
    let rule = cpu::Rule { inverse: 1.0 / scale, zero: zero as i32, low: low as i32, high: high as i32 };
    let flat = in_memory_order(&x)?;
    let numbers = flat.try_elements::<f32>()?;
    let n = numbers.len();
    let out = match d.integers() {
        Some(DType::U8) => {
            let mut v = vec![0u8; n];
            cpu::quantize(&numbers, &mut v, rule);
            Tensor::from_vec_raw(v, &[n as i64])?
        }
        Some(DType::I8) => {
            let mut v = vec![0i8; n];
            cpu::quantize(&numbers, &mut v, rule);
            Tensor::from_vec_raw(v, &[n as i64])?
        }
        _ => {
            let mut v = vec![0i32; n];
            cpu::quantize(&numbers, &mut v, rule);
            Tensor::from_vec_raw(v, &[n as i64])?
        }
    };
    Tensor::from_storage(out.storage(), x.sizes(), x.strides(), 0, out.dtype())
}
/// `torch.quantize_per_tensor`
pub(crate) fn quantized(x: &Tensor, d: DType, scale: f64, zero: i64) -> Result<Tensor> {
    float_input(x)?;
    let (low, high) = range(d)?;
    ensure!(d.per_byte() == 1, Missing, "{d} with one scale for the whole tensor");
    check_zero("quantize_tensor_per_tensor_affine", zero, (low, high))?;
    wrap(&rounded(x, d, scale, zero)?, d, &uniform(scale, zero))
}
/// The rule of a tensor by channels, as PyTorch keeps it: float64 and int64, or float32 where zero points are floats.
pub(crate) fn by_channel(scales: &Tensor, zeros: &Tensor, axis: i64) -> Result<Arc<Quantizer>> {
    ensure!(scales.dim() == 1, Runtime, "scale tensor must have dimension 1");
    ensure!(zeros.dim() == 1, Runtime, "zero_points tensor must have dimension 1");
    ensure!(
        scales.numel() == zeros.numel(),
        Runtime,
        "number of elements in scales and zero_points must match"
    );
    let floats = zeros.dtype().is_floating();
    let (s, z) = if floats { (DType::F32, DType::F32) } else { (DType::F64, DType::I64) };
    let own = |t: &Tensor, d| ops::contiguous(&cast(&t.alias_detached(), d)?, MemoryFormat::Contiguous);
    Ok(Arc::new(Quantizer::PerChannel { scales: own(scales, s)?, zero_points: own(zeros, z)?, axis }))
}
/// `torch.quantize_per_channel`
pub(crate) fn quantized_by_channel(
    x: &Tensor,
    scales: &Tensor,
    zeros: &Tensor,
    axis: i64,
    d: DType,
) -> Result<Tensor> {
    let q = by_channel(scales, zeros, axis)?;
    let Quantizer::PerChannel { scales, zero_points, .. } = &*q else {
        return Err(Error::runtime("parameters by channel are expected"));
    };
    let floats = zero_points.dtype().is_floating();
    if floats {
        float_input(x)?;
    }
    let (low, high) = range(d)?;
    ensure!(
        x.dtype() == DType::F32,
        Runtime,
        "quantize_tensor_per_channel_affine expects a Float Tensor, got {}",
        x.dtype().scalar_type_name()
    );
    ensure!(d.per_byte() == 1 || floats, Missing, "{d} with whole zero points");
    if !floats {
        for z in zero_points.try_to_vec::<i64>()? {
            check_zero("quantize_tensor_per_channel_affine", z, (low, high))?;
        }
    }
    ensure!(
        (0..x.dim() as i64).contains(&axis),
        Runtime,
        "Channel axis out of range in per channel {}affine quantization. Got: {axis}Expected: [0, {})",
        if floats { "float qparams " } else { "" },
        x.dim()
    );
    let channels = x.sizes()[axis as usize];
    for (name, n) in [("scales", scales.numel()), ("zero_points", zero_points.numel())] {
        ensure!(
            channels == n,
            Runtime,
            "length of {name} must equal to channel, expected {channels} got, {n}"
        );
    }
    let mut shape = vec![1; x.dim()];
    shape[axis as usize] = -1;
    let along = |t: &Tensor| ops::reshape(&cast(t, DType::F32)?, &shape);
    let s = along(scales)?;
    let inverse = ops::div(&number(1.0)?, &s)?;
    let inverse = ops::where_(&ops::eq(&s, &number(0.0)?)?, &number(1.0)?, &inverse)?;
    let x = dense(&x.alias_detached())?;
    let v = ops::mul(&x, &inverse)?;
    let v = if floats {
        ops::round(&ops::add(&v, &along(zero_points)?, Scalar::Int(1))?)?
    } else {
        // in float64, which holds every integer of 32 bits
        let zeros = ops::reshape(&cast(zero_points, DType::F64)?, &shape)?;
        ops::add(&cast(&ops::round(&v)?, DType::F64)?, &zeros, Scalar::Int(1))?
    };
    let top = ops::where_(&ops::isnan(&v)?, &number(high as f64)?, &v)?;
    let kept = ops::clamp(&top, Some(Scalar::Float(low as f64)), Some(Scalar::Float(high as f64)))?;
    let integers = cast(&kept, d.integers().unwrap_or(DType::U8))?;
    if d.per_byte() == 1 {
        return wrap(&dense(&integers)?, d, &q);
    }
    Tensor::from_integers(&packed(&integers, d)?, x.sizes(), d, q.clone())
}
/// Integers of less than a byte, several in each.
pub(crate) fn packed(integers: &Tensor, d: DType) -> Result<Tensor> {
    let (per, v) = (d.per_byte(), integers.try_to_vec::<u8>()?);
    let bits = 8 / per;
    let byte = |c: &[u8]| c.iter().enumerate().fold(0u8, |b, (i, v)| b | v << (i * bits));
    let bytes: Vec<u8> = v.chunks(per).map(byte).collect();
    let n = bytes.len() as i64;
    Tensor::from_vec_raw(bytes, &[n])
}
/// Scale and zero point for numbers between two, which zero joins, as PyTorch's kernels choose them.
pub(crate) fn choose(
    (mut min, mut max): (f32, f32),
    (low, high): (i32, i32),
    preserve_sparsity: bool,
) -> (f64, i64) {
    // the range takes zero in, so that zero is exact
    if min < 0.0 && max > 0.0 && preserve_sparsity {
        let (qmin, qmax) = (-((high - low) / 2 + 1), (high - low) / 2);
        let (a, b) = ((f64::from(min) / f64::from(qmin)).abs(), (f64::from(max) / f64::from(qmax)).abs());
        let s = a.max(b);
        min = (s * f64::from(qmin)) as f32;
        max = (s * f64::from(qmax)) as f32;
    }
    min = min.min(0.0);
    max = max.max(0.0);
    let mut scale = (f64::from(max) - f64::from(min)) / f64::from(high - low);
    if scale as f32 == 0.0 || (1.0 / scale as f32).is_infinite() {
        scale = 0.1;
    }
    const LEAST: f64 = 6.1e-5f32 as f64;
    if scale < LEAST {
        let old = scale as f32;
        scale = LEAST;
        if min == 0.0 {
            max = (LEAST * f64::from(high - low)) as f32;
        } else if max == 0.0 {
            min = -(LEAST * f64::from(high - low)) as f32;
        } else {
            let grow = LEAST as f32 / old;
            min *= grow;
            max *= grow;
        }
    }
    let from_min = f64::from(low) - f64::from(min) / scale;
    let from_max = f64::from(high) - f64::from(max) / scale;
    let error_min = f64::from(low).abs() + (f64::from(min) / scale).abs();
    let error_max = f64::from(high).abs() + (f64::from(max) / scale).abs();
    let mut zero = if error_min < error_max { from_min } else { from_max };
    if min < 0.0 && max > 0.0 && preserve_sparsity {
        zero = f64::from(low + high) / 2.0;
    }
    let zero = if zero < f64::from(low) {
        i64::from(low)
    } else if zero > f64::from(high) {
        i64::from(high)
    } else {
        zero.round_ties_even() as i64
    };
    (scale, zero)
}
/// The least and the greatest element, or zeros.
pub(crate) fn extremes(x: &Tensor) -> Result<(f32, f32)> {
    if x.numel() == 0 {
        return Ok((0.0, 0.0));
    }
    let (a, b) = ops::aminmax(&x.alias_detached(), None, false)?;
    Ok((a.try_item::<f32>()?, b.try_item::<f32>()?))
}
