//! Which nodes are a pattern together.

use super::backend_config::BackendPatternConfig;
use super::nodes::object_type;
use crate::object_types::ObjectType;
use flambeau_fx::{Argument, GraphModule, Node};
use std::collections::HashMap;

/// A pattern's nodes.
#[derive(Clone)]
pub(super) struct Match<'a> {
    /// In the order of the calls.
    pub nodes: Vec<Node>,
    pub config: &'a BackendPatternConfig,
}
impl Match<'_> {
    /// The first call.
    pub fn root(&self) -> Node {
        self.nodes[0]
    }
    /// The last one.
    pub fn last(&self) -> Node {
        self.nodes[self.nodes.len() - 1]
    }
}
/// The nodes that end in this one and are the pattern; those before the last have one user, which takes nothing else.
fn matched(m: &GraphModule, last: Node, pattern: &[ObjectType], types: &Types) -> Option<Vec<Node>> {
    let mut nodes = Vec::with_capacity(pattern.len());
    let mut at = last;
    for (i, wanted) in pattern.iter().rev().enumerate() {
        if types.get(&at)? != wanted || (i > 0 && m.graph.node(at).users().len() > 1) {
            return None;
        }
        nodes.push(at);
        if i + 1 < pattern.len() {
            match m.graph.node(at).args() {
                [Argument::Node(n)] => at = *n,
                _ => return None,
            }
        }
    }
    nodes.reverse();
    Some(nodes)
}
type Types = HashMap<Node, ObjectType>;

/// The patterns in a graph, from its end: longer ones first, then in the order of the configurations. Each node is part of one at most.
pub(super) fn find_matches<'a>(
    m: &GraphModule,
    configs: impl Iterator<Item = &'a BackendPatternConfig>,
) -> Vec<Match<'a>> {
    let types: Types =
        m.graph.nodes().filter_map(|n| Some((n, ObjectType::of(&object_type(m, n)?)))).collect();
    let mut configs: Vec<(Vec<ObjectType>, &BackendPatternConfig)> =
        configs.map(|c| (c.pattern().iter().map(|s| ObjectType::of(s)).collect(), c)).collect();
    configs.sort_by_key(|(p, _)| std::cmp::Reverse(p.len()));
    let mut all: Vec<Match<'a>> = Vec::new();
    for n in m.graph.nodes().rev() {
        if all.iter().any(|a| a.nodes.contains(&n)) {
            continue;
        }
        let found =
            configs.iter().find_map(|(p, c)| Some(Match { nodes: matched(m, n, p, &types)?, config: c }));
        all.extend(found);
    }
    all
}
