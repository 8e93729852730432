//! Learning rate schedules. A schedule is made for an optimizer and stepped with it, after the optimizer's step:
//!
//! ```
//! use torch::Tensor;
//! use torch::nn::Parameter;
//! use torch::optim::lr_scheduler::{LRScheduler, StepLR};
//! use torch::optim::{Optimizer, SGD};
//!
//! let w = Parameter::new(Tensor::from_slice(&[1f32], 1));
//! let mut optimizer = SGD::new([&w], 0.5);
//! let mut schedule = StepLR::new(&mut optimizer, 2, 0.1);
//! for _ in 0..2 {
//!     optimizer.step();
//!     schedule.step(&mut optimizer);
//! }
//! assert_eq!(optimizer.lr(0), 0.05);
//! ```
//!
//! `state_dict` and `load_state_dict` interchange with PyTorch's.

mod closed;
mod combined;
mod cycle;
mod cyclic;
mod function;
mod plateau;
mod restarts;

pub use closed::{
    ConstantLR, ConstantLROptions, CosineAnnealingLR, CosineAnnealingLROptions, ExponentialLR,
    ExponentialLROptions, LinearLR, LinearLROptions, MultiStepLR, MultiStepLROptions, PolynomialLR,
    PolynomialLROptions, StepLR, StepLROptions,
};
#[cfg(feature = "by-name")]
pub(crate) use combined::list_of;
pub use combined::{ChainedScheduler, SequentialLR};
pub use cycle::{Cycle, OneCycleLR, OneCycleLROptions};
pub use cyclic::{Cyclic, CyclicLR, CyclicLROptions, ScaleFn};
pub use function::{LambdaLR, LambdaLROptions, Lambdas, MultiplicativeLR, MultiplicativeLROptions};
pub use plateau::{ReduceLROnPlateau, ReduceLROnPlateauOptions};
pub use restarts::{CosineAnnealingWarmRestarts, CosineAnnealingWarmRestartsOptions, Restarts};

pub use crate::options::number_or_tensor::PerGroup;

use crate::optimizer::Optimizer;
use crate::optimizer::state_dict::{text, value};
use crate::options::number_or_tensor::Number;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::dispatch::value::{FromValue, IntoValue};
use flambeau_core::types::deep::{self, Deep};
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result, Tensor, Value, ensure};
use flambeau_serialization::Tree;
use std::fmt::{self, Debug};
use std::sync::Arc;

/// Where a schedule stands when it is asked for learning rates.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// Steps so far; 0 when the schedule is made.
    pub epoch: i64,
    /// Learning rates that the groups started with.
    pub base: &'a [f64],
    /// Learning rates of the groups now.
    pub current: &'a [f64],
    /// The schedule is being made.
    pub initial: bool,
    /// How often the schedule was stepped, its making included.
    pub step_count: i64,
    /// The optimizer.
    pub optimizer: &'a dyn Optimizer,
}

