//! What need not be computed at each call.

use crate::argument::Argument;
use crate::graph::Graph;
use crate::module::GraphModule;
use crate::node::{Node, Op};
use flambeau_core::{Result, Value};
use flambeau_library as library;
use std::collections::{HashMap, HashSet};

/// Where folded values stand.
const FOLDED: &str = "_FX_CONST_FOLDED_ATTRS";

/// A graph that reads what follows from its tensors alone, which a child graph, `const_subgraph_module`, has computed: PyTorch's
/// `split_const_subgraphs` with `run_folding`. What does more than compute, or draws random numbers, stays.
///
/// ```
/// use torch::fx::{Graph, GraphModule, Op, passes};
/// let mut g = Graph::new();
/// let (x, w) = (g.placeholder("x"), g.get_attr("w"));
/// let exp = g.call_function("torch.exp", [w], []);
/// let sum = g.call_function("operator.add", [x, exp], []);
/// g.output(sum);
/// let mut m = GraphModule::new(g);
/// m.set("w", torch::zeros([2]));
/// let folded = passes::fold_constants(&m)?;
/// assert!(folded.graph.find_nodes(Op::CallFunction, Some("torch.exp")).is_empty());
/// assert_eq!(folded.try_forward(&[&torch::ones([2])])?.to_vec::<f32>(), [2.0, 2.0]);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Those of the nodes that are computed.
pub fn fold_constants(m: &GraphModule) -> Result<GraphModule> {
    let g = &m.graph;
    let mut constant: HashSet<Node> = HashSet::new();
    for n in g.nodes() {
        let d = g.node(n);
        let is = match d.op {
            Op::Placeholder | Op::Output => false,
            Op::GetAttr => matches!(m.get(&d.target), Ok(Value::Tensor(_))),
            // calls of modules may depend on their state
            Op::CallModule => false,
            _ => {
                !g.is_impure(n)
                    && !d.input_nodes().is_empty()
                    && d.input_nodes().iter().all(|i| constant.contains(i))
            }
        };
        if is {
            constant.insert(n);
        }
    }
    // what others need of it; tensors themselves are no work
    let folded: Vec<Node> = g
        .nodes()
        .filter(|n| {
            constant.contains(n)
                && g.node(*n).op != Op::GetAttr
                && g.node(*n).users().iter().any(|u| !constant.contains(u))
        })
        .collect();
    if folded.is_empty() {
        return Ok(m.clone());
    }
    let mut needed: HashSet<Node> = folded.iter().copied().collect();
    for n in g.nodes().rev() {
        if needed.contains(&n) {
            needed.extend(g.node(n).input_nodes());
        }
    }
    let mut inner = Graph::new();
    let mut map: HashMap<Node, Node> = HashMap::new();
    for n in g.nodes().filter(|n| needed.contains(n)) {
        let d = g.node(n);
        let new = match d.op {
            Op::GetAttr => {
                let wish = format!("{}_1", d.name);
                inner.create_node(Op::GetAttr, &d.target, Vec::new(), Vec::new(), Some(&wish))
            }
            _ => {
                let mut known = |n: Node| Argument::Node(map[&n]);
                let args = d.args().iter().map(|a| a.map(&mut known)).collect();
                let kwargs = d.kwargs().iter().map(|(k, a)| (k.clone(), a.map(&mut known))).collect();
                inner.create_node(d.op, &d.target, args, kwargs, None)
            }
        };
        map.insert(n, new);
    }
    let single = folded.len() == 1;
    let results: Vec<Argument> = folded.iter().map(|n| Argument::Node(map[n])).collect();
    inner.output(if single { results[0].clone() } else { Argument::Tuple(results) });
    let mut child = GraphModule::new(inner);
    for (p, v) in m.attributes() {
        if child
            .graph
            .nodes()
            .any(|n| child.graph.node(n).op == Op::GetAttr && child.graph.node(n).target == *p)
        {
            child.set_value(p, v.clone());
        }
    }
    let detached = |v: &Value| match v {
        Value::Tensor(t) => {
            let plain = library::method(&Value::Tensor(t.clone()), "detach", &[], &[])?;
            library::method(&plain, "clone", &[], &[])
        }
        v => Ok(v.clone()),
    };
    let values = match &child.run(&[], &[])? {
        Value::Tuple(l) => Value::List(l.iter().map(detached).collect::<Result<_>>()?),
        v => detached(v)?,
    };

    let mut outer = Graph::new();
    outer.codegen = g.codegen.clone();
    let mut env: HashMap<Node, Argument> = HashMap::new();
    let mut folding = true;
    for n in g.nodes() {
        let d = g.node(n);
        if d.op != Op::Placeholder && folding {
            folding = false;
            let all = outer.get_attr(FOLDED);
            for (i, f) in folded.iter().enumerate() {
                let one = if single {
                    all
                } else {
                    outer.call_function(
                        "operator.getitem",
                        [Argument::from(all), Argument::from(i as i64)],
                        [],
                    )
                };
                env.insert(*f, one.into());
            }
        }
        let kept = d.op == Op::GetAttr && d.users().iter().any(|u| !constant.contains(u));
        if constant.contains(&n) && !kept {
            continue;
        }
        let mut known = |n: Node| env.get(&n).cloned().unwrap_or(Argument::NONE);
        let args: Vec<Argument> = d.args().iter().map(|a| a.map(&mut known)).collect();
        let kwargs = d.kwargs().iter().map(|(k, a)| (k.clone(), a.map(&mut known))).collect();
        let new = outer.create_node(d.op, &d.target, args, kwargs, None);
        outer.set_type(new, d.type_name.as_deref());
        env.insert(n, new.into());
    }
    let mut out = GraphModule::new(outer).named("FoldedGraphModule");
    for (p, v) in m.attributes() {
        let inside = format!("{p}.");
        let used = out.graph.nodes().any(|n| {
            let d = out.graph.node(n);
            matches!(d.op, Op::GetAttr | Op::CallModule) && (d.target == *p || d.target.starts_with(&inside))
        });
        if used {
            out.set_value(p, v.clone());
        }
    }
    out.set_graph("const_subgraph_module", child);
    out.set_value(FOLDED, values);
    Ok(out)
}

