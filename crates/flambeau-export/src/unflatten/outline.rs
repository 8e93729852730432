//! A flat graph as graphs of the modules that its nodes stood in.

use super::kept::{Kept, shared};
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_fx::{Argument, Graph, GraphModule, Node, Op, Val};
use std::collections::{HashMap, HashSet};

/// A module: its graph, which is empty where it only holds others.
#[derive(Default)]
pub(super) struct Unit {
    pub graph: Graph,
    /// Which table has its modules: calls of one module share theirs.
    pub table: usize,
    /// Graphs of branches and loops, by name.
    pub graphs: Vec<(String, Value)>,
    /// Tensors that it reads, by path within it.
    pub tensors: Vec<(String, Tensor)>,
    /// How values of calls are built, by name.
    pub specs: Vec<(String, Value)>,
    /// The modules that it goes through, call by call; none if it is its own graph.
    pub dispatch: Vec<usize>,
}
/// A call of a module.
pub(super) struct Entry {
    pub parent_fqn: String,
    pub parent: usize,
    pub call: Node,
    pub fqn: String,
    /// Which call of it it is, from 1.
    pub number: usize,
    pub unit: usize,
}
/// All modules of a program; the first is the whole.
#[derive(Default)]
pub(super) struct Units {
    pub units: Vec<Unit>,
    /// Modules of modules, by name.
    pub tables: Vec<Vec<(String, usize)>>,
    /// The calls of each module, by its key.
    pub calls: Vec<(String, Vec<Entry>)>,
    /// Names of calls that do the same as earlier ones, with theirs.
    pub redirected: HashMap<String, String>,
}
impl Units {
    fn add(&mut self) -> usize {
        self.tables.push(Vec::new());
        self.units.push(Unit { table: self.tables.len() - 1, ..Unit::default() });
        self.units.len() - 1
    }
    pub fn children(&self, unit: usize) -> &[(String, usize)] {
        &self.tables[self.units[unit].table]
    }
    fn child(&self, unit: usize, name: &str) -> Option<usize> {
        self.children(unit).iter().find(|(n, _)| n == name).map(|(_, u)| *u)
    }
    /// The module at a path within another.
    pub fn at(&self, unit: usize, path: &str) -> Option<usize> {
        path.split('.').try_fold(unit, |u, name| self.child(u, name))
    }
    /// Puts a module at a path within another; `make` gives those on the way that are not there.
    pub fn put(
        &mut self,
        unit: usize,
        path: &str,
        new: usize,
        make: &mut dyn FnMut(&mut Units, &str) -> usize,
    ) {
        let (mut at, mut gone) = (unit, 0);
        while let Some(i) = path[gone..].find('.') {
            let name = &path[gone..gone + i];
            at = match self.child(at, name) {
                Some(u) => u,
                None => {
                    let u = make(self, &path[..gone + i]);
                    let table = self.units[at].table;
                    self.tables[table].push((name.to_string(), u));
                    u
                }
            };
            gone += i + 1;
        }
        let (table, name) = (self.units[at].table, &path[gone..]);
        match self.tables[table].iter_mut().find(|(n, _)| n == name) {
            Some(entry) => entry.1 = new,
            None => self.tables[table].push((name.to_string(), new)),
        }
    }
    /// Takes a module away.
    pub fn remove(&mut self, unit: usize, path: &str) {
        let (owner, name) = match path.rsplit_once('.') {
            Some((front, name)) => (self.at(unit, front), name),
            None => (Some(unit), path),
        };
        if let Some(owner) = owner {
            let table = self.units[owner].table;
            self.tables[table].retain(|(n, _)| n != name);
        }
    }
    /// An empty module.
    pub fn empty(&mut self) -> usize {
        self.add()
    }
}

/// The key of nodes that belong to no module.
const NOWHERE: &str = "_empty_nn_module_stack_from_metadata_hook";

