//! Regions in which operators pick their dtypes, and the settings behind them.

use flambeau_core::api::ergonomic::expect;
use flambeau_core::dispatch::autocast::{self, DeviceType, device_type, set_state, state};
use flambeau_core::settings::determinism::warn;
use flambeau_core::{DType, Error, Result};

pub use flambeau_core::dispatch::autocast::Region;

/// Arguments of [`autocast()`]: a type of devices, or that with other settings.
#[derive(Clone, Debug)]
pub struct AutocastOptions {
    device_type: String,
    dtype: Option<DType>,
    enabled: bool,
    cache_enabled: Option<bool>,
}
impl AutocastOptions {
    /// For devices of a type: `cpu`, `cuda`, or the name of a back end's.
    pub fn new(device_type: impl Into<String>) -> Self {
        AutocastOptions { device_type: device_type.into(), dtype: None, enabled: true, cache_enabled: None }
    }
    /// What operators run in where that does no harm; bfloat16 on the CPU and float16 elsewhere, if it is not said.
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = Some(dtype);
        self
    }
    /// Whether the region switches autocast on, or off within another.
    pub fn enabled(mut self, on: bool) -> Self {
        self.enabled = on;
        self
    }
    /// Whether casts of weights are kept until the outermost region ends; as around the region, if it is not said.
    pub fn cache_enabled(mut self, on: bool) -> Self {
        self.cache_enabled = Some(on);
        self
    }
    /// What the region sets: checked, and with what is not said filled in.
    ///
    /// # Errors
    /// No such type of devices, or one without autocast.
    pub(crate) fn resolve(&self) -> Result<Resolved> {
        let on = device_type(&self.device_type)?;
        let dtype = match (self.dtype, on) {
            (Some(d), _) => d,
            (None, Some(on)) => state().dtype(on),
            (None, None) => try_get_autocast_dtype(&self.device_type)?,
        };
        let on = on.ok_or_else(|| {
            Error::runtime(format!(
                "User specified an unsupported autocast device_type '{}'",
                self.device_type
            ))
        })?;
        let cache = self.cache_enabled.unwrap_or(state().is_cache_enabled());
        Ok(Resolved { on, dtype, enabled: self.enabled && self.possible(on, dtype), cache })
    }
    /// Whether the devices can do it; says so where they cannot.
    fn possible(&self, on: DeviceType, dtype: DType) -> bool {
        let name = self.device_type.to_uppercase();
        if on == DeviceType::Cuda {
            let there = flambeau_core::backend::of(flambeau_core::Device::Cuda(0)).is_ok();
            if !there {
                warn("CUDA is not available or torch_xla is imported. Disabling autocast.");
            }
            return there;
        }
        let possible = matches!(dtype, DType::BF16 | DType::F16);
        if !possible {
            warn(&format!(
                "In {name} autocast, but the target dtype is not supported. Disabling autocast.\n{name} Autocast only \
                 supports dtypes of torch.bfloat16, torch.float16 currently."
            ));
        }
        possible
    }
}
impl From<&str> for AutocastOptions {
    fn from(device_type: &str) -> Self {
        AutocastOptions::new(device_type)
    }
}
impl From<String> for AutocastOptions {
    fn from(device_type: String) -> Self {
        AutocastOptions::new(device_type)
    }
}

/// A region's settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resolved {
    pub on: DeviceType,
    pub dtype: DType,
    pub enabled: bool,
    pub cache: bool,
}
impl Resolved {
    pub fn enter(&self) -> Region {
        let s = state().enabled(self.on, self.enabled).with_dtype(self.on, self.dtype).with_cache(self.cache);
        Region::enter(s)
    }
}

