//! A tensor's own sizes, strides and memory changed in place: `x.t_()`, `x.resize_(..)`, `x.set_(..)`. Geometry belongs to the
//! handle, so these take `&mut self`, and other handles keep the old one. And Python's element-wise functions in place.

use crate::api::convert::IntoDims;
use crate::api::ergonomic::expect;
use crate::api::typed_storage::TypedStorage;
use crate::backend::out;
use crate::ops;
use crate::tensor::geometry::{self, SizeVec, fmt_sizes};
use crate::tensor::graph;
use crate::tensor::handle::Tensor;
use crate::tensor::storage::Storage;
use crate::types::error::{Error, Result};
use crate::types::layout::MemoryFormat;
use crate::{DType, Device, Element, bail, ensure};
use std::path::Path;

/// Refuses to change what gradients belong to.
fn changeable(t: &Tensor) -> Result<()> {
    out::writable(t)?;
    if t.requires_grad() || t.view_base().is_some_and(Tensor::requires_grad) {
        return (graph::engine()?.check_inplace)(t);
    }
    Ok(())
}
/// Replaces the handle by a view of it.
fn become_view(t: &mut Tensor, view: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<()> {
    changeable(t)?;
    *t = view(t)?;
    Ok(())
}

macro_rules! geometry_forms {
    ($($(#[$doc:meta])* $alias:literal $name:ident $try_name:ident($($a:ident: $ty:ty),*) |$t:ident| $view:expr;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            #[doc(alias = $alias)]
            pub fn $name(&mut self $(, $a: $ty)*) -> &mut Self {
                expect(self.$try_name($($a),*));
                self
            }
            $(#[$doc])*
            ///
            /// # Errors
            /// As the view's, and for leaves that require gradients.
            pub fn $try_name(&mut self $(, $a: $ty)*) -> Result<()> {
                become_view(self, |$t| $view)
            }
        )*}
    };
}
geometry_forms! {
    /// Removes all dimensions of size 1.
    "torch.Tensor.squeeze_" squeeze_ try_squeeze_() |t| ops::squeeze(t);
    /// Removes a dimension if its size is 1.
    "torch.Tensor.squeeze_" squeeze_dim_ try_squeeze_dim_(dim: i64) |t| ops::squeeze_dim(t, dim);
    /// Removes those of the dimensions whose size is 1.
    "torch.Tensor.squeeze_" squeeze_dims_ try_squeeze_dims_(dims: &[i64]) |t| ops::squeeze_dims(t, dims);
    /// Puts in a dimension of size 1.
    "torch.Tensor.unsqueeze_" unsqueeze_ try_unsqueeze_(dim: i64) |t| ops::unsqueeze(t, dim);
    /// Transposes a matrix.
    "torch.Tensor.t_" t_ try_t_() |t| transposed(t);
    /// Swaps two dimensions.
    "torch.Tensor.transpose_" transpose_ try_transpose_(dim0: i64, dim1: i64) |t| ops::transpose(t, dim0, dim1);
    /// Swaps two dimensions.
    "torch.Tensor.swapaxes_" swapaxes_ try_swapaxes_(axis0: i64, axis1: i64) |t| ops::transpose(t, axis0, axis1);
    /// Swaps two dimensions.
    "torch.Tensor.swapdims_" swapdims_ try_swapdims_(dim0: i64, dim1: i64) |t| ops::transpose(t, dim0, dim1);
    /// Any sizes, strides and offset within the memory.
    "torch.Tensor.as_strided_" as_strided_ try_as_strided_(size: &[i64], stride: &[i64], storage_offset: Option<i64>)
        |t| ops::as_strided(t, size, stride, storage_offset);
}
fn transposed(t: &Tensor) -> Result<Tensor> {
    ensure!(t.dim() <= 2, Runtime, "t_() expects a tensor with <= 2 dimensions, but self is {}D", t.dim());
    ops::t(t)
}

/// Bytes up to the last element of a geometry.
fn bytes_needed(sizes: &[i64], strides: &[i64], offset: i64, dtype: DType) -> Result<usize> {
    ensure!(offset >= 0, Runtime, "Tensor: invalid storage offset {offset}");
    ensure!(sizes.len() == strides.len(), Runtime, "mismatch in length of strides and shape");
    ensure!(
        strides.iter().all(|s| *s >= 0),
        Runtime,
        "as_strided: Negative strides are not supported at the moment, got strides: {}",
        fmt_sizes(strides)
    );
    if geometry::checked_numel(sizes)? == 0 {
        return Ok(0);
    }
    let too_big =
        || Error::memory(format!("Storage size calculation overflowed with sizes={}", fmt_sizes(sizes)));
    let mut last = offset;
    for (n, s) in sizes.iter().zip(strides) {
        last = (n - 1).checked_mul(*s).and_then(|x| x.checked_add(last)).ok_or_else(too_big)?;
    }
    let bytes = last.checked_add(1).and_then(|n| n.checked_mul(dtype.size() as i64)).ok_or_else(too_big)?;
    Ok(bytes as usize)
}

impl Tensor {
    /// Gives the tensor other sizes over its memory, row-major from the same offset; the memory grows if need be, with any
    /// bytes in it. Nothing changes where the sizes are the same.
    #[track_caller]
    #[doc(alias = "torch.Tensor.resize_")]
    pub fn resize_(&mut self, size: impl IntoDims) -> &mut Self {
        expect(self.try_resize_(&size.into_dims(), None));
        self
    }
    /// [`Tensor::resize_`] in a memory format.
    ///
    /// # Errors
    /// For tensors that require gradients, negative and absurd sizes, and formats that do not fit.
    pub fn try_resize_(&mut self, size: &[i64], memory_format: Option<MemoryFormat>) -> Result<()> {
        ensure!(!self.requires_grad(), Runtime, "cannot resize variables that require grad");
        out::writable(self)?;
        crate::tensor::sparse::check_memory(self)?;
        ensure!(size.iter().all(|n| *n >= 0), Shape, "numel: integer multiplication overflow");
        ensure!(
            !self.has_names() || self.sizes() == size,
            Runtime,
            "Cannot resize named tensor with resize_ or resize_as_ (tried to resize Tensor{} with size {} to {}). This may be \
             caused by passing a named tensor as an `out=` argument; please ensure that the sizes are the same. ",
            self.names(),
            fmt_sizes(self.sizes()),
            fmt_sizes(size)
        );
        let names = self.names();
        let strides = match memory_format {
            None if self.sizes() == size => return Ok(()),
            None => geometry::contiguous_strides(size),
            Some(MemoryFormat::Preserve) => bail!(Runtime, "Unsupported memory formatPreserve"),
            Some(f) => {
                geometry::checked_numel(size)?;
                geometry::format_strides(size, f)?
            }
        };
        let offset = self.storage_offset();
        let need = bytes_needed(size, &strides, offset, self.dtype())?;
        let quantizer = self.quantizer();
        ensure!(
            quantizer.as_ref().is_none_or(|q| q.scheme().is_per_tensor()),
            Runtime,
            "Can only resize quantized tensors with per-tensor schemes!"
        );
        self.storage().grow(need)?;
        let plain = if quantizer.is_some() { self.integers()?.dtype() } else { self.dtype() };
        let new = Tensor::from_storage(self.storage(), size, &strides, offset, plain)?;
        *self = match quantizer {
            Some(q) => Tensor::from_integers(&new, size, self.dtype(), q)?,
            None => new,
        };
        if names.any() { self.set_dim_names(names) } else { Ok(()) }
    }
    /// [`Tensor::resize_`] to another tensor's sizes.
    #[track_caller]
    #[doc(alias = "torch.Tensor.resize_as_")]
    pub fn resize_as_(&mut self, the_template: &Tensor) -> &mut Self {
        expect(self.try_resize_as_(the_template, None));
        self
    }
    /// [`Tensor::resize_as_`] in a memory format; `Preserve` is the template's.
    ///
    /// # Errors
    /// As [`Tensor::try_resize_`].
    pub fn try_resize_as_(
        &mut self,
        the_template: &Tensor,
        memory_format: Option<MemoryFormat>,
    ) -> Result<()> {
        let like = |f| the_template.is_contiguous_format(f) && !the_template.is_contiguous();
        let format = match memory_format {
            Some(MemoryFormat::Preserve) if like(MemoryFormat::ChannelsLast) => {
                Some(MemoryFormat::ChannelsLast)
            }
            Some(MemoryFormat::Preserve) if like(MemoryFormat::ChannelsLast3d) => {
                Some(MemoryFormat::ChannelsLast3d)
            }
            Some(MemoryFormat::Preserve) => Some(MemoryFormat::Contiguous),
            f => f,
        };
        let sizes = SizeVec::from_slice(the_template.sizes());
        self.try_resize_(&sizes, format)
    }
    /// Takes over another tensor's memory and geometry.
    #[track_caller]
    #[doc(alias = "torch.Tensor.set_")]
    pub fn set_(&mut self, source: &Tensor) -> &mut Self {
        expect(self.try_set_(Some(source)));
        self
    }
    /// [`Tensor::set_`]; without a source the tensor becomes empty.
    ///
    /// # Errors
    /// Another dtype or device, and tensors that require gradients.
    pub fn try_set_(&mut self, source: Option<&Tensor>) -> Result<()> {
        match source {
            None => {
                let s = Storage::empty(0, self.device())?;
                self.replace(&s, self.dtype(), &[0], &[1], 0)
            }
            Some(t) => {
                crate::tensor::sparse::check_memory(t)?;
                if out::recorded(t) {
                    // PyTorch records it as a step that has no derivative
                    self.check_replaced(t.dtype(), t.device())?;
                    *self = crate::ops::set_source(t)?;
                    return Ok(());
                }
                self.replace(t.storage(), t.dtype(), t.sizes(), t.strides(), t.storage_offset())
            }
        }
    }
    /// Takes over memory: with these sizes and strides (row-major ones if there are none) from an offset, all of it if no
    /// sizes are given. Memory that is too small grows.
    ///
    /// # Errors
    /// As [`Tensor::try_set_`], and for geometries that no memory holds.
    pub fn try_set_storage_(
        &mut self,
        source: &TypedStorage,
        storage_offset: i64,
        size: Option<&[i64]>,
        stride: &[i64],
    ) -> Result<()> {
        let all = [(source.untyped().nbytes() / self.dtype().size()) as i64];
        let size = size.unwrap_or(&all);
        let strides = match stride {
            [] => geometry::contiguous_strides(size),
            s => SizeVec::from_slice(s),
        };
        let dtype = if source.dtype() == DType::U8 { self.dtype() } else { source.dtype() };
        self.replace(source.untyped(), dtype, size, &strides, storage_offset)
    }
    fn replace(
        &mut self,
        storage: &Storage,
        dtype: DType,
        sizes: &[i64],
        strides: &[i64],
        offset: i64,
    ) -> Result<()> {
        self.check_replaced(dtype, storage.device())?;
        storage.grow(bytes_needed(sizes, strides, offset, dtype)?)?;
        *self = Tensor::from_storage(storage, sizes, strides, offset, dtype)?;
        Ok(())
    }
    fn check_replaced(&self, dtype: DType, device: Device) -> Result<()> {
        crate::tensor::sparse::check_memory(self)?;
        changeable(self)?;
        ensure!(
            !self.requires_grad() || !self.is_leaf(),
            Runtime,
            "a leaf Variable that requires grad is being used in an in-place operation."
        );
        ensure!(!self.requires_grad(), Unsupported, "derivative for aten::set_ is not implemented");
        ensure!(
            dtype == self.dtype(),
            Runtime,
            "Could not set tensor of type {} to a tensor of type {}",
            dtype.c_name(),
            self.dtype().c_name()
        );
        ensure!(
            device == self.device(),
            Device,
            "Attempted to set the storage of a tensor on device \"{}\" to a storage on different device \"{}\".",
            self.device(),
            device
        );
        Ok(())
    }
    /// Whether both tensors read the same memory in the same way.
    #[doc(alias = "torch.Tensor.is_set_to")]
    pub fn is_set_to(&self, tensor: &Tensor) -> bool {
        self.storage().same(tensor.storage())
            && self.storage_offset() == tensor.storage_offset()
            && self.sizes() == tensor.sizes()
            && self.strides() == tensor.strides()
    }
    /// `polygamma` of every element, written over it.
    #[track_caller]
    #[doc(alias = "torch.Tensor.polygamma_")]
    pub fn polygamma_(&self, n: i64) -> &Self {
        expect(self.try_polygamma_(n));
        self
    }
    /// [`Tensor::polygamma_`] with a result.
    ///
    /// # Errors
    /// As `polygamma`, and where the result does not fit the dtype.
    pub fn try_polygamma_(&self, n: i64) -> Result<()> {
        let r = ops::polygamma(n, &out::before_overwriting(self, &[])?)?;
        out::copy_to_self(self, &r)
    }
    /// Calls a function on every element, in row-major order, and writes what it returns. Slow, as in PyTorch: for what no
    /// operator does.
    #[track_caller]
    #[doc(alias = "torch.Tensor.apply_")]
    pub fn apply_<T: Element>(&self, mut f: impl FnMut(T) -> T) -> &Self {
        expect(self.try_apply_(|x| Ok(f(x))));
        self
    }
    /// [`Tensor::apply_`] with a function that may fail; then nothing is written.
    ///
    /// # Errors
    /// The function's, and for tensors that require gradients.
    pub fn try_apply_<T: Element>(&self, f: impl FnMut(T) -> Result<T>) -> Result<()> {
        detached("apply_", &[self])?;
        let v: Vec<T> = self.try_to_vec::<T>()?.into_iter().map(f).collect::<Result<_>>()?;
        ops::copy_(self, &Tensor::from_vec_raw(v, self.sizes())?, false)
    }
    /// Calls a function on every element and another tensor's at the same place, and writes what it returns.
    #[track_caller]
    #[doc(alias = "torch.Tensor.map_")]
    pub fn map_<T: Element>(&self, tensor: &Tensor, mut f: impl FnMut(T, T) -> T) -> &Self {
        expect(self.try_map_(tensor, |x, y| Ok(f(x, y))));
        self
    }
    /// [`Tensor::map_`] with a function that may fail; then nothing is written.
    ///
    /// # Errors
    /// The function's, another dtype, sizes that do not broadcast, and for tensors that require gradients.
    pub fn try_map_<T: Element>(&self, tensor: &Tensor, mut f: impl FnMut(T, T) -> Result<T>) -> Result<()> {
        detached("map_", &[self, tensor])?;
        let other = alike("map_", self, tensor)?.try_to_vec::<T>()?;
        let mut other = other.into_iter();
        self.try_apply_(|x| f(x, other.next().unwrap_or(x)))
    }
    /// [`Tensor::map_`] with two other tensors.
    #[track_caller]
    #[doc(alias = "torch.Tensor.map2_")]
    pub fn map2_<T: Element>(&self, x: &Tensor, y: &Tensor, mut f: impl FnMut(T, T, T) -> T) -> &Self {
        expect(self.try_map2_(x, y, |a, b, c| Ok(f(a, b, c))));
        self
    }
    /// [`Tensor::map2_`] with a function that may fail; then nothing is written.
    ///
    /// # Errors
    /// As [`Tensor::try_map_`].
    pub fn try_map2_<T: Element>(
        &self,
        x: &Tensor,
        y: &Tensor,
        mut f: impl FnMut(T, T, T) -> Result<T>,
    ) -> Result<()> {
        detached("map2_", &[self, x, y])?;
        let third = alike("map2_", self, y)?.try_to_vec::<T>()?;
        let mut third = third.into_iter();
        self.try_map_(x, |a, b| f(a, b, third.next().unwrap_or(a)))
    }
}
fn detached(name: &str, all: &[&Tensor]) -> Result<()> {
    ensure!(
        all.iter().all(|t| !t.requires_grad()),
        Runtime,
        "Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
    );
    Ok(())
}
fn alike(name: &str, self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let class = |t: &Tensor| crate::types::type_info::tensor_type_name(t.dtype()).unwrap_or("another tensor");
    ensure!(
        self_.dtype() == other.dtype(),
        Type,
        "{name}: expected {} for 'other' (got {})",
        class(self_),
        class(other)
    );
    ops::expand(other, self_.sizes(), false)
}

/// `count` numbers (-1: all) of bytes, from byte `offset`, in the machine's byte order. The vector is taken over without a
/// copy where its alignment allows.
#[track_caller]
#[doc(alias = "torch.frombuffer")]
pub fn frombuffer(buffer: impl Into<Vec<u8>>, dtype: DType, count: i64, offset: i64) -> Tensor {
    expect(try_frombuffer(buffer, dtype, count, offset))
}
/// [`frombuffer`] with a result.
///
/// # Errors
/// When count and offset do not fit the buffer.
pub fn try_frombuffer(buffer: impl Into<Vec<u8>>, dtype: DType, count: i64, offset: i64) -> Result<Tensor> {
    let buffer = buffer.into();
    let (len, each) = (buffer.len() as i64, dtype.size() as i64);
    ensure!(len > 0 && count != 0, Value, "both buffer length ({len}) and count ({count}) must not be 0");
    ensure!(
        (0..len).contains(&offset),
        Value,
        "offset ({offset} bytes) must be non-negative and no greater than buffer length ({len} bytes) minus 1"
    );
    let rest = len - offset;
    let n = if count < 0 {
        ensure!(
            rest % each == 0,
            Value,
            "buffer length ({rest} bytes) after offset ({offset} bytes) must be a multiple of element size ({each})"
        );
        rest / each
    } else {
        ensure!(
            count.checked_mul(each).is_some_and(|b| b <= rest),
            Value,
            "requested buffer length ({count} * {each} bytes) after offset ({offset} bytes) must not be greater than actual \
             buffer length ({len} bytes)"
        );
        count
    };
    if offset % each == 0 {
        return Tensor::from_storage(&Storage::from_vec(buffer), &[n], &[1], offset / each, dtype);
    }
    let part = &buffer[offset as usize..(offset + n * each) as usize];
    Tensor::from_storage(&Storage::of_bytes(part)?, &[n], &[1], 0, dtype)
}

/// The first `size` numbers of a file, in the machine's byte order. The file is read: changes stay in memory.
#[track_caller]
#[doc(alias = "torch.from_file")]
pub fn from_file(filename: impl AsRef<Path>, size: i64, dtype: DType) -> Tensor {
    expect(try_from_file(filename, size, dtype))
}
/// [`from_file`] with a result.
///
/// # Errors
/// The file cannot be read or is too short.
pub fn try_from_file(filename: impl AsRef<Path>, size: i64, dtype: DType) -> Result<Tensor> {
    let Ok(n) = usize::try_from(size) else {
        bail!(Runtime, "from_file: the size must not be negative, but is {size}");
    };
    TypedStorage::from_file(filename.as_ref(), n, dtype)?.tensor()
}
