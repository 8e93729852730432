//! `torch.cuda.tunable`: which of several kernels for a product is fastest, found by trying. The switches can be set and read; without a
//! device nothing is tried.

use super::absent;
use crate::table::answers;
use flambeau_core::types::order::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

static ENABLED: AtomicBool = AtomicBool::new(false);
static TUNING: AtomicBool = AtomicBool::new(true);
static RECORD: AtomicBool = AtomicBool::new(false);
static DURATION: AtomicI64 = AtomicI64::new(30);
static ITERATIONS: AtomicI64 = AtomicI64::new(100);
static BUFFER: AtomicI64 = AtomicI64::new(-1);
static FILE: Mutex<Option<String>> = Mutex::new(None);

fn file() -> flambeau_core::types::order::MutexGuard<'static, Option<String>> {
    FILE.lock().unwrap_or_else(PoisonError::into_inner)
}

answers! { "torch.cuda.tunable", NAMES {
    /// Turns the choice of kernels on or off.
    fn enable(val: bool = true) -> () { ENABLED.store(val, Relaxed); }
    /// Whether kernels are chosen so.
    fn is_enabled() -> bool { ENABLED.load(Relaxed) }
    /// Allows to try kernels that no file names, or forbids it.
    fn tuning_enable(val: bool = true) -> () { TUNING.store(val, Relaxed); }
    /// Whether kernels are tried.
    fn tuning_is_enabled() -> bool { TUNING.load(Relaxed) }
    /// Lets products be noted for a later search.
    fn record_untuned_enable(val: bool = true) -> () { RECORD.store(val, Relaxed); }
    /// Whether they are noted.
    fn record_untuned_is_enabled() -> bool { RECORD.load(Relaxed) }
    /// Milliseconds that one kernel is tried for at most.
    fn set_max_tuning_duration(duration: i64) -> () { DURATION.store(duration.max(0), Relaxed); }
    /// See [`set_max_tuning_duration`].
    fn get_max_tuning_duration() -> i64 { DURATION.load(Relaxed) }
    /// How often one kernel is tried at most.
    fn set_max_tuning_iterations(iterations: i64) -> () { ITERATIONS.store(iterations.max(0), Relaxed); }
    /// See [`set_max_tuning_iterations`].
    fn get_max_tuning_iterations() -> i64 { ITERATIONS.load(Relaxed) }
    /// Megabytes of operands that take turns, so that no cache helps.
    fn set_rotating_buffer_size(buffer_size: i64) -> () { BUFFER.store(buffer_size, Relaxed); }
    /// See [`set_rotating_buffer_size`].
    fn get_rotating_buffer_size() -> i64 { BUFFER.load(Relaxed) }
    /// The file of results.
    fn set_filename(filename: String; insert_device_ordinal: bool) -> () { *file() = Some(filename); }
    /// See [`set_filename`].
    fn get_filename() -> String { file().clone().unwrap_or_default() }
    /// What was found: nothing.
    fn get_results() -> Vec<String> { Vec::new() }
    /// What a file must say to be believed.
    fn get_validators() -> Vec<String> { Vec::new() }
    /// Reads a file of results.
    try try_read_file(; filename: String) -> bool { absent() }
    /// Searches for the products that a file lists.
    try try_tune_gemm_in_file(filename: String) -> () { absent() }
} }
