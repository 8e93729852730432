//! Devices, and what a thread chose of them: its device, and a stream of each. What `torch.cuda` asks is answered here.

use crate::activity::{self, Activity};
use crate::driver::library::Pluggable;
use crate::driver::{Stream, driver};
use crate::kernels::{lists, random};
use crate::{fault, graph, memory};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Device, Error, Result, Scalar, Tensor, Value, ensure};
use flambeau_devices::Stats;
use flambeau_devices::cuda::external::Live;
use flambeau_devices::cuda::jiterator::Formula;
use flambeau_devices::cuda::runtime::{
    CaptureMode, Entry, Measured, Noting, PoolId, Properties, Recorded, Runtime, Segment,
};
use flambeau_devices::cuda::sanitizer::{Happening, happened};
use std::any::Any;
use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Instant;

/// Devices beyond this number are not used.
const MOST: usize = 64;
thread_local! {
    // neither has a destructor or is made at the first use: every launch asks
    static DEVICE: Cell<usize> = const { Cell::new(0) };
    static STREAMS: [Cell<Stream>; MOST] = const { [const { Cell::new(0) }; MOST] };
}
static USED: AtomicBool = AtomicBool::new(false);
/// Blocks that were taken by hand.
static TAKEN: Mutex<Vec<Arc<memory::Memory>>> = Mutex::new(Vec::new());

/// Number of devices; 0 where there is no driver.
pub(crate) fn count() -> usize {
    driver().map_or(0, |d| d.device_count().min(MOST))
}
/// A device's number.
///
/// # Errors
/// No such device.
pub(crate) fn ordinal(device: Device) -> Result<usize> {
    USED.store(true, Ordering::Relaxed);
    match device {
        Device::Cuda(i) if usize::from(i) < count() => Ok(usize::from(i)),
        Device::Cuda(_) => {
            driver()?;
            Err(Error::device(
                "CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?",
            ))
        }
        d => Err(Error::device(format!("{d} is not a CUDA device"))),
    }
}
/// The thread's stream of a device.
///
/// # Errors
/// None today: a device has its default stream always.
pub(crate) fn here(device: usize) -> Result<Stream> {
    // there are streams while a thread ends, too
    Ok(STREAMS.try_with(|s| s.get(device).map_or(0, Cell::get)).unwrap_or(0))
}
/// Runs a closure with another stream as the thread's own.
pub(crate) fn with_stream<R>(device: usize, stream: Stream, f: impl FnOnce() -> R) -> R {
    struct Back(usize, Stream);
    impl Drop for Back {
        fn drop(&mut self) {
            choose(self.0, self.1);
        }
    }
    let _back = Back(device, choose(device, stream));
    f()
}
/// Makes a stream of a device the thread's own: the one before.
fn choose(device: usize, stream: Stream) -> Stream {
    STREAMS.try_with(|s| s.get(device).map_or(0, |own| own.replace(stream))).unwrap_or(0)
}
/// Multiprocessors of a device.
///
/// # Errors
/// Of the driver.
pub(crate) fn processors(device: usize) -> Result<i64> {
    static KNOWN: OnceLock<Vec<OnceLock<i64>>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| (0..count()).map(|_| OnceLock::new()).collect());
    if let Some(n) = known.get(device).and_then(OnceLock::get) {
        return Ok(*n);
    }
    let n = driver()?.properties(device)?.multi_processor_count;
    Ok(known.get(device).map_or(n, |cell| *cell.get_or_init(|| n)))
}
/// Threads that a multiprocessor of a device has at once.
///
/// # Errors
/// Of the driver.
pub(crate) fn resident_threads(device: usize) -> Result<i64> {
    static KNOWN: OnceLock<Vec<OnceLock<i64>>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| (0..count()).map(|_| OnceLock::new()).collect());
    if let Some(n) = known.get(device).and_then(OnceLock::get) {
        return Ok(*n);
    }
    let n = driver()?.properties(device)?.max_threads_per_multi_processor;
    Ok(known.get(device).map_or(n, |cell| *cell.get_or_init(|| n)))
}
fn number(device: i64) -> Result<usize> {
    let n = count();
    ensure!(device >= 0 && (device as usize) < n, Runtime, "CUDA error: invalid device ordinal");
    Ok(device as usize)
}

