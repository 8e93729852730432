//! Methods that change a tensor's geometry or memory, and Python's element-wise ones, by name. A handle of the caller's keeps
//! its geometry: the result is the changed tensor.

use crate::slots::{Slots, one};
use crate::storages::{SHARED_FILE, storage_of};
use crate::{NativeFn, Target};
use flambeau_core::api::regeometry;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::{FromValue, Value};
use flambeau_core::iter::promotion::default_dtype;
use flambeau_core::tensor::handle::Tensor;
use flambeau_core::types::error::{Error, Result};
use flambeau_core::types::scalar::Scalar;
use flambeau_core::{DType, MemoryFormat, Scalar as Number, ensure, ops};
use num_complex::Complex;
use std::collections::HashMap;

/// Puts the functions beside the operators.
pub(crate) fn add(functions: &mut HashMap<String, Target>) {
    for (path, f) in NATIVE {
        functions.entry((*path).to_string()).or_insert(Target::Native(*f));
    }
}

fn int(v: &Value, name: &str) -> Result<i64> {
    i64::from_value(v).map_err(|_| Error::type_(format!("{name}(): expected an int, not {}", v.type_name())))
}
fn ints(v: &Value) -> Result<Vec<i64>> {
    match v {
        Value::Int(i) => Ok(vec![*i]),
        v => Vec::<i64>::from_value(v),
    }
}
/// `x.name_(a, b)` for two ints.
fn two(
    name: &'static str,
    parameters: &'static [&'static str],
    args: &[Value],
    kwargs: &Kwargs,
    f: impl FnOnce(&mut Tensor, i64, i64) -> Result<()>,
) -> Result<Vec<Value>> {
    let s = Slots::new(name, parameters, args, kwargs)?;
    let mut t = s.tensor()?;
    f(&mut t, int(s.must(1)?, name)?, int(s.must(2)?, name)?)?;
    one(t)
}
fn squeeze_(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("squeeze_", &["self", "dim"], args, kwargs)?;
    let mut t = s.tensor()?;
    match s.values[1] {
        None => t.try_squeeze_()?,
        Some(Value::Int(d)) => t.try_squeeze_dim_(*d)?,
        Some(v) => t.try_squeeze_dims_(&ints(v)?)?,
    }
    one(t)
}
fn as_strided_(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] = &["self", "size", "stride", "storage_offset"];
    let s = Slots::new("as_strided_", names, args, kwargs)?;
    let mut t = s.tensor()?;
    t.try_as_strided_(&ints(s.must(1)?)?, &ints(s.must(2)?)?, s.get(3)?)?;
    one(t)
}
/// Sizes may be given as one list or one by one.
fn resize_(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let format = kwargs.iter().find(|(k, _)| k == "memory_format").map(|(_, v)| v);
    let named = kwargs.iter().find(|(k, _)| k == "size" || k == "sizes").map(|(_, v)| v);
    let Some(Value::Tensor(t)) = args.first() else {
        return Err(Error::type_("resize_(): expected a Tensor"));
    };
    let sizes = match (&args[1..], named) {
        ([one], None) => ints(one)?,
        ([], Some(v)) => ints(v)?,
        (many, None) => many.iter().map(|v| int(v, "resize_")).collect::<Result<_>>()?,
        _ => return Err(Error::type_("resize_() got multiple values for argument 'size'")),
    };
    let format = match format {
        None | Some(Value::None) => None,
        Some(v) => Some(MemoryFormat::from_value(v)?),
    };
    let mut t = t.clone();
    t.try_resize_(&sizes, format)?;
    one(t)
}
fn resize_as_(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("resize_as_", &["self", "the_template", "memory_format"], args, kwargs)?;
    let mut t = s.tensor()?;
    t.try_resize_as_(&Tensor::from_value(s.must(1)?)?, s.get(2)?)?;
    one(t)
}
fn set_(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("set_", &["self", "source", "storage_offset", "size", "stride"], args, kwargs)?;
    let mut t = s.tensor()?;
    let offset = s.get::<i64>(2)?;
    let list = |i: usize| s.values[i].map(ints).transpose();
    let (size, stride) = (list(3)?, list(4)?.unwrap_or_default());
    match s.values[1] {
        None | Some(Value::None) => t.try_set_(None)?,
        Some(Value::Tensor(source)) => match (offset, size) {
            (None, None) => t.try_set_(Some(source))?,
            (offset, size) => {
                ensure!(!source.requires_grad(), Unsupported, "derivative for aten::set_ is not implemented");
                let memory = flambeau_core::TypedStorage::of(source);
                t.try_set_storage_(&memory, offset.unwrap_or(0), size.as_deref(), &stride)?;
            }
        },
        Some(v) => match storage_of(v) {
            Some(memory) => t.try_set_storage_(&memory, offset.unwrap_or(0), size.as_deref(), &stride)?,
            None => {
                let t = v.type_name();
                let no =
                    format!("      didn't match because some of the arguments have invalid types: (!{t}!)\n");
                return Err(Error::type_(format!(
                    "set_() received an invalid combination of arguments - got ({t}), but expected one of:\n * ()\n{no} * \
                     (torch.Storage source)\n{no} * (torch.Storage source, int storage_offset, tuple of ints size, tuple of ints \
                     stride = None)\n * (Tensor source)\n{no} * (Tensor source, int storage_offset, tuple of ints size, tuple of \
                     ints stride = None)\n"
                )));
            }
        },
    }
    one(t)
}

