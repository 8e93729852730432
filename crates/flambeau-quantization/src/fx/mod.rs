//! Quantization of captured graphs: `torch.ao.quantization.quantize_fx`.
//!
//! A model is captured ([`flambeau_fx::symbolic_trace`]), layers that follow each other are joined, and observers are put between
//! the calls by what a [`QConfigMapping`] says of them and what a [`BackendConfig`] says of the engine. After some calls on sample
//! data [`convert_fx`] makes a graph of quantized layers and operators.

pub mod backend_config;
mod convert;
mod custom_config;
mod fuse;
mod lower;
mod matching;
mod native_backend_config;
mod nodes;
mod own;
mod prepare;

pub use backend_config::{
    BackendConfig, BackendPatternConfig, DTypeConfig, DTypeWithConstraints, ObservationType,
};
pub use custom_config::{
    ConvertCustomConfig, FuseCustomConfig, PrepareCustomConfig, StandaloneModuleConfigEntry,
};
pub use native_backend_config::get_native_backend_config;

use crate::qconfig::QConfig;
use crate::qconfig_mapping::QConfigMapping;
use flambeau_core::{Result, Tensor, Value, ensure};
use flambeau_fx::{GraphModule, SymbolicTraceOptions, try_symbolic_trace_with};
use flambeau_nn::{Layer, Module};
use std::collections::{HashMap, HashSet};
use std::ops::{Deref, DerefMut};

/// Path and class of a module.
pub(crate) type Scope = (String, String);
/// What is known of a graph with observers beside the graph.
#[derive(Clone, Debug)]
pub(crate) struct Notes {
    scopes: HashMap<String, Scope>,
    qconfigs: HashMap<String, Option<QConfig>>,
    observed: HashSet<String>,
    custom: PrepareCustomConfig,
    /// Of modules that were prepared by themselves, by their paths.
    standalone: HashMap<String, Notes>,
    is_qat: bool,
}

/// A graph with observers, or with layers that round as they are trained: what [`prepare_fx`] and [`prepare_qat_fx`] make, and
/// [`convert_fx`] takes. It is called, trained and printed like any graph.
#[derive(Clone, Debug)]
pub struct ObservedGraphModule {
    module: GraphModule,
    notes: Notes,
}
impl ObservedGraphModule {
    /// Whether it is prepared for training.
    pub fn is_qat(&self) -> bool {
        self.notes.is_qat
    }
    /// The graph, which can no longer be converted.
    pub fn into_graph_module(self) -> GraphModule {
        self.module
    }
}
impl Deref for ObservedGraphModule {
    type Target = GraphModule;
    fn deref(&self) -> &GraphModule {
        &self.module
    }
}
impl DerefMut for ObservedGraphModule {
    fn deref_mut(&mut self) -> &mut GraphModule {
        &mut self.module
    }
}

/// How [`prepare_fx_with`] prepares.
#[derive(Clone, Debug, Default)]
pub struct PrepareFxOptions {
    prepare_custom_config: PrepareCustomConfig,
    backend_config: Option<BackendConfig>,
}
impl PrepareFxOptions {
    /// For this library's kernels.
    pub fn new() -> PrepareFxOptions {
        PrepareFxOptions::default()
    }
    /// What is quantized already, and which modules stay whole.
    pub fn prepare_custom_config(mut self, c: PrepareCustomConfig) -> Self {
        self.prepare_custom_config = c;
        self
    }
    /// For another engine.
    pub fn backend_config(mut self, c: BackendConfig) -> Self {
        self.backend_config = Some(c);
        self
    }
}

