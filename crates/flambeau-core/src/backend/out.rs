//! Outputs of structured operators: the shape rule's answer, and what becomes of it in each form of the operator.

use crate::backend::transfer::{copy_into, preserved_strides};
use crate::iter::promotion;
use crate::iter::{check_no_internal_overlap, check_written, memory_meets, shared_memory};
use crate::tensor::geometry::{self, SizeVec};
use crate::tensor::graph::engine;
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::keys::{Key, KeySet};
use crate::types::layout::{Layout, MemoryFormat};
use crate::types::schema::OutDtype;
use crate::types::thread_keys;
use crate::{DType, ErrorKind};
use smallvec::SmallVec;

/// Sizes, strides, dtype and device of an output that does not exist yet.
#[derive(Clone, Debug)]
pub struct OutMeta {
    /// Sizes.
    pub sizes: SizeVec,
    /// Strides; contiguous if `None`.
    pub strides: Option<SizeVec>,
    /// Dtype.
    pub dtype: DType,
    /// Device.
    pub device: Device,
}
impl OutMeta {
    /// Contiguous.
    pub fn new(sizes: impl Into<SizeVec>, dtype: DType, device: Device) -> Self {
        OutMeta { sizes: sizes.into(), strides: None, dtype, device }
    }
    /// Contiguous, with the sizes of a slice.
    pub fn of(sizes: &[i64], dtype: DType, device: Device) -> Self {
        OutMeta { sizes: SizeVec::from_slice(sizes), strides: None, dtype, device }
    }
    /// As a fresh tensor like `t` is: strides kept where dense.
    pub fn like(t: &Tensor) -> Self {
        let strides = Some(preserved_strides(t));
        OutMeta { strides, ..OutMeta::of(t.sizes(), t.dtype(), t.device()) }
    }
    /// The same in a memory format.
    pub fn format(mut self, f: MemoryFormat) -> Result<Self> {
        self.strides = Some(geometry::format_strides(&self.sizes, f)?);
        Ok(self)
    }
    /// A fresh tensor.
    pub fn alloc(&self) -> Result<Tensor> {
        match &self.strides {
            None => Tensor::empty_raw(&self.sizes, self.dtype, self.device),
            Some(st) => Tensor::empty_strided_raw(&self.sizes, st, self.dtype, self.device),
        }
    }
    /// Prepares an in-place form: `self_` must have the result's sizes and take its dtype.
    pub fn inplace(&self, self_: &Tensor) -> Result<Target> {
        if self_.sizes() != &self.sizes[..] {
            return Err(Error::shape(format!(
                "Bad in-place call: input tensor size {} and output tensor size {} should match",
                geometry::fmt_sizes(self_.sizes()),
                geometry::fmt_sizes(&self.sizes)
            )));
        }
        check_written(self_, &self.sizes, self.dtype, self.device)?;
        // kernels of structured operators read their inputs while they write: always through a temporary
        Ok(Target { tensor: self.alloc()?, copy_to: Some(self_.clone()) })
    }
    /// Prepares an `out=` form: resizes `out`, which gets the strides of a fresh result then, and works through a temporary
    /// where the kernel cannot write to it itself.
    pub fn out(&self, rule: &OutDtype, out: &mut Tensor, inputs: &[&Tensor]) -> Result<Target> {
        self.prepared(rule, out, inputs, self.strides.as_deref())
    }
    /// The same, but what is resized is contiguous.
    pub fn out_contiguous(&self, rule: &OutDtype, out: &mut Tensor, inputs: &[&Tensor]) -> Result<Target> {
        self.prepared(rule, out, inputs, None)
    }
    fn prepared(
        &self,
        rule: &OutDtype,
        out: &mut Tensor,
        inputs: &[&Tensor],
        strides: Option<&[i64]>,
    ) -> Result<Target> {
        if out.device() != self.device {
            return Err(Error::device(format!(
                "Expected out tensor to have device {}, but got {} instead",
                self.device,
                out.device()
            )));
        }
        check_out_dtype(rule, self.dtype, out.dtype())?;
        if out.sizes() != &self.sizes[..] {
            *out = resized(out, &self.sizes)?;
            if let Some(strides) = strides {
                *out = restrided(out, strides)?;
            }
        }
        check_no_internal_overlap(out)?;
        let placed = match &self.strides {
            None => out.is_contiguous(),
            Some(strides) => out.strides() == &strides[..],
        };
        let direct = out.dtype() == self.dtype
            && placed
            && !out.is_conj()
            && !out.is_neg()
            && inputs.iter().all(|t| !t.storage().same(out.storage()));
        if direct {
            return Ok(Target { tensor: out.clone(), copy_to: None });
        }
        Ok(Target { tensor: self.alloc()?, copy_to: Some(out.clone()) })
    }
}

