//! Schema types and defaults as Rust text.

use crate::schema::{Arg, Base, Default, Ty};

const KEYWORDS: &[&str] = &[
    "as", "async", "await", "box", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern",
    "false", "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "type", "unsafe", "use", "where",
    "while", "yield",
];

/// A Rust identifier: keywords get a trailing underscore.
pub fn ident(s: &str) -> String {
    if KEYWORDS.contains(&s) { format!("{s}_") } else { s.to_string() }
}

/// `max_dim` gives `MaxDim`.
pub fn camel(s: &str) -> String {
    s.split('_')
        .filter(|p| !p.is_empty())
        .map(|p| format!("{}{}", p[..1].to_ascii_uppercase(), &p[1..]))
        .collect()
}

/// The type as a constant of the core's schema.
pub fn core_ty(t: Ty) -> Result<String, String> {
    let base = match t.base {
        Base::Tensor => "Tensor",
        Base::Scalar => "Scalar",
        Base::Int => "Int",
        Base::Float => "Float",
        Base::Bool => "Bool",
        Base::Str => "Str",
        Base::DType => "DType",
        Base::Layout => "Layout",
        Base::Device => "Device",
        Base::MemoryFormat => "MemoryFormat",
        Base::Generator => "Generator",
    };
    let opt = if t.opt { "Opt" } else { "" };
    let bad = || Err(format!("type {t:?} is not supported"));
    match (t.base, t.list) {
        (Base::Int, Some(_)) if t.opt_elem => bad(),
        (Base::Int, Some(n)) => Ok(format!("Ty::{opt}IntList({n})")),
        (Base::Tensor, Some(_)) if t.opt_elem => Ok("Ty::OptTensorList".into()),
        (Base::Tensor, Some(_)) if !t.opt => Ok("Ty::TensorList".into()),
        (Base::Float, Some(_)) if !t.opt_elem => Ok(format!("Ty::{opt}FloatList")),
        (Base::Scalar | Base::Bool, Some(_)) if !t.opt && !t.opt_elem => Ok(format!("Ty::{base}List")),
        (_, Some(_)) => bad(),
        (Base::Layout | Base::Generator, None) => Ok(format!("Ty::Opt{base}")),
        (_, None) => Ok(format!("Ty::{opt}{base}")),
    }
}

/// The Rust type of one value of the base, owned.
pub fn base_ty(b: Base) -> &'static str {
    match b {
        Base::Tensor => "Tensor",
        Base::Scalar => "Scalar",
        Base::Int => "i64",
        Base::Float => "f64",
        Base::Bool => "bool",
        Base::Str => "String",
        Base::DType => "DType",
        Base::Layout => "Layout",
        Base::Device => "Device",
        Base::MemoryFormat => "MemoryFormat",
        Base::Generator => "Generator",
    }
}

/// Whether the value is `Copy` and so is passed by value.
fn by_value(b: Base) -> bool {
    !matches!(b, Base::Tensor | Base::Str | Base::Generator)
}

/// The parameter's type in operators: `&Tensor`, `Option<&[i64]>`.
pub fn param_ty(t: Ty) -> String {
    let base = base_ty(t.base);
    let one = match (t.list, t.base) {
        (Some(_), _) if t.opt_elem => format!("&[Option<{base}>]"),
        (Some(_), _) => format!("&[{base}]"),
        (None, Base::Str) => "&str".to_string(),
        (None, b) if by_value(b) => base.to_string(),
        (None, _) => format!("&{base}"),
    };
    if t.opt { format!("Option<{one}>") } else { one }
}

/// The type that owns the value: fields of option structs and results.
pub fn owned_ty(t: Ty) -> String {
    let base = base_ty(t.base);
    let one = match t.list {
        Some(_) if t.opt_elem => format!("Vec<Option<{base}>>"),
        Some(_) => format!("Vec<{base}>"),
        None => base.to_string(),
    };
    if t.opt { format!("Option<{one}>") } else { one }
}

