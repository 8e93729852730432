//! `torch.backends`: what the library is built of, and switches of it. Engines of PyTorch that are not here (oneDNN, MKL, NNPACK)
//! answer that they are not available; their switches can be set and read. cuDNN is used where it is found.

pub mod cuda;

use crate::table::answers;
#[cfg(feature = "by-name")]
use flambeau_core::Value;

/// The CPU (`torch.backends.cpu`).
pub mod cpu {
    use super::answers;
    answers! { "torch.backends.cpu", NAMES {
        /// The widest instruction set that kernels use here: `"AVX512"`, `"AVX2"` or `"DEFAULT"`.
        ///
        /// ```
        /// assert!(["AVX512", "AVX2", "DEFAULT"].contains(&torch::backends::cpu::get_cpu_capability()));
        /// ```
        fn get_cpu_capability() -> &'static str { flambeau_core::settings::config::capability() }
    } }
}
/// What `verbose` of MKL and oneDNN says where the engine is not there.
fn verbose<R>(engine: &str, level: i64, f: impl FnOnce() -> R) -> flambeau_core::Result<R> {
    checked(engine, level)?;
    Ok(f())
}
fn checked(engine: &str, level: i64) -> flambeau_core::Result<()> {
    if level == 0 {
        return Ok(());
    }
    Err(flambeau_core::Error::assertion(format!(
        "Failed to set {engine} into verbose mode. Please consider to disable this verbose scope."
    )))
}
/// Intel's MKL (`torch.backends.mkl`): products and decompositions are computed by own kernels.
pub mod mkl {
    use super::answers;
    /// Says nothing.
    pub const VERBOSE_OFF: i64 = 0;
    /// Says what is called.
    pub const VERBOSE_ON: i64 = 1;
    answers! { "torch.backends.mkl", NAMES {
        /// Whether MKL is there: no.
        fn is_available() -> bool { false }
    } }
    /// Lets MKL say what is called within a closure.
    ///
    /// ```
    /// use torch::backends::mkl;
    /// assert_eq!(mkl::verbose(mkl::VERBOSE_OFF, || 1 + 1)?, 2);
    /// assert!(!mkl::is_available() && mkl::verbose(mkl::VERBOSE_ON, || ()).is_err());
    /// # Ok::<(), torch::Error>(())
    /// ```
    ///
    /// # Errors
    /// Any level but [`VERBOSE_OFF`]: MKL is not there.
    pub fn verbose<R>(level: i64, f: impl FnOnce() -> R) -> flambeau_core::Result<R> {
        super::verbose("MKL", level, f)
    }
}
/// Intel's oneDNN (`torch.backends.mkldnn`): kernels are own ones.
pub mod mkldnn {
    use super::answers;
    use crate::switches::switches;
    /// Says nothing.
    pub const VERBOSE_OFF: i64 = 0;
    /// Says what runs.
    pub const VERBOSE_ON: i64 = 1;
    /// Says what is made, too.
    pub const VERBOSE_ON_CREATION: i64 = 2;
    answers! { "torch.backends.mkldnn", NAMES {
        /// Whether oneDNN is there: no.
        fn is_available() -> bool { false }
        /// Whether the library of ARM is there: no.
        fn is_acl_available() -> bool { false }
    } }
    switches! { SWITCHES;
        /// Whether oneDNN may be used.
        "torch.backends.mkldnn.enabled" enabled set_enabled ENABLED: AtomicBool, bool = true, "set_enabled_mkldnn";
        /// Whether it keeps to kernels that give the same result each time; those here do.
        "torch.backends.mkldnn.deterministic" deterministic set_deterministic DETERMINISTIC: AtomicBool, bool = false, "set_deterministic_mkldnn";
    }
    /// Lets oneDNN say what runs within a closure.
    ///
    /// # Errors
    /// Any level but [`VERBOSE_OFF`]: oneDNN is not there.
    pub fn verbose<R>(level: i64, f: impl FnOnce() -> R) -> flambeau_core::Result<R> {
        super::verbose("MKLDNN", level, f)
    }
}
/// NVIDIA's cuDNN (`torch.backends.cudnn`).
pub mod cudnn {
    use super::answers;
    use crate::switches::switches;
    answers! { "torch.backends.cudnn", NAMES {
        /// Whether there is a CUDA device and cuDNN, of version 9 or later, beside it. Convolutions on devices use it then.
        fn is_available() -> bool { version().is_some() }
        /// Its version, 91002 for 9.10.2; `None` where it is not there.
        fn version() -> Option<i64> { crate::cuda::runtime::answer(|r| r.cudnn_version()).flatten() }
        /// Whether cuDNN could take a tensor: one of a CUDA device, of float16, bfloat16, float32 or float64, where it is there.
        fn is_acceptable(tensor: flambeau_core::Tensor) -> bool {
            use flambeau_core::{DType::{BF16, F16, F32, F64}, Device};
            let taken = matches!(tensor.dtype(), F16 | BF16 | F32 | F64) && matches!(tensor.device(), Device::Cuda(_));
            enabled() && taken && is_available()
        }
    } }
    switches! { SWITCHES;
        /// Whether cuDNN may be used.
        "torch.backends.cudnn.enabled" enabled set_enabled ENABLED: AtomicBool, bool = true, "set_enabled_cudnn";
        /// Whether it tries several algorithms and keeps the fastest.
        "torch.backends.cudnn.benchmark" benchmark set_benchmark BENCHMARK: AtomicBool, bool = false, "set_benchmark_cudnn";
        /// How many it tries at most; 0 for all.
        "torch.backends.cudnn.benchmark_limit" benchmark_limit set_benchmark_limit LIMIT: AtomicI64, i64 = 10, "set_benchmark_limit_cudnn";
        /// Whether it keeps to algorithms that give the same result each time.
        "torch.backends.cudnn.deterministic" deterministic set_deterministic DETERMINISTIC: AtomicBool, bool = false, "set_deterministic_cudnn";
        /// Whether convolutions may round factors to TensorFloat-32.
        "torch.backends.cudnn.allow_tf32" allow_tf32 set_allow_tf32 TF32: AtomicBool, bool = true, "set_allow_tf32_cublas";
    }
}
/// Products with structured sparsity (`torch.backends.cusparselt`).
pub mod cusparselt {
    use super::answers;
    answers! { "torch.backends.cusparselt", NAMES {
        /// Whether cuSPARSELt is there: no.
        fn is_available() -> bool { false }
        /// Its version: none.
        fn version() -> Option<i64> { None }
        /// The number of its algorithms: none.
        fn get_max_alg_id() -> Option<i64> { None }
    } }
}
/// Apple's graphics processors (`torch.backends.mps`).
pub mod mps {
    use super::answers;
    use crate::mps::absent;
    answers! { "torch.backends.mps", NAMES {
        /// Whether a device can be used: no.
        fn is_available() -> bool { false }
        /// Whether the library was built for such devices: no.
        fn is_built() -> bool { false }
        /// Whether the system is that version of macOS or a newer one.
        try try_is_macos_or_newer(major: i64, minor: i64) -> bool { absent("isOnMacOSorNewer") }
        /// Whether the system is macOS 13 or newer.
        try try_is_macos13_or_newer(; minor: i64) -> bool { absent("isOnMacOSorNewer") }
    } }
}
/// PyTorch's inference path of attention modules (`torch.backends.mha`).
pub mod mha {
    pub use flambeau_nn::{get_fastpath_enabled, set_fastpath_enabled};
}
/// Kernels for convolutions on the CPU (`torch.backends.nnpack`).
pub mod nnpack {
    use super::answers;
    use std::sync::atomic::{AtomicBool, Ordering};
    static ENABLED: AtomicBool = AtomicBool::new(true);
    answers! { "torch.backends.nnpack", NAMES {
        /// Whether NNPACK is there: no.
        fn is_available() -> bool { false }
        /// Says whether NNPACK may be used, and gives what was said before.
        fn set_flags(_enabled: bool) -> bool { ENABLED.swap(_enabled, Ordering::Relaxed) }
    } }
    /// Runs a closure with NNPACK allowed or not.
    ///
    /// ```
    /// use torch::backends::nnpack;
    /// assert!(!nnpack::flags(false, nnpack::is_available));
    /// ```
    pub fn flags<R>(enabled: bool, f: impl FnOnce() -> R) -> R {
        let before = set_flags(enabled);
        let r = f();
        set_flags(before);
        r
    }
}
/// Threads of OpenMP (`torch.backends.openmp`): kernels have an own pool of threads.
pub mod openmp {
    use super::answers;
    answers! { "torch.backends.openmp", NAMES {
        /// Whether the library was built with OpenMP: no.
        fn is_available() -> bool { false }
    } }
}
/// ARM's kernels (`torch.backends.kleidiai`).
pub mod kleidiai {
    use super::answers;
    answers! { "torch.backends.kleidiai", NAMES {
        /// Whether they are there: no.
        fn is_available() -> bool { false }
    } }
}
/// The order in which `einsum` contracts (`torch.backends.opt_einsum`): PyTorch asks a Python package for a good one, which is not
/// here; operands are contracted from left to right.
pub mod opt_einsum {
    use super::answers;
    use flambeau_core::{Error, Result};
    answers! { "torch.backends.opt_einsum", NAMES {
        /// Whether the package is there: no.
        fn is_available() -> bool { false }
    } }
    /// Whether an order is looked for: no.
    pub fn enabled() -> bool {
        false
    }
    /// Asks for an order to be looked for.
    ///
    /// ```
    /// use torch::backends::opt_einsum;
    /// assert!(!opt_einsum::is_available() && !opt_einsum::enabled() && opt_einsum::strategy().is_none());
    /// assert!(opt_einsum::try_set_enabled(false).is_ok() && opt_einsum::try_set_enabled(true).is_err());
    /// ```
    ///
    /// # Errors
    /// `true`: the package is not there.
    pub fn try_set_enabled(enabled: bool) -> Result<()> {
        if !enabled {
            return Ok(());
        }
        Err(Error::value(
            "opt_einsum is not available, so setting `enabled` to True will not reap the benefits of calculating an optimal path for \
             einsum. torch.einsum will fall back to contracting from left to right. To enable this optimal path calculation, please \
             install opt-einsum.",
        ))
    }
    /// How an order is looked for: it is not.
    pub fn strategy() -> Option<&'static str> {
        None
    }
}

