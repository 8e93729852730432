//! The one-cycle policy.

use super::cyclic::CycleMomentum;
use super::{At, Schedule, Scheduler};
use crate::optimizer::Optimizer;
use crate::options::Resumed;
use crate::options::number_or_tensor::{Number, PerGroup};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::dispatch::value::{FromValue, IntoValue};
use flambeau_core::text::PyText;
use flambeau_core::{Error, Result, Scalar, Value, ensure};
use flambeau_macros::class;
use std::f64::consts::PI;

#[class("torch.optim.lr_scheduler.OneCycleLR", make = crate::by_name::scheduler::<OneCycleLROptions>, 
    include(CycleMomentum(base_momentum = 0.85, max_momentum = 0.95), Resumed),
    order(max_lr, total_steps, epochs, steps_per_epoch, pct_start, anneal_strategy, CycleMomentum, div_factor, final_div_factor,
        three_phase, Resumed))]
pub struct OneCycleLROptions {
    /// Highest learning rate.
    pub max_lr: PerGroup,
    /// Steps of the whole cycle; or give `epochs` and `steps_per_epoch`.
    pub total_steps: Option<Number>,
    /// Epochs of the whole cycle.
    pub epochs: Option<Number>,
    /// Steps of an epoch.
    pub steps_per_epoch: Option<Number>,
    /// Part of the cycle in which the learning rate rises.
    #[default(0.3)]
    pub pct_start: Number,
    /// `"cos"` or `"linear"`.
    #[default("cos")]
    pub anneal_strategy: String,
    /// Highest over first learning rate.
    #[default(25.0)]
    pub div_factor: f64,
    /// First over last learning rate.
    #[default(1e4)]
    pub final_div_factor: f64,
    /// Falls to the first learning rate before it falls to the last.
    #[default(false)]
    pub three_phase: bool,
}

/// Learning rates that rise to a peak and fall far below their start, while the momentum moves the other way (Smith and
/// Topin 2018).
///
/// ```
/// use torch::optim::lr_scheduler::OneCycleLROptions;
/// use torch::{nn, optim, prelude::*};
///
/// let mut optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.1);
/// let options = OneCycleLROptions::new(1.0).total_steps(5).pct_start(0.5).anneal_strategy("linear");
/// let mut schedule = options.div_factor(10.0).final_div_factor(10.0).cycle_momentum(false).build(&mut optimizer);
/// let mut rates = vec![optimizer.lr(0)];
/// for _ in 0..4 {
///     optimizer.step();
///     schedule.step(&mut optimizer);
///     rates.push(optimizer.lr(0));
/// }
/// assert!(torch::allclose(&torch::tensor(rates), &torch::tensor([0.1, 0.7, 0.802, 0.406, 0.01])));
/// ```
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
        Scheduler::of(optimizer, self.into())
    }
}
impl OneCycleLR {
    /// The schedule over the optimizer's groups; further keywords are on its options. Panics with the error's text.
    #[track_caller]
    pub fn new(
        optimizer: &mut dyn Optimizer,
        max_lr: impl IntoArg<PerGroup>,
        total_steps: impl IntoArg<Number>,
    ) -> Self {
        OneCycleLROptions::new(max_lr).total_steps(total_steps).build(optimizer)
    }
}

/// A stretch between two named learning rates, with the momenta that go with them.
#[derive(Clone, Debug)]
struct Phase {
    end: f64,
    /// `end` is an integer in PyTorch's files.
    whole: bool,
    lr: [String; 2],
    momentum: [String; 2],
}
impl Phase {
    fn new(end: f64, whole: bool, lr: [&str; 2]) -> Phase {
        let momentum = lr.map(|n| if n == "max_lr" { "base_momentum" } else { "max_momentum" }.to_owned());
        Phase { end, whole, lr: lr.map(str::to_owned), momentum }
    }
    fn value(&self) -> Value {
        let end = if self.whole { Value::Int(self.end as i64) } else { Value::Float(self.end) };
        let name = |s: &String| Value::Str(s.clone());
        Value::Dict(vec![
            ("end_step".into(), end),
            ("start_lr".into(), name(&self.lr[0])),
            ("end_lr".into(), name(&self.lr[1])),
            ("start_momentum".into(), name(&self.momentum[0])),
            ("end_momentum".into(), name(&self.momentum[1])),
        ])
    }
    fn of_value(v: &Value) -> Result<Phase> {
        let Value::Dict(l) = v else { return Err(Error::type_("a phase of a cycle is no dictionary")) };
        let get = |n: &str| l.iter().find(|(k, _)| k == n).map_or_else(|| Value::none(), |(_, v)| v);
        let name = |n: &str| String::from_value(get(n));
        let end = Number::from_value(get("end_step"))?;
        Ok(Phase {
            end: end.value(),
            whole: matches!(end, Number::Plain(Scalar::Int(_))),
            lr: [name("start_lr")?, name("end_lr")?],
            momentum: [name("start_momentum")?, name("end_momentum")?],
        })
    }
}

