//! Graphs: the captures that are under way, and what recorded work needs when it runs again.
//!
//! A graph keeps what it touches: blocks of its own pool, which nobody else gets, and all other memory that its kernels read or
//! write. Random numbers come from a piece of memory that each run fills with the generator's seed and offset.

use crate::device::{self, here};
use crate::driver::{CaptureMode, Graph, Stream, driver};
use crate::kernels::random;
use crate::memory::{self, Memory};
use flambeau_core::backend::transfer;
use flambeau_core::tensor::storage::Storage;
use flambeau_core::types::generator::Generator;
use flambeau_core::types::order::{Mutex, MutexGuard};
use flambeau_core::{DType, Device, Error, Result, Tensor};
use flambeau_devices::cuda::runtime::{PoolId, Recorded};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

/// How many captures there are: without one nobody has to ask the driver.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
static CAPTURES: Mutex<Vec<Capture>> = Mutex::new(Vec::new());

type Bits = (DType, [u8; 16]);
struct Capture {
    id: u64,
    device: usize,
    stream: Stream,
    pool: PoolId,
    kept: BTreeMap<u64, Arc<Memory>>,
    /// Pinned memory that its copies read.
    hosts: Vec<Storage>,
    draws: Vec<Draws>,
    /// Numbers of the host that its kernels read.
    constants: HashMap<Bits, Tensor>,
}
/// What a graph draws of a generator; none: the device's own.
struct Draws {
    generator: Option<Generator>,
    /// Seed and offset, of which kernels of the graph count on.
    state: Arc<Memory>,
    taken: u64,
}
fn captures() -> MutexGuard<'static, Vec<Capture>> {
    CAPTURES.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// Pools that this thread's allocations come from, the last one first.
    static ROUTES: RefCell<Vec<(usize, PoolId)>> = const { RefCell::new(Vec::new()) };
}
/// From here on the thread's allocations on a device come from a pool.
pub(crate) fn route(device: usize, pool: PoolId) {
    memory::pool(device).retain(pool);
    let _ = ROUTES.try_with(|r| r.borrow_mut().push((device, pool)));
}
/// Ends that.
pub(crate) fn end_route(device: usize, pool: PoolId) {
    let ended = ROUTES.try_with(|r| {
        let mut all = r.borrow_mut();
        all.iter().rposition(|e| *e == (device, pool)).map(|at| all.remove(at))
    });
    if ended.is_ok_and(|e| e.is_some()) {
        memory::pool(device).let_go(pool);
    }
}

/// The capture that a stream takes part in.
///
/// # Errors
/// Of the driver.
pub(crate) fn of(device: usize, stream: Stream) -> Result<Option<u64>> {
    if UNDER_WAY.load(Ordering::Acquire) == 0 {
        return Ok(None);
    }
    driver()?.capturing(device, stream)
}
/// Whether any stream of any device records.
pub(crate) fn any() -> bool {
    UNDER_WAY.load(Ordering::Acquire) > 0
}
/// The pool that a stream's allocations come from.
///
/// # Errors
/// Of the driver.
pub(crate) fn pool_of(device: usize, stream: Stream) -> Result<PoolId> {
    let routed = ROUTES.try_with(|r| r.borrow().iter().rev().find(|(d, _)| *d == device).map(|(_, p)| *p));
    if let Some(p) = routed.ok().flatten() {
        return Ok(p);
    }
    let Some(id) = of(device, stream)? else { return Ok(crate::allocator::COMMON) };
    Ok(captures().iter().find(|c| c.id == id).map_or(crate::allocator::COMMON, |c| c.pool))
}
/// Notes that work of a stream touches memory: a graph that records it keeps what its pool does not.
pub(crate) fn touched(m: &Arc<Memory>, stream: Stream) {
    if !any() || m.address == 0 {
        return;
    }
    let Ok(Some(id)) = of(m.device, stream) else { return };
    if let Some(c) = captures().iter_mut().find(|c| c.id == id)
        && c.pool != m.pool
    {
        c.kept.entry(m.address).or_insert_with(|| m.clone());
    }
}

