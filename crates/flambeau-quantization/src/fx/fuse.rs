//! Layers that follow each other in a graph as one layer.

use super::backend_config::BackendConfig;
use super::matching::{Match, find_matches};
use super::nodes::{module, object};
use crate::flow::{batch_norm_of, copy};
use flambeau_core::{Result, ensure};
use flambeau_fx::{GraphModule, Node, Op};
use flambeau_nn as nn;
use flambeau_nn::Module;
use flambeau_nn::internal::Run;

/// How often a module is called.
fn calls(m: &GraphModule, n: Node) -> usize {
    let d = m.graph.node(n);
    if d.op == Op::CallModule { m.graph.find_nodes(Op::CallModule, Some(&d.target)).len() } else { 1 }
}
/// The layer that a node calls, or that does what the function does that it calls, in the mode of the layers before it.
fn layer(m: &GraphModule, n: Node, training: bool) -> Result<Option<Box<dyn Run>>> {
    if m.graph.node(n).op == Op::CallModule {
        return module(m, n, |r| copy(r.as_module()));
    }
    // the only function that patterns of fusion have
    let relu = nn::ReLU::new();
    relu.set_training(training);
    Ok(Some(Box::new(relu)))
}
fn joined(m: &GraphModule, found: &Match<'_>, is_qat: bool) -> Result<Option<Box<dyn Run>>> {
    let Some(fuser) = found.config.fuser_method else { return Ok(None) };
    let mut parts: Vec<Box<dyn Run>> = Vec::new();
    for n in &found.nodes {
        let training = parts.first().is_some_and(|p| p.is_training());
        match layer(m, *n, training)? {
            Some(l) => parts.push(l),
            None => return Ok(None),
        }
    }
    let first = parts.first().is_some_and(|p| p.is_training());
    let norm = parts.iter().any(|p| batch_norm_of(p.as_module()).is_some());
    if norm && !is_qat {
        ensure!(parts.iter().all(|p| !p.is_training()), Assertion, "Fusion only for eval!");
    }
    let all: Vec<&dyn Module> = parts.iter().map(|p| p.as_module()).collect();
    let new = fuser(is_qat, &all)?;
    new.set_training(first);
    Ok(Some(new))
}
/// Joins the patterns for which the engine has a layer. Modules that are called several times stay as they are.
pub(super) fn fuse(m: &mut GraphModule, is_qat: bool, backend: &BackendConfig) -> Result<()> {
    let fusible = backend.configs().iter().filter(|c| c.fuser_method.is_some());
    for found in find_matches(m, fusible) {
        if found.nodes.iter().any(|n| calls(m, *n) > 1) {
            continue;
        }
        let Some(new) = joined(m, &found, is_qat)? else { continue };
        let (root, last) = (found.root(), found.last());
        let path = m.graph.node(root).target.clone();
        m.set_module(&path, object(new));
        m.graph.replace_all_uses_with(last, root);
        for n in found.nodes.iter().rev().filter(|n| **n != root) {
            m.graph.erase_node(*n)?;
        }
    }
    m.delete_all_unused_submodules();
    Ok(())
}
