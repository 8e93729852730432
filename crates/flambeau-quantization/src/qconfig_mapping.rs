//! Which configuration each part of a model gets: by its name, by a pattern of names, by its class, or the same for all.

use crate::fake_quantize::{FakeQuantizeClass, FakeQuantizeSpec};
use crate::flow::{self, set_qconfig};
use crate::object_types::same;
use crate::qconfig::{
    Make, QConfig, default_of, qconfig_of, try_get_default_qat_qconfig, try_get_default_qconfig,
};
use flambeau_core::{Error, Result};
use flambeau_nn::Module;
use regex_lite::Regex;
use std::fmt;

/// What a part is named by, with its configuration; `None` says not to quantize it.
type Entries<K> = Vec<(K, Option<QConfig>)>;
fn set<K: PartialEq>(all: &mut Entries<K>, key: K, q: Option<QConfig>) {
    match all.iter_mut().find(|(k, _)| *k == key) {
        Some(e) => e.1 = q,
        None => all.push((key, q)),
    }
}

/// Configurations of the parts of a model. What names a part more closely counts more: its name with a class and a place, its
/// name, a pattern of names, its class, all parts.
///
/// Classes and functions go by their documented names (`torch.nn.Linear`, `torch.nn.functional.layer_norm`), methods by theirs.
///
/// ```
/// use torch::ao::quantization::{QConfigMapping, get_default_qconfig};
/// let mapping = QConfigMapping::new().set_global(Some(get_default_qconfig("x86"))).set_module_name("head", None);
/// assert!(mapping.qconfig_of("body.0", "torch.nn.Linear").unwrap().is_some());
/// assert_eq!(mapping.qconfig_of("head", "torch.nn.Linear"), Some(None));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[doc(alias = "torch.ao.quantization.QConfigMapping")]
#[doc(alias = "torch.ao.quantization.qconfig_mapping.QConfigMapping")]
pub struct QConfigMapping {
    global: Option<QConfig>,
    object_types: Entries<String>,
    name_patterns: Entries<String>,
    names: Entries<String>,
    ordered: Entries<(String, String, usize)>,
}
impl QConfigMapping {
    /// Without any configuration.
    pub fn new() -> QConfigMapping {
        QConfigMapping::default()
    }
    /// Sets the configuration of all parts that nothing else names.
    #[doc(alias = "torch.ao.quantization.qconfig_mapping.QConfigMapping.set_global")]
    pub fn set_global(mut self, q: Option<QConfig>) -> Self {
        self.global = q;
        self
    }
    /// Sets the configuration of a class, a function or a method.
    #[doc(alias = "torch.ao.quantization.qconfig_mapping.QConfigMapping.set_object_type")]
    pub fn set_object_type(mut self, object_type: &str, q: Option<QConfig>) -> Self {
        set(&mut self.object_types, object_type.to_string(), q);
        self
    }
    /// Sets the configuration of modules whose names begin with what the pattern matches. The first pattern that does counts.
    ///
    /// # Errors
    /// A pattern that is none.
    #[doc(alias = "torch.ao.quantization.qconfig_mapping.QConfigMapping.set_module_name_regex")]
    pub fn try_set_module_name_regex(mut self, pattern: &str, q: Option<QConfig>) -> Result<Self> {
        regex(pattern)?;
        set(&mut self.name_patterns, pattern.to_string(), q);
        Ok(self)
    }
    /// Sets the configuration of the module at a dotted path, and of those below it.
    #[doc(alias = "torch.ao.quantization.qconfig_mapping.QConfigMapping.set_module_name")]
    pub fn set_module_name(mut self, name: &str, q: Option<QConfig>) -> Self {
        set(&mut self.names, name.to_string(), q);
        self
    }
    /// Sets the configuration of the call with that number of an object type within a module.
    #[doc(alias = "torch.ao.quantization.qconfig_mapping.QConfigMapping.set_module_name_object_type_order")]
    pub fn set_module_name_object_type_order(
        mut self,
        name: &str,
        object_type: &str,
        index: usize,
        q: Option<QConfig>,
    ) -> Self {
        set(&mut self.ordered, (name.to_string(), object_type.to_string(), index), q);
        self
    }
    /// The configuration of all parts that nothing else names.
    pub fn global(&self) -> Option<&QConfig> {
        self.global.as_ref()
    }
    /// Configurations by object type, in the order of their first setting.
    pub fn object_types(&self) -> &[(String, Option<QConfig>)] {
        &self.object_types
    }
    /// Configurations by patterns of names.
    pub fn module_name_regexes(&self) -> &[(String, Option<QConfig>)] {
        &self.name_patterns
    }
    /// Configurations by names.
    pub fn module_names(&self) -> &[(String, Option<QConfig>)] {
        &self.names
    }
    /// Configurations by module, object type and number.
    pub fn module_name_object_type_orders(&self) -> &[((String, String, usize), Option<QConfig>)] {
        &self.ordered
    }
    /// The configuration of an object type at a dotted path: `None` where nothing names it and there is none for all,
    /// `Some(None)` where it is said not to be quantized.
    pub fn qconfig_of(&self, path: &str, object_type: &str) -> Option<Option<QConfig>> {
        self.named(path, object_type).or_else(|| self.global.clone().map(Some))
    }
    /// What names a part of that path and type itself, or a module around it.
    pub(crate) fn named(&self, path: &str, object_type: &str) -> Option<Option<QConfig>> {
        let mut at = Some(path);
        while let Some(p) = at {
            if let Some((_, q)) = self.names.iter().find(|(n, _)| n == p) {
                return Some(q.clone());
            }
            at = p.rsplit_once('.').map(|(parent, _)| parent);
        }
        let matches =
            |pattern: &str| regex(pattern).is_ok_and(|r| r.find(path).is_some_and(|m| m.start() == 0));
        if let Some((_, q)) = self.name_patterns.iter().find(|(p, _)| matches(p)) {
            return Some(q.clone());
        }
        self.of_type(object_type)
    }
    /// What is said of an object type wherever it stands.
    pub(crate) fn of_type(&self, object_type: &str) -> Option<Option<QConfig>> {
        self.object_types.iter().find(|(t, _)| same(t, object_type)).map(|(_, q)| q.clone())
    }
    /// What is said of the call with that number of an object type within a module.
    pub(crate) fn of_call(&self, path: &str, object_type: &str, index: usize) -> Option<Option<QConfig>> {
        let found =
            self.ordered.iter().find(|((n, t, i), _)| n == path && same(t, object_type) && *i == index);
        found.map(|(_, q)| q.clone())
    }
    /// The same for the call with that number of the object type within the module.
    pub fn qconfig_of_call(&self, path: &str, object_type: &str, index: usize) -> Option<Option<QConfig>> {
        self.of_call(path, object_type, index).or_else(|| self.qconfig_of(path, object_type))
    }
    /// Notes for each module of a model how it is to be quantized: what [`prepare_`](crate::flow::prepare_) asks.
    pub fn apply(&self, m: &dyn Module) {
        for (path, part) in m.named_modules() {
            let class =
                part.as_run().map_or_else(|| part.type_name().into_owned(), |r| r.class().to_string());
            let q = self.qconfig_of(&path, &format!("torch.nn.{class}"));
            if flow::qconfig(part).is_none() {
                set_qconfig(part, q.flatten());
            }
        }
    }
}
fn regex(pattern: &str) -> Result<Regex> {
    Regex::new(pattern).map_err(|e| Error::value(format!("no pattern of names: {e}")))
}
impl fmt::Display for QConfigMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn shown(q: &Option<QConfig>) -> String {
            q.as_ref().map_or_else(|| "None".into(), |q| format!("{q:?}"))
        }
        let part = |f: &mut fmt::Formatter<'_>, title: &str, all: Vec<(String, &Option<QConfig>)>| {
            write!(f, "\n {title}")?;
            if all.is_empty() {
                return write!(f, "\n  OrderedDict()");
            }
            all.into_iter().try_for_each(|(k, q)| write!(f, "\n  {k}: {}", shown(q)))
        };
        fn plain(all: &Entries<String>) -> Vec<(String, &Option<QConfig>)> {
            all.iter().map(|(k, q)| (k.clone(), q)).collect()
        }
        write!(f, "QConfigMapping (\n global_qconfig\n  {}", shown(&self.global))?;
        part(f, "object_type_qconfigs", plain(&self.object_types))?;
        part(f, "module_name_regex_qconfigs", plain(&self.name_patterns))?;
        part(f, "module_name_qconfigs", plain(&self.names))?;
        let ordered = self.ordered.iter().map(|((n, t, i), q)| (format!("('{n}', {t}, {i})"), q)).collect();
        part(f, "module_name_object_type_order_qconfigs", ordered)?;
        f.write_str("\n)")
    }
}

