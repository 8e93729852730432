//! Changes of graphs.

mod constants;
mod fuse;
mod matcher;
mod split;

pub use constants::{eliminate_common, fold_constants};
pub use fuse::fuse_conv_bn;
pub use matcher::{Match, Replaced, SubgraphMatcher, replace_pattern, replace_pattern_where};
pub use split::split_module;

use crate::module::GraphModule;
use crate::node::{NodeData, Op};

/// Takes out nodes whose results nobody uses and that do nothing else; says whether there were any.
///
/// Graphs that are called as modules are kept where they do something else themselves.
///
/// ```
/// use torch::fx::passes::eliminate_dead_code;
/// use torch::fx::{Graph, GraphModule};
/// let mut g = Graph::new();
/// let x = g.placeholder("x");
/// g.call_function("torch.exp", [x], []);
/// g.output(x);
/// let mut m = GraphModule::new(g);
/// assert!(eliminate_dead_code(&mut m));
/// assert_eq!(m.graph.len(), 2);
/// ```
pub fn eliminate_dead_code(m: &mut GraphModule) -> bool {
    let mut g = std::mem::take(&mut m.graph);
    let impure = |d: &NodeData| {
        let inner = (d.op == Op::CallModule).then(|| m.submodule(&d.target).ok()).flatten();
        inner.and_then(|o| o.downcast::<GraphModule>().map(has_effects)).unwrap_or(false)
    };
    let changed = g.eliminate_dead_code(&impure);
    m.graph = g;
    changed
}
fn has_effects(m: &GraphModule) -> bool {
    m.graph.nodes().any(|n| m.graph.node(n).op == Op::CallFunction && m.graph.is_impure(n))
}

/// Writes calls of operators of tensors as Python's operators (`torch.add(x, y)` as `x + y`), and notes that modules and
/// attributes give tensors: PyTorch's `NormalizeOperators`.
///
/// ```
/// use torch::fx::passes::normalize_operators;
/// use torch::fx::{Graph, GraphModule};
/// let mut g = Graph::new();
/// let (x, y) = (g.placeholder("x"), g.placeholder("y"));
/// let sum = g.call_function("torch.add", [x, y], []);
/// g.output(sum);
/// let mut m = GraphModule::new(g);
/// normalize_operators(&mut m);
/// assert!(m.code().contains("x + y"));
/// ```
pub fn normalize_operators(m: &mut GraphModule) {
    let g = &mut m.graph;
    let all: Vec<_> = g.nodes().collect();
    for n in all {
        let d = g.node(n);
        match d.op {
            Op::CallModule | Op::GetAttr if d.type_name.is_none() => g.set_type(n, Some("torch.Tensor")),
            Op::CallFunction if d.kwargs().is_empty() => {
                let short = d.target.strip_prefix("torch.").unwrap_or("");
                let name = match (short, d.args().len()) {
                    ("add" | "mul" | "sub" | "eq" | "ne" | "lt" | "le" | "gt" | "ge", 2) => short,
                    ("div", 2) => "truediv",
                    ("floor_divide", 2) => "floordiv",
                    ("remainder", 2) => "mod",
                    _ => continue,
                };
                let target = format!("operator.{name}");
                g.set_target(n, &target);
            }
            _ => {}
        }
    }
}
