//! Untyped memory that tensors share. It knows no operators.

use crate::device::Device;
use crate::error::{Error, Result};
use flambeau_memory::{Block, Busy, StorageLock, pool};
use std::any::Any;
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A handle on memory; clones share it (`torch.UntypedStorage`).
#[derive(Clone)]
pub struct Storage(Arc<StorageImpl>);

enum Memory {
    Pool(Block),
    Foreign {
        ptr: *mut u8,
        _owner: Box<dyn Any + Send + Sync>,
    },
    /// No data: the meta device.
    None,
}

pub(crate) struct StorageImpl {
    memory: UnsafeCell<Memory>,
    nbytes: AtomicUsize,
    device: Device,
    lock: StorageLock,
}
// SAFETY: `memory` is written only under an exclusive kernel hold of `lock` (see `grow`), and the bytes behind it are
// read and written only under holds of `lock`.
unsafe impl Send for StorageImpl {}
// SAFETY: as for Send.
unsafe impl Sync for StorageImpl {}

#[cold]
pub(crate) fn too_large(bytes: usize) -> Error {
    Error::memory(format!(
        "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate {bytes} bytes."
    ))
}

pub(crate) fn busy(b: Busy) -> Error {
    Error::storage(b.to_string())
}

impl Storage {
    /// Uninitialised in the sense of `torch.empty`: the bytes are some valid bytes, but any.
    #[inline]
    pub fn empty(nbytes: usize, device: Device) -> Result<Storage> {
        let memory = match device {
            Device::Cpu => Memory::Pool(pool::alloc(nbytes).ok_or_else(|| too_large(nbytes))?),
            Device::Meta => Memory::None,
            other => return Err(Error::device(format!("no allocator is linked for device {other}"))),
        };
        Ok(Self::new(memory, nbytes, device))
    }
    /// All bytes zero.
    pub fn zeroed(nbytes: usize, device: Device) -> Result<Storage> {
        let memory = match device {
            Device::Cpu => Memory::Pool(pool::alloc_zeroed(nbytes).ok_or_else(|| too_large(nbytes))?),
            Device::Meta => Memory::None,
            other => return Err(Error::device(format!("no allocator is linked for device {other}"))),
        };
        Ok(Self::new(memory, nbytes, device))
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
        Self::new(Memory::Foreign { ptr, _owner: Box::new(v) }, nbytes, Device::Cpu)
    }
    #[inline]
    fn new(memory: Memory, nbytes: usize, device: Device) -> Storage {
        Storage(Arc::new(StorageImpl {
            memory: UnsafeCell::new(memory),
            nbytes: AtomicUsize::new(nbytes),
            device,
            lock: StorageLock::new(),
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
    /// Counts a write that went around the kernels.
    pub fn bump_version(&self) {
        self.0.lock.bump_version()
    }
    /// Number of handles on this memory.
    pub fn handle_count(&self) -> usize {
        Arc::strong_count(&self.0)
    }
    /// Identity, for comparison.
    #[inline]
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
    /// Whether both handles name the same memory.
    #[inline]
    pub fn same(&self, o: &Storage) -> bool {
        Arc::ptr_eq(&self.0, &o.0)
    }
    /// First byte. Reading or writing through it needs a hold of [`Storage::lock`], or that the storage was just made
    /// and nobody else has a handle.
    #[inline]
    pub(crate) fn ptr(&self) -> *mut u8 {
        // SAFETY: `memory` changes only under an exclusive hold, and callers hold the lock or own the only handle.
        match unsafe { &*self.0.memory.get() } {
            Memory::Pool(b) => b.as_ptr(),
            Memory::Foreign { ptr, .. } => *ptr,
            Memory::None => std::ptr::null_mut(),
        }
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
        let new = pool::alloc(nbytes).ok_or_else(|| too_large(nbytes))?;
        let _hold = flambeau_memory::Holds::one(&self.0.lock, true).map_err(busy)?;
        let old = self.nbytes();
        if nbytes > old {
            // SAFETY: exclusive hold; both blocks are at least `old` bytes long and distinct.
            unsafe {
                std::ptr::copy_nonoverlapping(self.ptr(), new.as_ptr(), old);
                *self.0.memory.get() = Memory::Pool(new);
            }
            self.0.nbytes.store(nbytes, Ordering::Release);
        }
        Ok(())
    }
    /// Runs `f` over all bytes under a reading kernel hold.
    pub fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let _hold = flambeau_memory::Holds::one(&self.0.lock, false).map_err(busy)?;
        let n = if self.0.device == Device::Meta { 0 } else { self.nbytes() };
        if n == 0 {
            return Ok(f(&[]));
        }
        // SAFETY: reading hold; the memory is `nbytes` initialised bytes.
        Ok(f(unsafe { std::slice::from_raw_parts(self.ptr(), n) }))
    }
    /// Runs `f` over all bytes under a writing kernel hold. `f` must not call operators.
    pub fn with_bytes_mut<R>(&self, f: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        let _hold = flambeau_memory::Holds::one(&self.0.lock, true).map_err(busy)?;
        let n = if self.0.device == Device::Meta { 0 } else { self.nbytes() };
        if n == 0 {
            return Ok(f(&mut []));
        }
        // SAFETY: exclusive hold; the memory is `nbytes` initialised bytes.
        Ok(f(unsafe { std::slice::from_raw_parts_mut(self.ptr(), n) }))
    }
}
