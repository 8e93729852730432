//! Stretches of a program that PyTorch wrote down between the beginning and the end of a vmap, as calls of graphs.
//!
//! Such programs open a level, hide dimensions of tensors, call operators, and show the dimensions again. A run needs the stretch
//! as a function of slices.

use flambeau_core::{Error, Result, Value};
use flambeau_fx::{Argument, Graph, GraphModule, Node, NodeData, Op};
use std::collections::HashMap;

/// The call of a graph for all slices: graph, place of the hidden dimension for each input, inputs, places in the results, word
/// for random numbers.
pub(crate) const VMAP: &str = "vmap";
const FRONT: &str = "torch._functorch.predispatch.";

/// What PyTorch calls a step of a vmap, without the front of its name.
fn step(d: &NodeData) -> Option<&str> {
    if d.op == Op::CallFunction { d.target.strip_prefix(FRONT) } else { None }
}
/// Whether a node is a step of a vmap.
pub(crate) fn is_step(d: &NodeData) -> bool {
    step(d).is_some()
}
fn integer(d: &NodeData, at: usize) -> Result<i64> {
    match d.args().get(at).and_then(Argument::value) {
        Some(Value::Int(i)) => Ok(*i),
        _ => Err(Error::serialization(format!("node '{}': argument {at} is no integer", d.name))),
    }
}

/// The program with each stretch as a call; none where there is no such stretch.
///
/// # Errors
/// Stretches that do not end, tensors that are not shown again.
pub(crate) fn folded(m: &GraphModule) -> Result<Option<GraphModule>> {
    let g = &m.graph;
    if !g.nodes().any(|n| step(g.node(n)).is_some()) {
        return Ok(None);
    }
    let (mut out, mut map) = (Graph::new(), HashMap::<Node, Argument>::new());
    let mut graphs = Vec::new();
    let mut nodes = g.nodes();
    while let Some(n) = nodes.next() {
        let d = g.node(n);
        match step(d) {
            Some("lazy_load_decompositions") => {}
            Some("_vmap_increment_nesting") => {
                let (mut inside, mut open) = (Vec::new(), 1);
                for k in nodes.by_ref() {
                    match step(g.node(k)) {
                        Some("_vmap_increment_nesting") => open += 1,
                        Some("_vmap_decrement_nesting") => open -= 1,
                        _ => {}
                    }
                    if open == 0 {
                        break;
                    }
                    inside.push(k);
                }
                if open > 0 {
                    return Err(Error::serialization(format!("node '{}': a vmap that does not end", d.name)));
                }
                let random = match d.args().get(1).and_then(Argument::value) {
                    Some(Value::Str(s)) => s.clone(),
                    _ => "error".to_string(),
                };
                let child = Stretch::of(g, &inside)?;
                let path = format!("vmap_{}", graphs.len());
                child.called(&path, random, &mut out, &mut map)?;
                let mut body = GraphModule::new(child.graph);
                for (path, v) in m.attributes() {
                    body.set_value(path, v.clone());
                }
                graphs.push((path, folded(&body)?.unwrap_or(body)));
            }
            Some(other) => {
                return Err(Error::serialization(format!(
                    "node '{}': {FRONT}{other} outside of a vmap",
                    d.name
                )));
            }
            None => {
                let all = d.input_nodes();
                if let Some(k) = all.iter().find(|k| !map.contains_key(k)) {
                    return Err(Error::serialization(format!(
                        "node '{}' uses '{}', of which a vmap hides a dimension",
                        d.name,
                        if g.has(*k) { g.node(*k).name.as_str() } else { "?" }
                    )));
                }
                let new = out.node_copy(g, n, &mut |k| map.get(&k).cloned().unwrap_or(Argument::NONE));
                map.insert(n, new.into());
            }
        }
    }
    out.codegen = g.codegen.clone();
    let mut all = GraphModule::new(out);
    for (path, v) in m.attributes() {
        all.set_value(path, v.clone());
    }
    for (path, body) in graphs {
        all.set_graph(&path, body);
    }
    Ok(Some(all))
}

