//! Training with a copy of the model on each rank (`torch.nn.parallel`).

mod bucket;
pub(crate) mod buckets;
mod delayed;
mod hooks;
mod local;
mod logging;
mod power;
mod quantized;
mod reducer;
mod uneven;

pub use bucket::{CommHook, GradBucket};
pub use delayed::NamedParameters;
pub use hooks::{AllreduceHook, BuiltinCommHookType, CompressHook, CompressWrapper, NoopHook};
pub use local::{PostLocalSgdHook, PostLocalSgdOptions};
pub use logging::DdpLoggingData;
pub use power::{PowerSgdHook, PowerSgdOptions};
pub use quantized::QuantizationHook;

use crate::bytes;
use crate::group::ProcessGroup;
use crate::join::{Join, JoinHandle, JoinHook, JoinOptions, Joinable};
use crate::mesh::DeviceMesh;
use crate::world::World;
use crate::{CollectiveOptions, Peer, try_all_gather, try_broadcast};
use buckets::{Item, assign};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Result, Tensor, bail, ensure};
use flambeau_nn::{Base, Call, Forward, Module, Tensors};
use reducer::Reducer;
use std::sync::Arc;

/// Parameters and buffers are brought to other ranks in pieces of at most this many bytes.
const BROADCAST: usize = 250 << 20;
const MIB: f64 = 1024.0 * 1024.0;

/// Limits of buckets in MiB, in turn.
///
/// ```
/// use torch::distributed::run_in_threads;
/// use torch::nn::{Linear, parallel::{DistributedDataParallel, DistributedDataParallelOptions}};
/// use torch::prelude::*;
/// let buckets = run_in_threads(2, |_| {
///     // a small first bucket sets out early
///     let caps = DistributedDataParallelOptions::new().bucket_cap_mb_list([0.001, 25.0]);
///     let model = DistributedDataParallel::new_with(Linear::new(100, 10), caps);
///     model.call(&torch::ones([1, 100])).sum().backward();
///     model.logging_data().num_buckets_reduced
/// });
/// assert_eq!(buckets[0], buckets[1]);
/// ```
#[derive(Clone, Debug)]
pub struct BucketCaps(Vec<f64>);
impl IntoArg<BucketCaps> for Vec<f64> {
    fn into_arg(self) -> BucketCaps {
        BucketCaps(self)
    }
}
impl<const N: usize> IntoArg<BucketCaps> for [f64; N] {
    fn into_arg(self) -> BucketCaps {
        BucketCaps(self.into())
    }
}

/// Keywords of [`DistributedDataParallel`].
#[flambeau_macros::options]
pub struct DistributedDataParallelOptions {
    /// The group; the default one if left out.
    pub(crate) process_group: Option<ProcessGroup>,
    /// Whether buffers of rank 0 are copied to all before each call. Default: true.
    #[default(true)]
    pub(crate) broadcast_buffers: bool,
    /// Whether the ranks compare their parameters and begin with those of rank 0. Default: true.
    #[default(true)]
    pub(crate) init_sync: bool,
    /// From how many MiB on gradients travel; 1 for the first ones and 25 for the others if left out.
    pub(crate) bucket_cap_mb: Option<f64>,
    /// The same for each bucket in turn; the last one lasts.
    pub(crate) bucket_cap_mb_list: Option<BucketCaps>,
    /// Whether each call looks which parameters its result does not come from. Default: false.
    #[default(false)]
    pub(crate) find_unused_parameters: bool,
    /// Whether gradients are views of what travelled, instead of copies. Default: false.
    #[default(false)]
    pub(crate) gradient_as_bucket_view: bool,
    /// Whether all calls use the same parameters in the same way. Default: false.
    #[default(false)]
    pub(crate) static_graph: bool,
    /// Whether gradients are copied into buckets all at once: they are here, whatever this says. Default: false.
    #[default(false)]
    pub(crate) batched_grad_copy: bool,
    /// Whether buckets of which no parameter was used stay where they are. All ranks must leave out the same parameters, always.
    /// Default: false.
    #[default(false)]
    pub(crate) skip_all_reduce_unused_params: bool,
    /// As `broadcast_buffers`, in whose place it stands, but for the constructor: that brings the buffers of rank 0 to all either way.
    pub(crate) forward_sync_buffers: Option<bool>,
    /// Whether buckets get their memory when they are first filled: they do here, whatever this says. Default: false.
    #[default(false)]
    pub(crate) lazy_bucket_allocation: bool,
    /// The group as a grid of one dimension, in the place of `process_group`.
    pub(crate) device_mesh: Option<DeviceMesh>,
    /// Parameters that the buckets leave out: their gradients are averaged all at once when that of `param_to_hook_all_reduce` has
    /// come, which must be the last. One without a gradient counts as zeros. The other keywords do not apply to them.
    pub(crate) delay_all_reduce_named_params: Option<NamedParameters>,
    /// The parameter that `delay_all_reduce_named_params` wait for.
    pub(crate) param_to_hook_all_reduce: Option<Tensor>,
}

