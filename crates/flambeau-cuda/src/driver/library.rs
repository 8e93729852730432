//! Compiled kernels of the emulated device: libraries of the host, and the copies between the host and memory that only
//! kernels follow.
#![allow(unsafe_code)]

use super::Shape;
use crate::ipc::Name;
use flambeau_core::{Error, Result};
use std::ffi::c_void;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// The bit that marks addresses of the emulated device; `kernels/device/emulation.h` takes it off.
const MARK: u64 = 1 << 62;

/// Such an address as the host knows it.
pub(crate) fn unmarked(address: u64) -> u64 {
    address & !MARK
}

/// A loaded library of kernels.
pub(crate) struct Library {
    library: libloading::Library,
    /// What its kernels' names begin with.
    prefix: String,
}
impl Library {
    /// Loads a file that the compiler made of our sources.
    ///
    /// # Errors
    /// The system refuses it.
    pub(crate) fn open(path: &Path, prefix: String) -> Result<Library> {
        // SAFETY: the file was made of the sources of `kernels/`, whose initialisers do nothing but zero their variables.
        let found = unsafe { libloading::Library::new(path) };
        found
            .map(|library| Library { library, prefix })
            .map_err(|e| Error::runtime(format!("a compiled kernel cannot be loaded: {e}")))
    }
}
type Entry = unsafe extern "C" fn(*const c_void, *const u32) -> i32;

/// A kernel of a library.
#[derive(Clone)]
pub(crate) struct Kernel {
    entry: Entry,
    name: Arc<str>,
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
        let entry = unsafe { library.library.get::<Entry>(format!("{}{name}", library.prefix).as_bytes()) };
        let entry =
            entry.map_err(|_| Error::runtime(format!("invalid launch: there is no kernel {name}")))?;
        Ok(Kernel { entry: *entry, name: name.into(), _library: module.clone() })
    }
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
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

type Take = unsafe extern "C" fn(isize, i32, *mut c_void) -> *mut c_void;
type Give = unsafe extern "C" fn(*mut c_void, isize, i32, *mut c_void);
/// An allocator of a shared library that a program brings.
pub(crate) struct Pluggable {
    take: Take,
    give: Give,
    _library: libloading::Library,
}
impl Pluggable {
    /// # Errors
    /// The system refuses the file, or it has no such function.
    pub(crate) fn open(path: &Path, take: &str, give: &str) -> Result<Pluggable> {
        let bad = |e: libloading::Error| Error::new(flambeau_core::ErrorKind::Io, e.to_string());
        let none = |name: &str| {
            Error::new(
                flambeau_core::ErrorKind::Attribute,
                format!("{}: undefined symbol: {name}", path.display()),
            )
        };
        // SAFETY: the program says that the library is to become a part of it, and that the functions have these types.
        unsafe {
            let library = libloading::Library::new(path).map_err(bad)?;
            let own = *library.get::<Take>(take.as_bytes()).map_err(|_| none(take))?;
            let back = *library.get::<Give>(give.as_bytes()).map_err(|_| none(give))?;
            Ok(Pluggable { take: own, give: back, _library: library })
        }
    }
    /// Memory for a stream, by the driver's handle of it; `None` where there is none.
    pub(crate) fn take(&self, nbytes: usize, device: usize, stream: u64) -> Option<u64> {
        let stream = std::ptr::with_exposed_provenance_mut(stream as usize);
        // SAFETY: the function was loaded as one of this type, and its library stays.
        let at = unsafe { (self.take)(nbytes as isize, device as i32, stream) };
        (!at.is_null()).then(|| at.expose_provenance() as u64)
    }
    /// Gives it back.
    pub(crate) fn give(&self, address: u64, nbytes: usize, device: usize, stream: u64) {
        let (at, stream) = (address as usize, stream as usize);
        let at = std::ptr::with_exposed_provenance_mut(at);
        let stream = std::ptr::with_exposed_provenance_mut(stream);
        // SAFETY: as above; the address is one that it gave for so many bytes, and goes back once.
        unsafe { (self.give)(at, nbytes as isize, device as i32, stream) };
    }
}

/// What stands for a driver's handle: the process, a number of it, and a length.
pub(crate) fn name(number: u64, length: u64) -> Name {
    let mut out = [0; 64];
    out[..8].copy_from_slice(b"emulated");
    out[8..16].copy_from_slice(&u64::from(std::process::id()).to_ne_bytes());
    out[16..24].copy_from_slice(&number.to_ne_bytes());
    out[24..32].copy_from_slice(&length.to_ne_bytes());
    out
}
/// Its parts.
///
/// # Errors
/// It is none.
pub(crate) fn named(name: &Name) -> Result<(u64, u64, u64)> {
    let word = |i: usize| name[i * 8..].first_chunk::<8>().map_or(0, |b| u64::from_ne_bytes(*b));
    match name.starts_with(b"emulated") {
        true => Ok((word(1), word(2), word(3))),
        false => Err(Error::runtime("CUDA error: invalid resource handle")),
    }
}