/// An allocator that [`Answers`] loaded.
fn ours(allocator: Arc<dyn Any + Send + Sync>) -> Result<Arc<Pluggable>> {
    allocator.downcast().map_err(|_| Error::runtime("an allocator of another back end"))
}
/// What `torch.cuda` asks.
pub(crate) struct Answers;
impl Runtime for Answers {
    fn device_count(&self) -> i64 {
        static ASKED: OnceLock<bool> = OnceLock::new();
        let asked =
            *ASKED.get_or_init(|| std::env::var("PYTORCH_NVML_BASED_CUDA_CHECK").is_ok_and(|v| v == "1"));
        // the management library counts devices without starting them
        let known = asked && !USED.load(Ordering::Relaxed);
        known.then(crate::nvml::count).flatten().unwrap_or_else(|| count() as i64)
    }
    fn is_initialized(&self) -> bool {
        USED.load(Ordering::Relaxed)
    }
    fn init(&self) -> Result<()> {
        driver()?;
        ensure!(count() > 0, Runtime, "No CUDA GPUs are available");
        USED.store(true, Ordering::Relaxed);
        Ok(())
    }
    fn current_device(&self) -> Result<i64> {
        Ok(DEVICE.get() as i64)
    }
    fn set_device(&self, device: i64) -> Result<()> {
        DEVICE.set(number(device)?);
        Ok(())
    }
    fn properties(&self, device: i64) -> Result<Properties> {
        driver()?.properties(number(device)?)
    }
    fn can_access_peer(&self, device: i64, peer: i64) -> Result<bool> {
        ensure!(number(device).is_ok(), Assertion, "Invalid device id");
        ensure!(number(peer).is_ok(), Assertion, "Invalid peer device id");
        // copies between devices go by the host
        Ok(false)
    }
    fn synchronize(&self, device: i64) -> Result<()> {
        let d = number(device)?;
        lists::flush()?;
        driver()?.wait_all(d)?;
        happened(device, Happening::WaitedForAll);
        fault::check(d)
    }
    fn current_stream(&self, device: i64) -> Result<u64> {
        here(number(device)?)
    }
    fn set_stream(&self, device: i64, stream: u64) -> Result<()> {
        let d = number(device)?;
        lists::flush()?;
        ensure!(driver()?.has_stream(d, stream)?, Runtime, "CUDA error: invalid resource handle");
        DEVICE.set(d);
        choose(d, stream);
        Ok(())
    }
    fn new_stream(&self, device: i64) -> Result<u64> {
        driver()?.new_stream(number(device)?)
    }
    fn stream_query(&self, device: i64, stream: u64) -> Result<bool> {
        driver()?.done(number(device)?, stream)
    }
    fn stream_synchronize(&self, device: i64, stream: u64) -> Result<()> {
        let d = number(device)?;
        lists::flush()?;
        driver()?.wait(d, stream)?;
        happened(device, Happening::WaitedForStream(stream));
        fault::check(d)
    }
    fn record(&self, device: i64, stream: u64) -> Result<u64> {
        lists::flush()?;
        let event = driver()?.record(number(device)?, stream)?;
        happened(device, Happening::Recorded { event, stream });
        Ok(event)
    }
    fn event_query(&self, device: i64, event: u64) -> Result<bool> {
        driver()?.passed(number(device)?, event)
    }
    fn event_synchronize(&self, device: i64, event: u64) -> Result<()> {
        let d = number(device)?;
        driver()?.wait_event(d, event)?;
        happened(device, Happening::WaitedForEvent(event));
        fault::check(d)
    }
    fn wait_event(&self, device: i64, stream: u64, event: u64) -> Result<()> {
        lists::flush()?;
        driver()?.order(number(device)?, stream, event)?;
        happened(device, Happening::Ordered { stream, event });
        Ok(())
    }
    fn elapsed(&self, device: i64, start: u64, end: u64) -> Result<f64> {
        driver()?.elapsed(number(device)?, start, end)
    }
    fn manual_seed(&self, device: i64, seed: i64) {
        random::seed(device as usize, seed as u64);
    }
    fn initial_seed(&self, device: i64) -> i64 {
        random::state(device as usize).0 as i64
    }
    fn rng_state(&self, device: i64) -> Vec<u8> {
        let (seed, offset) = random::state(device as usize);
        [seed.to_le_bytes(), offset.to_le_bytes()].concat()
    }
    fn set_rng_state(&self, device: i64, state: &[u8]) -> Result<()> {
        let word = |i: usize| state.get(i..i + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
        match (word(0), word(8), state.len()) {
            (Some(_), Some(offset), 16) if !offset.is_multiple_of(4) => {
                return Err(Error::runtime("offset must be a multiple of 4"));
            }
            (Some(seed), Some(offset), 16) => random::set(number(device)?, seed, offset),
            (Some(seed), None, 8) => random::set(number(device)?, seed, 0),
            _ => return Err(Error::runtime("RNG state is wrong size")),
        }
        Ok(())
    }
    fn empty_cache(&self) -> Result<()> {
        let driver = driver()?;
        for d in 0..count() {
            driver.wait_all(d)?;
            happened(d as i64, Happening::WaitedForAll);
            let mut own = memory::pool(d);
            own.waited();
            own.give_back(driver, d);
        }
        Ok(())
    }
    fn memory_stats(&self, device: i64) -> Stats {
        number(device).map(|d| memory::pool(d).stats()).unwrap_or_default()
    }
    fn reset_peak_memory_stats(&self, device: i64) {
        if let Ok(d) = number(device) {
            memory::pool(d).reset_peaks();
        }
    }
    fn reset_accumulated_memory_stats(&self, device: i64) {
        if let Ok(d) = number(device) {
            memory::pool(d).reset_totals();
        }
    }
    fn mem_get_info(&self, device: i64) -> Result<(i64, i64)> {
        let (free, total) = driver()?.memory(number(device)?)?;
        Ok((free as i64, total as i64))
    }
    fn set_memory_fraction(&self, device: i64, fraction: f64) -> Result<()> {
        ensure!(
            (0.0..=1.0).contains(&fraction),
            Value,
            "Invalid fraction value: {fraction}. Allowed range: 0~1"
        );
        memory::pool(number(device)?).fraction = Some(fraction);
        Ok(())
    }
    fn memory_fraction(&self, device: i64) -> f64 {
        number(device).ok().and_then(|d| memory::pool(d).fraction).unwrap_or(1.0)
    }
    fn segments(&self, device: i64) -> Vec<Segment> {
        number(device).map(|d| memory::pool(d).segments(d)).unwrap_or_default()
    }
    fn take(&self, device: i64, nbytes: i64) -> Result<i64> {
        ensure!(nbytes >= 0, Runtime, "a negative number of bytes");
        let m = memory::allocate(Device::Cuda(number(device)? as u16), nbytes as usize)?;
        let address = m.address as i64;
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).push(m);
        Ok(address)
    }
    fn give(&self, address: i64) -> Result<()> {
        let mut all = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|m| m.address as i64 == address);
        let at = at.ok_or_else(|| Error::runtime(format!("invalid device pointer: {address:#x}")))?;
        let block = all.swap_remove(at);
        drop(all);
        drop(block);
        Ok(())
    }
    fn capture_of(&self, device: i64, stream: u64) -> Result<Option<u64>> {
        graph::of(number(device)?, stream)
    }
    fn capture_begin(&self, device: i64, stream: u64, pool: PoolId, mode: CaptureMode) -> Result<u64> {
        graph::begin(number(device)?, stream, pool, mode)
    }
    fn capture_end(&self, device: i64, stream: u64) -> Result<Arc<dyn Recorded>> {
        graph::end(number(device)?, stream)
    }
    fn pool_retain(&self, device: i64, pool: PoolId, properties: Option<(bool, bool)>) -> Result<()> {
        let mut own = memory::pool(number(device)?);
        own.retain(pool);
        if let Some((on_oom, no_split)) = properties {
            own.set_up(pool, on_oom, no_split);
        }
        Ok(())
    }
    fn pool_source(&self, device: i64, pool: PoolId, allocator: Arc<dyn Any + Send + Sync>) -> Result<()> {
        memory::pool(number(device)?).set_source(pool, ours(allocator)?);
        Ok(())
    }
    fn load_allocator(&self, path: &Path, alloc: &str, free: &str) -> Result<Arc<dyn Any + Send + Sync>> {
        Ok(Arc::new(Pluggable::open(path, alloc, free)?))
    }
    fn change_allocator(&self, allocator: Arc<dyn Any + Send + Sync>) -> Result<()> {
        let fresh = !USED.load(Ordering::Relaxed) && memory::plug(ours(allocator)?);
        ensure!(fresh, Runtime, "Can't swap an already initialized allocator");
        Ok(())
    }
    fn allocator_backend(&self) -> &'static str {
        if memory::is_plugged() { "pluggable" } else { "native" }
    }
    fn enable_cache(&self, on: bool) {
        memory::enable_cache(on);
    }
    fn is_cache_enabled(&self) -> bool {
        memory::is_cache_enabled()
    }
    fn ipc_collect(&self) {
        crate::ipc::collect();
    }
    fn shared_event(&self, device: i64) -> Result<u64> {
        driver()?.shared_event(number(device)?)
    }
    fn record_again(&self, device: i64, stream: u64, event: u64) -> Result<()> {
        lists::flush()?;
        driver()?.record_again(number(device)?, stream, event)?;
        happened(device, Happening::Recorded { event, stream });
        Ok(())
    }
    fn event_name(&self, device: i64, event: u64) -> Result<[u8; 64]> {
        driver()?.event_name(number(device)?, event)
    }
    fn open_event(&self, device: i64, name: &[u8; 64]) -> Result<u64> {
        driver()?.open_event(number(device)?, name)
    }
    fn pool_release(&self, device: i64, pool: PoolId) {
        let Ok(d) = number(device) else { return };
        let last = {
            let mut own = memory::pool(d);
            own.let_go(pool);
            own.uses(pool) == 0
        };
        if last && !graph::any() && driver().and_then(|driver| driver.wait_all(d)).is_ok() {
            let _ = driver().map(|driver| memory::pool(d).give_back_pool(driver, d, pool));
        }
    }
    fn pool_uses(&self, device: i64, pool: PoolId) -> i64 {
        number(device).map_or(0, |d| memory::pool(d).uses(pool) as i64)
    }
    fn pool_route(&self, device: i64, pool: PoolId, on: bool) -> Result<()> {
        let d = number(device)?;
        if on {
            graph::route(d, pool)
        } else {
            graph::end_route(d, pool)
        }
        Ok(())
    }
    fn record_history(&self, device: i64, how: Noting) -> Result<()> {
        memory::pool(number(device)?).history.record(how);
        Ok(())
    }
    fn history(&self, device: i64) -> Vec<Entry> {
        number(device).map(|d| memory::pool(d).entries()).unwrap_or_default()
    }
    fn forget_event(&self, device: i64, event: u64) {
        if let (Ok(d), Ok(driver)) = (number(device), driver()) {
            driver.forget(d, event);
            happened(device, Happening::Forgotten(event));
        }
    }
    fn address(&self, t: &Tensor) -> Option<u64> {
        if t.numel() == 0 {
            return None;
        }
        let start = t.storage_offset() as usize * t.dtype().size();
        t.storage().with_handle(|h| memory::start(h).map(|a| a + start as u64)).ok().flatten().flatten()
    }
    fn stream_handle(&self, device: i64, stream: u64) -> Result<u64> {
        driver()?.stream_handle(number(device)?, stream)
    }
    fn adopt_stream(&self, device: i64, handle: u64) -> Result<u64> {
        driver()?.adopt_stream(number(device)?, handle)
    }
    fn external_stream(&self, device: i64, live: Live) -> Result<u64> {
        driver()?.external_stream(number(device)?, live)
    }
    fn can_watch(&self) -> Result<()> {
        driver()?.can_watch()
    }
    fn watch(&self, base: Instant) -> Result<()> {
        lists::flush()?;
        let driver = driver()?;
        driver.can_watch()?;
        activity::begin(base)?;
        // what was queued before is not of interest, and what is queued now is known
        driver.watch().inspect_err(|_| drop(activity::end()))
    }
    fn watched(&self) -> Result<Vec<Activity>> {
        let driver = driver()?;
        let late = lists::flush().and_then(|()| (0..count()).try_for_each(|d| driver.wait_all(d)));
        let told = driver.watched();
        let all = activity::end();
        late.and(told).map(|()| all)
    }
    fn operator(&self, entered: Option<u64>) {
        activity::operator(entered);
        if let Ok(d) = driver() {
            d.operator(entered);
        }
    }
    fn jit(&self, formula: &Formula, tensors: &[Tensor], numbers: &[Scalar]) -> Result<Vec<Tensor>> {
        crate::jit::run(formula, tensors, numbers)
    }
    fn measured(&self, device: i64, what: Measured) -> Result<i64> {
        crate::nvml::measured(number(device)?, what)
    }
    fn processes(&self, device: i64) -> Result<Vec<(i64, i64)>> {
        crate::nvml::processes(number(device)?)
    }
    fn host_stats(&self) -> Stats {
        crate::host::stats()
    }
    fn reset_host_stats(&self, peaks: bool, totals: bool) {
        crate::host::reset(peaks, totals);
    }
    fn empty_host_cache(&self) {
        crate::host::empty_cache();
    }
    fn cudnn_version(&self) -> Option<i64> {
        driver().ok()?.convolutions()
    }
    fn set_allocator_settings(&self, text: &str) -> Result<()> {
        crate::allocator::config::set(text)
    }
    fn allocator_settings(&self) -> Value {
        crate::allocator::config::current().unwrap_or_default().shown()
    }
}
