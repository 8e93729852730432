//! Untyped memory that tensors share. It knows no operators.

use crate::backend::{self, Handle};
use crate::tensor::geometry;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::order::Mutex;
use flambeau_memory::{Block, Busy, Shared, StorageLock, pool};
use std::any::Any;
use std::cell::UnsafeCell;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

/// A handle on memory; clones share it (`torch.UntypedStorage`).
#[derive(Clone)]
pub struct Storage(Shared<StorageImpl>);

/// Who frees the memory.
#[allow(dead_code, reason = "owners are only dropped")]
enum Owner {
    Pool(Block),
    /// A vector, part of a mapped file, [`HostMemory`], or a back end's [`Handle`]: one variant, since every tensor that is
    /// dropped passes by here.
    Foreign(Box<dyn Any + Send + Sync>),
    /// No data: the meta device.
    None,
}

/// Memory of the host that somebody else owns: pinned, shared, another library's. Dropping it frees it.
///
/// # Safety
/// For as long as the value lives, [`HostMemory::as_ptr`] gives the same address of [`HostMemory::nbytes`] initialised bytes,
/// aligned to 16, that nobody else reads or writes.
pub unsafe trait HostMemory: Send + Sync + 'static {
    /// The first byte.
    fn as_ptr(&self) -> *mut u8;
    /// Number of bytes.
    fn nbytes(&self) -> usize;
    /// What its owner knows it by; memory with a mark cannot be resized.
    fn mark(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }
}

pub(crate) struct StorageImpl {
    ptr: UnsafeCell<*mut u8>,
    nbytes: AtomicUsize,
    lock: StorageLock,
    /// Writes through [`Apart`], which other tensors do not count.
    silent: AtomicU32,
    device: Device,
    owner: UnsafeCell<Owner>,
}
// SAFETY: `ptr` and `owner` are written only under an exclusive kernel hold of `lock` (see `grow`), and the bytes behind
// them are read and written only under holds of `lock`.
unsafe impl Send for StorageImpl {}
// SAFETY: as for Send.
unsafe impl Sync for StorageImpl {}

pub(crate) fn busy(b: Busy) -> Error {
    Error::storage(b.to_string())
}

