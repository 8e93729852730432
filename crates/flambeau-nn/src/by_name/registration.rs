//! Python's methods that add to a module or look for its parts, by name, with what Python says of wrong arguments.

use super::ModuleObject;
use crate::{Buffer, Parameter};
use flambeau_core::dispatch::value::Value;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::text::repr;
use flambeau_core::{Error, ErrorKind, Result, ensure};

fn key(text: String) -> Error {
    Error::new(ErrorKind::Index, text)
}
/// A name for something of that kind.
fn name<'a>(what: &str, v: &'a Value) -> Result<&'a str> {
    match v {
        Value::Str(s) => Ok(s),
        other => Err(Error::type_(format!("{what} name should be a string. Got {}", other.type_name()))),
    }
}
/// What calls the methods that are here; `None` where there is none of that name.
pub(super) fn method(o: &ModuleObject, method: &str, args: &[Value]) -> Option<Result<Vec<Value>>> {
    Some(match (method, args) {
        ("register_parameter", [n, v]) => register_parameter(o, n, v),
        ("register_buffer", [n, v, ..]) => register_buffer(o, n, v),
        ("add_module" | "register_module", [n, v]) => add_module(o, n, v),
        ("get_submodule", [Value::Str(path)]) => submodule(o, path).map(|v| vec![v]),
        ("get_parameter", [Value::Str(path)]) => tensor(o, path, "parameter"),
        ("get_buffer", [Value::Str(path)]) => tensor(o, path, "buffer"),
        ("set_submodule", [Value::Str(path), ..]) if path.is_empty() => {
            Err(Error::value("Cannot set the submodule without a target name!"))
        }
        ("apply", [v]) if !matches!(v, Value::Object(_)) => {
            Err(Error::type_(format!("'{}' object is not callable", v.type_name())))
        }
        ("type", [Value::Str(t)]) => match flambeau_core::DType::from_name(t.trim_start_matches("torch.")) {
            Some(d) => o.method_to(d),
            None => Err(Error::value(format!("invalid type: '{t}'"))),
        },
        ("share_memory", []) => Ok(vec![Value::Object(o.handle())]),
        ("share_memory", more) => Err(Error::type_(format!(
            "Module.share_memory() takes 1 positional argument but {} were given",
            more.len() + 1
        ))),
        ("set_extra_state", [_]) | ("get_extra_state", []) => Err(Error::runtime(format!(
            "Reached a code path in Module.{method}() that should never be called. Please file an issue at \
             https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml to report this bug."
        ))),
        _ => return None,
    })
}
/// Whether the module has something of that name already.
fn has(o: &ModuleObject, n: &str) -> Result<bool> {
    o.with(|m| {
        Ok(m.get_parameter(n).is_ok()
            || m.get_buffer(n).is_ok()
            || m.named_children().iter().any(|(c, _)| c == n)
            || m.attribute_by_name(n).is_some())
    })
}
fn register_parameter(o: &ModuleObject, n: &Value, v: &Value) -> Result<Vec<Value>> {
    let n = name("parameter", n)?;
    ensure!(!n.contains('.'), Index, "parameter name can't contain \".\"");
    ensure!(!n.is_empty(), Index, "parameter name can't be empty string \"\"");
    let exists = has(o, n)? && o.with(|m| Ok(m.get_parameter(n).is_err()))?;
    ensure!(!exists, Index, "attribute '{n}' already exists");
    let t = match v {
        Value::None => return Ok(vec![Value::None]),
        Value::Tensor(t) if t.is_parameter() => t,
        other => {
            let class = match other {
                Value::Tensor(t) => t.typename(),
                other => other.type_name().to_string(),
            };
            return Err(Error::type_(format!(
                "cannot assign '{class}' object to parameter '{n}' (torch.nn.Parameter or None required)"
            )));
        }
    };
    let p = Parameter::try_new(t, t.requires_grad())?;
    o.with(|m| match m.base() {
        Some(b) => b.register_parameter(n, p).map(|()| vec![Value::None]),
        None => Err(no_room(o)),
    })
}
fn register_buffer(o: &ModuleObject, n: &Value, v: &Value) -> Result<Vec<Value>> {
    let n = name("buffer", n)?;
    ensure!(!n.contains('.'), Index, "buffer name can't contain \".\"");
    ensure!(!n.is_empty(), Index, "buffer name can't be empty string \"\"");
    let exists = has(o, n)? && o.with(|m| Ok(m.get_buffer(n).is_err()))?;
    ensure!(!exists, Index, "attribute '{n}' already exists");
    let t = match v {
        Value::None => return Ok(vec![Value::None]),
        Value::Tensor(t) => t,
        other => {
            return Err(Error::type_(format!(
                "cannot assign '{}' object to buffer '{n}' (torch Tensor or None required)",
                other.type_name()
            )));
        }
    };
    o.with(|m| match m.base() {
        Some(b) => b.register_buffer(n, Buffer::new(t.clone())).map(|()| vec![Value::None]),
        None => Err(no_room(o)),
    })
}
fn add_module(o: &ModuleObject, n: &Value, v: &Value) -> Result<Vec<Value>> {
    let child = match v {
        Value::None => None,
        Value::Object(c) if c.downcast::<ModuleObject>().is_some() => c.downcast::<ModuleObject>(),
        other => {
            return Err(Error::type_(format!("{} is not a Module subclass", other.type_name())));
        }
    };
    let n = match n {
        Value::Str(n) => n,
        other => {
            return Err(Error::type_(format!("module name should be a string. Got {}", other.type_name())));
        }
    };
    let is_child = o.with(|m| Ok(m.named_children().iter().any(|(c, _)| c == n)))?;
    ensure!(is_child || !has(o, n)?, Index, "attribute '{n}' already exists");
    ensure!(!n.contains('.'), Index, "module name can't contain \".\", got: {n}");
    if n.is_empty() {
        return Err(key("module name can't be empty string \"\"".into()));
    }
    if let Some(child) = child {
        let child = child.take()?;
        o.with_mut(|own| own.register_module(n, Box::new(child)))?;
    }
    Ok(vec![Value::None])
}
/// The module at a dotted path: each part is asked of the one before.
fn submodule(o: &ModuleObject, path: &str) -> Result<Value> {
    let mut at = String::new();
    for part in path.split('.').filter(|_| !path.is_empty()) {
        let (class, child, other) = o.inside(&at, |m| {
            let child = m.named_children().iter().any(|(c, _)| c == part);
            let other = m.get_parameter(part).is_ok() || m.get_buffer(part).is_ok();
            Ok((m.class(), child, other))
        })?;
        ensure!(child || !other, Attribute, "`{part}` is not an nn.Module");
        ensure!(child, Attribute, "{class} has no attribute `{part}`");
        at = if at.is_empty() { part.to_string() } else { format!("{at}.{part}") };
    }
    o.at(&at)
        .ok_or_else(|| Error::attribute(format!("no module {}", repr(&Value::Str(at)).unwrap_or_default())))
}
fn tensor(o: &ModuleObject, path: &str, what: &str) -> Result<Vec<Value>> {
    let (module, last) = path.rsplit_once('.').unwrap_or(("", path));
    submodule(o, module)?;
    o.inside(module, |m| {
        let found = match what {
            "parameter" => m.get_parameter(last).map(|p| p.tensor().clone()),
            _ => m.get_buffer(last).map(|b| b.tensor().clone()),
        };
        if let Ok(t) = found {
            return Ok(vec![Value::Tensor(t)]);
        }
        let other = m.get_parameter(last).is_ok()
            || m.get_buffer(last).is_ok()
            || m.named_children().iter().any(|(c, _)| c == last);
        ensure!(!other && what == "parameter", Attribute, "`{last}` is not an nn.Parameter");
        ensure!(!other || what == "parameter", Attribute, "`{last}` is not a buffer");
        Err(Error::attribute(format!("{} has no attribute `{last}`", m.class())))
    })
}
fn no_room(o: &ModuleObject) -> Error {
    Error::missing(format!("an addition to {}, which has no base for it", o.class()))
}
