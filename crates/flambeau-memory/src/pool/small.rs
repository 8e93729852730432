//! Blocks up to 1 MB: stacks of each thread, global lists behind them.
#![allow(
    clippy::disallowed_methods,
    reason = "the cache has no destructor, so it is there until the thread is gone"
)]

use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::{CACHED, CLASSES, bound, class_size, reserve, system, unreserve};

const DEPTH: usize = 64;
/// How often the global lists give back what was not needed in between.
const DECAY: Duration = Duration::from_secs(5);

/// Blocks of a class that a thread keeps: 64, or 1 MB.
const fn depth(class: usize) -> usize {
    let n = (1 << 20) >> (class + 6);
    if n > DEPTH { DEPTH } else { n }
}

/// A thread's stack of one class.
struct Stack {
    len: Cell<usize>,
    /// 0 until the thread registered, and again after it flushed at its end; so `push` needs no other test.
    limit: Cell<usize>,
    /// Counts of the fast path; written by the owner with plain loads and stores, read by `totals`.
    pops: AtomicU64,
    pushes: AtomicU64,
    items: UnsafeCell<[*mut u8; DEPTH]>,
}

struct Cache {
    stacks: [Stack; CLASSES],
    state: Cell<State>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Live,
    Ended,
}

thread_local! {
    // No destructor, so that access is one address computation and stays valid in other destructors of the thread.
    static CACHE: Cache = const {
        Cache {
            stacks: [const {
                Stack {
                    len: Cell::new(0),
                    limit: Cell::new(0),
                    pops: AtomicU64::new(0),
                    pushes: AtomicU64::new(0),
                    items: UnsafeCell::new([std::ptr::null_mut(); DEPTH]),
                }
            }; CLASSES],
            state: Cell::new(State::New),
        }
    };
    /// Its destructor empties the cache at the thread's end.
    static END: End = const { End };
}

struct End;

impl Drop for End {
    fn drop(&mut self) {
        CACHE.with(Cache::end);
    }
}

