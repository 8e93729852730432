//! What a graph's nodes end at, found once: calls of operators instead of names.

use super::seen::{Given, are};
use super::{Lane, PLANS, Plan, added, first_run, found, is_plain};
use crate::interpreter::{Interpreter, Plain};
use crate::module::GraphModule;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Result, Value};
use flambeau_library::observe;
use std::fmt;
use std::sync::{Arc, PoisonError};

/// Inputs of the same sizes are met a second time before their calls are written down: a graph that runs once pays nothing.
#[derive(Default)]
struct State {
    version: (u32, u64),
    met: Vec<Vec<Given>>,
    plans: Vec<Arc<Plan>>,
}
/// What is known of a graph module's runs.
#[derive(Default)]
pub(crate) struct Bound(Mutex<State>);
impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bound")
    }
}
impl Bound {
    /// Forgets what is known: the module's tensors or modules are others now.
    pub(crate) fn forget(&mut self) {
        *self = Bound::default();
    }
    /// The value of the output node, gradients recorded or not; none where the graph must be asked node by node.
    pub(crate) fn run(&self, m: &GraphModule, inputs: &[Value]) -> Option<Result<Value>> {
        // who watches calls by name wants to see them
        if !is_plain(inputs) || observe::is_on() {
            return None;
        }
        let version = m.graph.version();
        let (plan, again, old) = {
            let mut s = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let old = (s.version != version)
                .then(|| std::mem::replace(&mut *s, State { version, ..State::default() }));
            let plan = found(&mut s.plans, inputs);
            let at = s.met.iter().position(|g| are(g, inputs));
            if let (None, Some(at)) = (&plan, at) {
                s.met.remove(at);
            } else if plan.is_none() {
                s.met.insert(0, inputs.iter().map(Given::of).collect());
                s.met.truncate(PLANS);
            }
            (plan, at.is_some(), old)
        };
        drop(old);
        match plan {
            Some(plan) => Some(follow(&plan, m, inputs)),
            None if again => Some(self.written_down(m, inputs, version)),
            None => None,
        }
    }
    fn written_down(&self, m: &GraphModule, inputs: &[Value], version: (u32, u64)) -> Result<Value> {
        let (value, plan) = first_run::run(m, inputs, &mut Plain(m), false)?;
        let mut s = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let old = if s.version == version { added(&mut s.plans, plan, inputs) } else { Vec::new() };
        drop(s);
        drop(old);
        Ok(value)
    }
}
fn follow(plan: &Plan, m: &GraphModule, inputs: &[Value]) -> Result<Value> {
    let waiting = plan.lanes.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut own = waiting.map_or_else(|| plan.own(m.graph.capacity()), |l| l.own);
    let result = plan.run(m, None, &mut own, inputs, &mut Plain(m));
    plan.keep(Lane { arena: None, own });
    result
}

impl Interpreter<'_> {
    /// The value of the output node for these inputs, one for each placeholder.
    ///
    /// From the third run with inputs of the same sizes on, operators are called without a look at their names.
    ///
    /// # Errors
    /// Missing inputs; those of the nodes.
    pub fn run(&self, inputs: &[Value]) -> Result<Value> {
        let m = self.module();
        match m.bound.run(m, inputs) {
            Some(result) => result,
            None => self.run_with(inputs, &mut Plain(m)),
        }
    }
}
