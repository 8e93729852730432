//! Thread-local modes: whether operations are recorded, and how.

use crate::types::thread_keys::set_inference;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

pub const NO_GRAD: u8 = 1;
pub const INFERENCE: u8 = 2;
pub const SAVED_HOOKS: u8 = 4;
pub const ANOMALY: u8 = 8;
pub const NO_FORWARD_AD: u8 = 16;
pub const NO_NAN_CHECK: u8 = 32;
/// Something could not be saved for backward; the error waits in `saved.rs`.
pub const SAVE_FAILED: u8 = 64;

thread_local! {
    // one byte for everything that a recorded call must look at
    static MODE: Cell<u8> = const { Cell::new(0) };
    static NEXT: Cell<u64> = const { Cell::new(0) };
    /// What the guards that live found, the oldest first.
    static FOUND: RefCell<Vec<Found>> = const { RefCell::new(Vec::new()) };
}
/// The bits that a guard covers, as they were before it.
#[derive(Clone, Copy)]
struct Found {
    id: u64,
    mask: u8,
    old: u8,
}

#[inline(always)]
pub fn has(bits: u8) -> bool {
    MODE.get() & bits != 0
}

/// Sets or clears bits until further notice.
pub fn set(bits: u8, on: bool) {
    MODE.set(if on { MODE.get() | bits } else { MODE.get() & !bits });
}

/// Puts other values in the place of bits, until further notice; gives what they were.
#[inline]
pub fn exchange(mask: u8, bits: u8) -> u8 {
    let old = MODE.get();
    MODE.set(old & !mask | bits & mask);
    if mask & INFERENCE != 0 {
        set_inference(bits & INFERENCE != 0);
    }
    old & mask
}

/// Restores the mode bits it covers when dropped.
pub struct ModeGuard {
    found: Found,
    _thread: PhantomData<*const ()>,
}
impl ModeGuard {
    #[inline]
    pub fn new(mask: u8, on: bool) -> Self {
        Self::exchanged(mask, if on { mask } else { 0 })
    }
    /// [`exchange`], until the guard is dropped.
    #[inline]
    pub fn exchanged(mask: u8, bits: u8) -> Self {
        let id = NEXT.get();
        NEXT.set(id + 1);
        let found = Found { id, mask, old: exchange(mask, bits) };
        // where the thread ends and the list is gone, the guard restores what it found
        let _ = FOUND.try_with(|all| all.borrow_mut().push(found));
        ModeGuard { found, _thread: PhantomData }
    }
    /// Recording on or off, whatever mode the thread is in.
    #[inline]
    pub fn recording(on: bool) -> Self {
        if on { Self::new(NO_GRAD | INFERENCE, false) } else { Self::new(NO_GRAD, true) }
    }
}
impl Drop for ModeGuard {
    #[inline]
    fn drop(&mut self) {
        let left = FOUND.try_with(|all| leave(&mut all.borrow_mut(), self.found.id));
        let Found { mask, old, .. } = left.ok().flatten().unwrap_or(self.found);
        exchange(mask, old);
    }
}
/// Takes a guard away, and gives what is to be restored now: bits that a younger guard covers are handed to it, who restores
/// them in its turn.
#[inline]
fn leave(all: &mut Vec<Found>, id: u64) -> Option<Found> {
    if all.last()?.id == id {
        return all.pop();
    }
    let i = all.iter().rposition(|f| f.id == id)?;
    let mut gone = all.remove(i);
    for younger in &mut all[i..] {
        let both = gone.mask & younger.mask;
        younger.old = younger.old & !both | gone.old & both;
        gone.mask &= !both;
    }
    Some(gone)
}

/// Whether gradient mode is on on this thread. In inference mode it can be on, and nothing is recorded all the same.
#[inline(always)]
#[doc(alias = "torch.is_grad_enabled")]
pub fn is_grad_enabled() -> bool {
    !has(NO_GRAD)
}
/// Whether operations on this thread are recorded for backward.
///
/// ```
/// use torch::autograd::grad_mode::is_recording;
/// assert!(is_recording() && !torch::no_grad(is_recording) && !torch::inference_mode(is_recording));
/// ```
#[inline(always)]
pub fn is_recording() -> bool {
    !has(NO_GRAD | INFERENCE)
}

/// Whether this thread is in inference mode.
#[inline]
#[doc(alias = "torch.is_inference_mode_enabled")]
pub fn is_inference_mode_enabled() -> bool {
    has(INFERENCE)
}

