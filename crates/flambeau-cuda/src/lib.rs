//! The CUDA back end: devices, memory, kernels. NVIDIA's libraries are loaded at run time; `FLAMBEAU_CUDA=emulated[:N]` gives N
//! devices that run the same kernels on the CPU, for tests.
//!
//! A program needs nothing of this crate but to link it (the facade's feature `cuda`): `torch::cuda` answers, and tensors go to
//! `Device::cuda(0)`.
#![deny(unsafe_code)]

mod activity;
mod allocator;
#[doc(hidden)]
pub mod archive;
mod constants;
mod device;
mod driver;
mod fault;
mod generated;
mod graph;
mod host;
mod ipc;
mod jit;
mod kernels;
mod memory;
#[cfg(feature = "nccl")]
pub mod nccl;
mod nvml;

use crate::device::here;
use crate::driver::driver;
use flambeau_core::backend::elements::{self, Elements, Sequence};
use flambeau_core::backend::{self, Backend, Event, Handle, fallback};
use flambeau_core::dispatch::CrateReg;
use flambeau_core::dispatch::op::OpInfo;
use flambeau_core::dispatch::registry::{self, set_fallback};
use flambeau_core::dispatch::value::Value;
use flambeau_core::iter::spec::{PointwiseKernel, PointwiseSpec};
use flambeau_core::tensor::storage::{HostMemory, Storage};
use flambeau_core::types::keys::Key;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Device, Error, Result, Tensor};
use flambeau_devices::cuda::sanitizer::{self, Happening, happened};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::PoisonError;