/// Path, class, and which call of it it is, from 0.
type Level = (String, Option<String>, usize);
/// The modules around a node; none where the node does not say.
fn stack(all: &[(String, String, String)]) -> Vec<Level> {
    let mut out: Vec<Level> = Vec::new();
    for (key, path, class) in all {
        // what is not within the one before it does not belong to it
        if let Some((before, ..)) = out.last()
            && !(before.len() < path.len() && path.starts_with(before.as_str()))
        {
            break;
        }
        let call = key.rsplit_once('@').and_then(|(_, n)| n.parse().ok()).unwrap_or(0);
        out.push((path.clone(), (!path.is_empty()).then(|| class.clone()), call));
    }
    out
}
/// `block`, `block@1`, ...: the names of a module's calls.
pub(super) fn call_name(fqn: &str, number: usize) -> String {
    if number <= 1 { fqn.to_string() } else { format!("{fqn}@{}", number - 1) }
}
/// The way from one module to one within it.
pub(super) fn accessor(parent: &str, child: &str) -> Result<String> {
    if parent.is_empty() {
        return Ok(child.to_string());
    }
    match child.strip_prefix(parent).and_then(|rest| rest.strip_prefix('.')) {
        Some(rest) => Ok(rest.to_string()),
        None => Err(Error::runtime(format!(
            "Child module '{child}' is not a descendant of parent module '{parent}'.This is currently unsupported.Please try to \
             make child module attach to parent module directly."
        ))),
    }
}

/// A module whose nodes are being copied.
pub(super) struct Frame {
    fqn: String,
    pub(super) unit: usize,
    stack: Vec<Level>,
    /// Nodes of the flat graph with those that stand for them, in order.
    map: Vec<(Node, Node)>,
    by_node: HashMap<Node, Node>,
    pub(super) inputs: HashMap<Node, Node>,
    /// The call in the graph around.
    pub(super) call: Option<Node>,
    /// It is called with its own arguments.
    pub(super) kept: bool,
}
impl Frame {
    fn know(&mut self, old: Node, new: Node) {
        if self.by_node.insert(old, new).is_none() {
            self.map.push((old, new));
        }
    }
}
pub(super) struct Outliner<'a> {
    pub(super) flat: &'a GraphModule,
    nodes: Vec<Node>,
    pub(super) units: Units,
    pub(super) seen: HashSet<Node>,
    /// Modules that hold others and are not called yet, by path.
    created: HashMap<String, usize>,
    pub(super) frames: Vec<Frame>,
    kept: &'a Kept,
}

