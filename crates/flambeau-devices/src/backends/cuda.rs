//! `torch.backends.cuda`: which kernels products, transforms and attention may use. Which attention runs is a switch that holds on the
//! CPU too.
//!
//! ```
//! use torch::backends::cuda;
//!
//! assert!(!cuda::is_built() && !cuda::is_ck_sdpa_available());
//! cuda::allow_fp16_bf16_reduction_math_sdp(true);
//! assert!(cuda::fp16_bf16_reduction_math_sdp_allowed());
//! // a device says how many bytes cuBLAS wants, until the program does
//! assert!(cuda::try_cublas_workspace_size(None).is_err());
//! assert_eq!(cuda::try_cublas_workspace_size(Some(1 << 22))?, 1 << 22);
//! assert_eq!(cuda::try_cublaslt_workspace_size(None)?, 1 << 20);
//! assert_eq!(cuda::try_blas_workspace_size(None, Some("cublaslt".into()))?, 1 << 20);
//! # Ok::<(), torch::Error>(())
//! ```

use crate::table::answers;
use flambeau_core::types::device::Device;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result, Tensor, ensure};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

pub use flambeau_nn::attention::switches::*;

/// Bytes that were chosen for the working memory of cuBLAS; below 0: none were, and the device says.
static WORKSPACE: AtomicI64 = AtomicI64::new(-1);
static WORKSPACE_LT: AtomicI64 = AtomicI64::new(1 << 20);
fn workspace(of: &AtomicI64, label: &str, size: Option<i64>) -> Result<i64> {
    if let Some(n) = size {
        ensure!(n >= 0, Runtime, "{label} workspace size must be non-negative, got {n}");
        of.store(n, Relaxed);
    }
    match of.load(Relaxed) {
        n if n < 0 => crate::cuda::absent(),
        n => Ok(n),
    }
}

static REDUCTION: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

answers! { "torch.backends.cuda", NAMES {
    /// Whether the library was built with CUDA: no.
    fn is_built() -> bool { false }
    /// Whether it was built with FlashAttention for CUDA: no.
    fn is_flash_attention_available() -> bool { false }
    /// Whether it was built with AMD's attention: no.
    fn is_ck_sdpa_available() -> bool { false }
    /// Lets sums of products in attention that is written out be rounded to half precision.
    fn allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> () { REDUCTION.store(enabled, std::sync::atomic::Ordering::Relaxed); }
    /// See [`allow_fp16_bf16_reduction_math_sdp`].
    fn fp16_bf16_reduction_math_sdp_allowed() -> bool { REDUCTION.load(std::sync::atomic::Ordering::Relaxed) }
    /// Bytes of working memory of cuBLAS; with a number, sets them. The device says how many it wants where none were set.
    try try_cublas_workspace_size(size: Option<i64> = None) -> i64 { workspace(&WORKSPACE, "cublas", size) }
    /// Bytes of working memory of cuBLASLt; with a number, sets them.
    try try_cublaslt_workspace_size(size: Option<i64> = None) -> i64 { workspace(&WORKSPACE_LT, "cublaslt", size) }
    /// Bytes of working memory of the library that multiplies matrices, the chosen one or the one of this name; with a number, sets them.
    try try_blas_workspace_size(size: Option<i64> = None, backend: Option<String> = None) -> i64 {
        let library = match backend.as_deref() {
            None => BLAS.ask(None)?,
            Some(n) => {
                let i = BLAS.names.iter().position(|x| *x == n).ok_or_else(|| {
                    Error::runtime(format!("Unknown backend string. Choose from: {}.", BLAS.names.join(", ")))
                })?;
                BLAS.shown[i]
            }
        };
        match library {
            "Ck" => Err(Error::runtime("CK backend does not use a workspace.")),
            "Cublaslt" => try_cublaslt_workspace_size(size),
            _ => try_cublas_workspace_size(size),
        }
    }
} }