/// The rule of [`OneCycleLR`].
///
/// ```
/// use torch::optim::lr_scheduler::{Cycle, OneCycleLR, OneCycleLROptions, Scheduler};
/// use torch::{nn, optim, prelude::*};
/// let mut optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.1);
/// let rule = Cycle::from(OneCycleLROptions::new(1.0).total_steps(10).cycle_momentum(false));
/// let _schedule: OneCycleLR = Scheduler::of(&mut optimizer, rule)?;
/// assert!((optimizer.lr(0) - 1.0 / 25.0).abs() < 1e-9);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cycle {
    options: OneCycleLROptions,
    total: i64,
    phases: Vec<Phase>,
    use_beta1: bool,
}
impl From<OneCycleLROptions> for Cycle {
    fn from(options: OneCycleLROptions) -> Self {
        Cycle { options, total: 0, phases: Vec::new(), use_beta1: false }
    }
}
fn positive(n: &Number, name: &str) -> Result<i64> {
    match n {
        Number::Plain(Scalar::Int(v)) if *v > 0 => Ok(*v),
        n => Err(Error::value(format!("Expected positive integer {name}, but got {}", n.py_text()))),
    }
}
impl Cycle {
    /// The phase that a step lies in, and how far into it.
    fn place(&self, step: i64) -> Option<(&Phase, f64)> {
        let mut start = 0.0;
        for (i, p) in self.phases.iter().enumerate() {
            if step as f64 <= p.end || i + 1 == self.phases.len() {
                return Some((p, (step as f64 - start) / (p.end - start)));
            }
            start = p.end;
        }
        None
    }
    /// What the groups keep under the names of the present phase, put together.
    fn between(&self, at: At<'_>, names: impl Fn(&Phase) -> &[String; 2]) -> Result<Vec<f64>> {
        let Some((phase, part)) = self.place(at.epoch) else { return Ok(at.current.to_vec()) };
        let [from, to] = names(phase);
        let get = |g: usize, name: &str| {
            let v = at.optimizer.option_value(g, name);
            v.ok_or_else(|| Error::index(format!("'{name}'")))
        };
        let one = |g: usize| {
            let (start, end) = (get(g, from)?, get(g, to)?);
            Ok(if self.options.anneal_strategy == "cos" {
                end + (start - end) / 2.0 * ((PI * part).cos() + 1.0)
            } else {
                (end - start) * part + start
            })
        };
        (0..at.optimizer.group_count()).map(one).collect()
    }
}
impl Schedule for Cycle {
    fn start(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        let o = &self.options;
        self.total = match (&o.total_steps, &o.epochs, &o.steps_per_epoch) {
            (Some(n), _, _) => positive(n, "total_steps")?,
            (None, Some(e), Some(s)) => {
                positive(e, "epochs")?.saturating_mul(positive(s, "steps_per_epoch")?)
            }
            _ => {
                return Err(Error::value(
                    "You must define either total_steps OR (epochs AND steps_per_epoch)",
                ));
            }
        };
        ensure!(
            matches!(o.pct_start, Number::Plain(Scalar::Float(v)) if (0.0..=1.0).contains(&v)),
            Value,
            "Expected float between 0 and 1 pct_start, but got {}",
            o.pct_start.py_text()
        );
        ensure!(
            matches!(o.anneal_strategy.as_str(), "cos" | "linear"),
            Value,
            "anneal_strategy must be one of 'cos' or 'linear', instead got {}",
            o.anneal_strategy
        );
        let (rise, end) = (o.pct_start.value() * self.total as f64, (self.total - 1) as f64);
        self.phases = vec![Phase::new(rise - 1.0, false, ["initial_lr", "max_lr"])];
        if o.three_phase {
            let back = 2.0 * o.pct_start.value() * self.total as f64 - 2.0;
            self.phases.push(Phase::new(back, false, ["max_lr", "initial_lr"]));
            self.phases.push(Phase::new(end, true, ["initial_lr", "min_lr"]));
        } else {
            self.phases.push(Phase::new(end, true, ["max_lr", "min_lr"]));
        }
        let groups = optimizer.group_count();
        let first = o.last_epoch == -1;
        for (g, max) in o.max_lr.of(groups, "max_lr")?.into_iter().enumerate().filter(|_| first) {
            let initial = max.value() / o.div_factor;
            optimizer.set_option(g, "initial_lr", Value::Float(initial))?;
            optimizer.set_option(g, "max_lr", max.into_value())?;
            optimizer.set_option(g, "min_lr", Value::Float(initial / o.final_div_factor))?;
        }
        if o.cycle_momentum {
            let (base, max) = (&o.base_momentum, &o.max_momentum);
            super::cyclic::start_momentum(optimizer, base, max, first)?;
            self.use_beta1 = optimizer.default_option("betas").is_some();
        }
        Ok(())
    }
    fn resume_from(&self) -> i64 {
        self.options.last_epoch
    }
    fn lrs(&mut self, at: At<'_>) -> Result<Vec<f64>> {
        ensure!(
            at.epoch <= self.total,
            Value,
            "Tried to step {} times. The specified number of total steps is {}",
            at.epoch,
            self.total
        );
        self.between(at, |p| &p.lr)
    }
    fn momenta(&mut self, at: At<'_>) -> Option<Vec<f64>> {
        self.options.cycle_momentum.then(|| self.between(at, |p| &p.momentum).ok()).flatten()
    }
    fn entries(&self) -> Vec<(&'static str, Value)> {
        let mut out = vec![
            ("total_steps", Value::Int(self.total)),
            ("_schedule_phases", Value::List(self.phases.iter().map(Phase::value).collect())),
            ("_anneal_func_type", Value::Str(self.options.anneal_strategy.clone())),
            ("cycle_momentum", Value::Bool(self.options.cycle_momentum)),
        ];
        out.extend(self.options.cycle_momentum.then_some(("use_beta1", Value::Bool(self.use_beta1))));
        out
    }
    fn load(&mut self, name: &str, v: &Value) -> Result<()> {
        match name {
            "total_steps" => self.total = i64::from_value(v)?,
            "_schedule_phases" => {
                let l = v.items().ok_or_else(|| Error::type_("the phases of a cycle are no list"))?;
                self.phases = l.iter().map(Phase::of_value).collect::<Result<_>>()?;
            }
            "_anneal_func_type" => self.options.anneal_strategy = String::from_value(v)?,
            "cycle_momentum" => self.options.cycle_momentum = bool::from_value(v)?,
            _ => {}
        }
        Ok(())
    }
}
