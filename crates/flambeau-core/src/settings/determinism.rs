//! Deterministic mode: what may give other results from run to run is refused, or warned of, and memory without content is
//! filled.

use crate::DType;
use crate::tensor::handle::Tensor;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// What happens at an operator without a deterministic implementation.
///
/// ```
/// use torch::{DeterministicMode, get_deterministic_debug_mode, set_deterministic_debug_mode};
/// assert_eq!(get_deterministic_debug_mode(), DeterministicMode::Default);
/// set_deterministic_debug_mode(DeterministicMode::Warn);
/// assert!(torch::is_deterministic_algorithms_warn_only_enabled());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeterministicMode {
    /// Nothing.
    Default,
    /// A warning on standard error.
    Warn,
    /// An error.
    Error,
}
use DeterministicMode as Mode;

static MODE: AtomicU8 = AtomicU8::new(0);
static WARN_ALWAYS: AtomicBool = AtomicBool::new(false);
/// Of [`warn_once`].
static WARNED: crate::types::order::Mutex<Vec<String>> = crate::types::order::Mutex::new(Vec::new());

/// Turns deterministic mode on or off, for all threads. With `warn_only`, operators warn instead of failing.
///
/// On the CPU it concerns `put_` without `accumulate` and `max_unpool` (several values for one place), and memory without
/// content (`empty` and its like), which is filled with NaN or the largest number.
///
/// ```
/// torch::use_deterministic_algorithms(true, false);
/// assert!(torch::are_deterministic_algorithms_enabled());
/// assert!(torch::empty([2]).isnan().all().item::<bool>());
/// ```
#[doc(alias = "torch.use_deterministic_algorithms")]
pub fn use_deterministic_algorithms(on: bool, warn_only: bool) {
    set_deterministic_debug_mode(match (on, warn_only) {
        (false, _) => Mode::Default,
        (true, true) => Mode::Warn,
        (true, false) => Mode::Error,
    });
}
/// Sets the mode itself.
#[doc(alias = "torch.set_deterministic_debug_mode")]
pub fn set_deterministic_debug_mode(m: DeterministicMode) {
    MODE.store(m as u8, Ordering::Relaxed);
}
/// The mode.
#[doc(alias = "torch.get_deterministic_debug_mode")]
pub fn get_deterministic_debug_mode() -> DeterministicMode {
    match MODE.load(Ordering::Relaxed) {
        0 => Mode::Default,
        1 => Mode::Warn,
        _ => Mode::Error,
    }
}
/// Whether deterministic mode is on.
#[doc(alias = "torch.are_deterministic_algorithms_enabled")]
pub fn are_deterministic_algorithms_enabled() -> bool {
    get_deterministic_debug_mode() != Mode::Default
}
/// Whether it only warns.
#[doc(alias = "torch.is_deterministic_algorithms_warn_only_enabled")]
pub fn is_deterministic_algorithms_warn_only_enabled() -> bool {
    get_deterministic_debug_mode() == Mode::Warn
}

/// Whether warnings appear each time, not only the first.
///
/// ```
/// assert!(!torch::is_warn_always_enabled());
/// torch::set_warn_always(true);
/// assert!(torch::is_warn_always_enabled());
/// ```
#[doc(alias = "torch.set_warn_always")]
pub fn set_warn_always(on: bool) {
    WARN_ALWAYS.store(on, Ordering::Relaxed);
}
/// See [`set_warn_always`].
#[doc(alias = "torch.is_warn_always_enabled")]
pub fn is_warn_always_enabled() -> bool {
    WARN_ALWAYS.load(Ordering::Relaxed)
}
/// Writes a warning to standard error: the first time, or each time after [`set_warn_always`].
pub fn warn(text: &str) {
    let mut seen = WARNED.lock().unwrap_or_else(|e| e.into_inner());
    let new = !seen.iter().any(|s| s == text);
    if new {
        seen.push(text.to_string());
    }
    if new || is_warn_always_enabled() {
        eprintln!("UserWarning: {text}");
    }
}

/// Called first by operators without a deterministic implementation.
///
/// # Errors
/// In deterministic mode, unless it only warns.
#[inline]
pub fn alert_not_deterministic(name: &str) -> Result<()> {
    if MODE.load(Ordering::Relaxed) == 0 { Ok(()) } else { alert(name) }
}
#[cold]
fn alert(name: &str) -> Result<()> {
    let file = "file an issue at https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic \
                support for this operation.";
    if is_deterministic_algorithms_warn_only_enabled() {
        warn(&format!(
            "{name} does not have a deterministic implementation, but you set \
             'torch.use_deterministic_algorithms(True, warn_only=True)'. You can {file}"
        ));
        return Ok(());
    }
    Err(Error::runtime(format!(
        "{name} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True)'. You \
         can turn off determinism just for this operation, or you can use the 'warn_only=True' option, if that's \
         acceptable for your application. You can also {file}"
    )))
}

static FILL: AtomicBool = AtomicBool::new(true);

/// Whether deterministic mode fills memory whose content is left open (`torch.empty` and its like); it does unless told otherwise.
///
/// ```
/// use torch::utils::deterministic;
/// assert!(deterministic::fill_uninitialized_memory());
/// ```
#[doc(alias = "torch.utils.deterministic.fill_uninitialized_memory")]
pub fn fill_uninitialized_memory() -> bool {
    FILL.load(Ordering::Relaxed)
}
/// Sets [`fill_uninitialized_memory`].
///
/// ```
/// use torch::utils::deterministic;
/// deterministic::set_fill_uninitialized_memory(false);
/// assert!(!deterministic::fill_uninitialized_memory());
/// ```
pub fn set_fill_uninitialized_memory(on: bool) {
    FILL.store(on, Ordering::Relaxed);
}

/// Fills a fresh tensor whose content is left open, in deterministic mode: NaN, the largest integer, true.
///
/// # Errors
/// None on the CPU.
#[inline]
pub fn fill_uninitialized(t: Tensor) -> Result<Tensor> {
    if MODE.load(Ordering::Relaxed) == 0 || !fill_uninitialized_memory() {
        return Ok(t);
    }
    fill(&t)?;
    Ok(t)
}
#[cold]
fn fill(t: &Tensor) -> Result<()> {
    if t.device() != crate::Device::Cpu || t.numel() == 0 {
        return Ok(());
    }
    let v = match t.dtype() {
        d if d.is_floating() || d.is_complex() => Scalar::Float(f64::NAN),
        DType::Bool => Scalar::Bool(true),
        d => match crate::iinfo(d) {
            Ok(i) => i64::try_from(i.max).map_or(Scalar::UInt(u64::MAX), Scalar::Int),
            // quantized bytes have no largest number of their own
            Err(_) => return Ok(()),
        },
    };
    crate::ops::fill_(t, v)
}
