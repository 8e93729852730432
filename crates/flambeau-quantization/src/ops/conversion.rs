//! Numbers to integers that stand for them, and back.

use crate::tensor::{
    by_channel, cast, choose, could_not_run, dense, expected, extremes, quantized, quantized_by_channel,
    uniform, wrap,
};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::ops::quantize::dequantized;
use flambeau_core::tensor::quantized::Quantizer;
use flambeau_core::{DType, Error, MemoryFormat, Result, Tensor, ensure, ops};
use flambeau_cpu::quantize as cpu;

fn plain(t: &Tensor, name: &str) -> Result<()> {
    if t.quantizer().is_some() {
        return Err(could_not_run(name, "QuantizedCPU"));
    }
    Ok(())
}
/// `torch.quantize_per_tensor`
pub fn quantize_per_tensor(self_: &Tensor, scale: f64, zero_point: i64, dtype: DType) -> Result<Tensor> {
    plain(self_, "quantize_per_tensor")?;
    quantized(self_, dtype, scale, zero_point)
}
/// `torch.quantize_per_tensor` with parameters in tensors.
pub fn quantize_per_tensor_by(
    self_: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    dtype: DType,
) -> Result<Tensor> {
    plain(self_, "quantize_per_tensor.tensor_qparams")?;
    quantized(self_, dtype, scale.try_item()?, zero_point.try_item()?)
}
/// `torch.quantize_per_tensor` of a list.
pub fn quantize_all_per_tensor(
    tensors: &[Tensor],
    scales: &Tensor,
    zero_points: &Tensor,
    dtype: DType,
) -> Result<Vec<Tensor>> {
    let (s, z) = (scales.try_to_vec::<f64>()?, zero_points.try_to_vec::<i64>()?);
    ensure!(
        s.len() >= tensors.len() && z.len() >= tensors.len(),
        Index,
        "{} tensors need as many scales and zero points",
        tensors.len()
    );
    tensors.iter().zip(s.iter().zip(&z)).map(|(t, (s, z))| ops_quantize(t, *s, *z, dtype)).collect()
}
fn ops_quantize(t: &Tensor, scale: f64, zero: i64, d: DType) -> Result<Tensor> {
    crate::ops::quantize_per_tensor(t, scale, zero, d)
}
/// `torch.quantize_per_channel`
pub fn quantize_per_channel(
    self_: &Tensor,
    scales: &Tensor,
    zero_points: &Tensor,
    axis: i64,
    dtype: DType,
) -> Result<Tensor> {
    plain(self_, "quantize_per_channel")?;
    quantized_by_channel(self_, scales, zero_points, axis, dtype)
}
/// `torch.quantize_per_tensor_dynamic`
pub fn quantize_per_tensor_dynamic(self_: &Tensor, dtype: DType, reduce_range: bool) -> Result<Tensor> {
    plain(self_, "quantize_per_tensor_dynamic")?;
    if dtype == DType::F16 {
        return cast(self_, dtype);
    }
    let (low, high) = match dtype {
        DType::QU8 => (0, 255),
        DType::QI8 => (-128, 127),
        d => return Err(Error::runtime(format!("dtype {}not supported", d.scalar_type_name()))),
    };
    ensure!(
        self_.dtype() == DType::F32,
        Runtime,
        "Quantize only works on Float Tensor, got {}",
        self_.dtype().scalar_type_name()
    );
    let half = if reduce_range { 2 } else { 1 };
    let (scale, zero) = choose(extremes(self_)?, (low / half, high / half), false);
    quantized(self_, dtype, scale, zero)
}
/// `torch.dequantize`
pub fn dequantize(self_: &Tensor) -> Result<Tensor> {
    match self_.quantizer().as_deref() {
        Some(Quantizer::PerTensor { scale, zero_point }) if self_.dtype().per_byte() == 1 => {
            fast(self_, *scale as f32, *zero_point as i32)
        }
        Some(_) => dequantized(self_),
        None => cast(self_, DType::F32),
    }
}
fn fast(t: &Tensor, scale: f32, zero: i32) -> Result<Tensor> {
    let q = dense(&t.integers()?)?;
    let flat = Tensor::from_storage(q.storage(), &[q.numel()], &[1], q.storage_offset(), q.dtype())?;
    let mut out = vec![0f32; q.numel() as usize];
    match q.dtype() {
        DType::U8 => cpu::dequantize(&flat.try_data::<u8>()?, &mut out, scale, zero),
        DType::I8 => cpu::dequantize(&flat.try_data::<i8>()?, &mut out, scale, zero),
        _ => cpu::dequantize(&flat.try_data::<i32>()?, &mut out, scale, zero),
    }
    let out = Tensor::from_vec_raw(out, &[q.numel()])?;
    Tensor::from_storage(out.storage(), q.sizes(), q.strides(), 0, DType::F32)
}
/// `torch.dequantize` of a list.
pub fn dequantize_all(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    tensors.iter().map(crate::ops::dequantize).collect()
}
/// `torch.Tensor.int_repr`
pub fn int_repr(self_: &Tensor) -> Result<Tensor> {
    if self_.quantizer().is_none() {
        return Err(could_not_run("int_repr", backend(self_)));
    }
    let q = self_.integers()?;
    ops::clone(&q, Some(MemoryFormat::Preserve))
}
pub(super) fn backend(t: &Tensor) -> &'static str {
    if t.device() == flambeau_core::Device::Meta { "Meta" } else { "CPU" }
}
fn dtype_of(t: &Tensor) -> Result<DType> {
    match t.dtype() {
        DType::U8 => Ok(DType::QU8),
        DType::I8 => Ok(DType::QI8),
        DType::I32 => Ok(DType::QI32),
        _ => Err(expected("toQIntType(self.scalar_type())")),
    }
}
fn copied(t: &Tensor) -> Result<Tensor> {
    ops::clone(&ops::contiguous(t, crate::tensor::suggested(t))?, Some(MemoryFormat::Preserve))
}
/// `torch._make_per_tensor_quantized_tensor`
pub fn make_per_tensor_quantized_tensor(self_: &Tensor, scale: f64, zero_point: i64) -> Result<Tensor> {
    let d = dtype_of(self_)?;
    wrap(&copied(&self_.alias_detached())?, d, &uniform(scale, zero_point))
}
/// `torch._make_per_channel_quantized_tensor`
pub fn make_per_channel_quantized_tensor(
    self_: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    axis: i64,
) -> Result<Tensor> {
    let d = dtype_of(self_)?;
    let q = by_channel(scale, zero_point, axis)?;
    wrap(&copied(&self_.alias_detached())?, d, &q)
}
