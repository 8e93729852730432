//! What the other crates of the workspace need of core and no program does: no part of the API, and free to change.
//!
//! A [`Tensor`] has the documentation's methods and a few of Rust's own. Raw constructors, storages, and what the gradient
//! engine keeps of a tensor are methods too, but those of a trait that only core implements.

use crate::tensor::graph::Edge;
use crate::tensor::handle::{LazyBits, Tensor};
use crate::tensor::quantized::Quantizer;
use crate::tensor::sparse::Parts;
use crate::tensor::storage::Storage;
use crate::tensor::wrapper::{Shown, Wrapped};
use crate::types::device::Device;
use crate::types::error::Result;
use crate::types::keys::{Key, KeySet};
use crate::types::layout::Layout;
use crate::types::names::Names;
use crate::{DType, Element};
use std::any::Any;
use std::sync::Arc;

pub use crate::backend::cpu::access::Access;
pub use crate::text::digits;
pub use crate::types::thread_keys::{below, effective, excluding, including, set_inference};

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::Tensor {}
}

/// A tensor's memory, keys and history, unguarded by operators.
pub trait RawTensor: sealed::Sealed + Sized {
    /// A fresh tensor with any bytes in it.
    ///
    /// # Errors
    /// Negative or absurd sizes, no memory.
    fn empty_strided_raw(sizes: &[i64], strides: &[i64], dtype: DType, device: Device) -> Result<Tensor>;
    /// A fresh contiguous tensor with any bytes in it.
    fn empty_raw(sizes: &[i64], dtype: DType, device: Device) -> Result<Tensor>;
    /// A fresh contiguous tensor of zero bytes.
    fn zeros_raw(sizes: &[i64], dtype: DType, device: Device) -> Result<Tensor>;
    /// A tensor over existing storage.
    ///
    /// # Errors
    /// When the geometry leaves the storage.
    fn from_storage(
        storage: &Storage,
        sizes: &[i64],
        strides: &[i64],
        offset: i64,
        dtype: DType,
    ) -> Result<Tensor>;
    /// A tensor that owns a vector's elements, without copying.
    ///
    /// # Errors
    /// When the number of elements does not match.
    fn from_vec_raw<T: Element>(v: Vec<T>, sizes: &[i64]) -> Result<Tensor>;
    /// A zero-dim tensor of one element.
    fn scalar_raw<T: Element>(v: T) -> Result<Tensor>;
    /// The same, counted as a Python number in type promotion.
    fn wrapped_raw<T: Element>(v: T) -> Result<Tensor>;
    /// Another geometry over the same memory: how every view is made. The result remembers its root tensor.
    ///
    /// # Errors
    /// When the geometry leaves the storage.
    fn view_raw(&self, sizes: impl AsRef<[i64]>, strides: impl AsRef<[i64]>, offset: i64) -> Result<Tensor>;
    /// The same, with another dtype or other lazy bits.
    fn view_typed(
        &self,
        sizes: impl AsRef<[i64]>,
        strides: impl AsRef<[i64]>,
        offset: i64,
        dtype: DType,
        bits: LazyBits,
    ) -> Result<Tensor>;
    /// The same memory and geometry as a tensor of its own: no view, no history (`detach`).
    fn alias_detached(&self) -> Tensor;
    /// The same memory as a parameter: a leaf of its own that prints as one. No view of it is a parameter.
    fn alias_parameter(&self) -> Tensor;
    /// Whether it was made by [`RawTensor::alias_parameter`].
    fn is_parameter(&self) -> bool;
    /// The same tensor counted as a Python number in type promotion.
    fn into_wrapped_number(self) -> Tensor;
    /// The root tensor that a view was made of, or the tensor itself.
    fn root(&self) -> &Tensor;
    /// The tensor that this one is a view of (`_base`).
    fn view_base(&self) -> Option<&Tensor>;
    /// The memory.
    fn storage(&self) -> &Storage;
    /// Both lazy bits.
    fn lazy_bits(&self) -> LazyBits;
    /// Made of a number, for type promotion.
    fn is_wrapped_number(&self) -> bool;
    /// Number of handles on this tensor.
    fn handle_count(&self) -> usize;
    /// `_version` as Python sees it.
    ///
    /// # Errors
    /// Inference tensors have none.
    fn try_version(&self) -> Result<u32>;
    /// Number of in-place writes to the storage so far (`_version`).
    fn version(&self) -> u32;
    /// Dispatch keys.
    fn key_set(&self) -> KeySet;
    /// Sets or clears a key of this tensor. Every handle sees it.
    fn set_key(&self, k: Key, on: bool);
    /// The gradient edge that the tensor was made with. In-place writes may have rewritten it: the engine knows.
    fn first_edge(&self) -> Option<&Edge>;
    /// Gives a tensor its history. Only the first call counts.
    fn set_first_edge(&self, e: Edge) -> bool;
    /// As [`RawTensor::set_first_edge`] without synchronisation, for a tensor that has just been made; gives the edge back
    /// if there are other handles, or the engine already keeps data of this tensor.
    fn set_edge_of_new(&mut self, e: Edge) -> Option<Edge>;
    /// Bits that belong to the engine.
    fn engine_bits(&self) -> u8;
    /// Sets or clears bits of the engine.
    fn set_engine_bits(&self, bits: u8, on: bool);
    /// The engine's data of this tensor.
    fn autograd_state(&self) -> Option<&(dyn Any + Send + Sync)>;
    /// The engine's data of this tensor, made by `init` at the first call.
    fn autograd_state_or_init(
        &self,
        init: impl FnOnce() -> Box<dyn Any + Send + Sync>,
    ) -> &(dyn Any + Send + Sync);
    /// A sparse tensor of these parts, which it shares. The indices are taken as they are.
    ///
    /// # Errors
    /// Parts that do not agree with each other or with the sizes.
    fn from_sparse_parts(sizes: &[i64], layout: Layout, parts: Parts) -> Result<Tensor>;
    /// What the tensor is made of, if it is sparse.
    fn sparse_parts(&self) -> Option<Parts>;
    /// Puts other parts into a sparse tensor: how operators in place change it. Every handle sees it.
    ///
    /// # Errors
    /// Strided tensors; parts that do not agree with the tensor's sizes and dtype.
    fn set_sparse_parts(&self, parts: Parts) -> Result<()>;
    /// Any layout but strided.
    fn is_sparse_any(&self) -> bool;
    /// A tensor that is made of others.
    ///
    /// # Errors
    /// No memory.
    fn wrap(shown: &Shown<'_>, inner: Arc<dyn Wrapped>) -> Result<Tensor>;
    /// What it is made of, if it is a wrapper.
    fn wrapped(&self) -> Option<&Arc<dyn Wrapped>>;
    /// Made of other tensors, which have the memory and the gradients.
    fn is_wrapper(&self) -> bool;
    /// A quantized tensor over the memory of a tensor of integers, with its sizes and strides. Where several elements stand in
    /// a byte, the integers are the packed bytes, and `sizes` those of the tensor.
    ///
    /// # Errors
    /// A dtype that is not quantized, or has other integers; parameters that do not fit each other; too few bytes.
    fn from_integers(
        integers: &Tensor,
        sizes: &[i64],
        dtype: DType,
        quantizer: Arc<Quantizer>,
    ) -> Result<Tensor>;
    /// A fresh quantized tensor with any integers in it.
    ///
    /// # Errors
    /// As [`RawTensor::from_integers`]; negative or absurd sizes, no memory.
    fn empty_quantized(
        sizes: &[i64],
        strides: Option<&[i64]>,
        dtype: DType,
        quantizer: Arc<Quantizer>,
    ) -> Result<Tensor>;
    /// The rule, if the tensor is quantized.
    fn quantizer(&self) -> Option<Arc<Quantizer>>;
    /// Puts another rule into a quantized tensor. Every handle sees it; views keep their own.
    ///
    /// # Errors
    /// Tensors that are not quantized, parameters that do not fit each other.
    fn set_quantizer(&self, new: Arc<Quantizer>) -> Result<()>;
    /// The memory of a quantized tensor as a plain tensor of its integers: the same sizes and strides, or, where several
    /// elements stand in a byte, the bytes in one dimension. What is written to it shows in the quantized tensor.
    ///
    /// # Errors
    /// Tensors that are not quantized.
    fn integers(&self) -> Result<Tensor>;
    /// Gives the dimensions names, or takes them away. Every handle sees it.
    ///
    /// # Errors
    /// Names that a tensor of so many dimensions cannot have.
    fn set_dim_names(&self, names: Names) -> Result<()>;
    /// The names that a tensor gets by a list, in which `"..."` stands for those that it keeps.
    ///
    /// # Errors
    /// Two of them.
    fn renamed(&self, names: Names, function: &str) -> Result<Names>;
    /// Its names with some of them exchanged: pairs of the old and the new one.
    ///
    /// # Errors
    /// No dimension has the old name.
    fn replaced(&self, pairs: &[(&str, Option<&str>)], function: &str) -> Result<Names>;
    /// A view of the same elements without names.
    ///
    /// # Errors
    /// None that is known.
    fn unnamed_alias(&self) -> Result<Tensor>;
    /// Joins a range of dimensions into one with a name.
    ///
    /// # Errors
    /// Those of `flatten`.
    fn flatten_range(&self, first: i64, last: i64, out_dim: &str) -> Result<Tensor>;
    /// Takes a dimension apart into dimensions of these names and sizes.
    ///
    /// # Errors
    /// Those of `unflatten`.
    fn try_unflatten_at(&self, dim: i64, sizes: &[(&str, i64)]) -> Result<Tensor>;
}

impl RawTensor for Tensor {
    #[inline(always)]
    fn empty_strided_raw(sizes: &[i64], strides: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
        Tensor::empty_strided_raw(sizes, strides, dtype, device)
    }
    #[inline(always)]
    fn empty_raw(sizes: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
        Tensor::empty_raw(sizes, dtype, device)
    }
    #[inline(always)]
    fn zeros_raw(sizes: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
        Tensor::zeros_raw(sizes, dtype, device)
    }
    #[inline(always)]
    fn from_storage(
        storage: &Storage,
        sizes: &[i64],
        strides: &[i64],
        offset: i64,
        dtype: DType,
    ) -> Result<Tensor> {
        Tensor::from_storage(storage, sizes, strides, offset, dtype)
    }
    #[inline(always)]
    fn from_vec_raw<T: Element>(v: Vec<T>, sizes: &[i64]) -> Result<Tensor> {
        Tensor::from_vec_raw(v, sizes)
    }
    #[inline(always)]
    fn scalar_raw<T: Element>(v: T) -> Result<Tensor> {
        Tensor::scalar_raw(v)
    }
    #[inline(always)]
    fn wrapped_raw<T: Element>(v: T) -> Result<Tensor> {
        Tensor::wrapped_raw(v)
    }
    #[inline(always)]
    fn view_raw(&self, sizes: impl AsRef<[i64]>, strides: impl AsRef<[i64]>, offset: i64) -> Result<Tensor> {
        Tensor::view_raw(self, sizes, strides, offset)
    }
    #[inline(always)]
    fn view_typed(
        &self,
        sizes: impl AsRef<[i64]>,
        strides: impl AsRef<[i64]>,
        offset: i64,
        dtype: DType,
        bits: LazyBits,
    ) -> Result<Tensor> {
        Tensor::view_typed(self, sizes, strides, offset, dtype, bits)
    }
    #[inline(always)]
    fn alias_detached(&self) -> Tensor {
        Tensor::alias_detached(self)
    }
    #[inline(always)]
    fn alias_parameter(&self) -> Tensor {
        Tensor::alias_parameter(self)
    }
    #[inline(always)]
    fn is_parameter(&self) -> bool {
        Tensor::is_parameter(self)
    }
    #[inline(always)]
    fn into_wrapped_number(self) -> Tensor {
        Tensor::into_wrapped_number(self)
    }
    #[inline(always)]
    fn root(&self) -> &Tensor {
        Tensor::root(self)
    }
    #[inline(always)]
    fn view_base(&self) -> Option<&Tensor> {
        Tensor::view_base(self)
    }
    #[inline(always)]
    fn storage(&self) -> &Storage {
        Tensor::storage(self)
    }
    #[inline(always)]
    fn lazy_bits(&self) -> LazyBits {
        Tensor::lazy_bits(self)
    }
    #[inline(always)]
    fn is_wrapped_number(&self) -> bool {
        Tensor::is_wrapped_number(self)
    }
    #[inline(always)]
    fn handle_count(&self) -> usize {
        Tensor::handle_count(self)
    }
    #[inline(always)]
    fn try_version(&self) -> Result<u32> {
        Tensor::try_version(self)
    }
    #[inline(always)]
    fn version(&self) -> u32 {
        Tensor::version(self)
    }
    #[inline(always)]
    fn key_set(&self) -> KeySet {
        Tensor::key_set(self)
    }
    #[inline(always)]
    fn set_key(&self, k: Key, on: bool) {
        Tensor::set_key(self, k, on)
    }
    #[inline(always)]
    fn first_edge(&self) -> Option<&Edge> {
        Tensor::first_edge(self)
    }
    #[inline(always)]
    fn set_first_edge(&self, e: Edge) -> bool {
        Tensor::set_first_edge(self, e)
    }
    #[inline(always)]
    fn set_edge_of_new(&mut self, e: Edge) -> Option<Edge> {
        Tensor::set_edge_of_new(self, e)
    }
    #[inline(always)]
    fn engine_bits(&self) -> u8 {
        Tensor::engine_bits(self)
    }
    #[inline(always)]
    fn set_engine_bits(&self, bits: u8, on: bool) {
        Tensor::set_engine_bits(self, bits, on)
    }
    #[inline(always)]
    fn autograd_state(&self) -> Option<&(dyn Any + Send + Sync)> {
        Tensor::autograd_state(self)
    }
    #[inline(always)]
    fn autograd_state_or_init(
        &self,
        init: impl FnOnce() -> Box<dyn Any + Send + Sync>,
    ) -> &(dyn Any + Send + Sync) {
        Tensor::autograd_state_or_init(self, init)
    }
    #[inline(always)]
    fn from_sparse_parts(sizes: &[i64], layout: Layout, parts: Parts) -> Result<Tensor> {
        Tensor::from_sparse_parts(sizes, layout, parts)
    }
    #[inline(always)]
    fn sparse_parts(&self) -> Option<Parts> {
        Tensor::sparse_parts(self)
    }
    #[inline(always)]
    fn set_sparse_parts(&self, parts: Parts) -> Result<()> {
        Tensor::set_sparse_parts(self, parts)
    }
    #[inline(always)]
    fn is_sparse_any(&self) -> bool {
        Tensor::is_sparse_any(self)
    }
    fn wrap(shown: &Shown<'_>, inner: Arc<dyn Wrapped>) -> Result<Tensor> {
        Tensor::wrap(shown, inner)
    }
    #[inline(always)]
    fn wrapped(&self) -> Option<&Arc<dyn Wrapped>> {
        Tensor::wrapped(self)
    }
    #[inline(always)]
    fn is_wrapper(&self) -> bool {
        Tensor::is_wrapper(self)
    }
    #[inline(always)]
    fn from_integers(
        integers: &Tensor,
        sizes: &[i64],
        dtype: DType,
        quantizer: Arc<Quantizer>,
    ) -> Result<Tensor> {
        Tensor::from_integers(integers, sizes, dtype, quantizer)
    }
    #[inline(always)]
    fn empty_quantized(
        sizes: &[i64],
        strides: Option<&[i64]>,
        dtype: DType,
        quantizer: Arc<Quantizer>,
    ) -> Result<Tensor> {
        Tensor::empty_quantized(sizes, strides, dtype, quantizer)
    }
    #[inline(always)]
    fn quantizer(&self) -> Option<Arc<Quantizer>> {
        Tensor::quantizer(self)
    }
    #[inline(always)]
    fn set_quantizer(&self, new: Arc<Quantizer>) -> Result<()> {
        Tensor::set_quantizer(self, new)
    }
    #[inline(always)]
    fn integers(&self) -> Result<Tensor> {
        Tensor::integers(self)
    }
    fn set_dim_names(&self, names: Names) -> Result<()> {
        Tensor::set_dim_names(self, names)
    }
    fn renamed(&self, names: Names, function: &str) -> Result<Names> {
        Tensor::renamed(self, names, function)
    }
    fn replaced(&self, pairs: &[(&str, Option<&str>)], function: &str) -> Result<Names> {
        Tensor::replaced(self, pairs, function)
    }
    fn unnamed_alias(&self) -> Result<Tensor> {
        Tensor::unnamed_alias(self)
    }
    fn flatten_range(&self, first: i64, last: i64, out_dim: &str) -> Result<Tensor> {
        Tensor::flatten_range(self, first, last, out_dim)
    }
    fn try_unflatten_at(&self, dim: i64, sizes: &[(&str, i64)]) -> Result<Tensor> {
        Tensor::try_unflatten_at(self, dim, sizes)
    }
}
