//! Schedules made of schedules.

use super::{LRScheduler, floats, lrs_of, numbers};
use crate::optimizer::Optimizer;
use crate::optimizer::state_dict::{text, tree, value};
#[cfg(feature = "by-name")]
use flambeau_core::Value;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::types::deep;
use flambeau_core::{Error, ErrorKind, Result, Tensor, ensure};
use flambeau_serialization::Tree;

type Parts = Vec<Box<dyn LRScheduler>>;

fn check(class: &str, parts: &Parts, chained: &str) -> Result<()> {
    ensure!(
        !parts.is_empty(),
        Value,
        "{class} expects at least one scheduler{chained}, but got no scheduler."
    );
    // what walks them recurses
    ensure!(levels_of(parts) <= deep::LEVELS, Runtime, "maximum recursion depth exceeded");
    if let Some(i) = parts.iter().position(|s| s.wants_metric()) {
        return Err(Error::value(format!(
            "{class} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be specified \
             when calling `step`, but got one at index {i} in the given schedulers sequence."
        )));
    }
    Ok(())
}
fn levels_of(parts: &Parts) -> usize {
    parts.iter().map(|s| s.levels()).max().unwrap_or(0).saturating_add(1)
}
fn states(parts: &Parts) -> Tree<Tensor> {
    Tree::List(parts.iter().map(|s| s.state_dict()).collect())
}
fn load_states(parts: &mut Parts, t: &Tree<Tensor>) -> Result<()> {
    let (Tree::List(l) | Tree::Tuple(l)) = t else {
        return Err(Error::type_("_schedulers must be a list"));
    };
    ensure!(l.len() <= parts.len(), Index, "list index out of range");
    parts.iter_mut().zip(l).try_for_each(|(s, t)| s.load_state_dict(t))
}
/// PyTorch has no closed form for these, and says so without words.
fn cannot_jump<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Unsupported, ""))
}

/// Several schedules that are all stepped each time, one after the other.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::Parameter;
/// use torch::optim::lr_scheduler::{ChainedScheduler, ExponentialLR, LRScheduler, StepLR};
/// use torch::optim::{Optimizer, SGD};
///
/// let w = Parameter::new(Tensor::from_slice(&[1f32], 1));
/// let mut o = SGD::new([&w], 1.0);
/// let parts = vec![ExponentialLR::new(&mut o, 0.5).into(), StepLR::new(&mut o, 1, 0.5).into()];
/// let mut schedule = ChainedScheduler::new(&mut o, parts);
/// schedule.step(&mut o);
/// assert_eq!(o.lr(0), 0.25);
/// ```
#[derive(Debug)]
#[doc(alias = "torch.optim.lr_scheduler.ChainedScheduler")]
pub struct ChainedScheduler {
    parts: Parts,
    last_lr: Vec<f64>,
}
impl ChainedScheduler {
    /// Chains schedules of one optimizer. Panics with the error's text.
    #[track_caller]
    pub fn new(optimizer: &mut dyn Optimizer, schedulers: Parts) -> Self {
        expect(Self::try_new(optimizer, schedulers))
    }
    /// Chains schedules of one optimizer.
    ///
    /// # Errors
    /// None, or one that wants a measure.
    pub fn try_new(optimizer: &mut dyn Optimizer, parts: Parts) -> Result<Self> {
        check("ChainedScheduler", &parts, " to be chained")?;
        Ok(ChainedScheduler { parts, last_lr: lrs_of(optimizer) })
    }
}
impl LRScheduler for ChainedScheduler {
    fn try_step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        self.parts.iter_mut().try_for_each(|s| s.try_step(optimizer))?;
        self.last_lr = lrs_of(optimizer);
        Ok(())
    }
    fn try_step_to(&mut self, _: &mut dyn Optimizer, _: f64) -> Result<()> {
        Err(Error::type_("ChainedScheduler.step() takes 1 positional argument but 2 were given"))
    }
    fn get_last_lr(&self) -> &[f64] {
        &self.last_lr
    }
    fn last_epoch(&self) -> i64 {
        self.parts.first().map_or(0, |s| s.last_epoch())
    }
    fn state_dict(&self) -> Tree<Tensor> {
        let last = tree(&floats(&self.last_lr));
        Tree::Dict(vec![(text("_last_lr"), last), (text("_schedulers"), states(&self.parts))])
    }
    fn load_state_dict(&mut self, state: &Tree<Tensor>) -> Result<()> {
        if let Some(v) = state.get("_last_lr") {
            self.last_lr = numbers(&value(v)?)?;
        }
        let parts = state.get("_schedulers").ok_or_else(|| Error::index("'_schedulers'"))?;
        load_states(&mut self.parts, parts)
    }
    fn levels(&self) -> usize {
        levels_of(&self.parts)
    }
    fn undo(&mut self) {
        self.parts.iter_mut().for_each(|s| s.undo());
    }
    fn restart(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        self.try_step(optimizer)
    }
    fn jump(&mut self, _: &mut dyn Optimizer, _: i64) -> Result<()> {
        cannot_jump()
    }
}

