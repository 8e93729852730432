//! Cyclical learning rates.

use super::{At, Schedule, Scheduler, floats, numbers, schedule};
use crate::optimizer::Optimizer;
use crate::options::Resumed;
use crate::options::number_or_tensor::{Number, PerGroup};
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::dispatch::value::{FromValue, IntoValue};
use flambeau_core::{Error, Result, Value, ensure};
use flambeau_macros::{class, fields};
use std::fmt;
use std::sync::Arc;

/// A function that scales the height of a cycle.
///
/// ```
/// use torch::optim::lr_scheduler::{CyclicLROptions, ScaleFn};
/// use torch::{nn, optim, prelude::*};
///
/// let mut optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.8);
/// let options = CyclicLROptions::new(0.2, 0.8).step_size_up(1).cycle_momentum(false);
/// let mut schedule = options.scale_fn(ScaleFn::new(|cycle| 1.0 / cycle)).build(&mut optimizer);
/// let mut rates = vec![optimizer.lr(0)];
/// for _ in 0..4 {
///     optimizer.step();
///     schedule.step(&mut optimizer);
///     rates.push(optimizer.lr(0));
/// }
/// assert!(torch::allclose(&torch::tensor(rates), &torch::tensor([0.2, 0.8, 0.2, 0.5, 0.2])));
/// ```
#[derive(Clone)]
pub struct ScaleFn(Arc<dyn Fn(f64) -> f64 + Send + Sync>);
impl ScaleFn {
    /// Of a closure; it gets the number of the cycle from 1, or of the step.
    pub fn new(f: impl Fn(f64) -> f64 + Send + Sync + 'static) -> Self {
        ScaleFn(Arc::new(f))
    }
}
impl fmt::Debug for ScaleFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a function")
    }
}
impl IntoArg<ScaleFn> for ScaleFn {
    fn into_arg(self) -> ScaleFn {
        self
    }
}
impl FromValue for ScaleFn {
    fn from_value(v: &Value) -> Result<Self> {
        let Value::Object(f) = v else {
            return Err(Error::type_(format!("'{}' object is not callable", v.type_name())));
        };
        let f = f.clone();
        // a function that fails or gives no number gives NaN, which shows in the learning rates
        Ok(ScaleFn::new(move |x| {
            let got = f.call(&[Value::Float(x)], &[]).ok();
            got.and_then(|l| l.first().and_then(Value::as_scalar)).map_or(f64::NAN, |s| s.to_f64())
        }))
    }
}

/// What the momentum does in a cycle.
#[fields]
pub(crate) struct CycleMomentum {
    /// Whether the momentum moves against the learning rate.
    #[default(true)]
    pub cycle_momentum: bool,
    /// Lowest momentum.
    #[default(0.8)]
    pub base_momentum: PerGroup,
    /// Highest momentum.
    #[default(0.9)]
    pub max_momentum: PerGroup,
}

#[class("torch.optim.lr_scheduler.CyclicLR", make = crate::by_name::scheduler::<CyclicLROptions>, include(CycleMomentum, Resumed))]
pub struct CyclicLROptions {
    /// Lowest learning rate.
    pub base_lr: PerGroup,
    /// Highest learning rate of an unscaled cycle.
    pub max_lr: PerGroup,
    /// Steps of the rising half.
    #[default(2000)]
    pub step_size_up: Number,
    /// Steps of the falling half; by default as many.
    pub step_size_down: Option<Number>,
    /// `"triangular"`, `"triangular2"` (halved each cycle) or `"exp_range"` (scaled by `gamma` each step).
    #[default("triangular")]
    pub mode: String,
    /// Factor of `"exp_range"`.
    #[default(1.0)]
    pub gamma: f64,
    /// Scales the height instead of `mode`.
    pub scale_fn: Option<ScaleFn>,
    /// Whether `scale_fn` gets the number of the `"cycle"` or of the `"iterations"`.
    #[default("cycle")]
    pub scale_mode: String,
}

