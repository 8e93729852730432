//! What devices did, for the profiler: the emulated driver notes it here as it goes, NVIDIA's at the end, by CUPTI.

use flambeau_core::types::order::{Mutex, MutexGuard};
use flambeau_core::{Result, ensure};
pub(crate) use flambeau_devices::cuda::activity::{Activity, What};
use std::cell::RefCell;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

static ON: AtomicBool = AtomicBool::new(false);
static NOTED: Mutex<Option<(Instant, Vec<Activity>)>> = Mutex::new(None);
static NEXT: AtomicU64 = AtomicU64::new(1);
thread_local! {
    /// Operators that run on this thread, the innermost last.
    static OPERATORS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}
fn noted() -> MutexGuard<'static, Option<(Instant, Vec<Activity>)>> {
    NOTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether somebody wants to know.
pub(crate) fn on() -> bool {
    ON.load(Ordering::Relaxed)
}
/// Begins.
///
/// # Errors
/// Somebody watches already.
pub(crate) fn begin(base: Instant) -> Result<()> {
    let mut all = noted();
    ensure!(all.is_none(), Runtime, "Profiler is already enabled on this device");
    *all = Some((base, Vec::new()));
    ON.store(true, Ordering::Relaxed);
    Ok(())
}
/// Ends it: what was noted, in the order of time.
pub(crate) fn end() -> Vec<Activity> {
    ON.store(false, Ordering::Relaxed);
    let mut all = noted().take().map(|n| n.1).unwrap_or_default();
    all.sort_by_key(|a| (a.start, a.end));
    all
}
/// A number for a call and what it queues.
pub(crate) fn correlation() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}
/// Nanoseconds between the begin of the recording and a moment.
pub(crate) fn since_begin(t: Instant) -> u64 {
    noted().as_ref().map_or(0, |n| t.saturating_duration_since(n.0).as_nanos() as u64)
}
pub(crate) fn note(a: Activity) {
    if let Some((_, all)) = &mut *noted() {
        all.push(a);
    }
}
/// Enters an operator, or leaves the innermost one.
pub(crate) fn operator(entered: Option<u64>) {
    let _ = OPERATORS.try_with(|o| match entered {
        Some(id) => o.borrow_mut().push(id),
        None => drop(o.borrow_mut().pop()),
    });
}
/// The operator that runs on this thread.
pub(crate) fn running() -> Option<u64> {
    OPERATORS.try_with(|o| o.borrow().last().copied()).ok().flatten()
}
