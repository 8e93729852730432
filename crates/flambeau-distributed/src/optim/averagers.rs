//! Averages of parameters over ranks, now and then.

use crate::group::ProcessGroup;
use crate::world::World;
use crate::{NewGroupOptions, ReduceOptions, try_all_reduce, try_new_subgroups_of};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Result, Tensor, bail, ensure, ops};
use flambeau_nn::Parameter;

/// What averages parameters in some steps.
#[doc(alias = "torch.distributed.algorithms.model_averaging.averagers.ModelAverager")]
#[doc(alias = "torch.distributed.algorithms.model_averaging.averagers")]
pub trait ModelAverager: Send {
    /// Counts a step, and averages those of the parameters that have gradients if it is time.
    ///
    /// # Errors
    /// What collectives meet.
    fn try_average_parameters(&mut self, params: &[Parameter]) -> Result<()>;
    /// [`ModelAverager::try_average_parameters`] that panics.
    #[track_caller]
    fn average_parameters(&mut self, params: &[Parameter]) {
        expect(self.try_average_parameters(params));
    }
    /// The number of steps so far.
    fn step(&self) -> i64;
    /// Says the number of steps.
    fn set_step(&mut self, step: i64);
}

fn group_of(g: Option<&ProcessGroup>) -> Result<ProcessGroup> {
    g.map_or_else(|| World::current().default_group(), |g| Ok(g.clone()))
}
/// The mean of each parameter that has a gradient, over the group.
fn average(params: &[Parameter], group: &ProcessGroup) -> Result<()> {
    let all: Vec<Tensor> =
        params.iter().filter(|p| p.grad().is_some()).map(|p| p.tensor().alias_detached()).collect();
    if !group.is_member() || all.is_empty() {
        return Ok(());
    }
    let parts: Vec<Tensor> = all.iter().map(|t| ops::reshape(t, &[t.numel()])).collect::<Result<_>>()?;
    let flat = ops::cat(&parts, 0)?;
    ops::div_(&flat, &Tensor::wrapped_raw(group.size() as f64)?)?;
    try_all_reduce(&flat, ReduceOptions::new().group(group))?;
    let mut at = 0;
    for t in &all {
        ops::copy_(t, &ops::view(&ops::narrow(&flat, 0, at, t.numel())?, t.sizes())?, false)?;
        at += t.numel();
    }
    Ok(())
}

/// Averages in every `period`-th step after a warm-up.
///
/// ```
/// use torch::distributed::{run_in_threads, optim::{ModelAverager, PeriodicModelAverager}};
/// use torch::nn::Parameter;
/// use torch::prelude::*;
///
/// let means = run_in_threads(2, |rank| {
///     let p = Parameter::new(torch::full([1], rank as f64));
///     p.set_grad(Some(torch::zeros([1])));
///     PeriodicModelAverager::new(2, 0, None).average_parameters(&[p.clone()]);
///     p.tensor().item::<f32>()
/// });
/// assert_eq!(means, [0.5, 0.5]);
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributed.algorithms.model_averaging.averagers.PeriodicModelAverager")]
pub struct PeriodicModelAverager {
    period: i64,
    warmup_steps: i64,
    group: ProcessGroup,
    step: i64,
}
impl PeriodicModelAverager {
    /// Over a group, the default one if none is given. Panics with the error's text.
    #[track_caller]
    pub fn new(period: i64, warmup_steps: i64, process_group: Option<&ProcessGroup>) -> Self {
        expect(Self::try_new(period, warmup_steps, process_group))
    }
    /// [`PeriodicModelAverager::new`] with an error instead of a panic.
    ///
    /// # Errors
    /// A period below 1, a negative warm-up, no job.
    pub fn try_new(period: i64, warmup_steps: i64, process_group: Option<&ProcessGroup>) -> Result<Self> {
        let group = group_of(process_group)?;
        ensure!(warmup_steps >= 0, Value, "Arg ``warmup_steps`` must be a non-negative number.");
        ensure!(period >= 1, Value, "Arg ``period`` must be a positive value.");
        Ok(PeriodicModelAverager { period, warmup_steps, group, step: 0 })
    }
}
impl ModelAverager for PeriodicModelAverager {
    fn try_average_parameters(&mut self, params: &[Parameter]) -> Result<()> {
        if self.step >= self.warmup_steps && (self.step - self.warmup_steps) % self.period == 0 {
            average(params, &self.group)?;
        }
        self.step = self.step.saturating_add(1);
        Ok(())
    }
    fn step(&self) -> i64 {
        self.step
    }
    fn set_step(&mut self, step: i64) {
        self.step = step;
    }
}

