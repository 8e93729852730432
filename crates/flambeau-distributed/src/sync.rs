//! A value that threads wait for, and a duration that a handle may change.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A value behind a lock, whose changes other threads wait for. Nobody calls a program's code under it.
pub(crate) struct Monitor<T> {
    value: Mutex<T>,
    changed: Condvar,
}
impl<T> Monitor<T> {
    pub(crate) const fn new(value: T) -> Self {
        Monitor { value: Mutex::new(value), changed: Condvar::new() }
    }
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub(crate) fn notify(&self) {
        self.changed.notify_all();
    }
    pub(crate) fn wait<'a>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }
    /// Waits for a change until the deadline; false when it has passed.
    pub(crate) fn wait_until<'a>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> (MutexGuard<'a, T>, bool) {
        let now = Instant::now();
        if now >= deadline {
            return (guard, false);
        }
        let (guard, _) =
            self.changed.wait_timeout(guard, deadline - now).unwrap_or_else(PoisonError::into_inner);
        (guard, true)
    }
    /// Waits until the condition holds; `None` when the deadline has passed before.
    pub(crate) fn wait_for<R>(&self, deadline: Instant, mut f: impl FnMut(&mut T) -> Option<R>) -> Option<R> {
        let mut guard = self.lock();
        loop {
            if let Some(r) = f(&mut guard) {
                return Some(r);
            }
            let (g, more) = self.wait_until(guard, deadline);
            guard = g;
            if !more {
                return f(&mut guard);
            }
        }
    }
}
impl<T: Default> Default for Monitor<T> {
    fn default() -> Self {
        Monitor::new(T::default())
    }
}

/// A duration that may be changed while it is shared.
pub(crate) struct Timeout(AtomicU64);
impl Timeout {
    pub(crate) fn new(d: Duration) -> Self {
        Timeout(AtomicU64::new(nanos(d)))
    }
    pub(crate) fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
    pub(crate) fn set(&self, d: Duration) {
        self.0.store(nanos(d), Ordering::Relaxed);
    }
}
fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

/// The moment when a duration from now is over; very long ones end in a century.
pub(crate) fn deadline(timeout: Duration) -> Instant {
    let now = Instant::now();
    let century = Duration::from_secs(100 * 365 * 24 * 3600);
    now + timeout.min(century)
}
