//! A value that threads wait for, time, and threads: the machine's own, or those of a simulated world.
//!
//! Whatever waits in this crate waits here, so that a rank of a simulated world ([`crate::simulation`]) gives its turn to another instead
//! of keeping a thread of the machine waiting, and so that its time is the world's.

use crate::simulation::scheduler::{self, Task};
use flambeau_core::Result;
use flambeau_core::types::time::after;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// A value behind a lock, whose changes other threads wait for. Nobody calls a program's code under it.
pub(crate) struct Monitor<T> {
    value: Mutex<T>,
    changed: Condvar,
    /// ranks of a simulated world that wait, and how many
    simulated: Mutex<Vec<Arc<Task>>>,
    number: AtomicUsize,
}
impl<T> Monitor<T> {
    pub(crate) const fn new(value: T) -> Self {
        Monitor {
            value: Mutex::new(value),
            changed: Condvar::new(),
            simulated: Mutex::new(Vec::new()),
            number: AtomicUsize::new(0),
        }
    }
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub(crate) fn notify(&self) {
        self.changed.notify_all();
        if self.number.load(Ordering::Acquire) > 0 {
            let all = std::mem::take(&mut *self.simulated.lock().unwrap_or_else(PoisonError::into_inner));
            self.number.fetch_sub(all.len(), Ordering::AcqRel);
            all.iter().for_each(|t| t.wake());
        }
    }
    pub(crate) fn wait<'a>(&'a self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        match scheduler::current() {
            Some(task) => self.give_turn(&task, guard, None).0,
            None => self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner),
        }
    }
    /// Waits for a change until the deadline; false when it has passed.
    pub(crate) fn wait_until<'a>(
        &'a self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> (MutexGuard<'a, T>, bool) {
        let now = now();
        if now >= deadline {
            return (guard, false);
        }
        if let Some(task) = scheduler::current() {
            return self.give_turn(&task, guard, Some(deadline));
        }
        let (guard, _) =
            self.changed.wait_timeout(guard, deadline - now).unwrap_or_else(PoisonError::into_inner);
        (guard, true)
    }
    /// The same in a simulated world: others have their turns until somebody notifies, or the time has come.
    fn give_turn<'a>(
        &'a self,
        task: &Arc<Task>,
        guard: MutexGuard<'a, T>,
        deadline: Option<Instant>,
    ) -> (MutexGuard<'a, T>, bool) {
        {
            // under the value's lock: no change is missed
            let mut waiting = self.simulated.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.push(task.clone());
            self.number.fetch_add(1, Ordering::AcqRel);
        }
        drop(guard);
        let more = task.block(deadline);
        if self.number.load(Ordering::Acquire) > 0 {
            let mut waiting = self.simulated.lock().unwrap_or_else(PoisonError::into_inner);
            let before = waiting.len();
            waiting.retain(|t| !Arc::ptr_eq(t, task));
            self.number.fetch_sub(before - waiting.len(), Ordering::AcqRel);
        }
        (self.lock(), more)
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

/// The moment it is.
pub(crate) fn now() -> Instant {
    scheduler::current().map_or_else(Instant::now, |t| t.now())
}
/// Microseconds since 1970. Simulated worlds begin in 2020, so that every run of them is the same.
pub(crate) fn micros_since_1970() -> i64 {
    const BEGIN: i64 = 1_577_836_800_000_000;
    let machine =
        || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64);
    scheduler::current().map_or_else(machine, |t| BEGIN + t.elapsed().as_micros() as i64)
}
/// Lets time pass.
pub(crate) fn sleep(d: Duration) {
    match scheduler::current() {
        Some(t) => t.sleep(d),
        None => std::thread::sleep(d),
    }
}
/// A thread that helps this one: of the same rank, in a simulated world.
pub(crate) fn spawn(name: &str, f: impl FnOnce() + Send + 'static) -> Result<()> {
    match scheduler::current() {
        Some(t) => t.spawn(name, f),
        None => {
            std::thread::Builder::new().name(name.to_owned()).spawn(f)?;
            Ok(())
        }
    }
}

/// The moment when a duration from now is over; very long ones end in a century.
pub(crate) fn deadline(timeout: Duration) -> Instant {
    after(now(), timeout)
}
