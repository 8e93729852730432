//! Schedules that follow from the step's number and the present learning rates.

// keywords are spelt as documented (`T_max`)
#![allow(non_snake_case)]

use super::{At, Schedule, Scheduler, options_are_state, schedule};
use crate::options::Resumed;
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::{Error, Result, Value, ensure};
use flambeau_macros::class;
use std::f64::consts::PI;

fn scaled(at: At<'_>, factor: f64) -> Vec<f64> {
    at.current.iter().map(|lr| lr * factor).collect()
}
fn from_base(at: At<'_>, factor: f64) -> Option<Vec<f64>> {
    Some(at.base.iter().map(|lr| lr * factor).collect())
}
fn no_zero(n: i64) -> Result<()> {
    ensure!(n != 0, Value, "integer modulo by zero");
    Ok(())
}

#[class("torch.optim.lr_scheduler.StepLR", make = crate::by_name::scheduler::<StepLROptions>, values, include(Resumed))]
pub struct StepLROptions {
    /// Steps between two changes.
    pub step_size: i64,
    /// Factor of a change.
    #[default(0.1)]
    pub gamma: f64,
}
/// Multiplies the learning rates by `gamma` every `step_size` steps.
///
/// ```
/// use torch::optim::lr_scheduler::StepLR;
/// use torch::{nn, optim, prelude::*};
///
/// let mut optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.8);
/// let mut schedule = StepLR::new(&mut optimizer, 2, 0.5);
/// let mut rates = vec![optimizer.lr(0)];
/// for _ in 0..4 {
///     optimizer.step();
///     schedule.step(&mut optimizer);
///     rates.push(optimizer.lr(0));
/// }
/// assert!(torch::allclose(&torch::tensor(rates), &torch::tensor([0.8, 0.8, 0.4, 0.4, 0.2])));
/// ```
pub type StepLR = Scheduler<StepLROptions>;
schedule!(StepLR, StepLROptions, (step_size: i64), set (gamma: f64));
impl Schedule for StepLROptions {
    fn lrs(&mut self, at: At<'_>) -> Result<Vec<f64>> {
        if at.epoch == 0 {
            return Ok(at.current.to_vec());
        }
        no_zero(self.step_size)?;
        Ok(scaled(at, if at.epoch % self.step_size == 0 { self.gamma } else { 1.0 }))
    }
    fn closed_form(&self, at: At<'_>) -> Option<Vec<f64>> {
        from_base(at, self.gamma.powf(at.epoch.div_euclid(self.step_size.max(1)) as f64))
    }
    options_are_state!();
}

#[class("torch.optim.lr_scheduler.MultiStepLR", make = crate::by_name::scheduler::<MultiStepLROptions>, values, include(Resumed))]
pub struct MultiStepLROptions {
    /// Steps at which to change.
    pub milestones: Vec<i64>,
    /// Factor of a change.
    #[default(0.1)]
    pub gamma: f64,
}
/// Multiplies the learning rates by `gamma` at each milestone, twice at one that is listed twice.
///
/// ```
/// use torch::optim::lr_scheduler::MultiStepLR;
/// use torch::{nn, optim, prelude::*};
///
/// let mut optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.8);
/// let mut schedule = MultiStepLR::new(&mut optimizer, [1, 3], 0.5);
/// let mut rates = vec![optimizer.lr(0)];
/// for _ in 0..4 {
///     optimizer.step();
///     schedule.step(&mut optimizer);
///     rates.push(optimizer.lr(0));
/// }
/// assert!(torch::allclose(&torch::tensor(rates), &torch::tensor([0.8, 0.4, 0.4, 0.2, 0.2])));
/// ```
pub type MultiStepLR = Scheduler<MultiStepLROptions>;
schedule!(MultiStepLR, MultiStepLROptions, (milestones: Vec<i64>), set (gamma: f64));
impl Schedule for MultiStepLROptions {
    fn resume_from(&self) -> i64 {
        self.last_epoch
    }
    fn lrs(&mut self, at: At<'_>) -> Result<Vec<f64>> {
        let times = self.milestones.iter().filter(|m| **m == at.epoch).count();
        Ok(scaled(at, if times == 0 { 1.0 } else { self.gamma.powi(times as i32) }))
    }
    fn closed_form(&self, at: At<'_>) -> Option<Vec<f64>> {
        let passed = self.milestones.iter().filter(|m| **m <= at.epoch).count();
        from_base(at, self.gamma.powi(passed as i32))
    }
    fn entries(&self) -> Vec<(&'static str, Value)> {
        let mut counter: Vec<(String, Value)> = Vec::new();
        for m in &self.milestones {
            let key = m.to_string();
            match counter.iter_mut().find(|(k, _)| *k == key) {
                Some((_, Value::Int(n))) => *n += 1,
                _ => counter.push((key, Value::Int(1))),
            }
        }
        vec![("milestones", Value::Dict(counter)), ("gamma", Value::Float(self.gamma))]
    }
    fn load(&mut self, name: &str, v: &Value) -> Result<()> {
        match (name, v) {
            ("gamma", v) => self.gamma = f64::from_value(v)?,
            ("milestones", Value::Dict(l)) => {
                self.milestones.clear();
                for (k, n) in l {
                    let m: i64 = k.parse().map_err(|_| Error::type_("a milestone is no integer"))?;
                    let times = i64::from_value(n)?.clamp(0, 1 << 20) as usize;
                    self.milestones.extend(std::iter::repeat_n(m, times));
                }
            }
            ("milestones", v) => self.milestones = Vec::from_value(v)?,
            _ => {}
        }
        Ok(())
    }
}

