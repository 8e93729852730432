//! What a CUDA back end answers for `torch.cuda`. The crate of the back end stands above this one and brings it.

use super::absent;
use crate::{Ordinal, Stats};
use flambeau_core::{Result, Scalar, Tensor, Value};
use std::any::Any;
use std::backtrace::Backtrace;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

/// Properties of a device.
#[derive(Clone, Debug, Default)]
pub struct Properties {
    /// The name.
    pub name: String,
    /// Compute capability, first number.
    pub major: i64,
    /// Compute capability, second number.
    pub minor: i64,
    /// Bytes of memory.
    pub total_memory: i64,
    /// Number of multiprocessors.
    pub multi_processor_count: i64,
    /// Threads that run in step.
    pub warp_size: i64,
    /// Threads that a multiprocessor holds.
    pub max_threads_per_multi_processor: i64,
}

/// A CUDA back end. Devices are given by number, streams by the device's number of them, of which 0 is the default one.
pub trait Runtime: Send + Sync {
    /// Number of devices; 0 where there is no driver.
    fn device_count(&self) -> i64;
    /// Whether a device was used.
    fn is_initialized(&self) -> bool;
    /// Starts the driver.
    ///
    /// # Errors
    /// There is none: what to install.
    fn init(&self) -> Result<()>;
    /// The calling thread's device.
    ///
    /// # Errors
    /// As [`Runtime::init`].
    fn current_device(&self) -> Result<i64>;
    /// Chooses the calling thread's device.
    ///
    /// # Errors
    /// No such device.
    fn set_device(&self, device: i64) -> Result<()>;
    /// What a device can do.
    ///
    /// # Errors
    /// No such device.
    fn properties(&self, device: i64) -> Result<Properties>;
    /// Whether one device reads the memory of another.
    ///
    /// # Errors
    /// No such device.
    fn can_access_peer(&self, device: i64, peer: i64) -> Result<bool>;
    /// Waits for all work of a device.
    ///
    /// # Errors
    /// Of a kernel.
    fn synchronize(&self, device: i64) -> Result<()>;
    /// The calling thread's stream of a device.
    ///
    /// # Errors
    /// No such device.
    fn current_stream(&self, device: i64) -> Result<u64>;
    /// Chooses the calling thread's stream of a device.
    ///
    /// # Errors
    /// No such stream.
    fn set_stream(&self, device: i64, stream: u64) -> Result<()>;
    /// Makes a stream.
    ///
    /// # Errors
    /// No such device.
    fn new_stream(&self, device: i64) -> Result<u64>;
    /// Whether all work of a stream is done.
    ///
    /// # Errors
    /// No such stream.
    fn stream_query(&self, device: i64, stream: u64) -> Result<bool>;
    /// Waits for all work of a stream.
    ///
    /// # Errors
    /// Of a kernel.
    fn stream_synchronize(&self, device: i64, stream: u64) -> Result<()>;
    /// Puts an event behind the work of a stream.
    ///
    /// # Errors
    /// No such stream.
    fn record(&self, device: i64, stream: u64) -> Result<u64>;
    /// Whether the work before an event is done.
    ///
    /// # Errors
    /// No such event.
    fn event_query(&self, device: i64, event: u64) -> Result<bool>;
    /// Waits for the work before an event.
    ///
    /// # Errors
    /// Of a kernel.
    fn event_synchronize(&self, device: i64, event: u64) -> Result<()>;
    /// Lets what comes later in a stream wait for an event.
    ///
    /// # Errors
    /// No such stream or event.
    fn wait_event(&self, device: i64, stream: u64, event: u64) -> Result<()>;
    /// Milliseconds between two events.
    ///
    /// # Errors
    /// One of them has not been passed.
    fn elapsed(&self, device: i64, start: u64, end: u64) -> Result<f64>;
    /// Starts a device's generator anew.
    fn manual_seed(&self, device: i64, seed: i64);
    /// The seed of a device's generator.
    fn initial_seed(&self, device: i64) -> i64;
    /// The state of a device's generator, in PyTorch's bytes.
    fn rng_state(&self, device: i64) -> Vec<u8>;
    /// Restores what [`Runtime::rng_state`] gave.
    ///
    /// # Errors
    /// Another number of bytes.
    fn set_rng_state(&self, device: i64, state: &[u8]) -> Result<()>;
    /// Gives cached memory back to the driver.
    ///
    /// # Errors
    /// Of a kernel that is waited for.
    fn empty_cache(&self) -> Result<()>;
    /// Statistics of a device's allocator under PyTorch's names.
    fn memory_stats(&self, device: i64) -> Stats;
    /// Begins to count peaks anew.
    fn reset_peak_memory_stats(&self, device: i64);
    /// Begins to count totals anew.
    fn reset_accumulated_memory_stats(&self, device: i64);
    /// Free and all bytes of a device.
    ///
    /// # Errors
    /// No such device.
    fn mem_get_info(&self, device: i64) -> Result<(i64, i64)>;
    /// Limits what a device's allocator takes, as a part of its memory.
    ///
    /// # Errors
    /// Not within 0 and 1.
    fn set_memory_fraction(&self, device: i64, fraction: f64) -> Result<()>;
    /// The limit.
    fn memory_fraction(&self, device: i64) -> f64;
    /// The segments of a device's allocator: address, sizes, and the blocks in them.
    fn segments(&self, device: i64) -> Vec<Segment>;
    /// Takes memory by hand: its address.
    ///
    /// # Errors
    /// Out of memory.
    fn take(&self, device: i64, nbytes: i64) -> Result<i64>;
    /// Gives it back.
    ///
    /// # Errors
    /// Nobody took it.
    fn give(&self, address: i64) -> Result<()>;
    /// The capture that a stream takes part in, by its number.
    ///
    /// # Errors
    /// No such stream.
    fn capture_of(&self, device: i64, stream: u64) -> Result<Option<u64>>;
    /// Lets a stream record; its allocations come from a pool until it ends.
    ///
    /// # Errors
    /// The stream records already, or is the default one.
    fn capture_begin(&self, device: i64, stream: u64, pool: PoolId, mode: CaptureMode) -> Result<u64>;
    /// What a stream recorded.
    ///
    /// # Errors
    /// Something that was not allowed broke the recording, or the stream did not begin it.
    fn capture_end(&self, device: i64, stream: u64) -> Result<Arc<dyn Recorded>>;
    /// Somebody more uses a pool; its properties are set where they are given: whether others may have its blocks as a last
    /// resort, and whether they are never cut.
    ///
    /// # Errors
    /// No such device.
    fn pool_retain(&self, device: i64, pool: PoolId, properties: Option<(bool, bool)>) -> Result<()>;
    /// Lets a pool's memory come from somebody's allocator ([`Runtime::load_allocator`]).
    ///
    /// # Errors
    /// No such device.
    fn pool_source(&self, device: i64, pool: PoolId, allocator: Arc<dyn Any + Send + Sync>) -> Result<()>;
    /// An allocator of a shared library, by the names of its functions.
    ///
    /// # Errors
    /// The system refuses the file, or it has no such function.
    fn load_allocator(&self, path: &Path, alloc: &str, free: &str) -> Result<Arc<dyn Any + Send + Sync>>;
    /// Lets all memory come from it.
    ///
    /// # Errors
    /// A device was used already.
    fn change_allocator(&self, allocator: Arc<dyn Any + Send + Sync>) -> Result<()>;
    /// What PyTorch calls the allocator in force.
    fn allocator_backend(&self) -> &'static str;
    /// Turns the allocator's cache on or off.
    fn enable_cache(&self, on: bool);
    /// Whether it is on.
    fn is_cache_enabled(&self) -> bool;
    /// Lets memory go that other processes had.
    fn ipc_collect(&self);
    /// An event that other processes can have.
    ///
    /// # Errors
    /// No such device.
    fn shared_event(&self, device: i64) -> Result<u64>;
    /// Puts such an event behind the work of a stream.
    ///
    /// # Errors
    /// No such stream or event.
    fn record_again(&self, device: i64, stream: u64, event: u64) -> Result<()>;
    /// What another process gets at it by.
    ///
    /// # Errors
    /// An event of this process alone.
    fn event_name(&self, device: i64, event: u64) -> Result<[u8; 64]>;
    /// An event of another process.
    ///
    /// # Errors
    /// There is no such event.
    fn open_event(&self, device: i64, name: &[u8; 64]) -> Result<u64>;
    /// One fewer uses it; its memory goes back to the driver once nobody does.
    fn pool_release(&self, device: i64, pool: PoolId);
    /// How many use it.
    fn pool_uses(&self, device: i64, pool: PoolId) -> i64;
    /// Lets the thread's allocations on a device come from a pool, or ends that.
    ///
    /// # Errors
    /// No such device.
    fn pool_route(&self, device: i64, pool: PoolId, on: bool) -> Result<()>;
    /// Says what is noted from here on of what a device's allocator does.
    ///
    /// # Errors
    /// No such device.
    fn record_history(&self, device: i64, how: Noting) -> Result<()>;
    /// What was noted.
    fn history(&self, device: i64) -> Vec<Entry>;
    /// Puts the allocator's settings in force, as `PYTORCH_ALLOC_CONF` gives them.
    ///
    /// # Errors
    /// PyTorch's, of settings that are none.
    fn set_allocator_settings(&self, text: &str) -> Result<()>;
    /// The settings in force, under PyTorch's names.
    fn allocator_settings(&self) -> Value;
    /// Nobody asks for an event any more.
    fn forget_event(&self, device: i64, event: u64);
    /// The address of a tensor's first element; `None` where it has no elements or is not this back end's.
    fn address(&self, t: &Tensor) -> Option<u64>;
    /// The driver's handle of a stream.
    ///
    /// # Errors
    /// No such stream.
    fn stream_handle(&self, device: i64, stream: u64) -> Result<u64>;
    /// The number of a stream by the driver's handle.
    ///
    /// # Errors
    /// It is none.
    fn adopt_stream(&self, device: i64, handle: u64) -> Result<u64>;
    /// The number of a stream that another library made.
    ///
    /// # Errors
    /// No such device.
    fn external_stream(&self, device: i64, live: super::external::Live) -> Result<u64>;
    /// Whether what devices do can be watched.
    ///
    /// # Errors
    /// There is nothing to ask a device's driver by: what to install.
    fn can_watch(&self) -> Result<()>;
    /// Begins to note what devices do.
    ///
    /// # Errors
    /// As [`Runtime::can_watch`]; somebody watches already.
    fn watch(&self, base: std::time::Instant) -> Result<()>;
    /// Waits for all devices and ends it: what was noted.
    ///
    /// # Errors
    /// Of a kernel.
    fn watched(&self) -> Result<Vec<super::activity::Activity>>;
    /// The calling thread's work belongs to an operator from here on; none: to the one before again.
    fn operator(&self, entered: Option<u64>);
    /// Computes a formula of a text for each element of tensors.
    ///
    /// # Errors
    /// The compiler refuses the text; tensors that do not go together.
    fn jit(
        &self,
        formula: &super::jiterator::Formula,
        tensors: &[Tensor],
        numbers: &[Scalar],
    ) -> Result<Vec<Tensor>>;
    /// What the driver's management library measures.
    ///
    /// # Errors
    /// There is no such library, or it refuses.
    fn measured(&self, device: i64, what: Measured) -> Result<i64>;
    /// Processes that use a device, and their bytes of its memory.
    ///
    /// # Errors
    /// As [`Runtime::measured`].
    fn processes(&self, device: i64) -> Result<Vec<(i64, i64)>>;
    /// Statistics of pinned memory under PyTorch's names.
    fn host_stats(&self) -> Stats;
    /// Begins to count peaks or totals of it anew.
    fn reset_host_stats(&self, peaks: bool, totals: bool);
    /// Gives cached pinned memory back to the driver.
    fn empty_host_cache(&self);
    /// The version of cuDNN, as PyTorch says it; `None` where it is not there.
    fn cudnn_version(&self) -> Option<i64> {
        None
    }
}

