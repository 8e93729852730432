//! Copies and casts between tensors of any device, without gradients and without dispatch: what operators and kernels use.

use super::cpu::access::Access;
use super::cpu::execute;
use super::pointwise::pointwise;
use crate::DType;
use crate::dispatch::op::Kernels;
use crate::iter::layout::output_strides;
use crate::iter::spec::{Label, PointwiseSpec, Promote, Rare};
use crate::tensor::geometry::{self, SizeVec};
use crate::tensor::handle::{LazyBits, Tensor};
use crate::tensor::storage::Storage;
use crate::tensor::wrapper::{Asked, check_readable};
use crate::types::device::Device;
use crate::types::error::{Error, Result};
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
        return between_devices(dst, src);
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
            v = pointwise(&NEG, &[&v], &[])?;
        }
        if dst.is_conj() {
            v = pointwise(&CONJ, &[&v], &[])?;
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
    execute(run, COPY_COST, dst, false, dst.sizes(), &[src], &[])
}
/// A copy of which at least one side is on a device that is not built in: by way of the host, since all that every back end
/// can do is to read and to write bytes.
#[cold]
fn between_devices(dst: &Tensor, src: &Tensor) -> Result<()> {
    let same =
        dst.device() == src.device() && dst.dtype() == src.dtype() && dst.lazy_bits() == src.lazy_bits();
    if same
        && dst.sizes() == src.sizes()
        && dst.strides() == src.strides()
        && let (Some(to), Some(from)) = (whole(dst)?, whole(src)?)
    {
        super::of(dst.device())?.copy(&from, &to, dst.storage().nbytes())?;
        dst.storage().bump_version();
        return Ok(());
    }
    if src.device() == dst.device() {
        // what is read while it is written is copied first
        let own;
        let from = match src.storage().same(dst.storage()) {
            true => {
                own = fresh_copy(src, src.dtype())?;
                &own
            }
            false => src,
        };
        if let Some(elements) = super::elements::of(dst.device())
            && elements.copy_elements(dst, from)?
        {
            dst.storage().bump_version();
            return Ok(());
        }
    }
    let src = on_host(src)?;
    if dst.device() == Device::Cpu {
        return copy_into(dst, &src);
    }
    let table = super::of(dst.device())?;
    let Some(memory) = dst.storage().handle()? else { return Err(no_memory(dst)) };
    // what lies between the elements of the view stays as it is
    let image = if dense(dst) { image_of(dst)? } else { on_host(dst)? };
    copy_into(&image, &src)?;
    let start = dst.storage_offset() as usize * dst.dtype().size();
    image.storage().with_bytes(|b| table.write(&memory, start, b))??;
    dst.storage().bump_version();
    Ok(())
}
fn dense(t: &Tensor) -> bool {
    geometry::is_non_overlapping_and_dense(t.sizes(), t.strides())
}
fn no_memory(t: &Tensor) -> Error {
    if t.device() == Device::Meta {
        return Error::unsupported("Cannot copy out of meta tensor; no data!");
    }
    Error::device(format!("a tensor on {} has no memory", t.device()))
}
/// The memory of a tensor that is all of it.
fn whole(t: &Tensor) -> Result<Option<super::Handle>> {
    let all = dense(t) && t.numel() as usize * t.dtype().size() == t.storage().nbytes();
    if all { t.storage().handle() } else { Ok(None) }
}
/// A tensor on the CPU of the same geometry and with the same lazy bits, over as many bytes as `t` spans.
fn image_of(t: &Tensor) -> Result<Tensor> {
    let span = geometry::span(t.sizes(), t.strides()) as usize * t.dtype().size();
    let storage = Storage::empty(span, Device::Cpu)?;
    let plain = Tensor::from_storage(&storage, t.sizes(), t.strides(), 0, t.dtype())?;
    if t.lazy_bits() == LazyBits::default() {
        return Ok(plain);
    }
    plain.view_typed(t.sizes(), t.strides(), 0, t.dtype(), t.lazy_bits())
}
/// The same elements on a device: what a factory made on the CPU.
///
/// # Errors
/// As a copy.
pub fn to_device(t: Tensor, device: Device) -> Result<Tensor> {
    if t.device() == device {
        return Ok(t);
    }
    let out = Tensor::empty_raw(t.sizes(), t.dtype(), device)?;
    copy_into(&out, &t)?;
    Ok(out)
}
/// The same elements on the CPU, strides and lazy bits kept: the tensor itself if it is there.
///
/// # Errors
/// The meta device has no elements; those of the device's back end.
pub fn on_host(t: &Tensor) -> Result<Tensor> {
    if t.device() == Device::Cpu {
        return Ok(t.clone());
    }
    if t.numel() == 0 {
        return Tensor::empty_strided_raw(t.sizes(), t.strides(), t.dtype(), Device::Cpu);
    }
    let Some(memory) = t.storage().handle()? else { return Err(no_memory(t)) };
    let image = image_of(t)?;
    let start = t.storage_offset() as usize * t.dtype().size();
    let table = super::of(t.device())?;
    image.storage().with_bytes_mut(|b| table.read(&memory, start, b))??;
    Ok(image)
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
    if t.device() != Device::Cpu {
        copy_into(&out, t)?;
        return Ok(out);
    }
    if t.numel() == 0 {
        return Ok(out);
    }
    let run = cast_loop(t.dtype(), dtype).ok_or_else(|| Error::not_implemented_for("copy_kernel", dtype))?;
    execute(run, COPY_COST, &out, true, t.sizes(), &[Cow::Borrowed(t)], &[])?;
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
        output_strides(t.sizes(), &[t])
    }
}

