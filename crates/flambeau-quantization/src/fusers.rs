//! Layers that follow each other as one layer, and which layers are exchanged for which: PyTorch's tables.
//!
//! ```
//! use torch::ao::quantization as q;
//! use torch::{Tensor, nn, prelude::*};
//!
//! // tables of documented names
//! let tables: [Vec<q::ClassPair>; 9] = [
//!     q::get_default_static_quant_module_mappings(),
//!     q::get_default_static_quant_reference_module_mappings(),
//!     q::get_default_static_sparse_quant_module_mappings(),
//!     q::get_default_dynamic_sparse_quant_module_mappings(),
//!     q::get_default_dynamic_quant_module_mappings(),
//!     q::get_default_qat_module_mappings(),
//!     q::get_embedding_qat_module_mappings(),
//!     q::get_embedding_static_quant_module_mappings(),
//!     q::get_default_float_to_quantized_operator_mappings(),
//! ];
//! assert!(tables.iter().all(|t| !t.is_empty()));
//! let lists = [q::get_default_qconfig_propagation_list(), q::get_default_compare_output_module_list()];
//! assert!(lists.iter().chain([&q::no_observer_set()]).all(|l| !l.is_empty()));
//! let _: q::CustomConfig = q::get_default_custom_config_dict();
//!
//! let of = |class| q::get_static_quant_module_class(class, &[], false);
//! assert!(of("torch.nn.Linear").ends_with("Linear") && q::try_get_static_quant_module_class("X", &[], false).is_err());
//! assert!(q::get_dynamic_quant_module_class("torch.nn.Linear", &[]).contains("dynamic"));
//! assert!(q::get_quantized_operator("torch.nn.functional.elu").ends_with("elu"));
//!
//! // layers that are joined
//! let (conv, bn, relu) = (nn::Conv2d::new(1, 2, 1), nn::BatchNorm2d::new(2), nn::ReLU::new());
//! let (linear, norm) = (nn::Linear::new(2, 2), nn::BatchNorm1d::new(2));
//! let all: [&dyn Module; 5] = [&conv, &bn, &relu, &linear, &norm];
//! all.iter().for_each(|m| drop(m.eval()));
//! assert_eq!(q::fuse_conv_bn(false, &conv, &bn).type_name(), "Conv2d");
//! assert_eq!(q::fuse_conv_bn_relu(false, &conv, &bn, &relu).type_name(), "ConvReLU2d");
//! assert_eq!(q::fuse_linear_bn(false, &linear, &norm).type_name(), "Linear");
//! let join = q::get_fuser_method(&["Conv2d", "BatchNorm2d"]);
//! assert_eq!(join(false, &[&conv, &bn])?.type_name(), "Conv2d");
//! # Ok::<(), torch::Error>(())
//! ```

use crate::flow::{conv_transposed_with, fused};
use flambeau_core::{Error, Result, bail, ensure};
use flambeau_nn as nn;
use flambeau_nn::Module;
use flambeau_nn::internal::Run;

/// Joins layers: whether for training, and the layers in their order.
pub type Fuser = fn(bool, &[&dyn Module]) -> Result<Box<dyn Run>>;

