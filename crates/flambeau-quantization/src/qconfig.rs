//! How a layer is quantized: what observes its results, and what its weight.
//!
//! ```
//! use torch::ao::quantization::{Made, Make, QConfig, default_of, get_default_qat_qconfig, get_default_qconfig, qconfig_of};
//!
//! let config: QConfig = get_default_qconfig("x86");
//! assert_eq!(config.weight.dtype(), Some(torch::DType::QI8));
//! assert!(matches!(config.activation, Make::Observer(_)));
//! assert!(matches!(get_default_qat_qconfig("x86").activation, Make::FakeQuantize(_)));
//! assert!(qconfig_of("default_dynamic_qconfig").is_some() && qconfig_of("no such").is_none());
//! let own = QConfig::new(default_of("default_observer").unwrap(), Make::Identity);
//! assert!(matches!(own.activation.build()?, Made::Observer(_)));
//! # Ok::<(), torch::Error>(())
//! ```

use crate::fake_quantize::{FakeQuantize, FakeQuantizeClass as F, FakeQuantizeSpec};
use crate::observers::{Observer, ObserverClass as C, ObserverSpec as O};
use flambeau_core::tensor::quantized::QScheme;
use flambeau_core::{DType, Result, ensure};

/// What makes an observer, a fake quantization, or a module that does nothing.
#[derive(Clone, PartialEq, Debug)]
pub enum Make {
    /// An observer.
    Observer(O),
    /// A fake quantization.
    FakeQuantize(FakeQuantizeSpec),
    /// Nothing.
    Identity,
}
/// What was made.
#[derive(Debug)]
pub enum Made {
    /// An observer.
    Observer(Box<Observer>),
    /// A fake quantization.
    FakeQuantize(Box<FakeQuantize>),
    /// Nothing.
    Identity,
}
impl Make {
    /// A module.
    ///
    /// # Errors
    /// Arguments that do not fit.
    pub fn build(&self) -> Result<Made> {
        Ok(match self {
            Make::Observer(o) => Made::Observer(Box::new(o.try_build()?)),
            Make::FakeQuantize(f) => Made::FakeQuantize(Box::new(f.try_build()?)),
            Make::Identity => Made::Identity,
        })
    }
    /// A class of fake quantization with its documented defaults.
    pub fn fake_default(c: F) -> Make {
        let o = match c {
            F::FakeQuantize => O::new(C::MovingAverageMinMax),
            F::FixedQParams => O::new(C::FixedQParams),
            F::FusedMovingAvgObs => O::new(C::MovingAverageMinMax).quant_min(0).quant_max(255),
        };
        Make::FakeQuantize(FakeQuantizeSpec::new(c, o))
    }
    /// The dtype of the quantized tensors to be.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Make::Observer(o) => Some(o.dtype),
            Make::FakeQuantize(f) => Some(f.observer.dtype),
            Make::Identity => None,
        }
    }
}

/// How a layer is quantized.
#[derive(Clone, PartialEq, Debug)]
#[doc(alias = "torch.ao.quantization.qconfig.QConfig")]
pub struct QConfig {
    /// What looks at results.
    pub activation: Make,
    /// What looks at weights.
    pub weight: Make,
}
impl QConfig {
    /// Of both.
    pub fn new(activation: Make, weight: Make) -> QConfig {
        QConfig { activation, weight }
    }
}

/// How a layer is quantized where the integers of its inputs are found at every call: what looks at its weight. An older form
/// of [`QConfig`], which it becomes.
#[derive(Clone, PartialEq, Debug)]
#[doc(alias = "torch.ao.quantization.QConfigDynamic")]
#[deprecated(note = "use QConfig")]
pub struct QConfigDynamic {
    /// What looks at results; nothing by default.
    pub activation: Make,
    /// What looks at weights.
    pub weight: Make,
}
#[allow(deprecated)]
impl QConfigDynamic {
    /// Of weights.
    pub fn new(weight: Make) -> QConfigDynamic {
        QConfigDynamic { activation: Make::Identity, weight }
    }
}
#[allow(deprecated)]
impl From<QConfigDynamic> for QConfig {
    fn from(q: QConfigDynamic) -> QConfig {
        QConfig::new(q.activation, q.weight)
    }
}