/// A model whose gradients are averaged over all ranks while backward runs.
///
/// Each rank has a copy of the model and its own part of each batch. The constructor brings the parameters and buffers of rank 0 to all;
/// from then on each backward leaves the same gradients everywhere, so optimizers keep the copies equal. Gradients travel in buckets,
/// those of the last layers first, while backward goes on.
///
/// ```
/// use torch::distributed::run_in_threads;
/// use torch::nn::{Linear, parallel::DistributedDataParallel};
/// use torch::prelude::*;
///
/// let gradients = run_in_threads(2, |rank| {
///     let model = DistributedDataParallel::new(Linear::new(1, 1));
///     let x = torch::full([1, 1], rank as f64);
///     model.call(&x).sum().backward();
///     model.parameters()[0].grad().unwrap().item::<f32>()
/// });
/// assert_eq!(gradients, [0.5, 0.5]);
/// ```
#[derive(Debug, Module)]
#[doc(alias = "torch.nn.parallel.DistributedDataParallel")]
#[doc(alias = "torch.nn.parallel.DistributedDataParallelCPU")]
#[doc(alias = "torch.nn.parallel.deprecated.DistributedDataParallel")]
pub struct DistributedDataParallel<M: Module> {
    base: Base,
    /// The model.
    pub module: M,
    #[module(skip)]
    reducer: Arc<Reducer>,
    /// parameters, and buffers if they are brought to all
    #[module(skip)]
    state: Vec<Tensor>,
    #[module(skip)]
    join: JoinHandle,
    #[module(skip)]
    told: logging::Told,
}

