//! The numeric suite by name.

use super::flows::items;
use super::layers::module;
use crate::numeric_suite::{self as suite, Logger, LoggerKind, Shadow};
use flambeau_core::dispatch::object::{Kwargs, ObjectRef};
use flambeau_core::{Error, Result, Value};
use flambeau_library::NativeFn;
use flambeau_library::object::register_class;
use flambeau_library::slots::Slots;
use flambeau_nn::internal::ModuleObject;

const SPACES: [&str; 2] = ["torch.ao.ns._numeric_suite", "torch.quantization._numeric_suite"];

fn class_of(v: &Value) -> Result<String> {
    let name = match v {
        Value::Object(o) => o.documented_name().map(|n| n.rsplit('.').next().unwrap_or(n).to_string()),
        _ => None,
    };
    name.ok_or_else(|| Error::type_(format!("a class is expected, not {}", v.type_name())))
}
fn kind_of(v: Option<&Value>, default: LoggerKind) -> Result<LoggerKind> {
    match v {
        None => Ok(default),
        Some(v) => Ok(match class_of(v)?.as_str() {
            "Logger" => LoggerKind::Nothing,
            "OutputLogger" => LoggerKind::Outputs,
            "ShadowLogger" => LoggerKind::Pairs,
            other => return Err(Error::missing(format!("the logger {other}"))),
        }),
    }
}
fn object(v: &Value) -> Result<&ModuleObject> {
    match v {
        Value::Object(o) => o.downcast::<ModuleObject>(),
        _ => None,
    }
    .ok_or_else(|| Error::type_(format!("expected a module, but got {}", v.type_name())))
}
/// Calls on a model as an object, with hooks.
fn run(model: &Value, data: &[Value]) -> Result<()> {
    match model {
        Value::Object(o) => o.call(data, &[]).map(drop),
        other => Err(Error::type_(format!("'{}' object is not callable", other.type_name()))),
    }
}
fn logged(model: &Value) -> Result<Value> {
    let all = object(model)?.with(|m| Ok(suite::get_logger_dict(m.as_module())))?;
    Ok(Value::Dict(all.into_iter().map(|(n, s)| (n, suite::stats_value(s))).collect()))
}
fn prepare_outputs(float: &Value, quantized: &Value) -> Result<()> {
    object(float)?.with_mut(|f| {
        object(quantized)?
            .with_mut(|q| suite::try_prepare_model_outputs(f.as_module_mut(), q.as_module_mut()))
    })
}
fn matching(float: &Value, quantized: &Value) -> Result<Value> {
    let all = object(float)?.with(|f| {
        object(quantized)?.with(|q| Ok(suite::get_matching_activations(f.as_module(), q.as_module())))
    })?;
    let pair = |(f, q)| suite::stats_value(vec![("float", f), ("quantized", q)]);
    Ok(Value::Dict(all.into_iter().map(|(n, both)| (n, pair(both))).collect()))
}
fn with_stubs(float: &Value, quantized: &Value, list: &Value, kind: LoggerKind) -> Result<()> {
    let list: Vec<String> = items(list)?.iter().map(class_of).collect::<Result<_>>()?;
    object(float)?.with(|f| {
        object(quantized)?
            .with_mut(|q| suite::try_prepare_model_with_stubs(f.as_module(), q.as_module_mut(), &list, kind))
    })
}
/// Positional arguments and those by name of a function that takes any number of inputs.
fn named<'a>(k: &'a Kwargs, name: &str) -> Option<&'a Value> {
    k.iter().find(|(n, _)| n == name).map(|(_, v)| v)
}
fn compare_weights(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("compare_weights", &["float_dict", "quantized_dict"], a, k)?;
    let (Value::Dict(f), Value::Dict(q)) = (s.must(0)?, s.must(1)?) else {
        return Err(Error::type_("compare_weights takes two dictionaries"));
    };
    let names: Vec<&str> = f.iter().map(|(n, _)| n.as_str()).collect();
    let mut out: Vec<(String, Value)> = Vec::new();
    for (key, v) in q {
        let found = suite::find_match(&names, key, "weight").map(|n| (n, v.clone())).or_else(|| {
            let n = suite::find_match(&names, key, "_packed_params")?;
            Some((n, v.items()?.first()?.clone()))
        });
        let Some((name, quantized)) = found else { continue };
        let float = f.iter().find(|(n, _)| n == name).map_or(Value::None, |(_, v)| v.clone());
        out.push((key.clone(), Value::Dict(vec![("float".into(), float), ("quantized".into(), quantized)])));
    }
    Ok(vec![Value::Dict(out)])
}
const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("compare_weights", compare_weights),
    ("get_logger_dict", |a, k| {
        let s = Slots::new("get_logger_dict", &["mod", "prefix"], a, k)?;
        Ok(vec![logged(s.must(0)?)?])
    }),
    ("prepare_model_outputs", |a, k| {
        let names: &[&str] = &["float_module", "q_module", "logger_cls", "allow_list"];
        let s = Slots::new("prepare_model_outputs", names, a, k)?;
        no_list(s.values[3])?;
        only_outputs(s.values[2])?;
        prepare_outputs(s.must(0)?, s.must(1)?)?;
        Ok(vec![Value::None])
    }),
    ("get_matching_activations", |a, k| {
        let s = Slots::new("get_matching_activations", &["float_module", "q_module"], a, k)?;
        Ok(vec![matching(s.must(0)?, s.must(1)?)?])
    }),
    ("compare_model_outputs", |a, k| {
        let [float, quantized, data @ ..] = a else {
            return Err(Error::type_("compare_model_outputs() missing 2 required positional arguments"));
        };
        no_list(named(k, "allow_list"))?;
        only_outputs(named(k, "logger_cls"))?;
        prepare_outputs(float, quantized)?;
        run(float, data)?;
        run(quantized, data)?;
        Ok(vec![matching(float, quantized)?])
    }),
    ("prepare_model_with_stubs", |a, k| {
        let names: &[&str] = &["float_module", "q_module", "module_swap_list", "logger_cls"];
        let s = Slots::new("prepare_model_with_stubs", names, a, k)?;
        let kind = kind_of(Some(s.must(3)?), LoggerKind::Pairs)?;
        with_stubs(s.must(0)?, s.must(1)?, s.must(2)?, kind)?;
        Ok(vec![Value::None])
    }),
    ("compare_model_stub", |a, k| {
        let [float, quantized, list, data @ ..] = a else {
            return Err(Error::type_("compare_model_stub() missing 3 required positional arguments"));
        };
        with_stubs(float, quantized, list, kind_of(named(k, "logger_cls"), LoggerKind::Pairs)?)?;
        run(quantized, data)?;
        Ok(vec![logged(quantized)?])
    }),
];
fn no_list(v: Option<&Value>) -> Result<()> {
    match v {
        None | Some(Value::None) => Ok(()),
        Some(_) => {
            Err(Error::missing("an allow_list of one's own: the default one holds what has a quantized form"))
        }
    }
}
fn only_outputs(v: Option<&Value>) -> Result<()> {
    match kind_of(v, LoggerKind::Outputs)? {
        LoggerKind::Outputs => Ok(()),
        _ => Err(Error::missing("another logger than OutputLogger for the outputs of models")),
    }
}
fn logger(kind: LoggerKind) -> Result<ObjectRef> {
    Ok(ModuleObject::make(Logger::new(kind)))
}
pub(super) fn register() {
    for space in SPACES {
        for (name, f) in FUNCTIONS {
            flambeau_library::register_function(&format!("{space}.{name}"), *f);
        }
        register_class(&format!("{space}.Logger"), |_, _| logger(LoggerKind::Nothing));
        register_class(&format!("{space}.OutputLogger"), |_, _| logger(LoggerKind::Outputs));
        register_class(&format!("{space}.ShadowLogger"), |_, _| logger(LoggerKind::Pairs));
        register_class(&format!("{space}.Shadow"), |a, k| {
            let s = Slots::new("Shadow", &["q_module", "float_module", "logger_cls"], a, k)?;
            let kind = kind_of(Some(s.must(2)?), LoggerKind::Pairs)?;
            Ok(ModuleObject::make(Shadow::new(module(s.must(0)?)?, module(s.must(1)?)?, kind)))
        });
    }
}
