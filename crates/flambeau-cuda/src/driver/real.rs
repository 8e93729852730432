//! NVIDIA's driver, loaded at run time. cudarc panics where a library is missing, so it is asked for first.
#![allow(unsafe_code)]

use super::captured::{self, Relaxed, Staging};
use super::{
    Address, CaptureMode, Driver, Function, Graph, Module, Pinned, Shape, Stream, compiler, convolutions,
    cupti, mapped, pinned, products,
};
use crate::allocator::config::Config;
use crate::archive;
use crate::ipc::Name;
use cudarc::driver::sys as cu;
use cudarc::nvrtc::sys as rtc;
use flambeau_core::types::order::{Mutex, MutexGuard};
use flambeau_core::{Error, Result};
use flambeau_devices::cuda::external::Live;
use flambeau_devices::cuda::runtime::Properties;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString, c_void};
use std::sync::{Arc, OnceLock, PoisonError};

/// A handle of the driver; the driver takes handles from any thread.
pub(super) struct Handle<T>(pub(super) *mut T);
impl<T> Clone for Handle<T> {
    fn clone(&self) -> Handle<T> {
        *self
    }
}
impl<T> Copy for Handle<T> {}
// SAFETY: the driver's handles belong to the process, and its functions may be called from any thread.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as for Send.
unsafe impl<T> Sync for Handle<T> {}

/// A module that was loaded.
pub(crate) struct Loaded {
    device: usize,
    module: Handle<cu::CUmod_st>,
    /// What its kernels' names begin with.
    prefix: String,
}
/// A kernel of it.
pub(crate) struct Entry {
    device: usize,
    function: Handle<cu::CUfunc_st>,
    /// Bytes of shared memory that each block gets beside what the kernel declares.
    shared: u32,
}
/// Events of several processes.
#[derive(Default)]
pub(super) struct Shared {
    /// Made here, and those of them that nobody asks for any more.
    pub(super) all: HashSet<u64>,
    pub(super) free: Vec<u64>,
    /// Other processes', which are opened once.
    pub(super) opened: HashMap<Name, u64>,
}
pub(super) struct Device {
    context: Handle<cu::CUctx_st>,
    /// The first is the default stream, which the driver knows as null.
    streams: Mutex<Vec<Handle<cu::CUstream_st>>>,
    events: Mutex<Vec<Handle<cu::CUevent_st>>>,
    /// Numbers of events that nobody asks for any more.
    forgotten: Mutex<Vec<u64>>,
    pub(super) shared: Mutex<Shared>,
    staging: Staging,
    /// Units of the archive; none where the driver has no use for it.
    units: Mutex<HashMap<usize, Option<Handle<cu::CUmod_st>>>>,
    /// cuBLASLt, where it is there.
    products: OnceLock<Option<products::Products>>,
    /// cuDNN, where it is there.
    convolutions: OnceLock<Option<convolutions::Convolutions>>,
}
thread_local! {
    /// The device that this thread chose last.
    static CURRENT: Cell<usize> = const { Cell::new(usize::MAX) };
}
/// See the module.
pub(crate) struct Real(Vec<Device>);