impl Storage {
    /// Uninitialised in the sense of `torch.empty`: the bytes are some valid bytes, but any.
    #[inline]
    pub fn empty(nbytes: usize, device: Device) -> Result<Storage> {
        if device != Device::Cpu {
            return Self::without_memory(nbytes, device);
        }
        let Some(b) = pool::alloc(nbytes) else { return Err(geometry::too_large(nbytes)) };
        Ok(Self::of_block(b, nbytes))
    }
    /// All bytes zero.
    pub fn zeroed(nbytes: usize, device: Device) -> Result<Storage> {
        if device == Device::Cpu {
            return Ok(Self::of_block(
                pool::alloc_zeroed(nbytes).ok_or_else(|| geometry::too_large(nbytes))?,
                nbytes,
            ));
        }
        let s = Self::without_memory(nbytes, device)?;
        if let Some(memory) = s.handle()? {
            backend::of(device)?.clear(&memory, nbytes)?;
        }
        Ok(s)
    }
    /// Memory of a device by its back end's handle.
    pub fn of_handle(memory: Handle, nbytes: usize, device: Device) -> Storage {
        Self::new(std::ptr::null_mut(), Owner::Foreign(Box::new(memory)), nbytes, device)
    }
    /// Memory of the host that somebody brings.
    pub fn of_host_memory(memory: Box<dyn HostMemory>) -> Storage {
        let (ptr, nbytes) = (memory.as_ptr(), memory.nbytes());
        Self::new(ptr, Owner::Foreign(Box::new(memory)), nbytes, Device::Cpu)
    }
    /// Moves the content into memory of the host that somebody brings, for all tensors of this storage.
    ///
    /// # Errors
    /// Memory of another device, or too little of it; borrowed by a user's guard.
    pub fn move_into(&self, memory: Box<dyn HostMemory>) -> Result<()> {
        if self.0.device != Device::Cpu {
            return Err(Error::device(format!(
                "the memory is on {}: copy it to the CPU first",
                self.0.device
            )));
        }
        let (ptr, room) = (memory.as_ptr(), memory.nbytes());
        let hold = flambeau_memory::Holds::one(&self.0.lock, true).map_err(busy)?;
        let n = self.nbytes();
        if room < n {
            return Err(Error::storage(format!("{n} bytes do not fit into {room}")));
        }
        // SAFETY: exclusive hold; the new memory has room for `n` bytes and nobody else reads or writes it (`HostMemory`).
        let before = unsafe {
            std::ptr::copy_nonoverlapping(self.ptr(), ptr, n);
            *self.0.ptr.get() = ptr;
            std::mem::replace(&mut *self.0.owner.get(), Owner::Foreign(Box::new(memory)))
        };
        // somebody else's memory may run their code when it goes, which no hold may see
        drop(hold);
        drop(before);
        Ok(())
    }
    /// The mark of the memory that somebody brought ([`HostMemory::mark`]).
    ///
    /// # Errors
    /// The storage is borrowed for writing.
    pub fn mark(&self) -> Result<Option<Arc<dyn Any + Send + Sync>>> {
        let _hold = flambeau_memory::Holds::one(&self.0.lock, false).map_err(busy)?;
        // SAFETY: `owner` changes only under an exclusive hold, and a shared one is held.
        match unsafe { &*self.0.owner.get() } {
            Owner::Foreign(memory) => Ok(memory.downcast_ref::<Box<dyn HostMemory>>().and_then(|m| m.mark())),
            _ => Ok(None),
        }
    }
    /// The back end's handle on the memory; none on the CPU and the meta device.
    ///
    /// # Errors
    /// The storage is borrowed for writing.
    pub fn handle(&self) -> Result<Option<Handle>> {
        self.with_handle(Handle::clone)
    }
    /// Runs `f` with the back end's handle on the memory; nothing on the CPU and the meta device.
    ///
    /// # Errors
    /// The storage is borrowed for writing.
    #[inline]
    pub fn with_handle<R>(&self, f: impl FnOnce(&Handle) -> R) -> Result<Option<R>> {
        if matches!(self.0.device, Device::Cpu | Device::Meta) {
            return Ok(None);
        }
        let _hold = flambeau_memory::Holds::one(&self.0.lock, false).map_err(busy)?;
        // SAFETY: `owner` changes only under an exclusive hold, and a shared one is held.
        match unsafe { &*self.0.owner.get() } {
            Owner::Foreign(memory) => Ok(memory.downcast_ref::<Handle>().map(f)),
            _ => Ok(None),
        }
    }
    /// A copy of these bytes, on the CPU.
    #[inline]
    pub fn of_bytes(bytes: &[u8]) -> Result<Storage> {
        let s = Self::empty(bytes.len(), Device::Cpu)?;
        // SAFETY: the storage was just made, nobody else has it, and it is as long as the slice.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), s.ptr(), bytes.len()) };
        Ok(s)
    }
    /// One block of the host's memory, cut into storages of these sizes in bytes; it is freed with the last of them.
    ///
    /// # Errors
    /// No such memory.
    pub fn parts(sizes: &[usize]) -> Result<Vec<Storage>> {
        let mut starts = Vec::with_capacity(sizes.len());
        let mut end = 0usize;
        for &n in sizes {
            starts.push(end);
            let next =
                end.checked_add(n).and_then(|e| e.checked_next_multiple_of(flambeau_memory::pool::ALIGN));
            end = next.ok_or_else(|| geometry::too_large(usize::MAX))?;
        }
        let block = Arc::new(pool::alloc(end).ok_or_else(|| geometry::too_large(end))?);
        let part = |(&start, &n): (&usize, &usize)| {
            // SAFETY: `start + n` is at most `end`, the length of the block, which the storage keeps; the parts do not overlap.
            let ptr = unsafe { block.as_ptr().add(start) };
            Self::new(ptr, Owner::Foreign(Box::new(block.clone())), n, Device::Cpu)
        };
        Ok(starts.iter().zip(sizes).map(part).collect())
    }
    #[cold]
    fn without_memory(nbytes: usize, device: Device) -> Result<Storage> {
        match device {
            Device::Meta => Ok(Self::new(std::ptr::null_mut(), Owner::None, nbytes, device)),
            other => {
                let memory = backend::of(other)?.allocate(nbytes, other)?;
                Ok(Self::of_handle(memory, nbytes, other))
            }
        }
    }
    #[inline(always)]
    fn of_block(b: Block, nbytes: usize) -> Storage {
        Self::new(b.as_ptr(), Owner::Pool(b), nbytes, Device::Cpu)
    }
    /// Takes over a vector without copying (but for one that is not aligned for every element type).
    pub fn from_vec<T: crate::Element>(mut v: Vec<T>) -> Storage {
        let ptr = v.as_mut_ptr() as *mut u8;
        let nbytes = std::mem::size_of_val(v.as_slice());
        if nbytes > 0 && !(ptr as usize).is_multiple_of(16) {
            // a view with a wider dtype must stay aligned
            if let Ok(s) = Self::empty(nbytes, Device::Cpu) {
                let copied = s.with_bytes_mut(|b| b.copy_from_slice(bytemuck::cast_slice(&v)));
                if copied.is_ok() {
                    return s;
                }
            }
        }
        // moving the `Vec` into the box moves only its header: `ptr` stays valid
        Self::new(ptr, Owner::Foreign(Box::new(v)), nbytes, Device::Cpu)
    }
    #[inline(always)]
    fn new(ptr: *mut u8, owner: Owner, nbytes: usize, device: Device) -> Storage {
        Storage(Shared::with(|| StorageImpl {
            ptr: UnsafeCell::new(ptr),
            nbytes: AtomicUsize::new(nbytes),
            lock: StorageLock::new(),
            silent: AtomicU32::new(0),
            device,
            owner: UnsafeCell::new(owner),
        }))
    }
    /// Size in bytes. It never shrinks.
    #[inline]
    pub fn nbytes(&self) -> usize {
        self.0.nbytes.load(Ordering::Acquire)
    }
    /// The device.
    #[inline]
    pub fn device(&self) -> Device {
        self.0.device
    }
    /// The lock and version counter.
    #[inline]
    pub(crate) fn lock(&self) -> &StorageLock {
        &self.0.lock
    }
    /// Number of in-place writes so far.
    #[inline]
    pub fn version(&self) -> u32 {
        self.0.lock.version()
    }
    /// Number of in-place writes so far, less those through [`Apart`].
    #[inline]
    pub(crate) fn tracked_version(&self) -> u32 {
        self.version().wrapping_sub(self.0.silent.load(Ordering::Acquire))
    }
    /// Counts a write that went around the kernels.
    pub fn bump_version(&self) {
        self.0.lock.bump_version()
    }
    /// Number of handles on this memory.
    pub fn handle_count(&self) -> usize {
        Shared::count(&self.0)
    }
    /// Whether nobody else has a handle; nobody can get one while this one is borrowed.
    #[inline]
    pub(crate) fn is_unshared(&mut self) -> bool {
        Shared::get_mut(&mut self.0).is_some()
    }
    /// Identity, for comparison.
    #[inline]
    pub fn id(&self) -> usize {
        Shared::as_ptr(&self.0) as usize
    }
    /// The address of the first byte, as a number to compare and print; 0 where there is no memory.
    #[doc(alias = "torch.Tensor.data_ptr")]
    ///
    /// # Errors
    /// The memory is borrowed for writing.
    pub fn address(&self) -> Result<usize> {
        let _hold = flambeau_memory::Holds::one(&self.0.lock, false).map_err(busy)?;
        Ok(self.ptr() as usize)
    }
    /// Whether both handles name the same memory.
    #[inline]
    pub fn same(&self, o: &Storage) -> bool {
        Shared::same(&self.0, &o.0)
    }
    /// First byte. Reading or writing through it needs a hold of [`Storage::lock`], or that the storage was just made
    /// and nobody else has a handle.
    #[inline]
    pub(crate) fn ptr(&self) -> *mut u8 {
        // SAFETY: `ptr` changes only under an exclusive hold, and callers hold the lock or own the only handle.
        unsafe { *self.0.ptr.get() }
    }
    /// Makes room for at least `nbytes`, keeping the content (`resize_` beyond the end).
    ///
    /// # Errors
    /// Out of memory, or borrowed by a user's guard.
    pub fn grow(&self, nbytes: usize) -> Result<()> {
        if nbytes <= self.nbytes() {
            return Ok(());
        }
        if self.0.device == Device::Meta {
            self.0.nbytes.store(nbytes, Ordering::Release);
            return Ok(());
        }
        if let Some(memory) = self.handle()? {
            return self.grow_elsewhere(memory, nbytes);
        }
        if self.mark()?.is_some() {
            return Err(Error::runtime("Trying to resize storage that is not resizable"));
        }
        let new = pool::alloc(nbytes).ok_or_else(|| geometry::too_large(nbytes))?;
        let hold = flambeau_memory::Holds::one(&self.0.lock, true).map_err(busy)?;
        let old = self.nbytes();
        if nbytes > old {
            // SAFETY: exclusive hold; both blocks are at least `old` bytes long and distinct.
            let before = unsafe {
                std::ptr::copy_nonoverlapping(self.ptr(), new.as_ptr(), old);
                *self.0.ptr.get() = new.as_ptr();
                std::mem::replace(&mut *self.0.owner.get(), Owner::Pool(new))
            };
            self.0.nbytes.store(nbytes, Ordering::Release);
            // somebody else's memory may run their code when it goes, which no hold may see
            drop(hold);
            drop(before);
        }
        Ok(())
    }
    #[cold]
    fn grow_elsewhere(&self, memory: Handle, nbytes: usize) -> Result<()> {
        let table = backend::of(self.0.device)?;
        let new = table.allocate(nbytes, self.0.device)?;
        table.copy(&memory, &new, self.nbytes())?;
        let hold = flambeau_memory::Holds::one(&self.0.lock, true).map_err(busy)?;
        if nbytes > self.nbytes() {
            // SAFETY: exclusive hold.
            let old = unsafe { std::mem::replace(&mut *self.0.owner.get(), Owner::Foreign(Box::new(new))) };
            self.0.nbytes.store(nbytes, Ordering::Release);
            drop(hold);
            drop(old);
        }
        Ok(())
    }
    /// The bytes are those of the host, or there are none (the meta device).
    pub(crate) fn on_host(&self) -> Result<()> {
        match self.0.device {
            Device::Cpu | Device::Meta => Ok(()),
            other => Err(Error::device(format!("the memory is on {other}: copy it to the CPU first"))),
        }
    }
    /// Copies bytes out, from `at` on, all of one version.
    ///
    /// # Errors
    /// Bytes beyond the storage; memory of another device; the storage is borrowed for writing.
    pub fn read_at(&self, at: usize, to: &mut [u8]) -> Result<()> {
        self.on_host()?;
        let _hold = flambeau_memory::Holds::one(&self.0.lock, false).map_err(busy)?;
        self.within(at, to.len())?;
        // SAFETY: reading hold; the range is inside, and `to` is exclusive memory of somebody else.
        unsafe { std::ptr::copy_nonoverlapping(self.ptr().add(at), to.as_mut_ptr(), to.len()) };
        Ok(())
    }
    fn within(&self, at: usize, len: usize) -> Result<()> {
        let n = if self.0.device == Device::Meta { 0 } else { self.nbytes() };
        match at.checked_add(len) {
            Some(end) if end <= n => Ok(()),
            _ => Err(Error::storage(format!(
                "{len} bytes from {at} on are out of bounds for storage of size {n}"
            ))),
        }
    }
    /// Gives `f` all bytes block by block, copied, so that it runs under no hold and may do what it likes. They are all of one
    /// version.
    ///
    /// # Errors
    /// As [`Storage::read_at`]; those of `f`; the storage was written to meanwhile.
    pub fn read_blocks(&self, mut f: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        const BLOCK: usize = 1 << 20;
        self.on_host()?;
        let (version, n) = (self.version(), self.nbytes());
        let n = if self.0.device == Device::Meta { 0 } else { n };
        let mut block = crate::tensor::geometry::room::<u8>(n.min(BLOCK) as i64)?;
        block.resize(n.min(BLOCK), 0);
        for at in (0..n).step_by(BLOCK) {
            let block = &mut block[..BLOCK.min(n - at)];
            self.read_at(at, block)?;
            if self.version() != version {
                return Err(Error::storage("the storage was written to while its bytes were read"));
            }
            f(block)?;
        }
        Ok(())
    }
}

