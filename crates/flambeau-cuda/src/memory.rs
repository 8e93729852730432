//! Device memory as tensors hold it: a block of the allocator, which goes back when its last handle is dropped.

use crate::allocator::Pool;
use crate::device::{self, here};
use crate::driver::{Address, Stream, driver};
use flambeau_core::backend::Handle;
use flambeau_core::types::order::{Mutex, MutexGuard};
use flambeau_core::{Device, Error, Result};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, PoisonError};

/// Memory of one device. `None`: no bytes.
pub(crate) struct Memory {
    pub(crate) device: usize,
    pub(crate) address: Address,
    pub(crate) nbytes: usize,
    stream: Stream,
    /// Further streams that used it, whose work a next owner waits for.
    others: Mutex<BTreeSet<Stream>>,
}
impl Memory {
    /// Notes that a stream uses it (`Tensor.record_stream` of itself).
    pub(crate) fn used_by(&self, stream: Stream) {
        if stream != self.stream {
            self.others.lock().unwrap_or_else(PoisonError::into_inner).insert(stream);
        }
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
        let Ok(driver) = driver() else { return };
        let others = std::mem::take(&mut *self.others.lock().unwrap_or_else(PoisonError::into_inner));
        for s in others {
            // the next owner's stream waits for what the others still do
            let ordered =
                driver.record(self.device, s).and_then(|e| driver.order(self.device, self.stream, e));
            if ordered.is_err() {
                let _ = driver.wait(self.device, s);
            }
        }
        if self.address != 0 {
            pool(self.device).give(self.address);
        }
    }
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
    let address = if nbytes == 0 { 0 } else { pool(d).take(driver()?, d, stream, nbytes)? };
    Ok(Arc::new(Memory { device: d, address, nbytes, stream, others: Mutex::default() }))
}
/// The memory behind a handle.
///
/// # Errors
/// Another back end's.
pub(crate) fn of(handle: &Handle) -> Result<Arc<Memory>> {
    handle.clone().downcast().map_err(|_| Error::device("this memory is not CUDA's"))
}