/// What the driver's management library measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measured {
    /// Percent of the last second in which kernels ran.
    Utilization,
    /// Percent of the last second in which memory was read or written.
    MemoryUsage,
    /// Degrees Celsius.
    Temperature,
    /// Milliwatts.
    PowerDraw,
    /// Megahertz of the multiprocessors.
    ClockRate,
    /// Bytes that are in use.
    MemoryUsed,
}
static SYNC_DEBUG: AtomicU8 = AtomicU8::new(0);
/// What happens at calls that wait for a device: 0 nothing, 1 a warning, 2 an error.
pub fn sync_debug_mode() -> u8 {
    SYNC_DEBUG.load(Ordering::Relaxed)
}
pub(crate) fn set_sync_debug_mode(mode: u8) {
    SYNC_DEBUG.store(mode, Ordering::Relaxed);
}
/// A call that waits for a device: what the mode says of it.
///
/// # Errors
/// In mode 2.
pub fn waits() -> Result<()> {
    const TEXT: &str = "called a synchronizing CUDA operation";
    match sync_debug_mode() {
        0 => Ok(()),
        1 => {
            flambeau_core::settings::determinism::warn(TEXT);
            Ok(())
        }
        _ => Err(flambeau_core::Error::runtime(TEXT)),
    }
}