static CONJ: PointwiseSpec = PointwiseSpec {
    name: "conj_physical",
    label: Label::plain("conj_cpu"),
    kernel: &flambeau_cpu::pointwise::CONJ,
    promote: Promote::Default,
    rare: Rare::COMPLEX32.and(Rare::FLOAT8).and(Rare::UNSIGNED),
    kernels: Kernels::new(&[]),
};
static NEG: PointwiseSpec = PointwiseSpec {
    name: "neg",
    label: Label::plain("neg_cpu"),
    kernel: &flambeau_cpu::pointwise::NEG,
    promote: Promote::Default,
    rare: Rare::COMPLEX32,
    kernels: Kernels::new(&[]),
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
        v = pointwise(&CONJ, &[&v], &[])?;
    }
    if t.is_neg() {
        v = pointwise(&NEG, &[&v], &[])?;
    }
    Ok(v)
}

/// The single element of a one-element tensor, as a number.
pub fn item_scalar(t: &Tensor) -> Result<crate::Scalar> {
    use crate::Scalar;
    check_readable(t, Asked::Number)?;
    if t.numel() != 1 {
        return Err(Error::runtime(format!(
            "a Tensor with {} elements cannot be converted to Scalar",
            t.numel()
        )));
    }
    if let Some(own) = t.wrapped().and_then(|w| w.number()) {
        return own;
    }
    if t.device() == Device::Meta {
        return Err(Error::unsupported("Tensor.item() cannot be called on meta tensors"));
    }
    if let Some(q) = t.quantizer() {
        return q.number(item_scalar(&t.integers()?)?.to_i64()).map(Scalar::Float);
    }
    let t = resolve_lazy(&on_host(&crate::dispatch::stand_in::resolved(t)?)?)?;
    let d = t.dtype();
    if d.is_complex() {
        let v = cast_to(&t, DType::C128)?;
        let a = Access::new(&[&v], &[])?;
        return Ok(Scalar::Complex(a.slice::<num_complex::Complex<f64>>(0)?[0]));
    }
    if d == DType::U64 {
        let a = Access::new(&[&t], &[])?;
        return Ok(Scalar::from(a.slice::<u64>(0)?[0]));
    }
    if d.is_integral(true) {
        let v = cast_to(&t, DType::I64)?;
        let a = Access::new(&[&v], &[])?;
        let i = a.slice::<i64>(0)?[0];
        return Ok(if d == DType::Bool { Scalar::Bool(i != 0) } else { Scalar::Int(i) });
    }
    let v = cast_to(&t, DType::F64)?;
    let a = Access::new(&[&v], &[])?;
    Ok(Scalar::Float(a.slice::<f64>(0)?[0]))
}

/// All elements in row-major order, cast to `T`'s dtype.
pub fn to_vec<T: crate::Element>(t: &Tensor) -> Result<Vec<T>> {
    if t.device() == Device::Meta {
        return Err(Error::unsupported("Cannot copy out of meta tensor; no data!"));
    }
    let out = Tensor::empty_raw(t.sizes(), T::DTYPE, Device::Cpu)?;
    copy_into(&out, &crate::dispatch::stand_in::resolved(t)?)?;
    let a = Access::new(&[&out], &[])?;
    let x = a.slice::<T>(0)?;
    let mut v = geometry::room(x.len() as i64)?;
    v.extend_from_slice(x);
    Ok(v)
}
