//! An optimizer whose parameters are averaged after its steps.

use super::ModelAverager;
use flambeau_core::{Result, Tensor, Value};
use flambeau_nn::{Parameter, ZeroGradOptions};
use flambeau_optim::{Closure, Hooks, Optimizer, State};
use flambeau_serialization::Tree;
use std::fmt;

/// An optimizer, and an averager of parameters that runs after each step: with
/// [`PostLocalSgdHook`](crate::ddp::PostLocalSgdHook) it is post-local SGD.
///
/// ```
/// use torch::distributed::{run_in_threads, optim::{PeriodicModelAverager, PostLocalSGDOptimizer}};
/// use torch::nn::Linear;
/// use torch::optim::{Optimizer, SGD};
/// use torch::prelude::*;
///
/// run_in_threads(2, |_| {
///     let model = Linear::new(1, 1);
///     let averager = PeriodicModelAverager::new(2, 0, None);
///     let mut optimizer = PostLocalSGDOptimizer::new(SGD::new(model.parameters(), 0.1), averager);
///     model.call(&torch::ones([1, 1])).sum().backward();
///     optimizer.step();
/// });
/// ```
#[doc(alias = "torch.distributed.optim.PostLocalSGDOptimizer")]
pub struct PostLocalSGDOptimizer<O, A> {
    /// The optimizer.
    pub optim: O,
    /// What averages.
    pub averager: A,
}
impl<O: Optimizer, A: ModelAverager> PostLocalSGDOptimizer<O, A> {
    /// Of an optimizer and an averager.
    pub fn new(optim: O, averager: A) -> Self {
        PostLocalSGDOptimizer { optim, averager }
    }
    fn average(&mut self) -> Result<()> {
        let all: Vec<Parameter> =
            (0..self.optim.group_count()).flat_map(|g| self.optim.group_params(g).to_vec()).collect();
        self.averager.try_average_parameters(&all)
    }
}
impl<O: fmt::Debug, A> fmt::Debug for PostLocalSGDOptimizer<O, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.optim.fmt(f)
    }
}
const STEP: &str = "step";
impl<O: Optimizer, A: ModelAverager> Optimizer for PostLocalSGDOptimizer<O, A> {
    fn name(&self) -> &'static str {
        self.optim.name()
    }
    #[doc(alias = "torch.distributed.optim.PostLocalSGDOptimizer.step")]
    fn try_step(&mut self) -> Result<()> {
        self.optim.try_step()?;
        self.average()
    }
    fn try_step_closure(&mut self, closure: Closure<'_>) -> Result<Tensor> {
        let loss = self.optim.try_step_closure(closure)?;
        self.average()?;
        Ok(loss)
    }
    fn try_zero_grad(&mut self, options: ZeroGradOptions) -> Result<()> {
        self.optim.try_zero_grad(options)
    }
    #[doc(alias = "torch.distributed.optim.PostLocalSGDOptimizer.state_dict")]
    fn state_dict(&self) -> Tree<Tensor> {
        match self.optim.state_dict().into_entries() {
            Ok(mut pairs) => {
                pairs.push((Tree::Str(STEP.into()), Tree::Int(self.averager.step())));
                Tree::Dict(pairs)
            }
            Err(other) => other,
        }
    }
    #[doc(alias = "torch.distributed.optim.PostLocalSGDOptimizer.load_state_dict")]
    fn load_state_dict(&mut self, state: &Tree<Tensor>) -> Result<()> {
        self.optim.load_state_dict(state)?;
        let step = state.get(STEP).and_then(Tree::as_i64);
        if step.is_none() {
            flambeau_core::settings::determinism::warn(
                "Loaded state dict does not contain a step counter for an averager. Setting step counter to 0.",
            );
        }
        self.averager.set_step(step.unwrap_or(0));
        Ok(())
    }
    fn group_count(&self) -> usize {
        self.optim.group_count()
    }
    fn group_params(&self, group: usize) -> &[Parameter] {
        self.optim.group_params(group)
    }
    fn param_state(&self, group: usize, param: usize) -> &State {
        self.optim.param_state(group, param)
    }
    fn option(&self, group: usize, name: &str) -> Option<Value> {
        self.optim.option(group, name)
    }
    fn set_option(&mut self, group: usize, name: &str, v: Value) -> Result<()> {
        self.optim.set_option(group, name, v)
    }
    fn default_option(&self, name: &str) -> Option<Value> {
        self.optim.default_option(name)
    }
    fn add_group_of_values(
        &mut self,
        params: Vec<Parameter>,
        names: Option<Vec<String>>,
        options: &[(String, Value)],
    ) -> Result<()> {
        self.optim.add_group_of_values(params, names, options)
    }
    fn try_set_lr(&mut self, group: usize, lr: f64) -> Result<()> {
        self.optim.try_set_lr(group, lr)
    }
    fn hooks(&self) -> &Hooks {
        self.optim.hooks()
    }
}
