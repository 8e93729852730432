//! Pinned memory of the host, which devices read by themselves: blocks of a caching allocator with PyTorch's sizes and
//! statistics. A block is handed out again only when the copies from it are done.

use crate::allocator::{Stat, config};
use crate::device::{self, here};
use crate::driver::{Pinned, Stream, driver};
use crate::{graph, kernels};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::storage::{HostMemory, Storage};
use flambeau_core::types::order::{Mutex, MutexGuard};
use flambeau_core::{Error, Result, Tensor};
use flambeau_devices::Stats;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// Memory that the driver pinned.
struct Room {
    address: usize,
    size: usize,
}
/// A block as a tensor's storage holds it.
struct Block {
    room: Option<Room>,
    nbytes: usize,
    used: Arc<Used>,
}
/// The mark of pinned memory: the streams that copy from it.
#[derive(Default)]
pub(crate) struct Used(Mutex<BTreeSet<(usize, Stream)>>);
impl Used {
    fn streams(&self) -> MutexGuard<'_, BTreeSet<(usize, Stream)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
#[allow(unsafe_code)]
// SAFETY: the driver's allocation is as long as said, aligned to a page, written once before it is handed out, and nobody else
// has it: the allocator gives it to one block at a time, and keeps it until that is dropped and no copy reads it any more.
unsafe impl HostMemory for Block {
    fn as_ptr(&self) -> *mut u8 {
        let address = self.room.as_ref().map_or(64, |r| r.address);
        std::ptr::with_exposed_provenance_mut(address)
    }
    fn nbytes(&self) -> usize {
        self.nbytes
    }
    fn mark(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(self.used.clone())
    }
}
impl Drop for Block {
    fn drop(&mut self) {
        let (Some(room), Ok(driver)) = (self.room.take(), driver()) else { return };
        let mut events = Vec::new();
        for (device, stream) in std::mem::take(&mut *self.used.streams()) {
            match driver.record(device, stream) {
                Ok(e) => events.push((device, e)),
                // a stream that records or failed has no events: the block stays out of use
                Err(_) => return,
            }
        }
        let size = room.size as i64;
        let mut all = pool();
        all.requests.change(-1);
        match events.is_empty() {
            true => all.free(room),
            false => all.waiting.push((room, events)),
        }
        all.bytes.change(-size);
        let gone = all.too_large();
        drop(all);
        release(gone);
    }
}

#[derive(Default)]
struct Times {
    total: i64,
    most: i64,
    least: i64,
    n: i64,
}
impl Times {
    fn add(&mut self, since: Instant) {
        let us = since.elapsed().as_micros() as i64;
        self.least = if self.n == 0 { us } else { self.least.min(us) };
        (self.total, self.most, self.n) = (self.total + us, self.most.max(us), self.n + 1);
    }
    fn list(&self, name: &str, out: &mut Stats) {
        let mean = if self.n == 0 { 0 } else { self.total / self.n };
        for (what, v) in
            [("total", self.total), ("max", self.most), ("min", self.least), ("count", self.n), ("avg", mean)]
        {
            out.insert(format!("{name}.{what}"), v);
        }
    }
}
#[derive(Default)]
struct Pool {
    free: BTreeMap<usize, Vec<Room>>,
    /// Blocks that copies may still read, with the events behind those.
    waiting: Vec<(Room, Vec<(usize, u64)>)>,
    /// Blocks, in use or not, and their bytes; those that are in use.
    blocks: Stat,
    held: Stat,
    requests: Stat,
    bytes: Stat,
    made: i64,
    given_back: i64,
    making: Times,
    freeing: Times,
}
impl Pool {
    fn free(&mut self, room: Room) {
        self.free.entry(room.size).or_default().push(room);
    }
    /// Cached blocks above what the settings allow to keep.
    fn too_large(&mut self) -> Vec<Room> {
        let Ok(most) = config::current().map(|c| c.pinned_cached) else { return Vec::new() };
        if most == usize::MAX {
            return Vec::new();
        }
        let large: Vec<usize> = self.free.range(most.saturating_add(1)..).map(|(n, _)| *n).collect();
        large.into_iter().filter_map(|n| self.free.remove(&n)).flatten().collect()
    }
}
static POOL: std::sync::LazyLock<Mutex<Pool>> = std::sync::LazyLock::new(Mutex::default);
fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}
/// Gives blocks back to the driver.
fn release(rooms: Vec<Room>) {
    let Ok(driver) = driver() else { return };
    for room in rooms {
        let start = Instant::now();
        driver.host_free(room.address, room.size);
        let mut all = pool();
        all.freeing.add(start);
        all.given_back += 1;
        all.blocks.change(-1);
        all.held.change(-(room.size as i64));
    }
}
/// Makes blocks free whose copies are done.
fn settle() {
    let Ok(driver) = driver() else { return };
    let waiting = std::mem::take(&mut pool().waiting);
    let mut still = Vec::new();
    let mut done = Vec::new();
    for (room, events) in waiting {
        let (passed, left): (Vec<_>, Vec<_>) =
            events.into_iter().partition(|(d, e)| driver.passed(*d, *e).unwrap_or(false));
        passed.into_iter().for_each(|(d, e)| driver.forget(d, e));
        if left.is_empty() { done.push(room) } else { still.push((room, left)) }
    }
    let mut all = pool();
    all.waiting.extend(still);
    done.into_iter().for_each(|room| all.free(room));
}

