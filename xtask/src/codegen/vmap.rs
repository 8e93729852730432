//! The verdicts on vmap, which flambeau-func's rules follow: one line for each form of each row.

use super::form::{Form, Mode};
use crate::table::{CrateTable, Kind, Row};
use std::collections::BTreeMap;

/// At most one row in so many is called slice by slice.
const LOOPS: usize = 10;

/// The verdict that a row's kind implies, or what it says; an error where neither gives one.
pub fn verdict(kind: Kind, given: Option<&str>, tensors: bool) -> Result<String, String> {
    match (kind, given) {
        (_, Some(w)) if w.starts_with("loop") => match w.strip_prefix("loop:").map(str::trim) {
            Some(why) if !why.is_empty() => Ok(w.to_string()),
            _ => Err("vmap: `loop` needs its reason: `loop: WHY`".into()),
        },
        (_, Some(w)) if !w.is_empty() && w.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') => {
            Ok(w.to_string())
        }
        (_, Some(w)) => Err(format!("vmap: `{w}` is no name of a rule")),
        (Kind::Pointwise, None) => Ok("pointwise".into()),
        (Kind::Composite, None) => Ok("body".into()),
        (_, None) if !tensors => Ok("none".into()),
        (_, None) => Err("no vmap verdict: give `vmap` (docs/contributing.md)".into()),
    }
}

fn rule(row: &Row, form: &Form<'_>) -> Option<String> {
    let word = row.vmap.as_str();
    Some(match form.mode {
        _ if word == "none" => return None,
        _ if word == "random" => "Random".into(),
        Mode::Out => "Out".into(),
        _ if word == "body" || form.self_mut() => "Body".into(),
        _ => match word.strip_prefix("loop:") {
            Some(why) => format!("Loop({:?})", why.trim()),
            None => format!("By(by::{word})"),
        },
    })
}

/// The generated module of flambeau-func.
pub fn emit(tables: &[CrateTable]) -> Result<BTreeMap<String, String>, String> {
    let mut s = String::from(
        "//! What each operator does with tensors of which vmap hides a dimension.\n\nuse crate::call::Rule::{self, Body, By, Loop, Out, Random};\nuse crate::rules::by;\n\n\
         /// By crate and ATen's name.\n#[rustfmt::skip]\npub(crate) static RULES: &[(&str, &str, Rule)] = &[\n",
    );
    let (mut rows, mut loops) = (0, Vec::new());
    for c in tables {
        for row in c.families.iter().flat_map(|f| &f.rows) {
            rows += 1;
            if row.vmap.starts_with("loop") {
                loops.push(row.schema.full_name());
            }
            for form in Form::all(row) {
                if let Some(r) = rule(row, &form) {
                    s += &format!("    ({:?}, {:?}, {r}),\n", c.package, form.aten());
                }
            }
        }
    }
    s += "];\n";
    if loops.len() * LOOPS > rows {
        return Err(format!(
            "vmap: {} of {rows} rows are loops, more than a tenth: {}",
            loops.len(),
            loops.join(", ")
        ));
    }
    Ok(BTreeMap::from([("mod.rs".to_string(), s)]))
}
