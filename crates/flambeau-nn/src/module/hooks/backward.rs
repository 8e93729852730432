//! Backward hooks: identities around a module, whose steps in the backward pass call them.

use super::{BackwardHook, BackwardPreHook, Entry, Hooks};
use crate::module::Module;
use flambeau_autograd::function::{self, BackwardContext, Context, Function};
use flambeau_autograd::grad_fn::{GradFn, TensorAutogradExt};
use flambeau_autograd::is_grad_enabled;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Result, Tensor, ensure};
use std::sync::Arc;

/// Gives its inputs; a place in the graph that hooks sit on.
struct BackwardHookFunction;
impl Function for BackwardHookFunction {
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let constant: Vec<&Tensor> = inputs.iter().filter(|t| !t.requires_grad()).collect();
        ctx.mark_non_differentiable(&constant);
        ctx.set_materialize_grads(false);
        Ok(inputs.to_vec())
    }
    fn backward(&self, _: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        Ok(grads.to_vec())
    }
}

/// Tensors passed through an identity, and its step in the graph; `None` where nothing asks for gradients.
fn identity(all: &mut Vec<Tensor>) -> Result<Option<GradFn>> {
    if !is_grad_enabled() || !all.iter().any(Tensor::requires_grad) {
        return Ok(None);
    }
    *all = function::apply(BackwardHookFunction, all)?;
    Ok(all.iter().find_map(TensorAutogradExt::grad_fn))
}

type Grads = Arc<Mutex<Option<Vec<Option<Tensor>>>>>;
fn take(g: &Grads) -> Option<Vec<Option<Tensor>>> {
    g.lock().unwrap_or_else(|e| e.into_inner()).take()
}
fn put(g: &Grads, v: Vec<Option<Tensor>>) {
    let old = g.lock().unwrap_or_else(|e| e.into_inner()).replace(v);
    drop(old);
}

/// The backward hooks of one call.
pub(super) struct Setup {
    name: String,
    pre: Vec<Entry<BackwardPreHook>>,
    full: Vec<Entry<BackwardHook>>,
    regular: Vec<Entry<BackwardHook>>,
}
/// What the inputs' side shares with the outputs' side.
pub(super) struct Link {
    grads: Grads,
    inputs: usize,
    /// Some input asks for a gradient.
    linked: bool,
}

fn count(what: &str, got: usize, want: usize) -> Result<()> {
    ensure!(got == want, Runtime, "{what}, got {got}, but expected {want}");
    Ok(())
}

impl Setup {
    /// `None` where there are none.
    pub fn of(m: &dyn Module, lists: &[&Hooks]) -> Option<Setup> {
        let pre: Vec<_> = lists.iter().flat_map(|h| h.backward_pre.all()).collect();
        let full: Vec<_> = lists.iter().flat_map(|h| h.full.all()).collect();
        let regular: Vec<_> = lists.iter().flat_map(|h| h.regular.all()).collect();
        if pre.is_empty() && full.is_empty() && regular.is_empty() {
            return None;
        }
        Some(Setup { name: m.type_name().into_owned(), pre, full, regular })
    }
    /// Puts the identity before the module.
    pub fn inputs(&self, inputs: &mut Vec<Tensor>) -> Result<Option<Link>> {
        if self.pre.is_empty() && self.full.is_empty() {
            return Ok(None);
        }
        let n = inputs.len();
        let grads = Grads::default();
        let step = identity(inputs)?;
        if let Some(step) = &step {
            let (name, hooks, grads) = (self.name.clone(), self.full.clone(), grads.clone());
            step.register_fallible_hook(move |grad_inputs, _| {
                let Some(outputs) = take(&grads) else { return Ok(None) };
                let mut now = grad_inputs.to_vec();
                for h in &hooks {
                    if let Some(new) = (h.f)(&name, &now, &outputs) {
                        count(
                            "Backward hook returned an invalid number of grad_input",
                            new.len(),
                            now.len(),
                        )?;
                        now = new;
                    }
                }
                Ok(Some(now))
            });
        }
        Ok(Some(Link { grads, inputs: n, linked: step.is_some() }))
    }
    /// Puts the identity behind it; whether the outputs are others now.
    pub fn outputs(&self, all: &mut Vec<Tensor>, link: &mut Option<Link>) -> Result<bool> {
        let mut changed = false;
        if let Some(Link { grads, inputs, linked }) = link.take()
            && let Some(step) = identity(all)?
        {
            changed = true;
            let (name, pre, full) = (self.name.clone(), self.pre.clone(), self.full.clone());
            step.register_fallible_prehook(move |grad_outputs| {
                let mut now = grad_outputs.to_vec();
                for h in &pre {
                    if let Some(new) = (h.f)(&name, &now) {
                        count(
                            "Backward pre hook returned an invalid number of grad_output",
                            new.len(),
                            now.len(),
                        )?;
                        now = new;
                    }
                }
                if linked {
                    put(&grads, now.clone());
                } else {
                    // nothing below asks for a gradient: the hooks run here, with none for the inputs
                    for h in &full {
                        let new = (h.f)(&name, &vec![None; inputs], &now);
                        ensure!(
                            !new.is_some_and(|l| l.iter().any(Option::is_some)),
                            Runtime,
                            "Backward hook for Modules where no input requires gradient should always return None or \
                             None for all gradients."
                        );
                    }
                }
                Ok(Some(now))
            });
        }
        // regular hooks sit on the step that made the first output, whatever that is
        if let Some(step) =
            all.first().filter(|_| !self.regular.is_empty()).and_then(TensorAutogradExt::grad_fn)
        {
            for h in self.regular.clone() {
                let name = self.name.clone();
                step.register_hook(move |i, o| (h.f)(&name, i, o));
            }
        }
        Ok(changed)
    }
}
