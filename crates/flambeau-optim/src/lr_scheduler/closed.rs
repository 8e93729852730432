//! Schedules that follow from the step's number and the present learning rates.

// keywords are spelt as documented (`T_max`)
#![allow(non_snake_case)]

use super::{At, Schedule, Scheduler, schedule};
use crate::by_name;
use flambeau_core::ergonomic::expect;
use flambeau_core::{Result, ensure};
use flambeau_macros::class;
use std::f64::consts::PI;
use std::fmt;

fn scaled(at: At<'_>, factor: f64) -> Vec<f64> {
    at.current.iter().map(|lr| lr * factor).collect()
}

/// Options of [`StepLR`].
#[class("torch.optim.lr_scheduler.StepLR", make = by_name::scheduler::<StepLROptions>)]
pub struct StepLROptions {
    /// Steps between two changes.
    pub step_size: i64,
    /// Factor of a change.
    #[default(0.1)]
    pub gamma: f64,
}
/// Multiplies the learning rates by `gamma` every `step_size` steps.
pub type StepLR = Scheduler<StepLROptions>;
schedule!(StepLR, StepLROptions, (step_size: i64), set (gamma: f64));
impl Schedule for StepLROptions {
    fn start(&mut self, _: &mut dyn crate::Optimizer) -> Result<()> {
        ensure!(self.step_size > 0, Value, "step_size must be positive, but got {}", self.step_size);
        Ok(())
    }
    fn lrs(&mut self, at: At<'_>) -> Result<Vec<f64>> {
        let due = at.epoch != 0 && at.epoch % self.step_size == 0;
        Ok(scaled(at, if due { self.gamma } else { 1.0 }))
    }
}

/// Options of [`MultiStepLR`].
#[class("torch.optim.lr_scheduler.MultiStepLR", make = by_name::scheduler::<MultiStepLROptions>)]
pub struct MultiStepLROptions {
    /// Steps at which to change.
    pub milestones: Vec<i64>,
    /// Factor of a change.
    #[default(0.1)]
    pub gamma: f64,
}
/// Multiplies the learning rates by `gamma` at each milestone.
pub type MultiStepLR = Scheduler<MultiStepLROptions>;
schedule!(MultiStepLR, MultiStepLROptions, (milestones: Vec<i64>), set (gamma: f64));
impl Schedule for MultiStepLROptions {
    fn lrs(&mut self, at: At<'_>) -> Result<Vec<f64>> {
        let times = self.milestones.iter().filter(|m| **m == at.epoch).count();
        Ok(scaled(at, if times == 0 { 1.0 } else { self.gamma.powi(times as i32) }))
    }
}

/// Options of [`ConstantLR`].
#[class("torch.optim.lr_scheduler.ConstantLR", make = by_name::scheduler::<ConstantLROptions>)]
pub struct ConstantLROptions {
    /// Factor until the end.
    #[default(1.0 / 3.0)]
    pub factor: f64,
    /// Steps until the factor is taken back.
    #[default(5)]
    pub total_iters: i64,
}
/// Multiplies the learning rates by a factor for a number of steps.
pub type ConstantLR = Scheduler<ConstantLROptions>;
schedule!(ConstantLR, ConstantLROptions, ());
impl Schedule for ConstantLROptions {
    fn start(&mut self, _: &mut dyn crate::Optimizer) -> Result<()> {
        ensure!(
            (0.0..=1.0).contains(&self.factor),
            Value,
            "Constant multiplicative factor expected to be between 0 and 1."
        );
        Ok(())
    }
    fn lrs(&mut self, at: At<'_>) -> Result<Vec<f64>> {
        Ok(scaled(
            at,
            match at.epoch {
                0 => self.factor,
                e if e == self.total_iters => 1.0 / self.factor,
                _ => 1.0,
            },
        ))
    }
}

