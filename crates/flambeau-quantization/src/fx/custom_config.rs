//! What a program asks of the quantization of a graph beside configurations of its parts.

use super::backend_config::BackendConfig;
use super::own::{Own, Standalone};
use crate::granularity::QuantType;
use crate::qconfig_mapping::QConfigMapping;
use flambeau_core::dispatch::object::ObjectRef;
use flambeau_core::{Error, Result, Tensor};
use flambeau_fx::GraphModule;
use flambeau_nn::{Layer, Module};
use std::fmt;
use std::sync::Arc;

/// How a module that stays a call of its own is prepared: what is not said is the model's.
#[derive(Clone, Debug, Default)]
#[doc(alias = "torch.ao.quantization.fx.custom_config.StandaloneModuleConfigEntry")]
pub struct StandaloneModuleConfigEntry {
    /// How its parts are quantized; if not said, all as the call in the model would be.
    pub qconfig_mapping: Option<QConfigMapping>,
    /// Inputs of the sizes that it will be given.
    pub example_inputs: Vec<Tensor>,
    /// What else is asked of it. Inputs and results that it says are quantized go between it and the model as integers.
    pub prepare_custom_config: Option<PrepareCustomConfig>,
    /// For another engine than the model's.
    pub backend_config: Option<BackendConfig>,
}
impl StandaloneModuleConfigEntry {
    /// All as the model's.
    pub fn new(example_inputs: &[&Tensor]) -> StandaloneModuleConfigEntry {
        let example_inputs = example_inputs.iter().map(|t| (*t).clone()).collect();
        StandaloneModuleConfigEntry { example_inputs, ..StandaloneModuleConfigEntry::default() }
    }
    /// How its parts are quantized.
    pub fn qconfig_mapping(mut self, q: QConfigMapping) -> Self {
        self.qconfig_mapping = Some(q);
        self
    }
    /// What else is asked of it.
    pub fn prepare_custom_config(mut self, c: PrepareCustomConfig) -> Self {
        self.prepare_custom_config = Some(c);
        self
    }
    /// For another engine.
    pub fn backend_config(mut self, c: BackendConfig) -> Self {
        self.backend_config = Some(c);
        self
    }
}

type Is = fn(&dyn Module) -> bool;
type Observed = dyn Fn(&dyn Module) -> Result<Own> + Send + Sync;
type Quantized = dyn Fn(&Own, Option<&(Tensor, Tensor)>) -> Result<Own> + Send + Sync;
/// From one class of modules to another.
struct Mapped<F: ?Sized> {
    name: &'static str,
    quant_type: QuantType,
    is: Is,
    make: Arc<F>,
}
impl<F: ?Sized> Clone for Mapped<F> {
    fn clone(&self) -> Self {
        Mapped { name: self.name, quant_type: self.quant_type, is: self.is, make: self.make.clone() }
    }
}
impl<F: ?Sized> fmt::Debug for Mapped<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
fn typed<M: Module + 'static>(m: &dyn Module) -> Result<&M> {
    let other = || Error::type_(format!("{} is no {}", m.type_name(), std::any::type_name::<M>()));
    m.downcast_ref::<M>().ok_or_else(other)
}
/// Modules that are prepared by themselves: those at a path, or all of a type.
#[derive(Clone)]
struct Apart {
    path: Option<String>,
    is: Is,
    capture: fn(&dyn Module, &StandaloneModuleConfigEntry) -> Result<GraphModule>,
    entry: StandaloneModuleConfigEntry,
}
impl fmt::Debug for Apart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Apart").field("path", &self.path).field("entry", &self.entry).finish_non_exhaustive()
    }
}
impl Apart {
    fn of<M: Layer + 'static>(path: Option<&str>, entry: StandaloneModuleConfigEntry) -> Apart {
        Apart {
            path: path.map(str::to_string),
            is: |m| m.is::<M>(),
            capture: |m, e| {
                let inputs: Vec<&Tensor> = e.example_inputs.iter().collect();
                let custom = e.prepare_custom_config.clone().unwrap_or_default();
                super::of_layer(typed::<M>(m)?, &inputs, &custom)
            },
            entry,
        }
    }
}

