//! Memory and events of several processes. A block goes to another process as a handle of the driver's on the allocation that it lies
//! in; who sent it keeps it until nobody has it any more, and who gets it waits for what the sender had queued.

use crate::device::{self, here};
use crate::driver::{Address, driver};
use crate::kernels::lists;
use crate::memory::{self, Memory};
use flambeau_core::backend::Handle;
use flambeau_core::types::order::{Mutex, MutexGuard};
use flambeau_core::{Device, Error, Result, ensure};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

type Used = Box<dyn Fn() -> bool + Send + Sync>;
/// A handle of the driver's, which is as long for memory as for events.
pub(crate) type Name = [u8; 64];

/// A block that other processes have.
struct Sent {
    number: u64,
    memory: Arc<Memory>,
    event: u64,
    used: Used,
}
static SENT: Mutex<Vec<Sent>> = Mutex::new(Vec::new());
fn sent() -> MutexGuard<'static, Vec<Sent>> {
    SENT.lock().unwrap_or_else(PoisonError::into_inner)
}
/// Lets blocks go that no other process has any more.
pub(crate) fn collect() {
    let all = std::mem::take(&mut *sent());
    let (kept, gone): (Vec<_>, Vec<_>) = all.into_iter().partition(|s| (s.used)());
    sent().extend(kept);
    // memory goes back when nothing is locked
    for s in gone {
        if let Ok(d) = driver() {
            d.forget(s.memory.device, s.event);
        }
    }
}

/// The fields of a message about a block.
const LENGTH: usize = 4 + 8 + 8 + 8 + 64 + 64;
/// See [`flambeau_core::backend::Backend::share`].
///
/// # Errors
/// Memory that the driver has no handles for.
pub(crate) fn share(memory: &Handle, used: Used) -> Result<Vec<u8>> {
    collect();
    lists::flush()?;
    let m = memory::of(memory)?;
    let (driver, stream) = (driver()?, here(m.device)?);
    m.used_by(stream);
    let (name, offset) = driver.memory_name(m.device, m.address)?;
    let event = driver.shared_event(m.device)?;
    driver.record_again(m.device, stream, event)?;
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut out = std::process::id().to_ne_bytes().to_vec();
    for n in [number, offset, m.nbytes as u64] {
        out.extend(n.to_ne_bytes());
    }
    out.extend(name);
    out.extend(driver.event_name(m.device, event)?);
    sent().push(Sent { number, memory: m, event, used });
    Ok(out)
}

/// A use of an allocation of another process.
struct Opened {
    device: usize,
    name: Name,
    address: Address,
}
impl Drop for Opened {
    fn drop(&mut self) {
        let mut all = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        let uses = all.get_mut(&(self.device, self.name)).map(|(_, uses)| {
            *uses -= 1;
            *uses
        });
        // who opens it again waits until it is closed
        if uses == Some(0) {
            all.remove(&(self.device, self.name));
            if let Ok(d) = driver() {
                d.close_memory(self.device, self.address);
            }
        }
    }
}
/// Allocations that are open, and how many blocks of each are in use: the driver opens each once.
static OPENED: Mutex<BTreeMap<(usize, Name), (Address, usize)>> = Mutex::new(BTreeMap::new());
fn opened(device: usize, name: Name) -> Result<Opened> {
    let mut all = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let address = match all.get_mut(&(device, name)) {
        Some((address, uses)) => {
            *uses += 1;
            *address
        }
        None => {
            let address = driver()?.open_memory(device, &name)?;
            all.insert((device, name), (address, 1));
            address
        }
    };
    Ok(Opened { device, name, address })
}
/// See [`flambeau_core::backend::Backend::open`].
///
/// # Errors
/// A message that is none; memory that is gone.
pub(crate) fn open(device: Device, bytes: &[u8], kept: Box<dyn Any + Send + Sync>) -> Result<Handle> {
    let d = device::ordinal(device)?;
    ensure!(bytes.len() == LENGTH, Serialization, "a message about memory of a device has another length");
    let word = |at: usize| bytes[at..at + 8].first_chunk::<8>().map_or(0, |b| u64::from_ne_bytes(*b));
    let name = |at: usize| bytes[at..at + 64].first_chunk::<64>().map_or([0; 64], |b| *b);
    let process = bytes[..4].first_chunk::<4>().map_or(0, |b| u32::from_ne_bytes(*b));
    let (number, offset, nbytes) = (word(4), word(12), word(20));
    if process == std::process::id() {
        // the driver opens nothing of its own process
        let own = sent().iter().find(|s| s.number == number).map(|s| s.memory.clone());
        let own = own.ok_or_else(|| Error::runtime("CUDA error: invalid resource handle"))?;
        return Ok(own);
    }
    let driver = driver()?;
    let from = opened(d, name(28))?;
    let event = driver.open_event(d, &name(92))?;
    let stream = here(d)?;
    let ordered = driver.order(d, stream, event);
    driver.forget(d, event);
    ordered?;
    Ok(Arc::new(Memory::of_another(
        d,
        from.address + offset,
        nbytes as usize,
        stream,
        Box::new((from, kept)),
    )))
}
