//! The lock of a storage: one atomic word that holds readers, writer and version counter.
//!
//! Two classes of holder. *Kernel* holds exist only inside an operator's kernel entry, where no user code runs; *guard*
//! holds belong to user code (`elements()`, closures over elements) and may last for ever.
//!
//! - A kernel waits for other kernels only; against a conflicting guard it fails at once, since that guard may be
//!   further up its own stack.
//! - A guard waits for kernels and fails at once against a conflicting guard.
//! - A kernel takes the locks it needs in ascending address order, each once ([`Holds`]).
//!
//! So each wait is for a kernel, and a kernel waits only for higher addresses: no cycle. New readers wait while a
//! writer waits (else a steady stream of readers would starve it).
//!
//! | bits | meaning |
//! |---|---|
//! | 0..=28 | readers, kernels and guards |
//! | 29 | a thread is parked; who makes the word free must wake it |
//! | 30 | a writer waits; new readers stay out |
//! | 31 | writer |
//! | 32..=63 | version: how often the storage was written, wrapping |

mod few;
mod holds;
mod open;
mod park;

use std::fmt;
use std::panic::Location;

use park::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

pub use few::Few;
pub use holds::Holds;
pub use open::Open;

const READERS: u64 = (1 << 29) - 1;
/// Set when so many readers hold the word that one more could overflow soon; then none is let in.
const CROWDED: u64 = 1 << 28;
const PARKED: u64 = 1 << 29;
const WAITS: u64 = 1 << 30;
const WRITER: u64 = 1 << 31;
const VERSION: u64 = 1 << 32;
/// In the guards' word: the holder is one exclusive guard.
const EXCLUSIVE: u32 = 1 << 31;

/// Why a hold was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// A user guard conflicts. `at` is where it was taken (the latest of them, if several share the storage).
    Guard { at: &'static Location<'static>, exclusive: bool },
    /// More than 2^28 readers: guards were leaked.
    TooManyReaders,
    /// The storage is held, and this thread has storages open itself ([`Open`]): it may wait for itself.
    Inside,
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Busy::Guard { at, exclusive } => write!(
                f,
                "storage is {} by a guard taken at {at}; drop it first",
                if *exclusive { "borrowed mutably" } else { "borrowed" }
            ),
            Busy::Inside => f.write_str(
                "storage is held by a kernel, and this thread is inside of a kernel itself: operators cannot be called there",
            ),
            Busy::TooManyReaders => f.write_str("storage has too many readers; guards were leaked"),
        }
    }
}

impl std::error::Error for Busy {}

/// The lock of one storage, with its version counter.
pub struct StorageLock {
    word: AtomicU64,
    /// Guards that hold the word: a count, or [`EXCLUSIVE`]. Read only after a conflict. It is raised after the word
    /// was taken and lowered before it is given back, so a non-zero count always means a real hold.
    guards: AtomicU32,
    at: AtomicPtr<Location<'static>>,
}

