//! Classes by name: every documented class (module, optimizer, ...) declares its parameters once, on its options
//! struct, and stands in one link-time list.

use crate::api::convert::Dim;
use crate::dispatch::object::{Constructor, Kwargs, ObjectRef};
use crate::dispatch::value::{FromValue, IntoValue, Value};
use crate::tensor::geometry::SizeVec;
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
use crate::{DType, ensure};

pub use linkme;

/// One parameter of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Keyword.
    pub name: &'static str,
    /// Has no default.
    pub required: bool,
}

/// A class that objects are made of by name.
pub trait Instance: Sized {
    /// The object for the by-name layer.
    fn into_object(self) -> ObjectRef;
}

/// A documented class.
pub struct ClassInfo {
    /// `torch.nn.Linear`
    pub path: &'static str,
    /// Parameters in documented order.
    pub parameters: &'static [Parameter],
    /// Makes an instance of arguments.
    pub make: Constructor,
}

/// The link-time list that `#[class]` adds to.
#[allow(unsafe_code)]
#[linkme::distributed_slice]
pub static CLASSES: [ClassInfo];

/// All classes of the program.
pub fn classes() -> &'static [ClassInfo] {
    &CLASSES
}

/// The class of that documented name.
pub fn find(path: &str) -> Option<&'static ClassInfo> {
    classes().iter().find(|c| c.path == path)
}

impl ClassInfo {
    /// The last part of the path.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }
}

/// Puts arguments into one slot per parameter, as Python's calls do.
///
/// # Errors
/// Too many, unknown, repeated or missing arguments, with Python's texts.
pub fn bind(
    name: &str,
    parameters: &[Parameter],
    args: &[Value],
    kwargs: &Kwargs,
) -> Result<Vec<Option<Value>>> {
    let total = parameters.len();
    let required = parameters.iter().filter(|p| p.required).count();
    if args.len() > total {
        let range = if required < total {
            format!("from {} to {}", required + 1, total + 1)
        } else {
            format!("{}", total + 1)
        };
        return Err(Error::type_(format!(
            "{name}.__init__() takes {range} positional arguments but {} were given",
            args.len() + 1
        )));
    }
    let mut slots: Vec<Option<Value>> = args.iter().cloned().map(Some).collect();
    slots.resize(total, None);
    for (key, v) in kwargs {
        let i = parameters.iter().position(|p| p.name == key);
        let i = i.ok_or_else(|| {
            Error::type_(format!("{name}.__init__() got an unexpected keyword argument '{key}'"))
        })?;
        ensure!(slots[i].is_none(), Type, "{name}.__init__() got multiple values for argument '{key}'");
        slots[i] = Some(v.clone());
    }
    let missing: Vec<&str> = parameters
        .iter()
        .zip(&slots)
        .filter(|(p, s)| p.required && s.is_none())
        .map(|(p, _)| p.name)
        .collect();
    let quoted: Vec<String> = missing.iter().map(|m| format!("'{m}'")).collect();
    let (count, list) = match quoted.as_slice() {
        [] => return Ok(slots),
        [one] => ("1 required positional argument".to_owned(), one.clone()),
        [first, second] => ("2 required positional arguments".to_owned(), format!("{first} and {second}")),
        [many @ .., last] => (
            format!("{} required positional arguments", quoted.len()),
            format!("{}, and {last}", many.join(", ")),
        ),
    };
    Err(Error::type_(format!("{name}.__init__() missing {count}: {list}")))
}

/// The value of slot `i`, if one was given.
pub fn given<T: FromValue>(values: &[Option<Value>], i: usize, p: &[Parameter]) -> Result<Option<T>> {
    match values.get(i).and_then(Option::as_ref) {
        None => Ok(None),
        Some(v) => T::from_value(v).map(Some).map_err(|e| {
            Error::new(e.kind(), format!("argument '{}': {e}", p.get(i).map_or("", |p| p.name)))
        }),
    }
}
/// The value of slot `i`, which must be there.
pub fn required<T: FromValue>(values: &[Option<Value>], i: usize, p: &[Parameter]) -> Result<T> {
    given(values, i, p)?.ok_or_else(|| {
        Error::type_(format!("missing a required argument: '{}'", p.get(i).map_or("", |p| p.name)))
    })
}

