//! Observers and fake quantization by name: the classes, and what makes them as values.

use crate::arguments::with;
use crate::fake_quantize::{FakeQuantize, FakeQuantizeClass};
use crate::objects::{made, make_value};
use crate::observers::{CLASSES, ObserverClass, ObserverSpec};
use crate::qconfig::Make;
use flambeau_core::Value;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_library::object::register_class;
use flambeau_nn::internal::ModuleObject;

/// The namespaces that show quantization's names.
pub(super) const SPACES: &[&str] = &[
    "torch.ao.quantization",
    "torch.ao.quantization.observer",
    "torch.ao.quantization.fake_quantize",
    "torch.ao.quantization.qconfig",
    "torch.quantization",
];

/// `aq.disable_observer` and its like: of any module, which matters to fake quantization alone.
macro_rules! switches {
    ($($name:literal)*) => {
        &[$(($name, |a: &[Value], _: &Kwargs| {
            if let Some(Value::Object(o)) = a.first()
                && let Some(m) = o.downcast::<ModuleObject>()
                && m.with(|m| Ok(m.as_any().is::<FakeQuantize>()))?
            {
                o.method($name, &[], &[])?;
            }
            Ok(vec![Value::None])
        })),*]
    };
}
const SWITCHES: &[(&str, flambeau_library::NativeFn)] =
    switches!("enable_observer" "disable_observer" "enable_fake_quant" "disable_fake_quant");

macro_rules! classes {
    ($($name:literal => $make:expr;)*) => {
        /// Makers by class.
        const MAKERS: &[(&str, flambeau_core::dispatch::object::Constructor)] = &[$(($name, |a, k| {
            let make: Make = $make;
            Ok(made(with(&make, a, k)?.build()?))
        })),*];
    };
}
fn observer(c: ObserverClass) -> Make {
    Make::Observer(ObserverSpec::new(c))
}
classes! {
    "MinMaxObserver" => observer(ObserverClass::MinMax);
    "MovingAverageMinMaxObserver" => observer(ObserverClass::MovingAverageMinMax);
    "PerChannelMinMaxObserver" => observer(ObserverClass::PerChannelMinMax);
    "MovingAveragePerChannelMinMaxObserver" => observer(ObserverClass::MovingAveragePerChannelMinMax);
    "HistogramObserver" => observer(ObserverClass::Histogram);
    "FixedQParamsObserver" => observer(ObserverClass::FixedQParams);
    "PlaceholderObserver" => observer(ObserverClass::Placeholder);
    "RecordingObserver" => observer(ObserverClass::Recording);
    "NoopObserver" => observer(ObserverClass::Noop);
    "ReuseInputObserver" => observer(ObserverClass::ReuseInput);
    "FakeQuantize" => Make::fake_default(FakeQuantizeClass::FakeQuantize);
    "FixedQParamsFakeQuantize" => Make::fake_default(FakeQuantizeClass::FixedQParams);
    "FusedMovingAvgObsFakeQuantize" => Make::fake_default(FakeQuantizeClass::FusedMovingAvgObs);
}
/// `aq.default_observer` and its like.
macro_rules! defaults {
    ($($name:literal)*) => {
        const DEFAULTS: &[(&str, fn() -> Value, flambeau_library::NativeFn)] = &[$((
            $name,
            || crate::qconfig::default_of($name).map_or(Value::None, make_value),
            |a, k| {
                let make = crate::qconfig::default_of($name).unwrap_or(Make::Identity);
                Ok(vec![Value::Object(made(with(&make, a, k)?.build()?))])
            },
        )),*];
    };
}
defaults! {
    "default_symmetric_fixed_qparams_observer" "default_affine_fixed_qparams_observer"
    "default_symmetric_fixed_qparams_fake_quant" "default_affine_fixed_qparams_fake_quant"
    "default_observer" "default_placeholder_observer" "default_debug_observer" "default_weight_observer"
    "weight_observer_range_neg_127_to_127" "default_histogram_observer" "default_per_channel_weight_observer"
    "per_channel_weight_observer_range_neg_127_to_127" "default_dynamic_quant_observer"
    "default_float_qparams_observer" "default_float_qparams_observer_4bit"
    "default_fixed_qparams_range_neg1to1_observer" "default_fixed_qparams_range_0to1_observer"
    "default_reuse_input_observer" "default_fake_quant" "default_weight_fake_quant" "default_dynamic_fake_quant"
    "default_fixed_qparams_range_neg1to1_fake_quant" "default_fixed_qparams_range_0to1_fake_quant"
    "default_per_channel_weight_fake_quant" "default_embedding_fake_quant" "default_embedding_fake_quant_4bit"
    "default_histogram_fake_quant" "default_fused_act_fake_quant" "default_fused_wt_fake_quant"
    "default_fused_per_channel_wt_fake_quant" "fused_wt_fake_quant_range_neg_127_to_127"
    "fused_per_channel_wt_fake_quant_range_neg_127_to_127"
}
pub(super) fn register() {
    for space in SPACES {
        for (name, make) in MAKERS {
            register_class(&format!("{space}.{name}"), *make);
        }
        for (name, f) in SWITCHES {
            flambeau_library::register_function(&format!("{space}.{name}"), *f);
        }
        for (name, make, call) in DEFAULTS {
            super::constant(&format!("{space}.{name}"), *make);
            flambeau_library::register_function(&format!("{space}.{name}"), *call);
        }
        for c in CLASSES {
            let (path, make): (String, flambeau_library::NativeFn) =
                (format!("{space}.{}.with_args", c.name()), with_args(c));
            flambeau_library::register_function(&path, make);
        }
    }
}
/// `MinMaxObserver.with_args`.
fn with_args(c: ObserverClass) -> flambeau_library::NativeFn {
    macro_rules! of {
        ($($c:ident)*) => {
            match c {
                $(ObserverClass::$c => |a, k| Ok(vec![make_value(with(&observer(ObserverClass::$c), a, k)?)]),)*
            }
        };
    }
    of!(MinMax MovingAverageMinMax PerChannelMinMax MovingAveragePerChannelMinMax Histogram FixedQParams Placeholder
        Recording Noop ReuseInput)
}
