//! What an engine can compute on quantized tensors: patterns of layers and functions, each with the dtypes that it takes.

use crate::fusers::Fuser;
use crate::object_types::same;
use crate::qconfig::Make;
use flambeau_core::DType;

/// How the results of a pattern are observed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[doc(alias = "torch.ao.quantization.backend_config.ObservationType")]
pub enum ObservationType {
    /// By an observer of their own, such as those of a convolution.
    #[default]
    OutputUseDifferentObserverAsInput,
    /// By that of the input, such as those of a pooling.
    OutputShareObserverWithInput,
    /// Neither input nor results, such as those of `size`.
    InputOutputNotObserved,
}

/// A dtype, and which rules of quantization an engine takes with it.
#[derive(Clone, PartialEq, Debug, Default)]
#[doc(alias = "torch.ao.quantization.backend_config.DTypeWithConstraints")]
pub struct DTypeWithConstraints {
    /// The dtype; any if there is none.
    pub dtype: Option<DType>,
    /// The least integer that is taken.
    pub quant_min_lower_bound: Option<i64>,
    /// The greatest integer that is taken.
    pub quant_max_upper_bound: Option<i64>,
    /// The least scale that is taken: an observer's `eps` must not be below it.
    pub scale_min_lower_bound: Option<f64>,
    /// The one scale that is taken.
    pub scale_exact_match: Option<f64>,
    /// The one zero point that is taken.
    pub zero_point_exact_match: Option<i64>,
}
impl From<DType> for DTypeWithConstraints {
    fn from(d: DType) -> DTypeWithConstraints {
        DTypeWithConstraints { dtype: Some(d), ..Default::default() }
    }
}
impl DTypeWithConstraints {
    /// Whether what observes keeps to it.
    pub(crate) fn holds(&self, make: &Make) -> bool {
        let (o, fixed) = match make {
            Make::Observer(o) => (o, o.class == crate::observers::ObserverClass::FixedQParams),
            Make::FakeQuantize(f) => {
                (&f.observer, f.class == crate::fake_quantize::FakeQuantizeClass::FixedQParams)
            }
            Make::Identity => return true,
        };
        if self.dtype.is_some_and(|d| d != o.dtype) {
            return true;
        }
        if let (Some(low), Some(high)) = (self.quant_min_lower_bound, self.quant_max_upper_bound)
            && !o.range().is_ok_and(|(a, b)| a >= low && b <= high)
        {
            return false;
        }
        if self.scale_min_lower_bound.is_some_and(|least| o.eps < least) {
            return false;
        }
        match (self.scale_exact_match, self.zero_point_exact_match) {
            (Some(s), Some(z)) => {
                // float16 has no scale
                o.dtype == DType::F16 || (fixed && o.scale == s && o.zero_point == z)
            }
            _ => true,
        }
    }
}

/// The dtypes that a pattern takes together.
///
/// ```
/// use torch::DType;
/// use torch::ao::quantization::backend_config::DTypeConfig;
/// let config = DTypeConfig::new().input_dtype(DType::QU8).output_dtype(DType::QU8).weight_dtype(DType::QI8);
/// assert_eq!(config.input.dtype, Some(DType::QU8));
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
#[doc(alias = "torch.ao.quantization.backend_config.DTypeConfig")]
pub struct DTypeConfig {
    /// Of inputs.
    pub input: DTypeWithConstraints,
    /// Of results.
    pub output: DTypeWithConstraints,
    /// Of weights.
    pub weight: DTypeWithConstraints,
    /// Of biases.
    pub bias_dtype: Option<DType>,
    /// Whether the integers of inputs are found at every call.
    pub is_dynamic: bool,
}
impl DTypeConfig {
    /// Any dtypes.
    pub fn new() -> DTypeConfig {
        DTypeConfig::default()
    }
    /// Of inputs.
    pub fn input_dtype(mut self, d: impl Into<DTypeWithConstraints>) -> Self {
        self.input = d.into();
        self
    }
    /// Of results.
    pub fn output_dtype(mut self, d: impl Into<DTypeWithConstraints>) -> Self {
        self.output = d.into();
        self
    }
    /// Of weights.
    pub fn weight_dtype(mut self, d: impl Into<DTypeWithConstraints>) -> Self {
        self.weight = d.into();
        self
    }
    /// Of biases.
    pub fn bias_dtype(mut self, d: DType) -> Self {
        self.bias_dtype = Some(d);
        self
    }
    /// Whether the integers of inputs are found at every call.
    pub fn is_dynamic(mut self, on: bool) -> Self {
        self.is_dynamic = on;
        self
    }
}