impl StorageLock {
    /// A free lock at version 0.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        StorageLock {
            word: AtomicU64::new(0),
            guards: AtomicU32::new(0),
            at: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    #[cfg(loom)]
    #[allow(missing_docs)]
    pub fn new() -> Self {
        StorageLock {
            word: AtomicU64::new(0),
            guards: AtomicU32::new(0),
            at: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// The number of writes so far, modulo 2^32. Takes no lock.
    #[inline]
    pub fn version(&self) -> u32 {
        (self.word.load(Ordering::Acquire) >> 32) as u32
    }

    /// Counts a write that happened outside a hold (a new owner of the memory, for instance).
    #[inline]
    pub fn bump_version(&self) {
        self.word.fetch_add(VERSION, Ordering::AcqRel);
    }

    /// Takes a shared kernel hold. Waits for a writing kernel; fails against an exclusive guard.
    ///
    /// # Safety
    /// The caller gives the hold back, with [`StorageLock::unlock_read`], and calls nothing that may wait for a hold of this storage
    /// before: kernels wait for kernels without end.
    #[inline]
    pub unsafe fn read_kernel(&self) -> Result<(), Busy> {
        let w = self.word.load(Ordering::Relaxed);
        if w & (WRITER | WAITS | CROWDED) == 0
            && self.word.compare_exchange(w, w + 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return Ok(());
        }
        self.read_slow()
    }

    /// Takes an exclusive kernel hold. Waits for kernels; fails against any guard.
    ///
    /// # Safety
    /// The caller gives the hold back, with [`StorageLock::unlock_write`], and calls nothing that may wait for a hold of this storage
    /// before: kernels wait for kernels without end.
    #[inline]
    pub unsafe fn write_kernel(&self) -> Result<(), Busy> {
        let w = self.word.load(Ordering::Relaxed);
        if w & (WRITER | READERS) == 0
            && self
                .word
                .compare_exchange(w, (w | WRITER) & !WAITS, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        {
            return Ok(());
        }
        self.write_slow()
    }

    /// Gives a shared kernel hold back.
    ///
    /// # Safety
    /// The caller owns a hold that [`StorageLock::read_kernel`] granted, and no longer reads the storage.
    #[inline]
    pub unsafe fn unlock_read(&self) {
        let old = self.word.fetch_sub(1, Ordering::Release);
        if old & (READERS | PARKED) == 1 | PARKED {
            self.wake();
        }
    }

    /// Gives an exclusive kernel hold back and, with `bump`, counts a write in the same atomic operation.
    ///
    /// # Safety
    /// The caller owns a hold that [`StorageLock::write_kernel`] granted, and no longer touches the storage.
    #[inline]
    pub unsafe fn unlock_write(&self, bump: bool) {
        let delta = if bump { VERSION.wrapping_sub(WRITER) } else { WRITER.wrapping_neg() };
        let old = self.word.fetch_add(delta, Ordering::Release);
        if old & PARKED != 0 {
            self.wake();
        }
    }

    /// Takes a shared guard hold for the user's place `at`. Waits for a writing kernel; fails against an exclusive
    /// guard.
    ///
    /// # Safety
    /// The caller gives the hold back with [`StorageLock::unlock_guard_read`].
    pub unsafe fn guard_read(&self, at: &'static Location<'static>) -> Result<(), Busy> {
        self.read_slow()?;
        self.announce(1, at);
        Ok(())
    }

    /// Takes an exclusive guard hold for the user's place `at`. Waits for kernels; fails against any guard.
    ///
    /// # Safety
    /// The caller gives the hold back with [`StorageLock::unlock_guard_write`].
    pub unsafe fn guard_write(&self, at: &'static Location<'static>) -> Result<(), Busy> {
        self.write_slow()?;
        self.announce(EXCLUSIVE, at);
        Ok(())
    }

    /// Gives a shared guard hold back.
    ///
    /// # Safety
    /// The caller owns a hold that [`StorageLock::guard_read`] granted, and no longer reads the storage.
    pub unsafe fn unlock_guard_read(&self) {
        self.guards.fetch_sub(1, Ordering::AcqRel);
        // SAFETY: a guard's share of the word is the same as a kernel's; the caller owns it.
        unsafe { self.unlock_read() }
    }

    /// Gives an exclusive guard hold back and, with `bump`, counts a write.
    ///
    /// # Safety
    /// The caller owns a hold that [`StorageLock::guard_write`] granted, and no longer touches the storage.
    pub unsafe fn unlock_guard_write(&self, bump: bool) {
        self.guards.fetch_sub(EXCLUSIVE, Ordering::AcqRel);
        // SAFETY: a guard's hold of the word is the same as a kernel's; the caller owns it.
        unsafe { self.unlock_write(bump) }
    }

    /// Makes a guard's hold known, and lets kernels that parked before they could see it fail now.
    fn announce(&self, count: u32, at: &'static Location<'static>) {
        self.at.store(std::ptr::from_ref(at).cast_mut(), Ordering::Release);
        self.guards.fetch_add(count, Ordering::AcqRel);
        self.wake();
    }

    fn guard_conflict(&self, write: bool) -> Option<Busy> {
        let g = self.guards.load(Ordering::Acquire);
        if g & EXCLUSIVE == 0 && (g == 0 || !write) {
            return None;
        }
        let at = self.at.load(Ordering::Acquire);
        // SAFETY: `announce` stored a `&'static Location` before it raised the count that was just read.
        let at: &'static Location<'static> = unsafe { &*at };
        Some(Busy::Guard { at, exclusive: g & EXCLUSIVE != 0 })
    }

    #[cold]
    #[inline(never)]
    fn read_slow(&self) -> Result<(), Busy> {
        let mut spins = park::Spins::new();
        loop {
            let w = self.word.load(Ordering::Relaxed);
            if w & (WRITER | WAITS) == 0 {
                if w & CROWDED != 0 {
                    return Err(Busy::TooManyReaders);
                }
                if self.word.compare_exchange(w, w + 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return Ok(());
                }
                continue;
            }
            if let Some(b) = self.guard_conflict(false).or_else(open::inside) {
                return Err(b);
            }
            if !spins.spin() {
                park::wait(self, |l| {
                    l.park_if(|w| w & (WRITER | WAITS) != 0) && l.guard_conflict(false).is_none()
                });
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn write_slow(&self) -> Result<(), Busy> {
        let mut spins = park::Spins::new();
        loop {
            let w = self.word.load(Ordering::Relaxed);
            if w & (WRITER | READERS) == 0 {
                let new = (w | WRITER) & !WAITS;
                if self.word.compare_exchange(w, new, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return Ok(());
                }
                continue;
            }
            if let Some(b) = self.guard_conflict(true).or_else(open::inside) {
                // Readers may stay out because of this thread's wish. Another waiting writer repeats its own wish when
                // it wakes.
                let old = self.word.fetch_and(!WAITS, Ordering::Relaxed);
                if old & PARKED != 0 {
                    self.wake();
                }
                return Err(b);
            }
            if w & WAITS == 0 {
                // Only while it is held, so that a word that became free keeps no wish of a writer that left.
                if self.word.compare_exchange(w, w | WAITS, Ordering::Relaxed, Ordering::Relaxed).is_err() {
                    continue;
                }
            }
            if !spins.spin() {
                park::wait(self, |l| {
                    l.park_if(|w| w & (WRITER | READERS) != 0) && l.guard_conflict(true).is_none()
                });
            }
        }
    }

    /// Under the table's mutex: marks the word as waited for while `held` says so. False when it is free already.
    fn park_if(&self, held: impl Fn(u64) -> bool) -> bool {
        let mut w = self.word.load(Ordering::Relaxed);
        while held(w) {
            match self.word.compare_exchange(w, w | PARKED, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => w = now,
            }
        }
        false
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) {
        park::wake(self, || {
            self.word.fetch_and(!PARKED, Ordering::Relaxed);
        });
    }
}

impl Default for StorageLock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for StorageLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let w = self.word.load(Ordering::Relaxed);
        f.debug_struct("StorageLock")
            .field("readers", &(w & READERS))
            .field("writer", &(w & WRITER != 0))
            .field("version", &(w >> 32))
            .finish()
    }
}