/// A rule for learning rates; a user's own rule implements this, and [`Scheduler::of`] makes a schedule of it. Where a function of
/// the step says it all, [`LambdaLR`] is shorter.
///
/// ```
/// use torch::optim::lr_scheduler::{At, Schedule, Scheduler};
/// use torch::prelude::*;
/// use torch::{Result, nn, optim};
///
/// /// Rises for some steps, then falls as one over the root.
/// #[derive(Debug)]
/// struct Noam {
///     warmup: f64,
/// }
/// impl Schedule for Noam {
///     fn lrs(&mut self, at: At<'_>) -> Result<Vec<f64>> {
///         let step = (at.epoch + 1) as f64;
///         let factor = (step / self.warmup).min((self.warmup / step).sqrt());
///         Ok(at.base.iter().map(|lr| lr * factor).collect())
///     }
/// }
/// # fn main() -> Result<()> {
/// let mut optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 1.0);
/// let mut schedule = Scheduler::of(&mut optimizer, Noam { warmup: 4.0 })?;
/// let mut rates = vec![optimizer.lr(0)];
/// for _ in 0..15 {
///     optimizer.step();
///     schedule.step(&mut optimizer);
///     rates.push(optimizer.lr(0));
/// }
/// assert_eq!((rates[0], rates[3], rates[15]), (0.25, 1.0, 0.5));
/// # Ok(())
/// # }
/// ```
pub trait Schedule: Debug + Send {
    /// Checks the options against the optimizer, when the schedule is made.
    ///
    /// # Errors
    /// Options that do not fit.
    fn start(&mut self, _optimizer: &mut dyn Optimizer) -> Result<()> {
        Ok(())
    }
    /// The epoch to go on from; -1 to start.
    fn resume_from(&self) -> i64 {
        -1
    }
    /// Learning rates that the schedule goes by once it is made, where it is not the groups' `initial_lr`.
    fn base(&self) -> Option<Vec<f64>> {
        None
    }
    /// Learning rates of the groups.
    ///
    /// # Errors
    /// More steps than the rule has.
    fn lrs(&mut self, at: At<'_>) -> Result<Vec<f64>>;
    /// Learning rates as a function of the epoch alone, for jumps, where the rule has such a form.
    fn closed_form(&self, _at: At<'_>) -> Option<Vec<f64>> {
        None
    }
    /// Momenta of the groups, for rules that move them.
    fn momenta(&mut self, _at: At<'_>) -> Option<Vec<f64>> {
        None
    }
    /// The next epoch, for rules that count by themselves: `to` is the epoch to jump to.
    fn advance(&mut self, _last: i64, _to: Option<f64>) -> Option<Result<i64>> {
        None
    }
    /// Entries of the state dict, under PyTorch's names.
    fn entries(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }
    /// Entries that stand behind the common ones.
    fn last_entries(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }
    /// Takes over an entry of a state dict.
    ///
    /// # Errors
    /// A value of the wrong type.
    fn load(&mut self, _name: &str, _v: &Value) -> Result<()> {
        Ok(())
    }
}

/// What every schedule does.
#[doc(alias = "torch.optim.lr_scheduler.LRScheduler")]
pub trait LRScheduler: Debug + Send {
    /// Moves the learning rates on by one step.
    ///
    /// # Errors
    /// More steps than the schedule has; a schedule that wants a measure.
    #[doc(alias = "torch.optim.lr_scheduler.LRScheduler.step")]
    fn try_step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()>;
    /// How many schedules stand in each other here.
    #[doc(hidden)]
    fn levels(&self) -> usize {
        1
    }
    /// [`LRScheduler::try_step`] that panics.
    #[track_caller]
    fn step(&mut self, optimizer: &mut dyn Optimizer) {
        expect(self.try_step(optimizer));
    }
    /// Jumps to an epoch, as PyTorch's deprecated `step(epoch)`; whole epochs but for warm restarts.
    ///
    /// # Errors
    /// Schedules that cannot jump.
    fn try_step_to(&mut self, optimizer: &mut dyn Optimizer, epoch: f64) -> Result<()>;
    /// Takes a measure, for [`ReduceLROnPlateau`]; other schedules refuse it.
    ///
    /// # Errors
    /// A schedule that follows no measure.
    fn try_step_metric(&mut self, _optimizer: &mut dyn Optimizer, _metric: f64) -> Result<()> {
        Err(Error::type_("this schedule follows no measure"))
    }
    /// Whether steps want a measure.
    fn wants_metric(&self) -> bool {
        false
    }
    /// Learning rates that the last step set.
    #[doc(alias = "torch.optim.lr_scheduler.LRScheduler.get_last_lr")]
    #[doc(alias = "torch.optim.lr_scheduler.CyclicLR.get_last_lr")]
    fn get_last_lr(&self) -> &[f64];
    /// Learning rates that the rule gives for the present epoch; nothing is set.
    ///
    /// # Errors
    /// Combined schedules, which have no rule of their own.
    #[doc(alias = "torch.optim.lr_scheduler.LRScheduler.get_lr")]
    #[doc(alias = "torch.optim.lr_scheduler.CyclicLR.get_lr")]
    fn get_lr(&mut self, _optimizer: &dyn Optimizer) -> Result<Vec<f64>> {
        Err(Error::new(flambeau_core::ErrorKind::Unsupported, ""))
    }
    /// Prints a change of a group's learning rate, if `is_verbose`.
    #[doc(alias = "torch.optim.lr_scheduler.CyclicLR.print_lr")]
    fn print_lr(&self, is_verbose: bool, group: usize, lr: f64, epoch: Option<i64>) {
        if is_verbose {
            let epoch = epoch.map_or_else(|| "A".to_owned(), |e| format!("Epoch {e:05}: a"));
            println!("{epoch}djusting learning rate of group {group} to {lr:.4e}.");
        }
    }
    /// Steps so far.
    fn last_epoch(&self) -> i64;
    /// The state, in the shape of PyTorch's files.
    #[doc(alias = "torch.optim.lr_scheduler.LRScheduler.state_dict")]
    fn state_dict(&self) -> Tree<Tensor>;
    /// Takes over a state. Functions stay as they are.
    ///
    /// # Errors
    /// Values of the wrong types.
    #[doc(alias = "torch.optim.lr_scheduler.LRScheduler.load_state_dict")]
    #[doc(alias = "torch.optim.lr_scheduler.LambdaLR.load_state_dict")]
    fn load_state_dict(&mut self, state: &Tree<Tensor>) -> Result<()>;
    /// Takes the epoch back by one, before [`LRScheduler::restart`]; for [`SequentialLR`].
    #[doc(hidden)]
    fn undo(&mut self);
    /// Makes the first step again; for [`SequentialLR`].
    #[doc(hidden)]
    fn restart(&mut self, optimizer: &mut dyn Optimizer) -> Result<()>;
    /// Jumps without counting a step; for [`SequentialLR`].
    #[doc(hidden)]
    fn jump(&mut self, optimizer: &mut dyn Optimizer, epoch: i64) -> Result<()>;
}

/// A schedule that two owners step: a combined one and the program.
///
/// ```
/// use torch::optim::lr_scheduler::{ExponentialLR, LRScheduler, Shared};
/// use torch::{nn, optim, prelude::*};
///
/// let mut optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.8);
/// let mut one = Shared::new(Box::new(ExponentialLR::new(&mut optimizer, 0.5)));
/// let mut other = one.clone();
/// one.step(&mut optimizer);
/// other.step(&mut optimizer);
/// assert_eq!((optimizer.lr(0), one.last_epoch()), (0.2, 2));
/// ```
#[derive(Clone, Debug)]
pub struct Shared(Place, Vec<f64>);
/// Where a shared schedule lies while nobody steps it. It may be shared again, without end.
type Place = Arc<Mutex<Option<Deep<Box<dyn LRScheduler>>>>>;
impl Shared {
    /// Shares a schedule.
    pub fn new(s: Box<dyn LRScheduler>) -> Self {
        let last = s.get_last_lr().to_vec();
        Shared(Arc::new(Mutex::new(Some(Deep::new(s)))), last)
    }
    /// Runs `f` on the schedule, taken out of its place meanwhile: functions of the program that it calls run under no lock.
    ///
    /// # Errors
    /// The schedule is in use: by another thread, or by the call that `f` is part of.
    pub fn with<R>(&mut self, f: impl FnOnce(&mut dyn LRScheduler) -> R) -> Result<R> {
        let mut out = self.out()?;
        let r = deep::call(|| Ok(f(&mut *out)))?;
        self.1 = out.get_last_lr().to_vec();
        Ok(r)
    }
    fn read<R>(&self, f: impl FnOnce(&dyn LRScheduler) -> R) -> Result<R> {
        let s = self.out()?;
        deep::call(|| Ok(f(&*s)))
    }
    fn out(&self) -> Result<Out> {
        let s = self.0.lock().unwrap_or_else(|e| e.into_inner()).take();
        let s = s.ok_or_else(|| {
            Error::runtime("a shared schedule is in use: a function that it calls cannot ask for it")
        })?;
        Ok(Out(Some(s), self.0.clone()))
    }
}
/// A schedule out of its place, which it goes back to when this is dropped.
struct Out(Option<Deep<Box<dyn LRScheduler>>>, Place);
impl Drop for Out {
    fn drop(&mut self) {
        *self.1.lock().unwrap_or_else(|e| e.into_inner()) = self.0.take();
    }
}
impl std::ops::Deref for Out {
    type Target = dyn LRScheduler;
    fn deref(&self) -> &Self::Target {
        &***self.0.as_ref().expect("it is there until the drop")
    }
}
impl std::ops::DerefMut for Out {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut ***self.0.as_mut().expect("it is there until the drop")
    }
}
impl LRScheduler for Shared {
    fn try_step(&mut self, o: &mut dyn Optimizer) -> Result<()> {
        self.with(|s| s.try_step(o))?
    }
    fn try_step_to(&mut self, o: &mut dyn Optimizer, epoch: f64) -> Result<()> {
        self.with(|s| s.try_step_to(o, epoch))?
    }
    fn try_step_metric(&mut self, o: &mut dyn Optimizer, metric: f64) -> Result<()> {
        self.with(|s| s.try_step_metric(o, metric))?
    }
    fn wants_metric(&self) -> bool {
        self.read(|s| s.wants_metric()).unwrap_or(false)
    }
    fn levels(&self) -> usize {
        // what cannot be asked is too deep already, or in use
        self.read(|s| s.levels().saturating_add(1)).unwrap_or(deep::LEVELS)
    }
    fn get_last_lr(&self) -> &[f64] {
        &self.1
    }
    fn get_lr(&mut self, o: &dyn Optimizer) -> Result<Vec<f64>> {
        self.with(|s| s.get_lr(o))?
    }
    fn last_epoch(&self) -> i64 {
        self.read(|s| s.last_epoch()).unwrap_or(0)
    }
    fn state_dict(&self) -> Tree<Tensor> {
        self.read(|s| s.state_dict()).unwrap_or(Tree::None)
    }
    fn load_state_dict(&mut self, state: &Tree<Tensor>) -> Result<()> {
        self.with(|s| s.load_state_dict(state))?
    }
    fn undo(&mut self) {
        // a schedule in use is not taken back
        let _ = self.with(|s| s.undo());
    }
    fn restart(&mut self, o: &mut dyn Optimizer) -> Result<()> {
        self.with(|s| s.restart(o))?
    }
    fn jump(&mut self, o: &mut dyn Optimizer, epoch: i64) -> Result<()> {
        self.with(|s| s.jump(o, epoch))?
    }
}

