//! Expressions.

use super::scope::{Halt, Program, R, Scope, Special, raise, wrong};
use super::{arith, builtins};
use crate::decode::Decoder;
use flambeau_core::{Error, Value};
use flambeau_library as library;
use flambeau_library::object::{self, Kwargs};
use serde_json::{Map, Value as J};
use std::sync::Arc;

/// Calls a function or class by its name: the library's, or one of Python's.
pub fn call_path(path: &str, args: &[Value], kwargs: &Kwargs) -> R<Value> {
    if !path.starts_with("torch") {
        return builtins::call(path, args, kwargs);
    }
    if !library::exists(path) && object::class(path).is_none() {
        return Err(Halt::Missing(path.to_string()));
    }
    Ok(library::call_value(path, args, kwargs)?)
}
/// A function, class or constant as a value.
pub fn named(path: &str) -> R<Value> {
    if !path.starts_with("torch") {
        return Ok(Special::Builtin(path.to_string()).value());
    }
    if let Some(v) = library::constant(path) {
        return Ok(v);
    }
    if object::class(path).is_some() {
        return Ok(Special::Class(path.to_string()).value());
    }
    if library::exists(path) {
        return Ok(Value::Object(object::ObjectRef::new(library::NamedFunction(path.to_string()))));
    }
    let within = format!("{path}.");
    if library::names().iter().any(|n| n.starts_with(&within)) {
        return Ok(Special::Module(path.to_string()).value());
    }
    Err(Halt::Missing(path.to_string()))
}
/// What a call of an object gives.
pub fn apply(f: &Value, args: &[Value], kwargs: &Kwargs) -> R<Value> {
    match f {
        Value::Object(o) => {
            let mut all = o.call(args, kwargs)?;
            Ok(match all.len() {
                0 => Value::None,
                1 => all.remove(0),
                _ => Value::Tuple(all),
            })
        }
        other => raise(Error::type_(format!("'{}' object is not callable", other.type_name()))),
    }
}
/// What an iteration gives.
pub fn items(v: &Value) -> R<Vec<Value>> {
    if let Some(l) = v.items() {
        return Ok(l.to_vec());
    }
    match (v, Special::of(v)) {
        (_, Some(Special::Set(l))) => Ok(l.clone()),
        (_, Some(Special::Pairs(l))) => Ok(l.iter().map(|(k, _)| k.clone()).collect()),
        (Value::Dict(d), _) => Ok(d.iter().map(|(k, _)| Value::Str(k.clone())).collect()),
        (Value::Str(s), _) => Ok(s.chars().map(|c| Value::Str(c.to_string())).collect()),
        (Value::Tensor(_), _) => items(&library::method(v, "unbind", &[], &[])?),
        (Value::Object(_), _) => items(&library::method(v, "__iter__", &[], &[])?),
        _ => raise(Error::type_(format!("'{}' object is not iterable", v.type_name()))),
    }
}
pub fn attribute(v: &Value, name: &str) -> R<Value> {
    if let Value::Tensor(_) = v {
        let path = format!("torch.Tensor.{name}");
        if !library::exists(&path) {
            return Err(Halt::Missing(path));
        }
    }
    match library::attribute(v, name) {
        // a method without its call
        Err(e)
            if e.kind() == flambeau_core::ErrorKind::Attribute
                && matches!(v, Value::Dict(_) | Value::List(_)) =>
        {
            let _ = e;
            Ok(Special::Bound(v.clone(), name.to_string()).value())
        }
        other => Ok(other?),
    }
}
pub fn set_attribute(of: &Value, name: &str, v: Value) -> R<()> {
    match of {
        Value::Tensor(_) => {
            let path = format!("torch.Tensor.{name}.__set__");
            call_path(&path, &[of.clone(), v], &[])?;
        }
        _ => {
            library::method(of, "__setattr__", &[Value::Str(name.to_string()), v], &[])?;
        }
    }
    Ok(())
}
/// Calls a method of any value.
pub fn method(of: &Value, name: &str, args: &[Value], kwargs: &Kwargs) -> R<Value> {
    match builtins::method(of, name, args, kwargs)? {
        Some((result, _)) => Ok(result),
        None => Ok(library::method(of, name, args, kwargs)?),
    }
}
fn position(i: i64, n: usize, of: &Value) -> R<usize> {
    let at = if i < 0 { i + n as i64 } else { i };
    let kind = match of {
        Value::List(_) => "list",
        Value::Str(_) => "string",
        _ => "tuple",
    };
    match usize::try_from(at) {
        Ok(at) if at < n => Ok(at),
        _ => raise(Error::index(format!("{kind} index out of range"))),
    }
}
/// Start, step and length of Python's slice of `n` items.
fn sliced(parts: [Option<i64>; 3], n: usize) -> Vec<usize> {
    let (n, step) = (n as i64, parts[2].unwrap_or(1));
    let clamp = |v: Option<i64>, default: i64| match v {
        None => default,
        Some(v) if step > 0 => (if v < 0 { v + n } else { v }).clamp(0, n),
        Some(v) => (if v < 0 { v + n } else { v }).clamp(-1, n - 1),
    };
    let (mut at, end) = if step > 0 {
        (clamp(parts[0], 0), clamp(parts[1], n))
    } else {
        (clamp(parts[0], n - 1), clamp(parts[1], -1))
    };
    let mut all = Vec::new();
    while step != 0 && (if step > 0 { at < end } else { at > end }) {
        all.push(at as usize);
        at += step;
    }
    all
}
pub fn item(of: &Value, key: &Value) -> R<Value> {
    let take = |l: &[Value]| -> R<Vec<Value>> {
        match key {
            Value::Slice(p) => Ok(sliced(*p, l.len()).into_iter().map(|i| l[i].clone()).collect()),
            _ => wrong("a slice"),
        }
    };
    if let Some(Special::Pairs(d)) = Special::of(of) {
        let found = d.iter().find(|(k, _)| arith::same(k, key));
        return found.map_or_else(|| raise(Error::index(key_text(key))), |(_, v)| Ok(v.clone()));
    }
    match (of, key) {
        (Value::List(l), Value::Slice(_)) => take(l).map(Value::List),
        (Value::Tuple(l), Value::Slice(_)) => take(l).map(Value::Tuple),
        (Value::Named(t), Value::Slice(_)) => take(&t.items).map(Value::Tuple),
        (Value::List(_) | Value::Tuple(_) | Value::Named(_), Value::Int(i)) => {
            let l = of.items().unwrap_or(&[]);
            Ok(l[position(*i, l.len(), of)?].clone())
        }
        (Value::Dict(d), Value::Str(k)) => {
            let found = d.iter().find(|(n, _)| n == k);
            found.map_or_else(|| raise(Error::index(key_text(key))), |(_, v)| Ok(v.clone()))
        }
        // numbers of a state dict of an optimizer are texts here
        (Value::Dict(d), Value::Int(i)) => {
            let found = d.iter().find(|(n, _)| *n == i.to_string());
            found.map_or_else(|| raise(Error::index(key_text(key))), |(_, v)| Ok(v.clone()))
        }
        (Value::Str(s), Value::Int(i)) => {
            let all: Vec<char> = s.chars().collect();
            Ok(Value::Str(all[position(*i, all.len(), of)?].to_string()))
        }
        _ => Ok(library::method(of, "__getitem__", std::slice::from_ref(key), &[])?),
    }
}
fn key_text(key: &Value) -> String {
    library::repr(key).unwrap_or_default()
}
/// Sets an item; gives the changed container, where that is a value.
pub fn set_item(of: &Value, key: Value, v: Value) -> R<Option<Value>> {
    if let Some(Special::Pairs(d)) = Special::of(of) {
        let mut d = d.clone();
        match d.iter_mut().find(|(k, _)| arith::same(k, &key)) {
            Some(e) => e.1 = v,
            None => d.push((key, v)),
        }
        return Ok(Some(Special::Pairs(d).value()));
    }
    Ok(match (of, &key) {
        (Value::List(l), Value::Int(i)) => {
            let mut l = l.clone();
            let at = position(*i, l.len(), of)?;
            l[at] = v;
            Some(Value::List(l))
        }
        (Value::Dict(d), Value::Str(k)) => {
            let mut d = d.clone();
            match d.iter_mut().find(|(n, _)| n == k) {
                Some(e) => e.1 = v,
                None => d.push((k.clone(), v)),
            }
            Some(Value::Dict(d))
        }
        (Value::Dict(d), key) if d.is_empty() => Some(Special::Pairs(vec![(key.clone(), v)]).value()),
        (of, key) => {
            library::method(of, "__setitem__", &[key.clone(), v], &[])?;
            None
        }
    })
}

