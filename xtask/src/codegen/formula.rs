//! What a gradient formula names, and how that is saved.

use super::form::arg_ident;
use super::types::{lend, owned_ty};
use crate::schema::{Arg, Base, Ty};
use crate::table::Row;
use std::collections::BTreeSet;

/// The free identifiers of a Rust expression: no fields, methods, paths, calls or text.
pub fn idents(text: &str) -> BTreeSet<String> {
    let b = text.as_bytes();
    let word = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    let mut out = BTreeSet::new();
    let mut i = 0;
    while i < b.len() {
        if b[i] == b'"' {
            i += 1;
            while i < b.len() && b[i] != b'"' {
                i += if b[i] == b'\\' { 2 } else { 1 };
            }
            i += 1;
            continue;
        }
        if !word(b[i]) {
            i += 1;
            continue;
        }
        let from = i;
        while i < b.len() && word(b[i]) {
            i += 1;
        }
        let before = text[..from].trim_end();
        let after = text[i..].trim_start();
        let range = before.ends_with("..");
        let member = before.ends_with('.') && !range || before.ends_with("::");
        let called = after.starts_with('(')
            || after.starts_with("::")
            || after.starts_with('!') && !after.starts_with("!=");
        if !member && !called && !b[from].is_ascii_digit() {
            out.insert(text[from..i].to_string());
        }
    }
    out
}

/// One name in a formula.
#[derive(Clone, Debug)]
pub enum Save {
    /// A tensor argument.
    Input(Arg),
    /// Any other argument.
    Value(Arg),
    /// `self_sizes` and the like: a property instead of the tensor.
    Meta { arg: Arg, what: &'static str },
    /// A result: its index, and its number among the differentiable ones.
    Result { index: usize, diff: Option<usize>, list: bool },
}

impl Save {
    pub fn is_tensor(&self) -> bool {
        matches!(self, Save::Input(_) | Save::Result { .. })
    }
    /// Type of the node's field.
    pub fn field_ty(&self) -> String {
        match self {
            Save::Input(a) if a.ty.list.is_some() => "SavedList".into(),
            Save::Input(a) if a.ty.opt => "SavedOpt".into(),
            Save::Result { list: true, .. } => "SavedList".into(),
            Save::Input(_) | Save::Result { .. } => "Saved".into(),
            Save::Value(a) => owned_ty(a.ty),
            Save::Meta { arg, what } => {
                let one = match *what {
                    "sizes" | "strides" => "SizeVec",
                    "dtype" => "DType",
                    "geometry" => "Geometry",
                    _ => "Device",
                };
                if arg.ty.list.is_some() { format!("Vec<{one}>") } else { one.into() }
            }
        }
    }
    /// Expression that makes the field from the argument before the call. `when`: only then is it needed.
    pub fn input(&self, n: &str, when: Option<String>) -> String {
        match self {
            Save::Input(a) if a.ty.opt_elem => format!("SavedList::input_opt({n})"),
            Save::Input(_) => {
                let ty = self.field_ty();
                when.map_or_else(|| format!("{ty}::input({n})"), |c| format!("{ty}::input_if({c}, {n})"))
            }
            Save::Value(a) => own(a.ty, n),
            Save::Meta { arg, what } => {
                let copied = matches!(*what, "sizes" | "strides");
                let of = |t: &str| match *what {
                    "geometry" => format!("Geometry::of({t})"),
                    _ if copied => format!("size_vec({t}.{what}())"),
                    _ => format!("{t}.{what}()"),
                };
                let a = arg_ident(&arg.name);
                if arg.ty.list.is_some() {
                    format!("{a}.iter().map(|t| {}).collect()", of("t"))
                } else {
                    of(&a)
                }
            }
            Save::Result { .. } => String::new(),
        }
    }
    /// The name's value in the wrapper itself, where nothing is saved.
    pub fn direct(&self) -> String {
        match self {
            Save::Meta { what: "geometry", .. } => format!("&{}", self.input("", None)),
            Save::Meta { arg, what } if arg.ty.list.is_none() => format!("{}.{what}()", arg_ident(&arg.name)),
            Save::Meta { .. } => {
                format!("&{}[..]", self.input("", None).replace(".collect()", ".collect::<Vec<_>>()"))
            }
            _ => String::new(),
        }
    }
    /// The name's value in the formula, from a field that is no tensor.
    pub fn bind(&self, n: &str) -> String {
        let place = format!("self.{n}");
        match self {
            Save::Value(a) if a.ty.list.is_some() && !a.ty.opt => format!("&{place}[..]"),
            Save::Value(a) if a.ty.base == Base::Str && !a.ty.opt => format!("&{place}[..]"),
            Save::Value(a) => lend(a.ty, &place),
            Save::Meta { arg, what } if arg.ty.list.is_some() || matches!(*what, "sizes" | "strides") => {
                format!("&{place}[..]")
            }
            Save::Meta { what: "geometry", .. } => format!("&{place}"),
            _ => place,
        }
    }
    /// Statement that unpacks a saved tensor.
    pub fn unpack(&self, n: &str) -> String {
        let shown = n.trim_end_matches('_');
        match self {
            Save::Input(a) if a.ty.opt_elem => {
                format!("let {n} = &or_return!(self.{n}.unpack_opt(cx, {shown:?}))[..]; ")
            }
            Save::Input(a) if a.ty.list.is_some() => {
                format!("let {n} = &or_return!(self.{n}.unpack(cx, {shown:?}))[..]; ")
            }
            Save::Result { list: true, .. } => {
                format!("let {n} = &or_return!(self.{n}.unpack(cx, {shown:?}))[..]; ")
            }
            Save::Input(a) if a.ty.opt => {
                format!("let {n} = or_return!(self.{n}.unpack(cx, {shown:?})); let {n} = {n}.as_ref(); ")
            }
            _ => format!("let {n} = &or_return!(self.{n}.unpack(cx, {shown:?})); "),
        }
    }
}

/// From the parameter's type to the owned one.
fn own(t: Ty, n: &str) -> String {
    match (t.opt, t.list.is_some(), t.base) {
        (true, true, _) => format!("{n}.map(|v| v.to_vec())"),
        (false, true, _) => format!("{n}.to_vec()"),
        (true, false, Base::Str) => format!("{n}.map(str::to_string)"),
        (false, false, Base::Str) => format!("{n}.to_string()"),
        (true, false, Base::Generator) => format!("{n}.cloned()"),
        (false, false, Base::Generator) => format!("{n}.clone()"),
        _ => n.to_string(),
    }
}

/// The names that a row's formulas may use.
pub struct Scope<'a> {
    row: &'a Row,
    diff: Vec<usize>,
}