pub(crate) fn floats(l: &[f64]) -> Value {
    Value::List(l.iter().map(|v| Value::Float(*v)).collect())
}
pub(crate) fn numbers(v: &Value) -> Result<Vec<f64>> {
    Vec::<Number>::from_value(v).map(|l| l.iter().map(Number::value).collect())
}
pub(crate) fn lrs_of(optimizer: &dyn Optimizer) -> Vec<f64> {
    (0..optimizer.group_count()).map(|g| optimizer.lr(g)).collect()
}
/// Sets learning rates, which must be as many as there are groups.
fn set_lrs(optimizer: &mut dyn Optimizer, lrs: &[f64]) -> Result<()> {
    let (n, groups) = (lrs.len(), optimizer.group_count());
    ensure!(
        n == groups,
        Value,
        "zip() argument 2 is {} than argument 1",
        if n < groups { "shorter" } else { "longer" }
    );
    lrs.iter().enumerate().try_for_each(|(g, lr)| optimizer.try_set_lr(g, *lr))
}
/// Keeps the present learning rates of the groups as those that schedules start from, unless they are known.
pub(crate) fn keep_initial(optimizer: &mut dyn Optimizer) -> Result<()> {
    for g in 0..optimizer.group_count() {
        if optimizer.option(g, "initial_lr").is_none() {
            let lr = optimizer.option(g, "lr").unwrap_or(Value::None);
            let lr = Number::from_value(&lr)?.copied()?.into_value();
            optimizer.set_option(g, "initial_lr", lr)?;
        }
    }
    Ok(())
}
/// Groups that are resumed know the learning rates that they started with.
fn check_initial(optimizer: &dyn Optimizer) -> Result<()> {
    let missing = (0..optimizer.group_count()).find(|g| optimizer.option(*g, "initial_lr").is_none());
    match missing {
        // as Python prints a KeyError: quoted, on one line
        Some(g) => Err(Error::index(format!(
            "\"param 'initial_lr' is not specified in param_groups[{g}] when resuming scheduler with last_epoch >= \
             0.\\nThis typically happens when:\\n1. You're trying to resume training from a checkpoint but haven't \
             properly loaded the optimizer state\\n2. You're using last_epoch >= 0 for a fresh training run (not \
             recommended)\""
        ))),
        None => Ok(()),
    }
}

