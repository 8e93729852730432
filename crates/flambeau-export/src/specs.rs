//! Descriptions of nested values, as files hold them.

use flambeau_core::dispatch::value::NamedTuple;
use flambeau_core::{Error, Result, Value};
use flambeau_fx::pytree::{Kind, Record, TreeSpec};
use serde_json::Value as J;
use std::collections::HashMap;

/// Fields of the tuple classes that a file names.
pub type Fields = HashMap<String, Vec<String>>;

/// Reads the text `[1, {"type": "builtins.tuple", ..}]`.
pub fn parse(text: &str, fields: &Fields) -> Result<TreeSpec> {
    let bad = |what: String| Error::serialization(format!("a description of nested values: {what}"));
    let j: J = serde_json::from_str(text).map_err(|e| bad(e.to_string()))?;
    if j[0] != 1 {
        return Err(bad(format!("of version {}", j[0])));
    }
    spec(&j[1], fields).map_err(bad)
}
fn spec(j: &J, fields: &Fields) -> std::result::Result<TreeSpec, String> {
    let children = j["children_spec"].as_array().map_or(&[][..], Vec::as_slice);
    let children = children.iter().map(|c| spec(c, fields)).collect::<std::result::Result<Vec<_>, _>>()?;
    let Some(class) = j["type"].as_str() else { return Ok(TreeSpec::LEAF) };
    let context: J = match j["context"].as_str() {
        Some(s) => serde_json::from_str(s).unwrap_or_else(|_| J::from(s)),
        None => J::Null,
    };
    let keys = |j: &J| -> Vec<String> {
        let all = j.as_array().map_or(&[][..], Vec::as_slice);
        all.iter().map(|k| k.as_str().map_or_else(|| k.to_string(), str::to_string)).collect()
    };
    let kind = match class {
        "builtins.tuple" | "torch.Size" => Kind::Tuple,
        "builtins.list" => Kind::List,
        "builtins.dict" => Kind::Dict(keys(&context)),
        "collections.namedtuple" => {
            let name = context.as_str().unwrap_or("").to_string();
            let known = fields.get(&name).cloned();
            Kind::Named(name, known.unwrap_or_else(|| (0..children.len()).map(|i| i.to_string()).collect()))
        }
        // results with names are tuples here
        other if other.starts_with("torch.return_types.") => Kind::Tuple,
        "collections.OrderedDict" => Kind::Record(class.into(), keys(&context), Box::default()),
        "collections.defaultdict" => {
            let list =
                if context.get("dict_context").is_some() { &context["dict_context"] } else { &context[1] };
            Kind::Record(class.into(), keys(list), Box::default())
        }
        // a class with fields: the names of those that are there, and of those that are none
        other if context[0].is_array() => {
            Kind::Record(other.into(), keys(&context[0]), keys(&context[1]).into())
        }
        other => Kind::Record(other.into(), keys(&context), Box::default()),
    };
    let named = match &kind {
        Kind::Dict(k) | Kind::Record(_, k, _) | Kind::Named(_, k) => k.len(),
        _ => children.len(),
    };
    if named != children.len() {
        return Err(format!("{class} has {named} names for {} values", children.len()));
    }
    Ok(TreeSpec { kind, children })
}
fn json(s: &TreeSpec) -> J {
    let children: Vec<J> = s.children.iter().map(json).collect();
    let (class, context) = match &s.kind {
        Kind::Leaf => return serde_json::json!({ "type": null, "context": null, "children_spec": [] }),
        Kind::List => ("builtins.list", "null".to_string()),
        Kind::Tuple => ("builtins.tuple", "null".to_string()),
        Kind::Dict(keys) => ("builtins.dict", J::from(keys.clone()).to_string()),
        Kind::Named(class, _) => ("collections.namedtuple", J::from(class.clone()).to_string()),
        Kind::Record(class, keys, none) => {
            let context = match class.as_str() {
                "collections.OrderedDict" => J::from(keys.clone()),
                "collections.defaultdict" => serde_json::json!({
                    "default_factory_module": "builtins", "default_factory_name": "list", "dict_context": keys
                }),
                _ => serde_json::json!([keys, none]),
            };
            (class.as_str(), context.to_string())
        }
    };
    serde_json::json!({ "type": class, "context": context, "children_spec": children })
}
/// The text of a description.
pub fn text(s: &TreeSpec) -> String {
    serde_json::json!([1, json(s)]).to_string()
}
/// Notes the fields of the tuple classes in a description.
pub fn fields(s: &TreeSpec, all: &mut serde_json::Map<String, J>) {
    if let Kind::Named(class, names) = &s.kind {
        all.insert(class.clone(), serde_json::json!({ "field_names": names }));
    }
    s.children.iter().for_each(|c| fields(c, all));
}
/// Whether a class in a file is that of a value: programs name the same class by where it is defined and by the name under which
/// it was registered.
fn same_class(a: &str, b: &str) -> bool {
    let last = |s: &str| s.rsplit('.').next().unwrap_or(s).to_string();
    a == b || (last(a) == last(b) && !a.starts_with("collections.") && !b.starts_with("collections."))
}
/// The leaves of a value in the order of the description; `None` if it is built differently. Dictionaries may have their keys in
/// any order.
pub fn flatten(spec: &TreeSpec, v: &Value, leaves: &mut Vec<Value>) -> bool {
    let all = |items: &[Value], leaves: &mut Vec<Value>| {
        items.len() == spec.children.len()
            && spec.children.iter().zip(items).all(|(s, v)| flatten(s, v, leaves))
    };
    match (&spec.kind, v) {
        (Kind::Leaf, Value::List(_) | Value::Tuple(_) | Value::Dict(_)) => false,
        (Kind::Leaf, Value::Named(t)) if !t.fields.is_empty() => false,
        (Kind::Leaf, Value::Object(o)) if o.downcast::<Record>().is_some() => false,
        (Kind::Leaf, v) => {
            leaves.push(v.clone());
            true
        }
        (Kind::List, Value::List(l)) | (Kind::Tuple, Value::Tuple(l)) => all(l, leaves),
        (Kind::Tuple, Value::Named(NamedTuple { fields, items, .. })) if fields.is_empty() => {
            all(items, leaves)
        }
        (Kind::Named(class, _), Value::Named(t)) => same_class(class, &t.class) && all(&t.items, leaves),
        (Kind::Dict(keys), Value::Dict(d)) => {
            keys.len() == d.len()
                && keys
                    .iter()
                    .zip(&spec.children)
                    .all(|(k, s)| d.iter().find(|(n, _)| n == k).is_some_and(|(_, v)| flatten(s, v, leaves)))
        }
        (Kind::Record(class, keys, none), Value::Object(o)) => o.downcast::<Record>().is_some_and(|r| {
            same_class(class, &r.class)
                && keys.len() + none.len() == r.fields.len()
                && none.iter().all(|k| r.fields.iter().any(|(n, v)| n == k && matches!(v, Value::None)))
                && keys.iter().zip(&spec.children).all(|(k, s)| {
                    r.fields.iter().find(|(n, _)| n == k).is_some_and(|(_, v)| flatten(s, v, leaves))
                })
        }),
        _ => false,
    }
}
/// Where each leaf stands, behind a beginning: `['a'][0].x`.
pub fn paths(spec: &TreeSpec, front: &str, out: &mut Vec<String>) {
    let parts: Vec<String> = match &spec.kind {
        Kind::Leaf => {
            out.push(front.to_string());
            return;
        }
        Kind::List | Kind::Tuple => (0..spec.children.len()).map(|i| format!("[{i}]")).collect(),
        Kind::Named(_, fields) => fields.iter().map(|f| format!(".{f}")).collect(),
        Kind::Record(class, keys, _) if Record::is_data_class(class) => {
            keys.iter().map(|k| format!(".{k}")).collect()
        }
        Kind::Dict(keys) | Kind::Record(_, keys, _) => keys.iter().map(|k| format!("['{k}']")).collect(),
    };
    for (p, c) in parts.iter().zip(&spec.children) {
        paths(c, &format!("{front}{p}"), out);
    }
}
