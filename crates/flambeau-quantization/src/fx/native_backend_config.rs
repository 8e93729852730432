//! What this library's kernels compute on quantized tensors, as PyTorch's own description of its native engines.

use super::backend_config::{
    BackendConfig, BackendPatternConfig as P, DTypeConfig, DTypeWithConstraints, ObservationType,
};
use crate::flow::fused;
use crate::fusers::{
    Fuser, try_fuse_conv_bn, try_fuse_conv_bn_relu, try_fuse_convtranspose_bn, try_fuse_linear_bn,
};
use flambeau_core::{DType, Error, Result};
use flambeau_nn::Module;
use flambeau_nn::internal::Run;

fn quint8() -> DTypeConfig {
    DTypeConfig::new().input_dtype(DType::QU8).output_dtype(DType::QU8)
}
fn weighted() -> DTypeConfig {
    quint8().weight_dtype(DType::QI8).bias_dtype(DType::F32)
}
fn dynamic(input: DType, weight: DType) -> DTypeConfig {
    DTypeConfig::new()
        .input_dtype(input)
        .output_dtype(DType::F32)
        .weight_dtype(weight)
        .bias_dtype(DType::F32)
        .is_dynamic(true)
}
fn weight_only(weight: DType) -> DTypeConfig {
    DTypeConfig::new().input_dtype(DType::F32).output_dtype(DType::F32).weight_dtype(weight)
}

/// Fusers of lists of layers.
fn join(is_qat: bool, parts: &[&dyn Module]) -> Result<Box<dyn Run>> {
    fused(parts, is_qat)
}
fn conv_bn(is_qat: bool, parts: &[&dyn Module]) -> Result<Box<dyn Run>> {
    match parts {
        [c, b] => try_fuse_conv_bn(is_qat, *c, *b),
        _ => Err(wrong(parts.len())),
    }
}
fn conv_bn_relu(is_qat: bool, parts: &[&dyn Module]) -> Result<Box<dyn Run>> {
    match parts {
        [c, b, r] => try_fuse_conv_bn_relu(is_qat, *c, *b, *r),
        _ => Err(wrong(parts.len())),
    }
}
fn linear_bn(is_qat: bool, parts: &[&dyn Module]) -> Result<Box<dyn Run>> {
    match parts {
        [l, b] => try_fuse_linear_bn(is_qat, *l, *b),
        _ => Err(wrong(parts.len())),
    }
}
fn transposed_bn(is_qat: bool, parts: &[&dyn Module]) -> Result<Box<dyn Run>> {
    match parts {
        [c, b] => try_fuse_convtranspose_bn(is_qat, *c, *b),
        _ => Err(wrong(parts.len())),
    }
}
#[cold]
fn wrong(n: usize) -> Error {
    Error::type_(format!("{n} layers are not joined here"))
}

const RELUS: [&str; 2] = ["torch.nn.ReLU", "torch.nn.functional.relu"];

