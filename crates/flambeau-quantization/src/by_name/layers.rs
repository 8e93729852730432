//! Layers by name: `torch.ao.nn.quantized`, `torch.ao.nn.intrinsic`, and stubs.

use crate::nn::conv::{Conv, ConvShape};
use crate::nn::conv_add::ConvAdd2d;
use crate::nn::embedding::Embedding;
use crate::nn::float_functional::Functional;
use crate::nn::layer::{Layer, LayerKind};
use crate::nn::linear::{Linear, LinearKind};
use crate::nn::qat::Qat;
use crate::nn::quantizable;
use crate::nn::recurrent::{Recurrent, RecurrentShape, Step};
use crate::stubs::{Fused, QuantWrapper, Stub};
use flambeau_core::dispatch::object::{Constructor, Kwargs, ObjectRef};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::{DType, Error, Result, Tensor, Value, ops};
use flambeau_library::object::register_class;
use flambeau_library::slots::Slots;
use flambeau_nn as nn;
use flambeau_nn::internal::{ModuleObject, Run};

type Made = Result<ObjectRef>;

fn or<T: FromValue>(s: &Slots<'_>, i: usize, default: T) -> Result<T> {
    Ok(s.get(i)?.unwrap_or(default))
}
fn must<T: FromValue>(s: &Slots<'_>, i: usize) -> Result<T> {
    T::from_value(s.must(i)?)
}
fn ints(s: &Slots<'_>, i: usize, n: usize, default: i64) -> Result<Vec<i64>> {
    match s.values[i] {
        None | Some(Value::None) => Ok(vec![default; n]),
        Some(Value::Int(v)) => Ok(vec![*v; n]),
        Some(v) => Vec::<i64>::from_value(v),
    }
}
fn linear(a: &[Value], k: &Kwargs, kind: LinearKind, relu: bool) -> Made {
    let s = Slots::new("Linear", &["in_features", "out_features", "bias_", "dtype"], a, k)?;
    let (i, o) = (must(&s, 0)?, must(&s, 1)?);
    Ok(ModuleObject::make(Linear::new(i, o, or(&s, 2, true)?, or(&s, 3, DType::QI8)?, kind, relu)?))
}
fn conv(a: &[Value], k: &Kwargs, n: usize, relu: bool) -> Made {
    conv_of(a, k, n, relu).map(ModuleObject::make)
}
fn dynamic_conv(a: &[Value], k: &Kwargs, n: usize) -> Made {
    Ok(ModuleObject::make(conv_of(a, k, n, false)?.into_dynamic()))
}
fn conv_of(a: &[Value], k: &Kwargs, n: usize, relu: bool) -> Result<Conv> {
    const P: &[&str] = &[
        "in_channels",
        "out_channels",
        "kernel_size",
        "stride",
        "padding",
        "dilation",
        "groups",
        "bias",
        "padding_mode",
        "device",
        "dtype",
        "reduce_range",
    ];
    let s = Slots::new("Conv", P, a, k)?;
    s.must(2)?;
    let shape = ConvShape {
        in_channels: must(&s, 0)?,
        out_channels: must(&s, 1)?,
        kernel_size: ints(&s, 2, n, 1)?,
        stride: ints(&s, 3, n, 1)?,
        padding: ints(&s, 4, n, 0)?,
        dilation: ints(&s, 5, n, 1)?,
        groups: or(&s, 6, 1)?,
        output_padding: vec![0; n],
        transposed: false,
    };
    Conv::new(shape, or(&s, 7, true)?, relu)
}
fn conv_transpose(a: &[Value], k: &Kwargs, n: usize) -> Made {
    conv_transpose_of(a, k, n).map(ModuleObject::make)
}
fn dynamic_conv_transpose(a: &[Value], k: &Kwargs, n: usize) -> Made {
    Ok(ModuleObject::make(conv_transpose_of(a, k, n)?.into_dynamic()))
}
fn conv_transpose_of(a: &[Value], k: &Kwargs, n: usize) -> Result<Conv> {
    const P: &[&str] = &[
        "in_channels",
        "out_channels",
        "kernel_size",
        "stride",
        "padding",
        "output_padding",
        "groups",
        "bias",
        "dilation",
        "padding_mode",
        "device",
        "dtype",
    ];
    let s = Slots::new("ConvTranspose", P, a, k)?;
    s.must(2)?;
    let shape = ConvShape {
        in_channels: must(&s, 0)?,
        out_channels: must(&s, 1)?,
        kernel_size: ints(&s, 2, n, 1)?,
        stride: ints(&s, 3, n, 1)?,
        padding: ints(&s, 4, n, 0)?,
        output_padding: ints(&s, 5, n, 0)?,
        groups: or(&s, 6, 1)?,
        dilation: ints(&s, 8, n, 1)?,
        transposed: true,
    };
    Conv::new(shape, or(&s, 7, true)?, false)
}
/// The arguments that are given, as the text shows them.
fn shown(parts: &[(&str, String, bool)]) -> String {
    parts.iter().filter(|(_, _, show)| *show).map(|(name, v, _)| format!(", {name}={v}")).collect()
}
fn truth(v: bool) -> String {
    if v { "True".into() } else { "False".into() }
}
fn recurrent(a: &[Value], k: &Kwargs, class: &'static str, step: Step) -> Made {
    const P: &[&str] = &[
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
        "dtype",
    ];
    let s = Slots::new("RNNBase", P, a, k)?;
    let (input, hidden): (i64, i64) = (must(&s, 0)?, must(&s, 1)?);
    let (layers, bias, batch_first): (i64, bool, bool) = (or(&s, 2, 1)?, or(&s, 3, true)?, or(&s, 4, false)?);
    let (dropout, bidirectional): (f64, bool) = (dropout_of(&s, 5)?, or(&s, 6, false)?);
    let text = format!("{input}, {hidden}")
        + &shown(&[
            ("num_layers", layers.to_string(), layers != 1),
            ("bias", truth(bias), !bias),
            ("batch_first", truth(batch_first), batch_first),
            ("dropout", flambeau_core::text::PyText::py_text(&dropout), dropout != 0.0),
            ("bidirectional", truth(bidirectional), bidirectional),
        ]);
    let shape = RecurrentShape { class, step, input, hidden, layers, bias, batch_first, bidirectional, text };
    Ok(ModuleObject::make(Recurrent::new(shape, or(&s, 7, DType::QI8)?)?))
}
fn cell(a: &[Value], k: &Kwargs, class: &'static str, step: Option<Step>) -> Made {
    const PLAIN: &[&str] = &["input_size", "hidden_size", "bias", "dtype"];
    const ANY: &[&str] = &["input_size", "hidden_size", "bias", "nonlinearity", "dtype"];
    let s = Slots::new(class, if step.is_some() { PLAIN } else { ANY }, a, k)?;
    let (input, hidden, bias): (i64, i64, bool) = (must(&s, 0)?, must(&s, 1)?, or(&s, 2, true)?);
    let (step, kind) = match step {
        Some(step) => (step, "tanh".to_string()),
        None => {
            let kind = or(&s, 3, "tanh".to_string())?;
            (if kind == "relu" { Step::Relu } else { Step::Tanh }, kind)
        }
    };
    let shown_kind = kind != "tanh";
    let text = format!("{input}, {hidden}")
        + &shown(&[("bias", truth(bias), !bias), ("nonlinearity", kind, shown_kind)]);
    let (layers, batch_first, bidirectional) = (1, false, false);
    let shape = RecurrentShape { class, step, input, hidden, layers, bias, batch_first, bidirectional, text };
    let dtype = or(&s, if class == "RNNCell" { 4 } else { 3 }, DType::QI8)?;
    Ok(ModuleObject::make(Recurrent::new(shape, dtype)?))
}
/// A layer of quantization-aware training: the float layer's arguments and a configuration.
fn trained(a: &[Value], k: &Kwargs, name: &'static str) -> Made {
    let assertion = |text: String| Error::new(flambeau_core::ErrorKind::Assertion, text);
    type Given = Vec<(String, Value)>;
    let (mine, others): (Given, Given) = k.iter().cloned().partition(|(n, _)| n == "qconfig");
    let q = mine.first().and_then(|(_, v)| crate::objects::qconfig_in(v)).flatten();
    let Some(q) = q else { return Err(assertion("qconfig must be provided for QAT module".into())) };
    if name.starts_with("Embedding") {
        let scheme = match q.weight.build()? {
            crate::qconfig::Made::Observer(o) => o.spec.qscheme,
            crate::qconfig::Made::FakeQuantize(f) => f.spec.observer.qscheme,
            crate::qconfig::Made::Identity => flambeau_core::tensor::quantized::QScheme::PerTensorAffine,
        };
        if scheme != flambeau_core::tensor::quantized::QScheme::PerChannelAffineFloatQParams {
            return Err(assertion(format!(
                "{} weights requires a qscheme of torch.per_channel_affine_float_qparams Got {scheme}",
                if name == "Embedding" { "Embedding" } else { "Embedding Bag" }
            )));
        }
    }
    let float = flambeau_library::object::construct(&format!("torch.nn.{name}"), a, &others)?;
    let m = Qat::new(name, &[&*module(&Value::Object(float))?], &q)?;
    crate::flow::set_qconfig(&m, Some(q));
    Ok(ModuleObject::make(m))
}
fn lstm(a: &[Value], k: &Kwargs, quantized: bool) -> Made {
    const P: &[&str] = &[
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
        "device",
        "dtype",
        "split_gates",
    ];
    let s = Slots::new("LSTM", P, a, k)?;
    of_float32(&s, &[7, 8, 9], P)?;
    dropout_of(&s, 5)?;
    let mut m = quantizable::LSTM::try_new(quantizable::LstmShape {
        input_size: must(&s, 0)?,
        hidden_size: must(&s, 1)?,
        num_layers: or(&s, 2, 1)?,
        bias: or(&s, 3, true)?,
        batch_first: or(&s, 4, false)?,
        bidirectional: or(&s, 6, false)?,
    })?;
    if quantized {
        m.become_quantized();
    }
    Ok(ModuleObject::make(m))
}
fn attention(a: &[Value], k: &Kwargs, quantized: bool) -> Made {
    const P: &[&str] = &[
        "embed_dim",
        "num_heads",
        "dropout",
        "bias",
        "add_bias_kv",
        "add_zero_attn",
        "kdim",
        "vdim",
        "batch_first",
        "device",
        "dtype",
    ];
    let s = Slots::new("MultiheadAttention", P, a, k)?;
    of_float32(&s, &[9, 10], P)?;
    let mut o = nn::MultiheadAttentionOptions::new(must::<i64>(&s, 0)?, must::<i64>(&s, 1)?)
        .dropout(or::<f64>(&s, 2, 0.0)?)
        .bias(or(&s, 3, true)?)
        .add_bias_kv(or(&s, 4, false)?)
        .add_zero_attn(or(&s, 5, false)?)
        .batch_first(or(&s, 8, false)?);
    (o.kdim, o.vdim) = (s.get(6)?, s.get(7)?);
    let mut m = quantizable::MultiheadAttention::try_new(o)?;
    if quantized {
        m.become_quantized()?;
    }
    Ok(ModuleObject::make(m))
}
/// `ConvAdd2d(conv, add)`, where `add` is the sum of two tensors.
fn conv_add(a: &[Value], k: &Kwargs, relu: bool) -> Made {
    let s = Slots::new("ConvAdd2d", if relu { &["conv", "add", "relu"] } else { &["conv", "add"] }, a, k)?;
    let sum = match s.must(1)? {
        Value::Object(o) => o.documented_name().is_some_and(|n| matches!(n, "torch.add" | "operator.add")),
        _ => false,
    };
    if !sum {
        return Err(Error::missing("ConvAdd2d of another operator than torch.add"));
    }
    Ok(ModuleObject::make(ConvAdd2d::of(module(s.must(0)?)?, relu)))
}
/// Parts are float32 on the CPU, and gates are in one linear map.
fn of_float32(s: &Slots<'_>, places: &[usize], names: &[&str]) -> Result<()> {
    for i in places {
        match s.values[*i] {
            None | Some(Value::None | Value::Bool(false) | Value::DType(DType::F32)) => {}
            Some(_) => return Err(Error::missing(format!("a quantizable layer with {}", names[*i]))),
        }
    }
    Ok(())
}
fn dropout_of(s: &Slots<'_>, i: usize) -> Result<f64> {
    let dropout: f64 = or(s, i, 0.0)?;
    if !(0.0..=1.0).contains(&dropout) || matches!(s.values[i], Some(Value::Bool(_))) {
        return Err(Error::value(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed",
        ));
    }
    Ok(dropout)
}
fn layer(kind: LayerKind, scale: f64, zero: i64) -> Made {
    Ok(ModuleObject::make(Layer::new(kind, scale, zero)))
}
fn plain(t: Option<Tensor>) -> Option<Tensor> {
    use flambeau_core::internal::RawTensor as _;
    t.map(|t| t.alias_detached())
}
fn instance_norm(a: &[Value], k: &Kwargs, dims: usize) -> Made {
    const P: &[&str] =
        &["num_features", "weight", "bias", "scale", "zero_point", "eps", "momentum", "affine"];
    let s = Slots::new("InstanceNorm", P, a, k)?;
    let (weight, bias) = (plain(s.get(1)?), plain(s.get(2)?));
    let kind = LayerKind::InstanceNorm { dims, channels: must(&s, 0)?, weight, bias, eps: or(&s, 5, 1e-5)? };
    layer(kind, must(&s, 3)?, must(&s, 4)?)
}
fn batch_norm(a: &[Value], k: &Kwargs, dims: usize, relu: bool) -> Made {
    let s = Slots::new("BatchNorm", &["num_features", "eps", "momentum"], a, k)?;
    let n: i64 = must(&s, 0)?;
    let ones = || ops::ones(&[n], Some(DType::F32), None, None, None);
    let zeros = || ops::zeros(&[n], Some(DType::F32), None, None, None);
    let kind = LayerKind::BatchNorm {
        dims,
        weight: ones()?,
        bias: zeros()?,
        mean: zeros()?,
        var: ones()?,
        eps: or(&s, 1, 1e-5)?,
        relu,
    };
    layer(kind, 1.0, 0)
}
fn embedding(a: &[Value], k: &Kwargs, bag: bool) -> Made {
    const E: &[&str] = &[
        "num_embeddings",
        "embedding_dim",
        "padding_idx",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "sparse",
        "_weight",
        "dtype",
    ];
    const B: &[&str] = &[
        "num_embeddings",
        "embedding_dim",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "mode",
        "sparse",
        "_weight",
        "include_last_offset",
        "dtype",
    ];
    let s = Slots::new("Embedding", if bag { B } else { E }, a, k)?;
    let dtype = or(&s, if bag { 9 } else { 8 }, DType::QU8)?;
    let of = if bag { Some((or(&s, 5, "sum".to_string())?, or(&s, 8, false)?)) } else { None };
    Ok(ModuleObject::make(Embedding::zeros(must(&s, 0)?, must(&s, 1)?, dtype, of)?))
}
/// Modules that become part of another one.
pub(super) fn module(v: &Value) -> Result<Box<dyn Run>> {
    let none = || Error::type_(format!("{} is not a Module subclass", v.type_name()));
    match v {
        Value::Object(o) => o.downcast::<ModuleObject>().ok_or_else(none)?.take(),
        _ => Err(none()),
    }
}
fn fused(name: &'static str, a: &[Value]) -> Made {
    Ok(ModuleObject::make(Fused::new(name, a.iter().map(module).collect::<Result<_>>()?)))
}
fn with_rule(
    name: &'static str,
    a: &[Value],
    k: &Kwargs,
    kind: impl FnOnce(f64) -> LayerKind,
    last: (&'static str, f64),
) -> Made {
    let names: &'static [&'static str] = match last.0 {
        "negative_slope" => &["scale", "zero_point", "negative_slope"],
        _ => &["scale", "zero_point", "alpha"],
    };
    let s = Slots::new(name, names, a, k)?;
    layer(kind(or(&s, 2, last.1)?), must(&s, 0)?, must(&s, 1)?)
}