fn one_mode(text: &'static str, parts: &[&dyn Module]) -> Result<()> {
    let first = parts.first().map(|m| m.is_training());
    ensure!(parts.iter().all(|m| Some(m.is_training()) == first), Assertion, "{text}");
    Ok(())
}
/// A convolution and the batch normalisation behind it as one convolution; for training (`is_qat`) as a layer that has both.
///
/// # Errors
/// One in training mode and one not; layers of other classes.
#[doc(alias = "torch.ao.quantization.fuse_conv_bn")]
#[flambeau_macros::short]
pub fn try_fuse_conv_bn(is_qat: bool, conv: &dyn Module, bn: &dyn Module) -> Result<Box<dyn Run>> {
    one_mode("Conv and BN both must be in the same mode (train or eval).", &[conv, bn])?;
    fused(&[conv, bn], is_qat)
}
/// A convolution, a batch normalisation and a ReLU as one layer.
///
/// # Errors
/// As [`fuse_conv_bn`].
#[doc(alias = "torch.ao.quantization.fuse_conv_bn_relu")]
#[flambeau_macros::short]
pub fn try_fuse_conv_bn_relu(
    is_qat: bool,
    conv: &dyn Module,
    bn: &dyn Module,
    relu: &dyn Module,
) -> Result<Box<dyn Run>> {
    one_mode("Conv and BN both must be in the same mode (train or eval).", &[conv, bn, relu])?;
    fused(&[conv, bn, relu], is_qat)
}
/// A linear map and the batch normalisation behind it as one linear map.
///
/// # Errors
/// As [`fuse_conv_bn`].
#[doc(alias = "torch.ao.quantization.fuse_linear_bn")]
#[flambeau_macros::short]
pub fn try_fuse_linear_bn(is_qat: bool, linear: &dyn Module, bn: &dyn Module) -> Result<Box<dyn Run>> {
    one_mode("Linear and BN both must be in the same mode (train or eval).", &[linear, bn])?;
    fused(&[linear, bn], is_qat)
}
/// A transposed convolution and the batch normalisation behind it as one transposed convolution.
///
/// ```
/// use torch::{ao::quantization::fuse_convtranspose_bn, nn, prelude::*};
/// let (conv, bn) = (nn::ConvTranspose2d::new(1, 2, 3), nn::BatchNorm2d::new(2));
/// conv.eval();
/// bn.eval();
/// assert_eq!(fuse_convtranspose_bn(false, &conv, &bn).type_name(), "ConvTranspose2d");
/// ```
///
/// # Errors
/// As [`fuse_conv_bn`]; for training, which PyTorch does not take either.
#[doc(alias = "torch.ao.quantization.fuse_convtranspose_bn")]
#[flambeau_macros::short]
pub fn try_fuse_convtranspose_bn(is_qat: bool, convt: &dyn Module, bn: &dyn Module) -> Result<Box<dyn Run>> {
    one_mode("ConvTranspose and BN both must be in the same mode (train or eval).", &[convt, bn])?;
    ensure!(!is_qat, Runtime, "Fusing ConvTranspose+BatchNorm not yet supported in QAT.");
    conv_transposed_with(convt, bn)
}
fn pair(
    is_qat: bool,
    parts: &[&dyn Module],
    f: fn(bool, &dyn Module, &dyn Module) -> Result<Box<dyn Run>>,
) -> Result<Box<dyn Run>> {
    match parts {
        [a, b] => f(is_qat, *a, *b),
        _ => Err(Error::type_(format!("2 layers are joined here, not {}", parts.len()))),
    }
}
/// What joins layers of these classes, by their names without modules: `["Conv2d", "BatchNorm2d", "ReLU"]`.
///
/// # Errors
/// Classes that are not joined.
#[doc(alias = "torch.ao.quantization.get_fuser_method")]
#[flambeau_macros::short]
pub fn try_get_fuser_method(op_list: &[&str]) -> Result<Fuser> {
    let dims = |n: &str, class: &str| n.strip_prefix(class).is_some_and(|d| matches!(d, "1d" | "2d" | "3d"));
    Ok(match op_list {
        [c, b] if dims(c, "ConvTranspose") && dims(b, "BatchNorm") => {
            |q, p| pair(q, p, try_fuse_convtranspose_bn)
        }
        [c, b] if dims(c, "Conv") && dims(b, "BatchNorm") => |q, p| pair(q, p, try_fuse_conv_bn),
        ["Linear", "BatchNorm1d"] => |q, p| pair(q, p, try_fuse_linear_bn),
        [c, b, "ReLU"] if dims(c, "Conv") && dims(b, "BatchNorm") => |q, p| match p {
            [c, b, r] => try_fuse_conv_bn_relu(q, *c, *b, *r),
            _ => Err(Error::type_(format!("3 layers are joined here, not {}", p.len()))),
        },
        [c, "ReLU"] if dims(c, "Conv") || *c == "Linear" || matches!(*c, "BatchNorm2d" | "BatchNorm3d") => {
            |q, p| fused(p, q)
        }
        _ => {
            let shown: Vec<String> =
                op_list.iter().map(|n| format!("<class '{}'>", crate::flow::python_class(n))).collect();
            bail!(Assertion, "did not find fuser method for: ({}) ", shown.join(", "))
        }
    })
}
/// What joins layers of these classes: of a program's own table first.
///
/// ```
/// use torch::ao::quantization::{fuse_conv_bn, get_fuser_method_new, try_get_fuser_method_new};
/// use torch::{nn, prelude::*};
/// let own: &[&str] = &["Conv2d", "BatchNorm2d"];
/// let join = get_fuser_method_new(own, &[]);
/// let (conv, bn) = (nn::Conv2d::new(1, 2, 1), nn::BatchNorm2d::new(2));
/// conv.eval();
/// bn.eval();
/// assert_eq!(join(false, &[&conv, &bn])?.type_name(), "Conv2d");
/// assert!(try_get_fuser_method_new(&["ReLU", "ReLU"], &[]).is_err());
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// As [`get_fuser_method`].
#[doc(alias = "torch.ao.quantization.get_fuser_method_new")]
#[flambeau_macros::short]
pub fn try_get_fuser_method_new(op_pattern: &[&str], mapping: &[(&[&str], Fuser)]) -> Result<Fuser> {
    match mapping.iter().find(|(pattern, _)| *pattern == op_pattern) {
        Some((_, f)) => Ok(*f),
        None => try_get_fuser_method(op_pattern),
    }
}