const EPS: f64 = 1.0 / 4096.0;
fn symmetric(c: C) -> O {
    O::new(c).dtype(DType::QI8).symmetric()
}
fn narrow(o: O) -> O {
    o.quant_min(-127).quant_max(127).eps(EPS)
}
fn fixed(scale: f64, zero: i64) -> O {
    O::new(C::FixedQParams).scale(scale).zero_point(zero).quant_min(0).quant_max(255)
}
fn wide(o: O) -> O {
    o.quant_min(-128).quant_max(127)
}
fn byte(o: O) -> O {
    o.quant_min(0).quant_max(255)
}
fn float(d: DType) -> O {
    O::new(C::PerChannelMinMax).dtype(d).qscheme(QScheme::PerChannelAffineFloatQParams)
}
/// An observer or fake quantization by its documented name: `default_observer`, `default_fake_quant` ...
pub fn default_of(name: &str) -> Option<Make> {
    let fake = |c: F, o: O| Make::FakeQuantize(FakeQuantizeSpec::new(c, o));
    let embedding = |d: DType| {
        O::new(C::MovingAveragePerChannelMinMax)
            .dtype(d)
            .qscheme(QScheme::PerChannelAffineFloatQParams)
            .averaging_constant(1.0)
    };
    Some(match name {
        "default_observer" => Make::Observer(O::new(C::MinMax).quant_min(0).quant_max(127)),
        "default_placeholder_observer" => Make::Observer(O::new(C::Placeholder)),
        "default_debug_observer" => Make::Observer(O::new(C::Recording)),
        "default_weight_observer" => Make::Observer(symmetric(C::MinMax)),
        "weight_observer_range_neg_127_to_127" => Make::Observer(narrow(symmetric(C::MinMax))),
        "default_histogram_observer" => Make::Observer(O::new(C::Histogram).quant_min(0).quant_max(127)),
        "default_per_channel_weight_observer" => Make::Observer(symmetric(C::PerChannelMinMax)),
        "per_channel_weight_observer_range_neg_127_to_127" => {
            Make::Observer(narrow(symmetric(C::PerChannelMinMax)))
        }
        "default_dynamic_quant_observer" => {
            Make::Observer(byte(O::new(C::Placeholder).dtype(DType::QU8)).is_dynamic(true))
        }
        "default_float_qparams_observer" => Make::Observer(float(DType::QU8)),
        "default_float_qparams_observer_4bit" => Make::Observer(float(DType::QU4X2)),
        "default_symmetric_fixed_qparams_observer" => Make::Observer(fixed(2.0 / 256.0, 128)),
        "default_affine_fixed_qparams_observer" => Make::Observer(fixed(1.0 / 256.0, 0)),
        "default_symmetric_fixed_qparams_fake_quant" => fake(F::FixedQParams, fixed(2.0 / 256.0, 128)),
        "default_affine_fixed_qparams_fake_quant" => fake(F::FixedQParams, fixed(1.0 / 256.0, 0)),
        "default_fixed_qparams_range_neg1to1_observer" => Make::Observer(fixed(2.0 / 256.0, 128)),
        "default_fixed_qparams_range_0to1_observer" => Make::Observer(fixed(1.0 / 256.0, 0)),
        "default_reuse_input_observer" => Make::Observer(O::new(C::ReuseInput)),
        "default_fake_quant" => {
            fake(F::FakeQuantize, byte(O::new(C::MovingAverageMinMax)).reduce_range(true))
        }
        "default_weight_fake_quant" => fake(F::FakeQuantize, wide(symmetric(C::MovingAverageMinMax))),
        "default_dynamic_fake_quant" => fake(
            F::FakeQuantize,
            byte(O::new(C::MovingAverageMinMax)).is_dynamic(true).averaging_constant(1.0),
        ),
        "default_fixed_qparams_range_neg1to1_fake_quant" => fake(F::FixedQParams, fixed(2.0 / 256.0, 128)),
        "default_fixed_qparams_range_0to1_fake_quant" => fake(F::FixedQParams, fixed(1.0 / 256.0, 0)),
        "default_per_channel_weight_fake_quant" => {
            fake(F::FakeQuantize, wide(symmetric(C::MovingAveragePerChannelMinMax)))
        }
        "default_embedding_fake_quant" => fake(F::FakeQuantize, byte(embedding(DType::QU8))),
        "default_embedding_fake_quant_4bit" => fake(F::FakeQuantize, embedding(DType::QU4X2)),
        "default_histogram_fake_quant" => {
            fake(F::FakeQuantize, byte(O::new(C::Histogram)).reduce_range(true))
        }
        "default_fused_act_fake_quant" => fake(F::FusedMovingAvgObs, byte(O::new(C::MovingAverageMinMax))),
        "default_fused_wt_fake_quant" => fake(F::FusedMovingAvgObs, wide(symmetric(C::MovingAverageMinMax))),
        "default_fused_per_channel_wt_fake_quant" => {
            fake(F::FusedMovingAvgObs, wide(symmetric(C::MovingAveragePerChannelMinMax)))
        }
        "fused_wt_fake_quant_range_neg_127_to_127" => {
            fake(F::FusedMovingAvgObs, narrow(symmetric(C::MovingAverageMinMax)))
        }
        "fused_per_channel_wt_fake_quant_range_neg_127_to_127" => {
            fake(F::FusedMovingAvgObs, narrow(symmetric(C::MovingAveragePerChannelMinMax)))
        }
        _ => return None,
    })
}
/// A configuration by its documented name: `default_qconfig`, `default_dynamic_qconfig` ...
pub fn qconfig_of(name: &str) -> Option<QConfig> {
    let of = |a: &str, w: &str| Some(QConfig::new(default_of(a)?, default_of(w)?));
    let holder =
        |d: DType, dynamic: bool| Make::Observer(O::new(C::Placeholder).dtype(d).is_dynamic(dynamic));
    let qnnpack = || Make::Observer(O::new(C::Histogram).dtype(DType::QI8).eps(EPS));
    let qnnpack_qat = || {
        let o = wide(O::new(C::MovingAverageMinMax).dtype(DType::QI8)).eps(EPS);
        Make::FakeQuantize(FakeQuantizeSpec::new(F::FusedMovingAvgObs, o))
    };
    match name {
        "default_qconfig" => of("default_observer", "default_weight_observer"),
        "default_debug_qconfig" => of("default_debug_observer", "default_weight_observer"),
        "default_per_channel_qconfig" => of("default_observer", "default_per_channel_weight_observer"),
        "default_dynamic_qconfig" => of("default_dynamic_quant_observer", "default_weight_observer"),
        "float16_dynamic_qconfig" => Some(QConfig::new(holder(DType::F16, true), holder(DType::F16, false))),
        "float16_static_qconfig" => Some(QConfig::new(holder(DType::F16, false), holder(DType::F16, false))),
        "per_channel_dynamic_qconfig" => {
            of("default_dynamic_quant_observer", "default_per_channel_weight_observer")
        }
        "float_qparams_weight_only_qconfig" => {
            of("default_placeholder_observer", "default_float_qparams_observer")
        }
        "float_qparams_weight_only_qconfig_4bit" => {
            of("default_placeholder_observer", "default_float_qparams_observer_4bit")
        }
        "default_qat_qconfig" => of("default_fake_quant", "default_weight_fake_quant"),
        "default_qat_qconfig_v2" => of("default_fused_act_fake_quant", "default_fused_wt_fake_quant"),
        "default_dynamic_qat_qconfig" => of("default_dynamic_fake_quant", "default_weight_fake_quant"),
        "default_weight_only_qconfig" => {
            Some(QConfig::new(Make::Identity, default_of("default_weight_fake_quant")?))
        }
        "default_activation_only_qconfig" => {
            Some(QConfig::new(default_of("default_fake_quant")?, Make::Identity))
        }
        "default_reuse_input_qconfig" => {
            Some(QConfig::new(default_of("default_reuse_input_observer")?, Make::Observer(O::new(C::Noop))))
        }
        "default_embedding_qat_qconfig" => Some(QConfig::new(
            Make::Observer(O::new(C::Noop).dtype(DType::F32)),
            default_of("default_embedding_fake_quant")?,
        )),
        "default_embedding_qat_qconfig_4bit" => Some(QConfig::new(
            Make::Observer(O::new(C::Noop).dtype(DType::F32)),
            default_of("default_embedding_fake_quant_4bit")?,
        )),
        "default_quint8_weight_qconfig" => {
            Some(QConfig::new(Make::Observer(O::new(C::Histogram)), Make::Observer(O::new(C::MinMax))))
        }
        "default_symmetric_qnnpack_qat_qconfig" => {
            Some(QConfig::new(qnnpack_qat(), default_of("fused_wt_fake_quant_range_neg_127_to_127")?))
        }
        "default_per_channel_symmetric_qnnpack_qat_qconfig" => Some(QConfig::new(
            qnnpack_qat(),
            default_of("fused_per_channel_wt_fake_quant_range_neg_127_to_127")?,
        )),
        "default_symmetric_qnnpack_qconfig" => {
            Some(QConfig::new(qnnpack(), default_of("weight_observer_range_neg_127_to_127")?))
        }
        "default_per_channel_symmetric_qnnpack_qconfig" => {
            Some(QConfig::new(qnnpack(), default_of("per_channel_weight_observer_range_neg_127_to_127")?))
        }
        _ => None,
    }
}
const BACKENDS: [&str; 4] = ["fbgemm", "x86", "qnnpack", "onednn"];
fn known(backend: &str) -> Result<()> {
    ensure!(
        BACKENDS.contains(&backend),
        Assertion,
        "backend: {backend} not supported. backend must be one of ['fbgemm', 'x86', 'qnnpack', 'onednn']"
    );
    Ok(())
}
fn weights(backend: &str) -> &'static str {
    if backend == "qnnpack" { "default_weight_observer" } else { "default_per_channel_weight_observer" }
}
/// The configuration for static quantization on an engine: `x86`, `fbgemm`, `qnnpack` or `onednn`.
///
/// # Errors
/// Other engines.
#[doc(alias = "torch.ao.quantization.qconfig.get_default_qconfig")]
#[flambeau_macros::short]
pub fn try_get_default_qconfig(backend: &str) -> Result<QConfig> {
    known(backend)?;
    let narrow = matches!(backend, "fbgemm" | "x86");
    let a = Make::Observer(O::new(C::Histogram).reduce_range(narrow));
    Ok(QConfig::new(a, default_of(weights(backend)).unwrap_or(Make::Identity)))
}
/// The configuration for quantization-aware training for an engine.
///
/// # Errors
/// Other engines.
#[doc(alias = "torch.ao.quantization.qconfig.get_default_qat_qconfig")]
#[flambeau_macros::short]
pub fn try_get_default_qat_qconfig(backend: &str) -> Result<QConfig> {
    known(backend)?;
    let narrow = matches!(backend, "fbgemm" | "x86");
    let o = byte(O::new(C::MovingAverageMinMax)).reduce_range(narrow);
    let a = Make::FakeQuantize(FakeQuantizeSpec::new(F::FusedMovingAvgObs, o));
    let w = if backend == "qnnpack" {
        "default_fused_wt_fake_quant"
    } else {
        "default_fused_per_channel_wt_fake_quant"
    };
    Ok(QConfig::new(a, default_of(w).unwrap_or(Make::Identity)))
}
