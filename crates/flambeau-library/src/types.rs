//! Types, their attributes and constants by name: `torch.finfo`, `torch.Size`, `torch.device`, `torch.float32`.

use crate::NativeFn;
use crate::slots::Slots;
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::dispatch::stand_in::resolved;
use flambeau_core::dispatch::value::{FromValue, NamedTuple, Value};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::iter::promotion;
use flambeau_core::types::error::{Error, Result};
use flambeau_core::types::order::RwLock;
use flambeau_core::types::type_info::{FInfo, IInfo, finfo, iinfo};
use flambeau_core::{DType, Device, Layout, MemoryFormat};
use std::any::Any;
use std::collections::BTreeMap;

/// `torch.finfo` as an object.
struct FInfoObject(FInfo);
impl Object for FInfoObject {
    fn type_name(&self) -> &'static str {
        "finfo"
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        Ok(match name {
            "bits" => Value::Int(i64::from(self.0.bits)),
            "eps" => Value::Float(self.0.eps),
            "max" => Value::Float(self.0.max),
            "min" => Value::Float(self.0.min),
            "tiny" => Value::Float(self.0.tiny),
            "smallest_normal" => Value::Float(self.0.smallest_normal),
            "resolution" => Value::Float(self.0.resolution),
            "dtype" => Value::Str(self.0.dtype.name().into()),
            _ => return Err(no_attribute("torch.finfo", name)),
        })
    }
    fn repr(&self) -> String {
        self.0.to_string()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
/// `torch.iinfo` as an object.
struct IInfoObject(IInfo);
impl Object for IInfoObject {
    fn type_name(&self) -> &'static str {
        "iinfo"
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        // uint64's largest number is no i64
        let int = |v: i128| i64::try_from(v).map_or(Value::Float(v as f64), Value::Int);
        Ok(match name {
            "bits" => Value::Int(i64::from(self.0.bits)),
            "max" => int(self.0.max),
            "min" => int(self.0.min),
            "dtype" => Value::Str(self.0.dtype.name().into()),
            _ => return Err(no_attribute("torch.iinfo", name)),
        })
    }
    fn repr(&self) -> String {
        self.0.to_string()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn size(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("Size", &["iterable"], args, kwargs)?;
    let items = match s.values[0] {
        None => &[][..],
        Some(v) => match (v, v.items()) {
            (_, Some(l)) => l,
            (Value::Str(t), None) if !t.is_empty() => {
                return Err(Error::type_("torch.Size() takes an iterable of 'int' (item 0 is 'str')"));
            }
            _ => return Err(Error::type_(format!("'{}' object is not iterable", v.type_name()))),
        },
    };
    let mut sizes = Vec::new();
    for (i, v) in items.iter().enumerate() {
        match v {
            Value::Int(n) => sizes.push(*n),
            other => {
                return Err(Error::type_(format!(
                    "torch.Size() takes an iterable of 'int' (item {i} is '{}')",
                    other.type_name()
                )));
            }
        }
    }
    Ok(vec![NamedTuple::size(&sizes).into()])
}

fn device_arg(a: &[Value]) -> Result<&Value> {
    match a.first() {
        Some(d @ Value::Device(_)) => Ok(d),
        _ => Err(Error::type_("expected a torch.device")),
    }
}
/// Python makes named results of sequences as well.
fn named(name: &str, fields: &[&'static str], args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("return_types", &["iterable"], args, kwargs)?;
    let v = s.must(0)?;
    let items = v.items().ok_or_else(|| Error::type_("constructor requires a sequence"))?;
    if items.len() != fields.len() {
        return Err(Error::type_(format!(
            "torch.return_types.{name}() takes a {}-sequence ({}-sequence given)",
            fields.len(),
            items.len()
        )));
    }
    let class = format!("torch.return_types.{name}");
    Ok(vec![NamedTuple { class, fields: fields.to_vec(), items: items.to_vec() }.into()])
}

/// `torch.device("cuda", 1)`, `torch.device("cuda:1")`, `torch.device(1)`: a bare number is a CUDA ordinal.
fn device(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("device", &["type", "index"], args, kwargs)?;
    let index = s.get::<i64>(1)?;
    let d = match (s.must(0)?, index) {
        (Value::Device(d), None) => *d,
        (Value::Str(t), None) => Device::parse(t)?,
        (Value::Str(t), Some(i)) if t.contains(':') => {
            return Err(Error::runtime(format!(
                "type (string) must not include an index because index was passed explicitly: {t} ({i})"
            )));
        }
        (Value::Str(t), Some(i)) => Device::parse(&format!("{t}:{i}"))?,
        (Value::Int(i), None) => Device::parse(&format!("cuda:{i}"))?,
        (v, _) => {
            return Err(Error::type_(format!(
                "device() received an invalid combination of arguments - got ({})",
                v.type_name()
            )));
        }
    };
    Ok(vec![Value::Device(d)])
}

/// Name and body.
pub(crate) const NATIVE: &[(&str, NativeFn)] = &[
    ("torch.finfo", |a, k| {
        let s = Slots::new("finfo", &["type"], a, k)?;
        let d = s.get::<DType>(0)?.unwrap_or_else(promotion::default_dtype);
        Ok(vec![Value::Object(ObjectRef::new(FInfoObject(finfo(d)?)))])
    }),
    ("torch.iinfo", |a, k| {
        let s = Slots::new("iinfo", &["type"], a, k)?;
        Ok(vec![Value::Object(ObjectRef::new(IInfoObject(iinfo(DType::from_value(s.must(0)?)?)?)))])
    }),
    ("torch.nn.Parameter", |a, k| {
        let s = Slots::new("Parameter", &["data", "requires_grad"], a, k)?;
        let data = match s.must(0)? {
            Value::Tensor(t) => t,
            other => return Err(flambeau_core::dispatch::object::no_attribute(other.type_name(), "detach")),
        };
        let t = resolved(data)?.alias_parameter();
        if s.get::<bool>(1)?.unwrap_or(true) {
            t.try_requires_grad_(true)?;
        }
        Ok(vec![Value::Tensor(t)])
    }),
    ("torch.device.type", |a, _| crate::attribute(device_arg(a)?, "type").map(|v| vec![v])),
    ("torch.device.index", |a, _| crate::attribute(device_arg(a)?, "index").map(|v| vec![v])),
    ("torch.return_types.kthvalue", |a, k| named("kthvalue", &["values", "indices"], a, k)),
    ("torch.return_types.max", |a, k| named("max", &["values", "indices"], a, k)),
    ("torch.return_types.median", |a, k| named("median", &["values", "indices"], a, k)),
    ("torch.return_types.min", |a, k| named("min", &["values", "indices"], a, k)),
    ("torch.return_types.mode", |a, k| named("mode", &["values", "indices"], a, k)),
    ("torch.return_types.svd", |a, k| named("svd", &["U", "S", "V"], a, k)),
    ("torch.Size", size),
    ("torch.device", device),
];

/// Further names of dtypes.
const DTYPE_ALIASES: [&str; 9] =
    ["half", "float", "double", "short", "int", "long", "chalf", "cfloat", "cdouble"];
const LAYOUTS: [Layout; 7] = [
    Layout::Strided,
    Layout::SparseCoo,
    Layout::SparseCsr,
    Layout::SparseCsc,
    Layout::SparseBsr,
    Layout::SparseBsc,
    Layout::Jagged,
];
const FORMATS: [MemoryFormat; 4] = [
    MemoryFormat::Contiguous,
    MemoryFormat::Preserve,
    MemoryFormat::ChannelsLast,
    MemoryFormat::ChannelsLast3d,
];
const NUMBERS: [(&str, f64); 4] =
    [("e", std::f64::consts::E), ("inf", f64::INFINITY), ("nan", f64::NAN), ("pi", std::f64::consts::PI)];

static REGISTERED: RwLock<BTreeMap<&'static str, fn() -> Value>> = RwLock::new(BTreeMap::new());

/// Makes an object known under its documented name (`torch.distributions.constraints.positive`). Crates call it from their
/// `fills`. A later registration of the same name is ignored.
pub fn register_constant(path: &'static str, make: fn() -> Value) {
    REGISTERED.write().unwrap_or_else(|e| e.into_inner()).entry(path).or_insert(make);
}

/// What a name that is no function stands for: `torch.float32`, `torch.strided`, `torch.pi`, `torch.newaxis`, and objects
/// that crates registered.
///
/// ```
/// use torch::library::{Value, constant, constant_names};
/// assert!(matches!(constant("torch.float16"), Some(Value::DType(torch::float16))));
/// assert!(constant_names().iter().any(|n| n == "torch.pi"));
/// ```
pub fn constant(path: &str) -> Option<Value> {
    flambeau_core::dispatch::registry::init();
    let registered = REGISTERED.read().unwrap_or_else(|e| e.into_inner()).get(path).copied();
    if let Some(make) = registered {
        return Some(make());
    }
    let name = path.strip_prefix("torch.")?;
    if let Some((_, v)) = NUMBERS.iter().find(|(n, _)| *n == name) {
        return Some(Value::Float(*v));
    }
    if name == "newaxis" {
        return Some(Value::None);
    }
    if name == "default_generator" {
        return Some(Value::Generator(flambeau_core::tensor::generator::default_generator().clone()));
    }
    let dtype = DType::from_name(name).map(Value::DType);
    let layout = || Layout::from_name(name).map(Value::Layout);
    dtype.or_else(layout).or_else(|| MemoryFormat::from_name(name).map(Value::MemoryFormat))
}

/// All names that [`constant`] knows.
pub fn constant_names() -> Vec<String> {
    flambeau_core::dispatch::registry::init();
    let registered: Vec<String> =
        REGISTERED.read().unwrap_or_else(|e| e.into_inner()).keys().map(|n| (*n).to_string()).collect();
    let numbers = NUMBERS.iter().map(|n| n.0);
    let dtypes = flambeau_core::ALL_DTYPES.iter().map(|d| d.name()).chain(DTYPE_ALIASES);
    let rest = LAYOUTS.iter().map(|l| l.name()).chain(FORMATS.iter().map(|f| f.name()));
    numbers
        .chain(dtypes)
        .chain(rest)
        .chain(["newaxis", "default_generator"])
        .map(|n| format!("torch.{n}"))
        .chain(registered)
        .collect()
}