impl<M: Module> DistributedDataParallel<M> {
    /// Around a model, with the default group. Panics with the error's text.
    #[track_caller]
    pub fn new(module: M) -> Self {
        expect(Self::try_new(module, DistributedDataParallelOptions::new()))
    }
    /// [`DistributedDataParallel::new`] with all keywords.
    #[track_caller]
    pub fn new_with(module: M, options: DistributedDataParallelOptions) -> Self {
        expect(Self::try_new(module, options))
    }
    /// [`DistributedDataParallel::new_with`] with an error instead of a panic.
    ///
    /// # Errors
    /// No job, no parameter that wants a gradient, parameters that differ in number or sizes between the ranks, and what collectives
    /// meet.
    pub fn try_new(module: M, options: DistributedDataParallelOptions) -> Result<Self> {
        let mut o = options;
        let first_buffers = o.broadcast_buffers || o.forward_sync_buffers.is_some();
        o.broadcast_buffers = o.forward_sync_buffers.unwrap_or(o.broadcast_buffers);
        ensure!(
            o.delay_all_reduce_named_params.is_some() == o.param_to_hook_all_reduce.is_some(),
            Value,
            "delay_all_reduce_named_params and param_to_hook_all_reduce need to be set at the same time."
        );
        let group = match (&o.process_group, &o.device_mesh) {
            (Some(_), Some(_)) => {
                bail!(Runtime, "Cannot specify both process_group and device_mesh arguments.")
            }
            (Some(g), None) => g.clone(),
            (None, Some(m)) => {
                ensure!(m.ndim() == 1, Runtime, "Only 1D device mesh is supported, but got {m}.");
                m.try_get_group(None)?
            }
            (None, None) => World::current().default_group()?,
        };
        let delayed = o.delay_all_reduce_named_params.take();
        let waits = |name: &str| delayed.iter().flat_map(|d| &d.0).any(|(n, _)| n == name);
        let named = module.named_parameters().into_iter();
        let parameters: Vec<_> = named.filter(|(n, _)| !waits(n)).map(|(_, p)| p).collect();
        ensure!(
            !parameters.iter().any(flambeau_nn::Parameter::is_uninitialized),
            Runtime,
            "Modules with uninitialized parameters can't be used with `DistributedDataParallel`. Run a dummy forward pass to correctly initialize the modules"
        );
        let all: Vec<Tensor> = parameters.iter().map(|p| p.tensor().clone()).collect();
        let wanted: Vec<Tensor> = all.iter().filter(|t| t.requires_grad()).cloned().collect();
        ensure!(
            !wanted.is_empty() || delayed.as_ref().is_some_and(|d| !d.0.is_empty()),
            Runtime,
            "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient."
        );
        ensure!(
            o.bucket_cap_mb.is_none() || o.bucket_cap_mb_list.is_none(),
            Value,
            "bucket_cap_mb and bucket_cap_mb_list cannot both be specified"
        );
        let buffers: Vec<Tensor> = module.buffers().iter().map(|b| b.tensor().clone()).collect();
        ensure!(
            !module.modules().iter().any(|m| m.is::<flambeau_nn::SyncBatchNorm>()),
            Value,
            "SyncBatchNorm layers only work with GPU modules"
        );
        let with_buffers = |yes: bool| -> Vec<Tensor> {
            all.iter().chain(buffers.iter().filter(|_| yes)).map(|t| t.alias_detached()).collect()
        };
        if o.init_sync {
            verify(&wanted, &group)?;
            broadcast_coalesced(&with_buffers(first_buffers), &group, 0)?;
        }
        let state = with_buffers(o.broadcast_buffers);
        let sparse = sparse(&module, &wanted);
        let told = logging::Told::new(&module, &wanted, &o);
        let hooked = delayed.zip(o.param_to_hook_all_reduce.take());
        let hook = hooked.map(|(all, chosen)| delayed::hook(&all, &chosen, &group)).transpose()?;
        let reducer = Reducer::new(group, wanted, sparse, buffers, &o)?;
        hook.into_iter().for_each(|h| reducer.keep(h));
        let join = JoinHandle::default();
        Ok(DistributedDataParallel { base: Base::new(), module, reducer, state, join, told })
    }
    /// Says how the gradients of a bucket are brought together. Once for a model, on all ranks alike; panics where it is the second time.
    #[track_caller]
    #[doc(alias = "torch.nn.parallel.DistributedDataParallel.register_comm_hook")]
    pub fn register_comm_hook(&self, hook: impl CommHook + 'static) {
        expect(self.try_register_comm_hook(hook));
    }
    /// [`DistributedDataParallel::register_comm_hook`] with an error instead of a panic.
    ///
    /// # Errors
    /// There is a hook already.
    pub fn try_register_comm_hook(&self, hook: impl CommHook + 'static) -> Result<()> {
        self.reducer.set_hook(Box::new(hook))
    }
    /// A hook by the name of PyTorch's C++ side.
    ///
    /// # Errors
    /// There is a hook already.
    pub fn register_builtin_comm_hook(&self, kind: BuiltinCommHookType) -> Result<()> {
        self.reducer.set_hook(kind.hook(self.reducer.group()))
    }
    /// What the model has done so far, as PyTorch logs it.
    pub fn logging_data(&self) -> DdpLoggingData {
        self.told.now(&self.reducer)
    }
    /// Runs a loop over inputs of which ranks may have different numbers: see [`Join`].
    ///
    /// # Errors
    /// Those of the function, and of [`Join::try_run`].
    #[doc(alias = "torch.nn.parallel.DistributedDataParallel.join")]
    pub fn join<R>(&self, options: JoinOptions, f: impl FnOnce() -> Result<R>) -> Result<R> {
        Join::try_new(&[self], options)?.try_run(f)
    }
    /// Runs a function whose backward passes keep their gradients to themselves: to add up those of several batches. The first backward
    /// outside brings the sums together.
    #[doc(alias = "torch.nn.parallel.DistributedDataParallel.no_sync")]
    pub fn no_sync<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Back<'a>(&'a Reducer, bool);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.set_sync(self.1);
            }
        }
        let _back = Back(&self.reducer, self.reducer.set_sync(false));
        f()
    }
    /// The group.
    pub fn process_group(&self) -> ProcessGroup {
        self.reducer.group().clone()
    }
}
impl<I, M> Forward<I> for DistributedDataParallel<M>
where
    M: Module + Call<I>,
    M::Output: Tensors,
{
    type Output = M::Output;
    #[track_caller]
    fn forward(&self, input: I) -> M::Output {
        expect(self.try_forward(input))
    }
    fn try_forward(&self, input: I) -> Result<M::Output> {
        let present = Join::notify(&self.join, self.reducer.group())?;
        self.reducer.divide_by(present.filter(|_| self.told.divides_by_present()));
        self.reducer.before_forward(self.join.is_enabled())?;
        if self.join.is_enabled() {
            uneven::asks_for_sync(&self.reducer, false)?;
        }
        let out = self.module.try_call(input)?;
        let mut roots = Vec::new();
        out.visit_tensors(&mut |t| roots.push(t.clone()));
        self.reducer.after_forward(&roots)?;
        Ok(out)
    }
}