/// What stands between the beginning and the end of a vmap.
struct Stretch {
    graph: Graph,
    /// Nodes outside, with the place of the dimension that is hidden.
    inputs: Vec<(Argument, Option<i64>)>,
    /// Nodes outside that the results are, with the place of the dimension.
    outputs: Vec<(Node, i64)>,
}
impl Stretch {
    fn of(g: &Graph, inside: &[Node]) -> Result<Stretch> {
        let mut s = Stretch { graph: Graph::new(), inputs: Vec::new(), outputs: Vec::new() };
        let (mut map, mut results) = (HashMap::<Node, Node>::new(), Vec::new());
        let mut inner = 0;
        for n in inside {
            let d = g.node(*n);
            let own = inner == 0;
            match step(d) {
                Some("_vmap_increment_nesting") => inner += 1,
                Some("_vmap_decrement_nesting") => inner -= 1,
                Some("_add_batch_dim") if own => {
                    let Some(x) = d.args().first() else {
                        return Err(Error::serialization(format!("node '{}' without arguments", d.name)));
                    };
                    let new = s.graph.placeholder(&d.name);
                    s.inputs.push((x.clone(), Some(integer(d, 1)?)));
                    map.insert(*n, new);
                    continue;
                }
                Some("_remove_batch_dim") if own => {
                    let Some(x) = d.args().first().and_then(Argument::node).and_then(|x| map.get(&x)) else {
                        return Err(Error::serialization(format!(
                            "node '{}' shows a dimension of what is not in its vmap",
                            d.name
                        )));
                    };
                    results.push(Argument::Node(*x));
                    s.outputs.push((*n, integer(d, 3)?));
                    continue;
                }
                _ => {}
            }
            for k in d.input_nodes() {
                map.entry(k).or_insert_with(|| {
                    // the same for all slices
                    let name = if g.has(k) { g.node(k).name.as_str() } else { "outside" };
                    s.inputs.push((Argument::Node(k), None));
                    s.graph.placeholder(name)
                });
            }
            let new = s.graph.node_copy(g, *n, &mut |k| map.get(&k).map_or(Argument::NONE, |k| (*k).into()));
            map.insert(*n, new);
        }
        // inputs that come late stand before the first step all the same, in order
        let inputs: Vec<Node> = s.graph.find_nodes(Op::Placeholder, None);
        let first = s.graph.nodes().find(|n| s.graph.node(*n).op != Op::Placeholder);
        if let Some(first) = first {
            inputs.into_iter().for_each(|n| s.graph.move_before(n, first));
        }
        s.graph.output(Argument::Tuple(results));
        Ok(s)
    }
    /// Adds the call of the stretch, and its results.
    fn called(
        &self,
        path: &str,
        random: String,
        out: &mut Graph,
        map: &mut HashMap<Node, Argument>,
    ) -> Result<()> {
        let mut missing = false;
        let mut known = |k: Node| {
            let found = map.get(&k).cloned();
            missing |= found.is_none();
            found.unwrap_or(Argument::NONE)
        };
        let inputs: Vec<Argument> = self.inputs.iter().map(|(a, _)| a.map(&mut known)).collect();
        if missing {
            return Err(Error::serialization("a vmap over what another vmap hides"));
        }
        let places = self.inputs.iter().map(|(_, d)| d.map_or(Argument::NONE, Argument::from)).collect();
        let outs = self.outputs.iter().map(|(_, d)| Argument::from(*d)).collect();
        let body = out.get_attr(path);
        let args = [
            body.into(),
            Argument::List(places),
            Argument::List(inputs),
            Argument::List(outs),
            Argument::from(random),
        ];
        let call = out.call_function(&format!("torch.ops.higher_order.{VMAP}"), args, []);
        for (i, (n, _)) in self.outputs.iter().enumerate() {
            let part = out.call_function("operator.getitem", [call.into(), Argument::from(i as i64)], []);
            map.insert(*n, part.into());
        }
        Ok(())
    }
}
