//! Signatures of ATen's operators: names of arguments and their types, which files spell out. Those that the library's rows have
//! as they are come from the rows; the others stand in `schemas.txt`, one a line in ATen's notation; a line `!NAME` is a
//! row that ATen has not.

use flambeau_core::dispatch::registry;
use flambeau_core::types::schema::{self, Default_, Ty};
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

/// An argument.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arg {
    pub name: String,
    /// `Tensor`, `int[]`, `float?`: without sizes of lists, `SymInt` as `int`.
    pub ty: String,
    pub kw_only: bool,
    /// The default's text, if there is one.
    pub default: Option<String>,
}
/// Arguments and types of results.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Schema {
    pub args: Vec<Arg>,
    pub returns: Vec<String>,
}

const TEXT: &str = include_str!("schemas.txt");

/// Parts at commas that stand in no brackets.
fn parts(text: &str) -> Vec<&str> {
    let (mut all, mut depth, mut from) = (Vec::new(), 0i32, 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                all.push(text[from..i].trim());
                from = i + 1;
            }
            _ => {}
        }
    }
    all.push(text[from..].trim());
    all.retain(|p| !p.is_empty());
    all
}
/// A type without what a file does not care about.
fn plain(ty: &str) -> String {
    let mut out = String::new();
    let mut skip = false;
    for c in ty.replace("SymInt", "int").chars() {
        match c {
            '[' => {
                out.push('[');
                skip = true;
            }
            ']' => {
                out.push(']');
                skip = false;
            }
            '!' => {}
            c if !skip => out.push(c),
            _ => {}
        }
    }
    out
}
fn parse(line: &str) -> Option<(String, Schema)> {
    let (name, rest) = line.split_once('(')?;
    let (args, returns) = rest.rsplit_once(") ->")?;
    let mut kw_only = false;
    let mut all = Vec::new();
    for a in parts(args) {
        if a == "*" {
            kw_only = true;
            continue;
        }
        let (a, default) = match a.split_once('=') {
            Some((a, d)) => (a, Some(d.to_string())),
            None => (a, None),
        };
        let (ty, name) = a.rsplit_once(' ')?;
        all.push(Arg { name: name.to_string(), ty: plain(ty), kw_only, default });
    }
    let returns = returns.trim();
    let inner = returns.strip_prefix('(').and_then(|r| r.strip_suffix(')')).unwrap_or(returns);
    let returns = parts(inner).iter().map(|r| plain(r.split(' ').next().unwrap_or(r))).collect();
    Some((name.to_string(), Schema { args: all, returns }))
}
fn type_text(ty: Ty) -> &'static str {
    match ty {
        Ty::Tensor => "Tensor",
        Ty::OptTensor => "Tensor?",
        Ty::TensorList => "Tensor[]",
        Ty::OptTensorList => "Tensor?[]",
        Ty::Scalar => "Scalar",
        Ty::OptScalar => "Scalar?",
        Ty::ScalarList => "Scalar[]",
        Ty::Int => "int",
        Ty::OptInt => "int?",
        Ty::IntList(_) => "int[]",
        Ty::OptIntList(_) => "int[]?",
        Ty::Float => "float",
        Ty::OptFloat => "float?",
        Ty::FloatList => "float[]",
        Ty::OptFloatList => "float[]?",
        Ty::Bool => "bool",
        Ty::OptBool => "bool?",
        Ty::BoolList => "bool[]",
        Ty::Str => "str",
        Ty::OptStr => "str?",
        Ty::DType => "ScalarType",
        Ty::OptDType => "ScalarType?",
        Ty::OptLayout => "Layout?",
        Ty::Device => "Device",
        Ty::OptDevice => "Device?",
        Ty::MemoryFormat => "MemoryFormat",
        Ty::OptMemoryFormat => "MemoryFormat?",
        Ty::OptGenerator => "Generator?",
    }
}
/// A default as PyTorch writes it.
fn default_text(d: Default_) -> String {
    match d {
        Default_::None => "None".to_string(),
        Default_::Int(i) => i.to_string(),
        Default_::Float(x) => format!("{x:?}"),
        Default_::Bool(b) => if b { "True" } else { "False" }.to_string(),
        Default_::Str(s) => format!("\"{s}\""),
        Default_::IntList(l) => {
            let all: Vec<String> = l.iter().map(i64::to_string).collect();
            format!("[{}]", all.join(", "))
        }
        other => format!("{other:?}"),
    }
}
fn of_row(s: &schema::Schema) -> Schema {
    let arg = |a: &schema::Arg| Arg {
        name: a.name.to_string(),
        ty: type_text(a.ty).to_string(),
        kw_only: a.kw_only,
        default: (a.default != Default_::Required).then(|| default_text(a.default)),
    };
    Schema {
        args: s.args.iter().map(arg).collect(),
        returns: s.returns.iter().map(|(_, t)| type_text(*t).to_string()).collect(),
    }
}
/// What `schemas.txt` says of an operator: those whose rows differ, or that have none.
pub(crate) fn listed(name: &str) -> Option<&'static Schema> {
    static ALL: OnceLock<HashMap<String, Schema>> = OnceLock::new();
    ALL.get_or_init(|| TEXT.lines().filter_map(parse).collect()).get(name)
}
/// Whether a row is none of ATen's: its body is recorded in its place.
pub(crate) fn is_foreign(name: &str) -> bool {
    static ALL: OnceLock<HashSet<&str>> = OnceLock::new();
    ALL.get_or_init(|| TEXT.lines().filter_map(|l| l.strip_prefix('!')).collect()).contains(name)
}
/// The signature of an operator of ATen, by its name without `.default`.
pub(crate) fn of(name: &str) -> Option<Schema> {
    if let Some(s) = listed(name) {
        return Some(s.clone());
    }
    let op = registry::find(&format!("aten::{name}"))?.info();
    (op.name == name).then(|| of_row(&op.schema))
}
/// The same by a node's target: `torch.ops.aten.add.Tensor`.
pub(crate) fn of_target(target: &str) -> Option<Schema> {
    let name = target.strip_prefix("torch.ops.aten.")?;
    of(name.strip_suffix(".default").unwrap_or(name))
}
