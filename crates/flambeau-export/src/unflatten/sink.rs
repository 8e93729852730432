//! Modules read their own weights, and equal calls of a module become one.

use super::outline::{Entry, Units, accessor, call_name};
use super::{Id, id};
use crate::graph_signature::ExportGraphSignature;
use crate::program::ExportedProgram;
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_fx::{Argument, Graph, GraphModule, Node, Op};
use std::collections::{HashMap, HashSet};

/// For each input that is a weight the paths at which it stands: tensors of several names have several.
fn places(p: &ExportedProgram, signature: &ExportGraphSignature) -> HashMap<String, Vec<String>> {
    let mut all: Vec<(Id, Vec<(String, String)>)> = Vec::new();
    let mut add = |t: &Tensor, node: Option<&str>, target: &str| {
        let known = all.iter_mut().find(|(k, _)| *k == id(t));
        match (known, node) {
            (Some((_, l)), Some(node)) => l.push((node.to_string(), target.to_string())),
            (Some((_, l)), None) => {
                let node = l[0].0.clone();
                l.push((node, target.to_string()));
            }
            (None, Some(node)) => all.push((id(t), vec![(node.to_string(), target.to_string())])),
            (None, None) => {}
        }
    };
    let mut named = HashSet::new();
    for s in &signature.input_specs {
        if let Some(target) = &s.target
            && let Some(t) = p.tensor(target)
        {
            add(t, Some(s.arg.name()), target);
            named.insert(target.as_str());
        }
    }
    for (target, t) in p.constants.iter().chain(&p.state_dict) {
        if !named.contains(target.as_str()) {
            add(t, None, target);
        }
    }
    let mut out = HashMap::new();
    for (_, l) in all {
        let targets: Vec<String> = l.iter().map(|(_, t)| t.clone()).collect();
        for (node, _) in l {
            out.insert(node, targets.clone());
        }
    }
    out
}
struct Sinker<'a> {
    units: &'a mut Units,
    places: HashMap<String, Vec<String>>,
    state: &'a [(String, Tensor)],
    /// Inputs that modules do not have any more.
    gone: HashMap<usize, HashSet<String>>,
}
/// Inputs that are weights become reads of what stands in the module.
pub(super) fn sunk(
    units: &mut Units,
    p: &ExportedProgram,
    signature: &ExportGraphSignature,
    state: &[(String, Tensor)],
) -> Result<()> {
    let mut s = Sinker { units, places: places(p, signature), state, gone: HashMap::new() };
    s.module(0, &mut Vec::new())
}
impl Sinker<'_> {
    fn module(&mut self, unit: usize, scope: &mut Vec<String>) -> Result<()> {
        if self.gone.contains_key(&unit) {
            return Ok(());
        }
        for (name, child) in self.units.children(unit).to_vec() {
            scope.push(name.split('@').next().unwrap_or(&name).to_string());
            self.module(child, scope)?;
            scope.pop();
        }
        let graph = &self.units.units[unit].graph;
        if graph.is_empty() {
            return Ok(());
        }
        for call in graph.find_nodes(Op::CallModule, None) {
            let graph = &self.units.units[unit].graph;
            let d = graph.node(call);
            let removed = self.units.at(unit, &d.target).and_then(|u| self.gone.get(&u));
            let Some(removed) = removed else { continue };
            let kept = |a: &&Argument| match a {
                Argument::Node(n) => !removed.contains(&graph.node(*n).name),
                _ => true,
            };
            let args = d.args().iter().filter(kept).cloned().collect();
            self.units.units[unit].graph.set_args(call, args);
        }
        let graph = &mut self.units.units[unit].graph;
        let inputs = graph.find_nodes(Op::Placeholder, None);
        // reads come behind all inputs, each before the last one
        let mut before = inputs.last().and_then(|n| graph.next(*n));
        let mut gone = HashSet::new();
        let mut tensors = Vec::new();
        for n in inputs {
            let name = graph.node(n).name.clone();
            let Some(path) = self.places.get(&name).and_then(|all| all.iter().find_map(|p| within(p, scope)))
            else {
                continue;
            };
            if !graph.node(n).users().is_empty() {
                let whole: Vec<&str> = scope.iter().map(String::as_str).chain([path]).collect();
                let whole = whole.join(".");
                let Some((_, t)) = self.state.iter().find(|(k, _)| *k == whole) else {
                    return Err(Error::serialization(format!("the program has no tensor '{whole}'")));
                };
                tensors.push((path.to_string(), t.clone()));
                match before {
                    Some(b) => graph.inserting_before(b),
                    None => graph.inserting_at_end(),
                }
                let read = graph.get_attr(path);
                graph.inserting_at_end();
                let meta = graph.node(n).meta.clone();
                *graph.meta_mut(read) = meta;
                graph.replace_all_uses_with(n, read);
                before = Some(read);
            }
            graph.erase_node(n)?;
            gone.insert(name);
        }
        self.units.units[unit].tensors.extend(tensors);
        self.gone.insert(unit, gone);
        Ok(())
    }
}
/// The rest of a path behind the modules that lead there.
fn within<'a>(path: &'a str, scope: &[String]) -> Option<&'a str> {
    scope.iter().try_fold(path, |rest, name| rest.strip_prefix(name.as_str())?.strip_prefix('.'))
}

