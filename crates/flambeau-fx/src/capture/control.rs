//! Branches and loops of captured programs: their functions become graphs, which a call names.
//!
//! A function runs once, in a capture of its own within that of the program. What it uses of the program's tensors is lifted: it
//! becomes an input of the graph, and an operand of the call.

use super::branches;
use super::recorder::{Capture, Level, Recorder, current};
use super::wrapped;
use crate::argument::Argument;
use crate::graph::Graph;
use crate::module::GraphModule;
use crate::node::{Node, Op};
use flambeau_autograd::control_flow::{Body, Capturing, set_capturing};
use flambeau_core::internal::excluding;
use flambeau_core::types::keys::{Key, KeySet};
use flambeau_core::{Error, Result, Tensor, Value, ops};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Makes branches and loops known.
pub(super) fn install() {
    set_capturing(Capturing { wanted, cond, while_loop, map, scan });
    flambeau_autograd::engine::set_allowed(gradients);
}
/// Whether gradients may be asked for now: a capture above them would leave them out without a word.
fn gradients() -> Result<()> {
    let above = current().is_some_and(|r| {
        let r = r.borrow();
        r.level == Level::Calls && r.quiet == 0
    });
    if above {
        return Err(Error::missing(
            "a backward pass in a program that is captured above the gradients; make_fx captures below them",
        ));
    }
    Ok(())
}
fn wanted(t: &Tensor) -> bool {
    wrapped::is_traced(t) && current().is_some_and(|r| r.borrow().quiet == 0)
}
fn outer() -> Result<Rc<RefCell<Recorder>>> {
    let outer = current().ok_or_else(|| {
        Error::runtime("a branch or loop of a captured program was reached after the capture had ended")
    })?;
    // the functions run on the tensors inside
    super::deferred::settle(&outer)?;
    Ok(outer)
}
fn raw(t: &Tensor) -> Tensor {
    match wrapped::unwrapped(&Value::Tensor(t.clone())) {
        Value::Tensor(ref t) => t.clone(),
        _ => t.clone(),
    }
}
fn raws(l: &[Tensor]) -> Vec<Tensor> {
    l.iter().map(raw).collect()
}
/// Works out tensors without writing down how.
fn aside<R>(f: impl FnOnce() -> Result<R>) -> Result<R> {
    flambeau_autograd::no_grad(|| excluding(KeySet::of(Key::Tracer), f))
}
/// A function as a graph.
pub(super) struct Written {
    pub(super) module: GraphModule,
    /// Inputs that are given, then what was lifted.
    given: usize,
    pub(super) lifted: Vec<Tensor>,
    pub(super) results: Vec<Tensor>,
}
fn written(
    outer: &Rc<RefCell<Recorder>>,
    inputs: &[Tensor],
    f: &mut dyn FnMut(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<Written> {
    let capture = Capture::within(outer);
    let mut given = Vec::new();
    for (i, t) in inputs.iter().enumerate() {
        given.push(capture.weight(&format!("arg{i}_1"), t)?);
    }
    let out = capture.run(|| f(&given))?;
    let results = raws(&out);
    let all = results.iter().map(|t| capture.result(&Value::Tensor(t.clone()))).collect();
    let lifted = capture.lifted();
    let module = capture.finish(Argument::Tuple(all))?;
    Ok(Written { module, given: inputs.len(), lifted, results })
}
/// The same graph with an input for each operand, in order.
fn over(w: &Written, operands: &[Tensor]) -> Result<GraphModule> {
    let from = &w.module.graph;
    let inputs = from.find_nodes(Op::Placeholder, None);
    let mut g = Graph::new();
    let mut map: HashMap<Node, Node> = HashMap::new();
    for i in 0..w.given + operands.len() {
        let new = g.placeholder(&format!("arg{i}_1"));
        let old = match i.checked_sub(w.given) {
            None => inputs.get(i),
            Some(k) => {
                w.lifted.iter().position(|t| t.is_same(&operands[k])).and_then(|at| inputs.get(w.given + at))
            }
        };
        match old {
            Some(old) => {
                *g.meta_mut(new) = from.node(*old).meta.clone();
                map.insert(*old, new);
            }
            None => {
                let t = &operands[i - w.given];
                g.meta_mut(new).val = Some(crate::meta::Val::Tensor(crate::meta::TensorMeta::of(t)));
            }
        }
    }
    let result = g.graph_copy(from, &mut map);
    g.output(result.unwrap_or(Argument::Tuple(Vec::new())));
    let mut m = GraphModule::new(g);
    for (path, v) in w.module.attributes() {
        m.set_value(path, v.clone());
    }
    Ok(m)
}
/// What several functions lift together, each once.
fn operands(all: &[&Written]) -> Vec<Tensor> {
    let mut out: Vec<Tensor> = Vec::new();
    for t in all.iter().flat_map(|w| &w.lifted) {
        if !out.iter().any(|o| o.is_same(t)) {
            out.push(t.clone());
        }
    }
    out
}
fn listed(r: &mut Recorder, l: &[Tensor]) -> Argument {
    Argument::List(l.iter().map(|t| r.argument(&Value::Tensor(t.clone()))).collect())
}
/// Tensors of their own, with the sizes of these.
fn fresh(l: &[Tensor]) -> Result<Vec<Tensor>> {
    aside(|| l.iter().map(|t| ops::clone(t, None)).collect())
}
/// The call, and its results as the program gets them.
fn called(
    outer: &Rc<RefCell<Recorder>>,
    name: &str,
    first: Vec<Argument>,
    graphs: Vec<(&str, GraphModule)>,
    last: Vec<Argument>,
    results: &[Tensor],
) -> Result<Vec<Tensor>> {
    let mut r = outer.borrow_mut();
    let mut args = first;
    for (wish, m) in graphs {
        let n = (0..).map(|i| format!("{wish}_{i}")).find(|n| !r.attributes.iter().any(|(p, _)| p == n));
        let name = n.unwrap_or_else(|| wish.to_string());
        let node = r.graph.create_node(Op::GetAttr, &name, Vec::new(), Vec::new(), Some(&name));
        let stack = r.stack.clone();
        r.graph.meta_mut(node).nn_module_stack = stack;
        r.attributes.push((name, Value::Object(flambeau_core::dispatch::object::ObjectRef::new(m))));
        args.push(node.into());
    }
    args.extend(last);
    let target = format!("torch.ops.higher_order.{name}");
    let n = r.graph.create_node(Op::CallFunction, &target, args, Vec::new(), Some(name));
    let stack = r.stack.clone();
    r.graph.meta_mut(n).nn_module_stack = stack;
    let values: Vec<Value> = results.iter().cloned().map(Value::Tensor).collect();
    r.results(n, &values);
    drop(r);
    results.iter().map(wrapped::wrap).collect()
}
fn alike(what: &str, a: &[Tensor], b: &[Tensor]) -> Result<()> {
    let same =
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.sizes() == b.sizes() && a.dtype() == b.dtype());
    if same {
        return Ok(());
    }
    let shown = |l: &[Tensor]| -> String {
        l.iter().map(|t| format!("{}{:?}", t.dtype().name(), t.sizes())).collect::<Vec<_>>().join(", ")
    };
    Err(Error::runtime(format!("{what}: {} and {}", shown(a), shown(b))))
}
fn cond(
    pred: &Tensor,
    yes: &mut dyn FnMut() -> Result<Vec<Tensor>>,
    no: &mut dyn FnMut() -> Result<Vec<Tensor>>,
) -> Result<Vec<Tensor>> {
    let outer = outer()?;
    let yes = branches::apart(written(&outer, &[], &mut |_| yes())?)?;
    let no = branches::apart(written(&outer, &[], &mut |_| no())?)?;
    let all = operands(&[&yes, &no]);
    branches::alike(&raw(pred), &all, &yes.results, &no.results)?;
    let graphs = vec![("true_graph", over(&yes, &all)?), ("false_graph", over(&no, &all)?)];
    let results = fresh(&yes.results)?;
    let (pred, list) = {
        let mut r = outer.borrow_mut();
        let pred = r.argument(&Value::Tensor(raw(pred)));
        (pred, listed(&mut r, &all))
    };
    called(&outer, "cond", vec![pred], graphs, vec![list], &results)
}
fn while_loop(test: Body<'_>, body: Body<'_>, carried: &[Tensor]) -> Result<Vec<Tensor>> {
    let outer = outer()?;
    let carried = raws(carried);
    let inside = fresh(&carried)?;
    let test = written(&outer, &inside, &mut |x| test(x))?;
    let body = written(&outer, &inside, &mut |x| body(x))?;
    alike("while_loop: body_fn must carry on what it is given", &carried, &body.results)?;
    let all = operands(&[&test, &body]);
    let mut condition = over(&test, &all)?;
    // the condition alone is the result
    if let Some(out) = condition.graph.output_node() {
        let one = condition
            .graph
            .node(out)
            .args()
            .first()
            .and_then(Argument::items)
            .and_then(<[_]>::first)
            .cloned();
        if let Some(one) = one {
            condition.graph.set_args(out, vec![one]);
        }
    }
    let graphs = vec![("while_loop_cond_graph", condition), ("while_loop_body_graph", over(&body, &all)?)];
    let results = fresh(&carried)?;
    let last = {
        let mut r = outer.borrow_mut();
        vec![listed(&mut r, &carried), listed(&mut r, &all)]
    };
    called(&outer, "while_loop", Vec::new(), graphs, last, &results)
}
/// The first slice of each tensor.
fn slices(xs: &[Tensor]) -> Result<Vec<Tensor>> {
    aside(|| xs.iter().map(|x| ops::clone(&ops::select(x, 0, 0)?, None)).collect())
}
/// As many of each, along a new first dimension.
fn stacked(l: &[Tensor], n: i64) -> Result<Vec<Tensor>> {
    aside(|| {
        l.iter()
            .map(|t| {
                let sizes = [&[n], t.sizes()].concat();
                ops::clone(&ops::expand(&ops::unsqueeze(t, 0)?, &sizes, false)?, None)
            })
            .collect()
    })
}
fn length(xs: &[Tensor]) -> i64 {
    xs.first().and_then(|x| x.sizes().first().copied()).unwrap_or(0)
}
fn map(f: Body<'_>, xs: &[Tensor]) -> Result<Vec<Tensor>> {
    let outer = outer()?;
    let xs = raws(xs);
    let body = written(&outer, &slices(&xs)?, &mut |x| f(x))?;
    let all = operands(&[&body]);
    let graphs = vec![("body_graph", over(&body, &all)?)];
    let results = stacked(&body.results, length(&xs))?;
    let last = {
        let mut r = outer.borrow_mut();
        vec![listed(&mut r, &xs), listed(&mut r, &all)]
    };
    called(&outer, "map_impl", Vec::new(), graphs, last, &results)
}
fn scan(f: Body<'_>, init: &[Tensor], xs: &[Tensor]) -> Result<Vec<Tensor>> {
    let outer = outer()?;
    let (init, xs) = (raws(init), raws(xs));
    let inputs = [fresh(&init)?, slices(&xs)?].concat();
    let body = written(&outer, &inputs, &mut |x| f(x))?;
    let k = init.len().min(body.results.len());
    let (carry, outputs) = body.results.split_at(k);
    alike("scan: combine_fn must carry on what it is given", &init, carry)?;
    let all = operands(&[&body]);
    let graphs = vec![("scan_combine_graph", over(&body, &all)?)];
    let results = [fresh(&init)?, stacked(outputs, length(&xs))?].concat();
    let last = {
        let mut r = outer.borrow_mut();
        vec![listed(&mut r, &init), listed(&mut r, &xs), listed(&mut r, &all)]
    };
    called(&outer, "scan", Vec::new(), graphs, last, &results)
}
