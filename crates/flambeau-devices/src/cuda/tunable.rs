//! `torch.cuda.tunable`: which of several kernels for a product is fastest, found by trying. The switches can be set and read; without a
//! device nothing is tried.
//!
//! ```
//! use torch::cuda::tunable::{self, DynamicDims};
//!
//! assert!(!tunable::is_enabled() && tunable::tuning_is_enabled() && !tunable::record_untuned_is_enabled());
//! tunable::enable(true);
//! tunable::tuning_enable(false);
//! tunable::record_untuned_enable(true);
//! tunable::wildcard_fallback_enable(true);
//! assert!(tunable::is_enabled() && !tunable::tuning_is_enabled() && tunable::wildcard_fallback_is_enabled());
//! tunable::set_max_tuning_duration(50);
//! tunable::set_max_tuning_iterations(20);
//! tunable::set_rotating_buffer_size(64);
//! tunable::set_cublaslt_requested_algo_count(4);
//! assert_eq!((tunable::get_max_tuning_duration(), tunable::get_max_tuning_iterations()), (50, 20));
//! assert_eq!((tunable::get_rotating_buffer_size(), tunable::get_cublaslt_requested_algo_count()), (64, 4));
//! tunable::set_filename("results.csv".into());
//! tunable::set_numerical_check_tolerances(true, 1e-5, 1e-5);
//! assert_eq!(tunable::get_filename(), "results.csv");
//! let rows = DynamicDims { m: true, ..DynamicDims::default() };
//! let found = tunable::dynamic_dims_mask(rows, tunable::get_results);
//! assert!(found.is_empty() && tunable::get_validators().is_empty());
//! // without a device
//! assert!(tunable::try_read_file().is_err());
//! assert!(tunable::try_tune_gemm_in_file("untuned.csv".into()).is_err());
//! assert!(tunable::try_mgpu_tune_gemm_in_file("untuned*.csv".into(), 2).is_err());
//! ```

use super::absent;
use crate::table::answers;
use flambeau_core::Error;
use flambeau_core::types::order::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

static ENABLED: AtomicBool = AtomicBool::new(false);
static TUNING: AtomicBool = AtomicBool::new(true);
static RECORD: AtomicBool = AtomicBool::new(false);
static DURATION: AtomicI64 = AtomicI64::new(30);
static ITERATIONS: AtomicI64 = AtomicI64::new(100);
static BUFFER: AtomicI64 = AtomicI64::new(-1);
static ALGORITHMS: AtomicI64 = AtomicI64::new(8);
static FALLBACK: AtomicBool = AtomicBool::new(false);
static CHECK: Mutex<Option<(f64, f64)>> = Mutex::new(None);
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
    /// How many kernels of cuBLASLt are asked for.
    fn set_cublaslt_requested_algo_count(count: i64) -> () { ALGORITHMS.store(if count > 0 { count } else { 8 }, Relaxed); }
    /// See [`set_cublaslt_requested_algo_count`].
    fn get_cublaslt_requested_algo_count() -> i64 { ALGORITHMS.load(Relaxed) }
    /// Lets results of other sizes stand in for sizes that were not tried.
    fn wildcard_fallback_enable(val: bool = true) -> () { FALLBACK.store(val, Relaxed); }
    /// See [`wildcard_fallback_enable`].
    fn wildcard_fallback_is_enabled() -> bool { FALLBACK.load(Relaxed) }
    /// Compares results of the kernels that are tried, within these tolerances.
    fn set_numerical_check_tolerances(enable: bool, atol: f64 = 1e-5, rtol: f64 = 1e-5) -> () {
        *CHECK.lock().unwrap_or_else(PoisonError::into_inner) = enable.then_some((atol, rtol));
    }
    /// Searches for the products that files list, on several devices.
    try try_mgpu_tune_gemm_in_file(filename_pattern: String, num_gpus: i64) -> () {
        let _ = filename_pattern;
        Err(Error::assertion(format!("num_gpus must be between 1 and 0, got {num_gpus}")))
    }
    /// What was found: nothing.
    fn get_results() -> Vec<String> { Vec::new() }
    /// What a file must say to be believed.
    fn get_validators() -> Vec<String> { Vec::new() }
    /// Reads a file of results.
    try try_read_file(; filename: String) -> bool { absent() }
    /// Searches for the products that a file lists.
    try try_tune_gemm_in_file(filename: String) -> () { absent() }
} }

/// Which sizes of products stand for any while `dynamic_dims_mask` runs: M, N, K and the batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DynamicDims {
    /// Rows of the result.
    pub m: bool,
    /// Columns of the result.
    pub n: bool,
    /// The length of the sums.
    pub k: bool,
    /// The number of products.
    pub batch: bool,
}
static DYNAMIC: Mutex<DynamicDims> = Mutex::new(DynamicDims { m: false, n: false, k: false, batch: false });
fn set_dynamic(d: DynamicDims) -> DynamicDims {
    std::mem::replace(&mut *DYNAMIC.lock().unwrap_or_else(PoisonError::into_inner), d)
}
/// Runs a closure in which results are noted for any of these sizes.
pub fn dynamic_dims_mask<R>(dims: DynamicDims, f: impl FnOnce() -> R) -> R {
    struct Back(DynamicDims);
    impl Drop for Back {
        fn drop(&mut self) {
            set_dynamic(self.0);
        }
    }
    let _back = Back(set_dynamic(dims));
    f()
}

#[cfg(feature = "by-name")]
pub(crate) const BY_HAND: &[crate::by_name::Row] = &[("torch.cuda.tunable", "dynamic_dims_mask", |a, k| {
    use std::sync::Arc;
    let mut b = crate::by_name::Bound::new("dynamic_dims_mask", &["M", "N", "K", "BATCH"], a, k)?;
    let mut flag = || b.argument(Some(false));
    let to = DynamicDims { m: flag()?, n: flag()?, k: flag()?, batch: flag()? };
    let before = Arc::new(Mutex::new(DynamicDims::default()));
    let kept = before.clone();
    let enter = move || {
        *kept.lock().unwrap_or_else(PoisonError::into_inner) = set_dynamic(to);
        Ok(())
    };
    let exit = move || {
        set_dynamic(*before.lock().unwrap_or_else(PoisonError::into_inner));
    };
    Ok(vec![crate::stream::scope("dynamic_dims_mask", enter, exit)])
})];
