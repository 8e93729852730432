//! Copies and casts.

use crate::iter::{self, check_no_internal_overlap};
use crate::tensor::geometry::{self, SizeVec};
use crate::tensor::handle::{LazyBits, Tensor};
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::layout::{Layout, MemoryFormat};
use crate::{DType, ops};
use flambeau_cpu::copy::cast::cast_loop;
use std::borrow::Cow;

/// Writes `src`, broadcast and cast, into `dst`. No gradient, no dispatch: what kernels use.
pub(crate) fn copy_into(dst: &Tensor, src: &Tensor) -> Result<()> {
    if src.device() == Device::Meta && dst.device() != Device::Meta {
        return Err(Error::unsupported("Cannot copy out of meta tensor; no data!"));
    }
    if dst.device() == Device::Meta || dst.numel() == 0 {
        return Ok(());
    }
    if dst.device() != Device::Cpu || src.device() != Device::Cpu {
        return Err(Error::missing(format!("copy from {} to {}", src.device(), dst.device())));
    }
    let mut src = Cow::Borrowed(src);
    if dst.lazy_bits() != src.lazy_bits() {
        // write through the lazy bits: the plain memory of dst gets the value with dst's bits applied
        let mut v = resolve_lazy(&src)?;
        // truth values and the like have no sign: it is turned in the dtype that is written
        if v.dtype() != dst.dtype() && (dst.is_neg() || dst.is_conj()) {
            v = cast_to(&v, dst.dtype())?;
        }
        if dst.is_neg() {
            v = iter::pointwise(&NEG, &[&v], &[])?;
        }
        if dst.is_conj() {
            v = iter::pointwise(&CONJ, &[&v], &[])?;
        }
        src = Cow::Owned(v);
    }
    if src.storage().same(dst.storage()) {
        if src.sizes() == dst.sizes()
            && src.strides() == dst.strides()
            && src.storage_offset() == dst.storage_offset()
            && src.dtype() == dst.dtype()
        {
            return Ok(());
        }
        src = Cow::Owned(fresh_copy(&src, src.dtype())?);
    }
    let run = cast_loop(src.dtype(), dst.dtype()).ok_or_else(|| {
        Error::unsupported(format!(
            "\"copy_kernel\" not implemented for '{}'",
            if src.dtype().is_quantized() { src.dtype() } else { dst.dtype() }.scalar_type_name()
        ))
    })?;
    let bits = LazyBits::default();
    let plain = |t: &Tensor| -> Result<Tensor> {
        t.view_typed(
            SizeVec::from_slice(t.sizes()),
            SizeVec::from_slice(t.strides()),
            t.storage_offset(),
            t.dtype(),
            bits,
        )
    };
    let src = if src.lazy_bits() == bits { src } else { Cow::Owned(plain(&src)?) };
    iter::execute(run, COPY_COST, dst, false, dst.sizes(), &[src], &[])
}
const COPY_COST: u32 = 250;

/// A fresh tensor with the same values in another dtype, strides kept where dense. No gradient, no dispatch.
pub(crate) fn cast_to(t: &Tensor, dtype: DType) -> Result<Tensor> {
    let t = if t.is_conj() || t.is_neg() { Cow::Owned(resolve_lazy(t)?) } else { Cow::Borrowed(t) };
    fresh_copy(&t, dtype)
}
fn fresh_copy(t: &Tensor, dtype: DType) -> Result<Tensor> {
    let st = preserved_strides(t);
    let out = Tensor::empty_strided_raw(t.sizes(), &st, dtype, t.device())?;
    if t.device() == Device::Meta || t.numel() == 0 {
        return Ok(out);
    }
    let run = cast_loop(t.dtype(), dtype).ok_or_else(|| Error::not_implemented_for("copy_kernel", dtype))?;
    iter::execute(run, COPY_COST, &out, true, t.sizes(), &[Cow::Borrowed(t)], &[])?;
    Ok(out)
}
/// A fresh contiguous tensor with the same values.
pub(crate) fn contiguous_raw(t: &Tensor) -> Result<Tensor> {
    if t.is_contiguous() && !t.is_conj() && !t.is_neg() {
        return Ok(t.clone());
    }
    let out = Tensor::empty_raw(t.sizes(), t.dtype(), t.device())?;
    copy_into(&out, t)?;
    Ok(out)
}
/// Strides of a fresh tensor like `t`: its own where dense, else in the order of its dimensions.
pub(crate) fn preserved_strides(t: &Tensor) -> SizeVec {
    if geometry::is_non_overlapping_and_dense(t.sizes(), t.strides()) {
        SizeVec::from_slice(t.strides())
    } else {
        iter::output_strides(t.sizes(), &[t])
    }
}

