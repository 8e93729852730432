//! Graphs that run again and again: the first run is written down, and later ones follow it.

mod bound;
mod call;
mod first_run;
mod seen;

use crate::interpreter::{Calls, Interpreter, Plain, arguments, input, perform};
use crate::module::GraphModule;
use crate::node::Node;
pub(crate) use bound::Bound;
use call::Call;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::gradients::grad_mode::no_grad_guard;
use flambeau_core::internal::effective;
use flambeau_core::tensor::arena::{Arena, Piece};
use flambeau_core::types::keys::{Key, KeySet};
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result, Tensor, Value};
use seen::{Given, Seen};
use std::ops::Range;
use std::sync::{Arc, PoisonError};

/// Plans for so many sizes of inputs are kept; that which was used longest ago goes first.
const PLANS: usize = 16;

/// What a step does.
enum Action {
    /// Takes the next input.
    Input,
    /// Gives what is known before.
    Known(Value),
    /// Gives a node's value.
    Same(Node),
    /// Gives an item of a node's value.
    Item(Node, usize),
    /// Calls an operator.
    Call(Box<Call>),
    /// Does what the node says.
    Other,
    /// Ends the run.
    Output,
}
struct Step {
    node: Node,
    action: Action,
    /// The arena's tensors that the step asks for.
    pieces: Range<usize>,
    /// What its result was; a run in which it is another one goes on without the plan.
    seen: Seen,
    /// Nodes whose values are not used again.
    last: Vec<Node>,
}
/// The run of a graph with inputs of some sizes.
struct Plan {
    given: Vec<Given>,
    steps: Vec<Step>,
    parts: Vec<usize>,
    pieces: Vec<(Piece, Option<usize>)>,
    views: usize,
    /// What runs use that are not under way: one for each thread that ran at once.
    lanes: Mutex<Vec<Lane>>,
    report: PlanReport,
}
/// What one run needs for itself.
struct Lane {
    arena: Option<Arena>,
    own: Own,
}
struct Own {
    values: Vec<Option<Value>>,
    args: Vec<Vec<Value>>,
}

/// What a plan is like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanReport {
    /// Steps of the graph.
    pub steps: usize,
    /// Steps that call an operator without a look at its name.
    pub calls: usize,
    /// Steps that write their result over an argument that nobody uses any more.
    pub in_place: usize,
    /// Bytes of all tensors that a run makes, if each had memory of its own.
    pub made: usize,
    /// Bytes of the arena that they share, results not counted.
    pub arena: usize,
    /// Bytes of results, which have memory of their own.
    pub results: usize,
}

