//! PyTorch's text of modules.

use crate::module::traversal::{Own, shown_name};
use crate::module::{Module, depth};
use flambeau_core::Tensor;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::types::type_info::tensor_type_name;
use std::fmt;

fn indent(text: &str) -> String {
    text.replace('\n', "\n  ")
}

fn assemble(name: &str, extra: &str, children: &[String]) -> String {
    let extra: Vec<&str> = if extra.is_empty() { vec![] } else { extra.split('\n').collect() };
    let body = match (extra.as_slice(), children) {
        ([], []) => String::new(),
        ([one], []) => (*one).to_owned(),
        _ => {
            let lines: Vec<&str> = extra.iter().copied().chain(children.iter().map(String::as_str)).collect();
            format!("\n  {}\n", lines.join("\n  "))
        }
    };
    format!("{name}({body})")
}

/// The usual text: arguments, then children by name.
#[track_caller]
pub(crate) fn module(m: &dyn Module) -> String {
    let _level = expect(depth::enter());
    let children: Vec<String> =
        Own::of(m).modules.iter().map(|(name, c)| format!("({name}): {}", indent(&c.repr()))).collect();
    assemble(&shown_name(m), &m.extra_repr(), &children)
}

/// What the derive writes as `Display`.
pub fn display(m: &dyn Module, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(&m.repr())
}

/// The text of a list, with runs of equal children in one line.
#[track_caller]
pub(crate) fn list(m: &dyn Module) -> String {
    let _level = expect(depth::enter());
    let texts: Vec<String> = Own::of(m).modules.iter().map(|(_, c)| c.repr()).collect();
    let mut lines = Vec::new();
    let mut start = 0;
    while start < texts.len() {
        let n = texts[start..].iter().take_while(|t| **t == texts[start]).count();
        let line = if n == 1 {
            format!("({start}): {}", texts[start])
        } else {
            format!("({start}-{}): {n} x {}", start + n - 1, texts[start])
        };
        lines.push(indent(&line));
        start += n;
    }
    assemble(&shown_name(m), &m.extra_repr(), &lines)
}

/// A parameter's line in the text of a list or dict of parameters: they name its type in two ways.
pub(crate) fn parameter(t: &Tensor, container: &str) -> String {
    let size: Vec<String> = t.sizes().iter().map(i64::to_string).collect();
    let device = match t.device() {
        flambeau_core::Device::Cpu => String::new(),
        d => format!(" ({d})"),
    };
    let dtype = match container {
        "ParameterDict" => tensor_type_name(t.dtype()).map_or_else(|| t.dtype().to_string(), str::to_owned),
        _ => format!("torch.{}", t.dtype().name()),
    };
    format!("Parameter containing: [{dtype} of size {}{device}]", size.join("x"))
}