static CONJ: iter::PointwiseSpec = iter::PointwiseSpec {
    name: "conj_physical",
    label: "conj_cpu",
    kernel: &flambeau_cpu::pointwise::CONJ,
    promote: iter::Promote::Default,
    rare: iter::Rare::COMPLEX32.and(iter::Rare::FLOAT8).and(iter::Rare::UNSIGNED),
};
static NEG: iter::PointwiseSpec = iter::PointwiseSpec {
    name: "neg",
    label: "neg_cpu",
    kernel: &flambeau_cpu::pointwise::NEG,
    promote: iter::Promote::Default,
    rare: iter::Rare::COMPLEX32,
};

/// The same values without lazy bits: the tensor itself if it has none.
pub(crate) fn resolve_lazy(t: &Tensor) -> Result<Tensor> {
    if !t.is_conj() && !t.is_neg() {
        return Ok(t.clone());
    }
    let mut v = t.view_typed(
        SizeVec::from_slice(t.sizes()),
        SizeVec::from_slice(t.strides()),
        t.storage_offset(),
        t.dtype(),
        LazyBits::default(),
    )?;
    if t.is_conj() {
        v = iter::pointwise(&CONJ, &[&v], &[])?;
    }
    if t.is_neg() {
        v = iter::pointwise(&NEG, &[&v], &[])?;
    }
    Ok(v)
}

/// `copy_`: broadcasts and casts.
pub fn copy_(self_: &Tensor, src: &Tensor, _non_blocking: bool) -> Result<()> {
    geometry::expand_strides(src.sizes(), src.strides(), self_.sizes()).map_err(|_| {
        Error::shape(format!(
            "The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension {}",
            self_.sizes().last().copied().unwrap_or(1),
            src.sizes().last().copied().unwrap_or(1),
            first_mismatch(self_.sizes(), src.sizes())
        ))
    })?;
    check_no_internal_overlap(self_)?;
    copy_into(self_, src)
}
fn first_mismatch(a: &[i64], b: &[i64]) -> usize {
    let n = a.len();
    (0..n)
        .rev()
        .find(|&i| {
            let j = i + b.len();
            j >= n && b[j - n] != 1 && b[j - n] != a[i]
        })
        .unwrap_or(0)
}

/// `clone` on the meta device.
pub fn clone_meta_fn(self_: &Tensor, memory_format: Option<MemoryFormat>) -> Result<Tensor> {
    clone(self_, memory_format)
}

/// Strides that `clone`, `to` and the `*_like` factories give their result.
pub fn format_like(t: &Tensor, format: Option<MemoryFormat>) -> Result<SizeVec> {
    match format.unwrap_or(MemoryFormat::Preserve) {
        MemoryFormat::Preserve => Ok(preserved_strides(t)),
        f => geometry::format_strides(t.sizes(), f),
    }
}

/// `clone`
pub fn clone(self_: &Tensor, memory_format: Option<MemoryFormat>) -> Result<Tensor> {
    let st = format_like(self_, memory_format)?;
    let out = Tensor::empty_strided_raw(self_.sizes(), &st, self_.dtype(), self_.device())?;
    copy_into(&out, self_)?;
    Ok(out)
}

/// `_to_copy`: a fresh tensor in another dtype, device or format.
pub fn to_copy(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    _non_blocking: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    if layout.is_some_and(|l| l != self_.layout()) {
        return Err(Error::missing(format!("to(layout={})", layout.map_or("", Layout::name))));
    }
    if pin_memory == Some(true) {
        return Err(Error::missing("pinned memory"));
    }
    let st = format_like(self_, memory_format)?;
    let dtype = dtype.unwrap_or(self_.dtype());
    let device = device.unwrap_or(self_.device());
    if self_.device() == Device::Meta && device != Device::Meta {
        return Err(Error::unsupported("Cannot copy out of meta tensor; no data!"));
    }
    let out = Tensor::empty_strided_raw(self_.sizes(), &st, dtype, device)?;
    copy_into(&out, self_)?;
    Ok(out)
}