/// The outputs of a row that gives a list, as far as they are asked for: gradients by a mask.
pub struct Chosen {
    metas: SmallVec<[Option<OutMeta>; 3]>,
    absent: OutMeta,
}
impl Chosen {
    /// These, and in the place of each `None` an empty tensor of the dtype and device of `like`.
    pub fn new(metas: impl IntoIterator<Item = Option<OutMeta>>, like: &Tensor) -> Self {
        let absent = OutMeta::of(&[0], like.dtype(), like.device());
        Chosen { metas: metas.into_iter().collect(), absent }
    }
    /// The device.
    pub fn device(&self) -> Device {
        self.absent.device
    }
    /// Fresh tensors, one per entry.
    pub fn alloc(&self) -> Result<Vec<Tensor>> {
        self.metas.iter().map(|m| m.as_ref().unwrap_or(&self.absent).alloc()).collect()
    }
    /// What the kernel writes.
    pub fn wanted<'a>(&self, outs: &'a [Tensor]) -> SmallVec<[Option<&'a Tensor>; 3]> {
        self.metas.iter().zip(outs).map(|(m, o)| m.as_ref().map(|_| o)).collect()
    }
}

/// The output of a row that updates one of its arguments: that tensor with some elements changed.
pub struct Update {
    /// Sizes, where they are not the argument's.
    sizes: Option<SizeVec>,
    shared: bool,
    /// Device.
    pub device: Device,
}
impl Update {
    /// As the argument is.
    pub fn of(self_: &Tensor) -> Self {
        Update { sizes: None, shared: false, device: self_.device() }
    }
    /// The argument broadcast to these sizes.
    pub fn broadcast(self_: &Tensor, sizes: SizeVec) -> Self {
        Update { sizes: Some(sizes), ..Update::of(self_) }
    }
    /// As the argument is, but contiguous.
    pub fn contiguous(self_: &Tensor) -> Self {
        Update::broadcast(self_, SizeVec::from_slice(self_.sizes()))
    }
    /// For kernels that write one element after the other, so that elements may share memory in place.
    pub fn one_by_one(mut self) -> Self {
        self.shared = true;
        self
    }
    /// A fresh copy of the argument: strides as `clone` has them, but contiguous where it is broadcast.
    pub fn copy(&self, self_: &Tensor) -> Result<Tensor> {
        let out = match &self.sizes {
            Some(sizes) => Tensor::empty_raw(sizes, self_.dtype(), self.device)?,
            None => {
                let strides = preserved_strides(self_);
                Tensor::empty_strided_raw(self_.sizes(), &strides, self_.dtype(), self.device)?
            }
        };
        copy_into(&out, self_)?;
        Ok(out)
    }
    /// Prepares an in-place form: the tensor itself, or a copy that is written back where it has lazy bits or shares memory
    /// with one of the other `inputs`.
    pub fn inplace(&self, self_: &Tensor, inputs: &[&Tensor]) -> Result<Target> {
        match &self.sizes {
            Some(sizes) => check_written(self_, sizes, self_.dtype(), self.device)?,
            None if !self.shared => check_no_internal_overlap(self_)?,
            None => {}
        }
        let plain = !self_.is_conj() && !self_.is_neg();
        let direct = plain && inputs.iter().all(|t| !t.storage().same(self_.storage()));
        if direct || self.device == Device::Meta {
            return Ok(Target { tensor: self_.clone(), copy_to: None });
        }
        Ok(Target { tensor: self.copy(self_)?, copy_to: Some(self_.clone()) })
    }
    /// Prepares an `out=` form: `out` is resized and gets the argument's elements, or a temporary does.
    pub fn out(
        &self,
        rule: &OutDtype,
        out: &mut Tensor,
        self_: &Tensor,
        inputs: &[&Tensor],
    ) -> Result<Target> {
        let sizes = self.sizes.as_deref().unwrap_or(self_.sizes());
        let target = OutMeta::of(sizes, self_.dtype(), self.device).out(rule, out, inputs)?;
        copy_into(&target.tensor, self_)?;
        Ok(target)
    }
}

