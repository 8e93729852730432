//! The only parallel-for that kernels use. The caller takes chunks itself and never runs foreign jobs while it waits:
//! it may hold a storage lock, and a stolen job that wants the same lock would deadlock.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static ALONE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Whether kernels that the calling thread starts from now on run on it alone, and what held before. For threads of which
/// there are as many as processors already.
pub fn set_alone(on: bool) -> bool {
    let before = ALONE.get();
    ALONE.set(on);
    before
}

/// Threads that a kernel may use, the caller included (`torch.get_num_threads`): 1 on a thread that works alone.
pub fn num_threads() -> usize {
    if ALONE.get() {
        return 1;
    }
    match THREADS.load(Ordering::Relaxed) {
        0 => {
            let n = std::env::var("OMP_NUM_THREADS")
                .ok()
                .and_then(|s| s.parse().ok())
                .filter(|n| *n > 0)
                .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
            THREADS.store(n, Ordering::Relaxed);
            n
        }
        n => n,
    }
}

/// Sets the number of threads (`torch.set_num_threads`); at least 1.
pub fn set_num_threads(n: usize) {
    THREADS.store(n.max(1), Ordering::Relaxed);
}

/// The chunks that one thread of a job takes first: the same ones in each call that has as many chunks, so that it finds in its own
/// caches what it left there. Lines of their own, since each thread counts up its own.
#[repr(align(128))]
struct Share {
    next: AtomicUsize,
    end: usize,
}

struct Shared {
    /// One for each thread, in the order of the chunks.
    shares: Box<[Share]>,
    chunks: usize,
    done: AtomicUsize,
    /// What the first chunk that panicked did so with.
    panicked: Mutex<Option<Box<dyn std::any::Any + Send>>>,
    body: *const (dyn Fn(usize) + Sync),
    caller: std::thread::Thread,
    /// The caller's mode of subnormal numbers.
    subnormal_as_zero: bool,
}
// SAFETY: `body` points to a `Sync` closure; it is called only while the caller of `parallel_chunks` waits for `done`.
unsafe impl Send for Shared {}
// SAFETY: as for Send.
unsafe impl Sync for Shared {}

impl Shared {
    fn new(chunks: usize, threads: usize, body: *const (dyn Fn(usize) + Sync)) -> Self {
        // without overflow, whatever the number of chunks: the first ones are larger by one
        let (each, more) = (chunks / threads, chunks % threads);
        let first = |k: usize| each * k + more.min(k);
        let share = |k| Share { next: AtomicUsize::new(first(k)), end: first(k + 1) };
        Shared {
            shares: (0..threads).map(share).collect(),
            chunks,
            done: AtomicUsize::new(0),
            panicked: Mutex::new(None),
            body,
            caller: std::thread::current(),
            subnormal_as_zero: super::subnormal::is_on(),
        }
    }
    /// Takes chunks until none is left: those of the share first, then what others have not come to.
    fn work(&self, share: usize) {
        let (before, from) = self.shares.split_at(share % self.shares.len());
        for share in from.iter().chain(before) {
            while share.next.load(Ordering::Relaxed) < share.end {
                let i = share.next.fetch_add(1, Ordering::Relaxed);
                if i >= share.end {
                    break;
                }
                // SAFETY: chunk `i` is not done, so the caller still waits and the closure is alive.
                let body = unsafe { &*self.body };
                if let Err(payload) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(i))) {
                    lock(&self.panicked).get_or_insert(payload);
                }
                if self.done.fetch_add(1, Ordering::Release) + 1 == self.chunks {
                    self.caller.unpark();
                }
            }
        }
    }
}

struct Pool {
    queue: Mutex<Vec<Arc<Shared>>>,
    wake: Condvar,
    workers: AtomicUsize,
    /// Length of the queue, for workers that look without the lock.
    pending: AtomicUsize,
    /// Workers that sleep in `wake` and need a notification.
    asleep: AtomicUsize,
}

/// How long an idle worker looks for work, and how long it goes on to do so between others that have some, before it sleeps: waking a
/// sleeper takes longer than most kernels, on a virtual machine 10 microseconds of the caller and 20 until it begins.
const SPIN: Duration = Duration::from_micros(50);
const YIELD: Duration = Duration::from_micros(300);
/// Grains of work from which on a sleeper is worth waking, in one call or in several in a row. One that looks for work begins
/// sooner.
const WAKE: usize = 4;
const WAKE_TOGETHER: usize = 16;

fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| Pool {
        queue: Mutex::new(Vec::new()),
        wake: Condvar::new(),
        workers: AtomicUsize::new(0),
        pending: AtomicUsize::new(0),
        asleep: AtomicUsize::new(0),
    })
}

fn lock<T>(m: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// `index`: how many workers there were before it.
fn worker(index: usize) {
    let p = pool();
    loop {
        let start = Instant::now();
        while p.pending.load(Ordering::Acquire) == 0 {
            match start.elapsed() {
                t if t < SPIN => (0..16).for_each(|_| std::hint::spin_loop()),
                t if t < YIELD => std::thread::yield_now(),
                _ => break,
            }
        }
        let mut q = lock(&p.queue);
        let job = loop {
            match q.pop() {
                Some(j) => break j,
                None => {
                    p.asleep.fetch_add(1, Ordering::Relaxed);
                    q = p.wake.wait(q).unwrap_or_else(|e| e.into_inner());
                    p.asleep.fetch_sub(1, Ordering::Relaxed);
                }
            }
        };
        p.pending.store(q.len(), Ordering::Release);
        drop(q);
        super::subnormal::follow(job.subnormal_as_zero);
        // the first share is the caller's
        job.work(1 + index % (job.shares.len() - 1));
    }
}

fn ensure_workers(n: usize) {
    let p = pool();
    while p.workers.load(Ordering::Relaxed) < n {
        let index = p.workers.fetch_add(1, Ordering::Relaxed);
        if index >= n {
            p.workers.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        if std::thread::Builder::new().name("flambeau-kernel".into()).spawn(move || worker(index)).is_err() {
            p.workers.fetch_sub(1, Ordering::Relaxed);
            return;
        }
    }
}

thread_local! {
    static INSIDE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Calls `body(i)` for each `i` in `0..chunks`, on up to [`num_threads`] threads, the caller among them, in no order. A nested call
/// runs on the calling thread alone. A panic in a chunk is raised in the caller after all chunks have ended.
pub fn parallel_chunks(chunks: usize, body: &(dyn Fn(usize) + Sync)) {
    let threads = num_threads().min(chunks);
    if threads <= 1 || INSIDE.get() {
        (0..chunks).for_each(body);
        return;
    }
    ensure_workers(threads - 1);
    // SAFETY: only the lifetime is erased; the pointer is used while this function waits for `done`.
    let body: *const (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(body) };
    let shared = Arc::new(Shared::new(chunks, threads, body));
    let asleep = {
        let mut q = lock(&pool().queue);
        for _ in 1..threads {
            q.push(shared.clone());
        }
        pool().pending.store(q.len(), Ordering::Release);
        // Changes only under the lock, so no sleeper is missed.
        pool().asleep.load(Ordering::Relaxed)
    };
    for _ in 0..asleep.min(threads - 1) {
        pool().wake.notify_one();
    }
    INSIDE.set(true);
    shared.work(0);
    INSIDE.set(false);
    let mut spins = 0;
    while shared.done.load(Ordering::Acquire) < chunks {
        spins += 1;
        if spins < 4000 {
            std::hint::spin_loop();
        } else {
            std::thread::park();
        }
    }
    // as if the chunk had run here: what is said of it arrives, and so does a want of memory (`room`)
    if let Some(payload) = lock(&shared.panicked).take() {
        std::panic::resume_unwind(payload);
    }
}

/// Whether so many grains are less work than waking all workers, who sleep.
fn wakes_in_vain(grains: usize) -> bool {
    /// Grains that were not worth it, since somebody was woken last.
    static SO_FAR: AtomicUsize = AtomicUsize::new(0);
    let p = pool();
    if grains >= WAKE || p.asleep.load(Ordering::Relaxed) < p.workers.load(Ordering::Relaxed) {
        return false;
    }
    let more = SO_FAR.fetch_add(grains, Ordering::Relaxed) + grains >= WAKE_TOGETHER;
    if more {
        SO_FAR.store(0, Ordering::Relaxed);
    }
    !more
}

/// Whether `work` is worth other threads, of which `grain` is worth one that looks for work.
pub fn worth(work: usize, grain: usize) -> bool {
    work >= grain.max(1) && num_threads() > 1 && !wakes_in_vain(work / grain.max(1))
}

/// Calls `f`, as a thread that works alone where `work` is not [`worth`] others.
pub fn with_threads_for<R>(work: usize, grain: usize, f: impl FnOnce() -> R) -> R {
    /// Also where `f` panics.
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            set_alone(self.0);
        }
    }
    let _back = (!worth(work, grain)).then(|| Back(set_alone(true)));
    f()
}

/// Splits `0..n` into ranges of at least `grain` elements and calls `body` on each, in parallel.
#[inline]
pub fn parallel_for(n: usize, grain: usize, body: impl Fn(Range<usize>) + Sync) {
    ranges(n, grain, &body);
}
/// The same for a body that is called by its address: inlined into the call that does all alone and into the one that does a part, each
/// kernel would be compiled twice.
#[inline(never)]
fn ranges(n: usize, grain: usize, body: &(dyn Fn(Range<usize>) + Sync)) {
    let grain = grain.max(1);
    let threads = num_threads();
    // a grain of one may be any amount of work
    if n <= grain || threads == 1 || grain > 1 && wakes_in_vain(n / grain) {
        if n > 0 {
            body(0..n);
        }
        return;
    }
    let chunks = (n / grain).clamp(1, threads * 4);
    // a few chunks are shared out evenly
    let chunks = if chunks > threads { chunks.next_multiple_of(threads) } else { chunks };
    let size = n.div_ceil(chunks);
    let chunks = n.div_ceil(size);
    parallel_chunks(chunks, &|i| body(i * size..((i + 1) * size).min(n)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covers_every_index_once() {
        let hits: Vec<AtomicUsize> = (0..10_007).map(|_| AtomicUsize::new(0)).collect();
        parallel_for(hits.len(), 10, |r| {
            r.for_each(|i| {
                hits[i].fetch_add(1, Ordering::Relaxed);
            })
        });
        assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn little_work_is_done_alone() {
        let me = std::thread::current().id();
        let before = ALONE.get();
        with_threads_for(99, 100, || {
            parallel_chunks(64, &|_| assert_eq!(std::thread::current().id(), me));
        });
        let panics = || with_threads_for(99, 100, || panic!("as planned"));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(ALONE.get(), before);
    }

    #[test]
    fn large_pieces_are_always_shared_out() {
        // both pieces end only if they run at the same time
        let (before, started) = (num_threads(), AtomicUsize::new(0));
        set_num_threads(before.max(2));
        std::thread::sleep(2 * YIELD);
        parallel_for(2, 1, |_| {
            started.fetch_add(1, Ordering::Relaxed);
            let start = Instant::now();
            while started.load(Ordering::Relaxed) < 2 {
                assert!(start.elapsed().as_secs() < 60, "one after the other");
                std::thread::yield_now();
            }
        });
        set_num_threads(before);
    }

    #[test]
    fn a_thread_may_work_alone() {
        let before = set_alone(true);
        let me = std::thread::current().id();
        parallel_for(100_000, 1, |_| assert_eq!(std::thread::current().id(), me));
        parallel_chunks(64, &|_| assert_eq!(std::thread::current().id(), me));
        assert_eq!(num_threads(), 1);
        assert!(set_alone(before));
    }

    #[test]
    fn each_thread_begins_with_its_own_chunks() {
        const EACH: usize = 4;
        let threads = num_threads();
        let begun = AtomicUsize::new(0);
        let firsts = Mutex::new(std::collections::HashMap::new());
        parallel_chunks(threads * EACH, &|i| {
            lock(&firsts).entry(std::thread::current().id()).or_insert(i);
            begun.fetch_add(usize::from(i.is_multiple_of(EACH)), Ordering::Relaxed);
            // until all are there, so that nobody has to help
            let start = std::time::Instant::now();
            while begun.load(Ordering::Relaxed) < threads && start.elapsed().as_secs() < 2 {
                std::thread::yield_now();
            }
        });
        let firsts = lock(&firsts);
        assert_eq!(firsts.get(&std::thread::current().id()), Some(&0));
        if firsts.len() == threads {
            assert!(firsts.values().all(|i| i.is_multiple_of(EACH)), "{firsts:?}");
        }
    }

    #[test]
    fn shares_have_every_chunk_once() {
        for (chunks, threads) in [(2, 2), (3, 2), (8, 2), (9, 4), (4, 4), (1000, 7), (usize::MAX, 3)] {
            let s = Shared::new(chunks, threads, &|_| ());
            let mut next = 0;
            for share in &s.shares {
                assert_eq!(share.next.load(Ordering::Relaxed), next);
                assert!(share.end > next && share.end - next <= chunks.div_ceil(threads));
                next = share.end;
            }
            assert_eq!((next, s.shares.len()), (chunks, threads));
        }
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let r = std::panic::catch_unwind(|| parallel_for(1000, 1, |r| assert!(!r.contains(&500))));
        assert!(r.is_err());
    }
}
