//! Back ends: what a type of device brings. The CPU and the meta device are built in; a crate brings another one by filling
//! a table of its own ([`BACKENDS`]) and the kernels of the rows that it has ([`kernel::Kernel`]). Everything above asks the
//! table: allocation, factories, copies, storages, default generators.
//!
//! **Memory.** A back end hands out opaque handles ([`Handle`]): the bytes are reached through the back end alone, and neither
//! side needs `unsafe`. Memory of the host that somebody else owns (pinned, mapped, another library's) comes in by
//! [`HostMemory`](crate::tensor::storage::HostMemory), whose owner promises by `unsafe impl` that its pointer is what it says.
//!
//! **Kernels that end after the call.** A back end may queue its kernels and return at once. Then
//! - a *hold* protects memory of the host for as long as a kernel runs, and so there is none on opaque memory: its back end
//!   runs what was queued in the order of the calls, and orders reads, writes and copies with it;
//! - a *version* counts calls that write, when they are made, not when they end. What was saved for backward is compared as
//!   it always is;
//! - a *block* is freed by dropping its handle, which may happen before the kernels that were queued on it have run: a kernel
//!   keeps a handle of its own, or the back end frees in the order of the queue;
//! - an *error* that a queued kernel meets is reported by the next call that waits: a read, a copy to the host,
//!   [`Backend::synchronize`].

pub(crate) mod cpu;
pub mod elements;
pub mod fallback;
pub mod kernel;
pub mod lists;
pub mod matrices;
pub mod out;
pub mod pinned;
pub mod planned;
pub mod pointwise;
pub mod transfer;

use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::generator::{Generator, default_generator};
use crate::types::keys::Key;
use std::any::Any;
use std::sync::{Arc, OnceLock};

/// What a type of device brings. Devices of one type differ by their ordinal, which every function is given.
pub trait Backend: Send + Sync {
    /// Number of devices.
    fn device_count(&self) -> u16;
    /// Handle of `nbytes` bytes, which are some valid bytes, but any.
    ///
    /// # Errors
    /// Too little memory; no such device.
    fn allocate(&self, nbytes: usize, device: Device) -> Result<Handle>;
    /// Reads bytes of opaque memory, after all kernels queued before.
    ///
    /// # Errors
    /// Of kernels queued before, or of the transfer.
    fn read(&self, memory: &Handle, offset: usize, to: &mut [u8]) -> Result<()>;
    /// Writes bytes to opaque memory, after all kernels queued before. `from` need not live longer than the call.
    ///
    /// # Errors
    /// Of the transfer.
    fn write(&self, memory: &Handle, offset: usize, from: &[u8]) -> Result<()>;
    /// Copies bytes from one block of this back end to another, after all kernels queued before. By way of the host if a
    /// back end has nothing better.
    ///
    /// # Errors
    /// As [`Backend::read`] and [`Backend::write`].
    fn copy(&self, from: &Handle, to: &Handle, nbytes: usize) -> Result<()> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(nbytes).map_err(|_| Error::memory(format!("no room for {nbytes} bytes")))?;
        bytes.resize(nbytes, 0);
        self.read(from, 0, &mut bytes)?;
        self.write(to, 0, &bytes)
    }
    /// Waits until all queued kernels of a device have ended.
    ///
    /// # Errors
    /// Of one of them.
    fn synchronize(&self, device: Device) -> Result<()>;
    /// A mark behind what is queued on a device now.
    ///
    /// # Errors
    /// No such device.
    fn event(&self, device: Device) -> Result<Box<dyn Event>>;
    /// The generator that operators use which are given none; the CPU's where a device draws no numbers itself.
    fn default_generator(&self, _device: Device) -> &'static Generator {
        default_generator()
    }
    /// Writes zeros into all of a block, after all kernels queued before.
    ///
    /// # Errors
    /// As [`Backend::write`].
    fn clear(&self, memory: &Handle, nbytes: usize) -> Result<()> {
        // in parts: the bytes of the device may be more than the host has room for
        let zeros = [0u8; 1 << 16];
        (0..nbytes)
            .step_by(zeros.len())
            .try_for_each(|at| self.write(memory, at, &zeros[..zeros.len().min(nbytes - at)]))
    }
    /// A block as bytes by which [`Backend::open`] of another process finds it. The block stays at least until `used` is false,
    /// which the back end asks now and then.
    ///
    /// # Errors
    /// Memory that other processes cannot have.
    fn share(&self, _memory: &Handle, _used: Box<dyn Fn() -> bool + Send + Sync>) -> Result<Vec<u8>> {
        Err(Error::missing("memory of this type of device between processes"))
    }
    /// The block of another process, whose work that was queued before it was shared comes before all that is queued here. `kept`
    /// is dropped when nobody has it any more and what was queued on it has ended.
    ///
    /// # Errors
    /// The block is gone; bytes that [`Backend::share`] did not give.
    fn open(&self, _device: Device, _bytes: &[u8], _kept: Box<dyn Any + Send + Sync>) -> Result<Handle> {
        Err(Error::missing("memory of this type of device between processes"))
    }
    /// What is said of a device that there is not.
    fn absent(&self, device: Device) -> Error {
        Error::device(format!(
            "device {device} does not exist: there are {} of its type",
            self.device_count()
        ))
    }
}

