//! Graphs.

use crate::argument::Argument;
use crate::code::CodeGen;
use crate::meta::Meta;
use crate::namespace::Namespace;
use crate::node::{Node, NodeData, Op};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::types::deep;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

static NUMBERS: AtomicU32 = AtomicU32::new(1);

/// Names of a graph's nodes, by number: errors of other graphs show them.
type Names = Arc<Mutex<Vec<String>>>;
static NAMES: Mutex<BTreeMap<u32, Weak<Mutex<Vec<String>>>>> = Mutex::new(BTreeMap::new());

/// A number and a list of names for a new graph.
fn enter(names: Vec<String>) -> (u32, Names) {
    let id = NUMBERS.fetch_add(1, Ordering::Relaxed);
    let names = Arc::new(Mutex::new(names));
    let mut all = NAMES.lock().unwrap_or_else(|e| e.into_inner());
    all.insert(id, Arc::downgrade(&names));
    (id, names)
}
/// The name of a node of another graph, if that is still there.
fn foreign(n: Node) -> Option<String> {
    let names = NAMES.lock().unwrap_or_else(|e| e.into_inner()).get(&n.graph)?.upgrade()?;
    let names = names.lock().unwrap_or_else(|e| e.into_inner());
    names.get(n.index as usize).cloned()
}
/// Panics where arguments are nested more deeply than those of calls may be.
#[track_caller]
fn shallow(args: &[Argument], kwargs: &[(String, Argument)]) {
    expect(deep::check(args).and_then(|()| deep::check(kwargs.iter().map(|(_, a)| a))));
}
impl Drop for Graph {
    fn drop(&mut self) {
        NAMES.lock().unwrap_or_else(|e| e.into_inner()).remove(&self.id);
    }
}

/// A program as a list of nodes, each of which may use the results of those before it.
///
/// Nodes are added where the insertion point is: at the end, or where [`inserting_before`](Graph::inserting_before) and
/// [`inserting_after`](Graph::inserting_after) put it.
///
/// ```
/// use torch::fx::Graph;
///
/// let mut g = Graph::new();
/// let x = g.placeholder("x");
/// let y = g.call_function("torch.relu", [x], []);
/// g.output(y);
/// assert_eq!(
///     g.to_string(),
///     "graph():\n    %x : [num_users=1] = placeholder[target=x]\n    %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})\n    return relu"
/// );
/// ```
#[doc(alias = "torch.fx.Graph")]
#[derive(Debug)]
pub struct Graph {
    id: u32,
    names: Names,
    nodes: Vec<Option<NodeData>>,
    first: Option<u32>,
    last: Option<u32>,
    len: usize,
    /// Counts changes of what the program does.
    version: u64,
    /// New nodes come before it; at the end if there is none.
    before: Option<u32>,
    namespace: Namespace,
    /// How the program's text begins and ends.
    pub codegen: CodeGen,
}
impl Default for Graph {
    fn default() -> Graph {
        Graph::new()
    }
}
/// The same nodes in a graph of its own.
impl Clone for Graph {
    fn clone(&self) -> Graph {
        let names = self.names.lock().unwrap_or_else(|e| e.into_inner()).clone();
        let (id, names) = enter(names);
        let own = |n: Node| if n.graph == self.id { Node { graph: id, index: n.index } } else { n };
        let mut nodes = self.nodes.clone();
        for d in nodes.iter_mut().flatten() {
            let mut map = |n| Argument::Node(own(n));
            d.args = d.args.iter().map(|a| a.map(&mut map)).collect();
            d.kwargs = d.kwargs.iter().map(|(k, a)| (k.clone(), a.map(&mut map))).collect();
            d.users = d.users.iter().map(|n| own(*n)).collect();
            d.meta.held_until = d.meta.held_until.map(own);
            d.meta.writes.iter_mut().for_each(|n| *n = own(*n));
            d.meta.unused.iter_mut().for_each(|u| u.1 = u.1.map(own));
        }
        Graph {
            id,
            names,
            nodes,
            first: self.first,
            last: self.last,
            len: self.len,
            version: self.version,
            before: self.before,
            namespace: self.namespace.clone(),
            codegen: self.codegen.clone(),
        }
    }
}