/// Options of [`LinearLR`].
#[class("torch.optim.lr_scheduler.LinearLR", make = by_name::scheduler::<LinearLROptions>)]
pub struct LinearLROptions {
    /// Factor at the start.
    #[default(1.0 / 3.0)]
    pub start_factor: f64,
    /// Factor at the end.
    #[default(1.0)]
    pub end_factor: f64,
    /// Steps from start to end.
    #[default(5)]
    pub total_iters: i64,
}
/// Multiplies the learning rates by a factor that goes from one value to another in equal steps.
pub type LinearLR = Scheduler<LinearLROptions>;
schedule!(LinearLR, LinearLROptions, ());
impl Schedule for LinearLROptions {
    fn start(&mut self, _: &mut dyn crate::Optimizer) -> Result<()> {
        ensure!(
            self.start_factor > 0.0 && self.start_factor <= 1.0,
            Value,
            "Starting multiplicative factor expected to be greater than 0 and less or equal to 1."
        );
        ensure!(
            (0.0..=1.0).contains(&self.end_factor),
            Value,
            "Ending multiplicative factor expected to be between 0 and 1."
        );
        Ok(())
    }
    fn lrs(&mut self, at: At<'_>) -> Result<Vec<f64>> {
        let rise = self.end_factor - self.start_factor;
        Ok(scaled(
            at,
            match at.epoch {
                0 => self.start_factor,
                e if e > self.total_iters => 1.0,
                e => 1.0 + rise / (self.total_iters as f64 * self.start_factor + (e - 1) as f64 * rise),
            },
        ))
    }
}

/// Options of [`ExponentialLR`].
#[class("torch.optim.lr_scheduler.ExponentialLR", make = by_name::scheduler::<ExponentialLROptions>)]
pub struct ExponentialLROptions {
    /// Factor of each step.
    pub gamma: f64,
}
/// Multiplies the learning rates by `gamma` every step.
pub type ExponentialLR = Scheduler<ExponentialLROptions>;
schedule!(ExponentialLR, ExponentialLROptions, (gamma: f64));
impl Schedule for ExponentialLROptions {
    fn lrs(&mut self, at: At<'_>) -> Result<Vec<f64>> {
        Ok(scaled(at, if at.epoch == 0 { 1.0 } else { self.gamma }))
    }
}

/// Options of [`PolynomialLR`].
#[class("torch.optim.lr_scheduler.PolynomialLR", make = by_name::scheduler::<PolynomialLROptions>)]
pub struct PolynomialLROptions {
    /// Steps until the learning rate is 0.
    #[default(5)]
    pub total_iters: i64,
    /// Power of the polynomial.
    #[default(1.0)]
    pub power: f64,
}
/// Lets the learning rates fall to 0 as `(1 - step / total_iters) ^ power`.
pub type PolynomialLR = Scheduler<PolynomialLROptions>;
schedule!(PolynomialLR, PolynomialLROptions, ());
impl Schedule for PolynomialLROptions {
    fn lrs(&mut self, at: At<'_>) -> Result<Vec<f64>> {
        if at.epoch == 0 || at.epoch > self.total_iters {
            return Ok(at.current.to_vec());
        }
        let left = |e: i64| 1.0 - e as f64 / self.total_iters as f64;
        Ok(scaled(at, (left(at.epoch) / left(at.epoch - 1)).powf(self.power)))
    }
}

/// Options of [`CosineAnnealingLR`].
#[class("torch.optim.lr_scheduler.CosineAnnealingLR", make = by_name::scheduler::<CosineAnnealingLROptions>)]
pub struct CosineAnnealingLROptions {
    /// Steps of half a period.
    pub T_max: i64,
    /// Lowest learning rate.
    #[default(0.0)]
    pub eta_min: f64,
}
/// Moves the learning rates along a cosine from their start to `eta_min` in `T_max` steps, and back (Loshchilov and
/// Hutter 2017).
pub type CosineAnnealingLR = Scheduler<CosineAnnealingLROptions>;
schedule!(CosineAnnealingLR, CosineAnnealingLROptions, (t_max: i64));
impl Schedule for CosineAnnealingLROptions {
    fn lrs(&mut self, at: At<'_>) -> Result<Vec<f64>> {
        let (e, t, min) = (at.epoch, self.T_max, self.eta_min);
        if e == 0 {
            return Ok(at.current.to_vec());
        }
        if (e - 1 - t) % (2 * t) == 0 {
            // the quotient below would be 0 / 0: here the way up starts
            let up = (1.0 - (PI / t as f64).cos()) / 2.0;
            return Ok(at.current.iter().zip(at.base).map(|(lr, base)| lr + (base - min) * up).collect());
        }
        let height = |e: i64| 1.0 + (PI * e as f64 / t as f64).cos();
        let factor = height(e) / height(e - 1);
        Ok(at.current.iter().map(|lr| factor * (lr - min) + min).collect())
    }
}