/// Runs a graph again and again without allocating memory for its tensors.
///
/// The first run with inputs of some sizes is written down: which operators it calls, which tensors it makes, and when each is used
/// for the last time. From then on every tensor lies at a place in one arena, which tensors share whose times do not overlap; a
/// step by elements writes its result over an argument that is not used again; views are made once; and operators are called
/// without a look at names. Other sizes make another plan (sixteen are kept).
///
/// - **Results** have memory of their own. It is used again once the program has dropped the result (and all views of it), so a
///   loop that drops each result before the next run allocates nothing.
/// - **Values** are those of [`Interpreter`]. Where a run goes another way (a size that depends on data, a number read from a
///   tensor), it goes on without the plan from there; what a module keeps for itself is not overwritten.
/// - **Gradients** are not recorded. In a capture, in a `vmap`, under autocast or another mode the graph runs without a plan.
/// - **Threads** may run it at once: each has an arena.
/// - The arena and the last results stay until the interpreter is dropped.
///
/// ```
/// use torch::fx::{self, PlanReport, PlannedInterpreter};
/// use torch::Tensor;
///
/// let w = torch::ones([64, 64]);
/// let m = fx::make_fx(|x: &[Tensor]| (x[0].matmul(&w).relu() + 1.0).matmul(&w).exp())(&[&torch::zeros([8, 64])]);
/// let plan = PlannedInterpreter::new(m);
/// for i in 0..3 {
///     let x = torch::full([8, 64], 0.001 * f64::from(i));
///     let y = plan.try_forward(&[&x])?;
///     assert_eq!(y.sizes(), [8, 64]);
/// }
/// let report: &PlanReport = &plan.reports()[0];
/// // sums and activations are written over the products; the exponential, which is the result, is too
/// assert_eq!((report.calls, report.in_place), (5, 3));
/// assert!(report.arena + report.results < report.made);
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.fx.Interpreter")]
pub struct PlannedInterpreter {
    module: Arc<GraphModule>,
    plans: Mutex<Vec<Arc<Plan>>>,
}
impl PlannedInterpreter {
    /// Of a graph with its modules.
    pub fn new(module: impl Into<Arc<GraphModule>>) -> PlannedInterpreter {
        PlannedInterpreter { module: module.into(), plans: Mutex::default() }
    }
    /// The graph.
    pub fn module(&self) -> &GraphModule {
        &self.module
    }
    /// What the plans so far are like, that which was used last first.
    pub fn reports(&self) -> Vec<PlanReport> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|p| p.report.clone()).collect()
    }
    /// The value of the output node for these inputs, one for each placeholder.
    ///
    /// # Errors
    /// Missing inputs; those of the nodes.
    pub fn run(&self, inputs: &[Value]) -> Result<Value> {
        self.run_with(inputs, &mut Plain(&self.module))
    }
    /// The same, with other calls. They see what nodes give, and are asked for what is no operator; operators are called without
    /// them from the second run on.
    ///
    /// # Errors
    /// As [`run`](PlannedInterpreter::run).
    pub fn run_with(&self, inputs: &[Value], calls: &mut dyn Calls) -> Result<Value> {
        let _guard = no_grad_guard();
        if !is_plain(inputs) {
            return Interpreter::new(&self.module).run_with(inputs, calls);
        }
        match self.find(inputs) {
            Some(plan) => self.follow(&plan, inputs, calls),
            None => {
                let (value, plan) = first_run::run(&self.module, inputs, calls, true)?;
                let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
                let old = added(&mut plans, plan, inputs);
                drop(plans);
                drop(old);
                Ok(value)
            }
        }
    }
    /// Calls the graph as a module is called.
    ///
    /// # Errors
    /// Arguments that do not fit, and those of the nodes.
    pub fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
        self.module.called(args, kwargs, |leaves| self.run(leaves))
    }
    /// Runs the graph on tensors, for one tensor.
    ///
    /// # Errors
    /// As [`call`](PlannedInterpreter::call); a result that is no tensor.
    pub fn try_forward(&self, inputs: &[&Tensor]) -> Result<Tensor> {
        let args: Vec<Value> = inputs.iter().map(|t| Value::Tensor((*t).clone())).collect();
        let result = self.call(&args, &[])?.into_tensor();
        result.map_err(|v| Error::type_(format!("the graph gives a {}, not a tensor", v.type_name())))
    }

    fn find(&self, inputs: &[Value]) -> Option<Arc<Plan>> {
        found(&mut self.plans.lock().unwrap_or_else(PoisonError::into_inner), inputs)
    }
    fn follow(&self, plan: &Plan, inputs: &[Value], calls: &mut dyn Calls) -> Result<Value> {
        let waiting = plan.lanes.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let (arena, mut own) = match waiting {
            Some(Lane { arena: Some(arena), own }) => (arena, own),
            _ => {
                let arena = Arena::new(&plan.parts, &plan.pieces, plan.views)?;
                (arena, plan.own(self.module.graph.capacity()))
            }
        };
        let (result, arena) =
            arena.during(|arena| plan.run(&self.module, Some(arena), &mut own, inputs, calls));
        if arena.is_some() {
            plan.keep(Lane { arena, own });
        }
        result
    }
}
/// Puts a plan for such inputs first; gives those for which there is no place any more. Where another thread was quicker, its plan stays.
fn added(plans: &mut Vec<Arc<Plan>>, plan: Plan, inputs: &[Value]) -> Vec<Arc<Plan>> {
    let plan = Arc::new(plan);
    if found(plans, inputs).is_some() {
        return vec![plan];
    }
    plans.insert(0, plan);
    let most = plans.len().min(PLANS);
    plans.split_off(most)
}
/// The plan for such inputs, which is the first from now on.
fn found(plans: &mut [Arc<Plan>], inputs: &[Value]) -> Option<Arc<Plan>> {
    let at = plans.iter().position(|p| seen::are(&p.given, inputs))?;
    if at > 0 {
        plans[..=at].rotate_right(1);
    }
    Some(plans[0].clone())
}
/// Whether operators are called on this thread, and on these inputs, as on any tensors in memory.
fn is_plain(inputs: &[Value]) -> bool {
    effective(KeySet::EMPTY).without(KeySet::of(Key::Autograd)).0 == 0 && inputs.iter().all(seen::is_plain)
}
impl Plan {
    fn own(&self, nodes: usize) -> Own {
        let args = self.steps.iter().map(|s| match &s.action {
            Action::Call(c) => c.args.clone(),
            _ => Vec::new(),
        });
        Own { values: (0..nodes).map(|_| None).collect(), args: args.collect() }
    }
    fn keep(&self, mut lane: Lane) {
        lane.own.values.iter_mut().for_each(|v| *v = None);
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).push(lane);
    }
    fn run(
        &self,
        m: &GraphModule,
        arena: Option<&Arena>,
        own: &mut Own,
        inputs: &[Value],
        calls: &mut dyn Calls,
    ) -> Result<Value> {
        let g = &m.graph;
        let Own { values, args } = own;
        let mut given = inputs.iter();
        let mut planned = true;
        for (step, args) in self.steps.iter().zip(args) {
            if planned && let Some(arena) = arena {
                arena.serve(step.pieces.clone());
            }
            let v = match &step.action {
                Action::Input => input(g, step.node, given.next())?,
                Action::Known(v) if planned => v.clone(),
                Action::Same(of) if planned => value(values, *of)?.clone(),
                Action::Item(of, i) if planned => {
                    let item = value(values, *of)?.items().and_then(|l| l.get(*i));
                    item.cloned().ok_or_else(|| Error::index("tuple index out of range"))?
                }
                Action::Call(call) if planned => call.run(arena, values, args)?,
                _ => {
                    let d = g.node(step.node);
                    let (args, kwargs) = arguments(g, d, values)?;
                    perform(d, &args, &kwargs, calls)?
                }
            };
            if planned && !step.seen.is(&v) {
                planned = false;
                if let Some(arena) = arena {
                    arena.serve(0..0);
                }
            }
            calls.saw(step.node, &v)?;
            if let Action::Output = step.action {
                return Ok(v);
            }
            values[step.node.index as usize] = Some(v);
            for n in &step.last {
                values[n.index as usize] = None;
            }
        }
        Ok(Value::None)
    }
}
fn value(values: &[Option<Value>], n: Node) -> Result<&Value> {
    let v = values.get(n.index as usize).and_then(Option::as_ref);
    v.ok_or_else(|| Error::runtime("a step of a plan uses a value that is not there"))
}