/// Notes that a recorded copy reads pinned memory of the host: the graph keeps it.
pub(crate) fn reads(id: u64, storage: &Storage) {
    if let Some(c) = captures().iter_mut().find(|c| c.id == id)
        && !c.hosts.iter().any(|s| s.same(storage))
    {
        c.hosts.push(storage.clone());
    }
}

/// A stream of a device that never records.
fn side(device: usize) -> Result<Stream> {
    static SIDES: OnceLock<Vec<OnceLock<Stream>>> = OnceLock::new();
    let all = SIDES.get_or_init(|| (0..device::count()).map(|_| OnceLock::new()).collect());
    let Some(cell) = all.get(device) else { return Ok(0) };
    if let Some(s) = cell.get() {
        return Ok(*s);
    }
    let made = driver()?.new_stream(device)?;
    Ok(*cell.get_or_init(|| made))
}
/// Runs what must not be recorded on a stream of its own, and waits for it.
fn aside<R>(device: usize, f: impl FnOnce() -> Result<R>) -> Result<R> {
    struct Back(Vec<(usize, PoolId)>);
    impl Drop for Back {
        fn drop(&mut self) {
            let all = std::mem::take(&mut self.0);
            let _ = ROUTES.try_with(|r| *r.borrow_mut() = all);
        }
    }
    let stream = side(device)?;
    let _back = Back(ROUTES.try_with(|r| std::mem::take(&mut *r.borrow_mut())).unwrap_or_default());
    let (mut f, mut done) = (Some(f), None);
    // what the host sends from its own memory is no call that a capture allows
    driver()?.unrecorded(&mut || {
        if let Some(f) = f.take() {
            done = Some(device::with_stream(device, stream, f)?);
        }
        driver()?.wait(device, stream)
    })?;
    done.ok_or_else(|| Error::runtime("work aside of a capture did not run"))
}

/// A number of the host for kernels that are recorded: it is on the device before they run, and stays there as long as the graph.
///
/// # Errors
/// No memory.
pub(crate) fn constant(id: u64, bits: Bits, number: &Tensor, device: Device) -> Result<Tensor> {
    let known = captures().iter().find(|c| c.id == id).and_then(|c| c.constants.get(&bits).cloned());
    if let Some(t) = known {
        return Ok(t);
    }
    let d = device::ordinal(device)?;
    let made = aside(d, || transfer::to_device(number.clone(), device))?;
    if let Some(c) = captures().iter_mut().find(|c| c.id == id) {
        c.constants.insert(bits, made.clone());
    }
    Ok(made)
}
/// Numbers of a generator for a kernel that is recorded: an address instead of the seed, and an odd number, which says so,
/// instead of the offset.
///
/// # Errors
/// No memory.
pub(crate) fn take(id: u64, device: usize, generator: Option<&Generator>, n: u64) -> Result<(u64, u64)> {
    let known = |d: &Draws| d.generator.as_ref() == generator;
    let mut next = |c: &mut Capture| {
        c.draws.iter_mut().find(|d| known(d)).map(|d| {
            let found = (d.state.address, d.taken | 1);
            d.taken += n;
            found
        })
    };
    if let Some(found) = captures().iter_mut().find(|c| c.id == id).and_then(&mut next) {
        return Ok(found);
    }
    let state = aside(device, || memory::allocate(Device::Cuda(device as u16), 16))?;
    let fresh = Draws { generator: generator.cloned(), state, taken: 0 };
    let mut all = captures();
    let capture = all.iter_mut().find(|c| c.id == id);
    let capture = capture.ok_or_else(|| Error::runtime("the capture ended while a kernel was recorded"))?;
    capture.draws.push(fresh);
    next(capture).ok_or_else(|| Error::runtime("a generator without a state"))
}