/// Averages over small groups often, and over larger ones seldom.
///
/// ```
/// use torch::distributed::optim::{HierarchicalModelAverager, ModelAverager};
/// use torch::distributed::run_in_threads;
/// use torch::nn::Parameter;
/// let seen = run_in_threads(4, |rank| {
///     // pairs in each step, all four in every second one
///     let mut averager = HierarchicalModelAverager::try_new(&[(1, 2), (2, 4)], 0, None).unwrap();
///     let p = Parameter::new(torch::tensor([rank as f32]));
///     p.set_grad(Some(torch::zeros([1])));
///     averager.average_parameters(&[p.clone()]);
///     let all = p.value().item::<f32>();
///     averager.average_parameters(&[p.clone()]);
///     (all, averager.step())
/// });
/// assert_eq!(seen[0], (1.5, 2));
/// ```
#[derive(Clone, Debug)]
#[doc(
    alias = "torch.distributed.algorithms.model_averaging.hierarchical_model_averager.HierarchicalModelAverager"
)]
pub struct HierarchicalModelAverager {
    groups: Vec<(i64, ProcessGroup)>,
    warmup_steps: i64,
    step: i64,
}
impl HierarchicalModelAverager {
    /// Periods with the sizes of groups, both growing; the last group is all of `process_group`. All processes of the job call this.
    ///
    /// # Errors
    /// No periods, a period or warm-up below what is allowed, a last size that is not the group's, no job.
    pub fn try_new(
        period_group_sizes: &[(i64, i64)],
        warmup_steps: i64,
        process_group: Option<&ProcessGroup>,
    ) -> Result<Self> {
        let all = group_of(process_group)?;
        let (Some(first), Some(last)) = (period_group_sizes.first(), period_group_sizes.last()) else {
            bail!(Value, "Arg ``period_group_size_dict`` must not be empty.")
        };
        ensure!(
            first.0 > 0 && period_group_sizes.iter().all(|(period, _)| *period > 0),
            Value,
            "The minimum period in arg ``period_group_size_dict`` must be a positive value."
        );
        ensure!(
            last.1 == all.size(),
            Value,
            "The last value in arg ``period_group_size_dict`` {} must be equal to the size of arg ``process_group`` {}.",
            last.1,
            all.size()
        );
        let mut groups = Vec::new();
        for (period, size) in period_group_sizes {
            let g = if *size == all.size() {
                all.clone()
            } else {
                try_new_subgroups_of(&all, *size, NewGroupOptions::new())?.0
            };
            groups.push((*period, g));
        }
        ensure!(warmup_steps >= 0, Value, "Arg ``warmup_steps`` must be a non-negative number.");
        Ok(HierarchicalModelAverager { groups, warmup_steps, step: 0 })
    }
}
impl ModelAverager for HierarchicalModelAverager {
    fn try_average_parameters(&mut self, params: &[Parameter]) -> Result<()> {
        if self.step >= self.warmup_steps
            && let Some((_, g)) = self.groups.iter().rev().find(|(p, _)| self.step % p == 0)
        {
            average(params, g)?;
        }
        self.step = self.step.saturating_add(1);
        Ok(())
    }
    fn step(&self) -> i64 {
        self.step
    }
    fn set_step(&mut self, step: i64) {
        self.step = step;
    }
}
