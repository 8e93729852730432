//! Memory that processes share, and memory that one gives to another. The only place with `unsafe`: owners of mapped memory.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::storage::{HostMemory, Storage};
use flambeau_core::{Device, Error, Layout, Result, Tensor, backend, bail, ensure};
use memmap2::{MmapMut, MmapOptions};
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, SealFlags};
use std::any::Any;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// A file without a name.
pub(crate) fn anonymous() -> Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    Ok(rustix::fs::memfd_create("flambeau", flags).map_err(std::io::Error::from)?.into())
}
fn seal(f: &File, seals: SealFlags) -> Result<()> {
    Ok(rustix::fs::fcntl_add_seals(f, seals).map_err(std::io::Error::from)?)
}
/// Nobody can change the file any more, whoever has it.
pub(crate) fn freeze(f: &File) -> Result<()> {
    seal(f, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL)
}

/// Which file shared memory is.
pub(crate) struct Mark(pub File);

/// Mapped memory as a tensor's.
struct Segment {
    /// Unmaps when it is dropped.
    _map: MmapMut,
    ptr: *mut u8,
    nbytes: usize,
    mark: Option<Arc<Mark>>,
}
// SAFETY: the map may be dropped on any thread; `ptr` is only handed out by `HostMemory`, to be used under the storage's lock.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}
// SAFETY: the map lives as long as the value and does not move; `ptr` lies at a multiple of 64 in it, with `nbytes` behind it, which
// cannot be cut off (both kinds are sealed against shrinking). Nobody else writes: memory that came with a message is a private
// map of a file sealed against writing, and for shared memory the caller of `share_memory_` promised it.
unsafe impl HostMemory for Segment {
    fn as_ptr(&self) -> *mut u8 {
        self.ptr
    }
    fn nbytes(&self) -> usize {
        self.nbytes
    }
    fn mark(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(self.mark.clone()? as Arc<dyn Any + Send + Sync>)
    }
}

/// Part of a frozen file as memory: pages are copied when they are written to.
pub(crate) fn private(file: &File, offset: u64, nbytes: usize) -> Result<Storage> {
    let seals = rustix::fs::fcntl_get_seals(file).map_err(std::io::Error::from)?;
    ensure!(
        seals.contains(SealFlags::SHRINK | SealFlags::WRITE),
        Serialization,
        "a message whose memory can still change"
    );
    let end = offset.checked_add(nbytes as u64);
    ensure!(
        offset.is_multiple_of(64) && end.is_some_and(|e| file.metadata().is_ok_and(|m| e <= m.len())),
        Serialization,
        "a message whose tensors leave its memory"
    );
    if nbytes == 0 {
        return Storage::empty(0, Device::Cpu);
    }
    // SAFETY: the file is sealed, so its bytes and its length stay; writes go to pages of this process.
    let mut map = unsafe { MmapOptions::new().offset(offset).len(nbytes).map_copy(file)? };
    let ptr = map.as_mut_ptr();
    Ok(Storage::of_host_memory(Box::new(Segment { _map: map, ptr, nbytes, mark: None })))
}

