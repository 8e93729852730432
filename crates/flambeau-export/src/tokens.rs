//! Tokens order calls that do something beside their result. A run is in order without them.

use crate::graph_signature::{ArgumentSpec, InputKind, InputSpec, OutputKind, OutputSpec};
use crate::program::ExportedProgram;
use crate::read::Operator;
use flambeau_core::dispatch::object::ObjectRef;
use flambeau_core::{DType, Device, Error, Layout, Result, Value};
use flambeau_fx::symbolic::Expr;
use flambeau_fx::{Argument, GraphModule, Node, Op, TensorMeta, Val};

const WITH_EFFECTS: &str = "torch.ops.higher_order.with_effects";
/// What a call does beside its result in programs of the core set.
const EFFECTS: [&str; 1] = ["torch.ops.aten._linalg_check_errors.default"];

/// What a token is like: no elements.
fn token() -> Val {
    Val::Tensor(TensorMeta {
        dtype: DType::F32,
        shape: vec![Expr::Int(0)],
        stride: vec![Expr::Int(1)],
        storage_offset: Expr::Int(0),
        requires_grad: false,
        device: Device::Cpu,
        layout: Layout::Strided,
        memory_format: None,
    })
}
/// Calls that do something beside their result go through `with_effects`: each takes the token that the one before gave. The first
/// token is the program's first input, the last its first result.
///
/// # Errors
/// A program without an output.
pub(crate) fn added(p: &mut ExportedProgram) -> Result<()> {
    let g = &mut p.graph_module.graph;
    let calls: Vec<Node> = g.nodes().filter(|n| EFFECTS.contains(&g.node(*n).target.as_str())).collect();
    let (false, Some(first), Some(out)) = (calls.is_empty(), g.nodes().next(), g.output_node()) else {
        return Ok(());
    };
    g.inserting_before(first);
    let mut last = g.placeholder("token");
    g.meta_mut(last).val = Some(token());
    let name = g.node(last).name.clone();
    let arg = ArgumentSpec::Token(name);
    let spec = InputSpec { kind: InputKind::Token, arg, target: None, persistent: None };
    p.graph_signature.input_specs.insert(0, spec);
    for n in calls {
        let d = g.node(n).clone();
        let operator = Argument::Value(Value::Object(ObjectRef::new(Operator(d.target.clone()))));
        let args = [vec![Argument::Node(last), operator], d.args().to_vec()].concat();
        g.inserting_before(n);
        let call = g.create_node(Op::CallFunction, WITH_EFFECTS, args, d.kwargs().to_vec(), None);
        let mut meta = d.meta.clone();
        meta.val = Some(Val::List(vec![token(), Val::None]));
        *g.meta_mut(call) = meta.clone();
        let part = vec![Argument::Node(call), Argument::from(0i64)];
        last = g.create_node(Op::CallFunction, "operator.getitem", part, Vec::new(), None);
        meta.val = Some(token());
        *g.meta_mut(last) = meta;
        g.erase_node(n)?;
    }
    g.inserting_at_end();
    let results = match g.node(out).args().first() {
        Some(Argument::Tuple(all)) => all.clone(),
        Some(one) => vec![one.clone()],
        None => Vec::new(),
    };
    let results = [vec![Argument::Node(last)], results].concat();
    g.set_args(out, vec![Argument::Tuple(results)]);
    let arg = ArgumentSpec::Token(g.node(last).name.clone());
    p.graph_signature.output_specs.insert(0, OutputSpec { kind: OutputKind::Token, arg, target: None });
    Ok(())
}

/// Calls through `with_effects` become the calls themselves; the tokens between them go.
///
/// # Errors
/// A call of what is no operator; tokens that are used as values.
pub(crate) fn removed(m: &mut GraphModule, tokens: &[Node]) -> Result<()> {
    let g = &mut m.graph;
    for n in g.find_nodes(Op::CallFunction, Some(WITH_EFFECTS)) {
        let d = g.node(n).clone();
        let operator = match d.args().get(1).and_then(Argument::value) {
            Some(Value::Object(o)) => o.downcast::<Operator>().map(|o| o.0.clone()),
            _ => None,
        };
        let Some(target) = operator else {
            return Err(Error::serialization(format!("node '{}' calls what is no operator", d.name)));
        };
        let args = d.args().get(2..).unwrap_or(&[]).to_vec();
        g.inserting_before(n);
        let call = g.create_node(Op::CallFunction, &target, args, d.kwargs().to_vec(), None);
        g.inserting_at_end();
        *g.meta_mut(call) = d.meta.clone();
        let parts: Vec<(Node, Option<i64>)> = d
            .users()
            .iter()
            .map(|u| match g.node(*u).args() {
                [_, Argument::Value(Value::Int(i))] if g.node(*u).target == "operator.getitem" => {
                    (*u, Some(*i))
                }
                _ => (*u, None),
            })
            .collect();
        let results = parts.iter().filter(|(_, i)| i.is_some_and(|i| i > 0)).count();
        for (part, i) in parts {
            match i {
                // the token: the next call's argument, or the output's
                Some(0) => {
                    for user in g.node(part).users().to_vec() {
                        let none = |a: &Argument| {
                            a.map(&mut |k| if k == part { Argument::NONE } else { Argument::Node(k) })
                        };
                        let args = g.node(user).args().iter().map(none).collect();
                        g.set_args(user, args);
                    }
                    g.erase_node(part)?;
                }
                Some(_) if results == 1 => {
                    g.replace_all_uses_with(part, call);
                    g.erase_node(part)?;
                }
                Some(i) => g.set_args(part, vec![Argument::Node(call), Argument::from(i - 1)]),
                None => {
                    return Err(Error::serialization(format!("node '{}' uses a token", g.node(part).name)));
                }
            }
        }
        g.erase_node(n)?;
    }
    for t in tokens {
        if g.node(*t).users().is_empty() {
            g.erase_node(*t)?;
        }
    }
    Ok(())
}