/// Keeps gradient mode on or off on this thread until dropped. It cannot leave the thread.
///
/// ```
/// use torch::autograd::grad_mode::{GradModeGuard, is_grad_enabled, no_grad_guard};
/// let off: GradModeGuard = no_grad_guard();
/// assert!(!is_grad_enabled());
/// drop(off);
/// assert!(is_grad_enabled());
/// ```
#[must_use = "the mode ends when the guard is dropped"]
pub struct GradModeGuard(#[allow(dead_code, reason = "restores on drop")] ModeGuard);

/// Turns recording off until the guard is dropped.
#[doc(alias = "torch.no_grad")]
pub fn no_grad_guard() -> GradModeGuard {
    GradModeGuard(ModeGuard::new(NO_GRAD, true))
}
/// Turns recording on until the guard is dropped; inside inference mode it stays off, as in PyTorch.
///
/// ```
/// let _off = torch::no_grad_guard();
/// let _on = torch::enable_grad_guard();
/// assert!(torch::is_grad_enabled());
/// ```
#[doc(alias = "torch.enable_grad")]
pub fn enable_grad_guard() -> GradModeGuard {
    GradModeGuard(ModeGuard::new(NO_GRAD, false))
}
/// Turns recording on or off until the guard is dropped.
///
/// ```
/// let x = torch::ones([2]).requires_grad_(true).clone();
/// let _mode = torch::set_grad_enabled_guard(false);
/// assert!(!(&x * 2.0).requires_grad());
/// ```
#[doc(alias = "torch.set_grad_enabled")]
pub fn set_grad_enabled_guard(mode: bool) -> GradModeGuard {
    GradModeGuard(ModeGuard::new(NO_GRAD, !mode))
}
/// Inference mode (`mode` true) until the guard is dropped: nothing is recorded, and tensors made in it never can be. With
/// `mode` false the opposite: recording is on inside, whatever is around.
///
/// ```
/// let _inference = torch::inference_mode_guard(true);
/// assert!(torch::is_inference_mode_enabled() && torch::ones([2]).is_inference());
/// ```
#[doc(alias = "torch.inference_mode")]
#[doc(alias = "torch.autograd.grad_mode.inference_mode")]
pub fn inference_mode_guard(mode: bool) -> GradModeGuard {
    GradModeGuard(ModeGuard::new(INFERENCE | NO_GRAD, mode))
}

/// Sets the mode of this thread for good (PyTorch's function form).
///
/// ```
/// torch::set_grad_enabled(false);
/// assert!(!torch::is_grad_enabled());
/// ```
#[doc(alias = "torch.set_grad_enabled")]
pub fn set_grad_enabled(mode: bool) {
    set(NO_GRAD, !mode);
}

/// Runs `f` without recording: `no_grad(|| ...)`.
///
/// ```
/// let w = torch::ones([2]).requires_grad_(true).clone();
/// torch::no_grad(|| w.mul_(3.0));
/// assert_eq!(w.to_vec::<f32>(), [3.0, 3.0]);
/// ```
#[doc(alias = "torch.no_grad")]
pub fn no_grad<R>(f: impl FnOnce() -> R) -> R {
    let _g = no_grad_guard();
    f()
}
/// Runs `f` with recording on.
///
/// ```
/// let x = torch::ones([2]).requires_grad_(true).clone();
/// let y = torch::no_grad(|| torch::enable_grad(|| &x * 2.0));
/// assert!(y.requires_grad());
/// ```
#[doc(alias = "torch.enable_grad")]
pub fn enable_grad<R>(f: impl FnOnce() -> R) -> R {
    let _g = enable_grad_guard();
    f()
}
/// Runs `f` with recording on or off.
///
/// ```
/// use torch::autograd::grad_mode::with_grad_enabled;
/// let x = torch::ones([2]).requires_grad_(true).clone();
/// let training = false;
/// assert!(!with_grad_enabled(training, || &x * 2.0).requires_grad());
/// ```
#[doc(alias = "torch.set_grad_enabled")]
pub fn with_grad_enabled<R>(mode: bool, f: impl FnOnce() -> R) -> R {
    let _g = set_grad_enabled_guard(mode);
    f()
}
/// Runs `f` in inference mode.
///
/// ```
/// let x = torch::ones([2]).requires_grad_(true).clone();
/// let y = torch::inference_mode(|| &x * 2.0);
/// assert!(y.is_inference() && !y.requires_grad());
/// ```
#[doc(alias = "torch.inference_mode")]
pub fn inference_mode<R>(f: impl FnOnce() -> R) -> R {
    let _g = inference_mode_guard(true);
    f()
}