impl Program {
    /// A list of arguments or items, with what `*` spreads.
    fn many(self: &Arc<Self>, j: &J, s: &Arc<Scope>) -> R<Vec<Value>> {
        let mut all = Vec::new();
        for x in j.as_array().into_iter().flatten() {
            match x.get("spread") {
                Some(inner) => all.extend(items(&self.expr(inner, s)?)?),
                None => all.push(self.expr(x, s)?),
            }
        }
        Ok(all)
    }
    /// Keyword arguments, with what `**` spreads.
    fn keywords(self: &Arc<Self>, j: &J, s: &Arc<Scope>) -> R<Vec<(String, Value)>> {
        let mut all = Vec::new();
        for (k, x) in j.as_object().into_iter().flatten() {
            if k != "**" {
                all.push((k.clone(), self.expr(x, s)?));
                continue;
            }
            match self.expr(x, s)?.into_entries() {
                Ok(d) => all.extend(d),
                Err(other) => return wrong(format!("** of a {}", other.type_name())),
            }
        }
        Ok(all)
    }
    fn comprehension(
        self: &Arc<Self>,
        j: &J,
        s: &Arc<Scope>,
        mut each: impl FnMut(&Arc<Scope>) -> R<()>,
    ) -> R<()> {
        let inner = Scope::within(s);
        for x in items(&self.expr(&j["in"], s)?)? {
            self.assign(&j["for"], x, &inner)?;
            if j.get("if").is_none() || arith::truth(&self.expr(&j["if"], &inner)?)? {
                each(&inner)?;
            }
        }
        Ok(())
    }
    /// The value of an expression.
    pub fn expr(self: &Arc<Self>, j: &J, s: &Arc<Scope>) -> R<Value> {
        match j {
            J::Array(_) => Ok(Value::List(self.many(j, s)?)),
            J::Object(m) if !m.contains_key("t") => self.tagged(m, j, s),
            _ => Ok(Decoder::new(&self.store).value(j, "")?),
        }
    }
    fn tagged(self: &Arc<Self>, m: &Map<String, J>, j: &J, s: &Arc<Scope>) -> R<Value> {
        let Some((tag, v)) = m.iter().next() else { return Ok(Value::Dict(Vec::new())) };
        let word = v.as_str().unwrap_or("");
        Ok(match tag.as_str() {
            "var" => match s.get(word) {
                Some(v) => v,
                None => return wrong(format!("name '{word}' is not defined")),
            },
            "new" => {
                let (args, kwargs) = (self.many(&v["args"], s)?, self.keywords(&v["kwargs"], s)?);
                let result = call_path(v["call"].as_str().unwrap_or(""), &args, &kwargs)?;
                self.rebind_out(&v["kwargs"]["out"], &result, s)?;
                result
            }
            "method" => self.method_of(word, j, s)?,
            "attr" => attribute(&self.expr(&j["of"], s)?, word)?,
            "item" => item(&self.expr(&j["of"], s)?, &self.expr(v, s)?)?,
            "apply" => {
                let f = self.expr(v, s)?;
                apply(&f, &self.many(&j["args"], s)?, &self.keywords(&j["kwargs"], s)?)?
            }
            "op" => self.operator(word, &j["args"], s)?,
            "fn" => self.function(v, s),
            "cond" => {
                let branch = if arith::truth(&self.expr(&v[0], s)?)? { 1 } else { 2 };
                self.expr(&v[branch], s)?
            }
            "each" => {
                let mut all = Vec::new();
                self.comprehension(j, s, |inner| {
                    all.push(self.expr(v, inner)?);
                    Ok(())
                })?;
                Value::List(all)
            }
            "each_pair" => {
                let mut all = Vec::new();
                self.comprehension(j, s, |inner| {
                    all.push((self.expr(&v[0], inner)?, self.expr(&v[1], inner)?));
                    Ok(())
                })?;
                builtins::dictionary(all)
            }
            "list" => Value::List(self.many(v, s)?),
            "tuple" => Value::Tuple(self.many(v, s)?),
            "dict" => Value::Dict(self.keywords(v, s)?),
            "set" => Special::Set(self.many(v, s)?).value(),
            "pairs" => {
                let mut all = Vec::new();
                for p in v.as_array().into_iter().flatten() {
                    all.push((self.expr(&p[0], s)?, self.expr(&p[1], s)?));
                }
                builtins::dictionary(all)
            }
            "slice" => {
                let mut parts = [None; 3];
                for (p, x) in parts.iter_mut().zip(self.many(v, s)?) {
                    *p = arith::integer(&x)?;
                }
                Value::Slice(parts)
            }
            "const" | "callable" => named(word)?,
            "qscheme" => named(&format!("torch.{}", word.trim_start_matches("torch.")))?,
            "quantized" => {
                let (path, names): (_, &[&str]) = if v.get("scales").is_some() {
                    (
                        "torch._make_per_channel_quantized_tensor",
                        &["int_repr", "scales", "zero_points", "axis"],
                    )
                } else {
                    ("torch._make_per_tensor_quantized_tensor", &["int_repr", "scale", "zero_point"])
                };
                let args = names.iter().map(|n| self.expr(&v[*n], s)).collect::<R<Vec<_>>>()?;
                call_path(path, &args, &[])?
            }
            "nested" => {
                let kwargs = match j["layout"].as_str() {
                    Some(l) => vec![("layout".to_string(), named(&format!("torch.{l}"))?)],
                    None => Vec::new(),
                };
                call_path("torch.nested.nested_tensor", &[Value::List(self.many(v, s)?)], &kwargs)?
            }
            "masked" => {
                let args = [self.expr(&v["data"], s)?, self.expr(&v["mask"], s)?];
                call_path("torch.masked.masked_tensor", &args, &[])?
            }
            _ => Decoder::new(&self.store).value(j, "")?,
        })
    }
    /// A handle of a tensor has its own sizes here, where in Python they are the tensor's: a name whose tensor a call
    /// resized (`out=`, methods in place) stands for what the call returned from then on.
    fn rebind_out(self: &Arc<Self>, given: &J, result: &Value, s: &Arc<Scope>) -> R<()> {
        if let (Some(name), Value::Tensor(_)) = (given["var"].as_str(), result) {
            if matches!(s.get(name), Some(Value::Tensor(_))) {
                s.change(name, result.clone());
            }
        } else if let (Some(name), Some(results)) = (given["var"].as_str(), result.items()) {
            // a tuple of tensors by its name
            let before = s.get(name);
            let pairs = || before.iter().flat_map(|v| v.items().unwrap_or(&[])).zip(results);
            if before.as_ref().and_then(Value::items).is_some_and(|all| all.len() == results.len())
                && pairs().all(|(a, b)| matches!((a, b), (Value::Tensor(_), Value::Tensor(_))))
            {
                s.change(name, Value::Tuple(results.to_vec()));
            }
        } else if let Some(parts) = given["tuple"].as_array().or_else(|| given["list"].as_array()) {
            for (part, r) in parts.iter().zip(result.items().unwrap_or(&[])) {
                self.rebind_out(part, r, s)?;
            }
        }
        Ok(())
    }
    fn method_of(self: &Arc<Self>, name: &str, j: &J, s: &Arc<Scope>) -> R<Value> {
        let of = self.expr(&j["of"], s)?;
        let (args, kwargs) = (self.many(&j["args"], s)?, self.keywords(&j["kwargs"], s)?);
        let Some((result, changed)) = builtins::method(&of, name, &args, &kwargs)? else {
            let result = library::method(&of, name, &args, &kwargs)?;
            self.rebind_out(&j["kwargs"]["out"], &result, s)?;
            if name.ends_with('_') && !name.ends_with("__") {
                self.rebind_out(&j["of"], &result, s)?;
            }
            return Ok(result);
        };
        if let Some(v) = changed {
            self.put_back(&j["of"], v, s)?;
        }
        Ok(result)
    }
    /// Operators; `and` and `or` look at the second operand only where they must.
    fn operator(self: &Arc<Self>, op: &str, args: &J, s: &Arc<Scope>) -> R<Value> {
        if matches!(op, "and" | "or") {
            let mut last = Value::None;
            for a in args.as_array().into_iter().flatten() {
                last = self.expr(a, s)?;
                if arith::truth(&last)? == (op == "or") {
                    break;
                }
            }
            return Ok(last);
        }
        let all = self.many(args, s)?;
        arith::operator(op, &all)
    }
}
