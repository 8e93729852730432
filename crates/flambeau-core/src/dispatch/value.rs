//! Values of any type, for by-name calls, boxed fallbacks and interpreters.

use crate::DType;
use crate::dispatch::object::ObjectRef;
use crate::tensor::generator::Generator;
use crate::tensor::geometry;
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::keys::KeySet;
use crate::types::layout::{Layout, MemoryFormat};
use crate::types::scalar::Scalar;
use num_complex::Complex;

/// An argument or result. Values may hold values to any depth: they are copied in a loop and shown to a depth. Their drop
/// recurses as Rust's does, so arguments of calls are at most some thousand levels deep.
///
/// ```
/// use torch::library::{Value, arg, call};
/// let sum = call("torch.add", &[torch::ones([2]).into(), 2.into()], &[("alpha".into(), Value::Int(3))])?;
/// assert_eq!(arg::<torch::Tensor>(&sum, 0)?.to_vec::<f32>(), [7.0, 7.0]);
/// assert!(arg::<bool>(&[Value::Int(1)], 1).is_err());
/// # Ok::<(), torch::Error>(())
/// ```
pub enum Value {
    /// `None`
    None,
    /// A bool.
    Bool(bool),
    /// An int.
    Int(i64),
    /// A float.
    Float(f64),
    /// A complex number.
    Complex(Complex<f64>),
    /// A string.
    Str(String),
    /// A tensor.
    Tensor(Tensor),
    /// A dtype.
    DType(DType),
    /// A device.
    Device(Device),
    /// A layout.
    Layout(Layout),
    /// A memory format.
    MemoryFormat(MemoryFormat),
    /// A generator.
    Generator(Generator),
    /// A list.
    List(Vec<Value>),
    /// A tuple.
    Tuple(Vec<Value>),
    /// A tuple of a class of its own: `torch.Size`, `torch.return_types.max`.
    Named(NamedTuple),
    /// A dictionary with string keys, in order.
    Dict(Vec<(String, Value)>),
    /// `slice(start, stop, step)`
    Slice([Option<i64>; 3]),
    /// `...`
    Ellipsis,
    /// An object of a class.
    Object(ObjectRef),
}

/// A tuple with a class, and field names where the class has them.
#[derive(Clone, Debug)]
pub struct NamedTuple {
    /// `torch.return_types.max`, or `torch.Size`.
    pub class: String,
    /// One name per item, or none.
    pub fields: Vec<&'static str>,
    /// The items.
    pub items: Vec<Value>,
}
impl NamedTuple {
    /// A `torch.Size`.
    #[doc(alias = "torch.Size")]
    pub fn size(sizes: &[i64]) -> NamedTuple {
        let items = sizes.iter().map(|n| Value::Int(*n)).collect();
        NamedTuple { class: "torch.Size".into(), fields: Vec::new(), items }
    }
    /// The item of that name.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.fields.iter().position(|f| *f == field).and_then(|i| self.items.get(i))
    }
}
impl From<NamedTuple> for Value {
    fn from(t: NamedTuple) -> Value {
        Value::Named(t)
    }
}

