//! Objects of classes (modules, optimizers, distributions) as values, and what their options say of parameters. The classes
//! by their documented names stand in flambeau-library.

use crate::dispatch::value::{FromValue, Value};
use crate::types::error::{Error, Result};
use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Keyword arguments of a call.
pub type Kwargs = [(String, Value)];

/// An object of a class, as the by-name layer sees it.
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
#[cold]
pub fn no_attribute(class: &str, name: &str) -> Error {
    Error::attribute(format!("'{class}' object has no attribute '{name}'"))
}

/// A handle on an [`Object`]; clones are the same object.
#[derive(Clone)]
pub struct ObjectRef(Arc<dyn Object>);

impl ObjectRef {
    /// Wraps.
    pub fn new(o: impl Object) -> Self {
        ObjectRef(Arc::new(o))
    }
    /// The object as its own type.
    pub fn downcast<T: Object>(&self) -> Option<&T> {
        self.0.as_any().downcast_ref()
    }
}
impl Deref for ObjectRef {
    type Target = dyn Object;
    fn deref(&self) -> &Self::Target {
        &*self.0
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