/// A Python number as an element of the dtype's widest kind.
trait Wide: flambeau_core::Element {
    fn of(s: Scalar) -> Self;
    fn value(self) -> Value;
}
impl Wide for f64 {
    fn of(s: Scalar) -> f64 {
        s.to_f64()
    }
    fn value(self) -> Value {
        Value::Float(self)
    }
}
impl Wide for i64 {
    fn of(s: Scalar) -> i64 {
        s.to_i64()
    }
    fn value(self) -> Value {
        Value::Int(self)
    }
}
impl Wide for Complex<f64> {
    fn of(s: Scalar) -> Complex<f64> {
        s.to_complex()
    }
    fn value(self) -> Value {
        Value::Complex(self)
    }
}
fn called<T: Wide>(f: &Value, args: &[Value]) -> Result<T> {
    let Value::Object(o) = f else {
        return Err(Error::type_(format!("'{}' object is not callable", f.type_name())));
    };
    let r = o.call(args, &[])?;
    let number: Option<Number> = match r.first() {
        Some(Value::Tensor(t)) => Some(t.try_item()?),
        Some(v) => v.as_scalar(),
        None => None,
    };
    number.map(T::of).ok_or_else(|| Error::type_("the function must return a number"))
}
/// `apply_`, `map_` or `map2_`, by how many other tensors there are.
fn applied<T: Wide>(t: &Tensor, others: &[Tensor], f: &Value) -> Result<()> {
    match others {
        [] => t.try_apply_::<T>(|a| called(f, &[a.value()])),
        [x] => t.try_map_::<T>(x, |a, b| called(f, &[a.value(), b.value()])),
        [x, y, ..] => t.try_map2_::<T>(x, y, |a, b, c| called(f, &[a.value(), b.value(), c.value()])),
    }
}
fn elementwise(
    name: &'static str,
    parameters: &'static [&'static str],
    args: &[Value],
    kwargs: &Kwargs,
) -> Result<Vec<Value>> {
    let s = Slots::new(name, parameters, args, kwargs)?;
    let t = s.tensor()?;
    let last = parameters.len() - 1;
    let others = (1..last).map(|i| Tensor::from_value(s.must(i)?)).collect::<Result<Vec<_>>>()?;
    let f = s.must(last)?;
    let d = t.dtype();
    if d.is_complex() {
        applied::<Complex<f64>>(&t, &others, f)?;
    } else if d.is_floating() {
        applied::<f64>(&t, &others, f)?;
    } else {
        applied::<i64>(&t, &others, f)?;
    }
    one(t)
}
fn from_file(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] = &["filename", "shared", "size", "dtype", "layout", "device", "pin_memory"];
    let s = Slots::new("from_file", names, args, kwargs)?;
    let name = String::from_value(s.must(0)?)?;
    let (shared, size) = (s.get::<bool>(1)?.unwrap_or(false), s.get::<i64>(2)?.unwrap_or(0));
    if shared {
        return Err(Error::missing(SHARED_FILE));
    }
    let dtype = s.get::<DType>(3)?.unwrap_or_else(default_dtype);
    let t = regeometry::try_from_file(name, size, dtype)?;
    one(ops::to(&t, None, None, s.device(5)?, None, false, false, None)?)
}

/// Name and body.
const NATIVE: &[(&str, NativeFn)] = &[
    ("torch.Tensor.squeeze_", squeeze_),
    ("torch.Tensor.unsqueeze_", |a, k| {
        let s = Slots::new("unsqueeze_", &["self", "dim"], a, k)?;
        let mut t = s.tensor()?;
        t.try_unsqueeze_(int(s.must(1)?, "unsqueeze_")?)?;
        one(t)
    }),
    ("torch.Tensor.t_", |a, k| {
        let mut t = Slots::new("t_", &["self"], a, k)?.tensor()?;
        t.try_t_()?;
        one(t)
    }),
    ("torch.Tensor.transpose_", |a, k| {
        two("transpose_", &["self", "dim0", "dim1"], a, k, Tensor::try_transpose_)
    }),
    ("torch.Tensor.swapaxes_", |a, k| {
        two("swapaxes_", &["self", "axis0", "axis1"], a, k, Tensor::try_swapaxes_)
    }),
    ("torch.Tensor.swapdims_", |a, k| {
        two("swapdims_", &["self", "dim0", "dim1"], a, k, Tensor::try_swapdims_)
    }),
    ("torch.Tensor.as_strided_", as_strided_),
    ("torch.Tensor.resize_", resize_),
    ("torch.Tensor.resize_as_", resize_as_),
    ("torch.Tensor.set_", set_),
    ("torch.Tensor.is_set_to", |a, k| {
        let s = Slots::new("is_set_to", &["self", "tensor"], a, k)?;
        match s.must(1)? {
            Value::Tensor(o) => one(s.tensor()?.is_set_to(o)),
            other => Err(Error::type_(format!(
                "is_set_to(): argument 'tensor' (position 1) must be Tensor, not {}",
                other.type_name()
            ))),
        }
    }),
    ("torch.Tensor.polygamma_", |a, k| {
        let s = Slots::new("polygamma_", &["self", "n"], a, k)?;
        let t = s.tensor()?;
        t.try_polygamma_(int(s.must(1)?, "polygamma_")?)?;
        one(t)
    }),
    ("torch.Tensor.apply_", |a, k| elementwise("apply_", &["self", "callable"], a, k)),
    ("torch.Tensor.map_", |a, k| elementwise("map_", &["self", "tensor", "callable"], a, k)),
    ("torch.Tensor.map2_", |a, k| elementwise("map2_", &["self", "x", "y", "callable"], a, k)),
    ("torch.from_file", from_file),
];