/// `_to_copy` on the meta device.
pub fn to_copy_meta_fn(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    non_blocking: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    to_copy(self_, dtype, layout, device, pin_memory, non_blocking, memory_format)
}

/// `contiguous`
pub fn contiguous(self_: &Tensor, memory_format: MemoryFormat) -> Result<Tensor> {
    if memory_format == MemoryFormat::Preserve {
        return Err(Error::runtime("preserve memory format is unsupported by the contiguous operator"));
    }
    if self_.is_contiguous_format(memory_format) {
        return Ok(self_.clone());
    }
    ops::clone(self_, Some(memory_format))
}

/// `to.dtype_layout`: the tensor itself when nothing changes.
pub fn to(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    non_blocking: bool,
    copy: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let same = dtype.is_none_or(|d| d == self_.dtype())
        && layout.is_none_or(|l| l == self_.layout())
        && device.is_none_or(|d| d == self_.device())
        && pin_memory != Some(true)
        && memory_format.is_none_or(|f| f == MemoryFormat::Preserve || self_.is_contiguous_format(f));
    if same && !copy {
        return Ok(self_.clone());
    }
    ops::to_copy(self_, dtype, layout, device, pin_memory, non_blocking, memory_format)
}

/// `resolve_conj`
pub fn resolve_conj(self_: &Tensor) -> Result<Tensor> {
    if self_.is_conj() { ops::clone(self_, None) } else { Ok(self_.clone()) }
}
/// `resolve_neg`
pub fn resolve_neg(self_: &Tensor) -> Result<Tensor> {
    if self_.is_neg() { ops::clone(self_, None) } else { Ok(self_.clone()) }
}

/// The single element of a one-element tensor, as a number.
pub fn item_scalar(t: &Tensor) -> Result<crate::Scalar> {
    use crate::Scalar;
    if t.numel() != 1 {
        return Err(Error::runtime(format!(
            "a Tensor with {} elements cannot be converted to Scalar",
            t.numel()
        )));
    }
    if t.device() == Device::Meta {
        return Err(Error::unsupported("Tensor.item() cannot be called on meta tensors"));
    }
    let t = resolve_lazy(&crate::dispatch::stand_in::resolved(t)?)?;
    let d = t.dtype();
    if d.is_complex() {
        let v = cast_to(&t, DType::C128)?;
        let a = crate::tensor::access::Access::new(&[&v], &[])?;
        return Ok(Scalar::Complex(a.slice::<num_complex::Complex<f64>>(0)?[0]));
    }
    if d == DType::U64 {
        let a = crate::tensor::access::Access::new(&[&t], &[])?;
        return Ok(Scalar::from(a.slice::<u64>(0)?[0]));
    }
    if d.is_integral(true) {
        let v = cast_to(&t, DType::I64)?;
        let a = crate::tensor::access::Access::new(&[&v], &[])?;
        let i = a.slice::<i64>(0)?[0];
        return Ok(if d == DType::Bool { Scalar::Bool(i != 0) } else { Scalar::Int(i) });
    }
    let v = cast_to(&t, DType::F64)?;
    let a = crate::tensor::access::Access::new(&[&v], &[])?;
    Ok(Scalar::Float(a.slice::<f64>(0)?[0]))
}

/// All elements in row-major order, cast to `T`'s dtype.
pub fn to_vec<T: crate::Element>(t: &Tensor) -> Result<Vec<T>> {
    if t.device() == Device::Meta {
        return Err(Error::unsupported("Cannot copy out of meta tensor; no data!"));
    }
    let out = Tensor::empty_raw(t.sizes(), T::DTYPE, Device::Cpu)?;
    copy_into(&out, &crate::dispatch::stand_in::resolved(t)?)?;
    let a = crate::tensor::access::Access::new(&[&out], &[])?;
    Ok(a.slice::<T>(0)?.to_vec())
}

/// `_set_source`
pub fn set_source(source: &Tensor) -> Result<Tensor> {
    Tensor::from_storage(
        source.storage(),
        source.sizes(),
        source.strides(),
        source.storage_offset(),
        source.dtype(),
    )
}
/// `_set_source` on the meta device.
pub fn set_source_meta_fn(source: &Tensor) -> Result<Tensor> {
    set_source(source)
}
