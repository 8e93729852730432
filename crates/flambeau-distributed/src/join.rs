//! Ranks with different numbers of inputs: those that are done take part in what the others call (`torch.distributed.algorithms.join`).

use crate::group::ProcessGroup;
use crate::sync::Monitor;
use crate::work::Work;
use crate::{ReduceOptions, try_all_reduce};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Result, Tensor, bail, ensure};
use std::fmt;
use std::sync::Arc;

/// What a rank without inputs does in the place of what the others do.
#[doc(alias = "torch.distributed.algorithms.JoinHook")]
pub trait JoinHook: Send {
    /// Takes part in the collectives of one step of the others.
    ///
    /// # Errors
    /// What collectives meet.
    #[doc(alias = "torch.distributed.algorithms.JoinHook.main_hook")]
    fn main_hook(&mut self) -> Result<()> {
        Ok(())
    }
    /// Runs once all ranks are done; the last ones know it.
    ///
    /// # Errors
    /// What collectives meet.
    #[doc(alias = "torch.distributed.algorithms.JoinHook.post_hook")]
    fn post_hook(&mut self, is_last_joiner: bool) -> Result<()> {
        let _ = is_last_joiner;
        Ok(())
    }
}

/// What [`Join`] knows of each thing that joins, kept in that thing: make one with `JoinHandle::default()`.
#[derive(Clone, Default)]
pub struct JoinHandle(Arc<Monitor<Config>>);
#[derive(Clone, Copy, Default)]
struct Config {
    enable: bool,
    throw: bool,
    first: bool,
}
impl JoinHandle {
    pub(crate) fn is_enabled(&self) -> bool {
        self.0.lock().enable
    }
}
impl fmt::Debug for JoinHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinHandle(enable={})", self.is_enabled())
    }
}

/// What calls collectives in each step, and can say what a rank without inputs does meanwhile. At the beginning of a step it calls
/// [`Join::notify_join_context`].
///
/// ```
/// use torch::distributed::algorithms::{Join, JoinHandle, JoinHook, JoinOptions, Joinable};
/// use torch::distributed::{self as dist, ProcessGroup, run_in_threads};
///
/// /// Counts the steps of all ranks.
/// #[derive(Default)]
/// struct Counter(JoinHandle);
/// impl Counter {
///     fn step(&self, n: i64) -> i64 {
///         Join::notify_join_context(self).unwrap();
///         let sum = torch::tensor([n]);
///         dist::all_reduce(&sum);
///         sum.item()
///     }
/// }
/// /// A rank that is done adds nothing.
/// struct Nothing;
/// impl JoinHook for Nothing {
///     fn main_hook(&mut self) -> torch::Result<()> {
///         dist::try_all_reduce(&torch::tensor([0i64]), Default::default()).map(drop)
///     }
/// }
/// impl Joinable for Counter {
///     fn join_hook(&self, _: &JoinOptions) -> Box<dyn JoinHook> { Box::new(Nothing) }
///     fn join_process_group(&self) -> ProcessGroup { dist::default_group() }
///     fn join_handle(&self) -> &JoinHandle { &self.0 }
/// }
/// let last = run_in_threads(2, |rank| {
///     let counter = Counter::default();
///     Join::new(&[&counter]).run(|| (0..2 + rank).map(|_| counter.step(1)).last().unwrap())
/// });
/// assert_eq!(last, [2, 1]);
/// ```
#[doc(alias = "torch.distributed.algorithms.Joinable")]
pub trait Joinable {
    /// What a rank without inputs does.
    #[doc(alias = "torch.distributed.algorithms.Joinable.join_hook")]
    fn join_hook(&self, options: &JoinOptions) -> Box<dyn JoinHook>;
    /// Where the tensors lie that ranks count each other with.
    #[doc(alias = "torch.distributed.algorithms.Joinable.join_device")]
    fn join_device(&self) -> Device {
        Device::Cpu
    }
    /// The group.
    #[doc(alias = "torch.distributed.algorithms.Joinable.join_process_group")]
    fn join_process_group(&self) -> ProcessGroup;
    /// Where the context keeps what it knows.
    fn join_handle(&self) -> &JoinHandle;
}

/// Keywords of [`Join`].
#[flambeau_macros::options]
pub struct JoinOptions {
    /// Whether inputs may be uneven at all. Default: true.
    #[default(true)]
    pub(crate) enable: bool,
    /// Whether all ranks end with an error as soon as one has no inputs. Default: false.
    #[default(false)]
    pub(crate) throw_on_early_termination: bool,
    /// Whether gradients are divided by the number of all ranks, instead of those that still have inputs. Default: true.
    #[default(true)]
    pub(crate) divide_by_initial_world_size: bool,
}
impl JoinOptions {
    /// By what gradients are divided, for hooks of one's own.
    pub fn divides_by_initial_world_size(&self) -> bool {
        self.divide_by_initial_world_size
    }
}

