//! Tokens order calls that do something beside their result. A run is in order without them.

use crate::read::Operator;
use flambeau_core::{Error, Result, Value};
use flambeau_fx::{Argument, GraphModule, Node, Op};

const WITH_EFFECTS: &str = "torch.ops.higher_order.with_effects";

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