impl Device {
    /// The number of an event that was just made.
    pub(super) fn add_event(&self, e: Handle<cu::CUevent_st>) -> u64 {
        let mut all = lock(&self.events);
        all.push(e);
        all.len() as u64
    }
    fn stream(&self, stream: Stream) -> Result<cu::CUstream> {
        let found = lock(&self.streams).get(stream as usize).copied();
        found.map(|s| s.0).ok_or_else(|| Error::runtime("CUDA error: invalid resource handle"))
    }
}
fn no_device() -> Error {
    Error::device("CUDA error: invalid device ordinal")
}
#[inline]
pub(super) fn check(r: cu::CUresult) -> Result<()> {
    if r == cu::CUresult::CUDA_SUCCESS { Ok(()) } else { Err(error(r)) }
}
#[cold]
fn error(r: cu::CUresult) -> Error {
    let mut text = std::ptr::null();
    // SAFETY: the driver writes the address of a text that lives as long as the program, or leaves null.
    let text = unsafe {
        cu::cuGetErrorString(r, &mut text);
        if text.is_null() {
            "unknown error".into()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    };
    Error::runtime(format!("CUDA error: {text}"))
}
pub(super) fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Real {
    /// # Errors
    /// No driver, one that is too old, no device: in PyTorch's words.
    pub(crate) fn new() -> Result<Real> {
        let none = || {
            Error::runtime(
                "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver \
                 from http://www.nvidia.com/Download/index.aspx",
            )
        };
        // SAFETY: loads the library and nothing else.
        if !unsafe { cu::is_culib_present() } {
            return Err(none());
        }
        let (mut version, mut n) = (0, 0);
        // SAFETY: the library is there; the functions write one number each.
        unsafe {
            check(cu::cuInit(0)).map_err(|_| none())?;
            check(cu::cuDriverGetVersion(&mut version))?;
            check(cu::cuDeviceGetCount(&mut n))?;
        }
        if version < 12000 {
            return Err(Error::runtime(format!(
                "The NVIDIA driver on your system is too old (found version {version}). Please update your GPU driver by \
                 downloading and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx"
            )));
        }
        let device = |i| {
            let (mut d, mut context) = (0, std::ptr::null_mut());
            // SAFETY: `i` is below the number of devices; both functions write one value.
            unsafe {
                check(cu::cuDeviceGet(&mut d, i))?;
                check(cu::cuDevicePrimaryCtxRetain(&mut context, d))?;
            }
            Ok(Device {
                context: Handle(context),
                streams: Mutex::new(vec![Handle(std::ptr::null_mut())]),
                events: Mutex::new(Vec::new()),
                forgotten: Mutex::default(),
                shared: Mutex::default(),
                staging: Mutex::default(),
                units: Mutex::default(),
                products: OnceLock::new(),
                convolutions: OnceLock::new(),
            })
        };
        Ok(Real((0..n).map(device).collect::<Result<_>>()?))
    }
    /// The device, as the thread's own.
    pub(super) fn on(&self, device: usize) -> Result<&Device> {
        let d = self.0.get(device).ok_or_else(no_device)?;
        // SAFETY: the context was retained and is never released.
        check(unsafe { cu::cuCtxSetCurrent(d.context.0) })?;
        CURRENT.set(device);
        Ok(d)
    }
    /// As [`Real::on`], without the driver's help where this thread chose that device last. Another library may have chosen
    /// another one since: for calls that the driver refuses then.
    fn probably_on(&self, device: usize) -> Result<&Device> {
        match self.0.get(device) {
            Some(d) if CURRENT.get() == device => Ok(d),
            _ => self.on(device),
        }
    }
    pub(super) fn stream(&self, device: usize, stream: Stream) -> Result<cu::CUstream> {
        self.on(device)?.stream(stream)
    }
    pub(super) fn staging(&self, device: usize) -> Result<&Staging> {
        Ok(&self.on(device)?.staging)
    }
    pub(super) fn event(&self, device: usize, event: u64) -> Result<cu::CUevent> {
        let d = self.on(device)?;
        let found = lock(&d.events).get((event as usize).wrapping_sub(1)).copied();
        found.map(|e| e.0).ok_or_else(|| Error::runtime("CUDA error: invalid resource handle"))
    }
    fn attribute(&self, device: usize, which: cu::CUdevice_attribute) -> Result<i64> {
        let mut v = 0;
        // SAFETY: writes one number.
        check(unsafe { cu::cuDeviceGetAttribute(&mut v, which, device as i32) })?;
        Ok(i64::from(v))
    }
    /// A unit of the archive; `None` where the driver has no use for it, so that it is compiled as if there were no archive.
    fn unit(&self, device: usize, found: &archive::Found) -> Result<Option<Handle<cu::CUmod_st>>> {
        let d = self.on(device)?;
        let mut units = lock(&d.units);
        if let Some(known) = units.get(&found.unit) {
            return Ok(*known);
        }
        let image = found.image()?;
        let _relaxed = Relaxed::now();
        let mut module = std::ptr::null_mut();
        // SAFETY: the image is a whole file of `fatbinary`, as its hash says, which nothing moves or frees.
        let loaded = match unsafe { cu::cuModuleLoadData(&mut module, image.as_ptr().cast()) } {
            r if of_no_use(r) => None,
            r => check(r).map(|()| Some(Handle(module)))?,
        };
        units.insert(found.unit, loaded);
        Ok(loaded)
    }
    /// A cubin for the device's own architecture.
    fn compile(&self, device: usize, text: &str) -> Result<Vec<u8>> {
        let p = self.properties(device)?;
        // what only this architecture has is in a set of its own, which no later one takes
        let own = if (p.major, p.minor) == (9, 0) { "a" } else { "" };
        let architecture = format!("sm_{}{}{own}", p.major, p.minor);
        compiler_is_there()?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: writes two numbers.
        unsafe { rtc::nvrtcVersion(&mut major, &mut minor) };
        let version = format!("nvrtc {major}.{minor}");
        let path = compiler::kept(&[text, &architecture, &version], "cubin", |to| {
            std::fs::write(to, compiled(text, &architecture)?.0).map_err(compiler::disk)
        })?;
        std::fs::read(path).map_err(compiler::disk)
    }
}
/// What a driver says of code that it has no use for: of another architecture, or by a compiler that is newer than itself.
fn of_no_use(r: cu::CUresult) -> bool {
    use cu::CUresult as R;
    matches!(
        r,
        R::CUDA_ERROR_NO_BINARY_FOR_GPU
            | R::CUDA_ERROR_INVALID_IMAGE
            | R::CUDA_ERROR_INVALID_PTX
            | R::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
            | R::CUDA_ERROR_JIT_COMPILER_NOT_FOUND
            | R::CUDA_ERROR_JIT_COMPILATION_DISABLED
    )
}
fn compiler_is_there() -> Result<()> {
    // SAFETY: loads the library and nothing else.
    if unsafe { rtc::is_culib_present() } {
        return Ok(());
    }
    Err(Error::runtime(
        "kernels are compiled by NVRTC, which is not there: install libnvrtc of CUDA 12 or 13 (the package cuda-nvrtc, \
         or nvidia-cuda-nvrtc of the Python index)",
    ))
}
/// What NVRTC makes of a source: a cubin, and what its assembler says of each kernel.
///
/// # Errors
/// No NVRTC; a source that it refuses, with what it says of it.
pub(crate) fn compiled(text: &str, architecture: &str) -> Result<(Vec<u8>, String)> {
    compiler_is_there()?;
    let bad = |what: &str| Error::runtime(format!("NVRTC: {what}"));
    let source = CString::new(text).map_err(|_| bad("a source with a zero byte"))?;
    let architecture = format!("--gpu-architecture={architecture}");
    let own = [&architecture, "-default-device", "--ptxas-options=-v"];
    let options: Vec<CString> =
        own.iter().chain(&compiler::OPTIONS).map(|o| CString::new(*o).unwrap_or_default()).collect();
    let options: Vec<_> = options.iter().map(|o| o.as_ptr()).collect();
    let mut program = std::ptr::null_mut();
    let ok = rtc::nvrtcResult::NVRTC_SUCCESS;
    // SAFETY: texts end with zero and outlive the calls; buffers are as long as NVRTC says that it writes.
    unsafe {
        let none = std::ptr::null();
        if rtc::nvrtcCreateProgram(&mut program, source.as_ptr(), c"kernel.cu".as_ptr(), 0, none, none) != ok
        {
            return Err(bad("no program"));
        }
        let done = rtc::nvrtcCompileProgram(program, options.len() as i32, options.as_ptr()) == ok;
        let mut n = 0;
        rtc::nvrtcGetProgramLogSize(program, &mut n);
        let mut log = vec![0u8; n];
        rtc::nvrtcGetProgramLog(program, log.as_mut_ptr().cast());
        let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_string();
        let result = if done {
            rtc::nvrtcGetCUBINSize(program, &mut n);
            let mut out = vec![0u8; n];
            rtc::nvrtcGetCUBIN(program, out.as_mut_ptr().cast());
            Ok((out, log))
        } else {
            Err(bad(&log))
        };
        rtc::nvrtcDestroyProgram(&mut program);
        result
    }
}

/// What a convolution of a library needs of its driver.
struct Around<'a> {
    driver: &'a Real,
    device: usize,
    stream: Stream,
    handle: Handle<cu::CUstream_st>,
    room: &'a mut dyn FnMut(usize) -> Result<Address>,
}
impl convolutions::Surroundings for Around<'_> {
    fn stream(&self) -> *mut c_void {
        self.handle.0.cast()
    }
    fn workspace(&mut self, nbytes: usize) -> Result<Address> {
        if nbytes == 0 { Ok(0) } else { (self.room)(nbytes) }
    }
    fn records(&self) -> bool {
        !matches!(self.driver.capturing(self.device, self.stream), Ok(None))
    }
    fn timed(&self, f: &mut dyn FnMut()) -> Result<f64> {
        let (d, s) = (self.device, self.stream);
        let start = self.driver.record(d, s)?;
        f();
        let end = self.driver.record(d, s)?;
        let waited = self.driver.wait_event(d, end);
        let time = waited.and_then(|()| self.driver.elapsed(d, start, end));
        [start, end].iter().for_each(|e| self.driver.forget(d, *e));
        time
    }
}

