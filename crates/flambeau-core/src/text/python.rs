//! Values as Python writes them.

use crate::dispatch::value::Value;
use crate::text::to_text;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;

/// A value as Python's `str` writes it.
pub trait PyText {
    /// The text.
    fn py_text(&self) -> String;
}
/// An argument that a module or an optimizer prints.
pub struct Argument<'a> {
    /// What stands before the value: `"bias="`.
    pub label: &'a str,
    /// Whether quotes stand around it.
    pub quoted: bool,
    /// The value.
    pub value: &'a dyn PyText,
    /// It is not printed while its text is that of this one.
    pub unless: Option<&'a dyn PyText>,
}
/// Arguments as PyTorch prints them.
pub fn arguments(all: &[Argument<'_>]) -> String {
    let mut out = String::new();
    for a in all {
        let text = a.value.py_text();
        if a.unless.is_some_and(|d| d.py_text() == text) {
            continue;
        }
        if !out.is_empty() {
            out.push_str(", ");
        }
        let mark = if a.quoted { "'" } else { "" };
        for part in [a.label, mark, &text, mark] {
            out.push_str(part);
        }
    }
    out
}
impl PyText for bool {
    fn py_text(&self) -> String {
        if *self { "True" } else { "False" }.to_owned()
    }
}
impl PyText for i64 {
    fn py_text(&self) -> String {
        self.to_string()
    }
}
impl PyText for String {
    fn py_text(&self) -> String {
        self.clone()
    }
}
/// The shortest digits that read back, as `{:e}` writes them; of two that are equally near Python takes the even one.
fn shortest(v: f64) -> String {
    let up = format!("{v:e}");
    let digits = up.bytes().take_while(|b| *b != b'e').filter(u8::is_ascii_digit).count();
    let even = format!("{v:.*e}", digits.saturating_sub(1));
    if even.parse() == Ok(v) { even } else { up }
}
impl PyText for f64 {
    /// Python's `repr` of a float: the shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
    fn py_text(&self) -> String {
        let v = *self;
        if v.is_nan() {
            return "nan".to_owned();
        }
        if v.is_infinite() {
            return if v > 0.0 { "inf" } else { "-inf" }.to_owned();
        }
        let s = shortest(v);
        let (digits, exponent) = s.split_once('e').unwrap_or((&s, "0"));
        if v != 0.0 && (v.abs() < 1e-4 || v.abs() >= 1e16) {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(e) => ('-', e),
                None => ('+', exponent),
            };
            return format!("{digits}e{sign}{exponent:0>2}");
        }
        let decimals = digits.split_once('.').map_or(0, |(_, d)| d.len() as i64);
        let decimals = (decimals - exponent.parse::<i64>().unwrap_or(0)).max(1);
        format!("{v:.*}", decimals as usize)
    }
}
impl PyText for Scalar {
    fn py_text(&self) -> String {
        match self {
            Scalar::Bool(b) => b.py_text(),
            Scalar::Int(i) => i.to_string(),
            Scalar::UInt(u) => u.to_string(),
            Scalar::Float(f) => f.py_text(),
            Scalar::Complex(c) => format!("({}{:+}j)", c.re, c.im),
        }
    }
}
impl PyText for (f64, f64) {
    fn py_text(&self) -> String {
        format!("({}, {})", self.0.py_text(), self.1.py_text())
    }
}
impl PyText for Vec<i64> {
    /// As a tuple.
    fn py_text(&self) -> String {
        match self.as_slice() {
            [one] => format!("({one},)"),
            all => format!("({})", all.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
        }
    }
}
impl<T: PyText> PyText for Option<T> {
    fn py_text(&self) -> String {
        self.as_ref().map_or_else(|| "None".to_owned(), T::py_text)
    }
}

/// Python's `repr` of a string.
fn quoted(s: &str) -> String {
    let q = if s.contains('\'') && !s.contains('"') { '"' } else { '\'' };
    let mut out = String::from(q);
    for c in s.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            c if c == q => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push(q);
    out
}
/// A part of a complex number: no `.0`.
fn part(v: f64) -> String {
    let s = v.py_text();
    s.strip_suffix(".0").map_or(s.clone(), str::to_string)
}

/// Python's `repr` of a value.
///
/// ```
/// use torch::library::{Value, repr};
/// assert_eq!(repr(&Value::Tuple(vec![1.into(), "a".into(), Value::None, true.into()]))?, "(1, 'a', None, True)");
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// When a tensor's elements cannot be read.
pub fn repr(v: &Value) -> Result<String> {
    repr_at(v, 0)
}
/// Python's own `repr` goes some hundred levels further; this many fit a thread's stack in every build.
const DEEPEST: usize = 200;
fn repr_at(v: &Value, depth: usize) -> Result<String> {
    if depth > DEEPEST {
        return Err(Error::runtime("maximum recursion depth exceeded while getting the repr of an object"));
    }
    let repr = |v: &Value| repr_at(v, depth + 1);
    let list = |l: &[Value]| l.iter().map(repr).collect::<Result<Vec<_>>>().map(|l| l.join(", "));
    Ok(match v {
        Value::Tensor(t) => to_text(t)?,
        Value::Object(o) => o.repr(),
        Value::None => "None".into(),
        Value::Bool(b) => b.py_text(),
        Value::Int(i) => i.to_string(),
        Value::Float(x) => x.py_text(),
        Value::Complex(c) if c.re == 0.0 && !c.re.is_sign_negative() => format!("{}j", part(c.im)),
        Value::Complex(c) => {
            let im = part(c.im);
            let plus = if im.starts_with('-') { "" } else { "+" };
            format!("({}{plus}{im}j)", part(c.re))
        }
        Value::Str(s) => quoted(s),
        Value::DType(d) => format!("torch.{}", d.name()),
        Value::Layout(l) => format!("torch.{}", l.name()),
        Value::MemoryFormat(m) => format!("torch.{}", m.name()),
        Value::Device(d) => match d.index() {
            Some(i) => format!("device(type='{}', index={i})", d.kind()),
            None => format!("device(type='{}')", d.kind()),
        },
        Value::Generator(g) => format!("{g:?}"),
        Value::List(l) => format!("[{}]", list(l)?),
        Value::Tuple(l) if l.len() == 1 => format!("({},)", repr(&l[0])?),
        Value::Tuple(l) => format!("({})", list(l)?),
        Value::Named(t) if t.fields.is_empty() => format!("{}([{}])", t.class, list(&t.items)?),
        Value::Named(t) => {
            let one = |(f, v): (&&str, &Value)| Ok(format!("{f}={}", repr(v)?));
            let items = t.fields.iter().zip(&t.items).map(one).collect::<Result<Vec<_>>>()?;
            // those of operators stand on lines, Python's own on one
            match t.class.starts_with("torch.return_types.") {
                true => format!("{}(\n{})", t.class, items.join(",\n")),
                false => format!("{}({})", t.class, items.join(", ")),
            }
        }
        Value::Dict(l) => {
            let one = |(k, v): &(String, Value)| Ok(format!("{}: {}", quoted(k), repr(v)?));
            format!("{{{}}}", l.iter().map(one).collect::<Result<Vec<_>>>()?.join(", "))
        }
        Value::Slice(p) => {
            let p = p.map(|i| i.map_or("None".to_string(), |i| i.to_string()));
            format!("slice({})", p.join(", "))
        }
        Value::Ellipsis => "Ellipsis".into(),
    })
}
