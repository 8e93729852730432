//! Objects of classes (modules, optimizers, distributions) as values, and the classes by their documented names.

use crate::dispatch::registry;
use crate::dispatch::value::Value;
use crate::types::error::{Error, Result};
use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, RwLock};

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

static CLASSES: RwLock<Option<HashMap<String, Constructor>>> = RwLock::new(None);

/// Makes a class known under its documented name (`torch.nn.Linear`). Crates call it from their `fills`. The first
/// registration stays; later ones return `false`.
pub fn register_class(path: &str, make: Constructor) -> bool {
    let mut all = CLASSES.write().unwrap_or_else(|e| e.into_inner());
    let all = all.get_or_insert_default();
    if all.contains_key(path) {
        return false;
    }
    all.insert(path.to_string(), make);
    true
}

/// The constructor of a class, if the name is known.
pub fn class(path: &str) -> Option<Constructor> {
    registry::init();
    let by_hand =
        CLASSES.read().unwrap_or_else(|e| e.into_inner()).as_ref().and_then(|m| m.get(path).copied());
    by_hand.or_else(|| crate::library::class::find(path).map(|c| c.make))
}

/// Names of all classes, sorted.
pub fn class_names() -> Vec<String> {
    registry::init();
    let all = CLASSES.read().unwrap_or_else(|e| e.into_inner());
    let mut v: Vec<String> = all.iter().flat_map(|m| m.keys().cloned()).collect();
    v.extend(crate::library::class::classes().iter().map(|c| c.path.to_string()));
    v.sort();
    v.dedup();
    v
}

/// Constructs an object of the class with that documented name.
///
/// # Errors
/// `Missing` for an unknown name, and those of the constructor.
pub fn construct(path: &str, args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    match class(path) {
        Some(make) => make(args, kwargs),
        None => Err(Error::missing(format!("no class named '{path}'"))),
    }
}