/// Object types whose results lie in a known range, and what observes that range.
const FIXED: [(&str, &str); 13] = [
    ("torch.nn.Hardsigmoid", "default_fixed_qparams_range_0to1_observer"),
    ("torch.nn.functional.hardsigmoid", "default_fixed_qparams_range_0to1_observer"),
    ("hardsigmoid", "default_fixed_qparams_range_0to1_observer"),
    ("hardsigmoid_", "default_fixed_qparams_range_0to1_observer"),
    ("torch.nn.Sigmoid", "default_fixed_qparams_range_0to1_observer"),
    ("torch.sigmoid", "default_fixed_qparams_range_0to1_observer"),
    ("sigmoid", "default_fixed_qparams_range_0to1_observer"),
    ("sigmoid_", "default_fixed_qparams_range_0to1_observer"),
    ("torch.nn.Softmax", "default_fixed_qparams_range_0to1_observer"),
    ("torch.nn.Tanh", "default_fixed_qparams_range_neg1to1_observer"),
    ("torch.tanh", "default_fixed_qparams_range_neg1to1_observer"),
    ("tanh", "default_fixed_qparams_range_neg1to1_observer"),
    ("tanh_", "default_fixed_qparams_range_neg1to1_observer"),
];
fn named(name: &str) -> Result<Make> {
    default_of(name).ok_or_else(|| Error::runtime(format!("no default named {name}")))
}
fn default_mapping(qat: bool, backend: &str) -> Result<QConfigMapping> {
    let q = if qat { try_get_default_qat_qconfig(backend)? } else { try_get_default_qconfig(backend)? };
    let weight = named(if qat { "default_weight_fake_quant" } else { "default_weight_observer" })?;
    let transposed = match backend {
        "fbgemm" | "x86" => QConfig::new(q.activation.clone(), weight.clone()),
        _ => q.clone(),
    };
    let norm = QConfig::new(q.activation.clone(), named("default_placeholder_observer")?);
    let mut m = QConfigMapping::new()
        .set_global(Some(q))
        .set_object_type("reshape", qconfig_of("default_reuse_input_qconfig"));
    for name in ["torch.nn.ConvTranspose", "torch.nn.functional.conv_transpose"] {
        for d in 1..=3 {
            m = m.set_object_type(&format!("{name}{d}d"), Some(transposed.clone()));
        }
    }
    m = m
        .set_object_type("torch.nn.functional.layer_norm", Some(norm.clone()))
        .set_object_type("torch.nn.LayerNorm", Some(norm))
        .set_object_type("torch.nn.PReLU", qconfig_of("default_quint8_weight_qconfig"));
    for (object_type, observer) in FIXED {
        let activation = match (qat, named(observer)?) {
            (true, Make::Observer(o)) => {
                Make::FakeQuantize(FakeQuantizeSpec::new(FakeQuantizeClass::FixedQParams, o))
            }
            (_, make) => make,
        };
        m = m.set_object_type(object_type, Some(QConfig::new(activation, weight.clone())));
    }
    Ok(m)
}
/// The configurations of a model for static quantization on an engine: `x86`, `fbgemm`, `qnnpack` or `onednn`.
///
/// ```
/// use torch::ao::quantization as q;
/// assert!(q::get_default_qconfig_mapping("x86").to_string().contains("torch.nn.LayerNorm"));
/// assert!(q::try_get_default_qconfig_mapping("none of these").is_err());
/// ```
///
/// # Errors
/// Other engines.
#[doc(alias = "torch.ao.quantization.get_default_qconfig_mapping")]
#[doc(alias = "torch.ao.quantization.qconfig_mapping.get_default_qconfig_mapping")]
#[flambeau_macros::short]
pub fn try_get_default_qconfig_mapping(backend: &str) -> Result<QConfigMapping> {
    default_mapping(false, backend)
}
/// The configurations of a model for quantization-aware training for an engine.
///
/// ```
/// use torch::ao::quantization as q;
/// assert_ne!(
///     q::get_default_qat_qconfig_mapping("x86").to_string(),
///     q::get_default_qconfig_mapping("x86").to_string()
/// );
/// ```
///
/// # Errors
/// Other engines.
#[doc(alias = "torch.ao.quantization.get_default_qat_qconfig_mapping")]
#[doc(alias = "torch.ao.quantization.qconfig_mapping.get_default_qat_qconfig_mapping")]
#[flambeau_macros::short]
pub fn try_get_default_qat_qconfig_mapping(backend: &str) -> Result<QConfigMapping> {
    default_mapping(true, backend)
}
