//! Settings of the library as a whole: the default device, how exact products must be, and what the library is built of.

pub mod determinism;
pub mod threads;

use crate::types::device::Device;
use crate::types::error::{Error, Result};
use std::cell::Cell;
use std::fmt::Write;
use std::sync::atomic::{AtomicU8, Ordering};

thread_local! {
    static DEVICE: Cell<Option<Device>> = const { Cell::new(None) };
}

/// The device of tensors that are made without saying where, in this thread; the CPU unless set.
#[doc(alias = "torch.get_default_device")]
pub fn get_default_device() -> Device {
    DEVICE.get().unwrap_or(Device::Cpu)
}
/// Sets [`get_default_device`] for this thread; `None` for the CPU.
///
/// ```
/// use torch::Device;
/// torch::set_default_device(Device::Meta);
/// assert_eq!(torch::ones([2]).device(), Device::Meta);
/// torch::set_default_device(None);
/// assert_eq!(torch::get_default_device(), Device::Cpu);
/// ```
#[doc(alias = "torch.set_default_device")]
pub fn set_default_device(d: impl Into<Option<Device>>) {
    DEVICE.set(d.into());
}

/// The device that was asked for, or the one set as default.
#[inline]
pub fn chosen(d: Option<Device>) -> Option<Device> {
    d.or_else(|| DEVICE.get())
}

/// How exact products of float32 matrices must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatmulPrecision {
    /// In float32.
    Highest,
    /// Factors of fewer bits are allowed.
    High,
    /// Factors of bfloat16 are allowed.
    Medium,
}
static PRECISION: AtomicU8 = AtomicU8::new(0);

/// Allows less exact products of float32 matrices where that is faster. With [`MatmulPrecision::Medium`] the factors of large
/// products are rounded to bfloat16, and products summed in float32, on processors with an instruction for it (AVX512-BF16: twice the
/// rate). Others have nothing faster to offer and stay exact; so do small products, products with vectors, and `High` everywhere.
///
/// ```
/// use torch::{MatmulPrecision, get_float32_matmul_precision, set_float32_matmul_precision};
/// assert_eq!(get_float32_matmul_precision(), MatmulPrecision::Highest);
/// set_float32_matmul_precision(MatmulPrecision::Medium);
/// assert_eq!(get_float32_matmul_precision().name(), "medium");
/// ```
#[doc(alias = "torch.set_float32_matmul_precision")]
pub fn set_float32_matmul_precision(p: MatmulPrecision) {
    PRECISION.store(p as u8, Ordering::Relaxed);
    flambeau_cpu::blas::allow_bf16_factors(p == MatmulPrecision::Medium);
}
/// What [`set_float32_matmul_precision`] said.
#[doc(alias = "torch.get_float32_matmul_precision")]
pub fn get_float32_matmul_precision() -> MatmulPrecision {
    match PRECISION.load(Ordering::Relaxed) {
        0 => MatmulPrecision::Highest,
        1 => MatmulPrecision::High,
        _ => MatmulPrecision::Medium,
    }
}
impl MatmulPrecision {
    /// `highest`, `high`, `medium`.
    pub fn name(self) -> &'static str {
        match self {
            MatmulPrecision::Highest => "highest",
            MatmulPrecision::High => "high",
            MatmulPrecision::Medium => "medium",
        }
    }
    /// The precision of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn from_name(s: &str) -> Result<MatmulPrecision> {
        use MatmulPrecision::*;
        let found = [Highest, High, Medium].into_iter().find(|p| p.name() == s);
        found.ok_or_else(|| {
            Error::value(format!(
                "{s} is not one of 'highest', 'high', or 'medium'; the current setting stays unchanged."
            ))
        })
    }
}

/// Counts subnormal numbers (smaller than the smallest normal one, about 1.2e-38 in float32) as zero on this thread, operands and
/// results of kernels alike, or no longer. Some processors compute with them much more slowly. Says whether the processor can: those of
/// x86-64 and 64-bit ARM can.
///
/// Threads that help with a kernel have the mode of the thread that called it. Other threads of the program have their own. What the
/// compiler computed beforehand and what is only copied or printed keeps its value.
///
/// ```
/// if torch::set_flush_denormal(true) {
///     let small = torch::tensor([1e-38_f32]);
///     assert_eq!((&small * 0.1).to_vec::<f32>(), [0.0]);
///     torch::set_flush_denormal(false);
/// }
/// ```
#[doc(alias = "torch.set_flush_denormal")]
pub fn set_flush_denormal(on: bool) -> bool {
    flambeau_cpu::engine::subnormal::set(on)
}

/// What the library is built of (`torch.__config__`).
///
/// ```
/// use torch::__config__;
/// assert!(__config__::show().contains(__config__::capability()));
/// assert!(__config__::parallel_info().contains("get_num_threads"));
/// ```
#[doc(alias = "torch.__config__")]
pub mod config {
    use super::*;

    /// Version, target and instruction sets.
    #[doc(alias = "torch.__config__.show")]
    pub fn show() -> String {
        let mut s = String::from("Flambeau built with:\n");
        let _ = writeln!(s, "  - version {}", env!("CARGO_PKG_VERSION"));
        let _ = writeln!(s, "  - {} on {}", std::env::consts::ARCH, std::env::consts::OS);
        let _ = writeln!(s, "  - CPU capability usage: {}", capability());
        let debug = if cfg!(debug_assertions) { "with" } else { "without" };
        let _ = writeln!(s, "  - {debug} debug assertions");
        s
    }
    /// Numbers of threads.
    #[doc(alias = "torch.__config__.parallel_info")]
    pub fn parallel_info() -> String {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        format!(
            "Flambeau/Parallel:\n\tget_num_threads() : {}\n\tavailable_parallelism() : {cores}\n\
             Parallel backend: own thread pool\n",
            crate::settings::threads::get_num_threads()
        )
    }
    /// The widest instruction set that kernels use: `AVX512`, `AVX2` or `DEFAULT`.
    #[doc(alias = "torch.backends.cpu.get_cpu_capability")]
    pub fn capability() -> &'static str {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f") {
                return "AVX512";
            }
            if std::arch::is_x86_feature_detected!("avx2") {
                return "AVX2";
            }
        }
        "DEFAULT"
    }
}