/// Learning rates that rise and fall between two bounds (Smith 2017). Stepped after each batch.
///
/// ```
/// use torch::optim::lr_scheduler::CyclicLROptions;
/// use torch::{nn, optim, prelude::*};
///
/// let mut optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.8);
/// let mut schedule = CyclicLROptions::new(0.2, 0.8).step_size_up(2).cycle_momentum(false).build(&mut optimizer);
/// let mut rates = vec![optimizer.lr(0)];
/// for _ in 0..4 {
///     optimizer.step();
///     schedule.step(&mut optimizer);
///     rates.push(optimizer.lr(0));
/// }
/// assert!(torch::allclose(&torch::tensor(rates), &torch::tensor([0.2, 0.5, 0.8, 0.5, 0.2])));
/// ```
#[doc(alias = "torch.optim.lr_scheduler.CyclicLR")]
pub type CyclicLR = Scheduler<Cyclic>;
schedule!(CyclicLR, CyclicLROptions, (base_lr: PerGroup, max_lr: PerGroup));

/// The rule of [`CyclicLR`].
///
/// ```
/// use torch::optim::lr_scheduler::{Cyclic, CyclicLR, CyclicLROptions, Scheduler};
/// use torch::{nn, optim, prelude::*};
/// let mut optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.1);
/// let rule = Cyclic::from(CyclicLROptions::new(0.25, 0.5).cycle_momentum(false));
/// let _schedule: CyclicLR = Scheduler::of(&mut optimizer, rule)?;
/// assert_eq!(optimizer.lr(0), 0.25);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cyclic {
    options: CyclicLROptions,
    base: Vec<f64>,
    max: Vec<f64>,
    total: f64,
    ratio: f64,
    base_momenta: Vec<f64>,
    max_momenta: Vec<f64>,
    use_beta1: bool,
}
impl From<CyclicLROptions> for Cyclic {
    fn from(options: CyclicLROptions) -> Self {
        let none = Vec::new;
        Cyclic {
            base: none(),
            max: none(),
            total: 0.0,
            ratio: 0.5,
            base_momenta: none(),
            max_momenta: none(),
            use_beta1: false,
            options,
        }
    }
}

/// Sets the momenta of groups to where a cycle starts, and keeps the bounds there.
pub(super) fn start_momentum(
    optimizer: &mut dyn Optimizer,
    base: &PerGroup,
    max: &PerGroup,
    first: bool,
) -> Result<(Vec<f64>, Vec<f64>)> {
    ensure!(
        optimizer.default_option("momentum").is_some() || optimizer.default_option("betas").is_some(),
        Value,
        "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
    );
    let groups = optimizer.group_count();
    let (base, max) = (base.of(groups, "base_momentum")?, max.of(groups, "max_momentum")?);
    for (g, (base, max)) in base.iter().zip(&max).enumerate().filter(|_| first) {
        optimizer.set_momentum(g, max.clone().into_value())?;
        optimizer.set_option(g, "max_momentum", max.clone().into_value())?;
        optimizer.set_option(g, "base_momentum", base.clone().into_value())?;
    }
    let values = |l: &[Number]| l.iter().map(Number::value).collect();
    Ok((values(&base), values(&max)))
}