/// What constructors and setters take where the documentation says `T`.
pub trait IntoArg<T> {
    /// Converts.
    fn into_arg(self) -> T;
}
macro_rules! into_arg {
    ($($from:ty => $to:ty),* $(,)?) => {$(
        impl IntoArg<$to> for $from {
            fn into_arg(self) -> $to {
                self as $to
            }
        }
    )*};
}
into_arg!(i32 => i64, usize => i64, i64 => i64, u32 => i64, f64 => f64, i32 => f64);
impl IntoArg<f64> for f32 {
    /// The shortest decimal that reads back as this number, so that `0.1f32` means 0.1.
    fn into_arg(self) -> f64 {
        self.to_string().parse().unwrap_or(self as f64)
    }
}
macro_rules! into_arg_self {
    ($($t:ty),* $(,)?) => {$(
        impl IntoArg<$t> for $t {
            fn into_arg(self) -> $t {
                self
            }
        }
    )*};
}
into_arg_self!(bool, String, Tensor, DType, Device, Scalar, (f64, f64), Vec<i64>);
impl IntoArg<String> for &str {
    fn into_arg(self) -> String {
        self.to_owned()
    }
}
impl IntoArg<Tensor> for &Tensor {
    fn into_arg(self) -> Tensor {
        self.clone()
    }
}
impl<T> IntoArg<Option<T>> for Option<T> {
    fn into_arg(self) -> Option<T> {
        self
    }
}
impl IntoArg<Option<f64>> for f64 {
    fn into_arg(self) -> Option<f64> {
        Some(self)
    }
}
impl IntoArg<Option<String>> for &str {
    fn into_arg(self) -> Option<String> {
        Some(self.to_owned())
    }
}
impl IntoArg<Option<String>> for String {
    fn into_arg(self) -> Option<String> {
        Some(self)
    }
}
macro_rules! scalar_arg {
    ($($t:ty),*) => {$(
        impl IntoArg<Scalar> for $t {
            fn into_arg(self) -> Scalar {
                Scalar::from(self)
            }
        }
    )*};
}
scalar_arg!(bool, i32, i64, usize, f64);
impl IntoArg<Vec<i64>> for SizeVec {
    fn into_arg(self) -> Vec<i64> {
        self.to_vec()
    }
}
impl<D: Dim> IntoArg<Vec<i64>> for D {
    fn into_arg(self) -> Vec<i64> {
        vec![self.dim()]
    }
}
impl<D: Dim, const N: usize> IntoArg<Vec<i64>> for [D; N] {
    fn into_arg(self) -> Vec<i64> {
        self.iter().map(|d| d.dim()).collect()
    }
}
impl<D: Dim> IntoArg<Vec<i64>> for &[D] {
    fn into_arg(self) -> Vec<i64> {
        self.iter().map(|d| d.dim()).collect()
    }
}

/// A value as Python's `str` writes it.
pub trait PyText {
    /// The text.
    fn py_text(&self) -> String;
}
impl PyText for bool {
    fn py_text(&self) -> String {
        if *self { "True" } else { "False" }.to_owned()
    }
}
impl PyText for i64 {
    fn py_text(&self) -> String {
        self.to_string()
    }
}
impl PyText for String {
    fn py_text(&self) -> String {
        self.clone()
    }
}
impl PyText for f64 {
    /// Python's `repr` of a float: the shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
    fn py_text(&self) -> String {
        let v = *self;
        if v.is_nan() {
            return "nan".to_owned();
        }
        if v.is_infinite() {
            return if v > 0.0 { "inf" } else { "-inf" }.to_owned();
        }
        if v != 0.0 && (v.abs() < 1e-4 || v.abs() >= 1e16) {
            let s = format!("{v:e}");
            let (digits, exponent) = s.split_once('e').unwrap_or((&s, "0"));
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(e) => ('-', e),
                None => ('+', exponent),
            };
            return format!("{digits}e{sign}{exponent:0>2}");
        }
        let s = v.to_string();
        if s.contains('.') { s } else { format!("{s}.0") }
    }
}
impl PyText for Scalar {
    fn py_text(&self) -> String {
        match self {
            Scalar::Bool(b) => b.py_text(),
            Scalar::Int(i) => i.to_string(),
            Scalar::UInt(u) => u.to_string(),
            Scalar::Float(f) => f.py_text(),
            Scalar::Complex(c) => format!("({}{:+}j)", c.re, c.im),
        }
    }
}
impl PyText for (f64, f64) {
    fn py_text(&self) -> String {
        format!("({}, {})", self.0.py_text(), self.1.py_text())
    }
}
impl PyText for Vec<i64> {
    /// As a tuple.
    fn py_text(&self) -> String {
        match self.as_slice() {
            [one] => format!("({one},)"),
            all => format!("({})", all.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
        }
    }
}
impl<T: PyText> PyText for Option<T> {
    fn py_text(&self) -> String {
        self.as_ref().map_or_else(|| "None".to_owned(), T::py_text)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_as_python_writes_them() {
        let cases = [
            (0.1, "0.1"),
            (1.0, "1.0"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (1e16, "1e+16"),
            (123456789.0, "123456789.0"),
            (1.5e-7, "1.5e-07"),
            (-0.0, "-0.0"),
            (1e300, "1e+300"),
        ];
        for (v, want) in cases {
            assert_eq!(v.py_text(), want);
        }
    }

    #[test]
    fn binding_errors() {
        static P: [Parameter; 3] = [
            Parameter { name: "a", required: true },
            Parameter { name: "b", required: true },
            Parameter { name: "c", required: false },
        ];
        let all = |args: &[Value], kwargs: &[(&str, Value)]| {
            let kwargs: Vec<_> = kwargs.iter().map(|(k, v)| (k.to_string(), v.clone())).collect();
            bind("X", &P, args, &kwargs)
        };
        let text = |args: &[Value], kwargs: &[(&str, Value)]| all(args, kwargs).unwrap_err().to_string();
        let one = Value::Int(1);
        assert_eq!(
            text(std::slice::from_ref(&one), &[]),
            "X.__init__() missing 1 required positional argument: 'b'"
        );
        assert_eq!(text(&[], &[]), "X.__init__() missing 2 required positional arguments: 'a' and 'b'");
        assert_eq!(
            text(&[one.clone(), one.clone()], &[("z", one.clone())]),
            "X.__init__() got an unexpected keyword argument 'z'"
        );
        assert_eq!(
            text(&[one.clone(), one.clone()], &[("b", one.clone())]),
            "X.__init__() got multiple values for argument 'b'"
        );
        assert_eq!(
            text(&vec![one.clone(); 4], &[]),
            "X.__init__() takes from 3 to 4 positional arguments but 5 were given"
        );
        let slots = all(&[one.clone()], &[("b", one)]).unwrap();
        assert!(slots[0].is_some() && slots[1].is_some() && slots[2].is_none());
    }
}