/// Options of [`CosineAnnealingWarmRestarts`].
#[class("torch.optim.lr_scheduler.CosineAnnealingWarmRestarts", make = by_name::scheduler::<CosineAnnealingWarmRestartsOptions>)]
pub struct CosineAnnealingWarmRestartsOptions {
    /// Steps until the first restart.
    pub T_0: i64,
    /// Factor by which the time between restarts grows.
    #[default(1)]
    pub T_mult: i64,
    /// Lowest learning rate.
    #[default(0.0)]
    pub eta_min: f64,
}
/// Cosine annealing that starts again from the top (Loshchilov and Hutter 2017).
pub type CosineAnnealingWarmRestarts = Scheduler<CosineAnnealingWarmRestartsOptions>;
schedule!(CosineAnnealingWarmRestarts, CosineAnnealingWarmRestartsOptions, (t_0: i64));
impl Schedule for CosineAnnealingWarmRestartsOptions {
    fn start(&mut self, _: &mut dyn crate::Optimizer) -> Result<()> {
        ensure!(self.T_0 > 0, Value, "Expected positive integer T_0, but got {}", self.T_0);
        ensure!(self.T_mult >= 1, Value, "Expected integer T_mult >= 1, but got {}", self.T_mult);
        Ok(())
    }
    fn lrs(&mut self, at: At<'_>) -> Result<Vec<f64>> {
        let (mut now, mut period) = (at.epoch, self.T_0);
        while now >= period {
            now -= period;
            period *= self.T_mult;
        }
        let height = (1.0 + (PI * now as f64 / period as f64).cos()) / 2.0;
        Ok(at.base.iter().map(|base| self.eta_min + (base - self.eta_min) * height).collect())
    }
}

/// Factors by step, one function for all groups or one for each.
type Factors = Vec<Box<dyn Fn(i64) -> f64 + Send>>;
fn factors(f: &Factors, at: At<'_>) -> Result<Vec<f64>> {
    let groups = at.base.len();
    ensure!(f.len() == 1 || f.len() == groups, Value, "Expected {groups} lr_lambdas, but got {}", f.len());
    Ok((0..groups).map(|g| f[g.min(f.len() - 1)](at.epoch)).collect())
}

macro_rules! by_function {
    ($(#[$doc:meta])* $name:ident, $rule:ident, |$at:ident, $f:ident| $e:expr) => {
        /// The rule of a schedule by functions.
        pub struct $rule(Factors);
        impl $rule {
            pub(crate) fn of(f: Factors) -> Self {
                $rule(f)
            }
        }
        impl fmt::Debug for $rule {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($rule))
            }
        }
        $(#[$doc])*
        pub type $name = Scheduler<$rule>;
        impl $name {
            /// One function of the step for all groups.
            #[track_caller]
            pub fn new(
                optimizer: &mut dyn crate::Optimizer,
                lr_lambda: impl Fn(i64) -> f64 + Send + 'static,
            ) -> Self {
                expect(Scheduler::of(optimizer, $rule(vec![Box::new(lr_lambda)])))
            }
            /// One function for each group.
            ///
            /// # Errors
            /// Another number of functions than of groups.
            pub fn with_each(optimizer: &mut dyn crate::Optimizer, lr_lambdas: Factors) -> Result<Self> {
                Scheduler::of(optimizer, $rule(lr_lambdas))
            }
        }
        impl Schedule for $rule {
            fn lrs(&mut self, $at: At<'_>) -> Result<Vec<f64>> {
                let $f = &self.0;
                $e
            }
        }
    };
}
by_function!(
    /// The starting learning rates times a function of the step.
    #[doc(alias = "torch.optim.lr_scheduler.LambdaLR")]
    LambdaLR, LambdaSchedule, |at, f| {
        Ok(at.base.iter().zip(factors(f, at)?).map(|(lr, k)| lr * k).collect())
    }
);
by_function!(
    /// The present learning rates times a function of the step.
    #[doc(alias = "torch.optim.lr_scheduler.MultiplicativeLR")]
    MultiplicativeLR, MultiplicativeSchedule, |at, f| {
        if at.epoch == 0 {
            return Ok(at.current.to_vec());
        }
        Ok(at.current.iter().zip(factors(f, at)?).map(|(lr, k)| lr * k).collect())
    }
);