/// The table of the device `cuda`.
struct Cuda;
impl Backend for Cuda {
    fn device_count(&self) -> u16 {
        device::count() as u16
    }
    fn allocate(&self, nbytes: usize, device: Device) -> Result<Handle> {
        // list forms ask for this back end's ways with lists before they look a kernel up
        flambeau_core::dispatch::registry::init();
        Ok(memory::allocate(device, nbytes)?)
    }
    fn read(&self, memory: &Handle, offset: usize, to: &mut [u8]) -> Result<()> {
        kernels::lists::flush()?;
        let m = memory::of(memory)?;
        flambeau_devices::cuda::runtime::waits()?;
        let from = m.range(offset, to.len())?;
        let stream = here(m.device)?;
        m.used_by(stream);
        if !to.is_empty() {
            sanitizer::copied(m.device as i64, stream, from, false)?;
        }
        match to.is_empty() {
            true => driver()?.wait(m.device, stream)?,
            false => driver()?.download(m.device, stream, from, to)?,
        }
        happened(m.device as i64, Happening::WaitedForStream(stream));
        fault::check(m.device)
    }
    fn write(&self, memory: &Handle, offset: usize, from: &[u8]) -> Result<()> {
        kernels::lists::flush()?;
        let m = memory::of(memory)?;
        let to = m.range(offset, from.len())?;
        if from.is_empty() {
            return Ok(());
        }
        let stream = here(m.device)?;
        m.used_by(stream);
        sanitizer::copied(m.device as i64, stream, to, true)?;
        driver()?.upload(m.device, stream, to, from)
    }
    fn copy(&self, from: &Handle, to: &Handle, nbytes: usize) -> Result<()> {
        kernels::lists::flush()?;
        let (a, b) = (memory::of(from)?, memory::of(to)?);
        if nbytes == 0 {
            return Ok(());
        }
        if a.device != b.device {
            let mut bytes = Vec::new();
            let room = bytes.try_reserve_exact(nbytes);
            room.map_err(|_| Error::memory(format!("no room for {nbytes} bytes")))?;
            bytes.resize(nbytes, 0);
            self.read(from, 0, &mut bytes)?;
            return self.write(to, 0, &bytes);
        }
        let stream = here(a.device)?;
        a.used_by(stream);
        b.used_by(stream);
        driver()?.copy(a.device, stream, a.range(0, nbytes)?, b.range(0, nbytes)?, nbytes)
    }
    fn synchronize(&self, device: Device) -> Result<()> {
        let d = device::ordinal(device)?;
        kernels::lists::flush()?;
        driver()?.wait_all(d)?;
        happened(d as i64, Happening::WaitedForAll);
        fault::check(d)
    }
    fn event(&self, device: Device) -> Result<Box<dyn Event>> {
        let d = device::ordinal(device)?;
        kernels::lists::flush()?;
        let stream = here(d)?;
        let event = driver()?.record(d, stream)?;
        happened(d as i64, Happening::Recorded { event, stream });
        Ok(Box::new(Mark { device: d, event }))
    }
    fn clear(&self, memory: &Handle, nbytes: usize) -> Result<()> {
        kernels::lists::flush()?;
        let m = memory::of(memory)?;
        if nbytes == 0 {
            return Ok(());
        }
        let stream = here(m.device)?;
        m.used_by(stream);
        driver()?.fill(m.device, stream, m.range(0, nbytes)?, 0, nbytes)
    }
    fn share(&self, memory: &Handle, used: Box<dyn Fn() -> bool + Send + Sync>) -> Result<Vec<u8>> {
        ipc::share(memory, used)
    }
    fn open(&self, device: Device, bytes: &[u8], kept: Box<dyn Any + Send + Sync>) -> Result<Handle> {
        flambeau_core::dispatch::registry::init();
        ipc::open(device, bytes, kept)
    }
    fn absent(&self, device: Device) -> Error {
        match device::ordinal(device) {
            Err(e) => e,
            Ok(_) => Error::device(format!("device {device} does not exist")),
        }
    }
}
impl Elements for Cuda {
    fn copy_elements(&self, dst: &Tensor, src: &Tensor) -> Result<bool> {
        kernels::copy::copy(dst, src)
    }
    fn pointwise(&self, spec: &'static PointwiseSpec) -> Option<PointwiseKernel> {
        kernels::pointwise::knows(spec.kernel).then_some(kernels::pointwise::run as PointwiseKernel)
    }
    fn constant(&self, number: &Tensor, device: Device) -> Result<Option<Tensor>> {
        constants::of(number, device).map(Some)
    }
    fn fill(&self, out: &Tensor, element: &[u8]) -> Result<bool> {
        kernels::creation::fill(out, element)
    }
    fn sequence(&self, out: &Tensor, sequence: &Sequence) -> Result<bool> {
        kernels::creation::sequence(out, sequence)
    }
    fn pin(&self, nbytes: usize) -> Result<Box<dyn HostMemory>> {
        host::allocate(nbytes)
    }
    fn is_pinned(&self, storage: &Storage) -> bool {
        host::of(storage).is_some()
    }
    fn may_copy(&self, device: Device, pinned: bool) -> Result<()> {
        let d = device::ordinal(device)?;
        if !pinned && graph::of(d, here(d)?)?.is_some() {
            return Err(Error::runtime(
                "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. Please use \
                 tensor.pin_memory() or allocate the tensor with pin_memory=True.",
            ));
        }
        Ok(())
    }
    fn copy_pinned(&self, dst: &Tensor, src: &Tensor) -> Result<bool> {
        host::copy(dst, src)
    }
}
struct Mark {
    device: usize,
    event: u64,
}
impl Event for Mark {
    fn done(&self) -> bool {
        driver().and_then(|d| d.passed(self.device, self.event)).unwrap_or(true)
    }
    fn wait(&self) -> Result<()> {
        driver()?.wait_event(self.device, self.event)?;
        happened(self.device as i64, Happening::WaitedForEvent(self.event));
        fault::check(self.device)
    }
}

/// How often each operator went by way of the CPU.
static FALLBACKS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());
/// How often each operator went by way of the CPU so far, since no kernel of this crate computes it.
pub fn fallbacks() -> BTreeMap<&'static str, u64> {
    FALLBACKS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
