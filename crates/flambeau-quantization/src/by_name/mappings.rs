//! Configurations of models and tables of classes by name.

use super::observers::SPACES;
use crate::flow::{self, Mapping};
use crate::forms::swapped;
use crate::fusers::{self, ClassPair};
use crate::granularity::{PerAxis, PerGroup, PerRow, PerTensor, PerToken, try_get_block_size};
use crate::objects::{qconfig_in, qconfig_value};
use crate::qconfig_mapping::{
    QConfigMapping, try_get_default_qat_qconfig_mapping, try_get_default_qconfig_mapping,
};
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result, Value, ensure};
use flambeau_library::NativeFn;
use flambeau_library::slots::Slots;
use flambeau_nn::internal::ModuleObject;
use std::any::Any;

/// A class or function by its documented name, as a value.
struct Named(&'static str);
impl Named {
    fn value(path: &'static str) -> Value {
        Value::Object(ObjectRef::new(Named(path)))
    }
    fn last(&self) -> &'static str {
        self.0.rsplit('.').next().unwrap_or(self.0)
    }
}
impl Object for Named {
    fn type_name(&self) -> &'static str {
        "type"
    }
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        flambeau_library::call(self.0, args, kwargs)
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        match name {
            "__name__" => Ok(Value::Str(self.last().to_string())),
            _ => Err(no_attribute("type", name)),
        }
    }
    fn documented_name(&self) -> Option<&str> {
        Some(self.0)
    }
    fn repr(&self) -> String {
        format!("<class '{}'>", self.0)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
/// A table of classes.
struct Table(Vec<ClassPair>);
impl Object for Table {
    fn type_name(&self) -> &'static str {
        "dict"
    }
    fn method(&self, name: &str, args: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        let pair = |(k, v): &ClassPair| Value::Tuple(vec![Named::value(k), Named::value(v)]);
        let found = |key: &Value| {
            let wanted = path(key);
            self.0.iter().find(|(k, _)| Some(*k) == wanted.as_deref()).map(|(_, v)| Named::value(v))
        };
        Ok(vec![match (name, args) {
            ("keys" | "__iter__", []) => Value::List(self.0.iter().map(|(k, _)| Named::value(k)).collect()),
            ("values", []) => Value::List(self.0.iter().map(|(_, v)| Named::value(v)).collect()),
            ("items", []) => Value::List(self.0.iter().map(pair).collect()),
            ("__len__", []) => Value::Int(self.0.len() as i64),
            ("get", [key, rest @ ..]) => {
                found(key).unwrap_or_else(|| rest.first().cloned().unwrap_or(Value::None))
            }
            ("__getitem__", [key]) => {
                found(key).ok_or_else(|| Error::index(flambeau_library::repr(key).unwrap_or_default()))?
            }
            ("__contains__", [key]) => Value::Bool(found(key).is_some()),
            _ => return Err(no_attribute("dict", name)),
        }])
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
fn table(all: Vec<ClassPair>) -> Result<Vec<Value>> {
    Ok(vec![Value::Object(ObjectRef::new(Table(all)))])
}
/// The documented name of a class or function as a value, or a text.
fn path(v: &Value) -> Option<String> {
    match v {
        Value::Str(s) => Some(s.clone()),
        Value::Object(o) => o.documented_name().map(str::to_owned),
        _ => None,
    }
}
pub(super) fn object_type(v: &Value) -> Result<String> {
    path(v).ok_or_else(|| {
        Error::type_(format!(
            "a class, a function or the name of a method is expected, not {}",
            v.type_name()
        ))
    })
}

/// `QConfigMapping`.
struct MappingObject(Mutex<QConfigMapping>);
impl MappingObject {
    fn now(&self) -> QConfigMapping {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
}
fn mapping(m: QConfigMapping) -> Result<Vec<Value>> {
    Ok(vec![Value::Object(ObjectRef::new(MappingObject(Mutex::new(m))))])
}
/// The mapping that a value is.
#[cfg(feature = "graphs")]
pub(super) fn mapping_of(v: &Value) -> Result<QConfigMapping> {
    match v {
        Value::Object(o) => o.downcast::<MappingObject>().map(MappingObject::now),
        _ => None,
    }
    .ok_or_else(|| Error::missing(format!("a configuration of parts as a {}: QConfigMapping", v.type_name())))
}
fn as_dict(m: &QConfigMapping) -> Value {
    let pairs = |all: &[(String, Option<crate::qconfig::QConfig>)]| {
        let pair = |(k, q): &(String, Option<_>)| {
            Value::Tuple(vec![Value::Str(k.clone()), qconfig_value(q.clone())])
        };
        Value::List(all.iter().map(pair).collect())
    };
    let ordered = m.module_name_object_type_orders().iter().map(|((n, t, i), q)| {
        let (n, t) = (Value::Str(n.clone()), Value::Str(t.clone()));
        Value::Tuple(vec![n, t, Value::Int(*i as i64), qconfig_value(q.clone())])
    });
    Value::Dict(vec![
        (String::new(), qconfig_value(m.global().cloned())),
        ("object_type".into(), pairs(m.object_types())),
        ("module_name_regex".into(), pairs(m.module_name_regexes())),
        ("module_name".into(), pairs(m.module_names())),
        ("module_name_object_type_order".into(), Value::List(ordered.collect())),
    ])
}
impl Object for MappingObject {
    fn type_name(&self) -> &'static str {
        "QConfigMapping"
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        match name {
            "global_qconfig" => Ok(qconfig_value(self.now().global().cloned())),
            _ => Err(no_attribute("QConfigMapping", name)),
        }
    }
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        if name == "to_dict" {
            return Ok(vec![as_dict(&self.now())]);
        }
        let q = |v: &Value| qconfig_in(v).ok_or_else(|| Error::type_("a QConfig is expected"));
        let now = self.now();
        let new = match name {
            "set_global" => {
                let s = Slots::new("set_global", &["global_qconfig"], args, kwargs)?;
                now.set_global(q(s.must(0)?)?)
            }
            "set_object_type" => {
                let s = Slots::new("set_object_type", &["object_type", "qconfig"], args, kwargs)?;
                now.set_object_type(&object_type(s.must(0)?)?, q(s.must(1)?)?)
            }
            "set_module_name_regex" => {
                let s = Slots::new("set_module_name_regex", &["module_name_regex", "qconfig"], args, kwargs)?;
                now.try_set_module_name_regex(&String::from_value(s.must(0)?)?, q(s.must(1)?)?)?
            }
            "set_module_name" => {
                let s = Slots::new("set_module_name", &["module_name", "qconfig"], args, kwargs)?;
                now.set_module_name(&String::from_value(s.must(0)?)?, q(s.must(1)?)?)
            }
            "set_module_name_object_type_order" => {
                const P: &[&str] = &["module_name", "object_type", "index", "qconfig"];
                let s = Slots::new("set_module_name_object_type_order", P, args, kwargs)?;
                let index = usize::try_from(i64::from_value(s.must(2)?)?);
                let index = index.map_err(|_| Error::value("a place is no negative number"))?;
                let name = String::from_value(s.must(0)?)?;
                now.set_module_name_object_type_order(&name, &object_type(s.must(1)?)?, index, q(s.must(3)?)?)
            }
            _ => return Err(no_attribute("QConfigMapping", name)),
        };
        *self.0.lock().unwrap_or_else(|e| e.into_inner()) = new;
        Ok(Vec::new())
    }
    fn returns_self(&self, name: &str) -> bool {
        name.starts_with("set_")
    }
    fn repr(&self) -> String {
        self.now().to_string()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
fn backend(name: &'static str, a: &[Value], k: &Kwargs) -> Result<String> {
    let s = Slots::new(name, &["backend", "version"], a, k)?;
    Ok(s.get::<String>(0)?.unwrap_or_else(|| "x86".into()))
}
macro_rules! tables {
    ($($name:ident)*) => {
        const TABLES: &[(&str, NativeFn)] = &[$((stringify!($name), |a, k| {
            Slots::new(stringify!($name), &[], a, k)?;
            table(fusers::$name())
        })),*];
    };
}
tables! {
    get_default_static_quant_module_mappings get_default_static_quant_reference_module_mappings
    get_embedding_static_quant_module_mappings get_default_static_sparse_quant_module_mappings
    get_default_dynamic_sparse_quant_module_mappings get_default_qat_module_mappings
    get_embedding_qat_module_mappings get_default_dynamic_quant_module_mappings
    get_default_float_to_quantized_operator_mappings
}
fn class_of(name: &'static str, a: &[Value], k: &Kwargs) -> Result<String> {
    let s = Slots::new(name, &["float_module_class", "additional_mapping", "is_reference"], a, k)?;
    ensure!(
        matches!(s.values[1], None | Some(Value::None)),
        Missing,
        "{name} by name with a table of one's own"
    );
    object_type(s.must(0)?)
}
fn granular(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("get_block_size", &["input_shape", "granularity"], a, k)?;
    let shape = Vec::<i64>::from_value(s.must(0)?)?;
    let g = match s.must(1)? {
        Value::Object(o) => o.downcast::<Granular>(),
        _ => None,
    };
    let g =
        g.ok_or_else(|| Error::assertion("Please provide an instance of Granularity, not subclass of it"))?;
    let all = match g {
        Granular::Tensor => try_get_block_size(&shape, &PerTensor),
        Granular::Axis(axis) => try_get_block_size(&shape, &PerAxis { axis: *axis }),
        Granular::Group(n) => try_get_block_size(&shape, &PerGroup { group_size: *n }),
        Granular::Row => try_get_block_size(&shape, &PerRow),
        Granular::Token => try_get_block_size(&shape, &PerToken),
    }?;
    Ok(vec![Value::Tuple(all.into_iter().map(Value::Int).collect())])
}
enum Granular {
    Tensor,
    Axis(i64),
    Group(i64),
    Row,
    Token,
}
impl Object for Granular {
    fn type_name(&self) -> &'static str {
        match self {
            Granular::Tensor => "PerTensor",
            Granular::Axis(_) => "PerAxis",
            Granular::Group(_) => "PerGroup",
            Granular::Row => "PerRow",
            Granular::Token => "PerToken",
        }
    }
    fn repr(&self) -> String {
        match self {
            Granular::Axis(n) => format!("PerAxis(axis={n})"),
            Granular::Group(n) => format!("PerGroup(group_size={n})"),
            other => format!("{}()", other.type_name()),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
fn one(g: Granular) -> Result<Vec<Value>> {
    Ok(vec![Value::Object(ObjectRef::new(g))])
}
const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("QConfigMapping", |a, k| {
        Slots::new("QConfigMapping.__init__", &[], a, k)?;
        mapping(QConfigMapping::new())
    }),
    ("get_default_qconfig_mapping", |a, k| {
        mapping(try_get_default_qconfig_mapping(&backend("get_default_qconfig_mapping", a, k)?)?)
    }),
    ("get_default_qat_qconfig_mapping", |a, k| {
        mapping(try_get_default_qat_qconfig_mapping(&backend("get_default_qat_qconfig_mapping", a, k)?)?)
    }),
    ("get_default_qconfig_dict", |a, k| {
        Ok(vec![as_dict(&try_get_default_qconfig_mapping(&backend("get_default_qconfig_dict", a, k)?)?)])
    }),
    ("get_default_qat_qconfig_dict", |a, k| {
        Ok(vec![as_dict(&try_get_default_qat_qconfig_mapping(&backend(
            "get_default_qat_qconfig_dict",
            a,
            k,
        )?)?)])
    }),
    ("get_static_quant_module_class", |a, k| {
        let reference = matches!(a.get(2), Some(Value::Bool(true)));
        let class = class_of("get_static_quant_module_class", a, k)?;
        Ok(vec![Named::value(fusers::try_get_static_quant_module_class(&class, &[], reference)?)])
    }),
    ("get_dynamic_quant_module_class", |a, k| {
        let class = class_of("get_dynamic_quant_module_class", a, k)?;
        Ok(vec![Named::value(fusers::try_get_dynamic_quant_module_class(&class, &[])?)])
    }),
    ("get_quantized_operator", |a, k| {
        let s = Slots::new("get_quantized_operator", &["float_op"], a, k)?;
        Ok(vec![Named::value(fusers::try_get_quantized_operator(&object_type(s.must(0)?)?)?)])
    }),
    ("get_block_size", granular),
    ("PerTensor", |a, k| Slots::new("PerTensor.__init__", &[], a, k).and_then(|_| one(Granular::Tensor))),
    ("PerRow", |a, k| Slots::new("PerRow.__init__", &[], a, k).and_then(|_| one(Granular::Row))),
    ("PerToken", |a, k| Slots::new("PerToken.__init__", &[], a, k).and_then(|_| one(Granular::Token))),
    ("PerAxis", |a, k| {
        let s = Slots::new("PerAxis.__init__", &["axis"], a, k)?;
        one(Granular::Axis(i64::from_value(s.must(0)?)?))
    }),
    ("PerGroup", |a, k| {
        let s = Slots::new("PerGroup.__init__", &["group_size"], a, k)?;
        one(Granular::Group(i64::from_value(s.must(0)?)?))
    }),
];
/// `QUANTIZED.from_float(mod)`: the quantized form of one layer.
fn from_float(mapping: Mapping, a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("from_float", &["mod", "use_precomputed_fake_quant"], a, k)?;
    let new = super::flows::object(s.must(0)?)?.with(|m| {
        ensure!(
            flow::qconfig(m.as_module()).is_some(),
            Assertion,
            "Input float module must have qconfig defined"
        );
        swapped(m.as_module(), mapping)
    })?;
    match new {
        Some(new) => Ok(vec![Value::Object(ModuleObject::of(new))]),
        None => Err(Error::assertion("the class of this layer has no quantized form")),
    }
}
pub(super) fn register() {
    let mut quantized: Vec<&str> =
        fusers::get_default_static_quant_module_mappings().iter().map(|(_, q)| *q).collect();
    quantized.dedup();
    for q in quantized {
        flambeau_library::register_function(&format!("{q}.from_float"), |a, k| {
            from_float(Mapping::Static, a, k)
        });
    }
    for (_, q) in fusers::get_default_dynamic_quant_module_mappings() {
        if q.contains(".dynamic.") {
            let f = |a: &[Value], k: &Kwargs| from_float(Mapping::Dynamic, a, k);
            flambeau_library::register_function(&format!("{q}.from_float"), f);
        }
    }
    for space in SPACES
        .iter()
        .chain(&["torch.ao.quantization.qconfig_mapping", "torch.ao.quantization.quantization_mappings"])
    {
        for (name, f) in FUNCTIONS.iter().chain(TABLES) {
            flambeau_library::register_function(&format!("{space}.{name}"), *f);
        }
    }
}
