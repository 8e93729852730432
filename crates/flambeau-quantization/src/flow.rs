//! From float models to quantized ones, in eager mode: configurations are noted about modules, observers are put into them, and
//! layers are exchanged. A layer can be exchanged where a container or a field holds modules of any type: in `Sequential`, in
//! `Box<dyn Layer>`; a field of one type cannot hold another.
//!
//! ```
//! use torch::ao::quantization as q;
//! use torch::{nn, prelude::*};
//!
//! let mut model = nn::Sequential::new((
//!     q::Stub::quant(),
//!     nn::Linear::new(4, 6),
//!     nn::ReLU::new(),
//!     nn::Linear::new(6, 3),
//!     q::Stub::dequant(),
//! ));
//! model.eval();
//! let x = torch::rand([10, 4]);
//! let want = model.call(&x);
//! q::fuse_modules_(&mut model, &[vec!["1".to_string(), "2".to_string()]], false);
//! q::set_qconfig(&model, Some(q::get_default_qconfig("x86")));
//! assert!(q::qconfig(&model).flatten().is_some());
//! let mut prepared = q::prepare(&model);
//! prepared.call(&x); // observers see what comes
//! let quantized = q::convert(&prepared);
//! assert!((quantized.call(&x) - &want).abs().max().item::<f32>() < 0.1);
//! // the same in place
//! q::convert_(&mut prepared, q::Mapping::Static);
//! assert!(torch::equal(&prepared.call(&x), &quantized.call(&x)));
//! ```
//!
//! Trained with rounding, or with weights alone:
//!
//! ```
//! use torch::ao::quantization as q;
//! use torch::{nn, prelude::*};
//!
//! let mut model = nn::Sequential::new((q::Stub::quant(), nn::Linear::new(4, 3), q::Stub::dequant()));
//! q::set_qconfig(&model, Some(q::get_default_qat_qconfig("fbgemm")));
//! q::propagate_qconfig_(&model, &[("Linear".into(), q::qconfig_of("default_qat_qconfig"))]);
//! let trained = q::prepare_qat(&model);
//! trained.call(&torch::rand([10, 4])).sum().backward();
//! assert!(trained.parameters().iter().all(|p| p.grad().is_some()));
//!
//! let (config, classes) = q::dynamic_default(torch::DType::QI8);
//! assert!(classes.contains(&"Linear") && config.weight.dtype() == Some(torch::DType::QI8));
//! q::quantize_dynamic_(&mut model, None, torch::DType::QI8);
//! assert!(model.named_modules().iter().any(|(_, m)| m.type_name() == "DynamicQuantizedLinear"));
//! ```

use crate::fake_quantize::FakeQuantize;
use crate::forms::{conv_of, observed, plain, swapped};
use crate::nn::conv_add::ConvAdd2d;
use crate::nn::float_functional::Functional;
use crate::nn::qat::Qat;
use crate::nn::quantizable;
use crate::objects::{qconfig_in, qconfig_value};
use crate::observers::Observer;
use crate::qconfig::{Made, Make, QConfig, default_of, qconfig_of};
use crate::stubs::Fused;
use flambeau_autograd::no_grad;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, Value, bail, ensure, ops};
use flambeau_nn as nn;
use flambeau_nn::internal::{Memo, Run, visit_all_mut};
use flambeau_nn::{Buffer, Module, Parameter, VisitorMut};

