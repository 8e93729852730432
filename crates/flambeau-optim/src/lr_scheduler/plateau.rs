//! Learning rates that fall when a measure no longer improves.

use super::{LRScheduler, floats, lrs_of, numbers};
use crate::optimizer::Optimizer;
use crate::optimizer::state_dict::{text, tree, value};
use crate::options::number_or_tensor::{Number, PerGroup};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::dispatch::value::{FromValue, IntoValue};
use flambeau_core::{Error, ErrorKind, Result, Tensor, Value, ensure};
use flambeau_macros::class;
use flambeau_serialization::Tree;

#[class("torch.optim.lr_scheduler.ReduceLROnPlateau", make = crate::by_name::plateau)]
pub struct ReduceLROnPlateauOptions {
    /// `"min"` if lower is better, `"max"` if higher is.
    #[default("min")]
    pub mode: String,
    /// Factor of a change.
    #[default(0.1)]
    pub factor: f64,
    /// Steps without improvement that are borne.
    #[default(10)]
    pub patience: i64,
    /// What counts as an improvement.
    #[default(1e-4)]
    pub threshold: f64,
    /// `"rel"` if the threshold is relative, `"abs"` if it is not.
    #[default("rel")]
    pub threshold_mode: String,
    /// Steps after a change in which nothing is counted.
    #[default(0)]
    pub cooldown: i64,
    /// Lowest learning rate.
    #[default(0)]
    pub min_lr: PerGroup,
    /// Smallest change that is made.
    #[default(1e-8)]
    pub eps: f64,
}

