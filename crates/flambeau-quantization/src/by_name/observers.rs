//! Observers and fake quantization by name: the classes, and what makes them as values.

use crate::fake_quantize::{FakeQuantize, FakeQuantizeClass, FakeQuantizeSpec};
use crate::objects::scheme_of;
use crate::observers::{CLASSES, ObserverClass, ObserverSpec};
use crate::qconfig::{Made, Make};
use flambeau_core::dispatch::object::{Instance, Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::{DType, Error, Result, Value};
use flambeau_library::object::register_class;
use flambeau_nn::internal::ModuleObject;
use std::any::Any;

/// The namespaces that show quantization's names.
pub(super) const SPACES: &[&str] = &[
    "torch.ao.quantization",
    "torch.ao.quantization.observer",
    "torch.ao.quantization.fake_quantize",
    "torch.ao.quantization.qconfig",
    "torch.quantization",
];

/// Something that makes observers: a class, or a class with arguments (`MinMaxObserver.with_args(...)`).
pub(crate) struct MakeObject(pub(crate) Make);
impl Object for MakeObject {
    fn type_name(&self) -> &'static str {
        "_PartialWrapper"
    }
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        let make = self.0.with(args, kwargs)?;
        Ok(vec![Value::Object(made(make.build()?))])
    }
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        match name {
            "with_args" => Ok(vec![Value::Object(ObjectRef::new(MakeObject(self.0.with(args, kwargs)?)))]),
            _ => Err(no_attribute(self.type_name(), name)),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
fn made(m: Made) -> ObjectRef {
    match m {
        Made::Observer(o) => ModuleObject::make(*o),
        Made::FakeQuantize(f) => ModuleObject::make(*f),
        Made::Identity => flambeau_nn::Identity::new().into_object(),
    }
}
pub(crate) fn make_value(m: Make) -> Value {
    Value::Object(ObjectRef::new(MakeObject(m)))
}
/// What makes observers, of a value: one of these objects, or the class of a fake quantization's observer.
pub(crate) fn make_of(v: &Value) -> Result<Make> {
    if let Value::Object(o) = v {
        if let Some(m) = o.downcast::<MakeObject>() {
            return Ok(m.0.clone());
        }
        if let Some(name) = o.documented_name() {
            let last = name.rsplit('.').next().unwrap_or(name);
            if let Some(c) = CLASSES.into_iter().find(|c| c.name() == last) {
                return Ok(Make::Observer(ObserverSpec::new(c)));
            }
            if let Some(c) = FAKE.into_iter().find(|c| c.name() == last) {
                return Ok(Make::fake_default(c));
            }
            if last == "Identity" {
                return Ok(Make::Identity);
            }
        }
    }
    Err(Error::missing(format!("an observer made of a {}", v.type_name())))
}
const FAKE: [FakeQuantizeClass; 3] =
    [FakeQuantizeClass::FakeQuantize, FakeQuantizeClass::FixedQParams, FakeQuantizeClass::FusedMovingAvgObs];

/// Positional parameters, in the documented order.
fn parameters(c: ObserverClass) -> &'static [&'static str] {
    use ObserverClass::*;
    match c {
        MinMax => &[
            "dtype",
            "qscheme",
            "reduce_range",
            "quant_min",
            "quant_max",
            "factory_kwargs",
            "eps",
            "is_dynamic",
        ],
        MovingAverageMinMax => &[
            "averaging_constant",
            "dtype",
            "qscheme",
            "reduce_range",
            "quant_min",
            "quant_max",
            "eps",
            "is_dynamic",
        ],
        PerChannelMinMax => &[
            "ch_axis",
            "dtype",
            "qscheme",
            "reduce_range",
            "quant_min",
            "quant_max",
            "factory_kwargs",
            "eps",
            "is_dynamic",
        ],
        MovingAveragePerChannelMinMax => &[
            "averaging_constant",
            "ch_axis",
            "dtype",
            "qscheme",
            "reduce_range",
            "quant_min",
            "quant_max",
            "eps",
            "is_dynamic",
        ],
        Histogram => &[
            "bins",
            "dtype",
            "qscheme",
            "reduce_range",
            "quant_min",
            "quant_max",
            "factory_kwargs",
            "eps",
            "is_dynamic",
        ],
        FixedQParams => &["scale", "zero_point", "dtype", "qscheme", "quant_min", "quant_max", "is_dynamic"],
        Placeholder => &[
            "dtype",
            "custom_op_name",
            "compute_dtype",
            "quant_min",
            "quant_max",
            "qscheme",
            "eps",
            "is_dynamic",
        ],
        Recording => &["dtype"],
        Noop => &["dtype", "custom_op_name"],
        ReuseInput => &[],
    }
}
/// Sets one argument.
fn set(mut o: ObserverSpec, name: &str, v: &Value) -> Result<ObserverSpec> {
    let none = matches!(v, Value::None);
    match name {
        "factory_kwargs" | "custom_op_name" if none || matches!(v, Value::Str(s) if s.is_empty()) => {}
        "quant_min" | "quant_max" | "qscheme" | "eps" | "compute_dtype" if none => {}
        "dtype" => o.dtype = DType::from_value(v)?,
        "qscheme" => o.qscheme = scheme_of(v)?,
        "reduce_range" => o.reduce_range = bool::from_value(v)?,
        "quant_min" => o.quant_min = Some(i64::from_value(v)?),
        "quant_max" => o.quant_max = Some(i64::from_value(v)?),
        "eps" => o.eps = f64::from_value(v)?,
        "is_dynamic" => o.is_dynamic = bool::from_value(v)?,
        "averaging_constant" => o.averaging_constant = f64::from_value(v)?,
        "ch_axis" => o.ch_axis = i64::from_value(v)?,
        "bins" => o.bins = i64::from_value(v)?,
        "scale" => o.scale = f64::from_value(v)?,
        "zero_point" => o.zero_point = i64::from_value(v)?,
        other => return Err(Error::missing(format!("{}(..., {other}=...)", o.class.name()))),
    }
    Ok(o)
}
fn observer_with(o: &ObserverSpec, args: &[Value], kwargs: &Kwargs) -> Result<ObserverSpec> {
    let names = parameters(o.class);
    let positional = args.iter().enumerate().map(|(i, v)| {
        let n = names.get(i).copied();
        n.map(|n| (n, v)).ok_or_else(|| Error::type_(format!("{}() takes fewer arguments", o.class.name())))
    });
    let positional = positional.collect::<Result<Vec<_>>>()?;
    let all = positional.into_iter().chain(kwargs.iter().map(|(n, v)| (n.as_str(), v)));
    all.into_iter().try_fold(o.clone(), |o, (n, v)| set(o, n, v))
}
impl Make {
    /// With further arguments.
    fn with(&self, args: &[Value], kwargs: &Kwargs) -> Result<Make> {
        Ok(match self {
            Make::Observer(o) => Make::Observer(observer_with(o, args, kwargs)?),
            Make::FakeQuantize(f) => {
                let names = ["observer", "quant_min", "quant_max", "is_dynamic"];
                let given = args.iter().zip(names).map(|(v, n)| (n.to_string(), v.clone()));
                let all: Vec<(String, Value)> = given.chain(kwargs.iter().cloned()).collect();
                let mut o = f.observer.clone();
                if let Some((_, v)) = all.iter().find(|(n, _)| n == "observer")
                    && let Make::Observer(new) = make_of(v)?
                {
                    // what the default said of ranges holds for the observer given
                    let keep = (o.quant_min, o.quant_max, o.class == new.class);
                    o = new;
                    if o.quant_min.is_none() && !keep.2 && f.class == FakeQuantizeClass::FusedMovingAvgObs {
                        (o.quant_min, o.quant_max) = (keep.0, keep.1);
                    }
                }
                let rest: Vec<(String, Value)> = all.into_iter().filter(|(n, _)| n != "observer").collect();
                Make::FakeQuantize(FakeQuantizeSpec::new(
                    f.class,
                    rest.iter().try_fold(o, |o, (n, v)| set(o, n, v))?,
                ))
            }
            Make::Identity => Make::Identity,
        })
    }
}
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
            Ok(made(make.with(a, k)?.build()?))
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
                Ok(vec![Value::Object(made(make.with(a, k)?.build()?))])
            },
        )),*];
    };
}
defaults! {
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
                $(ObserverClass::$c => |a, k| Ok(vec![make_value(observer(ObserverClass::$c).with(a, k)?)]),)*
            }
        };
    }
    of!(MinMax MovingAverageMinMax PerChannelMinMax MovingAveragePerChannelMinMax Histogram FixedQParams Placeholder
        Recording Noop ReuseInput)
}