/// Pinned memory.
///
/// # Errors
/// There is no device, or no such memory.
pub(crate) fn allocate(nbytes: usize) -> Result<Box<dyn HostMemory>> {
    let driver = driver()?;
    if device::count() == 0 {
        return Err(Error::runtime("No CUDA GPUs are available"));
    }
    let used = Arc::default();
    if nbytes == 0 {
        return Ok(Box::new(Block { room: None, nbytes, used }));
    }
    let config = config::current()?;
    let size = match nbytes <= config.pinned_round {
        true => nbytes.checked_next_power_of_two(),
        false => nbytes.checked_next_multiple_of(4096),
    };
    let size = size.filter(|n| *n < 1 << 62).ok_or_else(|| no_room(nbytes))?;
    settle();
    let cached = {
        let mut all = pool();
        let list = all.free.get_mut(&size);
        list.and_then(Vec::pop)
    };
    let room = match cached {
        Some(room) => room,
        None => {
            let start = Instant::now();
            let mut got = driver.host_allocate(size, &config)?;
            if got.is_none() {
                empty_cache();
                got = driver.host_allocate(size, &config)?;
            }
            let address = got.ok_or_else(|| no_room(nbytes))?;
            let mut all = pool();
            all.making.add(start);
            all.made += 1;
            all.blocks.change(1);
            all.held.change(size as i64);
            Room { address, size }
        }
    };
    let mut all = pool();
    all.requests.change(1);
    all.bytes.change(size as i64);
    drop(all);
    Ok(Box::new(Block { room: Some(room), nbytes, used }))
}
fn no_room(n: usize) -> Error {
    Error::memory(format!("no room for {n} bytes of pinned memory"))
}
/// Whether a storage's memory is pinned: the streams that copy from it.
pub(crate) fn of(storage: &Storage) -> Option<Arc<Used>> {
    storage.mark().ok().flatten()?.downcast::<Used>().ok()
}
impl Used {
    /// A stream copies from it.
    pub(crate) fn by(&self, device: usize, stream: Stream) {
        self.streams().insert((device, stream));
    }
}
/// Copies pinned memory to a device when its stream gets there; both tensors lie dense, with the same strides.
///
/// # Errors
/// Of the driver.
pub(crate) fn copy(dst: &Tensor, src: &Tensor) -> Result<bool> {
    let Some(used) = of(src.storage()) else { return Ok(false) };
    let d = device::ordinal(dst.device())?;
    let stream = here(d)?;
    let to = kernels::address(dst)?;
    let size = src.dtype().size();
    let (start, nbytes) = (src.storage_offset() as usize * size, src.numel() as usize * size);
    match graph::of(d, stream)? {
        // each run reads it
        Some(id) => graph::reads(id, src.storage()),
        None => used.by(d, stream),
    }
    src.storage().with_bytes(|b| {
        let bytes = b.get(start..start + nbytes);
        let bytes = bytes.ok_or_else(|| Error::runtime("CUDA error: invalid argument"))?;
        let from = Pinned { address: bytes.as_ptr().expose_provenance(), nbytes };
        driver()?.upload_pinned(d, stream, to, from)
    })??;
    Ok(true)
}
/// Runs a closure while storages are held for reading.
///
/// # Errors
/// One is borrowed for writing.
pub(crate) fn holding<R>(storages: &[Storage], f: &mut dyn FnMut() -> Result<R>) -> Result<R> {
    match storages.split_first() {
        None => f(),
        Some((first, rest)) => first.with_bytes(|_| holding(rest, f))?,
    }
}
/// Gives cached blocks back to the driver.
pub(crate) fn empty_cache() {
    settle();
    let all = std::mem::take(&mut pool().free);
    release(all.into_values().flatten().collect());
}
/// Everything that is counted, under PyTorch's names.
pub(crate) fn stats() -> Stats {
    let all = pool();
    let mut out = Stats::new();
    all.blocks.list("allocations", &mut out);
    all.held.list("allocated_bytes", &mut out);
    all.requests.list("active_requests", &mut out);
    all.bytes.list("active_bytes", &mut out);
    out.insert("num_host_alloc".into(), all.made);
    out.insert("num_host_free".into(), all.given_back);
    all.making.list("host_alloc_time", &mut out);
    all.freeing.list("host_free_time", &mut out);
    out
}
/// Begins to count peaks or totals anew.
pub(crate) fn reset(peaks: bool, totals: bool) {
    let mut all = pool();
    let p = &mut *all;
    for s in [&mut p.blocks, &mut p.held, &mut p.requests, &mut p.bytes] {
        if peaks {
            s.reset_peak();
        }
        if totals {
            s.reset_total();
        }
    }
    if totals {
        (p.made, p.given_back) = (0, 0);
        (p.making, p.freeing) = (Times::default(), Times::default());
    }
}