/// Arguments of attention, for the question which kernel can take them.
///
/// ```
/// use torch::backends::cuda::{self, SDPAParams};
/// let x = torch::zeros([1, 2, 8, 16]);
/// let params = SDPAParams {
///     query: x.clone(),
///     key: x.clone(),
///     value: x,
///     attn_mask: None,
///     dropout: 0.0,
///     is_causal: true,
///     enable_gqa: false,
/// };
/// // these kernels are for CUDA devices
/// assert!(!cuda::can_use_flash_attention(&params, false) && !cuda::can_use_cudnn_attention(&params, false));
/// assert!(!cuda::can_use_efficient_attention(&params, false) && !cuda::is_flash_attention_available());
/// ```
#[derive(Clone, Debug)]
pub struct SDPAParams {
    /// What asks.
    pub query: Tensor,
    /// What is compared with it.
    pub key: Tensor,
    /// What is averaged.
    pub value: Tensor,
    /// What may be seen, or how much is added.
    pub attn_mask: Option<Tensor>,
    /// How many weights are dropped.
    pub dropout: f64,
    /// Whether each place sees those before it alone.
    pub is_causal: bool,
    /// Whether groups of queries share keys.
    pub enable_gqa: bool,
}
/// Whether kernels of CUDA devices can take the arguments; `debug` writes the reason why not as a warning.
fn on_cuda(p: &SDPAParams, debug: bool) -> bool {
    if debug {
        let devices = [&p.query, &p.key, &p.value].map(|t| t.device());
        if devices.iter().any(|d| !matches!(d, Device::Cuda(_))) {
            let [q, k, v] = devices;
            flambeau_core::settings::determinism::warn(&format!(
                "All tensors need to be on cuda device. Got query on device: {q}, key on device: {k}, value on device: {v}"
            ));
        }
    }
    false
}
/// Whether FlashAttention for CUDA can take the arguments: it is not there. With `debug` a warning says what the arguments lack.
pub fn can_use_flash_attention(params: &SDPAParams, debug: bool) -> bool {
    on_cuda(params, debug)
}
/// Whether the attention of xFormers can take the arguments: it is not there. With `debug` a warning says what the arguments lack.
pub fn can_use_efficient_attention(params: &SDPAParams, debug: bool) -> bool {
    on_cuda(params, debug)
}
/// Whether cuDNN's attention can take the arguments: it is not there. With `debug` a warning says what the arguments lack.
pub fn can_use_cudnn_attention(params: &SDPAParams, debug: bool) -> bool {
    on_cuda(params, debug)
}
/// Runs a closure with these kinds of attention alone; the older name of [`sdpa_kernel`](flambeau_nn::attention::sdpa_kernel_guard).
///
/// ```
/// use torch::backends::cuda;
/// let allowed = || (cuda::flash_sdp_enabled(), cuda::math_sdp_enabled());
/// assert_eq!(cuda::sdp_kernel(true, false, false, false, allowed), (true, false));
/// assert_eq!(allowed(), (true, true));
/// ```
pub fn sdp_kernel<R>(
    enable_flash: bool,
    enable_math: bool,
    enable_mem_efficient: bool,
    enable_cudnn: bool,
    f: impl FnOnce() -> R,
) -> R {
    let before = set_all([enable_flash, enable_math, enable_mem_efficient, enable_cudnn]);
    let r = f();
    set_all(before);
    r
}
fn set_all(to: [bool; 4]) -> [bool; 4] {
    let before = [flash_sdp_enabled(), math_sdp_enabled(), mem_efficient_sdp_enabled(), cudnn_sdp_enabled()];
    enable_flash_sdp(to[0]);
    enable_math_sdp(to[1]);
    enable_mem_efficient_sdp(to[2]);
    enable_cudnn_sdp(to[3]);
    before
}

