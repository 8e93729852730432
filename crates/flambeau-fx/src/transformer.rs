//! Graphs from graphs, node by node.

use crate::argument::Argument;
use crate::graph::Graph;
use crate::module::GraphModule;
use crate::node::{Node, NodeData, Op};
use std::collections::HashMap;

/// Makes a graph of another: each method adds what stands for a node, by default the same step.
///
/// ```
/// use torch::fx::{Argument, Graph, GraphModule, Transformer};
/// /// `relu` becomes `tanh`.
/// struct Smooth;
/// impl Transformer for Smooth {
///     fn call_function(
///         &mut self,
///         g: &mut Graph,
///         target: &str,
///         args: Vec<Argument>,
///         _: Vec<(String, Argument)>,
///     ) -> Argument {
///         let target = if target == "torch.relu" { "torch.tanh" } else { target };
///         g.call_function(target, args, []).into()
///     }
/// }
/// let mut g = Graph::new();
/// let x = g.placeholder("x");
/// let relu = g.call_function("torch.relu", [x], []);
/// g.output(relu);
/// let smooth = Smooth.transform(&GraphModule::new(g));
/// assert_eq!(smooth.try_forward(&[&torch::tensor([100.0])])?.item::<f32>(), 1.0);
/// # Ok::<(), torch::Error>(())
/// ```
pub trait Transformer {
    /// An input.
    fn placeholder(&mut self, g: &mut Graph, node: &NodeData) -> Argument {
        let n = g.create_node(Op::Placeholder, &node.target, node.args().to_vec(), Vec::new(), None);
        g.set_type(n, node.type_name.as_deref());
        n.into()
    }
    /// What stands at a path.
    fn get_attr(&mut self, g: &mut Graph, node: &NodeData) -> Argument {
        g.get_attr(&node.target).into()
    }
    /// A call of a function.
    fn call_function(
        &mut self,
        g: &mut Graph,
        target: &str,
        args: Vec<Argument>,
        kwargs: Vec<(String, Argument)>,
    ) -> Argument {
        g.create_node(Op::CallFunction, target, args, kwargs, None).into()
    }
    /// A call of a method.
    fn call_method(
        &mut self,
        g: &mut Graph,
        name: &str,
        args: Vec<Argument>,
        kwargs: Vec<(String, Argument)>,
    ) -> Argument {
        g.create_node(Op::CallMethod, name, args, kwargs, None).into()
    }
    /// A call of a module.
    fn call_module(
        &mut self,
        g: &mut Graph,
        path: &str,
        args: Vec<Argument>,
        kwargs: Vec<(String, Argument)>,
    ) -> Argument {
        g.create_node(Op::CallModule, path, args, kwargs, None).into()
    }
    /// The new graph, with the modules of the old one.
    ///
    /// # Panics
    /// If the old graph uses nodes before they are there.
    fn transform(&mut self, m: &GraphModule) -> GraphModule {
        let old = &m.graph;
        let mut g = Graph::new();
        g.codegen = old.codegen.clone();
        let mut env: HashMap<Node, Argument> = HashMap::new();
        for n in old.nodes() {
            let d = old.node(n);
            let mut known = |n: Node| env.get(&n).cloned().expect("a node before its use");
            let args: Vec<Argument> = d.args().iter().map(|a| a.map(&mut known)).collect();
            let kwargs: Vec<_> = d.kwargs().iter().map(|(k, a)| (k.clone(), a.map(&mut known))).collect();
            let new = match d.op {
                Op::Placeholder => self.placeholder(&mut g, d),
                Op::GetAttr => self.get_attr(&mut g, d),
                Op::CallFunction => self.call_function(&mut g, &d.target, args, kwargs),
                Op::CallMethod => self.call_method(&mut g, &d.target, args, kwargs),
                Op::CallModule => self.call_module(&mut g, &d.target, args, kwargs),
                Op::Output => {
                    let n = g.output(args.into_iter().next().unwrap_or(Argument::NONE));
                    g.set_type(n, d.type_name.as_deref());
                    n.into()
                }
            };
            if let Argument::Node(new) = &new {
                *g.meta_mut(*new) = d.meta.clone();
            }
            env.insert(n, new);
        }
        let mut out = GraphModule::new(g).named(m.class());
        for (p, v) in m.attributes() {
            out.set_value(p, v.clone());
        }
        out
    }
}
