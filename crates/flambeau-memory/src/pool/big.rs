//! Blocks above 1 MB: one mapping each, kept warm in one list.

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

struct Free {
    ptr: NonNull<u8>,
    since: Instant,
}

#[derive(Default)]
struct List {
    /// By capacity, among equals the last freed first: its pages are the warmest.
    by_size: BTreeMap<(usize, Reverse<u64>), Free>,
    /// Capacity by order of freeing.
    by_age: BTreeMap<u64, usize>,
    next: u64,
}

// SAFETY: the list owns its mappings, which have no tie to a thread.
unsafe impl Send for List {}

static LIST: Mutex<List> = Mutex::new(List { by_size: BTreeMap::new(), by_age: BTreeMap::new(), next: 0 });
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
            // SAFETY: the mapping was taken out of the list with its capacity and belongs to nobody else.
            unsafe { system::unmap(ptr, bytes) };
        }
    }
}

impl List {
    fn put(&mut self, ptr: NonNull<u8>, bytes: usize, now: Instant) {
        self.by_size.insert((bytes, Reverse(self.next)), Free { ptr, since: now });
        self.by_age.insert(self.next, bytes);
        self.next += 1;
        CACHED.fetch_add(bytes, Ordering::Relaxed);
    }

    fn best_fit(&mut self, bytes: usize) -> Option<(NonNull<u8>, usize)> {
        let (&key, _) = self.by_size.range((bytes, Reverse(u64::MAX))..).next()?;
        if key.0 > bytes + bytes / 8 {
            return None;
        }
        Some((self.take(key)?, key.0))
    }

    fn take(&mut self, key: (usize, Reverse<u64>)) -> Option<NonNull<u8>> {
        let free = self.by_size.remove(&key)?;
        self.by_age.remove(&key.1.0);
        CACHED.fetch_sub(key.0, Ordering::Relaxed);
        Some(free.ptr)
    }

    /// Takes out the oldest while there are more than `bound` bytes, and all that are unused for [`DECAY`].
    fn trim(&mut self, bound: usize, now: Instant) -> Out {
        let mut out = Out::default();
        while let Some((&seq, &bytes)) = self.by_age.first_key_value() {
            let key = (bytes, Reverse(seq));
            let old = self.by_size.get(&key).is_none_or(|f| now.duration_since(f.since) > DECAY);
            if !old && CACHED.load(Ordering::Relaxed) <= bound {
                break;
            }
            match self.take(key) {
                Some(ptr) => out.0.push((ptr, bytes)),
                None => {
                    self.by_age.remove(&seq);
                }
            }
        }
        out
    }
}

/// Whole huge pages where that wastes little, else whole 64 KB.
fn capacity(bytes: usize) -> usize {
    let huge = bytes.next_multiple_of(HUGE);
    if huge - bytes <= bytes / 8 { huge } else { bytes.next_multiple_of(64 << 10) }
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
        l.trim(bound(), now)
    };
    drop(out);
}

pub(super) fn empty() {
    let out = {
        let mut l = list();
        let mut out = Out::default();
        while let Some((&key, _)) = l.by_size.first_key_value() {
            if let Some(ptr) = l.take(key) {
                out.0.push((ptr, key.0));
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

    #[test]
    fn the_list_fits_trims_and_decays() {
        // A list of its own with made-up addresses; nothing is read or unmapped.
        let mut l = List::default();
        let at = |i: usize| NonNull::new(std::ptr::without_provenance_mut::<u8>(i << 21)).unwrap();
        let t = Instant::now();
        let second = Duration::from_secs(1);
        l.put(at(1), 4 << 20, t);
        l.put(at(2), 8 << 20, t + second);
        l.put(at(3), 8 << 20, t + 2 * second);
        l.put(at(4), 9 << 20, t + 3 * second);
        // Among equals the last freed; never more than 12.5 % too large.
        assert_eq!(l.best_fit((8 << 20) - 100), Some((at(3), 8 << 20)));
        assert_eq!(l.best_fit(5 << 20), None);
        let out = std::mem::ManuallyDrop::new(l.trim(usize::MAX, t + DECAY + second / 2));
        assert_eq!(out.0, [(at(1), 4 << 20)]);
        let out = std::mem::ManuallyDrop::new(l.trim(usize::MAX, t + DECAY + 2 * second));
        assert_eq!(out.0, [(at(2), 8 << 20)]);
        let out = std::mem::ManuallyDrop::new(l.trim(0, t + 3 * second));
        assert_eq!(out.0, [(at(4), 9 << 20)]);
        assert!(l.by_size.is_empty() && l.by_age.is_empty());
    }
}
