//! Device memory as tensors hold it: a block of the allocator, which goes back when its last handle is dropped.

use crate::allocator::Pool;
use crate::device::{self, here};
use crate::driver::library::Pluggable;
use crate::driver::{Address, Stream, driver};
use crate::graph;
use flambeau_core::backend::Handle;
use flambeau_core::types::order::{Mutex, MutexGuard};
use flambeau_core::{Device, Error, Result};
use flambeau_devices::cuda::runtime::PoolId;
use flambeau_devices::cuda::sanitizer::{Happening, happened};
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

/// Who gave memory and gets it back.
enum Origin {
    /// The caching allocator.
    Cached,
    /// The driver.
    Driver,
    /// An allocator of the program's.
    Plugged(Arc<Pluggable>),
    /// Another process, for as long as this is kept.
    Other(Box<dyn Any + Send + Sync>),
}
/// Memory of one device. The address 0: no bytes.
pub(crate) struct Memory {
    pub(crate) device: usize,
    pub(crate) address: Address,
    pub(crate) nbytes: usize,
    pub(crate) pool: PoolId,
    stream: Stream,
    origin: Origin,
    /// Further streams that used it, whose work a next owner waits for.
    others: Mutex<BTreeSet<Stream>>,
}
impl Memory {
    /// Notes that a stream uses it (`Tensor.record_stream` of itself).
    pub(crate) fn used_by(self: &Arc<Self>, stream: Stream) {
        self.noted(stream);
        graph::touched(self, stream);
    }
    fn noted(&self, stream: Stream) {
        if stream != self.stream {
            self.others.lock().unwrap_or_else(PoisonError::into_inner).insert(stream);
        }
    }
    /// A block of another process, which lets it go when `kept` is dropped.
    pub(crate) fn of_another(
        device: usize,
        address: Address,
        nbytes: usize,
        stream: Stream,
        kept: Box<dyn Any + Send + Sync>,
    ) -> Memory {
        let (pool, origin) = (crate::allocator::COMMON, Origin::Other(kept));
        Memory { device, address, nbytes, pool, stream, origin, others: Mutex::default() }
    }
    /// The address of a range within.
    ///
    /// # Errors
    /// The range ends outside.
    pub(crate) fn range(&self, offset: usize, n: usize) -> Result<Address> {
        match offset.checked_add(n) {
            Some(end) if end <= self.nbytes => Ok(self.address + offset as u64),
            _ => Err(Error::runtime(format!(
                "bytes {offset} and {n} more are outside of {} bytes",
                self.nbytes
            ))),
        }
    }
}
impl Drop for Memory {
    fn drop(&mut self) {
        let others = std::mem::take(&mut *self.others.lock().unwrap_or_else(PoisonError::into_inner));
        if self.address != 0 {
            happened(self.device as i64, Happening::Given(self.address, self.nbytes as u64));
        }
        let origin = std::mem::replace(&mut self.origin, Origin::Cached);
        let (device, address, nbytes, stream) = (self.device, self.address, self.nbytes, self.stream);
        let back = Back { device, address, nbytes, stream, origin, others };
        if !back.others.is_empty() && graph::any() {
            // an event of a stream that records orders nothing but its graph
            DEFERRED.lock().unwrap_or_else(PoisonError::into_inner).push(back);
        } else {
            back.give();
        }
    }
}

/// A block that goes back once the work of further streams is ordered before its next owner's.
struct Back {
    device: usize,
    address: Address,
    nbytes: usize,
    stream: Stream,
    origin: Origin,
    others: BTreeSet<Stream>,
}
impl Back {
    fn give(self) {
        let Ok(driver) = driver() else { return };
        for s in self.others {
            // the next owner's stream waits for what the others still do
            let ordered = driver.record(self.device, s).and_then(|e| {
                let ordered = driver.order(self.device, self.stream, e);
                driver.forget(self.device, e);
                ordered
            });
            if ordered.is_err() {
                let _ = driver.wait(self.device, s);
            }
        }
        match self.origin {
            _ if self.address == 0 => {}
            Origin::Cached => {
                at_once(self.device).give(self.address);
            }
            Origin::Driver => driver.free(self.device, self.address),
            Origin::Other(kept) => {
                // who gave it may use it again at once
                let _ = driver.wait(self.device, self.stream);
                drop(kept);
            }
            Origin::Plugged(p) => {
                let stream = driver.stream_handle(self.device, self.stream).unwrap_or(0);
                p.give(driver.disown(self.device, self.address), self.nbytes, self.device, stream);
            }
        }
    }
}
/// What was dropped while a stream recorded and others had used it.
static DEFERRED: Mutex<Vec<Back>> = Mutex::new(Vec::new());
/// Gives that back, when no stream records any more.
pub(crate) fn give_deferred() {
    let all = std::mem::take(&mut *DEFERRED.lock().unwrap_or_else(PoisonError::into_inner));
    all.into_iter().for_each(Back::give);
}