/// Lowers the learning rates when a measure has not improved for some steps.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::Parameter;
/// use torch::optim::lr_scheduler::ReduceLROnPlateauOptions;
/// use torch::optim::{Optimizer, SGD};
///
/// let w = Parameter::new(Tensor::from_slice(&[1f32], 1));
/// let mut optimizer = SGD::new([&w], 1.0);
/// let mut schedule = ReduceLROnPlateauOptions::new().patience(1).factor(0.5).build(&mut optimizer);
/// for loss in [3.0, 2.0, 2.0, 2.0] {
///     schedule.step(loss, &mut optimizer);
/// }
/// assert_eq!(optimizer.lr(0), 0.5);
/// ```
#[derive(Clone, Debug)]
pub struct ReduceLROnPlateau {
    options: ReduceLROnPlateauOptions,
    default_min_lr: Option<Number>,
    min_lrs: Vec<Number>,
    best: f64,
    bad: i64,
    cooldown: i64,
    epoch: i64,
    last_lr: Vec<f64>,
}
impl ReduceLROnPlateauOptions {
    /// The schedule over the optimizer's groups. Panics with the error's text.
    #[track_caller]
    pub fn build(self, optimizer: &mut dyn Optimizer) -> ReduceLROnPlateau {
        expect(self.try_build(optimizer))
    }
    /// The schedule over the optimizer's groups.
    ///
    /// # Errors
    /// Options that do not fit.
    pub fn try_build(self, optimizer: &mut dyn Optimizer) -> Result<ReduceLROnPlateau> {
        ensure!(!(self.factor >= 1.0), Value, "Factor should be < 1.0.");
        let groups = optimizer.group_count();
        let (default_min_lr, min_lrs) = match &self.min_lr {
            PerGroup::All(n) => (Some(n.clone()), vec![n.clone(); groups]),
            PerGroup::Each(l) => {
                ensure!(l.len() == groups, Value, "expected {groups} min_lrs, got {}", l.len());
                (None, l.clone())
            }
        };
        let mut out = ReduceLROnPlateau {
            default_min_lr,
            min_lrs,
            best: 0.0,
            bad: 0,
            cooldown: 0,
            epoch: 0,
            last_lr: lrs_of(optimizer),
            options: self,
        };
        out.best = out.worst()?;
        Ok(out)
    }
}
impl ReduceLROnPlateau {
    /// The schedule over the optimizer's groups, with the documented defaults. Panics with the error's text.
    #[track_caller]
    pub fn new(optimizer: &mut dyn Optimizer) -> Self {
        ReduceLROnPlateauOptions::new().build(optimizer)
    }
    /// What any measure is better than.
    fn worst(&self) -> Result<f64> {
        let o = &self.options;
        ensure!(matches!(o.mode.as_str(), "min" | "max"), Value, "mode {} is unknown!", o.mode);
        ensure!(
            matches!(o.threshold_mode.as_str(), "rel" | "abs"),
            Value,
            "threshold mode {} is unknown!",
            o.threshold_mode
        );
        Ok(if o.mode == "min" { f64::INFINITY } else { f64::NEG_INFINITY })
    }
    fn better(&self, v: f64) -> bool {
        let (t, o) = (self.options.threshold, &self.options);
        match (o.mode.as_str(), o.threshold_mode.as_str()) {
            ("min", "rel") => v < self.best * (1.0 - t),
            ("min", _) => v < self.best - t,
            (_, "rel") => v > self.best * (t + 1.0),
            _ => v > self.best + t,
        }
    }
    /// Takes the measure of one epoch. Panics with the error's text.
    #[track_caller]
    pub fn step(&mut self, metrics: f64, optimizer: &mut dyn Optimizer) {
        expect(self.try_step_metric(optimizer, metrics));
    }
    /// Learning rates that the last step set.
    pub fn get_last_lr(&self) -> &[f64] {
        &self.last_lr
    }
    fn reduce(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        let groups = optimizer.group_count();
        if groups != self.min_lrs.len() {
            let default = self.default_min_lr.clone().ok_or_else(|| {
                Error::runtime(format!(
                    "The number of param groups in the `optimizer` ({groups}) differs from when `ReduceLROnPlateau` was \
                     initialized ({}), usually due to a new param group being added to the optimizer. Please modify the \
                     `min_lrs` field to match the length of the `optimizer` param groups.",
                    self.min_lrs.len()
                ))
            })?;
            self.min_lrs = vec![default; groups];
        }
        for g in 0..groups {
            let old = optimizer.lr(g);
            let new = (old * self.options.factor).max(self.min_lrs[g].value());
            if old - new > self.options.eps {
                optimizer.try_set_lr(g, new)?;
            }
        }
        Ok(())
    }
}
impl LRScheduler for ReduceLROnPlateau {
    fn try_step(&mut self, _: &mut dyn Optimizer) -> Result<()> {
        Err(Error::type_("ReduceLROnPlateau.step() missing 1 required positional argument: 'metrics'"))
    }
    fn try_step_to(&mut self, optimizer: &mut dyn Optimizer, _: f64) -> Result<()> {
        self.try_step(optimizer)
    }
    fn try_step_metric(&mut self, optimizer: &mut dyn Optimizer, metric: f64) -> Result<()> {
        self.epoch += 1;
        if self.better(metric) {
            self.best = metric;
            self.bad = 0;
        } else {
            self.bad += 1;
        }
        if self.cooldown > 0 {
            self.cooldown -= 1;
            self.bad = 0;
        }
        if self.bad > self.options.patience {
            self.reduce(optimizer)?;
            self.cooldown = self.options.cooldown;
            self.bad = 0;
        }
        self.last_lr = lrs_of(optimizer);
        Ok(())
    }
    fn wants_metric(&self) -> bool {
        true
    }
    fn get_last_lr(&self) -> &[f64] {
        &self.last_lr
    }
    fn last_epoch(&self) -> i64 {
        self.epoch
    }
    fn state_dict(&self) -> Tree<Tensor> {
        let o = &self.options;
        let all = [
            ("factor", Value::Float(o.factor)),
            ("default_min_lr", self.default_min_lr.clone().into_value()),
            ("min_lrs", self.min_lrs.clone().into_value()),
            ("patience", Value::Int(o.patience)),
            ("cooldown", Value::Int(o.cooldown)),
            ("eps", Value::Float(o.eps)),
            ("last_epoch", Value::Int(self.epoch)),
            ("_last_lr", floats(&self.last_lr)),
            ("mode_worse", Value::Float(self.worst().unwrap_or(f64::NAN))),
            ("mode", Value::Str(o.mode.clone())),
            ("threshold", Value::Float(o.threshold)),
            ("threshold_mode", Value::Str(o.threshold_mode.clone())),
            ("best", Value::Float(self.best)),
            ("cooldown_counter", Value::Int(self.cooldown)),
            ("num_bad_epochs", Value::Int(self.bad)),
        ];
        Tree::Dict(all.iter().map(|(n, v)| (text(n), tree(v))).collect())
    }
    fn load_state_dict(&mut self, state: &Tree<Tensor>) -> Result<()> {
        for (k, v) in state.entries().unwrap_or_default() {
            let Tree::Str(name) = k else { continue };
            let v = &value(v)?;
            let o = &mut self.options;
            match name.as_str() {
                "factor" => o.factor = f64::from_value(v)?,
                "default_min_lr" => self.default_min_lr = Option::from_value(v)?,
                "min_lrs" => self.min_lrs = Vec::from_value(v)?,
                "patience" => o.patience = i64::from_value(v)?,
                "cooldown" => o.cooldown = i64::from_value(v)?,
                "eps" => o.eps = f64::from_value(v)?,
                "last_epoch" => self.epoch = i64::from_value(v)?,
                "_last_lr" => self.last_lr = numbers(v)?,
                "mode" => o.mode = String::from_value(v)?,
                "threshold" => o.threshold = f64::from_value(v)?,
                "threshold_mode" => o.threshold_mode = String::from_value(v)?,
                "best" => self.best = f64::from_value(v)?,
                "cooldown_counter" => self.cooldown = i64::from_value(v)?,
                "num_bad_epochs" => self.bad = i64::from_value(v)?,
                _ => {}
            }
        }
        self.worst().map(|_| ())
    }
    fn undo(&mut self) {
        self.epoch -= 1;
    }
    fn restart(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        self.try_step(optimizer)
    }
    fn jump(&mut self, _: &mut dyn Optimizer, _: i64) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, ""))
    }
}