/// A float class and what it is exchanged for, by their documented names.
pub type ClassPair = (&'static str, &'static str);
const STATIC: &[ClassPair] = &[
    ("torch.ao.quantization.QuantStub", "torch.ao.nn.quantized.Quantize"),
    ("torch.ao.quantization.DeQuantStub", "torch.ao.nn.quantized.DeQuantize"),
    ("torch.nn.BatchNorm2d", "torch.ao.nn.quantized.BatchNorm2d"),
    ("torch.nn.BatchNorm3d", "torch.ao.nn.quantized.BatchNorm3d"),
    ("torch.nn.Dropout", "torch.ao.nn.quantized.Dropout"),
    ("torch.nn.Conv1d", "torch.ao.nn.quantized.Conv1d"),
    ("torch.nn.Conv2d", "torch.ao.nn.quantized.Conv2d"),
    ("torch.nn.Conv3d", "torch.ao.nn.quantized.Conv3d"),
    ("torch.nn.ConvTranspose1d", "torch.ao.nn.quantized.ConvTranspose1d"),
    ("torch.nn.ConvTranspose2d", "torch.ao.nn.quantized.ConvTranspose2d"),
    ("torch.nn.ConvTranspose3d", "torch.ao.nn.quantized.ConvTranspose3d"),
    ("torch.nn.ELU", "torch.ao.nn.quantized.ELU"),
    ("torch.nn.Embedding", "torch.ao.nn.quantized.Embedding"),
    ("torch.nn.EmbeddingBag", "torch.ao.nn.quantized.EmbeddingBag"),
    ("torch.nn.GroupNorm", "torch.ao.nn.quantized.GroupNorm"),
    ("torch.nn.Hardswish", "torch.ao.nn.quantized.Hardswish"),
    ("torch.nn.InstanceNorm1d", "torch.ao.nn.quantized.InstanceNorm1d"),
    ("torch.nn.InstanceNorm2d", "torch.ao.nn.quantized.InstanceNorm2d"),
    ("torch.nn.InstanceNorm3d", "torch.ao.nn.quantized.InstanceNorm3d"),
    ("torch.nn.LayerNorm", "torch.ao.nn.quantized.LayerNorm"),
    ("torch.nn.LeakyReLU", "torch.ao.nn.quantized.LeakyReLU"),
    ("torch.nn.modules.linear.NonDynamicallyQuantizableLinear", "torch.ao.nn.quantized.Linear"),
    ("torch.nn.Linear", "torch.ao.nn.quantized.Linear"),
    ("torch.nn.ReLU6", "torch.ao.nn.quantized.ReLU6"),
    ("torch.nn.PReLU", "torch.ao.nn.quantized.PReLU"),
    ("torch.ao.nn.quantized.FloatFunctional", "torch.ao.nn.quantized.QFunctional"),
    ("torch.ao.nn.intrinsic.BNReLU2d", "torch.ao.nn.intrinsic.quantized.BNReLU2d"),
    ("torch.ao.nn.intrinsic.BNReLU3d", "torch.ao.nn.intrinsic.quantized.BNReLU3d"),
    ("torch.ao.nn.intrinsic.ConvReLU1d", "torch.ao.nn.intrinsic.quantized.ConvReLU1d"),
    ("torch.ao.nn.intrinsic.ConvReLU2d", "torch.ao.nn.intrinsic.quantized.ConvReLU2d"),
    ("torch.ao.nn.intrinsic.ConvReLU3d", "torch.ao.nn.intrinsic.quantized.ConvReLU3d"),
    ("torch.ao.nn.intrinsic.ConvAdd2d", "torch.ao.nn.intrinsic.quantized.ConvAdd2d"),
    ("torch.ao.nn.intrinsic.ConvAddReLU2d", "torch.ao.nn.intrinsic.quantized.ConvAddReLU2d"),
    ("torch.ao.nn.intrinsic.LinearReLU", "torch.ao.nn.intrinsic.quantized.LinearReLU"),
    ("torch.ao.nn.intrinsic.LinearLeakyReLU", "torch.ao.nn.intrinsic.quantized.LinearLeakyReLU"),
    ("torch.ao.nn.intrinsic.LinearTanh", "torch.ao.nn.intrinsic.quantized.LinearTanh"),
    ("torch.ao.nn.intrinsic.qat.ConvBn1d", "torch.ao.nn.quantized.Conv1d"),
    ("torch.ao.nn.intrinsic.qat.ConvBn2d", "torch.ao.nn.quantized.Conv2d"),
    ("torch.ao.nn.intrinsic.qat.ConvBn3d", "torch.ao.nn.quantized.Conv3d"),
    ("torch.ao.nn.intrinsic.qat.ConvBnReLU1d", "torch.ao.nn.intrinsic.quantized.ConvReLU1d"),
    ("torch.ao.nn.intrinsic.qat.ConvBnReLU2d", "torch.ao.nn.intrinsic.quantized.ConvReLU2d"),
    ("torch.ao.nn.intrinsic.qat.ConvBnReLU3d", "torch.ao.nn.intrinsic.quantized.ConvReLU3d"),
    ("torch.ao.nn.intrinsic.qat.ConvReLU2d", "torch.ao.nn.intrinsic.quantized.ConvReLU2d"),
    ("torch.ao.nn.intrinsic.qat.ConvReLU3d", "torch.ao.nn.intrinsic.quantized.ConvReLU3d"),
    ("torch.ao.nn.intrinsic.qat.LinearReLU", "torch.ao.nn.intrinsic.quantized.LinearReLU"),
    ("torch.ao.nn.intrinsic.qat.LinearBn1d", "torch.ao.nn.quantized.Linear"),
    ("torch.ao.nn.qat.Linear", "torch.ao.nn.quantized.Linear"),
    ("torch.ao.nn.qat.Conv2d", "torch.ao.nn.quantized.Conv2d"),
    ("torch.ao.nn.qat.Conv3d", "torch.ao.nn.quantized.Conv3d"),
];
const REFERENCE: &[ClassPair] = &[
    ("torch.ao.quantization.QuantStub", "torch.ao.nn.quantized.Quantize"),
    ("torch.ao.quantization.DeQuantStub", "torch.ao.nn.quantized.DeQuantize"),
    ("torch.nn.Linear", "torch.ao.nn.quantized.reference.Linear"),
    ("torch.nn.Conv1d", "torch.ao.nn.quantized.reference.Conv1d"),
    ("torch.nn.Conv2d", "torch.ao.nn.quantized.reference.Conv2d"),
    ("torch.nn.Conv3d", "torch.ao.nn.quantized.reference.Conv3d"),
    ("torch.nn.ConvTranspose1d", "torch.ao.nn.quantized.reference.ConvTranspose1d"),
    ("torch.nn.ConvTranspose2d", "torch.ao.nn.quantized.reference.ConvTranspose2d"),
    ("torch.nn.ConvTranspose3d", "torch.ao.nn.quantized.reference.ConvTranspose3d"),
    ("torch.nn.Embedding", "torch.ao.nn.quantized.reference.Embedding"),
    ("torch.nn.EmbeddingBag", "torch.ao.nn.quantized.reference.EmbeddingBag"),
    ("torch.nn.GRUCell", "torch.ao.nn.quantized.reference.GRUCell"),
    ("torch.nn.LSTMCell", "torch.ao.nn.quantized.reference.LSTMCell"),
    ("torch.nn.RNNCell", "torch.ao.nn.quantized.reference.RNNCell"),
    ("torch.nn.LSTM", "torch.ao.nn.quantized.reference.LSTM"),
];
const QAT: &[ClassPair] = &[
    ("torch.nn.Conv2d", "torch.ao.nn.qat.Conv2d"),
    ("torch.nn.Conv3d", "torch.ao.nn.qat.Conv3d"),
    ("torch.nn.Linear", "torch.ao.nn.qat.Linear"),
    ("torch.nn.modules.linear.NonDynamicallyQuantizableLinear", "torch.ao.nn.qat.Linear"),
    ("torch.ao.nn.intrinsic.ConvBn1d", "torch.ao.nn.intrinsic.qat.ConvBn1d"),
    ("torch.ao.nn.intrinsic.ConvBn2d", "torch.ao.nn.intrinsic.qat.ConvBn2d"),
    ("torch.ao.nn.intrinsic.ConvBn3d", "torch.ao.nn.intrinsic.qat.ConvBn3d"),
    ("torch.ao.nn.intrinsic.ConvBnReLU1d", "torch.ao.nn.intrinsic.qat.ConvBnReLU1d"),
    ("torch.ao.nn.intrinsic.ConvBnReLU2d", "torch.ao.nn.intrinsic.qat.ConvBnReLU2d"),
    ("torch.ao.nn.intrinsic.ConvBnReLU3d", "torch.ao.nn.intrinsic.qat.ConvBnReLU3d"),
    ("torch.ao.nn.intrinsic.ConvReLU2d", "torch.ao.nn.intrinsic.qat.ConvReLU2d"),
    ("torch.ao.nn.intrinsic.ConvReLU3d", "torch.ao.nn.intrinsic.qat.ConvReLU3d"),
    ("torch.ao.nn.intrinsic.LinearReLU", "torch.ao.nn.intrinsic.qat.LinearReLU"),
    ("torch.ao.nn.intrinsic.LinearBn1d", "torch.ao.nn.intrinsic.qat.LinearBn1d"),
];
const DYNAMIC: &[ClassPair] = &[
    ("torch.nn.GRUCell", "torch.ao.nn.quantized.dynamic.GRUCell"),
    ("torch.nn.Linear", "torch.ao.nn.quantized.dynamic.Linear"),
    ("torch.ao.nn.qat.dynamic.Linear", "torch.ao.nn.quantized.dynamic.Linear"),
    ("torch.nn.modules.linear.NonDynamicallyQuantizableLinear", "torch.ao.nn.quantized.dynamic.Linear"),
    ("torch.nn.LSTM", "torch.ao.nn.quantized.dynamic.LSTM"),
    ("torch.nn.GRU", "torch.ao.nn.quantized.dynamic.GRU"),
    ("torch.nn.LSTMCell", "torch.ao.nn.quantized.dynamic.LSTMCell"),
    ("torch.nn.RNNCell", "torch.ao.nn.quantized.dynamic.RNNCell"),
    ("torch.ao.nn.intrinsic.LinearReLU", "torch.ao.nn.intrinsic.quantized.dynamic.LinearReLU"),
    ("torch.nn.EmbeddingBag", "torch.ao.nn.quantized.EmbeddingBag"),
    ("torch.nn.Embedding", "torch.ao.nn.quantized.Embedding"),
];
const OPERATORS: &[ClassPair] = &[
    ("torch.nn.functional.elu", "torch.ops.quantized.elu"),
    ("torch.nn.functional.hardswish", "torch.ops.quantized.hardswish"),
    ("torch.nn.functional.instance_norm", "torch.ops.quantized.instance_norm"),
    ("torch.nn.functional.layer_norm", "torch.ops.quantized.layer_norm"),
    ("torch.nn.functional.leaky_relu", "torch.ops.quantized.leaky_relu"),
    ("torch.nn.functional.dropout", "torch.ops.quantized.dropout"),
];
/// What static quantization exchanges.
#[doc(alias = "torch.ao.quantization.get_default_static_quant_module_mappings")]
pub fn get_default_static_quant_module_mappings() -> Vec<ClassPair> {
    STATIC.to_vec()
}
/// The same for layers that quantize and dequantize around float arithmetic.
#[doc(alias = "torch.ao.quantization.get_default_static_quant_reference_module_mappings")]
pub fn get_default_static_quant_reference_module_mappings() -> Vec<ClassPair> {
    REFERENCE.to_vec()
}
/// The same with embeddings that were trained with rounding.
#[doc(alias = "torch.ao.quantization.get_embedding_static_quant_module_mappings")]
pub fn get_embedding_static_quant_module_mappings() -> Vec<ClassPair> {
    let own = [
        ("torch.ao.nn.qat.EmbeddingBag", "torch.ao.nn.quantized.EmbeddingBag"),
        ("torch.ao.nn.qat.Embedding", "torch.ao.nn.quantized.Embedding"),
    ];
    [STATIC, &own].concat()
}
/// What quantization of weights that are mostly zero exchanges, with observers.
#[doc(alias = "torch.ao.quantization.get_default_static_sparse_quant_module_mappings")]
pub fn get_default_static_sparse_quant_module_mappings() -> Vec<ClassPair> {
    vec![("torch.nn.Linear", "torch.ao.nn.sparse.quantized.Linear")]
}
/// The same where the integers of inputs are found at every call.
#[doc(alias = "torch.ao.quantization.get_default_dynamic_sparse_quant_module_mappings")]
pub fn get_default_dynamic_sparse_quant_module_mappings() -> Vec<ClassPair> {
    vec![("torch.nn.Linear", "torch.ao.nn.sparse.quantized.dynamic.Linear")]
}
/// What quantization-aware training exchanges.
#[doc(alias = "torch.ao.quantization.get_default_qat_module_mappings")]
pub fn get_default_qat_module_mappings() -> Vec<ClassPair> {
    QAT.to_vec()
}
/// The same with embeddings.
#[doc(alias = "torch.ao.quantization.get_embedding_qat_module_mappings")]
pub fn get_embedding_qat_module_mappings() -> Vec<ClassPair> {
    let own = [
        ("torch.nn.EmbeddingBag", "torch.ao.nn.qat.EmbeddingBag"),
        ("torch.nn.Embedding", "torch.ao.nn.qat.Embedding"),
    ];
    [QAT, &own].concat()
}
/// What dynamic quantization exchanges.
#[doc(alias = "torch.ao.quantization.get_default_dynamic_quant_module_mappings")]
pub fn get_default_dynamic_quant_module_mappings() -> Vec<ClassPair> {
    DYNAMIC.to_vec()
}
/// Functions and what computes them on quantized tensors.
#[doc(alias = "torch.ao.quantization.get_default_float_to_quantized_operator_mappings")]
pub fn get_default_float_to_quantized_operator_mappings() -> Vec<ClassPair> {
    OPERATORS.to_vec()
}
fn named<'a>(all: impl IntoIterator<Item = &'a &'static str>) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = all.into_iter().copied().collect();
    names.sort_unstable();
    names.dedup();
    names
}
/// Classes that [`propagate_qconfig_`](crate::flow::propagate_qconfig_) notes configurations about.
#[doc(alias = "torch.ao.quantization.get_default_qconfig_propagation_list")]
pub fn get_default_qconfig_propagation_list() -> Vec<&'static str> {
    let keys = [STATIC, QAT, DYNAMIC].into_iter().flatten().map(|(k, _)| k);
    named(keys.chain([&"torch.nn.Sequential"]))
}
/// Classes of which the numeric suite compares the outputs.
#[doc(alias = "torch.ao.quantization.get_default_compare_output_module_list")]
pub fn get_default_compare_output_module_list() -> Vec<&'static str> {
    let both = [STATIC, QAT, DYNAMIC].into_iter().flatten().flat_map(|(k, v)| [k, v]);
    named(both.chain([&"torch.nn.Sequential"]))
}
/// Classes that no observer is put behind.
#[doc(alias = "torch.ao.quantization.no_observer_set")]
pub fn no_observer_set() -> Vec<&'static str> {
    vec!["torch.ao.nn.quantizable.LSTM", "torch.ao.nn.quantizable.MultiheadAttention"]
}
/// Classes that convert themselves: what is observed, and what is quantized, each as a table of pairs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CustomConfig {
    /// Float classes and those that stand for them while they are observed.
    pub float_to_observed_custom_module_class: Vec<ClassPair>,
    /// Observed classes and quantized ones.
    pub observed_to_quantized_custom_module_class: Vec<ClassPair>,
}
/// The classes that convert themselves by default.
#[doc(alias = "torch.ao.quantization.get_default_custom_config_dict")]
pub fn get_default_custom_config_dict() -> CustomConfig {
    CustomConfig {
        float_to_observed_custom_module_class: vec![
            ("torch.nn.LSTM", "torch.ao.nn.quantizable.LSTM"),
            ("torch.nn.MultiheadAttention", "torch.ao.nn.quantizable.MultiheadAttention"),
        ],
        observed_to_quantized_custom_module_class: vec![
            ("torch.ao.nn.quantizable.LSTM", "torch.ao.nn.quantized.LSTM"),
            ("torch.ao.nn.quantizable.MultiheadAttention", "torch.ao.nn.quantized.MultiheadAttention"),
        ],
    }
}
fn class_in(all: &[ClassPair], own: &[ClassPair], class: &str) -> Result<&'static str> {
    let found = own.iter().chain(all).find(|(k, _)| *k == class);
    found.map(|(_, v)| *v).ok_or_else(|| {
        let last = class.rsplit('.').next().unwrap_or(class);
        Error::assertion(format!(
            "Floating point module class <class '{}'> does not have a corresponding quantized module class",
            crate::flow::python_class(last)
        ))
    })
}
/// The class that static quantization puts in a class's place, by documented names; `own` counts before the default table.
///
/// # Errors
/// Classes without a quantized form.
#[doc(alias = "torch.ao.quantization.get_static_quant_module_class")]
#[flambeau_macros::short]
pub fn try_get_static_quant_module_class(
    class: &str,
    own: &[ClassPair],
    is_reference: bool,
) -> Result<&'static str> {
    class_in(if is_reference { REFERENCE } else { STATIC }, own, class)
}
/// The class that dynamic quantization puts in a class's place.
///
/// # Errors
/// As [`get_static_quant_module_class`].
#[doc(alias = "torch.ao.quantization.get_dynamic_quant_module_class")]
#[flambeau_macros::short]
pub fn try_get_dynamic_quant_module_class(class: &str, own: &[ClassPair]) -> Result<&'static str> {
    class_in(DYNAMIC, own, class)
}
/// What computes a function on quantized tensors, by documented names.
///
/// # Errors
/// Functions without a quantized form.
#[doc(alias = "torch.ao.quantization.get_quantized_operator")]
#[flambeau_macros::short]
pub fn try_get_quantized_operator(float_op: &str) -> Result<&'static str> {
    let found = OPERATORS.iter().find(|(k, _)| *k == float_op);
    found.map(|(_, v)| *v).ok_or_else(|| {
        let last = float_op.rsplit('.').next().unwrap_or(float_op);
        let shown = match last.chars().next() {
            Some(c) if c.is_uppercase() => format!("<class '{}'>", crate::flow::python_class(last)),
            _ => float_op.to_string(),
        };
        Error::assertion(format!("Operator {shown} does not have corresponding quantized op"))
    })
}

/// Runs a model on samples with targets, which are left aside: what observers see.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use torch::{ao::quantization::default_eval_fn, nn, prelude::*};
/// static SEEN: AtomicUsize = AtomicUsize::new(0);
/// let model = nn::Linear::new(2, 1);
/// model.register_forward_hook(|_, _, _| {
///     SEEN.fetch_add(1, Ordering::Relaxed);
///     None
/// });
/// default_eval_fn(&model, [(torch::ones([1, 2]), 0), (torch::zeros([1, 2]), 1)]);
/// assert_eq!(SEEN.load(Ordering::Relaxed), 2);
/// ```
///
/// # Errors
/// Those of the model.
#[doc(alias = "torch.ao.quantization.default_eval_fn")]
#[flambeau_macros::short]
pub fn try_default_eval_fn<M, T>(
    model: &M,
    calib_data: impl IntoIterator<Item = (flambeau_core::Tensor, T)>,
) -> Result<()>
where
    M: Module + for<'a> nn::Call<&'a flambeau_core::Tensor>,
{
    for (data, _) in calib_data {
        model.try_call(&data)?;
    }
    Ok(())
}