/// A rule together with its place.
#[derive(Clone)]
pub struct Scheduler<S> {
    rule: S,
    at: Standing,
}
/// Where a schedule stands. What it does there is done of a rule without its type, and so compiled once.
#[derive(Clone)]
struct Standing {
    base: Vec<f64>,
    last_lr: Vec<f64>,
    epoch: i64,
    step_count: i64,
}
impl<S: Debug> Debug for Scheduler<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Standing { base, last_lr, epoch, step_count } = &self.at;
        let parts: [(&str, &dyn Debug); 5] = [
            ("rule", &self.rule),
            ("base", base),
            ("last_lr", last_lr),
            ("epoch", epoch),
            ("step_count", step_count),
        ];
        let mut all = f.debug_struct("Scheduler");
        for (name, v) in parts {
            all.field(name, v);
        }
        all.finish()
    }
}
impl Standing {
    fn of(optimizer: &mut dyn Optimizer, rule: &mut dyn Schedule) -> Result<Standing> {
        rule.start(optimizer)?;
        let epoch = rule.resume_from();
        if epoch == -1 {
            keep_initial(optimizer)?;
        } else {
            check_initial(optimizer)?;
        }
        let base = (0..optimizer.group_count()).map(|g| optimizer.initial_lr(g)).collect();
        let mut out = Standing { base, last_lr: Vec::new(), epoch, step_count: 0 };
        out.restart(rule, optimizer)?;
        if let Some(base) = rule.base() {
            out.base = base;
        }
        Ok(out)
    }
    fn apply(
        &mut self,
        rule: &mut dyn Schedule,
        optimizer: &mut dyn Optimizer,
        initial: bool,
        jump: bool,
    ) -> Result<()> {
        let current = lrs_of(optimizer);
        let at = At {
            epoch: self.epoch,
            base: &self.base,
            current: &current,
            initial,
            step_count: self.step_count,
            optimizer,
        };
        let closed = if jump { rule.closed_form(at) } else { None };
        let (lrs, momenta) = match closed {
            Some(lrs) => (lrs, None),
            None => (rule.lrs(at)?, rule.momenta(at)),
        };
        for (g, m) in momenta.into_iter().flatten().enumerate() {
            optimizer.set_momentum(g, Value::Float(m))?;
        }
        set_lrs(optimizer, &lrs)?;
        self.last_lr = lrs_of(optimizer);
        Ok(())
    }
    fn advance(
        &mut self,
        rule: &mut dyn Schedule,
        optimizer: &mut dyn Optimizer,
        initial: bool,
    ) -> Result<()> {
        if let Some(next) = rule.advance(self.epoch, None) {
            self.epoch = next?;
            return self.apply(rule, optimizer, initial, false);
        }
        self.step_count += 1;
        self.epoch = self.epoch.saturating_add(1);
        self.apply(rule, optimizer, initial, false)
    }
    fn step_to(&mut self, rule: &mut dyn Schedule, optimizer: &mut dyn Optimizer, epoch: f64) -> Result<()> {
        if let Some(next) = rule.advance(self.epoch, Some(epoch)) {
            self.epoch = next?;
            return self.apply(rule, optimizer, false, false);
        }
        self.step_count += 1;
        self.jump(rule, optimizer, epoch as i64)
    }
    fn jump(&mut self, rule: &mut dyn Schedule, optimizer: &mut dyn Optimizer, epoch: i64) -> Result<()> {
        self.epoch = epoch;
        self.apply(rule, optimizer, false, true)
    }
    fn restart(&mut self, rule: &mut dyn Schedule, optimizer: &mut dyn Optimizer) -> Result<()> {
        self.step_count = 0;
        self.advance(rule, optimizer, true)
    }
    fn lrs(&self, rule: &mut dyn Schedule, optimizer: &dyn Optimizer) -> Result<Vec<f64>> {
        let (current, base) = (lrs_of(optimizer), self.base.clone());
        let (epoch, step_count) = (self.epoch, self.step_count);
        rule.lrs(At { epoch, base: &base, current: &current, initial: false, step_count, optimizer })
    }
    fn save(&self, rule: &dyn Schedule) -> Tree<Tensor> {
        let mut all = rule.entries();
        all.extend([
            ("base_lrs", floats(&self.base)),
            ("last_epoch", Value::Int(self.epoch)),
            ("_step_count", Value::Int(self.step_count)),
            ("_is_initial", Value::Bool(false)),
            ("_get_lr_called_within_step", Value::Bool(false)),
            ("_last_lr", floats(&self.last_lr)),
        ]);
        all.extend(rule.last_entries());
        Tree::Dict(all.iter().map(|(n, v)| (text(n), saved_tree(n, v))).collect())
    }
    fn load(&mut self, rule: &mut dyn Schedule, state: &Tree<Tensor>) -> Result<()> {
        for (k, v) in state.entries().ok_or_else(not_a_dict)? {
            let Tree::Str(name) = k else { continue };
            let v = &value(v)?;
            match name.as_str() {
                "base_lrs" => self.base = numbers(v)?,
                "last_epoch" => self.epoch = i64::from_value(v)?,
                "_step_count" => self.step_count = i64::from_value(v)?,
                "_last_lr" => self.last_lr = numbers(v)?,
                name => rule.load(name, v)?,
            }
        }
        Ok(())
    }
}
impl<S: Schedule> Scheduler<S> {
    /// A schedule over the optimizer's groups, at its start: it sets their learning rates.
    ///
    /// # Errors
    /// Options that do not fit.
    pub fn of(optimizer: &mut dyn Optimizer, mut rule: S) -> Result<Self> {
        let at = Standing::of(optimizer, &mut rule)?;
        Ok(Scheduler { rule, at })
    }
    /// The rule.
    pub fn rule(&self) -> &S {
        &self.rule
    }
    /// Learning rates that the groups started with.
    pub fn base_lrs(&self) -> &[f64] {
        &self.at.base
    }
}
/// For the lists of [`SequentialLR`] and [`ChainedScheduler`]: `vec![warmup.into(), cosine.into()]`.
impl<S: Schedule + 'static> From<Scheduler<S>> for Box<dyn LRScheduler> {
    fn from(s: Scheduler<S>) -> Self {
        Box::new(s)
    }
}
impl From<SequentialLR> for Box<dyn LRScheduler> {
    fn from(s: SequentialLR) -> Self {
        Box::new(s)
    }
}
impl From<ChainedScheduler> for Box<dyn LRScheduler> {
    fn from(s: ChainedScheduler) -> Self {
        Box::new(s)
    }
}
impl<S: Schedule> LRScheduler for Scheduler<S> {
    fn try_step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        self.at.advance(&mut self.rule, optimizer, false)
    }
    fn try_step_to(&mut self, optimizer: &mut dyn Optimizer, epoch: f64) -> Result<()> {
        self.at.step_to(&mut self.rule, optimizer, epoch)
    }
    fn get_last_lr(&self) -> &[f64] {
        &self.at.last_lr
    }
    fn get_lr(&mut self, optimizer: &dyn Optimizer) -> Result<Vec<f64>> {
        self.at.lrs(&mut self.rule, optimizer)
    }
    fn last_epoch(&self) -> i64 {
        self.at.epoch
    }
    fn state_dict(&self) -> Tree<Tensor> {
        self.at.save(&self.rule)
    }
    fn load_state_dict(&mut self, state: &Tree<Tensor>) -> Result<()> {
        self.at.load(&mut self.rule, state)
    }
    fn undo(&mut self) {
        self.at.epoch = self.at.epoch.saturating_sub(1);
    }
    fn restart(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        self.at.restart(&mut self.rule, optimizer)
    }
    fn jump(&mut self, optimizer: &mut dyn Optimizer, epoch: i64) -> Result<()> {
        self.at.jump(&mut self.rule, optimizer, epoch)
    }
}
fn not_a_dict() -> Error {
    Error::type_("the state of a scheduler must be a dictionary")
}
/// Milestones are a counter in PyTorch's files, with integers as keys.
fn saved_tree(name: &str, v: &Value) -> Tree<Tensor> {
    match v {
        Value::Dict(l) if name == "milestones" => {
            let entry = |(k, v): &(String, Value)| {
                let k = k.parse().map_or_else(|_| text(k), Tree::Int);
                (k, crate::optimizer::state_dict::tree(v))
            };
            Tree::Counter(l.iter().map(entry).collect())
        }
        v => crate::optimizer::state_dict::tree(v),
    }
}

