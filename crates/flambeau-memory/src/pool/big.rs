//! Blocks above 1 MB: parts of mappings, kept warm in one list. A block that is much too large for what is asked is cut, and
//! what is free side by side grows together again: so what the sizes of one phase of a program left serves those of the next,
//! and the process needs hardly more than what is in use at the same time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::{CACHED, bound, reserve, system, unreserve};

const HUGE: usize = 2 << 20;
/// A mapping unused for this long goes back to the system.
const DECAY: Duration = Duration::from_secs(5);

/// Blocks can be cut and grow together where each page is given back by itself.
const CUTS: bool = cfg!(target_os = "linux");

struct Free {
    bytes: usize,
    order: u64,
    since: Instant,
}

#[derive(Default)]
struct List {
    /// By address: neighbours.
    by_place: BTreeMap<NonNull<u8>, Free>,
    /// By capacity, among equals the last freed first: its pages are the warmest.
    by_size: BTreeMap<(usize, Reverse<u64>), NonNull<u8>>,
    /// By order of freeing.
    by_age: BTreeMap<u64, NonNull<u8>>,
    next: u64,
}

// SAFETY: the list owns its mappings, which have no tie to a thread.
unsafe impl Send for List {}

static LIST: Mutex<List> = Mutex::new(List {
    by_place: BTreeMap::new(),
    by_size: BTreeMap::new(),
    by_age: BTreeMap::new(),
    next: 0,
});
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static HITS: AtomicU64 = AtomicU64::new(0);
static MISSES: AtomicU64 = AtomicU64::new(0);

fn list() -> MutexGuard<'static, List> {
    LIST.lock().unwrap_or_else(|e| e.into_inner())
}

/// Mappings on their way out; unmapped without the list's lock, because that takes milliseconds.
#[derive(Default)]
struct Out(Vec<(NonNull<u8>, usize)>);

impl Drop for Out {
    fn drop(&mut self) {
        for (ptr, bytes) in self.0.drain(..) {
            unreserve(bytes);
            // SAFETY: the block was taken out of the list with its capacity and belongs to nobody else.
            unsafe { system::unmap(ptr, bytes) };
        }
    }
}

impl List {
    /// Takes a free block in, with its free neighbours.
    fn put(&mut self, mut ptr: NonNull<u8>, mut bytes: usize, now: Instant) {
        let end = |at: NonNull<u8>, bytes: usize| at.addr().get() + bytes;
        if CUTS {
            let before = self.by_place.range(..ptr).next_back().map(|(at, f)| (*at, f.bytes));
            if let Some((at, n)) = before.filter(|(at, n)| end(*at, *n) == ptr.addr().get()) {
                self.take(at);
                (ptr, bytes) = (at, n + bytes);
            }
            let after = self.by_place.range(ptr..).next().map(|(at, f)| (*at, f.bytes));
            if let Some((at, n)) = after.filter(|(at, _)| at.addr().get() == end(ptr, bytes)) {
                self.take(at);
                bytes += n;
            }
        }
        self.insert(ptr, Free { bytes, order: self.next, since: now });
        self.next += 1;
    }
    fn insert(&mut self, ptr: NonNull<u8>, free: Free) {
        self.by_size.insert((free.bytes, Reverse(free.order)), ptr);
        self.by_age.insert(free.order, ptr);
        CACHED.fetch_add(free.bytes, Ordering::Relaxed);
        self.by_place.insert(ptr, free);
    }

    /// A block of at least `bytes`, and its capacity.
    fn best_fit(&mut self, bytes: usize) -> Option<(NonNull<u8>, usize)> {
        let (key, ptr) = self.by_size.range((bytes, Reverse(u64::MAX))..).next()?;
        let (ptr, capacity) = (*ptr, key.0);
        if capacity <= bytes + bytes / 8 {
            self.take(ptr)?;
            return Some((ptr, capacity));
        }
        if !CUTS {
            return None;
        }
        let free = self.take(ptr)?;
        // SAFETY: within the block, which is larger.
        let rest = unsafe { ptr.add(bytes) };
        // as old as it was
        self.insert(rest, Free { bytes: capacity - bytes, ..free });
        Some((ptr, bytes))
    }

    fn take(&mut self, ptr: NonNull<u8>) -> Option<Free> {
        let free = self.by_place.remove(&ptr)?;
        self.by_size.remove(&(free.bytes, Reverse(free.order)));
        self.by_age.remove(&free.order);
        CACHED.fetch_sub(free.bytes, Ordering::Relaxed);
        Some(free)
    }

    /// Takes out all that are unused for [`DECAY`], and the oldest of the others until that are `excess` bytes, of the last one
    /// only as much as is too much.
    fn trim(&mut self, mut excess: usize, now: Instant) -> Out {
        let mut out = Out::default();
        while let Some((_, &ptr)) = self.by_age.first_key_value() {
            let old = self.by_place.get(&ptr).is_none_or(|f| now.duration_since(f.since) > DECAY);
            if !old && excess == 0 {
                break;
            }
            let Some(free) = self.take(ptr) else { break };
            let (cut, mut gone) = (excess.next_multiple_of(HUGE), (ptr, free.bytes));
            if CUTS && !old && free.bytes > cut {
                let kept = free.bytes - cut;
                self.insert(ptr, Free { bytes: kept, ..free });
                // SAFETY: within the block, which is larger.
                gone = (unsafe { ptr.add(kept) }, cut);
            }
            excess = excess.saturating_sub(gone.1);
            out.0.push(gone);
        }
        out
    }
}