/// Whether an `out=` form writes a result of dtype `want` to a tensor of dtype `got`, by the row's rule.
///
/// # Errors
/// When it does not.
#[inline]
pub fn check_out_dtype(rule: &OutDtype, want: DType, got: DType) -> Result<()> {
    if want == got { Ok(()) } else { other_dtype(rule, want, got) }
}
#[cold]
fn other_dtype(rule: &OutDtype, want: DType, got: DType) -> Result<()> {
    let casts = promotion::can_cast(want, got);
    let (kind, text) = match *rule {
        OutDtype::Any => return Ok(()),
        OutDtype::ExactOrByte(_) if got == DType::U8 => return Ok(()),
        OutDtype::Complex(_) if got.is_complex() => return Ok(()),
        OutDtype::Floating(_) | OutDtype::Computed(_) if got.is_floating() => return Ok(()),
        OutDtype::Computed(text) => (ErrorKind::Unsupported, text),
        OutDtype::Complex(text) | OutDtype::Floating(text) => (ErrorKind::Runtime, text),
        OutDtype::Cast | OutDtype::CastOr(_) | OutDtype::CastOrType(_) if casts => return Ok(()),
        OutDtype::Cast => {
            (ErrorKind::DType, "result type {want} can't be cast to the desired output type {got}")
        }
        OutDtype::CastOr(text) => (ErrorKind::DType, text),
        OutDtype::CastOrType(text) => (ErrorKind::Type, text),
        OutDtype::Exact(text) | OutDtype::ExactOrByte(text) => (ErrorKind::DType, text),
    };
    let int32 = if want == DType::I32 { "True" } else { "False" };
    let filled = text
        .replace("{want}", want.scalar_type_name())
        .replace("{got}", got.scalar_type_name())
        .replace("{want_c}", want.c_name())
        .replace("{got_c}", got.c_name())
        .replace("{want_int32}", int32);
    Err(Error::new(kind, filled))
}

/// Where a structured kernel writes, and what happens afterwards.
pub struct Target {
    tensor: Tensor,
    copy_to: Option<Tensor>,
}
impl Target {
    /// What the kernel writes.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }
    /// Copies from the temporary, if there was one.
    pub fn finish(self) -> Result<()> {
        match self.copy_to {
            Some(dst) if dst.device() != Device::Meta => copy_into(&dst, &self.tensor),
            Some(_) => Ok(()),
            None => {
                super::kernel::written(&self.tensor);
                Ok(())
            }
        }
    }
}

/// Gives `out` these sizes, as PyTorch's `resize_output`: contiguous, over the same storage, which grows if need be. The
/// handle is replaced; other handles keep the old geometry.
pub fn resize_output(out: &mut Tensor, sizes: &[i64]) -> Result<()> {
    if out.sizes() == sizes {
        return Ok(());
    }
    *out = resized(out, sizes)?;
    Ok(())
}

/// A tensor over the same storage with other sizes, contiguous from the same offset; the storage grows if need be.
pub fn resized(t: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let bytes = geometry::checked_bytes(sizes, t.dtype().size())?;
    let start = t.storage_offset() as usize * t.dtype().size();
    let need = bytes.checked_add(start).ok_or_else(|| Error::memory("resize_: size overflow"))?;
    if bytes > 0 {
        t.storage().grow(need)?;
    }
    Tensor::from_storage(
        t.storage(),
        sizes,
        &geometry::contiguous_strides(sizes),
        t.storage_offset(),
        t.dtype(),
    )
}

/// A tensor over the same elements with other strides, which reach no further.
fn restrided(t: &Tensor, strides: &[i64]) -> Result<Tensor> {
    Tensor::from_storage(t.storage(), t.sizes(), strides, t.storage_offset(), t.dtype())
}

/// Refuses outputs that share memory with an input, for the `out=` forms of rows that say so; with a text, outputs that share
/// memory with each other too.
///
/// # Errors
/// See above.
pub fn apart(each_other: Option<&str>, inputs: &[&Tensor], outs: &[&Tensor]) -> Result<()> {
    if let Some(text) = each_other
        && (0..outs.len()).any(|i| outs[..i].iter().any(|x| memory_meets(x, outs[i])))
    {
        return Err(Error::value(text));
    }
    if inputs.iter().any(|x| outs.iter().any(|o| memory_meets(x, o))) {
        return Err(shared_memory());
    }
    Ok(())
}

/// Refuses to write to a tensor that was made in inference mode, outside of it. Every form that writes asks first.
///
/// # Errors
/// See above.
#[inline(always)]
pub fn writable(t: &Tensor) -> Result<()> {
    if t.is_inference() { inference_written() } else { Ok(()) }
}
#[cold]
fn inference_written() -> Result<()> {
    if thread_keys::inference() {
        return Ok(());
    }
    Err(Error::runtime(
        "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal \
         tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details.",
    ))
}

