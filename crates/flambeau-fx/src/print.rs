//! Graphs as text.

use crate::argument::Argument;
use crate::graph::Graph;
use crate::node::{Node, Op};
use flambeau_core::Value;
use flambeau_core::types::deep;
use std::fmt;

/// Python's `repr` of a constant.
pub(crate) fn repr(v: &Value) -> String {
    match v {
        Value::Float(x) if x.is_nan() => "nan".into(),
        v => flambeau_library::repr(v).unwrap_or_else(|_| format!("<{}>", v.type_name())),
    }
}
/// A constant as a program has it: of complex numbers Python's `repr` does not always say which they are.
fn source(v: &Value) -> String {
    match v {
        Value::Complex(z) if z.re == 0.0 || z.im == 0.0 || !z.re.is_finite() || !z.im.is_finite() => {
            format!("complex({}, {})", repr(&Value::Float(z.re)), repr(&Value::Float(z.im)))
        }
        v => repr(v),
    }
}
/// Python's `str` of a constant: texts without quotes.
fn text(v: &Value) -> String {
    match v {
        Value::Str(s) => s.clone(),
        Value::Device(d) => d.to_string(),
        v => repr(v),
    }
}

/// How nodes and constants of an argument are written.
struct Style<'a> {
    node: &'a dyn Fn(Node) -> String,
    value: &'a dyn Fn(&Value) -> String,
    key: &'a dyn Fn(&str) -> String,
}
impl Style<'_> {
    fn all(&self, l: &[Argument]) -> String {
        l.iter().map(|a| self.one(a)).collect::<Vec<_>>().join(", ")
    }
    /// An ellipsis of what is nested too deeply to be written.
    fn whole(&self, a: &Argument) -> String {
        if deep::check([a]).is_ok() { self.one(a) } else { "...".into() }
    }
    fn one(&self, a: &Argument) -> String {
        match a {
            Argument::Node(n) => (self.node)(*n),
            Argument::Value(v) => (self.value)(v),
            Argument::List(l) => format!("[{}]", self.all(l)),
            Argument::Tuple(l) => self.tuple(l),
            Argument::Dict(d) => self.dict(d),
            Argument::Slice(s) => format!("slice({})", self.all(&s[..])),
        }
    }
    fn tuple(&self, l: &[Argument]) -> String {
        format!("({}{})", self.all(l), if l.len() == 1 { "," } else { "" })
    }
    fn dict(&self, d: &[(String, Argument)]) -> String {
        let all: Vec<String> = d.iter().map(|(k, a)| format!("{}: {}", (self.key)(k), self.one(a))).collect();
        format!("{{{}}}", all.join(", "))
    }
}