/// How a pattern is quantized: a layer or a function, or several that follow each other, by their documented names in the order of
/// the calls.
///
/// ```
/// use torch::ao::quantization::backend_config::{BackendPatternConfig, ObservationType};
/// let pool = BackendPatternConfig::new(&["torch.nn.MaxPool2d"])
///     .set_observation_type(ObservationType::OutputShareObserverWithInput);
/// assert_eq!(pool.pattern(), ["torch.nn.MaxPool2d"]);
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.ao.quantization.backend_config.BackendPatternConfig")]
pub struct BackendPatternConfig {
    pattern: Vec<String>,
    pub(crate) observation_type: ObservationType,
    /// By how many of the first call's arguments are tensors.
    pub(crate) observation_by_tensors: Option<[ObservationType; 3]>,
    pub(crate) dtype_configs: Vec<DTypeConfig>,
    pub(crate) root_module: Option<String>,
    pub(crate) qat_module: Option<String>,
    pub(crate) reference_quantized_module: Option<String>,
    pub(crate) fused_module: Option<String>,
    pub(crate) fuser_method: Option<Fuser>,
    /// Places of the weight and the bias among a function's arguments.
    pub(crate) weight_and_bias: Option<(usize, usize)>,
}
impl BackendPatternConfig {
    /// Of a pattern.
    pub fn new(pattern: &[&str]) -> BackendPatternConfig {
        BackendPatternConfig {
            pattern: pattern.iter().map(|s| s.to_string()).collect(),
            observation_type: ObservationType::default(),
            observation_by_tensors: None,
            dtype_configs: Vec::new(),
            root_module: None,
            qat_module: None,
            reference_quantized_module: None,
            fused_module: None,
            fuser_method: None,
            weight_and_bias: None,
        }
    }
    /// The pattern.
    pub fn pattern(&self) -> &[String] {
        &self.pattern
    }
    /// How results are observed.
    #[doc(alias = "torch.ao.quantization.backend_config.BackendPatternConfig.set_observation_type")]
    pub fn set_observation_type(mut self, t: ObservationType) -> Self {
        self.observation_type = t;
        self
    }
    pub(crate) fn observed_by_tensors(mut self, t: [ObservationType; 3]) -> Self {
        self.observation_by_tensors = Some(t);
        self
    }
    /// Adds dtypes that it takes.
    #[doc(alias = "torch.ao.quantization.backend_config.BackendPatternConfig.add_dtype_config")]
    pub fn add_dtype_config(mut self, c: DTypeConfig) -> Self {
        self.dtype_configs.push(c);
        self
    }
    /// The dtypes that it takes.
    #[doc(alias = "torch.ao.quantization.backend_config.BackendPatternConfig.set_dtype_configs")]
    pub fn set_dtype_configs(mut self, all: &[DTypeConfig]) -> Self {
        self.dtype_configs = all.to_vec();
        self
    }
    /// The layer whose weight is quantized.
    #[doc(alias = "torch.ao.quantization.backend_config.BackendPatternConfig.set_root_module")]
    pub fn set_root_module(mut self, class: &str) -> Self {
        self.root_module = Some(class.to_string());
        self
    }
    /// What it is exchanged for in quantization-aware training.
    #[doc(alias = "torch.ao.quantization.backend_config.BackendPatternConfig.set_qat_module")]
    pub fn set_qat_module(mut self, class: &str) -> Self {
        self.qat_module = Some(class.to_string());
        self
    }
    /// What the layer becomes that computes with numbers and rounds its weight.
    #[doc(alias = "torch.ao.quantization.backend_config.BackendPatternConfig.set_reference_quantized_module")]
    pub fn set_reference_quantized_module(mut self, class: &str) -> Self {
        self.reference_quantized_module = Some(class.to_string());
        self
    }
    /// What the pattern becomes as one layer.
    #[doc(alias = "torch.ao.quantization.backend_config.BackendPatternConfig.set_fused_module")]
    pub fn set_fused_module(mut self, class: &str) -> Self {
        self.fused_module = Some(class.to_string());
        self
    }
    /// What joins the pattern into one layer.
    #[doc(alias = "torch.ao.quantization.backend_config.BackendPatternConfig.set_fuser_method")]
    pub fn set_fuser_method(mut self, f: Fuser) -> Self {
        self.fuser_method = Some(f);
        self
    }
    pub(crate) fn with_weight_at(mut self, weight: usize, bias: usize) -> Self {
        self.weight_and_bias = Some((weight, bias));
        self
    }
    /// Whether results are observed by the observer of the input.
    pub(crate) fn shares(&self, tensors: usize) -> bool {
        let t = match &self.observation_by_tensors {
            Some(all) => all[tensors.min(2)],
            None => self.observation_type,
        };
        t == ObservationType::OutputShareObserverWithInput
    }
}

