//! Values of recorded programs: those of the other families, and objects of Python's classes.

use crate::compare::{self, Tol};
use crate::decode::{Decoder, Stop};
use crate::store::Store;
use flambeau_core::Value;
use flambeau_core::dispatch::value::NamedTuple;
use flambeau_fx::pytree::{Kind, Record, TreeSpec};
use serde_json::Value as J;

/// A recorded value.
pub fn value(d: &mut Decoder, j: &J, path: &str) -> Result<Value, Stop> {
    let Some(m) = j.as_object() else {
        return match j {
            J::Array(_) => Ok(Value::List(list(d, j, path)?)),
            _ => d.value(j, path),
        };
    };
    if m.contains_key("t") {
        return d.value(j, path);
    }
    let pairs = |d: &mut Decoder, l: &J| -> Result<Vec<(String, Value)>, Stop> {
        let mut all = Vec::new();
        for p in l.as_array().into_iter().flatten() {
            let key = match &p[0] {
                J::String(s) => s.clone(),
                other => other.to_string(),
            };
            all.push((key, value(d, &p[1], path)?));
        }
        Ok(all)
    };
    if let Some(l) = m.get("tuple") {
        let items = list(d, l, path)?;
        let Some(names) = m.get("names").and_then(J::as_array) else { return Ok(Value::Tuple(items)) };
        let class = j["type"].as_str().unwrap_or("").to_string();
        let leaf = TreeSpec::LEAF;
        let fields = names.iter().filter_map(|n| n.as_str().map(str::to_string)).collect();
        let spec = TreeSpec { children: vec![leaf; items.len()], kind: Kind::Named(class, fields) };
        return Ok(spec.unflatten(&items)?);
    }
    if let Some(l) = m.get("list") {
        return Ok(Value::List(list(d, l, path)?));
    }
    if let Some(o) = m.get("dict").and_then(J::as_object) {
        let mut all = Vec::new();
        for (k, v) in o {
            all.push((k.clone(), value(d, v, path)?));
        }
        return Ok(Value::Dict(all));
    }
    if let Some(l) = m.get("ordered_dict") {
        return Ok(Record::value("collections.OrderedDict", pairs(d, l)?));
    }
    if let Some(l) = m.get("default_dict") {
        return Ok(Record::value("collections.defaultdict", pairs(d, l)?));
    }
    if let Some(l) = m.get("pairs") {
        return Ok(Value::Dict(pairs(d, l)?));
    }
    if let (Some(class), Some(fields)) = (m.get("object"), m.get("fields").and_then(J::as_object)) {
        let mut all = Vec::new();
        for (k, v) in fields {
            all.push((k.clone(), value(d, v, path)?));
        }
        return Ok(Record::value(class.as_str().unwrap_or(""), all));
    }
    d.value(j, path)
}
/// A list of recorded values.
pub fn list(d: &mut Decoder, j: &J, path: &str) -> Result<Vec<Value>, Stop> {
    let l = j.as_array().map_or(&[][..], Vec::as_slice);
    l.iter().enumerate().map(|(i, v)| value(d, v, &format!("{path}.{i}"))).collect()
}
/// Keyword arguments.
pub fn kwargs(d: &mut Decoder, j: &J) -> Result<Vec<(String, Value)>, Stop> {
    let Some(m) = j.as_object() else { return Ok(Vec::new()) };
    m.iter().map(|(k, v)| Ok((k.clone(), value(d, v, k)?))).collect()
}

/// Whether a value is as recorded.
pub fn compare(got: &Value, want: &J, store: &Store, tol: Tol) -> Result<(), String> {
    let Some(m) = want.as_object() else { return compare::value(got, want, store, tol) };
    if m.contains_key("t") {
        return compare::value(got, want, store, tol);
    }
    let all = |g: &[Value], w: &[J]| -> Result<(), String> {
        if g.len() != w.len() {
            return Err(format!("{} values, expected {}", g.len(), w.len()));
        }
        g.iter()
            .zip(w)
            .enumerate()
            .try_for_each(|(i, (g, w))| compare(g, w, store, tol).map_err(|e| format!("[{i}]: {e}")))
    };
    let named = |g: &[(String, Value)], w: Vec<(String, &J)>| -> Result<(), String> {
        let keys: Vec<&String> = g.iter().map(|(k, _)| k).collect();
        if keys.len() != w.len() || !keys.iter().zip(&w).all(|(a, b)| **a == b.0) {
            return Err(format!("keys {keys:?}"));
        }
        g.iter()
            .zip(w)
            .try_for_each(|((k, g), (_, w))| compare(g, w, store, tol).map_err(|e| format!("{k}: {e}")))
    };
    match (m.iter().next().map(|(k, _)| k.as_str()).unwrap_or(""), got) {
        ("tuple", Value::Named(NamedTuple { items, .. }) | Value::Tuple(items)) => {
            all(items, array(&want["tuple"]))
        }
        ("list", Value::List(items)) => all(items, array(&want["list"])),
        ("dict", Value::Dict(g)) => {
            let w = want["dict"].as_object();
            named(g, w.into_iter().flatten().map(|(k, v)| (k.clone(), v)).collect())
        }
        (tag @ ("ordered_dict" | "default_dict" | "pairs"), Value::Object(_) | Value::Dict(_)) => {
            let w = array(&want[tag]).iter().map(|p| (key(&p[0]), &p[1])).collect();
            match (got, record(got)) {
                (_, Some(r)) => named(&r.fields, w),
                (Value::Dict(g), _) => named(g, w),
                _ => Err("an object of another class".into()),
            }
        }
        ("object", Value::Object(_)) => match record(got) {
            Some(r) => {
                let w = want["fields"].as_object();
                named(&r.fields, w.into_iter().flatten().map(|(k, v)| (k.clone(), v)).collect())
            }
            None => Err("an object of another class".into()),
        },
        ("tuple" | "list" | "dict" | "ordered_dict" | "default_dict" | "pairs" | "object", _) => {
            Err(format!(
                "got {}, expected {}",
                compare::describe(got),
                want.to_string().chars().take(120).collect::<String>()
            ))
        }
        _ => compare::value(got, want, store, tol),
    }
}
fn array(j: &J) -> &[J] {
    j.as_array().map_or(&[], Vec::as_slice)
}
fn key(j: &J) -> String {
    j.as_str().map_or_else(|| j.to_string(), str::to_string)
}
fn record(v: &Value) -> Option<&Record> {
    match v {
        Value::Object(o) => o.downcast::<Record>(),
        _ => None,
    }
}
/// Whether an error is the recorded one: its text has the recorded text's first line, or the part that is said to count.
pub fn judge_error(e: &flambeau_core::Error, want: &J) -> Result<(), String> {
    let first = want["match"]
        .as_str()
        .unwrap_or_else(|| want["message"].as_str().unwrap_or("").lines().next().unwrap_or(""));
    if e.message().contains(first.trim()) {
        Ok(())
    } else {
        Err(format!("says `{}`, expected `{first}`", e.message()))
    }
}
