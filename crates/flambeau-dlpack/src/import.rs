//! Tensors of other libraries.

use crate::structures::{
    DLDeviceType, DLManagedTensor, DLManagedTensorVersioned, DLTensor, FLAG_READ_ONLY, VERSION,
};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::storage::{HostMemory, Storage};
use flambeau_core::{Error, Result, Tensor, bail, ensure};

/// A structure that is given back when it is dropped.
enum Owned {
    Versioned(*mut DLManagedTensorVersioned),
    Legacy(*mut DLManagedTensor),
}
impl Drop for Owned {
    fn drop(&mut self) {
        match *self {
            Owned::Versioned(m) => {
                // SAFETY: the caller of `from_dlpack` promised a structure that is ours; it is given back here alone.
                if let Some(f) = unsafe { (*m).deleter } {
                    // SAFETY: as above.
                    unsafe { f(m) };
                }
            }
            Owned::Legacy(m) => {
                // SAFETY: the caller of `from_dlpack_legacy` promised as above.
                if let Some(f) = unsafe { (*m).deleter } {
                    // SAFETY: as above.
                    unsafe { f(m) };
                }
            }
        }
    }
}
struct Foreign {
    _owner: Owned,
    ptr: *mut u8,
    nbytes: usize,
}
// SAFETY: DLPack allows the deleter on any thread, and `ptr` is only used under the storage's lock.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}
// SAFETY: the memory lives until the deleter is called, by `_owner`'s drop; that nobody else writes to it meanwhile is the promise of
// `from_dlpack`; `tensor` checked the alignment.
unsafe impl HostMemory for Foreign {
    fn as_ptr(&self) -> *mut u8 {
        self.ptr
    }
    fn nbytes(&self) -> usize {
        self.nbytes
    }
}

/// A tensor over the memory of another library's, which gets it back when the last tensor of it is dropped. What may only be read, and
/// memory that is not aligned to 16 bytes, is copied.
///
/// The structure is taken over, also where this gives an error.
///
/// # Safety
/// `managed` is null or points to a structure as DLPack describes it, that the caller owns. As long as tensors of it live, nobody else
/// writes to the memory while an operator of this library uses it, nor reads it while one writes: its locks are known here alone.
///
/// # Errors
/// Null; another major version; memory that is not on the CPU (`Missing`); element types, sizes or strides that there are not here.
#[doc(alias = "torch.from_dlpack")]
#[doc(alias = "torch.utils.dlpack.from_dlpack")]
pub unsafe fn from_dlpack(managed: *mut DLManagedTensorVersioned) -> Result<Tensor> {
    ensure!(!managed.is_null(), Value, "from_dlpack received an invalid capsule");
    let owner = Owned::Versioned(managed);
    // SAFETY: the caller's promise.
    let (version, flags) = unsafe { ((*managed).version, (*managed).flags) };
    ensure!(
        version.major <= VERSION.major,
        Runtime,
        "from_dlpack received a tensor of DLPack {}.{}, which is newer than {}.{}",
        version.major,
        version.minor,
        VERSION.major,
        VERSION.minor
    );
    // SAFETY: the caller's promise; the structure lives as long as `owner`.
    unsafe { tensor(&raw const (*managed).dl_tensor, owner, flags & FLAG_READ_ONLY != 0) }
}
/// As [`from_dlpack`], of a structure of the version before, `DLManagedTensor`.
///
/// ```
/// use torch::utils::dlpack::{from_dlpack_legacy, to_dlpack};
/// let managed = to_dlpack(&torch::arange(3))?.into_raw_legacy();
/// // SAFETY: the structure was just made, and nobody else has it
/// let x = unsafe { from_dlpack_legacy(managed)? };
/// assert_eq!(x.to_vec::<i64>(), [0, 1, 2]);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Safety
/// As there.
///
/// # Errors
/// As there.
pub unsafe fn from_dlpack_legacy(managed: *mut DLManagedTensor) -> Result<Tensor> {
    ensure!(!managed.is_null(), Value, "from_dlpack received an invalid capsule");
    let owner = Owned::Legacy(managed);
    // SAFETY: as in `from_dlpack`.
    unsafe { tensor(&raw const (*managed).dl_tensor, owner, false) }
}

/// # Safety
/// `t` points into what `owner` owns, with the promise of [`from_dlpack`].
unsafe fn tensor(t: *const DLTensor, owner: Owned, read_only: bool) -> Result<Tensor> {
    // SAFETY: the caller's promise.
    let t = unsafe { &*t };
    if t.device.device_type != DLDeviceType::kDLCPU {
        bail!(Missing, "DLPack of tensors on devices of kind {}", t.device.device_type.0);
    }
    let dtype = t.dtype.dtype()?;
    let rank =
        usize::try_from(t.ndim).map_err(|_| Error::value("a DLPack tensor of less than no dimensions"))?;
    ensure!(rank == 0 || !t.shape.is_null(), Value, "a DLPack tensor without a shape");
    // SAFETY: DLPack: `shape` has `ndim` numbers, and so has `strides` where it is not null.
    let list = |p: *mut i64| unsafe { std::slice::from_raw_parts(p, rank) }.to_vec();
    let sizes = if rank == 0 { Vec::new() } else { list(t.shape) };
    let strides = match rank {
        0 => Vec::new(),
        _ if t.strides.is_null() => row_major(&sizes)?,
        _ => list(t.strides),
    };
    ensure!(sizes.iter().all(|n| *n >= 0), Value, "a DLPack tensor of negative sizes");
    ensure!(
        strides.iter().all(|n| *n >= 0),
        Value,
        "as_strided: Negative strides are not supported at the moment"
    );
    let nbytes =
        span(&sizes, &strides, dtype.size()).ok_or_else(|| Error::value("a DLPack tensor too large"))?;
    if nbytes == 0 {
        return Tensor::empty_raw(&sizes, dtype, flambeau_core::Device::Cpu);
    }
    ensure!(!t.data.is_null(), Value, "a DLPack tensor without memory");
    // SAFETY: the first element lies within the memory.
    let ptr = unsafe { t.data.cast::<u8>().add(t.byte_offset as usize) };
    let storage = if read_only || !(ptr as usize).is_multiple_of(16) {
        // SAFETY: the elements reach over so many bytes, and nobody writes to them meanwhile.
        Storage::of_bytes(unsafe { std::slice::from_raw_parts(ptr, nbytes) })?
    } else {
        Storage::of_host_memory(Box::new(Foreign { _owner: owner, ptr, nbytes }))
    };
    Tensor::from_storage(&storage, &sizes, &strides, 0, dtype)
}
fn row_major(sizes: &[i64]) -> Result<Vec<i64>> {
    let mut strides = vec![1i64; sizes.len()];
    for i in (0..sizes.len().saturating_sub(1)).rev() {
        let next = strides[i + 1].checked_mul(sizes[i + 1].max(1));
        strides[i] = next.ok_or_else(|| Error::value("a DLPack tensor too large"))?;
    }
    Ok(strides)
}
/// Bytes from the first element to the end of the last.
fn span(sizes: &[i64], strides: &[i64], size: usize) -> Option<usize> {
    if sizes.contains(&0) {
        return Some(0);
    }
    let mut last = 0i64;
    for (n, s) in sizes.iter().zip(strides) {
        last = last.checked_add((n - 1).checked_mul(*s)?)?;
    }
    usize::try_from(last).ok()?.checked_add(1)?.checked_mul(size)
}