fn shared_segment(file: File, nbytes: usize) -> Result<Segment> {
    // SAFETY: sealed against shrinking, which is checked or was just done; that nobody else writes is the promise of `share_memory_`.
    let mut map = unsafe { MmapOptions::new().len(nbytes.max(1)).map_mut(&file)? };
    let ptr = map.as_mut_ptr();
    Ok(Segment { _map: map, ptr, nbytes, mark: Some(Arc::new(Mark(file))) })
}
/// Memory that another process shares.
pub(crate) fn open_shared(file: File, nbytes: usize) -> Result<Storage> {
    let seals = rustix::fs::fcntl_get_seals(&file).map_err(std::io::Error::from)?;
    ensure!(
        seals.contains(SealFlags::SHRINK) && !seals.contains(SealFlags::WRITE),
        Serialization,
        "this file is no shared memory of a tensor"
    );
    ensure!(
        nbytes as u64 <= file.metadata()?.len(),
        Serialization,
        "a message whose tensors leave their memory"
    );
    Ok(Storage::of_host_memory(Box::new(shared_segment(file, nbytes)?)))
}
/// The file of memory that is shared.
pub(crate) fn mark(storage: &Storage) -> Result<Option<Arc<Mark>>> {
    Ok(storage.mark()?.and_then(|m| m.downcast::<Mark>().ok()))
}
/// The storage of a tensor that can go to another process.
pub(crate) fn storage(t: &Tensor) -> Result<&Storage> {
    match (t.device(), t.layout()) {
        (Device::Cpu, Layout::Strided) if t.quantizer().is_none() => Ok(t.storage()),
        (Device::Cpu, layout) => {
            bail!(Missing, "tensors of layout {layout:?} or quantized ones between processes")
        }
        (Device::Meta, _) => bail!(Missing, "tensors on meta between processes"),
        (_, Layout::Strided) if t.quantizer().is_none() => Ok(t.storage()),
        (other, layout) => bail!(Missing, "tensors on {other} of layout {layout:?} between processes"),
    }
}

/// Moves the tensor's memory to where other processes can have it too; its other tensors move with it. Nothing happens where it is
/// shared already. Such memory cannot be resized.
///
/// ```
/// use torch::multiprocessing as mp;
/// let x = torch::zeros([4]);
/// assert!(!mp::is_shared(&x));
/// // SAFETY: no other process gets it
/// unsafe { mp::share_memory_(&x)? };
/// assert!(mp::is_shared(&x));
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Safety
/// Locks order the operators of one process, not those of several. While one process that has this memory writes to an element, by an
/// operator on it, no other may read or write this element: the program orders them, by queues or by waiting for processes.
///
/// # Errors
/// Tensors that are not dense or not on the CPU (`Missing`); memory that is borrowed; no memory.
#[doc(alias = "torch.Tensor.share_memory_")]
pub unsafe fn share_memory_(t: &Tensor) -> Result<&Tensor> {
    let s = storage(t)?;
    // memory of a device is shared by whoever sends it
    if t.device() == Device::Cpu && mark(s)?.is_none() {
        let (file, nbytes) = (anonymous()?, s.nbytes());
        file.set_len(nbytes.max(1) as u64)?;
        seal(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        s.move_into(Box::new(shared_segment(file, nbytes)?))?;
    }
    Ok(t)
}
/// Whether other processes can have the tensor's memory.
#[doc(alias = "torch.Tensor.is_shared")]
pub fn is_shared(t: &Tensor) -> bool {
    t.device() != Device::Cpu && storage(t).is_ok() || storage(t).and_then(mark).is_ok_and(|m| m.is_some())
}

/// Memory of a device as bytes for another process, and what that process has to keep for as long as it has the memory.
pub(crate) fn share_on_device(storage: &Storage) -> Result<(Vec<u8>, OwnedFd)> {
    let (here, there) = crate::queue::line()?;
    // nobody writes to the line: it ends when the last process that has the other end lets it go
    let used = move || !crate::wire::ready(&here, Some(Duration::ZERO)).unwrap_or(true);
    let handle = storage.handle()?;
    let handle = handle.ok_or_else(|| Error::missing("memory of this device between processes"))?;
    Ok((backend::of(storage.device())?.share(&handle, Box::new(used))?, there))
}
/// Memory of a device that another process shares.
pub(crate) fn open_on_device(device: Device, nbytes: usize, bytes: &[u8], kept: OwnedFd) -> Result<Storage> {
    let handle = backend::of(device)?.open(device, bytes, Box::new(kept))?;
    Ok(Storage::of_handle(handle, nbytes, device))
}

/// Writes zeros up to a multiple of 64.
pub(crate) fn pad(file: &mut File, at: u64) -> Result<u64> {
    let to = at.next_multiple_of(64);
    file.write_all(&[0; 64][..(to - at) as usize])?;
    Ok(to)
}
/// Appends the bytes of a storage to a file that is at `at`.
pub(crate) fn append(file: &mut File, storage: &Storage) -> Result<()> {
    storage.read_blocks(|b| file.write_all(b).map_err(Error::from))
}