impl Value {
    /// Python's name of the value's type, for error texts.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::None => "NoneType",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::Complex(_) => "complex",
            Value::Str(_) => "str",
            Value::Tensor(_) => "Tensor",
            Value::DType(_) => "torch.dtype",
            Value::Device(_) => "torch.device",
            Value::Layout(_) => "torch.layout",
            Value::MemoryFormat(_) => "torch.memory_format",
            Value::Generator(_) => "torch._C.Generator",
            Value::List(_) => "list",
            Value::Tuple(_) => "tuple",
            Value::Named(t) if t.class == "torch.Size" => "torch.Size",
            Value::Named(_) => "tuple",
            Value::Dict(_) => "dict",
            Value::Slice(_) => "slice",
            Value::Ellipsis => "ellipsis",
            Value::Object(o) => o.type_name(),
        }
    }
    /// Keys of all tensors in the value.
    pub fn key_set(&self) -> KeySet {
        match self {
            Value::Tensor(t) => t.key_set(),
            Value::List(_) | Value::Tuple(_) | Value::Named(_) => {
                let (mut keys, mut open) = (KeySet::EMPTY, vec![self]);
                while let Some(v) = open.pop() {
                    match v {
                        Value::Tensor(t) => keys = keys | t.key_set(),
                        other => open.extend(other.items().unwrap_or(&[])),
                    }
                }
                keys
            }
            _ => KeySet::EMPTY,
        }
    }
    /// `None`, to lend where nothing was given.
    pub fn none() -> &'static Value {
        static NONE: Value = Value::None;
        &NONE
    }
    /// The tensor, if it is one; else the value itself. (Values drop in a loop however deep they are, so a pattern lends what
    /// they hold.)
    ///
    /// # Errors
    /// The value.
    pub fn into_tensor(self) -> Result<Tensor, Value> {
        match &self {
            Value::Tensor(t) => Ok(t.clone()),
            _ => Err(self),
        }
    }
    /// The elements of a list or tuple; else the value itself.
    ///
    /// # Errors
    /// The value.
    pub fn into_items(mut self) -> Result<Vec<Value>, Value> {
        match &mut self {
            Value::List(l) | Value::Tuple(l) | Value::Named(NamedTuple { items: l, .. }) => {
                Ok(std::mem::take(l))
            }
            _ => Err(self),
        }
    }
    /// The entries of a dictionary; else the value itself.
    ///
    /// # Errors
    /// The value.
    pub fn into_entries(mut self) -> Result<Vec<(String, Value)>, Value> {
        match &mut self {
            Value::Dict(l) => Ok(std::mem::take(l)),
            _ => Err(self),
        }
    }
    /// The string, if it is one; else the value itself.
    ///
    /// # Errors
    /// The value.
    pub fn into_string(mut self) -> Result<String, Value> {
        match &mut self {
            Value::Str(s) => Ok(std::mem::take(s)),
            _ => Err(self),
        }
    }
    /// The object, if it is one; else the value itself.
    ///
    /// # Errors
    /// The value.
    pub fn into_object(self) -> Result<ObjectRef, Value> {
        match &self {
            Value::Object(o) => Ok(o.clone()),
            _ => Err(self),
        }
    }
    /// The elements of a list or tuple.
    pub fn items(&self) -> Option<&[Value]> {
        match self {
            Value::List(l) | Value::Tuple(l) | Value::Named(NamedTuple { items: l, .. }) => Some(l),
            _ => None,
        }
    }
    /// The number, if it is one.
    pub fn as_scalar(&self) -> Option<Scalar> {
        match self {
            Value::Bool(b) => Some(Scalar::Bool(*b)),
            Value::Int(i) => Some(Scalar::Int(*i)),
            Value::Float(f) => Some(Scalar::Float(*f)),
            Value::Complex(c) => Some(Scalar::Complex(*c)),
            _ => None,
        }
    }
}

