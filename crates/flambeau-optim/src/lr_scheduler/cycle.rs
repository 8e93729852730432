//! The one-cycle policy.

use super::{At, Schedule, Scheduler};
use crate::by_name;
use crate::optimizer::Optimizer;
use flambeau_core::class::IntoArg;
use flambeau_core::ergonomic::expect;
use flambeau_core::value::FromValue;
use flambeau_core::{Error, Result, Value, ensure};
use flambeau_macros::class;
use std::f64::consts::PI;

/// One number for all groups, or one for each.
#[derive(Clone, Debug, PartialEq)]
pub struct PerGroup(Vec<f64>);
impl PerGroup {
    fn of(&self, groups: usize, name: &str) -> Result<Vec<f64>> {
        match self.0.len() {
            1 => Ok(vec![self.0[0]; groups]),
            n if n == groups => Ok(self.0.clone()),
            n => Err(Error::value(format!(
                "{name} must have the same length as optimizer.param_groups. {name} has {n} values, param_groups has {groups}."
            ))),
        }
    }
}
impl FromValue for PerGroup {
    fn from_value(v: &Value) -> Result<Self> {
        match v.items() {
            Some(l) => Ok(PerGroup(l.iter().map(f64::from_value).collect::<Result<_>>()?)),
            None => Ok(PerGroup(vec![f64::from_value(v)?])),
        }
    }
}
impl IntoArg<PerGroup> for f64 {
    fn into_arg(self) -> PerGroup {
        PerGroup(vec![self])
    }
}
impl<const N: usize> IntoArg<PerGroup> for [f64; N] {
    fn into_arg(self) -> PerGroup {
        PerGroup(self.to_vec())
    }
}
impl IntoArg<PerGroup> for Vec<f64> {
    fn into_arg(self) -> PerGroup {
        PerGroup(self)
    }
}

/// Options of [`OneCycleLR`].
#[class("torch.optim.lr_scheduler.OneCycleLR", make = by_name::scheduler::<OneCycleLROptions>)]
pub struct OneCycleLROptions {
    /// Highest learning rate.
    pub max_lr: PerGroup,
    /// Steps of the whole cycle; or give `epochs` and `steps_per_epoch`.
    pub total_steps: Option<i64>,
    /// Epochs of the whole cycle.
    pub epochs: Option<i64>,
    /// Steps of an epoch.
    pub steps_per_epoch: Option<i64>,
    /// Part of the cycle in which the learning rate rises.
    #[default(0.3)]
    pub pct_start: f64,
    /// `"cos"` or `"linear"`.
    #[default("cos")]
    pub anneal_strategy: String,
    /// Whether the momentum moves against the learning rate.
    #[default(true)]
    pub cycle_momentum: bool,
    /// Momentum at the highest learning rate.
    #[default(0.85)]
    pub base_momentum: PerGroup,
    /// Momentum at the start and the end.
    #[default(0.95)]
    pub max_momentum: PerGroup,
    /// The highest learning rate over the first.
    #[default(25.0)]
    pub div_factor: f64,
    /// The first learning rate over the last.
    #[default(1e4)]
    pub final_div_factor: f64,
    /// Whether the way down to the first learning rate is as long as the way up, and a third part follows.
    #[default(false)]
    pub three_phase: bool,
}

/// A learning rate or momentum that phases go between: by group, at the points first, highest, last.
#[derive(Clone, Copy, Debug)]
enum Point {
    First,
    Peak,
    Last,
}
/// The rule of [`OneCycleLR`].
#[derive(Clone, Debug)]
pub struct Cycle {
    options: OneCycleLROptions,
    total: i64,
    phases: Vec<(f64, Point, Point)>,
    max_lr: Vec<f64>,
    momenta: Option<(Vec<f64>, Vec<f64>)>,
}
/// One rise of the learning rate to its maximum and one fall to almost nothing (Smith and Topin 2018).
pub type OneCycleLR = Scheduler<Cycle>;

impl OneCycleLROptions {
    /// The schedule over the optimizer's groups. Panics with the error's text.
    #[track_caller]
    pub fn build(self, optimizer: &mut dyn Optimizer) -> OneCycleLR {
        expect(self.try_build(optimizer))
    }
    /// The schedule over the optimizer's groups.
    ///
    /// # Errors
    /// Options that do not fit.
    pub fn try_build(self, optimizer: &mut dyn Optimizer) -> Result<OneCycleLR> {
        Scheduler::of(optimizer, Cycle::waiting(self))
    }
}
impl OneCycleLR {
    /// The schedule over the optimizer's groups; further keywords are on its options. Panics with the error's text.
    #[track_caller]
    pub fn new(
        optimizer: &mut dyn Optimizer,
        max_lr: impl IntoArg<PerGroup>,
        total_steps: impl IntoArg<i64>,
    ) -> Self {
        OneCycleLROptions::new(max_lr).total_steps(total_steps).build(optimizer)
    }
}