impl<'a> Scope<'a> {
    pub fn new(row: &'a Row) -> Self {
        let r = &row.schema.returns;
        let chosen = |i: &usize| {
            r[*i].1.is_tensor() && (row.diff_outputs.is_empty() || row.diff_outputs.contains(&r[*i].0))
        };
        Scope { row, diff: (0..r.len()).filter(chosen).collect() }
    }
    /// Indices of the differentiable results.
    pub fn diff_outputs(&self) -> &[usize] {
        &self.diff
    }
    /// Whether the one result is a list.
    pub fn list_result(&self) -> bool {
        self.row.schema.returns.first().is_some_and(|r| r.1.list.is_some())
    }
    /// What the name means; `None` if it is not the row's (a constant, a local).
    pub fn find(&self, name: &str) -> Result<Option<Save>, String> {
        for a in &self.row.schema.args {
            if arg_ident(&a.name) == name {
                return Ok(Some(if a.ty.is_tensor() {
                    Save::Input(a.clone())
                } else {
                    Save::Value(a.clone())
                }));
            }
            if a.ty.is_tensor()
                && let Some(what) =
                    name.strip_prefix(a.name.to_ascii_lowercase().as_str()).and_then(|s| s.strip_prefix('_'))
                && let Some(what) =
                    ["sizes", "strides", "dtype", "device", "geometry"].into_iter().find(|w| *w == what)
            {
                if a.ty.opt || a.ty.opt_elem {
                    return Err(format!("`{name}`: the tensor may be absent"));
                }
                return Ok(Some(Save::Meta { arg: a.clone(), what }));
            }
        }
        let Some(rest) = name.strip_prefix("result") else { return Ok(None) };
        let n = self.row.schema.returns.len();
        if !rest.bytes().all(|c| c.is_ascii_digit()) {
            return Ok(None);
        }
        let index = match (rest, n) {
            ("", 1) => 0,
            (i, 2..) if i.parse::<usize>().is_ok_and(|i| i < n) => i.parse().unwrap_or(0),
            _ => return Err(format!("no result `{name}`")),
        };
        let list = self.list_result();
        Ok(Some(Save::Result { index, diff: self.diff.iter().position(|d| *d == index), list }))
    }
    /// Those of `ids` that mean something.
    pub fn names(&self, ids: &BTreeSet<String>) -> Vec<(String, Save)> {
        ids.iter().filter_map(|i| self.find(i).ok().flatten().map(|s| (i.clone(), s))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::idents;

    #[test]
    fn free_names_only() {
        let got = idents(
            "mul(&x.conj()?, &other::dim(grad)?).map(|t| t.sum(\"self_\", [alpha, 1e5 as f64]))?.le(..n) != !z",
        );
        let want = ["x", "grad", "t", "alpha", "as", "f64", "n", "z"];
        assert_eq!(got, want.iter().map(|s| s.to_string()).collect());
    }
}