/// Several schedules, each for its own stretch of steps.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::Parameter;
/// use torch::optim::lr_scheduler::{ConstantLROptions, ExponentialLR, LRScheduler, SequentialLR};
/// use torch::optim::{Optimizer, SGD};
///
/// let w = Parameter::new(Tensor::from_slice(&[1f32], 1));
/// let mut o = SGD::new([&w], 1.0);
/// let warm = ConstantLROptions::new().factor(0.25).total_iters(2).build(&mut o);
/// let rest = ExponentialLR::new(&mut o, 0.5);
/// let mut schedule = SequentialLR::new(&mut o, vec![warm.into(), rest.into()], [2]);
/// assert_eq!(o.lr(0), 0.25);
/// (0..3).for_each(|_| schedule.step(&mut o));
/// assert_eq!(o.lr(0), 0.5);
/// ```
#[derive(Debug)]
#[doc(alias = "torch.optim.lr_scheduler.SequentialLR")]
pub struct SequentialLR {
    parts: Parts,
    milestones: Vec<i64>,
    epoch: i64,
    last_lr: Vec<f64>,
}
impl SequentialLR {
    /// Schedules of one optimizer, and the steps at which the next one takes over. Panics with the error's text.
    #[track_caller]
    pub fn new(
        optimizer: &mut dyn Optimizer,
        schedulers: Parts,
        milestones: impl flambeau_core::api::into_arg::IntoArg<Vec<i64>>,
    ) -> Self {
        expect(Self::try_new(optimizer, schedulers, milestones.into_arg(), -1))
    }
    /// As [`SequentialLR::new`], going on from an epoch.
    ///
    /// # Errors
    /// No schedule, one that wants a measure, another number of milestones than one less.
    pub fn try_new(
        optimizer: &mut dyn Optimizer,
        parts: Parts,
        milestones: Vec<i64>,
        last_epoch: i64,
    ) -> Result<Self> {
        check("SequentialLR", &parts, "")?;
        ensure!(
            milestones.len() + 1 == parts.len(),
            Value,
            "Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone \
             points, but got number of schedulers {} and the number of milestones to be equal to {}",
            parts.len(),
            milestones.len()
        );
        let mut out =
            SequentialLR { parts, milestones, epoch: last_epoch.saturating_add(1), last_lr: Vec::new() };
        for g in 0..optimizer.group_count() {
            let lr = optimizer.initial_lr(g);
            optimizer.try_set_lr(g, lr)?;
        }
        out.undo();
        let first = &mut out.parts[index(&out.milestones, 0)];
        first.restart(optimizer)?;
        out.last_lr = first.get_last_lr().to_vec();
        Ok(out)
    }
}
/// The schedule of an epoch.
fn index(milestones: &[i64], epoch: i64) -> usize {
    milestones.partition_point(|m| *m <= epoch)
}
impl LRScheduler for SequentialLR {
    fn try_step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        self.epoch = self.epoch.saturating_add(1);
        let i = index(&self.milestones, self.epoch);
        let part = &mut self.parts[i];
        if i > 0 && self.milestones[i - 1] == self.epoch {
            part.jump(optimizer, 0)?;
        } else {
            part.try_step(optimizer)?;
        }
        self.last_lr = part.get_last_lr().to_vec();
        Ok(())
    }
    fn try_step_to(&mut self, _: &mut dyn Optimizer, _: f64) -> Result<()> {
        Err(Error::type_("SequentialLR.step() takes 1 positional argument but 2 were given"))
    }
    fn get_last_lr(&self) -> &[f64] {
        &self.last_lr
    }
    fn last_epoch(&self) -> i64 {
        self.epoch
    }
    fn state_dict(&self) -> Tree<Tensor> {
        let milestones = Tree::List(self.milestones.iter().map(|m| Tree::Int(*m)).collect());
        Tree::Dict(vec![
            (text("_milestones"), milestones),
            (text("last_epoch"), Tree::Int(self.epoch)),
            (text("_last_lr"), tree(&floats(&self.last_lr))),
            (text("_schedulers"), states(&self.parts)),
        ])
    }
    fn load_state_dict(&mut self, state: &Tree<Tensor>) -> Result<()> {
        for (name, v) in state.entries().unwrap_or_default() {
            let Tree::Str(name) = name else { continue };
            match name.as_str() {
                "_milestones" => {
                    let new: Vec<i64> = Vec::from_value(&value(v)?)?;
                    ensure!(
                        new.len() + 1 == self.parts.len(),
                        Value,
                        "the loaded state has {} milestones for {} schedulers",
                        new.len(),
                        self.parts.len()
                    );
                    self.milestones = new;
                }
                "last_epoch" => self.epoch = i64::from_value(&value(v)?)?,
                "_last_lr" => self.last_lr = numbers(&value(v)?)?,
                _ => {}
            }
        }
        let parts = state.get("_schedulers").ok_or_else(|| Error::index("'_schedulers'"))?;
        load_states(&mut self.parts, parts)
    }
    fn levels(&self) -> usize {
        levels_of(&self.parts)
    }
    fn undo(&mut self) {
        self.parts.iter_mut().for_each(|s| s.undo());
    }
    fn restart(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        self.try_step(optimizer)
    }
    fn jump(&mut self, _: &mut dyn Optimizer, _: i64) -> Result<()> {
        cannot_jump()
    }
}

/// The value of a list of schedules in a by-name call must be a list.
#[cfg(feature = "by-name")]
pub(crate) fn list_of(v: &Value) -> Result<&[Value]> {
    v.items().ok_or_else(|| Error::type_(format!("object of type '{}' has no len()", v.type_name())))
}