/// Captures a model for quantization: layers, and those that were joined before, are calls; containers and a program's own modules
/// are written out, but for those that `custom` names.
pub(crate) fn traced<R: Into<Value>>(
    model: &dyn Module,
    forward: impl FnOnce(&[Tensor]) -> Result<R>,
    inputs: &[&Tensor],
    custom: &PrepareCustomConfig,
) -> Result<GraphModule> {
    let (custom, own) = (custom.clone(), custom.clone());
    let leaf = move |m: &dyn Module, path: &str| prepare::is_leaf(m, path, &custom);
    let options =
        SymbolicTraceOptions::new().is_leaf_module(leaf).leaf_objects(move |m, path| own.object(m, path));
    let m = try_symbolic_trace_with(model, forward, inputs, options)?;
    m.train(model.is_training())?;
    Ok(m)
}
/// What is kept although the program does not use it, as it was before something was taken away.
fn kept(m: &GraphModule, paths: &[String]) -> Vec<(String, Value)> {
    paths.iter().filter_map(|p| Some((p.clone(), m.get(p).ok()?))).collect()
}
fn put_back(m: &mut GraphModule, kept: Vec<(String, Value)>) {
    for (path, v) in kept {
        if m.get(&path).is_err() {
            m.set_value(&path, v);
        }
    }
}
/// Puts parameters, buffers and modules of the model into its graph.
fn preserve(m: &mut GraphModule, model: &dyn Module, paths: &[String]) -> Result<()> {
    for path in paths.iter().filter(|p| m.get(p).is_err()).cloned().collect::<Vec<_>>() {
        if let Some((_, p)) = model.named_parameters().into_iter().find(|(n, _)| *n == path) {
            m.set(&path, Tensor::clone(&p));
        } else if let Some((_, b)) = model.named_buffers().into_iter().find(|(n, _)| *n == path) {
            m.set(&path, Tensor::clone(&b));
        } else if let Ok(inner) = model.get_submodule(&path) {
            m.set_module(&path, flambeau_fx::capture::object(inner)?);
        }
    }
    Ok(())
}
fn of_layer(model: &impl Layer, inputs: &[&Tensor], custom: &PrepareCustomConfig) -> Result<GraphModule> {
    ensure!(
        inputs.len() == 1,
        Value,
        "the model takes one tensor, but {} example inputs are given",
        inputs.len()
    );
    let mut m = traced(model.as_module(), |x: &[Tensor]| model.try_forward(&x[0]), inputs, custom)?;
    preserve(&mut m, model.as_module(), &custom.preserved_attributes)?;
    Ok(m)
}
/// Prepares a graph that was captured otherwise, such as that of a model of several inputs: layers are joined, observers put between
/// the calls, and for training (`is_qat`) layers with weights exchanged for those that round them.
///
/// # Errors
/// Batch normalisation of a module in training mode that is to be joined for evaluation; layers that were joined and whose parts have
/// different configurations; observers that cannot be made.
#[flambeau_macros::short]
pub fn try_prepare_graph(
    mut graph: GraphModule,
    qconfig_mapping: &QConfigMapping,
    is_qat: bool,
    options: PrepareFxOptions,
) -> Result<ObservedGraphModule> {
    let backend = options.backend_config.unwrap_or_else(get_native_backend_config);
    let kept = kept(&graph, &options.prepare_custom_config.preserved_attributes);
    fuse::fuse(&mut graph, is_qat, &backend)?;
    let notes =
        prepare::prepare(&mut graph, qconfig_mapping, is_qat, &options.prepare_custom_config, &backend)?;
    put_back(&mut graph, kept);
    Ok(ObservedGraphModule { module: graph, notes })
}
/// Captures a model, joins layers that follow each other and puts observers between the calls. Calls on sample data fill them; then
/// [`convert_fx`] makes the quantized model. `example_inputs` are of the sizes that the model will be given.
///
/// ```
/// use torch::ao::quantization::get_default_qconfig_mapping;
/// use torch::ao::quantization::quantize_fx::{convert_fx, prepare_fx};
/// use torch::{nn, prelude::*};
///
/// let net = nn::Sequential::new((nn::Linear::new(4, 8), nn::ReLU::new(), nn::Linear::new(8, 2)));
/// net.eval();
/// let x = torch::randn([16, 4]);
/// let prepared = prepare_fx(&net, &get_default_qconfig_mapping("x86"), &[&x]);
/// prepared.try_forward(&[&x])?;
/// let quantized = convert_fx(&prepared);
/// let y = quantized.try_forward(&[&x])?;
/// assert!((y - net.call(&x)).abs().max().item::<f32>() < 0.1);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Those of the model on the example inputs, of the capture, and of [`try_prepare_graph`].
#[doc(alias = "torch.ao.quantization.quantize_fx.prepare_fx")]
#[flambeau_macros::short(with)]
pub fn try_prepare_fx(
    model: &impl Layer,
    qconfig_mapping: &QConfigMapping,
    example_inputs: &[&Tensor],
    options: PrepareFxOptions,
) -> Result<ObservedGraphModule> {
    let graph = of_layer(model, example_inputs, &options.prepare_custom_config)?;
    try_prepare_graph(graph, qconfig_mapping, false, options)
}
/// Captures a model for quantization-aware training: as [`prepare_fx`], but layers with weights round them at every call, and results
/// are rounded where they will be integers. Its [`parameters`](GraphModule::parameters) are what an optimizer is given.
///
/// ```
/// use torch::ao::quantization::get_default_qat_qconfig_mapping;
/// use torch::ao::quantization::quantize_fx::prepare_qat_fx;
/// use torch::{nn, prelude::*};
///
/// let net = nn::Sequential::new((nn::Linear::new(4, 8), nn::ReLU::new()));
/// let x = torch::randn([16, 4]);
/// let prepared = prepare_qat_fx(&net, &get_default_qat_qconfig_mapping("x86"), &[&x]);
/// prepared.try_forward(&[&x])?.sum().backward();
/// assert!(prepared.parameters().iter().all(|p| p.grad().is_some()));
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// As [`try_prepare_fx`].
#[doc(alias = "torch.ao.quantization.quantize_fx.prepare_qat_fx")]
#[flambeau_macros::short(with)]
pub fn try_prepare_qat_fx(
    model: &impl Layer,
    qconfig_mapping: &QConfigMapping,
    example_inputs: &[&Tensor],
    options: PrepareFxOptions,
) -> Result<ObservedGraphModule> {
    let graph = of_layer(model, example_inputs, &options.prepare_custom_config)?;
    try_prepare_graph(graph, qconfig_mapping, true, options)
}
/// How [`fuse_fx_with`] joins.
#[derive(Clone, Debug, Default)]
pub struct FuseFxOptions {
    fuse_custom_config: FuseCustomConfig,
    backend_config: Option<BackendConfig>,
}
impl FuseFxOptions {
    /// For this library's kernels.
    pub fn new() -> FuseFxOptions {
        FuseFxOptions::default()
    }
    /// What is kept.
    pub fn fuse_custom_config(mut self, c: FuseCustomConfig) -> Self {
        self.fuse_custom_config = c;
        self
    }
    /// For another engine.
    pub fn backend_config(mut self, c: BackendConfig) -> Self {
        self.backend_config = Some(c);
        self
    }
}
/// Joins layers of a captured graph that follow each other, for evaluation: a convolution takes the batch normalisation behind it
/// into its numbers, and a ReLU behind a layer becomes part of it.
///
/// # Errors
/// Batch normalisation of a module in training mode.
///
/// ```
/// use torch::ao::quantization::quantize_fx::fuse_fx;
/// use torch::{Tensor, fx, nn, prelude::*};
///
/// let net = nn::Sequential::new((nn::Conv2d::new(1, 2, 3), nn::BatchNorm2d::new(2), nn::ReLU::new()));
/// net.eval();
/// let x = torch::zeros([1, 1, 4, 4]);
/// let m = fuse_fx(fx::symbolic_trace(&net, |x: &[Tensor]| net.call(&x[0]), &[&x]));
/// assert_eq!(m.graph.len(), 3);
/// ```
#[doc(alias = "torch.ao.quantization.quantize_fx.fuse_fx")]
#[flambeau_macros::short(with)]
pub fn try_fuse_fx(mut graph: GraphModule, options: FuseFxOptions) -> Result<GraphModule> {
    let kept = kept(&graph, &options.fuse_custom_config.preserved_attributes);
    let backend = options.backend_config.unwrap_or_else(get_native_backend_config);
    fuse::fuse(&mut graph, false, &backend)?;
    put_back(&mut graph, kept);
    Ok(graph)
}