/// Memory whose writes through this are counted here and for nobody else: what `x.data()` has in common with `x`. Who writes
/// through it says so by [`Apart::wrote`].
pub(crate) struct Apart {
    pub(crate) storage: Storage,
    writes: AtomicU32,
}
impl Apart {
    pub(crate) fn new(storage: Storage) -> Apart {
        Apart { storage, writes: AtomicU32::new(0) }
    }
    pub(crate) fn version(&self) -> u32 {
        self.writes.load(Ordering::Acquire)
    }
    /// Takes over `n` writes that the storage has counted.
    pub(crate) fn wrote(&self, n: u32) {
        self.storage.0.silent.fetch_add(n, Ordering::AcqRel);
        self.writes.fetch_add(n, Ordering::AcqRel);
    }
}

/// What writing to mapped memory does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MapMode {
    /// The file stays as it is; written pages are copied first (`mmap.MAP_PRIVATE`).
    Private,
    /// The file changes with the memory (`mmap.MAP_SHARED`).
    Shared,
}

/// A file as memory: pages are read when they are first used. Storages are parts of it and keep it alive.
///
/// The bytes of two storages never overlap, since each storage has a lock of its own.
///
/// ```
/// use torch::serialization::{MapMode, MappedFile};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("numbers");
/// std::fs::write(&path, 1.5f32.to_le_bytes())?;
/// // SAFETY: nobody else knows the file.
/// let map = unsafe { MappedFile::open(&path, MapMode::Private)? };
/// let part = map.storage(0, 4)?.expect("a map begins at a page");
/// assert_eq!((map.len(), part.nbytes()), (4, 4));
/// assert!(map.storage(0, 4).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MappedFile {
    file: File,
    map: Option<Arc<memmap2::MmapMut>>,
    ptr: *mut u8,
    len: usize,
    /// Parts that were handed out, by their start.
    given: Mutex<Vec<(usize, usize)>>,
}
// SAFETY: `ptr` is only handed out within `storage`, and what it points to is used under the lock of the storage there.
unsafe impl Send for MappedFile {}
// SAFETY: as for Send.
unsafe impl Sync for MappedFile {}

