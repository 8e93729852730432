//! What several families share.

use flambeau_core::tensor::geometry::{self, SizeVec};
use flambeau_core::{DType, Device, Error, MemoryFormat, Result, Tensor, bail, ops};

/// The same values in row-major memory without lazy bits: the tensor itself if it is so already.
pub(crate) fn plain(t: &Tensor) -> Result<Tensor> {
    let t = resolved(t)?;
    if t.is_contiguous() { Ok(t) } else { ops::contiguous(&t, MemoryFormat::Contiguous) }
}
/// [`plain`] of an optional tensor.
pub(crate) fn plain_opt(t: Option<&Tensor>) -> Result<Option<Tensor>> {
    t.map(plain).transpose()
}
/// Without lazy bits.
pub(crate) fn resolved(t: &Tensor) -> Result<Tensor> {
    let t = if t.is_conj() { ops::resolve_conj(t)? } else { t.clone() };
    if t.is_neg() { ops::resolve_neg(&t) } else { Ok(t) }
}
/// The kernel's answer, or "not implemented for".
pub(crate) fn done<T>(r: Option<T>, label: &str, dtype: DType) -> Result<T> {
    r.ok_or_else(|| Error::not_implemented_for(label, dtype))
}
/// Sizes as kernels take them.
pub(crate) fn us(v: &[i64]) -> SmallUs {
    v.iter().map(|d| *d as usize).collect()
}
/// Sizes of kernels.
pub(crate) type SmallUs = smallvec::SmallVec<[usize; 5]>;

/// A C++ type's name, as some messages give it.
pub(crate) fn cpp_type(d: DType) -> &'static str {
    match d {
        DType::U8 => "unsigned char",
        DType::I8 => "signed char",
        DType::I16 => "short int",
        DType::I32 => "int",
        DType::I64 => "long int",
        DType::F16 => "c10::Half",
        DType::BF16 => "c10::BFloat16",
        DType::F32 => "float",
        DType::F64 => "double",
        DType::C64 => "c10::complex<float>",
        DType::C128 => "c10::complex<double>",
        DType::Bool => "bool",
        other => other.scalar_type_name(),
    }
}

/// `v` with one entry per spatial dimension: a single one counts for all.
pub(crate) fn per_dim(v: &[i64], n: usize, op: &str, what: &str) -> Result<SizeVec> {
    match v.len() {
        l if l == n => Ok(SizeVec::from_slice(v)),
        1 => Ok(SizeVec::from_elem(v[0], n)),
        _ => bail!(Runtime, "{op}: {what} must either be a single int, or a tuple of {n} ints"),
    }
}

/// `[1, 2]` in the form `torch.Size([1, 2])`.
pub(crate) fn torch_size(sizes: &[i64]) -> String {
    format!("torch.Size({})", geometry::fmt_sizes(sizes))
}

/// The dtype of statistics: f32 for halves.
pub(crate) fn wide(d: DType) -> DType {
    if matches!(d, DType::F16 | DType::BF16) { DType::F32 } else { d }
}
/// The same values in another dtype.
pub(crate) fn cast(t: &Tensor, d: DType) -> Result<Tensor> {
    if t.dtype() == d { Ok(t.clone()) } else { ops::to_copy(t, Some(d), None, None, None, false, None) }
}
/// A number as a tensor that type promotion treats as a Python number.
pub(crate) use flambeau_autograd::shorthand::number;
/// A constant, made on the CPU, for tensors on device `d`: on meta its sizes alone.
pub(crate) fn on(t: Tensor, d: Device) -> Result<Tensor> {
    flambeau_core::backend::transfer::to_device(t, d)
}
