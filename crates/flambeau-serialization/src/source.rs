//! The seam to a tensor type.

use crate::error::{Error, Result};
use crate::torch_format::{StorageInfo, TensorRef};
use flambeau_dtype::DType;
use std::io::Write;

/// A tensor that can be written. Strides and offset count elements.
pub trait TensorSource {
    /// Element type.
    fn dtype(&self) -> DType;
    /// Size of each dimension.
    fn sizes(&self) -> Vec<i64>;
    /// Stride of each dimension, in elements.
    fn strides(&self) -> Vec<i64>;
    /// First element, counted from the start of the storage.
    fn storage_offset(&self) -> i64;
    /// Equal for two tensors exactly when they share a storage.
    fn storage_id(&self) -> usize;
    /// Equal for two handles to one tensor object, which is then written once; by default each tensor is
    /// its own object.
    fn object_id(&self) -> Option<usize> {
        None
    }
    /// Size of the whole storage in bytes.
    fn storage_nbytes(&self) -> usize;
    /// Calls `f` once with the bytes of the whole storage.
    fn with_storage_bytes(&self, f: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;
    /// Calls `f` with the bytes of the whole storage, piece by piece. What `f` does must not keep anybody from the storage.
    fn with_storage_blocks(&self, f: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.with_storage_bytes(f)
    }
    /// Where the storage was, as in `cpu` or `cuda:0`.
    fn location(&self) -> String {
        "cpu".to_owned()
    }
    /// Whether it has a shape only: then no storage is asked for.
    fn is_meta(&self) -> bool {
        false
    }
    /// Whether gradients are wanted.
    fn requires_grad(&self) -> bool {
        false
    }
    /// Whether to write it as `torch.nn.Parameter`.
    fn is_parameter(&self) -> bool {
        false
    }
    /// Lazily conjugated.
    fn is_conj(&self) -> bool {
        false
    }
    /// Lazily negated.
    fn is_neg(&self) -> bool {
        false
    }
}

/// Where a value holds no tensors.
impl TensorSource for std::convert::Infallible {
    fn dtype(&self) -> DType {
        match *self {}
    }
    fn sizes(&self) -> Vec<i64> {
        match *self {}
    }
    fn strides(&self) -> Vec<i64> {
        match *self {}
    }
    fn storage_offset(&self) -> i64 {
        match *self {}
    }
    fn storage_id(&self) -> usize {
        match *self {}
    }
    fn storage_nbytes(&self) -> usize {
        match *self {}
    }
    fn with_storage_bytes(&self, _: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match *self {}
    }
}

/// Builds storages and tensors while a file is read.
pub trait TensorSink {
    /// A storage of the caller.
    type Storage;
    /// A tensor of the caller.
    type Tensor: Clone;
    /// Makes a storage of `info.nbytes` bytes and has `fill` write its contents, unless they are not wanted or
    /// taken from the file at `info.file_offset`. It is called once per storage; the bytes are in the machine's
    /// byte order. `info` may claim at most what the file holds.
    fn storage(
        &mut self,
        info: &StorageInfo,
        fill: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<Self::Storage>;
    /// Makes a tensor over a storage; the geometry was checked to lie inside it.
    fn tensor(&mut self, storage: &Self::Storage, tensor: &TensorRef) -> Result<Self::Tensor>;
    /// Makes a tensor on the meta device, which has no storage.
    fn meta(&mut self, tensor: &TensorRef) -> Result<Self::Tensor> {
        let _ = tensor;
        Err(Error::Missing("tensors on the meta device".into()))
    }
}

/// Bytes a storage needs so that all elements of this geometry lie inside it.
///
/// # Errors
/// [`Error::Malformed`] for negative values, unequal lengths, or numbers that overflow.
pub fn required_bytes(sizes: &[i64], strides: &[i64], offset: i64, element: usize) -> Result<usize> {
    let bad =
        || Error::malformed(format!("tensor geometry: size {sizes:?}, stride {strides:?}, offset {offset}"));
    if sizes.len() != strides.len() || offset < 0 || sizes.iter().chain(strides).any(|&v| v < 0) {
        return Err(bad());
    }
    // The element count itself must fit even when one size is 0, or later products overflow.
    sizes
        .iter()
        .filter(|&&n| n != 0)
        .try_fold(element as i64, |n, &size| n.checked_mul(size))
        .ok_or_else(bad)?;
    if sizes.contains(&0) {
        return Ok(0);
    }
    let mut last = offset;
    for (&size, &stride) in sizes.iter().zip(strides) {
        last = (size - 1).checked_mul(stride).and_then(|v| v.checked_add(last)).ok_or_else(bad)?;
    }
    let end = last.checked_add(1).and_then(|v| v.checked_mul(element as i64)).ok_or_else(bad)?;
    usize::try_from(end).map_err(|_| bad())
}

/// Writes the elements of a tensor in row-major order: those that lie so as they are read, others from a copy.
pub(crate) fn write_elements<T: TensorSource>(
    t: &T,
    sizes: &[i64],
    strides: &[i64],
    out: &mut dyn Write,
) -> Result<()> {
    let (element, offset) = (t.dtype().size(), t.storage_offset());
    let end = required_bytes(sizes, strides, offset, element)?;
    let mut step = 1;
    let dense = sizes.iter().zip(strides).rev().all(|(n, s)| {
        let fits = *n == 1 || *s == step;
        step *= n;
        fits
    });
    if !dense || end == 0 {
        return t.with_storage_bytes(&mut |b| copy_contiguous(b, sizes, strides, offset, element, out));
    }
    if end > t.storage_nbytes() {
        return Err(Error::malformed("a tensor that leaves its storage"));
    }
    let (start, mut at) = (offset as usize * element, 0);
    t.with_storage_blocks(&mut |b| {
        let part = start.max(at)..end.min(at + b.len());
        if part.start < part.end {
            out.write_all(&b[part.start - at..part.end - at])?;
        }
        at += b.len();
        Ok(())
    })
}

/// Writes the elements of a strided tensor in row-major order.
///
/// # Errors
/// [`Error::Malformed`] when the geometry leaves `bytes`; errors of `out`.
pub fn copy_contiguous(
    bytes: &[u8],
    sizes: &[i64],
    strides: &[i64],
    offset: i64,
    element: usize,
    out: &mut dyn Write,
) -> Result<()> {
    if required_bytes(sizes, strides, offset, element)? > bytes.len() {
        return Err(Error::malformed("tensor geometry reaches beyond its storage"));
    }
    if sizes.contains(&0) {
        return Ok(());
    }
    // The longest tail of dimensions that is contiguous is copied as one run.
    let (mut outer, mut run) = (sizes.len(), 1i64);
    while outer > 0 && (sizes[outer - 1] == 1 || strides[outer - 1] == run) {
        run *= sizes[outer - 1];
        outer -= 1;
    }
    let run_bytes = run as usize * element;
    let mut index = vec![0i64; outer];
    let mut at = offset;
    loop {
        let start = at as usize * element;
        out.write_all(&bytes[start..start + run_bytes])?;
        let mut d = outer;
        loop {
            if d == 0 {
                return Ok(());
            }
            d -= 1;
            index[d] += 1;
            at += strides[d];
            if index[d] < sizes[d] {
                break;
            }
            at -= strides[d] * sizes[d];
            index[d] = 0;
        }
    }
}
