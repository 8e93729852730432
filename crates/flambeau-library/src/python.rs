//! Values as a Python program sees them: attributes, methods, results as one value, and `repr`.

use crate::{lookup, object};
use flambeau_core::dispatch::object::{Kwargs, entering, no_attribute};
use flambeau_core::dispatch::op::OpInfo;
use flambeau_core::dispatch::value::{NamedTuple, Value};
use flambeau_core::dispatch::wrapper::class_of;
use flambeau_core::types::error::{Error, Result};

/// The results of a call as the one value that Python's call gives: several are a tuple, of the class
/// `torch.return_types.NAME` where the operator names them.
pub fn collected(mut results: Vec<Value>, op: Option<&'static OpInfo>) -> Value {
    match results.len() {
        0 => return Value::None,
        1 => return results.remove(0),
        _ => {}
    }
    let returns = op.map_or(&[][..], |o| o.schema.returns);
    if returns.len() != results.len() || returns.iter().any(|r| r.0.is_empty()) {
        return Value::Tuple(results);
    }
    let name = op.map_or("", |o| crate::base(o));
    let out = if op.is_some_and(|o| crate::signature::is_out(&o.schema)) { "_out" } else { "" };
    let class = format!("torch.return_types.{name}{out}");
    Value::Named(NamedTuple { class, fields: returns.iter().map(|r| r.0).collect(), items: results })
}

/// Calls a function or class by its documented name, and returns its results as one value.
///
/// ```
/// use torch::library::{Value, attribute, call_value, method};
/// let x = call_value("torch.arange", &[4.into()], &[])?;
/// let total = method(&x, "sum", &[], &[])?;
/// assert!(matches!(&total, Value::Tensor(t) if t.item::<i64>() == 6));
/// assert!(matches!(attribute(&x, "ndim")?, Value::Int(1)));
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// As [`call`](crate::call).
pub fn call_value(path: &str, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
    entering(args, kwargs)?;
    match lookup(path) {
        Some(f) => {
            let (results, op) = f.invoke(&crate::plain(args), kwargs)?;
            Ok(collected(results, op))
        }
        None => object::construct(path, args, kwargs).map(Value::Object),
    }
}

/// What a masked or nested tensor has of its own under a name.
fn of_wrapper(v: &Value, name: &str, args: &[Value], kwargs: &Kwargs) -> Option<Result<Value>> {
    match v {
        Value::Tensor(t) => (class_of(t)?.named)(name, t, args, kwargs),
        _ => None,
    }
}

/// Reads an attribute: `x.shape`, `torch.device("cpu").type`, `torch.float32.itemsize`, `result.values`.
///
/// # Errors
/// An attribute error where there is none of that name.
pub fn attribute(v: &Value, name: &str) -> Result<Value> {
    entering(std::slice::from_ref(v), &[])?;
    let missing = || Err(no_attribute(v.type_name(), name));
    if let Some(r) = of_wrapper(v, name, &[], &[]) {
        return r;
    }
    match (v, name) {
        (Value::Tensor(_), _) => {
            let path = format!("torch.Tensor.{name}");
            match lookup(&path) {
                Some(_) => call_value(&path, std::slice::from_ref(v), &[]),
                None => missing(),
            }
        }
        (Value::Object(o), _) => o.attribute(name),
        (Value::Named(t), _) => t.get(name).cloned().map_or_else(missing, Ok),
        (Value::Device(d), "type") => Ok(Value::Str(d.kind().into())),
        (Value::Device(d), "index") => Ok(d.index().map_or(Value::None, |i| Value::Int(i64::from(i)))),
        (Value::DType(d), "itemsize") => Ok(Value::Int(d.size() as i64)),
        (Value::DType(d), "is_floating_point") => Ok(Value::Bool(d.is_floating())),
        (Value::DType(d), "is_complex") => Ok(Value::Bool(d.is_complex())),
        (Value::DType(d), "is_signed") => Ok(Value::Bool(d.is_signed())),
        (Value::Generator(_), "device") => Ok(Value::Device(flambeau_core::Device::Cpu)),
        _ => missing(),
    }
}

/// Methods of Python's tensors that have no name here: the others are there, and what is not is no method.
const NOT_YET: [&str; 6] =
    ["__deepcopy__", "__dlpack__", "__dlpack_device__", "__reduce_ex__", "__setstate__", "__array__"];

/// Calls a method: those of a tensor are `torch.Tensor.NAME`.
///
/// # Errors
/// An attribute error where there is none of that name, and those of the call.
pub fn method(v: &Value, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
    entering(std::slice::from_ref(v), &[])?;
    entering(args, kwargs)?;
    if let Some(r) = of_wrapper(v, name, &crate::plain(args), kwargs) {
        return r;
    }
    let owner = match v {
        Value::Object(o) => {
            let results = o.method(name, args, kwargs)?;
            return Ok(if results.is_empty() && o.returns_self(name) {
                v.clone()
            } else {
                collected(results, None)
            });
        }
        Value::Tensor(_) => "torch.Tensor",
        Value::Generator(_) => "torch.Generator",
        Value::DType(d) if args.is_empty() && kwargs.is_empty() => match name {
            "to_real" => return Ok(Value::DType(d.to_real())),
            "to_complex" => return Ok(Value::DType(d.to_complex())),
            _ => return Err(no_attribute("torch.dtype", name)),
        },
        Value::Named(t) if t.class == "torch.Size" && name == "numel" => {
            return Ok(Value::Int(
                t.items.iter().map(|n| if let Value::Int(n) = n { *n } else { 0 }).product(),
            ));
        }
        _ => return Err(no_attribute(v.type_name(), name)),
    };
    let path = format!("{owner}.{name}");
    if lookup(&path).is_none() {
        if owner == "torch.Tensor" && !NOT_YET.contains(&name) {
            return Err(no_attribute("Tensor", name));
        }
        return Err(Error::missing(format!("no method named '{path}'")));
    }
    let mut all = vec![v.clone()];
    all.extend_from_slice(args);
    call_value(&path, &all, kwargs)
}