impl<M: Module> Joinable for DistributedDataParallel<M> {
    fn join_hook(&self, options: &JoinOptions) -> Box<dyn JoinHook> {
        self.told.joins(options.divide_by_initial_world_size);
        Box::new(uneven::Shadow { reducer: self.reducer.clone(), state: self.state.clone() })
    }
    fn join_process_group(&self) -> ProcessGroup {
        self.reducer.group().clone()
    }
    fn join_handle(&self) -> &JoinHandle {
        &self.join
    }
}

/// Which parameters get sparse gradients: tables of embeddings that say so.
fn sparse(module: &dyn Module, wanted: &[Tensor]) -> Vec<bool> {
    let mut tables = Vec::new();
    for m in module.modules() {
        if let Some(e) = m.downcast_ref::<flambeau_nn::Embedding>().filter(|e| e.options.sparse) {
            tables.push(e.weight.tensor().clone());
        }
        if let Some(e) = m.downcast_ref::<flambeau_nn::EmbeddingBag>().filter(|e| e.options.sparse) {
            tables.push(e.weight.tensor().clone());
        }
    }
    wanted.iter().map(|t| tables.iter().any(|s| s.storage().same(t.storage()))).collect()
}

/// That all ranks have as many parameters, and of the same sizes.
fn verify(wanted: &[Tensor], group: &ProcessGroup) -> Result<()> {
    let o = || CollectiveOptions::new().group(group);
    let count = wanted.len() as i64;
    let all: Vec<Tensor> =
        (0..group.size()).map(|_| Tensor::zeros_raw(&[1], DType::I64, Device::Cpu)).collect::<Result<_>>()?;
    try_all_gather(&all, &Tensor::from_vec_raw(vec![count], &[1])?, o())?;
    for (r, t) in all.iter().enumerate() {
        let other = numbers(t)?.first().copied().unwrap_or(0);
        if other != count {
            bail!(
                Runtime,
                "DDP expects same model across all ranks, but Rank {} has {count} params, while rank {r} has inconsistent {other} params.",
                group.rank()
            );
        }
    }
    let mine: Vec<i64> = wanted.iter().flat_map(|t| t.sizes().iter().chain(t.strides()).copied()).collect();
    let first = Tensor::from_vec_raw(mine.clone(), &[mine.len() as i64])?;
    try_broadcast(&first, Peer::InGroup(0), o())?;
    let first = numbers(&first)?;
    let mut at = 0;
    for (i, t) in wanted.iter().enumerate() {
        let d = t.sizes().len();
        let (sizes, strides) = (&first[at..at + d], &first[at + d..at + 2 * d]);
        let shown = |l: &[i64]| l.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        ensure!(
            sizes == t.sizes(),
            Runtime,
            "[{}]: params[{i}] in this process with sizes [{}] appears not to match sizes of the same param in process 0.",
            group.rank(),
            shown(t.sizes())
        );
        ensure!(
            strides == t.strides(),
            Runtime,
            "[{}]: params[{i}] in this process with strides [{}] appears not to match strides of the same param in process 0.",
            group.rank(),
            shown(t.strides())
        );
        at += 2 * d;
    }
    Ok(())
}
fn numbers(t: &Tensor) -> Result<Vec<i64>> {
    Ok(bytes::read(t)?.as_chunks::<8>().0.iter().map(|c| i64::from_le_bytes(*c)).collect())
}