/// `build` and `new` with the arguments that have no default.
macro_rules! schedule {
    ($name:ident, $options:ident, ($($arg:ident: $t:ty),*) $(, set ($($set:ident: $st:ty),*))?) => {
        impl $options {
            /// The schedule over the optimizer's groups. Panics with the error's text.
            #[track_caller]
            pub fn build(self, optimizer: &mut dyn crate::Optimizer) -> $name {
                flambeau_core::api::ergonomic::expect(self.try_build(optimizer))
            }
            /// The schedule over the optimizer's groups.
            ///
            /// # Errors
            /// Options that do not fit.
            pub fn try_build(self, optimizer: &mut dyn crate::Optimizer) -> flambeau_core::Result<$name> {
                crate::lr_scheduler::Scheduler::of(optimizer, self.into())
            }
        }
        impl $name {
            /// The schedule over the optimizer's groups; further keywords are on its options. Panics with the error's
            /// text.
            #[track_caller]
            pub fn new(
                optimizer: &mut dyn crate::Optimizer
                $(, $arg: impl flambeau_core::api::into_arg::IntoArg<$t>)*
                $($(, $set: impl flambeau_core::api::into_arg::IntoArg<$st>)*)?
            ) -> Self {
                $options::new($($arg),*)$($(.$set($set))*)?.build(optimizer)
            }
        }
    };
}
/// The entries of a rule whose state is its options.
macro_rules! options_are_state {
    () => {
        fn resume_from(&self) -> i64 {
            self.last_epoch
        }
        fn entries(&self) -> Vec<(&'static str, flambeau_core::Value)> {
            self.values().into_iter().filter(|(n, _)| *n != "last_epoch").collect()
        }
        fn load(&mut self, name: &str, v: &flambeau_core::Value) -> Result<()> {
            self.set_value(name, v).map(|_| ())
        }
    };
}
pub(crate) use {options_are_state, schedule};
