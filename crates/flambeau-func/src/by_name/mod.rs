//! `torch.func` by Python's names: functions and trees as Python gives them.

mod derivatives;
mod mapped;
mod modules;
mod rearrange;

use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef};
use flambeau_core::dispatch::registry::{CRATES, CrateReg};
use flambeau_core::dispatch::value::Value;
use flambeau_core::{Error, Result};
use flambeau_library::slots::Slots;
use flambeau_library::{NativeFn, register_function};
use std::any::Any;

static REG: CrateReg = CrateReg { name: "flambeau-func names", ops: &[], fills: &[register] };
#[linkme::distributed_slice(CRATES)]
static LINKED: &CrateReg = &REG;

fn register() {
    let all: [&[(&str, NativeFn)]; 4] =
        [mapped::FUNCTIONS, derivatives::FUNCTIONS, modules::FUNCTIONS, rearrange::FUNCTIONS];
    for (path, f) in all.into_iter().flatten() {
        register_function(path, *f);
    }
}

type Call = dyn Fn(&[Value], &Kwargs) -> Result<Vec<Value>> + Send + Sync;
/// A function that a transform made.
struct Made {
    name: String,
    call: Box<Call>,
}
impl Object for Made {
    fn type_name(&self) -> &'static str {
        "function"
    }
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        (self.call)(args, kwargs)
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        match name {
            "__name__" => Ok(Value::Str(self.name.clone())),
            _ => Err(flambeau_core::dispatch::object::no_attribute("function", name)),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
fn made(name: &str, call: impl Fn(&[Value], &Kwargs) -> Result<Vec<Value>> + Send + Sync + 'static) -> Value {
    Value::Object(ObjectRef::new(Made { name: name.to_string(), call: Box::new(call) }))
}

/// A function that was given.
#[derive(Clone)]
struct Given(ObjectRef);
impl Given {
    fn new(v: &Value) -> Result<Given> {
        match v {
            Value::Object(o) => Ok(Given(o.clone())),
            other => Err(Error::type_(format!("'{}' object is not callable", other.type_name()))),
        }
    }
    /// Its result as one value.
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
        let mut all = self.0.call(args, kwargs)?;
        Ok(match all.len() {
            0 => Value::None,
            1 => all.swap_remove(0),
            _ => Value::Tuple(all),
        })
    }
    fn name(&self) -> String {
        if let Some(path) = self.0.documented_name() {
            return path.rsplit('.').next().unwrap_or(path).to_string();
        }
        match self.0.attribute("__name__").map(Value::into_string) {
            Ok(Ok(s)) => s,
            _ => self.0.repr(),
        }
    }
}
/// The arguments that a tuple stands for.
fn arguments(v: Value) -> Vec<Value> {
    if let Value::Tuple(_) = v { v.into_items().unwrap_or_else(|v| vec![v]) } else { vec![v] }
}
/// Python's name of a value's class.
fn class(v: &Value) -> String {
    format!("<class '{}'>", v.type_name())
}
/// A flag that may be left out.
fn flag(s: &Slots<'_>, i: usize) -> Result<bool> {
    Ok(s.get(i)?.unwrap_or(false))
}
/// The value of a keyword that is a function of its own.
fn value(s: &Slots<'_>, i: usize, default: Value) -> Value {
    s.values[i].cloned().unwrap_or(default)
}
