//! Device memory as tensors hold it: a block of the allocator, which goes back when its last handle is dropped.

use crate::allocator::Pool;
use crate::device::{self, here};
use crate::driver::{Address, Stream, driver};
use crate::graph;
use flambeau_core::backend::Handle;
use flambeau_core::types::order::{Mutex, MutexGuard};
use flambeau_core::{Device, Error, Result};
use flambeau_devices::cuda::runtime::PoolId;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, PoisonError};

/// Memory of one device. The address 0: no bytes.
pub(crate) struct Memory {
    pub(crate) device: usize,
    pub(crate) address: Address,
    pub(crate) nbytes: usize,
    pub(crate) pool: PoolId,
    stream: Stream,
    /// Further streams that used it, whose work a next owner waits for.
    others: Mutex<BTreeSet<Stream>>,
}
impl Memory {
    /// Notes that a stream uses it (`Tensor.record_stream` of itself).
    pub(crate) fn used_by(self: &Arc<Self>, stream: Stream) {
        if stream != self.stream {
            self.others.lock().unwrap_or_else(PoisonError::into_inner).insert(stream);
        }
        graph::touched(self, stream);
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
        let back = Back { device: self.device, address: self.address, stream: self.stream, others };
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
    stream: Stream,
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
        if self.address != 0 {
            pool(self.device).give(self.address);
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
    static POOLS: OnceLock<Vec<Mutex<Pool>>> = OnceLock::new();
    let all = POOLS.get_or_init(|| (0..device::count().max(1)).map(|_| Mutex::default()).collect());
    all[device.min(all.len() - 1)].lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory for the current stream of a device.
///
/// # Errors
/// As the allocator.
pub(crate) fn allocate(device: Device, nbytes: usize) -> Result<Arc<Memory>> {
    let d = device::ordinal(device)?;
    let stream = here(d)?;
    let own = graph::pool_of(d, stream)?;
    let address = if nbytes == 0 { 0 } else { pool(d).take(driver()?, d, (stream, own), nbytes)? };
    Ok(Arc::new(Memory { device: d, address, nbytes, pool: own, stream, others: Mutex::default() }))
}
/// The memory behind a handle.
///
/// # Errors
/// Another back end's.
pub(crate) fn of(handle: &Handle) -> Result<Arc<Memory>> {
    handle.clone().downcast().map_err(|_| Error::device("this memory is not CUDA's"))
}
