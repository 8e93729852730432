//! The recorded changes of graphs and refused programs, as programs over `flambeau_fx`.

use super::super::{File, text};
use super::{fx, values};
use crate::compare::Tol;
use crate::decode::Stop;
use flambeau_core::{Result, Value};
use flambeau_fx::passes::{
    eliminate_dead_code, fold_constants, fuse_conv_bn, normalize_operators, replace_pattern, split_module,
};
use flambeau_fx::{Argument, Graph, GraphModule, Interpreter, Node, Op, Transformer};
use flambeau_library::object;
use serde_json::{Value as J, json};
use std::collections::HashMap;

/// The changed graph, and what the change reports.
type Done = (GraphModule, J);

/// Runs the port of a recorded change and compares.
pub fn transform(f: &File, j: &J) -> std::result::Result<(), Stop> {
    let t = &j["transform"];
    let m = fx::build(f, j)?;
    let (m, facts) = port(text(t, "name"), m)?;
    if let Some(want) = t["facts"].as_object() {
        for (k, w) in want {
            if facts[k] != *w {
                return Err(Stop::Failed(format!("{k}: {}, expected {w}", facts[k])));
            }
        }
    }
    fx::printed(&m, &t["after"])?;
    fx::attributes(f, &m, &t["after"], Tol::Close { rtol: 1e-5, atol: 1e-6 })?;
    for c in t["cases"].as_array().into_iter().flatten() {
        fx::run_case(f, &m, c)?;
    }
    Ok(())
}
fn port(name: &str, mut m: GraphModule) -> std::result::Result<Done, Stop> {
    let none = J::Null;
    Ok(match name {
        "add_submodule" => {
            let elu = object::construct("torch.nn.ELU", &[Value::Float(0.5)], &[])?;
            m.set_module("extra.act", elu);
            let Some(out) = m.graph.output_node() else { return Err(Stop::Failed("no output".into())) };
            m.graph.inserting_before(out);
            let old = m.graph.node(out).args()[0].clone();
            let new = m.graph.call_module("extra.act", [old], []);
            m.graph.set_args(out, vec![new.into()]);
            let paths = m.module_paths();
            (m, json!({ "modules": paths }))
        }
        "decompose_relu" => {
            let old = std::mem::take(&mut m.graph);
            let mut env: HashMap<Node, Node> = HashMap::new();
            let mut g = Graph::new();
            for n in old.nodes() {
                let d = old.node(n);
                let new = if d.target == "torch.relu" {
                    let x = d.args()[0].node().map(|x| env[&x]);
                    let Some(x) = x else { return Err(Stop::Failed("relu of no node".into())) };
                    let positive = g.call_function("operator.gt", [Argument::from(x), 0.into()], []);
                    g.call_function("operator.mul", [positive, x], [])
                } else {
                    g.node_copy(&old, n, &mut |x| env[&x].into())
                };
                env.insert(n, new);
            }
            m.graph = g;
            (m, none)
        }
        "erase_and_replace_inputs" => {
            for n in m.graph.find_nodes(Op::CallModule, Some("bn")) {
                if let Some(x) = m.graph.node(n).args()[0].node() {
                    m.graph.replace_all_uses_with(n, x);
                }
                m.graph.erase_node(n)?;
            }
            m.delete_all_unused_submodules();
            let paths = m.module_paths();
            (m, json!({ "modules": paths }))
        }
        "fold_constants" => (fold_constants(&m)?, none),
        "fuse_conv_bn" => (fuse_conv_bn(&m)?, none),
        "graph_copy_twice" => {
            let mut g = Graph::new();
            let x = g.placeholder("x");
            let first = m.graph.find_nodes(Op::Placeholder, None)[0];
            let a = g.graph_copy(&m.graph, &mut HashMap::from([(first, x)]));
            let Some(Argument::Node(a)) = a else { return Err(Stop::Failed("no result".into())) };
            let b = g.graph_copy(&m.graph, &mut HashMap::from([(first, a)]));
            let Some(b) = b else { return Err(Stop::Failed("no result".into())) };
            g.output(Argument::Tuple(vec![a.into(), b]));
            m.graph = g;
            (m, none)
        }
        "insert_after_linear" => {
            for n in m.graph.nodes().collect::<Vec<_>>() {
                let d = m.graph.node(n);
                if d.op != Op::CallModule || m.submodule(&d.target)?.type_name() != "Linear" {
                    continue;
                }
                m.graph.inserting_after(n);
                let new = m.graph.call_function("torch.tanh", [n], []);
                m.graph.replace_all_uses_with(n, new);
                m.graph.set_args(new, vec![n.into()]);
            }
            (m, none)
        }
        "meta_and_types" => {
            let g = &mut m.graph;
            let all: Vec<Node> = g.nodes().collect();
            for (i, n) in all.iter().enumerate() {
                g.set_type(*n, (i < 2).then_some("torch.Tensor"));
                g.meta_mut(*n).notes.push(("index".into(), i.to_string()));
            }
            let name = |n: Option<Node>| n.map_or("", |n| g.node(n).name.as_str());
            let order: Vec<J> = all
                .iter()
                .map(|n| {
                    let d = g.node(*n);
                    let inputs: Vec<&str> = d.input_nodes().into_iter().map(|i| name(Some(i))).collect();
                    json!([
                        d.name,
                        name(g.prev(*n)),
                        name(g.next(*n)),
                        g.is_impure(*n),
                        inputs,
                        d.users().len()
                    ])
                })
                .collect();
            let found: Vec<&str> =
                g.find_nodes(Op::CallModule, Some("lin")).into_iter().map(|n| name(Some(n))).collect();
            let facts = json!({ "order": order, "found": found });
            (m, facts)
        }
        "normalize_arguments" => {
            normalize_operators(&mut m);
            (m, none)
        }
        "pattern_relu_add" => {
            let mut p = Graph::new();
            let (a, b) = (p.placeholder("a"), p.placeholder("b"));
            let sum = p.call_function("operator.add", [a, b], []);
            let relu = p.call_function("torch.relu", [sum], []);
            p.output(relu);
            let mut r = Graph::new();
            let (a, b) = (r.placeholder("a"), r.placeholder("b"));
            let neg = r.call_function("operator.neg", [b], []);
            let max = r.call_function("torch.maximum", [a, neg], []);
            let half = r.call_function("operator.mul", [Argument::from(max), 0.5.into()], []);
            r.output(half);
            let found = replace_pattern(&mut m, &p, &r)?;
            let matches: Vec<J> = found
                .iter()
                .map(|f| J::Object(f.names.iter().map(|(k, v)| (k.clone(), J::from(v.as_str()))).collect()))
                .collect();
            let facts = json!({ "matches": matches, "pattern": p.to_string(), "replacement": r.to_string() });
            (m, facts)
        }
        "pattern_with_modules" => {
            let mut p = Graph::new();
            let x = p.placeholder("x");
            let y = p.call_function("torch.sigmoid", [x], []);
            p.output(y);
            let mut r = Graph::new();
            let x = r.placeholder("x");
            let neg = r.call_function("operator.neg", [x], []);
            let exp = r.call_function("torch.exp", [neg], []);
            let add = r.call_function("operator.add", [1.into(), Argument::from(exp)], []);
            let div = r.call_function("operator.truediv", [1.into(), Argument::from(add)], []);
            r.output(div);
            let found = replace_pattern(&mut m, &p, &r)?;
            let replaced: Vec<Vec<&str>> = found
                .iter()
                .map(|f| f.nodes.iter().map(|n| m.graph.node(*n).name.as_str()).collect())
                .collect();
            let facts = json!({
                "matches": found.len(), "replacements": replaced, "pattern": p.to_string(), "replacement": r.to_string()
            });
            (m, facts)
        }
        "remove_dead_code" => {
            let first = m.graph.find_nodes(Op::Placeholder, None)[0];
            m.graph.inserting_after(first);
            let dead = m.graph.call_function("torch.exp", [first], []);
            m.graph.inserting_after(dead);
            m.graph.call_method("cos", [dead], []);
            let before = m.graph.len();
            let changed = eliminate_dead_code(&mut m);
            let after = m.graph.len();
            (m, json!({ "nodes_before": before, "nodes_after": after, "changed": changed }))
        }
        "reorder_and_inline" => {
            let anchor = m.graph.find_nodes(Op::Placeholder, None)[0];
            for n in m.graph.find_nodes(Op::CallMethod, None) {
                m.graph.move_after(n, anchor);
            }
            let Some(out) = m.graph.output_node() else { return Err(Stop::Failed("no output".into())) };
            m.graph.inserting_before(out);
            let old = m.graph.node(out).args()[0].clone();
            let extra = m.graph.call_function("torch.mul", [old, 2.0.into()], []);
            m.graph.set_args(out, vec![extra.into()]);
            (m, none)
        }
        "replace_targets" => {
            for n in m.graph.find_nodes(Op::CallFunction, None) {
                match m.graph.node(n).target.as_str() {
                    "operator.add" => m.graph.set_target(n, "torch.mul"),
                    "torch.relu" => m.graph.set_target(n, "torch._C._nn.gelu"),
                    _ => {}
                }
            }
            (m, none)
        }
        "split_in_three" => {
            let steps = m.graph.nodes().filter(|n| {
                let op = m.graph.node(*n).op;
                op != Op::Placeholder && op != Op::Output
            });
            let order: Vec<(String, i64)> = steps
                .enumerate()
                .map(|(i, n)| (m.graph.node(n).name.clone(), (i as i64 / 3).min(2)))
                .collect();
            let part = |name: &str| order.iter().find(|(n, _)| n == name).map_or(0, |(_, p)| *p);
            let split = split_module(&m, &|d| part(&d.name))?;
            let partition: serde_json::Map<String, J> =
                order.iter().map(|(n, p)| (n.clone(), J::from(*p))).collect();
            (split, json!({ "partition": partition }))
        }
        "swap_by_transformer" => {
            struct Swapper;
            impl Transformer for Swapper {
                fn call_function(
                    &mut self,
                    g: &mut Graph,
                    target: &str,
                    args: Vec<Argument>,
                    kwargs: Vec<(String, Argument)>,
                ) -> Argument {
                    let target = if target == "torch.sigmoid" { "torch.neg" } else { target };
                    g.create_node(Op::CallFunction, target, args, kwargs, None).into()
                }
                fn call_method(
                    &mut self,
                    g: &mut Graph,
                    name: &str,
                    args: Vec<Argument>,
                    kwargs: Vec<(String, Argument)>,
                ) -> Argument {
                    let name = if name == "neg" { "sigmoid" } else { name };
                    g.create_node(Op::CallMethod, name, args, kwargs, None).into()
                }
            }
            (Swapper.transform(&m), none)
        }
        other => return Err(Stop::Missing(format!("the change {other}"))),
    })
}