/// What the in-place form of a composite computes from: where the call is recorded, for it or for another input, a copy,
/// because the result may save its input, which is overwritten next.
pub fn before_overwriting(self_: &Tensor, others: &[&Tensor]) -> Result<Tensor> {
    if recorded(self_) || others.iter().any(|t| recorded(t)) {
        crate::ops::clone(self_, None)
    } else {
        Ok(self_.clone())
    }
}
/// Refuses the `out=` form of a composite where gradients would be lost.
pub fn refuse_gradients(name: &str, inputs: &[&Tensor], outs: &[&Tensor]) -> Result<()> {
    if inputs.iter().chain(outs).any(|t| recorded(t)) {
        return (engine()?.check_out)(name, inputs, outs);
    }
    Ok(())
}
/// [`refuse_gradients`] after all else that the form refuses: the call is tried first, into outputs of its own.
pub fn refuse_gradients_late<const N: usize>(
    name: &str,
    inputs: &[&Tensor],
    outs: [&Tensor; N],
    attempt: impl FnOnce(&mut [Tensor; N]) -> Result<()>,
) -> Result<()> {
    if !inputs.iter().chain(&outs).any(|t| recorded(t)) {
        return Ok(());
    }
    tried(outs, attempt)?;
    (engine()?.check_out)(name, inputs, &outs)
}
fn tried<const N: usize>(
    outs: [&Tensor; N],
    attempt: impl FnOnce(&mut [Tensor; N]) -> Result<()>,
) -> Result<[Tensor; N]> {
    let mut own = outs.map(Tensor::clone);
    for t in &mut own {
        *t = Tensor::empty_raw(&[0], t.dtype(), t.device())?;
    }
    let _below = thread_keys::ExcludeGuard::new(KeySet::of(Key::Autograd));
    attempt(&mut own)?;
    Ok(own)
}
/// [`refuse_gradients_late`] of a form that copies its result at last: an output that is such a leaf cannot be written, and others
/// take part in the history. With a name, the function says first that such a leaf has another shape.
pub fn refuse_leaves_late<const N: usize>(
    name: Option<&str>,
    outs: [&Tensor; N],
    attempt: impl FnOnce(&mut [Tensor; N]) -> Result<()>,
) -> Result<()> {
    if !outs.iter().any(|t| recorded(t) && t.is_leaf()) || (engine()?.check_out)("", &[], &outs).is_ok() {
        return Ok(());
    }
    let own = tried(outs, attempt)?;
    if let Some(name) = name.filter(|_| own.iter().zip(&outs).any(|(a, b)| a.sizes() != b.sizes())) {
        return Err(Error::autograd(format!(
            "{name}(): the 'out' tensor was specified and requires gradients, and its shape does not match the expected \
             result. Either remove the 'out' argument, ensure it does not require gradients, or make sure its shape \
             matches the expected output."
        )));
    }
    Err(Error::autograd("a leaf Variable that requires grad is being used in an in-place operation."))
}
/// Whether calls with this tensor are recorded.
pub(crate) fn recorded(t: &Tensor) -> bool {
    thread_keys::effective(t.key_set()).has(Key::Autograd)
}

/// The in-place form of a composite: its result is copied over the input, which keeps its sizes.
pub fn copy_to_self(self_: &Tensor, result: &Tensor) -> Result<()> {
    check_written(self_, result.sizes(), result.dtype(), result.device())?;
    crate::ops::copy_(self_, result, false)
}

/// The options of a factory with `out=` are those of the tensor that is given.
///
/// # Errors
/// When one says otherwise.
pub fn as_factory(
    out: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
) -> Result<()> {
    if let Some(d) = dtype.filter(|d| *d != out.dtype()) {
        let (d, o) = (d.scalar_type_name(), out.dtype().scalar_type_name());
        return Err(Error::runtime(format!("dtype {d} does not match dtype of out parameter ({o})")));
    }
    if let Some(l) = layout.filter(|l| *l != out.layout()) {
        let name = |l: Layout| format!("{l:?}").replace("SparseCoo", "Sparse");
        let (l, o) = (name(l), name(out.layout()));
        return Err(Error::runtime(format!("layout {l} does not match layout of out parameter ({o})")));
    }
    if let Some(d) = device.filter(|d| *d != out.device()) {
        let text = format!("device type {d} does not match device type of out parameter ({})", out.device());
        return Err(Error::runtime(text));
    }
    Ok(())
}

/// The `out=` form of a composite: `out` is resized and the result copied over it.
pub fn copy_to_out(rule: &OutDtype, out: &mut Tensor, result: &Tensor) -> Result<()> {
    let meta = OutMeta::of(result.sizes(), result.dtype(), result.device());
    copy_prepared(meta, rule, out, result)
}
/// [`copy_to_out`], but what is resized lies as the result does.
pub fn copy_to_out_as_it_lies(rule: &OutDtype, out: &mut Tensor, result: &Tensor) -> Result<()> {
    copy_prepared(OutMeta::like(result), rule, out, result)
}
fn copy_prepared(meta: OutMeta, rule: &OutDtype, out: &mut Tensor, result: &Tensor) -> Result<()> {
    let target = meta.out(rule, out, &[result])?;
    crate::ops::copy_(target.copy_to.as_ref().unwrap_or(&target.tensor), result, false)
}