/// What preparing a graph is to heed: modules that stay calls of their own, classes that are exchanged for others, inputs and results
/// that are quantized already.
#[derive(Clone, Debug, Default)]
#[doc(alias = "torch.ao.quantization.fx.custom_config.PrepareCustomConfig")]
pub struct PrepareCustomConfig {
    standalone: Vec<Apart>,
    float_to_observed: Vec<Mapped<Observed>>,
    pub(super) non_traceable_module_names: Vec<String>,
    pub(super) non_traceable_module_classes: Vec<String>,
    pub(super) input_quantized_indexes: Vec<usize>,
    pub(super) output_quantized_indexes: Vec<usize>,
    pub(super) preserved_attributes: Vec<String>,
}
impl PrepareCustomConfig {
    /// Nothing.
    pub fn new() -> PrepareCustomConfig {
        PrepareCustomConfig::default()
    }
    /// The module at a path, whose type is `M`, is a graph of its own, prepared and converted by itself.
    pub fn set_standalone_module_name<M: Layer + 'static>(
        mut self,
        name: &str,
        entry: StandaloneModuleConfigEntry,
    ) -> Self {
        self.standalone.push(Apart::of::<M>(Some(name), entry));
        self
    }
    /// The same of all modules of a type.
    pub fn set_standalone_module_class<M: Layer + 'static>(
        mut self,
        entry: StandaloneModuleConfigEntry,
    ) -> Self {
        self.standalone.push(Apart::of::<M>(None, entry));
        self
    }
    /// Modules of the type `F` are calls of their own, and `from_float` makes of each what is called while observers look; observers
    /// stand before and behind it. For static quantization.
    pub fn set_float_to_observed_mapping<F: Layer + 'static, O: Layer + 'static>(
        mut self,
        from_float: impl Fn(&F) -> Result<O> + Send + Sync + 'static,
    ) -> Self {
        self.float_to_observed.push(Mapped {
            name: std::any::type_name::<F>(),
            quant_type: QuantType::STATIC,
            is: |m| m.is::<F>(),
            make: Arc::new(move |m: &dyn Module| Ok(Own::new(from_float(typed::<F>(m)?)?))),
        });
        self
    }
    /// Paths of modules that are called as they are, as one node each, and stay float.
    pub fn set_non_traceable_module_names(mut self, names: &[&str]) -> Self {
        self.non_traceable_module_names = names.iter().map(|s| s.to_string()).collect();
        self
    }
    /// The same by class, by the names that modules print.
    pub fn set_non_traceable_module_classes(mut self, classes: &[&str]) -> Self {
        self.non_traceable_module_classes = classes.iter().map(|s| s.to_string()).collect();
        self
    }
    /// Inputs that are given as quantized tensors, by their places.
    pub fn set_input_quantized_indexes(mut self, indexes: &[usize]) -> Self {
        self.input_quantized_indexes = indexes.to_vec();
        self
    }
    /// Results that are given as quantized tensors, by their places.
    pub fn set_output_quantized_indexes(mut self, indexes: &[usize]) -> Self {
        self.output_quantized_indexes = indexes.to_vec();
        self
    }
    /// Paths of parameters, buffers and modules that the graph keeps although its program does not use them.
    pub fn set_preserved_attributes(mut self, attributes: &[&str]) -> Self {
        self.preserved_attributes = attributes.iter().map(|s| s.to_string()).collect();
        self
    }
    /// How a module is prepared by itself, if it is; a path goes before a type, and what was said last before what was said first.
    fn apart(&self, m: &dyn Module, path: &str) -> Option<&Apart> {
        let said = || self.standalone.iter().rev().filter(|a| (a.is)(m));
        let named = said().find(|a| a.path.as_deref() == Some(path));
        named.or_else(|| said().find(|a| a.path.is_none()))
    }
    /// Whether a module stays one call.
    pub(super) fn is_whole(&self, m: &dyn Module, path: &str) -> bool {
        self.apart(m, path).is_some() || self.float_to_observed.iter().any(|c| (c.is)(m))
    }
    /// What stands for such a module in the graph.
    pub(super) fn object(&self, m: &dyn Module, path: &str) -> Option<Result<ObjectRef>> {
        if let Some(a) = self.apart(m, path) {
            let captured = (a.capture)(m, &a.entry);
            return Some(captured.map(|graph| {
                let class = super::nodes::class_of(m);
                ObjectRef::new(Standalone { graph, class, entry: a.entry.clone() })
            }));
        }
        let own = self.float_to_observed.iter().rev().find(|c| (c.is)(m));
        own.map(|c| (c.make)(m).map(ObjectRef::new))
    }
}

