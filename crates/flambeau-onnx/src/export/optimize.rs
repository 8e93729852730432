//! Smaller graphs: equal nodes once, no copies, nothing that nobody needs.

use crate::proto::{GraphProto, NodeProto};
use prost::Message as _;
use std::collections::{HashMap, HashSet};

/// Shows all nodes to a function, those of graphs in graphs too.
pub(super) fn each_node(g: &GraphProto, f: &mut dyn FnMut(&NodeProto)) {
    for n in &g.node {
        f(n);
        for inner in n.attribute.iter().filter_map(|a| a.g.as_deref()) {
            each_node(inner, f);
        }
    }
}
/// The names that nodes and outputs use.
pub(super) fn used(g: &GraphProto) -> HashSet<String> {
    let mut all: HashSet<String> = HashSet::new();
    collect(g, &mut all);
    all
}
fn collect(g: &GraphProto, all: &mut HashSet<String>) {
    all.extend(g.output.iter().filter_map(|o| o.name.clone()));
    for n in &g.node {
        all.extend(n.input.iter().cloned());
        for inner in n.attribute.iter().filter_map(|a| a.g.as_deref()) {
            collect(inner, all);
        }
    }
}
/// Drops nodes whose results nobody uses.
pub(super) fn drop_dead(g: &mut GraphProto) {
    let mut needed: HashSet<String> = g.output.iter().filter_map(|o| o.name.clone()).collect();
    let mut kept = Vec::with_capacity(g.node.len());
    for mut n in std::mem::take(&mut g.node).into_iter().rev() {
        if !n.output.iter().any(|o| needed.contains(o)) {
            continue;
        }
        for inner in n.attribute.iter_mut().filter_map(|a| a.g.as_deref_mut()) {
            drop_dead(inner);
            collect(inner, &mut needed);
        }
        needed.extend(n.input.iter().cloned());
        kept.push(n);
    }
    kept.reverse();
    g.node = kept;
}
/// Puts other names in place of inputs, in graphs in graphs too.
fn replace(n: &mut NodeProto, by: &HashMap<String, String>) {
    for i in &mut n.input {
        if let Some(new) = by.get(i) {
            *i = new.clone();
        }
    }
    for inner in n.attribute.iter_mut().filter_map(|a| a.g.as_deref_mut()) {
        inner.node.iter_mut().for_each(|n| replace(n, by));
    }
}
/// Copies under other names go, but where an output needs its name.
pub(super) fn drop_copies(g: &mut GraphProto) {
    let outputs: HashSet<String> = g.output.iter().filter_map(|o| o.name.clone()).collect();
    let mut by: HashMap<String, String> = HashMap::new();
    for n in &mut g.node {
        replace(n, &by);
        if n.op_type.as_deref() == Some("Identity")
            && let ([from], [to]) = (&n.input[..], &n.output[..])
            && !outputs.contains(to)
        {
            by.insert(to.clone(), from.clone());
        }
    }
}
/// Nodes that say the same become one. Random ones do not.
pub(super) fn merge_equal(g: &mut GraphProto) {
    let outputs: HashSet<String> = g.output.iter().filter_map(|o| o.name.clone()).collect();
    let mut seen: HashMap<Vec<u8>, Vec<String>> = HashMap::new();
    let mut by: HashMap<String, String> = HashMap::new();
    for n in &mut g.node {
        replace(n, &by);
        let op = n.op_type.as_deref().unwrap_or("");
        let random =
            op.starts_with("Random") || matches!(op, "Bernoulli" | "Multinomial" | "Dropout" | "Identity");
        let own = n.domain.as_deref().unwrap_or("").is_empty();
        let nested = n.attribute.iter().any(|a| a.g.is_some());
        if random || !own || nested || n.output.iter().any(|o| outputs.contains(o)) {
            continue;
        }
        let key = NodeProto {
            input: n.input.clone(),
            op_type: n.op_type.clone(),
            attribute: n.attribute.clone(),
            output: vec![n.output.len().to_string()],
            ..Default::default()
        };
        match seen.entry(key.encode_to_vec()) {
            std::collections::hash_map::Entry::Occupied(e) => {
                by.extend(n.output.iter().cloned().zip(e.get().iter().cloned()));
            }
            std::collections::hash_map::Entry::Vacant(e) => {
                e.insert(n.output.clone());
            }
        }
    }
}
