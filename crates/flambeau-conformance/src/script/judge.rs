//! Results of programs against the record.

use super::eval;
use super::scope::{Halt, KIND, Special};
use crate::compare::{self, Tol};
use crate::families::errors;
use crate::store::Store;
use flambeau_core::{Layout, Tensor, Value};
use regex::Regex;
use serde_json::Value as J;
use std::sync::LazyLock;

/// How a result is compared.
#[derive(Clone, Copy)]
pub struct How {
    pub tol: Tol,
    /// Only the class of an error counts.
    pub any_message: bool,
    /// By how many steps integers of quantized values may differ.
    pub q_steps: i64,
}

/// The running numbers of ragged sizes are `jN` in the record.
fn without_ragged(s: &str) -> String {
    static RAGGED: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\bj\d+\b").ok());
    RAGGED.as_ref().map_or_else(|| s.to_string(), |r| r.replace_all(s, "jN").into_owned())
}
fn read(v: &Value, name: &str) -> Result<Value, String> {
    halted(eval::method(v, name, &[], &[]))
}
fn halted(r: Result<Value, Halt>) -> Result<Value, String> {
    r.map_err(|h| match h {
        Halt::Raised(e) => e.to_string(),
        Halt::Missing(n) => format!("{n} is missing"),
        Halt::Wrong(e) => e,
    })
}