/// A choice of a library by name: the names, and the first of them is chosen until another one is.
struct Choice {
    names: &'static [&'static str],
    shown: &'static [&'static str],
    chosen: Mutex<usize>,
}
impl Choice {
    fn ask(&self, name: Option<&str>) -> Result<&'static str> {
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(n) = name {
            *chosen = self.names.iter().position(|x| *x == n).ok_or_else(|| {
                Error::runtime(format!("Unknown input value. Choose from: {}.", self.names.join(", ")))
            })?;
        }
        Ok(self.shown[*chosen])
    }
}
static BLAS: Choice = Choice {
    names: &["default", "cublas", "hipblas", "cublaslt", "hipblaslt", "ck"],
    shown: &["Cublas", "Cublas", "Cublas", "Cublaslt", "Cublaslt", "Ck"],
    chosen: Mutex::new(0),
};
static LINALG: Choice = Choice {
    names: &["default", "cusolver", "magma"],
    shown: &["Default", "Cusolver", "Magma"],
    chosen: Mutex::new(0),
};
static ROCM: Choice = Choice {
    names: &["default", "aotriton", "ck"],
    shown: &["Default", "AOTriton", "Ck"],
    chosen: Mutex::new(0),
};
/// Which library multiplies matrices on a CUDA device; with a name, chooses it.
///
/// ```
/// use torch::backends::cuda::preferred_blas_library;
/// let chosen = preferred_blas_library(Some("cublaslt"))?;
/// assert_eq!(preferred_blas_library(None)?, chosen);
/// assert!(preferred_blas_library(Some("none of these")).is_err());
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// A name of no library.
pub fn preferred_blas_library(backend: Option<&str>) -> Result<&'static str> {
    BLAS.ask(backend)
}
/// Which library decomposes matrices on a CUDA device; with a name, chooses it.
///
/// ```
/// use torch::backends::cuda::preferred_linalg_library;
/// let chosen = preferred_linalg_library(Some("cusolver"))?;
/// assert_eq!(preferred_linalg_library(None)?, chosen);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// A name of no library.
pub fn preferred_linalg_library(backend: Option<&str>) -> Result<&'static str> {
    LINALG.ask(backend)
}
/// Which library computes attention on AMD's devices; with a name, chooses it.
///
/// ```
/// use torch::backends::cuda::preferred_rocm_fa_library;
/// assert_eq!(preferred_rocm_fa_library(None)?, preferred_rocm_fa_library(None)?);
/// assert!(preferred_rocm_fa_library(Some("none of these")).is_err());
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// A name of no library.
pub fn preferred_rocm_fa_library(backend: Option<&str>) -> Result<&'static str> {
    ROCM.ask(backend)
}