/// Makes nodes that do the same with the same arguments one; says whether there were any. What draws random numbers, writes, or
/// calls a module stays.
///
/// ```
/// use torch::Tensor;
/// use torch::fx::{self, passes};
/// let mut m = fx::make_fx(|x: &[Tensor]| x[0].exp() + x[0].exp())(&[&torch::zeros([2])]);
/// let before = m.graph.len();
/// assert!(passes::eliminate_common(&mut m));
/// assert_eq!(m.graph.len(), before - 1);
/// ```
pub fn eliminate_common(m: &mut GraphModule) -> bool {
    let g = &mut m.graph;
    let mut seen: HashMap<(Op, String), Vec<Node>> = HashMap::new();
    let mut changed = false;
    let all: Vec<Node> = g.nodes().collect();
    // a value that is written somewhere may differ from one use to the next
    let writes = all.iter().any(|n| {
        let d = g.node(*n);
        d.op == Op::CallMethod && d.target.ends_with('_') && !d.target.ends_with("__")
            || d.op == Op::CallFunction && g.is_impure(*n) && d.target != "torch._assert"
    });
    if writes {
        return false;
    }
    for n in all {
        let d = g.node(n);
        if matches!(d.op, Op::Placeholder | Op::Output | Op::CallModule) || g.is_impure(n) {
            continue;
        }
        let key = (d.op, d.target.clone());
        let known = seen.entry(key).or_default();
        let twin = known.iter().copied().find(|t| {
            let t = g.node(*t);
            t.args().len() == d.args().len()
                && t.kwargs().len() == d.kwargs().len()
                && t.args().iter().zip(d.args()).all(|(a, b)| a.same(b))
                && t.kwargs().iter().zip(d.kwargs()).all(|(a, b)| a.0 == b.0 && a.1.same(&b.1))
        });
        match twin {
            Some(t) => {
                g.replace_all_uses_with(n, t);
                changed |= g.erase_node(n).is_ok();
            }
            None => known.push(n),
        }
    }
    changed
}
