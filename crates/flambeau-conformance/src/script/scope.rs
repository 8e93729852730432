//! Names, what stops a program, and values that only programs have.

use crate::decode::Stop;
use crate::store::Store;
use flambeau_core::{Error, ErrorKind, Value};
use flambeau_library as library;
use flambeau_library::object::{Kwargs, Object, ObjectRef};
use serde_json::Value as J;
use std::any::Any;
use std::sync::{Arc, Mutex};

/// Why a program stops.
pub enum Halt {
    /// A Python exception: `catch` sees it.
    Raised(Error),
    /// Nothing has this name: the case counts as not implemented.
    Missing(String),
    /// The program does what this runner does not know.
    Wrong(String),
}
impl From<Error> for Halt {
    fn from(e: Error) -> Halt {
        if library::is_missing(&e) { Halt::Missing(e.message().to_string()) } else { Halt::Raised(e) }
    }
}
impl From<Stop> for Halt {
    fn from(s: Stop) -> Halt {
        match s {
            Stop::Missing(n) => Halt::Missing(n),
            Stop::Failed(e) => Halt::Wrong(e),
        }
    }
}
impl From<Halt> for Error {
    fn from(h: Halt) -> Error {
        match h {
            Halt::Raised(e) => e,
            Halt::Missing(n) => Error::missing(n),
            Halt::Wrong(e) => Error::runtime(e),
        }
    }
}
pub fn wrong<T>(e: impl Into<String>) -> R<T> {
    Err(Halt::Wrong(e.into()))
}
/// A result of a program's part.
pub type R<T> = Result<T, Halt>;

/// What all parts of a program share.
pub struct Program {
    /// The file's tensors.
    pub store: Store,
}

/// The names of a function's body, and those around it.
#[derive(Default)]
pub struct Scope {
    names: Mutex<Vec<(String, Value)>>,
    outer: Option<Arc<Scope>>,
}
impl Scope {
    pub fn within(outer: &Arc<Scope>) -> Arc<Scope> {
        Arc::new(Scope { names: Mutex::default(), outer: Some(outer.clone()) })
    }
    fn names(&self) -> std::sync::MutexGuard<'_, Vec<(String, Value)>> {
        self.names.lock().unwrap_or_else(|e| e.into_inner())
    }
    pub fn get(&self, name: &str) -> Option<Value> {
        let own = self.names().iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        own.or_else(|| self.outer.as_ref()?.get(name))
    }
    /// Assigns in this scope.
    pub fn set(&self, name: &str, v: Value) {
        let mut all = self.names();
        // what the name held may be an object whose drop asks for names: it goes after the lock
        let old = match all.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => Some(std::mem::replace(old, v)),
            None => {
                all.push((name.to_string(), v));
                None
            }
        };
        drop(all);
        drop(old);
    }
    /// Changes a name where it stands: a list that grows is the same list for those around.
    pub fn change(&self, name: &str, v: Value) {
        let here = self.names().iter().any(|(n, _)| n == name);
        match &self.outer {
            Some(o) if !here => o.change(name, v),
            _ => self.set(name, v),
        }
    }
    pub fn remove(&self, name: &str) {
        let mut all = self.names();
        let at = all.iter().position(|(n, _)| n == name);
        let gone = at.map(|i| all.remove(i));
        drop(all);
        drop(gone);
    }
}

