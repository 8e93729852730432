//! Values as a Python program sees them: attributes, methods, results as one value, and `repr`.

use super::lookup;
use crate::dispatch::object;
use crate::dispatch::object::{Kwargs, no_attribute};
use crate::dispatch::op::OpInfo;
use crate::dispatch::value::{NamedTuple, Value};
use crate::library::class::PyText;
use crate::text::to_text;
use crate::types::error::{Error, Result};

/// The results of a call as the one value that Python's call gives: several are a tuple, of the class
/// `torch.return_types.NAME` where the operator names them.
fn collect(mut results: Vec<Value>, op: Option<&'static OpInfo>) -> Value {
    match results.len() {
        0 => return Value::None,
        1 => return results.remove(0),
        _ => {}
    }
    let returns = op.map_or(&[][..], |o| o.schema.returns);
    if returns.len() != results.len() || returns.iter().any(|r| r.0.is_empty()) {
        return Value::Tuple(results);
    }
    let name = op.map_or("", |o| super::base(o));
    let out = if op.is_some_and(|o| super::signature::is_out(&o.schema)) { "_out" } else { "" };
    let class = format!("torch.return_types.{name}{out}");
    Value::Named(NamedTuple { class, fields: returns.iter().map(|r| r.0).collect(), items: results })
}

/// Calls a function or class by its documented name, and returns its results as one value.
///
/// # Errors
/// As [`call`](super::call).
pub fn call_value(path: &str, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
    match lookup(path) {
        Some(f) => {
            let (results, op) = f.invoke(&super::plain(args), kwargs)?;
            Ok(collect(results, op))
        }
        None => object::construct(path, args, kwargs).map(Value::Object),
    }
}

/// Reads an attribute: `x.shape`, `torch.device("cpu").type`, `torch.float32.itemsize`, `result.values`.
///
/// # Errors
/// An attribute error where there is none of that name.
pub fn attribute(v: &Value, name: &str) -> Result<Value> {
    let missing = || Err(no_attribute(v.type_name(), name));
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
        (Value::Generator(_), "device") => Ok(Value::Device(crate::Device::Cpu)),
        _ => missing(),
    }
}

/// Calls a method: those of a tensor are `torch.Tensor.NAME`.
///
/// # Errors
/// An attribute error where there is none of that name, and those of the call.
pub fn method(v: &Value, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
    let owner = match v {
        Value::Object(o) => return o.method(name, args, kwargs).map(|r| collect(r, None)),
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
        return Err(Error::missing(format!("no method named '{path}'")));
    }
    let mut all = vec![v.clone()];
    all.extend_from_slice(args);
    call_value(&path, &all, kwargs)
}

/// Python's `repr` of a string.
fn quoted(s: &str) -> String {
    let q = if s.contains('\'') && !s.contains('"') { '"' } else { '\'' };
    let mut out = String::from(q);
    for c in s.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            c if c == q => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push(q);
    out
}
/// A part of a complex number: no `.0`.
fn part(v: f64) -> String {
    let s = v.py_text();
    s.strip_suffix(".0").map_or(s.clone(), str::to_string)
}

/// Python's `repr` of a value.
///
/// # Errors
/// When a tensor's elements cannot be read.
pub fn repr(v: &Value) -> Result<String> {
    let list = |l: &[Value]| l.iter().map(repr).collect::<Result<Vec<_>>>().map(|l| l.join(", "));
    Ok(match v {
        Value::Tensor(t) => to_text(t)?,
        Value::Object(o) => o.repr(),
        Value::None => "None".into(),
        Value::Bool(b) => b.py_text(),
        Value::Int(i) => i.to_string(),
        Value::Float(x) => x.py_text(),
        Value::Complex(c) if c.re == 0.0 && !c.re.is_sign_negative() => format!("{}j", part(c.im)),
        Value::Complex(c) => {
            let im = part(c.im);
            let plus = if im.starts_with('-') { "" } else { "+" };
            format!("({}{plus}{im}j)", part(c.re))
        }
        Value::Str(s) => quoted(s),
        Value::DType(d) => format!("torch.{}", d.name()),
        Value::Layout(l) => format!("torch.{}", l.name()),
        Value::MemoryFormat(m) => format!("torch.{}", m.name()),
        Value::Device(d) => match d.index() {
            Some(i) => format!("device(type='{}', index={i})", d.kind()),
            None => format!("device(type='{}')", d.kind()),
        },
        Value::Generator(g) => format!("{g:?}"),
        Value::List(l) => format!("[{}]", list(l)?),
        Value::Tuple(l) if l.len() == 1 => format!("({},)", repr(&l[0])?),
        Value::Tuple(l) => format!("({})", list(l)?),
        Value::Named(t) if t.fields.is_empty() => format!("{}([{}])", t.class, list(&t.items)?),
        Value::Named(t) => {
            let one = |(f, v): (&&str, &Value)| Ok(format!("{f}={}", repr(v)?));
            let items = t.fields.iter().zip(&t.items).map(one).collect::<Result<Vec<_>>>()?;
            format!("{}(\n{})", t.class, items.join(",\n"))
        }
        Value::Dict(l) => {
            let one = |(k, v): &(String, Value)| Ok(format!("{}: {}", quoted(k), repr(v)?));
            format!("{{{}}}", l.iter().map(one).collect::<Result<Vec<_>>>()?.join(", "))
        }
        Value::Slice(p) => {
            let p = p.map(|i| i.map_or("None".to_string(), |i| i.to_string()));
            format!("slice({})", p.join(", "))
        }
        Value::Ellipsis => "Ellipsis".into(),
    })
}