/// From an owned place `p` to the parameter's type.
pub fn lend(t: Ty, p: &str) -> String {
    match (t.opt, t.list.is_some(), t.base) {
        (true, true, _) | (true, false, Base::Str) => format!("{p}.as_deref()"),
        (true, false, b) if !by_value(b) => format!("{p}.as_ref()"),
        (false, true, _) => format!("&{p}"),
        (false, false, b) if !by_value(b) => format!("&{p}"),
        _ => p.to_string(),
    }
}

/// Argument `i` of a boxed call as the parameter's type.
pub fn unboxed(t: Ty, i: usize) -> String {
    if t.is_one_tensor() {
        return format!("or_return!(tensor_arg(a, {i}))");
    }
    let owned = owned_ty(t);
    let place = format!("or_return!(arg::<{owned}>(a, {i}))");
    let lent = lend(t, &place);
    if lent == place { format!("or_return!(arg(a, {i}))") } else { lent }
}

fn float(f: f64) -> String {
    if f == f64::INFINITY {
        "f64::INFINITY".into()
    } else if f == f64::NEG_INFINITY {
        "f64::NEG_INFINITY".into()
    } else {
        format!("{f:?}")
    }
}

/// The default in the schema constant.
pub fn core_default(a: &Arg) -> String {
    match &a.default {
        None => "D::Required".into(),
        Some(Default::None) => "D::None".into(),
        Some(Default::Int(i)) => format!("D::Int({i})"),
        Some(Default::Float(f)) => format!("D::Float({})", float(*f)),
        Some(Default::Bool(b)) => format!("D::Bool({b})"),
        Some(Default::Str(s)) => format!("D::Str({s:?})"),
        Some(Default::IntList(l)) => format!("D::IntList(&{l:?})"),
        Some(Default::Name(n)) => format!("D::{0}({0}::{n})", base_ty(a.ty.base)),
    }
}

fn bare_default(t: Ty, d: &Default) -> String {
    let text = match d {
        Default::None => "None".into(),
        Default::Int(i) => i.to_string(),
        Default::Float(f) => float(*f),
        Default::Bool(b) => b.to_string(),
        Default::Str(s) => format!("{s:?}"),
        Default::IntList(l) => format!("{l:?}"),
        Default::Name(n) => format!("{}::{n}", base_ty(t.base)),
    };
    match (t.base, d) {
        (Base::Scalar, Default::Int(_)) => format!("Scalar::Int({text})"),
        (Base::Scalar, Default::Float(_)) => format!("Scalar::Float({text})"),
        (Base::Scalar, Default::Bool(_)) => format!("Scalar::Bool({text})"),
        _ => text,
    }
}

/// The default as an expression of the parameter's type.
pub fn default_param(t: Ty, d: &Default) -> String {
    let bare = match d {
        Default::IntList(_) => format!("&{}", bare_default(t, d)),
        _ => bare_default(t, d),
    };
    if t.opt && *d != Default::None { format!("Some({bare})") } else { bare }
}

/// The default as an expression of the owned type.
pub fn default_owned(t: Ty, d: &Default) -> String {
    let bare = match d {
        Default::IntList(_) => format!("vec!{}", bare_default(t, d)),
        Default::Str(_) => format!("{}.to_string()", bare_default(t, d)),
        _ => bare_default(t, d),
    };
    if t.opt && *d != Default::None { format!("Some({bare})") } else { bare }
}

/// The default as documentation shows it.
pub fn default_doc(d: &Default) -> String {
    match d {
        Default::None => "None".into(),
        Default::Int(i) => i.to_string(),
        Default::Float(f) => format!("{f:?}"),
        Default::Bool(b) => b.to_string(),
        Default::Str(s) => format!("{s:?}"),
        Default::IntList(l) => format!("{l:?}"),
        Default::Name(n) => n.to_string(),
    }
}

/// The result type of the typed function (without `Result`).
pub fn return_ty(returns: &[(String, Ty)]) -> String {
    match returns {
        [] => "()".into(),
        [one] => owned_ty(one.1),
        many => format!("({})", many.iter().map(|r| owned_ty(r.1)).collect::<Vec<_>>().join(", ")),
    }
}
