//! Training with a copy of the model on each rank (`torch.nn.parallel`).

pub(crate) mod buckets;
mod reducer;

use crate::bytes;
use crate::group::ProcessGroup;
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
        let o = options;
        let group = match &o.process_group {
            Some(g) => g.clone(),
            None => World::current().default_group()?,
        };
        let all: Vec<Tensor> = module.parameters().iter().map(|p| p.tensor().clone()).collect();
        let wanted: Vec<Tensor> = all.iter().filter(|t| t.requires_grad()).cloned().collect();
        ensure!(
            !wanted.is_empty(),
            Runtime,
            "DistributedDataParallel is not needed when a module doesn't have any parameters that require a gradient."
        );
        ensure!(
            o.bucket_cap_mb.is_none() || o.bucket_cap_mb_list.is_none(),
            Value,
            "bucket_cap_mb and bucket_cap_mb_list cannot both be specified"
        );
        let buffers: Vec<Tensor> = module.buffers().iter().map(|b| b.tensor().clone()).collect();
        if o.init_sync {
            verify(&wanted, &group)?;
            let state: Vec<Tensor> = all.iter().chain(&buffers).map(|t| t.alias_detached()).collect();
            broadcast_coalesced(&state, &group)?;
        }
        let reducer = Reducer::new(group, wanted, buffers, &o)?;
        Ok(DistributedDataParallel { base: Base::new(), module, reducer })
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
        self.reducer.before_forward()?;
        let out = self.module.try_call(input)?;
        let mut roots = Vec::new();
        out.visit_tensors(&mut |t| roots.push(t.clone()));
        self.reducer.after_forward(&roots)?;
        Ok(out)
    }
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

/// Brings tensors of rank 0 to all, flattened by dtype.
pub(crate) fn broadcast_coalesced(all: &[Tensor], group: &ProcessGroup) -> Result<()> {
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
        try_broadcast(&flat, Peer::InGroup(0), CollectiveOptions::new().group(group))?;
        if group.rank() != 0 {
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
/// Limits of buckets in bytes: what the options say, or PyTorch's.
fn limits(o: &DistributedDataParallelOptions) -> Vec<usize> {
    let bytes = |mb: f64| (mb * MIB) as usize;
    match (&o.bucket_cap_mb_list, o.bucket_cap_mb) {
        (Some(l), _) => l.0.iter().map(|m| bytes(*m)).collect(),
        (None, Some(m)) => vec![bytes(m)],
        (None, None) => vec![bytes(1.0), bytes(25.0)],
    }
}