/// Products of matrices (`torch.backends.cuda.matmul`).
#[doc(alias = "torch.backends.cuda.cuBLASModule")]
pub mod matmul {
    use crate::switches::switches;
    use flambeau_core::settings::{
        MatmulPrecision, get_float32_matmul_precision, set_float32_matmul_precision,
    };
    switches! { SWITCHES;
        /// Whether sums of products in float16 may be rounded in between.
        "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction" allow_fp16_reduced_precision_reduction set_allow_fp16_reduced_precision_reduction FP16: AtomicBool, bool = true, "set_allow_fp16_reduced_precision_reduction";
        /// Whether sums of products in bfloat16 may be rounded in between.
        "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction" allow_bf16_reduced_precision_reduction set_allow_bf16_reduced_precision_reduction BF16: AtomicBool, bool = true, "set_allow_bf16_reduced_precision_reduction";
        /// Whether products in float16 may be summed in float16.
        "torch.backends.cuda.matmul.allow_fp16_accumulation" allow_fp16_accumulation set_allow_fp16_accumulation SUMS: AtomicBool, bool = false, "set_allow_fp16_accumulation";
    }
    /// Whether float32 factors may be rounded to TensorFloat-32: another view of
    /// [`get_float32_matmul_precision`], as in PyTorch.
    ///
    /// ```
    /// use torch::backends::cuda::matmul;
    /// assert!(!matmul::allow_tf32());
    /// matmul::set_allow_tf32(true);
    /// assert!(matmul::allow_tf32());
    /// ```
    pub fn allow_tf32() -> bool {
        get_float32_matmul_precision() != MatmulPrecision::Highest
    }
    /// Sets [`allow_tf32`]: the precision becomes `high` or `highest`.
    pub fn set_allow_tf32(value: bool) {
        set_float32_matmul_precision(if value { MatmulPrecision::High } else { MatmulPrecision::Highest });
    }
    #[cfg(feature = "by-name")]
    pub(crate) const TF32: &[crate::switches::Switch] = &[crate::switches::switch!(
        "torch.backends.cuda.matmul.allow_tf32",
        allow_tf32,
        set_allow_tf32,
        bool,
        "set_allow_tf32_cublas"
    )];
}
/// Plans of Fourier transforms that are kept (`torch.backends.cuda.cufft_plan_cache`): none without a device.
#[doc(alias = "torch.backends.cuda.cuFFTPlanCacheManager")]
pub mod cufft_plan_cache {
    use crate::cuda::absent;
    use crate::table::answers;
    #[cfg(feature = "by-name")]
    use flambeau_core::Result;
    answers! { "torch.backends.cuda.cufft_plan_cache", NAMES {
        /// How many are kept.
        try try_size() -> i64 { absent() }
        /// How many are kept at most.
        try try_max_size() -> i64 { absent() }
        /// Forgets them.
        try try_clear() -> () { absent() }
    } }
    /// The plans that are kept for one device.
    #[doc(alias = "torch.backends.cuda.cuFFTPlanCache")]
    #[derive(Debug)]
    pub struct PlanCache(crate::table::Never);
    impl PlanCache {
        /// How many are kept.
        #[doc(alias = "torch.backends.cuda.cuFFTPlanCacheAttrContextProp")]
        pub fn size(&self) -> i64 {
            match self.0 {}
        }
        /// How many are kept at most.
        pub fn max_size(&self) -> i64 {
            match self.0 {}
        }
        /// Changes how many are kept at most.
        pub fn set_max_size(&self, _n: i64) {
            match self.0 {}
        }
        /// Forgets them.
        pub fn clear(&self) {
            match self.0 {}
        }
    }
    /// The plans of a device.
    ///
    /// ```
    /// use torch::backends::cuda::cufft_plan_cache;
    /// // no CUDA device
    /// assert!(cufft_plan_cache::try_of_device(0).is_err());
    /// ```
    ///
    /// # Errors
    /// There is no such device.
    #[flambeau_macros::short]
    pub fn try_of_device(index: i64) -> flambeau_core::Result<PlanCache> {
        Err(flambeau_core::Error::runtime(format!(
            "cufft_plan_cache: expected 0 <= device index < 0, but got device with index {index}"
        )))
    }
    #[cfg(feature = "by-name")]
    struct Cache;
    #[cfg(feature = "by-name")]
    impl flambeau_core::dispatch::object::Object for Cache {
        fn type_name(&self) -> &'static str {
            "cuFFTPlanCacheManager"
        }
        fn attribute(&self, name: &str) -> Result<flambeau_core::Value> {
            match name {
                "size" => try_size().map(flambeau_core::Value::Int),
                "max_size" => try_max_size().map(flambeau_core::Value::Int),
                _ => Err(flambeau_core::dispatch::object::no_attribute(self.type_name(), name)),
            }
        }
        fn method(
            &self,
            name: &str,
            _: &[flambeau_core::Value],
            _: &flambeau_core::dispatch::object::Kwargs,
        ) -> Result<Vec<flambeau_core::Value>> {
            match name {
                "clear" => try_clear().map(|()| vec![flambeau_core::Value::None]),
                _ => Err(flambeau_core::dispatch::object::no_attribute(self.type_name(), name)),
            }
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }
    #[cfg(feature = "by-name")]
    pub(crate) fn object() -> flambeau_core::Value {
        flambeau_core::Value::Object(flambeau_core::dispatch::object::ObjectRef::new(Cache))
    }
}

#[cfg(feature = "by-name")]
pub(crate) use by_name::BY_HAND;
#[cfg(feature = "by-name")]
mod by_name {
    use super::*;
    use crate::by_name::{Answer as _, Bound, Row, Shown, given, object};
    use crate::switches::Kind as _;
    use flambeau_core::Value;
    use flambeau_core::dispatch::object::Kwargs;

