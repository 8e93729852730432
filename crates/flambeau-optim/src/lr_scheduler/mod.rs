//! Learning rate schedules. A schedule is made for an optimizer and stepped with it:
//! `let mut s = StepLR::new(&mut optimizer, 30, 0.1); ... s.step(&mut optimizer);`

mod closed;
mod cycle;
mod plateau;

pub use closed::{
    ConstantLR, ConstantLROptions, CosineAnnealingLR, CosineAnnealingLROptions, CosineAnnealingWarmRestarts,
    CosineAnnealingWarmRestartsOptions, ExponentialLR, ExponentialLROptions, LambdaLR, LambdaSchedule,
    LinearLR, LinearLROptions, MultiStepLR, MultiStepLROptions, MultiplicativeLR, MultiplicativeSchedule,
    PolynomialLR, PolynomialLROptions, StepLR, StepLROptions,
};
pub use cycle::{Cycle, OneCycleLR, OneCycleLROptions, PerGroup};
pub use plateau::{ReduceLROnPlateau, ReduceLROnPlateauOptions};

use crate::optimizer::Optimizer;
use flambeau_core::Result;
use flambeau_core::ergonomic::expect;
use std::fmt::Debug;

/// Where a schedule stands when it is asked for learning rates.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// Steps so far; 0 when the schedule is made.
    pub epoch: i64,
    /// Learning rates that the groups started with.
    pub base: &'a [f64],
    /// Learning rates of the groups now.
    pub current: &'a [f64],
}

/// A rule for learning rates; a user's own rule implements this.
pub trait Schedule: Debug + Send {
    /// Checks the options against the optimizer, when the schedule is made.
    ///
    /// # Errors
    /// Options that do not fit.
    fn start(&mut self, _optimizer: &mut dyn Optimizer) -> Result<()> {
        Ok(())
    }
    /// Learning rates of the groups.
    ///
    /// # Errors
    /// More steps than the rule has.
    fn lrs(&mut self, at: At<'_>) -> Result<Vec<f64>>;
    /// Momenta of the groups, for rules that move them.
    fn momenta(&mut self, _at: At<'_>) -> Option<Vec<f64>> {
        None
    }
}

/// What every schedule that counts steps does.
#[doc(alias = "torch.optim.lr_scheduler.LRScheduler")]
pub trait LRScheduler: Debug + Send {
    /// Moves the learning rates on by one step.
    ///
    /// # Errors
    /// More steps than the schedule has.
    fn try_step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()>;
    /// [`LRScheduler::try_step`] that panics.
    #[track_caller]
    fn step(&mut self, optimizer: &mut dyn Optimizer) {
        expect(self.try_step(optimizer));
    }
    /// Learning rates that the last step set.
    fn get_last_lr(&self) -> &[f64];
    /// Steps so far.
    fn last_epoch(&self) -> i64;
}

/// A rule together with its place.
#[derive(Debug)]
pub struct Scheduler<S> {
    rule: S,
    base: Vec<f64>,
    last_lr: Vec<f64>,
    epoch: i64,
}
impl<S: Schedule> Scheduler<S> {
    /// A schedule over the optimizer's groups, at its start: it sets their learning rates.
    ///
    /// # Errors
    /// Options that do not fit.
    pub fn of(optimizer: &mut dyn Optimizer, mut rule: S) -> Result<Self> {
        for g in 0..optimizer.group_count() {
            if !optimizer.has_initial_lr(g) {
                let lr = optimizer.lr(g);
                optimizer.set_initial_lr(g, lr);
            }
        }
        rule.start(optimizer)?;
        let base = (0..optimizer.group_count()).map(|g| optimizer.initial_lr(g)).collect();
        let mut out = Scheduler { rule, base, last_lr: Vec::new(), epoch: 0 };
        out.apply(optimizer)?;
        Ok(out)
    }
    fn apply(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        let current: Vec<f64> = (0..optimizer.group_count()).map(|g| optimizer.lr(g)).collect();
        let at = At { epoch: self.epoch, base: &self.base, current: &current };
        let lrs = self.rule.lrs(at)?;
        if let Some(momenta) = self.rule.momenta(at) {
            momenta.into_iter().enumerate().for_each(|(g, m)| optimizer.set_momentum(g, m));
        }
        lrs.iter().enumerate().for_each(|(g, lr)| optimizer.set_lr(g, *lr));
        self.last_lr = lrs;
        Ok(())
    }
    /// The rule.
    pub fn rule(&self) -> &S {
        &self.rule
    }
}
impl<S: Schedule> LRScheduler for Scheduler<S> {
    fn try_step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        self.epoch += 1;
        self.apply(optimizer)
    }
    fn get_last_lr(&self) -> &[f64] {
        &self.last_lr
    }
    fn last_epoch(&self) -> i64 {
        self.epoch
    }
}

/// `new` with the arguments that have no default, `build` and the list entry's constructor of a schedule's options.
macro_rules! schedule {
    ($name:ident, $options:ident, ($($arg:ident: $t:ty),*) $(, set ($($set:ident: $st:ty),*))?) => {
        impl $options {
            /// The schedule over the optimizer's groups. Panics with the error's text.
            #[track_caller]
            pub fn build(self, optimizer: &mut dyn crate::Optimizer) -> $name {
                flambeau_core::ergonomic::expect(crate::lr_scheduler::Scheduler::of(optimizer, self))
            }
        }
        impl $name {
            /// The schedule over the optimizer's groups; further keywords are on its options. Panics with the error's
            /// text.
            #[track_caller]
            pub fn new(
                optimizer: &mut dyn crate::Optimizer
                $(, $arg: impl flambeau_core::class::IntoArg<$t>)*
                $($(, $set: impl flambeau_core::class::IntoArg<$st>)*)?
            ) -> Self {
                $options::new($($arg),*)$($(.$set($set))*)?.build(optimizer)
            }
        }
    };
}
use schedule;
