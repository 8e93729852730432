//! Arguments of observers and fake quantizations as Python gives them: by place and by keyword.

use crate::fake_quantize::{FakeQuantizeClass, FakeQuantizeSpec};
use crate::objects::{MakeObject, scheme_of};
use crate::observers::{CLASSES, ObserverClass, ObserverSpec};
use crate::qconfig::Make;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::{DType, Error, Result, Value};

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
/// What makes observers with further arguments.
pub(crate) fn with(make: &Make, args: &[Value], kwargs: &Kwargs) -> Result<Make> {
    Ok(match make {
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
