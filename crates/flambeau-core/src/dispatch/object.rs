//! Objects of classes (modules, optimizers, distributions) as values, and what their options say of parameters. The classes
//! by their documented names stand in flambeau-library.

use crate::dispatch::value::{FromValue, IntoValue, Value};
use crate::ensure;
use crate::types::deep::{self, Deep};
use crate::types::error::{Error, ErrorKind, Result};
use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Keyword arguments of a call.
pub type Kwargs = [(String, Value)];

/// An object of a class, as the by-name layer sees it.
///
/// ```
/// use std::any::Any;
/// use torch::library::object::{Kwargs, Object, ObjectRef};
/// use torch::library::{Value, arg};
/// /// A function of Python's, as a value.
/// struct Double;
/// impl Object for Double {
///     fn type_name(&self) -> &'static str {
///         "function"
///     }
///     fn call(&self, args: &[Value], _: &Kwargs) -> torch::Result<Vec<Value>> {
///         Ok(vec![Value::Int(2 * arg::<i64>(args, 0)?)])
///     }
///     fn as_any(&self) -> &dyn Any {
///         self
///     }
/// }
/// assert!(matches!(ObjectRef::new(Double).call(&[4.into()], &[])?[..], [Value::Int(8)]));
/// # Ok::<(), torch::Error>(())
/// ```
pub trait Object: Send + Sync + Any {
    /// Class name without its module (`Linear`).
    fn type_name(&self) -> &'static str;
    /// Calls the object itself (`module(x)`).
    ///
    /// # Errors
    /// When the class is not callable, and those of the call.
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        let _ = (args, kwargs);
        Err(Error::type_(format!("'{}' object is not callable", self.type_name())))
    }
    /// Reads an attribute.
    ///
    /// # Errors
    /// An attribute error where there is none of that name.
    fn attribute(&self, name: &str) -> Result<Value> {
        Err(no_attribute(self.type_name(), name))
    }
    /// Calls a method.
    ///
    /// # Errors
    /// An attribute error where there is none of that name, and those of the call.
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        let _ = (args, kwargs);
        Err(no_attribute(self.type_name(), name))
    }
    /// Whether Python's method of that name returns the object itself (`model.eval()`); it returns nothing here then.
    fn returns_self(&self, name: &str) -> bool {
        let _ = name;
        false
    }
    /// The documented name, of functions as values.
    fn documented_name(&self) -> Option<&str> {
        None
    }
    /// Python's `repr`.
    fn repr(&self) -> String {
        format!("<{}>", self.type_name())
    }
    /// For those who know the type.
    fn as_any(&self) -> &dyn Any;
}

/// "'T' object has no attribute 'x'".
///
/// ```
/// use torch::library::object::no_attribute;
/// assert_eq!(no_attribute("Linear", "wieght").message(), "'Linear' object has no attribute 'wieght'");
/// ```
#[cold]
pub fn no_attribute(class: &str, name: &str) -> Error {
    Error::attribute(format!("'{class}' object has no attribute '{name}'"))
}

/// Refuses arguments that are nested too deeply: calls by name and of objects walk them by recursion.
///
/// # Errors
/// More levels than [`deep::LEVELS`].
#[inline]
pub fn entering(args: &[Value], kwargs: &Kwargs) -> Result<()> {
    deep::check(args)?;
    deep::check(kwargs.iter().map(|(_, v)| v))
}
fn leaving(results: Vec<Value>) -> Result<Vec<Value>> {
    deep::check(&results)?;
    Ok(results)
}

/// A handle on an [`Object`]; clones are the same object. Objects that hold each other without end are dropped in a loop.
///
/// ```
/// use torch::library::object::{Kwargs, ObjectRef, construct};
/// use torch::library::{Value, arg};
/// let no_names: &Kwargs = &[];
/// let layer: ObjectRef = construct("torch.nn.ReLU", &[], no_names)?;
/// let y = layer.call(&[torch::tensor([-1.0, 2.0]).into()], no_names)?;
/// assert_eq!(arg::<torch::Tensor>(&y, 0)?.to_vec::<f32>(), [0.0, 2.0]);
/// assert!(matches!(layer.attribute("training")?, Value::Bool(true)));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone)]
pub struct ObjectRef(Deep<Arc<dyn Object>>);

impl ObjectRef {
    /// Wraps.
    pub fn new(o: impl Object) -> Self {
        ObjectRef(Deep::new(Arc::new(o)))
    }
    /// Calls the object itself (`module(x)`).
    ///
    /// # Errors
    /// Those of the object; arguments or results that are nested too deeply, as objects that call each other can be.
    pub fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        entering(args, kwargs)?;
        leaving(deep::call(|| self.0.call(args, kwargs))?)
    }
    /// Reads an attribute.
    ///
    /// # Errors
    /// An attribute error where there is none of that name; a value that is nested too deeply.
    pub fn attribute(&self, name: &str) -> Result<Value> {
        let v = self.0.attribute(name)?;
        deep::check([&v])?;
        Ok(v)
    }
    /// Calls a method.
    ///
    /// # Errors
    /// An attribute error where there is none of that name, and as [`ObjectRef::call`].
    pub fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        entering(args, kwargs)?;
        leaving(deep::call(|| self.0.method(name, args, kwargs))?)
    }
    /// The object as its own type.
    pub fn downcast<T: Object>(&self) -> Option<&T> {
        self.0.as_any().downcast_ref()
    }
}
impl Deref for ObjectRef {
    type Target = dyn Object;
    fn deref(&self) -> &Self::Target {
        &**self.0
    }
}
impl fmt::Debug for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.repr())
    }
}

/// Makes an object from the arguments of the class's constructor.
pub type Constructor = fn(&[Value], &Kwargs) -> Result<ObjectRef>;

/// One parameter of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Keyword.
    pub name: &'static str,
    /// Has no default.
    pub required: bool,
}

/// A class whose instances become objects.
pub trait Instance: Sized {
    /// The object.
    fn into_object(self) -> ObjectRef;
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
        Some(v) => T::from_value(v).map(Some).map_err(|e| match e.kind() {
            // a type that words its own errors
            ErrorKind::Value | ErrorKind::Unsupported | ErrorKind::Index => e,
            // what Python says wherever it goes through what is no list
            _ if e.message().ends_with("object is not iterable") => e,
            kind => Error::new(kind, format!("argument '{}': {e}", p.get(i).map_or("", |p| p.name))),
        }),
    }
}
/// The value of slot `i`, which must be there.
pub fn required<T: FromValue>(values: &[Option<Value>], i: usize, p: &[Parameter]) -> Result<T> {
    given(values, i, p)?.ok_or_else(|| {
        Error::type_(format!("missing a required argument: '{}'", p.get(i).map_or("", |p| p.name)))
    })
}

/// Whether a field can be read by name: of two methods of one name the first that its type has is found.
#[doc(hidden)]
pub struct ProbeValue<'a, T>(pub &'a T);
/// See [`ProbeValue`].
#[doc(hidden)]
pub trait ReadValue {
    /// The field as a value.
    fn probe_value(&self) -> Option<Value>;
}
/// See [`ProbeValue`].
#[doc(hidden)]
pub trait ReadNothing {
    /// Nothing: the type is no value.
    fn probe_value(&self) -> Option<Value>;
}
impl<T: IntoValue + Clone> ReadValue for ProbeValue<'_, T> {
    fn probe_value(&self) -> Option<Value> {
        Some(self.0.clone().into_value())
    }
}
impl<T> ReadNothing for &ProbeValue<'_, T> {
    fn probe_value(&self) -> Option<Value> {
        None
    }
}
