//! Values hold values, to any depth: they are copied and dropped in a loop, and shown to a depth. Calls take and give a limited
//! depth (`deep::check`), so that what walks values within them may recurse.

use crate::dispatch::value::{NamedTuple, Value};
use crate::types::deep::{self, Nest};
use std::fmt;

impl Nest for Value {
    fn hollow() -> Self {
        Value::None
    }
    fn nests(&self) -> bool {
        matches!(self, Value::List(_) | Value::Tuple(_) | Value::Named(_) | Value::Dict(_))
    }
    fn parts<'a>(&'a self, each: &mut dyn FnMut(&'a Self)) {
        match self {
            Value::List(l) | Value::Tuple(l) | Value::Named(NamedTuple { items: l, .. }) => {
                l.iter().for_each(each);
            }
            Value::Dict(l) => l.iter().map(|(_, v)| v).for_each(each),
            _ => {}
        }
    }
    fn parts_mut<'a>(&'a mut self, each: &mut dyn FnMut(&'a mut Self)) {
        match self {
            Value::List(l) | Value::Tuple(l) | Value::Named(NamedTuple { items: l, .. }) => {
                l.iter_mut().for_each(each);
            }
            Value::Dict(l) => l.iter_mut().map(|(_, v)| v).for_each(each),
            _ => {}
        }
    }
}
impl Drop for Value {
    #[inline]
    fn drop(&mut self) {
        deep::drop_parts(self);
    }
}
impl Clone for Value {
    fn clone(&self) -> Self {
        deep::copy(self, shell)
    }
}
/// A copy without what it holds.
fn shell(v: &Value) -> Value {
    let hollow = |l: &[Value]| l.iter().map(|_| Value::None).collect::<Vec<_>>();
    match v {
        Value::None => Value::None,
        Value::Bool(v) => Value::Bool(*v),
        Value::Int(v) => Value::Int(*v),
        Value::Float(v) => Value::Float(*v),
        Value::Complex(v) => Value::Complex(*v),
        Value::Str(v) => Value::Str(v.clone()),
        Value::Tensor(v) => Value::Tensor(v.clone()),
        Value::DType(v) => Value::DType(*v),
        Value::Device(v) => Value::Device(*v),
        Value::Layout(v) => Value::Layout(*v),
        Value::MemoryFormat(v) => Value::MemoryFormat(*v),
        Value::Generator(v) => Value::Generator(v.clone()),
        Value::List(l) => Value::List(hollow(l)),
        Value::Tuple(l) => Value::Tuple(hollow(l)),
        Value::Named(t) => {
            let (class, fields) = (t.class.clone(), t.fields.clone());
            Value::Named(NamedTuple { class, fields, items: hollow(&t.items) })
        }
        Value::Dict(l) => Value::Dict(l.iter().map(|(k, _)| (k.clone(), Value::None)).collect()),
        Value::Slice(v) => Value::Slice(*v),
        Value::Ellipsis => Value::Ellipsis,
        Value::Object(v) => Value::Object(v.clone()),
    }
}

impl fmt::Display for Value {
    /// Python's `repr`; of what has none, too deep a nesting or a tensor that cannot be read, the reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match crate::text::repr(self) {
            Ok(text) => f.write_str(&text),
            Err(e) => write!(f, "<{e}>"),
        }
    }
}
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        deep::show(f, |f| match self {
            Value::None => f.write_str("None"),
            Value::Bool(v) => f.debug_tuple("Bool").field(v).finish(),
            Value::Int(v) => f.debug_tuple("Int").field(v).finish(),
            Value::Float(v) => f.debug_tuple("Float").field(v).finish(),
            Value::Complex(v) => f.debug_tuple("Complex").field(v).finish(),
            Value::Str(v) => f.debug_tuple("Str").field(v).finish(),
            Value::Tensor(v) => f.debug_tuple("Tensor").field(v).finish(),
            Value::DType(v) => f.debug_tuple("DType").field(v).finish(),
            Value::Device(v) => f.debug_tuple("Device").field(v).finish(),
            Value::Layout(v) => f.debug_tuple("Layout").field(v).finish(),
            Value::MemoryFormat(v) => f.debug_tuple("MemoryFormat").field(v).finish(),
            Value::Generator(v) => f.debug_tuple("Generator").field(v).finish(),
            Value::List(v) => f.debug_tuple("List").field(v).finish(),
            Value::Tuple(v) => f.debug_tuple("Tuple").field(v).finish(),
            Value::Named(v) => f.debug_tuple("Named").field(v).finish(),
            Value::Dict(v) => f.debug_tuple("Dict").field(v).finish(),
            Value::Slice(v) => f.debug_tuple("Slice").field(v).finish(),
            Value::Ellipsis => f.write_str("Ellipsis"),
            Value::Object(v) => f.debug_tuple("Object").field(v).finish(),
        })
    }
}
