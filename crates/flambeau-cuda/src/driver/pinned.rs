//! Memory of the host's allocator that is pinned afterwards (`pinned_use_cuda_host_register`), which is faster for much of it: its
//! pages are touched by several threads first.
#![allow(unsafe_code)]

use super::library::{pin, unpin};
use super::real::check;
use cudarc::driver::sys as cu;
use flambeau_core::Result;
use flambeau_core::types::order::Mutex;
use std::collections::BTreeSet;
use std::sync::PoisonError;

static REGISTERED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// The address of such memory; `None` where there is no more.
pub(super) fn register(nbytes: usize, threads: usize) -> Result<Option<usize>> {
    let Some(at) = pin(nbytes) else { return Ok(None) };
    let part = nbytes.div_ceil(threads.max(1)).next_multiple_of(4096);
    std::thread::scope(|s| {
        for start in (0..nbytes).step_by(part.max(4096)) {
            s.spawn(move || {
                let to: *mut u8 = std::ptr::with_exposed_provenance_mut(at + start);
                // SAFETY: the parts do not overlap and lie within the memory, which nobody else has yet.
                unsafe { std::ptr::write_bytes(to, 0, part.min(nbytes - start)) };
            });
        }
    });
    // SAFETY: the memory is as long, and stays until it was unregistered.
    let done = unsafe { cu::cuMemHostRegister_v2(std::ptr::with_exposed_provenance_mut(at), nbytes, 1) };
    if let Err(e) = check(done) {
        unpin(at, nbytes);
        return Err(e);
    }
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner).insert(at);
    Ok(Some(at))
}
/// Gives it back; `false` if it is none.
pub(super) fn unregister(address: usize, nbytes: usize) -> bool {
    if !REGISTERED.lock().unwrap_or_else(PoisonError::into_inner).remove(&address) {
        return false;
    }
    // SAFETY: it was registered, and no copy reads it any more.
    unsafe { cu::cuMemHostUnregister(std::ptr::with_exposed_provenance_mut(address)) };
    unpin(address, nbytes);
    true
}