/// Lets a stream record.
///
/// # Errors
/// As CUDA.
pub(crate) fn begin(device: usize, stream: Stream, pool: PoolId, mode: CaptureMode) -> Result<u64> {
    let driver = driver()?;
    memory::pool(device).retain(pool);
    let begun = (|| {
        driver.begin_capture(device, stream, mode)?;
        UNDER_WAY.fetch_add(1, Ordering::AcqRel);
        let id = driver.capturing(device, stream)?;
        id.ok_or_else(|| {
            UNDER_WAY.fetch_sub(1, Ordering::AcqRel);
            Error::runtime("a stream does not record that was just told to")
        })
    })();
    match begun {
        Ok(id) => {
            captures().push(Capture {
                id,
                device,
                stream,
                pool,
                kept: BTreeMap::new(),
                hosts: Vec::new(),
                draws: Vec::new(),
                constants: HashMap::new(),
            });
            Ok(id)
        }
        Err(e) => {
            memory::pool(device).let_go(pool);
            Err(e)
        }
    }
}
/// What a stream recorded.
///
/// # Errors
/// As CUDA; the capture is over then too, unless another stream began it.
pub(crate) fn end(device: usize, stream: Stream) -> Result<Arc<dyn Recorded>> {
    let ended = driver()?.end_capture(device, stream);
    let capture = {
        let mut all = captures();
        all.iter().position(|c| (c.device, c.stream) == (device, stream)).map(|at| all.remove(at))
    };
    let Some(capture) = capture else { return Err(ended.err().unwrap_or_else(without)) };
    UNDER_WAY.fetch_sub(1, Ordering::AcqRel);
    if !any() {
        memory::give_deferred();
    }
    let Capture { pool, kept, hosts, draws, constants, .. } = capture;
    match ended {
        Ok(graph) => Ok(Arc::new(Whole { device, graph: Some(graph), pool, kept, hosts, draws, constants })),
        Err(e) => {
            memory::pool(device).let_go(pool);
            Err(e)
        }
    }
}
fn without() -> Error {
    Error::runtime("capture_end() called before capture_begin().")
}

/// A graph with what it needs.
struct Whole {
    device: usize,
    graph: Option<Graph>,
    pool: PoolId,
    kept: BTreeMap<u64, Arc<Memory>>,
    hosts: Vec<Storage>,
    draws: Vec<Draws>,
    constants: HashMap<Bits, Tensor>,
}
impl Whole {
    fn graph(&self) -> Result<&Graph> {
        self.graph.as_ref().ok_or_else(|| Error::runtime("the graph is gone"))
    }
}
impl Drop for Whole {
    fn drop(&mut self) {
        drop(self.graph.take());
        memory::pool(self.device).let_go(self.pool);
    }
}
impl Recorded for Whole {
    fn nodes(&self) -> Result<usize> {
        driver()?.nodes(self.graph()?)
    }
    fn instantiate(&self) -> Result<()> {
        driver()?.instantiate(self.device, self.graph()?)
    }
    fn replay(&self) -> Result<()> {
        let (driver, stream) = (driver()?, here(self.device)?);
        for m in self.kept.values() {
            m.used_by(stream);
        }
        for t in self.constants.values() {
            crate::kernels::address(t)?;
        }
        for s in &self.hosts {
            if let Some(used) = crate::host::of(s) {
                used.by(self.device, stream);
            }
        }
        for d in &self.draws {
            let (seed, offset) = random::advance(self.device, d.generator.as_ref(), d.taken)?;
            d.state.used_by(stream);
            let words = [seed.to_ne_bytes(), offset.to_ne_bytes()].concat();
            driver.upload(self.device, stream, d.state.range(0, 16)?, &words)?;
        }
        crate::host::holding(&self.hosts, &mut || driver.launch_graph(self.device, stream, self.graph()?))
    }
    fn draw(&self, path: &Path, verbose: bool) -> Result<()> {
        driver()?.draw(self.graph()?, path, verbose)
    }
}