/// A Rust type that an operator takes or gives, as a value.
#[diagnostic::on_unimplemented(
    message = "an operator neither takes nor gives `{Self}`",
    label = "no type of an argument or result",
    note = "tensors, numbers, strings, dtypes, devices, and options and vectors of them are known"
)]
pub trait FromValue: Sized {
    /// Reads it; the binder has checked and converted types before, so an error here is a misuse of the boxed call.
    fn from_value(v: &Value) -> Result<Self>;
}
fn wrong<T>(want: &str, v: &Value) -> Result<T> {
    Err(Error::type_(format!("expected {want}, not {}", v.type_name())))
}
macro_rules! from_value {
    ($($t:ty, $name:literal, $($p:pat => $e:expr),+;)*) => {$(
        impl FromValue for $t {
            fn from_value(v: &Value) -> Result<Self> {
                match v {
                    $($p => Ok($e),)+
                    other => wrong($name, other),
                }
            }
        }
    )*};
}
from_value! {
    Tensor, "Tensor", Value::Tensor(t) => t.clone();
    bool, "bool", Value::Bool(b) => *b, Value::Int(i) => *i != 0;
    i64, "int", Value::Int(i) => *i, Value::Bool(b) => *b as i64;
    f64, "float", Value::Float(f) => *f, Value::Int(i) => *i as f64, Value::Bool(b) => *b as u8 as f64, Value::Tensor(t) => t.try_item::<f64>()?;
    Scalar, "Number", Value::Bool(b) => Scalar::Bool(*b), Value::Int(i) => Scalar::Int(*i), Value::Float(f) => Scalar::Float(*f), Value::Complex(c) => Scalar::Complex(*c);
    String, "str", Value::Str(s) => s.clone();
    DType, "torch.dtype", Value::DType(d) => *d;
    Device, "torch.device", Value::Device(d) => *d, Value::Str(s) => Device::parse(s)?;
    Layout, "torch.layout", Value::Layout(d) => *d;
    MemoryFormat, "torch.memory_format", Value::MemoryFormat(d) => *d;
    Generator, "torch.Generator", Value::Generator(d) => d.clone();
}
impl<T: FromValue> FromValue for Option<T> {
    fn from_value(v: &Value) -> Result<Self> {
        match v {
            Value::None => Ok(None),
            other => T::from_value(other).map(Some),
        }
    }
}
impl<T: FromValue> FromValue for Vec<T> {
    fn from_value(v: &Value) -> Result<Self> {
        match v.items() {
            Some(l) => l.iter().map(T::from_value).collect(),
            None => Err(Error::type_(format!("'{}' object is not iterable", v.type_name()))),
        }
    }
}

/// Argument `i` of a boxed call.
// Here and below: not inlined, since every operator has calls of these, and they are not where time goes.
#[inline(never)]
pub fn arg<T: FromValue>(args: &[Value], i: usize) -> Result<T> {
    match args.get(i) {
        Some(v) => T::from_value(v),
        None => Err(Error::type_(format!("missing argument {i}"))),
    }
}

/// The one tensor at argument `i`, borrowed: no reference count is touched.
#[inline(never)]
pub fn tensor_arg(args: &[Value], i: usize) -> Result<&Tensor> {
    match args.get(i) {
        Some(Value::Tensor(t)) => Ok(t),
        Some(v) => wrong("Tensor", v),
        None => Err(Error::type_(format!("missing argument {i}"))),
    }
}

/// The arguments at these places, as a boxed call that wrote to them gives them back.
pub fn copies(args: &[Value], at: &[usize]) -> Vec<Value> {
    at.iter().map(|i| args[*i].clone()).collect()
}

/// What can become a [`Value`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a call by name",
    label = "no type of an argument",
    note = "tensors, numbers, strings, dtypes, devices, and options and vectors of them are known"
)]
pub trait IntoValue {
    /// Converts.
    fn into_value(self) -> Value;
}
macro_rules! into_value {
    ($($t:ty => |$v:ident| $e:expr),* $(,)?) => {$(
        impl IntoValue for $t {
            fn into_value(self) -> Value {
                let $v = self;
                $e
            }
        }
        impl From<$t> for Value {
            fn from(v: $t) -> Value {
                v.into_value()
            }
        }
    )*};
}
into_value! {
    Tensor => |v| Value::Tensor(v),
    &Tensor => |v| Value::Tensor(v.clone()),
    bool => |v| Value::Bool(v),
    i64 => |v| Value::Int(v),
    f64 => |v| Value::Float(v),
    &str => |v| Value::Str(v.to_string()),
    String => |v| Value::Str(v),
    DType => |v| Value::DType(v),
    Device => |v| Value::Device(v),
    Layout => |v| Value::Layout(v),
    MemoryFormat => |v| Value::MemoryFormat(v),
    &Generator => |v| Value::Generator(v.clone()),
    Scalar => |v| match v {
        Scalar::Bool(b) => Value::Bool(b),
        Scalar::Int(i) => Value::Int(i),
        Scalar::UInt(u) => Value::Float(u as f64),
        Scalar::Float(f) => Value::Float(f),
        Scalar::Complex(c) => Value::Complex(c),
    },
}
impl IntoValue for (f64, f64) {
    fn into_value(self) -> Value {
        Value::Tuple(vec![Value::Float(self.0), Value::Float(self.1)])
    }
}
impl FromValue for (f64, f64) {
    fn from_value(v: &Value) -> Result<Self> {
        match v.items() {
            Some([a, b]) => Ok((f64::from_value(a)?, f64::from_value(b)?)),
            _ => Err(Error::type_(format!("expected a pair of floats, not {}", v.type_name()))),
        }
    }
}
impl<T: IntoValue> IntoValue for Option<T> {
    fn into_value(self) -> Value {
        self.map_or(Value::None, T::into_value)
    }
}
impl<T: IntoValue> IntoValue for Vec<T> {
    fn into_value(self) -> Value {
        Value::List(self.into_iter().map(T::into_value).collect())
    }
}
impl<T> IntoValue for &[T]
where
    T: Clone + IntoValue,
{
    fn into_value(self) -> Value {
        Value::List(self.iter().cloned().map(T::into_value).collect())
    }
}