fn linear(d: &[DTypeConfig]) -> Vec<P> {
    let weighted = |name: &str| {
        P::new(&[name])
            .set_dtype_configs(d)
            .set_root_module("torch.nn.Linear")
            .set_reference_quantized_module("torch.ao.nn.quantized.reference.Linear")
    };
    let joined = |pattern: &[&str], f: Fuser, class: &str| {
        P::new(pattern).set_dtype_configs(d).set_fuser_method(f).set_fused_module(class)
    };
    let mut all = vec![
        weighted("torch.nn.Linear").set_qat_module("torch.ao.nn.qat.Linear"),
        weighted("torch.ao.nn.qat.Linear"),
        P::new(&["torch.nn.functional.linear"]).set_dtype_configs(d).with_weight_at(1, 2),
    ];
    for relu in RELUS {
        all.push(joined(&["torch.nn.Linear", relu], join, "torch.ao.nn.intrinsic.LinearReLU"));
        all.push(P::new(&["torch.nn.functional.linear", relu]).set_dtype_configs(d).with_weight_at(1, 2));
    }
    all.push(
        weighted("torch.ao.nn.intrinsic.LinearReLU").set_qat_module("torch.ao.nn.intrinsic.qat.LinearReLU"),
    );
    all.push(weighted("torch.ao.nn.intrinsic.qat.LinearReLU"));
    let pair = ["torch.nn.Linear", "torch.nn.BatchNorm1d"];
    all.push(joined(&pair, linear_bn, "torch.ao.nn.intrinsic.LinearBn1d"));
    all.push(
        weighted("torch.ao.nn.intrinsic.LinearBn1d").set_qat_module("torch.ao.nn.intrinsic.qat.LinearBn1d"),
    );
    all.push(weighted("torch.ao.nn.intrinsic.qat.LinearBn1d"));
    all
}
fn conv(n: usize, d: &[DTypeConfig]) -> Vec<P> {
    let root = format!("torch.nn.Conv{n}d");
    let norm = format!("torch.nn.BatchNorm{n}d");
    let reference = format!("torch.ao.nn.quantized.reference.Conv{n}d");
    let function = format!("torch.nn.functional.conv{n}d");
    let weighted = |name: &str| {
        P::new(&[name]).set_dtype_configs(d).set_root_module(&root).set_reference_quantized_module(&reference)
    };
    let qat = format!("torch.ao.nn.qat.Conv{n}d");
    let mut all = vec![
        weighted(&root).set_qat_module(&qat),
        weighted(&qat),
        P::new(&[&function]).set_dtype_configs(d).with_weight_at(1, 2),
    ];
    for relu in RELUS {
        all.push(
            P::new(&[&root, relu])
                .set_dtype_configs(d)
                .set_fuser_method(join)
                .set_fused_module(&format!("torch.ao.nn.intrinsic.ConvReLU{n}d")),
        );
        all.push(P::new(&[&function, relu]).set_dtype_configs(d).with_weight_at(1, 2));
        all.push(
            P::new(&[&root, &norm, relu])
                .set_dtype_configs(d)
                .set_fuser_method(conv_bn_relu)
                .set_fused_module(&format!("torch.ao.nn.intrinsic.ConvBnReLU{n}d")),
        );
    }
    all.push(
        P::new(&[&root, &norm])
            .set_dtype_configs(d)
            .set_fuser_method(conv_bn)
            .set_fused_module(&format!("torch.ao.nn.intrinsic.ConvBn{n}d")),
    );
    for kind in ["ConvReLU", "ConvBn", "ConvBnReLU"] {
        let trained = format!("torch.ao.nn.intrinsic.qat.{kind}{n}d");
        all.push(weighted(&format!("torch.ao.nn.intrinsic.{kind}{n}d")).set_qat_module(&trained));
        all.push(weighted(&trained));
    }
    let transposed = format!("torch.nn.ConvTranspose{n}d");
    let of_transposed = |p: P| {
        p.set_dtype_configs(d)
            .set_root_module(&transposed)
            .set_reference_quantized_module(&format!("torch.ao.nn.quantized.reference.ConvTranspose{n}d"))
    };
    all.push(of_transposed(P::new(&[&transposed])));
    all.push(of_transposed(P::new(&[&transposed, &norm])).set_fuser_method(transposed_bn));
    all.push(
        P::new(&[&format!("torch.nn.functional.conv_transpose{n}d")])
            .set_dtype_configs(d)
            .with_weight_at(1, 2),
    );
    all
}
fn binary(d: &[DTypeConfig]) -> Vec<P> {
    use ObservationType::*;
    // with a number the result keeps the observer of the tensor: its rule follows from the number
    let by_tensors =
        [OutputUseDifferentObserverAsInput, OutputShareObserverWithInput, OutputUseDifferentObserverAsInput];
    let mut all = Vec::new();
    for op in ["torch.add", "torch.mul"] {
        for relu in RELUS {
            all.push(P::new(&[op, relu]).set_dtype_configs(d).observed_by_tensors(by_tensors));
        }
        all.push(P::new(&[op]).set_dtype_configs(d).observed_by_tensors(by_tensors));
    }
    all.push(P::new(&["torch.matmul"]).set_dtype_configs(d));
    all
}
/// Classes and functions with results of a scale of their own.
const OWN_RULE: &[&str] = &[
    "torch.nn.ELU",
    "torch.nn.LeakyReLU",
    "torch.nn.Hardswish",
    "torch.nn.InstanceNorm1d",
    "torch.nn.InstanceNorm2d",
    "torch.nn.InstanceNorm3d",
    "torch.nn.Dropout",
    "torch.nn.PReLU",
    "torch.nn.functional.elu",
    "torch.nn.functional.hardswish",
    "torch.nn.functional.leaky_relu",
    "torch.nn.functional.dropout",
];
/// Those whose results lie from 0 to 1, and from -1 to 1.
const TO_ONE: &[&str] = &[
    "torch.nn.Hardsigmoid",
    "hardsigmoid",
    "hardsigmoid_",
    "torch.nn.Sigmoid",
    "sigmoid",
    "sigmoid_",
    "torch.nn.Softmax",
];
const AROUND_ZERO: &[&str] = &["torch.nn.Tanh", "tanh", "tanh_"];
/// Those whose results have the scale of the input.
const SAME_RULE: &[&str] = &[
    "torch.nn.AdaptiveAvgPool1d",
    "torch.nn.AdaptiveAvgPool2d",
    "torch.nn.AdaptiveAvgPool3d",
    "torch.nn.AvgPool1d",
    "torch.nn.AvgPool2d",
    "torch.nn.AvgPool3d",
    "torch.nn.Hardtanh",
    "torch.nn.Identity",
    "torch.nn.MaxPool1d",
    "torch.nn.MaxPool2d",
    "torch.nn.MaxPool3d",
    "torch.nn.PixelShuffle",
    "torch.nn.PixelUnshuffle",
    "torch.nn.ReLU",
    "torch.nn.ReLU6",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "hardtanh",
    "hardtanh_",
    "interpolate",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "pixel_shuffle",
    "pixel_unshuffle",
    "relu",
    "relu_",
    "relu6",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "clamp",
    "flatten",
    "mean",
    "narrow",
    "repeat_interleave",
    "transpose",
    "squeeze",
    "squeeze_",
    "stack",
    "unsqueeze",
    "unsqueeze_",
    "floordiv",
    "contiguous",
    "detach",
    "detach_",
    "permute",
    "repeat",
    "reshape",
    "resize_",
    "view",
    "torch.cat",
];
fn fixed(names: &[&str], scale: f64, zero_point: i64) -> Vec<P> {
    let constraint = DTypeWithConstraints {
        quant_min_lower_bound: Some(0),
        quant_max_upper_bound: Some(255),
        scale_exact_match: Some(scale),
        zero_point_exact_match: Some(zero_point),
        ..DType::QU8.into()
    };
    let d = [DTypeConfig::new().input_dtype(constraint.clone()).output_dtype(constraint)];
    names.iter().map(|n| P::new(&[n]).set_dtype_configs(&d)).collect()
}
fn norms(d: &[DTypeConfig]) -> Vec<P> {
    let mut all = Vec::new();
    for n in [2, 3] {
        let (norm, joined) = (format!("torch.nn.BatchNorm{n}d"), format!("torch.ao.nn.intrinsic.BNReLU{n}d"));
        for relu in RELUS {
            all.push(
                P::new(&[&norm, relu]).set_dtype_configs(d).set_fuser_method(join).set_fused_module(&joined),
            );
        }
        all.push(P::new(&[&norm]).set_dtype_configs(d));
        all.push(P::new(&[&joined]).set_dtype_configs(d));
    }
    // weights of normalisations stay numbers
    let layer = quint8().weight_dtype(DType::F32).bias_dtype(DType::F32);
    let layer = std::slice::from_ref(&layer);
    all.push(P::new(&["torch.nn.LayerNorm"]).set_dtype_configs(layer));
    all.push(P::new(&["torch.nn.functional.layer_norm"]).set_dtype_configs(layer).with_weight_at(2, 3));
    all.push(P::new(&["torch.nn.functional.group_norm"]).set_dtype_configs(d).with_weight_at(2, 3));
    all.push(P::new(&["torch.nn.functional.instance_norm"]).set_dtype_configs(d).with_weight_at(3, 4));
    all
}
fn weights_alone() -> Vec<P> {
    let rnn = [dynamic(DType::QU8, DType::QI8), dynamic(DType::F16, DType::F16)];
    let table = [weight_only(DType::QU8), weight_only(DType::QU4X2)];
    let of = |name: &str, root: &str, d: &[DTypeConfig]| {
        P::new(&[name])
            .set_dtype_configs(d)
            .set_root_module(&format!("torch.nn.{root}"))
            .set_reference_quantized_module(&format!("torch.ao.nn.quantized.reference.{root}"))
    };
    let mut all = Vec::new();
    for class in ["GRUCell", "LSTMCell", "RNNCell", "LSTM", "GRU"] {
        all.push(of(&format!("torch.nn.{class}"), class, &rnn));
    }
    for class in ["Embedding", "EmbeddingBag"] {
        let trained = format!("torch.ao.nn.qat.{class}");
        all.push(of(&format!("torch.nn.{class}"), class, &table).set_qat_module(&trained));
        all.push(of(&trained, class, &table));
    }
    all
}
/// The patterns that this library's kernels compute on quantized tensors: what is used where no other configuration is given.
///
/// ```
/// use torch::ao::quantization::backend_config::{BackendConfig, get_native_backend_config};
/// let config: BackendConfig = get_native_backend_config();
/// assert!(config.configs().iter().any(|p| format!("{p:?}").contains("torch.nn.Linear")));
/// ```
#[doc(alias = "torch.ao.quantization.backend_config.get_native_backend_config")]
#[doc(alias = "torch.ao.quantization.backend_config.get_fbgemm_backend_config")]
#[doc(alias = "torch.ao.quantization.backend_config.get_x86_backend_config")]
pub fn get_native_backend_config() -> BackendConfig {
    let linears = [weighted(), dynamic(DType::QU8, DType::QI8), dynamic(DType::F16, DType::F16)];
    let (weighted, plain) = ([weighted()], [quint8()]);
    let plains = |names: &[&str], t: ObservationType| -> Vec<P> {
        names.iter().map(|n| P::new(&[n]).set_observation_type(t).set_dtype_configs(&plain)).collect()
    };
    let mut c = BackendConfig::new("native");
    for n in 1..=3 {
        c = c.set_backend_pattern_configs(conv(n, &weighted));
    }
    c.set_backend_pattern_configs(linear(&linears))
        .set_backend_pattern_configs(binary(&plain))
        .set_backend_pattern_configs(plains(OWN_RULE, ObservationType::OutputUseDifferentObserverAsInput))
        .set_backend_pattern_configs(fixed(TO_ONE, 1.0 / 256.0, 0))
        .set_backend_pattern_configs(fixed(AROUND_ZERO, 2.0 / 256.0, 128))
        .set_backend_pattern_configs(plains(SAME_RULE, ObservationType::OutputShareObserverWithInput))
        .set_backend_pattern_configs(plains(&["size", "shape"], ObservationType::InputOutputNotObserved))
        .set_backend_pattern_configs(norms(&plain))
        .set_backend_pattern_configs(weights_alone())
}
/// Whether a name is one of those whose results have a scale of their own, beside weighted layers.
pub(super) fn has_own_rule(name: &str) -> bool {
    let more = ["torch.nn.functional.instance_norm", "torch.nn.functional.layer_norm"];
    OWN_RULE.iter().chain(&more).any(|n| crate::object_types::same(n, name))
}
/// Whether it computes on quantized tensors as they are: the rule of results is known or that of the input.
pub(super) fn keeps_rule(name: &str) -> bool {
    SAME_RULE.iter().chain(TO_ONE).chain(AROUND_ZERO).any(|n| crate::object_types::same(n, name))
}