/// How [`convert_fx_with`] converts.
#[derive(Clone, Debug, Default)]
pub struct ConvertFxOptions {
    convert_custom_config: ConvertCustomConfig,
    backend_config: Option<BackendConfig>,
}
impl ConvertFxOptions {
    /// For this library's kernels.
    pub fn new() -> ConvertFxOptions {
        ConvertFxOptions::default()
    }
    /// Which modules of the program's own stand in the place of others, and what is kept.
    pub fn convert_custom_config(mut self, c: ConvertCustomConfig) -> Self {
        self.convert_custom_config = c;
        self
    }
    /// For another engine: the one that the graph was prepared for.
    pub fn backend_config(mut self, c: BackendConfig) -> Self {
        self.backend_config = Some(c);
        self
    }
}
/// Converts a prepared graph, and those in it that were prepared by themselves.
fn converted(m: &GraphModule, notes: &Notes, options: &ConvertFxOptions, lower: bool) -> Result<GraphModule> {
    let mut m = m.clone();
    let kept = kept(&m, &options.convert_custom_config.preserved_attributes);
    let backend = options.backend_config.clone().unwrap_or_else(get_native_backend_config);
    convert::convert(&mut m, notes, &options.convert_custom_config, &backend)?;
    for (path, notes) in &notes.standalone {
        let inner = m.submodule(path)?;
        if let Some(inner) = inner.downcast::<GraphModule>() {
            let own = ConvertFxOptions {
                backend_config: options.backend_config.clone(),
                ..ConvertFxOptions::new()
            };
            let new = converted(inner, notes, &own, lower)?;
            m.set_graph(path, new);
        }
    }
    if lower {
        lower::lower(&mut m, notes)?;
    }
    nodes::drop_unused(&mut m);
    put_back(&mut m, kept);
    Ok(m)
}
/// A graph of quantized layers and operators, by what the observers of a prepared one saw. The prepared graph stays as it is.
///
/// # Errors
/// Observers that saw nothing that can be quantized; weights and observers that do not fit; a module of the program's own without a
/// function that makes it of the observed one.
#[doc(alias = "torch.ao.quantization.quantize_fx.convert_fx")]
#[flambeau_macros::short(with)]
pub fn try_convert_fx(prepared: &ObservedGraphModule, options: ConvertFxOptions) -> Result<GraphModule> {
    converted(&prepared.module, &prepared.notes, &options, true)
}
/// A graph that computes with numbers and rounds where [`convert_fx`]'s has integers: what other engines read.
///
/// # Errors
/// As [`convert_fx`].
#[doc(alias = "torch.ao.quantization.quantize_fx.convert_to_reference_fx")]
#[flambeau_macros::short(with)]
pub fn try_convert_to_reference_fx(
    prepared: &ObservedGraphModule,
    options: ConvertFxOptions,
) -> Result<GraphModule> {
    converted(&prepared.module, &prepared.notes, &options, false)
}
