//! What changes the behaviour of `scaled_dot_product_attention` (`torch.nn.attention`): the choice of implementations,
//! causal biases, and attention with scores and masks that closures compute.
//!
//! ```
//! use torch::nn::attention::{SDPBackend, sdpa_kernel};
//! use torch::nn::functional as F;
//!
//! let (q, k, v) = (torch::randn([1, 2, 4, 8]), torch::randn([1, 2, 6, 8]), torch::randn([1, 2, 6, 8]));
//! let written_out = sdpa_kernel(&[SDPBackend::Math], || F::scaled_dot_product_attention(&q, &k, &v));
//! assert_eq!(written_out.sizes(), [1, 2, 4, 8]);
//! ```

#[doc(alias = "torch.nn.attention.bias")]
pub mod bias;
pub mod flex_attention;

use flambeau_nn_functional::ops::attention::backends;
pub use flambeau_nn_functional::ops::attention::backends::{SDPBackend, SdpaGuard};

/// Runs `f` with these implementations alone, in this thread. [`sdpa_kernel_guard`] does the same until it is dropped.
#[doc(alias = "torch.nn.attention.sdpa_kernel")]
pub fn sdpa_kernel<R>(backends: &[SDPBackend], f: impl FnOnce() -> R) -> R {
    let _guard = sdpa_kernel_guard(backends, false);
    f()
}
/// These implementations alone, in this thread, until the guard is dropped; with `set_priority` in that order of
/// preference.
///
/// ```
/// use torch::nn::attention::{SDPBackend, SdpaGuard, enabled_backends, sdpa_kernel_guard};
/// let only: SdpaGuard = sdpa_kernel_guard(&[SDPBackend::Math], false);
/// assert_eq!(enabled_backends(), [SDPBackend::Math]);
/// drop(only);
/// assert!(enabled_backends().contains(&SDPBackend::FlashAttention));
/// ```
pub fn sdpa_kernel_guard(backends: &[SDPBackend], set_priority: bool) -> SdpaGuard {
    SdpaGuard::new(backends, set_priority)
}
/// The implementations that are allowed in this thread, the preferred first.
pub fn enabled_backends() -> Vec<SDPBackend> {
    backends::enabled()
}

/// Switches for the process (`torch.backends.cuda.*_sdp`), or for the innermost [`sdpa_kernel`] of the thread. They hold
/// on the CPU too, which has the flash kernel and the one that is written out.
#[doc(hidden)]
pub mod switches {
    use flambeau_nn_functional::ops::attention::backends::{self, SDPBackend};
    macro_rules! switches {
        ($($enabled:ident $enable:ident $backend:ident $a:literal $b:literal;)*) => {$(
            #[doc = concat!("Whether [`SDPBackend::", stringify!($backend), "`] is allowed.")]
            #[doc(alias = $a)]
            pub fn $enabled() -> bool {
                backends::is_enabled(SDPBackend::$backend)
            }
            #[doc = concat!("Allows [`SDPBackend::", stringify!($backend), "`] or forbids it.")]
            #[doc(alias = $b)]
            pub fn $enable(on: bool) {
                backends::enable(SDPBackend::$backend, on);
            }
        )*};
    }
    switches! {
        flash_sdp_enabled enable_flash_sdp FlashAttention
            "torch.backends.cuda.flash_sdp_enabled" "torch.backends.cuda.enable_flash_sdp";
        mem_efficient_sdp_enabled enable_mem_efficient_sdp EfficientAttention
            "torch.backends.cuda.mem_efficient_sdp_enabled" "torch.backends.cuda.enable_mem_efficient_sdp";
        math_sdp_enabled enable_math_sdp Math
            "torch.backends.cuda.math_sdp_enabled" "torch.backends.cuda.enable_math_sdp";
        cudnn_sdp_enabled enable_cudnn_sdp CudnnAttention
            "torch.backends.cuda.cudnn_sdp_enabled" "torch.backends.cuda.enable_cudnn_sdp";
    }
}
