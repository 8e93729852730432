//! Parts of a graph as graphs of their own.

use crate::argument::Argument;
use crate::graph::Graph;
use crate::module::GraphModule;
use crate::node::{Node, NodeData, Op};
use flambeau_core::{Error, Result};
use std::collections::HashMap;

#[derive(Default)]
struct Part {
    nodes: Vec<Node>,
    /// What it takes, in the order of first use.
    inputs: Vec<Node>,
    /// What others take of it.
    outputs: Vec<Node>,
    needs: Vec<i64>,
}

/// A graph of calls of parts: `part` says for each node in which part it belongs. The parts are children `submod_0`, `submod_1`, ...,
/// called in an order in which each has what it takes.
///
/// ```
/// use torch::Tensor;
/// use torch::fx::{self, Op, passes};
/// let x = torch::tensor([-1.0, 2.0]);
/// let m = fx::make_fx(|x: &[Tensor]| x[0].relu() + 1.0)(&[&x]);
/// let parts = passes::split_module(&m, &|node| i64::from(node.name == "add"))?;
/// assert_eq!(parts.graph.find_nodes(Op::CallModule, None).len(), 2);
/// assert_eq!(parts.try_forward(&[&x])?.to_vec::<f32>(), [1.0, 3.0]);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Parts that need each other.
pub fn split_module(m: &GraphModule, part: &dyn Fn(&NodeData) -> i64) -> Result<GraphModule> {
    let g = &m.graph;
    let mut order: Vec<i64> = Vec::new();
    let mut parts: HashMap<i64, Part> = HashMap::new();
    let mut place: HashMap<Node, i64> = HashMap::new();
    for n in g.nodes() {
        let d = g.node(n);
        let own = match d.op {
            Op::Placeholder | Op::GetAttr => None,
            Op::Output => None,
            _ => Some(part(d)),
        };
        if let Some(p) = own {
            if !parts.contains_key(&p) {
                order.push(p);
            }
            place.insert(n, p);
            parts.entry(p).or_default().nodes.push(n);
        } else if d.op != Op::Output {
            continue;
        }
        for i in d.input_nodes() {
            let from = place.get(&i).copied();
            if from == own && own.is_some() {
                continue;
            }
            if let Some(f) = from {
                let f_part = parts.entry(f).or_default();
                if !f_part.outputs.contains(&i) {
                    f_part.outputs.push(i);
                }
            }
            if let Some(p) = own {
                let mine = parts.entry(p).or_default();
                if !mine.inputs.contains(&i) {
                    mine.inputs.push(i);
                }
                if let Some(f) = from
                    && !mine.needs.contains(&f)
                {
                    mine.needs.push(f);
                }
            }
        }
    }
    let mut sorted: Vec<i64> = Vec::new();
    while sorted.len() < order.len() {
        let ready = order
            .iter()
            .find(|p| !sorted.contains(p) && parts[*p].needs.iter().all(|n| sorted.contains(n)))
            .copied();
        match ready {
            Some(p) => sorted.push(p),
            None => return Err(Error::runtime("cycle exists between partitions!")),
        }
    }
    let mut base = Graph::new();
    base.codegen = g.codegen.clone();
    let mut env: HashMap<Node, Node> = HashMap::new();
    for n in g.nodes() {
        let d = g.node(n);
        if matches!(d.op, Op::Placeholder | Op::GetAttr) {
            let new = base.create_node(d.op, &d.target, d.args().to_vec(), Vec::new(), None);
            base.set_type(new, d.type_name.as_deref());
            *base.meta_mut(new) = d.meta.clone();
            env.insert(n, new);
        }
    }
    let mut children = Vec::new();
    for p in sorted {
        let all = &parts[&p];
        let mut inner = Graph::new();
        let mut own: HashMap<Node, Node> = HashMap::new();
        for i in &all.inputs {
            let n = inner.placeholder(&g.node(*i).name);
            inner.set_type(n, g.node(*i).type_name.as_deref());
            *inner.meta_mut(n) = g.node(*i).meta.clone();
            own.insert(*i, n);
        }
        let mut paths = Vec::new();
        for n in &all.nodes {
            let d = g.node(*n);
            let mut known = |n: Node| Argument::Node(own[&n]);
            let args = d.args().iter().map(|a| a.map(&mut known)).collect();
            let kwargs = d.kwargs().iter().map(|(k, a)| (k.clone(), a.map(&mut known))).collect();
            let new = inner.create_node(d.op, &d.target, args, kwargs, None);
            inner.set_type(new, d.type_name.as_deref());
            *inner.meta_mut(new) = d.meta.clone();
            own.insert(*n, new);
            if d.op == Op::CallModule {
                paths.push(d.target.clone());
            }
        }
        let results: Vec<Argument> = all.outputs.iter().map(|n| Argument::Node(own[n])).collect();
        inner.output(if results.len() == 1 { results[0].clone() } else { Argument::Tuple(results) });
        let mut child = GraphModule::new(inner);
        for path in paths {
            // modules within modules keep their own paths
            child.set_module(&path, m.submodule(&path)?);
        }
        let name = format!("submod_{p}");
        let inputs: Vec<Argument> = all.inputs.iter().map(|n| Argument::Node(env[n])).collect();
        let call = base.call_module(&name, inputs, []);
        for (i, n) in all.outputs.iter().enumerate() {
            let one = if all.outputs.len() == 1 {
                call
            } else {
                base.call_function("operator.getitem", [Argument::from(call), Argument::from(i as i64)], [])
            };
            env.insert(*n, one);
        }
        children.push((name, child));
    }
    if let Some(out) = g.output_node() {
        let result = g.node(out).args().first().map(|a| a.map(&mut |n| Argument::Node(env[&n])));
        let new = base.output(result.unwrap_or(Argument::NONE));
        base.set_type(new, g.node(out).type_name.as_deref());
    }
    let mut top = GraphModule::new(base);
    for (p, v) in m.attributes() {
        if top.graph.nodes().any(|n| top.graph.node(n).op == Op::GetAttr && top.graph.node(n).target == *p) {
            top.set_value(p, v.clone());
        }
    }
    for (name, child) in children {
        top.set_graph(&name, child);
    }
    Ok(top)
}
