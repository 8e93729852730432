//! Kernel holds on the operands of a small call: as [`Holds`](super::Holds), but it stays in registers.

use std::mem::ManuallyDrop;

use super::{Busy, StorageLock};

/// The most storages.
const MOST: usize = 3;

/// Kernel holds on at most three storages, all or none, given back on drop. Writers count a write.
///
/// Each lock is taken once, in ascending address order.
#[must_use = "the holds end when this is dropped"]
pub struct Few<'a> {
    locks: [Option<&'a StorageLock>; MOST],
    /// One bit for each lock that is held for writing.
    writes: u8,
}

impl<'a> Few<'a> {
    /// Holds these storages, the one at `write` for writing (none if there is no such place). On an error nothing stays
    /// held.
    #[inline(always)]
    pub fn new<const N: usize>(mut wanted: [&'a StorageLock; N], write: usize) -> Result<Self, Busy> {
        const { assert!(N <= MOST) };
        let written = wanted.get(write).map(|l| std::ptr::from_ref(*l));
        // a network for three; the indices are constants once this is inlined
        for (i, j) in [(0, 1), (1, 2), (0, 1)] {
            if j < N && std::ptr::from_ref(wanted[i]) > std::ptr::from_ref(wanted[j]) {
                wanted.swap(i, j);
            }
        }
        let mut held = ManuallyDrop::new(Few { locks: [None; MOST], writes: 0 });
        for i in 0..N {
            let lock = wanted[i];
            if i + 1 < N && std::ptr::eq(lock, wanted[i + 1]) {
                continue;
            }
            let write = written.is_some_and(|w| std::ptr::eq(w, lock));
            // SAFETY: noted in `held` below, which gives it back.
            let taken = unsafe { if write { lock.write_kernel() } else { lock.read_kernel() } };
            if let Err(e) = taken {
                held.release(false);
                return Err(e);
            }
            held.locks[i] = Some(lock);
            held.writes |= u8::from(write) << i;
        }
        Ok(ManuallyDrop::into_inner(held))
    }

    #[inline(always)]
    fn release(&mut self, bump: bool) {
        for i in 0..MOST {
            if let Some(lock) = self.locks[i] {
                // SAFETY: a lock is noted once it was taken in the mode that `writes` says; `release` runs once.
                unsafe {
                    if self.writes >> i & 1 != 0 { lock.unlock_write(bump) } else { lock.unlock_read() }
                }
            }
        }
    }
}

impl Drop for Few<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.release(true);
    }
}