impl Graph {
    /// An argument as a Python program has it.
    pub(crate) fn python(&self, a: &Argument) -> String {
        let style = Style {
            node: &|n| self.shown(n).to_string(),
            value: &source,
            key: &|k| repr(&Value::Str(k.into())),
        };
        style.whole(a)
    }
    /// One node as a line of [`Graph`]'s text, without the indentation.
    pub fn format_node(&self, n: Node) -> String {
        let d = self.node(n);
        let style = Style { node: &|n| format!("%{}", self.shown(n)), value: &text, key: &|k| k.to_string() };
        let typed = d.type_name.as_ref().map(|t| format!("{t} ")).unwrap_or_default();
        let head = format!("%{} : {typed}[num_users={}] = {}", d.name, d.users().len(), d.op.name());
        match d.op {
            Op::Placeholder => match d.args().first() {
                Some(a) => {
                    let default = match a {
                        Argument::Value(v) => text(v),
                        a => self.python(a),
                    };
                    format!("{head}[target={}](default={default})", d.target)
                }
                None => format!("{head}[target={}]", d.target),
            },
            Op::GetAttr => format!("{head}[target={}]", d.target),
            Op::Output => format!(
                "return {}",
                d.args()
                    .first()
                    .map(|a| match a {
                        Argument::Value(v) => text(v),
                        a => self.python(a),
                    })
                    .unwrap_or_default()
            ),
            op => {
                let target =
                    if op == Op::CallFunction { printed_target(&d.target) } else { d.target.clone() };
                format!(
                    "{head}[target={target}](args = {}, kwargs = {})",
                    style.tuple(d.args()),
                    style.dict(d.kwargs())
                )
            }
        }
    }
    /// The rows of PyTorch's `print_tabular`: opcode, name, target, args, kwargs.
    pub fn table(&self) -> Vec<[String; 5]> {
        let style = Style {
            node: &|n| self.shown(n).to_string(),
            value: &repr,
            key: &|k| repr(&Value::Str(k.into())),
        };
        let row = |n: Node| {
            let d = self.node(n);
            let target =
                if d.op == Op::CallFunction { described_target(&d.target) } else { d.target.clone() };
            [d.op.name().to_string(), d.name.clone(), target, style.tuple(d.args()), style.dict(d.kwargs())]
        };
        self.nodes().map(row).collect()
    }
    /// The table of [`table`](Graph::table) as text, in columns under headings.
    pub fn tabular(&self) -> String {
        let headings = ["opcode", "name", "target", "args", "kwargs"].map(str::to_string);
        let rows = self.table();
        let mut widths = headings.clone().map(|h| h.chars().count());
        for r in &rows {
            for (w, c) in widths.iter_mut().zip(r) {
                *w = (*w).max(c.chars().count());
            }
        }
        let line = |cells: &[String; 5]| {
            let mut s = String::new();
            for (i, (c, w)) in cells.iter().zip(widths).enumerate() {
                s.push_str(&format!("{}{c:<w$}", if i == 0 { "" } else { "  " }));
            }
            s.trim_end().to_string()
        };
        let rule = widths.map(|w| "-".repeat(w)).join("  ");
        let mut all = vec![line(&headings), rule];
        all.extend(rows.iter().map(line));
        all.join("\n")
    }
    /// The graph in the DOT language, for Graphviz: a box per node, an arrow per use.
    pub fn dot(&self) -> String {
        let quoted = |s: &str| s.replace('\\', "\\\\").replace('"', "\\\"");
        let mut out =
            String::from("digraph G {\n    rankdir=TB;\n    node [shape=box, fontname=monospace];\n");
        for n in self.nodes() {
            let d = self.node(n);
            let label = format!("{}\\n{} {}", quoted(&d.name), d.op.name(), quoted(&d.target));
            out.push_str(&format!("    \"{}\" [label=\"{label}\"];\n", quoted(&d.name)));
            for a in d.input_nodes() {
                out.push_str(&format!("    \"{}\" -> \"{}\";\n", quoted(&self.shown(a)), quoted(&d.name)));
            }
        }
        out.push_str("}\n");
        out
    }
}
/// A function's name where graphs are printed.
fn printed_target(t: &str) -> String {
    match t.strip_prefix("_operator.") {
        Some(rest) => format!("operator.{rest}"),
        None if !t.contains('.') => format!("builtins.{t}"),
        None => t.to_string(),
    }
}
/// What Python's `repr` says of a function.
fn described_target(t: &str) -> String {
    if let Some(op) = t.strip_prefix("torch.ops.") {
        return op.to_string();
    }
    let Some((module, name)) = t.rsplit_once('.') else { return format!("<built-in function {t}>") };
    match module {
        "operator" | "_operator" | "math" => format!("<built-in function {name}>"),
        // PyTorch makes one function of two, which has a name of its own
        "torch.nn.functional" if crate::python::is_dispatched_by_flag(name) => {
            "<function boolean_dispatch.<locals>.fn>".into()
        }
        "torch"
            if matches!(name, "_assert" | "sym_not" | "sym_max" | "sym_min" | "sym_float" | "sym_int") =>
        {
            format!("<function {name}>")
        }
        "torch" => format!("<built-in method {name} of type object>"),
        m if m.starts_with("torch._C") => format!("<built-in function {name}>"),
        _ => format!("<function {name}>"),
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("graph():")?;
        for n in self.nodes() {
            write!(f, "\n    {}", self.format_node(n))?;
        }
        Ok(())
    }
}