macro_rules! classes {
    ($($spaces:ident $name:literal => |$a:ident, $k:ident| $make:expr;)*) => {
        const CLASSES: &[(&[&str], &str, Constructor)] = &[$(($spaces, $name, |$a, $k| $make)),*];
    };
}
const Q: &[&str] = &["torch.ao.nn.quantized", "torch.nn.quantized", "torch.ao.nn.quantized.modules"];
const D: &[&str] = &["torch.ao.nn.quantized.dynamic", "torch.nn.quantized.dynamic"];
const T: &[&str] = &["torch.ao.nn.qat", "torch.nn.qat"];
const I: &[&str] = &["torch.ao.nn.intrinsic", "torch.nn.intrinsic"];
const IQ: &[&str] = &["torch.ao.nn.intrinsic.quantized", "torch.nn.intrinsic.quantized"];
const IQD: &[&str] = &["torch.ao.nn.intrinsic.quantized.dynamic", "torch.nn.intrinsic.quantized.dynamic"];
const QA: &[&str] = &["torch.ao.nn.quantizable", "torch.nn.quantizable"];
const AQ: &[&str] = &["torch.ao.quantization", "torch.quantization"];
classes! {
    Q "Linear" => |a, k| linear(a, k, LinearKind::Static, false);
    D "Linear" => |a, k| linear(a, k, LinearKind::Dynamic, false);
    D "Conv1d" => |a, k| dynamic_conv(a, k, 1);
    D "Conv2d" => |a, k| dynamic_conv(a, k, 2);
    D "Conv3d" => |a, k| dynamic_conv(a, k, 3);
    D "ConvTranspose1d" => |a, k| dynamic_conv_transpose(a, k, 1);
    D "ConvTranspose2d" => |a, k| dynamic_conv_transpose(a, k, 2);
    D "ConvTranspose3d" => |a, k| dynamic_conv_transpose(a, k, 3);
    D "LSTM" => |a, k| recurrent(a, k, "LSTM", Step::Lstm);
    D "GRU" => |a, k| recurrent(a, k, "GRU", Step::Gru);
    D "LSTMCell" => |a, k| cell(a, k, "LSTMCell", Some(Step::Lstm));
    D "GRUCell" => |a, k| cell(a, k, "GRUCell", Some(Step::Gru));
    D "RNNCell" => |a, k| cell(a, k, "RNNCell", None);
    T "Linear" => |a, k| trained(a, k, "Linear");
    T "Conv1d" => |a, k| trained(a, k, "Conv1d");
    T "Conv2d" => |a, k| trained(a, k, "Conv2d");
    T "Conv3d" => |a, k| trained(a, k, "Conv3d");
    T "Embedding" => |a, k| trained(a, k, "Embedding");
    T "EmbeddingBag" => |a, k| trained(a, k, "EmbeddingBag");
    IQ "LinearReLU" => |a, k| linear(a, k, LinearKind::Static, true);
    IQD "LinearReLU" => |a, k| linear(a, k, LinearKind::Dynamic, true);
    Q "Conv1d" => |a, k| conv(a, k, 1, false);
    Q "Conv2d" => |a, k| conv(a, k, 2, false);
    Q "Conv3d" => |a, k| conv(a, k, 3, false);
    IQ "ConvReLU1d" => |a, k| conv(a, k, 1, true);
    IQ "ConvReLU2d" => |a, k| conv(a, k, 2, true);
    IQ "ConvReLU3d" => |a, k| conv(a, k, 3, true);
    Q "ConvTranspose1d" => |a, k| conv_transpose(a, k, 1);
    Q "ConvTranspose2d" => |a, k| conv_transpose(a, k, 2);
    Q "ConvTranspose3d" => |a, k| conv_transpose(a, k, 3);
    Q "ReLU6" => |a, k| {
        Slots::new("ReLU6", &["inplace"], a, k)?;
        layer(LayerKind::ReLU6, 1.0, 0)
    };
    Q "Hardswish" => |a, k| with_rule("Hardswish", a, k, |_| LayerKind::Hardswish, ("alpha", 1.0));
    Q "ELU" => |a, k| with_rule("ELU", a, k, |alpha| LayerKind::Elu { alpha }, ("alpha", 1.0));
    Q "LeakyReLU" => |a, k| with_rule("LeakyReLU", a, k, |slope| LayerKind::LeakyReLU { slope }, ("negative_slope", 0.01));
    Q "Sigmoid" => |a, k| with_rule("Sigmoid", a, k, |_| LayerKind::Sigmoid, ("alpha", 1.0));
    Q "Softmax" => |a, k| {
        let s = Slots::new("Softmax", &["dim", "scale", "zero_point"], a, k)?;
        layer(LayerKind::Softmax { dim: or(&s, 0, -1)? }, or(&s, 1, 1.0)?, or(&s, 2, 0)?)
    };
    Q "Dropout" => |a, k| {
        let s = Slots::new("Dropout", &["p", "inplace"], a, k)?;
        layer(LayerKind::Dropout { p: or(&s, 0, 0.5)? }, 1.0, 0)
    };
    Q "MaxPool2d" => |a, k| flambeau_library::object::construct("torch.nn.MaxPool2d", a, k);
    Q "LayerNorm" => |a, k| {
        const P: &[&str] = &["normalized_shape", "weight", "bias", "scale", "zero_point", "eps", "elementwise_affine"];
        let s = Slots::new("LayerNorm", P, a, k)?;
        s.must(0)?;
        let (weight, bias) = (plain(s.get(1)?), plain(s.get(2)?));
        let kind = LayerKind::LayerNorm { shape: ints(&s, 0, 1, 1)?, weight, bias, eps: or(&s, 5, 1e-5)? };
        layer(kind, must(&s, 3)?, must(&s, 4)?)
    };
    Q "GroupNorm" => |a, k| {
        const P: &[&str] = &["num_groups", "num_channels", "weight", "bias", "scale", "zero_point", "eps", "affine"];
        let s = Slots::new("GroupNorm", P, a, k)?;
        let (weight, bias) = (plain(s.get(2)?), plain(s.get(3)?));
        let kind = LayerKind::GroupNorm { groups: must(&s, 0)?, channels: must(&s, 1)?, weight, bias, eps: or(&s, 6, 1e-5)? };
        layer(kind, must(&s, 4)?, must(&s, 5)?)
    };
    Q "InstanceNorm1d" => |a, k| instance_norm(a, k, 1);
    Q "InstanceNorm2d" => |a, k| instance_norm(a, k, 2);
    Q "InstanceNorm3d" => |a, k| instance_norm(a, k, 3);
    Q "BatchNorm2d" => |a, k| batch_norm(a, k, 2, false);
    Q "BatchNorm3d" => |a, k| batch_norm(a, k, 3, false);
    IQ "BNReLU2d" => |a, k| batch_norm(a, k, 2, true);
    IQ "BNReLU3d" => |a, k| batch_norm(a, k, 3, true);
    Q "Quantize" => |a, k| {
        let s = Slots::new("Quantize", &["scale", "zero_point", "dtype"], a, k)?;
        layer(LayerKind::Quantize { dtype: must(&s, 2)? }, must(&s, 0)?, must(&s, 1)?)
    };
    Q "DeQuantize" => |a, k| {
        Slots::new("DeQuantize", &[], a, k)?;
        layer(LayerKind::DeQuantize, 1.0, 0)
    };
    Q "Embedding" => |a, k| embedding(a, k, false);
    Q "EmbeddingBag" => |a, k| embedding(a, k, true);
    Q "FloatFunctional" => |_a, _k| Ok(ModuleObject::make(Functional::new(false)));
    Q "QFunctional" => |_a, _k| Ok(ModuleObject::make(Functional::new(true)));
    Q "FXFloatFunctional" => |_a, _k| Ok(ModuleObject::make(Functional::of_graphs()));
    I "LinearLeakyReLU" => |a, _k| fused("LinearLeakyReLU", a);
    I "LinearTanh" => |a, _k| fused("LinearTanh", a);
    I "LinearReLU" => |a, _k| fused("LinearReLU", a);
    I "ConvReLU1d" => |a, _k| fused("ConvReLU1d", a);
    I "ConvReLU2d" => |a, _k| fused("ConvReLU2d", a);
    I "ConvReLU3d" => |a, _k| fused("ConvReLU3d", a);
    I "ConvBn1d" => |a, _k| fused("ConvBn1d", a);
    I "ConvBn2d" => |a, _k| fused("ConvBn2d", a);
    I "ConvBn3d" => |a, _k| fused("ConvBn3d", a);
    I "ConvBnReLU1d" => |a, _k| fused("ConvBnReLU1d", a);
    I "ConvBnReLU2d" => |a, _k| fused("ConvBnReLU2d", a);
    I "ConvBnReLU3d" => |a, _k| fused("ConvBnReLU3d", a);
    I "BNReLU2d" => |a, _k| fused("BNReLU2d", a);
    I "BNReLU3d" => |a, _k| fused("BNReLU3d", a);
    I "LinearBn1d" => |a, _k| fused("LinearBn1d", a);
    QA "LSTMCell" => |a, k| {
        const P: &[&str] = &["input_dim", "hidden_dim", "bias", "device", "dtype", "split_gates"];
        let s = Slots::new("LSTMCell", P, a, k)?;
        of_float32(&s, &[3, 4, 5], P)?;
        Ok(ModuleObject::make(quantizable::LSTMCell::try_new(must(&s, 0)?, must(&s, 1)?, or(&s, 2, true)?)?))
    };
    QA "LSTM" => |a, k| lstm(a, k, false);
    Q "LSTM" => |a, k| lstm(a, k, true);
    QA "MultiheadAttention" => |a, k| attention(a, k, false);
    Q "MultiheadAttention" => |a, k| attention(a, k, true);
    I "ConvAdd2d" => |a, k| conv_add(a, k, false);
    I "ConvAddReLU2d" => |a, k| conv_add(a, k, true);
    AQ "QuantStub" => |a, k| {
        let s = Slots::new("QuantStub", &["qconfig"], a, k)?;
        let m = Stub::quant();
        if let Some(v) = s.values[0]
            && let Some(q) = crate::objects::qconfig_in(v)
        {
            crate::flow::set_qconfig(&m, q);
        }
        Ok(ModuleObject::make(m))
    };
    AQ "DeQuantStub" => |_a, _k| Ok(ModuleObject::make(Stub::dequant()));
    AQ "QuantWrapper" => |a, k| {
        let s = Slots::new("QuantWrapper", &["module"], a, k)?;
        Ok(ModuleObject::make(QuantWrapper::new(module(s.must(0)?)?)))
    };
}
pub(super) fn register() {
    for (spaces, name, make) in CLASSES {
        for space in *spaces {
            register_class(&format!("{space}.{name}"), *make);
        }
    }
}
