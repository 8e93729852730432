//! Outputs that are new values of what a program was given: they are written there, and are no results.

use crate::graph_signature::{OutputKind, OutputSpec};
use flambeau_core::{Error, Result};
use flambeau_fx::{Argument, Graph, Node};
use std::collections::HashMap;

/// Takes them out of a graph's results. `place` finds what one is written to, `write` adds the node that does it, which stands for
/// the new value among the results that are left.
///
/// # Errors
/// No output, or another number of results than the signature has; a new value of what is no input.
pub(crate) fn written_back(
    g: &mut Graph,
    specs: &[OutputSpec],
    place: impl Fn(&Graph, OutputKind, &str) -> Option<Node>,
    mut write: impl FnMut(&mut Graph, Node, Node) -> Node,
) -> Result<()> {
    let Some(out) = g.output_node() else { return Err(Error::serialization("the graph has no output")) };
    let all = match g.node(out).args().first() {
        Some(Argument::Tuple(all)) => all.clone(),
        _ => return Ok(()),
    };
    if all.len() != specs.len() {
        return Err(Error::serialization(format!(
            "{} outputs in the graph, {} in the signature",
            all.len(),
            specs.len()
        )));
    }
    let mut written: HashMap<Node, Node> = HashMap::new();
    let mut kept = Vec::new();
    for (a, s) in all.into_iter().zip(specs) {
        let target = match (s.kind, &s.target) {
            (OutputKind::Token, _) => continue,
            (
                OutputKind::BufferMutation | OutputKind::ParameterMutation | OutputKind::UserInputMutation,
                Some(target),
            ) => target,
            _ => {
                kept.push(a);
                continue;
            }
        };
        let (Some(place), Argument::Node(value)) = (place(g, s.kind, target), &a) else {
            return Err(Error::serialization(format!("an output for '{target}', which is no input")));
        };
        written.insert(*value, write(g, place, *value));
    }
    let kept =
        kept.iter().map(|a| a.map(&mut |n| Argument::Node(written.get(&n).copied().unwrap_or(n)))).collect();
    g.set_args(out, vec![Argument::Tuple(kept)]);
    Ok(())
}