/// Runs the port of a program that must be refused.
pub fn error(c: &J) -> std::result::Result<(), Stop> {
    let Some(r) = refused(text(c, "id")) else {
        return Err(Stop::Missing("tracing of Python's control flow".into()));
    };
    match r {
        Ok(()) => Err(Stop::Failed("no error".into())),
        Err(e) => values::judge_error(&e, c).map_err(Stop::Failed),
    }
}
fn refused(id: &str) -> Option<Result<()>> {
    let mut g = Graph::new();
    Some(match id {
        "erase_used_node" => {
            let x = g.placeholder("x");
            let y = g.call_function("torch.relu", [x], []);
            g.output(y);
            g.erase_node(y)
        }
        "lint_order" => {
            let x = g.placeholder("x");
            let a = g.call_function("torch.relu", [x], []);
            let b = g.call_function("torch.neg", [a], []);
            g.output(b);
            g.move_after(x, a);
            g.lint()
        }
        "lint_missing_module" => {
            let x = g.placeholder("x");
            let y = g.call_module("missing", [x], []);
            g.output(y);
            GraphModule::new(g).lint()
        }
        "node_of_other_graph" => {
            let mut h = Graph::new();
            let (x, y) = (g.placeholder("x"), h.placeholder("y"));
            let z = g.call_function("torch.add", [x, y], []);
            g.output(z);
            g.lint()
        }
        "interpreter_missing_argument" => {
            let (x, y) = (g.placeholder("x"), g.placeholder("y"));
            let z = g.call_function("operator.add", [x, y], []);
            g.output(z);
            let m = GraphModule::new(g);
            let ones = flambeau_library::call_value("torch.ones", &[Value::Int(2)], &[]);
            ones.and_then(|x| Interpreter::new(&m).run(&[x])).map(drop)
        }
        "wrong_concrete_argument" => {
            let (x, flag) = (g.placeholder("x"), g.placeholder("flag"));
            let same = g.call_function("operator.eq", [Argument::from(flag), true.into()], []);
            let text = "flag has been specialized to have value True but got another value";
            g.call_function("torch._assert", [Argument::from(same), text.into()], []);
            let y = g.call_function("operator.add", [Argument::from(x), 1.into()], []);
            g.output(y);
            let m = GraphModule::new(g);
            let ones = flambeau_library::call_value("torch.ones", &[Value::Int(2)], &[]);
            ones.and_then(|x| m.run(&[x, Value::Bool(false)], &[])).map(drop)
        }
        _ => return None,
    })
}