/// What a name must hold.
///
/// # Errors
/// Says where and how they differ.
pub fn value(got: &Value, want: &J, store: &Store, how: How) -> Result<(), String> {
    let J::Object(m) = want else {
        return match (got, want) {
            (Value::Str(g), J::String(w)) if without_ragged(g) == *w => Ok(()),
            (Value::Str(g), J::String(w)) => Err(format!("got {g:?}, expected {w:?}")),
            (_, J::Array(l)) => list(got, l, store, how),
            // a size that is a tensor's number
            (Value::Bool(g), J::Number(_)) => {
                compare::value(&Value::Int(i64::from(*g)), want, store, how.tol)
            }
            _ => compare::value(got, want, store, how.tol),
        };
    };
    let Some((tag, v)) = m.iter().next() else { return Err("an empty tag".into()) };
    match tag.as_str() {
        "list" | "tuple" => list(got, v.as_array().map_or(&[][..], Vec::as_slice), store, how),
        "dict" => dict(got, v, store, how),
        "masked" => laid_out(got, want).and_then(|()| masked(got, v, store, how)),
        "nested" => {
            laid_out(got, want)?;
            let parts = read(got, "unbind")?;
            list(&parts, v.as_array().map_or(&[][..], Vec::as_slice), store, how)
        }
        "quantized" => quantized(got, v, store, how),
        "set" => {
            let all = halted(eval::items(got).map(Value::List))?;
            let (g, w) = (all.items().unwrap_or(&[]), v.as_array().map_or(&[][..], Vec::as_slice));
            let found = |w: &J| g.iter().any(|g| value(g, w, store, how).is_ok());
            if g.len() == w.len() && w.iter().all(found) { Ok(()) } else { Err("other members".into()) }
        }
        "pairs" => {
            let Some(Special::Pairs(g)) = Special::of(got) else { return Err("no such dictionary".into()) };
            for p in v.as_array().into_iter().flatten() {
                let Some((_, x)) = g.iter().find(|(k, _)| value(k, &p[0], store, how).is_ok()) else {
                    return Err(format!("no entry {}", p[0]));
                };
                value(x, &p[1], store, how).map_err(|e| format!("{}: {e}", p[0]))?;
            }
            Ok(())
        }
        "const" | "callable" | "pytype" | "qscheme" => {
            let is = halted(eval::attribute(got, "__name__")).ok();
            let word = v.as_str().unwrap_or("");
            let name = word.rsplit('.').next().unwrap_or(word);
            let shown = flambeau_library::repr(got).unwrap_or_default();
            let same =
                matches!(&is, Some(Value::Str(n)) if n == name) || shown == word || shown.ends_with(name);
            if same { Ok(()) } else { Err(format!("got {shown}, expected {word}")) }
        }
        _ => compare::value(got, want, store, how.tol),
    }
}
fn list(got: &Value, want: &[J], store: &Store, how: How) -> Result<(), String> {
    let Some(items) = got.items() else {
        return Err(format!("got {}, expected {} values", compare::describe(got), want.len()));
    };
    if items.len() != want.len() {
        return Err(format!("got {} values, expected {}", items.len(), want.len()));
    }
    let each = items.iter().zip(want).enumerate();
    each.map(|(i, (g, w))| value(g, w, store, how).map_err(|e| format!("[{i}]: {e}")))
        .find(Result::is_err)
        .unwrap_or(Ok(()))
}
fn quoted(s: &str) -> String {
    flambeau_library::repr(&Value::Str(s.to_string())).unwrap_or_default()
}
fn dict(got: &Value, want: &J, store: &Store, how: How) -> Result<(), String> {
    let Value::Dict(g) = got else { return Err(format!("got {}, expected a dict", compare::describe(got))) };
    let entry = |name: &str| g.iter().find(|(k, _)| k == name).map(|(_, v)| v);
    if let (Some(Value::Str(kind)), Some(class)) = (entry("exception"), want["exception"].as_str())
        && let Some(kind) = kind.strip_prefix(KIND)
    {
        let said = match entry("message") {
            Some(Value::Str(m)) => m.as_str(),
            _ => "",
        };
        if !errors::covers(class, kind) {
            return Err(format!("{kind} ({said}), expected {class}: {}", want["message"]));
        }
        let cut = said.split(" This could be because the operator doesn't exist for this backend").next();
        return match want["message"].as_str() {
            // Python shows the text of a KeyError as it shows a text
            Some(w) if class == "KeyError" && quoted(said) == w => Ok(()),
            Some(w) if !how.any_message && without_ragged(cut.unwrap_or(said)).trim() != w.trim() => {
                Err(format!("says `{said}`, expected `{w}`"))
            }
            _ => Ok(()),
        };
    }
    for (k, w) in want.as_object().into_iter().flatten() {
        let Some(x) = entry(k) else { return Err(format!("no entry '{k}'")) };
        value(x, w, store, how).map_err(|e| format!("{k}: {e}"))?;
    }
    match g.iter().find(|(k, _)| want.get(k).is_none()) {
        Some((k, _)) => Err(format!("an entry '{k}' too many")),
        None => Ok(()),
    }
}
fn tensor(v: Value) -> Result<Tensor, String> {
    v.into_tensor().map_err(|other| format!("got {}, expected a tensor", compare::describe(&other)))
}
/// The layout that the record names.
fn laid_out(got: &Value, want: &J) -> Result<(), String> {
    let Some(layout) = want["layout"].as_str() else { return Ok(()) };
    match got {
        Value::Tensor(t) if t.layout().name() == layout => Ok(()),
        Value::Tensor(t) => Err(format!("layout {}, expected {layout}", t.layout().name())),
        other => Err(format!("got {}, expected a tensor", compare::describe(other))),
    }
}
/// Masks are equal, and data where they are true.
fn masked(got: &Value, want: &J, store: &Store, how: How) -> Result<(), String> {
    // sparse ones are recorded in dense form
    let dense = |name: &str| {
        let part = read(got, name)?;
        tensor(if matches!(&part, Value::Tensor(t) if t.layout() == Layout::Strided) {
            part
        } else {
            read(&part, "to_dense")?
        })
    };
    let (data, mask) = (dense("get_data")?, dense("get_mask")?);
    compare::value(&Value::Tensor(mask.clone()), &want["mask"], store, how.tol)
        .map_err(|e| format!("mask: {e}"))?;
    let zero =
        flambeau_core::ops::zeros_like(&data, None, None, None, None, None).map_err(|e| e.to_string())?;
    let data = flambeau_core::ops::where_(&mask, &data, &zero).map_err(|e| e.to_string())?;
    compare::value(&Value::Tensor(data), &want["data"], store, how.tol).map_err(|e| format!("data: {e}"))
}
/// Integers within so many steps, scales and zero points as recorded.
fn quantized(got: &Value, want: &J, store: &Store, how: How) -> Result<(), String> {
    for (field, w) in want.as_object().into_iter().flatten() {
        let name = match field.as_str() {
            "int_repr" => "int_repr",
            "scale" => "q_scale",
            "zero_point" => "q_zero_point",
            "scales" => "q_per_channel_scales",
            "zero_points" => "q_per_channel_zero_points",
            "axis" => "q_per_channel_axis",
            _ => continue,
        };
        let g = read(got, name)?;
        let same = match field.as_str() {
            "int_repr" if how.q_steps > 0 => compare::within_steps(&g, w, store, how.q_steps),
            _ => value(&g, w, store, how),
        };
        same.map_err(|e| format!("{field}: {e}"))?;
    }
    Ok(())
}