impl Cyclic {
    /// How far the step is up its cycle, in [0, 1], and the scale of the cycle's height.
    fn place(&self, step: i64) -> (f64, f64) {
        let o = &self.options;
        let cycle = (1.0 + step as f64 / self.total).floor();
        let x = 1.0 + step as f64 / self.total - cycle;
        let up = if x <= self.ratio { x / self.ratio } else { (x - 1.0) / (self.ratio - 1.0) };
        let scale = match (&o.scale_fn, o.mode.as_str()) {
            (Some(f), _) => (f.0)(if o.scale_mode == "cycle" { cycle } else { step as f64 }),
            (None, "triangular2") => 1.0 / 2f64.powf(cycle - 1.0),
            (None, "exp_range") => o.gamma.powf(step as f64),
            (None, _) => 1.0,
        };
        (up, scale)
    }
    /// Built-in modes know what they count.
    fn init_scale(&mut self) {
        let o = &mut self.options;
        if o.scale_fn.is_none() {
            match o.mode.as_str() {
                "triangular" | "triangular2" => o.scale_mode = "cycle".into(),
                "exp_range" => o.scale_mode = "iterations".into(),
                _ => {}
            }
        }
    }
}
impl Schedule for Cyclic {
    fn start(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        let groups = optimizer.group_count();
        let first = self.options.last_epoch == -1;
        let values = |l: Vec<Number>| l.iter().map(Number::value).collect::<Vec<_>>();
        self.base = values(self.options.base_lr.of(groups, "base_lr")?);
        if first {
            self.base.iter().enumerate().try_for_each(|(g, lr)| optimizer.try_set_lr(g, *lr))?;
        }
        self.max = values(self.options.max_lr.of(groups, "max_lr")?);
        let up = self.options.step_size_up.value();
        let down = self.options.step_size_down.as_ref().map_or(up, Number::value);
        self.total = up + down;
        self.ratio = up / self.total;
        ensure!(
            matches!(self.options.mode.as_str(), "triangular" | "triangular2" | "exp_range")
                || self.options.scale_fn.is_some(),
            Value,
            "mode is invalid and scale_fn is None"
        );
        self.init_scale();
        if self.options.cycle_momentum {
            let (base, max) = (&self.options.base_momentum, &self.options.max_momentum);
            (self.base_momenta, self.max_momenta) = start_momentum(optimizer, base, max, first)?;
            self.use_beta1 = optimizer.default_option("betas").is_some();
        }
        Ok(())
    }
    fn resume_from(&self) -> i64 {
        self.options.last_epoch
    }
    fn base(&self) -> Option<Vec<f64>> {
        Some(self.base.clone())
    }
    fn lrs(&mut self, at: At<'_>) -> Result<Vec<f64>> {
        let (up, scale) = self.place(at.epoch);
        Ok(at.base.iter().zip(&self.max).map(|(base, max)| base + (max - base) * up * scale).collect())
    }
    fn momenta(&mut self, at: At<'_>) -> Option<Vec<f64>> {
        let (up, scale) = self.place(at.epoch);
        let all = self.base_momenta.iter().zip(&self.max_momenta);
        self.options.cycle_momentum.then(|| all.map(|(base, max)| max - (max - base) * up * scale).collect())
    }
    fn entries(&self) -> Vec<(&'static str, Value)> {
        let o = &self.options;
        let mut out = vec![
            ("max_lrs", floats(&self.max)),
            ("total_size", Value::Float(self.total)),
            ("step_ratio", Value::Float(self.ratio)),
            ("mode", Value::Str(o.mode.clone())),
            ("gamma", Value::Float(o.gamma)),
            ("scale_mode", Value::Str(o.scale_mode.clone())),
            ("cycle_momentum", Value::Bool(o.cycle_momentum)),
        ];
        if o.cycle_momentum {
            out.push(("use_beta1", Value::Bool(self.use_beta1)));
            out.push(("base_momentums", floats(&self.base_momenta)));
            out.push(("max_momentums", floats(&self.max_momenta)));
        }
        out
    }
    fn last_entries(&self) -> Vec<(&'static str, Value)> {
        vec![("_scale_fn_custom", Value::None)]
    }
    fn load(&mut self, name: &str, v: &Value) -> Result<()> {
        match name {
            "max_lrs" => self.max = numbers(v)?,
            "total_size" => self.total = f64::from_value(v)?,
            "step_ratio" => self.ratio = f64::from_value(v)?,
            "mode" => self.options.mode = String::from_value(v)?,
            "gamma" => self.options.gamma = f64::from_value(v)?,
            "scale_mode" => self.options.scale_mode = String::from_value(v)?,
            "cycle_momentum" => self.options.cycle_momentum = bool::from_value(v)?,
            "base_momentums" => self.base_momenta = numbers(v)?,
            "max_momentums" => self.max_momenta = numbers(v)?,
            "use_beta1" => self.use_beta1 = bool::from_value(v)?,
            _ => {}
        }
        self.init_scale();
        Ok(())
    }
}
