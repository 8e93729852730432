//! Which implementations `scaled_dot_product_attention` may use: process-wide switches, and a choice for a thread on top
//! of them while a guard lives.

use flambeau_core::types::nested::{Entered, Nested, Outer};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU8, Ordering};

/// An implementation of scaled dot product attention.
///
/// ```
/// use torch::nn::attention::{SDPBackend, sdpa_kernel};
/// let x = torch::randn([1, 2, 4, 8]);
/// let attend = || torch::nn::functional::scaled_dot_product_attention(&x, &x, &x);
/// let (written_out, flash) =
///     (sdpa_kernel(&[SDPBackend::Math], attend), sdpa_kernel(&[SDPBackend::FlashAttention], attend));
/// assert!((written_out - flash).abs().max().item::<f32>() < 1e-5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "torch.nn.attention.SDPBackend")]
pub enum SDPBackend {
    /// No implementation fits.
    #[doc(alias = "torch.nn.attention.SDPBackend.ERROR")]
    Error = -1,
    /// Products and softmax, one after the other.
    #[doc(alias = "torch.nn.attention.SDPBackend.MATH")]
    Math = 0,
    /// One kernel that never forms the matrix of scores.
    #[doc(alias = "torch.nn.attention.SDPBackend.FLASH_ATTENTION")]
    FlashAttention = 1,
    /// A CUDA kernel; not on the CPU.
    #[doc(alias = "torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION")]
    EfficientAttention = 2,
    /// cuDNN's kernel; not on the CPU.
    #[doc(alias = "torch.nn.attention.SDPBackend.CUDNN_ATTENTION")]
    CudnnAttention = 3,
    /// The kernel of an extension's device.
    #[doc(alias = "torch.nn.attention.SDPBackend.OVERRIDEABLE")]
    Overrideable = 4,
}
use SDPBackend::{CudnnAttention, EfficientAttention, FlashAttention, Math, Overrideable};

/// In the order in which PyTorch prefers them.
const ALL: [SDPBackend; 5] = [FlashAttention, EfficientAttention, Math, CudnnAttention, Overrideable];

fn bit(b: SDPBackend) -> u8 {
    match b {
        SDPBackend::Error => 0,
        b => 1 << b as u8,
    }
}
static ENABLED: AtomicU8 = AtomicU8::new(0b11111);

/// What a guard puts in force.
#[derive(Clone, Copy)]
struct Choice {
    enabled: u8,
    order: [SDPBackend; 5],
}
thread_local! {
    static NOW: Cell<Option<Choice>> = const { Cell::new(None) };
    static FOUND: Outer<Option<Choice>> = const { RefCell::new(Vec::new()) };
}
static CHOICE: Nested<Option<Choice>> = Nested::new(&NOW, &FOUND);
fn current() -> Choice {
    CHOICE.get().unwrap_or_else(|| Choice { enabled: ENABLED.load(Ordering::Relaxed), order: ALL })
}

/// Whether attention may use the implementation in this thread.
pub fn is_enabled(b: SDPBackend) -> bool {
    current().enabled & bit(b) != 0
}
/// Allows an implementation or forbids it: in the innermost guard of this thread, or for the process if there is none.
pub fn enable(b: SDPBackend, on: bool) {
    let set = |m: u8| if on { m | bit(b) } else { m & !bit(b) };
    match CHOICE.get() {
        Some(c) => CHOICE.set(Some(Choice { enabled: set(c.enabled), ..c })),
        None => {
            let _ = ENABLED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |m| Some(set(m)));
        }
    }
}
/// The allowed implementations, the preferred first.
pub fn enabled() -> Vec<SDPBackend> {
    let c = current();
    c.order.into_iter().filter(|b| c.enabled & bit(*b) != 0).collect()
}

/// Ends a choice of implementations when it is dropped. Belongs to its thread.
///
/// ```
/// use torch::nn::attention::{SDPBackend, SdpaGuard, enabled_backends};
/// let only = SdpaGuard::new(&[SDPBackend::Math], false);
/// assert_eq!(enabled_backends(), [SDPBackend::Math]);
/// drop(only);
/// assert!(enabled_backends().len() > 1);
/// ```
#[must_use = "the choice ends when the guard is dropped"]
pub struct SdpaGuard(#[allow(dead_code, reason = "ends the choice on drop")] Entered<Option<Choice>>);
impl SdpaGuard {
    /// Allows these implementations alone, in this thread, until the guard is dropped. With `set_priority` their order is
    /// the order of preference.
    pub fn new(backends: &[SDPBackend], set_priority: bool) -> SdpaGuard {
        let mut next = current();
        next.enabled = backends.iter().fold(0, |m, b| m | bit(*b));
        if set_priority {
            let mut order: Vec<SDPBackend> = Vec::new();
            for b in backends.iter().copied().chain(next.order) {
                if b != SDPBackend::Error && !order.contains(&b) {
                    order.push(b);
                }
            }
            next.order.copy_from_slice(&order);
        }
        SdpaGuard(CHOICE.enter(Some(next)))
    }
}
