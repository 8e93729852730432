//! Graphs as Python programs.

use crate::argument::Argument;
use crate::graph::Graph;
use crate::meta::Val;
use crate::node::{Node, NodeData, Op};
use crate::print::repr;
use crate::pytree::{Kind, TreeSpec};
use flambeau_core::Value;
use std::collections::HashMap;

/// How the program's text begins and ends.
///
/// ```
/// use torch::fx::{CodeGen, Graph};
/// let g = Graph::new();
/// assert!(matches!(g.codegen, CodeGen::Plain));
/// ```
#[derive(Clone, Debug, Default)]
pub enum CodeGen {
    /// `def forward(self, x):`, with one parameter for each input.
    #[default]
    Plain,
    /// The parameters are trees of which the graph takes the leaves, and so is the result.
    Trees {
        /// Names of the parameters.
        names: Vec<String>,
        /// How arguments become leaves.
        inputs: TreeSpec,
        /// How leaves become the result, where that is a tree.
        output: Option<TreeSpec>,
    },
}
/// What the text shows.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CodeOptions {
    /// Sizes and element types, and where each step comes from.
    pub verbose: bool,
}
impl CodeOptions {
    /// The plain text.
    pub fn new() -> CodeOptions {
        CodeOptions::default()
    }
    /// Sizes and element types, and where each step comes from.
    pub fn verbose(mut self, on: bool) -> CodeOptions {
        self.verbose = on;
        self
    }
}

/// Python's operators: how a call of one is written.
pub(crate) fn infix(name: &str) -> Option<&'static str> {
    Some(match name {
        "add" => "+",
        "sub" => "-",
        "mul" => "*",
        "floordiv" => "//",
        "truediv" | "div" => "/",
        "mod" => "%",
        "pow" => "**",
        "lshift" => "<<",
        "rshift" => ">>",
        "and_" => "&",
        "or_" => "|",
        "xor" => "^",
        "matmul" => "@",
        "eq" => "==",
        "ne" => "!=",
        "lt" => "<",
        "gt" => ">",
        "le" => "<=",
        "ge" => ">=",
        _ => return None,
    })
}
fn is_identifier(s: &str) -> bool {
    !s.is_empty()
        && !s.starts_with(|c: char| c.is_ascii_digit())
        && s.chars().all(|c| c.is_alphanumeric() || c == '_')
}
/// `self.block`, or `getattr(self.block, "0")` where a part is no identifier.
fn path(base: &str, target: &str) -> String {
    target.split('.').fold(base.to_string(), |r, e| {
        if is_identifier(e) { format!("{r}.{e}") } else { format!("getattr({r}, \"{e}\")") }
    })
}
/// The name by which a program calls a function.
fn function_name(t: &str) -> String {
    if t.starts_with("torch.") || !t.contains('.') {
        return t.to_string();
    }
    let t = match t.strip_prefix("operator.") {
        Some(rest) => format!("_operator.{rest}"),
        None => t.to_string(),
    };
    t.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "_")
}
/// The innermost place of a trace, as comments show it.
fn place(trace: &str) -> Option<String> {
    let lines: Vec<&str> = trace.trim().split('\n').collect();
    for i in (0..lines.len().saturating_sub(1)).rev() {
        let Some(rest) = lines[i].trim().strip_prefix("File \"") else { continue };
        let Some((file, rest)) = rest.rsplit_once("\", line ") else { continue };
        let Some((line, name)) = rest.split_once(", in ") else { continue };
        return Some(format!("File: {file}:{line} in {name}, code: {}", lines[i + 1].trim()));
    }
    None
}

