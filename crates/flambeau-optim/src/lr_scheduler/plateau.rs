//! Learning rates that fall when a measure no longer improves.

use crate::optimizer::Optimizer;
use flambeau_core::ergonomic::expect;
use flambeau_core::{Result, ensure};
use flambeau_macros::class;

/// Options of [`ReduceLROnPlateau`].
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
    #[default(0.0)]
    pub min_lr: f64,
    /// Smallest change that is made.
    #[default(1e-8)]
    pub eps: f64,
}

/// Lowers the learning rates when a measure has not improved for some steps.
#[derive(Clone, Debug)]
pub struct ReduceLROnPlateau {
    options: ReduceLROnPlateauOptions,
    min_lrs: Vec<f64>,
    best: f64,
    bad: i64,
    cooldown: i64,
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
        ensure!(self.factor < 1.0, Value, "Factor should be < 1.0.");
        ensure!(matches!(self.mode.as_str(), "min" | "max"), Value, "mode {} is unknown!", self.mode);
        ensure!(
            matches!(self.threshold_mode.as_str(), "rel" | "abs"),
            Value,
            "threshold mode {} is unknown!",
            self.threshold_mode
        );
        let groups = optimizer.group_count();
        Ok(ReduceLROnPlateau {
            min_lrs: vec![self.min_lr; groups],
            best: if self.mode == "min" { f64::INFINITY } else { f64::NEG_INFINITY },
            bad: 0,
            cooldown: 0,
            last_lr: (0..groups).map(|g| optimizer.lr(g)).collect(),
            options: self,
        })
    }
}
impl ReduceLROnPlateau {
    /// The schedule over the optimizer's groups, with the documented defaults. Panics with the error's text.
    #[track_caller]
    pub fn new(optimizer: &mut dyn Optimizer) -> Self {
        ReduceLROnPlateauOptions::new().build(optimizer)
    }
    /// Lowest learning rates of the groups, one each.
    ///
    /// # Errors
    /// Another number than there are groups.
    pub fn min_lrs(mut self, min_lrs: &[f64]) -> Result<Self> {
        ensure!(
            min_lrs.len() == self.min_lrs.len(),
            Value,
            "expected {} min_lrs, got {}",
            self.min_lrs.len(),
            min_lrs.len()
        );
        self.min_lrs = min_lrs.to_vec();
        Ok(self)
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
    /// Takes the measure of one epoch.
    pub fn step(&mut self, metrics: f64, optimizer: &mut dyn Optimizer) {
        if self.better(metrics) {
            self.best = metrics;
            self.bad = 0;
        } else {
            self.bad += 1;
        }
        if self.cooldown > 0 {
            self.cooldown -= 1;
            self.bad = 0;
        }
        if self.bad > self.options.patience {
            for g in 0..optimizer.group_count() {
                let old = optimizer.lr(g);
                let new = (old * self.options.factor).max(self.min_lrs[g]);
                if old - new > self.options.eps {
                    optimizer.set_lr(g, new);
                }
            }
            self.cooldown = self.options.cooldown;
            self.bad = 0;
        }
        self.last_lr = (0..optimizer.group_count()).map(|g| optimizer.lr(g)).collect();
    }
    /// Learning rates that the last step set.
    pub fn get_last_lr(&self) -> &[f64] {
        &self.last_lr
    }
}