#[inline]
fn bump(counter: &AtomicU64) {
    // The owner is the only writer.
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

impl Stack {
    #[inline]
    fn pop(&self) -> Option<NonNull<u8>> {
        let n = self.len.get();
        if n == 0 {
            return None;
        }
        self.len.set(n - 1);
        // SAFETY: `len` never exceeds DEPTH, the entries below it are non-null blocks, and only the owning thread,
        // which is here and not in another call on this stack, touches `items`.
        unsafe { Some(NonNull::new_unchecked(*self.items.get().cast::<*mut u8>().add(n - 1))) }
    }

    /// False when there is no room.
    #[inline]
    fn push(&self, ptr: NonNull<u8>) -> bool {
        let n = self.len.get();
        if n >= self.limit.get() {
            return false;
        }
        // SAFETY: `limit` is at most DEPTH; the rest as in `pop`.
        unsafe { *self.items.get().cast::<*mut u8>().add(n) = ptr.as_ptr() };
        self.len.set(n + 1);
        true
    }
}

#[inline]
pub(super) fn pop(class: usize) -> Option<NonNull<u8>> {
    CACHE.with(|c| {
        let s = &c.stacks[class];
        let p = s.pop()?;
        bump(&s.pops);
        Some(p)
    })
}

#[inline]
pub(super) fn free(ptr: NonNull<u8>, class: usize) {
    CACHE.with(|c| {
        let s = &c.stacks[class];
        if s.push(ptr) { bump(&s.pushes) } else { overflow(c, ptr, class) }
    })
}

/// The list of one class behind all threads.
struct Global {
    blocks: Vec<NonNull<u8>>,
    /// The shortest it was since `since`: that many blocks nobody needed.
    low: usize,
    since: Option<Instant>,
}

// SAFETY: the list owns its blocks, which have no tie to a thread.
unsafe impl Send for Global {}

static GLOBAL: [Mutex<Global>; CLASSES] =
    [const { Mutex::new(Global { blocks: Vec::new(), low: 0, since: None }) }; CLASSES];

/// Counts of the slow path, and those of threads that ended.
struct Counts {
    pops: [AtomicU64; CLASSES],
    pushes: [AtomicU64; CLASSES],
    hits: AtomicU64,
    misses: AtomicU64,
}

static COUNTS: Counts = Counts {
    pops: [const { AtomicU64::new(0) }; CLASSES],
    pushes: [const { AtomicU64::new(0) }; CLASSES],
    hits: AtomicU64::new(0),
    misses: AtomicU64::new(0),
};

/// Caches of living threads; each takes itself out before its memory goes.
struct Registered(*const Cache);
// SAFETY: only the atomic counters are read through the pointer, under the list's mutex, which `end` takes too.
unsafe impl Send for Registered {}
static THREADS: Mutex<Vec<Registered>> = Mutex::new(Vec::new());

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

fn release(blocks: impl IntoIterator<Item = NonNull<u8>>, class: usize) {
    for p in blocks {
        unreserve(class_size(class));
        // SAFETY: a block of this class came from `system::alloc` with the class's size and has no other owner.
        unsafe { system::free(p, class_size(class)) };
    }
}

impl Global {
    fn taken(&mut self) {
        self.low = self.low.min(self.blocks.len());
    }

    /// The blocks that were not needed since the last look, if that is long enough ago.
    fn decayed(&mut self, now: Instant) -> Vec<NonNull<u8>> {
        match self.since {
            Some(t) if now.duration_since(t) <= DECAY => return Vec::new(),
            Some(_) => {}
            None => self.low = 0,
        }
        // The bottom of the stack is the coldest.
        let old: Vec<_> = self.blocks.drain(..self.low).collect();
        self.low = self.blocks.len();
        self.since = Some(now);
        old
    }
}

/// Gives blocks of a class to its global list, or to the system beyond the bound.
fn to_global(blocks: &[*mut u8], class: usize) {
    let bytes = class_size(class) * blocks.len();
    let blocks = blocks.iter().copied().filter_map(NonNull::new);
    if CACHED.load(Ordering::Relaxed) + bytes > bound() {
        return release(blocks, class);
    }
    // Counted before they can be taken, so that the count never falls below zero.
    CACHED.fetch_add(bytes, Ordering::Relaxed);
    let mut g = lock(&GLOBAL[class]);
    g.blocks.extend(blocks);
    let old = g.decayed(Instant::now());
    drop(g);
    CACHED.fetch_sub(old.len() * class_size(class), Ordering::Relaxed);
    release(old, class);
}

impl Cache {
    /// Registers the thread; false after its end.
    fn ready(&self) -> bool {
        if self.state.get() == State::New {
            // Fails when the thread's destructors already ran; then nothing would ever flush this cache.
            if END.try_with(|_| ()).is_err() {
                self.state.set(State::Ended);
                return false;
            }
            self.state.set(State::Live);
            lock(&THREADS).push(Registered(self));
            for (class, s) in self.stacks.iter().enumerate() {
                s.limit.set(depth(class));
            }
        }
        self.state.get() == State::Live
    }

    fn end(&self) {
        self.state.set(State::Ended);
        self.flush();
        let mut threads = lock(&THREADS);
        for (class, s) in self.stacks.iter().enumerate() {
            s.limit.set(0);
            let (pops, pushes) = (s.pops.load(Ordering::Relaxed), s.pushes.load(Ordering::Relaxed));
            COUNTS.pops[class].fetch_add(pops, Ordering::Relaxed);
            COUNTS.pushes[class].fetch_add(pushes, Ordering::Relaxed);
            COUNTS.hits.fetch_add(pops, Ordering::Relaxed);
        }
        threads.retain(|t| !std::ptr::eq(t.0, self));
    }

    fn flush(&self) {
        for (class, s) in self.stacks.iter().enumerate() {
            self.spill(s, class, 0);
        }
    }

    /// Moves the oldest blocks to the global list until `keep` are left.
    fn spill(&self, s: &Stack, class: usize, keep: usize) {
        let n = s.len.get();
        if n <= keep {
            return;
        }
        let mut out = [std::ptr::null_mut(); DEPTH];
        let count = n - keep;
        // SAFETY: as in `Stack::pop`; nothing else runs on this stack during the copy.
        unsafe {
            let items = s.items.get().cast::<*mut u8>();
            items.copy_to_nonoverlapping(out.as_mut_ptr(), count);
            items.add(count).copy_to(items, keep);
        }
        s.len.set(keep);
        to_global(&out[..count], class);
    }
}

#[cold]
#[inline(never)]
fn overflow(c: &Cache, ptr: NonNull<u8>, class: usize) {
    COUNTS.pushes[class].fetch_add(1, Ordering::Relaxed);
    if !c.ready() {
        return to_global(&[ptr.as_ptr()], class);
    }
    let s = &c.stacks[class];
    if !s.push(ptr) {
        c.spill(s, class, depth(class) / 2);
        if !s.push(ptr) {
            to_global(&[ptr.as_ptr()], class);
        }
    }
}

/// A block for a thread whose stack is empty: from the global list, which also refills half of the stack, else from
/// the system. The second value says that the memory is zero.
pub(super) fn refill(class: usize) -> Option<(NonNull<u8>, bool)> {
    let found = CACHE.with(|c| {
        let room = if c.ready() { depth(class) / 2 } else { 0 };
        let mut g = lock(&GLOBAL[class]);
        let p = g.blocks.pop()?;
        let mut taken = 1;
        while taken <= room
            && let Some(q) = g.blocks.pop()
        {
            taken += 1;
            if !c.stacks[class].push(q) {
                g.blocks.push(q);
                taken -= 1;
                break;
            }
        }
        g.taken();
        drop(g);
        CACHED.fetch_sub(taken * class_size(class), Ordering::Relaxed);
        Some(p)
    });
    if let Some(p) = found {
        COUNTS.pops[class].fetch_add(1, Ordering::Relaxed);
        COUNTS.hits.fetch_add(1, Ordering::Relaxed);
        return Some((p, false));
    }
    let p = system::alloc(class_size(class)).or_else(|| {
        super::empty_cache();
        system::alloc(class_size(class))
    })?;
    reserve(class_size(class));
    COUNTS.pops[class].fetch_add(1, Ordering::Relaxed);
    count_miss();
    Some((p, true))
}

pub(super) fn count_miss() {
    COUNTS.misses.fetch_add(1, Ordering::Relaxed);
}

pub(super) fn empty() {
    CACHE.with(Cache::flush);
    for (class, g) in GLOBAL.iter().enumerate() {
        let blocks = {
            let mut g = lock(g);
            g.low = 0;
            std::mem::take(&mut g.blocks)
        };
        CACHED.fetch_sub(blocks.len() * class_size(class), Ordering::Relaxed);
        release(blocks, class);
    }
}

/// Bytes in live blocks, hits, misses.
pub(super) fn totals() -> (usize, u64, u64) {
    let threads = lock(&THREADS);
    let mut hits = COUNTS.hits.load(Ordering::Relaxed);
    let mut bytes = 0u64;
    for class in 0..CLASSES {
        let mut live = COUNTS.pops[class]
            .load(Ordering::Relaxed)
            .wrapping_sub(COUNTS.pushes[class].load(Ordering::Relaxed));
        for t in threads.iter() {
            // SAFETY: a registered cache lives until `end` takes it out under this mutex.
            let s = unsafe { &(*t.0).stacks[class] };
            let pops = s.pops.load(Ordering::Relaxed);
            hits += pops;
            live = live.wrapping_add(pops).wrapping_sub(s.pushes.load(Ordering::Relaxed));
        }
        // A block may be counted as freed before its allocation is seen.
        bytes = bytes.wrapping_add(live.wrapping_mul(class_size(class) as u64));
    }
    ((bytes as i64).max(0) as usize, hits, COUNTS.misses.load(Ordering::Relaxed))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::class_of;
    use super::*;

    #[test]
    fn classes_cover_their_sizes() {
        let mut class = 0;
        for bytes in 1..=1usize << 20 {
            if bytes > class_size(class) {
                class += 1;
            }
            assert_eq!(class_of(bytes), class, "{bytes}");
        }
        assert_eq!(class, CLASSES - 1);
        for c in 0..CLASSES {
            assert!((1..=DEPTH).contains(&depth(c)) && depth(c) * class_size(c) <= 1 << 20);
        }
    }

    #[test]
    fn only_what_nobody_needed_decays() {
        let at = |i: usize| NonNull::new(std::ptr::without_provenance_mut::<u8>(i << 6)).unwrap();
        let t = Instant::now();
        let mut g = Global { blocks: (1..=10).map(at).collect(), low: 0, since: None };
        assert!(g.decayed(t).is_empty());
        // Seven were in use at some time since then: only the three coldest go.
        g.blocks.truncate(3);
        g.taken();
        g.blocks.extend((4..=10).map(at));
        assert!(g.decayed(t + DECAY).is_empty());
        assert_eq!(g.decayed(t + DECAY * 2), [at(1), at(2), at(3)]);
        assert_eq!(g.decayed(t + DECAY * 4), (4..=10).map(at).collect::<Vec<_>>());
    }
}