/// A loop over inputs of which ranks may have different numbers.
///
/// A rank that is done stays in [`Join::run`], and takes part with zeros in what the others call, until all are done.
///
/// ```
/// use torch::distributed::{run_in_threads, algorithms::Join};
/// use torch::nn::{Linear, parallel::DistributedDataParallel};
/// use torch::optim::{Optimizer, SGD};
/// use torch::prelude::*;
///
/// run_in_threads(2, |rank| {
///     let model = DistributedDataParallel::new(Linear::new(1, 1));
///     let mut optimizer = SGD::new(model.parameters(), 0.1);
///     Join::new(&[&model]).run(|| {
///         for _ in 0..2 + rank {
///             model.call(&torch::ones([1, 1])).sum().backward();
///             optimizer.step();
///             optimizer.zero_grad();
///         }
///     });
/// });
/// ```
#[doc(alias = "torch.distributed.algorithms.Join")]
#[doc(alias = "torch.distributed.algorithms.join")]
pub struct Join {
    hooks: Vec<Box<dyn JoinHook>>,
    group: ProcessGroup,
    enable: bool,
    throw: bool,
}
impl fmt::Debug for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Join({} joinables)", self.hooks.len())
    }
}
fn one(value: f32) -> Result<Tensor> {
    let t = Tensor::zeros_raw(&[1], DType::F32, Device::Cpu)?;
    crate::bytes::write(&t, &value.to_le_bytes())?;
    Ok(t)
}
/// The sum over the ranks of a number of each.
fn sum(group: &ProcessGroup, value: f32) -> Result<f32> {
    let t = one(value)?;
    try_all_reduce(&t, ReduceOptions::new().group(group))?;
    t.try_item::<f32>()
}
impl Join {
    /// Of these things, with the documented defaults. Panics with the error's text.
    #[track_caller]
    pub fn new(joinables: &[&dyn Joinable]) -> Join {
        expect(Join::try_new(joinables, JoinOptions::new()))
    }
    /// [`Join::new`] with keywords, and with an error instead of a panic.
    ///
    /// # Errors
    /// No thing, things of different groups.
    pub fn try_new(joinables: &[&dyn Joinable], options: JoinOptions) -> Result<Join> {
        let Some(first) = joinables.first() else {
            bail!(Value, "The join context manager requires at least one joinable")
        };
        let hooks = joinables.iter().map(|j| j.join_hook(&options)).collect();
        let group = first.join_process_group();
        for (i, j) in joinables.iter().enumerate() {
            *j.join_handle().0.lock() =
                Config { enable: options.enable, throw: options.throw_on_early_termination, first: i == 0 };
            ensure!(
                j.join_process_group().same(&group),
                Value,
                "Using join context manager with multiple process groups"
            );
        }
        Ok(Join { hooks, group, enable: options.enable, throw: options.throw_on_early_termination })
    }
    /// Runs this rank's loop, and then what it takes until all are done. Panics with the error's text.
    #[track_caller]
    pub fn run<R>(self, f: impl FnOnce() -> R) -> R {
        expect(self.try_run(|| Ok(f())))
    }
    /// [`Join::run`] with an error instead of a panic.
    ///
    /// # Errors
    /// Those of the function; what collectives meet; a rank without inputs, where the options say so.
    pub fn try_run<R>(mut self, f: impl FnOnce() -> Result<R>) -> Result<R> {
        let r = f()?;
        if !self.enable {
            return Ok(r);
        }
        let mut last = true;
        while sum(&self.group, 0.0)? != 0.0 {
            if self.throw {
                sum(&self.group, 1.0)?;
                bail!(Runtime, "Rank {} exhausted all inputs.", self.group.rank());
            }
            self.hooks.iter_mut().try_for_each(|h| h.main_hook())?;
            last = false;
        }
        self.hooks.iter_mut().try_for_each(|h| h.post_hook(last))?;
        Ok(r)
    }
    /// Tells the ranks that are done that this one is not: called at the beginning of a step. Gives the operation, where there is one,
    /// and the tensor that will hold the number of ranks which are not done.
    ///
    /// # Errors
    /// What collectives meet; a rank without inputs, where the context's options say so.
    #[doc(alias = "torch.distributed.algorithms.Join.notify_join_context")]
    pub fn notify_join_context(joinable: &dyn Joinable) -> Result<Option<(Work, Tensor)>> {
        Join::notify(joinable.join_handle(), &joinable.join_process_group())
    }
    pub(crate) fn notify(handle: &JoinHandle, group: &ProcessGroup) -> Result<Option<(Work, Tensor)>> {
        let c = *handle.0.lock();
        if !c.first || !c.enable {
            return Ok(None);
        }
        let t = one(1.0)?;
        let work = try_all_reduce(&t, ReduceOptions::new().group(group).async_op(true))?;
        if c.throw && sum(group, 0.0)? != 0.0 {
            bail!(Runtime, "Detected at least one rank that exhausted inputs. Throwing across all ranks.");
        }
        Ok(Some((work, t)))
    }
}
