//! Schema strings: `mylib::scale(Tensor x, float by=2.0, *, bool flip=False) -> Tensor`.

use crate::types::error::{Error, Result};
use crate::types::layout::{Layout, MemoryFormat};
use crate::types::schema::{Arg, Default_, Schema, Ty};

/// A definition's name and schema. What they hold lives as long as the program: definitions are few.
pub struct Definition {
    /// Name without namespace, with the overload.
    pub name: &'static str,
    /// Arguments and results.
    pub schema: Schema,
}

fn wrong(text: &str, why: &str) -> Error {
    Error::runtime(format!("cannot parse the schema `{text}`: {why}"))
}
fn keep(s: &str) -> &'static str {
    Box::leak(s.to_string().into_boxed_str())
}
/// Splits at commas that stand outside brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0i32, 0, Vec::new());
    for (i, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        parts.push(text[start..].trim());
    }
    parts
}

/// A type and whether it is written: `Tensor(a!)[]`.
fn ty(text: &str) -> Result<(Ty, bool)> {
    let (mut plain, mut written) = (text.trim().to_string(), false);
    if let Some(open) = plain.find('(') {
        let close = plain[open..].find(')').ok_or_else(|| wrong(text, "a bracket is open"))? + open;
        written = plain[open..close].contains('!');
        plain.replace_range(open..=close, "");
    }
    let sized = |optional: bool| -> Option<Ty> {
        let inner = plain.trim_end_matches('?').strip_suffix(']')?;
        let (name, n) = inner.split_once('[')?;
        let n = if n.is_empty() { 0 } else { n.parse().ok()? };
        match (name, optional) {
            ("int" | "SymInt", false) => Some(Ty::IntList(n)),
            ("int" | "SymInt", true) => Some(Ty::OptIntList(n)),
            ("float", false) => Some(Ty::FloatList),
            ("float", true) => Some(Ty::OptFloatList),
            ("bool", false) => Some(Ty::BoolList),
            ("Scalar", false) => Some(Ty::ScalarList),
            ("Tensor", false) => Some(Ty::TensorList),
            ("Tensor?", false) => Some(Ty::OptTensorList),
            _ => None,
        }
    };
    let found = match plain.as_str() {
        "Tensor" => Ty::Tensor,
        "Tensor?" => Ty::OptTensor,
        "Scalar" => Ty::Scalar,
        "Scalar?" => Ty::OptScalar,
        "int" | "SymInt" => Ty::Int,
        "int?" | "SymInt?" => Ty::OptInt,
        "float" => Ty::Float,
        "float?" => Ty::OptFloat,
        "bool" => Ty::Bool,
        "bool?" => Ty::OptBool,
        "str" => Ty::Str,
        "str?" => Ty::OptStr,
        "ScalarType" => Ty::DType,
        "ScalarType?" => Ty::OptDType,
        "Layout?" => Ty::OptLayout,
        "Device" => Ty::Device,
        "Device?" => Ty::OptDevice,
        "MemoryFormat" => Ty::MemoryFormat,
        "MemoryFormat?" => Ty::OptMemoryFormat,
        "Generator?" => Ty::OptGenerator,
        p => sized(p.ends_with('?')).ok_or_else(|| wrong(text, "no such type"))?,
    };
    Ok((found, written))
}

fn default(ty: Ty, text: &str) -> Result<Default_> {
    let no = || wrong(text, "the default does not fit the type");
    Ok(match (ty, text) {
        (_, "None") => Default_::None,
        (_, "True") => Default_::Bool(true),
        (_, "False") => Default_::Bool(false),
        (Ty::MemoryFormat | Ty::OptMemoryFormat, "contiguous_format") => {
            Default_::MemoryFormat(MemoryFormat::Contiguous)
        }
        (Ty::OptLayout, "strided") => Default_::Layout(Layout::Strided),
        (Ty::Str | Ty::OptStr, t) => Default_::Str(keep(t.trim_matches(['"', '\'']))),
        (Ty::IntList(_) | Ty::OptIntList(_), t) if t.starts_with('[') => {
            let inner = t.strip_prefix('[').and_then(|t| t.strip_suffix(']')).ok_or_else(no)?;
            let all: Vec<i64> =
                split(inner).iter().map(|n| n.parse().map_err(|_| no())).collect::<Result<_>>()?;
            Default_::IntList(Box::leak(all.into_boxed_slice()))
        }
        (Ty::Float | Ty::OptFloat, t) => Default_::Float(t.parse().map_err(|_| no())?),
        (_, t) => match (t.parse::<i64>(), t.parse::<f64>()) {
            (Ok(i), _) => Default_::Int(i),
            (_, Ok(f)) => Default_::Float(f),
            _ => return Err(no()),
        },
    })
}

/// Reads a definition.
///
/// # Errors
/// What is no schema, with the part that is wrong.
pub fn parse(text: &str) -> Result<Definition> {
    let (head, result) = match text.rfind("->") {
        Some(i) => (text[..i].trim_end(), text[i + 2..].trim()),
        None => return Err(wrong(text, "expected `->` and the results")),
    };
    let open = head.find('(').ok_or_else(|| wrong(text, "expected `(` after the name"))?;
    let name = head[..open].trim();
    let legal = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    if name.is_empty() || !name.chars().all(legal) {
        return Err(wrong(text, "the name is no identifier"));
    }
    let inner = head[open + 1..].strip_suffix(')').ok_or_else(|| wrong(text, "expected `)`"))?;
    let (mut args, mut kw_only) = (Vec::new(), false);
    for part in split(inner) {
        if part == "*" {
            kw_only = true;
            continue;
        }
        let (decl, given) = match part.split_once('=') {
            Some((d, v)) => (d.trim(), Some(v.trim())),
            None => (part, None),
        };
        let (t, arg) =
            decl.rsplit_once(' ').ok_or_else(|| wrong(part, "an argument is a type and a name"))?;
        let (ty, mutated) = ty(t)?;
        let default = given.map_or(Ok(Default_::Required), |v| default(ty, v))?;
        args.push(Arg { name: keep(arg), ty, default, kw_only, mutated, number: false });
    }
    let list = match result.strip_prefix('(').and_then(|r| r.strip_suffix(')')) {
        Some(inner) => split(inner),
        None => vec![result],
    };
    let mut returns = Vec::new();
    for r in list {
        let (t, name) = match r.rsplit_once(' ') {
            Some((t, n)) => (t, keep(n)),
            None => (r, ""),
        };
        returns.push((name, ty(t)?.0));
    }
    let schema =
        Schema { args: Box::leak(args.into_boxed_slice()), returns: Box::leak(returns.into_boxed_slice()) };
    Ok(Definition { name: keep(name), schema })
}