impl Graph {
    /// A graph without nodes.
    pub fn new() -> Graph {
        let (id, names) = enter(Vec::new());
        Graph {
            id,
            names,
            nodes: Vec::new(),
            first: None,
            last: None,
            len: 0,
            version: 0,
            before: None,
            namespace: Namespace::default(),
            codegen: CodeGen::Plain,
        }
    }
    fn node_of(&self, index: u32) -> Node {
        Node { graph: self.id, index }
    }
    fn find(&self, n: Node) -> Option<&NodeData> {
        if n.graph != self.id {
            return None;
        }
        self.nodes.get(n.index as usize)?.as_ref()
    }
    /// Whether the node is one of this graph's.
    pub fn has(&self, n: Node) -> bool {
        self.find(n).is_some()
    }
    /// What a node says.
    ///
    /// # Panics
    /// If the node is another graph's, or was erased; [`has`](Graph::has) asks.
    #[track_caller]
    pub fn node(&self, n: Node) -> &NodeData {
        self.find(n).expect("the node is another graph's, or was erased")
    }
    #[track_caller]
    fn data(&mut self, n: Node) -> &mut NodeData {
        assert_eq!(n.graph, self.id, "the node is another graph's");
        self.version += 1;
        self.nodes[n.index as usize].as_mut().expect("the node was erased")
    }
    /// Which graph this is, and how often it was changed: what was found out about a program holds while this stays.
    pub(crate) fn version(&self) -> (u32, u64) {
        (self.id, self.version)
    }
    /// A node's target, to be changed.
    ///
    /// # Panics
    /// As [`node`](Graph::node).
    #[track_caller]
    pub fn set_target(&mut self, n: Node, target: &str) {
        self.data(n).target = target.to_string();
    }
    /// What is known of a node, to be changed.
    ///
    /// # Panics
    /// As [`node`](Graph::node).
    #[track_caller]
    pub fn meta_mut(&mut self, n: Node) -> &mut Meta {
        &mut self.data(n).meta
    }
    /// Notes the type that Python's program would annotate.
    ///
    /// # Panics
    /// As [`node`](Graph::node).
    #[track_caller]
    pub fn set_type(&mut self, n: Node, name: Option<&str>) {
        self.data(n).type_name = name.map(str::to_string);
    }
    /// Gives a node another name, which must have come from [`create_name`](Graph::create_name).
    ///
    /// # Panics
    /// As [`node`](Graph::node).
    #[track_caller]
    pub fn rename(&mut self, n: Node, name: &str) {
        self.data(n).name = name.to_string();
        if let Some(own) = self.names.lock().unwrap_or_else(|e| e.into_inner()).get_mut(n.index as usize) {
            *own = name.to_string();
        }
    }
    /// All nodes in order.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = Node> + '_ {
        let mut all = Vec::with_capacity(self.len);
        let mut at = self.first;
        while let Some(i) = at {
            all.push(self.node_of(i));
            at = self.nodes[i as usize].as_ref().and_then(|d| d.next);
        }
        all.into_iter()
    }
    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// How many numbers nodes may have: what tables over nodes need.
    pub(crate) fn capacity(&self) -> usize {
        self.nodes.len()
    }
    /// The node that comes last.
    pub(crate) fn last_node(&self) -> Option<Node> {
        self.last.map(|i| self.node_of(i))
    }
    /// The output node, if there is one.
    pub fn output_node(&self) -> Option<Node> {
        let last = self.node_of(self.last?);
        (self.node(last).op == Op::Output).then_some(last)
    }
    /// The nodes of a kind, with that target if one is given, in order.
    pub fn find_nodes(&self, op: Op, target: Option<&str>) -> Vec<Node> {
        self.nodes()
            .filter(|n| {
                let d = self.node(*n);
                d.op == op && target.is_none_or(|t| d.target == t)
            })
            .collect()
    }
    /// The node of that name.
    pub fn named(&self, name: &str) -> Option<Node> {
        self.nodes().find(|n| self.node(*n).name == name)
    }
    /// The node before this one.
    pub fn prev(&self, n: Node) -> Option<Node> {
        self.find(n)?.prev.map(|i| self.node_of(i))
    }
    /// The node after this one.
    pub fn next(&self, n: Node) -> Option<Node> {
        self.find(n)?.next.map(|i| self.node_of(i))
    }
    /// A name that no node has.
    pub fn create_name(&mut self, wish: &str) -> String {
        self.namespace.create(wish)
    }
    /// Puts the insertion point before a node.
    pub fn inserting_before(&mut self, n: Node) {
        self.before = self.has(n).then_some(n.index);
    }
    /// Puts the insertion point behind a node. Nodes added one after the other come in that order.
    pub fn inserting_after(&mut self, n: Node) {
        self.before = self.find(n).and_then(|d| d.next);
    }
    /// Puts the insertion point at the end.
    pub fn inserting_at_end(&mut self) {
        self.before = None;
    }
    fn link(&mut self, index: u32, before: Option<u32>) {
        self.version += 1;
        let prev = match before {
            Some(b) => self.nodes[b as usize].as_ref().and_then(|d| d.prev),
            None => self.last,
        };
        if let Some(d) = self.nodes[index as usize].as_mut() {
            (d.prev, d.next) = (prev, before);
        }
        match prev.and_then(|p| self.nodes[p as usize].as_mut()) {
            Some(d) => d.next = Some(index),
            None => self.first = Some(index),
        }
        match before.and_then(|b| self.nodes[b as usize].as_mut()) {
            Some(d) => d.prev = Some(index),
            None => self.last = Some(index),
        }
        self.len += 1;
    }
    fn unlink(&mut self, index: u32) {
        self.version += 1;
        let Some((prev, next)) = self.nodes[index as usize].as_ref().map(|d| (d.prev, d.next)) else {
            return;
        };
        match prev.and_then(|p| self.nodes[p as usize].as_mut()) {
            Some(d) => d.next = next,
            None => self.first = next,
        }
        match next.and_then(|n| self.nodes[n as usize].as_mut()) {
            Some(d) => d.prev = prev,
            None => self.last = prev,
        }
        self.len -= 1;
        if self.before == Some(index) {
            self.before = next;
        }
    }
    /// Adds a node at the insertion point. `name` is a wish; without one it follows from the target.
    ///
    /// # Panics
    /// If arguments are nested too deeply for a call; [`create_named`](Graph::create_named) has an error.
    #[track_caller]
    pub fn create_node(
        &mut self,
        op: Op,
        target: &str,
        args: Vec<Argument>,
        kwargs: Vec<(String, Argument)>,
        name: Option<&str>,
    ) -> Node {
        shallow(&args, &kwargs);
        let wish = match name {
            Some(n) => n.to_string(),
            None => wish(op, target),
        };
        let name = self.namespace.create(&wish);
        self.push(op, target, name, args, kwargs)
    }
    /// Adds a node under exactly that name.
    ///
    /// # Errors
    /// A name that is taken; arguments that are nested too deeply for a call.
    pub fn create_named(
        &mut self,
        op: Op,
        target: &str,
        args: Vec<Argument>,
        kwargs: Vec<(String, Argument)>,
        name: &str,
    ) -> Result<Node> {
        if self.namespace.is_taken(name) {
            return Err(Error::value(format!("the graph has a node '{name}' already")));
        }
        deep::check(&args)?;
        deep::check(kwargs.iter().map(|(_, a)| a))?;
        self.namespace.take(name);
        Ok(self.push(op, target, name.to_string(), args, kwargs))
    }
    fn push(
        &mut self,
        op: Op,
        target: &str,
        name: String,
        args: Vec<Argument>,
        kwargs: Vec<(String, Argument)>,
    ) -> Node {
        let index = self.nodes.len() as u32;
        self.names.lock().unwrap_or_else(|e| e.into_inner()).push(name.clone());
        self.nodes.push(Some(NodeData {
            op,
            name,
            target: target.to_string(),
            type_name: None,
            meta: Meta::default(),
            args,
            kwargs,
            users: Vec::new(),
            prev: None,
            next: None,
        }));
        self.link(index, self.before);
        let n = self.node_of(index);
        self.add_uses(n);
        n
    }
    fn add_uses(&mut self, n: Node) {
        for input in self.node(n).input_nodes() {
            if self.has(input) {
                let users = &mut self.data(input).users;
                if !users.contains(&n) {
                    users.push(n);
                }
            }
        }
    }
    fn drop_uses(&mut self, n: Node) {
        for input in self.node(n).input_nodes() {
            if self.has(input) {
                self.data(input).users.retain(|u| *u != n);
            }
        }
    }
    /// An input.
    pub fn placeholder(&mut self, name: &str) -> Node {
        self.create_node(Op::Placeholder, name, Vec::new(), Vec::new(), None)
    }
    /// An input with a default.
    pub fn placeholder_or(&mut self, name: &str, default: impl Into<Argument>) -> Node {
        self.create_node(Op::Placeholder, name, vec![default.into()], Vec::new(), None)
    }
    /// What stands at a dotted path of the module.
    pub fn get_attr(&mut self, path: &str) -> Node {
        self.create_node(Op::GetAttr, path, Vec::new(), Vec::new(), None)
    }
    /// A call of a function.
    pub fn call_function<A: Into<Argument>>(
        &mut self,
        target: &str,
        args: impl IntoIterator<Item = A>,
        kwargs: impl IntoIterator<Item = (&'static str, Argument)>,
    ) -> Node {
        self.call(Op::CallFunction, target, args, kwargs)
    }
    /// A call of a method of the first argument.
    pub fn call_method<A: Into<Argument>>(
        &mut self,
        name: &str,
        args: impl IntoIterator<Item = A>,
        kwargs: impl IntoIterator<Item = (&'static str, Argument)>,
    ) -> Node {
        self.call(Op::CallMethod, name, args, kwargs)
    }
    /// A call of the module at a dotted path.
    pub fn call_module<A: Into<Argument>>(
        &mut self,
        path: &str,
        args: impl IntoIterator<Item = A>,
        kwargs: impl IntoIterator<Item = (&'static str, Argument)>,
    ) -> Node {
        self.call(Op::CallModule, path, args, kwargs)
    }
    fn call<A: Into<Argument>>(
        &mut self,
        op: Op,
        target: &str,
        args: impl IntoIterator<Item = A>,
        kwargs: impl IntoIterator<Item = (&'static str, Argument)>,
    ) -> Node {
        let args = args.into_iter().map(Into::into).collect();
        let kwargs = kwargs.into_iter().map(|(k, v)| (k.to_string(), v)).collect();
        self.create_node(op, target, args, kwargs, None)
    }
    /// What the graph gives.
    pub fn output(&mut self, result: impl Into<Argument>) -> Node {
        self.create_node(Op::Output, "output", vec![result.into()], Vec::new(), None)
    }
    /// Gives a node other positional arguments.
    ///
    /// # Panics
    /// As [`node`](Graph::node).
    #[track_caller]
    pub fn set_args(&mut self, n: Node, args: Vec<Argument>) {
        shallow(&args, &[]);
        self.drop_uses(n);
        self.data(n).args = args;
        self.add_uses(n);
    }
    /// Gives a node other keyword arguments.
    ///
    /// # Panics
    /// As [`node`](Graph::node).
    #[track_caller]
    pub fn set_kwargs(&mut self, n: Node, kwargs: Vec<(String, Argument)>) {
        shallow(&[], &kwargs);
        self.drop_uses(n);
        self.data(n).kwargs = kwargs;
        self.add_uses(n);
    }
    /// Puts `new` in place of `old` in the arguments of a node.
    ///
    /// # Panics
    /// As [`node`](Graph::node).
    #[track_caller]
    pub fn replace_input(&mut self, n: Node, old: Node, new: Node) {
        let mut map = |m: Node| Argument::Node(if m == old { new } else { m });
        let d = self.node(n);
        let args: Vec<Argument> = d.args.iter().map(|a| a.map(&mut map)).collect();
        let kwargs: Vec<_> = d.kwargs.iter().map(|(k, a)| (k.clone(), a.map(&mut map))).collect();
        self.drop_uses(n);
        let d = self.data(n);
        (d.args, d.kwargs) = (args, kwargs);
        self.add_uses(n);
    }
    /// Makes all users of `old` use `new`; gives them.
    ///
    /// # Panics
    /// As [`node`](Graph::node).
    #[track_caller]
    pub fn replace_all_uses_with(&mut self, old: Node, new: Node) -> Vec<Node> {
        let users = self.node(old).users.clone();
        for u in &users {
            self.replace_input(*u, old, new);
        }
        users
    }
    /// Moves a node behind another.
    ///
    /// # Panics
    /// As [`node`](Graph::node).
    #[track_caller]
    pub fn move_after(&mut self, n: Node, anchor: Node) {
        if n == anchor {
            return;
        }
        self.unlink(n.index);
        let before = self.node(anchor).next;
        self.link(n.index, before);
    }
    /// Moves a node before another.
    ///
    /// # Panics
    /// As [`node`](Graph::node).
    #[track_caller]
    pub fn move_before(&mut self, n: Node, anchor: Node) {
        if n == anchor {
            return;
        }
        self.unlink(n.index);
        self.link(n.index, Some(anchor.index));
    }
    /// Takes a node out.
    ///
    /// # Errors
    /// A node that others use, or that is not here.
    pub fn erase_node(&mut self, n: Node) -> Result<()> {
        let Some(d) = self.find(n) else {
            return Err(Error::runtime("Attempting to remove a node that is not in the graph"));
        };
        if !d.users.is_empty() {
            let users: Vec<String> =
                d.users.iter().map(|u| format!("{}: None", self.node(*u).name)).collect();
            return Err(Error::runtime(format!(
                "Tried to erase Node {} but it still had {} users in the graph: {{{}}}!",
                d.name,
                users.len(),
                users.join(", ")
            )));
        }
        self.drop_uses(n);
        self.unlink(n.index);
        self.nodes[n.index as usize] = None;
        Ok(())
    }
    /// Adds a copy of a node of another graph; `map` says what becomes of the nodes in its arguments.
    ///
    /// # Panics
    /// If the node is not one of `from`.
    pub fn node_copy(&mut self, from: &Graph, n: Node, map: &mut dyn FnMut(Node) -> Argument) -> Node {
        let d = from.node(n);
        let args = d.args.iter().map(|a| a.map(map)).collect();
        let kwargs = d.kwargs.iter().map(|(k, a)| (k.clone(), a.map(map))).collect();
        let new = self.create_node(d.op, &d.target, args, kwargs, Some(&d.name));
        let (meta, type_name) = (d.meta.clone(), d.type_name.clone());
        let own = self.data(new);
        (own.meta, own.type_name) = (meta, type_name);
        new
    }
    /// Adds copies of all nodes of another graph but its output; gives what the output says, in nodes of this graph. `map` has
    /// the nodes that are there already, and gets the others.
    ///
    /// # Panics
    /// If the other graph uses nodes before they are there.
    pub fn graph_copy(&mut self, from: &Graph, map: &mut HashMap<Node, Node>) -> Option<Argument> {
        for n in from.nodes() {
            if map.contains_key(&n) {
                continue;
            }
            let d = from.node(n);
            let mut known = |m: Node| Argument::Node(map[&m]);
            if d.op == Op::Output {
                return d.args.first().map(|a| a.map(&mut known));
            }
            let new = self.node_copy(from, n, &mut known);
            map.insert(n, new);
        }
        None
    }
    /// Checks that names are unique, and that nodes use nodes of this graph before them.
    ///
    /// # Errors
    /// Says which node does not.
    pub fn lint(&self) -> Result<()> {
        let (mut seen, mut names) = (HashSet::new(), HashSet::new());
        for n in self.nodes() {
            let d = self.node(n);
            for a in d.input_nodes() {
                match self.find(a) {
                    None => {
                        return Err(Error::runtime(format!(
                            "Argument '{}' of Node '{}' does not belong to this Graph, but was used as an argument! If you are \
                             copying nodes from another graph, make sure to use ``arg_transform`` on node_copy() to remap values\n{self}",
                            self.shown(a),
                            d.name
                        )));
                    }
                    Some(other) if !seen.contains(&a) => {
                        return Err(Error::runtime(format!(
                            "Argument '{}' of Node '{}' was used before it has been defined! Please check that Nodes in the graph \
                             are topologically ordered\n{self}",
                            other.name, d.name
                        )));
                    }
                    _ => {}
                }
            }
            seen.insert(n);
            if !names.insert(&d.name) {
                return Err(Error::runtime(format!("Node redefined name {}!", d.name)));
            }
        }
        Ok(())
    }
    /// A node's name, or what stands for a node of another graph.
    pub(crate) fn shown(&self, n: Node) -> Cow<'_, str> {
        match self.find(n) {
            Some(d) => Cow::Borrowed(&d.name),
            None => Cow::Owned(foreign(n).unwrap_or_else(|| "?".into())),
        }
    }
    /// Takes out nodes whose results nobody uses and that do nothing else; says whether there were any. `impure` says of calls
    /// that [`is_impure`](Graph::is_impure) does not know whether they do something else.
    pub fn eliminate_dead_code(&mut self, impure: &dyn Fn(&NodeData) -> bool) -> bool {
        let mut changed = false;
        let all: Vec<Node> = self.nodes().collect();
        for n in all.into_iter().rev() {
            let d = self.node(n);
            if d.users.is_empty() && !self.is_impure(n) && !impure(d) {
                changed |= self.erase_node(n).is_ok();
            }
        }
        changed
    }
    /// Whether the node does something beside its result: inputs, outputs, checks, random numbers, writes.
    pub fn is_impure(&self, n: Node) -> bool {
        let d = self.node(n);
        match d.op {
            Op::Placeholder | Op::Output => true,
            Op::CallFunction => crate::python::is_impure(&d.target),
            _ => false,
        }
    }
}
/// The name that a node wishes for.
fn wish(op: Op, target: &str) -> String {
    let t = match op {
        // an operator of one overload has its name too: `copy_.default`
        Op::CallFunction => match target.strip_prefix("torch.ops.").and_then(|t| t.split_once('.')) {
            Some((_, rest)) => rest,
            None => target.rsplit('.').next().unwrap_or(target),
        },
        _ => target,
    };
    let t = t.trim_start_matches('*').replace('.', "_");
    let t = match t.strip_prefix("__").and_then(|t| t.strip_suffix("__")) {
        Some(inner) if op != Op::Placeholder => inner.to_string(),
        _ => t,
    };
    // a capital after a small letter begins a word
    let mut out = String::new();
    let mut small = false;
    for c in t.chars() {
        if c.is_ascii_uppercase() && small {
            out.push('_');
        }
        small = c.is_ascii_lowercase();
        out.extend(c.to_lowercase());
    }
    out
}