/// The modules of a program. Weights are still arguments of each call.
pub(super) fn outlined(flat: &GraphModule, kept: &Kept) -> Result<Units> {
    let nodes: Vec<Node> = flat.graph.nodes().collect();
    let mut units = Units::default();
    let root = units.add();
    let mut o = Outliner {
        flat,
        nodes,
        units,
        seen: HashSet::new(),
        created: HashMap::new(),
        frames: Vec::new(),
        kept,
    };
    o.frames.push(Frame {
        fqn: String::new(),
        unit: root,
        stack: vec![(String::new(), None, 0)],
        map: Vec::new(),
        by_node: HashMap::new(),
        inputs: HashMap::new(),
        call: None,
        kept: false,
    });
    let mut at = 0;
    while at < o.nodes.len() && flat.graph.node(o.nodes[at]).op == Op::Placeholder {
        o.copy(o.nodes[at])?;
        at += 1;
    }
    o.walk(at)?;
    if let Some(out) = flat.graph.output_node() {
        o.copy(out)?;
    }
    Ok(o.units)
}
impl Outliner<'_> {
    fn frame(&mut self) -> &mut Frame {
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }
    /// The node of a frame's graph that stands for one of the flat graph: an input, if it is made elsewhere.
    pub(super) fn mapped(&mut self, depth: usize, x: Node) -> Result<Node> {
        let f = &self.frames[depth];
        if let Some(n) = f.by_node.get(&x).or_else(|| f.inputs.get(&x)) {
            return Ok(*n);
        }
        let d = self.flat.graph.node(x);
        if f.kept && d.op != Op::Placeholder {
            return self.again(depth, x);
        }
        let (Some(call), false) = (f.call, depth == 0) else {
            return Err(Error::runtime(format!("'{}' is used before it is there", d.name)));
        };
        let graph = &mut self.units.units[f.unit].graph;
        let first = graph.nodes().next();
        match first {
            Some(n) => graph.inserting_before(n),
            None => graph.inserting_at_end(),
        }
        let new = graph.placeholder(&d.name);
        graph.inserting_at_end();
        *graph.meta_mut(new) = d.meta.clone();
        self.frames[depth].inputs.insert(x, new);
        // it is the call's first argument, as it is the graph's first input
        let outer = self.frames[depth - 1].unit;
        self.units.units[outer].graph.inserting_before(call);
        let arg = self.mapped(depth - 1, x)?;
        let graph = &mut self.units.units[outer].graph;
        graph.inserting_at_end();
        let mut args = vec![Argument::Node(arg)];
        args.extend(graph.node(call).args().iter().cloned());
        graph.set_args(call, args);
        Ok(new)
    }
    /// A node of numbers once more, in a module that cannot be given it.
    fn again(&mut self, depth: usize, x: Node) -> Result<Node> {
        if !shared(&self.flat.graph, x) {
            let name = &self.flat.graph.node(x).name;
            return Err(Error::missing(format!(
                "unflatten of a module that keeps how it is called and uses '{name}', which it is not given"
            )));
        }
        let new = self.copied(depth, x)?;
        self.frames[depth].know(x, new);
        Ok(new)
    }
    fn copied(&mut self, depth: usize, n: Node) -> Result<Node> {
        let mut map = HashMap::new();
        for x in self.flat.graph.node(n).input_nodes() {
            map.insert(x, self.mapped(depth, x)?);
        }
        let unit = &mut self.units.units[self.frames[depth].unit];
        Ok(unit.graph.node_copy(&self.flat.graph, n, &mut |x| match map.get(&x) {
            Some(y) => Argument::Node(*y),
            None => Argument::NONE,
        }))
    }
    fn copy(&mut self, n: Node) -> Result<()> {
        let depth = self.frames.len() - 1;
        let d = self.flat.graph.node(n);
        let new = self.copied(depth, n)?;
        let unit = &mut self.units.units[self.frames[depth].unit];
        if d.op == Op::GetAttr {
            unit.graphs.push((d.target.clone(), self.flat.get(&d.target)?));
        }
        self.frame().know(n, new);
        self.seen.insert(n);
        Ok(())
    }
    /// Goes into a module that a node stands in.
    fn enter(&mut self, level: &Level, key: &str, stack: Vec<Level>) -> Result<()> {
        let (fqn, _, call) = level;
        let parent = self.frames.len() - 1;
        let (parent_fqn, outer) = (self.frames[parent].fqn.clone(), self.frames[parent].unit);
        let unit = match self.created.get(fqn) {
            Some(u) => *u,
            None => self.units.add(),
        };
        let path = accessor(&parent_fqn, &call_name(fqn, call + 1))?;
        let created = &mut self.created;
        self.units.put(outer, &path, unit, &mut |units, way| {
            let whole = if parent_fqn.is_empty() { way.to_string() } else { format!("{parent_fqn}.{way}") };
            *created.entry(whole).or_insert_with(|| units.add())
        });
        let node = self.units.units[outer].graph.call_module(&path, Vec::<Argument>::new(), []);
        let id = key.split('@').next().unwrap_or(key).to_string();
        let entry = Entry { parent_fqn, parent: outer, call: node, fqn: fqn.clone(), number: call + 1, unit };
        match self.units.calls.iter_mut().find(|(k, _)| *k == id) {
            Some((_, all)) => {
                let first = self.units.units[all[0].unit].table;
                all.push(entry);
                self.units.units[unit].table = first;
            }
            None => self.units.calls.push((id, vec![entry])),
        }
        self.frames.push(Frame {
            fqn: fqn.clone(),
            unit,
            stack,
            map: Vec::new(),
            by_node: HashMap::new(),
            inputs: HashMap::new(),
            call: Some(node),
            kept: false,
        });
        match self.kept.get(&call_name(fqn, call + 1)) {
            Some(s) => self.takes(s),
            None => Ok(()),
        }
    }
    /// Comes back out of the innermost module: what others use is its result.
    fn leave(&mut self) -> Result<()> {
        let Some(f) = self.frames.pop() else { return Ok(()) };
        self.created.remove(&f.fqn);
        let number = f.stack.last().map_or(0, |l| l.2);
        if let Some(s) = self.kept.get(&call_name(&f.fqn, number + 1)) {
            let mut inside = f.inputs.clone();
            inside.extend(&f.by_node);
            let around = self.frames.last().map(|o| o.unit).zip(f.call);
            let parts = self.gives(s, f.unit, &inside, around)?;
            if let Some(outer) = self.frames.last_mut() {
                parts.into_iter().for_each(|(old, new)| outer.know(old, new));
            }
            return Ok(());
        }
        let g = &self.flat.graph;
        let results: Vec<(Node, Node)> = f
            .map
            .iter()
            .copied()
            .filter(|(old, _)| g.node(*old).users().iter().any(|u| !self.seen.contains(u)))
            .collect();
        let unit = &mut self.units.units[f.unit];
        match &results[..] {
            [(_, one)] => unit.graph.output(*one),
            all => unit.graph.output(Argument::List(all.iter().map(|(_, n)| Argument::Node(*n)).collect())),
        };
        let (Some(call), Some(outer)) = (f.call, self.frames.last_mut()) else { return Ok(()) };
        let graph = &mut self.units.units[outer.unit].graph;
        if let [(old, _)] = &results[..] {
            graph.meta_mut(call).val = g.node(*old).meta.val.clone();
            outer.know(*old, call);
            return Ok(());
        }
        for (i, (old, _)) in results.iter().enumerate() {
            let part = graph.call_function("operator.getitem", [call.into(), Argument::from(i as i64)], []);
            graph.meta_mut(part).val = g.node(*old).meta.val.clone();
            outer.know(*old, part);
        }
        Ok(())
    }
    fn walk(&mut self, from: usize) -> Result<()> {
        let mut at = from;
        while at < self.nodes.len() {
            let n = self.nodes[at];
            let d = self.flat.graph.node(n);
            if d.op == Op::Output {
                break;
            }
            let around = &d.meta.nn_module_stack;
            let mine = self.frame().stack.clone();
            let wanted = match &around[..] {
                // what PyTorch computed of sizes, wherever it is used first
                [(key, ..)] if key == NOWHERE => mine.clone(),
                [] if matches!(d.meta.val, Some(Val::Sym(_))) => mine.clone(),
                [] => vec![(String::new(), None, 0)],
                all => stack(all),
            };
            if wanted.get(..mine.len()) != Some(&mine[..]) {
                if self.frames.len() == 1 {
                    return Err(Error::runtime(format!("node '{}' stands in no module", d.name)));
                }
                self.leave()?;
            } else if wanted.len() > mine.len() {
                let level = wanted[mine.len()].clone();
                let key = around[mine.len()].0.clone();
                self.enter(&level, &key, wanted[..=mine.len()].to_vec())?;
            } else {
                self.copy(n)?;
                at += 1;
            }
        }
        while self.frames.len() > 1 {
            self.leave()?;
        }
        Ok(())
    }
}
