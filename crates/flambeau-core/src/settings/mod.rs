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

/// Allows less exact products of float32 matrices where that is faster. The kernels here are exact in any case: there is
/// no faster one that this would allow.
#[doc(alias = "torch.set_float32_matmul_precision")]
pub fn set_float32_matmul_precision(p: MatmulPrecision) {
    PRECISION.store(p as u8, Ordering::Relaxed);
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

/// Treating subnormal numbers as zero: Rust has no sound way to switch the processor's mode, so the answer is always that
/// it could not be done.
#[doc(alias = "torch.set_flush_denormal")]
pub fn set_flush_denormal(_on: bool) -> bool {
    false
}

/// What the library is built of (`torch.__config__`).
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
