//! Modules whose way of being called was kept: they are called with their own arguments and give their own results.
//!
//! Around such a call stand steps that build the arguments of the leaves that the program has (`tree_unflatten`), and take the
//! leaves of the result (`tree_flatten_spec`); within the module it is the other way round.

use super::outline::{Outliner, Units, call_name};
use crate::control;
use crate::graph_signature::ArgumentSpec;
use crate::program::{ExportedProgram, ModuleCallSignature};
use crate::specs;
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef};
use flambeau_core::{Error, Result, Value};
use flambeau_fx::pytree::{Kind, TreeSpec};
use flambeau_fx::{Argument, Graph, GraphModule, Node, Op};
use std::any::Any;
use std::collections::{BTreeMap, HashMap};

use flambeau_core::types::order::Mutex;
use std::sync::PoisonError;

const UNFLATTEN: &str = "torch.utils._pytree.tree_unflatten";
const FLATTEN: &str = "torch.fx._pytree.tree_flatten_spec";

/// How calls of modules were kept, by the call's name.
pub(super) type Kept = HashMap<String, ModuleCallSignature>;
pub(super) fn kept(p: &ExportedProgram) -> Kept {
    let named = p.module_call_graph.iter().filter(|e| !e.fqn.is_empty());
    named.filter_map(|e| Some((e.fqn.clone(), e.signature.clone()?))).collect()
}

/// How values are built, as what stands at a path of a module.
struct Spec(TreeSpec);
impl Object for Spec {
    fn type_name(&self) -> &'static str {
        "TreeSpec"
    }
    fn repr(&self) -> String {
        self.0.repr()
    }
    fn method(&self, name: &str, _: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        Err(Error::attribute(format!("'TreeSpec' object has no attribute '{name}'")))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
/// What steps that build values and take them apart do; none for other targets.
pub(crate) fn call(target: &str, args: &[Value]) -> Option<Result<Value>> {
    let spec = |v: &Value| match v {
        Value::Object(o) => o.downcast::<Spec>().map(|s| s.0.clone()),
        _ => None,
    };
    let (UNFLATTEN | FLATTEN, [v, s]) = (target, args) else { return None };
    let s = spec(s)?;
    if target == UNFLATTEN {
        return Some(s.unflatten(v.items().unwrap_or(std::slice::from_ref(v))));
    }
    let mut leaves = Vec::new();
    Some(if specs::flatten(&s, v, &mut leaves) {
        Ok(Value::List(leaves))
    } else {
        Err(Error::value(format!("a module was given or gives a value that is not built as {}", s.repr())))
    })
}

/// Calls of a module that do different things, one after the other: each call is the next of them, and the first comes again
/// after the last, or after an error.
#[doc(alias = "torch.export.unflatten.InterpreterModuleDispatcher")]
pub struct InterpreterModuleDispatcher {
    modules: Vec<GraphModule>,
    next: Mutex<usize>,
}
impl InterpreterModuleDispatcher {
    /// The graphs, in the order of the calls.
    #[doc(alias = "torch.export.unflatten.InterpreterModuleDispatcher.call_modules")]
    pub fn call_modules(&self) -> &[GraphModule] {
        &self.modules
    }
    fn run(&self, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
        let at = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let at = *next;
            *next = (at + 1) % self.modules.len();
            at
        };
        let result = run(&self.modules[at], args, kwargs);
        if result.is_err() {
            *self.next.lock().unwrap_or_else(PoisonError::into_inner) = 0;
        }
        result
    }
}
impl Object for InterpreterModuleDispatcher {
    fn type_name(&self) -> &'static str {
        "InterpreterModuleDispatcher"
    }
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        Ok(vec![self.run(args, kwargs)?])
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        self.modules[0].get(name)
    }
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        for m in &self.modules {
            Object::method(m, name, args, kwargs)?;
        }
        Ok(Vec::new())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
/// Runs the graph of a module with its own arguments; keywords are inputs by their names.
pub(crate) fn run(m: &GraphModule, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
    if kwargs.is_empty() {
        return control::run(m, args);
    }
    let mut all = args.to_vec();
    for n in m.graph.find_nodes(Op::Placeholder, None).into_iter().skip(args.len()) {
        let name = &m.graph.node(n).target;
        let Some((_, v)) = kwargs.iter().find(|(k, _)| k == name) else {
            return Err(Error::type_(format!("a call of a module without its argument '{name}'")));
        };
        all.push(v.clone());
    }
    control::run(m, &all)
}