/// Runs `f` with autocast: products of matrices and convolutions run in bfloat16 or float16, and what loses too much there in
/// float32. PyTorch's lists of operators hold, those of the CPU and those of other devices. float64, integers and complex
/// numbers stay as they are; so do operators in place and those with `out=`.
///
/// It is a setting of the thread: what other threads run meanwhile does not change. Casts of weights that require a gradient
/// are kept until the outermost region ends, so each is cast once. Backward needs no region: gradients have the dtypes of
/// their forward pass, and those of float32 weights are float32.
///
/// ```
/// use torch::amp::AutocastOptions;
/// let (a, b) = (torch::ones([2, 3]), torch::ones([3, 2]));
/// let (product, total) = torch::autocast("cpu", || {
///     let p = a.matmul(&b);
///     (p.clone(), p.sum())
/// });
/// assert_eq!(product.dtype(), torch::bfloat16);
/// assert_eq!(total.item::<f32>(), 12.0);
/// let half = torch::autocast(AutocastOptions::new("cpu").dtype(torch::float16), || a.matmul(&b));
/// assert_eq!(half.dtype(), torch::float16);
/// ```
///
/// # Panics
/// No such type of devices, or one without autocast; [`try_autocast`] gives an error instead.
///
/// *Source: Micikevicius et al. 2018, Mixed Precision Training; the lists are those of PyTorch 2.15.*
#[track_caller]
#[doc(alias = "torch.autocast")]
#[doc(alias = "torch.amp")]
#[doc(alias = "torch.amp.autocast")]
#[doc(alias = "torch.cpu.amp")]
#[doc(alias = "torch.cpu.amp.autocast")]
#[doc(alias = "torch.cuda.amp")]
#[doc(alias = "torch.cuda.amp.autocast")]
#[doc(alias = "torch.amp.oplist:banned:binary_cross_entropy")]
#[doc(alias = "torch.amp.oplist:cpu-bfloat16")]
#[doc(alias = "torch.amp.oplist:cpu-float32")]
#[doc(alias = "torch.amp.oplist:cpu-promote-widest")]
#[doc(alias = "torch.amp.oplist:cuda-float16")]
#[doc(alias = "torch.amp.oplist:cuda-float32")]
#[doc(alias = "torch.amp.oplist:cuda-promote-widest")]
#[doc(alias = "torch.amp.oplist:xpu-float32")]
#[doc(alias = "torch.amp.oplist:xpu-lower-precision")]
#[doc(alias = "torch.amp.oplist:xpu-promote-widest")]
pub fn autocast<R>(options: impl Into<AutocastOptions>, f: impl FnOnce() -> R) -> R {
    let _region = autocast_guard(options);
    f()
}
/// [`autocast()`] with an error instead of a panic.
///
/// # Errors
/// No such type of devices, or one without autocast.
pub fn try_autocast<R>(options: impl Into<AutocastOptions>, f: impl FnOnce() -> R) -> Result<R> {
    let _region = try_autocast_guard(options)?;
    Ok(f())
}
/// [`autocast()`] until the guard is dropped.
///
/// ```
/// let x = torch::ones([2, 2]);
/// let _region = torch::autocast_guard("cpu");
/// assert!(torch::is_autocast_enabled("cpu"));
/// assert_eq!(x.mm(&x).dtype(), torch::bfloat16);
/// ```
#[track_caller]
pub fn autocast_guard(options: impl Into<AutocastOptions>) -> Region {
    expect(try_autocast_guard(options))
}
/// [`autocast_guard`] with an error instead of a panic.
///
/// # Errors
/// No such type of devices, or one without autocast.
pub fn try_autocast_guard(options: impl Into<AutocastOptions>) -> Result<Region> {
    Ok(options.into().resolve()?.enter())
}