/// Brings tensors of one rank to all, flattened by dtype.
pub(crate) fn broadcast_coalesced(all: &[Tensor], group: &ProcessGroup, from: i64) -> Result<()> {
    let items: Vec<Item> = all
        .iter()
        .map(|t| Item { bytes: t.numel() as usize * t.dtype().size(), dtype: t.dtype(), sparse: false })
        .collect();
    for (members, _) in assign(&items, &[BROADCAST], None) {
        let parts: Vec<Vec<u8>> =
            members.iter().map(|i| bytes::read_in_order(&all[*i])).collect::<Result<_>>()?;
        let whole = parts.concat();
        let dtype = all[members[0]].dtype();
        let flat = Tensor::empty_raw(&[(whole.len() / dtype.size()) as i64], dtype, Device::Cpu)?;
        bytes::write(&flat, &whole)?;
        try_broadcast(&flat, Peer::InGroup(from), CollectiveOptions::new().group(group))?;
        if group.rank() != from {
            let got = bytes::read(&flat)?;
            let mut rest = &got[..];
            for (i, p) in members.iter().zip(&parts) {
                let (mine, after) = rest.split_at(p.len());
                bytes::write_in_order(&all[*i], mine)?;
                rest = after;
            }
        }
    }
    Ok(())
}
/// Limits of the first buckets: all in one, as long as nobody can say in which order gradients come.
pub(crate) fn first_limits(o: &DistributedDataParallelOptions, limits: &[usize]) -> Vec<usize> {
    let one = o.bucket_cap_mb_list.is_none() && (o.static_graph || !o.find_unused_parameters);
    if one { vec![i64::MAX as usize] } else { limits.to_vec() }
}
/// Limits of buckets in bytes: what the options say, or PyTorch's.
pub(crate) fn limits(o: &DistributedDataParallelOptions) -> Vec<usize> {
    let bytes = |mb: f64| (mb * MIB) as usize;
    match (&o.bucket_cap_mb_list, o.bucket_cap_mb) {
        (Some(l), _) => l.0.iter().map(|m| bytes(*m)).collect(),
        (None, Some(m)) => vec![bytes(m)],
        (None, None) => vec![bytes(1.0), bytes(25.0)],
    }
}