/// A pool of memory: the first number of those that graphs made for themselves, the second of those that somebody asked for.
pub type PoolId = (u64, u64);
/// What a thread may do while a stream records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CaptureMode {
    /// No thread may do what could wait for the device.
    #[default]
    Global,
    /// The thread that records may not.
    ThreadLocal,
    /// Every thread may.
    Relaxed,
}
/// Recorded work.
pub trait Recorded: Send + Sync {
    /// How many pieces of work there are.
    ///
    /// # Errors
    /// Of the driver.
    fn nodes(&self) -> Result<usize>;
    /// Makes it ready to run.
    ///
    /// # Errors
    /// Of the driver.
    fn instantiate(&self) -> Result<()>;
    /// Queues it on the thread's stream.
    ///
    /// # Errors
    /// Of the driver.
    fn replay(&self) -> Result<()>;
    /// Writes a picture of it.
    ///
    /// # Errors
    /// Of the disk.
    fn draw(&self, path: &Path, verbose: bool) -> Result<()>;
}
/// Something that an allocator did.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What, in PyTorch's words.
    pub action: &'static str,
    /// Where; of `oom` the bytes that were free.
    pub address: i64,
    /// Bytes.
    pub size: i64,
    /// For which stream.
    pub stream: i64,
    /// When, in microseconds since 1970.
    pub time_us: i64,
    /// In which pool.
    pub pool: PoolId,
    /// Where it was called.
    pub frames: Option<Arc<Backtrace>>,
}
/// What is noted of an allocator.
#[derive(Clone, Debug, Default)]
pub struct Noting {
    /// Whether blocks know where they were taken.
    pub blocks: bool,
    /// Whether events are kept.
    pub events: bool,
    /// Of what callers are noted: `all`, `alloc`, `state` or nothing.
    pub context: &'static str,
    /// The most events that are kept: the last ones.
    pub most: usize,
    /// Events that are left out.
    pub skip: Vec<String>,
    /// Whether what was noted so far is forgotten.
    pub clear: bool,
}

