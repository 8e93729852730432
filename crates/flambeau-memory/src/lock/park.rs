//! Where threads sleep: a small hashed table of mutex and condition variable, shared by all locks.

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

#[cfg(loom)]
use loom::sync::{Condvar, Mutex};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex};

use super::StorageLock;

struct Bucket {
    mutex: Mutex<()>,
    wake: Condvar,
}

#[cfg(not(loom))]
fn bucket(lock: &StorageLock) -> &'static Bucket {
    static TABLE: [Bucket; 64] = [const { Bucket { mutex: Mutex::new(()), wake: Condvar::new() } }; 64];
    let hash = (std::ptr::from_ref(lock).addr() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    &TABLE[(hash >> 58) as usize]
}

#[cfg(loom)]
loom::lazy_static! {
    static ref TABLE: Bucket = Bucket { mutex: Mutex::new(()), wake: Condvar::new() };
}

#[cfg(loom)]
fn bucket(_: &StorageLock) -> &'static Bucket {
    &TABLE
}

/// Sleeps until the next [`wake`] of the bucket if `still` holds under its mutex. May return early.
pub(super) fn wait(lock: &StorageLock, still: impl Fn(&StorageLock) -> bool) {
    let b = bucket(lock);
    let g = b.mutex.lock().unwrap_or_else(|e| e.into_inner());
    if still(lock) {
        drop(b.wake.wait(g).unwrap_or_else(|e| e.into_inner()));
    }
}

/// Runs `clear` under the bucket's mutex and wakes its sleepers. `clear` must not touch the lock's memory after the
/// storage may be gone: the caller still owns a handle to it.
pub(super) fn wake(lock: &StorageLock, clear: impl Fn()) {
    let b = bucket(lock);
    let g = b.mutex.lock().unwrap_or_else(|e| e.into_inner());
    clear();
    b.wake.notify_all();
    drop(g);
}

/// Spins, then yields, then says no.
pub(super) struct Spins(u32);

impl Spins {
    pub(super) fn new() -> Self {
        Spins(0)
    }

    pub(super) fn spin(&mut self) -> bool {
        if cfg!(loom) {
            return false;
        }
        self.0 += 1;
        if self.0 <= 100 {
            std::hint::spin_loop();
        } else if self.0 <= 104 {
            std::thread::yield_now();
        } else {
            return false;
        }
        true
    }
}