/// What an engine can compute on quantized tensors.
///
/// ```
/// use torch::ao::quantization::backend_config::{BackendConfig, get_native_backend_config};
/// let native = get_native_backend_config();
/// assert!(native.configs().iter().any(|c| c.pattern() == ["torch.nn.Linear", "torch.nn.ReLU"]));
/// assert!(BackendConfig::new("mine").configs().is_empty());
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.ao.quantization.backend_config.BackendConfig")]
pub struct BackendConfig {
    name: String,
    configs: Vec<BackendPatternConfig>,
}
impl BackendConfig {
    /// Without a pattern.
    pub fn new(name: &str) -> BackendConfig {
        BackendConfig { name: name.to_string(), configs: Vec::new() }
    }
    /// The engine's name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Another name.
    #[doc(alias = "torch.ao.quantization.backend_config.BackendConfig.set_name")]
    pub fn set_name(mut self, name: &str) -> Self {
        self.name = name.to_string();
        self
    }
    /// The patterns, in the order of their first setting.
    #[doc(alias = "torch.ao.quantization.backend_config.BackendConfig.configs")]
    pub fn configs(&self) -> &[BackendPatternConfig] {
        &self.configs
    }
    /// Sets how a pattern is quantized, in place of what was said of it.
    #[doc(alias = "torch.ao.quantization.backend_config.BackendConfig.set_backend_pattern_config")]
    pub fn set_backend_pattern_config(mut self, c: BackendPatternConfig) -> Self {
        let alike = |a: &BackendPatternConfig| {
            a.pattern.len() == c.pattern.len() && a.pattern.iter().zip(&c.pattern).all(|(a, b)| same(a, b))
        };
        match self.configs.iter_mut().find(|a| alike(a)) {
            Some(old) => *old = c,
            None => self.configs.push(c),
        }
        self
    }
    /// The same for several.
    #[doc(alias = "torch.ao.quantization.backend_config.BackendConfig.set_backend_pattern_configs")]
    pub fn set_backend_pattern_configs(self, all: Vec<BackendPatternConfig>) -> Self {
        all.into_iter().fold(self, BackendConfig::set_backend_pattern_config)
    }
    /// The configuration of a single class or function.
    pub(crate) fn of(&self, object_type: &str) -> Option<&BackendPatternConfig> {
        self.configs.iter().find(|c| matches!(&c.pattern[..], [one] if same(one, object_type)))
    }
    /// Whether a class's weight is quantized.
    pub(crate) fn is_root(&self, class: &str) -> bool {
        self.configs.iter().any(|c| {
            c.reference_quantized_module.is_some() && c.root_module.as_deref().is_some_and(|r| same(r, class))
        })
    }
    /// What a class is exchanged for in quantization-aware training.
    pub(crate) fn trained(&self, class: &str) -> Option<&str> {
        self.of(class)?.qat_module.as_deref()
    }
}