impl From<OneCycleLROptions> for Cycle {
    fn from(options: OneCycleLROptions) -> Self {
        Self::waiting(options)
    }
}
impl Cycle {
    fn waiting(options: OneCycleLROptions) -> Self {
        Cycle { options, total: 0, phases: Vec::new(), max_lr: Vec::new(), momenta: None }
    }
    fn anneal(&self, start: f64, end: f64, pct: f64) -> f64 {
        if self.options.anneal_strategy == "cos" {
            end + (start - end) / 2.0 * ((PI * pct).cos() + 1.0)
        } else {
            (end - start) * pct + start
        }
    }
    /// The phase that a step lies in, and how far into it.
    fn place(&self, step: i64) -> (Point, Point, f64) {
        let (mut start, last) = (0.0, self.phases.len() - 1);
        for (i, (end, from, to)) in self.phases.iter().enumerate() {
            if step as f64 <= *end || i == last {
                return (*from, *to, (step as f64 - start) / (end - start));
            }
            start = *end;
        }
        (Point::Last, Point::Last, 0.0)
    }
    fn lr(&self, group: usize, p: Point) -> f64 {
        let first = self.max_lr[group] / self.options.div_factor;
        match p {
            Point::First => first,
            Point::Peak => self.max_lr[group],
            Point::Last => first / self.options.final_div_factor,
        }
    }
}
impl Schedule for Cycle {
    fn start(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        let o = &self.options;
        self.total = match (o.total_steps, o.epochs, o.steps_per_epoch) {
            (Some(n), _, _) => {
                ensure!(n > 0, Value, "Expected positive integer total_steps, but got {n}");
                n
            }
            (None, Some(e), Some(s)) => {
                ensure!(e > 0, Value, "Expected positive integer epochs, but got {e}");
                ensure!(s > 0, Value, "Expected positive integer steps_per_epoch, but got {s}");
                e * s
            }
            _ => {
                return Err(Error::value(
                    "You must define either total_steps OR (epochs AND steps_per_epoch)",
                ));
            }
        };
        ensure!(
            (0.0..=1.0).contains(&o.pct_start),
            Value,
            "Expected float between 0 and 1 pct_start, but got {}",
            o.pct_start
        );
        ensure!(
            matches!(o.anneal_strategy.as_str(), "cos" | "linear"),
            Value,
            "anneal_strategy must be one of 'cos' or 'linear', instead got {}",
            o.anneal_strategy
        );
        let (rise, end) = (o.pct_start * self.total as f64, (self.total - 1) as f64);
        self.phases = vec![(rise - 1.0, Point::First, Point::Peak)];
        if o.three_phase {
            self.phases.push((2.0 * rise - 2.0, Point::Peak, Point::First));
            self.phases.push((end, Point::First, Point::Last));
        } else {
            self.phases.push((end, Point::Peak, Point::Last));
        }
        let groups = optimizer.group_count();
        self.max_lr = o.max_lr.of(groups, "max_lr")?;
        self.momenta = None;
        if o.cycle_momentum {
            ensure!(
                (0..groups).all(|g| optimizer.momentum(g).is_some()),
                Value,
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
            );
            let base = o.base_momentum.of(groups, "base_momentum")?;
            self.momenta = Some((base, o.max_momentum.of(groups, "max_momentum")?));
        }
        (0..groups).for_each(|g| optimizer.set_initial_lr(g, self.lr(g, Point::First)));
        Ok(())
    }
    fn lrs(&mut self, at: At<'_>) -> Result<Vec<f64>> {
        ensure!(
            at.epoch <= self.total,
            Value,
            "Tried to step {} times. The specified number of total steps is {}",
            at.epoch,
            self.total
        );
        let (from, to, pct) = self.place(at.epoch);
        Ok((0..at.base.len()).map(|g| self.anneal(self.lr(g, from), self.lr(g, to), pct)).collect())
    }
    fn momenta(&mut self, at: At<'_>) -> Option<Vec<f64>> {
        let (base, max) = self.momenta.as_ref()?;
        let (from, to, pct) = self.place(at.epoch);
        let pick = |g: usize, p: Point| if matches!(p, Point::Peak) { base[g] } else { max[g] };
        Some((0..base.len()).map(|g| self.anneal(pick(g, from), pick(g, to), pct)).collect())
    }
}
