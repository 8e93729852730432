//! Kernel holds on several storages at once.

use std::mem::{ManuallyDrop, MaybeUninit};

use super::{Busy, StorageLock};

const INLINE: usize = 8;

/// Kernel holds on a set of storages, all or none, given back on drop. Writers count a write.
///
/// Each lock is taken once, in ascending address order, for writing if any request for it writes.
///
/// ```
/// use flambeau_memory::{Holds, StorageLock};
/// let (x, y) = (StorageLock::new(), StorageLock::new());
/// drop(Holds::of(&[(&x, true), (&y, false), (&x, false)])?);   // x.add_(&y) and the like
/// assert_eq!((x.version(), y.version()), (1, 0));
/// # Ok::<(), flambeau_memory::Busy>(())
/// ```
#[must_use = "the holds end when this is dropped"]
pub struct Holds<'a> {
    len: usize,
    /// The inline locks held for writing, one bit each.
    writes: u32,
    inline: [MaybeUninit<&'a StorageLock>; INLINE],
    /// Holds beyond the inline ones, with their write flags; used alone.
    spill: Vec<(&'a StorageLock, bool)>,
}

#[inline]
fn addr(l: &StorageLock) -> usize {
    std::ptr::from_ref(l).addr()
}

#[inline]
fn acquire((lock, write): (&StorageLock, bool)) -> Result<(), Busy> {
    // SAFETY: every caller puts what it got into `Holds`, which gives it back, or gives it back itself.
    unsafe { if write { lock.write_kernel() } else { lock.read_kernel() } }
}

/// Ends the holds on `held`, which `acquire` got, because a further one was refused; nothing was written.
#[cold]
fn give_back(held: &[(&StorageLock, bool)], why: Busy) -> Busy {
    for &(lock, write) in held {
        // SAFETY: each caller names exactly the holds that it just acquired, and returns without using them.
        unsafe { if write { lock.unlock_write(false) } else { lock.unlock_read() } }
    }
    why
}

impl<'a> Holds<'a> {
    /// Owns the holds that the caller acquired, in at most [`INLINE`] places.
    #[inline(always)]
    fn from_held<const N: usize>(held: [(&'a StorageLock, bool); N]) -> Self {
        let mut h = Self::none();
        for (i, (lock, write)) in held.into_iter().enumerate() {
            h.inline[i].write(lock);
            h.writes |= (write as u32) << i;
        }
        h.len = N;
        h
    }

    /// No hold at all.
    #[inline]
    pub fn none() -> Self {
        Holds { len: 0, writes: 0, inline: [const { MaybeUninit::uninit() }; INLINE], spill: Vec::new() }
    }

    /// Holds one storage, for writing if `write`.
    #[inline]
    pub fn one(lock: &'a StorageLock, write: bool) -> Result<Self, Busy> {
        acquire((lock, write))?;
        Ok(Self::from_held([(lock, write)]))
    }

    /// Holds the storages of two operands.
    #[inline]
    pub fn two(mut a: (&'a StorageLock, bool), mut b: (&'a StorageLock, bool)) -> Result<Self, Busy> {
        if std::ptr::eq(a.0, b.0) {
            return Self::one(a.0, a.1 | b.1);
        }
        if addr(a.0) > addr(b.0) {
            std::mem::swap(&mut a, &mut b);
        }
        acquire(a)?;
        acquire(b).map_err(|e| give_back(&[a], e))?;
        Ok(Self::from_held([a, b]))
    }

    /// Holds the storages of three operands.
    #[inline]
    pub fn three(
        mut a: (&'a StorageLock, bool),
        mut b: (&'a StorageLock, bool),
        mut c: (&'a StorageLock, bool),
    ) -> Result<Self, Busy> {
        if addr(a.0) > addr(b.0) {
            std::mem::swap(&mut a, &mut b);
        }
        if addr(b.0) > addr(c.0) {
            std::mem::swap(&mut b, &mut c);
        }
        if addr(a.0) > addr(b.0) {
            std::mem::swap(&mut a, &mut b);
        }
        if std::ptr::eq(a.0, b.0) {
            return Self::two((a.0, a.1 | b.1), c);
        }
        if std::ptr::eq(b.0, c.0) {
            return Self::two(a, (b.0, b.1 | c.1));
        }
        acquire(a)?;
        acquire(b).map_err(|e| give_back(&[a], e))?;
        acquire(c).map_err(|e| give_back(&[a, b], e))?;
        Ok(Self::from_held([a, b, c]))
    }

    /// Holds any number of storages; `true` asks for writing. On an error nothing stays held.
    #[inline]
    pub fn of(wanted: &[(&'a StorageLock, bool)]) -> Result<Self, Busy> {
        match *wanted {
            [] => Ok(Self::none()),
            [a] => Self::one(a.0, a.1),
            [a, b] => Self::two(a, b),
            [a, b, c] => Self::three(a, b, c),
            _ => Self::many(wanted),
        }
    }

    #[inline(never)]
    fn many(wanted: &[(&'a StorageLock, bool)]) -> Result<Self, Busy> {
        if wanted.len() <= INLINE {
            let mut sorted = [wanted[0]; INLINE];
            let mut n = 0;
            for &(lock, write) in wanted {
                if let Some(same) = sorted[..n].iter_mut().find(|s| std::ptr::eq(s.0, lock)) {
                    same.1 |= write;
                    continue;
                }
                let mut i = n;
                while i > 0 && addr(sorted[i - 1].0) > addr(lock) {
                    sorted[i] = sorted[i - 1];
                    i -= 1;
                }
                sorted[i] = (lock, write);
                n += 1;
            }
            let sorted = &sorted[..n];
            let mut h = Self::none();
            for (i, &want) in sorted.iter().enumerate() {
                acquire(want).map_err(|e| give_back(&sorted[..i], e))?;
                h.inline[i].write(want.0);
                h.writes |= (want.1 as u32) << i;
            }
            h.len = n;
            return Ok(h);
        }
        let mut sorted = wanted.to_vec();
        sorted.sort_unstable_by_key(|(l, _)| addr(l));
        sorted.dedup_by(|b, a| {
            let same = std::ptr::eq(a.0, b.0);
            a.1 |= same && b.1;
            same
        });
        for (i, &want) in sorted.iter().enumerate() {
            acquire(want).map_err(|e| give_back(&sorted[..i], e))?;
        }
        let mut h = Self::none();
        h.spill = sorted;
        Ok(h)
    }

    /// The number of storages held.
    pub fn len(&self) -> usize {
        self.len + self.spill.len()
    }

    /// True when nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives all holds back without counting a write: nothing was written after all, or the write must not show.
    pub fn release_unwritten(self) {
        ManuallyDrop::new(self).release(false);
    }

    #[inline]
    fn release(&mut self, bump: bool) {
        for i in 0..self.len {
            // SAFETY: the first `len` locks are written, each with a hold acquired in the mode that `writes` says, and
            // `release` runs once.
            unsafe {
                let lock = self.inline[i].assume_init();
                if self.writes >> i & 1 != 0 { lock.unlock_write(bump) } else { lock.unlock_read() }
            }
        }
        if self.spill.capacity() != 0 {
            for (lock, write) in std::mem::take(&mut self.spill) {
                // SAFETY: as above, for the holds in `spill`.
                unsafe { if write { lock.unlock_write(bump) } else { lock.unlock_read() } }
            }
        }
    }
}

impl Drop for Holds<'_> {
    #[inline]
    fn drop(&mut self) {
        self.release(true);
    }
}