/// A block of a segment.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Where it begins.
    pub address: i64,
    /// Bytes.
    pub size: i64,
    /// Bytes that were asked for.
    pub asked: i64,
    /// Whether it is in use.
    pub used: bool,
    /// Where it was taken.
    pub frames: Option<Arc<Backtrace>>,
}
/// One piece of memory that an allocator got from the driver.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    /// Its device.
    pub device: i64,
    /// Where it begins.
    pub address: i64,
    /// Bytes.
    pub total_size: i64,
    /// Whether it serves small blocks.
    pub small: bool,
    /// The stream that it serves.
    pub stream: i64,
    /// The pool that it belongs to.
    pub pool: PoolId,
    /// Whether it grows.
    pub expandable: bool,
    /// Its blocks.
    pub blocks: Vec<Block>,
}

static RUNTIME: OnceLock<&'static dyn Runtime> = OnceLock::new();
/// Brings the back end; the first one stays, and `false` says that this one is not it.
pub fn install(runtime: &'static dyn Runtime) -> bool {
    RUNTIME.set(runtime).is_ok()
}
/// The back end, which stands in the list of crates.
pub(crate) fn installed() -> Option<&'static dyn Runtime> {
    flambeau_core::dispatch::registry::init();
    RUNTIME.get().copied()
}
/// What the back end answers, if one is linked and there is a device.
pub(crate) fn answer<R>(ask: impl FnOnce(&dyn Runtime) -> R) -> Option<R> {
    installed().filter(|r| r.device_count() > 0).map(ask)
}
/// What the back end answers, which may be an error; without one what a library says that was built without CUDA.
pub(crate) fn of_runtime<R>(ask: impl FnOnce(&dyn Runtime) -> Result<R>) -> Result<R> {
    match installed() {
        Some(r) => {
            r.init()?;
            ask(r)
        }
        None => absent(),
    }
}