impl std::fmt::Debug for MappedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MappedFile({} bytes of {:?})", self.len, self.file)
    }
}

impl MappedFile {
    /// Maps a file, of which no byte is read yet.
    ///
    /// # Safety
    /// While the map or a storage of it lives, nobody else may write to the file or shorten it: neither this program (by
    /// a file handle or a second shared map) nor another one. Files that are replaced as a whole, as
    /// `torch::save` does, are fine: the map keeps the old one.
    ///
    /// # Errors
    /// Of the file system.
    pub unsafe fn open(path: impl AsRef<Path>, mode: MapMode) -> Result<MappedFile> {
        let file = File::options().read(true).write(mode == MapMode::Shared).open(path)?;
        // SAFETY: the caller's promise.
        unsafe { Self::of(file, mode) }
    }
    /// # Safety
    /// As for [`MappedFile::open`].
    unsafe fn of(file: File, mode: MapMode) -> Result<MappedFile> {
        let len = usize::try_from(file.metadata()?.len()).map_err(|_| geometry::too_large(usize::MAX))?;
        if len == 0 {
            // there are no maps of no bytes
            let ptr = std::ptr::null_mut();
            return Ok(MappedFile { file, map: None, ptr, len, given: Mutex::default() });
        }
        let mut options = memmap2::MmapOptions::new();
        options.len(len);
        // SAFETY: the caller promises that nobody changes the file meanwhile.
        let map = unsafe {
            match mode {
                MapMode::Private => options.map_copy(&file),
                MapMode::Shared => options.map_mut(&file),
            }
        };
        let mut map = map?;
        let ptr = map.as_mut_ptr();
        Ok(MappedFile { file, map: Some(Arc::new(map)), ptr, len, given: Mutex::default() })
    }
    /// Reads the file, for what is no storage. There is no way to the file itself: who could write to it or shorten it
    /// would break the promise of [`MappedFile::open`] without `unsafe`.
    pub fn reader(&self) -> impl Read + Seek + '_ {
        struct Reader<'a>(&'a File);
        impl Read for Reader<'_> {
            fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
                self.0.read(to)
            }
        }
        impl Seek for Reader<'_> {
            fn seek(&mut self, at: SeekFrom) -> std::io::Result<u64> {
                self.0.seek(at)
            }
        }
        Reader(&self.file)
    }
    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.len
    }
    /// An empty file.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Part of the file as a storage; `None` where it is not aligned as storages are, so that it must be copied.
    ///
    /// # Errors
    /// A part that leaves the file, or that overlaps one handed out before.
    pub fn storage(&self, offset: usize, nbytes: usize) -> Result<Option<Storage>> {
        let end = offset.checked_add(nbytes).filter(|&end| end <= self.len);
        let Some(end) = end else {
            return Err(Error::storage(format!("bytes {offset} to {offset}+{nbytes} leave the mapped file")));
        };
        let Some(map) = self.map.as_ref().filter(|_| nbytes > 0) else {
            return Storage::empty(0, Device::Cpu).map(Some);
        };
        if !(self.ptr as usize + offset).is_multiple_of(16) {
            return Ok(None);
        }
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let at = given.partition_point(|&(start, _)| start < end);
        // the last part that starts before this one's end is the only one that may reach into it
        if at > 0 && given[at - 1].1 > offset {
            return Err(Error::storage(format!(
                "bytes {offset} to {end} of the mapped file belong to another storage already"
            )));
        }
        given.insert(at, (offset, end));
        // SAFETY: the part lies within the map.
        let ptr = unsafe { self.ptr.add(offset) };
        Ok(Some(Storage::new(ptr, Owner::Foreign(Box::new(map.clone())), nbytes, Device::Cpu)))
    }
}

impl Storage {
    /// The first `nbytes` bytes of a file as memory that writes back to it; the file is made, or made longer, where
    /// needed (`from_file` with `shared=True`).
    ///
    /// # Safety
    /// As for [`MappedFile::open`].
    ///
    /// # Errors
    /// Of the file system.
    pub unsafe fn map_shared(path: impl AsRef<Path>, nbytes: usize) -> Result<Storage> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        if file.metadata()?.len() < nbytes as u64 {
            file.set_len(nbytes as u64)?;
        }
        // SAFETY: the caller's promise.
        let map = unsafe { MappedFile::of(file, MapMode::Shared)? };
        // a map starts at a page, which is aligned
        map.storage(0, nbytes)?.ok_or_else(|| Error::storage("the mapped file is not aligned"))
    }
}