/// The type of devices, which must have autocast.
pub(crate) fn known(name: &str) -> Result<DeviceType> {
    device_type(name)?.ok_or_else(|| {
        Error::runtime("unknown device type for autocast in get_autocast_dispatch_key_from_device_type")
    })
}
/// [`get_autocast_dtype`] with an error instead of a panic.
///
/// # Errors
/// No such type of devices, or one without a dtype for autocast.
pub fn try_get_autocast_dtype(name: &str) -> Result<DType> {
    match device_type(name)? {
        Some(on) => Ok(state().dtype(on)),
        // AMD's are the one type that has a dtype and no autocast of its own: they go by `cuda`
        None if name == "hip" => Ok(DType::F16),
        None => Err(Error::runtime("unsupported scalarType")),
    }
}
/// Whether devices of a type have autocast. Panics on a name that is none.
///
/// ```
/// use torch::amp::is_autocast_available;
/// assert!(is_autocast_available("cpu") && !is_autocast_available("meta"));
/// ```
#[track_caller]
#[doc(alias = "torch.amp.is_autocast_available")]
pub fn is_autocast_available(name: &str) -> bool {
    expect(try_is_autocast_available(name))
}
/// [`is_autocast_available`] with an error instead of a panic.
///
/// # Errors
/// No such type of devices.
pub fn try_is_autocast_available(name: &str) -> Result<bool> {
    Ok(device_type(name)?.is_some())
}
/// The dtype that operators run in inside of a region for devices of a type.
///
/// ```
/// assert_eq!(torch::get_autocast_dtype("cpu"), torch::bfloat16);
/// ```
///
/// # Panics
/// No such type, or one without autocast.
#[track_caller]
#[doc(alias = "torch.get_autocast_dtype")]
pub fn get_autocast_dtype(name: &str) -> DType {
    expect(try_get_autocast_dtype(name))
}
/// Sets it for this thread. Panics as [`get_autocast_dtype`].
///
/// ```
/// torch::set_autocast_dtype("cpu", torch::float16);
/// let x = torch::ones([2, 2]);
/// assert_eq!(torch::autocast("cpu", || x.mm(&x)).dtype(), torch::float16);
/// ```
#[track_caller]
#[doc(alias = "torch.set_autocast_dtype")]
pub fn set_autocast_dtype(name: &str, dtype: DType) {
    expect(try_set_autocast_dtype(name, dtype));
}
/// [`set_autocast_dtype`] with an error instead of a panic.
///
/// # Errors
/// No such type of devices, or one without autocast.
pub fn try_set_autocast_dtype(name: &str, dtype: DType) -> Result<()> {
    set_state(state().with_dtype(known(name)?, dtype));
    Ok(())
}
/// Whether this thread is in a region for devices of a type. Panics as [`get_autocast_dtype`].
#[track_caller]
#[doc(alias = "torch.is_autocast_enabled")]
pub fn is_autocast_enabled(name: &str) -> bool {
    expect(try_is_autocast_enabled(name))
}
/// [`is_autocast_enabled`] with an error instead of a panic.
///
/// # Errors
/// No such type of devices, or one without autocast.
pub fn try_is_autocast_enabled(name: &str) -> Result<bool> {
    Ok(state().is_enabled(known(name)?))
}
/// Switches autocast on or off for this thread, without a region. Panics as [`get_autocast_dtype`].
///
/// ```
/// torch::set_autocast_enabled("cpu", true);
/// let x = torch::ones([2, 2]);
/// assert_eq!(x.mm(&x).dtype(), torch::bfloat16);
/// torch::set_autocast_enabled("cpu", false);
/// assert_eq!(x.mm(&x).dtype(), torch::float32);
/// ```
#[track_caller]
#[doc(alias = "torch.set_autocast_enabled")]
pub fn set_autocast_enabled(name: &str, on: bool) {
    expect(try_set_autocast_enabled(name, on));
}
/// [`set_autocast_enabled`] with an error instead of a panic.
///
/// # Errors
/// No such type of devices, or one without autocast.
pub fn try_set_autocast_enabled(name: &str, on: bool) -> Result<()> {
    set_state(state().enabled(known(name)?, on));
    Ok(())
}
/// Whether casts of weights are kept.
#[doc(alias = "torch.is_autocast_cache_enabled")]
pub fn is_autocast_cache_enabled() -> bool {
    state().is_cache_enabled()
}
/// Sets that for this thread.
///
/// ```
/// assert!(torch::is_autocast_cache_enabled());
/// torch::set_autocast_cache_enabled(false);
/// assert!(!torch::is_autocast_cache_enabled());
/// ```
#[doc(alias = "torch.set_autocast_cache_enabled")]
pub fn set_autocast_cache_enabled(on: bool) {
    set_state(state().with_cache(on));
}
/// Forgets the casts of weights that this thread keeps.
///
/// ```
/// let (x, w) = (torch::ones([2, 2]), torch::ones([2, 2]).requires_grad_(true).clone());
/// let y = torch::autocast("cpu", || {
///     let before = x.mm(&w);
///     // the kept cast would not see this
///     torch::no_grad(|| w.fill_(2.0));
///     torch::clear_autocast_cache();
///     (before, x.mm(&w))
/// });
/// assert_eq!((y.0.sum().item::<f64>(), y.1.sum().item::<f64>()), (8.0, 16.0));
/// ```
#[doc(alias = "torch.clear_autocast_cache")]
pub fn clear_autocast_cache() {
    autocast::clear_cache();
}
/// One region more; gives how many there are. What enters and leaves regions by hand calls it.
///
/// ```
/// let n = torch::autocast_increment_nesting();
/// assert_eq!(torch::autocast_increment_nesting(), n + 1);
/// assert_eq!(torch::autocast_decrement_nesting(), n);
/// torch::autocast_decrement_nesting();
/// ```
#[doc(alias = "torch.autocast_increment_nesting")]
pub fn autocast_increment_nesting() -> i64 {
    autocast::increment_nesting()
}
/// One region less.
#[doc(alias = "torch.autocast_decrement_nesting")]
pub fn autocast_decrement_nesting() -> i64 {
    autocast::decrement_nesting()
}
