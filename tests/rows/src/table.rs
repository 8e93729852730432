//! What the tables of operators say about a row, and which operator is a form of which: what every suite over a whole
//! table starts from.

use flambeau_core::Result;
use flambeau_core::dispatch::op::AnyOp;
use flambeau_core::dispatch::registry;
use flambeau_core::types::schema::Ty;
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
            let kind = op["kind"].as_str().unwrap().to_string();
            for list in lists(&name, op.get("foreach")) {
                let (samples, kind) = (samples.clone(), "foreach".to_string());
                rows.insert(list, Row { samples, diff_outputs: Vec::new(), kind, formulas: None });
            }
            rows.insert(name, Row { samples, diff_outputs, kind, formulas });
        }
    }
    rows
}

/// Names of a row's list forms.
fn lists(name: &str, foreach: Option<&toml::Value>) -> Vec<String> {
    let base = name.split('.').next().unwrap_or(name);
    match foreach {
        Some(toml::Value::Array(all)) => {
            let head = |v: &toml::Value| {
                let text = v.as_str().unwrap();
                let head = &text[..text.find('(').unwrap()];
                let full = if head.contains('.') { head.to_string() } else { format!("{base}.{head}") };
                format!("_foreach_{}", full.trim_end_matches('.'))
            };
            all.iter().map(head).collect()
        }
        Some(_) => vec![format!("_foreach_{base}")],
        None => Vec::new(),
    }
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
    let outer = QUIET.get();
    QUIET.set(true);
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

/// The row's samples; of a list form those of its row that fit it, with what a form over one tensor takes.
pub fn samples_of(op: &dyn AnyOp, row: &Row) -> Vec<toml::Table> {
    let info = op.info();
    if !info.name.starts_with("_foreach_") {
        return row.samples.clone();
    }
    let tensors = |n: &str| {
        info.schema.args.iter().find(|a| a.name == n).map(|a| matches!(a.ty, Ty::Tensor | Ty::TensorList))
    };
    let fits = |s: &toml::Table| s.iter().all(|(k, v)| tensors(k).is_some_and(|t| t == v.is_str()));
    let wants_gradients = |s: &toml::Table| {
        let list = |a: &&flambeau_core::types::schema::Arg| a.ty == Ty::TensorList;
        let leaf = |v: &toml::Value| v.as_str().is_some_and(|v| v.starts_with('f'));
        info.schema.args.iter().filter(list).any(|a| s.get(a.name).is_none_or(leaf))
    };
    let mut all: Vec<toml::Table> =
        row.samples.iter().filter(|s| fits(s) && wants_gradients(s)).cloned().collect();
    if !all.iter().any(toml::Table::is_empty) {
        all.push(toml::Table::new());
    }
    if info.name.ends_with(".Tensor") {
        let one = |v: &str| toml::Value::String(v.into());
        let given = [("other".into(), one("f()")), ("scalars".into(), one("n(2)"))];
        all.iter_mut().for_each(|s| s.extend(given.clone()));
    }
    all
}