/// What converting a prepared graph is to heed.
///
/// ```
/// use torch::ao::quantization::quantize_fx::{ConvertCustomConfig, ConvertFxOptions, PrepareCustomConfig, PrepareFxOptions};
/// use torch::ao::quantization::quantize_fx::{convert_fx_with, prepare_fx_with};
/// use torch::ao::quantization::{QuantType, get_default_qconfig_mapping};
/// use torch::{Tensor, nn, prelude::*};
///
/// // a layer of the program's own: on numbers, and on integers
/// #[derive(Debug, nn::Module)]
/// struct Double {}
/// #[nn::forward]
/// impl Double {
///     fn forward(&self, x: &Tensor) -> Tensor {
///         x * 2.0
///     }
/// }
/// #[derive(Debug, nn::Module)]
/// struct DoubleIntegers {}
/// #[nn::forward]
/// impl DoubleIntegers {
///     // twice the scale is twice the numbers
///     fn forward(&self, x: &Tensor) -> Tensor {
///         torch::quantize_per_tensor(&(x.dequantize() * 2.0), 2.0 * x.q_scale(), x.q_zero_point(), x.dtype())
///     }
/// }
/// let net = nn::Sequential::new((nn::Linear::new(4, 4), Double {}));
/// net.eval();
/// let x = torch::randn([8, 4]);
/// let custom = PrepareCustomConfig::new().set_float_to_observed_mapping(|_: &Double| Ok(Double {}));
/// let options = PrepareFxOptions::new().prepare_custom_config(custom);
/// let prepared = prepare_fx_with(&net, &get_default_qconfig_mapping("x86"), &[&x], options);
/// prepared.try_forward(&[&x])?;
/// let custom = ConvertCustomConfig::new()
///     .set_observed_to_quantized_mapping(QuantType::STATIC, |_: &Double, _| Ok(DoubleIntegers {}));
/// let quantized = convert_fx_with(&prepared, ConvertFxOptions::new().convert_custom_config(custom));
/// assert!((quantized.try_forward(&[&x])? - net.call(&x)).abs().max().item::<f32>() < 0.2);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[doc(alias = "torch.ao.quantization.fx.custom_config.ConvertCustomConfig")]
pub struct ConvertCustomConfig {
    observed_to_quantized: Vec<Mapped<Quantized>>,
    pub(super) preserved_attributes: Vec<String>,
}
impl ConvertCustomConfig {
    /// Nothing.
    pub fn new() -> ConvertCustomConfig {
        ConvertCustomConfig::default()
    }
    /// What `from_observed` makes stands in the place of modules of the type `O` that a configuration quantizes so. In static
    /// quantization it is given and gives quantized tensors; scale and zero point are those that the observer behind it found.
    pub fn set_observed_to_quantized_mapping<O: Layer + 'static, Q: Layer + 'static>(
        mut self,
        quant_type: QuantType,
        from_observed: impl Fn(&O, Option<&(Tensor, Tensor)>) -> Result<Q> + Send + Sync + 'static,
    ) -> Self {
        self.observed_to_quantized.push(Mapped {
            name: std::any::type_name::<O>(),
            quant_type,
            is: |m| m.is::<O>(),
            make: Arc::new(move |m: &Own, found: Option<&(Tensor, Tensor)>| {
                Ok(Own::new(from_observed(typed::<O>(m.module())?, found)?))
            }),
        });
        self
    }
    /// Paths that the graph keeps although its program does not use them.
    pub fn set_preserved_attributes(mut self, attributes: &[&str]) -> Self {
        self.preserved_attributes = attributes.iter().map(|s| s.to_string()).collect();
        self
    }
    /// The quantized module for an observed one; none where nothing is said of its type.
    pub(super) fn quantized(
        &self,
        m: &Own,
        quant_type: QuantType,
        found: Option<&(Tensor, Tensor)>,
    ) -> Result<Own> {
        let of_type = |c: &&Mapped<Quantized>| c.quant_type == quant_type && (c.is)(m.module());
        match self.observed_to_quantized.iter().rev().find(of_type) {
            Some(c) => (c.make)(m, found),
            None => Err(Error::assertion(format!(
                "did not find corresponding observed module class for {} in mapping: {:?}",
                m.module().type_name(),
                self.observed_to_quantized
            ))),
        }
    }
    /// Whether something is said of its type.
    pub(super) fn knows(&self, m: &Own) -> bool {
        self.observed_to_quantized.iter().any(|c| (c.is)(m.module()))
    }
}

/// What joining layers is to heed.
#[derive(Clone, PartialEq, Debug, Default)]
#[doc(alias = "torch.ao.quantization.fx.custom_config.FuseCustomConfig")]
pub struct FuseCustomConfig {
    pub(super) preserved_attributes: Vec<String>,
}
impl FuseCustomConfig {
    /// Nothing.
    pub fn new() -> FuseCustomConfig {
        FuseCustomConfig::default()
    }
    /// Paths that the graph keeps although its program does not use them.
    pub fn set_preserved_attributes(mut self, attributes: &[&str]) -> Self {
        self.preserved_attributes = attributes.iter().map(|s| s.to_string()).collect();
        self
    }
}