impl Graph {
    fn arguments(&self, args: &[Argument], kwargs: &[(String, Argument)]) -> String {
        let mut all: Vec<String> = args.iter().map(|a| self.python(a)).collect();
        all.extend(kwargs.iter().map(|(k, a)| format!("{k} = {}", self.python(a))));
        all.join(", ")
    }
    fn call_text(&self, d: &NodeData, annotation: &str) -> String {
        let head = format!("{}{annotation} = ", d.name);
        let args = d.args();
        let arg = |i: usize| args.get(i).map(|a| self.python(a)).unwrap_or_default();
        match d.op {
            Op::CallMethod => {
                format!(
                    "{head}{}({})",
                    path(&arg(0), &d.target),
                    self.arguments(args.get(1..).unwrap_or(&[]), d.kwargs())
                )
            }
            Op::CallModule => {
                format!("{head}{}({})", path("self", &d.target), self.arguments(args, d.kwargs()))
            }
            Op::GetAttr => format!("{head}{}", path("self", &d.target)),
            _ => {
                let operator =
                    d.target.strip_prefix("operator.").or_else(|| d.target.strip_prefix("_operator."));
                if let Some(name) = operator {
                    match name {
                        "getitem" => return format!("{head}{}[{}]", arg(0), arg(1)),
                        "pos" => return format!("{head}+{}", arg(0)),
                        "neg" => return format!("{head}-{}", arg(0)),
                        "invert" => return format!("{head}~{}", arg(0)),
                        "setitem" => {
                            return format!("{}[{}] = {};  {head}{}", arg(0), arg(1), arg(2), arg(0));
                        }
                        _ => {}
                    }
                    if let Some(sign) = infix(name) {
                        return format!("{head}{} {sign} {}", arg(0), arg(1));
                    }
                    let inplace =
                        name.strip_prefix('i').and_then(|n| infix(n).or_else(|| infix(&format!("{n}_"))));
                    if let Some(sign) = inplace {
                        return format!("{} {sign}= {};  {head}{}", arg(0), arg(1), arg(0));
                    }
                }
                if d.target == "getattr"
                    && let [_, Argument::Value(Value::Str(name))] = args
                    && is_identifier(name)
                {
                    return format!("{head}{}.{name}", arg(0));
                }
                format!("{head}{}({})", function_name(&d.target), self.arguments(args, d.kwargs()))
            }
        }
    }
    /// The Python program that does what the graph does: PyTorch's `GraphModule.code`.
    pub fn python_code(&self, o: &CodeOptions) -> String {
        let nodes: Vec<Node> = self.nodes().collect();
        // the last user of each node frees it
        let mut freed: HashMap<Node, Vec<Node>> = HashMap::new();
        let mut seen = std::collections::HashSet::new();
        for user in nodes.iter().rev() {
            for n in self.node(*user).input_nodes() {
                if seen.insert(n) {
                    freed.entry(*user).or_default().push(n);
                }
            }
        }
        let (mut free_vars, mut body, mut returned) = (Vec::new(), String::new(), String::new());
        let mut wrapped: Vec<String> = Vec::new();
        let mut last_place: Option<String> = None;
        for n in &nodes {
            let d = self.node(*n);
            if o.verbose && !matches!(d.op, Op::Placeholder | Op::Output) {
                let found = d.meta.stack_trace.as_deref().and_then(place);
                let note = format!(
                    "\n#{} {}\n",
                    annotation(&d.meta.custom),
                    found.as_deref().unwrap_or("No stacktrace found for following nodes")
                );
                if last_place.as_ref() != Some(&note) {
                    body.push_str(&note);
                    last_place = Some(note);
                }
            }
            let mut annotation = d.type_name.as_ref().map(|t| format!(" : {t}")).unwrap_or_default();
            if o.verbose {
                match d.meta.val.as_ref().or(d.meta.tensor_meta.as_ref()) {
                    Some(Val::Tensor(t)) => annotation = format!(": \"{}\"", t.annotation()),
                    Some(Val::Sym(s)) => annotation = format!(": \"Sym({s})\""),
                    _ => {}
                }
            }
            match d.op {
                Op::Placeholder => {
                    let default =
                        d.args().first().map(|a| format!(" = {}", self.python(a))).unwrap_or_default();
                    free_vars.push(format!("{}{annotation}{default}", d.target));
                    let raw = d.target.replace('*', "");
                    if raw != d.name {
                        body.push_str(&format!("{} = {raw}\n", d.name));
                    }
                }
                Op::Output => {
                    if let Some(t) = &d.type_name {
                        returned = format!(" -> {t}");
                    }
                    let result = d.args().first().map(|a| self.python(a)).unwrap_or_default();
                    match &self.codegen {
                        CodeGen::Trees { output: Some(_), .. } => {
                            body.push_str(&format!(
                                "return pytree.tree_unflatten({result}, self._out_spec)\n"
                            ));
                        }
                        _ => body.push_str(&format!("return {result}\n")),
                    }
                }
                _ => {
                    body.push_str(&self.call_text(d, &annotation));
                    if d.meta.is_wrapped {
                        let name = function_name(&d.target);
                        if !wrapped.contains(&name) {
                            wrapped.push(name);
                        }
                    }
                    let mut gone: Vec<std::borrow::Cow<'_, str>> =
                        freed.get(n).into_iter().flatten().map(|n| self.shown(*n)).collect();
                    if d.users().is_empty() {
                        gone.push(d.name.as_str().into());
                    }
                    if !gone.is_empty() {
                        body.push_str(&format!(";  {} = None", gone.join(" = ")));
                    }
                    body.push('\n');
                }
            }
        }
        if nodes.is_empty() {
            body.push_str("pass\n");
        }
        let wraps: Vec<String> =
            wrapped.iter().map(|w| format!("torch.fx._symbolic_trace.wrap({})", double_quoted(w))).collect();
        let head = self.head(free_vars, &returned);
        let body = body.trim_start_matches('\n');
        let lines: Vec<String> = body.split('\n').map(|l| format!("    {l}")).collect();
        format!("\n{}\n\n{head}\n{}", wraps.join("\n"), lines.join("\n"))
    }
    fn head(&self, mut free_vars: Vec<String>, returned: &str) -> String {
        let define = |mut names: Vec<String>| {
            if names.first().map(String::as_str) != Some("self") {
                names.insert(0, "self".into());
            }
            format!("def forward({}){returned}:", names.join(", "))
        };
        let CodeGen::Trees { names, inputs, .. } = &self.codegen else { return define(free_vars) };
        if names.first().map(String::as_str) == Some("self") {
            free_vars.insert(0, "self".into());
        }
        let mut head = define(names.clone());
        if free_vars.is_empty() {
            return head;
        }
        let pair = match (&inputs.kind, &inputs.children[..]) {
            (Kind::Tuple, [args, kwargs]) => match (&args.kind, &kwargs.kind) {
                (Kind::Tuple, Kind::Dict(keys)) => Some((args.children.len(), keys)),
                _ => None,
            },
            _ => None,
        };
        let signature = match pair {
            Some((n, keys)) => {
                let n = n.min(names.len());
                let kwargs: Vec<String> =
                    keys.iter().zip(&names[n..]).map(|(k, v)| format!("'{k}':{v}")).collect();
                format!("([{}], {{{}}}), self._in_spec", names[..n].join(", "), kwargs.join(", "))
            }
            None => format!("[{}], self._in_spec", names.join(", ")),
        };
        let noted: Vec<&str> = free_vars.iter().filter(|v| v.contains(':')).map(String::as_str).collect();
        if !noted.is_empty() {
            head.push_str(&format!("\n    {};\n", noted.join("; ")));
        }
        let plain: Vec<&str> = free_vars.iter().map(|v| v.split([':', '#']).next().unwrap_or(v)).collect();
        head.push_str(&format!("\n    {}, = fx_pytree.tree_flatten_spec({signature})", plain.join(", ")));
        head
    }
}
/// Annotations as a note shows them: long ones end early.
fn annotation(all: &[(String, Value)]) -> String {
    const LONGEST: usize = 40;
    if all.is_empty() {
        return String::new();
    }
    let short = |v: &Value| {
        let text = match v {
            Value::Str(s) => s.clone(),
            v => repr(v),
        };
        match text.char_indices().nth(LONGEST) {
            Some((end, _)) => Value::Str(format!("{}...", &text[..end])),
            None => v.clone(),
        }
    };
    let all = all.iter().map(|(k, v)| (k.clone(), short(v))).collect();
    format!(" Annotation: {}", repr(&Value::Dict(all)))
}
fn double_quoted(s: &str) -> String {
    let r = repr(&Value::Str(s.into()));
    format!("\"{}\"", r.trim_matches('\''))
}