impl Units {
    /// A step that reads how values are built.
    fn spec(&mut self, unit: usize, spec: &TreeSpec) -> Node {
        let u = &mut self.units[unit];
        let name = format!("_spec_{}", u.specs.len());
        u.specs.push((name.clone(), Value::Object(ObjectRef::new(Spec(spec.clone())))));
        u.graph.get_attr(&name)
    }
    fn apart(&mut self, unit: usize, of: Argument, spec: &TreeSpec) -> Node {
        let s = self.spec(unit, spec);
        self.units[unit].graph.call_function(FLATTEN, [of, s.into()], [])
    }
    fn built(&mut self, unit: usize, leaves: Argument, spec: &TreeSpec) -> Node {
        let s = self.spec(unit, spec);
        self.units[unit].graph.call_function(UNFLATTEN, [leaves, s.into()], [])
    }
    /// Calls that differ become calls of one module that goes through them.
    pub(super) fn dispatched(&mut self, kept: &Kept) -> Result<()> {
        // the calls of each module, in their order
        let mut all: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
        for fqn in kept.keys() {
            let (base, number) = fqn.split_once('@').unwrap_or((fqn, "0"));
            let number = number.parse().map_err(|_| Error::serialization(format!("a call named '{fqn}'")))?;
            all.entry(base).or_default().push((number, fqn));
        }
        for (base, calls) in &mut all {
            calls.sort_unstable();
            if calls.len() < 2 {
                continue;
            }
            // those that do the same as an earlier one were taken away
            let mut units: Vec<usize> = Vec::new();
            for (i, (_, fqn)) in calls.iter().enumerate() {
                let own = self.at(0, &call_name(base, i + 1));
                let unit = own.or_else(|| self.redirected.get(*fqn).and_then(|to| self.at(0, to)));
                units.push(unit.ok_or_else(|| Error::serialization(format!("no module '{fqn}' is called")))?);
            }
            for i in 1..units.len() {
                self.remove(0, &call_name(base, i + 1));
            }
            let new = self.empty();
            self.units[new].table = self.units[units[0]].table;
            self.units[new].dispatch = units;
            self.put(0, base, new, &mut |units, _| units.empty());
        }
        let names: Vec<&str> = all.keys().copied().collect();
        self.without_numbers(0, "", &names, 0);
        Ok(())
    }
    /// Which call of a module it is is known to the module.
    fn without_numbers(&mut self, unit: usize, front: &str, kept: &[&str], depth: usize) {
        if depth > flambeau_core::types::deep::LEVELS {
            return;
        }
        let mut graphs = self.units[unit].dispatch.clone();
        graphs.push(unit);
        for u in graphs {
            let graph = &mut self.units[u].graph;
            for n in graph.find_nodes(Op::CallModule, None) {
                let target = graph.node(n).target.clone();
                let base = target.split('@').next().unwrap_or(&target);
                if base != target && kept.contains(&format!("{front}{base}").as_str()) {
                    graph.set_target(n, base);
                }
            }
        }
        for (name, child) in self.children(unit).to_vec() {
            self.without_numbers(child, &format!("{front}{name}."), kept, depth + 1);
        }
    }
    /// The module that goes through calls.
    pub(super) fn dispatcher(modules: Vec<GraphModule>) -> Value {
        Value::Object(ObjectRef::new(InterpreterModuleDispatcher { modules, next: Mutex::new(0) }))
    }
}

