//! Parts of a graph that look like another one.

use crate::argument::{Argument, same_value};
use crate::graph::Graph;
use crate::module::GraphModule;
use crate::node::{Node, Op};
use flambeau_core::{Result, Value, ensure};
use std::collections::{HashMap, HashSet};

/// Where a pattern was found.
#[derive(Clone, Debug)]
pub struct Match {
    /// The node from which it was found.
    pub anchor: Node,
    /// For each node of the pattern, in the order in which they were found, what stands for it: a node, or a constant where the
    /// pattern has an input.
    pub nodes: Vec<(Node, Argument)>,
    /// What stands for the pattern's inputs.
    pub inputs: Vec<Argument>,
    /// The nodes whose results are the pattern's.
    pub results: Vec<Node>,
}
impl Match {
    fn of(&self, n: Node) -> Option<&Argument> {
        self.nodes.iter().find(|(p, _)| *p == n).map(|(_, a)| a)
    }
}

/// Finds a pattern in graphs. The pattern's inputs stand for anything; what it computes inside is used nowhere else.
///
/// ```
/// use torch::fx::Graph;
/// use torch::fx::passes::{Match, SubgraphMatcher};
/// let chain = |names: &[&str]| {
///     let mut g = Graph::new();
///     let mut last = g.placeholder("x");
///     for name in names {
///         last = g.call_function(name, [last], []);
///     }
///     g.output(last);
///     g
/// };
/// let (program, pattern) = (chain(&["torch.exp", "torch.relu", "torch.exp"]), chain(&["torch.relu"]));
/// let found: Vec<Match> = SubgraphMatcher::new(&pattern)?.find(&program);
/// assert_eq!(found.len(), 1);
/// assert_eq!(program.node(found[0].results[0]).target, "torch.relu");
/// # Ok::<(), torch::Error>(())
/// ```
pub struct SubgraphMatcher<'a> {
    pattern: &'a Graph,
    /// Constants in the pattern stand for any.
    ignore_literals: bool,
    inputs: Vec<Node>,
    results: Vec<Node>,
    anchors: Vec<Node>,
}
impl<'a> SubgraphMatcher<'a> {
    /// For a pattern.
    ///
    /// # Errors
    /// A pattern without nodes, without output, or with nodes that it does not use.
    pub fn new(pattern: &'a Graph) -> Result<SubgraphMatcher<'a>> {
        ensure!(!pattern.is_empty(), Value, "SubgraphMatcher cannot be initialized with an empty pattern");
        for n in pattern.nodes() {
            let dead = pattern.node(n).users().is_empty() && pattern.node(n).op != Op::Output;
            ensure!(
                !dead || pattern.is_impure(n),
                Assertion,
                "SubgraphMatcher cannot be initialized with a pattern with dead code"
            );
        }
        let Some(out) = pattern.output_node() else {
            return Err(flambeau_core::Error::value("a pattern without output"));
        };
        let results = pattern.node(out).input_nodes();
        let anchors = results.iter().copied().filter(|n| pattern.node(*n).users().len() == 1).collect();
        let inputs = pattern.find_nodes(Op::Placeholder, None);
        Ok(SubgraphMatcher { pattern, ignore_literals: false, inputs, results, anchors })
    }
    /// Constants in the pattern stand for any.
    pub fn ignore_literals(mut self, on: bool) -> Self {
        self.ignore_literals = on;
        self
    }
    /// All places, from the end of the graph to its beginning, none of which shares nodes with one before it.
    pub fn find(&self, g: &Graph) -> Vec<Match> {
        let mut all: Vec<Match> = Vec::new();
        let Some((first, rest)) = self.anchors.split_first() else { return all };
        let nodes: Vec<Node> = g.nodes().collect();
        let mut taken: HashSet<Node> = HashSet::new();
        for n in nodes.iter().rev().filter(|n| self.alike(*first, **n, g)) {
            let start = Match { anchor: *n, nodes: Vec::new(), inputs: Vec::new(), results: Vec::new() };
            let Some(mut m) = self.matched(*first, *n, g, &start) else { continue };
            // further ends of the pattern: the first that fits
            let complete = rest.iter().all(|a| {
                let found = nodes.iter().rev().find_map(|n| self.matched(*a, *n, g, &m));
                match found {
                    Some(f) => {
                        m = f;
                        true
                    }
                    None => false,
                }
            });
            if !complete || !self.is_contained(&m, g) {
                continue;
            }
            m.inputs = self.inputs.iter().filter_map(|p| m.of(*p).cloned()).collect();
            m.results = self.results.iter().filter_map(|p| m.of(*p)?.node()).collect();
            if m.inputs.len() != self.inputs.len() {
                continue;
            }
            let inner: Vec<Node> = m
                .nodes
                .iter()
                .filter(|(p, _)| !matches!(self.pattern.node(*p).op, Op::Placeholder | Op::Output))
                .filter_map(|(_, a)| a.node())
                .collect();
            if inner.iter().any(|n| taken.contains(n)) {
                continue;
            }
            taken.extend(inner);
            all.push(m);
        }
        all
    }
    fn alike(&self, p: Node, n: Node, g: &Graph) -> bool {
        let (p, d) = (self.pattern.node(p), g.node(n));
        p.op == Op::Placeholder
            || (p.op == d.op && (matches!(p.op, Op::GetAttr | Op::Output) || p.target == d.target))
    }
    fn matched(&self, p: Node, n: Node, g: &Graph, so_far: &Match) -> Option<Match> {
        if let Some(a) = so_far.of(p) {
            return (a.node() == Some(n)).then(|| so_far.clone());
        }
        if so_far.nodes.iter().any(|(_, a)| a.node() == Some(n)) || !self.alike(p, n, g) {
            return None;
        }
        let mut m = so_far.clone();
        m.nodes.push((p, Argument::Node(n)));
        let (pd, d) = (self.pattern.node(p), g.node(n));
        if pd.op == Op::Placeholder {
            return Some(m);
        }
        let keys = |l: &[(String, Argument)]| l.iter().map(|(k, _)| k.clone()).collect::<Vec<_>>();
        if keys(pd.kwargs()) != keys(d.kwargs()) {
            return None;
        }
        m = self.all(pd.args(), d.args(), g, m)?;
        for ((_, a), (_, b)) in pd.kwargs().iter().zip(d.kwargs()) {
            m = self.one(a, b, g, m)?;
        }
        Some(m)
    }
    fn all(&self, p: &[Argument], a: &[Argument], g: &Graph, mut m: Match) -> Option<Match> {
        if p.len() != a.len() {
            return None;
        }
        for (p, a) in p.iter().zip(a) {
            m = self.one(p, a, g, m)?;
        }
        Some(m)
    }
    fn one(&self, p: &Argument, a: &Argument, g: &Graph, mut m: Match) -> Option<Match> {
        match (p, a) {
            (Argument::Node(p), Argument::Node(n)) => self.matched(*p, *n, g, &m),
            (Argument::Node(p), constant) if self.pattern.node(*p).op == Op::Placeholder => match m.of(*p) {
                Some(known) => known.same(constant).then_some(m),
                None => {
                    m.nodes.push((*p, constant.clone()));
                    Some(m)
                }
            },
            (Argument::List(p) | Argument::Tuple(p), Argument::List(a) | Argument::Tuple(a)) => {
                self.all(p, a, g, m)
            }
            (Argument::Value(p), Argument::Value(a)) => {
                (self.ignore_literals || same_value(p, a)).then_some(m)
            }
            (Argument::Node(_), _) | (_, Argument::Node(_)) => None,
            (p, a) => (self.ignore_literals || p.same(a)).then_some(m),
        }
    }
    /// Whether nothing else uses what the pattern computes inside.
    fn is_contained(&self, m: &Match, g: &Graph) -> bool {
        let inner: HashMap<Node, Node> = m
            .nodes
            .iter()
            .filter(|(p, _)| self.pattern.node(*p).op != Op::Placeholder)
            .filter_map(|(p, a)| Some((a.node()?, *p)))
            .collect();
        inner.iter().all(|(n, p)| {
            self.results.contains(p) || g.node(*n).users().iter().all(|u| inner.contains_key(u))
        })
    }
}

/// A place where a pattern was, with what is there now.
#[derive(Clone, Debug)]
pub struct Replaced {
    /// Where the pattern was. Its nodes are no more.
    pub found: Match,
    /// The names of the pattern's nodes, and of what stood for them.
    pub names: Vec<(String, String)>,
    /// The nodes that took its place.
    pub nodes: Vec<Node>,
}

/// Replaces a pattern by other nodes wherever it is found: both are graphs with the same inputs and as many results.
///
/// ```
/// use torch::fx::passes::{Replaced, replace_pattern, replace_pattern_where};
/// use torch::fx::{Graph, GraphModule};
/// let one = |name: &str| {
///     let mut g = Graph::new();
///     let x = g.placeholder("x");
///     let y = g.call_function(name, [x], []);
///     g.output(y);
///     g
/// };
/// let mut m = GraphModule::new(one("torch.relu"));
/// assert!(replace_pattern_where(&mut m, &one("torch.relu"), &one("torch.exp"), &|_, _| false)?.is_empty());
/// let places: Vec<Replaced> = replace_pattern(&mut m, &one("torch.relu"), &one("torch.exp"))?;
/// assert_eq!(places.len(), 1);
/// assert_eq!(m.try_forward(&[&torch::zeros([1])])?.item::<f32>(), 1.0);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// A pattern that cannot be looked for; a replacement with other numbers of inputs or results.
pub fn replace_pattern(m: &mut GraphModule, pattern: &Graph, replacement: &Graph) -> Result<Vec<Replaced>> {
    replace_pattern_where(m, pattern, replacement, &|_, _| true)
}
/// The same where a function says yes.
///
/// # Errors
/// As [`replace_pattern`].
pub fn replace_pattern_where(
    m: &mut GraphModule,
    pattern: &Graph,
    replacement: &Graph,
    keep: &dyn Fn(&Match, &Graph) -> bool,
) -> Result<Vec<Replaced>> {
    let matcher = SubgraphMatcher::new(pattern)?;
    let found = matcher.find(&m.graph);
    let g = &mut m.graph;
    let mut changed: HashMap<Node, Argument> = HashMap::new();
    let mut out = Vec::new();
    for f in found {
        if !keep(&f, g) {
            continue;
        }
        let inputs = replacement.find_nodes(Op::Placeholder, None);
        ensure!(
            inputs.len() == f.inputs.len(),
            Assertion,
            "Placeholder count mismatch: {} vs {}",
            f.inputs.len(),
            inputs.len()
        );
        let names = f
            .nodes
            .iter()
            .map(|(p, a)| {
                let now = match a {
                    Argument::Node(n) => changed.get(n).unwrap_or(a).clone(),
                    a => a.clone(),
                };
                let shown = match &now {
                    Argument::Node(n) => g.shown(*n).to_string(),
                    Argument::Value(Value::Str(s)) => s.clone(),
                    a => g.python(a),
                };
                (pattern.node(*p).name.clone(), shown)
            })
            .collect();
        let mut env: HashMap<Node, Argument> = HashMap::new();
        for (p, a) in inputs.iter().zip(&f.inputs) {
            env.insert(*p, a.map(&mut |n| changed.get(&n).cloned().unwrap_or(Argument::Node(n))));
        }
        let users: HashSet<Node> = f.results.iter().flat_map(|n| g.node(*n).users().to_vec()).collect();
        let before = g.nodes().find(|n| users.contains(n));
        let before = before.or_else(|| {
            let last = g.nodes().rfind(|n| f.results.contains(n))?;
            g.next(last)
        });
        match before {
            Some(n) => g.inserting_before(n),
            None => g.inserting_at_end(),
        }
        let (mut nodes, mut results) = (Vec::new(), Vec::new());
        for n in replacement.nodes() {
            let d = replacement.node(n);
            match d.op {
                Op::Placeholder => continue,
                Op::Output => {
                    let mut known = |n: Node| env.get(&n).cloned().unwrap_or(Argument::NONE);
                    results = match d.args().first().map(|a| a.map(&mut known)) {
                        Some(a) => a.items().map_or_else(|| vec![a.clone()], <[Argument]>::to_vec),
                        None => Vec::new(),
                    };
                }
                _ => {
                    let mut known = |n: Node| env.get(&n).cloned().unwrap_or(Argument::NONE);
                    let new = g.node_copy(replacement, n, &mut known);
                    env.insert(n, new.into());
                    nodes.push(new);
                }
            }
        }
        g.inserting_at_end();
        ensure!(
            results.len() == f.results.len(),
            Assertion,
            "Returning nodes count mismatch: {} vs {}",
            f.results.len(),
            results.len()
        );
        for (old, new) in f.results.iter().zip(&results) {
            for u in g.node(*old).users().to_vec() {
                let d = g.node(u);
                let mut map = |n: Node| if n == *old { new.clone() } else { Argument::Node(n) };
                let args = d.args().iter().map(|a| a.map(&mut map)).collect();
                let kwargs = d.kwargs().iter().map(|(k, a)| (k.clone(), a.map(&mut map))).collect();
                g.set_args(u, args);
                g.set_kwargs(u, kwargs);
            }
            changed.insert(*old, new.clone());
        }
        for (p, a) in f.nodes.iter() {
            let inner = !matches!(pattern.node(*p).op, Op::Placeholder | Op::Output);
            if let (true, Argument::Node(n)) = (inner, a)
                && g.has(*n)
                && g.node(*n).users().is_empty()
            {
                g.erase_node(*n)?;
            }
        }
        out.push(Replaced { found: f, names, nodes });
    }
    Ok(out)
}