/// Memory of the emulated device: all of it at once, addresses whose pages the system gives when they are written, or what an
/// allocator of the program's gave ([`Pluggable`]).
pub(crate) enum Memory {
    /// With the file that it lies in once other processes have it.
    Whole(memmap2::MmapMut, Option<File>),
    Reserved(memmap2::MmapMut),
    Lent(u64, usize),
}
impl Memory {
    /// `None` where the host has no more.
    pub(crate) fn new(nbytes: usize) -> Option<Memory> {
        let mut all = memmap2::MmapOptions::new().len(nbytes.max(1)).map_anon().ok()?;
        // what nobody wrote looks like nothing
        all.fill(0xa5);
        Some(Memory::Whole(all, None))
    }
    /// What another process finds it by: this process and the file, which is made now.
    ///
    /// # Errors
    /// Memory that comes and goes by pages or is a program's own; no file.
    #[cfg(target_os = "linux")]
    pub(crate) fn name(&mut self) -> Result<Name> {
        use std::io::Write as _;
        use std::os::fd::AsRawFd as _;
        let Memory::Whole(map, held) = self else {
            return Err(Error::missing(
                "memory of segments that grow or of other allocators between processes",
            ));
        };
        if held.is_none() {
            let mut file = tempfile::tempfile()?;
            file.write_all(map)?;
            let (at, n) = (map.as_mut_ptr().cast::<c_void>(), map.len());
            let (read_write, shared) = {
                use rustix::mm::{MapFlags, ProtFlags};
                (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED)
            };
            // SAFETY: the pages of the map, which nobody borrows while it is borrowed for writing here, are replaced by those of a
            // file that holds the same bytes; the map unmaps them as its own.
            let put = unsafe { rustix::mm::mmap(at, n, read_write, shared, &file, 0) };
            put.map_err(std::io::Error::from)?;
            *held = Some(file);
        }
        let file = held.as_ref().map_or(-1, |f| f.as_raw_fd());
        Ok(name(file as u64, map.len() as u64))
    }
    /// # Errors
    /// Always: there is no such memory on this system.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn name(&mut self) -> Result<Name> {
        Err(Error::missing("memory of emulated devices between processes on this system"))
    }
    /// Memory of another process.
    ///
    /// # Errors
    /// It is gone.
    pub(crate) fn open_shared(name: &Name) -> Result<Memory> {
        let (process, file, nbytes) = named(name)?;
        let gone = |_| Error::runtime("CUDA error: invalid resource handle");
        let path = format!("/proc/{process}/fd/{file}");
        let file = File::options().read(true).write(true).open(path).map_err(gone)?;
        if file.metadata()?.len() < nbytes {
            return Err(Error::runtime("CUDA error: invalid resource handle"));
        }
        // SAFETY: the file has as many bytes and nobody cuts it: it has no name, and those who made it only map it. Its bytes are
        // those of a device: programs order the work of several processes on them.
        let map = unsafe { memmap2::MmapOptions::new().len(nbytes as usize).map_mut(&file)? };
        Ok(Memory::Whole(map, None))
    }
    /// What an allocator gave, filled like all memory that nobody wrote.
    pub(crate) fn lent(address: u64, nbytes: usize) -> Memory {
        let at: *mut u8 = std::ptr::with_exposed_provenance_mut(address as usize);
        // SAFETY: the allocator promises as many bytes that nobody else uses.
        unsafe { std::ptr::write_bytes(at, 0xa5, nbytes) };
        Memory::Lent(address, nbytes)
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
            Memory::Whole(m, _) => m.as_ptr(),
            Memory::Reserved(m) => m.as_ptr(),
            Memory::Lent(at, _) => return at | MARK,
        };
        at.expose_provenance() as u64 | MARK
    }
    pub(crate) fn nbytes(&self) -> usize {
        match self {
            Memory::Whole(m, _) => m.len(),
            Memory::Reserved(m) => m.len(),
            Memory::Lent(_, n) => *n,
        }
    }
    /// Its bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        match self {
            // kernels run while nobody else borrows the memory: the device is locked then
            Memory::Whole(m, _) | Memory::Reserved(m) => &mut m[..],
            // SAFETY: the allocator promises as many bytes that nobody else uses, and whoever lent them filled them; the device is
            // locked as above.
            Memory::Lent(at, n) => unsafe {
                std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(*at as usize), *n)
            },
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