fn named(g: &Graph, a: &ArgumentSpec) -> Option<Node> {
    match a {
        ArgumentSpec::Constant(..) => None,
        a => g.named(a.name()),
    }
}
impl Outliner<'_> {
    /// The innermost module takes its own arguments, which are built around its call.
    pub(super) fn takes(&mut self, s: &ModuleCallSignature) -> Result<()> {
        let [args, TreeSpec { kind: Kind::Dict(keys), .. }] = &s.in_spec.children[..] else {
            return Err(Error::serialization("a module whose arguments are no tuple and dictionary"));
        };
        let positional = args.children.len();
        let depth = self.frames.len() - 1;
        let (unit, outer) = (self.frames[depth].unit, self.frames[depth - 1].unit);
        let Some(call) = self.frames[depth].call else { return Ok(()) };
        let g = &mut self.units.units[unit].graph;
        let given: Vec<Argument> =
            (0..positional).map(|i| g.placeholder(&format!("_positional_arg_{i}")).into()).collect();
        let by_name = keys.iter().map(|k| (k.clone(), g.placeholder(k).into())).collect();
        let whole = Argument::Tuple(vec![Argument::Tuple(given), Argument::Dict(by_name)]);
        let flat = self.units.apart(unit, whole, &s.in_spec);
        for (i, a) in s.inputs.iter().enumerate() {
            let constant = format!("_constant_{i}");
            let name = if matches!(a, ArgumentSpec::Constant(..)) { &constant } else { a.name() };
            let at = vec![flat.into(), Argument::from(i as i64)];
            let g = &mut self.units.units[unit].graph;
            let part = g.create_node(Op::CallFunction, "operator.getitem", at, Vec::new(), Some(name));
            if let Some(old) = named(&self.flat.graph, a).filter(|n| self.seen.contains(n)) {
                *g.meta_mut(part) = self.flat.graph.node(old).meta.clone();
                self.frames[depth].inputs.insert(old, part);
            }
        }
        let mut leaves = Vec::new();
        for a in &s.inputs {
            leaves.push(match (a, named(&self.flat.graph, a).filter(|n| self.seen.contains(n))) {
                (ArgumentSpec::Constant(_, v), _) => Argument::Value(v.clone()),
                (_, None) => Argument::NONE,
                (_, Some(old)) => {
                    self.units.units[outer].graph.inserting_before(call);
                    let mapped = self.mapped(depth - 1, old)?;
                    self.units.units[outer].graph.inserting_at_end();
                    mapped.into()
                }
            });
        }
        self.units.units[outer].graph.inserting_before(call);
        let built = self.units.built(outer, Argument::List(leaves), &s.in_spec);
        let g = &mut self.units.units[outer].graph;
        let mut part = |of: Node, at: Argument| g.call_function("operator.getitem", [of.into(), at], []);
        let (args, kwargs) = (part(built, 0i64.into()), part(built, 1i64.into()));
        let given = (0..positional).map(|i| part(args, Argument::from(i as i64)).into()).collect();
        let by_name = keys.iter().map(|k| (k.clone(), part(kwargs, k.clone().into()).into())).collect();
        g.set_args(call, given);
        g.set_kwargs(call, by_name);
        g.inserting_at_end();
        self.frames[depth].kept = true;
        Ok(())
    }
    /// What the module gives is built of its leaves, which are taken out of it again around its call. Gives the leaves of the flat
    /// graph that the call stands for, with their nodes around it.
    pub(super) fn gives(
        &mut self,
        s: &ModuleCallSignature,
        unit: usize,
        inside: &HashMap<Node, Node>,
        around: Option<(usize, Node)>,
    ) -> Result<Vec<(Node, Node)>> {
        let results: Vec<Option<Node>> =
            s.outputs.iter().map(|a| named(&self.flat.graph, a).filter(|n| self.seen.contains(n))).collect();
        let mut leaves = Vec::new();
        for (a, old) in s.outputs.iter().zip(&results) {
            leaves.push(match (a, old) {
                (ArgumentSpec::Constant(_, v), _) => Argument::Value(v.clone()),
                (_, None) => Argument::NONE,
                (a, Some(old)) => match inside.get(old) {
                    Some(n) => (*n).into(),
                    None => return Err(Error::runtime(format!("Could not find output node {}", a.name()))),
                },
            });
        }
        let built = self.units.built(unit, Argument::Tuple(leaves), &s.out_spec);
        self.units.units[unit].graph.output(built);
        let Some((outer, call)) = around else { return Ok(Vec::new()) };
        let flat = self.units.apart(outer, call.into(), &s.out_spec);
        let mut all = Vec::new();
        for (i, old) in results.into_iter().enumerate() {
            let Some(old) = old else { continue };
            let g = &mut self.units.units[outer].graph;
            let part = g.call_function("operator.getitem", [flat.into(), Argument::from(i as i64)], []);
            g.meta_mut(part).val = self.flat.graph.node(old).meta.val.clone();
            all.push((old, part));
        }
        Ok(all)
    }
}
/// Whether a node of numbers may stand in several modules: exports share it, and modules cannot hand it to each other.
pub(super) fn shared(g: &Graph, n: Node) -> bool {
    const TARGETS: [&str; 6] = [
        "torch.ops.aten.sym_size.int",
        "torch.ops.aten.item.default",
        "torch.ops.aten.unbind.int",
        "torch.ops.aten.sum.dim_IntList",
        "torch.ops.aten.view.default",
        "torch.ops.aten.diff.default",
    ];
    let d = g.node(n);
    d.op == Op::CallFunction && (TARGETS.contains(&d.target.as_str()) || d.target.starts_with("operator."))
}
