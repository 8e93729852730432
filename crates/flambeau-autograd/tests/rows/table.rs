//! What the tables of operators say about a row, and which operator is a form of which: what every suite over a whole
//! table starts from.

#![allow(dead_code)] // each suite uses its part

use flambeau_core::Result;
use flambeau_core::dispatch::{AnyOp, registry};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Once;

/// What the table says about a row beyond the registry.
pub struct Row {
    pub samples: Vec<toml::Table>,
    pub diff_outputs: Vec<String>,
    /// `pointwise`, `structured`, ...
    pub kind: String,
    /// Arguments with a formula; `None` for composites.
    pub formulas: Option<BTreeSet<String>>,
}

/// The rows of all tables in a directory, by name.
pub fn table(dir: &Path) -> BTreeMap<String, Row> {
    let mut rows = BTreeMap::new();
    for file in std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().path()) {
        let text: toml::Table = std::fs::read_to_string(&file).unwrap().parse().unwrap();
        for op in text.get("op").and_then(toml::Value::as_array).into_iter().flatten() {
            let schema = op["schema"].as_str().unwrap();
            let name = schema[..schema.find('(').unwrap()].to_string();
            let samples = match op.get("sample") {
                None => vec![toml::Table::new()],
                Some(toml::Value::Array(a)) => a.iter().map(|s| s.as_table().unwrap().clone()).collect(),
                Some(s) => vec![s.as_table().unwrap().clone()],
            };
            let diff_outputs = op.get("diff_outputs").and_then(toml::Value::as_array);
            let formulas = op
                .get("grad")
                .and_then(toml::Value::as_table)
                .map(|t| t.keys().flat_map(|k| k.split(',').map(|n| n.trim().to_string())).collect());
            let diff_outputs =
                diff_outputs.into_iter().flatten().map(|v| v.as_str().unwrap().to_string()).collect();
            rows.insert(
                name,
                Row { samples, diff_outputs, formulas, kind: op["kind"].as_str().unwrap().to_string() },
            );
        }
    }
    rows
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Makes its results.
    Plain,
    /// Writes its first argument.
    Inplace,
    /// Writes the tensors at its end.
    Out,
}
pub fn form(op: &dyn AnyOp) -> Form {
    let args = op.info().schema.args;
    match args.iter().find(|a| a.mutated) {
        None => Form::Plain,
        Some(a) if a.kw_only => Form::Out,
        Some(_) => Form::Inplace,
    }
}
/// The row that a form belongs to: `add.Tensor` of `add_.Tensor` and `add.out`.
pub fn row_of<'a>(rows: &'a BTreeMap<String, Row>, name: &str) -> Option<&'a Row> {
    let plain = match name.split_once('.') {
        Some((base, overload)) => format!("{}.{overload}", base.strip_suffix('_').unwrap_or(base)),
        None => name.strip_suffix('_').unwrap_or(name).to_string(),
    };
    rows.get(name).or_else(|| rows.get(&plain))
}
/// Name of the operator that an `out=` form writes the results of.
pub fn out_of(out: &dyn AnyOp) -> Option<&'static str> {
    let base = |n: &'static str| n.split('.').next();
    let info = out.info();
    let args: Vec<_> = info.schema.args.iter().filter(|a| !a.mutated).copied().collect();
    registry::crates()
        .iter()
        .flat_map(|c| c.ops)
        .map(|o| o.info())
        .find_map(|o| (base(o.name) == base(info.name) && o.schema.args == args).then_some(o.name))
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}
/// Runs `f` and gives the text of its panic, which is not printed.
pub fn unwinding<T>(f: impl FnOnce() -> T) -> std::result::Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                before(info);
            }
        }));
    });
    let outer = QUIET.replace(true);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    QUIET.set(outer);
    result.map_err(|p| {
        let text = p.downcast_ref::<String>().cloned();
        text.or_else(|| p.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default()
    })
}
/// A panic (of an assertion in the library, or over a sample that does not parse) is one failure among others.
pub fn caught<T>(f: impl FnOnce() -> Result<T>) -> std::result::Result<T, String> {
    unwinding(f)?.map_err(|e| e.message().to_string())
}