/// Whole huge pages where that wastes little, else whole 64 KB.
fn capacity(bytes: usize) -> usize {
    let huge = bytes.next_multiple_of(HUGE);
    if huge - bytes <= bytes / 32 { huge } else { bytes.next_multiple_of(64 << 10) }
}

/// The memory, its capacity, and whether it is known to be zero.
pub(super) fn alloc(bytes: usize) -> Option<(NonNull<u8>, usize, bool)> {
    let wanted = capacity(bytes);
    let found = list().best_fit(wanted);
    if let Some((ptr, capacity)) = found {
        HITS.fetch_add(1, Ordering::Relaxed);
        ALLOCATED.fetch_add(capacity, Ordering::Relaxed);
        return Some((ptr, capacity, false));
    }
    let ptr = system::map(wanted).or_else(|| {
        super::empty_cache();
        system::map(wanted)
    })?;
    MISSES.fetch_add(1, Ordering::Relaxed);
    reserve(wanted);
    ALLOCATED.fetch_add(wanted, Ordering::Relaxed);
    Some((ptr, wanted, true))
}

pub(super) fn free(ptr: NonNull<u8>, capacity: usize) {
    ALLOCATED.fetch_sub(capacity, Ordering::Relaxed);
    let now = Instant::now();
    let out = {
        let mut l = list();
        l.put(ptr, capacity, now);
        let excess = CACHED.load(Ordering::Relaxed).saturating_sub(bound());
        l.trim(excess, now)
    };
    drop(out);
}

pub(super) fn empty() {
    let out = {
        let mut l = list();
        let mut out = Out::default();
        while let Some((&ptr, _)) = l.by_place.first_key_value() {
            if let Some(free) = l.take(ptr) {
                out.0.push((ptr, free.bytes));
            }
        }
        out
    };
    drop(out);
}

/// Bytes in live blocks, hits, misses.
pub(super) fn totals() -> (usize, u64, u64) {
    (ALLOCATED.load(Ordering::Relaxed), HITS.load(Ordering::Relaxed), MISSES.load(Ordering::Relaxed))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn waste_is_bounded() {
        for bytes in [(1 << 20) + 1, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, 100_000_001] {
            let c = capacity(bytes);
            assert!(c >= bytes && c <= bytes + bytes / 8, "{bytes} {c}");
        }
    }

    // Lists of their own with made-up addresses; nothing is read or unmapped.
    const MB: usize = 1 << 20;
    fn at(mb: usize) -> NonNull<u8> {
        NonNull::new(std::ptr::without_provenance_mut::<u8>(mb * MB)).unwrap()
    }
    fn trimmed(l: &mut List, excess: usize, now: Instant) -> Vec<(NonNull<u8>, usize)> {
        std::mem::take(&mut l.trim(excess, now).0)
    }

    #[test]
    fn the_list_fits_trims_and_decays() {
        let mut l = List::default();
        let t = Instant::now();
        let second = Duration::from_secs(1);
        l.put(at(2), 4 * MB, t);
        l.put(at(10), 8 * MB, t + second);
        l.put(at(20), 8 * MB, t + 2 * second);
        l.put(at(30), 9 * MB, t + 3 * second);
        // Among equals the last freed; what is at most 12.5 % too large stays whole.
        assert_eq!(l.best_fit(8 * MB - 100), Some((at(20), 8 * MB)));
        assert_eq!(trimmed(&mut l, 0, t + DECAY + second / 2), [(at(2), 4 * MB)]);
        assert_eq!(trimmed(&mut l, 0, t + DECAY + 2 * second), [(at(10), 8 * MB)]);
        assert_eq!(trimmed(&mut l, 9 * MB, t + 3 * second), [(at(30), 9 * MB)]);
        assert!(l.by_place.is_empty() && l.by_size.is_empty() && l.by_age.is_empty());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn blocks_are_cut_and_grow_together() {
        let mut l = List::default();
        let t = Instant::now();
        l.put(at(10), 20 * MB, t);
        assert_eq!(l.best_fit(21 * MB), None);
        assert_eq!(l.best_fit(6 * MB), Some((at(10), 6 * MB)));
        assert_eq!(l.best_fit(6 * MB), Some((at(16), 6 * MB)));
        assert_eq!(l.best_fit(9 * MB), None);
        // the rest is as old as the block was
        assert_eq!(l.by_place[&at(22)].since, t);
        let later = t + Duration::from_secs(1);
        l.put(at(10), 6 * MB, later);
        assert_eq!(l.by_place.len(), 2);
        l.put(at(16), 6 * MB, later);
        // what is too much is cut off the end, by whole huge pages
        assert_eq!(trimmed(&mut l, 9 * MB, later), [(at(20), 10 * MB)]);
        assert_eq!(trimmed(&mut l, 0, later), []);
        assert_eq!(l.best_fit(10 * MB), Some((at(10), 10 * MB)));
        assert!(l.by_place.is_empty() && l.by_size.is_empty() && l.by_age.is_empty());
    }
}