/// Values that only programs have.
pub enum Special {
    /// `lambda` and `def`.
    Function { program: Arc<Program>, scope: Arc<Scope>, text: J },
    /// A Python function or type as a value.
    Builtin(String),
    /// A class of the library as a value.
    Class(String),
    /// A class of the program's own: what it is derived from, and its members.
    Derived(String, Vec<(String, Value)>),
    /// A set, without order.
    Set(Vec<Value>),
    /// A dictionary whose keys are not all texts.
    Pairs(Vec<(Value, Value)>),
    /// A method of an object as a value.
    Bound(Value, String),
    /// A module as a value: what has documented names in it.
    Module(String),
}
impl Special {
    pub fn value(self) -> Value {
        Value::Object(ObjectRef::new(self))
    }
    pub fn of(v: &Value) -> Option<&Special> {
        match v {
            Value::Object(o) => o.as_any().downcast_ref(),
            _ => None,
        }
    }
}
impl Object for Special {
    fn type_name(&self) -> &'static str {
        match self {
            Special::Function { .. } => "function",
            Special::Builtin(_) | Special::Class(_) | Special::Derived(..) => "type",
            Special::Set(_) => "set",
            Special::Pairs(_) => "dict",
            Special::Bound(..) => "method",
            Special::Module(_) => "module",
        }
    }
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> flambeau_core::Result<Vec<Value>> {
        let one = match self {
            Special::Function { program, scope, text } => program.call_function(text, scope, args, kwargs)?,
            Special::Builtin(name) => super::builtins::call(name, args, kwargs)?,
            Special::Class(path) => super::eval::call_path(path, args, kwargs)?,
            Special::Bound(of, name) => super::eval::method(of, name, args, kwargs)?,
            _ => return Err(Error::type_(format!("'{}' object is not callable", self.type_name()))),
        };
        Ok(vec![one])
    }
    fn attribute(&self, name: &str) -> flambeau_core::Result<Value> {
        let own = match (self, name) {
            (Special::Builtin(n) | Special::Class(n), "__name__") => n.rsplit('.').next().unwrap_or(n),
            (Special::Function { text, .. }, "__name__") => text["name"].as_str().unwrap_or("<lambda>"),
            (Special::Class(path), _) => {
                let path = format!("{path}.{name}");
                return library::constant(&path).ok_or_else(|| Error::missing(path));
            }
            (Special::Module(path), _) if REMOVED.contains(&name) => {
                return Err(Error::missing(format!("{path}.{name}, which works here, as an error")));
            }
            (Special::Module(path), _) => {
                return super::eval::named(&format!("{path}.{name}")).map_err(|h| match h {
                    super::Halt::Raised(e) => e,
                    _ => Error::attribute(format!("module '{path}' has no attribute '{name}'")),
                });
            }
            (Special::Derived(base, members), "apply") => {
                let class = Special::Derived(base.clone(), members.clone()).value();
                return Ok(Special::Bound(class, name.to_string()).value());
            }
            _ => return Err(library::object::no_attribute(self.type_name(), name)),
        };
        Ok(Value::Str(own.to_string()))
    }
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> flambeau_core::Result<Vec<Value>> {
        match self {
            Special::Class(path) => {
                Ok(vec![super::eval::call_path(&format!("{path}.{name}"), args, kwargs)?])
            }
            Special::Derived(base, members) => {
                let all: Vec<Value> =
                    std::iter::once(Value::Dict(members.clone())).chain(args.iter().cloned()).collect();
                Ok(vec![super::eval::call_path(&format!("{base}.{name}"), &all, kwargs)?])
            }
            // libraries iterate over what they are given
            Special::Set(all) if name == "__iter__" => Ok(vec![Value::List(all.clone())]),
            _ => Err(library::object::no_attribute(self.type_name(), name)),
        }
    }
    fn documented_name(&self) -> Option<&str> {
        match self {
            Special::Class(path) => Some(path),
            _ => None,
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Functions of `torch` that PyTorch has removed: those of older versions' documentation work here.
const REMOVED: [&str; 9] = ["eig", "symeig", "lstsq", "solve", "matrix_rank", "fft", "ifft", "rfft", "irfft"];

/// What `catch` binds: Python's class stays open until it is compared, since one kind of error covers several.
pub fn caught(e: &Error) -> Value {
    Value::Dict(vec![
        ("exception".into(), Value::Str(format!("{KIND}{:?}", e.kind()))),
        ("message".into(), Value::Str(e.message().to_string())),
    ])
}
/// Marks a kind of error in [`caught`].
pub const KIND: &str = "kind ";
/// A Python exception of the program itself.
pub fn raise<T>(e: Error) -> R<T> {
    Err(Halt::Raised(e))
}
/// Whether an error says that an attribute is not there.
pub fn no_such_attribute(h: &Halt) -> bool {
    match h {
        Halt::Raised(e) => e.kind() == ErrorKind::Attribute,
        Halt::Missing(_) => true,
        Halt::Wrong(_) => false,
    }
}
