//! Parameter groups and what an optimizer remembers of each parameter.

use flambeau_core::Tensor;
use flambeau_nn::Parameter;

/// What an optimizer remembers of one parameter.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Steps taken, where the algorithm counts them.
    pub step: Option<f64>,
    /// Named tensors, in the order of PyTorch's files.
    pub tensors: Vec<(&'static str, Tensor)>,
}
impl State {
    /// The tensor of that name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.tensors.iter().find(|(n, _)| *n == name).map(|(_, t)| t)
    }
    /// Puts a tensor under a name.
    pub fn set(&mut self, name: &'static str, t: Tensor) {
        match self.tensors.iter_mut().find(|(n, _)| *n == name) {
            Some((_, old)) => *old = t,
            None => self.tensors.push((name, t)),
        }
    }
    /// Nothing remembered.
    pub fn is_empty(&self) -> bool {
        self.step.is_none() && self.tensors.is_empty()
    }
}

/// Parameters that are updated with the same options.
#[derive(Clone, Debug)]
pub struct ParamGroup<A> {
    /// The parameters.
    pub params: Vec<Parameter>,
    /// The options; changed freely between steps.
    pub options: A,
    /// The learning rate that schedules start from.
    pub initial_lr: Option<f64>,
    pub(crate) states: Vec<State>,
}
impl<A> ParamGroup<A> {
    pub(crate) fn new(params: Vec<Parameter>, options: A) -> Self {
        let states = params.iter().map(|_| State::default()).collect();
        ParamGroup { params, options, initial_lr: None, states }
    }
    /// What is remembered of parameter `i`.
    pub fn state(&self, i: usize) -> &State {
        &self.states[i]
    }
}