/// What `torch.utils.deterministic` holds.
pub mod deterministic {
    pub use flambeau_core::settings::determinism::{
        fill_uninitialized_memory, set_fill_uninitialized_memory,
    };
}

#[cfg(feature = "by-name")]
pub(crate) use by_name::*;
#[cfg(feature = "by-name")]
mod by_name {
    use super::*;
    use crate::by_name::{Answer as _, Bound, Row};
    use crate::stream::context;
    use crate::switches::{Kind as _, Switch, switch};

    pub(crate) const NAMES_CPU: &[Row] = cpu::NAMES;
    pub(crate) const NAMES_MPS: &[Row] = mps::NAMES;
    pub(crate) const NAMES_OPENMP: &[Row] = openmp::NAMES;
    pub(crate) const NAMES_KLEIDIAI: &[Row] = kleidiai::NAMES;
    pub(crate) const NAMES_CUDNN: &[Row] = cudnn::NAMES;
    pub(crate) const NAMES_CUSPARSELT: &[Row] = cusparselt::NAMES;
    pub(crate) const NAMES_MKL: &[Row] = &[
        mkl::NAMES[0],
        ("torch.backends.mkl", "verbose", |a, k| {
            let level: i64 = Bound::new("verbose", &["enable"], a, k)?.required()?;
            Ok(vec![context("verbose", move || checked("MKL", level))])
        }),
    ];
    pub(crate) const NAMES_MKLDNN: &[Row] = &[
        mkldnn::NAMES[0],
        mkldnn::NAMES[1],
        ("torch.backends.mkldnn", "verbose", |a, k| {
            let level: i64 = Bound::new("verbose", &["level"], a, k)?.required()?;
            Ok(vec![context("verbose", move || checked("MKLDNN", level))])
        }),
    ];
    pub(crate) const NAMES_NNPACK: &[Row] = &[
        nnpack::NAMES[0],
        ("torch.backends.nnpack", "set_flags", |a, k| {
            let on: bool = Bound::new("set_flags", &["_enabled"], a, k)?.required()?;
            Ok(vec![Value::Tuple(vec![Value::Bool(nnpack::set_flags(on))])])
        }),
        ("torch.backends.nnpack", "flags", |a, k| {
            let on = Bound::new("flags", &["enabled"], a, k)?.argument(Some(false))?;
            let before = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
            let kept = before.clone();
            let enter = move || {
                kept.store(nnpack::set_flags(on), std::sync::atomic::Ordering::Relaxed);
                Ok(())
            };
            let exit = move || {
                nnpack::set_flags(before.load(std::sync::atomic::Ordering::Relaxed));
            };
            Ok(vec![crate::stream::scope("flags", enter, exit)])
        }),
    ];
    pub(crate) const NAMES_EINSUM: &[Row] =
        &[opt_einsum::NAMES[0], ("torch.backends.opt_einsum", "get_opt_einsum", |_, _| ().answer())];
    pub(crate) const NAMES_MHA: &[Row] = &[
        ("torch.backends.mha", "get_fastpath_enabled", |_, _| mha::get_fastpath_enabled().answer()),
        ("torch.backends.mha", "set_fastpath_enabled", |a, k| {
            mha::set_fastpath_enabled(Bound::new("set_fastpath_enabled", &["value"], a, k)?.required()?);
            ().answer()
        }),
    ];
    pub(crate) const EINSUM: &[Switch] = &[Switch {
        path: "torch.backends.opt_einsum.enabled",
        setter: "torch.backends.opt_einsum.enabled.__set__",
        read: || Value::Bool(opt_einsum::enabled()),
        write: |a, _| opt_einsum::try_set_enabled(bool::given(a.first(), "set_enabled")?).answer(),
    }];
    pub(crate) const DETERMINISTIC: &[Switch] = &[switch!(
        "torch.utils.deterministic.fill_uninitialized_memory",
        deterministic::fill_uninitialized_memory,
        deterministic::set_fill_uninitialized_memory,
        bool,
        "fill_uninitialized_memory"
    )];
    /// Numbers that modules hold.
    pub(crate) const CONSTANTS: &[(&str, fn() -> Value)] = &[
        ("torch.backends.mkl.VERBOSE_OFF", || Value::Int(mkl::VERBOSE_OFF)),
        ("torch.backends.mkl.VERBOSE_ON", || Value::Int(mkl::VERBOSE_ON)),
        ("torch.backends.mkldnn.VERBOSE_OFF", || Value::Int(mkldnn::VERBOSE_OFF)),
        ("torch.backends.mkldnn.VERBOSE_ON", || Value::Int(mkldnn::VERBOSE_ON)),
        ("torch.backends.mkldnn.VERBOSE_ON_CREATION", || Value::Int(mkldnn::VERBOSE_ON_CREATION)),
        ("torch.backends.opt_einsum.strategy", || opt_einsum::strategy().map_or(Value::None, Value::from)),
        ("torch.backends.cuda.cufft_plan_cache", cuda::cufft_plan_cache::object),
    ];
}
