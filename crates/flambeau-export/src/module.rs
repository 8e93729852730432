//! Exported programs as modules.

use crate::control;
use crate::graph_signature::{InputKind, OutputKind};
use crate::guards::Guard;
use crate::program::{ExportedProgram, Range};
use crate::regions;
use crate::specs;
use crate::tokens;
use crate::written::written_back;
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef};
use flambeau_core::gradients::grad_mode::is_recording;
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_fx::pytree::{self, Kind, TreeSpec};
use flambeau_fx::symbolic::Expr;
use flambeau_fx::{CodeGen, Graph, GraphModule, Node, Op, PlannedInterpreter, Val};
use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

const GUARDS: &str = "_guards_fn";
/// The checks of a program's inputs, as the module `_guards_fn`.
struct GuardsFn(Vec<Guard>);
impl Object for GuardsFn {
    fn type_name(&self) -> &'static str {
        "GuardsFn"
    }
    fn call(&self, args: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        self.0.iter().try_for_each(|g| g.check(args))?;
        Ok(Vec::new())
    }
    fn method(&self, _: &str, _: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        Ok(Vec::new())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A program with its weights inside. Calls check that the inputs are built as those with which it was exported, and that sizes
/// and constants are what the program holds for.
///
/// Where no gradients are recorded the program runs by a plan ([`PlannedInterpreter`]): its first run with inputs of some sizes is
/// written down, and later ones allocate nothing. The plan's memory stays until the module and its clones are dropped.
///
/// ```
/// use torch::export::{self, ExportedModule};
/// use torch::{Tensor, nn, prelude::*};
///
/// let net = nn::Linear::new(2, 3);
/// let p = export::export(&net, |x: &[Tensor]| net.call(&x[0]), &[&torch::zeros([4, 2])]);
/// let m: ExportedModule = p.module()?;
/// assert_eq!(m.try_forward(&[&torch::ones([4, 2])])?.sizes(), &[4, 3]);
/// assert!(m.try_forward(&[&torch::ones([4, 5])]).is_err());
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone)]
pub struct ExportedModule {
    graph_module: Arc<GraphModule>,
    /// What runs: the graph, or what takes its place where it holds stretches of vmaps.
    plan: Arc<PlannedInterpreter>,
    /// A region of the program has a gradient mode of its own.
    has_modes: bool,
    in_spec: TreeSpec,
    out_spec: TreeSpec,
    guards: Vec<String>,
}
impl fmt::Debug for ExportedModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExportedModule")
            .field("graph_module", &self.graph_module)
            .field("guards", &self.guards)
            .finish_non_exhaustive()
    }
}
impl ExportedModule {
    pub(crate) fn new(p: &ExportedProgram) -> Result<ExportedModule> {
        let Some(call) = p.signature() else {
            return Err(Error::serialization("the program does not say how it is called"));
        };
        let mut m = p.graph_module.clone();
        let inputs = m.graph.find_nodes(Op::Placeholder, None);
        let specs = &p.graph_signature.input_specs;
        if inputs.len() != specs.len() {
            return Err(Error::serialization(format!(
                "{} inputs in the graph, {} in the signature",
                inputs.len(),
                specs.len()
            )));
        }
        let mut of_target: HashMap<String, Node> = HashMap::new();
        let mut users: Vec<Node> = Vec::new();
        let mut tokens: Vec<Node> = Vec::new();
        for (n, s) in inputs.iter().zip(specs) {
            if s.kind == InputKind::Token {
                tokens.push(*n);
                continue;
            }
            let Some(target) = &s.target else {
                users.push(*n);
                continue;
            };
            let Some(t) = p.tensor(target) else {
                return Err(Error::serialization(format!("the file has no tensor '{target}'")));
            };
            m.set(target, t.clone());
            m.graph.inserting_after(*n);
            let read = m.graph.get_attr(target);
            m.graph.replace_all_uses_with(*n, read);
            m.graph.erase_node(*n)?;
            of_target.insert(target.clone(), read);
        }
        m.graph.inserting_at_end();
        write_back(p, &mut m, &users, &of_target)?;
        tokens::removed(&mut m, &tokens)?;

        let names = parameter_names(call.forward_arg_names.as_deref(), &call.in_spec);
        let mut paths = Vec::new();
        let arguments: Vec<&TreeSpec> = call.in_spec.children.iter().flat_map(|c| &c.children).collect();
        for (name, spec) in names.iter().zip(&arguments) {
            specs::paths(spec, &format!("['{name}']"), &mut paths);
        }
        let given: Vec<(Node, usize)> = inputs
            .iter()
            .zip(specs)
            .enumerate()
            .filter(|(_, (_, s))| s.kind == InputKind::UserInput)
            .map(|(i, (n, _))| (*n, i))
            .collect();
        if given.len() != paths.len() || users.len() < given.len() {
            return Err(Error::serialization(format!(
                "{} inputs, but {} leaves of arguments",
                given.len(),
                paths.len()
            )));
        }
        let guards = guards(p, &m, &given, &paths)?;
        let texts = guards.iter().map(Guard::to_string).collect();
        if let Some((last, _)) = given.last() {
            m.graph.inserting_after(*last);
            let all: Vec<Node> = given.iter().map(|(n, _)| *n).collect();
            m.graph.call_module(GUARDS, all, []);
            m.graph.inserting_at_end();
            m.set_module(GUARDS, ObjectRef::new(GuardsFn(guards)));
        }
        m.graph.codegen =
            CodeGen::Trees { names, inputs: call.in_spec.clone(), output: Some(call.out_spec.clone()) };
        let has_modes =
            m.graph.nodes().any(|n| m.graph.node(n).target.ends_with("wrap_with_set_grad_enabled"));
        let folded = regions::folded(&m)?.map(Arc::new);
        let graph_module = Arc::new(m);
        Ok(ExportedModule {
            plan: Arc::new(PlannedInterpreter::new(folded.unwrap_or_else(|| graph_module.clone()))),
            graph_module,
            has_modes,
            in_spec: call.in_spec.clone(),
            out_spec: call.out_spec.clone(),
            guards: texts,
        })
    }
    /// The graph with its weights.
    pub fn graph_module(&self) -> &GraphModule {
        &self.graph_module
    }
    /// The Python program: PyTorch's `code`.
    pub fn code(&self) -> String {
        self.graph_module.code()
    }
    /// The conditions on inputs, in the order in which they are checked, as their errors show them.
    pub fn guards(&self) -> &[String] {
        &self.guards
    }
    /// Weights by name.
    pub fn state(&self) -> Vec<(String, Tensor)> {
        let one = |(n, v): &(String, Value)| match v {
            Value::Tensor(t) => Some((n.clone(), t.clone())),
            _ => None,
        };
        self.graph_module.attributes().iter().filter_map(one).collect()
    }
    /// Runs the program.
    ///
    /// # Errors
    /// Arguments that are built differently, guards that do not hold, runtime assertions, and those of operators.
    pub fn run(&self, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
        let out = self.flat(args, kwargs)?;
        self.out_spec.unflatten(out.items().unwrap_or(std::slice::from_ref(&out)))
    }
    /// The results in a row, whatever the program builds of them.
    fn flat(&self, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
        let leaves = self.leaves(args, kwargs)?;
        match self.records(&leaves) {
            true => control::run(self.plan.module(), &leaves),
            false => control::planned(&self.plan, &leaves),
        }
    }
    /// Whether gradients of a run may be recorded, which a plan does not do.
    fn records(&self, leaves: &[Value]) -> bool {
        let wants = |v: &Value| matches!(v, Value::Tensor(t) if t.requires_grad());
        (is_recording() || self.has_modes)
            && (leaves.iter().any(wants) || self.graph_module.attributes().iter().any(|(_, v)| wants(v)))
    }
    /// Runs the program on tensors, for one tensor; [`try_forward_all`](ExportedModule::try_forward_all) is for several.
    ///
    /// # Errors
    /// As [`run`](ExportedModule::run); a result that is no tensor.
    pub fn try_forward(&self, inputs: &[&Tensor]) -> Result<Tensor> {
        let args: Vec<Value> = inputs.iter().map(|t| Value::Tensor((*t).clone())).collect();
        let result = self.run(&args, &[])?.into_tensor();
        result.map_err(|v| Error::type_(format!("the program gives a {}, not a tensor", v.type_name())))
    }
    /// Runs the program on tensors, for all the tensors that it gives: those of tuples, lists and dictionaries in a row, in the
    /// order in which the program has them.
    ///
    /// ```
    /// use torch::export;
    /// use torch::{Tensor, nn, prelude::*};
    ///
    /// let net = nn::Linear::new(2, 3);
    /// let x = torch::ones([4, 2]);
    /// let both = |x: &[Tensor]| (net.call(&x[0]), x[0].sum());
    /// let m = export::export(&net, both, &[&x]).module().unwrap();
    /// let all = m.try_forward_all(&[&x]).unwrap();
    /// assert_eq!((all[0].sizes(), all[1].item::<f32>()), (&[4, 3][..], 8.0));
    /// ```
    ///
    /// # Errors
    /// As [`run`](ExportedModule::run).
    pub fn try_forward_all(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let args: Vec<Value> = inputs.iter().map(|t| Value::Tensor((*t).clone())).collect();
        let out = self.flat(&args, &[])?;
        let tensors = out.items().unwrap_or(std::slice::from_ref(&out)).iter();
        Ok(tensors.filter_map(|v| v.clone().into_tensor().ok()).collect())
    }
    /// How arguments are built.
    pub(crate) fn in_spec(&self) -> &TreeSpec {
        &self.in_spec
    }
    /// How the result is built.
    pub(crate) fn out_spec(&self) -> &TreeSpec {
        &self.out_spec
    }
    /// Checks the conditions on inputs.
    pub(crate) fn check(&self, leaves: &[Value]) -> Result<()> {
        if self.guards.is_empty() {
            return Ok(());
        }
        self.graph_module.submodule(GUARDS)?.call(leaves, &[]).map(drop)
    }
    pub(crate) fn leaves(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        pytree::check(args.iter().chain(kwargs.iter().map(|(_, v)| v)))?;
        let mut named = kwargs.to_vec();
        if let [_, TreeSpec { kind: Kind::Dict(keys), .. }] = &self.in_spec.children[..] {
            let same = keys.len() == named.len() && keys.iter().all(|k| named.iter().any(|(n, _)| n == k));
            if !same {
                let shown = |l: Vec<&String>| {
                    let all: Vec<String> = l.iter().map(|k| format!("'{k}'")).collect();
                    format!("[{}]", all.join(", "))
                };
                return Err(Error::value(format!(
                    "Ran into a kwarg keyword mismatch: Got the following keywords {} but expected {}",
                    shown(kwargs.iter().map(|(k, _)| k).collect()),
                    shown(keys.iter().collect())
                )));
            }
            named.sort_by_key(|(n, _)| keys.iter().position(|k| k == n));
        }
        let all = Value::Tuple(vec![Value::Tuple(args.to_vec()), Value::Dict(named)]);
        let mut leaves = Vec::new();
        if specs::flatten(&self.in_spec, &all, &mut leaves) {
            return Ok(leaves);
        }
        let got = TreeSpec::flatten(&all, &mut Vec::new());
        Err(Error::value(format!(
            "Trying to flatten user inputs with exported input tree spec: \n{}\nbut actually got inputs with tree spec of: \n{}.\n\
             Please check that the inputs have the same number and type of args and kwargs as the ones you used when tracing.",
            self.in_spec.repr(),
            got.repr()
        )))
    }
}
/// Names of the parameters, as the program's head has them.
fn parameter_names(known: Option<&[String]>, spec: &TreeSpec) -> Vec<String> {
    if let Some(names) = known {
        return names.to_vec();
    }
    let (args, keys) = match &spec.children[..] {
        [a, TreeSpec { kind: Kind::Dict(keys), .. }] => (a.children.len(), keys.clone()),
        _ => (0, Vec::new()),
    };
    (0..args).map(|i| format!("arg_{i}")).chain(keys).collect()
}
/// Outputs that are new values of buffers and inputs are written there before the program ends.
fn write_back(
    p: &ExportedProgram,
    m: &mut GraphModule,
    users: &[Node],
    of_target: &HashMap<String, Node>,
) -> Result<()> {
    let place = |g: &Graph, kind, target: &str| match kind {
        OutputKind::UserInputMutation => users.iter().copied().find(|n| g.node(*n).target == target),
        _ => of_target.get(target).copied(),
    };
    let write = |g: &mut Graph, place: Node, value: Node| {
        if let Some(out) = g.output_node() {
            g.inserting_before(out);
        }
        let copy = g.call_function("torch.ops.aten.copy_.default", [place, value], []);
        g.inserting_at_end();
        copy
    };
    written_back(&mut m.graph, &p.graph_signature.output_specs, place, write)
}
/// The conditions on inputs, in PyTorch's order: by leaf, constants and sizes that are numbers, ranges, sizes that are equal; then
/// those that the program's code asked for.
fn guards(
    p: &ExportedProgram,
    m: &GraphModule,
    given: &[(Node, usize)],
    paths: &[String],
) -> Result<Vec<Guard>> {
    let ranges: HashMap<&str, Range> = p.range_constraints.iter().map(|(n, r)| (n.as_str(), *r)).collect();
    let mut seen: Vec<(String, (usize, Option<usize>))> = Vec::new();
    let mut all = Vec::new();
    // a size or number of an input that is an expression
    let mut symbolic = |shown: String, i: usize, dim: Option<usize>, all: &mut Vec<Guard>| {
        let Some(range) = ranges.get(shown.as_str()) else { return };
        match seen.iter().find(|(s, _)| *s == shown) {
            Some((_, (j, d))) => all.push(Guard::equal((i, &paths[i], dim), (*j, &paths[*j], *d))),
            None => {
                seen.push((shown, (i, dim)));
                let mut bound = |op, n: i64| match dim {
                    Some(d) => all.push(Guard::size(i, &paths[i], d, op, n)),
                    None => all.extend(Guard::constant(i, &paths[i], op, &Value::Int(n))),
                };
                if let Some(n) = range.min.filter(|n| *n > 2) {
                    bound(">=", n);
                }
                if let Some(n) = range.max {
                    bound("<=", n);
                }
            }
        }
    };
    for (i, (n, place)) in given.iter().enumerate() {
        if let crate::graph_signature::ArgumentSpec::Constant(_, v) =
            &p.graph_signature.input_specs[*place].arg
        {
            // True and False are 1 and 0 in Python, and compared as such; None is not
            all.extend(Guard::constant(i, &paths[i], "==", v));
            continue;
        }
        match &m.graph.node(*n).meta.val {
            Some(Val::Tensor(t)) => {
                for (d, e) in t.shape.iter().enumerate() {
                    match e {
                        Expr::Int(size) => all.push(Guard::size(i, &paths[i], d, "==", *size)),
                        e => symbolic(e.to_string(), i, Some(d), &mut all),
                    }
                }
            }
            Some(Val::Sym(s)) => symbolic(s.clone(), i, None, &mut all),
            _ => {}
        }
    }
    for g in &p.guards_code {
        all.push(Guard::parse(g, paths)?);
    }
    Ok(all)
}
