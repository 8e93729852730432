//! An optimizer whose state is spread over the ranks (Rajbhandari et al. 2020, stage 1).

use crate::group::ProcessGroup;
use crate::join::{Join, JoinHandle, JoinHook, JoinOptions, Joinable};
use crate::pickles::{dump, load};
use crate::sync::Monitor;
use crate::world::World;
use crate::{CollectiveOptions, Peer, try_broadcast};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Result, Tensor, Value, bail, ensure, ops};
use flambeau_nn::{Parameter, ZeroGradOptions};
use flambeau_optim::{Algorithm, Closure, Optim, Optimizer as _};
use flambeau_serialization::Tree;
use std::fmt;
use std::sync::Arc;

/// Keywords of [`ZeroRedundancyOptimizer`].
#[flambeau_macros::options]
pub struct ZeroRedundancyOptions {
    /// The group; the default one if left out.
    pub(crate) process_group: Option<ProcessGroup>,
    /// Whether all parameters of a rank travel as one tensor, instead of one by one. Default: false.
    #[default(false)]
    pub(crate) parameters_as_bucket_view: bool,
}

/// An optimizer whose state is spread over the ranks: each updates some of the parameters and sends them to the others.
///
/// Parameters go, the largest first, to the rank that has the fewest elements so far. All ranks have the same gradients, as
/// `DistributedDataParallel` leaves them.
///
/// ```
/// use torch::distributed::{run_in_threads, optim::ZeroRedundancyOptimizer};
/// use torch::nn::{Linear, parallel::DistributedDataParallel};
/// use torch::optim::AdamOptions;
/// use torch::prelude::*;
///
/// run_in_threads(2, |rank| {
///     let model = DistributedDataParallel::new(Linear::new(4, 2));
///     let mut optimizer = ZeroRedundancyOptimizer::new(model.parameters(), AdamOptions::new());
///     model.call(&torch::full([1, 4], rank as f64)).sum().backward();
///     optimizer.step();
///     optimizer.zero_grad();
/// });
/// ```
#[doc(alias = "torch.distributed.optim.ZeroRedundancyOptimizer")]
pub struct ZeroRedundancyOptimizer<A: Algorithm> {
    inner: Arc<Monitor<Inner<A>>>,
    group: ProcessGroup,
    join: JoinHandle,
    one_tensor: bool,
}
struct Inner<A: Algorithm> {
    /// parameters of all groups
    groups: Vec<Vec<Parameter>>,
    /// by rank and group
    parts: Vec<Vec<Vec<Parameter>>>,
    /// elements of each rank
    sizes: Vec<i64>,
    /// of this rank's parameters, with all groups
    local: Optim<A>,
    /// state dicts of all ranks, where they were brought together
    all: Vec<Tree<Tensor>>,
}
impl<A: Algorithm> fmt::Debug for ZeroRedundancyOptimizer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZeroRedundancyOptimizer({})", A::NAME)
    }
}
/// A list of parameters for each rank: the largest first, each to the rank with the least so far.
fn share(params: &[Parameter], sizes: &mut [i64]) -> Vec<Vec<Parameter>> {
    let mut sorted: Vec<&Parameter> = params.iter().collect();
    sorted.sort_by_key(|p| std::cmp::Reverse(p.tensor().numel()));
    let mut parts = vec![Vec::new(); sizes.len()];
    for p in sorted {
        let least = (0..sizes.len()).min_by_key(|r| sizes[*r]).unwrap_or(0);
        parts[least].push(p.clone());
        sizes[least] += p.tensor().numel();
    }
    parts
}
fn type_name(t: &Tensor) -> String {
    let name = match t.dtype() {
        DType::F32 => "FloatTensor",
        DType::F64 => "DoubleTensor",
        DType::F16 => "HalfTensor",
        DType::BF16 => "BFloat16Tensor",
        DType::C64 => "ComplexFloatTensor",
        DType::C128 => "ComplexDoubleTensor",
        d => d.name(),
    };
    format!("torch.{name}")
}
impl<A: Algorithm> ZeroRedundancyOptimizer<A> {
    /// Of these parameters, with the options of an optimizer. Panics with the error's text.
    #[track_caller]
    pub fn new(params: impl flambeau_optim::IntoParameters, options: A) -> Self {
        expect(Self::try_new(params, options, ZeroRedundancyOptions::new()))
    }
    /// [`ZeroRedundancyOptimizer::new`] with keywords, and with an error instead of a panic.
    ///
    /// # Errors
    /// No parameters, parameters of different dtypes, options that do not fit, no job.
    pub fn try_new(
        params: impl flambeau_optim::IntoParameters,
        options: A,
        zero: ZeroRedundancyOptions,
    ) -> Result<Self> {
        Self::try_with_groups(vec![(params.into_parameters(), options.clone())], options, zero)
    }
    /// Of groups of parameters with their own options.
    ///
    /// # Errors
    /// As [`ZeroRedundancyOptimizer::try_new`].
    pub fn try_with_groups(
        groups: Vec<(Vec<Parameter>, A)>,
        defaults: A,
        zero: ZeroRedundancyOptions,
    ) -> Result<Self> {
        let all: Vec<&Parameter> = groups.iter().flat_map(|g| &g.0).collect();
        let Some(first) = all.first() else {
            bail!(Value, "ZeroRedundancyOptimizer got an empty parameter list")
        };
        for p in &all[1..] {
            ensure!(
                p.tensor().dtype() == first.tensor().dtype(),
                Value,
                "ZeroRedundancyOptimizer only supports using the same dense type for all parameters but got both {} and {}",
                type_name(first.tensor()),
                type_name(p.tensor())
            );
        }
        let group = match zero.process_group {
            Some(g) => g,
            None => World::current().default_group()?,
        };
        let (n, me) = (group.size().max(1) as usize, group.rank().max(0) as usize);
        let mut sizes = vec![0; n];
        let (mut parts, mut mine, mut kept) = (vec![Vec::new(); n], Vec::new(), Vec::new());
        for (params, options) in groups {
            let shared = share(&params, &mut sizes);
            mine.push((shared[me].clone(), options));
            shared.into_iter().zip(&mut parts).for_each(|(s, p)| p.push(s));
            kept.push(params);
        }
        let local = Optim::with_groups(mine, defaults)?;
        let inner = Inner { groups: kept, parts, sizes, local, all: Vec::new() };
        let inner = Arc::new(Monitor::new(inner));
        Ok(ZeroRedundancyOptimizer {
            inner,
            group,
            join: JoinHandle::default(),
            one_tensor: zero.parameters_as_bucket_view,
        })
    }
    /// Updates this rank's parameters and brings all ranks' together. Panics with the error's text.
    #[track_caller]
    #[doc(alias = "torch.distributed.optim.ZeroRedundancyOptimizer.step")]
    pub fn step(&mut self) {
        expect(self.try_step());
    }
    /// [`ZeroRedundancyOptimizer::step`] with an error instead of a panic.
    ///
    /// # Errors
    /// Those of the optimizer, and what collectives meet.
    pub fn try_step(&mut self) -> Result<()> {
        Join::notify(&self.join, &self.group)?;
        step(&self.inner, &self.group, self.one_tensor, None).map(drop)
    }
    /// Computes the loss by a closure that also runs backward, then steps; gives the loss.
    ///
    /// # Errors
    /// Those of the closure, and of [`ZeroRedundancyOptimizer::try_step`].
    pub fn try_step_closure(&mut self, closure: Closure<'_>) -> Result<Option<Tensor>> {
        Join::notify(&self.join, &self.group)?;
        step(&self.inner, &self.group, self.one_tensor, Some(closure))
    }
    /// Forgets all gradients.
    #[track_caller]
    pub fn zero_grad(&mut self) {
        expect(self.try_zero_grad(ZeroGradOptions::new()));
    }
    /// [`ZeroRedundancyOptimizer::zero_grad`] with its keywords.
    ///
    /// # Errors
    /// A gradient that is borrowed.
    pub fn try_zero_grad(&mut self, options: ZeroGradOptions) -> Result<()> {
        let params = self.inner.lock().groups.concat();
        let set_to_none = options.set_to_none;
        for p in params {
            match p.grad() {
                Some(_) if set_to_none => p.try_set_grad(None)?,
                Some(g) => ops::zero_(&g.alias_detached())?,
                None => {}
            }
        }
        Ok(())
    }
    /// Adds a group of parameters with its own options.
    ///
    /// # Errors
    /// Options that do not fit, parameters that are there already.
    #[doc(alias = "torch.distributed.optim.ZeroRedundancyOptimizer.add_param_group")]
    pub fn add_param_group(&mut self, params: impl flambeau_optim::IntoParameters, options: A) -> Result<()> {
        let params = params.into_parameters();
        let me = self.group.rank().max(0) as usize;
        let mut s = self.inner.lock();
        let s = &mut *s;
        let shared = share(&params, &mut s.sizes);
        s.local.add_param_group(shared[me].clone(), options)?;
        shared.into_iter().zip(&mut s.parts).for_each(|(x, p)| p.push(x));
        s.groups.push(params);
        Ok(())
    }
    /// The parameters of each rank, by rank and group.
    pub fn partition(&self) -> Vec<Vec<Vec<Parameter>>> {
        self.inner.lock().parts.clone()
    }
    /// An option of a group.
    pub fn option(&self, group: usize, name: &str) -> Option<Value> {
        self.inner.lock().local.option(group, name)
    }
    /// Sets an option of a group; all ranks do.
    ///
    /// # Errors
    /// No such group, a value of the wrong type.
    pub fn set_option(&mut self, group: usize, name: &str, v: Value) -> Result<()> {
        self.inner.lock().local.set_option(group, name, v)
    }
    /// Runs a function with this rank's own optimizer: for learning rate schedules.
    pub fn with_local<R>(&mut self, f: impl FnOnce(&mut Optim<A>) -> R) -> R {
        f(&mut self.inner.lock().local)
    }
    /// Brings the state of all ranks to one, which then has a state dict. All ranks call this.
    ///
    /// # Errors
    /// What collectives meet.
    #[doc(alias = "torch.distributed.optim.ZeroRedundancyOptimizer.consolidate_state_dict")]
    pub fn consolidate_state_dict(&mut self, to: i64) -> Result<()> {
        let mut all = Vec::new();
        let o = || CollectiveOptions::new().group(&self.group);
        let own = self.inner.lock().local.state_dict();
        let me = self.group.rank();
        for r in 0..self.group.size() {
            if r == me && me == to {
                all.push(own.clone());
                continue;
            }
            if r == to {
                continue;
            }
            let bytes = if r == me { dump(&own, true)? } else { Vec::new() };
            let len = Tensor::from_vec_raw(vec![bytes.len() as i64], &[1])?;
            try_broadcast(&len, Peer::InGroup(r), o())?;
            let len = len.try_item::<i64>()?;
            ensure!(len >= 0, Runtime, "a state of negative length");
            let t = if r == me {
                crate::bytes::tensor_of(&bytes)?
            } else {
                Tensor::zeros_raw(&[len], DType::U8, Device::Cpu)?
            };
            try_broadcast(&t, Peer::InGroup(r), o())?;
            if me == to {
                all.push(load(&crate::bytes::read(&t)?, true)?);
            }
        }
        self.inner.lock().all = all;
        Ok(())
    }
    /// State and options of all parameters, in the shape of PyTorch's files, after [`ZeroRedundancyOptimizer::consolidate_state_dict`].
    ///
    /// # Errors
    /// The states were not brought together on this rank.
    #[doc(alias = "torch.distributed.optim.ZeroRedundancyOptimizer.state_dict")]
    pub fn state_dict(&self) -> Result<Tree<Tensor>> {
        let s = self.inner.lock();
        ensure!(
            !s.all.is_empty(),
            Runtime,
            "Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to={})` on all ranks beforehand if you meant to save the global state.",
            self.group.rank()
        );
        let mut state: Vec<(i64, Tree<Tensor>)> = Vec::new();
        for (dict, parts) in s.all.iter().zip(&s.parts) {
            let entries = dict.get("state").and_then(Tree::entries).unwrap_or_default();
            let flat: Vec<&Parameter> = parts.iter().flatten().collect();
            for (k, v) in entries {
                let known = k.as_i64().and_then(|i| flat.get(i as usize)).and_then(|p| s.index(p));
                if let Some(i) = known {
                    state.push((i, v.clone()));
                }
            }
        }
        state.sort_by_key(|e| e.0);
        let groups = s.all[0].get("param_groups").and_then(Tree::items).unwrap_or_default();
        let (mut at, mut shown) = (0, Vec::new());
        for (g, params) in groups.iter().zip(&s.groups) {
            let mut pairs = g.entries().unwrap_or_default().to_vec();
            let numbers = (at..at + params.len() as i64).map(Tree::Int).collect();
            at += params.len() as i64;
            for (k, v) in &mut pairs {
                if k.as_str() == Some("params") {
                    *v = Tree::List(numbers);
                    break;
                }
            }
            shown.push(Tree::Dict(pairs));
        }
        let text = |s: &str| Tree::Str(s.to_owned());
        let state = state.into_iter().map(|(i, v)| (Tree::Int(i), v)).collect();
        Ok(Tree::Dict(vec![(text("state"), Tree::Dict(state)), (text("param_groups"), Tree::List(shown))]))
    }
    /// Takes over this rank's part of the state of all parameters, and the options.
    ///
    /// # Errors
    /// Other numbers of groups or parameters; a tree of another shape.
    #[doc(alias = "torch.distributed.optim.ZeroRedundancyOptimizer.load_state_dict")]
    pub fn load_state_dict(&mut self, state: &Tree<Tensor>) -> Result<()> {
        let me = self.group.rank().max(0) as usize;
        let mut s = self.inner.lock();
        let mine: Vec<Option<i64>> = s.parts[me].iter().flatten().map(|p| s.index(p)).collect();
        let entries = state.get("state").and_then(Tree::entries).unwrap_or_default();
        let mut local = Vec::new();
        for (k, v) in entries {
            if let Some(at) = mine.iter().position(|m| *m == k.as_i64()) {
                local.push((Tree::Int(at as i64), v.clone()));
            }
        }
        let groups = state.get("param_groups").and_then(Tree::items).unwrap_or_default();
        ensure!(
            groups.len() == s.groups.len(),
            Value,
            "loaded state dict has a different number of parameter groups"
        );
        let (mut at, mut shown) = (0, Vec::new());
        for (g, params) in groups.iter().zip(&s.parts[me]) {
            let mut pairs = g.entries().unwrap_or_default().to_vec();
            let numbers = (at..at + params.len() as i64).map(Tree::Int).collect();
            at += params.len() as i64;
            for (k, v) in &mut pairs {
                if k.as_str() == Some("params") {
                    *v = Tree::List(numbers);
                    break;
                }
            }
            shown.push(Tree::Dict(pairs));
        }
        let text = |s: &str| Tree::Str(s.to_owned());
        let tree =
            Tree::Dict(vec![(text("state"), Tree::Dict(local)), (text("param_groups"), Tree::List(shown))]);
        s.local.load_state_dict(&tree)
    }
}
impl<A: Algorithm> Inner<A> {
    /// A parameter's number among those of all groups.
    fn index(&self, p: &Parameter) -> Option<i64> {
        let at = self.groups.iter().flatten().position(|x| x.tensor().id() == p.tensor().id());
        at.map(|i| i as i64)
    }
}
fn step<A: Algorithm>(
    inner: &Monitor<Inner<A>>,
    group: &ProcessGroup,
    one_tensor: bool,
    closure: Option<Closure<'_>>,
) -> Result<Option<Tensor>> {
    let (loss, parts) = {
        let mut s = inner.lock();
        let loss = match closure {
            Some(f) => Some(s.local.try_step_closure(f)?),
            None => {
                s.local.try_step()?;
                None
            }
        };
        (loss, s.parts.clone())
    };
    let o = || CollectiveOptions::new().group(group).async_op(true);
    let mut works = Vec::new();
    let mut whole = Vec::new();
    for (r, groups) in parts.iter().enumerate() {
        let all: Vec<Tensor> = groups.iter().flatten().map(|p| p.tensor().alias_detached()).collect();
        let from = Peer::InGroup(r as i64);
        if !one_tensor {
            for t in &all {
                works.push(try_broadcast(t, from, o())?);
            }
        } else if !all.is_empty() {
            let flat: Vec<Tensor> =
                all.iter().map(|t| ops::reshape(t, &[t.numel()])).collect::<Result<_>>()?;
            let flat = ops::cat(&flat, 0)?;
            works.push(try_broadcast(&flat, from, o())?);
            whole.push((flat, all));
        }
    }
    works.iter().try_for_each(crate::Work::try_wait)?;
    for (flat, all) in whole {
        let mut at = 0;
        for t in all {
            ops::copy_(&t, &ops::view(&ops::narrow(&flat, 0, at, t.numel())?, t.sizes())?, false)?;
            at += t.numel();
        }
    }
    Ok(loss)
}

struct Shadow<A: Algorithm> {
    inner: Arc<Monitor<Inner<A>>>,
    group: ProcessGroup,
    one_tensor: bool,
}
impl<A: Algorithm> JoinHook for Shadow<A> {
    fn main_hook(&mut self) -> Result<()> {
        step(&self.inner, &self.group, self.one_tensor, None).map(drop)
    }
}
impl<A: Algorithm> Joinable for ZeroRedundancyOptimizer<A> {
    #[doc(alias = "torch.distributed.optim.ZeroRedundancyOptimizer.join_hook")]
    fn join_hook(&self, _: &JoinOptions) -> Box<dyn JoinHook> {
        let (inner, group) = (self.inner.clone(), self.group.clone());
        Box::new(Shadow { inner, group, one_tensor: self.one_tensor })
    }
    #[doc(alias = "torch.distributed.optim.ZeroRedundancyOptimizer.join_device")]
    fn join_device(&self) -> Device {
        Device::Cpu
    }
    #[doc(alias = "torch.distributed.optim.ZeroRedundancyOptimizer.join_process_group")]
    fn join_process_group(&self) -> ProcessGroup {
        self.group.clone()
    }
    fn join_handle(&self) -> &JoinHandle {
        &self.join
    }
}