/// What a module's `qconfig` says: `None` where it has none, `Some(None)` where it says not to quantize.
pub fn qconfig(m: &dyn Module) -> Option<Option<QConfig>> {
    qconfig_in(&m.base()?.note::<Value>("qconfig")?)
}
/// Notes how a module is to be quantized (`module.qconfig = ...`), or that it is not.
pub fn set_qconfig(m: &dyn Module, q: Option<QConfig>) {
    if let Some(b) = m.base() {
        b.set_note("qconfig", qconfig_value(q));
    }
}
pub(crate) fn wanted(m: &dyn Module) -> Option<QConfig> {
    qconfig(m).flatten()
}
pub(crate) fn class(m: &dyn Module) -> &'static str {
    m.as_run().map_or("", |r| r.class())
}
/// By the class's name or the dotted path of a module.
pub type Spec = [(String, Option<QConfig>)];
/// Notes for all modules below what they have, what `spec` says of their path or class, or what their parent has.
#[doc(alias = "torch.ao.quantization.propagate_qconfig_")]
pub fn propagate_qconfig_(m: &dyn Module, spec: &Spec) {
    fn go(m: &dyn Module, spec: &Spec, parent: Option<QConfig>, path: &str) {
        let by = |name: &str| spec.iter().find(|(n, _)| n == name).map(|(_, q)| q.clone());
        let name = class(m);
        let of_class = if name.is_empty() { None } else { by(name) };
        let own = qconfig(m).or_else(|| by(path)).or(of_class).unwrap_or(parent);
        set_qconfig(m, own.clone());
        for (n, child) in m.named_children() {
            let path = if path.is_empty() { n } else { format!("{path}.{n}") };
            go(child, spec, own.clone(), &path);
        }
    }
    go(m, spec, None, "");
}
/// Classes that an observer looks at, and that have quantized forms.
const OBSERVED: &[&str] = &[
    "QuantStub",
    "Linear",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "BatchNorm2d",
    "BatchNorm3d",
    "ELU",
    "Embedding",
    "EmbeddingBag",
    "GroupNorm",
    "Hardswish",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LeakyReLU",
    "ReLU6",
    "PReLU",
    "LSTM",
    "GRU",
    "LSTMCell",
    "GRUCell",
    "RNNCell",
    "Sequential",
];
/// Whether the class of a layer is one that an observer looks at.
pub(crate) fn has_quantized_form(m: &dyn Module) -> bool {
    let name = class(m);
    name != "Sequential" && OBSERVED.contains(&name)
}
pub(crate) const POST: &str = "activation_post_process";
fn insert(m: &mut dyn Module) -> Result<()> {
    let Some(q) = wanted(m) else { return Ok(()) };
    insert_made(m, &q.activation)
}
fn made(make: &Make) -> Result<Box<dyn Module>> {
    Ok(match make.build()? {
        Made::Observer(o) => o,
        Made::FakeQuantize(f) => f,
        Made::Identity => Box::new(nn::Identity::new()),
    })
}
fn insert_made(m: &mut dyn Module, make: &Make) -> Result<()> {
    observe_by(m, made(make)?)
}
fn add_observer(m: &mut dyn Module, by: Box<dyn Module>) -> Result<()> {
    match m.base_mut() {
        Some(b) => b.add_module(POST, by),
        None => Ok(()),
    }
}
/// Puts a module behind another: it sees the results, and gives what goes on.
pub(crate) fn observe_by(m: &mut dyn Module, by: Box<dyn Module>) -> Result<()> {
    let Some(b) = m.base_mut() else { return Ok(()) };
    b.add_module(POST, by)?;
    b.register_forward_hook(|m, _, out| {
        let post = m.base()?.module(POST)?.as_run()?;
        post.run(out.get(..1)?).ok()
    });
    Ok(())
}
struct Observe;
impl VisitorMut for Observe {
    fn parameter(&mut self, _: &str, _: &mut Parameter) -> Result<()> {
        Ok(())
    }
    fn buffer(&mut self, _: &str, _: &mut Buffer) -> Result<()> {
        Ok(())
    }
    fn module(&mut self, _: &str, m: &mut dyn Module) -> Result<()> {
        observe(m)
    }
    fn slot(&mut self, name: &str, holder: &mut dyn Module) -> Result<()> {
        let Some(new) = in_parts(holder.as_module())? else { return Ok(()) };
        let class = holder.type_name().into_owned();
        holder.exchange(new).map_err(|_| {
            Error::missing(format!(
                "a layer of parts in the place of the field {name}, whose type is {class}: make it ao::nn::quantizable::{class}, or say \
                 by set_qconfig(&self.{name}, None) that it stays float"
            ))
        })
    }
}
/// Layers that are observed part by part: those of parts in the place of float ones.
fn in_parts(m: &dyn Module) -> Result<Option<Box<dyn Run>>> {
    let Some(q) = wanted(m) else { return Ok(None) };
    let new: Box<dyn Run> = if let Some(l) = m.downcast_ref::<nn::LSTM>() {
        Box::new(quantizable::LSTM::try_from_float(l)?)
    } else if let Some(a) = m.downcast_ref::<nn::MultiheadAttention>() {
        Box::new(quantizable::MultiheadAttention::try_from_float(a)?)
    } else {
        return Ok(None);
    };
    set_qconfig(new.as_module(), Some(q));
    propagate_qconfig_(new.as_module(), &[]);
    Ok(Some(new))
}
fn observe(m: &mut dyn Module) -> Result<()> {
    if let Some(f) = m.downcast_ref::<Functional>() {
        // it asks what is put into it itself
        return match wanted(m).filter(|_| !f.is_quantized()) {
            Some(q) => add_observer(m, made(&q.activation)?),
            None => Ok(()),
        };
    }
    if m.is::<nn::Dropout>() || m.is::<Observer>() || m.is::<FakeQuantize>() {
        return Ok(());
    }
    if m.is::<Fused>() || m.is::<Qat>() || m.is::<ConvAdd2d>() {
        return insert(m);
    }
    // in training, what has results of a known range is rounded to it
    if m.is_training() && wanted(m).is_some() {
        let known = match class(m) {
            "Sigmoid" | "Hardsigmoid" => Some("default_fixed_qparams_range_0to1_fake_quant"),
            "Tanh" | "Softmax" => Some("default_fixed_qparams_range_neg1to1_fake_quant"),
            _ => None,
        };
        if let Some(make) = known.and_then(default_of) {
            return insert_made(m, &make);
        }
    }
    visit_all_mut(m, &mut Observe)?;
    if m.named_children().is_empty() && has_quantized_form(m) {
        insert(m)?;
    }
    Ok(())
}
/// Puts observers behind the layers that are to be quantized, in place: calls of the model on sample data fill them.
///
/// # Errors
/// Observers that cannot be made.
#[doc(alias = "torch.ao.quantization.prepare")]
#[flambeau_macros::short]
pub fn try_prepare_(m: &mut dyn Module) -> Result<()> {
    propagate_qconfig_(m, &[]);
    observe(m)
}
/// [`prepare_`] of a copy.
///
/// # Errors
/// Those of the copy and of [`prepare_`].
#[flambeau_macros::short]
pub fn try_prepare<M: Module>(m: &M) -> Result<M> {
    let mut copy = m.try_deepcopy()?;
    try_prepare_(&mut copy)?;
    Ok(copy)
}
struct Train;
impl VisitorMut for Train {
    fn parameter(&mut self, _: &str, _: &mut Parameter) -> Result<()> {
        Ok(())
    }
    fn buffer(&mut self, _: &str, _: &mut Buffer) -> Result<()> {
        Ok(())
    }
    fn module(&mut self, _: &str, _: &mut dyn Module) -> Result<()> {
        Ok(())
    }
    fn slot(&mut self, name: &str, holder: &mut dyn Module) -> Result<()> {
        if !holder.as_any().is::<Fused>() {
            visit_all_mut(holder.as_module_mut(), self)?;
        }
        let m = holder.as_module();
        let Some(q) = wanted(m) else { return Ok(()) };
        if let Some(new) = Qat::of(m, &q)? {
            new.set_training(m.is_training());
            set_qconfig(&new, Some(q));
            let class = holder.type_name().into_owned();
            holder.exchange(Box::new(new)).map_err(|_| {
                Error::missing(format!(
                    "a layer that rounds its weight in the place of the field {name}, whose type is {class}: make it Box<dyn nn::Layer>"
                ))
            })?;
        }
        Ok(())
    }
}
/// Prepares a model for quantization-aware training, in place: linear maps and convolutions, fused ones among them, are exchanged for
/// layers that round their weights, and results are rounded where they will be integers. Parameters stay the same ones.
///
/// # Errors
/// A model that is not in training mode; layers in fields of one type; observers that cannot be made.
#[doc(alias = "torch.ao.quantization.prepare_qat")]
#[flambeau_macros::short]
pub fn try_prepare_qat_(m: &mut dyn Module) -> Result<()> {
    ensure!(m.is_training(), Assertion, "prepare_qat only works on models in training mode");
    propagate_qconfig_(m, &[]);
    visit_all_mut(m, &mut Train)?;
    observe(m)
}
/// [`prepare_qat_`] of a copy.
///
/// # Errors
/// Those of the copy and of [`prepare_qat_`].
#[flambeau_macros::short]
pub fn try_prepare_qat<M: Module>(m: &M) -> Result<M> {
    let mut copy = m.try_deepcopy()?;
    try_prepare_qat_(&mut copy)?;
    Ok(copy)
}
/// Which layers are exchanged for which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapping {
    /// For those of quantized inputs.
    Static,
    /// For those that find the integers of their inputs at every call.
    Dynamic,
}
/// What computes with integers once its parts do, or once it has a rule: it stays where it is, so a field may have its type.
fn become_quantized(m: &mut dyn Module) -> Result<()> {
    let rule = match m.downcast_ref::<Functional>() {
        Some(f) if wanted(f).is_some() && !f.is_quantized() => Some(observed(f)?),
        _ => None,
    };
    let m = m.as_any_mut();
    if let (Some((scale, zero)), Some(f)) = (rule, m.downcast_mut::<Functional>()) {
        f.become_quantized(scale, zero);
    } else if let Some(l) = m.downcast_mut::<quantizable::LSTM>() {
        l.become_quantized();
    } else if let Some(a) = m.downcast_mut::<quantizable::MultiheadAttention>() {
        a.become_quantized()?;
    }
    Ok(())
}
struct Convert(Mapping);
impl VisitorMut for Convert {
    fn parameter(&mut self, _: &str, _: &mut Parameter) -> Result<()> {
        Ok(())
    }
    fn buffer(&mut self, _: &str, _: &mut Buffer) -> Result<()> {
        Ok(())
    }
    fn module(&mut self, _: &str, _: &mut dyn Module) -> Result<()> {
        Ok(())
    }
    fn slot(&mut self, name: &str, holder: &mut dyn Module) -> Result<()> {
        if !holder.as_any().is::<Fused>()
            && !holder.as_any().is::<Qat>()
            && !holder.as_any().is::<ConvAdd2d>()
        {
            visit_all_mut(holder.as_module_mut(), self)?;
        }
        if self.0 == Mapping::Static {
            become_quantized(holder.as_module_mut())?;
        }
        if let Some(new) = swapped(holder.as_module(), self.0)? {
            let class = holder.type_name().into_owned();
            holder.exchange(new).map_err(|_| {
                let leave = match self.0 {
                    Mapping::Dynamic => ", or leave its class out: QuantizeDynamicOptions::new().classes(&[..])",
                    _ => "",
                };
                Error::missing(format!(
                    "a quantized layer in the place of the field {name}, whose type is {class}: make it Box<dyn nn::Layer>{leave}"
                ))
            })?;
        }
        Ok(())
    }
}
/// Forgets configurations and takes observers out.
fn cleaned(m: &mut dyn Module) -> Result<()> {
    struct Clean;
    impl VisitorMut for Clean {
        fn parameter(&mut self, _: &str, _: &mut Parameter) -> Result<()> {
            Ok(())
        }
        fn buffer(&mut self, _: &str, _: &mut Buffer) -> Result<()> {
            Ok(())
        }
        fn module(&mut self, _: &str, m: &mut dyn Module) -> Result<()> {
            cleaned(m)
        }
    }
    visit_all_mut(m, &mut Clean)?;
    if let Some(b) = m.base_mut() {
        b.remove_note("qconfig");
        b.remove_module(POST);
    }
    Ok(())
}
/// Exchanges layers for quantized ones, in place, by what their observers saw.
///
/// # Errors
/// Layers in fields of one type, weights and observers that do not fit.
#[doc(alias = "torch.ao.quantization.convert")]
#[flambeau_macros::short]
pub fn try_convert_(m: &mut dyn Module, mapping: Mapping) -> Result<()> {
    no_grad(|| {
        visit_all_mut(m, &mut Convert(mapping))?;
        if mapping == Mapping::Static {
            become_quantized(m)?;
        }
        cleaned(m)
    })
}
/// [`convert_`] of a copy, for quantized inputs.
///
/// # Errors
/// Those of the copy and of [`convert_`].
#[flambeau_macros::short]
pub fn try_convert<M: Module>(m: &M) -> Result<M> {
    let mut copy = m.try_deepcopy()?;
    try_convert_(&mut copy, Mapping::Static)?;
    Ok(copy)
}
/// The configuration of weights alone for a dtype, and the classes that it is for.
///
/// # Errors
/// Other dtypes than qint8, float16 and those of embeddings.
#[flambeau_macros::short]
pub fn try_dynamic_default(dtype: DType) -> Result<(QConfig, &'static [&'static str])> {
    const LAYERS: &[&str] = &["Linear", "LSTM", "GRU", "LSTMCell", "RNNCell", "GRUCell"];
    let (name, of): (_, &[&str]) = match dtype {
        DType::QI8 => ("default_dynamic_qconfig", LAYERS),
        DType::F16 => ("float16_dynamic_qconfig", LAYERS),
        DType::QU8 => ("float_qparams_weight_only_qconfig", &["EmbeddingBag", "Embedding"]),
        DType::QU4X2 => ("float_qparams_weight_only_qconfig_4bit", &["EmbeddingBag"]),
        d => bail!(
            Value,
            "Don't know how to quantize with default settings for {d}. Provide full qconfig please"
        ),
    };
    Ok((qconfig_of(name).ok_or_else(|| Error::runtime("no such configuration"))?, of))
}
/// Quantizes weights in place; the integers of inputs are found at every call. Without a `spec`: all layers that the dtype is for.
///
/// # Errors
/// As [`convert_`].
#[doc(alias = "torch.ao.quantization.quantize_dynamic")]
#[flambeau_macros::short]
pub fn try_quantize_dynamic_(m: &mut dyn Module, spec: Option<&Spec>, dtype: DType) -> Result<()> {
    m.eval();
    let all: Vec<(String, Option<QConfig>)> = match spec {
        Some(s) => s.to_vec(),
        None => {
            let (q, of) = try_dynamic_default(dtype)?;
            of.iter().map(|n| (n.to_string(), Some(q.clone()))).collect()
        }
    };
    propagate_qconfig_(m, &all);
    try_convert_(m, Mapping::Dynamic)
}
/// Keywords of [`quantize_dynamic_with`].
#[derive(Clone, Debug)]
pub struct QuantizeDynamicOptions {
    spec: Option<Vec<(String, Option<QConfig>)>>,
    classes: Option<Vec<String>>,
    dtype: DType,
}
impl Default for QuantizeDynamicOptions {
    fn default() -> Self {
        QuantizeDynamicOptions { spec: None, classes: None, dtype: DType::QI8 }
    }
}
impl QuantizeDynamicOptions {
    /// The documented defaults.
    pub fn new() -> Self {
        Self::default()
    }
    /// Names of classes or of layers, each with its configuration. Default: all layers that the dtype is for.
    pub fn qconfig_spec(mut self, spec: &Spec) -> Self {
        (self.spec, self.classes) = (Some(spec.to_vec()), None);
        self
    }
    /// Names of classes or of layers, with the configuration of the dtype: `&["Linear"]` is Python's `{nn.Linear}`. What they leave out
    /// stays as it is, a field of type `nn::LSTM` for example, which can hold no other layer.
    pub fn classes(mut self, names: &[&str]) -> Self {
        (self.spec, self.classes) = (None, Some(names.iter().map(|n| n.to_string()).collect()));
        self
    }
    /// What weights become. Default: `DType::QI8`, Python's `torch.qint8`.
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }
}
/// A copy of a model whose linear and recurrent layers have weights of bytes; the integers of inputs are found at every call.
///
/// Layers are exchanged where a container holds them: in `Sequential`, `ModuleList`, or a field `Box<dyn Layer>`.
///
/// ```
/// use torch::ao::quantization::quantize_dynamic;
/// use torch::{nn, prelude::*};
///
/// let model = nn::Sequential::new((nn::Linear::new(4, 8), nn::ReLU::new(), nn::Linear::new(8, 2)));
/// let small = quantize_dynamic(&model);
/// let x = torch::ones([1, 4]);
/// assert!((small.call(&x) - model.call(&x)).abs().max().item::<f32>() < 0.1);
/// ```
///
/// # Panics
/// Where [`try_quantize_dynamic`] gives an error.
#[doc(alias = "torch.ao.quantization.quantize_dynamic")]
#[track_caller]
pub fn quantize_dynamic<M: Module>(m: &M) -> M {
    quantize_dynamic_with(m, QuantizeDynamicOptions::new())
}
/// [`quantize_dynamic`] with its keywords.
#[track_caller]
pub fn quantize_dynamic_with<M: Module>(m: &M, options: QuantizeDynamicOptions) -> M {
    expect(try_quantize_dynamic(m, options))
}
/// [`quantize_dynamic_with`] with an error instead of a panic.
///
/// # Errors
/// Those of the copy and of [`quantize_dynamic_`].
pub fn try_quantize_dynamic<M: Module>(m: &M, options: QuantizeDynamicOptions) -> Result<M> {
    let mut copy = m.try_deepcopy()?;
    let spec = match options.classes {
        Some(classes) => {
            let (q, _) = try_dynamic_default(options.dtype)?;
            Some(classes.into_iter().map(|n| (n, Some(q.clone()))).collect())
        }
        None => options.spec,
    };
    try_quantize_dynamic_(&mut copy, spec.as_deref(), options.dtype)?;
    Ok(copy)
}
/// Weight and bias of a convolution (or a linear map) with the batch normalisation that follows it.
///
/// ```
/// use torch::quantization::fuse_conv_bn_weights;
/// use torch::{full, ones, tensor, zeros};
/// // (2 x - 1) / 2 of a mean of 1 and a variance of 4
/// let (w, b) = fuse_conv_bn_weights(&tensor([[2.0]]), None, (&ones([1]), &full([1], 4.0)), 0.0, None, Some(&zeros([1])));
/// assert_eq!((w.item::<f32>(), b.item::<f32>()), (1.0, -0.5));
/// ```
///
/// # Errors
/// Sizes that do not fit.
#[doc(alias = "torch.nn.utils.fusion.fuse_conv_bn_weights")]
#[flambeau_macros::short]
pub fn try_fuse_conv_bn_weights(
    weight: &Tensor,
    bias: Option<&Tensor>,
    statistics: (&Tensor, &Tensor),
    eps: f64,
    bn_weight: Option<&Tensor>,
    bn_bias: Option<&Tensor>,
) -> Result<(Tensor, Tensor)> {
    let (mean, var) = statistics;
    let spread = ops::rsqrt(&ops::add(var, &crate::tensor::number(eps)?, Scalar::Int(1))?)?;
    let by = match bn_weight {
        Some(w) => ops::mul(w, &spread)?,
        None => spread.clone(),
    };
    let mut shape = vec![1; weight.dim()];
    shape[0] = -1;
    let w = ops::mul(weight, &ops::reshape(&by, &shape)?)?;
    let b = match bias {
        Some(b) => ops::sub(b, mean, Scalar::Int(1))?,
        None => ops::neg(mean)?,
    };
    let b = ops::mul(
        &ops::mul(&b, &spread)?,
        &match bn_weight {
            Some(w) => w.clone(),
            None => ops::ones_like(&spread, None, None, None, None, None)?,
        },
    )?;
    let b = match bn_bias {
        Some(x) => ops::add(&b, x, Scalar::Int(1))?,
        None => b,
    };
    Ok((w, b))
}
/// Mean, variance, eps, weight and bias of a batch normalisation.
pub(crate) type Statistics = (Tensor, Tensor, f64, Option<Tensor>, Option<Tensor>);
pub(crate) fn batch_norm_of(m: &dyn Module) -> Option<Statistics> {
    macro_rules! of {
        ($($t:ident),*) => {$(
            if let Some(b) = m.downcast_ref::<nn::$t>() {
                let (mean, var) = (b.running_mean.as_ref()?, b.running_var.as_ref()?);
                return Some((mean.tensor().clone(), var.tensor().clone(), b.options.eps, plain(&b.weight), plain(&b.bias)));
            }
        )*};
    }
    of!(BatchNorm1d, BatchNorm2d, BatchNorm3d);
    None
}
pub(crate) fn copy(m: &dyn Module) -> Result<Box<dyn Run>> {
    let run = m.as_run().ok_or_else(|| Error::missing(format!("a copy of {}", m.type_name())))?;
    let new = run.boxed_copy(&mut Memo::default())?;
    if let (Some(b), Some(q)) = (new.base(), qconfig(m)) {
        b.set_note("qconfig", qconfig_value(q));
    }
    Ok(new)
}
/// A copy of a convolution or linear map with other numbers.
pub(crate) fn with_numbers(m: &dyn Module, w: &Tensor, b: &Tensor) -> Result<Box<dyn Run>> {
    let new = copy(m)?;
    macro_rules! of {
        ($($t:ident),*) => {$(
            if let Some(c) = m.downcast_ref::<nn::$t>() {
                let mut c = c.try_deepcopy()?;
                c.weight = Parameter::try_new(&w.alias_detached(), true)?;
                c.bias = Some(Parameter::try_new(&b.alias_detached(), true)?);
                return Ok(Box::new(c));
            }
        )*};
    }
    of!(Conv1d, Conv2d, Conv3d, Linear);
    Ok(new)
}
/// A transposed convolution with the numbers of the batch normalisation that follows it.
pub(crate) fn conv_transposed_with(m: &dyn Module, bn: &dyn Module) -> Result<Box<dyn Run>> {
    ensure!(!m.is_training() && !bn.is_training(), Assertion, "Fusion only for eval!");
    let (mean, var, eps, bw, bb) = batch_norm_of(bn).ok_or_else(|| {
        Error::assertion("Only support fusing BatchNorm with tracking_running_stats set to True")
    })?;
    macro_rules! of {
        ($($t:ident),*) => {$(
            if let Some(c) = m.downcast_ref::<nn::$t>() {
                return no_grad(|| {
                    // the channels of the results stand second
                    let w = ops::transpose(&c.weight.tensor().alias_detached(), 0, 1)?;
                    let (w, b) = try_fuse_conv_bn_weights(
                        &w, plain(&c.bias).as_ref(), (&mean, &var), eps, bw.as_ref(), bb.as_ref(),
                    )?;
                    let w = ops::contiguous(&ops::transpose(&w, 0, 1)?, flambeau_core::MemoryFormat::Contiguous)?;
                    let mut c = c.try_deepcopy()?;
                    c.weight = Parameter::try_new(&w, true)?;
                    c.bias = Some(Parameter::try_new(&b.alias_detached(), true)?);
                    Ok(Box::new(c) as Box<dyn Run>)
                });
            }
        )*};
    }
    of!(ConvTranspose1d, ConvTranspose2d, ConvTranspose3d);
    Err(Error::type_(format!("a transposed convolution is expected, not {}", m.type_name())))
}
/// One module of several that follow each other.
pub(crate) fn fused(parts: &[&dyn Module], training: bool) -> Result<Box<dyn Run>> {
    let names: Vec<&str> = parts.iter().map(|m| class(*m)).collect();
    let dims = |n: &str| n.chars().rev().nth(1).filter(char::is_ascii_digit).unwrap_or('1');
    let kind = |n: &str| -> String { n.trim_end_matches(['1', '2', '3', 'd']).to_string() };
    let kinds: Vec<String> =
        names.iter().map(|n| if *n == "Linear" { n.to_string() } else { kind(n) }).collect();
    let words: Vec<&str> = kinds.iter().map(String::as_str).collect();
    let all = || parts.iter().map(|m| copy(*m)).collect::<Result<Vec<_>>>();
    let static_name = |n: String| -> &'static str {
        const NAMES: &[&str] = &[
            "ConvReLU1d",
            "ConvReLU2d",
            "ConvReLU3d",
            "LinearReLU",
            "BNReLU2d",
            "BNReLU3d",
            "ConvBn1d",
            "ConvBn2d",
            "ConvBn3d",
            "ConvBnReLU1d",
            "ConvBnReLU2d",
            "ConvBnReLU3d",
            "LinearBn1d",
        ];
        NAMES.iter().find(|x| **x == n).copied().unwrap_or("Fused")
    };
    let d = dims(names.first().copied().unwrap_or(""));
    match words[..] {
        ["Conv", "ReLU"] => Ok(Box::new(Fused::new(static_name(format!("ConvReLU{d}d")), all()?))),
        ["Linear", "ReLU"] => Ok(Box::new(Fused::new("LinearReLU", all()?))),
        ["BatchNorm", "ReLU"] => Ok(Box::new(Fused::new(static_name(format!("BNReLU{d}d")), all()?))),
        ["Conv", "BatchNorm"] | ["Conv", "BatchNorm", "ReLU"] | ["Linear", "BatchNorm"] => {
            if training {
                let relu = if words.len() == 3 { "ReLU" } else { "" };
                let name =
                    if words[0] == "Linear" { "LinearBn1d".into() } else { format!("ConvBn{relu}{d}d") };
                return Ok(Box::new(Fused::new(static_name(name), all()?)));
            }
            let (w, b) = match (conv_of(parts[0]), parts[0].downcast_ref::<nn::Linear>()) {
                (Some((_, w, b)), _) => (w, b),
                (_, Some(l)) => (l.weight.tensor().alias_detached(), plain(&l.bias)),
                _ => bail!(Missing, "fusion of a convolution with padding by name"),
            };
            let (mean, var, eps, bw, bb) = batch_norm_of(parts[1]).ok_or_else(|| {
                Error::assertion("Only support fusing BatchNorm with tracking_running_stats set to True")
            })?;
            let (w, b) = no_grad(|| {
                try_fuse_conv_bn_weights(&w, b.as_ref(), (&mean, &var), eps, bw.as_ref(), bb.as_ref())
            })?;
            let conv = with_numbers(parts[0], &w, &b)?;
            conv.eval();
            if words.len() == 2 {
                return Ok(conv);
            }
            Ok(Box::new(Fused::new(static_name(format!("ConvReLU{d}d")), vec![conv, copy(parts[2])?])))
        }
        _ => {
            let shown: Vec<String> =
                parts.iter().map(|m| format!("<class '{}'>", python_class(class(*m)))).collect();
            bail!(Assertion, "did not find fuser method for: ({}) ", shown.join(", "))
        }
    }
}
/// Where Python's class of that name stands.
pub(crate) fn python_class(name: &str) -> String {
    let room = match name {
        "Linear" | "Identity" | "Bilinear" => "linear",
        n if n.starts_with("Conv") => "conv",
        n if n.starts_with("BatchNorm") => "batchnorm",
        n if n.contains("Pool") => "pooling",
        n if n.starts_with("Dropout") => "dropout",
        "Sequential" => "container",
        _ => "activation",
    };
    format!("torch.nn.modules.{room}.{name}")
}
struct Put<'a>(&'a str, Option<Box<dyn Run>>);
impl VisitorMut for Put<'_> {
    fn parameter(&mut self, _: &str, _: &mut Parameter) -> Result<()> {
        Ok(())
    }
    fn buffer(&mut self, _: &str, _: &mut Buffer) -> Result<()> {
        Ok(())
    }
    fn module(&mut self, _: &str, _: &mut dyn Module) -> Result<()> {
        Ok(())
    }
    fn slot(&mut self, name: &str, holder: &mut dyn Module) -> Result<()> {
        if let Some(rest) = self.0.strip_prefix(name).and_then(|r| r.strip_prefix('.')) {
            let mut inner = Put(rest, self.1.take());
            visit_all_mut(holder.as_module_mut(), &mut inner)?;
            self.1 = inner.1;
        } else if self.0 == name
            && let Some(new) = self.1.take()
        {
            let class = holder.type_name().into_owned();
            holder.exchange(new).map_err(|_| {
                Error::missing(format!("another layer in the place of the field {name}, whose type is {class}: make it Box<dyn nn::Layer>"))
            })?;
        }
        Ok(())
    }
}
/// Puts a module in the place of the one at a dotted path.
pub(crate) fn put(m: &mut dyn Module, path: &str, new: Box<dyn Run>) -> Result<()> {
    visit_all_mut(m, &mut Put(path, Some(new)))
}
/// Joins layers that follow each other, in place: each list names some by their dotted paths, such as a convolution, its batch
/// normalisation and a ReLU. The first becomes what they are together, the others give their inputs. For training
/// (`training`) batch normalisation stays apart within it.
///
/// # Errors
/// Names that there are none of, modules that are not fused, batch normalisation of a module in training mode.
#[doc(alias = "torch.ao.quantization.fuse_modules")]
#[doc(alias = "torch.ao.quantization.fuse_modules_qat")]
#[flambeau_macros::short]
pub fn try_fuse_modules_(m: &mut dyn Module, lists: &[Vec<String>], training: bool) -> Result<()> {
    for list in lists {
        let new = {
            let own: &dyn Module = m;
            let named = own.named_modules();
            let parts = list.iter().map(|n| {
                let found = named.iter().find(|(name, _)| name == n).map(|(_, m)| *m);
                found.ok_or_else(|| {
                    let last = n.rsplit('.').next().unwrap_or(n);
                    Error::attribute(format!("'{}' object has no attribute '{last}'", own.type_name()))
                })
            });
            let parts = parts.collect::<Result<Vec<_>>>()?;
            let has_norm = parts.iter().any(|p| batch_norm_of(*p).is_some());
            if has_norm && !training {
                ensure!(!parts[0].is_training(), Assertion, "Fusion only for eval!");
            }
            let new = fused(&parts, training)?;
            new.set_training(parts[0].is_training());
            if let (Some(b), Some(q)) = (new.base(), qconfig(parts[0])) {
                b.set_note("qconfig", qconfig_value(q));
            }
            new
        };
        let mode = new.is_training();
        let mut new = Some(new);
        for name in list {
            let module: Box<dyn Run> = match new.take() {
                Some(n) => n,
                None => {
                    let i = nn::Identity::new();
                    i.set_training(mode);
                    Box::new(i)
                }
            };
            put(m, name, module)?;
        }
    }
    Ok(())
}