/// The allocator of a device.
pub(crate) fn pool(device: usize) -> MutexGuard<'static, Pool> {
    let mut own = at_once(device);
    own.settle();
    own
}
/// The same for who only takes a block or gives one back.
fn at_once(device: usize) -> MutexGuard<'static, Pool> {
    static POOLS: OnceLock<Vec<Mutex<Pool>>> = OnceLock::new();
    let all = POOLS.get_or_init(|| (0..device::count().max(1)).map(|_| Mutex::default()).collect());
    all[device.min(all.len() - 1)].lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether memory comes from elsewhere than the caching allocator.
static DIRECT: AtomicBool = AtomicBool::new(false);
static UNCACHED: AtomicBool = AtomicBool::new(false);
static PLUGGED: OnceLock<Arc<Pluggable>> = OnceLock::new();
/// Turns the cache on or off; the environment may forbid it.
pub(crate) fn enable_cache(on: bool) {
    UNCACHED.store(!on, Ordering::Relaxed);
    let forbidden = std::env::var_os("PYTORCH_NO_CUDA_MEMORY_CACHING").is_some();
    DIRECT.store(!on || forbidden || PLUGGED.get().is_some(), Ordering::Relaxed);
}
pub(crate) fn is_cache_enabled() -> bool {
    !UNCACHED.load(Ordering::Relaxed)
}
/// Lets all memory come from an allocator of the program's; `false` where there is one already.
pub(crate) fn plug(allocator: Arc<Pluggable>) -> bool {
    let first = PLUGGED.set(allocator).is_ok();
    DIRECT.store(true, Ordering::Relaxed);
    first
}
pub(crate) fn is_plugged() -> bool {
    PLUGGED.get().is_some()
}
/// Memory of the program's own allocator, or of the driver.
#[cold]
fn direct(device: usize, stream: Stream, nbytes: usize) -> Result<(Address, Origin)> {
    let driver = driver()?;
    let none = || Error::memory("CUDA error: out of memory");
    match PLUGGED.get() {
        Some(p) => {
            let at = p.take(nbytes, device, driver.stream_handle(device, stream)?).ok_or_else(none)?;
            Ok((driver.adopt(device, at, nbytes)?, Origin::Plugged(p.clone())))
        }
        None => {
            let at = driver.allocate(device, nbytes)?;
            let at = match at {
                Some(at) => at,
                // what is cached may be in the way
                None => {
                    pool(device).give_back(driver, device);
                    driver.allocate(device, nbytes)?.ok_or_else(none)?
                }
            };
            Ok((at, Origin::Driver))
        }
    }
}

/// Memory for the current stream of a device.
///
/// # Errors
/// As the allocator.
pub(crate) fn allocate(device: Device, nbytes: usize) -> Result<Arc<Memory>> {
    let d = device::ordinal(device)?;
    let stream = here(d)?;
    let own = graph::pool_of(d, stream)?;
    let (address, origin) = match nbytes {
        0 => (0, Origin::Cached),
        _ if DIRECT.load(Ordering::Relaxed) => direct(d, stream, nbytes)?,
        _ => (at_once(d).take(driver()?, d, (stream, own), nbytes)?, Origin::Cached),
    };
    if address != 0 {
        happened(d as i64, Happening::Taken(address));
    }
    Ok(Arc::new(Memory { device: d, address, nbytes, pool: own, stream, origin, others: Mutex::default() }))
}
/// The memory behind a handle.
///
/// # Errors
/// Another back end's.
pub(crate) fn of(handle: &Handle) -> Result<Arc<Memory>> {
    handle.clone().downcast().map_err(|_| not_ours())
}
/// The memory behind a handle, noted as what a stream uses.
///
/// # Errors
/// As [`of`].
pub(crate) fn used(handle: &Handle, stream: Stream) -> Result<&Memory> {
    if graph::any() {
        graph::touched(&of(handle)?, stream);
    }
    let m: &Memory = handle.downcast_ref().ok_or_else(not_ours)?;
    m.noted(stream);
    Ok(m)
}
/// Where the memory behind a handle begins; `None` where it has no bytes or is another back end's.
pub(crate) fn start(handle: &Handle) -> Option<Address> {
    handle.downcast_ref::<Memory>().map(|m| m.address).filter(|a| *a != 0)
}
fn not_ours() -> Error {
    Error::device("this memory is not CUDA's")
}
