//! A turn that threads take one after the other, and that a thread which has it may take again: for work that is done once and
//! calls code which may ask for it anew (registrations of operators). Whoever finds it taken waits until the work is done.

#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, Ordering};
#[cfg(loom)]
use loom::sync::{Condvar, Mutex};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex};

/// See the module.
#[derive(Debug)]
pub struct Turn {
    /// Who has it; 0 for nobody. Written under the mutex.
    owner: AtomicUsize,
    mutex: Mutex<()>,
    free: Condvar,
}

/// The turn, until dropped.
#[must_use = "the turn ends when the guard is dropped"]
#[derive(Debug)]
pub struct Taken<'a> {
    turn: &'a Turn,
    /// A guard of a thread that had it already ends nothing.
    outermost: bool,
}

/// A number of the calling thread: not 0, and no other thread's while it lives.
pub fn this_thread() -> usize {
    #[cfg(not(loom))]
    {
        std::thread_local! {
            // without a destructor: it is there while the thread ends
            static PLACE: u8 = const { 0 };
        }
        PLACE.try_with(|p| std::ptr::from_ref(p).addr()).unwrap_or(usize::MAX)
    }
    #[cfg(loom)]
    {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        loom::thread::current().id().hash(&mut hasher);
        hasher.finish() as usize | 1
    }
}

impl Turn {
    /// Nobody's turn.
    #[cfg(not(loom))]
    pub const fn new() -> Turn {
        Turn { owner: AtomicUsize::new(0), mutex: Mutex::new(()), free: Condvar::new() }
    }
    /// Nobody's turn.
    #[cfg(loom)]
    pub fn new() -> Turn {
        Turn { owner: AtomicUsize::new(0), mutex: Mutex::new(()), free: Condvar::new() }
    }
    /// Whether nobody has it, so that all that was done in a turn is done and seen by this thread.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.owner.load(Ordering::Acquire) == 0
    }
    /// Waits for the turn and takes it; at once where this thread has it already.
    pub fn take(&self) -> Taken<'_> {
        let me = this_thread();
        if self.owner.load(Ordering::Acquire) == me {
            return Taken { turn: self, outermost: false };
        }
        let mut held = self.mutex.lock().unwrap_or_else(|e| e.into_inner());
        while self.owner.load(Ordering::Acquire) != 0 {
            held = self.free.wait(held).unwrap_or_else(|e| e.into_inner());
        }
        self.owner.store(me, Ordering::Release);
        drop(held);
        Taken { turn: self, outermost: true }
    }
}
impl Default for Turn {
    fn default() -> Self {
        Self::new()
    }
}
impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if self.outermost {
            let held = self.turn.mutex.lock().unwrap_or_else(|e| e.into_inner());
            self.turn.owner.store(0, Ordering::Release);
            self.turn.free.notify_all();
            drop(held);
        }
    }
}