/// Whether two graphs do the same: the same steps in the same order, of the same nodes.
fn alike(a: &Graph, b: &Graph) -> bool {
    let text = |g: &Graph| -> Vec<String> {
        let places: HashMap<Node, usize> = g.nodes().enumerate().map(|(i, n)| (n, i)).collect();
        let shown = |a: &Argument| {
            let numbered =
                a.map(&mut |n| Argument::from(format!("%{}", places.get(&n).copied().unwrap_or(0))));
            format!("{numbered:?}")
        };
        g.nodes()
            .map(|n| {
                let d = g.node(n);
                let target =
                    if matches!(d.op, Op::CallFunction | Op::GetAttr) { d.target.as_str() } else { "" };
                let args: Vec<String> = d.args().iter().map(&shown).collect();
                let kwargs: Vec<String> =
                    d.kwargs().iter().map(|(k, a)| format!("{k}={}", shown(a))).collect();
                format!("{}[{target}]({}; {})", d.op.name(), args.join(", "), kwargs.join(", "))
            })
            .collect()
    };
    a.len() == b.len() && text(a) == text(b)
}
impl Units {
    /// Calls of a module that do the same become calls of one.
    pub fn deduplicate(&mut self) -> Result<()> {
        for c in 0..self.calls.len() {
            for i in 0..self.calls[c].1.len() {
                let entry = &self.calls[c].1[i];
                let own = accessor(&entry.parent_fqn, &call_name(&entry.fqn, entry.number))?;
                let (parent, call, unit) = (entry.parent, entry.call, entry.unit);
                let mut replaced = false;
                for j in 0..i {
                    let (entry, seen): (&Entry, &Entry) = (&self.calls[c].1[i], &self.calls[c].1[j]);
                    if !alike(&self.units[seen.unit].graph, &self.units[unit].graph) {
                        continue;
                    }
                    if seen.fqn == entry.fqn {
                        let target = accessor(&entry.parent_fqn, &call_name(&seen.fqn, seen.number))?;
                        if target != own {
                            let (again, first) =
                                (call_name(&entry.fqn, entry.number), call_name(&seen.fqn, seen.number));
                            self.redirected.insert(again, first);
                            self.remove(parent, &own);
                        }
                        self.units[parent].graph.set_target(call, &target);
                        break;
                    }
                    if !replaced {
                        let other = seen.unit;
                        self.put(parent, &own, other, &mut |units, _| units.empty());
                        replaced = true;
                    }
                }
            }
        }
        Ok(())
    }
    /// Modules in the order in which the program names them; those without steps are there too.
    pub fn ordered<'a>(&mut self, paths: impl Iterator<Item = &'a str>) {
        let mut order: HashMap<String, usize> = HashMap::new();
        for path in paths.filter(|p| !p.contains('@')) {
            if self.at(0, path).is_none() {
                let new = self.empty();
                self.put(0, path, new, &mut |units, _| units.empty());
            }
            let next = order.len();
            order.entry(path.to_string()).or_insert(next);
        }
        self.order(0, "", &order, 0);
    }
    fn order(&mut self, unit: usize, front: &str, order: &HashMap<String, usize>, depth: usize) {
        if depth > flambeau_core::types::deep::LEVELS {
            return;
        }
        for (name, child) in self.children(unit).to_vec() {
            let inside = format!("{front}{}.", name.split('@').next().unwrap_or(&name));
            self.order(child, &inside, order, depth + 1);
        }
        let table = self.units[unit].table;
        self.tables[table].sort_by_key(|(name, _)| {
            let path = format!("{front}{name}");
            let base = path.split('@').next().unwrap_or(&path);
            order.get(&path).or_else(|| order.get(base)).copied().unwrap_or(order.len())
        });
    }
    /// The modules as graphs that hold graphs, and all paths.
    pub fn finished(self) -> Result<(GraphModule, Vec<String>)> {
        let mut paths = Vec::new();
        let root = self.build(0, "", &mut paths, 0)?;
        Ok((root, paths))
    }
    fn build(&self, unit: usize, front: &str, paths: &mut Vec<String>, depth: usize) -> Result<GraphModule> {
        if depth > flambeau_core::types::deep::LEVELS {
            return Err(Error::runtime("modules that are nested too deeply"));
        }
        let u = &self.units[unit];
        let mut m = GraphModule::new(u.graph.clone());
        for (name, child) in self.children(unit) {
            let path = format!("{front}{name}");
            paths.push(path.clone());
            let front = format!("{path}.");
            let dispatch = &self.units[*child].dispatch;
            if dispatch.is_empty() {
                m.set_graph(name, self.build(*child, &front, paths, depth + 1)?);
                continue;
            }
            let mut all = Vec::new();
            for (i, u) in dispatch.iter().enumerate() {
                // the modules within are the same for all calls, and shown once
                let mut more = Vec::new();
                all.push(self.build(*u, &front, if i == 0 { paths } else { &mut more }, depth + 1)?);
            }
            m.set_value(name, Units::dispatcher(all));
        }
        for (name, v) in &u.specs {
            m.set_value(name, v.clone());
        }
        for (path, t) in &u.tensors {
            // a weight of a module within stands there for its own graph; this graph reads it from here
            m.set(path, t.clone());
        }
        for (name, v) in &u.graphs {
            let path = format!("{front}{name}");
            if !paths.contains(&path) {
                paths.push(path.clone());
                if let Value::Object(o) = v
                    && let Some(g) = o.downcast::<GraphModule>()
                {
                    paths.extend(g.module_paths().into_iter().skip(1).map(|p| format!("{path}.{p}")));
                }
            }
            m.set_value(name, v.clone());
        }
        Ok(m)
    }
}
