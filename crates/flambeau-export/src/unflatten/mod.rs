//! Programs with the modules that they were made of (`torch.export.unflatten`).
//!
//! A program's nodes say in which modules they stood. `outline` cuts the program into a graph for each call of a module, `sink`
//! lets each module read its own weights in place of getting them as arguments, and makes equal calls one module.

mod kept;
mod outline;
mod sink;

pub use kept::InterpreterModuleDispatcher;
pub(crate) use kept::{call, run};

use crate::control;
use crate::graph_signature::{ExportGraphSignature, OutputKind};
use crate::module::ExportedModule;
use crate::program::ExportedProgram;
use crate::tokens;
use crate::written::written_back;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Error, Result, Tensor, Value, ops};
use flambeau_fx::pytree::{self, TreeSpec};
use flambeau_fx::{Argument, Graph, GraphModule, Node, Op};
use std::collections::HashMap;
use std::rc::Rc;

/// Makes the arguments that a program was exported for of others: of callers that build them in another way.
///
/// Closures `|target, input, leaves| Ok(leaves.to_vec())` are adapters.
///
/// ```
/// use torch::export::{self, FlatArgsAdapter};
/// use torch::fx::pytree::TreeSpec;
/// use torch::library::Value;
/// use torch::{Result, Tensor, nn, prelude::*};
///
/// /// Callers give the input and something else, which the program does not take.
/// struct First;
/// impl FlatArgsAdapter for First {
///     fn adapt(&self, target: &TreeSpec, _: &TreeSpec, leaves: &[Value]) -> Result<Vec<Value>> {
///         Ok(leaves[..target.leaves()].to_vec())
///     }
/// }
/// let net = nn::Linear::new(2, 3);
/// let x = torch::ones([4, 2]);
/// let p = export::export(&net, |x: &[Tensor]| net.call(&x[0]), &[&x]);
/// let m = export::unflatten(&p)?.flat_args_adapter(First);
/// assert!(m.try_forward(&[&x, &torch::ones([1])])?.equal(&net.call(&x)));
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.export.unflatten.FlatArgsAdapter")]
pub trait FlatArgsAdapter {
    /// The leaves in the order of `target`, for those of a call that was built as `input` says.
    ///
    /// # Errors
    /// Arguments that cannot be adapted.
    #[doc(alias = "torch.export.unflatten.FlatArgsAdapter.adapt")]
    fn adapt(&self, target: &TreeSpec, input: &TreeSpec, leaves: &[Value]) -> Result<Vec<Value>>;
}
impl<F: Fn(&TreeSpec, &TreeSpec, &[Value]) -> Result<Vec<Value>>> FlatArgsAdapter for F {
    fn adapt(&self, target: &TreeSpec, input: &TreeSpec, leaves: &[Value]) -> Result<Vec<Value>> {
        self(target, input, leaves)
    }
}

/// A module with the modules, parameters and buffers of the one that was exported; its weights are copies of the program's.
///
/// ```
/// use torch::{Tensor, export, nn, prelude::*};
///
/// let net = nn::Sequential::new((nn::Linear::new(2, 3), nn::Tanh::new()));
/// let x = torch::ones([4, 2]);
/// let p = export::export(&net, |x: &[Tensor]| net.call(&x[0]), &[&x]);
/// let m = export::unflatten(&p).unwrap();
/// assert_eq!(m.named_modules(), ["0", "1"]);
/// assert!(m.try_forward(&[&x]).unwrap().equal(&net.call(&x)));
/// ```
#[doc(alias = "torch.export.UnflattenedModule")]
#[derive(Clone)]
pub struct UnflattenedModule {
    root: GraphModule,
    /// What is run in its place, where it holds stretches of vmaps.
    folded: Option<GraphModule>,
    modules: Vec<String>,
    state: Vec<(String, Tensor)>,
    checks: ExportedModule,
    adapter: Option<Rc<dyn FlatArgsAdapter>>,
}
impl std::fmt::Debug for UnflattenedModule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnflattenedModule").field("modules", &self.modules).finish_non_exhaustive()
    }
}