#[class("torch.optim.lr_scheduler.ConstantLR", make = crate::by_name::scheduler::<ConstantLROptions>, values, include(Resumed))]
pub struct ConstantLROptions {
    /// Factor until the end.
    #[default(1.0 / 3.0)]
    pub factor: f64,
    /// Steps until the factor is taken back.
    #[default(5)]
    pub total_iters: i64,
}
/// Multiplies the learning rates by a factor for a number of steps.
///
/// ```
/// use torch::optim::lr_scheduler::ConstantLROptions;
/// use torch::{nn, optim, prelude::*};
///
/// let mut optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.8);
/// let mut schedule = ConstantLROptions::new().factor(0.5).total_iters(2).build(&mut optimizer);
/// let mut rates = vec![optimizer.lr(0)];
/// for _ in 0..4 {
///     optimizer.step();
///     schedule.step(&mut optimizer);
///     rates.push(optimizer.lr(0));
/// }
/// assert!(torch::allclose(&torch::tensor(rates), &torch::tensor([0.4, 0.4, 0.8, 0.8, 0.8])));
/// ```
pub type ConstantLR = Scheduler<ConstantLROptions>;
schedule!(ConstantLR, ConstantLROptions, ());
impl Schedule for ConstantLROptions {
    fn start(&mut self, _: &mut dyn crate::Optimizer) -> Result<()> {
        ensure!(
            !(self.factor > 1.0 || self.factor < 0.0),
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
    fn closed_form(&self, at: At<'_>) -> Option<Vec<f64>> {
        let over = (at.epoch >= self.total_iters) as i64 as f64;
        from_base(at, self.factor + over * (1.0 - self.factor))
    }
    options_are_state!();
}

#[class("torch.optim.lr_scheduler.LinearLR", make = crate::by_name::scheduler::<LinearLROptions>, values, include(Resumed))]
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
///
/// ```
/// use torch::optim::lr_scheduler::LinearLROptions;
/// use torch::{nn, optim, prelude::*};
///
/// let mut optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.8);
/// let mut schedule = LinearLROptions::new().start_factor(0.5).total_iters(2).build(&mut optimizer);
/// let mut rates = vec![optimizer.lr(0)];
/// for _ in 0..4 {
///     optimizer.step();
///     schedule.step(&mut optimizer);
///     rates.push(optimizer.lr(0));
/// }
/// assert!(torch::allclose(&torch::tensor(rates), &torch::tensor([0.4, 0.6, 0.8, 0.8, 0.8])));
/// ```
pub type LinearLR = Scheduler<LinearLROptions>;
schedule!(LinearLR, LinearLROptions, ());
impl Schedule for LinearLROptions {
    fn start(&mut self, _: &mut dyn crate::Optimizer) -> Result<()> {
        ensure!(
            !(self.start_factor > 1.0 || self.start_factor <= 0.0),
            Value,
            "Starting multiplicative factor expected to be greater than 0 and less or equal to 1."
        );
        ensure!(
            !(self.end_factor > 1.0 || self.end_factor < 0.0),
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
                e if at.initial || e > self.total_iters => 1.0,
                e => 1.0 + rise / (self.total_iters as f64 * self.start_factor + (e - 1) as f64 * rise),
            },
        ))
    }
    fn closed_form(&self, at: At<'_>) -> Option<Vec<f64>> {
        let rise = self.end_factor - self.start_factor;
        let part = self.total_iters.min(at.epoch) as f64 / self.total_iters as f64;
        from_base(at, self.start_factor + rise * part)
    }
    options_are_state!();
}

#[class("torch.optim.lr_scheduler.ExponentialLR", make = crate::by_name::scheduler::<ExponentialLROptions>, values, include(Resumed))]
pub struct ExponentialLROptions {
    /// Factor of each step.
    pub gamma: f64,
}
/// Multiplies the learning rates by `gamma` every step.
///
/// ```
/// use torch::optim::lr_scheduler::ExponentialLR;
/// use torch::{nn, optim, prelude::*};
///
/// let mut optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.8);
/// let mut schedule = ExponentialLR::new(&mut optimizer, 0.5);
/// let mut rates = vec![optimizer.lr(0)];
/// for _ in 0..4 {
///     optimizer.step();
///     schedule.step(&mut optimizer);
///     rates.push(optimizer.lr(0));
/// }
/// assert!(torch::allclose(&torch::tensor(rates), &torch::tensor([0.8, 0.4, 0.2, 0.1, 0.05])));
/// ```
pub type ExponentialLR = Scheduler<ExponentialLROptions>;
schedule!(ExponentialLR, ExponentialLROptions, (gamma: f64));
impl Schedule for ExponentialLROptions {
    fn lrs(&mut self, at: At<'_>) -> Result<Vec<f64>> {
        Ok(scaled(at, if at.initial { 1.0 } else { self.gamma }))
    }
    fn closed_form(&self, at: At<'_>) -> Option<Vec<f64>> {
        from_base(at, self.gamma.powf(at.epoch as f64))
    }
    options_are_state!();
}

