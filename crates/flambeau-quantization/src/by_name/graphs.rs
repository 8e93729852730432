//! `torch.ao.quantization.quantize_fx` by name, on modules as objects.

use super::flows::object;
use super::mappings::mapping_of;
use super::observers::SPACES;
use crate::fx::{
    ConvertFxOptions, FuseFxOptions, ObservedGraphModule, PrepareCustomConfig, PrepareFxOptions, traced,
    try_convert_fx, try_convert_to_reference_fx, try_fuse_fx, try_prepare_graph,
};
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_fx::GraphModule;
use flambeau_library::slots::Slots;
use flambeau_library::{NativeFn, register_function};
use flambeau_nn::internal::call_module;
use std::any::Any;

/// A prepared graph as an object.
struct ObservedObject(ObservedGraphModule);
impl Object for ObservedObject {
    fn type_name(&self) -> &'static str {
        "GraphModule"
    }
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        Ok(vec![self.0.run(args, kwargs)?])
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        Object::attribute(&*self.0, name)
    }
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        Object::method(&*self.0, name, args, kwargs)
    }
    fn returns_self(&self, name: &str) -> bool {
        Object::returns_self(&*self.0, name)
    }
    fn repr(&self) -> String {
        Object::repr(&*self.0)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
fn graph(m: GraphModule) -> Result<Vec<Value>> {
    Ok(vec![Value::Object(ObjectRef::new(m))])
}
fn is_given(s: &Slots<'_>, i: usize) -> bool {
    !matches!(s.values[i], None | Some(Value::None))
}
/// A module of one tensor or more, captured on examples.
fn captured(model: &Value, examples: &Value) -> Result<GraphModule> {
    let inputs: Vec<Tensor> = match examples {
        Value::Tensor(t) => vec![t.clone()],
        v => super::flows::items(v)?.iter().map(Tensor::from_value).collect::<Result<_>>()?,
    };
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    object(model)?.with(|m| {
        let forward = |x: &[Tensor]| {
            let given: Vec<Value> = x.iter().cloned().map(Value::Tensor).collect();
            let mut out = call_module(m, &given, &[])?;
            Ok(if out.len() == 1 { out.remove(0) } else { Value::Tuple(out) })
        };
        traced(m.as_module(), forward, &inputs, &PrepareCustomConfig::new())
    })
}
fn prepare(name: &'static str, is_qat: bool, a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    const P: &[&str] = &[
        "model",
        "qconfig_mapping",
        "example_inputs",
        "prepare_custom_config",
        "_equalization_config",
        "backend_config",
    ];
    const TRAINED: &[&str] =
        &["model", "qconfig_mapping", "example_inputs", "prepare_custom_config", "backend_config"];
    let s = Slots::new(name, if is_qat { TRAINED } else { P }, a, k)?;
    let names = if is_qat { TRAINED } else { P };
    if let Some(i) = (3..names.len()).find(|i| is_given(&s, *i)) {
        return Err(Error::missing(format!("{name} by name with {}", names[i])));
    }
    let m = captured(s.must(0)?, s.must(2)?)?;
    let prepared = try_prepare_graph(m, &mapping_of(s.must(1)?)?, is_qat, PrepareFxOptions::new())?;
    Ok(vec![Value::Object(ObjectRef::new(ObservedObject(prepared)))])
}
fn convert(
    name: &'static str,
    f: fn(&ObservedGraphModule, ConvertFxOptions) -> Result<GraphModule>,
    a: &[Value],
    k: &Kwargs,
) -> Result<Vec<Value>> {
    const P: &[&str] =
        &["graph_module", "convert_custom_config", "_remove_qconfig", "qconfig_mapping", "backend_config"];
    let s = Slots::new(name, P, a, k)?;
    if let Some(i) = [1, 3, 4].into_iter().find(|i| is_given(&s, *i)) {
        return Err(Error::missing(format!("{name} by name with {}", P[i])));
    }
    let m = match s.must(0)? {
        Value::Object(o) => o.downcast::<ObservedObject>(),
        _ => None,
    };
    let m = m.ok_or_else(|| Error::assertion("incoming model must be produced by prepare_fx"))?;
    graph(f(&m.0, ConvertFxOptions::new())?)
}
const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("prepare_fx", |a, k| prepare("prepare_fx", false, a, k)),
    ("prepare_qat_fx", |a, k| prepare("prepare_qat_fx", true, a, k)),
    ("convert_fx", |a, k| convert("convert_fx", try_convert_fx, a, k)),
    ("convert_to_reference_fx", |a, k| convert("convert_to_reference_fx", try_convert_to_reference_fx, a, k)),
    ("fuse_fx", |a, k| {
        let s = Slots::new("fuse_fx", &["model", "fuse_custom_config", "backend_config"], a, k)?;
        if is_given(&s, 1) || is_given(&s, 2) {
            return Err(Error::missing("fuse_fx by name with configurations"));
        }
        // joining asks no sizes; a capture runs the model, and by name there are no inputs to run it on
        match s.must(0)? {
            Value::Object(o) if let Some(m) = o.downcast::<GraphModule>() => {
                graph(try_fuse_fx(m.clone(), FuseFxOptions::new())?)
            }
            _ => Err(Error::missing(
                "fuse_fx by name of a module, which runs it to capture it: prepare_fx has example inputs",
            )),
        }
    }),
];
pub(super) fn register() {
    for space in SPACES {
        for (name, f) in FUNCTIONS {
            register_function(&format!("{space}.quantize_fx.{name}"), *f);
        }
    }
}