/// The module of a program, with the modules in it.
///
/// Modules that are called several times in the same way are one module again; where calls differ, the later ones have names of
/// their own, `block@1`. Modules that were exported with how they are called (`preserve_module_call_signature`) are called with their own
/// arguments; where their calls differ, one [`InterpreterModuleDispatcher`] goes through them.
///
/// # Errors
/// Programs whose nodes do not say in which modules they stood.
#[doc(alias = "torch.export.unflatten")]
pub fn unflatten(program: &ExportedProgram) -> Result<UnflattenedModule> {
    let kept = kept::kept(program);
    let mut flat = program.graph_module.clone();
    let mut signature = program.graph_signature.clone();
    let tokens: Vec<Node> = flat
        .graph
        .find_nodes(Op::Placeholder, None)
        .into_iter()
        .zip(&signature.input_specs)
        .filter(|(_, s)| s.kind == crate::graph_signature::InputKind::Token)
        .map(|(n, _)| n)
        .collect();
    tokens::removed(&mut flat, &tokens)?;
    signature.input_specs.retain(|s| s.kind != crate::graph_signature::InputKind::Token);
    write_in_place(&mut flat.graph, &signature)?;
    flat.graph.eliminate_dead_code(&|d| crate::regions::is_step(d));
    let mut units = outline::outlined(&flat, &kept)?;
    let state = copies(program)?;
    sink::sunk(&mut units, program, &signature, &state)?;
    units.deduplicate()?;
    units.dispatched(&kept)?;
    units.ordered(program.module_call_graph.iter().skip(1).map(|e| e.fqn.as_str()));
    let (mut root, modules) = units.finished()?;
    let folded = crate::regions::folded(&root)?;
    // as PyTorch shows it: nobody uses what begins and ends a vmap
    root.graph.eliminate_dead_code(&|_| false);
    Ok(UnflattenedModule { root, folded, modules, state, checks: program.module()?, adapter: None })
}
impl UnflattenedModule {
    /// The same with an adapter for arguments that are built otherwise than those of the export.
    pub fn flat_args_adapter(mut self, adapter: impl FlatArgsAdapter + 'static) -> UnflattenedModule {
        self.adapter = Some(Rc::new(adapter));
        self
    }
    /// The whole program's graph: calls of modules, and what stood outside of them.
    pub fn graph(&self) -> &Graph {
        &self.root.graph
    }
    /// The graph with its modules, which are graphs too.
    #[doc(alias = "torch.export.unflatten.InterpreterModule")]
    pub fn graph_module(&self) -> &GraphModule {
        &self.root
    }
    /// Paths of all modules, each behind the one that it stands in.
    pub fn named_modules(&self) -> &[String] {
        &self.modules
    }
    /// Parameters, buffers and constants by path.
    pub fn state(&self) -> &[(String, Tensor)] {
        &self.state
    }
    /// Runs the module.
    ///
    /// # Errors
    /// Arguments that are built differently and that no adapter makes fit, sizes that the program does not hold for, and those of
    /// operators.
    pub fn run(&self, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
        let leaves = match (self.checks.leaves(args, kwargs), &self.adapter) {
            (Err(_), Some(adapter)) => {
                pytree::check(args.iter().chain(kwargs.iter().map(|(_, v)| v)))?;
                let mut given = Vec::new();
                let all = Value::Tuple(vec![Value::Tuple(args.to_vec()), Value::Dict(kwargs.to_vec())]);
                let spec = TreeSpec::flatten(&all, &mut given);
                adapter.adapt(self.checks.in_spec(), &spec, &given)?
            }
            (leaves, _) => leaves?,
        };
        self.checks.check(&leaves)?;
        let out = control::run(self.folded.as_ref().unwrap_or(&self.root), &leaves)?;
        self.checks.out_spec().unflatten(out.items().unwrap_or(std::slice::from_ref(&out)))
    }
    /// Runs the module on tensors, for one tensor.
    ///
    /// # Errors
    /// As [`run`](UnflattenedModule::run); a result that is no tensor.
    pub fn try_forward(&self, inputs: &[&Tensor]) -> Result<Tensor> {
        let args: Vec<Value> = inputs.iter().map(|t| Value::Tensor((*t).clone())).collect();
        let result = self.run(&args, &[])?.into_tensor();
        result.map_err(|v| Error::type_(format!("the program gives a {}, not a tensor", v.type_name())))
    }
}

/// What makes tensors of different names one: memory, first element, sizes, strides.
type Id = (usize, i64, Vec<i64>, Vec<i64>);
fn id(t: &Tensor) -> Id {
    (t.storage().id(), t.storage_offset(), t.sizes().to_vec(), t.strides().to_vec())
}
/// Copies of all tensors; those of several names are one tensor again.
fn copies(p: &ExportedProgram) -> Result<Vec<(String, Tensor)>> {
    let mut known: HashMap<Id, Tensor> = HashMap::new();
    let mut all = Vec::new();
    for (name, t) in p.state_dict.iter().chain(&p.constants) {
        let copy = match known.get(&id(t)) {
            Some(c) => c.clone(),
            None => {
                let c = flambeau_autograd::no_grad(|| ops::clone(&t.detach(), None))?;
                c.try_requires_grad_(t.requires_grad())?;
                known.insert(id(t), c.clone());
                c
            }
        };
        all.push((name.clone(), copy));
    }
    Ok(all)
}
/// New values of buffers and inputs are written where they are made, and what uses them uses what was written.
fn write_in_place(g: &mut Graph, signature: &ExportGraphSignature) -> Result<()> {
    let place = |g: &Graph, kind, target: &str| match kind {
        OutputKind::UserInputMutation => g.named(target),
        _ => {
            let input = signature.input_specs.iter().find(|i| i.target.as_deref() == Some(target))?;
            g.named(input.arg.name())
        }
    };
    let write = |g: &mut Graph, place: Node, value: Node| {
        let users = g.node(value).users().to_vec();
        g.inserting_after(value);
        let args = vec![Argument::Node(place), Argument::Node(value)];
        let target = "torch.ops.aten.copy_.default";
        let copy = g.create_node(Op::CallFunction, target, args, Vec::new(), Some("copy__default"));
        g.inserting_at_end();
        let meta = g.node(value).meta.clone();
        *g.meta_mut(copy) = meta;
        for u in users {
            g.replace_input(u, value, copy);
        }
        copy
    };
    written_back(g, &signature.output_specs, place, write)
}
