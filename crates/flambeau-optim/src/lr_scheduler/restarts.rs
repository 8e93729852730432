//! Cosine annealing with warm restarts.

// keywords are spelt as documented (`T_0`)
#![allow(non_snake_case)]

use super::{At, Schedule, Scheduler, schedule};
use crate::options::Resumed;
use crate::options::number_or_tensor::Number;
use flambeau_core::dispatch::value::{FromValue, IntoValue};
use flambeau_core::text::PyText;
use flambeau_core::{Result, Scalar, Value, ensure};
use flambeau_macros::class;
use std::f64::consts::PI;

#[class("torch.optim.lr_scheduler.CosineAnnealingWarmRestarts", make = crate::by_name::scheduler::<CosineAnnealingWarmRestartsOptions>, include(Resumed))]
pub struct CosineAnnealingWarmRestartsOptions {
    /// Steps until the first restart.
    pub T_0: Number,
    /// Factor by which the time between restarts grows.
    #[default(1)]
    pub T_mult: Number,
    /// Lowest learning rate.
    #[default(0.0)]
    pub eta_min: Number,
}
/// Cosine annealing that starts again from the top (Loshchilov and Hutter 2017). [`super::LRScheduler::try_step_to`]
/// takes parts of epochs.
///
/// ```
/// use torch::optim::lr_scheduler::CosineAnnealingWarmRestarts;
/// use torch::{nn, optim, prelude::*};
///
/// let mut optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.8);
/// let mut schedule = CosineAnnealingWarmRestarts::new(&mut optimizer, 2);
/// let mut rates = vec![optimizer.lr(0)];
/// for _ in 0..4 {
///     optimizer.step();
///     schedule.step(&mut optimizer);
///     rates.push(optimizer.lr(0));
/// }
/// assert!(torch::allclose(&torch::tensor(rates), &torch::tensor([0.8, 0.4, 0.8, 0.4, 0.8])));
/// ```
pub type CosineAnnealingWarmRestarts = Scheduler<Restarts>;
schedule!(CosineAnnealingWarmRestarts, CosineAnnealingWarmRestartsOptions, (t_0: Number));

/// The rule of [`CosineAnnealingWarmRestarts`].
///
/// ```
/// use torch::optim::lr_scheduler::{
///     CosineAnnealingWarmRestarts, CosineAnnealingWarmRestartsOptions, Restarts, Scheduler,
/// };
/// use torch::{nn, optim, prelude::*};
/// let mut optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.5);
/// let rule = Restarts::from(CosineAnnealingWarmRestartsOptions::new(4));
/// let _schedule: CosineAnnealingWarmRestarts = Scheduler::of(&mut optimizer, rule)?;
/// assert_eq!(optimizer.lr(0), 0.5);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Restarts {
    options: CosineAnnealingWarmRestartsOptions,
    now: f64,
    period: f64,
    whole: bool,
}
impl From<CosineAnnealingWarmRestartsOptions> for Restarts {
    fn from(options: CosineAnnealingWarmRestartsOptions) -> Self {
        Restarts { now: options.last_epoch as f64, period: options.T_0.value(), whole: true, options }
    }
}
fn is_int(n: &Number) -> bool {
    matches!(n, Number::Plain(Scalar::Int(_)))
}
impl Schedule for Restarts {
    fn start(&mut self, _: &mut dyn crate::Optimizer) -> Result<()> {
        let o = &self.options;
        ensure!(
            is_int(&o.T_0) && o.T_0.value() > 0.0,
            Value,
            "Expected positive integer T_0, but got {}",
            o.T_0.py_text()
        );
        ensure!(
            is_int(&o.T_mult) && o.T_mult.value() >= 1.0,
            Value,
            "Expected integer T_mult >= 1, but got {}",
            o.T_mult.py_text()
        );
        ensure!(
            o.eta_min.tensor().is_none(),
            Value,
            "Expected float or int eta_min, but got {} of type <class 'torch.Tensor'>",
            o.eta_min.py_text()
        );
        Ok(())
    }
    fn resume_from(&self) -> i64 {
        self.options.last_epoch
    }
    fn advance(&mut self, last: i64, to: Option<f64>) -> Option<Result<i64>> {
        let (first, factor) = (self.options.T_0.value(), self.options.T_mult.value());
        let to = if last < 0 { Some(to.unwrap_or(0.0)) } else { to };
        let Some(epoch) = to else {
            self.now += 1.0;
            if self.now >= self.period {
                self.now %= self.period;
                self.period *= factor;
            }
            return Some(Ok(last.saturating_add(1)));
        };
        if epoch < 0.0 {
            let e = flambeau_core::Error::value(format!(
                "Expected non-negative epoch, but got {}",
                epoch.py_text()
            ));
            return Some(Err(e));
        }
        self.whole = epoch.fract() == 0.0;
        if epoch < first {
            (self.period, self.now) = (first, epoch);
        } else if factor == 1.0 {
            self.now = epoch % first;
        } else {
            let n = (epoch / first * (factor - 1.0) + 1.0).log(factor).trunc();
            self.now = epoch - first * (factor.powf(n) - 1.0) / (factor - 1.0);
            self.period = first * factor.powf(n);
        }
        Some(Ok(epoch.floor() as i64))
    }
    fn lrs(&mut self, at: At<'_>) -> Result<Vec<f64>> {
        let least = self.options.eta_min.value();
        let height = 1.0 + (PI * self.now / self.period).cos();
        Ok(at.base.iter().map(|base| least + (base - least) * height / 2.0).collect())
    }
    fn entries(&self) -> Vec<(&'static str, Value)> {
        let whole = |v: f64| if self.whole { Value::Int(v as i64) } else { Value::Float(v) };
        vec![
            ("T_0", self.options.T_0.clone().into_value()),
            ("T_i", Value::Int(self.period as i64)),
            ("T_mult", self.options.T_mult.clone().into_value()),
            ("eta_min", self.options.eta_min.clone().into_value()),
            ("T_cur", whole(self.now)),
        ]
    }
    fn load(&mut self, name: &str, v: &Value) -> Result<()> {
        let number = || Number::from_value(v);
        match name {
            "T_0" => self.options.T_0 = number()?,
            "T_mult" => self.options.T_mult = number()?,
            "eta_min" => self.options.eta_min = number()?,
            "T_i" => self.period = number()?.value(),
            "T_cur" => {
                self.now = number()?.value();
                self.whole = is_int(&number()?);
            }
            _ => {}
        }
        Ok(())
    }
}