impl<T: IntoValue> From<Vec<T>> for Value {
    fn from(v: Vec<T>) -> Value {
        v.into_value()
    }
}
macro_rules! tuple_value {
    ($($($name:ident)*),*) => {$(
        impl<$($name: IntoValue),*> From<($($name,)*)> for Value {
            #[allow(non_snake_case)]
            fn from(($($name,)*): ($($name,)*)) -> Value {
                Value::Tuple(vec![$($name.into_value()),*])
            }
        }
    )*};
}
tuple_value!(A B, A B C, A B C D);

/// An argument of a typed call, to be read as a value.
pub trait AsValue {
    /// Converts.
    fn as_value(&self) -> Value;
}
impl<T: IntoValue + Copy> AsValue for T {
    fn as_value(&self) -> Value {
        (*self).into_value()
    }
}

/// Results of a typed call as a list of values, and back.
pub trait Results: Sized {
    /// To values.
    ///
    /// # Errors
    /// There is no memory for a long list.
    fn into_values(self) -> Result<Vec<Value>>;
    /// From values.
    fn from_values(v: Vec<Value>) -> Result<Self>;
}
impl Results for () {
    fn into_values(self) -> Result<Vec<Value>> {
        Ok(Vec::new())
    }
    fn from_values(_: Vec<Value>) -> Result<Self> {
        Ok(())
    }
}
macro_rules! results_one {
    ($($t:ty),*) => {$(
        impl Results for $t {
            #[inline(never)]
            fn into_values(self) -> Result<Vec<Value>> {
                Ok(vec![self.into_value()])
            }
            fn from_values(v: Vec<Value>) -> Result<Self> {
                arg(&v, 0)
            }
        }
    )*};
}
results_one!(Tensor, bool, i64, f64, Scalar, Vec<i64>, DType);
impl Results for Vec<Tensor> {
    #[inline(never)]
    fn into_values(self) -> Result<Vec<Value>> {
        Ok(vec![Value::List(geometry::listed(self.into_iter().map(Value::Tensor))?)])
    }
    fn from_values(v: Vec<Value>) -> Result<Self> {
        arg(&v, 0)
    }
}
macro_rules! results_tuple {
    ($($t:ident $i:tt),+) => {
        impl<$($t: IntoValue + FromValue),+> Results for ($($t,)+) {
            #[inline(never)]
            fn into_values(self) -> Result<Vec<Value>> {
                Ok(vec![$(self.$i.into_value()),+])
            }
            fn from_values(v: Vec<Value>) -> Result<Self> {
                Ok(($(arg::<$t>(&v, $i)?,)+))
            }
        }
    };
}
results_tuple!(A 0, B 1);
results_tuple!(A 0, B 1, C 2);
results_tuple!(A 0, B 1, C 2, D 3);
results_tuple!(A 0, B 1, C 2, D 3, E 4);