impl Driver for Real {
    fn device_count(&self) -> usize {
        self.0.len()
    }
    fn properties(&self, device: usize) -> Result<Properties> {
        use cu::CUdevice_attribute as A;
        self.on(device)?;
        let (mut name, mut total) = ([0 as std::ffi::c_char; 256], 0);
        // SAFETY: the driver writes at most as many bytes as it is told, with a zero at the end, and one number.
        let name = unsafe {
            check(cu::cuDeviceGetName(name.as_mut_ptr(), 256, device as i32))?;
            check(cu::cuDeviceTotalMem_v2(&mut total, device as i32))?;
            CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
        };
        Ok(Properties {
            name,
            major: self.attribute(device, A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            minor: self.attribute(device, A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            total_memory: total as i64,
            multi_processor_count: self.attribute(device, A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            warp_size: self.attribute(device, A::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?,
            max_threads_per_multi_processor: self
                .attribute(device, A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        })
    }
    fn allocate(&self, device: usize, nbytes: usize) -> Result<Option<Address>> {
        self.on(device)?;
        let _relaxed = Relaxed::now();
        let mut address = 0;
        // SAFETY: writes one address.
        match unsafe { cu::cuMemAlloc_v2(&mut address, nbytes.max(1)) } {
            cu::CUresult::CUDA_ERROR_OUT_OF_MEMORY => Ok(None),
            r => check(r).map(|()| Some(address)),
        }
    }
    fn free(&self, device: usize, address: Address) {
        if self.on(device).is_ok() {
            let _relaxed = Relaxed::now();
            // SAFETY: the allocator gives back what it got here, once. The driver waits for the work that uses it.
            unsafe { cu::cuMemFree_v2(address) };
        }
    }
    fn reserve(&self, device: usize, nbytes: usize) -> Result<Option<Address>> {
        self.on(device)?;
        mapped::reserve(nbytes)
    }
    fn unreserve(&self, device: usize, address: Address, nbytes: usize) {
        if self.on(device).is_ok() {
            mapped::unreserve(address, nbytes);
        }
    }
    fn map(&self, device: usize, address: Address, nbytes: usize) -> Result<bool> {
        self.on(device)?;
        let _relaxed = Relaxed::now();
        mapped::map(device, address, nbytes)
    }
    fn unmap(&self, device: usize, address: Address, nbytes: usize) -> Result<()> {
        self.on(device)?;
        let _relaxed = Relaxed::now();
        mapped::unmap(address, nbytes)
    }
    fn memory(&self, device: usize) -> Result<(u64, u64)> {
        self.on(device)?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two numbers.
        check(unsafe { cu::cuMemGetInfo_v2(&mut free, &mut total) })?;
        Ok((free as u64, total as u64))
    }
    fn upload(&self, device: usize, stream: Stream, to: Address, from: &[u8]) -> Result<()> {
        let s = self.stream(device, stream)?;
        let at = self.staged(device, s, from)?.unwrap_or(from.as_ptr());
        // SAFETY: the block is as long as the slice (the callers check), and pageable memory has been read when the call
        // returns; a recorded copy reads memory that its graph keeps.
        check(unsafe { cu::cuMemcpyHtoDAsync_v2(to, at.cast(), from.len(), s) })
    }
    fn download(&self, device: usize, stream: Stream, from: Address, to: &mut [u8]) -> Result<()> {
        let s = self.stream(device, stream)?;
        // SAFETY: the block is as long as the slice (the callers check), which outlives the wait.
        unsafe {
            // what was refused is not on its way
            check(cu::cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast::<c_void>(), from, to.len(), s))?;
            check(cu::cuStreamSynchronize(s))
        }
    }
    fn host_allocate(&self, nbytes: usize, how: &Config) -> Result<Option<usize>> {
        // any context will do: the memory is pinned for all of them
        self.on(0)?;
        let _relaxed = Relaxed::now();
        if how.pinned_register {
            return pinned::register(nbytes, how.pinned_threads);
        }
        let mut at = std::ptr::null_mut();
        // SAFETY: writes the address of as many bytes, which are filled so that all are initialised. 1: for all contexts.
        unsafe {
            match cu::cuMemHostAlloc(&mut at, nbytes, 1) {
                cu::CUresult::CUDA_ERROR_OUT_OF_MEMORY => return Ok(None),
                r => check(r)?,
            }
            std::ptr::write_bytes(at.cast::<u8>(), 0, nbytes);
        }
        Ok(Some(at.expose_provenance()))
    }
    fn host_free(&self, address: usize, nbytes: usize) {
        let _relaxed = Relaxed::now();
        if self.on(0).is_err() || pinned::unregister(address, nbytes) {
            return;
        }
        // SAFETY: the allocator of pinned memory gives back what it got, once, when no copy reads it any more.
        unsafe { cu::cuMemFreeHost(std::ptr::with_exposed_provenance_mut(address)) };
    }
    fn upload_pinned(&self, device: usize, stream: Stream, to: Address, from: Pinned) -> Result<()> {
        let s = self.stream(device, stream)?;
        let at: *const c_void = std::ptr::with_exposed_provenance(from.address);
        // SAFETY: the bytes stay where they are until the copy is done: the allocator of pinned memory waits for an event behind
        // it before it hands them out again. Who writes to them meanwhile changes what arrives, and nothing else.
        check(unsafe { cu::cuMemcpyHtoDAsync_v2(to, at, from.nbytes, s) })
    }
    fn copy(&self, device: usize, stream: Stream, from: Address, to: Address, nbytes: usize) -> Result<()> {
        let s = self.stream(device, stream)?;
        // SAFETY: both blocks are as long (the callers check).
        check(unsafe { cu::cuMemcpyDtoDAsync_v2(to, from, nbytes, s) })
    }
    fn fill(&self, device: usize, stream: Stream, to: Address, byte: u8, nbytes: usize) -> Result<()> {
        let s = self.stream(device, stream)?;
        // SAFETY: the block is as long (the callers check).
        check(unsafe { cu::cuMemsetD8Async(to, byte, nbytes, s) })
    }
    fn load(&self, device: usize, source: &str) -> Result<Module> {
        let text = compiler::together(source)?;
        if let Some(found) = archive::find(archive::Kind::Device, &text)?
            && let Some(module) = self.unit(device, &found)?
        {
            archive::serves();
            return Ok(Module::Device(Loaded { device, module, prefix: found.prefix }));
        }
        let image = self.compile(device, &text)?;
        self.on(device)?;
        let _relaxed = Relaxed::now();
        let mut module = std::ptr::null_mut();
        // SAFETY: the image is a whole cubin, as NVRTC wrote it.
        check(unsafe { cu::cuModuleLoadData(&mut module, image.as_ptr().cast()) })?;
        Ok(Module::Device(Loaded { device, module: Handle(module), prefix: String::new() }))
    }
    fn find(&self, device: usize, module: &Arc<Module>, name: &str) -> Result<Function> {
        let Module::Device(loaded) = &**module else {
            return Err(Error::runtime("a kernel of another driver"));
        };
        if loaded.device != device {
            return Err(Error::runtime("invalid launch: the kernel was loaded on another device"));
        }
        self.on(device)?;
        let _relaxed = Relaxed::now();
        let text = CString::new(format!("{}{name}", loaded.prefix))
            .map_err(|_| Error::runtime("a name with a zero byte"))?;
        let mut f = std::ptr::null_mut();
        // SAFETY: writes one handle; modules are never unloaded.
        check(unsafe { cu::cuModuleGetFunction(&mut f, loaded.module.0, text.as_ptr()) })?;
        Ok(Function::Device(Entry { device, function: Handle(f), shared: 0 }))
    }
    fn grant_shared(&self, function: &mut Function, nbytes: u32) -> Result<()> {
        let Function::Device(entry) = function else {
            return Err(Error::runtime("a kernel of another driver"));
        };
        self.on(entry.device)?;
        let _relaxed = Relaxed::now();
        let what = cu::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the handle is one of a module that is never unloaded.
        check(unsafe { cu::cuFuncSetAttribute(entry.function.0, what, nbytes as i32) })?;
        entry.shared = nbytes;
        Ok(())
    }
    fn compiles_families(&self) -> bool {
        false
    }
    fn launch(
        &self,
        device: usize,
        stream: Stream,
        function: &Function,
        shape: Shape,
        params: &[u8],
    ) -> Result<()> {
        let Function::Device(entry) = function else {
            return Err(Error::runtime("a kernel of another driver"));
        };
        if entry.device != device {
            return Err(Error::runtime("invalid launch: the kernel was loaded on another device"));
        }
        let d = self.probably_on(device)?;
        let s = match stream {
            0 => std::ptr::null_mut(),
            _ => d.stream(stream)?,
        };
        let mut size = params.len();
        let mut extra = [
            std::ptr::without_provenance_mut::<c_void>(1), // the arguments follow
            params.as_ptr().cast_mut().cast(),
            std::ptr::without_provenance_mut(2), // their number of bytes
            (&raw mut size).cast(),
            std::ptr::null_mut(), // the end
        ];
        let (f, none) = (entry.function.0, std::ptr::null_mut());
        // SAFETY: the arguments are the struct that the kernel declares (`Args` of kernels/mod.rs writes it field by field),
        // and the addresses in it are of living blocks that are as large as the geometry beside them says.
        let mut queue = || unsafe {
            cu::cuLaunchKernel(
                f,
                shape.blocks,
                1,
                1,
                shape.threads,
                1,
                1,
                entry.shared,
                s,
                none,
                extra.as_mut_ptr(),
            )
        };
        match queue() {
            // the thread's context is another one
            cu::CUresult::CUDA_ERROR_INVALID_HANDLE | cu::CUresult::CUDA_ERROR_INVALID_CONTEXT => {
                self.on(device)?;
                check(queue())
            }
            r => check(r),
        }
    }
    fn product(&self, device: usize, stream: Stream, product: &products::Product) -> Result<bool> {
        let s = self.stream(device, stream)?;
        let _relaxed = Relaxed::now();
        let Some(library) = self.0[device].products.get_or_init(products::Products::new) else {
            return Ok(false);
        };
        library.run(product, (stream, s), |n| self.allocate(device, n))
    }
    fn convolution(
        &self,
        device: usize,
        stream: Stream,
        c: &convolutions::Convolution,
        at: convolutions::Places,
        room: &mut dyn FnMut(usize) -> Result<Address>,
    ) -> Result<bool> {
        let handle = Handle(self.stream(device, stream)?);
        let Some(library) = self.0[device].convolutions.get_or_init(|| {
            let _relaxed = Relaxed::now();
            convolutions::Convolutions::new()
        }) else {
            return Ok(false);
        };
        let _relaxed = Relaxed::now();
        library.run(c, at, &mut Around { driver: self, device, stream, handle, room })
    }
    fn convolutions(&self) -> Option<i64> {
        convolutions::version()
    }
    fn unrecorded(&self, f: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let _relaxed = Relaxed::now();
        f()
    }
    fn new_stream(&self, device: usize) -> Result<Stream> {
        let d = self.on(device)?;
        let _relaxed = Relaxed::now();
        let mut s = std::ptr::null_mut();
        // SAFETY: writes one handle. 1: it does not wait for the default stream.
        check(unsafe { cu::cuStreamCreate(&mut s, 1) })?;
        let mut all = lock(&d.streams);
        all.push(Handle(s));
        Ok(all.len() as u64 - 1)
    }
    fn has_stream(&self, device: usize, stream: Stream) -> Result<bool> {
        let d = self.0.get(device).ok_or_else(no_device)?;
        Ok(lock(&d.streams).len() > stream as usize)
    }
    fn stream_handle(&self, device: usize, stream: Stream) -> Result<u64> {
        Ok(self.stream(device, stream)?.expose_provenance() as u64)
    }
    fn adopt_stream(&self, device: usize, handle: u64) -> Result<Stream> {
        let d = self.on(device)?;
        let known = lock(&d.streams).iter().position(|s| s.0.addr() as u64 == handle);
        // the driver follows a handle without looking whether it is one
        known.map(|at| at as u64).ok_or_else(|| {
            Error::missing("streams that another library made, without a promise (torch::cuda::ExternalStream::from_raw)")
        })
    }
    fn external_stream(&self, device: usize, live: Live) -> Result<Stream> {
        let d = self.on(device)?;
        let mut all = lock(&d.streams);
        if let Some(known) = all.iter().position(|s| s.0.addr() as u64 == live.handle()) {
            return Ok(known as u64);
        }
        all.push(Handle(std::ptr::with_exposed_provenance_mut(live.handle() as usize)));
        Ok(all.len() as u64 - 1)
    }
    fn can_watch(&self) -> Result<()> {
        cupti::present()
    }
    fn watch(&self) -> Result<()> {
        self.on(0)?;
        cupti::begin()
    }
    fn watched(&self) -> Result<()> {
        cupti::end()
    }
    fn operator(&self, entered: Option<u64>) {
        cupti::operator(entered);
    }
    fn bus(&self, device: usize) -> Result<Option<CString>> {
        let mut text = [0 as std::ffi::c_char; 64];
        self.on(device)?;
        // SAFETY: the driver writes at most as many bytes as it is told, with a zero at the end.
        let text = unsafe {
            check(cu::cuDeviceGetPCIBusId(text.as_mut_ptr(), 64, device as i32))?;
            CStr::from_ptr(text.as_ptr()).to_owned()
        };
        Ok(Some(text))
    }
    fn done(&self, device: usize, stream: Stream) -> Result<bool> {
        let s = self.stream(device, stream)?;
        // SAFETY: the stream is never destroyed.
        match unsafe { cu::cuStreamQuery(s) } {
            cu::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            r => check(r).map(|()| true),
        }
    }
    fn wait(&self, device: usize, stream: Stream) -> Result<()> {
        let s = self.stream(device, stream)?;
        // SAFETY: the stream is never destroyed.
        check(unsafe { cu::cuStreamSynchronize(s) })
    }
    fn wait_all(&self, device: usize) -> Result<()> {
        self.on(device)?;
        // SAFETY: the context is the thread's own.
        check(unsafe { cu::cuCtxSynchronize() })
    }
    fn record(&self, device: usize, stream: Stream) -> Result<u64> {
        let s = self.stream(device, stream)?;
        let d = self.on(device)?;
        let again = lock(&d.forgotten).pop();
        let number = match again {
            Some(number) => number,
            None => {
                let _relaxed = Relaxed::now();
                let mut e = std::ptr::null_mut();
                // SAFETY: writes one handle, which is never destroyed.
                check(unsafe { cu::cuEventCreate(&mut e, 0) })?;
                d.add_event(Handle(e))
            }
        };
        let e = self.event(device, number)?;
        // SAFETY: neither is ever destroyed.
        check(unsafe { cu::cuEventRecord(e, s) })?;
        Ok(number)
    }
    fn passed(&self, device: usize, event: u64) -> Result<bool> {
        let e = self.event(device, event)?;
        // SAFETY: the event is never destroyed.
        match unsafe { cu::cuEventQuery(e) } {
            cu::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            r => check(r).map(|()| true),
        }
    }
    fn wait_event(&self, device: usize, event: u64) -> Result<()> {
        let e = self.event(device, event)?;
        // SAFETY: the event is never destroyed.
        check(unsafe { cu::cuEventSynchronize(e) })
    }
    fn order(&self, device: usize, stream: Stream, event: u64) -> Result<()> {
        let (s, e) = (self.stream(device, stream)?, self.event(device, event)?);
        // SAFETY: neither is ever destroyed.
        check(unsafe { cu::cuStreamWaitEvent(s, e, 0) })
    }
    fn elapsed(&self, device: usize, start: u64, end: u64) -> Result<f64> {
        let (a, b) = (self.event(device, start)?, self.event(device, end)?);
        let mut ms = 0f32;
        type Elapsed = unsafe extern "C" fn(*mut f32, cu::CUevent, cu::CUevent) -> cu::CUresult;
        // SAFETY: all drivers have the function of this name and type; newer ones have another beside it, which older ones
        // lack. Neither event is ever destroyed; writes one number.
        unsafe {
            let elapsed = cu::culib().get::<Elapsed>(b"cuEventElapsedTime\0");
            let elapsed = elapsed.map_err(|_| Error::runtime("the driver has no cuEventElapsedTime"))?;
            check(elapsed(&mut ms, a, b))?;
        }
        Ok(f64::from(ms))
    }
    fn forget(&self, device: usize, event: u64) {
        let Some(d) = self.0.get(device) else { return };
        let mut shared = lock(&d.shared);
        if shared.all.contains(&event) {
            shared.free.push(event);
        } else if !shared.opened.values().any(|e| *e == event) {
            drop(shared);
            lock(&d.forgotten).push(event);
        }
    }
    fn begin_capture(&self, device: usize, stream: Stream, mode: CaptureMode) -> Result<()> {
        self.begin(device, stream, mode)
    }
    fn capturing(&self, device: usize, stream: Stream) -> Result<Option<u64>> {
        self.capture_of(self.stream(device, stream)?)
    }
    fn end_capture(&self, device: usize, stream: Stream) -> Result<Graph> {
        self.end(device, stream)
    }
    fn memory_name(&self, device: usize, address: Address) -> Result<(Name, u64)> {
        self.name_of(device, address)
    }
    fn open_memory(&self, device: usize, name: &Name) -> Result<Address> {
        self.open_named(device, name)
    }
    fn close_memory(&self, device: usize, address: Address) {
        self.close_named(device, address);
    }
    fn shared_event(&self, device: usize) -> Result<u64> {
        self.new_shared_event(device)
    }
    fn record_again(&self, device: usize, stream: Stream, event: u64) -> Result<()> {
        self.record_event(device, stream, event)
    }
    fn event_name(&self, device: usize, event: u64) -> Result<Name> {
        self.name_of_event(device, event)
    }
    fn open_event(&self, device: usize, name: &Name) -> Result<u64> {
        self.open_event_named(device, name)
    }
    fn instantiate(&self, _: usize, graph: &Graph) -> Result<()> {
        self.make_ready(graph).map(|_| ())
    }
    fn launch_graph(&self, device: usize, stream: Stream, graph: &Graph) -> Result<()> {
        self.run_graph(device, stream, graph)
    }
    fn nodes(&self, graph: &Graph) -> Result<usize> {
        captured::count(graph)
    }
    fn draw(&self, graph: &Graph, path: &std::path::Path, verbose: bool) -> Result<()> {
        captured::draw(graph, path, verbose)
    }
}
