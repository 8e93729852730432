//! Compiled kernels of the emulated device: libraries of the host, and the copies between the host and memory that only
//! kernels follow.
#![allow(unsafe_code)]

use super::Shape;
use flambeau_core::{Error, Result};
use std::ffi::c_void;
use std::path::Path;
use std::sync::Arc;

/// The bit that marks addresses of the emulated device; `kernels/device/emulation.h` takes it off.
const MARK: u64 = 1 << 62;

/// A loaded library of kernels.
pub(crate) struct Library(libloading::Library);
impl Library {
    /// Loads a file that the compiler made of our sources.
    ///
    /// # Errors
    /// The system refuses it.
    pub(crate) fn open(path: &Path) -> Result<Library> {
        // SAFETY: the file was made of the sources of `kernels/`, whose initialisers do nothing but zero their variables.
        let found = unsafe { libloading::Library::new(path) };
        found.map(Library).map_err(|e| Error::runtime(format!("a compiled kernel cannot be loaded: {e}")))
    }
}
type Entry = unsafe extern "C" fn(*const c_void, *const u32) -> i32;

/// A kernel of a library.
#[derive(Clone)]
pub(crate) struct Kernel {
    entry: Entry,
    /// The code stays as long as somebody may run it.
    _library: Arc<super::Module>,
}
impl Kernel {
    /// The kernel of that name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn of(module: &Arc<super::Module>, name: &str) -> Result<Kernel> {
        let super::Module::Host(library) = &**module else {
            return Err(Error::runtime("a kernel of another driver"));
        };
        // SAFETY: every name that `KERNEL` defines has this type, and nothing else in these libraries has C linkage but the
        // switch of fibers, which is hidden.
        let entry = unsafe { library.0.get::<Entry>(name.as_bytes()) };
        let entry =
            entry.map_err(|_| Error::runtime(format!("invalid launch: there is no kernel {name}")))?;
        Ok(Kernel { entry: *entry, _library: module.clone() })
    }
    /// Runs all its threads.
    ///
    /// # Errors
    /// A shape that no device takes; barriers that not all threads reach.
    pub(crate) fn run(&self, shape: Shape, params: &[u8]) -> Result<()> {
        // arguments lie as aligned as a driver lays them
        let mut aligned = vec![0u64; params.len().div_ceil(8)];
        for (to, from) in aligned.iter_mut().zip(params.chunks(8)) {
            let mut word = [0u8; 8];
            word[..from.len()].copy_from_slice(from);
            *to = u64::from_ne_bytes(word);
        }
        let shape = [shape.blocks, 1, 1, shape.threads, 1, 1];
        // SAFETY: the arguments are the struct that the kernel declares (`Args` of kernels/mod.rs writes it field by field),
        // and the addresses in it are of living blocks that are as large as the geometry beside them says: the callers
        // compute both from one tensor.
        match unsafe { (self.entry)(aligned.as_ptr().cast(), shape.as_ptr()) } {
            0 => Ok(()),
            1 => Err(Error::runtime("CUDA error: invalid configuration argument")),
            _ => Err(Error::runtime("CUDA error: not all threads of a block reach a barrier")),
        }
    }
}

/// What stands for pinned memory: an address of the host.
pub(crate) fn pin(nbytes: usize) -> Option<usize> {
    let layout = std::alloc::Layout::from_size_align(nbytes.max(1), 4096).ok()?;
    // SAFETY: the layout has at least one byte. Zeros are valid bytes.
    let at = unsafe { std::alloc::alloc_zeroed(layout) };
    (!at.is_null()).then(|| at.expose_provenance())
}
/// Copies bytes out of it, as a device does: whoever writes to them meanwhile changes what arrives.
pub(crate) fn read_pinned(from: super::Pinned) -> Vec<u8> {
    let at: *const u8 = std::ptr::with_exposed_provenance(from.address);
    // SAFETY: the bytes stay until the copies from them are done, and who calls holds their storage (`Pinned`).
    unsafe { std::slice::from_raw_parts(at, from.nbytes) }.to_vec()
}
/// Gives it back.
pub(crate) fn unpin(address: usize, nbytes: usize) {
    let Ok(layout) = std::alloc::Layout::from_size_align(nbytes.max(1), 4096) else { return };
    // SAFETY: `pin` allocated it with this layout, and the allocator of pinned memory gives it back once.
    unsafe { std::alloc::dealloc(std::ptr::with_exposed_provenance_mut(address), layout) };
}

/// Memory of the emulated device: all of it at once, or addresses whose pages the system gives when they are written.
pub(crate) enum Memory {
    Whole(Vec<u64>),
    Reserved(memmap2::MmapMut),
}
impl Memory {
    /// `None` where the host has no more.
    pub(crate) fn new(nbytes: usize) -> Option<Memory> {
        let words = nbytes.div_ceil(8).max(1);
        let mut all = Vec::new();
        all.try_reserve_exact(words).ok()?;
        // what nobody wrote looks like nothing
        all.resize(words, 0xa5a5_a5a5_a5a5_a5a5);
        Some(Memory::Whole(all))
    }
    /// Addresses; `None` where the host has no more.
    pub(crate) fn reserve(nbytes: usize) -> Option<Memory> {
        memmap2::MmapOptions::new().len(nbytes).no_reserve_swap().map_anon().ok().map(Memory::Reserved)
    }
    pub(crate) fn is_reserved(&self) -> bool {
        matches!(self, Memory::Reserved(_))
    }
    pub(crate) fn address(&self) -> u64 {
        let at = match self {
            Memory::Whole(v) => v.as_ptr().cast(),
            Memory::Reserved(m) => m.as_ptr(),
        };
        at.expose_provenance() as u64 | MARK
    }
    pub(crate) fn nbytes(&self) -> usize {
        match self {
            Memory::Whole(v) => v.len() * 8,
            Memory::Reserved(m) => m.len(),
        }
    }
    /// Its bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let n = self.nbytes();
        match self {
            // SAFETY: the vector has as many bytes, any are valid, and kernels run while nobody else borrows the memory: the
            // device is locked then.
            Memory::Whole(v) => unsafe { std::slice::from_raw_parts_mut(v.as_mut_ptr().cast(), n) },
            Memory::Reserved(m) => &mut m[..],
        }
    }
    /// The system may take the pages of a part back: what they held is lost.
    pub(crate) fn forget(&mut self, start: usize, nbytes: usize) {
        #[cfg(unix)]
        if let Memory::Reserved(m) = self {
            // SAFETY: zeros are valid bytes, and nobody borrows the memory: the device is locked.
            let _ = unsafe { m.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, nbytes) };
        }
    }
}