/// Until it is dropped another device is the current one, or another stream.
#[derive(Default)]
pub(crate) struct On {
    device: Option<i64>,
    stream: Option<(i64, u64)>,
}
impl On {
    /// Makes a stream of a device the current one.
    #[cfg(feature = "by-name")]
    pub(crate) fn stream(device: i64, stream: u64) -> Result<On> {
        of_runtime(|r| {
            let before = (device, r.current_stream(device)?);
            let own = r.current_device()?;
            r.set_stream(device, stream)?;
            r.set_device(own)?;
            Ok(On { device: None, stream: Some(before) })
        })
    }
}
impl Drop for On {
    fn drop(&mut self) {
        let _ = answer(|r| {
            if let Some((device, stream)) = self.stream {
                let own = r.current_device()?;
                r.set_stream(device, stream)?;
                r.set_device(own)?;
            }
            self.device.map_or(Ok(()), |d| r.set_device(d))
        });
    }
}
/// Makes a device the current one; a negative number changes nothing.
pub(crate) fn on(device: Ordinal) -> Result<On> {
    if device.0 < 0 {
        return Ok(On::default());
    }
    if installed().is_none() {
        return Err(flambeau_core::Error::runtime("PyTorch was compiled without CUDA support"));
    }
    of_runtime(|r| {
        let before = r.current_device()?;
        r.set_device(device.0)?;
        Ok(On { device: Some(before), stream: None })
    })
}

/// Optional arguments of calls by name: a device is the current one for the call, all others are only checked.
#[cfg(feature = "by-name")]
pub(crate) trait Optional {
    fn enter(self) -> Result<On>;
}
#[cfg(feature = "by-name")]
impl Optional for Ordinal {
    fn enter(self) -> Result<On> {
        if answer(|_| ()).is_some() { on(self) } else { Ok(On::default()) }
    }
}
#[cfg(feature = "by-name")]
macro_rules! only_checked {
    ($($t:ty),*) => {$(impl Optional for $t {
        fn enter(self) -> Result<On> {
            Ok(On::default())
        }
    })*};
}
#[cfg(feature = "by-name")]
only_checked!(bool, i64, String, crate::Anything);

/// Python's context with a device as the current one.
#[cfg(feature = "by-name")]
pub(crate) fn scoped(class: &'static str, device: Ordinal) -> flambeau_core::Value {
    use std::sync::{Mutex, PoisonError};
    let held: &'static Mutex<Vec<On>> = {
        static HELD: Mutex<Vec<On>> = Mutex::new(Vec::new());
        &HELD
    };
    crate::stream::scope(
        class,
        move || {
            let on = on(device)?;
            held.lock().unwrap_or_else(PoisonError::into_inner).push(on);
            Ok(())
        },
        move || {
            let last = held.lock().unwrap_or_else(PoisonError::into_inner).pop();
            drop(last);
        },
    )
}
