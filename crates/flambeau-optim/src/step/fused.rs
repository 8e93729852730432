//! Steps by fused operators: one call for all parameters whose step has the same numbers.

use crate::optimizer::group::{Entry, State};
use flambeau_core::{Error, Result, Tensor, ops};
use flambeau_cpu::optim::KEPT;
use std::cell::RefCell;

thread_local! {
    /// What the losses of the steps that run now were scaled by.
    static SCALE: RefCell<Option<Tensor>> = const { RefCell::new(None) };
}
/// Runs steps of gradients that are this many times too large.
pub(crate) fn scaled<R>(scale: Option<&Tensor>, steps: impl FnOnce() -> R) -> R {
    struct Restore(Option<Tensor>);
    impl Drop for Restore {
        fn drop(&mut self) {
            drop(SCALE.try_with(|s| s.replace(self.0.take())));
        }
    }
    let _restore = Restore(SCALE.try_with(|s| s.replace(scale.cloned())).ok().flatten());
    steps()
}

/// A complex tensor as its real parts; any other as it is.
pub(crate) fn real(t: &Tensor) -> Result<Tensor> {
    if t.is_complex() { ops::view_as_real(&ops::resolve_conj(t)?) } else { Ok(t.clone()) }
}

/// The tensors of one call.
#[derive(Default)]
pub(crate) struct Lists {
    pub params: Vec<Tensor>,
    pub grads: Vec<Tensor>,
    /// What is kept of them, in the order in which the step names it.
    pub kept: [Vec<Tensor>; KEPT],
    /// What the losses were scaled by.
    pub scale: Option<Tensor>,
}
impl Lists {
    fn with_room(n: usize, kept: usize) -> Self {
        let room = |wanted: bool| if wanted { Vec::with_capacity(n) } else { Vec::new() };
        Lists {
            params: room(true),
            grads: room(true),
            kept: [room(kept > 0), room(kept > 1), room(kept > 2)],
            scale: SCALE.try_with(|s| s.borrow().clone()).ok().flatten(),
        }
    }
    fn push(&mut self, e: &Entry<'_>, kept: &[&str]) -> Result<()> {
        for (list, name) in self.kept.iter_mut().zip(kept) {
            let t = e.state.get(name);
            list.push(real(
                t.ok_or_else(|| Error::runtime(format!("the state of a parameter has no tensor {name}")))?,
            )?);
        }
        self.params.push(real(e.param)?);
        self.grads.push(real(&e.grad)?);
        Ok(())
    }
    fn clear(&mut self) {
        [&mut self.params, &mut self.grads].into_iter().chain(&mut self.kept).for_each(Vec::clear);
    }
    /// One tensor for all parameters: a count of steps.
    pub fn all(&self, number: f64) -> Vec<Tensor> {
        vec![Tensor::from_slice(&[number], ()); self.params.len()]
    }
}

/// Runs a fused step over parameters. `numbers` readies a parameter's state and gives what its step depends on; `call` is
/// called with the parameters of equal numbers that follow each other, and what is kept of them under the names `kept`.
///
/// # Errors
/// Those of the operator: gradients or states that do not fit, dtypes that it does not have, tensors that are borrowed.
pub(crate) fn step<N: PartialEq>(
    entries: &mut [Entry<'_>],
    kept: &[&str],
    mut numbers: impl FnMut(&Tensor, &mut State) -> Result<N>,
    call: impl Fn(&N, &Lists) -> Result<()>,
) -> Result<()> {
    let _no_grad = flambeau_autograd::no_grad_guard();
    let mut lists = Lists::with_room(entries.len(), kept.len());
    let mut current: Option<N> = None;
    for e in entries {
        let next = numbers(e.param, e.state)?;
        kept.iter().try_for_each(|k| e.state.zeros(k, e.param))?;
        let elsewhere = lists.params.first().is_some_and(|p| p.device() != e.param.device());
        if let Some(n) = current.take_if(|n| elsewhere || *n != next) {
            call(&n, &lists)?;
            lists.clear();
        }
        lists.push(e, kept)?;
        current.get_or_insert(next);
    }
    current.map_or(Ok(()), |n| call(&n, &lists))
}