#[class("torch.optim.lr_scheduler.PolynomialLR", make = crate::by_name::scheduler::<PolynomialLROptions>, values, include(Resumed))]
pub struct PolynomialLROptions {
    /// Steps until the learning rate is 0.
    #[default(5)]
    pub total_iters: i64,
    /// Power of the polynomial.
    #[default(1.0)]
    pub power: f64,
}
/// Lets the learning rates fall to 0 as `(1 - step / total_iters) ^ power`.
///
/// ```
/// use torch::optim::lr_scheduler::PolynomialLROptions;
/// use torch::{nn, optim, prelude::*};
///
/// let mut optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.8);
/// let mut schedule = PolynomialLROptions::new().total_iters(4).build(&mut optimizer);
/// let mut rates = vec![optimizer.lr(0)];
/// for _ in 0..4 {
///     optimizer.step();
///     schedule.step(&mut optimizer);
///     rates.push(optimizer.lr(0));
/// }
/// assert!(torch::allclose(&torch::tensor(rates), &torch::tensor([0.8, 0.6, 0.4, 0.2, 0.0])));
/// ```
pub type PolynomialLR = Scheduler<PolynomialLROptions>;
schedule!(PolynomialLR, PolynomialLROptions, ());
impl Schedule for PolynomialLROptions {
    fn lrs(&mut self, at: At<'_>) -> Result<Vec<f64>> {
        if at.initial || at.epoch > self.total_iters {
            return Ok(at.current.to_vec());
        }
        let left = |e: i64| 1.0 - e as f64 / self.total_iters as f64;
        Ok(scaled(at, (left(at.epoch) / left(at.epoch - 1)).powf(self.power)))
    }
    fn closed_form(&self, at: At<'_>) -> Option<Vec<f64>> {
        let left = 1.0 - self.total_iters.min(at.epoch) as f64 / self.total_iters as f64;
        from_base(at, left.powf(self.power))
    }
    options_are_state!();
}

#[class("torch.optim.lr_scheduler.CosineAnnealingLR", make = crate::by_name::scheduler::<CosineAnnealingLROptions>, values, include(Resumed))]
pub struct CosineAnnealingLROptions {
    /// Steps of half a period.
    pub T_max: i64,
    /// Lowest learning rate.
    #[default(0.0)]
    pub eta_min: f64,
}
/// Moves the learning rates along a cosine from their start to `eta_min` in `T_max` steps, and back (Loshchilov and
/// Hutter 2017).
///
/// ```
/// use torch::optim::lr_scheduler::CosineAnnealingLR;
/// use torch::{nn, optim, prelude::*};
///
/// let mut optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.8);
/// let mut schedule = CosineAnnealingLR::new(&mut optimizer, 4);
/// let mut rates = vec![optimizer.lr(0)];
/// for _ in 0..4 {
///     optimizer.step();
///     schedule.step(&mut optimizer);
///     rates.push(optimizer.lr(0));
/// }
/// assert!(torch::allclose(&torch::tensor(rates), &torch::tensor([0.8, 0.6828427, 0.4, 0.1171573, 0.0])));
/// ```
pub type CosineAnnealingLR = Scheduler<CosineAnnealingLROptions>;
schedule!(CosineAnnealingLR, CosineAnnealingLROptions, (t_max: i64));
impl CosineAnnealingLROptions {
    fn at(&self, epoch: i64, base: &[f64]) -> Vec<f64> {
        let height = (1.0 + (PI * epoch as f64 / self.T_max as f64).cos()) / 2.0;
        base.iter().map(|b| self.eta_min + (b - self.eta_min) * height).collect()
    }
}
impl Schedule for CosineAnnealingLROptions {
    fn lrs(&mut self, at: At<'_>) -> Result<Vec<f64>> {
        let (e, t, min) = (at.epoch, self.T_max, self.eta_min);
        if at.initial {
            return Ok(at.current.to_vec());
        }
        if at.step_count == 1 && e > 0 {
            return Ok(self.at(e, at.base));
        }
        no_zero(t)?;
        if (e as i128 - 1 - t as i128) % (2 * t as i128) == 0 {
            // the quotient below would be 0 / 0: here the way up starts
            let up = (1.0 - (PI / t as f64).cos()) / 2.0;
            return Ok(at.current.iter().zip(at.base).map(|(lr, base)| lr + (base - min) * up).collect());
        }
        let height = |e: i64| 1.0 + (PI * e as f64 / t as f64).cos();
        let factor = height(e) / height(e - 1);
        Ok(at.current.iter().map(|lr| factor * (lr - min) + min).collect())
    }
    fn closed_form(&self, at: At<'_>) -> Option<Vec<f64>> {
        Some(self.at(at.epoch, at.base))
    }
    options_are_state!();
}
