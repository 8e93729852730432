//! Nodes.

use crate::argument::Argument;
use crate::meta::Meta;
use std::fmt;

/// A node of a graph: a name for it, which stays the same whatever becomes of the graph. What it says stands in
/// [`NodeData`], which the graph gives.
///
/// ```
/// use torch::fx::{Graph, Node, NodeData, Op};
/// let mut g = Graph::new();
/// let x: Node = g.placeholder("x");
/// let relu = g.call_function("torch.relu", [x], []);
/// let said: &NodeData = g.node(relu);
/// assert_eq!((said.op, said.target.as_str(), said.op.name()), (Op::CallFunction, "torch.relu", "call_function"));
/// assert_eq!(g.node(x).users(), [relu]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    pub(crate) graph: u32,
    pub(crate) index: u32,
}
impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({}, {})", self.graph, self.index)
    }
}

/// What kind of step a node is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// An input; its target is the parameter's name, an argument the default.
    Placeholder,
    /// A tensor or another thing at a dotted path of the module.
    GetAttr,
    /// A call of a function by its name.
    CallFunction,
    /// A call of a method of the first argument.
    CallMethod,
    /// A call of the module at a dotted path.
    CallModule,
    /// What the graph gives: the one argument.
    Output,
}
impl Op {
    /// The name that PyTorch prints.
    pub fn name(self) -> &'static str {
        match self {
            Op::Placeholder => "placeholder",
            Op::GetAttr => "get_attr",
            Op::CallFunction => "call_function",
            Op::CallMethod => "call_method",
            Op::CallModule => "call_module",
            Op::Output => "output",
        }
    }
    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Op> {
        Some(match name {
            "placeholder" => Op::Placeholder,
            "get_attr" => Op::GetAttr,
            "call_function" => Op::CallFunction,
            "call_method" => Op::CallMethod,
            "call_module" => Op::CallModule,
            "output" => Op::Output,
            _ => return None,
        })
    }
}

/// What a node says.
#[derive(Clone, Debug)]
pub struct NodeData {
    /// What kind of step it is.
    pub op: Op,
    /// Its name in the graph, unique.
    pub name: String,
    /// What it calls or reads.
    pub target: String,
    /// The type that Python's program annotated: `torch.Tensor`, `int`.
    pub type_name: Option<String>,
    /// What is known beside the program.
    pub meta: Meta,
    pub(crate) args: Vec<Argument>,
    pub(crate) kwargs: Vec<(String, Argument)>,
    pub(crate) users: Vec<Node>,
    pub(crate) prev: Option<u32>,
    pub(crate) next: Option<u32>,
}
impl NodeData {
    /// Positional arguments.
    pub fn args(&self) -> &[Argument] {
        &self.args
    }
    /// Keyword arguments, in order.
    pub fn kwargs(&self) -> &[(String, Argument)] {
        &self.kwargs
    }
    /// The nodes that use its result.
    pub fn users(&self) -> &[Node] {
        &self.users
    }
    /// The nodes whose results it uses, each once, in order.
    pub fn input_nodes(&self) -> Vec<Node> {
        let mut all = Vec::new();
        let mut add = |n: Node| {
            if !all.contains(&n) {
                all.push(n);
            }
        };
        self.args.iter().for_each(|a| a.each(&mut add));
        self.kwargs.iter().for_each(|(_, a)| a.each(&mut add));
        all
    }
}