    impl Shown for SDPAParams {
        const CLASS: &'static str = "_SDPAParams";
        fn attribute(&self, name: &str) -> Option<Value> {
            Some(match name {
                "query" => Value::Tensor(self.query.clone()),
                "key" => Value::Tensor(self.key.clone()),
                "value" => Value::Tensor(self.value.clone()),
                "attn_mask" => self.attn_mask.clone().map_or(Value::None, Value::Tensor),
                "dropout" => Value::Float(self.dropout),
                "is_causal" => Value::Bool(self.is_causal),
                "enable_gqa" => Value::Bool(self.enable_gqa),
                _ => return None,
            })
        }
        fn method(&self, _: &str, _: &[Value]) -> Option<Result<Vec<Value>>> {
            None
        }
        fn repr(&self) -> String {
            "<torch.backends.cuda._SDPAParams object>".into()
        }
    }
    fn asked(
        name: &'static str,
        f: fn(&SDPAParams, bool) -> bool,
        a: &[Value],
        k: &Kwargs,
    ) -> Result<Vec<Value>> {
        let mut b = Bound::new(name, &["params", "debug"], a, k)?;
        let crate::Anything(v) = b.required()?;
        let p = given::<SDPAParams>(&v)
            .ok_or_else(|| Error::type_(format!("{name}(): incompatible function arguments.")))?;
        f(&p, b.optional()?.unwrap_or(false)).answer()
    }
    fn chosen(f: fn(Option<&str>) -> Result<&'static str>, a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
        let name: Option<String> = Bound::new("preferred_library", &["backend"], a, k)?.optional()?;
        f(name.as_deref()).answer()
    }
    macro_rules! sdp {
        ($($read:ident $write:ident;)*) => {
            &[$(
                ("torch.backends.cuda", stringify!($read), |_, _| $read().answer()),
                ("torch.backends.cuda", stringify!($write), |a, k| {
                    let crate::Anything(v) = Bound::new(stringify!($write), &["enabled"], a, k)?.required()?;
                    $write(bool::given(Some(&v), "set_sdp_use_math")?);
                    ().answer()
                }),
            )*
            ("torch.backends.cuda", "SDPAParams", |a, k| {
                let mut b = Bound::new("SDPAParams", &["query", "key", "value", "attn_mask", "dropout", "is_causal", "enable_gqa"], a, k)?;
                Ok(vec![object(SDPAParams {
                    query: b.required()?,
                    key: b.required()?,
                    value: b.required()?,
                    attn_mask: b.required()?,
                    dropout: b.required()?,
                    is_causal: b.required()?,
                    enable_gqa: b.required()?,
                })])
            }),
            ("torch.backends.cuda", "can_use_flash_attention", |a, k| asked("can_use_flash_attention", can_use_flash_attention, a, k)),
            ("torch.backends.cuda", "can_use_efficient_attention", |a, k| asked("can_use_efficient_attention", can_use_efficient_attention, a, k)),
            ("torch.backends.cuda", "can_use_cudnn_attention", |a, k| asked("can_use_cudnn_attention", can_use_cudnn_attention, a, k)),
            ("torch.backends.cuda", "preferred_blas_library", |a, k| chosen(preferred_blas_library, a, k)),
            ("torch.backends.cuda", "preferred_linalg_library", |a, k| chosen(preferred_linalg_library, a, k)),
            ("torch.backends.cuda", "preferred_rocm_fa_library", |a, k| chosen(preferred_rocm_fa_library, a, k)),
            ("torch.backends.cuda", "sdp_kernel", |a, k| {
                let mut b = Bound::new("sdp_kernel", &["enable_flash", "enable_math", "enable_mem_efficient", "enable_cudnn"], a, k)?;
                let to = [b.argument(Some(true))?, b.argument(Some(true))?, b.argument(Some(true))?, b.argument(Some(true))?];
                let before = Mutex::new([true; 4]);
                let before = std::sync::Arc::new(before);
                let kept = before.clone();
                Ok(vec![crate::stream::scope("sdp_kernel", move || {
                    *kept.lock().unwrap_or_else(PoisonError::into_inner) = set_all(to);
                    Ok(())
                }, move || {
                    set_all(*before.lock().unwrap_or_else(PoisonError::into_inner));
                })])
            })]
        };
    }
    pub(crate) const BY_HAND: &[Row] = sdp! {
        flash_sdp_enabled enable_flash_sdp;
        math_sdp_enabled enable_math_sdp;
        mem_efficient_sdp_enabled enable_mem_efficient_sdp;
        cudnn_sdp_enabled enable_cudnn_sdp;
    };
}