/// Counts, and says it once for each operator where `FLAMBEAU_CUDA_FALLBACKS` is set and once for all otherwise.
fn count(name: &'static str) {
    let (first, of_all) = {
        let mut all = FALLBACKS.lock().unwrap_or_else(PoisonError::into_inner);
        let of_all = all.is_empty();
        let n = all.entry(name).or_insert(0);
        *n += 1;
        (*n == 1, of_all)
    };
    if of_all || first && std::env::var_os("FLAMBEAU_CUDA_FALLBACKS").is_some() {
        flambeau_core::settings::determinism::warn(&format!(
            "{name} has no CUDA kernel here and is computed on the CPU, as other operators may be; FLAMBEAU_CUDA_FALLBACKS=1 \
             names each of them"
        ));
    }
}
/// The operators of flambeau-core and flambeau-nn-functional that have neither a kernel here nor a body over others, so that the CPU
/// computes them, and how many operators there are. For `cargo xtask kernels --fallbacks`.
#[doc(hidden)]
pub fn by_the_cpu() -> (Vec<&'static str>, usize) {
    let rows = registry::crates()
        .into_iter()
        .filter(|c| ["flambeau-core", "flambeau-nn-functional"].contains(&c.name));
    let rows: Vec<_> = rows.flat_map(|c| c.ops.iter()).collect();
    let left = rows.iter().filter(|o| !o.has(Key::Cuda) && !o.info().composite && o.has(Key::Cpu));
    let mut names: Vec<&str> = left.map(|o| o.info().name).collect();
    names.sort_unstable();
    (names, rows.len())
}
/// How many kernels this thread launched so far.
#[doc(hidden)]
pub fn launches() -> u64 {
    kernels::LAUNCHES.get()
}
/// What NVRTC's assembler says of the kernels of a source, which may include files of `kernels/`, for an architecture (`sm_90`):
/// registers, shared memory, what is spilled. It needs no device. For `cargo xtask kernels --report`.
///
/// # Errors
/// No NVRTC; a source that it refuses.
#[doc(hidden)]
pub fn assembled(source: &str, architecture: &str) -> Result<String> {
    Ok(driver::real::compiled(&driver::compiler::together(source)?, architecture)?.1)
}
fn through_the_cpu(info: &'static OpInfo, key: Key, args: Vec<Value>) -> Result<Vec<Value>> {
    count(info.name);
    fallback::run(info, key, args)
}

fn fill() {
    kernels::pointwise::register();
    kernels::reduction::register();
    kernels::blas::register();
    kernels::softmax::register();
    kernels::indexing::register();
    kernels::norm::register();
    kernels::loss::register();
    kernels::embedding::register();
    kernels::linear::register();
    kernels::pool::register();
    kernels::conv::register();
    kernels::attention::register();
    kernels::vision::register();
    kernels::padding::register();
    kernels::ctc::register();
    kernels::dropout::register();
    kernels::rnn::register();
    kernels::joining::register();
    kernels::random::register();
    kernels::scan::register();
    kernels::linalg::register();
    kernels::sorting::register();
    elements::bring(Key::Cuda, &Cuda);
    backend::lists::bring(Key::Cuda, &kernels::optim::OnLists);
    set_fallback(Key::Cuda, Some(through_the_cpu));
    flambeau_devices::cuda::runtime::install(&device::Answers);
    sanitizer::read_environment();
    memory::enable_cache(true);
    let _ = flambeau_core::types::generator::SEEDED.set(kernels::random::seed_all);
}

/// The crate's entry among the crates; programs that run without link-time lists register it by hand.
pub static REG: CrateReg = CrateReg { name: env!("CARGO_PKG_NAME"), ops: &[], fills: &[fill] };
#[linkme::distributed_slice(registry::CRATES)]
static ENTRY: &CrateReg = &REG;
#[linkme::distributed_slice(backend::BACKENDS)]
static TABLE: (Key, &dyn Backend) = (Key::Cuda, &Cuda);