/// A mark in a device's queue.
pub trait Event: Send + Sync {
    /// Whether everything before the mark has ended.
    fn done(&self) -> bool;
    /// Waits for it.
    ///
    /// # Errors
    /// Of a kernel before the mark.
    fn wait(&self) -> Result<()>;
}

/// The link-time list of back ends. A crate adds one with
/// `#[linkme::distributed_slice(flambeau_core::backend::BACKENDS)] static MINE: (Key, &dyn Backend) = ...;`
#[cfg(not(miri))]
#[allow(unsafe_code)]
#[linkme::distributed_slice]
pub static BACKENDS: [(Key, &'static dyn Backend)];

static TABLES: [OnceLock<Option<&'static dyn Backend>>; Key::LINKED] =
    [const { OnceLock::new() }; Key::LINKED];

/// Brings a back end by hand, where there are no link-time lists or it is loaded later. It must come before the first use
/// of a device of its type; `false` if it came too late, or for keys that are not [`Key::Cuda`] or [`Key::Private`].
pub fn register(key: Key, table: &'static dyn Backend) -> bool {
    key.linked().is_some_and(|i| TABLES[i].set(Some(table)).is_ok())
}

fn linked(key: Key) -> Option<&'static dyn Backend> {
    #[cfg(not(miri))]
    return BACKENDS.iter().find(|(k, _)| *k == key).map(|(_, b)| *b);
    #[cfg(miri)]
    None
}

/// The back end of a device that is not built in.
///
/// # Errors
/// None is linked, there are fewer such devices, or the device is built in.
pub fn of(device: Device) -> Result<&'static dyn Backend> {
    match device.key_set().highest().and_then(table) {
        Some(t) if device.index().is_none_or(|i| i < t.device_count()) => Ok(t),
        Some(t) => Err(t.absent(device)),
        None => Err(Error::device(format!("no allocator is linked for device {device}"))),
    }
}

/// Waits until everything that was queued on a device has ended; the CPU never has anything queued.
///
/// # Errors
/// Of a kernel that was queued; no back end for the device.
pub fn synchronize(device: Device) -> Result<()> {
    match device {
        Device::Cpu | Device::Meta => Ok(()),
        other => of(other)?.synchronize(other),
    }
}

fn table(key: Key) -> Option<&'static dyn Backend> {
    key.linked().and_then(|i| *TABLES[i].get_or_init(|| linked(key)))
}

/// Opaque memory of a back end: the bytes are reached through the back end alone. Dropping the last handle frees it.
pub type Handle = Arc<dyn std::any::Any + Send + Sync>;
