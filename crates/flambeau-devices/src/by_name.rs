//! Python's names of what is here.

use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef};
use flambeau_core::dispatch::registry::{self, CrateReg};
use flambeau_core::dispatch::value::{FromValue, IntoValue, Value};
use flambeau_core::{Error, Result, Tensor};
use flambeau_library::slots::Slots;
use flambeau_library::{NativeFn, register_constant, register_function};
use std::any::Any;

/// Module, name (with `try_` before it where the function may fail), and the call.
pub(crate) type Row = (&'static str, &'static str, NativeFn);

/// Arguments of a call, one after the other.
pub(crate) struct Bound<'a> {
    slots: Slots<'a>,
    next: usize,
}
impl<'a> Bound<'a> {
    pub(crate) fn new(
        name: &'static str,
        parameters: &'static [&'static str],
        args: &'a [Value],
        kwargs: &'a Kwargs,
    ) -> Result<Bound<'a>> {
        let slots = Slots::new(name.strip_prefix("try_").unwrap_or(name), parameters, args, kwargs)?;
        Ok(Bound { slots, next: 0 })
    }
    pub(crate) fn required<T: FromValue>(&mut self) -> Result<T> {
        self.next += 1;
        T::from_value(self.slots.must(self.next - 1)?)
    }
    pub(crate) fn argument<T: FromValue>(&mut self, default: Option<T>) -> Result<T> {
        match (self.slots.values[self.next], default) {
            (None, Some(d)) => {
                self.next += 1;
                Ok(d)
            }
            _ => self.required(),
        }
    }
    pub(crate) fn optional<T: FromValue>(&mut self) -> Result<Option<T>> {
        self.next += 1;
        self.slots.get(self.next - 1)
    }
    pub(crate) fn end(self) {}
}

/// A result as values.
pub(crate) trait Answer {
    fn answer(self) -> Result<Vec<Value>>;
}
impl Answer for () {
    fn answer(self) -> Result<Vec<Value>> {
        Ok(vec![Value::None])
    }
}
impl<T: Answer> Answer for Result<T> {
    fn answer(self) -> Result<Vec<Value>> {
        self.and_then(T::answer)
    }
}
macro_rules! plain {
    ($($t:ty),* $(,)?) => {$(impl Answer for $t {
        fn answer(self) -> Result<Vec<Value>> {
            Ok(vec![self.into_value()])
        }
    })*};
}
plain!(
    bool,
    i64,
    f64,
    String,
    &'static str,
    Tensor,
    Option<i64>,
    Vec<String>,
    Vec<Tensor>,
    flambeau_core::Device,
    Option<flambeau_core::Device>
);
impl Answer for crate::Stats {
    fn answer(self) -> Result<Vec<Value>> {
        Ok(vec![Value::Dict(self.into_iter().map(|(k, v)| (k, Value::Int(v))).collect())])
    }
}
impl Answer for Vec<crate::Stats> {
    fn answer(self) -> Result<Vec<Value>> {
        let all = self.into_iter().map(Answer::answer).collect::<Result<Vec<_>>>()?;
        Ok(vec![Value::List(all.into_iter().flatten().collect())])
    }
}
impl Answer for (i64, i64) {
    fn answer(self) -> Result<Vec<Value>> {
        Ok(vec![Value::Tuple(vec![Value::Int(self.0), Value::Int(self.1)])])
    }
}
impl Answer for Value {
    fn answer(self) -> Result<Vec<Value>> {
        Ok(vec![self])
    }
}

/// What an object shows by name: attributes and methods.
pub(crate) trait Shown: Clone + Send + Sync + 'static {
    const CLASS: &'static str;
    fn attribute(&self, name: &str) -> Option<Value>;
    fn method(&self, name: &str, args: &[Value]) -> Option<Result<Vec<Value>>>;
    fn repr(&self) -> String;
}
/// An object of a class of this crate.
pub(crate) struct Handle<T>(pub(crate) T);
impl<T: Shown> Object for Handle<T> {
    fn type_name(&self) -> &'static str {
        T::CLASS
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        self.0.attribute(name).ok_or_else(|| flambeau_core::dispatch::object::no_attribute(T::CLASS, name))
    }
    fn method(&self, name: &str, args: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        self.0
            .method(name, args)
            .unwrap_or_else(|| Err(flambeau_core::dispatch::object::no_attribute(T::CLASS, name)))
    }
    fn repr(&self) -> String {
        self.0.repr()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
pub(crate) fn object<T: Shown>(v: T) -> Value {
    Value::Object(ObjectRef::new(Handle(v)))
}
/// The object of that class among the arguments.
pub(crate) fn given<T: Shown>(v: &Value) -> Option<T> {
    if let Value::Object(o) = v { o.downcast::<Handle<T>>().map(|h| h.0.clone()) } else { None }
}

/// A method called as a plain function on what is no object of its class.
pub(crate) fn unbound(class: &str, method: &str, args: &[Value]) -> Error {
    match args.first() {
        None => Error::type_(format!("unbound method {class}.{method}() needs an argument")),
        Some(v) => Error::type_(format!(
            "descriptor '{method}' for '{class}' objects doesn't apply to a '{}' object",
            v.type_name()
        )),
    }
}

fn install() {
    for (module, name, f) in crate::ROWS.iter().copied().flatten() {
        let name = name.strip_prefix("try_").unwrap_or(name);
        register_function(&format!("{module}.{name}"), *f);
    }
    for s in crate::switches::ALL.iter().copied().flatten() {
        register_constant(s.path, s.read);
        register_function(s.setter, s.write);
    }
    for (path, make) in crate::backends::CONSTANTS {
        register_constant(path, *make);
    }
}
static REG: CrateReg = CrateReg { name: "flambeau-devices", ops: &[], fills: &[install] };
#[linkme::distributed_slice(registry::CRATES)]
static LINKED: &CrateReg = &REG;
